/* SPDX-License-Identifier: BSD-3-Clause
 * Side streams of a CUDA device (device.h) on the stand-in for the driver: their work is in order with callers' streams
 * if requested. Nothing is called once a side stream is closed or its context gone. The stand-in ends a process whose
 * work is not in order.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "kernels/device/cuda_device.h"
#include "tests/unit/device/cuda_child.h"
#include "tests/unit/device/life.h"
#include "tests/unit/self.h"

enum { KIB = 1 << 10, MANY = 200 };

/* A piece of work: a copy. */
struct piece {
  const struct tagc_device *device;
  char *from, *to;
  size_t bytes;
  void *stream; /* the one it was called on */
};

static void copy(void *argument, void *stream) {
  struct piece *piece = argument;
  piece->stream = stream;
  EXPECT(
    piece->device->copy(piece->device, piece->to, piece->bytes, piece->from, piece->bytes, piece->bytes, 1, stream));
}

static void *room(const struct tagc_device *d, size_t bytes, CUstream stream) {
  void *memory = d->alloc(d, bytes, stream);
  EXPECT(memory && d->clear(d, memory, bytes, stream));
  return memory;
}

static struct piece piece_on(const struct tagc_device *d, CUstream stream) {
  return (struct piece){.device = d, .from = room(d, KIB, stream), .to = room(d, KIB, stream), .bytes = KIB};
}

/* From the caller's stream to the side stream and back, more often than there are slots. */
static void in_order(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  char *from = room(d, KIB, stream), *to = room(d, KIB, stream), got = 0;
  void *side = d->side_stream_make(d);
  uint64_t last = 0;
  EXPECT(side);
  for (int i = 1; i <= MANY; i++) {
    struct piece piece = {.device = d, .from = from, .to = to, .bytes = KIB};
    const char sent = (char)i;
    EXPECT(d->put(d, from + KIB - 1, &sent, 1, stream) && d->side_stream_after(d, side, stream));
    const uint64_t event = d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &piece);
    EXPECT(event == last + 1 && piece.stream && piece.stream != stream);
    EXPECT(d->side_stream_wait(d, side, event, stream));
    EXPECT(i % 50 || (d->get(d, &got, to + KIB - 1, 1, stream) && got == (char)i));
    last = event;
  }
  EXPECT(d->side_stream_wait(d, side, 3, stream)); /* a later one has taken its slot */
  EXPECT(!d->side_stream_wait(d, side, 0, stream) && !d->side_stream_wait(d, side, last + 1, stream));
  d->side_stream_free(d, side);
  d->side_stream_free(d, NULL);
  EXPECT(d->get(d, &got, to + KIB - 1, 1, stream) && got == (char)MANY);
}

/* With several under way, the caller's stream waits for the first one, and works on its result, while others run. */
static void ahead(void) {
  enum { PIECES = 8 };
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct piece pieces[PIECES];
  uint64_t events[PIECES];
  void *side = d->side_stream_make(d);
  for (int i = 0; i < PIECES; i++) {
    pieces[i] = (struct piece){.device = d, .from = room(d, KIB, stream), .to = room(d, KIB, stream), .bytes = KIB};
    EXPECT(d->put(d, pieces[i].from, &(char){(char)(i + 1)}, 1, stream));
  }
  EXPECT(d->side_stream_after(d, side, stream));
  for (int i = 0; i < PIECES; i++)
    EXPECT((events[i] = d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &pieces[i])) > 0);
  for (int i = 0; i < PIECES; i++) {
    char got = 0;
    EXPECT(d->side_stream_wait(d, side, events[i], stream) && d->get(d, &got, pieces[i].to, 1, stream) &&
           got == (char)(i + 1));
  }
  d->side_stream_free(d, side);
}

static void without_after(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct piece piece = piece_on(d, stream);
  (void)d->side_stream_submit(d, d->side_stream_make(d), TAGC_SIDE_ENCODE, copy, &piece);
}

static void without_wait(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct piece piece = piece_on(d, stream);
  void *side = d->side_stream_make(d);
  EXPECT(d->side_stream_after(d, side, stream) && d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &piece));
  (void)d->clear(d, piece.to, KIB, stream);
}

