/* SPDX-License-Identifier: BSD-3-Clause
 * Calls in chunks (chunks.h): their boundaries. The results of a chunk must equal those of a call on the same values,
 * and for codecs of blocks those of the whole.
 */
#include "kernels/codec/assign_buffer.h"
#include "kernels/codec/chunks.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/tap.h"

/* Sanitizers check memory: settings that differ in arithmetic alone are for the other builds. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { TRIES = 6 };
#else
enum { TRIES = 24 };
#endif
enum { RANKS = 3, STEPS = 3, GRAIN = TAGC_CHUNK_ELEMENTS };

/* Describes the fault of a division into chunks; NULL: none. */
static const char *fault_of(uint64_t n, int depth) {
  const struct tagc_chunks p = tagc_chunks_of(n, depth);
  if (p.count < 1 || p.count > depth || p.at[0] != 0 || p.at[p.count] != n)
    return "the ends";
  if (p.count < depth && n / GRAIN >= 2 * (uint64_t)p.count)
    return "too few";
  for (int k = 0; k < p.count; k++)
    if (p.at[k] >= p.at[k + 1] || p.at[k] % GRAIN != 0)
      return "the order, or a block is cut";
  const double part = p.count > 1 ? (double)n / (2 * (p.count - 1)) : (double)n;
  for (int k = 0; k < p.count; k++) {
    const double wanted = (k == 0 || k == p.count - 1 ? 1 : 2) * part;
    if (fabs((double)(p.at[k + 1] - p.at[k]) - wanted) > 2 * GRAIN)
      return "the proportions";
  }
  return NULL;
}

static void check_cuts(void) {
  static const uint64_t sizes[] = {
    1,          GRAIN - 1,         GRAIN,   2 * GRAIN - 1,           2 * GRAIN,        2 * GRAIN + 1,
    30 * GRAIN, 30 * GRAIN + 4095, 1 << 24, (UINT64_C(1) << 32) - 1, UINT64_C(1) << 60};
  const char *fault = NULL;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !fault; i++)
    for (int depth = 1; depth <= TAGC_CHUNKS && !fault; depth++)
      fault = fault_of(sizes[i], depth);
  for (int i = 0; i < 20000 && !fault; i++)
    fault = fault_of(1 + sim_random() % (1 << (1 + sim_random() % 28)), 1 + (int)(sim_random() % TAGC_CHUNKS));
  ok(!fault, "chunks follow one another, cut no block, and are 1:2:...:2:1%s%s", fault ? ", but: " : "",
     fault ? fault : "");
  const struct tagc_chunks four = tagc_chunks_of(60 * GRAIN + 7, 4);
  ok(four.count == 4 && four.at[1] == 10 * GRAIN && four.at[2] == 30 * GRAIN && four.at[3] == 50 * GRAIN,
     "four: 1:2:2:1");
  static float elements[60 * GRAIN + 7];
  struct tagc_job whole = {.shape = {.n = 60 * GRAIN + 7, .nranks = RANKS, .dtype = TAGC_FLOAT32},
                           .send = elements,
                           .recv = elements,
                           .ends = true};
  bool last_ends = true;
  for (int k = 0; k < four.count; k++)
    last_ends &=
      tagc_chunk_job(&whole, &four, k).ends == (k == 3) && tagc_chunk_job(&whole, &four, k).continues == (k > 0);
  whole.ends = false;
  ok(last_ends && !tagc_chunk_job(&whole, &four, 3).ends, "the last one ends a call, if any does");
}

static void check_residual_sizes(void) {
  int wrong = 0;
  for (int i = 0; i < 2000; i++) {
    const struct tagc_shape whole = {.n = 1 + sim_random() % (40 * GRAIN),
                                     .nranks = 2 + (int)(sim_random() % 5),
                                     .residual = (enum tagc_storage)(sim_random() % 4)};
    const struct tagc_chunks p = tagc_chunks_of(whole.n, 1 + (int)(sim_random() % TAGC_CHUNKS));
    size_t all = 0;
    for (int k = 0; k < p.count; k++) {
      const struct tagc_shape shape = tagc_chunk_shape(&whole, &p, k);
      all += tagc_residual_bytes(&shape);
    }
    wrong += all != tagc_residual_bytes(&whole);
  }
  ok(wrong == 0, "residuals of the chunks take what that of the whole takes");
}

