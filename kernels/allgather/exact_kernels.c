/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of the codec exact: see exact.h. Compiled once for each instruction set: vectors of 64 bytes
 * (kernels/simd/bytes.h), and masks of 64 elements. The compiler makes vectors of the other loops over a block.
 */
#include "kernels/codec/instruction_set.h"
/* clang-format off */
#include TAGC_SIMD_HEADER(kernels/simd/bytes)
/* clang-format on */

#include <string.h>

#include "kernels/allgather/exact_steps.h"

enum { ALL = TAGC_EXACT_BLOCK, WORDS = ALL / TAGC_BYTES, SIZES = 4, EIGHT = 8 };

#define ALWAYS_INLINE inline __attribute__((always_inline))
/* Where a mask takes more than one instruction, longer code is not faster, and takes long to compile. */
#ifdef __BMI2__
#define EXACT_UNROLL _Pragma("GCC unroll 8")
#else
#define EXACT_UNROLL
#endif

/* A block, padded with zeros. */
struct exact_block {
  _Alignas(64) uint8_t z[SIZES][ALL]; /* byte by byte, the lowest first: as many as an element has */
  uint8_t exponent[ALL];              /* of the reference */
  uint8_t length[ALL], v[ALL], q[ALL];
  uint64_t plane[WORDS]; /* the elements of which v is larger than so many */
};

/* What stands above a block's map, and how it is sent. */
enum { UPPER = ALL / 4 / 64, EACH_UPPER = WORDS / UPPER };

struct exact_map {
  uint64_t upper[UPPER], third; /* a bit for each four of the map, and for each four of these */
  uint32_t level, bits;
};

/* -- elements ------------------------------------------------------------------------------------------------------ */

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

/* A block's elements, or their copy in `room`, followed by zeros. */
static ALWAYS_INLINE const void *whole_block(const void *from, uint32_t count, int size, uint32_t room[ALL]) {
  if (count == ALL)
    return from;
  memset(room, 0, ALL * sizeof *room);
  return memcpy(room, from, count * (size_t)size);
}

/* In the order of the floats, but for the sign: tagc_exact_ordered() with the highest bit turned. The other way is the
 * same. */
static ALWAYS_INLINE uint16_t turn16(uint16_t bits) {
  return bits ^ ((uint16_t)((int16_t)bits >> 15) & UINT16_C(0x7fff));
}

static ALWAYS_INLINE uint32_t turn32(uint32_t bits) {
  return bits ^ ((uint32_t)((int32_t)bits >> 31) & UINT32_C(0x7fffffff));
}

/* Exponents of halves, and of fp32. */
static ALWAYS_INLINE uint8_t exponent16(uint16_t bits, enum tagc_dtype dtype) {
  return (uint8_t)(dtype == TAGC_FLOAT16 ? bits >> 10 & 0x1f : bits >> 7);
}

static ALWAYS_INLINE void take_differences16(struct exact_block *b, const uint16_t *value, const uint16_t *reference) {
  uint16_t z[ALL];
  for (int i = 0; i < ALL; i++) {
    const uint16_t d = (uint16_t)(turn16(value[i]) - turn16(reference[i]));
    z[i] = (uint16_t)((uint16_t)(d << 1) ^ (uint16_t)((int16_t)d >> 15));
  }
  for (int i = 0; i < ALL; i++) {
    b->z[0][i] = (uint8_t)z[i];
    b->z[1][i] = (uint8_t)(z[i] >> 8);
  }
}

static ALWAYS_INLINE void take_differences32(struct exact_block *b, const uint32_t *value, const uint32_t *reference) {
  uint32_t z[ALL];
  for (int i = 0; i < ALL; i++) {
    const uint32_t d = turn32(value[i]) - turn32(reference[i]);
    z[i] = d << 1 ^ (uint32_t)((int32_t)d >> 31);
  }
  for (int byte = 0; byte < SIZES; byte++)
    for (int i = 0; i < ALL; i++)
      b->z[byte][i] = (uint8_t)(z[i] >> 8 * byte);
}

