/* SPDX-License-Identifier: BSD-3-Clause
 * Reduce-scatters in two levels that reduce_scatter.c does not cover: codecs that round, and communicators that the
 * program splits off, with other placements of ranks on the hosts.
 *
 * Run under tests/standin/launch --hosts with the library preloaded and TAGC_WARMUP=0 TAGC_ASSUME=gradients
 * TAGC_MIN_BYTES=0.
 *
 *   levels errors LEAST MOST   dense gradients: the relative error (L2) of every compressed result is in this range
 *   levels bits host|cuda      16-bit gradients, narrow ones and of any exponent, in this memory (--cuda for cuda);
 *                              prints a hash of all compressed results
 *   levels children HOST,...   integers, which must be exact, on children of the world; lists the host of each rank
 */
#include "tests/e2e/device/either_memory.h"

enum { STEPS_LEARNING = 3, STEPS = 6, MOST_RANKS = 16, CHILD_N = 5000 };

static char *send_buffer, *result;

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static const struct {
  ncclDataType_t type;
  const char *name;
  double rounding; /* the error of sums and results in this type */
} types[] = {{ncclFloat32, "fp32", 1e-6}, {ncclFloat16, "fp16", 0.001}, {ncclBfloat16, "bf16", 0.008}};

/* A few large values among many small ones. */
static float dense_at(int r, uint64_t step, size_t shard, size_t i, ncclDataType_t type) {
  const float x = (float)(draw(mix((uint64_t)r << 40 ^ step << 8 ^ shard << 20), i) & 0xffffff) / 8388608 - 1;
  return round_to(x * x * x, type);
}

static double error_of(size_t n, uint64_t step, ncclDataType_t type, bool average) {
  double error2 = 0, norm2 = 0;
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (int r = 0; r < nranks; r++)
      sum += dense_at(r, step, (size_t)rank, i, type);
    sum /= average ? nranks : 1;
    const double difference = load(result, i, type) - sum;
    error2 += difference * difference;
    norm2 += sum * sum;
  }
  return sqrt(error2 / norm2);
}

