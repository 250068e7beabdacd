/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA kernels of the codec sparse write the same bytes as the host: messages, residuals, results, counts. Varied:
 * types, storages, sizes, ranks, fractions kept, addresses, full blocks, exceptions, hostile messages, steps.
 *
 * It runs on the device of libcuda.so.1: the stand-in, or a GPU (tests/gpu/run). Words: as in test_cuda.c.
 */
#include "kernels/codec/codecs.h"
#include "kernels/sparse/sparse.h"
#include "kernels/sparse/cuda.h"
#include "kernels/sparse/sparsify.h"
#include "tests/unit/device/cuda_codec.h"

static struct setting usual(void) {
  return (struct setting){.codec = "sparse",
                          .n = 1000,
                          .nranks = 2,
                          .keep_ppm = 10000,
                          .storage = TAGC_STORAGE_FP32,
                          .scale = 1,
                          .divisor = 1,
                          .inexact = 1e-6,
                          .steps = 2};
}

/* -- what there is ------------------------------------------------------------------------------------------------- */

static void check_variants(void) {
  static const uint64_t sizes[] = {1, 255, 256, 257, 600, 1000, 4097, 9001};
  static const uint32_t kept[] = {1, 1000, 10000, 100000, 500000, 1000000};
  static const size_t offs[] = {0, 0, 4, 2, 1, 8};
  static const float factors[][2] = {{1, 1}, {1, 2}, {0.3f, 3}, {1, 8}, {-2, 0.7f}};
  unsigned turn = 0;
  for (int dtype = 0; dtype < DTYPES; dtype++)
    for (int storage = TAGC_STORAGE_FP32; storage < STORAGES; storage++) {
      bool all = true;
      for (int i = 0; i < (SANITIZED ? 2 : 6); i++, turn++) {
        struct setting s = usual();
        s.n = sizes[turn % 8];
        s.nranks = 2 + (int)(turn / 2 % 3);
        s.keep_ppm = kept[turn % 6];
        s.dtype = (enum tagc_dtype)dtype;
        s.storage = (enum tagc_storage)storage;
        s.pattern = (enum pattern)(turn * 5 % PATTERNS);
        s.off = offs[turn % 6];
        s.in_place = turn / 3 % 2;
        s.scale = factors[turn % 5][0];
        s.divisor = factors[turn % 5][1];
        s.steps = 3;
        all &= same(&s);
      }
      ok(all, "%s, residual %s: the host's bytes, whatever the size, what is kept, and what was before", dtypes[dtype],
         storages[storage]);
    }
}

static void check_patterns(void) {
  static const uint32_t kept[] = {10000, 1000000};
  bool all = true;
  for (int pattern = 0; pattern < PATTERNS; pattern++)
    for (int k = 0; k < 2; k++) {
      struct setting s = usual();
      s.n = 2311;
      s.dtype = (enum tagc_dtype)(pattern % DTYPES);
      s.storage = (enum tagc_storage)(1 + pattern % 3);
      s.keep_ppm = kept[k];
      s.pattern = (enum pattern)pattern;
      all &= same(&s);
    }
  ok(all, "the host's bytes of hard gradients");
}

static void check_sizes(void) {
  bool all = true;
  for (int i = 0; i < CASE_SIZES; i++) {
    struct setting s = usual();
    s.n = case_sizes[i];
    s.nranks = 2 + i % 2;
    s.keep_ppm = i % 2 ? 50000 : 300000;
    s.dtype = (enum tagc_dtype)(i % DTYPES);
    s.storage = (enum tagc_storage)(1 + i % 3);
    all &= same(&s);
  }
  ok(all, "sizes");
  all = true;
  for (int nranks = 2; nranks <= 34; nranks += nranks < 5 ? 1 : 29) {
    struct setting s = usual();
    s.n = nranks < 5 ? 4396 + 17 * (uint64_t)nranks : 297; /* two blocks: many ranks have many shards */
    s.nranks = nranks;
    s.keep_ppm = 100000;
    s.pattern = nranks < 5 ? FEW_EXCEPTIONS : GAUSS;
    s.divisor = (float)nranks;
    s.steps = 1;
    all &= same(&s);
  }
  ok(all, "numbers of ranks, more than a warp has lanes among them");
  struct setting s = usual();
  s.n = 1100003; /* two segments of tiles */
  s.steps = 1;
  ok(same(&s), "a shard of more than one segment");
}

/* A warp has fewer lanes than there are senders. */
static void check_many_ranks(void) {
  struct setting s = usual();
  s.n = 64;
  s.nranks = 34;
  s.devices = 1;
  s.keep_ppm = 1000000;
  s.steps = 1;
  ok(same(&s), "33 senders");
}

