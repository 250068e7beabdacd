/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA kernels choose the same values as the host: bitmaps, counts, exponents, lists of exceptions. Varied: types,
 * storages, sizes, ranks and stripes, fractions kept, exceptions, addresses; by the short way and by the long one.
 *
 * It runs on the device of libcuda.so.1: the stand-in, or a GPU (tests/gpu/run). Words: as in test_cuda.c.
 */
#include "kernels/codec/codecs.h"
#include "kernels/sparse/sparsify.h"
#include "kernels/sparse/sparsify_cuda.h"
#include "tests/unit/device/cuda_rank.h"
#include "tests/unit/tap.h"

struct setting {
  uint64_t n;
  int nranks;
  uint32_t keep_ppm, stripes;
  enum tagc_dtype dtype;
  enum tagc_storage storage;
  enum pattern pattern;
  size_t off; /* bytes past an aligned address */
  float scale;
  bool empty; /* the residual */
  void (*change)(struct sim *sim);
};

/* One rank's choice on both. */
struct both {
  struct sim sim;
  struct tagc_job *job; /* the host's */
  struct tagc_grid grid;
  size_t places, words, exponent_bytes, stride;
  struct twin send, residual, message_out, exponents, bitmap, state, counts, shards, chosen, memory;
};

static struct tagc_cuda_launcher launcher;
static const char *const dtypes[] = {"fp32", "fp16", "bf16"};
static const char *const storages[] = {"none", "fp32", "bf16", "int8"};
enum { DTYPES = 3 };
static unsigned short_ways, long_ways, empty_ways; /* parts by way; empty: found that all values fit */

static struct setting usual(void) {
  return (struct setting){
    .n = 5000, .nranks = 2, .keep_ppm = 10000, .stripes = 1, .storage = TAGC_STORAGE_FP32, .scale = 1, .empty = true};
}

/* -- the host's ---------------------------------------------------------------------------------------------------- */

static void fill_residual(struct both *b) {
  float *values = sim_memory(b->grid.n * sizeof *values);
  for (int shard = 0; shard < b->sim.shape.nranks; shard++) {
    for (uint64_t i = 0; i < b->grid.n; i++)
      values[i] = 0.5f * sim_normal();
    if (shard != b->job->rank)
      tagc_residual_store_shard(b->job, shard, values);
  }
  free(values);
}

static struct both both_new(const struct setting *s, int rank) {
  struct both b = {.places = (size_t)s->nranks - 1};
  tagc_grid_fill(&b.grid, s->n, s->keep_ppm, s->stripes);
  b.sim = sim_new_stored("bf16", s->n, s->nranks, s->dtype, s->keep_ppm, s->storage);
  b.job = &b.sim.job[rank];
  b.job->scale = s->scale;
  b.job->seed = 77 * s->n + s->keep_ppm;
  case_fill(&b.sim, s->pattern);
  if (s->change)
    s->change(&b.sim);
  fill_residual(&b);
  b.job->residual_empty = s->empty;
  b.words = (size_t)b.grid.stripes * b.grid.stripe_lines;
  b.stride = tagc_pad16((size_t)b.grid.stripes * b.grid.stripe_lines) + 8;
  b.exponent_bytes = tagc_pad16((s->n + 1023) / 1024);
  const size_t all = (size_t)s->nranks, lists = b.places * b.grid.stripes;
  b.send = twin_new((void *)(uintptr_t)b.job->send, all * s->n * tagc_dtype_size(s->dtype), s->off);
  b.residual = twin_new(b.job->residual, tagc_residual_bytes(&b.sim.shape), 0);
  b.message_out = twin_new(b.job->message_out, all * b.sim.layout.message_bytes, 0);
  b.exponents = twin_new(sim_memory(all * b.exponent_bytes), all * b.exponent_bytes, 0);
  b.bitmap = twin_new(sim_memory(all * b.stride * 4), all * b.stride * 4, 0);
  b.state = twin_new(NULL, sizeof(struct tagc_cuda_state), 0);
  b.counts = twin_new(NULL, sizeof(struct tagc_counts), 0);
  b.shards = twin_new(NULL, b.places * sizeof(struct tagc_choose_shard), 0);
  b.chosen = twin_new(sim_memory(lists * 4), lists * 4, 0);
  b.memory = twin_new(NULL, tagc_choose_bytes(&b.grid, (uint32_t)b.places), 0);
  return b;
}

