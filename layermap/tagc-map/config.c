/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/tagc-map/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layermap/tagc-map/composite.h"

/* The largest config.json (mostly names of labels). */
enum { CONFIG_BYTES = 16 << 20 };

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

static void refuse_class(struct tagc_keys *r, const char *name, const char *expected) {
  char shown[64];
  if (r->is_good)
    r->is_good = tagc_json_complain(&r->json, tagc_json_find(&r->json, 0, "architectures"), r->complaint,
                                    "\"architectures\" is %s; expected is %s", tagc_json_show(name, shown), expected);
}

/* "num_labels", or the size of "id2label". */
static uint32_t read_labels(struct tagc_keys *r) {
  size_t labels = json_object_size(json_object_get(r->object, "id2label"));
  return tagc_keys_size(r, "num_labels", labels ? (uint32_t)labels : 2, 1);
}

static void read_bert(struct tagc_keys *r, struct tagc_architecture *a) {
  const char *name = tagc_keys_class(r);
  a->positions = tagc_keys_size(r, "max_position_embeddings", 512, 1);
  a->types = tagc_keys_size(r, "type_vocab_size", 2, 1);
  tagc_keys_require(r, "add_cross_attention", false);
  if (tagc_ends_with(name, "ForPreTraining"))
    a->pooler = a->masked_head = a->next_head = true;
  else if (tagc_ends_with(name, "ForMaskedLM") || tagc_ends_with(name, "LMHeadModel"))
    a->masked_head = true;
  else if (tagc_ends_with(name, "ForSequenceClassification") || tagc_ends_with(name, "ForTokenClassification") ||
           tagc_ends_with(name, "ForQuestionAnswering"))
    a->labels = read_labels(r);
  else if (*name && !tagc_ends_with(name, "Model"))
    refuse_class(r, name,
                 "BertModel, BertForPreTraining, ...MaskedLM, ...SequenceClassification, ...TokenClassification, ...");
  a->pooler |=
    !*name || (tagc_ends_with(name, "Model") && !a->masked_head) || tagc_ends_with(name, "ForSequenceClassification");
}

static void read_vit(struct tagc_keys *r, struct tagc_architecture *a) {
  const char *name = tagc_keys_class(r);
  uint32_t image = tagc_keys_size(r, "image_size", 224, 1);
  a->patch = tagc_keys_size(r, "patch_size", 16, 1);
  a->channels = tagc_keys_size(r, "num_channels", 3, 1);
  uint64_t patches = (uint64_t)(image / a->patch) * (image / a->patch);
  if (r->is_good && (patches < 1 || patches > TAGC_LARGEST_SIZE))
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, "patch_size"), r->complaint,
                                    "patches of %u in an image of %u; expected is at least one", a->patch, image);
  a->positions = r->is_good ? (uint32_t)patches + 1 : 0;
  tagc_keys_require(r, "qkv_bias", true);
  if (tagc_ends_with(name, "ForImageClassification"))
    a->labels = read_labels(r);
  else if (!*name || tagc_ends_with(name, "Model"))
    a->pooler = true;
  else
    refuse_class(r, name, "ViTModel or ViTForImageClassification");
}

/* Reads the blocks with dense MLPs, which must be the first ones. */
static void read_qwen_dense(struct tagc_keys *r, struct tagc_architecture *a) {
  const json_t *dense = tagc_keys_value(r, "mlp_only_layers");
  for (size_t i = 0; i < json_array_size(dense); i++)
    if (json_integer_value(json_array_get(dense, i)) == (json_int_t)i)
      a->dense_blocks++;
  if (r->is_good && dense && (!json_is_array(dense) || a->dense_blocks != json_array_size(dense)))
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, "mlp_only_layers"), r->complaint,
                                    "\"mlp_only_layers\" is not known; expected is [], or the first blocks: [0, 1]");
  if (tagc_keys_size(r, "decoder_sparse_step", 1, 1) != 1 && r->is_good)
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, "decoder_sparse_step"), r->complaint,
                                    "\"decoder_sparse_step\" is not known; expected is 1");
}

static void read_deepseek(struct tagc_keys *r, const struct type *type, struct tagc_architecture *a) {
  bool is_v3 = !strcmp(type->name, "deepseek_v3");
  a->experts = tagc_keys_important(r, "n_routed_experts", type->experts, 1);
  a->expert_intermediate = tagc_keys_important(r, "moe_intermediate_size", type->expert_intermediate, 1);
  uint64_t shared = (uint64_t)tagc_keys_important(r, "n_shared_experts", is_v3 ? 1 : 2, 0) * a->expert_intermediate;
  a->shared_intermediate = shared > TAGC_LARGEST_SIZE ? TAGC_LARGEST_SIZE : (uint32_t)shared;
  a->dense_blocks = tagc_keys_important(r, "first_k_dense_replace", is_v3 ? 3 : 0, 0);
  bool is_full = json_object_get(r->object, "q_lora_rank") && !tagc_keys_value(r, "q_lora_rank");
  a->q_rank = is_full ? 0 : tagc_keys_important(r, "q_lora_rank", 1536, 1);
  a->kv_rank = tagc_keys_important(r, "kv_lora_rank", 512, 1);
  a->rope_dim = tagc_keys_important(r, "qk_rope_head_dim", 64, 1);
  a->nope_dim = tagc_keys_important(r, "qk_nope_head_dim", 128, 1);
  a->v_dim = tagc_keys_important(r, "v_head_dim", 128, 1);
  if (tagc_keys_size(r, "moe_layer_freq", 1, 1) != 1 && r->is_good)
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, "moe_layer_freq"), r->complaint,
                                    "\"moe_layer_freq\" is not known; expected is 1");
}

