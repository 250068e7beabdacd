/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/policy/plan: a table of calls, each with its one deciding fact.
 */
#include <string.h>

#include "interpose/policy/plan.h"
#include "kernels/codec/codecs.h"
#include "tests/unit/tap.h"

static struct tagc_options options;

/* A call that would be compressed. */
static struct tagc_call_facts good_call(void) {
  tagc_options_default(&options);
  return (struct tagc_call_facts){
    .options = &options,
    .collective = TAGC_COLL_REDUCE_SCATTER,
    .compressible_type = true,
    .op = TAGC_OP_SUM,
    .nranks = 2,
    .bytes = 1 << 22,
    .device = true,
    .agreed = true,
    .state = TAGC_CYCLE_IN_SYNC,
    .slot = 3,
    .cycle = 5,
    .vote_cycle = TAGC_VOTE_CYCLE,
    .voted = true,
    .slot_reason = TAGC_REASON_compressed,
  };
}

static void is(const struct tagc_call_facts *facts, enum tagc_action action, enum tagc_reason reason,
               const char *what) {
  struct tagc_decision d = tagc_plan_call(facts);
  ok(d.action == action && d.reason == reason, "%s: %s", what, tagc_reason_words(d.reason));
}

static void calls(void) {
  struct tagc_call_facts f = good_call();
  is(&f, TAGC_COMPRESS, TAGC_REASON_compressed, "a gradient");
  f = good_call(), f.collective = TAGC_COLL_ALL_GATHER;
  is(&f, TAGC_COMPRESS, TAGC_REASON_compressed, "an all-gather of parameters");
  f.allgather_reason = TAGC_REASON_allgather_named;
  is(&f, TAGC_PASS, TAGC_REASON_allgather_named, "one that no option compresses");
  f.slot = -1;
  is(&f, TAGC_PASS, TAGC_REASON_function, "another all-gather");
  f = good_call(), f.collective = TAGC_COLL_ALL_REDUCE;
  is(&f, TAGC_COMPRESS, TAGC_REASON_compressed, "an all-reduce that is a slot");
  f.slot = -1;
  is(&f, TAGC_PASS, TAGC_REASON_function, "another all-reduce");
  f = good_call(), f.compressible_type = false;
  is(&f, TAGC_PASS, TAGC_REASON_type, "integers");
  f = good_call(), f.config_reason = TAGC_REASON_config_event, f.dirty = true;
  is(&f, TAGC_PASS, TAGC_REASON_config_event,
     "a configuration that only NCCL can keep, and what is left of earlier calls");
  f.slot_reason = TAGC_REASON_denser;
  is(&f, TAGC_PASS, TAGC_REASON_config_event, "the same, where its slot is plain by now");
  f.voted = false;
  is(&f, TAGC_PASS, TAGC_REASON_warm_up, "before the vote, which is to know of it");
  f = good_call(), f.op = TAGC_OP_OTHER;
  is(&f, TAGC_PASS, TAGC_REASON_op, "a maximum");
  f = good_call(), f.nranks = 1;
  is(&f, TAGC_PASS, TAGC_REASON_one_rank, "one rank");
  f = good_call(), f.agreed = false;
  is(&f, TAGC_PASS, TAGC_REASON_disagreement, "ranks that do not agree");
  options.bad = true;
  is(&f, TAGC_PASS, TAGC_REASON_bad_option, "a rank that has refused an option");
  options.bad = false;
  f = good_call(), f.device = false;
  is(&f, TAGC_PASS, TAGC_REASON_device, "no codec for the device");
  f = good_call(), f.bytes = (1 << 20) - 1;
  is(&f, TAGC_PASS, TAGC_REASON_small, "one byte below TAGC_MIN_BYTES");
  f = good_call(), f.bytes = 1 << 20;
  is(&f, TAGC_COMPRESS, TAGC_REASON_compressed, "exactly TAGC_MIN_BYTES");
  f = good_call(), f.state = TAGC_CYCLE_LEARNING, f.slot = -1;
  is(&f, TAGC_PASS, TAGC_REASON_learning, "no cycle yet");
  f = good_call(), f.state = TAGC_CYCLE_OUT_OF_SYNC, f.slot = -1;
  is(&f, TAGC_PASS, TAGC_REASON_out_of_sync, "an unexpected call");
  f = good_call(), f.voted = false;
  is(&f, TAGC_PASS, TAGC_REASON_warm_up, "before the vote");
  f = good_call(), f.slot_reason = TAGC_REASON_vote;
  is(&f, TAGC_PASS, TAGC_REASON_vote, "the vote was lost");
  f = good_call(), f.slot_reason = TAGC_REASON_denser, f.dirty = true;
  is(&f, TAGC_FLUSH, TAGC_REASON_flushed, "a slot that is not compressed any more, with something left");
  f.dirty = false;
  is(&f, TAGC_PASS, TAGC_REASON_denser, "and with nothing left");
  f.dirty = true, f.cycle = 1;
  is(&f, TAGC_PASS, TAGC_REASON_warm_up, "but nothing is flushed before the first cycle");
  f = good_call(), f.slot_reason = TAGC_REASON_unselected;
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

static void votes(void) {
  char seen[64] = "";
  for (uint64_t vote = TAGC_VOTE_CYCLE, cycle = 1; cycle < 20; cycle++) {
    const bool looks = vote && tagc_plan_samples(vote, cycle), votes = cycle == vote;
    strcat(seen, votes ? "v" : looks ? "l" : "-");
    if (votes)
      vote = tagc_plan_next_vote(vote);
  }
  ok(strcmp(seen, "lvlv--lv------lv---") == 0, "looks and votes while the looks are no good: %s", seen);
}

static void windows(uint64_t vote_cycle) {
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

static bool half_layout(const struct tagc_shape *shape, struct tagc_layout *layout) {
  memset(layout, 0, sizeof *layout);
  layout->message_bytes = shape->n * tagc_dtype_size(shape->dtype) / 2;
  return true;
}

static bool full_layout(const struct tagc_shape *shape, struct tagc_layout *layout) {
  half_layout(shape, layout);
  layout->message_bytes *= 2;
  return true;
}

static void slots(void) {
  static const struct tagc_codec half = {.name = "half", .needs_residual = true, .layout = half_layout};
  static const struct tagc_codec full = {.name = "full", .needs_residual = true, .layout = full_layout};
  static const struct tagc_codec dense = {.name = "dense", .layout = half_layout};
  struct tagc_slot_info info = {.unit = 4, .name = "unit4"};
  struct tagc_slot_question good = {.options = &options,
                                    .codec = &half,
                                    .slot = &info,
                                    .hosts = {2, 2, 1},
                                    .scope.reason = TAGC_REASON_compressed,
                                    .packed = {1 << 20, 2, TAGC_FLOAT32, 200000, TAGC_STORAGE_FP32, 0},
                                    .op = TAGC_OP_AVG,
                                    .gradients = true,
                                    .residual_left = UINT64_C(1) << 30},
                            q;
  struct tagc_layout layout;
  uint64_t bytes;
  tagc_options_default(&options);
  ok(tagc_plan_slot(&good, &layout, &bytes) == TAGC_REASON_compressed && bytes == 4 << 20,
     "a slot that takes 4 MiB of residual at two ranks");
  q = good, q.gradients = false;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_ungathered, "what nothing gathers passes");
  struct tagc_slot_info gathered = info;
  gathered.gathered = true;
  q.slot = &gathered;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_activations, "activations pass");
  q.changes = true;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_changes, "with a reason of their own if contents tell");
  gathered.signature.collective = TAGC_COLL_ALL_REDUCE;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_averaged, "as do averages of parameters");
  options.assume = TAGC_ASSUME_GRADIENTS;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed, "unless TAGC_ASSUME=gradients");
  q = good, q.residual_left = (4 << 20) - 1;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_no_residual, "one byte short of its residual");
  q.codec = &dense;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed && bytes == 0, "a codec that can do without one");
  options.residual = TAGC_RESIDUAL_NONE;
  q = good, q.packed.residual = tagc_plan_storage(&options, &half);
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
  q.codec = &tagc_codec_none, q.packed.residual = TAGC_STORAGE_NONE;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed, "but the control may cost bytes");
  q = good, q.packed.dtype = TAGC_FLOAT16;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_loss_scale, "fp16 with a residual");
  options.codec = "half";
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed, "unless the codec is forced");
  q = good, q.packed.n = 0;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_type, "a type without codec");
  q = good, q.op = TAGC_OP_OTHER;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_op, "a maximum");
  options.bad = true;
  ok(tagc_plan_slot(&good, &layout, &bytes) == TAGC_REASON_bad_option, "a refused option");
}

