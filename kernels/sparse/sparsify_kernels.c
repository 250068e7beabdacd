/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of sparsification: see sparsify.h.
 *
 * Compiled once for each instruction set (codec/instruction_set.h), with that set's vector steps of 16 elements
 * (sparsify_vector_*.h; the plain one explains each step). The control flow here is scalar and common.
 */
#include "kernels/codec/instruction_set.h"
/* clang-format off */
#include TAGC_SIMD_HEADER(kernels/sparse/sparsify_vector)
/* clang-format on */

#include <string.h>

#include "kernels/sparse/prefetch_places.h"

/* scale*g + e of one line, zeros beyond the end of the shard. */
static void sum_line(const struct tagc_sparsify_shard *shard, uint32_t line, float out[TAGC_GRID_LINE]) {
  struct tagc_sparsify_input input = {shard->dtype, shard->residual_empty, shard->rounded, shard->scale};
  const uint64_t at = (uint64_t)line * TAGC_GRID_LINE, left = shard->grid->n - at;
  if (left >= TAGC_GRID_LINE) {
    for (uint32_t lane = 0; lane < TAGC_GRID_LINE; lane += 16)
      sum16(tagc_element_of(shard->send, at + lane, input.dtype), shard->residual + at + lane, input, out + lane);
    return;
  }
  memset(out, 0, TAGC_GRID_LINE * sizeof *out);
  for (uint64_t lane = 0; lane < left; lane++)
    out[lane] = input.scale * tagc_load(shard->send, at + lane, input.dtype) +
                (input.residual_empty ? 0.0f : shard->residual[at + lane]);
}

static uint32_t sample(const struct tagc_sparsify_shard *shard, uint32_t step, float *values) {
  uint32_t count = 0;
  for (uint32_t line = step / 2; line < shard->grid->lines; line += step, count += TAGC_GRID_LINE)
    sum_line(shard, line, values + count);
  return count;
}

static ALWAYS_INLINE uint8_t exponent_of(struct block *block) {
  const uint32_t most = block_end(block);
  return most < (uint32_t)TAGC_BIN_TINY << 12 ? 0 : tagc_exponent_byte(most);
}

/* The exponent of the block that ends with a line. */
static ALWAYS_INLINE void end_block(const struct tagc_sparsify_shard *shard, uint32_t line, struct block *block) {
  const uint8_t exponent = exponent_of(block);
  if (shard->exponents)
    shard->exponents[line / TAGC_GRID_BLOCK_LINES] = exponent;
}

/* The members of `input` are constants where this is inlined. (The type is none while the residual is empty, in first
 * calls alone.) */
static TAGC_SPECIALISED uint8_t measure_typed(const void *send, const float *residual, uint32_t count,
                                              struct tagc_sparsify_input input) {
  struct block block = block_new(1);
  float v[16];
  uint32_t at = 0;
  for (; at + 16 <= count; at += 16) {
    sum16(tagc_element_of(send, at, input.dtype), input.residual_empty ? NULL : residual + at, input, v);
    block_include(&block, v);
  }
  if (at < count) {
    memset(v, 0, sizeof v);
    for (uint32_t i = 0; at + i < count; i++)
      v[i] = input.scale * tagc_load(send, at + i, input.dtype) + (input.residual_empty ? 0.0f : residual[at + i]);
    block_include(&block, v);
  }
  return exponent_of(&block);
}

static uint8_t measure_block(const void *send, const float *residual, uint32_t count, enum tagc_dtype dtype,
                             float scale) {
  if (!residual)
    return measure_typed(send, NULL, count, (struct tagc_sparsify_input){dtype, true, false, scale});
  if (dtype == TAGC_FLOAT32)
    return measure_typed(send, residual, count, (struct tagc_sparsify_input){TAGC_FLOAT32, false, false, scale});
  if (dtype == TAGC_FLOAT16)
    return measure_typed(send, residual, count, (struct tagc_sparsify_input){TAGC_FLOAT16, false, false, scale});
  return measure_typed(send, residual, count, (struct tagc_sparsify_input){TAGC_BFLOAT16, false, false, scale});
}

