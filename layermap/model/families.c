/* SPDX-License-Identifier: BSD-3-Clause
 * Families of transformers; see families.h.
 *
 * The order of parameters is that of named_parameters() of these classes of transformers 4.57: GPT2LMHeadModel,
 * GPTNeoXForCausalLM, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, GemmaForCausalLM,
 * Gemma2ForCausalLM, Gemma3ForCausalLM (the text model), PhiForCausalLM, Phi3ForCausalLM, BertModel and BertFor...,
 * ViTModel and ViTForImageClassification, MixtralForCausalLM, Qwen3MoeForCausalLM, DeepseekV2ForCausalLM and
 * DeepseekV3ForCausalLM. Of transformers 5.23: the causal models of OPT, BLOOM, GPT-J, GPT-Neo, MPT, Falcon (7B; larger
 * ones have Nemotron's blocks), Nemotron, StarCoder2, StableLM, OLMo, OLMo 2, Cohere and DBRX.
 *
 * Others      transformers 5 holds all experts of a block in two tensors (fused_experts), and Qwen3's router behind
 *             them. torchtitan registers up behind down. Megatron-core registers the output of attention before qkv,
 *             and norms beside their successors. All but the norms' are inside attention or an MLP; no sum changes.
 */
#include "layermap/model/families.h"

#include <stdio.h>
#include <string.h>

/* `order`: of registration in a block; 1 to 4: its norms, a: attention, m: MLP. `forward`: of its use in the forward
 * pass; q, k, v, o: attention's matrices, Q, K: their norms; NULL: nobody looked, or routing decides. */
struct traits {
  const char *name, *order, *forward;
  bool norm_bias, qkv_bias, out_bias, mlp_bias, head_bias;
  bool is_gated; /* the MLP has a gate beside its up projection */
  bool has_qk_norms, has_fused_qkv, has_fused_gate, is_transposed;
  bool has_wide_norms;                 /* those of queries and keys are as wide as these; else as a head */
  bool has_embed_norm, has_bare_norms; /* bare: norms without parameters */
};

static const struct traits families[TAGC_FAMILIES] = {
  [TAGC_FAMILY_GPT2] = {"gpt2", "1a2m", "1qo2m", .norm_bias = true, .qkv_bias = true, .out_bias = true,
                        .mlp_bias = true, .has_fused_qkv = true, .is_transposed = true},
  [TAGC_FAMILY_NEOX] = {"neox", "12am", "1qo2m", .norm_bias = true, .qkv_bias = true, .out_bias = true,
                        .mlp_bias = true, .has_fused_qkv = true},
  [TAGC_FAMILY_LLAMA] = {"llama", "am12", "1qkvo2m", .is_gated = true},
  [TAGC_FAMILY_MISTRAL] = {"mistral", "am12", "1qkvo2m", .is_gated = true},
  [TAGC_FAMILY_QWEN2] = {"qwen2", "am12", "1qkvo2m", .qkv_bias = true, .is_gated = true},
  [TAGC_FAMILY_QWEN3] = {"qwen3", "am12", "1qQkKvo2m", .is_gated = true, .has_qk_norms = true},
  [TAGC_FAMILY_GEMMA] = {"gemma", "am12", "1qkvo2m", .is_gated = true},
  [TAGC_FAMILY_GEMMA2] = {"gemma2", "am1234", "1qkvo23m4", .is_gated = true},
  [TAGC_FAMILY_GEMMA3] = {"gemma3", "am1234", "1qkvQKo23m4", .is_gated = true, .has_qk_norms = true},
  [TAGC_FAMILY_PHI] = {"phi", "am1", "1qkvom", .norm_bias = true, .qkv_bias = true, .out_bias = true, .mlp_bias = true,
                       .head_bias = true},
  [TAGC_FAMILY_PHI3] = {"phi3", "am12", "1qo2m", .is_gated = true, .has_fused_qkv = true, .has_fused_gate = true},
  [TAGC_FAMILY_BERT] = {"bert", "a1m2", "qkvo1m2", .norm_bias = true, .qkv_bias = true, .out_bias = true,
                        .mlp_bias = true},
  [TAGC_FAMILY_VIT] = {"vit", "am12", "1qkvo2m", .norm_bias = true, .qkv_bias = true, .out_bias = true,
                       .mlp_bias = true},
  [TAGC_FAMILY_MIXTRAL] = {"mixtral", "am12", .is_gated = true},
  [TAGC_FAMILY_QWEN3_MOE] = {"qwen3_moe", "am12", .is_gated = true, .has_qk_norms = true},
  [TAGC_FAMILY_DEEPSEEK] = {"deepseek", "am12", .is_gated = true},
  [TAGC_FAMILY_OPT] = {"opt", "a1m2", .norm_bias = true, .qkv_bias = true, .out_bias = true, .mlp_bias = true},
  [TAGC_FAMILY_BLOOM] = {"bloom", "1a2m", .norm_bias = true, .qkv_bias = true, .out_bias = true, .mlp_bias = true,
                         .has_fused_qkv = true, .has_embed_norm = true},
  [TAGC_FAMILY_GPTJ] = {"gptj", "1am", .norm_bias = true, .mlp_bias = true, .head_bias = true},
  [TAGC_FAMILY_GPT_NEO] = {"gpt_neo", "1a2m", .norm_bias = true, .out_bias = true, .mlp_bias = true},
  [TAGC_FAMILY_MPT] = {"mpt", "1a2m", .has_fused_qkv = true},
  [TAGC_FAMILY_FALCON] = {"falcon", "am1", .norm_bias = true, .has_fused_qkv = true},
  [TAGC_FAMILY_NEMOTRON] = {"nemotron", "am12", .norm_bias = true},
  [TAGC_FAMILY_STARCODER2] = {"starcoder2", "am12", .norm_bias = true, .qkv_bias = true, .out_bias = true,
                              .mlp_bias = true},
  [TAGC_FAMILY_STABLELM] = {"stablelm", "am12", .norm_bias = true, .is_gated = true},
  [TAGC_FAMILY_OLMO] = {"olmo", "am", .is_gated = true, .has_bare_norms = true},
  [TAGC_FAMILY_OLMO2] = {"olmo2", "am12", .is_gated = true, .has_qk_norms = true, .has_wide_norms = true},
  [TAGC_FAMILY_COHERE] = {"cohere", "am1", .is_gated = true},
  [TAGC_FAMILY_DBRX] = {"dbrx", "1a2m", .is_gated = true, .has_fused_qkv = true},
};

