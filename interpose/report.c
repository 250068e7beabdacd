/* SPDX-License-Identifier: BSD-3-Clause
 * The report at exit: a table for people on stderr of rank 0, then lines of key=value pairs for programs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "env/log.h"
#include "interpose/ledger.h"
#include "interpose/library.h"

const char *tagc_report_bytes(uint64_t bytes, char text[16])
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = (double)bytes;
  size_t unit = 0;
  for (; value >= 1024 && unit < 5; unit++)
    value /= 1024;
  snprintf(text, 16, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

static double ratio(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 1; }

/* The times of those calls that tell them, for all. */
static double of_all_calls(double ms, const struct tagc_ledger *ledger, uint64_t compressed)
{
  return ledger->timed_calls ? ms * (double)compressed / (double)ledger->timed_calls : 0;
}

static uint64_t all_of(const struct tagc_traffic *traffic) { return traffic->inside + traffic->between; }

/* What counts: bytes for other hosts, where there are any. */
static uint64_t wire_of(const struct tagc_ledger *ledger, const struct tagc_traffic *traffic)
{
  return ledger->hosts.hosts > 1 ? traffic->between : all_of(traffic);
}

static bool has_inside(const struct tagc_ledger *ledger) { return ledger->hosts.hosts > 1 && ledger->hosts.local > 1; }

/* Of the column of slots. */
static int name_width(const struct tagc_ledger *ledger)
{
  size_t width = 8;
  for (size_t i = 0; i < ledger->row_count; i++)
    width = strlen(ledger->rows[i].name) > width ? strlen(ledger->rows[i].name) : width;
  return (int)width;
}

static void print_row(const struct tagc_ledger *ledger, const struct tagc_ledger_row *row, int width)
{
  char raw[16], plain[16], wire[16], memory[16], inside[32] = "", home[48];
  const uint64_t plain_bytes = wire_of(ledger, &row->plain), wire_bytes = wire_of(ledger, &row->sent);
  if (has_inside(ledger))
    snprintf(inside, sizeof inside, " %11s", tagc_report_bytes(row->sent.inside, raw));
  tagc_say("  %-*s %-6s %7" PRIu64 " %10" PRIu64 " %11s %11s %11s %6.3f%s %11" PRIu64 " %9" PRIu64 " %10.3g %11s%s%s",
           width, row->name, row->codec ? row->codec : "-", row->calls, row->compressed,
           tagc_report_bytes(row->raw_bytes, raw), tagc_report_bytes(plain_bytes, plain), tagc_report_bytes(wire_bytes, wire), ratio(wire_bytes, plain_bytes), inside, row->stats.unrecovered,
           row->stats.nonfinite, __builtin_sqrt(row->stats.residual_norm2), tagc_report_bytes(row->residual_bytes, memory),
           row->home.number ? "  " : "", row->home.number ? tagc_range_text(&row->home, home) : "");
}

/* Slots of which the same parameters are compressed, and the others go with full precision beside them. */
static void print_parts_like(const struct tagc_ledger *ledger, const struct tagc_ledger_row *row)
{
  const struct tagc_ledger_row *last = row;
  char slots[2 * TAGC_LAYER_NAME + 32];
  size_t count = 1;
  for (const struct tagc_ledger_row *other = row + 1; other < ledger->rows + ledger->row_count; other++)
    if (other->elements && other->parameters && other->parameters == row->parameters) {
      last = other;
      count++;
    }
  if (count > 1)
    snprintf(slots, sizeof slots, "%s to %s, %zu slots", row->name, last->name, count);
  else
    snprintf(slots, sizeof slots, "%s", row->name);
  tagc_say("    %s: %.1f%% of %" PRIu64 " elements selected: %s", slots, 100 * ratio(row->selected, row->elements), row->elements,
           row->parameters ? row->parameters : "?");
}

static void print_parts(const struct tagc_ledger *ledger)
{
  const struct tagc_ledger_row *rows = ledger->rows;
  bool told = false;
  for (size_t i = 0; i < ledger->row_count; i++) {
    size_t j = 0;
    while (j < i && !(rows[j].elements && rows[j].parameters && rows[j].parameters == rows[i].parameters))
      j++;
    if (!rows[i].elements || j != i)
      continue;
    if (!told)
      tagc_say("  in part, all else in the slot goes in full precision beside it:");
    told = true;
    print_parts_like(ledger, &rows[i]);
  }
}

/* The sum of all rows. Residuals are of the present slots alone. */
static struct tagc_ledger_row total_of(const struct tagc_ledger *ledger)
{
  struct tagc_ledger_row total = ledger->rest;
  strcpy(total.name, "total");
  for (size_t i = 0; i < ledger->row_count; i++) {
    const struct tagc_ledger_row *row = &ledger->rows[i];
    tagc_ledger_add(&total, row);
    total.stats.residual_norm2 += row->stats.residual_norm2;
    total.residual_bytes += row->residual_bytes;
  }
  return total;
}

