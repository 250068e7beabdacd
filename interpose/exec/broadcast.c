/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of a broadcast that may be compressed: encode at the root, {statuses}, {changes, or the plain call}, and
 * decode or keep. README.md says why that order cannot hang, and gives no rank wrong parameters.
 *
 * The codec is exact, for an all-gather with one shard: the root's.
 */
#include "env/clock.h"
#include "env/log.h"
#include "interpose/calls/calls.h"
#include "interpose/calls/traced.h"
#include "interpose/comm/placement.h"
#include "interpose/exec/work.h"
#include "interpose/nccl/process.h"
#include "kernels/allgather/exact.h"

/* Equal on all ranks. */
static struct tagc_reference_limits broadcast_limits(const struct tagc_work *w) {
  const struct tagc_options *options = tagc_library_options();
  return (struct tagc_reference_limits){options->broadcast_max, w->device->host_reads ? 0 : options->broadcast_pinned};
}

static uint64_t most_reference_bytes(const struct tagc_work *w) {
  const struct tagc_reference_limits limits = broadcast_limits(w);
  return limits.device + limits.pinned;
}

static const struct tagc_allgather_codec *const broadcast_codec = &tagc_allgather_exact;

static struct tagc_references *references_of(const struct tagc_work *w) { return &w->call->comm->broadcasts; }

static bool is_root(const struct tagc_work *w) { return w->call->root == w->call->comm->rank; }

static uint8_t *own_status(const struct tagc_work *w) {
  return references_of(w)->told + (size_t)w->call->comm->rank * TAGC_BROADCAST_STATUS_BYTES;
}

/* Points the job to a reference. */
static struct tagc_allgather_job *job_for(struct tagc_work *w, uint32_t reference) {
  struct tagc_references *refs = references_of(w);
  w->broadcast.job.reference = refs->all[reference].memory;
  w->broadcast.job.tables = refs->all[reference].tables;
  w->broadcast.job.digest = &refs->all[reference].digest;
  return &w->broadcast.job;
}

/* ---- the steps --------------------------------------------------------------------------------------------------- */

static void broadcast_lay_out(struct tagc_work *w) {
  const struct tagc_call *call = w->call;
  struct tagc_broadcast_work *b = &w->broadcast;
  struct tagc_allgather_layout layout = {0};
  (void)tagc_call_broadcast_shape(call, &b->shape); /* it has one: the plan has asked */
  const struct tagc_allgather_shape shape = tagc_broadcast_codec_shape(&b->shape);
  (void)broadcast_codec->layout(&shape, &layout); /* the same on ranks whose device has none */
  b->payload_most = layout.payload_bytes;
  b->job = (struct tagc_allgather_job){
    .shape = shape,
    .layout = layout,
    .rank = is_root(w) ? 0 : -1,
    .send = call->send,
    .recv = call->recv,
    .keep_own = call->send == call->recv,
  };
}

/* Kernels need aligned words, and access. Only the root's send buffer is read. */
static bool reaches_buffers(const struct tagc_work *w) {
  const struct tagc_call *call = w->call;
  const void *send = is_root(w) ? call->send : call->recv;
  return ((uintptr_t)send | (uintptr_t)call->recv) % tagc_dtype_size(w->broadcast.shape.dtype) == 0 &&
         w->device->reaches(w->device, send) && w->device->reaches(w->device, call->recv);
}

/* The fence is made here, as no vote needs to come before. */
static enum tagc_reason ask_device(struct tagc_work *w) {
  const struct tagc_device *device = w->device;
  struct tagc_sync *sync = &w->call->comm->sync;
  struct tagc_allgather_job *job = &w->broadcast.job;
  if (device->host_reads)
    return TAGC_REASON_NONE;
  if (!device->takes_stream(device, w->call->stream))
    return TAGC_REASON_stream;
  if (!device->allgather_layout(device, broadcast_codec, &job->shape, &job->layout) ||
      (!sync->fence && !(sync->fence = device->fence_make(device))))
    return TAGC_REASON_device;
  return reaches_buffers(w) ? TAGC_REASON_NONE : TAGC_REASON_memory;
}

enum tagc_reason tagc_broadcast_reject_reason(struct tagc_work *w) {
  struct tagc_references *refs = references_of(w);
  const enum tagc_reason reason = ask_device(w);
  if (reason != TAGC_REASON_NONE && !refs->complained)
    tagc_log(TAGC_LOG_WARN, "interpose", "communicator %llu: a broadcast from rank %d goes plainly on all ranks: %s",
             (unsigned long long)w->call->comm->ledger->number, w->call->root, tagc_reason_words(reason));
  refs->complained |= reason != TAGC_REASON_NONE;
  return reason;
}

