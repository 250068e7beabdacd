/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA kernels of the codec `lhc` write the same bytes as the host: exponents, bitmaps, sketches, residuals,
 * results, and the number of estimated values. Varied: types, storages, sizes, ranks, stripes and groups, addresses,
 * exceptions, stuck elements, payloads that no sender makes, steps.
 *
 * It runs on the device of libcuda.so.1: the stand-in, or a GPU (tests/gpu/run). Words: as in test_cuda.c.
 */
#include "kernels/lhc/lhc.h"
#include "tests/unit/device/cuda_codec.h"

/* Two groups per stripe: the stand-in is slow with each one. */
enum { FEW_GROUPS = 2, ALL_GROUPS = UINT32_MAX };

/* One case in four is enough for `ptx short`, which the stand-in interprets, and one in nine with sanitizers. Every
 * kernel still runs. The cases that it leaves out differ in numbers alone, and run without these words. */
static int stride;
static bool interpreted; /* the words are `ptx short` */

static struct setting usual(void) {
  return (struct setting){.codec = "lhc",
                          .n = 17003,
                          .nranks = 2,
                          .keep_ppm = 250000,
                          .storage = TAGC_STORAGE_FP32,
                          .scale = 1,
                          .divisor = 1,
                          .inexact = 1e-5,
                          .steps = 1,
                          .seed = 77};
}

/* -- groups that share a stripe ------------------------------------------------------------------------------------ */

static unsigned shared;        /* groups of the last step that shares stripes; 0: none */
static unsigned rounds, lasts; /* launches of one round each, and of what comes behind */

static int launch(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned bytes, void *stream, void **parameters, void **extra) {
  if (function == launcher.function[tagc_lhc_take_kernel])
    shared = grid_x;
  rounds += function == launcher.function[tagc_lhc_take_kernel];
  lasts += function == launcher.function[tagc_lhc_recover_kernel];
  return device_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, bytes, stream, parameters, extra);
}

/* With that many groups per stripe, if the device has room for them; 0: one for all. */
static bool same_with(const struct setting *s, uint32_t groups) {
  const struct tagc_shape shape = {.n = s->n, .nranks = s->nranks, .dtype = s->dtype, .keep_ppm = s->keep_ppm};
  struct setting with = *s;
  struct tagc_lhc_geometry geo;
  tagc_lhc_geometry_fill(&geo, &shape);
  with.decode_most = groups == ALL_GROUPS ? 0 : groups ? groups * geo.grid.stripes : 1;
  return same(&with);
}

static bool same_with_few(const struct setting *s) { return same_with(s, FEW_GROUPS); }

/* -- what there is ------------------------------------------------------------------------------------------------- */

/* Every type and storage; sizes, ranks, patterns and addresses take turns. One type of each storage has both turns. */
static void check_variants(void) {
  static const uint64_t sizes[] = {16411, 17003, 16640, 18433, 20000};
  static const size_t offs[] = {0, 4, 2, 12, 8};
  static const float factors[][2] = {{1, 1}, {0.3f, 3}, {1, 8}, {-2, 0.7f}};
  unsigned turn = 0;
  for (int storage = TAGC_STORAGE_FP32; storage <= TAGC_STORAGE_INT8; storage++)
    for (int dtype = 0; dtype < DTYPES; dtype++, turn++) {
      bool all = true;
      if (SANITIZED && dtype != storage % DTYPES)
        continue;
      for (int more = 0; more < 2; more++) {
        if ((interpreted || dtype != storage % DTYPES) && more != (int)turn % 2)
          continue;
        struct setting s = usual();
        const int nranks = more == 0 ? 2 : dtype == storage % DTYPES ? 5 : 3;
        s.n = sizes[(turn + (unsigned)nranks) % 5];
        s.nranks = nranks;
        s.keep_ppm = 250000 / (uint32_t)(nranks - 1);
        s.dtype = (enum tagc_dtype)dtype;
        s.storage = (enum tagc_storage)storage;
        s.off = offs[turn % 5] / tagc_dtype_size(s.dtype) * tagc_dtype_size(s.dtype);
        s.in_place = turn % 2;
        s.scale = factors[turn % 4][0];
        s.divisor = factors[turn % 4][1];
        s.steps = 3 - more;
        all &= same_with_few(&s);
      }
      ok(all, "%s, residual %s: the host's bytes, whatever the size, and what was before", dtypes[dtype],
         storages[storage]);
    }
}

