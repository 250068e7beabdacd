/* SPDX-License-Identifier: BSD-3-Clause
 * A program that meets an NCCL of another version than the header that it was compiled with. All functions are weak, as
 * in programs that check before they call.
 *
 *   versions version        prints the version that the library returns, and needs no device
 *   versions functions      prints "found NAME" for every function of tests/standin/versions.def that dlsym() finds in
 *                           the library, "weak NAME" for those that are not NULL here; calls the ones that the library
 *                           lacks and are not NULL, which must fail alone
 *   versions configs        configurations of every size that NCCL has had, and of one that it may have, each at the
 *                           end of a page that nothing may read beyond
 *   versions allreduce      steps of a trainer that needs nothing but all-reduces
 *   versions device         the same, on a communicator that kernels of the program send on, too
 *   versions grow           steps on a communicator that the last rank has joined later
 */
#include "interpose/nccl/nccl_newer.h"

#define FUNCTION(name, major, minor, patch) extern __typeof__(name) name __attribute__((weak));
#include "tests/standin/versions.def"

#include "tests/e2e/harness.h"

#include <dlfcn.h>
#include <sys/mman.h>

#define CODE(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))

static int version;

static bool has(const char *name) {
  static void *library;
  if (!library)
    library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD);
  return library && dlsym(library, name) != NULL;
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static int tried, failed;

static void must_fail(const char *name, ncclResult_t got) {
  tried++;
  failed += got == ncclSystemError;
  if (got != ncclSystemError)
    printf("# %s gave %d\n", name, (int)got);
}

