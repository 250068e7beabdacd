/* SPDX-License-Identifier: BSD-3-Clause
 * What a communicator carried before its cycle: how programs make replicas of a model equal.
 *
 *   broadcasts   DDP broadcasts all parameters and buffers, in pieces of 250 MB (torch/distributed/utils.py,
 *                _sync_module_states). Others broadcast them one by one, as bytes: DeepSpeed (runtime/engine.py,
 *                _broadcast_model) and Horovod (common/ops/nccl_operations.cc, NCCLBroadcast).
 *   constructor  DDP's compares the ranks' parameters first: it gathers their number, and broadcasts their shapes
 *                (torch/csrc/distributed/c10d/reducer.cpp, verify_params_across_processes).
 *   rebuilding   DDP cuts its buckets anew behind the first step that it reduced. It broadcasts a number for each
 *                parameter and one more, then one for each bucket (reducer.cpp, rebuild_buckets, sync_bucket_indices).
 *
 * Part of struct tagc_evidence; the same rules for threads and purity; cannot fail. New evidence does not forget it.
 */
#ifndef LAYERMAP_CYCLE_BEGINNING_H
#define LAYERMAP_CYCLE_BEGINNING_H

#include "layermap/cycle/cycle.h"

/* Different broadcasts of parameters that are kept. A model has no more shapes. */
enum { TAGC_BEGINNING_BROADCASTS = 256 };

struct tagc_beginning {
  struct {
    struct tagc_signature signature;
    uint32_t times;
  } broadcasts[TAGC_BEGINNING_BROADCASTS]; /* of floating-point numbers or bytes */
  uint32_t broadcast_count;
  bool overflow;                /* there were more: they tell nothing */
  struct tagc_signature last;   /* the newest call */
  bool counted;                 /* the newest call but one gathered a number of a rank */
  bool constructed;             /* DDP's constructor was here */
  uint64_t reduced;             /* elements of large all-reduces since the beginning, or the last rebuilding */
  struct tagc_signature bucket; /* the newest of these */
  uint64_t rebuilt_reduced;     /* both, when buckets were rebuilt last */
  struct tagc_signature rebuilt_bucket;
  struct tagc_signature rebuilding; /* its second broadcast, whose count is that of the buckets; a count of 0: never */
};

void tagc_beginning_add(struct tagc_beginning *beginning, const struct tagc_signature *call);

/* True if it might prove that all-reduces are gradients (replicas.h). */
static inline bool tagc_beginning_tells(const struct tagc_beginning *b) {
  return b->broadcast_count || b->rebuilding.count;
}

#endif