static void both_free(struct both *b) {
  const struct twin *all[] = {&b->send,  &b->residual, &b->message_out, &b->exponents, &b->bitmap,
                              &b->state, &b->counts,   &b->shards,      &b->chosen,    &b->memory};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    MUST(cuMemFree_v2(all[i]->base));
  free(b->exponents.host);
  free(b->bitmap.host);
  free(b->chosen.host);
  sim_free(&b->sim);
}

/* Makes the host's choice from a foreign shard. Returns the number of values. */
static uint64_t choose_shard(struct both *b, int number, struct tagc_sparsify_memory *lists, float *residual) {
  const size_t place = (size_t)(number - (number > b->job->rank));
  struct tagc_exceptions *exceptions =
    (struct tagc_exceptions *)(b->job->message_out + (size_t)number * b->sim.layout.message_bytes);
  const struct tagc_sparsify_shard shard = {
    .grid = &b->grid,
    .send = tagc_job_shard(b->job, number),
    .dtype = b->sim.shape.dtype,
    .scale = b->job->scale,
    .seed = b->job->seed,
    .number = (uint32_t)number,
    .residual = residual,
    .residual_empty = b->job->residual_empty,
    .exceptions = exceptions,
    .exponents = (uint8_t *)b->exponents.host + (size_t)number * b->exponent_bytes,
    .bitmap = (uint32_t *)b->bitmap.host + (size_t)number * b->stride,
    .memory = lists,
    .list = place,
  };
  uint64_t selected = 0;
  tagc_exceptions_clear(exceptions, b->grid.n);
  tagc_residual_load_shard(b->job, number, residual);
  tagc_sparsify(&shard);
  tagc_exceptions_close(exceptions, b->grid.n);
  for (uint32_t stripe = 0; stripe < b->grid.stripes; stripe++) {
    const uint32_t count = lists->counts[place * b->grid.stripes + stripe];
    ((uint32_t *)b->chosen.host)[place * b->grid.stripes + stripe] = count;
    selected += count;
  }
  return selected;
}

static uint64_t choose_on_host(struct both *b) {
  struct tagc_sparsify_memory lists;
  void *memory = sim_memory(tagc_sparsify_assign_buffers(&lists, &b->grid, b->places, NULL, 0));
  float *residual = sim_memory(b->grid.n * sizeof *residual);
  uint64_t selected = 0;
  tagc_sparsify_assign_buffers(&lists, &b->grid, b->places, memory, 0);
  for (int number = 0; number < b->sim.shape.nranks; number++)
    if (number != b->job->rank)
      selected += choose_shard(b, number, &lists, residual);
  uint32_t anywhere = 0;
  tagc_sparsify_own_largest(b->job, &anywhere);
  (void)tagc_exceptions_anywhere(b->job, anywhere);
  free(residual);
  free(memory);
  return selected;
}

/* -- the device's -------------------------------------------------------------------------------------------------- */

static void choose_on_device(const struct both *b) {
  struct tagc_job job = *b->job;
  job.send = twin_at(&b->send);
  job.residual = twin_at(&b->residual);
  job.message_out = twin_at(&b->message_out);
  job.state = twin_at(&b->state);
  const struct tagc_choose_call choose = {
    .call = tagc_cuda_call_of(&job, twin_at(&b->counts)),
    .grid = b->grid,
    .exponents = twin_at(&b->exponents),
    .exponent_bytes = b->exponent_bytes,
    .bitmap = twin_at(&b->bitmap),
    .bitmap_words = b->stride,
    .shards = twin_at(&b->shards),
    .counts = twin_at(&b->chosen),
    .memory = twin_at(&b->memory),
  };
  MUST(tagc_choose_enqueue(&launcher, &choose, NULL));
  MUST(tagc_choose_close(&launcher, &choose, NULL));
}

static const char *compare_shards(const struct both *b) {
  const char *what = NULL;
  uint8_t *content;
  if (!twin_get(&b->shards, &content))
    what = "what is beside the shards";
  const struct tagc_choose_shard *shards = (const void *)content;
  for (size_t place = 0; place < b->places; place++) {
    bool full = false;
    for (uint32_t stripe = 0; stripe < b->grid.stripes; stripe++)
      full |= ((uint32_t *)b->chosen.host)[place * b->grid.stripes + stripe] >= tagc_grid_capacity(&b->grid, stripe);
    if (shards[place].full != full || shards[place].left != 0 || shards[place].chosen != 0)
      what = "whether a shard is full";
  }
  free(content);
  return what;
}

