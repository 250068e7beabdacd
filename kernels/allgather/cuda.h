/* SPDX-License-Identifier: BSD-3-Clause
 * The codecs for all-gathers on a GPU: the calls of allgather.cu, and their launch from the host. Payloads, references
 * and results are those of steps.h, bit for bit.
 *
 * Launches   encode 2 (open, encode), and one more for q8 (list) and delta (weigh); lossless 4: the escapes of a block
 *            begin where those of all blocks before end, which is known after a count of all blocks (`starts`,
 *            `escapes`). decode 2: one turns the payloads' headers into a word, by which the other kernels do nothing
 *            if a shard was refused; bf16 1; q8 2: exceptions come last. Each block is decoded by itself.
 * Job        A tagc_allgather_job whose pointers are device memory; `stats` and `refused` are not touched. send and
 *            recv may have any address that is good for an element, the rest is aligned as
 *            tagc_allgather_assign_buffers() does it.
 * Counts     Those of a tally (tagc_counts): `selected` counts escapes, `nonfinite` exceptions, `overflowed` calls with
 *            a refused shard. Errors are not measured here.
 */
#ifndef KERNELS_ALLGATHER_CUDA_H
#define KERNELS_ALLGATHER_CUDA_H

#include "kernels/allgather/steps.h"
#include "kernels/cuda/call.h"

/* The job's state. */
struct tagc_allgather_state {
  uint32_t refused;    /* by decode: some shard was refused */
  uint32_t unfit, far; /* by encode of delta: a value of this shard is unfit; blocks that are far */
  uint32_t unused;
};

enum { TAGC_ALLGATHER_SEGMENT = TAGC_CUDA_THREADS }; /* blocks: escapes are first counted from its start */

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
};

/* -- the host's side ----------------------------------------------------------------------------------------------- */

/* A codec's functions on a GPU: they enqueue, and return the driver's error, or 0. */
typedef int tagc_allgather_step(const struct tagc_cuda_launcher *launcher, const struct tagc_allgather_call *gather,
                                void *stream);

struct tagc_allgather_cuda {
  const struct tagc_allgather_codec *codec;
  tagc_allgather_step *encode, *decode;
};

/* NULL if the codec does not run on GPUs. */
const struct tagc_allgather_cuda *tagc_allgather_cuda_of(const struct tagc_allgather_codec *codec);

/* codec->layout() with the state that the kernels need. */
bool tagc_allgather_cuda_layout(const struct tagc_allgather_codec *codec, const struct tagc_allgather_shape *shape,
                                struct tagc_allgather_layout *out);

/* counts: may be NULL. */
struct tagc_allgather_call tagc_allgather_call_of(const struct tagc_allgather_codec *codec,
                                                  const struct tagc_allgather_job *job, struct tagc_counts *counts);

#endif