/* The incomplete last line. */
static void scan_rest(const struct tagc_sparsify_shard *shard, struct block *block, double *norm2) {
  const struct tagc_grid *grid = shard->grid;
  const uint32_t line = grid->lines - 1, stripe = tagc_grid_stripe_of(grid->stripes, line),
                 local = line / grid->stripes;
  const uint64_t at = (uint64_t)line * TAGC_GRID_LINE;
  struct tagc_sparsify_list *list = &shard->memory->candidates[stripe];
  float v[TAGC_GRID_LINE];
  uint32_t mask = 0;
  sum_line(shard, line, v);
  block_include(block, v);
  block_include(block, v + 16);
  for (uint32_t lane = 0; at + lane < grid->n; lane++) {
    bool large = (tagc_bits_of(v[lane]) & 0x7fffffffu) >= list->threshold;
    shard->residual[at + lane] = large ? left_of(v[lane], shard->rounded) : v[lane];
    *norm2 += large ? 0 : (double)v[lane] * v[lane];
    list->values[list->count] = v[lane];
    list->ids[list->count] = local * TAGC_GRID_LINE + lane;
    list->count += large;
    mask |= (uint32_t)large << lane;
  }
  list->bitmap[local] = mask;
  if (list->count > shard->memory->room) /* later vectors have a line's memory behind it, no more */
    tagc_sparsify_put_back(shard, stripe);
}

/* One complete line, `local` in its stripe. */
static ALWAYS_INLINE void scan_line(const void *send, float *residual, struct tagc_sparsify_input input,
                                    struct tagc_sparsify_list *list, uint32_t local, struct block *block) {
  const char *next = (const char *)send + 16 * tagc_dtype_size(input.dtype);
  float *values = list->values + list->count;
  uint32_t *ids = list->ids + list->count, id = local * TAGC_GRID_LINE;
  __builtin_prefetch((const char *)send + PREFETCH_BYTES);
  __builtin_prefetch((const char *)next + PREFETCH_BYTES);
  __builtin_prefetch((const char *)residual + PREFETCH_BYTES);
  __builtin_prefetch((const char *)residual + PREFETCH_BYTES + 64);
  uint32_t low = scan16(send, residual, input, list->threshold, id, values, ids, block);
  uint32_t some = (uint32_t)__builtin_popcount(low);
  uint32_t high = scan16(next, residual + 16, input, list->threshold, id + 16, values + some, ids + some, block);
  list->count += some + (uint32_t)__builtin_popcount(high);
  list->bitmap[local] = low | high << 16;
}

/* One stripe: its list stays in registers. */
static ALWAYS_INLINE void scan_single(const struct tagc_sparsify_shard *shard, struct tagc_sparsify_input input,
                                      struct block *block) {
  const uint32_t lines = (uint32_t)(shard->grid->n / TAGC_GRID_LINE), room = (uint32_t)shard->memory->room;
  struct tagc_sparsify_list list = shard->memory->candidates[0];
  float *residual = shard->residual;
  for (uint32_t line = 0; line < lines; line++, residual += TAGC_GRID_LINE) {
    const void *send = tagc_element_of(shard->send, (uint64_t)line * TAGC_GRID_LINE, input.dtype);
    scan_line(send, residual, input, &list, line, block);
    if (__builtin_expect(list.count > room, 0)) {
      shard->memory->candidates[0] = list;
      tagc_sparsify_put_back(shard, 0);
      list = shard->memory->candidates[0];
    }
    if (line % TAGC_GRID_BLOCK_LINES == TAGC_GRID_BLOCK_LINES - 1)
      end_block(shard, line, block);
  }
  shard->memory->candidates[0] = list;
}

/* In the order of memory, group by group. */
static ALWAYS_INLINE void scan_groups(const struct tagc_sparsify_shard *shard, struct tagc_sparsify_input input,
                                      struct block *block) {
  const uint32_t stripes = shard->grid->stripes, lines = (uint32_t)(shard->grid->n / TAGC_GRID_LINE);
  const uint32_t room = (uint32_t)shard->memory->room;
  struct tagc_sparsify_list *const lists = shard->memory->candidates, *const end = lists + stripes;
  float *residual = shard->residual;
  for (uint32_t line = 0, local = 0; line < lines; local++) {
    struct tagc_sparsify_list *list = &lists[tagc_grid_turn(local, stripes)];
    const uint32_t stop = lines - line < stripes ? lines : line + stripes;
    for (; line < stop; line++, residual += TAGC_GRID_LINE) {
      const void *send = tagc_element_of(shard->send, (uint64_t)line * TAGC_GRID_LINE, input.dtype);
      /* The processor's own prefetching cannot handle so many slow streams of stores. */
      __builtin_prefetch(list->values + list->count + PREFETCH, 1);
      __builtin_prefetch(list->ids + list->count + PREFETCH, 1);
      __builtin_prefetch(list->bitmap + local + PREFETCH, 1);
      scan_line(send, residual, input, list, local, block);
      if (__builtin_expect(list->count > room, 0))
        tagc_sparsify_put_back(shard, (uint32_t)(list - lists));
      list = list + 1 < end ? list + 1 : lists;
      if (line % TAGC_GRID_BLOCK_LINES == TAGC_GRID_BLOCK_LINES - 1)
        end_block(shard, line, block);
    }
  }
}

