/* SPDX-License-Identifier: BSD-3-Clause
 * The life of communicators under any NCCL, and their collectives: see `communicators` without an argument.
 *
 * RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT as torchrun sets them. Ranks take the devices in turn. The
 * program knows nothing of tagc, and calls NCCL's public functions alone. A rank that finds something wrong says what,
 * and exits with 1; with 77 if this NCCL lacks the function.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/e2e/harness.h"
#include "tests/standin/cuda/device.h"

enum { LATE_S = 2, AGAIN = 4, LACKS = 77 };

#define EXPECT_THAT(holds) \
  do { \
    if (!(holds)) { \
      fprintf(stderr, "%s:%d: rank %d: not so: %s\n", __FILE__, __LINE__, rank, #holds); \
      exit(1); \
    } \
  } while (0)

static struct rendezvous meeting;

/* Gives all ranks the bytes of `maker`. Each call is a meeting of its own. */
static void share_from(int maker, void *data, size_t bytes) {
  static unsigned times;
  char job[32], why[200];
  struct rendezvous r = meeting;
  snprintf(job, sizeof job, "%u", times++);
  r.rank = (rank - maker + nranks) % nranks;
  r.job = job;
  if (!rendezvous_share(&r, data, bytes, why, sizeof why)) {
    fprintf(stderr, "%s\n", why);
    exit(1);
  }
}

static void wait_for_all(void) {
  for (int maker = 0; maker < nranks; maker++) { /* each has then heard of every other */
    char nothing = 0;
    share_from(maker, &nothing, 1);
  }
}

static ncclUniqueId id_from(int maker) {
  ncclUniqueId id;
  if (rank == maker)
    CHECK(ncclGetUniqueId(&id));
  share_from(maker, &id, sizeof id);
  return id;
}

/* The function of this NCCL, found as the program's own reference would be; ends the process if there is none. */
static void *function(const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (!found)
    exit(LACKS);
  return found;
}

static void wait_seconds(int seconds) { nanosleep(&(struct timespec){.tv_sec = seconds}, NULL); }

/* -- what a communicator says of itself ---------------------------------------------------------------------------- */
static int my_device(void) {
  const char *local = getenv("LOCAL_RANK");
  int devices = 0;
  MUST(cuInit(0));
  MUST(cuDeviceGetCount(&devices));
  return (local ? atoi(local) : rank) % devices;
}

static void examine(ncclComm_t comm, int ranks, int at) {
  int count = -1, number = -1, device = -1;
  ncclResult_t state = ncclInternalError;
  EXPECT_THAT(ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclSuccess);
  CHECK(ncclCommCount(comm, &count));
  CHECK(ncclCommUserRank(comm, &number));
  CHECK(ncclCommCuDevice(comm, &device));
  EXPECT_THAT(count == ranks);
  EXPECT_THAT(number == at);
  EXPECT_THAT(device == my_device());
}

