/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map from-config: a model from the sizes in a Hugging Face model's config.json.
 *
 * Known       "model_type" gpt2, gpt_neox, llama, mistral, qwen2, qwen3, gemma, gemma2, gemma3, gemma3_text, phi, phi3,
 *             bert, vit, mixtral, qwen3_moe, deepseek_v2, deepseek_v3. Vision-language models: llava, gemma3, mistral3,
 *             paligemma, internvl, of a text model above and a vision tower (vision.h).
 * Absent      keys have the defaults of their classes in transformers 4.57; a null counts as absent.
 * Heads       follow "architectures": for BERT and ViT the layers that the class has behind the blocks; for others a
 *             language head, or none for a class without one ("LlamaModel").
 * Refused     are values that change parameters in a way that families.h lacks (a model with "qk_layernorm": true);
 *             configurations of other models with parts ("vision_config"): no part is forgotten without a word.
 */
#ifndef LAYERMAP_TAGC_MAP_CONFIG_H
#define LAYERMAP_TAGC_MAP_CONFIG_H

#include <stdio.h>

#include "layermap/model/complaint.h"
#include "layermap/model/model.h"

/* NULL: see *complaint. The caller frees the model. fused_experts: a block holds all its experts in two parameters, as
 * transformers 5 has it, else each in its own; refused for models without experts. `notes` (or NULL) gets a line per
 * important size that is absent. */
struct tagc_model *tagc_map_from_config(const char *path, bool fused_experts, FILE *notes,
                                        struct tagc_complaint *complaint);

#endif