/* -- times --------------------------------------------------------------------------------------------------------- */

enum { NAP_MS = 60 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int stage;

static void reach(int to) {
  pthread_mutex_lock(&gate);
  stage = to;
  pthread_cond_broadcast(&moved);
  pthread_mutex_unlock(&gate);
}

static void wait_until(int there) {
  pthread_mutex_lock(&gate);
  while (stage < there)
    pthread_cond_wait(&moved, &gate);
  pthread_mutex_unlock(&gate);
}

/* The threads of the stream and of the side stream: one that sleeps only waits, however busy the machine is. */
static atomic_int on_stream, on_side_stream;
static atomic_int waits_given; /* to the stream, of this call */

/* Runs on a stream. */
static void hold(void *until) { wait_until((int)(intptr_t)until); }

static void arrive(void *at) {
  on_stream = (int)syscall(SYS_gettid);
  reach((int)(intptr_t)at);
}

static void hold_until_done(void *until) {
  hold(until);
  wait_until_asleep(on_side_stream);
}

static void nap(void *from) {
  on_side_stream = (int)syscall(SYS_gettid);
  wait_until((int)(intptr_t)from);
  while (waits_given < (int)(intptr_t)from / 2 + 1)
    usleep(100);
  wait_until_asleep(on_stream);
  usleep(1000 * NAP_MS);
  reach((int)(intptr_t)from + 1);
}

/* Runs on a side stream, from that stage on. */
static void work(void *from, void *stream) { MUST(cuLaunchHostFunc(stream, nap, from)); }

static void *at_stage(int n) { return (void *)(intptr_t)n; }

/* A call with an encoding and a decoding on its side stream. Its stream waits for each as soon as it begins, or when it
 * is done: then the stream has other work meanwhile. */
static void call_beside(const struct tagc_device *d, void *tally, void *side, bool waits, CUstream stream) {
  stage = 0;
  waits_given = 0;
  EXPECT(d->tally_mark(d, tally, TAGC_MARK_BEGUN, 1, stream));
  d->tally_side_stream(d, tally, side, 2);
  for (int i = 0; i < 2; i++) {
    const enum tagc_side_work what = i ? TAGC_SIDE_DECODE : TAGC_SIDE_ENCODE;
    EXPECT(d->tally_mark(d, tally, i ? TAGC_MARK_EXCHANGED : TAGC_MARK_ENCODED, 1, stream) &&
           d->side_stream_after(d, side, stream));
    const uint64_t event = d->side_stream_submit(d, side, what, work, at_stage(2 * i + 1));
    MUST(cuLaunchHostFunc(stream, arrive, at_stage(2 * i + 1)));
    if (!waits)
      MUST(cuLaunchHostFunc(stream, hold_until_done, at_stage(2 * i + 2)));
    EXPECT(event && d->side_stream_wait(d, side, event, stream));
    waits_given++;
  }
  EXPECT(d->tally_mark(d, tally, TAGC_MARK_DECODED, 1, stream));
  EXPECT(d->side_stream_wait(d, side, 1, stream)); /* no longer part of the call */
}

static struct tagc_tally_times read_now(const struct tagc_device *d, void *tally) {
  struct tagc_tally_times t = {.worked_ms = {-1, -1}, .waited_ms = {-1, -1}};
  struct tagc_codec_stats stats = {0};
  EXPECT(d->tally_read(d, tally, &t, &stats));
  return t;
}

static void times(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  void *side = d->side_stream_make(d), *tally = d->tally_make(d, stream);
  struct tagc_codec_stats stats = {0};
  struct tagc_side_times none;
  struct tagc_tally_times t;
  EXPECT(side && tally && !d->side_stream_times(d, side, &none));
  call_beside(d, tally, side, true, stream);
  EXPECT(!d->tally_read(d, tally, &t, &stats)); /* that would wait */
  MUST(cuCtxSynchronize());
  t = read_now(d, tally);
  EXPECT(t.side_known);
  for (int i = 0; i < TAGC_SIDE_WORKS; i++)
    EXPECT(t.worked_ms[i] >= NAP_MS && t.waited_ms[i] >= NAP_MS);
  call_beside(d, tally, side, false, stream);
  MUST(cuCtxSynchronize());
  t = read_now(d, tally);
  EXPECT(t.side_known);
  for (int i = 0; i < TAGC_SIDE_WORKS; i++)
    EXPECT(t.worked_ms[i] >= NAP_MS && t.waited_ms[i] < t.worked_ms[i] / 2);
  EXPECT(d->tally_mark(d, tally, TAGC_MARK_BEGUN, 2, stream) && d->tally_mark(d, tally, TAGC_MARK_DECODED, 2, stream));
  MUST(cuCtxSynchronize());
  t = read_now(d, tally); /* a call without a side stream */
  EXPECT(t.side_known && t.worked_ms[0] == 0 && t.worked_ms[1] == 0 && t.waited_ms[0] == 0 && t.waited_ms[1] == 0);
  call_beside(d, tally, side, true, stream);
  MUST(cuCtxSynchronize());
  d->side_stream_free(d, side); /* as at the end of a communicator */
  t = read_now(d, tally);
  EXPECT(t.side_known && t.worked_ms[0] >= NAP_MS);
}

/* A call of `functions` pieces of work. */
static void call_pieces(const struct tagc_device *d, void *tally, void *side, int functions, struct piece *piece,
                        CUstream stream) {
  EXPECT(d->tally_mark(d, tally, TAGC_MARK_BEGUN, 1, stream));
  d->tally_side_stream(d, tally, side, (unsigned)functions);
  EXPECT(d->side_stream_after(d, side, stream));
  for (int i = 0; i < functions; i++)
    EXPECT(d->side_stream_wait(d, side, d->side_stream_submit(d, side, TAGC_SIDE_DECODE, copy, piece), stream));
  EXPECT(d->tally_mark(d, tally, TAGC_MARK_DECODED, 1, stream));
}

/* Calls far ahead of the device: those that fit into 256 intervals are timed, and nothing waits for the device. A call
 * that does not fit takes no interval from the next, smaller one. Later calls are timed again. */
static void too_many(void) {
  enum { TALLIES = 3, FUNCTIONS = 31 };
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct piece piece = piece_on(d, stream);
  void *side = d->side_stream_make(d), *tally[TALLIES];
  for (int i = 0; i < TALLIES; i++)
    tally[i] = d->tally_make(d, stream);
  MUST(cuLaunchHostFunc(stream, hold, at_stage(1)));
  for (int call = 0; call < 2 * TALLIES; call++)
    call_pieces(d, tally[call / 2], side, call < 5 ? FUNCTIONS : 4, &piece, stream);
  reach(1);
  MUST(cuCtxSynchronize());
  for (int call = 0; call < 2 * TALLIES; call++) {
    const struct tagc_tally_times t = read_now(d, tally[call / 2]);
    EXPECT(t.side_known == (call != 4) &&
           (call == 4 || (t.worked_ms[TAGC_SIDE_DECODE] > 0 && t.worked_ms[TAGC_SIDE_ENCODE] == 0)));
  }
  call_pieces(d, tally[0], side, FUNCTIONS, &piece, stream);
  MUST(cuCtxSynchronize());
  EXPECT(read_now(d, tally[0]).side_known);
  call_pieces(d, tally[0], side, 129, &piece, stream); /* more than there are */
  MUST(cuCtxSynchronize());
  EXPECT(!read_now(d, tally[0]).side_known);
  d->side_stream_free(d, side);
}

/* A side stream no longer writes to a tally that was freed and reused, nor to that of a failed call. */
static void given_back(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct piece piece = piece_on(d, stream);
  void *side = d->side_stream_make(d), *tally = d->tally_make(d, stream), *fence = d->fence_make(d);
  call_pieces(d, tally, side, 9, &piece, stream);
  EXPECT(d->tally_mark(d, tally, TAGC_MARK_BEGUN, 2, stream));
  d->tally_side_stream(d, tally, side, 9);
  EXPECT(d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &piece) && d->fence_set(d, fence, stream));
  MUST(cuCtxSynchronize());
  d->tally_free(d, tally, fence);
  void *again = d->tally_make(d, stream);
  EXPECT(again == tally && d->tally_mark(d, again, TAGC_MARK_BEGUN, 3, stream));
  EXPECT(d->side_stream_wait(d, side, d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &piece), stream));
  for (int i = 0; i < 300; i++)
    EXPECT(d->side_stream_wait(d, side, d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &piece), stream));
  EXPECT(d->tally_mark(d, again, TAGC_MARK_DECODED, 3, stream));
  MUST(cuCtxSynchronize());
  struct tagc_tally_times t = read_now(d, again);
  EXPECT(t.side_known && t.worked_ms[TAGC_SIDE_ENCODE] == 0 && t.worked_ms[TAGC_SIDE_DECODE] == 0);
  EXPECT(d->tally_mark(d, again, TAGC_MARK_BEGUN, 4, stream)); /* fails after its first piece */
  d->tally_side_stream(d, again, side, 9);
  EXPECT(d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &piece) && d->side_stream_after(d, side, stream));
  for (int i = 0; i < 2; i++) { /* the second one in that one's slot */
    call_pieces(d, again, side, 2, &piece, stream);
    EXPECT(
      /* It belongs to no call. */
      d->side_stream_wait(d, side, d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &piece), stream));
  }
  MUST(cuCtxSynchronize());
  for (int i = 0; i < 2; i++) {
    t = read_now(d, again);
    EXPECT(t.side_known && t.worked_ms[TAGC_SIDE_ENCODE] == 0 && t.worked_ms[TAGC_SIDE_DECODE] > 0);
  }
  d->side_stream_free(d, side);
  d->tally_free(d, again, NULL);
}

