/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_DEPTH: in how many pieces (kernels/codec/pieces.h) the calls of a slot are compressed, and where these are.
 *
 * By itself a call is cut as long as what a rank sends of a piece is worth an exchange of its own; with TAGC_CODEC=auto, and what it
 * knows of the wire and of the codec, only where that is expected to be faster. Codecs with several exchanges (lhc) are not cut.
 * All of it follows from facts that are equal on all ranks; a rank that has no lane says so in the vote (proposal.c), and then all do
 * without.
 */
#ifndef INTERPOSE_COMM_CHUNKING_H
#define INTERPOSE_COMM_CHUNKING_H

#include "interpose/comm/comm.h"
#include "interpose/policy/chunk_count.h"

/* Gives the slot so many pieces, with their layouts. False where one of them cannot be: then it has one. */
bool tagc_depth_cut(const struct tagc_device *device, struct tagc_slot *slot, int depth);

/* The same for what is gathered: `layout` becomes that of the pieces together. */
bool tagc_depth_cut_gather(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                           const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *layout,
                           struct tagc_gather_pieces *cut, int depth);

/* The jobs of the pieces, from that of the call, with their payloads and states from `base` on (aligned to 64 bytes). With one piece that of
 * the call gets them. Returns the bytes that they take; where base is NULL that is all, and `piece` may be, too. */
size_t tagc_depth_carve(const struct tagc_slot *slot, struct tagc_job *job, struct tagc_job *piece, uint8_t *base);
size_t tagc_depth_carve_gather(const struct tagc_gather_pieces *cut, struct tagc_allgather_job *job, struct tagc_allgather_job *piece,
                               uint8_t *base);

/* What a call takes at most, whatever the vote makes of its pieces. */
size_t tagc_depth_gather_bytes(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                               const struct tagc_allgather_shape *shape, const struct tagc_allgather_layout *layout,
                               const struct tagc_gather_pieces *cut);

#endif
