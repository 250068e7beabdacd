/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: for any facts of a call and of a slot, the plan never compresses a forbidden call. Its reason fits
 * the action, and its sizes fit the memory of a machine.
 */
#include "interpose/policy/plan.h"
#include "kernels/codec/codecs.h"
#include "kernels/codec/cost.h"
#include "kernels/codec/residual.h"
#include "kernels/allgather/support.h"
#include "tests/fuzz/input.h"

static struct tagc_options some_options(struct input *in) {
  static const char *const lists[] = {"*", "", "unit1*", "0-3", "7, unit[1-4]", "!", "unit3"};
  struct tagc_options o;
  tagc_options_default(&o);
  o.mode = input_byte(in) % 4;
  o.ab = 2 + input_below(in, 8);
  o.residual = input_byte(in) % (TAGC_RESIDUAL_INT8 + 1);
  o.residual_max = input_number(in, 7);
  o.layers = lists[input_byte(in) % 7];
  o.skip = lists[1 + input_byte(in) % 6];
  o.min_bytes = input_number(in, 4);
  o.warmup = input_below(in, 8);
  const uint8_t choices = input_byte(in);
  o.assume = choices & 1;
  o.broadcast = choices >> 1 & 1;
  o.sums = choices >> 2 & 1;
  o.scope = input_byte(in) % 3;
  o.given = input_byte(in) & 1 ? UINT32_MAX : 0;
  o.bad = input_byte(in) % 8 == 0;
  return o;
}

/* Broadcasts need no cycle, but in TAGC_MODE=ab its windows. */
static void check_broadcast(const struct tagc_options *options, const struct tagc_call_facts *f) {
  MUST(options->broadcast == TAGC_BROADCAST_EXACT && f->shape_reason == TAGC_REASON_NONE);
  MUST(f->nranks >= 2 && f->agreed && f->device && f->bytes >= options->min_bytes);
  MUST(f->hosts != 1 || options->scope == TAGC_SCOPE_FLAT);
  MUST(options->mode == TAGC_MODE_COMPRESS ||
       (f->voted && f->state != TAGC_CYCLE_LEARNING && f->cycle >= f->vote_cycle && f->cycle > options->warmup &&
        tagc_plan_ab_compressed(options, f->vote_cycle, f->cycle)));
}

static void check_call(const struct tagc_options *options, struct input *in) {
  const uint8_t bits = input_byte(in);
  struct tagc_call_facts f = {
    .options = options,
    .collective = (enum tagc_collective)(bits & 1 ? input_byte(in) % 8 : TAGC_COLL_REDUCE_SCATTER),
    .compressible_type = (bits & 2) == 0,
    .op = (enum tagc_op)(input_byte(in) % 4),
    .nranks = (int)input_number(in, bits & 128 ? 4 : 1),
    .bytes = input_number(in, 6),
    .agreed = (bits & 4) == 0,
    .device = (bits & 8) == 0,
    .state = (enum tagc_cycle_state)(input_byte(in) % 3),
    .slot = (int)input_byte(in) - 1,
    .cycle = input_number(in, bits & 64 ? 8 : 1),
    .vote_cycle = TAGC_VOTE_CYCLE << bits % 4,
    .voted = (bits & 16) == 0,
    .slot_reason = (enum tagc_reason)(input_byte(in) % 2 ? TAGC_REASON_compressed : input_byte(in) % TAGC_REASON_COUNT),
    .dirty = (bits & 32) != 0,
    .calls_skipped = bits % 3 == 0,
    .hosts = 1 + bits % 3,
    .shape_reason = bits % 7 ? TAGC_REASON_NONE : TAGC_REASON_odd_bytes,
    .allgather_reason = options->allgather == TAGC_ALLGATHER_OFF                 ? TAGC_REASON_allgather_off
                        : options->allgather == TAGC_ALLGATHER_AUTO && bits % 11 ? TAGC_REASON_allgather_messages
                                                                                 : TAGC_REASON_NONE,
  };
  struct tagc_decision d = tagc_plan_call(&f), again = tagc_plan_call(&f);
  MUST(d.action == again.action && d.reason == again.reason);
  MUST((unsigned)d.reason < TAGC_REASON_COUNT && *tagc_reason_words(d.reason));
  MUST((d.action == TAGC_COMPRESS) == (d.reason == TAGC_REASON_compressed));
  if (d.action == TAGC_PASS)
    return;
  MUST(d.action == TAGC_COMPRESS || d.action == TAGC_FLUSH);
  MUST(options->mode == TAGC_MODE_COMPRESS || options->mode == TAGC_MODE_AB);
  if (f.collective == TAGC_COLL_BROADCAST) {
    MUST(d.action == TAGC_COMPRESS);
    check_broadcast(options, &f);
    return;
  }
  const bool allgathers = f.collective == TAGC_COLL_ALL_GATHER && f.allgather_reason == TAGC_REASON_NONE;
  MUST(f.collective == TAGC_COLL_REDUCE_SCATTER || f.collective == TAGC_COLL_ALL_REDUCE || allgathers);
  MUST(f.collective == TAGC_COLL_ALL_GATHER || !f.calls_skipped);
  MUST(f.compressible_type && f.op != TAGC_OP_OTHER && f.nranks >= 2);
  MUST(f.agreed && f.device && f.bytes >= options->min_bytes);
  MUST(f.state == TAGC_CYCLE_IN_SYNC && f.slot >= 0 && f.voted);
  MUST(f.cycle >= f.vote_cycle && f.cycle > options->warmup);
  const bool window = options->mode == TAGC_MODE_COMPRESS || tagc_plan_ab_compressed(options, f.vote_cycle, f.cycle);
  MUST((d.action == TAGC_COMPRESS) == (window && f.slot_reason == TAGC_REASON_compressed));
  MUST(d.action == TAGC_COMPRESS || (f.dirty && d.reason == TAGC_REASON_flushed) ||
       (f.stale && d.reason == TAGC_REASON_refreshed));
}

