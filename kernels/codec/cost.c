/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/codec/cost.h"

#include "kernels/codec/chunks.h"
#include "kernels/codec/residual.h"

/* Latencies added up (lhc/cuda.h), with the meeting of the groups. The end of a launch and the beginning of the next
 * one, which waits in the stream already, are taken for as long: a guess. */
static const double ROUND_NS = 2e3;

static uint64_t bytes_of_shard(const struct tagc_shape *shape) { return shape->n * tagc_dtype_size(shape->dtype); }

uint64_t tagc_layout_wire_bytes(const struct tagc_shape *shape, const struct tagc_layout *layout) {
  uint64_t peers = (uint64_t)shape->nranks - 1;
  /* The max is a ring all-reduce of nranks parts: each rank sends 2 (W-1)/W of the whole, 2 (W-1) parts. */
  return peers * (2 * layout->exponent_bytes + sizeof(int32_t) * layout->sketch_count + layout->message_bytes);
}

uint64_t tagc_plain_wire_bytes(const struct tagc_shape *shape) {
  return ((uint64_t)shape->nranks - 1) * bytes_of_shard(shape);
}

struct tagc_traffic tagc_ring_traffic(uint64_t bytes, const struct tagc_hosts *hosts) {
  const uint64_t ranks = (uint64_t)hosts->nranks, many = (uint64_t)hosts->hosts;
  /* bytes * many / ranks, without a product that is larger than the bytes */
  const uint64_t between = many > 1 ? bytes / ranks * many + bytes % ranks * many / ranks : 0;
  return (struct tagc_traffic){bytes - between, between};
}

struct tagc_traffic tagc_plain_traffic(uint64_t shard_bytes, const struct tagc_hosts *hosts) {
  return tagc_ring_traffic(shard_bytes * (uint64_t)(hosts->nranks - 1), hosts);
}

struct tagc_traffic tagc_layout_traffic(const struct tagc_shape *shape, const struct tagc_layout *layout,
                                        const struct tagc_hosts *hosts, bool two_levels) {
  const uint64_t ring_step = 2 * layout->exponent_bytes + sizeof(int32_t) * layout->sketch_count;
  const uint64_t many = (uint64_t)hosts->hosts,
                 local = hosts->hosts > 1 ? (uint64_t)hosts->local : (uint64_t)hosts->nranks;
  if (two_levels)
    return (struct tagc_traffic){(local - 1) * many * bytes_of_shard(shape),
                                 (many - 1) * (ring_step + layout->message_bytes)};
  struct tagc_traffic traffic = tagc_plain_traffic(ring_step, hosts);
  traffic.inside += (local - 1) * layout->message_bytes;
  traffic.between += ((uint64_t)hosts->nranks - local) * layout->message_bytes;
  return traffic;
}

static double max_double(double a, double b) { return a > b ? a : b; }

/* The mean of `few` times `one` and `many` times `other`. */
static double mean(double few, double one, double many, double other) {
  return (few * one + many * other) / (few + many);
}

struct tagc_links tagc_links_among(const struct tagc_hosts *hosts, const struct tagc_link *inside,
                                   const struct tagc_link *between, bool two_levels) {
  const double all = hosts->nranks, many = hosts->hosts, local = hosts->local;
  const double leaving = local * (all - local) * between->ns_per_byte, staying = (local - 1) * inside->ns_per_byte;
  if (hosts->hosts <= 1)
    return (struct tagc_links){*inside, *inside};
  if (two_levels) {
    struct tagc_link shared = *between;
    shared.ns_per_byte *= local;
    return (struct tagc_links){shared, shared};
  }
  struct tagc_links links = {
    .ring = {mean(many - 1, between->latency_ns, all - many, inside->latency_ns), between->ns_per_byte, 0},
    .all_to_all = {between->latency_ns, max_double(leaving, staying) / (all - 1),
                   mean(all - local, between->message_ns, local - 1, inside->message_ns)},
  };
  if (hosts->nranks > hosts->hosts) /* some edges of the ring lie inside */
    links.ring.ns_per_byte = max_double(between->ns_per_byte, inside->ns_per_byte);
  if (hosts->local > 1)
    links.all_to_all.latency_ns = max_double(between->latency_ns, inside->latency_ns);
  return links;
}

static double steps(double count, double bytes, const struct tagc_link *link) {
  return bytes > 0 ? count * (link->latency_ns + bytes * link->ns_per_byte) : 0;
}

