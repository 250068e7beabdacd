/* SPDX-License-Identifier: BSD-3-Clause
 * Families of transformers: which parameters a model of given sizes has, in which order.
 *
 * The order is that in which the family's reference implementation (named with each in families.c) registers them, as frameworks
 * flatten parameters in it.
 */
#ifndef LAYERMAP_FAMILIES_H
#define LAYERMAP_FAMILIES_H

#include "layermap/model.h"

enum tagc_family {
  TAGC_FAMILY_GPT2, TAGC_FAMILY_NEOX, TAGC_FAMILY_LLAMA, TAGC_FAMILY_MISTRAL, TAGC_FAMILY_QWEN2, TAGC_FAMILY_QWEN3, TAGC_FAMILY_GEMMA,
  TAGC_FAMILY_GEMMA2, TAGC_FAMILY_GEMMA3, TAGC_FAMILY_PHI, TAGC_FAMILY_PHI3, TAGC_FAMILY_BERT, TAGC_FAMILY_VIT, TAGC_FAMILY_MIXTRAL,
  TAGC_FAMILY_QWEN3_MOE, TAGC_FAMILY_DEEPSEEK, TAGC_FAMILIES
};

/* The sizes that a model is made of; what a family does not have is 0. */
struct tagc_architecture {
  enum tagc_family family;
  uint32_t hidden, intermediate;    /* of the stream; inside the MLP */
  uint32_t heads, kv_heads, head_dim;
  uint32_t blocks;
  uint64_t vocabulary;              /* rows of the embedding, padded as it is */
  uint32_t positions;               /* rows of learned positions */
  bool tied;                        /* the head is the embedding */
  bool fused_qkv;                   /* one matrix for queries, keys and values */
  /* Mixtures of experts. */
  uint32_t experts, expert_intermediate, shared_intermediate, dense_blocks;
  /* DeepSeek's latent attention. */
  uint32_t q_rank, kv_rank, rope_dim, nope_dim, v_dim;
};

const char *tagc_family_name(enum tagc_family family);
/* TAGC_FAMILIES for none. */
enum tagc_family tagc_family_find(const char *name);

/* The parameters of block `number` of the architecture, of the unit before the blocks and of that behind them, added to the last unit
 * of the model. False without memory. */
bool tagc_family_add_block(struct tagc_model *model, const struct tagc_architecture *a, uint32_t number);
bool tagc_family_add_embedding(struct tagc_model *model, const struct tagc_architecture *a);
bool tagc_family_add_head(struct tagc_model *model, const struct tagc_architecture *a);

/* The whole model: embedding, blocks, head; a tied head has no matrix of its own. NULL without memory. */
struct tagc_model *tagc_family_model(const struct tagc_architecture *a);

#endif
