/* SPDX-License-Identifier: BSD-3-Clause
 * Reduce-scatters that lhc must carry exactly: element types x reductions x in place or not x counts x supports, alone and
 * several in a group. Every rank computes every other rank's input, so the sums are known.
 *
 * Run under tests/standin/launch with the library preloaded and TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0
 * TAGC_REPORT=1: the first three steps of a case teach the cycle, the others must be compressed. Each case has a
 * communicator of its own; for the script that reads the report, rank 0 prints "# expect NUMBER COMPRESSED" for it.
 *
 *   reduce_scatter SPARSITY [big]    SPARSITY as in TAGC_SPARSITY; big: four cases at 16 M elements
 */
#include "kernels/cost.h"
#include "tests/e2e/harness.h"

enum { STEPS_LEARNING = 3, STEPS = 6, MOST_GROUPED = 3 };

enum support { FULL_CAPACITY, ROWS, COLUMN };
enum values { INTEGERS, REALS };

static const char *const support_names[] = {"random", "rows", "column"};
static const char *const op_names[] = {"sum", "avg", "premulsum"};

struct test_case {
  ncclDataType_t type;
  int op;                           /* 0 sum, 1 avg, 2 premulsum */
  bool in_place;
  size_t n, grouped;                /* grouped: reduce-scatters of n, n + 32, ... elements in one group */
  enum support support;
  enum values values;
};

static uint32_t keep_ppm;

static enum tagc_dtype dtype_of(ncclDataType_t type)
{
  return type == ncclFloat32 ? TAGC_FLOAT32 : type == ncclFloat16 ? TAGC_FLOAT16 : TAGC_BFLOAT16;
}

/* Will it be compressed? The plan's own question, asked of the codec. */
static bool pays(const struct test_case *c, size_t n, struct tagc_layout *layout)
{
  struct tagc_shape shape = {n, nranks, dtype_of(c->type), keep_ppm, TAGC_STORAGE_FP32};
  return tagc_codec_find("lhc")->layout(&shape, layout) &&
         tagc_layout_wire_bytes(&shape, layout) < tagc_plain_wire_bytes(&shape);
}

/* Whether element i of a shard is nonzero on rank r; the share of nonzeros stays below the capacity. */
static bool nonzero(const struct test_case *c, size_t n, uint64_t capacity, int r, uint64_t step, size_t shard, size_t i)
{
  switch (c->support) {
  case ROWS: {                      /* whole rows of a 768-wide matrix, others on every rank */
    uint64_t rows = n / 768, wanted = capacity / 2 / 768;
    return wanted && i / 768 < rows && (i / 768 + step + 3 * (uint64_t)r + shard) % (rows / wanted) == 0;
  }
  case COLUMN:                      /* one column of it, another one on every rank */
    return i % 768 == (step * 5 + (uint64_t)r) % 768 && capacity > n / 768 + 1;
  default:                          /* one in each stretch of n / capacity elements, anywhere in it */
    if (!capacity)
      return false;
    uint64_t stretch = (n + capacity - 1) / capacity;
    return i % stretch == mix((i / stretch * 1315423911u) ^ (step << 40) ^ ((uint64_t)r << 50) ^ shard) % stretch;
  }
}

static float value(const struct test_case *c, int r, uint64_t step, size_t shard, size_t i)
{
  uint64_t h = mix(mix((uint64_t)r << 32 ^ step) ^ (shard << 48) ^ i);
  if (c->values == INTEGERS)
    return (float)(int)(h % 31) - 15;
  /* 12 binades, both signs */
  float x = ldexpf((float)(1 + (h & 0xffff)) / 65536, (int)(h >> 16 & 15) - 8);
  return round_to(h >> 60 & 1 ? -x : x, c->type);
}

static float input(const struct test_case *c, size_t n, uint64_t capacity, int r, uint64_t step, size_t shard, size_t i)
{
  return nonzero(c, n, capacity, r, step, shard, i) ? value(c, r, step, shard, i) : 0;
}

/* Compares a shard with the sums. Integers must agree to the last bit, reals to 1e-6 of the norm of the sum of absolute
 * inputs (and the rounding of the result's own type). A plain call rounds every product and partial sum to its type. */
static bool check_shard(const struct test_case *c, size_t n, uint64_t capacity, bool plain, uint64_t step, const void *out)
{
  double error2 = 0, norm2 = 0, rounding2 = 0;
  for (size_t i = 0; i < n; i++) {
    double sum = 0, absolute = 0;
    for (int r = 0; r < nranks; r++) {
      double x = input(c, n, capacity, r, step, (size_t)rank, i) * (c->op == 2 ? r + 1 : 1);
      sum += x;
      absolute += fabs(x);
    }
    if (c->op == 1) {
      sum = (float)sum / (float)nranks;
      absolute /= nranks;
    }
    float got = load(out, i, c->type), want = round_to((float)sum, c->type);
    if (c->values == INTEGERS && !plain && float_to_bits(got) != float_to_bits(want) && !(got == 0 && want == 0)) {
      fprintf(stderr, "[%d] element %zu: got %g, want %g\n", rank, i, (double)got, (double)want);
      return false;
    }
    error2 += (got - sum) * (got - sum);
    norm2 += absolute * absolute;
    rounding2 += (want - sum) * (want - sum);
  }
  double allowed = plain ? (c->type == ncclFloat32 ? 1e-6 : 0.02) : 1e-6;
  return sqrt(error2) <= allowed * sqrt(norm2) + 1.01 * sqrt(rounding2);
}

