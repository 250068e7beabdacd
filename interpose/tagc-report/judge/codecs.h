/* SPDX-License-Identifier: BSD-3-Clause
 * Codecs of a job: their calls, bytes and times, over all slots and all-gathers that ever had them. Pure.
 */
#ifndef INTERPOSE_TAGC_REPORT_JUDGE_CODECS_H
#define INTERPOSE_TAGC_REPORT_JUDGE_CODECS_H

#include <stdio.h>

#include "interpose/tagc-report/read/summary.h"

struct tagc_codec_sum {
  const char *function;        /* "ReduceScatter", "AllReduce", "AllGather" */
  const char *codec;           /* the summary's */
  size_t slots;                /* that had it; a slot with several codecs counts for each */
  struct tagc_sum_calls calls; /* of these slots while they had it, also plain ones */
};

enum { TAGC_CODEC_SUMS = 32 };

/* Writes the codecs, at most TAGC_CODEC_SUMS, in the slots' order; returns their number. */
size_t tagc_codecs_sum(const struct tagc_summary *summary, struct tagc_codec_sum out[TAGC_CODEC_SUMS]);
/* Their total, as a row of a table: its function is "all", its codec "". */
struct tagc_codec_sum tagc_codecs_all(const struct tagc_codec_sum *sums, size_t count);

/* The part of encoding and decoding hidden under the transfer; NaN: nothing encoded, or unknown times. */
double tagc_hidden_share(const struct tagc_sum_calls *calls);
/* Bytes sent by compressed calls, relative to plain: only these calls save. NaN: no such calls, or no plain bytes. */
double tagc_packed_ratio(double plain, double sent, const struct tagc_sum_calls *calls);

/* "4 q4, 2 plain": the codecs of slots, or all-gathers, after a vote; other locks do not count. Returns `text`. */
enum { TAGC_CODECS_TEXT = 200 };
const char *tagc_codecs_at(const struct tagc_sum_slot *slots, size_t count, const struct tagc_sum_vote *vote,
                           char text[TAGC_CODECS_TEXT]);

/* Prints a line per codec, and one for all; nothing if no codec was chosen. */
void tagc_codecs_print(FILE *to, const struct tagc_summary *summary);

#endif
