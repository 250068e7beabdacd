/* SPDX-License-Identifier: BSD-3-Clause
 * Part of kernels.c: encoding.
 */
#define CELL(cells, hash) ((cells) >> 16 * (hash)&0xffff)

/* `hashes` is a constant where this is inlined. */
static ALWAYS_INLINE void add_to_counters(uint32_t *counters, size_t part_cells, uint32_t hashes, const int32_t q[16],
                                          const uint64_t cells[16]) {
  uint32_t *second = counters + part_cells, *third = second + part_cells, *fourth = third + part_cells;
  for (uint32_t j = 0; j < 16; j++) {
    uint32_t value = (uint32_t)q[j];
    counters[CELL(cells[j], 0)] += value;
    second[CELL(cells[j], 1)] += value;
    third[CELL(cells[j], 2)] += value;
    if (hashes == 4)
      fourth[CELL(cells[j], 3)] += value;
  }
}

/* Adds the values of three hashes to their checks, and those of dense octets (bits of `dense`) to their further
 * cells. */
static ALWAYS_INLINE void add_further(const struct tagc_lhc_part *part, uint32_t dense, const int32_t q[16],
                                      const uint64_t first[16], const uint32_t *ids, uint32_t *counters) {
  const uint32_t part_cells = part->geo->part_cells;
  uint32_t *second = counters + part_cells, *third = second + part_cells, *checks = third + part_cells;
  for (uint32_t j = 0; j < 16; j++)
    checks[tagc_lhc_check(first[j])] += (uint32_t)q[j];
  for (; dense; dense &= dense - 1) {
    const uint32_t j = (uint32_t)__builtin_ctz(dense), value = (uint32_t)q[j];
    for (uint32_t turn = 1; turn < TAGC_LHC_TURNS; turn++) {
      const uint64_t cells = tagc_lhc_cells(tagc_lhc_turn_seed(part->seed, turn), part_cells, ids[j]);
      counters[CELL(cells, 0)] += value;
      second[CELL(cells, 1)] += value;
      third[CELL(cells, 2)] += value;
    }
  }
}

/* Adds sixteen values, which may be padded with zeros, to the counters. Returns the squared norm of the errors. */
static ALWAYS_INLINE double scatter16(const struct tagc_lhc_part *part, const float *values, const uint32_t *ids,
                                      const uint8_t *exponents, uint32_t *counters) {
  const struct tagc_lhc_geometry *geo = part->geo;
  uint32_t lines[16];
  uint64_t cells[16];
  int32_t q[16];
  float left[16];
  double norm = 0;
  lines16(ids, geo->grid.stripes, part->stripe, lines);
  uint32_t inexact = quantise16(values, lines, exponents, geo->counter_bits, q, left);
  cells16(part->seed, geo->part_cells, ids, cells);
  if (geo->hashes == 3) {
    add_to_counters(counters, geo->part_cells, 3, q, cells);
    add_further(part, dense16(cells, tagc_lhc_dense_rows(geo)), q, cells, ids, counters);
  } else {
    add_to_counters(counters, geo->part_cells, 4, q, cells);
  }
  for (; inexact; inexact &= inexact - 1) {
    uint32_t j = (uint32_t)__builtin_ctz(inexact);
    part->residual[(uint64_t)lines[j] * TAGC_GRID_LINE + ids[j] % TAGC_GRID_LINE] = left[j];
    norm += (double)left[j] * left[j];
  }
  return norm;
}

/* The errors of quantising go to the places of the values in the residual. On few ranks most values have none; if the
 * last ones had, the places of later ones are fetched. */
static void scatter(const struct tagc_lhc_part *part, const uint8_t *exponents, int32_t *counters, double *norm2) {
  const uint32_t count = part->count;
  uint32_t i = 0;
  double norm = 0, error = 0;
  for (; i + 16 <= count; i += 16) {
    if (error > 0)
      prefetch_places(part->residual, part->ids + i, count - i, part->geo->grid.stripes, part->stripe);
    error = scatter16(part, part->values + i, part->ids + i, exponents, (uint32_t *)counters);
    norm += error;
  }
  if (i < count) {
    float values[16] = {0};
    uint32_t ids[16];
    for (uint32_t j = 0; j < 16; j++)
      ids[j] = part->ids[i + j < count ? i + j : i];
    memcpy(values, part->values + i, (count - i) * sizeof *values);
    norm += scatter16(part, values, ids, exponents, (uint32_t *)counters);
  }
  *norm2 += norm;
}