/* The memory of a rank's chunk, of exactly the size it needs. */
static void *lay_out(struct tagc_job *job, const struct tagc_codec *codec, struct tagc_codec_stats *stats) {
  codec->layout(&job->shape, &job->layout);
  void *memory = aligned_alloc(64, tagc_job_assign_buffers(job, NULL));
  tagc_job_assign_buffers(job, memory);
  *stats = (struct tagc_codec_stats){0};
  job->stats = stats;
  return memory;
}

/* By rank, of a step in chunks; a sim has one for all ranks together. */
static struct tagc_codec_stats seen[RANKS];

/* The jobs of a step's chunks, by rank. */
struct cut {
  struct tagc_job job[TAGC_CHUNKS][RANKS];
  struct tagc_codec_stats stats[TAGC_CHUNKS][RANKS];
  void *memory[TAGC_CHUNKS][RANKS];
};

static void cut_out(struct cut *cut, struct sim *sim, const struct tagc_chunks *chunks, uint64_t seed) {
  for (int r = 0; r < RANKS; r++) {
    sim->job[r].seed = seed;
    sim->job[r].stats = &seen[r];
    struct tagc_job whole = sim->job[r];
    if (sim->in_place)
      whole.recv = (char *)(uintptr_t)whole.send + tagc_job_shard_at(&whole, r);
    for (int k = 0; k < chunks->count; k++) {
      cut->job[k][r] = tagc_chunk_job(&whole, chunks, k);
      cut->memory[k][r] = lay_out(&cut->job[k][r], sim->codec, &cut->stats[k][r]);
    }
  }
}

/* Before the first chunk: the exponents of all. */
static void measure_chunk(const struct sim *sim, struct tagc_job job[RANKS]) {
  for (int r = 0; r < RANKS && sim->codec->measure; r++) {
    sim->codec->measure(&job[r]);
    job[r].measured = true;
  }
  for (size_t i = 0; i < RANKS * job[0].layout.exponent_bytes; i++)
    for (int from = 0; from < RANKS; from++)
      for (int to = 0; to < RANKS; to++)
        if (job[to].exponents[i] < job[from].exponents[i])
          job[to].exponents[i] = job[from].exponents[i];
}

static void exchange_chunk(struct tagc_job job[RANKS]) {
  for (int to = 0; to < RANKS; to++) {
    const size_t bytes = job[to].layout.message_bytes, count = job[to].layout.sketch_count;
    uint32_t *in = (uint32_t *)job[to].sketch_in;
    memset(in, 0, count * sizeof *in);
    for (int from = 0; from < RANKS; from++) {
      const uint32_t *out = (const uint32_t *)job[from].sketch_out + (size_t)to * count;
      for (size_t i = 0; i < count; i++)
        in[i] += out[i];
      if (from != to)
        memcpy(job[to].message_in + (size_t)from * bytes, job[from].message_out + (size_t)to * bytes, bytes);
    }
  }
}

static void step_in_chunks(struct sim *sim, const struct tagc_chunks *chunks, uint64_t seed) {
  static struct cut cut;
  cut_out(&cut, sim, chunks, seed);
  for (int k = 0; k < chunks->count; k++)
    measure_chunk(sim, cut.job[k]);
  for (int k = 0; k < chunks->count; k++) {
    for (int r = 0; r < RANKS; r++) {
      if (sim->codec->prepare)
        sim->codec->prepare(&cut.job[k][r]);
      sim->codec->encode(&cut.job[k][r]);
    }
    exchange_chunk(cut.job[k]);
    for (int r = 0; r < RANKS; r++) {
      sim->codec->decode(&cut.job[k][r]);
      tagc_chunk_add_stats(&sim->job[r], &cut.job[k][r]);
      free(cut.memory[k][r]);
    }
  }
  for (int r = 0; r < RANKS; r++)
    sim->job[r].residual_empty = false;
}

