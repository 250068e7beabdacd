# SPDX-License-Identifier: BSD-3-Clause
# budget/: TAGC_BUDGET, the codecs of all slots together.
libtagc_a_SOURCES += %D%/budget.c %D%/budget.h %D%/retune.c %D%/retune.h
EXTRA_DIST += %D%/README.md
