/* SPDX-License-Identifier: BSD-3-Clause
 * The arithmetic of transformers identifies real models, wrapped and laid out as in frameworks, from sizes of slots.
 *
 * An answer is right if it divides blocks alike: Mistral is a Llama with another name. If queries, keys and values are
 * as wide as the stream, the number of heads does not matter. Indistinguishable models must be called ambiguous (a
 * confidence below 50); the table below lists them with the reasons. Confidently wrong is always wrong.
 */
#include "layermap/infer/solve.h"
#include "tests/unit/model/architectures.h"
#include "tests/unit/infer/solve_slots.h"
#include "tests/unit/tap.h"

/* Complete with gcc. Sanitizers and other compilers cover the same code paths in seconds: one number of ranks (three
 * divides few sizes, so everything is padded), and every third model, another third in each row. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || defined __clang__
static const int all_ranks[] = {3}, some_ranks[] = {3};
enum { EVERY = 3 };
#else
static const int all_ranks[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}, some_ranks[] = {3, 8};
enum { EVERY = 1 };
#endif
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A published width with an unpublished vocabulary size. */
#define RETRAINED "Pythia 70M, other words"

/* Facts that the counts do not determine. */
static const struct ambiguity {
  const char *prefix;     /* of the names of models */
  enum wrapping wrapping; /* WRAPPINGS: any */
  const char *why;
} ambiguities[] = {
  {"bert", WRAPPINGS, "other encoders have its sizes, and register the head before the embedding"},
  {"a BERT", WRAPPINGS, "other encoders have its sizes, and register the head before the embedding"},
  {"vit", WRAPPINGS, "transformers 4 registers norms behind the MLP, transformers 5 before it"},
  {"qwen3-30b", WRAPPINGS, "transformers 4 registers routers before experts, transformers 5 behind them"},
  {"qwen3-235b", WRAPPINGS, "transformers 4 registers routers before experts, transformers 5 behind them"},
  {"gpt2", WRAP_NO_ROOT, "blocks of GPT-2, GPT-NeoX, BERT and ViT have equally many parameters"},
  {"pythia", WRAP_NO_ROOT, "blocks of GPT-2, GPT-NeoX, BERT and ViT have equally many parameters"},
  {"gpt-neox", WRAP_NO_ROOT, "blocks of GPT-2, GPT-NeoX, BERT and ViT have equally many parameters"},
  {"a Llama of 1536", WRAP_ROOT, "half as many keys and a wider MLP fit as well"},
  {"wide queries", WRAP_ROOT, "queries as wide as the stream and a wider MLP fit as well"},
  {"OpenLlama 3B", WRAP_ROOT, "heads of 100 are rarer than fewer keys and a wider MLP"},
  {"Falcon3 3B", WRAP_ROOT, "wider queries and a narrower MLP fit as well"},
  {"35 heads", WRAP_ROOT, "so unusual a size is less likely than another family's"},
  {"a small Mixtral", WRAP_ROOT, "a key head for each query head and narrower experts fit as well"},
  {"a Qwen3 of 1536", WRAP_ROOT, "other numbers of heads with another MLP fit as well"},
  {"the trainer, 48 wide", WRAP_APART, "over many ranks counts of a few hundred say little"},
  {RETRAINED, WRAP_PAIRS, "no tokeniser has so many words; but the best guess must be right"},
  {"", WRAP_WHOLE, "32000 words of their own in the head, or 64000 tied"},
};

static const char *ambiguity(const char *name, enum wrapping wrapping) {
  for (size_t i = 0; i < COUNT(ambiguities); i++)
    if ((ambiguities[i].wrapping == wrapping || ambiguities[i].wrapping == WRAPPINGS) &&
        !strncmp(name, ambiguities[i].prefix, strlen(ambiguities[i].prefix)))
      return ambiguities[i].why;
  return NULL;
}

/* So many ranks hide words where each parameter is padded, and nothing else tells these blocks apart. */
static bool are_words_hidden(const struct tagc_architecture *a, enum tagc_layout_kind layout, int nranks) {
  const bool is_square = a->family == TAGC_FAMILY_GPT2 || a->family == TAGC_FAMILY_NEOX;
  return is_square && layout != TAGC_LAYOUT_FSDP1 && nranks > 32;
}

static enum tagc_family twin(enum tagc_family family) {
  return family == TAGC_FAMILY_MISTRAL ? TAGC_FAMILY_LLAMA : family;
}

