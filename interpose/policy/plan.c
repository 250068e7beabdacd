/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/policy/plan.h"

#include <string.h>

#include "kernels/allgather/support.h"
#include "kernels/codec/codecs.h"
#include "kernels/codec/cost.h"
#include "kernels/codec/residual.h"

const char *tagc_reason_name(enum tagc_reason reason) {
  static const char *const names[] = {
#define REASON(name, text, advice) #name,
#include "interpose/policy/reasons.def"
  };
  return names[reason];
}

const char *tagc_reason_words(enum tagc_reason reason) {
  static const char *const words[] = {
#define REASON(name, text, advice) text,
#include "interpose/policy/reasons.def"
  };
  return words[reason];
}

const char *tagc_reason_advice(enum tagc_reason reason) {
  static const char *const words[] = {
#define REASON(name, text, advice) advice,
#include "interpose/policy/reasons.def"
  };
  return words[reason];
}

enum tagc_storage tagc_plan_storage(const struct tagc_options *options, const struct tagc_codec *codec) {
  switch (options->residual) {
  case TAGC_RESIDUAL_AUTO: return codec->needs_residual ? TAGC_STORAGE_INT8 : TAGC_STORAGE_NONE;
  case TAGC_RESIDUAL_FP32: return TAGC_STORAGE_FP32;
  case TAGC_RESIDUAL_BF16: return TAGC_STORAGE_BF16;
  case TAGC_RESIDUAL_INT8: return TAGC_STORAGE_INT8;
  default: return TAGC_STORAGE_NONE;
  }
}

bool tagc_plan_is_exact(const struct tagc_options *options) {
  return strcmp(options->codec, tagc_codec_precise.name) == 0;
}

struct tagc_scope_plan tagc_plan_scope(const struct tagc_options *options, const struct tagc_hosts *hosts, bool even,
                                       bool splits) {
  struct tagc_scope_plan plan = {.reason = TAGC_REASON_NONE};
  const bool exact = tagc_plan_is_exact(options);
  if (options->scope == TAGC_SCOPE_FLAT || (options->scope == TAGC_SCOPE_AUTO && exact))
    return plan;
  if (hosts->hosts == 1)
    plan.reason = TAGC_REASON_one_host;
  else if (!even)
    plan.reason = TAGC_REASON_uneven_hosts;
  else
    plan.two_levels = splits && hosts->local >= (exact ? tagc_codec_precise.levels->least : 2);
  return plan;
}

struct tagc_shape tagc_plan_shard(const struct tagc_slot_question *q) {
  struct tagc_shape shape = q->packed;
  shape.n = q->rest_count ? q->shard_count : shape.n;
  return shape;
}

struct tagc_shape tagc_plan_rest(const struct tagc_slot_question *q) {
  struct tagc_shape shape = q->packed;
  shape.n = q->rest_count;
  return shape;
}

bool tagc_plan_is_all_reduce(const struct tagc_slot_question *q) {
  return q->slot->signature.collective == TAGC_COLL_ALL_REDUCE;
}

static bool sends_whole(const struct tagc_codec *codec) {
  return codec == &tagc_codec_none || codec == &tagc_codec_precise;
}

/* Without a codec, half of a shard: with more values decoding takes longer than the wire saves. */
static struct tagc_allgather_layout offer_support(const struct tagc_allgather_phase *phase) {
  const struct tagc_allgather_shape *shape = &phase->shape;
  const size_t half = shape->n * tagc_dtype_size(shape->dtype) / 32 * 16,
               most = phase->codec ? phase->layout.payload_bytes : half;
  struct tagc_allgather_layout layout;
  if (!tagc_allgather_support.layout(shape, &layout) || most < tagc_support_bytes(shape->n, shape->dtype, 0))
    return (struct tagc_allgather_layout){0};
  if (layout.payload_bytes > most)
    layout.payload_bytes = most;
  return layout;
}

