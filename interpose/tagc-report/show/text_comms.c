/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report's text about communicators: their calls, and their slots.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "env/append.h"
#include "interpose/tagc-report/judge/codecs.h"
#include "interpose/tagc-report/judge/volume.h"
#include "interpose/tagc-report/read/format.h"
#include "interpose/tagc-report/read/merge.h"
#include "interpose/tagc-report/show/text.h"

enum { LABEL = 14, TEXT = 4096 };

const char *tagc_text_percent(double share, char text[24]) {
  if (isnan(share))
    return "-";
  snprintf(text, 24, "%.0f%%", 100 * fmax(-9.99, fmin(share, 9.99)));
  return text;
}

void tagc_text_labelled(FILE *to, const char *label, const char *format, ...) {
  char *text = NULL, *lines = NULL;
  size_t size = 0;
  va_list args;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0)
    text = NULL;
  va_end(args);
  FILE *memory = text ? open_memstream(&lines, &size) : NULL;
  if (memory) {
    tagc_format_print(memory, LABEL, text);
    if (fclose(memory) == 0 && size > LABEL) {
      memcpy(lines + 2, label, strlen(label) < LABEL - 2 ? strlen(label) : LABEL - 2);
      fputs(lines, to);
    }
  }
  free(lines);
  free(text);
}

const char *tagc_text_real(double number, int digits, char text[24]) {
  if (isnan(number))
    return "-";
  snprintf(text, 24, "%.*f", digits, fmin(number, 1e12));
  return text;
}

const char *tagc_text_class(int size_class, char text[24]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = size_class / 10, low = 1 << (size_class < 0 ? 0 : size_class % 10);
  if (size_class < 0)
    snprintf(text, 24, "-");
  else if (low == 512)
    snprintf(text, 24, "512 %s-1 %s", units[unit], unit < 6 ? units[unit + 1] : "ZiB");
  else
    snprintf(text, 24, "%d-%d %s", low, 2 * low, units[unit]);
  return text;
}

static void print_call_lines(FILE *to, const struct tagc_summary *s, const struct tagc_sum_comm *c) {
  char count[32], class[24], a[16], b[16], d[16], x[24], y[24], z[24];
  double steps = c->whole_steps ? (double)c->whole_steps : NAN;
  fprintf(to, "  %-20s %-8s %-5s %-13s %11s %8s %10s %10s %5s %10s %8s\n", "call", "type", "sum", "buffer", "calls",
          "a step", "buffers", "sent", "saved", "sent/step", "ms/step");
  for (size_t i = 0; i < c->line_count; i++) {
    const struct tagc_sum_line *l = &c->lines[i];
    const char *type = l->calls.raw_bytes ? tagc_sum_name(s, TAGC_TRACE_TYPES, l->type) : "-",
               *op = tagc_sum_name(s, TAGC_TRACE_OPS, l->op);
    const double sent = (double)tagc_sent_all(&l->calls.sent), plain = (double)tagc_sent_all(&l->calls.plain);
    bool reduces = strstr(tagc_sum_function(s, l->function), "educe") != NULL;
    tagc_text_class(l->size_class, class);
    fprintf(to, "  %-20.20s %-8.8s %-5.5s %-13s %11s", tagc_sum_function(s, l->function), type, reduces ? op : "-",
            class, tagc_format_count((double)l->calls.calls, count));
    fprintf(to, " %8s %10s %10s %5s %10s %8s\n", tagc_text_real(l->per_step, 1, x),
            tagc_format_bytes((double)l->calls.raw_bytes, a), tagc_format_bytes(sent, b),
            tagc_text_percent(l->calls.compressed && plain > 0 ? 1 - sent / plain : NAN, z),
            tagc_format_bytes((double)tagc_sent_all(&l->whole.sent) / steps, d),
            tagc_text_real((double)l->whole.host_ns / steps / 1e6, 2, y));
  }
}

static bool alike(const struct tagc_sum_slot *a, const struct tagc_sum_slot *b) {
  return a->lock == b->lock && a->kind == b->kind && a->parts_known == b->parts_known && a->count == b->count &&
         a->all_reduce == b->all_reduce && a->type == b->type && a->reason == b->reason && a->voted == b->voted &&
         strcmp(a->codec, b->codec) == 0;
}

