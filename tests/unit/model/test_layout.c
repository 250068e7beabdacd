/* SPDX-License-Identifier: BSD-3-Clause
 * Layouts against a slow simulation of the frameworks. Small parameters, whose elements know their member, are padded,
 * flattened, cut in chunks and concatenated one by one. Every element of every shard is compared.
 */
#include <stdlib.h>
#include <string.h>

#include "layermap/model/layout.h"
#include "tests/unit/tap.h"

enum { MEMBERS = 6, LARGEST = 8192, PADDING = -1 };

/* Elements, each with its member's number. */
struct tensor {
  int at[LARGEST];
  size_t count;
};

static void append(struct tensor *to, int member, size_t times) {
  while (times-- > 0)
    to->at[to->count++] = member;
}

static void append_tensor(struct tensor *to, const struct tensor *from, size_t begin, size_t end) {
  for (size_t i = begin; i < end; i++)
    to->at[to->count++] = from->at[i];
}

static void pad_to(struct tensor *tensor, size_t multiple) {
  while (tensor->count % multiple)
    append(tensor, PADDING, 1);
}

static size_t elements(const struct tagc_member *member) {
  return (size_t)(member->parameter->rows * member->parameter->columns);
}

/* torch: a flat parameter, and the layout of its gradient. */
static void play_fsdp1(struct tensor *buffer, const struct tagc_member *members, size_t count, int nranks,
                       size_t aligned) {
  for (size_t i = 0; i < count; i++) {
    pad_to(buffer, aligned);
    append(buffer, (int)i, elements(&members[i]));
  }
  pad_to(buffer, (size_t)nranks);
}

/* torch: rows are padded, the tensor becomes nranks rows, and these are concatenated. */
static void play_fsdp2(struct tensor *buffer, const struct tagc_member *members, size_t count, int nranks) {
  static struct tensor padded[MEMBERS];
  for (size_t i = 0; i < count; i++) {
    size_t rows = (size_t)members[i].parameter->rows, columns = (size_t)members[i].parameter->columns;
    padded[i].count = 0;
    append(&padded[i], (int)i, rows * columns);
    while (rows % (size_t)nranks) {
      append(&padded[i], PADDING, columns);
      rows++;
    }
  }
  for (size_t rank = 0; rank < (size_t)nranks; rank++)
    for (size_t i = 0; i < count; i++) {
      size_t row = padded[i].count / (size_t)nranks;
      append_tensor(buffer, &padded[i], rank * row, (rank + 1) * row);
    }
}

/* DeepSpeed: Python slices, which end with the tensor, and empty memory after short ones. */
static void play_zero3(struct tensor *buffer, const struct tagc_member *members, size_t count, int nranks) {
  for (size_t rank = 0; rank < (size_t)nranks; rank++)
    for (size_t i = 0; i < count; i++) {
      size_t chunk = (elements(&members[i]) + (size_t)nranks - 1) / (size_t)nranks, slice = 0;
      while (slice < chunk && rank * chunk + slice < elements(&members[i]))
        slice++;
      append(buffer, (int)i, slice);
      append(buffer, PADDING, chunk - slice);
    }
}

/* Megatron: from the last parameter to the first. */
static void play_megatron(struct tensor *buffer, const struct tagc_member *members, size_t count, int nranks) {
  for (size_t i = count; i-- > 0;) {
    pad_to(buffer, 64);
    append(buffer, (int)i, elements(&members[i]));
  }
  while (buffer->count % (size_t)nranks || buffer->count % 128)
    append(buffer, PADDING, 1);
}

static void play(enum tagc_layout_kind layout, struct tensor *buffer, const struct tagc_member *members, size_t count,
                 int nranks, size_t element_bytes) {
  buffer->count = 0;
  switch (layout) {
  case TAGC_LAYOUT_FSDP1: play_fsdp1(buffer, members, count, nranks, 1); break;
  case TAGC_LAYOUT_FSDP1_ALIGNED: play_fsdp1(buffer, members, count, nranks, 16 / element_bytes); break;
  case TAGC_LAYOUT_FSDP2: play_fsdp2(buffer, members, count, nranks); break;
  case TAGC_LAYOUT_ZERO3: play_zero3(buffer, members, count, nranks); break;
  case TAGC_LAYOUT_MEGATRON: play_megatron(buffer, members, count, nranks); break;
  default: break;
  }
}

