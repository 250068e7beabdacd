/* SPDX-License-Identifier: BSD-3-Clause
 * CUDA C++ for the host: a .cu file that is compiled with `g++ -std=c++17 -x c++ -include emulate.h` becomes kernels
 * that the stand-in for the driver runs on the CPU. No header of NVIDIA's is needed. README.md lists what is emulated.
 *
 * Static shared memory is thread-local: a block runs on one OS thread, and its threads are fibres on that. Undefined
 * behaviour of a GPU is diagnosed, or gives a value that no test can take for a right one.
 */
#ifndef TESTS_STANDIN_CUDA_EMULATE_H
#define TESTS_STANDIN_CUDA_EMULATE_H

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include <utility>

#include "tests/standin/cuda/emulator.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ thread_local /* also inside a static function */
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx (emulate_self->thread)
#define blockIdx (*emulate_self->block)
#define blockDim (*emulate_self->block_size)
#define gridDim (*emulate_self->grid_size)
#define warpSize EMULATE_WARP

/* -- vectors ------------------------------------------------------------------------------------------------------- */
#define EMULATE_VECTORS(type, name) \
  struct alignas(2 * sizeof(type)) name##2 { \
    type x, y; \
  }; \
  struct name##3 { \
    type x, y, z; \
  }; \
  struct alignas(4 * sizeof(type) < 16 ? 4 * sizeof(type) : 16) name##4 { \
    type x, y, z, w; \
  }; \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
EMULATE_VECTORS(signed char, char)
EMULATE_VECTORS(unsigned char, uchar)
EMULATE_VECTORS(short, short)
EMULATE_VECTORS(unsigned short, ushort)
EMULATE_VECTORS(int, int)
EMULATE_VECTORS(unsigned, uint)
EMULATE_VECTORS(long long, longlong)
EMULATE_VECTORS(unsigned long long, ulonglong)
EMULATE_VECTORS(float, float)
EMULATE_VECTORS(double, double)
#undef EMULATE_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

/* -- bits ---------------------------------------------------------------------------------------------------------- */
template <typename To, typename From> inline To emulate_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "of the same size");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

inline unsigned __float_as_uint(float x) { return emulate_bits<unsigned>(x); }
inline int __float_as_int(float x) { return emulate_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return emulate_bits<float>(x); }
inline float __int_as_float(int x) { return emulate_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emulate_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emulate_bits<double>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
  return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  uint64_t bytes = (uint64_t)y << 32 | x;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; i++) {
    unsigned nibble = selector >> 4 * i & 15, byte = (unsigned)(bytes >> 8 * (nibble & 7)) & 255;
    if (nibble & 8) /* its sign, eight times */
      byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((uint64_t)high << 32 | low) << (by & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return (unsigned)(((uint64_t)high << 32 | low) >> (by & 31));
}
inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((uint64_t)x * y >> 32); }
inline int __mulhi(int x, int y) { return (int)((int64_t)x * y >> 32); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ typedef unsigned __int128 wide;
  return (unsigned long long)((wide)x * y >> 64);
}

/* -- arithmetic that says how it rounds; the host rounds to nearest ------------------------------------------------ */
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned x) { return (float)x; }
inline float __ll2float_rn(long long x) { return (float)x; }
inline float __ull2float_rn(unsigned long long x) { return (float)x; }
/* Saturates to the nearest integer; NaN is zero. */
inline int emulate_float2int(float x) {
  return x != x ? 0 : x >= 2147483648.0f ? INT_MAX : x < -2147483648.0f ? INT_MIN : (int)x;
}
inline int __float2int_rn(float x) { return emulate_float2int(nearbyintf(x)); }
inline int __float2int_rz(float x) { return emulate_float2int(x); }
inline int __float2int_rd(float x) { return emulate_float2int(floorf(x)); }

template <typename T> inline T min(T x, T y) { return y < x ? y : x; }
template <typename T> inline T max(T x, T y) { return x < y ? y : x; }

