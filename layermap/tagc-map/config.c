/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/tagc-map/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layermap/model/families.h"
#include "layermap/tagc-map/json.h"
#include "layermap/tagc-map/vision.h"

/* The largest config.json (mostly names of labels), and the largest size. */
enum { CONFIG_BYTES = 16 << 20, LARGEST_SIZE = INT32_MAX };

/* A type of models with the defaults of its class. kv_heads = 0: as heads; head_dim = 0: hidden / heads; without
 * experts these have no default. */
struct type {
  const char *name;
  enum tagc_family family;
  uint32_t hidden, intermediate, blocks, heads, kv_heads, head_dim, vocabulary;
  bool tied;
  uint32_t experts, expert_intermediate;
};

static const struct type types[] = {
  {"gpt2", TAGC_FAMILY_GPT2, 768, 0, 12, 12, 0, 0, 50257, true, 0, 0},
  {"gpt_neox", TAGC_FAMILY_NEOX, 6144, 24576, 44, 64, 0, 0, 50432, false, 0, 0},
  {"llama", TAGC_FAMILY_LLAMA, 4096, 11008, 32, 32, 0, 0, 32000, false, 0, 0},
  {"mistral", TAGC_FAMILY_MISTRAL, 4096, 14336, 32, 32, 8, 0, 32000, false, 0, 0},
  {"qwen2", TAGC_FAMILY_QWEN2, 4096, 22016, 32, 32, 32, 0, 151936, false, 0, 0},
  {"qwen3", TAGC_FAMILY_QWEN3, 4096, 22016, 32, 32, 32, 128, 151936, false, 0, 0},
  {"gemma", TAGC_FAMILY_GEMMA, 3072, 24576, 28, 16, 16, 256, 256000, true, 0, 0},
  {"gemma2", TAGC_FAMILY_GEMMA2, 2304, 9216, 26, 8, 4, 256, 256000, true, 0, 0},
  {"gemma3_text", TAGC_FAMILY_GEMMA3, 2304, 9216, 26, 8, 4, 256, 262208, true, 0, 0},
  {"phi", TAGC_FAMILY_PHI, 2048, 8192, 24, 32, 0, 0, 51200, false, 0, 0},
  {"phi3", TAGC_FAMILY_PHI3, 3072, 8192, 32, 32, 0, 0, 32064, false, 0, 0},
  {"bert", TAGC_FAMILY_BERT, 768, 3072, 12, 12, 0, 0, 30522, true, 0, 0},
  {"vit", TAGC_FAMILY_VIT, 768, 3072, 12, 12, 0, 0, 0, true, 0, 0},
  {"mixtral", TAGC_FAMILY_MIXTRAL, 4096, 14336, 32, 32, 8, 0, 32000, false, 8, 0},
  {"qwen3_moe", TAGC_FAMILY_QWEN3_MOE, 2048, 6144, 24, 32, 4, 0, 151936, false, 128, 768},
  {"deepseek_v2", TAGC_FAMILY_DEEPSEEK, 4096, 11008, 32, 32, 0, 0, 32000, false, 64, 1407},
  {"deepseek_v3", TAGC_FAMILY_DEEPSEEK, 7168, 18432, 61, 128, 0, 0, 129280, false, 256, 2048},
};

struct reader {
  struct tagc_json_document json;
  const json_t *object; /* holds the sizes ... */
  size_t from;          /* ... and begins here */
  struct tagc_complaint *complaint;
  bool is_good, is_part; /* part: `object` is one of several models in the file */
};

/* The value of a key; NULL: absent, or null. */
static const json_t *look_up_key(const struct reader *r, const char *key) {
  const json_t *value = json_object_get(r->object, key);
  return json_is_null(value) ? NULL : value;
}

static size_t key_place(const struct reader *r, const char *key) { return tagc_json_find(&r->json, r->from, key); }

