/* SPDX-License-Identifier: BSD-3-Clause
 * Models from checkpoints; see map_safetensors.h. All tensors of all files come into one list, which is sorted twice: by name, to
 * find what is there twice, and by stack, block and order, so that units can be taken from it one behind the other.
 */
#include "layermap/map_safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "layermap/map_json.h"
#include "layermap/map_order.h"

/* The format's own limit for a header; and enough stacks for any model. */
enum { HEADER_BYTES = 100000000, STACKS = 64 };

/* In forward order: what is in no block, other stacks, the main one, those of decoders, and what is in no block again. */
enum { BEFORE = -1, OTHERS = 0, MAIN = STACKS, DECODERS = STACKS + 1, BEHIND = 3 * STACKS };

struct tensor {
  const char *name;                 /* whole, in the JSON of its file */
  const char *own;                  /* in its block; of what is in none the whole name */
  uint64_t rows, columns, begin, end;
  int file;
  bool is_buffer;
  int stack;                        /* index; from order_tensors() on the place in forward order */
  int32_t block;
  struct tagc_order order;
};

/* What has a number in its name, by what stands in front of the number. */
struct stack {
  const char *prefix;               /* "model.layers.", with its dot */
  size_t length;
  uint64_t elements;
  int32_t blocks;                   /* 0: these are none */
};

struct checkpoint {
  char *const *paths;
  int count;
  struct tagc_json *files;
  uint64_t *data_bytes;             /* of each file, behind its header */
  struct tensor *tensors;
  size_t tensor_count, room;
  struct stack stacks[STACKS];
  int stack_count, main_stack;      /* main_stack = -1: there are no blocks */
  struct tagc_complaint *complaint;
};

/* -- complaints -------------------------------------------------------------------------------------------------------------- */

/* Puts the path of a file before the complaint, where there are several. Returns false. */
static bool name_file(struct checkpoint *c, int file)
{
  char text[sizeof c->complaint->text], shown[64];
  if (c->count > 1) {
    const char *slash = strrchr(c->paths[file], '/');
    snprintf(text, sizeof text, "%s", c->complaint->text);
    snprintf(c->complaint->text, sizeof c->complaint->text, "%s: %.*s", tagc_json_show(slash ? slash + 1 : c->paths[file], shown),
             (int)(sizeof text - 66), text);
  }
  return false;
}

static size_t where(const struct checkpoint *c, const struct tensor *t)
{
  return tagc_json_find(&c->files[t->file], 0, t->name);
}

#define COMPLAIN_ABOUT(c, tensor, ...) \
  (tagc_json_complain(&(c)->files[(tensor)->file], where(c, tensor), (c)->complaint, __VA_ARGS__), name_file((c), (tensor)->file))

#define COMPLAIN_ABOUT_FILE(c, file, ...) (tagc_file_complain((c)->complaint, __VA_ARGS__), name_file((c), (file)))

static bool without_memory(struct checkpoint *c)
{
  return tagc_file_complain(c->complaint, "there is no memory for what is in the header");
}

/* -- one header -------------------------------------------------------------------------------------------------------------- */

static bool read_header(struct checkpoint *c, int file, FILE *stream)
{
  struct stat status;
  unsigned char length_bytes[8];
  if (fstat(fileno(stream), &status) || !S_ISREG(status.st_mode))
    return COMPLAIN_ABOUT_FILE(c, file, "it is no regular file");
  if (fread(length_bytes, 1, 8, stream) != 8)
    return COMPLAIN_ABOUT_FILE(c, file, "it ends within the 8 bytes of the header's length");
  uint64_t length = 0, size = (uint64_t)status.st_size;
  for (int i = 7; i >= 0; i--)
    length = length << 8 | length_bytes[i];
  if (length > HEADER_BYTES)
    return COMPLAIN_ABOUT_FILE(c, file, "its header has %" PRIu64 " bytes; expected are at most %d (is it a safetensors file?)", length,
                               HEADER_BYTES);
  if (length > size - 8)
    return COMPLAIN_ABOUT_FILE(c, file, "its header has %" PRIu64 " bytes, but it ends after %" PRIu64, length, size - 8);
  c->data_bytes[file] = size - 8 - length;
  char *text = malloc(length + 1);
  if (!text)
    return without_memory(c);
  if (fread(text, 1, length, stream) != length) {
    free(text);
    return COMPLAIN_ABOUT_FILE(c, file, "it cannot be read: %s", strerror(errno));
  }
  text[length] = '\0';
  return tagc_json_parse(&c->files[file], text, length, c->complaint) || name_file(c, file);
}

