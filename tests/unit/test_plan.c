/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/plan: a table of calls, each with the one thing that decides.
 */
#include <string.h>

#include "interpose/plan.h"
#include "kernels/codecs.h"
#include "tests/unit/tap.h"

static struct tagc_options options;

/* A call that would be compressed. */
static struct tagc_call_facts good_call(void)
{
  tagc_options_default(&options);
  return (struct tagc_call_facts){
    .options = &options, .collective = TAGC_REDUCE_SCATTER, .compressible_type = true, .op = TAGC_OP_SUM, .nranks = 2,
    .bytes = 1 << 22, .device = true, .agreed = true, .state = TAGC_CYCLE_ON_TRACK, .slot = 3, .cycle = 5, .vote_cycle = TAGC_VOTE_CYCLE, .voted = true,
    .verdict = TAGC_REASON_compressed,
  };
}

static void is(const struct tagc_call_facts *facts, enum tagc_action action, enum tagc_reason reason, const char *what)
{
  struct tagc_decision d = tagc_plan_call(facts);
  ok(d.action == action && d.reason == reason, "%s: %s", what, tagc_reason_words(d.reason));
}

static void calls(void)
{
  struct tagc_call_facts f = good_call();
  is(&f, TAGC_COMPRESS, TAGC_REASON_compressed, "a gradient");
  f = good_call(), f.collective = TAGC_ALL_GATHER;
  is(&f, TAGC_PASS, TAGC_REASON_function, "an all-gather");
  f = good_call(), f.compressible_type = false;
  is(&f, TAGC_PASS, TAGC_REASON_type, "integers");
  f = good_call(), f.op = TAGC_OP_OTHER;
  is(&f, TAGC_PASS, TAGC_REASON_op, "a maximum");
  f = good_call(), f.nranks = 1;
  is(&f, TAGC_PASS, TAGC_REASON_one_rank, "one rank");
  f = good_call(), f.agreed = false;
  is(&f, TAGC_PASS, TAGC_REASON_disagreement, "ranks that do not agree");
  f = good_call(), f.device = false;
  is(&f, TAGC_PASS, TAGC_REASON_device, "no codec for the device");
  f = good_call(), f.bytes = (1 << 20) - 1;
  is(&f, TAGC_PASS, TAGC_REASON_small, "one byte below TAGC_MIN_BYTES");
  f = good_call(), f.bytes = 1 << 20;
  is(&f, TAGC_COMPRESS, TAGC_REASON_compressed, "exactly TAGC_MIN_BYTES");
  f = good_call(), f.state = TAGC_CYCLE_LEARNING, f.slot = -1;
  is(&f, TAGC_PASS, TAGC_REASON_learning, "no cycle yet");
  f = good_call(), f.state = TAGC_CYCLE_OFF_TRACK, f.slot = -1;
  is(&f, TAGC_PASS, TAGC_REASON_off_track, "an unexpected call");
  f = good_call(), f.voted = false;
  is(&f, TAGC_PASS, TAGC_REASON_warm_up, "before the vote");
  f = good_call(), f.verdict = TAGC_REASON_vote;
  is(&f, TAGC_PASS, TAGC_REASON_vote, "the vote was lost");
  f = good_call(), f.verdict = TAGC_REASON_denser, f.dirty = true;
  is(&f, TAGC_FLUSH, TAGC_REASON_flushed, "a slot that is not compressed any more, with something left");
  f.dirty = false;
  is(&f, TAGC_PASS, TAGC_REASON_denser, "and with nothing left");
  f.dirty = true, f.cycle = 1;
  is(&f, TAGC_PASS, TAGC_REASON_warm_up, "but nothing is flushed before the first cycle");
  f = good_call(), f.verdict = TAGC_REASON_unselected;
  is(&f, TAGC_PASS, TAGC_REASON_unselected, "not selected");
  f = good_call(), options.mode = TAGC_MODE_OBSERVE;
  is(&f, TAGC_PASS, TAGC_REASON_observe, "TAGC_MODE=observe");
  f = good_call(), options.mode = TAGC_MODE_OFF;
  is(&f, TAGC_PASS, TAGC_REASON_off, "TAGC_MODE=off");
  f = good_call(), options.warmup = 5;
  is(&f, TAGC_PASS, TAGC_REASON_warm_up, "the fifth cycle of a warm-up of five");
  f = good_call(), options.warmup = 4;
  is(&f, TAGC_COMPRESS, TAGC_REASON_compressed, "the cycle after a warm-up of four");
  f = good_call(), f.vote_cycle = 8, f.cycle = 7;
  is(&f, TAGC_PASS, TAGC_REASON_warm_up, "the cycle before a vote that was put off");
  f.cycle = 8;
  is(&f, TAGC_COMPRESS, TAGC_REASON_compressed, "and the one that it was held in");
}

