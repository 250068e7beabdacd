/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `lhc` on dense inputs: unsent values are sent later, and nothing is lost. Also the flush that ends
 * compression, values over twelve decades in a line, denormals, zeros, and the largest numbers.
 */
#include "kernels/codec/residual.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

/* Adds the residuals for each element of each shard to total[]. */
static void add_residuals(const struct sim *sim, double *total) {
  const uint64_t n = sim->shape.n;
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      if (shard != rank)
        for (uint64_t i = 0; i < n; i++)
          total[(uint64_t)shard * n + i] += (double)tagc_residual_floats(&sim->job[rank], shard)[i];
}

static void check_conservation(uint64_t n, int nranks, uint32_t keep_ppm, int steps) {
  struct sim sim = sim_new("lhc", n, nranks, TAGC_FLOAT32, keep_ppm);
  const uint64_t all = (uint64_t)nranks * n;
  double *in = calloc(all, sizeof *in), *out = calloc(all, sizeof *out), error = 0, norm = 0;
  for (int step = 0; step < steps; step++) {
    for (int rank = 0; rank < nranks; rank++)
      for (uint64_t i = 0; i < all; i++) {
        float x = sim_normal();
        sim_put(&sim, rank, (int)(i / n), i % n, x);
        in[i] += (double)x;
        norm += (double)x * (double)x;
      }
    sim_step(&sim, 7 + (uint64_t)step);
    for (uint64_t i = 0; i < all; i++)
      out[i] += (double)sim_got(&sim, (int)(i / n), i % n);
  }
  add_residuals(&sim, out);
  for (uint64_t i = 0; i < all; i++)
    error += (out[i] - in[i]) * (out[i] - in[i]);
  ok(sim.stats.unrecovered == 0 && sqrt(error) < 3e-7 * sqrt(norm), "n=%llu W=%d keep %u: %d steps lose nothing",
     (unsigned long long)n, nranks, keep_ppm, steps);
  note("relative error %.2g", sqrt(error / norm));
  ok(sim.stats.selected == (uint64_t)steps * (uint64_t)(nranks * (nranks - 1)) * sim.layout.capacity,
     "every step filled the capacity exactly");
  const float *residual = sim.job[nranks - 1].residual;
  double last = 0;
  for (uint64_t i = 0; i < (uint64_t)(nranks - 1) * n; i++)
    last += (double)residual[i] * (double)residual[i];
  ok(fabs(sim.stats.residual_norm2 - last) <= 1e-6 * last, "the norm of the residual is reported");
  free(in);
  free(out);
  sim_free(&sim);
}

static void check_flush(enum tagc_dtype dtype) {
  const uint64_t n = 9000;
  struct sim sim = sim_new("lhc", n, 2, dtype, 600000);
  for (int rank = 0; rank < 2; rank++)
    for (uint64_t i = 0; i < 2 * n; i++)
      sim_put(&sim, rank, (int)(i / n), i % n, (float)((int)(sim_random() % 200) - 100));
  sim_step(&sim, 3);
  struct tagc_job *job = &sim.job[1];
  job->scale = 2;
  void *out = sim_memory(2 * n * tagc_dtype_size(dtype));
  tagc_residual_flush(job, out);
  int wrong = 0;
  for (uint64_t i = 0; i < n; i++) {
    wrong += tagc_load(out, i, dtype) != 2 * sim_sent(&sim, 1, 0, i) + ((const float *)job->residual)[i];
    wrong += tagc_load(out, n + i, dtype) != 2 * sim_sent(&sim, 1, 1, i);
  }
  job->residual_empty = true;
  tagc_residual_flush(job, out);
  for (uint64_t i = 0; i < n; i++)
    wrong += tagc_load(out, i, dtype) != 2 * sim_sent(&sim, 1, 0, i);
  ok(wrong == 0 && tagc_residual_bytes(&sim.shape) == n * 4, "a flush in type %d sends what was kept", dtype);
  free(out);
  sim_free(&sim);
}

/* Twelve decades side by side: values below the block's unit stay in the residual to the last bit. */
static void check_decades(void) {
  const uint64_t n = 100000;
  struct sim sim = sim_new("lhc", n, 2, TAGC_FLOAT32, 200000);
  double error = 0, norm = 0;
  for (uint64_t i = 0; i < 32; i++)
    for (int rank = 0; rank < 2; rank++)
      for (int shard = 0; shard < 2; shard++)
        sim_put(&sim, rank, shard, 4096 + i, (float)pow(10, -6 + 12 * (double)i / 31));
  sim_step(&sim, 5);
  float *residual = sim.job[1].residual;
  for (uint64_t i = 4096; i < 4128; i++) {
    double want = 2 * (double)sim_sent(&sim, 1, 0, i), got = (double)sim_got(&sim, 0, i) + (double)residual[i];
    error += (want - got) * (want - got);
    norm += want * want;
  }
  ok(sim.stats.unrecovered == 0 && sqrt(error / norm) < 1e-7, "twelve decades in one line");
  sim_free(&sim);
}

static void check_small(float x, bool sent, const char *what) {
  const uint64_t n = 50000;
  struct sim sim = sim_new("lhc", n, 2, TAGC_FLOAT32, 200000);
  for (uint64_t i = 0; i < 100; i++)
    for (int rank = 0; rank < 2; rank++)
      sim_put(&sim, rank, 0, 37 * i, x);
  sim_step(&sim, 5);
  int wrong = 0;
  for (uint64_t i = 0; i < 100; i++) {
    float left = tagc_residual_floats(&sim.job[1], 0)[37 * i];
    wrong += sim_got(&sim, 0, 37 * i) + (sent ? 0 : left) != x + x || (sent && left != 0);
  }
  ok(wrong == 0 && sim.stats.selected == (sent ? 100 : 0) && !sim.job[0].nonfinite_seen, "%s", what);
  sim_free(&sim);
}

static void check_all(void) {
  sim_random_restart();
  check_conservation(200, 2, 50000, 12);
  check_conservation(5003, 3, 100000, 12);
  check_conservation(65536, 4, 50000, 6);
  check_conservation(300007, 2, 300000, 4);
  check_conservation(120000, 2, 1000000, 2);
  for (int dtype = 0; dtype < 3; dtype++)
    check_flush((enum tagc_dtype)dtype);
  check_decades();
  check_small(0, false, "zeros are not sent");
  check_small(0x1p-130f, false, "denormals stay in the residual");
  check_small(0x1.fffffep-121f, false, "so does what is below 2^-120");
  check_small(0x1p-120f, true, "2^-120 is sent");
  check_small(0x1.fffffep119f, true, "so is all below 2^120");
}

int main(void) {
  with_each_variant(check_all);
  return tap_done();
}