static void check_patterns(void) {
  bool all = true;
  for (int pattern = 0; pattern < FEW_EXCEPTIONS; pattern++) {
    struct setting s = usual();
    s.dtype = (enum tagc_dtype)(pattern % DTYPES);
    s.storage = (enum tagc_storage)(1 + pattern % 3);
    s.pattern = (enum pattern)pattern;
    s.steps = 2;
    all &= same_with_few(&s);
  }
  ok(all, "the host's bytes of hard gradients");
}

/* Exponents before prepare, as in chunks: also without a sketch, of few groups, and with exceptions. */
static void check_measured(void) {
  static const uint64_t sizes[] = {17003, 20480, 5003, 18433};
  bool all = true;
  for (int i = 0; i < 8; i += stride) {
    struct setting s = usual();
    s.n = sizes[i % 4];
    s.nranks = 2 + i % 2;
    s.keep_ppm = 300000;
    s.dtype = (enum tagc_dtype)(i % DTYPES);
    s.storage = (enum tagc_storage)(1 + i / 2 % 3);
    s.pattern = i < 4 ? GAUSS : FEW_EXCEPTIONS;
    s.scale = i % 3 ? 1 : 0.3f;
    s.measured = true;
    s.most = i < 4 ? 2 : 0;
    s.steps = 2;
    all &= same_with_few(&s);
  }
  ok(all, "exponents that are measured in advance, and stay");
}

static void check_sizes(void) {
  static const struct {
    uint64_t n;
    int nranks;
    uint32_t keep_ppm;
    const char *what;
  } sizes[] = {
    {120011, 2, 35000, "few are kept"},  {101009, 2, 300000, "one stripe, three hashes"},
    {70001, 5, 300000, "two stripes"},   {130003, 3, 500000, "three stripes"},
    {16384, 2, 1000000, "all are kept"},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct setting s = usual();
    s.n = sizes[i].n;
    s.nranks = sizes[i].nranks;
    s.keep_ppm = sizes[i].keep_ppm;
    s.dtype = (enum tagc_dtype)(i % DTYPES);
    s.storage = (enum tagc_storage)(1 + i % 3);
    s.divisor = (float)s.nranks;
    ok(same_with_few(&s), "%s", sizes[i].what);
  }
}

/* Shards too small for a sketch: lists of values. */
static void check_lists(void) {
  static const uint32_t kept[] = {1, 10000, 300000, 1000000};
  bool all = true;
  for (int i = 0; i < CASE_SIZES; i += stride) {
    struct setting s = usual();
    s.n = case_sizes[i];
    s.nranks = 2 + i % 3;
    s.keep_ppm = kept[i % 4];
    s.dtype = (enum tagc_dtype)(i % DTYPES);
    s.storage = (enum tagc_storage)(1 + i / 3 % 3);
    s.in_place = i % 2;
    s.steps = 2;
    all &= same_with_few(&s);
  }
  ok(all, "shards that are too small for a sketch");
}

