/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_DEPTH: the number of chunks (kernels/codec/chunks.h) of a compressed call. Pure functions.
 *
 * By default a call goes in chunks as long as the bytes that a rank sends of one are worth an exchange of their own.
 * TAGC_CODEC=auto knows the wire and the codec, and cuts only if that should be faster.
 */
#ifndef INTERPOSE_POLICY_CHUNK_COUNT_H
#define INTERPOSE_POLICY_CHUNK_COUNT_H

#include "env/options.h"
#include "kernels/codec/allgather.h"
#include "kernels/codec/cost.h"
#include "kernels/codec/chunks.h"

/* The number of chunks. `layout`: of the whole; `times`: NULL if unknown. */
int tagc_chunk_count(const struct tagc_options *options, const struct tagc_codec *codec, const struct tagc_shape *shape,
                     const struct tagc_layout *layout, const struct tagc_call_times *times);

/* The same for an all-gather, with the `layout` of the whole: as many as are worth the bytes that a rank sends. */
int tagc_chunk_count_allgather(const struct tagc_options *options, const struct tagc_allgather_shape *shape,
                               const struct tagc_allgather_layout *layout);

#endif
