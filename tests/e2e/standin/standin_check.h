/* SPDX-License-Identifier: BSD-3-Clause
 * Shared code of the tests of the stand-in: test points of several ranks, a communicator of the world, and values of
 * every data type as doubles.
 *
 * Every rank runs the same test points. Rank 0 prints those that hold, every rank those that fail; standin.test makes
 * one TAP stream of it. A program ends with `return check_done();`. Single-threaded unless a test says otherwise.
 */
#ifndef TESTS_E2E_STANDIN_CHECK_H
#define TESTS_E2E_STANDIN_CHECK_H

#include "interpose/nccl/nccl_newer.h"
#include "tests/e2e/standin/standin_rendezvous.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static int check_rank, check_nranks, check_failures;

__attribute__((format(printf, 2, 3))) static inline bool check(bool holds, const char *what, ...) {
  char text[512];
  va_list args;
  va_start(args, what);
  vsnprintf(text, sizeof text, what, args);
  va_end(args);
  if (!holds)
    printf("not ok - %s (rank %d)\n", text, check_rank);
  else if (check_rank == 0)
    printf("ok - %s\n", text);
  fflush(stdout);
  check_failures += !holds;
  return holds;
}

/* A test point: the call must return this. */
static inline bool check_result(ncclResult_t got, ncclResult_t wanted, const char *what) {
  if (got != wanted)
    printf("# %s: %s: %s\n", what, ncclGetErrorString(got), ncclGetLastError(NULL));
  return check(got == wanted, "%s gives %d", what, (int)wanted);
}

/* Ends the test if the call fails. */
static inline void need(ncclResult_t result, const char *what) {
  if (result == ncclSuccess)
    return;
  printf("not ok - %s: %s: %s (rank %d)\n", what, ncclGetErrorString(result), ncclGetLastError(NULL), check_rank);
  exit(1);
}
#define NEED(call) need(call, #call)

static inline int check_done(void) { return check_failures ? 1 : 0; }

/* A communicator of all ranks that launch has started. */
static inline ncclComm_t check_world(void) {
  ncclUniqueId id;
  ncclComm_t comm;
  if (rendezvous_world(&check_rank, &check_nranks) != 0)
    exit(1);
  if (check_rank == 0)
    NEED(ncclGetUniqueId(&id));
  if (rendezvous_share(&id, sizeof id) != 0)
    exit(1);
  NEED(ncclCommInitRank(&comm, check_nranks, id, check_rank));
  return comm;
}

/* -- values of every type ---------------------------------------------------------------------------------------- */
static const char *const type_names[] = {"int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
                                         "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
static const size_t type_sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static const char *const op_names[] = {"sum", "prod", "max", "min", "avg", "premulsum"};

static inline bool is_float(ncclDataType_t type) {
  return type == ncclFloat16 || type == ncclFloat32 || type == ncclFloat64 || type == ncclBfloat16;
}

/* Rounds to `bits` significant bits, smallest step 2^floor: nearest, ties to even. */
static inline double quantise(double value, int bits, int floor, double largest) {
  int exponent;
  if (value == 0 || !isfinite(value))
    return value;
  frexp(value, &exponent);
  int step = exponent - bits > floor ? exponent - bits : floor;
  double rounded = ldexp(nearbyint(ldexp(value, -step)), step);
  return fabs(rounded) > largest ? copysign(INFINITY, value) : rounded;
}

/* The nearest value of the type. 16-bit types compute in fp32 first. */
static inline double round_to(ncclDataType_t type, double value) {
  switch (type) {
  case ncclFloat16: return quantise((double)(float)value, 11, -24, 65504);
  case ncclBfloat16: return quantise((double)(float)value, 8, -133, 0x1.fep127);
  case ncclFloat32: return (double)(float)value;
  default: return value;
  }
}

static inline uint16_t bf16_of(double value) {
  float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  return (uint16_t)(bits >> 16);
}

/* `value` is exact in the type. */
static inline uint16_t half_of(double value) {
  int exponent;
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  value = fabs(value);
  if (isinf(value))
    return sign | 0x7c00;
  if (value < 0x1p-14)
    return (uint16_t)(sign | (int)(value * 0x1p24));
  double fraction = frexp(value, &exponent);
  return (uint16_t)(sign | (exponent + 14) << 10 | ((int)(fraction * 2048) & 0x3ff));
}

static inline double of_half(uint16_t half) {
  int exponent = half >> 10 & 31, fraction = half & 0x3ff;
  double magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                     : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                    : ldexp(fraction, -24);
  return half & 0x8000 ? -magnitude : magnitude;
}

static inline void put(void *array, ncclDataType_t type, size_t index, double value) {
  switch (type) {
  case ncclInt8: ((int8_t *)array)[index] = (int8_t)value; break;
  case ncclInt32: ((int32_t *)array)[index] = (int32_t)value; break;
  case ncclUint32: ((uint32_t *)array)[index] = (uint32_t)value; break;
  case ncclInt64: ((int64_t *)array)[index] = (int64_t)value; break;
  case ncclUint64: ((uint64_t *)array)[index] = (uint64_t)value; break;
  case ncclFloat16: ((uint16_t *)array)[index] = half_of(value); break;
  case ncclBfloat16: ((uint16_t *)array)[index] = bf16_of(value); break;
  case ncclFloat32: ((float *)array)[index] = (float)value; break;
  case ncclFloat64: ((double *)array)[index] = value; break;
  default: ((uint8_t *)array)[index] = (uint8_t)value;
  }
}

static inline double get(const void *array, ncclDataType_t type, size_t index) {
  uint32_t bits;
  float single;
  switch (type) {
  case ncclInt8: return ((const int8_t *)array)[index];
  case ncclInt32: return ((const int32_t *)array)[index];
  case ncclUint32: return ((const uint32_t *)array)[index];
  case ncclInt64: return (double)((const int64_t *)array)[index];
  case ncclUint64: return (double)((const uint64_t *)array)[index];
  case ncclFloat16: return of_half(((const uint16_t *)array)[index]);
  case ncclBfloat16:
    bits = (uint32_t)((const uint16_t *)array)[index] << 16;
    memcpy(&single, &bits, sizeof single);
    return single;
  case ncclFloat32: return ((const float *)array)[index];
  case ncclFloat64: return ((const double *)array)[index];
  default: return ((const uint8_t *)array)[index];
  }
}

/* A number that depends only on these three. */
static inline uint32_t mix(uint32_t seed, int rank, size_t index) {
  uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)rank * UINT64_C(0xd1342543de82ef95) + index + 1;
  x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
  return (uint32_t)(x >> 32);
}

/* Small whole numbers, which every type adds and multiplies exactly for a few ranks. */
static inline double small_value(ncclDataType_t type, uint32_t seed, int rank, size_t index) {
  int value = (int)(mix(seed, rank, index) % 4);
  bool negative = type != ncclUint8 && type != ncclUint32 && type != ncclUint64 && mix(seed, rank, index) & 4;
  return negative ? -value : value;
}

#endif
