/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the codec exact: see exact.h. Compiled once for each instruction set: the compiler makes vectors
 * of the loops over a block.
 */
#include "kernels/codec/instruction_set.h"

#include <string.h>

#include "kernels/allgather/exact_steps.h"

enum { ALL = TAGC_EXACT_BLOCK, AT_A_TIME = 4 };

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* A block, padded with elements that have not changed. */
struct exact_block {
  uint32_t value[ALL], reference[ALL]; /* their bits */
  uint32_t z[ALL];
  int32_t exponent[ALL]; /* of the reference */
};

struct exact_cut {
  uint32_t v[ALL];
  uint8_t symbol[ALL], k[ALL];
  uint32_t edge;
};

/* -- elements ------------------------------------------------------------------------------------------------------ */

static ALWAYS_INLINE void load_elements(const void *from, uint32_t count, enum tagc_dtype dtype, uint32_t to[ALL]) {
  uint16_t half[ALL];
  if (dtype == TAGC_FLOAT32) {
    memcpy(to, from, count * sizeof(uint32_t));
    memset(to + count, 0, (ALL - count) * sizeof(uint32_t));
    return;
  }
  memcpy(half, from, count * sizeof(uint16_t));
  memset(half + count, 0, (ALL - count) * sizeof(uint16_t));
  for (int i = 0; i < ALL; i++)
    to[i] = half[i];
}

static ALWAYS_INLINE void store_elements(const uint32_t from[ALL], uint32_t count, enum tagc_dtype dtype, void *to) {
  uint16_t half[ALL];
  if (dtype == TAGC_FLOAT32) {
    memcpy(to, from, count * sizeof(uint32_t));
    return;
  }
  for (int i = 0; i < ALL; i++)
    half[i] = (uint16_t)from[i];
  memcpy(to, half, count * sizeof(uint16_t));
}

static ALWAYS_INLINE void load_reference(struct exact_block *b, const void *reference, uint32_t count,
                                         enum tagc_dtype dtype) {
  load_elements(reference, count, dtype, b->reference);
  for (int i = 0; i < ALL; i++)
    b->exponent[i] = tagc_exact_exponent(b->reference[i], dtype);
}

static ALWAYS_INLINE void take_differences(struct exact_block *b, enum tagc_dtype dtype) {
  for (int i = 0; i < ALL; i++)
    b->z[i] = tagc_exact_difference(b->value[i], b->reference[i], dtype);
}

static ALWAYS_INLINE void add_differences(struct exact_block *b, enum tagc_dtype dtype) {
  for (int i = 0; i < ALL; i++)
    b->value[i] = tagc_exact_sum(b->reference[i], b->z[i], dtype);
}

/* -- the cut ------------------------------------------------------------------------------------------------------- */

/* Lists the places of the flags that are 1, and returns their number. Eight flags become eight bits by a
 * multiplication: no processor would predict a branch for each. */
static ALWAYS_INLINE uint32_t list_flags(const uint8_t flags[ALL], uint16_t list[ALL]) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < ALL; i += 64) {
    uint64_t mask = 0;
    for (uint32_t j = 0; j < 64; j += 8) {
      uint64_t eight;
      memcpy(&eight, flags + i + j, sizeof eight);
      mask |= (eight * UINT64_C(0x0102040810204080) >> 56) << j;
    }
    for (; mask; mask &= mask - 1)
      list[count++] = (uint16_t)(i + (uint32_t)__builtin_ctzll(mask));
  }
  return count;
}

/* The least edge with at most TAGC_EXACT_TAILS elements v > 2, within a byte. */
static uint32_t find_edge(const struct exact_block *b) {
  uint16_t want[256 + 32 + 1] = {0}, found[ALL];
  uint8_t flags[ALL];
  uint32_t above = 0, edge = 256 + 32;
  for (int i = 0; i < ALL; i++)
    flags[i] = b->z[i] > 2;
  const uint32_t large = list_flags(flags, found);
  if (large <= TAGC_EXACT_TAILS)
    return 0;
  for (uint32_t i = 0; i < large; i++)
    want[b->exponent[found[i]] + tagc_exact_shift(b->z[found[i]])]++;
  while (edge > 0 && above + want[edge] <= TAGC_EXACT_TAILS)
    above += want[edge--];
  return edge < 255 ? edge : 255;
}

static ALWAYS_INLINE void find_shifts(const struct exact_block *b, uint32_t edge, enum tagc_dtype dtype,
                                      struct exact_cut *cut) {
  cut->edge = edge;
  for (int i = 0; i < ALL; i++)
    cut->k[i] = (uint8_t)tagc_exact_lower_bits(edge, b->exponent[i], dtype);
}

