# SPDX-License-Identifier: BSD-3-Clause
# cuda/: the driver, and a call on a GPU.
libtagc_a_SOURCES += \
  %D%/call.c %D%/call.h %D%/codecs.h %D%/driver.c %D%/driver.h %D%/kernel.h %D%/kernels.h
cuda_sources += %D%/call.cu %D%/call.cuh %D%/exceptions.cuh %D%/lanes.cuh
EXTRA_DIST += %D%/README.md
