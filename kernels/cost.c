/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cost.h"

uint64_t tagc_layout_wire_bytes(const struct tagc_shape *shape, const struct tagc_layout *layout)
{
  uint64_t peers = (uint64_t)shape->nranks - 1;
  /* The max is a ring all-reduce of nranks parts: each rank sends 2 (W-1)/W of the whole, 2 (W-1) parts. */
  return peers * (2 * layout->exponent_bytes + sizeof(int32_t) * layout->sketch_count + layout->message_bytes);
}

uint64_t tagc_plain_wire_bytes(const struct tagc_shape *shape)
{
  return ((uint64_t)shape->nranks - 1) * shape->n * tagc_dtype_size(shape->dtype);
}

static double steps(double count, double bytes, const struct tagc_link *link)
{
  return bytes > 0 ? count * (link->latency_ns + bytes * link->ns_per_byte) : 0;
}

double tagc_plain_wire_ns(const struct tagc_shape *shape, const struct tagc_link *ring)
{
  return steps(shape->nranks - 1, (double)shape->n * (double)tagc_dtype_size(shape->dtype), ring);
}

double tagc_layout_wire_ns(const struct tagc_shape *shape, const struct tagc_layout *layout, const struct tagc_link *ring,
                           const struct tagc_link *all_to_all)
{
  const double peers = shape->nranks - 1;
  const double messages_ns = layout->message_bytes ? peers * all_to_all->message_ns : 0;
  return steps(2 * peers, (double)layout->exponent_bytes, ring) +
         steps(peers, (double)layout->sketch_count * sizeof(int32_t), ring) +
         steps(1, peers * (double)layout->message_bytes, all_to_all) + messages_ns;
}
