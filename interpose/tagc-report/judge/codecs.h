/* SPDX-License-Identifier: BSD-3-Clause
 * What codecs did in a job: their calls, bytes and times, of all slots and all-gathers that had them at some time.
 * Pure.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_CODECS_H
#define INTERPOSE_TAGC_REPORT_JUDGE_CODECS_H

#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

struct tagc_codec_sum {
  const char *function;        /* "ReduceScatter", "AllReduce", "AllGather" */
  const char *codec;           /* the summary's */
  size_t slots;                /* that had it; one that has changed its codec counts at several */
  struct tagc_sum_calls calls; /* of these while they had it, those that stayed plain, too */
};

enum { TAGC_CODEC_SUMS = 32 };

/* How many there are; at most TAGC_CODEC_SUMS. In the order in which slots have them. */
size_t tagc_codecs_sum(const struct tagc_summary *summary, struct tagc_codec_sum out[TAGC_CODEC_SUMS]);
/* All of them together, as a row of a table: its function is "all", its codec "". */
struct tagc_codec_sum tagc_codecs_all(const struct tagc_codec_sum *sums, size_t count);

/* The part of encoding and decoding that lay under the transfer; NaN where nothing was encoded, or no times are
 * known. */
double tagc_hidden_share(const struct tagc_sum_calls *calls);
/* What compressed calls sent of what they would have sent plain: other calls send what plain ones do, so that whatever
 * is saved, these have saved. NaN: there are none, or none that would send anything. */
double tagc_packed_ratio(double plain, double sent, const struct tagc_sum_calls *calls);

/* "4 q4, 2 plain": what slots, or all-gathers, have from a vote on; those of other locks do not count. Returns
 * `text`. */
enum { TAGC_CODECS_TEXT = 200 };
const char *tagc_codecs_at(const struct tagc_sum_slot *slots, size_t count, const struct tagc_sum_vote *vote,
                           char text[TAGC_CODECS_TEXT]);

/* For people: a line a codec, and one for all. Nothing where no codec was chosen. */
void tagc_codecs_print(FILE *to, const struct tagc_summary *summary);

#endif
