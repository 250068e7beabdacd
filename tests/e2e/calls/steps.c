/* SPDX-License-Identifier: BSD-3-Clause
 * Training steps without a model: the calls of a sharded trainer (gathers forward and backward, reduce-scatters of
 * every unit in reverse, a small all-reduce), with gradients that every rank can compute for every other one.
 *
 *   steps conserve STEPS    dense gradients, with TAGC_MODE=ab: the first plain step after a compressed window sends
 *                           the residual, so over both the results add up to the gradients
 *   steps nonfinite STEPS   sparse gradients; some steps carry NaN and Inf, which come out at their places and leave no
 *                           trace in the next steps
 *   steps overflow STEPS    dense gradients in fp16; in some steps a sum is infinite, in one shard of one unit
 *   steps pairs STEPS       the same, but in the second half two steps share a group; both print a hash of all results
 *   steps hash STEPS        dense gradients; prints a hash of all results
 *   steps mixed STEPS       reduce-scatters in groups with other calls
 *   steps apart STEPS       ranks make the same calls in different ways: rank 0 makes each reduce-scatter in a group,
 *                           and only the root of a reduction passes a receive buffer
 *   steps another STEPS     sparse gradients; in the second half all units are half as large: another cycle
 *   steps stray STEPS       dense gradients; between some steps a reduce-scatter of something else has a unit's count
 *   steps disturbed STEPS   evaluation passes, accumulation, a skipped unit and two communicators between the steps
 *
 * Two sizes of units, so that the steps look like training; the first steps teach the cycle.
 */
#include <locale.h>

#include "tests/e2e/harness.h"

enum { UNITS = 4 };

/* Enough for sketches, and for a residual of over 100 KB. */
static size_t sizes[UNITS] = {4000, 13000, 13000, 6001};
static float *gradient[UNITS], *result[UNITS], *parameters[UNITS], *gathered;
static double *inputs[UNITS], *outputs[UNITS]; /* sums over steps of the own shard */

enum kind { DENSE, SPARSE };

/* Gradients: dense ones have a few large values among many small ones, as real ones do; sparse ones are integers. */
static uint64_t seed_of(int r, uint64_t step, int unit) { return mix((uint64_t)r << 40 ^ step << 8 ^ (uint64_t)unit); }

static float gradient_at(enum kind kind, uint64_t seed, int unit, size_t i) {
  const uint64_t h = draw(seed, i);
  if (kind == SPARSE)
    return h % 64 == 0 ? (float)(int)(h >> 32 & 31) - 15 : 0;
  float x = (float)(int64_t)(h & 0xffffff) / 8388608 - 1;
  return x * x * x * (1 + (float)(unit * 3));
}

static void gather(int unit) {
  CHECK(ncclAllGather(parameters[unit], gathered, sizes[unit], ncclFloat32, world, NULL));
}

static void forward(void) {
  for (int u = 0; u < UNITS; u++)
    gather(u);
}

static void reduce_scatter(int unit, ncclComm_t comm) {
  CHECK(ncclReduceScatter(gradient[unit], result[unit], sizes[unit], ncclFloat32, ncclAvg, comm, NULL));
}

static void norm(void) {
  static float x = 1, sum; /* a group may run it later */
  CHECK(ncclAllReduce(&x, &sum, 1, ncclFloat32, ncclSum, world, NULL));
}

static void fill(enum kind kind, uint64_t step) {
  for (int u = 0; u < UNITS; u++) {
    const uint64_t seed = seed_of(rank, step, u);
    for (size_t i = 0; i < sizes[u] * (size_t)nranks; i++)
      gradient[u][i] = gradient_at(kind, seed, u, i);
  }
}

static void step_calls(void) {
  forward();
  for (int u = UNITS; u-- > 0;) {
    gather(u);
    reduce_scatter(u, world);
  }
  norm();
}

/* The exact mean over ranks of element i of the own shard. */
static double mean_at(enum kind kind, uint64_t step, int unit, size_t i) {
  double sum = 0;
  for (int r = 0; r < nranks; r++)
    sum += gradient_at(kind, seed_of(r, step, unit), unit, (size_t)rank * sizes[unit] + i);
  return sum / nranks;
}

