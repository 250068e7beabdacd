# SPDX-License-Identifier: BSD-3-Clause
# none/: the codec that changes nothing: what a new one is copied from.
libtagc_a_SOURCES += \
  %D%/codec.c %D%/cuda.c %D%/cuda.h
cuda_sources += %D%/none.cu
