/* SPDX-License-Identifier: BSD-3-Clause
 * Point-to-point calls of a group on one communicator: all at once, in order between two ranks. AlltoAll, Gather and
 * Scatter are sets of them, as in NCCL. A rank's sends to itself are copied in call order. Belongs to the thread that
 * runs the job.
 */
#include "tests/standin/standin.h"

#include <stdlib.h>
#include <string.h>

static size_t transfers_of(const struct call *call, const struct ncclComm *comm) {
  switch (call->function) {
  case FN_SEND:
  case FN_RECV: return 1;
  case FN_ALL_TO_ALL: return 2 * (size_t)comm->nranks;
  default: return 1 + (comm->rank == call->root ? (size_t)comm->nranks : 0);
  }
}

static void add(struct p2p *p2p, struct call *call, int peer, bool out, const void *data, size_t block) {
  size_t size = call->count * standin_type_size(call->type);
  struct transfer *transfer = &p2p->transfers[p2p->count++];
  *transfer = (struct transfer){.data = (char *)data + block * size, .size = size, .call = call};
  struct lane *lane = &p2p->lanes[peer];
  struct transfer ***tail = out ? &lane->out_tail : &lane->in_tail;
  **tail = transfer;
  *tail = &transfer->next;
}

static void add_call(struct p2p *p2p, const struct ncclComm *comm, struct call *call) {
  switch (call->function) {
  case FN_SEND: add(p2p, call, call->root, true, call->send, 0); return;
  case FN_RECV: add(p2p, call, call->root, false, call->recv, 0); return;
  case FN_ALL_TO_ALL:
    for (int i = 0; i < comm->nranks; i++) {
      add(p2p, call, i, true, call->send, (size_t)i);
      add(p2p, call, i, false, call->recv, (size_t)i);
    }
    return;
  case FN_GATHER:
    add(p2p, call, call->root, true, call->send, 0);
    for (int i = 0; comm->rank == call->root && i < comm->nranks; i++)
      add(p2p, call, i, false, call->recv, (size_t)i);
    return;
  default: /* FN_SCATTER */
    for (int i = 0; comm->rank == call->root && i < comm->nranks; i++)
      add(p2p, call, i, true, call->send, (size_t)i);
    add(p2p, call, call->root, false, call->recv, 0);
  }
}

static ncclResult_t copy_to_self(struct lane *self) {
  for (; self->out && self->in; self->out = self->out->next, self->in = self->in->next) {
    if (self->out->size != self->in->size)
      return standin_fail(ncclInvalidUsage, "a send to oneself of %zu bytes meets a receive of %zu", self->out->size,
                          self->in->size);
    if (self->in->data != self->out->data)
      memmove(self->in->data, self->out->data, self->in->size);
  }
  if (self->out || self->in)
    return standin_fail(ncclInvalidUsage, "a send to oneself without its receive in the same group, or the reverse");
  return ncclSuccess;
}

static void open_envelope(struct envelope *envelope, const struct transfer *transfer) {
  envelope->done = 0;
  if (transfer)
    envelope->header = (struct header){.magic = STANDIN_HEADER_MAGIC, .function = FN_SEND, .size = transfer->size};
}

ncclResult_t standin_p2p_start(struct p2p *p2p, struct ncclComm *comm, struct call **calls, size_t ncalls) {
  size_t count = 0;
  for (size_t i = 0; i < ncalls; i++)
    count += transfers_of(calls[i], comm);
  *p2p = (struct p2p){.transfers = calloc(count, sizeof *p2p->transfers),
                      .lanes = calloc((size_t)comm->nranks, sizeof *p2p->lanes)};
  if (!p2p->transfers || !p2p->lanes)
    return standin_fail(ncclSystemError, "no memory for %zu messages", count);
  for (int i = 0; i < comm->nranks; i++) {
    p2p->lanes[i].out_tail = &p2p->lanes[i].out;
    p2p->lanes[i].in_tail = &p2p->lanes[i].in;
  }
  for (size_t i = 0; i < ncalls; i++)
    add_call(p2p, comm, calls[i]);
  for (int i = 0; i < comm->nranks; i++) {
    open_envelope(&p2p->lanes[i].out_envelope, p2p->lanes[i].out);
    open_envelope(&p2p->lanes[i].in_envelope, p2p->lanes[i].in);
  }
  return copy_to_self(&p2p->lanes[comm->rank]);
}

static ncclResult_t send_some(struct lane *lane, struct ncclComm *comm, int peer, bool *progress) {
  struct transfer *transfer = lane->out;
  size_t moved, head = lane->out_envelope.done;
  ncclResult_t result = standin_wire_send(comm, peer, &lane->out_envelope, transfer->data + transfer->done,
                                          transfer->size - transfer->done, &moved);
  transfer->done += moved;
  standin_stats_sent(transfer->call->line, comm->peers[peer].way, moved);
  *progress |= moved > 0 || lane->out_envelope.done > head;
  if (transfer->done == transfer->size) {
    lane->out = transfer->next;
    open_envelope(&lane->out_envelope, lane->out);
  }
  return result;
}

static ncclResult_t receive_some(struct lane *lane, struct ncclComm *comm, int peer, bool *progress) {
  struct transfer *transfer = lane->in;
  size_t moved, head = lane->in_envelope.done;
  ncclResult_t result = standin_wire_recv(comm, peer, &lane->in_envelope, transfer->data + transfer->done,
                                          transfer->size - transfer->done, &moved);
  transfer->done += moved;
  *progress |= moved > 0 || lane->in_envelope.done > head;
  if (transfer->done == transfer->size) {
    lane->in = transfer->next;
    open_envelope(&lane->in_envelope, lane->in);
  }
  return result;
}

ncclResult_t standin_p2p_step(struct p2p *p2p, struct ncclComm *comm, bool *progress, bool *done) {
  ncclResult_t result = ncclSuccess;
  bool sending[2] = {false, false};
  *done = true;
  for (int i = 0; i < comm->nranks && result == ncclSuccess; i++) {
    struct lane *lane = &p2p->lanes[i];
    if (lane->in)
      result = receive_some(lane, comm, i, progress);
    if (lane->out && result == ncclSuccess)
      result = send_some(lane, comm, i, progress);
    sending[comm->peers[i].way] |= lane->out != NULL;
    *done = *done && !lane->in && !lane->out;
  }
  for (enum way way = WAY_BETWEEN; way <= WAY_INSIDE; way++)
    if (!sending[way])
      standin_rate_idle(way);
  return result;
}

void standin_p2p_free(struct p2p *p2p) {
  free(p2p->transfers);
  free(p2p->lanes);
  p2p->transfers = NULL;
  p2p->lanes = NULL;
}