/* True if element i of a unit's result is the mean of integers. It must be exact to the last bit if the division by the
 * number of ranks is exact in any order: a plain call divides before it adds. */
static bool is_mean(int unit, uint64_t step, size_t i) {
  double want = mean_at(SPARSE, step, unit, i);
  bool power_of_two = (nranks & (nranks - 1)) == 0;
  return power_of_two ? result[unit][i] == (float)want : fabs(result[unit][i] - want) <= 4e-6;
}

static bool are_means(int unit, uint64_t step) {
  for (size_t i = 0; i < sizes[unit]; i++)
    if (!is_mean(unit, step, i))
      return false;
  return true;
}

static bool all_are_means(uint64_t step) {
  bool good = true;
  for (int u = 0; u < UNITS; u++)
    good &= are_means(u, step);
  return good;
}

/* Of the results of all ranks. */
static void print_hash(uint64_t own) {
  uint64_t all = 0;
  CHECK(ncclAllReduce(&own, &all, 1, ncclUint64, ncclSum, world, NULL));
  if (rank == 0)
    printf("hash %016llx\n", (unsigned long long)all);
}

/* ---- conserve ---------------------------------------------------------------------------------------------------- */

static void add_up(uint64_t step) {
  for (int u = 0; u < UNITS; u++)
    for (size_t i = 0; i < sizes[u]; i++) {
      inputs[u][i] += mean_at(DENSE, step, u, i);
      outputs[u][i] += result[u][i];
    }
}

/* The relative L2 distance of the sums. */
static double gap(void) {
  double difference = 0, norm2 = 0;
  for (int u = 0; u < UNITS; u++)
    for (size_t i = 0; i < sizes[u]; i++) {
      double d = inputs[u][i] - outputs[u][i];
      difference += d * d;
      norm2 += inputs[u][i] * inputs[u][i];
    }
  return sqrt(difference / norm2);
}

static void conserve(uint64_t steps) {
  double worst_open = 0, worst_closed = 0;
  bool open = false;
  int windows = 0;
  for (uint64_t step = 0; step < steps; step++) {
    fill(DENSE, step);
    step_calls();
    add_up(step);
    double now = gap();
    if (now > 1e-3) {
      open = true;
      worst_open = now > worst_open ? now : worst_open;
    } else {
      windows += open;
      open = false;
      worst_closed = now > worst_closed ? now : worst_closed;
    }
  }
  all_ok(windows >= 2, "%d compressed windows left something and were followed by plain ones that sent it", windows);
  all_ok(worst_open > 0.05, "inside a window part of the gradients is still with their ranks: up to %.3f", worst_open);
  all_ok(worst_closed < 3e-7, "after it the results add up to the gradients: %.1e", worst_closed);
}

/* ---- nonfinite --------------------------------------------------------------------------------------------------- */

static void nonfinite(uint64_t steps) {
  bool good = true, positions = true;
  for (uint64_t step = 0; step < steps; step++) {
    bool bad_step = step % 4 == 3, in_one = step % 8 == 7;
    size_t at[3] = {5, sizes[1] - 1, sizes[1] / 2};
    fill(SPARSE, step);
    if (bad_step && rank == 0) /* into every rank's shard, its own included, or into that of rank 1 */
      for (size_t shard = in_one; shard < (in_one ? 2 : (size_t)nranks); shard++) {
        gradient[1][shard * sizes[1] + at[0]] = NAN;
        gradient[1][shard * sizes[1] + at[1]] = INFINITY;
        gradient[1][shard * sizes[1] + at[2]] = 0x1p121f;
      }
    step_calls();
    if (!bad_step || (in_one && rank != 1)) {
      good &= all_are_means(step);
      continue;
    }
    for (size_t i = 0; i < sizes[1]; i++) {
      float got = result[1][i];
      positions &= i == at[0]   ? isnan(got)
                   : i == at[1] ? isinf(got) && got > 0
                   : i == at[2] ? got > 0x1p121f / (float)(nranks + 1)
                                : isfinite(got);
      if (i != at[0] && i != at[1] && i != at[2])
        positions &= is_mean(1, step, i);
    }
  }
  all_ok(positions, "NaN, Inf and 2^121 come out at their positions, everything else is exact");
  all_ok(good, "the steps after them, and the shards beside them, are exact");
}

