/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/comm/allgathers.h"

#include <stdlib.h>

#include "interpose/comm/chunking.h"
#include "interpose/comm/comm.h"
#include "interpose/nccl/process.h"

enum tagc_reason tagc_allgathers_reason(void) {
  const struct tagc_options *options = tagc_library_options();
  if (options->allgather == TAGC_ALLGATHER_OFF)
    return TAGC_REASON_allgather_off;
  if (options->allgather != TAGC_ALLGATHER_AUTO)
    return TAGC_REASON_NONE;
  return tagc_library_allgather_codec() ? TAGC_REASON_NONE : TAGC_REASON_allgather_named;
}

struct tagc_allgather *tagc_allgather_of(const struct tagc_comm *comm, const struct tagc_call *call) {
  return call->allgather >= 0 && (size_t)call->allgather < comm->allgather_count ? &comm->allgathers[call->allgather]
                                                                                 : NULL;
}

struct tagc_allgather *tagc_allgather_first(const struct tagc_comm *comm, const struct tagc_allgather *allgather) {
  return &comm->allgathers[allgather->first];
}

bool tagc_allgathers_make(struct tagc_comm *comm) {
  size_t count;
  const struct tagc_allgather_info *infos = tagc_cycle_allgathers(comm->observed.cycle, &count);
  if (tagc_allgathers_reason() != TAGC_REASON_NONE || !count)
    return true;
  comm->allgathers = calloc(count, sizeof *comm->allgathers);
  if (!comm->allgathers)
    return false;
  comm->allgather_count = count;
  for (size_t i = 0; i < count; i++) {
    struct tagc_allgather *a = &comm->allgathers[i];
    const struct tagc_signature *s = &infos[i].signature;
    const bool known = tagc_comm_dtype((ncclDataType_t)s->dtype, &a->shape.dtype);
    a->shape.n = known ? s->count : 0;
    a->shape.nranks = comm->nranks;
    a->codec = tagc_library_allgather_codec();
    a->slot = infos[i].slot;
    a->again = infos[i].again;
    a->reason = TAGC_REASON_warm_up;
    a->first = (uint32_t)i;
    a->sizes.payload_bytes = a->again ? a->codec->least_bytes : 0;
    for (uint32_t j = 0; j < i && a->first == i && infos[i].sure; j++)
      if (infos[j].sure && comm->allgathers[j].slot == a->slot && comm->allgathers[j].shape.dtype == a->shape.dtype)
        a->first = j;
    comm->allgathers[a->first].repeated |= a->first != i;
  }
  return true;
}

void tagc_allgathers_forget(struct tagc_comm *comm) {
  for (size_t i = 0; i < comm->allgather_count; i++)
    comm->allgathers[i].referred = comm->allgathers[i].digest_known = false;
}

bool tagc_allgathers_await_vote(const struct tagc_comm *comm, const struct tagc_call *call) {
  const struct tagc_allgather *a = tagc_allgather_of(comm, call);
  return a && a->shape.n && !comm->vote.held && tagc_comm_agreed(comm) && comm->device &&
         call->lock_number == comm->observed.lock_number && tagc_plan_samples(comm->vote.cycle, call->cycle);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

size_t tagc_allgathers_workspace(const struct tagc_comm *comm) {
  size_t largest = 0;
  for (size_t i = 0; i < comm->allgather_count; i++) {
    const struct tagc_allgather *a = &comm->allgathers[i];
    const size_t bytes = a->reason == TAGC_REASON_compressed
                           ? tagc_chunking_allgather_bytes(comm->device, a->codec, &a->shape, &a->layout, &a->chunking)
                           : 0;
    largest = bytes > largest ? bytes : largest;
  }
  return largest;
}

static void give_back_allgather(const struct tagc_comm *comm, struct tagc_allgather *a) {
  if (!comm->sync.unfenced) {
    comm->device->release_after(comm->device, a->reference, comm->sync.fence);
    comm->device->release_after(comm->device, a->tables, comm->sync.fence);
  }
  if (a->tally && !comm->sync.unfenced)
    comm->device->tally_free(comm->device, a->tally, comm->sync.fence);
  a->reference = a->tables = a->tally = NULL;
}

/* Small references are not pinned: such memory could not be given back. */
static bool reserve_reference(const struct tagc_device *device, struct tagc_allgather *a, void *stream) {
  a->pinned = a->pinned && a->layout.reference_bytes >= TAGC_PINNED_LARGE;
  a->reference = a->pinned ? device->alloc_pinned(device, a->layout.reference_bytes)
                           : device->alloc(device, a->layout.reference_bytes, stream);
  if (a->layout.tables_bytes)
    a->tables = device->alloc(device, a->layout.tables_bytes, stream);
  return a->reference && (a->tables || !a->layout.tables_bytes);
}

bool tagc_allgathers_reserve(struct tagc_comm *comm, void *stream) {
  const struct tagc_device *device = comm->device;
  bool good = true;
  for (size_t i = 0; i < comm->allgather_count; i++)
    give_back_allgather(comm, &comm->allgathers[i]); /* after a failed vote they hold memory already */
  for (size_t i = 0; i < comm->allgather_count; i++) {
    struct tagc_allgather *a = &comm->allgathers[i];
    if (a->reason != TAGC_REASON_compressed)
      continue;
    a->tally = device->tally_make(device, stream);
    good &= a->tally || device->host_reads;
    a->referred = false;
    if (!a->layout.reference_bytes || a->first != i)
      continue;
    good &= reserve_reference(device, a, stream);
  }
  return good;
}

bool tagc_allgathers_trim(struct tagc_comm *comm) {
  bool any = false;
  for (size_t i = 0; i < comm->allgather_count; i++)
    if (comm->allgathers[i].reason == TAGC_REASON_compressed)
      any = true;
    else
      give_back_allgather(comm, &comm->allgathers[i]);
  return any;
}

void tagc_allgathers_release(struct tagc_comm *comm, struct tagc_allgather *allgathers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    while (allgathers[i].tally && tagc_comm_read_allgather_tally(comm, allgathers[i].tally, -1))
      ;
    give_back_allgather(comm, &allgathers[i]);
  }
  free(allgathers);
}