static const struct tagc_codec *some_codec(struct input *in) {
  size_t count = 0;
  while (tagc_codecs[count])
    count++;
  return tagc_codecs[input_byte(in) % count];
}

/* Checks the residual against TAGC_RESIDUAL; a codec that needs a residual gets one unless it is denied. */
static void check_storage(const struct tagc_options *options, const struct tagc_codec *codec,
                          enum tagc_storage storage) {
  MUST(storage <= TAGC_STORAGE_INT8);
  if (options->residual == TAGC_RESIDUAL_AUTO)
    MUST((storage != TAGC_STORAGE_NONE) == codec->needs_residual);
  else
    MUST((int)storage == options->residual - TAGC_RESIDUAL_NONE);
}

static bool multiples_of_16(const struct tagc_layout *l) {
  return l->message_bytes % 16 == 0 && l->exponent_bytes % 16 == 0 && l->sketch_count % 4 == 0 &&
         l->state_bytes % 16 == 0;
}

/* Draws ranks on hosts as the vote may find them, and checks the plan of their scope. */
static struct tagc_scope_plan some_scope(const struct tagc_options *options, struct input *in,
                                         struct tagc_hosts *hosts) {
  const uint8_t bits = input_byte(in);
  const bool even = (bits & 1) == 0, splits = (bits & 2) == 0;
  *hosts =
    (struct tagc_hosts){.hosts = 1 + (int)input_number(in, bits & 4 ? 2 : 1), .local = 1 + (int)input_below(in, 64)};
  hosts->nranks = hosts->hosts * hosts->local;
  if (!even && hosts->hosts > 1)
    hosts->nranks += 1 + (int)input_below(in, 8); /* on the other hosts */
  hosts->nranks += hosts->nranks == 1 ? hosts->local++ : 0;
  const struct tagc_scope_plan plan = tagc_plan_scope(options, hosts, even || hosts->hosts == 1, splits);
  const bool exact = strcmp(options->codec, tagc_codec_precise.name) == 0;
  if (options->scope == TAGC_SCOPE_FLAT || (options->scope == TAGC_SCOPE_AUTO && exact))
    MUST(plan.reason == TAGC_REASON_compressed && !plan.two_levels);
  else if (hosts->hosts == 1)
    MUST(plan.reason == TAGC_REASON_one_host);
  else
    MUST((plan.reason == TAGC_REASON_uneven_hosts) == !even);
  MUST(!plan.two_levels || (plan.reason == TAGC_REASON_compressed && splits && hosts->local > (exact ? 2 : 1)));
  return plan;
}

