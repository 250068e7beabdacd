/* SPDX-License-Identifier: BSD-3-Clause
 * Part of kernels.c: peeling and writing results.
 */
static uint32_t find_support(const struct tagc_lhc_sum *sum) {
  return list_support(sum->masks, sum->lines, sum->geo->union_capacity, sum->elements);
}

/* The bits of the first `some` elements that are in dense octets, of the 16 with these cells. */
static ALWAYS_INLINE uint32_t dense_of(const struct tagc_lhc_geometry *geo, const uint64_t cells[16], uint32_t some) {
  return dense16(cells, tagc_lhc_dense_rows(geo)) & ((1u << some) - 1);
}

/* Adds the words of those in dense octets to their further cells; `word` is that of the first of the 16. */
static ALWAYS_INLINE void add_further_words(const struct tagc_lhc_sum *sum, uint32_t dense, const uint32_t *ids,
                                            uint64_t word) {
  const uint32_t part_cells = sum->geo->part_cells;
  uint64_t *first = sum->cells, *second = first + part_cells, *third = second + part_cells;
  for (; dense; dense &= dense - 1) {
    const uint32_t j = (uint32_t)__builtin_ctz(dense);
    for (uint32_t turn = 1; turn < TAGC_LHC_TURNS; turn++) {
      const uint64_t at = tagc_lhc_cells(tagc_lhc_turn_seed(sum->seed, turn), part_cells, ids[j]);
      first[CELL(at, 0)] += word + j;
      second[CELL(at, 1)] += word + j;
      third[CELL(at, 2)] += word + j;
    }
  }
}

/* A cell holds the sum of its elements' words: value << 32 | 1 << 24 | index. One subtraction takes an element out, and
 * a cell with one element is that element's word. */
static ALWAYS_INLINE void add_words(const struct tagc_lhc_sum *sum, uint32_t hashes) {
  const size_t part_cells = sum->geo->part_cells;
  const uint32_t *elements = sum->elements;
  uint64_t *first = sum->cells, *second = first + part_cells, *third = second + part_cells;
  uint64_t *fourth = third + part_cells;
  uint64_t word = UINT64_C(1) << 24;
  for (uint32_t i = 0; i < sum->count; i += 16) {
    const uint32_t some = sum->count - i < 16 ? sum->count - i : 16;
    uint64_t at[16];
    cells16(sum->seed, (uint32_t)part_cells, elements + i, at);
    if (hashes == 3)
      add_further_words(sum, dense_of(sum->geo, at, some), elements + i, word);
    for (uint32_t j = 0; j < some; j++, word++) {
      first[CELL(at[j], 0)] += word;
      second[CELL(at[j], 1)] += word;
      third[CELL(at[j], 2)] += word;
      if (hashes == 4)
        fourth[CELL(at[j], 3)] += word;
    }
  }
}

static void build(const struct tagc_lhc_sum *sum) {
  const uint32_t count = sum->geo->hashes * sum->geo->part_cells;
  const int32_t *counters = sum->counters;
  uint64_t *cells = sum->cells;
  for (uint32_t i = 0; i < count; i++)
    cells[i] = (uint64_t)(uint32_t)counters[i] << 32;
  if (sum->geo->hashes == 3)
    add_words(sum, 3);
  else
    add_words(sum, 4);
}

/* Takes a word out of a cell; returns the rest. */
static ALWAYS_INLINE uint64_t take_word(uint64_t *cell, uint64_t word) { return *cell -= word; }

/* Takes the words of those in dense octets out of their further cells. Returns the new end of the list of rests. */
static ALWAYS_INLINE uint64_t *take_further(const struct tagc_lhc_sum *sum, uint32_t dense, const uint64_t *words,
                                            const uint32_t *ids, uint64_t *end) {
  const uint32_t part = sum->geo->part_cells;
  uint64_t *first = sum->cells, *second = first + part, *third = second + part;
  for (; dense; dense &= dense - 1) {
    const uint32_t j = (uint32_t)__builtin_ctz(dense);
    for (uint32_t turn = 1; turn < TAGC_LHC_TURNS; turn++, end += 3) {
      const uint64_t at = tagc_lhc_cells(tagc_lhc_turn_seed(sum->seed, turn), part, ids[j]);
      end[0] = take_word(&first[CELL(at, 0)], words[j]);
      end[1] = take_word(&second[CELL(at, 1)], words[j]);
      end[2] = take_word(&third[CELL(at, 2)], words[j]);
    }
  }
  return end;
}