static const char *count_ways(const struct both *b) {
  uint8_t *content;
  const bool untouched = twin_get(&b->memory, &content);
  const struct tagc_choose_part *parts = (const void *)content; /* the memory begins with them */
  for (size_t i = 0; i < b->places * b->grid.stripes; i++) {
    *(parts[i].long_way ? &long_ways : &short_ways) += 1;
    empty_ways += parts[i].long_way && parts[i].coarse == TAGC_SPARSIFY_NO_BIN;
  }
  free(content);
  return untouched ? NULL : "what is beside the memory";
}

static const char *compare(const struct both *b, uint64_t selected) {
  struct tagc_cuda_state state;
  const struct {
    const struct twin *twin;
    const char *what;
  } all[] = {
    {&b->send, "the send buffer"},  {&b->residual, "the residual"}, {&b->message_out, "a list of exceptions"},
    {&b->exponents, "an exponent"}, {&b->bitmap, "a bitmap"},       {&b->chosen, "a count"},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (twin_differs(all[i].twin, 0, all[i].twin->bytes))
      return all[i].what;
  device_read(&state, b->state.base + GUARD, sizeof state);
  if (state.selected != selected)
    return "the number of values";
  const char *what = compare_shards(b);
  return what ? what : count_ways(b);
}

static bool same_of_rank(const struct setting *s, int rank) {
  struct both b = both_new(s, rank);
  const uint64_t selected = choose_on_host(&b);
  choose_on_device(&b);
  const char *what = compare(&b, selected);
  if (what)
    note("%s differs: n=%llu, rank %d of %d, keep %u in %u stripes, %s, residual %s%s, pattern %d, off %zu, scale %g",
         what, (unsigned long long)s->n, rank, s->nranks, s->keep_ppm, s->stripes, dtypes[s->dtype],
         storages[s->storage], s->empty ? " (empty)" : "", (int)s->pattern, s->off, (double)s->scale);
  both_free(&b);
  return !what;
}

static bool same(const struct setting *s) { return same_of_rank(s, (int)(s->n % (uint64_t)s->nranks)); }

/* -- what there is ------------------------------------------------------------------------------------------------- */

static void check_variants(void) {
  static const uint64_t sizes[] = {1, 600, 1023, 2053, 4097, 9000};
  static const uint32_t kept[] = {1, 1000, 10000, 100000, 1000000};
  static const size_t offs[] = {0, 4, 2, 1, 8};
  unsigned turn = 0;
  for (int dtype = 0; dtype < DTYPES; dtype++)
    for (int storage = TAGC_STORAGE_FP32; storage <= TAGC_STORAGE_INT8; storage++) {
      bool all = true;
      for (int empty = 0; empty < 2; empty++)
        for (int pattern = 0; pattern < PATTERNS; pattern += 2, turn++) {
          struct setting s = usual();
          s.n = sizes[turn % 6];
          s.nranks = 2 + (int)(turn % 3);
          s.keep_ppm = kept[turn / 2 % 5];
          s.stripes = turn % 4 && s.n > 300 ? 1 + turn % 7 : 1;
          s.dtype = (enum tagc_dtype)dtype;
          s.storage = (enum tagc_storage)storage;
          s.pattern = (enum pattern)((pattern + empty) % PATTERNS);
          s.off = offs[turn % 5];
          s.scale = turn % 2 ? 0.3f : -1;
          s.empty = empty;
          all &= same(&s);
        }
      ok(all, "%s, residual %s: the host's choice, whatever the size, the stripes, and what is kept", dtypes[dtype],
         storages[storage]);
    }
}

static void check_patterns(void) {
  bool all = true;
  for (int pattern = 0; pattern < PATTERNS; pattern++)
    for (uint32_t stripes = 1; stripes <= 3; stripes += 2) {
      struct setting s = usual();
      s.n = 6000;
      s.stripes = stripes;
      s.pattern = (enum pattern)pattern;
      s.empty = pattern % 2;
      all &= same(&s);
    }
  ok(all, "hard gradients");
}

static void check_sizes(void) {
  static const uint64_t sizes[] = {1, 2, 31, 32, 33, 255, 256, 257, 1000, 1023, 1024, 1025, 4097, 32767, 32768, 100003};
  bool all = true;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct setting s = usual();
    s.n = sizes[i];
    s.dtype = (enum tagc_dtype)(i % DTYPES);
    s.stripes = s.n > 200 ? 1 + (uint32_t)i % 4 : 1;
    s.keep_ppm = i % 2 ? 10000 : 400000;
    s.empty = i % 3;
    all &= same(&s);
  }
  ok(all, "sizes");
  all = true;
  struct setting s = usual();
  s.n = 130003;
  s.pattern = EQUAL;
  s.keep_ppm = 300000;
  for (s.stripes = 1; s.stripes < 3; s.stripes++)
    all &= same(&s);
  ok(all, "a boundary bin that has all values of several tiles");
  s = usual();
  s.n = 70ull * TAGC_CHOOSE_TILE * TAGC_GRID_LINE;
  s.pattern = EQUAL;
  s.keep_ppm = 500000;
  ok(same(&s), "and of more than are counted together");
  s = usual();
  s.n = 40003;
  s.keep_ppm = 300000;
  s.stripes = 600;
  const unsigned before = short_ways;
  ok(same(&s) && short_ways - before > 400, "more stripes than a group has counters for: most by the short way");
  s = usual();
  s.n = 1000;
  s.nranks = 5;
  all = true;
  for (int rank = 0; rank < s.nranks; rank++)
    all &= same_of_rank(&s, rank);
  ok(all, "every rank of five");
}

