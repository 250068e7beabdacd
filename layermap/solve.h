/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of transformers: which architecture, wrapped and laid out in which way, has slots of just these sizes?
 * (families.h knows what a block of which family holds, layout.h how many elements a shard has then.)
 *
 * Pure: the same counts give the same answer on every rank; integers alone.
 */
#ifndef LAYERMAP_SOLVE_H
#define LAYERMAP_SOLVE_H

#include "layermap/families.h"
#include "layermap/match.h"

struct tagc_solution {
  struct tagc_architecture architecture;
  struct tagc_match match;          /* how it lies in the slots */
  unsigned confidence;              /* per cent */
};

/* Fills the best solution and the best one that divides some slot otherwise (found[1].confidence = 0: there is none). False: none at
 * all fits. `slots` in the order of their calls. */
bool tagc_solve(const struct tagc_slot_info *slots, size_t count, int nranks, struct tagc_solution found[2]);

#endif
