/* SPDX-License-Identifier: BSD-3-Clause
 * Do the all-reduces of a pattern sum the gradients of replicas of a model?
 *
 * What programs do at their beginning (beginning.h) proves it. The calls of a pattern's all-reduces, from the largest
 * down to some size, are gradients if one of these holds. (If DDP's constructor was there, the largest few may be
 * something else.)
 *   parameters   Their elements are as many as those of all broadcasts that do not come again. Buffers that the pattern
 *                broadcasts are taken off (DDP does so before each forward pass). A few equal sizes may be a
 *                coincidence: so either DDP's constructor was there, or the counts of both have three values or more,
 *                and are not those of tokens. FSDP1 pads each unit, which it broadcasts, to a multiple of the ranks
 *                (torch/distributed/fsdp/_init_utils.py, _sync_module_params_and_buffers; _flat_param.py). Behind DDP's
 *                constructor there may be several passes of so many elements (accumulation that reduces each time).
 *   rebuilding   DDP's buckets were cut anew. There are so many as it said, or several passes of so many. What was
 *                reduced before has the elements of a pass, once or several times, in another cut.
 *
 * Twice. If smaller all-reduces have half of the proven elements or more, one of both may be the parameters themselves
 * (averaged models), and nothing is proven. Averages alone look as gradients do: contents refute them
 * (interpose/policy/changes.h).
 *
 * Tokens. The counts of activations are tokens times width, and all activations of a step have one number of tokens, or
 * a few. So they have a large common divisor. Buckets add up parameters of many shapes, which have at most a width in
 * common, and some parameter has that to the square. So counts are those of tokens if their greatest common divisor, to
 * the square, is more than the largest of them.
 *
 * Not proven. DDP with find_unused_parameters and frozen parts broadcasts more than it reduces, and never cuts anew.
 * It sums a map of used parameters behind its buckets (reducer.cpp, all_reduce_local_used_map). But the sums of a
 * codebook, or features, may come right before these buckets, and nothing tells where the buckets begin. FSDP1 with
 * NO_SHARD that broadcasts nothing, or aligns its parameters, begins as anything may. PyTorch itself tells both:
 * TAGC_LAYERMAP=torch.
 *
 * Part of struct tagc_pattern; pure, cannot fail.
 */
#ifndef LAYERMAP_CYCLE_REPLICAS_H
#define LAYERMAP_CYCLE_REPLICAS_H

#include "layermap/cycle/pattern.h"

/* The counts of the all-reduces that are proven to be of gradients. */
struct tagc_replicas {
  uint64_t least, most;
  uint64_t passes; /* how often they reduce the model (accumulation); 0: none is proven */
  bool rebuilt;    /* they are as many as DDP's new buckets, and several: one might be of all parameters */
};

/* Of the all-reduces with this kind of reduction, over so many ranks (0: unknown). */
struct tagc_replicas tagc_replicas_prove(const struct tagc_evidence *evidence, int nranks, uint8_t op);

/* True if the pattern has all calls that came behind the beginning's broadcasts. (One pass of several has not.) */
bool tagc_replicas_are_all(const struct tagc_evidence *evidence);

#endif
