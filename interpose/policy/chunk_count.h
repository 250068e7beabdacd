/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_DEPTH: in how many chunks (kernels/codec/chunks.h) a call is compressed. Pure functions.
 *
 * By itself a call goes in chunks as long as the bytes that a rank sends of one are worth an exchange of their own;
 * with TAGC_CODEC=auto, which knows the wire and the codec, only where that is expected to be faster. Codecs with
 * several exchanges (lhc) go in one.
 */
#ifndef INTERPOSE_POLICY_CHUNK_COUNT_H
#define INTERPOSE_POLICY_CHUNK_COUNT_H

#include "env/options.h"
#include "kernels/codec/allgather.h"
#include "kernels/codec/cost.h"
#include "kernels/codec/chunks.h"

/* In how many chunks. `layout`: of the whole; `times`: NULL where nothing is known. Pure. */
int tagc_chunk_count(const struct tagc_options *options, const struct tagc_codec *codec, const struct tagc_shape *shape,
                     const struct tagc_layout *layout, const struct tagc_call_times *times);

/* The same for an all-gather, of which `layout` is that of the whole: as often as what a rank sends is worth it.
 * Pure. */
int tagc_chunk_count_allgather(const struct tagc_options *options, const struct tagc_allgather_shape *shape,
                               const struct tagc_allgather_layout *layout);

#endif
