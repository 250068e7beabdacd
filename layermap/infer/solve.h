/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of transformers: finds the architecture, wrapping and layout whose slots have just these sizes.
 * (families.h knows a block's contents, layout.h its elements per shard.)
 *
 * Pure: equal counts give equal answers on every rank; integers alone.
 */
#ifndef LAYERMAP_INFER_SOLVE_H
#define LAYERMAP_INFER_SOLVE_H

#include "layermap/infer/match.h"
#include "layermap/model/families.h"

struct tagc_solution {
  struct tagc_architecture architecture;
  bool blocks_only;        /* the parameters outside the blocks are unknown */
  bool megatron;           /* the parameters are those of megatron.h */
  bool forward;            /* they are in the order of the forward pass, which is that of DDP's buckets */
  struct tagc_match match; /* how it lies in the slots */
  bool whole;              /* uncut: the slots are all-reduces */
  unsigned confidence;     /* per cent */
};

/* Finds the best solution and the best one that divides some slot otherwise (found[1].confidence = 0: none).
 * TAGC_FOUND_NONE: nothing fits. `slots` are in the order of their calls. For all-reduces nranks is 1: no cuts. */
enum tagc_found tagc_solve(const struct tagc_slot_info *slots, size_t count, int nranks, struct tagc_solution found[2]);

/* The model of a solution. NULL: no memory, or it passes a limit of model.h (no solution found does): see no_memory. */
struct tagc_model *tagc_solution_model(const struct tagc_solution *solution, bool *no_memory);

/* Elements of a shard of each slot, in forward order: order[i] is the index of the i-th slot. False: no permutation. */
bool tagc_forward_order(const struct tagc_slot_info *slots, size_t count, uint32_t *order, uint64_t *counts);

#endif