/* The members of `input` are constants where this is inlined. */
static TAGC_SPECIALISED void scan_lines(const struct tagc_sparsify_shard *shard, struct tagc_sparsify_input input,
                                        struct block *out) {
  struct block block = *out;
  if (shard->grid->stripes == 1)
    scan_single(shard, input, &block);
  else
    scan_groups(shard, input, &block);
  *out = block;
}

static ALWAYS_INLINE void scan_typed(const struct tagc_sparsify_shard *shard, enum tagc_dtype dtype,
                                     struct block *block) {
  const float scale = shard->scale;
  if (shard->rounded && shard->residual_empty)
    scan_lines(shard, (struct tagc_sparsify_input){dtype, true, true, scale}, block);
  else if (shard->rounded)
    scan_lines(shard, (struct tagc_sparsify_input){dtype, false, true, scale}, block);
  else if (shard->residual_empty)
    scan_lines(shard, (struct tagc_sparsify_input){dtype, true, false, scale}, block);
  else
    scan_lines(shard, (struct tagc_sparsify_input){dtype, false, false, scale}, block);
}

static double scan(const struct tagc_sparsify_shard *shard) {
  /* Values that stay are below the threshold: scaled, below 2. */
  int power = 127 - (int)(shard->memory->candidates[0].threshold >> 23);
  struct block block = block_new(tagc_pow2(power));
  if (shard->dtype == TAGC_FLOAT32)
    scan_typed(shard, TAGC_FLOAT32, &block);
  else if (shard->dtype == TAGC_FLOAT16)
    scan_typed(shard, TAGC_FLOAT16, &block);
  else
    scan_typed(shard, TAGC_BFLOAT16, &block);
  const uint32_t last = shard->grid->lines - 1;
  double rest = 0;
  if (shard->grid->n % TAGC_GRID_LINE)
    scan_rest(shard, &block, &rest);
  if (last % TAGC_GRID_BLOCK_LINES != TAGC_GRID_BLOCK_LINES - 1 || shard->grid->n % TAGC_GRID_LINE)
    end_block(shard, last, &block);
  double unit = (double)tagc_pow2(-power);
  return block.norm2 * unit * unit + rest;
}

static void count_list(const float *values, uint32_t count, uint32_t coarse, uint32_t *histogram) {
  uint32_t i = 0;
  for (; coarse == TAGC_SPARSIFY_NO_BIN && i < count; i++)
    histogram[tagc_bin_of(tagc_bits_of(values[i])) / TAGC_BIN_FINE]++;
  for (; i < count; i += 16) {
    uint32_t fine[16], lanes = count - i < 16 ? (1u << (count - i)) - 1 : 0xffff;
    uint32_t found = fine16(values + i, lanes, coarse, fine);
    for (uint32_t j = 0; j < found; j++)
      histogram[fine[j]]++;
  }
}

static void count_near(const float *values, uint32_t count, uint32_t threshold, uint32_t *histogram) {
  const uint32_t lowest = tagc_bin_of(threshold), most = TAGC_SPARSIFY_NEAR - 1;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t bin = tagc_bin_of(tagc_bits_of(values[i])), near = bin - lowest;
    histogram[near < most ? near : most] += bin < TAGC_BIN_HUGE; /* exceptions are not chosen */
  }
}

static void count_residual(const struct tagc_sparsify_part *part, uint32_t coarse, uint32_t *histogram) {
  for (uint32_t local = 0; local < part->lines; local++) {
    uint64_t at = (uint64_t)tagc_grid_line(part->grid->stripes, part->stripe, local) * TAGC_GRID_LINE;
    uint64_t left = part->grid->n - at;
    count_list(part->shard->residual + at, left < TAGC_GRID_LINE ? (uint32_t)left : TAGC_GRID_LINE, coarse, histogram);
  }
}

