/* SPDX-License-Identifier: BSD-3-Clause
 * Data parallelism: every rank works on its own sequences, and they share one model, in one of two ways.
 *
 * fsdp   Fully sharded (Zhao et al. 2023; ZeRO-3): every rank owns one shard of each unit's flat parameters and
 *        gradients. A unit's parameters are gathered just before their use, into a buffer that the next unit reuses.
 *        Its gradient is averaged over the ranks (divided by their number, then summed), and a rank keeps only its own
 *        shard. A unit is padded with zeros to a multiple of the ranks.
 * ddp    Replicated (Li et al. 2020; PyTorch's DistributedDataParallel): every rank owns all parameters. Gradients lie
 *        in buckets, in the order in which the backward pass makes them. A bucket takes units until it holds
 *        bucket_bytes. One all-reduce averages a bucket in place, as soon as its last unit is done.
 *
 * A rank updates the parameters that it owns. All memory is host memory: this program is for an NCCL that works on it,
 * and calls have finished when they return. Any NCCL error ends the process. Single-threaded.
 */
#ifndef EXAMPLES_GPT_PARALLEL_H
#define EXAMPLES_GPT_PARALLEL_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/gpt/model.h"

enum parallel_kind { PARALLEL_FSDP, PARALLEL_DDP };

struct parallel_options {
  enum parallel_kind kind;
  bool accumulates; /* several passes add to a gradient before it is reduced: fsdp then keeps all unsharded gradients */
  bool allgather_in_place; /* fsdp: copies the shard into its place in the gathered buffer first (as FSDP2 does) */
  bool gather_bf16;        /* fsdp: gathers parameters rounded to bf16 (as mixed precision does) */
  bool reduce_bf16;        /* rounds gradients to bf16 before they are reduced (as mixed precision does) */
  size_t bucket_bytes;     /* ddp */
};

struct parallel_unit {
  size_t first, owned;   /* which elements of the unit this rank owns; padding may be among them */
  float *params, *grads; /* those */
  float *full_grads; /* the whole unit's gradient. fsdp: one buffer for all units unless they accumulate; ddp: `grads`
                      */
};

/* Gradients of units that are reduced at once. The backward pass meets `last` first, and `first` as the last one. */
struct parallel_bucket {
  size_t first, last, count;
  float *grads;
};

struct parallel {
  struct parallel_options options;
  ncclComm_t comm;
  int rank, nranks;
  size_t nunits, nbuckets;
  struct parallel_unit *units;
  struct parallel_bucket *buckets;                              /* ddp: in the order of the backward pass */
  float *gathered;                                              /* fsdp: a unit's parameters */
  uint16_t *gathered_bf16, *shard_bf16;                         /* and as they travel with gather_bf16 */
  uint16_t *grads_bf16;                                         /* a gradient as it travels with reduce_bf16 */
  double all_gather_s, reduce_scatter_s, all_reduce_s, other_s; /* time spent in calls so far; other: sums of a few
                                                                   values */
};

/* The communicator stays the caller's. Parameters are zeros. Ends the process without memory. */
struct parallel *parallel_create(const struct parallel_options *options, const struct gpt_unit *units, size_t nunits,
                                 ncclComm_t comm, int rank, int nranks);
void parallel_destroy(struct parallel *p);

/* All parameters of a unit, valid until the next call. */
const float *parallel_params(struct parallel *p, size_t unit);
/* The buffer to which the backward pass of a unit adds its gradient; cleared first if `clear`. Valid until its
 * parallel_reduce(). */
float *parallel_full_grads(struct parallel *p, size_t unit, bool clear);
/* Averages the unit's gradient over the ranks; with ddp, that of its bucket if it is complete now. Call it in the order
 * of the backward pass. After unit 0 all units' `grads` are averages. Ends the use of parallel_full_grads(). */
void parallel_reduce(struct parallel *p, size_t unit);
/* Sums a few values over the ranks, in place. */
void parallel_sum(struct parallel *p, float *values, size_t count);
/* The number of ranks that own the same element: 1, or all. */
int parallel_owners(const struct parallel *p);
/* ddp: all ranks start with the first one's parameters. */
void parallel_share_params(struct parallel *p);
/* ddp: ends the process if the replicas are not all the same, bit for bit. */
void parallel_check_replicas(struct parallel *p);

/* Seconds of a monotonic clock. */
double parallel_clock(void);

#endif