static void fill(struct sim *sim) {
  for (int r = 0; r < RANKS; r++)
    for (uint64_t i = 0; i < RANKS * sim->shape.n; i++)
      sim_put(sim, r, 0, i, sim_normal() * (sim_random() % 64 ? 1e-3f : 1));
  sim_put(sim, 1, 0, sim->shape.n - 1, INFINITY);
  sim_put(sim, 0, 2, GRAIN + 5, NAN);
}

static bool same_results(const struct sim *a, const struct sim *b) {
  for (int r = 0; r < RANKS; r++)
    for (uint64_t i = 0; i < a->shape.n; i++) {
      const float x = sim_got(a, r, i), y = sim_got(b, r, i);
      if (memcmp(&x, &y, sizeof x) != 0)
        return false;
    }
  return true;
}

/* Piece k as a separate call, on contiguous values. */
struct alone {
  struct sim sim;
  uint64_t from;
};

static struct alone alone_of(const struct sim *whole, const struct tagc_chunks *chunks, int k) {
  const struct tagc_shape shape = tagc_chunk_shape(&whole->shape, chunks, k);
  return (struct alone){sim_of(whole->codec, &shape), chunks->at[k]};
}

static void step_alone(struct alone *alone, const struct sim *whole, uint64_t seed) {
  for (int r = 0; r < RANKS; r++)
    for (int shard = 0; shard < RANKS; shard++)
      for (uint64_t i = 0; i < alone->sim.shape.n; i++)
        sim_put(&alone->sim, r, shard, i, sim_sent(whole, r, shard, alone->from + i));
  sim_step(&alone->sim, seed);
}

/* True if the residuals are equal, except for padding. */
static bool same_residuals(const struct tagc_job *a, const struct tagc_job *b, int shard) {
  bool same = true;
  for (uint64_t at = 0; at < a->shape.n && same; at += TAGC_RESIDUAL_BLOCK) {
    const uint32_t count = a->shape.n - at < TAGC_RESIDUAL_BLOCK ? (uint32_t)(a->shape.n - at) : TAGC_RESIDUAL_BLOCK;
    float x[TAGC_RESIDUAL_BLOCK], y[TAGC_RESIDUAL_BLOCK];
    tagc_residual_load(a, shard, at, count, x);
    tagc_residual_load(b, shard, at, count, y);
    same = memcmp(x, y, count * sizeof *x) == 0;
  }
  return same;
}

/* True if the results are equal, and the chunk's part `at` bytes into its residual. */
static bool is_like_alone(const struct sim *whole, const struct alone *alone, size_t at) {
  for (int r = 0; r < RANKS; r++) {
    for (uint64_t i = 0; i < alone->sim.shape.n; i++) {
      const float x = sim_got(whole, r, alone->from + i), y = sim_got(&alone->sim, r, i);
      if (memcmp(&x, &y, sizeof x) != 0)
        return false;
    }
    struct tagc_job part = alone->sim.job[r];
    part.residual = (char *)whole->job[r].residual + at;
    for (int shard = 0; shard < RANKS && whole->job[r].residual; shard++)
      if (shard != r && !same_residuals(&part, &alone->sim.job[r], shard))
        return false;
  }
  return true;
}

