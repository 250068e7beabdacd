/* SPDX-License-Identifier: BSD-3-Clause
 * Draws tables as an SVG: a bar for each row shows the buffer of a reduce-scatter and its contents; see map.h.
 *
 * The picture stands alone: no script, no font, no network. Its colours follow the reader's light or dark scheme. Words
 * repeat each colour: in the bar if they fit, and for screen readers in the description and a title per segment.
 */
#include <inttypes.h>
#include <string.h>

#include "env/program/markup.h"
#include "env/units.h"
#include "layermap/tagc-map/map.h"

enum { MARGIN = 24, BAR = 960, BAR_HEIGHT = 24, ROW = 64, HEAD = 118, ROWS = 200, LABEL = 7, NARROW = 6 };

/* Colours that people with any kind of colour blindness tell apart (Okabe and Ito), and legible text on them. */
static const char style[] =
  "<style>\n"
  ":root{color-scheme:light dark}\n"
  "svg{" TAGC_LOOK_LIGHT "}\n"
  "@media(prefers-color-scheme:dark){svg{" TAGC_LOOK_DARK "}}\n"
  "text{font:13px " TAGC_LOOK_FONT ";fill:var(--ink)}\n"
  ".title{font-size:17px;font-weight:600}.faint{fill:var(--faint)}.name{font-weight:600}.end{text-anchor:end}\n"
  "text.in{font-size:11px;fill:#111;text-anchor:middle;pointer-events:none}text.in.embed{fill:#fff}\n"
  ".paper{fill:var(--paper)}.frame{fill:none;stroke:var(--edge)}.tick{stroke:var(--faint)}\n"
  ".embed{fill:#0072b2}.attn{fill:#e69f00}.mlp{fill:#009e73}.expert{fill:#cc79a7}.norm{fill:#d55e00}.head{fill:#56b4e9}"
  "\n"
  ".other{fill:#999}.padding{fill:url(#hatch)}.hatch{stroke:var(--faint);stroke-width:1.5}\n"
  "</style>\n"
  "<defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
  "patternTransform=\"rotate(45)\">"
  "<path class=\"hatch\" d=\"M0 0V6\"/></pattern></defs>\n";

static void put_share(FILE *file, uint64_t part, uint64_t all) {
  double per_cent = all ? 100.0 * (double)part / (double)all : 0;
  if (per_cent < 0.1)
    fputs("less than 0.1%", file);
  else
    fprintf(file, "%.1f%%", per_cent);
}

/* -- a bar --------------------------------------------------------------------------------------------------------- */

struct bar {
  FILE *file;
  const struct tagc_map_row *row;
  uint64_t all, begin; /* elements in the bar, and before the current shard */
  double y, drawn;     /* its place; the end of the latest narrow part */
  /* Next to draw: touching segments of one member, or of several narrow ones of one colour. */
  uint64_t offset, length;
  int32_t member, last; /* the first member, and the last */
  size_t members;
};

static const char *member_share(const struct bar *bar, int32_t member) {
  return tagc_share_name(member < 0 ? TAGC_SHARE_PADDING
                                    : tagc_share_of(bar->row->layer.members[member].parameter->kinds));
}

/* Describes the segment in as many words as fit. */
static void put_label(FILE *file, const char *share, const char *parameter, double x, double y, double width) {
  char label[TAGC_PARAMETER_NAME];
  snprintf(label, sizeof label, "%s", parameter);
  size_t length = strlen(label), most = (size_t)(width / LABEL);
  if (length > most && length > 7 && strcmp(label + length - 7, ".weight") == 0)
    label[length - 7] = '\0';
  if (strlen(label) > most)
    snprintf(label, sizeof label, "%s", share);
  if (strlen(label) > most)
    return;
  tagc_markup(file, "<text class=\"in %s\" x=\"%.2f\" y=\"%.0f\">%s</text>\n", share, MARGIN + x + width / 2, y + 16,
              label);
}

static void put_member(const struct bar *bar, int32_t member) {
  char name[TAGC_MEMBER_NAME] = "padding";
  if (member >= 0)
    tagc_layer_member_name(&bar->row->layer, (size_t)member, name, sizeof name);
  tagc_markup(bar->file, "%s", name);
}