/* One cell of the table of choices: a number with three or four digits and its unit, or a dash for what was not measured. */
static const char *cell(double value, const char *unit, char text[16])
{
  if (!(value > 0 && value < 1e6))
    return value < 1e6 ? "0" : "-";
  snprintf(text, 16, "%.*f%s", value < 1 ? 3 : value < 10 ? 2 : value < 1000 ? 1 : 0, value, unit);
  return text;
}

static void print_choice(const struct tagc_ledger_row *row, int width)
{
  char line[160 + TAGC_LAYER_NAME], text[2][16];
  const struct tagc_choice *choice = &row->grounds->choice;
  const struct tagc_survey *survey = &row->grounds->survey;
  const double unknown = choice->plain_ns > 0 ? 0 : __builtin_inf();
  int n = snprintf(line, sizeof line, "  %-*s", width, row->name);
  n += snprintf(line + n, sizeof line - (size_t)n, " %8s", cell(unknown + 100 * survey->density, "%", text[0]));
  n += snprintf(line + n, sizeof line - (size_t)n, " %8s", cell(unknown + survey->kurtosis, "", text[0]));
  n += snprintf(line + n, sizeof line - (size_t)n, " %8s", cell(unknown + 1e-6 * choice->plain_ns, "", text[0]));
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    n += snprintf(line + n, sizeof line - (size_t)n, " %6s %6s", cell(unknown + 1e-6 * choice->ns[i], "", text[0]),
                  cell(unknown + 100 * survey->of[i].error, "%", text[1]));
  snprintf(line + n, sizeof line - (size_t)n, "  %s", row->codec ? row->codec : "plain");
  tagc_say("%s", line);
}

/* MB/s; a dash where bytes took no time that could be measured. */
static const char *rate(const struct tagc_link *link, char text[16])
{
  snprintf(text, 16, link->ns_per_byte > 0 ? "%.1f" : "-", 1e3 / link->ns_per_byte);
  return text;
}

/* TAGC_CODEC=auto: the numbers behind each choice, for slots that there was a choice for. */
static void print_choices(const struct tagc_ledger *ledger, int width)
{
  char line[160 + TAGC_LAYER_NAME], text[2][16];
  if (!ledger->probed)
    return;
  const struct tagc_wire *wire = &ledger->wire;
  tagc_say("  measured before the choice: reduce-scatter %s MB/s and %.0f us a step, messages by %s %s MB/s a rank and %.0f us",
           rate(&wire->plain, text[0]), 1e-3 * wire->plain.latency_ns, wire->all_to_all ? "ncclAlltoAll" : "ncclSend",
           rate(&wire->exchange, text[1]), 1e-3 * wire->exchange.latency_ns);
  if (ledger->two_levels)
    tagc_say("  in two levels: reduce-scatter inside a host %s MB/s and %.0f us a step; the %d ranks of a host send messages at once",
             rate(&wire->inside, text[0]), 1e-3 * wire->inside.latency_ns, ledger->hosts.local);
  int n = snprintf(line, sizeof line, "  %-*s %8s %8s %8s", width, "slot", "density", "kurtosis", "plain ms");
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    n += snprintf(line + n, sizeof line - (size_t)n, " %6s %6s", tagc_choose_name(i), "error");
  tagc_say("%s  choice", line);
  for (size_t i = 0; i < ledger->row_count; i++) {
    const struct tagc_choice *choice = &ledger->rows[i].grounds->choice;
    if (choice->plain_ns > 0 || choice->reason == TAGC_REASON_unseen)
      print_choice(&ledger->rows[i], width);
  }
}

static void print_ab(const struct tagc_ledger *ledger)
{
  const struct tagc_ledger_side *plain = &ledger->sides[0], *compressed = &ledger->sides[1];
  if (!plain->step_ms.count || !compressed->step_ms.count)
    return;
  tagc_say("  A/B: plain %.1f ms a step (+- %.1f, %" PRIu64 " cycles), compressed %.1f ms (+- %.1f, %" PRIu64 " cycles): "
           "%.3f times as fast", plain->step_ms.mean, tagc_series_deviation(&plain->step_ms), plain->step_ms.count,
           compressed->step_ms.mean, tagc_series_deviation(&compressed->step_ms), compressed->step_ms.count,
           plain->step_ms.mean / compressed->step_ms.mean);
}

static void print_sides(const struct tagc_ledger *ledger)
{
  static const char *const names[] = {"plain", "compressed"};
  for (int i = 0; i < 2; i++) {
    const struct tagc_ledger_side *side = &ledger->sides[i];
    uint64_t n = side->step_ms.count;
    tagc_say("tagc-ab: side=%s cycles=%" PRIu64 " step_ms_mean=%.3f step_ms_sd=%.3f wire_bytes=%" PRIu64 " between_bytes=%"
             PRIu64, names[i], n, side->step_ms.mean, tagc_series_deviation(&side->step_ms), n ? all_of(&side->sent) / n : 0,
             n ? side->sent.between / n : 0);
  }
}

