# SPDX-License-Identifier: BSD-3-Clause
# lhc/: lossless homomorphic compression.
libtagc_a_SOURCES += \
  %D%/codec.c %D%/codec.h %D%/cuda.c %D%/cuda.h %D%/decode.c %D%/layout.c %D%/lhc.h %D%/prepare.c %D%/vector.h \
  %D%/vector_avx2.h %D%/vector_avx512.h %D%/vector_plain.h
simd_sources += %D%/kernels.c
EXTRA_DIST += %D%/receive.inc.c %D%/send.inc.c
cuda_sources += %D%/lhc.cu
