/* SPDX-License-Identifier: BSD-3-Clause
 * Reduce-scatters that lhc must carry exactly: element types x reductions x in place or not x counts x supports, alone
 * and several in a group, of one communicator or of two. Every rank computes the inputs of all ranks, and hence the
 * sums.
 *
 * Run under tests/standin/launch with the library preloaded and TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0
 * TAGC_REPORT=1: the first three steps of a case teach the cycle, the others must be compressed. Each case has a
 * communicator of its own; for the script that reads the report, rank 0 prints "# expect NUMBER COMPRESSED" for it.
 *
 *   reduce_scatter SPARSITY [big]          SPARSITY as in TAGC_SPARSITY; big: four cases at 6 M elements
 *   reduce_scatter SPARSITY levels HOSTS   the ranks are on HOSTS hosts with as many ranks each, which sum inside them
 */
#include "kernels/codec/cost.h"
#include "tests/e2e/harness.h"

enum { STEPS_LEARNING = 3, STEPS = 6, MOST_GROUPED = 3, MOST_COMMS = 2 };

enum support { FULL_CAPACITY, ROWS, COLUMN };
enum values { INTEGERS, REALS };

static const char *const support_names[] = {"random", "rows", "column"};
static const char *const op_names[] = {"sum", "avg", "premulsum", "premulsum by one"};

struct test_case {
  ncclDataType_t type;
  int op; /* 0 sum, 1 avg, 2 premulsum, 3 premulsum by 1 on all ranks */
  bool in_place;
  size_t n, grouped; /* grouped: reduce-scatters of n, n + 32, ... elements in one group */
  enum support support;
  enum values values;
  size_t comms; /* 2: the same once more in the group, on a communicator with another order of ranks */
};

static uint32_t keep_ppm;
static struct tagc_hosts hosts; /* one rank each, or two levels */

static bool two_levels(void) { return hosts.local > 1; }

/* The factor of a rank's summands; every partial sum of four of them is exact in all types. */
static float scalar_of(const struct test_case *c, int r) {
  static const float scalars[] = {1, -1, 0.5f, 2, -0.5f, -2, 1.5f, 3};
  return c->op == 2 ? scalars[r % 8] : 1;
}

static enum tagc_dtype dtype_of(ncclDataType_t type) {
  return type == ncclFloat32 ? TAGC_FLOAT32 : type == ncclFloat16 ? TAGC_FLOAT16 : TAGC_BFLOAT16;
}

/* True if the call will be compressed, by the plan's own criterion. */
static bool pays(const struct test_case *c, size_t n, struct tagc_layout *layout) {
  struct tagc_shape shape = {n, hosts.hosts, dtype_of(c->type), keep_ppm, TAGC_STORAGE_FP32, 0};
  return tagc_codec_find("lhc")->layout(&shape, layout) &&
         tagc_layout_traffic(&shape, layout, &hosts, two_levels()).between <
           tagc_plain_traffic(n * size_of(c->type), &hosts).between;
}

static float value(const struct test_case *c, int r, uint64_t step, size_t shard, size_t i) {
  uint64_t h = draw(mix((uint64_t)r << 32 ^ step ^ (uint64_t)shard << 48), i);
  if (c->values == INTEGERS)
    return (float)(int)(h % 31) - 15;
  /* 12 binades, both signs */
  const float x = (float)(1 + (h & 0xffff)) / 65536 * (float)power_of_two((int)(h >> 16 & 15) - 8);
  return round_to(h >> 60 & 1 ? -x : x, c->type);
}

