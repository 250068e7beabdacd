/* SPDX-License-Identifier: BSD-3-Clause
 * The sums of `none` and `precise`: see none.h, and precise.c for the proof.
 *
 * Compiled once for each instruction set (codec/instruction_set.h). Goes by vectors of sixteen elements, and reads the
 * own values before it writes results: recv may be the own shard.
 */
#include "kernels/codec/instruction_set.h"
/* clang-format off */
#include TAGC_SIMD_HEADER(kernels/simd/doubles)
/* clang-format on */

#include <string.h>

#include "kernels/codec/exceptions.h"
#include "kernels/none/exact.h"
#include "kernels/none/none.h"
#include "kernels/simd/vector_sum.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))

enum { PREFETCH_BYTES = 1024, LARGEST = 0x7f7fffff };

#define HIGHEST_BIT 0x80000000u

/* Sixteen elements of a buffer, zeros behind the end of the shard. */
static ALWAYS_INLINE struct v16 load_some(const void *buffer, uint64_t i, uint32_t count, enum tagc_dtype dtype) {
  const void *at = tagc_element_of(buffer, i, dtype);
  if (count == TAGC_LANES) {
    __builtin_prefetch((const char *)at + PREFETCH_BYTES);
    return v16_load_as(at, dtype);
  }
  uint8_t some[4 * TAGC_LANES] = {0};
  memcpy(some, at, count * tagc_dtype_size(dtype));
  return v16_load_as(some, dtype);
}

static ALWAYS_INLINE void store_some(void *buffer, uint64_t i, uint32_t count, enum tagc_dtype dtype, struct v16 x) {
  uint8_t *at = (uint8_t *)buffer + i * tagc_dtype_size(dtype), some[4 * TAGC_LANES];
  if (count == TAGC_LANES) {
    v16_store_as(at, dtype, x);
    return;
  }
  v16_store_as(some, dtype, x);
  memcpy(at, some, count * tagc_dtype_size(dtype));
}

static ALWAYS_INLINE const void *message_of(const struct tagc_job *job, int sender) {
  return job->message_in + (size_t)sender * job->layout.message_bytes;
}

static ALWAYS_INLINE uint32_t part_count(const struct tagc_job *job, uint64_t i) {
  return job->shape.n - i < TAGC_LANES ? (uint32_t)(job->shape.n - i) : TAGC_LANES;
}

/* -- in rank order ------------------------------------------------------------------------------------------------- */

static TAGC_SPECIALISED bool rank_order_as(const struct tagc_job *job, enum tagc_dtype dtype) {
  const void *own = tagc_job_shard(job, job->rank);
  const struct v16 scale = v16_all(job->scale), divisor = v16_all(job->divisor);
  struct v16i most = v16i_all(0);
  for (uint64_t i = 0; i < job->shape.n; i += TAGC_LANES) {
    const uint32_t count = part_count(job, i);
    struct v16 sum = v16_all(0);
    for (int sender = 0; sender < job->shape.nranks; sender++)
      if (sender != job->rank)
        sum = v16_add(sum, load_some(message_of(job, sender), i, count, dtype));
    sum = v16_add(sum, v16_mul(scale, load_some(own, i, count, dtype)));
    const struct v16 result = v16_div(sum, divisor);
    most = v16i_max(most, v16_magnitudes(result));
    store_some(job->recv, i, count, dtype, v16_one_nan(result));
  }
  return v16i_largest(most) >= tagc_infinite_bits(dtype);
}

static bool sum_in_rank_order(const struct tagc_job *job) {
  if (job->shape.dtype == TAGC_FLOAT32)
    return rank_order_as(job, TAGC_FLOAT32);
  if (job->shape.dtype == TAGC_FLOAT16)
    return rank_order_as(job, TAGC_FLOAT16);
  return rank_order_as(job, TAGC_BFLOAT16);
}

/* -- exact --------------------------------------------------------------------------------------------------------- */