enum { SHARD = 1000000 }; /* bytes */

static uint64_t payload;

static void all_reduce_calls(void) {
  struct tagc_call_facts good = good_call(), f;
  good.collective = TAGC_COLL_ALL_REDUCE;
  is(&good, TAGC_COMPRESS, TAGC_REASON_compressed, "an all-reduce that is a slot");
  f = good, f.slot = -1;
  is(&f, TAGC_PASS, TAGC_REASON_function, "one that is none");
  f = good, f.calls_skipped = true;
  is(&f, TAGC_PASS, TAGC_REASON_out_of_sync, "one that came where another one was expected");
  f.slot_reason = TAGC_REASON_denser, f.dirty = true;
  is(&f, TAGC_PASS, TAGC_REASON_out_of_sync, "nothing that is left of gradients is added to such a one");
  f = good_call(), f.calls_skipped = true;
  is(&f, TAGC_PASS, TAGC_REASON_out_of_sync, "nor a reduce-scatter that came so");
}

/* ---- all-gathers ------------------------------------------------------------------------------------------------- */

static void allgather_calls(void) {
  struct tagc_call_facts good = good_call(), f;
  options.allgather = TAGC_ALLGATHER_Q8;
  good.collective = TAGC_COLL_ALL_GATHER;
  is(&good, TAGC_COMPRESS, TAGC_REASON_compressed, "an all-gather of parameters, TAGC_ALLGATHER=q8");
  f = good, f.slot = -1;
  is(&f, TAGC_PASS, TAGC_REASON_unpaired, "one of something else");
  f.state = TAGC_CYCLE_OUT_OF_SYNC;
  is(&f, TAGC_PASS, TAGC_REASON_out_of_sync, "an unexpected one");
  f.state = TAGC_CYCLE_LEARNING;
  is(&f, TAGC_PASS, TAGC_REASON_learning, "one before there is a cycle");
  f = good, f.compressible_type = false;
  is(&f, TAGC_PASS, TAGC_REASON_type, "one of bytes");
  f = good, f.bytes = (1 << 20) - 1;
  is(&f, TAGC_PASS, TAGC_REASON_small, "one that gathers a byte less than TAGC_MIN_BYTES");
  f = good, f.agreed = false;
  is(&f, TAGC_PASS, TAGC_REASON_disagreement, "one of ranks that do not agree");
  f = good, f.voted = false;
  is(&f, TAGC_PASS, TAGC_REASON_warm_up, "one before the vote");
  f = good, f.resync_pending = true;
  is(&f, TAGC_PASS, TAGC_REASON_out_of_sync, "one in a cycle that did not begin where it was expected to");
  f = good, f.slot_reason = TAGC_REASON_escapes, f.stale = true;
  is(&f, TAGC_PASS, TAGC_REASON_escapes, "one that has become plain");
  f = good, f.stale = true;
  is(&f, TAGC_FLUSH, TAGC_REASON_refreshed, "one without anything to refer to");
  options.mode = TAGC_MODE_AB, options.ab = 3, f.cycle = TAGC_VOTE_CYCLE;
  is(&f, TAGC_PASS, TAGC_REASON_ab_plain, "but not in a plain window");
  f.cycle += 3;
  is(&f, TAGC_FLUSH, TAGC_REASON_refreshed, "and again in the first cycle of a compressed one");
  options.mode = TAGC_MODE_OBSERVE;
  is(&f, TAGC_PASS, TAGC_REASON_observe, "TAGC_MODE=observe");
}

