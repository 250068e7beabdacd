/* SPDX-License-Identifier: BSD-3-Clause
 * A second implementation of the payloads of the dense codecs and of `sparse`: slow, value by value, written from the
 * description of the bytes alone. It shares with kernels/ only the structures, the mixing function, the room for
 * exceptions, and the conversion of elements to and from fp32 (test_bits checks that for all values).
 *
 * Message    exceptions, then for n elements in B = ceil(n / 256) blocks, every part padded with zeros to 16 bytes:
 *              bf16     values, uint16 x n
 *              q8       scales, uint16 x B       codes, int8 x 256 B
 *              q4       scales, uint16 x 2 B     codes, 128 bytes x B, rotated
 *              q3       scales, uint16 x 2 B     codes, 96 bytes x B
 *              q2       scales, uint16 x B       codes, 64 bytes x B, rotated
 *              sparse   counts, uint8 x B        offsets, uint8 x C    values, uint16 x C
 *            A scale is the upper half of a float.
 * Rounding   The caller's modes must be the defaults. No contraction (configure asks for none).
 * Threads    Pure functions. Failure: none.
 */
#ifndef TESTS_UNIT_CODEC_REFERENCE_H
#define TESTS_UNIT_CODEC_REFERENCE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/codec/codec.h"
#include "kernels/codec/bits.h"
#include "kernels/codec/exceptions.h"

/* The codecs before `sparse` send every value. */
enum reference_kind {
  REFERENCE_BF16,
  REFERENCE_Q8,
  REFERENCE_Q4,
  REFERENCE_Q3,
  REFERENCE_Q2,
  REFERENCE_SPARSE,
  REFERENCE_KINDS
};

/* `least`: smaller values become zeros. The blocks of q8, q4, q3 and q2 are zeros below 2^-110. Rotation shrinks blocks
 * to a sixteenth, so that limit becomes 2^-106. */
static const struct {
  const char *name;
  float least;
} reference_codecs[] = {{"bf16", 0x1p-120f}, {"q8", 0x1p-106f}, {"q4", 0x1p-106f},
                        {"q3", 0x1p-106f},   {"q2", 0x1p-106f}, {"sparse", 0x1p-120f}};

/* REFERENCE_KINDS for an unknown codec. */
static inline enum reference_kind reference_find(const char *codec) {
  int kind = 0;
  while (kind < REFERENCE_KINDS && strcmp(reference_codecs[kind].name, codec) != 0)
    kind++;
  return (enum reference_kind)kind;
}

enum { REFERENCE_BLOCK = 256 };

/* The offsets of a message's parts, and its capacity in values. */
struct reference_parts {
  uint64_t blocks, capacity;
  size_t scales, codes, values, bytes; /* sparse: counts, offsets, values */
};

static inline size_t reference_padded(size_t bytes) { return (bytes + 15) / 16 * 16; }

static inline struct reference_parts reference_parts(enum reference_kind kind, uint64_t n, uint32_t keep_ppm) {
  struct reference_parts parts = {.blocks = (n + 255) / 256, .capacity = n};
  const size_t blocks = parts.blocks, list = reference_padded(8 + 8 * tagc_exceptions_capacity(n));
  size_t scales = 0, codes = 0, values = 0;
  switch (kind) {
  case REFERENCE_BF16: codes = 2 * n; break;
  case REFERENCE_Q8: scales = 2 * blocks, codes = 256 * blocks; break;
  case REFERENCE_Q4: scales = 4 * blocks, codes = 128 * blocks; break;
  case REFERENCE_Q3: scales = 4 * blocks, codes = 96 * blocks; break;
  case REFERENCE_Q2: scales = 2 * blocks, codes = 64 * blocks; break;
  default:
    parts.capacity = n * keep_ppm / 1000000;
    parts.capacity += parts.capacity == 0;
    scales = blocks, codes = parts.capacity, values = 2 * parts.capacity;
  }
  parts.scales = list;
  parts.codes = parts.scales + reference_padded(scales);
  parts.values = parts.codes + reference_padded(codes);
  parts.bytes = parts.values + reference_padded(values);
  return parts;
}

/* -- numbers -------------------------------------------------------------------------------------------------- */

