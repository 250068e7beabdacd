/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench --allgather: measures the codecs for all-gathers on shards of parameters: compression, loss, and the times
 * to encode and decode one shard against memcpy of it in the same run. Behind them is support, the codec for sums of
 * all-reduces, on shards of a few values among zeros.
 *
 * Shards     Rank r has shard r of the first rank's data. delta's reference is the same, each value moved by up to 1%
 *            of the root mean square, as a training step moves it. support's keep each value with the probability
 *            that --density says.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "env/clock.h"
#include "env/program/terminal.h"
#include "kernels/allgather/support.h"
#include "kernels/codec/allgather.h"
#include "kernels/tagc-bench/bench.h"
#include "kernels/codec/bits.h"

enum { COPY, ENCODE, DECODE, TIMES };

struct allgather {
  const struct tagc_allgather_codec *codec;
  bool carried, refused;
  double density;                     /* elements other than zero, of all */
  double bits, ratio, error, escapes; /* per element; plain over sent; relative L2; relative to all elements */
  struct {
    enum tagc_variant variant;
    double ns[TIMES];
  } speed[TAGC_VARIANT_COUNT];
  size_t speeds;
};

static void make_reference(const struct bench_world *world, void *reference) {
  const uint64_t all = (uint64_t)world->ranks * world->n;
  double squares = 0;
  for (uint64_t i = 0; i < all; i++)
    squares += pow((double)tagc_load(world->send[0], i, world->dtype), 2);
  const double most = 0.01 * sqrt(squares / (double)all);
  for (uint64_t i = 0; i < all; i++) {
    const double moved = ((double)(tagc_mix64(i + 1) >> 11) * 0x1p-52 - 1) * most;
    tagc_store(reference, i, world->dtype, (float)((double)tagc_load(world->send[0], i, world->dtype) + moved));
  }
}

/* Medians of a shard copied, encoded, decoded, in turn, always against the same reference. */
static void measure_allgather(const struct bench_world *world, const struct tagc_allgather_codec *codec,
                              struct tagc_allgather_job *job, size_t shard, int repeat, double ns[TIMES]) {
  static double times[TIMES][BENCH_MOST_REPEAT];
  void *copy = bench_need(shard), *reference = bench_need(job->layout.reference_bytes);
  if (job->layout.reference_bytes)
    make_reference(world, reference);
  for (int i = -2; i < repeat; i++) { /* two to warm up */
    memcpy(job->reference, reference, job->layout.reference_bytes);
    const double began = (double)tagc_clock_ns();
    memcpy(copy, job->send, shard);
    __asm__ volatile("" : : "r"(copy) : "memory");
    const double copied = (double)tagc_clock_ns();
    codec->encode(job);
    const double encoded = (double)tagc_clock_ns();
    codec->decode(job);
    const double decoded = (double)tagc_clock_ns();
    if (i < 0)
      continue;
    times[COPY][i] = copied - began;
    times[ENCODE][i] = encoded - copied;
    times[DECODE][i] = (decoded - encoded) / job->shape.nranks;
  }
  for (int t = 0; t < TIMES; t++)
    ns[t] = bench_median(times[t], repeat);
  bench_release(copy);
  bench_release(reference);
}

/* All ranks encode; the first one decodes. Returns the most bytes that a payload of support needs. */
static uint64_t gather_once(const struct bench_world *world, const struct tagc_allgather_codec *codec,
                            struct tagc_allgather_job *job) {
  uint64_t most = 0;
  if (job->layout.reference_bytes)
    make_reference(world, job->reference);
  for (job->rank = world->ranks; job->rank-- > 0;) {
    job->send = (const char *)world->send[0] + (size_t)job->rank * world->n * tagc_dtype_size(world->dtype);
    codec->encode(job);
    const uint64_t needed =
      codec == &tagc_allgather_support ? tagc_support_needed(tagc_allgather_payload(job, job->rank)) : 0;
    most = needed > most ? needed : most;
  }
  job->rank = 0;
  codec->decode(job);
  return most;
}

