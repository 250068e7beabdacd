/* SPDX-License-Identifier: BSD-3-Clause
 * What proves that all-reduces are of gradients, and what does not: beginnings as programs make them, and like them but
 * for one fact. They are played until what nothing proves has a cycle, too.
 */
#include "layermap/cycle/beginning.h"
#include "tests/unit/watch.h"

enum { INT32 = TAGC_CODE_INT32, INT64 = TAGC_CODE_INT64, STEPS = 200, RANKS = 4 };

static struct tape tape;

static void add(enum tagc_collective collective, uint64_t count, int dtype) {
  tape_add(&tape, collective, count, dtype, -1);
  struct tagc_signature *s = &tape.calls[tape.count - 1].signature;
  s->op = TAGC_CODE_SUM;
  s->is_float = dtype == FLOAT || dtype == HALF;
}

static void broadcast(uint64_t count, int dtype) { add(TAGC_COLL_BROADCAST, count, dtype); }
static void reduce(uint64_t count) { add(TAGC_COLL_ALL_REDUCE, count, FLOAT); }

static const uint64_t buckets[] = {345408, 296640, 296832, 74112};
enum { BUCKETS = 4, PARAMETERS = 345408 + 296640 + 296832 + 74112, TOKENS = 1 << 16 };

static void step(void) {
  for (int i = 0; i < BUCKETS; i++)
    reduce(buckets[i]);
}

static void steps(void (*one)(void)) {
  for (int i = 0; i < STEPS; i++) {
    one();
    reduce(1);
  }
}

static void constructor(void) {
  add(TAGC_COLL_ALL_GATHER, 1, INT64);
  broadcast(144, INT64);
}

static void rebuilding(uint64_t bucket_count) {
  broadcast(54, INT32);
  broadcast(bucket_count, INT32);
}

static void ddp(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  steps(step);
}

static void only_rebuilt(void) {
  reduce(PARAMETERS);
  rebuilding(BUCKETS);
  steps(step);
}

static void rebuilt_otherwise(void) {
  reduce(PARAMETERS);
  rebuilding(BUCKETS + 1);
  steps(step);
}

static void rebuilt_alike(void) {
  step();
  rebuilding(BUCKETS);
  steps(step);
}

static void rebuilt_more(void) {
  reduce(PARAMETERS + 2 * TOKENS);
  rebuilding(BUCKETS);
  steps(step);
}

static void step_that_rebuilds(void) {
  step();
  rebuilding(BUCKETS);
}

static void rebuilt_each_time(void) {
  reduce(PARAMETERS);
  steps(step_that_rebuilds);
}

static void two_passes(void) {
  step();
  step();
}

static void accumulated(void) {
  reduce(PARAMETERS);
  rebuilding(BUCKETS);
  steps(two_passes);
}

/* As many passes in a step as the number of steps so far tells. */
static void varied_passes(void) {
  static int steps_so_far;
  for (int i = 0; i < 2 + steps_so_far % 4 % 3; i++)
    step();
  steps_so_far++;
}

static void accumulated_and_broadcast(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  steps(two_passes);
}

static void accumulated_of_unknown(void) {
  broadcast(PARAMETERS, FLOAT);
  steps(two_passes);
}

static void accumulated_varied(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  steps(varied_passes);
}

static void one_by_one(void) {
  for (int i = 0; i < BUCKETS; i++) {
    broadcast(buckets[i] - 4800, FLOAT);
    broadcast(4800, FLOAT);
  }
  steps(step);
}

static void two_more_elements(void) {
  constructor();
  broadcast(PARAMETERS + 2, FLOAT);
  steps(step);
}

static void bytes(void) {
  broadcast(4 * (uint64_t)PARAMETERS, BYTES);
  steps(step);
}

static void bytes_of_halves(void) {
  broadcast(2 * (uint64_t)PARAMETERS, BYTES);
  steps(step);
}

static void moments(void) {
  for (int i = 0; i < 3; i++)
    broadcast(PARAMETERS, FLOAT);
  steps(step);
}

/* FSDP1 with NO_SHARD: units are broadcast as they are, and summed with padding (RANKS). */
static void broadcast_units(uint64_t missing) {
  for (int i = 0; i < BUCKETS; i++)
    broadcast(buckets[i] - (i ? 0 : missing), FLOAT);
}

static void padded_units(void) {
  broadcast_units(RANKS - 1);
  steps(step);
}

static void padded_too_much(void) {
  broadcast_units(RANKS);
  steps(step);
}

