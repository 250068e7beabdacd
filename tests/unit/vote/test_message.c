/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/vote/message: the int64 of each message, which all versions of the library in a job must order alike, and what a min
 * all-reduce makes of two ranks.
 */
#include "interpose/vote/message.h"

#include <string.h>

#include "tests/unit/tap.h"

enum { MOST = 64 };

static int64_t words[2][MOST];          /* of two ranks; the first one's are what has come out, after reduced() */
static int64_t *to[2] = {words[0], words[1]};

static void begin(void)
{
  memset(words, 0x55, sizeof words);
  to[0] = words[0];
  to[1] = words[1];
}

static const int64_t *reduced(void)
{
  for (int i = 0; i < MOST; i++)
    words[0][i] = words[1][i] < words[0][i] ? words[1][i] : words[0][i];
  return words[0];
}

static int64_t bits(double x)
{
  int64_t word;
  memcpy(&word, &x, sizeof word);
  return word;
}

static bool is(const int64_t *wanted, size_t count)
{
  return to[0] == words[0] + count && memcmp(words[0], wanted, count * sizeof *wanted) == 0 && words[0][count] == 0x5555555555555555;
}

static void hosts(void)
{
  begin();
  tagc_vote_hosts_pack(&to[0], &(struct tagc_vote_hosts){.can_split = true, .nranks = 2, .rank = 0, .host = 7});
  tagc_vote_hosts_pack(&to[1], &(struct tagc_vote_hosts){.can_split = false, .nranks = 2, .rank = 1, .host = 3});
  ok(is((int64_t[]){1, 7, INT64_MAX}, TAGC_VOTE_HOSTS_WORDS + 2), "hosts: can it split; the own host, the others are left alone");
  uint32_t host_of[2];
  struct tagc_vote_hosts all = {.nranks = 2, .host_of = host_of};
  const int64_t *from = reduced();
  tagc_vote_hosts_unpack(&from, &all);
  ok(from == words[0] + 3 && !all.can_split && host_of[0] == 7 && host_of[1] == 3, "all ranks' hosts come out, and that one cannot split");
  from = words[0];
  words[0][1] = -1;
  words[0][2] = INT64_MAX;
  tagc_vote_hosts_unpack(&from, &all);
  ok(host_of[0] == 0 && host_of[1] == 0, "numbers that no host has are none");
  from = words[0];
  all.host_of = NULL;
  tagc_vote_hosts_unpack(&from, &all);
  ok(from == words[0] + 3, "nobody needs to want them");

  begin();
  tagc_vote_flag_pack(&to[0], true);
  tagc_vote_flag_pack(&to[1], false);
  ok(is((int64_t[]){1}, TAGC_VOTE_FLAG_WORDS), "a flag");
  from = reduced();
  ok(!tagc_vote_flag_unpack(&from) && from == words[0] + 1, "is true where all say so");
}

static void samples(void)
{
  int64_t wanted[TAGC_VOTE_SAMPLE_WORDS] = {1, 1, -TAGC_REASON_scalar, -bits(0.5), -bits(3)};
  struct tagc_vote_sample one = {true, true, TAGC_REASON_scalar, {.density = 0.5, .kurtosis = 3, .copy_ns = 11, .norm = 12}}, other, all;
  for (int c = 0; c < TAGC_CANDIDATES; c++) {
    one.stats.of[c] = (struct tagc_codec_estimate){c + 0.125, c + 0.25, c + 0.5, c + 0.75};
    for (int i = 0; i < 4; i++)
      wanted[5 + 4 * c + i] = -bits(c + (double[]){0.125, 0.25, 0.5, 0.75}[i]);
  }
  wanted[TAGC_VOTE_SAMPLE_WORDS - 2] = -bits(11);
  wanted[TAGC_VOTE_SAMPLE_WORDS - 1] = -bits(12);
  other = one;
  other.usual = false;
  other.reject_reason = TAGC_REASON_compressed;
  other.stats.density = 0.75;
  other.stats.kurtosis = 2;
  other.stats.of[1].error = __builtin_nan("");
  begin();
  tagc_vote_sample_pack(&to[0], &one);
  tagc_vote_sample_pack(&to[1], &other);
  ok(is(wanted, TAGC_VOTE_SAMPLE_WORDS), "a sample: what is largest counts, and goes negated");
  const int64_t *from = reduced();
  tagc_vote_sample_unpack(&from, &all);
  ok(from == words[0] + TAGC_VOTE_SAMPLE_WORDS && all.sampled && !all.usual && all.reject_reason == TAGC_REASON_scalar &&
       all.stats.density == 0.75 && all.stats.kurtosis == 3 && all.stats.copy_ns == 11 && all.stats.norm == 12,
     "the densest gradient comes out, and a reason of one rank");
  bool good = __builtin_isinf(all.stats.of[1].error);
  for (int c = 0; c < TAGC_CANDIDATES; c++)
    good &= all.stats.of[c].encode_ns == c + 0.25 && all.stats.of[c].decode_ns == c + 0.5 && all.stats.of[c].call_ns == c + 0.75;
  ok(good, "and the slowest codecs; an error that is not a number is infinite");
}

