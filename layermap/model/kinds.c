/* SPDX-License-Identifier: BSD-3-Clause
 * The purpose of a parameter, by its name; see model.h.
 *
 * A name is a path of components ("model.layers.3.self_attn.q_proj.bias"), a component is made of words ("q", "proj").
 * Only whole components and whole words count ("format" is no norm), in any case, without a number at their end. Known
 * are the names of transformers, torchvision, timm, PyTorch's own modules, torchtitan and the Llama checkpoints,
 * Megatron-core (also with Transformer Engine's fused norms), GPT-NeoX, nanoGPT, examples/gpt and families.h.
 */
#include "layermap/model/glob.h"
#include "layermap/model/model.h"

#include <string.h>

static const char *const kind_names[] = {"attn", "mlp", "embed", "head", "norm", "bias", "expert"};
enum { KINDS = sizeof kind_names / sizeof *kind_names };

const char *tagc_kind_name(enum tagc_kind kind) {
  for (size_t i = 0; i < KINDS; i++)
    if ((uint32_t)kind == UINT32_C(1) << i)
      return kind_names[i];
  return NULL;
}

uint32_t tagc_kind_find(const char *name, size_t length) {
  for (size_t i = 0; i < KINDS; i++)
    if (strlen(kind_names[i]) == length && memcmp(kind_names[i], name, length) == 0)
      return UINT32_C(1) << i;
  return 0;
}

/* The meaning of a component. PROJECTION and LAYER are matrices of attention and MLP whose own names say so, without a
 * module around them that does. OUTPUT, GATE and LINEAR depend on their place. */
enum hint {
  NOTHING,
  NORM,
  ATTENTION,
  MLP,
  EXPERTS,
  MIXTURE,
  ROUTER,
  HEAD,
  EMBEDDING,
  PROJECTION,
  LAYER,
  OUTPUT,
  GATE,
  LINEAR,
  LAYERS,
  NUMBER
};

struct clue {
  const char *text;
  enum hint hint;
};

/* clang-format off */
static const struct clue whole_components[] = {
  {"embed_out", HEAD}, {"unembed", HEAD}, {"output_layer", HEAD}, {"lm_head", HEAD}, {"score", HEAD},
  {"qa_outputs", HEAD}, {"predictions", HEAD}, {"seq_relationship", HEAD},
  {"router", ROUTER}, {"shared_expert_gate", ROUTER},
  {"feed_forward", MLP}, {"intermediate", MLP}, {"densereludense", MLP},
  {"token", EMBEDDING}, {"position", EMBEDDING}, {"cls_token", EMBEDDING}, {"class_token", EMBEDDING},
  {"mask_token", EMBEDDING}, {"output", OUTPUT}, {"gate", GATE}, {"linear", LINEAR}, {"layers", LAYERS},
  {"q", PROJECTION}, {"k", PROJECTION}, {"v", PROJECTION}, {"o", PROJECTION}, {"qkv", PROJECTION},
  {"q_proj", PROJECTION}, {"k_proj", PROJECTION}, {"v_proj", PROJECTION}, {"o_proj", PROJECTION},
  {"qkv_proj", PROJECTION},
  {"wq", PROJECTION}, {"wk", PROJECTION}, {"wv", PROJECTION}, {"wo", PROJECTION}, {"wqkv", PROJECTION},
  {"query", PROJECTION}, {"key", PROJECTION}, {"value", PROJECTION}, {"query_key_value", PROJECTION},
  {"linear_qkv", PROJECTION},
  {"gate_proj", LAYER}, {"up_proj", LAYER}, {"down_proj", LAYER}, {"gate_up_proj", LAYER}, {"c_fc", LAYER},
  {"fc", LAYER}, {"fc_in", LAYER}, {"fc_out", LAYER}, {"linear_fc", LAYER}, {"w", LAYER}, {"wi", LAYER},
  {"dense_h_to_4h", LAYER}, {"dense_4h_to_h", LAYER},
};
/* clang-format on */

/* The first of these in a component decides: "mlp_head" is a head, "post_attention_layernorm" a norm. */
/* clang-format off */
static const struct clue words[] = {
  {"norm", NORM}, {"norms", NORM}, {"layernorm", NORM}, {"layernorms", NORM}, {"layrnorm", NORM}, {"rmsnorm", NORM},
  {"ln", NORM}, {"lnf", NORM}, {"head", HEAD}, {"heads", HEAD}, {"classifier", HEAD}, {"pooler", HEAD},
  {"expert", EXPERTS}, {"experts", EXPERTS}, {"moe", MIXTURE},
  {"attn", ATTENTION}, {"attention", ATTENTION}, {"selfattention", ATTENTION}, {"encdecattention", ATTENTION},
  {"mha", ATTENTION}, {"mlp", MLP}, {"ffn", MLP}, {"feedforward", MLP},
  {"embed", EMBEDDING}, {"embedding", EMBEDDING}, {"embeddings", EMBEDDING}, {"emb", EMBEDDING}, {"wte", EMBEDDING},
  {"wpe", EMBEDDING},
};
/* clang-format on */