static inline bool reference_is_exception(float x) { return !(fabsf(x) < 0x1p120f); }

/* A value as a codec treats it. A zero keeps its sign. */
static inline float reference_seen(float x) {
  return x != 0 && (fabsf(x) < 0x1p-120f || reference_is_exception(x)) ? 0 : x;
}

static inline uint32_t reference_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}

static inline float reference_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

/* The nearest float with a zero lower half, by a comparison of the two candidates. */
static inline float reference_nearest_bf16(float x) {
  const float below = reference_float(reference_bits(x) & 0xffff0000u);
  const float above = reference_float((reference_bits(x) & 0xffff0000u) + 0x10000u);
  const double down = fabs((double)x - (double)below), up = fabs((double)above - (double)x);
  const bool odd = reference_bits(below) >> 16 & 1;
  return up < down || (up == down && odd) ? above : below;
}

/* The smallest such float that is at least x >= 0. */
static inline float reference_up_bf16(float x) {
  const float below = reference_float(reference_bits(x) & 0xffff0000u);
  return below == x ? x : reference_float(reference_bits(below) + 0x10000u);
}

static inline uint16_t reference_half(float x) { return (uint16_t)(reference_bits(x) >> 16); }

static inline float reference_scale(const uint8_t *scales, uint64_t i) {
  return reference_float((uint32_t)scales[2 * i] << 16 | (uint32_t)scales[2 * i + 1] << 24);
}

static inline void reference_put16(uint8_t *at, uint64_t i, uint16_t half) {
  at[2 * i] = (uint8_t)half;
  at[2 * i + 1] = (uint8_t)(half >> 8);
}

/* -- the rotation --------------------------------------------------------------------------------------------- */

static inline void reference_signs(float c[REFERENCE_BLOCK], uint64_t seed, int shard, uint64_t block) {
  const uint64_t key = tagc_mix64(tagc_mix64(seed) + (uint64_t)shard);
  for (int i = 0; i < REFERENCE_BLOCK; i++)
    if (tagc_mix64(key + 4 * block + (uint64_t)i / 64) >> (i % 64) & 1)
      c[i] = -c[i];
}

static inline void reference_hadamard(float c[REFERENCE_BLOCK]) {
  for (int stride = 1; stride < REFERENCE_BLOCK; stride *= 2)
    for (int i = 0; i < REFERENCE_BLOCK; i++)
      if ((i & stride) == 0) {
        const float a = c[i], b = c[i + stride];
        c[i] = a + b;
        c[i + stride] = a - b;
      }
}

/* -- blocks --------------------------------------------------------------------------------------------------- */

/* The parameters of a rounding: enough to know the random bits of every element. */
struct reference_call {
  enum reference_kind kind;
  uint64_t n, seed;
  uint32_t keep_ppm;
  bool stochastic;
  int rank, shard; /* sender and owner */
};

/* 16 random bits of element i of a block. */
static inline uint32_t reference_dice(const struct reference_call *call, uint64_t block, int i) {
  const uint64_t who = (uint64_t)call->rank << 32 | (uint64_t)call->shard;
  const uint64_t key = tagc_mix64(tagc_mix64(call->seed ^ 0x5743) + who);
  return tagc_mix64(key + 64 * block + (uint64_t)i / 4) >> (16 * (i % 4)) & 0xffff;
}

static inline float reference_largest(const float *x, int count) {
  float most = 0;
  for (int i = 0; i < count; i++)
    most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
  return most;
}

/* Quantises `count` values from element `first` of a block on to codes from -limit to limit. Returns the scale. */
static inline float reference_quantise(const struct reference_call *call, uint64_t block, int first, int count,
                                       const float *x, int limit, int *codes) {
  const float most = reference_largest(x + first, count);
  const float scale = most < 0x1p-110f ? 0 : reference_up_bf16(most / (float)limit);
  const float inverse = scale > 0 ? 1 / scale : 0;
  for (int i = first; i < first + count; i++) {
    float y = x[i] * inverse;
    if (call->stochastic && scale > 0)
      y = y + (((float)reference_dice(call, block, i) + 0.5f) / 65536 - 0.5f);
    const int code = (int)rintf(y);
    codes[i] = code > limit ? limit : code < -limit ? -limit : code;
  }
  return scale;
}