static void votes(void)
{
  char seen[64] = "";
  for (uint64_t vote = TAGC_VOTE_CYCLE, cycle = 1; cycle < 20; cycle++) {
    const bool looks = vote && tagc_plan_looks(vote, cycle), votes = cycle == vote;
    strcat(seen, votes ? "v" : looks ? "l" : "-");
    if (votes)
      vote = tagc_plan_next_vote(vote);
  }
  ok(strcmp(seen, "lvlv--lv------lv---") == 0, "looks and votes while the looks are no good: %s", seen);
}

static void windows(uint64_t vote_cycle)
{
  /* warmup 1: the cycle of the vote is the first; windows of 3 cycles: plain, compressed, plain ... */
  char seen[16] = "", dirty = 0;
  for (uint64_t cycle = vote_cycle; cycle < vote_cycle + 10; cycle++) {
    struct tagc_call_facts f = good_call();
    f.vote_cycle = vote_cycle;
    options.mode = TAGC_MODE_AB;
    options.ab = 3;
    f.cycle = cycle;
    f.dirty = dirty;
    enum tagc_action action = tagc_plan_call(&f).action;
    strcat(seen, action == TAGC_PASS ? "p" : action == TAGC_FLUSH ? "f" : "c");
    dirty = action == TAGC_COMPRESS || (dirty && action != TAGC_FLUSH);
  }
  ok(strcmp(seen, "pppcccfppc") == 0, "A/B windows of three from cycle %d on, a flush after each compressed one: %s",
     (int)vote_cycle, seen);
}

static bool half_layout(const struct tagc_shape *shape, struct tagc_layout *layout)
{
  memset(layout, 0, sizeof *layout);
  layout->message_bytes = shape->n * tagc_dtype_size(shape->dtype) / 2;
  return true;
}

static bool full_layout(const struct tagc_shape *shape, struct tagc_layout *layout)
{
  half_layout(shape, layout);
  layout->message_bytes *= 2;
  return true;
}

static void slots(void)
{
  static const struct tagc_codec half = {.name = "half", .needs_residual = true, .layout = half_layout};
  static const struct tagc_codec full = {.name = "full", .needs_residual = true, .layout = full_layout};
  static const struct tagc_codec dense = {.name = "dense", .layout = half_layout};
  struct tagc_slot_info info = {.unit = 4, .name = "unit4"};
  struct tagc_slot_question good = {.options = &options, .codec = &half, .slot = &info, .hosts = {2, 2, 1},
                                    .scope.reason = TAGC_REASON_compressed,
                                    .shape = {1 << 20, 2, TAGC_FLOAT32, 200000, TAGC_STORAGE_FP32}, .op = TAGC_OP_AVG,
                                    .gradients = true, .residual_left = UINT64_C(1) << 30}, q;
  struct tagc_layout layout;
  uint64_t bytes;
  tagc_options_default(&options);
  ok(tagc_plan_slot(&good, &layout, &bytes) == TAGC_REASON_compressed && bytes == 4 << 20,
     "a slot that takes 4 MiB of residual at two ranks");
  q = good, q.gradients = false;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_activations, "activations pass");
  options.assume = TAGC_ASSUME_GRADIENTS;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed, "unless TAGC_ASSUME=gradients");
  q = good, q.residual_left = (4 << 20) - 1;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_no_residual, "one byte short of its residual");
  q.codec = &dense;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed && bytes == 0, "a codec that can do without one");
  options.residual = TAGC_RESIDUAL_NONE;
  q = good, q.shape.residual = tagc_plan_storage(&options, &half);
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_no_residual, "TAGC_RESIDUAL=none");
  tagc_options_default(&options);
  options.skip = "0-4";
  ok(tagc_plan_slot(&good, &layout, &bytes) == TAGC_REASON_unselected, "TAGC_SKIP=0-4");
  options.skip = "";
  options.layers = "unit5";
  ok(tagc_plan_slot(&good, &layout, &bytes) == TAGC_REASON_unselected, "TAGC_LAYERS=unit5");
  tagc_options_default(&options);
  q = good, q.codec = &full;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_no_gain, "a payload as large as the plain call");
  q.codec = &tagc_codec_none, q.shape.residual = TAGC_STORAGE_NONE;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed, "but the control may cost bytes");
  q = good, q.shape.dtype = TAGC_FLOAT16;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_loss_scale, "fp16 with a residual");
  options.codec = "half";
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed, "unless the codec is forced");
  q = good, q.shape.n = 0;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_type, "a type without codec");
  q = good, q.op = TAGC_OP_OTHER;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_op, "a maximum");
  options.bad = true;
  ok(tagc_plan_slot(&good, &layout, &bytes) == TAGC_REASON_bad_option, "a refused option");
}

int main(void)
{
  calls();
  votes();
  windows(TAGC_VOTE_CYCLE);
  windows(8);
  slots();
  return tap_done();
}
