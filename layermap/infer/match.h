/* SPDX-License-Identifier: BSD-3-Clause
 * Holds a model against the sizes of slots: how is it wrapped into them, and laid out?
 *
 * Wrappings   block      a slot a block, and the root (all that is outside blocks), or embedding and head by themselves
 *             sub-block  attention and MLP of a block in slots of their own, its norms with the root or in a third
 *             group      several blocks at once
 *             whole      one slot
 *             buckets    parameters in the reverse of their order, cut where a bucket is full (Megatron, DeepSpeed;
 *                        DDP, whose first is smaller)
 *
 * What is outside the blocks lies in any slots that have the right size, alone or together; a slot that nothing of the
 * model fits stays without a piece.
 *
 * Pure functions of their arguments, any thread. Those that allocate give back what they took.
 */
#ifndef LAYERMAP_INFER_MATCH_H
#define LAYERMAP_INFER_MATCH_H

#include "layermap/cycle/cycle.h"
#include "layermap/model/layout.h"

enum tagc_wrapping { TAGC_WRAP_BLOCK, TAGC_WRAP_SUB_BLOCK, TAGC_WRAP_GROUP, TAGC_WRAP_WHOLE, TAGC_WRAP_BUCKETS };

/* The sorts of parameters that wrappings keep apart: of what stands before the blocks, behind them (norms, and the
 * rest), and of what a block holds. */
enum tagc_keep {
  TAGC_KEEP_EMBED = 1,
  TAGC_KEEP_NORM = 2,
  TAGC_KEEP_HEAD = 4,
  TAGC_KEEP_OUTSIDE = 7,
  TAGC_KEEP_ATTN = 8,
  TAGC_KEEP_MLP = 16,
  TAGC_KEEP_REST = 32,
  TAGC_KEEP_BLOCK = 56,
  TAGC_KEEP_ALL = 63
};

/* What is in a slot: of the places [first, first + count) the parameters of the sorts in `keep`; of these, where to >
 * 0, only [from, to), numbered in forward order (a bucket). keep = 0: not known. */
struct tagc_piece {
  uint32_t first, count;
  uint32_t from, to;
  uint8_t keep; /* enum tagc_keep */
};

struct tagc_match {
  enum tagc_wrapping wrapping;
  enum tagc_layout_kind layout;
  uint32_t group;     /* blocks a slot; 0: none is whole in one */
  size_t odd;         /* slots without a piece */
  uint64_t explained; /* elements of all shards in the others */
};

/* More blocks than that nobody puts into a slot, unless all are in one. */
enum { TAGC_MATCH_GROUP = 64 };

/* What came of a search. */
enum tagc_found { TAGC_FOUND_NO_MEMORY = -1, TAGC_FOUND_NONE, TAGC_FOUND };

/* The sort of a parameter of the unit that stands at `place`. */
uint8_t tagc_keep_of(const struct tagc_model *model, size_t place, const struct tagc_parameter *parameter);

/* The parameters of a piece in forward order, into `members` (NULL: they are counted). Returns their number. */
size_t tagc_piece_members(const struct tagc_model *model, const struct tagc_piece *piece, struct tagc_member *members);

/* Finds how the model lies in slots of `counts` elements a shard, in forward order. `layouts`: a bit for each that may
 * be; the one that explains most is taken, of equals the first. Fills one piece a slot. TAGC_FOUND_NONE: the blocks do
 * not fit (why, of 160 bytes, says what does not, if it is not NULL). */
enum tagc_found tagc_match_find(const struct tagc_model *model, const uint64_t *counts, size_t count, int nranks,
                                size_t element_bytes, unsigned layouts, struct tagc_match *match,
                                struct tagc_piece *pieces, char *why);

#endif
