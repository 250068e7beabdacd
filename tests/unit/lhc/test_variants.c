/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `lhc` gives the same bits with any instruction set, run after run: payloads, residuals and results of
 * several steps, on inputs for every path through the code.
 */
#include "kernels/lhc/lhc.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

enum input { NORMAL, TIES, SPARSE, WIDE, CLUSTERED, SPECIAL, INPUTS };

static const char *const input_name[] = {"normal", "ties", "sparse", "wide", "clustered", "special"};

static float some_value(enum input input, uint64_t i) {
  uint64_t bits = sim_random();
  float x = (float)((int32_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff)) - 98304) * 0x1p-15f;
  switch (input) {
  case TIES: return (float)(sim_random() % 3) - 1;
  case SPARSE: return sim_random() % 50 ? 0 : x;
  case WIDE: return x * (float)exp2((double)(sim_random() % 160) - 120);
  case CLUSTERED: return i / 768 % 29 ? 0 : x;
  case SPECIAL: return sim_random() % 20000 ? x : sim_random() % 2 ? (float)INFINITY : (float)NAN;
  default: return x;
  }
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes) {
  const uint8_t *at = data;
  for (size_t i = 0; i < bytes; i++)
    hash = (hash ^ at[i]) * 1099511628211u;
  return hash;
}

/* Runs three steps; hashes everything that leaves a rank or stays in it. */
static uint64_t run(uint64_t n, int nranks, enum tagc_dtype dtype, uint32_t keep_ppm, enum input input) {
  struct sim sim = sim_new("lhc", n, nranks, dtype, keep_ppm);
  const struct tagc_layout *l = &sim.layout;
  uint64_t hash = 14695981039346656037u;
  sim_random_restart();
  for (int step = 0; step < 3; step++) {
    for (int rank = 0; rank < nranks; rank++) {
      sim.job[rank].scale = 1 + 0.25f * (float)rank;
      sim.job[rank].divisor = step == 1 ? 3 : (float)nranks;
      for (uint64_t i = 0; i < (uint64_t)nranks * n; i++)
        sim_put(&sim, rank, (int)(i / n), i % n, some_value(input, i));
    }
    sim_step(&sim, (uint64_t)step);
    for (int rank = 0; rank < nranks; rank++) {
      struct tagc_job *job = &sim.job[rank];
      hash = hash_bytes(hash, job->recv, n * tagc_dtype_size(dtype));
      hash = hash_bytes(hash, job->residual, tagc_residual_bytes(&job->shape));
      hash = hash_bytes(hash, job->sketch_out, (size_t)nranks * l->sketch_count * 4);
      for (int shard = 0; shard < nranks; shard++)
        if (shard != rank)
          hash = hash_bytes(hash, job->message_out + (size_t)shard * l->message_bytes, l->message_bytes);
    }
  }
  hash = hash_bytes(hash, &sim.stats.selected, 4 * sizeof(uint64_t));
  note("%llu values sent, %llu estimated, %llu exceptions", (unsigned long long)sim.stats.selected,
       (unsigned long long)sim.stats.unrecovered, (unsigned long long)sim.stats.nonfinite);
  sim_free(&sim);
  return hash;
}

static void check(uint64_t n, int nranks, enum tagc_dtype dtype, uint32_t keep_ppm, enum input input) {
  tagc_variant_force("plain");
  uint64_t want = run(n, nranks, dtype, keep_ppm, input);
  ok(run(n, nranks, dtype, keep_ppm, input) == want, "n=%llu W=%d type %d keep %u, %s: twice the same",
     (unsigned long long)n, nranks, dtype, keep_ppm, input_name[input]);
  for (int v = TAGC_VARIANT_PLAIN + 1; v < TAGC_VARIANT_COUNT; v++)
    if (tagc_variant_force(tagc_variant_name((enum tagc_variant)v)))
      ok(run(n, nranks, dtype, keep_ppm, input) == want, "and with %s", tagc_variant_name((enum tagc_variant)v));
}

int main(void) {
  variants_tell();
  for (int input = 0; input < INPUTS; input++) {
    check(40037, 2, (enum tagc_dtype)(input % 3), 120000, (enum input)input);
    check(33000, 4, (enum tagc_dtype)((input + 1) % 3), 200000, (enum input)input);
    check(700, 3, (enum tagc_dtype)((input + 2) % 3), 100000, (enum input)input);
  }
  check(250007, 2, TAGC_FLOAT32, 300000, NORMAL);
  check(250007, 2, TAGC_FLOAT16, 300000, TIES);
  check(250007, 2, TAGC_BFLOAT16, 300000, CLUSTERED);
  return tap_done();
}
