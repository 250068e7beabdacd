# SPDX-License-Identifier: BSD-3-Clause
# none/: the codec that changes nothing and is the template of a new one, and precise, which adds without error.
libtagc_a_SOURCES += \
  %D%/codec.c %D%/cuda.c %D%/cuda.h %D%/exact.h %D%/levels.c %D%/levels.h %D%/none.h %D%/precise.c
simd_sources += %D%/sums.c
cuda_sources += %D%/levels.cu %D%/none.cu %D%/precise.cu %D%/precise.cuh
