/* SPDX-License-Identifier: BSD-3-Clause
 * The bits of numbers: conversions, powers of two, mixing. The arithmetic that every codec and every device shares.
 *
 * Purpose  One definition for the C code and for GPU kernels (TAGC_HD is empty on the host). Every choice uses integers
 *          alone, so that all devices give the same bits.
 * Threads  Pure functions. Failure: none.
 */
#ifndef KERNELS_CODEC_BITS_H
#define KERNELS_CODEC_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/codec/codec.h"

#ifdef __CUDACC__
#define TAGC_HD __host__ __device__
#else
#define TAGC_HD
#endif

#define TAGC_NAN_BITS 0x7fc00000u    /* the NaN that every codec writes */
#define TAGC_LEAST_BITS 0x03800000u  /* 2^-120: smaller magnitudes count as zero */
#define TAGC_SILENT_BITS 0x08800000u /* 2^-110: blocks of smaller ones become zeros, with a scale of zero */

static inline TAGC_HD uint32_t tagc_bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}

static inline TAGC_HD float tagc_float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

/* 2^power for -149 <= power <= 127, denormals included. */
static inline TAGC_HD float tagc_pow2(int power) {
  return tagc_float_of(power >= -126 ? (uint32_t)(power + 127) << 23 : 1u << (power + 149));
}

static inline TAGC_HD uint32_t tagc_mul_hi32(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }

/* A 64-bit finaliser: every input bit reaches the output. Only two multiplications, because it runs once an element. */
static inline TAGC_HD uint64_t tagc_mix64(uint64_t x) {
  x *= 0x9e3779b97f4a7c15u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  return x;
}

/* The key of the random bits that round a rank's sent values of a shard, or its kept (residual) values. */
enum tagc_chance { TAGC_CHANCE_SENT = 0x5743, TAGC_CHANCE_KEPT = 0x7e51 };

static inline TAGC_HD uint64_t tagc_chance_key(uint64_t seed, enum tagc_chance what, uint32_t rank, uint32_t shard) {
  return tagc_mix64(tagc_mix64(seed ^ (uint64_t)what) + ((uint64_t)rank << 32 | shard));
}

static inline TAGC_HD float tagc_from_bf16(uint16_t h) { return tagc_float_of((uint32_t)h << 16); }

/* Nearest even; a NaN stays one and becomes quiet. */
static inline TAGC_HD uint16_t tagc_to_bf16(float x) {
  uint32_t bits = tagc_bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline TAGC_HD float tagc_from_fp16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 0x3ffu;
  if (exponent == 31)
    return tagc_float_of(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0));
  if (exponent)
    return tagc_float_of(sign | (exponent + 112) << 23 | mantissa << 13);
  /* Denormal: mantissa * 2^-24, exact in fp32. */
  float magnitude = (float)mantissa * tagc_float_of(103u << 23);
  return tagc_float_of(sign | tagc_bits_of(magnitude));
}

/* Nearest even; overflow gives infinity; a NaN stays one and becomes quiet. */
static inline TAGC_HD uint16_t tagc_to_fp16(float x) {
  uint32_t bits = tagc_bits_of(x), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
  if (a > 0x7f800000u)
    return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
  if (a >= 0x477ff000u) /* 65520: rounds to 2^16 */
    return (uint16_t)(sign | 0x7c00u);
  if (a >= 0x38800000u) /* 2^-14: the smallest normal number */
    return (uint16_t)(sign | (((a + 0xfffu + (a >> 13 & 1u)) >> 13) - (112u << 10)));
  if (a < 0x33000000u) /* below 2^-25 */
    return (uint16_t)sign;
  uint32_t shift = 126 - (a >> 23), mantissa = (a & 0x7fffffu) | 0x800000u;
  uint32_t rounded = (mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1u)) >> shift;
  return (uint16_t)(sign | rounded);
}

/* Element i of a buffer, as fp32. */
static inline TAGC_HD float tagc_load(const void *buffer, uint64_t i, enum tagc_dtype dtype) {
  if (dtype == TAGC_FLOAT32)
    return ((const float *)buffer)[i];
  uint16_t h = ((const uint16_t *)buffer)[i];
  return dtype == TAGC_FLOAT16 ? tagc_from_fp16(h) : tagc_from_bf16(h);
}

/* Rounds once and stores. */
static inline TAGC_HD void tagc_store(void *buffer, uint64_t i, enum tagc_dtype dtype, float x) {
  if (dtype == TAGC_FLOAT32)
    ((float *)buffer)[i] = x;
  else
    ((uint16_t *)buffer)[i] = dtype == TAGC_FLOAT16 ? tagc_to_fp16(x) : tagc_to_bf16(x);
}

static inline const void *tagc_element_of(const void *buffer, uint64_t i, enum tagc_dtype dtype) {
  return (const char *)buffer + i * tagc_dtype_size(dtype);
}

/* The least magnitude (as bits) that rounds to an infinity of the type. */
static inline TAGC_HD uint32_t tagc_infinite_bits(enum tagc_dtype dtype) {
  return dtype == TAGC_FLOAT32 ? 0x7f800000u : dtype == TAGC_FLOAT16 ? 0x477ff000u : 0x7f7f8000u;
}

/* True if x is stored as an infinity or a NaN. */
static inline TAGC_HD bool tagc_is_nonfinite(float x, enum tagc_dtype dtype) {
  return (tagc_bits_of(x) & 0x7fffffffu) >= tagc_infinite_bits(dtype);
}

/* The end of every reduction: one division, one rounding, and one NaN. The payload bits of a NaN depend on the order of
 * operands, which compilers and processors choose freely. True if the result is an infinity or a NaN. */
static inline TAGC_HD bool tagc_store_result(void *buffer, uint64_t i, enum tagc_dtype dtype, float sum,
                                             float divisor) {
  float x = sum / divisor;
  tagc_store(buffer, i, dtype, x == x ? x : tagc_float_of(TAGC_NAN_BITS));
  return tagc_is_nonfinite(x, dtype);
}

/* -- codes with a scale -------------------------------------------------------------------------------------------- */

/* The scale that maps values up to `most` to codes up to `limit`: rounded up, so that no code exceeds the limit. */
static inline TAGC_HD uint16_t tagc_scale_up(float most, float limit) {
  if (tagc_bits_of(most) < TAGC_SILENT_BITS)
    return 0;
  return (uint16_t)((tagc_bits_of(most / limit) + 0xffffu) >> 16);
}

/* The factor that turns values into codes. */
static inline TAGC_HD float tagc_scale_inverse(uint16_t scale) { return scale ? 1.0f / tagc_from_bf16(scale) : 0.0f; }

/* Adding and subtracting this rounds a magnitude below 2^22 to the nearest whole number (ties: even). */
#define TAGC_NEAREST 12582912.0f /* 1.5 * 2^23 */

static inline TAGC_HD size_t tagc_pad16(size_t bytes) { return (bytes + 15) & ~(size_t)15; }

/* The byte offset of a shard in job->send. */
static inline size_t tagc_job_shard_at(const struct tagc_job *job, int shard) {
  return (size_t)shard * (job->stride ? job->stride : job->shape.n) * tagc_dtype_size(job->shape.dtype);
}

static inline const void *tagc_job_shard(const struct tagc_job *job, int shard) {
  return (const char *)job->send + tagc_job_shard_at(job, shard);
}

#endif
