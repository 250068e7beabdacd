/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/vote with TAGC_SCOPE=auto: the ranks exchange their hosts once. Further: the sub-communicators and calls on
 * them, and ranks that differ or an NCCL that does not split. One of four ranks runs; its NCCL answers for the others.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/calls/calls.h"
#include "interpose/comm/table.h"
#include "interpose/entry/launch.h"
#include "interpose/exec/hierarchy.h"
#include "interpose/nccl/process.h"
#include "tests/unit/fake_nccl.h"
#include "tests/unit/tap.h"

enum { N = 20000, RANKS = 4, VOTE = 4, SPLITS = 0, HOSTS = 1 };

static struct tagc_comm *comm;
static ncclComm_t handles[RANKS];
static float *sent, *received;
static struct tagc_nccl nccl;
static char children[2];

/* ---- the real library -------------------------------------------------------------------------------------------- */

static int meetings, splits, destroyed, aborted, colors[8], keys[8];
static int sends_on_world, sends_between, sums_in_host, plains, foreign;
static int fail_split; /* that split fails, with: */
static ncclResult_t split_fails;
static uint32_t host_of[RANKS];
static void (*others_say)(int64_t *words);

/* The number of the communicator. No query of a missing one is allowed. */
static int number_of(ncclComm_t on) {
  if (on == handles[0])
    return 0;
  if (on == (ncclComm_t)&children[0] || on == (ncclComm_t)&children[1])
    return on == (ncclComm_t)&children[0] ? 1 : 2;
  foreign++;
  return -1;
}

static ncclResult_t group(void) { return ncclSuccess; }

static ncclResult_t all_reduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t on, cudaStream_t stream) {
  (void)from, (void)op, (void)stream;
  foreign += number_of(on) != 0;
  if (type != ncclInt64)
    return ncclSuccess;
  int64_t *words = to;
  /* The vote about hosts: the other ranks report their hosts. */
  if (count == HOSTS + RANKS && words[HOSTS + 1] == INT64_MAX) {
    for (int r = 1; r < RANKS; r++)
      words[HOSTS + r] = host_of[r];
    if (others_say)
      others_say(words);
  }
  meetings++;
  return ncclSuccess;
}

static ncclResult_t reduce_scatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                   ncclComm_t on, cudaStream_t stream) {
  (void)from, (void)op, (void)stream;
  const int number = number_of(on);
  plains += number == 0 && type == ncclFloat32;
  sums_in_host += number == 1 && type == ncclFloat32;
  memset(to, 0, count * (type == ncclInt64 ? 8 : 4));
  return ncclSuccess;
}

static ncclResult_t send_to(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t on,
                            cudaStream_t stream) {
  (void)from, (void)count, (void)peer, (void)stream;
  const int number = number_of(on);
  sends_on_world += number == 0 && type != ncclInt64;
  sends_between += number == 2 && type != ncclInt64;
  return ncclSuccess;
}

static ncclResult_t receive_from(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t on,
                                 cudaStream_t stream) {
  (void)peer, (void)stream;
  number_of(on);
  memset(to, 0, count * (type == ncclInt64 ? 8 : 1));
  return ncclSuccess;
}

static ncclResult_t split(ncclComm_t parent, int color, int key, ncclComm_t *child, ncclConfig_t *config) {
  foreign += parent != handles[0] || config != NULL;
  colors[splits % 8] = color;
  keys[splits % 8] = key;
  *child = (ncclComm_t)&children[splits % 2];
  return ++splits == fail_split ? split_fails : ncclSuccess;
}

static ncclResult_t destroy(ncclComm_t on) {
  destroyed++;
  return number_of(on) > 0 ? ncclSuccess : ncclInvalidArgument;
}
static ncclResult_t abort_it(ncclComm_t on) { return aborted++, number_of(on) > 0 ? ncclSuccess : ncclInvalidArgument; }

static ncclResult_t async_error(ncclComm_t on, ncclResult_t *state) {
  number_of(on);
  *state = ncclSuccess;
  return ncclSuccess;
}

/* ---- a communicator, and its calls ------------------------------------------------------------------------------- */

static void set_up(uint32_t h0, uint32_t h1, uint32_t h2, uint32_t h3) {
  static const struct tagc_nccl_group fake = {
    .start = group,
    .end = group,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .send = send_to,
    .receive = receive_from,
    .async_error = async_error,
  };
  comm = fake_nccl_comm(handles, RANKS, &nccl, &fake);
  memcpy(host_of, (uint32_t[]){h0, h1, h2, h3}, sizeof host_of);
  comm->agreement.host = h0;
  meetings = splits = destroyed = aborted = foreign = fail_split = 0;
  sends_on_world = sends_between = sums_in_host = plains = 0;
  others_say = NULL;
  comm->nccl = &nccl;
  nccl.functions[TAGC_ENTRY_ncclCommSplit] = (void *)&split;
  nccl.functions[TAGC_ENTRY_ncclCommDestroy] = (void *)&destroy;
  nccl.functions[TAGC_ENTRY_ncclCommAbort] = (void *)&abort_it;
}