/* -- memory -------------------------------------------------------------------------------------------------------- */
template <typename T> inline T __ldg(const T *from) { return *from; }
template <typename T> inline T __ldcs(const T *from) { return *from; }
template <typename T> inline T __ldcg(const T *from) { return *from; }
template <typename T> inline T __ldcv(const T *from) { return *const_cast<const volatile T *>(from); }
template <typename T> inline void __stcs(T *to, T value) { *to = value; }
template <typename T> inline void __stcg(T *to, T value) { *to = value; }

inline void __threadfence() { emulate_fence(); }
inline void __threadfence_block() { emulate_fence(); }
inline void __threadfence_system() { emulate_fence(); }

#define EMULATE_ATOMIC(name, type, builtin) \
  inline type name(type *at, type value) { return builtin(at, value, __ATOMIC_RELAXED); }
#define EMULATE_ATOMICS(type) \
  EMULATE_ATOMIC(atomicAdd, type, __atomic_fetch_add) \
  EMULATE_ATOMIC(atomicOr, type, __atomic_fetch_or) \
  EMULATE_ATOMIC(atomicAnd, type, __atomic_fetch_and) \
  EMULATE_ATOMIC(atomicXor, type, __atomic_fetch_xor) \
  EMULATE_ATOMIC(atomicExch, type, __atomic_exchange_n) \
  inline type atomicCAS(type *at, type expected, type value) { \
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    return expected; \
  } \
  inline type atomicMax(type *at, type value) { \
    type old = __atomic_load_n(at, __ATOMIC_RELAXED); \
    while (old < value && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) \
      ; \
    return old; \
  } \
  inline type atomicMin(type *at, type value) { \
    type old = __atomic_load_n(at, __ATOMIC_RELAXED); \
    while (value < old && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) \
      ; \
    return old; \
  }
EMULATE_ATOMICS(int)
EMULATE_ATOMICS(unsigned)
EMULATE_ATOMICS(unsigned long long)
#undef EMULATE_ATOMICS
#undef EMULATE_ATOMIC
inline unsigned atomicSub(unsigned *at, unsigned value) { return __atomic_fetch_sub(at, value, __ATOMIC_RELAXED); }
inline int atomicSub(int *at, int value) { return __atomic_fetch_sub(at, value, __ATOMIC_RELAXED); }
inline float atomicExch(float *at, float value) {
  return __uint_as_float(__atomic_exchange_n((unsigned *)(void *)at, __float_as_uint(value), __ATOMIC_RELAXED));
}
inline float atomicAdd(float *at, float value) {
  unsigned *bits = (unsigned *)(void *)at, old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(bits, &old, __float_as_uint(__uint_as_float(old) + value), false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
  return __uint_as_float(old);
}
inline double atomicAdd(double *at, double value) {
  unsigned long long *bits = (unsigned long long *)(void *)at, old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(bits, &old, emulate_bits<unsigned long long>(emulate_bits<double>(old) + value),
                                      false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
  return emulate_bits<double>(old);
}

/* -- synchronization: default arguments are those of the caller's line --------------------------------------------- */
#define EMULATE_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(EMULATE_HERE) { emulate_barrier(EMULATE_SYNC, 0, file, line); }
inline int __syncthreads_or(int value, EMULATE_HERE) { return emulate_barrier(EMULATE_OR, value, file, line); }
inline int __syncthreads_and(int value, EMULATE_HERE) { return emulate_barrier(EMULATE_AND, value, file, line); }
inline int __syncthreads_count(int value, EMULATE_HERE) { return emulate_barrier(EMULATE_COUNT, value, file, line); }

inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATE_HERE) {
  emulate_warp(EMULATE_SYNCWARP, mask, 0, 0, EMULATE_WARP, file, line);
}

template <typename T>
inline T emulate_shuffle(emulate_warp_kind kind, unsigned mask, T value, unsigned argument, int width, const char *file,
                         int line) {
  static_assert(std::is_arithmetic<T>::value && sizeof(T) <= 8, "a number");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = emulate_warp(kind, mask, bits, argument, (unsigned)width, file, line);
  memcpy(&value, &bits, sizeof value);
  return value;
}
template <typename T> inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, EMULATE_HERE) {
  return emulate_shuffle(EMULATE_SHFL, mask, value, (unsigned)lane, width, file, line);
}
template <typename T> inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, EMULATE_HERE) {
  return emulate_shuffle(EMULATE_SHFL_UP, mask, value, by, width, file, line);
}
template <typename T> inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, EMULATE_HERE) {
  return emulate_shuffle(EMULATE_SHFL_DOWN, mask, value, by, width, file, line);
}
template <typename T> inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, EMULATE_HERE) {
  return emulate_shuffle(EMULATE_SHFL_XOR, mask, value, (unsigned)lanes, width, file, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, EMULATE_HERE) {
  return (unsigned)emulate_warp(EMULATE_BALLOT, mask, predicate != 0, 0, EMULATE_WARP, file, line);
}
inline int __any_sync(unsigned mask, int predicate, EMULATE_HERE) {
  return __ballot_sync(mask, predicate, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, EMULATE_HERE) {
  return __ballot_sync(mask, !predicate, file, line) == 0;
}

/* The lanes that run together: nothing guarantees which, so this reports the calling lane alone. */
inline unsigned __activemask() { return 1u << emulate_self->linear % EMULATE_WARP; }

template <typename T> inline unsigned __match_any_sync(unsigned mask, T value, EMULATE_HERE) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof value);
  return (unsigned)emulate_warp(EMULATE_MATCH_ANY, mask, bits, 0, EMULATE_WARP, file, line);
}