/* Makes rank r's n elements of a shard; the share of nonzeros stays below the capacity. */
static void fill(float *to, const struct test_case *c, size_t n, uint64_t capacity, int r, uint64_t step,
                 size_t shard) {
  const uint64_t rows = n / 768, wanted = capacity / 2 / 768, stretch = capacity ? (n + capacity - 1) / capacity : 0;
  memset(to, 0, n * sizeof *to);
  switch (c->support) {
  case ROWS: /* whole rows of a 768-wide matrix, others on every rank */
    for (uint64_t row = 0; wanted && row < rows; row++)
      for (size_t i = 768 * row; (row + step + 3 * (uint64_t)r + shard) % (rows / wanted) == 0 && i < 768 * (row + 1);
           i++)
        to[i] = value(c, r, step, shard, i);
    break;
  case COLUMN: /* one column of it, another one on every rank */
    for (size_t i = (step * 5 + (uint64_t)r) % 768; capacity > n / 768 + 1 && i < n; i += 768)
      to[i] = value(c, r, step, shard, i);
    break;
  default: /* one in each stretch of n / capacity elements, anywhere in it */
    for (uint64_t k = 0; stretch && k * stretch < n; k++) {
      const size_t i = k * stretch + mix((k * 1315423911u) ^ (step << 40) ^ ((uint64_t)r << 50) ^ shard) % stretch;
      if (i < n)
        to[i] = value(c, r, step, shard, i);
    }
  }
}

struct call {
  ncclComm_t comm;
  int rank; /* of this process in it */
  size_t n;
  uint64_t capacity;
  bool plain;                /* the payload would not be smaller */
  char *send, *out, *stored; /* stored: n elements, like input */
  float *input;              /* n elements, of one rank at a time */
  double *sum, *absolute;    /* n elements each, over the ranks */
};

/* Compares a shard with the sums. Integers must agree to the last bit, reals to 1e-6 of the norm of the sum of absolute
 * inputs (and the rounding of the result's own type). A plain call rounds every product and partial sum to its type,
 * and so do the ranks of a host. Integers stay exact, except their mean over a host of three. */
static bool check_shard(const struct test_case *c, const struct call *call, uint64_t step) {
  const size_t n = call->n;
  const bool rounds = call->plain || (two_levels() && (c->type != ncclFloat32 || c->op == 1));
  const bool exact = c->values == INTEGERS && !call->plain && (c->op != 1 || (hosts.local & (hosts.local - 1)) == 0);
  double error2 = 0, norm2 = 0, rounding2 = 0;
  memset(call->sum, 0, n * sizeof *call->sum);
  memset(call->absolute, 0, n * sizeof *call->absolute);
  for (int r = 0; r < nranks; r++) {
    const float scalar = scalar_of(c, r);
    fill(call->input, c, n, call->capacity, r, step, (size_t)call->rank);
    for (size_t i = 0; i < n; i++) {
      const double x = call->input[i] * scalar;
      call->sum[i] += x;
      call->absolute[i] += fabs(x);
    }
  }
  load_all(call->input, call->out, n, c->type);
  for (size_t i = 0; i < n; i++) {
    const float got = call->input[i];
    if (got == 0 && call->absolute[i] == 0)
      continue;
    const double sum = c->op == 1 ? (float)call->sum[i] / (float)nranks : call->sum[i];
    const double absolute = call->absolute[i] / (c->op == 1 ? nranks : 1);
    const float want = round_to((float)sum, c->type);
    if (exact && float_to_bits(got) != float_to_bits(want) && !(got == 0 && want == 0)) {
      fprintf(stderr, "[%d] element %zu: got %g, want %g\n", rank, i, (double)got, (double)want);
      return false;
    }
    error2 += (got - sum) * (got - sum);
    norm2 += absolute * absolute;
    rounding2 += (want - sum) * (want - sum);
  }
  double allowed = rounds && c->type != ncclFloat32 ? 0.02 : 1e-6;
  return sqrt(error2) <= allowed * sqrt(norm2) + 1.01 * sqrt(rounding2);
}

