/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/comm/allgathers and interpose/exec/allgather if the other rank votes differently, or if the real library
 * fails or loses the communicator. Replacements of its functions answer for the other rank, which sends the same.
 */
#include <stdlib.h>
#include <string.h>

#include "interpose/calls/calls.h"
#include "interpose/comm/allgathers.h"
#include "interpose/comm/table.h"
#include "interpose/vote/proposal.h"
#include "interpose/entry/launch.h"
#include "tests/unit/fake_nccl.h"
#include "tests/unit/tap.h"

enum { N = 5000, RANKS = 2, STEPS = 5, WORDS = 7 }; /* of the proposals for each all-gather, the last ones */

static struct tagc_comm *comm;
static ncclComm_t handles[RANKS];
static float sent[N], gathered[N * RANKS], gradient[N * RANKS], reduced[N];
static struct tagc_nccl nccl;

/* ---- the real library -------------------------------------------------------------------------------------------- */

static int plains, payloads; /* all-gathers of floats, and of bytes */
static int fail_payload;     /* that one fails; 0: none */
static bool abort_in_it, other_refuses, saw_refusal;
static void (*other_rank)(int64_t *words);

static ncclResult_t start_group(void) { return ncclSuccess; }

static ncclResult_t end_group(void) {
  if (abort_in_it && payloads == fail_payload)
    tagc_comm_release(tagc_comm_abort(handles[0]));
  return ncclSuccess;
}

static ncclResult_t all_reduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t on, cudaStream_t stream) {
  (void)from, (void)op, (void)on, (void)stream;
  (void)count;
  if (type == ncclInt64 && other_rank)
    other_rank((int64_t *)to + tagc_proposal_words(comm) - WORDS);
  return ncclSuccess;
}

static ncclResult_t reduce_scatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                   ncclComm_t on, cudaStream_t stream) {
  (void)type, (void)op, (void)on, (void)stream;
  memcpy(to, from, count * 4);
  return ncclSuccess;
}

static ncclResult_t all_gather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t on,
                               cudaStream_t stream) {
  (void)on, (void)stream;
  const size_t bytes = count * (type == ncclUint8 ? 1 : 4);
  if (type != ncclUint8) {
    plains++;
  } else {
    struct tagc_allgather_header header;
    memcpy(&header, from, sizeof header);
    saw_refusal = header.flags & TAGC_ALLGATHER_REFUSED;
    if (++payloads == fail_payload && !abort_in_it)
      return ncclSystemError;
  }
  memmove((char *)to + bytes, from, bytes);
  memmove(to, from, bytes);
  if (type == ncclUint8 && other_refuses)
    ((struct tagc_allgather_header *)((char *)to + bytes))->flags |= TAGC_ALLGATHER_REFUSED;
  return ncclSuccess;
}

static ncclResult_t send_to(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t on,
                            cudaStream_t stream) {
  (void)from, (void)count, (void)type, (void)peer, (void)on, (void)stream;
  return ncclSuccess;
}

static ncclResult_t receive_from(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t on,
                                 cudaStream_t stream) {
  (void)type, (void)peer, (void)on, (void)stream;
  memset(to, 0, count);
  return ncclSuccess;
}

static ncclResult_t async_error(ncclComm_t on, ncclResult_t *state) {
  (void)on;
  *state = ncclSuccess;
  return ncclSuccess;
}

/* ---- a communicator, and its steps ------------------------------------------------------------------------------- */

static struct tagc_device device;
static size_t fail_size; /* no memory of that size is available */

static void *alloc(const struct tagc_device *self, size_t bytes, void *stream) {
  return bytes == fail_size ? NULL : tagc_device_host.alloc(self, bytes, stream);
}

static bool no_layout(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                      const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out) {
  (void)self, (void)codec, (void)shape, (void)out;
  return false;
}

static void set_up(void) {
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
  nccl.functions[TAGC_ENTRY_ncclAllGather] = (void *)all_gather;
  comm->nccl = &nccl;
  device = tagc_device_host;
  device.alloc = alloc;
  comm->device = &device;
  plains = payloads = fail_payload = 0;
  fail_size = 0;
  abort_in_it = other_refuses = false;
  other_rank = NULL;
}

static void tear_down(void) {
  tagc_comm_release(tagc_comm_drop(handles[0]));
  tagc_comm_release(comm);
  ncclCommDestroy(handles[0]);
  ncclCommDestroy(handles[1]);
}

static ncclResult_t call(enum tagc_entry entry) {
  const bool allgathers = entry == TAGC_ENTRY_ncclAllGather;
  struct tagc_call c = {.entry = entry,
                        .send = allgathers ? sent : gradient,
                        .recv = allgathers ? gathered : reduced,
                        .count = N,
                        .type = ncclFloat32,
                        .handle = handles[0],
                        .comm = comm,
                        .nccl = &nccl,
                        .scale = 1};
  ncclResult_t status = tagc_call_observe(&c);
  return status == ncclSuccess ? tagc_launch_run(&c, 1, NULL, NULL) : status;
}

static ncclResult_t step(void) {
  ncclResult_t status = call(TAGC_ENTRY_ncclAllGather);
  return status == ncclSuccess ? call(TAGC_ENTRY_ncclReduceScatter) : status;
}

static ncclResult_t steps(int count) {
  ncclResult_t status = ncclSuccess;
  for (int i = 0; i < count && status == ncclSuccess; i++)
    status = step();
  return status;
}

