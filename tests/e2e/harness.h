/* SPDX-License-Identifier: BSD-3-Clause
 * Shared code of the end-to-end programs: ranks that meet, inputs that every rank can compute for every other one, and
 * test points that all ranks must agree on. The programs know nothing of tagc; they are run plain and preloaded.
 */
#ifndef TESTS_E2E_HARNESS_H
#define TESTS_E2E_HARNESS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "examples/rendezvous.h"
#include "interpose/nccl/nccl_newer.h"
#include "tests/unit/tap.h"

static int rank, nranks;
static ncclComm_t world, other; /* other: a second communicator, or NULL */

/* Waits for a call on communicators that may be non-blocking (NCCL_COMM_BLOCKING=0). Returns its result. */
static inline ncclResult_t settled(ncclResult_t status) {
  ncclComm_t *comms[] = {&world, &other}; /* a child's handle appears when its parent is ready */
  for (int i = 0; i < 2; i++)
    while (status == ncclInProgress && *comms[i]) {
      ncclResult_t state = ncclInternalError, asked = ncclCommGetAsyncError(*comms[i], &state);
      if (asked != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
        return asked != ncclSuccess ? asked : state;
      if (state == ncclSuccess)
        break;
      pause_briefly();
    }
  return status == ncclInProgress ? ncclSuccess : status;
}

#define CHECK(call) \
  do { \
    ncclResult_t check_status = settled(call); \
    if (check_status != ncclSuccess) { \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, ncclGetErrorString(check_status)); \
      exit(1); \
    } \
  } while (0)

static inline void meet(void) {
  struct rendezvous r;
  ncclUniqueId id;
  char why[200];
  if (!rendezvous_from_env(&r, why, sizeof why)) {
    fprintf(stderr, "%s\n", why);
    exit(1);
  }
  rank = r.rank;
  nranks = r.nranks;
  if (rank == 0)
    CHECK(ncclGetUniqueId(&id));
  if (!rendezvous_share(&r, &id, sizeof id, why, sizeof why)) {
    fprintf(stderr, "%s\n", why);
    exit(1);
  }
  CHECK(ncclCommInitRank(&world, nranks, id, rank));
}

/* A test point of rank 0, which passes if it holds on all ranks. Every rank must call this. */
__attribute__((format(printf, 2, 3))) static inline void all_ok(int holds, const char *what, ...) {
  int32_t mine = !!holds, all = 0;
  char text[300];
  va_list args;
  va_start(args, what);
  vsnprintf(text, sizeof text, what, args);
  va_end(args);
  CHECK(ncclAllReduce(&mine, &all, 1, ncclInt32, ncclMin, world, NULL));
  if (rank == 0)
    ok(all, "%s", text);
}

static inline int finish(void) {
  CHECK(ncclCommDestroy(world));
  return rank == 0 ? tap_done() : 0;
}

/* Counter-based randomness (splitmix64): the same on every rank. */
static inline uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* The i-th number of a seed that mix() has made: good enough for gradients, and cheaper than mix(). */
static inline uint64_t draw(uint64_t seed, uint64_t i) {
  const uint64_t x = (seed ^ i) * UINT64_C(0xd1342543de82ef95);
  return x ^ x >> 32;
}

static inline size_t size_of(ncclDataType_t type) { return type == ncclFloat32 ? 4 : 2; }

