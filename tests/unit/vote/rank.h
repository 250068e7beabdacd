/* SPDX-License-Identifier: BSD-3-Clause
 * One rank of two for tests of votes with TAGC_CODEC=auto: a communicator with one slot. Its functions of the real
 * library take a given time, answer for the other rank, and fail on request. Options are set before the first set_up().
 *
 * Time is emulated: votes read a clock that advances by the time of those functions, and a little at each query. So
 * every codec takes the same time, and a busy machine changes nothing. Linked with --wrap=tagc_clock_ms.
 */
#ifndef TESTS_UNIT_VOTE_RANK_H
#define TESTS_UNIT_VOTE_RANK_H

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/calls/calls.h"
#include "interpose/comm/table.h"
#include "interpose/vote/proposal.h"
#include "interpose/entry/launch.h"
#include "interpose/nccl/process.h"
#include "interpose/comm/partial.h"
#include "tests/unit/fake_nccl.h"
#include "tests/unit/tap.h"

enum {
  N = 20000,
  RANKS = 2,
  VOTE = 4,
  LAST_VOTE = 18
}; /* a cycle of one call is known at the third, and voted on at
    * the fourth; cycle 16 is the eighteenth */

static struct tagc_comm *comm;
static ncclComm_t handles[RANKS];
static float *sent, *received;
static struct tagc_nccl nccl;
static struct tagc_layers *layers; /* of the slot, instead of the library's own; NULL: the library's */

/* ---- the real library -------------------------------------------------------------------------------------------- */

static const void *plain_from;
static int plains, sends, all_to_alls, meetings, ends;
static double plain_ns, send_ns, all_to_all_ns; /* per byte */
static int fail_at;                             /* the end of that group fails */
static size_t in_group, in_last_group;          /* elements of the reduce-scatter there; 0: none */
static int unmet;                               /* messages of the probe without a small one before them */
static void (*at_end)(void);                    /* or this runs inside it */
static void (*other_rank)(int meeting, int64_t *words);

static atomic_llong clock_ns;

double __wrap_tagc_clock_ms(void);
double __wrap_tagc_clock_ms(void) { return 1e-6 * (double)atomic_fetch_add(&clock_ns, 2000); }
/* Calls between votes are timed with it. Linked with --wrap=tagc_clock_ns, too, if that matters. */
uint64_t __wrap_tagc_clock_ns(void);
uint64_t __wrap_tagc_clock_ns(void) { return (uint64_t)atomic_fetch_add(&clock_ns, 2000); }

static inline void take(double ns) { atomic_fetch_add(&clock_ns, (long long)ns); }

static inline ncclResult_t start_group(void) { return ncclSuccess; }

static inline ncclResult_t end_group(void) {
  in_last_group = in_group;
  in_group = 0;
  if (++ends != fail_at)
    return ncclSuccess;
  if (!at_end)
    return ncclSystemError;
  at_end();
  return ncclSuccess;
}

static inline ncclResult_t all_reduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t on, cudaStream_t stream) {
  (void)from, (void)count, (void)op, (void)on, (void)stream;
  if (type == ncclInt64 && other_rank)
    other_rank(meetings, to);
  meetings += type == ncclInt64;
  return ncclSuccess;
}

static inline ncclResult_t reduce_scatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                          ncclComm_t on, cudaStream_t stream) {
  (void)type, (void)op, (void)on, (void)stream;
  plains++;
  in_group = count;
  plain_from = from;
  memset(to, 0, count * 4);
  take((double)count * 4 * plain_ns);
  return ncclSuccess;
}

static inline ncclResult_t send_to(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t on,
                                   cudaStream_t stream) {
  (void)from, (void)peer, (void)on, (void)stream;
  sends++;
  unmet += !comm->vote.held && type == ncclUint8 && (!in_last_group || in_last_group > 256);
  take(type == ncclUint8 ? (double)count * send_ns : 0);
  return ncclSuccess;
}

static inline ncclResult_t receive_from(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t on,
                                        cudaStream_t stream) {
  (void)peer, (void)on, (void)stream;
  memset(to, 0, count * (type == ncclInt64 ? 8 : 1));
  return ncclSuccess;
}

/* The messages to oneself are sent with the others: they must have been written. */
static inline ncclResult_t all_to_all(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t on,
                                      cudaStream_t stream) {
  (void)type, (void)on, (void)stream;
  all_to_alls++;
  memcpy(to, from, count);
  memset((char *)to + count, 0, count);
  take((double)count * all_to_all_ns);
  return ncclSuccess;
}

