/* SPDX-License-Identifier: BSD-3-Clause
 * Sub-communicators from their creation to their end: four ranks of two hosts in this process, a thread each. They are
 * aborted at every call that the library makes, their splits fail in every way, and their communicators end in every
 * way.
 *
 *   levels_life moments [STRIDE]|failures|ends|groups|rounds [COUNT]|exit|_exit      test points; with a stride two
 *                           sweeps over the same calls take turns at them
 *   levels_life memory      under failing_malloc.so: prints "went on" or "gave up", and "wrong" with status 1 after a
 *                           fault
 */
#define INPROCESS_RANKS 4
#define INPROCESS_N 10000
#include "tests/e2e/api/inprocess.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "interpose/nccl/nccl_newer.h"
#include "tests/e2e/hierarchy/moments.h"
#include "tests/unit/self.h"

enum { HOSTS = 2, LEVELS = 2 };

/* Makes new communicators. The library reads a rank's host when its init begins. */
static bool start_comms(ncclComm_t comms[RANKS]) {
  ncclUniqueId id;
  bool good = true;
  if (ncclGetUniqueId(&id) != ncclSuccess || ncclGroupStart() != ncclSuccess)
    return false;
  for (int i = 0; i < RANKS; i++) {
    setenv("NCCL_HOSTID", i < RANKS / HOSTS ? "a" : "b", 1);
    good &= ncclCommInitRank(&comms[i], RANKS, id, i) == ncclSuccess;
  }
  return ncclGroupEnd() == ncclSuccess && good;
}

static bool start_on_hosts(int steps) {
  ncclComm_t comms[RANKS] = {NULL};
  bool good = start_comms(comms);
  adopt(comms, steps);
  return good;
}

/* True if all communicators from splits are gone, were ended once, and not used after that. */
static bool account_is(int made, int aborted, int destroyed) {
  struct moments_account a = moments_take_account();
  bool good = a.made == made && a.aborted == aborted && a.destroyed == destroyed && !a.left && !a.wrong;
  if (!good)
    printf("# made %d, aborted %d, destroyed %d, left %d, wrong %d\n", a.made, a.aborted, a.destroyed, a.left, a.wrong);
  return good;
}

static bool all_have_ended(void) {
  struct moments_account a = moments_take_account();
  if (a.left || a.wrong || a.made != a.aborted + a.destroyed)
    printf("# made %d, aborted %d, destroyed %d, left %d, wrong %d\n", a.made, a.aborted, a.destroyed, a.left, a.wrong);
  return !a.left && !a.wrong && a.made == a.aborted + a.destroyed;
}

/* ---- aborts ------------------------------------------------------------------------------------------------------ */

/* The fault: in a step of a rank, before one of its calls. -1: none. */
static int happens_in = -1, happens_at, happens_to;
static int moments_of[RANKS][STEPS]; /* calls of each step */
static void (*happening)(const char *function);
static const char *happened_in;
static pthread_t watchdog;
static bool watched, aborts; /* rank 0 is aborted, but not by itself */

static void *abort_rank_0(void *unused) {
  ncclCommAbort(ranks[0].comm);
  return unused;
}

/* If the library is adding calls to a group, the abort waits; during a group's end it meets NCCL's work. After that
 * work, before the library knows of it, the abort waits for nothing. */
static void abort_now(const char *function) {
  happened_in = function;
  watched = pthread_create(&watchdog, NULL, abort_rank_0, NULL) == 0;
  if (strcmp(function, "ncclGroupEnd, done") == 0) {
    pthread_join(watchdog, NULL);
    watched = false;
  } else {
    nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
  }
}

/* Holds a rank until rank 0 has been aborted. The abort must not wait for any rank. */
static void *abort_later(void *unused) {
  nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
  return abort_rank_0(unused);
}

static void wait_for_abort(const char *function) {
  happened_in = function;
  pthread_create(&watchdog, NULL, abort_later, NULL);
  pthread_join(watchdog, NULL);
}

