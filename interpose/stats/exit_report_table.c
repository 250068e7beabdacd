/* SPDX-License-Identifier: BSD-3-Clause
 * The tables of the report: slots by the kind of their layers, in forward order. Alike slots of neighbouring layers
 * share a line, as a model has dozens of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/log.h"
#include "env/units.h"
#include "interpose/nccl/process.h"
#include "interpose/stats/exit_report.h"

enum { FOLDED = 4 }; /* fewer slots have a line each */

static int compare_rows(const void *left, const void *right) {
  const struct tagc_ledger_row *a = *(const struct tagc_ledger_row *const *)left,
                               *b = *(const struct tagc_ledger_row *const *)right;
  const int kinds = (a->kind > b->kind) - (a->kind < b->kind), units = (a->unit > b->unit) - (a->unit < b->unit);
  const int agains = a->allgather.again - b->allgather.again;
  return kinds ? kinds : agains ? agains : units ? units : (a > b) - (a < b); /* rows are in the order of their calls */
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

/* Calls of the last cycle may be missing; any other difference is worth a separate line. */
static bool is_alike(const struct tagc_ledger_row *a, const struct tagc_ledger_row *b) {
  char span[2 * TAGC_LAYER_NAME];
  const uint64_t more = a->compressed > b->compressed ? a->compressed - b->compressed : b->compressed - a->compressed;
  return a->kind == b->kind && a->shard == b->shard && same_text(a->codec, b->codec) &&
         a->parameters == b->parameters && !a->home.number && !b->home.number && more <= 1 &&
         a->allgather.again == b->allgather.again && a->allgather.reason == b->allgather.reason &&
         (!a->inputs || a->inputs->choice.reason == b->inputs->choice.reason) &&
         tagc_layer_span(a->name, b->name, span, sizeof span);
}

static void add_slot_line(struct tagc_report_lines *lines, const struct tagc_ledger_row *const *rows, size_t count) {
  struct tagc_report_line *line = &lines->lines[lines->count++];
  *line = (struct tagc_report_line){.rows = rows, .count = count};
  if (count > 1)
    tagc_layer_span(rows[0]->name, rows[count - 1]->name, line->name, sizeof line->name);
  else
    snprintf(line->name, sizeof line->name, "%s", rows[0]->name);
  if (strlen(line->name) > (size_t)lines->width)
    lines->width = (int)strlen(line->name);
}

bool tagc_report_make_lines(const struct tagc_ledger_row *rows, size_t count, struct tagc_report_lines *lines) {
  *lines = (struct tagc_report_lines){
    .rows = calloc(count + 1, sizeof(*lines->rows)), .lines = calloc(count + 1, sizeof *lines->lines), .width = 8};
  if (!lines->rows || !lines->lines)
    return false;
  for (size_t i = 0; i < count; i++)
    lines->rows[i] = &rows[i];
  qsort(lines->rows, count, sizeof(*lines->rows), compare_rows);
  for (size_t i = 0, n; i < count; i += n) {
    for (n = 1; i + n < count && is_alike(lines->rows[i], lines->rows[i + n]);)
      n++;
    if (n < FOLDED)
      n = 1;
    add_slot_line(lines, lines->rows + i, n);
  }
  return true;
}

void tagc_report_free_lines(struct tagc_report_lines *lines) {
  free(lines->rows);
  free(lines->lines);
}

/* ---- what was sent ----------------------------------------------------------------------------------------------- */

/* `slots`: 0: the row is not of slots. */
static void print_exit_slot_row(const struct tagc_ledger *ledger, const struct tagc_ledger_row *row, const char *name,
                                size_t slots, int width) {
  char plain[16], wire[16], memory[16], bytes[16], inside[24] = "", home[48], times[24] = "-";
  const uint64_t plain_bytes = tagc_report_wire(ledger, &row->plain), wire_bytes = tagc_report_wire(ledger, &row->sent);
  if (slots)
    snprintf(times, sizeof times, "%zu", slots);
  if (tagc_report_has_inside(ledger))
    snprintf(inside, sizeof inside, " %8s", tagc_units_bytes(row->sent.inside, bytes));
  tagc_say("  %-*s %3s %-6s %7" PRIu64 " %10" PRIu64 " %8s %8s %5.3f%s %11" PRIu64 " %9" PRIu64 " %9.3g %8s%s%s", width,
           name, times, row->codec ? row->codec : "-", row->calls, row->compressed,
           tagc_units_bytes(plain_bytes, plain), tagc_units_bytes(wire_bytes, wire),
           tagc_report_ratio(wire_bytes, plain_bytes), inside, row->stats.unrecovered, row->stats.nonfinite,
           __builtin_sqrt(row->stats.residual_norm2), tagc_units_bytes(row->residual_bytes, memory),
           row->home.number ? "  " : "", row->home.number ? tagc_range_text(&row->home, home) : "");
}

void tagc_report_sum(struct tagc_ledger_row *sum, const struct tagc_ledger_row *row) {
  tagc_ledger_add(sum, row);
  sum->stats.residual_norm2 += row->stats.residual_norm2;
  sum->residual_bytes += row->residual_bytes;
}

static void print_slot_line(const struct tagc_ledger *ledger, const struct tagc_report_line *line, int width) {
  struct tagc_ledger_row sum = {.codec = line->rows[0]->codec};
  for (size_t i = 0; i < line->count; i++)
    tagc_report_sum(&sum, line->rows[i]);
  if (line->count == 1)
    sum.home = line->rows[0]->home;
  print_exit_slot_row(ledger, &sum, line->name, line->count, width);
}

/* Prints the sum of the lines of a kind, if it has several. */
static void print_kind(const struct tagc_ledger *ledger, const struct tagc_report_line *from,
                       const struct tagc_report_line *to, int width) {
  struct tagc_ledger_row sum = {.codec = from->rows[0]->codec};
  const enum tagc_layer_kind kind = from->rows[0]->kind;
  size_t slots = 0;
  char name[24];
  for (const struct tagc_report_line *line = from; line < to; line++) {
    for (size_t i = 0; i < line->count; i++)
      tagc_report_sum(&sum, line->rows[i]);
    slots += line->count;
    if (!same_text(sum.codec, line->rows[0]->codec))
      sum.codec = "mixed";
  }
  snprintf(name, sizeof name, "all %s", tagc_layer_kind_words(kind));
  print_exit_slot_row(ledger, &sum, name, slots, width);
}

/* The width of the names, including those of print_kind(). */
static int width_with_kinds(const struct tagc_report_lines *lines) {
  int width = lines->width;
  for (size_t i = 1; i < lines->count; i++) {
    const enum tagc_layer_kind kind = lines->lines[i].rows[0]->kind;
    const int its = (int)(strlen("all ") + strlen(tagc_layer_kind_words(kind)));
    if (kind == lines->lines[i - 1].rows[0]->kind && its > width)
      width = its;
  }
  return width;
}

static void print_slots(const struct tagc_ledger *ledger, const struct tagc_report_lines *lines,
                        const struct tagc_ledger_row *total) {
  const struct tagc_report_line *end = lines->lines + lines->count;
  const int width = width_with_kinds(lines);
  tagc_say("  %-*s %3s %-6s %7s %10s %8s %8s %5s%s %11s %9s %9s %8s", width, "slot", "x", "codec", "calls",
           "compressed", "plain", "wire", "ratio", tagc_report_has_inside(ledger) ? "   inside" : "", "unrecovered",
           "nonfinite", "residual", "memory");
  for (const struct tagc_report_line *line = lines->lines, *first = line; line < end; line++) {
    print_slot_line(ledger, line, width);
    if (line + 1 < end && line[1].rows[0]->kind == line->rows[0]->kind)
      continue;
    if (line > first && (first > lines->lines || line + 1 < end)) /* else it is the total */
      print_kind(ledger, first, line + 1, width);
    first = line + 1;
  }
  if (ledger->rest.calls)
    print_exit_slot_row(ledger, &ledger->rest, "(none)", 0, width);
  print_exit_slot_row(ledger, total, "total", ledger->row_count, width);
}

/* ---- why each slot has its codec --------------------------------------------------------------------------------- */

/* One cell: a number with three or four digits and its unit, or a dash if it was not measured. */
static const char *cell(double value, const char *unit, char text[16]) {
  if (!(value > 0 && value < 1e6))
    return value < 1e6 ? "0" : "-";
  snprintf(text, 16, "%.*f%s", value < 1 ? 3 : value < 10 ? 2 : value < 1000 ? 1 : 0, value, unit);
  return text;
}

/* A budget has more candidates. The table then lacks room, and omits those that were open to no slot. */
static bool is_shown(const struct tagc_report_lines *lines, int candidate) {
  if (tagc_library_options()->budget.kind == TAGC_BUDGET_NONE)
    return tagc_choose_is_open(tagc_library_options(), candidate);
  for (const struct tagc_report_line *its = lines->lines; its < lines->lines + lines->count; its++)
    if (its->rows[0]->inputs->choice.plain_ns > 0 && its->rows[0]->inputs->choice.ns[candidate] < __builtin_inf())
      return true;
  return false;
}

static double larger(double a, double b) { return b > a ? b : a; }

/* The largest numbers of a line's slots. */
static struct tagc_decision_inputs inputs_of(const struct tagc_report_line *line) {
  struct tagc_decision_inputs all = *line->rows[0]->inputs;
  for (size_t i = 1; i < line->count; i++) {
    const struct tagc_decision_inputs *its = line->rows[i]->inputs;
    all.gradient.density = larger(all.gradient.density, its->gradient.density);
    all.gradient.kurtosis = larger(all.gradient.kurtosis, its->gradient.kurtosis);
    all.choice.plain_ns = larger(all.choice.plain_ns, its->choice.plain_ns);
    for (int c = 0; c < TAGC_CANDIDATES; c++) {
      all.gradient.of[c].error = larger(all.gradient.of[c].error, its->gradient.of[c].error);
      all.choice.ns[c] = larger(all.choice.ns[c], its->choice.ns[c]);
    }
  }
  return all;
}

static void print_codec_choice(const struct tagc_report_lines *lines, const struct tagc_report_line *its) {
  char line[160 + 2 * TAGC_LAYER_NAME], text[2][16];
  const struct tagc_decision_inputs inputs = inputs_of(its);
  const struct tagc_choice *choice = &inputs.choice;
  const struct tagc_gradient_stats *gradient = &inputs.gradient;
  const double unknown = choice->plain_ns > 0 ? 0 : __builtin_inf();
  const char *codec = its->rows[0]->codec;
  int n = snprintf(line, sizeof line, "  %-*s", lines->width, its->name);
  n += snprintf(line + n, sizeof line - (size_t)n, " %8s", cell(unknown + 100 * gradient->density, "%", text[0]));
  n += snprintf(line + n, sizeof line - (size_t)n, " %8s", cell(unknown + gradient->kurtosis, "", text[0]));
  n += snprintf(line + n, sizeof line - (size_t)n, " %8s", cell(unknown + 1e-6 * choice->plain_ns, "", text[0]));
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    if (is_shown(lines, i))
      n += snprintf(line + n, sizeof line - (size_t)n, " %6s %6s", cell(unknown + 1e-6 * choice->ns[i], "", text[0]),
                    cell(unknown + 100 * gradient->of[i].error, "%", text[1]));
  snprintf(line + n, sizeof line - (size_t)n, "  %s", codec ? codec : "plain");
  tagc_say("%s", line);
}

/* MB/s; a dash if the time of bytes was too short to measure. */
static const char *rate(const struct tagc_link *link, char text[16]) {
  if (!(link->ns_per_byte > 0))
    return "-";
  snprintf(text, 16, "%.1f", 1e3 / link->ns_per_byte);
  return text;
}

static void print_wire(const struct tagc_ledger *ledger) {
  const struct tagc_wire *wire = &ledger->wire;
  char text[2][16];
  tagc_say("  measured before the choice: reduce-scatter %s MB/s and %.0f us a step, messages by %s %s MB/s a rank and "
           "%.0f us",
           rate(&wire->plain, text[0]), 1e-3 * wire->plain.latency_ns, wire->all_to_all ? "ncclAlltoAll" : "ncclSend",
           rate(&wire->exchange, text[1]), 1e-3 * wire->exchange.latency_ns);
  if (ledger->two_levels)
    tagc_say("  in two levels: reduce-scatter inside a host %s MB/s and %.0f us a step; the %d ranks of a host send "
             "messages at once",
             rate(&wire->inside, text[0]), 1e-3 * wire->inside.latency_ns, ledger->hosts.local);
}

/* TAGC_CODEC=auto: prints the numbers behind each choice, for slots that had one. */
static void print_choices(const struct tagc_ledger *ledger, const struct tagc_report_lines *lines) {
  char line[160 + 2 * TAGC_LAYER_NAME];
  if (!ledger->probed)
    return;
  print_wire(ledger);
  int n = snprintf(line, sizeof line, "  %-*s %8s %8s %8s", lines->width, "slot", "density", "kurtosis", "plain ms");
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    if (is_shown(lines, i))
      n += snprintf(line + n, sizeof line - (size_t)n, " %6s %6s", tagc_choose_name(i), "error");
  tagc_say("%s  choice", line);
  for (const struct tagc_report_line *its = lines->lines; its < lines->lines + lines->count; its++) {
    const struct tagc_choice *choice = &its->rows[0]->inputs->choice;
    if (choice->plain_ns > 0 || choice->reason == TAGC_REASON_unseen)
      print_codec_choice(lines, its);
  }
}

void tagc_report_tables(const struct tagc_ledger *ledger, const struct tagc_ledger_row *total) {
  struct tagc_report_lines lines;
  if (tagc_report_make_lines(ledger->rows, ledger->row_count, &lines)) {
    print_slots(ledger, &lines, total);
    tagc_report_parts(ledger);
    print_choices(ledger, &lines);
  }
  tagc_report_free_lines(&lines);
}
