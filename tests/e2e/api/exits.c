/* SPDX-License-Identifier: BSD-3-Clause
 * Ends a process with communicators in the way that the argument names, or lets its children end. Every way prints its
 * one test point before the end.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/api/inprocess.h"

/* Forks a child that never calls NCCL, like a data loader's worker. Returns its exit status. */
static int child(void (*end)(void)) {
  int status = -1;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    alarm(120);
    void *memory = malloc(1 << 20);
    memset(memory, 1, 1 << 20);
    free(memory);
    end();
  }
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void end_by_exit(void) { exit(3); }
static void end_at_once(void) { _exit(3); }

static void end_by_exec(void) {
  execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
  _exit(127);
}

static void children(void) {
  bool good = start(0) && run_groups(0, STEPS);
  good &= child(end_by_exit) == 3 && child(end_at_once) == 3 && child(end_by_exec) == 3;
  good &= run_groups(STEPS, 2 * STEPS);
  ok(good, "children exit and exec, and the steps of their parent go on");
  finish();
}

/* One rank's call waits for the other rank while the process has children. A child that hangs ends some time later. */
static void *call_alone(void *argument) {
  struct rank *r = argument;
  fill(r, STEPS);
  r->last = reduce_scatter(r);
  return NULL;
}

static void children_meanwhile(void) {
  pthread_t thread;
  bool good = start(0) && run_groups(0, STEPS);
  pthread_create(&thread, NULL, call_alone, &ranks[0]);
  nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
  good &= child(end_by_exit) == 3 && child(end_at_once) == 3 && child(end_by_exec) == 3;
  call_alone(&ranks[1]);
  pthread_join(thread, NULL);
  for (int i = 0; i < RANKS; i++)
    good &= ranks[i].last == ncclSuccess && is_sum(&ranks[i], STEPS);
  good &= run_groups(STEPS + 1, 2 * STEPS);
  ok(good, "children exit and exec in the middle of a call, which ends well, and so do later ones");
  finish();
}

/* Ends without destroying the communicators. */
static void leave(void) {
  ok(start(0) && run_groups(0, STEPS), "steps");
  exit(done());
}

static void leave_at_once(void) {
  ok(start(0) && run_groups(0, STEPS), "steps");
  _exit(done());
}

/* Ends the process while another thread's call waits for a rank that does not come. */
static void *exit_soon(void *unused) {
  (void)unused;
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  exit(tap_done());
}

static void leave_from_a_thread(void) {
  pthread_t thread;
  bool good = start(0) && run_groups(0, STEPS);
  ok(good, "steps");
  fill(&ranks[0], STEPS);
  pthread_create(&thread, NULL, exit_soon, NULL);
  reduce_scatter(&ranks[0]);
  pause();
}

/* Ends while such a call is in progress in the background. */
static void leave_in_progress(void) {
  ncclComm_t comms[RANKS];
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id;
  config.blocking = 0;
  bool good = ncclGetUniqueId(&id) == ncclSuccess && ncclGroupStart() == ncclSuccess;
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommInitRankConfig(&comms[i], RANKS, id, i, &config) == ncclSuccess;
  ncclResult_t status = ncclGroupEnd();
  adopt(comms, 0);
  for (int i = 0; i < RANKS; i++)
    good &= settled(&ranks[i], status) == ncclSuccess;
  good &= run_groups(0, STEPS);
  fill(&ranks[0], STEPS);
  ok(good && reduce_scatter(&ranks[0]) == ncclInProgress, "steps");
  exit(tap_done());
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } ways[] = {{"children", children},   {"meanwhile", children_meanwhile}, {"exit", leave},
              {"_exit", leave_at_once}, {"thread", leave_from_a_thread},   {"progress", leave_in_progress}};
  for (size_t i = 0; argc == 2 && i < sizeof ways / sizeof *ways; i++)
    if (strcmp(argv[1], ways[i].name) == 0) {
      ways[i].run();
      return done();
    }
  fprintf(stderr, "usage: exits children|meanwhile|exit|_exit|thread|progress\n");
  return 2;
}