/* Returns the number of symbols that are not 0. */
static ALWAYS_INLINE uint32_t cut_differences(const struct exact_block *b, struct exact_cut *cut) {
  uint32_t others = 0;
  for (int i = 0; i < ALL; i++) {
    cut->v[i] = b->z[i] >> cut->k[i];
    cut->symbol[i] = (uint8_t)(cut->v[i] < 3 ? cut->v[i] : 3);
    others += cut->v[i] != 0;
  }
  return others;
}

/* The elements with a tail. */
static ALWAYS_INLINE uint32_t list_tails(const struct exact_cut *cut, uint16_t list[ALL]) {
  uint8_t flags[ALL];
  for (int i = 0; i < ALL; i++)
    flags[i] = cut->symbol[i] == 3;
  return list_flags(flags, list);
}

/* The elements with lower bits. */
static ALWAYS_INLINE uint32_t list_shifts(const struct exact_cut *cut, uint16_t list[ALL]) {
  uint8_t flags[ALL];
  for (int i = 0; i < ALL; i++)
    flags[i] = cut->k[i] != 0;
  return list_flags(flags, list);
}

/* -- bits ---------------------------------------------------------------------------------------------------------- */

struct bit_writer {
  uint8_t *to;
  uint64_t bits;
  unsigned fill; /* below 8 between calls */
};

/* At most 56 bits, and none above them. */
static ALWAYS_INLINE void write_bits(struct bit_writer *w, uint64_t bits, unsigned count) {
  w->bits |= bits << w->fill;
  w->fill += count;
  memcpy(w->to, &w->bits, sizeof w->bits);
  w->to += w->fill >> 3;
  w->bits >>= w->fill & ~7u;
  w->fill &= 7;
}

struct bit_reader {
  const uint8_t *from;
  uint64_t at, end; /* bits */
};

/* At least 57 bits. Eight bytes behind the end can be read. */
static ALWAYS_INLINE uint64_t peek_bits(const struct bit_reader *r) {
  uint64_t bits;
  memcpy(&bits, r->from + (r->at >> 3), sizeof bits);
  return bits >> (r->at & 7);
}

static ALWAYS_INLINE void skip_bits(struct bit_reader *r, uint64_t count) {
  r->at += count;
  r->at = r->at < r->end ? r->at : r->end;
}

static ALWAYS_INLINE uint32_t read_bits(struct bit_reader *r, unsigned count) {
  const uint64_t bits = peek_bits(r) & ((UINT64_C(1) << count) - 1);
  skip_bits(r, count);
  return (uint32_t)bits;
}

/* -- the parts of a stream ----------------------------------------------------------------------------------------- */

static void write_list(struct bit_writer *w, const struct exact_cut *cut, uint32_t others) {
  write_bits(w, others, 4);
  for (uint32_t i = 0; i < ALL; i++)
    if (cut->symbol[i])
      write_bits(w, i | (uint32_t)cut->symbol[i] << 9, 11);
}

static void read_list(struct bit_reader *r, struct exact_cut *cut) {
  for (uint32_t left = read_bits(r, 4); left; left--) {
    const uint32_t both = read_bits(r, 11);
    cut->symbol[both & 511] = (uint8_t)(both >> 9);
  }
}

static void write_quads(struct bit_writer *w, const uint16_t code[TAGC_EXACT_QUADS], const struct exact_cut *cut) {
  for (uint32_t i = 0; i < ALL; i += 4 * AT_A_TIME) {
    uint64_t bits = 0;
    unsigned count = 0;
    for (uint32_t j = i; j < i + 4 * AT_A_TIME; j += 4) {
      const uint8_t *s = cut->symbol + j;
      const uint32_t its = code[s[0] | s[1] << 2 | s[2] << 4 | s[3] << 6];
      bits |= (uint64_t)(its & ((1 << TAGC_EXACT_CODE_BITS) - 1)) << count;
      count += its >> TAGC_EXACT_CODE_BITS;
    }
    write_bits(w, bits, count);
  }
}

static void read_quads(struct bit_reader *r, const uint16_t quad[1 << TAGC_EXACT_CODE_BITS], struct exact_cut *cut) {
  for (uint32_t i = 0; i < ALL; i += 4 * AT_A_TIME) {
    uint64_t bits = peek_bits(r);
    unsigned count = 0;
    for (uint32_t j = i; j < i + 4 * AT_A_TIME; j += 4) {
      const uint32_t its = quad[bits & ((1 << TAGC_EXACT_CODE_BITS) - 1)], q = its & 0xff;
      const uint32_t symbols = (q & 3) | (q & 0xc) << 6 | (q & 0x30) << 12 | (q & 0xc0) << 18;
      memcpy(cut->symbol + j, &symbols, sizeof symbols);
      bits >>= its >> 8;
      count += its >> 8;
    }
    skip_bits(r, count);
  }
}

