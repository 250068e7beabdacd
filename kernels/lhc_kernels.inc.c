/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the `lhc` codec, in plain C. See lhc.h for what each one does.
 */
#include <string.h>

#include "kernels/lhc.h"

/* How many elements line `line` of the shard has: 32, but for the last. */
static uint32_t line_width(const struct tagc_lhc_geometry *geo, uint32_t line)
{
  uint64_t left = geo->n - (uint64_t)line * TAGC_LHC_LINE;
  return left < TAGC_LHC_LINE ? (uint32_t)left : TAGC_LHC_LINE;
}

static void accumulate(const struct tagc_lhc_part *part, uint32_t histogram[TAGC_LHC_BINS])
{
  const struct tagc_lhc_geometry *geo = part->geo;
  for (uint32_t local = 0; local < part->lines; local++) {
    uint32_t line = tagc_lhc_line(geo->chunks, part->chunk, local), width = line_width(geo, line);
    uint64_t at = (uint64_t)line * TAGC_LHC_LINE;
    for (uint32_t lane = 0; lane < width; lane++) {
      float e = part->residual_empty ? 0.0f : part->residual[at + lane];
      float v = part->scale * tagc_load(part->send, at + lane, part->dtype) + e;
      part->residual[at + lane] = v;
      histogram[tagc_lhc_bin(tagc_bits_of(v))]++;
    }
  }
}

static uint32_t select_values(const struct tagc_lhc_part *part, const struct tagc_lhc_choice *choice, double *norm2)
{
  const struct tagc_lhc_geometry *geo = part->geo;
  uint32_t count = 0, rank = 0;
  double norm = 0;
  for (uint32_t local = 0; local < part->lines; local++) {
    uint32_t line = tagc_lhc_line(geo->chunks, part->chunk, local), width = line_width(geo, line), mask = 0;
    float *residual = part->residual + (uint64_t)line * TAGC_LHC_LINE;
    for (uint32_t lane = 0; lane < width; lane++) {
      float v = residual[lane];
      uint32_t bin = tagc_lhc_bin(tagc_bits_of(v));
      bool chosen = bin > choice->bin && bin < TAGC_LHC_HUGE_BIN;
      if (bin == choice->bin) {
        uint32_t from = rank + (rank < choice->offset ? choice->count : 0) - choice->offset;
        chosen = from < choice->take;
        rank++;
      }
      if (bin >= TAGC_LHC_HUGE_BIN)
        tagc_exceptions_add(part->exceptions, geo->n, line * TAGC_LHC_LINE + lane, v);
      if (chosen) {
        part->values[count] = v;
        part->ids[count++] = local * TAGC_LHC_LINE + lane;
        mask |= 1u << lane;
      }
      if (chosen || bin >= TAGC_LHC_HUGE_BIN)
        residual[lane] = 0;
      else
        norm += (double)v * v;
    }
    part->bitmap[local] = mask;
  }
  *norm2 += norm;
  return count;
}

static void scatter(const struct tagc_lhc_part *part, uint32_t count, const uint8_t *exponents, int32_t *counters,
                    double *norm2)
{
  const struct tagc_lhc_geometry *geo = part->geo;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t id = part->ids[i], line = tagc_lhc_line(geo->chunks, part->chunk, id / TAGC_LHC_LINE);
    uint32_t exponent = exponents[line / TAGC_LHC_BLOCK_LINES];
    int32_t q = tagc_lhc_quantise(tagc_bits_of(part->values[i]), exponent, geo->counter_bits);
    float left = part->values[i] - (float)q * tagc_lhc_unit(exponent, geo->counter_bits);
    if (left != 0) {
      part->residual[(uint64_t)line * TAGC_LHC_LINE + id % TAGC_LHC_LINE] = left;
      *norm2 += (double)left * left;
    }
    uint64_t cells = tagc_lhc_cells(part->seed, geo->part_cells, id);
    for (uint32_t hash = 0; hash < geo->hashes; hash++, cells >>= 16) {
      uint32_t *counter = (uint32_t *)counters + (size_t)hash * geo->part_cells + (cells & 0xffff);
      *counter += (uint32_t)q;
    }
  }
}