/* The thread of a rank. As in programs, the first error ends it with an abort. */
static void *run_until_error(void *argument) {
  struct rank *r = argument;
  r->good = true;
  r->last = ncclSuccess;
  moments_rank(r->rank);
  for (int step = 0; step < r->steps && r->last == ncclSuccess; step++) {
    fill(r, step);
    r->begun++;
    moments_at(happens_in == step && happens_to == r->rank ? happens_at : 0, happening);
    r->last = reduce_scatter(r);
    if (!aborts)
      moments_of[r->rank][step] = moments_seen();
    /* A failed call has written nothing, or the whole result. In pieces it may have written some of them; an all-reduce
     * may have written a shard. */
    const bool in_parts = getenv("TAGC_DEPTH") || all_reduces();
    r->good &= is_sum(r, step) || (r->last != ncclSuccess && (in_parts || untouched(r)));
  }
  if (r->last != ncclSuccess && (r->rank || !aborts))
    r->good &= ncclCommAbort(r->comm) == ncclSuccess;
  return NULL;
}

/* True if all ranks make all of their steps. */
static bool run_well(void) {
  bool good = run_all(run_until_error);
  for (int i = 0; i < RANKS; i++)
    good &= ranks[i].last == ncclSuccess;
  return good;
}

/* Ends the ranks after an abort of rank 0. The others have an error, too, or have made all of their steps. */
static bool give_up(void) {
  bool good = true;
  if (watched)
    pthread_join(watchdog, NULL);
  watched = false;
  for (int i = 1; i < RANKS; i++)
    if (ranks[i].last == ncclSuccess)
      good &= ncclCommAbort(ranks[i].comm) == ncclSuccess;
  return good && all_have_ended();
}

/* Runs once for each call of a step, or each stride-th from `first` on, with the fault at that call. */
static void sweep(int rank, int step, int first, int stride, void (*what)(const char *function),
                  const char *description) {
  int wrong = 0, errors = 0, tried = 0;
  happens_in = step;
  happens_to = rank;
  happening = what;
  aborts = true;
  for (happens_at = first; happens_at <= moments_of[rank][step]; happens_at += stride) {
    tried++;
    bool good = start_on_hosts(step + 1) && run_all(run_until_error);
    errors += ranks[0].last != ncclSuccess; /* else it had finished before the abort */
    if (!give_up() || !good) {
      printf("# before call %d, %s: rank 0 gets %d\n", happens_at, happened_in, ranks[0].last);
      wrong++;
    }
  }
  ok(wrong == 0 && errors > 0 && moments_of[rank][step] >= 8, "%s: at %d of %d moments of the %s", description, tried,
     moments_of[rank][step], step == UNCOMPRESSED ? "vote and the call behind it" : "compressed call");
  printf("# %d of them in time\n", errors);
  happens_in = -1;
  aborts = false;
}

static void *abort_soon(void *argument) {
  const long ns = *(long *)argument;
  while (ranks[0].begun <= UNCOMPRESSED)
    pause_briefly();
  nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
  ncclCommAbort(ranks[0].comm);
  return NULL;
}

static void moments(int stride) {
  const int aborts_at_random = 60 / stride;
  bool good = start_on_hosts(STEPS) && run_well();
  finish();
  ok(good && account_is(LEVELS * RANKS, 0, LEVELS * RANKS),
     "two levels: %d steps are exact, and sub-communicators destroyed once", STEPS);
  for (int step = UNCOMPRESSED; step <= UNCOMPRESSED + 1; step++) {
    sweep(0, step, 1, stride, abort_now, "an abort");
    sweep(RANKS - 1, step, stride, stride, wait_for_abort, "an abort while another rank does not come");
  }
  int wrong = 0, early = 0;
  for (int i = 0; i < aborts_at_random; i++) {
    long ns = 20000L * (i % 30) + 7000L * i;
    aborts = true;
    good = start_on_hosts(4 * STEPS);
    pthread_create(&watchdog, NULL, abort_soon, &ns);
    good &= run_all(run_until_error);
    watched = true;
    early += ranks[0].begun <= UNCOMPRESSED + 1;
    wrong += !give_up() || !good;
  }
  aborts = false;
  ok(wrong == 0, "%d aborts at some time, %d of them in the vote", aborts_at_random, early);
}

/* ---- splits that fail -------------------------------------------------------------------------------------------- */

