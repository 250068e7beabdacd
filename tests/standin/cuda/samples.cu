/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels for the tests of the stand-in: ordinary CUDA, valid for nvcc, too. The second half is wrong on purpose.
 */
#include "kernels/cuda/kernel.h"

static constexpr unsigned FULL = 0xffffffffu;

/* out[i] = a * x[i] + y[i]; never synchronises. */
extern "C" __global__ void __launch_bounds__(256)
  axpy(float a, const float *__restrict__ x, const float *__restrict__ y, float *out, unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    out[i] = __fadd_rn(__fmul_rn(a, __ldg(&x[i])), y[i]);
}
KERNEL(axpy);

/* 16 bytes at a time. */
extern "C" __global__ void add_vectors(const uint4 *x, uint4 *out, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  uint4 v = x[i];
  out[i] = make_uint4(v.x + 1, v.y + 2, v.z + 3, v.w + i);
}
KERNEL(add_vectors);

__device__ __forceinline__ unsigned warp_sum(unsigned value) {
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800
  for (int by = 16; by > 0; by /= 2)
    value += __shfl_xor_sync(FULL, value, by);
  return value;
#else
  return __reduce_add_sync(FULL, value);
#endif
}

/* *total += the sum of x. */
template <int THREADS> __device__ void sum_block(const unsigned *x, unsigned n, unsigned long long *total) {
  __shared__ unsigned partial[THREADS / 32];
  unsigned sum = 0;
  for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS)
    sum += x[i];
  for (int by = 16; by > 0; by /= 2)
    sum += __shfl_down_sync(FULL, sum, by);
  if (threadIdx.x % 32 == 0)
    partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = warp_sum(threadIdx.x < THREADS / 32 ? partial[threadIdx.x] : 0);
    if (threadIdx.x == 0)
      atomicAdd(total, (unsigned long long)sum);
  }
}

extern "C" __global__ void __launch_bounds__(256) sum(const unsigned *x, unsigned n, unsigned long long *total) {
  sum_block<256>(x, n, total);
}
KERNEL(sum);

struct histogram_arguments {
  const unsigned *x;
  unsigned *counts;
  unsigned n, bins;
};

/* Adds the number of x in each bin to counts; `bins` words of dynamic shared memory. */
extern "C" __global__ void histogram(histogram_arguments a) {
  DYNAMIC_SHARED(unsigned, local);
  for (unsigned i = threadIdx.x; i < a.bins; i += blockDim.x)
    local[i] = 0;
  __syncthreads();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += gridDim.x * blockDim.x)
    atomicAdd(&local[a.x[i] % a.bins], 1u);
  __syncthreads();
  for (unsigned i = threadIdx.x; i < a.bins; i += blockDim.x)
    if (local[i])
      atomicAdd(&a.counts[i], local[i]);
}
KERNEL(histogram);

/* Two words of device memory, zero before the first launch; each launch leaves them ready for the next: blocks that
 * have arrived, and barriers passed (which may wrap around). */
struct grid_state {
  unsigned arrived, passed;
};

/* All threads of a cooperative launch meet, and see the others' earlier writes. No kernel of the library does that. */
static __device__ void grid_barrier(grid_state *state) {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {
    const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
    const unsigned passed = atomicAdd(&state->passed, 0u);
    __threadfence(); /* the block's writes, and the load above, come before its arrival */
    if (atomicAdd(&state->arrived, 1u) == blocks - 1) {
      atomicExch(&state->arrived, 0u);
      __threadfence();
      atomicAdd(&state->passed, 1u);
    } else
      while (atomicAdd(&state->passed, 0u) == passed)
        __nanosleep(64);
    __threadfence(); /* the others' writes come before what the block reads next */
  }
  __syncthreads();
}

/* `rounds` times: every word becomes the sum of itself and the next; all blocks at once, one word per thread. A block's
 * shared memory must survive the other blocks. */
extern "C" __global__ void neighbours(unsigned *x, unsigned *next, unsigned rounds, grid_state *state) {
  __shared__ unsigned own[64];
  unsigned n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
  own[threadIdx.x] = x[i];
  for (unsigned round = 0; round < rounds; round++) {
    grid_barrier(state);
    next[i] = own[threadIdx.x] + x[(i + 1) % n];
    grid_barrier(state);
    own[threadIdx.x] = x[i] = next[i];
  }
}
KERNEL(neighbours);

