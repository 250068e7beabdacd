# SPDX-License-Identifier: BSD-3-Clause
# none/: the codec that changes nothing, and the template of a new one.
libtagc_a_SOURCES += \
  %D%/codec.c %D%/cuda.c %D%/cuda.h
cuda_sources += %D%/none.cu
