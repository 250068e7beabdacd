/* SPDX-License-Identifier: BSD-3-Clause
 * A codec on a CUDA device beside the same codec on the host, step by step on all ranks: the first difference.
 *
 * Threads  Single-threaded. Failure: ends the test program.
 */
#ifndef TESTS_UNIT_DEVICE_CUDA_CODEC_H
#define TESTS_UNIT_DEVICE_CUDA_CODEC_H

#include "tests/unit/device/cuda_rank.h"
#include "tests/unit/tap.h"

struct setting {
  const char *codec;
  uint64_t n;
  int nranks, devices; /* devices: the first ranks, which have one; 0: all */
  uint32_t keep_ppm;   /* sparse codecs */
  enum tagc_dtype dtype;
  enum tagc_storage storage;
  bool stochastic;
  enum pattern pattern;
  size_t off; /* bytes past an aligned address */
  bool in_place;
  float scale, divisor;
  double inexact; /* tolerance of the norm, the same sum in another order */
  int steps;
  uint64_t seed;                    /* of the first step; 0: any */
  uint32_t most, decode_most;       /* groups of a launch, of one to decode; 0: as many as are useful */
  bool measured;                    /* exponents come before prepare, as in chunks */
  bool again;                       /* the messages are decoded twice; not in place */
  bool disagrees;                   /* the messages contradict themselves: results are not compared */
  void (*change)(struct sim *sim);  /* changes the inputs before a step, beyond the pattern */
  void (*corrupt)(struct sim *sim); /* changes the messages */
};

static const char *const dtypes[] = {"fp32", "fp16", "bf16"};
static const char *const storages[] = {"none", "fp32", "bf16", "int8"};
enum { DTYPES = 3, STORAGES = 4 };

static struct tagc_cuda_launcher launcher;
static char difference[256]; /* the first one of a setting */
static uint64_t compared, estimated;

static void differs(const struct setting *s, int step, int rank, const char *what, size_t at) {
  if (!difference[0])
    snprintf(difference, sizeof difference,
             "step %d: %s of rank %d differs, n=%llu, %d ranks, keep %u, %s, pattern %d, off %zu%s: byte %zd", step,
             what, rank, (unsigned long long)s->n, s->nranks, s->keep_ppm, dtypes[s->dtype], (int)s->pattern, s->off,
             s->in_place ? ", in place" : "", (ssize_t)at - 1);
}

static void compare(const struct setting *s, int step, int rank, const char *what, const struct twin *twin, size_t from,
                    size_t bytes) {
  const size_t at = twin_differs(twin, from, bytes);
  compared += bytes;
  if (at)
    differs(s, step, rank, what, at);
}

static bool about(double a, double b, double inexact) { return a == b || fabs(a - b) <= inexact * fabs(b); }

static bool has_device(const struct setting *s, int rank) { return !s->devices || rank < s->devices; }

static void measure_both(const struct setting *s, struct sim *sim, struct device_rank *ranks, int step) {
  for (int r = 0; r < s->nranks; r++) {
    struct tagc_job *host = &sim->job[r], *device = &ranks[r].job;
    device->residual_empty = host->residual_empty;
    host->measured = device->measured = true;
    twin_put(&ranks[r].send);
    sim->codec->measure(host);
    MUST(
      tagc_cuda_codec_of(sim->codec)->measure(&launcher, sim->codec, device, (void *)twin_at(&ranks[r].counts), NULL));
    compare(s, step, r, "a measured exponent", &ranks[r].exponents, 0, ranks[r].exponents.bytes);
    compare(s, step, r, "the residual, only measured,", &ranks[r].residual, 0, step ? ranks[r].residual.bytes : 0);
  }
  sim_exchange_exponents(sim);
  for (int r = 0; r < s->nranks; r++)
    twin_put(&ranks[r].exponents);
}

static void prepare_both(const struct setting *s, struct sim *sim, struct device_rank *ranks, int step) {
  const struct tagc_cuda_codec *codec = tagc_cuda_codec_of(sim->codec);
  for (int r = 0; r < s->nranks; r++) {
    struct tagc_job *host = &sim->job[r], *device = &ranks[r].job;
    ranks[r].stats = (struct tagc_codec_stats){0};
    ranks[r].before = device_counts(&ranks[r]);
    host->seed = device->seed = s->seed ? s->seed + (uint64_t)step : 1000003u * (uint64_t)step + s->n;
    host->stats = &ranks[r].stats;
    device->residual_empty = host->residual_empty;
    device->cycle = (uint64_t)step + 1;
    if (host->nonfinite_before)
      MUST(cuMemcpyHtoD_v2(ranks[r].health.base + GUARD + device->cycle * sizeof device->cycle, &device->cycle,
                           sizeof device->cycle));
    twin_put(&ranks[r].send);
    if (sim->codec->prepare)
      sim->codec->prepare(host);
    if (codec->prepare && has_device(s, r))
      MUST(codec->prepare(&launcher, sim->codec, device, (void *)twin_at(&ranks[r].counts), NULL));
    if (has_device(s, r))
      compare(s, step, r, "an exponent", &ranks[r].exponents, 0, ranks[r].exponents.bytes);
  }
}

