/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report --characterise: tables of what a job communicates.
 */
#include <math.h>
#include <string.h>

#include "interpose/tagc-report/judge/characterise.h"
#include "interpose/tagc-report/judge/volume.h"
#include "interpose/tagc-report/read/format.h"
#include "interpose/tagc-report/show/report.h"
#include "interpose/tagc-report/show/text.h"

/* "2.5%"; "-" for NaN. */
static const char *share_words(double part, double all, char text[24]) {
  if (!(all > 0))
    return "-";
  snprintf(text, 24, "%.1f%%", 100 * part / all);
  return text;
}

static void print_share(FILE *to, const char *name, const struct tagc_traits *traits,
                        const struct tagc_traits_share *share) {
  char ranks[32], calls[24], raw[16], plain[16], sent[16], a[24], b[24];
  const double each = traits->each;
  snprintf(ranks, sizeof ranks, share->least_ranks < share->most_ranks ? "%d-%d" : "%d", share->least_ranks,
           share->most_ranks);
  fprintf(to, "  %-43s %5zu %7s %9s %10s %10s %10s %6s %6s\n", name, share->comms, ranks,
          tagc_text_real(share->calls / each, 1, calls), tagc_format_bytes(share->raw_bytes / each, raw),
          tagc_format_bytes(share->plain_bytes / each, plain), tagc_format_bytes(share->sent_bytes / each, sent),
          share_words(share->plain_bytes, traits->all.plain_bytes, a), share_words(share->calls, traits->all.calls, b));
}

static void print_shares(FILE *to, const struct tagc_traits *traits) {
  fprintf(to, "\nBy kind of parallelism\n  %-43s %5s %7s %9s %10s %10s %10s %6s %6s\n", "kind", "comms", "ranks",
          "calls", "buffers", "plain", "sent", "bytes", "calls");
  for (int role = 0; role < TAGC_ROLES; role++)
    if (traits->of[role].calls > 0)
      print_share(to, tagc_role_words((enum tagc_sum_role)role), traits, &traits->of[role]);
  print_share(to, "all", traits, &traits->all);
}

/* -- frequency and volume ------------------------------------------------------------------------------------------ */

static const char *short_role(enum tagc_sum_role role) {
  static const char *const words[TAGC_ROLES] = {
    [TAGC_ROLE_UNKNOWN] = "unknown",   [TAGC_ROLE_SHARDED] = "FSDP, ZeRO-3", [TAGC_ROLE_OPTIMIZER] = "ZeRO-1, 2",
    [TAGC_ROLE_DATA] = "data",         [TAGC_ROLE_TENSOR] = "tensor",        [TAGC_ROLE_SEQUENCE] = "tensor, sequence",
    [TAGC_ROLE_PIPELINE] = "pipeline", [TAGC_ROLE_EXPERT] = "expert",        [TAGC_ROLE_CONTROL] = "small calls",
    [TAGC_ROLE_IDLE] = "idle",         [TAGC_ROLE_CONTEXT] = "context"};
  return words[role];
}

static void print_calls_row(FILE *to, const struct tagc_summary *s, const struct tagc_traits *traits,
                            const struct tagc_traits_row *row) {
  char calls[24], least[16], mean[16], most[16], raw[16], plain[16], a[24];
  fprintf(to, "  %-16s %5d %-14.14s %9s %10s %10s %10s %10s %10s %6s\n", short_role(row->role), row->nranks,
          tagc_sum_function(s, row->function), tagc_text_real(row->calls / traits->each, 1, calls),
          tagc_format_bytes(row->least, least), tagc_format_bytes(tagc_traits_mean(row), mean),
          tagc_format_bytes(row->most, most), tagc_format_bytes(row->raw_bytes / traits->each, raw),
          tagc_format_bytes(row->plain_bytes / traits->each, plain),
          share_words(row->plain_bytes, traits->all.plain_bytes, a));
}

static void print_calls(FILE *to, const struct tagc_summary *s, const struct tagc_traits *traits) {
  fprintf(to, "\nCalls: frequency, messages, volume\n  %-16s %5s %-14s %9s %10s %10s %10s %10s %10s %6s\n", "kind",
          "ranks", "call", "calls", "least", "mean", "most", "buffers", "plain", "bytes");
  for (size_t i = 0; i < traits->calls.count; i++)
    print_calls_row(to, s, traits, &traits->calls.rows[i]);
}

/* -- sizes --------------------------------------------------------------------------------------------------------- */

static void print_sizes(FILE *to, const struct tagc_traits *traits) {
  char class[24], calls[24], a[24], b[24], c[24], d[24];
  double before = 0, bytes_before = 0, main_share;
  const double bytes = traits->all.plain_bytes;
  fprintf(to, "\nSizes of messages\n  %-13s %9s %8s %8s %8s %8s  %s\n", "size", "calls", "calls", "up to", "bytes",
          "up to", "most calls");
  for (size_t i = 0; i < traits->sizes.count; i++) {
    const struct tagc_traits_row *size = &traits->sizes.rows[i];
    const enum tagc_sum_role role = tagc_traits_main_role(traits, size, &main_share);
    before += size->calls;
    bytes_before += size->plain_bytes;
    fprintf(to, "  %-13s %9s %8s %8s %8s %8s  %s %.0f%%\n",
            size->size_class < 0 ? "unknown, none" : tagc_text_class(size->size_class, class),
            tagc_text_real(size->calls / traits->each, 1, calls), share_words(size->calls, traits->all.calls, a),
            share_words(before, traits->all.calls, b), share_words(size->plain_bytes, bytes, c),
            share_words(bytes_before, bytes, d), short_role(role), 100 * main_share);
  }
}

