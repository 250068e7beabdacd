/* SPDX-License-Identifier: BSD-3-Clause
 * All-reduces as DDP makes them, behind a broadcast of all parameters, and what must hold of the compressed ones: all
 * ranks end with the same bytes, near enough to the sum, which every rank can compute; elements behind the last whole
 * shard, and small all-reduces, are exact; what is not finite comes out as such on all ranks; send buffers are as they
 * were.
 *
 * Run under tests/standin/launch with the library preloaded, TAGC_WARMUP=0 and TAGC_MIN_BYTES=0. The first three steps
 * of a case teach the cycle. Each case has a communicator of its own; for the script that reads the report, rank 0
 * prints "# expect NUMBER COMPRESSED" for it.
 *
 *   all_reduce ERROR [grouped|windows|activations|astray|timed|scattered]...
 *     ERROR        relative (L2), of every compressed result; 0: integers, exact to the last bit
 *     grouped      the large all-reduces of a step are in one group
 *     windows      TAGC_MODE=ab: over a whole number of windows the sums are off by at most ERROR
 *     activations  the same counts again and again, as tensor parallelism has them: nothing is compressed, all is exact
 *     astray       once between two steps other values are summed in calls of these counts: they must come out exact
 *     timed        TAGC_CODEC=auto: does not print how many are compressed
 *     scattered    of each rank's values one of 61 is not zero; in the last step all are not, but for exact and timed
 * ones
 */
#include "env/hash.h"
#include "tests/e2e/harness.h"

enum { STEPS_LEARNING = 3, STEPS = 6, WINDOWS_STEPS = STEPS_LEARNING + 6, SLOTS = 4, SMALL = 999 };

static double allowed;
static bool exact, grouped, windows, activations, astray, timed, scattered;

struct test_case {
  ncclDataType_t type;
  int op; /* 0 sum, 1 average, 2 a scalar that differs from rank to rank */
  bool in_place;
};

static const char *const op_names[] = {"sum", "avg", "premulsum"};

/* The last one is the largest. With 3 ranks all have a tail, with 2 and 4 two of them. */
static size_t count_of(int slot) {
  static const size_t counts[SLOTS] = {32771, 33000, 34003, 36001};
  return activations ? counts[0] : counts[slot];
}

static float scalar_of(const struct test_case *c, int r) {
  static const float scalars[] = {1, -1, 0.5f, 2};
  return c->op == 2 ? scalars[r % 4] : 1;
}

/* True if the element is NaN or Inf: in one step, on one rank. */
static bool is_special(uint64_t step, int r, size_t i) {
  return !windows && step == STEPS - 2 && r == nranks - 1 && i % 9973 == 5;
}

enum { BLOCK = 1024 }; /* values that are made at a time */

/* The values of a rank from element `from` on, rounded to the type. */
static void fill_values(const struct test_case *c, int r, uint64_t step, int slot, size_t from, size_t n, float *out) {
  const uint64_t call = mix((uint64_t)r << 32 ^ step << 8 ^ (uint64_t)slot);
  for (size_t i = 0; i < n; i++) {
    const uint64_t h = draw(call, from + i);
    out[i] =
      exact ? (float)(int)(h % 31) - 15 : ((float)(int)(h & 0xffff) - 32768) / 65536 * (1 + (float)(h >> 32 & 3));
    if (scattered && (exact || timed || step < STEPS - 1) && (h >> 32) % 61 != 0)
      out[i] = 0;
    if (!exact && is_special(step, r, from + i))
      out[i] = h & 1 ? INFINITY : NAN;
  }
  if (!exact) /* small integers are numbers of all types */
    round_all(out, n, c->type);
}

/* The exact sums, or means, of these elements. */
static void fill_sums(const struct test_case *c, uint64_t step, int slot, size_t from, size_t n, double *sums) {
  float values[BLOCK];
  memset(sums, 0, n * sizeof *sums);
  for (int r = 0; r < nranks; r++) {
    fill_values(c, r, step, slot, from, n, values);
    for (size_t i = 0; i < n; i++)
      sums[i] += (double)values[i] * scalar_of(c, r);
  }
  for (size_t i = 0; c->op == 1 && i < n; i++)
    sums[i] /= nranks;
}

struct buffers {
  char *send[SLOTS + 1], *recv[SLOTS + 1]; /* the last ones are small */
  char *sent[SLOTS + 1];                   /* the expected contents of `send` */
  double *total[SLOTS];                    /* of the errors of all results */
  double total2;
};

static size_t elements(int slot) { return slot < SLOTS ? count_of(slot) : SMALL; }

static void fill_send(const struct test_case *c, char *send, uint64_t step, int slot) {
  float values[BLOCK];
  for (size_t i = 0, n; i < elements(slot); i += n) {
    n = elements(slot) - i < BLOCK ? elements(slot) - i : BLOCK;
    fill_values(c, rank, step, slot, i, n, values);
    encode_all(send + i * size_of(c->type), values, n, c->type);
  }
}

