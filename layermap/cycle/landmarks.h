/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the track of a locked cycle again, behind a call that was not expected.
 *
 * Landmark   a call that tells its place in a step. It is unique in the cycle, or all its places are of one unit, the
 *            only one of its size. Such a unit is gathered in the forward and in the backward pass, and in each round
 * of an accumulation. Stretch    the calls from a landmark up to the next one. Programs vary by whole stretches. They
 * accumulate over more or fewer rounds, or evaluate between two steps. Finding    A call is at a place if the calls
 * since the last landmark, that one included, also stand before this place. Otherwise a landmark is at any of its
 * places. The nearest place before the expected one counts. So a program that repeats a round repeats it here, too.
 *
 * The calls since a landmark tell the unit of a gradient, as the calls since a unique one do. They may leave open its
 * pass: then residuals of a unit change between its passes. A like block that is left out matches no stretch, and the
 * next landmark finds the track.
 * Part of struct tagc_pattern; pure, cannot fail.
 */
#ifndef LAYERMAP_CYCLE_LANDMARKS_H
#define LAYERMAP_CYCLE_LANDMARKS_H

#include "layermap/cycle/pattern.h"

/* Marks the landmarks of a pattern whose slots have their units and passes. */
void tagc_landmarks_set(struct tagc_pattern *pattern);

/* The landmark of the calls that end before `next`. */
uint32_t tagc_landmarks_last(const struct tagc_pattern *pattern, uint32_t next);

/* The place of a call, or -1, in a pattern with landmarks. `next` is the place that was expected. `held`: the calls
 * since the last landmark are those before `next`. */
int32_t tagc_landmarks_find(const struct tagc_pattern *pattern, uint32_t next, bool held,
                            const struct tagc_signature *call);

#endif
