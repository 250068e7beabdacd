# SPDX-License-Identifier: BSD-3-Clause
libtagc_a_SOURCES += \
  kernels/codec.c kernels/codec.h kernels/codecs.h \
  kernels/codec_bits.h kernels/codec_lhc.h \
  kernels/codec_none.c kernels/codec_lhc.c \
  kernels/device.h kernels/device_host.c \
  kernels/exceptions.c kernels/exceptions.h \
  kernels/fpmode.h \
  kernels/lhc.h kernels/lhc_layout.c kernels/lhc_prepare.c kernels/lhc_decode.c kernels/lhc_sparse.c \
  kernels/lhc_plain.c \
  kernels/residual.c kernels/residual.h
EXTRA_DIST += kernels/lhc_kernels.inc.c
