/* SPDX-License-Identifier: BSD-3-Clause
 * The codecs of codecs.def; device/codec.c lists them in this order.
 */
#ifndef KERNELS_CODEC_CODECS_H
#define KERNELS_CODEC_CODECS_H

#include "kernels/codec/codec.h"

#define CODEC(name) extern const struct tagc_codec tagc_codec_##name;
#include "kernels/codec/codecs.def"

#endif
