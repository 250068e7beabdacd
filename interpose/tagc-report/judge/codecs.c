/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/judge/codecs.h"

#include <math.h>
#include <string.h>

#include "env/append.h"
#include "interpose/tagc-report/read/format.h"
#include "interpose/tagc-report/read/merge.h"
#include "interpose/tagc-report/show/text.h"

static void add_slot_codecs(struct tagc_codec_sum *out, size_t *count, const char *function,
                            const struct tagc_sum_slot *slot) {
  for (size_t i = 0; i < slot->choice_count; i++) {
    const struct tagc_sum_choice *choice = &slot->choices[i];
    size_t at = 0;
    if (!*choice->codec)
      continue;
    while (at < *count && (strcmp(out[at].function, function) != 0 || strcmp(out[at].codec, choice->codec) != 0))
      at++;
    if (at == TAGC_CODEC_SUMS)
      continue; /* there are not so many codecs */
    if (at == *count)
      out[(*count)++] = (struct tagc_codec_sum){.function = function, .codec = choice->codec};
    out[at].slots++;
    tagc_sum_add_calls(&out[at].calls, &choice->calls);
  }
}

size_t tagc_codecs_sum(const struct tagc_summary *summary, struct tagc_codec_sum out[TAGC_CODEC_SUMS]) {
  size_t count = 0;
  for (size_t i = 0; i < summary->comm_count; i++) {
    const struct tagc_sum_comm *c = &summary->comms[i];
    for (size_t j = 0; j < c->slot_count; j++)
      add_slot_codecs(out, &count, c->slots[j].all_reduce ? "AllReduce" : "ReduceScatter", &c->slots[j]);
    for (size_t j = 0; j < c->allgather_count; j++)
      add_slot_codecs(out, &count, "AllGather", &c->allgathers[j]);
  }
  return count;
}

struct tagc_codec_sum tagc_codecs_all(const struct tagc_codec_sum *sums, size_t count) {
  struct tagc_codec_sum all = {.function = "all", .codec = ""};
  for (size_t i = 0; i < count; i++) {
    all.slots += sums[i].slots;
    tagc_sum_add_calls(&all.calls, &sums[i].calls);
  }
  return all;
}

double tagc_hidden_share(const struct tagc_sum_calls *calls) {
  const double coding = (double)calls->encode_ns + (double)calls->decode_ns;
  return coding > 0 ? (double)calls->hidden_ns / coding : NAN;
}

double tagc_packed_ratio(double plain, double sent, const struct tagc_sum_calls *calls) {
  return plain > 0 && calls->compressed
           ? 1 - (plain - sent) * (double)calls->calls / (plain * (double)calls->compressed)
           : NAN;
}

const char *tagc_codecs_at(const struct tagc_sum_slot *slots, size_t count, const struct tagc_sum_vote *vote,
                           char text[TAGC_CODECS_TEXT]) {
  const char *codecs[TAGC_CODEC_SUMS];
  size_t numbers[TAGC_CODEC_SUMS] = {0}, known = 0;
  for (size_t i = 0; i < count; i++) {
    const struct tagc_sum_choice *choice =
      slots[i].lock == vote->lock ? tagc_sum_choice_of(&slots[i], vote->cycle) : NULL;
    size_t at = 0;
    if (!choice)
      continue;
    while (at < known && strcmp(codecs[at], choice->codec) != 0)
      at++;
    if (at == TAGC_CODEC_SUMS)
      continue;
    codecs[at] = choice->codec;
    known = at == known ? known + 1 : known;
    numbers[at]++;
  }
  *text = '\0';
  for (size_t i = 0; i < known; i++)
    tagc_append(text, TAGC_CODECS_TEXT, "%s%zu %s", i ? ", " : "", numbers[i], *codecs[i] ? codecs[i] : "plain");
  return text;
}

static void print_codec_row(FILE *to, const struct tagc_codec_sum *sum) {
  const struct tagc_sum_calls *c = &sum->calls;
  const double plain = (double)tagc_sent_all(&c->plain), sent = (double)tagc_sent_all(&c->sent);
  char calls[32], packed[32], a[16], b[16], v[24], w[24], x[24], y[24], z[24];
  const double n = c->packed_wire_calls ? 1e6 * (double)c->packed_wire_calls : NAN;
  fprintf(to, "  %-13s %-8.8s %5zu %11s %11s %10s %10s %6s", sum->function, sum->codec, sum->slots,
          tagc_format_count((double)c->calls, calls), tagc_format_count((double)c->compressed, packed),
          tagc_format_bytes(plain, a), tagc_format_bytes(sent, b),
          tagc_text_real(tagc_packed_ratio(plain, sent, c), 3, v));
  fprintf(to, " %7s %7s %7s %7s\n", tagc_text_real((double)c->encode_ns / n, 3, w),
          tagc_text_real((double)c->packed_wire_ns / n, 3, x), tagc_text_real((double)c->decode_ns / n, 3, y),
          tagc_text_percent(tagc_hidden_share(c), z));
}

void tagc_codecs_print(FILE *to, const struct tagc_summary *summary) {
  struct tagc_codec_sum sums[TAGC_CODEC_SUMS];
  const size_t count = tagc_codecs_sum(summary, sums);
  const struct tagc_codec_sum all = tagc_codecs_all(sums, count);
  if (!count)
    return;
  fputs("\nWhat codecs do, on all ranks (times are means of compressed calls, in ms; hidden: the part of encoding and\n"
        "decoding while the transfer was under way)\n",
        to);
  fprintf(to, "  %-13s %-8s %5s %11s %11s %10s %10s %6s %7s %7s %7s %7s\n", "call", "codec", "slots", "calls",
          "compressed", "plain", "sent", "ratio", "encode", "wire", "decode", "hidden");
  for (size_t i = 0; i < count; i++)
    print_codec_row(to, &sums[i]);
  if (count > 1)
    print_codec_row(to, &all);
}