/* The sum of 256 terms: 16 lanes of every 16th, then lanes by halves. */
static inline float reference_tree(const float terms[REFERENCE_BLOCK]) {
  float lane[16] = {0};
  for (int i = 0; i < REFERENCE_BLOCK; i++)
    lane[i % 16] += terms[i];
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; i++)
      lane[i] += lane[i + half];
  return lane[0];
}

/* Levels of q3 by code. */
static const float reference_eight[8] = {0, 0.5606f, 1.188f, 2.033f, 2.9f, -0.5606f, -1.188f, -2.033f};

/* Codes of 0 to 7 for the nearest of eight levels, if the largest of 128 values were positive. Returns the scale of
 * least error or right product. */
static inline float reference_three_bits(const float *x, bool right_product, int *codes) {
  const float *level = reference_eight, most = reference_largest(x, 128);
  float v[128], squares[REFERENCE_BLOCK] = {0}, products[REFERENCE_BLOCK] = {0}, levels[REFERENCE_BLOCK] = {0};
  bool negative = false;
  int exponent = 0;
  memset(codes, 0, 128 * sizeof *codes);
  if (most < 0x1p-110f)
    return 0;
  if (most < 0x1p-40f || most >= 0x1p41f) {
    frexpf(most, &exponent);
    exponent--;
  }
  for (int i = 0; i < 128; i++)
    negative |= x[i] == -most;
  for (int i = 0; i < 128; i++) {
    v[i] = ldexpf(negative ? -x[i] : x[i], -exponent);
    squares[i] = v[i] * v[i];
  }
  const float sum = reference_tree(squares), largest = ldexpf(most, -exponent);
  const float spread = fmaxf(sum, 8 * (largest * largest));
  for (int i = 0; i < 128; i++) {
    for (int k = 0; k < (v[i] > 0 ? 4 : 3); k++) {
      const float middle = (level[k] + level[k + 1]) / 2;
      if (squares[i] > spread * (middle * middle / 128))
        codes[i] = v[i] > 0 ? k + 1 : k + 5;
    }
    products[i] = v[i] * level[codes[i]];
    levels[i] = level[codes[i]] * level[codes[i]];
  }
  const float product = reference_tree(products);
  const float scale = ldexpf(right_product ? sum / product : product / reference_tree(levels), exponent);
  return reference_nearest_bf16(negative ? -scale : scale);
}

#define REFERENCE_SMALL 0.4528f
#define REFERENCE_LARGE 1.510f

/* Codes of 0 to 3: the sign, and a bit for the larger of the two levels. Returns the scale of least error or right
 * mean. */
static inline float reference_two_bits(const float c[REFERENCE_BLOCK], bool right_mean, int *codes) {
  const float most = reference_largest(c, REFERENCE_BLOCK);
  float v[REFERENCE_BLOCK], terms[REFERENCE_BLOCK];
  int exponent, large = 0;
  memset(codes, 0, REFERENCE_BLOCK * sizeof *codes);
  if (most < 0x1p-110f)
    return 0;
  frexpf(most, &exponent);
  exponent--; /* 2^exponent <= most */
  for (int i = 0; i < REFERENCE_BLOCK; i++) {
    v[i] = ldexpf(c[i], -exponent);
    terms[i] = v[i] * v[i];
  }
  const float squares = reference_tree(terms), threshold = squares * (0.9816f * 0.9816f / 256);
  for (int i = 0; i < REFERENCE_BLOCK; i++) {
    const bool is_large = v[i] * v[i] > threshold;
    large += is_large;
    codes[i] = (signbit(v[i]) ? 2 : 0) | is_large;
    terms[i] = fabsf(v[i]) * (is_large ? REFERENCE_LARGE : REFERENCE_SMALL);
  }
  const float levels = (float)large * (REFERENCE_LARGE * REFERENCE_LARGE) +
                       (float)(REFERENCE_BLOCK - large) * (REFERENCE_SMALL * REFERENCE_SMALL);
  const float product = reference_tree(terms);
  return reference_nearest_bf16(ldexpf(right_mean ? squares / product : product / levels, exponent));
}

