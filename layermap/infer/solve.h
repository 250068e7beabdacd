/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of transformers: which architecture, wrapped and laid out in which way, has slots of just these sizes?
 * (families.h knows what a block of which family holds, layout.h how many elements a shard has then.)
 *
 * Pure: the same counts give the same answer on every rank; integers alone.
 */
#ifndef LAYERMAP_INFER_SOLVE_H
#define LAYERMAP_INFER_SOLVE_H

#include "layermap/infer/match.h"
#include "layermap/model/families.h"

struct tagc_solution {
  struct tagc_architecture architecture;
  bool blocks_only;        /* what is outside the blocks is not known */
  bool megatron;           /* the parameters are those of megatron.h */
  struct tagc_match match; /* how it lies in the slots */
  bool whole;              /* nothing is cut into shards: the slots are all-reduces */
  unsigned confidence;     /* per cent */
};

/* Fills the best solution and the best one that divides some slot otherwise (found[1].confidence = 0: there is none).
 * TAGC_FOUND_NONE: none at all fits. `slots` in the order of their calls; of all-reduces, nranks is 1: nothing is cut
 * into shards. */
enum tagc_found tagc_solve(const struct tagc_slot_info *slots, size_t count, int nranks, struct tagc_solution found[2]);

/* The model of a solution. NULL: it passes a limit of model.h, which none that was found does, or without memory:
 * no_memory says which. */
struct tagc_model *tagc_solution_model(const struct tagc_solution *solution, bool *no_memory);

/* Elements of a shard of each slot, in forward order: order[i] is the index of the i-th slot. False: units are not a
 * permutation. */
bool tagc_forward_order(const struct tagc_slot_info *slots, size_t count, uint32_t *order, uint64_t *counts);

#endif
