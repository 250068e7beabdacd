/* SPDX-License-Identifier: BSD-3-Clause
 * Side streams of the host device (device.h): order, waiting, closing, and the child of a fork.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/codec/device.h"
#include "tests/unit/self.h"
#include "tests/unit/tap.h"

enum { MANY = 1000, QUEUED = 5, LANES = 3 };

static const struct tagc_device *const host = &tagc_device_host;

struct row {
  int next, wrong; /* set by the side stream, until the caller has waited */
  pthread_t thread;
};

struct task {
  struct row *row;
  int number;
};

static void line_up(void *argument, void *stream) {
  struct task *task = argument;
  struct row *row = task->row;
  row->wrong += task->number != row->next++ || stream;
  row->thread = pthread_self();
}

static void check_order(void) {
  static struct task tasks[MANY];
  struct row row = {0};
  uint64_t event = 0;
  int wrong = 0;
  void *side = host->side_stream_make(host);
  for (int i = 0; i < MANY; i++) {
    tasks[i] = (struct task){&row, i};
    const uint64_t got = host->side_stream_submit(host, side, TAGC_SIDE_ENCODE, line_up, &tasks[i]);
    wrong += got != event + 1;
    event = got;
    if (i % 7 == 0) {
      wrong += !host->side_stream_after(host, side, NULL) || !host->side_stream_wait(host, side, event, NULL);
      wrong += row.next != i + 1;
    }
  }
  wrong += !host->side_stream_wait(host, side, event, NULL) || !host->side_stream_wait(host, side, 3, NULL);
  ok(!wrong && !row.wrong && row.next == MANY, "%d functions, one after the other in their order; events from 1 on",
     MANY);
  ok(!pthread_equal(row.thread, pthread_self()), "on another thread");
  host->side_stream_free(host, side);
  host->side_stream_free(host, NULL);
}

struct gate {
  atomic_int inside, open, called;
};

static void pass_gate(void *argument, void *stream) {
  struct gate *gate = argument;
  (void)stream;
  gate->called++;
  gate->inside = 1;
  while (!gate->open)
    sched_yield();
  gate->inside = 0;
}

static void *open_later(void *argument) {
  struct gate *gate = argument;
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  gate->open = 1;
  return NULL;
}

struct closing {
  void *side;
  struct gate *gate;
  bool was_inside;
};

static void *close_side_stream(void *argument) {
  struct closing *closing = argument;
  host->side_stream_close(host, closing->side);
  closing->was_inside = closing->gate->inside;
  return NULL;
}

/* Like an abort while the thread of the call waits. */
static void check_close(void) {
  struct gate gate = {0};
  pthread_t opener, closer;
  struct closing closing = {host->side_stream_make(host), &gate, true};
  uint64_t first = host->side_stream_submit(host, closing.side, TAGC_SIDE_ENCODE, pass_gate, &gate), last = first;
  for (int i = 0; i < QUEUED; i++)
    last = host->side_stream_submit(host, closing.side, TAGC_SIDE_ENCODE, pass_gate, &gate);
  while (!gate.inside)
    sched_yield();
  pthread_create(&closer, NULL, close_side_stream, &closing);
  for (uint64_t more; (more = host->side_stream_submit(host, closing.side, TAGC_SIDE_ENCODE, pass_gate, &gate)) != 0;)
    last = more; /* until it is closed, however long that takes: the gate opens only then */
  pthread_create(&opener, NULL, open_later, &gate);
  const bool waited = host->side_stream_wait(host, closing.side, last, NULL);
  const int called = gate.called;
  pthread_join(closer, NULL);
  pthread_join(opener, NULL);
  ok(!closing.was_inside, "close waits for what runs");
  ok(!waited && called == 1 && gate.called == 1, "what had not begun is dropped, and who waits for it hears of that");
  ok(host->side_stream_wait(host, closing.side, first, NULL), "what was done, was done");
  ok(!host->side_stream_submit(host, closing.side, TAGC_SIDE_ENCODE, pass_gate, &gate) && gate.called == 1,
     "nothing more is taken");
  host->side_stream_close(host, closing.side);
  host->side_stream_free(host, closing.side);
}

static void nap(void *argument, void *stream) {
  (void)argument, (void)stream;
  nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
}

