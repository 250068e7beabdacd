/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `lhc` when peeling cannot succeed: two elements that share all their cells. Both are estimated by the mean
 * and counted, and nothing else is touched. The test first searches for a seed with such a pair; with other seeds the
 * two are free.
 */
#include "kernels/lhc/lhc.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

/* The search begins shortly before the first such seed: thousands of others prove nothing, and valgrind is slow. */
enum { N = 82000, TABLE = 1 << 15, FIRST_SEED = 6000, FIRST_SEED_OF_THREE = 4000 };

struct pair {
  uint64_t seed;
  uint32_t first, second;
};

/* The cells and the check of an element; with four hashes there is no check. */
static uint64_t compared(uint64_t cells, const struct tagc_lhc_geometry *geo) {
  return geo->hashes == 3 ? cells & 0xffffffffffff : cells;
}

/* Lanes of two octets that meet in every cell. */
static bool find_lanes(uint64_t seed, const struct tagc_lhc_geometry *geo, uint32_t a, uint32_t b, struct pair *pair) {
  for (uint32_t i = 8 * a; i < 8 * a + 8; i++)
    for (uint32_t j = 8 * b; j < 8 * b + 8; j++)
      if (compared(tagc_lhc_cells(seed, geo->part_cells, i) ^ tagc_lhc_cells(seed, geo->part_cells, j), geo) == 0) {
        pair->first = i;
        pair->second = j;
        return true;
      }
  return false;
}

/* Only octets with equal rows and relative rotations can share all cells: a table of those seen finds them. */
static bool find_pair(uint64_t seed, const struct tagc_lhc_geometry *geo, struct pair *pair) {
  static uint64_t keys[TABLE];
  static uint32_t octets[TABLE];
  const uint32_t dense_rows = tagc_lhc_dense_rows(geo);
  memset(keys, 0, sizeof keys);
  for (uint32_t octet = 0; octet < N / 8; octet++) {
    uint64_t cells = tagc_lhc_cells(seed, geo->part_cells, 8 * octet), first = cells & 31;
    uint64_t key = cells - first * 0x0001000100010001u, at;
    if (tagc_lhc_is_dense(cells, dense_rows))
      continue;
    /* Differences of rotations wrap around inside a row. */
    key = compared((cells & 0xffe0ffe0ffe0ffe0u) | (key & 0x001f001f001f001fu), geo);
    for (at = tagc_mix64(key) % TABLE; keys[at] && keys[at] != key + 1; at = (at + 1) % TABLE)
      ;
    if (keys[at] && find_lanes(seed, geo, octets[at], octet, pair))
      return true;
    keys[at] = key + 1;
    octets[at] = octet;
  }
  return false;
}

/* Shares differ if more than two elements are stuck together. */
static void check_median(void) {
  static const int32_t three[4] = {5, -7, 3}, four[4] = {40, -10, 30, 21}, large[4] = {INT32_MAX, INT32_MAX, INT32_MAX};
  ok(tagc_lhc_median(three, 3, 100) == 3 && tagc_lhc_median(four, 4, 100) == 25,
     "an estimate is the median of the shares");
  ok(tagc_lhc_median(three, 3, 2) == 2 && tagc_lhc_median((const int32_t[4]){-9, -9, 9, -9}, 4, 4) == -4 &&
       tagc_lhc_median(large, 3, INT64_C(1) << 40) == INT32_MAX,
     "and no larger than the senders can have made it");
}

/* A hundred calls with the same two values: one seed keeps them stuck, with a growing error; changing seeds free
 * them. */
static void check_seeds(struct sim *sim, const struct pair *pair, bool same_seed) {
  enum { CALLS = 100 };
  double first = 0, second = 0;
  sim->stats = (struct tagc_codec_stats){0};
  sim->job[0].residual_empty = sim->job[1].residual_empty = true;
  sim_clear(sim);
  for (uint32_t i = 0; i < N; i += 41)
    sim_put(sim, 1, 0, i, 1 + (float)(i % 7));
  sim_put(sim, 1, 0, pair->first, 6);
  sim_put(sim, 1, 0, pair->second, -2);
  for (uint64_t call = 0; call < CALLS; call++) {
    sim_step(sim, same_seed ? pair->seed : pair->seed + 1 + call);
    first += (double)sim_got(sim, 0, pair->first);
    second += (double)sim_got(sim, 0, pair->second);
  }
  note("%s: %llu estimates in %d calls; the two sum up to %.0f and %.0f", same_seed ? "one seed" : "seeds that change",
       (unsigned long long)sim->stats.unrecovered, CALLS, first, second);
  if (same_seed)
    ok(sim->stats.unrecovered == 2 * CALLS && first == 2 * CALLS && second == 2 * CALLS,
       "the same seed a hundred times: the two stay stuck");
  else
    ok(sim->stats.unrecovered == 0 && first == 6 * CALLS && second == -2 * CALLS,
       "a hundred seeds: they are recovered in every call");
}

