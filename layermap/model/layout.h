/* SPDX-License-Identifier: BSD-3-Clause
 * How frameworks lay out the parameters of one reduce-scatter in its send buffer.
 *
 * The buffer holds nranks shards of equally many elements; rank r receives shard r.
 *   fsdp1     (torch FullyShardedDataParallel) the parameters flat, one behind the other, with zeros at the end up to a
 *             multiple of the ranks. fsdp1_aligned (original parameters are kept) pads each to 16 bytes. Shard r is the
 *             r-th part
 *   fsdp2     (torch fully_shard) of every parameter the r-th chunk of ceil(rows / nranks) rows, padded with zeros;
 *             shard r concatenates these: all shards look alike
 *   zero3     (DeepSpeed) of every parameter, flat, the r-th part of ceil(elements / nranks); shard r concatenates
 *             these
 *   megatron  (Megatron-core's buckets) flat as fsdp1, in reverse order; each parameter begins at a multiple of 64. The
 *             end of a bucket is padded to a multiple of lcm(nranks, 128)
 * Sources: torch/distributed/fsdp/_flat_param.py, torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py,
 * deepspeed/runtime/comm/coalesced_collectives.py, megatron/core/distributed/param_and_grad_buffer.py.
 *
 * Pure functions of their arguments; any thread; no allocation.
 */
#ifndef LAYERMAP_MODEL_LAYOUT_H
#define LAYERMAP_MODEL_LAYOUT_H

#include "layermap/model/model.h"

/* "fsdp1" and so on, NULL-terminated. */
extern const char *const tagc_layout_names[TAGC_LAYOUTS + 1];
const char *tagc_layout_name(enum tagc_layout_kind layout);

/* A parameter of one call, which may carry part of a unit, or several units. */
struct tagc_member {
  const struct tagc_parameter *parameter;
  int32_t block;    /* of its place; -1: none */
  const char *unit; /* the name of its unit; used in blocks alone */
};

/* Megatron's parameters begin at multiples of this. */
enum { TAGC_MEGATRON_PARAMETER = 64 };

/* The elements of a parameter's chunk in each shard (fsdp2, zero3), or of the parameter in the whole buffer (others,
 * without the padding of fsdp1_aligned). */
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
/* Elements of one shard, given the sum of all parameters' parts. */
uint64_t tagc_layout_shard_of_parts(enum tagc_layout_kind layout, uint64_t parts, int nranks);

/* Elements of one shard; UINT64_MAX: overflow. element_bytes: of the parameters' type in forward and backward, for
 * which the layout was made (fsdp1_aligned); 4, 2. */
uint64_t tagc_layout_shard(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count, int nranks,
                           size_t element_bytes);

/* A stretch of a shard that belongs to one parameter, or is padding. */
struct tagc_segment {
  uint64_t offset, length; /* elements, from the start of the shard; length >= 1 */
  int32_t member;          /* index into members; -1: padding */
};

/* True if all shards are alike, except for padding. */
bool tagc_layout_is_uniform(enum tagc_layout_kind layout);

/* Calls `visit` for the segments of shard `shard` in order; they cover it without gaps. Padding between two members may
 * come in two segments. Stops and returns false if `visit` does, or if the sizes overflow. */
bool tagc_layout_walk(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count, int nranks,
                      size_t element_bytes, int shard, bool (*visit)(const struct tagc_segment *segment, void *data),
                      void *data);

#endif