static void write_tails(struct bit_writer *w, const struct exact_cut *cut) {
  uint16_t list[ALL];
  const uint32_t count = list_tails(cut, list);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t x = cut->v[list[i]] - 2, behind = tagc_exact_top(x);
    write_bits(w, UINT64_C(1) << behind, behind + 1);
    write_bits(w, x ^ UINT32_C(1) << behind, behind);
  }
}

static void read_tails(struct bit_reader *r, struct exact_cut *cut) {
  uint16_t list[ALL];
  const uint32_t count = list_tails(cut, list);
  for (uint32_t i = 0; i < count; i++) {
    const unsigned behind = (unsigned)__builtin_ctzll(peek_bits(r) | UINT64_C(1) << 31);
    skip_bits(r, behind + 1);
    cut->v[list[i]] = 2 + (UINT32_C(1) << behind | read_bits(r, behind));
  }
}

/* Of 16-bit types three elements have at most 45 lower bits. */
static ALWAYS_INLINE uint32_t rests_at_once(enum tagc_dtype dtype) { return dtype == TAGC_FLOAT32 ? 1 : 3; }

static ALWAYS_INLINE void write_rests(struct bit_writer *w, const struct exact_block *b, const struct exact_cut *cut,
                                      enum tagc_dtype dtype) {
  const uint32_t at_once = rests_at_once(dtype);
  uint16_t list[ALL];
  const uint32_t count = list_shifts(cut, list);
  for (uint32_t i = 0; i < count;) {
    uint64_t bits = 0;
    unsigned filled = 0;
    for (const uint32_t end = i + at_once < count ? i + at_once : count; i < end; i++) {
      const unsigned k = cut->k[list[i]];
      bits |= (uint64_t)(b->z[list[i]] & ((UINT32_C(1) << k) - 1)) << filled;
      filled += k;
    }
    write_bits(w, bits, filled);
  }
}

static ALWAYS_INLINE void read_rests(struct bit_reader *r, const struct exact_cut *cut, struct exact_block *b,
                                     enum tagc_dtype dtype) {
  const uint32_t at_once = rests_at_once(dtype);
  uint16_t list[ALL];
  const uint32_t count = list_shifts(cut, list);
  for (int i = 0; i < ALL; i++)
    b->z[i] = cut->v[i] << cut->k[i];
  for (uint32_t i = 0; i < count;) {
    uint64_t bits = peek_bits(r);
    unsigned taken = 0;
    for (const uint32_t end = i + at_once < count ? i + at_once : count; i < end; i++) {
      const unsigned k = cut->k[list[i]];
      b->z[list[i]] |= (uint32_t)(bits & ((UINT64_C(1) << k) - 1));
      bits >>= k;
      taken += k;
    }
    skip_bits(r, taken);
  }
}

/* -- blocks -------------------------------------------------------------------------------------------------------- */

static ALWAYS_INLINE size_t write_stream(const struct tagc_exact_tables *tables, const struct exact_block *b,
                                         const struct exact_cut *cut, uint32_t level, uint32_t others, uint8_t *to,
                                         enum tagc_dtype dtype) {
  struct bit_writer w = {.to = to};
  if (level == TAGC_EXACT_LIST)
    write_list(&w, cut, others);
  else if (level)
    write_quads(&w, tables->code[level], cut);
  if (level)
    write_tails(&w, cut);
  if (cut->edge)
    write_rests(&w, b, cut, dtype);
  return (size_t)(w.to - to) + (w.fill > 0);
}

static ALWAYS_INLINE size_t exact_encode_typed(const struct tagc_exact_tables *tables, const void *value,
                                               const void *reference, uint32_t count, uint8_t *to, uint32_t *head,
                                               enum tagc_dtype dtype) {
  struct exact_block b;
  struct exact_cut cut;
  const size_t stored = count * tagc_dtype_size(dtype);
  load_elements(value, count, dtype, b.value);
  load_reference(&b, reference, count, dtype);
  take_differences(&b, dtype);
  const uint32_t edge = find_edge(&b);
  find_shifts(&b, edge, dtype, &cut);
  const uint32_t others = cut_differences(&b, &cut), level = tagc_exact_level(others);
  const size_t bytes = write_stream(tables, &b, &cut, level, others, to, dtype);
  *head = edge | level << 8 | (uint32_t)bytes << 12;
  if (bytes < stored)
    return bytes;
  memcpy(to, value, stored);
  *head = TAGC_EXACT_STORED << 8 | (uint32_t)stored << 12;
  return stored;
}