/* A program that ignores errors: the next calls fail, too, and no rank waits for another. */
static void *run_regardless(void *argument) {
  struct rank *r = argument;
  r->good = true;
  moments_rank(r->rank);
  for (int step = 0; step < UNCOMPRESSED + 3; step++) {
    fill(r, step);
    r->last = reduce_scatter(r);
    ncclResult_t wanted = step < UNCOMPRESSED    ? ncclSuccess
                          : step == UNCOMPRESSED ? ncclSystemError
                                                 : ncclInternalError;
    r->good &= r->last == wanted && (step < UNCOMPRESSED ? is_sum(r, step) : untouched(r));
  }
  return NULL;
}

static void failures(void) {
  static const struct {
    int which, rank;
    enum moments_failure how;
    const char *what;
  } table[] = {
    {1, -1, MOMENTS_FAILED, "the first one on all ranks"},  {2, -1, MOMENTS_FAILED, "the second one on all ranks"},
    {1, 0, MOMENTS_FAILED, "the first one on one rank"},    {2, 0, MOMENTS_FAILED, "the second one on one rank"},
    {1, 3, MOMENTS_HALF_MADE, "the first one late on one"}, {2, 3, MOMENTS_HALF_MADE, "the second one late on one"},
  };
  for (int which = 1; which <= LEVELS; which++) {
    moments_fail_split(which, MOMENTS_REFUSED, -1, ncclInvalidUsage);
    bool good = start_on_hosts(STEPS) && run_well();
    finish();
    ok(good && account_is((which - 1) * RANKS, 0, (which - 1) * RANKS),
       "split %d is refused on all ranks: %d steps are exact", which, STEPS);
  }
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    moments_fail_split(table[i].which, table[i].how, table[i].rank, ncclSystemError);
    bool good = start_on_hosts(UNCOMPRESSED + 1) && run_all(run_until_error);
    for (int r = 0; r < RANKS; r++)
      good &= table[i].rank < 0 || table[i].rank == r ? ranks[r].last == ncclSystemError : ranks[r].last != ncclSuccess;
    ok(good && all_have_ended(), "a split fails, %s: so does the call, and on the others when the rank has left",
       table[i].what);
  }
  moments_fail_split(2, MOMENTS_FAILED, -1, ncclSystemError);
  bool good = start_on_hosts(0) && run_all(run_regardless);
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommAbort(ranks[i].comm) == ncclSuccess;
  moments_fail_split(0, MOMENTS_WELL, -1, ncclSuccess);
  ok(good && account_is(RANKS, RANKS, 0), "who goes on all the same gets an error from every call");

  good = start_on_hosts(STEPS) && run_well();
  ncclResult_t state = ncclInProgress;
  good &= ncclCommGetAsyncError(ranks[0].comm, &state) == ncclSuccess && state == ncclSuccess;
  moments_say_of_children(ncclRemoteError);
  good &= ncclCommGetAsyncError(ranks[0].comm, &state) == ncclSuccess && state == ncclRemoteError;
  moments_say_of_children(ncclSuccess);
  good &= ncclCommGetAsyncError(ranks[0].comm, &state) == ncclSuccess && state == ncclSuccess;
  finish();
  ok(good && all_have_ended(), "what fails in a sub-communicator is what a program hears of its own one");
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static bool trained(void) {
  bool good = start_on_hosts(STEPS) && run_well();
  struct moments_account a = moments_take_account();
  return good && a.made == LEVELS * RANKS && a.left == a.made;
}

/* Runs the survivors of a shrink, one per host. */
static bool run_survivors(ncclComm_t comms[RANKS]) {
  bool good = true;
  for (int step = 0; step < STEPS; step++) {
    good &= ncclGroupStart() == ncclSuccess;
    for (int i = 0; i < RANKS; i += 2) {
      fill(&ranks[i], step);
      good &= ncclReduceScatter(ranks[i].send, ranks[i].out, N, ncclFloat, ncclSum, comms[i], NULL) == ncclSuccess;
    }
    good &= ncclGroupEnd() == ncclSuccess;
    for (int i = 0; i < RANKS; i += 2)
      for (size_t k = 0; k < N; k++)
        good &= ranks[i].out[k] == value(0, step, (size_t)i / 2 * N + k) + value(2, step, (size_t)i / 2 * N + k);
  }
  for (int i = 0; i < RANKS; i += 2)
    good &= ncclCommDestroy(comms[i]) == ncclSuccess;
  return good;
}

