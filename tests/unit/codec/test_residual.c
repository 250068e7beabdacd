/* SPDX-License-Identifier: BSD-3-Clause
 * The residual in its three storages: sizes, bytes, rounding of one value and of the mean of many, the ends of shards,
 * the flush, and the same bits from every variant.
 */
#include <fenv.h>

#include "kernels/codec/residual.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

static const char *const name[] = {"none", "fp32", "bf16", "int8"};

static struct tagc_job job_new(uint64_t n, int nranks, enum tagc_storage storage) {
  struct tagc_job job = {.shape = {.n = n, .nranks = nranks, .residual = storage}, .rank = 1, .scale = 1, .seed = 5};
  job.residual = sim_memory(tagc_residual_bytes(&job.shape));
  return job;
}

static double store_all(const struct tagc_job *job, int shard, const float *values) {
  double norm2 = 0;
  for (uint64_t at = 0; at < job->shape.n; at += TAGC_RESIDUAL_BLOCK)
    norm2 += tagc_residual_store(job, shard, at, (uint32_t)fmin((double)(job->shape.n - at), 256), values + at);
  return norm2;
}

static void load_all(const struct tagc_job *job, int shard, float *values) {
  for (uint64_t at = 0; at < job->shape.n; at += TAGC_RESIDUAL_BLOCK)
    tagc_residual_load(job, shard, at, (uint32_t)fmin((double)(job->shape.n - at), 256), values + at);
}

static void check_sizes(void) {
  static const struct {
    uint64_t n;
    enum tagc_storage storage;
    size_t bytes;
  } table[] = {
    {1, TAGC_STORAGE_NONE, 0},
    {1, TAGC_STORAGE_FP32, 4},
    {1, TAGC_STORAGE_BF16, 16},
    {1, TAGC_STORAGE_INT8, 32},
    {257, TAGC_STORAGE_FP32, 1028},
    {257, TAGC_STORAGE_BF16, 528},
    {257, TAGC_STORAGE_INT8, 16 + 272},
    {1 << 20, TAGC_STORAGE_FP32, 4 << 20},
    {1 << 20, TAGC_STORAGE_BF16, 2 << 20},
    {1 << 20, TAGC_STORAGE_INT8, (1 << 20) + (1 << 13)},
  };
  int wrong = 0;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct tagc_shape shape = {.n = table[i].n, .nranks = 4, .residual = table[i].storage};
    wrong += tagc_residual_shard_bytes(&shape) != table[i].bytes || tagc_residual_bytes(&shape) != 3 * table[i].bytes;
  }
  ok(wrong == 0, "sizes are those of the layout: 4, 2 and 1.008 bytes a position");
}

/* Values that are exactly codes are never rounded by chance. */
static void check_bytes(void) {
  static const float values[3] = {127, -64, 3};
  static const uint8_t int8[32] = {0x80, 0x3f, [16] = 127, 0xc0, 3}, bf16[6] = {0xfe, 0x42, 0x80, 0xc2, 0x40, 0x40};
  struct tagc_job job = job_new(3, 2, TAGC_STORAGE_INT8);
  memset(job.residual, 0, 32);
  double norm2 = tagc_residual_store(&job, 0, 0, 3, values);
  ok(memcmp(job.residual, int8, 32) == 0 && norm2 == 127 * 127 + 64 * 64 + 9, "int8: the bytes of an example");
  job.shape.residual = TAGC_STORAGE_BF16;
  norm2 = tagc_residual_store(&job, 0, 0, 3, values);
  ok(memcmp(job.residual, bf16, 6) == 0 && norm2 == 127 * 127 + 64 * 64 + 9, "bf16: the bytes of an example");
  ok(tagc_residual_floats(&job, 0) == NULL, "what is narrower than fp32 is no array of floats");
  free(job.residual);
}