static void twice_the_sum(void) {
  broadcast(2 * PARAMETERS, FLOAT);
  steps(step);
}

static void step_with_buffers(void) {
  broadcast(1472, FLOAT);
  step();
}

static void buffers(void) {
  constructor();
  broadcast(PARAMETERS + 1472, FLOAT);
  steps(step_with_buffers);
}

static void step_with_statistics(void) {
  step();
  reduce(40000);
}

static void statistics(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  steps(step_with_statistics);
}

static void step_with_larger(void) {
  reduce(3000000);
  step();
}

static void larger(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  steps(step_with_larger);
}

static void step_that_averages(void) {
  step();
  reduce(PARAMETERS);
}

static void averages(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  steps(step_that_averages);
}

static void step_that_averages_buffers(void) {
  step();
  reduce(PARAMETERS + 1000);
}

static void averages_with_buffers(void) {
  constructor();
  broadcast(PARAMETERS + 1000, FLOAT);
  steps(step_that_averages_buffers);
}

static void step_with_metrics(void) {
  step();
  for (int i = 0; i < 4; i++)
    reduce(1 + (uint64_t)i % 2);
}

/* As many as the bytes of a state of random numbers, which is broadcast once. */
static void metrics(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  broadcast(28, TAGC_CODE_UINT8);
  steps(step_with_metrics);
}

static void larger_of_unknown(void) {
  broadcast(PARAMETERS, FLOAT);
  steps(step_with_larger);
}

/* A contrastive loss: features of pictures and words are gathered, and their gradients reduce-scattered. */
static void contrast(uint64_t words) {
  add(TAGC_COLL_ALL_GATHER, TOKENS, FLOAT);
  add(TAGC_COLL_ALL_GATHER, words, FLOAT);
  add(TAGC_COLL_REDUCE_SCATTER, words, FLOAT);
  add(TAGC_COLL_REDUCE_SCATTER, TOKENS, FLOAT);
}

static void step_with_features(void) {
  contrast(TOKENS / 2);
  step();
}

static void features(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  steps(step_with_features);
}

static void features_of_unknown(void) { steps(step_with_features); }

static void many_broadcasts(void) {
  for (int i = 0; i < TAGC_BEGINNING_BROADCASTS; i++)
    broadcast((uint64_t)(i + 1), FLOAT);
  broadcast(PARAMETERS - TAGC_BEGINNING_BROADCASTS * (TAGC_BEGINNING_BROADCASTS + 1) / 2, FLOAT);
  steps(step);
}

/* Sums that no NCCL takes come to nothing at all. */
static void beyond_numbers(void) {
  reduce(UINT64_C(1) << 63);
  reduce(UINT64_C(1) << 63);
}

static void huge(void) {
  constructor();
  reduce(PARAMETERS);
  rebuilding(2);
  steps(beyond_numbers);
}

static void two_widths(void) {
  reduce(3 * TOKENS);
  reduce(TOKENS);
}

static void of_tokens(void) {
  broadcast(4 * TOKENS, FLOAT);
  steps(two_widths);
}

static void like_layers(void) {
  for (int i = 0; i < 8; i++)
    reduce(PARAMETERS);
}

static void keys_and_values(void) {
  broadcast(8 * (uint64_t)PARAMETERS, FLOAT);
  steps(like_layers);
}

static void one_bucket(void) { reduce(PARAMETERS); }

static void one_of_all(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  steps(one_bucket);
}

static void one_of_something(void) {
  broadcast(PARAMETERS, FLOAT);
  steps(one_bucket);
}

static void alike(void) {
  for (int i = 0; i < BUCKETS; i++)
    reduce(PARAMETERS / BUCKETS);
}

static void alike_with_a_loss(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  steps(alike);
}

static void alike_alone(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  for (int i = 0; i < STEPS; i++)
    alike();
}

static void nothing(void) { steps(step); }

static void ddp_rebuilt(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  reduce(PARAMETERS);
  rebuilding(BUCKETS);
  steps(step);
}

static void one_rebuilt(void) {
  constructor();
  broadcast(PARAMETERS, FLOAT);
  step();
  rebuilding(1);
  steps(one_bucket);
}

static void averages_later(void) {
  ddp_rebuilt();
  for (int i = 0; i < 4; i++)
    steps(one_bucket);
}