/* Runs three steps of a call in chunks, beside its chunks as separate calls. */
static bool chunks_are_calls(const char *name, enum tagc_dtype dtype, enum tagc_storage storage, int depth,
                             bool stochastic, bool in_place) {
  const uint64_t n = 20 * GRAIN + 77;
  /* The first and last chunks of lhc may be too small for a sketch; others have four hashes, or three. */
  const uint32_t keep_ppm = strcmp(name, "lhc") == 0 ? 200000 : 10000;
  struct sim sim = sim_new_stored(name, n, RANKS, dtype, keep_ppm, storage);
  const struct tagc_chunks chunks = tagc_chunks_of(n, depth);
  struct alone alone[TAGC_CHUNKS];
  uint64_t selected = 0, nonfinite = 0;
  memset(seen, 0, sizeof seen);
  double norm2 = 0;
  bool same = true;
  sim.in_place = in_place;
  for (int k = 0; k < chunks.count; k++)
    alone[k] = alone_of(&sim, &chunks, k);
  for (int r = 0; r < RANKS; r++) {
    sim.job[r].stochastic = stochastic;
    for (int k = 0; k < chunks.count; k++)
      alone[k].sim.job[r].stochastic = stochastic;
  }
  for (uint64_t step = 0; step < STEPS; step++) {
    fill(&sim);
    for (int k = 0; k < chunks.count; k++)
      step_alone(&alone[k], &sim, k ? tagc_mix64(step + (uint64_t)k) : step);
    step_in_chunks(&sim, &chunks, step);
    size_t at = 0;
    for (int k = 0; k < chunks.count; k++) {
      same &= is_like_alone(&sim, &alone[k], at);
      at += storage ? tagc_residual_bytes(&alone[k].sim.shape) : 0;
    }
    same &= sim.job[2].nonfinite_seen;
  }
  for (int k = 0; k < chunks.count; k++) {
    selected += alone[k].sim.stats.selected;
    nonfinite += alone[k].sim.stats.nonfinite;
    norm2 += alone[k].sim.stats.residual_norm2;
    sim_free(&alone[k].sim);
  }
  same &= seen[0].selected + seen[1].selected + seen[2].selected == selected &&
          seen[0].nonfinite + seen[1].nonfinite + seen[2].nonfinite == nonfinite &&
          fabs(seen[2].residual_norm2 - norm2) <= 1e-9 * norm2; /* the last rank of a sim sets it */
  sim_free(&sim);
  return same;
}

static void check_chunks_are_calls(void) {
  for (int c = 0; tagc_codecs[c]; c++) {
    int tried = 0, wrong = 0;
    for (int i = 0; i < TRIES; i++, tried++) {
      const enum tagc_storage storage =
        (enum tagc_storage)(tagc_codecs[c]->needs_residual + i % (4 - tagc_codecs[c]->needs_residual));
      wrong += !chunks_are_calls(tagc_codecs[c]->name, (enum tagc_dtype)(i % 3), storage, 1 + i % 6, i & 4, i & 8);
    }
    ok(wrong == 0 && tried > 0, "%s: chunks come out like calls of their own, with residuals and counts",
       tagc_codecs[c]->name);
  }
}

/* The sent values and the residual add up to the gradient and the previous residual. */
static void check_conservation(const char *codec, uint32_t keep_ppm) {
  const uint64_t n = 12 * GRAIN + 9;
  struct sim sim = sim_new(codec, n, RANKS, TAGC_FLOAT32, keep_ppm);
  const struct tagc_chunks chunks = tagc_chunks_of(n, 4);
  double *due = calloc(n, sizeof *due), worst = 0;
  for (uint64_t step = 0; step < STEPS; step++) {
    for (int r = 0; r < RANKS; r++)
      for (uint64_t i = 0; i < RANKS * n; i++)
        sim_put(&sim, r, 0, i, sim_normal());
    for (int r = 0; r < RANKS; r++)
      for (uint64_t i = 0; i < n; i++)
        due[i] += sim_sent(&sim, r, 1, i); /* the input for rank 1 */
    step_in_chunks(&sim, &chunks, step);
    for (uint64_t i = 0; i < n; i++)
      due[i] -= sim_got(&sim, 1, i);
  }
  for (int k = 0; k < chunks.count; k++)
    for (int r = 0; r < RANKS; r += 2) {
      const struct tagc_job chunk = tagc_chunk_job(&sim.job[r], &chunks, k);
      float *left = malloc(chunk.shape.n * sizeof *left);
      tagc_residual_load_shard(&chunk, 1, left);
      for (uint64_t i = 0; i < chunk.shape.n; i++)
        due[chunks.at[k] + i] -= left[i];
      free(left);
    }
  for (uint64_t i = 0; i < n; i++)
    worst = fmax(worst, fabs(due[i]));
  ok(worst < 1e-5, "%s: what did not arrive is in the residuals of the chunks, to %.1e", codec, worst);
  free(due);
  sim_free(&sim);
}