/* ---- overflow ---------------------------------------------------------------------------------------------------- */

static uint16_t *half_of(float *buffer, size_t i) { return (uint16_t *)buffer + i; }

/* The sum is infinite in every fourth step. Two steps have buffers of their own, as they may go together. */
static void overflow_steps(uint64_t steps, bool pairs) {
  const size_t at = (size_t)(nranks - 1) * sizes[UNITS - 1] + 5;
  uint64_t h = 0;
  bool good = true;
  for (uint64_t step = 0; step < steps; step++) {
    const bool bad_step = step % 4 == 2, second = step % 2, grouped = pairs && step >= steps / 2;
    if (grouped && !second)
      CHECK(ncclGroupStart());
    for (int u = UNITS; u-- > 0;) {
      uint16_t *half = half_of(gradient[u], second ? sizes[u] * (size_t)nranks : 0);
      for (size_t i = 0; i < sizes[u] * (size_t)nranks; i++)
        half[i] = (uint16_t)(0x3c00 | (draw(seed_of(rank, step, u), i) & 0x83ff)); /* 1 to 2, of both signs */
      if (bad_step && u == UNITS - 1)
        half[at] = 0x78e2; /* 40000 */
      CHECK(ncclReduceScatter(half, half_of(result[u], second ? sizes[u] : 0), sizes[u], ncclFloat16, ncclSum, world,
                              NULL));
    }
    norm();
    if (grouped && second)
      CHECK(ncclGroupEnd());
    for (int u = 0; u < UNITS && second; u++)
      for (size_t i = 0; i < 2 * sizes[u]; i++)
        h = mix(h ^ *half_of(result[u], i));
    for (size_t i = 0; i < 2 && second && rank == nranks - 1; i++)
      good &= (*half_of(result[UNITS - 1], i * sizes[UNITS - 1] + 5) == 0x7c00) == (i == 0 && step % 4 == 3);
  }
  all_ok(good, "the sum is infinite in these steps");
  print_hash(h);
}

static void overflow(uint64_t steps) { overflow_steps(steps, false); }

static void pairs(uint64_t steps) { overflow_steps(steps, true); }

/* ---- hash, mixed, disturbed -------------------------------------------------------------------------------------- */

static void hash(uint64_t steps) {
  uint64_t h = 0;
  for (uint64_t step = 0; step < steps; step++) {
    fill(DENSE, step);
    step_calls();
    for (int u = 0; u < UNITS; u++)
      for (size_t i = 0; i < sizes[u]; i++)
        h = mix(h ^ float_to_bits(result[u][i]));
  }
  print_hash(h);
}

static void mixed(uint64_t steps) {
  int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;
  bool good = true;
  for (uint64_t step = 0; step < steps; step++) {
    int32_t token = rank, got = -1;
    fill(SPARSE, step);
    forward();
    for (int u = UNITS; u-- > 0;) {
      CHECK(ncclGroupStart());
      if (u % 2) { /* other calls before the reduce-scatter, or after it */
        CHECK(ncclSend(&token, 1, ncclInt32, next, world, NULL));
        CHECK(ncclRecv(&got, 1, ncclInt32, previous, world, NULL));
      }
      CHECK(ncclGroupStart());
      reduce_scatter(u, world);
      CHECK(ncclGroupEnd());
      if (u % 2 == 0)
        gather(u);
      CHECK(ncclGroupEnd());
      good &= u % 2 == 0 || got == previous;
    }
    norm();
    good &= all_are_means(step);
  }
  all_ok(good, "reduce-scatters in groups with sends, receives and gathers give what they should");
}

