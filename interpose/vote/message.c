/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/message.h"

#include <string.h>

#include "interpose/agree/wire.h"

static void carry(struct tagc_message *m, int64_t *value) {
  if (m->unpacks)
    *value = *m->at;
  else
    *m->at = *value;
  m->at++;
}

static void carry_double(struct tagc_message *m, double *x, int sign) {
  int64_t bits;
  memcpy(&bits, x, sizeof bits);
  bits *= sign;
  carry(m, &bits);
  bits *= sign;
  memcpy(x, &bits, sizeof bits);
}

/* NaN counts as infinity, the worst value. */
static void carry_largest(struct tagc_message *m, double *x) {
  *x = *x >= 0 ? *x : __builtin_inf();
  carry_double(m, x, -1);
}

static void carry_range(struct tagc_message *m, struct tagc_vote_range *range) {
  int64_t negated = -range->most;
  carry(m, &range->least);
  carry(m, &negated);
  range->most = -negated;
}

void tagc_message_flag(struct tagc_message *m, bool *flag) {
  int64_t value = *flag;
  carry(m, &value);
  *flag = value;
}

/* A rank that does not know leaves both to the others. */
void tagc_message_change(struct tagc_message *m, struct tagc_change_range *changes) {
  const bool knows = changes->least != TAGC_CHANGE_UNKNOWN;
  struct tagc_vote_range range = {changes->largest, knows ? (int64_t)changes->least : -1};
  carry_range(m, &range);
  changes->largest = (enum tagc_change)range.least;
  changes->least = range.most < 0 ? TAGC_CHANGE_UNKNOWN : (enum tagc_change)range.most;
}

/* Numbers with the order of the floats, and back. */
static int64_t order_of_float(float x) {
  int32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits < 0 ? (int64_t)INT32_MIN - bits : bits;
}

static float float_of_order(int64_t order) {
  const int32_t bits = (int32_t)(order < 0 ? INT32_MIN - order : order);
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

void tagc_message_value(struct tagc_message *m, struct tagc_vote_value *value) {
  const bool knows = value->least == value->least;
  struct tagc_vote_range range = {order_of_float(knows ? value->least : -__builtin_inff()),
                                  order_of_float(knows ? value->largest : __builtin_inff())};
  carry_range(m, &range);
  value->least = float_of_order(range.least);
  value->largest = float_of_order(range.most);
}

/* Each rank leaves the other ranks' places alone. */
void tagc_message_hosts(struct tagc_message *m, struct tagc_vote_hosts *hosts) {
  tagc_message_flag(m, &hosts->can_split);
  for (int r = 0; r < hosts->nranks; r++) {
    int64_t host = r == hosts->rank ? (int64_t)hosts->host : INT64_MAX;
    carry(m, &host);
    if (hosts->host_of)
      hosts->host_of[r] = host >= 0 && host < TAGC_AGREE_RANKS ? (uint32_t)host : 0;
  }
}

void tagc_message_sample(struct tagc_message *m, struct tagc_vote_sample *sample) {
  struct tagc_gradient_stats *stats = &sample->stats;
  int64_t negated = -(int64_t)sample->reject_reason;
  tagc_message_flag(m, &sample->sampled);
  tagc_message_flag(m, &sample->usual);
  carry(m, &negated);
  sample->reject_reason = (enum tagc_reason) - negated;
  carry_largest(m, &stats->density);
  carry_largest(m, &stats->kurtosis);
  for (int c = 0; c < TAGC_CANDIDATES; c++) {
    carry_largest(m, &stats->of[c].error);
    carry_largest(m, &stats->of[c].encode_ns);
    carry_largest(m, &stats->of[c].decode_ns);
    carry_largest(m, &stats->of[c].call_ns);
  }
  carry_largest(m, &stats->copy_ns);
  carry_largest(m, &stats->norm);
  tagc_message_flag(m, &sample->ordinary);
}

void tagc_message_parameters(struct tagc_message *m, struct tagc_parameter_stats *stats) {
  carry_largest(m, &stats->bits);
  carry_largest(m, &stats->encode_ns);
  carry_largest(m, &stats->decode_ns);
  carry_largest(m, &stats->call_ns);
}

void tagc_message_ratios(struct tagc_message *m, double ratios[2]) {
  carry_double(m, &ratios[0], 1);
  carry_double(m, &ratios[1], 1);
}

void tagc_message_probe(struct tagc_message *m, struct tagc_probe *probe) {
  for (int route = 0; route < TAGC_ROUTES; route++)
    for (int size = 0; size < 2; size++)
      carry_largest(m, &probe->ns[route][size]);
}

void tagc_message_map(struct tagc_message *m, struct tagc_vote_map *map) {
  tagc_message_flag(m, &map->answered);
  tagc_message_flag(m, &map->found);
  carry_range(m, &map->digest);
}

void tagc_message_slot(struct tagc_message *m, struct tagc_vote_proposal *slot) {
  tagc_message_flag(m, &slot->can);
  tagc_message_flag(m, &slot->support);
  carry_range(m, &slot->reason);
  carry_range(m, &slot->codec);
  carry_range(m, &slot->parts);
  carry_range(m, &slot->chunks);
}

void tagc_message_allgather(struct tagc_message *m, struct tagc_vote_proposal *allgather) {
  tagc_message_flag(m, &allgather->can);
  carry_range(m, &allgather->reason);
  carry_range(m, &allgather->codec);
  carry_range(m, &allgather->chunks);
}