/* One call with an empty residual: values at every `apart`-th position, and the two of the pair. Returns the number of
 * sums, but those of the pair, that are not what was sent. */
static uint64_t call_with_pair(struct sim *sim, const struct pair *pair, uint32_t apart, float first, float second) {
  uint64_t wrong = 0;
  sim->stats = (struct tagc_codec_stats){0};
  sim_clear(sim);
  for (uint32_t i = 0; i < N; i += apart)
    sim_put(sim, 1, 0, i, 1 + (float)(i % 7));
  sim_put(sim, 1, 0, pair->first, first);
  sim_put(sim, 1, 0, pair->second, second);
  sim->job[0].residual_empty = sim->job[1].residual_empty = true;
  sim_step(sim, pair->seed);
  for (uint32_t i = 0; i < N; i++)
    wrong += i != pair->first && i != pair->second && sim_got(sim, 0, i) != sim_sent(sim, 1, 0, i);
  return wrong;
}

/* With three hashes the checks tell the two apart, whatever else the stripe holds. */
static void check_checks(void) {
  struct sim sim = sim_new("lhc", N, 2, TAGC_FLOAT32, 400000);
  struct tagc_lhc_geometry geo;
  struct pair pair = {.seed = FIRST_SEED_OF_THREE};
  tagc_lhc_geometry_fill(&geo, &sim.shape);
  while (pair.seed < FIRST_SEED_OF_THREE + 40000 && !find_pair(tagc_grid_seed(pair.seed, 0, 0), &geo, &pair))
    pair.seed++;
  const uint64_t seed = tagc_grid_seed(pair.seed, 0, 0);
  ok(geo.hashes == 3 && pair.first != pair.second &&
       tagc_lhc_check(tagc_lhc_cells(seed, geo.part_cells, pair.first)) !=
         tagc_lhc_check(tagc_lhc_cells(seed, geo.part_cells, pair.second)),
     "there is a pair that shares all three cells, and no check");
  note("seed %llu, positions %u and %u", (unsigned long long)pair.seed, pair.first, pair.second);
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
    const char *name = tagc_variant_name((enum tagc_variant)v);
    if (!tagc_variant_force(name))
      continue;
    const uint64_t wrong = call_with_pair(&sim, &pair, 3, 600, -2);
    ok(wrong == 0 && sim_got(&sim, 0, pair.first) == 600 && sim_got(&sim, 0, pair.second) == -2 &&
         sim.stats.unrecovered == 0,
       "%s: it is recovered, as all else", name);
  }
  sim_free(&sim);
}

int main(void) {
  check_median();
  check_checks();
  struct sim sim = sim_new("lhc", N, 2, TAGC_FLOAT32, 50000);
  struct tagc_lhc_geometry geo;
  struct pair pair = {.seed = FIRST_SEED};
  tagc_lhc_geometry_fill(&geo, &sim.shape);
  while (pair.seed < FIRST_SEED + 40000 && !find_pair(tagc_grid_seed(pair.seed, 0, 0), &geo, &pair))
    pair.seed++;
  if (!ok(geo.grid.stripes == 1 && pair.first != pair.second, "there is a pair that shares all cells"))
    return tap_done();
  note("seed %llu, positions %u and %u", (unsigned long long)pair.seed, pair.first, pair.second);

  variants_tell();
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
    const char *name = tagc_variant_name((enum tagc_variant)v);
    if (!tagc_variant_force(name))
      continue;
    const uint64_t wrong = call_with_pair(&sim, &pair, 41, 6, -2);
    ok(wrong == 0 && sim.stats.unrecovered == 2, "%s: the two are counted, nothing else is touched", name);
    ok(sim_got(&sim, 0, pair.first) == 2 && sim_got(&sim, 0, pair.second) == 2, "and both come out as their mean");
    check_seeds(&sim, &pair, true);
    check_seeds(&sim, &pair, false);
  }
  sim_free(&sim);
  return tap_done();
}
