/* SPDX-License-Identifier: BSD-3-Clause
 * Layer by layer: bytes sent compared with plain calls, and the codecs' losses over time. Like neighbouring slots (the
 * blocks of a transformer) are one row.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/show/page.h"
#include "interpose/tagc-report/show/svg.h"

enum { ROW = 30, BARS = 40, LEFT = 170, RIGHT = 210, PANELS = 12, PANEL_WIDTH = 280, PANEL_HEIGHT = 170 };

/* Like slots. */
struct row {
  const struct tagc_sum_comm *comm;
  const struct tagc_sum_slot *first, *last, *worst; /* worst: with the largest latest error */
  const struct tagc_sum_slot *allgather;            /* of these slots, if the row is about all-gathers; else NULL */
  size_t times;
  char name[200];
  double calls, packed_calls, raw; /* of one slot; raw: of a call */
  double plain, sent, packed;      /* bytes that a rank sends per call: if plain, on average, if compressed */
};

static double last_error(const struct tagc_sum_slot *slot) {
  size_t i = slot->point_count;
  while (i && !isfinite(slot->points[i - 1].error))
    i--;
  return i ? slot->points[i - 1].error : NAN;
}

/* Bytes per call. Runs with both sides include plain calls; the remaining bytes are the compressed calls'. */
static void weigh(struct row *row) {
  const struct tagc_sum_calls *calls = row->allgather ? &row->first->gathered : &row->first->calls;
  double all = (double)calls->calls, packed = (double)calls->compressed;
  row->calls = all;
  row->packed_calls = packed;
  if (!(all > 0))
    return;
  double sent = (double)tagc_sent_all(&calls->sent), plain = (double)tagc_sent_all(&calls->plain);
  row->raw = (double)calls->raw_bytes / all;
  row->plain = plain / all;
  row->sent = sent / all;
  row->packed = packed > 0 ? fmax(0, sent - (all - packed) * row->plain) / packed : row->plain;
}

/* True if the names differ only in numbers: "block.0" and "block.1". */
static bool alike_names(const char *a, const char *b) {
  while (*a || *b) {
    size_t x = strspn(a, "0123456789"), y = strspn(b, "0123456789");
    if ((x > 0) != (y > 0))
      return false;
    a += x;
    b += y;
    if (!x && *a++ != *b++)
      return false;
  }
  return true;
}

static bool joins(const struct row *row, const struct tagc_sum_comm *comm, const struct tagc_sum_slot *slot) {
  const struct tagc_sum_slot *first = row->first;
  return row->comm == comm && first->lock == slot->lock && strcmp(first->codec, slot->codec) == 0 &&
         first->count == slot->count && first->type == slot->type && first->reason == slot->reason &&
         strcmp(first->name, slot->name) != 0 && alike_names(first->name, slot->name);
}

/* An all-gather of the slot's parameters, or NULL. */
static const struct tagc_sum_slot *allgather_of(const struct tagc_sum_comm *comm, const struct tagc_sum_slot *slot) {
  for (size_t i = 0; i < comm->allgather_count; i++)
    if (comm->allgathers[i].lock == slot->lock && comm->allgathers[i].of == slot->slot &&
        comm->allgathers[i].calls.calls)
      return &comm->allgathers[i];
  return NULL;
}

/* The slot or all-gather of the row. */
static const struct tagc_sum_slot *chosen(const struct row *row) {
  return row->allgather ? row->allgather : row->first;
}

static void name_row(struct row *row) {
  const char *name = *row->first->name ? row->first->name : "?";
  if (row->times == 1)
    snprintf(row->name, sizeof row->name, "%s", name);
  else
    snprintf(row->name, sizeof row->name, "%s to %s (%zu alike)", name, row->last->name, row->times);
}

/* Rows of each communicator's last lock with calls: an earlier one has the same layers. NULL: no memory. */
static struct row *make_rows(const struct tagc_summary *summary, size_t *count) {
  size_t most = 0;
  *count = 0;
  for (size_t i = 0; i < summary->comm_count; i++)
    most += summary->comms[i].slot_count;
  struct row *rows = calloc(most + 1, sizeof *rows);
  for (size_t i = 0; rows && i < summary->comm_count; i++) {
    const struct tagc_sum_comm *comm = &summary->comms[i];
    for (size_t j = 0; j < comm->slot_count; j++) {
      const struct tagc_sum_slot *slot = &comm->slots[j];
      if (slot->lock != comm->slots[comm->slot_count - 1].lock)
        continue;
      struct row *row = *count ? &rows[*count - 1] : NULL;
      if (!row || !joins(row, comm, slot)) {
        row = &rows[(*count)++];
        *row = (struct row){.comm = comm, .first = slot, .worst = slot};
        weigh(row);
      }
      row->last = slot;
      row->times++;
      if (!(last_error(slot) <= last_error(row->worst)) && !isnan(last_error(slot)))
        row->worst = slot;
    }
  }
  for (size_t i = 0; rows && i < *count; i++)
    name_row(&rows[i]);
  return rows;
}

