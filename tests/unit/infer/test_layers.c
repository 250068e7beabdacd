/* SPDX-License-Identifier: BSD-3-Clause
 * The layers of slots: names, members and segments, from the arithmetic and from a map; odd slots and maps that
 * mismatch.
 */
#include <inttypes.h>
#include <unistd.h>

#include "examples/gpt/model.h"
#include "layermap/infer/layers.h"
#include "layermap/model/mapfile.h"
#include "layermap/model/select.h"
#include "tests/unit/model/architectures.h"
#include "tests/unit/infer/solve_slots.h"
#include "tests/unit/tap.h"

static struct slots slots;
static char why[160];

/* The linker sends allocations here: that many more succeed, then one fails (a negative number: none does). */
static long allocations_left = -1, allocations;
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static bool fails(void) {
  allocations++;
  return allocations_left >= 0 && allocations_left-- == 0;
}

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return fails() ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *memory, size_t size) { return fails() ? NULL : __real_realloc(memory, size); }

static const struct tagc_architecture *find(const char *name) {
  size_t i = 0;
  while (strcmp(known_models[i].name, name))
    i++;
  return &known_models[i].a;
}

static struct tagc_model *make(const char *name, enum wrapping wrapping, enum tagc_layout_kind layout, int nranks) {
  struct tagc_model *model = tagc_family_model(find(name));
  make_slots(&slots, model, wrapping, layout, nranks);
  return model;
}

static struct tagc_layers *infer(int nranks, const struct tagc_model *map) {
  return tagc_layers_infer(slots.infos, slots.count, nranks, map, why);
}

/* The layer of the i-th slot in forward order; a negative one counts from the end. */
static const struct tagc_layer *forward(const struct tagc_layers *layers, int i) {
  size_t unit = i < 0 ? layers->count - (size_t)-i : (size_t)i;
  return &layers->layers[layers->count - 1 - unit];
}

static void named(const struct tagc_layers *layers, int i, const char *name) {
  ok(!strcmp(forward(layers, i)->name, name), "slot %d is %s: %s", i, name, forward(layers, i)->name);
}

/* True if the members of every slot that has some make a shard of its size. */
static bool sizes_hold(const struct tagc_layers *layers, int nranks) {
  for (size_t i = 0; i < layers->count; i++) {
    const struct tagc_layer *layer = &layers->layers[i];
    if (layer->count && tagc_layout_shard(layer->layout, layer->members, layer->count, nranks, layer->element_bytes) !=
                          slots.infos[i].signature.count)
      return false;
  }
  return true;
}

