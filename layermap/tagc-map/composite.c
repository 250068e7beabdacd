/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/tagc-map/composite.h"

#include <string.h>

#include "layermap/tagc-map/vision.h"

/* Vision-language models. `tied`: by default the head is the embedding. */
static const struct tagc_composite {
  const char *name, *text; /* the type of the text model, if the file does not say it */
  enum tagc_projector projector;
  bool tied;
} composites[] = {
  {"llava", NULL, TAGC_PROJECTOR_LLAVA, false},      {"gemma3", "gemma3_text", TAGC_PROJECTOR_GEMMA3, true},
  {"mistral3", NULL, TAGC_PROJECTOR_MISTRAL3, true}, {"paligemma", NULL, TAGC_PROJECTOR_PALIGEMMA, true},
  {"internvl", NULL, TAGC_PROJECTOR_INTERNVL, true},
};

/* Vision towers, with the defaults of their classes. */
static const struct tower {
  const char *name;
  enum tagc_tower tower;
  uint32_t hidden, intermediate, blocks, image, patch;
} towers[] = {
  {"clip_vision_model", TAGC_TOWER_CLIP, 768, 3072, 12, 224, 32},
  {"siglip_vision_model", TAGC_TOWER_SIGLIP, 768, 3072, 12, 224, 16},
  {"pixtral", TAGC_TOWER_PIXTRAL, 1024, 4096, 24, 1024, 16},
  {"internvl_vision", TAGC_TOWER_INTERNVL, 1024, 4096, 24, 448, 14},
};

const struct tagc_composite *tagc_composite_find(const char *name) {
  for (size_t i = 0; name && i < sizeof composites / sizeof *composites; i++)
    if (!strcmp(composites[i].name, name))
      return &composites[i];
  return NULL;
}

const char *tagc_composite_text(const struct tagc_composite *composite) { return composite->text; }

/* Reads height and width: one number, or [height, width]. */
static void read_sides(struct tagc_keys *r, const char *key, uint32_t by_default, uint64_t sides[2]) {
  const json_t *value = tagc_keys_value(r, key);
  const json_int_t height = json_integer_value(json_array_get(value, 0)),
                   width = json_integer_value(json_array_get(value, 1));
  if (!json_is_array(value)) {
    sides[0] = sides[1] = tagc_keys_size(r, key, by_default, 1);
    return;
  }
  if (r->is_good && (json_array_size(value) != 2 || height < 1 || width < 1 || height > TAGC_LARGEST_SIZE ||
                     width > TAGC_LARGEST_SIZE))
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, key), r->complaint,
                                    "\"%s\" is not known; expected is a whole number, or two in [ and ]", key);
  sides[0] = (uint64_t)height;
  sides[1] = (uint64_t)width;
}

static void read_patches(struct tagc_keys *r, const struct tower *tower, struct tagc_vision *v) {
  uint64_t image[2], patch[2];
  read_sides(r, "image_size", tower->image, image);
  read_sides(r, "patch_size", tower->patch, patch);
  uint64_t channels = tagc_keys_size(r, "num_channels", 3, 1);
  if (!r->is_good)
    return;
  v->patches = (image[0] / patch[0]) * (image[1] / patch[1]);
  if (!v->patches || v->patches > TAGC_LARGEST_SIZE || patch[0] * patch[1] > TAGC_LARGEST_SIZE)
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, "patch_size"), r->complaint,
                                    "patches of %u in an image of %u; expected is at least one", (unsigned)patch[0],
                                    (unsigned)image[0]);
  v->patch_elements = channels * patch[0] * patch[1];
}

static void read_internvl(struct tagc_keys *r, struct tagc_vision *v) {
  const char *norm = json_string_value(tagc_keys_value(r, "norm_type"));
  v->qkv_bias = tagc_keys_flag(r, "attention_bias", false);
  v->has_qk_norms = tagc_keys_flag(r, "use_qk_norm", false);
  v->has_mask = tagc_keys_flag(r, "use_mask_token", false);
  v->has_positions = tagc_keys_flag(r, "use_absolute_position_embeddings", true);
  v->has_last_norm = !tagc_keys_flag(r, "use_mean_pooling", true);
  v->has_rms_norms = norm && !strcmp(norm, "rms_norm");
  if (norm && !v->has_rms_norms && strcmp(norm, "layer_norm") && r->is_good)
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, "norm_type"), r->complaint,
                                    "\"norm_type\" is not known; expected is layer_norm or rms_norm");
}

