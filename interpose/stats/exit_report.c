/* SPDX-License-Identifier: BSD-3-Clause
 * The report at exit: a table for people on stderr of rank 0, then lines of key=value pairs for programs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "env/log.h"
#include "env/numbers.h"
#include "env/units.h"
#include "interpose/nccl/process.h"
#include "interpose/stats/exit_report.h"
#include "kernels/codec/fpmode.h"

/* Extends the times of the calls that have some to all calls. */
static double of_all_calls(double ms, const struct tagc_ledger_times *times, uint64_t compressed) {
  return times->calls ? ms * (double)compressed / (double)times->calls : 0;
}

static uint64_t all_of(const struct tagc_traffic *traffic) { return traffic->inside + traffic->between; }

/* Prints the slots of which the same parameters are compressed; the others go with full precision beside them. */
static void print_parts_like(const struct tagc_ledger *ledger, const struct tagc_ledger_row *row) {
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
  tagc_say("    %s: %.1f%% of %" PRIu64 " elements selected: %s", slots,
           100 * tagc_report_ratio(row->selected, row->elements), row->elements,
           row->parameters ? row->parameters : "?");
}

void tagc_report_parts(const struct tagc_ledger *ledger) {
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

struct tagc_ledger_row tagc_report_total(const struct tagc_ledger *ledger) {
  struct tagc_ledger_row total = ledger->rest;
  for (size_t i = 0; i < ledger->row_count; i++)
    tagc_report_sum(&total, &ledger->rows[i]);
  return total;
}

static void print_ab(const struct tagc_ab_figures *ab) {
  char words[TAGC_AB_WORDS], times[96] = "";
  if (ab->pairs)
    snprintf(times, sizeof times, "plain %.1f ms a step, compressed %.1f ms: ", ab->mean_ms[TAGC_AB_PLAIN],
             ab->mean_ms[TAGC_AB_COMPRESSED]);
  if (*tagc_ab_words(ab, words))
    tagc_say("  A/B: %s%s", times, words);
}

/* A figure of the line tagc-ab: empty if it is not known. */
static const char *figure(const char *name, double value, char text[48]) {
  *text = '\0';
  if (!__builtin_isnan(value))
    snprintf(text, 48, " %s=%.4f", name, value);
  return text;
}

static void print_verdict(const struct tagc_ab_figures *ab) {
  char text[6][48];
  tagc_say("tagc-ab: verdict=%s pairs=%zu%s%s%s%s%s%s",
           ab->outcome == TAGC_AB_TOO_FEW ? "too-few" : tagc_ab_outcome_name(ab->outcome), ab->pairs,
           figure("speed", ab->speed, text[0]), figure("speed_low", ab->low_speed, text[1]),
           figure("speed_high", ab->high_speed, text[2]), figure("plain_ms", ab->mean_ms[TAGC_AB_PLAIN], text[3]),
           figure("compressed_ms", ab->mean_ms[TAGC_AB_COMPRESSED], text[4]),
           figure("difference_ms", ab->difference_ms, text[5]));
}

static void print_sides(const struct tagc_ledger *ledger) {
  static const char *const names[] = {"plain", "compressed"};
  for (int i = 0; i < 2; i++) {
    const struct tagc_ledger_side *side = &ledger->sides[i];
    uint64_t n = side->step_ms.count;
    char allgathers[96] = "";
    if (ledger->allgather_codec)
      snprintf(allgathers, sizeof allgathers, " gather_wire_bytes=%" PRIu64 " gather_between_bytes=%" PRIu64,
               n ? all_of(&side->allgather_sent) / n : 0, n ? side->allgather_sent.between / n : 0);
    tagc_say("tagc-ab: side=%s cycles=%" PRIu64 " step_ms_mean=%.3f step_ms_sd=%.3f wire_bytes=%" PRIu64
             " between_bytes=%" PRIu64 "%s",
             names[i], n, side->step_ms.mean, tagc_series_deviation(&side->step_ms), n ? all_of(&side->sent) / n : 0,
             n ? side->sent.between / n : 0, allgathers);
  }
}

/* Prints where the ranks are, and what the columns of bytes mean there. */
static void print_hosts(const struct tagc_ledger *ledger, bool compressed) {
  const struct tagc_hosts *h = &ledger->hosts;
  if (h->hosts == 1)
    tagc_say("  all ranks share a host; wire: bytes that a rank sends");
  else if (h->hosts > 1)
    tagc_say("  on %d hosts%s; wire: bytes that a rank sends to other hosts%s", h->hosts,
             ledger->two_levels && compressed ? ", in two levels" : "",
             tagc_report_has_inside(ledger) ? " (the mean of a host's); inside: to its own" : "");
}

/* The line for programs. */
static void print_total(const struct tagc_ledger *ledger, const struct tagc_ledger_row *total) {
  char allgathers[512], broadcasts[256];
  const struct tagc_ledger_times *times = &ledger->times;
  tagc_say("tagc-total: codec=%s ranks=%d calls=%" PRIu64 " compressed=%" PRIu64 " raw_bytes=%" PRIu64
           " wire_bytes=%" PRIu64 " plain_bytes=%" PRIu64 " between_bytes=%" PRIu64 " plain_between_bytes=%" PRIu64
           " hosts=%d levels=%d"
           " encode_ms=%.3f exchange_ms=%.3f decode_ms=%.3f hidden_ms=%.3f unrecovered=%" PRIu64 " residual_norm=%.6g"
           " cycles_compressed=%" PRIu64 " cycles_plain=%" PRIu64 "%s%s",
           ledger->codec, ledger->nranks, total->calls, total->compressed, total->raw_bytes, all_of(&total->sent),
           all_of(&total->plain), total->sent.between, total->plain.between, ledger->hosts.hosts,
           ledger->two_levels ? 2 : 1, of_all_calls(times->encode_ms, times, total->compressed),
           of_all_calls(times->exchange_ms, times, total->compressed),
           of_all_calls(times->decode_ms, times, total->compressed),
           of_all_calls(times->hidden_ms, times, total->compressed), total->stats.unrecovered,
           __builtin_sqrt(total->stats.residual_norm2), ledger->cycles_compressed, ledger->cycles_plain,
           tagc_report_allgathers_words(ledger, allgathers), tagc_report_broadcasts_words(ledger, broadcasts));
}

/* TAGC_SPARSITY as a schedule: a line for each stage so far. */
static void print_stages(const struct tagc_ledger *ledger) {
  const struct tagc_schedule *schedule = &tagc_library_options()->sparsity;
  char fraction[24], bytes[16];
  for (uint32_t i = 0; i < schedule->count && schedule->count > 1; i++) {
    const struct tagc_ledger_stage *stage = &ledger->stages[i];
    const uint64_t wire = stage->sent.inside + stage->sent.between;
    if (stage->calls)
      tagc_say("  sparsity %s from cycle %" PRIu32 " on: %" PRIu64 " calls compressed, %s each",
               tagc_fraction_text(schedule->ppm[i], fraction), schedule->from[i], stage->calls,
               tagc_units_bytes(wire / stage->calls, bytes));
  }
}

/* The same for programs. */
static void print_stage_totals(const struct tagc_ledger *ledger) {
  const struct tagc_schedule *schedule = &tagc_library_options()->sparsity;
  char fraction[24];
  for (uint32_t i = 0; i < schedule->count && schedule->count > 1; i++)
    tagc_say("tagc-stage: sparsity=%s from=%" PRIu32 " compressed=%" PRIu64 " wire_bytes=%" PRIu64
             " between_bytes=%" PRIu64,
             tagc_fraction_text(schedule->ppm[i], fraction), schedule->from[i], ledger->stages[i].calls,
             ledger->stages[i].sent.inside + ledger->stages[i].sent.between, ledger->stages[i].sent.between);
}

const char *tagc_report_hidden(const struct tagc_ledger_times *times, char text[24]) {
  const double hidden_ms = times->hidden_ms, coding_ms = times->encode_ms + times->decode_ms;
  *text = '\0';
  if (hidden_ms > 0 && coding_ms > 0)
    snprintf(text, 24, ", hidden %.0f%%", 100 * (hidden_ms < coding_ms ? hidden_ms / coding_ms : 1));
  return text;
}

static void print_ledger(const struct tagc_ledger *ledger) {
  char hidden[24];
  const struct tagc_ledger_times *times = &ledger->times;
  struct tagc_ledger_row total = tagc_report_total(ledger);
  const bool has_slots = total.calls || !ledger->broadcasts || !ledger->broadcasts->calls;
  if (has_slots)
    tagc_say("tagc: communicator %" PRIu64 " of %d ranks: %" PRIu64 " of %" PRIu64 " %s compressed (%s), %" PRIu64
             " other collectives passed through",
             ledger->number, ledger->nranks, total.compressed, total.calls, tagc_ledger_slots_words(ledger),
             ledger->codec, ledger->other_calls);
  else
    tagc_say("tagc: communicator %" PRIu64 " of %d ranks: broadcasts, and %" PRIu64 " other collectives passed through",
             ledger->number, ledger->nranks, ledger->other_calls);
  if (ledger->allgathers_left) {
    char left[16];
    const struct tagc_traffic *sent = &ledger->allgathers_left_sent;
    tagc_say("  %" PRIu64
             " of these were all-gathers of parameters: %s a rank: %s. TAGC_ALLGATHER=exact sends what has "
             "changed, q8 a quarter of fp32, half of 16 bits",
             ledger->allgathers_left, tagc_units_bytes(sent->inside + sent->between, left),
             tagc_reason_words(ledger->allgathers_left_reason));
  }
  if (ledger->unknown && *ledger->unknown)
    tagc_say("  not fully seen: calls of some functions of its NCCL go past this library: %s", ledger->unknown);
  if (ledger->device_comm)
    tagc_say("  not fully seen: kernels of the program send on it, too (ncclDevCommCreate)");
  if (ledger->taken_for)
    tagc_say("  taken for %s", ledger->taken_for);
  if (*ledger->layers)
    tagc_say("  layers: %s", ledger->layers);
  if (*ledger->or_layers)
    tagc_say("      or: %s", ledger->or_layers);
  print_hosts(ledger, total.compressed > 0);
  if (has_slots)
    tagc_report_tables(ledger, &total);
  for (int reason = 0; reason < TAGC_REASON_COUNT; reason++)
    if (ledger->reasons[reason] && reason != TAGC_REASON_compressed)
      tagc_say("  %7" PRIu64 " not compressed: %s%s%s", ledger->reasons[reason],
               tagc_reason_words((enum tagc_reason)reason), *tagc_reason_advice((enum tagc_reason)reason) ? ": " : "",
               tagc_reason_advice((enum tagc_reason)reason));
  if (total.residuals_dropped)
    tagc_say("  %7" PRIu64 " residuals dropped: a disturbed cycle, a step with NaN or Inf, or a failed call",
             total.residuals_dropped);
  if (total.stats.overflowed)
    tagc_say("  %7" PRIu64 " shards came out NaN: more values that are not finite, or 2^120 and more, than fit",
             total.stats.overflowed);
  if (total.stats.lost)
    tagc_say("  %7" PRIu64 " values lost: too small for their codec (below 2^-106 or less), and no residual keeps them",
             total.stats.lost);
  uint64_t cycles = ledger->cycles_compressed ? ledger->cycles_compressed : 1;
  if (total.compressed)
    tagc_say("  a compressed cycle: encode %.2f ms, exchange %.2f ms, decode %.2f ms%s; %" PRIu64
             " cycles compressed, %" PRIu64 " plain",
             of_all_calls(times->encode_ms, times, total.compressed) / (double)cycles,
             of_all_calls(times->exchange_ms, times, total.compressed) / (double)cycles,
             of_all_calls(times->decode_ms, times, total.compressed) / (double)cycles,
             tagc_report_hidden(times, hidden), ledger->cycles_compressed, ledger->cycles_plain);
  print_stages(ledger);
  tagc_report_allgathers(ledger);
  tagc_report_broadcasts(ledger);
  struct tagc_ab_figures ab = {.outcome = TAGC_AB_NONE};
  if (ledger->ab)
    tagc_ab_figures(ledger->ab, &ab);
  print_ab(&ab);
  tagc_retune_report(ledger->retune);
  print_total(ledger, &total);
  if (total.compressed)
    print_stage_totals(ledger);
  if (ledger->ab) {
    print_sides(ledger);
    print_verdict(&ab);
  }
}

static void print_all(const struct tagc_ledgers *ledgers) {
  const bool always = tagc_library_options()->report == TAGC_REPORT_ALWAYS;
  for (const struct tagc_ledger *l = ledgers->first; l; l = l->next) {
    if (l->rank != 0 || l->nranks < 2)
      continue;
    if (always || tagc_report_any(l))
      print_ledger(l);
    else
      tagc_report_passed(l);
  }
  tagc_report_gone(&ledgers->gone);
  tagc_report_nothing(ledgers);
}

void tagc_report_print(const struct tagc_ledgers *ledgers) {
  const struct tagc_numbers numbers = tagc_numbers_begin();
  const tagc_fpmode mode = tagc_fpmode_enter();
  print_all(ledgers);
  tagc_fpmode_leave(mode);
  tagc_numbers_end(&numbers);
}
