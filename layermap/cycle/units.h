/* SPDX-License-Identifier: BSD-3-Clause
 * Orders the units of a model by its forward pass, from the calls of a cycle.
 *
 * Reduce-scatters  come nearly in the reverse of the forward order. A unit whose inputs need no gradient (an embedding,
 *                  the root) comes at the end of the backward pass, several such in any order.
 * All-gathers      of the stretch before the first reduce-scatter come in forward order. But there may be several
 *                  forward passes (evaluation, accumulation), backward passes that reduce nothing, and gathers of the
 *                  backward pass's first units. Evaluation may find a unit already gathered.
 *
 * So we look for the forward pass: as many gathers in a row as there are reduce-scatters, with the same counts, each as
 * often. Among several such rows the one nearest to the reverse order counts (the first of equals). Without one, the
 * first gathers of each count do: more units are gathered than reduced (frozen ones), or units are used twice. The k-th
 * gather of a count belongs to the unit with the k-th reduce-scatter of this count from the end. The reverse order
 * counts if some unit is not gathered there, or if the gathers follow the order of the reduce-scatters (an optimizer
 * hands out parameters).
 *
 * Passes           A cycle may hold several backward passes that reduce (accumulation). A new pass begins where the
 *                  counts repeat, if the gathers before each pass are the same, or those of a forward pass.
 * Part of struct tagc_pattern; pure, cannot fail.
 */
#ifndef LAYERMAP_CYCLE_UNITS_H
#define LAYERMAP_CYCLE_UNITS_H

#include "layermap/cycle/pattern.h"

/* Sets `unit`, `pass` and `told` of all slots of the pattern, and its `units` and `order`. */
void tagc_units_number(struct tagc_pattern *pattern);

#endif
