/* SPDX-License-Identifier: BSD-3-Clause
 * Training steps for TAGC_BUDGET: three units of different sizes and weights, the second one heavy and the third one
 * light.
 *
 *   budget steady STEPS     all dense
 *   budget turns STEPS      unit 0 is sparse, and unit 2 dense; from step 20 on the reverse
 *   budget thins STEPS      all dense, but unit 2 is sparse from step 20 on
 *   budget grouped STEPS    all dense, a step's calls in one group
 *   budget reduced STEPS    all dense, and summed by all-reduces
 *
 * Checks that every sum is within any codec's error. Rank 0 prints for each step the error of all sums of all ranks,
 * and the error of the sums of all steps so far, relative to a step's:  step S error E late L
 */
#include "tests/e2e/harness.h"

#include <stdbool.h>

enum { UNITS = 3, TURN = 20 };

static const size_t sizes[UNITS] = {60000, 30000, 45001};
static const float weight[UNITS] = {1, 8, 0.125f};
static float *gradient[UNITS], *result[UNITS];
static double *late[UNITS]; /* sums of the errors of all steps */
static double worst;
static bool turns, thins, reduced;

/* Adds the gradient of a rank, times `scale`, to n elements, from element `from` on. */
static void add_gradient(int r, uint64_t step, int unit, size_t from, size_t n, double scale, double *to) {
  const uint64_t seed = mix((uint64_t)r << 40 ^ step << 8 ^ (uint64_t)unit);
  const int sparse = step >= TURN && (turns || thins) ? 2 : turns ? 0 : -1;
  for (size_t i = from; i < from + n; i++) {
    const float x = (float)(int64_t)(mix(seed ^ i) & 0xffffff) / 8388608 - 1;
    if (unit != sparse || mix(step ^ i / 64) % 300 == 0)
      to[i - from] += (double)(weight[unit] * x * x * x * (float)(r + 1)) * scale;
  }
}

static double *sums_of_one; /* room for a unit's gradient */

/* The sums of n elements, 0 before. */
static double *no_sums(size_t n) { return memset(sums_of_one, 0, n * sizeof *sums_of_one); }

static void fill_gradients(uint64_t step) {
  for (int u = 0; u < UNITS; u++) {
    const size_t n = sizes[u] * (size_t)nranks;
    double *own = no_sums(n);
    add_gradient(rank, step, u, 0, n, 1, own);
    for (size_t i = 0; i < n; i++)
      gradient[u][i] = (float)own[i];
  }
}

static void make_step(uint64_t step, bool grouped) {
  double sums[3] = {0}, all[3]; /* squares: of errors, of exact results, of late values */
  fill_gradients(step);
  if (grouped)
    CHECK(ncclGroupStart());
  for (int u = UNITS; u-- > 0;)
    if (reduced)
      CHECK(ncclAllReduce(gradient[u], gradient[u], sizes[u] * (size_t)nranks, ncclFloat32, ncclAvg, world, NULL));
    else
      CHECK(ncclReduceScatter(gradient[u], result[u], sizes[u], ncclFloat32, ncclAvg, world, NULL));
  for (int u = 0; u < UNITS && reduced; u++)
    memcpy(result[u], gradient[u] + (size_t)rank * sizes[u], sizes[u] * sizeof(float));
  if (grouped)
    CHECK(ncclGroupEnd());
  for (int u = 0; u < UNITS; u++) {
    double *means = no_sums(sizes[u]);
    for (int r = 0; r < nranks; r++)
      add_gradient(r, step, u, (size_t)rank * sizes[u], sizes[u], 1.0 / nranks, means);
    for (size_t i = 0; i < sizes[u]; i++) {
      const double off = result[u][i] - means[i];
      late[u][i] += off;
      sums[0] += off * off;
      sums[1] += means[i] * means[i];
      sums[2] += late[u][i] * late[u][i];
    }
  }
  CHECK(ncclAllReduce(sums, all, 3, ncclFloat64, ncclSum, world, NULL));
  const double error = sqrt(all[0] / all[1]);
  worst = error > worst ? error : worst;
  if (rank == 0)
    printf("step %llu error %.6f late %.7f\n", (unsigned long long)step, error, sqrt(all[2] / all[1]));
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: budget steady|turns|thins|grouped|reduced STEPS\n");
    return 2;
  }
  turns = strcmp(argv[1], "turns") == 0;
  thins = strcmp(argv[1], "thins") == 0;
  reduced = strcmp(argv[1], "reduced") == 0;
  meet();
  sums_of_one = malloc(sizes[0] * (size_t)nranks * sizeof *sums_of_one); /* the largest unit */
  for (int u = 0; u < UNITS; u++) {
    gradient[u] = malloc(sizes[u] * (size_t)nranks * sizeof(float));
    result[u] = malloc(sizes[u] * sizeof(float));
    late[u] = calloc(sizes[u], sizeof(double));
  }
  for (uint64_t step = 0; step < strtoull(argv[2], NULL, 10); step++)
    make_step(step, strcmp(argv[1], "grouped") == 0);
  all_ok(worst < 0.45, "the sums of a step are off by %.2g at most", worst);
  for (int u = 0; u < UNITS; u++) {
    free(gradient[u]);
    free(result[u]);
    free(late[u]);
  }
  free(sums_of_one);
  return finish();
}
