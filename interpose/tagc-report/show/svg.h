/* SPDX-License-Identifier: BSD-3-Clause
 * Axes of pictures: the places of values, and ticks at round numbers. Pure except for drawing.
 */
#ifndef INTERPOSE_TAGC_REPORT_SHOW_SVG_H
#define INTERPOSE_TAGC_REPORT_SHOW_SVG_H

#include <stdbool.h>
#include <stdio.h>

/* Maps values from low to high to places from `from` to `to`, in units of the picture. */
struct tagc_axis {
  double low, high, from, to;
  double step; /* between ticks */
};

/* An axis with round ends and ticks, about `ticks` of them. */
struct tagc_axis tagc_axis_make(double low, double high, double from, double to, int ticks);
double tagc_axis_at(const struct tagc_axis *axis, double value);
/* Draws lines at the ticks from x to x + width, and their numbers, the topmost with `unit`. */
void tagc_axis_draw_left(FILE *file, const struct tagc_axis *axis, double x, double width, const char *unit);
/* Draws numbers beneath the ticks, and a name at the end. */
void tagc_axis_draw_below(FILE *file, const struct tagc_axis *axis, double y, const char *name);

/* <text class=... x= y=>, escaped. */
void tagc_svg_text(FILE *file, const char *class, double x, double y, const char *text);

/* Draws a key of the legend at x: a mark of the class, and its name. Returns the x of the next one. */
double tagc_svg_key(FILE *file, const char *class, double x, double y, const char *name);

#endif
