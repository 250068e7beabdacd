/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/infer/shapes.h"

enum { PROBE_EXPERTS = 11 };

/* All sizes that rows or columns of a parameter can have. Up to LAST_MULTIPLE they are multiples of hidden. */
enum size {
  HIDDEN,
  POSITIONS_HIDDEN,
  LAST_MULTIPLE = POSITIONS_HIDDEN,
  HEAD,
  QUERY,
  KEY,
  QUERY_KEY_VALUE,
  INTERMEDIATE,
  INTERMEDIATE_2,
  VOCABULARY,
  POSITIONS,
  EXPERTS,
  EXPERT,
  EXPERTS_EXPERT,
  EXPERT_HIDDEN,
  EXPERT_HIDDEN_2,
  SHARED,
  Q_RANK,
  KV_RANK,
  KV_RANK_ROPE,
  HEADS_NOPE_ROPE,
  HEADS_NOPE_V,
  HEADS_V
};
_Static_assert(HEADS_V + 1 == TAGC_SHAPE_SIZES, "an index for each size");

struct sizes {
  uint64_t of[TAGC_SHAPE_SIZES];
};

static struct sizes find_sizes(const struct tagc_architecture *a) {
  const uint64_t hidden = a->hidden, intermediate = a->intermediate, heads = a->heads, nope = a->nope_dim;
  const uint64_t query = heads * a->head_dim, key = (uint64_t)a->kv_heads * a->head_dim;
  return (struct sizes){{
    [HIDDEN] = hidden,
    [POSITIONS_HIDDEN] = a->positions * hidden,
    [HEAD] = a->head_dim,
    [QUERY] = query,
    [KEY] = key,
    [QUERY_KEY_VALUE] = query + 2 * key,
    [INTERMEDIATE] = intermediate,
    [INTERMEDIATE_2] = 2 * intermediate,
    [VOCABULARY] = a->vocabulary,
    [POSITIONS] = a->positions,
    [EXPERTS] = a->experts,
    [EXPERT] = a->expert_intermediate,
    [EXPERTS_EXPERT] = (uint64_t)a->experts * a->expert_intermediate,
    [EXPERT_HIDDEN] = a->expert_intermediate * hidden,
    [EXPERT_HIDDEN_2] = 2 * a->expert_intermediate * hidden,
    [SHARED] = a->shared_intermediate,
    [Q_RANK] = a->q_rank,
    [KV_RANK] = a->kv_rank,
    [KV_RANK_ROPE] = (uint64_t)a->kv_rank + a->rope_dim,
    [HEADS_NOPE_ROPE] = heads * (nope + a->rope_dim),
    [HEADS_NOPE_V] = heads * (nope + a->v_dim),
    [HEADS_V] = heads * a->v_dim,
  }};
}

/* The unknown that divides the size, as a bit; 0: none. */
static uint8_t unknown_of(uint8_t size) {
  switch (size) {
  case INTERMEDIATE:
  case INTERMEDIATE_2: return 1 << TAGC_UNKNOWN_INTERMEDIATE;
  case EXPERT:
  case EXPERTS_EXPERT:
  case EXPERT_HIDDEN:
  case EXPERT_HIDDEN_2:
  case SHARED: return 1 << TAGC_UNKNOWN_EXPERT;
  case VOCABULARY: return 1 << TAGC_UNKNOWN_VOCABULARY;
  case POSITIONS:
  case POSITIONS_HIDDEN: return 1 << TAGC_UNKNOWN_POSITIONS;
  default: return 0;
  }
}

/* Sizes that are all different, also after find_sizes() combines them. Sizes that the family lacks stay 0. */
static struct tagc_architecture make_probe(const struct tagc_architecture *kind) {
  struct tagc_architecture probe = *kind;
  const struct {
    uint32_t *size, prime;
  } sizes[] = {
    {&probe.intermediate, 20011},
    {&probe.positions, 5003},
    {&probe.experts, PROBE_EXPERTS},
    {&probe.expert_intermediate, 3001},
    {&probe.shared_intermediate, 4001},
    {&probe.dense_blocks, 1},
    {&probe.q_rank, 1511},
    {&probe.kv_rank, 521},
    {&probe.rope_dim, 67},
    {&probe.nope_dim, 131},
    {&probe.v_dim, 139},
  };
  probe.intermediate = probe.blocks = 2;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (*sizes[i].size)
      *sizes[i].size = sizes[i].prime;
  probe.hidden = 10007;
  probe.heads = 13;
  probe.kv_heads = 7;
  probe.head_dim = 1009;
  probe.vocabulary = 300007;
  return probe;
}

static uint8_t name_size(const struct sizes *sizes, uint64_t size, uint32_t *constant) {
  for (size_t i = 0; i < TAGC_SHAPE_SIZES; i++)
    if (sizes->of[i] == size)
      return (uint8_t)i;
  *constant = (uint32_t)size;
  return TAGC_SHAPE_SIZES;
}

static bool is_same_shape(const struct tagc_shape *a, const struct tagc_shape *b) {
  return a->rows == b->rows && a->columns == b->columns && a->keep == b->keep && a->constant_rows == b->constant_rows &&
         a->constant_columns == b->constant_columns;
}

static bool add_shape(struct tagc_shapes *shapes, const struct tagc_shape *shape) {
  size_t i = 0;
  while (i < shapes->count && !is_same_shape(&shapes->shapes[i], shape))
    i++;
  if (i == TAGC_SHAPES)
    return false;
  if (i == shapes->count)
    shapes->shapes[shapes->count++] = *shape;
  shapes->shapes[i].times++;
  shapes->keep |= shape->keep;
  for (int unknown = 0; unknown < TAGC_UNKNOWNS; unknown++)
    shapes->depends[unknown] |= shape->unknowns >> unknown & 1 ? shape->keep : 0;
  return true;
}

