/* SPDX-License-Identifier: BSD-3-Clause
 * Groups: nested, empty, across new communicators, with errors in them, ended too often, never ended. Held-back calls
 * run at the outermost end, and only there. A failed group leaves no trace in the next step.
 */
#include "tests/e2e/api/inprocess.h"

static bool begin_step(int step, int depth) {
  bool good = true;
  for (int i = 0; i < RANKS; i++)
    fill(&ranks[i], step);
  while (depth-- > 0)
    good &= ncclGroupStart() == ncclSuccess;
  return good;
}

static bool call_all(void) {
  bool good = true;
  for (int i = 0; i < RANKS; i++)
    good &= reduce_scatter(&ranks[i]) == ncclSuccess;
  return good;
}

static bool end_groups(int depth) {
  bool good = true;
  while (depth-- > 0)
    good &= ncclGroupEnd() == ncclSuccess;
  return good;
}

static bool are_sums(int step) { return is_sum(&ranks[0], step) && is_sum(&ranks[1], step); }

/* Three groups deep, with empty groups before, between and after the calls. */
static void nested(void) {
  bool good = start(0), early = false;
  for (int step = 0; step < STEPS; step++) {
    good &= begin_step(step, 2);
    for (int i = 0; i < RANKS; i++) {
      good &= ncclGroupStart() == ncclSuccess && ncclGroupStart() == ncclSuccess && ncclGroupEnd() == ncclSuccess;
      good &= reduce_scatter(&ranks[i]) == ncclSuccess;
      good &= ncclGroupEnd() == ncclSuccess;
    }
    good &= ncclGroupEnd() == ncclSuccess;
    early |= !all_untouched();
    good &= ncclGroupEnd() == ncclSuccess && are_sums(step);
    good &= ncclGroupStart() == ncclSuccess && ncclGroupEnd() == ncclSuccess;
  }
  finish();
  ok(good && !early, "groups in groups: all runs at the outermost end, and only there");
}

/* PyTorch ends its open groups to make a communicator, and opens as many again. */
static void made_between(void) {
  bool good = start(0);
  for (int step = 0; step < STEPS; step++) {
    ncclComm_t made[RANKS] = {NULL};
    float one = 1, sums[RANKS] = {0};
    good &= begin_step(step, 2) && call_all() && end_groups(2);
    good &= ncclCommInitAll(made, RANKS, NULL) == ncclSuccess;
    good &= ncclGroupStart() == ncclSuccess && ncclGroupStart() == ncclSuccess;
    for (int i = 0; i < RANKS; i++)
      good &= ncclAllReduce(&one, &sums[i], 1, ncclFloat, ncclSum, made[i], NULL) == ncclSuccess;
    good &= end_groups(2) && sums[0] == RANKS && sums[1] == RANKS && are_sums(step);
    for (int i = 0; i < RANKS; i++)
      good &= ncclCommDestroy(made[i]) == ncclSuccess;
  }
  finish();
  ok(good, "communicators made between groups: the steps are exact");
}

/* Makes a communicator inside a group that holds calls. NCCL makes it first, then the calls are compressed. */
static void made_inside(void) {
  bool good = start(0) && run_groups(0, STEPS);
  for (int step = STEPS; step < STEPS + 2; step++) {
    ncclComm_t made[RANKS] = {NULL};
    ncclUniqueId id;
    int count = 0;
    good &= ncclGetUniqueId(&id) == ncclSuccess && begin_step(step, 1);
    good &= reduce_scatter(&ranks[0]) == ncclSuccess;
    for (int i = 0; i < RANKS; i++)
      good &= ncclCommInitRank(&made[i], RANKS, id, i) == ncclSuccess;
    good &= reduce_scatter(&ranks[1]) == ncclSuccess;
    good &= end_groups(1) && are_sums(step);
    for (int i = 0; i < RANKS; i++)
      good &=
        ncclCommCount(made[i], &count) == ncclSuccess && count == RANKS && ncclCommDestroy(made[i]) == ncclSuccess;
  }
  good &= run_groups(STEPS + 2, STEPS + 4);
  finish();
  ok(good, "communicators made inside a group with calls: the steps are exact");
}

/* A refused call spoils its group: held-back calls do not run, and the next step is as usual. */
static void refused_call(int steps, const char *when) {
  bool good = start(0) && run_groups(0, steps) && begin_step(steps, 2) && call_all();
  good &= ncclReduceScatter(NULL, ranks[0].out, N, ncclFloat, ncclSum, ranks[0].comm, NULL) == ncclInvalidArgument;
  good &= ncclGroupEnd() == ncclSuccess && ncclGroupEnd() == ncclInvalidArgument && all_untouched();
  good &= run_groups(steps, steps + STEPS);
  finish();
  ok(good, "a refused call in a group, %s: its end says so, nothing has run, the next steps are exact", when);
}