static ALWAYS_INLINE void find_exponents(struct exact_block *b, const void *reference, enum tagc_dtype dtype) {
  const uint16_t *half = reference;
  const uint32_t *wide = reference;
  if (dtype == TAGC_FLOAT32)
    for (int i = 0; i < ALL; i++)
      b->exponent[i] = (uint8_t)(wide[i] >> 23);
  else if (dtype == TAGC_FLOAT16)
    for (int i = 0; i < ALL; i++)
      b->exponent[i] = exponent16(half[i], TAGC_FLOAT16);
  else
    for (int i = 0; i < ALL; i++)
      b->exponent[i] = exponent16(half[i], TAGC_BFLOAT16);
}

/* Adds the differences to the reference, which `to` may be. */
static ALWAYS_INLINE void add_differences16(const struct exact_block *b, const uint16_t *reference, uint32_t count,
                                            void *to) {
  uint16_t sum[ALL];
  for (int i = 0; i < ALL; i++) {
    const uint16_t z = (uint16_t)(b->z[0][i] | (uint16_t)(b->z[1][i] << 8));
    const uint16_t d = (uint16_t)((uint16_t)(z >> 1) ^ (uint16_t) - (uint16_t)(z & 1));
    sum[i] = turn16((uint16_t)(turn16(reference[i]) + d));
  }
  memcpy(to, sum, count * sizeof *sum);
}

static ALWAYS_INLINE void add_differences32(const struct exact_block *b, const uint32_t *reference, uint32_t count,
                                            void *to) {
  uint32_t sum[ALL], z[ALL];
  for (int i = 0; i < ALL; i++)
    z[i] = b->z[0][i];
  for (int byte = 1; byte < SIZES; byte++)
    for (int i = 0; i < ALL; i++)
      z[i] |= (uint32_t)b->z[byte][i] << 8 * byte;
  for (int i = 0; i < ALL; i++)
    sum[i] = turn32(turn32(reference[i]) + (z[i] >> 1 ^ (0 - (z[i] & 1))));
  memcpy(to, sum, count * sizeof *sum);
}

/* -- masks --------------------------------------------------------------------------------------------------------- */

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

/* The bits where the mask has ones, one behind the other. */
static ALWAYS_INLINE uint64_t squeeze(uint64_t bits, uint64_t mask) {
#ifdef __BMI2__
  return __builtin_ia32_pext_di(bits, mask);
#else
  uint64_t to = 0;
  for (unsigned at = 0; mask; at++, mask &= mask - 1)
    to |= (bits >> __builtin_ctzll(mask) & 1) << at;
  return to;
#endif
}

/* And back. */
static ALWAYS_INLINE uint64_t unsqueeze(uint64_t bits, uint64_t mask) {
#ifdef __BMI2__
  return __builtin_ia32_pdep_di(bits, mask);
#else
  uint64_t to = 0;
  for (; mask; bits >>= 1, mask &= mask - 1)
    to |= (bits & 1) << __builtin_ctzll(mask);
  return to;
#endif
}

/* The same where each byte of the mask has ones from its lowest bit on: the lower bits of eight bytes. */
static ALWAYS_INLINE uint64_t squeeze_bytes(uint64_t bits, uint64_t mask) {
#ifdef __BMI2__
  return __builtin_ia32_pext_di(bits, mask);
#else
  uint64_t to = 0;
  for (unsigned at = 0, byte = 0; byte < 64 && mask >> byte; byte += 8) {
    const uint64_t its = mask >> byte & 0xff;
    to |= (bits >> byte & its) << at;
    at += count_bits(its);
  }
  return to;
#endif
}

static ALWAYS_INLINE uint64_t unsqueeze_bytes(uint64_t bits, uint64_t mask) {
#ifdef __BMI2__
  return __builtin_ia32_pdep_di(bits, mask);
#else
  uint64_t to = 0;
  for (unsigned byte = 0; byte < 64 && mask >> byte; byte += 8) {
    const uint64_t its = mask >> byte & 0xff;
    to |= (bits & its) << byte;
    bits >>= count_bits(its);
  }
  return to;
#endif
}

/* Bits 0, 4, 8, ...: are the four from there on not all 0? */
#define EVERY_FOURTH UINT64_C(0x1111111111111111)