/* Draws the collected segments. Among several within one pixel only the first is drawn. */
static void flush_bar(struct bar *bar) {
  if (!bar->length)
    return;
  FILE *file = bar->file;
  double x = BAR * ((double)bar->offset / (double)bar->all), width = BAR * ((double)bar->length / (double)bar->all);
  uint64_t length = bar->length;
  bar->length = 0;
  if (width < 1) {
    if (x < bar->drawn)
      return;
    bar->drawn = x + 1;
    width = 1;
    if (x > BAR - 1)
      x = BAR - 1;
  }
  const char *share = member_share(bar, bar->member);
  char number[32];
  double gap = width > 3 ? 0.5 : 0;
  fprintf(file, "<rect class=\"%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"><title>", share, MARGIN + x,
          bar->y, width - gap, BAR_HEIGHT);
  put_member(bar, bar->member);
  if (bar->members > 1) {
    fputs(" to ", file);
    put_member(bar, bar->last);
    fprintf(file, ", %zu parameters", bar->members);
  }
  fprintf(file, ": %s, %s elements, ", share, tagc_units_count(length, number));
  put_share(file, length, bar->all);
  fputs("</title></rect>\n", file);
  if (bar->member >= 0)
    put_label(file, share, bar->members > 1 ? share : bar->row->layer.members[bar->member].parameter->name, x, bar->y,
              width);
}

static bool is_narrow(const struct bar *bar, uint64_t length) {
  return BAR * ((double)length / (double)bar->all) < NARROW;
}

/* True if the segment continues the collected ones. */
static bool joins(const struct bar *bar, const struct tagc_segment *segment, uint64_t offset) {
  if (!bar->length || bar->offset + bar->length != offset)
    return false;
  return bar->last == segment->member ||
         (bar->member >= 0 && segment->member >= 0 &&
          member_share(bar, bar->last) == member_share(bar, segment->member) && is_narrow(bar, segment->length) &&
          (bar->members > 1 || is_narrow(bar, bar->length)));
}

static bool add_bar_segment(const struct tagc_segment *segment, void *data) {
  struct bar *bar = data;
  uint64_t offset = bar->begin + segment->offset;
  if (joins(bar, segment, offset)) {
    bar->members += bar->last != segment->member;
    bar->last = segment->member;
    bar->length += segment->length;
    return true;
  }
  flush_bar(bar);
  bar->offset = offset;
  bar->length = segment->length;
  bar->member = bar->last = segment->member;
  bar->members = 1;
  return true;
}

/* A bar is one shard if all shards are alike, else all of them. */
static bool is_one_shard(const struct tagc_map_row *row) { return tagc_layout_is_uniform(row->layer.layout); }

static void draw_bar(FILE *file, const struct tagc_map_row *row, int nranks, double y) {
  const struct tagc_layer *layer = &row->layer;
  int shards = is_one_shard(row) ? 1 : nranks;
  struct bar bar = {.file = file, .row = row, .all = is_one_shard(row) ? row->shard : row->all, .y = y};
  for (int shard = 0; shard < shards && layer->count && bar.all; shard++) {
    bar.begin = (uint64_t)shard * row->shard;
    tagc_layout_walk(layer->layout, layer->members, layer->count, nranks, layer->element_bytes, shard, add_bar_segment,
                     &bar);
  }
  flush_bar(&bar);
  fprintf(file, "<rect class=\"frame\" x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\"/>\n", MARGIN, y, BAR, BAR_HEIGHT);
  for (int shard = 1; shard < shards && shards <= 64; shard++)
    fprintf(file, "<path class=\"tick\" d=\"M%.2f %.0fv5\"/>\n", MARGIN + BAR * (double)shard / shards, y + BAR_HEIGHT);
}

static void draw_row(FILE *file, const struct tagc_map_row *row, int nranks, double y) {
  char number[32];
  tagc_markup(file, "<g><text class=\"name\" x=\"%d\" y=\"%.0f\">%s", MARGIN, y + 14, row->name);
  if (row->times > 1)
    fprintf(file, "<tspan class=\"faint\" font-weight=\"400\">  \303\227 %zu</tspan>", row->times);
  fprintf(file, "</text><text class=\"faint end\" x=\"%d\" y=\"%.0f\">", MARGIN + BAR, y + 14);
  if (!row->layer.count)
    fputs("nothing is known of its parameters, ", file);
  else if (is_one_shard(row) && nranks > 1)
    fprintf(file, "first of %d shards, ", nranks);
  fprintf(file, "%s elements</text>\n", tagc_units_count(is_one_shard(row) ? row->shard : row->all, number));
  draw_bar(file, row, nranks, y + 21);
  fputs("</g>\n", file);
}

/* -- a picture ----------------------------------------------------------------------------------------------------- */

