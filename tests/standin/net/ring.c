/* SPDX-License-Identifier: BSD-3-Clause
 * The collectives, as schedules on a ring of all ranks: each rank sends to the next place and receives from the one
 * before. Ranks of one host have adjacent places (host.c), as in NCCL: a ring enters each host once.
 *
 * A schedule is a sequence of chunks to send and one of chunks to receive, both walked by slice and step. A chunk
 * received in step s is sent in step s + 1. Each byte may go on once it has arrived and been reduced, so all links are
 * busy at once. Slices keep partial sums small enough for the cache. Payload that a rank sends, for n bytes of the
 * whole buffer and W ranks: ReduceScatter and AllGather (W-1)/W n, AllReduce 2(W-1)/W n. Broadcast and Reduce are
 * chains from and to the root: n, but the last rank of the chain sends nothing.
 *
 * A ring belongs to the thread that runs its job; its buffers to the communicator.
 */
#include "tests/standin/standin.h"

#include <stdlib.h>
#include <string.h>

#define SLICE ((size_t)256 << 10) /* of each shard */
#define STAGE ((size_t)256 << 10) /* received but not yet reduced; scaled but not yet sent */
#define WORK_BUFFERS 2            /* slices of partial sums in transit: one arrives while the previous one leaves */

struct chunk {
  char *data;      /* sent from, or received into */
  const char *own; /* received: the own operand; NULL: plain copy */
  size_t size;
  bool input;    /* sent: the program's input, to be scaled if the operator says so */
  bool work;     /* received: a partial sum that goes on to the next rank */
  bool complete; /* received: the last operand */
};

static int modulo(int rank, int nranks) { return (rank % nranks + nranks) % nranks; }

/* The offset, in a buffer of all shards, of the shard of the rank `places` places away. */
static size_t shard_at(const struct ring *ring, int places) {
  return (size_t)ring->ranks[modulo(ring->place + places, ring->nranks)] * ring->total;
}

/* Bytes of slice `slice` of each shard (for AllReduce: of the whole buffer). */
static size_t slice_size(const struct ring *ring, size_t slice) {
  size_t begin = slice * ring->slice_size;
  size_t left = ring->total - begin;
  return left < ring->slice_size ? left : ring->slice_size;
}

static char *work_buffer(const struct ring *ring, size_t slice, int step) {
  return ring->work + (slice % WORK_BUFFERS * (size_t)ring->steps + (size_t)step) * ring->slice_size;
}

/* AllReduce cuts each slice into one chunk of whole elements per rank. */
static struct chunk all_reduce_chunk(const struct ring *ring, size_t slice, int index) {
  size_t count = slice_size(ring, slice) / ring->element;
  size_t begin = count * (size_t)index / (size_t)ring->nranks, end = count * ((size_t)index + 1) / (size_t)ring->nranks;
  size_t offset = slice * ring->slice_size + begin * ring->element;
  return (struct chunk){.data = (char *)ring->call->recv + offset,
                        .own = (const char *)ring->call->send + offset,
                        .size = (end - begin) * ring->element};
}

static struct chunk chunk_to_send(const struct ring *ring, const struct cursor *at) {
  const struct call *call = ring->call;
  char *input = (char *)call->send;
  size_t offset = at->slice * ring->slice_size;
  struct chunk chunk = {.size = slice_size(ring, at->slice), .input = at->step == 0};
  switch (call->function) {
  case FN_REDUCE_SCATTER:
    if (at->step == 0)
      chunk.data = input + shard_at(ring, -1) + offset;
    else
      chunk.data = work_buffer(ring, at->slice, at->step - 1);
    break;
  case FN_ALL_GATHER: chunk.data = at->step == 0 ? input : (char *)call->recv + shard_at(ring, -at->step); break;
  case FN_ALL_REDUCE:
    chunk = all_reduce_chunk(ring, at->slice, modulo(ring->place - at->step, ring->nranks));
    chunk.input = at->step == 0;
    if (chunk.input)
      chunk.data = (char *)chunk.own;
    break;
  case FN_BROADCAST: chunk.data = (ring->receives ? (char *)call->recv : input) + offset; break;
  default: /* FN_REDUCE */
    chunk.input = !ring->receives;
    chunk.data = chunk.input ? input + offset : work_buffer(ring, at->slice, 0);
  }
  return chunk;
}