static void shrinks(bool revoke) {
  ncclComm_t rest[RANKS];
  int lost[] = {1, 3};
  bool good = trained();
  for (int i = 0; i < RANKS && revoke; i++)
    good &= ncclCommRevoke(ranks[i].comm, 0) == ncclSuccess;
  good &= ncclGroupStart() == ncclSuccess;
  for (int i = 0; i < RANKS; i += 2)
    good &= ncclCommShrink(ranks[i].comm, lost, 2, &rest[i], NULL, revoke ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT) ==
            ncclSuccess;
  good &= ncclGroupEnd() == ncclSuccess;
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommDestroy(ranks[i].comm) == ncclSuccess;
  int aborted = LEVELS * (revoke ? RANKS : RANKS / 2);
  ok(good && account_is(0, aborted, LEVELS * RANKS - aborted) && run_survivors(rest) && account_is(0, 0, 0),
     "%s and shrunk: sub-communicators are aborted, and those who are left go on, flat",
     revoke ? "revoked" : "aborted");
}

static void ends(void) {
  bool good = trained();
  for (int i = 0; i < RANKS; i++) {
    moments_refuse_destroy(ncclInvalidArgument);
    good &= ncclCommDestroy(ranks[i].comm) == ncclInvalidArgument;
  }
  good &= run_groups(0, STEPS) && moments_take_account().left == LEVELS * RANKS;
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommDestroy(ranks[i].comm) == ncclSuccess;
  ok(good && account_is(0, 0, LEVELS * RANKS), "a refused destroy: steps go on in two levels");

  /* NCCL destroys no communicator that has failed. It wants an abort. */
  good = trained();
  for (int i = 0; i < RANKS; i++) {
    moments_refuse_destroy(ncclRemoteError);
    good &= ncclCommDestroy(ranks[i].comm) == ncclRemoteError;
  }
  good &= moments_take_account().left == LEVELS * RANKS;
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommAbort(ranks[i].comm) == ncclSuccess;
  ok(good && account_is(0, LEVELS * RANKS, 0), "failed, and not destroyed: the abort ends sub-communicators");

  good = trained();
  moments_say_of_children(ncclRemoteError);
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommDestroy(ranks[i].comm) == ncclSuccess;
  moments_say_of_children(ncclSuccess);
  ok(good && account_is(0, LEVELS * RANKS, 0), "destroyed: sub-communicators that have failed are aborted");

  good = trained();
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommFinalize(ranks[i].comm) == ncclSuccess;
  good &= account_is(0, 0, LEVELS * RANKS);
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommDestroy(ranks[i].comm) == ncclSuccess;
  ok(good && account_is(0, 0, 0), "finalized: sub-communicators end then");

  good = trained();
  finish();
  ok(good && account_is(0, 0, LEVELS * RANKS), "destroyed in a group");

  good = trained() && ncclGroupStart() == ncclSuccess;
  for (int i = 0; i < RANKS; i++)
    good &= ncclCommAbort(ranks[i].comm) == ncclSuccess;
  good &= ncclGroupEnd() == ncclSuccess;
  ok(good && account_is(0, LEVELS * RANKS, 0), "aborted in a group");
  shrinks(true);
  shrinks(false);
}

/* ---- groups ------------------------------------------------------------------------------------------------------ */

/* Two communicators. Rank 0 calls both in a group; the others call each from its own thread. */
static struct rank pairs[2][RANKS];

static void *run_alone(void *argument) {
  struct rank *r = argument;
  moments_rank(r->rank);
  return run_rank(r);
}

static void *run_pairs(void *unused) {
  bool good = true;
  moments_rank(0);
  for (int step = 0; step < STEPS; step++) {
    good &= ncclGroupStart() == ncclSuccess;
    for (int c = 0; c < 2; c++) {
      fill(&pairs[c][0], step);
      good &= reduce_scatter(&pairs[c][0]) == ncclSuccess;
    }
    good &= ncclGroupEnd() == ncclSuccess;
    for (int c = 0; c < 2; c++)
      good &= is_sum(&pairs[c][0], step);
  }
  pairs[0][0].good = good;
  return unused;
}

