/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/tune.h"

#include <stdlib.h>

#include "env/clock.h"
#include "env/log.h"
#include "interpose/calls/calls.h"
#include "interpose/comm/partial.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/nccl/process.h"
#include "interpose/vote/message.h"
#include "interpose/vote/proposal.h"
#include "interpose/vote/tune_allgathers.h"
#include "kernels/codec/codecs.h"

size_t tagc_tune_words(const struct tagc_comm *comm) {
  const size_t words = TAGC_MESSAGE_FLAG + TAGC_MESSAGE_SAMPLE * comm->slot_count +
                       (comm->ledger->retune ? TAGC_MESSAGE_RATIOS : 0) + tagc_tune_allgathers_words(comm);
  return words > TAGC_MESSAGE_PROBE ? words : TAGC_MESSAGE_PROBE;
}

void tagc_tune_pack(const struct tagc_comm *comm, bool can_probe, struct tagc_message *message) {
  tagc_message_flag(message, &can_probe);
  for (size_t i = 0; i < comm->slot_count; i++) {
    const struct tagc_slot *slot = &comm->slots[i];
    const struct tagc_gradient_stats *own = &tagc_comm_decision_inputs(comm, i)->own;
    tagc_message_sample(message, &(struct tagc_vote_sample){slot->sample.taken, slot->sample.taken && !own->exceptions,
                                                            !slot->sample.symmetric, slot->sample.reject_reason, *own});
  }
  if (comm->ledger->retune) {
    double ratios[2];
    tagc_retune_measure(comm->ledger->retune, ratios);
    tagc_message_ratios(message, ratios);
  }
  if (!comm->vote.held)
    tagc_tune_allgathers_pack(comm, message);
}

/* Have all ranks sampled the gradient in its usual state? */
static bool is_usual(const struct tagc_vote_sample *sample) { return sample->usual && sample->stats.density > 0; }

bool tagc_tune_postpone(struct tagc_comm *comm, struct tagc_message message) {
  /* later samples recur anyway */
  const uint64_t next = comm->vote.held ? 0 : tagc_plan_next_vote(comm->vote.cycle);
  bool lacking = false, can_probe = false;
  tagc_message_flag(&message, &can_probe);
  for (size_t i = 0; i < comm->slot_count && next; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    struct tagc_vote_sample sample = {0};
    tagc_message_sample(&message, &sample);
    if (sample.reject_reason != TAGC_REASON_NONE || is_usual(&sample) || !tagc_proposal_is_eligible(comm, i))
      continue;
    slot->sample.tried = slot->sample.taken = false;
    lacking = true;
  }
  if (!lacking)
    return false;
  comm->vote.cycle = next;
  tagc_log(TAGC_LOG_INFO, "interpose",
           "communicator %llu: not all ranks have a usual sample of a gradient; they sample "
           "it again before cycle %llu",
           (unsigned long long)comm->ledger->number, (unsigned long long)next);
  return true;
}

/* In a later vote the last usual sample stays. */
bool tagc_tune_resolve(struct tagc_comm *comm, struct tagc_message message) {
  const bool again = comm->vote.held;
  bool any = again, can_probe = false;
  tagc_message_flag(&message, &can_probe);
  for (size_t i = 0; i < comm->slot_count; i++) {
    struct tagc_slot *slot = &comm->slots[i];
    struct tagc_vote_sample sample = {0};
    tagc_message_sample(&message, &sample);
    slot->sample.reject_reason = sample.reject_reason;
    slot->sample.symmetric = !sample.ordinary;
    if (again && !(sample.sampled && is_usual(&sample)))
      continue;
    slot->sample.agreed = sample.sampled;
    tagc_comm_decision_inputs(comm, i)->gradient = sample.stats;
    any |= slot->sample.agreed && slot->sample.reject_reason == TAGC_REASON_NONE && sample.stats.density > 0;
  }
  if (comm->ledger->retune) {
    double ratios[2] = {0, 0};
    tagc_message_ratios(&message, ratios);
    tagc_retune_correct(comm->ledger->retune, ratios);
  }
  if (!again)
    any |= tagc_tune_allgathers_resolve(comm, &message);
  /* Sub-communicators are missing where no slot would use them. Then nothing is to be chosen, and they cannot be
   * probed. */
  return any && can_probe && tagc_hierarchy_is_ready(comm);
}

/* ---- sampling ---------------------------------------------------------------------------------------------------- */

