/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/execute.h"

#include <stdlib.h>

#include "interpose/comm.h"
#include "interpose/library.h"
#include "interpose/vote.h"
#include "kernels/residual.h"

/* A call that is compressed or flushed. */
struct work {
  struct tagc_call *call;
  struct tagc_job job;
  void *scratch;                    /* TAGC_FLUSH: the send buffer of the plain call */
  size_t batch;
};

/* ---- who works on the communicators ---------------------------------------------------------------------------- */

static bool first_of_its_communicator(const struct work *work, size_t i)
{
  for (size_t j = 0; j < i; j++)
    if (work[j].call->comm == work[i].call->comm)
      return false;
  return true;
}

/* Gives back the communicators of the first `count` pieces of work; aborted ones stay aborted. */
static void leave_all(struct work *work, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    int phase = atomic_load(&work[i].call->comm->phase);
    while (phase != TAGC_PHASE_ABORTED && first_of_its_communicator(work, i) &&
           !atomic_compare_exchange_weak(&work[i].call->comm->phase, &phase, TAGC_PHASE_IDLE))
      ;
  }
}

/* Moves the communicators of all work on; false when one has been aborted. */
static bool enter_all(struct work *work, size_t count, enum tagc_phase from, enum tagc_phase to)
{
  bool alive = true;
  for (size_t i = 0; i < count && alive; i++)
    if (first_of_its_communicator(work, i) && !tagc_comm_enter(work[i].call->comm, from, to)) {
      alive = false;
      if (from == TAGC_PHASE_IDLE)
        leave_all(work, i);
    }
  return alive;
}

/* Runs one real group over the work: `enqueue` adds the calls of one piece of it. An abort in between is an error of the
 * class that NCCL itself would give. */
static ncclResult_t exchange(const struct tagc_exchange *real, struct work *work, size_t count, size_t batch,
                             ncclResult_t (*enqueue)(const struct tagc_exchange *, struct work *))
{
  if (!enter_all(work, count, TAGC_PHASE_OURS, TAGC_PHASE_NCCL))
    return ncclInternalError;
  tagc_real_depth++;
  ncclResult_t status = real->start();
  if (status == ncclSuccess) {
    for (size_t i = 0; i < count && status == ncclSuccess; i++)
      if (work[i].batch == batch)
        status = enqueue(real, &work[i]);
    ncclResult_t ended = real->end();
    status = status == ncclSuccess ? ended : status;
  }
  tagc_real_depth--;
  if (!enter_all(work, count, TAGC_PHASE_NCCL, TAGC_PHASE_OURS) && status == ncclSuccess)
    status = ncclInternalError;
  return status;
}

static ncclResult_t enqueue_exponents(const struct tagc_exchange *real, struct work *w)
{
  struct tagc_job *job = &w->job;
  size_t bytes = (size_t)job->shape.nranks * job->layout.exponent_bytes;
  if (w->call->decision.action != TAGC_COMPRESS || !bytes)
    return ncclSuccess;
  return real->all_reduce(job->exponents, job->exponents, bytes, ncclUint8, ncclMax, w->call->handle, w->call->stream);
}

static ncclResult_t enqueue_payloads(const struct tagc_exchange *real, struct work *w)
{
  struct tagc_job *job = &w->job;
  ncclComm_t comm = w->call->handle;
  cudaStream_t stream = w->call->stream;
  size_t bytes = job->layout.message_bytes;
  ncclResult_t status = ncclSuccess;
  if (w->call->decision.action == TAGC_FLUSH) {
    ncclRedOp_t op = w->call->op_kind == TAGC_OP_AVG ? ncclAvg : ncclSum;
    return real->reduce_scatter(w->scratch, w->call->recv, w->call->count, w->call->type, op, comm, stream);
  }
  if (job->layout.sketch_count)
    status = real->reduce_scatter(job->sketch_out, job->sketch_in, job->layout.sketch_count, ncclInt32, ncclSum, comm,
                                  stream);
  for (int peer = 0; peer < job->shape.nranks && bytes && status == ncclSuccess; peer++) {
    if (peer == job->rank)
      continue;
    status = real->send(job->message_out + (size_t)peer * bytes, bytes, ncclUint8, peer, comm, stream);
    if (status == ncclSuccess)
      status = real->receive(job->message_in + (size_t)peer * bytes, bytes, ncclUint8, peer, comm, stream);
  }
  return status;
}