/* Waits for a communicator, or for its error, which it returns. */
static ncclResult_t state_of(ncclComm_t comm, int seconds) {
  ncclResult_t state = ncclInProgress;
  for (int i = 0; state == ncclInProgress && i < 100 * seconds; i++) {
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    EXPECT_THAT(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  }
  return state;
}

static void end(ncclComm_t comm) {
  CHECK(ncclCommFinalize(comm));
  CHECK(ncclCommDestroy(comm));
}

/* -- cases --------------------------------------------------------------------------------------------------------- */
static void init(void) {
  ncclUniqueId id = id_from(0);
  CHECK(ncclCommInitRank(&world, nranks, id, rank));
  examine(world, nranks, rank);
  end(world);
}

static void late(void) {
  ncclUniqueId id = id_from(0);
  if (rank == nranks - 1)
    wait_seconds(LATE_S);
  CHECK(ncclCommInitRank(&world, nranks, id, rank));
  examine(world, nranks, rank);
  end(world);
}

static void again(void) {
  for (int i = 0; i < AGAIN; i++) {
    ncclUniqueId id = id_from(i % nranks); /* each maker decides for its own ids */
    CHECK(ncclCommInitRank(&world, nranks, id, rank));
    examine(world, nranks, rank);
    end(world);
  }
}

static void nonblocking(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id = id_from(0);
  config.blocking = 0;
  const ncclResult_t result = ncclCommInitRankConfig(&world, nranks, id, rank, &config);
  EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
  EXPECT_THAT(state_of(world, 600) == ncclSuccess);
  examine(world, nranks, rank);
  const ncclResult_t ending = ncclCommFinalize(world);
  EXPECT_THAT(ending == ncclSuccess || ending == ncclInProgress);
  EXPECT_THAT(state_of(world, 600) == ncclSuccess);
  CHECK(ncclCommDestroy(world));
}

static void scalable(void) {
  ncclResult_t (*init_scalable)(ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *) =
    (ncclResult_t(*)(ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *))function("ncclCommInitRankScalable");
  ncclUniqueId ids[] = {id_from(0), id_from(nranks - 1)};
  CHECK(init_scalable(&world, nranks, rank, 2, ids, NULL));
  examine(world, nranks, rank);
  end(world);
}

static void group(void) {
  ncclUniqueId first = id_from(0), second = id_from(nranks - 1);
  CHECK(ncclGroupStart());
  CHECK(ncclCommInitRank(&world, nranks, first, rank));
  CHECK(ncclCommInitRank(&other, nranks, second, nranks - 1 - rank));
  CHECK(ncclGroupEnd());
  examine(world, nranks, rank);
  examine(other, nranks, nranks - 1 - rank);
  end(other);
  end(world);
}

static void split(void) {
  ncclUniqueId id = id_from(0);
  ncclComm_t half = NULL, none = NULL, reversed = NULL;
  CHECK(ncclCommInitRank(&world, nranks, id, rank));
  CHECK(ncclCommSplit(world, rank % 2, rank, &half, NULL));
  examine(half, nranks / 2, rank / 2);
  CHECK(ncclCommSplit(world, rank == 0 ? NCCL_SPLIT_NOCOLOR : 7, -rank, &none, NULL));
  EXPECT_THAT((none == NULL) == (rank == 0));
  if (none)
    examine(none, nranks - 1, nranks - 1 - rank);
  CHECK(ncclCommSplit(half, 0, -rank, &reversed, NULL));
  examine(reversed, nranks / 2, nranks / 2 - 1 - rank / 2);
  end(reversed);
  if (none)
    end(none);
  end(half);
  end(world);
}

static void sharing(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id = id_from(0);
  config.splitShare = 1;
  CHECK(ncclCommInitRank(&world, nranks, id, rank));
  CHECK(ncclCommSplit(world, 0, nranks - rank, &other, &config));
  examine(other, nranks, nranks - 1 - rank);
  end(other);
  end(world);
}

static void shrink(void) {
  ncclResult_t (*call)(ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int) =
    (ncclResult_t(*)(ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int))function("ncclCommShrink");
  ncclUniqueId id = id_from(0);
  int excluded[] = {0};
  CHECK(ncclCommInitRank(&world, nranks, id, rank));
  if (rank != 0) {
    CHECK(call(world, excluded, 1, &other, NULL, NCCL_SHRINK_DEFAULT));
    examine(other, nranks - 1, rank - 1);
    end(other);
  }
  wait_for_all();
  end(world);
}

/* All but the last rank make a communicator; the last joins it. */
static void grow(void) {
  ncclResult_t (*call)(ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *) =
    (ncclResult_t(*)(ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *))function("ncclCommGrow");
  ncclResult_t (*id_of)(ncclComm_t, ncclUniqueId *) =
    (ncclResult_t(*)(ncclComm_t, ncclUniqueId *))function("ncclCommGetUniqueId");
  ncclUniqueId id = id_from(0), joining;
  const bool joins = rank == nranks - 1;
  if (!joins)
    CHECK(ncclCommInitRank(&world, nranks - 1, id, rank));
  if (rank == 0)
    CHECK(id_of(world, &joining));
  share_from(0, &joining, sizeof joining);
  CHECK(call(world, nranks, joins || rank == 0 ? &joining : NULL, joins ? rank : -1, &other, NULL));
  examine(other, nranks, rank);
  end(other);
  if (!joins)
    end(world);
}

static void abort_it(void) {
  ncclUniqueId id = id_from(0);
  CHECK(ncclCommInitRank(&world, nranks, id, rank));
  wait_for_all();
  CHECK(ncclCommAbort(world));
  again();
}

/* The last rank never comes: the others, who wait without blocking, give up. */
static void missing(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclUniqueId id = id_from(0);
  config.blocking = 0;
  if (rank < nranks - 1) {
    const ncclResult_t result = ncclCommInitRankConfig(&world, nranks, id, rank, &config);
    EXPECT_THAT(result == ncclSuccess || result == ncclInProgress);
    EXPECT_THAT(state_of(world, LATE_S) == ncclInProgress);
    CHECK(ncclCommAbort(world));
  }
  wait_for_all();
  again();
}

/* One process has all ranks. */
static void all(void) {
  enum { MOST_DEVICES = 8 };
  ncclComm_t comms[MOST_DEVICES];
  int devices = 0, count, number, device;
  EXPECT_THAT(nranks == 1);
  MUST(cuInit(0));
  MUST(cuDeviceGetCount(&devices));
  EXPECT_THAT(devices > 1 && devices <= MOST_DEVICES);
  CHECK(ncclCommInitAll(comms, devices, NULL));
  for (int i = 0; i < devices; i++) {
    CHECK(ncclCommCount(comms[i], &count));
    CHECK(ncclCommUserRank(comms[i], &number));
    CHECK(ncclCommCuDevice(comms[i], &device));
    EXPECT_THAT(count == devices && number == i && device == i);
  }
  CHECK(ncclGroupStart());
  for (int i = 0; i < devices; i++)
    CHECK(ncclCommFinalize(comms[i]));
  CHECK(ncclGroupEnd());
  for (int i = 0; i < devices; i++)
    CHECK(ncclCommDestroy(comms[i]));
}

/* -- collectives: integers, so that every sum is exact ------------------------------------------------------------- */
static const size_t sizes[] = {1, 1000, 100003};
static CUstream stream;
static CUdeviceptr from, to;
static float *staging;

static void *at(CUdeviceptr p) { return (void *)(uintptr_t)p; }

/* Element i of a rank's buffer. */
static float element(int of, size_t i) { return (float)((int)(i % 1009) - 7 * of); }

static void fill(size_t elements) {
  for (size_t i = 0; i < elements; i++)
    staging[i] = element(rank, i);
  MUST(cuMemcpyHtoD_v2(from, staging, elements * sizeof *staging));
}

static void take(size_t elements) {
  MUST(cuStreamSynchronize(stream));
  MUST(cuMemcpyDtoH_v2(staging, to, elements * sizeof *staging));
}

static float sum_of(size_t i, int ranks) {
  float sum = 0;
  for (int r = 0; r < ranks; r++)
    sum += element(r, i);
  return sum;
}

static void reductions(size_t n) {
  fill(n * (size_t)nranks);
  CHECK(ncclAllReduce(at(from), at(to), n, ncclFloat32, ncclSum, world, (cudaStream_t)stream));
  take(n);
  for (size_t i = 0; i < n; i++)
    EXPECT_THAT(staging[i] == sum_of(i, nranks));
  CHECK(ncclAllReduce(at(from), at(to), n, ncclFloat32, ncclMin, world, (cudaStream_t)stream));
  take(n);
  for (size_t i = 0; i < n; i++)
    EXPECT_THAT(staging[i] == element(nranks - 1, i));
  CHECK(ncclReduceScatter(at(from), at(to), n, ncclFloat32, ncclAvg, world, (cudaStream_t)stream));
  take(n);
  for (size_t i = 0; i < n; i++) /* the number of ranks is a power of two */
    EXPECT_THAT(staging[i] == sum_of((size_t)rank * n + i, nranks) / (float)nranks);
}

static void movements(size_t n) {
  const int next = (rank + 1) % nranks, before = (rank + nranks - 1) % nranks, root = nranks - 1;
  fill(n);
  CHECK(ncclAllGather(at(from), at(to), n, ncclFloat32, world, (cudaStream_t)stream));
  take(n * (size_t)nranks);
  for (size_t i = 0; i < n * (size_t)nranks; i++)
    EXPECT_THAT(staging[i] == element((int)(i / n), i % n));
  CHECK(ncclBroadcast(at(from), at(to), n, ncclFloat32, root, world, (cudaStream_t)stream));
  take(n);
  for (size_t i = 0; i < n; i++)
    EXPECT_THAT(staging[i] == element(root, i));
  CHECK(ncclGroupStart());
  CHECK(ncclSend(at(from), n, ncclFloat32, next, world, (cudaStream_t)stream));
  CHECK(ncclRecv(at(to), n, ncclFloat32, before, world, (cudaStream_t)stream));
  CHECK(ncclGroupEnd());
  take(n);
  for (size_t i = 0; i < n; i++)
    EXPECT_THAT(staging[i] == element(before, i));
}

static void collectives(void) {
  const size_t most = sizes[sizeof sizes / sizeof *sizes - 1] * (size_t)nranks;
  ncclUniqueId id = id_from(0);
  CHECK(ncclCommInitRank(&world, nranks, id, rank));
  stream = device_stream(CU_STREAM_NON_BLOCKING);
  from = device_buffer(most * sizeof *staging);
  to = device_buffer(most * sizeof *staging);
  staging = malloc(most * sizeof *staging);
  for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) { /* twice: connections go on */
    reductions(sizes[i / 2]);
    movements(sizes[i / 2]);
  }
  free(staging);
  end(world);
}

