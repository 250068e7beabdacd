/* SPDX-License-Identifier: BSD-3-Clause
 * Models that grow, their limits, and the kinds that names of parameters imply.
 */
#include <string.h>

#include "layermap/model/model.h"
#include "tests/unit/tap.h"

enum {
  ATTN = TAGC_KIND_ATTN,
  MLP = TAGC_KIND_MLP,
  EMBED = TAGC_KIND_EMBED,
  HEAD = TAGC_KIND_HEAD,
  NORM = TAGC_KIND_NORM,
  BIAS = TAGC_KIND_BIAS,
  EXPERT = TAGC_KIND_EXPERT
};

static const struct {
  const char *name;
  uint32_t kinds;
} named[] = {
  /* transformers: Llama and those like it. */
  {"model.embed_tokens.weight", EMBED},
  {"model.layers.3.self_attn.q_proj.weight", ATTN},
  {"model.layers.3.self_attn.q_proj.bias", ATTN | BIAS},
  {"model.layers.3.self_attn.q_norm.weight", ATTN | NORM},
  {"model.layers.31.mlp.gate_proj.weight", MLP},
  {"model.layers.31.mlp.gate_up_proj.weight", MLP},
  {"model.layers.0.input_layernorm.weight", NORM},
  {"model.layers.0.post_attention_layernorm.weight", NORM},
  {"model.layers.0.pre_feedforward_layernorm.weight", NORM},
  {"model.norm.weight", NORM},
  {"lm_head.weight", HEAD},
  {"_fsdp_wrapped_module.model.layers.0._fsdp_wrapped_module.self_attn.o_proj.weight", ATTN},
  {"_orig_mod.model.layers.0.mlp.down_proj.weight", MLP},
  /* Experts. */
  {"model.layers.0.block_sparse_moe.gate.weight", EXPERT},
  {"model.layers.0.block_sparse_moe.experts.7.w1.weight", MLP | EXPERT},
  {"model.layers.0.mlp.gate.weight", EXPERT},
  {"model.layers.0.mlp.gate.e_score_correction_bias", EXPERT | BIAS},
  {"model.layers.0.mlp.experts.127.gate_proj.weight", MLP | EXPERT},
  {"model.layers.0.mlp.experts.gate_up_proj", MLP | EXPERT},
  {"model.layers.1.mlp.shared_experts.down_proj.weight", MLP | EXPERT},
  {"model.layers.1.mlp.shared_expert_gate.weight", EXPERT},
  {"model.layers.1.self_attn.kv_a_proj_with_mqa.weight", ATTN},
  {"model.layers.1.self_attn.kv_a_layernorm.weight", ATTN | NORM},
  /* GPT-2, nanoGPT, GPT-NeoX, Phi, OPT, T5, Falcon. */
  {"transformer.wte.weight", EMBED},
  {"transformer.wpe.weight", EMBED},
  {"transformer.h.0.ln_1.weight", NORM},
  {"transformer.h.0.ln_2.bias", NORM | BIAS},
  {"transformer.h.11.attn.c_attn.weight", ATTN},
  {"transformer.h.11.attn.c_proj.bias", ATTN | BIAS},
  {"h.11.mlp.c_fc.weight", MLP},
  {"h.11.mlp.c_proj.bias", MLP | BIAS},
  {"transformer.ln_f.bias", NORM | BIAS},
  {"gpt_neox.embed_in.weight", EMBED},
  {"gpt_neox.layers.5.attention.query_key_value.weight", ATTN},
  {"gpt_neox.layers.5.attention.dense.bias", ATTN | BIAS},
  {"gpt_neox.layers.5.mlp.dense_4h_to_h.weight", MLP},
  {"gpt_neox.final_layer_norm.weight", NORM},
  {"embed_out.weight", HEAD},
  {"model.layers.2.self_attn.dense.weight", ATTN},
  {"model.decoder.layers.2.self_attn_layer_norm.weight", NORM},
  {"model.decoder.layers.2.fc1.weight", MLP},
  {"decoder.block.0.layer.2.DenseReluDense.wi_0.weight", MLP},
  {"decoder.block.0.layer.2.DenseReluDense.wo.weight", MLP},
  {"decoder.block.0.layer.0.SelfAttention.o.weight", ATTN},
  {"transformer.h.3.self_attention.query_key_value.weight", ATTN},
  {"transformer.word_embeddings_layernorm.weight", NORM},
  /* BERT, ViT (transformers, timm, torchvision). */
  {"bert.embeddings.token_type_embeddings.weight", EMBED},
  {"bert.embeddings.LayerNorm.weight", NORM},
  {"bert.encoder.layer.0.attention.self.query.weight", ATTN},
  {"bert.encoder.layer.0.attention.output.dense.weight", ATTN},
  {"bert.encoder.layer.0.attention.output.LayerNorm.bias", NORM | BIAS},
  {"bert.encoder.layer.0.intermediate.dense.weight", MLP},
  {"bert.encoder.layer.0.output.dense.bias", MLP | BIAS},
  {"bert.encoder.layer.0.output.LayerNorm.weight", NORM},
  {"bert.pooler.dense.weight", HEAD},
  {"cls.predictions.bias", HEAD | BIAS},
  {"vit.embeddings.cls_token", EMBED},
  {"vit.embeddings.patch_embeddings.projection.weight", EMBED},
  {"vit.encoder.layer.0.attention.attention.query.weight", ATTN},
  {"vit.encoder.layer.0.layernorm_before.weight", NORM},
  {"blocks.0.attn.qkv.weight", ATTN},
  {"blocks.0.attn.proj.weight", ATTN},
  {"patch_embed.proj.weight", EMBED},
  {"fc_norm.weight", NORM},
  {"classifier.weight", HEAD},
  {"encoder.layers.encoder_layer_0.self_attention.in_proj_bias", ATTN | BIAS},
  {"heads.head.weight", HEAD},
  {"mlp_head.weight", HEAD},
  /* Megatron-core, with Transformer Engine. */
  {"embedding.word_embeddings.weight", EMBED},
  {"decoder.layers.0.self_attention.linear_proj.weight", ATTN},
  {"decoder.layers.0.self_attention.linear_qkv.layer_norm_weight", NORM},
  {"decoder.layers.0.self_attention.q_layernorm.weight", ATTN | NORM},
  {"decoder.layers.0.mlp.linear_fc1.layer_norm_bias", NORM | BIAS},
  {"decoder.layers.0.mlp.linear_fc1.weight", MLP},
  {"decoder.layers.0.pre_mlp_layernorm.weight", NORM},
  {"decoder.layers.0.mlp.router.weight", EXPERT},
  {"decoder.layers.0.mlp.experts.linear_fc1.weight7", MLP | EXPERT},
  {"decoder.layers.0.mlp.experts.local_experts.3.linear_fc2.weight", MLP | EXPERT},
  {"decoder.final_layernorm.weight", NORM},
  {"output_layer.weight", HEAD},
  /* torchtitan and the Llama checkpoints; PyTorch's own modules. */
  {"tok_embeddings.weight", EMBED},
  {"layers.0.attention.wq.weight", ATTN},
  {"layers.0.attention_norm.weight", NORM},
  {"layers.0.feed_forward.w2.weight", MLP},
  {"layers.0.ffn_norm.weight", NORM},
  {"layers.1.moe.router.gate.weight", EXPERT},
  {"layers.1.moe.experts.w3", MLP | EXPERT},
  {"norm.weight", NORM},
  {"output.weight", HEAD},
  {"encoder.layers.0.self_attn.in_proj_weight", ATTN},
  {"encoder.layers.0.linear1.weight", MLP},
  {"encoder.layers.0.norm1.weight", NORM},
  /* examples/gpt. */
  {"token", EMBED},
  {"position", EMBED},
  {"norm1.gain", NORM},
  {"norm1.bias", NORM | BIAS},
  {"attention.qkv.weight", ATTN},
  {"attention.out.bias", ATTN | BIAS},
  {"mlp.in.weight", MLP},
  {"mlp.out.bias", MLP | BIAS},
  {"norm.gain", NORM},
  /* families.h. */
  {"embed.weight", EMBED},
  {"embed.positions.weight", EMBED},
  {"attn.q.weight", ATTN},
  {"attn.q_norm.weight", ATTN | NORM},
  {"mlp.gate.weight", MLP},
  {"router.weight", EXPERT},
  {"experts.3.gate.weight", MLP | EXPERT},
  {"head.weight", HEAD},
  /* Names that resemble a kind, but have none. */
  {"format.weight", 0},
  {"transformer.information.weight", 0},
  {"overhead.weight", 0},
  {"attnx.weight", 0},
  {"normal.weight", 0},
  {"linear1.weight", 0},
  {"weight", 0},
  {"unbiased", 0},
  {"bias", BIAS},
  {"", 0},
  {"...", 0},
  {"_", 0},
  {"12", 0},
};

