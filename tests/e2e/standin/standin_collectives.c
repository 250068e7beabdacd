/* SPDX-License-Identifier: BSD-3-Clause
 * Compares every collective of the stand-in, with every type and operator, with a reference that each rank computes
 * from all ranks' inputs. These are small whole numbers, so any order of adding gives the same bits; averages are exact
 * to the rounding of their type. Then bits in the order of the ring, special values, and wrapping integers.
 */
#include "tests/e2e/standin/standin_check.h"

#define GUARD 64 /* bytes after each buffer that nobody may touch */
#define MOST_COUNT 70001
#define MOST_RANKS 8
#define HOST 32 /* bytes of a host's name */

static ncclComm_t comm;
static char *input, *output, *before;
static double scalars[MOST_RANKS]; /* of the ranks, for PreMulSum */
static double *wanted;             /* what expect() computed */

/* The factor of each input of an average. */
static double share_of(ncclDataType_t type, int nranks) {
  return type == ncclFloat64 ? 1.0 / nranks : round_to(type, (double)(float)(1.0 / nranks));
}

static double contribution(ncclDataType_t type, int op, uint32_t seed, int rank, size_t index) {
  double value = small_value(type, seed, rank, index);
  if (op == ncclAvg && is_float(type))
    return round_to(type, value * share_of(type, check_nranks));
  return op == ncclNumOps ? value * scalars[rank] : value;
}

static double reference(ncclDataType_t type, int op, uint32_t seed, size_t index) {
  double result = contribution(type, op, seed, 0, index);
  for (int r = 1; r < check_nranks; r++) {
    double value = contribution(type, op, seed, r, index);
    switch (op) {
    case ncclProd: result *= value; break;
    case ncclMax: result = fmax(result, value); break;
    case ncclMin: result = fmin(result, value); break;
    default: result += value;
    }
  }
  return op == ncclAvg && !is_float(type) ? trunc(result / check_nranks) : result;
}

static double tolerance(ncclDataType_t type, int op) {
  if (op != ncclAvg || (check_nranks & (check_nranks - 1)) == 0)
    return 0;
  switch (type) {
  case ncclBfloat16: return 0x1p-5;
  case ncclFloat16: return 0x1p-8;
  case ncclFloat32: return 1e-6;
  case ncclFloat64: return 1e-14;
  default: return 0;
  }
}

static void fill(ncclDataType_t type, uint32_t seed, size_t count) {
  for (size_t i = 0; i < count; i++)
    put(input, type, i, small_value(type, seed, check_rank, i));
  memset(input + count * type_sizes[type], 0x5a, GUARD);
  memset(output, 0x5a, count * type_sizes[type] + GUARD);
}

static bool guard_is_whole(const char *buffer, size_t size) {
  for (int i = 0; i < GUARD; i++)
    if (buffer[size + (size_t)i] != 0x5a)
      return false;
  return true;
}

/* Computes the elements first.. of the reduction: the calls in place and not in place have the same. */
static void expect(ncclDataType_t type, int op, uint32_t seed, size_t first, size_t count) {
  for (size_t i = 0; i < count; i++)
    wanted[i] = reference(type, op, seed, first + i);
}

/* True if result[0..count) are the expected elements. */
static bool matches(const char *result, ncclDataType_t type, int op, size_t count) {
  for (size_t i = 0; i < count; i++) {
    double got = get(result, type, i);
    if (!(fabs(got - wanted[i]) <= tolerance(type, op))) {
      printf("# %s %s element %zu of %zu: %g, not %g\n", type_names[type], op_names[op], i, count, got, wanted[i]);
      return false;
    }
  }
  return true;
}

static ncclRedOp_t operator_of(ncclDataType_t type, int op, ncclScalarResidence_t residence, void *scalar) {
  ncclRedOp_t made = (ncclRedOp_t)op;
  if (op == ncclNumOps) {
    put(scalar, type, 0, scalars[check_rank]);
    NEED(ncclRedOpCreatePreMulSum(&made, scalar, type, residence, comm));
    if (residence == ncclScalarHostImmediate)
      memset(scalar, 0x77, 8);
  }
  return made;
}

