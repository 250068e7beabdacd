/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/entry/launch, interpose/exec/execute and nccl_group if the real library fails, is still in progress, or
 * loses the communicator to an abort. interpose/entry/group if a group is never ended. Replacements of the real
 * library's functions do so at a chosen moment.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "interpose/comm/comm.h"
#include "interpose/comm/table.h"
#include "interpose/exec/execute.h"
#include "interpose/entry/group.h"
#include "interpose/entry/launch.h"
#include "interpose/entry/start.h"
#include "interpose/nccl/process.h"
#include "interpose/comm/partial.h"
#include "kernels/codec/residual.h"
#include "tests/unit/tap.h"

enum { N = 50000, RANKS = 2 }; /* a tenth is kept: enough for a sketch, and so for exponents */

static struct tagc_comm *comm;
static ncclComm_t handles[RANKS];
static float *sent, *received;

/* ---- the real library -------------------------------------------------------------------------------------------- */

static int scatters;                              /* reduce-scatters that arrived here */
static int ends, fail_at, in_progress_for, asked; /* groups ended; the one whose end fails; questions until it is done
                                                   */
static ncclResult_t failure, async_failure;
static void (*at_end)(void); /* runs inside the group end that would fail */

static ncclResult_t start_group(void) { return ncclSuccess; }

static ncclResult_t end_group(void) {
  if (++ends != fail_at)
    return ncclSuccess;
  if (at_end)
    at_end();
  return failure;
}

static ncclResult_t all_reduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t on, cudaStream_t stream) {
  (void)from, (void)to, (void)count, (void)type, (void)op, (void)on, (void)stream;
  return ncclSuccess;
}

static ncclResult_t reduce_scatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                   ncclComm_t on, cudaStream_t stream) {
  (void)from, (void)op, (void)on, (void)stream;
  scatters++;
  memset(to, 0, count * (type == ncclFloat32 || type == ncclInt32 ? 4 : 1));
  return ncclSuccess;
}

static ncclResult_t send_to(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t on,
                            cudaStream_t stream) {
  (void)from, (void)count, (void)type, (void)peer, (void)on, (void)stream;
  return ncclSuccess;
}

/* The peer has sent only zeros. */
static ncclResult_t receive_from(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t on,
                                 cudaStream_t stream) {
  (void)type, (void)peer, (void)on, (void)stream;
  memset(to, 0, count);
  return ncclSuccess;
}

/* The other communicator of a group is in progress until the first is aborted, and for that many more queries. */
static atomic_bool aborted;
static int other_in_progress_for;

static ncclResult_t async_error(ncclComm_t on, ncclResult_t *state) {
  if (on == handles[1])
    *state = !aborted || other_in_progress_for-- > 0 ? ncclInProgress : ncclSuccess;
  else
    *state = asked++ < in_progress_for ? ncclInProgress : async_failure;
  return ncclSuccess;
}

static const struct tagc_nccl_group real = {
  .start = start_group,
  .end = end_group,
  .reduce_scatter = reduce_scatter,
  .all_reduce = all_reduce,
  .send = send_to,
  .receive = receive_from,
  .async_error = async_error,
};

/* ---- one slot ---------------------------------------------------------------------------------------------------- */

static void set_up(void) {
  ncclResult_t status;
  struct tagc_slot_info info = {.name = "unit0"};
  struct tagc_job job = {0};
  if (ncclCommInitAll(handles, RANKS, NULL) != ncclSuccess || !tagc_library_start())
    exit(1);
  comm = tagc_comm_acquire(handles[0], tagc_real_called((const void *)&set_up), &status);
  if (!comm || !tagc_ledger_set_slots(comm->ledger, &info, 1, NULL))
    exit(1);
  comm->slots = calloc(1, sizeof *comm->slots);
  comm->slot_count = 1;
  struct tagc_slot *slot = comm->slots;
  slot->shard_count = N;
  slot->packed = (struct tagc_shape){N, RANKS, TAGC_FLOAT32, 100000, TAGC_STORAGE_FP32, 0};
  slot->chunking.chunks = tagc_chunks_of(N, 1);
  slot->codec = tagc_library_codec();
  if (!slot->codec->layout(&slot->packed, &slot->layout))
    exit(1);
  slot->memory.residual = comm->device->alloc(comm->device, tagc_residual_bytes(&slot->packed), NULL);
  job.shape = slot->packed;
  job.layout = slot->layout;
  comm->memory.workspace =
    comm->device->alloc(comm->device, tagc_job_assign_buffers(&job, NULL) + sizeof(float) * N * RANKS, NULL);
}