static void groups(void) {
  pthread_t first, others[2][RANKS];
  bool good = start_on_hosts(0) && run_groups(0, STEPS);
  finish();
  ok(good && account_is(LEVELS * RANKS, 0, LEVELS * RANKS), "a group over all ranks: splits of four parents at once");

  good = true;
  for (int c = 0; c < 2; c++) {
    good &= start_on_hosts(STEPS);
    memcpy(pairs[c], ranks, sizeof ranks);
    for (int i = 0; i < RANKS; i++)
      ranks[i].send = ranks[i].out = NULL;
  }
  pthread_create(&first, NULL, run_pairs, NULL);
  for (int c = 0; c < 2; c++)
    for (int i = 1; i < RANKS; i++)
      pthread_create(&others[c][i], NULL, run_alone, &pairs[c][i]);
  pthread_join(first, NULL);
  good &= pairs[0][0].good;
  for (int c = 0; c < 2; c++)
    for (int i = 0; i < RANKS; i++) {
      if (i > 0)
        pthread_join(others[c][i], NULL);
      good &= i == 0 || pairs[c][i].good;
    }
  for (int c = 0; c < 2; c++)
    for (int i = 0; i < RANKS; i++) {
      good &= ncclCommDestroy(pairs[c][i].comm) == ncclSuccess;
      free(pairs[c][i].send);
      free(pairs[c][i].out);
    }
  ok(good && account_is(2 * LEVELS * RANKS, 0, 2 * LEVELS * RANKS),
     "a group of two communicators on one rank alone: %d steps are exact", STEPS);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* Makes and ends communicators again and again. Only their parts of the report stay in memory: some 4 KiB each. A
 * workspace has more than ten times that. */
static void rounds(int count) {
  int files = 0;
  size_t memory = 0;
  bool good = true;
  for (int i = 0; i < count + 5 && good; i++) {
    if (i == 5) {
      files = count_of_self("fd");
      memory = mallinfo2().uordblks;
    }
    good &= start_on_hosts(0) && run_groups(0, UNCOMPRESSED + 2);
    finish();
    good &= account_is(LEVELS * RANKS, 0, LEVELS * RANKS);
  }
  const long grown = ((long)mallinfo2().uordblks - (long)memory) / (count * RANKS);
  ok(good && count_of_self("fd") == files, "%d rounds of new communicators: no descriptor is left", count);
  ok(grown < 6144, "nor memory of the size of a workspace: %ld bytes a communicator", grown);
}

/* ---- no memory --------------------------------------------------------------------------------------------------- */

/* One of the library's allocations fails, in any rank. */
static int memory(void) {
  bool good = true, started = start_on_hosts(UNCOMPRESSED + 2), all = started, no_memory = false;
  if (started)
    good &= run_all(run_until_error);
  for (int i = 0; i < RANKS; i++) {
    all &= ranks[i].last == ncclSuccess;
    no_memory |= ranks[i].last == ncclSystemError;
    if (ranks[i].comm && (!started || ranks[i].last == ncclSuccess))
      good &= ncclCommDestroy(ranks[i].comm) == ncclSuccess;
  }
  good &= all_have_ended() && (all || !started || no_memory);
  printf("%s%s\n", all ? "went on" : "gave up", good ? "" : ", wrong");
  return !good;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "moments") == 0)
    moments(argc > 2 ? atoi(argv[2]) : 1);
  else if (strcmp(what, "failures") == 0)
    failures();
  else if (strcmp(what, "ends") == 0)
    ends();
  else if (strcmp(what, "groups") == 0)
    groups();
  else if (strcmp(what, "rounds") == 0)
    rounds(argc > 2 ? atoi(argv[2]) : 20);
  else if (strcmp(what, "memory") == 0)
    return memory();
  else if (strstr(what, "exit")) {
    ok(trained(), "steps in two levels");
    int status = tap_done();
    fflush(stdout);
    if (*what == '_')
      _exit(status);
    exit(status);
  } else {
    fprintf(stderr, "usage: levels_life moments [STRIDE]|failures|ends|groups|rounds [COUNT]|memory|exit|_exit\n");
    return 2;
  }
  return done();
}