/* A mean of calls, in ms. */
static const char *mean_ms(uint64_t ns, uint64_t calls, char text[24]) {
  return tagc_text_real(calls ? (double)ns / (double)calls / 1e6 : NAN, 3, text);
}

/* A row of the table: `n` slots, or their all-gathers. */
struct row {
  const char *name, *kind, *codec;
  size_t n;
  struct tagc_sum_calls calls;
};

static void print_slots_row(FILE *to, const struct row *row, bool between) {
  const struct tagc_sum_calls *sum = &row->calls;
  const double plain = (double)(between ? sum->plain.between : tagc_sent_all(&sum->plain)),
               sent = (double)(between ? sum->sent.between : tagc_sent_all(&sum->sent));
  const bool packed = sum->packed_wire_calls > 0;
  char count[32], a[16], b[16], d[16], v[24], w[24], x[24], y[24], z[24];
  fprintf(to, "  %-21.21s %-5s %3zu %-6.6s %8s %10s %10s %10s", row->name, row->kind, row->n, row->codec,
          tagc_format_count((double)sum->calls, count), tagc_format_bytes((double)sum->raw_bytes, a),
          tagc_format_bytes(plain, b), tagc_format_bytes(sent, d));
  fprintf(to, " %6s %7s %7s %7s %6s\n", tagc_text_real(tagc_packed_ratio(plain, sent, sum), 3, v),
          mean_ms(sum->encode_ns, sum->packed_wire_calls, x),
          mean_ms(packed ? sum->packed_wire_ns : sum->wire_ns, packed ? sum->packed_wire_calls : sum->wire_calls, y),
          mean_ms(sum->decode_ns, sum->packed_wire_calls, z), tagc_text_percent(tagc_hidden_share(sum), w));
}

/* "q4"; "q8*": it had other codecs before. */
static void codec_words(const struct tagc_sum_slot *slot, char text[16]) {
  bool changed = false;
  for (size_t i = 1; i < slot->choice_count; i++)
    changed |= strcmp(slot->choices[i - 1].codec, slot->choices[i].codec) != 0;
  snprintf(text, 16, "%.5s%s", *slot->codec ? slot->codec : "-", changed ? "*" : "");
}

/* Prints the all-gathers of the same units in a line beneath. */
static void print_allgather_row(FILE *to, const struct tagc_summary *s, const struct tagc_sum_comm *c,
                                const struct tagc_sum_slot *first, size_t n, bool between) {
  const struct tagc_sum_slot *one = NULL;
  char codec[16] = "-";
  struct row row = {.name = "  all-gathers", .kind = "", .codec = codec};
  for (size_t i = 0; i < c->allgather_count; i++) {
    const struct tagc_sum_slot *allgather = &c->allgathers[i];
    if (allgather->lock != first->lock || allgather->of < first->slot || allgather->of > first[n - 1].slot)
      continue;
    row.n++;
    tagc_sum_add_calls(&row.calls, &allgather->calls);
    codec_words(allgather, codec);
    if (one && strcmp(one->codec, allgather->codec) != 0)
      row.codec = "mixed";
    one = allgather;
  }
  if (row.n)
    print_slots_row(to, &row, between);
  if (row.n && one->voted && !row.calls.compressed)
    tagc_format_print(to, 6, tagc_sum_name(s, TAGC_TRACE_REASONS, one->reason));
}

static void print_slot_row(FILE *to, const struct tagc_summary *s, const struct tagc_sum_slot *first, size_t n,
                           bool between) {
  char name[64], codec[16];
  struct row row = {
    .name = name, .kind = first->parts_known ? tagc_sum_kind(first->kind) : "?", .codec = codec, .n = n};
  snprintf(name, sizeof name, n > 1 ? "%s to %s" : "%s", *first->name ? first->name : "?", first[n - 1].name);
  codec_words(first, codec);
  for (size_t i = 0; i < n; i++)
    tagc_sum_add_calls(&row.calls, &first[i].calls);
  print_slots_row(to, &row, between);
  if (first->voted && row.calls.compressed < row.calls.calls && !*first->codec)
    tagc_format_print(to, 4, tagc_sum_name(s, TAGC_TRACE_REASONS, first->reason));
}

