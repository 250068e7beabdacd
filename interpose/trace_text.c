/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report for people: five lines for who has no time, then the problems, then all of it.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/trace_report.h"
#include "interpose/trace_steps.h"
#include "interpose/trace_words.h"

enum { LABEL = 14, TEXT = 4096 };

/* A line behind a label; where it is too long it goes on beneath itself. */
__attribute__((format(printf, 3, 4))) static void labelled(FILE *to, const char *label, const char *format, ...)
{
  char text[TEXT], *lines = NULL;
  size_t size = 0;
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  FILE *memory = open_memstream(&lines, &size);
  if (memory) {
    tagc_words_print(memory, LABEL, text);
    if (fclose(memory) == 0 && size > LABEL) {
      memcpy(lines + 2, label, strlen(label) < LABEL - 2 ? strlen(label) : LABEL - 2);
      fputs(lines, to);
    }
  }
  free(lines);
}

static void head(FILE *to, const char *title) { fprintf(to, "\n%s\n", title); }

/* Adds to a text, as far as there is room. */
__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...)
{
  size_t used = strlen(text);
  va_list args;
  va_start(args, format);
  vsnprintf(text + used, size - used, format, args);
  va_end(args);
}

static const char *plural(size_t n) { return n == 1 ? "" : "s"; }

/* -- at a glance --------------------------------------------------------------------------------------------------- */

struct extent {
  double seconds, step_ms, sent, sent_between;   /* the last ones: of a rank in a whole step */
  size_t hosts;
  uint64_t calls, whole;
};