struct tagc_allgather_phase tagc_plan_allgather_phase(const struct tagc_slot_question *q) {
  const struct tagc_allgather_codec *const wide = &tagc_allgather_bf16, *const narrow = &tagc_allgather_q8;
  struct tagc_allgather_phase phase = {
    .shape = {.n = tagc_plan_shard(q).n, .nranks = q->hosts.nranks, .dtype = q->packed.dtype}};
  const size_t shard = (size_t)phase.shape.n * tagc_dtype_size(phase.shape.dtype);
  const bool exact = q->options->sums == TAGC_SUMS_EXACT;
  phase.codec = exact || sends_whole(q->codec) ? NULL : q->codec == &tagc_codec_bf16 ? wide : narrow;
  if (phase.codec && (!phase.codec->layout(&phase.shape, &phase.layout) || phase.layout.payload_bytes >= shard)) {
    phase.codec = NULL;
    phase.layout = (struct tagc_allgather_layout){0};
  }
  if (q->codec->needs_residual && (exact || (phase.codec && (q->host_memory || q->waits_for_sums))))
    phase.support = offer_support(&phase);
  return phase;
}

/* The bytes that a rank sends for the second half of an all-reduce. */
static struct tagc_traffic allgather_phase_traffic(const struct tagc_slot_question *q, bool plain) {
  const struct tagc_shape whole = tagc_plan_shard(q);
  const struct tagc_allgather_phase phase = plain ? (struct tagc_allgather_phase){0} : tagc_plan_allgather_phase(q);
  const uint64_t planned = phase.codec ? phase.layout.payload_bytes : whole.n * tagc_dtype_size(whole.dtype);
  return tagc_plain_traffic(q->allgather_phase_bytes && !plain ? q->allgather_phase_bytes : planned, &q->hosts);
}

struct tagc_traffic tagc_plan_plain_traffic(const struct tagc_slot_question *q) {
  const struct tagc_shape whole = tagc_plan_shard(q);
  struct tagc_traffic plain = tagc_plain_traffic(whole.n * tagc_dtype_size(whole.dtype), &q->hosts);
  if (tagc_plan_is_all_reduce(q)) {
    const struct tagc_traffic phase = allgather_phase_traffic(q, true);
    plain.inside += phase.inside;
    plain.between += phase.between;
  }
  return plain;
}

/* The ranks that exchange payloads sum the unselected elements, as all ranks sum a plain call. */
struct tagc_traffic tagc_plan_traffic(const struct tagc_slot_question *q, const struct tagc_layout *layout) {
  const struct tagc_shape whole = tagc_plan_shard(q);
  const uint64_t rest_bytes = q->rest_count * tagc_dtype_size(q->packed.dtype);
  const struct tagc_layout rest = {.message_bytes = rest_bytes};
  struct tagc_traffic sent = tagc_layout_traffic(&whole, layout, &q->hosts, q->scope.two_levels), beside;
  beside = q->scope.two_levels ? tagc_layout_traffic(&whole, &rest, &q->hosts, true)
                               : tagc_plain_traffic(rest_bytes, &q->hosts);
  sent.inside += q->scope.two_levels ? 0 : beside.inside; /* in two levels it is part of a host's sums */
  sent.between += beside.between;
  if (tagc_plan_is_all_reduce(q)) {
    const struct tagc_traffic phase = allgather_phase_traffic(q, false);
    sent.inside += phase.inside;
    sent.between += phase.between;
  }
  return sent;
}

/* Is a payload of this layout worth sending? */
static enum tagc_reason weigh_levels(const struct tagc_slot_question *q, const struct tagc_layout *layout) {
  const struct tagc_traffic plain = tagc_plan_plain_traffic(q), sent = tagc_plan_traffic(q, layout);
  if (sends_whole(q->codec))
    return TAGC_REASON_NONE; /* asked for by name: none measures our overhead, precise is right. Both may cost bytes */
  if (q->scope.two_levels)
    return sent.between < plain.between ? TAGC_REASON_NONE : TAGC_REASON_no_gain;
  if (sent.inside + sent.between >= plain.inside + plain.between)
    return TAGC_REASON_no_gain;
  if (q->options->scope == TAGC_SCOPE_FLAT || q->hosts.local == 1)
    return TAGC_REASON_NONE;
  /* NCCL's ring keeps all links busy at once; an exchange with every rank of the other hosts uses only the network. */
  return 5 * sent.between < 4 * plain.between ? TAGC_REASON_NONE : TAGC_REASON_topology;
}