static ALWAYS_INLINE uint64_t mark_fours(uint64_t x) {
  x |= x >> 1;
  return (x | x >> 2) & EVERY_FOURTH;
}

/* -- bits ---------------------------------------------------------------------------------------------------------- */

struct bit_writer {
  uint8_t *to;
  uint64_t bits;
  unsigned fill; /* below 64 between calls */
};

/* At most 64 bits, and none above them. Without a branch, as counts are not foreseen. */
static ALWAYS_INLINE void write_bits(struct bit_writer *w, uint64_t bits, unsigned count) {
  w->bits |= bits << w->fill;
  memcpy(w->to, &w->bits, sizeof w->bits);
  const unsigned all = w->fill + count;
  const uint64_t over = bits >> 1 >> (63 - w->fill);
  w->bits = all >= 64 ? over : w->bits;
  w->to += all / 64 * sizeof w->bits;
  w->fill = all % 64;
}

/* The bytes that are written. */
static ALWAYS_INLINE size_t end_bits(struct bit_writer *w, const uint8_t *begin) {
  memcpy(w->to, &w->bits, sizeof w->bits);
  return (size_t)(w->to - begin) + (w->fill + 7) / 8;
}

struct bit_reader {
  const uint8_t *from;
  uint64_t at, end; /* bits */
};

/* 64 bits. At most nine bytes behind the end are read. */
static ALWAYS_INLINE uint64_t peek_bits(const struct bit_reader *r) {
  const uint8_t *from = r->from + (r->at >> 3);
  const unsigned shift = r->at & 7;
  uint64_t bits;
  memcpy(&bits, from, sizeof bits);
  return bits >> shift | (uint64_t)from[sizeof bits] << 1 << (63 - shift);
}

static ALWAYS_INLINE bool has_bits(const struct bit_reader *r, uint64_t count) { return count <= r->end - r->at; }

/* -- the map ------------------------------------------------------------------------------------------------------- */

/* The fours of the words that are not 0. */
static ALWAYS_INLINE void write_fours(struct bit_writer *w, const uint64_t *words, int count) {
  EXACT_UNROLL
  for (int i = 0; i < count; i++) {
    const uint64_t fours = mark_fours(words[i]);
    write_bits(w, squeeze(words[i], fours * 15), 4 * count_bits(fours));
  }
}

static ALWAYS_INLINE uint32_t count_fours(const uint64_t *words, int count) {
  uint32_t fours = 0;
  EXACT_UNROLL
  for (int i = 0; i < count; i++)
    fours += count_bits(mark_fours(words[i]));
  return fours;
}

static ALWAYS_INLINE struct exact_map look_at_map(const uint64_t map[WORDS]) {
  struct exact_map above = {0};
  EXACT_UNROLL
  for (int i = 0; i < WORDS; i++)
    above.upper[i / EACH_UPPER] |= squeeze(mark_fours(map[i]), EVERY_FOURTH) << 16 * (i % EACH_UPPER);
  above.third = squeeze(mark_fours(above.upper[0]), EVERY_FOURTH) | squeeze(mark_fours(above.upper[1]), EVERY_FOURTH)
                                                                      << 16;
  above.level = tagc_exact_level(count_fours(map, WORDS), count_fours(above.upper, UPPER), count_fours(&above.third, 1),
                                 &above.bits);
  return above;
}

static ALWAYS_INLINE void write_exact_map(struct bit_writer *w, const uint64_t map[WORDS],
                                          const struct exact_map *above) {
  if (above->level == TAGC_EXACT_MAP) {
    memcpy(w->to, map, ALL / 8);
    w->to += ALL / 8;
    return;
  }
  if (above->level == TAGC_EXACT_MAP + 3) {
    write_bits(w, squeeze(mark_fours(above->third), EVERY_FOURTH), 8);
    write_fours(w, &above->third, 1);
  }
  if (above->level == TAGC_EXACT_MAP + 2)
    write_bits(w, above->third, 32);
  if (above->level == TAGC_EXACT_MAP + 1)
    for (int i = 0; i < UPPER; i++)
      write_bits(w, above->upper[i], 64);
  else
    write_fours(w, above->upper, UPPER);
  write_fours(w, map, WORDS);
}

