/* SPDX-License-Identifier: BSD-3-Clause
 * The squared norms of a shard's values: of those that stay, and of the chosen ones. They decide a bit of the message.
 * So they are summed in an order that is the same in each run.
 */
#ifndef KERNELS_SPARSE_SHARD_NORMS_CUH
#define KERNELS_SPARSE_SHARD_NORMS_CUH

#include "kernels/cuda/call.cuh"
#include "kernels/sparse/sparsify_cuda.h"

/* The sum of the squares of a lane's values whose bits are in `which`. Mostly in fp32, because many GPUs have few units
 * for fp64: a power of two brings the largest to [2, 4), and squares that vanish do not count beside it. */
DEVICE double squares_of(const float x[EACH], uint32_t which) {
  uint32_t most = 1u << 23;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    const uint32_t magnitude = which >> i & 1 ? tagc_bits_of(x[i]) & 0x7fffffffu : 0;
    most = magnitude > most ? magnitude : most;
  }
  const uint32_t exponent = most >> 23;
  const float scale = tagc_pow2(128 - (int)exponent);
  float sum = 0;
  UNROLL_FOR (uint32_t i = 0; i < EACH; i++) {
    const float part = which >> i & 1 ? x[i] * scale : 0;
    sum += part * part;
  }
  return (double)sum * __longlong_as_double((long long)(1023 - 2 * 128 + 2 * exponent) << 52);
}

/* The sums of the threads' parts, for thread 0, which reads what the others wrote: all meet before the next call. */
DEVICE void group_sums(double *left, double *chosen) {
  __shared__ double parts[2][WARPS];
  *left = warp_sum(*left);
  *chosen = warp_sum(*chosen);
  if (threadIdx.x % LANES == 0) {
    parts[0][threadIdx.x / LANES] = *left;
    parts[1][threadIdx.x / LANES] = *chosen;
  }
  __syncthreads();
  for (uint32_t i = 1; threadIdx.x == 0 && i < WARPS; i++) {
    *left += parts[0][i];
    *chosen += parts[1][i];
  }
}

/* Adds up a shard's norms. All threads of the groups of a row of the grid call it, with their parts. The last of these
 * groups adds them up, in an order that does not depend on which one it is. `parts`: two a group. */
DEVICE void add_shard_norms(struct tagc_choose_shard *shard, double *parts, double left, double chosen) {
  group_sums(&left, &chosen);
  if (threadIdx.x == 0) {
    parts[2 * blockIdx.x] = left;
    parts[2 * blockIdx.x + 1] = chosen;
  }
  if (!group_is_last(&shard->arrived, gridDim.x))
    return;
  left = chosen = 0;
  for (uint32_t i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
    left += __ldcg(&parts[2 * i]);
    chosen += __ldcg(&parts[2 * i + 1]);
  }
  group_sums(&left, &chosen);
  if (threadIdx.x == 0) {
    shard->left = left;
    shard->chosen = chosen;
  }
  __syncthreads(); /* the next shard reuses the memory */
}

#endif
