/* SPDX-License-Identifier: BSD-3-Clause
 * Families: totals of real models, and the order, names and shapes of the parameters of each.
 */
#include <inttypes.h>
#include <string.h>

#include "layermap/model/families.h"
#include "tests/unit/model/architectures.h"
#include "tests/unit/tap.h"

static bool kinds_are_those_of_names(const struct tagc_model *model) {
  for (size_t i = 0; i < model->unit_count; i++)
    for (size_t j = 0; j < model->units[i].count; j++)
      if (model->units[i].parameters[j].kinds != tagc_kinds_of_name(model->units[i].parameters[j].name))
        return false;
  return true;
}

static void totals_are_right(void) {
  for (size_t i = 0; i < KNOWN_MODELS; i++) {
    const struct known_model *known = &known_models[i];
    struct tagc_model *model = tagc_family_model(&known->a);
    if (!ok(model != NULL, "%s is a model", known->name))
      continue;
    uint64_t total = tagc_model_elements(model);
    ok(kinds_are_those_of_names(model), "%s: kinds are what names tell", known->name);
    ok(total == known->total, "%s has %" PRIu64 " parameters, %s: %" PRIu64, known->name, known->total,
       known->is_published ? "as published" : "by its config", total);
    tagc_model_free(model);
  }
}

#define SIZES .hidden = 8, .intermediate = 20, .heads = 4, .kv_heads = 2, .head_dim = 3, .blocks = 2, .vocabulary = 50