static uint64_t width(const struct tagc_architecture *a, uint32_t heads) {
  uint64_t head = a->head_dim ? a->head_dim : a->hidden / a->heads;
  return heads ? heads * head : a->heads * head;
}

/* True if both divide blocks alike, and have the same vocabulary. */
static bool same(const struct tagc_architecture *a, const struct tagc_architecture *b, bool blocks_only) {
  if (twin(a->family) != twin(b->family) || a->hidden != b->hidden || a->blocks != b->blocks ||
      a->dense_blocks != b->dense_blocks)
    return false;
  if ((!a->experts || a->dense_blocks) && a->intermediate != b->intermediate)
    return false;
  if (a->experts != b->experts || a->expert_intermediate != b->expert_intermediate ||
      a->shared_intermediate != b->shared_intermediate)
    return false;
  if (a->kv_rank ? a->heads != b->heads || a->q_rank != b->q_rank
                 : width(a, 0) != width(b, 0) || width(a, a->kv_heads) != width(b, b->kv_heads))
    return false;
  return blocks_only || (a->vocabulary == b->vocabulary && a->tied == b->tied && a->positions == b->positions &&
                         a->pooler == b->pooler && a->masked_head == b->masked_head && a->labels == b->labels);
}

static const char *describe(const struct tagc_solution *s) {
  static char text[2][200];
  static int turn;
  const struct tagc_architecture *a = &s->architecture;
  turn ^= 1;
  snprintf(text[turn], sizeof *text,
           "%s %u/%u heads %u/%u x %u blocks %u words %llu%s experts %u x %u, %s, %zu odd (%u%%)",
           tagc_family_name(a->family), a->hidden, a->intermediate, a->heads, a->kv_heads, a->head_dim, a->blocks,
           (unsigned long long)a->vocabulary, a->tied ? " tied" : "", a->experts, a->expert_intermediate,
           tagc_layout_name(s->match.layout), s->match.odd, s->confidence);
  return text[turn];
}

struct tally {
  unsigned found, ambiguous, wrong;
};

struct task {
  const char *name;
  const struct tagc_architecture *a;
  enum wrapping wrapping;
  enum tagc_layout_kind layout;
  int nranks;
  bool megatron;
};

/* The model in Megatron-core, written by hand. */
static struct tagc_model *make_megatron(const struct tagc_architecture *a) {
  struct tagc_model *model = tagc_model_create();
  /* Norms and matrices have biases, no gates. */
  bool old = a->family == TAGC_FAMILY_GPT2 || a->family == TAGC_FAMILY_NEOX;
  uint64_t h = a->hidden, q = (uint64_t)a->heads * a->head_dim, qkv = q + 2 * (uint64_t)a->kv_heads * a->head_dim;
  uint64_t up = (old ? 1 : 2) * (uint64_t)a->intermediate;
  const struct {
    bool is_there;
    uint32_t kinds;
    uint64_t rows, columns;
  } block[] = {
    {true, TAGC_KIND_ATTN, h, q},
    {old, TAGC_KIND_ATTN, h, 1},
    {true, TAGC_KIND_NORM, h, 1},
    {old, TAGC_KIND_NORM, h, 1},
    {true, TAGC_KIND_ATTN, qkv, h},
    {old || a->family == TAGC_FAMILY_QWEN2, TAGC_KIND_ATTN, qkv, 1},
    {a->family == TAGC_FAMILY_QWEN3, TAGC_KIND_ATTN, a->head_dim, 1},
    {a->family == TAGC_FAMILY_QWEN3, TAGC_KIND_ATTN, a->head_dim, 1},
    {true, TAGC_KIND_NORM, h, 1},
    {old, TAGC_KIND_NORM, h, 1},
    {true, TAGC_KIND_MLP, up, h},
    {old, TAGC_KIND_MLP, up, 1},
    {true, TAGC_KIND_MLP, h, a->intermediate},
    {old, TAGC_KIND_MLP, h, 1},
  };
  tagc_model_add_unit(model, "embed");
  tagc_family_add_embedding(model, a);
  tagc_model_add_unit(model, "block");
  for (size_t i = 0; i < COUNT(block); i++)
    if (block[i].is_there)
      tagc_model_add_parameter(model, "some", block[i].kinds, block[i].rows, block[i].columns);
  tagc_model_add_unit(model, "head");
  tagc_family_add_head(model, a);
  tagc_model_add_place(model, 0, -1);
  for (uint32_t i = 0; i < a->blocks; i++)
    tagc_model_add_place(model, 1, (int32_t)i);
  tagc_model_add_place(model, 2, -1);
  return model;
}

