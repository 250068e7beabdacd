/* SPDX-License-Identifier: BSD-3-Clause
 * A second implementation of the dense codecs, element by element from their headers: the messages, the residual, and
 * the owner's result. fp32 as the formats say. It shares only conversions, tagc_mix64() and the list of exceptions.
 *
 * Threads  Single-threaded.
 */
#ifndef TESTS_UNIT_DENSE_REFERENCE_H
#define TESTS_UNIT_DENSE_REFERENCE_H

#include <math.h>

#include "kernels/codec/exceptions.h"
#include "tests/unit/codec/sim.h"

enum dense_codec { DENSE_BF16, DENSE_Q8, DENSE_Q4, DENSE_Q3, DENSE_Q2, DENSE_CODECS };

static const char *const dense_name[] = {"bf16", "q8", "q4", "q3", "q2"};

static inline bool dense_rotates(enum dense_codec codec) { return codec == DENSE_Q4 || codec == DENSE_Q2; }

static inline size_t dense_round_up(size_t bytes) { return (bytes + 15) / 16 * 16; }

struct dense_parts {
  size_t scales, codes, end, bytes;
};

static inline struct dense_parts dense_parts(enum dense_codec codec, uint64_t n) {
  static const size_t scales[] = {0, 1, 2, 2, 1}, bytes[] = {512, 256, 128, 96, 64};
  const size_t blocks = (size_t)((n + 255) / 256);
  struct dense_parts parts;
  parts.scales = tagc_exceptions_bytes(n);
  parts.codes = parts.scales + dense_round_up(2 * scales[codec] * blocks);
  parts.end = parts.codes + (codec == DENSE_BF16 ? 2 * (size_t)n : bytes[codec] * blocks);
  parts.bytes = dense_round_up(parts.end);
  return parts;
}

/* -- one block ----------------------------------------------------------------------------------------------------- */

struct dense_block {
  enum dense_codec codec;
  uint64_t seed, number;
  int rank, shard;
  bool stochastic;
};

static inline int dense_negative(const struct dense_block *b, int i) {
  uint64_t key = tagc_mix64(tagc_mix64(b->seed) + (uint64_t)b->shard);
  return (int)(tagc_mix64(key + 4 * b->number + (uint64_t)(i / 64)) >> i % 64 & 1);
}

static inline uint32_t dense_chance(const struct dense_block *b, int i) {
  uint64_t key = tagc_mix64(tagc_mix64(b->seed ^ 0x5743) + ((uint64_t)b->rank << 32 | (uint64_t)b->shard));
  return (uint32_t)(tagc_mix64(key + 64 * b->number + (uint64_t)(i / 4)) >> 16 * (i % 4) & 0xffff);
}

static inline void dense_hadamard(float c[256]) {
  for (int stride = 1; stride < 256; stride *= 2)
    for (int i = 0; i < 256; i++)
      if ((i & stride) == 0) {
        float a = c[i], b = c[i + stride];
        c[i] = a + b;
        c[i + stride] = a - b;
      }
}

static inline void dense_rotate(const struct dense_block *b, const float x[256], float c[256]) {
  for (int i = 0; i < 256; i++)
    c[i] = (dense_negative(b, i) ? -x[i] : x[i]) / 256;
  dense_hadamard(c);
}

static inline void dense_rotate_back(const struct dense_block *b, float c[256]) {
  dense_hadamard(c);
  for (int i = 0; i < 256; i++)
    c[i] = dense_negative(b, i) ? -c[i] : c[i];
}

static inline float dense_largest(const float *x, int count) {
  float most = 0;
  for (int i = 0; i < count; i++)
    most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
  return most;
}

static inline float dense_from_scale(uint16_t scale) { return tagc_from_bf16(scale); }

/* The least bf16 that is at least most / limit. */
static inline uint16_t dense_scale_up(float most, float limit) {
  float quotient = most / limit;
  uint16_t scale = tagc_to_bf16(quotient);
  if (most < ldexpf(1, -110))
    return 0;
  return dense_from_scale(scale) < quotient ? (uint16_t)(scale + 1) : scale;
}

