/* SPDX-License-Identifier: BSD-3-Clause
 * The profiler plugin, as NCCL calls it in each version of its interface: the records that come out, with the clock
 * played; and what NCCL should not do, but may.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "interpose/nccl/real.h"
#include "interpose/profiler/events.h"
#include "interpose/trace/trace.h"
#include "tests/unit/profiler/nccl_side.h"
#include "tests/unit/tap.h"

/* ---- the trace and the clock ------------------------------------------------------------------------------------- */

enum { MOST = 4096 };
static struct tagc_trace_profile records[MOST];
static atomic_size_t recorded;
static atomic_uint_fast64_t now = 1000;

void __wrap_tagc_trace_add(const struct tagc_trace_record *record);
uint64_t __wrap_tagc_clock_ns(void);

void __wrap_tagc_trace_add(const struct tagc_trace_record *record) {
  const size_t at = atomic_fetch_add(&recorded, 1);
  if (at < MOST)
    memcpy(&records[at], record, sizeof records[at]);
}

uint64_t __wrap_tagc_clock_ns(void) { return atomic_load(&now); }

static void pass(uint64_t ns) { atomic_fetch_add(&now, ns); }

static void *begin(void) {
  void *context = NULL;
  int mask = 0;
  atomic_store(&recorded, 0);
  init(&context, &mask);
  return context;
}

static void end(void *context) { plugin()->finalize(context); }

/* The GPU's clock counts from another moment. */
static uint64_t gpu(void) { return UINT64_C(1700000000000000000) + atomic_load(&now); }

/* ---- each version ------------------------------------------------------------------------------------------------ */

/* A piece of `bytes`: 10 ns for each wait. Before version 4 the transfer has the bytes, so far. */
static void move(void *context, void *op, int sends, uint64_t bytes, uint64_t so_far) {
  void *step = start_step(context, op);
  record_number(step, sends ? SEND_GPU_WAIT : RECV_WAIT, 999999); /* of another piece: no bytes of this one */
  pass(10);
  if (sends && version >= 4) {
    record_number(step, SEND_PEER_WAIT, 999999);
    pass(10);
  }
  record_number(step, sends ? SEND_WAIT : RECV_FLUSH_WAIT, bytes);
  pass(10);
  if (!sends) {
    record_number(step, RECV_GPU_WAIT, bytes);
    pass(10);
  }
  stop(step);
  if (version <= 3)
    record_number(op, sends ? SEND_DONE : RECV_DONE, so_far);
}

