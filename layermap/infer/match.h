/* SPDX-License-Identifier: BSD-3-Clause
 * Compares a model with the sizes of slots: finds its wrapping and layout.
 *
 * Wrappings   block      a slot per block, and the root (all outside the blocks), or embedding and head by themselves
 *             sub-block  attention and MLP of a block in slots of their own, its norms with the root or in a third
 *             group      several blocks per slot
 *             whole      one slot
 *             buckets    parameters in reverse order, cut where a bucket is full (Megatron, DeepSpeed; DDP, whose first
 *                        is smaller)
 *
 * Parameters outside the blocks lie in any slots of the right size, alone or together. Unmatched slots have no piece.
 *
 * Pure functions of their arguments, any thread. Those that allocate free it again.
 */
#ifndef LAYERMAP_INFER_MATCH_H
#define LAYERMAP_INFER_MATCH_H

#include "layermap/cycle/cycle.h"
#include "layermap/model/layout.h"

enum tagc_wrapping { TAGC_WRAP_BLOCK, TAGC_WRAP_SUB_BLOCK, TAGC_WRAP_GROUP, TAGC_WRAP_WHOLE, TAGC_WRAP_BUCKETS };

/* The sorts of parameters that wrappings keep apart: before blocks, behind them (norms, the rest), inside a block. */
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

/* The contents of a slot: the parameters of the sorts in `keep` at the places [first, first + count). If to > 0, only
 * those numbered [from, to) in forward order (a bucket). keep = 0: unknown. */
struct tagc_piece {
  uint32_t first, count;
  uint32_t from, to;
  uint8_t keep; /* enum tagc_keep */
};

struct tagc_match {
  enum tagc_wrapping wrapping;
  enum tagc_layout_kind layout;
  uint32_t group;     /* blocks per slot; 0: no slot holds a whole block */
  size_t odd;         /* slots without a piece */
  uint64_t explained; /* elements of all shards in the other slots */
};

/* Nobody puts more blocks into a slot, unless all are in one. */
enum { TAGC_MATCH_GROUP = 64 };

/* The result of a search. */
enum tagc_found { TAGC_FOUND_NO_MEMORY = -1, TAGC_FOUND_NONE, TAGC_FOUND };

/* The sort of a parameter of the unit at `place`. */
uint8_t tagc_keep_of(const struct tagc_model *model, size_t place, const struct tagc_parameter *parameter);

/* Writes the parameters of a piece in forward order to `members` (NULL: counts them). Returns their number. */
size_t tagc_piece_members(const struct tagc_model *model, const struct tagc_piece *piece, struct tagc_member *members);

/* Finds how the model lies in slots of `counts` elements a shard, in forward order. `layouts`: a bit per allowed
 * layout; the one that explains most wins, the first of equals. Fills one piece a slot. TAGC_FOUND_NONE: the blocks do
 * not fit; why (of 160 bytes, or NULL) says which. */
enum tagc_found tagc_match_find(const struct tagc_model *model, const uint64_t *counts, size_t count, int nranks,
                                size_t element_bytes, unsigned layouts, struct tagc_match *match,
                                struct tagc_piece *pieces, char *why);

#endif
