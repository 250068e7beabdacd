/* SPDX-License-Identifier: BSD-3-Clause
 * The codecs for all-gathers on a GPU: the calls of allgather.cu, and their launch from the host. Payloads, references
 * and results are those of steps.h, bit for bit.
 *
 * Launches   encode 2 (open, encode), and one more for q8 (list) and delta (weigh); lossless 4: the escapes of a block
 *            begin where those of all blocks before end, which is known after a count of all blocks (`starts`,
 *            `escapes`). decode 2: one turns the payloads' headers into a word, by which the other kernels do nothing
 *            if a shard was refused; bf16 1; q8 2: exceptions come last. Each block is decoded by itself. exact: 3 and
 *            3, and 3 behind the copy of a new reference (exact.cu). support: 2 and 4 (support.cu).
 * Job        A tagc_allgather_job whose pointers are device memory; `stats` and `refused` are not touched. send and
 *            recv may have any address that is good for an element, the rest is aligned as
 *            tagc_allgather_assign_buffers() does it.
 * Counts     Those of a tally (tagc_counts): `selected` counts escapes, `nonfinite` exceptions, `overflowed` calls with
 *            a refused shard. Errors are not measured here.
 */
#ifndef KERNELS_ALLGATHER_CUDA_H
#define KERNELS_ALLGATHER_CUDA_H

#include "kernels/allgather/exact.h"
#include "kernels/allgather/steps.h"
#include "kernels/allgather/support.h"
#include "kernels/cuda/call.h"

/* The job's state. */
struct tagc_allgather_state {
  uint32_t refused;    /* by decode: some shard was refused */
  uint32_t unfit, far; /* by encode of delta: a value of this shard is unfit; blocks that are far */
  uint32_t failed;     /* by decode of exact: as in struct tagc_allgather_job */
  uint64_t needed;     /* by decode of exact: bytes of a payload for the largest shard */
  uint64_t unused;
};

/* Behind that, where the codec is exact. Counters begin as zeros. */
struct tagc_exact_work {
  uint64_t tickets; /* tiles that groups have taken */
  uint64_t content; /* digest of this rank's shard, without its n */
  uint32_t changed; /* 1: the shard differs from the reference */
  uint32_t unused;
};

/* Beside a reference of exact, which begins with refer; behind it, for each shard, its digest without its n: uint64. */
struct tagc_exact_kept {
  uint64_t digest; /* of all shards */
  uint64_t unused;
};

/* Blocks whose streams a group of a decoder places. A group of an encoder has one for each warp. */
enum { TAGC_EXACT_TILE = 64 };

enum { TAGC_ALLGATHER_SEGMENT = TAGC_CUDA_THREADS }; /* blocks: escapes are first counted from its start */

/* support: of the blocks of a segment. */
struct tagc_support_total {
  uint32_t values, indexes; /* values; bytes of indexes */
};

/* The parameter of the kernels. Offsets are bytes in a payload. */
struct tagc_allgather_call {
  struct tagc_cuda_call call; /* the payloads are message_out and message_in; scale 1, no residual */
  struct tagc_allgather_state *state;
  void *reference;
  uint64_t padding[2];                           /* each 16 bytes that begin as zeros */
  uint64_t exceptions, scales, codes;            /* as in struct tagc_q8_gather and tagc_delta_gather */
  uint64_t starts, escaped, bases, blocks, lows; /* as in struct tagc_lossless_gather */
  uint32_t *totals;                              /* `segments`: escapes */
  uint32_t segments, escapes;
  uint32_t keep_own, unused;
  uint64_t edges, lengths, streams;  /* as in struct tagc_exact_parts */
  uint64_t exact_blocks, tile_count; /* blocks of 512; tiles: words to clear */
  struct tagc_exact_work *work;
  struct tagc_exact_kept *kept;
  unsigned long long *tiles;          /* a word each, see exact.cuh */
  uint64_t kinds, values;             /* as in struct tagc_support_parts */
  struct tagc_support_total *support; /* of each segment of the own shard, or of all shards */
  uint16_t *support_counts;           /* values of each block of the own shard */
};

/* -- the host's side ----------------------------------------------------------------------------------------------- */

/* A codec's functions on a GPU: they enqueue, and return the driver's error, or 0. */
typedef int tagc_allgather_step(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                                void *stream);

struct tagc_allgather_cuda {
  const struct tagc_allgather_codec *codec;
  tagc_allgather_step *encode, *decode;
  tagc_allgather_step *refer; /* behind the copy; NULL: nothing */
  /* Ops (cost.h) for an element of the own shard, and for one of each shard, fitted to an H200. 0: nobody asks. */
  uint32_t encode_ops, decode_ops;
};

/* NULL if the codec does not run on GPUs. */
const struct tagc_allgather_cuda *tagc_allgather_cuda_of(const struct tagc_allgather_codec *codec);

/* codec->layout() with the state that the kernels need. */
bool tagc_allgather_cuda_layout(const struct tagc_allgather_codec *codec, const struct tagc_allgather_shape *shape,
                                struct tagc_allgather_layout *out);

/* support: its functions, and its part of the state. */
tagc_allgather_step tagc_support_cuda_encode, tagc_support_cuda_decode;
void tagc_support_assign_gpu_buffers(struct tagc_allgather_call *gather, const struct tagc_allgather_shape *shape,
                                     void *base, size_t *used);

/* exact: its functions, and its part of the state and of a call. */
tagc_allgather_step tagc_exact_cuda_encode, tagc_exact_cuda_decode, tagc_exact_cuda_refer;
void tagc_exact_assign_gpu_buffers(struct tagc_allgather_call *gather, const struct tagc_allgather_shape *shape,
                                   void *base, size_t *used);
/* The bytes beside a reference. */
size_t tagc_exact_gpu_tables_bytes(const struct tagc_allgather_shape *shape);
void tagc_exact_place_parts(struct tagc_allgather_call *gather, const struct tagc_allgather_job *job);

/* counts: may be NULL. */
struct tagc_allgather_call tagc_allgather_call_of(const struct tagc_allgather_codec *codec,
                                                  const struct tagc_allgather_job *job, struct tagc_counts *counts);

#endif
