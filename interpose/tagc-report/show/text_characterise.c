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

/* Messages below this are small: their time is latency. */
static const double SMALL_MESSAGE = 65536;

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

/* -- rows added up ------------------------------------------------------------------------------------------------- */

static void add_row(struct tagc_traits_row *sum, const struct tagc_traits_row *row) {
  sum->calls += row->calls;
  sum->raw_bytes += row->raw_bytes;
  sum->plain_bytes += row->plain_bytes;
  sum->sent_bytes += row->sent_bytes;
  sum->sized_calls += row->sized_calls;
  sum->message_bytes += row->message_bytes;
  sum->least = fmin(sum->least, row->least);
  sum->most = fmax(sum->most, row->most);
  sum->plain.calls += row->plain.calls;
  sum->plain.bytes += row->plain.bytes;
  sum->plain.ns += row->plain.ns;
  sum->packed.calls += row->packed.calls;
  sum->packed.bytes += row->packed.bytes;
  sum->packed.ns += row->packed.ns;
  sum->by_thread |= row->by_thread;
}

static const struct tagc_traits_row nothing = {.least = INFINITY};

/* "64.0 KiB", or "-" where no size is known. */
static const char *mean_words(const struct tagc_traits_row *row, char text[16]) {
  return tagc_format_bytes(row->sized_calls > 0 ? row->message_bytes / row->sized_calls : NAN, text);
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
          tagc_format_bytes(row->least, least), mean_words(row, mean), tagc_format_bytes(row->most, most),
          tagc_format_bytes(row->raw_bytes / traits->each, raw),
          tagc_format_bytes(row->plain_bytes / traits->each, plain),
          share_words(row->plain_bytes, traits->all.plain_bytes, a));
}

static void print_calls(FILE *to, const struct tagc_summary *s, const struct tagc_traits *traits) {
  fprintf(to, "\nCalls: frequency, messages, volume\n  %-16s %5s %-14s %9s %10s %10s %10s %10s %10s %6s\n", "kind",
          "ranks", "call", "calls", "least", "mean", "most", "buffers", "plain", "bytes");
  for (size_t i = 0; i < traits->count;) {
    const struct tagc_traits_row *first = &traits->rows[i];
    struct tagc_traits_row sum = nothing;
    sum.role = first->role;
    sum.nranks = first->nranks;
    sum.function = first->function;
    for (; i < traits->count && traits->rows[i].role == first->role && traits->rows[i].nranks == first->nranks &&
           traits->rows[i].function == first->function;
         i++)
      add_row(&sum, &traits->rows[i]);
    print_calls_row(to, s, traits, &sum);
  }
}

/* -- sizes --------------------------------------------------------------------------------------------------------- */

/* The kind of parallelism with most of the calls of a size, and its share of them. */
static const char *main_kind(const struct tagc_traits *traits, int size_class, double calls, char text[48]) {
  double of[TAGC_ROLES] = {0};
  int best = 0;
  for (size_t i = 0; i < traits->count; i++)
    if (traits->rows[i].size_class == size_class)
      of[traits->rows[i].role] += traits->rows[i].calls;
  for (int role = 0; role < TAGC_ROLES; role++)
    best = of[role] > of[best] ? role : best;
  snprintf(text, 48, "%s %.0f%%", short_role((enum tagc_sum_role)best), 100 * of[best] / calls);
  return text;
}