/* Twelve decades, both signs; whole blocks of the very small and of zeros, and one of the very large. */
static void fill(float *values, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) {
    float x = (float)pow(10, -9 + 12 * (double)(sim_random() >> 40) / (1 << 24));
    uint64_t block = i / 256 % 8;
    x = block == 3 ? x * 0x1p-130f : block == 5 ? 0 : block == 6 && i % 97 == 0 ? 0x1.fffffep119f : x;
    values[i] = sim_random() & 1 ? x : -x;
  }
}

/* The bound of one rounding: less than a unit of bf16, or of the block's scale. */
static float bound(enum tagc_storage storage, const float *values, uint64_t n, uint64_t i) {
  float amax = 0;
  if (storage == TAGC_STORAGE_FP32)
    return 0;
  if (storage == TAGC_STORAGE_BF16)
    return fmaxf(fabsf(values[i]) / 128, 0x1p-133f);
  for (uint64_t j = i / 256 * 256; j < n && j < i / 256 * 256 + 256; j++)
    amax = fmaxf(amax, fabsf(values[j]));
  return amax < 0x1p-110f ? amax : amax / 127 * 1.0079f;
}

static void check_bounds(uint64_t n, int nranks, enum tagc_storage storage) {
  struct tagc_job job = job_new(n, nranks, storage);
  const uint64_t foreign = (uint64_t)nranks - 1;
  float *values = sim_memory(foreign * n * 4), *got = sim_memory(n * 4);
  uint64_t wrong = 0, k = 0;
  double norm2 = 0, want = 0;
  fill(values, foreign * n);
  /* The last shard first, and again: shards do not touch each other, and a block may be stored again. */
  for (int shard = nranks; shard-- > 0;)
    if (shard != job.rank)
      norm2 += store_all(&job, shard, values + (uint64_t)(shard - (shard > 1)) * n);
  store_all(&job, nranks - 1 == 1 ? 0 : nranks - 1, values + (foreign - 1) * n);
  for (int shard = 0; shard < nranks; shard++) {
    if (shard == job.rank)
      continue;
    load_all(&job, shard, got);
    for (uint64_t i = 0; i < n; i++) {
      wrong += !(fabsf(got[i] - values[k * n + i]) <= bound(storage, values + k * n, n, i));
      want += (double)got[i] * (double)got[i];
    }
    k++;
  }
  ok(wrong == 0 && fabs(norm2 - want) <= 1e-12 * want, "%s n=%llu W=%d: nothing is off by a unit; the norm is told",
     name[storage], (unsigned long long)n, nranks);
  job.residual_empty = true;
  load_all(&job, 0, got);
  for (uint64_t i = 0; i < n; i++)
    wrong += got[i] != 0;
  ok(wrong == 0, "an empty one is zero, whatever its bytes");
  free(values);
  free(got);
  free(job.residual);
}

/* The mean over seeds of the stored values, in a block whose largest value is `most`: 1/64 of the int8 unit survives,
 * and so do bits beyond bf16's. The bound is four standard deviations of chance. */
static void check_mean(enum tagc_storage storage, float most, float x, double unit) {
  enum { SEEDS = 4000 };
  struct tagc_job job = job_new(256, 2, storage);
  float values[256], got[256];
  double sum = 0, each[2] = {0};
  for (int i = 0; i < 256; i++)
    values[i] = i ? x : most;
  for (job.seed = 0; job.seed < SEEDS; job.seed++) {
    tagc_residual_store(&job, 0, 0, 256, values);
    tagc_residual_load(&job, 0, 0, 256, got);
    for (int i = 1; i < 256; i++)
      sum += (double)got[i];
    each[0] += (double)got[1];
    each[1] += (double)got[255];
  }
  /* With chances p and 1 - p the deviation is sqrt(p (1 - p)) units. */
  const double part = fmod(fabs((double)x) / unit, 1), deviation = unit * sqrt(part * (1 - part));
  const double off = fabs(sum / SEEDS / 255 - (double)x);
  ok(off < 4 * deviation / sqrt(SEEDS * 255.0), "%s: the mean of %g is right", name[storage], (double)x);
  ok(fabs(each[0] / SEEDS - (double)x) < 4 * deviation / sqrt(SEEDS) &&
       fabs(each[1] / SEEDS - (double)x) < 4 * deviation / sqrt(SEEDS) && each[0] != each[1],
     "so it is at one position, and every position has a chance of its own");
  free(job.residual);
}

