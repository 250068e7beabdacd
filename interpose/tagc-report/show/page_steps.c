/* SPDX-License-Identifier: BSD-3-Clause
 * Step times over the run: a point per step, both sides of TAGC_MODE=ab, their means, the difference and its interval.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/ab/windows.h"
#include "interpose/tagc-report/judge/steps.h"
#include "interpose/tagc-report/show/page.h"
#include "interpose/tagc-report/show/svg.h"

enum {
  HEIGHT = 300,
  LEFT = 64,
  RIGHT = 14,
  TOP = 40,
  BOTTOM = 34,
  DOTS = 800,
  BANDS = 200,
  ROWS = 60,
  DIFFERENCE_WIDTH = 420
};

/* Neighbouring steps of one side, merged into one point. */
struct dot {
  double at, ms;
};

struct plot {
  struct tagc_page *page;
  struct tagc_axis x, y;
  double most;             /* ms; higher steps are drawn at the upper edge */
  size_t higher, together; /* the number of these, and steps per point */
};

static bool counts(const struct tagc_page_step *step) { return step->whole && step->ms > 0; }

/* The range from the fastest step to the slowest, without the slowest hundredth, so that one hiccup changes nothing. */
static size_t find_range(const struct tagc_page *page, double *least, double *most, double *slowest) {
  double *ms = malloc((page->step_count + 1) * sizeof *ms);
  size_t count = 0;
  for (size_t i = 0; ms && i < page->step_count; i++)
    if (counts(&page->steps[i]))
      ms[count++] = page->steps[i].ms;
  if (count) {
    *least = tagc_quantile(ms, count, 0);
    *slowest = tagc_quantile(ms, count, 1);
    double middle = tagc_quantile(ms, count, 0.5), upper = tagc_quantile(ms, count, 0.99);
    *most = *slowest < middle + 2 * (upper - middle) ? *slowest : upper;
  }
  free(ms);
  return count;
}

static const char *class_of(enum tagc_sum_side side) {
  return side == TAGC_SUM_PLAIN ? "plain" : side == TAGC_SUM_COMPRESSED ? "packed" : "other";
}

/* Circles and squares: colour is not the only mark. */
static void put_dot(struct plot *plot, enum tagc_sum_side side, double at, double ms, size_t from, size_t to) {
  FILE *file = plot->page->file;
  double x = tagc_axis_at(&plot->x, at), y = tagc_axis_at(&plot->y, fmin(ms, plot->most));
  char text[32];
  if (ms > plot->most) {
    plot->higher++;
    fprintf(file, "<path class=\"%s\" d=\"M%.1f %.1fl4 -7l4 7z\">", class_of(side), x - 4, y + 3);
  } else if (side == TAGC_SUM_PLAIN)
    fprintf(file, "<circle class=\"dot plain\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\">", x, y);
  else
    fprintf(file, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"5\" height=\"5\">", class_of(side), x - 2.5,
            y - 2.5);
  if (from == to)
    fprintf(file, "<title>step %zu", from + 1);
  else
    fprintf(file, "<title>steps %zu to %zu", from + 1, to + 1);
  fprintf(file, "%s: %s</title></%s>\n",
          side == TAGC_SUM_PLAIN        ? ", plain"
          : side == TAGC_SUM_COMPRESSED ? ", compressed"
                                        : "",
          tagc_page_ms(ms, text),
          ms > plot->most          ? "path"
          : side == TAGC_SUM_PLAIN ? "circle"
                                   : "rect");
}

