# SPDX-License-Identifier: BSD-3-Clause
# allgather/: codecs of all-gathers.
libtagc_a_SOURCES += \
  %D%/allgather.c %D%/bf16.c %D%/cuda.c %D%/cuda.h %D%/delta.c %D%/exact.c %D%/exact.h %D%/exact_cuda.c \
  %D%/exact_steps.h %D%/kernels.h %D%/lossless.c %D%/q8.c %D%/steps.h %D%/support.c \
  %D%/support.h %D%/support_cuda.c
simd_sources += %D%/exact_kernels.c %D%/kernels.c
cuda_sources += %D%/allgather.cu %D%/exact.cu %D%/exact.cuh %D%/lossless.cuh %D%/support.cu