/* Solves the slots of the model, and reports errors of the answer. */
static void solve_one(const struct task *t, struct tally *tally) {
  static struct slots slots;
  struct tagc_solution found[2];
  const struct tagc_architecture *a = t->a;
  const char *name = t->name;
  const enum wrapping wrapping = t->wrapping;
  const enum tagc_layout_kind layout = t->layout;
  const int nranks = t->nranks;
  struct tagc_model *model = t->megatron ? make_megatron(a) : tagc_family_model(a);
  make_slots(&slots, model, wrapping, layout, nranks);
  bool any = TAGC_FOUND == tagc_solve(slots.infos, slots.count, nranks, found);
  bool right = any && same(a, &found[0].architecture, found[0].blocks_only) && found[0].match.layout == layout &&
               !found[0].match.odd && found[0].blocks_only == (wrapping == WRAP_NO_ROOT) &&
               (!t->megatron || found[0].megatron);
  bool sure = any && found[0].confidence >= 50;
  if (right && sure) {
    tally->found++;
  } else if (!sure && (ambiguity(name, wrapping) || are_words_hidden(a, layout, nranks)) &&
             (right || strcmp(name, RETRAINED))) {
    tally->ambiguous++;
  } else {
    tally->wrong++;
    note("%s, %s, %s over %d ranks: %s", name, wrapping_names[wrapping], tagc_layout_name(layout), nranks,
         any ? describe(&found[0]) : "nothing");
    if (any && found[1].confidence)
      note("  or %s", describe(&found[1]));
  }
  tagc_model_free(model);
}

/* All models with this wrapping, over these numbers of ranks. */
static void solve_known(enum wrapping wrapping, enum tagc_layout_kind layout, const int *ranks, size_t rank_count) {
  static size_t rows;
  struct tally tally = {0, 0, 0};
  for (size_t i = rows++ % EVERY; i < KNOWN_MODELS; i += EVERY)
    for (size_t j = 0; j < rank_count; j++)
      solve_one(&(struct task){known_models[i].name, &known_models[i].a, wrapping, layout, ranks[j], false}, &tally);
  ok(!tally.wrong, "%s in %s: %u found, %u ambiguous, %u wrong", wrapping_names[wrapping], tagc_layout_name(layout),
     tally.found, tally.ambiguous, tally.wrong);
}

/* Unpublished models: only their round sizes help. */
static const struct known_model unpublished[] = {
#define GPT(label, h, n, layers, words, context) \
  { \
    label, 0, false, { \
      .family = TAGC_FAMILY_GPT2, .hidden = h, .intermediate = 4 * (h), .heads = n, .blocks = layers, \
      .vocabulary = words, .positions = context, .plain_linear = true \
    } \
  }
#define LLAMA(label, h, i, n, kv, head, layers, words, is_tied) \
  { \
    label, 0, false, { \
      .family = TAGC_FAMILY_LLAMA, .hidden = h, .intermediate = i, .heads = n, .kv_heads = kv, .head_dim = head, \
      .blocks = layers, .vocabulary = words, .tied = is_tied \
    } \
  }
  GPT("a small GPT", 1536, 12, 20, 50304, 1024),
  LLAMA("a Llama of 1024", 1024, 2816, 16, 16, 64, 24, 32000, false),
  LLAMA("a Llama of 1536", 1536, 4096, 12, 12, 128, 24, 32000, false),
  LLAMA("a Llama of 3072", 3072, 12288, 24, 8, 128, 32, 128256, false),
  LLAMA("Yi 6B", 4096, 11008, 32, 4, 128, 32, 64000, false),
  LLAMA("Granite 3B", 2560, 10240, 32, 32, 80, 32, 49152, true),
  LLAMA("Falcon3 3B", 3072, 9216, 12, 4, 256, 22, 131072, false),
  {"Minitron 4B",
   0,
   false,
   {.family = TAGC_FAMILY_MISTRAL,
    .hidden = 3072,
    .intermediate = 9216,
    .heads = 32,
    .kv_heads = 8,
    .head_dim = 128,
    .blocks = 32,
    .vocabulary = 128256}},
  {"wide queries",
   0,
   false,
   {.family = TAGC_FAMILY_MISTRAL,
    .hidden = 3072,
    .intermediate = 8192,
    .heads = 32,
    .kv_heads = 8,
    .head_dim = 128,
    .blocks = 28,
    .vocabulary = 128256}},
  LLAMA("OpenLlama 3B", 3200, 8640, 32, 32, 100, 26, 32000, false),
  LLAMA("35 heads", 2240, 6144, 35, 7, 64, 20, 50000, false),
  {"a Qwen2 of 1024",
   0,
   false,
   {.family = TAGC_FAMILY_QWEN2,
    .hidden = 1024,
    .intermediate = 2816,
    .heads = 16,
    .kv_heads = 16,
    .head_dim = 64,
    .blocks = 24,
    .vocabulary = 151936,
    .tied = true}},
  {"a Qwen3 of 1536",
   0,
   false,
   {.family = TAGC_FAMILY_QWEN3,
    .hidden = 1536,
    .intermediate = 4608,
    .heads = 16,
    .kv_heads = 4,
    .head_dim = 128,
    .blocks = 20,
    .vocabulary = 151936,
    .tied = true}},
  {"a small Mixtral",
   0,
   false,
   {.family = TAGC_FAMILY_MIXTRAL,
    .hidden = 2048,
    .heads = 32,
    .kv_heads = 8,
    .head_dim = 64,
    .blocks = 16,
    .vocabulary = 32000,
    .experts = 8,
    .expert_intermediate = 7168}},
  {"a BERT of 512",
   0,
   false,
   {.family = TAGC_FAMILY_BERT,
    .hidden = 512,
    .intermediate = 2048,
    .heads = 8,
    .blocks = 8,
    .vocabulary = 30522,
    .positions = 512,
    .tied = true,
    .masked_head = true}},
  {"a NeoX of 1536",
   0,
   false,
   {.family = TAGC_FAMILY_NEOX, .hidden = 1536, .intermediate = 6144, .heads = 24, .blocks = 20, .vocabulary = 50304}},
};