static struct chunk chunk_to_receive(const struct ring *ring, const struct cursor *at) {
  const struct call *call = ring->call;
  size_t offset = at->slice * ring->slice_size;
  struct chunk chunk = {.size = slice_size(ring, at->slice)};
  if (call->recv) /* NULL on ranks that are not the root */
    chunk.data = (char *)call->recv + offset;
  switch (call->function) {
  case FN_REDUCE_SCATTER:
    chunk.own = (const char *)call->send + offset + shard_at(ring, -at->step - 2);
    chunk.complete = at->step == ring->steps - 1;
    chunk.work = !chunk.complete;
    break;
  case FN_ALL_GATHER: chunk.data = (char *)call->recv + shard_at(ring, -at->step - 1); break;
  case FN_ALL_REDUCE:
    chunk = all_reduce_chunk(ring, at->slice, modulo(ring->place - at->step - 1, ring->nranks));
    chunk.complete = at->step == ring->nranks - 2;
    if (at->step > ring->nranks - 2)
      chunk.own = NULL;
    break;
  case FN_BROADCAST: break;
  default: /* FN_REDUCE */
    chunk.own = (const char *)call->send + offset;
    chunk.complete = !ring->sends;
    chunk.work = ring->sends;
  }
  if (chunk.work)
    chunk.data = work_buffer(ring, at->slice, at->step);
  return chunk;
}

/* Moves to the next non-empty chunk, once this one is done. */
static void advance(const struct ring *ring, struct cursor *at,
                    struct chunk (*chunk_at)(const struct ring *, const struct cursor *)) {
  while (at->slice < ring->slices && at->offset == chunk_at(ring, at).size) {
    at->offset = 0;
    if (++at->step == ring->steps) {
      at->step = 0;
      at->slice++;
    }
  }
}

/* -- starting ---------------------------------------------------------------------------------------------------- */
static void plan(struct ring *ring, const struct ncclComm *comm) {
  const struct call *call = ring->call;
  size_t size = call->count * ring->element;
  int n = ring->nranks;
  ring->sends = ring->receives = true;
  ring->steps = n - 1;
  ring->dependency = -1;
  ring->total = size;
  ring->slice_size = SLICE;
  switch (call->function) {
  case FN_REDUCE_SCATTER: break;
  case FN_ALL_GATHER: ring->slice_size = size; break;
  case FN_ALL_REDUCE:
    ring->steps = 2 * (n - 1);
    ring->slice_size = SLICE * (size_t)n;
    break;
  default: { /* the chains: from the root on, or from the place after it to the root */
    int first = comm->place[call->root] + (call->function == FN_REDUCE);
    int place = modulo(ring->place - first, n);
    ring->receives = place > 0;
    ring->sends = place < n - 1;
    ring->steps = 1;
    ring->dependency = ring->receives ? 0 : -1;
  }
  }
  ring->slices = (ring->total + ring->slice_size - 1) / ring->slice_size;
}

static bool reserve(struct ring *ring, struct ncclComm *comm) {
  size_t needed = WORK_BUFFERS * (size_t)ring->steps * SLICE;
  bool partial_sums = ring->call->function == FN_REDUCE || ring->call->function == FN_REDUCE_SCATTER;
  if (!comm->stage_in)
    comm->stage_in = malloc(STAGE);
  if (!comm->stage_out)
    comm->stage_out = malloc(STAGE);
  if (partial_sums && comm->work_size < needed) {
    free(comm->work);
    comm->work = malloc(needed);
    comm->work_size = comm->work ? needed : 0;
  }
  ring->stage_in = comm->stage_in;
  ring->stage_out = comm->stage_out;
  ring->work = comm->work;
  return ring->stage_in && ring->stage_out && (ring->work || !partial_sums);
}