/* -- a rank that dies ---------------------------------------------------------------------------------------------- */
enum { DIES_AT = 20, PATIENCE_S = 2 };
static atomic_bool in_call, gives_up;

/* As PyTorch's watchdog: aborts once NCCL tells an error. A thread that does not return from its call is in the way no
 * more than in a program. */
static void *watch(void *told) {
  ncclResult_t state = ncclSuccess;
  while (state == ncclSuccess) {
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    CHECK(ncclCommGetAsyncError(world, &state));
  }
  *(ncclResult_t *)told = state;
  gives_up = true;
  for (int i = 0; in_call && i < 100 * PATIENCE_S; i++)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  CHECK(ncclCommAbort(world));
  return NULL;
}

/* The last rank dies in a training's steps. The others learn of it, abort, and end. */
static void dies(void) {
  const size_t n = 65536;
  ncclUniqueId id = id_from(0);
  ncclResult_t told = ncclSuccess;
  pthread_t watchdog;
  CHECK(ncclCommInitRank(&world, nranks, id, rank));
  stream = device_stream(CU_STREAM_NON_BLOCKING);
  from = device_buffer(n * (size_t)nranks * sizeof *staging);
  to = device_buffer(n * sizeof *staging);
  staging = malloc(n * (size_t)nranks * sizeof *staging);
  fill(n * (size_t)nranks);
  EXPECT_THAT(pthread_create(&watchdog, NULL, watch, &told) == 0);
  for (int step = 0; !gives_up; step++) {
    if (step == DIES_AT && rank == nranks - 1)
      _exit(0);
    in_call = true;
    const ncclResult_t result =
      gives_up ? ncclSuccess
               : ncclReduceScatter(at(from), at(to), n, ncclFloat32, ncclSum, world, (cudaStream_t)stream);
    in_call = false;
    while (!gives_up && (result != ncclSuccess || cuStreamQuery(stream) != CUDA_SUCCESS))
      sched_yield();
  }
  EXPECT_THAT(pthread_join(watchdog, NULL) == 0 && told == ncclRemoteError);
}

