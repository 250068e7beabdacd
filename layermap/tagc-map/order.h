/* SPDX-License-Identifier: BSD-3-Clause
 * In which order does a framework register parameters of these names? A guess, from the names alone.
 *
 * A *style* is how a framework names the parts of a block, and the order in which it registers them; one of the names
 * tells it. Pure functions.
 */
#ifndef LAYERMAP_TAGC_MAP_ORDER_H
#define LAYERMAP_TAGC_MAP_ORDER_H

#include <stdbool.h>
#include <stdint.h>

/* Beside the styles of blocks there are those of what is in none. */
enum { TAGC_STYLE_EMBED = 0, TAGC_STYLE_HEAD = 1, TAGC_STYLE_UNKNOWN = 255 };

/* The style that the name of a parameter of a block tells, TAGC_STYLE_UNKNOWN for none; of several names the least one
 * is meant. */
unsigned tagc_style_of(const char *name);

/* What comes first is less: compared by part, number (of an expert), place and bias. */
struct tagc_order {
  uint32_t part, number, place, is_bias;
};

struct tagc_order tagc_order_of(unsigned style, const char *name);

#endif
