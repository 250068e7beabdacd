/* SPDX-License-Identifier: BSD-3-Clause
 * Guesses from names alone in which order a framework registers parameters. A *style* is a framework's names for the
 * parts of a block, with their order of registration; one of the names reveals it. Pure functions.
 */
#ifndef LAYERMAP_TAGC_MAP_ORDER_H
#define LAYERMAP_TAGC_MAP_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* Styles of parameters outside blocks, besides those of blocks. */
enum { TAGC_STYLE_EMBED = 0, TAGC_STYLE_HEAD = 1, TAGC_STYLE_UNKNOWN = 255 };

/* The style that a parameter's name in a block reveals, or TAGC_STYLE_UNKNOWN. Among several names the least counts. */
unsigned tagc_style_of(const char *name);

/* Compares as (part, number of an expert, place, bias); the least comes first. */
struct tagc_order {
  uint32_t part, number, place, is_bias;
};

struct tagc_order tagc_order_of(unsigned style, const char *name);

#endif
