/* SPDX-License-Identifier: BSD-3-Clause
 * Headers of checkpoints; see header.h, and safetensors.h for the format.
 */
#include "layermap/tagc-map/header.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layermap/model/model.h"

/* The format's own limit. */
enum { HEADER_BYTES = 100000000 };

/* Prefixes the complaint with the file's path if there are several files. Returns false. */
static bool name_file(struct tagc_headers *h, int file) {
  char text[sizeof h->complaint->text], shown[64];
  if (h->count > 1) {
    snprintf(text, sizeof text, "%s", h->complaint->text);
    snprintf(h->complaint->text, sizeof h->complaint->text, "%s: %.*s", tagc_json_show(basename(h->paths[file]), shown),
             (int)(sizeof text - 66), text);
  }
  return false;
}

static size_t where(const struct tagc_headers *h, const struct tagc_tensor *t) {
  return tagc_json_find(&h->files[t->file], 0, t->name);
}

#define COMPLAIN_ABOUT(h, tensor, ...) \
  (tagc_json_complain(&(h)->files[(tensor)->file], where(h, tensor), (h)->complaint, __VA_ARGS__), \
   name_file((h), (tensor)->file))

#define COMPLAIN_ABOUT_FILE(h, file, ...) (tagc_file_complain((h)->complaint, __VA_ARGS__), name_file((h), (file)))

static bool without_memory(struct tagc_headers *h) {
  return tagc_file_complain(h->complaint, "there is no memory for what is in the header");
}

/* -- one header ---------------------------------------------------------------------------------------------------- */

static bool read_header(struct tagc_headers *h, int file, FILE *stream) {
  struct stat status;
  unsigned char length_bytes[8];
  if (fstat(fileno(stream), &status) || !S_ISREG(status.st_mode))
    return COMPLAIN_ABOUT_FILE(h, file, "it is no regular file");
  if (fread(length_bytes, 1, 8, stream) != 8)
    return COMPLAIN_ABOUT_FILE(h, file, "it ends within the 8 bytes of the header's length");
  uint64_t length = 0, size = (uint64_t)status.st_size;
  for (int i = 7; i >= 0; i--)
    length = length << 8 | length_bytes[i];
  if (length > HEADER_BYTES)
    return COMPLAIN_ABOUT_FILE(h, file,
                               "its header has %" PRIu64 " bytes; expected are at most %d (is it a safetensors file?)",
                               length, HEADER_BYTES);
  if (length > size - 8)
    return COMPLAIN_ABOUT_FILE(h, file, "its header has %" PRIu64 " bytes, but it ends after %" PRIu64, length,
                               size - 8);
  h->data_bytes[file] = size - 8 - length;
  char *text = malloc(length + 1);
  if (!text)
    return without_memory(h);
  if (fread(text, 1, length, stream) != length) {
    free(text);
    return COMPLAIN_ABOUT_FILE(h, file, "it cannot be read: %s", strerror(errno));
  }
  text[length] = '\0';
  return tagc_json_parse(&h->files[file], text, length, h->complaint) || name_file(h, file);
}

/* -- one tensor ---------------------------------------------------------------------------------------------------- */

struct type {
  const char *name;
  unsigned bits;
  bool is_float;
};

static const struct type types[] = {
  {"F64", 64, true},    {"F32", 32, true},    {"F16", 16, true},    {"BF16", 16, true},   {"F8_E5M2", 8, true},
  {"F8_E4M3", 8, true}, {"F8_E8M0", 8, true}, {"F6_E2M3", 6, true}, {"F6_E3M2", 6, true}, {"F4", 4, true},
  {"C64", 64, true},    {"I64", 64, false},   {"U64", 64, false},   {"I32", 32, false},   {"U32", 32, false},
  {"I16", 16, false},   {"U16", 16, false},   {"I8", 8, false},     {"U8", 8, false},     {"BOOL", 8, false},
};

static const struct type *find_tensor_type(const char *name) {
  for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, name))
      return &types[i];
  return NULL;
}