/* Draws a point per side for each run of `together` steps. */
static void draw_dots(struct plot *plot) {
  const struct tagc_page *page = plot->page;
  for (size_t from = 0; from < page->step_count; from += plot->together) {
    double ms[TAGC_SUM_SIDES] = {0}, at[TAGC_SUM_SIDES] = {0};
    size_t count[TAGC_SUM_SIDES] = {0}, to = from;
    for (size_t i = from; i < from + plot->together && i < page->step_count; i++) {
      to = i;
      if (!counts(&page->steps[i]))
        continue;
      ms[page->steps[i].side] += page->steps[i].ms;
      at[page->steps[i].side] += (double)i + 1;
      count[page->steps[i].side]++;
    }
    for (int side = 0; side < TAGC_SUM_SIDES; side++)
      if (count[side])
        put_dot(plot, (enum tagc_sum_side)side, at[side] / (double)count[side], ms[side] / (double)count[side], from,
                to);
  }
}

/* Shades compressed windows if few enough to be seen. */
static void draw_windows(const struct plot *plot) {
  const struct tagc_page *page = plot->page;
  size_t windows = 0;
  for (size_t i = 0; i < page->step_count; i++)
    windows += page->steps[i].side == TAGC_SUM_COMPRESSED && (!i || page->steps[i - 1].side != TAGC_SUM_COMPRESSED);
  if (windows < 1 || windows > BANDS || page->ab.figures.outcome == TAGC_AB_NONE)
    return;
  for (size_t i = 0; i < page->step_count;) {
    size_t end = i + 1;
    while (end < page->step_count && page->steps[end].side == page->steps[i].side)
      end++;
    double from = tagc_axis_at(&plot->x, (double)i + 0.5), to = tagc_axis_at(&plot->x, (double)end + 0.5);
    if (page->steps[i].side == TAGC_SUM_COMPRESSED)
      fprintf(page->file, "<rect class=\"band\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", from, TOP,
              to - from, HEIGHT - TOP - BOTTOM);
    i = end;
  }
}

static void draw_mean(const struct plot *plot, enum tagc_sum_side side) {
  const struct tagc_ab_result *ab = &plot->page->ab;
  double mean = ab->figures.mean_ms[side];
  if (ab->figures.outcome == TAGC_AB_NONE || !ab->figures.steps[side] || !(mean >= plot->y.low && mean <= plot->y.high))
    return;
  double y = tagc_axis_at(&plot->y, mean);
  fprintf(plot->page->file, "<path class=\"line %s\" d=\"M%.1f %.1fH%.1f\"/>\n", side == TAGC_SUM_PLAIN ? "plain" : "",
          plot->x.from, y, plot->x.to);
}

static void draw_step_keys(const struct plot *plot) {
  FILE *file = plot->page->file;
  const struct tagc_ab_result *ab = &plot->page->ab;
  char text[96], ms[32];
  double x = LEFT;
  if (ab->figures.outcome == TAGC_AB_NONE) {
    tagc_svg_key(file, "other", x, 20,
                 plot->together > 1 ? "means of neighbouring steps" : "a step, mean of the ranks");
    return;
  }
  fprintf(file, "<circle class=\"dot plain\" cx=\"%.1f\" cy=\"16\" r=\"4\"/>", x + 5);
  snprintf(text, sizeof text, "plain, mean %s", tagc_page_ms(ab->figures.mean_ms[TAGC_SUM_PLAIN], ms));
  tagc_svg_text(file, "key", x + 16, 20, text);
  fprintf(file, "<rect class=\"packed\" x=\"%.1f\" y=\"12\" width=\"8\" height=\"8\"/>", x + 200);
  snprintf(text, sizeof text, "compressed, mean %s (shaded windows)",
           tagc_page_ms(ab->figures.mean_ms[TAGC_SUM_COMPRESSED], ms));
  tagc_svg_text(file, "key", x + 216, 20, text);
  for (size_t i = 0; i < plot->page->step_count; i++)
    if (counts(&plot->page->steps[i]) && plot->page->steps[i].side == TAGC_SUM_NEITHER) {
      tagc_svg_key(file, "other", x + 226 + 7.6 * (double)strlen(text), 20, "neither");
      break;
    }
}