static struct extent measure(const struct tagc_summary *s)
{
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

/* Three functions that send most. */
static void biggest(const struct tagc_summary *s, char *text, size_t size)
{
  uint64_t sent[256] = {0}, all = 0;
  for (size_t i = 0; i < s->comm_count; i++)
    for (size_t j = 0; j < s->comms[i].line_count; j++) {
      const struct tagc_sum_line *l = &s->comms[i].lines[j];
      sent[l->function % 256] += tagc_sent_all(&l->calls.sent);
      all += tagc_sent_all(&l->calls.sent);
    }
  *text = '\0';
  for (int round = 0; round < 3 && all; round++) {
    unsigned best = 0;
    for (unsigned i = 1; i < 256; i++)
      best = sent[i] > sent[best] ? i : best;
    if (!sent[best])
      break;
    char bytes[16];
    append(text, size, "%s%s %.0f%% (%s)", round ? ", " : "", tagc_sum_function(s, (uint16_t)best),
           100.0 * (double)sent[best] / (double)all, tagc_words_bytes((double)sent[best], bytes));
    sent[best] = 0;
  }
}

/* The reason that most reduce-scatters had for staying plain, and how many had one. */
static uint64_t main_reason(const struct tagc_summary *s, const char **reason)
{
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

static void print_effect(FILE *to, const struct tagc_report *r)
{
  struct tagc_sum_calls all = {0};
  const char *reason;
  main_reason(r->summary, &reason);
  for (size_t i = 0; i < r->summary->rank_count; i++) {
    const struct tagc_sum_calls *c = &r->summary->ranks[i].calls;
    all.compressed += c->compressed;
    all.sent.inside += c->sent.inside;
    all.sent.between += c->sent.between;
    all.plain.inside += c->plain.inside;
    all.plain.between += c->plain.between;
  }
  double sent = (double)tagc_sent_all(&all.sent), plain = (double)tagc_sent_all(&all.plain);
  if (r->sides.verdict != TAGC_VERDICT_NONE)
    labelled(to, "TAGC", "%s", r->sides.words);
  else if (all.compressed)
    labelled(to, "TAGC",
             "%" PRIu64
             " calls were compressed; the network carried %.1f%% of what it would have without; whether steps are "
             "faster for it only TAGC_MODE=ab tells",
             all.compressed, 100 * sent / plain);
  else
    labelled(to, "TAGC", "nothing was compressed%s%s", reason ? ": " : "", reason ? reason : "");
}

static void print_glance(FILE *to, const struct tagc_report *r)
{
  const struct tagc_summary *s = r->summary;
  const struct extent e = measure(s);
  char a[16], b[16], text[500], steps[128] = "";
  if (e.whole)
    snprintf(steps, sizeof steps, "; %" PRIu64 " whole steps a rank of %.*f ms", e.whole / s->rank_count,
             e.step_ms < 10 ? 2 : 1, e.step_ms);
  labelled(to, "traced", "%s: %zu rank%s on %zu host%s, %" PRIu64 " calls in %.1f s%s",
           *s->ranks[0].program ? s->ranks[0].program : "?", s->rank_count, plural(s->rank_count), e.hosts,
           plural(e.hosts), e.calls, e.seconds, steps);
  if (e.whole) {
    snprintf(text, sizeof text, "a rank sends %s a step, %s of it to other hosts", tagc_words_bytes(e.sent, a),
             tagc_words_bytes(e.sent_between, b));
    append(text, sizeof text, ". %s", r->pace.words);
  } else
    snprintf(text, sizeof text, "no step was found that repeats itself: numbers are of the whole run");
  labelled(to, "network", "%s", text);
  biggest(s, text, sizeof text);
  labelled(to, "sent by", "%s", *text ? text : "nobody: there were no calls that send");
  print_effect(to, r);
  if (s->problem_count)
    labelled(to, "problems", "%zu, see below", s->problem_count);
  else
    labelled(to, "problems", "none");
}

/* -- the job ------------------------------------------------------------------------------------------------------- */

static void add_option(void *text, const char *name, const char *value)
{
  append(text, TEXT, "%s%s=%s", *(char *)text ? " " : "", name, value);
}

static void nccl_version(uint32_t v, char text[32])
{
  if (!v)
    snprintf(text, 32, "of a version not known");
  else
    snprintf(text, 32, "%" PRIu32 ".%" PRIu32 ".%" PRIu32, v / 10000, v / 100 % 100, v % 100);
}

/* "ranks 0-3, 8": those of a host. */
static void append_ranks(char *text, size_t size, const struct tagc_summary *s, size_t host)
{
  size_t n = 0, end;
  for (size_t i = host; i < s->rank_count; i++)
    n += s->ranks[i].host_index == host;
  append(text, size, "rank%s", plural(n));
  for (size_t i = host, parts = 0; i < s->rank_count; i = end + 1) {
    end = i;
    if (s->ranks[i].host_index != host)
      continue;
    while (end + 1 < s->rank_count && s->ranks[end + 1].host_index == host &&
           s->ranks[end + 1].number == s->ranks[end].number + 1)
      end++;
    append(text, size, end > i ? "%s%d-%d" : "%s%d", parts++ ? ", " : " ", s->ranks[i].number, s->ranks[end].number);
  }
}

static void print_job(FILE *to, const struct tagc_summary *s)
{
  const struct tagc_sum_rank *first = &s->ranks[0];
  char version[32], options[TEXT] = "", hosts[TEXT] = "";
  head(to, "Job");
  nccl_version(first->nccl_version, version);
  labelled(to, "program", "%s, with NCCL %s, library %s", *first->program ? first->program : "?", version,
           *first->version ? first->version : "of a version not known");
  for (size_t i = 0; i < s->rank_count; i++) {
    if (s->ranks[i].host_index != i)
      continue;
    append(hosts, sizeof hosts, "%s%s (", *hosts ? ", " : "", *s->ranks[i].host ? s->ranks[i].host : "?");
    append_ranks(hosts, sizeof hosts, s, i);
    append(hosts, sizeof hosts, ")");
  }
  labelled(to, "hosts", "%s", hosts);
  tagc_report_options(first, add_option, options);
  labelled(to, "options", "%s", *options ? options : "all at their defaults");
}

/* A number with so many digits behind the point; "-" for NaN. */
static const char *real(double number, int digits, char text[24])
{
  if (isnan(number))
    return "-";
  snprintf(text, 24, "%.*f", digits, fmin(number, 1e12));
  return text;
}

/* -- communicators ------------------------------------------------------------------------------------------------- */

/* "1-2 MiB" */
static void class_words(int size_class, char text[24])
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = size_class / 10, low = 1 << (size_class < 0 ? 0 : size_class % 10);
  if (size_class < 0)
    snprintf(text, 24, "-");
  else if (low == 512)
    snprintf(text, 24, "512 %s-1 %s", units[unit], unit < 6 ? units[unit + 1] : "ZiB");
  else
    snprintf(text, 24, "%d-%d %s", low, 2 * low, units[unit]);
}

static void print_lines(FILE *to, const struct tagc_summary *s, const struct tagc_sum_comm *c)
{
  char count[32], class[24], a[16], b[16], d[16], x[24], y[24];
  double steps = c->whole_steps ? (double)c->whole_steps : NAN;
  fprintf(to, "  %-20s %-9s %-6s %-13s %11s %8s %11s %11s %11s %9s\n", "call", "type", "sum", "buffer", "calls",
          "a step", "buffers", "sent", "sent/step", "ms/step");
  for (size_t i = 0; i < c->line_count; i++) {
    const struct tagc_sum_line *l = &c->lines[i];
    const char *type = l->calls.raw_bytes ? tagc_sum_name(s, TAGC_TRACE_TYPES, l->type) : "-",
               *op = tagc_sum_name(s, TAGC_TRACE_OPS, l->op);
    bool reduces = strstr(tagc_sum_function(s, l->function), "educe") != NULL;
    class_words(l->size_class, class);
    fprintf(to, "  %-20.20s %-9.9s %-6.6s %-13s %11s", tagc_sum_function(s, l->function), type, reduces ? op : "-", class,
            tagc_words_count((double)l->calls.calls, count));
    fprintf(to, " %8s %11s %11s %11s %9s\n", real(l->per_step, 1, x), tagc_words_bytes((double)l->calls.raw_bytes, a),
            tagc_words_bytes((double)tagc_sent_all(&l->calls.sent), b),
            tagc_words_bytes((double)tagc_sent_all(&l->whole.sent) / steps, d),
            real((double)l->whole.host_ns / steps / 1e6, 2, y));
  }
}

static bool alike(const struct tagc_sum_slot *a, const struct tagc_sum_slot *b)
{
  return a->lock == b->lock && a->kind == b->kind && a->parts_known == b->parts_known && a->count == b->count &&
         a->type == b->type && a->reason == b->reason && a->voted == b->voted && strcmp(a->codec, b->codec) == 0;
}

/* A mean of calls, in ms. */
static const char *mean_ms(uint64_t ns, uint64_t calls, char text[24])
{
  return real(calls ? (double)ns / (double)calls / 1e6 : NAN, 3, text);
}

static void print_slot_row(FILE *to, const struct tagc_summary *s, const struct tagc_sum_slot *first, size_t n,
                           bool between)
{
  struct tagc_sum_calls sum = {0};
  char name[64], count[32], a[16], b[16], d[16], v[24], x[24], y[24], z[24];
  snprintf(name, sizeof name, n > 1 ? "%s to %s" : "%s", *first->name ? first->name : "?", first[n - 1].name);
  for (size_t i = 0; i < n; i++) {
    sum.calls += first[i].calls.calls;
    sum.compressed += first[i].calls.compressed;
    sum.raw_bytes += first[i].calls.raw_bytes;
    sum.wire_calls += first[i].calls.wire_calls;
    sum.wire_ns += first[i].calls.wire_ns;
    sum.encode_ns += first[i].calls.encode_ns;
    sum.decode_ns += first[i].calls.decode_ns;
    sum.packed_wire_calls += first[i].calls.packed_wire_calls;
    sum.packed_wire_ns += first[i].calls.packed_wire_ns;
    sum.sent.between += between ? first[i].calls.sent.between : tagc_sent_all(&first[i].calls.sent);
    sum.plain.between += between ? first[i].calls.plain.between : tagc_sent_all(&first[i].calls.plain);
  }
  /* Other calls send what plain ones do: whatever is saved, compressed ones have saved. */
  const double plain = (double)sum.plain.between;
  const double ratio = 1 - (plain - (double)sum.sent.between) * (double)sum.calls / (plain * (double)sum.compressed);
  fprintf(to, "  %-22.22s %-5s %3zu %-6.6s %9s %10s %10s %10s", name, first->parts_known ? tagc_sum_kind(first->kind) : "?", n,
          *first->codec ? first->codec : "-", tagc_words_count((double)sum.calls, count),
          tagc_words_bytes((double)sum.raw_bytes, a),
          tagc_words_bytes(plain, b), tagc_words_bytes((double)sum.sent.between, d));
  const bool packed = sum.packed_wire_calls > 0;
  fprintf(to, " %6s %7s %7s %7s\n", real(plain > 0 && sum.compressed ? ratio : NAN, 3, v),
          mean_ms(sum.encode_ns, sum.packed_wire_calls, x),
          mean_ms(packed ? sum.packed_wire_ns : sum.wire_ns, packed ? sum.packed_wire_calls : sum.wire_calls, y),
          mean_ms(sum.decode_ns, sum.packed_wire_calls, z));
  if (first->voted && sum.compressed < sum.calls && !*first->codec)
    tagc_words_print(to, 4, tagc_sum_name(s, TAGC_TRACE_REASONS, first->reason));
}

static void print_slots(FILE *to, const struct tagc_summary *s, const struct tagc_sum_comm *c)
{
  size_t first = c->slot_count;
  while (first > 0 && c->slots[first - 1].lock == c->slots[c->slot_count - 1].lock)
    first--;
  if (!c->slot_count)
    return;
  if (tagc_sum_layers_known(c))
    labelled(to, "layers", "%s (%u%% sure%s)%s%s", c->layers, c->confidence,
             c->confidence < TAGC_SUM_AMBIGUOUS ? ": ambiguous" : "", *c->or_layers ? "; or else: " : "", c->or_layers);
  fprintf(to, "  %-22s %-5s %3s %-6s %9s %10s %10s %10s %6s %7s %7s %7s\n", "layer", "kind", "x", "codec", "calls",
          "buffers", "plain", "sent", "ratio", "encode", "wire ms", "decode");
  const bool between = c->calls.plain.between > 0;
  for (size_t i = first, n; i < c->slot_count; i += n) {
    for (n = 1; i + n < c->slot_count && alike(&c->slots[i], &c->slots[i + n]); n++)
      ;
    print_slot_row(to, s, &c->slots[i], n, between);
  }
  fprintf(to, "  (ratio, times: of a compressed call, where there is one%s)\n",
          between ? "; plain, sent: to other hosts" : "");
  if (first)
    fprintf(to, "  and %zu slots of cycles that the program has left\n", first);
}

static void print_reasons(FILE *to, const struct tagc_summary *s, const struct tagc_sum_comm *c)
{
  uint64_t all = 0, left[256];
  char text[TEXT] = "";
  memcpy(left, c->reasons, sizeof left);
  for (unsigned i = 0; i < 256; i++)
    all += left[i];
  for (int round = 0; round < 8 && all; round++) {
    unsigned best = 0;
    for (unsigned i = 1; i < 256; i++)
      best = left[i] > left[best] ? i : best;
    if (!left[best])
      break;
    append(text, sizeof text, "%s%.1f%% %s", round ? "; " : "", 100.0 * (double)left[best] / (double)all,
           tagc_sum_name(s, TAGC_TRACE_REASONS, (uint16_t)best));
    left[best] = 0;
  }
  if (*text)
    labelled(to, "why", "reduce-scatters: %s", text);
}

static void print_comm(FILE *to, const struct tagc_summary *s, const struct tagc_sum_comm *c)
{
  char name[64] = "Communicator", ranks[32] = "?";
  if (c->number != UINT32_MAX)
    snprintf(name, sizeof name, "Communicator %" PRIu32, c->number);
  if (c->nranks >= 0)
    snprintf(ranks, sizeof ranks, "%d", c->nranks);
  fprintf(to, "\n%s%s: %s, %s rank%s", name, s->has_main && c == s->comms ? " (its cycles are the steps)" : "",
          tagc_role_words(c->role), ranks, c->nranks == 1 ? "" : "s");
  if (c->hosts)
    fprintf(to, " on %" PRIu32 " host%s", c->hosts, plural(c->hosts));
  if (c->nranks >= 0 && c->member_count != (size_t)c->nranks)
    fprintf(to, ", %zu of them traced", c->member_count);
  fputc('\n', to);
  print_lines(to, s, c);
  print_reasons(to, s, c);
  print_slots(to, s, c);
}

static void print_comms(FILE *to, const struct tagc_summary *s)
{
  size_t idle = 0;
  fputc('\n', to);
  tagc_words_print(to, 0,
                   "Of communicators, calls, buffers and sent are of all ranks and the whole run; what is of a step is "
                   "of one rank in a whole step, and its ms are those of the program's threads in calls, which on GPUs "
                   "only enqueue.");
  for (size_t i = 0; i < s->comm_count; i++)
    if (s->comms[i].calls.calls)
      print_comm(to, s, &s->comms[i]);
    else
      idle++;
  if (idle)
    fprintf(to, "\n%zu more communicator%s without a call\n", idle, plural(idle));
}

void tagc_report_print(const struct tagc_report *r, FILE *to)
{
  const struct tagc_summary *s = r->summary;
  if (s->rank_count) {
    print_glance(to, r);
    if (s->problem_count)
      fputc('\n', to);
  }
  for (size_t i = 0; i < s->problem_count; i++)
    labelled(to, i ? "" : "problems", "%s", s->problems[i]);
  if (!s->rank_count)
    return;
  print_job(to, s);
  print_comms(to, s);
  if (r->sides.verdict != TAGC_VERDICT_NONE)
    fputc('\n', to);
  tagc_sides_print(to, &r->sides);
  fputc('\n', to);
  tagc_pace_print(to, s, &r->pace);
  fputc('\n', to);
  tagc_volume_print(to, s, r->checks, r->check_count);
}