static void times(void)
{
  double ratios[2];
  begin();
  tagc_vote_ratios_pack(&to[0], (double[]){1.5, 0.75});
  tagc_vote_ratios_pack(&to[1], (double[]){2, 0});
  ok(is((int64_t[]){bits(1.5), bits(0.75)}, TAGC_VOTE_RATIOS_WORDS), "ratios");
  const int64_t *from = reduced();
  tagc_vote_ratios_unpack(&from, ratios);
  ok(ratios[0] == 1.5 && ratios[1] == 0, "the least comes out; 0: a rank has measured nothing");

  struct tagc_probe probe = {.bytes = {1, 2}}, all = {0};
  int64_t wanted[TAGC_VOTE_PROBE_WORDS];
  for (int i = 0; i < TAGC_VOTE_PROBE_WORDS; i++)
    wanted[i] = -bits(probe.ns[i / 2][i % 2] = 100 + i);
  begin();
  tagc_vote_probe_pack(&to[0], &probe);
  probe.ns[2][1] = 1000;
  tagc_vote_probe_pack(&to[1], &probe);
  ok(is(wanted, TAGC_VOTE_PROBE_WORDS), "the times of a probe: a small and a large size by each route");
  from = reduced();
  tagc_vote_probe_unpack(&from, &all);
  ok(all.ns[2][1] == 1000 && all.ns[4][1] == 109 && all.bytes[0] == 0, "the largest come out");
}

static void proposals(void)
{
  struct tagc_vote_slot slot = {true, tagc_vote_own(3), tagc_vote_own(5), tagc_vote_own(-7), tagc_vote_own(2)}, all;
  begin();
  tagc_vote_slot_pack(&to[0], &slot);
  slot.codec = tagc_vote_own(6);
  tagc_vote_slot_pack(&to[1], &slot);
  ok(is((int64_t[]){1, 3, -3, 5, -5, -7, 7, 2, -2}, TAGC_VOTE_SLOT_WORDS), "a slot: what must be equal is there twice, once negated");
  const int64_t *from = reduced();
  tagc_vote_slot_unpack(&from, &all);
  ok(from == words[0] + TAGC_VOTE_SLOT_WORDS && all.can && tagc_vote_is_same(all.reason) && all.reason.least == 3 &&
       all.codec.least == 5 && all.codec.most == 6 && !tagc_vote_is_same(all.codec) && tagc_vote_is_same(all.parts) &&
       all.parts.least == -7 && tagc_vote_is_same(all.chunks) && all.chunks.most == 2, "where the ranks differ, the least and the most come out");

  struct tagc_vote_allgather allgather = {false, tagc_vote_own(1), tagc_vote_own(0), tagc_vote_own(4)}, out;
  begin();
  tagc_vote_allgather_pack(&to[0], &allgather);
  allgather.can = true;
  allgather.chunks = tagc_vote_own(1);
  tagc_vote_allgather_pack(&to[1], &allgather);
  ok(is((int64_t[]){0, 1, -1, 0, 0, 4, -4}, TAGC_VOTE_ALLGATHER_WORDS), "an all-gather");
  from = reduced();
  tagc_vote_allgather_unpack(&from, &out);
  ok(from == words[0] + TAGC_VOTE_ALLGATHER_WORDS && !out.can && out.reason.least == 1 && tagc_vote_is_same(out.codec) && out.chunks.least == 1 &&
       out.chunks.most == 4, "the same");
}

int main(void)
{
  hosts();
  samples();
  times();
  proposals();
  return tap_done();
}
