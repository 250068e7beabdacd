/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_DEPTH: the chunks (kernels/codec/chunks.h) in which the calls of a slot are compressed, and where these lie.
 *
 * A call is cut as long as the payload of a chunk is worth an exchange of its own. With TAGC_CODEC=auto, which knows
 * the wire and the codec, it is cut only if that is expected to be faster. Codecs with several exchanges (lhc) are not
 * cut. All of it follows from facts that are equal on all ranks. A rank without a side stream says so in the vote
 * (proposal.c), and all ranks use one chunk.
 */
#ifndef INTERPOSE_COMM_CHUNKING_H
#define INTERPOSE_COMM_CHUNKING_H

#include "interpose/policy/chunk_count.h"
#include "kernels/codec/chunks.h"
#include "kernels/codec/device.h"

struct tagc_slot;

/* In which chunks something goes, and their layouts. */
struct tagc_chunking {
  struct tagc_chunks chunks;
  struct tagc_layout layout[TAGC_CHUNKS];
};
struct tagc_allgather_chunking {
  struct tagc_chunks chunks;
  struct tagc_allgather_layout layout[TAGC_CHUNKS];
};

/* Gives the slot so many chunks, with their layouts. False where one of them cannot be: then it has one. */
bool tagc_chunking_set(const struct tagc_device *device, struct tagc_slot *slot, int count);

/* The same for what is gathered: `layout` becomes that of the chunks together. */
bool tagc_chunking_set_allgather(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                                 const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *layout,
                                 struct tagc_allgather_chunking *chunking, int count);

/* Makes the jobs of the chunks of that of the call, with payloads and states from `base` on (aligned to 64 bytes). With
 * one chunk the job of the call gets these. Returns the bytes that they take; with NULL for base that is all. */
size_t tagc_chunking_assign(const struct tagc_slot *slot, struct tagc_job *job, struct tagc_job *chunk, uint8_t *base);
size_t tagc_chunking_assign_allgather(const struct tagc_allgather_chunking *chunking, struct tagc_allgather_job *job,
                                      struct tagc_allgather_job *chunk, uint8_t *base);

/* The most bytes that a call takes, whatever the vote makes of its chunks. */
size_t tagc_chunking_allgather_bytes(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                                     const struct tagc_allgather_shape *shape,
                                     const struct tagc_allgather_layout *layout,
                                     const struct tagc_allgather_chunking *chunking);

#endif
