/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_DEPTH: in how many chunks (kernels/codec/chunks.h) the calls of a slot are compressed, and where these are.
 *
 * By itself a call is cut as long as what a rank sends of a chunk is worth an exchange of its own; with TAGC_CODEC=auto, and what it
 * knows of the wire and of the codec, only where that is expected to be faster. Codecs with several exchanges (lhc) are not cut.
 * All of it follows from facts that are equal on all ranks; a rank that has no side stream says so in the vote (proposal.c), and then all do
 * without.
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

/* The jobs of the chunks, from that of the call, with their payloads and states from `base` on (aligned to 64 bytes).
 * With one chunk that of the call gets them. Returns the bytes that they take; where base is NULL that is all, and
 * `chunk` may be, too. */
size_t tagc_chunking_assign(const struct tagc_slot *slot, struct tagc_job *job, struct tagc_job *chunk, uint8_t *base);
size_t tagc_chunking_assign_allgather(const struct tagc_allgather_chunking *chunking, struct tagc_allgather_job *job,
                                      struct tagc_allgather_job *chunk, uint8_t *base);

/* What a call takes at most, whatever the vote makes of its chunks. */
size_t tagc_chunking_allgather_bytes(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                               const struct tagc_allgather_shape *shape, const struct tagc_allgather_layout *layout,
                               const struct tagc_allgather_chunking *chunking);

#endif
