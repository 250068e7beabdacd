/* SPDX-License-Identifier: BSD-3-Clause
 * A short training under bad conditions. Prints one line per rank:
 *
 *   rank R: done HASH              all steps were made; HASH is the hash of all results
 *   rank R: CALL in step S: ERROR; cleaned up
 *                                  a call failed, with NCCL's name of the error; ncclCommAbort (on odd ranks
 *                                  Destroy first) of every communicator succeeded afterwards. Exit status 3.
 *   rank R: wrong result ...       exit status 4
 *   rank R: waits in step S        the launcher has lost its patience. Exit status 5.
 *
 *   faults sparse|dense|reduced|support|exact STEPS CONDITION
 *
 * Sparse gradients are integers that a sketch recovers completely: each result is checked, compressed or not. The hash
 * of dense ones shows whether and how they were compressed. `reduced` all-reduces dense ones, and checks results within
 * the error of an eight-bit codec; with TAGC_ALLGATHER it also checks gathered parameters. `support` all-reduces sparse
 * ones, of whose sums the nonzero ones alone are gathered: each result is checked. `exact` ones are bf16:
 * integers that are checked, and in the last unit values so far apart that no float holds their sums. Each step reduces
 * in groups over three communicators, the last of them non-blocking. The ops are averages, and a pre-multiplied sum
 * that is destroyed inside its group. The first unit is reduced once more on the non-blocking communicator, outside of
 * any group.
 *
 * Conditions: none; files (no descriptor is left after the initialisation); memory (none is left after three steps);
 * stack (all calls on a thread with 64 KiB); storm (two signals, with and without SA_RESTART, thousands of times a
 * second); stop (rank 1 is stopped and continued in every step).
 */
#include "tests/e2e/harness.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { UNITS = 3, COMMS = 3, MOST_RANKS = 8, HANG_S = 120 };
enum kind { DENSE, SPARSE, REDUCED, SUPPORT, EXACT };

static size_t sizes[UNITS] = {1500, 9000, 24000};
static ncclComm_t comms[COMMS];
static float *gradient[COMMS][UNITS], *result[COMMS][UNITS], *parameters[UNITS], *gathered;
static enum kind kind;
static ncclDataType_t type = ncclFloat32; /* of gradients; their memory is large enough for floats */
static bool gathers;                      /* parameters are compressed, too */
static uint64_t steps, step, hash;
static int status;

/* Waits for a call that may be in progress on a non-blocking communicator. Returns its result. */
static ncclResult_t over_with(ncclResult_t returned) {
  for (int c = 0; c < COMMS && returned == ncclInProgress; c++)
    for (ncclResult_t state = ncclInProgress; comms[c] && state == ncclInProgress; pause_briefly()) {
      ncclResult_t asked = ncclCommGetAsyncError(comms[c], &state);
      if (asked != ncclSuccess)
        return asked;
      if (state != ncclSuccess && state != ncclInProgress)
        return state;
    }
  return returned == ncclInProgress ? ncclSuccess : returned;
}

/* If only the library's allocations fail, no call may leave ENOMEM in errno. */
static ncclResult_t kept_errno(const char *call, ncclResult_t returned) {
  if (errno == ENOMEM && getenv("FAIL_ALLOCATION"))
    printf("rank %d: %.*s left ENOMEM in errno\n", rank, (int)strcspn(call, "("), call);
  return returned;
}
#define QUIET(call) (errno = 0, kept_errno(#call, call))