/* -- ends ---------------------------------------------------------------------------------------------------------- */

static atomic_bool left; /* the slow function has ended */

static void slow(void *argument, void *stream) {
  (void)argument, (void)stream;
  reach(1);
  wait_until(2);
  for (int i = 0; i < 100; i++)
    sched_yield();
  atomic_store(&left, true);
}

struct closing {
  const struct tagc_device *device;
  void *side;
};

static void *close_it(void *argument) {
  const struct closing *closing = argument;
  wait_until(1);
  reach(2);
  closing->device->side_stream_close(closing->device, closing->side);
  EXPECT(atomic_load(&left));
  return NULL;
}

/* A close waits for running work, and nothing runs afterwards. */
static void closed(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct closing closing = {d, d->side_stream_make(d)};
  struct piece piece = {.device = d};
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, close_it, &closing) == 0);
  const uint64_t event = d->side_stream_submit(d, closing.side, TAGC_SIDE_ENCODE, slow, NULL);
  EXPECT(event == 1);
  EXPECT(pthread_join(thread, NULL) == 0);
  EXPECT(d->side_stream_submit(d, closing.side, TAGC_SIDE_ENCODE, copy, &piece) == 0 && !piece.stream);
  EXPECT(d->side_stream_wait(d, closing.side, event, stream));
  d->side_stream_close(d, closing.side);
  d->side_stream_free(d, closing.side);
}