/* The own values as a sender would send them. */
static ALWAYS_INLINE struct v16 own_as_sent(struct v16 x, float scale, enum tagc_dtype dtype) {
  uint8_t sent[4 * TAGC_LANES];
  if (scale == 1)
    return x;
  v16_store_as(sent, dtype, v16_one_nan(v16_mul(v16_all(scale), x)));
  return v16_load_as(sent, dtype);
}

/* What the vectors do not round correctly, element by element. True if a result is not finite. */
static bool repair(const struct tagc_job *job, uint64_t i, uint32_t count, const float own[TAGC_LANES]) {
  const size_t size = tagc_dtype_size(job->shape.dtype);
  bool seen = false;
  for (uint32_t t = 0; t < count; t++) {
    const uint32_t bits = tagc_none_exact_sum(job, i + t, own[t]);
    seen |= tagc_exact_is_nonfinite(bits, job->shape.dtype);
    memcpy((uint8_t *)job->recv + (i + t) * size, &bits, size);
  }
  return seen;
}

static ALWAYS_INLINE struct v16 round_sum(struct v16d sum, struct tagc_exact_quotient by, enum tagc_dtype dtype) {
  const uint64_t below = tagc_exact_below(dtype);
  if (!by.none && !by.power)
    return v16d_nearest(v16d_divide_odd(sum, by.divisor, below));
  if (!by.none)
    sum = v16d_scale(sum, 1 / by.divisor);
  return v16d_nearest(dtype == TAGC_FLOAT32 ? sum : v16d_odd(sum, below));
}

/* Sums of sixteen elements under way, and what tells whether they are exact. */
struct wide_sums {
  struct v16d sum;
  struct v16i most, least; /* magnitudes; the least ones minus one, so that zeros are the largest */
};

static ALWAYS_INLINE struct wide_sums wide_begin(void) {
  return (struct wide_sums){v16d_zero(), v16i_all(0), v16i_all(UINT32_MAX)};
}

static ALWAYS_INLINE void note_magnitudes(struct v16 x, struct v16i *most, struct v16i *least) {
  const struct v16i magnitude = v16_magnitudes(x);
  *most = v16i_max(*most, magnitude);
  *least = v16i_min(*least, v16i_add(magnitude, v16i_all(UINT32_MAX)));
}

static ALWAYS_INLINE void wide_add(struct wide_sums *sums, struct v16 x) {
  note_magnitudes(x, &sums->most, &sums->least);
  sums->sum = v16d_add(sums->sum, x);
}

/* Exact where most <= least + span, and finite; the mantissas below the exponents make this stricter. */
static ALWAYS_INLINE bool are_within(struct v16i most, struct v16i least, uint32_t span) {
  const struct v16i largest = v16i_all(LARGEST);
  return span > 0 && !v16i_any_above(most, v16i_min(v16i_add(v16i_min(least, largest), v16i_all(span)), largest));
}

static struct tagc_exact_quotient quotient_of(const struct tagc_job *job) {
  return tagc_exact_quotient_of((uint32_t)job->divisor);
}

/* Rounds the sums. Are they right? */
static ALWAYS_INLINE bool wide_round(const struct wide_sums *sums, uint32_t span, struct tagc_exact_quotient by,
                                     enum tagc_dtype dtype, struct v16 *result) {
  *result = round_sum(sums->sum, by, dtype);
  bool exact = are_within(sums->most, sums->least, span);
  /* A quotient that is too small for a normal float would be rounded twice. */
  if (!by.none)
    exact = exact && !v16i_any_above(v16i_all(0x7fffff), v16i_add(v16_magnitudes(*result), v16i_all(UINT32_MAX)));
  return exact;
}