const char *tagc_family_name(enum tagc_family family) { return families[family].name; }

/* The letter of a parameter of a block in `forward`; 0: none. */
static char letter_of(const char *name) {
  const char *in_attention = strncmp(name, "attn.", 5) == 0 ? name + 5 : NULL;
  if (in_attention && strncmp(in_attention + 1, "_norm.", 6) == 0)
    return *in_attention == 'q' ? 'Q' : 'K';
  if (in_attention)
    return *in_attention;
  if (strncmp(name, "mlp.", 4) == 0)
    return 'm';
  return strncmp(name, "norm", 4) == 0 && name[4] != '.' ? name[4] : '\0';
}

int tagc_family_forward(enum tagc_family family, const char *name) {
  static const char *const ends[] = {"embed.patches", "embed.class", "embed",          "embed.types", "embed.positions",
                                     "embed.norm",    "norm",        "head.pooler",    "head.dense",  "head.norm",
                                     "head",          "head.next",   "head.classifier"};
  const char *const forward = family < TAGC_FAMILIES ? families[family].forward : NULL;
  const char letter = letter_of(name), *const at = forward && letter ? strchr(forward, letter) : NULL;
  if (at)
    return (int)(at - forward);
  for (int i = 0; forward && i < (int)(sizeof ends / sizeof *ends); i++) {
    const size_t length = strlen(ends[i]);
    if (strncmp(name, ends[i], length) == 0 &&
        (!name[length] || !strcmp(name + length, ".weight") || !strcmp(name + length, ".bias")))
      return i;
  }
  return -1;
}

enum tagc_family tagc_family_find(const char *name) {
  enum tagc_family family = 0;
  while (family < TAGC_FAMILIES && strcmp(families[family].name, name))
    family++;
  return family;
}

/* More than any rank: letters of `forward`, or ends of names. */
enum { RANKS = 16 };

/* True if the order is known; *differs: if it is another one than that of registration. */
static bool knows_forward(enum tagc_family family, const struct tagc_unit *unit, bool *differs) {
  int before = 0;
  for (size_t i = 0; i < unit->count; i++) {
    const int rank = tagc_family_forward(family, unit->parameters[i].name);
    if (rank < 0 || rank >= RANKS || unit->is_guessed)
      return false;
    *differs |= rank < before;
    before = rank;
  }
  return true;
}

static bool add_sorted_unit(struct tagc_model *to, const struct tagc_unit *unit) {
  const enum tagc_family family = tagc_family_find(to->family);
  bool done = tagc_model_add_unit(to, unit->name);
  for (int rank = 0; rank < RANKS; rank++)
    for (size_t i = 0; i < unit->count; i++)
      if (tagc_family_forward(family, unit->parameters[i].name) == rank)
        done = done && tagc_model_add_parameters(to, &unit->parameters[i], 1);
  return done;
}