/* A published width with an unpublished vocabulary size: the known width must count for more. */
static const struct known_model retrained[] = {
  {RETRAINED,
   0,
   false,
   {.family = TAGC_FAMILY_NEOX, .hidden = 512, .intermediate = 2048, .heads = 8, .blocks = 6, .vocabulary = 50021}},
};

/* Trainings of examples/gpt: the embedding, each block, the head; flat. */
static const struct known_model trainings[] = {
  GPT("the trainer", 200, 5, 4, 256, 32),
  GPT("the trainer, 48 wide", 48, 4, 2, 256, 16),
  GPT("the trainer, 128 wide", 128, 4, 4, 256, 64),
  GPT("the trainer, 512 wide", 512, 8, 8, 256, 256),
  GPT("the trainer, 1024 wide", 1024, 16, 12, 256, 1024),
};

static void solve_table(const char *what, const struct known_model *models, size_t count, enum wrapping wrapping,
                        enum tagc_layout_kind last, const int *ranks, size_t rank_count) {
  struct tally tally = {0, 0, 0};
  for (size_t i = 0; i < count; i++)
    for (size_t j = 0; j < rank_count; j++)
      for (int layout = TAGC_LAYOUT_FSDP1; layout <= (int)last; layout += TAGC_LAYOUT_FSDP2)
        solve_one(
          &(struct task){models[i].name, &models[i].a, wrapping, (enum tagc_layout_kind)layout, ranks[j], false},
          &tally);
  ok(!tally.wrong, "%s: %u found, %u ambiguous, %u wrong", what, tally.found, tally.ambiguous, tally.wrong);
}

/* Buckets of Megatron's own models. */
static void solve_megatron(void) {
  struct tally tally = {0, 0, 0};
  for (size_t i = 0; i < KNOWN_MODELS; i++) {
    const struct tagc_architecture *a = &known_models[i].a;
    bool has_form = a->family == TAGC_FAMILY_GPT2 || a->family == TAGC_FAMILY_NEOX || a->family == TAGC_FAMILY_LLAMA ||
                    a->family == TAGC_FAMILY_MISTRAL || a->family == TAGC_FAMILY_QWEN2 ||
                    a->family == TAGC_FAMILY_QWEN3;
    for (size_t j = 0; j < COUNT(some_ranks) && has_form; j++)
      solve_one(&(struct task){known_models[i].name, a, WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, some_ranks[j], true},
                &tally);
  }
  ok(!tally.wrong, "buckets of Megatron's own models: %u found, %u ambiguous, %u wrong", tally.found, tally.ambiguous,
     tally.wrong);
}

