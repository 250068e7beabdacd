/* SPDX-License-Identifier: BSD-3-Clause
 * See order.h. A pattern lists modules in their order of registration:
 *
 *   self_attn(q_proj k_proj q_norm?) mlp(gate experts.#(up_proj down_proj)) input_layernorm
 *
 * Each is a path, and has a weight, a bias, or is a parameter itself; brackets hold what is inside; ? may be missing; #
 * is any number, and all inside it comes number by number. Paths outside blocks are the ends of names; there | stands
 * for the blocks in the forward pass, and / as well, if they are registered elsewhere. An outside with a ! at its front
 * has names that releases register in different orders.
 *
 * The first naming whose outside has all names outside blocks, and all of whose modules are there, tells; then the
 * first of its blocks. Two families may have the same names in different orders: such names are not in the table.
 * (transformers 4.57 and 5.23: tests/fixtures/registered. Also nanoGPT, timm.)
 */
#include "layermap/tagc-map/order.h"

#include <stdio.h>
#include <string.h>

#include "layermap/model/glob.h"
#include "layermap/model/model.h"

/* The longest path, the deepest brackets, and the most modules of a pattern, patterns of blocks of a naming. */
enum { PATH = 128, DEPTH = 8, ITEMS = 64, BLOCKS = 12 };

struct tagc_naming {
  const char *outside;
  const char *blocks[BLOCKS];
};

#define QKVO "q_proj k_proj v_proj o_proj"
#define KVQ "k_proj v_proj q_proj out_proj"
#define GATED "(gate_proj up_proj down_proj) "
#define TWO_NORMS "input_layernorm post_attention_layernorm"
#define LATENT \
  "self_attn(q_proj? q_a_proj? q_a_layernorm? q_b_proj? kv_a_proj_with_mqa kv_a_layernorm kv_b_proj o_proj) "

/* Blocks. LLAMA is also Mistral, Qwen 2 and 3, Gemma 1 to 3, Cohere, OLMo, and many more. */
#define LLAMA \
  "self_attn(" QKVO " q_norm? k_norm?) mlp" GATED "input_layernorm? post_attention_layernorm? " \
  "pre_feedforward_layernorm? post_feedforward_layernorm?"
#define BERT "attention(self(query key value) output(dense LayerNorm)) intermediate.dense output(dense LayerNorm)"
#define BART \
  "self_attn(" KVQ ") self_attn_layer_norm encoder_attn?(" KVQ ") encoder_attn_layer_norm? fc1 fc2 final_layer_norm"
#define CLIP "self_attn(" KVQ ") layer_norm1 mlp(fc1 fc2) layer_norm2"
#define SIGLIP "layer_norm1 self_attn(" KVQ ") layer_norm2 mlp(fc1 fc2)"

/* Outside. */
#define CLIP_TOWER "embeddings(class_embedding patch_embedding position_embedding) pre_layrnorm "
#define SIGLIP_TOWER "embeddings(patch_embedding position_embedding) "
#define SIGLIP_POOL "(probe attention(in_proj_weight in_proj_bias out_proj) layernorm mlp(fc1 fc2)) "
#define TEXT "embed_tokens | norm lm_head?"

