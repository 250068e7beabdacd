/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that leave most of a GPU to the program: with any number of groups per launch, every codec writes the same
 * bytes as the host, and no launch exceeds its limit.
 *
 * It runs on the device of libcuda.so.1: the stand-in, or a GPU (tests/gpu/run). Words: as in test_cuda.c.
 */
#include "tests/unit/device/cuda_codec.h"

static const uint32_t grids[] = {2, 1, 7, 0};
static const char *const said[] = {"1, 2, 7", "1, 7", "7"};

static uint64_t largest; /* groups of a launch */

static int launch(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra) {
  const uint64_t groups = (uint64_t)grid_x * grid_y * grid_z;
  largest = groups > largest ? groups : largest;
  return device_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, extra);
}

/* Checks every grid limit, and the size without a limit. */
static void check(struct setting s, const char *what, size_t first) {
  bool all = true, obeyed = true;
  for (size_t i = first; i < sizeof grids / sizeof *grids; i++) {
    s.most = grids[i];
    largest = 0;
    all &= same(&s);
    obeyed &= !s.most || largest <= s.most;
  }
  ok(all, "%s%s: the host's bytes with %s and all groups", s.codec, what, said[first]);
  ok(obeyed && largest > 7, "%s%s: no launch has more than it may; else some have %llu", s.codec, what,
     (unsigned long long)largest);
}

static struct setting usual(const char *codec, uint64_t n, int nranks) {
  return (struct setting){.codec = codec,
                          .n = n,
                          .nranks = nranks,
                          .storage = TAGC_STORAGE_INT8,
                          .scale = 1,
                          .divisor = (float)nranks,
                          .keep_ppm = 250000,
                          .inexact = 1e-5,
                          .steps = 2,
                          .pattern = FEW_EXCEPTIONS};
}

/* A value of one warp alone, and not of the group that is the last to come: that one must see it all the same. */
static void one_exception(struct sim *sim) {
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      sim_put(sim, rank, shard, 9 * 256 + 3, INFINITY);
}

/* At first nothing: a guess looks at a shard's sample to the end, and the next one reuses the memory. */
static void zeros_first(struct sim *sim) {
  if (sim->job[0].residual_empty)
    sim_clear(sim);
}

int main(int argc, char **argv) {
  static const char *const whole[] = {"none", "precise", "bf16", "q8", "q4", "q3", "q2"};
  const bool brief = cuda_brief(argc, argv), ptx = cuda_said(argc, argv, "ptx");
  /* What the stand-in interprets begins with 7 groups, unevenly many blocks for each; codecs that share memory from one
   * shard to the next also with one group, which has several shards. */
  const size_t first = brief && ptx ? 1 : 0, first_of_whole = 2 * first;
  launcher = device_launcher(ptx);
  launcher.launch = launch;
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
    struct setting s = usual(whole[i], 3 * 4096 + 77, 4);
    if (i < 2) { /* without lists */
      s.pattern = GAUSS;
      s.change = one_exception;
    }
    check(s, "", first_of_whole);
  }
  check(usual("sparse", 66000, 3), "", first);
  struct setting lists = usual("lhc", 9001, 5);
  lists.change = zeros_first;
  check(lists, ", lists", first);
  check(usual("lhc", brief ? 17003 : 40003, 3), ", sketches", first);
  ok(tagc_cuda_beside(0) == 1 && tagc_cuda_beside(7) == 1 && tagc_cuda_beside(132) == 33,
     "beside the program: a fourth");
  note("%llu bytes compared", (unsigned long long)compared);
  return tap_done();
}
