/* SPDX-License-Identifier: BSD-3-Clause
 * Sizes of calls: bytes and calls by size class and function, over all communicators.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/show/page.h"
#include "interpose/tagc-report/show/svg.h"

#define NONE SIZE_MAX
enum { CLASSES = 66, LEFT = 64, RIGHT = 14, TOP = 40, PANEL = 150, GAP = 62 };

/* Calls of one function by size class; index 0 is class -1 (no bytes). */
struct stack {
  const char *name;
  uint64_t calls[CLASSES], raw[CLASSES], sent[CLASSES], all;
};

static void add_to_stack(struct stack *stack, const struct tagc_sum_line *line) {
  size_t at = line->size_class < 0 ? 0 : (size_t)line->size_class + 1;
  stack->calls[at] += line->calls.calls;
  stack->raw[at] += line->calls.raw_bytes;
  stack->sent[at] += tagc_sent_all(&line->calls.sent);
  stack->all += line->calls.raw_bytes;
}

static int order_stacks(const void *a, const void *b) {
  const struct stack *x = a, *y = b;
  return x->all != y->all ? (x->all < y->all) - (x->all > y->all) : strcmp(x->name, y->name);
}

/* A stack per function whose calls carry data, the largest first. NULL: no memory. */
static struct stack *make_stacks(const struct tagc_summary *summary, size_t *count) {
  struct stack *stacks = calloc(257, sizeof *stacks);
  *count = 0;
  for (size_t i = 0; stacks && i < summary->comm_count; i++)
    for (size_t j = 0; j < summary->comms[i].line_count; j++) {
      const struct tagc_sum_line *line = &summary->comms[i].lines[j];
      const char *name = tagc_sum_function(summary, line->function);
      if (!line->calls.raw_bytes)
        continue;
      size_t at = 0;
      while (at < *count && strcmp(stacks[at].name, name) != 0)
        at++;
      if (at == 257)
        continue;
      *count += at == *count;
      stacks[at].name = name;
      add_to_stack(&stacks[at], line);
    }
  if (stacks)
    qsort(stacks, *count, sizeof *stacks, order_stacks);
  return stacks;
}

/* "64 KiB": the lower bound of the class. */
static const char *class_name(size_t class, char text[16]) {
  if (!class)
    return strcpy(text, "0 B");
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t power = class - 1;
  snprintf(text, 16, "%u %s", 1u << (power % 10), units[power / 10]);
  return text;
}

struct panel {
  const struct stack *stacks;
  size_t count, columns;
  size_t class[CLASSES]; /* of each column; NONE: a gap */
  bool bytes;            /* else calls */
  double top;
};

/* One column per class from the first to the last with calls; a row of empty ones is one gap. */
static void find_columns(struct panel *panel) {
  size_t empty = 0;
  for (size_t class = 0; class < CLASSES; class ++) {
    bool any = false;
    for (size_t i = 0; i < panel->count; i++)
      any |= panel->stacks[i].calls[class] > 0;
    if (!any) {
      empty++;
      continue;
    }
    if (panel->columns && empty)
      panel->class[panel->columns++] = empty > 1 ? NONE : class - 1;
    panel->class[panel->columns++] = class;
    empty = 0;
  }
}

static uint64_t panel_value(const struct panel *panel, size_t i, size_t class) {
  return panel->bytes ? panel->stacks[i].raw[class] : panel->stacks[i].calls[class];
}

/* The scale of a panel, in units that give small numbers at its ticks. */
static double scale_of(const struct panel *panel, struct tagc_axis *y, const char **unit) {
  static const char *const bytes[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"}, *const calls[] = {
                                                                                 "", "thousands", "millions",
                                                                                 "thousands of millions"};
  double most = 1, by = 1;
  size_t at = 0;
  for (size_t column = 0; column < panel->columns; column++) {
    double sum = 0;
    for (size_t i = 0; i < panel->count && panel->class[column] != NONE; i++)
      sum += (double)panel_value(panel, i, panel->class[column]);
    most = fmax(most, sum);
  }
  for (; most / by >= (panel->bytes ? 1024 : 5000) && at < (panel->bytes ? 5 : 3); at++)
    by *= panel->bytes ? 1024 : 1000;
  *unit = panel->bytes ? bytes[at] : calls[at];
  *y = tagc_axis_make(0, most / by, panel->top + PANEL, panel->top, 4);
  return by;
}

