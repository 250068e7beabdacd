/* SPDX-License-Identifier: BSD-3-Clause
 * Which unit's parameters an all-gather of the cycle gathers.
 *
 * Asked of floating-point all-gathers whose count is that of a floating-point reduce-scatter. Where one unit has that
 * count, it is that. Units alike are told apart by the order of their gathers, kind by kind, in the stretch that ends
 * with the reduce-scatters of a pass (units.h), and that is cut into segments where the first unit of the forward pass
 * is gathered, if nothing is like it. As many gathers as there are units of the kind are a row:
 *   forward    each row but the last, and a row alone
 *   backward   the last row of several, where parameters are gathered during the backward pass and each of these
 *              gathers comes before the reduce-scatter of its unit: in the order of the reduce-scatters
 *   reducing   all rows where the gathers follow the reduce-scatters in their own order
 *
 * Sure       is what no other reading fits as well: one row, unless it could be a forward pass as well as an
 *            optimizer's; two, where the second is a backward one; more only where nothing is like the first unit,
 *            which tells evaluation (it is gathered once) from accumulation (it is gathered each time). Rows that do
 *            not come out even, such as those of units that are not reduced (frozen ones), and the units of programs
 *            whose gathers do not tell them, are guesses.
 * Part of struct tagc_pattern; pure, and nothing here can fail. The time it takes is proportional to the length of the
 * cycle.
 */
#ifndef LAYERMAP_CYCLE_ALLGATHERS_H
#define LAYERMAP_CYCLE_ALLGATHERS_H

#include "layermap/cycle/pattern.h"

/* Fills the all-gathers of a pattern, whose slots have their units. */
void tagc_allgathers_pair(struct tagc_pattern *pattern);

#endif
