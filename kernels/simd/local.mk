# SPDX-License-Identifier: BSD-3-Clause
# simd/: vectors of 16 numbers and 64 bytes, in three instruction sets.
libtagc_a_SOURCES += \
  %D%/bytes.h %D%/bytes_avx2.h %D%/bytes_avx512.h %D%/bytes_plain.h %D%/doubles.h %D%/doubles_avx2.h \
  %D%/doubles_avx512.h %D%/doubles_plain.h %D%/vector.h %D%/vector_avx2.h \
  %D%/vector_avx512.h %D%/vector_plain.h %D%/vector_sum.h