static void tear_down(void) {
  tagc_comm_release(tagc_comm_drop(handles[0]));
  tagc_comm_release(comm);
  ncclCommDestroy(handles[0]);
  ncclCommDestroy(handles[1]);
}

/* Sets the outcome of the next call and its residual (in use, or void and full of garbage). */
static void prepare(int at, ncclResult_t how, bool residual_in_use) {
  struct tagc_slot *slot = comm->slots;
  ends = asked = scatters = in_progress_for = 0;
  fail_at = at;
  failure = how;
  async_failure = ncclSuccess;
  at_end = NULL;
  slot->state.residual_empty = !residual_in_use;
  slot->state.dirty = residual_in_use;
  memset(slot->memory.residual, residual_in_use ? 0 : 0x7f, tagc_residual_bytes(&slot->packed));
  for (size_t i = 0; i < (size_t)N * RANKS; i++)
    sent[i] = i % 50 ? 0 : (float)i;
  for (size_t i = 0; i < N; i++)
    received[i] = -1;
}

static ncclResult_t call(enum tagc_action action) {
  struct tagc_call c = {.entry = TAGC_ENTRY_ncclReduceScatter,
                        .send = sent,
                        .recv = received,
                        .count = N,
                        .type = ncclFloat32,
                        .op = ncclSum,
                        .handle = handles[0],
                        .comm = comm,
                        .slot = 0,
                        .cycle = 9,
                        .scale = 1,
                        .decision = {action, TAGC_REASON_compressed}},
                   *calls[] = {&c};
  return tagc_execute(&real, calls, 1);
}

static bool untouched(void) {
  for (size_t i = 0; i < N; i++)
    if (received[i] != -1)
      return false;
  return true;
}

static bool is_own_shard(void) {
  for (size_t i = 0; i < N; i++)
    if (received[i] != sent[i])
      return false;
  return true;
}

static uint64_t dropped(void) { return comm->ledger->rows[0].residuals_dropped; }

static void failures(void) {
  const struct tagc_slot *slot = comm->slots;
  prepare(0, ncclSuccess, false);
  ok(call(TAGC_COMPRESS) == ncclSuccess && is_own_shard() && !slot->state.residual_empty && slot->state.dirty,
     "a call that works");

  uint64_t before = dropped();
  prepare(1, ncclSystemError, false);
  ok(call(TAGC_COMPRESS) == ncclSystemError && untouched() && slot->state.residual_empty && dropped() == before,
     "the exchange of exponents fails: a residual without content is not taken for one with");
  prepare(1, ncclSystemError, true);
  ok(call(TAGC_COMPRESS) == ncclSystemError && untouched() && slot->state.residual_empty && slot->state.dirty &&
       dropped() == before + 1,
     "and one with content is given up: the values to send are no longer in it");
  before++;
  prepare(2, ncclRemoteError, true);
  ok(call(TAGC_COMPRESS) == ncclRemoteError && untouched() && slot->state.residual_empty && slot->state.dirty &&
       dropped() == before + 1,
     "the exchange of payloads fails: the residual is given up, and counted; a flush still comes, as on others");
  prepare(0, ncclSuccess, false);
  ok(call(TAGC_COMPRESS) == ncclSuccess && is_own_shard(), "the next call works");
  prepare(0, ncclSuccess, true);
  ok(call(TAGC_FLUSH) == ncclSuccess && slot->state.residual_empty && !slot->state.dirty, "a flush that works");
}