/* After cudaDeviceReset nothing is called and nothing is touched. */
static void lost(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct piece piece = piece_on(d, stream);
  struct piece never = {.device = d};
  struct tagc_side_times t;
  void *side = d->side_stream_make(d);
  EXPECT(d->side_stream_after(d, side, stream));
  const uint64_t event = d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &piece);
  EXPECT(event && d->side_stream_wait(d, side, event, stream));
  MUST(cuCtxSynchronize());
  MUST(cuDevicePrimaryCtxReset_v2(0));
  device_open(0);
  EXPECT(d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &never) == 0 && !never.stream &&
         !d->side_stream_make(d));
  EXPECT(!d->side_stream_after(d, side, NULL) && !d->side_stream_wait(d, side, event, NULL) &&
         !d->side_stream_times(d, side, &t));
  d->side_stream_close(d, side);
  d->side_stream_free(d, side);
}

/* Without all its streams and events there is no side stream; the next attempt has one. */
static void without_stream(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  EXPECT(!d->side_stream_make(d));
  void *side = d->side_stream_make(d);
  EXPECT(side);
  d->side_stream_free(d, side);
}

static void without_event(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct piece piece = piece_on(d, stream);
  void *side;
  int tries = 0;
  MUST(cuCtxSynchronize());
  while (!(side = d->side_stream_make(d)))
    EXPECT(++tries < 2);
  const uint64_t event = d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &piece),
                 second = d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, copy, &piece);
  const bool waited = event && d->side_stream_wait(d, side, event, stream);
  EXPECT(event || second); /* there is one fault */
  EXPECT(tries || waited || d->side_stream_wait(d, side, second, stream));
  d->side_stream_free(d, side);
}