/* Prints a line per vote of the last lock that changed codecs, if there are several. */
static void print_votes(FILE *to, const struct tagc_sum_comm *c) {
  enum { MOST = 16 };
  size_t first = c->vote_count, all;
  while (first > 0 && c->votes[first - 1].lock == c->last_lock)
    first--;
  all = c->vote_count - first;
  if (all < 2)
    return;
  fprintf(to, "  codecs were chosen %zu times (*: changed)\n", all);
  for (size_t i = first; i < c->vote_count; i++) {
    const struct tagc_sum_vote *vote = &c->votes[i];
    char text[TEXT] = "", label[32], codecs[TAGC_CODECS_TEXT];
    if (i - first >= MOST / 2 && c->vote_count - i > MOST / 2)
      continue; /* of many print the first and the last */
    tagc_append(text, sizeof text, "%s", tagc_codecs_at(c->slots, c->slot_count, vote, codecs));
    if (c->allgather_count)
      tagc_append(text, sizeof text, "; all-gathers: %s",
                  tagc_codecs_at(c->allgathers, c->allgather_count, vote, codecs));
    tagc_append(text, sizeof text, "%s%s", *vote->why ? ". " : "", vote->why);
    snprintf(label, sizeof label, "cycle %" PRIu64, vote->cycle);
    tagc_text_labelled(to, label, "%s", text);
  }
}

static void print_slot_rows(FILE *to, const struct tagc_summary *s, const struct tagc_sum_comm *c) {
  size_t first = c->slot_count;
  while (first > 0 && c->slots[first - 1].lock == c->slots[c->slot_count - 1].lock)
    first--;
  if (!c->slot_count)
    return;
  if (tagc_sum_layers_known(c))
    tagc_text_labelled(to, "layers", "%s (%u%% sure%s)%s%s", c->layers, c->confidence,
                       c->confidence < TAGC_SUM_AMBIGUOUS ? ": ambiguous" : "", *c->or_layers ? "; or else: " : "",
                       c->or_layers);
  fprintf(to, "  %-21s %-5s %3s %-6s %8s %10s %10s %10s %6s %7s %7s %7s %6s\n", "layer", "kind", "x", "codec", "calls",
          "buffers", "plain", "sent", "ratio", "encode", "wire ms", "decode", "hidden");
  const bool between = c->calls.plain.between > 0;
  for (size_t i = first, n; i < c->slot_count; i += n) {
    for (n = 1; i + n < c->slot_count && alike(&c->slots[i], &c->slots[i + n]); n++)
      ;
    print_slot_row(to, s, &c->slots[i], n, between);
    print_allgather_row(to, s, c, &c->slots[i], n, between);
  }
  fprintf(to, "  (ratio, times: of a compressed call, where there is one%s)\n",
          between ? "; plain, sent: to other hosts" : "");
  print_votes(to, c);
  if (first)
    fprintf(to, "  and %zu slots of cycles that the program has left\n", first);
}

static void print_reasons(FILE *to, const struct tagc_summary *s, const char *label, const char *what,
                          const uint64_t reasons[256]) {
  uint64_t all = 0, left[256];
  char text[TEXT] = "";
  memcpy(left, reasons, sizeof left);
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
    tagc_text_labelled(to, label, "%s: %s", what, text);
}

static void print_comm(FILE *to, const struct tagc_summary *s, const struct tagc_sum_comm *c) {
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
  const char *unseen = tagc_sum_unseen(s, c);
  if (unseen)
    tagc_text_labelled(to, "not seen", "%s", unseen);
  print_call_lines(to, s, c);
  print_reasons(to, s, "why", c->all_reduces ? "gradients" : "reduce-scatters", c->reasons);
  print_reasons(to, s, "", "all-gathers of parameters", c->allgather_reasons);
  print_reasons(to, s, "", "broadcasts", c->broadcast_reasons);
  print_slot_rows(to, s, c);
}

void tagc_text_comms(FILE *to, const struct tagc_summary *s) {
  size_t idle = 0;
  fputc('\n', to);
  tagc_format_print(
    to, 0,
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
