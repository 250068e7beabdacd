/* SPDX-License-Identifier: BSD-3-Clause
 * Calls that leave most of a GPU to the program: with any number of groups per launch, every codec writes the same
 * bytes as the host, and no launch exceeds its limit.
 *
 * It runs on the device of libcuda.so.1: the stand-in, or a GPU (tests/gpu/run). Words: as in test_cuda.c.
 */
#include "tests/unit/device/cuda_codec.h"

static const uint32_t grids[] = {1, 2, 7, 0};

/* `ptx short`, which the stand-in interprets, begins with 7 groups: unevenly many blocks for each. Fewer do the same
 * more often, and run without these words. */
static size_t first_grid;

static uint64_t largest; /* groups of a launch */

static int launch(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra) {
  const uint64_t groups = (uint64_t)grid_x * grid_y * grid_z;
  largest = groups > largest ? groups : largest;
  return device_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, extra);
}

static int launch_together(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                           unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters) {
  const uint64_t groups = (uint64_t)grid_x * grid_y * grid_z;
  largest = groups > largest ? groups : largest;
  return device_launch_together(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                                parameters);
}

/* Checks every grid limit, and the size without a limit. */
static void check(struct setting s, const char *what) {
  bool all = true, obeyed = true;
  for (size_t i = first_grid; i < sizeof grids / sizeof *grids; i++) {
    s.most = grids[i];
    largest = 0;
    all &= same(&s);
    obeyed &= !s.most || largest <= s.most;
  }
  ok(all, "%s%s: the host's bytes with %s7 and all groups", s.codec, what, first_grid ? "" : "1, 2, ");
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

int main(int argc, char **argv) {
  static const char *const whole[] = {"none", "precise", "bf16", "q8", "q4", "q3", "q2"};
  const bool brief = cuda_brief(argc, argv), ptx = cuda_said(argc, argv, "ptx");
  launcher = device_launcher(ptx);
  first_grid = brief && ptx ? 2 : 0;
  launcher.launch = launch;
  launcher.launch_together = launch_together;
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    check(usual(whole[i], 3 * 4096 + 77, 4), "");
  check(usual("sparse", 66000, 3), "");
  check(usual("lhc", 9001, 5), ", lists");
  check(usual("lhc", brief ? 17003 : 40003, 3), ", sketches");
  ok(tagc_cuda_beside(0) == 1 && tagc_cuda_beside(7) == 1 && tagc_cuda_beside(132) == 33,
     "beside the program: a fourth");
  note("%llu bytes compared", (unsigned long long)compared);
  return tap_done();
}