static void draw_times(struct tagc_page *page, double least, double most, double slowest, size_t whole) {
  struct plot plot = {.page = page, .most = most, .together = (page->step_count + DOTS - 1) / DOTS};
  double margin = (most - least) * 0.08;
  plot.y = tagc_axis_make(fmax(0, least - margin), most + margin, HEIGHT - BOTTOM, TOP, 5);
  plot.x = tagc_axis_make(0, (double)page->step_count, LEFT, TAGC_PAGE_WIDTH - RIGHT, 8);
  char description[600], a[32], b[32], number[32];
  snprintf(description, sizeof description, "Times of %s whole steps, from %s to %s. %s",
           tagc_format_count((double)whole, number), tagc_page_ms(least, a), tagc_page_ms(slowest, b),
           page->ab.figures.outcome == TAGC_AB_NONE ? "" : page->ab.words);
  tagc_figure_begin(page, "fig-steps", "Time of each step", description, TAGC_PAGE_WIDTH, HEIGHT);
  draw_windows(&plot);
  tagc_axis_draw_left(page->file, &plot.y, LEFT, TAGC_PAGE_WIDTH - RIGHT - LEFT, "ms");
  tagc_axis_draw_below(page->file, &plot.x, HEIGHT - BOTTOM, "step");
  draw_dots(&plot);
  draw_mean(&plot, TAGC_SUM_PLAIN);
  draw_mean(&plot, TAGC_SUM_COMPRESSED);
  draw_step_keys(&plot);
  if (plot.y.low > 0)
    tagc_svg_text(page->file, "note end", TAGC_PAGE_WIDTH - RIGHT, 20, "the scale does not begin at 0");
  tagc_figure_end(page);
  if (plot.higher)
    fprintf(page->file, "<p class=\"faint\">%zu slower, up to %s: triangles at the upper edge.</p>\n", plot.higher,
            tagc_page_ms(slowest, a));
}

/* Draws the difference of the sides as a point with its interval, against 0. */
static void draw_difference(struct tagc_page *page) {
  const struct tagc_ab_result *ab = &page->ab;
  if (ab->figures.outcome == TAGC_AB_NONE || ab->figures.pairs < 2 || !isfinite(ab->figures.low_ms) ||
      !isfinite(ab->figures.high_ms))
    return;
  double margin = fmax(fabs(ab->figures.low_ms), fabs(ab->figures.high_ms)) * 0.1;
  struct tagc_axis x = tagc_axis_make(fmin(ab->figures.low_ms - margin, 0), fmax(ab->figures.high_ms + margin, 0), 20,
                                      DIFFERENCE_WIDTH - 24, 5);
  double zero = tagc_axis_at(&x, 0), low = tagc_axis_at(&x, ab->figures.low_ms),
         high = tagc_axis_at(&x, ab->figures.high_ms), mean = tagc_axis_at(&x, ab->figures.difference_ms);
  char description[200], a[32], b[32], c[32];
  snprintf(description, sizeof description, "Compressed less plain: %s a step; with 95%% confidence between %s and %s.",
           tagc_page_ms(ab->figures.difference_ms, a), tagc_page_ms(ab->figures.low_ms, b),
           tagc_page_ms(ab->figures.high_ms, c));
  tagc_figure_begin(page, "fig-difference", "What compression changes in a step, with its interval of 95%", description,
                    DIFFERENCE_WIDTH, 96);
  tagc_axis_draw_below(page->file, &x, 62, "ms");
  fprintf(page->file, "<path class=\"base\" d=\"M%.1f 62H%.1f\"/><path class=\"zero\" d=\"M%.1f 14V62\"/>\n", x.from,
          x.to, zero);
  fprintf(page->file,
          "<path class=\"line\" d=\"M%.1f 38H%.1fM%.1f 28v20M%.1f 28v20\"/><rect class=\"packed\" x=\"%.1f\" y=\"33\" "
          "width=\"6\" height=\"10\">"
          "<title>%s</title></rect>\n",
          low, high, low, high, mean - 3, description);
  tagc_svg_text(page->file, "note end", zero - 6, 20, zero > 80 ? "\342\206\220 faster" : "");
  tagc_svg_text(page->file, "note", zero + 6, 20, zero < DIFFERENCE_WIDTH - 90 ? "slower \342\206\222" : "");
  tagc_figure_end(page);
}