static void names_tell(void) {
  for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
    uint32_t kinds = tagc_kinds_of_name(named[i].name);
    ok(kinds == named[i].kinds, "\"%s\" is %#x: %#x", named[i].name, named[i].kinds, kinds);
  }
}

static void kinds_have_names(void) {
  bool is_so = true;
  for (uint32_t kind = 1; kind <= TAGC_KIND_EXPERT; kind *= 2) {
    const char *name = tagc_kind_name((enum tagc_kind)kind);
    is_so &= name && tagc_kind_find(name, strlen(name)) == kind;
  }
  ok(is_so, "each kind is found by its name");
  ok(!tagc_kind_name((enum tagc_kind)(ATTN | MLP)) && !tagc_kind_name((enum tagc_kind)0),
     "two kinds, or none, have no name");
  ok(tagc_kind_find("attn.q", 4) == ATTN && !tagc_kind_find("attn", 3) && !tagc_kind_find("attnx", 5) &&
       !tagc_kind_find("", 0),
     "a name is found by all of its letters");
}

/* A name of `length` letters; only one exists at a time. */
static const char *long_name(size_t length) {
  static char name[256];
  memset(name, 'x', length);
  name[length] = '\0';
  return name;
}

static void models_grow(void) {
  struct tagc_model *model = tagc_model_create();
  ok(!tagc_model_add_parameter(model, "early", 0, 1, 1), "there is no parameter without a unit");
  bool is_so = true;
  for (int unit = 0; unit < 9; unit++) {
    char name[16];
    snprintf(name, sizeof name, "unit%d", unit);
    is_so &= tagc_model_add_unit(model, name);
    for (int i = 0; i <= unit; i++)
      is_so &= tagc_model_add_parameter(model, name, ATTN, (uint64_t)i + 1, 3);
    is_so &= tagc_model_add_place(model, (uint32_t)unit, unit);
  }
  ok(is_so && model->unit_count == 9 && model->place_count == 9, "units, parameters and places are added");
  for (size_t unit = 0; unit < model->unit_count; unit++) {
    is_so &= model->units[unit].count == unit + 1 &&
             tagc_unit_elements(&model->units[unit]) == 3 * (unit + 1) * (unit + 2) / 2;
    for (size_t i = 0; i <= unit; i++)
      is_so &= model->units[unit].parameters[i].rows == i + 1;
  }
  ok(is_so, "they are as they were added");
  ok(tagc_model_elements(model) == 3 * 165, "a model has as many elements as its places");
  ok(tagc_model_add_place(model, 8, -1) && tagc_model_elements(model) == 3 * 165 + 3 * 45, "each place counts");
  ok(!tagc_model_add_place(model, 9, 0) && model->place_count == 10, "a place is that of a unit");
  tagc_model_free(model);
  tagc_model_free(NULL);
}