static TAGC_SPECIALISED bool exact_as(const struct tagc_job *job, enum tagc_dtype dtype) {
  const void *own_shard = tagc_job_shard(job, job->rank);
  const struct tagc_exact_quotient by = quotient_of(job);
  const uint32_t span = tagc_exact_span((uint32_t)job->shape.nranks, dtype);
  struct v16i met = v16i_all(0), most = v16i_all(0); /* of values, of results */
  bool seen = false;
  for (uint64_t i = 0; i < job->shape.n; i += TAGC_LANES) {
    const uint32_t count = part_count(job, i);
    const struct v16 own = own_as_sent(load_some(own_shard, i, count, dtype), job->scale, dtype);
    struct wide_sums sums = wide_begin();
    struct v16 result;
    wide_add(&sums, own);
    for (int sender = 0; sender < job->shape.nranks; sender++)
      if (sender != job->rank)
        wide_add(&sums, load_some(message_of(job, sender), i, count, dtype));
    met = v16i_max(met, sums.most);
    if (__builtin_expect(wide_round(&sums, span, by, dtype, &result), 1)) {
      most = v16i_max(most, v16_magnitudes(result));
      store_some(job->recv, i, count, dtype, result);
      continue;
    }
    float each[TAGC_LANES];
    v16_store(each, own);
    seen |= repair(job, i, count, each);
  }
  return seen || v16i_largest(met) >= TAGC_EXCEPTION_BITS || v16i_largest(most) >= tagc_infinite_bits(dtype);
}

/* Sets the highest bit of lanes whose magnitude (as bits) is `least` or more. */
static ALWAYS_INLINE struct v16i note_from(uint32_t least, struct v16i met, struct v16 x) {
  return v16i_or(met, v16i_add(v16_magnitudes(x), v16i_all(HIGHEST_BIT - least)));
}

/* Two ranks, 16 bits: fp32 has 2 p + 2 bits or more, so that rounding to it before changes no result (precise.c). Adds
 * elements `from` to `to`. */
static TAGC_SPECIALISED bool pairs_between(const struct tagc_job *job, uint64_t from, uint64_t to,
                                           enum tagc_dtype dtype, bool mean) {
  const void *own_shard = tagc_job_shard(job, job->rank), *other_shard = message_of(job, 1 - job->rank);
  const struct v16 half = v16_all(0.5f), zero = v16_all(0);
  struct v16i met = v16i_all(0);
  for (uint64_t i = from; i < to; i += TAGC_LANES) {
    const uint32_t count = part_count(job, i);
    const struct v16 own = own_as_sent(load_some(own_shard, i, count, dtype), job->scale, dtype);
    const struct v16 other = load_some(other_shard, i, count, dtype);
    /* Halved before, lest the sum of an average overflow. Zero makes +0 of -0. */
    const struct v16 sum = mean ? v16_add(v16_mul(half, own), v16_mul(half, other)) : v16_add(own, other);
    met = note_from(TAGC_EXCEPTION_BITS, note_from(TAGC_EXCEPTION_BITS, met, own), other);
    met = note_from(tagc_infinite_bits(dtype), met, sum);
    store_some(job->recv, i, count, dtype, v16_one_nan(v16_add(sum, zero)));
  }
  return v16i_largest(met) >= HIGHEST_BIT;
}

/* -- pairs of bf16, two elements in a lane ------------------------------------------------------------------------- */

enum { TILE = 512, HALVES = 2 * TAGC_LANES };

static ALWAYS_INLINE struct v16 lower_bf16(struct v16i both) { return v16_from_bits(v16i_left(both, 16)); }

static ALWAYS_INLINE struct v16 upper_bf16(struct v16i both) {
  return v16_from_bits(v16i_and(both, v16i_all(0xffff0000u)));
}

/* Both highest bits of a lane: of exceptions. The additions do not carry into the other element. */
static ALWAYS_INLINE struct v16i exceptions_of(struct v16i both) {
  const uint32_t up = (HIGHEST_BIT - TAGC_EXCEPTION_BITS) >> 16;
  return v16i_add(v16i_and(both, v16i_all(0x7fff7fffu)), v16i_all(up << 16 | up));
}