static const struct {
  const char *what;
  void (*program)(void);
  size_t gradients;
} cases[] = {
  {"DDP's constructor, and its broadcast", ddp, BUCKETS},
  {"buckets that were cut anew", only_rebuilt, BUCKETS},
  {"another number of them was told", rebuilt_otherwise, 0},
  {"before, they were the same", rebuilt_alike, 0},
  {"before, more was reduced", rebuilt_more, 0},
  {"the numbers come in each step", rebuilt_each_time, 0},
  {"two passes of as many buckets", accumulated, 2 * BUCKETS},
  {"two passes of as much as DDP broadcast", accumulated_and_broadcast, 2 * BUCKETS},
  {"two passes of as much as something broadcast", accumulated_of_unknown, 0},
  {"2, 3 and 4 passes in turns", accumulated_varied, 2 * BUCKETS},
  {"parameters that are broadcast one by one", one_by_one, BUCKETS},
  {"two elements more were broadcast", two_more_elements, 0},
  {"bytes of parameters", bytes, BUCKETS},
  {"bytes of parameters in half precision", bytes_of_halves, BUCKETS},
  {"parameters and two moments of each", moments, BUCKETS},
  {"units, one of them padded to the ranks", padded_units, BUCKETS},
  {"units, one of them with another rank's element", padded_too_much, 0},
  {"twice as much in one broadcast", twice_the_sum, 0},
  {"parameters and buffers, which come again in each step", buffers, BUCKETS},
  {"another sum, smaller than all buckets", statistics, BUCKETS},
  {"another sum, larger than DDP's buckets", larger, BUCKETS},
  {"another sum, larger than those of something", larger_of_unknown, 0},
  {"the parameters themselves are summed, too", averages, 0},
  {"and buffers with them", averages_with_buffers, 0},
  {"losses and metrics, as many as a broadcast has bytes", metrics, BUCKETS},
  {"features are reduce-scattered beside DDP", features, BUCKETS},
  {"features are reduce-scattered beside unknown sums", features_of_unknown, 0},
  {"more different broadcasts than are kept", many_broadcasts, 0},
  {"counts whose sum is none", huge, 0},
  {"activations of two widths, as many as were broadcast", of_tokens, 0},
  {"those of like layers, as many as keys and values", keys_and_values, 0},
  {"one bucket of all that DDP broadcast", one_of_all, 1},
  {"one sum as large as what was broadcast", one_of_something, 0},
  {"DDP's buckets of one size, and a loss in each step", alike_with_a_loss, BUCKETS},
  {"DDP's buckets of one size alone: nothing tells where a step begins", alike_alone, 0},
  {"no beginning", nothing, 0},
};

/* Are the gradients DDP's buckets, which it cut anew? */
static const struct {
  const char *what;
  void (*program)(void);
  bool rebuilt;
} rebuilt_cases[] = {
  {"DDP's buckets are gradients only, once they are cut anew", ddp_rebuilt, true},
  {"they were not", ddp, false},
  {"twice as many calls may be anything", accumulated, false},
  {"a single one may be of all parameters", one_rebuilt, false},
  {"sums of all parameters, behind many steps of them", averages_later, false},
};

static void rebuilt(void) {
  for (size_t i = 0; i < sizeof rebuilt_cases / sizeof *rebuilt_cases; i++) {
    const struct tagc_cycle_options options = {1, 256, RANKS};
    struct watch w = {.cycle = tagc_cycle_create(&options)};
    rebuilt_cases[i].program();
    play(&w, &tape);
    ok(tagc_cycle_is_gradients(w.cycle) && tagc_cycle_has_rebuilt_buckets(w.cycle) == rebuilt_cases[i].rebuilt, "%s",
       rebuilt_cases[i].what);
    tagc_cycle_destroy(w.cycle);
  }
}

int main(void) {
  rebuilt();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const struct tagc_cycle_options options = {1, 256, RANKS};
    struct watch w = {.cycle = tagc_cycle_create(&options)};
    size_t count, evident = 0;
    cases[i].program();
    play(&w, &tape);
    const struct tagc_slot_info *slots = tagc_cycle_slots(w.cycle, &count);
    for (size_t k = 0; k < count && tagc_cycle_is_gradients(w.cycle); k++)
      evident += slots[k].evident;
    ok(count && evident == cases[i].gradients, "%s: %zu of %zu are gradients", cases[i].what, evident, count);
    ok(!evident || 10 * w.in_sync >= 9 * w.calls, "and %u of %u calls are on the track", w.in_sync, w.calls);
    tagc_cycle_destroy(w.cycle);
  }
  return tap_done();
}
