/* SPDX-License-Identifier: BSD-3-Clause
 * The parts of a slot's buffer: what is selected, to be compressed, and the rest, which travels as it is in the same
 * exchange.
 *
 * Both are packed before the exchange: of each shard the selected elements, in their order, and zeros up to as many as
 * the shard has that has most of them; and the rest likewise. Padding goes where the segment before it goes.
 */
#ifndef LAYERMAP_MODEL_PARTS_H
#define LAYERMAP_MODEL_PARTS_H

#include "layermap/model/contents.h"

/* A stretch of elements that belong together. */
struct tagc_run {
  uint64_t from;   /* in the shard */
  uint64_t to;     /* in the packed shard */
  uint64_t length; /* >= 1 */
};

struct tagc_parts {
  uint64_t selected, rest; /* elements of a packed shard; rest = 0: all is selected, and nothing is packed */
  bool uniform;            /* the runs of shard 0 are those of every shard */
  size_t shards;           /* 1 where uniform, else nranks */
  /* Runs of shard i: [first[i], first[i + 1]) of `runs`, of the selected ones (0) and of the rest (1). */
  size_t *first[2];
  struct tagc_run *runs[2];
};

/* The parts of a layer with known members. `is_selected`: of each member. NULL without memory. */
struct tagc_parts *tagc_parts_create(const struct tagc_layer *layer, int nranks, const bool *is_selected);
void tagc_parts_free(struct tagc_parts *parts);

bool tagc_parts_equal(const struct tagc_parts *one, const struct tagc_parts *other);

/* Elements of all shards that are selected, without those that pad packed shards. */
uint64_t tagc_parts_elements(const struct tagc_parts *parts, int nranks);

/* A number that is equal for equal parts, and hardly ever for others: the ranks compare them before they vote. 0 is
 * none. */
uint64_t tagc_parts_digest(const struct tagc_parts *parts);

#endif