/* The scenario succeeds, and the log has these words. */
static void says(const char *environment, void (*scenario)(void), const char *words, const char *what) {
  const int status = child_run(environment, scenario);
  if (!ok(status == 0 && strstr(child_said, words), "%s", what))
    child_show(status);
}

static void check_faults(void) {
  char fault[64];
  says("", lost, "its context is gone", "a side whose context is gone");
  says("CUDA_STANDIN_FAULT=stream:2", without_stream, "cuStreamCreateWithPriority: CUDA_ERROR_OUT_OF_MEMORY",
       "no stream: no side");
  for (int nth = 1; nth <= 582; nth += nth < 574 ? 57 : 1) { /* 577 are made; then those of the work */
    snprintf(fault, sizeof fault, "CUDA_STANDIN_FAULT=event:%d", nth);
    says(fault, without_event, "cuEvent", fault);
  }
}

/* -- a codec on a side stream -------------------------------------------------------------------------------------- */

struct encoding {
  const struct tagc_device *device;
  const struct tagc_codec *codec;
  struct tagc_job *job;
  bool good;
};

static void encode(void *argument, void *stream) {
  struct encoding *e = argument;
  e->good =
    e->device->prepare(e->device, e->codec, e->job, stream) && e->device->encode(e->device, e->codec, e->job, stream);
}

/* Runs a codec beside the program: with the host's bytes. */
static void beside(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct sim sim = life_sim("q4", TAGC_STORAGE_FP32);
  struct life life;
  void *side = d->side_stream_make(d);
  EXPECT(side && life_begin(&life, d, &sim, stream));
  struct tagc_job *job = &life.rank[0].job, *host = &sim.job[0];
  const size_t bytes = LIFE_RANKS * sim.layout.message_bytes;
  char *got = malloc(bytes);
  job->beside = true;
  job->residual_empty = host->residual_empty = true;
  job->seed = host->seed = 5;
  job->cycle = 1;
  host->stats = &sim.stats;
  sim.codec->encode(host);
  EXPECT(d->put(d, (void *)(uintptr_t)job->send, host->send, life_all_bytes(&sim.shape), stream));
  EXPECT(d->side_stream_after(d, side, stream));
  struct encoding e = {d, sim.codec, job, false};
  const uint64_t event = d->side_stream_submit(d, side, TAGC_SIDE_ENCODE, encode, &e);
  EXPECT(event && e.good && d->side_stream_wait(d, side, event, stream));
  EXPECT(d->get(d, got, job->message_out, bytes, stream));
  EXPECT(memcmp(got + bytes / LIFE_RANKS, host->message_out + bytes / LIFE_RANKS, bytes / LIFE_RANKS) == 0);
  free(got);
  d->side_stream_free(d, side);
  life_end(&life, LIFE_RANKS);
  sim_free(&sim);
}

int main(void) {
  lives("CUDA_STANDIN_LAZY=1", in_order, "a side and a stream take turns");
  lives("CUDA_STANDIN_DELAY=200", in_order, "the same, sometimes late");
  lives("CUDA_STANDIN_LAZY=1", ahead, "several pieces of work at once");
  ok(child_run("CUDA_STANDIN_DELAY=2000", without_after) == 128 + SIGABRT,
     "who does not say what a side comes after is found out");
  ok(child_run("CUDA_STANDIN_DELAY=2000", without_wait) == 128 + SIGABRT, "and who does not wait for it");
  lives("", times, "how long it worked for a call, and was waited for");
  lives("", too_many, "calls that there is no room for are not timed, and nobody waits");
  lives("CUDA_STANDIN_DELAY=200", given_back, "a side leaves tallies alone that are others' by then");
  lives("", closed, "a side that is closed calls nothing any more");
  lives("", beside, "a codec beside the program leaves the host's bytes");
  check_faults();
  return tap_done();
}
