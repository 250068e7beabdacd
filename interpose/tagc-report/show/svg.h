/* SPDX-License-Identifier: BSD-3-Clause
 * Axes of pictures: where values lie, and ticks at round numbers. Pure but for what it draws.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_SVG_H
#define INTERPOSE_TAGC_REPORT_SHOW_SVG_H

#include <stdbool.h>
#include <stdio.h>

/* Values from low to high lie from `from` to `to`, in units of the picture. */
struct tagc_axis {
  double low, high, from, to;
  double step; /* between ticks */
};

/* An axis whose ends and ticks are round numbers, with about `ticks` of them. */
struct tagc_axis tagc_axis_make(double low, double high, double from, double to, int ticks);
double tagc_axis_at(const struct tagc_axis *axis, double value);
/* Lines across a picture at the ticks, and their numbers with `unit` on the topmost one; from x to x + width. */
void tagc_axis_draw_left(FILE *file, const struct tagc_axis *axis, double x, double width, const char *unit);
/* Numbers beneath, at the ticks, and a name at the end. */
void tagc_axis_draw_below(FILE *file, const struct tagc_axis *axis, double y, const char *name);

/* <text class=... x= y=>, escaped. */
void tagc_svg_text(FILE *file, const char *class, double x, double y, const char *text);

/* Keys beside each other, from x on: a mark of the class, and its name. Gives where the next one begins. */
double tagc_svg_key(FILE *file, const char *class, double x, double y, const char *name);

#endif