/* The coming vote may prove that slots are gradients, and waits for no further sample. */
static bool may_prove(const struct tagc_comm *comm) {
  return !comm->vote.held && !tagc_plan_next_vote(comm->vote.cycle) &&
         ((comm->changes.watched && !comm->changes.judged) || comm->vote.asks_shards);
}

/* Should this call's gradient be sampled? Call it with the lock held. */
static bool is_sample_due(const struct tagc_comm *comm, const struct tagc_call *call) {
  if (!tagc_comm_awaits_vote(comm, call) || !tagc_plan_samples(tagc_comm_next_vote(comm), call->cycle))
    return false;
  const struct tagc_slot *slot = &comm->slots[call->slot];
  return !slot->sample.tried && slot->sample.reject_reason == TAGC_REASON_NONE &&
         (may_prove(comm) || tagc_proposal_is_eligible(comm, (size_t)call->slot));
}

bool tagc_tune_waits(const struct tagc_call *call) {
  struct tagc_comm *comm = call->comm;
  if (!tagc_options_auto(tagc_library_options()))
    return false;
  pthread_mutex_lock(&comm->lock);
  bool waits = is_sample_due(comm, call) && !comm->device->host_reads;
  pthread_mutex_unlock(&comm->lock);
  return waits;
}

/* Finds the candidates that run on the device. False: none does. */
static bool find_candidates(const struct tagc_device *device, const struct tagc_shape *shape,
                            struct tagc_candidate *candidates) {
  bool any = false;
  tagc_choose_candidates(tagc_library_options(), candidates);
  for (int i = 0; i < TAGC_CANDIDATES; i++) {
    struct tagc_shape its = *shape;
    struct tagc_layout layout;
    its.residual = candidates[i].residual;
    its.keep_ppm = 1;
    if (candidates[i].codec && !device->host_reads && !device->layout(device, candidates[i].codec, &its, &layout))
      candidates[i].codec = NULL;
    any |= candidates[i].codec != NULL;
  }
  return any;
}

/* A codec without known costs is ruled out. */
static void estimate_costs(const struct tagc_device *device, const struct tagc_gradient_request *question,
                           struct tagc_gradient_stats *gradient) {
  const uint32_t keep = tagc_gradient_keep_ppm(gradient->density);
  for (int i = 0; i < TAGC_CANDIDATES; i++) {
    const struct tagc_candidate *candidate = &question->candidates[i];
    struct tagc_codec_estimate *estimate = &gradient->of[i];
    struct tagc_shape shape = question->shape;
    struct tagc_gpu_cost cost;
    shape.residual = candidate->residual;
    shape.keep_ppm = keep;
    if (estimate->error < __builtin_inf() && device->cost(device, candidate->codec, &shape, &cost))
      *estimate = (struct tagc_codec_estimate){estimate->error, cost.encode_ns, cost.decode_ns, cost.call_ns};
    else
      estimate->error = __builtin_inf();
  }
}

/* If only a part of the slot is selected, packs it as a call does, and samples only that. *copy_ns is the time per
 * element of a copy. On the host it is that of the second run, when the memory exists. On a GPU it is that of codec
 * none, which only copies, plus the launches of all copies of a call. False without memory, or if the device fails. */
static bool pack_selected(const struct tagc_call *call, const struct tagc_parts *parts,
                          struct tagc_gradient_request *question, void **packed, double *copy_ns) {
  const struct tagc_device *device = call->comm->device;
  const double elements = (double)question->shape.n * question->shape.nranks,
               whole = (double)call->count * (question->shape.nranks + 1);
  const double copies = (double)tagc_partial_copies(parts, question->shape.nranks);
  struct tagc_gpu_cost cost = {0};
  *packed = device->alloc(
    device, (size_t)question->shape.n * (size_t)question->shape.nranks * tagc_dtype_size(question->shape.dtype),
    call->stream);
  if (!*packed || !tagc_partial_pack_selected(call, parts, *packed))
    return false;
  question->send = *packed;
  *copy_ns = device->cost(device, &tagc_codec_none, &question->shape, &cost)
               ? cost.encode_ns + TAGC_GPU_LAUNCH_NS * copies / whole
               : 0;
  if (!device->host_reads)
    return true;
  const double began = tagc_clock_ms();
  const bool good = tagc_partial_pack_selected(call, parts, *packed);
  *copy_ns = 1e6 * (tagc_clock_ms() - began) / elements;
  return good;
}

