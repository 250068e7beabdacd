/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA kernels of `precise` write the same bytes as the host: sums whose exponents fit fp64, and others; divisors,
 * scales, odd sizes, ranks, addresses, NaN and infinities. tests/unit/dense/test_cuda does the same for `none`, whose
 * messages these are.
 *
 * It runs on the device of libcuda.so.1: the stand-in, or a GPU (tests/gpu/run). Words: `ptx` takes the PTX for older
 * drivers; `short` leaves out repetitions, for tools that slow everything down; `large` runs the checks only for a GPU.
 */
#include "tests/unit/device/cuda_codec.h"
#include "tests/unit/none/families.h"

static enum family family;
static uint32_t family_divisor;

static struct setting usual(enum tagc_dtype dtype) {
  return (struct setting){.codec = "precise",
                          .n = 300,
                          .nranks = 3,
                          .dtype = dtype,
                          .storage = TAGC_STORAGE_NONE,
                          .scale = 1,
                          .divisor = 1,
                          .inexact = 1e-12,
                          .steps = 1};
}

static void of_family(struct sim *sim) {
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      for (uint64_t i = 0; i < sim->shape.n; i++)
        put_bits(sim, rank, shard, i, draw_bits(family, rank, i, family_divisor, sim->shape.dtype));
}

/* Every family with every type and divisor; sizes, ranks, scales, storages and addresses take turns. */
static void check_families(bool brief) {
  static const uint64_t sizes[] = {1, 255, 256, 257, 600, 77};
  static const size_t offs[] = {0, 0, 4, 2, 1, 8};
  static const uint32_t divisors[] = {1, 3, 8, 1000003, 1 << 24};
  static const float scales[] = {1, 1, 0.3f, -2, 0x1p-130f};
  unsigned turn = 0;
  for (int f = 0; f < FAMILIES; f++) {
    bool all = true;
    family = (enum family)f;
    for (int dtype = 0; dtype < DTYPES; dtype++)
      for (size_t d = 0; d < sizeof divisors / sizeof *divisors; d++, turn++) {
        if (brief && turn % 3 != 0)
          continue;
        struct setting s = usual((enum tagc_dtype)dtype);
        family_divisor = divisors[d];
        s.divisor = (float)divisors[d];
        s.n = sizes[turn % 6];
        s.nranks = 2 + (int)(turn / 2 % 7);
        s.scale = scales[turn / 3 % 5];
        s.storage = (enum tagc_storage)(turn % STORAGES);
        s.off = offs[turn / 5 % 6];
        s.in_place = turn / 3 % 2;
        s.change = of_family;
        s.steps = 2;
        all &= same(&s);
      }
    ok(all, "values of family %d: the host's bytes, whatever the type, divisor, size and address", f);
  }
}

static void check_patterns(void) {
  bool all = true;
  for (int pattern = 0; pattern < PATTERNS; pattern++)
    for (int dtype = 0; dtype < DTYPES; dtype++) {
      struct setting s = usual((enum tagc_dtype)dtype);
      s.pattern = (enum pattern)pattern;
      s.divisor = dtype == 1 ? 3 : 1;
      all &= same(&s);
    }
  ok(all, "the host's bytes of hard gradients, NaN and infinities among them");
}

/* All values of an element are NaN, infinities, or scaled by them. */
static void check_scales(void) {
  static const float scales[] = {NAN, INFINITY, 0, -0.0f, 0x1p127f};
  bool all = true;
  for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
    struct setting s = usual((enum tagc_dtype)(i % DTYPES));
    s.n = 259;
    s.scale = scales[i];
    all &= same(&s);
  }
  ok(all, "scales that make NaN, infinities and zeros");
}

/* More ranks than fp64 can add safely in fp32. */
static void check_many(void) {
  bool all = true;
  for (int dtype = 0; dtype < DTYPES; dtype++) {
    struct setting s = usual((enum tagc_dtype)dtype);
    family = OUTLIERS;
    family_divisor = 1;
    s.n = 40;
    s.nranks = 33;
    s.change = of_family;
    all &= same(&s);
  }
  ok(all, "33 ranks");
}

static void check_large(void) {
  for (int dtype = 0; dtype < DTYPES; dtype++) {
    struct setting s = usual((enum tagc_dtype)dtype);
    family = OUTLIERS;
    family_divisor = 1;
    s.n = (4 << 20) + 17;
    s.nranks = 4;
    s.change = of_family;
    ok(same(&s), "%s: a large shard", dtypes[dtype]);
  }
}

int main(int argc, char **argv) {
  const bool brief = cuda_brief(argc, argv);
  launcher = device_launcher(cuda_said(argc, argv, "ptx"));
  if (cuda_said(argc, argv, "large")) {
    check_large();
    return tap_done();
  }
  check_families(brief);
  check_patterns();
  check_scales();
  check_many();
  struct setting captured = usual(TAGC_BFLOAT16);
  captured.nranks = 2;
  check_graph(&captured);
  note("%llu bytes compared", (unsigned long long)compared);
  return tap_done();
}