/* -- one tensor -------------------------------------------------------------------------------------------------------------- */

struct type {
  const char *name;
  unsigned bits;
  bool is_float;
};

static const struct type types[] = {
  {"F64", 64, true}, {"F32", 32, true}, {"F16", 16, true}, {"BF16", 16, true}, {"F8_E5M2", 8, true}, {"F8_E4M3", 8, true},
  {"F8_E8M0", 8, true}, {"F6_E2M3", 6, true}, {"F6_E3M2", 6, true}, {"F4", 4, true}, {"C64", 64, true},
  {"I64", 64, false}, {"U64", 64, false}, {"I32", 32, false}, {"U32", 32, false}, {"I16", 16, false}, {"U16", 16, false},
  {"I8", 8, false}, {"U8", 8, false}, {"BOOL", 8, false},
};

static const struct type *find_type(const char *name)
{
  for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, name))
      return &types[i];
  return NULL;
}

static bool read_shape(struct checkpoint *c, struct tensor *t, const json_t *value, const char *shown)
{
  const json_t *shape = json_object_get(value, "shape");
  uint64_t elements = 1;
  t->rows = 1;
  if (!json_is_array(shape))
    return COMPLAIN_ABOUT(c, t, "%s has no \"shape\"; expected is a list of sizes", shown);
  for (size_t i = 0; i < json_array_size(shape); i++) {
    const json_t *size = json_array_get(shape, i);
    json_int_t number = json_integer_value(size);
    if (!json_is_integer(size) || number < 1)
      return COMPLAIN_ABOUT(c, t, "a size of %s is %s; expected is a whole number from 1 on", shown,
                            !json_is_integer(size) ? tagc_json_kind(size) : number ? "negative" : "0");
    if ((uint64_t)number > TAGC_PARAMETER_ELEMENTS / elements)
      return COMPLAIN_ABOUT(c, t, "%s has too many elements; expected are at most %" PRIu64, shown, TAGC_PARAMETER_ELEMENTS);
    elements *= (uint64_t)number;
    if (i == 0)
      t->rows = (uint64_t)number;
  }
  t->columns = elements / t->rows;
  return true;
}

static bool read_offsets(struct checkpoint *c, struct tensor *t, const json_t *value, const struct type *type, const char *shown)
{
  const json_t *offsets = json_object_get(value, "data_offsets");
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) || json_integer_value(begin) < 0 ||
      json_integer_value(end) < json_integer_value(begin))
    return COMPLAIN_ABOUT(c, t, "\"data_offsets\" of %s are not known; expected are [begin, end]", shown);
  t->begin = (uint64_t)json_integer_value(begin);
  t->end = (uint64_t)json_integer_value(end);
  if (t->end > c->data_bytes[t->file])
    return COMPLAIN_ABOUT(c, t, "%s ends at byte %" PRIu64 ", but the file holds %" PRIu64 " (is it whole?)", shown, t->end,
                          c->data_bytes[t->file]);
  uint64_t bytes = (t->rows * t->columns * type->bits + 7) / 8;
  if (t->end - t->begin != bytes)
    return COMPLAIN_ABOUT(c, t, "%s has %" PRIu64 " bytes; expected for its shape are %" PRIu64, shown, t->end - t->begin, bytes);
  return true;
}

/* A name becomes one in a map file, which has no place for some letters. */
static bool check_name(struct checkpoint *c, const struct tensor *t, const char *shown)
{
  if (!*t->name)
    return COMPLAIN_ABOUT(c, t, "a tensor has no name");
  for (const char *letter = t->name; *letter; letter++)
    if (*letter <= ' ' || *letter > '~' || strchr("#,*?[]\\\"", *letter))
      return COMPLAIN_ABOUT(c, t, "%s is no name of a parameter; expected are letters without spaces and any of # , * ? [ ] \\ \"", shown);
  return true;
}

static bool ends_with(const char *text, const char *end)
{
  size_t length = strlen(text), size = strlen(end);
  return length >= size && !strcmp(text + length - size, end);
}

