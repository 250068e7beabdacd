# SPDX-License-Identifier: BSD-3-Clause
# allgather/: codecs of all-gathers.
libtagc_a_SOURCES += \
  %D%/allgather.c %D%/bf16.c %D%/cuda.c %D%/cuda.h %D%/delta.c %D%/kernels.h %D%/lossless.c %D%/plain.c %D%/q8.c \
  %D%/steps.h
libtagc_avx2_a_SOURCES += %D%/avx2.c
libtagc_avx512_a_SOURCES += %D%/avx512.c
EXTRA_DIST += %D%/kernels.inc.c
cuda_sources += %D%/allgather.cu %D%/lossless.cuh
