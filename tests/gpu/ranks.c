/* SPDX-License-Identifier: BSD-3-Clause
 * Ranks on GPU memory under any NCCL: the real one on a GPU (tests/gpu/run), or the stand-in.
 *
 *   ranks sums STEPS BOUND   dense gradients: each result is the sum, within BOUND of the norm of the summands
 *   ranks exact STEPS        sparse ones, small integers: each result is the sum, to the last bit
 *   ranks graph STEPS        the same twice; in between a step is captured into a CUDA graph, which then does others
 *   ranks ... short          the same with no more than some 20,000 elements, where each is slow
 *   ranks time ELEMENTS TYPE CALLS   milliseconds of a reduce-scatter of ELEMENTS fp32 or bf16 over all ranks
 *
 * RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them; all ranks use the first device. The program
 * knows nothing of tagc: preloaded with TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0, its first steps teach the
 * cycle, and the others are compressed. Rank 0 prints: TAP, or a number. A step is a reduce-scatter of each case.
 */
#include "tests/e2e/harness.h"
#include "tests/standin/cuda/device.h"

enum { MOST = 262147, SHORT = 20011, OFFSETS = 4, SPARSE = 32, LEARNING = 5, MOST_CALLS = 1000, FROM_GRAPH = 3 };
enum op { SUM, AVG, PREMULSUM, OPS };