/* Adds behind each row one for its all-gathers. NULL: no memory. */
static struct row *add_allgather_rows(struct row *rows, size_t *count) {
  struct row *all = calloc(2 * *count + 1, sizeof *all);
  size_t made = 0;
  for (size_t i = 0; all && i < *count; i++) {
    all[made++] = rows[i];
    const struct tagc_sum_slot *allgather = allgather_of(rows[i].comm, rows[i].first);
    if (!allgather)
      continue;
    struct row *row = &all[made++];
    *row = rows[i];
    row->allgather = allgather;
    weigh(row);
    snprintf(row->name, sizeof row->name, "all-gathers of %s", rows[i].name);
  }
  free(rows);
  *count = made;
  return all;
}

/* -- bytes --------------------------------------------------------------------------------------------------------- */

/* "block.3 x 12", the number only if it fits. */
static void short_name(const struct row *row, char name[64]) {
  size_t fits = LEFT / 7;
  snprintf(name, 64, "%s", row->allgather ? "its all-gathers" : *row->first->name ? row->first->name : "?");
  if (row->times > 1 && !row->allgather && strlen(name) < fits - 4)
    snprintf(name + strlen(name), 64 - strlen(name), " \303\227 %zu", row->times);
  else if (strlen(name) > fits)
    memcpy(name + fits - 2, "..", 3);
}

static void draw_bar(struct tagc_page *page, const struct row *row, double y, double scale) {
  FILE *file = page->file;
  char label[160], plain[16], packed[16], name[64];
  short_name(row, name);
  tagc_format_bytes(row->plain, plain);
  tagc_format_bytes(row->packed, packed);
  if (row->packed_calls > 0)
    snprintf(label, sizeof label, "%s \342\206\222 %s, %s", plain, packed, chosen(row)->codec);
  else
    snprintf(label, sizeof label, "%s, plain", plain);
  tagc_svg_text(file, "label end", LEFT - 8, y + 14, name);
  tagc_markup(file, "<g><title>%s: %s</title>", row->name, label);
  fprintf(file, "<rect class=\"outline\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"18\"/>", LEFT, y,
          fmax(1, row->plain * scale));
  fprintf(file, "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"18\"/></g>\n",
          row->packed_calls > 0 ? "packed" : "plain", LEFT, y, fmax(1, row->packed * scale));
  tagc_svg_text(file, "label", LEFT + row->plain * scale + 8, y + 14, label);
}

static void draw_bytes(struct tagc_page *page, const struct row *rows, size_t count) {
  size_t shown = count < BARS ? count : BARS;
  double most = 1;
  for (size_t i = 0; i < shown; i++)
    most = fmax(most, fmax(rows[i].plain, rows[i].packed));
  char description[160];
  snprintf(description, sizeof description,
           "For %zu layers or groups of alike ones: bytes that a rank sends a call, plain and as it was compressed.",
           count);
  tagc_figure_begin(page, "fig-layers", "Bytes that a rank sends in a call: outlined plain, filled as compressed",
                    description, TAGC_PAGE_WIDTH, (double)(shown + 1) * ROW + 16);
  double x = tagc_svg_key(page->file, "outline", LEFT, 18, "plain call");
  x = tagc_svg_key(page->file, "packed", x, 18, "compressed");
  tagc_svg_key(page->file, "plain", x, 18, "travels plain");
  for (size_t i = 0; i < shown; i++)
    draw_bar(page, &rows[i], 34 + (double)i * ROW, (TAGC_PAGE_WIDTH - LEFT - RIGHT) / most);
  tagc_figure_end(page);
  if (shown < count)
    fprintf(page->file, "<p class=\"faint\">The first %zu of %zu; the table has all.</p>\n", shown, count);
}

