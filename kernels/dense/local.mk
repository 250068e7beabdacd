# SPDX-License-Identifier: BSD-3-Clause
# dense/: codecs that store every value in a few bits.
libtagc_a_SOURCES += \
  %D%/bf16.c %D%/cuda.c %D%/cuda.h %D%/dense.c %D%/dense.h %D%/q2.c %D%/q3.c %D%/q4.c %D%/q8.c
simd_sources += %D%/kernels.c
cuda_sources += %D%/codecs.cuh %D%/dense.cu
EXTRA_DIST += %D%/README.md