static const ncclDataType_t types[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
static const char *const type_names[] = {"fp32", "fp16", "bf16"}, *const op_names[] = {"sum", "avg", "premulsum"};
static const size_t counts[] = {65536, 1009, MOST, 17, 4099, 255, 16411, 70001, 1};
enum { TYPES = 3, COUNTS = sizeof counts / sizeof *counts, CASES = 2 * TYPES * OPS };

struct test_case {
  int type, op;
  bool in_place;
  size_t n, offset; /* elements of a shard; elements between an aligned address and the buffers */
  CUdeviceptr send, recv;
  double worst; /* error of a call, relative to the norm of the summands */
};

static struct test_case cases[CASES];
static CUstream stream;
static CUdeviceptr word;
static bool is_short;
static char *staging; /* of the host, as large as the largest send buffer */

/* Makes cases of every type in and out of place, with every kind of sum; counts and offsets take turns. */
static void make_cases(void) {
  staging = malloc((size_t)nranks * (MOST + 1) * sizeof(float));
  for (int i = 0; i < CASES; i++) {
    struct test_case *c = &cases[i];
    *c = (struct test_case){.type = i % TYPES, .op = i / TYPES % OPS, .in_place = i >= TYPES * OPS};
    const size_t n = counts[i % COUNTS];
    c->n = (is_short && n > SHORT ? SHORT : n) + c->in_place;
    c->offset = (size_t)(i * 5 % OFFSETS);
    const size_t size = size_of(types[c->type]);
    c->send = device_buffer(((size_t)nranks * c->n + OFFSETS) * size) + c->offset * size;
    c->recv =
      c->in_place ? c->send + (size_t)rank * c->n * size : device_buffer((c->n + OFFSETS) * size) + c->offset * size;
  }
}

/* Returns a scalar that is exact in every type, and so are its products with small integers. */
static float scalar_of(const struct test_case *c, int r) {
  static const float scalars[] = {0.5f, -2, 1, -0.25f};
  return c->op == PREMULSUM ? scalars[r % 4] : 1;
}

/* Element i of a rank's send buffer. Sparse: one of each SPARSE is not zero, and even, so means are exact. */
static float input(const struct test_case *c, bool sparse, int step, int r, size_t i) {
  const uint64_t key = mix((uint64_t)r << 40 ^ (uint64_t)step << 20 ^ (uint64_t)(c - cases)), h = mix(key ^ i);
  if (sparse)
    return i % SPARSE == mix(key ^ ~(i / SPARSE)) % SPARSE ? 2 * (float)(int)(h & 15) - 14 : 0;
  const float x = (float)((int)(h & 0xffff) + (int)(h >> 16 & 0xffff) - 65535) / 65536;
  return round_to(ldexpf(x, -(int)(h >> 32 & 3)), types[c->type]);
}

static void fill(const struct test_case *c, bool sparse, int step) {
  const size_t all = (size_t)nranks * c->n;
  for (size_t i = 0; i < all; i++)
    store(staging, i, input(c, sparse, step, rank, i), types[c->type]);
  MUST(cuMemcpyHtoDAsync_v2(c->send, staging, all * size_of(types[c->type]), stream));
  MUST(cuStreamSynchronize(stream));
}

static void reduce_scatter(const struct test_case *c) {
  char scalar[4];
  ncclRedOp_t op = c->op == AVG ? ncclAvg : ncclSum;
  if (c->op == PREMULSUM) {
    store(scalar, 0, scalar_of(c, rank), types[c->type]);
    CHECK(ncclRedOpCreatePreMulSum(&op, scalar, types[c->type], ncclScalarHostImmediate, world));
  }
  CHECK(ncclReduceScatter((void *)(uintptr_t)c->send, (void *)(uintptr_t)c->recv, c->n, types[c->type], op, world,
                          (cudaStream_t)stream));
  if (c->op == PREMULSUM)
    CHECK(ncclRedOpDestroy(op, world));
}

/* Compares a result with the sums. Plain calls round products and partial sums to their type. */
static void check(struct test_case *c, bool sparse, int step) {
  double error2 = 0, norm2 = 0;
  MUST(cuMemcpyDtoHAsync_v2(staging, c->recv, c->n * size_of(types[c->type]), stream));
  MUST(cuStreamSynchronize(stream));
  for (size_t i = 0; i < c->n; i++) {
    double sum = 0, absolute = 0;
    for (int r = 0; r < nranks; r++) {
      const double x = input(c, sparse, step, r, (size_t)rank * c->n + i) * scalar_of(c, r);
      sum += x;
      absolute += fabs(x);
    }
    const double wanted = c->op == AVG ? sum / nranks : sum, difference = load(staging, i, types[c->type]) - wanted;
    error2 += difference * difference;
    norm2 += absolute * absolute;
  }
  const double error = error2 == 0 ? 0 : sqrt(error2 / norm2);
  if (!(error <= c->worst)) /* NaN is the worst */
    c->worst = error;
}

/* True if it holds on all ranks. */
static bool all_hold(bool holds) {
  int32_t mine = holds, all = 0;
  MUST(cuMemcpyHtoDAsync_v2(word, &mine, sizeof mine, stream));
  CHECK(ncclAllReduce((void *)(uintptr_t)word, (void *)(uintptr_t)word, 1, ncclInt32, ncclMin, world,
                      (cudaStream_t)stream));
  MUST(cuMemcpyDtoHAsync_v2(&all, word, sizeof all, stream));
  MUST(cuStreamSynchronize(stream));
  return all;
}

static void run_step(bool sparse, int step) {
  for (int i = 0; i < CASES; i++)
    fill(&cases[i], sparse, step);
  for (int i = 0; i < CASES; i++)
    reduce_scatter(&cases[i]);
  for (int i = 0; i < CASES; i++)
    check(&cases[i], sparse, step);
}

static void judge(double bound) {
  static const double rounding[] = {1e-6, 0x1p-10, 0x1p-7};
  for (int i = 0; i < CASES; i++) {
    const struct test_case *c = &cases[i];
    const bool good = all_hold(c->worst <= (bound > 0 ? bound + rounding[c->type] : 0));
    if (rank == 0)
      ok(good, "%s %s %s n=%zu off %zu: error %.2e", type_names[c->type], op_names[c->op],
         c->in_place ? "in place" : "out of place", c->n, c->offset, c->worst);
  }
}

/* Captures one step into a graph, which then does the work of others. */
static void from_graph(int step) {
  CUgraph graph;
  CUgraphExec exec;
  MUST(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int i = 0; i < CASES; i++)
    if (cases[i].op != PREMULSUM) /* its operation would have to live as long as the graph */
      reduce_scatter(&cases[i]);
  MUST(cuStreamEndCapture(stream, &graph));
  MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
  for (int launch = 0; launch < FROM_GRAPH; launch++, step++) {
    for (int i = 0; i < CASES; i++)
      fill(&cases[i], true, step);
    MUST(cuGraphLaunch(exec, stream));
    for (int i = 0; i < CASES; i++)
      if (cases[i].op != PREMULSUM)
        check(&cases[i], true, step);
  }
  MUST(cuGraphExecDestroy(exec));
  MUST(cuGraphDestroy(graph));
}

static int by_size(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Prints the median of this rank's calls. All ranks begin each call together. */
static void time_calls(size_t elements, ncclDataType_t type, int calls) {
  static float times[MOST_CALLS];
  enum { TILE = 1 << 20 };
  const size_t n = (elements + (size_t)nranks - 1) / (size_t)nranks, all = (size_t)nranks * n, size = size_of(type);
  CUdeviceptr send = device_buffer(all * size), recv = device_buffer(n * size);
  CUevent begin, end;
  staging = malloc(TILE * size);
  for (size_t i = 0; i < TILE; i++)
    store(staging, i, input(cases, false, 0, rank, i), type);
  for (size_t i = 0; i < all; i += TILE)
    MUST(cuMemcpyHtoD_v2(send + i * size, staging, (all - i < TILE ? all - i : TILE) * size));
  MUST(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  MUST(cuEventCreate(&end, CU_EVENT_DEFAULT));
  for (int i = -LEARNING; i < calls; i++) {
    all_hold(true);
    MUST(cuEventRecord(begin, stream));
    CHECK(ncclReduceScatter((void *)(uintptr_t)send, (void *)(uintptr_t)recv, n, type, ncclAvg, world,
                            (cudaStream_t)stream));
    MUST(cuEventRecord(end, stream));
    MUST(cuEventSynchronize(end));
    if (i >= 0)
      MUST(cuEventElapsedTime(&times[i], begin, end));
  }
  qsort(times, (size_t)calls, sizeof *times, by_size);
  if (rank == 0)
    printf("%.4f\n", (double)times[calls / 2]);
}

static int usage(void) {
  fprintf(stderr, "usage: ranks sums STEPS BOUND [short] | exact STEPS [short] | graph STEPS [short] | "
                  "time ELEMENTS fp32|bf16 CALLS\n");
  return 2;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  is_short = strcmp(argv[argc - 1], "short") == 0;
  argc -= is_short;
  const bool sums = strcmp(what, "sums") == 0 && argc == 4, exact = strcmp(what, "exact") == 0 && argc == 3;
  const bool graph = strcmp(what, "graph") == 0 && argc == 3, times = strcmp(what, "time") == 0 && argc == 5;
  const long number = argc > 2 ? atol(argv[2]) : 0, calls = times ? atol(argv[4]) : 1;
  if (!(sums || exact || graph || times) || number < 1 || calls < 1 || calls > MOST_CALLS)
    return usage();
  device_open(0);
  meet();
  stream = device_stream(CU_STREAM_NON_BLOCKING);
  word = device_buffer(sizeof(int32_t));
  if (times) {
    time_calls((size_t)number, strcmp(argv[3], "bf16") == 0 ? ncclBfloat16 : ncclFloat32, (int)calls);
    CHECK(ncclCommDestroy(world));
    return 0;
  }
  make_cases();
  const int steps = (int)number;
  for (int step = 0; step < steps; step++)
    run_step(!sums, step);
  if (graph) {
    from_graph(steps);
    for (int step = steps + FROM_GRAPH; step < 2 * steps + FROM_GRAPH; step++)
      run_step(true, step);
  }
  judge(sums ? atof(argv[3]) : 0);
  return finish();
}
