/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench --simulate --plot: the time of a step, and the bytes that a host sends to others, relative to plain calls,
 * against the number of hosts or ranks. An SVG file; all axes are logarithmic.
 */
#include <math.h>
#include <stdlib.h>

#include "kernels/tagc-bench/bench.h"
#include "kernels/tagc-bench/draw.h"

enum { HIGH = 880, ROOM = 96, PANEL = 340, GAP = 62, LINE = 15 }; /* ROOM: on the right, for names */

/* The label at the end of a curve. */
struct name {
  double y;
  const char *colour;
  char text[40];
};

struct panel {
  struct bench_canvas *canvas;
  const struct bench_forecast *f;
  const char *name;
  bool bytes;      /* else time */
  int least, most; /* powers of two of the ratios */
  struct name names[1 + BENCH_MOST_WAYS * BENCH_MOST_CODECS];
  int name_count;
};

static double ratio(const struct panel *p, const struct bench_sender *sender, int size) {
  const struct bench_cost cost = bench_step_cost(p->f->o, sender, size);
  const struct bench_cost plain = bench_step_cost(p->f->o, &p->f->plain, size);
  return p->bytes ? cost.between / plain.between : cost.ns / plain.ns;
}

/* A single size stands in the middle. */
static double outlook_x(const struct panel *p, int size) {
  const struct bench_simulation *s = &p->f->o->simulation;
  const struct bench_box *frame = &p->canvas->frame;
  const double part = s->most > s->least ? log2((double)size / s->least) / log2((double)s->most / s->least) : 0.5;
  return frame->x + 16 + (frame->wide - 32) * part;
}

static double outlook_y(const struct panel *p, double value) {
  const struct bench_box *frame = &p->canvas->frame;
  return frame->y + frame->high * (1 - (log2(value) - p->least) / (p->most - p->least));
}

static void find_outlook_range(struct panel *p) {
  const struct bench_simulation *s = &p->f->o->simulation;
  double least = 1, most = 1;
  for (int size = s->least; size; size = bench_next_size(s, size))
    for (int way = 0; way < p->f->ways; way++)
      for (size_t i = 0; i < p->f->o->codec_count; i++) {
        const double value = ratio(p, &p->f->by[way][i], size);
        least = value < least ? value : least;
        most = value > most && isfinite(value) ? value : most;
      }
  p->least = (int)floor(log2(least) - 0.05);
  p->most = (int)ceil(log2(most) + 0.05);
}

static void draw_outlook_axes(struct panel *p) {
  char text[32];
  struct bench_canvas *c = p->canvas;
  const struct bench_simulation *s = &p->f->o->simulation;
  const struct bench_box *frame = &c->frame;
  const double right = frame->x + frame->wide, bottom = frame->y + frame->high;
  for (int size = s->least; size; size = bench_next_size(s, size)) {
    bench_line(c, outlook_x(p, size), frame->y, outlook_x(p, size), bottom, "#e4e4e4");
    snprintf(text, sizeof text, "%d", size);
    bench_words(c, outlook_x(p, size), bottom + 18, "middle", "#333", text);
  }
  for (int power = p->least; power <= p->most; power++) {
    bench_line(c, frame->x, outlook_y(p, exp2(power)), right, outlook_y(p, exp2(power)), power ? "#e4e4e4" : "#777");
    snprintf(text, sizeof text, power < 0 ? "1/%g" : "%g", exp2(power < 0 ? -power : power));
    bench_words(c, frame->x - 8, outlook_y(p, exp2(power)) + 4, "end", "#333", text);
  }
  bench_frame(c);
  bench_words_upwards(c, (frame->y + bottom) / 2, p->name);
}

/* Draws the curve of a codec in one way, a dot per size. */
static void draw_outlook_curve(struct panel *p, int way, size_t codec) {
  const struct bench_simulation *s = &p->f->o->simulation;
  const struct bench_sender *sender = &p->f->by[way][codec];
  const bool dashed = way + 1 < p->f->ways;
  FILE *out = p->canvas->file.to;
  fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", bench_colour(codec),
          dashed ? " stroke-dasharray=\"5 4\"" : "");
  for (int size = s->least; size; size = bench_next_size(s, size))
    if (isfinite(ratio(p, sender, size)))
      fprintf(out, "%.1f,%.1f ", outlook_x(p, size), outlook_y(p, ratio(p, sender, size)));
  fputs("\"/>\n", out);
  for (int size = s->least; size; size = bench_next_size(s, size)) {
    const double value = ratio(p, sender, size);
    const struct bench_cost cost = bench_step_cost(p->f->o, sender, size);
    if (!isfinite(value))
      continue;
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>%s%s, %d %s: ", outlook_x(p, size),
            outlook_y(p, value), bench_colour(codec), sender->codec->name,
            p->f->ways == 1 ? ""
            : dashed        ? ", flat"
                            : ", two levels",
            size, s->by_host ? "hosts" : "ranks");
    fprintf(out, p->bytes ? "%.4g MB" : "%.4g ms", 1e-6 * (p->bytes ? cost.between : cost.ns));
    fprintf(out, ", %.3g of plain</title></circle>\n", value);
  }
}