struct tagc_model *tagc_family_forward_model(const struct tagc_model *model, bool *no_memory) {
  const enum tagc_family family = tagc_family_find(model->family);
  bool known = !model->is_guessed, differs = false;
  for (size_t i = 0; i < model->unit_count; i++)
    known = known && knows_forward(family, &model->units[i], &differs);
  *no_memory = false;
  struct tagc_model *to = known && differs ? tagc_model_remake(model, add_sorted_unit, no_memory) : NULL;
  if (to) {
    to->layout = model->layout;
    to->heads = model->heads;
    to->kv_heads = model->kv_heads;
  }
  return to;
}

/* Adds to the last unit of the model until an addition fails. */
struct builder {
  struct tagc_model *model;
  const struct tagc_architecture *a;
  struct traits traits;
  uint32_t kinds; /* of the matrices to add, as their names tell */
  bool is_good;
};

static struct builder begin_model(struct tagc_model *model, const struct tagc_architecture *a, uint32_t kinds) {
  struct builder b = {.model = model, .a = a, .traits = families[a->family], .kinds = kinds, .is_good = true};
  b.traits.qkv_bias |= a->attention_bias;
  b.traits.out_bias |= a->attention_bias;
  b.traits.mlp_bias |= a->mlp_bias;
  b.traits.has_fused_qkv |= a->fused_qkv;
  b.traits.is_transposed &= !a->plain_linear;
  if (a->no_bias)
    b.traits.norm_bias = b.traits.qkv_bias = b.traits.out_bias = b.traits.mlp_bias = false;
  return b;
}

static void add_parameter(struct builder *b, const char *name, const char *suffix, uint64_t rows, uint64_t columns) {
  char whole[TAGC_PARAMETER_NAME];
  snprintf(whole, sizeof whole, "%s%s", name, suffix);
  uint32_t bias = strcmp(suffix, ".bias") ? 0 : TAGC_KIND_BIAS;
  b->is_good = b->is_good && tagc_model_add_parameter(b->model, whole, b->kinds | bias, rows, columns);
}

static void add_linear(struct builder *b, const char *name, uint64_t outputs, uint64_t inputs, bool has_bias) {
  bool is_transposed = b->traits.is_transposed;
  add_parameter(b, name, ".weight", is_transposed ? inputs : outputs, is_transposed ? outputs : inputs);
  if (has_bias)
    add_parameter(b, name, ".bias", outputs, 1);
}

static void add_norm(struct builder *b, const char *name, uint64_t size) {
  uint32_t around = b->kinds;
  if (b->traits.has_bare_norms)
    return;
  b->kinds = TAGC_KIND_NORM | (around & TAGC_KIND_ATTN);
  add_parameter(b, name, ".weight", size, 1);
  if (b->traits.norm_bias)
    add_parameter(b, name, ".bias", size, 1);
  b->kinds = around;
}

static void add_attention(struct builder *b) {
  const struct tagc_architecture *a = b->a;
  const struct traits *traits = &b->traits;
  uint64_t head = a->head_dim || !a->heads ? a->head_dim : a->hidden / a->heads;
  uint64_t q = a->heads * head, kv = (a->kv_heads ? a->kv_heads : a->heads) * head;
  bool is_output_first = a->family == TAGC_FAMILY_PHI3;
  if (is_output_first)
    add_linear(b, "attn.o", a->hidden, q, traits->out_bias);
  if (traits->has_fused_qkv) {
    add_linear(b, "attn.qkv", q + 2 * kv, a->hidden, traits->qkv_bias);
  } else {
    add_linear(b, "attn.q", q, a->hidden, traits->qkv_bias);
    add_linear(b, "attn.k", kv, a->hidden, traits->qkv_bias);
    add_linear(b, "attn.v", kv, a->hidden, traits->qkv_bias);
  }
  if (!is_output_first)
    add_linear(b, "attn.o", a->hidden, q, traits->out_bias);
  if (traits->has_qk_norms) {
    add_norm(b, "attn.q_norm", traits->has_wide_norms ? q : head);
    add_norm(b, "attn.k_norm", traits->has_wide_norms ? kv : head);
  }
}