/* Units and their parameters, one line per unit. */
static const struct {
  struct tagc_architecture a;
  const char *units;
} orders[] = {
  {{.family = TAGC_FAMILY_GPT2, SIZES, .positions = 7},
   "embed: embed.weight 50x8, embed.positions.weight 7x8\n"
   "block: norm1.weight 8x1, norm1.bias 8x1, attn.qkv.weight 8x24, attn.qkv.bias 24x1, attn.o.weight 12x8, "
   "attn.o.bias 8x1, norm2.weight 8x1, norm2.bias 8x1, mlp.up.weight 8x20, mlp.up.bias 20x1, mlp.down.weight "
   "20x8, mlp.down.bias 8x1\n"
   "head: norm.weight 8x1, norm.bias 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_NEOX, SIZES},
   "embed: embed.weight 50x8\n"
   "block: norm1.weight 8x1, norm1.bias 8x1, norm2.weight 8x1, norm2.bias 8x1, attn.qkv.weight 24x8, "
   "attn.qkv.bias 24x1, attn.o.weight 8x12, attn.o.bias 8x1, mlp.up.weight 20x8, mlp.up.bias 20x1, "
   "mlp.down.weight 8x20, mlp.down.bias 8x1\n"
   "head: norm.weight 8x1, norm.bias 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_LLAMA, SIZES},
   "embed: embed.weight 50x8\n"
   "block: attn.q.weight 12x8, attn.k.weight 6x8, attn.v.weight 6x8, attn.o.weight 8x12, mlp.gate.weight 20x8, "
   "mlp.up.weight 20x8, mlp.down.weight 8x20, norm1.weight 8x1, norm2.weight 8x1\n"
   "head: norm.weight 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_MISTRAL, SIZES},
   "embed: embed.weight 50x8\n"
   "block: attn.q.weight 12x8, attn.k.weight 6x8, attn.v.weight 6x8, attn.o.weight 8x12, mlp.gate.weight 20x8, "
   "mlp.up.weight 20x8, mlp.down.weight 8x20, norm1.weight 8x1, norm2.weight 8x1\n"
   "head: norm.weight 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_QWEN2, SIZES},
   "embed: embed.weight 50x8\n"
   "block: attn.q.weight 12x8, attn.q.bias 12x1, attn.k.weight 6x8, attn.k.bias 6x1, attn.v.weight 6x8, "
   "attn.v.bias 6x1, attn.o.weight 8x12, mlp.gate.weight 20x8, mlp.up.weight 20x8, mlp.down.weight 8x20, "
   "norm1.weight 8x1, norm2.weight 8x1\n"
   "head: norm.weight 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_QWEN3, SIZES},
   "embed: embed.weight 50x8\n"
   "block: attn.q.weight 12x8, attn.k.weight 6x8, attn.v.weight 6x8, attn.o.weight 8x12, attn.q_norm.weight 3x1, "
   "attn.k_norm.weight 3x1, mlp.gate.weight 20x8, mlp.up.weight 20x8, mlp.down.weight 8x20, norm1.weight 8x1, "
   "norm2.weight 8x1\n"
   "head: norm.weight 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_GEMMA, SIZES},
   "embed: embed.weight 50x8\n"
   "block: attn.q.weight 12x8, attn.k.weight 6x8, attn.v.weight 6x8, attn.o.weight 8x12, mlp.gate.weight 20x8, "
   "mlp.up.weight 20x8, mlp.down.weight 8x20, norm1.weight 8x1, norm2.weight 8x1\n"
   "head: norm.weight 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_GEMMA2, SIZES},
   "embed: embed.weight 50x8\n"
   "block: attn.q.weight 12x8, attn.k.weight 6x8, attn.v.weight 6x8, attn.o.weight 8x12, mlp.gate.weight 20x8, "
   "mlp.up.weight 20x8, mlp.down.weight 8x20, norm1.weight 8x1, norm2.weight 8x1, norm3.weight 8x1, norm4.weight "
   "8x1\n"
   "head: norm.weight 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_GEMMA3, SIZES},
   "embed: embed.weight 50x8\n"
   "block: attn.q.weight 12x8, attn.k.weight 6x8, attn.v.weight 6x8, attn.o.weight 8x12, attn.q_norm.weight 3x1, "
   "attn.k_norm.weight 3x1, mlp.gate.weight 20x8, mlp.up.weight 20x8, mlp.down.weight 8x20, norm1.weight 8x1, "
   "norm2.weight 8x1, norm3.weight 8x1, norm4.weight 8x1\n"
   "head: norm.weight 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_PHI, SIZES},
   "embed: embed.weight 50x8\n"
   "block: attn.q.weight 12x8, attn.q.bias 12x1, attn.k.weight 6x8, attn.k.bias 6x1, attn.v.weight 6x8, "
   "attn.v.bias 6x1, attn.o.weight 8x12, attn.o.bias 8x1, mlp.up.weight 20x8, mlp.up.bias 20x1, mlp.down.weight "
   "8x20, mlp.down.bias 8x1, norm1.weight 8x1, norm1.bias 8x1\n"
   "head: norm.weight 8x1, norm.bias 8x1, head.weight 50x8, head.bias 50x1"},
  {{.family = TAGC_FAMILY_PHI3, SIZES},
   "embed: embed.weight 50x8\n"
   "block: attn.o.weight 8x12, attn.qkv.weight 24x8, mlp.gate_up.weight 40x8, mlp.down.weight 8x20, norm1.weight "
   "8x1, norm2.weight 8x1\n"
   "head: norm.weight 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_BERT,
    SIZES,
    .positions = 7,
    .tied = true,
    .pooler = true,
    .masked_head = true,
    .next_head = true},
   "embed: embed.weight 50x8, embed.positions.weight 7x8, embed.types.weight 2x8, embed.norm.weight 8x1, "
   "embed.norm.bias 8x1\n"
   "block: attn.q.weight 12x8, attn.q.bias 12x1, attn.k.weight 6x8, attn.k.bias 6x1, attn.v.weight 6x8, "
   "attn.v.bias 6x1, attn.o.weight 8x12, attn.o.bias 8x1, norm1.weight 8x1, norm1.bias 8x1, mlp.up.weight 20x8, "
   "mlp.up.bias 20x1, mlp.down.weight 8x20, mlp.down.bias 8x1, norm2.weight 8x1, norm2.bias 8x1\n"
   "head: head.pooler.weight 8x8, head.pooler.bias 8x1, head.bias 50x1, head.dense.weight 8x8, head.dense.bias "
   "8x1, head.norm.weight 8x1, head.norm.bias 8x1, head.next.weight 2x8, head.next.bias 2x1"},
  {{.family = TAGC_FAMILY_VIT, SIZES, .positions = 7, .labels = 5},
   "embed: embed.class 1x8, embed.positions 1x56, embed.patches.weight 8x768, embed.patches.bias 8x1\n"
   "block: attn.q.weight 12x8, attn.q.bias 12x1, attn.k.weight 6x8, attn.k.bias 6x1, attn.v.weight 6x8, "
   "attn.v.bias 6x1, attn.o.weight 8x12, attn.o.bias 8x1, mlp.up.weight 20x8, mlp.up.bias 20x1, mlp.down.weight "
   "8x20, mlp.down.bias 8x1, norm1.weight 8x1, norm1.bias 8x1, norm2.weight 8x1, norm2.bias 8x1\n"
   "head: norm.weight 8x1, norm.bias 8x1, head.classifier.weight 5x8, head.classifier.bias 5x1"},
  {{.family = TAGC_FAMILY_MIXTRAL, SIZES, .experts = 2, .expert_intermediate = 6},
   "embed: embed.weight 50x8\n"
   "block: attn.q.weight 12x8, attn.k.weight 6x8, attn.v.weight 6x8, attn.o.weight 8x12, router.weight 2x8, "
   "experts.0.gate.weight 6x8, experts.0.down.weight 8x6, experts.0.up.weight 6x8, experts.1.gate.weight 6x8, "
   "experts.1.down.weight 8x6, experts.1.up.weight 6x8, norm1.weight 8x1, norm2.weight 8x1\n"
   "head: norm.weight 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_QWEN3_MOE, SIZES, .experts = 2, .expert_intermediate = 6},
   "embed: embed.weight 50x8\n"
   "block: attn.q.weight 12x8, attn.k.weight 6x8, attn.v.weight 6x8, attn.o.weight 8x12, attn.q_norm.weight 3x1, "
   "attn.k_norm.weight 3x1, router.weight 2x8, experts.0.gate.weight 6x8, experts.0.up.weight 6x8, "
   "experts.0.down.weight 8x6, experts.1.gate.weight 6x8, experts.1.up.weight 6x8, experts.1.down.weight 8x6, "
   "norm1.weight 8x1, norm2.weight 8x1\n"
   "head: norm.weight 8x1, head.weight 50x8"},
  {{.family = TAGC_FAMILY_DEEPSEEK,
    SIZES,
    .experts = 2,
    .expert_intermediate = 6,
    .shared_intermediate = 12,
    .dense_blocks = 1,
    .q_rank = 5,
    .kv_rank = 4,
    .rope_dim = 2,
    .nope_dim = 3,
    .v_dim = 1},
   "embed: embed.weight 50x8\n"
   "block: attn.q_a.weight 5x8, attn.q_a_norm.weight 5x1, attn.q_b.weight 20x5, attn.kv_a.weight 6x8, "
   "attn.kv_a_norm.weight 4x1, attn.kv_b.weight 16x4, attn.o.weight 8x4, mlp.gate.weight 20x8, mlp.up.weight "
   "20x8, mlp.down.weight 8x20, norm1.weight 8x1, norm2.weight 8x1\n"
   "block: attn.q_a.weight 5x8, attn.q_a_norm.weight 5x1, attn.q_b.weight 20x5, attn.kv_a.weight 6x8, "
   "attn.kv_a_norm.weight 4x1, attn.kv_b.weight 16x4, attn.o.weight 8x4, experts.0.gate.weight 6x8, "
   "experts.0.up.weight 6x8, experts.0.down.weight 8x6, experts.1.gate.weight 6x8, experts.1.up.weight 6x8, "
   "experts.1.down.weight 8x6, router.weight 2x8, shared_experts.gate.weight 12x8, shared_experts.up.weight "
   "12x8, shared_experts.down.weight 8x12, norm1.weight 8x1, norm2.weight 8x1\n"
   "head: norm.weight 8x1, head.weight 50x8"},
  /* nanoGPT without biases, as in examples/gpt: out x in, untied. */
  {{.family = TAGC_FAMILY_GPT2, SIZES, .plain_linear = true, .no_bias = true, .tied = true},
   "embed: embed.weight 50x8\n"
   "block: norm1.weight 8x1, attn.qkv.weight 24x8, attn.o.weight 8x12, norm2.weight 8x1, mlp.up.weight 20x8, "
   "mlp.down.weight 8x20\n"
   "head: norm.weight 8x1"},
  /* Llama with biases everywhere, and queries, keys and values in one tensor. */
  {{.family = TAGC_FAMILY_LLAMA, SIZES, .attention_bias = true, .mlp_bias = true, .fused_qkv = true, .tied = true},
   "embed: embed.weight 50x8\n"
   "block: attn.qkv.weight 24x8, attn.qkv.bias 24x1, attn.o.weight 8x12, attn.o.bias 8x1, mlp.gate.weight 20x8, "
   "mlp.gate.bias 20x1, "
   "mlp.up.weight 20x8, mlp.up.bias 20x1, mlp.down.weight 8x20, mlp.down.bias 8x1, norm1.weight 8x1, norm2.weight 8x1\n"
   "head: norm.weight 8x1"},
  /* Heads and their size by default; experts in two tensors. */
  {{.family = TAGC_FAMILY_QWEN3_MOE,
    .hidden = 8,
    .heads = 4,
    .blocks = 2,
    .vocabulary = 50,
    .intermediate = 6,
    .experts = 5,
    .fused_experts = true,
    .tied = true},
   "embed: embed.weight 50x8\n"
   "block: attn.q.weight 8x8, attn.k.weight 8x8, attn.v.weight 8x8, attn.o.weight 8x8, attn.q_norm.weight 2x1, "
   "attn.k_norm.weight 2x1, "
   "experts.gate_up 5x96, experts.down 5x48, router.weight 5x8, norm1.weight 8x1, norm2.weight 8x1\n"
   "head: norm.weight 8x1"},
  /* BERT without any head: no unit after the blocks. */
  {{.family = TAGC_FAMILY_BERT,
    .hidden = 2,
    .intermediate = 3,
    .heads = 1,
    .blocks = 1,
    .vocabulary = 5,
    .types = 1,
    .no_bias = true},
   "embed: embed.weight 5x2, embed.types.weight 1x2, embed.norm.weight 2x1\n"
   "block: attn.q.weight 2x2, attn.k.weight 2x2, attn.v.weight 2x2, attn.o.weight 2x2, norm1.weight 2x1, mlp.up.weight "
   "3x2, "
   "mlp.down.weight 2x3, norm2.weight 2x1"},
};