/* Does a communicator that shares a host pass its broadcasts? */
static bool passes_inside(void) { return tagc_library_options()->scope != TAGC_SCOPE_FLAT; }

static ncclResult_t broadcast_begin(struct tagc_work *w) {
  struct tagc_comm *comm = w->call->comm;
  struct tagc_allgather_job *job = &w->broadcast.job;
  if (comm->broadcasts.lost && !comm->agreement.hosts && passes_inside()) {
    tagc_log(TAGC_LOG_ERROR, "interpose",
             "communicator %llu: a broadcast failed before it told whether all ranks share a host: the others may pass "
             "this one, so it fails",
             (unsigned long long)comm->ledger->number);
    return ncclInternalError;
  }
  if (!tagc_references_reserve_statuses(&comm->broadcasts, w->device, comm->nranks, w->call->stream))
    return tagc_no_memory("the statuses of a broadcast");
  comm->broadcasts.calls++;
  if (w->reject_reason == TAGC_REASON_NONE &&
      tagc_references_reserve_payload(&comm->broadcasts, w->device, tagc_allgather_assign_buffers(job, NULL),
                                      w->call->stream))
    (void)tagc_allgather_assign_buffers(job, comm->broadcasts.packed);
  return ncclSuccess;
}

/* At the root: what the call sends. False if the device fails. */
static bool choose_changes(struct tagc_work *w, struct tagc_broadcast_status *status) {
  struct tagc_references *refs = references_of(w);
  struct tagc_exact_header header;
  if (!tagc_references_sample(refs, w->device, &w->broadcast.shape, w->call->send, w->call->stream))
    return false;
  if (status->flags)
    return true;
  const struct tagc_broadcast_choice choice =
    tagc_references_choose(refs, &w->broadcast.shape, most_reference_bytes(w));
  status->action = choice.action;
  status->reference = choice.reference;
  if (choice.action != TAGC_BROADCAST_CHANGES)
    return true;
  if (!w->device->allgather_encode(w->device, broadcast_codec, job_for(w, choice.reference), w->call->stream) ||
      !w->device->get(w->device, &header, refs->packed, sizeof header, w->call->stream))
    return false;
  const bool refused = header.common.flags & TAGC_ALLGATHER_REFUSED;
  tagc_references_watch(refs, choice.reference, refused);
  status->action = refused ? TAGC_BROADCAST_KEEP : TAGC_BROADCAST_CHANGES;
  status->bytes = refused ? 0 : header.needed;
  return true;
}

static ncclResult_t broadcast_encode(struct tagc_work *w, unsigned chunk, void *stream) {
  const struct tagc_references *refs = references_of(w);
  struct tagc_broadcast_status status = tagc_broadcast_status_of(refs, &w->broadcast.shape);
  bool good = true;
  (void)chunk;
  status.host = w->call->comm->agreement.host;
  if (tagc_coll_config_gate(w->call->config) != TAGC_REASON_NONE)
    status.flags |= TAGC_BROADCAST_ASKS_PLAIN;
  if (w->reject_reason != TAGC_REASON_NONE)
    status.flags |= TAGC_BROADCAST_UNABLE;
  else if (is_root(w) && !refs->no_memory)
    good = choose_changes(w, &status);
  return tagc_work_done(good && w->device->put(w->device, own_status(w), &status, sizeof status, stream));
}

static ncclResult_t enqueue_statuses(const struct tagc_nccl_group *real, struct tagc_work *w, unsigned chunk) {
  (void)chunk;
  return real->all_gather(own_status(w), references_of(w)->told, TAGC_BROADCAST_STATUS_BYTES, ncclUint8,
                          w->call->comm->handle, w->call->stream);
}

static ncclResult_t broadcast_decode(struct tagc_work *w, unsigned chunk, void *stream) {
  (void)w, (void)chunk, (void)stream;
  return ncclSuccess;
}

/* A communicator that was split from another one learns from its first broadcast how many hosts it has: one, or
 * several. Returns true if that is news, and all calls pass from now on. */