/* A code: an integer within +-limit. */
static inline int dense_code(const struct dense_block *b, int i, float x, uint16_t scale, int limit) {
  if (scale == 0)
    return 0;
  float y = x * (1 / dense_from_scale(scale));
  if (b->stochastic)
    y += ((float)dense_chance(b, i) + 0.5f) / 65536 - 0.5f;
  int code = (int)nearbyintf(y);
  return code > limit ? limit : code < -limit ? -limit : code;
}

/* A sum in the order of the format: sixteen lanes, then halves. */
static inline float dense_tree_of(const float *term, int count) {
  float lane[16] = {0};
  for (int i = 0; i < count; i++)
    lane[i % 16] += term[i];
  for (int half = 8; half > 0; half /= 2)
    for (int t = 0; t < half; t++)
      lane[t] += lane[t + half];
  return lane[0];
}

static inline float dense_tree(const float term[256]) { return dense_tree_of(term, 256); }

static const float dense_levels[8] = {0, 0.5606f, 1.188f, 2.033f, 2.9f, -0.5606f, -1.188f, -2.033f};

/* The code of v for a mean square, of which `squares` has 128. */
static inline int dense_q3_code(float v, float squares) {
  float half_way[4];
  int above = 0;
  for (int k = 0; k < 4; k++)
    half_way[k] = (dense_levels[k] + dense_levels[k + 1]) / 2;
  for (int k = 0; k < 4; k++)
    above += v * v > squares * (half_way[k] * half_way[k] / 128);
  return v > 0 ? above : above > 3 ? 7 : above > 0 ? above + 4 : 0;
}

/* Half a block. */
static inline uint16_t dense_encode_q3(bool stochastic, const float x[128], int code[128]) {
  const float most = dense_largest(x, 128);
  float v[128], term[128], sign = 1;
  int exponent = 1;
  for (int i = 0; i < 128; i++) {
    sign = x[i] == -most ? -1 : sign;
    code[i] = 0;
  }
  if (most < ldexpf(1, -110))
    return 0;
  if (most < ldexpf(1, -40) || most >= ldexpf(1, 41))
    frexpf(most, &exponent);
  for (int i = 0; i < 128; i++) {
    v[i] = sign * ldexpf(x[i], 1 - exponent);
    term[i] = v[i] * v[i];
  }
  const float squares = dense_tree_of(term, 128), fourth = ldexpf(most, 1 - exponent) / 4;
  for (int i = 0; i < 128; i++) {
    code[i] = dense_q3_code(v[i], fmaxf(squares, 128 * (fourth * fourth)));
    term[i] = v[i] * dense_levels[code[i]];
  }
  const float product = dense_tree_of(term, 128);
  for (int i = 0; i < 128; i++)
    term[i] = dense_levels[code[i]] * dense_levels[code[i]];
  return tagc_to_bf16(sign * ldexpf(stochastic ? squares / product : product / dense_tree_of(term, 128), exponent - 1));
}

static inline void dense_encode_q2(const struct dense_block *b, const float c[256], uint16_t *scale, uint8_t *codes) {
  const float small = 0.4528f, big = 1.510f, most = dense_largest(c, 256);
  float v[256], term[256];
  int exponent, large = 0;
  memset(codes, 0, 64);
  *scale = 0;
  if (most < ldexpf(1, -110))
    return;
  frexpf(most, &exponent);
  for (int i = 0; i < 256; i++)
    v[i] = ldexpf(c[i], 1 - exponent);
  for (int i = 0; i < 256; i++)
    term[i] = v[i] * v[i];
  const float squares = dense_tree(term), threshold = squares * (0.9816f * 0.9816f / 256);
  for (int i = 0; i < 256; i++) {
    int is_large = v[i] * v[i] > threshold;
    large += is_large;
    term[i] = fabsf(v[i]) * (is_large ? big : small);
    codes[i % 64] |= (uint8_t)((is_large | (signbit(v[i]) ? 2 : 0)) << 2 * (i / 64));
  }
  const float product = dense_tree(term);
  float s =
    b->stochastic ? squares / product : product / ((float)large * (big * big) + (float)(256 - large) * (small * small));
  *scale = tagc_to_bf16(ldexpf(s, exponent - 1));
}