/* ---- one call ---------------------------------------------------------------------------------------------------- */

static uint64_t seed_of(const struct tagc_call *call, const struct tagc_slot *slot)
{
  /* splitmix64 (Steele, Lea, Flood 2014) over what all ranks know of the call. */
  uint64_t x = tagc_library_options()->seed + UINT64_C(0x9e3779b97f4a7c15) * (1 + (uint64_t)call->slot);
  for (int i = 0; i < 2; i++) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x = (x ^ x >> 31) + slot->compressed_calls * UINT64_C(0x9e3779b97f4a7c15);
  }
  return x;
}

static void *take(uint8_t **at, size_t bytes)
{
  void *memory = bytes ? *at : NULL;
  *at += (bytes + 63) & ~(size_t)63;
  return memory;
}

/* Fills the job of a call from its slot; the payloads lie in the workspace from `at` on. */
static void lay_out(struct work *w, uint8_t *at)
{
  struct tagc_call *call = w->call;
  struct tagc_comm *comm = call->comm;
  struct tagc_slot *slot = &comm->slots[call->slot];
  struct tagc_ledger_row *row = tagc_ledger_row(comm->ledger, call->slot);
  const struct tagc_layout *l = &slot->layout;
  size_t nranks = (size_t)slot->shape.nranks;
  w->job = (struct tagc_job){
    .shape = slot->shape, .layout = *l, .rank = comm->rank, .send = call->send, .recv = call->recv,
    .scale = call->scale, .divisor = call->op_kind == TAGC_OP_AVG ? (float)comm->nranks : 1,
    .residual = slot->residual, .residual_empty = slot->residual_empty, .seed = seed_of(call, slot), .stats = &row->stats,
  };
  if (call->decision.action == TAGC_FLUSH) {
    w->scratch = at;
    slot->residual_empty = true;    /* this call sends what is left */
    slot->dirty = false;
    return;
  }
  w->job.exponents = take(&at, nranks * l->exponent_bytes);
  w->job.sketch_out = take(&at, nranks * l->sketch_count * 4);
  w->job.sketch_in = take(&at, l->sketch_count * 4);
  w->job.message_out = take(&at, nranks * l->message_bytes);
  w->job.message_in = take(&at, nranks * l->message_bytes);
  w->job.state = take(&at, l->state_bytes);
  slot->residual_empty = false;
  slot->residual_cycle = call->cycle;
  slot->dirty = slot->residual != NULL;
  slot->compressed_calls++;
}

/* ---- batches ------------------------------------------------------------------------------------------------------- */

/* Puts the work into batches and lays out its payloads: as many calls of a communicator, in order, as its workspace holds,
 * and no slot twice, for the second call needs the residual that the first one leaves. Returns how many batches. */
static size_t make_batches(struct work *work, size_t count)
{
  size_t batches = 0;
  for (size_t i = 0; i < count; i++) {
    const struct tagc_comm *comm = work[i].call->comm;
    size_t need = tagc_vote_call_bytes(&comm->slots[work[i].call->slot]), used = 0, batch = 0;
    bool full = false;
    for (size_t j = 0; j < i; j++) {
      if (work[j].call->comm != comm)
        continue;
      if (work[j].batch > batch) {
        batch = work[j].batch;
        used = 0;
        full = false;
      }
      used += tagc_vote_call_bytes(&comm->slots[work[j].call->slot]);
      full |= work[j].call->slot == work[i].call->slot;
    }
    full |= used + need > comm->workspace_bytes;
    work[i].batch = batch + full;
    lay_out(&work[i], comm->workspace + (full ? 0 : used));
    batches = work[i].batch + 1 > batches ? work[i].batch + 1 : batches;
  }
  return batches;
}

