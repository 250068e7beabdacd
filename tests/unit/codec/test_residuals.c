/* SPDX-License-Identifier: BSD-3-Clause
 * Every codec with every storage of the residual: over ten calls the results and the residual add up to the input,
 * except for the residual's rounding; the residual does not grow. Stochastic rounding: right in the mean, reproducible,
 * different on every rank and for every owner.
 */
#include "tests/unit/codec/cases.h"
#include "tests/unit/codec/reference.h"
#include "tests/unit/codec/variants.h"

enum { STEPS = 10 };

static const char *const storage_names[] = {"none", "fp32", "bf16", "int8"};

static bool is(const struct tagc_codec *codec, const char *name) { return strcmp(codec->name, name) == 0; }

/* Adds the largest rounding error of a stored residual: one unit, as it rounds stochastically. The unit is that of the
 * stored values: 2^-7 of a bf16, 1/127 of an int8 block's largest. (Its scale is rounded up by up to 1/128, and the
 * largest may have lost a unit itself.) */
static void add_units(enum tagc_storage storage, const float *kept, uint64_t n, double *allowed) {
  for (uint64_t from = 0; from < n; from += TAGC_RESIDUAL_BLOCK) {
    const uint64_t end = n - from < TAGC_RESIDUAL_BLOCK ? n : from + TAGC_RESIDUAL_BLOCK;
    double most = 0;
    for (uint64_t i = from; i < end; i++)
      most = fmax(most, fabs((double)kept[i]));
    for (uint64_t i = from; i < end; i++)
      allowed[i] += storage == TAGC_STORAGE_INT8   ? most / 123 + 0x1p-110
                    : storage == TAGC_STORAGE_BF16 ? fabs((double)kept[i]) / 128 + 0x1p-133
                                                   : 0;
  }
}

/* By shard and element: the inputs, the results, their allowed distance, and the size of the numbers. */
struct account {
  double *in, *out, *allowed, *size, kept;
};

static struct account account_new(uint64_t all) {
  return (struct account){calloc(all, sizeof(double)), calloc(all, sizeof(double)), calloc(all, sizeof(double)),
                          calloc(all, sizeof(double)), 0};
}

static void account_free(struct account *account) {
  free(account->in);
  free(account->out);
  free(account->allowed);
  free(account->size);
}

static void account_for_residuals(struct account *account, const struct sim *sim, bool last) {
  const uint64_t n = sim->shape.n;
  float *kept = sim_memory(n * sizeof *kept);
  account->kept = 0;
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    for (int shard = 0; shard < sim->shape.nranks; shard++) {
      if (shard == rank)
        continue;
      case_residual(sim, rank, shard, kept);
      add_units(sim->shape.residual, kept, n, account->allowed + (uint64_t)shard * n);
      for (uint64_t i = 0; i < n; i++) {
        account->kept += (double)kept[i] * (double)kept[i];
        account->out[(uint64_t)shard * n + i] += last ? (double)kept[i] : 0;
      }
    }
  free(kept);
}

/* Runs one step; returns the squared norm of the inputs for foreign shards, without residuals. */
static double account_step(struct account *account, struct sim *sim, enum pattern pattern, uint64_t seed) {
  const uint64_t n = sim->shape.n;
  double norm2 = 0;
  case_fill(sim, pattern);
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      for (uint64_t i = 0; i < n; i++) {
        const double x = (double)(sim->job[rank].scale * sim_sent(sim, rank, shard, i));
        account->in[(uint64_t)shard * n + i] += x;
        account->size[(uint64_t)shard * n + i] += fabs(x);
        norm2 += rank == shard ? 0 : x * x;
      }
  sim_step(sim, seed);
  account_for_residuals(account, sim, false);
  for (int shard = 0; shard < sim->shape.nranks; shard++)
    for (uint64_t i = 0; i < n; i++)
      account->out[(uint64_t)shard * n + i] += (double)sim_got(sim, shard, i);
  return norm2;
}

/* The largest number in an element's block: the rounding of sums is relative to it. */
static double size_around(const double *size, uint64_t n, uint64_t i) {
  const uint64_t shard = i / n * n, from = shard + (i - shard) / 256 * 256;
  double most = 0;
  for (uint64_t j = from; j < from + 256 && j < shard + n; j++)
    most = fmax(most, size[j]);
  return most;
}

