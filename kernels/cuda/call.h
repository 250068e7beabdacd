/* SPDX-License-Identifier: BSD-3-Clause
 * A call of a codec on a GPU: what all kernels get, what they leave, and the steps that all codecs share.
 *
 * Job        A tagc_job whose pointers are device memory, with the layout of the device (device.h). Its `stats` and the
 *            flags that decode sets are not touched: counts go to a tagc_counts in device memory (job->tally's).
 *            send and recv may have any address that is good for an element; everything else is aligned as
 *            tagc_job_assign_buffers() does it.
 * State      job->state begins with a tagc_cuda_state, whatever the codec.
 * Residual   Dropped when a step was not finite: kernels find that out by themselves, in the tagc_health of the
 *            communicator, because the host would have to wait.
 * Streams    Everything is enqueued; nothing waits, nothing is allocated, and a graph may capture it.
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

/* What has happened in the calls of a slot, one after the other. */
struct tagc_counts {
  uint64_t selected, unrecovered, nonfinite, overflowed; /* added to: as in tagc_codec_stats */
  uint64_t dropped;                                      /* added to: residuals that were void */
  double residual_norm2;                 /* set by encode; the order of its sum is the grid's: not the host's bits */
  uint32_t nonfinite_seen, surplus_seen; /* set by decode: as in tagc_job */
  uint32_t surplus_calls, denser;        /* set by end_call: calls with a surplus in a row; 1 when they once were
                                            TAGC_SURPLUS_CALLS */
  uint64_t lost;                         /* added to: as in tagc_codec_stats */
};

/* Of a communicator, zero at first: a cycle in which some rank had a value that is not finite is at its number modulo
 * TAGC_HEALTH_CYCLES (cycles from 1 on). A residual that was written in such a cycle is void in later ones. */
enum { TAGC_HEALTH_CYCLES = 64 };
struct tagc_health {
  uint64_t nonfinite[TAGC_HEALTH_CYCLES];
};

enum { TAGC_CUDA_GROUPS = 8192, TAGC_CUDA_ROWS = 1024 }; /* of a launch, at most, but a group a row in any case */

/* From open to decode. */
struct tagc_cuda_state {
  uint32_t anywhere; /* what this rank told the others (exceptions.h) */
  uint32_t found;    /* bits of `anywhere` that the lists do not show; kernels add theirs between open and close */
  uint32_t fits, exceptions; /* all lists name their values; some list has an entry */
  uint64_t selected;         /* values of this call; likewise */
  uint64_t unused;
};

/* Sizes in bytes but for n and stride. */
struct tagc_cuda_call {
  const void *send;
  void *recv;
  void *residual; /* NULL: none */
  uint8_t *message_out, *message_in;
  struct tagc_cuda_state *state;
  struct tagc_counts *counts;
  struct tagc_health *health; /* NULL: none */
  double *norms;              /* `groups` parts of the squared norm of the residual, for close to add up */
  uint64_t seed, n, stride;   /* elements of a shard, and from one to the next */
  uint64_t message_bytes;
  uint64_t residual_bytes, residual_at; /* of a shard; of its values, behind its scales */
  uint64_t selected;                    /* values that are sent in any case */
  uint64_t cycle, residual_cycle;       /* of this call, and of the last one that wrote the residual; from 1 on */
  uint32_t blocks, capacity;            /* of a shard: blocks of 256, entries in its list of exceptions */
  uint32_t list_bytes, groups;
  uint32_t rank, nranks;
  uint32_t dtype, storage;
  float scale, divisor;
  uint32_t residual_empty, continues; /* a later chunk of a call: counts go on */
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
static_assert(sizeof(struct tagc_cuda_call) == 192, "the host and the GPU agree on the size of a call");
static_assert(sizeof(struct tagc_counts) == 72 && sizeof(struct tagc_cuda_state) == 32, "and of what is kept");

/* Whether the residual of the shape's calls was dropped on the device: its content is not to be read. */
static inline TAGC_HD bool tagc_residual_dropped(const struct tagc_cuda_call *call) {
  return call->health && !call->residual_empty && call->residual &&
         call->health->nonfinite[call->residual_cycle % TAGC_HEALTH_CYCLES] >= call->residual_cycle;
}

/* Whether there is something to add to the gradient. */
static inline TAGC_HD bool tagc_residual_counts(const struct tagc_cuda_call *call) {
  return call->residual && !call->residual_empty && !tagc_residual_dropped(call);
}

/* What pack_flags and end_call get. */
struct tagc_cuda_flags {
  struct tagc_counts *counts;
  struct tagc_health *health; /* NULL: none */
  int64_t *words;             /* TAGC_FLAGS; end_call: NULL where this rank's own counts are all there is to know */
  uint64_t cycle;
};

/* What flush gets. */
struct tagc_cuda_flushing {
  struct tagc_cuda_call call;
  void *out; /* nranks x n elements, with the same stride */
};

/* What count gets. */
struct tagc_cuda_counting {
  struct tagc_cuda_call call;
  unsigned long long *words; /* as in nonzero_index.h */
  uint64_t range;
};

/* -- the host's side ----------------------------------------------------------------------------------------------- */

/* Fills what follows from a job. */
struct tagc_cuda_call tagc_cuda_call_of(const struct tagc_job *job, struct tagc_counts *counts);

/* For work of a warp on each block of the shards, in so many rows of shards. */
struct tagc_cuda_grid tagc_cuda_grid_of_blocks(const struct tagc_cuda_launcher *launcher,
                                               const struct tagc_cuda_call *call, uint32_t rows);

/* Empty lists of exceptions in message_out, and a new state: the first step of prepare or encode. */
int tagc_cuda_open(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_call *call, void *stream);
/* Lists in order, told to all; counts and norms added up: the last step of encode. */
int tagc_cuda_close(const struct tagc_cuda_launcher *launcher, const struct tagc_cuda_call *call, void *stream);
/* Do the lists of message_in fit? The first step of decode. */
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