/* Elements of the whole model by share: each row times the number of its layers. */
static double sum_shares(const struct tagc_map_table *table, double shares[TAGC_SHARES]) {
  double all = 0;
  memset(shares, 0, TAGC_SHARES * sizeof *shares);
  for (size_t i = 0; i < table->count; i++)
    for (int share = 0; share < TAGC_SHARES; share++) {
      double elements = (double)table->rows[i].elements[share] * (double)table->rows[i].times;
      shares[share] += elements;
      all += elements;
    }
  return all;
}

static void draw_legend(FILE *file, const struct tagc_map_table *table, double y) {
  double shares[TAGC_SHARES], all = sum_shares(table, shares), x = MARGIN;
  for (int share = 0; share < TAGC_SHARES; share++) {
    if (!(shares[share] > 0))
      continue;
    const char *name = tagc_share_name((enum tagc_share)share);
    double per_cent = 100 * shares[share] / all;
    fprintf(file, "<rect class=\"%s\" x=\"%.0f\" y=\"%.0f\" width=\"14\" height=\"14\"/>", name, x, y);
    fprintf(file, "<rect class=\"frame\" x=\"%.0f\" y=\"%.0f\" width=\"14\" height=\"14\"/>", x, y);
    fprintf(file, "<text x=\"%.0f\" y=\"%.0f\">%s ", x + 20, y + 12, name);
    fprintf(file, per_cent < 0.1 ? "&lt;0.1%%</text>\n" : "%.1f%%</text>\n", per_cent);
    x += 120;
  }
}

static void describe(FILE *file, const struct tagc_map_table *table) {
  char number[32];
  tagc_markup(file, "%s. %s.\n", table->title, table->what);
  for (size_t i = 0; i < table->count && i < ROWS; i++) {
    const struct tagc_map_row *row = &table->rows[i];
    tagc_markup(file, "%s", row->name);
    if (row->times > 1)
      fprintf(file, ", %zu alike", row->times);
    fprintf(file, ", %s elements:", tagc_units_count(row->all, number));
    bool any = false;
    for (int share = 0; share < TAGC_SHARES; share++)
      if (row->elements[share]) {
        fprintf(file, "%s %s ", any ? "," : "", tagc_share_name((enum tagc_share)share));
        put_share(file, row->elements[share], row->all);
        any = true;
      }
    fputs(any ? ".\n" : " not known.\n", file);
  }
}

static size_t shown_rows(const struct tagc_map_table *table) { return table->count < ROWS ? table->count : ROWS; }

static double height_of(const struct tagc_map_table *table) {
  return HEAD + ROW * (double)shown_rows(table) + (table->count > ROWS ? 24 : 0);
}

static void draw_table(FILE *file, const struct tagc_map_table *table, double y) {
  tagc_markup(file, "<text class=\"title\" x=\"%d\" y=\"%.0f\">%s</text>\n", MARGIN, y + 34, table->title);
  tagc_markup(file, "<text class=\"faint\" x=\"%d\" y=\"%.0f\">%s</text>\n", MARGIN, y + 56, table->what);
  draw_legend(file, table, y + 76);
  for (size_t i = 0; i < shown_rows(table); i++)
    draw_row(file, &table->rows[i], table->nranks, y + HEAD + ROW * (double)i - 8);
  if (table->count > ROWS)
    fprintf(file, "<text class=\"faint\" x=\"%d\" y=\"%.0f\">and %zu more</text>\n", MARGIN, y + height_of(table) - 12,
            table->count - ROWS);
}

void tagc_map_draw(const struct tagc_map_table *tables, size_t count, FILE *file) {
  double height = MARGIN, y = 0;
  for (size_t i = 0; i < count; i++)
    height += height_of(&tables[i]);
  int width = BAR + 2 * MARGIN;
  tagc_markup(file,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\" "
              "role=\"img\" lang=\"en\" aria-labelledby=\"title description\">\n"
              "<title id=\"title\">What lies where in the buffers of %s</title>\n<desc id=\"description\">",
              width, height, width, height, count ? tables[0].title : "nothing");
  for (size_t i = 0; i < count; i++)
    describe(file, &tables[i]);
  fputs("</desc>\n", file);
  fputs(style, file);
  fprintf(file, "<rect class=\"paper\" width=\"%d\" height=\"%.0f\"/>\n", width, height);
  for (size_t i = 0; i < count; i++) {
    draw_table(file, &tables[i], y);
    y += height_of(&tables[i]);
  }
  fputs("</svg>\n", file);
}
