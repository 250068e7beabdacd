/* SPDX-License-Identifier: BSD-3-Clause
 * kernels/device/gradient_stats: gradients with known density, kurtosis and errors, and a known clock.
 */
#include "kernels/device/gradient_stats.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/tap.h"

enum { BF16, Q8, Q4, RESIDUAL, NONE }; /* places of the candidates here */

static struct tagc_candidate candidates[TAGC_CANDIDATES];
static double ticks;
static double tick(void) { return ticks++; }

/* A device that lacks memory after that many allocations, and counts them. */
static int left, given;

static void *alloc(const struct tagc_device *self, size_t bytes, void *stream) {
  (void)self, (void)stream;
  void *memory = left-- > 0 ? sim_memory(bytes) : NULL;
  given += memory != NULL;
  return memory;
}

static void release(const struct tagc_device *self, void *memory, void *stream) {
  (void)self, (void)stream;
  given -= memory != NULL;
  free(memory);
}

static struct tagc_device device; /* otherwise the host */

/* A gradient of a rank: filled by a function of shard and position. */
static struct tagc_gradient_request question;
static struct tagc_gradient_stats seen;
static bool good;

static bool sample(uint64_t n, int nranks, int rank, enum tagc_dtype dtype, float (*value)(int shard, uint64_t i)) {
  const size_t bytes = (size_t)nranks * n * tagc_dtype_size(dtype);
  void *send = malloc(bytes), *copy = malloc(bytes);
  for (int shard = 0; shard < nranks; shard++)
    for (uint64_t i = 0; i < n; i++)
      tagc_store(send, (uint64_t)shard * n + i, dtype, value(shard, i));
  memcpy(copy, send, bytes);
  question.shape = (struct tagc_shape){.n = n, .nranks = nranks, .dtype = dtype};
  question.rank = rank;
  question.send = send;
  struct tagc_gradient_sample sample = {0};
  bool done = tagc_gradient_sample_read(&question, &device, NULL, &sample) &&
              tagc_gradient_stats_measure(&question, &sample, &seen);
  tagc_gradient_sample_free(&sample);
  done &= memcmp(copy, send, bytes) == 0 && given == 0;
  free(send);
  free(copy);
  return done;
}

static bool is_near(double x, double y, double relative) { return fabs(x - y) <= relative * y; }

static float normal(int shard, uint64_t i) {
  (void)shard, (void)i;
  return sim_normal();
}

/* One value in five, four and three of shards 0, 1 and 2. */
static float shares(int shard, uint64_t i) { return i % (uint64_t)(5 - shard) ? 0 : i % 2 ? 1.0f : -1.0f; }

static float rows(int shard, uint64_t i) { return i / 768 % 25 == (uint64_t)shard ? sim_normal() : 0; }

/* Zero where runs of the sample begin. */
static float lonely(int shard, uint64_t i) {
  (void)shard;
  return i >= 1600000 && i < 1600100 ? sim_normal() : 0;
}

static float tiny(int shard, uint64_t i) {
  (void)shard;
  return i % 2 ? 0x1p-119f : 0x1p-121f;
}

static float nothing(int shard, uint64_t i) {
  (void)shard, (void)i;
  return 0;
}

static float wild(int shard, uint64_t i) {
  (void)shard;
  return i == 5 ? NAN : i == 700 ? -INFINITY : i == 900 ? 0x1p121f : sim_normal();
}

static float one_value(int shard, uint64_t i) {
  (void)i;
  return (float)shard - 3;
}

static void densities(void) {
  good = sample(300000, 3, 2, TAGC_FLOAT32, shares);
  ok(good && is_near(seen.density, 1 / 4.0, 1e-6) && is_near(seen.kurtosis, 4.5, 0.02),
     "the fullest foreign shard counts: %.4f; the kurtosis is that of the sample: %.3f", seen.density, seen.kurtosis);
  good = sample(300000, 3, 0, TAGC_BFLOAT16, shares);
  ok(good && is_near(seen.density, 1 / 3.0, 1e-5), "of bf16, seen by rank 0: %.4f", seen.density);
  good = sample(100, 64, 3, TAGC_FLOAT16, one_value);
  ok(good && seen.density == 1 && seen.of[NONE].error == 0, "64 shards of 100 values");
  good = sample(1, 2, 1, TAGC_FLOAT32, one_value);
  ok(good && seen.density == 1 && seen.kurtosis == 1, "a shard of one value");
  question.scale = 1;
  good = sample(50000, 2, 0, TAGC_FLOAT32, tiny);
  ok(good && seen.density == 0.5, "below 2^-120 is nothing");
  question.scale = 0.25f;
  good = sample(50000, 2, 0, TAGC_FLOAT32, tiny);
  ok(good && seen.density == 0 && seen.of[Q8].error >= 1, "and is so after the scale");
  question.scale = 1;
  good = sample(50000, 2, 0, TAGC_FLOAT32, nothing);
  ok(good && seen.density == 0 && seen.kurtosis == 0 && seen.of[Q8].error == 0 && !seen.exceptions,
     "nothing but zeros: which no codec gets wrong");
}

