/* SPDX-License-Identifier: BSD-3-Clause
 * Reduce-scatters, or all-reduces, of one communicator on host memory or on a GPU. Prints, rank by rank and step by
 * step, a line with the hash of each result; both memories must give the same lines. Calls take turns on two streams
 * that wait for nothing, so only the library can order its own memory between them. Scattered all-reduces have few
 * values, small whole numbers, whose sums any codec that is exact leaves as they are; the last step is dense. With
 * messages rank 0 first sends itself one. Grouped, the calls of a step are one group.
 *
 *   on_device host|cuda STEPS [all-reduces|scattered|messages|grouped]   under tests/standin/launch, with --cuda for
 * cuda
 */
#include "env/hash.h"
#include "tests/e2e/device/either_memory.h"

enum { MOST = 70000, OFFSETS = 8 };

struct test_case {
  ncclDataType_t type;
  int op;           /* 0 sum, 1 average, 2 a scalar that differs from rank to rank */
  size_t n, offset; /* elements of a shard; elements before the buffers */
  bool in_place;
};

static const struct test_case cases[] = {
  {ncclFloat32, 0, 16384, 0, false}, {ncclBfloat16, 1, 16384, 0, true},  {ncclFloat16, 0, 4096, 0, false},
  {ncclFloat32, 1, 4099, 1, true},   {ncclBfloat16, 2, 16400, 1, false}, {ncclFloat32, 2, 1000, 3, false},
  {ncclFloat16, 1, 257, 5, true},    {ncclFloat32, 0, 255, 2, true},
};
enum { CASES = sizeof cases / sizeof *cases };

static bool all_reduces, scattered, grouped;
static int last_step;

/* Values over several binades; in some steps a few NaN or Inf. */
static float value(int step, int which, size_t i) {
  uint64_t h = mix(mix((uint64_t)rank << 40 ^ (uint64_t)step << 20 ^ (uint64_t)which) ^ i);
  if (scattered)
    return h % 100 == 0 || step == last_step ? (float)(h >> 20 & 7) : 0;
  if (step % 4 == 3 && h % 4099 == 0)
    return h >> 20 & 1 ? INFINITY : h >> 21 & 1 ? NAN : 0x1p125f;
  return ldexpf((float)((int)(h & 0xffff) + (int)(h >> 16 & 0xffff) - 65535) / 65536, (int)(h >> 32 & 7) - 8);
}

/* Every count of all-reduces has a tail, except the first ones on two ranks. */
static size_t count_sent(const struct test_case *t) { return (size_t)nranks * t->n + (all_reduces ? t->n % 2 : 0); }
static size_t count_received(const struct test_case *t) { return all_reduces ? count_sent(t) : t->n; }

/* The offset of an in-place result in the send buffer, in elements. */
static size_t place(const struct test_case *t) { return all_reduces ? 0 : (size_t)rank * t->n; }

static ncclResult_t reduce(const struct test_case *t, const void *from, void *to, ncclRedOp_t op, cudaStream_t stream) {
  return all_reduces ? ncclAllReduce(from, to, count_sent(t), t->type, op, world, stream)
                     : ncclReduceScatter(from, to, t->n, t->type, op, world, stream);
}

static void run_step(int step, void *const *send, void *const *recv, char *host) {
  static const float scalars[] = {0.5f, -1.25f, 3, 0.75f};
  for (int c = 0; c < CASES; c++) {
    const struct test_case *t = &cases[c];
    for (size_t i = 0; i < count_sent(t); i++)
      store(host, i, value(step, c, i), t->type);
    memory.copy((char *)send[c] + t->offset * size_of(t->type), host, count_sent(t) * size_of(t->type), true);
  }
  ncclRedOp_t ops[CASES];
  if (grouped)
    CHECK(ncclGroupStart());
  for (int c = 0; c < CASES; c++) {
    const struct test_case *t = &cases[c];
    char *from = (char *)send[c] + t->offset * size_of(t->type), scalar[4];
    void *to = t->in_place ? from + place(t) * size_of(t->type) : (char *)recv[c] + t->offset * size_of(t->type);
    ops[c] = t->op == 1 ? ncclAvg : ncclSum;
    if (t->op == 2) {
      store(scalar, 0, scalars[rank % 4], t->type);
      CHECK(ncclRedOpCreatePreMulSum(&ops[c], scalar, t->type, ncclScalarHostImmediate, world));
    }
    CHECK(reduce(t, from, to, ops[c], memory.stream[c % STREAMS]));
  }
  if (grouped)
    CHECK(ncclGroupEnd());
  for (int c = 0; c < CASES; c++)
    if (cases[c].op == 2)
      CHECK(ncclRedOpDestroy(ops[c], world));
  memory.synchronize();
  for (int c = 0; c < CASES; c++) {
    const struct test_case *t = &cases[c];
    const size_t bytes = count_received(t) * size_of(t->type);
    const char *from = t->in_place ? (char *)send[c] + (t->offset + place(t)) * size_of(t->type)
                                   : (char *)recv[c] + t->offset * size_of(t->type);
    memory.copy(host, from, bytes, false);
    printf("step %d case %d rank %d %016llx\n", step, c, rank,
           (unsigned long long)tagc_hash_add(TAGC_HASH_START, host, bytes));
  }
}

int main(int argc, char **argv) {
  const char *kind = argc == 4 ? argv[3] : "";
  const bool messages = strcmp(kind, "messages") == 0;
  scattered = messages || strcmp(kind, "scattered") == 0;
  all_reduces = scattered || strcmp(kind, "all-reduces") == 0;
  grouped = strcmp(kind, "grouped") == 0;
  if (argc != 3 + (all_reduces || grouped) || !use_memory(argv[1])) {
    fprintf(stderr, "usage: on_device host|cuda STEPS [all-reduces|scattered|messages|grouped]\n");
    return 2;
  }
  last_step = atoi(argv[2]) - 1;
  meet();
  enum { GATHERED = 1000 };
  void *send[CASES], *recv[CASES], *gathered = memory.alloc((size_t)nranks * GATHERED * sizeof(float));
  char *host = malloc(((size_t)nranks * MOST + OFFSETS) * sizeof(float));
  for (int c = 0; c < CASES; c++) {
    send[c] = memory.alloc(((size_t)nranks * cases[c].n + OFFSETS) * sizeof(float));
    recv[c] = memory.alloc((count_received(&cases[c]) + OFFSETS) * sizeof(float));
    if (!send[c] || !recv[c] || !host)
      return 1;
  }
  if (messages && rank == 0) {
    CHECK(ncclGroupStart());
    CHECK(ncclSend(send[0], 1, ncclFloat32, rank, world, memory.stream[0]));
    CHECK(ncclRecv(recv[0], 1, ncclFloat32, rank, world, memory.stream[0]));
    CHECK(ncclGroupEnd());
    memory.synchronize();
  }
  for (int step = 0; step <= last_step; step++) {
    run_step(step, send, recv, host);
    CHECK(ncclAllGather(recv[0], gathered, GATHERED, ncclFloat32, world, memory.stream[0]));
    memory.synchronize();
  }
  free(host);
  CHECK(ncclCommDestroy(world));
  return 0;
}
