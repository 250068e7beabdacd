# SPDX-License-Identifier: BSD-3-Clause
# dense/: bf16, q8, q4 and q2.
libtagc_a_SOURCES += \
  %D%/bf16.c %D%/cuda.c %D%/cuda.h %D%/dense.c %D%/dense.h %D%/plain.c %D%/q2.c %D%/q4.c %D%/q8.c
libtagc_avx2_a_SOURCES += %D%/avx2.c
libtagc_avx512_a_SOURCES += %D%/avx512.c
EXTRA_DIST += %D%/kernels.inc.c
cuda_sources += %D%/codecs.cuh %D%/dense.cu
