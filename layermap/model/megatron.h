/* SPDX-License-Identifier: BSD-3-Clause
 * A model as Megatron-core registers its parameters, of which its buckets depend: fewer and larger matrices, in another
 * order.
 */
#ifndef LAYERMAP_MODEL_MEGATRON_H
#define LAYERMAP_MODEL_MEGATRON_H

#include "layermap/model/model.h"

/* The same model with the blocks of megatron/core/transformer (transformer_layer.py, attention.py, mlp.py with the
 * layers of Transformer Engine): the output of attention comes first, then its norm with queries, keys and values in
 * one matrix, the norm before the MLP with gate and up projection in one, and the down projection. Blocks of another
 * form (mixtures of experts, other than two norms) stay as they are. NULL without memory, or where a matrix of several
 * passes a limit of model.h: no_memory says which. */
struct tagc_model *tagc_megatron_model(const struct tagc_model *model, bool *no_memory);

#endif