/* If the gradient is on a device, the host waits for all work enqueued before. */
static bool sample_gradient(const struct tagc_call *call, const struct tagc_parts *parts,
                            struct tagc_gradient_request *question, struct tagc_gradient_stats *gradient) {
  struct tagc_comm *comm = call->comm;
  struct tagc_gradient_sample sample = {0};
  void *packed = NULL;
  double copy_ns = 0;
  bool seen = tagc_comms_enter_driver(&comm, 1) &&
              (!parts || pack_selected(call, parts, question, &packed, &copy_ns)) &&
              tagc_gradient_sample_read(question, comm->device, call->stream, &sample);
  seen = tagc_comms_leave_driver(&comm, 1) && seen && tagc_gradient_stats_measure(question, &sample, gradient);
  tagc_gradient_sample_free(&sample);
  if (packed) {
    if (tagc_comms_enter_driver(&comm, 1)) /* else the stream may be gone */
      comm->device->release(comm->device, packed, call->stream);
    tagc_comms_leave_driver(&comm, 1);
  }
  if (seen && !comm->device->host_reads)
    estimate_costs(comm->device, question, gradient);
  if (seen)
    gradient->copy_ns = copy_ns;
  return seen;
}

/* NCCL wants the sent buffer in a window, and for an all-reduce the received one, too (ncclSymkPickKernel()). */
static bool is_in_windows(const struct tagc_call *call) {
  const size_t bytes = (size_t)tagc_call_bytes(call);
  return tagc_ranges_hold_symmetric(call->handle, call->send, bytes) &&
         (call->entry != TAGC_ENTRY_ncclAllReduce || tagc_ranges_hold_symmetric(call->handle, call->recv, bytes));
}

/* Fills the question, and the parts of the slot. False: no sample is due. */
static bool begin_sample(const struct tagc_call *call, struct tagc_gradient_request *question,
                         const struct tagc_parts **parts) {
  struct tagc_comm *comm = call->comm;
  pthread_mutex_lock(&comm->lock);
  const bool due = is_sample_due(comm, call);
  if (due) {
    struct tagc_slot *slot = &comm->slots[call->slot];
    slot->sample.tried = true; /* and not again */
    slot->sample.symmetric = is_in_windows(call);
    *parts = slot->selected.parts;
    question->shape = slot->packed;
    question->shape.nranks = comm->nranks; /* the buffer has shards of all, whoever exchanges payloads */
    question->shape.local = 0;
    question->rank = comm->rank;
    question->send = call->send;
    question->scale = call->scale;
    question->stochastic = tagc_library_options()->rounding == TAGC_ROUNDING_STOCHASTIC;
    question->clock_ms = comm->device->host_reads ? tagc_clock_ms : NULL;
  }
  pthread_mutex_unlock(&comm->lock);
  return due;
}

/* `gradient`: NULL if the gradient could not be sampled. */
static void end_sample(const struct tagc_call *call, bool has_codec, const struct tagc_gradient_stats *gradient) {
  struct tagc_comm *comm = call->comm;
  pthread_mutex_lock(&comm->lock);
  if (!has_codec)
    tagc_comm_reject(comm, call, TAGC_REASON_device);
  if (gradient && call->lock_number == comm->observed.lock_number) {
    comm->slots[call->slot].sample.taken = true;
    tagc_comm_decision_inputs(comm, (size_t)call->slot)->own = *gradient;
    if (comm->vote.held)
      comm->observed.cycle_disturbed = true; /* a step that includes a sample is no measurement of a step */
  }
  pthread_mutex_unlock(&comm->lock);
}

void tagc_tune_sample(const struct tagc_call *call) {
  struct tagc_comm *comm = call->comm;
  struct tagc_candidate candidates[TAGC_CANDIDATES];
  struct tagc_gradient_request question = {.candidates = candidates};
  const struct tagc_parts *parts = NULL;
  struct tagc_gradient_stats gradient;
  if (!tagc_options_auto(tagc_library_options()) || !begin_sample(call, &question, &parts))
    return;
  if (!tagc_comms_enter(&comm, 1))
    return; /* after an abort the program may free its buffers */
  bool has_codec = tagc_comms_enter_driver(&comm, 1) && find_candidates(comm->device, &question.shape, candidates);
  has_codec = tagc_comms_leave_driver(&comm, 1) && has_codec;
  const bool sampled = has_codec && sample_gradient(call, parts, &question, &gradient);
  tagc_comms_leave(&comm, 1);
  end_sample(call, has_codec, sampled ? &gradient : NULL);
}