/* ReduceScatter, AllReduce and Reduce, out of place and in place. */
static bool reduces(ncclDataType_t type, int op, size_t count) {
  static uint32_t seed;
  uint64_t scalar = 0;
  size_t size = count * type_sizes[type], total = count * (size_t)check_nranks;
  ncclRedOp_t made = operator_of(type, op, ++seed & 1 ? ncclScalarDevice : ncclScalarHostImmediate, &scalar);
  char *shard = input + (size_t)check_rank * size;
  size_t first = (size_t)check_rank * count;
  int root = (int)(seed % (uint32_t)check_nranks);
  bool good = true;

  expect(type, op, seed, first, count);
  fill(type, seed, total);
  memcpy(before, input, total * type_sizes[type]);
  NEED(ncclReduceScatter(input, output, count, type, made, comm, NULL));
  good &= matches(output, type, op, count) && guard_is_whole(output, size);
  good &= memcmp(input, before, total * type_sizes[type]) == 0;
  NEED(ncclReduceScatter(input, shard, count, type, made, comm, NULL));
  good &= matches(shard, type, op, count);
  memcpy(shard, before + (size_t)check_rank * size, size);
  good &= memcmp(input, before, total * type_sizes[type]) == 0;

  expect(type, op, seed, 0, count);
  fill(type, seed, count);
  NEED(ncclAllReduce(input, output, count, type, made, comm, NULL));
  good &= matches(output, type, op, count) && guard_is_whole(output, size);
  NEED(ncclAllReduce(input, input, count, type, made, comm, NULL));
  good &= matches(input, type, op, count) && guard_is_whole(input, size);

  fill(type, seed, count);
  NEED(ncclReduce(input, check_rank == root ? output : NULL, count, type, made, root, comm, NULL));
  good &= check_rank != root || (matches(output, type, op, count) && guard_is_whole(output, size));
  NEED(ncclReduce(input, input, count, type, made, root, comm, NULL));
  good &= check_rank != root || (matches(input, type, op, count) && guard_is_whole(input, size));
  if (op == ncclNumOps)
    NEED(ncclRedOpDestroy(made, comm));
  return good;
}

static void test_reductions(void) {
  static const size_t counts[] = {0, 1, 2, 3, 17, 1021, MOST_COUNT};
  for (int type = 0; type <= (int)ncclBfloat16; type++)
    for (int op = 0; op <= ncclNumOps; op++) {
      bool good = true;
      size_t ncounts = sizeof counts / sizeof counts[0];
      if (op != ncclSum && type != ncclFloat32)
        ncounts--;
      for (size_t i = 0; i < ncounts; i++)
        good &= reduces((ncclDataType_t)type, op, counts[i]);
      check(good, "%s %s: ReduceScatter, AllReduce, Reduce, in place and not", type_names[type], op_names[op]);
    }
}

/* True if the buffer holds the bytes of rank `rank` from `offset` on, for collectives that only move them. */
static bool holds_bytes(const char *buffer, uint32_t seed, int rank, size_t offset, size_t size) {
  for (size_t i = 0; i < size; i++)
    if ((uint8_t)buffer[i] != (uint8_t)mix(seed, rank, offset + i))
      return false;
  return true;
}

static void fill_bytes(char *buffer, uint32_t seed, size_t offset, size_t size) {
  for (size_t i = 0; i < size; i++)
    buffer[i] = (char)mix(seed, check_rank, offset + i);
}

static bool gathers(ncclDataType_t type, size_t count, uint32_t seed, int root) {
  size_t size = count * type_sizes[type], n = (size_t)check_nranks;
  bool good = true, is_root = check_rank == root;
  char *own = output + (size_t)check_rank * size;

  memset(output, 0x5a, n * size + GUARD);
  fill_bytes(input, seed, 0, size);
  NEED(ncclAllGather(input, output, count, type, comm, NULL));
  for (int r = 0; r < check_nranks; r++)
    good &= holds_bytes(output + (size_t)r * size, seed, r, 0, size);
  good &= guard_is_whole(output, n * size);
  memset(output, 0, n * size);
  fill_bytes(own, seed, 0, size);
  NEED(ncclAllGather(own, output, count, type, comm, NULL));
  for (int r = 0; r < check_nranks; r++)
    good &= holds_bytes(output + (size_t)r * size, seed, r, 0, size);

  memset(output, 0x5a, n * size + GUARD);
  NEED(ncclGather(input, is_root ? output : NULL, count, type, root, comm, NULL));
  for (int r = 0; is_root && r < check_nranks; r++)
    good &= holds_bytes(output + (size_t)r * size, seed, r, 0, size);
  good &= guard_is_whole(output, is_root ? n * size : 0);
  fill_bytes(own, seed, 0, size);
  NEED(ncclGather(own, output, count, type, root, comm, NULL));
  for (int r = 0; is_root && r < check_nranks; r++)
    good &= holds_bytes(output + (size_t)r * size, seed, r, 0, size);
  return good;
}

