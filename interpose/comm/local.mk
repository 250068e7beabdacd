# SPDX-License-Identifier: BSD-3-Clause
# comm/: the state of a communicator.
libtagc_a_SOURCES += \
  %D%/accounts.c %D%/allgathers.c %D%/allgathers.h %D%/call.h %D%/chunking.c %D%/chunking.h %D%/comm.c \
  %D%/comm.h %D%/memory.c %D%/memory.h %D%/observed.h %D%/owner.c %D%/owner.h %D%/partial.c %D%/partial.h \
  %D%/placement.c %D%/placement.h %D%/progress.c %D%/progress.h %D%/redop.c %D%/shards.c %D%/slot.c \
  %D%/slot.h %D%/sync.h \
  %D%/table.c %D%/table.h %D%/trace_comms.c %D%/traced.h %D%/votes.h