/* -- the long way -------------------------------------------------------------------------------------------------- */

enum { SAMPLED = 512, LINE = TAGC_GRID_LINE };

/* True if the line is in the sample of the guess. */
static bool in_sample(uint64_t n, uint64_t line) {
  const uint64_t step = ((n + LINE - 1) / LINE - 1) / SAMPLED + 1;
  return line % step == step / 2;
}

static void put_by_line(struct sim *sim, float sampled, float other) {
  for (int r = 0; r < sim->shape.nranks; r++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      for (uint64_t i = 0; i < sim->shape.n; i++)
        sim_put(sim, r, shard, i, (in_sample(sim->shape.n, i / LINE) ? sampled : other) * sim_normal());
}

static void smaller_in_the_sample(struct sim *sim) { put_by_line(sim, 1e-3f, 1); }
static void zero_in_the_sample(struct sim *sim) { put_by_line(sim, 0, 1); }
static void larger_in_the_sample(struct sim *sim) { put_by_line(sim, 100, 1); }
static void only_in_the_sample(struct sim *sim) { put_by_line(sim, 1, 0); }

/* With three stripes, one is all zero, and the others are not. */
static void a_stripe_of_zeros(struct sim *sim) {
  for (int r = 0; r < sim->shape.nranks; r++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      for (uint64_t i = 0; i < sim->shape.n; i++)
        if (tagc_grid_stripe_of(3, (uint32_t)(i / LINE)) == 1)
          sim_put(sim, r, shard, i, i % 5000 == 7 ? 1e-9f : 0);
}

static void check_long_way(void) {
  static const struct {
    void (*change)(struct sim *);
    uint32_t keep_ppm;
    bool goes;
    const char *what;
  } cases[] = {
    {smaller_in_the_sample, 10000, true, "the sample has smaller values"},
    {zero_in_the_sample, 10000, true, "the sample has none"},
    {larger_in_the_sample, 100000, true, "the sample has larger values"},
    {only_in_the_sample, 200000, true, "there are none but in the sample"},
    {a_stripe_of_zeros, 10000, true, "a stripe has hardly any values"},
    {NULL, 10000, false, "the sample is good"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool all = true;
    const unsigned before = long_ways;
    for (int dtype = 0; dtype < DTYPES; dtype++) {
      struct setting s = usual();
      s.n = 70003;
      s.stripes = 3;
      s.keep_ppm = cases[i].keep_ppm;
      s.dtype = (enum tagc_dtype)dtype;
      s.change = cases[i].change;
      all &= same(&s);
    }
    ok(all && (long_ways > before) == cases[i].goes, "the %s way: %s (%u of 9 parts)", cases[i].goes ? "long" : "short",
       cases[i].what, long_ways - before);
  }
  ok(empty_ways > 0, "the long way, though all values fit");
}

/* -- what only a GPU can do ---------------------------------------------------------------------------------------- */

static void check_large(void) {
  for (uint32_t stripes = 1; stripes <= 7; stripes += 3) {
    struct setting s = usual();
    s.n = (16 << 20) + 17;
    s.stripes = stripes;
    s.empty = false;
    ok(same(&s), "a large shard in %u stripes", stripes);
    s.change = smaller_in_the_sample;
    ok(same(&s), "by the long way");
    s.change = NULL;
    s.pattern = EQUAL;
    s.empty = true;
    ok(same(&s), "of equal values");
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
  if (!brief) {
    check_patterns();
    check_sizes();
  }
  check_long_way();
  note("%u parts by the short way, %u by the long way", short_ways, long_ways);
  return tap_done();
}