static void errors(size_t t, size_t n, bool average, double least, double most) {
  double lowest = INFINITY, highest = 0;
  CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (uint64_t step = 0; step < STEPS; step++) {
    for (size_t i = 0; i < n * (size_t)nranks; i++)
      store(send_buffer, i, dense_at(rank, step, i / n, i % n, types[t].type), types[t].type);
    CHECK(ncclReduceScatter(send_buffer, result, n, types[t].type, average ? ncclAvg : ncclSum, other, NULL));
    const double error = step < STEPS_LEARNING ? 0 : error_of(n, step, types[t].type, average);
    highest = error > highest ? error : highest;
    lowest = step >= STEPS_LEARNING && error < lowest ? error : lowest;
  }
  CHECK(ncclCommDestroy(other));
  other = NULL;
  all_ok(lowest >= least && highest <= most + types[t].rounding, "%s %s n=%zu: errors from %.2g to %.2g", types[t].name,
         average ? "avg" : "sum", n, lowest, highest);
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

/* Uniform ones, or of magnitudes so far apart that no float holds their sums. */
static float value_at(int r, uint64_t step, size_t i, ncclDataType_t type, bool wide) {
  const uint64_t h = draw(mix((uint64_t)r << 40 ^ step << 8), i);
  const int range = type == ncclFloat16 ? 24 : 80, power = (int)(h >> 32) % range - range / 2;
  return round_to(((float)(h & 0xffffff) / 8388608 - 1) * (wide ? (float)power_of_two(power) : 1), type);
}

/* The buffers of the calls. */
static char *sent, *received;

/* One kind of gradients on a communicator of its own. Adds the bits of its results to the hash. */
static void hash_results(ncclDataType_t type, int op, bool wide, uint64_t *hash) {
  const size_t n = wide ? 4099 : 20001, bytes = n * size_of(type);
  CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (uint64_t step = 0; step < STEPS; step++) {
    char *const shard = op == 1 ? sent + (size_t)rank * bytes : received; /* averages in place */
    ncclRedOp_t reduction = op == 1 ? ncclAvg : ncclSum;
    char scalar[4];
    for (size_t i = 0; i < n * (size_t)nranks; i++)
      store(send_buffer, i, value_at(rank, step, i, type, wide), type);
    store(scalar, 0, 0.3f + (float)rank / 8, type);
    if (op == 2)
      CHECK(ncclRedOpCreatePreMulSum(&reduction, scalar, type, ncclScalarHostImmediate, other));
    memory.copy(sent, send_buffer, bytes * (size_t)nranks, true);
    CHECK(ncclReduceScatter(sent, shard, n, type, reduction, other, memory.stream[0]));
    if (op == 2)
      CHECK(ncclRedOpDestroy(reduction, other));
    memory.synchronize();
    memory.copy(result, shard, bytes, false);
    for (size_t i = 0; i < n && step >= STEPS_LEARNING; i++)
      *hash = mix(*hash ^ float_to_bits(load(result, i, type)));
  }
  CHECK(ncclCommDestroy(other));
  other = NULL;
}

static void bits(void) {
  uint64_t hash = (uint64_t)rank;
  sent = memory.alloc(20001 * sizeof(uint16_t) * (size_t)nranks);
  received = memory.alloc(20001 * sizeof(uint16_t));
  for (int op = 0; op < 3; op++)
    for (int wide = 0; wide < 2; wide++)
      for (size_t t = 1; t < 3; t++)
        hash_results(types[t].type, op, wide, &hash);
  memory.copy(received, &hash, sizeof hash, true);
  CHECK(ncclAllReduce(received, received, 1, ncclUint64, ncclSum, world, memory.stream[0]));
  memory.synchronize();
  memory.copy(&hash, received, sizeof hash, false);
  if (rank == 0)
    printf("hash %016llx\n", (unsigned long long)hash);
}

/* ---- children ---------------------------------------------------------------------------------------------------- */

static int host_of[MOST_RANKS];

static void read_hosts(const char *list) {
  for (int r = 0; r < nranks && r < MOST_RANKS; r++) {
    host_of[r] = (int)strtol(list, (char **)&list, 10);
    list += *list == ',';
  }
}

static int local_index(int r) {
  int lower = 0;
  for (int other_rank = 0; other_rank < r; other_rank++)
    lower += host_of[other_rank] == host_of[r];
  return lower;
}

static int whole(int r) { return (void)r, 0; }
static int its_host(int r) { return host_of[r]; }
static int but_one(int r) { return r == nranks - 1 ? NCCL_SPLIT_NOCOLOR : 0; }
static int parity(int r) { return r % 2; }
static int as_it_is(int r) { return r; }
static int reversed(int r) { return -r; }
static int by_local_index(int r) { return local_index(r) * nranks + r; }

static const struct child {
  const char *what;
  int (*color)(int r), (*key)(int r);
} children[] = {
  {"in the same order", whole, as_it_is},     {"in reverse", whole, reversed},
  {"hosts in turn", whole, by_local_index},   {"of one host", its_host, as_it_is},
  {"one rank a host", local_index, as_it_is}, {"all but one", but_one, as_it_is},
  {"every other rank", parity, reversed},
};

static float sparse_at(int r, uint64_t step, size_t shard, size_t i) {
  const uint64_t h = draw(mix((uint64_t)r << 40 ^ step << 8 ^ shard << 20), i);
  return h % 64 == 0 ? (float)(int)(h >> 32 & 31) - 15 : 0;
}

/* Lists the world ranks of this rank's child, in the child's order. Returns their number. */
static int members(const struct child *child, int list[MOST_RANKS]) {
  int count = 0;
  for (int r = 0; r < nranks; r++) {
    if (child->color(r) != child->color(rank))
      continue;
    int at = count++;
    for (; at > 0 && child->key(list[at - 1]) > child->key(r); at--)
      list[at] = list[at - 1];
    list[at] = r;
  }
  return count;
}

static void run_child(const struct child *child) {
  ncclComm_t comm;
  int list[MOST_RANKS], place = 0;
  const int count = members(child, list);
  bool good = true;
  while (list[place] != rank)
    place++;
  CHECK(ncclCommSplit(world, child->color(rank), child->key(rank), &comm, NULL));
  for (uint64_t step = 0; step < STEPS && comm; step++) {
    float *sums = (float *)result;
    for (int shard = 0; shard < count; shard++)
      for (size_t i = 0; i < CHILD_N; i++)
        ((float *)send_buffer)[(size_t)shard * CHILD_N + i] = sparse_at(rank, step, (size_t)shard, i);
    CHECK(ncclReduceScatter(send_buffer, result, CHILD_N, ncclFloat32, ncclSum, comm, NULL));
    for (size_t i = 0; i < CHILD_N; i++) {
      float sum = 0;
      for (int m = 0; m < count; m++)
        sum += sparse_at(list[m], step, (size_t)place, i);
      good &= sums[i] == sum;
    }
  }
  if (comm)
    CHECK(ncclCommDestroy(comm));
  all_ok(good, "a child, %s: every result is exact", child->what);
}

int main(int argc, char **argv) {
  const bool is_errors = argc == 4 && strcmp(argv[1], "errors") == 0,
             is_bits = argc == 3 && strcmp(argv[1], "bits") == 0 && use_memory(argv[2]);
  if (!is_errors && !is_bits && (argc != 3 || strcmp(argv[1], "children") != 0)) {
    fprintf(stderr, "usage: levels errors LEAST MOST|bits host|cuda|children HOST,...\n");
    return 2;
  }
  meet();
  send_buffer = malloc(20001 * sizeof(float) * (size_t)nranks);
  result = malloc(20001 * sizeof(float));
  if (is_errors)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
      for (int average = 0; average < 2; average++)
        errors(t, average ? 20001 : 4099, average, atof(argv[2]), atof(argv[3]));
  else if (is_bits)
    bits();
  else
    read_hosts(argv[2]);
  for (size_t i = 0; i < sizeof children / sizeof *children && !is_errors && !is_bits; i++)
    run_child(&children[i]);
  free(send_buffer);
  free(result);
  return finish();
}
