/* SPDX-License-Identifier: BSD-3-Clause
 * The all-gathers in the report at exit.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "env/log.h"
#include "env/units.h"
#include "interpose/stats/exit_report.h"

struct tagc_ledger_row tagc_report_allgathers_total(const struct tagc_ledger *ledger) {
  struct tagc_ledger_row total = ledger->allgather_rest;
  for (size_t i = 0; i < ledger->allgather_count; i++)
    tagc_report_sum(&total, &ledger->allgathers[i]);
  return total;
}

/* The relative loss of the last shards; "exact"; "-": nothing was compressed, or a device has not reported. */
static const char *error_of(const struct tagc_ledger_row *row, char text[16]) {
  const double error = tagc_allgather_error(&row->allgather.stats);
  if (row->allgather.exact || !row->compressed || !__builtin_isfinite(error))
    return row->allgather.exact && row->compressed ? "exact" : "-";
  snprintf(text, 16, "%.3g%%", 100 * error);
  return text;
}

static void print_exit_allgather_row(const struct tagc_ledger *ledger, const struct tagc_ledger_row *row,
                                     const char *name, size_t slots, int width) {
  const struct tagc_ledger_allgather *allgather = &row->allgather;
  char plain[16], wire[16], savable[16], memory[16], bytes[16], error[16], inside[24] = "", times[24] = "-";
  const uint64_t plain_bytes = tagc_report_wire(ledger, &row->plain), wire_bytes = tagc_report_wire(ledger, &row->sent);
  if (slots)
    snprintf(times, sizeof times, "%zu", slots);
  if (tagc_report_has_inside(ledger))
    snprintf(inside, sizeof inside, " %8s", tagc_units_bytes(row->sent.inside, bytes));
  tagc_say("  %-*s %3s %-8s %6" PRIu64 " %10" PRIu64 " %7" PRIu64 " %8s %8s %5.3f%s %7s %9" PRIu64 " %8s %8s", width,
           name, times, row->codec ? row->codec : "-", row->calls, row->compressed, allgather->refused,
           tagc_units_bytes(plain_bytes, plain), tagc_units_bytes(wire_bytes, wire),
           tagc_report_ratio(wire_bytes, plain_bytes), inside, error_of(row, error), allgather->unchanged,
           tagc_units_bytes(tagc_report_wire(ledger, &allgather->savable), savable),
           tagc_units_bytes(row->residual_bytes, memory));
}

static void print_allgather_line(const struct tagc_ledger *ledger, const struct tagc_report_line *line, int width) {
  const struct tagc_ledger_row *of = line->rows[0];
  struct tagc_ledger_row sum = {.codec = of->codec, .allgather.exact = of->allgather.exact};
  char name[sizeof line->name + 8];
  for (size_t i = 0; i < line->count; i++)
    tagc_report_sum(&sum, line->rows[i]);
  snprintf(name, sizeof name, "%s%s", line->name, of->allgather.again ? " again" : "");
  print_exit_allgather_row(ledger, &sum, name, line->count, width);
}

static void print_lines(const struct tagc_ledger *ledger, const struct tagc_report_lines *lines,
                        const struct tagc_ledger_row *total) {
  int width = lines->width;
  for (const struct tagc_report_line *line = lines->lines; line < lines->lines + lines->count; line++) {
    const int its = (int)strlen(line->name) + (line->rows[0]->allgather.again ? 6 : 0);
    width = its > width ? its : width;
  }
  tagc_say("  %-*s %3s %-8s %6s %10s %7s %8s %8s %5s%s %7s %9s %8s %8s", width, "gather", "x", "codec", "calls",
           "compressed", "refused", "plain", "wire", "ratio", tagc_report_has_inside(ledger) ? "   inside" : "",
           "error", "unchanged", "savable", "memory");
  for (const struct tagc_report_line *line = lines->lines; line < lines->lines + lines->count; line++)
    print_allgather_line(ledger, line, width);
  if (ledger->allgather_rest.calls)
    print_exit_allgather_row(ledger, &ledger->allgather_rest, "(none)", 0, width);
  print_exit_allgather_row(ledger, total, "total", ledger->allgather_count, width);
}