/* Calls it twice: the message must come once. */
#define TRY(name, ...) \
  do { \
    if (name && !has(#name)) { \
      must_fail(#name, name(__VA_ARGS__)); \
      must_fail(#name, name(__VA_ARGS__)); \
    } \
  } while (0)

static void call_missing(void) {
  ncclComm_t made = world;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ncclWaitSignalDesc_t signals = {0};
  ncclUniqueId id = {{0}};
  ncclRedOp_t op = ncclSum;
  ncclWindow_t window = NULL;
  float x[64] = {0}, y[64] = {0};
  void *pointer = x;
  int excluded = nranks - 1;
  ncclResult_t state;
  TRY(ncclReduceScatter, x, y, 1, ncclFloat, ncclSum, world, NULL);
  TRY(ncclAllGather, x, y, 1, ncclFloat, world, NULL);
  TRY(ncclBroadcast, x, y, 1, ncclFloat, 0, world, NULL);
  TRY(ncclBcast, x, 1, ncclFloat, 0, world, NULL);
  TRY(ncclReduce, x, y, 1, ncclFloat, ncclSum, 0, world, NULL);
  TRY(ncclAlltoAll, x, y, 1, ncclFloat, world, NULL);
  TRY(ncclGather, x, y, 1, ncclFloat, 0, world, NULL);
  TRY(ncclScatter, x, y, 1, ncclFloat, 0, world, NULL);
  TRY(ncclReduceScatterConfig, x, y, 1, ncclFloat, ncclSum, world, NULL, NULL);
  TRY(ncclAllGatherConfig, x, y, 1, ncclFloat, world, NULL, NULL);
  TRY(ncclAllReduceConfig, x, y, 1, ncclFloat, ncclSum, world, NULL, NULL);
  TRY(ncclBroadcastConfig, x, y, 1, ncclFloat, 0, world, NULL, NULL);
  TRY(ncclReduceConfig, x, y, 1, ncclFloat, ncclSum, 0, world, NULL, NULL);
  TRY(ncclAlltoAllConfig, x, y, 1, ncclFloat, world, NULL, NULL);
  TRY(ncclGatherConfig, x, y, 1, ncclFloat, 0, world, NULL, NULL);
  TRY(ncclScatterConfig, x, y, 1, ncclFloat, 0, world, NULL, NULL);
  TRY(ncclDevCommCreate, world, NULL, NULL);
  TRY(ncclDevCommDestroy, world, NULL);
  TRY(ncclSetEncryption, NULL);
  TRY(ncclSend, x, 1, ncclFloat, 0, world, NULL);
  TRY(ncclRecv, x, 1, ncclFloat, 0, world, NULL);
  TRY(ncclPutSignal, x, 1, ncclFloat, 0, window, 0, 0, 0, 0, world, NULL);
  TRY(ncclSignal, 0, 0, 0, 0, world, NULL);
  TRY(ncclWaitSignal, 1, &signals, world, NULL);
  TRY(ncclGroupStart);
  TRY(ncclGroupEnd);
  TRY(ncclGroupSimulateEnd, &info);
  TRY(ncclCommInitRankConfig, &made, nranks, id, rank, &config);
  TRY(ncclCommInitRankScalable, &made, nranks, rank, 1, &id, &config);
  TRY(ncclCommInitAll, &made, 1, NULL);
  TRY(ncclCommSplit, world, 0, 0, &made, NULL);
  TRY(ncclCommShrink, world, &excluded, 1, &made, NULL, NCCL_SHRINK_DEFAULT);
  TRY(ncclCommGrow, world, nranks + 1, NULL, -1, &made, NULL);
  TRY(ncclCommGetUniqueId, world, &id);
  TRY(ncclCommFinalize, world);
  TRY(ncclCommAbort, world);
  TRY(ncclCommRevoke, world, NCCL_REVOKE_DEFAULT);
  TRY(ncclCommGetAsyncError, world, &state);
  TRY(ncclCommSuspend, world, NCCL_SUSPEND_MEM);
  TRY(ncclCommResume, world);
  TRY(ncclCommRegister, world, x, sizeof x, &pointer);
  TRY(ncclCommDeregister, world, x);
  TRY(ncclCommWindowRegister, world, x, sizeof x, &window, NCCL_WIN_DEFAULT);
  TRY(ncclCommWindowDeregister, world, window);
  TRY(ncclMemAlloc, &pointer, sizeof x);
  TRY(ncclMemFree, NULL);
  TRY(ncclRedOpCreatePreMulSum, &op, x, ncclFloat, ncclScalarHostImmediate, world);
  TRY(ncclRedOpDestroy, op, world);
  /* The failed calls must leave results untouched. */
  failed -= made != world || pointer != x || window != NULL || op != ncclSum;
}

/* NCCL refuses a wrong call at once, also in a group, where reduce-scatters may be held back. */
static void try_type(void) {
  float x[64] = {0}, y[64] = {0};
  if (!has("ncclReduceScatter") || version >= CODE(2, 24, 3))
    return;
  CHECK(ncclGroupStart());
  ncclResult_t called = ncclReduceScatter(x, y, 1, (ncclDataType_t)10, ncclSum, world, NULL), ended = ncclGroupEnd();
  all_ok(called == ncclInvalidArgument && ended == ncclInvalidArgument,
         "a type that this NCCL does not know is refused at once");
}

static void functions(void) {
  const struct {
    const char *name;
    bool linked;
  } table[] = {
#define FUNCTION(name, major, minor, patch) {#name, name != NULL},
#include "tests/standin/versions.def"
  };
  bool silent = false;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    dlerror();
    if (has(table[i].name)) {
      if (rank == 0)
        printf("found %s\n", table[i].name);
    } else {
      silent |= dlerror() == NULL;
    }
    if (rank == 0 && table[i].linked)
      printf("weak %s\n", table[i].name);
  }
  all_ok(!silent, "dlerror() speaks of each function that is not found");
  call_missing();
  all_ok(failed == tried, "%d calls of functions that are missing fail with ncclSystemError and touch nothing", tried);
  try_type();
}

/* ---- configs ----------------------------------------------------------------------------------------------------- */

/* All fields that a configuration had, and room for future ones. */
union any_config {
  unsigned char bytes[128];
  struct {
    size_t size;
    unsigned magic, version;
    int blocking, cgaClusterSize, minCTAs, maxCTAs;
    const char *netName;
    int splitShare, trafficClass;
    const char *commName;
    int choices[20];
  } f;
};

/* Makes a configuration with undefined fields, as the initializer of that version does. The bytes after its fields are
 * `rest`. It ends at the end of its page. */
static ncclConfig_t *make_config(size_t size, int of_version, unsigned char rest, unsigned char **page) {
  size_t fields = size;
  union any_config config = {.f = {size,
                                   0xcafebeef,
                                   (unsigned)of_version,
                                   NCCL_CONFIG_UNDEF_INT,
                                   NCCL_CONFIG_UNDEF_INT,
                                   NCCL_CONFIG_UNDEF_INT,
                                   NCCL_CONFIG_UNDEF_INT,
                                   NULL,
                                   NCCL_CONFIG_UNDEF_INT,
                                   NCCL_CONFIG_UNDEF_INT,
                                   NULL,
                                   {0}}};
  for (int i = 0; i < 20; i++)
    config.f.choices[i] = NCCL_CONFIG_UNDEF_INT;
  if (of_version < CODE(2, 26, 2) && size >= 48)
    fields = 44; /* the end is padding */
  else if (of_version >= CODE(2, 30, 3) && of_version < CODE(2, 30, 7))
    fields = 92;
  else if (of_version == CODE(2, 32, 3))
    fields = 116;
  else if (of_version > CODE(2, 32, 3))
    fields = 120; /* a future one */
  if (fields < size)
    memset(config.bytes + fields, rest, size - fields);
  *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (*page == MAP_FAILED || mprotect(*page + 4096, 4096, PROT_NONE) != 0)
    exit(1);
  return memcpy(*page + 4096 - size, config.bytes, size);
}

static bool works(ncclComm_t comm, int ranks) {
  int one = 1, sum = 0;
  return ncclAllReduce(&one, &sum, 1, ncclInt32, ncclSum, comm, NULL) == ncclSuccess && sum == ranks &&
         ncclCommDestroy(comm) == ncclSuccess;
}

/* Returns a new id of rank 0, on all ranks. */
static ncclUniqueId new_id(void) {
  ncclUniqueId id = {{0}};
  if (rank == 0)
    CHECK(ncclGetUniqueId(&id));
  CHECK(ncclBroadcast(&id, &id, sizeof id, ncclInt8, 0, world, NULL));
  return id;
}

static void try_config(size_t size, int of_version) {
  unsigned char *page, before[128];
  ncclConfig_t *config = make_config(size, of_version, 0x5a, &page);
  memcpy(before, config, size);
  ncclComm_t comm = NULL;
  bool good = ncclCommInitRankConfig(&comm, nranks, new_id(), rank, config) == ncclSuccess && works(comm, nranks);
  good = ncclCommSplit(world, 0, rank, &comm, config) == ncclSuccess && works(comm, nranks) && good;
  if (has("ncclCommInitRankScalable")) {
    ncclUniqueId id = new_id();
    good = ncclCommInitRankScalable(&comm, nranks, rank, 1, &id, config) == ncclSuccess && works(comm, nranks) && good;
  }
  if (has("ncclCommShrink") && rank < nranks - 1) {
    int excluded = nranks - 1;
    good = ncclCommShrink(world, &excluded, 1, &comm, config, NCCL_SHRINK_DEFAULT) == ncclSuccess &&
           works(comm, nranks - 1) && good;
  }
  good = memcmp(before, config, size) == 0 && good;
  all_ok(good, "a config of %zu bytes of version %d works, and nothing is read or written beyond it", size, of_version);
  munmap(page, 8192);
}

/* A version checks only the fields that it knows. */
static void try_values(void) {
  unsigned char *page;
  ncclComm_t comm = NULL;
  ncclConfig_t *config = make_config(48, CODE(2, 18, 1), 0, &page);
  config->blocking = 7;
  bool good = ncclCommInitRankConfig(&comm, nranks, new_id(), rank, config) == ncclInvalidArgument;
  config->blocking = NCCL_CONFIG_UNDEF_INT;
  config->magic = 0;
  good = ncclCommInitRankConfig(&comm, nranks, new_id(), rank, config) == ncclInvalidArgument && good;
  munmap(page, 8192);
  all_ok(good, "a bad value and a bad magic number are refused");
  config = make_config(96, CODE(2, 30, 7), 0, &page);
  memcpy((char *)config + 56, &(int){7}, sizeof(int)); /* collnetEnable, since 2.27 */
  good = ncclCommSplit(world, 0, rank, &comm, config) == (version < CODE(2, 27, 3) ? ncclSuccess : ncclInvalidArgument);
  good = (version >= CODE(2, 27, 3) || works(comm, nranks)) && good;
  munmap(page, 8192);
  all_ok(good, "a field that this NCCL does not know is not looked at");
}

static void configs(void) {
  static const struct {
    size_t size;
    int version;
  } known[] = {{16, CODE(2, 14, 3)}, {24, CODE(2, 14, 3)},  {48, CODE(2, 18, 1)},  {48, CODE(2, 26, 2)},
               {72, CODE(2, 27, 3)}, {80, CODE(2, 28, 3)},  {88, CODE(2, 29, 2)},  {96, CODE(2, 30, 3)},
               {96, CODE(2, 30, 7)}, {112, CODE(2, 31, 2)}, {120, CODE(2, 32, 3)}, {128, CODE(2, 99, 1)}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    try_config(known[i].size, known[i].version);
  try_values();
}

/* ---- allreduce --------------------------------------------------------------------------------------------------- */

static void allreduce(void) {
  enum { N = 4096, STEPS = 20 };
  static float gradient[N], sum[N];
  bool good = true;
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i < N; i++)
      gradient[i] = (float)((i + step + rank) % 7);
    for (int bucket = 0; bucket < 4; bucket++)
      CHECK(ncclAllReduce(gradient + bucket * N / 4, sum + bucket * N / 4, N / 4, ncclFloat, ncclSum, world, NULL));
    for (int i = 0; i < N; i++) {
      float want = 0;
      for (int r = 0; r < nranks; r++)
        want += (float)((i + step + r) % 7);
      good &= sum[i] == want;
    }
  }
  all_ok(good, "%d steps of all-reduces are exact", STEPS);
}

/* ---- device ------------------------------------------------------------------------------------------------------ */

static void device(void) {
  char made[256]; /* a closed struct: the stand-in leaves it alone */
  CHECK(ncclDevCommCreate(world, NULL, (struct ncclDevComm *)made));
  allreduce();
  CHECK(ncclDevCommDestroy(world, (struct ncclDevComm *)made));
}

/* ---- grow -------------------------------------------------------------------------------------------------------- */

static void grow(void) {
  enum { N = 20000, STEPS = 12 };
  bool fresh = rank == nranks - 1, good = true;
  float *gradient = malloc(sizeof(float) * N * (size_t)nranks), *parameters = calloc(N * (size_t)nranks, sizeof(float)),
        sum[N];
  ncclComm_t part = NULL, grown = NULL;
  ncclUniqueId id = {{0}};
  CHECK(ncclCommSplit(world, fresh ? NCCL_SPLIT_NOCOLOR : 0, rank, &part, NULL));
  if (rank == 0)
    CHECK(ncclCommGetUniqueId(part, &id));
  CHECK(ncclBroadcast(&id, &id, sizeof id, ncclInt8, 0, world, NULL));
  CHECK(ncclCommGrow(part, nranks, rank == 0 || fresh ? &id : NULL, fresh ? rank : -1, &grown, NULL));
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i < N * nranks; i++)
      gradient[i] = i % 64 ? 0 : (float)((i / 64 + step + rank) % 5);
    CHECK(ncclAllGather(parameters + rank * N, parameters, N, ncclFloat, grown, NULL));
    CHECK(ncclReduceScatter(gradient, sum, N, ncclFloat, ncclSum, grown, NULL));
    for (int i = 0; i < N; i++) {
      float want = 0;
      for (int r = 0; r < nranks; r++)
        want += (rank * N + i) % 64 ? 0 : (float)(((rank * N + i) / 64 + step + r) % 5);
      good &= sum[i] == want;
    }
  }
  all_ok(good, "steps on a communicator that has grown are exact");
  if (part)
    CHECK(ncclCommDestroy(part));
  CHECK(ncclCommDestroy(grown));
  free(gradient);
  free(parameters);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*run)(void);
  } modes[] = {
    {"functions", functions}, {"configs", configs}, {"allreduce", allreduce}, {"device", device}, {"grow", grow}};
  void (*run)(void) = NULL;
  for (size_t i = 0; argc == 2 && i < sizeof modes / sizeof *modes; i++)
    if (strcmp(argv[1], modes[i].name) == 0)
      run = modes[i].run;
  CHECK(ncclGetVersion(&version));
  if (argc == 2 && strcmp(argv[1], "version") == 0)
    return printf("version %d\n", version) < 0;
  if (!run) {
    fprintf(stderr, "usage: versions version|functions|configs|allreduce|device|grow\n");
    return 2;
  }
  meet();
  run();
  all_ok(1, "the communicator works to the end");
  return finish();
}