static bool is_half(struct tagc_traffic half, struct tagc_traffic whole) {
  return 2 * half.inside == whole.inside && 2 * half.between == whole.between;
}

/* A reduce-scatter, and an all-gather of the sums with as few bits as allowed. */
static void all_reduces(void) {
  static const struct tagc_slot_info scatter = {.unit = 4, .name = "unit4"},
                                     info = {
                                       .signature = {.collective = TAGC_COLL_ALL_REDUCE}, .unit = 4, .name = "unit4"};
  struct tagc_slot_question q = {.options = &options,
                                 .codec = &tagc_codec_q4,
                                 .slot = &info,
                                 .hosts = {4, 4, 1},
                                 .packed = {1 << 20, 4, TAGC_FLOAT32, 0, TAGC_STORAGE_NONE, 0},
                                 .op = TAGC_OP_SUM,
                                 .gradients = true};
  struct tagc_slot_question half = q;
  struct tagc_layout layout;
  uint64_t residual;
  tagc_options_default(&options);
  half.slot = &scatter;
  ok(is_half(tagc_plan_plain_traffic(&half), tagc_plan_plain_traffic(&q)),
     "a plain all-reduce sends twice what a reduce-scatter does");
  struct tagc_allgather_phase phase = tagc_plan_allgather_phase(&q);
  ok(phase.codec == &tagc_allgather_q8 && phase.shape.n == 1 << 20 && phase.shape.nranks == 4 &&
       phase.layout.payload_bytes < 5 << 18,
     "q4: sums are gathered by q8, %zu bytes a rank", phase.layout.payload_bytes);
  ok(tagc_plan_slot(&q, &layout, &residual) == TAGC_REASON_compressed, "and that is worth it");
  const struct tagc_traffic sent = tagc_plan_traffic(&q, &layout), first = tagc_plan_traffic(&half, &layout);
  ok(sent.between + sent.inside == first.between + first.inside + 3 * phase.layout.payload_bytes,
     "both halves are counted: %llu bytes", (unsigned long long)(sent.between + sent.inside));
  q.codec = &tagc_codec_bf16;
  ok(tagc_plan_allgather_phase(&q).codec == &tagc_allgather_bf16, "bf16: by bf16");
  q.packed.dtype = TAGC_FLOAT16;
  ok(!tagc_plan_allgather_phase(&q).codec && tagc_plan_slot(&q, &layout, &residual) == TAGC_REASON_no_gain,
     "but 16 bits plainly, and then nothing would be saved");
  q.codec = &tagc_codec_none;
  ok(!tagc_plan_allgather_phase(&q).codec, "none: plainly");
  q.hosts = (struct tagc_hosts){4, 2, 2}, q.packed.nranks = 2, q.scope.two_levels = true;
  ok(tagc_plan_allgather_phase(&q).shape.nranks == 4, "in two levels sums are gathered from all ranks");
  q.host_memory = true;
  q.codec = &tagc_codec_q4;
  ok(!tagc_plan_allgather_phase(&q).support.payload_bytes, "q4: dense, so nobody looks for nonzero sums");
  q.codec = &tagc_codec_sparse;
  phase = tagc_plan_allgather_phase(&q);
  ok(phase.codec == &tagc_allgather_q8 && phase.support.payload_bytes == phase.layout.payload_bytes,
     "sparse: nonzero sums alone, if they take no more than q8's %zu bytes", phase.layout.payload_bytes);
  q.host_memory = false;
  ok(!tagc_plan_allgather_phase(&q).support.payload_bytes, "but on a GPU the host would wait for their number");
  q.waits_for_sums = true;
  ok(tagc_plan_allgather_phase(&q).support.payload_bytes == phase.support.payload_bytes, "unless it may");
  q.waits_for_sums = false;
  options.sums = TAGC_SUMS_EXACT;
  phase = tagc_plan_allgather_phase(&q);
  ok(!phase.codec && phase.support.payload_bytes == 1 << 20,
     "TAGC_SUMS=exact: nonzero sums, on a GPU too, up to half of plain ones");
  q.codec = &tagc_codec_q4;
  phase = tagc_plan_allgather_phase(&q);
  ok(!phase.codec && !phase.support.payload_bytes, "q4: plain sums");
  half = q;
  half.slot = &scatter;
  ok(tagc_plan_slot(&q, &layout, &residual) == TAGC_REASON_compressed &&
       tagc_plan_traffic(&q, &layout).between ==
         tagc_plan_traffic(&half, &layout).between + tagc_plan_plain_traffic(&half).between,
     "which count as such, and the first half is worth it alone");
  options.sums = TAGC_SUMS_AUTO;
  q.gradients = false;
  ok(tagc_plan_slot_gate(&q) == TAGC_REASON_activations, "one that may be of activations passes");
  options.assume = TAGC_ASSUME_GRADIENTS;
  ok(tagc_plan_slot_gate(&q) == TAGC_REASON_compressed, "unless TAGC_ASSUME=gradients");
}

