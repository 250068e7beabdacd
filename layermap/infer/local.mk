# SPDX-License-Identifier: BSD-3-Clause
# infer/: finds the model from the calls.
libtagc_a_SOURCES += \
  %D%/division.c %D%/division.h %D%/doubts.c %D%/layers.c %D%/layers.h %D%/match.c %D%/match.h %D%/prior.c \
  %D%/prior.h %D%/search.h %D%/search_blocks.c %D%/search_outside.c %D%/search_totals.c %D%/shapes.c %D%/shapes.h \
  %D%/solve.c %D%/solve.h %D%/wording.c %D%/wording.h
EXTRA_DIST += %D%/README.md
