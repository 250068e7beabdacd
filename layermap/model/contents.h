/* SPDX-License-Identifier: BSD-3-Clause
 * What a layer holds most of, in words for people: tables group slots by it.
 *
 * Pure functions of their arguments; any thread; no allocation.
 */
#ifndef LAYERMAP_MODEL_CONTENTS_H
#define LAYERMAP_MODEL_CONTENTS_H

#include "layermap/model/layout.h"

/* The longest names of slots ("block.0-16382", of several units "encoder.11-decoder.0") and of parameters, with the
 * byte that ends them: none is cut. */
enum { TAGC_LAYER_NAME = 2 * TAGC_UNIT_NAME + 16, TAGC_MEMBER_NAME = TAGC_UNIT_NAME + TAGC_PARAMETER_NAME + 16 };

/* What is in one slot. Slots that are alike share their members. */
struct tagc_layer {
  char name[TAGC_LAYER_NAME];        /* "block.3", "block.0-1", "block.3.mlp", "embed", "root", "unit7", "bucket.2" */
  const struct tagc_member *members; /* in the order of the layout; `block` is that of the first slot that shares them
                                        ... */
  size_t count;                      /* 0: not known */
  int32_t block_offset;              /* ... and what is to be added to it for this one, where it is not -1 */
  enum tagc_layout_kind layout;
  size_t element_bytes; /* for the layout */
};

/* Sorts of parameters. Experts and their routers count as MLP, norms and their biases as norms wherever they are. */
enum tagc_content {
  TAGC_CONTENT_EMBED,
  TAGC_CONTENT_ATTN,
  TAGC_CONTENT_MLP,
  TAGC_CONTENT_NORM,
  TAGC_CONTENT_HEAD,
  TAGC_CONTENT_OTHER,
  TAGC_CONTENTS
};

/* Elements of each sort, over all shards and without padding; all 0 where it is not known what the layer holds. */
void tagc_layer_contents(const struct tagc_layer *layer, uint64_t elements[TAGC_CONTENTS]);

/* Kinds of layers, in the order of tables. BLOCKS: attention and MLP of one block or more. */
enum tagc_layer_kind {
  TAGC_LAYER_EMBED,
  TAGC_LAYER_BLOCKS,
  TAGC_LAYER_ATTN,
  TAGC_LAYER_MLP,
  TAGC_LAYER_NORM,
  TAGC_LAYER_HEAD,
  TAGC_LAYER_OTHER,
  TAGC_LAYER_KINDS
};

/* The kind that most of its elements are of. */
enum tagc_layer_kind tagc_layer_kind(const uint64_t elements[TAGC_CONTENTS]);
/* "embed", "blocks", "attention", ... */
const char *tagc_layer_kind_words(enum tagc_layer_kind kind);

/* The names of a row of layers, from its first and its last one: of "block.0" and "block.31" "block.0 to 31", of
 * "block.0.mlp" and "block.31.mlp" "block.0 to 31.mlp"; of others both names. False where they do not differ in a
 * number alone. */
bool tagc_layer_span(const char *first, const char *last, char *text, size_t size);

/* The whole name of a member, which begins as that of its block: "block.3.attn.q.weight". `size`: at least
 * TAGC_MEMBER_NAME, or it is cut. Returns `text`. */
const char *tagc_layer_member_name(const struct tagc_layer *layer, size_t member, char *text, size_t size);

#endif