static const struct tagc_naming namings[] = {
  {"embed_tokens | norm? lm_head?",
   {LLAMA, "self_attn(o_proj qkv_proj) mlp(gate_up_proj down_proj) " TWO_NORMS,
    "self_attn(" QKVO ") mlp(gate_up_proj down_proj) " TWO_NORMS " post_self_attn_layernorm? post_mlp_layernorm?",
    "self_attn(" QKVO ") mlp(c_fc c_proj) " TWO_NORMS, "self_attn(" QKVO ") mlp(up_proj down_proj) " TWO_NORMS,
    "self_attn(" QKVO ") block_sparse_moe(gate experts.#(w1 w2 w3)) " TWO_NORMS,
    "self_attn(" QKVO " q_norm? k_norm?) mlp(gate experts.#" GATED "shared_expert?" GATED
    "shared_expert_gate?) " TWO_NORMS,
    LATENT "mlp" GATED TWO_NORMS, LATENT "mlp(experts.#" GATED "gate shared_experts?" GATED ") " TWO_NORMS,
    LATENT "mlp(experts(gate_up_proj down_proj) gate shared_experts?" GATED ") " TWO_NORMS,
    "self_attn(sinks " QKVO ") mlp(router experts(gate_up_proj gate_up_proj_bias down_proj down_proj_bias)) " TWO_NORMS,
    "self_attn(" QKVO ") feed_forward(experts(gate_up_proj down_proj) router shared_expert" GATED ") " TWO_NORMS}},
  {"embed_tokens | final_layernorm lm_head?",
   {"self_attn(q_proj k_proj v_proj dense q_layernorm? k_layernorm?) mlp(fc1 fc2) input_layernorm"}},
  {"wte wpe | ln_f lm_head?",
   {"ln_1 attn(c_attn c_proj) ln_2 mlp(c_fc c_proj)", "ln_1 attn.attention(" KVQ ") ln_2 mlp(c_fc c_proj)"}},
  {"wte | ln_f lm_head?", {"ln_1 attn(" KVQ ") mlp(fc_in fc_out)", "ln_1 attn(qkv_proj out_proj) mlp(fc_in fc_out)"}},
  {"wte | norm_f lm_head?", {"norm_1 attn(Wqkv out_proj) norm_2 ffn(up_proj down_proj)"}},
  {"embed_in | final_layer_norm embed_out? lm_head?",
   {TWO_NORMS " attention(query_key_value dense) mlp(dense_h_to_4h dense_4h_to_h)"}},
  {"word_embeddings word_embeddings_layernorm | ln_f lm_head?",
   {"input_layernorm self_attention(query_key_value dense) post_attention_layernorm "
    "mlp(dense_h_to_4h dense_4h_to_h)"}},
  {"word_embeddings | ln_f lm_head?",
   {"self_attention(query_key_value dense) mlp(dense_h_to_4h dense_4h_to_h) ln_attn? ln_mlp? post_attention_layernorm? "
    "input_layernorm?"}},
  {"embed_tokens embed_positions project_out? project_in? / final_layer_norm? lm_head?",
   {"self_attn(" KVQ ") self_attn_layer_norm fc1 fc2 final_layer_norm"}},
  {"embeddings | norm_f lm_head?",
   {"norm mixer(A_log D conv1d in_proj x_proj dt_proj out_proj)",
    "norm mixer(dt_bias A_log D conv1d in_proj norm out_proj)"}},
  {"embeddings(word_embeddings position_embeddings token_type_embeddings LayerNorm) | pooler.dense? predictions? "
   "predictions?(transform(dense LayerNorm) decoder) seq_relationship? classifier? qa_outputs?",
   {BERT}},
  {"!embeddings(word_embeddings position_embeddings token_type_embeddings LayerNorm) | pooler.dense? lm_head? "
   "lm_head?(dense layer_norm decoder) classifier?(dense out_proj)",
   {BERT}},
  {"embeddings(word_embeddings position_embeddings LayerNorm) | vocab_transform? vocab_layer_norm? vocab_projector? "
   "pre_classifier? classifier? qa_outputs?",
   {"attention(q_lin k_lin v_lin out_lin) sa_layer_norm ffn(lin1 lin2) output_layer_norm"}},
  {"embeddings(tok_embeddings norm) | final_norm head?(dense norm) decoder? classifier?",
   {"attn_norm? attn(Wqkv Wo) mlp_norm mlp(Wi Wo)"}},
  {"embeddings(word_embeddings position_embeddings token_type_embeddings LayerNorm) embeddings_project? | "
   "generator_predictions(LayerNorm dense) generator_lm_head?",
   {BERT}},
  {"shared encoder.embed_positions? encoder.layernorm_embedding? encoder.layer_norm? decoder.embed_positions? "
   "decoder.layernorm_embedding? | decoder.layer_norm? lm_head?",
   {BART}},
  {"encoder(conv1 conv2 embed_positions layer_norm) decoder(embed_tokens embed_positions) | decoder.layer_norm "
   "proj_out?",
   {BART}},
  {"shared | encoder.final_layer_norm decoder.final_layer_norm lm_head?",
   {"layer.#(SelfAttention(q k v o relative_attention_bias?) EncDecAttention?(q k v o) "
    "DenseReluDense?(wi wi_0 wi_1 wo) layer_norm)"}},
  {"embeddings(cls_token mask_token? position_embeddings patch_embeddings.projection) | layernorm "
   "pooler.dense? classifier?",
   {"attention(attention(query key value) output.dense) intermediate.dense output.dense layernorm_before "
    "layernorm_after",
    "attention(" QKVO ") layernorm_before layernorm_after mlp(fc1 fc2)",
    "norm1 attention(" QKVO ") layer_scale1.lambda1 norm2 mlp(fc1 fc2) layer_scale2.lambda1",
    "norm1 attention(attention(query key value) output.dense) layer_scale1.lambda1 norm2 mlp(fc1 fc2) "
    "layer_scale2.lambda1"}},
  {"cls_token reg_token? pos_embed patch_embed.proj | norm? fc_norm? head?",
   {"norm1 attn(qkv q_norm? k_norm? proj) ls1.gamma? norm2 mlp(fc1 fc2) ls2.gamma?"}},
  {CLIP_TOWER "| post_layernorm visual_projection? classifier?", {CLIP}},
  {SIGLIP_TOWER "| post_layernorm head" SIGLIP_POOL "classifier?", {SIGLIP}},
  {"image_newline? " CLIP_TOWER "post_layernorm multi_modal_projector(linear_1 linear_2) " TEXT, {CLIP, LLAMA}},
  {"image_newline? " SIGLIP_TOWER "post_layernorm multi_modal_projector(linear_1 linear_2) " TEXT, {SIGLIP, LLAMA}},
  {SIGLIP_TOWER "post_layernorm head?" SIGLIP_POOL
                "multi_modal_projector(mm_input_projection_weight mm_soft_emb_norm) " TEXT,
   {SIGLIP, LLAMA}},
  {SIGLIP_TOWER "post_layernorm head?" SIGLIP_POOL "multi_modal_projector.linear " TEXT, {SIGLIP, LLAMA}},
  {"patch_conv ln_pre multi_modal_projector(norm patch_merger.merging_layer linear_1 linear_2) " TEXT,
   {"attention_norm feed_forward" GATED "attention(k_proj v_proj q_proj o_proj) ffn_norm", LLAMA}},
  {"embeddings(cls_token mask_token? position_embeddings patch_embeddings.projection) layernorm? "
   "multi_modal_projector(layer_norm linear_1 linear_2) " TEXT,
   {"lambda_1 lambda_2 attention(q_proj k_proj v_proj projection_layer q_norm? k_norm?) mlp(fc1 fc2) layernorm_before "
    "layernorm_after",
    LLAMA}},
  {"visual(patch_embed.proj merger(ln_q mlp.#)) " TEXT, {"norm1 norm2 attn(qkv proj) mlp(fc1 fc2)", LLAMA}},
  {"visual(patch_embed.proj pos_embed merger(norm linear_fc1 linear_fc2)) " TEXT,
   {"norm1 norm2 attn(qkv proj) mlp(linear_fc1 linear_fc2)", "norm linear_fc1 linear_fc2", LLAMA}},
  {SIGLIP_TOWER "post_layernorm connector.modality_projection.proj " TEXT, {CLIP, LLAMA}},
};

