/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report for people: five lines for readers in a hurry, then the problems, then everything.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "env/append.h"
#include "interpose/tagc-report/judge/codecs.h"
#include "interpose/tagc-report/read/format.h"
#include "interpose/tagc-report/read/merge.h"
#include "interpose/tagc-report/show/report.h"
#include "interpose/tagc-report/show/text.h"

enum { HOSTS_SHOWN = 64 };

static void head(FILE *to, const char *title) { fprintf(to, "\n%s\n", title); }

/* -- at a glance --------------------------------------------------------------------------------------------------- */

struct extent {
  double seconds, step_ms, sent, sent_between; /* the last ones: per rank and whole step */
  size_t hosts;
  uint64_t calls, whole;
};

static struct extent measure_extent(const struct tagc_summary *s) {
  struct extent e = {.hosts = tagc_sum_hosts(s)};
  double ns = 0, sent = 0, between = 0;
  for (size_t i = 0; i < s->rank_count; i++) {
    const struct tagc_sum_rank *r = &s->ranks[i];
    e.seconds = fmax(e.seconds, (double)(r->last_ns - r->first_ns) / 1e9);
    e.calls += r->calls.calls;
    for (size_t j = 0; j < r->step_count; j++)
      if (r->steps[j].whole) {
        e.whole++;
        ns += (double)r->steps[j].ns;
        between += (double)r->steps[j].sent.between;
        sent += (double)tagc_sent_all(&r->steps[j].sent);
      }
  }
  double n = (double)e.whole;
  e.step_ms = ns / n / 1e6;
  e.sent = sent / n;
  e.sent_between = between / n;
  return e;
}

/* The three functions that send most, and their plain bytes. */
static void biggest(const struct tagc_summary *s, char *text, size_t size) {
  struct tagc_sum_sent of[256] = {{0}}; /* inside: sent; between: plain */
  double all = 0;
  for (size_t i = 0; i < s->comm_count; i++)
    for (size_t j = 0; j < s->comms[i].line_count; j++) {
      const struct tagc_sum_line *l = &s->comms[i].lines[j];
      of[l->function % 256].inside += tagc_sent_all(&l->calls.sent);
      of[l->function % 256].between +=
        l->calls.compressed ? tagc_sent_all(&l->calls.plain) : tagc_sent_all(&l->calls.sent);
      all += (double)tagc_sent_all(&l->calls.sent);
    }
  *text = '\0';
  for (int round = 0; round < 3 && all > 0; round++) {
    unsigned best = 0;
    for (unsigned i = 1; i < 256; i++)
      best = of[i].inside > of[best].inside ? i : best;
    if (!of[best].inside)
      break;
    const double sent = (double)of[best].inside, plain = (double)of[best].between;
    char bytes[16], instead[16];
    tagc_append(text, size, "%s%s %.0f%% (%s", round ? ", " : "", tagc_sum_function(s, (uint16_t)best),
                100.0 * sent / all, tagc_format_bytes(sent, bytes));
    tagc_append(text, size, sent < 0.999 * plain ? ", plain %s)" : ")", tagc_format_bytes(plain, instead));
    of[best].inside = 0;
  }
}

/* The most frequent reason why reduce-scatters stayed plain, and how many had a reason. */
static uint64_t main_reason(const struct tagc_summary *s, const char **reason) {
  uint64_t most = 0, sums[256] = {0};
  *reason = NULL;
  for (size_t i = 0; i < s->comm_count; i++)
    for (unsigned j = 0; j < 256; j++)
      sums[j] += s->comms[i].reasons[j];
  for (unsigned j = 0; j < 256; j++)
    if (sums[j] > most && strcmp(tagc_sum_name(s, TAGC_TRACE_REASONS, (uint16_t)j), "compressed") != 0) {
      most = sums[j];
      *reason = tagc_sum_name(s, TAGC_TRACE_REASONS, (uint16_t)j);
    }
  return most;
}

static void print_effect(FILE *to, const struct tagc_report *r) {
  struct tagc_sum_calls all = {0};
  const char *reason;
  char network[80] = "", hidden[80] = "";
  main_reason(r->summary, &reason);
  for (size_t i = 0; i < r->summary->rank_count; i++)
    tagc_sum_add_calls(&all, &r->summary->ranks[i].calls);
  double sent = (double)tagc_sent_all(&all.sent), plain = (double)tagc_sent_all(&all.plain);
  if (plain > 0)
    snprintf(network, sizeof network, "; the network carried %.1f%% of what it would have without", 100 * sent / plain);
  if (all.hidden_ns)
    snprintf(hidden, sizeof hidden, "; %.0f%% of encoding and decoding is hidden", 100 * tagc_hidden_share(&all));
  if (r->ab.figures.outcome != TAGC_AB_NONE)
    tagc_text_labelled(to, "TAGC", "%s", r->ab.words);
  else if (all.compressed)
    tagc_text_labelled(to, "TAGC",
                       "%" PRIu64 " calls were compressed%s%s; whether steps are faster for it only TAGC_MODE=ab tells",
                       all.compressed, network, hidden);
  else
    tagc_text_labelled(to, "TAGC", "nothing was compressed%s%s", reason ? ": " : "", reason ? reason : "");
}

