/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the codec exact: see exact.h. Compiled once for each instruction set: the compiler makes vectors
 * of the loops over a block.
 */
#include "kernels/codec/instruction_set.h"
/* clang-format off */
#include TAGC_SIMD_HEADER(kernels/simd/bytes)
/* clang-format on */

#include <string.h>

#include "kernels/allgather/exact_steps.h"

enum { ALL = TAGC_EXACT_BLOCK, AT_A_TIME = 4 };

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define EXACT_UNROLL _Pragma("GCC unroll 8")

/* A block, padded with elements that have not changed. */
struct exact_block {
  uint32_t value[ALL], reference[ALL]; /* their bits */
  uint32_t z[ALL];
  int32_t exponent[ALL]; /* of the reference */
};

/* Lower bits, and the masks of those that are sent: as wide as an element, or several in a word. */
union exact_rests {
  uint64_t word[ALL / 2];
  uint16_t half[ALL];
  uint32_t whole[ALL];
};

struct exact_cut {
  uint8_t symbol[ALL + 8], k[ALL]; /* eight more are written, and never read */
  union exact_rests rest, mask;
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

static ALWAYS_INLINE uint32_t count_above(const uint8_t bytes[ALL], uint32_t limit) {
  uint32_t count = 0;
  EXACT_UNROLL
  for (int i = 0; i < ALL; i += TAGC_BYTES)
    count += (uint32_t)__builtin_popcountll(v64_above(v64_load(bytes + i), (uint8_t)limit));
  return count;
}

/* tagc_exact_shift() without a branch, which a compiler makes vectors of. The upper bits of z become a float, whose
 * exponent is the place of the highest one, and whose highest bit behind it is the next one. */
static ALWAYS_INLINE int32_t shift_of(uint32_t z, enum tagc_dtype dtype) {
  const uint32_t beside = dtype == TAGC_FLOAT32 && z >> 16 ? 15 : 0;
  const float upper = (float)(int32_t)(z >> beside);
  uint32_t bits;
  memcpy(&bits, &upper, sizeof bits);
  return (int32_t)(((bits >> 22) + 1) >> 1) - 128 + (int32_t)beside;
}

/* The least limit that at most TAGC_EXACT_TAILS bytes are above. */
static ALWAYS_INLINE uint32_t find_limit(const uint8_t bytes[ALL]) {
  uint32_t least = 0, most = 255;
#ifdef __AVX2__
  while (least < most) {
    const uint32_t limit = (least + most) / 2;
    if (count_above(bytes, limit) <= TAGC_EXACT_TAILS)
      most = limit;
    else
      least = limit + 1;
  }
  return least;
#else /* counting without vectors takes longer than this */
  uint16_t counts[256 + 16] = {0};
  for (uint32_t i = 0; i < ALL; i++)
    counts[bytes[i] ? bytes[i] : 256 + i % 16]++; /* no processor adds to one count again and again at once */
  for (uint32_t above = 0; most > least && above + counts[most] <= TAGC_EXACT_TAILS; most--)
    above += counts[most];
  return most;
#endif
}

/* The least edge with at most TAGC_EXACT_TAILS elements v > 2, within a byte: each z > 2 wants one of its own. */
static ALWAYS_INLINE uint32_t find_edge(const struct exact_block *b, enum tagc_dtype dtype) {
  uint8_t want[ALL];
  for (int i = 0; i < ALL; i++) {
    const int32_t its = b->exponent[i] + shift_of(b->z[i], dtype), capped = its < 255 ? its : 255;
    want[i] = (uint8_t)(capped & -(int32_t)(b->z[i] > 2));
  }
  return find_limit(want);
}

static ALWAYS_INLINE void find_shifts(const struct exact_block *b, uint32_t edge, enum tagc_dtype dtype,
                                      struct exact_cut *cut) {
  cut->edge = edge;
  for (int i = 0; i < ALL; i++) {
    const uint32_t k = tagc_exact_lower_bits(edge, b->exponent[i], dtype), mask = (UINT32_C(1) << k) - 1;
    cut->k[i] = (uint8_t)k;
    if (dtype == TAGC_FLOAT32)
      cut->mask.whole[i] = mask;
    else
      cut->mask.half[i] = (uint16_t)mask;
  }
}

/* Returns the number of symbols that are not 0. */
static ALWAYS_INLINE uint32_t cut_differences(const struct exact_block *b, struct exact_cut *cut,
                                              enum tagc_dtype dtype) {
  for (int i = 0; i < ALL; i++) {
    const uint32_t z = b->z[i], v = z >> cut->k[i];
    cut->symbol[i] = (uint8_t)(v < 3 ? v : 3);
    if (dtype == TAGC_FLOAT32)
      cut->rest.whole[i] = z;
    else
      cut->rest.half[i] = (uint16_t)z;
  }
  return count_above(cut->symbol, 0);
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

/* A loop over the places of the symbols above the limit, in order. */
#define FOR_SYMBOLS(cut, limit, place) \
  for (uint32_t at_ = 0, place; at_ < ALL; at_ += TAGC_BYTES) \
    for (uint64_t mask_ = v64_above(v64_load((cut)->symbol + at_), (limit)); \
         mask_ && (place = at_ + (uint32_t)__builtin_ctzll(mask_), true); mask_ &= mask_ - 1)

static ALWAYS_INLINE void write_list(struct bit_writer *w, const struct exact_cut *cut, uint32_t others) {
  write_bits(w, others, 4);
  FOR_SYMBOLS(cut, 0, i)
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
    EXACT_UNROLL
    for (uint32_t j = i; j < i + 4 * AT_A_TIME; j += 4) {
      uint32_t four;
      memcpy(&four, cut->symbol + j, sizeof four);
      const uint32_t its = code[(four * UINT32_C(0x01041040) >> 24) & 0xff];
      bits |= (uint64_t)(its & ((1 << TAGC_EXACT_CODE_BITS) - 1)) << count;
      count += its >> TAGC_EXACT_CODE_BITS;
    }
    write_bits(w, bits, count);
  }
}

/* Eight symbols from two quads. */
static ALWAYS_INLINE uint64_t spread_symbols(uint32_t quads) {
#ifdef __BMI2__
  return __builtin_ia32_pdep_di(quads, UINT64_C(0x0303030303030303));
#else
  uint64_t x = (quads | (uint64_t)quads << 24) & UINT64_C(0x000000ff000000ff);
  x = (x | x << 12) & UINT64_C(0x000f000f000f000f);
  return (x | x << 6) & UINT64_C(0x0303030303030303);
#endif
}

/* Five lookups take at most 55 bits, and give at most 40 symbols. The last ones come one quad at a time. */
static void read_quads(struct bit_reader *r, const uint32_t pair_of[1 << TAGC_EXACT_CODE_BITS], struct exact_cut *cut) {
  enum { LOOKUPS = 5, MASK = (1 << TAGC_EXACT_CODE_BITS) - 1 };
  uint32_t at = 0;
  while (at + 8 * LOOKUPS <= ALL) {
    uint64_t bits = peek_bits(r);
    uint32_t count = 0;
    EXACT_UNROLL
    for (int i = 0; i < LOOKUPS; i++) {
      const uint32_t pair = pair_of[bits & MASK], length = pair >> 16 & 15;
      const uint64_t symbols = spread_symbols(pair & 0xffff);
      memcpy(cut->symbol + at, &symbols, sizeof symbols);
      at += pair >> 24;
      bits >>= length;
      count += length;
    }
    skip_bits(r, count);
  }
  for (; at < ALL; at += 4) {
    const uint32_t pair = pair_of[peek_bits(r) & MASK], symbols = (uint32_t)spread_symbols(pair & 0xff);
    memcpy(cut->symbol + at, &symbols, sizeof symbols);
    skip_bits(r, pair >> 20 & 15);
  }
}

static ALWAYS_INLINE void write_tails(struct bit_writer *w, const struct exact_block *b, const struct exact_cut *cut) {
  FOR_SYMBOLS(cut, 2, i) {
    const uint32_t x = (b->z[i] >> cut->k[i]) - 2, behind = tagc_exact_top(x);
    write_bits(w, UINT64_C(1) << behind, behind + 1);
    write_bits(w, x ^ UINT32_C(1) << behind, behind);
  }
}

/* Sets v of the elements with a tail in b->z. */
static ALWAYS_INLINE void read_tails(struct bit_reader *r, const struct exact_cut *cut, struct exact_block *b) {
  FOR_SYMBOLS(cut, 2, i) {
    const unsigned behind = (unsigned)__builtin_ctzll(peek_bits(r) | UINT64_C(1) << 31);
    skip_bits(r, behind + 1);
    b->z[i] = 2 + (UINT32_C(1) << behind | read_bits(r, behind));
  }
}

/* Without the instruction a compiler calls a function. */
static ALWAYS_INLINE unsigned count_bits(uint64_t x) {
#ifdef __POPCNT__
  return (unsigned)__builtin_popcountll(x);
#else
  x -= x >> 1 & UINT64_C(0x5555555555555555);
  x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
  return (unsigned)(((x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f)) * UINT64_C(0x0101010101010101) >> 56);
#endif
}

/* Lower bits of the elements in eight bytes, one behind the other: those of the masks, each from the lowest on. */
static ALWAYS_INLINE uint64_t squeeze_rests(uint64_t from, uint64_t masks, enum tagc_dtype dtype) {
#ifdef __BMI2__
  (void)dtype;
  return __builtin_ia32_pext_di(from, masks);
#else
  const unsigned width = dtype == TAGC_FLOAT32 ? 32 : 16;
  uint64_t bits = 0;
  unsigned count = 0;
  for (unsigned at = 0; at < 64 && masks; at += width) {
    const uint64_t mask = masks >> at & ((UINT64_C(1) << width) - 1);
    bits |= (from >> at & mask) << count;
    count += count_bits(mask);
  }
  return bits;
#endif
}

/* And back. */
static ALWAYS_INLINE uint64_t spread_rests(uint64_t bits, uint64_t masks, enum tagc_dtype dtype) {
#ifdef __BMI2__
  (void)dtype;
  return __builtin_ia32_pdep_di(bits, masks);
#else
  const unsigned width = dtype == TAGC_FLOAT32 ? 32 : 16;
  uint64_t to = 0;
  for (unsigned at = 0; at < 64 && masks; at += width) {
    const uint64_t mask = masks >> at & ((UINT64_C(1) << width) - 1);
    to |= (bits & mask) << at;
    bits >>= count_bits(mask);
  }
  return to;
#endif
}

/* Words that are written or read at once, if they have at most 56 bits together. */
enum { EXACT_WORDS = 4, EXACT_AT_ONCE = 56 };

static ALWAYS_INLINE uint32_t rest_words(enum tagc_dtype dtype) { return dtype == TAGC_FLOAT32 ? ALL / 2 : ALL / 4; }

static ALWAYS_INLINE unsigned count_of(const uint64_t masks[EXACT_WORDS]) {
  return count_bits(masks[0]) + count_bits(masks[1]) + count_bits(masks[2]) + count_bits(masks[3]);
}

/* Up to 64 bits. */
static ALWAYS_INLINE void write_many(struct bit_writer *w, uint64_t bits, unsigned count) {
  const unsigned low = count < 32 ? count : 32;
  write_bits(w, bits & ((UINT64_C(1) << low) - 1), low);
  write_bits(w, count > 32 ? bits >> 32 : 0, count - low);
}

static ALWAYS_INLINE uint64_t read_many(struct bit_reader *r, unsigned count) {
  const unsigned low = count < 32 ? count : 32;
  const uint64_t bits = read_bits(r, low);
  return bits | (uint64_t)read_bits(r, count - low) << 32;
}

static ALWAYS_INLINE void write_rests(struct bit_writer *w, const struct exact_cut *cut, enum tagc_dtype dtype) {
  for (uint32_t at = 0; at < rest_words(dtype); at += EXACT_WORDS) {
    const uint64_t *words = cut->rest.word + at, *masks = cut->mask.word + at;
    const unsigned count = count_of(masks);
    uint64_t all = 0;
    unsigned filled = 0;
    EXACT_UNROLL
    for (uint32_t i = 0; i < EXACT_WORDS; i++) {
      const uint64_t bits = squeeze_rests(words[i], masks[i], dtype);
      if (count > EXACT_AT_ONCE)
        write_many(w, bits, count_bits(masks[i]));
      else
        all |= bits << filled;
      filled += count_bits(masks[i]);
    }
    if (count <= EXACT_AT_ONCE)
      write_bits(w, all, count);
  }
}

static ALWAYS_INLINE void read_rests(struct bit_reader *r, struct exact_cut *cut, enum tagc_dtype dtype) {
  for (uint32_t at = 0; at < rest_words(dtype); at += EXACT_WORDS) {
    const uint64_t *masks = cut->mask.word + at;
    const unsigned count = count_of(masks);
    uint64_t all = peek_bits(r);
    EXACT_UNROLL
    for (uint32_t i = 0; i < EXACT_WORDS; i++) {
      if (count > EXACT_AT_ONCE)
        all = read_many(r, count_bits(masks[i]));
      cut->rest.word[at + i] = spread_rests(all, masks[i], dtype);
      if (count <= EXACT_AT_ONCE)
        all >>= count_bits(masks[i]);
    }
    if (count <= EXACT_AT_ONCE)
      skip_bits(r, count);
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
    write_tails(&w, b, cut);
  if (cut->edge)
    write_rests(&w, cut, dtype);
  return (size_t)(w.to - to) + (w.fill > 0);
}

/* -- blocks with few changes --------------------------------------------------------------------------------------- */

static ALWAYS_INLINE uint32_t element_at(const void *from, uint32_t i, enum tagc_dtype dtype) {
  uint32_t wide;
  uint16_t half;
  if (dtype == TAGC_FLOAT32) {
    memcpy(&wide, (const uint8_t *)from + 4 * i, sizeof wide);
    return wide;
  }
  memcpy(&half, (const uint8_t *)from + 2 * i, sizeof half);
  return half;
}

/* Marks the elements of a whole block that have changed. Returns their number. */
static ALWAYS_INLINE uint32_t mark_changes(const void *value, const void *reference, enum tagc_dtype dtype,
                                           uint8_t changed[ALL]) {
  uint32_t wide[2][ALL];
  uint16_t half[2][ALL];
  if (dtype == TAGC_FLOAT32) {
    memcpy(wide[0], value, sizeof wide[0]);
    memcpy(wide[1], reference, sizeof wide[1]);
    for (int i = 0; i < ALL; i++)
      changed[i] = wide[0][i] != wide[1][i];
  } else {
    memcpy(half[0], value, sizeof half[0]);
    memcpy(half[1], reference, sizeof half[1]);
    for (int i = 0; i < ALL; i++)
      changed[i] = half[0][i] != half[1][i];
  }
  return count_above(changed, 0);
}

/* Encodes a whole block if so few elements have changed that all are in a list, and the edge is 0: the same bits as
 * the long way's, whatever that looks at in between. */
static ALWAYS_INLINE bool encode_few(const void *value, const void *reference, uint8_t *to, uint32_t *head,
                                     enum tagc_dtype dtype) {
  struct exact_block b;
  struct exact_cut cut;
  struct bit_writer w = {.to = to};
  uint32_t far = 0;
  const uint32_t others = mark_changes(value, reference, dtype, cut.symbol);
  if (others > TAGC_EXACT_LISTED)
    return false;
  FOR_SYMBOLS(&cut, 0, i) {
    b.z[i] = tagc_exact_difference(element_at(value, i, dtype), element_at(reference, i, dtype), dtype);
    cut.symbol[i] = (uint8_t)(b.z[i] < 3 ? b.z[i] : 3);
    cut.k[i] = 0;
    far += b.z[i] > 2;
  }
  if (far > TAGC_EXACT_TAILS)
    return false;
  if (others) {
    write_list(&w, &cut, others);
    write_tails(&w, &b, &cut);
  }
  *head = tagc_exact_level(others) << 8 | (uint32_t)(w.to - to + (w.fill > 0)) << 12;
  return true;
}

/* Decodes a block whose level is 0 or 1, and whose edge is 0. `to` may be the reference. */
static ALWAYS_INLINE void decode_few(const uint8_t *stream, size_t bytes, uint32_t level, const void *reference,
                                     uint32_t count, void *to, enum tagc_dtype dtype) {
  const size_t element = tagc_dtype_size(dtype);
  struct bit_reader r = {.from = stream, .end = 8 * (uint64_t)bytes};
  struct exact_block b;
  struct exact_cut cut;
  memmove(to, reference, count * element);
  if (!level)
    return;
  memset(cut.symbol, 0, sizeof cut.symbol);
  read_list(&r, &cut);
  read_tails(&r, &cut, &b);
  FOR_SYMBOLS(&cut, 0, i) {
    const uint32_t z = cut.symbol[i] < 3 ? cut.symbol[i] : b.z[i];
    if (i >= count)
      return;
    const uint32_t value = tagc_exact_sum(element_at(to, i, dtype), z, dtype);
    const uint16_t half = (uint16_t)value;
    memcpy((uint8_t *)to + i * element, dtype == TAGC_FLOAT32 ? (const void *)&value : &half, element);
  }
}

/* -- any blocks ---------------------------------------------------------------------------------------------------- */

static ALWAYS_INLINE size_t exact_encode_typed(const struct tagc_exact_tables *tables, const void *value,
                                               const void *reference, uint32_t count, uint8_t *to, uint32_t *head,
                                               enum tagc_dtype dtype) {
  struct exact_block b;
  struct exact_cut cut;
  const size_t stored = count * tagc_dtype_size(dtype);
  if (count == ALL && encode_few(value, reference, to, head, dtype))
    return *head >> 12;
  load_elements(value, count, dtype, b.value);
  load_reference(&b, reference, count, dtype);
  take_differences(&b, dtype);
  const uint32_t edge = find_edge(&b, dtype);
  find_shifts(&b, edge, dtype, &cut);
  const uint32_t others = cut_differences(&b, &cut, dtype), level = tagc_exact_level(others);
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

/* Sets b->z. */
static ALWAYS_INLINE void read_stream(const struct tagc_exact_pairs *pairs, const uint8_t *stream, size_t bytes,
                                      uint32_t level, struct exact_cut *cut, struct exact_block *b,
                                      enum tagc_dtype dtype) {
  struct bit_reader r = {.from = stream, .end = 8 * (uint64_t)bytes};
  if (level < 2)
    memset(cut->symbol, 0, sizeof cut->symbol);
  if (level == TAGC_EXACT_LIST)
    read_list(&r, cut);
  else if (level)
    read_quads(&r, pairs->of[level], cut);
  for (int i = 0; i < ALL; i++)
    b->z[i] = cut->symbol[i];
  if (level)
    read_tails(&r, cut, b);
  if (!cut->edge)
    return;
  read_rests(&r, cut, dtype);
  for (int i = 0; i < ALL; i++)
    b->z[i] = b->z[i] << cut->k[i] | (dtype == TAGC_FLOAT32 ? cut->rest.whole[i] : cut->rest.half[i]);
}

static ALWAYS_INLINE int exact_decode_typed(const struct tagc_exact_pairs *pairs, const uint8_t *stream, size_t bytes,
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
  if (level <= TAGC_EXACT_LIST && !(head & 0xff)) {
    decode_few(stream, bytes, level, reference, count, to, dtype);
    return 0;
  }
  load_reference(&b, reference, count, dtype);
  find_shifts(&b, head & 0xff, dtype, &cut);
  read_stream(pairs, stream, bytes, level, &cut, &b, dtype);
  add_differences(&b, dtype);
  store_elements(b.value, count, dtype, to);
  return 0;
}

static void exact_decode(const struct tagc_exact_pairs *pairs, const uint8_t *stream, size_t bytes, uint32_t head,
                         const void *reference, uint32_t count, enum tagc_dtype dtype, void *to) {
  if (dtype == TAGC_FLOAT32)
    exact_decode_typed(pairs, stream, bytes, head, reference, count, to, TAGC_FLOAT32);
  else if (dtype == TAGC_FLOAT16)
    exact_decode_typed(pairs, stream, bytes, head, reference, count, to, TAGC_FLOAT16);
  else
    exact_decode_typed(pairs, stream, bytes, head, reference, count, to, TAGC_BFLOAT16);
}

/* -- digests ------------------------------------------------------------------------------------------------------- */

/* Without products of places: in each of sixteen lanes the second sum is a sum of sums. Row j of the block's rows is in
 * ROWS - j of them. */
static ALWAYS_INLINE uint64_t digest_block(const void *block, enum tagc_dtype dtype) {
  enum { LANES = 16, ROWS = ALL / LANES };
  uint32_t place_hash[LANES], lane_sum[LANES] = {0}, sums[LANES] = {0}, sum = 0, weighted = 0;
  for (uint32_t lane = 0; lane < LANES; lane++)
    place_hash[lane] = tagc_exact_place_hash(lane);
  for (uint32_t row = 0; row < ROWS; row++)
    for (uint32_t lane = 0; lane < LANES; lane++) {
      lane_sum[lane] += tagc_exact_mix_at(element_at(block, row * LANES + lane, dtype), place_hash[lane]);
      sums[lane] += lane_sum[lane];
      place_hash[lane] += tagc_exact_place_hash(LANES);
    }
  for (uint32_t lane = 0; lane < LANES; lane++) {
    const uint32_t by_row = ROWS * lane_sum[lane] - sums[lane];
    sum += lane_sum[lane];
    weighted += (2 * lane + 1) * lane_sum[lane] + 2 * LANES * by_row;
  }
  return (uint64_t)weighted << 32 | sum;
}

static ALWAYS_INLINE uint64_t exact_digest_typed(const void *values, uint64_t first, uint64_t count,
                                                 enum tagc_dtype dtype) {
  uint64_t digest = 0, at = 0;
  for (; at + ALL <= count; at += ALL)
    digest += tagc_exact_block_digest(digest_block(tagc_element_of(values, at, dtype), dtype), first + at);
  if (at < count) {
    uint32_t padded[ALL] = {0};
    memcpy(padded, tagc_element_of(values, at, dtype), (count - at) * tagc_dtype_size(dtype));
    digest += tagc_exact_block_digest(digest_block(padded, dtype), first + at);
  }
  return digest;
}

static uint64_t exact_digest(const void *values, uint64_t first, uint64_t count, enum tagc_dtype dtype) {
  return dtype == TAGC_FLOAT32 ? exact_digest_typed(values, first, count, TAGC_FLOAT32)
                               : exact_digest_typed(values, first, count, TAGC_BFLOAT16);
}

const struct tagc_exact_kernels TAGC_SIMD_TABLE(tagc_exact) = {
  .encode = exact_encode,
  .decode = exact_decode,
  .digest = exact_digest,
};