/* Where the ranks are, and what the columns of bytes mean there. */
static void print_hosts(const struct tagc_ledger *ledger, bool compressed)
{
  const struct tagc_hosts *h = &ledger->hosts;
  if (h->hosts == 1)
    tagc_say("  all ranks share a host; wire: what a rank sends");
  else if (h->hosts > 1)
    tagc_say("  on %d hosts%s; wire: what a rank sends to other hosts%s", h->hosts,
             ledger->two_levels && compressed ? ", in two levels" : "",
             has_inside(ledger) ? " (the mean of a host's); inside: to its own" : "");
}

/* For programs. */
static void print_total(const struct tagc_ledger *ledger, const struct tagc_ledger_row *total)
{
  tagc_say("tagc-total: codec=%s ranks=%d calls=%" PRIu64 " compressed=%" PRIu64 " raw_bytes=%" PRIu64 " wire_bytes=%" PRIu64
           " plain_bytes=%" PRIu64 " between_bytes=%" PRIu64 " plain_between_bytes=%" PRIu64 " hosts=%d levels=%d"
           " encode_ms=%.3f exchange_ms=%.3f decode_ms=%.3f unrecovered=%" PRIu64 " residual_norm=%.6g"
           " cycles_compressed=%" PRIu64 " cycles_plain=%" PRIu64,
           ledger->codec, ledger->nranks, total->calls, total->compressed, total->raw_bytes, all_of(&total->sent),
           all_of(&total->plain), total->sent.between, total->plain.between, ledger->hosts.hosts, ledger->two_levels ? 2 : 1,
           of_all_calls(ledger->encode_ms, ledger, total->compressed),
           of_all_calls(ledger->exchange_ms, ledger, total->compressed),
           of_all_calls(ledger->decode_ms, ledger, total->compressed), total->stats.unrecovered,
           __builtin_sqrt(total->stats.residual_norm2), ledger->cycles_compressed, ledger->cycles_plain);
}

static void print_ledger(const struct tagc_ledger *ledger)
{
  struct tagc_ledger_row total = total_of(ledger);
  const int width = name_width(ledger);
  tagc_say("tagc: communicator %" PRIu64 " of %d ranks: %" PRIu64 " of %" PRIu64 " reduce-scatters compressed (%s), %" PRIu64
           " other collectives passed through", ledger->number, ledger->nranks, total.compressed, total.calls,
           ledger->codec, ledger->other_calls);
  if (*ledger->layers)
    tagc_say("  layers: %s", ledger->layers);
  if (*ledger->or_layers)
    tagc_say("      or: %s", ledger->or_layers);
  print_hosts(ledger, total.compressed > 0);
  tagc_say("  %-*s %-6s %7s %10s %11s %11s %11s %6s%s %11s %9s %10s %11s", width, "slot", "codec",
           "calls", "compressed", "gradients", "plain wire", "wire", "ratio", has_inside(ledger) ? "      inside" : "", "unrecovered", "nonfinite", "|residual|", "memory");
  for (size_t i = 0; i < ledger->row_count; i++)
    print_row(ledger, &ledger->rows[i], width);
  if (ledger->rest.calls) {
    struct tagc_ledger_row rest = ledger->rest;
    strcpy(rest.name, "(none)");
    print_row(ledger, &rest, width);
  }
  print_row(ledger, &total, width);
  print_parts(ledger);
  print_choices(ledger, width);
  for (int reason = 0; reason < TAGC_REASON_COUNT; reason++)
    if (ledger->reasons[reason] && reason != TAGC_REASON_compressed)
      tagc_say("  %7" PRIu64 " not compressed: %s", ledger->reasons[reason], tagc_reason_words((enum tagc_reason)reason));
  if (total.residuals_dropped)
    tagc_say("  %7" PRIu64 " residuals dropped: a disturbed cycle, a step with NaN or Inf, or a failed call", total.residuals_dropped);
  if (total.stats.overflowed)
    tagc_say("  %7" PRIu64 " shards came out NaN: more values that are not finite than fit", total.stats.overflowed);
  uint64_t cycles = ledger->cycles_compressed ? ledger->cycles_compressed : 1;
  if (total.compressed)
    tagc_say("  a compressed cycle: encode %.2f ms, exchange %.2f ms, decode %.2f ms; %" PRIu64 " cycles compressed, %"
             PRIu64 " plain", of_all_calls(ledger->encode_ms, ledger, total.compressed) / (double)cycles,
             of_all_calls(ledger->exchange_ms, ledger, total.compressed) / (double)cycles,
             of_all_calls(ledger->decode_ms, ledger, total.compressed) / (double)cycles, ledger->cycles_compressed, ledger->cycles_plain);
  print_ab(ledger);
  print_total(ledger, &total);
  if (tagc_library_options()->mode == TAGC_MODE_AB)
    print_sides(ledger);
}

void tagc_report_print(const struct tagc_ledger *ledgers)
{
  int when = tagc_library_options()->report;
  for (const struct tagc_ledger *l = ledgers; l; l = l->next)
    if (l->rank == 0 && l->nranks > 1 &&
        (when == TAGC_REPORT_ALWAYS || (when == TAGC_REPORT_AUTO && total_of(l).compressed)))
      print_ledger(l);
}
