/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map: shared by its parts. All output comes from tables: one for a map, one per communicator of recorded calls.
 */
#ifndef LAYERMAP_TAGC_MAP_MAP_H
#define LAYERMAP_TAGC_MAP_MAP_H

#include <stdio.h>

#include "layermap/cycle/calls.h"
#include "layermap/infer/layers.h"

/* The class of a parameter, counted once: the first of its kinds in the order norm, expert, attn, mlp, embed, head. */
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
  size_t times;                       /* number of like ones */
  struct tagc_layer layer;            /* of the first one */
  uint64_t shard, all;                /* elements of one shard, and of all shards */
  uint64_t elements[TAGC_SHARES];     /* of all shards; all 0 if unknown */
};

struct tagc_map_table {
  char title[160];                             /* "model.map, laid out as fsdp2 for 8 ranks" */
  char what[256], runner_up[TAGC_LAYERS_WHAT]; /* the inferred model and its confidence, and the next best; "": none */
  int nranks;
  struct tagc_map_row *rows;
  size_t count;
  struct tagc_layers *layers;  /* rows point into these ... */
  struct tagc_member *members; /* ... or these */
};

/* The table of a map. False: no memory. */
bool tagc_map_tabulate_model(struct tagc_map_table *table, const char *path, const struct tagc_model *model,
                             enum tagc_layout_kind layout, int nranks);
/* The table of a communicator; its calls must have a cycle (tagc_map_find_cycle()). */
bool tagc_map_tabulate_calls(struct tagc_map_table *table, const char *path, const struct tagc_call_list *list,
                             const struct tagc_cycle *cycle);
void tagc_map_table_free(struct tagc_map_table *table);

/* The cycle of the calls, as the library finds it, only sooner. If the calls do not suffice, their latest step is
 * assumed to go on. tagc_cycle_length() is 0 if none was found. NULL: no memory. */
struct tagc_cycle *tagc_map_find_cycle(const struct tagc_call_list *list);

/* Prints a table for the terminal, and a picture of several tables. */
void tagc_map_print(const struct tagc_map_table *table, FILE *file);
void tagc_map_draw(const struct tagc_map_table *tables, size_t count, FILE *file);

/* Compares a map with the calls and prints the result. 0: all fit, 1: some do not, 2: no memory. */
int tagc_map_check(const struct tagc_model *model, const struct tagc_call_file *calls, FILE *file);

#endif