/* Reads the fours that `marks` has a one for each of, sixteen for each word. False: the stream is too short. */
static ALWAYS_INLINE bool read_fours(struct bit_reader *r, const uint64_t *marks, uint64_t *words, int count) {
  uint32_t fours = 0;
  for (int i = 0; i < (count + 3) / 4; i++)
    fours += count_bits(marks[i]);
  if (!has_bits(r, 4 * fours))
    return false;
  EXACT_UNROLL
  for (int i = 0; i < count; i++) {
    const uint64_t its = unsqueeze(marks[i / 4] >> 16 * (i % 4), EVERY_FOURTH);
    words[i] = unsqueeze(peek_bits(r), its * 15);
    r->at += 4 * count_bits(its);
  }
  return true;
}

static ALWAYS_INLINE bool read_words(struct bit_reader *r, uint64_t *words, unsigned bits) {
  if (!has_bits(r, bits))
    return false;
  EXACT_UNROLL
  for (unsigned at = 0; at < bits; at += 64, r->at += bits < 64 ? bits : 64)
    words[at / 64] = peek_bits(r) & (bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX);
  return true;
}

static ALWAYS_INLINE bool read_exact_map(struct bit_reader *r, uint32_t level, uint64_t map[WORDS]) {
  uint64_t upper[UPPER], third, fourth;
  if (level == TAGC_EXACT_MAP)
    return read_words(r, map, ALL);
  if (level == TAGC_EXACT_MAP + 1)
    return read_words(r, upper, ALL / 4) && read_fours(r, upper, map, WORDS);
  if (level == TAGC_EXACT_MAP + 2 ? !read_words(r, &third, ALL / 16)
                                  : !read_words(r, &fourth, ALL / 64) || !read_fours(r, &fourth, &third, 1))
    return false;
  return read_fours(r, &third, upper, UPPER) && read_fours(r, upper, map, WORDS);
}

/* -- lengths ------------------------------------------------------------------------------------------------------- */

/* By the lower and by the upper digit of a byte: its bits from the highest one on. */
static const uint8_t low_lengths[16] = {0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4};
static const uint8_t high_lengths[16] = {0, 5, 6, 6, 7, 7, 7, 7, 8, 8, 8, 8, 8, 8, 8, 8};
/* So many ones; bit so many. */
static const uint8_t byte_masks[16] = {0, 1, 3, 7, 15, 31, 63, 127, 255, 255, 255, 255, 255, 255, 255, 255};
static const uint8_t byte_bits[16] = {1, 2, 4, 8, 16, 32, 64, 128};

static ALWAYS_INLINE struct v64 lengths_of(const struct exact_block *b, int at, int size) {
  struct v64 all = v64_all(0);
  EXACT_UNROLL
  for (int byte = 0; byte < size; byte++) {
    const struct v64 z = v64_load(b->z[byte] + at);
    const struct v64 its =
      v64_max(v64_lookup(low_lengths, v64_low_digits(z)), v64_lookup(high_lengths, v64_high_digits(z)));
    all = v64_max(all, v64_and(v64_plus(its, v64_all(8 * (uint32_t)byte)), v64_nonzero(its)));
  }
  return all;
}

static ALWAYS_INLINE struct v64 shifts_of(const struct exact_block *b, int at, uint32_t edge, int size) {
  const struct v64 exponent = v64_load(b->exponent + at), most = v64_all(8 * (uint32_t)size - 1);
  return v64_and(v64_min(v64_minus(v64_all(edge), exponent), most), v64_nonzero(exponent));
}

/* Sets the lengths, and returns the edge. `without`: the bits of the stream with the edge 0. */
static ALWAYS_INLINE uint32_t find_edge(struct exact_block *b, int size, uint32_t *without) {
  uint32_t sum = 0, count = 0, bits = 0;
  for (int at = 0; at < ALL; at += TAGC_BYTES) {
    const struct v64 length = lengths_of(b, at, size), exponent = v64_load(b->exponent + at),
                     wishes = v64_nonzero(v64_min(v64_minus(length, v64_all(1)), exponent));
    v64_store(b->length + at, length);
    sum += v64_sum(v64_and(v64_plus(length, exponent), wishes));
    count += count_bits(v64_above(wishes, 0));
    bits += v64_sum(v64_plus(length, v64_minus(length, v64_all(1))));
    b->plane[at / TAGC_BYTES] = v64_above(length, 0);
  }
  *without = bits + look_at_map(b->plane).bits;
  return tagc_exact_edge(sum, count);
}

