/* SPDX-License-Identifier: BSD-3-Clause
 * See vision.h. The orders are those of named_parameters() of LlavaForConditionalGeneration, Gemma3..., Mistral3...,
 * PaliGemma... and InternVLForConditionalGeneration.
 */
#include "layermap/tagc-map/vision.h"

#include <stdio.h>

/* Adds to the last unit of the model until an addition fails. */
struct maker {
  struct tagc_model *model;
  const struct tagc_vision *vision;
  bool is_good;
};

static void put(struct maker *m, const char *name, const char *suffix, uint64_t rows, uint64_t columns) {
  char whole[TAGC_PARAMETER_NAME];
  snprintf(whole, sizeof whole, "%s%s", name, suffix);
  m->is_good = m->is_good && tagc_model_add_parameter(m->model, whole, tagc_kinds_of_name(whole), rows, columns);
}

static void put_linear(struct maker *m, const char *name, uint64_t outputs, uint64_t inputs, bool has_bias) {
  put(m, name, ".weight", outputs, inputs);
  if (has_bias)
    put(m, name, ".bias", outputs, 1);
}

static void put_norm(struct maker *m, const char *name, uint64_t size, bool has_bias) {
  put_linear(m, name, size, 1, has_bias);
}

/* -- blocks -------------------------------------------------------------------------------------------------------- */

static void put_projections(struct maker *m, const char *first, const char *second, const char *third, bool has_bias) {
  const uint64_t h = m->vision->hidden;
  put_linear(m, first, h, h, has_bias);
  put_linear(m, second, h, h, has_bias);
  put_linear(m, third, h, h, has_bias);
}

static void put_mlp(struct maker *m, const char *up, const char *down) {
  put_linear(m, up, m->vision->intermediate, m->vision->hidden, true);
  put_linear(m, down, m->vision->hidden, m->vision->intermediate, true);
}

static void put_clip_block(struct maker *m, bool is_siglip) {
  const uint64_t h = m->vision->hidden;
  if (is_siglip)
    put_norm(m, "norm1", h, true);
  put_projections(m, "attn.k", "attn.v", "attn.q", true);
  put_linear(m, "attn.o", h, h, true);
  put_norm(m, is_siglip ? "norm2" : "norm1", h, true);
  put_mlp(m, "mlp.up", "mlp.down");
  if (!is_siglip)
    put_norm(m, "norm2", h, true);
}

static void put_pixtral_block(struct maker *m) {
  const uint64_t h = m->vision->hidden, i = m->vision->intermediate;
  put_norm(m, "norm1", h, false);
  put_linear(m, "mlp.gate", i, h, false);
  put_linear(m, "mlp.up", i, h, false);
  put_linear(m, "mlp.down", h, i, false);
  put_projections(m, "attn.k", "attn.v", "attn.q", false);
  put_linear(m, "attn.o", h, h, false);
  put_norm(m, "norm2", h, false);
}

static void put_internvl_block(struct maker *m) {
  const uint64_t h = m->vision->hidden;
  put(m, "scale1", "", h, 1);
  put(m, "scale2", "", h, 1);
  put_projections(m, "attn.q", "attn.k", "attn.v", m->vision->qkv_bias);
  put_linear(m, "attn.o", h, h, true);
  if (m->vision->has_qk_norms) {
    put_norm(m, "attn.q_norm", h, false);
    put_norm(m, "attn.k_norm", h, false);
  }
  put_mlp(m, "mlp.up", "mlp.down");
  put_norm(m, "norm1", h, !m->vision->has_rms_norms);
  put_norm(m, "norm2", h, !m->vision->has_rms_norms);
}

static void put_block(struct maker *m) {
  switch (m->vision->tower) {
  case TAGC_TOWER_CLIP:
  case TAGC_TOWER_SIGLIP: put_clip_block(m, m->vision->tower == TAGC_TOWER_SIGLIP); break;
  case TAGC_TOWER_PIXTRAL: put_pixtral_block(m); break;
  case TAGC_TOWER_INTERNVL: put_internvl_block(m); break;
  }
}

/* -- outside blocks ------------------------------------------------------------------------------------------------ */

static void put_pool(struct maker *m) {
  const uint64_t h = m->vision->hidden;
  put(m, "vision.pool.probe", "", 1, h);
  put(m, "vision.pool.attn.qkv", ".weight", 3 * h, h);
  put(m, "vision.pool.attn.qkv", ".bias", 3 * h, 1);
  put_linear(m, "vision.pool.attn.o", h, h, true);
  put_norm(m, "vision.pool.norm", h, true);
  put_mlp(m, "vision.pool.mlp.up", "vision.pool.mlp.down");
}