/* Plans the copy of the own input into the result: its size and its destination. */
static void plan_own_copy(struct ring *ring) {
  const struct call *call = ring->call;
  char *to = call->recv;
  if (call->function == FN_ALL_GATHER)
    to += shard_at(ring, 0);
  else if (call->function != FN_BROADCAST || ring->receives)
    return;
  if (to != call->send) {
    ring->own_copy = to;
    ring->own_left = ring->total;
  }
}

static bool is_reduction(enum function function) {
  return function == FN_REDUCE_SCATTER || function == FN_ALL_REDUCE || function == FN_REDUCE;
}

ncclResult_t standin_ring_start(struct job *job) {
  struct ring *ring = &job->ring;
  struct ncclComm *comm = job->comm;
  struct call *call = job->calls[job->current];
  int n = comm->nranks, place = comm->place[comm->rank];
  *ring = (struct ring){.call = call,
                        .reduction = call->reduction,
                        .element = standin_type_size(call->type),
                        .ranks = comm->ring,
                        .place = place,
                        .nranks = n,
                        .next = comm->ring[modulo(place + 1, n)],
                        .prev = comm->ring[modulo(place - 1, n)]};
  plan(ring, comm);
  if (!reserve(ring, comm))
    return standin_fail(ncclSystemError, "no memory for the ring's buffers");
  if (ring->reduction.device_scalar)
    memcpy(ring->reduction.scalar.bytes, ring->reduction.device_scalar, ring->element);
  /* Copies are compared by their bytes alone, as in NCCL; reductions by type and operator too. */
  struct header header = {.magic = STANDIN_HEADER_MAGIC,
                          .function = (uint8_t)call->function,
                          .sequence = comm->sequence++,
                          .size = ring->total,
                          .root = (uint32_t)call->root,
                          .place = (uint16_t)job->current,
                          .grouped = (uint16_t)job->ncollectives};
  if (is_reduction(call->function)) {
    header.type = (uint8_t)call->type;
    header.kind = (uint8_t)call->reduction.kind;
  }
  ring->out.header = ring->in.header = header;
  plan_own_copy(ring);
  advance(ring, &ring->sent, chunk_to_send);
  advance(ring, &ring->received, chunk_to_receive);
  return ncclSuccess;
}

/* -- moving ------------------------------------------------------------------------------------------------------ */
/* True if the walk at `at` has left chunk (slice, step) behind. */
static bool is_past(const struct cursor *at, size_t slice, int step) {
  return at->slice > slice || (at->slice == slice && at->step > step);
}

/* The bytes of the current chunk that may be sent: the ones that this rank has received and reduced. */
static size_t sendable(const struct ring *ring, const struct chunk *chunk) {
  const struct cursor *sent = &ring->sent, *received = &ring->received;
  int source = sent->step + ring->dependency;
  if (source < 0 || is_past(received, sent->slice, source))
    return chunk->size - sent->offset;
  if (received->slice == sent->slice && received->step == source)
    return received->offset - sent->offset;
  return 0;
}