/* From the lengths: v, q, and the map. Returns the bits of the stream. */
static ALWAYS_INLINE uint32_t cut_lengths(struct exact_block *b, uint32_t edge, int size, struct exact_map *above) {
  uint32_t bits = 0;
  for (int at = 0; at < ALL; at += TAGC_BYTES) {
    const struct v64 k = shifts_of(b, at, edge, size), v = v64_minus(v64_load(b->length + at), k),
                     q = v64_plus(k, v64_minus(v, v64_all(1)));
    v64_store(b->v + at, v);
    v64_store(b->q + at, q);
    b->plane[at / TAGC_BYTES] = v64_above(v, 0);
    bits += v64_sum(v64_plus(v, q));
  }
  *above = look_at_map(b->plane);
  return bits + above->bits;
}

/* The elements of the planes, if they are at most AT_ONCE: planes behind that are a word each. */
enum { AT_ONCE = 32 };

struct exact_few {
  uint8_t v[TAGC_BYTES];
  uint16_t place[AT_ONCE];
  uint64_t plane;
};

static ALWAYS_INLINE uint32_t count_planes(const uint64_t plane[WORDS]) {
  uint32_t count = 0;
  EXACT_UNROLL
  for (int i = 0; i < WORDS; i++)
    count += count_bits(plane[i]);
  return count;
}

static ALWAYS_INLINE void list_few(const struct exact_block *b, uint32_t count, struct exact_few *few) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < WORDS; i++)
    for (uint64_t left = b->plane[i]; left; left &= left - 1)
      few->place[next++] = (uint16_t)(TAGC_BYTES * i + (uint32_t)__builtin_ctzll(left));
  few->plane = (UINT64_C(1) << count) - 1;
  v64_store(few->v, v64_all(0));
}

static ALWAYS_INLINE void write_planes(struct bit_writer *w, struct exact_block *b) {
  struct exact_few few;
  uint32_t limit = 1, count;
  for (; (count = count_planes(b->plane)) > AT_ONCE; limit++) {
    EXACT_UNROLL
    for (int i = 0; i < WORDS; i++) {
      const uint64_t next = v64_above(v64_load(b->v + TAGC_BYTES * i), (uint8_t)limit);
      write_bits(w, squeeze(next, b->plane[i]), count_bits(b->plane[i]));
      b->plane[i] = next;
    }
  }
  list_few(b, count, &few);
  for (uint32_t i = 0; i < count; i++)
    few.v[i] = b->v[few.place[i]];
  for (; few.plane; limit++) {
    const uint64_t next = v64_above(v64_load(few.v), (uint8_t)limit);
    write_bits(w, squeeze(next, few.plane), count_bits(few.plane));
    few.plane = next;
  }
}

/* Sets v. False: the stream is too short. */
static ALWAYS_INLINE bool read_planes(struct bit_reader *r, struct exact_block *b, int size) {
  struct exact_few few;
  uint32_t count, planes = 8 * (uint32_t)size;
  for (int i = 0; i < WORDS; i++)
    v64_store(b->v + TAGC_BYTES * i, v64_spread(b->plane[i]));
  for (; (count = count_planes(b->plane)) > AT_ONCE && planes; planes--) {
    if (!has_bits(r, count))
      return false;
    EXACT_UNROLL
    for (int i = 0; i < WORDS; i++) {
      uint8_t *v = b->v + TAGC_BYTES * i;
      const uint64_t next = unsqueeze(peek_bits(r), b->plane[i]);
      r->at += count_bits(b->plane[i]);
      b->plane[i] = next;
      v64_store(v, v64_plus(v64_load(v), v64_spread(next)));
    }
  }
  if (!planes)
    return true;
  list_few(b, count, &few);
  for (; few.plane && planes; planes--) {
    if (!has_bits(r, count_bits(few.plane)))
      return false;
    const uint64_t next = unsqueeze(peek_bits(r), few.plane);
    r->at += count_bits(few.plane);
    few.plane = next;
    v64_store(few.v, v64_plus(v64_load(few.v), v64_spread(next)));
  }
  for (uint32_t i = 0; i < count; i++)
    b->v[few.place[i]] = (uint8_t)(b->v[few.place[i]] + few.v[i]);
  return true;
}