/* Encodes one block x, as a codec treats it, into a message. */
static inline void reference_encode_block(const struct reference_call *call, const struct reference_parts *parts,
                                          uint64_t block, const float x[REFERENCE_BLOCK], uint8_t *message) {
  uint8_t *scales = message + parts->scales, *out = message + parts->codes;
  float c[REFERENCE_BLOCK];
  int codes[REFERENCE_BLOCK];
  if (call->kind == REFERENCE_BF16) {
    for (uint64_t i = 0; i < 256 && 256 * block + i < call->n; i++) {
      uint16_t half = reference_half(reference_nearest_bf16(x[i]));
      if (call->stochastic)
        half = (uint16_t)((reference_bits(x[i]) + reference_dice(call, block, (int)i)) >> 16);
      reference_put16(out, 256 * block + i, half);
    }
  } else if (call->kind == REFERENCE_Q8) {
    reference_put16(scales, block, reference_half(reference_quantise(call, block, 0, 256, x, 127, codes)));
    for (int i = 0; i < 256; i++)
      out[256 * block + (uint64_t)i] = (uint8_t)codes[i];
  } else if (call->kind == REFERENCE_Q3) {
    for (int half = 0; half < 2; half++)
      reference_put16(scales, 2 * block + (uint64_t)half,
                      reference_half(reference_three_bits(x + 128 * half, call->stochastic, codes + 128 * half)));
    for (int i = 0; i < 256; i++) {
      out[96 * block + (uint64_t)i % 64] |= (uint8_t)((codes[i] & 3) << (2 * (i / 64)));
      out[96 * block + 64 + (uint64_t)i % 32] |= (uint8_t)(codes[i] >> 2 << (i / 32));
    }
  } else {
    for (int i = 0; i < 256; i++)
      c[i] = x[i] * 0x1p-8f;
    reference_signs(c, call->seed, call->shard, block);
    reference_hadamard(c);
    if (call->kind == REFERENCE_Q4) {
      for (int half = 0; half < 2; half++)
        reference_put16(scales, 2 * block + (uint64_t)half,
                        reference_half(reference_quantise(call, block, 128 * half, 128, c, 7, codes)));
      for (int j = 0; j < 128; j++)
        out[128 * block + (uint64_t)j] = (uint8_t)((codes[j] & 15) | (codes[j + 128] & 15) << 4);
    } else {
      reference_put16(scales, block, reference_half(reference_two_bits(c, call->stochastic, codes)));
      for (int j = 0; j < 64; j++)
        out[64 * block + (uint64_t)j] =
          (uint8_t)(codes[j] | codes[j + 64] << 2 | codes[j + 128] << 4 | codes[j + 192] << 6);
    }
  }
}

/* The values of a block in a message (rotated, for q4 and q2). Elements beyond the shard's end are zero for bf16. */
static inline void reference_values(enum reference_kind kind, const struct reference_parts *parts, uint64_t block,
                                    const uint8_t *message, float out[REFERENCE_BLOCK]) {
  const uint8_t *scales = message + parts->scales, *in = message + parts->codes;
  for (int i = 0; i < REFERENCE_BLOCK; i++) {
    const uint64_t at = REFERENCE_BLOCK * block + (uint64_t)i;
    if (kind == REFERENCE_BF16) {
      out[i] = at < parts->capacity ? reference_scale(in, at) : 0;
    } else if (kind == REFERENCE_Q8) {
      out[i] = (float)(int8_t)in[at] * reference_scale(scales, block);
    } else if (kind == REFERENCE_Q4) {
      const int nibble = in[128 * block + (uint64_t)i % 128] >> (i < 128 ? 0 : 4) & 15;
      out[i] = (float)(nibble < 8 ? nibble : nibble - 16) * reference_scale(scales, 2 * block + (uint64_t)i / 128);
    } else if (kind == REFERENCE_Q3) {
      const int lower = in[96 * block + (uint64_t)i % 64] >> (2 * (i / 64)) & 3;
      const int upper = in[96 * block + 64 + (uint64_t)i % 32] >> (i / 32) & 1;
      out[i] = reference_eight[lower + 4 * upper] * reference_scale(scales, 2 * block + (uint64_t)i / 128);
    } else {
      const int code = in[64 * block + (uint64_t)i % 64] >> (2 * (i / 64)) & 3;
      const float level = (code & 1 ? REFERENCE_LARGE : REFERENCE_SMALL) * reference_scale(scales, block);
      out[i] = code & 2 ? -level : level;
    }
  }
}

