/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/vote/probe.h"

#include "env/clock.h"
#include "interpose/comm/placement.h"
#include "interpose/exec/hierarchy.h"

enum {
  SMALL = 1024,     /* bytes for a peer */
  LEAST = 16 << 10, /* least of the large size, for a peer */
  MOST = 4 << 20,   /* most of the large size, for all peers together */
  ALIGNMENT = 64,
  RUNS = 8, /* the first one does not count */
};

/* The current measurement: one route with one of the two sizes. */
struct round {
  struct tagc_probing *probings;
  enum tagc_route route;
  int size;
  bool of_levels; /* only for communicators in two levels */
};

static size_t per_peer(const struct tagc_comm *comm) {
  size_t largest = 0, peers = (size_t)comm->nranks - 1;
  for (size_t i = 0; i < comm->slot_count; i++) {
    const struct tagc_shape *shape = &comm->slots[i].packed;
    size_t bytes = shape->n > MOST ? MOST : (size_t)shape->n * tagc_dtype_size(shape->dtype);
    largest = bytes > largest ? bytes : largest;
  }
  largest = largest > MOST / peers ? MOST / peers : largest;
  largest = largest < LEAST ? LEAST : largest;
  return largest / ALIGNMENT * ALIGNMENT;
}

size_t tagc_probe_scratch(const struct tagc_comm *comm, struct tagc_probe *probe) {
  *probe = (struct tagc_probe){.bytes = {SMALL, per_peer(comm)}};
  for (int route = 0; route < TAGC_ROUTES; route++)
    probe->ns[route][0] = probe->ns[route][1] = __builtin_inf();
  return 2 * (size_t)comm->nranks * probe->bytes[1];
}

static ncclResult_t enqueue_probe(const struct tagc_nccl_group *real, void *round_, size_t i) {
  const struct round *round = round_;
  const struct tagc_probing *p = &round->probings[i];
  const struct tagc_call *call = p->call;
  if (!p->scratch || (round->of_levels && !call->comm->hierarchy.scope.two_levels))
    return ncclSuccess;
  const struct tagc_exchange_comm peers = tagc_hierarchy_exchange_comm(call->comm);
  const size_t bytes = p->found.bytes[round->size];
  uint8_t *out = p->scratch, *in = out + (size_t)call->comm->nranks * bytes;
  ncclComm_t ring = NULL;
  switch (round->route) {
  case TAGC_ROUTE_PLAIN: ring = call->handle; break;
  case TAGC_ROUTE_INSIDE: ring = atomic_load(&call->comm->hierarchy.comm[TAGC_LEVEL_INTRA_NODE]); break;
  case TAGC_ROUTE_RING: ring = atomic_load(&call->comm->hierarchy.comm[TAGC_LEVEL_INTER_NODE]); break;
  default:
    return tagc_nccl_group_exchange(real, &peers, call->stream, out, in, bytes, round->route == TAGC_ROUTE_ALL_TO_ALL);
  }
  return real->reduce_scatter(out, in, bytes / sizeof(float), ncclFloat32, ncclSum, ring, call->stream);
}

/* Waits until the streams of all parts are through. An abort must not wait for that. */
static bool wait_for_streams(struct tagc_comm *const *comms, const struct tagc_probing *probings, size_t count) {
  uint8_t byte;
  bool good = tagc_comms_enter_driver(comms, count);
  for (size_t i = 0; i < count && good; i++)
    if (probings[i].scratch)
      good = comms[i]->device->get(comms[i]->device, &byte, probings[i].scratch, 1, probings[i].call->stream);
  return tagc_comms_leave_driver(comms, count) && good;
}

/* Runs the round once, to its end. */
static ncclResult_t run_probe_round(const struct tagc_nccl_group *real, struct tagc_comm *const *comms,
                                    struct round *round, size_t count) {
  ncclResult_t status = tagc_nccl_group_run(real, comms, count, enqueue_probe, round);
  return status == ncclSuccess && !wait_for_streams(comms, round->probings, count) ? ncclInternalError : status;
}

/* Runs the round once; keeps its time if it `counts` and is the best so far. A tiny plain call before it makes all
 * ranks begin together: the ranks of a host may have met others before, which is no cost of this round. */
static ncclResult_t time_round(const struct tagc_nccl_group *real, struct tagc_comm *const *comms, struct round *round,
                               size_t count, bool counts) {
  struct round meeting = {round->probings, TAGC_ROUTE_PLAIN, 0, round->of_levels};
  ncclResult_t status = run_probe_round(real, comms, &meeting, count);
  double began = tagc_clock_ms();
  if (status == ncclSuccess)
    status = run_probe_round(real, comms, round, count);
  double took = 1e6 * (tagc_clock_ms() - began);
  for (size_t i = 0; i < count && counts; i++) {
    if (round->of_levels && !comms[i]->hierarchy.scope.two_levels)
      continue;
    double *best = &round->probings[i].found.ns[round->route][round->size];
    *best = took < *best ? took : *best;
  }
  return status;
}

/* Measures all routes with all sizes. */
static ncclResult_t time_rounds(const struct tagc_nccl_group *real, struct tagc_comm *const *comms,
                                struct tagc_probing *probings, size_t count, bool counts) {
  ncclResult_t status = ncclSuccess;
  for (int size = 0; size < 2; size++)
    for (int route = 0; route < TAGC_ROUTES && status == ncclSuccess; route++) {
      struct round round = {probings, (enum tagc_route)route, size,
                            route == TAGC_ROUTE_INSIDE || route == TAGC_ROUTE_RING};
      if (route != TAGC_ROUTE_ALL_TO_ALL || real->all_to_all)
        status = time_round(real, comms, &round, count, counts);
    }
  return status;
}

ncclResult_t tagc_probe_run(const struct tagc_nccl_group *real, struct tagc_comm *const *comms,
                            struct tagc_probing *probings, size_t count) {
  ncclResult_t status = ncclSuccess;
  bool any = false;
  for (size_t i = 0; i < count; i++)
    any |= probings[i].scratch != NULL;
  for (int i = 0; any && i < RUNS && status == ncclSuccess; i++)
    status = time_rounds(real, comms, probings, count, i > 0);
  return status;
}