static void put_bytes_table(struct tagc_page *page, const struct row *rows, size_t count) {
  tagc_table_begin(page, "Layers, in the order of their calls; bytes are of a rank and a call",
                   "Layer|Codec|>Calls|>Compressed|>Send buffer, bytes|>Sent if plain, bytes|>Sent if compressed, "
                   "bytes|>Times less|Decision of the vote",
                   true);
  for (size_t i = 0; i < count; i++) {
    const struct row *row = &rows[i];
    bool packed = row->packed_calls > 0;
    tagc_row_begin(page, row->name);
    tagc_cell_text(page, packed ? chosen(row)->codec : "plain");
    tagc_cell_number(page, (uint64_t)row->calls);
    tagc_cell_number(page, (uint64_t)row->packed_calls);
    tagc_cell_number(page, (uint64_t)llround(row->raw));
    tagc_cell_number(page, (uint64_t)llround(row->plain));
    if (packed)
      tagc_cell_number(page, (uint64_t)llround(row->packed));
    else
      tagc_cell_real(page, NAN, 0);
    tagc_cell_real(page, packed && row->packed > 0 ? row->plain / row->packed : NAN, 2);
    const struct tagc_sum_slot *slot = chosen(row);
    tagc_cell_text(page, slot->voted || row->allgather ? tagc_sum_name(page->summary, TAGC_TRACE_REASONS, slot->reason)
                                                       : "no vote yet");
    tagc_row_end(page);
  }
  tagc_table_end(page);
}

bool tagc_page_layers(struct tagc_page *page) {
  size_t count;
  struct row *rows = make_rows(page->summary, &count);
  rows = rows ? add_allgather_rows(rows, &count) : NULL;
  if (!rows)
    return false;
  const struct tagc_sum_comm *comm = count ? rows[0].comm : NULL;
  tagc_page_section(page, "layers", "Layers", "");
  if (!count)
    tagc_page_nothing(page,
                      "No reduce-scatter has a place in a repeating cycle here, so there are no layers to tell apart.",
                      "They are found in programs that shard gradients (FSDP, DeepSpeed ZeRO, Megatron's distributed "
                      "optimizer) and repeat their steps.");
  else {
    fputs("<p class=\"faint\">", page->file);
    if (tagc_sum_layers_known(comm))
      tagc_markup(page->file, "Taken for: %s; %u%% sure%s. ", comm->layers, comm->confidence,
                  comm->confidence < TAGC_SUM_AMBIGUOUS ? ": ambiguous" : "");
    else
      fputs("Which layers these are is not known; a map (<code>TAGC_LAYERMAP</code>, made by tagc-map) tells. ",
            page->file);
    fprintf(page->file, "A layer here is %s at its place in the step.</p>\n",
            comm->all_reduces ? "a sum of gradients" : "a reduce-scatter");
    draw_bytes(page, rows, count);
    put_bytes_table(page, rows, count);
  }
  tagc_page_section_end(page);
  free(rows);
  return true;
}

/* -- losses -------------------------------------------------------------------------------------------------------- */

static double share(double part, double whole) { return whole > 0 ? part / whole : NAN; }

static double point_residual(const struct tagc_sum_point *point) { return share(point->residual, point->gradient); }
static double point_error(const struct tagc_sum_point *point) { return point->error; }

static void draw_line(FILE *file, const char *class, const struct tagc_sum_slot *slot,
                      double (*value)(const struct tagc_sum_point *), const struct tagc_axis *x,
                      const struct tagc_axis *y) {
  bool going = false, any = false;
  for (size_t i = 0; i < slot->point_count; i++) {
    double v = value(&slot->points[i]);
    if (!isfinite(v)) {
      going = false;
      continue;
    }
    if (!any)
      fprintf(file, "<path class=\"%s\" d=\"", class);
    fprintf(file, "%c%.1f %.1f", going ? 'L' : 'M', tagc_axis_at(x, (double)slot->points[i].cycle), tagc_axis_at(y, v));
    if (slot->point_count == 1)
      fputs("h3", file);
    going = any = true;
  }
  if (any)
    fputs("\"/>\n", file);
}

static bool has_residual(const struct tagc_sum_slot *slot) {
  for (size_t i = 0; i < slot->point_count; i++)
    if (slot->points[i].residual > 0)
      return true;
  return false;
}

/* The highest value, and the range of the points' cycles. */
static double range_of(const struct row *row, double *first, double *last) {
  double most = 0;
  *first = INFINITY;
  *last = 0;
  for (const struct tagc_sum_slot *slot = row->first; slot <= row->last; slot++)
    for (size_t i = 0; i < slot->point_count; i++) {
      const struct tagc_sum_point *point = &slot->points[i];
      double residual = point_residual(point);
      *first = fmin(*first, (double)point->cycle);
      *last = fmax(*last, (double)point->cycle);
      if (isfinite(point->error))
        most = fmax(most, point->error);
      if (slot == row->worst && isfinite(residual))
        most = fmax(most, residual);
    }
  return most;
}

