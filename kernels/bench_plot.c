/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench --plot: the error of a codec against its rate, as an SVG file.
 *
 * Both axes are logarithmic. What is as good as exact has no place on such an axis: it lies in a strip below it.
 * Colours are those of Okabe and Ito (2008), which people of all colour visions can tell apart.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "kernels/bench.h"

#define EXACT 1e-6                 /* errors below this are drawn in the strip */

enum {
  WIDE = 820, HIGH = 560, LEFT = 84, RIGHT = 24, TOP = 62, BOTTOM = 76, STRIP = 34,
  MOST_BOXES = 4000, LETTER = 7, LINE = 15
};

struct box {
  double x, y, wide, high;
};

struct plot {
  FILE *out;
  int least_power, most_power;     /* of two: the rates */
  int least_decade, most_decade;   /* of ten: the errors */
  bool strip;                      /* there are exact points */
  struct box taken[MOST_BOXES];    /* what labels must not cover */
  int boxes;
};

static double floor_y(const struct plot *p) { return HIGH - BOTTOM - (p->strip ? STRIP : 0); }

static double x_of(const struct plot *p, double bits)
{
  return LEFT + (WIDE - LEFT - RIGHT) * (log2(bits) - p->least_power) / (p->most_power - p->least_power);
}

static double y_of(const struct plot *p, double error)
{
  if (error < EXACT)
    return HIGH - BOTTOM - STRIP / 2.0;
  return floor_y(p) - (floor_y(p) - TOP) * (log10(error) - p->least_decade) / (p->most_decade - p->least_decade);
}

static void find_range(struct plot *p, const struct bench_result *results, size_t count)
{
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

/* -- words -------------------------------------------------------------------------------------------------------- */

static void escaped(FILE *out, const char *text)
{
  for (const unsigned char *c = (const unsigned char *)text; *c; c++)
    if (*c < ' ' || *c > '~' || strchr("<>&\"'", *c))
      fprintf(out, "&#%d;", *c < ' ' || *c > '~' ? '?' : *c);
    else
      fputc(*c, out);
}

static void words(const struct plot *p, double x, double y, const char *anchor, const char *fill, const char *text)
{
  fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">", x, y, anchor, fill);
  escaped(p->out, text);
  fputs("</text>\n", p->out);
}

static void take(struct plot *p, struct box box)
{
  if (p->boxes < MOST_BOXES)
    p->taken[p->boxes++] = box;
}

static bool is_free(const struct plot *p, const struct box *b)
{
  if (b->x < LEFT || b->x + b->wide > WIDE - 4 || b->y < TOP || b->y + b->high > HIGH - BOTTOM)
    return false;
  for (int i = 0; i < p->boxes; i++) {
    const struct box *t = &p->taken[i];
    if (b->x < t->x + t->wide && t->x < b->x + b->wide && b->y < t->y + t->high && t->y < b->y + b->high)
      return false;
  }
  return true;
}

/* Beside a point, on the first side where there is room: what matters little is left out where there is none. */
static void label(struct plot *p, double x, double y, const char *fill, const char *text, bool needed)
{
  static const double side[][2] = { { 0, 0 }, { 0, -1 }, { -1, -1 }, { -2, 0 },
                                    { 0, 1 }, { -1, 1 }, { -2, -1 }, { -2, 1 } };
  enum { SIDES = sizeof side / sizeof *side };
  const double wide = LETTER * (double)strlen(text);
  for (int i = 0; i <= SIDES; i++) {
    const double *s = side[i % SIDES];
    const double left = s[0] == 0 ? 8 : s[0] < -1 ? -8 - wide : -wide / 2;
    const struct box box = { x + left, y - LINE / 2.0 + s[1] * (LINE + 1), wide, LINE };
    if (i < SIDES ? !is_free(p, &box) : !needed)
      continue;
    take(p, box);
    words(p, box.x, box.y + LINE - 4, "start", fill, text);
    return;
  }
}

/* -- axes --------------------------------------------------------------------------------------------------------- */

static void line(const struct plot *p, double x1, double y1, double x2, double y2, const char *stroke)
{
  fprintf(p->out, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, stroke);
}

static void draw_axes(const struct plot *p)
{
  char text[32];
  const double bottom = HIGH - BOTTOM, right = WIDE - RIGHT;
  for (int power = p->least_power; power <= p->most_power; power++) {
    const double x = x_of(p, exp2(power));
    line(p, x, TOP, x, bottom, "#e4e4e4");
    snprintf(text, sizeof text, "%g", exp2(power));
    words(p, x, bottom + 18, "middle", "#333", text);
  }
  for (int decade = p->least_decade; decade <= p->most_decade; decade++) {
    const double y = y_of(p, pow(10, decade) * 1.0000001);
    line(p, LEFT, y, right, y, "#d4d4d4");
    snprintf(text, sizeof text, "%g", pow(10, decade));
    words(p, LEFT - 8, y + 4, "end", "#333", text);
    for (int m = 2; m < 10 && decade < p->most_decade; m++)
      line(p, LEFT, y_of(p, m * pow(10, decade)), right, y_of(p, m * pow(10, decade)), "#f3f3f3");
  }
  if (p->strip) {
    fprintf(p->out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"#f1f6f1\"/>\n", LEFT, floor_y(p),
            right - LEFT, STRIP);
    words(p, LEFT - 8, y_of(p, 0) + 4, "end", "#333", "exact");
  }
  fprintf(p->out, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" stroke=\"#777\"/>\n", LEFT, TOP,
          right - LEFT, bottom - TOP);
  words(p, (LEFT + right) / 2, HIGH - 36, "middle", "#111", "bits an element, everything included");
  fprintf(p->out, "<text transform=\"translate(22 %.1f) rotate(-90)\" text-anchor=\"middle\" fill=\"#111\">"
          "relative L2 error of the sum</text>\n", (TOP + bottom) / 2);
}