static void check_version(void) {
  static char send[8], recv[8];
  int mask = 0;
  void *context = NULL;
  atomic_store(&recorded, 0);
  ok(init(&context, &mask) == ncclSuccess && context, "version %d begins", version);
  ok(mask == (COLL | P2P | PROXY_OP | PROXY_STEP | (version >= 3 ? KERNEL_CH : 0)), "and asks for its events: %#x",
     (unsigned)mask);
  tagc_profiler_expect(77, 5, send, recv);
  void *group = start_other(context, GROUP);
  ok(group != NULL, "groups have handles, or NCCL shows no operations");
  const uint64_t posted = now;
  void *operation = start_all_reduce(context, group, send, recv, 2);
  stop(operation);
  stop(group);
  pass(100);
  const uint64_t began = now;
  void *kernels[2] = {NULL, NULL};
  for (int i = 0; version >= 3 && i < 2; i++) {
    kernels[i] = start_kernel(context, operation, gpu());
    pass(5);
  }
  void *out = start_op(context, operation, (int)getpid(), 1), *in = start_op(context, operation, (int)getpid(), 0);
  move(context, out, 1, 300, 300);
  move(context, out, 1, 200, 500);
  move(context, in, 0, 70, 70);
  stop(out);
  stop(in);
  pass(50);
  const uint64_t ended = now;
  for (int i = 0; version >= 3 && i < 2; i++)
    stop_kernel_at(kernels[i], gpu());
  ok(recorded == (version >= 3), "an operation is written when all channels of its kernel have ended");
  end(context);
  ok(recorded == 1, "and at the end at the latest, once");
  const struct tagc_trace_profile *r = &records[0];
  ok(r->record.kind == TAGC_TRACE_PROFILE && r->record.bytes == sizeof *r && r->record.comm == 5 && r->call == 77 &&
       r->posted_ns == posted && r->function == TAGC_ENTRY_ncclAllReduce,
     "it is the call's, by its buffers, and of its communicator");
  if (version >= 3)
    ok(r->kernel_began_ns == began && r->kernel_ns == ended - began && r->channels == 2 &&
         r->by_device == (version >= 4),
       "its kernel ran for %d ns: %d", (int)(ended - began), (int)r->kernel_ns);
  else
    ok(!r->kernel_ns && !r->channels && !r->by_device, "its kernel is not known");
  ok(r->sent_bytes == 500 && r->received_bytes == 70 && r->sends == 2 && r->receives == 1, "it sent 500 bytes: %d",
     (int)r->sent_bytes);
  ok(r->send_gpu_ns == 20 && r->send_peer_ns == (version >= 4 ? 20 : 0) && r->send_network_ns == 20 &&
       r->sending_ns == 20 && r->receive_network_ns == 10 && r->receive_gpu_ns == 20,
     "and waited: %d %d %d %d %d %d", (int)r->send_gpu_ns, (int)r->send_peer_ns, (int)r->send_network_ns,
     (int)r->sending_ns, (int)r->receive_network_ns, (int)r->receive_gpu_ns);
  ok(r->network_ns == (version >= 4 ? 90 : 70), "for so long the proxy had work: %d", (int)r->network_ns);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static void check_messages(void) {
  static char a[8], b[8];
  void *context = begin();
  tagc_profiler_expect(1, 3, a, NULL);
  tagc_profiler_expect(2, 3, NULL, a);
  tagc_profiler_expect(3, 3, a, b);
  void *send = start_message(context, NULL, a, 1, 1), *recv = start_message(context, NULL, a, 0, 1);
  void *twice = start_message(context, NULL, a, 1, 1);
  void *const each[] = {send, recv, twice};
  for (int i = 0; i < 3; i++) {
    stop(each[i]);
    void *kernel = start_kernel(context, each[i], gpu());
    pass(10);
    stop_kernel_at(kernel, gpu());
  }
  ok(recorded == 3 && records[0].call == 1 && records[0].function == TAGC_ENTRY_ncclSend && records[1].call == 2 &&
       records[1].function == TAGC_ENTRY_ncclRecv,
     "a send and a receive of one buffer are two calls");
  ok(records[2].call == 0 && records[2].record.comm == 3,
     "a call is found once; later operations still have its communicator");
  end(context);
}

/* An all-to-all is a send and a receive for each rank. */
static void check_several_messages(void) {
  static char a[64], b[64], c[64];
  void *context = begin();
  tagc_profiler_expect(1, 3, a, b);
  tagc_profiler_expect_messages(1, 3, a, b, sizeof a);
  tagc_profiler_expect(2, 3, a + 16, NULL);
  tagc_profiler_expect(3, 3, NULL, c); /* refused: NCCL does not launch it */
  tagc_profiler_expect_messages(4, 3, NULL, c, sizeof c);
  const struct {
    const void *buffer;
    int sends;
    uint64_t call;
  } messages[] = {{a, 1, 1}, {b, 0, 1}, {a + 48, 1, 1}, {b + 63, 0, 1}, {a + 16, 1, 2}, {a + 16, 1, 1},
                  {c, 1, 0}, {c, 0, 4}, {c, 0, 4},      {b, 1, 0},      {a, 0, 0}};
  int good = 0;
  for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
    void *operation = start_message(context, NULL, messages[i].buffer, messages[i].sends, 1);
    stop(operation);
    void *kernel = start_kernel(context, operation, gpu());
    pass(10);
    stop_kernel_at(kernel, gpu());
    good += records[i].call == messages[i].call;
  }
  ok(good == sizeof messages / sizeof *messages, "messages of an all-to-all are its, and no others: %d", good);
  end(context);
}