static void failed_flush(void) {
  const struct tagc_slot *slot = comm->slots;
  uint64_t before = dropped();
  prepare(1, ncclSystemError, true);
  ok(call(TAGC_FLUSH) == ncclSystemError && !slot->state.residual_empty && slot->state.dirty && dropped() == before,
     "a flush that fails: what it wanted to send is still there");
}

static void in_progress(void) {
  prepare(2, ncclInProgress, true);
  in_progress_for = 30;
  ok(call(TAGC_COMPRESS) == ncclSuccess && asked == 31 && is_own_shard(),
     "a group that is still at it is asked until it is done, and decoded then");
  prepare(1, ncclInProgress, true);
  in_progress_for = 3;
  async_failure = ncclUnhandledCudaError;
  ok(call(TAGC_COMPRESS) == ncclUnhandledCudaError && untouched() && ends == 1,
     "one that fails later ends the call with its error");
}

/* ---- calls of which a part is compressed ------------------------------------------------------------------------- */

enum { REST = N / 5 }; /* the first elements of each shard */

static struct tagc_device copying;
static int copies, fail_copy;

static bool copy(const struct tagc_device *self, void *to, size_t to_pitch, const void *from, size_t from_pitch,
                 size_t width, size_t rows, void *stream) {
  return ++copies != fail_copy && tagc_device_host.copy(self, to, to_pitch, from, from_pitch, width, rows, stream);
}

static void set_up_parts(void) {
  static const struct tagc_parameter parameters[] = {{.rows = REST, .columns = RANKS},
                                                     {.rows = N - REST, .columns = RANKS}};
  static const struct tagc_member members[] = {{&parameters[0], 0, "block"}, {&parameters[1], 0, "block"}};
  static const bool is_selected[] = {false, true};
  const struct tagc_layer layer = {
    .members = members, .count = 2, .layout = TAGC_LAYOUT_ZERO3, .element_bytes = sizeof(float)};
  struct tagc_job job = {0};
  struct tagc_partial split;
  set_up();
  struct tagc_slot *slot = comm->slots;
  slot->selected.parts = tagc_parts_create(&layer, RANKS, is_selected);
  slot->selected.owns_parts = true;
  slot->packed.n = N - REST;
  slot->chunking.chunks = tagc_chunks_of(N - REST, 1);
  slot->packed.keep_ppm = 150000; /* enough for a sketch again */
  if (!slot->selected.parts || slot->selected.parts->selected != N - REST ||
      !slot->codec->layout(&slot->packed, &slot->layout))
    exit(1);
  job.shape = slot->packed;
  job.layout = slot->layout;
  comm->device->release(comm->device, comm->memory.workspace, NULL);
  comm->memory.workspace = comm->device->alloc(comm->device,
                                               tagc_partial_assign_buffers(&split, slot, NULL) +
                                                 tagc_job_assign_buffers(&job, NULL) + sizeof(float) * N * RANKS,
                                               NULL);
  copying = tagc_device_host;
  copying.copy = copy;
  comm->device = &copying;
}

/* The rest has the real library's result: zeros. */
static bool is_own_part(void) {
  for (size_t i = 0; i < N; i++)
    if (received[i] != (i < REST ? 0 : sent[i]))
      return false;
  return true;
}