static void describe(const struct tagc_model *model, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < model->unit_count; i++) {
    const struct tagc_unit *unit = &model->units[i];
    used += (size_t)snprintf(text + used, size - used, "%s%s:", i ? "\n" : "", unit->name);
    for (size_t j = 0; j < unit->count; j++) {
      const struct tagc_parameter *p = &unit->parameters[j];
      used += (size_t)snprintf(text + used, size - used, "%s %s %" PRIu64 "x%" PRIu64, j ? "," : "", p->name, p->rows,
                               p->columns);
    }
  }
}

static void orders_are_right(void) {
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    char text[4096];
    struct tagc_model *model = tagc_family_model(&orders[i].a);
    describe(model, text, sizeof text);
    if (!ok(!strcmp(text, orders[i].units) && kinds_are_those_of_names(model), "%s, row %zu, holds what it should",
            model->family, i))
      note("%s", text);
    tagc_model_free(model);
  }
}

static void places_are_right(void) {
  struct tagc_architecture a = {.family = TAGC_FAMILY_DEEPSEEK,
                                SIZES,
                                .experts = 2,
                                .expert_intermediate = 6,
                                .dense_blocks = 2,
                                .kv_rank = 4,
                                .rope_dim = 2,
                                .nope_dim = 3,
                                .v_dim = 1};
  a.blocks = 5;
  struct tagc_model *model = tagc_family_model(&a);
  bool is_so = model->place_count == 7 && model->unit_count == 4;
  for (size_t i = 0; is_so && i < 7; i++) {
    uint32_t unit = i == 0 ? 0 : i <= 2 ? 1 : i <= 5 ? 2 : 3;
    is_so = model->places[i].unit == unit && model->places[i].block == (i >= 1 && i <= 5 ? (int32_t)i - 1 : -1);
  }
  ok(is_so, "blocks with experts follow those without");
  tagc_model_free(model);
}