static inline void dense_encode_block(const struct dense_block *b, const float x[256], uint16_t *scales,
                                      uint8_t *codes) {
  float c[256];
  int code[256];
  if (dense_rotates(b->codec))
    dense_rotate(b, x, c);
  for (int half = 0; b->codec == DENSE_Q3 && half < 2; half++)
    scales[half] = dense_encode_q3(b->stochastic, x + 128 * half, code + 128 * half);
  if (b->codec == DENSE_Q2)
    dense_encode_q2(b, c, scales, codes);
  for (int i = 0; i < 256; i++) {
    if (b->codec == DENSE_BF16) {
      uint32_t bits = tagc_bits_of(x[i]);
      uint16_t value = b->stochastic ? (uint16_t)((bits + dense_chance(b, i)) >> 16) : tagc_to_bf16(x[i]);
      memcpy(codes + 2 * i, &value, 2);
    } else if (b->codec == DENSE_Q8) {
      scales[0] = dense_scale_up(dense_largest(x, 256), 127);
      codes[i] = (uint8_t)dense_code(b, i, x[i], scales[0], 127);
    } else if (b->codec == DENSE_Q4) {
      const int half = i / 128;
      scales[half] = dense_scale_up(dense_largest(c + 128 * half, 128), 7);
      uint8_t nibble = (uint8_t)(dense_code(b, i, c[i], scales[half], 7) & 15);
      codes[i % 128] = half ? (uint8_t)(codes[i % 128] | nibble << 4) : nibble;
    } else if (b->codec == DENSE_Q3) {
      codes[i % 64] |= (uint8_t)((code[i] & 3) << i / 64 * 2);
      codes[64 + i % 32] |= (uint8_t)(code[i] / 4 << i / 32);
    }
  }
}

/* Decodes scales and codes into values, which are rotated for q4 and q2. */
static inline void dense_decode_block(enum dense_codec codec, const uint16_t *scales, const uint8_t *codes,
                                      float x[256]) {
  for (int i = 0; i < 256; i++) {
    if (codec == DENSE_BF16) {
      uint16_t value;
      memcpy(&value, codes + 2 * i, 2);
      x[i] = tagc_from_bf16(value);
    } else if (codec == DENSE_Q8) {
      x[i] = (float)(int8_t)codes[i] * dense_from_scale(scales[0]);
    } else if (codec == DENSE_Q4) {
      int code = i < 128 ? codes[i] & 15 : codes[i - 128] >> 4;
      x[i] = (float)(code < 8 ? code : code - 16) * dense_from_scale(scales[i / 128]);
    } else if (codec == DENSE_Q3) {
      int lower = codes[i % 64] >> 2 * (i / 64) & 3, upper = codes[64 + i % 32] >> i / 32 & 1;
      x[i] = dense_levels[lower + 4 * upper] * dense_from_scale(scales[i / 128]);
    } else {
      int code = codes[i % 64] >> 2 * (i / 64) & 3;
      float magnitude = (code & 1 ? 1.510f : 0.4528f) * dense_from_scale(scales[0]);
      x[i] = code & 2 ? -magnitude : magnitude;
    }
  }
}

/* -- one shard ----------------------------------------------------------------------------------------------------- */

static inline void dense_read_block(enum dense_codec codec, uint64_t n, const uint8_t *message, uint64_t number,
                                    float x[256]) {
  static const size_t scales[] = {0, 1, 2, 2, 1}, bytes[] = {512, 256, 128, 96, 64};
  const struct dense_parts parts = dense_parts(codec, n);
  const size_t at = parts.codes + number * bytes[codec], some = parts.end - at;
  uint16_t scale[2] = {0};
  uint8_t code[512] = {0};
  memcpy(scale, message + parts.scales + 2 * scales[codec] * number, 2 * scales[codec]);
  memcpy(code, message + at, some < bytes[codec] ? some : bytes[codec]);
  dense_decode_block(codec, scale, code, x);
}

/* The message that `job` must send to a shard's owner, except for `anywhere`, and the new residual (e: the old one).
 * Returns the number of exceptions. */