static const struct tower *read_tower_type(struct tagc_keys *r) {
  const char *name = json_string_value(tagc_keys_value(r, "model_type"));
  char shown[64];
  for (size_t i = 0; name && i < sizeof towers / sizeof *towers; i++)
    if (!strcmp(towers[i].name, name))
      return &towers[i];
  if (r->is_good)
    r->is_good = tagc_json_complain(&r->json, name ? tagc_keys_place(r, "model_type") : r->from, r->complaint,
                                    "\"model_type\" of \"vision_config\" is %.20s; expected is clip_vision_model, "
                                    "siglip_vision_model, pixtral or internvl_vision",
                                    name ? tagc_json_show(name, shown) : "not there");
  return NULL;
}

static void read_tower(struct tagc_keys *r, struct tagc_vision *v) {
  tagc_keys_enter(r, "vision_config");
  const struct tower *tower = read_tower_type(r);
  if (!tower)
    return;
  v->tower = tower->tower;
  r->type = tower->name;
  v->hidden = tagc_keys_important(r, "hidden_size", tower->hidden, 1);
  v->intermediate = tagc_keys_important(r, "intermediate_size", tower->intermediate, 1);
  v->blocks = tagc_keys_important(r, "num_hidden_layers", tower->blocks, 1);
  read_patches(r, tower, v);
  v->has_last_norm = v->tower == TAGC_TOWER_CLIP || v->tower == TAGC_TOWER_SIGLIP;
  v->has_pool = v->tower == TAGC_TOWER_SIGLIP && tagc_keys_flag(r, "vision_use_head", true);
  if (v->tower == TAGC_TOWER_INTERNVL)
    read_internvl(r, v);
}

/* The patches that InternVL's projector merges, from the share of their sides that is left. */
static uint32_t read_merged(struct tagc_keys *r) {
  const json_t *value = tagc_keys_value(r, "downsample_ratio");
  const double ratio = value ? json_number_value(value) : 0.5;
  if (r->is_good && (!(ratio > 0.01) || ratio > 1))
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, "downsample_ratio"), r->complaint,
                                    "\"downsample_ratio\" is not known; expected is a number from 0.01 to 1");
  const uint32_t side = r->is_good ? (uint32_t)(1 / ratio) : 1;
  return side * side;
}

static void read_projector(struct tagc_keys *r, const struct tagc_composite *composite,
                           const struct tagc_architecture *text, struct tagc_vision *v) {
  tagc_keys_leave(r);
  const json_t *layers = tagc_keys_value(r, "vision_feature_layer");
  const bool is_mistral = composite->projector == TAGC_PROJECTOR_MISTRAL3;
  v->projector = composite->projector;
  v->layers = json_is_array(layers) && json_array_size(layers) ? (uint32_t)json_array_size(layers) : 1;
  v->projector_bias = tagc_keys_flag(r, "multimodal_projector_bias", !is_mistral);
  const uint32_t side = is_mistral ? tagc_keys_size(r, "spatial_merge_size", 2, 1) : 1;
  v->merged = composite->projector == TAGC_PROJECTOR_INTERNVL ? read_merged(r) : side < 1000 ? side * side : 0;
  if (composite->projector == TAGC_PROJECTOR_PALIGEMMA && r->is_good &&
      tagc_keys_size(r, "projection_dim", 2048, 1) != text->hidden)
    r->is_good =
      tagc_json_complain(&r->json, tagc_keys_place(r, "projection_dim"), r->complaint,
                         "\"projection_dim\" is not the \"hidden_size\" of the text; expected is %u", text->hidden);
}

static const char *flag_words(bool value, bool is_there) {
  return value ? is_there ? "true" : "true by default" : is_there ? "false" : "false by default";
}

/* Is the head the embedding? Releases of transformers ask the whole configuration, or that of the text. */
static void read_composite_tie(struct tagc_keys *r, const struct tagc_composite *composite,
                               struct tagc_architecture *text) {
  const bool by_text = tagc_keys_value(r, "tie_word_embeddings"), tied = text->tied;
  tagc_keys_leave(r);
  if (tagc_ends_with(tagc_keys_class(r), "Model"))
    return; /* it has no head */
  const bool by_file = tagc_keys_value(r, "tie_word_embeddings"),
             file = tagc_keys_flag(r, "tie_word_embeddings", by_text ? tied : composite->tied);
  if (r->is_good && file != tied)
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, "tie_word_embeddings"), r->complaint,
                                    "\"tie_word_embeddings\" is %s, and %s in \"text_config\"; expected is the same",
                                    flag_words(file, by_file), flag_words(tied, by_text));
}

struct tagc_model *tagc_composite_model(struct tagc_keys *r, const struct tagc_composite *composite,
                                        struct tagc_architecture *text) {
  struct tagc_vision vision = {0};
  read_composite_tie(r, composite, text);
  read_tower(r, &vision);
  read_projector(r, composite, text, &vision);
  return r->is_good ? tagc_vision_model(&vision, text, composite->name) : NULL;
}