static void check_late_children(void) {
  void *context = begin();
  void *first = start_all_reduce(context, NULL, "a", "b", 1);
  stop(first);
  void *op = start_op(context, first, (int)getpid(), 1);
  move(context, op, 1, 40, 40);
  stop(op);
  ok(recorded == 0, "an operation without a kernel waits for more children");
  for (int i = 0; i < TAGC_PROFILER_LAG; i++)
    stop(start_all_reduce(context, NULL, "a", "b", 1));
  ok(recorded == 1 && records[0].sent_bytes == 40, "until %d younger ones have begun", TAGC_PROFILER_LAG);
  void *kernel = start_kernel(context, first, gpu());
  pass(30);
  op = start_op(context, first, (int)getpid(), 1);
  move(context, op, 1, 2, 2);
  stop(op);
  stop_kernel_at(kernel, gpu());
  ok(recorded >= 2 && records[recorded - 1].sent_bytes + records[recorded - 2].sent_bytes >= 2 &&
       records[recorded - 1].kernel_ns == 60 && records[recorded - 1].posted_ns == records[0].posted_ns,
     "children that come later still are written, too: %d ns", (int)records[recorded - 1].kernel_ns);
  uint64_t sent = 0;
  for (size_t i = 0; i < recorded; i++)
    sent += records[i].sent_bytes;
  ok(sent == 42, "and each byte once: %d", (int)sent);
  end(context);
}

static void check_overflow(void) {
  enum { MORE = 10, ALL = TAGC_PROFILER_OPERATIONS + MORE };
  static void *kernels[ALL];
  void *context = begin();
  for (int i = 0; i < ALL; i++) {
    void *operation = start_all_reduce(context, NULL, "a", "b", 1);
    stop(operation);
    void *op = start_op(context, operation, (int)getpid(), 1);
    kernels[i] = start_kernel(context, operation, gpu());
    stop(op);
  }
  ok(recorded == MORE && !records[0].kernel_ns, "the oldest operations make room, as far as they are known");
  for (int i = 0; i < MORE; i++)
    stop_kernel_at(kernels[i], gpu());
  ok(recorded == MORE, "what they do later is ignored: %d records", (int)recorded);
  pass(5);
  for (int i = MORE; i < ALL; i++)
    stop_kernel_at(kernels[i], gpu());
  ok(recorded == ALL && records[ALL - 1].kernel_ns == 5, "and the others go on: %d records", (int)recorded);
  void *operation = start_all_reduce(context, NULL, "a", "b", 1), *op = start_op(context, operation, (int)getpid(), 1);
  static void *steps[TAGC_PROFILER_TRANSFERS];
  int made = 0;
  for (int i = 0; i < TAGC_PROFILER_TRANSFERS; i++)
    made += (steps[i] = start_step(context, op)) != NULL;
  ok(made == TAGC_PROFILER_TRANSFERS - 1, "no more than %d transfers are followed at once", TAGC_PROFILER_TRANSFERS);
  for (int i = TAGC_PROFILER_TRANSFERS; i-- > 0;)
    stop(steps[i]);
  ok(start_step(context, op) != NULL, "and then others");
  for (int i = 0; i < TAGC_PROFILER_TRANSFERS; i++)
    start_step(context, op);
  for (int i = 0; i < TAGC_PROFILER_OPERATIONS; i++)
    operation = start_all_reduce(context, NULL, "a", "b", 1);
  op = start_op(context, operation, (int)getpid(), 1);
  ok(op && start_step(context, op), "steps that NCCL does not stop end with their operations");
  end(context);
}

