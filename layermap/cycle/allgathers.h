/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the unit whose parameters an all-gather of the cycle gathers.
 *
 * Considers floating-point all-gathers with the count of a floating-point reduce-scatter. If only one unit has that
 * count, it is that unit. Otherwise the order of the gathers decides, kind by kind, within the stretch that ends with
 * the reduce-scatters of a pass (units.h). The stretch is cut into segments at each gather of the forward pass's first
 * unit, if that unit is unique. A row is as many gathers as the kind has units:
 *   forward    each row but the last, and a row alone
 *   backward   the last row of several, if parameters are gathered during the backward pass and each of these gathers
 *              comes before the reduce-scatter of its unit: in the order of the reduce-scatters
 *   reducing   all rows, if the gathers follow the reduce-scatters in the same order
 *
 * Sure       if no other reading fits as well: one row, unless it fits a forward pass and an optimizer alike; two rows,
 *            if the second is a backward one; more rows only if the first unit is unique. That tells evaluation (it is
 *            gathered once) from accumulation (it is gathered each time). Guesses: rows that do not come out even, as
 *            those of units that are not reduced (frozen ones), and units that the gathers do not tell apart.
 * Part of struct tagc_pattern; pure, cannot fail. The time is proportional to the length of the cycle.
 */
#ifndef LAYERMAP_CYCLE_ALLGATHERS_H
#define LAYERMAP_CYCLE_ALLGATHERS_H

#include "layermap/cycle/pattern.h"

/* Fills the all-gathers of a pattern whose slots have their units. */
void tagc_allgathers_pair(struct tagc_pattern *pattern);

#endif