static double a_call(double ms, const struct tagc_ledger_times *times) {
  return times->calls ? ms / (double)times->calls : 0;
}

static void print_remarks(const struct tagc_ledger *ledger, const struct tagc_ledger_row *total) {
  const struct tagc_ledger_times *times = &ledger->allgather_times;
  char bytes[16], hidden[24];
  for (int reason = 0; reason < TAGC_REASON_COUNT; reason++)
    if (ledger->allgather_reasons[reason] && reason != TAGC_REASON_compressed)
      tagc_say("  %7" PRIu64 " gathered plain: %s", ledger->allgather_reasons[reason],
               tagc_reason_words((enum tagc_reason)reason));
  if (total->allgather.own_left)
    tagc_say("  %7" PRIu64
             " in place: this rank's own shard stayed as exact as it was, the other ranks have the loss of the codec",
             total->allgather.own_left);
  if (total->allgather.unchanged)
    tagc_say("  %7" PRIu64 " gathered unchanged parameters again: without them %s less would have been sent",
             total->allgather.unchanged, tagc_units_bytes(tagc_report_wire(ledger, &total->allgather.savable), bytes));
  if (total->compressed)
    tagc_say("  a compressed all-gather: encode %.3f ms, exchange %.3f ms, decode %.3f ms%s",
             a_call(times->encode_ms, times), a_call(times->exchange_ms, times), a_call(times->decode_ms, times),
             tagc_report_hidden(times, hidden));
}

void tagc_report_allgathers(const struct tagc_ledger *ledger) {
  struct tagc_report_lines lines;
  struct tagc_ledger_row total = tagc_report_allgathers_total(ledger);
  if (!ledger->allgather_codec || !total.calls)
    return;
  for (size_t i = 0; i < ledger->allgather_count; i++)
    total.allgather.exact |= ledger->allgathers[i].allgather.exact;
  tagc_say("  %" PRIu64 " of %" PRIu64 " all-gathers compressed (%s)", total.compressed, total.calls,
           ledger->allgather_codec);
  if (tagc_report_make_lines(ledger->allgathers, ledger->allgather_count, &lines)) {
    print_lines(ledger, &lines, &total);
    print_remarks(ledger, &total);
  }
  tagc_report_free_lines(&lines);
}

const char *tagc_report_allgathers_words(const struct tagc_ledger *ledger, char text[512]) {
  const struct tagc_ledger_row total = tagc_report_allgathers_total(ledger);
  const struct tagc_ledger_allgather *allgather = &total.allgather;
  const struct tagc_ledger_times *times = &ledger->allgather_times;
  const double calls = (double)total.compressed;
  *text = '\0';
  if (ledger->allgather_codec)
    snprintf(text, 512,
             " gather=%s gathers=%" PRIu64 " gathers_compressed=%" PRIu64 " gather_wire_bytes=%" PRIu64
             " gather_plain_bytes=%" PRIu64 " gather_between_bytes=%" PRIu64 " gather_plain_between_bytes=%" PRIu64
             " gathers_refused=%" PRIu64 " gathers_unchanged=%" PRIu64 " gather_savable_bytes=%" PRIu64
             " gather_encode_ms=%.3f gather_exchange_ms=%.3f gather_decode_ms=%.3f gather_hidden_ms=%.3f",
             ledger->allgather_codec, total.calls, total.compressed, total.sent.inside + total.sent.between,
             total.plain.inside + total.plain.between, total.sent.between, total.plain.between, allgather->refused,
             allgather->unchanged, allgather->savable.inside + allgather->savable.between,
             a_call(times->encode_ms, times) * calls, a_call(times->exchange_ms, times) * calls,
             a_call(times->decode_ms, times) * calls, a_call(times->hidden_ms, times) * calls);
  return text;
}
