/* SPDX-License-Identifier: BSD-3-Clause
 * A call of a codec on a GPU: the kernels' input and output, and the steps that all codecs share.
 *
 * Job        A tagc_job whose pointers are device memory, with the layout of the device (device.h). Its `stats` and the
 *            flags that decode sets are not touched: counts go to a tagc_counts in device memory (job->tally's). send
 *            and recv may have any address that is good for an element; everything else is aligned as
 *            tagc_job_assign_buffers() does it.
 * State      job->state begins with a tagc_cuda_state, whatever the codec.
 * Residual   Dropped after a non-finite step. Kernels detect that by themselves, in the tagc_health of the
 *            communicator, because the host would have to wait.
 * Streams    Everything is enqueued; nothing waits or allocates, and a graph may capture it.
 */
#ifndef KERNELS_CUDA_CALL_H
#define KERNELS_CUDA_CALL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/codec/bits.h"
#include "kernels/cuda/kernels.h"
#include "kernels/codec/device.h"

/* Where the groups of a launch meet. Zero before and after each launch: the last group leaves it so. */
struct tagc_cuda_gate {
  unsigned begun, arrived;   /* groups that have begun, and that have done their part */
  unsigned long long opened; /* 1: the messages' lists and the state are as open() leaves them */
};

/* The counts of a slot's calls, one after the other. */
struct tagc_counts {
  uint64_t selected, unrecovered, nonfinite, overflowed; /* added to: as in tagc_codec_stats */
  uint64_t dropped;                                      /* added to: void residuals */
  double residual_norm2;                 /* set by encode; summed in the grid's order: not the host's bits */
  uint32_t nonfinite_seen, surplus_seen; /* 0 after encode, added to by decode: as in tagc_job */
  uint32_t surplus_calls, denser;        /* set by end_call: surplus calls in a row; 1: once TAGC_SURPLUS_CALLS */
  uint64_t lost;                         /* added to: as in tagc_codec_stats */
  struct tagc_cuda_gate gate;            /* of the launch under way: the kernels of a slot run one after the other */
};

/* Of a communicator, zero at first. A cycle (from 1 on) in which some rank had a non-finite value is stored at its
 * number modulo TAGC_HEALTH_CYCLES. A residual written in such a cycle is void in later ones. */
enum { TAGC_HEALTH_CYCLES = 64 };
struct tagc_health {
  uint64_t nonfinite[TAGC_HEALTH_CYCLES];
};

enum { TAGC_CUDA_GROUPS = 8192, TAGC_CUDA_ROWS = 1024 }; /* most per launch, but at least a group a row */

/* Lives from open to decode. */
struct tagc_cuda_state {
  uint32_t anywhere; /* as this rank sent it (exceptions.h) */
  uint32_t found;    /* bits of `anywhere` that the lists do not show; kernels add theirs between open and close */
  uint32_t fits, exceptions; /* all lists are complete; some list has an entry */
  uint64_t selected;         /* values sent in this call; kernels add to it, too */
  uint64_t unused;
};

/* Sizes are bytes, but for n and stride. */
struct tagc_cuda_call {
  const void *send;
  void *recv;
  void *residual; /* NULL: none */
  uint8_t *message_out, *message_in;
  struct tagc_cuda_state *state;
  struct tagc_counts *counts;
  struct tagc_health *health; /* NULL: none */
  double *norms;              /* `groups` parts of the residual's squared norm, which close adds up */
  uint64_t seed, n, stride;   /* elements of a shard, and between starts of shards */
  uint64_t message_bytes;
  uint64_t residual_bytes, residual_at; /* of a shard; offset of its values after its scales */
  uint64_t selected;                    /* values that are always sent */
  uint64_t cycle, residual_cycle;       /* of this call, and of the last call that wrote the residual; from 1 on */
  uint32_t blocks, capacity;            /* of a shard: blocks of 256, entries of its list of exceptions */
  uint32_t list_bytes, groups;
  uint32_t rank, nranks;
  uint32_t dtype, storage;
  float scale, divisor;
  uint32_t residual_empty, continues; /* a later chunk of a call: counts go on */
  uint32_t ends, unused;              /* decode also ends the call */
};

#define TAGC_CALL_AT(member, at) \
  static_assert(offsetof(struct tagc_cuda_call, member) == (at), "the host and the GPU agree on " #member)
TAGC_CALL_AT(send, 0);
TAGC_CALL_AT(norms, 64);
TAGC_CALL_AT(stride, 88);
TAGC_CALL_AT(cycle, 128);
TAGC_CALL_AT(blocks, 144);
TAGC_CALL_AT(scale, 176);
#undef TAGC_CALL_AT
static_assert(sizeof(struct tagc_cuda_call) == 200, "the host and the GPU agree on the size of a call");
static_assert(sizeof(struct tagc_counts) == 88 && sizeof(struct tagc_cuda_state) == 32, "and of what is kept");

/* True if the device dropped the residual: nobody may read its content. */
static inline TAGC_HD bool tagc_residual_dropped(const struct tagc_cuda_call *call) {
  return call->health && !call->residual_empty && call->residual &&
         call->health->nonfinite[call->residual_cycle % TAGC_HEALTH_CYCLES] >= call->residual_cycle;
}

/* True if an earlier call of the cycle was not finite, as far as this rank knows. */
static inline TAGC_HD bool tagc_nonfinite_before(const struct tagc_cuda_call *call) {
  return call->health && call->health->nonfinite[call->cycle % TAGC_HEALTH_CYCLES] == call->cycle;
}

/* True if there is a residual to add to the gradient. */
static inline TAGC_HD bool tagc_residual_counts(const struct tagc_cuda_call *call) {
  return call->residual && !call->residual_empty && !tagc_residual_dropped(call);
}

/* The parameter of pack_flags and end_call. */
struct tagc_cuda_flags {
  struct tagc_counts *counts;
  struct tagc_health *health; /* NULL: none */
  int64_t *words;             /* TAGC_FLAGS of them; end_call: NULL if this rank's own counts suffice */
  uint64_t cycle;
};

/* The parameter of flush. */
struct tagc_cuda_flushing {
  struct tagc_cuda_call call;
  void *out; /* nranks x n elements, with the same stride */
};

/* The parameter of count. */
struct tagc_cuda_counting {
  struct tagc_cuda_call call;
  unsigned long long *words; /* as in nonzero_index.h */
  uint64_t range;
};

/* -- the host's side ----------------------------------------------------------------------------------------------- */

/* Fills in a tagc_cuda_call from a job. */
struct tagc_cuda_call tagc_cuda_call_of(const struct tagc_job *job, struct tagc_counts *counts);

/* A grid for a warp's work on each block of the shards, in `rows` rows of shards. */
struct tagc_cuda_grid tagc_cuda_grid_of_blocks(const struct tagc_cuda_launcher *launcher,
                                               const struct tagc_cuda_call *call, uint32_t rows);

/* The first step of decode: checks the lists of message_in. */
int tagc_cuda_check(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_call *call, void *stream);
/* pack_flags and end_call of device.h. */
int tagc_cuda_pack_flags(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_flags *flags, void *stream);
int tagc_cuda_end_call(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_flags *flags, void *stream);
/* count of device.h */
int tagc_cuda_count(const struct tagc_cuda_launcher *launcher, const struct tagc_job *job, uint64_t range,
                    uint64_t *words, void *stream);
/* tagc_residual_flush() */
int tagc_cuda_flush(const struct tagc_cuda_launcher *launcher, const struct tagc_job *job, void *out, void *stream);

#endif