/* Reads a pattern, module by module. */
struct cursor {
  const char *at;
  char path[PATH];        /* of the module */
  size_t ends[DEPTH];     /* of the paths of the open brackets */
  size_t depth, numbered; /* brackets around; the outermost with a #, or 0 */
  uint32_t item, part;    /* the number of the module, and of what is ordered first: it, or the brackets with a # */
  size_t optional;        /* the outermost with a ?, or 0 */
  bool is_optional, is_behind;
};

static void open_bracket(struct cursor *c) {
  c->at++;
  c->ends[++c->depth] = strlen(c->path);
  if (!c->numbered && strchr(c->path, '#')) {
    c->numbered = c->depth;
    c->part = c->item;
  }
  if (!c->optional && c->is_optional)
    c->optional = c->depth;
}

static void close_bracket(struct cursor *c) {
  c->at++;
  if (--c->depth < c->numbered)
    c->numbered = 0;
  if (c->depth < c->optional)
    c->optional = 0;
}

/* Reads a path, behind that of the open bracket. */
static void read_path(struct cursor *c) {
  size_t used = c->ends[c->depth], length = strcspn(c->at, " ()?");
  snprintf(c->path + used, PATH - used, "%s%.*s", used ? "." : "", (int)length, c->at);
  c->at += length;
  c->is_optional = *c->at == '?';
  c->at += c->is_optional;
  c->item++;
}

static bool next_module(struct cursor *c) {
  for (c->at += strspn(c->at, " "); *c->at; c->at += strspn(c->at, " ")) {
    if (*c->at == ')') {
      close_bracket(c);
    } else if (*c->at == '|' || *c->at == '/') {
      c->is_behind = true;
      c->at++;
    } else {
      read_path(c);
      if (*c->at != '(') {
        c->part = c->numbered ? c->part : c->item;
        c->is_optional |= c->optional > 0;
        return true;
      }
      open_bracket(c);
    }
  }
  return false;
}

/* True if the name is this path, or its weight or bias. */
static bool is_of_module(const char *name, const char *path, struct tagc_order *order) {
  order->number = 0;
  for (; *path; path++)
    if (*path == '#') {
      if (!tagc_is_digit(*name))
        return false;
      for (; tagc_is_digit(*name); name++)
        order->number = order->number < UINT32_MAX / 16 ? 10 * order->number + (uint32_t)(*name - '0') : UINT32_MAX;
    } else if (*name++ != *path) {
      return false;
    }
  order->is_bias = strcmp(name, ".bias") == 0;
  return !*name || order->is_bias || strcmp(name, ".weight") == 0;
}