/* -- times --------------------------------------------------------------------------------------------------------- */

static void print_times_row(FILE *to, const struct tagc_summary *s, const struct tagc_traits_row *row, bool packed) {
  const struct tagc_call_times *times = packed ? &row->packed : &row->plain;
  const double calls = (double)times->calls, algbw = times->bytes / times->ns;
  char count[32], size[16], a[24], b[24], c[24];
  if (!times->calls || !(times->ns > 0))
    return;
  fprintf(to, "  %-14.14s %5d %10s %-10s %11s %12s %9s %9s  %s%s\n", tagc_sum_function(s, row->function), row->nranks,
          tagc_format_bytes(times->bytes / calls, size), packed ? "compressed" : "plain",
          tagc_format_count(calls, count), tagc_text_real(times->ns / calls / 1e3, 1, a), tagc_text_real(algbw, 3, b),
          tagc_text_real(algbw * tagc_busbw_factor(s, row->function, row->nranks), 3, c),
          tagc_traits_small(times->bytes / calls) ? "small" : "", row->by_thread && !packed ? "*" : "");
}

static void print_times(FILE *to, const struct tagc_summary *s, const struct tagc_traits *traits) {
  fputs("\nLatency and bandwidth, by size\n", to);
  if (!traits->times.count) {
    tagc_format_print(
      to, 2,
      "The traces have no times of transfers: calls on GPUs have them where they are slots, and all if NCCL's "
      "profiler saw them (TAGC_PROFILER): messages between two ranks, too.");
    return;
  }
  fprintf(to, "  %-14s %5s %10s %-10s %11s %12s %9s %9s\n", "call", "ranks", "size", "", "calls", "time, us",
          "algbw GB/s", "busbw");
  for (size_t i = 0; i < traits->times.count; i++) {
    print_times_row(to, s, &traits->times.rows[i], false);
    print_times_row(to, s, &traits->times.rows[i], true);
  }
  tagc_format_print(
    to, 2,
    "Sizes, algbw and busbw are those of nccl-tests; 1 GB is 1e9 bytes. A time is the mean over "
    "ranks and calls, with the wait for the last rank. small: below 64 KiB, the time is latency. *: the "
    "program's thread was so long in the call.");
}

static void print_untimed(FILE *to, const struct tagc_traits *traits) {
  char count[32], text[400];
  snprintf(text, sizeof text, "%s messages between two ranks have no time: %s",
           tagc_format_count(traits->untimed, count),
           traits->blocking
             ? "they are in groups with other calls, whose end has one time for all of them."
             : "on a GPU their calls, and the end of their group, return before they are done. NCCL's profiler sees "
               "them (TAGC_PROFILER).");
  tagc_format_print(to, 2, text);
}

static void print_groups(FILE *to, const struct tagc_traits *traits) {
  char count[32], size[16], a[24], b[24];
  if (traits->group_count)
    fprintf(to, "\nGroups of messages between two ranks\n  %-16s %5s %6s %8s %10s %11s %12s %12s\n", "kind", "ranks",
            "sends", "receives", "together", "groups", "time, us", "shortest");
  for (size_t i = 0; i < traits->group_count; i++) {
    const struct tagc_traits_group *group = &traits->groups[i];
    const struct tagc_group_times *times = &group->sum.all;
    const double groups = (double)times->groups, bytes = (double)times->bytes / groups;
    fprintf(to, "  %-16s %5d %6u %8u %10s %11s %12s %12s%s\n", short_role(group->role), group->nranks, group->sum.sends,
            group->sum.receives, tagc_format_bytes(bytes, size), tagc_format_count(groups, count),
            tagc_text_real((double)times->ns / groups / 1e3, 1, a), tagc_text_real((double)times->least_ns / 1e3, 1, b),
            tagc_traits_small(bytes / ((double)group->sum.sends + (double)group->sum.receives)) ? "  small" : "");
  }
  if (traits->group_count)
    tagc_format_print(
      to, 2,
      "The time is that of ncclGroupEnd, which returns when all messages of the group are done: the mean, and the "
      "shortest one. A message of a group has no time of its own.");
  if (traits->untimed >= 1)
    print_untimed(to, traits);
}

void tagc_report_characterise(const struct tagc_report *r, FILE *to) {
  const struct tagc_traits *traits = &r->traits;
  char count[32];
  for (size_t i = 0; i < r->summary->problem_count; i++)
    tagc_text_labelled(to, i ? "" : "problems", "%s", r->summary->problems[i]);
  tagc_format_print(to, 0,
                    traits->steps ? "Calls and bytes are those of one rank in a whole step: means over all ranks."
                                  : "No step is whole: calls and bytes are those of one rank in the whole run.");
  if (traits->outside)
    fprintf(to, "%s calls of all ranks are outside of whole steps, and in no table.\n",
            tagc_format_count((double)traits->outside, count));
  tagc_format_print(to, 0,
                    "buffers: as passed to the calls. plain: sent by NCCL's algorithms without compression. sent: "
                    "what was sent. A message is a buffer as nccl-tests count it.");
  print_shares(to, traits);
  print_calls(to, r->summary, traits);
  print_sizes(to, traits);
  print_times(to, r->summary, traits);
  print_groups(to, traits);
}
