/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_DEPTH: the chunks (kernels/codec/chunks.h) in which calls of a slot are compressed, and their buffers.
 *
 * A call is cut as long as the payload of a chunk is worth an exchange of its own. TAGC_CODEC=auto knows the wire and
 * the codec, and cuts only if that should be faster. All of this follows from facts that are equal on all ranks. A rank
 * without a side stream reports that in the vote (proposal.c), and all ranks use one chunk.
 */
#ifndef INTERPOSE_COMM_CHUNKING_H
#define INTERPOSE_COMM_CHUNKING_H

#include "interpose/policy/chunk_count.h"
#include "kernels/codec/chunks.h"
#include "kernels/codec/device.h"

struct tagc_slot;

/* The chunks of a call, and their layouts. */
struct tagc_chunking {
  struct tagc_chunks chunks;
  struct tagc_layout layout[TAGC_CHUNKS];
};
struct tagc_allgather_chunking {
  struct tagc_chunks chunks;
  struct tagc_allgather_layout layout[TAGC_CHUNKS];
};

/* Sets the slot's number of chunks and their layouts. False if a chunk is impossible: then it has one. */
bool tagc_chunking_set(const struct tagc_device *device, struct tagc_slot *slot, int count);

/* Sets the slot's stage, and with it keep_ppm and the layouts, for that number of chunks. False: it has no such chunks
 * at that stage, and is as it was. */
bool tagc_chunking_set_stage(const struct tagc_device *device, struct tagc_slot *slot, uint32_t stage, int count);

/* The same for all-gathers: sets `layout` to that of the chunks together. */
bool tagc_chunking_set_allgather(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                                 const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *layout,
                                 struct tagc_allgather_chunking *chunking, int count);

/* Makes the chunks' jobs from the call's job. Their payloads and states lie from `base` on (aligned to 64 bytes). With
 * one chunk the call's own job gets these; with several, the exponents of all, which go in one exchange. Returns the
 * bytes needed; with base = NULL does nothing else. */
size_t tagc_chunking_assign(const struct tagc_slot *slot, struct tagc_job *job, struct tagc_job *chunk, uint8_t *base);
size_t tagc_chunking_assign_allgather(const struct tagc_allgather_chunking *chunking, struct tagc_allgather_job *job,
                                      struct tagc_allgather_job *chunk, uint8_t *base);

/* The most bytes that a call needs, whatever chunks the vote chooses. */
size_t tagc_chunking_allgather_bytes(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                                     const struct tagc_allgather_shape *shape,
                                     const struct tagc_allgather_layout *layout,
                                     const struct tagc_allgather_chunking *chunking);

#endif