static void parts(void) {
  enum { PACKING = 2, ALL = 4 };
  set_up_parts();
  const struct tagc_slot *slot = comm->slots;
  prepare(0, ncclSuccess, true);
  copies = 0;
  ok(call(TAGC_COMPRESS) == ncclSuccess && is_own_part() && copies == ALL && scatters == 2 && ends == 2,
     "a call of which a part is compressed: one reduce-scatter and %d copies more, and no group", ALL);
  ok(comm->ledger->rows[0].raw_bytes == sizeof(float) * N * RANKS, "its whole buffer counts");
  for (fail_copy = 1; fail_copy <= ALL; fail_copy++) {
    for (enum tagc_action action = TAGC_COMPRESS; action <= TAGC_FLUSH; action++) {
      const bool packing = fail_copy <= PACKING, lost = !packing && action == TAGC_COMPRESS;
      const uint64_t before = dropped();
      prepare(0, ncclSuccess, true);
      copies = 0;
      const ncclResult_t status = call(action);
      ok(status == ncclUnhandledCudaError && slot->state.dirty && slot->state.residual_empty == lost &&
           dropped() == before + lost && (!packing || (untouched() && ends == 0)),
         "copy %d of a %s fails: the call does%s", fail_copy, action == TAGC_FLUSH ? "flush" : "compressed call",
         packing ? ", nothing is sent, and the residual is kept"
         : lost  ? ", and its residual is given up"
                 : ", and its residual is kept");
    }
  }
  fail_copy = 0;
  for (int at = 1; at <= 2; at++) {
    prepare(at, ncclSystemError, true);
    ok(call(TAGC_COMPRESS) == ncclSystemError && untouched() && slot->state.residual_empty,
       "exchange %d of it fails: its residual is given up", at);
  }
  prepare(0, ncclSuccess, true);
  ok(call(TAGC_FLUSH) == ncclSuccess && scatters == 2 && ends == 1 && slot->state.residual_empty && !slot->state.dirty,
     "a flush of it: two reduce-scatters of one group");
  comm->device = &tagc_device_host;
  tear_down();
}

/* ---- aborts ------------------------------------------------------------------------------------------------------ */

static atomic_bool aborting;

static void *abort_it(void *unused) {
  (void)unused;
  aborting = true;
  tagc_comm_release(tagc_comm_abort(handles[0]));
  aborted = true;
  return NULL;
}

static pthread_t watchdog;
static bool waited;

/* Starts the watchdog, and notes whether its abort returns within a while. */
static void begin_abort(void) {
  pthread_create(&watchdog, NULL, abort_it, NULL);
  while (!aborting)
    ;
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  waited = !aborted;
}

/* The abort must return while the thread is inside the real library, however long that takes. */
static void abort_inside(void) {
  pthread_create(&watchdog, NULL, abort_it, NULL);
  pthread_join(watchdog, NULL);
}

static void begin_abort_at_end(void) {
  begin_abort();
  in_progress_for = 1 << 30; /* nobody but the watchdog ends this */
}

/* A fresh communicator each time: it can be aborted once. */
static void aborts(void) {
  static const char *const names[] = {"exponents", "payloads"};
  for (int at = 1; at <= 2; at++) {
    set_up();
    prepare(at, ncclSuccess, true);
    at_end = abort_inside;
    ok(call(TAGC_COMPRESS) == ncclInternalError && untouched() && ends == at,
       "an abort while NCCL exchanges %s does not wait, and ends the call", names[at - 1]);
    tear_down();
    set_up();
    aborting = aborted = false;
    prepare(at, ncclInProgress, true);
    comm->nonblocking = true;
    comm->returns_at_once = true;
    at_end = begin_abort_at_end;
    ok(call(TAGC_COMPRESS) == ncclInternalError && untouched() && ends == at && waited,
       "on a non-blocking communicator it waits for the call into NCCL, and ends the wait for the launch");
    pthread_join(watchdog, NULL);
    tear_down();
  }
  set_up();
  aborting = aborted = false;
  bool entered = tagc_comms_enter(&comm, 1);
  begin_abort();
  tagc_comms_leave(&comm, 1);
  pthread_join(watchdog, NULL);
  ok(entered && waited, "an abort waits while we encode or decode");
  prepare(0, ncclSuccess, true);
  ok(call(TAGC_COMPRESS) == ncclInternalError && untouched() && ends == 0, "a call after the abort does nothing");
  tear_down();
}

static ncclResult_t enqueue_nothing(const struct tagc_nccl_group *unused, void *context, size_t i) {
  (void)unused, (void)context, (void)i;
  return ncclSuccess;
}