static void draw_sizes_panel(struct tagc_page *page, const struct panel *panel) {
  struct tagc_axis y;
  const char *unit;
  double by = scale_of(panel, &y, &unit), pitch = fmin((TAGC_PAGE_WIDTH - LEFT - RIGHT) / (double)panel->columns, 90),
         width = fmin(pitch - 6, 64);
  char title[64];
  snprintf(title, sizeof title, "%s%s%s", panel->bytes ? "Bytes of send buffers" : "Calls", *unit ? ", in " : "", unit);
  tagc_svg_text(page->file, "strong", LEFT, panel->top - 14, title);
  tagc_axis_draw_left(page->file, &y, LEFT, TAGC_PAGE_WIDTH - LEFT - RIGHT, "");
  for (size_t column = 0; column < panel->columns; column++) {
    size_t class = panel->class[column];
    double sum = 0, x = LEFT + pitch * (double)column + (pitch - width) / 2;
    char name[16], text[64];
    if (class == NONE) {
      tagc_svg_text(page->file, "tick mid", x + width / 2, panel->top + PANEL + 17, "\342\200\246");
      continue;
    }
    for (size_t i = 0; i < panel->count; i++) {
      uint64_t value = panel_value(panel, i, class);
      if (!value)
        continue;
      double bottom = tagc_axis_at(&y, sum / by), top = tagc_axis_at(&y, (sum + (double)value) / by);
      panel->bytes ? tagc_format_bytes((double)value, text) : tagc_format_count((double)value, text);
      fprintf(page->file, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">",
              tagc_page_class(panel->stacks[i].name), x, top, width,
              fmax(bottom - top - (bottom - top > 3 ? 1 : 0), 1));
      tagc_markup(page->file, "<title>%s from %s on: %s%s</title></rect>\n", panel->stacks[i].name,
                  class_name(class, name), text, panel->bytes ? "" : " calls");
      sum += (double)value;
    }
    if (pitch >= 44 || column % 2 == 0)
      tagc_svg_text(page->file, "tick mid", x + width / 2, panel->top + PANEL + 17, class_name(class, name));
  }
}

static void draw_sizes(struct tagc_page *page, const struct stack *stacks, size_t count) {
  struct panel panel = {.stacks = stacks, .count = count, .bytes = true, .top = TOP + 34};
  find_columns(&panel);
  char description[300], low[16], high[16];
  snprintf(description, sizeof description,
           "Calls of %zu functions between %s and twice %s, stacked by function; the most bytes by %s.", count,
           class_name(panel.class[0], low), class_name(panel.class[panel.columns - 1], high), stacks[0].name);
  tagc_figure_begin(page, "fig-sizes",
                    "Sizes of send buffers, each class up to twice its least (\342\200\246: several without calls)",
                    description, TAGC_PAGE_WIDTH, 2 * PANEL + TOP + 34 + GAP + 30);
  double x = LEFT;
  for (size_t i = 0; i < count && x < TAGC_PAGE_WIDTH - 120; i++)
    x = tagc_svg_key(page->file, tagc_page_class(stacks[i].name), x, 20, stacks[i].name);
  draw_sizes_panel(page, &panel);
  panel.bytes = false;
  panel.top += PANEL + GAP;
  draw_sizes_panel(page, &panel);
  tagc_figure_end(page);
}

static void put_sizes(struct tagc_page *page, const struct stack *stacks, size_t count) {
  tagc_table_begin(page, "Calls of all ranks by function and size",
                   "Function|Send buffer from|>Calls|>Bytes of send buffers|>Bytes sent", true);
  for (size_t i = 0; i < count; i++)
    for (size_t class = 0; class < CLASSES; class ++) {
      char name[16];
      if (!stacks[i].calls[class])
        continue;
      tagc_row_begin(page, stacks[i].name);
      tagc_cell_text(page, class_name(class, name));
      tagc_cell_number(page, stacks[i].calls[class]);
      tagc_cell_number(page, stacks[i].raw[class]);
      tagc_cell_number(page, stacks[i].sent[class]);
      tagc_row_end(page);
    }
  tagc_table_end(page);
}

bool tagc_page_sizes(struct tagc_page *page) {
  size_t count;
  struct stack *stacks = make_stacks(page->summary, &count);
  if (!stacks)
    return false;
  tagc_page_section(page, "sizes", "Sizes of calls", "");
  if (!count)
    tagc_page_nothing(page, "No call of these traces carries data.",
                      "Trace a part of the run in which the ranks communicate.");
  else {
    draw_sizes(page, stacks, count);
    put_sizes(page, stacks, count);
  }
  tagc_page_section_end(page);
  free(stacks);
  return true;
}
