# SPDX-License-Identifier: BSD-3-Clause
# exec/: how a compressed call runs.
libtagc_a_SOURCES += \
  %D%/allgather.c %D%/allgather_phase.c %D%/broadcast.c %D%/dump.c %D%/dump.h %D%/execute.c %D%/execute.h %D%/hierarchy.c \
  %D%/hierarchy.h %D%/loss_samples.c %D%/loss_samples.h %D%/nccl_group.c %D%/nccl_group.h \
  %D%/order.c %D%/order.h %D%/reduce_scatter.c %D%/timing.c %D%/timing.h %D%/work.h
EXTRA_DIST += %D%/README.md
