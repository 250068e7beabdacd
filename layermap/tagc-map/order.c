/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/tagc-map/order.h"

#include <string.h>

#include "layermap/model/glob.h"
#include "layermap/model/model.h"

/* `tell` occurs in a name of a block of that style; `parts` are modules in order of registration. Both are paths of
 * components anywhere in a name; # is a number. The longest part that a name contains is its own. */
struct style {
  const char *tell;
  const char *parts[18];
};

static const struct style styles[] = {
  [TAGC_STYLE_EMBED] = {NULL,
                        {"cls_token", "class_token", "wte", "embed_tokens", "embed_in", "tok_embeddings",
                         "word_embeddings", "token", "position_embeddings", "wpe", "position", "pos_embed",
                         "token_type_embeddings", "patch_embeddings", "patch_embed", "LayerNorm"}},
  [TAGC_STYLE_HEAD] = {NULL,
                       {"ln_f", "norm", "final_layer_norm", "final_layernorm", "layernorm", "fc_norm", "pooler",
                        "cls.predictions", "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                        "cls.predictions.decoder", "cls.seq_relationship"}},
  /* transformers: DeepSeek, GPT-NeoX, GPT-2 (nanoGPT, too), BERT, ViT. */
  {"self_attn.kv_a_proj_with_mqa",
   {"self_attn", "mlp.experts.#", "mlp.experts", "mlp.gate", "mlp.shared_experts", "mlp", "input_layernorm",
    "post_attention_layernorm"}},
  {"attention.query_key_value", {"input_layernorm", "post_attention_layernorm", "attention", "mlp"}},
  {"attn.c_attn", {"ln_1", "attn", "ln_2", "mlp"}},
  {"attention.self",
   {"attention.self", "attention.output.dense", "attention.output.LayerNorm", "intermediate", "output.dense",
    "output.LayerNorm"}},
  {"attention.attention",
   {"attention.attention", "attention.output", "intermediate", "output", "layernorm_before", "layernorm_after"}},
  {"layernorm_before", {"attention", "mlp", "layernorm_before", "layernorm_after"}},
  /* torchtitan and the Llama checkpoints; Megatron-core; PyTorch's TransformerEncoderLayer. */
  {"attention.wq",
   {"attention", "feed_forward", "moe.experts", "moe.router", "moe.shared_experts", "attention_norm", "ffn_norm"}},
  {"self_attention.linear_qkv",
   {"input_layernorm", "self_attention.linear_proj", "self_attention.linear_qkv", "self_attention", "pre_mlp_layernorm",
    "mlp.router", "mlp.experts", "mlp.shared_experts", "mlp"}},
  {"self_attn.in_proj_weight", {"self_attn", "linear1", "linear2", "norm1", "norm2", "norm3"}},
  /* timm, examples/gpt. */
  {"norm1", {"norm1", "attn", "attention", "ls1", "norm2", "mlp", "ls2"}},
  /* transformers: Llama and similar ones. */
  {"self_attn",
   {"self_attn", "block_sparse_moe.gate", "block_sparse_moe.experts.#", "mlp.experts", "mlp.gate", "mlp.experts.#",
    "mlp.shared_expert", "mlp.shared_expert_gate", "mlp", "input_layernorm", "post_attention_layernorm",
    "pre_feedforward_layernorm", "post_feedforward_layernorm"}},
};

enum {
  STYLES = sizeof styles / sizeof *styles,
  PARTS = sizeof styles->parts / sizeof *styles->parts,
  FIRST_OF_BLOCKS = 2
};

/* The contents of a module in order of registration, in any style. */
static const char *const places[] = {
  "q_proj",
  "k_proj",
  "v_proj",
  "query",
  "key",
  "value",
  "wq",
  "wk",
  "wv",
  "q_a_proj",
  "q_a_layernorm",
  "q_b_proj",
  "kv_a_proj_with_mqa",
  "kv_a_layernorm",
  "kv_b_proj",
  "o_proj",
  "wo",
  "qkv_proj",
  "query_key_value",
  "qkv",
  "c_attn",
  "in_proj_weight",
  "in_proj_bias",
  "out_proj",
  "gate_proj",
  "up_proj",
  "gate_up_proj",
  "down_proj",
  "w1",
  "w2",
  "w3",
  "c_fc",
  "fc1",
  "fc2",
  "linear_fc1",
  "linear_fc2",
  "dense_h_to_4h",
  "dense_4h_to_h",
  "in",
  "out",
  "c_proj",
  "proj",
  "dense",
  "q_norm",
  "k_norm",
  "q_layernorm",
  "k_layernorm",
};

enum { PLACES = sizeof places / sizeof *places };

/* True if the name, from the start of a component, continues with this path. */
static bool goes_on_with(const char *name, const char *path) {
  while (*path) {
    if (*path == '#') {
      if (!tagc_is_digit(*name))
        return false;
      while (tagc_is_digit(*name))
        name++;
      path++;
    } else if (*name++ != *path++) {
      return false;
    }
  }
  return *name == '\0' || *name == '.';
}

static const char *next_component(const char *name) {
  const char *dot = strchr(name, '.');
  return dot ? dot + 1 : NULL;
}

static bool name_holds_path(const char *name, const char *path) {
  for (; name; name = next_component(name))
    if (goes_on_with(name, path))
      return true;
  return false;
}

unsigned tagc_style_of(const char *name) {
  for (unsigned style = FIRST_OF_BLOCKS; style < STYLES; style++)
    if (name_holds_path(name, styles[style].tell))
      return style;
  return TAGC_STYLE_UNKNOWN;
}

/* The longest part of the style in the name; PARTS: none. */
static uint32_t part_of(unsigned style, const char *name) {
  uint32_t best = PARTS;
  size_t longest = 0;
  for (uint32_t i = 0; i < PARTS && styles[style].parts[i]; i++) {
    size_t length = strlen(styles[style].parts[i]);
    if (length > longest && name_holds_path(name, styles[style].parts[i])) {
      best = i;
      longest = length;
    }
  }
  return best;
}

/* For unknown styles: attention, MLP, norms, and the rest. */
static uint32_t part_by_kind(const char *name) {
  uint32_t kinds = tagc_kinds_of_name(name);
  if (kinds & TAGC_KIND_ATTN)
    return 0;
  if (kinds & (TAGC_KIND_MLP | TAGC_KIND_EXPERT))
    return 1;
  return kinds & TAGC_KIND_NORM ? 2 : 3;
}

struct tagc_order tagc_order_of(unsigned style, const char *name) {
  struct tagc_order order = {.place = PLACES};
  order.part = style < STYLES ? part_of(style, name) : part_by_kind(name);
  order.is_bias = (tagc_kinds_of_name(name) & TAGC_KIND_BIAS) != 0;
  for (const char *component = name; component; component = next_component(component)) {
    if (tagc_is_digit(*component)) {
      order.number = 0;
      for (const char *digit = component; tagc_is_digit(*digit) && order.number < UINT32_MAX / 16; digit++)
        order.number = 10 * order.number + (uint32_t)(*digit - '0');
    }
    for (uint32_t i = 0; i < PLACES; i++)
      if (!strncmp(component, places[i], strlen(places[i])) && goes_on_with(component, places[i]))
        order.place = i;
  }
  return order;
}