/* Codecs of blocks give the same result at any depth. */
static void check_depth_does_not_matter(void) {
  static const char *const names[] = {"none", "bf16", "q8"};
  const uint64_t n = 33 * GRAIN + 300;
  for (int c = 0; c < 3; c++) {
    bool same = true;
    for (int i = 0; i < TRIES / 2; i++) {
      struct sim whole = sim_new_stored(names[c], n, RANKS, (enum tagc_dtype)(i % 3), 10000,
                                        i % 2 ? TAGC_STORAGE_FP32 : TAGC_STORAGE_NONE);
      struct sim cut = sim_new_stored(names[c], n, RANKS, (enum tagc_dtype)(i % 3), 10000,
                                      i % 2 ? TAGC_STORAGE_FP32 : TAGC_STORAGE_NONE);
      const struct tagc_chunks chunks = tagc_chunks_of(n, 2 + i);
      for (uint64_t step = 0; step < STEPS; step++) {
        fill(&whole);
        sim_copy_sent(&cut, &whole);
        sim_step(&whole, step);
        step_in_chunks(&cut, &chunks, step);
        same &= same_results(&whole, &cut);
      }
      sim_free(&whole);
      sim_free(&cut);
    }
    ok(same, "%s: the same bits in any number of chunks", names[c]);
  }
}

/* lhc: whole numbers that all fit are summed without loss, whatever the number of chunks. */
static void check_exact_sums(void) {
  const uint64_t n = 40 * GRAIN + 300;
  for (int depth = 1; depth <= 8; depth *= 2) {
    struct sim sim = sim_new("lhc", n, RANKS, TAGC_FLOAT32, 150000);
    const struct tagc_chunks chunks = tagc_chunks_of(n, depth);
    int wrong = 0, left = 0;
    memset(seen, 0, sizeof seen);
    for (int r = 0; r < RANKS; r++)
      for (uint64_t i = 0; i < RANKS * n; i++)
        sim_put(&sim, r, 0, i, sim_random() % 8 ? 0 : (float)(int)(sim_random() % 2001) - 1000);
    step_in_chunks(&sim, &chunks, 9);
    for (int r = 0; r < RANKS; r++) {
      for (uint64_t i = 0; i < n; i++)
        wrong += sim_got(&sim, r, i) != sim_sent(&sim, 0, r, i) + sim_sent(&sim, 1, r, i) + sim_sent(&sim, 2, r, i);
      left += seen[r].unrecovered > 0 || seen[r].residual_norm2 > 0;
    }
    ok(wrong == 0 && left == 0 && chunks.count == depth, "lhc: sums without loss in %d chunks", depth);
    sim_free(&sim);
  }
}

static void check_flush(void) {
  const uint64_t n = 9 * GRAIN + 1;
  struct sim sim = sim_new_stored("sparse", n, RANKS, TAGC_FLOAT32, 20000, TAGC_STORAGE_FP32);
  const struct tagc_chunks chunks = tagc_chunks_of(n, 3);
  float *out = calloc(RANKS * n, sizeof *out);
  fill(&sim);
  step_in_chunks(&sim, &chunks, 1);
  fill(&sim);
  int wrong = 0;
  for (int k = 0; k < chunks.count; k++) {
    const struct tagc_job chunk = tagc_chunk_job(&sim.job[1], &chunks, k);
    tagc_residual_flush(&chunk, out + chunks.at[k]);
    for (int shard = 0; shard < RANKS; shard++)
      for (uint64_t i = 0; i < chunk.shape.n; i++) {
        float left = 0;
        if (shard != 1)
          memcpy(&left, (char *)chunk.residual + 4 * ((uint64_t)(shard > 1 ? shard - 1 : shard) * chunk.shape.n + i),
                 4);
        const float wanted = sim_sent(&sim, 1, shard, chunks.at[k] + i) + left,
                    got = out[(uint64_t)shard * n + chunks.at[k] + i];
        wrong += got != wanted && got == got;
      }
  }
  ok(wrong == 0, "a flush of the chunks sends the gradient and what they have left");
  free(out);
  sim_free(&sim);
}