/* `drift`: nanoseconds a second that the GPU's clock gains. */
static void check_clock(int64_t drift) {
  enum { ROUNDS = 300, LATE = 400000 };
  void *context = begin();
  int64_t worst = 0;
  const uint64_t start_ns = now;
  for (uint64_t i = 0; i < ROUNDS; i++) {
    pass(20000000);
    const uint64_t at = now;
    const uint64_t gpu_ns = gpu() + (uint64_t)((int64_t)(at - start_ns) / 1000 * drift / 1000000);
    void *operation = start_all_reduce(context, NULL, "a", "b", 1);
    stop(operation);
    pass(1000 + i % 5 * LATE / 4); /* the proxy thread sees it late */
    void *kernel = start_kernel(context, operation, gpu_ns);
    pass(1000);
    stop_kernel_at(kernel, gpu_ns + 1000);
    const int64_t off = (int64_t)(records[i].kernel_began_ns - at);
    worst = llabs(off) > llabs(worst) ? off : worst;
  }
  ok(llabs(worst) < LATE / 3, "the clock drifts by %d ns/s, and kernels are seen %d ns late: they are placed %d ns off",
     (int)drift, LATE, (int)worst);
  end(context);
}

/* ---- what should not happen -------------------------------------------------------------------------------------- */

static void check_nonsense(void) {
  void *const wild[] = {NULL,
                        (void *)1,
                        (void *)UINTPTR_MAX,
                        (void *)&now,
                        (void *)0x1fff00000000ffff,
                        (void *)0x2fffffffffffffff,
                        (void *)0x3000ffff00000001};
  enum { WILD = sizeof wild / sizeof *wild };
  void *context = begin(), *handle = (void *)1;
  struct descriptor d = describe(COLL, NULL);
  int mask = 0;
  ok(init(NULL, &mask) == ncclSuccess && init(NULL, NULL) == ncclSuccess, "a begin without a place for its result");
  ok(plugin()->start_event(context, NULL, &d) == ncclSuccess &&
       plugin()->start_event(context, &handle, NULL) == ncclSuccess,
     "an event without a handle, or without a description");
  for (int i = 0; i < WILD; i++) {
    stop(wild[i]);
    record_number(wild[i], SEND_WAIT, 5);
    plugin()->record_state(wild[i], SEND_WAIT, NULL);
    plugin()->record_state(wild[i], KERNEL_STOP, NULL);
    plugin()->record_state(wild[i], -1, NULL);
    stop(start_kernel(context, wild[i], gpu()));
    stop(start_op(context, wild[i], (int)getpid(), 1));
    stop(start_step(context, wild[i]));
    if (wild[i] != (void *)1) /* the first context is 1 */
      stop(start_all_reduce(wild[i], wild[i], NULL, NULL, 0));
  }
  ok(recorded == 0, "handles that nobody gave out");
  for (int kind = 0; kind < 64; kind++)
    if (!(UINT64_C(1) << kind & (COLL | P2P | PROXY_OP | PROXY_STEP | KERNEL_CH)))
      stop(start_other(context, UINT64_C(1) << kind));
  ok(recorded == 0, "other kinds of events");
  void *operation = start_all_reduce(context, NULL, "a", "b", 2);
  void *kernel = start_kernel(context, operation, gpu()), *op = start_op(context, operation, (int)getpid(), 1);
  void *step = start_step(context, op), *silent = start_step(context, op);
  stop(op); /* before its step */
  record_number(step, SEND_WAIT, 30);
  pass(10);
  stop(step);
  stop(step);
  record_number(step, SEND_WAIT, 900);
  stop(op);
  stop_kernel_at(kernel, gpu());
  stop(kernel);
  stop(operation);
  ok(start_op(context, operation, (int)getpid() + 1, 1) == NULL, "with PXN, an operation of another process");
  void *unended = start_kernel(context, operation, gpu());
  ok(recorded == 0 && silent && unended, "an operation with open events is not over");
  end(context);
  ok(recorded == 1 && records[0].sent_bytes == (version >= 4 ? 30 : 0) && records[0].kernel_ns == 10 &&
       records[0].channels == 1,
     "at its communicator's end it is written as it is: %d records", (int)recorded);
  end(context);
  stop(silent);
  stop_kernel_at(unended, gpu());
  ok(!start_op(context, operation, (int)getpid(), 1) && recorded == 1, "events behind the end are ignored");
  void *again = begin();
  ok(again == context, "another communicator gets its place");
  stop(silent);
  stop(operation);
  ok(!start_kernel(again, operation, gpu()), "and no handles of the one before");
  end(again);
}