static bool read_tensor_shape(struct tagc_headers *h, struct tagc_tensor *t, const json_t *value, const char *shown) {
  const json_t *shape = json_object_get(value, "shape");
  uint64_t elements = 1;
  t->rows = 1;
  if (!json_is_array(shape))
    return COMPLAIN_ABOUT(h, t, "%s has no \"shape\"; expected is a list of sizes", shown);
  for (size_t i = 0; i < json_array_size(shape); i++) {
    const json_t *size = json_array_get(shape, i);
    json_int_t number = json_integer_value(size);
    if (!json_is_integer(size) || number < 1)
      return COMPLAIN_ABOUT(h, t, "a size of %s is %s; expected is a whole number from 1 on", shown,
                            !json_is_integer(size) ? tagc_json_kind(size)
                            : number               ? "negative"
                                                   : "0");
    if ((uint64_t)number > TAGC_PARAMETER_ELEMENTS / elements)
      return COMPLAIN_ABOUT(h, t, "%s has too many elements; expected are at most %" PRIu64, shown,
                            TAGC_PARAMETER_ELEMENTS);
    elements *= (uint64_t)number;
    if (i == 0)
      t->rows = (uint64_t)number;
  }
  t->columns = elements / t->rows;
  return true;
}

static bool read_offsets(struct tagc_headers *h, struct tagc_tensor *t, const json_t *value, const struct type *type,
                         const char *shown) {
  const json_t *offsets = json_object_get(value, "data_offsets");
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
      json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
    return COMPLAIN_ABOUT(h, t, "\"data_offsets\" of %s are not known; expected are [begin, end]", shown);
  t->begin = (uint64_t)json_integer_value(begin);
  t->end = (uint64_t)json_integer_value(end);
  if (t->end > h->data_bytes[t->file])
    return COMPLAIN_ABOUT(h, t, "%s ends at byte %" PRIu64 ", but the file holds %" PRIu64 " (is it whole?)", shown,
                          t->end, h->data_bytes[t->file]);
  uint64_t bytes = (t->rows * t->columns * type->bits + 7) / 8;
  if (t->end - t->begin != bytes)
    return COMPLAIN_ABOUT(h, t, "%s has %" PRIu64 " bytes; expected for its shape are %" PRIu64, shown,
                          t->end - t->begin, bytes);
  return true;
}

/* A name must fit a map file, which excludes some characters. */
static bool check_name(struct tagc_headers *h, const struct tagc_tensor *t, const char *shown) {
  if (!*t->name)
    return COMPLAIN_ABOUT(h, t, "a tensor has no name");
  for (const char *letter = t->name; *letter; letter++)
    if (*letter <= ' ' || *letter > '~' || strchr("#,*?[]\\\"", *letter))
      return COMPLAIN_ABOUT(
        h, t, "%s is no name of a parameter; expected are letters without spaces and any of # , * ? [ ] \\ \"", shown);
  return true;
}

static bool name_ends_with(const char *text, const char *end) {
  size_t length = strlen(text), size = strlen(end);
  return length >= size && !strcmp(text + length - size, end);
}

/* True for stored tensors that are no parameters. */
static bool is_buffer(const char *name, const json_t *shape) {
  static const char *const ends[] = {"inv_freq",   ".masked_bias",  "position_ids", ".e_score_correction_bias",
                                     "_scale_inv", ".running_mean", ".running_var"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (name_ends_with(name, ends[i]))
      return true;
  return json_array_size(shape) == 4 && (name_ends_with(name, "attn.bias") || name_ends_with(name, "attention.bias"));
}

static bool add_tensor(struct tagc_headers *h, int file, const char *name, const json_t *value) {
  char shown[64];
  struct tagc_tensor t = {.name = name, .file = file};
  tagc_json_show(name, shown);
  const char *type_name = json_string_value(json_object_get(value, "dtype"));
  const struct type *type = find_tensor_type(type_name);
  char shown_type[64];
  if (!json_is_object(value))
    return COMPLAIN_ABOUT(h, &t, "%s is %s; expected is an object with \"dtype\", \"shape\" and \"data_offsets\"",
                          shown, tagc_json_kind(value));
  if (!type)
    return COMPLAIN_ABOUT(h, &t, "\"dtype\" of %s is %.20s; expected is one like F32 or BF16", shown,
                          type_name ? tagc_json_show(type_name, shown_type) : "missing");
  if (!read_tensor_shape(h, &t, value, shown) || !read_offsets(h, &t, value, type, shown) || !check_name(h, &t, shown))
    return false;
  if (h->tensor_count == h->room) {
    size_t room = h->room ? 2 * h->room : 256;
    struct tagc_tensor *more = realloc(h->tensors, room * sizeof *more);
    if (!more)
      return without_memory(h);
    h->tensors = more;
    h->room = room;
  }
  t.is_buffer = !type->is_float || is_buffer(name, json_object_get(value, "shape"));
  h->tensors[h->tensor_count++] = t;
  return true;
}

/* -- all headers --------------------------------------------------------------------------------------------------- */

static int compare_numbers(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int by_bytes(const void *a, const void *b) {
  const struct tagc_tensor *x = a, *y = b;
  int order = compare_numbers(x->begin, y->begin);
  return order ? order : strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct tagc_tensor *)a)->name, ((const struct tagc_tensor *)b)->name);
}

