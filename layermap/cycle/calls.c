/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/cycle/calls.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "layermap/model/text.h"

static const char *const collectives[] = {
  [TAGC_COLL_REDUCE_SCATTER] = "reduce-scatter",
  [TAGC_COLL_ALL_GATHER] = "all-gather",
  [TAGC_COLL_ALL_REDUCE] = "all-reduce",
  [TAGC_COLL_BROADCAST] = "broadcast",
  [TAGC_COLL_REDUCE] = "reduce",
  [TAGC_COLL_ALL_TO_ALL] = "all-to-all",
  [TAGC_COLL_GATHER] = "gather",
  [TAGC_COLL_SCATTER] = "scatter",
};

/* By ncclDataType_t. Types newer than this list are written as type12 and so on. */
static const struct {
  const char *name;
  bool is_float; /* as in struct tagc_signature: a type that codecs know */
} types[] = {
  {"int8", false},    {"uint8", false},   {"int32", false},      {"uint32", false},
  {"int64", false},   {"uint64", false},  {"float16", true},     {"float32", true},
  {"float64", false}, {"bfloat16", true}, {"float8e4m3", false}, {"float8e5m2", false},
};

/* By the library's enum tagc_op. It does not tell the "other" ones apart; files may name them. */
static const char *const ops[] = {"sum", "avg", "premulsum", "other"};
static const char *const other_ops[] = {"prod", "max", "min"};
enum { OTHER_OP = 3 };

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool has_op(enum tagc_collective collective) {
  return collective == TAGC_COLL_REDUCE_SCATTER || collective == TAGC_COLL_ALL_REDUCE || collective == TAGC_COLL_REDUCE;
}

struct reader {
  struct tagc_text text;
  struct tagc_call_file *file;
  size_t lists_room, total;    /* room for lists; calls in all lists */
  struct tagc_call_list *list; /* whose calls are read */
  size_t *rooms;               /* of each list, for calls */
};

/* Adds a list, without ranks. False: no room. */
static bool add_list(struct reader *reader, uint64_t number) {
  struct tagc_call_file *file = reader->file;
  if (file->count == reader->lists_room) {
    size_t room = reader->lists_room ? 2 * reader->lists_room : 4;
    struct tagc_call_list *lists = realloc(file->lists, room * sizeof *lists);
    if (lists)
      file->lists = lists;
    size_t *rooms = lists ? realloc(reader->rooms, room * sizeof *rooms) : NULL;
    if (!rooms)
      return tagc_text_without_memory(&reader->text);
    reader->rooms = rooms;
    reader->lists_room = room;
  }
  reader->rooms[file->count] = 0;
  reader->list = &file->lists[file->count++];
  *reader->list = (struct tagc_call_list){.communicator = number};
  return true;
}

static struct tagc_call_list *find_list(const struct tagc_call_file *file, uint64_t number) {
  for (size_t i = 0; i < file->count; i++)
    if (file->lists[i].communicator == number)
      return &file->lists[i];
  return NULL;
}

/* Reads "ranks R rank r" behind the number of a communicator. */
static bool read_ranks(struct tagc_text *text, uint64_t *nranks, uint64_t *rank) {
  struct tagc_word word = tagc_text_word(text);
  if (!tagc_word_is(word, "ranks"))
    return tagc_text_refuse(text, word, "comes behind a new communicator; expected is \"ranks\" with their number");
  if (!tagc_text_number(text, tagc_text_word(text), "number of ranks", 1, TAGC_CALLS_RANKS, nranks))
    return false;
  word = tagc_text_word(text);
  if (!tagc_word_is(word, "rank"))
    return tagc_text_refuse(text, word,
                            "comes behind the number of ranks; expected is \"rank\" with that of this process");
  return tagc_text_number(text, tagc_text_word(text), "rank", 0, *nranks - 1, rank);
}

static bool read_communicator(struct reader *reader) {
  struct tagc_text *text = &reader->text;
  struct tagc_word number_word = tagc_text_word(text);
  uint64_t number, nranks = 0, rank = 0;
  if (!tagc_text_number(text, number_word, "communicator", 0, UINT64_MAX, &number))
    return false;
  struct tagc_call_list *known = find_list(reader->file, number);
  struct tagc_text ahead = *text;
  bool told = tagc_text_word(&ahead).length > 0;
  if ((told || !known) && !read_ranks(text, &nranks, &rank))
    return false;
  if (!tagc_text_ended(text))
    return false;
  if (known && told && (nranks != (uint64_t)known->nranks || rank != (uint64_t)known->rank))
    return tagc_text_refuse(text, number_word, "had ranks %d rank %d before", known->nranks, known->rank);
  reader->list = known;
  if (known)
    return true;
  if (reader->file->count == TAGC_CALLS_LISTS)
    return tagc_text_refuse(text, number_word, "is one too many; a file has at most %d communicators",
                            TAGC_CALLS_LISTS);
  if (!add_list(reader, number))
    return false;
  reader->list->nranks = (int)nranks;
  reader->list->rank = (int)rank;
  return true;
}

static bool read_type(struct tagc_text *text, struct tagc_signature *call) {
  struct tagc_word word = tagc_text_word(text);
  for (size_t i = 0; i < COUNT(types); i++)
    if (tagc_word_is(word, types[i].name)) {
      call->dtype = (uint8_t)i;
      call->is_float = types[i].is_float;
      return true;
    }
  uint64_t number;
  if (word.length > 4 && memcmp(word.text, "type", 4) == 0) {
    struct tagc_word digits = {word.text + 4, word.length - 4};
    if (!tagc_text_number(text, digits, "type", COUNT(types), UINT8_MAX, &number))
      return false;
    call->dtype = (uint8_t)number;
    return true;
  }
  return tagc_text_refuse(text, word, "is no type; expected is int8, float32, bfloat16 or another one of NCCL's");
}