static void limits_hold(void) {
  struct tagc_model *model = tagc_model_create();
  ok(!tagc_model_add_unit(model, long_name(TAGC_UNIT_NAME)) && model->unit_count == 0 &&
       tagc_model_add_unit(model, long_name(TAGC_UNIT_NAME - 1)) && strlen(model->units[0].name) == TAGC_UNIT_NAME - 1,
     "the name of a unit may be too long by one letter");
  ok(!tagc_model_add_parameter(model, long_name(TAGC_PARAMETER_NAME), 0, 1, 1) && model->units[0].count == 0 &&
       tagc_model_add_parameter(model, long_name(TAGC_PARAMETER_NAME - 1), 0, 1, 1),
     "so may that of a parameter");
  ok(!tagc_model_add_parameter(model, "none", 0, 0, 1) && !tagc_model_add_parameter(model, "none", 0, 1, 0),
     "0 is no size");
  ok(!tagc_model_add_parameter(model, "huge", 0, UINT64_C(1) << 24, (UINT64_C(1) << 24) + 1) &&
       !tagc_model_add_parameter(model, "huge", 0, UINT64_MAX, UINT64_MAX) &&
       !tagc_model_add_parameter(model, "huge", 0, UINT64_C(1) << 32, UINT64_C(1) << 32) && model->units[0].count == 1,
     "a parameter may be too large");
  bool is_so = tagc_model_add_unit(model, "full");
  for (int i = 0; i < 256; i++)
    is_so &= tagc_model_add_parameter(model, "large", 0, UINT64_C(1) << 24, UINT64_C(1) << 24);
  ok(is_so && !tagc_model_add_parameter(model, "one", 0, 1, 1) &&
       tagc_unit_elements(&model->units[1]) == TAGC_UNIT_ELEMENTS,
     "a unit is full at 2^56");
  for (int i = 0; i < TAGC_MODEL_PLACES; i++)
    is_so &= tagc_model_add_place(model, 1, i);
  ok(is_so && !tagc_model_add_place(model, 0, -1) && tagc_model_elements(model) == UINT64_MAX,
     "there are so many places, and sums end where they would overflow");
  tagc_model_free(model);

  model = tagc_model_create();
  is_so = true;
  for (int unit = 0; unit < 16; unit++) {
    is_so &= tagc_model_add_unit(model, "some");
    for (int i = 0; i < TAGC_MODEL_PARAMETERS / 16; i++)
      is_so &= tagc_model_add_parameter(model, "p", 0, 1, 1);
  }
  ok(is_so && !tagc_model_add_parameter(model, "p", 0, 1, 1), "there are so many parameters");
  while (model->unit_count < TAGC_MODEL_PLACES)
    is_so &= tagc_model_add_unit(model, "empty");
  ok(is_so && !tagc_model_add_unit(model, "more"), "there are so many units");
  tagc_model_free(model);
}

int main(void) {
  names_tell();
  kinds_have_names();
  models_grow();
  limits_hold();
  return tap_done();
}