/* The results of a walk. */
struct seen {
  struct tensor shard;
  bool has_gap, is_empty;
  size_t visits, stop_at;
};

static bool see(const struct tagc_segment *segment, void *data) {
  struct seen *seen = data;
  seen->has_gap |= segment->offset != seen->shard.count;
  seen->is_empty |= segment->length == 0;
  append(&seen->shard, segment->member, (size_t)segment->length);
  return ++seen->visits != seen->stop_at;
}

static bool agrees(enum tagc_layout_kind layout, const struct tagc_member *members, size_t count, int nranks,
                   size_t element_bytes) {
  static struct tensor buffer;
  static struct seen seen;
  play(layout, &buffer, members, count, nranks, element_bytes);
  size_t shard = (size_t)tagc_layout_shard(layout, members, count, nranks, element_bytes);
  if (shard * (size_t)nranks != buffer.count)
    return false;
  for (int rank = 0; rank < nranks; rank++) {
    seen.shard.count = seen.visits = seen.stop_at = 0;
    seen.has_gap = seen.is_empty = false;
    if (!tagc_layout_walk(layout, members, count, nranks, element_bytes, rank, see, &seen) || seen.has_gap ||
        seen.is_empty || seen.shard.count != shard ||
        memcmp(seen.shard.at, buffer.at + (size_t)rank * shard, shard * sizeof *seen.shard.at))
      return false;
  }
  return true;
}

static unsigned next_number(unsigned below) {
  static uint64_t state = 1;
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(state >> 33) % below;
}

/* Few rows or many, vectors and matrices. */
static size_t draw_members(struct tagc_parameter *parameters, struct tagc_member *members) {
  size_t count = 1 + next_number(MEMBERS);
  for (size_t i = 0; i < count; i++) {
    parameters[i].rows = 1 + next_number(i % 2 ? 40 : 9);
    parameters[i].columns = next_number(2) ? 1 : 1 + next_number(12);
    members[i] = (struct tagc_member){&parameters[i], -1, ""};
  }
  return count;
}

static void walks_agree(void) {
  static struct tagc_parameter parameters[MEMBERS];
  struct tagc_member members[MEMBERS];
  for (enum tagc_layout_kind layout = 0; layout < TAGC_LAYOUTS; layout++)
    for (int nranks = 1; nranks <= 9; nranks++) {
      int wrong = 0, rounds = 300;
      for (int i = 0; i < rounds; i++) {
        size_t count = draw_members(parameters, members);
        wrong += !agrees(layout, members, count, nranks, i % 2 ? 2 : 4);
      }
      ok(wrong == 0, "%s over %d ranks is as the framework does it: %d of %d are not", tagc_layout_name(layout), nranks,
         wrong, rounds);
    }
}

static bool see_first(const struct tagc_segment *segment, void *data) {
  *(struct tagc_segment *)data = *segment;
  return false;
}

static void walks_stop(void) {
  struct tagc_parameter parameters[] = {
    {.rows = 5, .columns = 3}, {.rows = 7, .columns = 1}, {.rows = 1, .columns = 1}};
  struct tagc_member members[] = {{&parameters[0], -1, ""}, {&parameters[1], -1, ""}, {&parameters[2], -1, ""}};
  for (enum tagc_layout_kind layout = 0; layout < TAGC_LAYOUTS; layout++) {
    bool is_so = true;
    for (size_t stop_at = 1; stop_at <= 2; stop_at++) {
      static struct seen seen;
      seen.shard.count = seen.visits = 0;
      seen.stop_at = stop_at;
      is_so &= !tagc_layout_walk(layout, members, 3, 1, 4, 0, see, &seen) && seen.visits == stop_at;
    }
    ok(is_so, "a walk of %s stops where it is told to", tagc_layout_name(layout));
  }
  struct tagc_segment first;
  ok(tagc_layout_shard(TAGC_LAYOUT_FSDP1, NULL, 0, 4, 4) == 0 &&
       tagc_layout_shard(TAGC_LAYOUT_MEGATRON, NULL, 0, 4, 4) == 0 &&
       tagc_layout_walk(TAGC_LAYOUT_FSDP2, NULL, 0, 4, 4, 3, see_first, &first),
     "nothing has no elements");
}