bool tagc_plan_is_selected(const struct tagc_options *o, const struct tagc_slot_info *slot, bool layer_known,
                           enum tagc_selection selection) {
  if (layer_known)
    return selection != TAGC_SELECT_NONE;
  return tagc_select_matches(o->layers, slot->name, slot->unit) &&
         !tagc_select_matches(o->skip, slot->name, slot->unit);
}

static enum tagc_reason why_no_gradient(const struct tagc_slot_info *slot, bool changes) {
  if (changes)
    return slot->signature.collective == TAGC_COLL_ALL_REDUCE ? TAGC_REASON_averaged : TAGC_REASON_changes;
  return slot->signature.collective == TAGC_COLL_REDUCE_SCATTER && !slot->gathered ? TAGC_REASON_ungathered
                                                                                   : TAGC_REASON_activations;
}

enum tagc_reason tagc_plan_slot_gate(const struct tagc_slot_question *q) {
  const struct tagc_options *o = q->options;
  if (o->bad)
    return TAGC_REASON_bad_option;
  if (q->scope.reason != TAGC_REASON_NONE)
    return q->scope.reason;
  if (!q->packed.n)
    return TAGC_REASON_type;
  if (q->op == TAGC_OP_OTHER)
    return TAGC_REASON_op;
  if (q->packed.n * (uint64_t)q->hosts.nranks * tagc_dtype_size(q->packed.dtype) < o->min_bytes)
    return TAGC_REASON_small;
  if (o->assume != TAGC_ASSUME_GRADIENTS && !q->gradients)
    return why_no_gradient(q->slot, q->changes);
  if (!tagc_plan_is_selected(o, q->slot, q->layer_known, q->selection))
    return TAGC_REASON_unselected;
  return TAGC_REASON_NONE;
}

enum tagc_reason tagc_plan_slot(const struct tagc_slot_question *q, struct tagc_layout *layout,
                                uint64_t *residual_bytes) {
  *residual_bytes = 0;
  enum tagc_reason gate = tagc_plan_slot_gate(q);
  if (gate != TAGC_REASON_NONE)
    return gate;
  if (q->codec->needs_residual && q->packed.dtype == TAGC_FLOAT16 && tagc_options_auto(q->options))
    return TAGC_REASON_loss_scale;
  if (q->packed.local && (q->packed.dtype == TAGC_FLOAT32 || q->rest_count))
    return TAGC_REASON_exact_levels;
  if (!q->codec->layout(&q->packed, layout))
    return TAGC_REASON_no_gain;
  enum tagc_reason worth = weigh_levels(q, layout);
  if (worth != TAGC_REASON_NONE)
    return worth;
  uint64_t bytes = tagc_residual_bytes(&q->packed);
  *residual_bytes = bytes <= q->residual_left ? bytes : 0;
  return q->codec->needs_residual && !*residual_bytes ? TAGC_REASON_no_residual : TAGC_REASON_NONE;
}