static bool distributes(ncclDataType_t type, size_t count, uint32_t seed, int root) {
  size_t size = count * type_sizes[type], n = (size_t)check_nranks;
  bool good = true, is_root = check_rank == root;

  memset(output, 0x5a, n * size + GUARD);
  fill_bytes(input, seed, 0, n * size);
  NEED(ncclBroadcast(is_root ? input : NULL, output, count, type, root, comm, NULL));
  good &= holds_bytes(output, seed, root, 0, size) && guard_is_whole(output, size);
  fill_bytes(output, seed, 0, size);
  NEED(ncclBcast(output, count, type, root, comm, NULL));
  good &= holds_bytes(output, seed, root, 0, size);

  memset(output, 0x5a, n * size + GUARD);
  NEED(ncclScatter(is_root ? input : NULL, output, count, type, root, comm, NULL));
  good &= holds_bytes(output, seed, root, (size_t)check_rank * size, size) && guard_is_whole(output, size);
  if (is_root)
    NEED(ncclScatter(input, input + (size_t)root * size, count, type, root, comm, NULL));
  else
    NEED(ncclScatter(NULL, output, count, type, root, comm, NULL));
  good &= holds_bytes(is_root ? input + (size_t)root * size : output, seed, root, (size_t)check_rank * size, size);

  memset(output, 0x5a, n * size + GUARD);
  NEED(ncclAlltoAll(input, output, count, type, comm, NULL));
  for (int r = 0; r < check_nranks; r++)
    good &= holds_bytes(output + (size_t)r * size, seed, r, (size_t)check_rank * size, size);
  return good && guard_is_whole(output, n * size);
}

static void test_moves(void) {
  static const size_t counts[] = {0, 1, 7, 1021, MOST_COUNT};
  uint32_t seed = 1000;
  for (int type = 0; type < ncclNumTypes; type++) {
    bool gathered = true, distributed = true;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++, seed++) {
      if (counts[i] == MOST_COUNT && type != ncclFloat32 && type != ncclUint8)
        continue;
      gathered &= gathers((ncclDataType_t)type, counts[i], seed, (int)(seed % (uint32_t)check_nranks));
      distributed &= distributes((ncclDataType_t)type, counts[i], seed, (int)(seed / 2 % (uint32_t)check_nranks));
    }
    check(gathered, "%s: AllGather and Gather, in place and not", type_names[type]);
    check(distributed, "%s: Broadcast, Bcast, Scatter, AlltoAll", type_names[type]);
  }
}

/* Values of many magnitudes, so additions round. */
static double rough_value(ncclDataType_t type, int rank, size_t index) {
  int shift = type == ncclFloat16 ? -17 - (int)(index % 24) : -(int)(index % 48);
  return round_to(type, ldexp((double)mix(7, rank, index) - 0x1p31, shift));
}

/* Finds the ring of a communicator: host by host, in the order of their lowest ranks. Returns this rank's place. */
static int find_ring(ncclComm_t on, int nranks, int rank, int *ring) {
  const char *host = getenv("NCCL_HOSTID");
  char hosts[MOST_RANKS][HOST] = {""};
  int placed = 0, place = -1;
  bool seen[MOST_RANKS] = {false};
  strncpy(hosts[rank], host ? host : "", HOST - 1);
  NEED(ncclAllGather(hosts[rank], hosts, HOST, ncclInt8, on, NULL));
  while (placed < nranks) {
    int lowest = 0;
    while (seen[lowest])
      lowest++;
    for (int r = 0; r < nranks; r++)
      if (strcmp(hosts[r], hosts[lowest]) == 0) {
        seen[r] = true;
        place = r == rank ? placed : place;
        ring[placed++] = r;
      }
  }
  return place;
}

/* Sums a shard around the ring, from the rank after its owner to the owner, and rounds after every addition. */
static double ring_sum(ncclDataType_t type, double share, const int *ring, int nranks, int place, size_t index) {
  double sum = 0;
  for (int k = 1; k <= nranks; k++) {
    double value = round_to(type, rough_value(type, ring[(place + k) % nranks], index) * share);
    sum = k == 1 ? value : round_to(type, sum + value);
  }
  return sum;
}

static void test_ring_order(ncclComm_t on, const char *name) {
  static const ncclDataType_t types[] = {ncclFloat16, ncclBfloat16, ncclFloat32, ncclFloat64};
  const size_t count = 4099;
  int ring[MOST_RANKS], nranks, rank;
  NEED(ncclCommCount(on, &nranks));
  NEED(ncclCommUserRank(on, &rank));
  int place = find_ring(on, nranks, rank, ring);
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
    for (int op = ncclSum; op <= ncclAvg; op += ncclAvg) {
      double share = op == ncclAvg ? share_of(types[t], nranks) : 1;
      size_t wrong = 0;
      for (size_t i = 0; i < count * (size_t)nranks; i++)
        put(input, types[t], i, rough_value(types[t], rank, i));
      NEED(ncclReduceScatter(input, output, count, types[t], (ncclRedOp_t)op, on, NULL));
      for (size_t i = 0; i < count; i++)
        wrong += get(output, types[t], i) != ring_sum(types[t], share, ring, nranks, place, (size_t)rank * count + i);
      check(wrong == 0, "%s, %s %s: every bit is that of a ring (%zu of %zu differ)", name, type_names[types[t]],
            op_names[op], wrong, count);
    }
}