static void test_names(void) {
  static const struct {
    const char *model;
    enum wrapping wrapping;
    enum tagc_layout_kind layout;
    const char *first, *second, *third, *last;
  } cases[] = {
    {"llama-3-8b", WRAP_ROOT, TAGC_LAYOUT_FSDP1, "root", "block.0", "block.1", "block.31"},
    {"llama-3-8b", WRAP_APART, TAGC_LAYOUT_FSDP2, "embed", "block.0", "block.1", "head"},
    {"gpt2", WRAP_SUB_BLOCKS, TAGC_LAYOUT_FSDP1, "root", "block.0.attn", "block.0.mlp", "block.11.mlp"},
    {"qwen3-8b", WRAP_PAIRS, TAGC_LAYOUT_FSDP2, "root", "block.0-1", "block.2-3", "block.34-35"},
    {"gemma-2-9b", WRAP_NO_ROOT, TAGC_LAYOUT_FSDP2, "block.0", "block.1", "block.2", "block.41"},
    {"deepseek-v3", WRAP_ROOT, TAGC_LAYOUT_FSDP2, "root", "block.0", "block.1", "block.60"},
    {"deepseek-v2-lite", WRAP_PAIRS, TAGC_LAYOUT_FSDP1, "root", "block.0-1", "block.2-3", "block.26"},
    {"llama-2-7b", WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, "bucket.129", "bucket.128", "bucket.127", "bucket.0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct tagc_model *model = make(cases[i].model, cases[i].wrapping, cases[i].layout, 8);
    struct tagc_layers *layers = infer(8, NULL);
    ok(layers && layers->source == TAGC_LAYER_ARITHMETIC && layers->count == slots.count && layers->confidence >= 50,
       "%s, %s: %s (%u%%), else %s", cases[i].model, wrapping_names[cases[i].wrapping], layers->what,
       layers->confidence, layers->runner_up);
    named(layers, 0, cases[i].first);
    named(layers, 1, cases[i].second);
    named(layers, 2, cases[i].third);
    named(layers, -1, cases[i].last);
    ok(sizes_hold(layers, 8), "  all slots are as large as their members");
    tagc_layers_free(layers);
    /* With a map only the layout may be guessed, from reductions and gathers, and not if the map gives it. */
    layers = infer(8, model);
    ok(layers && layers->source == TAGC_LAYER_MAP && layers->confidence >= (*layers->runner_up ? 79 : 100) && !*why &&
         sizes_hold(layers, 8),
       "  with a map: %s (%u%%), else %s", layers->what, layers->confidence, layers->runner_up);
    tagc_layers_free(layers);
    model->layout = cases[i].layout;
    layers = infer(8, model);
    ok(layers && layers->source == TAGC_LAYER_MAP && layers->confidence == 100 && !*layers->runner_up && !*why &&
         sizes_hold(layers, 8),
       "  with one that says the layout: %s", layers->what);
    named(layers, 0, cases[i].first);
    named(layers, 1, cases[i].second);
    named(layers, -1, cases[i].last);
    tagc_layers_free(layers);
    tagc_model_free(model);
  }
}

/* Facts that counts do not determine are not reported. */
static void test_words(void) {
  static const struct {
    const char *model;
    const char *heads; /* reported between the width of the MLP and the blocks */
  } cases[] = {
    {"gpt2", "intermediate 3072, 12 blocks"},
    {"llama-2-7b", "intermediate 11008, 32 blocks"},
    {"llama-3-8b", ", 4 query heads a key head, 32 blocks"},
    {"qwen3-8b", ", 32/8 heads of 128, 36 blocks"},
    {"gemma-2-9b", ", queries 4096 wide, 2 query heads a key head, 42 blocks"},
    {"deepseek-v3", ", latent attention of rank 512, 61 blocks"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tagc_model_free(make(cases[i].model, WRAP_ROOT, TAGC_LAYOUT_FSDP2, 8));
    struct tagc_layers *layers = infer(8, NULL);
    ok(layers && strstr(layers->what, cases[i].heads), "%s: %s", cases[i].model, layers->what);
    tagc_layers_free(layers);
  }
  tagc_model_free(make("llama-3-8b", WRAP_ROOT, TAGC_LAYOUT_FSDP2, 8));
  struct tagc_layers *layers = infer(8, NULL);
  ok(layers && !strcmp(layers->runner_up, "the same but fsdp1"), "the runner-up is told by what differs: %s",
     layers->runner_up);
  tagc_layers_free(layers);
}

static void test_whole(void) {
  struct tagc_model *model = make("gpt2", WRAP_WHOLE, TAGC_LAYOUT_FSDP1, 4);
  struct tagc_layers *layers = infer(4, NULL);
  named(layers, 0, "model");
  ok(layers->layers[0].count == 2 + 12 * 12 + 2, "  with all parameters: %zu", layers->layers[0].count);
  tagc_layers_free(layers);
  tagc_model_free(model);
}

static void test_members(void) {
  struct tagc_model *model = make("llama-3-8b", WRAP_ROOT, TAGC_LAYOUT_FSDP2, 16);
  struct tagc_layers *layers = infer(16, NULL);
  const struct tagc_layer *first = forward(layers, 1), *later = forward(layers, 7);
  char text[TAGC_MEMBER_NAME];
  ok(first->members == later->members && first->count == 9 && later->block_offset == 6,
     "blocks that are alike share their members");
  ok(!strcmp(tagc_layer_member_name(later, 0, text, sizeof text), "block.6.attn.q.weight"), "a member of block 6: %s",
     text);
  ok(!strcmp(tagc_layer_member_name(forward(layers, 0), 0, text, sizeof text), "embed.weight"),
     "a member of the root: %s", text);
  ok(first->layout == TAGC_LAYOUT_FSDP2 &&
       !strcmp(layers->what, "llama, hidden 4096, intermediate 14336, 4 query heads a key head, "
                             "32 blocks, vocabulary 128256, fsdp2"),
     "what it is: %s", layers->what);
  tagc_layers_free(layers);
  tagc_model_free(model);

  model = make("llama-3-8b", WRAP_SUB_BLOCKS, TAGC_LAYOUT_FSDP1, 16);
  layers = infer(16, NULL);
  const struct tagc_layer *attention = forward(layers, 1), *mlp = forward(layers, 4), *root = forward(layers, 0);
  ok(attention->count == 4 && mlp->count == 3 && mlp->block_offset == 1, "attention has 4 members, an MLP 3");
  ok(root->count == 1 + 2 * 32 + 2, "the norms of all blocks are in the root");
  ok(!strcmp(tagc_layer_member_name(root, 3, text, sizeof text), "block.1.norm1.weight"), "one of them: %s", text);
  tagc_layers_free(layers);
  tagc_model_free(model);
}

/* The model of examples/gpt: its own units. */
static void test_trainer(void) {
  struct gpt_shape shape = {.layers = 4, .hidden = 200, .heads = 5, .context = 32, .vocabulary = 256};
  struct gpt_unit *units = gpt_units_create(&shape);
  for (size_t nranks = 2; nranks <= 8; nranks++) {
    slots.count = shape.layers + 2;
    for (size_t i = 0; i < slots.count; i++) {
      struct tagc_slot_info *info = &slots.infos[slots.count - 1 - i];
      *info = (struct tagc_slot_info){.unit = (uint32_t)i, .gathered = true};
      info->signature = (struct tagc_signature){.count = (units[i].count + nranks - 1) / nranks,
                                                .collective = TAGC_COLL_REDUCE_SCATTER,
                                                .dtype = 7,
                                                .op = 0,
                                                .is_float = true};
    }
    struct tagc_layers *layers = infer((int)nranks, NULL);
    bool right = layers->source == TAGC_LAYER_ARITHMETIC && layers->confidence >= 50 && sizes_hold(layers, (int)nranks);
    for (size_t i = 0; i < slots.count && right; i++) {
      const struct tagc_layer *layer = forward(layers, (int)i);
      /* Parameters of the same sizes in the same order, and flat. */
      right = layer->count == units[i].ntensors && layer->layout == TAGC_LAYOUT_FSDP1;
      for (size_t j = 0; j < layer->count && right; j++)
        right = layer->members[j].parameter->rows * layer->members[j].parameter->columns == units[i].tensors[j].count;
      const char *name = i == 0 ? "embed" : i + 1 == slots.count ? "head" : units[i].name;
      right = right && !strcmp(layer->name, name);
    }
    ok(right, "the trainer over %zu ranks: %s (%u%%)", nranks, layers->what, layers->confidence);
    tagc_layers_free(layers);
  }
  free(units);
}

static void test_odd(void) {
  struct tagc_model *model = make("llama-2-7b", WRAP_ROOT, TAGC_LAYOUT_FSDP1, 8);
  struct tagc_layers *layers = infer(8, NULL);
  unsigned sure = layers->confidence;
  tagc_layers_free(layers);
  /* A slot of another size after the blocks: its gradient comes first. */
  memmove(slots.infos + 1, slots.infos, slots.count * sizeof *slots.infos);
  slots.infos[0].unit = (uint32_t)slots.count++;
  slots.infos[0].signature.count = 1234567;
  for (int with_map = 0; with_map < 2; with_map++) {
    layers = infer(8, with_map ? model : NULL);
    ok(layers->confidence >= 50 && layers->confidence < (with_map ? 100 : sure),
       "with a slot that nothing explains: %u%%", layers->confidence);
    named(layers, 0, "root");
    named(layers, 1, "block.0");
    named(layers, -2, "block.31");
    named(layers, -1, "unit33");
    ok(forward(layers, -1)->count == 0 && !forward(layers, -1)->members, "  which has no members");
    tagc_layers_free(layers);
  }
  /* Units without an order. */
  slots.infos[3].unit = slots.infos[4].unit;
  layers = infer(8, model);
  ok(layers && layers->source == TAGC_LAYER_POSITION && layers->confidence == 0,
     "without a forward order slots have but positions");
  tagc_layers_free(layers);
  tagc_model_free(model);

  slots.count = 5;
  for (uint32_t i = 0; i < slots.count; i++)
    slots.infos[i] = (struct tagc_slot_info){
      .unit = 4 - i, .signature = {.count = 100003 + 7919 * i * i, .dtype = 7, .is_float = true}};
  layers = infer(8, NULL);
  ok(layers && layers->source == TAGC_LAYER_POSITION, "slots of no transformer have but positions");
  named(layers, 4, "unit4");
  tagc_layers_free(layers);
  layers = tagc_layers_infer(NULL, 0, 8, NULL, why);
  ok(layers && layers->count == 0, "no slots, no layers");
  tagc_layers_free(layers);
  tagc_layers_free(NULL);
}

static void test_maps_that_do_not_fit(void) {
  struct tagc_model *map = tagc_family_model(find("gpt2-medium")),
                    *model = make("gpt2", WRAP_ROOT, TAGC_LAYOUT_FSDP2, 4);
  struct tagc_layers *layers = infer(4, map);
  ok(layers->source == TAGC_LAYER_ARITHMETIC, "a map of another model is left aside: %s", why);
  ok(!strcmp(why,
             "unit block.0: the map has 12596224 elements, in fsdp1 over 4 ranks 3149056 each; the call has 1771968"),
     "  and why");
  tagc_layers_free(layers);
  tagc_model_free(map);
  struct tagc_architecture longer = *find("gpt2");
  longer.blocks = 14;
  map = tagc_family_model(&longer);
  layers = infer(4, map);
  ok(!strcmp(why,
             "the map has 14 blocks of 1771968 elements a rank (fsdp1 over 4 ranks); 12 calls in a row have that size"),
     "%s", why);
  tagc_layers_free(layers);
  /* As of DDP, whose buckets are whole on each rank. */
  uint64_t sum = 0;
  char wanted[160];
  for (size_t i = 0; i < slots.count; i++) {
    slots.infos[i].signature.collective = TAGC_COLL_ALL_REDUCE;
    sum += slots.infos[i].signature.count;
  }
  snprintf(wanted, sizeof wanted,
           "the map has %" PRIu64 " elements, %zu all-reduces have %" PRIu64
           "; buckets in the order of the map have other sizes",
           tagc_model_elements(map), slots.count, sum);
  layers = infer(4, map);
  ok(!strcmp(why, wanted), "%s", why);
  tagc_layers_free(layers);
  tagc_model_free(map);
  tagc_model_free(model);
}

/* As of DDP, whose buckets have the parameters in the order in which their gradients come: llama registers its norms
 * behind the matrices, and uses them before these. */
static struct tagc_model *make_forward_buckets(void) {
  bool no_memory;
  struct tagc_model *model = tagc_family_model(find("llama-3-8b")),
                    *sorted = tagc_family_forward_model(model, &no_memory);
  make_slots(&slots, sorted, WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, 1);
  for (size_t i = 0; i < slots.count; i++)
    slots.infos[i].signature.collective = TAGC_COLL_ALL_REDUCE;
  tagc_model_free(sorted);
  return model;
}

/* Without a map: ddp-tinyllama.calls of test_sequences. */
static void test_forward_buckets(void) {
  struct tagc_model *model = make_forward_buckets();
  struct tagc_layers *layers = infer(4, model);
  ok(layers->source == TAGC_LAYER_MAP && !*why, "buckets in the order of the forward pass: %s", layers->what);
  named(layers, -1, "bucket.0");
  bool is_so = sizes_hold(layers, 1);
  const char *before = "";
  for (int i = 0; i < (int)layers->count; i++)
    for (size_t k = 0; k < forward(layers, i)->count; k++) {
      const char *name = forward(layers, i)->members[k].parameter->name;
      is_so &= (strcmp(before, "norm1.weight") == 0) == (strcmp(name, "attn.q.weight") == 0) &&
               (strcmp(before, "norm2.weight") == 0) == (strcmp(name, "mlp.gate.weight") == 0);
      before = name;
    }
  ok(is_so, "  norms come before what they are for");
  tagc_layers_free(layers);
  tagc_model_free(model);
}

static void test_layouts(void) {
  struct tagc_model *map = make("llama-3-8b", WRAP_ROOT, TAGC_LAYOUT_FSDP1, 8);
  for (uint8_t op = 0; op < 2; op++) {
    for (size_t i = 0; i < slots.count; i++)
      slots.infos[i].signature.op = op;
    struct tagc_layers *layers = infer(8, map);
    const char *other = op ? "fsdp1, " : "fsdp2, ";
    ok(layers->confidence == 97 && layers->layers[0].layout == (op ? TAGC_LAYOUT_FSDP2 : TAGC_LAYOUT_FSDP1) &&
         !strncmp(layers->runner_up, other, strlen(other)),
       "%s speak for %s (%u%%); or %s", op ? "averages" : "sums", layers->what, layers->confidence, layers->runner_up);
    tagc_layers_free(layers);
    for (map->layout = TAGC_LAYOUT_FSDP1; map->layout <= TAGC_LAYOUT_FSDP2;
         map->layout += TAGC_LAYOUT_FSDP2 - TAGC_LAYOUT_FSDP1) {
      layers = infer(8, map);
      ok(layers->confidence == 100 && layers->layers[0].layout == map->layout && !*layers->runner_up,
         "  but not against a map that says %s", tagc_layout_name(map->layout));
      tagc_layers_free(layers);
    }
    map->layout = TAGC_LAYOUTS;
  }
  for (size_t i = 0; i < slots.count; i++)
    slots.infos[i].signature.op = 0, slots.infos[i].signature.dtype = 6;
  struct tagc_layers *halves = infer(8, map);
  ok(halves->source == TAGC_LAYER_MAP && halves->confidence < TAGC_LAYERS_AMBIGUOUS &&
       !strncmp(halves->runner_up, "fsdp2, ", 7),
     "sums of half precision speak for neither: %s (%u%%); or %s", halves->what, halves->confidence, halves->runner_up);
  tagc_layers_free(halves);
  /* With one rank all layouts are equal. */
  tagc_model_free(map);
  map = make("qwen3-8b", WRAP_APART, TAGC_LAYOUT_FSDP2, 1);
  struct tagc_layers *layers = infer(1, map);
  ok(layers->source == TAGC_LAYER_MAP && layers->confidence == 100 && !*layers->runner_up,
     "one rank has one division: %s (%u%%) %s", layers->what, layers->confidence, layers->runner_up);
  tagc_layers_free(layers);
  tagc_model_free(map);
  /* The root's norms, before the first block and after the last, are of equal size: all slots could be buckets. */
  map = make("gpt2", WRAP_ROOT, TAGC_LAYOUT_FSDP2, 1);
  layers = infer(1, map);
  ok(layers->layers[0].layout == TAGC_LAYOUT_FSDP2 && layers->confidence >= 79,
     "blocks are rather blocks than buckets: %s (%u%%); or %s", layers->what, layers->confidence, layers->runner_up);
  tagc_layers_free(layers);
  tagc_model_free(map);

  map = tagc_model_create();
  tagc_model_add_unit(map, "block");
  tagc_model_add_parameter(map, "attn.q.weight", TAGC_KIND_ATTN, 5, 1);
  tagc_model_add_parameter(map, "mlp.up.weight", TAGC_KIND_MLP, 3, 1);
  for (int32_t i = 0; i < 3; i++)
    tagc_model_add_place(map, 0, i);
  make_slots(&slots, map, WRAP_NO_ROOT, TAGC_LAYOUT_FSDP1, 12);
  layers = infer(12, map);
  ok(layers->source == TAGC_LAYER_MAP && layers->confidence < TAGC_LAYERS_AMBIGUOUS &&
       !strncmp(layers->runner_up, "fsdp1_aligned, ", 15),
     "nothing tells whether parameters are aligned: %s (%u%%); or %s", layers->what, layers->confidence,
     layers->runner_up);
  tagc_layers_free(layers);
  map->layout = TAGC_LAYOUT_ZERO3;
  layers = infer(12, map);
  ok(layers->source != TAGC_LAYER_MAP && strstr(why, "in zero3 over 12 ranks"),
     "a map with a layout that does not fit does not fit: %s", why);
  tagc_layers_free(layers);
  tagc_model_free(map);
}

/* Two stacks of blocks with other names than "block". LONG has the maximal length, and SHORT as its prefix. */
#define SHORT "decoder_layer"
#define LONG "decoder_layer_of_31_characters_"
#define BLOCK "  parameter norm.weight 64\n  parameter attn.q.weight 192x64\n  parameter mlp.up.weight 256x64\n"
static const char two_stacks[] = "tagc-map 1\nunit tok\n  parameter tok.weight 1000x64\n"
                                 "unit " SHORT " 0-2\n" BLOCK "unit " LONG " 0-2\n" BLOCK
                                 "  parameter cross_attn.q.weight 64x64\nunit last\n  parameter norm.weight 64\n";

/* An encoder and a decoder, with parameters between them. */
static const char two_towers[] = "tagc-map 1\nunit tok\n  parameter tok.weight 1000x64\nunit encoder 0-2\n" BLOCK
                                 "unit middle\n  parameter words.weight 500x64\nunit decoder 0-3\n" BLOCK
                                 "  parameter cross_attn.q.weight 64x64\nunit last\n  parameter norm.weight 64\n";

static struct tagc_model *read_map(const char *text) {
  char path[] = "/tmp/test_layers.XXXXXX";
  struct tagc_complaint complaint = {0};
  int fd = mkstemp(path);
  bool wrote = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0;
  struct tagc_model *model = wrote ? tagc_mapfile_read(path, NULL, &complaint) : NULL;
  ok(model != NULL, "a map file %s", complaint.text);
  unlink(path);
  return model;
}

/* Checks which of the slot's members TAGC_SKIP leaves out: "." is selected. */
static void skips(const struct tagc_layers *layers, int i, const char *skip, const char *wanted) {
  const struct tagc_layer *layer = forward(layers, i);
  bool is[16];
  char got[17] = "";
  tagc_select_layer("@all", skip, 0, layer, is);
  for (size_t j = 0; j < layer->count; j++)
    got[j] = is[j] ? '.' : 'x';
  ok(!strcmp(got, wanted), "TAGC_SKIP=%s of %s: %s", skip, layer->name, got);
}

static void member_named(const struct tagc_layers *layers, int i, size_t member, const char *name) {
  char text[TAGC_MEMBER_NAME];
  tagc_layer_member_name(forward(layers, i), member, text, sizeof text);
  ok(!strcmp(text, name), "a parameter is %s: %s", name, text);
}

static void test_towers(void) {
  struct tagc_model *map = read_map(two_towers);
  make_slots(&slots, map, WRAP_ROOT, TAGC_LAYOUT_FSDP2, 4);
  struct tagc_layers *layers = infer(4, map);
  ok(layers->source == TAGC_LAYER_MAP && layers->confidence == 97, "an encoder and a decoder fit: %u%% sure %s",
     layers->confidence, why);
  named(layers, 3, "encoder.2");
  named(layers, 4, "decoder.0");
  named(layers, 7, "decoder.3");
  ok(forward(layers, 0)->count == 3, "the root has what lies before, between and behind them: %zu parameters",
     forward(layers, 0)->count);
  tagc_layers_free(layers);

  make_slots(&slots, map, WRAP_APART, TAGC_LAYOUT_FSDP2, 4);
  layers = infer(4, map);
  ok(layers->source == TAGC_LAYER_MAP && layers->confidence == 97, "so they do without a root: %u%% sure %s",
     layers->confidence, why);
  named(layers, 1, "encoder.0");
  named(layers, 4, "decoder.0");
  tagc_layers_free(layers);
  tagc_model_free(map);
}

static void test_names_in_maps(void) {
  struct tagc_model *map = read_map(two_stacks);
  make_slots(&slots, map, WRAP_ROOT, TAGC_LAYOUT_FSDP2, 4);
  struct tagc_layers *layers = infer(4, map);
  ok(layers->source == TAGC_LAYER_MAP, "the map fits: %s", why);
  named(layers, 1, SHORT ".0");
  named(layers, 3, SHORT ".2");
  named(layers, 4, LONG ".0");
  named(layers, 6, LONG ".2");
  member_named(layers, 2, 1, SHORT ".1.attn.q.weight");
  member_named(layers, 5, 1, LONG ".1.attn.q.weight");
  skips(layers, 2, SHORT ".*.attn*", ".x.");
  skips(layers, 5, SHORT ".*.attn*", "....");
  skips(layers, 5, LONG ".0-1.*attn*", ".x.x");
  skips(layers, 6, LONG ".0-1.*attn*", "....");
  skips(layers, 2, SHORT ".1", "xxx");
  skips(layers, 5, SHORT ".1", "....");
  skips(layers, 2, "block.*", "...");
  tagc_layers_free(layers);

  make_slots(&slots, map, WRAP_PAIRS, TAGC_LAYOUT_FSDP2, 4);
  layers = infer(4, map);
  named(layers, 1, SHORT ".0-1");
  named(layers, 2, SHORT ".2-" LONG ".0");
  named(layers, 3, LONG ".1-2");
  member_named(layers, 2, 2, SHORT ".2.mlp.up.weight");
  member_named(layers, 2, 5, LONG ".0.mlp.up.weight");
  skips(layers, 2, LONG ".*", "...xxxx");
  tagc_layers_free(layers);

  make_slots(&slots, map, WRAP_SUB_BLOCKS, TAGC_LAYOUT_FSDP2, 4);
  layers = infer(4, map);
  named(layers, 1, SHORT ".0.attn");
  named(layers, 8, LONG ".0.mlp");
  skips(layers, 8, LONG ".0.mlp", "x");
  tagc_layers_free(layers);
  tagc_model_free(map);

  /* Pairs of the same unit, but with numbers at unequal distances. */
  map = read_map("tagc-map 1\nunit tok\n  parameter tok.weight 1000x64\nunit h 0,1,3,7,8,9\n" BLOCK);
  make_slots(&slots, map, WRAP_PAIRS, TAGC_LAYOUT_FSDP2, 4);
  layers = infer(4, map);
  named(layers, 2, "h.3-7");
  member_named(layers, 2, 1, "h.3.attn.q.weight");
  member_named(layers, 2, 4, "h.7.attn.q.weight");
  skips(layers, 2, "h.7.attn", "....x.");
  tagc_layers_free(layers);
  tagc_model_free(map);
}

#define LARGE \
  "  parameter norm.weight 4096\n  parameter attn.q.weight 12288x4096\n  parameter mlp.up.weight 16384x4096\n"
#define AROUND(blocks) \
  "unit tok\n  parameter tok.weight 10000x4096\n" blocks "unit last\n  parameter norm.weight 4096\n"

static struct tagc_layers *infer_map(const struct tagc_model *map, enum wrapping wrapping,
                                     enum tagc_layout_kind layout) {
  make_slots(&slots, map, wrapping, layout, 4);
  struct tagc_layers *layers = infer(4, map);
  ok(layers->source == TAGC_LAYER_MAP, "the map fits: %s", why);
  return layers;
}

/* Of units in a guessed order slots have their parameters, but not the places of these. */
static void test_guessed_units(void) {
  struct tagc_model *map = read_map("tagc-map 1\n" AROUND("unit h 0-2\n  order guessed\n" LARGE "unit h 3-5\n" LARGE));
  struct tagc_layers *layers = infer_map(map, WRAP_ROOT, TAGC_LAYOUT_FSDP2);
  ok(forward(layers, 1)->is_guessed && forward(layers, 3)->is_guessed && !forward(layers, 0)->is_guessed &&
       !forward(layers, 4)->is_guessed,
     "slots of units in a guessed order are marked, and no others");
  skips(layers, 1, "norm", "x..");
  tagc_layers_free(layers);
  layers = infer_map(map, WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON);
  bool whole = true;
  for (int i = 0; i < (int)layers->count; i++) {
    const struct tagc_layer *layer = forward(layers, i);
    whole &= layer->is_guessed ? layer->count >= 3 : layer->count <= 3 && i > 6;
  }
  ok(whole && forward(layers, 2)->is_guessed && !forward(layers, -1)->is_guessed,
     "a bucket with parts of such units has all of their parameters");
  tagc_layers_free(layers);
  tagc_model_free(map);
}

static void test_guessed_models(void) {
  struct tagc_model *map = read_map("tagc-map 1\norder guessed\n" AROUND("unit h 0-5\n" LARGE));
  struct tagc_layers *layers = infer_map(map, WRAP_ROOT, TAGC_LAYOUT_FSDP2);
  ok(!forward(layers, 0)->is_guessed && !forward(layers, 1)->is_guessed,
     "where only the order of units is guessed, slots of one unit and the root are known");
  tagc_layers_free(layers);
  layers = infer_map(map, WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON);
  ok(layers->count > 2 && forward(layers, 0)->is_guessed && forward(layers, 0)->count == 20 &&
       forward(layers, -1)->members == forward(layers, 0)->members,
     "and each of %zu buckets has all parameters", layers->count);
  tagc_layers_free(layers);
  layers = infer_map(map, WRAP_WHOLE, TAGC_LAYOUT_FSDP1);
  ok(forward(layers, 0)->is_guessed, "as the whole model in one slot");
  tagc_layers_free(layers);
  tagc_model_free(map);
}

/* Slots with repeating sizes, in forward order. */
static void repeat(size_t count, uint64_t even, uint64_t odd) {
  slots.count = count;
  for (size_t i = 0; i < count; i++)
    slots.infos[count - 1 - i] = (struct tagc_slot_info){
      .unit = (uint32_t)i,
      .gathered = true,
      .signature = {
        .count = i % 2 ? odd : even, .collective = TAGC_COLL_REDUCE_SCATTER, .dtype = 7, .op = 1, .is_float = true}};
}

/* Models beyond the limits of size or time have only positions: that is no failure. */
static void test_limits(void) {
  static const struct {
    const char *what;
    size_t count;
    uint64_t even, odd;
    int nranks;
  } all[] = {
    {"16383 slots", 16383, 25300000, 25300000, 8},
    {"16383 blocks of GPT-2", 16383, 885985, 885985, 8},
    {"sizes of 1 and 2", 16383, 1, 2, 4096},
    {"600 blocks of GPT-2", 600, 885984, 885984, 8},
    {"huge blocks", 34, UINT64_C(49410000), UINT64_C(49410000), 4096},
    {"the largest sizes", 5, UINT64_MAX - 1, UINT64_MAX / 2, 4096},
    {"one of the largest", 1, INT64_MAX, 1, 1},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    repeat(all[i].count, all[i].even, all[i].odd);
    allocations = 0;
    struct tagc_layers *layers = infer(all[i].nranks, NULL);
    ok(layers && layers->source == TAGC_LAYER_POSITION && allocations < 100000,
       "%s have but positions, after %ld allocations%s%s", all[i].what, allocations, layers ? ": " : "",
       layers ? layers->what : "");
    tagc_layers_free(layers);
  }
  bool no_memory = false, in_model = true;
  for (long i = 0; i < 8; i++) {
    allocations_left = i;
    struct tagc_model *model = tagc_family_try(find("gpt2"), &no_memory);
    allocations_left = -1;
    in_model = in_model && !model && no_memory;
    tagc_model_free(model);
  }
  ok(in_model, "a model without memory says so");
}

/* Without memory there are no layers: never different ones from those of ranks with memory. */
static void fail_allocations(const struct tagc_model *model, const char *what) {
  for (int with_map = 0; with_map < 2; with_map++) {
    allocations = 0;
    struct tagc_layers *layers = infer(8, with_map ? model : NULL);
    long needed = allocations, wrong = 0, tried = 0;
    tagc_layers_free(layers);
    for (long i = 0; i < needed; i += 1 + i / 16) {
      allocations_left = i;
      layers = infer(8, with_map ? model : NULL);
      allocations_left = -1;
      wrong += layers != NULL;
      tried++;
      tagc_layers_free(layers);
    }
    ok(needed && !wrong, "%s: %ld of %ld allocations fail, each alone%s: %ld times there were layers", what, tried,
       needed, with_map ? ", with a map" : "", wrong);
  }
}

static void test_memory(void) {
  struct tagc_model *model = make("llama-3-8b", WRAP_ROOT, TAGC_LAYOUT_FSDP1, 8);
  fail_allocations(model, "blocks");
  tagc_model_free(model);
  model = make_forward_buckets();
  fail_allocations(model, "buckets");
  tagc_model_free(model);
}

int main(void) {
  test_names();
  test_words();
  test_whole();
  test_members();
  test_trainer();
  test_odd();
  test_maps_that_do_not_fit();
  test_forward_buckets();
  test_layouts();
  test_limits();
  test_towers();
  test_names_in_maps();
  test_guessed_units();
  test_guessed_models();
  test_memory();
  return tap_done();
}