/* Every rank has sent the same. */
static bool is_gathered(void) {
  double error2 = 0, norm2 = 0;
  for (size_t i = 0; i < (size_t)N * RANKS; i++) {
    const double error = (double)gathered[i] - (double)sent[i % N];
    error2 += error * error;
    norm2 += (double)sent[i % N] * (double)sent[i % N];
  }
  return error2 < 1e-4 * norm2;
}

static struct tagc_allgather *its(void) { return comm->allgather_count ? &comm->allgathers[0] : NULL; }

/* ---- the vote ---------------------------------------------------------------------------------------------------- */

static void lacks_memory(int64_t *words) { words[0] = 0; }
static void has_no_kernels(int64_t *words) { words[0] = 0, words[2] = -TAGC_REASON_device; }
static void has_another_codec(int64_t *words) { words[3]--; }
static void has_other_pieces(int64_t *words) { words[5]--; }
static void has_captured(int64_t *words) { words[0] = 0, words[2] = -TAGC_REASON_capture; }

static void votes(void) {
  static const struct {
    void (*says)(int64_t *words);
    enum tagc_reason reason;
    const char *what;
  } table[] = {
    {NULL, TAGC_REASON_compressed, "can, too"},
    {lacks_memory, TAGC_REASON_vote, "lacks memory"},
    {has_no_kernels, TAGC_REASON_device, "cannot do it on its device"},
    {has_another_codec, TAGC_REASON_vote, "has another codec"},
    {has_other_pieces, TAGC_REASON_compressed, "has another number of pieces"},
    {has_captured, TAGC_REASON_capture, "has captured a call of it"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    set_up();
    other_rank = table[i].says;
    const bool good = steps(STEPS + 2) == ncclSuccess && its() && comm->vote.held && is_gathered();
    ok(good && its()->reason == table[i].reason && (payloads > 0) == (table[i].reason == TAGC_REASON_compressed),
       "the other rank %s: %s", table[i].what, good ? tagc_reason_words(its()->reason) : "?");
    ok(good && comm->slots[0].reason == TAGC_REASON_compressed && (its()->reference != NULL) == (payloads > 0),
       "the reduce-scatter is compressed, and a reference is kept where it is of use");
    tear_down();
  }
  set_up();
  device.allgather_layout = no_layout;
  ok(steps(STEPS) == ncclSuccess && its()->reason == TAGC_REASON_device && !payloads,
     "this rank's device cannot do it");
  tear_down();

  set_up();
  steps(STEPS);
  const size_t size = its()->layout.reference_bytes;
  tear_down();
  set_up();
  fail_size = size;
  ok(steps(STEPS) == ncclSuccess && its()->reason == TAGC_REASON_vote && comm->slots[0].reason == TAGC_REASON_vote &&
       !payloads && is_gathered(),
     "this rank has no memory for the reference: all is plain");
  tear_down();
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void references(void) {
  set_up();
  steps(STEPS + 1);
  const int before = plains, sends = payloads;
  ok(sends > 0 && step() == ncclSuccess && plains == before && payloads == sends + 1 && is_gathered(),
     "a difference is sent");
  call(TAGC_ENTRY_ncclReduceScatter); /* unexpected */
  ok(step() == ncclSuccess && step() == ncclSuccess && payloads < sends + 3 && is_gathered(),
     "after an unexpected call it is plain");
  int least = payloads;
  ok(steps(3) == ncclSuccess && payloads > least && is_gathered(), "and later ones are compressed again");

  other_refuses = true;
  least = plains;
  ok(step() == ncclSuccess && plains == least + 1 && is_gathered() && its()->refused == 1,
     "the other rank refuses its shard: plain at once");
  other_refuses = false;
  ok(step() == ncclSuccess && plains == least + 1 && its()->refused == 0, "and compressed again");
  other_refuses = true;
  ok(steps(3) == ncclSuccess && plains == least + 4 && its()->reason == TAGC_REASON_jumps,
     "three in a row: plain for good");
  least = payloads;
  ok(steps(2) == ncclSuccess && payloads == least && is_gathered(), "so it stays");
  tear_down();
}

static void failures(void) {
  set_up();
  steps(STEPS + 1);
  fail_payload = payloads + 1;
  ok(step() == ncclSystemError && its()->damaged, "the exchange of payloads fails: so does the call");
  call(TAGC_ENTRY_ncclReduceScatter);
  const int before = plains;
  ok(step() == ncclSuccess && saw_refusal && plains == before + 1 && is_gathered() && !its()->damaged,
     "the next call refuses its shard, for its reference may not be what the others have");
  ok(step() == ncclSuccess && !saw_refusal && plains == before + 1 && is_gathered(), "then all is well again");
  fail_payload = payloads + 1;
  abort_in_it = true;
  memset(gathered, 0, sizeof gathered);
  ok(step() == ncclInternalError && gathered[N] == 0, "the communicator is aborted meanwhile: nothing is decoded");
  tear_down();
}

int main(void) {
  setenv("TAGC_SCOPE", "flat", 1);
  setenv("TAGC_MIN_BYTES", "0", 1);
  setenv("TAGC_WARMUP", "0", 1);
  setenv("TAGC_ASSUME", "gradients", 1);
  setenv("TAGC_REPORT", "0", 1);
  setenv("TAGC_LOG", "error", 1);
  setenv("TAGC_CODEC", "bf16", 1);
  setenv("TAGC_ALLGATHER", "delta", 1);
  for (size_t i = 0; i < N; i++)
    sent[i] = (float)(i * 2654435761u % 1000003) / 500000 - 1;
  votes();
  references();
  failures();
  return tap_done();
}