static void refuse_irregular(void) {
  static struct slots slots;
  struct tagc_solution found[2];
  struct tagc_model *model = tagc_family_model(&known_models[13].a);
  make_slots(&slots, model, WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, 8);
  size_t at = slots.count / 2;
  slots.infos[at].signature.count += slots.infos[at + 1].signature.count;
  slots.infos[at].unit = slots.infos[at + 1].unit;
  memmove(&slots.infos[at + 1], &slots.infos[at + 2], (slots.count - at - 2) * sizeof *slots.infos);
  slots.count--;
  for (size_t i = 0; i <= at - 1; i++)
    slots.infos[i].unit--;
  bool any = tagc_solve(slots.infos, slots.count, 8, found) == TAGC_FOUND;
  ok(!any || found[0].confidence < 50, "%s with two buckets in one: %s", known_models[13].name,
     any ? describe(&found[0]) : "nothing");
  tagc_model_free(model);
}

/* Values unknown to the search (the vocabulary, or the widths), cut in ways that other models explain as well. */
static const struct {
  struct known_model model;
  enum wrapping wrapping;
  enum tagc_layout_kind layout;
  int nranks;
  uint8_t op;
  bool megatron;
} misleading[] = {
#define QWEN2(label, h, i, n, layers, words) \
  { \
    label, 0, false, { \
      .family = TAGC_FAMILY_QWEN2, .hidden = h, .intermediate = i, .heads = n, .kv_heads = n, .head_dim = (h) / (n), \
      .blocks = layers, .vocabulary = words, .tied = true \
    } \
  }
#define GPT2(label, h, n, layers, words, context, plain, bare) \
  { \
    label, 0, false, { \
      .family = TAGC_FAMILY_GPT2, .hidden = h, .intermediate = 4 * (h), .heads = n, .kv_heads = n, \
      .head_dim = (h) / (n), .blocks = layers, .vocabulary = words, .positions = context, .tied = true, \
      .plain_linear = plain, .no_bias = bare \
    } \
  }
  {QWEN2("Qwen1.5 0.5B, a narrower MLP", 1024, 2560, 16, 24, 151936), WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, 64, 0, true},
  {LLAMA("MobileLLM 600M", 1152, 3072, 18, 6, 64, 40, 32000, true), WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, 64, 0, true},
  {GPT2("Cerebras-GPT 1.3B", 2048, 16, 24, 50257, 2048, false, false), WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, 8, 0, true},
  {GPT2("Cerebras-GPT 1.3B", 2048, 16, 24, 50257, 2048, false, false), WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, 8, 1, false},
  {{"Qwen3 4B, fewer words",
    0,
    false,
    {.family = TAGC_FAMILY_QWEN3,
     .hidden = 2560,
     .intermediate = 9728,
     .heads = 32,
     .kv_heads = 8,
     .head_dim = 128,
     .blocks = 36,
     .vocabulary = 151669,
     .tied = true}},
   WRAP_BUCKETS,
   TAGC_LAYOUT_MEGATRON,
   64,
   0,
   true},
  {LLAMA("SmolLM2 360M", 960, 2560, 15, 5, 64, 32, 49152, true), WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, 512, 0, true},
  {GPT2("nanoGPT", 768, 12, 12, 50304, 1024, true, true), WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, 512, 0, false},
  {GPT2("a GPT of 2048", 2048, 16, 24, 50304, 2048, true, false), WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, 8, 1, false},
#define MOONLIGHT \
  { \
    "Moonlight", 0, false, { \
      .family = TAGC_FAMILY_DEEPSEEK, .hidden = 2048, .intermediate = 11264, .heads = 16, .blocks = 27, \
      .vocabulary = 163840, .experts = 64, .expert_intermediate = 1408, .shared_intermediate = 2816, \
      .dense_blocks = 1, .kv_rank = 512, .rope_dim = 64, .nope_dim = 128, .v_dim = 128 \
    } \
  }
  {MOONLIGHT, WRAP_PAIRS, TAGC_LAYOUT_ZERO3, 3, 0, false},
  {MOONLIGHT, WRAP_PAIRS, TAGC_LAYOUT_FSDP1, 3, 0, false},
  {MOONLIGHT, WRAP_PAIRS, TAGC_LAYOUT_FSDP2, 8, 1, false},
};

