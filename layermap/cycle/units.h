/* SPDX-License-Identifier: BSD-3-Clause
 * The units of a model in the order of its forward pass, as the calls of a cycle tell it.
 *
 * Reduce-scatters  come in the reverse of the forward order, nearly: a unit whose inputs need no gradient (an
 *                  embedding, the root) is left to the end of the backward pass, and what is left comes in any order.
 * All-gathers      of the stretch before the first reduce-scatter come in the forward order, but there may be more than
 *                  one forward pass in it (evaluation, accumulation), and backward passes that reduce nothing, and the
 *                  gathers of the first units of the backward pass; evaluation may find some unit already gathered.
 * So the forward pass is looked for: as many gathers in a row as there are reduce-scatters, with the same counts, each
 * as often. Of several such rows the one nearest to the reverse order counts (the first of equals). Where there is
 * none, the first gathers of each count: of more units than are reduced (frozen ones), or of units that are used twice.
 * The k-th gather of a count is of the unit that is reduced as the k-th from the end among those of this count. Where
 * some unit is not gathered there, or where the gathers follow the reduce-scatters in their own order (an optimizer
 * that hands out parameters), the reverse order counts.
 *
 * Passes           A cycle may hold several backward passes that reduce (accumulation). They are told apart where their
 *                  counts repeat and the gathers before each of them are the same, or those of a forward pass.
 * Part of struct tagc_pattern; pure, and nothing here can fail.
 */
#ifndef LAYERMAP_CYCLE_UNITS_H
#define LAYERMAP_CYCLE_UNITS_H

#include "layermap/cycle/pattern.h"

/* Sets `unit`, `pass` and `told` of all slots of the pattern, and its `units` and `order`. */
void tagc_units_number(struct tagc_pattern *pattern);

#endif
