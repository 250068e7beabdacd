/* SPDX-License-Identifier: BSD-3-Clause
 * Models from checkpoints; see safetensors.h. The parameters of all files are sorted by stack, block and order, so that
 * units are taken one after the other.
 */
#include "layermap/tagc-map/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layermap/tagc-map/header.h"
#include "layermap/tagc-map/order.h"

/* Enough stacks for any model. */
enum { STACKS = 64 };

/* In forward order: outside blocks, other stacks, the main one, decoders, outside blocks again. */
enum { BEFORE = -1, OTHERS = 0, MAIN = STACKS, DECODERS = STACKS + 1, BEHIND = 3 * STACKS };

struct tensor {
  const char *name; /* full */
  const char *own;  /* within its block; outside blocks the full name */
  uint64_t rows, columns;
  int stack; /* index; after order_tensors() the place in forward order */
  int32_t block;
  struct tagc_order order;
  bool is_guessed; /* that order */
};

/* Names with a number, grouped by the text before the number. */
struct stack {
  const char *prefix; /* "model.layers.", with its dot */
  size_t length;
  uint64_t elements;
  int32_t blocks; /* 0: not blocks */
};

struct checkpoint {
  struct tensor *tensors;
  size_t tensor_count;
  struct stack stacks[STACKS];
  int stack_count, main_stack; /* main_stack = -1: no blocks */
  bool is_guessed;             /* the order of units */
  struct tagc_complaint *complaint;
};