static ALWAYS_INLINE bool has_exceptions(const uint16_t *own, const uint16_t *other) {
  struct v16i met = v16i_all(0);
  for (uint32_t i = 0; i < TILE; i += HALVES) {
    __builtin_prefetch((const char *)(own + i) + PREFETCH_BYTES);
    __builtin_prefetch((const char *)(other + i) + PREFETCH_BYTES);
    met = v16i_or(met, v16i_or(exceptions_of(v16i_load(own + i)), exceptions_of(v16i_load(other + i))));
  }
  return v16i_any_above(v16i_and(met, v16i_all(0x80008000u)), v16i_all(0));
}

/* The bits of a finite sum that is rounded to bf16, above others. Zero makes +0 of -0. */
static ALWAYS_INLINE struct v16i sum_as_bf16(struct v16 a, struct v16 b, bool mean) {
  struct v16 sum = v16_add(v16_add(a, b), v16_all(0));
  if (mean) /* neither overflows, and small sums are exact in fp32: half of the rounded sum is the rounded half */
    sum = v16_mul(sum, v16_all(0.5f));
  const struct v16i bits = v16_bits(sum), odd = v16i_and(v16i_right(bits, 16), v16i_all(1));
  return v16i_add(bits, v16i_add(odd, v16i_all(0x7fff)));
}

static ALWAYS_INLINE void add_tile(const uint16_t *own, const uint16_t *other, uint16_t *to, bool mean) {
  for (uint32_t i = 0; i < TILE; i += HALVES) {
    const struct v16i a = v16i_load(own + i), b = v16i_load(other + i);
    const struct v16i lower = sum_as_bf16(lower_bf16(a), lower_bf16(b), mean);
    const struct v16i upper = sum_as_bf16(upper_bf16(a), upper_bf16(b), mean);
    v16i_store(to + i, v16i_or(v16i_right(lower, 16), v16i_and(upper, v16i_all(0xffff0000u))));
  }
}

/* Tile by tile: a sum of two without exceptions is finite. One with exceptions goes the longer way, like the rest of
 * the shard. */
static TAGC_SPECIALISED bool bf16_pairs(const struct tagc_job *job, bool mean) {
  const uint16_t *own = tagc_job_shard(job, job->rank), *other = message_of(job, 1 - job->rank);
  uint16_t *const recv = job->recv;
  const uint64_t whole = job->scale == 1 ? job->shape.n / TILE * TILE : 0;
  bool met = false;
  for (uint64_t i = 0; i < whole; i += TILE) {
    if (__builtin_expect(has_exceptions(own + i, other + i), 0))
      met |= pairs_between(job, i, i + TILE, TAGC_BFLOAT16, mean);
    else
      add_tile(own + i, other + i, recv + i, mean);
  }
  return pairs_between(job, whole, job->shape.n, TAGC_BFLOAT16, mean) || met;
}

static bool has_pairs(const struct tagc_job *job) {
  return job->shape.nranks == 2 && job->shape.dtype != TAGC_FLOAT32 && (job->divisor == 1 || job->divisor == 2);
}

static bool sum_pairs(const struct tagc_job *job) {
  const bool mean = job->divisor == 2;
  if (job->shape.dtype == TAGC_FLOAT16)
    return mean ? pairs_between(job, 0, job->shape.n, TAGC_FLOAT16, true)
                : pairs_between(job, 0, job->shape.n, TAGC_FLOAT16, false);
  return mean ? bf16_pairs(job, true) : bf16_pairs(job, false);
}

static bool sum_exactly(const struct tagc_job *job) {
  if (has_pairs(job))
    return sum_pairs(job);
  if (job->shape.dtype == TAGC_FLOAT32)
    return exact_as(job, TAGC_FLOAT32);
  if (job->shape.dtype == TAGC_FLOAT16)
    return exact_as(job, TAGC_FLOAT16);
  return exact_as(job, TAGC_BFLOAT16);
}

