/* SPDX-License-Identifier: BSD-3-Clause
 * All ranks of a reduce-scatter in one process: loops replace NCCL. Received data is kept for one owner at a time. Rank
 * 0 is the last, so that its buffers are full when it is timed.
 */
#include <math.h>
#include <string.h>

#include "kernels/tagc-bench/bench.h"
#include "kernels/codec/bits.h"
#include "kernels/codec/residual.h"

struct sim {
  const struct tagc_codec *codec;
  const struct bench_world *world;
  struct tagc_layout layout;
  struct tagc_codec_stats stats;
  struct tagc_job job[BENCH_MOST_RANKS];
  double *sum; /* over the steps, of all shards */
};

static double sim_bytes(const struct tagc_shape *shape, const struct tagc_layout *l) {
  const double ranks = shape->nranks, n = (double)shape->n;
  const double payload = (double)(l->message_bytes + 4 * l->sketch_count + l->exponent_bytes);
  const double each = (double)tagc_residual_bytes(shape) + ranks * payload + (double)l->state_bytes;
  return ranks * each + ranks * (double)l->message_bytes + n * 4 + ranks * n * sizeof(double);
}

static void sim_start(struct sim *sim, const struct tagc_shape *shape, bool stochastic) {
  const struct tagc_layout *l = &sim->layout;
  const size_t ranks = (size_t)shape->nranks;
  bench_check_memory(sim_bytes(shape, l) + (double)(ranks * ranks * shape->n * tagc_dtype_size(shape->dtype)));
  int32_t *sketch_in = bench_need(l->sketch_count * 4);
  uint8_t *message_in = bench_need(ranks * l->message_bytes);
  void *recv = bench_need(shape->n * tagc_dtype_size(shape->dtype));
  for (size_t rank = 0; rank < ranks; rank++)
    sim->job[rank] = (struct tagc_job){
      .shape = *shape,
      .layout = *l,
      .rank = (int)rank,
      .send = sim->world->send[rank],
      .recv = recv,
      .scale = 1,
      .divisor = 1,
      .residual = shape->residual == TAGC_STORAGE_NONE ? NULL : bench_need(tagc_residual_bytes(shape)),
      .residual_empty = true,
      .stochastic = stochastic,
      .exponents = bench_need(ranks * l->exponent_bytes),
      .sketch_out = bench_need(ranks * l->sketch_count * 4),
      .sketch_in = sketch_in,
      .message_out = bench_need(ranks * l->message_bytes),
      .message_in = message_in,
      .state = bench_need(l->state_bytes),
      .stats = &sim->stats,
    };
  sim->sum = bench_need(ranks * shape->n * sizeof(double));
}

static void sim_end(struct sim *sim) {
  bench_release(sim->job[0].sketch_in);
  bench_release(sim->job[0].message_in);
  bench_release(sim->job[0].recv);
  bench_release(sim->sum);
  for (int rank = 0; rank < sim->world->ranks; rank++) {
    const struct tagc_job *job = &sim->job[rank];
    const void *parts[] = {job->residual, job->exponents, job->sketch_out, job->message_out, job->state};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
      bench_release(parts[i]);
  }
}

/* The all-reduce with max. */
static void exchange_all_exponents(struct sim *sim) {
  const size_t bytes = (size_t)sim->world->ranks * sim->layout.exponent_bytes;
  for (size_t i = 0; i < bytes; i++) {
    uint8_t most = 0;
    for (int rank = 0; rank < sim->world->ranks; rank++)
      most = sim->job[rank].exponents[i] > most ? sim->job[rank].exponents[i] : most;
    for (int rank = 0; rank < sim->world->ranks; rank++)
      sim->job[rank].exponents[i] = most;
  }
}

/* Delivers all ranks' data to one of them. */
static void receive(struct sim *sim, int owner) {
  const size_t count = sim->layout.sketch_count, bytes = sim->layout.message_bytes;
  struct tagc_job *job = &sim->job[owner];
  for (size_t i = 0; i < count; i++)
    job->sketch_in[i] = 0;
  for (int from = 0; from < sim->world->ranks; from++) {
    const int32_t *out = sim->job[from].sketch_out + (size_t)owner * count;
    for (size_t i = 0; i < count; i++)
      job->sketch_in[i] = (int32_t)((uint32_t)job->sketch_in[i] + (uint32_t)out[i]);
    if (from != owner && bytes)
      memcpy(job->message_in + (size_t)from * bytes, sim->job[from].message_out + (size_t)owner * bytes, bytes);
  }
}

static void sim_step(struct sim *sim, uint64_t seed) {
  const int ranks = sim->world->ranks;
  const uint64_t n = sim->world->n;
  for (int rank = 0; rank < ranks; rank++) {
    sim->job[rank].seed = seed;
    if (sim->codec->prepare)
      sim->codec->prepare(&sim->job[rank]);
  }
  exchange_all_exponents(sim);
  for (int rank = 0; rank < ranks; rank++)
    sim->codec->encode(&sim->job[rank]);
  for (int owner = ranks; owner-- > 0;) {
    struct tagc_job *job = &sim->job[owner];
    receive(sim, owner);
    sim->codec->decode(job);
    job->residual_empty = false;
    for (uint64_t i = 0; i < n; i++)
      sim->sum[(uint64_t)owner * n + i] += tagc_load(job->recv, i, sim->world->dtype);
  }
}

