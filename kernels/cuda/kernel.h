/* SPDX-License-Identifier: BSD-3-Clause
 * The names that kernels use, which are compiled twice: by nvcc for GPUs, and for the host after emulate.h.
 *
 *   KERNEL(name)                    after the definition of `extern "C" __global__ void name(...)`: the stand-in finds
 *                                   it by its name. Empty for nvcc.
 *   DYNAMIC_SHARED(type, name);     replaces `extern __shared__ type name[];`
 *   word_add(at, x), word_wait(at), word_read(at)
 *                                   words of device memory that others change meanwhile; see below
 */
#ifndef KERNELS_CUDA_KERNEL_H
#define KERNELS_CUDA_KERNEL_H

#ifdef __CUDACC__
#define KERNEL(name) static_assert(true, "")
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#else
#define KERNEL(name) static emulate_entry<name> emulate_entry_of_##name(#name)
#define DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(emulate_dynamic_shared())
#endif

/* Adds, and returns the old word. The block's writes before its last barrier come before; the others' writes before
 * their additions are visible after. word_wait() reads with the latter promise, word_read() with none. */
__device__ __forceinline__ unsigned long long word_add(unsigned long long *at, unsigned long long x) {
#ifdef __CUDACC__
  unsigned long long old;
  asm volatile("atom.acq_rel.gpu.add.u64 %0, [%1], %2;" : "=l"(old) : "l"(at), "l"(x) : "memory");
  return old;
#else
  return __atomic_fetch_add(at, x, __ATOMIC_ACQ_REL);
#endif
}

__device__ __forceinline__ unsigned long long word_wait(const unsigned long long *at) {
#ifdef __CUDACC__
  unsigned long long x;
  asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(x) : "l"(at) : "memory");
  return x;
#else
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
#endif
}

__device__ __forceinline__ unsigned long long word_read(const unsigned long long *at) {
#ifdef __CUDACC__
  unsigned long long x;
  asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(x) : "l"(at));
  return x;
#else
  return __atomic_load_n(at, __ATOMIC_RELAXED);
#endif
}

#endif
