/* SPDX-License-Identifier: BSD-3-Clause
 * The cost of a reduce-scatter: bytes and time on the wire, plain and with a codec's payload, and a codec's work on a
 * GPU. Pure functions of shapes, hosts, and a network's latency and bandwidth. The plan (is it worth it?), the choice
 * of codec and number of chunks, and simulations use them.
 *
 * Model    A rank that sends s steps of b bytes each, one after the other, takes s * (latency + b * ns_per_byte): the
 *          latency-bandwidth model (Hockney 1994) with the algorithms that NCCL uses between hosts:
 *            plain, sketch   ring reduce-scatter: W-1 steps of a shard (Patarasuk, Yuan 2009)
 *            exponents       ring all-reduce: 2 (W-1) steps of a shard's exponents
 *            messages        all to all: W-1 messages, all sent at once: one latency, and each message's cost to its
 *                            sender (the gap of LogGP: Alexandrov, Ionescu, Schauser, Scheiman 1995)
 * Levels   The ranks of a host may first sum among themselves, plainly. Each of g ranks then has its host's sums of the
 *          shards of W/g owners, one a host. It exchanges payloads with the ranks of the same place on the other W/g -
 *          1 hosts. Flat, it exchanges with all other ranks, and g times as much goes between hosts. NCCL's ring passes
 *          through the ranks of a host one after the other, and so leaves each host once. The ranks of a host share its
 *          links to other hosts (its network cards); each rank has its own link inside. Both work at the same time.
 * Units    bytes that one rank sends, as a mean over the ranks of its host; nanoseconds.
 * Threads  Pure.
 */
#ifndef KERNELS_CODEC_COST_H
#define KERNELS_CODEC_COST_H

#include "kernels/codec/codec.h"

struct tagc_link {
  double latency_ns;  /* of a step */
  double ns_per_byte; /* that one rank sends */
  double message_ns;  /* cost of each message of an all-to-all on top; 0: none */
};

/* A communicator's ranks and their hosts. Two levels need `nranks` = `hosts` * `local` with one `local` everywhere. */
struct tagc_hosts {
  int nranks;
  int hosts; /* 0: not known; then all of them count as one */
  int local; /* ranks on this rank's host, itself included */
};

/* Bytes sent to ranks of the same host, and to others. */
struct tagc_traffic {
  uint64_t inside, between;
};

/* Bytes that one rank sends for a call: with this layout, and for a plain reduce-scatter of the shape. */
uint64_t tagc_layout_wire_bytes(const struct tagc_shape *shape, const struct tagc_layout *layout);
uint64_t tagc_plain_wire_bytes(const struct tagc_shape *shape);

/* Bytes that a rank sends in rings, split by destination: a mean over the ranks of a host, as a ring leaves each host
 * once. */
struct tagc_traffic tagc_ring_traffic(uint64_t bytes, const struct tagc_hosts *hosts);

/* The bytes of the calls above, split by destination; `shape` counts with its shard alone. `layout` is that of the
 * exchanging ranks: all, or with `two_levels` one a host. */
struct tagc_traffic tagc_plain_traffic(uint64_t shard_bytes, const struct tagc_hosts *hosts);
struct tagc_traffic tagc_layout_traffic(const struct tagc_shape *shape, const struct tagc_layout *layout,
                                        const struct tagc_hosts *hosts, bool two_levels);

/* The links that an exchange sees, if a rank has `inside` for its host and a whole host shares `between` for others. */
struct tagc_links {
  struct tagc_link ring, all_to_all;
};

/* The links of an exchange among all ranks, a plain reduce-scatter included; with `two_levels` among one rank a host,
 * beside the exchanges of the host's other ranks. The formulas:
 *   ring        goes at the rate of its slowest edge; of its W-1 steps H-1 have the latency between hosts, the others
 *               that inside (so does NCCL's own model, graph/tuning.cc)
 *   all to all  lasts until the host has sent g (W-g) messages to others, and the rank g-1 inside
 *   two levels  g exchanges of either kind share the host's link
 * On one host, or on unknown ones, all is inside. */
struct tagc_links tagc_links_among(const struct tagc_hosts *hosts, const struct tagc_link *inside,
                                   const struct tagc_link *between, bool two_levels);

/* Nanoseconds on the wire. `ring` carries the reductions, `all_to_all` the messages; they may be measured apart. */
double tagc_plain_wire_ns(const struct tagc_shape *shape, const struct tagc_link *ring);
double tagc_layout_wire_ns(const struct tagc_shape *shape, const struct tagc_layout *layout,
                           const struct tagc_link *ring, const struct tagc_link *all_to_all);