enum tagc_reason tagc_plan_allgather(const struct tagc_allgather_question *q, struct tagc_allgather_layout *layout) {
  const struct tagc_options *o = q->options;
  const uint64_t shard = q->shape.n * tagc_dtype_size(q->shape.dtype);
  if (!q->codec)
    return TAGC_REASON_allgather_off;
  if (o->bad)
    return TAGC_REASON_bad_option;
  if (o->scope != TAGC_SCOPE_FLAT && q->hosts.hosts == 1)
    return TAGC_REASON_one_host;
  if (!q->shape.n)
    return TAGC_REASON_type;
  if (shard * (uint64_t)q->hosts.nranks < o->min_bytes)
    return TAGC_REASON_small;
  if (o->assume != TAGC_ASSUME_GRADIENTS && (!q->gradients || q->changes))
    return why_no_gradient(q->slot, q->changes);
  if (!tagc_plan_is_selected(o, q->slot, q->layer_known, q->selection) ||
      (q->layer_known && q->selection != TAGC_SELECT_ALL))
    return TAGC_REASON_unselected;
  if (!q->codec->layout(&q->shape, layout) || layout->payload_bytes >= shard)
    return TAGC_REASON_no_gain;
  return tagc_plan_is_pinned(q, layout) && layout->reference_bytes > q->pinned_left ? TAGC_REASON_no_reference
                                                                                    : TAGC_REASON_NONE;
}

bool tagc_plan_is_pinned(const struct tagc_allgather_question *q, const struct tagc_allgather_layout *layout) {
  return !q->referred && layout->reference_bytes > q->reference_left;
}

uint64_t tagc_plan_next_vote(uint64_t vote_cycle) { return vote_cycle < TAGC_LAST_VOTE_CYCLE ? 2 * vote_cycle : 0; }

bool tagc_plan_watches_changes(const struct tagc_options *options) {
  return (options->mode == TAGC_MODE_COMPRESS || options->mode == TAGC_MODE_AB) && options->warmup > 0 &&
         options->assume != TAGC_ASSUME_GRADIENTS;
}

bool tagc_plan_samples_changes(uint64_t vote_cycle, uint64_t cycle) { return cycle + 2 >= vote_cycle; }

bool tagc_plan_samples(uint64_t vote_cycle, uint64_t cycle) { return cycle + 1 >= vote_cycle; }

uint64_t tagc_plan_first_cycle(const struct tagc_options *options, uint64_t vote_cycle) {
  return options->warmup + 1 > vote_cycle ? options->warmup + 1 : vote_cycle;
}

bool tagc_plan_ab_compressed(const struct tagc_options *options, uint64_t vote_cycle, uint64_t cycle) {
  return (cycle - tagc_plan_first_cycle(options, vote_cycle)) / options->ab % 2 == 1;
}

static struct tagc_decision decide_pass(enum tagc_reason reason) { return (struct tagc_decision){TAGC_PASS, reason}; }

/* A slot that is not compressed now: the call also sends its residual, if any. */
static struct tagc_decision decide_plain(const struct tagc_call_facts *f, enum tagc_reason reason) {
  return f->dirty ? (struct tagc_decision){TAGC_FLUSH, TAGC_REASON_flushed} : decide_pass(reason);
}

/* Why the call passes, whatever its slot is; TAGC_REASON_NONE: no reason. */
static enum tagc_reason gate_call(const struct tagc_call_facts *f) {
  const struct tagc_options *o = f->options;
  if (o->mode == TAGC_MODE_OBSERVE)
    return TAGC_REASON_observe;
  if (!f->compressible_type)
    return TAGC_REASON_type;
  if (f->op == TAGC_OP_OTHER)
    return TAGC_REASON_op;
  if (f->nranks < 2)
    return TAGC_REASON_one_rank;
  if (!f->agreed) /* a rank that has refused an option agrees with nobody */
    return o->bad ? TAGC_REASON_bad_option : TAGC_REASON_disagreement;
  if (!f->device)
    return TAGC_REASON_device;
  if (f->bytes < o->min_bytes)
    return TAGC_REASON_small;
  if (f->state == TAGC_CYCLE_LEARNING)
    return TAGC_REASON_learning;
  if (f->state == TAGC_CYCLE_OUT_OF_SYNC)
    return TAGC_REASON_out_of_sync;
  if (f->slot < 0)
    return f->collective == TAGC_COLL_ALL_GATHER ? TAGC_REASON_unpaired : TAGC_REASON_activations;
  if (!f->voted || f->cycle < tagc_plan_first_cycle(o, f->vote_cycle))
    return TAGC_REASON_warm_up;
  return TAGC_REASON_NONE;
}