/* 16 words per thread: the lanes' views of each other. With a block of 48 the second warp is half full. */
extern "C" __global__ void warps(unsigned *out) {
  unsigned t = threadIdx.x, lane = t % 32, *o = out + t * 16;
  unsigned there = t < 32 ? 0xffffffffu : 0xffffu;
  o[0] = __shfl_sync(there, t, 3);
  o[1] = __shfl_up_sync(there, t, 2);
  o[2] = __shfl_down_sync(there, t, 1, 8);
  o[3] = __shfl_xor_sync(there, t, 5, 8);
  o[4] = __ballot_sync(there, lane % 3 == 0);
  o[5] = (unsigned)__any_sync(there, t == 40) * 2 + (unsigned)__all_sync(there, t < 32);
  o[7] = __float_as_uint(__shfl_sync(there, (float)t, 31, 16));
  unsigned mask = lane % 2 ? there & 0xaaaaaaaau : there & 0x55555555u;
  if (lane % 2) {
    o[8] = __shfl_sync(mask, t, 5);
    __syncwarp(mask);
    o[9] = __ballot_sync(mask, t > 16);
  } else
    o[9] = __ballot_sync(mask, t < 16);
  o[10] = __match_any_sync(there, lane / 5);
  o[11] = (unsigned)(__shfl_sync(there, (unsigned long long)t << 32, 1) >> 32);
  if (t >= 32)
    return;
  o[12] = warp_sum(lane);
  o[13] = __activemask() >> lane & 1;
  unsigned active = __ballot_sync(FULL, lane >= 8);
  if (lane >= 8)
    o[14] = (unsigned)__shfl_sync(active, (int)lane, 31);
  __syncwarp();
  if (lane == 31)
    return;
  o[15] = __ballot_sync(FULL, 1); /* does not wait for the returned lane */
}
KERNEL(warps);

/* 3 words per block: how many of its values are odd, whether any is, whether all are. */
extern "C" __global__ void votes(const unsigned *x, int *out) {
  unsigned v = x[blockIdx.x * blockDim.x + threadIdx.x] & 1;
  int count = __syncthreads_count((int)v), any = __syncthreads_or((int)v), all = __syncthreads_and((int)v);
  if (threadIdx.x == blockDim.x - 1) {
    out[3 * blockIdx.x] = count;
    out[3 * blockIdx.x + 1] = any;
    out[3 * blockIdx.x + 2] = all;
  }
}
KERNEL(votes);

/* Visits every thread once: a grid and blocks of three dimensions. */
extern "C" __global__ void places(unsigned *out) {
  unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  atomicAdd(&out[block * blockDim.x * blockDim.y * blockDim.z + thread], 1 + block * 1000 + thread);
}
KERNEL(places);

/* 16 words per value: functions of bits, of rounding, and atomics, all on its own words. */
extern "C" __global__ void bits(const unsigned *x, unsigned *out, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n)
    return;
  unsigned v = x[i], w = x[(i + 1) % n], *o = out + i * 16;
  unsigned long long wide = (unsigned long long)w << 32 | v;
  float f = __uint_as_float(v), g = __uint_as_float(w);
  o[0] = (unsigned)__popc(v) | (unsigned)__clz((int)v) << 8 | (unsigned)__ffs((int)v) << 16;
  o[1] = __brev(v);
  o[2] = __byte_perm(v, w, w);
  o[3] = (unsigned)__popcll(wide) | (unsigned)__clzll((long long)wide) << 8;
  o[4] = __float_as_uint(__fmul_rn(f, g));
  o[5] = __float_as_uint(__fadd_rn(f, g));
  o[6] = __float_as_uint(__fdiv_rn(f, g));
  o[7] = __float_as_uint(__fmaf_rn(f, g, f));
  o[8] = 5;
  atomicMax(&o[8], v % 11);
  o[9] = 5;
  atomicMin(&o[9], v % 11);
  o[10] = v;
  unsigned old = atomicOr(&o[10], w);
  o[11] = old ^ atomicAnd(&o[10], 0xffff00ffu);
  o[12] = v;
  o[13] = atomicCAS(&o[12], v, w) == v && atomicCAS(&o[12], w ^ 1, 0u) == w && atomicExch(&o[12], 7u) == w;
  o[14] = o[15] = 0;
  atomicAdd((unsigned long long *)(void *)&o[14], wide);
  atomicMax((unsigned long long *)(void *)&o[14], 1ull);
}
KERNEL(bits);