/* Reads the parameters at all places of the model; each unit has one place. */
static bool read_model(struct tagc_shapes *shapes, const struct tagc_model *model,
                       const struct tagc_architecture *probe) {
  const struct sizes sizes = find_sizes(probe);
  *shapes = (struct tagc_shapes){.count = 0};
  for (size_t place = 0; place < model->place_count; place++) {
    const struct tagc_unit *unit = &model->units[model->places[place].unit];
    for (size_t i = 0; i < unit->count; i++) {
      struct tagc_shape shape = {.keep = tagc_keep_of(model, place, &unit->parameters[i])};
      shape.rows = name_size(&sizes, unit->parameters[i].rows, &shape.constant_rows);
      shape.columns = name_size(&sizes, unit->parameters[i].columns, &shape.constant_columns);
      shape.unknowns = unknown_of(shape.rows) | unknown_of(shape.columns);
      if (!add_shape(shapes, &shape))
        return false;
    }
  }
  for (size_t i = 0; i < shapes->count; i++) {
    shapes->shapes[i].times_expert = shapes->shapes[i].times / PROBE_EXPERTS;
    shapes->shapes[i].times %= PROBE_EXPERTS;
  }
  return true;
}

bool tagc_shapes_block(struct tagc_shapes *shapes, const struct tagc_architecture *kind, bool dense) {
  struct tagc_architecture probe = make_probe(kind);
  struct tagc_model *model = tagc_model_create();
  bool done = model && tagc_model_add_unit(model, "block") && tagc_family_add_block(model, &probe, dense ? 0 : 1) &&
              tagc_model_add_place(model, 0, 0) && read_model(shapes, model, &probe);
  tagc_model_free(model);
  return done;
}

bool tagc_shapes_outside(struct tagc_shapes *shapes, const struct tagc_architecture *kind) {
  struct tagc_architecture probe = make_probe(kind);
  struct tagc_model *model = tagc_model_create();
  /* An empty block between them tells keep_of() which is which. */
  bool done = model && tagc_model_add_unit(model, "embed") && tagc_family_add_embedding(model, &probe) &&
              tagc_model_add_unit(model, "block") && tagc_model_add_unit(model, "head") &&
              tagc_family_add_head(model, &probe) && tagc_model_add_place(model, 0, -1) &&
              tagc_model_add_place(model, 1, 0) && tagc_model_add_place(model, 2, -1) &&
              read_model(shapes, model, &probe);
  tagc_model_free(model);
  return done;
}

/* Sums separately the shapes that are multiples of one of these unknowns (1) and the others (0). */
static void add_up(const struct tagc_shapes *shapes, const struct tagc_architecture *a, enum tagc_layout_kind layout,
                   uint32_t nranks, unsigned keep, unsigned unknowns, uint64_t sums[2]) {
  const struct sizes sizes = find_sizes(a);
  for (const struct tagc_shape *s = shapes->shapes; s < shapes->shapes + shapes->count; s++) {
    if (!(s->keep & keep))
      continue;
    uint64_t rows = s->rows == TAGC_SHAPE_SIZES ? s->constant_rows : sizes.of[s->rows];
    uint64_t columns = s->columns == TAGC_SHAPE_SIZES ? s->constant_columns : sizes.of[s->columns];
    sums[(s->unknowns & unknowns) != 0] +=
      tagc_layout_part(layout, rows, columns, (int)nranks) * (s->times + (uint64_t)s->times_expert * a->experts);
  }
}

uint64_t tagc_shapes_measure(const struct tagc_shapes *shapes, const struct tagc_architecture *a,
                             enum tagc_layout_kind layout, uint32_t nranks, unsigned keep) {
  uint64_t sums[2] = {0, 0};
  add_up(shapes, a, layout, nranks, keep, 0, sums);
  return sums[0];
}

uint64_t tagc_shapes_slope(const struct tagc_shapes *shapes, const struct tagc_architecture *a,
                           enum tagc_layout_kind layout, uint32_t nranks, unsigned keep, enum tagc_unknown unknown,
                           uint64_t *rest) {
  uint64_t sums[2] = {0, 0};
  add_up(shapes, a, layout, nranks, keep, 1u << unknown, sums);
  *rest = sums[0];
  return sums[1];
}

bool tagc_shapes_residue(const struct tagc_shapes *shapes, const struct tagc_architecture *a,
                         enum tagc_layout_kind layout, uint32_t nranks, uint64_t *modulus, uint64_t *residue) {
  bool flat = layout == TAGC_LAYOUT_FSDP1;
  *modulus = flat ? a->hidden : a->hidden / nranks;
  *residue = 0;
  if (!flat && a->hidden % nranks)
    return false;
  for (size_t i = 0; i < shapes->count; i++) {
    const struct tagc_shape *s = &shapes->shapes[i];
    if (s->rows <= LAST_MULTIPLE || s->columns <= LAST_MULTIPLE)
      continue;
    if (s->rows != HEAD || s->columns != TAGC_SHAPE_SIZES || s->times_expert)
      return false;
    uint64_t rows = flat ? a->head_dim : (a->head_dim + nranks - 1) / nranks;
    *residue += rows * s->constant_columns * s->times;
  }
  return true;
}