/* The memory of the other communicators of the group is in use until they are done. */
static void abort_of_one(void) {
  static void (*const how[])(void) = {abort_inside, begin_abort_at_end};
  for (int nonblocking = 0; nonblocking <= 1; nonblocking++) {
    ncclResult_t status;
    set_up();
    struct tagc_comm *comms[] = {comm, tagc_comm_acquire(handles[1], comm->nccl, &status)};
    if (!comms[1])
      exit(1);
    aborting = aborted = false;
    prepare(1, ncclInProgress, true);
    other_in_progress_for = 3;
    comms[0]->nonblocking = comms[1]->nonblocking = nonblocking;
    at_end = how[nonblocking];
    bool entered = tagc_comms_enter(comms, 2);
    status = tagc_nccl_group_run(&real, comms, 2, enqueue_nothing, NULL);
    tagc_comms_leave(comms, 2);
    if (nonblocking)
      pthread_join(watchdog, NULL);
    ok(entered && status == ncclInternalError && other_in_progress_for < 0,
       "a group loses one %s communicator to an abort: the others are waited for",
       nonblocking ? "non-blocking" : "blocking");
    tagc_comm_release(tagc_comm_drop(handles[1]));
    tagc_comm_release(comms[1]);
    tear_down();
  }
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static void note_end(void *group) { (void)group; }

/* A plain call, then a compressed one, in a group of the program's: they run in rounds. */
static ncclResult_t launch(void) {
  static struct tagc_nccl nccl;
  nccl = *tagc_real_called((const void *)&launch);
  nccl.functions[TAGC_ENTRY_ncclGroupStart] = (void *)&start_group;
  nccl.functions[TAGC_ENTRY_ncclGroupEnd] = (void *)&end_group;
  nccl.functions[TAGC_ENTRY_ncclReduceScatter] = (void *)&reduce_scatter;
  nccl.functions[TAGC_ENTRY_ncclAllReduce] = (void *)&all_reduce;
  nccl.functions[TAGC_ENTRY_ncclSend] = (void *)&send_to;
  nccl.functions[TAGC_ENTRY_ncclRecv] = (void *)&receive_from;
  nccl.functions[TAGC_ENTRY_ncclCommGetAsyncError] = (void *)&async_error;
  static float elsewhere[N];
  struct tagc_call plain = {.entry = TAGC_ENTRY_ncclReduceScatter,
                            .send = sent,
                            .recv = elsewhere,
                            .count = N,
                            .type = ncclFloat32,
                            .op = ncclSum,
                            .handle = handles[0],
                            .comm = comm,
                            .nccl = &nccl,
                            .state = TAGC_CYCLE_IN_SYNC,
                            .slot = -1,
                            .cycle = 1000000,
                            .scale = 1},
                   calls[] = {plain, plain};
  calls[1].slot = 0;
  calls[1].recv = received;
  comm->agreement.state = TAGC_AGREED_YES;
  comm->vote.held = true;
  comm->slots[0].reason = TAGC_REASON_compressed;
  return tagc_launch_run(calls, 2, note_end, NULL);
}

static void launches(void) {
  set_up();
  prepare(0, ncclSuccess, false);
  ok(launch() == ncclSuccess && scatters >= 1 && is_own_shard(), "a plain and a compressed call of one group");
  prepare(1, ncclInProgress, false);
  ok(launch() == ncclInProgress && scatters >= 1 && is_own_shard(),
     "the program's own group is still at something else: the calls run, and it hears so");
  prepare(1, ncclSystemError, false);
  ok(launch() == ncclSystemError && scatters == 0 && untouched(), "the program's own group fails: nothing runs");
  prepare(2, ncclInProgress, false);
  in_progress_for = 3;
  ok(launch() == ncclSuccess && asked == 4 && is_own_shard(),
     "what comes after a plain call waits until that is launched");
  prepare(0, ncclSuccess, true);
  comm->nonblocking = false; /* found out above; a launch in the background cannot be observed from here */
  tagc_comm_release(tagc_comm_abort(handles[0]));
  ok(launch() == ncclInternalError && scatters == 0 && ends == 1 && untouched(),
     "a launch whose communicator was aborted makes no call on it");
  tear_down();
}

/* ---- a driver that waits ----------------------------------------------------------------------------------------- */

static pthread_t watchdog;
static atomic_bool over; /* ends the driver's wait, which has a limit, or a fault would hang the test */
static atomic_bool has_left, left_in_time, waited_for;

/* A watchdog's abort, as in ncclCommAbort: the real one ends the driver's wait. */
static void *abort_and_wait(void *unused) {
  (void)unused;
  struct tagc_comm *ended = tagc_comm_abort(handles[0]);
  over = true;
  tagc_comm_abort_is_over(ended);
  tagc_comm_await_rest(ended);
  left_in_time = has_left;
  tagc_comm_release(ended);
  return NULL;
}

static bool encode_late(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job,
                        void *stream) {
  (void)self, (void)codec, (void)job, (void)stream;
  pthread_create(&watchdog, NULL, abort_and_wait, NULL);
  for (int i = 0; i < 120000 && !over; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  waited_for = over;
  nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  has_left = true;
  return true;
}

static void driver_waits(void) {
  static struct tagc_device gpu;
  set_up();
  gpu = tagc_device_host;
  gpu.host_reads = false;
  gpu.encode = encode_late;
  comm->device = &gpu;
  prepare(0, ncclSuccess, true);
  ncclResult_t status = call(TAGC_COMPRESS);
  pthread_join(watchdog, NULL);
  ok(status == ncclInternalError && waited_for, "an abort does not wait for a driver that waits for nothing but it");
  ok(left_in_time && ends == 1, "but it does until that has returned, and nothing comes after");
  comm->device = &tagc_device_host;
  comm->sync.unfenced = false; /* otherwise its memory is left to possible work of a GPU */
  tear_down();
}

/* ---- a device that fails at a new stage -------------------------------------------------------------------------- */

static bool no_layout(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                      struct tagc_layout *out) {
  (void)self, (void)codec, (void)shape, (void)out;
  return false;
}

static void set_sparsity(const char *value) {
  char why[300];
  if (!tagc_options_set((struct tagc_options *)(uintptr_t)tagc_library_options(), "TAGC_SPARSITY", value, why,
                        sizeof why))
    exit(1);
}

/* The calls here are in cycle 9. */
static void stages(void) {
  struct tagc_device failing = tagc_device_host;
  failing.layout = no_layout;
  set_up();
  set_sparsity("0.9,0.95@9");
  const struct tagc_slot *slot = comm->slots;
  const size_t sketch_count = slot->layout.sketch_count;
  comm->device = &failing;
  prepare(0, ncclSuccess, true);
  ok(call(TAGC_COMPRESS) == ncclUnhandledCudaError && untouched() && ends == 0 && !slot->state.residual_empty &&
       slot->stages.now == 0 && slot->layout.sketch_count == sketch_count,
     "a device that fails at a new stage: the call fails before anything is sent, and the stage stays");
  comm->device = &tagc_device_host;
  prepare(0, ncclSuccess, true);
  ok(call(TAGC_FLUSH) == ncclSuccess && slot->stages.now == 0, "a flush enters none");
  prepare(0, ncclSuccess, true);
  ok(call(TAGC_COMPRESS) == ncclSuccess && is_own_shard() && slot->stages.now == 1 && slot->packed.keep_ppm == 50000 &&
       slot->layout.sketch_count < sketch_count,
     "a call that works enters it");
  set_sparsity("0.8");
  tear_down();
}

/* ---- groups that are never ended --------------------------------------------------------------------------------- */

static pthread_key_t last;
static ncclComm_t child;
static int number; /* errno */
static bool open_in_thread, open_at_end;

static const struct tagc_nccl *standin(void) { return tagc_real_called((const void *)&standin); }

static void at_thread_end(void *unused) {
  (void)unused;
  open_at_end = tagc_group_is_open(standin());
}

static void expect_child(void) {
  struct tagc_agreement agreement = {.state = TAGC_AGREED_YES};
  child = NULL;
  if (tagc_group_start(standin(), &number) != ncclSuccess ||
      !tagc_comm_expect(handles[0], &child, true, false, &agreement))
    exit(1);
}

static void *leave_open(void *unused) {
  (void)unused;
  pthread_setspecific(last, &last);
  expect_child();
  open_in_thread = tagc_group_is_open(standin());
  return NULL;
}

/* The memory of a child that never came belongs to the program. It may hold anything, for example another handle. */
static bool is_forgotten(void) {
  child = handles[0];
  tagc_comm_children_done(NULL, ncclSuccess);
  tagc_comm_children_done(handles[0], ncclSuccess);
  struct tagc_comm *found = tagc_comm_find(handles[0]);
  tagc_comm_release(found);
  return found == comm && !tagc_comm_expects(handles[0]);
}

/* A child of a non-blocking parent: one that NCCL stores, one of a colour without ranks, and one that it gives up. */
static void children(void) {
  static int made; /* its address is a handle */
  const ncclComm_t new = (ncclComm_t)(void *)&made;
  const struct tagc_agreement agreement = {.state = TAGC_AGREED_YES};
  set_up();
  child = NULL;
  bool good = tagc_comm_expect(handles[0], &child, false, true, &agreement);
  ok(good && tagc_comm_children_done(handles[0], ncclInProgress) && tagc_comm_children_done(NULL, ncclSuccess) &&
       tagc_comm_expects(handles[0]) && !tagc_comm_expects(handles[1]),
     "while its parent is at work a child is expected, whatever groups end");
  child = new;
  ok(tagc_comm_children_done(handles[0], ncclSuccess) && !tagc_comm_expects(handles[0]) &&
       tagc_comm_listed(new).agreement.state == TAGC_AGREED_YES && tagc_comm_is_nonblocking(new),
     "and is listed when the parent is ready");
  tagc_comm_drop(new);
  child = NULL;
  good =
    tagc_comm_expect(handles[0], &child, false, true, &agreement) && tagc_comm_children_done(handles[0], ncclSuccess);
  ok(good && is_forgotten(), "a rank of no colour gets none, and its memory is not looked at again");
  child = handles[0];
  good = tagc_comm_expect(handles[0], &child, false, true, &agreement) &&
         tagc_comm_children_done(handles[0], ncclRemoteError);
  ok(good && is_forgotten(), "nor is it after a failure");
  child = handles[0];
  good = tagc_comm_expect(handles[0], &child, false, true, &agreement) && tagc_comm_add_expected(handles[0]);
  struct tagc_comm *found = tagc_comm_find(handles[0]);
  ok(good && tagc_comm_expects(handles[0]) && found == comm, "a handle that is listed is no child");
  tagc_comm_release(found);
  tagc_comm_children_done(handles[0], ncclRemoteError);
  child = new;
  good = tagc_comm_expect(handles[0], &child, true, true, &agreement) && tagc_comm_add_expected(new);
  ok(good && !tagc_comm_expects(handles[0]) && tagc_comm_listed(new).agreement.state == TAGC_AGREED_YES,
     "one that the program uses before its parent is asked is listed then");
  tagc_comm_drop(new);
  tear_down();
}

static void never_ended(void) {
  pthread_t thread;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  set_up();
  if (tagc_group_start(standin(), &number) != ncclSuccess || tagc_group_end(standin(), &number) != ncclSuccess ||
      pthread_key_create(&last, at_thread_end) != 0) /* after the library's own key, which the first group creates */
    exit(1);
  pthread_create(&thread, NULL, leave_open, NULL);
  pthread_join(thread, NULL);
  ok(open_in_thread && !open_at_end, "a thread ends with a group open: what runs after that finds none");
  ok(is_forgotten(), "and the children that it expected are forgotten");
  expect_child();
  ok(tagc_group_simulate_end(standin(), &info, &number) == ncclSuccess && is_forgotten(),
     "a group that is only simulated makes no children");
  tear_down();
}

int main(void) {
  setenv("TAGC_MIN_BYTES", "0", 1);
  setenv("TAGC_CODEC", "lhc", 1);
  sent = malloc(sizeof(float) * N * RANKS);
  received = malloc(sizeof(float) * N);
  set_up();
  failures();
  failed_flush();
  in_progress();
  tear_down();
  parts();
  aborts();
  abort_of_one();
  launches();
  driver_waits();
  stages();
  never_ended();
  children();
  free(sent);
  free(received);
  return tap_done();
}
