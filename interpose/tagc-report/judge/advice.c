/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/judge/advice.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/options.h"
#include "interpose/tagc-report/judge/codecs.h"
#include "interpose/tagc-report/read/format.h"
#include "interpose/tagc-report/read/merge.h"

/* The least share worth a sentence: of all bytes sent, or of a compressed call's time. */
#define WORTH 0.05

__attribute__((format(printf, 2, 3))) static void add_advice(struct tagc_advice *out, const char *format, ...) {
  va_list arguments;
  if (out->count == TAGC_ADVICE_MOST)
    return;
  va_start(arguments, format);
  vsnprintf(out->text[out->count++], TAGC_ADVICE_TEXT, format, arguments);
  va_end(arguments);
}

/* The options of the job's first rank. Options that are not understood count as unset. */
static void read_rank_options(const struct tagc_summary *summary, struct tagc_options *options) {
  char why[256];
  tagc_options_default(options);
  char *copy = summary->rank_count ? strdup(summary->ranks[0].options) : NULL, *rest = copy, *line;
  while (copy && (line = strsep(&rest, "\n"))) {
    char *value = strchr(line, '=');
    const struct tagc_option *option = NULL;
    if (value) {
      *value++ = '\0';
      option = tagc_option_find(line);
    }
    if (option && option->kind != TAGC_OPTION_TEXT && option->kind != TAGC_OPTION_INPUT &&
        option->kind != TAGC_OPTION_OUTPUT) /* they would point into the copy */
      tagc_options_set(options, line, value, why, sizeof why);
  }
  free(copy);
}

static double type_bytes(const struct tagc_summary *summary, uint16_t type) {
  return tagc_sum_is(summary, TAGC_TRACE_TYPES, type, "float32") ? 4 : 2;
}

/* Bytes of a rank per step, the mean of all ranks, in the last locks of communicators. */
struct step {
  double sent;          /* in total; NaN: no whole step */
  double gradients;     /* by uncompressed slots of gradients */
  double plain, packed; /* uncompressed all-gathers of parameters, and their bytes at 8 bits */
  double again, memory; /* repeated gathers, and the memory that keeping the data would take */
};

static double sent_by(const struct tagc_sum_slot *slot) {
  return slot->calls.calls ? (double)tagc_sent_all(&slot->calls.sent) / (double)slot->calls.calls : 0;
}

/* `share`: of the job's ranks, those in the communicator. */
static void add_up_allgathers(const struct tagc_summary *summary, const struct tagc_sum_comm *c, double share,
                              uint64_t min_bytes, struct step *step) {
  for (size_t i = 0; i < c->allgather_count; i++) {
    const struct tagc_sum_slot *allgather = &c->allgathers[i];
    const double element = type_bytes(summary, allgather->type), sent = sent_by(allgather);
    const double whole = (double)allgather->count * element * c->nranks;
    if (allgather->lock != c->last_lock || !allgather->calls.calls)
      continue;
    if (!allgather->calls.compressed && whole >= (double)min_bytes) {
      step->plain += share * sent;
      step->packed += share * sent * (1 + 2.0 / 128) / element; /* a scale per block of 128 */
    }
    step->again += allgather->again ? share * sent : 0;
    step->memory += allgather->again ? share * whole : 0;
  }
}

static struct step add_up_step(const struct tagc_summary *summary, uint64_t min_bytes) {
  struct step step = {0};
  double steps = 0;
  for (size_t i = 0; i < summary->rank_count; i++)
    for (size_t j = 0; j < summary->ranks[i].step_count; j++)
      if (summary->ranks[i].steps[j].whole) {
        step.sent += (double)tagc_sent_all(&summary->ranks[i].steps[j].sent);
        steps++;
      }
  step.sent = steps > 0 ? step.sent / steps : NAN;
  for (size_t i = 0; i < summary->comm_count; i++) {
    const struct tagc_sum_comm *c = &summary->comms[i];
    const double share = (double)c->member_count / (double)summary->rank_count;
    for (size_t j = 0; j < c->slot_count && c->gradients; j++)
      if (c->slots[j].lock == c->last_lock && !c->slots[j].calls.compressed)
        step.gradients += share * sent_by(&c->slots[j]);
    add_up_allgathers(summary, c, share, min_bytes, &step);
  }
  return step;
}

static void advise_depth(const struct tagc_summary *summary, const struct tagc_options *options,
                         struct tagc_advice *out) {
  struct tagc_codec_sum sums[TAGC_CODEC_SUMS];
  const struct tagc_sum_calls all = tagc_codecs_all(sums, tagc_codecs_sum(summary, sums)).calls;
  const double coding = (double)all.encode_ns + (double)all.decode_ns - (double)all.hidden_ns;
  if (options->depth == 1 && all.packed_wire_calls && coding > WORTH * (coding + (double)all.packed_wire_ns))
    add_advice(
      out,
      "Encoding and decoding take %.0f%% of the time of a compressed call, and all of it before and behind the "
      "transfer: TAGC_DEPTH=4 does them in pieces, while others travel.",
      100 * coding / (coding + (double)all.packed_wire_ns));
}

void tagc_advice_make(const struct tagc_summary *summary, struct tagc_advice *out) {
  struct tagc_options options;
  char a[16], b[16];
  *out = (struct tagc_advice){.count = 0};
  read_rank_options(summary, &options);
  const struct step step = add_up_step(summary, options.min_bytes);
  if (options.mode == TAGC_MODE_OBSERVE && step.gradients > WORTH * step.sent)
    add_advice(
      out,
      "Gradients are %.0f%% of what a rank sends in a step, and nothing is compressed: TAGC_MODE=ab tells what "
      "compressing them changes.",
      100 * step.gradients / step.sent);
  const bool exact_or_off = options.allgather == TAGC_ALLGATHER_OFF || options.allgather == TAGC_ALLGATHER_AUTO;
  if (exact_or_off && step.plain > WORTH * step.sent)
    add_advice(
      out,
      "All-gathers of parameters are %.0f%% of what a rank sends in a step, %s: with TAGC_ALLGATHER=q8 they would send "
      "%s.",
      100 * step.plain / step.sent, tagc_format_bytes(step.plain, a), tagc_format_bytes(step.packed, b));
  if (step.again > WORTH * step.sent)
    add_advice(
      out,
      "In each step a rank sends %s of parameters that were gathered before in the same step, and have not changed "
      "since: a program that keeps them (FSDP2: reshard_after_forward=False, FSDP1: SHARD_GRAD_OP, ZeRO-2 in place of "
      "ZeRO-3) does not, for %s of memory.",
      tagc_format_bytes(step.again, a), tagc_format_bytes(step.memory, b));
  advise_depth(summary, &options, out);
}
