# SPDX-License-Identifier: BSD-3-Clause
# sparse/: the largest values with their places.
libtagc_a_SOURCES += \
  %D%/codec.c %D%/cuda.c %D%/cuda.h %D%/plain.c %D%/sparse.c %D%/sparse.h %D%/sparsify.c %D%/sparsify.h \
  %D%/sparsify_bits.h %D%/sparsify_cuda.c %D%/sparsify_cuda.h %D%/sparsify_plain.c %D%/sparsify_vector.h \
  %D%/sparsify_vector_plain.h
libtagc_avx2_a_SOURCES += %D%/avx2.c %D%/sparsify_avx2.c %D%/sparsify_vector_avx2.h
libtagc_avx512_a_SOURCES += %D%/avx512.c %D%/sparsify_avx512.c %D%/sparsify_vector_avx512.h
EXTRA_DIST += %D%/kernels.inc.c %D%/sparsify_kernels.inc.c
cuda_sources += %D%/lines.cuh %D%/sparse.cu %D%/sparsify.cu %D%/sparsify_bins.cuh %D%/sparsify_tiles.cuh
