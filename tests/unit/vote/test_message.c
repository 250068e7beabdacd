/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/vote/message: the int64s of each message, whose order all versions of the library in a job must share, and
 * the result of a min all-reduce of two ranks.
 */
#include "interpose/vote/message.h"

#include <math.h>
#include <string.h>

#include "tests/unit/tap.h"

enum { MOST = 64 };

static int64_t words[2][MOST]; /* of two ranks; after reduce() the first one's hold the result */
static struct tagc_message to[2], from;

static void begin(void) {
  memset(words, 0x55, sizeof words);
  to[0].at = words[0];
  to[1].at = words[1];
}

static void reduce(void) {
  for (int i = 0; i < MOST; i++)
    words[0][i] = words[1][i] < words[0][i] ? words[1][i] : words[0][i];
  from = (struct tagc_message){words[0], true};
}

static bool is_read(size_t count) { return from.at == words[0] + count; }

static int64_t bits(double x) {
  int64_t word;
  memcpy(&word, &x, sizeof word);
  return word;
}

static bool is(const int64_t *wanted, size_t count) {
  return to[0].at == words[0] + count && memcmp(words[0], wanted, count * sizeof *wanted) == 0 &&
         words[0][count] == 0x5555555555555555;
}

static void hosts(void) {
  begin();
  tagc_message_hosts(&to[0], &(struct tagc_vote_hosts){.can_split = true, .nranks = 2, .rank = 0, .host = 7});
  tagc_message_hosts(&to[1], &(struct tagc_vote_hosts){.can_split = false, .nranks = 2, .rank = 1, .host = 3});
  ok(is((int64_t[]){1, 7, INT64_MAX}, TAGC_MESSAGE_HOSTS + 2),
     "hosts: can it split; the own host, the others are left alone");
  uint32_t host_of[2];
  struct tagc_vote_hosts all = {.nranks = 2, .host_of = host_of};
  reduce();
  tagc_message_hosts(&from, &all);
  ok(is_read(3) && !all.can_split && host_of[0] == 7 && host_of[1] == 3,
     "all ranks' hosts come out, and that one cannot split");
  from.at = words[0];
  words[0][1] = -1;
  words[0][2] = INT64_MAX;
  tagc_message_hosts(&from, &all);
  ok(host_of[0] == 0 && host_of[1] == 0, "numbers that no host has are none");
  from.at = words[0];
  all.host_of = NULL;
  tagc_message_hosts(&from, &all);
  ok(is_read(3), "nobody needs to want them");

  begin();
  tagc_message_flag(&to[0], &(bool){true});
  tagc_message_flag(&to[1], &(bool){false});
  ok(is((int64_t[]){1}, TAGC_MESSAGE_FLAG), "a flag");
  reduce();
  bool flag = true;
  tagc_message_flag(&from, &flag);
  ok(!flag && is_read(1), "is true where all say so");
}

static void samples(void) {
  int64_t wanted[TAGC_MESSAGE_SAMPLE] = {1, 1, -TAGC_REASON_scalar, -bits(0.5), -bits(3)};
  struct tagc_vote_sample one = {true,
                                 true,
                                 true,
                                 TAGC_REASON_scalar,
                                 {.density = 0.5, .kurtosis = 3, .copy_ns = 11, .norm = 12}},
                          other, all = {0};
  for (int c = 0; c < TAGC_CANDIDATES; c++) {
    one.stats.of[c] = (struct tagc_codec_estimate){c + 0.125, c + 0.25, c + 0.5, c + 0.75};
    for (int i = 0; i < 4; i++)
      wanted[5 + 4 * c + i] = -bits(c + (double[]){0.125, 0.25, 0.5, 0.75}[i]);
  }
  wanted[TAGC_MESSAGE_SAMPLE - 3] = -bits(11);
  wanted[TAGC_MESSAGE_SAMPLE - 2] = -bits(12);
  wanted[TAGC_MESSAGE_SAMPLE - 1] = 1;
  other = one;
  other.usual = other.ordinary = false;
  other.reject_reason = TAGC_REASON_compressed;
  other.stats.density = 0.75;
  other.stats.kurtosis = 2;
  other.stats.of[1].error = __builtin_nan("");
  begin();
  tagc_message_sample(&to[0], &one);
  tagc_message_sample(&to[1], &other);
  ok(is(wanted, TAGC_MESSAGE_SAMPLE), "a sample: what is largest counts, and goes negated");
  reduce();
  tagc_message_sample(&from, &all);
  ok(is_read(TAGC_MESSAGE_SAMPLE) && all.sampled && !all.usual && !all.ordinary &&
       all.reject_reason == TAGC_REASON_scalar && all.stats.density == 0.75 && all.stats.kurtosis == 3 &&
       all.stats.copy_ns == 11 && all.stats.norm == 12,
     "the densest gradient comes out, and a reason of one rank");
  bool good = __builtin_isinf(all.stats.of[1].error);
  for (int c = 0; c < TAGC_CANDIDATES; c++)
    good &= all.stats.of[c].encode_ns == c + 0.25 && all.stats.of[c].decode_ns == c + 0.5 &&
            all.stats.of[c].call_ns == c + 0.75;
  ok(good, "and the slowest codecs; an error that is not a number is infinite");
}