static size_t reference;

static bool allgather_layout(const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *layout) {
  *layout = (struct tagc_allgather_layout){.payload_bytes = payload, .reference_bytes = reference};
  return shape->dtype == TAGC_FLOAT32;
}

static enum tagc_reason ask_allgather(const struct tagc_allgather_question *q) {
  struct tagc_allgather_layout layout;
  return tagc_plan_allgather(q, &layout);
}

static void allgathers(void) {
  static const struct tagc_allgather_codec codec = {.name = "some", .layout = allgather_layout};
  static const struct tagc_slot_info info = {.unit = 4, .name = "unit4"};
  struct tagc_allgather_question good =
                                   {
                                     .options = &options,
                                     .codec = &codec,
                                     .shape = {SHARD / 4, 4, TAGC_FLOAT32},
                                     .hosts = {4, 2, 2},
                                     .slot = &info,
                                     .gradients = true,
                                   },
                                 q;
  tagc_options_default(&options);
  options.min_bytes = 4 * SHARD;
  payload = SHARD - 1, reference = 0;
  ok(ask_allgather(&good) == TAGC_REASON_compressed, "an all-gather of parameters: a payload that is a byte smaller");
  payload = SHARD;
  ok(ask_allgather(&good) == TAGC_REASON_no_gain, "one that is not");
  payload = 16;
  q = good, q.shape.dtype = TAGC_BFLOAT16;
  ok(ask_allgather(&q) == TAGC_REASON_small, "half the type, half the bytes");
  options.min_bytes /= 2;
  ok(ask_allgather(&q) == TAGC_REASON_no_gain, "a codec that has nothing for the type");
  q = good, q.codec = NULL;
  ok(ask_allgather(&q) == TAGC_REASON_allgather_off, "TAGC_ALLGATHER=off");
  q = good, q.shape.n = 0;
  ok(ask_allgather(&q) == TAGC_REASON_type, "a type without codecs");
  q = good, q.gradients = false;
  ok(ask_allgather(&q) == TAGC_REASON_ungathered, "whose reduce-scatter is none of gradients");
  q = good, q.changes = true;
  ok(ask_allgather(&q) == TAGC_REASON_changes, "one that changes wholly beside gradients");
  q = good, q.gradients = false;
  options.assume = TAGC_ASSUME_GRADIENTS;
  ok(ask_allgather(&q) == TAGC_REASON_compressed, "unless TAGC_ASSUME=gradients");
  q = good, q.hosts = (struct tagc_hosts){4, 1, 4};
  ok(ask_allgather(&q) == TAGC_REASON_one_host, "nothing goes over a network");
  options.scope = TAGC_SCOPE_FLAT;
  ok(ask_allgather(&q) == TAGC_REASON_compressed, "unless TAGC_SCOPE=flat");
  options.skip = "0-4";
  ok(ask_allgather(&good) == TAGC_REASON_unselected, "TAGC_SKIP=0-4");
  options.skip = "";
  q = good, q.layer_known = true, q.selection = TAGC_SELECT_SOME;
  ok(ask_allgather(&q) == TAGC_REASON_unselected, "selected in part: all of it stays plain");
  q.selection = TAGC_SELECT_ALL;
  ok(ask_allgather(&q) == TAGC_REASON_compressed, "selected whole");
  reference = 1000;
  q = good, q.reference_left = 999;
  ok(ask_allgather(&q) == TAGC_REASON_no_reference, "a byte short of its reference");
  q.referred = true;
  ok(ask_allgather(&q) == TAGC_REASON_compressed, "an earlier one has it");
  q.referred = false, q.reference_left = 1000;
  ok(ask_allgather(&q) == TAGC_REASON_compressed, "just enough for it");
  struct tagc_allgather_layout layout = {.reference_bytes = 1000};
  ok(!tagc_plan_is_pinned(&q, &layout), "in memory of the device");
  q.reference_left = 999, q.pinned_left = 999;
  ok(ask_allgather(&q) == TAGC_REASON_no_reference, "too little of either memory, however much of both");
  q.pinned_left = 1000;
  ok(ask_allgather(&q) == TAGC_REASON_compressed && tagc_plan_is_pinned(&q, &layout), "just enough pinned memory");
  q.referred = true;
  ok(!tagc_plan_is_pinned(&q, &layout), "an earlier one has it, wherever that is");
  options.bad = true;
  ok(ask_allgather(&good) == TAGC_REASON_bad_option, "a refused option");
}