static void add_curve_name(struct panel *p, double value, const char *colour, const char *text, const char *way) {
  struct name *name = &p->names[p->name_count++];
  *name = (struct name){.y = outlook_y(p, value), .colour = colour};
  snprintf(name->text, sizeof name->text, "%s%s", text, way);
}

/* Places the name at its last dot. */
static void name_curve(struct panel *p, int way, size_t codec) {
  const struct bench_simulation *s = &p->f->o->simulation;
  const struct bench_sender *sender = &p->f->by[way][codec];
  double last = INFINITY;
  for (int size = s->least; size; size = bench_next_size(s, size))
    last = isfinite(ratio(p, sender, size)) ? ratio(p, sender, size) : last;
  if (isfinite(last))
    add_curve_name(p, last, bench_colour(codec), sender->codec->name, way + 1 < p->f->ways ? ", flat" : "");
}

static int compare_names(const void *a, const void *b) {
  const double x = ((const struct name *)a)->y, y = ((const struct name *)b)->y;
  return (x > y) - (x < y);
}

/* Writes names downwards, each below the previous; names below the panel's bottom move up again. */
static void write_names(struct panel *p) {
  const struct bench_box *frame = &p->canvas->frame;
  const double room = frame->high / p->name_count, line = room < LINE ? room : LINE;
  double y = frame->y;
  qsort(p->names, (size_t)p->name_count, sizeof *p->names, compare_names);
  for (int i = 0; i < p->name_count; i++)
    y = p->names[i].y = fmax(p->names[i].y, i ? y + line : y);
  y = frame->y + frame->high + line;
  for (int i = p->name_count; i-- > 0;)
    y = p->names[i].y = fmin(p->names[i].y, y - line);
  for (const struct name *n = p->names; n < p->names + p->name_count; n++)
    bench_words(p->canvas, frame->x + frame->wide + 6, n->y + 4, "start", n->colour, n->text);
}

static void draw_panel(struct panel *p) {
  find_outlook_range(p);
  draw_outlook_axes(p);
  add_curve_name(p, 1, "#777", "plain", "");
  for (int way = 0; way < p->f->ways; way++)
    for (size_t i = 0; i < p->f->o->codec_count; i++) {
      draw_outlook_curve(p, way, i);
      name_curve(p, way, i);
    }
  write_names(p);
}

void bench_outlook(const struct bench_forecast *f) {
  static struct bench_canvas canvas;
  const struct bench_simulation *s = &f->o->simulation;
  char shape[80] = "every rank on a host of its own", subtitle[200];
  if (s->by_host)
    snprintf(shape, sizeof shape, "%d ranks a host, %g Gbit/s inside", s->local, s->beta_inside_gbit);
  snprintf(subtitle, sizeof subtitle, "%s, %g Gbit/s%s, sparsity %.4g", bench_dtype_name(f->o->dtype), s->beta_gbit,
           s->by_host ? " between hosts; solid: two levels, dashed: flat" : "", 1 - 1e-6 * f->o->keep_ppm);
  bench_canvas_open(&canvas, f->o->plot, HIGH, "A step of reduce-scatters: ", shape, subtitle);
  struct panel panels[] = {
    {.canvas = &canvas, .f = f, .name = "time over that of plain calls"},
    {.canvas = &canvas,
     .f = f,
     .name = s->by_host ? "bytes that a host sends to others, over plain" : "bytes that a rank sends, over plain",
     .bytes = true},
  };
  for (int i = 0; i < 2; i++) {
    canvas.frame = (struct bench_box){BENCH_LEFT, BENCH_TOP + i * (PANEL + GAP), BENCH_WIDE - BENCH_LEFT - ROOM, PANEL};
    draw_panel(&panels[i]);
  }
  bench_words(&canvas, canvas.frame.x + canvas.frame.wide / 2, HIGH - 38, "middle", "#111",
              s->by_host ? "hosts" : "ranks");
  bench_words(
    &canvas, BENCH_LEFT, HIGH - 12, "start", "#888",
    s->depth > 1
      ? "Calls in chunks: one is encoded or decoded while another travels. The titles of the dots have the numbers."
      : "Encode, exchange and decode follow each other: nothing overlaps. The titles of the dots have the numbers.");
  bench_canvas_close(&canvas);
}
