/* SPDX-License-Identifier: BSD-3-Clause
 * Groups of the stand-in: calls run at the outermost end, collectives before point-to-point, all communicators at once,
 * in any order of the ranks' calls. Large messages cross; errors and destroyed communicators do no harm.
 */
#include "tests/e2e/standin/standin_check.h"

#define LARGE ((size_t)3 << 20) /* bytes: more than any buffer between two ranks */

static ncclComm_t comm;
static int next, prev;

static void fill(char *buffer, uint32_t seed, int rank, size_t size) {
  for (size_t i = 0; i < size; i++)
    buffer[i] = (char)mix(seed, rank, i);
}

static bool holds(const char *buffer, uint32_t seed, int rank, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (buffer[i] != (char)mix(seed, rank, i))
      return false;
  return true;
}

static char *allocate(size_t size) {
  char *memory = calloc(1, size);
  if (!memory)
    exit(1);
  return memory;
}

static void test_crossing_messages(void) {
  char *out = allocate(LARGE), *in = allocate(LARGE);
  fill(out, 1, check_rank, LARGE);
  NEED(ncclGroupStart());
  NEED(ncclSend(out, LARGE, ncclInt8, next, comm, NULL));
  NEED(ncclRecv(in, LARGE, ncclInt8, prev, comm, NULL));
  check(in[0] == 0 && in[LARGE - 1] == 0, "nothing moves before the group's end");
  NEED(ncclGroupEnd());
  check(holds(in, 1, prev, LARGE), "large messages around the ring");
  free(out);
  free(in);
}

/* Several messages per pair, to all ranks and oneself, received in another order of peers. */
static void test_many_messages(void) {
  const size_t size = 4096, messages = 5, n = (size_t)check_nranks;
  char *out = allocate(n * messages * size), *in = allocate(n * messages * size);
  bool good = true;
  fill(out, 2, check_rank, n * messages * size);
  NEED(ncclGroupStart());
  for (size_t m = 0; m < messages; m++)
    for (int peer = 0; peer < check_nranks; peer++)
      NEED(ncclSend(out + ((size_t)peer * messages + m) * size, size - m, ncclUint8, peer, comm, NULL));
  for (int peer = check_nranks - 1; peer >= 0; peer--)
    for (size_t m = 0; m < messages; m++)
      NEED(ncclRecv(in + ((size_t)peer * messages + m) * size, size - m, ncclUint8, peer, comm, NULL));
  NEED(ncclGroupEnd());
  for (int peer = 0; peer < check_nranks; peer++)
    for (size_t m = 0; m < messages; m++)
      for (size_t i = 0; i < size - m; i++)
        good &= in[((size_t)peer * messages + m) * size + i] ==
                (char)mix(2, peer, ((size_t)check_rank * messages + m) * size + i);
  check(good, "several messages a pair arrive in their order, those to oneself too");
  free(out);
  free(in);
}

/* Odd ranks call the point-to-point part first, even ranks last: collectives run first everywhere. */
static void test_mixed_group(void) {
  char *out = allocate(LARGE), *in = allocate(LARGE);
  float sum[3] = {(float)check_rank, 1, 2}, *gathered = (float *)(void *)allocate((size_t)check_nranks * sizeof(float));
  float own = (float)check_rank + 0.5f;
  bool good = true;
  fill(out, 3, check_rank, LARGE);
  NEED(ncclGroupStart());
  if (check_rank & 1) {
    NEED(ncclRecv(in, LARGE / 4, ncclFloat32, prev, comm, NULL));
    NEED(ncclSend(out, LARGE / 4, ncclFloat32, next, comm, NULL));
  }
  NEED(ncclAllReduce(sum, sum, 3, ncclFloat32, ncclSum, comm, NULL));
  NEED(ncclGroupStart());
  NEED(ncclAllGather(&own, gathered, 1, ncclFloat32, comm, NULL));
  NEED(ncclGroupEnd());
  if (!(check_rank & 1)) {
    NEED(ncclSend(out, LARGE, ncclInt8, next, comm, NULL)); /* bytes count, not types */
    NEED(ncclRecv(in, LARGE, ncclInt8, prev, comm, NULL));
  }
  NEED(ncclGroupEnd());
  for (int r = 0; r < check_nranks; r++)
    good &= gathered[r] == (float)r + 0.5f;
  check(good && sum[0] == (float)(check_nranks * (check_nranks - 1) / 2) && sum[1] == (float)check_nranks,
        "collectives of a mixed group");
  check(holds(in, 3, prev, LARGE), "messages of a mixed group");
  free(out);
  free(in);
  free(gathered);
}