/* ---- hosts ------------------------------------------------------------------------------------------------------- */

static bool payload_layout(const struct tagc_shape *shape, struct tagc_layout *layout) {
  (void)shape;
  *layout = (struct tagc_layout){.message_bytes = payload, .capacity = 1};
  return true;
}

static void scopes(void) {
  static const struct tagc_hosts several = {8, 2, 4}, one = {8, 1, 8}, alone = {8, 8, 1}, uneven = {8, 2, 5};
  static const struct {
    int scope;
    const struct tagc_hosts *hosts;
    bool even, splits;
    enum tagc_reason reason;
    bool two_levels;
    const char *what;
  } table[] = {
    {TAGC_SCOPE_AUTO, &several, true, true, TAGC_REASON_compressed, true, "two hosts of four ranks: two levels"},
    {TAGC_SCOPE_INTER, &several, true, true, TAGC_REASON_compressed, true, "inter: as auto"},
    {TAGC_SCOPE_FLAT, &several, true, true, TAGC_REASON_compressed, false, "flat: one"},
    {TAGC_SCOPE_AUTO, &several, true, false, TAGC_REASON_compressed, false, "without ncclCommSplit: one"},
    {TAGC_SCOPE_INTER, &several, true, false, TAGC_REASON_compressed, false, "inter without ncclCommSplit: one"},
    {TAGC_SCOPE_AUTO, &alone, true, true, TAGC_REASON_compressed, false, "one rank a host: one level"},
    {TAGC_SCOPE_INTER, &alone, true, true, TAGC_REASON_compressed, false, "inter, one rank a host: one level"},
    {TAGC_SCOPE_AUTO, &one, true, true, TAGC_REASON_one_host, false, "one host: plain"},
    {TAGC_SCOPE_INTER, &one, true, false, TAGC_REASON_one_host, false, "inter on one host: plain"},
    {TAGC_SCOPE_FLAT, &one, true, false, TAGC_REASON_compressed, false, "flat on one host: forced"},
    {TAGC_SCOPE_AUTO, &uneven, false, true, TAGC_REASON_uneven_hosts, false, "uneven hosts: plain"},
    {TAGC_SCOPE_INTER, &uneven, false, true, TAGC_REASON_uneven_hosts, false, "inter on uneven hosts: plain"},
    {TAGC_SCOPE_FLAT, &uneven, false, true, TAGC_REASON_compressed, false, "flat on uneven hosts: forced"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    tagc_options_default(&options);
    options.scope = table[i].scope;
    const struct tagc_scope_plan plan = tagc_plan_scope(&options, table[i].hosts, table[i].even, table[i].splits);
    ok(plan.reason == table[i].reason && plan.two_levels == table[i].two_levels, "%s", table[i].what);
  }
}

/* Exact sums: two levels if the user asks, on hosts of three ranks or more; 16-bit gradients that are selected whole.
 */
static void exact_scopes(void) {
  static const struct tagc_hosts several = {6, 2, 3}, pairs = {4, 2, 2}, one = {8, 1, 8};
  static const struct {
    int scope;
    const struct tagc_hosts *hosts;
    enum tagc_reason reason;
    bool two_levels;
    const char *what;
  } table[] = {
    {TAGC_SCOPE_AUTO, &several, TAGC_REASON_compressed, false, "by default exact sums are flat"},
    {TAGC_SCOPE_AUTO, &one, TAGC_REASON_compressed, false, "on one host, too"},
    {TAGC_SCOPE_INTER, &several, TAGC_REASON_compressed, true, "inter: two levels, on hosts of three ranks"},
    {TAGC_SCOPE_INTER, &pairs, TAGC_REASON_compressed, false, "on hosts of two ranks they would send more than flat"},
    {TAGC_SCOPE_INTER, &one, TAGC_REASON_one_host, false, "inter on one host: plain"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    tagc_options_default(&options);
    options.codec = "precise";
    options.scope = table[i].scope;
    const struct tagc_scope_plan plan = tagc_plan_scope(&options, table[i].hosts, true, true);
    ok(plan.reason == table[i].reason && plan.two_levels == table[i].two_levels, "%s", table[i].what);
  }
}

static struct tagc_slot_question ask_on(int hosts, int local, bool two_levels, const struct tagc_codec *codec) {
  static const struct tagc_slot_info info = {.unit = 4, .name = "unit4"};
  tagc_options_default(&options);
  return (struct tagc_slot_question){
    .options = &options,
    .codec = codec,
    .slot = &info,
    .hosts = {hosts * local, hosts, local},
    .scope = {TAGC_REASON_compressed, two_levels},
    .packed = {SHARD / 4, two_levels ? hosts : hosts * local, TAGC_FLOAT32, 0, TAGC_STORAGE_NONE, 0},
    .op = TAGC_OP_AVG,
    .gradients = true,
  };
}

/* A shard has a million bytes. A ring of 2 x 4 ranks carries seven, a quarter between the hosts: 1.75 million per rank.
 * One payload crosses in two levels, four do flat, each less than 0.8 of the ring's: 0.35 million. */
static void weights(void) {
  static const struct tagc_codec codec = {.name = "some", .layout = payload_layout};
  static const struct {
    int hosts, local;
    bool two_levels;
    int scope;
    uint64_t payload;
    enum tagc_reason reason;
    const char *what;
  } table[] = {
    {2, 4, true, TAGC_SCOPE_AUTO, 1749999, TAGC_REASON_compressed,
     "two levels: a byte less than the ring's between hosts"},
    {2, 4, true, TAGC_SCOPE_AUTO, 1750000, TAGC_REASON_no_gain, "two levels: as much"},
    {4, 2, true, TAGC_SCOPE_INTER, 1166666, TAGC_REASON_compressed, "4 x 2: three payloads against 3.5 shards"},
    {4, 2, true, TAGC_SCOPE_INTER, 1166667, TAGC_REASON_no_gain, "4 x 2: a byte more each"},
    {2, 4, false, TAGC_SCOPE_AUTO, 349999, TAGC_REASON_compressed, "flat: less than 0.8 of the ring's"},
    {2, 4, false, TAGC_SCOPE_AUTO, 350000, TAGC_REASON_topology, "flat: 0.8 of them"},
    {2, 4, false, TAGC_SCOPE_INTER, 350000, TAGC_REASON_topology, "inter does not force flat"},
    {2, 4, false, TAGC_SCOPE_AUTO, 999999, TAGC_REASON_topology, "flat: more between hosts, though less in all"},
    {2, 4, false, TAGC_SCOPE_AUTO, 1000000, TAGC_REASON_no_gain, "flat: as much in all"},
    {2, 4, false, TAGC_SCOPE_FLAT, 999999, TAGC_REASON_compressed, "forced flat: less in all"},
    {2, 4, false, TAGC_SCOPE_FLAT, 1000000, TAGC_REASON_no_gain, "forced flat: as much in all"},
    {8, 1, false, TAGC_SCOPE_AUTO, 999999, TAGC_REASON_compressed, "one rank a host: less than the ring"},
    {8, 1, false, TAGC_SCOPE_AUTO, 1000000, TAGC_REASON_no_gain, "one rank a host: as much"},
    {1, 8, false, TAGC_SCOPE_FLAT, 999999, TAGC_REASON_compressed, "forced on one host: less in all"},
    {0, 8, false, TAGC_SCOPE_FLAT, 999999, TAGC_REASON_compressed, "forced, and hosts not known yet: less in all"},
    {0, 8, false, TAGC_SCOPE_FLAT, 1000000, TAGC_REASON_no_gain, "forced, and hosts not known yet: as much"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct tagc_slot_question q = ask_on(table[i].hosts, table[i].local, table[i].two_levels, &codec);
    struct tagc_layout layout;
    uint64_t bytes;
    if (!q.hosts.hosts)
      q.hosts.nranks = q.packed.nranks = q.hosts.local;
    options.scope = table[i].scope;
    payload = table[i].payload;
    const enum tagc_reason reason = tagc_plan_slot(&q, &layout, &bytes);
    ok(reason == table[i].reason, "%s: %s", table[i].what, tagc_reason_words(reason));
    q.codec = &tagc_codec_none;
    ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed, "the control may cost bytes");
    q.codec = &codec;
    q.scope.reason = TAGC_REASON_one_host;
    ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_one_host, "unless its communicator passes every call");
  }
  struct tagc_layout layout;
  uint64_t bytes;
  struct tagc_slot_question exact = ask_on(2, 4, true, &tagc_codec_precise);
  exact.packed.local = 4;
  ok(tagc_plan_slot(&exact, &layout, &bytes) == TAGC_REASON_exact_levels, "exact sums in two levels: not of fp32");
  exact.packed.dtype = TAGC_BFLOAT16;
  ok(tagc_plan_slot(&exact, &layout, &bytes) == TAGC_REASON_compressed, "but of bf16");
  exact.rest_count = 1;
  ok(tagc_plan_slot(&exact, &layout, &bytes) == TAGC_REASON_exact_levels, "if all of the slot is selected");
  struct tagc_slot_question q = ask_on(2, 4, false, &codec);
  q.hosts.local = 5;
  options.scope = TAGC_SCOPE_FLAT;
  payload = 999999;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed, "forced on uneven hosts: less in all");
  q = ask_on(2, 4, true, &codec);
  options.min_bytes = 8 * SHARD;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed, "TAGC_MIN_BYTES is of all shards");
  options.min_bytes++;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_small, "and not a byte more");
  q.packed.residual = TAGC_STORAGE_FP32;
  options.min_bytes = 1;
  q.residual_left = SHARD;
  ok(tagc_plan_slot(&q, &layout, &bytes) == TAGC_REASON_compressed && bytes == SHARD,
     "the residual is of the other hosts' shards alone: one, not seven");
}

