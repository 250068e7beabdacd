/* SPDX-License-Identifier: BSD-3-Clause
 * Families of transformers: the parameters of a model of given sizes, in order.
 *
 * The order is that in which the family's reference implementation registers them (Hugging Face's transformers, release
 * 4.57; families.c has other releases). Frameworks flatten parameters in this order.
 *
 * Names       are made of few words, the same in every family, so that tagc_kinds_of_name() knows their kinds:
 *             embed.weight, embed.positions.weight, embed.types.weight, embed.norm.weight;
 *                 images: embed.class, embed.positions, embed.patches.weight
 *             norm1.weight ... norm4.weight, in the order in which a block registers its norms
 *             attn.q.weight, attn.k.weight, attn.v.weight, or attn.qkv.weight; attn.o.weight;
 *                 attn.q_norm.weight, attn.k_norm.weight;
 *                 latent: attn.q_a.weight, attn.q_a_norm.weight, attn.q_b.weight, attn.kv_a.weight,
 *                 attn.kv_a_norm.weight, attn.kv_b.weight
 *             mlp.gate.weight, mlp.up.weight, or mlp.gate_up.weight; mlp.down.weight
 *             router.weight, experts.7.gate.weight (or up, down), shared_experts.gate.weight;
 *                 all experts in one: experts.gate_up, experts.down
 *             norm.weight (the last one), head.weight, head.pooler.weight, head.dense.weight, head.norm.weight,
 *                 head.next.weight; and .bias instead of .weight
 * Units       "embed", "block" (several of that name if blocks differ), "head"; a unit without parameters has no place.
 */
#ifndef LAYERMAP_MODEL_FAMILIES_H
#define LAYERMAP_MODEL_FAMILIES_H

#include "layermap/model/model.h"

enum tagc_family {
  TAGC_FAMILY_GPT2,
  TAGC_FAMILY_NEOX,
  TAGC_FAMILY_LLAMA,
  TAGC_FAMILY_MISTRAL,
  TAGC_FAMILY_QWEN2,
  TAGC_FAMILY_QWEN3,
  TAGC_FAMILY_GEMMA,
  TAGC_FAMILY_GEMMA2,
  TAGC_FAMILY_GEMMA3,
  TAGC_FAMILY_PHI,
  TAGC_FAMILY_PHI3,
  TAGC_FAMILY_BERT,
  TAGC_FAMILY_VIT,
  TAGC_FAMILY_MIXTRAL,
  TAGC_FAMILY_QWEN3_MOE,
  TAGC_FAMILY_DEEPSEEK,
  TAGC_FAMILY_OPT,
  TAGC_FAMILY_BLOOM,
  TAGC_FAMILY_GPTJ,
  TAGC_FAMILY_GPT_NEO,
  TAGC_FAMILY_MPT,
  TAGC_FAMILY_FALCON,
  TAGC_FAMILY_NEMOTRON,
  TAGC_FAMILY_STARCODER2,
  TAGC_FAMILY_STABLELM,
  TAGC_FAMILY_OLMO,
  TAGC_FAMILY_OLMO2,
  TAGC_FAMILY_COHERE,
  TAGC_FAMILY_DBRX,
  TAGC_FAMILIES
};

/* The sizes of a model; 0: the family has no such thing. kv_heads 0 means heads; head_dim 0 means hidden / heads. */
struct tagc_architecture {
  enum tagc_family family;
  uint32_t hidden, intermediate; /* of the stream; inside the MLP */
  uint32_t heads, kv_heads, head_dim;
  uint32_t blocks;
  uint64_t vocabulary; /* rows of the embedding, with padding */
  uint32_t positions;  /* rows of learned positions */
  bool tied;           /* the head is the embedding */
  bool fused_qkv;      /* one matrix for queries, keys and values (always in GPT-2, NeoX and Phi-3) */
  /* Mixture of experts. */
  uint32_t experts, expert_intermediate, shared_intermediate, dense_blocks; /* the first blocks have no experts */
  bool fused_experts; /* all experts in two tensors (transformers 5) */
  /* DeepSeek's latent attention. */
  uint32_t q_rank, kv_rank, rope_dim, nope_dim, v_dim; /* q_rank = 0: uncompressed queries */
  /* Deviations from the family's reference. */
  bool attention_bias; /* queries, keys, values and output have biases (Llama, Qwen3, DeepSeek) */
  bool mlp_bias;       /* the matrices of the MLP have biases (Llama) */
  bool no_bias;        /* neither matrices nor norms have biases (nanoGPT) */
  bool plain_linear;   /* GPT-2: matrices are out x in (nanoGPT, examples/gpt), not in x out as in transformers */
  /* BERT and ViT. */
  uint32_t types;           /* rows of the embedding of types; 0: 2 */
  uint32_t patch, channels; /* side of a patch, its colours; 0: 16, 3 */
  uint32_t labels;          /* rows of a classifier; 0: none */
  bool pooler;
  bool masked_head, next_head; /* BERT: heads that predict masked words, and the next sentence */
};

const char *tagc_family_name(enum tagc_family family);
/* TAGC_FAMILIES for none. */
enum tagc_family tagc_family_find(const char *name);
/* The rank of a parameter among those of its unit, in the order of their use in the forward pass; -1: not known. Their
 * gradients come in the reverse order. */
int tagc_family_forward(enum tagc_family family, const char *name);

/* The same model with each unit's parameters in that order. DDP's buckets have them in the opposite one. NULL: it is
 * the model's own order, or not known; or there is no memory: see no_memory. */
struct tagc_model *tagc_family_forward_model(const struct tagc_model *model, bool *no_memory);

/* Each adds parameters to the last unit of the model: those of block `number`, of the unit before the blocks, of the
 * unit behind them. False: no memory, or a size is 0 or above the limits of model.h; some may have been added. */
bool tagc_family_add_block(struct tagc_model *model, const struct tagc_architecture *a, uint32_t number);
bool tagc_family_add_embedding(struct tagc_model *model, const struct tagc_architecture *a);
bool tagc_family_add_head(struct tagc_model *model, const struct tagc_architecture *a);

/* True if block `number` holds experts. (All blocks with experts are alike, and all without.) */
bool tagc_family_has_experts(const struct tagc_architecture *a, uint32_t number);

/* The whole model: embedding, blocks, head; a tied head has no matrix of its own. NULL if a function above fails. */
struct tagc_model *tagc_family_model(const struct tagc_architecture *a);
/* As tagc_family_model(); no_memory explains a NULL. */
struct tagc_model *tagc_family_try(const struct tagc_architecture *a, bool *no_memory);

#endif
