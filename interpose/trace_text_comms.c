/* SPDX-License-Identifier: BSD-3-Clause
 * What tagc-report tells people of communicators: their calls, and their slots.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "env/append.h"
#include "interpose/trace_text.h"
#include "interpose/trace_volume.h"
#include "interpose/trace_words.h"

enum { LABEL = 14, TEXT = 4096 };

void tagc_text_labelled(FILE *to, const char *label, const char *format, ...)
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

const char *tagc_text_real(double number, int digits, char text[24])
{
  if (isnan(number))
    return "-";
  snprintf(text, 24, "%.*f", digits, fmin(number, 1e12));
  return text;
}

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
    fprintf(to, " %8s %11s %11s %11s %9s\n", tagc_text_real(l->per_step, 1, x), tagc_words_bytes((double)l->calls.raw_bytes, a),
            tagc_words_bytes((double)tagc_sent_all(&l->calls.sent), b),
            tagc_words_bytes((double)tagc_sent_all(&l->whole.sent) / steps, d),
            tagc_text_real((double)l->whole.host_ns / steps / 1e6, 2, y));
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
  return tagc_text_real(calls ? (double)ns / (double)calls / 1e6 : NAN, 3, text);
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
  fprintf(to, " %6s %7s %7s %7s\n", tagc_text_real(plain > 0 && sum.compressed ? ratio : NAN, 3, v),
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
    tagc_text_labelled(to, "layers", "%s (%u%% sure%s)%s%s", c->layers, c->confidence,
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
    tagc_append(text, sizeof text, "%s%.1f%% %s", round ? "; " : "", 100.0 * (double)left[best] / (double)all,
           tagc_sum_name(s, TAGC_TRACE_REASONS, (uint16_t)best));
    left[best] = 0;
  }
  if (*text)
    tagc_text_labelled(to, "why", "reduce-scatters: %s", text);
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
    fprintf(to, " on %" PRIu32 " host%s", c->hosts, tagc_text_plural(c->hosts));
  if (c->nranks >= 0 && c->member_count != (size_t)c->nranks)
    fprintf(to, ", %zu of them traced", c->member_count);
  fputc('\n', to);
  print_lines(to, s, c);
  print_reasons(to, s, c);
  print_slots(to, s, c);
}

void tagc_text_comms(FILE *to, const struct tagc_summary *s)
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
    fprintf(to, "\n%zu more communicator%s without a call\n", idle, tagc_text_plural(idle));
}