/* A partly selected slot: data beside the payload counts. A fully sharded block of twelve parts, eight of them MLP. */
static void parts(void) {
  const struct tagc_codec *q4 = tagc_codec_find("q4"), *q8 = tagc_codec_find("q8");
  struct tagc_slot_question flat = ask_on(4, 1, false, q4), two = ask_on(2, 4, true, q4);
  struct tagc_layout layout;
  uint64_t bytes;
  flat.shard_count = two.shard_count = flat.packed.n;
  flat.packed.n = two.packed.n = flat.shard_count / 12 * 8;
  flat.rest_count = two.rest_count = flat.shard_count - flat.packed.n;
  ok(tagc_plan_slot(&flat, &layout, &bytes) == TAGC_REASON_compressed, "two thirds of a slot: worth it");
  ok(tagc_plan_traffic(&flat, &layout).inside + tagc_plan_traffic(&flat, &layout).between ==
         3 * (layout.message_bytes + 4 * flat.rest_count) &&
       tagc_plan_plain_traffic(&flat).between == 3 * 4 * flat.shard_count,
     "payload and rest are sent to each of the others");
  ok(tagc_plan_slot(&two, &layout, &bytes) == TAGC_REASON_compressed &&
       tagc_plan_traffic(&two, &layout).between == layout.message_bytes + 4 * two.rest_count &&
       tagc_plan_traffic(&two, &layout).inside == UINT64_C(3) * 2 * 4 * two.shard_count,
     "in two levels inside a host all is summed plainly");
  flat.codec = q8;
  flat.packed.dtype = TAGC_FLOAT16;
  flat.rest_count = flat.shard_count * 3 / 5; /* some shard has nothing else: packed ones together are longer than a
                                                 whole one */
  ok(tagc_plan_slot(&flat, &layout, &bytes) == TAGC_REASON_compressed,
     "packed shards with little of either part in some: still worth it");
  flat.rest_count = flat.shard_count * 7 / 10;
  ok(tagc_plan_slot(&flat, &layout, &bytes) == TAGC_REASON_no_gain, "with more of it: no gain");
  flat.layer_known = true;
  flat.selection = TAGC_SELECT_NONE;
  ok(tagc_plan_slot(&flat, &layout, &bytes) == TAGC_REASON_unselected, "nothing selected of what is known to be in it");
  flat.options = &options;
  options.layers = "block.7";
  flat.selection = TAGC_SELECT_SOME;
  ok(tagc_plan_slot_gate(&flat) == TAGC_REASON_compressed, "what is known to be in it counts, and not the name");
  flat.layer_known = false;
  ok(tagc_plan_slot_gate(&flat) == TAGC_REASON_unselected, "else the name does");
}

