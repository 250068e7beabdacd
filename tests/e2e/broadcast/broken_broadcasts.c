/* SPDX-License-Identifier: BSD-3-Clause
 * Broadcasts that break off in the middle (TAGC_BROADCAST). The two ranks are threads of this process. At each call
 * that the library makes of NCCL, a communicator is aborted, or that call fails, on either rank; each allocation of the
 * library fails. No rank may ever have other values than the root.
 *
 *   broken_broadcasts aborts|errors|late|split|rounds|nonblocking|memory
 *
 * Run with the library preloaded and TAGC_BROADCAST=exact TAGC_MIN_BYTES=0; `memory` with failing_malloc.so after it,
 * `split` with TAGC_SCOPE=auto.
 */
#define INPROCESS_N 4000
#include "tests/e2e/api/inprocess.h"

enum call { BROADCAST, CALLS };

/* A step is one broadcast of one tensor, from rank 0 or in later steps from rank 1. */
enum { JUMP = 4, OTHER_ROOT = 6, LAST = 9, MOMENTS = 8, LATE = MOMENTS };

#include "tests/e2e/faults/broken.h"

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static int root_of(int step) { return step >= OTHER_ROOT; }

/* A hundredth of the elements changes from step to step, and in step JUMP all of them. */
static float element(int step, size_t i) {
  const unsigned h = (unsigned)(i * 2654435761u) ^ (step >= JUMP ? 0xabcdef : 0);
  const unsigned steps = (unsigned)step + (i % 100 == (size_t)step % 100);
  return (float)(h % 10007 + 1) / 10007 + (i % 7 ? 0 : (float)steps / 4096);
}

static bool make_step(struct rank *r, int step) {
  const bool root = r->rank == root_of(step);
  for (size_t i = 0; i < N; i++) {
    r->send[i] = root ? element(step, i) : -2;
    r->out[i] = -1;
  }
  begin_call(r, step, BROADCAST);
  r->last = settled(r, ncclBroadcast(r->send, r->out, N, ncclFloat, root_of(step), r->comm, r->stream));
  end_call(r, step, BROADCAST);
  for (size_t i = 0; i < N && r->last == ncclSuccess; i++)
    if (r->out[i] != element(step, i))
      return false;
  return true;
}

/* Calls after an error are right. */
static void *run_regardless(void *argument) {
  struct rank *r = argument;
  bool good = true;
  moments_rank(r->rank);
  for (int step = 0; step < r->steps; step++) {
    bool right = make_step(r, step);
    const bool fails = trouble.at && trouble.on[r->rank] && step == trouble.step;
    right &= r->last == (fails ? trouble.error : ncclSuccess);
    if (!right)
      printf("# rank %d, step %d: %d\n", r->rank, step, r->last);
    good &= right;
  }
  r->good = good;
  return NULL;
}

/* ---- at each moment ---------------------------------------------------------------------------------------------- */

static bool count_moments(void) {
  bool all = run_with_notes();
  for (int i = 0; i < RANKS; i++)
    for (int step = 0; step < LAST; step++)
      all &= moments_of[i][step][BROADCAST] == MOMENTS;
  ok(all, "%d steps are right, and each is two groups of one call", LAST);
  return all;
}

/* Tries the faults of each step at each moment from `first` on, on these ranks. */
static void each_moment(bool (*try)(void), int first, bool on_0, bool on_1, const char *what) {
  begin_sweep();
  trouble.on[0] = on_0;
  trouble.on[1] = on_1;
  for (int step = 0; step < LAST; step++)
    for (int at = first; at <= MOMENTS; at++)
      at_moment(try, what, step, BROADCAST, at);
  end_sweep(what);
}

static void sweep_aborts(void) {
  trouble.happens = abort_now;
  each_moment(try_abort, 1, true, false, "an abort of rank 0");
  aborted_rank = 1;
  each_moment(try_abort, 1, false, true, "an abort of rank 1");
}