static void draw_layers_panel(struct tagc_page *page, const struct row *row, size_t index) {
  double first, last, most = range_of(row, &first, &last);
  char id[32], name[64], title[160], description[400];
  struct tagc_axis y = tagc_axis_make(0, most > 0 ? 100 * most : 1, PANEL_HEIGHT - 26, 14, 4);
  struct tagc_axis x = {first, last > first ? last : first + 1, 44, PANEL_WIDTH - 10, 1};
  struct tagc_axis values = {y.low / 100, y.high / 100, y.from, y.to, y.step / 100};
  snprintf(id, sizeof id, "fig-loss-%zu", index);
  short_name(row, name);
  snprintf(title, sizeof title, "%s: %s", name, row->first->codec);
  snprintf(description, sizeof description, "From cycle %.0f to %.0f. In the last sample the error of %s is %.3g%%%s",
           first, last, row->worst->name, 100 * last_error(row->worst),
           row->times > 1 ? ", the largest of the group." : ".");
  tagc_figure_begin(page, id, title, description, PANEL_WIDTH, PANEL_HEIGHT);
  tagc_axis_draw_left(page->file, &y, 44, PANEL_WIDTH - 54, "%");
  for (const struct tagc_sum_slot *slot = row->first; slot <= row->last; slot++)
    if (slot != row->worst)
      draw_line(page->file, "thin", slot, point_error, &x, &values);
  if (has_residual(row->worst))
    draw_line(page->file, "line dash", row->worst, point_residual, &x, &values);
  draw_line(page->file, "line", row->worst, point_error, &x, &values);
  char text[64];
  snprintf(text, sizeof text, "cycle %.0f", first);
  tagc_svg_text(page->file, "tick", 44, PANEL_HEIGHT - 8, text);
  snprintf(text, sizeof text, "%.0f", last);
  tagc_svg_text(page->file, "tick end", PANEL_WIDTH - 10, PANEL_HEIGHT - 8, text);
  tagc_figure_end(page);
}

static int by_error(const void *a, const void *b) {
  double x = last_error(((const struct row *)a)->worst), y = last_error(((const struct row *)b)->worst);
  x = isnan(x) ? -1 : x;
  y = isnan(y) ? -1 : y;
  return x < y ? 1 : x > y ? -1 : 0;
}

static void put_losses(struct tagc_page *page, const struct row *rows, size_t count) {
  tagc_table_begin(
    page, "What codecs lose: the first and the last sample of each layer",
    "Layer|Codec|>Samples|>First error, %|>Last error, %|>Last residual|>Last gradient|>Residual of gradient, %", true);
  for (size_t i = 0; i < count; i++)
    for (const struct tagc_sum_slot *slot = rows[i].first; slot <= rows[i].last; slot++) {
      if (!slot->point_count)
        continue;
      const struct tagc_sum_point *first = &slot->points[0], *last = &slot->points[slot->point_count - 1];
      tagc_row_begin(page, slot->name);
      tagc_cell_text(page, slot->codec);
      tagc_cell_number(page, slot->point_count);
      tagc_cell_real(page, 100 * first->error, 3);
      tagc_cell_real(page, 100 * last->error, 3);
      isfinite(last->residual) ? tagc_cell(page, "%.4g", last->residual) : tagc_cell_real(page, NAN, 0);
      isfinite(last->gradient) ? tagc_cell(page, "%.4g", last->gradient) : tagc_cell_real(page, NAN, 0);
      tagc_cell_real(page, 100 * point_residual(last), 1);
      tagc_row_end(page);
    }
  tagc_table_end(page);
}

bool tagc_page_losses(struct tagc_page *page) {
  size_t count, sampled = 0;
  struct row *rows = make_rows(page->summary, &count);
  if (!rows)
    return false;
  for (size_t i = 0; i < count; i++)
    if (!isnan(last_error(rows[i].worst)))
      rows[sampled++] = rows[i];
  qsort(rows, sampled, sizeof *rows, by_error);
  tagc_page_section(page, "losses", "What compression loses", "");
  if (!sampled)
    tagc_page_nothing(page, "No error was sampled.",
                      "Samples are taken now and then of what is compressed (<code>TAGC_MODE=compress</code> or "
                      "<code>ab</code>); a longer run has some.");
  else {
    fputs("<p class=\"faint\">Solid: relative error of one encoding. Dashed: residual, in per cent of the gradient, "
          "where the codec keeps one; it is "
          "sent later. Thin lines: other layers of the group.</p>\n<div class=\"many\">\n",
          page->file);
    for (size_t i = 0; i < sampled && i < PANELS; i++)
      draw_layers_panel(page, &rows[i], i);
    fputs("</div>\n", page->file);
    if (sampled > PANELS)
      fprintf(page->file, "<p class=\"faint\">The %d with the largest errors, of %zu.</p>\n", PANELS, sampled);
    put_losses(page, rows, sampled);
  }
  tagc_page_section_end(page);
  free(rows);
  return true;
}