static void draw_title(const struct plot *p, const struct bench_options *o, const struct bench_world *w)
{
  char text[200];
  const char *slash = strrchr(w->name, '/');
  fputs("<text x=\"84\" y=\"26\" font-size=\"16\" font-weight=\"600\" fill=\"#111\">", p->out);
  fputs("Error against rate: ", p->out);
  escaped(p->out, slash ? slash + 1 : w->name);
  fputs("</text>\n", p->out);
  snprintf(text, sizeof text, "%s, %d ranks, %llu elements a shard, %d step%s, seed %llu", bench_dtype_name(w->dtype),
           w->ranks, (unsigned long long)w->n, o->steps, o->steps > 1 ? "s" : "", (unsigned long long)o->seed);
  words(p, LEFT, 46, "start", "#555", text);
}

/* -- points ------------------------------------------------------------------------------------------------------- */

static void draw_point(struct plot *p, const struct bench_result *r, const char *colour)
{
  const double x = x_of(p, r->bits), y = y_of(p, r->error);
  fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" fill=\"%s\">"
          "<title>%s: %.3f bits, error %.3g</title></circle>\n", x, y, colour, r->codec->name, r->bits, r->error);
  take(p, (struct box){ x - 5, y - 5, 10, 10 });
}

/* The stretch between two points, in small boxes. */
static void take_stretch(struct plot *p, const struct bench_result *a, const struct bench_result *b)
{
  enum { PIECES = 24 };
  const double x = x_of(p, a->bits), y = y_of(p, a->error), dx = x_of(p, b->bits) - x, dy = y_of(p, b->error) - y;
  for (int i = 1; i < PIECES; i++)
    take(p, (struct box){ x + dx * i / PIECES - 1, y + dy * i / PIECES - 1, 2, 2 });
}

static void draw_curve(struct plot *p, const struct bench_result *points, size_t count, const char *colour)
{
  const struct bench_result *last = NULL;
  fprintf(p->out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
  for (size_t i = 0; i < count; i++)
    if (points[i].carried) {
      fprintf(p->out, "%.1f,%.1f ", x_of(p, points[i].bits), y_of(p, points[i].error));
      if (last)
        take_stretch(p, last, &points[i]);
      last = &points[i];
    }
  fputs("\"/>\n", p->out);
}

/* The results from `at` on that are of the same codec. */
static size_t run_of(const struct bench_result *results, size_t count, size_t at)
{
  size_t end = at + 1;
  while (end < count && results[end].codec == results[at].codec)
    end++;
  return end - at;
}

/* All marks before all words, so that no word covers a mark; names before sparsities. */
static void draw_results(struct plot *p, const struct bench_result *results, size_t count)
{
  static const char *const colours[] = { "#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b" };
  for (int pass = 0; pass < 4; pass++) {
    size_t codec = 0;
    for (size_t at = 0, run; at < count; at += run, codec++) {
      const char *colour = colours[codec % (sizeof colours / sizeof *colours)];
      run = run_of(results, count, at);
      if (pass == 0 && run > 1)
        draw_curve(p, results + at, run, colour);
      for (size_t i = at; i < at + run; i++) {
        char text[16];
        const struct bench_result *r = &results[i];
        if (!r->carried)
          continue;
        snprintf(text, sizeof text, "%g%%", 1e-4 * r->keep_ppm);
        if (pass == 1)
          draw_point(p, r, colour);
        else if (pass == 2 && i == at + run - 1)
          label(p, x_of(p, r->bits), y_of(p, r->error), colour, r->codec->name, true);
        else if (pass == 3 && run > 1)
          label(p, x_of(p, r->bits), y_of(p, r->error), colour, text, false);
      }
    }
  }
}

void bench_plot(const struct bench_options *o, const struct bench_world *w, const struct bench_result *results,
                size_t count)
{
  static struct plot p;
  p = (struct plot){ .out = fopen(o->plot, "we") };
  if (!p.out)
    bench_stop(BENCH_FAILED, "%s: %s", o->plot, strerror(errno));
  find_range(&p, results, count);
  fprintf(p.out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
          "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n"
          "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
          WIDE, HIGH, WIDE, HIGH, WIDE, HIGH);
  draw_title(&p, o, w);
  draw_axes(&p);
  draw_results(&p, results, count);
  words(&p, LEFT, HIGH - 12, "start", "#888",
        "Percentages: of the values that are sent; the others stay in the residual, and count as error here.");
  fputs("</svg>\n", p.out);
  const bool failed = ferror(p.out);
  if (fclose(p.out) != 0 || failed)
    bench_stop(BENCH_FAILED, "%s: %s", o->plot, strerror(errno));
}