/* A call that fails ends the training of this rank. */
#define TRY(call) \
  do { \
    ncclResult_t try_status = over_with(QUIET(call)); \
    if (try_status != ncclSuccess) \
      return failed(#call, try_status); \
  } while (0)

static const char *name_of(ncclResult_t code) {
  static const char *const names[] = {"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                                      "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                                      "ncclRemoteError",   "ncclInProgress"};
  return (unsigned)code < sizeof names / sizeof *names ? names[code] : "no NCCL error";
}

static bool is_well(ncclResult_t returned) { return returned == ncclSuccess || returned == ncclInProgress; }

/* Ends a communicator: by an abort at once, or by a destroy when nothing is in progress. One that has failed is not
 * destroyed: then by an abort, too. */
static bool gives_up(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  if (rank % 2 == 0)
    return is_well(ncclCommAbort(comm));
  while (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress)
    pause_briefly();
  const ncclResult_t ended = ncclCommDestroy(comm);
  /* It may have failed since it was asked; a system error is also that of no memory to undo what the destroy began. */
  const bool refused = ended == ncclRemoteError || ended == ncclSystemError;
  return is_well(ended) || (refused && is_well(ncclCommAbort(comm)));
}

/* Gives up the communicators and prints the error, as a program does. */
static bool failed(const char *call, ncclResult_t code) {
  bool good = true;
  status = 3;
  signal(SIGTERM, SIG_IGN); /* the rest may take long, but is no hang */
  for (int i = 0; i < COMMS; i++)
    if (comms[i])
      good &= gives_up(comms[i]);
  printf("rank %d: %.*s in step %llu: %s; %s\n", rank, (int)strcspn(call, "("), call, (unsigned long long)step,
         name_of(code), good ? "cleaned up" : "NOT cleaned up");
  return false;
}

/* ---- training ---------------------------------------------------------------------------------------------------- */

static uint64_t seed_of(int r, uint64_t at, int comm, int unit) {
  return mix((uint64_t)r << 40 ^ at << 8 ^ (uint64_t)comm << 4 ^ (uint64_t)unit);
}

static float gradient_at(uint64_t seed, size_t i, int unit) {
  const uint64_t h = draw(seed, i);
  if (kind == EXACT)
    return (float)(int)(h & 63) - 31 + (unit == UNITS - 1 ? ldexpf(1, (int)(h >> 32 & 63) - 32) : 0);
  if (kind == SPARSE || kind == SUPPORT)
    return h % 64 == 0 ? (float)(int)(h >> 32 & 31) - 15 : 0;
  float x = (float)(int64_t)(h & 0xffffff) / 8388608 - 1;
  return x * x * x;
}

/* Gradients are all-reduced. */
static bool is_whole(void) { return kind == REDUCED || kind == SUPPORT; }

static bool check_result(int comm, int unit) {
  const size_t first = is_whole() ? 0 : (size_t)rank * sizes[unit];
  const float tolerance = kind == REDUCED ? 0.05f : kind == EXACT ? 0.25f : 0; /* plain calls of bf16 round */
  uint64_t seeds[MOST_RANKS];
  for (int r = 0; r < nranks; r++)
    seeds[r] = seed_of(r, step, comm, unit);
  for (size_t i = 0; i < sizes[unit] * (is_whole() ? (size_t)nranks : 1); i++) {
    const bool known = kind != DENSE && (kind != EXACT || unit < UNITS - 1);
    float got = load(result[comm][unit], i, type), want = 0;
    hash = mix(hash ^ float_to_bits(got));
    for (int r = 0; r < nranks && known; r++)
      want += gradient_at(seeds[r], first + i, unit);
    if (known && !(fabsf(got - want / (float)nranks) <= tolerance)) {
      printf("rank %d: wrong result in step %llu, communicator %d, unit %d, element %zu: %g, not %g\n", rank,
             (unsigned long long)step, comm, unit, i, (double)got, (double)(want / (float)nranks));
      status = 4;
      return false;
    }
  }
  return true;
}

static float parameter_at(int r, int unit, size_t i) {
  return gradient_at(seed_of(r, 0, 0, unit), i, unit) + 1e-4f * (float)step;
}

static bool check_gathered(int unit) {
  for (size_t i = 0; i < sizes[unit] * (size_t)nranks; i++) {
    const float want = parameter_at((int)(i / sizes[unit]), unit, i % sizes[unit]);
    if (!(fabsf(gathered[i] - want) <= 0.02f)) {
      printf("rank %d: wrong result in step %llu, parameter %zu of unit %d: %g, not %g\n", rank,
             (unsigned long long)step, i, unit, (double)gathered[i], (double)want);
      status = 4;
      return false;
    }
  }
  return true;
}

static bool gather_all(void) {
  for (int u = 0; u < UNITS && gathers; u++)
    for (size_t i = 0; i < sizes[u]; i++)
      parameters[u][i] = parameter_at(rank, u, i);
  for (int c = 0; c < COMMS; c++)
    for (int u = 0; u < UNITS; u++) {
      TRY(ncclAllGather(parameters[u], gathered, sizes[u], ncclFloat32, comms[c], NULL));
      if (gathers && !check_gathered(u))
        return false;
    }
  return true;
}

static const char *name_of_reduction(void) { return is_whole() ? "ncclAllReduce" : "ncclReduceScatter"; }

static ncclResult_t reduce(int c, int u, ncclRedOp_t op) {
  return is_whole() ? ncclAllReduce(gradient[c][u], result[c][u], sizes[u] * (size_t)nranks, type, op, comms[c], NULL)
                    : ncclReduceScatter(gradient[c][u], result[c][u], sizes[u], type, op, comms[c], NULL);
}

/* Reduces a unit on all communicators, in one group. The op is an average, except a pre-multiplied sum for the first
 * unit on the second communicator. A group in which a call has failed must fail. */
static bool reduce_unit(int u) {
  ncclRedOp_t ops[COMMS] = {ncclAvg, ncclAvg, ncclAvg};
  char scalar[4];
  store(scalar, 0, 1 / (float)nranks, type);
  ncclResult_t first = ncclSuccess;
  if (u == 0)
    TRY(ncclRedOpCreatePreMulSum(&ops[1], scalar, type, ncclScalarHostImmediate, comms[1]));
  TRY(ncclGroupStart());
  for (int c = 0; c < COMMS && is_well(first); c++)
    first = reduce(c, u, ops[c]);
  if (u == 0)
    TRY(ncclRedOpDestroy(ops[1], comms[1]));
  ncclResult_t ended = over_with(QUIET(ncclGroupEnd()));
  if (!is_well(first) && ended == ncclSuccess)
    printf("rank %d: a group ended well in which a call had failed\n", rank);
  if (!is_well(first))
    return failed(name_of_reduction(), first);
  if (ended != ncclSuccess)
    return failed("ncclGroupEnd", ended);
  for (int c = 0; c < COMMS; c++)
    if (!check_result(c, u))
      return false;
  return true;
}

static bool make_step(void) {
  float x = 1, sum;
  for (int c = 0; c < COMMS; c++)
    for (int u = 0; u < UNITS; u++) {
      const uint64_t seed = seed_of(rank, step, c, u);
      for (size_t i = 0; i < sizes[u] * (size_t)nranks; i++)
        store(gradient[c][u], i, gradient_at(seed, i, u), type);
    }
  if (!gather_all())
    return false;
  for (int u = UNITS; u-- > 0;)
    if (!reduce_unit(u))
      return false;
  const ncclResult_t alone = over_with(QUIET(reduce(2, 0, ncclAvg)));
  if (alone != ncclSuccess)
    return failed(name_of_reduction(), alone);
  if (!check_result(2, 0))
    return false;
  for (int c = 0; c < COMMS; c++)
    TRY(ncclAllReduce(&x, &sum, 1, ncclFloat32, ncclSum, comms[c], NULL));
  return true;
}

static bool connect_ranks(void) {
  struct rendezvous r;
  ncclUniqueId id;
  char why[200];
  if (!rendezvous_from_env(&r, why, sizeof why)) {
    fprintf(stderr, "%s\n", why);
    exit(1);
  }
  rank = r.rank;
  nranks = r.nranks;
  if (rank == 0)
    TRY(ncclGetUniqueId(&id));
  if (!rendezvous_share(&r, &id, sizeof id, why, sizeof why)) {
    fprintf(stderr, "%s\n", why);
    exit(1);
  }
  TRY(ncclCommInitRank(&comms[0], nranks, id, rank));
  ncclConfig_t nonblocking = NCCL_CONFIG_INITIALIZER;
  nonblocking.blocking = 0;
  TRY(ncclCommSplit(comms[0], 0, rank, &comms[1], NULL));
  TRY(ncclCommSplit(comms[0], 0, rank, &comms[2], &nonblocking));
  return true;
}

/* ---- conditions -------------------------------------------------------------------------------------------------- */

static atomic_ulong signals;
static pthread_t trainer;
static atomic_bool over;

static void count_signal(int signal) {
  (void)signal;
  signals++;
}

static void *send_signals(void *unused) {
  struct timespec pause = {0, 100000};
  for (unsigned long n = 0; !over; n++) {
    pthread_kill(trainer, n % 2 ? SIGUSR1 : SIGUSR2);
    nanosleep(&pause, NULL);
  }
  return unused;
}

/* Runs the rest of the program in a child. This process continues the child whenever it is stopped. */
static void watch_over_child(void) {
  int how = 0;
  pid_t child = fork();
  if (child == 0)
    return;
  while (waitpid(child, &how, WUNTRACED) == child && WIFSTOPPED(how))
    kill(child, SIGCONT);
  exit(WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how));
}

