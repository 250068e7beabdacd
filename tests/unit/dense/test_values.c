/* SPDX-License-Identifier: BSD-3-Clause
 * The dense codecs: the examples of their headers, sizes, errors, averages over many calls, compensation by a residual,
 * and values at the limits of floats.
 */
#include "tests/unit/dense/reference.h"
#include "tests/unit/codec/variants.h"

enum { N = 8192 };

static struct sim without_residual(const char *codec, uint64_t n, int nranks) {
  struct sim sim = sim_new(codec, n, nranks, TAGC_FLOAT32, 1000000);
  for (int rank = 0; rank < nranks; rank++) {
    free(sim.job[rank].residual);
    sim.job[rank].residual = NULL;
  }
  return sim;
}

/* -- what the headers say ------------------------------------------------------------------------------------------ */

struct example {
  const char *codec;
  uint64_t n;
  float values[3];
  uint8_t head[16]; /* after the exceptions: scales, or the values of bf16 */
  uint8_t codes[4];
  size_t code_count, repeated; /* the last of them repeats; then zeros */
  uint8_t upper[2];            /* of q3, 64 bytes behind the first codes */
};

static void check_example(const struct example *e) {
  struct sim sim = without_residual(e->codec, e->n, 2);
  uint8_t want[512] = {0};
  const size_t codes = e->code_count + e->repeated;
  for (uint64_t i = 0; i < e->n; i++)
    sim_put(&sim, 0, 1, i, e->values[i]);
  sim_step(&sim, 1);
  memcpy(want + 16, e->head, 16);
  memcpy(want + 32, e->codes, e->code_count);
  if (e->repeated)
    memset(want + 32 + e->code_count, e->codes[e->code_count - 1], e->repeated);
  const bool q3 = strcmp(e->codec, "q3") == 0;
  if (q3)
    memcpy(want + 32 + 64, e->upper, sizeof e->upper);
  const size_t bytes = 32 + (strcmp(e->codec, "q8") == 0 ? 256 : q3 ? 96 : codes);
  ok(sim.layout.message_bytes == bytes && memcmp(sim.job[1].message_in, want, bytes) == 0,
     "%s: the message is the one of the example", e->codec);
  sim_free(&sim);
}

static void check_examples(void) {
  static const struct example examples[] = {
    {"bf16", 3, {1, -2, 0x1p-130f}, {0x80, 0x3f, 0x00, 0xc0}, {0}, 0, 0, {0}},
    {"q8", 3, {127, -1, 0.5f}, {0x80, 0x3f}, {0x7f, 0xff, 0}, 3, 0, {0}},
    {"q4", 1, {-1792}, {0x80, 0x3f, 0x80, 0x3f}, {0x99}, 1, 127, {0}},
    {"q3", 2, {-2.9f, 2.033f}, {0x80, 0xbf}, {0, 3}, 2, 0, {1, 1}},
    {"q2", 1, {-256}, {0x2a, 0x3f}, {0xff}, 1, 63, {0}},
  };
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
    check_example(&examples[i]);
}

static void check_sizes(void) {
  static const double most[] = {16.1, 8.1, 4.2, 3.15, 2.1};
  for (int codec = 0; codec < DENSE_CODECS; codec++) {
    struct tagc_shape shape = {.n = 4 << 20, .nranks = 8, .dtype = TAGC_FLOAT16, .keep_ppm = 1};
    struct tagc_layout layout, other;
    const struct tagc_codec *c = tagc_codec_find(dense_name[codec]);
    bool right = c->layout(&shape, &layout);
    double bits = 8.0 * (double)layout.message_bytes / (double)shape.n;
    shape.nranks = 64;
    right &= c->layout(&shape, &other) && other.message_bytes == layout.message_bytes;
    shape.n = 0;
    right &= !c->layout(&shape, &other);
    ok(right && bits <= most[codec] && layout.capacity == 4 << 20, "%s: %.3f bits an element", dense_name[codec], bits);
  }
}

/* -- errors -------------------------------------------------------------------------------------------------------- */

/* The relative error of the sum of `steps` equal calls, in rank 0's values for rank 1. */
static double error_of(struct sim *sim, int steps) {
  const uint64_t n = sim->shape.n;
  double *sum = calloc((size_t)n, sizeof *sum), error = 0, norm = 0;
  for (int i = 0; i < steps; i++) {
    sim_step(sim, (uint64_t)i + 100);
    for (uint64_t at = 0; at < n; at++)
      sum[at] += (double)sim_got(sim, 1, at) / steps;
  }
  for (uint64_t at = 0; at < n; at++) {
    double x = (double)sim_sent(sim, 0, 1, at);
    error += (sum[at] - x) * (sum[at] - x);
    norm += x * x;
  }
  free(sum);
  return sqrt(error / norm);
}