static inline ncclResult_t async_error(ncclComm_t on, ncclResult_t *state) {
  (void)on;
  *state = ncclSuccess;
  return ncclSuccess;
}

/* ---- a communicator, and its calls ------------------------------------------------------------------------------- */

static struct tagc_device device;
static int allocations, fail_allocation;

static inline void *alloc(const struct tagc_device *self, size_t bytes, void *stream) {
  return ++allocations == fail_allocation ? NULL : tagc_device_host.alloc(self, bytes, stream);
}

/* Called first: sets options, and fills a gradient. */
static inline void begin_votes(void) {
  setenv("TAGC_SCOPE", "flat", 1);
  setenv("TAGC_MIN_BYTES", "0", 1);
  setenv("TAGC_WARMUP", "0", 1);
  setenv("TAGC_ASSUME", "gradients", 1);
  setenv("TAGC_REPORT", "0", 1);
  sent = malloc(sizeof(float) * N * RANKS);
  received = malloc(sizeof(float) * N);
  for (size_t i = 0; i < (size_t)N * RANKS; i++)
    sent[i] = (float)(i * 2654435761u % 1000003) / 500000 - 1;
}

static inline int end_votes(void) {
  free(sent);
  free(received);
  return tap_done();
}

static inline void set_up(void) {
  static const struct tagc_nccl_group fake = {
    .start = start_group,
    .end = end_group,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .send = send_to,
    .receive = receive_from,
    .async_error = async_error,
  };
  comm = fake_nccl_comm(handles, RANKS, &nccl, &fake);
  device = tagc_device_host;
  device.alloc = alloc;
  comm->device = &device;
  plains = sends = all_to_alls = meetings = unmet = ends = allocations = fail_at = fail_allocation = 0;
  plain_ns = 100;
  send_ns = all_to_all_ns = 1;
  at_end = NULL;
  other_rank = NULL;
}

static inline void set_up_slow_wire(double ns) {
  set_up();
  plain_ns = ns;
}

static inline void tear_down(void) {
  if (comm->layers == layers)
    comm->layers = NULL; /* not the library's to free */
  tagc_comm_release(tagc_comm_drop(handles[0]));
  tagc_comm_release(comm);
  ncclCommDestroy(handles[0]);
  ncclCommDestroy(handles[1]);
}

static bool hidden; /* the scalar of the call cannot be read */

static inline ncclResult_t call(void) {
  struct tagc_call c = {.entry = TAGC_ENTRY_ncclReduceScatter,
                        .send = sent,
                        .recv = received,
                        .count = N,
                        .type = ncclFloat32,
                        .op = ncclSum,
                        .handle = handles[0],
                        .comm = comm,
                        .nccl = &nccl,
                        .scale = 1,
                        .scale_hidden = hidden};
  ncclResult_t status = tagc_call_observe(&c);
  if (layers && comm->slot_count && comm->layers != layers) {
    tagc_layers_free(comm->layers);
    comm->layers = layers;
    if (!tagc_partial_select(comm))
      return ncclSystemError;
  }
  return status == ncclSuccess ? tagc_launch_run(&c, 1, NULL, NULL) : status;
}

static inline ncclResult_t calls(int count) {
  ncclResult_t status = ncclSuccess;
  for (int i = 0; i < count && status == ncclSuccess; i++)
    status = call();
  return status;
}

static inline const struct tagc_slot *slot(void) { return &comm->slots[0]; }
static inline const struct tagc_gradient_stats *sampled(void) { return &tagc_ledger_row(comm->ledger, 0)->inputs->own; }
static inline bool is_plain(enum tagc_reason reason) {
  return comm->vote.held && slot()->reason == reason && !comm->memory.workspace;
}

/* ---- aborts ------------------------------------------------------------------------------------------------------ */

static atomic_bool aborted;

static inline void *abort_it(void *unused) {
  (void)unused;
  struct tagc_comm *ours = tagc_comm_abort(handles[0]);
  tagc_comm_abort_is_over(ours);
  tagc_comm_release(ours);
  aborted = true;
  return NULL;
}

/* A watchdog aborts during the NCCL call, and does not wait for it. */
static inline void abort_inside(void) {
  pthread_t watchdog;
  pthread_create(&watchdog, NULL, abort_it, NULL);
  pthread_join(watchdog, NULL);
}

#endif