static void check_conservation(const struct tagc_codec *codec, enum tagc_storage storage, enum pattern pattern,
                               bool stochastic) {
  const struct tagc_shape shape = {
    .n = 1009, .nranks = 3, .keep_ppm = pattern == TIES ? 1000000 : 150000, .residual = storage};
  struct tagc_layout layout;
  if (!codec->layout(&shape, &layout))
    return;
  struct sim sim = sim_of(codec, &shape);
  const uint64_t all = 3 * shape.n;
  struct account account = account_new(all);
  double given = 0, worst = 0, mean = 0, spread = 0, reported = 0;
  for (int rank = 0; rank < 3; rank++) {
    sim.job[rank].stochastic = stochastic;
    sim.job[rank].scale = pattern == WIDE ? 0x1p-20f : 1; /* sums of values next to 2^120 are exceptions */
  }
  for (uint64_t step = 0; step < STEPS; step++)
    given = account_step(&account, &sim, pattern, 50 + step);
  account_for_residuals(&account, &sim, true);
  for (uint64_t i = 0; i < all; i++) {
    const double off = account.out[i] - account.in[i];
    const double allowed = account.allowed[i] + 2e-6 * size_around(account.size, shape.n, i);
    worst = case_worse(worst, fabs(off) / (allowed + 0x1p-149));
    mean += off / (allowed + 0x1p-149);
    spread += off * off / (allowed + 0x1p-149) / (allowed + 0x1p-149);
  }
  reported = sim.stats.residual_norm2;
  float *kept = sim_memory(shape.n * sizeof *kept);
  double last = 0;
  for (int shard = 0; shard < 2; shard++) {
    case_residual(&sim, 2, shard, kept);
    for (uint64_t i = 0; i < shape.n; i++)
      last += (double)kept[i] * (double)kept[i];
  }
  const char *chance = stochastic ? ", by chance" : "";
  ok(worst <= 1, "%s, residual in %s, pattern %d%s: nothing is lost but what is rounded off (%.2f of it)", codec->name,
     storage_names[storage], (int)pattern, chance, worst);
  /* A permanent pattern of signs would be a drift: 4 standard errors, and 5 more for the correlation within a block. */
  if (storage > TAGC_STORAGE_FP32 && pattern == GAUSS)
    ok(fabs(mean) <= 9 * sqrt(spread), "%s, residual in %s%s: and it averages out (%.1f standard errors)", codec->name,
       storage_names[storage], chance, fabs(mean) / sqrt(spread));
  ok(fabs(reported - last) <= 1e-5 * last, "%s, residual in %s, pattern %d%s: its norm is reported", codec->name,
     storage_names[storage], (int)pattern, chance);
  if (reference_find(codec->name) < REFERENCE_SPARSE && pattern == GAUSS)
    ok(account.kept < given, "%s, residual in %s%s: what is kept stays below one call's worth (%.2g of it)",
       codec->name, storage_names[storage], chance, account.kept / given);
  free(kept);
  account_free(&account);
  sim_free(&sim);
}

/* -- chance --------------------------------------------------------------------------------------------------- */

enum { SEEDS = 200 };

static bool rounds_by_chance(const struct tagc_codec *codec) {
  return is(codec, "bf16") || is(codec, "q8") || is(codec, "q4");
}

/* The unit of a codec's errors. */
static double unit_of(const struct tagc_codec *codec, float x) { return is(codec, "bf16") ? fabs((double)x) : 1; }

/* One sender, many seeds: the mean of the results is the input. Each element alone in standard errors of its block (a
 * value next to a code is seldom rounded away from it, so its own errors say little), and all of them together. */
static void check_mean(const struct tagc_codec *codec, float small) {
  enum { N = 769 };
  struct sim sim = sim_of(codec, &(struct tagc_shape){.n = N, .nranks = 2, .keep_ppm = 200000});
  double sum[N] = {0}, squares[N] = {0}, total = 0, variance = 0, worst = 0;
  for (uint64_t i = 0; i < N; i++)
    sim_put(&sim, 0, 1, i, i % 256 == 7 ? 1 : small * sim_normal());
  sim.job[0].stochastic = sim.job[1].stochastic = true;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    sim_step(&sim, 1000 + seed);
    for (uint64_t i = 0; i < N; i++) {
      const float x = sim_sent(&sim, 0, 1, i);
      const double off = ((double)sim_got(&sim, 1, i) - (double)x) / unit_of(codec, x);
      sum[i] += off;
      squares[i] += off * off;
    }
  }
  for (uint64_t from = 0; from < N; from += 256) {
    const uint64_t end = N - from < 256 ? N : from + 256;
    double error2 = 0;
    for (uint64_t i = from; i < end; i++)
      error2 += squares[i] / SEEDS / SEEDS / (double)(end - from);
    for (uint64_t i = from; i < end; i++) {
      total += sum[i] / SEEDS;
      worst = case_worse(worst, fabs(sum[i]) / SEEDS / sqrt(error2));
    }
    variance += error2 * (double)(end - from);
  }
  ok(fabs(total) <= 4 * sqrt(variance) && worst < 6,
     "%s: the mean of %d calls is right beside %g: all values off by %.1f standard errors, the worst by %.1f",
     codec->name, SEEDS, (double)small, fabs(total) / sqrt(variance), worst);
  sim_free(&sim);
}