static int by_place(const void *a, const void *b) {
  const struct tensor *x = a, *y = b;
  const int64_t differences[] = {(int64_t)x->stack - y->stack,           (int64_t)x->block - y->block,
                                 (int64_t)x->order.part - y->order.part, (int64_t)x->order.number - y->order.number,
                                 (int64_t)x->order.item - y->order.item, (int64_t)x->order.is_bias - y->order.is_bias};
  for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
    if (differences[i])
      return differences[i] < 0 ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* The first numeric component, and the text behind it; NULL: none. */
static const char *find_number(const char *name, const char **rest, int32_t *number) {
  for (const char *at = name; at; at = strchr(at, '.')) {
    at += *at == '.';
    size_t digits = strspn(at, "0123456789");
    if (digits >= 1 && digits <= 5 && at > name && at[digits] == '.' && at[digits + 1]) {
      *number = (int32_t)strtol(at, NULL, 10);
      *rest = at + digits + 1;
      return at;
    }
  }
  return NULL;
}

static int find_stack(struct checkpoint *c, const char *name, size_t length) {
  for (int i = 0; i < c->stack_count; i++)
    if (c->stacks[i].length == length && !memcmp(c->stacks[i].prefix, name, length))
      return i;
  if (c->stack_count == STACKS)
    return -1;
  c->stacks[c->stack_count] = (struct stack){.prefix = name, .length = length};
  return c->stack_count++;
}

/* True if a stack's blocks have no gap in their numbers. (*missing: the first gap.) Tensors are sorted by place. */
static bool is_whole_stack(const struct checkpoint *c, int stack, int32_t *missing) {
  *missing = 0;
  for (size_t i = 0; i < c->tensor_count; i++) {
    const struct tensor *t = &c->tensors[i];
    if (t->stack != stack || t->block < *missing)
      continue;
    if (t->block > *missing)
      return false;
    ++*missing;
  }
  return true;
}

/* Assigns stacks and blocks to tensors. Numbered non-blocks (nn.Sequential, one of several heads) have no stack. */
static bool find_stacks(struct checkpoint *c) {
  for (size_t i = 0; i < c->tensor_count; i++) {
    struct tensor *t = &c->tensors[i];
    const char *rest, *number = find_number(t->name, &rest, &t->block);
    t->stack = number ? find_stack(c, t->name, (size_t)(number - t->name)) : -1;
    if (t->stack >= 0) {
      t->own = rest;
      c->stacks[t->stack].elements += t->rows * t->columns;
    }
  }
  qsort(c->tensors, c->tensor_count, sizeof *c->tensors, by_place);
  c->main_stack = -1;
  for (int i = 0; i < c->stack_count; i++)
    if (c->main_stack < 0 || c->stacks[i].elements > c->stacks[c->main_stack].elements)
      c->main_stack = i;
  for (int i = 0; i < c->stack_count; i++) {
    int32_t missing;
    bool whole = is_whole_stack(c, i, &missing);
    if (!whole && i == c->main_stack)
      return tagc_file_complain(c->complaint, "block %d of %.*s is missing; expected are all files of a checkpoint",
                                (int)missing, (int)(c->stacks[i].length < 80 ? c->stacks[i].length - 1 : 80),
                                c->stacks[i].prefix);
    c->stacks[i].blocks = whole && (missing > 1 || i == c->main_stack) ? missing : 0;
  }
  return true;
}

/* -- the model ----------------------------------------------------------------------------------------------------- */

static bool are_one_unit(const struct tensor *a, const struct tensor *b) {
  return a->stack == b->stack && a->block == b->block;
}

static int stack_place(const struct checkpoint *c, int stack) {
  const struct stack *s = &c->stacks[stack];
  return stack == c->main_stack ? MAIN : (memmem(s->prefix, s->length, "decoder", 7) ? DECODERS : OTHERS) + stack;
}

/* Tensors outside blocks have BEHIND as their stack until their order tells more. */
static void find_outside(struct checkpoint *c) {
  for (size_t i = 0; i < c->tensor_count; i++) {
    struct tensor *t = &c->tensors[i];
    if (t->stack >= 0 && c->stacks[t->stack].blocks) {
      t->stack = stack_place(c, t->stack);
      continue;
    }
    t->own = t->name;
    t->block = -1;
    t->stack = BEHIND;
  }
  qsort(c->tensors, c->tensor_count, sizeof *c->tensors, by_place);
}

/* The tensors of one block, or all outside blocks, to be ordered. */
struct unit {
  struct tensor *tensors;
  size_t count;
  const char **names;
  struct tagc_order *orders;
};

static void order_unit(struct checkpoint *c, const struct unit *unit, const struct tagc_naming *naming) {
  const bool is_block = unit->tensors->block >= 0;
  for (size_t i = 0; i < unit->count; i++)
    unit->names[i] = unit->tensors[i].own;
  enum tagc_order_source source =
    (is_block ? tagc_order_block : tagc_order_outside)(naming, unit->names, unit->count, unit->orders);
  for (size_t i = 0; i < unit->count; i++) {
    struct tensor *t = &unit->tensors[i];
    t->order = unit->orders[i];
    t->is_guessed = source == TAGC_ORDER_GUESSED;
    if (!is_block && !t->order.is_behind)
      t->stack = BEFORE;
  }
  /* The places of several stacks among the parameters outside are not known. */
  c->is_guessed |= is_block ? unit->tensors->stack != MAIN : source != TAGC_ORDER_KNOWN;
}

/* The naming that the names outside blocks reveal. */
static const struct tagc_naming *find_naming(const struct checkpoint *c, const struct unit *room) {
  size_t count = 0;
  for (size_t i = 0; i < c->tensor_count; i++)
    if (c->tensors[i].block < 0)
      room->names[count++] = c->tensors[i].name;
  return tagc_naming_find(room->names, count, room->orders);
}

static bool order_tensors(struct checkpoint *c) {
  struct unit unit = {.names = calloc(c->tensor_count, sizeof *unit.names),
                      .orders = calloc(c->tensor_count, sizeof *unit.orders)};
  const bool has_memory = unit.names && unit.orders;
  find_outside(c);
  const struct tagc_naming *naming = has_memory ? find_naming(c, &unit) : NULL;
  for (size_t i = 0; i < c->tensor_count && has_memory; i += unit.count) {
    unit.tensors = &c->tensors[i];
    unit.count = 1;
    while (i + unit.count < c->tensor_count && are_one_unit(unit.tensors, unit.tensors + unit.count))
      unit.count++;
    order_unit(c, &unit, naming);
  }
  free(unit.names);
  free(unit.orders);
  qsort(c->tensors, c->tensor_count, sizeof *c->tensors, by_place);
  return has_memory || tagc_file_complain(c->complaint, "there is no memory for what is in the header");
}

static bool refuse_model(const struct checkpoint *c) {
  return tagc_file_complain(c->complaint,
                            "there is more in it than a model may have (or no memory for it); expected are at most %d "
                            "different parameters, %d blocks and names of %d letters",
                            TAGC_MODEL_PARAMETERS, TAGC_MODEL_PLACES, TAGC_PARAMETER_NAME - 1);
}

/* Routers exist for experts: without any, an apparent router is the gate of an MLP. */
static uint32_t kinds_of(const struct tensor *t, bool has_experts) {
  uint32_t kinds = tagc_kinds_of_name(t->name);
  bool is_router = (kinds & ~(uint32_t)TAGC_KIND_BIAS) == TAGC_KIND_EXPERT;
  return is_router && !has_experts ? TAGC_KIND_MLP | (kinds & TAGC_KIND_BIAS) : kinds;
}

static bool is_like(const struct tagc_unit *unit, const struct tensor *tensors, size_t count) {
  bool is_so = unit->count == count && unit->is_guessed == tensors->is_guessed;
  for (size_t i = 0; is_so && i < count; i++) {
    const struct tagc_parameter *p = &unit->parameters[i];
    is_so = p->rows == tensors[i].rows && p->columns == tensors[i].columns && !strcmp(p->name, tensors[i].own);
  }
  return is_so;
}

/* Adds a unit of these tensors, unless an equal one exists from `first` on, and its place. */
static bool add_tensor_unit(struct tagc_model *model, const char *name, size_t first, const struct tensor *tensors,
                            size_t count) {
  for (size_t i = first; i < model->unit_count; i++)
    if (is_like(&model->units[i], tensors, count))
      return tagc_model_add_place(model, (uint32_t)i, tensors->block);
  if (!tagc_model_add_unit(model, name))
    return false;
  model->units[model->unit_count - 1].is_guessed = tensors->is_guessed;
  bool has_experts = false;
  for (size_t i = 0; i < count; i++)
    has_experts |=
      (tagc_kinds_of_name(tensors[i].name) & (TAGC_KIND_EXPERT | TAGC_KIND_MLP)) == (TAGC_KIND_EXPERT | TAGC_KIND_MLP);
  for (size_t i = 0; i < count; i++)
    if (!tagc_model_add_parameter(model, tensors[i].own, kinds_of(&tensors[i], has_experts), tensors[i].rows,
                                  tensors[i].columns))
      return false;
  return tagc_model_add_place(model, (uint32_t)model->unit_count - 1, tensors->block);
}

/* The name of a stack's units: "block" for the main one, for others as much of their prefix's end as fits. */
static void name_stack(const struct checkpoint *c, int place, char name[TAGC_UNIT_NAME]) {
  const char *fixed = place == BEFORE ? "embed" : place == BEHIND ? "head" : place == MAIN ? "block" : NULL;
  if (fixed) {
    strcpy(name, fixed);
    return;
  }
  const struct stack *s = &c->stacks[place >= DECODERS ? place - DECODERS : place - OTHERS];
  const char *begin = s->prefix, *end = s->prefix + s->length - 1;
  while (end - begin >= TAGC_UNIT_NAME) {
    const char *dot = memchr(begin, '.', (size_t)(end - begin));
    begin = dot ? dot + 1 : end - (TAGC_UNIT_NAME - 1);
  }
  snprintf(name, TAGC_UNIT_NAME, "%.*s", (int)(end - begin), begin);
}

static struct tagc_model *make_model(const struct checkpoint *c) {
  struct tagc_model *model = tagc_model_create();
  size_t first = 0; /* unit of this stack */
  if (model)
    model->is_guessed = c->is_guessed;
  for (size_t i = 0, end; model && i < c->tensor_count; i = end) {
    const struct tensor *t = &c->tensors[i];
    char name[TAGC_UNIT_NAME];
    name_stack(c, t->stack, name);
    if (i == 0 || t[-1].stack != t->stack)
      first = model->unit_count;
    for (end = i; end < c->tensor_count && are_one_unit(t, &c->tensors[end]);)
      end++;
    if (!add_tensor_unit(model, name, first, t, end - i)) {
      tagc_model_free(model);
      model = NULL;
    }
  }
  if (!model)
    refuse_model(c);
  return model;
}

static bool take_tensors(struct checkpoint *c, const struct tagc_headers *headers) {
  c->tensors = calloc(headers->tensor_count, sizeof *c->tensors);
  if (!c->tensors)
    return tagc_file_complain(c->complaint, "there is no memory for what is in the header");
  c->tensor_count = headers->tensor_count;
  for (size_t i = 0; i < c->tensor_count; i++) {
    const struct tagc_tensor *t = &headers->tensors[i];
    c->tensors[i] =
      (struct tensor){.name = t->name, .own = t->name, .rows = t->rows, .columns = t->columns, .block = -1};
  }
  return true;
}

struct tagc_model *tagc_map_from_safetensors(char *const *paths, int count, struct tagc_complaint *complaint) {
  struct checkpoint c = {.complaint = complaint};
  struct tagc_headers headers;
  struct tagc_model *model = NULL;
  if (tagc_headers_read(&headers, paths, count, complaint) && take_tensors(&c, &headers) && find_stacks(&c) &&
      order_tensors(&c))
    model = make_model(&c);
  tagc_headers_free(&headers);
  free(c.tensors);
  return model;
}