static inline float bits_to_float(uint32_t bits) {
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static inline uint32_t float_to_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

/* 2^e as a double, e from -1022 to 1023: ldexp() costs as much as all the rest of round_to(). */
static inline double power_of_two(int e) {
  const uint64_t bits = (uint64_t)(e + 1023) << 52;
  double power;
  memcpy(&power, &bits, sizeof power);
  return power;
}

/* The exponent of frexpf(), for a number that is finite and not 0. */
static inline int exponent_of(float x) {
  const int biased = float_to_bits(x) >> 23 & 255;
  int exponent = biased - 126;
  if (!biased)
    frexpf(x, &exponent);
  return exponent;
}

/* fp32 to the type and back, round to nearest even, by the definition of the formats: an independent reference. */
static inline float round_to(float x, ncclDataType_t type) {
  if (type == ncclFloat32 || x == 0 || !isfinite(x))
    return x;
  const int exponent = exponent_of(x);
  int digits = type == ncclFloat16 ? 11 : 8, least = type == ncclFloat16 ? -24 : -133;
  int step = exponent - digits < least ? least : exponent - digits;
  double scaled = x * power_of_two(-step), rounded = scaled + 0x1.8p52 - 0x1.8p52; /* an integer below 2^12 */
  double value = rounded * power_of_two(step), largest = type == ncclFloat16 ? 65504 : 0x1.fep127;
  return copysignf(fabs(value) > largest ? INFINITY : (float)value, x);
}

/* The bits of a number that the 16-bit type has. */
static inline uint16_t encode16(float x, ncclDataType_t type) {
  if (type == ncclBfloat16)
    return (uint16_t)(float_to_bits(x) >> 16);
  const uint16_t sign = signbit(x) ? 0x8000 : 0;
  if (isnan(x))
    return sign | 0x7e00;
  if (isinf(x))
    return sign | 0x7c00;
  if (x == 0)
    return sign;
  if (exponent_of(x) < -13)
    return (uint16_t)(sign | (uint16_t)(fabsf(x) * 0x1p24f));
  return (uint16_t)(sign | (exponent_of(x) + 14) << 10 | (float_to_bits(x) >> 13 & 1023));
}

static inline void store(void *buffer, size_t i, float x, ncclDataType_t type) {
  if (type == ncclFloat32)
    ((float *)buffer)[i] = x;
  else
    ((uint16_t *)buffer)[i] = encode16(round_to(x, type), type);
}

static inline float load(const void *buffer, size_t i, ncclDataType_t type) {
  if (type == ncclFloat32)
    return ((const float *)buffer)[i];
  uint16_t h = ((const uint16_t *)buffer)[i];
  if (type == ncclBfloat16)
    return bits_to_float((uint32_t)h << 16);
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  float value = exponent == 31
                  ? (mantissa ? NAN : INFINITY)
                  : (float)((exponent ? mantissa + 1024 : mantissa) * power_of_two(exponent ? exponent - 25 : -24));
  return h & 0x8000 ? -value : value;
}

/* The same for n values. The type is known outside of the loop, because tests spend much of their time here. */
static inline void round_all(float *x, size_t n, ncclDataType_t type) {
  for (size_t i = 0; type == ncclFloat16 && i < n; i++)
    x[i] = round_to(x[i], ncclFloat16);
  for (size_t i = 0; type == ncclBfloat16 && i < n; i++)
    x[i] = round_to(x[i], ncclBfloat16);
}

/* Stores numbers that the type has. */
static inline void encode_all(void *buffer, const float *from, size_t n, ncclDataType_t type) {
  uint16_t *bits = buffer;
  if (type == ncclFloat32)
    memcpy(buffer, from, n * sizeof *from);
  for (size_t i = 0; type == ncclFloat16 && i < n; i++)
    bits[i] = encode16(from[i], ncclFloat16);
  for (size_t i = 0; type == ncclBfloat16 && i < n; i++)
    bits[i] = encode16(from[i], ncclBfloat16);
}

static inline void store_all(void *buffer, const float *from, size_t n, ncclDataType_t type) {
  if (type == ncclFloat32)
    memcpy(buffer, from, n * sizeof *from);
  for (size_t i = 0; type == ncclFloat16 && i < n; i++)
    store(buffer, i, from[i], ncclFloat16);
  for (size_t i = 0; type == ncclBfloat16 && i < n; i++)
    store(buffer, i, from[i], ncclBfloat16);
}

static inline void load_all(float *to, const void *buffer, size_t n, ncclDataType_t type) {
  if (type == ncclFloat32)
    memcpy(to, buffer, n * sizeof *to);
  for (size_t i = 0; type == ncclFloat16 && i < n; i++)
    to[i] = load(buffer, i, ncclFloat16);
  for (size_t i = 0; type == ncclBfloat16 && i < n; i++)
    to[i] = load(buffer, i, ncclBfloat16);
}

#endif