static const struct {
  const char *name, *what;
  void (*run)(void);
} cases[] = {
  {"init", "ncclGetUniqueId, ncclCommInitRank, ncclCommFinalize, ncclCommDestroy", init},
  {"late", "the last rank comes two seconds after the others", late},
  {"again", "one communicator after the other, their ids made by all ranks in turn", again},
  {"nonblocking", "ncclCommInitRankConfig with blocking = 0", nonblocking},
  {"scalable", "ncclCommInitRankScalable with the ids of two makers", scalable},
  {"group", "two inits in one group, with the ids of two makers", group},
  {"split", "ncclCommSplit: by colours, without a colour, of a child, with keys that turn ranks round", split},
  {"sharing", "ncclCommSplit with splitShare = 1", sharing},
  {"shrink", "ncclCommShrink", shrink},
  {"grow", "ncclCommGrow with a rank that joins by ncclCommGetUniqueId", grow},
  {"abort", "ncclCommAbort, and then new communicators", abort_it},
  {"missing", "a rank never comes, the others abort, and make new communicators", missing},
  {"dies", "the last rank dies in its steps, the others abort and end", dies},
  {"all", "ncclCommInitAll: one process has a rank on each device", all},
  {"collectives", "all-reduces, reduce-scatters, all-gathers, broadcasts, sends: their results", collectives},
};

static int usage(void) {
  fprintf(stderr, "usage: communicators CASE\n");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    fprintf(stderr, "  %-12s %s\n", cases[i].name, cases[i].what);
  return 2;
}

int main(int argc, char **argv) {
  char why[200];
  for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++)
    if (strcmp(argv[1], cases[i].name) == 0) {
      if (!rendezvous_from_env(&meeting, why, sizeof why)) {
        fprintf(stderr, "%s\n", why);
        return 1;
      }
      rank = meeting.rank;
      nranks = meeting.nranks;
      device_open(my_device());
      cases[i].run();
      return 0;
    }
  return usage();
}