static inline void reference_unrotate(enum reference_kind kind, float c[REFERENCE_BLOCK], uint64_t seed, int shard,
                                      uint64_t block) {
  if (kind != REFERENCE_Q4 && kind != REFERENCE_Q2)
    return;
  reference_hadamard(c);
  reference_signs(c, seed, shard, block);
}

/* -- messages ------------------------------------------------------------------------------------------------- */

/* Flags of a sender's shard of n values. EXCEPTION: it has one. FULL: a foreign shard fills the room for `capacity`
 * values, and the rest, with all values below 2^-120, has over 1/64 of the squared norm of the largest ones. */
enum { REFERENCE_EXCEPTION = 1, REFERENCE_FULL = 2 };

static inline int reference_larger(const void *a, const void *b) {
  return (*(const double *)a < *(const double *)b) - (*(const double *)a > *(const double *)b);
}

static inline uint32_t reference_anywhere(uint64_t n, const float *x, bool foreign, uint64_t capacity) {
  double *squares = malloc((n ? n : 1) * sizeof *squares), chosen = 0, left = 0;
  uint32_t anywhere = 0;
  uint64_t seen = 0;
  for (uint64_t i = 0; i < n; i++) {
    const bool exception = reference_is_exception(x[i]);
    const double value = exception ? 0 : x[i];
    squares[i] = value * value;
    seen += reference_seen(x[i]) != 0;
    anywhere |= exception ? REFERENCE_EXCEPTION : 0;
  }
  qsort(squares, n, sizeof *squares, reference_larger);
  for (uint64_t i = 0; i < n; i++)
    *(i < capacity ? &chosen : &left) += squares[i];
  free(squares);
  return anywhere | (foreign && seen >= capacity && 64 * left > chosen ? REFERENCE_FULL : 0);
}

static inline void reference_exceptions(uint64_t n, const float *x, uint32_t anywhere, uint8_t *message) {
  struct tagc_exceptions *list = (struct tagc_exceptions *)message;
  const uint64_t room = tagc_exceptions_capacity(n);
  list->anywhere = anywhere;
  for (uint64_t i = 0; i < n; i++)
    if (reference_is_exception(x[i])) {
      if (list->count < room)
        list->entry[list->count] =
          (struct tagc_exception){(uint32_t)i, isnan(x[i]) ? 0x7fc00000u : reference_bits(x[i])};
      list->count++;
    }
  if (list->count > room)
    memset(list->entry, 0, room * sizeof *list->entry);
}

/* A dense codec's message of x (n values: scale * g + e). left[] receives the unsent part: the next residual. */
static inline void reference_encode(const struct reference_call *call, const float *x, uint32_t anywhere,
                                    uint8_t *message, float *left) {
  const struct reference_parts parts = reference_parts(call->kind, call->n, call->keep_ppm);
  memset(message, 0, parts.bytes);
  reference_exceptions(call->n, x, anywhere, message);
  for (uint64_t block = 0; block < parts.blocks; block++) {
    float seen[REFERENCE_BLOCK] = {0}, sent[REFERENCE_BLOCK];
    for (uint64_t i = 0; i < 256 && 256 * block + i < call->n; i++)
      seen[i] = reference_seen(x[256 * block + i]);
    reference_encode_block(call, &parts, block, seen, message);
    reference_values(call->kind, &parts, block, message, sent);
    reference_unrotate(call->kind, sent, call->seed, call->shard, block);
    for (uint64_t i = 0; i < 256 && 256 * block + i < call->n; i++) {
      const float value = x[256 * block + i], rest = value - sent[i];
      left[256 * block + i] = reference_is_exception(value) || reference_is_exception(rest) ? 0 : rest;
    }
  }
}

static inline void reference_sparse_values(uint64_t n, const struct reference_parts *parts, const uint8_t *message,
                                           float *out) {
  uint64_t next = 0;
  memset(out, 0, n * sizeof *out);
  for (uint64_t block = 0; block < parts->blocks; block++)
    for (int left = message[parts->scales + block]; left > 0 && next < parts->capacity; left--, next++) {
      const uint64_t at = 256 * block + message[parts->codes + next];
      if (at < n)
        out[at] = reference_scale(message + parts->values, next);
    }
}

