# SPDX-License-Identifier: BSD-3-Clause
# vote/: how ranks choose a codec together.
libtagc_a_SOURCES += \
  %D%/changes.c %D%/changes.h %D%/message.c %D%/message.h %D%/probe.c %D%/probe.h %D%/proposal.c %D%/proposal.h \
  %D%/tune.c %D%/tune.h %D%/tune_allgathers.c %D%/tune_allgathers.h %D%/vote.c %D%/vote.h
EXTRA_DIST += %D%/README.md