static void sweep_errors(void) {
  trouble.error = ncclSystemError;
  each_moment(try_error, 1, true, false, "an error of NCCL on rank 0");
  each_moment(try_error, 1, false, true, "an error of NCCL on rank 1");
  each_moment(try_going_on, 1, true, true, "an error on all ranks, who go on");
}

/* The last group is done, and yet returns an error on one rank: it does not know what the others know. */
static void sweep_late_errors(void) {
  trouble.error = ncclSystemError;
  each_moment(try_going_on, LATE, true, false, "a late error on rank 0, which goes on");
  each_moment(try_going_on, LATE, false, true, "a late error on rank 1, which goes on");
}

/* ---- a part of one host ------------------------------------------------------------------------------------------ */

/* Splits the ranks of two hosts. Those of the first host have the calls. */
static bool start_split(void) {
  enum { ALL = 2 * RANKS };
  ncclComm_t whole[ALL], parts[ALL];
  ncclUniqueId own_id;
  bool good = ncclGetUniqueId(&own_id) == ncclSuccess && ncclGroupStart() == ncclSuccess;
  for (int i = 0; i < ALL; i++) {
    setenv("NCCL_HOSTID", i < RANKS ? "a" : "b", 1);
    good &= ncclCommInitRank(&whole[i], ALL, own_id, i) == ncclSuccess;
  }
  good &= ncclGroupEnd() == ncclSuccess && ncclGroupStart() == ncclSuccess;
  for (int i = 0; i < ALL; i++)
    good &= ncclCommSplit(whole[i], i / RANKS, i, &parts[i], NULL) == ncclSuccess;
  good &= ncclGroupEnd() == ncclSuccess;
  for (int i = 0; i < ALL; i++)
    good &= ncclCommDestroy(whole[i]) == ncclSuccess && (i < RANKS || ncclCommDestroy(parts[i]) == ncclSuccess);
  adopt(parts, 2);
  return good;
}

/* Rank 0 goes on after its error. It does not know whether rank 1 passes its next broadcast, and has it fail. */
static void *run_unsure(void *argument) {
  struct rank *r = argument;
  moments_rank(r->rank);
  r->good = make_step(r, 0);
  if (r->rank == 0) {
    r->good &= r->last == trouble.error;
    r->good &= make_step(r, 1) && r->last == ncclInternalError && moments_seen() == 0;
  }
  r->good &= ncclCommAbort(r->comm) == ncclSuccess;
  return NULL;
}

static bool try_unsure(void) { return start_split() && run_all(run_unsure); }

static void sweep_split(void) {
  notes = true;
  bool good = start_split() && run_all(run_until_error);
  notes = false;
  finish();
  ok(good && moments_of[0][0][BROADCAST] == MOMENTS && moments_of[0][1][BROADCAST] == 1,
     "a part of one host: the first broadcast tells that, and the second one passes");
  trouble.error = ncclSystemError;
  trouble.on[0] = true;
  begin_sweep();
  for (int at = 1; at <= MOMENTS / 2; at++)
    at_moment(try_unsure, "an error", 0, BROADCAST, at);
  end_sweep("an error before it is told: later broadcasts of that rank fail, too");
  unsetenv("NCCL_HOSTID");
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  begin_broken();
  if (strcmp(what, "memory") == 0) {
    memory(LAST);
  } else if (strcmp(what, "nonblocking") == 0) {
    nonblocking(0, LAST);
  } else if (strcmp(what, "split") == 0) {
    sweep_split();
  } else if (count_moments()) {
    if (strcmp(what, "aborts") == 0)
      sweep_aborts();
    else if (strcmp(what, "errors") == 0)
      sweep_errors();
    else if (strcmp(what, "late") == 0)
      sweep_late_errors();
    else if (strcmp(what, "rounds") == 0)
      rounds(0, BROADCAST, MOMENTS);
    else
      fprintf(stderr, "usage: broken_broadcasts aborts|errors|late|split|rounds|nonblocking|memory\n");
  }
  return done();
}
