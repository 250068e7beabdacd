/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench --simulate: the cost of a training step's reduce-scatters on a network, plain and with each codec.
 *
 * Model    A unit of E elements on W ranks has shards of n = ceil(E / W). The wire is that of kernels/codec/cost.h.
 *          Encode and decode pass once over the foreign shards: W-1, or with two levels one of each other host. The sum
 *          inside, encode, exchange and decode of a call are sequential, except for overlap of its chunks
 *          (tagc_call_ns()); so are calls. A codec that adds the values of a host itself does so at its speed of
 *          decode. A step is the sum over its units.
 */
#include <math.h>

#include "kernels/tagc-bench/bench.h"
#include "kernels/codec/chunks.h"

struct bench_sender bench_sender_of(const struct bench_options *o, const struct bench_result *r, enum bench_way way) {
  const struct bench_simulation *s = &o->simulation;
  const double encode = s->encode_gbs > 0 ? s->encode_gbs : bench_gbs(&r->speed[0], BENCH_PREPARE, BENCH_ENCODE);
  const double decode = s->decode_gbs > 0 ? s->decode_gbs : bench_gbs(&r->speed[0], BENCH_DECODE, BENCH_DECODE);
  return (struct bench_sender){way, r->codec, encode > 0 ? 1 / encode : 0, decode > 0 ? 1 / decode : 0};
}

static struct tagc_link link_of(double alpha_us, double beta_gbit, double message_us) {
  return (struct tagc_link){.latency_ns = 1e3 * alpha_us, .ns_per_byte = 8 / beta_gbit, .message_ns = 1e3 * message_us};
}

/* A codec's layout for `nranks` ranks that exchange shards of the shape. */
static bool lay_out(const struct bench_options *o, const struct tagc_codec *codec, struct tagc_shape *shape, int nranks,
                    struct tagc_layout *layout) {
  shape->nranks = nranks;
  shape->residual = bench_storage(o, codec);
  return (!codec->needs_residual || shape->residual != TAGC_STORAGE_NONE) && codec->layout(shape, layout);
}

/* A codec's work at the sender's speeds, or on a GPU. False: it does not run there. */
static bool find_work(const struct bench_simulation *s, const struct bench_sender *sender,
                      const struct tagc_shape *shape, struct tagc_gpu_cost *work) {
  if (s->gpu != BENCH_NO_GPU)
    return bench_gpu_cost(s->gpu, sender->codec, shape, work);
  *work = (struct tagc_gpu_cost){sizeof(float) * sender->encode, sizeof(float) * sender->decode, 0};
  return true;
}

/* Does the library send so? A codec that adds a host's values itself stays flat where that takes more bytes. */
static bool takes_levels(const struct bench_simulation *s, const struct bench_sender *sender) {
  return sender->way == BENCH_TWO_LEVELS && (!sender->codec->levels || s->local >= sender->codec->levels->least);
}

struct bench_cost bench_unit_cost(const struct bench_options *o, const struct bench_sender *sender, uint64_t elements,
                                  int hosts) {
  const struct bench_simulation *s = &o->simulation;
  const struct tagc_link inside = link_of(s->alpha_inside_us, s->beta_inside_gbit, s->message_us);
  const struct tagc_link between = link_of(s->alpha_us, s->beta_gbit, s->message_us);
  const struct tagc_hosts who = {.nranks = hosts * s->local, .hosts = hosts, .local = s->local};
  const bool levels = takes_levels(s, sender);
  const struct tagc_links links = tagc_links_among(&who, &inside, &between, levels);
  const uint64_t ranks = (uint64_t)who.nranks;
  struct tagc_shape shape = {
    .n = (elements + ranks - 1) / ranks, .nranks = who.nranks, .dtype = o->dtype, .keep_ppm = o->keep_ppm};
  struct tagc_layout layout;
  shape.local = levels && sender->codec->levels ? s->local : 0;
  if (sender->way == BENCH_PLAIN) {
    const struct tagc_traffic sent = tagc_plain_traffic(shape.n * tagc_dtype_size(o->dtype), &who);
    return (struct bench_cost){.ns = tagc_plain_wire_ns(&shape, &links.ring),
                               .between = s->local * (double)sent.between};
  }
  if (!lay_out(o, sender->codec, &shape, levels ? hosts : who.nranks, &layout))
    return (struct bench_cost){.ns = INFINITY, .between = INFINITY};
  const struct tagc_traffic sent = tagc_layout_traffic(&shape, &layout, &who, levels);
  struct tagc_gpu_cost work;
  if (!find_work(s, sender, &shape, &work))
    return (struct bench_cost){.ns = INFINITY, .between = INFINITY};
  const double foreign = (shape.nranks - 1) * (double)shape.n;
  const double added = (double)shape.local * shape.nranks * (double)shape.n;
  const int depth = tagc_chunks_possible(sender->codec, &layout) ? tagc_chunks_of(shape.n, s->depth).count : 1;
  struct tagc_call_times call = {
    .encode_ns = shape.local ? added * work.decode_ns : foreign * work.encode_ns,
    .decode_ns = foreign * work.decode_ns,
    .chunk_ns = work.call_ns / 2,
  };
  tagc_call_times_fill(&call, &shape, &layout, &links.ring, &links.all_to_all);
  return (struct bench_cost){
    .ns = (levels ? tagc_host_sum_ns(&shape, &who, &inside) : 0) + tagc_call_ns(&call, depth),
    .between = s->local * (double)sent.between,
    .sketch = layout.sketch_count > 0,
  };
}

struct bench_cost bench_step_cost(const struct bench_options *o, const struct bench_sender *sender, int hosts) {
  struct bench_cost step = {.sketch = true};
  for (size_t u = 0; u < o->simulation.unit_count; u++) {
    const struct bench_cost unit = bench_unit_cost(o, sender, o->simulation.unit[u].elements, hosts);
    step.ns += (double)o->simulation.unit[u].count * unit.ns;
    step.between += (double)o->simulation.unit[u].count * unit.between;
    step.sketch &= unit.sketch;
  }
  return step;
}