static void run_step(const struct test_case *c, struct buffers *b, uint64_t step, ncclComm_t comm) {
  char typed[4];
  ncclRedOp_t op = c->op == 1 ? ncclAvg : ncclSum;
  for (int s = 0; s <= SLOTS; s++)
    fill_send(c, b->send[s], step, s);
  for (int s = 0; s <= SLOTS; s++)
    memcpy(b->sent[s], b->send[s], elements(s) * size_of(c->type));
  if (c->op == 2) {
    store(typed, 0, scalar_of(c, rank), c->type);
    CHECK(ncclRedOpCreatePreMulSum(&op, typed, c->type, ncclScalarHostImmediate, comm));
  }
  CHECK(ncclAllReduce(b->send[SLOTS], b->recv[SLOTS], SMALL, c->type, op, comm, NULL));
  if (grouped)
    CHECK(ncclGroupStart());
  for (int s = 0; s < SLOTS; s++)
    CHECK(ncclAllReduce(b->send[s], b->recv[s], count_of(s), c->type, op, comm, NULL));
  if (c->op == 2)
    CHECK(ncclRedOpDestroy(op, comm));
  if (grouped)
    CHECK(ncclGroupEnd());
}

/* False if the element of a result must be exact and is not. */
static bool check_element(const struct test_case *c, float got, double sum, bool plain) {
  if (!isfinite(sum))
    return !isfinite(got);
  if (!plain && !exact)
    return isfinite(got);
  /* A plain call rounds products and partial sums to its type; integers stay exact, except the mean over three
   * ranks. */
  const bool to_the_bit = exact && (c->op != 1 || (nranks & (nranks - 1)) == 0);
  return to_the_bit ? got == round_to((float)sum, c->type)
                    : fabs(got - sum) <= (c->type == ncclFloat32   ? 1e-5
                                          : c->type == ncclFloat16 ? 0.01
                                                                   : 0.08) *
                                           (1 + fabs(sum));
}

/* Checks elements of a result; adds to the squares of the errors, and of the sums. */
static bool check_range(const struct test_case *c, struct buffers *b, uint64_t step, int s, size_t from, size_t to,
                        double squares[2]) {
  const size_t whole = elements(s) / (size_t)nranks * (size_t)nranks;
  double sums[BLOCK];
  for (size_t i = from; i < to; i++) {
    if ((i - from) % BLOCK == 0)
      fill_sums(c, step, s, i, to - i < BLOCK ? to - i : BLOCK, sums);
    const float got = load(b->recv[s], i, c->type);
    const double sum = sums[(i - from) % BLOCK];
    if (!check_element(c, got, sum, s == SLOTS || i >= whole || activations || step < STEPS_LEARNING)) {
      fprintf(stderr, "[%d] slot %d step %d element %zu: got %g, want %g\n", rank, s, (int)step, i, (double)got, sum);
      return false;
    }
    if (!isfinite(sum))
      continue;
    squares[0] += (got - sum) * (got - sum);
    squares[1] += sum * sum;
    if (windows && s < SLOTS && step >= STEPS_LEARNING) {
      b->total[s][i] += got - sum;
      b->total2 += sum * sum;
    }
  }
  return true;
}

/* All ranks have the same bytes, so each checks one shard. All check the tail and the small calls. */
static bool check_slot(const struct test_case *c, struct buffers *b, uint64_t step, int s, double *error) {
  const size_t n = elements(s), shard = s < SLOTS ? n / (size_t)nranks : 0, own = shard * (size_t)rank;
  double squares[2] = {0};
  const bool good = check_range(c, b, step, s, own, own + shard, squares) &&
                    check_range(c, b, step, s, shard * (size_t)nranks, n, squares);
  const double off = sqrt(squares[0] / squares[1]);
  *error = good && off > *error ? off : *error;
  return good;
}

/* True if all ranks have the same bytes. Compares on the world, which compresses nothing. */
static bool is_the_same(const char *bytes, size_t size) {
  const uint64_t mine = tagc_hash_add(TAGC_HASH_START, bytes, size);
  uint64_t words[2] = {mine, ~mine}, all[2];
  CHECK(ncclAllReduce(words, all, 2, ncclUint64, ncclMin, world, NULL));
  return all[0] == ~all[1];
}

static bool check_step(const struct test_case *c, struct buffers *b, uint64_t step, double *error) {
  bool good = true;
  for (int s = 0; s <= SLOTS; s++) {
    /* NaNs of a tail, or of small ones, are NCCL's. */
    const size_t compared = s < SLOTS ? elements(s) / (size_t)nranks * (size_t)nranks : 0;
    good &= is_the_same(b->recv[s], compared * size_of(c->type));
    if (!good)
      fprintf(stderr, "[%d] slot %d step %d: ranks differ\n", rank, s, (int)step);
    double its = 0;
    good &= check_slot(c, b, step, s, &its);
    if (s < SLOTS && step >= STEPS_LEARNING && its > *error)
      *error = its;
    good &= c->in_place || memcmp(b->send[s], b->sent[s], elements(s) * size_of(c->type)) == 0;
  }
  return good;
}