/* Children have their own rings. */
static void test_rings_of_children(void) {
  ncclComm_t child, rest = NULL;
  int excluded = 0, last = check_nranks - 1;
  NEED(ncclCommSplit(comm, 0, -check_rank, &child, NULL));
  test_ring_order(child, "a split in falling order");
  NEED(ncclCommDestroy(child));
  NEED(ncclCommSplit(comm, check_rank % 2, 0, &child, NULL));
  test_ring_order(child, "a split into two");
  NEED(ncclCommDestroy(child));
  if (last > 0) { /* the last rank joins the communicator of the others */
    ncclUniqueId id = {{0}};
    NEED(ncclCommSplit(comm, check_rank == last ? NCCL_SPLIT_NOCOLOR : 0, check_rank, &rest, NULL));
    if (check_rank == 0)
      NEED(ncclCommGetUniqueId(rest, &id));
    NEED(ncclBroadcast(&id, &id, sizeof id, ncclInt8, 0, comm, NULL));
    NEED(ncclCommGrow(rest, check_nranks, check_rank == 0 || !rest ? &id : NULL, rest ? -1 : last, &child, NULL));
    test_ring_order(child, "a grow");
    NEED(ncclCommDestroy(child));
    NEED(ncclCommDestroy(rest));
  }
  if (check_rank == 0)
    return;
  NEED(ncclCommShrink(comm, &excluded, 1, &rest, NULL, NCCL_SHRINK_DEFAULT));
  test_ring_order(rest, "a shrink");
  NEED(ncclCommDestroy(rest));
}

static void test_special_values(void) {
  static const ncclDataType_t types[] = {ncclFloat16, ncclBfloat16, ncclFloat32, ncclFloat64};
  for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
    ncclDataType_t type = types[t];
    for (size_t i = 0; i < 5; i++)
      put(input, type, i, i < 3 ? 1 : INFINITY);
    if (check_rank == 0)
      put(input, type, 1, -INFINITY);
    memset(input + 2 * type_sizes[type], 0xff, type_sizes[type]); /* NaN in all four */
    NEED(ncclAllReduce(input, output, 5, type, ncclSum, comm, NULL));
    check(get(output, type, 0) == check_nranks && get(output, type, 1) == -INFINITY && isnan(get(output, type, 2)) &&
            get(output, type, 3) == INFINITY,
          "%s: infinities and NaN come out where they went in", type_names[type]);
  }
  put(input, ncclFloat16, 0, 65504);
  NEED(ncclAllReduce(input, output, 1, ncclFloat16, ncclSum, comm, NULL));
  check(get(output, ncclFloat16, 0) == (check_nranks == 1 ? 65504 : INFINITY), "float16 overflows to infinity");
}

static void test_wrapping(void) {
  int8_t small = 100, small_sum = (int8_t)(uint8_t)(100 * check_nranks);
  int64_t large = INT64_MAX, large_sum = (int64_t)((uint64_t)INT64_MAX * (uint64_t)check_nranks);
  NEED(ncclAllReduce(&small, &small, 1, ncclInt8, ncclSum, comm, NULL));
  NEED(ncclAllReduce(&large, &large, 1, ncclInt64, ncclSum, comm, NULL));
  check(small == small_sum && large == large_sum, "integer sums wrap");
  int32_t negative = check_rank == 0 ? -7 : 0;
  NEED(ncclAllReduce(&negative, &negative, 1, ncclInt32, ncclAvg, comm, NULL));
  check(negative == -7 / check_nranks, "a signed average is rounded towards zero");
}

int main(void) {
  comm = check_world();
  if (check_nranks > MOST_RANKS)
    return 2;
  size_t size = (size_t)check_nranks * MOST_COUNT * 8 + GUARD;
  input = malloc(size);
  output = malloc(size);
  before = malloc(size);
  wanted = malloc(MOST_COUNT * sizeof *wanted);
  if (!input || !output || !before || !wanted)
    return 1;
  for (int i = 0; i < MOST_RANKS; i++)
    scalars[i] = i % 4 + 1;
  test_reductions();
  test_moves();
  test_ring_order(comm, "all ranks");
  test_rings_of_children();
  test_special_values();
  test_wrapping();
  NEED(ncclCommDestroy(comm));
  free(input);
  free(output);
  free(before);
  free(wanted);
  return check_done();
}