/* Why a broadcast passes. Nothing here may differ between ranks: without a vote, a rank that passes alone would hang
 * the others. So its configuration and its buffers are not asked: the rank's status says it. */
static enum tagc_reason gate_broadcast(const struct tagc_call_facts *f) {
  const struct tagc_options *o = f->options;
  if (o->mode == TAGC_MODE_OBSERVE)
    return TAGC_REASON_observe;
  if (f->nranks < 2)
    return TAGC_REASON_one_rank;
  if (!f->agreed)
    return o->bad ? TAGC_REASON_bad_option : TAGC_REASON_disagreement;
  if (!f->device)
    return TAGC_REASON_device;
  if (f->bytes < o->min_bytes)
    return TAGC_REASON_small;
  if (f->shape_reason != TAGC_REASON_NONE)
    return f->shape_reason;
  if (o->scope != TAGC_SCOPE_FLAT && f->hosts == 1)
    return TAGC_REASON_one_host;
  /* A communicator without steps has no windows to compare. */
  const bool windows =
    f->state != TAGC_CYCLE_LEARNING && f->voted && f->cycle >= tagc_plan_first_cycle(o, f->vote_cycle);
  if (o->mode == TAGC_MODE_AB && !(windows && tagc_plan_ab_compressed(o, f->vote_cycle, f->cycle)))
    return TAGC_REASON_ab_plain;
  return TAGC_REASON_NONE;
}

static struct tagc_decision decide_broadcast(const struct tagc_call_facts *f) {
  const enum tagc_reason gate = f->options->broadcast == TAGC_BROADCAST_OFF ? TAGC_REASON_function : gate_broadcast(f);
  return gate == TAGC_REASON_NONE ? (struct tagc_decision){TAGC_COMPRESS, TAGC_REASON_compressed} : decide_pass(gate);
}

struct tagc_decision tagc_plan_call(const struct tagc_call_facts *f) {
  const struct tagc_options *o = f->options;
  if (o->mode == TAGC_MODE_OFF)
    return decide_pass(TAGC_REASON_off);
  if (f->collective == TAGC_COLL_BROADCAST)
    return decide_broadcast(f);
  if (f->collective == TAGC_COLL_ALL_GATHER && f->allgather_reason != TAGC_REASON_NONE)
    return decide_pass(f->slot >= 0 ? f->allgather_reason : TAGC_REASON_function);
  const bool is_slot =
    f->collective == TAGC_COLL_REDUCE_SCATTER || (f->collective == TAGC_COLL_ALL_REDUCE && f->slot >= 0);
  if (!is_slot && f->collective != TAGC_COLL_ALL_GATHER)
    return decide_pass(TAGC_REASON_function);
  const enum tagc_reason gate = gate_call(f);
  if (gate != TAGC_REASON_NONE)
    return decide_pass(gate);
  if (f->collective == TAGC_COLL_ALL_GATHER ? f->resync_pending : f->calls_skipped)
    return decide_pass(TAGC_REASON_out_of_sync);
  if (f->config_reason != TAGC_REASON_NONE)
    return decide_pass(f->config_reason); /* as it came: a residual waits for a call without */
  if (f->slot_reason != TAGC_REASON_compressed)
    return decide_plain(f, f->slot_reason);
  if (o->mode == TAGC_MODE_AB && !tagc_plan_ab_compressed(o, f->vote_cycle, f->cycle))
    return decide_plain(f, TAGC_REASON_ab_plain);
  if (f->settles)
    return decide_plain(f, TAGC_REASON_settled);
  return f->stale ? (struct tagc_decision){TAGC_FLUSH, TAGC_REASON_refreshed}
                  : (struct tagc_decision){TAGC_COMPRESS, TAGC_REASON_compressed};
}