static const char *next_component(const char *name) {
  const char *dot = strchr(name, '.');
  return dot ? dot + 1 : NULL;
}

/* Finds the module of a name in the pattern; of several the one with the longest path. */
static bool find_module(const char *pattern, const char *name, bool is_end, struct tagc_order *order) {
  struct cursor c = {.at = pattern};
  size_t longest = 0;
  while (next_module(&c)) {
    struct tagc_order found = {
      .part = c.part, .item = c.item, .is_behind = c.is_behind, .is_numbered = strchr(c.path, '#')};
    const char *at = name;
    while (at && !is_of_module(at, c.path, &found))
      at = is_end ? next_component(at) : NULL;
    if (!at || strlen(c.path) <= longest)
      continue;
    longest = strlen(c.path);
    *order = found;
  }
  return longest > 0;
}

/* True if every module of the pattern that must be there has a name. */
static bool has_all_modules(const char *pattern, const uint8_t *seen) {
  struct cursor c = {.at = pattern};
  while (next_module(&c))
    if (!c.is_optional && !seen[c.item])
      return false;
  return true;
}

/* Orders the names by a pattern. False: it has others, or another number of them. */
static bool follow(const char *pattern, const char *const *names, size_t count, bool are_ends,
                   struct tagc_order *orders) {
  uint8_t seen[ITEMS] = {0}; /* 1: a weight or the parameter itself, 2: a bias */
  for (size_t i = 0; i < count; i++) {
    struct tagc_order *order = &orders[i];
    if (!find_module(pattern, names[i], are_ends, order))
      return false;
    const uint8_t bit = order->is_bias ? 2 : 1;
    if ((seen[order->item] & bit) && !order->is_numbered)
      return false;
    seen[order->item] |= bit;
  }
  return has_all_modules(pattern, seen);
}

/* Of names that no pattern has: attention, MLP, norms, and the rest. */
static uint32_t part_by_kind(uint32_t kinds) {
  if (kinds & TAGC_KIND_ATTN)
    return 0;
  if (kinds & (TAGC_KIND_MLP | TAGC_KIND_EXPERT))
    return 1;
  return kinds & TAGC_KIND_NORM ? 2 : 3;
}

static uint32_t last_number(const char *name) {
  uint32_t number = 0;
  for (; name; name = next_component(name))
    if (tagc_is_digit(*name))
      for (number = 0; tagc_is_digit(*name) && number < UINT32_MAX / 16; name++)
        number = 10 * number + (uint32_t)(*name - '0');
  return number;
}

/* Embeddings and their norms come before the blocks. */
static bool guess_is_behind(const char *name, uint32_t kinds) {
  return !(kinds & TAGC_KIND_EMBED) && !((kinds & TAGC_KIND_NORM) && strstr(name, "embed"));
}

static enum tagc_order_source guess(const char *const *names, size_t count, bool are_outside,
                                    struct tagc_order *orders) {
  for (size_t i = 0; i < count; i++) {
    uint32_t kinds = tagc_kinds_of_name(names[i]);
    orders[i] = (struct tagc_order){.part = are_outside ? 0 : part_by_kind(kinds),
                                    .number = are_outside ? 0 : last_number(names[i]),
                                    .is_bias = (kinds & TAGC_KIND_BIAS) != 0,
                                    .is_behind = are_outside && guess_is_behind(names[i], kinds)};
  }
  return count > 1 ? TAGC_ORDER_GUESSED : TAGC_ORDER_KNOWN;
}

static const char *outside_of(const struct tagc_naming *naming) { return naming->outside + (*naming->outside == '!'); }

const struct tagc_naming *tagc_naming_find(const char *const *names, size_t count, struct tagc_order *orders) {
  for (const struct tagc_naming *naming = namings; naming < namings + sizeof namings / sizeof *namings; naming++)
    if (follow(outside_of(naming), names, count, true, orders))
      return naming;
  return NULL;
}

enum tagc_order_source tagc_order_outside(const struct tagc_naming *naming, const char *const *names, size_t count,
                                          struct tagc_order *orders) {
  if (!naming || *naming->outside == '!' || !follow(naming->outside, names, count, true, orders))
    return guess(names, count, true, orders);
  return strchr(naming->outside, '/') ? TAGC_ORDER_APART : TAGC_ORDER_KNOWN;
}

enum tagc_order_source tagc_order_block(const struct tagc_naming *naming, const char *const *names, size_t count,
                                        struct tagc_order *orders) {
  for (size_t i = 0; naming && i < BLOCKS && naming->blocks[i]; i++)
    if (follow(naming->blocks[i], names, count, false, orders))
      return TAGC_ORDER_KNOWN;
  return guess(names, count, false, orders);
}