double tagc_plain_wire_ns(const struct tagc_shape *shape, const struct tagc_link *ring) {
  return steps(shape->nranks - 1, (double)bytes_of_shard(shape), ring);
}

double tagc_layout_wire_ns(const struct tagc_shape *shape, const struct tagc_layout *layout,
                           const struct tagc_link *ring, const struct tagc_link *all_to_all) {
  const double peers = shape->nranks - 1;
  const double messages_ns = layout->message_bytes ? peers * all_to_all->message_ns : 0;
  return steps(2 * peers, (double)layout->exponent_bytes, ring) +
         steps(peers, (double)layout->sketch_count * sizeof(int32_t), ring) +
         steps(1, peers * (double)layout->message_bytes, all_to_all) + messages_ns;
}

double tagc_host_sum_ns(const struct tagc_shape *shape, const struct tagc_hosts *hosts,
                        const struct tagc_link *inside) {
  return steps(hosts->local - 1, (double)hosts->hosts * (double)bytes_of_shard(shape), inside);
}

/* What measure takes of the time of prepare and encode: it reads the same, and writes nothing. Measured on the host
 * (tests/bench/RESULTS.md). */
static const double MEASURE_SHARE = 0.2;

void tagc_call_times_fill(struct tagc_call_times *times, const struct tagc_shape *shape,
                          const struct tagc_layout *layout, const struct tagc_link *ring,
                          const struct tagc_link *all_to_all) {
  const double peers = shape->nranks - 1;
  times->wire_ns = tagc_layout_wire_ns(shape, layout, ring, all_to_all);
  times->exponents_ns = steps(2 * peers, (double)layout->exponent_bytes, ring);
  times->latency_ns =
    all_to_all->latency_ns + peers * all_to_all->message_ns + (layout->sketch_count ? peers * ring->latency_ns : 0);
  times->measure_ns = layout->exponent_bytes ? MEASURE_SHARE * times->encode_ns : 0;
}

/* `encoded`: the time when the next chunk to send is ready; `side`: when the side stream becomes idle. */
double tagc_call_ns(const struct tagc_call_times *t, int count) {
  const double bytes_ns = t->wire_ns - t->latency_ns - t->exponents_ns;
  const double before = t->exponents_ns + (count > 1 ? t->measure_ns : 0);
  double encoded = before + t->chunk_ns + t->encode_ns * tagc_chunk_share(0, count), side = encoded, wire = 0;
  for (int k = 0; k < count; k++) {
    wire = max_double(wire, encoded) + t->latency_ns + bytes_ns * tagc_chunk_share(k, count);
    if (k + 1 < count)
      encoded = side = side + t->chunk_ns + t->encode_ns * tagc_chunk_share(k + 1, count);
    side = max_double(wire, side) + t->chunk_ns + t->decode_ns * tagc_chunk_share(k, count);
  }
  return side;
}

/* To load and store an element's residual; int8 is rounded at random, with a scale a block. Fitted, see cost.h. */
static double residual_ops(enum tagc_storage residual) {
  return residual == TAGC_STORAGE_NONE ? 0 : residual == TAGC_STORAGE_INT8 ? 28 : 14;
}

struct tagc_gpu_cost tagc_layout_gpu_cost(const struct tagc_shape *shape, const struct tagc_layout *layout,
                                          const struct tagc_gpu_work *work, const struct tagc_gpu_rates *rates) {
  const double n = (double)shape->n, size = (double)tagc_dtype_size(shape->dtype);
  const double sketch = sizeof(int32_t) * (double)layout->sketch_count, message = (double)layout->message_bytes;
  const double kept = (double)tagc_residual_shard_bytes(shape) / n;
  const double payload = ((double)layout->exponent_bytes + sketch + message) / n;
  const double keep = 1e-6 * shape->keep_ppm;
  const double encode_ops = work->encode_ops.element + keep * work->encode_ops.value + residual_ops(shape->residual);
  const double decode_ops = work->decode_ops.element + keep * work->decode_ops.value;
  return (struct tagc_gpu_cost){
    .encode_ns =
      max_double(rates->ns_per_byte * (work->passes * (size + kept) + kept + payload), rates->ns_per_op * encode_ops),
    .decode_ns = max_double(rates->ns_per_byte * message / n, rates->ns_per_op * decode_ops),
    .call_ns = TAGC_GPU_LAUNCH_NS * work->launches + ROUND_NS * work->rounds +
               rates->ns_per_byte * (2 * size * n + sketch + 4 * (double)layout->state_bytes),
  };
}