static void times(void) {
  double ratios[2] = {0, 0};
  begin();
  tagc_message_ratios(&to[0], (double[]){1.5, 0.75});
  tagc_message_ratios(&to[1], (double[]){2, 0});
  ok(is((int64_t[]){bits(1.5), bits(0.75)}, TAGC_MESSAGE_RATIOS), "ratios");
  reduce();
  tagc_message_ratios(&from, ratios);
  ok(ratios[0] == 1.5 && ratios[1] == 0, "the least comes out; 0: a rank has measured nothing");

  struct tagc_probe probe = {.bytes = {1, 2}}, all = {0};
  int64_t wanted[TAGC_MESSAGE_PROBE];
  for (int i = 0; i < TAGC_MESSAGE_PROBE; i++)
    wanted[i] = -bits(probe.ns[i / 2][i % 2] = 100 + i);
  begin();
  tagc_message_probe(&to[0], &probe);
  probe.ns[2][1] = 1000;
  tagc_message_probe(&to[1], &probe);
  ok(is(wanted, TAGC_MESSAGE_PROBE), "the times of a probe: a small and a large size by each route");
  reduce();
  tagc_message_probe(&from, &all);
  ok(all.ns[2][1] == 1000 && all.ns[4][1] == 109 && all.bytes[0] == 0, "the largest come out");
}

static void proposals(void) {
  struct tagc_vote_proposal slot = {.can = true,
                                    .support = true,
                                    .reason = tagc_vote_own(3),
                                    .codec = tagc_vote_own(5),
                                    .parts = tagc_vote_own(-7),
                                    .chunks = tagc_vote_own(2)},
                            all = {0};
  begin();
  tagc_message_slot(&to[0], &slot);
  slot.codec = tagc_vote_own(6);
  slot.support = false;
  tagc_message_slot(&to[1], &slot);
  ok(is((int64_t[]){1, 1, 3, -3, 5, -5, -7, 7, 2, -2}, TAGC_MESSAGE_SLOT),
     "a slot: what must be equal is there twice, once negated");
  reduce();
  tagc_message_slot(&from, &all);
  ok(is_read(TAGC_MESSAGE_SLOT) && all.can && !all.support && tagc_vote_is_same(all.reason) && all.reason.least == 3 &&
       all.codec.least == 5 && all.codec.most == 6 && !tagc_vote_is_same(all.codec) && tagc_vote_is_same(all.parts) &&
       all.parts.least == -7 && tagc_vote_is_same(all.chunks) && all.chunks.most == 2,
     "where the ranks differ, the least and the most come out, and sums are not gathered alone");

  struct tagc_vote_proposal allgather = {.reason = tagc_vote_own(1), .chunks = tagc_vote_own(4)}, out = {0};
  begin();
  tagc_message_allgather(&to[0], &allgather);
  allgather.can = true;
  allgather.chunks = tagc_vote_own(1);
  tagc_message_allgather(&to[1], &allgather);
  ok(is((int64_t[]){0, 1, -1, 0, 0, 4, -4}, TAGC_MESSAGE_ALLGATHER), "an all-gather");
  reduce();
  tagc_message_allgather(&from, &out);
  ok(is_read(TAGC_MESSAGE_ALLGATHER) && !out.can && out.reason.least == 1 && tagc_vote_is_same(out.codec) &&
       out.chunks.least == 1 && out.chunks.most == 4,
     "the same");
}