/* Fills the send buffer of a call, or compares it afterwards: nobody else may write to it. */
static bool fill_send(const struct test_case *c, const struct call *call, uint64_t step, bool compare) {
  const size_t bytes = call->n * size_of(c->type);
  bool same = true;
  for (size_t shard = 0; shard < (size_t)nranks; shard++) {
    char *to = compare ? call->stored : call->send + shard * bytes;
    fill(call->input, c, call->n, call->capacity, call->rank, step, shard);
    encode_all(to, call->input, call->n, c->type);
    same &= !compare || memcmp(to, call->send + shard * bytes, bytes) == 0;
  }
  return same;
}

static void run_step(const struct test_case *c, const struct call *calls, size_t count, uint64_t step) {
  ncclRedOp_t ops[MOST_COMMS * MOST_GROUPED];
  char typed[4];
  for (size_t i = 0; i < count; i++) {
    ops[i] = c->op == 0 ? ncclSum : ncclAvg;
    if (c->op >= 2) {
      store(typed, 0, scalar_of(c, calls[i].rank), c->type);
      CHECK(ncclRedOpCreatePreMulSum(&ops[i], typed, c->type, ncclScalarHostImmediate, calls[i].comm));
    }
    fill_send(c, &calls[i], step, false);
  }
  if (count > 1)
    CHECK(ncclGroupStart());
  for (size_t i = 0; i < count; i++) {
    CHECK(ncclReduceScatter(calls[i].send, calls[i].out, calls[i].n, c->type, ops[i], calls[i].comm, NULL));
    if (c->op >= 2)
      CHECK(ncclRedOpDestroy(ops[i], calls[i].comm)); /* inside the group, as some programs do */
  }
  if (count > 1)
    CHECK(ncclGroupEnd());
}

/* The g-th reduce-scatter of a case on a communicator. */
static struct call make_call(const struct test_case *c, size_t g, ncclComm_t comm, int its_rank) {
  struct tagc_layout layout;
  struct call call = {.comm = comm, .rank = its_rank, .n = c->n + 32 * g};
  const size_t bytes = call.n * size_of(c->type);
  call.plain = !pays(c, call.n, &layout);
  call.capacity = call.plain ? call.n : layout.capacity / (uint64_t)hosts.local;
  if (c->n > 500000 && !call.plain) /* several stripes: the capacity of each is a little less */
    call.capacity = call.capacity * 9 / 10;
  call.send = malloc(bytes * (size_t)nranks + 16);
  call.out = c->in_place ? call.send + bytes * (size_t)its_rank : malloc(bytes + 16);
  call.input = malloc(call.n * sizeof *call.input);
  call.stored = malloc(bytes);
  call.sum = malloc(call.n * sizeof *call.sum);
  call.absolute = malloc(call.n * sizeof *call.absolute);
  return call;
}

static void run_case(const struct test_case *c) {
  static int number = 1; /* of the communicator in the report; the world's is 0 */
  struct call calls[MOST_COMMS * MOST_GROUPED];
  ncclComm_t comms[MOST_COMMS];
  const size_t ncomms = c->comms, count = ncomms * c->grouped;
  /* Rank 0 stays where it is, as it prints the reports; the others change places. */
  const int ranks[MOST_COMMS] = {rank, (nranks - rank) % nranks};
  bool good = true;
  int compressed = 0;
  for (size_t k = 0; k < ncomms; k++) {
    CHECK(ncclCommSplit(world, 0, ranks[k], &comms[k], NULL));
    for (size_t g = 0; g < c->grouped; g++)
      calls[k * c->grouped + g] = make_call(c, g, comms[k], ranks[k]);
  }
  for (size_t g = 0; g < c->grouped; g++)
    compressed += calls[g].plain ? 0 : STEPS - STEPS_LEARNING;
  for (uint64_t step = 0; step < STEPS; step++) {
    run_step(c, calls, count, step);
    for (size_t i = 0; i < count; i++)
      good &= step < STEPS_LEARNING || check_shard(c, &calls[i], step);
  }
  for (size_t i = 0; i < count; i++) {
    good &= c->in_place || fill_send(c, &calls[i], STEPS - 1, true);
    if (!c->in_place)
      free(calls[i].out);
    free(calls[i].send);
    free(calls[i].input);
    free(calls[i].stored);
    free(calls[i].sum);
    free(calls[i].absolute);
  }
  all_ok(good, "W=%d %s %s %s n=%zu x%zu on %zu %s %s", nranks,
         c->type == ncclFloat32   ? "fp32"
         : c->type == ncclFloat16 ? "fp16"
                                  : "bf16",
         op_names[c->op], c->in_place ? "in place" : "out of place", c->n, c->grouped, ncomms,
         support_names[c->support], c->values == INTEGERS ? "integers" : "reals");
  for (size_t k = 0; k < ncomms; k++) {
    if (rank == 0)
      printf("# expect %d %d\n", number, compressed);
    number++;
    CHECK(ncclCommDestroy(comms[k]));
  }
}