/* DeepSeek's: short vectors make queries, keys and values; a separate part of the keys carries positions. */
static void add_latent_attention(struct builder *b) {
  const struct tagc_architecture *a = b->a;
  uint64_t heads = a->heads, q = heads * ((uint64_t)a->nope_dim + a->rope_dim);
  if (a->q_rank) {
    add_linear(b, "attn.q_a", a->q_rank, a->hidden, a->attention_bias);
    add_norm(b, "attn.q_a_norm", a->q_rank);
    add_linear(b, "attn.q_b", q, a->q_rank, false);
  } else {
    add_linear(b, "attn.q", q, a->hidden, false);
  }
  add_linear(b, "attn.kv_a", (uint64_t)a->kv_rank + a->rope_dim, a->hidden, a->attention_bias);
  add_norm(b, "attn.kv_a_norm", a->kv_rank);
  add_linear(b, "attn.kv_b", heads * ((uint64_t)a->nope_dim + a->v_dim), a->kv_rank, false);
  add_linear(b, "attn.o", a->hidden, heads * a->v_dim, a->attention_bias);
}

/* Adds one MLP: "mlp", "shared_experts", or "experts.7". */
static void add_mlp(struct builder *b, const char *where, uint64_t intermediate, bool has_bias) {
  static const char *const gated[] = {"gate", "up", "down"}, *const mixtral[] = {"gate", "down", "up"};
  const char *const *parts = b->a->family == TAGC_FAMILY_MIXTRAL ? mixtral : gated;
  uint64_t hidden = b->a->hidden;
  char name[TAGC_PARAMETER_NAME];
  if (b->traits.has_fused_gate) {
    snprintf(name, sizeof name, "%s.gate_up", where);
    add_linear(b, name, 2 * intermediate, hidden, has_bias);
  }
  for (int i = b->traits.has_fused_gate ? 2 : b->traits.is_gated ? 0 : 1; i < 3; i++) {
    bool is_down = parts[i][0] == 'd';
    snprintf(name, sizeof name, "%s.%s", where, parts[i]);
    add_linear(b, name, is_down ? hidden : intermediate, is_down ? intermediate : hidden, has_bias);
  }
}

static void add_router(struct builder *b) {
  uint32_t around = b->kinds;
  b->kinds = TAGC_KIND_EXPERT;
  add_linear(b, "router", b->a->experts, b->a->hidden, false);
  b->kinds = around;
}

static void add_experts(struct builder *b) {
  const struct tagc_architecture *a = b->a;
  uint64_t intermediate = a->expert_intermediate ? a->expert_intermediate : a->intermediate;
  bool is_router_first = a->family == TAGC_FAMILY_MIXTRAL || a->family == TAGC_FAMILY_DBRX ||
                         (a->family == TAGC_FAMILY_QWEN3_MOE && !a->fused_experts);
  if (is_router_first)
    add_router(b);
  if (a->family == TAGC_FAMILY_DBRX) {
    for (int i = 0; i < 3; i++)
      add_parameter(b, (const char *const[]){"experts.gate", "experts.up", "experts.down"}[i], "",
                    a->experts * intermediate, a->hidden);
  } else if (a->fused_experts) {
    add_parameter(b, "experts.gate_up", "", a->experts, 2 * intermediate * a->hidden);
    add_parameter(b, "experts.down", "", a->experts, intermediate * a->hidden);
  } else {
    for (uint32_t i = 0; i < a->experts && b->is_good; i++) {
      char name[24];
      snprintf(name, sizeof name, "experts.%u", i);
      add_mlp(b, name, intermediate, false);
    }
  }
  if (!is_router_first)
    add_router(b);
  if (a->shared_intermediate)
    add_mlp(b, "shared_experts", a->shared_intermediate, b->traits.mlp_bias);
}

bool tagc_family_has_experts(const struct tagc_architecture *a, uint32_t number) {
  return a->experts && number >= a->dense_blocks;
}

static void add_family_part(struct builder *b, char part, uint32_t number) {
  const struct tagc_architecture *a = b->a;
  bool has_experts = tagc_family_has_experts(a, number);
  switch (part) {
  case 'm':
    b->kinds = TAGC_KIND_MLP | (has_experts ? TAGC_KIND_EXPERT : 0);
    if (has_experts)
      add_experts(b);
    else
      add_mlp(b, "mlp", a->intermediate, b->traits.mlp_bias);
    break;
  case 'a':
    b->kinds = TAGC_KIND_ATTN;
    (a->kv_rank ? add_latent_attention : add_attention)(b);
    break;
  default: b->kinds = 0; add_norm(b, (const char[]){'n', 'o', 'r', 'm', part, '\0'}, a->hidden);
  }
}

bool tagc_family_add_block(struct tagc_model *model, const struct tagc_architecture *a, uint32_t number) {
  struct builder b = begin_model(model, a, 0);
  for (const char *part = b.traits.order; *part; part++)
    add_family_part(&b, *part, number);
  return b.is_good;
}