/* Takes up to SEGMENT elements, each of which occurs once, out of their cells. The rests go to a list, in which vectors
 * find the singles afterwards: cheaper than checking each. Returns the queue's new tail. */
static ALWAYS_INLINE uint64_t *subtract_values(const struct tagc_lhc_sum *sum, uint32_t hashes, const uint64_t *words,
                                               const uint32_t *ids, uint32_t count, uint64_t *tail) {
  const size_t part = sum->geo->part_cells;
  uint32_t *elements = sum->elements;
  uint64_t *first = sum->cells, *second = first + part, *third = second + part, *fourth = third + part;
  uint64_t left[SEGMENT * 3 * TAGC_LHC_TURNS + 8], *end = left;
  for (uint32_t i = 0; i < count; i += 16) {
    const uint32_t some = count - i < 16 ? count - i : 16;
    uint64_t cells[16];
    cells16(sum->seed, (uint32_t)part, ids + i, cells);
    for (uint32_t j = 0; j < some; j++, end += hashes) {
      uint64_t word = words[i + j], at = cells[j];
      elements[word & 0xffffff] = (uint32_t)(word >> 32);
      end[0] = take_word(&first[CELL(at, 0)], word);
      end[1] = take_word(&second[CELL(at, 1)], word);
      end[2] = take_word(&third[CELL(at, 2)], word);
      if (hashes == 4)
        end[3] = take_word(&fourth[CELL(at, 3)], word);
    }
    if (hashes == 3)
      end = take_further(sum, dense_of(sum->geo, cells, some), words + i, ids + i, end);
  }
  memset(end, 0, 8 * sizeof *end);
  return tail + find_singles(left, (uint32_t)(end - left), tail);
}

/* Lists the queue's words whose elements are not peeled yet, each once, with their ids. Returns their number. */
static ALWAYS_INLINE uint32_t next_words(const struct tagc_lhc_sum *sum, const uint64_t *queue, uint32_t count,
                                         uint64_t *words, uint32_t *ids) {
  const uint32_t *elements = sum->elements, end = sum->count;
  uint8_t *peeled = sum->peeled;
  uint32_t once = 0;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t word = queue[i];
    uint32_t index = (uint32_t)word & 0xffffff;
    index = index < end ? index : end;
    words[once] = word;
    ids[once] = elements[index];
    once += !peeled[index];
    peeled[index] = 1;
  }
  return once;
}

/* Breadth first: a round takes the elements that were alone in a cell when it began; those that become so meanwhile
 * wait for the next. Inside a round the order is free, so it goes segment by segment. */
static uint32_t peel(const struct tagc_lhc_sum *sum) {
  uint64_t *queue = sum->queue, *next = queue + sum->queue_room;
  uint32_t count = find_singles(sum->cells, sum->geo->hashes * sum->geo->part_cells, queue), total = 0;
  memset(sum->peeled, 0, sum->count);
  sum->peeled[sum->count] = 1;
  for (int round = 0; round < TAGC_LHC_ROUNDS && count > 0; round++) {
    uint64_t *tail = next;
    for (uint32_t i = 0; i < count; i += SEGMENT) {
      uint64_t words[SEGMENT + 16];
      uint32_t ids[SEGMENT + 16], some = count - i < SEGMENT ? count - i : SEGMENT;
      uint32_t found = next_words(sum, queue + i, some, words, ids);
      /* The last vector is whole: any ids work beyond the end. */
      memset(ids + found, 0, 16 * sizeof *ids);
      if (sum->geo->hashes == 3)
        tail = subtract_values(sum, 3, words, ids, found, tail);
      else
        tail = subtract_values(sum, 4, words, ids, found, tail);
      total += found;
    }
    count = (uint32_t)(tail - next);
    uint64_t *swap = queue;
    queue = next;
    next = swap;
  }
  return total;
}

