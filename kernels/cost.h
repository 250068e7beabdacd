/* SPDX-License-Identifier: BSD-3-Clause
 * What a reduce-scatter costs: bytes and time on the wire, plain and with a codec's payload. Pure functions of shapes and
 * of a network's two numbers, for the plan (is it worth it?), the choice of a codec, and for simulation.
 *
 * Model    A rank that sends s steps of b bytes each, one after the other, takes s * (latency + b * ns_per_byte): the
 *          latency-bandwidth model (Hockney 1994) with the algorithms that NCCL uses between hosts:
 *            plain, sketch   ring reduce-scatter: W-1 steps of a shard (Patarasuk, Yuan 2009)
 *            exponents       ring all-reduce: 2 (W-1) steps of a shard's exponents
 *            messages        all to all: W-1 messages, all sent at once: one latency, and what each of them costs its
 *                            sender (the gap of LogGP: Alexandrov, Ionescu, Schauser, Scheiman 1995)
 * Units    bytes that one rank sends; nanoseconds.
 * Threads  Pure.
 */
#ifndef KERNELS_COST_H
#define KERNELS_COST_H

#include "kernels/codec.h"

struct tagc_link {
  double latency_ns;               /* of a step */
  double ns_per_byte;              /* that one rank sends */
  double message_ns;               /* that each message of an all-to-all costs on top; 0: none */
};

/* Bytes that one rank sends for a call: with this layout, and for a plain reduce-scatter of the shape. */
uint64_t tagc_layout_wire_bytes(const struct tagc_shape *shape, const struct tagc_layout *layout);
uint64_t tagc_plain_wire_bytes(const struct tagc_shape *shape);

/* Nanoseconds on the wire. `ring` carries the reductions, `all_to_all` the messages: they may have been measured apart. */
double tagc_plain_wire_ns(const struct tagc_shape *shape, const struct tagc_link *ring);
double tagc_layout_wire_ns(const struct tagc_shape *shape, const struct tagc_layout *layout, const struct tagc_link *ring,
                           const struct tagc_link *all_to_all);

#endif