static void errors(void) {
  good = sample(1 << 20, 2, 0, TAGC_FLOAT32, normal);
  ok(good && is_near(seen.kurtosis, 2.8, 0.03), "normal: kurtosis %.3f", seen.kurtosis);
  ok(seen.of[NONE].error == 0, "what is not compressed has no error");
  ok(is_near(seen.of[BF16].error, 0.00165, 0.1) && is_near(seen.of[Q8].error, 0.0065, 0.2) &&
       is_near(seen.of[Q4].error, 0.118, 0.1),
     "bf16, q8, q4: %.5f, %.4f, %.3f", seen.of[BF16].error, seen.of[Q8].error, seen.of[Q4].error);
  ok(seen.of[RESIDUAL].error == INFINITY, "a codec with a residual is not tried on a dense gradient");
  ok(!seen.exceptions, "and there are no exceptions");
  question.stochastic = true;
  good = sample(1 << 20, 2, 0, TAGC_FLOAT32, normal);
  ok(good && is_near(seen.of[BF16].error, 0.00165 * sqrt(2), 0.1) && is_near(seen.of[Q8].error, 0.0065 * sqrt(2), 0.2),
     "with stochastic rounding it is %.5f and %.4f", seen.of[BF16].error, seen.of[Q8].error);
  question.stochastic = false;
  good = sample(1 << 18, 2, 0, TAGC_FLOAT32, wild);
  ok(good && seen.exceptions && is_near(seen.of[Q8].error, 0.0065, 0.2), "values that are not finite do no harm: %.4f",
     seen.of[Q8].error);
  good = sample(1 << 20, 3, 1, TAGC_FLOAT32, rows);
  ok(good && is_near(seen.density, 0.04, 0.01) && seen.of[RESIDUAL].error < 1e-6,
     "rows: density %.4f, and a sketch is exact: %.1e", seen.density, seen.of[RESIDUAL].error);
  good = sample(1 << 21, 2, 1, TAGC_FLOAT32, lonely);
  ok(good && seen.density < 1e-4 && seen.kurtosis > 100 && seen.of[Q4].error < 0.2 && seen.of[RESIDUAL].error < 1e-6,
     "values that the sample would miss are found");
  candidates[RESIDUAL].residual = TAGC_STORAGE_NONE;
  good = sample(1 << 18, 2, 0, TAGC_FLOAT32, rows);
  ok(good && seen.of[RESIDUAL].error == INFINITY && seen.of[Q8].error < 0.01,
     "TAGC_RESIDUAL=none: codecs that need one are not tried");
  candidates[RESIDUAL].residual = TAGC_STORAGE_FP32;
}

/* The norm of the whole gradient, with the own shard, from a sample. The values are normal: their number tells it. */
static void norms(void) {
  good = sample(5000, 2, 0, TAGC_FLOAT32, normal);
  ok(good && is_near(seen.norm, sqrt(2 * 5000), 0.05), "the norm of a small gradient: %.4g", seen.norm);
  good = sample(300000, 4, 2, TAGC_FLOAT32, normal);
  ok(good && is_near(seen.norm, sqrt(4 * 300000), 0.02), "of a large one: %.4g", seen.norm);
  good = sample(1 << 18, 2, 0, TAGC_FLOAT32, rows);
  ok(good && is_near(seen.norm, sqrt(2 * (1 << 18) / 25.0), 0.1), "of one of which few rows are not zero: %.4g",
     seen.norm);
  good = sample(5000, 2, 0, TAGC_FLOAT32, nothing);
  ok(good && seen.norm == 0, "of zeros");
}

/* The clock advances by a millisecond per query: prepare and encode take two, decode one. 5,000 elements are one
 * run. */
static void times(void) {
  good = sample(5000, 2, 0, TAGC_FLOAT32, normal);
  ok(good && is_near(seen.of[Q8].encode_ns, 2e6 / 4096, 1e-9) && is_near(seen.of[Q8].decode_ns, 1e6 / 4096, 1e-9),
     "times are for an element: %.1f and %.1f ns", seen.of[Q8].encode_ns, seen.of[Q8].decode_ns);
  question.clock_ms = NULL;
  good = sample(5000, 2, 0, TAGC_FLOAT32, normal);
  ok(good && seen.of[Q8].encode_ns == 0 && seen.of[Q8].decode_ns == 0 && is_near(seen.of[Q8].error, 0.0065, 0.2),
     "without a clock errors are found all the same: %.4f", seen.of[Q8].error);
  question.clock_ms = tick;
}

