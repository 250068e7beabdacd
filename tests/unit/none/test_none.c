/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `none`: its example, exact sums in rank order, scale, divisor, in place, the list of codecs.
 */
#include "kernels/codec/cost.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

static void check_example(void) {
  static const uint8_t bytes[16] = {0x80, 0x3f, 0x00, 0xc0, 0x00, 0x3f};
  struct sim sim = sim_new("none", 3, 2, TAGC_BFLOAT16, 1000000);
  sim_put(&sim, 0, 1, 0, 1);
  sim_put(&sim, 0, 1, 1, -2);
  sim_put(&sim, 0, 1, 2, 0.5f);
  sim_step(&sim, 1);
  ok(sim.layout.message_bytes == 16 && memcmp(sim.job[1].message_in, bytes, 16) == 0,
     "the message is the one of the example");
  sim_free(&sim);
}

static void check_sum(uint64_t n, int nranks, enum tagc_dtype dtype, bool in_place, bool with_residual) {
  struct sim sim = sim_new("none", n, nranks, dtype, 1000000);
  sim.in_place = in_place;
  for (int rank = 0; rank < nranks; rank++) {
    sim.job[rank].scale = (float)(rank + 1);
    sim.job[rank].divisor = 4;
    if (!with_residual) {
      free(sim.job[rank].residual);
      sim.job[rank].residual = NULL;
    }
    for (int shard = 0; shard < nranks; shard++)
      for (uint64_t i = 0; i < n; i++)
        sim_put(&sim, rank, shard, i, (float)((int)(sim_random() % 17) - 8));
  }
  float *want = sim_memory((size_t)nranks * n * sizeof *want);
  for (int shard = 0; shard < nranks; shard++)
    for (uint64_t i = 0; i < n; i++) {
      float sum = 0;
      for (int rank = 0; rank < nranks; rank++)
        sum += (float)(rank + 1) * sim_sent(&sim, rank, shard, i);
      want[(uint64_t)shard * n + i] = sum / 4;
    }
  sim_step(&sim, 1);
  uint64_t wrong = 0;
  for (int shard = 0; shard < nranks; shard++)
    for (uint64_t i = 0; i < n; i++)
      wrong += sim_got(&sim, shard, i) != want[(uint64_t)shard * n + i];
  ok(wrong == 0, "n=%llu W=%d type %d%s%s", (unsigned long long)n, nranks, dtype, in_place ? ", in place" : "",
     with_residual ? "" : ", without a residual");
  free(want);
  sim_free(&sim);
}

/* Values beyond the type's range leave an infinity: it must not stay in the residual and return. */
static void check_infinite_rest(void) {
  struct sim sim = sim_new("none", 3, 2, TAGC_FLOAT16, 1000000);
  sim.job[0].scale = 1e6f;
  sim_put(&sim, 0, 1, 1, 2);
  sim_step(&sim, 1);
  ok(isinf(sim_got(&sim, 1, 1)) && tagc_residual_floats(&sim.job[0], 1)[1] == 0, "an infinity leaves no residual");
  sim_free(&sim);
}

static void check_all(void) {
  sim_random_restart();
  check_infinite_rest();
  check_example();
  for (int nranks = 2; nranks <= 8; nranks += 3)
    for (int dtype = 0; dtype < 3; dtype++) {
      check_sum(1, nranks, (enum tagc_dtype)dtype, false, true);
      check_sum(1027, nranks, (enum tagc_dtype)dtype, false, true);
      check_sum(1027, nranks, (enum tagc_dtype)dtype, true, true);
      check_sum(1027, nranks, (enum tagc_dtype)dtype, false, false);
    }
  ok(tagc_codec_find("none") && tagc_codec_find("lhc") && !tagc_codec_find("LHC") && !tagc_codec_find(""),
     "codecs are found by name");
  struct tagc_shape shape = {.n = 0, .nranks = 2, .dtype = TAGC_FLOAT32, .keep_ppm = 1};
  struct tagc_layout layout;
  ok(!tagc_codec_find("none")->layout(&shape, &layout), "a shard of nothing is refused");
  shape = (struct tagc_shape){.n = 1000, .nranks = 4, .dtype = TAGC_FLOAT16, .keep_ppm = 1};
  ok(tagc_codec_find("none")->layout(&shape, &layout) && tagc_layout_wire_bytes(&shape, &layout) == 6000 &&
       tagc_plain_wire_bytes(&shape) == 6000,
     "costs what a plain call costs");
}

int main(void) {
  with_each_variant(check_all);
  return tap_done();
}
