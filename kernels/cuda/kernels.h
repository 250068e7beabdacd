/* SPDX-License-Identifier: BSD-3-Clause
 * The GPU kernels by name, and their launch from the host.
 *
 * Driver     The caller passes the driver's functions in; this code needs none of its headers or libraries. Results are
 *            CUresult, 0 for success; after an error the stream may have part of the work.
 * Threads    Reentrant; a launcher is read-only once filled.
 */
#ifndef KERNELS_CUDA_KERNELS_H
#define KERNELS_CUDA_KERNELS_H

#include <stdint.h>

/* X(name), in the order of their files. */
#define TAGC_CUDA_KERNELS(X) \
  X(tagc_call_check) \
  X(tagc_call_pack_flags) \
  X(tagc_call_end) \
  X(tagc_call_flush) \
  X(tagc_call_count) \
  X(tagc_dense_encode_bf16) \
  X(tagc_dense_encode_q8) \
  X(tagc_dense_encode_q4) \
  X(tagc_dense_encode_q3) \
  X(tagc_dense_encode_q2) \
  X(tagc_dense_decode_bf16) \
  X(tagc_dense_decode_q8) \
  X(tagc_dense_decode_q4) \
  X(tagc_dense_decode_q3) \
  X(tagc_dense_decode_q2) \
  X(tagc_none_encode) \
  X(tagc_none_decode) \
  X(tagc_precise_decode) \
  X(tagc_hosts_add) \
  X(tagc_hosts_close) \
  X(tagc_hosts_list) \
  X(tagc_hosts_decode) \
  X(tagc_hosts_complete) \
  X(tagc_choose_begin) \
  X(tagc_choose_scan) \
  X(tagc_choose_coarse) \
  X(tagc_choose_fine) \
  X(tagc_choose_mark) \
  X(tagc_choose_fill) \
  X(tagc_choose_weigh) \
  X(tagc_sparse_out_starts) \
  X(tagc_sparse_out) \
  X(tagc_sparse_in_starts) \
  X(tagc_sparse_in) \
  X(tagc_lhc_measure) \
  X(tagc_lhc_clear) \
  X(tagc_lhc_send) \
  X(tagc_lhc_open) \
  X(tagc_lhc_list) \
  X(tagc_lhc_build) \
  X(tagc_lhc_look) \
  X(tagc_lhc_take) \
  X(tagc_lhc_recover) \
  X(tagc_lhc_result) \
  X(tagc_allgather_open) \
  X(tagc_allgather_encode_bf16) \
  X(tagc_allgather_encode_q8) \
  X(tagc_allgather_encode_lossless) \
  X(tagc_allgather_encode_delta) \
  X(tagc_allgather_list) \
  X(tagc_allgather_starts) \
  X(tagc_allgather_escapes) \
  X(tagc_allgather_weigh) \
  X(tagc_allgather_look) \
  X(tagc_allgather_decode_bf16) \
  X(tagc_allgather_decode_q8) \
  X(tagc_allgather_decode_lossless) \
  X(tagc_allgather_decode_delta) \
  X(tagc_allgather_put) \
  X(tagc_exact_open) \
  X(tagc_exact_encode) \
  X(tagc_exact_close) \
  X(tagc_exact_look) \
  X(tagc_exact_decode) \
  X(tagc_exact_settle) \
  X(tagc_exact_begin) \
  X(tagc_exact_digest) \
  X(tagc_exact_refer) \
  X(tagc_support_count) \
  X(tagc_support_send) \
  X(tagc_support_indexes) \
  X(tagc_support_values) \
  X(tagc_support_decode)

enum tagc_cuda_kernel {
#define TAGC_CUDA_INDEX(name) name##_kernel,
  TAGC_CUDA_KERNELS(TAGC_CUDA_INDEX)
#undef TAGC_CUDA_INDEX
    TAGC_CUDA_KERNEL_COUNT
};

/* Threads of a group (CUDA's block; blocks are 256 elements here): of most kernels; from tagc_lhc_list to
 * tagc_lhc_recover. */
enum { TAGC_CUDA_THREADS = 256, TAGC_CUDA_MANY_THREADS = 1024 };

/* The driver's functions and kernels, for one context. */
struct tagc_cuda_launcher {
  /* cuLaunchKernel */
  int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra);
  void *function[TAGC_CUDA_KERNEL_COUNT]; /* CUfunction */
  uint32_t processors;                    /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
  uint32_t most;                          /* most groups of a launch; 0: as many as are useful. Changes no result */
};

/* The size of a launch, in groups. */
struct tagc_cuda_grid {
  uint32_t x, y;
};

/* Fills launcher->function by `get` (cuModuleGetFunction) from `module`; else returns its first error, for *missing. */
int tagc_cuda_find(struct tagc_cuda_launcher *launcher, int (*get)(void **function, void *module, const char *name),
                   void *module, const char **missing);

/* A grid for work in `rows` rows of `groups`: as many groups as there is work, and several times as many as run at once
 * so that no processor is idle for long. At most TAGC_CUDA_GROUPS (call.h), 1,024 rows, and launcher->most. */
struct tagc_cuda_grid tagc_cuda_grid_for(const struct tagc_cuda_launcher *launcher, uint64_t groups, uint32_t rows);

/* launcher->most for work beside the program's own kernels: one group for each four of `processors`. Such kernels take
 * registers, places for groups and memory bandwidth from matrix products, and may lose what overlapping has won: T3
 * (arXiv 2401.16677) keeps such work off the processors. Ours runs on them, so it gets as few as keep up with the link.
 * Three of four processors keep all that they have, wherever the GPU puts the groups. Two groups on each would not
 * grant that, as a group of a large product may want all registers of a processor. And it is enough, by an estimate: 33
 * groups of 256 threads that have 32 bytes under way each, for less than a microsecond, move hundreds of gigabytes a
 * second, where a fast link moves 50. Nobody has measured it. */
uint32_t tagc_cuda_beside(uint32_t processors);

/* `call`: the kernel's one parameter. */
int tagc_cuda_launch(const struct tagc_cuda_launcher *launcher, enum tagc_cuda_kernel kernel,
                     struct tagc_cuda_grid grid, const void *call, void *stream);

#endif
