/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench --plot: the error of a codec against its rate, as an SVG file.
 *
 * Both axes are logarithmic. Practically exact results do not fit such an axis: they are in a strip below it.
 */
#include <math.h>
#include <string.h>

#include "kernels/tagc-bench/bench.h"
#include "kernels/tagc-bench/draw.h"

#define EXACT 1e-6 /* errors below this are drawn in the strip */

enum { HIGH = 560, BOTTOM = 76, STRIP = 34 };

struct plot {
  struct bench_canvas canvas;
  int least_power, most_power;   /* of two: the rates */
  int least_decade, most_decade; /* of ten: the errors */
  bool strip;                    /* there are exact points */
};

static double floor_y(const struct plot *p) { return HIGH - BOTTOM - (p->strip ? STRIP : 0); }

static double plot_x(const struct plot *p, double bits) {
  return BENCH_LEFT +
         (BENCH_WIDE - BENCH_LEFT - BENCH_RIGHT) * (log2(bits) - p->least_power) / (p->most_power - p->least_power);
}

static double plot_y(const struct plot *p, double error) {
  if (error < EXACT)
    return HIGH - BOTTOM - STRIP / 2.0;
  return floor_y(p) - (floor_y(p) - BENCH_TOP) * (log10(error) - p->least_decade) / (p->most_decade - p->least_decade);
}

static void find_plot_range(struct plot *p, const struct bench_result *results, size_t count) {
  double least_bits = 32, most_bits = 1, least = 1, most = 0.1;
  for (size_t i = 0; i < count; i++) {
    if (!results[i].carried)
      continue;
    least_bits = fmin(least_bits, results[i].bits);
    most_bits = fmax(most_bits, results[i].bits);
    most = fmax(most, results[i].error);
    if (results[i].error >= EXACT)
      least = fmin(least, results[i].error);
    else
      p->strip = true;
  }
  p->least_power = (int)floor(log2(least_bits) - 0.1);
  p->most_power = (int)ceil(log2(most_bits) + 0.1);
  p->least_decade = (int)floor(log10(least) - 0.05);
  p->most_decade = (int)ceil(log10(most) - 0.01);
  if (p->most_decade <= p->least_decade)
    p->most_decade = p->least_decade + 1;
}

/* -- axes --------------------------------------------------------------------------------------------------------- */

static void draw_plot_axes(const struct plot *p) {
  const struct bench_canvas *c = &p->canvas;
  char text[32];
  const double bottom = HIGH - BOTTOM, right = BENCH_WIDE - BENCH_RIGHT;
  for (int power = p->least_power; power <= p->most_power; power++) {
    const double x = plot_x(p, exp2(power));
    bench_line(c, x, BENCH_TOP, x, bottom, "#e4e4e4");
    snprintf(text, sizeof text, "%g", exp2(power));
    bench_words(c, x, bottom + 18, "middle", "#333", text);
  }
  for (int decade = p->least_decade; decade <= p->most_decade; decade++) {
    const double y = plot_y(p, pow(10, decade) * 1.0000001);
    bench_line(c, BENCH_LEFT, y, right, y, "#d4d4d4");
    snprintf(text, sizeof text, "%g", pow(10, decade));
    bench_words(c, BENCH_LEFT - 8, y + 4, "end", "#333", text);
    for (int m = 2; m < 10 && decade < p->most_decade; m++)
      bench_line(c, BENCH_LEFT, plot_y(p, m * pow(10, decade)), right, plot_y(p, m * pow(10, decade)), "#f3f3f3");
  }
  if (p->strip) {
    fprintf(c->file.to, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"#f1f6f1\"/>\n", BENCH_LEFT,
            floor_y(p), right - BENCH_LEFT, STRIP);
    bench_words(c, BENCH_LEFT - 8, plot_y(p, 0) + 4, "end", "#333", "exact");
  }
  bench_frame(c);
  bench_words(c, (BENCH_LEFT + right) / 2, HIGH - 36, "middle", "#111", "bits an element, everything included");
  bench_words_upwards(c, (BENCH_TOP + bottom) / 2, "relative L2 error of the sum");
}

