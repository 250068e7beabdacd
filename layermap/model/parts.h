/* SPDX-License-Identifier: BSD-3-Clause
 * Splits a slot's buffer: selected elements are compressed, the rest travels plainly in the same exchange.
 *
 * Both parts are packed before the exchange. Each shard gives its selected elements in order, with zeros up to the
 * longest shard; likewise the rest. Padding goes with the segment before it.
 */
#ifndef LAYERMAP_MODEL_PARTS_H
#define LAYERMAP_MODEL_PARTS_H

#include "layermap/model/contents.h"

/* A stretch of elements that stay together. */
struct tagc_run {
  uint64_t from;   /* in the shard */
  uint64_t to;     /* in the packed shard */
  uint64_t length; /* >= 1 */
};

struct tagc_parts {
  uint64_t selected, rest; /* elements of a packed shard; rest = 0: all is selected, nothing is packed */
  bool uniform;            /* the runs of shard 0 are those of every shard */
  size_t shards;           /* 1 if uniform, else nranks */
  /* Runs of shard i: [first[part][i], first[part][i + 1]) of runs[part]; part 0 is selected, 1 the rest. */
  size_t *first[2];
  struct tagc_run *runs[2];
};

/* The parts of a layer with known members. `is_selected`: per member. NULL: no memory. */
struct tagc_parts *tagc_parts_create(const struct tagc_layer *layer, int nranks, const bool *is_selected);
void tagc_parts_free(struct tagc_parts *parts);

bool tagc_parts_equal(const struct tagc_parts *one, const struct tagc_parts *other);

/* Selected elements of all shards, without the padding of packed shards. */
uint64_t tagc_parts_elements(const struct tagc_parts *parts, int nranks);

/* Equal for equal parts, and hardly ever for others: the ranks compare it before they vote. Never 0 (none). */
uint64_t tagc_parts_digest(const struct tagc_parts *parts);

#endif