static void apart(uint64_t steps) {
  bool good = true;
  for (uint64_t step = 0; step < steps; step++) {
    float x = 1, sum = 0;
    fill(SPARSE, step);
    forward();
    for (int u = UNITS; u-- > 0;)
      gather(u);
    for (int u = UNITS; u-- > 0;) {
      if (rank == 0)
        CHECK(ncclGroupStart());
      reduce_scatter(u, world);
      if (rank == 0)
        CHECK(ncclGroupEnd());
    }
    CHECK(ncclReduce(&x, rank == 0 ? &sum : NULL, 1, ncclFloat32, ncclSum, 0, world, NULL));
    good &= (rank != 0 || sum == (float)nranks) && all_are_means(step);
  }
  all_ok(good, "ranks that group and pass pointers differently get the same, exact results");
}

static void disturbed(uint64_t steps) {
  bool good = true;
  CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (uint64_t step = 0; step < steps; step++) {
    if (step % 5 == 4) { /* an evaluation pass */
      forward();
      norm();
    }
    fill(SPARSE, step);
    if (step % 7 == 6) /* a micro-batch without synchronisation */
      forward();
    forward();
    for (int u = UNITS; u-- > 0;) {
      gather(u);
      if (step % 11 == 10 && u == 1)
        continue; /* a unit that was not used */
      reduce_scatter(u, world);
      if (u == 2) /* activations on a communicator of their own */
        reduce_scatter(u, other);
    }
    norm();
    for (int u = 0; u < UNITS; u++)
      good &= (step % 11 == 10 && u == 1) || are_means(u, step);
  }
  CHECK(ncclCommDestroy(other));
  other = NULL;
  all_ok(good, "evaluation, accumulation, unused units and a second communicator: every result is exact");
}

/* The unit is alone in its size, so that nothing but the order tells the call from it. What steps left unsent must not
 * get into it. */
static void stray(uint64_t steps) {
  bool good = true;
  for (uint64_t step = 0; step < steps; step++) {
    fill(DENSE, step);
    step_calls();
    if (step % 5 != 4)
      continue;
    fill(SPARSE, step);
    reduce_scatter(UNITS - 1, world);
    good &= are_means(UNITS - 1, step);
  }
  all_ok(good, "what is reduced between steps is exact");
}

static void another(uint64_t steps) {
  bool good = true;
  for (uint64_t step = 0; step < steps; step++) {
    for (int u = 0; u < UNITS && step == steps / 2; u++)
      sizes[u] /= 2;
    fill(SPARSE, step);
    step_calls();
    good &= all_are_means(step);
  }
  all_ok(good, "two cycles, one after the other: every result is exact");
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(uint64_t steps);
  } modes[] = {{"conserve", conserve}, {"nonfinite", nonfinite}, {"hash", hash},       {"mixed", mixed},
               {"apart", apart},       {"disturbed", disturbed}, {"another", another}, {"overflow", overflow},
               {"pairs", pairs},       {"stray", stray}};
  void (*run)(uint64_t steps) = NULL;
  for (size_t i = 0; argc == 3 && i < sizeof modes / sizeof *modes; i++)
    if (strcmp(argv[1], modes[i].name) == 0)
      run = modes[i].run;
  if (!run) {
    fprintf(stderr, "usage: steps conserve|nonfinite|overflow|pairs|hash|mixed|apart|disturbed|another|stray STEPS\n");
    return 2;
  }
  setlocale(LC_ALL, ""); /* the library's numbers must not follow */
  meet();
  gathered = calloc(sizes[1] * (size_t)nranks, sizeof *gathered);
  for (int u = 0; u < UNITS; u++) {
    gradient[u] = malloc(sizes[u] * (size_t)nranks * sizeof(float));
    parameters[u] = calloc(sizes[u], sizeof(float));
    result[u] = calloc(sizes[u], sizeof(float));
    inputs[u] = calloc(sizes[u], sizeof(double));
    outputs[u] = calloc(sizes[u], sizeof(double));
  }
  run(strtoull(argv[2], NULL, 10));
  for (int u = 0; u < UNITS; u++) {
    free(gradient[u]);
    free(parameters[u]);
    free(result[u]);
    free(inputs[u]);
    free(outputs[u]);
  }
  free(gathered);
  return finish();
}