static void limit(int resource, rlim_t most) {
  struct rlimit limits;
  getrlimit(resource, &limits);
  limits.rlim_cur = most;
  setrlimit(resource, &limits);
}

/* Takes descriptors after the communicators are made, and memory before the vote, when the program and the stand-in
 * have theirs. */
static void make_scarce(const char *condition) {
  if (strcmp(condition, "files") == 0 && step == 0)
    while (open("/dev/null", O_RDONLY) >= 0)
      ;
  if (strcmp(condition, "memory") == 0 && step == 3)
    limit(RLIMIT_AS, 0);
}

static void *train(void *condition) {
  for (step = 0; step < steps; step++) {
    make_scarce(condition);
    if (strcmp(condition, "stop") == 0 && rank == 1)
      raise(SIGSTOP);
    if (!make_step())
      return NULL;
  }
  return NULL;
}

#ifdef __SANITIZE_ADDRESS__ /* its frames are more than twice as large */
enum { STACK = 160 << 10 };
#else
enum { STACK = 64 << 10 };
#endif

static void train_on_small_stack(const char *condition) {
  pthread_attr_t small;
  pthread_t thread;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, STACK);
  pthread_create(&thread, &small, train, (void *)condition);
  pthread_join(thread, NULL);
}

static void train_in_storm(const char *condition) {
  pthread_t storm;
  trainer = pthread_self();
  sigaction(SIGUSR1, &(struct sigaction){.sa_handler = count_signal, .sa_flags = SA_RESTART}, NULL);
  sigaction(SIGUSR2, &(struct sigaction){.sa_handler = count_signal}, NULL);
  pthread_create(&storm, NULL, send_signals, NULL);
  train((void *)condition);
  over = true;
  pthread_join(storm, NULL);
  fprintf(stderr, "rank %d: %lu signals\n", rank, signals);
}

