/* SPDX-License-Identifier: BSD-3-Clause
 * See checkpoint.h.
 */
#include "examples/gpt/checkpoint.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/fail.h"

#define MAGIC "train_gpt checkpoint 1"

struct header {
  char magic[24];
  size_t done; /* steps */
  size_t ranks, tokens, bytes;
  struct options options; /* without its paths */
};

static struct header header_of(const struct checkpoint *c, size_t done) {
  struct header h = {.magic = MAGIC,
                     .done = done,
                     .ranks = (size_t)c->parallel->nranks,
                     .tokens = c->tokens,
                     .options = options_numbers(c->options)};
  for (size_t i = 0; i < c->nparts; i++)
    h.bytes += c->parts[i].bytes;
  return h;
}

static void name_file(const struct checkpoint *c, int slot, const char *ending, char name[PATH_MAX]) {
  int length = snprintf(name, PATH_MAX, "%s.%d.%d%s", c->options->checkpoint, c->parallel->rank, slot, ending);
  if (length < 0 || length >= PATH_MAX)
    fail(2, "--checkpoint %s: expected a shorter path", c->options->checkpoint);
}

/* Opens a file of this rank and reads its header; NULL where there is none. */
static FILE *open_slot(const struct checkpoint *c, int slot, char name[PATH_MAX], struct header *h) {
  name_file(c, slot, "", name);
  FILE *file = fopen(name, "rb");
  if (!file && errno != ENOENT)
    fail(2, "cannot read checkpoint %s: %s", name, strerror(errno));
  if (!file)
    return NULL;
  if (fread(h, sizeof *h, 1, file) != 1 || memcmp(h->magic, MAGIC, sizeof MAGIC) != 0)
    fail(2, "%s is no checkpoint of this program", name);
  return file;
}

/* The steps that are done in a file of this rank; 0 where there is none. */
static size_t steps_in_slot(const struct checkpoint *c, int slot) {
  char name[PATH_MAX];
  struct header h;
  FILE *file = open_slot(c, slot, name, &h);
  if (!file)
    return 0;
  fclose(file);
  return h.done;
}

/* The newest step of which all ranks have a file. A rank is at most one checkpoint ahead of another, and keeps two. */
static size_t common_step(const struct checkpoint *c, const size_t done[2]) {
  size_t ranks = (size_t)c->parallel->nranks, newest = done[0] > done[1] ? done[0] : done[1];
  float *steps = calloc(ranks, sizeof *steps); /* exact below 2^24 steps, which options_parse() checks */
  if (!steps)
    fail(1, "no memory");
  steps[c->parallel->rank] = (float)newest;
  parallel_sum(c->parallel, steps, ranks);
  for (size_t rank = 0; rank < ranks; rank++)
    newest = (size_t)steps[rank] < newest ? (size_t)steps[rank] : newest;
  free(steps);
  return newest;
}

/* Returns when all ranks are here. */
static void meet(const struct checkpoint *c) {
  float nothing = 0.0f;
  parallel_sum(c->parallel, &nothing, 1);
}

void checkpoint_write(const struct checkpoint *c, size_t done) {
  char name[PATH_MAX], new_name[PATH_MAX];
  int slot = steps_in_slot(c, 0) > steps_in_slot(c, 1);
  name_file(c, slot, "", name);
  name_file(c, slot, ".new", new_name);
  FILE *file = fopen(new_name, "wb");
  if (!file)
    fail(1, "cannot write checkpoint %s: %s", new_name, strerror(errno));
  struct header h = header_of(c, done);
  fwrite(&h, sizeof h, 1, file);
  for (size_t i = 0; i < c->nparts; i++)
    fwrite(c->parts[i].memory, 1, c->parts[i].bytes, file);
  if (!close_written(file) || rename(new_name, name) != 0)
    fail(1, "cannot write checkpoint %s: %s", name, strerror(errno));
  meet(c);
}

/* Fails unless the file is of this training. */
static void check_header(const struct checkpoint *c, const struct header *h, const char *name) {
  const size_t ranks = (size_t)c->parallel->nranks;
  options_check_equal(&h->options, c->options, name);
  if (h->ranks != ranks)
    fail(2, "checkpoint %s is of %zu ranks: expected %zu", name, h->ranks, ranks);
  if (h->tokens != c->tokens)
    fail(2, "checkpoint %s is of a text of %zu tokens: expected one of %zu", name, h->tokens, c->tokens);
}

/* Removes a file of this rank that other ranks lack: the next one would not be written over the older of two that all
 * have. */
static void drop_slot(const struct checkpoint *c, int slot) {
  char name[PATH_MAX];
  name_file(c, slot, "", name);
  if (remove(name) != 0)
    fail(1, "cannot remove checkpoint %s: %s", name, strerror(errno));
}

/* Some rank has no file. Those of this one must be of this training all the same. */
static void drop_all(const struct checkpoint *c) {
  for (int slot = 0; slot < 2; slot++) {
    char name[PATH_MAX];
    struct header h;
    FILE *file = open_slot(c, slot, name, &h);
    if (!file)
      continue;
    fclose(file);
    check_header(c, &h, name);
    drop_slot(c, slot);
  }
}

size_t checkpoint_read(const struct checkpoint *c) {
  char name[PATH_MAX];
  struct header h, expected = header_of(c, 0);
  size_t done[2] = {steps_in_slot(c, 0), steps_in_slot(c, 1)}, step = common_step(c, done);
  if (step == 0) {
    drop_all(c);
    return 0;
  }
  if (step != done[0] && step != done[1])
    fail(2, "checkpoint %s: rank %d has the steps %zu and %zu, and another rank %zu at most", c->options->checkpoint,
         c->parallel->rank, done[0], done[1], step);
  FILE *file = open_slot(c, step == done[1], name, &h);
  if (!file)
    fail(1, "checkpoint %s is gone", name);
  check_header(c, &h, name);
  bool whole = h.bytes == expected.bytes;
  for (size_t i = 0; whole && i < c->nparts; i++)
    whole = fread(c->parts[i].memory, 1, c->parts[i].bytes, file) == c->parts[i].bytes;
  fclose(file);
  if (!whole)
    fail(2, "checkpoint %s is cut off", name);
  if (done[step != done[1]] > step) /* only this rank got that far */
    drop_slot(c, step != done[1]);
  return step;
}