/* Any number of groups peels any number of stripes: alone, or 22 rounds of a large support, 2 of a small one. */
static void check_groups(void) {
  static const struct {
    uint64_t n;
    int nranks;
    uint32_t keep_ppm, stripes, groups, rounds;
  } cases[] = {{70001, 3, 500000, 2, 0, 0},           {17003, 2, 250000, 1, 1, 0},   {17003, 2, 250000, 1, 3, 2},
               {70001, 3, 500000, 2, 2, 22},          {101009, 2, 300000, 1, 5, 22}, {70001, 3, 500000, 2, 3, 22},
               {70001, 3, 500000, 2, ALL_GROUPS, 22}, {130003, 3, 500000, 3, 2, 22}, {240007, 3, 500000, 5, 1, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i += (size_t)stride) {
    const uint32_t stripes = cases[i].stripes, groups = cases[i].groups;
    struct setting s = usual();
    s.n = cases[i].n;
    s.nranks = cases[i].nranks;
    s.keep_ppm = cases[i].keep_ppm;
    shared = rounds = lasts = 0;
    const bool good = same_with(&s, groups) && rounds == cases[i].rounds * lasts;
    if (groups == ALL_GROUPS)
      ok(good && shared > stripes && shared % stripes == 0, "%u stripes, as many groups as there is room for", stripes);
    else
      ok(good && shared == (groups > 1 ? groups * stripes : 0),
         "stripes: %u, groups: %u each%s, launches of a round: %u", stripes, groups ? groups : 1,
         groups ? "" : ", one after the other", cases[i].rounds);
  }
}

/* Repeated decodes, with sketches and with lists. */
static void check_again(void) {
  static const struct {
    uint64_t n;
    uint32_t keep_ppm, groups;
  } shapes[] = {
    {17003, 250000, FEW_GROUPS}, {70001, 500000, FEW_GROUPS}, {17003, 250000, 0}, {5003, 300000, FEW_GROUPS}};
  bool all = true;
  for (int i = 0; i < 4; i += stride) {
    struct setting s = usual();
    s.n = shapes[i].n;
    s.nranks = 3;
    s.keep_ppm = shapes[i].keep_ppm;
    s.again = true;
    s.steps = 2;
    all &= same_with(&s, shapes[i].groups);
  }
  ok(all, "a call is decoded twice");
}

static void check_addresses(void) {
  static const size_t offs[] = {4, 2, 6, 8, 10, 12, 12, 14};
  bool all = true;
  for (int i = 0; i < 8; i++) {
    struct setting s = usual();
    s.n = 16384 + 4 * (uint64_t)(i % 2) + (uint64_t)(i / 4);
    s.dtype = (enum tagc_dtype)(i % DTYPES);
    s.off = offs[i] / tagc_dtype_size(s.dtype) * tagc_dtype_size(s.dtype);
    s.in_place = i / 2 % 2;
    all &= same_with_few(&s);
  }
  ok(all, "gradients and results at any address that is good for an element");
}

/* -- exceptions ---------------------------------------------------------------------------------------------------- */
static void at_the_last(struct sim *sim) {
  for (int r = 0; r < sim->shape.nranks; r++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      sim_put(sim, r, shard, sim->shape.n - 1, r % 2 ? INFINITY : NAN);
}

static void in_the_own(struct sim *sim) { sim_put(sim, 0, 0, sim->shape.n / 2, NAN); }

static void put_exceptions(struct sim *sim, uint64_t more) {
  const uint64_t n = sim->shape.n, capacity = tagc_exceptions_capacity(n) + more;
  for (int r = 0; r < sim->shape.nranks; r++)
    for (uint64_t i = 0; i < capacity; i++)
      sim_put(sim, r, 1 - r, (i * 2654435761u + 5 + (uint64_t)r) % n, case_exception(i));
}

static void a_full_list(struct sim *sim) { put_exceptions(sim, 0); }
static void one_too_many(struct sim *sim) { put_exceptions(sim, 1); }

static void check_exceptions(void) {
  static const struct {
    void (*change)(struct sim *);
    const char *what;
  } cases[] = {
    {at_the_last, "at the last position"},
    {in_the_own, "in a shard of its own"},
    {a_full_list, "as many as fit"},
    {one_too_many, "one more than fit"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool all = true;
    for (int storage = TAGC_STORAGE_FP32; storage <= TAGC_STORAGE_INT8; storage++) {
      struct setting s = usual();
      s.dtype = (enum tagc_dtype)(storage % DTYPES);
      s.storage = (enum tagc_storage)storage;
      s.change = cases[i].change;
      s.steps = 2;
      s.divisor = 2;
      s.in_place = storage % 2;
      all &= same_with_few(&s);
    }
    ok(all, "exceptions %s", cases[i].what);
  }
  struct setting s = usual();
  s.dtype = TAGC_FLOAT16;
  s.change = sums_too_large;
  s.steps = 2;
  ok(same_with_few(&s), "sums that are too large");
}

/* -- what cannot be peeled ----------------------------------------------------------------------------------------- */

/* With this seed these two positions of a shard of 82,000 share all their cells (test_stuck.c finds such pairs). */
enum { STUCK_SEED = 6197, STUCK_FIRST = 27956, STUCK_SECOND = 75576, STUCK_N = 82000 };

/* The two, and values at every `apart`-th position. */
static void put_pair(struct sim *sim, uint32_t apart, uint32_t first, uint32_t second) {
  sim_clear(sim);
  for (uint32_t i = 0; i < STUCK_N; i += apart)
    sim_put(sim, 1, 0, i, 1 + (float)(i % 7));
  sim_put(sim, 1, 0, first, 6);
  sim_put(sim, 1, 0, second, -2.5f);
}

static void a_stuck_pair(struct sim *sim) { put_pair(sim, 41, STUCK_FIRST, STUCK_SECOND); }

/* The same with three hashes, where the checks of the two differ. */
enum { CHECKED_SEED = 4114, CHECKED_FIRST = 30928, CHECKED_SECOND = 62526 };

static void a_checked_pair(struct sim *sim) { put_pair(sim, 3, CHECKED_FIRST, CHECKED_SECOND); }

/* Nothing is left to peel when the last launch begins. */
static void a_stuck_pair_alone(struct sim *sim) {
  sim_clear(sim);
  sim_put(sim, 1, 0, 1000, 3);
  sim_put(sim, 1, 0, STUCK_FIRST, 6);
  sim_put(sim, 1, 0, STUCK_SECOND, -2.5f);
}

static void check_stuck(void) {
  struct setting s = usual();
  s.n = STUCK_N;
  s.keep_ppm = 50000;
  s.seed = STUCK_SEED;
  s.change = a_stuck_pair;
  estimated = 0;
  const bool good = same_with_few(&s);
  ok(good && estimated == 2, "two elements that share all of their cells are estimated and counted");
  if (!SANITIZED)
    ok(same_with(&s, 1), "by one group as well");
  s.change = a_stuck_pair_alone;
  estimated = 0;
  const bool alone = same_with_few(&s);
  ok(alone && estimated == 2, "two that are left before the last launch");
  s.keep_ppm = 400000;
  s.seed = CHECKED_SEED;
  s.change = a_checked_pair;
  estimated = 0;
  const bool checked = same_with_few(&s);
  ok(checked && estimated == 0, "two that their checks tell apart");
}

/* -- what others send ---------------------------------------------------------------------------------------------- */
static uint8_t *bitmap_at(struct sim *sim, int rank, int sender) {
  return sim->job[rank].message_in + (size_t)sender * sim->layout.message_bytes + tagc_exceptions_bytes(sim->shape.n);
}

static void noise(void *area, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    ((uint8_t *)area)[i] = (uint8_t)(sim_random() >> 32);
}

static void fill_bitmaps(struct sim *sim, bool with_noise) {
  const size_t bytes = sim->layout.message_bytes - tagc_exceptions_bytes(sim->shape.n);
  for (int r = 0; r < sim->shape.nranks; r++)
    for (int sender = 0; sender < sim->shape.nranks; sender++)
      if (with_noise)
        noise(bitmap_at(sim, r, sender), bytes);
      else
        memset(bitmap_at(sim, r, sender), 0xff, bytes);
}

static void all_bits(struct sim *sim) { fill_bitmaps(sim, false); }
static void bitmap_noise(struct sim *sim) { fill_bitmaps(sim, true); }

static void exponent_noise(struct sim *sim) {
  for (int r = 0; r < sim->shape.nranks; r++)
    noise(sim->job[r].exponents, (size_t)sim->shape.nranks * sim->layout.exponent_bytes);
}

static void sketch_noise(struct sim *sim) {
  for (int r = 0; r < sim->shape.nranks; r++)
    noise(sim->job[r].sketch_in, sim->layout.sketch_count * sizeof(int32_t));
}

static void everything(struct sim *sim) {
  bitmap_noise(sim);
  exponent_noise(sim);
  sketch_noise(sim);
}

/* More values than fit, and the sketch of exactly those left after the cut: a cut different from the host's shows. */
static void too_many(struct sim *sim) {
  struct tagc_lhc_geometry geo;
  tagc_lhc_geometry_fill(&geo, &sim->shape);
  bitmap_noise(sim);
  for (int r = 0; r < sim->shape.nranks; r++) {
    struct tagc_job *job = &sim->job[r];
    memset(job->sketch_in, 0, sim->layout.sketch_count * sizeof(int32_t));
    for (uint32_t stripe = 0; stripe < geo.grid.stripes; stripe++) {
      int32_t *counters = job->sketch_in + (size_t)stripe * geo.stripe_counters;
      const uint64_t seed = tagc_grid_seed(job->seed, (uint32_t)r, stripe);
      const uint32_t lines = tagc_grid_stripe_lines(&geo.grid, stripe);
      uint32_t count = 0;
      for (uint32_t line = 0; line < lines; line++) {
        uint32_t mask = 0, word;
        for (int sender = 0; sender < sim->shape.nranks; sender++) {
          memcpy(&word, bitmap_at(sim, r, sender) + 4 * ((size_t)stripe * geo.grid.stripe_lines + line), sizeof word);
          mask |= sender == r ? 0 : word;
        }
        if (count + (uint32_t)__builtin_popcount(mask) > geo.union_capacity)
          continue;
        for (; mask; mask &= mask - 1, count++) {
          const uint32_t id = 32 * line + (uint32_t)__builtin_ctz(mask);
          const uint64_t its = tagc_lhc_cells(seed, geo.part_cells, id);
          const bool dense = tagc_lhc_is_dense(its, tagc_lhc_dense_rows(&geo));
          const int32_t value = (int32_t)(id * 2654435761u >> 12) - (1 << 19);
          if (geo.hashes == 3)
            counters[3 * geo.part_cells + tagc_lhc_check(its)] += value;
          for (uint32_t turn = 0; turn < (dense ? TAGC_LHC_TURNS : 1); turn++) {
            uint64_t cells = tagc_lhc_cells(tagc_lhc_turn_seed(seed, turn), geo.part_cells, id);
            for (uint32_t hash = 0; hash < geo.hashes; hash++, cells >>= 16)
              counters[hash * geo.part_cells + (cells & 0xffff)] += value;
          }
        }
      }
    }
  }
}

static void check_hostile(void) {
  static const struct {
    void (*corrupt)(struct sim *);
    bool disagrees;
    const char *what;
  } cases[] = {
    {too_many, false, "supports that are too large are cut as the host cuts them"},
    {exponent_noise, false, "exponents that are none"},
    {all_bits, true, "all bits set"},
    {bitmap_noise, true, "noise in place of bitmaps"},
    {sketch_noise, true, "noise in place of sketches"},
    {everything, true, "noise in place of all of it"},
  };
  static const struct {
    uint64_t n;
    int nranks;
    uint32_t keep_ppm;
  } shapes[] = {{17003, 2, 250000}, {70001, 3, 500000}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool all = true;
    for (int shape = 0; shape < 2 - SANITIZED; shape++) {
      if ((interpreted || i > 0) && shape != (int)i % 2) /* stripes matter where the host cuts each of them */
        continue;
      struct setting s = usual();
      s.n = shapes[shape].n;
      s.nranks = shapes[shape].nranks;
      s.keep_ppm = shapes[shape].keep_ppm;
      s.corrupt = cases[i].corrupt;
      s.disagrees = cases[i].disagrees;
      s.steps = 1 + !shape;
      all &= same_with_few(&s);
    }
    ok(all, "%s", cases[i].what);
  }
}

/* As many groups as fit, with several stripes, and one stripe in a shard of many elements. */
static void check_large(void) {
  static const uint32_t kept[] = {10000, 2000};
  for (int i = 0; i < 2; i++) {
    struct setting s = usual();
    s.n = (16 << 20) + 17;
    s.keep_ppm = kept[i];
    s.storage = i ? TAGC_STORAGE_INT8 : TAGC_STORAGE_FP32;
    s.dtype = i ? TAGC_BFLOAT16 : TAGC_FLOAT32;
    s.steps = 2;
    ok(same_with(&s, ALL_GROUPS), "a large shard, of which %u in a million are kept", kept[i]);
  }
}

int main(int argc, char **argv) {
  const bool brief = cuda_brief(argc, argv);
  const bool ptx = cuda_said(argc, argv, "ptx");
  interpreted = brief && ptx;
  stride = SANITIZED ? 9 : interpreted ? 4 : 1;
  launcher = device_launcher(ptx);
  launcher.launch = launch;
  if (cuda_said(argc, argv, "large")) {
    check_large();
    return tap_done();
  }
  check_variants();
  if (!brief) {
    check_patterns();
    check_sizes();
    check_addresses();
    check_exceptions();
  }
  check_measured();
  check_lists();
  check_groups();
  check_again();
  check_stuck();
  check_hostile();
  note("%llu bytes compared", (unsigned long long)compared);
  return tap_done();
}