/* Two communicators, one with the ranks reversed, used in one group in a different order on every other rank. */
static void test_two_communicators(void) {
  ncclComm_t reversed;
  int rank;
  NEED(ncclCommSplit(comm, 0, -check_rank, &reversed, NULL));
  NEED(ncclCommUserRank(reversed, &rank));
  check(rank == check_nranks - 1 - check_rank, "a split by falling keys reverses the ranks");
  const size_t count = 300000;
  int32_t *a = (int32_t *)(void *)allocate(count * 4), *b = (int32_t *)(void *)allocate(count * 4);
  for (size_t i = 0; i < count; i++) {
    a[i] = (int32_t)i;
    b[i] = (int32_t)mix(4, rank, i);
  }
  NEED(ncclGroupStart());
  if (check_rank & 1)
    NEED(ncclAllReduce(a, a, count, ncclInt32, ncclSum, comm, NULL));
  NEED(ncclBroadcast(b, b, count, ncclInt32, 0, reversed, NULL));
  if (!(check_rank & 1))
    NEED(ncclAllReduce(a, a, count, ncclInt32, ncclSum, comm, NULL));
  NEED(ncclGroupEnd());
  bool good = true;
  for (size_t i = 0; i < count; i++)
    good &= a[i] == (int32_t)i * check_nranks && b[i] == (int32_t)mix(4, 0, i);
  check(good, "two communicators in one group, ordered differently by the ranks");
  NEED(ncclCommDestroy(reversed));
  free(a);
  free(b);
}

static void test_operators(void) {
  float two = 2, value = 1;
  ncclRedOp_t op, again, other;
  ncclComm_t twin;
  NEED(ncclCommSplit(comm, 0, 0, &twin, NULL));
  NEED(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32, ncclScalarHostImmediate, comm));
  NEED(ncclGroupStart());
  NEED(ncclAllReduce(&value, &value, 1, ncclFloat32, op, comm, NULL));
  NEED(ncclRedOpDestroy(op, comm));
  NEED(ncclGroupEnd());
  check(value == 2 * (float)check_nranks, "an operator may be destroyed before the group ends");
  NEED(ncclRedOpCreatePreMulSum(&again, &two, ncclFloat32, ncclScalarHostImmediate, comm));
  check(again == op && (int)op >= (int)ncclNumOps, "the handle of a destroyed operator is used again");
  NEED(ncclRedOpCreatePreMulSum(&other, &two, ncclFloat32, ncclScalarHostImmediate, comm));
  check(other != again, "two live operators have two handles");
  check_result(ncclAllReduce(&value, &value, 1, ncclFloat64, again, comm, NULL), ncclInvalidArgument,
               "an operator of another type");
  check_result(ncclAllReduce(&value, &value, 1, ncclFloat32, again, twin, NULL), ncclInvalidArgument,
               "an operator of another communicator");
  check_result(ncclRedOpDestroy(again, twin), ncclInvalidArgument, "destroying it there");
  check_result(ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument, "destroying a built-in operator");
  NEED(ncclRedOpDestroy(other, comm));
  NEED(ncclRedOpDestroy(again, comm));
  check_result(ncclRedOpDestroy(again, comm), ncclInvalidArgument, "destroying an operator twice");
  check_result(ncclAllReduce(&value, &value, 1, ncclFloat32, op, comm, NULL), ncclInvalidArgument,
               "a destroyed operator");
  NEED(ncclCommDestroy(twin));
}

static void test_errors(void) {
  float value = 1, sum = 0;
  check_result(ncclGroupEnd(), ncclInvalidUsage, "a group's end without its start");
  NEED(ncclGroupStart());
  NEED(ncclAllReduce(&value, &sum, 1, ncclFloat32, ncclSum, comm, NULL));
  check_result(ncclAllReduce(&value, &sum, 1, (ncclDataType_t)99, ncclSum, comm, NULL), ncclInvalidArgument,
               "a bad call in a group");
  NEED(ncclAllGather(&value, &sum, 0, ncclFloat32, comm, NULL));
  check_result(ncclGroupEnd(), ncclInvalidArgument, "the end of that group");
  check(sum == (check_nranks == 1), "nothing of it was run, but for one rank's collective");
  NEED(ncclAllReduce(&value, &sum, 1, ncclFloat32, ncclSum, comm, NULL));
  check(sum == (float)check_nranks, "the next group is a new one");

  NEED(ncclGroupStart());
  NEED(ncclSend(&value, 1, ncclFloat32, check_rank, comm, NULL));
  check_result(ncclGroupEnd(), ncclInvalidUsage, "a send to oneself without its receive");
}