/* What is stored, and no parameter. */
static bool is_buffer(const char *name, const json_t *shape)
{
  static const char *const ends[] = {"inv_freq", ".masked_bias", "position_ids", ".e_score_correction_bias", "_scale_inv"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (ends_with(name, ends[i]))
      return true;
  return json_array_size(shape) == 4 && (ends_with(name, "attn.bias") || ends_with(name, "attention.bias"));
}

static bool add_tensor(struct checkpoint *c, int file, const char *name, const json_t *value)
{
  char shown[64];
  struct tensor t = {.name = name, .own = name, .file = file, .block = -1};
  tagc_json_show(name, shown);
  const char *type_name = json_string_value(json_object_get(value, "dtype"));
  const struct type *type = find_type(type_name);
  char shown_type[64];
  if (!json_is_object(value))
    return COMPLAIN_ABOUT(c, &t, "%s is %s; expected is an object with \"dtype\", \"shape\" and \"data_offsets\"", shown,
                          tagc_json_kind(value));
  if (!type)
    return COMPLAIN_ABOUT(c, &t, "\"dtype\" of %s is %.20s; expected is one like F32 or BF16", shown,
                          type_name ? tagc_json_show(type_name, shown_type) : "missing");
  if (!read_shape(c, &t, value, shown) || !read_offsets(c, &t, value, type, shown) || !check_name(c, &t, shown))
    return false;
  if (c->tensor_count == c->room) {
    size_t room = c->room ? 2 * c->room : 256;
    struct tensor *more = realloc(c->tensors, room * sizeof *more);
    if (!more)
      return without_memory(c);
    c->tensors = more;
    c->room = room;
  }
  t.is_buffer = !type->is_float || is_buffer(name, json_object_get(value, "shape"));
  c->tensors[c->tensor_count++] = t;
  return true;
}

/* -- all of them ------------------------------------------------------------------------------------------------------------- */

static int compare_numbers(uint64_t a, uint64_t b)
{
  return (a > b) - (a < b);
}

static int by_bytes(const void *a, const void *b)
{
  const struct tensor *x = a, *y = b;
  return compare_numbers(x->begin, y->begin) ? compare_numbers(x->begin, y->begin) : compare_numbers(x->end, y->end);
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
  const struct tensor *x = a, *y = b;
  const int64_t differences[] = {
    (int64_t)x->stack - y->stack, (int64_t)x->block - y->block, (int64_t)x->order.part - y->order.part,
    (int64_t)x->order.number - y->order.number, (int64_t)x->order.place - y->order.place,
    (int64_t)x->order.is_bias - y->order.is_bias};
  for (size_t i = 0; i < sizeof differences / sizeof *differences; i++)
    if (differences[i])
      return differences[i] < 0 ? -1 : 1;
  return strcmp(x->name, y->name);
}

static bool read_file(struct checkpoint *c, int file)
{
  FILE *stream = fopen(c->paths[file], "rb");
  if (!stream)
    return COMPLAIN_ABOUT_FILE(c, file, "it cannot be opened: %s", strerror(errno));
  bool is_read = read_header(c, file, stream);
  fclose(stream);
  if (!is_read)
    return false;
  const char *name;
  json_t *value;
  size_t first = c->tensor_count;
  json_object_foreach(c->files[file].root, name, value)
    if (strcmp(name, "__metadata__") && !add_tensor(c, file, name, value))
      return false;
  if (c->tensor_count == first)
    return true;
  qsort(c->tensors + first, c->tensor_count - first, sizeof *c->tensors, by_bytes);
  for (size_t i = first + 1; i < c->tensor_count; i++) {
    const struct tensor *before = &c->tensors[i - 1], *t = &c->tensors[i];
    char shown[64], other[64];
    if (t->begin < before->end)
      return COMPLAIN_ABOUT(c, t, "%s overlaps %s", tagc_json_show(t->name, shown), tagc_json_show(before->name, other));
  }
  return true;
}

/* Buffers have done their part: what follows holds parameters alone, each once. */
static bool keep_parameters(struct checkpoint *c)
{
  size_t kept = 0;
  if (c->tensor_count)
    qsort(c->tensors, c->tensor_count, sizeof *c->tensors, by_name);
  for (size_t i = 1; i < c->tensor_count; i++) {
    char shown[64];
    if (!by_name(&c->tensors[i - 1], &c->tensors[i]))
      return COMPLAIN_ABOUT(c, &c->tensors[i], "%s is in another file, too", tagc_json_show(c->tensors[i].name, shown));
  }
  for (size_t i = 0; i < c->tensor_count; i++)
    if (!c->tensors[i].is_buffer)
      c->tensors[kept++] = c->tensors[i];
  c->tensor_count = kept;
  return kept > 0 || tagc_file_complain(c->complaint, "there is no parameter in it; expected are tensors of floating-point numbers");
}

/* -- stacks of blocks -------------------------------------------------------------------------------------------------------- */

/* The first component that is a number, and what is behind it; NULL: there is none. */
static const char *find_number(const char *name, const char **rest, int32_t *number)
{
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

static int find_stack(struct checkpoint *c, const char *name, size_t length)
{
  for (int i = 0; i < c->stack_count; i++)
    if (c->stacks[i].length == length && !memcmp(c->stacks[i].prefix, name, length))
      return i;
  if (c->stack_count == STACKS)
    return -1;
  c->stacks[c->stack_count] = (struct stack){.prefix = name, .length = length};
  return c->stack_count++;
}

/* Are the blocks of a stack numbered without a gap? (*missing: the first that is not there.) Tensors are sorted by place. */
static bool is_whole(const struct checkpoint *c, int stack, int32_t *missing)
{
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

/* Tensors get their stacks and blocks; what is numbered, and no block (an nn.Sequential, one head of several), has no stack. */
static bool find_stacks(struct checkpoint *c)
{
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
    bool whole = is_whole(c, i, &missing);
    if (!whole && i == c->main_stack)
      return tagc_file_complain(c->complaint, "block %d of %.*s is missing; expected are all files of a checkpoint", (int)missing,
                                (int)(c->stacks[i].length < 80 ? c->stacks[i].length - 1 : 80), c->stacks[i].prefix);
    c->stacks[i].blocks = whole && (missing > 1 || i == c->main_stack) ? missing : 0;
  }
  return true;
}

/* -- the model --------------------------------------------------------------------------------------------------------------- */

/* Is what is in no block in front of the blocks? Embeddings are, with their norms. */
static bool is_in_front(const char *name)
{
  uint32_t kinds = tagc_kinds_of_name(name);
  return (kinds & TAGC_KIND_EMBED) || ((kinds & TAGC_KIND_NORM) && strstr(name, "embed"));
}

static int place_of(const struct checkpoint *c, int stack)
{
  const struct stack *s = &c->stacks[stack];
  return stack == c->main_stack ? MAIN : (memmem(s->prefix, s->length, "decoder", 7) ? DECODERS : OTHERS) + stack;
}

/* The style of each block is told by one of its names, the least of all of them. */
static void order_tensors(struct checkpoint *c)
{
  for (size_t i = 0; i < c->tensor_count; i++) {
    struct tensor *t = &c->tensors[i];
    if (t->stack < 0 || !c->stacks[t->stack].blocks) {
      t->own = t->name;
      t->block = -1;
      t->stack = is_in_front(t->name) ? BEFORE : BEHIND;
    }
  }
  for (size_t i = 0, end; i < c->tensor_count; i = end) {
    const struct tensor *first = &c->tensors[i];
    unsigned style = first->stack == BEFORE ? TAGC_STYLE_EMBED : first->stack == BEHIND ? TAGC_STYLE_HEAD : TAGC_STYLE_UNKNOWN;
    bool is_block = first->block >= 0;
    for (end = i; end < c->tensor_count && c->tensors[end].stack == first->stack && c->tensors[end].block == first->block; end++) {
      unsigned told = is_block ? tagc_style_of(c->tensors[end].own) : style;
      style = told < style ? told : style;
    }
    for (size_t j = i; j < end; j++)
      c->tensors[j].order = tagc_order_of(style, c->tensors[j].own);
  }
  for (size_t i = 0; i < c->tensor_count; i++)
    if (c->tensors[i].stack != BEFORE && c->tensors[i].stack != BEHIND)
      c->tensors[i].stack = place_of(c, c->tensors[i].stack);
  qsort(c->tensors, c->tensor_count, sizeof *c->tensors, by_place);
}

static bool refuse_model(const struct checkpoint *c)
{
  return tagc_file_complain(c->complaint, "there is more in it than a model may have (or no memory for it); expected are at most %d "
                            "different parameters, %d blocks and names of %d letters", TAGC_MODEL_PARAMETERS, TAGC_MODEL_PLACES,
                            TAGC_PARAMETER_NAME - 1);
}

/* A router is there for experts: without any, what looks like one is the gate of an MLP. */
static uint32_t kinds_of(const struct tensor *t, bool has_experts)
{
  uint32_t kinds = tagc_kinds_of_name(t->name);
  bool is_router = (kinds & ~(uint32_t)TAGC_KIND_BIAS) == TAGC_KIND_EXPERT;
  return is_router && !has_experts ? TAGC_KIND_MLP | (kinds & TAGC_KIND_BIAS) : kinds;
}

static bool is_like(const struct tagc_unit *unit, const struct tensor *tensors, size_t count)
{
  bool is_so = unit->count == count;
  for (size_t i = 0; is_so && i < count; i++) {
    const struct tagc_parameter *p = &unit->parameters[i];
    is_so = p->rows == tensors[i].rows && p->columns == tensors[i].columns && !strcmp(p->name, tensors[i].own);
  }
  return is_so;
}

/* Adds a unit of these tensors, unless one from `first` on is like it, and its place. */
static bool add_unit(struct tagc_model *model, const char *name, size_t first, const struct tensor *tensors, size_t count)
{
  for (size_t i = first; i < model->unit_count; i++)
    if (is_like(&model->units[i], tensors, count))
      return tagc_model_add_place(model, (uint32_t)i, tensors->block);
  if (!tagc_model_add_unit(model, name))
    return false;
  bool has_experts = false;
  for (size_t i = 0; i < count; i++)
    has_experts |= (tagc_kinds_of_name(tensors[i].name) & (TAGC_KIND_EXPERT | TAGC_KIND_MLP)) == (TAGC_KIND_EXPERT | TAGC_KIND_MLP);
  for (size_t i = 0; i < count; i++)
    if (!tagc_model_add_parameter(model, tensors[i].own, kinds_of(&tensors[i], has_experts), tensors[i].rows, tensors[i].columns))
      return false;
  return tagc_model_add_place(model, (uint32_t)model->unit_count - 1, tensors->block);
}

/* The name of the units of a stack: that of the main one is "block", others have the end of their prefix. */
static void name_stack(const struct checkpoint *c, int place, char name[TAGC_UNIT_NAME])
{
  for (int i = 0; i < c->stack_count; i++)
    if (place_of(c, i) == place && c->stacks[i].blocks) {
      const struct stack *s = &c->stacks[i];
      size_t length = s->length - 1, kept = length < TAGC_UNIT_NAME - 1 ? length : TAGC_UNIT_NAME - 1;
      snprintf(name, TAGC_UNIT_NAME, "%.*s", (int)kept, s->prefix + length - kept);
    }
  if (place == BEFORE || place == BEHIND || place == MAIN)
    strcpy(name, place == BEFORE ? "embed" : place == BEHIND ? "head" : "block");
}

static struct tagc_model *make_model(const struct checkpoint *c)
{
  struct tagc_model *model = tagc_model_create();
  size_t first = 0;                 /* unit of this stack */
  for (size_t i = 0, end; model && i < c->tensor_count; i = end) {
    const struct tensor *t = &c->tensors[i];
    char name[TAGC_UNIT_NAME];
    name_stack(c, t->stack, name);
    if (i == 0 || t[-1].stack != t->stack)
      first = model->unit_count;
    for (end = i; end < c->tensor_count && c->tensors[end].stack == t->stack && c->tensors[end].block == t->block; end++)
      ;
    if (!add_unit(model, name, first, t, end - i)) {
      tagc_model_free(model);
      model = NULL;
    }
  }
  if (!model)
    refuse_model(c);
  return model;
}

struct tagc_model *tagc_map_from_safetensors(char *const *paths, int count, struct tagc_complaint *complaint)
{
  struct checkpoint c = {.paths = paths, .count = count, .complaint = complaint};
  struct tagc_model *model = NULL;
  c.files = calloc((size_t)count, sizeof *c.files);
  c.data_bytes = calloc((size_t)count, sizeof *c.data_bytes);
  bool is_good = (c.files && c.data_bytes) || without_memory(&c);
  for (int i = 0; is_good && i < count; i++)
    is_good = read_file(&c, i);
  if (is_good && keep_parameters(&c) && find_stacks(&c)) {
    order_tensors(&c);
    model = make_model(&c);
  }
  for (int i = 0; c.files && i < count; i++)
    tagc_json_free(&c.files[i]);
  free(c.files);
  free(c.data_bytes);
  free(c.tensors);
  return model;
}