/* -- lower bits ---------------------------------------------------------------------------------------------------- */

/* For 64 elements from `at` on: ones for the lower bits in a byte. */
static ALWAYS_INLINE void find_masks(const struct exact_block *b, int byte, int at, uint64_t masks[EIGHT]) {
  const struct v64 q = v64_minus(v64_load(b->q + at), v64_all(8 * (uint32_t)byte));
  v64_store((uint8_t *)masks, v64_lookup(byte_masks, v64_min(q, v64_all(15))));
}

static ALWAYS_INLINE bool has_lower_bits(const struct exact_block *b, int byte, int at) {
  return v64_above(v64_load(b->q + at), (uint8_t)(8 * byte)) != 0;
}

static ALWAYS_INLINE void write_lower_bits(struct bit_writer *w, const struct exact_block *b, int size) {
  for (int byte = 0; byte < size; byte++)
    for (int at = 0; at < ALL; at += TAGC_BYTES) {
      uint64_t masks[EIGHT];
      if (!has_lower_bits(b, byte, at))
        continue;
      find_masks(b, byte, at, masks);
      EXACT_UNROLL
      for (int i = 0; i < EIGHT; i += 2) { /* mostly both fit into a word */
        uint64_t z[2];
        memcpy(z, b->z[byte] + at + 8 * i, sizeof z);
        const uint64_t first = squeeze_bytes(z[0], masks[i]), second = squeeze_bytes(z[1], masks[i + 1]);
        const unsigned count = count_bits(masks[i]), other = count_bits(masks[i + 1]);
        const bool both = count + other < 64;
        write_bits(w, both ? first | second << count : first, both ? count + other : count);
        if (!both)
          write_bits(w, second, other);
      }
    }
}

/* The highest bits of the elements whose one lies in that byte. */
static ALWAYS_INLINE struct v64 highest_bits(const struct exact_block *b, int byte, int at) {
  const struct v64 q = v64_load(b->q + at), above = v64_minus(q, v64_all(8 * (uint32_t)byte));
  const struct v64 bits = v64_and(v64_lookup(byte_bits, v64_min(above, v64_all(15))), v64_nonzero(v64_load(b->v + at)));
  return byte ? v64_and(bits, v64_nonzero(v64_minus(q, v64_all(8 * (uint32_t)byte - 1)))) : bits;
}

/* Sets z from its lower bits and its highest one. Words go through memory in an order in which no load waits: those of
 * 64 bytes are read by eight, never the other way before the end. */
static ALWAYS_INLINE void read_lower_bits(struct bit_reader *r, struct exact_block *b, int size) {
  for (int byte = 0; byte < size; byte++)
    for (int at = 0; at < ALL; at += TAGC_BYTES) {
      uint64_t masks[EIGHT], z[EIGHT];
      v64_store((uint8_t *)z, highest_bits(b, byte, at));
      if (!has_lower_bits(b, byte, at)) {
        v64_store(b->z[byte] + at, highest_bits(b, byte, at));
        continue;
      }
      find_masks(b, byte, at, masks);
      EXACT_UNROLL
      for (int i = 0; i < EIGHT; i++) {
        const uint64_t its = z[i] | unsqueeze_bytes(peek_bits(r), masks[i]);
        memcpy(b->z[byte] + at + 8 * i, &its, sizeof its);
        r->at += count_bits(masks[i]);
      }
    }
}

/* Sets q. Returns the number of lower bits. */
static ALWAYS_INLINE uint32_t count_lower_bits(struct exact_block *b, uint32_t edge, int size) {
  uint32_t count = 0;
  for (int at = 0; at < ALL; at += TAGC_BYTES) {
    const struct v64 q = v64_plus(shifts_of(b, at, edge, size), v64_minus(v64_load(b->v + at), v64_all(1)));
    v64_store(b->q + at, q);
    count += v64_sum(q);
  }
  return count;
}