struct call {
  size_t n;
  uint64_t capacity;
  bool plain;                       /* the payload would not be smaller */
  char *send, *out;
};

static void run_step(const struct test_case *c, struct call *calls, ncclComm_t comm, uint64_t step)
{
  ncclRedOp_t op = c->op == 0 ? ncclSum : ncclAvg;
  float scalar = (float)(rank + 1);
  char typed[4];
  if (c->op == 2) {
    store(typed, 0, scalar, c->type);
    CHECK(ncclRedOpCreatePreMulSum(&op, typed, c->type, ncclScalarHostImmediate, comm));
  }
  for (size_t g = 0; g < c->grouped; g++)
    for (size_t shard = 0; shard < (size_t)nranks; shard++)
      for (size_t i = 0; i < calls[g].n; i++)
        store(calls[g].send, shard * calls[g].n + i,
              input(c, calls[g].n, calls[g].capacity, rank, step, shard, i), c->type);
  if (c->grouped > 1)
    CHECK(ncclGroupStart());
  for (size_t g = 0; g < c->grouped; g++)
    CHECK(ncclReduceScatter(calls[g].send, calls[g].out, calls[g].n, c->type, op, comm, NULL));
  if (c->op == 2)
    CHECK(ncclRedOpDestroy(op, comm));            /* inside the group, as some programs do */
  if (c->grouped > 1)
    CHECK(ncclGroupEnd());
}

static void run_case(const struct test_case *c)
{
  static int number = 1;            /* of the communicator in the report; the world's is 0 */
  struct call calls[MOST_GROUPED];
  struct tagc_layout layout;
  ncclComm_t comm;
  bool good = true;
  int compressed = 0;
  CHECK(ncclCommSplit(world, 0, rank, &comm, NULL));
  for (size_t g = 0; g < c->grouped; g++) {
    size_t n = calls[g].n = c->n + 32 * g, bytes = n * size_of(c->type);
    bool compresses = pays(c, n, &layout);
    calls[g].plain = !compresses;
    calls[g].capacity = compresses ? layout.capacity : n;
    if (c->n > 500000 && compresses)              /* several chunks: what fits each of them is a little less */
      calls[g].capacity = layout.capacity * 9 / 10;
    calls[g].send = malloc(bytes * (size_t)nranks + 16);
    calls[g].out = c->in_place ? calls[g].send + bytes * (size_t)rank : malloc(bytes + 16);
    compressed += compresses ? STEPS - STEPS_LEARNING : 0;
  }
  for (uint64_t step = 0; step < STEPS; step++) {
    run_step(c, calls, comm, step);
    for (size_t g = 0; g < c->grouped && step >= STEPS_LEARNING; g++)
      good &= check_shard(c, calls[g].n, calls[g].capacity, calls[g].plain, step, calls[g].out);
  }
  for (size_t g = 0; g < c->grouped; g++) {
    if (!c->in_place)
      free(calls[g].out);
    free(calls[g].send);
  }
  all_ok(good, "W=%d %s %s %s n=%zu x%zu %s %s", nranks,
         c->type == ncclFloat32 ? "fp32" : c->type == ncclFloat16 ? "fp16" : "bf16", op_names[c->op],
         c->in_place ? "in place" : "out of place", c->n, c->grouped, support_names[c->support],
         c->values == INTEGERS ? "integers" : "reals");
  if (rank == 0)
    printf("# expect %d %d\n", number, compressed);
  number++;
  CHECK(ncclCommDestroy(comm));
}

static void matrix(void)
{
  static const ncclDataType_t types[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  static const size_t counts[] = {1, 17, 31, 33, 1009, 4096, 16411, 65536};
  for (int t = 0; t < 3; t++)
    for (int op = 0; op < 3; op++)
      for (int in_place = 0; in_place < 2; in_place++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
          run_case(&(struct test_case){types[t], op, in_place, counts[i], 1, FULL_CAPACITY, INTEGERS});
  for (int t = 0; t < 3; t++) {
    run_case(&(struct test_case){types[t], t, false, 65521, 1, FULL_CAPACITY, REALS});
    run_case(&(struct test_case){types[t], t, true, 65536, 1, ROWS, REALS});
    run_case(&(struct test_case){types[t], t, false, 65536, 1, COLUMN, INTEGERS});
    run_case(&(struct test_case){types[t], t, true, 8191, 3, FULL_CAPACITY, INTEGERS});
    run_case(&(struct test_case){types[t], t, false, 40000, 2, FULL_CAPACITY, INTEGERS});
  }
}

static void big(void)
{
  static const size_t n = 16 << 20;
  run_case(&(struct test_case){ncclFloat32, 0, false, n, 1, FULL_CAPACITY, INTEGERS});
  run_case(&(struct test_case){ncclFloat32, 1, true, n, 1, ROWS, REALS});
  run_case(&(struct test_case){ncclBfloat16, 1, false, n, 1, COLUMN, INTEGERS});
  run_case(&(struct test_case){ncclFloat32, 0, true, n - 3, 1, COLUMN, REALS});
}

int main(int argc, char **argv)
{
  if (argc < 2) {
    fprintf(stderr, "usage: reduce_scatter SPARSITY [big]\n");
    return 2;
  }
  keep_ppm = 1000000 - (uint32_t)(atof(argv[1]) * 1e6 + 0.5);
  meet();
  all_ok(1, "%d ranks meet", nranks);             /* the first communicator of the report is the world's */
  if (argc > 2)
    big();
  else
    matrix();
  return finish();
}
