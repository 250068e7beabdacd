/* SPDX-License-Identifier: BSD-3-Clause
 * What a layer holds most of, in words for people: tables group slots by it.
 *
 * Pure functions of their arguments; any thread; no allocation.
 */
#ifndef LAYERMAP_CONTENTS_H
#define LAYERMAP_CONTENTS_H

#include "layermap/infer/layers.h"

/* Sorts of parameters. Experts and their routers count as MLP, norms and their biases as norms wherever they are. */
enum tagc_content {
  TAGC_CONTENT_EMBED, TAGC_CONTENT_ATTN, TAGC_CONTENT_MLP, TAGC_CONTENT_NORM, TAGC_CONTENT_HEAD, TAGC_CONTENT_OTHER, TAGC_CONTENTS
};

/* Elements of each sort, over all shards and without padding; all 0 where it is not known what the layer holds. */
void tagc_layer_contents(const struct tagc_layer *layer, uint64_t elements[TAGC_CONTENTS]);

/* Kinds of layers, in the order of tables. BLOCKS: attention and MLP of one block or more. */
enum tagc_layer_kind {
  TAGC_LAYER_EMBED, TAGC_LAYER_BLOCKS, TAGC_LAYER_ATTN, TAGC_LAYER_MLP, TAGC_LAYER_NORM, TAGC_LAYER_HEAD, TAGC_LAYER_OTHER,
  TAGC_LAYER_KINDS
};

/* The kind that most of its elements are of. */
enum tagc_layer_kind tagc_layer_kind(const uint64_t elements[TAGC_CONTENTS]);
/* "embed", "blocks", "attention", ... */
const char *tagc_layer_kind_words(enum tagc_layer_kind kind);

/* The names of a row of layers, from its first and its last one: of "block.0" and "block.31" "block.0 to 31", of "block.0.mlp" and
 * "block.31.mlp" "block.0 to 31.mlp"; of others both names. False where they do not differ in a number alone. */
bool tagc_layer_span(const char *first, const char *last, char *text, size_t size);

#endif