/* Adds the exceptions of all senders to the sum, in sender order; false if a list does not fit. */
static inline bool reference_add_exceptions(uint64_t n, const uint8_t *message, float *sum) {
  const struct tagc_exceptions *list = (const struct tagc_exceptions *)message;
  if (list->count > tagc_exceptions_capacity(n))
    return false;
  for (uint32_t i = 0; i < list->count; i++)
    if (list->entry[i].position >= n || (i > 0 && list->entry[i].position <= list->entry[i - 1].position))
      return false;
  for (uint32_t i = 0; i < list->count; i++)
    sum[list->entry[i].position] += reference_float(list->entry[i].bits);
  return true;
}

/* The result of the owner call->rank from `messages` (by sender): n elements into recv. `own`: its own shard, as fp32
 * and scaled. Returns whether the messages report a value that was not finite. */
static inline bool reference_decode(const struct reference_call *call, int nranks, const uint8_t *messages,
                                    const float *own, float divisor, enum tagc_dtype dtype, void *recv) {
  const uint64_t n = call->n;
  const struct reference_parts parts = reference_parts(call->kind, n, call->keep_ppm);
  float *sum = calloc(256 * parts.blocks, sizeof *sum), *sparse = calloc(n, sizeof *sparse), values[REFERENCE_BLOCK];
  bool fits = true, seen = false;
  for (int sender = 0; sender < nranks; sender++) {
    const uint8_t *message = messages + (size_t)sender * parts.bytes;
    if (sender == call->rank)
      continue;
    if (call->kind == REFERENCE_SPARSE)
      reference_sparse_values(n, &parts, message, sparse);
    for (uint64_t i = 0; call->kind == REFERENCE_SPARSE && i < n; i++)
      sum[i] += sparse[i];
    for (uint64_t block = 0; call->kind != REFERENCE_SPARSE && block < parts.blocks; block++) {
      reference_values(call->kind, &parts, block, message, values);
      for (int i = 0; i < REFERENCE_BLOCK; i++)
        sum[256 * block + (uint64_t)i] += values[i];
    }
    seen |= ((const struct tagc_exceptions *)message)->anywhere & 1;
  }
  for (uint64_t block = 0; block < parts.blocks; block++)
    reference_unrotate(call->kind, sum + 256 * block, call->seed, call->rank, block);
  for (uint64_t i = 0; i < n; i++) {
    sum[i] += own[i];
    seen |= reference_is_exception(own[i]);
  }
  for (int sender = 0; sender < nranks; sender++)
    if (sender != call->rank)
      fits &= reference_add_exceptions(n, messages + (size_t)sender * parts.bytes, sum);
  for (uint64_t i = 0; i < n; i++) {
    const float x = fits ? sum[i] / divisor : NAN;
    tagc_store(recv, i, dtype, isnan(x) ? reference_float(0x7fc00000u) : x);
  }
  free(sum);
  free(sparse);
  return seen || !fits;
}

/* The largest error of a decoded element of a block x, for any signs of the rotation. Below 2^-100 adds nothing. */
static inline double reference_error(enum reference_kind kind, const float *x, uint64_t count, bool stochastic) {
  double most = 0, sum = 0, squares = 0;
  for (uint64_t i = 0; i < count; i++) {
    const double size = fabs((double)reference_seen(x[i]));
    most = size > most ? size : most;
    sum += size;
    squares += size * size;
  }
  const double steps = (stochastic ? 1 : 0.5) * 1.01, tiny = 0x1p-100;
  switch (kind) {
  case REFERENCE_BF16: return steps * most / 128 + tiny;
  case REFERENCE_Q8: return steps * most / 127 + tiny;
  case REFERENCE_Q4:
    return steps * sum / 7 + tiny; /* no coefficient is above sum / 256, and 256 errors meet */
  /* A projection is no longer than x. The scale with the right mean is too large for a lone coefficient among zeros. */
  case REFERENCE_Q3:
  case REFERENCE_Q2: return (stochastic ? 5 : 1.01) * sqrt(squares) + tiny;
  default: return most + tiny;
  }
}

#endif