static void check_addresses(void) {
  static const size_t offs[] = {1, 2, 3, 4, 6, 8, 12, 15};
  bool all = true;
  for (int i = 0; i < 8; i++)
    for (int dtype = 0; dtype < DTYPES; dtype++) {
      struct setting s = usual();
      s.n = 2 * 256 + 4 * (uint64_t)(i % 2) + (uint64_t)(i / 4);
      s.dtype = (enum tagc_dtype)dtype;
      s.off = offs[i];
      s.in_place = i / 2 % 2;
      s.keep_ppm = 50000;
      all &= same(&s);
    }
  ok(all, "gradients and results at any address");
}

/* -- full blocks --------------------------------------------------------------------------------------------------- */

/* All of the second block is large; its smallest value occurs twice, and more than once in a lane. */
static void a_full_block(struct sim *sim) {
  for (int r = 0; r < sim->shape.nranks; r++)
    for (uint64_t i = 0; i < 256; i++)
      sim_put(sim, r, 1 - r, 256 + i, i == 70 || i == 140 || i == 141 ? -5 : 6 + (float)(i % 7));
}

/* A huge value beside many small ones that do not fit: in the next step it is full, and much stays. */
static void too_many(struct sim *sim) {
  for (int r = 0; r < sim->shape.nranks; r++)
    for (uint64_t i = 0; i < sim->shape.n; i++)
      sim_put(sim, r, 1 - r, i, i % 2 ? 1 : -1);
}

static void check_full(void) {
  bool all = true;
  for (int storage = TAGC_STORAGE_FP32; storage < STORAGES; storage++) {
    struct setting s = usual();
    s.n = 2000;
    s.keep_ppm = 400000;
    s.dtype = (enum tagc_dtype)(storage % DTYPES);
    s.storage = (enum tagc_storage)storage;
    s.change = a_full_block;
    all &= same(&s);
    s.keep_ppm = 1000000;
    s.pattern = EQUAL;
    s.change = NULL;
    all &= same(&s);
    s.change = too_many;
    s.keep_ppm = 100000;
    all &= same(&s);
  }
  ok(all, "full blocks and full shards");
}

/* Sends one of two values; the other is often too small, stays, and is reported. */
static void check_tiny(void) {
  bool all = true;
  for (int round = 0; round < 20; round++) {
    struct setting s = usual();
    s.n = 2;
    s.nranks = 3;
    s.keep_ppm = 500000;
    s.dtype = round % 2 ? TAGC_BFLOAT16 : TAGC_FLOAT32;
    s.pattern = DENORMAL;
    all &= same(&s);
  }
  ok(all, "two values around 2^-120");
}