static bool learn_hosts(struct tagc_comm *comm, const struct tagc_broadcast_status *statuses) {
  if (comm->agreement.hosts)
    return false;
  const bool inside = tagc_broadcast_is_inside(statuses, comm->nranks);
  pthread_mutex_lock(&comm->lock);
  comm->agreement.hosts = inside ? 1 : 2;
  pthread_mutex_unlock(&comm->lock);
  return inside && passes_inside();
}

/* All ranks have the same statuses now, and change their lists of references alike. */
static ncclResult_t judge_statuses(struct tagc_work *w) {
  struct tagc_references *refs = references_of(w);
  const int nranks = w->call->comm->nranks;
  struct tagc_broadcast_work *b = &w->broadcast;
  const struct tagc_reference_limits limits = broadcast_limits(w);
  const struct tagc_broadcast_status *statuses = refs->heard;
  if (!w->device->get(w->device, refs->heard, refs->told, (size_t)nranks * sizeof *statuses, w->call->stream))
    return ncclUnhandledCudaError;
  b->verdict = tagc_broadcast_judge(refs, &b->shape, statuses, nranks, b->payload_most, most_reference_bytes(w));
  if (learn_hosts(w->call->comm, statuses))
    b->verdict = (struct tagc_broadcast_verdict){
      .action = TAGC_BROADCAST_PLAIN, .cause = TAGC_BROADCAST_INSIDE, .reference = TAGC_NO_REFERENCE};
  if (b->verdict.forgets)
    tagc_references_forget(refs, w->device, w->call->comm->sync.fence);
  if (b->verdict.action == TAGC_BROADCAST_CHANGES)
    tagc_references_use(refs, b->verdict.reference);
  else if (b->verdict.action == TAGC_BROADCAST_KEEP)
    (void)tagc_references_keep(refs, w->device, &b->shape, &b->job.layout, b->verdict.reference, &limits,
                               w->call->stream);
  return ncclSuccess;
}

static bool sends_changes(const struct tagc_work *w) { return w->broadcast.verdict.action == TAGC_BROADCAST_CHANGES; }

static bool always(const struct tagc_work *w) {
  (void)w;
  return true;
}

/* A configuration is NCCL's to keep. */
static ncclResult_t enqueue_as_called(const struct tagc_nccl_group *real, const struct tagc_call *call) {
  __typeof__(&ncclBroadcastConfig) with_config = call->config ? TAGC_REAL(ncclBroadcastConfig, call->nccl) : NULL;
  if (with_config)
    return with_config(call->send, call->recv, call->count, call->type, call->root, call->comm->handle, call->stream,
                       call->config);
  return real->broadcast(call->send, call->recv, call->count, call->type, call->root, call->comm->handle, call->stream);
}

static ncclResult_t enqueue_content(const struct tagc_nccl_group *real, struct tagc_work *w) {
  const struct tagc_call *call = w->call;
  uint8_t *packed = references_of(w)->packed;
  if (sends_changes(w))
    return real->broadcast(packed, packed, w->broadcast.verdict.bytes, ncclUint8, call->root, call->comm->handle,
                           call->stream);
  return enqueue_as_called(real, call);
}

/* Waits for the device. False if it fails, or if something else comes out than the root has. */
static bool decode_changes(struct tagc_work *w) {
  const struct tagc_device *device = w->device;
  struct tagc_allgather_job *job = job_for(w, w->broadcast.verdict.reference);
  void *stream = w->call->stream;
  bool refused = false;
  return device->allgather_decode(device, broadcast_codec, job, stream) &&
         device->allgather_refused(device, broadcast_codec, job, stream, &refused) && !refused &&
         device->allgather_digest(device, broadcast_codec, job, stream);
}

static bool keep_content(struct tagc_work *w) {
  const struct tagc_device *device = w->device;
  struct tagc_allgather_job *job = job_for(w, w->broadcast.verdict.reference);
  return device->allgather_refer(device, broadcast_codec, job, w->call->stream) &&
         device->allgather_digest(device, broadcast_codec, job, w->call->stream);
}

static ncclResult_t follow_content_now(struct tagc_work *w) {
  const struct tagc_broadcast_verdict *verdict = &w->broadcast.verdict;
  const struct tagc_comm *comm = w->call->comm;
  if (sends_changes(w)) {
    if (decode_changes(w))
      return ncclSuccess;
    if (w->broadcast.job.failed || w->broadcast.job.refused)
      tagc_log(TAGC_LOG_ERROR, "interpose",
               "communicator %llu: a broadcast of %llu bytes from rank %d: its changes do not give what the root has: "
               "the call fails",
               (unsigned long long)comm->ledger->number, (unsigned long long)tagc_broadcast_bytes(&w->broadcast.shape),
               w->call->root);
    return ncclUnhandledCudaError;
  }
  if (verdict->action != TAGC_BROADCAST_KEEP || comm->broadcasts.no_memory)
    return ncclSuccess;
  return tagc_work_done(keep_content(w));
}