#define EMULATE_REDUCE(name, type, kind) \
  inline type name(unsigned mask, type value, EMULATE_HERE) { \
    return (type)emulate_warp(kind, mask, (unsigned)value, 0, EMULATE_WARP, file, line); \
  }
EMULATE_REDUCE(__reduce_add_sync, unsigned, EMULATE_REDUCE_ADD)
EMULATE_REDUCE(__reduce_add_sync, int, EMULATE_REDUCE_ADD)
EMULATE_REDUCE(__reduce_min_sync, unsigned, EMULATE_REDUCE_MIN_U)
EMULATE_REDUCE(__reduce_min_sync, int, EMULATE_REDUCE_MIN_S)
EMULATE_REDUCE(__reduce_max_sync, unsigned, EMULATE_REDUCE_MAX_U)
EMULATE_REDUCE(__reduce_max_sync, int, EMULATE_REDUCE_MAX_S)
EMULATE_REDUCE(__reduce_and_sync, unsigned, EMULATE_REDUCE_AND)
EMULATE_REDUCE(__reduce_or_sync, unsigned, EMULATE_REDUCE_OR)
EMULATE_REDUCE(__reduce_xor_sync, unsigned, EMULATE_REDUCE_XOR)
#undef EMULATE_REDUCE

inline void __nanosleep(unsigned, EMULATE_HERE) { emulate_pause(file, line); }
[[noreturn]] inline void __trap(EMULATE_HERE) { emulate_trap(file, line); }

/* -- how the driver finds a kernel --------------------------------------------------------------------------------- */
template <typename T> constexpr emulate_parameter emulate_describe() {
  if constexpr (std::is_pointer<T>::value)
    return {sizeof(T), std::is_const<typename std::remove_pointer<T>::type>::value ? EMULATE_READS : EMULATE_WRITES};
  else
    return {sizeof(T), std::is_class<T>::value || std::is_union<T>::value ? EMULATE_STRUCT : EMULATE_VALUE};
}

template <auto Function> struct emulate_entry;
template <typename... T, void (*Function)(T...)> struct emulate_entry<Function> {
  static constexpr emulate_parameter parameters[sizeof...(T) + 1] = {emulate_describe<T>()...};
  template <size_t... I> static void spread(void **from, std::index_sequence<I...>) {
    (void)from;
    Function(*static_cast<T *>(from[I])...);
  }
  static void call(void **from) { spread(from, std::index_sequence_for<T...>()); }
  emulate_kernel kernel;
  explicit emulate_entry(const char *name) : kernel{name, call, parameters, sizeof...(T), nullptr} {
    emulate_register(&kernel);
  }
};

#endif
