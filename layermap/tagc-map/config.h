/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map from-config: a model from the config.json of a Hugging Face model, which holds its sizes.
 *
 * Known       "model_type" gpt2, gpt_neox, llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3, gemma3_text, phi, phi3,
 *             bert, vit, mixtral, qwen3_moe, deepseek_v2, deepseek_v3. Of a type that is not known the "text_config" is
 *             taken, where there is one: the model is that of the text alone then.
 * Absent      keys have the defaults of their classes in transformers 4.57; a null counts as absent.
 * Heads       follow "architectures": of BERT and ViT what the class has behind the blocks; of the others a head of
 *             words, or none for a class without one ("LlamaModel").
 * Refused     is what would change parameters in a way that families.h does not know (a model with "qk_layernorm":
 *             true, say).
 */
#ifndef LAYERMAP_TAGC_MAP_CONFIG_H
#define LAYERMAP_TAGC_MAP_CONFIG_H

#include <stdio.h>

#include "layermap/model/complaint.h"
#include "layermap/model/model.h"

/* NULL: *complaint says why. The caller frees the model. `notes` (may be NULL) gets a line for each size that a model
 * turns on and that the file does not have. */
struct tagc_model *tagc_map_from_config(const char *path, FILE *notes, struct tagc_complaint *complaint);

#endif