/* -- two levels (levels.h) ----------------------------------------------------------------------------------------- */

static TAGC_SPECIALISED void add_local_as(const struct tagc_job *job, int shard, const struct tagc_levels_message *to,
                                          enum tagc_dtype dtype) {
  const uint32_t span = tagc_exact_span_in(24, (uint64_t)job->shape.local, dtype);
  for (uint64_t i = 0; i < job->shape.n && *to->count != TAGC_LEVELS_FULL; i += TAGC_LANES) {
    const uint32_t count = part_count(job, i);
    struct v16 sum = v16_all(0);
    struct v16i most = v16i_all(0), least = v16i_all(UINT32_MAX);
    for (int l = 0; l < job->shape.local; l++) {
      const struct v16 x = load_some(tagc_levels_own_values(job, shard, l), i, count, dtype);
      note_magnitudes(x, &most, &least);
      sum = v16_add(sum, x);
    }
    store_some(to->sums, i, count, TAGC_FLOAT32, sum);
    if (__builtin_expect(are_within(most, least, span) && !v16i_any_above(v16_magnitudes(sum), v16i_all(LARGEST)), 1))
      continue;
    for (uint32_t t = 0; t < count; t++)
      tagc_levels_add(job, shard, i + t, to);
  }
}

static void add_local(const struct tagc_job *job, int shard, const struct tagc_levels_message *to) {
  if (job->shape.dtype == TAGC_FLOAT16)
    add_local_as(job, shard, to, TAGC_FLOAT16);
  else
    add_local_as(job, shard, to, TAGC_BFLOAT16);
}

static ALWAYS_INLINE void wide_add_host(const struct tagc_job *job, int host, uint64_t i, uint32_t count,
                                        enum tagc_dtype dtype, struct wide_sums *sums) {
  if (tagc_levels_has_sums(job, host)) {
    const struct tagc_levels_message message = tagc_levels_parts(job->shape.n, tagc_levels_message_of(job, host));
    wide_add(sums, load_some(message.sums, i, count, TAGC_FLOAT32));
    return;
  }
  for (int l = 0; l < job->shape.local; l++)
    wide_add(sums, load_some(tagc_levels_values(job, host, l), i, count, dtype));
}

static TAGC_SPECIALISED bool levels_as(const struct tagc_job *job, enum tagc_dtype dtype) {
  const struct tagc_exact_quotient by = quotient_of(job);
  const uint32_t span = tagc_exact_span((uint32_t)(job->shape.nranks * job->shape.local), TAGC_FLOAT32);
  struct v16i met = v16i_all(0), most = v16i_all(0); /* of values, of results */
  bool seen = false;
  for (uint64_t i = 0; i < job->shape.n; i += TAGC_LANES) {
    const uint32_t count = part_count(job, i);
    struct wide_sums sums = wide_begin();
    struct v16 result;
    for (int host = 0; host < job->shape.nranks; host++)
      wide_add_host(job, host, i, count, dtype, &sums);
    met = v16i_max(met, sums.most);
    if (__builtin_expect(wide_round(&sums, span, by, dtype, &result), 1)) {
      most = v16i_max(most, v16_magnitudes(result));
      store_some(job->recv, i, count, dtype, result);
      continue;
    }
    for (uint32_t t = 0; t < count; t++)
      seen |= tagc_levels_write_exact(job, i + t);
  }
  return seen || v16i_largest(met) >= TAGC_EXCEPTION_BITS || v16i_largest(most) >= tagc_infinite_bits(dtype);
}

static bool sum_levels(const struct tagc_job *job) {
  return job->shape.dtype == TAGC_FLOAT16 ? levels_as(job, TAGC_FLOAT16) : levels_as(job, TAGC_BFLOAT16);
}

const struct tagc_none_sums TAGC_SIMD_TABLE(tagc_none) = {
  .rank_order = sum_in_rank_order,
  .exact = sum_exactly,
  .add_local = add_local,
  .exact_levels = sum_levels,
};