static void tear_down(void) {
  tagc_hierarchy_end(comm, false);
  tagc_comm_release(tagc_comm_drop(handles[0]));
  tagc_comm_release(comm);
  for (int r = 0; r < RANKS; r++)
    ncclCommDestroy(handles[r]);
}

/* Makes that many calls, with slightly shorter shards the second time: then the cycle is another one. */
static ncclResult_t calls(int count, size_t shorter) {
  ncclResult_t status = ncclSuccess;
  for (int i = 0; i < count && status == ncclSuccess; i++) {
    struct tagc_call c = {.entry = TAGC_ENTRY_ncclReduceScatter,
                          .send = sent,
                          .recv = received,
                          .count = N - shorter,
                          .type = ncclFloat32,
                          .op = ncclSum,
                          .handle = handles[0],
                          .comm = comm,
                          .nccl = &nccl,
                          .scale = 1};
    status = tagc_call_observe(&c);
    if (status == ncclSuccess)
      status = tagc_launch_run(&c, 1, NULL, NULL);
  }
  return status;
}

static enum tagc_reason reason(void) { return comm->slot_count ? comm->slots[0].reason : TAGC_REASON_missing; }

/* Votes again after a change of the cycle. Returns the number of meetings; -1: no vote in 2,000 calls. */
static int another_vote(void) {
  const int before = meetings;
  const uint64_t locks = comm->observed.lock_number;
  bool voted = false;
  for (int i = 0; i < 2000 && !voted; i++)
    voted = calls(1, 100) == ncclSuccess && comm->observed.lock_number > locks && comm->vote.held;
  return voted ? meetings - before : -1;
}

/* Our own color, so that no split of the program has the same. */
static int host_color(int host) { return INT_MAX - TAGC_AGREE_RANKS - host; }

/* ---- two levels -------------------------------------------------------------------------------------------------- */

static void two_levels(void) {
  set_up(3, 3, 7, 7);
  ok(calls(VOTE - 1, 0) == ncclSuccess && meetings == 0 && splits == 0,
     "before the vote nobody is asked, and nothing split");
  ok(calls(1, 0) == ncclSuccess && meetings == 3 && comm->hierarchy.scope.two_levels,
     "two hosts of two: the hosts, the sub-communicators, then the proposals");
  ok(splits == 2 && colors[0] == host_color(3) && keys[0] == 0 && keys[1] == 0 && colors[1] > host_color(0),
     "two splits: first by host, then by local index, each in rank order, and no color comes twice");
  ok(reason() == TAGC_REASON_compressed && sums_in_host == 2 && sends_between == 1 && sends_on_world == 0,
     "the call sums inside the host, once for each host, and sends a message to the other one");
  ok(comm->slots[0].packed.nranks == 2, "the codec has two ranks");
  const int before = plains;
  ok(calls(1, 0) == ncclSuccess && meetings == 3 && splits == 2 && sends_between == 2 && plains == before,
     "so does the next one, and nobody asks again");
  ok(another_vote() == 2 && splits == 2 && reason() == TAGC_REASON_compressed,
     "another cycle: the hosts and the proposals, but the sub-communicators are there");
  tear_down();
  ok(destroyed == 2 && aborted == 0 && foreign == 0, "both are destroyed at the end");

  set_up(7, 3, 3, 7);
  ok(calls(VOTE, 0) == ncclSuccess && comm->hierarchy.scope.two_levels && sums_in_host == 1 &&
       colors[0] == host_color(7),
     "stripes: one sum, of two shards");
  tear_down();
}

/* A communicator without gradients, such as those of tensor parallelism. */
static void no_use(struct tagc_options *options) {
  set_up(0, 0, 1, 1);
  options->assume = TAGC_ASSUME_NOTHING;
  ok(calls(VOTE + 1, 0) == ncclSuccess && reason() == TAGC_REASON_ungathered && meetings == 2 && splits == 0 &&
       foreign == 0,
     "nothing to compress: no sub-communicators, and nobody is greeted on them");
  options->assume = TAGC_ASSUME_GRADIENTS;
  ok(another_vote() == 3 && splits == 2 && reason() == TAGC_REASON_compressed, "they are made when there is");
  tear_down();
  ok(foreign == 0, "no call on a communicator that is not there");
}

/* ---- what keeps it flat or plain --------------------------------------------------------------------------------- */

static void others_do_not_split(int64_t *words) { words[SPLITS] = 0; }