/* Sizes that make no model, even huge ones: NULL, and nothing else happens. */
static void bad_sizes_are_refused(void) {
  for (enum tagc_family family = 0; family < TAGC_FAMILIES; family++) {
    struct tagc_architecture none = {.family = family}, huge = {.family = family,
                                                                .hidden = UINT32_MAX,
                                                                .intermediate = UINT32_MAX,
                                                                .heads = UINT32_MAX,
                                                                .kv_heads = UINT32_MAX,
                                                                .head_dim = UINT32_MAX,
                                                                .blocks = UINT32_MAX,
                                                                .vocabulary = UINT64_MAX,
                                                                .positions = UINT32_MAX,
                                                                .experts = UINT32_MAX,
                                                                .expert_intermediate = UINT32_MAX,
                                                                .patch = UINT32_MAX,
                                                                .channels = UINT32_MAX,
                                                                .labels = UINT32_MAX};
    ok(!tagc_family_model(&none) && !tagc_family_model(&huge), "%s is refused without sizes, and with too large ones",
       tagc_family_name(family));
  }
  struct tagc_architecture blocks = {.family = TAGC_FAMILY_LLAMA, SIZES},
                           experts = {
                             .family = TAGC_FAMILY_MIXTRAL, SIZES, .experts = 1 << 20, .expert_intermediate = 1};
  blocks.blocks = 1 << 20;
  ok(!tagc_family_model(&blocks) && !tagc_family_model(&experts), "so are too many blocks, and too many experts");
  bool no_memory = true, none_left = true;
  ok(!tagc_family_try(&blocks, &no_memory) && !no_memory && !tagc_family_try(&experts, &none_left) && !none_left,
     "  and that is not for want of memory");
}

