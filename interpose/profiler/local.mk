# SPDX-License-Identifier: BSD-3-Clause
# profiler/: the plugin by which NCCL shows its kernels and its network.
libtagc_a_SOURCES += \
  %D%/events.c %D%/events.h %D%/expect.c %D%/expect.h %D%/offer.c %D%/profiler.h %D%/versions.c %D%/versions.h