/* ---- all-gathers ------------------------------------------------------------------------------------------------- */

/* The buffers of all ranks in an all-gather; recv and reference are one rank's, and the same for all. */
struct gathered {
  struct tagc_allgather_shape shape;
  size_t size;
  char *send, *recv, *reference;
  struct tagc_allgather_stats stats[RANKS];
};

static struct gathered gathered_new(uint64_t n, enum tagc_dtype dtype) {
  struct gathered g = {.shape = {.n = n, .nranks = RANKS, .dtype = dtype}, .size = RANKS * n * tagc_dtype_size(dtype)};
  g.send = malloc(g.size);
  g.recv = calloc(1, g.size);
  g.reference = malloc(g.size);
  for (uint64_t i = 0; i < RANKS * n; i++) {
    const float x = 0.02f * ((float)(sim_random() % 2001) - 1000) / 1000;
    tagc_store(g.send, i, dtype, i % 5003 == 17 ? 100 : x);
    tagc_store(g.reference, i, dtype, i % 5003 == 17 ? 100 : x - 1e-4f);
  }
  return g;
}

static void gathered_free(struct gathered *g) {
  free(g->send);
  free(g->recv);
  free(g->reference);
}

/* Runs piece k of all ranks, on payloads of exactly their size; false if a rank's payload was refused. */
static bool gather_chunk(struct gathered *g, const struct tagc_allgather_codec *codec, const struct tagc_chunks *chunks,
                         int k) {
  const size_t shard = g->size / RANKS;
  struct tagc_allgather_job last = {0};
  uint8_t *memory = NULL;
  for (int rank = 0; rank < RANKS; rank++) {
    const struct tagc_allgather_job whole = {.shape = g->shape,
                                             .rank = rank,
                                             .send = g->send + (size_t)rank * shard,
                                             .recv = g->recv,
                                             .reference = codec->refer ? g->reference : NULL,
                                             .seed = 9,
                                             .stats = &g->stats[rank]};
    struct tagc_allgather_job job = tagc_chunk_allgather_job(&whole, chunks, k);
    codec->layout(&job.shape, &job.layout);
    if (!memory)
      memory = aligned_alloc(64, tagc_allgather_assign_buffers(&job, NULL));
    tagc_allgather_assign_buffers(&job, memory);
    codec->encode(&job);
    last = job;
  }
  codec->decode(&last);
  free(memory);
  return !last.refused;
}

/* A chunk equals a separate call on the same values, packed. Nothing beside it in recv and reference is touched. */
static bool chunk_is_call(const struct gathered *g, const struct tagc_allgather_codec *codec,
                          const struct tagc_chunks *chunks, int k) {
  const struct tagc_chunks one = tagc_chunks_of(chunks->at[k + 1] - chunks->at[k], 1);
  const size_t element = tagc_dtype_size(g->shape.dtype), from = chunks->at[k] * element, bytes = one.at[1] * element;
  struct gathered packed = gathered_new(one.at[1], g->shape.dtype), wanted = gathered_new(g->shape.n, g->shape.dtype);
  struct gathered cut = gathered_new(g->shape.n, g->shape.dtype);
  memcpy(cut.send, g->send, g->size);
  memcpy(cut.reference, g->reference, g->size);
  memcpy(wanted.recv, cut.recv, g->size);
  memcpy(wanted.reference, g->reference, g->size);
  for (int r = 0; r < RANKS; r++) {
    memcpy(packed.send + (size_t)r * bytes, g->send + (size_t)r * (g->size / RANKS) + from, bytes);
    memcpy(packed.reference + (size_t)r * bytes, g->reference + (size_t)r * (g->size / RANKS) + from, bytes);
  }
  /* With the seed of the whole, which only chunk 0 has: delta's bits depend on it. */
  struct tagc_chunks first = {.count = chunks->count};
  first.at[0] = chunks->at[k];
  first.at[1] = chunks->at[k + 1];
  const bool good = gather_chunk(&cut, codec, &first, 0), also = gather_chunk(&packed, codec, &one, 0);
  for (int r = 0; r < RANKS; r++) {
    memcpy(wanted.recv + (size_t)r * (g->size / RANKS) + from, packed.recv + (size_t)r * bytes, bytes);
    memcpy(wanted.reference + (size_t)r * (g->size / RANKS) + from, packed.reference + (size_t)r * bytes, bytes);
  }
  const bool same = good && also && memcmp(wanted.recv, cut.recv, g->size) == 0 &&
                    memcmp(wanted.reference, cut.reference, g->size) == 0;
  gathered_free(&packed);
  gathered_free(&wanted);
  gathered_free(&cut);
  return same;
}