/* Reads a whole number >= `least`. After an earlier error it reports nothing more. */
static uint32_t read_size(struct reader *r, const char *key, uint32_t by_default, uint32_t least) {
  const json_t *value = look_up_key(r, key);
  if (!value || !r->is_good)
    return by_default;
  if (!json_is_integer(value)) {
    r->is_good = tagc_json_complain(&r->json, key_place(r, key), r->complaint,
                                    "\"%s\" is %s; expected is a whole number from %u to %u", key,
                                    tagc_json_kind(value), least, LARGEST_SIZE);
  } else if (json_integer_value(value) < least || json_integer_value(value) > LARGEST_SIZE) {
    r->is_good = tagc_json_complain(&r->json, key_place(r, key), r->complaint,
                                    "\"%s\" is %lld; expected is a whole number from %u to %u", key,
                                    (long long)json_integer_value(value), least, LARGEST_SIZE);
  }
  return r->is_good ? (uint32_t)json_integer_value(value) : by_default;
}

static bool read_flag(struct reader *r, const char *key, bool by_default) {
  const json_t *value = look_up_key(r, key);
  if (!value || !r->is_good)
    return by_default;
  if (!json_is_boolean(value))
    r->is_good = tagc_json_complain(&r->json, key_place(r, key), r->complaint,
                                    "\"%s\" is %s; expected is true or false", key, tagc_json_kind(value));
  return json_is_true(value);
}

/* Refuses a flag whose other value changes parameters in an unknown way. */
static void require_flag(struct reader *r, const char *key, bool required) {
  if (read_flag(r, key, required) != required && r->is_good)
    r->is_good = tagc_json_complain(&r->json, key_place(r, key), r->complaint,
                                    "\"%s\" is %s; only models where it is %s are known", key,
                                    required ? "false" : "true", required ? "true" : "false");
}

/* The first entry of "architectures", or "". */
static const char *read_class(struct reader *r) {
  const json_t *list = json_object_get(r->is_part ? r->json.root : r->object, "architectures");
  const char *name = json_string_value(json_array_get(list, 0));
  return name ? name : "";
}

static bool config_ends_with(const char *text, const char *end) {
  size_t length = strlen(text), size = strlen(end);
  return length >= size && !strcmp(text + length - size, end);
}

static void refuse_class(struct reader *r, const char *name, const char *expected) {
  char shown[64];
  if (r->is_good)
    r->is_good = tagc_json_complain(&r->json, tagc_json_find(&r->json, 0, "architectures"), r->complaint,
                                    "\"architectures\" is %s; expected is %s", tagc_json_show(name, shown), expected);
}

/* "num_labels", or the size of "id2label". */
static uint32_t read_labels(struct reader *r) {
  size_t labels = json_object_size(json_object_get(r->object, "id2label"));
  return read_size(r, "num_labels", labels ? (uint32_t)labels : 2, 1);
}

static void read_bert(struct reader *r, struct tagc_architecture *a) {
  const char *name = read_class(r);
  a->positions = read_size(r, "max_position_embeddings", 512, 1);
  a->types = read_size(r, "type_vocab_size", 2, 1);
  require_flag(r, "add_cross_attention", false);
  if (config_ends_with(name, "ForPreTraining"))
    a->pooler = a->masked_head = a->next_head = true;
  else if (config_ends_with(name, "ForMaskedLM") || config_ends_with(name, "LMHeadModel"))
    a->masked_head = true;
  else if (config_ends_with(name, "ForSequenceClassification") || config_ends_with(name, "ForTokenClassification") ||
           config_ends_with(name, "ForQuestionAnswering"))
    a->labels = read_labels(r);
  else if (*name && !config_ends_with(name, "Model"))
    refuse_class(r, name,
                 "BertModel, BertForPreTraining, ...MaskedLM, ...SequenceClassification, ...TokenClassification, ...");
  a->pooler |= !*name || (config_ends_with(name, "Model") && !a->masked_head) ||
               config_ends_with(name, "ForSequenceClassification");
}

static void read_vit(struct reader *r, struct tagc_architecture *a) {
  const char *name = read_class(r);
  uint32_t image = read_size(r, "image_size", 224, 1);
  a->patch = read_size(r, "patch_size", 16, 1);
  a->channels = read_size(r, "num_channels", 3, 1);
  uint64_t patches = (uint64_t)(image / a->patch) * (image / a->patch);
  if (r->is_good && (patches < 1 || patches > LARGEST_SIZE))
    r->is_good = tagc_json_complain(&r->json, key_place(r, "patch_size"), r->complaint,
                                    "patches of %u in an image of %u; expected is at least one", a->patch, image);
  a->positions = r->is_good ? (uint32_t)patches + 1 : 0;
  require_flag(r, "qkv_bias", true);
  if (config_ends_with(name, "ForImageClassification"))
    a->labels = read_labels(r);
  else if (!*name || config_ends_with(name, "Model"))
    a->pooler = true;
  else
    refuse_class(r, name, "ViTModel or ViTForImageClassification");
}