/* The second half of an all-reduce: with exact sums no codec, and room for nonzero ones as far as these are fewer
 * bytes than what would be sent otherwise. */
static void check_sums(const struct tagc_slot_question *q) {
  const struct tagc_allgather_phase phase = tagc_plan_allgather_phase(q);
  const uint64_t shard = phase.shape.n * tagc_dtype_size(phase.shape.dtype), support = phase.support.payload_bytes;
  const bool exact = q->options->sums == TAGC_SUMS_EXACT;
  MUST(phase.shape.nranks == q->hosts.nranks && !(exact && phase.codec));
  MUST(!phase.codec || phase.layout.payload_bytes < shard);
  MUST(!support || (q->codec->needs_residual && support % 16 == 0 && (exact || q->host_memory || q->waits_for_sums)));
  MUST(support <= (phase.codec ? phase.layout.payload_bytes : exact ? shard / 2 : 0));
  MUST(!support || support >= tagc_support_bytes(phase.shape.n, phase.shape.dtype, 0));
}

/* Checks that compression sends less: between hosts if several ranks share them, unless flat is forced. */
static void check_gain(const struct tagc_slot_question *q, const struct tagc_layout *layout) {
  const struct tagc_traffic plain = tagc_plan_plain_traffic(q), sent = tagc_plan_traffic(q, layout);
  if (q->codec == &tagc_codec_none || q->codec == &tagc_codec_precise)
    return;
  if (q->scope.two_levels || (q->options->scope != TAGC_SCOPE_FLAT && q->hosts.local > 1))
    MUST(sent.between < plain.between);
  if (!q->scope.two_levels)
    MUST(sent.between + sent.inside < plain.between + plain.inside);
}

static void check_slot(const struct tagc_options *options, struct input *in) {
  const uint8_t bits = input_byte(in);
  const bool reduces = bits & 8;
  struct tagc_slot_info info = {.signature.collective = reduces ? TAGC_COLL_ALL_REDUCE : TAGC_COLL_REDUCE_SCATTER,
                                .unit = input_byte(in),
                                .name = "unit"};
  snprintf(info.name + 4, sizeof info.name - 4, "%u", info.unit);
  struct tagc_slot_question q = {
    .options = options,
    .codec = some_codec(in),
    .slot = &info,
    .packed =
      {
        .n = input_number(in, bits >> 5),
        .dtype = (enum tagc_dtype)(input_byte(in) % 3),
        .keep_ppm = 1 + (uint32_t)input_number(in, 3) % 1000000,
      },
    .op = (enum tagc_op)(input_byte(in) % 4),
    .gradients = (bits & 4) == 0,
    .host_memory = bits & 1,
    .waits_for_sums = bits & 2,
    .residual_left = input_number(in, 7),
  };
  q.scope = some_scope(options, in, &q.hosts);
  q.packed.nranks = q.scope.two_levels ? q.hosts.hosts : q.hosts.nranks;
  q.packed.residual = tagc_plan_storage(options, q.codec);
  check_storage(options, q.codec, q.packed.residual);
  struct tagc_layout layout, alone;
  uint64_t residual;
  if (reduces && q.packed.n)
    check_sums(&q);
  if (tagc_plan_slot(&q, &layout, &residual) != TAGC_REASON_compressed)
    return;
  MUST(q.scope.reason == TAGC_REASON_compressed);
  MUST(!options->bad && q.packed.n && q.op != TAGC_OP_OTHER && (q.gradients || options->assume));
  MUST(q.codec->layout(&q.packed, &alone) && memcmp(&alone, &layout, sizeof layout) == 0);
  MUST(multiples_of_16(&layout) && layout.capacity > 0 && layout.capacity <= q.packed.n);
  MUST(residual <= q.residual_left && (!residual || residual == tagc_residual_bytes(&q.packed)));
  MUST(q.packed.residual || !residual);
  MUST(!q.codec->needs_residual || (options->residual != TAGC_RESIDUAL_NONE && residual));
  check_gain(&q, &layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  struct tagc_options options = some_options(&in);
  check_slot(&options, &in);
  check_call(&options, &in);
  return 0;
}