/* -- blocks -------------------------------------------------------------------------------------------------------- */

/* `size` is a constant where this is inlined. The types of two bytes differ in their exponents alone. */
static TAGC_SPECIALISED size_t exact_encode_sized(const void *value, const void *reference, uint32_t count, uint8_t *to,
                                                  uint32_t *head, enum tagc_dtype dtype, int size) {
  const size_t stored = count * (size_t)size;
  uint32_t room[2][ALL];
  struct exact_block b;
  struct exact_map above;
  struct bit_writer w = {.to = to};
  *head = 0;
  if (memcmp(value, reference, stored) == 0)
    return 0;
  const void *x = whole_block(value, count, size, room[0]), *y = whole_block(reference, count, size, room[1]);
  if (size == SIZES)
    take_differences32(&b, x, y);
  else
    take_differences16(&b, x, y);
  find_exponents(&b, y, dtype);
  uint32_t without, edge = find_edge(&b, size, &without);
  if (cut_lengths(&b, edge, size, &above) >= without && edge) {
    cut_lengths(&b, 0, size, &above);
    edge = 0;
  }
  write_exact_map(&w, b.plane, &above);
  write_planes(&w, &b);
  write_lower_bits(&w, &b, size);
  const size_t bytes = end_bits(&w, to);
  *head = edge | above.level << 8 | (uint32_t)bytes << 12;
  if (bytes < stored)
    return bytes;
  memcpy(to, value, stored);
  *head = TAGC_EXACT_STORED << 8 | (uint32_t)stored << 12;
  return stored;
}

static size_t exact_encode(const void *value, const void *reference, uint32_t count, enum tagc_dtype dtype, uint8_t *to,
                           uint32_t *head) {
  return dtype == TAGC_FLOAT32 ? exact_encode_sized(value, reference, count, to, head, TAGC_FLOAT32, SIZES)
                               : exact_encode_sized(value, reference, count, to, head, dtype, 2);
}

/* False: the stream does not hold what its head says. */
static ALWAYS_INLINE bool read_stream(struct exact_block *b, const void *reference, const uint8_t *stream, size_t bytes,
                                      uint32_t head, enum tagc_dtype dtype, int size) {
  const uint32_t level = head >> 8 & 15;
  struct bit_reader r = {.from = stream, .end = 8 * (uint64_t)bytes};
  if (level < TAGC_EXACT_MAP || level > TAGC_EXACT_MAP_MOST || !read_exact_map(&r, level, b->plane) ||
      !read_planes(&r, b, size))
    return false;
  find_exponents(b, reference, dtype);
  if (!has_bits(&r, count_lower_bits(b, head & 0xff, size)))
    return false;
  read_lower_bits(&r, b, size);
  return true;
}

static TAGC_SPECIALISED void exact_decode_sized(const uint8_t *stream, size_t bytes, uint32_t head,
                                                const void *reference, uint32_t count, void *to, enum tagc_dtype dtype,
                                                int size) {
  const size_t stored = count * (size_t)size;
  uint32_t room[ALL];
  struct exact_block b;
  if ((head >> 8 & 15) == TAGC_EXACT_STORED && bytes >= stored) {
    memcpy(to, stream, stored);
    return;
  }
  const void *y = whole_block(reference, count, size, room);
  if (!read_stream(&b, y, stream, bytes, head, dtype, size))
    memmove(to, reference, stored);
  else if (size == SIZES)
    add_differences32(&b, y, count, to);
  else
    add_differences16(&b, y, count, to);
}

static void exact_decode(const uint8_t *stream, size_t bytes, uint32_t head, const void *reference, uint32_t count,
                         enum tagc_dtype dtype, void *to) {
  if (dtype == TAGC_FLOAT32)
    exact_decode_sized(stream, bytes, head, reference, count, to, TAGC_FLOAT32, SIZES);
  else
    exact_decode_sized(stream, bytes, head, reference, count, to, dtype, 2);
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
