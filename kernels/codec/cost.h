/* SPDX-License-Identifier: BSD-3-Clause
 * What a reduce-scatter costs: bytes and time on the wire, plain and with a codec's payload, and a codec's work on a
 * GPU. Pure functions of shapes, of who shares a host, and of a network's two numbers, for the plan (is it worth it?),
 * the choice of a codec and of the number of chunks, and for simulation.
 *
 * Model    A rank that sends s steps of b bytes each, one after the other, takes s * (latency + b * ns_per_byte): the
 *          latency-bandwidth model (Hockney 1994) with the algorithms that NCCL uses between hosts:
 *            plain, sketch   ring reduce-scatter: W-1 steps of a shard (Patarasuk, Yuan 2009)
 *            exponents       ring all-reduce: 2 (W-1) steps of a shard's exponents
 *            messages        all to all: W-1 messages, all sent at once: one latency, and what each of them costs its
 *                            sender (the gap of LogGP: Alexandrov, Ionescu, Schauser, Scheiman 1995)
 * Levels   The ranks of a host may first sum among themselves, plainly: each of g ranks then has its host's sums of the
 *          shards of W/g owners, one a host, and exchanges payloads with the ranks of the same place on the other W/g -
 *          1 hosts. Flat, it exchanges with all other ranks, and g times as much goes between hosts. NCCL's own ring
 *          passes through the ranks of a host one after the other, and so leaves each host once. What a host has for
 *          others (its network cards) its ranks share; what a rank has for its host is its own; both work at the same
 *          time.
 * Units    bytes that one rank sends, as a mean over the ranks of its host; nanoseconds.
 * Threads  Pure.
 */
#ifndef KERNELS_CODEC_COST_H
#define KERNELS_CODEC_COST_H

#include "kernels/codec/codec.h"

struct tagc_link {
  double latency_ns;  /* of a step */
  double ns_per_byte; /* that one rank sends */
  double message_ns;  /* that each message of an all-to-all costs on top; 0: none */
};

/* The ranks of a communicator and their hosts. Two levels need `nranks` = `hosts` * `local` with the same `local`
 * everywhere. */
struct tagc_hosts {
  int nranks;
  int hosts; /* 0: not known; then all of them count as one */
  int local; /* of the ranks on this rank's host, itself included */
};

/* Bytes for ranks of the same host, and for others. */
struct tagc_traffic {
  uint64_t inside, between;
};

/* Bytes that one rank sends for a call: with this layout, and for a plain reduce-scatter of the shape. */
uint64_t tagc_layout_wire_bytes(const struct tagc_shape *shape, const struct tagc_layout *layout);
uint64_t tagc_plain_wire_bytes(const struct tagc_shape *shape);

/* The same by where they go. Of the shape its shard counts; `layout` is that of the ranks that exchange: all of them,
 * or with `two_levels` one a host. */
struct tagc_traffic tagc_plain_traffic(uint64_t shard_bytes, const struct tagc_hosts *hosts);
struct tagc_traffic tagc_layout_traffic(const struct tagc_shape *shape, const struct tagc_layout *layout,
                                        const struct tagc_hosts *hosts, bool two_levels);

/* What an exchange sees of a network in which a rank has `inside` for its host, and a whole host `between` for
 * others. */
struct tagc_links {
  struct tagc_link ring, all_to_all;
};

/* Of an exchange among all ranks, a plain reduce-scatter included, or with `two_levels` of one among one rank a host,
 * beside those of the host's other ranks. The formulas:
 *   ring        goes at the rate of its slowest edge; of its W-1 steps H-1 have the latency between hosts, the others
 *               that inside (so does NCCL's own model, graph/tuning.cc)
 *   all to all  lasts until the host has sent g (W-g) messages to others, and the rank g-1 inside
 *   two levels  g exchanges of either kind share what the host has
 * On one host, or on unknown ones, all is inside. */
struct tagc_links tagc_links_among(const struct tagc_hosts *hosts, const struct tagc_link *inside,
                                   const struct tagc_link *between, bool two_levels);

/* Nanoseconds on the wire. `ring` carries the reductions, `all_to_all` the messages: they may have been measured
 * apart. */
double tagc_plain_wire_ns(const struct tagc_shape *shape, const struct tagc_link *ring);
double tagc_layout_wire_ns(const struct tagc_shape *shape, const struct tagc_layout *layout,
                           const struct tagc_link *ring, const struct tagc_link *all_to_all);

/* A call of a codec, in nanoseconds: what it takes in one chunk is the sum of encode, wire, decode, and twice the work
 * on a chunk. */
struct tagc_call_times {
  double encode_ns, decode_ns; /* of the whole */
  double chunk_ns;             /* of either on a chunk, whatever its size */
  double wire_ns;              /* of the exchange, in one */
  double latency_ns;           /* of that, what each exchange takes, whatever its size */
};

/* How long a call takes in `count` chunks (kernels/codec/chunks.h), of which one is encoded or decoded while another
 * travels. Two machines, the side stream and the wire, do one thing after the other each: a flow shop with two
 * machines, where jobs come back to the first one. With e(k), x(k), d(k) what chunk k takes to be encoded, sent and
 * decoded, its share of the whole and what does not depend on that, and in the order of the side stream in run_chunks()
 * of interpose/exec/execute.c:
 *   E(0) = e(0)
 *   E(k) = max(E(k-1), D(k-2)) + e(k)      the next chunk is encoded before the one that has come is decoded
 *   X(k) = max(X(k-1), E(k)) + x(k)
 *   D(k) = max(X(k), E(k+1), D(k-1)) + d(k)
 * and the call takes D(count - 1). A wire that takes longer than the work hides all of it but e(0) + d(count - 1),
 * which of four chunks is 1/6; each chunk more costs a latency. Not in it: that side stream and wire may want the same
 * cores or memory. */
double tagc_call_ns(const struct tagc_call_times *times, int count);

/* What a codec does on a GPU beside what its layout says: whoever adds one fills this in (cuda_codecs.c). */
struct tagc_gpu_work {
  uint32_t passes;   /* how often prepare and encode read g and e; e is written once */
  uint32_t launches; /* of prepare, encode and decode */
  uint32_t rounds;   /* in which groups wait for one another; only where the layout has a sketch */
};

/* Nanoseconds: of an element of one foreign shard, and of a call whatever the number of these. */
struct tagc_gpu_cost {
  double encode_ns, decode_ns, call_ns;
};

/* What the host or the GPU needs to begin a kernel or a copy: a guess at what is usual. */
#define TAGC_GPU_LAUNCH_NS 4e3

/* Estimates, which were never measured on a chip (tests/gpu/speed prints them beside what it measures). Bytes alone
 * count, at the rate of memory:
 *   encode   `passes` times g and e, e written, payloads written
 *   decode   the messages of all senders
 *   call     launches, end_call's included; rounds; the own shard and the result; the sum of sketches; the state
 *            (bitmaps, cells), written and read by either side
 * What stays in the second-level cache, such as atomic additions, is faster; what waits for atomic additions is slower.
 * `layout`: as the kernels have it, with their state. */
struct tagc_gpu_cost tagc_layout_gpu_cost(const struct tagc_shape *shape, const struct tagc_layout *layout,
                                          const struct tagc_gpu_work *work, double ns_per_byte);

/* Nanoseconds of the first level: a ring of the `local` ranks of each host, over a shard of every host's. */
double tagc_host_sum_ns(const struct tagc_shape *shape, const struct tagc_hosts *hosts, const struct tagc_link *inside);

#endif
