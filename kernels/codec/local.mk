# SPDX-License-Identifier: BSD-3-Clause
# codec/: the interface of codecs, and code that all of them use.
libtagc_a_SOURCES += \
  %D%/allgather.h %D%/bits.h %D%/blocks.h %D%/assign_buffer.h %D%/codec.h %D%/codecs.def %D%/codecs.h %D%/cost.c %D%/cost.h \
  %D%/device.h %D%/exceptions.c %D%/exceptions.h %D%/fpmode.h %D%/instruction_set.h %D%/lossless.h %D%/chunks.c \
  %D%/chunks.h %D%/residual.c %D%/residual.h %D%/residual_blocks.h %D%/rotate.h %D%/nonzero_index.c %D%/nonzero_index.h %D%/variant.c \
  %D%/variant.h
simd_sources += %D%/residual_blocks.c
