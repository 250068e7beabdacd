/* SPDX-License-Identifier: BSD-3-Clause
 * Do the reduce-scatters of a pattern carry activations, although the same counts are gathered?
 *
 * Tensor and sequence parallelism, context parallelism, experts whose tokens are gathered (Megatron's all-gather
 * dispatcher) and losses over the features of all ranks gather activations, and reduce-scatter their gradients, or the
 * other way round. Gradients of parameters are told from them by this:
 *   averages   sharded training may average gradients; activations and their gradients are summed. Beside averages,
 *              sums are activations.
 * And where all are sums:
 *   ahead      before a pass of gradients the whole forward pass is gathered: the reduce-scatters come in passes of at
 *              least two counts, each of which is gathered, as often as it is reduced, in the stretch right before the
 *              pass. Activations are gathered where they are used, and some are reduced in the forward pass.
 *   replicas   who all-reduces more than all that is reduce-scattered has replicas, whose gradients are not sharded.
 * What is left looks like gradients in every respect: layers that gather activations of two counts in the forward and
 * again in the backward pass, and features that are gathered among FSDP1's sums.
 * Part of struct tagc_pattern; pure, and nothing here can fail. The time it takes, but for that of units.h, is
 * proportional to the length of the pattern.
 */
#ifndef LAYERMAP_CYCLE_ACTIVATIONS_H
#define LAYERMAP_CYCLE_ACTIVATIONS_H

#include "layermap/cycle/pattern.h"

/* Is it a reduction that sharded training alone makes? */
static inline bool tagc_signature_averages(const struct tagc_signature *s) {
  return s->op == TAGC_CODE_AVERAGE || s->op == TAGC_CODE_SCALED_SUM;
}

/* A step is never what the backward pass of a few layers repeats: all reduce-scatters seen lately come in its order,
 * whatever came between them (evaluation does). Asked of what looks like a whole step of sums. */
bool tagc_pattern_is_row(const struct tagc_pattern *pattern, const struct tagc_evidence *evidence);

/* Asked of a pattern of sums that looks like a whole step, and whose places have their kinds. Numbers its units. */
bool tagc_pattern_has_activations(struct tagc_pattern *pattern, const struct tagc_evidence *evidence, int nranks);

#endif