static void values(void) {
  static const float own[][2] = {{1, 2}, {-1, -2}, {-3, 0.5f}, {INFINITY, -INFINITY}, {0, -0.0f}};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    struct tagc_vote_value all = {0};
    begin();
    for (int r = 0; r < 2; r++)
      tagc_message_value(&to[r], &(struct tagc_vote_value){own[i][r], own[i][r]});
    reduce();
    tagc_message_value(&from, &all);
    ok(is_read(TAGC_MESSAGE_VALUE) && all.least == fminf(own[i][0], own[i][1]) &&
         all.largest == fmaxf(own[i][0], own[i][1]),
       "%g and %g: the least and the largest come out", (double)own[i][0], (double)own[i][1]);
  }
  struct tagc_vote_value all = {0};
  begin();
  tagc_message_value(&to[0], &(struct tagc_vote_value){1, 1});
  tagc_message_value(&to[1], &(struct tagc_vote_value){NAN, NAN});
  reduce();
  tagc_message_value(&from, &all);
  ok(all.least == -INFINITY && all.largest == INFINITY, "a value that a rank does not know lies anywhere");
}

static void changes(void) {
  struct tagc_change_range range = {TAGC_CHANGE_LITTLE, TAGC_CHANGE_LITTLE}, all = {0};
  begin();
  tagc_message_change(&to[0], &range);
  range = (struct tagc_change_range){TAGC_CHANGE_UNKNOWN, TAGC_CHANGE_UNKNOWN};
  tagc_message_change(&to[1], &range);
  ok(is((int64_t[]){TAGC_CHANGE_LITTLE, -TAGC_CHANGE_LITTLE}, TAGC_MESSAGE_CHANGE), "a change of contents");
  reduce();
  tagc_message_change(&from, &all);
  ok(is_read(TAGC_MESSAGE_CHANGE) && all.largest == TAGC_CHANGE_LITTLE && all.least == TAGC_CHANGE_LITTLE,
     "a rank that does not know leaves it to the others");
  begin();
  range = (struct tagc_change_range){TAGC_CHANGE_UNKNOWN, TAGC_CHANGE_UNKNOWN};
  tagc_message_change(&to[0], &range);
  range = (struct tagc_change_range){TAGC_CHANGE_UNKNOWN, TAGC_CHANGE_UNKNOWN};
  tagc_message_change(&to[1], &range);
  reduce();
  tagc_message_change(&from, &all);
  ok(all.least == TAGC_CHANGE_UNKNOWN, "no rank knows");
  begin();
  range = (struct tagc_change_range){TAGC_CHANGE_WHOLLY, TAGC_CHANGE_WHOLLY};
  tagc_message_change(&to[0], &range);
  range = (struct tagc_change_range){TAGC_CHANGE_NONE, TAGC_CHANGE_NONE};
  tagc_message_change(&to[1], &range);
  reduce();
  tagc_message_change(&from, &all);
  ok(all.largest == TAGC_CHANGE_WHOLLY && all.least == TAGC_CHANGE_NONE, "the largest and the least come out");
}

static void maps(void) {
  begin();
  tagc_message_map(&to[0], &(struct tagc_vote_map){true, true, tagc_vote_own(7)});
  tagc_message_map(&to[1], &(struct tagc_vote_map){true, true, tagc_vote_own(9)});
  ok(is((int64_t[]){1, 1, 7, -7}, TAGC_MESSAGE_MAP),
     "a map of PyTorch's modules: answered, found, its digest, the same negated");
  reduce();
  struct tagc_vote_map map = {0};
  tagc_message_map(&from, &map);
  ok(map.found && map.digest.least == 7 && map.digest.most == 9 && is_read(TAGC_MESSAGE_MAP), "ranks may have others");
  begin();
  tagc_message_map(&to[0], &(struct tagc_vote_map){true, true, tagc_vote_own(7)});
  tagc_message_map(&to[1], &(struct tagc_vote_map){true, false, tagc_vote_own(0)});
  reduce();
  tagc_message_map(&from, &map);
  ok(map.answered && !map.found, "is found where all ranks found one");
  begin();
  tagc_message_map(&to[0], &(struct tagc_vote_map){true, true, tagc_vote_own(7)});
  tagc_message_map(&to[1], &(struct tagc_vote_map){false, false, tagc_vote_own(0)});
  reduce();
  tagc_message_map(&from, &map);
  ok(!map.answered, "and answered where all ranks have an answer");
}

int main(void) {
  maps();
  hosts();
  changes();
  values();
  samples();
  times();
  proposals();
  return tap_done();
}