static void check_gathers(const struct tagc_allgather_codec *codec) {
  const uint64_t n = 9 * GRAIN + 1001;
  const bool by_blocks = !codec->refer;
  bool calls = true, same = true;
  for (int dtype = 0; dtype < 3; dtype++) {
    struct gathered whole = gathered_new(n, (enum tagc_dtype)dtype), cut = gathered_new(n, (enum tagc_dtype)dtype);
    const struct tagc_chunks one = tagc_chunks_of(n, 1);
    struct tagc_allgather_layout layout;
    if (!codec->layout(&whole.shape, &layout)) {
      gathered_free(&whole);
      gathered_free(&cut);
      continue;
    }
    memcpy(cut.send, whole.send, whole.size);
    for (int depth = 2; depth <= 5 && by_blocks; depth++) {
      const struct tagc_chunks chunks = tagc_chunks_of(n, depth);
      same &= gather_chunk(&whole, codec, &one, 0);
      memset(cut.recv, 0, cut.size);
      for (int k = 0; k < chunks.count; k++)
        same &= gather_chunk(&cut, codec, &chunks, k);
      same &= memcmp(whole.recv, cut.recv, whole.size) == 0;
    }
    const struct tagc_chunks three = tagc_chunks_of(n, 3);
    for (int k = 0; k < three.count; k++)
      calls &= chunk_is_call(&whole, codec, &three, k);
    gathered_free(&whole);
    gathered_free(&cut);
  }
  ok(calls, "all-gathers, %s: a chunk is a call of its own, and nothing else is touched", codec->name);
  if (by_blocks)
    ok(same, "all-gathers, %s: the same bits in any number of chunks", codec->name);
}

static void check_seen(void) {
  struct tagc_allgather_stats all = {.escapes = 1, .error2 = 7, .norm2 = 8}, of[2] = {{2, 3, 1, 1, 2}, {4, 5, 0, 3, 4}};
  struct tagc_allgather_job whole = {.stats = &all}, chunk[2] = {{.stats = &of[0], .refused = true}, {.stats = &of[1]}};
  tagc_chunk_allgather_add_stats(&whole, chunk, 2);
  ok(whole.refused && all.refused == 1 && all.escapes == 7 && all.nonfinite == 8 && all.error2 == 7 && all.norm2 == 8,
     "all-gathers: a chunk that is refused refuses the call, once");
  chunk[0].refused = false;
  tagc_chunk_allgather_add_stats(&whole, chunk, 2);
  ok(!whole.refused && all.refused == 1 && all.error2 == 4 && all.norm2 == 6,
     "all-gathers: the squares of chunks add up");
}

int main(void) {
  check_cuts();
  check_residual_sizes();
  check_chunks_are_calls();
  check_conservation("sparse", 20000);
  check_conservation("lhc", 200000);
  check_depth_does_not_matter();
  check_exact_sums();
  check_flush();
  for (int i = 0; tagc_allgather_codecs[i]; i++)
    if (!tagc_allgather_codecs[i]->least_bytes) /* test_exact.c has those */
      check_gathers(tagc_allgather_codecs[i]);
  check_seen();
  return tap_done();
}