static bool read_op(struct tagc_text *text, struct tagc_signature *call) {
  struct tagc_word word = tagc_text_word(text);
  for (size_t i = 0; i < COUNT(ops); i++)
    if (tagc_word_is(word, ops[i])) {
      call->op = (uint8_t)i;
      return true;
    }
  for (size_t i = 0; i < COUNT(other_ops); i++)
    if (tagc_word_is(word, other_ops[i])) {
      call->op = OTHER_OP;
      return true;
    }
  return tagc_text_refuse(text, word, "is no reduction; expected is sum, avg, premulsum, prod, max, min or other");
}

/* Reads "x12" at the end of a line, or nothing. */
static bool read_times(struct reader *reader, size_t *times) {
  struct tagc_text *text = &reader->text;
  struct tagc_word word = tagc_text_word(text);
  uint64_t number = 1, left = TAGC_CALLS - reader->total;
  if (word.length && word.text[0] != 'x')
    return tagc_text_refuse(text, word, "is one too many; expected is the end of the line, or a repetition, as x12");
  if (word.length) {
    struct tagc_word digits = {word.text + 1, word.length - 1};
    if (!tagc_text_number(text, digits, "number of calls", 1, TAGC_CALLS, &number) || !tagc_text_ended(text))
      return false;
  }
  if (number > left)
    return tagc_text_fail(text, "too many calls; a file has at most %d", TAGC_CALLS);
  *times = (size_t)number;
  return true;
}

/* Appends `times` copies of the call to the list. */
static bool add_calls(struct reader *reader, const struct tagc_signature *call, size_t times) {
  struct tagc_call_list *list = reader->list;
  size_t *room = &reader->rooms[list - reader->file->lists];
  if (list->count + times > *room) {
    size_t larger = 2 * (list->count + times);
    struct tagc_signature *calls = realloc(list->calls, larger * sizeof *calls);
    if (!calls)
      return tagc_text_without_memory(&reader->text);
    list->calls = calls;
    *room = larger;
  }
  for (size_t i = 0; i < times; i++)
    list->calls[list->count++] = *call;
  reader->total += times;
  return true;
}

static bool read_call(struct reader *reader, struct tagc_word first) {
  struct tagc_text *text = &reader->text;
  struct tagc_signature call = {0};
  size_t which = 0, times = 1;
  while (which < COUNT(collectives) && !tagc_word_is(first, collectives[which]))
    which++;
  if (which == COUNT(collectives))
    return tagc_text_refuse(
      text, first,
      "is no call; expected is \"communicator\", reduce-scatter, all-gather, all-reduce, broadcast, reduce, "
      "all-to-all, gather or scatter");
  if (!reader->list)
    return tagc_text_refuse(text, first,
                            "is on no communicator; expected is a line \"communicator 0 ranks 8 rank 0\" before it");
  call.collective = (uint8_t)which;
  return tagc_text_number(text, tagc_text_word(text), "count of elements", 0, UINT64_MAX, &call.count) &&
         read_type(text, &call) && (!has_op((enum tagc_collective)which) || read_op(text, &call)) &&
         read_times(reader, &times) && add_calls(reader, &call, times);
}

static bool read_call_lines(struct reader *reader) {
  struct tagc_text *text = &reader->text;
  if (!tagc_text_version(text, "tagc-calls", 1))
    return false;
  while (tagc_text_line(text)) {
    struct tagc_word first = tagc_text_word(text);
    if (tagc_word_is(first, "communicator") ? !read_communicator(reader) : !read_call(reader, first))
      return false;
  }
  return !text->failed;
}

struct tagc_call_file *tagc_calls_parse(const char *bytes, size_t count, struct tagc_complaint *complaint) {
  struct reader reader = {.file = calloc(1, sizeof *reader.file)};
  tagc_text_begin(&reader.text, bytes, count, complaint);
  if (reader.file ? read_call_lines(&reader) : tagc_text_without_memory(&reader.text)) {
    free(reader.rooms);
    return reader.file;
  }
  free(reader.rooms);
  tagc_calls_free(reader.file);
  return NULL;
}

struct tagc_call_file *tagc_calls_read(const char *path, struct tagc_complaint *complaint) {
  size_t bytes;
  char *text = tagc_text_load(path, TAGC_CALLS_BYTES, &bytes, complaint);
  struct tagc_call_file *file = text ? tagc_calls_parse(text, bytes, complaint) : NULL;
  free(text);
  return file;
}

void tagc_calls_free(struct tagc_call_file *file) {
  if (!file)
    return;
  for (size_t i = 0; i < file->count; i++)
    free(file->lists[i].calls);
  free(file->lists);
  free(file);
}

const char *tagc_calls_line(const struct tagc_signature *call, char *text, size_t size) {
  char type[16];
  if (call->dtype < COUNT(types))
    snprintf(type, sizeof type, "%s", types[call->dtype].name);
  else
    snprintf(type, sizeof type, "type%u", call->dtype);
  bool reduces = has_op((enum tagc_collective)call->collective);
  const char *op = ops[call->op < COUNT(ops) ? call->op : OTHER_OP];
  snprintf(text, size, "%s %" PRIu64 " %s%s%s", collectives[call->collective], call->count, type, reduces ? " " : "",
           reduces ? op : "");
  return text;
}

const char *tagc_calls_communicator_line(const struct tagc_call_list *list, char *text, size_t size) {
  snprintf(text, size, "communicator %" PRIu64 " ranks %d rank %d", list->communicator, list->nranks, list->rank);
  return text;
}