/* Reads the blocks with dense MLPs, which must be the first ones. */
static void read_qwen_dense(struct reader *r, struct tagc_architecture *a) {
  const json_t *dense = look_up_key(r, "mlp_only_layers");
  for (size_t i = 0; i < json_array_size(dense); i++)
    if (json_integer_value(json_array_get(dense, i)) == (json_int_t)i)
      a->dense_blocks++;
  if (r->is_good && dense && (!json_is_array(dense) || a->dense_blocks != json_array_size(dense)))
    r->is_good = tagc_json_complain(&r->json, key_place(r, "mlp_only_layers"), r->complaint,
                                    "\"mlp_only_layers\" is not known; expected is [], or the first blocks: [0, 1]");
  if (read_size(r, "decoder_sparse_step", 1, 1) != 1 && r->is_good)
    r->is_good = tagc_json_complain(&r->json, key_place(r, "decoder_sparse_step"), r->complaint,
                                    "\"decoder_sparse_step\" is not known; expected is 1");
}

static void read_deepseek(struct reader *r, const struct type *type, struct tagc_architecture *a) {
  bool is_v3 = !strcmp(type->name, "deepseek_v3");
  a->experts = read_size(r, "n_routed_experts", type->experts, 1);
  a->expert_intermediate = read_size(r, "moe_intermediate_size", type->expert_intermediate, 1);
  uint64_t shared = (uint64_t)read_size(r, "n_shared_experts", is_v3 ? 1 : 2, 0) * a->expert_intermediate;
  a->shared_intermediate = shared > LARGEST_SIZE ? LARGEST_SIZE : (uint32_t)shared;
  a->dense_blocks = read_size(r, "first_k_dense_replace", is_v3 ? 3 : 0, 0);
  bool is_full = json_object_get(r->object, "q_lora_rank") && !look_up_key(r, "q_lora_rank");
  a->q_rank = is_full ? 0 : read_size(r, "q_lora_rank", 1536, 1);
  a->kv_rank = read_size(r, "kv_lora_rank", 512, 1);
  a->rope_dim = read_size(r, "qk_rope_head_dim", 64, 1);
  a->nope_dim = read_size(r, "qk_nope_head_dim", 128, 1);
  a->v_dim = read_size(r, "v_head_dim", 128, 1);
  if (read_size(r, "moe_layer_freq", 1, 1) != 1 && r->is_good)
    r->is_good = tagc_json_complain(&r->json, key_place(r, "moe_layer_freq"), r->complaint,
                                    "\"moe_layer_freq\" is not known; expected is 1");
}

/* Reads keys of single families. */
static void read_particular(struct reader *r, const struct type *type, struct tagc_architecture *a) {
  switch (a->family) {
  case TAGC_FAMILY_GPT2:
    a->positions = read_size(r, "n_positions", 1024, 1);
    require_flag(r, "add_cross_attention", false);
    break;
  case TAGC_FAMILY_NEOX: require_flag(r, "attention_bias", true); break;
  case TAGC_FAMILY_PHI: require_flag(r, "qk_layernorm", false); break;
  case TAGC_FAMILY_LLAMA:
    a->mlp_bias = read_flag(r, "mlp_bias", false);
    a->attention_bias = read_flag(r, "attention_bias", false);
    break;
  case TAGC_FAMILY_QWEN3:
  case TAGC_FAMILY_GEMMA:
  case TAGC_FAMILY_GEMMA2:
  case TAGC_FAMILY_GEMMA3: a->attention_bias = read_flag(r, "attention_bias", false); break;
  case TAGC_FAMILY_BERT: read_bert(r, a); break;
  case TAGC_FAMILY_VIT: read_vit(r, a); break;
  case TAGC_FAMILY_MIXTRAL: a->experts = read_size(r, "num_local_experts", type->experts, 1); break;
  case TAGC_FAMILY_QWEN3_MOE:
    a->attention_bias = read_flag(r, "attention_bias", false);
    a->experts = read_size(r, "num_experts", type->experts, 1);
    a->expert_intermediate = read_size(r, "moe_intermediate_size", type->expert_intermediate, 1);
    read_qwen_dense(r, a);
    break;
  case TAGC_FAMILY_DEEPSEEK:
    a->attention_bias = read_flag(r, "attention_bias", false);
    read_deepseek(r, type, a);
    break;
  default: break;
  }
}