/* Parameters of a block in the order of the forward pass; "": it is that of registration, or not known. */
static void forward_orders(void) {
  static const struct {
    enum tagc_family family;
    const char *wanted;
  } cases[] = {
    {TAGC_FAMILY_LLAMA, "norm1 attn.q? attn.k attn.v attn.o norm2 mlp.gate mlp.up mlp.down "},
    {TAGC_FAMILY_GPT2, ""},
    {TAGC_FAMILY_FALCON, ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char got[400] = "";
    const struct tagc_architecture a = {.family = cases[i].family, SIZES};
    bool no_memory = true;
    struct tagc_model *model = tagc_family_model(&a);
    model->units[1].parameters[0].unsure = TAGC_KIND_ATTN;
    struct tagc_model *sorted = tagc_family_forward_model(model, &no_memory);
    const struct tagc_unit *block = sorted ? &sorted->units[1] : NULL;
    for (size_t k = 0; block && k < block->count; k++) {
      const char *name = block->parameters[k].name;
      snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s%s ", (int)(strrchr(name, '.') - name), name,
               block->parameters[k].unsure ? "?" : "");
    }
    ok(strcmp(got, cases[i].wanted) == 0 && !no_memory &&
         (!sorted || tagc_model_elements(sorted) == tagc_model_elements(model)),
       "%s forward: %s", tagc_family_name(cases[i].family), *got ? got : "as registered, or not known");
    tagc_model_free(sorted);
    tagc_model_free(model);
  }
}

static void families_have_names(void) {
  bool is_so = true;
  for (enum tagc_family family = 0; family < TAGC_FAMILIES; family++)
    is_so &= tagc_family_find(tagc_family_name(family)) == family && strlen(tagc_family_name(family)) < 16;
  ok(is_so && tagc_family_find("gpt") == TAGC_FAMILIES && tagc_family_find("") == TAGC_FAMILIES,
     "each family is found by its name");
}

int main(void) {
  totals_are_right();
  orders_are_right();
  places_are_right();
  bad_sizes_are_refused();
  forward_orders();
  families_have_names();
  return tap_done();
}