static ncclResult_t send_some(struct ring *ring, struct ncclComm *comm, bool *progress) {
  struct chunk chunk = chunk_to_send(ring, &ring->sent);
  size_t size = sendable(ring, &chunk), moved;
  if (!size) {
    standin_rate_idle(comm->peers[ring->next].way);
    return ncclSuccess;
  }
  const char *data = chunk.data + ring->sent.offset;
  if (chunk.input && ring->reduction.scaled) {
    if (ring->scaled_begin == ring->scaled_end) {
      ring->scaled_begin = 0;
      ring->scaled_end = size < STAGE ? size : STAGE;
      standin_scale(ring->stage_out, data, ring->scaled_end / ring->element, &ring->reduction);
    }
    data = ring->stage_out + ring->scaled_begin;
    size = ring->scaled_end - ring->scaled_begin;
  }
  size_t head = ring->out.done;
  ncclResult_t result = standin_wire_send(comm, ring->next, &ring->out, data, size, &moved);
  if (chunk.input && ring->reduction.scaled)
    ring->scaled_begin += moved;
  ring->sent.offset += moved;
  ring->payload_sent += moved;
  *progress |= moved > 0 || ring->out.done > head;
  advance(ring, &ring->sent, chunk_to_send);
  if (ring->sent.slice == ring->slices)
    standin_rate_idle(comm->peers[ring->next].way);
  return result;
}

/* The buffer of a partial sum is free once its previous slice has been sent. */
static bool must_wait_for_buffer(const struct ring *ring, const struct chunk *chunk) {
  const struct cursor *at = &ring->received;
  int sent_in_step = at->step - ring->dependency;
  return chunk->work && at->slice >= WORK_BUFFERS && !is_past(&ring->sent, at->slice - WORK_BUFFERS, sent_in_step);
}

static ncclResult_t receive_some(struct ring *ring, struct ncclComm *comm, bool *progress) {
  struct chunk chunk = chunk_to_receive(ring, &ring->received);
  if (must_wait_for_buffer(ring, &chunk))
    return ncclSuccess;
  size_t left = chunk.size - ring->received.offset - ring->staged, moved, head = ring->in.done;
  char *to = chunk.data + ring->received.offset;
  if (chunk.own) {
    to = ring->stage_in + ring->staged;
    left = left < STAGE - ring->staged ? left : STAGE - ring->staged;
  }
  ncclResult_t result = standin_wire_recv(comm, ring->prev, &ring->in, to, left, &moved);
  *progress |= moved > 0 || ring->in.done > head;
  if (result != ncclSuccess)
    return result;
  if (chunk.own) {
    ring->staged += moved;
    moved = ring->staged / ring->element * ring->element;
    standin_reduce(chunk.data + ring->received.offset, chunk.own + ring->received.offset, ring->stage_in,
                   moved / ring->element, &ring->reduction, chunk.complete);
    ring->staged -= moved;
    memmove(ring->stage_in, ring->stage_in + moved, ring->staged);
  }
  ring->received.offset += moved;
  advance(ring, &ring->received, chunk_to_receive);
  return ncclSuccess;
}

/* Copies one piece at a time, from the end, while there is nothing to send or receive: links must not wait for it. */
static void copy_some(struct ring *ring) {
  size_t piece = ring->own_left < STAGE ? ring->own_left : STAGE;
  ring->own_left -= piece;
  memcpy(ring->own_copy + ring->own_left, (const char *)ring->call->send + ring->own_left, piece);
}

ncclResult_t standin_ring_step(struct ring *ring, struct ncclComm *comm, bool *progress, bool *done) {
  ncclResult_t result = ncclSuccess;
  if (ring->receives && ring->received.slice < ring->slices)
    result = receive_some(ring, comm, progress);
  if (result == ncclSuccess && ring->sends && ring->sent.slice < ring->slices)
    result = send_some(ring, comm, progress);
  if (!*progress && ring->own_left) {
    copy_some(ring);
    *progress = true;
  }
  *done = !ring->own_left && (!ring->receives || ring->received.slice == ring->slices) &&
          (!ring->sends || ring->sent.slice == ring->slices);
  return result;
}

void standin_run_alone(struct call *call) {
  size_t element = standin_type_size(call->type);
  if (call->reduction.device_scalar)
    memcpy(call->reduction.scalar.bytes, call->reduction.device_scalar, element);
  if (call->reduction.scaled)
    standin_scale(call->recv, call->send, call->count, &call->reduction);
  else if (call->recv != call->send)
    memmove(call->recv, call->send, call->count * element);
}
