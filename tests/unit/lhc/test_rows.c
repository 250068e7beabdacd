/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `lhc` on its best case: the gradient of an untied embedding, in which only the rows of the batch are not
 * zero. While they fit the capacity nothing is lost and nothing stays behind; otherwise the rest comes later.
 */
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

enum { VOCABULARY = 32000, WIDTH = 64 };

/* By Zipf's law: row k is as frequent as 1/k. */
static uint32_t draw_row(void) {
  double u = (double)(sim_random() >> 11) / 9007199254740992.0;
  uint32_t row = (uint32_t)exp(u * log(VOCABULARY + 1.0)) - 1;
  return row < VOCABULARY ? row : VOCABULARY - 1;
}

/* Adds the gradient of a batch of tokens of one rank. On a grid, sums have no more bits than the counters. */
static void fill(struct sim *sim, int rank, int tokens, bool on_grid) {
  float *send = (float *)(uintptr_t)sim->job[rank].send;
  for (int token = 0; token < tokens; token++) {
    float *row = send + (size_t)draw_row() * WIDTH;
    for (int i = 0; i < WIDTH; i++)
      row[i] += on_grid ? (float)((int)(sim_random() % 2001) - 1000) * 0x1p-20f : sim_normal() * 1e-3f;
  }
}

struct outcome {
  double error, norm, kept;        /* L2, of all ranks */
  uint64_t different, in_residual; /* elements */
};

static struct outcome compare(const struct sim *sim, const double *want) {
  const uint64_t n = sim->shape.n;
  struct outcome out = {0};
  for (int rank = 0; rank < sim->shape.nranks; rank++) {
    for (uint64_t i = 0; i < n; i++) {
      double x = want[(uint64_t)rank * n + i], got = (double)sim_got(sim, rank, i);
      out.error += (got - x) * (got - x);
      out.norm += x * x;
      out.different += got != x;
    }
    const float *residual = sim->job[rank].residual;
    for (uint64_t i = 0; i < (uint64_t)(sim->shape.nranks - 1) * n; i++) {
      out.kept += (double)residual[i] * (double)residual[i];
      out.in_residual += residual[i] != 0;
    }
  }
  out.error = sqrt(out.error), out.norm = sqrt(out.norm), out.kept = sqrt(out.kept);
  return out;
}

static void add_sent(const struct sim *sim, double *want) {
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    for (uint64_t i = 0; i < VOCABULARY * WIDTH; i++)
      want[i] += (double)((const float *)sim->job[rank].send)[i];
}

static void check_fits(int nranks, int tokens, uint32_t keep_ppm, bool on_grid) {
  struct sim sim = sim_new("lhc", VOCABULARY * WIDTH / (uint64_t)nranks, nranks, TAGC_FLOAT32, keep_ppm);
  double *want = calloc(VOCABULARY * WIDTH, sizeof *want);
  for (int rank = 0; rank < nranks; rank++)
    fill(&sim, rank, tokens, on_grid);
  add_sent(&sim, want);
  sim_step(&sim, 1000 + (uint64_t)nranks);
  struct outcome out = compare(&sim, want);
  ok(sim.stats.unrecovered == 0 && (on_grid ? out.different == 0 : out.error < 3e-7 * out.norm),
     "W=%d: the rows of %d tokens a rank, %s", nranks, tokens, on_grid ? "to the bit" : "exact to the fixed point");
  ok(on_grid ? out.in_residual == 0 : out.kept < 1e-8 * out.norm, "and %s stays",
     on_grid ? "nothing" : "less than the last bit");
  note("%llu values of %llu that fit a rank and shard, relative error %.2g, residual %.2g",
       (unsigned long long)(sim.stats.selected / (uint64_t)(nranks * (nranks - 1))),
       (unsigned long long)sim.layout.capacity, out.error / out.norm, out.kept / out.norm);
  free(want);
  sim_free(&sim);
}

/* Four times as many rows as fit, and calls without a gradient until the residual is empty. */
static void check_late(int nranks) {
  struct sim sim = sim_new("lhc", VOCABULARY * WIDTH / (uint64_t)nranks, nranks, TAGC_FLOAT32, 20000);
  const uint64_t n = sim.shape.n;
  double *want = calloc(VOCABULARY * WIDTH, sizeof *want), error = 0;
  int calls = 0;
  for (int rank = 0; rank < nranks; rank++)
    fill(&sim, rank, 2000, true);
  add_sent(&sim, want);
  do {
    sim_step(&sim, 7 + (uint64_t)calls);
    sim_clear(&sim);
    for (int rank = 0; rank < nranks; rank++)
      for (uint64_t i = 0; i < n; i++)
        want[(uint64_t)rank * n + i] -= (double)sim_got(&sim, rank, i);
  } while (++calls < 20 && sim.stats.residual_norm2 > 0);
  for (uint64_t i = 0; i < VOCABULARY * WIDTH; i++)
    error += want[i] != 0;
  ok(calls > 2 && calls < 20 && error == 0 && sim.stats.unrecovered == 0,
     "W=%d: rows that do not fit have come after %d calls, to the bit", nranks, calls);
  free(want);
  sim_free(&sim);
}

static void check_all(void) {
  /* The first shard, which has the frequent rows, is nearly full. */
  static const uint32_t keep_ppm[] = {[2] = 55000, [4] = 90000, [8] = 155000};
  sim_random_restart();
  for (int nranks = 2; nranks <= 8; nranks *= 2) {
    check_fits(nranks, 1500, keep_ppm[nranks], false);
    check_fits(nranks, 1500, keep_ppm[nranks], true);
  }
  check_late(2);
}

int main(void) {
  with_each_variant(check_all);
  return tap_done();
}
