/* SPDX-License-Identifier: BSD-3-Clause
 * One line a codec: the list in codec.c takes them from here.
 */
#ifndef KERNELS_CODECS_H
#define KERNELS_CODECS_H

#include "kernels/codec.h"

extern const struct tagc_codec tagc_codec_none;
extern const struct tagc_codec tagc_codec_bf16;
extern const struct tagc_codec tagc_codec_q8;
extern const struct tagc_codec tagc_codec_q4;
extern const struct tagc_codec tagc_codec_q2;
extern const struct tagc_codec tagc_codec_sparse;
extern const struct tagc_codec tagc_codec_lhc;

#endif