bool tagc_family_add_embedding(struct tagc_model *model, const struct tagc_architecture *a) {
  struct builder b = begin_model(model, a, TAGC_KIND_EMBED);
  if (a->family == TAGC_FAMILY_VIT) {
    uint64_t patch = a->patch ? a->patch : 16, channels = a->channels ? a->channels : 3;
    add_parameter(&b, "embed.class", "", 1, a->hidden);
    add_parameter(&b, "embed.positions", "", 1, (uint64_t)a->positions * a->hidden);
    add_linear(&b, "embed.patches", a->hidden, channels * patch * patch, true);
    return b.is_good;
  }
  add_parameter(&b, "embed", ".weight", a->vocabulary, a->hidden);
  if (a->positions)
    add_parameter(&b, "embed.positions", ".weight", a->positions, a->hidden);
  if (a->family == TAGC_FAMILY_BERT)
    add_parameter(&b, "embed.types", ".weight", a->types ? a->types : 2, a->hidden);
  if (a->family == TAGC_FAMILY_BERT || b.traits.has_embed_norm)
    add_norm(&b, "embed.norm", a->hidden);
  return b.is_good;
}

/* Adds what BERT and ViT have behind the blocks and the norm. */
static void add_heads(struct builder *b) {
  const struct tagc_architecture *a = b->a;
  if (a->pooler)
    add_linear(b, "head.pooler", a->hidden, a->hidden, true);
  if (a->masked_head) {
    add_parameter(b, "head", ".bias", a->vocabulary, 1);
    add_linear(b, "head.dense", a->hidden, a->hidden, true);
    add_norm(b, "head.norm", a->hidden);
    if (!a->tied)
      add_parameter(b, "head", ".weight", a->vocabulary, a->hidden);
  }
  if (a->next_head)
    add_linear(b, "head.next", 2, a->hidden, true);
  if (a->labels)
    add_linear(b, "head.classifier", a->labels, a->hidden, true);
}

bool tagc_family_add_head(struct tagc_model *model, const struct tagc_architecture *a) {
  struct builder b = begin_model(model, a, TAGC_KIND_HEAD);
  bool has_words_behind = a->family != TAGC_FAMILY_BERT && a->family != TAGC_FAMILY_VIT;
  if (a->family != TAGC_FAMILY_BERT)
    add_norm(&b, "norm", a->hidden);
  if (!has_words_behind)
    add_heads(&b);
  if (has_words_behind && !a->tied)
    add_parameter(&b, "head", ".weight", a->vocabulary, a->hidden);
  if (b.traits.head_bias && !a->no_bias)
    add_parameter(&b, "head", ".bias", a->vocabulary, 1);
  return b.is_good;
}

/* Adds a unit that occurs once, with its place; no place without parameters. */
static bool add_single(struct tagc_model *model, const struct tagc_architecture *a, const char *name,
                       bool (*fill)(struct tagc_model *model, const struct tagc_architecture *a)) {
  if (!tagc_model_add_unit(model, name) || !fill(model, a))
    return false;
  uint32_t unit = (uint32_t)model->unit_count - 1;
  if (model->units[unit].count)
    return tagc_model_add_place(model, unit, -1);
  model->unit_count--;
  return true;
}

static bool add_blocks(struct tagc_model *model, const struct tagc_architecture *a) {
  for (uint32_t number = 0; number < a->blocks; number++) {
    bool is_new = number == 0 || tagc_family_has_experts(a, number) != tagc_family_has_experts(a, number - 1);
    if (is_new && (!tagc_model_add_unit(model, "block") || !tagc_family_add_block(model, a, number)))
      return false;
    if (!tagc_model_add_place(model, (uint32_t)model->unit_count - 1, (int32_t)number))
      return false;
  }
  return true;
}

struct tagc_model *tagc_family_try(const struct tagc_architecture *a, bool *no_memory) {
  struct tagc_model *model = tagc_model_create();
  *no_memory = !model;
  if (!model)
    return NULL;
  snprintf(model->family, sizeof model->family, "%s", tagc_family_name(a->family));
  model->heads = a->heads;
  model->kv_heads = a->kv_heads ? a->kv_heads : a->heads;
  if (add_single(model, a, "embed", tagc_family_add_embedding) && add_blocks(model, a) &&
      add_single(model, a, "head", tagc_family_add_head))
    return model;
  *no_memory = model->no_memory;
  tagc_model_free(model);
  return NULL;
}

struct tagc_model *tagc_family_model(const struct tagc_architecture *a) {
  bool no_memory;
  return tagc_family_try(a, &no_memory);
}