struct text {
  const char *at;
  size_t length;
};

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Cuts the part of `whole` up to the next separator; `whole` then begins behind that. */
static struct text next_part(struct text *whole, const char *separators) {
  struct text part = {whole->at, 0};
  while (part.length < whole->length && !strchr(separators, part.at[part.length]))
    part.length++;
  size_t taken = part.length + (part.length < whole->length);
  *whole = (struct text){whole->at + taken, whole->length - taken};
  return part;
}

static bool is_clue(struct text text, const char *clue) {
  while (text.length > 0 && tagc_is_digit(text.at[text.length - 1]))
    text.length--;
  if (text.length > 0 && text.at[text.length - 1] == '_')
    text.length--;
  size_t i = 0;
  while (i < text.length && clue[i] && lower(text.at[i]) == clue[i])
    i++;
  return i == text.length && !clue[i];
}

static bool has_word(struct text component, const char *word) {
  while (component.length > 0)
    if (is_clue(next_part(&component, "_"), word))
      return true;
  return false;
}

static bool is_number(struct text component) {
  for (size_t i = 0; i < component.length; i++)
    if (!tagc_is_digit(component.at[i]))
      return false;
  return component.length > 0;
}

static enum hint read_component(struct text component) {
  if (is_number(component))
    return NUMBER;
  for (size_t i = 0; i < sizeof whole_components / sizeof *whole_components; i++)
    if (is_clue(component, whole_components[i].text))
      return whole_components[i].hint;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (has_word(component, words[i].text))
      return words[i].hint;
  return NOTHING;
}

/* True if the last word is "bias": "bias", "layer_norm_bias", "in_proj_bias". */
static bool is_bias(struct text component) {
  struct text word = {component.at, 0};
  while (component.length > 0)
    word = next_part(&component, "_");
  return is_clue(word, "bias");
}

struct path {
  uint32_t seen;       /* bits of hints */
  enum hint before[3]; /* of the components before the current one, the nearest first */
  bool norm_in_attention;
};

static bool has(const struct path *path, enum hint hint) { return path->seen >> hint & 1; }

/* A gate is a router in Mixtral's "block_sparse_moe.gate" and in "layers.3.mlp.gate" of Qwen's and DeepSeek's experts
 * (whose MLPs have a "gate_proj"). Elsewhere it is a matrix of an MLP, as "mlp.gate" of families.h. "output" is BERT's
 * down projection in a block, elsewhere the head. "layers.0.linear1" is of PyTorch's TransformerEncoderLayer. */
static enum hint resolve(const struct path *path, enum hint hint) {
  const enum hint *before = path->before;
  if (hint == GATE) {
    bool in_layers = before[0] == MLP && before[1] == NUMBER && before[2] == LAYERS;
    return before[0] == MIXTURE || in_layers ? ROUTER : LAYER;
  }
  if (hint == OUTPUT)
    return before[0] == ATTENTION ? PROJECTION : before[0] == NUMBER ? MLP : HEAD;
  if (hint == LINEAR)
    return before[0] == NUMBER ? LAYER : NOTHING;
  return hint;
}

static uint32_t kinds_of_path(const struct path *path) {
  if (has(path, NORM))
    return TAGC_KIND_NORM | (path->norm_in_attention ? TAGC_KIND_ATTN : 0);
  if (has(path, ROUTER))
    return TAGC_KIND_EXPERT;
  if (has(path, EXPERTS))
    return TAGC_KIND_EXPERT | TAGC_KIND_MLP;
  if (has(path, ATTENTION))
    return TAGC_KIND_ATTN;
  if (has(path, MLP) || has(path, MIXTURE))
    return TAGC_KIND_MLP;
  if (has(path, HEAD))
    return TAGC_KIND_HEAD;
  if (has(path, PROJECTION))
    return TAGC_KIND_ATTN;
  if (has(path, LAYER))
    return TAGC_KIND_MLP;
  return has(path, EMBEDDING) ? TAGC_KIND_EMBED : 0;
}

uint32_t tagc_kinds_of_name(const char *name) {
  struct text rest = {name, strlen(name)}, component = {name, 0};
  struct path path = {.seen = 0};
  while (rest.length > 0) {
    component = next_part(&rest, "./");
    enum hint hint = resolve(&path, read_component(component));
    if (hint == NORM)
      path.norm_in_attention = path.before[0] == ATTENTION;
    path.seen |= UINT32_C(1) << hint;
    path.before[2] = path.before[1];
    path.before[1] = path.before[0];
    path.before[0] = hint;
  }
  return kinds_of_path(&path) | (is_bias(component) ? TAGC_KIND_BIAS : 0);
}
