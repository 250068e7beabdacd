/* SPDX-License-Identifier: BSD-3-Clause
 * The dense codecs on a GPU: what dense.cu computes, and how the host launches it. Messages, residuals and results are
 * those of dense.h, bit for bit.
 *
 * Purpose    Encode is three kernels (open: empty lists of exceptions; encode; close: lists in order, and told to all), and
 *            decode two (check: do the lists fit; decode). All are enqueued on one stream; nothing waits, nothing is
 *            allocated, and the pointers are those of the job, so that a graph may capture them.
 * Job        A tagc_job whose pointers are device memory, with the layout of tagc_dense_cuda_layout(). Its `stats` and the
 *            flags that decode sets are not touched: counts go to a tagc_dense_counts on the device.
 *            send and recv may have any address; everything else is aligned as tagc_job_carve() does it.
 * Driver     Functions of the driver come from the caller; this code needs none of its headers or libraries. Results are
 *            CUresult, 0 for success; after an error the stream may have part of the work.
 * Threads    Reentrant; a launcher is read-only once it is filled.
 */
#ifndef KERNELS_DENSE_CUDA_H
#define KERNELS_DENSE_CUDA_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/codec.h"

/* -- shared with dense.cu ------------------------------------------------------------------------------------------- */

/* Counts of what happened, in device memory of the caller's; of a job's calls one after the other. */
struct tagc_dense_counts {
  uint64_t selected, nonfinite, overflowed;   /* added to: as in tagc_codec_stats */
  double residual_norm2;                      /* set by encode; the order of its sum is the grid's: not the host's bits */
  uint32_t nonfinite_seen, unused;            /* set by decode: as in tagc_job */
};

enum {
  TAGC_DENSE_CUDA_THREADS = 256,   /* of a group (CUDA's block; blocks are 256 elements here) */
  TAGC_DENSE_CUDA_GROUPS = 8192,   /* at most, of encode: each adds one partial sum */
};

/* The job's state, from encode to decode. */
struct tagc_dense_state {
  uint32_t anywhere;               /* what this rank told the others (exceptions.h) */
  uint32_t own_exceptions;         /* the own shard has some */
  uint32_t fits, exceptions;       /* all lists name their values; some list has an entry */
  double norm2[TAGC_DENSE_CUDA_GROUPS];
};

/* The parameter of every kernel. Sizes in bytes but for n. */
struct tagc_dense_call {
  const void *send;
  void *recv;
  void *residual;                  /* NULL: none */
  uint8_t *message_out, *message_in;
  struct tagc_dense_state *state;
  struct tagc_dense_counts *counts;
  uint64_t seed, n;
  uint64_t message_bytes, scales_at, codes_at;
  uint64_t residual_bytes, residual_at;       /* of a shard; of its values, behind its scales */
  uint32_t blocks, capacity;                  /* of a shard: blocks of 256, entries in its list of exceptions */
  uint32_t list_bytes, groups;                /* groups: of encode, all of them */
  uint32_t rank, nranks;
  uint32_t dtype, storage;
  float scale, divisor;
  uint32_t residual_empty, stochastic;
};

#define TAGC_DENSE_AT(member, at) \
  static_assert(offsetof(struct tagc_dense_call, member) == (at), "the host and the GPU agree on " #member)
TAGC_DENSE_AT(send, 0);
TAGC_DENSE_AT(message_out, 24);
TAGC_DENSE_AT(counts, 48);
TAGC_DENSE_AT(n, 64);
TAGC_DENSE_AT(residual_at, 104);
TAGC_DENSE_AT(blocks, 112);
TAGC_DENSE_AT(dtype, 136);
TAGC_DENSE_AT(scale, 144);
TAGC_DENSE_AT(stochastic, 156);
#undef TAGC_DENSE_AT
static_assert(sizeof(struct tagc_dense_call) == 160, "the host and the GPU agree on the size of a call");
static_assert(sizeof(struct tagc_dense_counts) == 40 && offsetof(struct tagc_dense_state, norm2) == 16,
              "the host and the GPU agree on what is kept");

/* X(name): the kernels. */
#define TAGC_DENSE_KERNELS(X) \
  X(tagc_dense_open) \
  X(tagc_dense_close) \
  X(tagc_dense_check) \
  X(tagc_dense_encode_bf16) \
  X(tagc_dense_encode_q8) \
  X(tagc_dense_encode_q4) \
  X(tagc_dense_encode_q2) \
  X(tagc_dense_decode_bf16) \
  X(tagc_dense_decode_q8) \
  X(tagc_dense_decode_q4) \
  X(tagc_dense_decode_q2)

/* -- the host's side ------------------------------------------------------------------------------------------------ */

enum tagc_dense_kernel {
#define TAGC_DENSE_INDEX(name) name##_kernel,
  TAGC_DENSE_KERNELS(TAGC_DENSE_INDEX)
#undef TAGC_DENSE_INDEX
  TAGC_DENSE_KERNEL_COUNT
};

/* What the host needs of the driver, for one context. */
struct tagc_dense_launcher {
  /* cuLaunchKernel */
  int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra);
  void *function[TAGC_DENSE_KERNEL_COUNT];    /* CUfunction */
  uint32_t processors;             /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
};

/* Fills launcher->function with what `get` (cuModuleGetFunction) finds in `module`, else its first error; *missing is then
 * the name. */
int tagc_dense_cuda_find(struct tagc_dense_launcher *launcher, int (*get)(void **function, void *module, const char *name),
                         void *module, const char **missing);

/* Whether it is one of the codecs that run here. */
bool tagc_dense_cuda_knows(const struct tagc_codec *codec);

/* As codec->layout(), with the state that these kernels need. */
bool tagc_dense_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out);

/* codec->encode() and codec->decode(), enqueued. */
int tagc_dense_cuda_encode(const struct tagc_dense_launcher *launcher, const struct tagc_codec *codec,
                           const struct tagc_job *job, struct tagc_dense_counts *counts, void *stream);
int tagc_dense_cuda_decode(const struct tagc_dense_launcher *launcher, const struct tagc_codec *codec,
                           const struct tagc_job *job, struct tagc_dense_counts *counts, void *stream);

#endif