/* A call of a codec, in nanoseconds. One chunk takes encode, wire, decode, and twice chunk_ns. */
struct tagc_call_times {
  double encode_ns, decode_ns; /* of the whole */
  double chunk_ns;             /* of each encode and decode of a chunk, whatever its size */
  double wire_ns;              /* of the whole exchange, in one chunk */
  double latency_ns;           /* the part of wire_ns that each exchange takes, whatever its size */
  double exponents_ns;         /* the part of wire_ns that comes before the first chunk */
  double measure_ns;           /* in several chunks, before that: of measure (codec.h) */
};

/* Fills in the times on the wire, and measure_ns from encode_ns. */
void tagc_call_times_fill(struct tagc_call_times *times, const struct tagc_shape *shape,
                          const struct tagc_layout *layout, const struct tagc_link *ring,
                          const struct tagc_link *all_to_all);

/* The time of a call in `count` chunks (kernels/codec/chunks.h): one chunk is encoded or decoded while another travels.
 * The side stream and the wire are two machines that each do one thing after the other: a flow shop with two machines,
 * where jobs return to the first. e(k), x(k), d(k) are the times to encode, send and decode chunk k: its share of the
 * whole plus the constant part. In the order of the side stream in run_chunks() of interpose/exec/execute.c:
 *   E(0) = measure + exponents + e(0)
 *   E(k) = max(E(k-1), D(k-2)) + e(k)      the next chunk is encoded before the one that has come is decoded
 *   X(k) = max(X(k-1), E(k)) + x(k)
 *   D(k) = max(X(k), E(k+1), D(k-1)) + d(k)
 * The call takes D(count - 1). A wire that takes longer than the work hides all of it but e(0) + d(count - 1): 1/6 with
 * four chunks. Each further chunk costs a latency. Not modelled: side stream and wire compete for cores or memory. */
double tagc_call_ns(const struct tagc_call_times *times, int count);

/* A codec's work on a GPU that its layout does not show: whoever adds a codec fills this in (cuda_codecs.c). */
struct tagc_gpu_work {
  uint32_t passes;   /* times that prepare and encode read g and e; e is written once */
  uint32_t launches; /* of prepare, encode, decode, and of the end of the call */
  uint32_t rounds;   /* after which all groups meet: by launches one behind the other, or the last one for all */
  struct {
    uint32_t element, value; /* for each foreign element, and for each that is kept (keep_ppm) */
  } encode_ops, decode_ops;
};

/* The best rates of a GPU. An op is one instruction of one lane, and a processor does 64 a clock: the rate of whole
 * numbers from Turing to Hopper. */
struct tagc_gpu_rates {
  double ns_per_byte, ns_per_op;
};
enum { TAGC_GPU_LANES = 64 };

/* Nanoseconds: for each element of one foreign shard, and for a call whatever their number. */
struct tagc_gpu_cost {
  double encode_ns, decode_ns, call_ns;
};

/* The time to start a kernel or a copy: a guess at what is usual. */
#define TAGC_GPU_LAUNCH_NS 4e3

/* The time that a GPU loses if the host waits for a call: the program has enqueued nothing behind it, and a layer of a
 * model is some fifty kernels to enqueue. A guess, on the safe side. */
#define TAGC_GPU_WAIT_NS 1e6

/* A roofline (Williams, Waterman, Patterson 2009): the bytes at the rate of memory, or the ops, whichever take longer.
 *   encode   `passes` times g and e, e written, payloads written; encode_ops, and those of the residual
 *   decode   the messages of all senders; decode_ops
 *   call     launches; rounds; the own shard and the result; the sum of sketches; the state
 *            (bitmaps, cells), written and read by either side
 * The ops of each codec and the rounds are fitted to times of an H200 (tests/gpu/RESULTS.md), those of lhc while its
 * rounds were one cooperative launch and a value had 1.30 counters. So for other GPUs this is a forecast.
 * tests/gpu/speed prints estimates beside measurements. Not modelled: conversions of fp16, which take longer than those
 * of bf16; a sketch that outgrows the second-level cache; in two levels the launches by which the ranks of a host share
 * flags. `layout`: as the kernels have it, with their state. */
struct tagc_gpu_cost tagc_layout_gpu_cost(const struct tagc_shape *shape, const struct tagc_layout *layout,
                                          const struct tagc_gpu_work *work, const struct tagc_gpu_rates *rates);

/* Nanoseconds of the first level: a ring of the `local` ranks of each host, over a shard of every host's. */
double tagc_host_sum_ns(const struct tagc_shape *shape, const struct tagc_hosts *hosts, const struct tagc_link *inside);

#endif