static void put_ab_table(struct tagc_page *page) {
  static const char *const names[] = {"", "plain", "compressed"};
  const struct tagc_ab_result *ab = &page->ab;
  if (ab->figures.outcome == TAGC_AB_NONE)
    return;
  tagc_table_begin(page, "Both sides",
                   "Side|>Steps|>Mean, ms|>Spread of steps in a window, ms|>Sent inside hosts, bytes a rank and step|"
                   ">Sent between hosts, bytes a rank and step",
                   false);
  for (int side = TAGC_SUM_PLAIN; side <= TAGC_SUM_COMPRESSED; side++) {
    tagc_row_begin(page, names[side]);
    tagc_cell_number(page, ab->figures.steps[side]);
    tagc_cell_real(page, ab->figures.mean_ms[side], 3);
    tagc_cell_real(page, ab->figures.deviation_ms[side], 3);
    tagc_cell_number(page, ab->sent[side].inside);
    tagc_cell_number(page, ab->sent[side].between);
    tagc_row_end(page);
  }
  tagc_table_end(page);
}

/* Writes runs of steps, as a table of bounded length. */
static void put_step_times(struct tagc_page *page) {
  static const char *const names[] = {"", "plain", "compressed"};
  size_t together = (page->step_count + ROWS - 1) / ROWS;
  tagc_table_begin(page, together > 1 ? "Step times: means of whole steps" : "Step times",
                   "Steps|Side|>Whole steps|>Mean, ms|>Least, ms|>Most, ms|>Sent by a rank in a step, bytes", true);
  for (size_t from = 0; from < page->step_count; from += together)
    for (int side = 0; side < TAGC_SUM_SIDES; side++) {
      double sum = 0, least = INFINITY, most = 0, sent = 0;
      size_t count = 0, to = from;
      for (size_t i = from; i < from + together && i < page->step_count; to = i++)
        if (counts(&page->steps[i]) && (int)page->steps[i].side == side) {
          sum += page->steps[i].ms;
          sent += page->steps[i].sent;
          least = fmin(least, page->steps[i].ms);
          most = fmax(most, page->steps[i].ms);
          count++;
        }
      if (!count)
        continue;
      char text[64];
      snprintf(text, sizeof text, together > 1 ? "%zu to %zu" : "%zu", from + 1, to + 1);
      tagc_row_begin(page, text);
      tagc_cell_text(page, names[side]);
      tagc_cell_number(page, count);
      tagc_cell_real(page, sum / (double)count, 3);
      tagc_cell_real(page, least, 3);
      tagc_cell_real(page, most, 3);
      tagc_cell_number(page, (uint64_t)(sent / (double)count));
      tagc_row_end(page);
    }
  tagc_table_end(page);
}

void tagc_page_steps(struct tagc_page *page) {
  double least = 0, most = 0, slowest = 0;
  size_t whole = find_range(page, &least, &most, &slowest);
  tagc_page_section(page, "steps", "Step times",
                    "Each point is the mean of all ranks in a step that went undisturbed.");
  if (!whole)
    tagc_page_nothing(page,
                      "No whole step is in these traces: the calls did not repeat, or the run was too short for that.",
                      "Steps are found when the calls have repeated three times, after 256 calls (fewer with "
                      "<code>TAGC_WARMUP</code>).");
  else {
    draw_times(page, least, most, slowest, whole);
    put_step_times(page);
    draw_difference(page);
    put_ab_table(page);
    if (page->ab.figures.outcome == TAGC_AB_NONE)
      tagc_page_nothing(page, "The run has no plain and compressed windows to be compared.",
                        "Run it with <code>TAGC_MODE=ab</code>.");
  }
  tagc_page_section_end(page);
}
