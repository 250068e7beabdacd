# SPDX-License-Identifier: BSD-3-Clause
# policy/: decides by pure functions whether compression pays.
libtagc_a_SOURCES += \
  %D%/choose.c %D%/choose.h %D%/choose_allgather.c %D%/choose_allgather.h %D%/chunk_count.c %D%/chunk_count.h \
  %D%/coll_config.c %D%/coll_config.h %D%/changes.c %D%/changes.h \
  %D%/option_check.c %D%/option_check.h %D%/plan.c %D%/plan.h %D%/reasons.def %D%/registered_memory.c \
  %D%/registered_memory.h %D%/topology.c %D%/topology.h