/* The key depends on rank, seed, shard and block. */
static void check_key(enum tagc_storage storage) {
  float values[256], got[5][256];
  int same = 0;
  for (int i = 0; i < 256; i++)
    values[i] = 1.001f + (float)i / 300;
  for (int which = 0; which < 5; which++) {
    struct tagc_job job = job_new(512, 4, storage);
    const int shard = which == 3 ? 2 : 0;
    const uint64_t at = which == 4 ? 256 : 0;
    job.rank = which == 1 ? 3 : 1;
    job.seed = which == 2 ? 6 : 5;
    tagc_residual_store(&job, shard, at, 256, values);
    tagc_residual_load(&job, shard, at, 256, got[which]);
    same += which > 0 && memcmp(got[0], got[which], sizeof *got) == 0;
    free(job.residual);
  }
  ok(same == 0, "%s: rank, seed, shard and block change the roundings", name[storage]);
}

static void check_flush(enum tagc_storage storage, enum tagc_dtype dtype) {
  const uint64_t n = 1000;
  struct tagc_job job = job_new(n, 3, storage);
  float *values = sim_memory(n * 4);
  void *send = sim_memory(3 * n * tagc_dtype_size(dtype)), *out = sim_memory(3 * n * tagc_dtype_size(dtype));
  void *want = sim_memory(3 * n * tagc_dtype_size(dtype));
  job.shape.dtype = dtype;
  job.send = send;
  job.scale = 0.5f;
  for (uint64_t i = 0; i < 3 * n; i++)
    tagc_store(send, i, dtype, sim_normal());
  for (int shard = 0; shard < 3; shard++) {
    memset(values, 0, n * 4);
    for (uint64_t i = 0; i < n && shard != 1; i++)
      values[i] = sim_normal();
    if (shard != 1) {
      store_all(&job, shard, values);
      load_all(&job, shard, values);
    }
    for (uint64_t i = shard * n; i < (shard + 1) * n; i++)
      tagc_store(want, i, dtype, 0.5f * tagc_load(send, i, dtype) + values[i % n]);
  }
  fesetround(FE_UPWARD);
  tagc_residual_flush(&job, out);
  ok(fegetround() == FE_UPWARD, "%s: a flush keeps the rounding of the program", name[storage]);
  fesetround(FE_TONEAREST);
  ok(memcmp(out, want, 3 * n * tagc_dtype_size(dtype)) == 0, "%s: a flush in type %d sends what was kept",
     name[storage], dtype);
  free(values);
  free(send);
  free(out);
  free(want);
  free(job.residual);
}

static void check_variants(enum tagc_storage storage) {
  const uint64_t n = 8 * 256 + 77;
  struct tagc_job job = job_new(n, 2, storage);
  const size_t bytes = tagc_residual_bytes(&job.shape);
  float *values = sim_memory(n * 4), *got = sim_memory(n * 4), *want = sim_memory(n * 4);
  void *first = sim_memory(bytes);
  double norm2 = 0;
  fill(values, n);
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
    if (!tagc_variant_force(tagc_variant_name((enum tagc_variant)v)))
      continue;
    double norm = store_all(&job, 0, values);
    load_all(&job, 0, got);
    if (v == 0) {
      memcpy(first, job.residual, bytes);
      memcpy(want, got, n * 4);
      norm2 = norm;
    } else {
      ok(memcmp(first, job.residual, bytes) == 0 && memcmp(want, got, n * 4) == 0 && norm == norm2,
         "%s: the bits of %s are those of plain C", name[storage], tagc_variant_name((enum tagc_variant)v));
    }
  }
  tagc_variant_force(NULL);
  free(values);
  free(got);
  free(want);
  free(first);
  free(job.residual);
}

/* A codec with a narrower residual: the first call is the same, to the bit. Over many calls the results and the
 * residual add up to the input, except for roundings with mean zero. Small values, which a call sends only after they
 * have accumulated, get through: rounded to nearest they would stay zero in int8. */