static void encode_both(const struct setting *s, struct sim *sim, struct device_rank *ranks, int step) {
  for (int r = 0; r < s->nranks; r++) {
    struct tagc_job *host = &sim->job[r];
    const struct tagc_codec_stats *stats = &ranks[r].stats;
    const struct tagc_counts *before = &ranks[r].before;
    twin_put(&ranks[r].exponents);
    sim->codec->encode(host);
    if (!has_device(s, r))
      continue;
    MUST(tagc_cuda_codec_of(sim->codec)
           ->encode(&launcher, sim->codec, &ranks[r].job, (void *)twin_at(&ranks[r].counts), NULL));
    for (int shard = 0; shard < s->nranks; shard++)
      if (shard != r)
        compare(s, step, r, "a message", &ranks[r].message_out, (size_t)shard * host->layout.message_bytes,
                host->layout.message_bytes);
    compare(s, step, r, "a sketch", &ranks[r].sketch_out, 0, ranks[r].sketch_out.bytes);
    compare(s, step, r, "the residual", &ranks[r].residual, 0, ranks[r].residual.bytes);
    compare(s, step, r, "the send buffer", &ranks[r].send, 0, ranks[r].send.bytes);
    compare(s, step, r, "an exponent after all", &ranks[r].exponents, 0, ranks[r].exponents.bytes);
    const struct tagc_counts after = device_counts(&ranks[r]);
    if (after.selected - before->selected != stats->selected ||
        after.nonfinite - before->nonfinite != stats->nonfinite || after.lost - before->lost != stats->lost)
      differs(s, step, r, "a count of encode", 0);
    if (!about(after.residual_norm2, stats->residual_norm2, s->inexact))
      differs(s, step, r, "the norm", 0);
  }
}

/* A decode that ends its call counts calls with a surplus in a row, and enters a cycle that had exceptions. */
static bool ended_right(const struct sim *sim, const struct device_rank *rank, const struct tagc_counts *after) {
  const struct tagc_job *host = &sim->job[rank->job.rank];
  const uint64_t cycle = rank->job.cycle;
  const bool ends = rank->job.ends && tagc_cuda_codec_of(sim->codec)->ends;
  const uint32_t surplus = host->surplus_seen ? rank->before.surplus_calls + 1 : 0;
  struct tagc_health health;
  device_read(&health, rank->health.base + GUARD, sizeof health);
  return after->surplus_calls == (ends ? surplus : rank->before.surplus_calls) &&
         health.nonfinite[cycle] == (host->nonfinite_before || (ends && host->nonfinite_seen) ? cycle : 0);
}

/* A decode without a prepare before it: the next one must give the same result. */
static void decode_once_more(const struct setting *s, struct sim *sim, struct device_rank *rank) {
  MUST(tagc_cuda_codec_of(sim->codec)->decode(&launcher, sim->codec, &rank->job, (void *)twin_at(&rank->counts), NULL));
  rank->before = device_counts(rank);
  MUST(cuMemsetD8Async(rank->recv.base + GUARD + rank->recv.off, GUARD_BYTE, s->in_place ? 0 : rank->recv.bytes, NULL));
}

static void decode_both(const struct setting *s, struct sim *sim, struct device_rank *ranks, int step) {
  for (int r = 0; r < s->nranks && has_device(s, r); r++) {
    struct tagc_job *host = &sim->job[r];
    const struct tagc_codec_stats *stats = &ranks[r].stats;
    const struct tagc_counts *before = &ranks[r].before;
    const struct twin *to = s->in_place ? &ranks[r].send : &ranks[r].recv;
    void *recv = host->recv;
    if (s->in_place)
      host->recv = (void *)(uintptr_t)tagc_job_shard(host, r);
    twin_put(&ranks[r].exponents);
    twin_put(&ranks[r].sketch_in);
    twin_put(&ranks[r].message_in);
    sim->codec->decode(host);
    if (s->again)
      decode_once_more(s, sim, &ranks[r]);
    MUST(tagc_cuda_codec_of(sim->codec)
           ->decode(&launcher, sim->codec, &ranks[r].job, (void *)twin_at(&ranks[r].counts), NULL));
    host->recv = recv;
    host->residual_empty = false;
    compare(s, step, r, "the result", to, 0, s->disagrees ? 0 : to->bytes);
    if (twin_differs(&ranks[r].state, 0, 0) || twin_differs(&ranks[r].counts, 0, 0))
      differs(s, step, r, "what is beside the state", 0);
    const struct tagc_counts after = device_counts(&ranks[r]);
    estimated += after.unrecovered - before->unrecovered;
    if (after.unrecovered - before->unrecovered != stats->unrecovered ||
        after.overflowed - before->overflowed != stats->overflowed || after.nonfinite_seen != host->nonfinite_seen ||
        after.surplus_seen != host->surplus_seen)
      differs(s, step, r, "a count of decode", 0);
    if (!ended_right(sim, &ranks[r], &after))
      differs(s, step, r, "the end of the call", 0);
  }
}