static void fill_normal(struct sim *sim) {
  for (uint64_t i = 0; i < sim->shape.n; i++)
    sim_put(sim, 0, 1, i, sim_normal());
}

static void check_errors(void) {
  static const struct {
    const char *codec;
    int steps;
    bool stochastic;
    double least, most;
    const char *what;
  } cases[] = {
    {"bf16", 1, false, 0.0010, 0.0020, "bf16"},
    {"q8", 1, false, 0.004, 0.008, "q8"},
    {"q4", 1, false, 0.08, 0.125, "q4"},
    {"q3", 1, false, 0.18, 0.20, "q3"},
    {"q2", 1, false, 0.33, 0.36, "q2"},
    {"q4", 64, false, 0.010, 0.018, "q4, the mean of 64 calls: fresh signs"},
    {"q2", 64, false, 0.10, 0.14, "q2, the mean of 64 calls: smaller by its bias"},
    {"bf16", 64, true, 0.0001, 0.0006, "bf16, the mean of 64 calls by chance"},
    {"q8", 64, true, 0.0005, 0.0018, "q8, the mean of 64 calls by chance"},
    {"q4", 64, true, 0.010, 0.024, "q4, the mean of 64 calls by chance"},
    {"q3", 1, true, 0.18, 0.21, "q3 with the scale of the right product"},
    {"q2", 1, true, 0.35, 0.39, "q2 with the unbiased scale"},
    {"q2", 64, true, 0.040, 0.055, "q2 with it, the mean of 64 calls"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct sim sim = without_residual(cases[i].codec, N, 2);
    for (int rank = 0; rank < 2; rank++)
      sim.job[rank].stochastic = cases[i].stochastic;
    fill_normal(&sim);
    double error = error_of(&sim, cases[i].steps);
    ok(error >= cases[i].least && error <= cases[i].most, "%s: error %.5f", cases[i].what, error);
    sim_free(&sim);
  }
}

/* With a residual the error of the sum of 64 calls is the residual at the end, not 64 errors. */
static void check_residual(enum dense_codec codec) {
  struct sim sim = sim_new(dense_name[codec], N, 2, TAGC_FLOAT32, 1000000);
  fill_normal(&sim);
  double error = error_of(&sim, 64), left = 0, norm = 0;
  for (uint64_t i = 0; i < N; i++) {
    double e = (double)((const float *)sim.job[0].residual)[i], x = (double)sim_sent(&sim, 0, 1, i);
    left += e * e;
    norm += x * x;
  }
  double want = sqrt(left / norm) / 64;
  ok(fabs(error - want) < 0.01 * want + 1e-7, "%s: what 64 calls did not send is in the residual (%.5f, %.5f)",
     dense_name[codec], error, want);
  sim_free(&sim);
}

/* The norm is that of the rank that encoded last. */
static void check_norm(enum dense_codec codec) {
  struct sim sim = sim_new(dense_name[codec], 1000, 3, TAGC_FLOAT32, 1000000);
  double norm = 0;
  for (int shard = 0; shard < 2; shard++)
    for (uint64_t i = 0; i < 1000; i++)
      sim_put(&sim, 2, shard, i, sim_normal());
  sim_step(&sim, 5);
  for (uint64_t i = 0; i < 2000; i++)
    norm += pow((double)((const float *)sim.job[2].residual)[i], 2);
  ok(norm > 0 && fabs(sim.stats.residual_norm2 - norm) <= 1e-6 * norm && sim.stats.selected == 6000,
     "%s: the statistics tell what stays, and what was sent", dense_name[codec]);
  sim_free(&sim);
}

/* -- edges --------------------------------------------------------------------------------------------------------- */

/* One call of one block from rank 0 to rank 1; returns the relative error. */
static double block_error(enum dense_codec codec, const float values[256]) {
  struct sim sim = sim_new(dense_name[codec], 256, 2, TAGC_FLOAT32, 1000000);
  double error = 0, norm = 0;
  for (uint64_t i = 0; i < 256; i++)
    sim_put(&sim, 0, 1, i, values[i]);
  sim_step(&sim, 3);
  for (uint64_t i = 0; i < 256; i++) {
    double off = (double)values[i] - (double)sim_got(&sim, 1, i);
    error += off * off;
    norm += (double)values[i] * (double)values[i];
  }
  sim_free(&sim);
  return norm > 0 ? sqrt(error / norm) : error;
}

static void check_edges(enum dense_codec codec) {
  static const double most[] = {0.004, 0.0041, 0.15, 0.5, 0.4};
  static const double spike[] = {0.004, 0.0041, 0.004, 0.004, 0.006};
  float x[256] = {0};
  ok(block_error(codec, x) == 0, "%s: zeros", dense_name[codec]);
  for (int i = 0; i < 256; i++)
    x[i] = i == 77 ? -1e30f : 1e-20f;
  double error = block_error(codec, x);
  ok(error <= spike[codec], "%s: a huge value among tiny ones, error %.4f", dense_name[codec], error);
  for (int i = 0; i < 256; i++)
    x[i] = 3.25f;
  error = block_error(codec, x);
  ok(error <= most[codec], "%s: equal values, error %.4f", dense_name[codec], error);
  for (int i = 0; i < 256; i++)
    x[i] = (i % 3 ? 1 : -1) * nextafterf(0x1p120f, 0);
  error = block_error(codec, x);
  ok(error <= most[codec], "%s: the largest values that are no exceptions, error %.4f", dense_name[codec], error);
  for (int i = 0; i < 256; i++)
    x[i] = (i % 3 ? 1 : -1) * 3.4028235e38f;
  x[3] = 1; /* 255 exceptions: more than fit */
  error = block_error(codec, x);
  ok(error != error, "%s: more exceptions than fit make the shard NaN", dense_name[codec]);
}

/* Denormals count as zero, and stay in the residual. */
static void check_denormals(enum dense_codec codec) {
  struct sim sim = sim_new(dense_name[codec], 300, 2, TAGC_FLOAT32, 1000000);
  bool right = true;
  for (uint64_t i = 0; i < 300; i++)
    sim_put(&sim, 0, 1, i, ldexpf((float)i, -149));
  sim_step(&sim, 3);
  for (uint64_t i = 0; i < 300; i++)
    right &= sim_got(&sim, 1, i) == 0 && ((const float *)sim.job[0].residual)[i] == ldexpf((float)i, -149);
  ok(right, "%s: denormals are not sent, and stay", dense_name[codec]);
  sim_free(&sim);
}

/* q3 has a scale for each half block, and does not rotate: the values of a silent half are lost, and counted. */
static void check_silent_half(void) {
  struct sim sim = without_residual("q3", 256, 2);
  uint64_t zeros = 0;
  for (uint64_t i = 0; i < 256; i++)
    sim_put(&sim, 0, 1, i, i < 128 ? 1 : 0x1p-112f);
  sim_step(&sim, 3);
  for (uint64_t i = 0; i < 256; i++)
    zeros += sim_got(&sim, 1, i) == 0;
  ok(zeros == 128 && sim.stats.lost == 128, "q3: a silent half is lost, and %llu are counted",
     (unsigned long long)sim.stats.lost);
  sim_free(&sim);
}

static void check_many(enum dense_codec codec) {
  struct sim sim = without_residual(dense_name[codec], 300, 64);
  double error = 0;
  for (int rank = 0; rank < 64; rank++)
    for (int shard = 0; shard < 64; shard++)
      for (uint64_t i = 0; i < 300; i++)
        sim_put(&sim, rank, shard, i, sim_normal());
  sim_step(&sim, 9);
  double norm = 0;
  for (int shard = 0; shard < 64; shard++)
    for (uint64_t i = 0; i < 300; i++) {
      double want = 0;
      for (int rank = 0; rank < 64; rank++)
        want += (double)sim_sent(&sim, rank, shard, i);
      error += pow(want - (double)sim_got(&sim, shard, i), 2);
      norm += want * want;
    }
  error = sqrt(error / norm);
  ok(error < 0.4 && (codec == DENSE_Q2 || error < (codec == DENSE_Q3 ? 0.2 : 0.15)), "%s: 64 ranks, error %.4f",
     dense_name[codec], error);
  sim_free(&sim);
}

static void check_all(void) {
  sim_random_restart();
  check_examples();
  check_sizes();
  check_errors();
  check_silent_half();
  for (int codec = 0; codec < DENSE_CODECS; codec++) {
    check_residual((enum dense_codec)codec);
    check_norm((enum dense_codec)codec);
    check_edges((enum dense_codec)codec);
    check_denormals((enum dense_codec)codec);
    check_many((enum dense_codec)codec);
  }
}

int main(void) {
  with_each_variant(check_all);
  return tap_done();
}