/* Returns values that were not chosen to the residual, and lists exceptions. */
static double return_rest(const struct tagc_sparsify_part *part, const float *values, const uint32_t *ids,
                          uint32_t count) {
  const struct tagc_sparsify_shard *shard = part->shard;
  double norm = 0;
  for (uint32_t i = 0; i < count; i += 16) {
    uint32_t lines[16];
    prefetch_places(shard->residual, ids + i, count - i, part->grid->stripes, part->stripe);
    lines16(ids + i, part->grid->stripes, part->stripe, lines);
    for (uint32_t j = 0; j < 16 && i + j < count; j++) {
      uint32_t id = ids[i + j];
      float v = values[i + j];
      uint64_t position = (uint64_t)lines[j] * TAGC_GRID_LINE + id % TAGC_GRID_LINE;
      part->bitmap[id / TAGC_GRID_LINE] &= ~(1u << id % TAGC_GRID_LINE);
      if (__builtin_expect(tagc_is_exception(tagc_bits_of(v)), 0)) {
        tagc_exceptions_add(shard->exceptions, part->grid->n, (uint32_t)position, v);
        continue;
      }
      shard->residual[position] = v;
      norm += (double)v * v;
    }
  }
  return norm;
}

static uint32_t filter(const struct tagc_sparsify_part *part, const struct tagc_sparsify_list *list,
                       const struct tagc_sparsify_choice *choice, double *norm2) {
  uint32_t count = 0, rank = 0, left = 0;
  for (uint32_t i = 0; i < list->count; i += 16) {
    uint32_t some, lanes = list->count - i < 16 ? (1u << (list->count - i)) - 1 : 0xffff;
    count += filter16(list->values + i, list->ids + i, lanes, choice, &rank, part->values + count, part->ids + count,
                      list->values + left, list->ids + left, &some);
    left += some;
  }
  *norm2 += return_rest(part, list->values, list->ids, left);
  return count;
}

static uint32_t select_values(const struct tagc_sparsify_part *part, const struct tagc_sparsify_choice *choice) {
  const struct tagc_grid *grid = part->grid;
  float *residual = part->shard->residual;
  uint32_t count = 0, rank = 0;
  for (uint32_t local = 0; local < part->lines; local++) {
    uint32_t line = tagc_grid_line(grid->stripes, part->stripe, local), mask = 0;
    uint64_t at = (uint64_t)line * TAGC_GRID_LINE;
    for (uint32_t lane = 0; lane < TAGC_GRID_LINE && at + lane < grid->n; lane++) {
      float v = residual[at + lane];
      uint32_t bin = tagc_bin_of(tagc_bits_of(v));
      bool chosen = tagc_sparsify_chosen(choice, bin, rank), huge = bin >= TAGC_BIN_HUGE;
      rank += bin == choice->bin;
      if (huge)
        tagc_exceptions_add(part->shard->exceptions, grid->n, line * TAGC_GRID_LINE + lane, v);
      if (chosen) {
        part->values[count] = v;
        part->ids[count++] = local * TAGC_GRID_LINE + lane;
        mask |= 1u << lane;
      }
      if (chosen || huge)
        residual[at + lane] = left_of(v, part->shard->rounded);
    }
    part->bitmap[local] = mask;
  }
  return count;
}

static uint32_t largest_of_values(const void *values, uint64_t n, enum tagc_dtype dtype, float scale) {
  struct tagc_sparsify_input input = {.dtype = dtype, .residual_empty = true, .scale = scale};
  struct largest largest = largest_new();
  uint64_t i = 0;
  if (dtype == TAGC_FLOAT32)
    for (; i + 16 <= n; i += 16)
      largest16((const float *)values + i, input, &largest);
  else
    for (; i + 16 <= n; i += 16)
      largest16((const uint16_t *)values + i, input, &largest);
  uint32_t most = largest_end(&largest);
  for (; i < n; i++) {
    const uint32_t magnitude = tagc_bits_of(scale * tagc_load(values, i, dtype)) & 0x7fffffffu;
    most = magnitude > most ? magnitude : most;
  }
  return most;
}

const struct tagc_sparsify_kernels TAGC_SIMD_TABLE(tagc_sparsify) = {
  .measure = measure_block,
  .sample = sample,
  .scan = scan,
  .count_list = count_list,
  .count_near = count_near,
  .count_residual = count_residual,
  .filter = filter,
  .select = select_values,
  .largest = largest_of_values,
};
