/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map: what its parts share. What it shows is brought into tables first: one for a map, one a communicator for
 * recorded calls.
 */
#ifndef LAYERMAP_TAGC_MAP_MAP_H
#define LAYERMAP_TAGC_MAP_MAP_H

#include <stdio.h>

#include "layermap/cycle/calls.h"
#include "layermap/infer/layers.h"

/* What a parameter counts as where each counts once: the first of its kinds in the order norm, expert, attn, mlp,
 * embed, head. */
enum tagc_share {
  TAGC_SHARE_EMBED,
  TAGC_SHARE_ATTN,
  TAGC_SHARE_MLP,
  TAGC_SHARE_EXPERT,
  TAGC_SHARE_NORM,
  TAGC_SHARE_HEAD,
  TAGC_SHARE_OTHER,
  TAGC_SHARE_PADDING,
  TAGC_SHARES
};

enum tagc_share tagc_share_of(uint32_t kinds);
const char *tagc_share_name(enum tagc_share share);

/* Slots, or blocks, that are alike. */
struct tagc_map_row {
  char name[2 * TAGC_LAYER_NAME + 8]; /* "block.0-31", "block.0 to block.11" */
  size_t times;                       /* so many are alike */
  struct tagc_layer layer;            /* of the first one */
  uint64_t shard, all;                /* elements of one shard, and of all of them */
  uint64_t elements[TAGC_SHARES];     /* of all shards; all 0 where nothing is known */
};

struct tagc_map_table {
  char title[160];                             /* "model.map, laid out as fsdp2 for 8 ranks" */
  char what[256], runner_up[TAGC_LAYERS_WHAT]; /* what was inferred, with its confidence, and what comes next; "":
                                                  nothing */
  int nranks;
  struct tagc_map_row *rows;
  size_t count;
  struct tagc_layers *layers;  /* what rows point into ... */
  struct tagc_member *members; /* ... or this */
};

/* The table of a map. False without memory. */
bool tagc_map_tabulate_model(struct tagc_map_table *table, const char *path, const struct tagc_model *model,
                             enum tagc_layout_kind layout, int nranks);
/* The table of a communicator; its calls must have a cycle (tagc_map_find_cycle()). */
bool tagc_map_tabulate_calls(struct tagc_map_table *table, const char *path, const struct tagc_call_list *list,
                             const struct tagc_cycle *cycle);
void tagc_map_table_free(struct tagc_map_table *table);

/* The cycle in the calls, as the library finds it, only sooner; where they do not suffice for that, what was recorded
 * last is taken to go on. Where tagc_cycle_length() is 0 there is none. NULL without memory. */
struct tagc_cycle *tagc_map_find_cycle(const struct tagc_call_list *list);

/* A table for the terminal, and pictures of several. */
void tagc_map_print(const struct tagc_map_table *table, FILE *file);
void tagc_map_draw(const struct tagc_map_table *tables, size_t count, FILE *file);

/* Holds a map against the calls; says on `file` what fits. 0: all does, 1: something does not, 2: no memory. */
int tagc_map_check(const struct tagc_model *model, const struct tagc_call_file *calls, FILE *file);

#endif