/* 16 words per lane: warp reductions (if the device has them), and further functions of bits and memory. */
extern "C" __global__ void reductions(const unsigned *x, unsigned *out) {
  unsigned lane = threadIdx.x, v = __ldcg(&x[lane]), w = __ldcs(&x[(lane + 1) % 32]), *o = out + lane * 16;
  unsigned long long wide = (unsigned long long)w << 32 | v, reversed = __brevll(wide);
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  unsigned third = lane % 3 == 0 ? 0x49249249u : lane % 3 == 1 ? 0x92492492u : 0x24924924u;
  o[0] = __reduce_add_sync(third, v);
  o[1] = __reduce_min_sync(third, v);
  o[2] = __reduce_max_sync(third, v);
  o[3] = (unsigned)__reduce_min_sync(third, (int)v);
  o[4] = (unsigned)__reduce_max_sync(third, (int)v);
  o[5] = __reduce_and_sync(third, v | 0xffff);
  o[6] = __reduce_or_sync(third, v & 0xff);
  o[7] = __reduce_xor_sync(third, v);
#endif
  __stcg(&o[8], (unsigned)reversed);
  __stcs(&o[9], (unsigned)(reversed >> 32));
  o[10] = (unsigned)__ffsll((long long)wide);
  o[11] = __funnelshift_l(v, w, lane);
  o[12] = __funnelshift_r(v, w, lane + 32);
  o[13] = __umulhi(v, w);
  o[14] = (unsigned)(__umul64hi(wide, wide) >> 32);
  o[15] = atomicSub(&o[13], 1u) - o[13];
}
KERNEL(reductions);

/* -- wrong on purpose ---------------------------------------------------------------------------------------------- */
extern "C" __global__ void leaves_early(unsigned *out) {
  if (threadIdx.x == 5)
    return;
  __syncthreads();
  out[threadIdx.x] = 1;
}
KERNEL(leaves_early);

extern "C" __global__ void two_barriers(unsigned *out) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}
KERNEL(two_barriers);

extern "C" __global__ void missing_lanes(unsigned *out) {
  if (threadIdx.x < 16)
    out[threadIdx.x] = __shfl_sync(FULL, threadIdx.x, 0);
  __syncthreads();
}
KERNEL(missing_lanes);

extern "C" __global__ void not_in_mask(unsigned *out) { out[threadIdx.x] = __ballot_sync(1, 1); }
KERNEL(not_in_mask);

extern "C" __global__ void masks_differ(unsigned *out) { out[threadIdx.x] = __ballot_sync(threadIdx.x ? 7 : 3, 1); }
KERNEL(masks_differ);

extern "C" __global__ void waits_forever(unsigned *flag) {
  while (atomicAdd(flag, 0u) == 0)
    __nanosleep(32);
}
KERNEL(waits_forever);

extern "C" __global__ void beyond(unsigned *out, unsigned at) { out[at + threadIdx.x] = 1; }
KERNEL(beyond);

extern "C" __global__ void beyond_shared(unsigned *out, unsigned at) {
  DYNAMIC_SHARED(unsigned, local);
  local[at + threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = local[threadIdx.x];
}
KERNEL(beyond_shared);

/* A pointer that lies in device memory. */
extern "C" __global__ void follow(unsigned **at) { **at = 1; }
KERNEL(follow);

extern "C" __global__ void gives_up(unsigned *out) {
  if (threadIdx.x == 3)
    __trap();
  out[threadIdx.x] = 1;
}
KERNEL(gives_up);

/* Reads words that were never written. */
extern "C" __global__ void stale_shared(unsigned *out) {
  __shared__ unsigned local[4];
  out[threadIdx.x] = local[threadIdx.x];
  local[threadIdx.x] = 0;
}
KERNEL(stale_shared);
