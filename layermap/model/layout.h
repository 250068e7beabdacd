/* SPDX-License-Identifier: BSD-3-Clause
 * How a framework lays the parameters that it communicates at once out in the send buffer of a reduce-scatter.
 *
 * The buffer holds nranks shards of equally many elements, shard r is the one that rank r receives.
 *   fsdp1     (torch FullyShardedDataParallel) the parameters flat, one behind the other, each padded to 16 bytes where
 *             original parameters are kept (fsdp1_aligned); zeros at the end up to a multiple of the ranks: shard r is
 *             the r-th part
 *   fsdp2     (torch fully_shard) of every parameter the r-th chunk of ceil(rows / nranks) rows, padded with zeros;
 *             shard r is the concatenation of these: all shards look alike
 *   zero3     (DeepSpeed) of every parameter, flat, the r-th part of ceil(elements / nranks); shard r is their
 *             concatenation
 *   megatron  (Megatron-core's buckets) flat as fsdp1, each parameter beginning at a multiple of 64, parameters in the
 *             reverse of their order, the end of a bucket padded to a multiple of lcm(nranks, 128)
 * Sources: torch/distributed/fsdp/_flat_param.py, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py,
 * deepspeed/runtime/comm/coalesced_collectives.py, megatron/core/distributed/param_and_grad_buffer.py.
 *
 * Pure functions of their arguments; any thread; no allocation.
 */
#ifndef LAYERMAP_MODEL_LAYOUT_H
#define LAYERMAP_MODEL_LAYOUT_H

#include "layermap/model/model.h"

/* "fsdp1" and so on, and NULL at the end. */
extern const char *const tagc_layout_names[TAGC_LAYOUTS + 1];
const char *tagc_layout_name(enum tagc_layout_kind layout);

/* A parameter of what is communicated at once, which may take some of a unit, or several units. */
struct tagc_member {
  const struct tagc_parameter *parameter;
  int32_t block;    /* of its place; -1: none */
  const char *unit; /* the name of its unit; asked for in blocks alone */
};

/* Where Megatron's parameters begin: at multiples of that. */
enum { TAGC_MEGATRON_PARAMETER = 64 };

/* Of layouts that give every shard a chunk of each parameter (fsdp2, zero3), the elements of a chunk; of others those
 * that a parameter takes of the whole, without the padding of fsdp1_aligned. */
static inline uint64_t tagc_layout_part(enum tagc_layout_kind layout, uint64_t rows, uint64_t columns, int nranks) {
  const uint64_t elements = rows * columns, ranks = (uint64_t)nranks;
  switch (layout) {
  case TAGC_LAYOUT_FSDP2: return (rows / ranks + (rows % ranks != 0)) * columns;
  case TAGC_LAYOUT_ZERO3: return elements / ranks + (elements % ranks != 0);
  case TAGC_LAYOUT_MEGATRON:
    return (elements + TAGC_MEGATRON_PARAMETER - 1) / TAGC_MEGATRON_PARAMETER * TAGC_MEGATRON_PARAMETER;
  default: return elements;
  }
}
/* Elements of one shard where the parts of all parameters are so many together. */
uint64_t tagc_layout_shard_of_parts(enum tagc_layout_kind layout, uint64_t parts, int nranks);

/* Elements of one shard; UINT64_MAX: more than can be counted. element_bytes: of the type that the layout was made for,
 * which is that of the parameters in forward and backward (fsdp1_aligned); 4, 2. */
uint64_t tagc_layout_shard(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count, int nranks,
                           size_t element_bytes);

/* A stretch of a shard that belongs to one parameter, or is padding. */
struct tagc_segment {
  uint64_t offset, length; /* elements, from the beginning of the shard; length >= 1 */
  int32_t member;          /* index into members; -1: padding */
};

/* Are the shards all alike, but for where padding is? */
bool tagc_layout_is_uniform(enum tagc_layout_kind layout);

/* Calls `visit` for the segments of shard `shard` in their order; they cover it without gaps. Padding between two
 * members may come in two segments. Stops, and gives false, where `visit` gives false (or what cannot be counted is to
 * be walked). */
bool tagc_layout_walk(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count, int nranks,
                      size_t element_bytes, int shard, bool (*visit)(const struct tagc_segment *segment, void *data),
                      void *data);

#endif