static void put_tower(struct maker *m) {
  const struct tagc_vision *v = m->vision;
  const uint64_t h = v->hidden;
  const bool is_clip = v->tower == TAGC_TOWER_CLIP, is_internvl = v->tower == TAGC_TOWER_INTERNVL;
  if (is_clip || is_internvl)
    put(m, "vision.embed.class", "", is_clip ? h : 1, is_clip ? 1 : h);
  if (v->has_mask)
    put(m, "vision.embed.mask", "", 1, h);
  if (v->has_positions)
    put(m, "vision.embed.positions", "", 1, (v->patches + 1) * h);
  put_linear(m, "vision.embed.patches", h, v->patch_elements, v->tower == TAGC_TOWER_SIGLIP || is_internvl);
  if (is_clip || v->tower == TAGC_TOWER_SIGLIP)
    put(m, "vision.embed.positions", ".weight", v->patches + is_clip, h);
  if (is_clip || v->tower == TAGC_TOWER_PIXTRAL)
    put_norm(m, "vision.embed.norm", h, is_clip);
  if (v->has_last_norm)
    put_norm(m, "vision.norm", h, true);
  if (v->has_pool)
    put_pool(m);
}

static void put_projector(struct maker *m, uint64_t text) {
  const struct tagc_vision *v = m->vision;
  const uint64_t h = v->hidden, merged = h * v->merged;
  switch (v->projector) {
  case TAGC_PROJECTOR_GEMMA3:
    put(m, "projector.weight", "", h, text);
    put_norm(m, "projector.norm", h, false);
    return;
  case TAGC_PROJECTOR_PALIGEMMA: put_linear(m, "projector", text, h, true); return;
  case TAGC_PROJECTOR_INTERNVL: put_norm(m, "projector.norm", merged, true); break;
  case TAGC_PROJECTOR_MISTRAL3:
    put_norm(m, "projector.norm", h, false);
    put_linear(m, "projector.merger", h, merged, false);
    break;
  default: break;
  }
  const bool is_internvl = v->projector == TAGC_PROJECTOR_INTERNVL;
  put_linear(m, "projector.1", text, is_internvl ? merged : h * v->layers, is_internvl || v->projector_bias);
  put_linear(m, "projector.2", text, text, is_internvl || v->projector_bias);
}

/* -- models -------------------------------------------------------------------------------------------------------- */

static bool put_embedding(struct maker *m, const struct tagc_architecture *text) {
  m->is_good = tagc_model_add_unit(m->model, "embed") && tagc_model_add_place(m->model, 0, -1);
  put_tower(m);
  put_projector(m, text->hidden);
  return m->is_good && tagc_family_add_embedding(m->model, text);
}

static bool put_vision_blocks(struct maker *m) {
  m->is_good = tagc_model_add_unit(m->model, "vision");
  put_block(m);
  for (uint32_t number = 0; number < m->vision->blocks && m->is_good; number++)
    m->is_good = tagc_model_add_place(m->model, 1, (int32_t)number);
  return m->is_good;
}

/* Adds the blocks and the head of the language model, which has an embedding and then these. */
static bool put_text(struct tagc_model *model, const struct tagc_model *text) {
  const uint32_t first = (uint32_t)model->unit_count;
  for (size_t i = 1; i < text->unit_count; i++)
    if (!tagc_model_add_unit(model, text->units[i].name) ||
        !tagc_model_add_parameters(model, text->units[i].parameters, text->units[i].count))
      return false;
  for (size_t i = 1; i < text->place_count; i++)
    if (!tagc_model_add_place(model, first + text->places[i].unit - 1, text->places[i].block))
      return false;
  return true;
}

struct tagc_model *tagc_vision_model(const struct tagc_vision *vision, const struct tagc_architecture *text,
                                     const char *family) {
  struct tagc_model *language = tagc_family_model(text);
  struct maker m = {.model = language ? tagc_model_create() : NULL, .vision = vision};
  bool is_made = m.model && put_embedding(&m, text) && put_vision_blocks(&m) && put_text(m.model, language);
  tagc_model_free(language);
  if (!is_made) {
    tagc_model_free(m.model);
    return NULL;
  }
  m.model->is_guessed = true;
  snprintf(m.model->family, sizeof m.model->family, "%s", family);
  return m.model;
}