static void flat_or_plain(void) {
  static const struct {
    uint32_t hosts[RANKS];
    void (*others_say)(int64_t *);
    enum tagc_reason reason;
    int meetings, again; /* of the first vote, and of another one */
    const char *what;
  } table[] = {
    {{0, 0, 0, 0}, NULL, TAGC_REASON_one_host, 1, 0, "all on one host"},
    {{0, 1, 1, 1}, NULL, TAGC_REASON_uneven_hosts, 1, 0, "one rank here, three there"},
    {{0, 1, 2, 3}, NULL, TAGC_REASON_compressed, 2, 2, "one rank a host"},
    {{0, 0, 1, 1}, others_do_not_split, TAGC_REASON_compressed, 2, 2, "another rank cannot split"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    const uint32_t *h = table[i].hosts;
    set_up(h[0], h[1], h[2], h[3]);
    others_say = table[i].others_say;
    bool good = calls(VOTE, 0) == ncclSuccess && meetings == table[i].meetings && reason() == table[i].reason;
    ok(good && splits == 0 && !comm->hierarchy.scope.two_levels, "%s: after %d meetings: %s", table[i].what, meetings,
       tagc_reason_words(reason()));
    ok(sends_on_world == (table[i].reason == TAGC_REASON_compressed ? RANKS - 1 : 0) && sums_in_host == 0,
       "and so the call goes");
    ok(another_vote() == table[i].again && reason() == table[i].reason, "another vote meets %d times", table[i].again);
    tear_down();
    ok(destroyed == 0 && foreign == 0, "there is nothing to end");
  }
  struct tagc_nccl_group real;
  set_up(5, 5, 1, 1);
  ok(tagc_nccl_group_find(&real, &nccl) && tagc_hierarchy_can_split(comm, &real), "a rank says that it can split");
  comm->nonblocking = true;
  ok(!tagc_hierarchy_can_split(comm, &real), "one that does not block cannot");
  comm->nonblocking = false;
  real.split = NULL;
  ok(!tagc_hierarchy_can_split(comm, &real), "nor can one without ncclCommSplit");
  tear_down();
}

/* ---- splits that fail -------------------------------------------------------------------------------------------- */

static void failing_splits(void) {
  for (int at = 1; at <= 2; at++) {
    set_up(0, 0, 1, 1);
    fail_split = at;
    split_fails = ncclInvalidUsage;
    bool good = calls(VOTE, 0) == ncclSuccess && reason() == TAGC_REASON_split && splits == at && meetings == 1;
    ok(good && plains == VOTE, "NCCL refuses split %d, as it does on all ranks: plain, without a further meeting", at);
    ok(another_vote() == 0 && splits == at && reason() == TAGC_REASON_split, "and it is not tried again");
    tear_down();
    ok(destroyed == at - 1 && foreign == 0, "what was made is destroyed");

    set_up(0, 0, 1, 1);
    fail_split = at;
    split_fails = ncclSystemError;
    good = calls(VOTE, 0) == ncclSystemError && !comm->vote.held;
    ok(good && meetings == 1, "split %d fails on this rank: so does the call", at);
    ok(calls(1, 0) != ncclSuccess && foreign == 0, "and the next one, for the others may have gone on");
    tear_down();
  }
}

/* Exact sums split like others, also on a GPU. */
static void exact_sums(struct tagc_options *options) {
  const char *codec = options->codec;
  struct tagc_nccl_group real;
  set_up(0, 0, 1, 1);
  const struct tagc_device *host = comm->device;
  struct tagc_device gpu = *host;
  gpu.host_reads = false;
  options->codec = "precise";
  ok(tagc_nccl_group_find(&real, &nccl) && tagc_hierarchy_can_split(comm, &real), "exact sums split in host memory");
  comm->device = &gpu;
  ok(tagc_hierarchy_can_split(comm, &real), "and on a GPU");
  options->codec = codec;
  ok(tagc_hierarchy_can_split(comm, &real), "where other codecs do");
  comm->device = host;
  tear_down();
}

int main(void) {
  setenv("TAGC_CODEC", "q8", 1);
  setenv("TAGC_MIN_BYTES", "0", 1);
  setenv("TAGC_WARMUP", "0", 1);
  setenv("TAGC_ASSUME", "gradients", 1);
  setenv("TAGC_REPORT", "0", 1);
  setenv("TAGC_LOG", "error", 1);
  sent = calloc((size_t)N * RANKS, sizeof *sent);
  received = malloc(sizeof(float) * N);
  two_levels();
  no_use((struct tagc_options *)(uintptr_t)tagc_library_options());
  flat_or_plain();
  failing_splits();
  exact_sums((struct tagc_options *)(uintptr_t)tagc_library_options());
  free(sent);
  free(received);
  return tap_done();
}
