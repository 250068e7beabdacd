/* SPDX-License-Identifier: BSD-3-Clause
 * The main contents of a layer, in words for people: tables group slots by it.
 *
 * Pure functions of their arguments; any thread; no allocation.
 */
#ifndef LAYERMAP_MODEL_CONTENTS_H
#define LAYERMAP_MODEL_CONTENTS_H

#include "layermap/model/layout.h"

/* The longest names, with the NUL: slots ("block.0-16382", "encoder.11-decoder.0"), parameters. */
enum { TAGC_LAYER_NAME = 2 * TAGC_UNIT_NAME + 16, TAGC_MEMBER_NAME = TAGC_UNIT_NAME + TAGC_PARAMETER_NAME + 16 };

/* The contents of one slot. Like slots share their members. */
struct tagc_layer {
  char name[TAGC_LAYER_NAME];        /* "block.3", "block.0-1", "block.3.mlp", "embed", "root", "unit7", "bucket.2" */
  const struct tagc_member *members; /* in layout order; `block` is that of the first slot with them ... */
  size_t count;                      /* 0: unknown */
  int32_t block_offset;              /* ... and this is added to it for this slot, unless it is -1 */
  enum tagc_layout_kind layout;
  size_t element_bytes; /* for the layout */
  bool is_guessed;      /* the members' order is a guess; a bucket then has all members of its units */
};

/* Sorts of parameters. Experts and their routers count as MLP; norms and their biases as norms, wherever they are. */
enum tagc_content {
  TAGC_CONTENT_EMBED,
  TAGC_CONTENT_ATTN,
  TAGC_CONTENT_MLP,
  TAGC_CONTENT_NORM,
  TAGC_CONTENT_HEAD,
  TAGC_CONTENT_OTHER,
  TAGC_CONTENTS
};

/* Elements of each sort, over all shards without padding; all 0 if the layer's contents are unknown. */
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

/* The kind of most of its elements. */
enum tagc_layer_kind tagc_layer_kind(const uint64_t elements[TAGC_CONTENTS]);
/* "embed", "blocks", "attention", ... */
const char *tagc_layer_kind_words(enum tagc_layer_kind kind);

/* Names a row of layers by its first and last one: "block.0" and "block.31" give "block.0 to 31", "block.0.mlp" and
 * "block.31.mlp" give "block.0 to 31.mlp". False, with both names in `text`: they differ in more than a number. */
bool tagc_layer_span(const char *first, const char *last, char *text, size_t size);

/* The full name of a member, with its block's: "block.3.attn.q.weight". Cut below TAGC_MEMBER_NAME. Returns `text`. */
const char *tagc_layer_member_name(const struct tagc_layer *layer, size_t member, char *text, size_t size);

#endif