/* Reads keys of single families. */
static void read_particular(struct tagc_keys *r, const struct type *type, struct tagc_architecture *a) {
  switch (a->family) {
  case TAGC_FAMILY_GPT2:
    a->positions = tagc_keys_important(r, "n_positions", 1024, 1);
    tagc_keys_require(r, "add_cross_attention", false);
    break;
  case TAGC_FAMILY_NEOX: tagc_keys_require(r, "attention_bias", true); break;
  case TAGC_FAMILY_PHI: tagc_keys_require(r, "qk_layernorm", false); break;
  case TAGC_FAMILY_LLAMA:
    a->mlp_bias = tagc_keys_flag(r, "mlp_bias", false);
    a->attention_bias = tagc_keys_flag(r, "attention_bias", false);
    break;
  case TAGC_FAMILY_QWEN3:
  case TAGC_FAMILY_GEMMA:
  case TAGC_FAMILY_GEMMA2:
  case TAGC_FAMILY_GEMMA3: a->attention_bias = tagc_keys_flag(r, "attention_bias", false); break;
  case TAGC_FAMILY_BERT: read_bert(r, a); break;
  case TAGC_FAMILY_VIT: read_vit(r, a); break;
  case TAGC_FAMILY_MIXTRAL: a->experts = tagc_keys_important(r, "num_local_experts", type->experts, 1); break;
  case TAGC_FAMILY_QWEN3_MOE:
    a->attention_bias = tagc_keys_flag(r, "attention_bias", false);
    a->experts = tagc_keys_important(r, "num_experts", type->experts, 1);
    a->expert_intermediate = tagc_keys_important(r, "moe_intermediate_size", type->expert_intermediate, 1);
    read_qwen_dense(r, a);
    break;
  case TAGC_FAMILY_DEEPSEEK:
    a->attention_bias = tagc_keys_flag(r, "attention_bias", false);
    read_deepseek(r, type, a);
    break;
  default: break;
  }
}

/* For a language model: whether it has a head, and whether that is the embedding. */
static void read_head(struct tagc_keys *r, struct tagc_architecture *a) {
  const char *name = tagc_keys_class(r);
  if (tagc_ends_with(name, "ForCausalLM") || tagc_ends_with(name, "ForConditionalGeneration") ||
      tagc_ends_with(name, "LMHeadModel") || !*name)
    return;
  if (!tagc_ends_with(name, "Model") || a->family == TAGC_FAMILY_PHI)
    refuse_class(r, name, "a class that ends with ForCausalLM, or Model");
  a->tied = true;
}

/* True: the hidden size is divided among the heads, and the classes of the family ignore other keys in a file. */
static bool has_equal_heads(enum tagc_family family) {
  return family == TAGC_FAMILY_GPT2 || family == TAGC_FAMILY_NEOX || family == TAGC_FAMILY_BERT ||
         family == TAGC_FAMILY_VIT;
}

static const char *hidden_key(const struct type *type) {
  return type->family == TAGC_FAMILY_GPT2 ? "n_embd" : "hidden_size";
}

static const char *heads_key(const struct type *type) {
  return type->family == TAGC_FAMILY_GPT2 ? "n_head" : "num_attention_heads";
}

/* Heads divide the hidden size, unless they have a size of their own, and key-value heads divide heads. */
static void check_heads(struct tagc_keys *r, const struct type *type, const struct tagc_architecture *a) {
  const bool apart = type->family == TAGC_FAMILY_DEEPSEEK || type->head_dim ||
                     (!has_equal_heads(type->family) && tagc_keys_value(r, "head_dim"));
  if (r->is_good && !apart && a->hidden % a->heads)
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, hidden_key(type)), r->complaint,
                                    "\"%s\" is %u; expected is a multiple of \"%s\", %u", hidden_key(type), a->hidden,
                                    heads_key(type), a->heads);
  if (r->is_good && type->family != TAGC_FAMILY_DEEPSEEK && a->heads % a->kv_heads)
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, "num_key_value_heads"), r->complaint,
                                    "\"num_key_value_heads\" is %u; expected is a divisor of \"%s\", %u", a->kv_heads,
                                    heads_key(type), a->heads);
}