/* The saving of two levels, in numbers. */
static void promise(void) {
  const struct tagc_codec *q4 = tagc_codec_find("q4");
  const struct tagc_slot_question two = ask_on(2, 4, true, q4), flat = ask_on(2, 4, false, q4);
  struct tagc_layout layout, flat_layout;
  uint64_t bytes;
  bool good = tagc_plan_slot(&two, &layout, &bytes) == TAGC_REASON_compressed &&
              tagc_plan_slot(&flat, &flat_layout, &bytes) == TAGC_REASON_compressed;
  const double sent = (double)tagc_layout_traffic(&two.packed, &layout, &two.hosts, true).between;
  const double flat_sent = (double)tagc_layout_traffic(&flat.packed, &flat_layout, &flat.hosts, false).between;
  const double plain = (double)tagc_plain_traffic(SHARD, &two.hosts).between;
  ok(good && sent <= 1.05 / 4 * flat_sent, "2 hosts of 4 ranks, q4: %.4f of what flat sends between hosts",
     sent / flat_sent);
  ok(good && sent <= 0.08 * plain, "and %.4f of the plain ring's in fp32", sent / plain);
}

/* The plan need not weigh two levels against flat: for any codec and hosts, they send no more between hosts. */
static void never_more(void) {
  static const uint64_t sizes[] = {1, 300, 4096, 65537, 1 << 20};
  static const int hosts[] = {2, 3, 8, 64}, locals[] = {2, 4, 8};
  int more = 0, compared = 0;
  for (int c = 0; tagc_codecs[c]; c++)
    for (int i = 0; i < 5 * 4 * 3; i++) {
      const struct tagc_hosts h = {hosts[i / 3 % 4] * locals[i % 3], hosts[i / 3 % 4], locals[i % 3]};
      struct tagc_shape shape = {sizes[i / 12], h.nranks, TAGC_FLOAT32, 50000, TAGC_STORAGE_INT8, 0};
      struct tagc_layout flat, two;
      const bool can = tagc_codecs[c]->layout(&shape, &flat);
      const uint64_t flat_sent = can ? tagc_layout_traffic(&shape, &flat, &h, false).between : 0;
      shape.nranks = h.hosts;
      if (!can || !tagc_codecs[c]->layout(&shape, &two))
        continue;
      compared++;
      more += tagc_layout_traffic(&shape, &two, &h, true).between > flat_sent;
    }
  ok(more == 0 && compared > 300, "two levels never send more between hosts than flat: %d shapes", compared);
}

