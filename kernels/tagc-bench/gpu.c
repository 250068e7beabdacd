/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench --gpu: the codecs' work on a GPU, by the roofline of kernels/codec/cost.h. It is a forecast from published
 * figures: the best rate of memory, the processors, and their highest clock. Only the H200 was fitted.
 */
#include "kernels/cuda/codecs.h"
#include "kernels/tagc-bench/bench.h"

const char *const bench_gpu_names[] = {"t4", "a10", "l4", "a100", "h100", "h200", NULL};

static const struct chip {
  const char *name;
  double gbs; /* of memory */
  int processors;
  double ghz;
} chips[] = {
  [BENCH_T4] = {"T4", 320, 40, 1.59},           [BENCH_A10] = {"A10", 600, 72, 1.695},
  [BENCH_L4] = {"L4", 300, 58, 2.04},           [BENCH_A100] = {"A100 SXM 80 GB", 2039, 108, 1.41},
  [BENCH_H100] = {"H100 SXM", 3352, 132, 1.98}, [BENCH_H200] = {"H200", 4800, 132, 1.98},
};
_Static_assert(sizeof chips / sizeof *chips == BENCH_NO_GPU, "a chip for each name");
_Static_assert(sizeof bench_gpu_names / sizeof *bench_gpu_names == BENCH_NO_GPU + 1, "a name for each chip");

const char *bench_gpu_describe(enum bench_gpu gpu) {
  static char text[80];
  const struct chip *chip = &chips[gpu];
  snprintf(text, sizeof text, "%s, %d processors at %g GHz, %g GB/s", chip->name, chip->processors, chip->ghz,
           chip->gbs);
  return text;
}

bool bench_gpu_cost(enum bench_gpu gpu, const struct tagc_codec *codec, const struct tagc_shape *shape,
                    struct tagc_gpu_cost *out) {
  const struct chip *chip = &chips[gpu];
  const struct tagc_gpu_rates rates = {1 / chip->gbs, 1 / (chip->processors * chip->ghz * TAGC_GPU_LANES)};
  return tagc_cuda_codec_cost(codec, shape, &rates, out);
}