static size_t exact_encode(const struct tagc_exact_tables *tables, const void *value, const void *reference,
                           uint32_t count, enum tagc_dtype dtype, uint8_t *to, uint32_t *head) {
  return dtype == TAGC_FLOAT32   ? exact_encode_typed(tables, value, reference, count, to, head, TAGC_FLOAT32)
         : dtype == TAGC_FLOAT16 ? exact_encode_typed(tables, value, reference, count, to, head, TAGC_FLOAT16)
                                 : exact_encode_typed(tables, value, reference, count, to, head, TAGC_BFLOAT16);
}

static ALWAYS_INLINE void read_stream(const struct tagc_exact_tables *tables, const uint8_t *stream, size_t bytes,
                                      uint32_t level, struct exact_cut *cut, struct exact_block *b,
                                      enum tagc_dtype dtype) {
  struct bit_reader r = {.from = stream, .end = 8 * (uint64_t)bytes};
  memset(cut->symbol, 0, sizeof cut->symbol);
  if (level == TAGC_EXACT_LIST)
    read_list(&r, cut);
  else if (level)
    read_quads(&r, tables->quad[level], cut);
  for (int i = 0; i < ALL; i++)
    cut->v[i] = cut->symbol[i];
  if (level)
    read_tails(&r, cut);
  if (cut->edge)
    read_rests(&r, cut, b, dtype);
  else
    memcpy(b->z, cut->v, sizeof b->z);
}

static ALWAYS_INLINE int exact_decode_typed(const struct tagc_exact_tables *tables, const uint8_t *stream, size_t bytes,
                                            uint32_t head, const void *reference, uint32_t count, void *to,
                                            enum tagc_dtype dtype) {
  struct exact_block b;
  struct exact_cut cut;
  const uint32_t level = head >> 8 & 15;
  if (level >= TAGC_EXACT_LEVELS) {
    if (bytes >= count * tagc_dtype_size(dtype))
      memcpy(to, stream, count * tagc_dtype_size(dtype));
    return 0;
  }
  load_reference(&b, reference, count, dtype);
  find_shifts(&b, head & 0xff, dtype, &cut);
  read_stream(tables, stream, bytes, level, &cut, &b, dtype);
  add_differences(&b, dtype);
  store_elements(b.value, count, dtype, to);
  return 0;
}

static void exact_decode(const struct tagc_exact_tables *tables, const uint8_t *stream, size_t bytes, uint32_t head,
                         const void *reference, uint32_t count, enum tagc_dtype dtype, void *to) {
  if (dtype == TAGC_FLOAT32)
    exact_decode_typed(tables, stream, bytes, head, reference, count, to, TAGC_FLOAT32);
  else if (dtype == TAGC_FLOAT16)
    exact_decode_typed(tables, stream, bytes, head, reference, count, to, TAGC_FLOAT16);
  else
    exact_decode_typed(tables, stream, bytes, head, reference, count, to, TAGC_BFLOAT16);
}

/* -- digests ------------------------------------------------------------------------------------------------------- */

static ALWAYS_INLINE uint64_t digest_block(const uint32_t bits[ALL]) {
  uint32_t sum = 0, weighted = 0;
  for (uint32_t i = 0; i < ALL; i++) {
    const uint32_t x = tagc_exact_mix(bits[i], i);
    sum += x;
    weighted += x * (2 * i + 1);
  }
  return (uint64_t)weighted << 32 | sum;
}

static ALWAYS_INLINE uint64_t exact_digest_typed(const void *values, uint64_t n, enum tagc_dtype dtype) {
  uint64_t digest = n;
  for (uint64_t i = 0; i < n; i += ALL) {
    uint32_t bits[ALL];
    load_elements(tagc_element_of(values, i, dtype), n - i < ALL ? (uint32_t)(n - i) : (uint32_t)ALL, dtype, bits);
    digest += tagc_exact_block_digest(digest_block(bits), i);
  }
  return digest;
}

static uint64_t exact_digest(const void *values, uint64_t n, enum tagc_dtype dtype) {
  return dtype == TAGC_FLOAT32 ? exact_digest_typed(values, n, TAGC_FLOAT32)
                               : exact_digest_typed(values, n, TAGC_BFLOAT16);
}

const struct tagc_exact_kernels TAGC_SIMD_TABLE(tagc_exact) = {
  .encode = exact_encode,
  .decode = exact_decode,
  .digest = exact_digest,
};
