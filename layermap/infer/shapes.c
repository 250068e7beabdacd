/* SPDX-License-Identifier: BSD-3-Clause
 * See shapes.h.
 */
#include "layermap/infer/shapes.h"

enum { PROBE_EXPERTS = 37 };

/* Everything that rows or columns of a parameter can be. Those up to LAST_MULTIPLE are multiples of the hidden size. */
enum size { HIDDEN, HIDDEN_2, HIDDEN_3, POSITIONS_HIDDEN, EXPERT_HIDDEN, LAST_MULTIPLE, HEAD = LAST_MULTIPLE + 1, OTHERS };

/* `values` has room for TAGC_SHAPE_SIZES. Returns how many there are. */
static size_t find_sizes(const struct tagc_architecture *a, uint64_t *values)
{
  uint64_t h = a->hidden, q = (uint64_t)a->heads * a->head_dim, kv = (uint64_t)a->kv_heads * a->head_dim, heads = a->heads;
  uint64_t expert = a->expert_intermediate, experts = a->experts;
  const uint64_t all[] = {
    [HIDDEN] = h, [HIDDEN_2] = 2 * h, [HIDDEN_3] = 3 * h, [POSITIONS_HIDDEN] = a->positions * h, [EXPERT_HIDDEN] = expert * h,
    [LAST_MULTIPLE] = 2 * expert * h, [HEAD] = a->head_dim,
    [OTHERS] = q, kv, 2 * kv, q + 2 * kv, 3 * q, a->intermediate, 2 * (uint64_t)a->intermediate, heads, a->vocabulary, a->positions,
    experts, expert, 2 * expert, experts * expert, 2 * experts * expert, a->shared_intermediate, 2 * (uint64_t)a->shared_intermediate,
    a->q_rank, a->kv_rank, (uint64_t)a->kv_rank + a->rope_dim, heads * ((uint64_t)a->nope_dim + a->rope_dim),
    heads * ((uint64_t)a->nope_dim + a->v_dim), heads * a->v_dim,
  };
  _Static_assert(sizeof all / sizeof *all <= TAGC_SHAPE_SIZES, "more sizes than indices");
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    values[i] = all[i];
  return sizeof all / sizeof *all;
}

/* Sizes of which no two are equal, nor any two of what find_sizes() makes of them. What the family does not have stays 0. */
static struct tagc_architecture make_probe(const struct tagc_architecture *kind)
{
  struct tagc_architecture probe = *kind;
  const struct { uint32_t *size, prime; } sizes[] = {
    {&probe.intermediate, 20011}, {&probe.positions, 5003}, {&probe.experts, PROBE_EXPERTS}, {&probe.expert_intermediate, 3001},
    {&probe.shared_intermediate, 4001}, {&probe.dense_blocks, 1}, {&probe.q_rank, 1511}, {&probe.kv_rank, 521}, {&probe.rope_dim, 67},
    {&probe.nope_dim, 131}, {&probe.v_dim, 139},
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

static uint8_t name_size(const uint64_t *values, size_t count, uint64_t size, uint32_t *constant)
{
  for (size_t i = 0; i < count; i++)
    if (values[i] == size)
      return (uint8_t)i;
  *constant = (uint32_t)size;
  return TAGC_SHAPE_SIZES;
}

static bool equal(const struct tagc_shape *a, const struct tagc_shape *b)
{
  return a->rows == b->rows && a->columns == b->columns && a->keep == b->keep && a->constant_rows == b->constant_rows &&
         a->constant_columns == b->constant_columns;
}

static bool add_shape(struct tagc_shapes *shapes, const struct tagc_shape *shape)
{
  size_t i = 0;
  while (i < shapes->count && !equal(&shapes->shapes[i], shape))
    i++;
  if (i == TAGC_SHAPES)
    return false;
  if (i == shapes->count)
    shapes->shapes[shapes->count++] = *shape;
  shapes->shapes[i].times++;
  return true;
}

/* The parameters of all places of the model, of which each unit stands at one. */
static bool read_model(struct tagc_shapes *shapes, const struct tagc_model *model, const struct tagc_architecture *probe)
{
  uint64_t values[TAGC_SHAPE_SIZES];
  size_t known = find_sizes(probe, values);
  shapes->count = 0;
  for (size_t place = 0; place < model->place_count; place++) {
    const struct tagc_unit *unit = &model->units[model->places[place].unit];
    for (size_t i = 0; i < unit->count; i++) {
      struct tagc_shape shape = {.keep = tagc_keep_of(model, place, &unit->parameters[i])};
      shape.rows = name_size(values, known, unit->parameters[i].rows, &shape.constant_rows);
      shape.columns = name_size(values, known, unit->parameters[i].columns, &shape.constant_columns);
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

bool tagc_shapes_block(struct tagc_shapes *shapes, const struct tagc_architecture *kind, bool dense)
{
  struct tagc_architecture probe = make_probe(kind);
  struct tagc_model *model = tagc_model_create();
  bool done = model && tagc_model_add_unit(model, "block") && tagc_family_add_block(model, &probe, dense ? 0 : 1) &&
              tagc_model_add_place(model, 0, 0) && read_model(shapes, model, &probe);
  tagc_model_free(model);
  return done;
}

bool tagc_shapes_outside(struct tagc_shapes *shapes, const struct tagc_architecture *kind)
{
  struct tagc_architecture probe = make_probe(kind);
  struct tagc_model *model = tagc_model_create();
  /* A block without parameters between them tells keep_of() which is which. */
  bool done = model && tagc_model_add_unit(model, "embed") && tagc_family_add_embedding(model, &probe) &&
              tagc_model_add_unit(model, "block") && tagc_model_add_unit(model, "head") && tagc_family_add_head(model, &probe) &&
              tagc_model_add_place(model, 0, -1) && tagc_model_add_place(model, 1, 0) && tagc_model_add_place(model, 2, -1) &&
              read_model(shapes, model, &probe);
  tagc_model_free(model);
  return done;
}

uint64_t tagc_shapes_measure(const struct tagc_shapes *shapes, const struct tagc_architecture *a, enum tagc_layout_kind layout,
                             uint32_t nranks, unsigned keep)
{
  uint64_t values[TAGC_SHAPE_SIZES + 1], sum = 0;
  find_sizes(a, values);
  for (size_t i = 0; i < shapes->count; i++) {
    const struct tagc_shape *s = &shapes->shapes[i];
    if (!(s->keep & keep))
      continue;
    uint64_t rows = s->rows == TAGC_SHAPE_SIZES ? s->constant_rows : values[s->rows];
    uint64_t columns = s->columns == TAGC_SHAPE_SIZES ? s->constant_columns : values[s->columns];
    sum += tagc_layout_part(layout, rows, columns, (int)nranks) * (s->times + (uint64_t)s->times_expert * a->experts);
  }
  return sum;
}

bool tagc_shapes_residue(const struct tagc_shapes *shapes, const struct tagc_architecture *a, enum tagc_layout_kind layout,
                         uint32_t nranks, uint64_t *modulus, uint64_t *residue)
{
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
