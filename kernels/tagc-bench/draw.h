/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the pictures of tagc-bench: an SVG file, and labels that do not cover the drawing.
 *
 * Colours are those of Okabe and Ito (2008), which people of all colour visions can tell apart.
 * Units      pixels, from the upper left.
 */
#ifndef KERNELS_TAGC_BENCH_DRAW_H
#define KERNELS_TAGC_BENCH_DRAW_H

#include <stdbool.h>

#include "env/program/output.h"

enum { BENCH_WIDE = 820, BENCH_LEFT = 84, BENCH_RIGHT = 24, BENCH_TOP = 62, BENCH_MOST_BOXES = 4000 };

struct bench_box {
  double x, y, wide, high;
};

struct bench_canvas {
  struct tagc_output file;
  struct bench_box frame;                   /* bounds of labels */
  struct bench_box taken[BENCH_MOST_BOXES]; /* areas that labels must not cover */
  int boxes;
};

/* Both end the program if the file cannot be written. The title is `what` and `of`; `of` may hold anything. */
void bench_canvas_open(struct bench_canvas *canvas, const char *file, int high, const char *what, const char *of,
                       const char *subtitle);
void bench_canvas_close(struct bench_canvas *canvas);

const char *bench_colour(size_t i);
void bench_words(const struct bench_canvas *canvas, double x, double y, const char *anchor, const char *fill,
                 const char *text);
void bench_words_upwards(const struct bench_canvas *canvas, double y, const char *text);
void bench_line(const struct bench_canvas *canvas, double x1, double y1, double x2, double y2, const char *stroke);
void bench_frame(const struct bench_canvas *canvas);

/* Keeps labels off a box, or off the stretch between two points. */
void bench_take(struct bench_canvas *canvas, struct bench_box box);
void bench_take_stretch(struct bench_canvas *canvas, double x1, double y1, double x2, double y2);

/* Writes beside a point, on the first side with room. Without room it omits the text unless it is `needed`. */
void bench_label(struct bench_canvas *canvas, double x, double y, const char *fill, const char *text, bool needed);

#endif