/* The projection of the results over many rotations on the input: 1 if the mean is right. */
static double gain(const struct tagc_codec *codec, bool stochastic) {
  const uint64_t n = 1024;
  struct sim sim = sim_of(codec, &(struct tagc_shape){.n = n, .nranks = 2, .keep_ppm = 200000});
  double product = 0, squares = 0;
  sim_random_state = 5;
  for (uint64_t i = 0; i < n; i++)
    sim_put(&sim, 0, 1, i, sim_normal());
  sim.job[0].stochastic = sim.job[1].stochastic = stochastic;
  for (uint64_t seed = 0; seed < SEEDS; seed++) {
    sim_step(&sim, 1000 + seed);
    for (uint64_t i = 0; i < n; i++) {
      product += (double)sim_got(&sim, 1, i) * (double)sim_sent(&sim, 0, 1, i);
      squares += (double)sim_sent(&sim, 0, 1, i) * (double)sim_sent(&sim, 0, 1, i);
    }
  }
  sim_free(&sim);
  return product / squares;
}

/* q3 and q2 have no random bits: their scales alone make the product with the gradient right. */
static void check_gain(const struct tagc_codec *codec, double least, double most) {
  const double nearest = gain(codec, false), chance = gain(codec, true);
  ok(nearest > least && nearest < most && fabs(chance - 1) < 0.002,
     "%s: the mean of %d calls is %.4f of the gradient with the least error, and %.4f by chance", codec->name, SEEDS,
     nearest, chance);
}

/* All ranks send the same to all owners: their random bits differ. */
static void check_dice(const struct tagc_codec *codec) {
  const uint64_t n = 512;
  struct sim sim = sim_of(codec, &(struct tagc_shape){.n = n, .nranks = 4, .keep_ppm = 200000});
  const size_t bytes = sim.layout.message_bytes;
  uint64_t equal = 0;
  float x[512];
  for (uint64_t i = 0; i < n; i++)
    x[i] = sim_normal();
  for (int rank = 0; rank < 4; rank++) {
    sim.job[rank].stochastic = true;
    for (int shard = 0; shard < 4; shard++)
      for (uint64_t i = 0; i < n; i++)
        sim_put(&sim, rank, shard, i, x[i]);
  }
  sim_step(&sim, 3);
  const uint8_t *of[12];
  int count = 0;
  for (int rank = 0; rank < 4; rank++)
    for (int shard = 0; shard < 4; shard++)
      if (shard != rank)
        of[count++] = sim.job[rank].message_out + (size_t)shard * bytes;
  for (int a = 0; a < count; a++)
    for (int b = 0; b < a; b++)
      equal += memcmp(of[a], of[b], bytes) == 0;
  ok(equal == 0, "%s: every sender rounds in its own way for every owner", codec->name);
  sim_free(&sim);
}

static void check_all(void) {
  static const enum pattern patterns[] = {GAUSS, SPIKE_FIRST, EQUAL, DENORMAL, TIES, WIDE};
  sim_random_restart();
  for (const struct tagc_codec *const *codec = tagc_codecs; *codec; codec++) {
    for (int storage = TAGC_STORAGE_FP32; storage <= TAGC_STORAGE_INT8; storage++)
      for (int pattern = 0; pattern < 6; pattern++) {
        check_conservation(*codec, (enum tagc_storage)storage, patterns[pattern], false);
        if (rounds_by_chance(*codec))
          check_conservation(*codec, (enum tagc_storage)storage, patterns[pattern], true);
      }
    if (is(*codec, "q3"))
      check_gain(*codec, 0.95, 0.98);
    if (is(*codec, "q2"))
      check_gain(*codec, 0.86, 0.90);
    if (!rounds_by_chance(*codec))
      continue;
    check_mean(*codec, 1);
    check_mean(*codec, 0.01f);
    check_mean(*codec, 0.001f);
    check_dice(*codec);
  }
}

int main(void) {
  with_each_variant(check_all);
  return tap_done();
}