static ncclResult_t follow_content(struct tagc_work *w) {
  const uint64_t began = tagc_clock_ns();
  const ncclResult_t status = follow_content_now(w);
  w->took.decode_ns += tagc_clock_ns() - began;
  return status;
}

/* ---- the accounts ------------------------------------------------------------------------------------------------ */

static enum tagc_reason reason_of(const struct tagc_work *w) {
  const struct tagc_broadcast_verdict *verdict = &w->broadcast.verdict;
  const enum tagc_reason config = tagc_coll_config_gate(w->call->config);
  if (verdict->action == TAGC_BROADCAST_CHANGES)
    return TAGC_REASON_compressed;
  if (verdict->cause == TAGC_BROADCAST_ASKED && config != TAGC_REASON_NONE)
    return config;
  if (verdict->cause == TAGC_BROADCAST_INSIDE)
    return TAGC_REASON_one_host;
  if (verdict->cause == TAGC_BROADCAST_PARTED || verdict->cause == TAGC_BROADCAST_ASKED)
    return TAGC_REASON_parted;
  if (verdict->cause == TAGC_BROADCAST_REJECTED)
    return w->reject_reason != TAGC_REASON_NONE ? w->reject_reason : TAGC_REASON_broadcast_device;
  if (verdict->cause != TAGC_BROADCAST_CHOSEN)
    return TAGC_REASON_lost;
  return verdict->action == TAGC_BROADCAST_KEEP ? TAGC_REASON_kept : TAGC_REASON_unlike;
}

static void broadcast_account(struct tagc_work *w) {
  struct tagc_call *call = w->call, part = *call;
  struct tagc_ledger *ledger = call->comm->ledger;
  struct tagc_ledger_broadcasts *accounts = ledger->broadcasts;
  const struct tagc_hosts hosts = tagc_hierarchy_hosts(call->comm);
  const struct tagc_traffic plain = tagc_trace_sent(call, call->comm->rank, &hosts);
  struct tagc_traffic sent = tagc_plain_traffic(TAGC_BROADCAST_STATUS_BYTES, &hosts), content = plain;
  if (sends_changes(w)) {
    part.count = w->broadcast.verdict.bytes;
    part.type = ncclUint8;
    content = tagc_trace_sent(&part, call->comm->rank, &hosts);
  }
  tagc_traffic_add(&sent, &content);
  accounts->compressed += sends_changes(w);
  accounts->kept += w->broadcast.verdict.action == TAGC_BROADCAST_KEEP;
  accounts->reference_bytes = call->comm->broadcasts.bytes;
  tagc_traffic_add(&accounts->plain, &plain);
  tagc_traffic_add(&accounts->sent, &sent);
  accounts->times.calls += w->device->host_reads;
  call->decision.reason = reason_of(w);
  call->decision.action = sends_changes(w) ? TAGC_COMPRESS : TAGC_FLUSH;
  accounts->reasons[call->decision.reason]++;
  ledger->large.calls++;
  ledger->large.reasons[call->decision.reason]++;
  tagc_traffic_add(&ledger->large.plain, &plain);
  call->trace.sent = sent;
  call->trace.plain = plain;
}

static void broadcast_commit(struct tagc_work *w) { broadcast_account(w); }

/* The call has failed here. Other ranks may have another list of references now: the next status says so. */
static void broadcast_abort(struct tagc_work *w) { references_of(w)->lost = true; }

const struct tagc_phase tagc_phase_broadcast = {
  .lay_out = broadcast_lay_out,
  .begin = broadcast_begin,
  .exchanges = {[TAGC_EXCHANGE_LAST] = {always, enqueue_content, .then = follow_content}},
  .encoded = TAGC_MARK_ENCODED,
  .exchanged = TAGC_MARK_EXCHANGED,
  .encode = broadcast_encode,
  .enqueue_payloads = enqueue_statuses,
  .decode = broadcast_decode,
  .after_decode = judge_statuses,
  .commit = broadcast_commit,
  .abort = broadcast_abort,
};
