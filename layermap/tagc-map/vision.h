/* SPDX-License-Identifier: BSD-3-Clause
 * Vision-language models: a vision tower, a projector to the width of the text, and a language model of families.h.
 *
 * Units       "embed": all before the blocks and between them: the tower's embeddings and norms, the projector, the
 *             embedding of the text; "vision": the tower's blocks; then those of the language model. Names are those of
 *             families.h; in "embed" those of the tower begin with "vision.", those of the projector with "projector.".
 * Order       of parameters: as Hugging Face's transformers register them (releases 4.57 and 5.23). Blocks of the tower
 *             are registered amid the unit "embed", so the order of units is marked as guessed.
 */
#ifndef LAYERMAP_TAGC_MAP_VISION_H
#define LAYERMAP_TAGC_MAP_VISION_H

#include "layermap/model/families.h"

enum tagc_tower { TAGC_TOWER_CLIP, TAGC_TOWER_SIGLIP, TAGC_TOWER_PIXTRAL, TAGC_TOWER_INTERNVL };

enum tagc_projector {
  TAGC_PROJECTOR_LLAVA,
  TAGC_PROJECTOR_GEMMA3,
  TAGC_PROJECTOR_MISTRAL3,
  TAGC_PROJECTOR_PALIGEMMA,
  TAGC_PROJECTOR_INTERNVL
};

struct tagc_vision {
  enum tagc_tower tower;
  enum tagc_projector projector;
  uint32_t hidden, intermediate, blocks;
  uint64_t patch_elements; /* channels, height and width of a patch */
  uint64_t patches;        /* of an image: rows of positions, without that of the class */
  bool has_pool;           /* SigLIP: attention that makes one vector of an image */
  /* InternVL's tower. */
  bool qkv_bias, has_qk_norms, has_rms_norms, has_mask, has_positions, has_last_norm;
  /* The projector: its inputs in widths of the tower (of LLaVA, Mistral 3), patches that are merged (Mistral 3,
   * InternVL). */
  uint32_t layers, merged;
  bool projector_bias; /* LLaVA, Mistral 3 */
};

/* The whole model. NULL: no memory, or sizes above the limits of model.h. */
struct tagc_model *tagc_vision_model(const struct tagc_vision *vision, const struct tagc_architecture *text,
                                     const char *family);

#endif
