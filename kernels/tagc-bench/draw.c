/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/tagc-bench/draw.h"

#include <errno.h>
#include <string.h>

#include "env/program/markup.h"
#include "kernels/tagc-bench/bench.h"

enum { LETTER = 7, LINE = 15 };

void bench_canvas_open(struct bench_canvas *c, const char *file, int high, const char *what, const char *of,
                       const char *subtitle) {
  c->boxes = 0;
  if (!tagc_output_open(&c->file, file))
    bench_stop(BENCH_FAILED, "%s: %s", file, strerror(errno));
  fprintf(c->file.to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
          "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n"
          "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
          BENCH_WIDE, high, BENCH_WIDE, high, BENCH_WIDE, high);
  tagc_markup(c->file.to, "<text x=\"%d\" y=\"26\" font-size=\"16\" font-weight=\"600\" fill=\"#111\">%s%s</text>\n",
              BENCH_LEFT, what, of);
  bench_words(c, BENCH_LEFT, 46, "start", "#555", subtitle);
}

void bench_canvas_close(struct bench_canvas *c) {
  fputs("</svg>\n", c->file.to);
  const int error = tagc_output_close(&c->file, true);
  if (error)
    bench_stop(BENCH_FAILED, "%s: %s", c->file.path, strerror(error));
}

const char *bench_colour(size_t i) {
  static const char *const colours[] = {"#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b"};
  return colours[i % (sizeof colours / sizeof *colours)];
}

void bench_words(const struct bench_canvas *c, double x, double y, const char *anchor, const char *fill,
                 const char *text) {
  tagc_markup(c->file.to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", x, y, anchor, fill,
              text);
}

void bench_words_upwards(const struct bench_canvas *c, double y, const char *text) {
  tagc_markup(c->file.to,
              "<text transform=\"translate(22 %.1f) rotate(-90)\" text-anchor=\"middle\" fill=\"#111\">"
              "%s</text>\n",
              y, text);
}

void bench_line(const struct bench_canvas *c, double x1, double y1, double x2, double y2, const char *stroke) {
  fprintf(c->file.to, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2,
          stroke);
}

void bench_frame(const struct bench_canvas *c) {
  fprintf(c->file.to, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" stroke=\"#777\"/>\n",
          c->frame.x, c->frame.y, c->frame.wide, c->frame.high);
}

void bench_take(struct bench_canvas *c, struct bench_box box) {
  if (c->boxes < BENCH_MOST_BOXES)
    c->taken[c->boxes++] = box;
}

/* Approximates it by small boxes. */
void bench_take_stretch(struct bench_canvas *c, double x1, double y1, double x2, double y2) {
  enum { PIECES = 24 };
  for (int i = 1; i < PIECES; i++)
    bench_take(c, (struct bench_box){x1 + (x2 - x1) * i / PIECES - 1, y1 + (y2 - y1) * i / PIECES - 1, 2, 2});
}

static bool is_free(const struct bench_canvas *c, const struct bench_box *b) {
  const struct bench_box *f = &c->frame;
  if (b->x < f->x || b->x + b->wide > BENCH_WIDE - 4 || b->y < f->y || b->y + b->high > f->y + f->high)
    return false;
  for (int i = 0; i < c->boxes; i++) {
    const struct bench_box *t = &c->taken[i];
    if (b->x < t->x + t->wide && t->x < b->x + b->wide && b->y < t->y + t->high && t->y < b->y + b->high)
      return false;
  }
  return true;
}

void bench_label(struct bench_canvas *c, double x, double y, const char *fill, const char *text, bool needed) {
  static const double side[][2] = {{0, 0}, {0, -1}, {-1, -1}, {-2, 0}, {0, 1}, {-1, 1}, {-2, -1}, {-2, 1}};
  enum { SIDES = sizeof side / sizeof *side };
  const double wide = LETTER * (double)strlen(text);
  for (int i = 0; i <= SIDES; i++) {
    const double *s = side[i % SIDES];
    const double left = s[0] == 0 ? 8 : s[0] < -1 ? -8 - wide : -wide / 2;
    const struct bench_box box = {x + left, y - LINE / 2.0 + s[1] * (LINE + 1), wide, LINE};
    if (i < SIDES ? !is_free(c, &box) : !needed)
      continue;
    bench_take(c, box);
    bench_words(c, box.x, box.y + LINE - 4, "start", fill, text);
    return;
  }
}
