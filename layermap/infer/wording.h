/* SPDX-License-Identifier: BSD-3-Clause
 * Describes solutions of the arithmetic: only facts that counts tell.
 *
 * Pure functions of their arguments; any thread.
 */
#ifndef LAYERMAP_INFER_WORDING_H
#define LAYERMAP_INFER_WORDING_H

#include "layermap/infer/layers.h"
#include "layermap/infer/solve.h"

/* "llama, hidden 4096, intermediate 14336, 4 query heads a key head, 32 blocks, vocabulary 128256, fsdp2" */
void tagc_solution_words(const struct tagc_solution *solution, char text[TAGC_LAYERS_WHAT]);
/* How `other` differs from `best`: "the same but vocabulary 32000 tied, fsdp1". Complete if family or width differ. */
void tagc_solution_difference(const struct tagc_solution *best, const struct tagc_solution *other,
                              char text[TAGC_LAYERS_WHAT]);

#endif
