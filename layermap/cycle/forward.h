/* SPDX-License-Identifier: BSD-3-Clause
 * Follows forward passes that come between the calls of a locked cycle: evaluation.
 *
 * A forward pass gathers each unit once, in forward order. A unit that the backward pass does not gather again stays
 * gathered behind it: FSDP2's root. So the next forward pass may lack it, also that of the next step. Then no landmark
 * tells where an evaluation ends. Until a gradient comes, these calls might be at several places, and are at none.
 * Behind a forward pass or more, the gradient is at the place to which they lead, if that is of one unit only. Part of
 * struct tagc_pattern; pure, cannot fail.
 */
#ifndef LAYERMAP_CYCLE_FORWARD_H
#define LAYERMAP_CYCLE_FORWARD_H

#include "layermap/cycle/pattern.h"

/* Marks the forward passes of a pattern whose all-gathers have their units. */
void tagc_forward_mark(struct tagc_pattern *pattern);

/* Sets the places where the call before `next` may be, from the calls since `landmark`. */
void tagc_forward_begin(struct tagc_pattern *pattern, uint32_t landmark, uint32_t next);
/* The same for the next call. Returns its place if it is a gradient and at one place, or else -1. */
int32_t tagc_forward_follow(struct tagc_pattern *pattern, const struct tagc_signature *call);

#endif
