/* SPDX-License-Identifier: BSD-3-Clause
 * The models of tests/fixtures/zoo over ranks, for tests that count what can be told of them.
 */
#ifndef TESTS_UNIT_INFER_ZOO_H
#define TESTS_UNIT_INFER_ZOO_H

#include "layermap/infer/layers.h"

enum { ZOO_SLOTS = 512, ZOO_RANKS = 6, ZOO_LABEL = 64 };
extern const int zoo_ranks[ZOO_RANKS];

struct zoo_case {
  const char *name;
  const struct tagc_model *model;
  enum tagc_layout_kind layout;
  int nranks;
  struct tagc_slot_info slots[ZOO_SLOTS]; /* in the order of calls: the last place's comes first */
};

/* The truth and the guess of a slot. */
struct zoo_sides {
  struct tagc_layer truth;
  const struct tagc_layer *guess;
  uint32_t kinds; /* only these count; 0: all */
};

/* The maps of a file of the zoo, one behind the other: to be freed. NULL: cannot be read. */
char *zoo_load(const char *name);
char *zoo_read(const char *path);
/* The next model from *at on, and its name; NULL: none is left. What is no map fails as a check. */
struct tagc_model *zoo_next(const char **at, char *label);

/* The parameters of a place of the model, which become `members`. Returns how many. */
size_t zoo_members(const struct tagc_model *model, size_t place, struct tagc_member *members);
void zoo_make_slots(struct zoo_case *c);

/* Does the guess state the true kinds of every element that is no padding? UNSURE: it does, but calls some unsure. */
enum zoo_truth { ZOO_TRUE, ZOO_UNSURE, ZOO_FALSE };
enum zoo_truth zoo_compare(const struct zoo_sides *sides, int nranks);

#endif
