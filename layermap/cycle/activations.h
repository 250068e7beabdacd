/* SPDX-License-Identifier: BSD-3-Clause
 * Do the reduce-scatters of a pattern carry activations, although all-gathers with the same counts exist?
 *
 * Tensor and sequence parallelism, context parallelism, experts with gathered tokens (Megatron's all-gather dispatcher)
 * and losses over the features of all ranks gather activations and reduce-scatter their gradients, or the other way
 * round. This tells gradients of parameters apart:
 *   averages   sharded training may average gradients; activations and their gradients are summed. Beside averages,
 *              sums are activations.
 * And if all are sums:
 *   ahead      before a pass of gradients the whole forward pass is gathered. The reduce-scatters come in passes of at
 *              least two counts. The stretch right before a pass gathers each count as often as the pass reduces it.
 *              Activations are gathered where they are used, and some are reduced in the forward pass.
 *   replicas   whoever all-reduces more than all reduce-scatters together has replicas with unsharded gradients.
 *
 * Two cases still look exactly like gradients. Layers may gather activations of two counts in the forward and again in
 * the backward pass, and features may be gathered among FSDP1's sums.
 * Part of struct tagc_pattern; pure, cannot fail. Apart from units.h, the time is proportional to the pattern's length.
 */
#ifndef LAYERMAP_CYCLE_ACTIVATIONS_H
#define LAYERMAP_CYCLE_ACTIVATIONS_H

#include "layermap/cycle/pattern.h"

/* True for reductions that only sharded training uses. */
static inline bool tagc_signature_averages(const struct tagc_signature *s) {
  return s->op == TAGC_CODE_AVERAGE || s->op == TAGC_CODE_SCALED_SUM;
}

/* True if the pattern is no step but a row of like layers in a backward pass: some recent reduce-scatters do not follow
 * its order. Other calls may come in between (evaluation). For a pattern that looks like a whole step of sums. */
bool tagc_pattern_is_row(const struct tagc_pattern *pattern, const struct tagc_evidence *evidence);

/* True if the newest pattern all-reduces more than it reduce-scatters. */
bool tagc_pattern_has_replicas(const struct tagc_evidence *evidence, int nranks);

/* For a pattern of sums that looks like a whole step and whose places have kinds. Numbers its units. */
bool tagc_pattern_has_activations(struct tagc_pattern *pattern, const struct tagc_evidence *evidence, int nranks);

#endif
