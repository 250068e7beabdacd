/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/message.h"

#include <string.h>

#include "interpose/agree/wire.h"

/* ---- values ------------------------------------------------------------------------------------------------------------- */

static void put(int64_t **to, int64_t value) { *(*to)++ = value; }
static int64_t get(const int64_t **from) { return *(*from)++; }

static void put_double(int64_t **to, double x, int sign)
{
  int64_t bits;
  memcpy(&bits, &x, sizeof bits);
  put(to, sign * bits);
}

static double get_double(const int64_t **from, int sign)
{
  const int64_t bits = sign * get(from);
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Not a number: as bad as can be. */
static void put_largest(int64_t **to, double x) { put_double(to, x >= 0 ? x : __builtin_inf(), -1); }
static double get_largest(const int64_t **from) { return get_double(from, -1); }

static void put_range(int64_t **to, struct tagc_vote_range range)
{
  put(to, range.least);
  put(to, -range.most);
}

static struct tagc_vote_range get_range(const int64_t **from)
{
  const int64_t least = get(from), most = -get(from);
  return (struct tagc_vote_range){least, most};
}

/* ---- messages ----------------------------------------------------------------------------------------------------------- */

void tagc_vote_flag_pack(int64_t **to, bool flag) { put(to, flag); }
bool tagc_vote_flag_unpack(const int64_t **from) { return get(from); }

/* Each rank leaves the places of the others alone. */
void tagc_vote_hosts_pack(int64_t **to, const struct tagc_vote_hosts *hosts)
{
  put(to, hosts->can_split);
  for (int r = 0; r < hosts->nranks; r++)
    put(to, r == hosts->rank ? (int64_t)hosts->host : INT64_MAX);
}

void tagc_vote_hosts_unpack(const int64_t **from, struct tagc_vote_hosts *hosts)
{
  hosts->can_split = get(from);
  for (int r = 0; r < hosts->nranks; r++) {
    const int64_t host = get(from);
    if (hosts->host_of)
      hosts->host_of[r] = host >= 0 && host < TAGC_AGREE_RANKS ? (uint32_t)host : 0;
  }
}

void tagc_vote_sample_pack(int64_t **to, const struct tagc_vote_sample *sample)
{
  put(to, sample->sampled);
  put(to, sample->usual);
  put(to, -(int64_t)sample->reject_reason);
  put_largest(to, sample->stats.density);
  put_largest(to, sample->stats.kurtosis);
  for (int c = 0; c < TAGC_CANDIDATES; c++) {
    const struct tagc_codec_estimate *its = &sample->stats.of[c];
    put_largest(to, its->error);
    put_largest(to, its->encode_ns);
    put_largest(to, its->decode_ns);
    put_largest(to, its->call_ns);
  }
  put_largest(to, sample->stats.copy_ns);
  put_largest(to, sample->stats.norm);
}

void tagc_vote_sample_unpack(const int64_t **from, struct tagc_vote_sample *sample)
{
  *sample = (struct tagc_vote_sample){0};
  sample->sampled = get(from);
  sample->usual = get(from);
  sample->reject_reason = (enum tagc_reason)-get(from);
  sample->stats.density = get_largest(from);
  sample->stats.kurtosis = get_largest(from);
  for (int c = 0; c < TAGC_CANDIDATES; c++) {
    struct tagc_codec_estimate *its = &sample->stats.of[c];
    its->error = get_largest(from);
    its->encode_ns = get_largest(from);
    its->decode_ns = get_largest(from);
    its->call_ns = get_largest(from);
  }
  sample->stats.copy_ns = get_largest(from);
  sample->stats.norm = get_largest(from);
}

/* 0, where a rank has measured nothing, is the least. */
void tagc_vote_ratios_pack(int64_t **to, const double ratios[2])
{
  put_double(to, ratios[0], 1);
  put_double(to, ratios[1], 1);
}

void tagc_vote_ratios_unpack(const int64_t **from, double ratios[2])
{
  ratios[0] = get_double(from, 1);
  ratios[1] = get_double(from, 1);
}

void tagc_vote_probe_pack(int64_t **to, const struct tagc_probe *probe)
{
  for (int route = 0; route < TAGC_ROUTES; route++)
    for (int size = 0; size < 2; size++)
      put_largest(to, probe->ns[route][size]);
}

void tagc_vote_probe_unpack(const int64_t **from, struct tagc_probe *probe)
{
  for (int route = 0; route < TAGC_ROUTES; route++)
    for (int size = 0; size < 2; size++)
      probe->ns[route][size] = get_largest(from);
}

void tagc_vote_slot_pack(int64_t **to, const struct tagc_vote_slot *slot)
{
  put(to, slot->can);
  put_range(to, slot->reason);
  put_range(to, slot->codec);
  put_range(to, slot->parts);
  put_range(to, slot->chunks);
}

void tagc_vote_slot_unpack(const int64_t **from, struct tagc_vote_slot *slot)
{
  slot->can = get(from);
  slot->reason = get_range(from);
  slot->codec = get_range(from);
  slot->parts = get_range(from);
  slot->chunks = get_range(from);
}

void tagc_vote_allgather_pack(int64_t **to, const struct tagc_vote_allgather *allgather)
{
  put(to, allgather->can);
  put_range(to, allgather->reason);
  put_range(to, allgather->codec);
  put_range(to, allgather->chunks);
}

void tagc_vote_allgather_unpack(const int64_t **from, struct tagc_vote_allgather *allgather)
{
  allgather->can = get(from);
  allgather->reason = get_range(from);
  allgather->codec = get_range(from);
  allgather->chunks = get_range(from);
}