/* For a language model: whether it has a head, and whether that is the embedding. */
static void read_head(struct reader *r, struct tagc_architecture *a) {
  const char *name = read_class(r);
  if (config_ends_with(name, "ForCausalLM") || config_ends_with(name, "ForConditionalGeneration") ||
      config_ends_with(name, "LMHeadModel") || !*name)
    return;
  if (!config_ends_with(name, "Model") || a->family == TAGC_FAMILY_PHI)
    refuse_class(r, name, "a class that ends with ForCausalLM, or Model");
  a->tied = true;
}

/* Notes an absent size: such a file is more often cut short than of the default. */
static void note_default(const struct reader *r, const char *key, uint32_t by_default, const char *type, FILE *notes,
                         const char *path) {
  if (notes && r->is_good && by_default && !look_up_key(r, key))
    fprintf(notes, "tagc-map: %s: \"%s\" is not there: %u, the default of %s\n", path, key, by_default, type);
}

/* gpt2's n_inner is usually null. */
static void note_defaults(const struct reader *r, const struct type *type, FILE *notes, const char *path) {
  bool is_gpt2 = type->family == TAGC_FAMILY_GPT2;
  const struct {
    const char *key;
    uint32_t by_default;
  } sizes[] = {
    {is_gpt2 ? "n_embd" : "hidden_size", type->hidden},
    {"intermediate_size", is_gpt2 ? 0 : type->intermediate},
    {is_gpt2 ? "n_layer" : "num_hidden_layers", type->blocks},
    {is_gpt2 ? "n_head" : "num_attention_heads", type->heads},
    {"vocab_size", type->vocabulary},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    note_default(r, sizes[i].key, sizes[i].by_default, type->name, notes, path);
}

static bool read_architecture(struct reader *r, const struct type *type, struct tagc_architecture *a) {
  bool is_gpt2 = type->family == TAGC_FAMILY_GPT2, is_image = type->family == TAGC_FAMILY_VIT;
  *a = (struct tagc_architecture){.family = type->family};
  a->hidden = read_size(r, is_gpt2 ? "n_embd" : "hidden_size", type->hidden, 1);
  uint32_t wide = a->hidden > LARGEST_SIZE / 4 ? LARGEST_SIZE : 4 * a->hidden;
  a->intermediate = read_size(r, is_gpt2 ? "n_inner" : "intermediate_size", is_gpt2 ? wide : type->intermediate, 1);
  a->blocks = read_size(r, is_gpt2 ? "n_layer" : "num_hidden_layers", type->blocks, 1);
  a->heads = read_size(r, is_gpt2 ? "n_head" : "num_attention_heads", type->heads, 1);
  bool kv_is_null = json_is_null(json_object_get(r->object, "num_key_value_heads"));
  a->kv_heads = read_size(r, "num_key_value_heads", kv_is_null || !type->kv_heads ? a->heads : type->kv_heads, 1);
  a->head_dim = read_size(r, "head_dim", type->head_dim ? type->head_dim : a->hidden / a->heads, 1);
  a->vocabulary = is_image ? 0 : read_size(r, "vocab_size", type->vocabulary, 1);
  a->tied = read_flag(r, "tie_word_embeddings", type->tied);
  a->fused_qkv = is_gpt2 || type->family == TAGC_FAMILY_NEOX || type->family == TAGC_FAMILY_PHI3;
  read_particular(r, type, a);
  if (!is_image && type->family != TAGC_FAMILY_BERT)
    read_head(r, a);
  return r->is_good;
}

static const struct type *find_model_type(const char *name) {
  for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, name))
      return &types[i];
  return NULL;
}