static void ended_too_often(void) {
  bool good = start(0) && run_groups(0, STEPS / 2);
  good &= ncclGroupEnd() == ncclInvalidUsage && ncclGroupEnd() == ncclInvalidUsage;
  good &= run_groups(STEPS / 2, STEPS);
  finish();
  ok(good, "a group that was never begun cannot be ended, and that does no harm");
}

static void simulated(void) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  bool good = start(0) && begin_step(0, 1) && call_all();
  good &= ncclGroupSimulateEnd(&info) == ncclSuccess && all_untouched();
  good &= run_groups(0, STEPS);
  finish();
  ok(good, "a simulated group runs nothing; the next steps are exact");
}

/* Steps of three alike layers and a smaller one. */
enum { LAYERS = 3 };

/* All layers of a step have one gradient. */
static bool call_layers(float (*sums)[RANKS][N], int layers) {
  static float small[RANKS][N / 2];
  bool good = true;
  for (int i = 0; i < RANKS; i++) {
    for (int layer = 0; layer < layers; layer++)
      good &= reduce_into(&ranks[i], sums[layer][i], ncclSum) == ncclSuccess;
    good &= ncclReduceScatter(ranks[i].send, small[i], N / 2, ncclFloat, ncclSum, ranks[i].comm, NULL) == ncclSuccess;
  }
  return end_groups(1) && good;
}

static bool run_layers(int from, int to) {
  static float sums[LAYERS][RANKS][N];
  bool good = true;
  for (int step = from; step < to; step++) {
    good &= begin_step(step, 1) && call_layers(sums, LAYERS);
    for (int layer = 0; layer < LAYERS; layer++)
      for (int i = 0; i < RANKS; i++) {
        memcpy(ranks[i].out, sums[layer][i], sizeof sums[layer][i]);
        good &= is_sum(&ranks[i], step);
      }
  }
  return good;
}

/* An estimate is one rank's own affair: the others know nothing of it. */
static void simulated_by_one(void) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  bool good = start(0) && run_layers(0, STEPS) && begin_step(STEPS, 1) && reduce_scatter(&ranks[0]) == ncclSuccess;
  good &= ncclGroupSimulateEnd(&info) == ncclSuccess && run_layers(STEPS, 2 * STEPS);
  finish();
  ok(good, "a rank alone simulates a group: the next steps are exact");
}

/* The calls of a step that lacks a layer may be those of other layers: none of what they leave goes on. */
static void lacks_a_layer(void) {
  static float sums[LAYERS][RANKS][N];
  bool good = start(0) && run_layers(0, 2 * STEPS) && begin_step(0, 1);
  for (int i = 0; i < RANKS; i++)
    for (size_t k = 0; k < (size_t)N * RANKS; k++)
      ranks[i].send[k] = 1 + (float)(k % 7);
  good &= call_layers(sums, LAYERS - 1) && begin_step(0, 1);
  for (int i = 0; i < RANKS; i++)
    memset(ranks[i].send, 0, sizeof(float) * N * RANKS);
  good &= call_layers(sums, LAYERS);
  for (size_t k = 0; k < sizeof sums / sizeof(float); k++)
    good &= (&sums[0][0][0])[k] == 0;
  finish();
  ok(good, "a step in a group lacks one of several alike layers: nothing of it comes out in the next step");
}

static void *send_beside(void *argument) {
  static float sent[100], got[100];
  struct rank *r = argument;
  r->good = true;
  for (int step = 0; step < 2 * STEPS; step++) {
    fill(r, step);
    for (int i = 0; i < 100 && r->rank == 0; i++)
      sent[i] = (float)(step + i);
    if (r->rank == 0) {
      r->good &= ncclGroupStart() == ncclSuccess && reduce_scatter(r) == ncclSuccess;
      r->good &= ncclSend(sent, 100, ncclFloat, 1, r->comm, r->stream) == ncclSuccess;
      r->good &= ncclGroupEnd() == ncclSuccess;
    } else {
      r->good &= reduce_scatter(r) == ncclSuccess;
      r->good &= ncclRecv(got, 100, ncclFloat, 0, r->comm, r->stream) == ncclSuccess && got[99] == (float)(step + 99);
    }
    r->good &= is_sum(r, step);
  }
  return NULL;
}