static bool read_header_file(struct tagc_headers *h, int file) {
  /* A named pipe is refused below; it would wait for a writer here. */
  const int number = open(h->paths[file], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  FILE *stream = number < 0 ? NULL : fdopen(number, "rb");
  if (!stream) {
    const int error = errno;
    if (number >= 0)
      close(number);
    return COMPLAIN_ABOUT_FILE(h, file, "it cannot be opened: %s", strerror(error));
  }
  bool is_read = read_header(h, file, stream);
  fclose(stream);
  if (!is_read)
    return false;
  const char *name;
  json_t *value;
  size_t first = h->tensor_count;
  json_object_foreach(h->files[file].root, name,
                      value) if (strcmp(name, "__metadata__") && !add_tensor(h, file, name, value)) return false;
  if (h->tensor_count == first)
    return true;
  qsort(h->tensors + first, h->tensor_count - first, sizeof *h->tensors, by_bytes);
  for (size_t i = first + 1; i < h->tensor_count; i++) {
    const struct tagc_tensor *before = &h->tensors[i - 1], *t = &h->tensors[i];
    char shown[64], other[64];
    if (t->begin < before->end)
      return COMPLAIN_ABOUT(h, t, "%s overlaps %s", tagc_json_show(t->name, shown),
                            tagc_json_show(before->name, other));
  }
  return true;
}

/* Drops the buffers, which are no longer needed: keeps parameters alone, each once. */
static bool keep_parameters(struct tagc_headers *h) {
  size_t kept = 0;
  if (h->tensor_count)
    qsort(h->tensors, h->tensor_count, sizeof *h->tensors, by_name);
  for (size_t i = 1; i < h->tensor_count; i++) {
    char shown[64];
    if (!by_name(&h->tensors[i - 1], &h->tensors[i]))
      return COMPLAIN_ABOUT(h, &h->tensors[i], "%s is in another file, too", tagc_json_show(h->tensors[i].name, shown));
  }
  for (size_t i = 0; i < h->tensor_count; i++)
    if (!h->tensors[i].is_buffer)
      h->tensors[kept++] = h->tensors[i];
  h->tensor_count = kept;
  return kept > 0 || tagc_file_complain(h->complaint,
                                        "there is no parameter in it; expected are tensors of floating-point numbers");
}

bool tagc_headers_read(struct tagc_headers *h, char *const *paths, int count, struct tagc_complaint *complaint) {
  *h = (struct tagc_headers){.paths = paths, .count = count, .complaint = complaint};
  h->files = calloc((size_t)count, sizeof *h->files);
  h->data_bytes = calloc((size_t)count, sizeof *h->data_bytes);
  bool is_good = (h->files && h->data_bytes) || without_memory(h);
  for (int i = 0; is_good && i < count; i++)
    is_good = read_header_file(h, i);
  return is_good && keep_parameters(h);
}

void tagc_headers_free(struct tagc_headers *h) {
  for (int i = 0; h->files && i < h->count; i++)
    tagc_json_free(&h->files[i]);
  free(h->files);
  free(h->data_bytes);
  free(h->tensors);
}