static void print_glance(FILE *to, const struct tagc_report *r) {
  const struct tagc_summary *s = r->summary;
  const struct extent e = measure_extent(s);
  char a[16], b[16], text[500], steps[128] = "";
  if (e.whole)
    snprintf(steps, sizeof steps, "; %" PRIu64 " whole steps a rank of %.*f ms", e.whole / s->rank_count,
             e.step_ms < 10 ? 2 : 1, e.step_ms);
  tagc_text_labelled(to, "traced", "%s: %zu rank%s on %zu host%s, %" PRIu64 " calls in %.1f s%s",
                     *s->ranks[0].program ? s->ranks[0].program : "?", s->rank_count, tagc_text_plural(s->rank_count),
                     e.hosts, tagc_text_plural(e.hosts), e.calls, e.seconds, steps);
  if (e.whole) {
    snprintf(text, sizeof text, "a rank sends %s a step, %s of it to other hosts", tagc_format_bytes(e.sent, a),
             tagc_format_bytes(e.sent_between, b));
    tagc_append(text, sizeof text, ". %s", r->stragglers.words);
  } else
    snprintf(text, sizeof text, "no step was found that repeats itself: numbers are of the whole run");
  tagc_text_labelled(to, "network", "%s", text);
  biggest(s, text, sizeof text);
  tagc_text_labelled(to, "sent by", "%s", *text ? text : "nobody: there were no calls that send");
  print_effect(to, r);
  if (s->problem_count)
    tagc_text_labelled(to, "problems", "%zu, see below", s->problem_count);
  else
    tagc_text_labelled(to, "problems", "none");
}

/* -- the job ------------------------------------------------------------------------------------------------------- */

static void put_option_word(void *to, const char *name, const char *value) {
  fprintf(to, "%s%s=%s", ftello(to) ? " " : "", name, value);
}

static void put_option_list(FILE *to, const struct tagc_summary *s) {
  tagc_report_options(&s->ranks[0], put_option_word, to);
  if (!ftello(to))
    fputs("all at their defaults", to);
}

static void nccl_version(uint32_t v, char text[32]) {
  if (!v)
    snprintf(text, 32, "of a version not known");
  else
    snprintf(text, 32, "%" PRIu32 ".%" PRIu32 ".%" PRIu32, v / 10000, v / 100 % 100, v % 100);
}

/* "ranks 0-3, 8": the ranks of a host. */
static void put_ranks(FILE *to, const struct tagc_summary *s, size_t host) {
  size_t n = 0, end;
  for (size_t i = host; i < s->rank_count; i++)
    n += s->ranks[i].host_index == host;
  fprintf(to, "rank%s", tagc_text_plural(n));
  for (size_t i = host, parts = 0; i < s->rank_count; i = end + 1) {
    end = i;
    if (s->ranks[i].host_index != host)
      continue;
    while (end + 1 < s->rank_count && s->ranks[end + 1].host_index == host &&
           s->ranks[end + 1].number == s->ranks[end].number + 1)
      end++;
    fprintf(to, "%s%d", parts++ ? ", " : " ", s->ranks[i].number);
    if (end > i)
      fprintf(to, "-%d", s->ranks[end].number);
  }
}

/* The first hosts, and how many more there are: the JSON has all. */
static void put_hosts(FILE *to, const struct tagc_summary *s) {
  size_t count = 0;
  for (size_t i = 0; i < s->rank_count; i++) {
    if (s->ranks[i].host_index != i || count++ >= HOSTS_SHOWN)
      continue;
    fprintf(to, "%s%s (", count > 1 ? ", " : "", *s->ranks[i].host ? s->ranks[i].host : "?");
    put_ranks(to, s, i);
    fputc(')', to);
  }
  if (count > HOSTS_SHOWN)
    fprintf(to, ", and %zu more", count - HOSTS_SHOWN);
}

/* Prints what `put` writes, of any length. */
static void labelled_list(FILE *to, const char *label, const struct tagc_summary *s,
                          void (*put)(FILE *, const struct tagc_summary *)) {
  char *text = NULL;
  size_t size;
  FILE *memory = open_memstream(&text, &size);
  if (memory) {
    put(memory, s);
    if (fclose(memory) == 0)
      tagc_text_labelled(to, label, "%s", text);
  }
  free(text);
}

static void print_job(FILE *to, const struct tagc_summary *s) {
  const struct tagc_sum_rank *first = &s->ranks[0];
  char version[32];
  head(to, "Job");
  nccl_version(first->nccl_version, version);
  tagc_text_labelled(to, "program", "%s, with NCCL %s, library %s", *first->program ? first->program : "?", version,
                     *first->version ? first->version : "of a version not known");
  labelled_list(to, "hosts", s, put_hosts);
  labelled_list(to, "options", s, put_option_list);
}

void tagc_report_print(const struct tagc_report *r, FILE *to) {
  const struct tagc_summary *s = r->summary;
  if (s->rank_count) {
    print_glance(to, r);
    if (s->problem_count)
      fputc('\n', to);
  }
  for (size_t i = 0; i < s->problem_count; i++)
    tagc_text_labelled(to, i ? "" : "problems", "%s", s->problems[i]);
  if (!s->rank_count)
    return;
  print_job(to, s);
  tagc_text_comms(to, s);
  tagc_codecs_print(to, s);
  if (r->ab.figures.outcome != TAGC_AB_NONE)
    fputc('\n', to);
  tagc_ab_print(to, &r->ab);
  fputc('\n', to);
  tagc_stragglers_print(to, s, &r->stragglers);
  fputc('\n', to);
  tagc_volume_print(to, s, r->checks, r->check_count);
  if (r->advice.count)
    head(to, "What could still be saved");
  for (size_t i = 0; i < r->advice.count; i++)
    tagc_format_print(to, 2, r->advice.text[i]);
}