/* That failure has broken the communicator, so this is the last test on it. */
static void test_broken(void) {
  float value = 1;
  ncclResult_t error;
  check_result(ncclCommGetAsyncError(comm, &error), ncclSuccess, "asking for the error");
  check(error == ncclInvalidUsage, "the communicator remembers it");
  check_result(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, NULL), ncclInvalidUsage,
               "a call on the failed communicator");
}

static void test_simulation(void) {
  float value = 1, sum = 0;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER, bad = {0};
  NEED(ncclGroupStart());
  NEED(ncclReduceScatter(&value, &sum, 0, ncclFloat32, ncclSum, comm, NULL));
  NEED(ncclSend(&value, 1, ncclFloat32, next, comm, NULL));
  NEED(ncclGroupSimulateEnd(&info));
  check(info.estimatedTime >= 0, "a simulated group runs nothing and gives a time");
  NEED(ncclGroupStart());
  check_result(ncclGroupSimulateEnd(&bad), ncclInvalidArgument, "an info that was not initialised");
}

static void test_single_rank(void) {
  ncclComm_t own;
  float value = 3, copy = 0, half = 0.5f;
  ncclRedOp_t op;
  NEED(ncclCommSplit(comm, check_rank, 0, &own, NULL));
  NEED(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat32, ncclScalarDevice, own));
  NEED(ncclGroupStart());
  NEED(ncclAllReduce(&value, &copy, 1, ncclFloat32, ncclSum, own, NULL));
  check(copy == 3, "one rank's collective runs at once, even in a group");
  NEED(ncclReduceScatter(&value, &copy, 1, ncclFloat32, op, own, NULL));
  NEED(ncclGroupEnd());
  check(copy == 1.5f, "one rank's operator multiplies too");
  NEED(ncclCommDestroy(own));
}

static void test_destroyed_inside(void) {
  ncclComm_t twin;
  float value = 1;
  NEED(ncclCommSplit(comm, 0, 0, &twin, NULL));
  NEED(ncclGroupStart());
  NEED(ncclSend(&value, 1, ncclFloat32, check_rank, twin, NULL));
  NEED(ncclCommDestroy(twin));
  check_result(ncclGroupEnd(), ncclInvalidArgument, "a group whose communicator was destroyed");
}

/* Communicators made inside a group exist at its end; two at once need each other's progress. */
static void test_init_in_group(void) {
  ncclComm_t a, b, halves;
  ncclUniqueId ids[2] = {{{0}}};
  float value = (float)check_rank, sum = 0;
  if (check_rank == 0) {
    NEED(ncclGetUniqueId(&ids[0]));
    NEED(ncclGetUniqueId(&ids[1]));
  }
  NEED(ncclBroadcast(ids, ids, sizeof ids, ncclInt8, 0, comm, NULL));
  NEED(ncclGroupStart());
  NEED(ncclCommInitRank(check_rank & 1 ? &a : &b, check_nranks, ids[!(check_rank & 1)], check_rank));
  NEED(ncclCommInitRank(check_rank & 1 ? &b : &a, check_nranks, ids[check_rank & 1], check_rank));
  NEED(ncclGroupEnd());
  NEED(ncclAllReduce(&value, &sum, 1, ncclFloat32, ncclSum, a, NULL));
  check(sum == (float)(check_nranks * (check_nranks - 1) / 2), "a communicator made in a group works");
  NEED(ncclGroupStart());
  NEED(ncclCommSplit(a, check_rank & 1, 0, &halves, NULL));
  check(halves == NULL, "a child's handle appears at the group's end");
  NEED(ncclGroupEnd());
  NEED(ncclAllReduce(&value, &sum, 1, ncclFloat32, ncclMin, halves, NULL));
  check(sum == (float)(check_rank & 1), "a split in a group works");
  NEED(ncclCommDestroy(halves));
  NEED(ncclCommDestroy(a));
  NEED(ncclCommDestroy(b));
}

int main(void) {
  comm = check_world();
  next = (check_rank + 1) % check_nranks;
  prev = (check_rank + check_nranks - 1) % check_nranks;
  test_crossing_messages();
  test_many_messages();
  test_mixed_group();
  test_two_communicators();
  test_operators();
  test_simulation();
  test_single_rank();
  test_destroyed_inside();
  test_init_in_group();
  test_errors();
  test_broken();
  NEED(ncclCommDestroy(comm));
  return check_done();
}
