# SPDX-License-Identifier: BSD-3-Clause
# sparse/: the codec that sends the largest values and their places.
libtagc_a_SOURCES += \
  %D%/codec.c %D%/cuda.c %D%/cuda.h %D%/prefetch_places.h %D%/sparse.c %D%/sparse.h %D%/sparsify.c %D%/sparsify.h \
  %D%/sparsify_bits.h %D%/sparsify_cuda.c %D%/sparsify_cuda.h %D%/sparsify_vector.h %D%/sparsify_vector_avx2.h \
  %D%/sparsify_vector_avx512.h %D%/sparsify_vector_plain.h
simd_sources += %D%/kernels.c %D%/sparsify_kernels.c
cuda_sources += %D%/lines.cuh %D%/shard_norms.cuh %D%/sparse.cu %D%/sparsify.cu %D%/sparsify_bins.cuh %D%/sparsify_tiles.cuh