static inline uint32_t dense_encode_shard(enum dense_codec codec, const struct tagc_job *job, int shard, const float *e,
                                          uint8_t *message, float *left) {
  static const size_t scales[] = {0, 1, 2, 2, 1}, bytes[] = {512, 256, 128, 96, 64};
  const uint64_t n = job->shape.n;
  const struct dense_parts parts = dense_parts(codec, n);
  struct tagc_exceptions *list = (struct tagc_exceptions *)message;
  memset(message, 0, parts.bytes);
  for (uint64_t number = 0; number < (n + 255) / 256; number++) {
    struct dense_block b = {codec, job->seed, number, job->rank, shard, job->stochastic};
    float whole[256] = {0}, x[256] = {0}, decoded[256];
    uint16_t scale[2] = {0};
    uint8_t code[512] = {0};
    const int count = n - 256 * number < 256 ? (int)(n - 256 * number) : 256;
    for (int i = 0; i < count; i++) {
      const uint64_t at = 256 * number + (uint64_t)i;
      whole[i] = job->scale * tagc_load(tagc_job_shard(job, shard), at, job->shape.dtype);
      whole[i] = e ? whole[i] + e[at] : whole[i];
      x[i] = whole[i];
      if (!(fabsf(x[i]) < ldexpf(1, 120))) {
        tagc_exceptions_add(list, n, (uint32_t)at, x[i]);
        x[i] = 0;
      }
      x[i] = fabsf(x[i]) < ldexpf(1, -120) && x[i] != 0 ? 0 : x[i];
    }
    dense_encode_block(&b, x, scale, code);
    const size_t place = parts.codes + number * bytes[codec], some = parts.end - place;
    memcpy(message + parts.scales + 2 * scales[codec] * number, scale, 2 * scales[codec]);
    memcpy(message + place, code, some < bytes[codec] ? some : bytes[codec]);
    dense_decode_block(codec, scale, code, decoded);
    if (dense_rotates(codec))
      dense_rotate_back(&b, decoded);
    for (int i = 0; left && i < count; i++)
      left[256 * number + (uint64_t)i] = fabsf(whole[i]) < ldexpf(1, 120) ? whole[i] - decoded[i] : 0;
  }
  return tagc_exceptions_close(list, n);
}

/* True if a sender had more exceptions than fit. */
static inline int dense_is_lost(const struct tagc_job *job) {
  int lost = 0;
  for (int sender = 0; sender < job->shape.nranks; sender++) {
    const uint8_t *message = job->message_in + (size_t)sender * job->layout.message_bytes;
    if (sender != job->rank)
      lost |= ((const struct tagc_exceptions *)message)->count > tagc_exceptions_capacity(job->shape.n);
  }
  return lost;
}

/* The owner's result from the received messages, into `out` of the shape's type. */
static inline void dense_decode_shard(enum dense_codec codec, const struct tagc_job *job, void *out) {
  const uint64_t n = job->shape.n;
  const int lost = dense_is_lost(job);
  for (uint64_t number = 0; number < (n + 255) / 256; number++) {
    struct dense_block b = {codec, job->seed, number, 0, job->rank, false};
    float sum[256] = {0}, x[256];
    for (int sender = 0; sender < job->shape.nranks; sender++) {
      if (sender == job->rank)
        continue;
      dense_read_block(codec, n, job->message_in + (size_t)sender * job->layout.message_bytes, number, x);
      for (int i = 0; i < 256; i++)
        sum[i] += x[i];
    }
    if (dense_rotates(codec))
      dense_rotate_back(&b, sum);
    for (uint64_t i = 0, at = 256 * number; i < 256 && at < n; i++, at++) {
      float y = sum[i] + job->scale * tagc_load(tagc_job_shard(job, job->rank), at, job->shape.dtype);
      for (int sender = 0; sender < job->shape.nranks; sender++) {
        const struct tagc_exceptions *list =
          (const struct tagc_exceptions *)(job->message_in + (size_t)sender * job->layout.message_bytes);
        for (uint32_t k = 0; sender != job->rank && !lost && k < list->count; k++)
          y += list->entry[k].position == at ? tagc_float_of(list->entry[k].bits) : 0.0f;
      }
      tagc_store_result(out, at, job->shape.dtype, lost ? (float)NAN : y, job->divisor);
    }
  }
}

#endif