static bool fails(const struct tagc_device *self, void *to, const void *from, size_t bytes, void *stream) {
  (void)self, (void)stream;
  if (bytes >= 4096)
    return false; /* the sample, and not the words */
  memcpy(to, from, bytes);
  return true;
}

static void failures(void) {
  static const char *const what[] = {"counting", "the sample", "the codecs"};
  for (int i = 0; i < 3; i++) {
    left = i;
    ok(!sample(5000, 2, 0, TAGC_FLOAT32, normal) && given == 0, "no memory for %s", what[i]);
  }
  left = 1 << 30;
  device.get = fails;
  ok(!sample(5000, 2, 0, TAGC_FLOAT32, normal) && given == 0, "a gradient that cannot be read");
}

static void keeps(void) {
  static const struct {
    double density;
    uint32_t keep;
  } table[] = {
    {0, 1}, {1e-6, 2}, {2e-6, 3}, {0.01, 16384}, {0.05, 98304}, {0.1, 196608}, {0.14, 0}, {1, 0},
  };
  good = true;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    good &= tagc_gradient_keep_ppm(table[i].density) == table[i].keep;
  ok(good, "what is kept at some densities");
}

/* One codec on a few runs, with the capacity of calls. */
static bool spot_check(const char *codec, uint64_t n, int nranks, int rank, enum tagc_dtype dtype, uint32_t keep,
                       uint64_t turn, float (*value)(int shard, uint64_t i), double *error, double *norm) {
  const size_t bytes = (size_t)nranks * n * tagc_dtype_size(dtype);
  const enum tagc_storage storage = keep ? TAGC_STORAGE_INT8 : TAGC_STORAGE_NONE;
  void *send = malloc(bytes);
  for (int shard = 0; shard < nranks; shard++)
    for (uint64_t i = 0; i < n; i++)
      tagc_store(send, (uint64_t)shard * n + i, dtype, shard == rank ? NAN : value(shard, i));
  const struct tagc_gradient_request q = {
    .shape = {.n = n, .nranks = nranks, .dtype = dtype, .keep_ppm = keep, .residual = storage},
    .rank = rank,
    .send = send,
    .scale = 1,
  };
  const bool seen_it = tagc_gradient_spot_check(&q, tagc_codec_find(codec), turn, error, norm);
  free(send);
  return seen_it;
}

static void spot_checks(void) {
  double error, norm, other;
  static const struct {
    const char *codec;
    uint32_t keep;
    double least, most;
  } wanted[] = {
    {"bf16", 0, 0.0005, 0.004},     {"q8", 0, 0.003, 0.01},      {"q4", 0, 0.08, 0.16},        {"q2", 0, 0.3, 0.5},
    {"sparse", 200000, 0.55, 0.75}, {"lhc", 200000, 0.55, 0.75}, {"sparse", 20000, 0.9, 0.98},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    good = spot_check(wanted[i].codec, 300000, 3, 1, TAGC_FLOAT32, wanted[i].keep, i, normal, &error, &norm);
    ok(good && error > wanted[i].least && error < wanted[i].most && is_near(norm, 90.5, 0.03),
       "%s, %u ppm: error %.4f, of a part of norm %.2f", wanted[i].codec, wanted[i].keep, error, norm);
  }
  bool all = true;
  for (uint64_t n = 1; n < 40000; n = n * 3 + 1)
    for (int nranks = 2; nranks < 6; nranks++)
      for (uint64_t turn = 0; turn < 9; turn++)
        all &=
          spot_check("q4", n, nranks, (int)turn % nranks, TAGC_BFLOAT16, 0, turn, normal, &error, &norm) && error < 0.5;
  ok(all, "short shards, few and many ranks: foreign shards alone are looked at");
  good = spot_check("q8", 300000, 2, 0, TAGC_FLOAT32, 0, 0, rows, &error, &norm) &&
         spot_check("q8", 300000, 2, 0, TAGC_FLOAT32, 0, 3, rows, &error, &other);
  ok(good && norm != other, "other places in another turn");
  good = spot_check("q8", 5000, 2, 0, TAGC_FLOAT32, 0, 0, nothing, &error, &norm);
  ok(good && error == 0 && norm == 0, "nothing but zeros");
}

int main(void) {
  static const char *const names[TAGC_CANDIDATES] = {"bf16", "q8", "q4", "lhc", "none", "q3", "q2"};
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    candidates[i] =
      (struct tagc_candidate){tagc_codec_find(names[i]), i == RESIDUAL ? TAGC_STORAGE_FP32 : TAGC_STORAGE_NONE};
  question = (struct tagc_gradient_request){.scale = 1, .candidates = candidates, .clock_ms = tick};
  device = tagc_device_host;
  device.alloc = alloc;
  device.release = release;
  left = 1 << 30;
  densities();
  errors();
  norms();
  times();
  keeps();
  failures();
  spot_checks();
  return tap_done();
}