/* NCCL runs the messages of a group after its collectives, so this rank's partner may use no group. */
static void messages_beside(void) {
  bool good = start(0) && run_all(send_beside);
  finish();
  ok(good, "a message in a group with a reduce-scatter, received after it: %d steps are exact", 2 * STEPS);
}

static void *leave_open(void *argument) {
  bool *good = argument;
  float two = 2;
  ncclRedOp_t op;
  *good &= begin_step(0, 2) && call_all();
  *good &= ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, ncclScalarHostImmediate, ranks[0].comm) == ncclSuccess;
  *good &= ncclReduceScatter(ranks[0].send, ranks[0].out, N, ncclFloat, op, ranks[0].comm, NULL) == ncclSuccess;
  *good &= ncclRedOpDestroy(op, ranks[0].comm) == ncclSuccess;
  return NULL;
}

static void never_ended(void) {
  pthread_t thread;
  bool good = start(0);
  pthread_create(&thread, NULL, leave_open, &good);
  pthread_join(thread, NULL);
  good &= all_untouched();
  finish();
  good &= start(0) && run_groups(0, STEPS);
  finish();
  ok(good, "a thread ends with a group open: nothing has run, and other threads do not notice");
}

/* The other rank has left: the end of the group fails, and nothing is decoded. */
static void failed_end(int steps, const char *what) {
  bool good = start(0) && run_groups(0, steps);
  good &= ncclCommAbort(ranks[1].comm) == ncclSuccess;
  for (int again = 0; again < 2; again++) {
    good &= begin_step(steps, 1);
    reduce_scatter(&ranks[0]); /* the library holds it back, so it cannot fail yet; NCCL may report the error here */
    good &= ncclGroupEnd() == ncclRemoteError;
  }
  bool decoded = steps == STEPS && !all_untouched();
  good &= ncclCommDestroy(ranks[0].comm) == ncclRemoteError; /* NCCL does not destroy what has failed */
  good &= ncclCommAbort(ranks[0].comm) == ncclSuccess;
  ok(good && !decoded, "the end of a group with %s fails: the error is NCCL's, and nothing is decoded", what);
}

/* Destroys the op of a held-back call and reuses its handle for another scalar, both before the group's end. */
static void recycled_ops(void) {
  static float again[RANKS][N];
  bool good = start(0);
  for (int step = 0; step < STEPS; step++) {
    good &= begin_step(step, 1);
    for (int i = 0; i < RANKS; i++) {
      float scalars[2] = {2, 8};
      for (int k = 0; k < 2; k++) {
        ncclRedOp_t op;
        good &=
          ncclRedOpCreatePreMulSum(&op, &scalars[k], ncclFloat, ncclScalarHostImmediate, ranks[i].comm) == ncclSuccess;
        good &= ncclReduceScatter(ranks[i].send, k ? again[i] : ranks[i].out, N, ncclFloat, op, ranks[i].comm, NULL) ==
                ncclSuccess;
        good &= ncclRedOpDestroy(op, ranks[i].comm) == ncclSuccess;
      }
    }
    good &= end_groups(1);
    for (int i = 0; i < RANKS; i++)
      for (size_t k = 0; k < N; k++) {
        good &= again[i][k] == 4 * ranks[i].out[k];
        ranks[i].out[k] /= 2;
      }
    good &= are_sums(step);
  }
  finish();
  ok(good, "ops destroyed and made anew before the end of the group: every call has its own scalar");
}

/* A new communicator starts anew: its first steps are plain. Sooner or later it reuses the handle of an old one. */
static void reused_handles(void) {
  bool good = true, reused = false;
  ncclComm_t old = NULL;
  for (int round = 0; round < 4; round++) {
    good &= start(0);
    reused |= ranks[0].comm == old;
    old = ranks[0].comm;
    good &= run_groups(0, STEPS);
    finish();
  }
  note("a handle was%s used again", reused ? "" : " not");
  ok(good, "communicators come and go, and each starts anew");
}

int main(void) {
  nested();
  made_between();
  made_inside();
  refused_call(1, "before the vote");
  refused_call(STEPS, "of compressed calls");
  ended_too_often();
  simulated();
  simulated_by_one();
  lacks_a_layer();
  messages_beside();
  never_ended();
  failed_end(0, "plain calls");
  failed_end(UNCOMPRESSED, "a vote");
  failed_end(STEPS, "compressed calls");
  recycled_ops();
  reused_handles();
  return done();
}