/* Values whose sums are infinite in fp16: in the first block, and at the end of shards. A setting's `change`. */
static inline void sums_too_large(struct sim *sim) {
  for (int r = 0; r < sim->shape.nranks; r++)
    for (int shard = 0; shard < sim->shape.nranks; shard++) {
      sim_put(sim, r, shard, 5, 40000);
      sim_put(sim, r, shard, sim->shape.n - 1, -40000);
    }
}

/* Runs all steps of a setting. The first difference is in `difference`. */
static bool same(const struct setting *s) {
  struct sim sim = sim_new_stored(s->codec, s->n, s->nranks, s->dtype, s->keep_ppm, s->storage);
  struct device_rank *ranks = calloc((size_t)s->nranks, sizeof *ranks);
  difference[0] = '\0';
  for (int r = 0; r < s->nranks; r++) {
    sim.job[r].scale = s->scale;
    sim.job[r].divisor = s->divisor;
    sim.job[r].stochastic = s->stochastic;
    ranks[r] = device_rank_new(sim.codec, &sim.job[r], s->off, s->in_place);
  }
  for (int step = 0; step < s->steps && !difference[0]; step++) {
    case_fill(&sim, s->pattern);
    if (s->change)
      s->change(&sim);
    launcher.most = s->most;
    if (s->measured)
      measure_both(s, &sim, ranks, step);
    prepare_both(s, &sim, ranks, step);
    sim_exchange_exponents(&sim);
    encode_both(s, &sim, ranks, step);
    sim_exchange(&sim);
    if (s->corrupt)
      s->corrupt(&sim);
    launcher.most = s->decode_most ? s->decode_most : s->most;
    decode_both(s, &sim, ranks, step);
  }
  for (int r = 0; r < s->nranks; r++)
    device_rank_free(&ranks[r]);
  free(ranks);
  sim_free(&sim);
  launcher.most = 0;
  if (difference[0])
    note("%s, residual %s%s: %s", s->codec, storages[s->storage], s->stochastic ? ", by chance" : "", difference);
  return !difference[0];
}

/* Captures an encode and a decode once, and launches them twice with other gradients. */
static inline void check_graph(const struct setting *s) {
  struct sim sim = sim_new_stored(s->codec, s->n, s->nranks, s->dtype, s->keep_ppm, s->storage);
  struct device_rank rank = device_rank_new(sim.codec, &sim.job[0], 0, false);
  struct tagc_codec_stats stats = {0};
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  CUgraph graph;
  CUgraphExec exec;
  difference[0] = '\0';
  sim.job[0].stats = sim.job[1].stats = &stats;
  MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  MUST(tagc_cuda_codec_of(sim.codec)->encode(&launcher, sim.codec, &rank.job, twin_at(&rank.counts), stream));
  MUST(tagc_cuda_codec_of(sim.codec)->decode(&launcher, sim.codec, &rank.job, twin_at(&rank.counts), stream));
  MUST(cuStreamEndCapture(stream, &graph));
  MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int round = 0; round < 2; round++) {
    case_fill(&sim, round ? FEW_EXCEPTIONS : GAUSS);
    for (int r = 0; r < 2; r++)
      sim.codec->encode(&sim.job[r]);
    sim_exchange(&sim);
    sim.codec->decode(&sim.job[0]);
    twin_put(&rank.send);
    twin_put(&rank.message_in);
    MUST(cuGraphLaunch(exec, stream));
    MUST(cuStreamSynchronize(stream));
    compare(s, round, 0, "a message", &rank.message_out, sim.layout.message_bytes, sim.layout.message_bytes);
    compare(s, round, 0, "the result", &rank.recv, 0, rank.recv.bytes);
  }
  MUST(cuGraphExecDestroy(exec));
  MUST(cuGraphDestroy(graph));
  MUST(cuStreamDestroy_v2(stream));
  device_rank_free(&rank);
  sim_free(&sim);
  ok(!difference[0], "a graph that was captured does the same with what is there when it is launched: %s", difference);
}

#endif
