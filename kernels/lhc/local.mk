# SPDX-License-Identifier: BSD-3-Clause
# lhc/: lossless homomorphic compression.
libtagc_a_SOURCES += \
  %D%/codec.c %D%/codec.h %D%/cuda.c %D%/cuda.h %D%/decode.c %D%/layout.c %D%/lhc.h %D%/plain.c %D%/prepare.c \
  %D%/vector.h %D%/vector_plain.h
libtagc_avx2_a_SOURCES += %D%/avx2.c %D%/vector_avx2.h
libtagc_avx512_a_SOURCES += %D%/avx512.c %D%/vector_avx512.h
EXTRA_DIST += %D%/kernels.inc.c %D%/receive.inc.c %D%/send.inc.c
cuda_sources += %D%/lhc.cu
