/* SPDX-License-Identifier: BSD-3-Clause
 * See text.h.
 */
#include "examples/gpt/text.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "examples/gpt/fail.h"
#include "examples/gpt/random.h"
#include "examples/gpt/vocabulary.h"

/* Keeps the draws apart from the numbers that initialise the units. */
#define SEQUENCE_STREAM 0x73657175656e6365u

/* The files as they are, one after another. */
struct bytes {
  uint8_t *bytes;
  size_t count;
};

static void append_file(struct bytes *text, const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file)
    fail(2, "cannot read text file %s: %s", path, strerror(errno));
  for (;;) {
    size_t room = 1 << 16;
    uint8_t *larger = realloc(text->bytes, text->count + room);
    if (!larger)
      fail(1, "no memory for the text in %s", path);
    text->bytes = larger;
    size_t got = fread(text->bytes + text->count, 1, room, file);
    text->count += got;
    if (got < room)
      break;
  }
  if (ferror(file))
    fail(2, "cannot read text file %s: %s", path, strerror(errno));
  fclose(file);
}

static int is_regular(const struct dirent *entry) {
  char path[PATH_MAX];
  struct stat status;
  snprintf(path, sizeof path, "%s/%s", TEXT_DEFAULT_FOLDER, entry->d_name);
  return lstat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* By bytes, in every locale. */
static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* False: there is no file. */
static bool append_default_folder(struct bytes *text) {
  struct dirent **entries;
  int count = scandir(TEXT_DEFAULT_FOLDER, &entries, is_regular, by_name);
  if (count <= 0)
    return false;
  for (int i = 0; i < count; i++) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", TEXT_DEFAULT_FOLDER, entries[i]->d_name);
    append_file(text, path);
    free(entries[i]);
  }
  free(entries);
  return true;
}

static void append_own_texts(struct bytes *text) {
  static const char *const files[] = {"NEWS", "man/libtagc-preload.7.in", "tests/RELIABILITY.md"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", SOURCES, files[i]);
    if (access(path, R_OK) != 0)
      fail(2, "no text in %s, and none in %s (%s); name a file with --text", TEXT_DEFAULT_FOLDER, path,
           strerror(errno));
    append_file(text, path);
  }
}

/* Fails unless a part of the text has a training or validation sequence. */
static void check_part(const char *file, const char *part, size_t bytes, size_t tokens, size_t context) {
  if (tokens < context + 1)
    fail(2, "the text%s%s has %zu bytes; its %s %zu tokens, and must hold a sequence of --context %zu and one more",
         file ? " " : "", file ? file : "", bytes, part, tokens, context);
}

struct text text_read(const char *const *files, size_t nfiles, size_t vocabulary, size_t context) {
  struct bytes all = {0};
  for (size_t i = 0; i < nfiles; i++)
    append_file(&all, files[i]);
  if (nfiles == 0 && !append_default_folder(&all))
    append_own_texts(&all);
  size_t held_out = all.count / 10, before = all.count - held_out;
  struct text text = {.tokens = malloc((all.count + 1) * sizeof *text.tokens)};
  if (!text.tokens)
    fail(1, "no memory for the tokens of %zu bytes", all.count);
  /* Only words of the training part: the held-out part stays unseen. */
  struct vocabulary v = vocabulary_create(all.bytes, before, vocabulary - VOCABULARY_BYTES);
  text.train = vocabulary_encode(&v, all.bytes, before, text.tokens);
  text.count = text.train + vocabulary_encode(&v, all.bytes + before, held_out, text.tokens + text.train);
  const char *first = nfiles ? files[0] : NULL;
  check_part(first, "first nine tenths are", all.count, text.train, context);
  check_part(first, "last tenth is", all.count, text.count - text.train, context);
  vocabulary_destroy(&v);
  free(all.bytes);
  return text;
}

void text_free(struct text *text) {
  free(text->tokens);
  *text = (struct text){0};
}

const uint16_t *text_training_sequence(const struct text *text, uint64_t seed, uint64_t number, size_t context) {
  return text->tokens + random_bits(seed, SEQUENCE_STREAM, number) % (text->train - context);
}

size_t text_validation_count(const struct text *text, size_t context, size_t limit) {
  size_t windows = (text->count - text->train - 1) / context;
  return limit && limit < windows ? limit : windows;
}

const uint16_t *text_validation_sequence(const struct text *text, size_t number, size_t count, size_t context) {
  size_t windows = text_validation_count(text, context, 0);
  return text->tokens + text->train + number * windows / count * context;
}