static void read_heads(struct tagc_keys *r, const struct type *type, struct tagc_architecture *a) {
  const bool kv_is_null = json_is_null(json_object_get(r->object, "num_key_value_heads"));
  a->heads = tagc_keys_important(r, heads_key(type), type->heads, 1);
  a->kv_heads = a->heads;
  a->head_dim = a->hidden / a->heads;
  if (!has_equal_heads(type->family)) {
    const uint32_t kv_heads = type->kv_heads ? type->kv_heads : a->heads;
    a->kv_heads = kv_is_null ? a->heads : tagc_keys_important(r, "num_key_value_heads", kv_heads, 1);
    a->head_dim = type->head_dim ? tagc_keys_important(r, "head_dim", type->head_dim, 1)
                                 : tagc_keys_size(r, "head_dim", a->head_dim, 1);
  }
  check_heads(r, type, a);
}

static void read_block_count(struct tagc_keys *r, const struct type *type, struct tagc_architecture *a) {
  enum { MOST = TAGC_MODEL_PLACES - 2 };
  const char *const key = type->family == TAGC_FAMILY_GPT2 ? "n_layer" : "num_hidden_layers";
  a->blocks = tagc_keys_important(r, key, type->blocks, 1);
  if (r->is_good && a->blocks > MOST)
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, key), r->complaint,
                                    "\"%s\" is %u; expected is a whole number from 1 to %d", key, a->blocks, MOST);
}

static bool read_architecture(struct tagc_keys *r, const struct type *type, struct tagc_architecture *a) {
  bool is_gpt2 = type->family == TAGC_FAMILY_GPT2, is_image = type->family == TAGC_FAMILY_VIT;
  const bool fused_experts = a->fused_experts;
  char shown[64];
  *a = (struct tagc_architecture){.family = type->family, .fused_experts = fused_experts};
  r->type = type->name;
  a->hidden = tagc_keys_important(r, hidden_key(type), type->hidden, 1);
  uint32_t wide = a->hidden > TAGC_LARGEST_SIZE / 4 ? TAGC_LARGEST_SIZE : 4 * a->hidden;
  a->intermediate = is_gpt2 ? tagc_keys_size(r, "n_inner", wide, 1) /* it is usually null */
                            : tagc_keys_important(r, "intermediate_size", type->intermediate, 1);
  read_block_count(r, type, a);
  read_heads(r, type, a);
  a->vocabulary = is_image ? 0 : tagc_keys_important(r, "vocab_size", type->vocabulary, 1);
  a->tied = tagc_keys_flag(r, "tie_word_embeddings", type->tied);
  a->fused_qkv = is_gpt2 || type->family == TAGC_FAMILY_NEOX || type->family == TAGC_FAMILY_PHI3;
  read_particular(r, type, a);
  if (!is_image && type->family != TAGC_FAMILY_BERT)
    read_head(r, a);
  if (r->is_good && fused_experts && !a->experts)
    r->is_good = tagc_json_complain(&r->json, tagc_keys_place(r, "model_type"), r->complaint,
                                    "\"model_type\" is %.20s, which has no experts; --fused-experts is for mixtral, "
                                    "qwen3_moe, deepseek_v2 and deepseek_v3",
                                    tagc_json_show(type->name, shown));
  return r->is_good;
}

static const struct type *find_model_type(const char *name) {
  for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, name))
      return &types[i];
  return NULL;
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static void refuse_type(struct tagc_keys *r, const char *name) {
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
static bool is_alone(struct tagc_keys *r, const char *name) {
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
static const struct type *read_model_type(struct tagc_keys *r, const struct tagc_composite **composite) {
  const char *name = json_string_value(json_object_get(r->json.root, "model_type"));
  *composite = tagc_composite_find(name);
  if (*composite) {
    tagc_keys_enter(r, "text_config");
    const char *text_name = json_string_value(json_object_get(r->object, "model_type"));
    name = text_name ? text_name : tagc_composite_text(*composite);
  } else if (!is_alone(r, name)) {
    return NULL;
  }
  const struct type *type = r->is_good ? find_model_type(name) : NULL;
  if (!type && r->is_good)
    refuse_type(r, name);
  return type;
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

struct tagc_model *tagc_map_from_config(const char *path, bool fused_experts, FILE *notes,
                                        struct tagc_complaint *complaint) {
  struct tagc_keys r = {.complaint = complaint, .is_good = true, .notes = notes, .path = path};
  struct tagc_architecture a = {.fused_experts = fused_experts};
  struct tagc_model *model = NULL;
  size_t bytes;
  char *text = read_config_file(path, &bytes, complaint);
  if (!text || !tagc_json_parse(&r.json, text, bytes, complaint))
    return NULL;
  r.object = r.json.root;
  const struct tagc_composite *composite;
  const struct type *type = read_model_type(&r, &composite);
  if (type && read_architecture(&r, type, &a)) {
    model = composite ? tagc_composite_model(&r, composite, &a) : tagc_family_model(&a);
    if (!model && r.is_good)
      tagc_file_complain(complaint,
                         "a parameter of more than 2^48 elements, more than %d parameters, or no memory for them",
                         TAGC_MODEL_PARAMETERS);
  }
  tagc_json_free(&r.json);
  return model;
}