static void check_codec(const char *codec, uint64_t n, enum tagc_storage storage) {
  enum { STEPS = 60 };
  struct sim exact = sim_new(codec, n, 2, TAGC_FLOAT32, 100000);
  struct sim sim = sim_new_stored(codec, n, 2, TAGC_FLOAT32, 100000, storage);
  double in = 0, out = 0, norm2 = 0;
  bool same = true;
  float *left = sim_memory(n * 4);
  for (int step = 0; step < STEPS; step++) {
    for (uint64_t i = 0; i < n; i++) {
      float x = i % 2 ? 0.004f : 0.5f * sim_normal();
      in += i % 2 ? (double)x : 0;
      sim_put(&sim, 1, 0, i, x);
      sim_put(&exact, 1, 0, i, x);
    }
    sim_step(&sim, (uint64_t)step);
    if (step == 0)
      sim_step(&exact, 0);
    for (uint64_t i = 0; i < n; i++) {
      same &= step > 0 || sim_got(&sim, 0, i) == sim_got(&exact, 0, i);
      out += i % 2 ? (double)sim_got(&sim, 0, i) : 0;
    }
  }
  load_all(&sim.job[1], 0, left);
  for (uint64_t i = 0; i < n; i++) {
    out += i % 2 ? (double)left[i] : 0;
    norm2 += (double)left[i] * (double)left[i];
  }
  ok(same && sim.layout.message_bytes == exact.layout.message_bytes, "%s, residual %s: the first call is as with fp32",
     codec, name[storage]);
  /* A rounding is off by a unit at most: 1/127 of about ten deviations of 0.5, or 1/128 of the value. */
  const double bound = 4 * 5.0 / 127 / 2 * sqrt((double)n / 2 * STEPS);
  ok(fabs(out - in) < bound && bound < 0.3 * in && fabs(norm2 - sim.stats.residual_norm2) < 1e-9 * norm2,
     "%llu calls later small values have come through: %.0f of %.0f", (unsigned long long)STEPS, out, in);
  free(left);
  sim_free(&sim);
  sim_free(&exact);
}

static void check_all(void) {
  static const uint64_t lengths[] = {1, 31, 255, 256, 257, 4096, 5003};
  sim_random_restart();
  check_sizes();
  check_bytes();
  for (int storage = TAGC_STORAGE_FP32; storage <= TAGC_STORAGE_INT8; storage++) {
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
      check_bounds(lengths[i], 2 + (int)i % 3, (enum tagc_storage)storage);
    for (int dtype = 0; dtype < 3; dtype++)
      check_flush((enum tagc_storage)storage, (enum tagc_dtype)dtype);
  }
  check_mean(TAGC_STORAGE_INT8, 127, 1 / 64.f, 1);
  check_mean(TAGC_STORAGE_INT8, 127, -0.75f, 1);
  check_mean(TAGC_STORAGE_INT8, 127.3f, 127.3f, 1 + 0x1p-7); /* the scale is rounded up, or the largest is cut */
  check_mean(TAGC_STORAGE_BF16, 127, 1 + 0x1p-12f, 0x1p-7);
  check_mean(TAGC_STORAGE_BF16, 127, -1 - 0x1.8p-8f, 0x1p-7);
  for (int storage = TAGC_STORAGE_BF16; storage <= TAGC_STORAGE_INT8; storage++) {
    check_codec("sparse", 20011, (enum tagc_storage)storage);
    check_codec("lhc", 20011, (enum tagc_storage)storage); /* the exact layout */
    check_codec("lhc", 70001, (enum tagc_storage)storage);
  }
  check_key(TAGC_STORAGE_BF16);
  check_key(TAGC_STORAGE_INT8);
}

int main(void) {
  with_each_variant(check_all);
  for (int storage = TAGC_STORAGE_FP32; storage <= TAGC_STORAGE_INT8; storage++)
    check_variants((enum tagc_storage)storage);
  return tap_done();
}