static void print_sizes(FILE *to, const struct tagc_traits *traits) {
  char class[24], calls[24], a[24], b[24], c[24], d[24], kind[48];
  double before = 0, bytes_before = 0, bytes = 0;
  for (size_t i = 0; i < traits->count; i++)
    bytes += traits->rows[i].plain_bytes;
  fprintf(to, "\nSizes of messages\n  %-13s %9s %8s %8s %8s %8s  %s\n", "size", "calls", "calls", "up to", "bytes",
          "up to", "most calls");
  for (int size_class = -1; size_class < 64; size_class++) {
    struct tagc_traits_row sum = nothing;
    for (size_t i = 0; i < traits->count; i++)
      if (traits->rows[i].size_class == size_class)
        add_row(&sum, &traits->rows[i]);
    if (!(sum.calls > 0))
      continue;
    before += sum.calls;
    bytes_before += sum.plain_bytes;
    fprintf(to, "  %-13s %9s %8s %8s %8s %8s  %s\n",
            size_class < 0 ? "unknown, none" : tagc_text_class(size_class, class),
            tagc_text_real(sum.calls / traits->each, 1, calls), share_words(sum.calls, traits->all.calls, a),
            share_words(before, traits->all.calls, b), share_words(sum.plain_bytes, bytes, c),
            share_words(bytes_before, bytes, d), main_kind(traits, size_class, sum.calls, kind));
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
          times->bytes / calls < SMALL_MESSAGE ? "small" : "", row->by_thread && !packed ? "*" : "");
}

/* Rows of one function, number of ranks and size class, whatever their role, stand in their first one. */
static bool is_first(const struct tagc_traits *traits, size_t at) {
  const struct tagc_traits_row *row = &traits->rows[at];
  for (size_t i = 0; i < at; i++)
    if (traits->rows[i].function == row->function && traits->rows[i].nranks == row->nranks &&
        traits->rows[i].size_class == row->size_class)
      return false;
  return true;
}

static void print_times(FILE *to, const struct tagc_summary *s, const struct tagc_traits *traits) {
  uint64_t timed = 0;
  for (size_t i = 0; i < traits->count; i++)
    timed += traits->rows[i].plain.calls + traits->rows[i].packed.calls;
  fputs("\nLatency and bandwidth, by size\n", to);
  if (!timed) {
    tagc_format_print(
      to, 2,
      "The traces have no times of transfers: calls on GPUs have them where they are slots, and all if NCCL's "
      "profiler saw them (TAGC_PROFILER): messages between two ranks, too.");
    return;
  }
  fprintf(to, "  %-14s %5s %10s %-10s %11s %12s %9s %9s\n", "call", "ranks", "size", "", "calls", "time, us",
          "algbw GB/s", "busbw");
  for (size_t i = 0; i < traits->count; i++) {
    struct tagc_traits_row sum = traits->rows[i];
    if (!is_first(traits, i))
      continue;
    for (size_t k = i + 1; k < traits->count; k++)
      if (traits->rows[k].function == sum.function && traits->rows[k].nranks == sum.nranks &&
          traits->rows[k].size_class == sum.size_class)
        add_row(&sum, &traits->rows[k]);
    print_times_row(to, s, &sum, false);
    print_times_row(to, s, &sum, true);
  }
  tagc_format_print(
    to, 2,
    "Sizes, algbw and busbw are those of nccl-tests; 1 GB is 1e9 bytes. A time is the mean over "
    "ranks and calls, with the wait for the last rank. small: below 64 KiB, the time is latency. *: the "
    "program's thread was so long in the call.");
}

bool tagc_report_characterise(const struct tagc_report *r, FILE *to) {
  struct tagc_traits traits;
  char count[32];
  const bool found = tagc_traits_find(r->summary, &traits);
  if (found) {
    for (size_t i = 0; i < r->summary->problem_count; i++)
      tagc_text_labelled(to, i ? "" : "problems", "%s", r->summary->problems[i]);
    tagc_format_print(to, 0,
                      traits.steps ? "Calls and bytes are those of one rank in a whole step: means over all ranks."
                                   : "No step is whole: calls and bytes are those of one rank in the whole run.");
    if (traits.outside) {
      fprintf(to, "%s calls of all ranks are outside of whole steps, and in no table.\n",
              tagc_format_count((double)traits.outside, count));
    }
    tagc_format_print(to, 0,
                      "buffers: as passed to the calls. plain: sent by NCCL's algorithms without compression. sent: "
                      "what was sent. A message is a buffer as nccl-tests count it.");
    print_shares(to, &traits);
    print_calls(to, r->summary, &traits);
    print_sizes(to, &traits);
    print_times(to, r->summary, &traits);
  }
  tagc_traits_free(&traits);
  return found;
}