static struct tagc_call_facts good_broadcast(void) {
  struct tagc_call_facts f = good_call();
  options.broadcast = TAGC_BROADCAST_EXACT;
  f.collective = TAGC_COLL_BROADCAST;
  f.compressible_type = false; /* all types will do */
  f.state = TAGC_CYCLE_LEARNING;
  f.slot = -1;
  f.voted = false;
  f.hosts = 2;
  f.shape_reason = TAGC_REASON_NONE;
  return f;
}

static void broadcasts(void) {
  struct tagc_call_facts f = good_broadcast();
  is(&f, TAGC_COMPRESS, TAGC_REASON_compressed, "a broadcast, without any cycle");
  options.broadcast = TAGC_BROADCAST_OFF;
  is(&f, TAGC_PASS, TAGC_REASON_function, "TAGC_BROADCAST=off");
  f = good_broadcast(), options.mode = TAGC_MODE_OBSERVE;
  is(&f, TAGC_PASS, TAGC_REASON_observe, "observed");
  options.mode = TAGC_MODE_OFF;
  is(&f, TAGC_PASS, TAGC_REASON_off, "off");
  f = good_broadcast(), f.nranks = 1;
  is(&f, TAGC_PASS, TAGC_REASON_one_rank, "one rank");
  f = good_broadcast(), f.agreed = false;
  is(&f, TAGC_PASS, TAGC_REASON_disagreement, "ranks that do not agree");
  options.bad = true;
  is(&f, TAGC_PASS, TAGC_REASON_bad_option, "a rank that has refused an option");
  f = good_broadcast(), f.device = false;
  is(&f, TAGC_PASS, TAGC_REASON_device, "no codec for the device");
  f = good_broadcast(), f.bytes = options.min_bytes - 1;
  is(&f, TAGC_PASS, TAGC_REASON_small, "a small one");
  f = good_broadcast(), f.shape_reason = TAGC_REASON_odd_bytes;
  is(&f, TAGC_PASS, TAGC_REASON_odd_bytes, "an odd number of bytes");
  f = good_broadcast(), f.hosts = 1;
  is(&f, TAGC_PASS, TAGC_REASON_one_host, "one host");
  options.scope = TAGC_SCOPE_FLAT;
  is(&f, TAGC_COMPRESS, TAGC_REASON_compressed, "TAGC_SCOPE=flat on one host");
  f = good_broadcast(), f.config_reason = TAGC_REASON_config_ctas;
  is(&f, TAGC_COMPRESS, TAGC_REASON_compressed, "a configuration, which the ranks tell each other");
  f = good_broadcast(), options.mode = TAGC_MODE_AB, options.ab = 3;
  is(&f, TAGC_PASS, TAGC_REASON_ab_plain, "A/B without steps");
  char seen[16] = "";
  f.state = TAGC_CYCLE_OUT_OF_SYNC, f.voted = true;
  for (f.cycle = 1; f.cycle < 9; f.cycle++)
    strcat(seen, tagc_plan_call(&f).action == TAGC_COMPRESS ? "c" : "p");
  ok(strcmp(seen, "ppppcccp") == 0, "A/B windows of three: %s", seen);
}

int main(void) {
  calls();
  broadcasts();
  votes();
  windows(TAGC_VOTE_CYCLE);
  windows(8);
  slots();
  all_reduce_calls();
  allgather_calls();
  all_reduces();
  allgathers();
  scopes();
  exact_scopes();
  weights();
  parts();
  promise();
  never_more();
  return tap_done();
}
