/* SPDX-License-Identifier: BSD-3-Clause
 * Slots of which a part is compressed: parameters that TAGC_LAYERS selects, beside others in the same buffer.
 *
 * A call packs the selected elements and the rest, each by itself (layermap/model/parts.h). The codec gets packed
 * shards, as any gradient. The rest goes by one more reduce-scatter in the group of the payloads, with the program's
 * own reduction: it comes out as without the library. In the end both sums are unpacked into the receive buffer. So
 * nothing reads the send buffer after packing, or writes the receive buffer before unpacking, in place or not. In two
 * levels a call packs the sums of this host: one shard for each host, of the owners with this rank's local index.
 *
 * Memory     Packed buffers lie in the workspace of the communicator.
 * Threads    As those of comm.h. Packing is done between tagc_comms_enter_driver() and tagc_comms_leave_driver().
 */
#ifndef INTERPOSE_COMM_PARTIAL_H
#define INTERPOSE_COMM_PARTIAL_H

#include "kernels/codec/codec.h"
#include "layermap/model/parts.h"
#include "layermap/model/select.h"

struct tagc_call;
struct tagc_comm;
struct tagc_slot;

/* What of a slot is selected, since its lock. */
struct tagc_slot_selection {
  bool layer_known; /* and with it: */
  enum tagc_selection selection;
  struct tagc_parts *parts; /* selected in part; else NULL */
  bool owns_parts;          /* and not another slot, which is like it */
};

/* At a lock, by comm->layers: selects slots, and parts of them. Slots that are alike share their parts. Without layers
 * slots are selected by their names later. False without memory. */
bool tagc_partial_select(struct tagc_comm *comm);

/* Gives back the parts of slots. */
void tagc_partial_free(struct tagc_slot *slots, size_t count);

/* A call's packed buffers; parts = NULL: none, as all is selected. */
struct tagc_partial {
  const struct tagc_parts *parts;
  uint8_t *selected, *rest;         /* a packed shard for each rank that exchanges */
  uint8_t *selected_sum, *rest_sum; /* this rank's, with what has come from the others */
};

/* Points them into the memory at `base`, aligned to 64 bytes (NULL: not at all); returns the bytes that they take. */
size_t tagc_partial_assign_buffers(struct tagc_partial *partial, const struct tagc_slot *slot, uint8_t *base);

/* Packs what a call sends: `from` holds a shard for each rank that exchanges. */
bool tagc_partial_pack(const struct tagc_partial *partial, const struct tagc_call *call, const void *from);
/* Into the receive buffer. */
bool tagc_partial_unpack(const struct tagc_partial *partial, const struct tagc_call *call);

/* For a sample of the gradient, before hosts are known: packs the selected parts of all shards of the send buffer. */
bool tagc_partial_pack_selected(const struct tagc_call *call, const struct tagc_parts *parts, void *to);

/* The number of copies that pack and unpack a call, flat. */
uint64_t tagc_partial_copies(const struct tagc_parts *parts, int nranks);

#endif