/* The errors of the sums over `steps` equal steps. */
static void compare_sim_times(const struct sim *sim, int steps, struct bench_result *result) {
  const struct bench_world *world = sim->world;
  double error2 = 0, exact2 = 0, sum2 = 0, product = 0, worst = 0;
  uint64_t counted = 0;
  bool broken = false; /* a shard is NaN: too many exceptions */
  for (uint64_t i = 0; i < (uint64_t)world->ranks * world->n; i++) {
    double exact = 0, sum = sim->sum[i] / steps;
    for (int rank = 0; rank < world->ranks; rank++)
      exact += tagc_load(world->send[rank], i, world->dtype);
    if (!isfinite(exact))
      continue;
    counted++;
    error2 += (sum - exact) * (sum - exact);
    exact2 += exact * exact;
    sum2 += sum * sum;
    product += sum * exact;
    worst = fmax(worst, fabs(sum - exact));
    broken |= !isfinite(sum);
  }
  result->nonfinite = (uint64_t)world->ranks * world->n - counted;
  result->error = exact2 > 0 ? sqrt(error2 / exact2) : 0;
  result->worst = exact2 > 0 ? worst / sqrt(exact2 / (double)counted) : 0;
  if (broken) {
    result->error = result->worst = result->cosine = NAN;
    return;
  }
  result->cosine = exact2 > 0 && sum2 > 0 ? product / sqrt(exact2 * sum2) : error2 > 0 ? 0 : 1;
}

/* Times rank 0 for the requested variants, the chosen one first. */
static void measure_codec(const struct bench_options *o, struct sim *sim, int repeat, struct bench_result *result) {
  const enum tagc_variant chosen = tagc_variant();
  for (int turn = TAGC_VARIANT_COUNT; turn >= 0; turn--) {
    const enum tagc_variant variant = turn == TAGC_VARIANT_COUNT ? chosen : (enum tagc_variant)turn;
    if (turn < TAGC_VARIANT_COUNT && (!o->all_variants || variant == chosen))
      continue;
    if (!tagc_variant_force(tagc_variant_name(variant)))
      continue;
    struct bench_speed *speed = &result->speed[result->speeds++];
    *speed = bench_measure(sim->codec, &sim->job[0], repeat);
    speed->variant = variant;
  }
  tagc_variant_force(tagc_variant_name(chosen));
}

static bool varies(const struct tagc_codec *codec, struct tagc_shape shape) {
  struct tagc_layout few, many;
  shape.keep_ppm = 10000;
  bool carried = codec->layout(&shape, &few);
  shape.keep_ppm = 900000;
  return !carried || !codec->layout(&shape, &many) ||
         tagc_layout_wire_bytes(&shape, &few) != tagc_layout_wire_bytes(&shape, &many);
}

struct bench_result bench_run(const struct bench_options *o, const struct bench_world *world,
                              const struct tagc_codec *codec, uint32_t keep_ppm, int repeat) {
  static struct sim sim;
  struct tagc_shape shape = {.n = world->n,
                             .nranks = world->ranks,
                             .dtype = world->dtype,
                             .keep_ppm = keep_ppm,
                             .residual = bench_storage(o, codec)};
  struct bench_result result = {.codec = codec, .keep_ppm = keep_ppm, .residual = shape.residual};
  sim = (struct sim){.codec = codec, .world = world};
  if ((codec->needs_residual && shape.residual == TAGC_STORAGE_NONE) || !codec->layout(&shape, &sim.layout))
    return result;
  result.carried = true;
  result.varies = varies(codec, shape);
  result.sketch = sim.layout.sketch_count > 0;
  const double foreign = (double)(world->ranks - 1) * (double)world->n;
  result.bits = 8 * (double)tagc_layout_wire_bytes(&shape, &sim.layout) / foreign;
  sim_start(&sim, &shape, o->rounding == 1);
  for (int step = 0; step < o->steps; step++) {
    sim_step(&sim, tagc_mix64(o->seed + (uint64_t)step + 1));
    if (step == 0) {
      compare_sim_times(&sim, 1, &result);
      result.error_first = result.error;
    }
  }
  if (o->steps > 1)
    compare_sim_times(&sim, o->steps, &result);
  const double sent = (double)sim.stats.selected;
  result.density = sent / (foreign * world->ranks * o->steps);
  result.unrecovered = sent > 0 ? (double)sim.stats.unrecovered / sent : 0;
  if (repeat > 0)
    measure_codec(o, &sim, repeat, &result);
  sim_end(&sim);
  return result;
}