static ncclResult_t run_batch(const struct tagc_exchange *real, struct work *work, size_t count, size_t batch)
{
  const struct tagc_codec *codec = tagc_library_codec();
  for (size_t i = 0; i < count; i++) {
    if (work[i].batch != batch)
      continue;
    double began = tagc_clock_ms();
    if (work[i].call->decision.action == TAGC_FLUSH)
      tagc_residual_flush(&work[i].job, work[i].scratch);
    else if (codec->prepare)
      codec->prepare(&work[i].job);
    work[i].call->comm->ledger->encode_ms += tagc_clock_ms() - began;
  }
  double began = tagc_clock_ms();
  ncclResult_t status = codec->prepare ? exchange(real, work, count, batch, enqueue_exponents) : ncclSuccess;
  double exchanged = tagc_clock_ms() - began;
  for (size_t i = 0; i < count && status == ncclSuccess; i++) {
    if (work[i].batch != batch || work[i].call->decision.action == TAGC_FLUSH)
      continue;
    began = tagc_clock_ms();
    codec->encode(&work[i].job);
    work[i].call->comm->ledger->encode_ms += tagc_clock_ms() - began;
  }
  began = tagc_clock_ms();
  if (status == ncclSuccess)
    status = exchange(real, work, count, batch, enqueue_payloads);
  work[0].call->comm->ledger->exchange_ms += exchanged + tagc_clock_ms() - began;
  for (size_t i = 0; i < count && status == ncclSuccess; i++) {
    if (work[i].batch != batch || work[i].call->decision.action == TAGC_FLUSH)
      continue;
    began = tagc_clock_ms();
    codec->decode(&work[i].job);
    work[i].call->comm->nonfinite |= work[i].job.nonfinite_seen;
    work[i].call->comm->ledger->decode_ms += tagc_clock_ms() - began;
  }
  return status;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------ */

static void account(const struct work *w)
{
  const struct tagc_call *call = w->call;
  struct tagc_ledger *ledger = call->comm->ledger;
  uint64_t plain = tagc_plain_wire_bytes(&w->job.shape), wire = plain;
  if (call->decision.action == TAGC_COMPRESS) {
    struct tagc_ledger_row *row = tagc_ledger_row(ledger, call->slot);
    wire = tagc_layout_wire_bytes(&w->job.shape, &w->job.layout);
    row->compressed++;
    row->raw_bytes += (uint64_t)w->job.shape.nranks * w->job.shape.n * tagc_dtype_size(w->job.shape.dtype);
    row->plain_bytes += plain;
    row->wire_bytes += wire;
  }
  ledger->wire_bytes_total += wire;
}

static ncclResult_t run(const struct tagc_exchange *real, struct work *work, size_t count)
{
  if (!enter_all(work, count, TAGC_PHASE_IDLE, TAGC_PHASE_OURS))
    return ncclInternalError;
  size_t batches = make_batches(work, count);
  ncclResult_t status = ncclSuccess;
  for (size_t batch = 0; batch < batches && status == ncclSuccess; batch++)
    status = run_batch(real, work, count, batch);
  for (size_t i = 0; i < count; i++)
    account(&work[i]);
  leave_all(work, count);
  return status;
}

ncclResult_t tagc_execute(const struct tagc_exchange *real, struct tagc_call *calls, size_t count)
{
  struct work one[1], *work = one;
  size_t n = 0;
  for (size_t i = 0; i < count; i++)
    n += calls[i].decision.action != TAGC_PASS;
  if (n > 1 && !(work = malloc(n * sizeof *work)))
    return ncclSystemError;
  n = 0;
  for (size_t i = 0; i < count; i++)
    if (calls[i].decision.action != TAGC_PASS)
      work[n++] = (struct work){.call = &calls[i]};
  ncclResult_t status = n ? run(real, work, n) : ncclSuccess;
  if (work != one)
    free(work);
  return status;
}