/* All-reduces, for example, parameters with some in buckets of their own: one count that is in no step, then two that
 * are. */
static bool go_astray(const struct test_case *c, struct buffers *b, ncclComm_t comm) {
  const size_t counts[] = {SMALL + 1, count_of(2), count_of(0)};
  bool good = true;
  for (int s = 0; s < 3; s++) {
    for (size_t i = 0; i < counts[s]; i++)
      store(b->send[2], i, (float)(int)(i % 97) - 48, c->type);
    CHECK(ncclAllReduce(b->send[2], b->recv[2], counts[s], c->type, c->op == 1 ? ncclAvg : ncclSum, comm, NULL));
    for (size_t i = 0; i < counts[s] && good; i++) {
      const float want = ((float)(int)(i % 97) - 48) * (float)(c->op == 1 ? 1 : nranks),
                  got = load(b->recv[2], i, c->type);
      good = fabsf(got - want) <= 0.01f * (1 + fabsf(want));
      if (!good)
        fprintf(stderr, "[%d] astray, %zu elements: got %g, want %g\n", rank, counts[s], (double)got, (double)want);
    }
  }
  return good;
}

/* As DDP does at its start: it proves that the all-reduces are of gradients. */
static void broadcast_parameters(const struct test_case *c, ncclComm_t comm) {
  size_t count = 0;
  for (int s = 0; s < SLOTS; s++)
    count += count_of(s);
  void *parameters = calloc(count, 4);
  CHECK(ncclBroadcast(parameters, parameters, count, c->type, 0, comm, NULL));
  free(parameters);
}

static double lost(const struct buffers *b) {
  double lost2 = 0;
  for (int s = 0; s < SLOTS; s++)
    for (size_t i = 0; i < count_of(s); i++)
      lost2 += b->total[s][i] * b->total[s][i];
  return sqrt(lost2 / b->total2);
}

static void run_case(const struct test_case *c) {
  static int number = 1; /* of the communicator in the report; the world's is 0 */
  struct buffers b = {.total2 = 0};
  ncclComm_t comm;
  double error = 0;
  bool good = true;
  CHECK(ncclCommSplit(world, 0, rank, &comm, NULL));
  for (int s = 0; s <= SLOTS; s++) {
    b.send[s] = malloc(elements(s) * 4);
    b.sent[s] = malloc(elements(s) * 4);
    b.recv[s] = c->in_place ? b.send[s] : malloc(elements(s) * 4);
    if (s < SLOTS)
      b.total[s] = calloc(count_of(s), sizeof(double));
  }
  broadcast_parameters(c, comm);
  for (uint64_t step = 0; step < (windows ? WINDOWS_STEPS : STEPS); step++) {
    run_step(c, &b, step, comm);
    good &= check_step(c, &b, step, &error);
    if (astray && step == STEPS_LEARNING)
      good &= go_astray(c, &b, comm);
  }
  const double rounding = c->type == ncclFloat32 ? 1e-6 : c->type == ncclFloat16 ? 0.001 : 0.008;
  if (windows)
    error = lost(&b);
  all_ok(good && (exact || error <= allowed + rounding), "W=%d %s %s %s: %s, error %.2g", nranks,
         c->type == ncclFloat32   ? "fp32"
         : c->type == ncclFloat16 ? "fp16"
                                  : "bf16",
         op_names[c->op], c->in_place ? "in place" : "out of place",
         windows ? "over all windows" : "the same on all ranks", error);
  for (int s = 0; s <= SLOTS; s++) {
    if (!c->in_place)
      free(b.recv[s]);
    free(b.send[s]);
    free(b.sent[s]);
    if (s < SLOTS)
      free(b.total[s]);
  }
  if (rank == 0 && !windows && !timed)
    printf("# expect %d %d\n", number, activations ? 0 : (STEPS - STEPS_LEARNING) * SLOTS);
  number++;
  CHECK(ncclCommDestroy(comm));
}

int main(int argc, char **argv) {
  static const ncclDataType_t types[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  const struct {
    const char *word;
    bool *flag;
  } hows[] = {{"grouped", &grouped}, {"windows", &windows}, {"activations", &activations},
              {"astray", &astray},   {"timed", &timed},     {"scattered", &scattered}};
  if (argc < 2) {
    fprintf(stderr, "usage: all_reduce ERROR [grouped|windows|activations|astray|timed|scattered]...\n");
    return 2;
  }
  allowed = atof(argv[1]);
  exact = allowed == 0;
  for (int i = 2; i < argc; i++)
    for (size_t h = 0; h < sizeof hows / sizeof *hows; h++)
      *hows[h].flag |= strcmp(argv[i], hows[h].word) == 0;
  meet();
  all_ok(1, "%d ranks meet", nranks);
  for (int t = 0; t < 3; t++)
    for (int op = 0; op < 3; op++)
      if (!windows || (t == 0 && op < 2))
        run_case(&(struct test_case){types[t], op, (t + op) % 2 == 1});
  if (!windows)
    run_case(&(struct test_case){ncclFloat32, 0, true});
  return finish();
}