/* -- vision-language models ---------------------------------------------------------------------------------------- */

/* Vision-language models. `tied`: by default the head is the embedding. */
static const struct composite {
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

static const struct composite *find_composite(const char *name) {
  for (size_t i = 0; name && i < sizeof composites / sizeof *composites; i++)
    if (!strcmp(composites[i].name, name))
      return &composites[i];
  return NULL;
}

/* Goes to one of the models in the file. */
static void enter_part(struct reader *r, const char *key) {
  r->object = json_object_get(r->json.root, key);
  r->from = tagc_json_find(&r->json, 0, key);
  r->is_part = true;
  if (!json_is_object(r->object) && r->is_good)
    r->is_good = tagc_json_complain(&r->json, r->from, r->complaint, "\"%s\" is %s; expected is an object", key,
                                    r->object ? tagc_json_kind(r->object) : "not there");
}

static void leave_part(struct reader *r) {
  r->object = r->json.root;
  r->from = 0;
}

/* Reads height and width: one number, or [height, width]. */
static void read_sides(struct reader *r, const char *key, uint32_t by_default, uint64_t sides[2]) {
  const json_t *value = look_up_key(r, key);
  const json_int_t height = json_integer_value(json_array_get(value, 0)),
                   width = json_integer_value(json_array_get(value, 1));
  if (!json_is_array(value)) {
    sides[0] = sides[1] = read_size(r, key, by_default, 1);
    return;
  }
  if (r->is_good &&
      (json_array_size(value) != 2 || height < 1 || width < 1 || height > LARGEST_SIZE || width > LARGEST_SIZE))
    r->is_good = tagc_json_complain(&r->json, key_place(r, key), r->complaint,
                                    "\"%s\" is not known; expected is a whole number, or two in [ and ]", key);
  sides[0] = (uint64_t)height;
  sides[1] = (uint64_t)width;
}

static void read_patches(struct reader *r, const struct tower *tower, struct tagc_vision *v) {
  uint64_t image[2], patch[2];
  read_sides(r, "image_size", tower->image, image);
  read_sides(r, "patch_size", tower->patch, patch);
  uint64_t channels = read_size(r, "num_channels", 3, 1);
  if (!r->is_good)
    return;
  v->patches = (image[0] / patch[0]) * (image[1] / patch[1]);
  if (!v->patches || v->patches > LARGEST_SIZE || patch[0] * patch[1] > LARGEST_SIZE)
    r->is_good = tagc_json_complain(&r->json, key_place(r, "patch_size"), r->complaint,
                                    "patches of %u in an image of %u; expected is at least one", (unsigned)patch[0],
                                    (unsigned)image[0]);
  v->patch_elements = channels * patch[0] * patch[1];
}

static void read_internvl(struct reader *r, struct tagc_vision *v) {
  const char *norm = json_string_value(look_up_key(r, "norm_type"));
  v->qkv_bias = read_flag(r, "attention_bias", false);
  v->has_qk_norms = read_flag(r, "use_qk_norm", false);
  v->has_mask = read_flag(r, "use_mask_token", false);
  v->has_positions = read_flag(r, "use_absolute_position_embeddings", true);
  v->has_last_norm = !read_flag(r, "use_mean_pooling", true);
  v->has_rms_norms = norm && !strcmp(norm, "rms_norm");
  if (norm && !v->has_rms_norms && strcmp(norm, "layer_norm") && r->is_good)
    r->is_good = tagc_json_complain(&r->json, key_place(r, "norm_type"), r->complaint,
                                    "\"norm_type\" is not known; expected is layer_norm or rms_norm");
}

static const struct tower *read_tower_type(struct reader *r) {
  const char *name = json_string_value(look_up_key(r, "model_type"));
  char shown[64];
  for (size_t i = 0; name && i < sizeof towers / sizeof *towers; i++)
    if (!strcmp(towers[i].name, name))
      return &towers[i];
  if (r->is_good)
    r->is_good = tagc_json_complain(&r->json, name ? key_place(r, "model_type") : r->from, r->complaint,
                                    "\"model_type\" of \"vision_config\" is %.20s; expected is clip_vision_model, "
                                    "siglip_vision_model, pixtral or internvl_vision",
                                    name ? tagc_json_show(name, shown) : "not there");
  return NULL;
}

static void read_tower(struct reader *r, struct tagc_vision *v, FILE *notes, const char *path) {
  enter_part(r, "vision_config");
  const struct tower *tower = read_tower_type(r);
  if (!tower)
    return;
  v->tower = tower->tower;
  v->hidden = read_size(r, "hidden_size", tower->hidden, 1);
  v->intermediate = read_size(r, "intermediate_size", tower->intermediate, 1);
  v->blocks = read_size(r, "num_hidden_layers", tower->blocks, 1);
  read_patches(r, tower, v);
  v->has_last_norm = v->tower == TAGC_TOWER_CLIP || v->tower == TAGC_TOWER_SIGLIP;
  v->has_pool = v->tower == TAGC_TOWER_SIGLIP && read_flag(r, "vision_use_head", true);
  if (v->tower == TAGC_TOWER_INTERNVL)
    read_internvl(r, v);
  note_default(r, "hidden_size", tower->hidden, tower->name, notes, path);
  note_default(r, "intermediate_size", tower->intermediate, tower->name, notes, path);
  note_default(r, "num_hidden_layers", tower->blocks, tower->name, notes, path);
}

/* The patches that InternVL's projector merges, from the share of their sides that is left. */
static uint32_t read_merged(struct reader *r) {
  const json_t *value = look_up_key(r, "downsample_ratio");
  const double ratio = value ? json_number_value(value) : 0.5;
  if (r->is_good && (!(ratio > 0.01) || ratio > 1))
    r->is_good = tagc_json_complain(&r->json, key_place(r, "downsample_ratio"), r->complaint,
                                    "\"downsample_ratio\" is not known; expected is a number from 0.01 to 1");
  const uint32_t side = r->is_good ? (uint32_t)(1 / ratio) : 1;
  return side * side;
}

static void read_projector(struct reader *r, const struct composite *composite, const struct tagc_architecture *text,
                           struct tagc_vision *v) {
  leave_part(r);
  const json_t *layers = look_up_key(r, "vision_feature_layer");
  const bool is_mistral = composite->projector == TAGC_PROJECTOR_MISTRAL3;
  v->projector = composite->projector;
  v->layers = json_is_array(layers) && json_array_size(layers) ? (uint32_t)json_array_size(layers) : 1;
  v->projector_bias = read_flag(r, "multimodal_projector_bias", !is_mistral);
  const uint32_t side = is_mistral ? read_size(r, "spatial_merge_size", 2, 1) : 1;
  v->merged = composite->projector == TAGC_PROJECTOR_INTERNVL ? read_merged(r) : side < 1000 ? side * side : 0;
  if (composite->projector == TAGC_PROJECTOR_PALIGEMMA && r->is_good &&
      read_size(r, "projection_dim", 2048, 1) != text->hidden)
    r->is_good =
      tagc_json_complain(&r->json, key_place(r, "projection_dim"), r->complaint,
                         "\"projection_dim\" is not the \"hidden_size\" of the text; expected is %u", text->hidden);
}

static const char *flag_words(bool value, bool is_there) {
  return value ? is_there ? "true" : "true by default" : is_there ? "false" : "false by default";
}

/* Is the head the embedding? Releases of transformers ask the whole configuration, or that of the text. */
static void read_composite_tie(struct reader *r, const struct composite *composite, struct tagc_architecture *text) {
  const bool by_text = look_up_key(r, "tie_word_embeddings"), tied = text->tied;
  leave_part(r);
  if (config_ends_with(read_class(r), "Model"))
    return; /* it has no head */
  const bool by_file = look_up_key(r, "tie_word_embeddings"),
             file = read_flag(r, "tie_word_embeddings", by_text ? tied : composite->tied);
  if (r->is_good && file != tied)
    r->is_good = tagc_json_complain(&r->json, key_place(r, "tie_word_embeddings"), r->complaint,
                                    "\"tie_word_embeddings\" is %s, and %s in \"text_config\"; expected is the same",
                                    flag_words(file, by_file), flag_words(tied, by_text));
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static void refuse_type(struct reader *r, const char *name) {
  char text[160] = "", shown[64];
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? ", " : "", types[i].name);
  if (name)
    tagc_json_complain(&r->json, tagc_json_find(&r->json, r->from, "model_type"), r->complaint,
                       "\"model_type\" is %.20s; expected: %s", tagc_json_show(name, shown), text);
  else
    tagc_json_complain(&r->json, r->from, r->complaint, "there is no \"model_type\"; expected: %s", text);
}

/* Models in the file besides that of the text must not be forgotten. */
static bool is_alone(struct reader *r, const char *name) {
  static const char *const parts[] = {"vision_config", "audio_config", "text_config"};
  char shown[64];
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (json_is_object(json_object_get(r->json.root, parts[i])))
      return tagc_json_complain(&r->json, tagc_json_find(&r->json, 0, parts[i]), r->complaint,
                                "\"%s\" of %.30s is not known; known with parts are llava, gemma3, mistral3, paligemma "
                                "and internvl",
                                parts[i], name ? tagc_json_show(name, shown) : "no \"model_type\"");
  return true;
}

/* The type of the model, or of its text model. */
static const struct type *read_model_type(struct reader *r, const struct composite **composite) {
  const char *name = json_string_value(json_object_get(r->json.root, "model_type"));
  *composite = find_composite(name);
  if (*composite) {
    enter_part(r, "text_config");
    const char *text_name = json_string_value(json_object_get(r->object, "model_type"));
    name = text_name ? text_name : (*composite)->text;
  } else if (!is_alone(r, name)) {
    return NULL;
  }
  const struct type *type = r->is_good ? find_model_type(name) : NULL;
  if (!type && r->is_good)
    refuse_type(r, name);
  return type;
}

static struct tagc_model *read_vision_model(struct reader *r, const struct composite *composite,
                                            struct tagc_architecture *text, FILE *notes, const char *path) {
  struct tagc_vision vision = {0};
  read_composite_tie(r, composite, text);
  read_tower(r, &vision, notes, path);
  read_projector(r, composite, text, &vision);
  return r->is_good ? tagc_vision_model(&vision, text, composite->name) : NULL;
}

static char *read_config_file(const char *path, size_t *bytes, struct tagc_complaint *complaint) {
  char *text = NULL;
  FILE *file = fopen(path, "rb");
  if (!file) {
    tagc_file_complain(complaint, "it cannot be opened: %s", strerror(errno));
    return NULL;
  }
  size_t room = 1 << 16;
  *bytes = 0;
  do {
    room *= 2;
    char *more = realloc(text, room);
    if (!more) {
      tagc_file_complain(complaint, "there is no memory to read it");
      goto failed;
    }
    text = more;
    *bytes += fread(text + *bytes, 1, room - 1 - *bytes, file);
  } while (*bytes == room - 1 && *bytes <= CONFIG_BYTES);
  if (ferror(file)) {
    tagc_file_complain(complaint, "it cannot be read: %s", strerror(errno));
    goto failed;
  }
  if (*bytes > CONFIG_BYTES) {
    tagc_file_complain(complaint, "it is too large for a config.json; expected are at most %d bytes", CONFIG_BYTES);
    goto failed;
  }
  text[*bytes] = '\0';
  fclose(file);
  return text;

failed:
  free(text);
  fclose(file);
  return NULL;
}

struct tagc_model *tagc_map_from_config(const char *path, FILE *notes, struct tagc_complaint *complaint) {
  struct reader r = {.complaint = complaint, .is_good = true};
  struct tagc_architecture a;
  struct tagc_model *model = NULL;
  size_t bytes;
  char *text = read_config_file(path, &bytes, complaint);
  if (!text || !tagc_json_parse(&r.json, text, bytes, complaint))
    return NULL;
  r.object = r.json.root;
  const struct composite *composite;
  const struct type *type = read_model_type(&r, &composite);
  if (type && read_architecture(&r, type, &a)) {
    note_defaults(&r, type, notes, path);
    model = composite ? read_vision_model(&r, composite, &a, notes, path) : tagc_family_model(&a);
    if (!model && r.is_good)
      tagc_file_complain(complaint, "there is no model of such sizes (or no memory for it)");
  }
  tagc_json_free(&r.json);
  return model;
}