static void doubt_misleading(void) {
  static struct slots slots;
  struct tagc_solution found[2];
  for (size_t i = 0; i < COUNT(misleading); i++) {
    const struct tagc_architecture *a = &misleading[i].model.a;
    struct tagc_model *model = misleading[i].megatron ? make_megatron(a) : tagc_family_model(a);
    make_slots(&slots, model, misleading[i].wrapping, misleading[i].layout, misleading[i].nranks);
    for (size_t j = 0; j < slots.count; j++)
      slots.infos[j].signature.op = misleading[i].op;
    bool any = tagc_solve(slots.infos, slots.count, misleading[i].nranks, found) == TAGC_FOUND;
    ok(!any || found[0].confidence < 50, "%s, %s, %s over %d ranks is doubted: %s", misleading[i].model.name,
       wrapping_names[misleading[i].wrapping], tagc_layout_name(misleading[i].layout), misleading[i].nranks,
       any ? describe(&found[0]) : "nothing");
    tagc_model_free(model);
  }
}

/* The reduction tells layouts of equal counts apart; but both use sums for half precision. */
static void tell_layouts(void) {
  static const struct {
    uint8_t dtype, op;
    bool sure;
    enum tagc_layout_kind layout;
  } reductions[] = {
    {7, 0, true, TAGC_LAYOUT_FSDP1}, {9, 0, true, TAGC_LAYOUT_FSDP1}, {7, 4, true, TAGC_LAYOUT_FSDP2},
    {9, 4, true, TAGC_LAYOUT_FSDP2}, {7, 5, true, TAGC_LAYOUT_FSDP2}, {6, 0, false, TAGC_LAYOUTS},
  };
  static struct slots slots;
  struct tagc_solution found[2];
  size_t which = 0;
  while (strcmp(known_models[which].name, "llama-3-8b"))
    which++;
  struct tagc_model *model = tagc_family_model(&known_models[which].a);
  for (size_t i = 0; i < COUNT(reductions); i++)
    for (int nranks = 8; nranks <= 64; nranks *= 8) {
      make_slots(&slots, model, WRAP_ROOT, TAGC_LAYOUT_FSDP2, nranks);
      for (size_t j = 0; j < slots.count; j++) {
        slots.infos[j].signature.op = reductions[i].op;
        slots.infos[j].signature.dtype = reductions[i].dtype;
      }
      bool any = tagc_solve(slots.infos, slots.count, nranks, found) == TAGC_FOUND;
      ok(any && (found[0].confidence >= 50) == reductions[i].sure &&
           (!reductions[i].sure || found[0].match.layout == reductions[i].layout),
         "operation %u of type %u over %d ranks: %s", reductions[i].op, reductions[i].dtype, nranks,
         describe(&found[0]));
    }
  tagc_model_free(model);
}

int main(void) {
  for (int layout = TAGC_LAYOUT_FSDP1; layout <= TAGC_LAYOUT_FSDP2; layout += TAGC_LAYOUT_FSDP2 - TAGC_LAYOUT_FSDP1) {
    solve_known(WRAP_ROOT, (enum tagc_layout_kind)layout, all_ranks, COUNT(all_ranks));
    solve_known(WRAP_APART, (enum tagc_layout_kind)layout, some_ranks, COUNT(some_ranks));
    solve_known(WRAP_SUB_BLOCKS, (enum tagc_layout_kind)layout, some_ranks, COUNT(some_ranks));
    solve_known(WRAP_PAIRS, (enum tagc_layout_kind)layout, some_ranks, COUNT(some_ranks));
    solve_known(WRAP_NO_ROOT, (enum tagc_layout_kind)layout, some_ranks, COUNT(some_ranks));
    solve_known(WRAP_WHOLE, (enum tagc_layout_kind)layout, some_ranks, COUNT(some_ranks));
  }
  solve_known(WRAP_ROOT, TAGC_LAYOUT_ZERO3, some_ranks, COUNT(some_ranks));
  solve_known(WRAP_BUCKETS, TAGC_LAYOUT_ZERO3, some_ranks, COUNT(some_ranks));
  solve_known(WRAP_BUCKETS, TAGC_LAYOUT_MEGATRON, some_ranks, COUNT(some_ranks));
  solve_megatron();
  refuse_irregular();
  doubt_misleading();
  tell_layouts();
  solve_table("unpublished models", unpublished, COUNT(unpublished), WRAP_ROOT, TAGC_LAYOUT_FSDP2, some_ranks,
              COUNT(some_ranks));
  solve_table("published widths, other words", retrained, COUNT(retrained), WRAP_PAIRS, TAGC_LAYOUT_FSDP1, some_ranks,
              COUNT(some_ranks));
  solve_table("examples/gpt", trainings, COUNT(trainings), WRAP_APART, TAGC_LAYOUT_FSDP1, all_ranks, COUNT(all_ranks));
  return tap_done();
}