/* The first calls tell how many bytes the payloads take; once more with so many. */
static void gather(const struct bench_world *world, const struct tagc_allgather_codec *codec,
                   struct tagc_allgather_job *job) {
  const uint64_t needed = gather_once(world, codec, job);
  if (codec->least_bytes) {
    job->layout.payload_bytes = job->sizes->payload_bytes;
    job->sizes = NULL;
    gather_once(world, codec, job);
  }
  if (needed && needed <= job->layout.payload_bytes) {
    job->layout.payload_bytes = needed;
    gather_once(world, codec, job);
  }
}

static double density_of(const struct bench_world *world) {
  const uint64_t all = (uint64_t)world->ranks * world->n;
  uint64_t values = 0;
  for (uint64_t i = 0; i < all; i++)
    values += tagc_load(world->send[0], i, world->dtype) != 0;
  return (double)values / (double)all;
}

static void run_codec(const struct bench_options *o, const struct bench_world *world, struct allgather *g) {
  const size_t shard = world->n * tagc_dtype_size(world->dtype);
  struct tagc_allgather_stats stats = {0};
  struct tagc_allgather_sizes sizes = {0};
  struct tagc_allgather_job job = {.shape = {.n = world->n, .nranks = world->ranks, .dtype = world->dtype},
                                   .seed = o->seed,
                                   .stats = &stats,
                                   .sizes = &sizes};
  g->density = density_of(world);
  g->carried = g->codec->layout(&job.shape, &job.layout);
  if (!g->carried)
    return;
  uint8_t *memory = bench_need(tagc_allgather_assign_buffers(&job, NULL));
  tagc_allgather_assign_buffers(&job, memory);
  job.recv = bench_need((size_t)world->ranks * shard);
  job.reference = bench_need(job.layout.reference_bytes);
  gather(world, g->codec, &job);
  g->refused = job.refused;
  g->bits = 8.0 * (double)job.layout.payload_bytes / (double)world->n;
  g->ratio = (double)shard / (double)job.layout.payload_bytes;
  g->error = stats.norm2 > 0 ? sqrt(stats.error2 / stats.norm2) : 0;
  g->escapes = (double)stats.escapes / (double)world->n / world->ranks;
  const enum tagc_variant fastest = tagc_variant();
  job.stats = NULL;
  for (int v = o->all_variants ? 0 : (int)fastest; v <= (int)fastest && o->repeat > 0; v++) {
    if (!tagc_variant_force(tagc_variant_name((enum tagc_variant)v)))
      continue;
    g->speed[g->speeds].variant = (enum tagc_variant)v;
    measure_allgather(world, g->codec, &job, shard, o->repeat, g->speed[g->speeds++].ns);
  }
  bench_release(memory);
  bench_release(job.recv);
  bench_release(job.reference);
}

/* Sums of a sparse gradient: each value stays with this probability. */
static void run_support(const struct bench_options *o, const struct bench_world *world, double density,
                        struct allgather *g) {
  const uint64_t all = (uint64_t)world->ranks * world->n;
  const size_t size = tagc_dtype_size(world->dtype);
  struct bench_world sums = *world;
  sums.send[0] = bench_need(all * size);
  for (uint64_t i = 0; i < all; i++)
    if ((double)(tagc_mix64(o->seed + i + 1) >> 11) * 0x1p-53 < density)
      memcpy((char *)sums.send[0] + i * size, (const char *)world->send[0] + i * size, size);
  g->codec = &tagc_allgather_support;
  run_codec(o, &sums, g);
  bench_release(sums.send[0]);
}

