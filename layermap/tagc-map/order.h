/* SPDX-License-Identifier: BSD-3-Clause
 * In which order does a framework register parameters? A checkpoint's header is sorted otherwise, but the names often
 * reveal a family whose order is known. Of other names the order is a guess. Pure functions.
 */
#ifndef LAYERMAP_TAGC_MAP_ORDER_H
#define LAYERMAP_TAGC_MAP_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Compares as (part, number of an expert, item, bias); the least comes first. */
struct tagc_order {
  uint32_t part, number, item, is_bias;
  bool is_numbered;
  bool is_behind; /* outside blocks: behind them in the forward pass */
};

/* The order is known; the same, but the blocks are not registered where they run; or it is a guess. */
enum tagc_order_source { TAGC_ORDER_KNOWN, TAGC_ORDER_APART, TAGC_ORDER_GUESSED };

/* The names of a family of models. */
struct tagc_naming;

/* The naming with these names outside blocks; NULL: none. `orders` is room for as many. */
const struct tagc_naming *tagc_naming_find(const char *const *names, size_t count, struct tagc_order *orders);

/* Orders parameters: all outside blocks, or those of one block, by their names without its prefix. */
enum tagc_order_source tagc_order_outside(const struct tagc_naming *naming, const char *const *names, size_t count,
                                          struct tagc_order *orders);
enum tagc_order_source tagc_order_block(const struct tagc_naming *naming, const char *const *names, size_t count,
                                        struct tagc_order *orders);

#endif