/* Writes one complete line; returns the number of sums it used. */
static ALWAYS_INLINE uint32_t output_ordinary(uint32_t mask, const uint32_t *sums, float unit, const char *own,
                                              char *recv, struct tagc_result_format result) {
  const size_t half = 16 * tagc_dtype_size(result.dtype);
  const uint32_t low = (uint32_t)__builtin_popcount(mask & 0xffff);
  __builtin_prefetch(sums + PREFETCH);
  __builtin_prefetch(own + PREFETCH_BYTES);
  __builtin_prefetch(own + PREFETCH_BYTES + half);
  result16(mask & 0xffff, sums, unit, own, recv, result);
  result16(mask >> 16, sums + low, unit, own + half, recv + half, result);
  return (uint32_t)__builtin_popcount(mask);
}

static TAGC_SPECIALISED void output_lines(const struct tagc_lhc_output *out, struct tagc_result_format result,
                                          uint32_t from, uint32_t to) {
  /* In locals, because vector stores may alias all pointees. */
  const uint32_t stripes = out->geo->grid.stripes, *const masks = out->masks, *const sums = out->sums;
  const size_t stripe_lines = out->geo->grid.stripe_lines, support = out->support;
  const size_t bytes = TAGC_GRID_LINE * tagc_dtype_size(result.dtype);
  const uint8_t *exponents = out->exponents;
  const float *units = out->units;
  uint32_t *cursors = out->cursors;
  const char *own = tagc_element_of(out->own, (uint64_t)from * TAGC_GRID_LINE, result.dtype);
  char *recv = (char *)out->recv + from * bytes;
  if (stripes == 1) {
    uint32_t cursor = cursors[0];
    for (uint32_t line = from; line < to; line++, own += bytes, recv += bytes)
      cursor +=
        output_ordinary(masks[line], sums + cursor, units[exponents[line / TAGC_GRID_BLOCK_LINES]], own, recv, result);
    cursors[0] = cursor;
    return;
  }
  for (uint32_t line = from, local = from / stripes; line < to; local++) {
    uint32_t start = local * stripes, stop = to - start < stripes ? to : start + stripes;
    uint32_t stripe = tagc_grid_turn(local, stripes) + (line - start);
    stripe -= stripe < stripes ? 0 : stripes;
    for (; line < stop; line++, own += bytes, recv += bytes) {
      float unit = units[exponents[line / TAGC_GRID_BLOCK_LINES]];
      const uint32_t *at = masks + stripe * stripe_lines + local;
      uint32_t mask = *at, cursor = cursors[stripe];
      /* One slow stream a stripe: the processor's own prefetching does not follow. */
      __builtin_prefetch(at + PREFETCH);
      cursors[stripe] = cursor + output_ordinary(mask, sums + stripe * support + cursor, unit, own, recv, result);
      stripe = stripe + 1 < stripes ? stripe + 1 : 0;
    }
  }
}

static ALWAYS_INLINE void output_typed(const struct tagc_lhc_output *out, enum tagc_dtype dtype, uint32_t from,
                                       uint32_t to) {
  if (out->streaming)
    output_lines(out, result_format(dtype, true, out->scale, out->divisor), from, to);
  else
    output_lines(out, result_format(dtype, false, out->scale, out->divisor), from, to);
}

static void output(const struct tagc_lhc_output *out, uint32_t from, uint32_t to) {
  if (out->dtype == TAGC_FLOAT32)
    output_typed(out, TAGC_FLOAT32, from, to);
  else if (out->dtype == TAGC_FLOAT16)
    output_typed(out, TAGC_FLOAT16, from, to);
  else
    output_typed(out, TAGC_BFLOAT16, from, to);
  if (out->streaming)
    stream_end();
}