static void print_allgather_table(const struct bench_options *o, const struct bench_world *w,
                                  const struct allgather *all, size_t count) {
  const double bytes = (double)w->n * (double)tagc_dtype_size(w->dtype);
  tagc_put_tamed(stdout, basename(w->name));
  printf("\n%s, %d ranks, %llu elements a shard, seed %llu\n", bench_dtype_name(w->dtype), w->ranks,
         (unsigned long long)w->n, (unsigned long long)o->seed);
  printf("\n%-9s%7s %6s %7s %8s %7s", "codec", "density", "bits", "ratio", "error", "escapes");
  printf("%s\n", o->repeat ? "  variant memcpy GB/s encode decode both (of memcpy)" : "");
  for (const struct allgather *g = all; g < all + count; g++) {
    if (!g->carried) {
      printf("%-9s has no gain from this shape\n", g->codec->name);
      continue;
    }
    printf("%-9s%6.2f%% %6.3f %7.3f ", g->codec->name, 100 * g->density, g->bits, g->ratio);
    if (g->refused)
      printf("%8s", "refused");
    else
      printf("%8.2e", g->error);
    printf(" %6.2f%%", 100 * g->escapes);
    for (size_t s = 0; s < g->speeds; s++) {
      const double *ns = g->speed[s].ns;
      printf("%*s  %-7s %11.1f %6.2f %6.2f %6.2f", s ? 48 : 0, "", tagc_variant_name(g->speed[s].variant),
             bytes / ns[COPY], ns[COPY] / ns[ENCODE], ns[COPY] / ns[DECODE], ns[COPY] / (ns[ENCODE] + ns[DECODE]));
      printf("%s", s + 1 < g->speeds ? "\n" : "");
    }
    putchar('\n');
  }
}

static void put_codec(struct tagc_json *j, const struct allgather *g, double bytes) {
  tagc_json_line(j, 2);
  tagc_json_open(j, NULL, '{');
  tagc_json_text(j, "codec", g->codec->name);
  tagc_json_truth(j, "carried", g->carried);
  if (g->carried) {
    tagc_json_truth(j, "refused", g->refused);
    tagc_json_real(j, "bits", g->bits);
    tagc_json_real(j, "ratio", g->ratio);
    tagc_json_real(j, "error", g->error);
    tagc_json_real(j, "escapes", g->escapes);
    tagc_json_real(j, "density", g->density);
    for (size_t s = tagc_json_list(j, "speeds"); tagc_json_item(j, s, g->speeds); s++) {
      const double *ns = g->speed[s].ns;
      tagc_json_text(j, "variant", tagc_variant_name(g->speed[s].variant));
      tagc_json_real(j, "memcpy_gbs", bytes / ns[COPY]);
      tagc_json_real(j, "encode_ratio", ns[COPY] / ns[ENCODE]);
      tagc_json_real(j, "decode_ratio", ns[COPY] / ns[DECODE]);
      tagc_json_real(j, "both_ratio", ns[COPY] / (ns[ENCODE] + ns[DECODE]));
    }
  }
  tagc_json_close(j, '}');
}

static void print_allgather_json(const struct bench_options *o, const struct bench_world *w,
                                 const struct allgather *all, size_t count) {
  struct tagc_json j = bench_json_begin();
  bench_json_world(&j, w);
  tagc_json_count(&j, "seed", o->seed);
  tagc_json_line(&j, 1);
  tagc_json_open(&j, "gather", '[');
  for (size_t i = 0; i < count; i++)
    put_codec(&j, &all[i], (double)w->n * (double)tagc_dtype_size(w->dtype));
  tagc_json_line(&j, 1);
  tagc_json_close(&j, ']');
  bench_json_end(&j);
}

void bench_allgather(const struct bench_options *o) {
  static struct allgather all[BENCH_MOST_CODECS];
  size_t count = 0;
  struct bench_world world = bench_world_new(o);
  for (; tagc_allgather_codecs[count]; count++) {
    all[count].codec = tagc_allgather_codecs[count];
    run_codec(o, &world, &all[count]);
  }
  for (size_t i = 0; i < o->density_count; i++)
    run_support(o, &world, o->density[i], &all[count++]);
  if (o->json)
    print_allgather_json(o, &world, all, count);
  else
    print_allgather_table(o, &world, all, count);
  bench_world_free(&world);
}