/* These tests look for hangs: prints the place of one. */
static void hung(int signal) {
  void *frames[64];
  (void)signal;
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  _exit(5);
}

static void waits(int signal) {
  char line[80];
  (void)signal;
  int n = snprintf(line, sizeof line, "rank %d: waits in step %llu\n", rank, (unsigned long long)step);
  (void)!write(STDOUT_FILENO, line, (size_t)n);
  _exit(5);
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: faults sparse|dense|reduced|support|exact STEPS CONDITION\n");
    return 2;
  }
  const char *condition = argv[3];
  kind = strcmp(argv[1], "sparse") == 0    ? SPARSE
         : strcmp(argv[1], "reduced") == 0 ? REDUCED
         : strcmp(argv[1], "support") == 0 ? SUPPORT
         : strcmp(argv[1], "exact") == 0   ? EXACT
                                           : DENSE;
  type = kind == EXACT ? ncclBfloat16 : ncclFloat32;
  for (int u = 0; u < UNITS && kind == EXACT; u++)
    sizes[u]++; /* messages are padded, values are not: this tells them apart */
  gathers = getenv("TAGC_ALLGATHER") != NULL;
  steps = strtoull(argv[2], NULL, 10);
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (strcmp(condition, "stop") == 0)
    watch_over_child();
  signal(SIGALRM, hung);
  signal(SIGTERM, waits);
  alarm(HANG_S);
  gathered = calloc(sizes[UNITS - 1] * MOST_RANKS, sizeof *gathered);
  for (int u = 0; u < UNITS; u++) {
    parameters[u] = calloc(sizes[u], sizeof(float));
    for (int c = 0; c < COMMS; c++) {
      gradient[c][u] = calloc(sizes[u] * MOST_RANKS, sizeof(float));
      result[c][u] = calloc(sizes[u] * (is_whole() ? MOST_RANKS : 1), sizeof(float));
    }
  }
  if (!connect_ranks())
    return status;
  if (strcmp(condition, "stack") == 0)
    train_on_small_stack(condition);
  else if (strcmp(condition, "storm") == 0)
    train_in_storm(condition);
  else
    train((void *)condition);
  if (status)
    return status;
  for (int c = COMMS; c-- > 0;)
    if (!is_well(ncclCommDestroy(comms[c])))
      status = 6;
  printf("rank %d: done %016llx\n", rank, (unsigned long long)hash);
  return status;
}
