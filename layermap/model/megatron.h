/* SPDX-License-Identifier: BSD-3-Clause
 * A model as Megatron-core registers its parameters, which fixes its buckets: fewer, larger matrices in another order.
 */
#ifndef LAYERMAP_MODEL_MEGATRON_H
#define LAYERMAP_MODEL_MEGATRON_H

#include "layermap/model/model.h"

/* The same model with the blocks of megatron/core/transformer (transformer_layer.py, attention.py, mlp.py with the
 * layers of Transformer Engine). Order: attention's output; its norm; queries, keys and values in one matrix; the norm
 * before the MLP; gate and up projection in one matrix; down projection. Other blocks (mixtures of experts, not two
 * norms) stay as they are. NULL: no memory, or a merged matrix is over a limit of model.h: see no_memory. */
struct tagc_model *tagc_megatron_model(const struct tagc_model *model, bool *no_memory);

#endif