/* Computed by hand from the sources. */
static void sizes_are_known(void) {
  struct tagc_parameter wte = {.rows = 50257, .columns = 768}, bias = {.rows = 50257, .columns = 1};
  struct tagc_member matrix = {&wte, -1, ""}, vector = {&bias, -1, ""}, both[] = {vector, vector};
  ok(tagc_layout_shard(TAGC_LAYOUT_FSDP1, &matrix, 1, 8, 4) == 4824672 &&
       tagc_layout_shard(TAGC_LAYOUT_ZERO3, &matrix, 1, 8, 4) == 4824672,
     "fsdp1 and zero3 round elements up");
  ok(tagc_layout_shard(TAGC_LAYOUT_FSDP2, &matrix, 1, 8, 4) == 6283 * 768, "fsdp2 rounds rows up");
  ok(tagc_layout_shard(TAGC_LAYOUT_FSDP1, both, 2, 8, 4) == 12565 &&
       tagc_layout_shard(TAGC_LAYOUT_ZERO3, both, 2, 8, 4) == 12566,
     "zero3 rounds each parameter up");
  ok(tagc_layout_shard(TAGC_LAYOUT_FSDP1_ALIGNED, both, 2, 2, 4) == 50259 &&
       tagc_layout_shard(TAGC_LAYOUT_FSDP1_ALIGNED, both, 2, 2, 2) == 50261,
     "fsdp1_aligned begins at multiples of 16 bytes");
  ok(tagc_layout_shard(TAGC_LAYOUT_MEGATRON, &vector, 1, 8, 4) == 6288 &&
       tagc_layout_shard(TAGC_LAYOUT_MEGATRON, &vector, 1, 24, 4) == 2096,
     "megatron rounds up to 128, over 24 ranks to 384");
}

static void large_sizes_end(void) {
  enum { COUNT = 70000 };
  struct tagc_parameter huge = {.rows = UINT64_C(1) << 48, .columns = 1},
                        flat = {.rows = 1, .columns = UINT64_C(1) << 48};
  struct tagc_member *members = calloc(COUNT, sizeof *members);
  for (size_t i = 0; i < COUNT; i++)
    members[i].parameter = &huge;
  struct tagc_segment first;
  ok(tagc_layout_shard(TAGC_LAYOUT_FSDP1, members, COUNT, 2, 4) == UINT64_MAX &&
       !tagc_layout_walk(TAGC_LAYOUT_FSDP1, members, COUNT, 2, 4, 1, see_first, &first),
     "too many flat elements are not counted");
  ok(tagc_layout_shard(TAGC_LAYOUT_FSDP1, members, 16384, 2, 4) == UINT64_C(1) << 61,
     "as long as they can be they are");
  for (size_t i = 0; i < COUNT; i++)
    members[i].parameter = &flat;
  ok(tagc_layout_shard(TAGC_LAYOUT_FSDP2, members, COUNT, 2, 4) == UINT64_MAX &&
       !tagc_layout_walk(TAGC_LAYOUT_FSDP2, members, COUNT, 2, 4, 0, see_first, &first),
     "too many chunks are not counted");
  free(members);
}

static void layouts_have_names(void) {
  bool is_so = true;
  for (enum tagc_layout_kind layout = 0; layout < TAGC_LAYOUTS; layout++)
    for (enum tagc_layout_kind other = 0; other < layout; other++)
      is_so &= strcmp(tagc_layout_name(other), tagc_layout_name(layout)) != 0;
  ok(is_so && !tagc_layout_names[TAGC_LAYOUTS], "each layout has a name of its own");
}

int main(void) {
  walks_agree();
  walks_stop();
  sizes_are_known();
  large_sizes_end();
  layouts_have_names();
  return tap_done();
}
