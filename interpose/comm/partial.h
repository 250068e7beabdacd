/* SPDX-License-Identifier: BSD-3-Clause
 * Slots that are compressed in part: parameters that TAGC_LAYERS selects, beside others in the same buffer.
 *
 * A call packs the selected elements and the rest separately (layermap/model/parts.h). The codec gets packed shards,
 * like any gradient. The rest goes by another reduce-scatter in the group of the payloads, with the program's own
 * reduction: its result is the same as without the library. At the end both sums are unpacked into the receive buffer.
 * So nothing reads the send buffer after packing, or writes the receive buffer before unpacking, in place or not. In
 * two levels a call packs the sums of this host: one shard for each host, of the owners with this rank's local index.
 *
 * Memory     Packed buffers lie in the workspace of the communicator.
 * Threads    As in comm.h. Packing runs between tagc_comms_enter_driver() and tagc_comms_leave_driver().
 */
#ifndef INTERPOSE_COMM_PARTIAL_H
#define INTERPOSE_COMM_PARTIAL_H

#include "kernels/codec/codec.h"
#include "layermap/model/parts.h"
#include "layermap/model/select.h"

struct tagc_call;
struct tagc_comm;
struct tagc_slot;

/* The selection of a slot, since its lock. */
struct tagc_slot_selection {
  bool layer_known; /* and with it: */
  enum tagc_selection selection;
  struct tagc_parts *parts; /* selected in part; else NULL */
  bool owns_parts;          /* false: they belong to an earlier slot with equal parts */
};

/* At a lock, selects slots and parts of them by comm->layers. Slots that are alike share their parts. Without layers
 * the slots are selected by name later. False without memory. */
bool tagc_partial_select(struct tagc_comm *comm);

/* Frees the parts of slots. */
void tagc_partial_free(struct tagc_slot *slots, size_t count);

/* A call's packed buffers; parts = NULL: none, as all is selected. */
struct tagc_partial {
  const struct tagc_parts *parts;
  uint8_t *selected, *rest;         /* a packed shard for each rank that exchanges */
  uint8_t *selected_sum, *rest_sum; /* this rank's sums over all ranks */
};

/* Places the buffers at `base`, aligned to 64 bytes (NULL: does not); returns the bytes needed. */
size_t tagc_partial_assign_buffers(struct tagc_partial *partial, const struct tagc_slot *slot, uint8_t *base);

/* Packs a call's input: `from` holds a shard for each rank that exchanges. */
bool tagc_partial_pack(const struct tagc_partial *partial, const struct tagc_call *call, const void *from);
/* Unpacks both sums into the receive buffer. */
bool tagc_partial_unpack(const struct tagc_partial *partial, const struct tagc_call *call);

/* Packs the selected parts of all shards of the send buffer, for a sample of the gradient before hosts are known. */
bool tagc_partial_pack_selected(const struct tagc_call *call, const struct tagc_parts *parts, void *to);

/* The number of copies that pack and unpack a call, flat. */
uint64_t tagc_partial_copies(const struct tagc_parts *parts, int nranks);

#endif