static void check_off(void) {
  void *context = (void *)1;
  int mask = 0;
  atomic_store(&tagc_profiler_is_on, false);
  ok(init(&context, &mask) == ncclSuccess && !context && mask == 0, "switched off it asks for nothing, and succeeds");
  ok(!start_all_reduce(context, NULL, "a", "b", 1), "and follows nothing");
  end(context);
  atomic_store(&tagc_profiler_is_on, true);
}

static void check_fork(void) {
  void *context = begin();
  void *operation = start_all_reduce(context, NULL, "a", "b", 1);
  void *kernel = start_kernel(context, operation, gpu());
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = !start_all_reduce(context, NULL, "a", "b", 1);
    end(context);
    const bool silent = recorded == 0;
    void *own = begin();
    void *mine = start_all_reduce(own, NULL, "a", "b", 1);
    stop(start_kernel(own, operation, gpu())); /* its parent's */
    const bool good = refused && silent && own && mine;
    void *other = start_kernel(own, mine, gpu());
    pass(3);
    stop_kernel_at(other, gpu());
    stop(mine);
    _exit(good && recorded == 1 && records[0].kernel_ns == 3 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ok(status == 0, "a forked child has nothing of its parent's, and can begin anew");
  pass(8);
  stop_kernel_at(kernel, gpu());
  stop(operation);
  ok(recorded == 1 && records[0].kernel_ns == 8, "and its parent goes on");
  end(context);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* So few that a thread which the system holds up finds its operation still there (TAGC_PROFILER_OPERATIONS). */
enum { THREADS = 4, TURNS = TAGC_PROFILER_OPERATIONS / THREADS };

static void *run_operations(void *context) {
  for (int i = 0; i < TURNS; i++) {
    void *operation = start_all_reduce(context, NULL, &operation, context, 1);
    void *kernel = start_kernel(context, operation, gpu()), *op = start_op(context, operation, (int)getpid(), 1);
    stop(operation);
    move(context, op, 1, 7, 7);
    stop(op);
    stop_kernel_at(kernel, gpu());
  }
  return NULL;
}

static void check_threads(void) {
  pthread_t threads[THREADS];
  void *context = begin();
  uint64_t sent = 0;
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, run_operations, context);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  end(context);
  for (size_t i = 0; i < recorded && i < MOST; i++)
    sent += records[i].sent_bytes;
  ok(recorded == THREADS * TURNS && sent == UINT64_C(7) * THREADS * TURNS,
     "threads show operations of one communicator at once: %d records", (int)recorded);
}

int main(void) {
  atomic_store(&tagc_profiler_is_on, true);
  for (version = 1; version <= VERSIONS; version++)
    check_version();
  version = VERSIONS;
  check_messages();
  check_several_messages();
  check_late_children();
  check_overflow();
  check_clock(50000);
  check_clock(-50000);
  for (version = 1; version <= VERSIONS; version += 3)
    if (version >= 3)
      check_nonsense();
  version = VERSIONS;
  check_nonsense();
  check_off();
  check_fork();
  check_threads();
  return tap_done();
}