/* A cell holds the sum of its elements' words: value << 32 | 1 << 24 | index. Taking an element out is one subtraction,
 * and a cell with one element is that element's word. */
#define CELL_DEGREE(cell) ((uint32_t)(cell) >> 24)
#define CELL_INDEX(cell) ((uint32_t)(cell) & 0xffffffu)

static void build(const struct tagc_lhc_sum *sum)
{
  const struct tagc_lhc_geometry *geo = sum->geo;
  uint64_t *cells = sum->state->cells;
  for (uint32_t i = 0; i < geo->hashes * geo->part_cells; i++)
    cells[i] = (uint64_t)(uint32_t)sum->counters[i] << 32;
  for (uint32_t i = 0; i < sum->count; i++) {
    uint64_t at = tagc_lhc_cells(sum->seed, geo->part_cells, sum->state->elements[i]);
    for (uint32_t hash = 0; hash < geo->hashes; hash++, at >>= 16)
      cells[(size_t)hash * geo->part_cells + (at & 0xffff)] += (UINT64_C(1) << 24) + i;
  }
}

/* Breadth first: a round takes the cells that had one element when it began; those that get there wait for the next. A
 * cell enters the queue once, so the queue never overflows, and the recovered indices follow behind its head. */
static uint32_t peel(const struct tagc_lhc_sum *sum)
{
  const struct tagc_lhc_geometry *geo = sum->geo;
  uint64_t *cells = sum->state->cells;
  uint32_t *queue = sum->state->queue, *elements = sum->state->elements, tail = 0, head = 0, peeled = 0;
  for (uint32_t i = 0; i < geo->hashes * geo->part_cells; i++)
    if (CELL_DEGREE(cells[i]) == 1)
      queue[tail++] = i;
  for (int round = 0; round < TAGC_LHC_ROUNDS && head < tail; round++) {
    for (uint32_t end = tail; head < end; head++) {
      uint64_t word = cells[queue[head]];
      uint32_t index = CELL_INDEX(word);
      if (CELL_DEGREE(word) != 1 || index >= sum->count)
        continue;
      uint64_t at = tagc_lhc_cells(sum->seed, geo->part_cells, elements[index]);
      elements[index] = (uint32_t)(word >> 32);
      queue[peeled++] = index;
      for (uint32_t hash = 0; hash < geo->hashes; hash++, at >>= 16) {
        uint32_t cell = hash * geo->part_cells + (uint32_t)(at & 0xffff);
        cells[cell] -= word;
        if (CELL_DEGREE(cells[cell]) == 1)
          queue[tail++] = cell;
      }
    }
  }
  return peeled;
}

static uint32_t output(const struct tagc_lhc_sum *sum, uint32_t from, uint32_t to, uint32_t element)
{
  const struct tagc_lhc_geometry *geo = sum->geo;
  for (uint32_t local = from; local < to; local++) {
    uint32_t line = tagc_lhc_line(geo->chunks, sum->chunk, local), mask = sum->state->masks[local];
    uint32_t exponent = sum->exponents[line / TAGC_LHC_BLOCK_LINES];
    float unit = exponent ? tagc_lhc_unit(exponent, geo->counter_bits) : 0.0f;
    uint64_t at = (uint64_t)line * TAGC_LHC_LINE;
    for (uint32_t lane = 0; lane < TAGC_LHC_LINE; lane++) {
      float x = mask >> lane & 1 ? (float)(int32_t)sum->state->elements[element++] * unit : 0.0f;
      x += sum->scale * tagc_load(sum->own, at + lane, sum->dtype);
      tagc_store_result(sum->recv, at + lane, sum->dtype, x, sum->divisor);
    }
  }
  return element;
}

const struct tagc_lhc_kernels TAGC_LHC_VARIANT = {
  .name = TAGC_LHC_NAME,
  .accumulate = accumulate,
  .select = select_values,
  .scatter = scatter,
  .build = build,
  .peel = peel,
  .output = output,
};