/* Ends when its submitter waits for it, not before. */
static void until_waited_for(void *submitted, void *stream) {
  (void)stream;
  while (!atomic_load((atomic_bool *)submitted))
    sched_yield();
  wait_until_asleep(getpid());
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void check_times(void) {
  struct tagc_side_times times = {1, 1};
  atomic_bool submitted = false;
  void *side = host->side_stream_make(host);
  bool good = host->side_stream_times(host, side, &times) && !times.worked_ns && !times.waited_ns;
  (void)host->side_stream_submit(host, side, TAGC_SIDE_ENCODE, nap, NULL);
  uint64_t event = host->side_stream_submit(host, side, TAGC_SIDE_ENCODE, until_waited_for, &submitted);
  nap(NULL, NULL);
  const uint64_t began = now_ns();
  atomic_store(&submitted, true);
  good &= host->side_stream_wait(host, side, event, NULL) && host->side_stream_times(host, side, &times);
  ok(good && times.worked_ns >= 30000000 && times.waited_ns > 0 && times.waited_ns <= now_ns() - began,
     "how long it worked, and how long it was waited for: %.1f ms, %.1f ms", 1e-6 * (double)times.worked_ns,
     1e-6 * (double)times.waited_ns);
  const uint64_t waited = times.waited_ns;
  good = host->side_stream_wait(host, side, event, NULL) && host->side_stream_times(host, side, &times);
  ok(good && times.waited_ns == waited, "what is done is not waited for");
  host->side_stream_free(host, side);
}

static void look_at_signals(void *argument, void *stream) {
  sigset_t mask;
  (void)stream;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  *(bool *)argument = sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR1);
}

static void check_signals(void) {
  bool blocked = false;
  void *side = host->side_stream_make(host);
  const bool done = host->side_stream_wait(
    host, side, host->side_stream_submit(host, side, TAGC_SIDE_ENCODE, look_at_signals, &blocked), NULL);
  ok(done && blocked, "its thread takes no signals");
  host->side_stream_free(host, side);
}

/* Returns 0 if everything is correct. */
static int be_a_child(void *side, struct gate *gate) {
  struct tagc_side_times times;
  if (host->side_stream_submit(host, side, TAGC_SIDE_ENCODE, pass_gate, gate))
    return 1;
  if (host->side_stream_wait(host, side, 1, NULL) || host->side_stream_times(host, side, &times))
    return 2;
  host->side_stream_close(host, side);
  host->side_stream_free(host, side);
  return 0;
}

static void check_fork(void) {
  struct gate gate = {0};
  int status = -1;
  void *side = host->side_stream_make(host);
  const uint64_t event = host->side_stream_submit(host, side, TAGC_SIDE_ENCODE, pass_gate, &gate);
  while (!gate.inside)
    sched_yield();
  const pid_t child = fork();
  if (child == 0)
    _exit(be_a_child(side, &gate));
  waitpid(child, &status, 0);
  ok(child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0,
     "a child of a fork has none, and does not wait for one");
  gate.open = 1;
  ok(host->side_stream_wait(host, side, event, NULL), "the parent's goes on");
  host->side_stream_free(host, side);
}

static void *use_side_stream(void *argument) {
  int *wrong = argument;
  struct row row = {0};
  struct task tasks[MANY];
  void *side = host->side_stream_make(host);
  for (int i = 0; i < MANY; i++) {
    tasks[i] = (struct task){&row, i};
    const uint64_t event = host->side_stream_submit(host, side, TAGC_SIDE_ENCODE, line_up, &tasks[i]);
    *wrong += i % 3 == 0 && !host->side_stream_wait(host, side, event, NULL);
  }
  host->side_stream_free(host, side); /* also frees work that had not begun */
  *wrong += row.wrong;
  return NULL;
}

static void check_several(void) {
  pthread_t threads[LANES];
  int wrong[LANES] = {0}, all = 0;
  for (int i = 0; i < LANES; i++)
    pthread_create(&threads[i], NULL, use_side_stream, &wrong[i]);
  for (int i = 0; i < LANES; i++) {
    pthread_join(threads[i], NULL);
    all += wrong[i];
  }
  ok(all == 0, "several at once");
}

int main(void) {
  check_order();
  check_close();
  check_times();
  check_signals();
  check_fork();
  check_several();
  return tap_done();
}
