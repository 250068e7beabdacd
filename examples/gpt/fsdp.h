/* SPDX-License-Identifier: BSD-3-Clause
 * Fully sharded data parallelism (Zhao et al. 2023; ZeRO-3): every rank owns one shard of each unit's flat parameters
 * and gradients. A unit's parameters are gathered just before they are used, into a buffer that the next unit reuses;
 * its gradient is averaged over the ranks, divided by their number and then summed, and only the own shard is kept.
 *
 * A unit is padded with zeros to a multiple of the ranks. All memory is host memory: this program is for an NCCL that
 * works on it, and calls have finished when they return. Any NCCL error ends the process.
 */
#ifndef EXAMPLES_GPT_FSDP_H
#define EXAMPLES_GPT_FSDP_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

#include "examples/gpt/model.h"

struct fsdp_unit {
  size_t shard;             /* elements that each rank owns, padding included */
  float *params, *grads;    /* this rank's shard */
  float *full_grads;        /* the unsharded gradient; one buffer for all units unless they accumulate */
};

struct fsdp {
  ncclComm_t comm;
  int rank, nranks;
  size_t nunits;
  struct fsdp_unit *units;
  float *gathered;
  bool accumulates;
  double all_gather_s, reduce_scatter_s, other_s; /* time spent in calls so far */
};

/* accumulates: every unit keeps its unsharded gradient, so that several passes can add to it before one reduction. */
struct fsdp *fsdp_create(const struct gpt_unit *units, size_t nunits, ncclComm_t comm, int rank, int nranks,
                         bool accumulates);
void fsdp_destroy(struct fsdp *f);

/* All parameters of a unit, valid until the next call. */
const float *fsdp_gather(struct fsdp *f, size_t unit);
/* Where the backward pass of a unit adds its gradient; cleared first if `clear`. Valid until its fsdp_reduce(). */
float *fsdp_full_grads(struct fsdp *f, size_t unit, bool clear);
/* Averages the unit's unsharded gradients over the ranks into units[unit].grads. Uses up fsdp_full_grads(). */
void fsdp_reduce(struct fsdp *f, size_t unit);
/* Sums a few values over the ranks, in place. */
void fsdp_sum(struct fsdp *f, float *values, size_t count);

/* Seconds of a monotonic clock. */
double fsdp_clock(void);

#endif