/* -- exceptions ---------------------------------------------------------------------------------------------------- */
static void at_the_last(struct sim *sim) {
  for (int r = 0; r < sim->shape.nranks; r++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      sim_put(sim, r, shard, sim->shape.n - 1, r % 2 ? INFINITY : -INFINITY);
}

static void in_the_own(struct sim *sim) { sim_put(sim, 0, 0, sim->shape.n / 2, NAN); }

static void nothing_else(struct sim *sim) {
  for (uint64_t i = 0; i < sim->shape.n; i++)
    sim_put(sim, 1, 0, i, INFINITY);
}

static void check_exceptions(void) {
  static const struct {
    void (*change)(struct sim *);
    uint64_t n;
    enum pattern pattern;
    const char *what;
  } cases[] = {
    {at_the_last, 257, GAUSS, "at the last position"}, {in_the_own, 100, GAUSS, "in a shard of its own"},
    {nothing_else, 700, GAUSS, "and nothing else"},    {NULL, 3000, FEW_EXCEPTIONS, "here and there"},
    {NULL, 3000, MANY_EXCEPTIONS, "more than fit"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool all = true;
    for (int dtype = 0; dtype < DTYPES; dtype++) {
      struct setting s = usual();
      s.n = cases[i].n;
      s.keep_ppm = dtype ? 50000 : 1000000;
      s.dtype = (enum tagc_dtype)dtype;
      s.storage = (enum tagc_storage)(1 + dtype);
      s.pattern = cases[i].pattern;
      s.change = cases[i].change;
      s.divisor = 2;
      s.in_place = dtype % 2;
      all &= same(&s);
    }
    ok(all, "exceptions %s", cases[i].what);
  }
}

/* Values that are no exceptions, but have a sum that is one. */
static void one_knows(struct sim *sim) { sim->job[1].nonfinite_before = true; }

static void check_sums(void) {
  struct setting s = usual();
  s.change = sums_too_large;
  s.dtype = TAGC_FLOAT16;
  s.nranks = 3;
  ok(same(&s), "a sum that is too large");
  s.change = one_knows;
  ok(same(&s), "an earlier call had one, as one rank knows");
}

/* -- what others send ---------------------------------------------------------------------------------------------- */
static uint8_t *arrived(struct sim *sim, int rank) {
  return sim->job[rank].message_in + (size_t)(1 - rank) * sim->layout.message_bytes;
}

static struct tagc_sparse_message message_of(const struct sim *sim) {
  struct tagc_grid grid;
  struct tagc_sparse_message message;
  tagc_grid_fill(&grid, sim->shape.n, sim->shape.keep_ppm, 1);
  tagc_sparse_message_fill(&message, sim->shape.n, grid.stripe_capacity, false);
  return message;
}

static void list_without_end(struct sim *sim) { ((struct tagc_exceptions *)arrived(sim, 0))->count = UINT32_MAX; }
static void told_of_surplus(struct sim *sim) {
  ((struct tagc_exceptions *)arrived(sim, 0))->anywhere = TAGC_ANYWHERE_SURPLUS;
}

static void all_counts(struct sim *sim) {
  const struct tagc_sparse_message message = message_of(sim);
  memset(arrived(sim, 1) + message.counts, 0xff, message.offsets - message.counts);
}

/* The same place many times, with a sum that depends on the order. */
static void one_place(struct sim *sim) {
  const struct tagc_sparse_message message = message_of(sim);
  for (uint32_t i = 0; i < message.capacity; i++) {
    arrived(sim, 0)[message.offsets + i] = 17 + i % 2;
    ((uint16_t *)(arrived(sim, 0) + message.values))[i] = tagc_to_bf16(i % 3 ? 1 : 1e-9f * (float)i);
  }
}

static void noise(struct sim *sim) {
  for (int r = 0; r < sim->shape.nranks; r++)
    for (int sender = 0; sender < sim->shape.nranks; sender++) {
      uint8_t *message = sim->job[r].message_in + (size_t)sender * sim->layout.message_bytes;
      for (size_t i = tagc_exceptions_bytes(sim->shape.n); i < sim->layout.message_bytes; i++)
        message[i] = (uint8_t)(sim_random() >> 32);
    }
}

static void check_hostile(void) {
  static const struct {
    void (*corrupt)(struct sim *);
    int nranks;
    const char *what;
  } cases[] = {
    {list_without_end, 2, "a list of exceptions without end"},
    {told_of_surplus, 2, "a word of too little room"},
    {all_counts, 2, "counts that lead out of the lists"},
    {one_place, 2, "a place many times"},
    {noise, 4, "noise"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct setting s = usual();
    s.nranks = cases[i].nranks;
    s.n = 9000;
    s.keep_ppm = 30000;
    s.corrupt = cases[i].corrupt;
    s.steps = 1;
    ok(same(&s), "%s: what the host makes of it", cases[i].what);
  }
}

/* -- a residual that is void --------------------------------------------------------------------------------------- */

/* A cycle in which some rank had a value that is not finite wrote the residual: only the device knows. */
static void check_dropped(void) {
  struct tagc_health health = {.nonfinite = {[4] = 4}};
  struct setting s = usual();
  struct sim sim = sim_new_stored(s.codec, s.n, s.nranks, s.dtype, 100000, TAGC_STORAGE_BF16);
  struct device_rank rank = device_rank_new(sim.codec, &sim.job[0], 0, false);
  struct tagc_codec_stats stats = {0};
  const CUdeviceptr known = device_copy(&health, sizeof health);
  difference[0] = '\0';
  sim.job[0].stats = &stats;
  rank.job.health = (void *)(uintptr_t)known;
  for (int step = 4; step < 7; step++) {
    case_fill(&sim, GAUSS);
    twin_put(&rank.send);
    sim.job[0].residual_empty = step < 6; /* step 4's residual is void in step 5, and that of step 5 is not */
    sim.job[0].nonfinite_before = step == 4;
    rank.job.residual_empty = step == 4;
    rank.job.cycle = (uint64_t)step;
    rank.job.residual_cycle = (uint64_t)step - 1;
    sim.codec->encode(&sim.job[0]);
    MUST(tagc_sparse_cuda_encode(&launcher, sim.codec, &rank.job, twin_at(&rank.counts), NULL));
    compare(&s, step, 0, "a message", &rank.message_out, sim.layout.message_bytes, sim.layout.message_bytes);
    compare(&s, step, 0, "the residual", &rank.residual, 0, rank.residual.bytes);
  }
  ok(!difference[0] && device_counts(&rank).dropped == 1, "a residual that is void is not read: %s", difference);
  MUST(cuMemFree_v2(known));
  device_rank_free(&rank);
  sim_free(&sim);
}

/* -- lists of fp32 values, as in lhc's messages of small shards ---------------------------------------------------- */

/* A rank of lhc, with such a list as its message. */
struct exact {
  struct twin send, recv, residual, message_out, message_in, counts, state, norms, shards, chosen, bitmap, choosing,
    lists;
  struct tagc_choose_call choose;
  struct tagc_sparse_message message;
};

static void exact_new(struct exact *e, const struct tagc_job *host, size_t off) {
  const struct tagc_shape *shape = &host->shape;
  const size_t nranks = (size_t)shape->nranks, size = tagc_dtype_size(shape->dtype), bytes = host->layout.message_bytes;
  struct tagc_job job = *host;
  struct tagc_grid grid;
  tagc_grid_fill(&grid, shape->n, shape->keep_ppm, 1);
  tagc_sparse_message_fill(&e->message, shape->n, grid.stripe_capacity, true);
  const size_t words = ((size_t)grid.lines + 3) / 4 * 4;
  e->send = twin_new((void *)(uintptr_t)host->send, nranks * shape->n * size, off);
  e->recv = twin_new(host->recv, shape->n * size, off);
  e->residual = twin_new(host->residual, tagc_residual_bytes(shape), 0);
  e->message_out = twin_new(host->message_out, nranks * bytes, 0);
  e->message_in = twin_new(host->message_in, nranks * bytes, 0);
  e->counts = twin_new(NULL, sizeof(struct tagc_counts), 0);
  e->state = twin_new(NULL, sizeof(struct tagc_cuda_state), 0);
  e->norms = twin_new(NULL, TAGC_CUDA_GROUPS * sizeof(double), 0);
  e->shards = twin_new(NULL, (nranks - 1) * sizeof(struct tagc_choose_shard), 0);
  e->chosen = twin_new(NULL, (nranks - 1) * sizeof(uint32_t), 0);
  e->bitmap = twin_new(NULL, nranks * words * sizeof(uint32_t), 0);
  e->choosing = twin_new(NULL, tagc_choose_bytes(&grid, (uint32_t)nranks - 1), 0);
  e->lists = twin_new(NULL, tagc_lists_bytes(shape->n, (uint32_t)nranks), 0);
  MUST(cuMemsetD8Async(e->counts.base + GUARD, 0, e->counts.bytes, NULL));
  job.send = twin_at(&e->send);
  job.recv = twin_at(&e->recv);
  job.residual = twin_at(&e->residual);
  job.message_out = twin_at(&e->message_out);
  job.message_in = twin_at(&e->message_in);
  job.state = twin_at(&e->state);
  e->choose = (struct tagc_choose_call){
    .call = tagc_cuda_call_of(&job, twin_at(&e->counts)),
    .grid = grid,
    .bitmap = twin_at(&e->bitmap),
    .bitmap_words = words,
    .shards = twin_at(&e->shards),
    .counts = twin_at(&e->chosen),
    .memory = twin_at(&e->choosing),
  };
  e->choose.call.norms = twin_at(&e->norms);
  e->choose.call.groups = tagc_lists_groups(&launcher, &e->choose.call);
}

static void exact_free(const struct exact *e) {
  const struct twin *all[] = {&e->send,   &e->recv,     &e->residual, &e->message_out, &e->message_in,
                              &e->counts, &e->state,    &e->norms,    &e->shards,      &e->chosen,
                              &e->bitmap, &e->choosing, &e->lists};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    MUST(cuMemFree_v2(all[i]->base));
}

static void exact_encode(const struct setting *s, struct sim *sim, struct exact *e, int r, int step) {
  struct tagc_job *host = &sim->job[r];
  host->seed = e->choose.call.seed = 99u + (uint64_t)step;
  e->choose.call.residual_empty = host->residual_empty;
  twin_put(&e->send);
  sim->codec->prepare(host);
  sim->codec->encode(host);
  MUST(tagc_choose_enqueue(&launcher, &e->choose, NULL));
  MUST(tagc_lists_pack(&launcher, &e->choose, &e->message, twin_at(&e->lists), NULL));
  MUST(tagc_choose_close(&launcher, &e->choose, NULL));
  for (int shard = 0; shard < s->nranks; shard++)
    if (shard != r)
      compare(s, step, r, "a message", &e->message_out, (size_t)shard * e->message.bytes, e->message.bytes);
  compare(s, step, r, "the residual", &e->residual, 0, e->residual.bytes);
}

static void exact_decode(const struct setting *s, struct sim *sim, struct exact *e, int r, int step) {
  struct tagc_counts counts;
  twin_put(&e->message_in);
  sim->codec->decode(&sim->job[r]);
  MUST(tagc_cuda_check(&launcher, &e->choose.call, NULL));
  MUST(tagc_lists_sum(&launcher, &e->choose.call, &e->message, twin_at(&e->lists), NULL));
  sim->job[r].residual_empty = false;
  compare(s, step, r, "the result", &e->recv, 0, e->recv.bytes);
  device_read(&counts, e->counts.base + GUARD, sizeof counts);
  if (counts.nonfinite_seen != sim->job[r].nonfinite_seen || counts.surplus_seen != sim->job[r].surplus_seen ||
      counts.selected != sim->stats.selected || !about(counts.residual_norm2, sim->stats.residual_norm2, s->inexact))
    differs(s, step, r, "a count", 0);
}

static bool same_exact(const struct setting *s) {
  struct sim sim = sim_new_stored(s->codec, s->n, s->nranks, s->dtype, s->keep_ppm, s->storage);
  struct exact *ranks = calloc((size_t)s->nranks, sizeof *ranks);
  struct tagc_codec_stats stats[8] = {{0}};
  difference[0] = '\0';
  for (int r = 0; r < s->nranks; r++)
    exact_new(&ranks[r], &sim.job[r], s->off);
  for (int step = 0; step < s->steps; step++) {
    case_fill(&sim, s->pattern);
    for (int r = 0; r < s->nranks; r++) {
      sim.job[r].stats = &stats[r];
      exact_encode(s, &sim, &ranks[r], r, step);
    }
    sim_exchange(&sim);
    if (s->corrupt)
      s->corrupt(&sim);
    for (int r = 0; r < s->nranks; r++) {
      sim.stats = stats[r];
      exact_decode(s, &sim, &ranks[r], r, step);
    }
  }
  for (int r = 0; r < s->nranks; r++)
    exact_free(&ranks[r]);
  free(ranks);
  sim_free(&sim);
  if (difference[0])
    note("lists of fp32 values, residual %s: %s", storages[s->storage], difference);
  return !difference[0];
}

static void check_exact(void) {
  static const uint64_t sizes[] = {1, 257, 2047, 2049, 4097, 9001};
  bool all = true;
  for (int i = 0; i < 18; i++) {
    struct setting s = usual();
    s.codec = "lhc";
    s.n = sizes[i % 6];
    s.nranks = 2 + i % 3;
    s.keep_ppm = i % 4 == 3 && s.n < 1000 ? 1000000 : 50000;
    s.dtype = (enum tagc_dtype)(i / 6);
    s.storage = (enum tagc_storage)(1 + i % 3);
    s.pattern = (enum pattern)(i * 5 % PATTERNS);
    s.off = (size_t)i % 5;
    all &= same_exact(&s);
  }
  ok(all, "lists of fp32 values: the bytes of lhc's small shards");
  struct setting s = usual();
  s.codec = "lhc";
  s.n = 70000;
  s.nranks = 3;
  s.steps = 1;
  s.corrupt = noise;
  ok(same_exact(&s), "lists of fp32 values: noise");
}

/* -- what only a GPU can do ---------------------------------------------------------------------------------------- */

static void check_large(void) {
  for (int storage = TAGC_STORAGE_FP32; storage < STORAGES; storage++) {
    struct setting s = usual();
    s.n = (16 << 20) + 17;
    s.dtype = (enum tagc_dtype)(storage % DTYPES);
    s.storage = (enum tagc_storage)storage;
    s.inexact = 1e-4;
    ok(same(&s), "a large shard, residual %s: %s", storages[storage], difference);
  }
}

int main(int argc, char **argv) {
  const bool brief = cuda_brief(argc, argv);
  launcher = device_launcher(cuda_said(argc, argv, "ptx"));
  if (cuda_said(argc, argv, "large")) {
    check_large();
    return tap_done();
  }
  check_variants();
  check_addresses();
  if (!brief) {
    check_patterns();
    check_sizes();
  } else if (!SANITIZED) {
    check_many_ranks();
  }
  check_full();
  check_tiny();
  check_exceptions();
  check_sums();
  check_hostile();
  check_dropped();
  check_exact();
  const struct setting captured = usual();
  check_graph(&captured);
  note("%llu bytes compared", (unsigned long long)compared);
  return tap_done();
}