/* -- points ------------------------------------------------------------------------------------------------------- */

static void draw_point(struct plot *p, const struct bench_result *r, const char *colour) {
  const double x = plot_x(p, r->bits), y = plot_y(p, r->error);
  fprintf(p->canvas.file.to,
          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" fill=\"%s\">"
          "<title>%s: %.3f bits, error %.3g</title></circle>\n",
          x, y, colour, r->codec->name, r->bits, r->error);
  bench_take(&p->canvas, (struct bench_box){x - 5, y - 5, 10, 10});
}

static void draw_plot_curve(struct plot *p, const struct bench_result *points, size_t count, const char *colour) {
  const struct bench_result *last = NULL;
  fprintf(p->canvas.file.to, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
  for (size_t i = 0; i < count; i++)
    if (points[i].carried) {
      fprintf(p->canvas.file.to, "%.1f,%.1f ", plot_x(p, points[i].bits), plot_y(p, points[i].error));
      if (last)
        bench_take_stretch(&p->canvas, plot_x(p, last->bits), plot_y(p, last->error), plot_x(p, points[i].bits),
                           plot_y(p, points[i].error));
      last = &points[i];
    }
  fputs("\"/>\n", p->canvas.file.to);
}

/* The number of results of one codec from `at` on. */
static size_t run_of(const struct bench_result *results, size_t count, size_t at) {
  size_t end = at + 1;
  while (end < count && results[end].codec == results[at].codec)
    end++;
  return end - at;
}

/* Draws all marks before all words, so that no word covers a mark; names before sparsities. */
static void draw_results(struct plot *p, const struct bench_result *results, size_t count) {
  for (int pass = 0; pass < 4; pass++) {
    size_t codec = 0;
    for (size_t at = 0, run; at < count; at += run, codec++) {
      const char *colour = bench_colour(codec);
      run = run_of(results, count, at);
      if (pass == 0 && run > 1)
        draw_plot_curve(p, results + at, run, colour);
      for (size_t i = at; i < at + run; i++) {
        char text[16];
        const struct bench_result *r = &results[i];
        if (!r->carried)
          continue;
        snprintf(text, sizeof text, "%g%%", 1e-4 * r->keep_ppm);
        if (pass == 1)
          draw_point(p, r, colour);
        else if (pass == 2 && i == at + run - 1)
          bench_label(&p->canvas, plot_x(p, r->bits), plot_y(p, r->error), colour, r->codec->name, true);
        else if (pass == 3 && run > 1)
          bench_label(&p->canvas, plot_x(p, r->bits), plot_y(p, r->error), colour, text, false);
      }
    }
  }
}

void bench_plot(const struct bench_options *o, const struct bench_world *w, const struct bench_result *results,
                size_t count) {
  static struct plot p;
  char subtitle[200];
  snprintf(subtitle, sizeof subtitle, "%s, %d ranks, %llu elements a shard, %d step%s, seed %llu",
           bench_dtype_name(w->dtype), w->ranks, (unsigned long long)w->n, o->steps, o->steps > 1 ? "s" : "",
           (unsigned long long)o->seed);
  find_plot_range(&p, results, count);
  bench_canvas_open(&p.canvas, o->plot, HIGH, "Error against rate: ", basename(w->name), subtitle);
  p.canvas.frame =
    (struct bench_box){BENCH_LEFT, BENCH_TOP, BENCH_WIDE - BENCH_LEFT - BENCH_RIGHT, HIGH - BOTTOM - BENCH_TOP};
  draw_plot_axes(&p);
  draw_results(&p, results, count);
  bench_words(&p.canvas, BENCH_LEFT, HIGH - 12, "start", "#888",
              "Percentages: of the values that are sent; the others stay in the residual, and count as error here.");
  bench_canvas_close(&p.canvas);
}