static void matrix(void) {
  static const ncclDataType_t types[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  static const size_t counts[] = {1, 17, 31, 33, 1009, 4096, 16411, 65536};
  /* Two levels run on many placements. So each runs half of all combinations, and a third on many ranks. So do builds
   * with sanitizers, which are slow. */
  const size_t part = SANITIZED || (two_levels() && nranks >= 8) ? 3 : two_levels() ? 2 : 1;
  const size_t ncounts = sizeof counts / sizeof *counts - (two_levels() ? 2 : 0), large = two_levels() ? 16369 : 65521;
  for (int t = 0; t < 3; t++)
    for (int op = 0; op < 3; op++)
      for (int in_place = 0; in_place < 2; in_place++)
        for (size_t i = 0; i < ncounts; i++)
          if (((size_t)(t + op + in_place) + i) % part == 0)
            run_case(&(struct test_case){types[t], op, in_place, counts[i], 1, FULL_CAPACITY, INTEGERS, 1});
  for (int t = 0; t < 3; t++) {
    run_case(&(struct test_case){types[t], t, false, large, 1, FULL_CAPACITY, REALS, 1});
    run_case(&(struct test_case){types[t], t, true, 65536, 1, ROWS, REALS, 1});
    run_case(&(struct test_case){types[t], t, false, large + 15, 1, COLUMN, INTEGERS, 1});
    run_case(&(struct test_case){types[t], t, true, 8191, 3, FULL_CAPACITY, INTEGERS, 1});
    run_case(&(struct test_case){types[t], t, false, large * 5 / 8, 2, FULL_CAPACITY, INTEGERS, 1});
    run_case(&(struct test_case){types[t], 2 - t, t == 1, 5003, 2, FULL_CAPACITY, INTEGERS, 2});
    run_case(&(struct test_case){types[t], 3, false, 3001, 1, FULL_CAPACITY, INTEGERS, 1});
  }
}

static void big(void) {
  static const size_t n = 6 << 20;
  run_case(&(struct test_case){ncclFloat32, 0, false, n, 1, FULL_CAPACITY, INTEGERS, 1});
  run_case(&(struct test_case){ncclFloat32, 1, true, n, 1, ROWS, REALS, 1});
  run_case(&(struct test_case){ncclBfloat16, 1, false, n, 1, COLUMN, INTEGERS, 1});
  run_case(&(struct test_case){ncclFloat32, 0, true, n - 3, 1, COLUMN, REALS, 1});
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: reduce_scatter SPARSITY [big|levels HOSTS]\n");
    return 2;
  }
  keep_ppm = 1000000 - (uint32_t)(atof(argv[1]) * 1e6 + 0.5);
  meet();
  hosts = (struct tagc_hosts){nranks, nranks, 1};
  if (argc > 3)
    hosts = (struct tagc_hosts){nranks, atoi(argv[3]), nranks / atoi(argv[3])};
  all_ok(1, "%d ranks meet", nranks); /* the first communicator of the report is the world's */
  if (argc == 3)
    big();
  else
    matrix();
  return finish();
}
