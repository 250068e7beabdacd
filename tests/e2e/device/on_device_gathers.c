/* SPDX-License-Identifier: BSD-3-Clause
 * A training's all-gathers and reduce-scatters on host memory or on a GPU. Prints, rank by rank and step by step, a
 * line with the hash of each result; both memories must give the same lines. Every unit is gathered before its forward
 * and before its backward pass, and reduced after that. All-gathers and reductions have their own streams, which wait
 * for one another only at the end of a step.
 *
 *   on_device_gathers host|cuda fp32|fp16|bf16 STEPS [in-place|again|fresh|messages]
 *
 * It runs under launch, with --cuda for cuda.
 *
 * again: in one step all ranks gather a unit once more. On a GPU the first of these calls fails, because its receive
 * buffer is not aligned. messages: each step ends with messages from rank to rank. fresh: gradients differ wholly from
 * step to step; otherwise by little, like the parameters.
 *
 * Parameters change a little from step to step, and much in one step; in one step some are not finite.
 */
#include "env/hash.h"
#include "tests/e2e/device/either_memory.h"

enum { UNITS = 4, AGAIN = 6, JUMP = 7, ODD = 9 };

static const size_t counts[UNITS] = {4096, 10001, 5003, 3000};

static ncclDataType_t type;
static bool in_place, again, fresh, messages, fails;
static char *shard[UNITS], *whole[UNITS], *gradient[UNITS], *reduced[UNITS], *host;

static float parameter(int step, int unit, size_t i) {
  const uint64_t h = mix(mix((uint64_t)rank << 40 ^ (uint64_t)unit << 20 ^ (uint64_t)(step >= JUMP) << 50) ^ i);
  const float x = (float)(h & 0xffffff) / 8388608 - 1, y = (float)(h >> 24 & 0xffffff) / 8388608 - 1;
  if (step == ODD && i % 1009 == 7)
    return h & 1 ? INFINITY : NAN;
  return 0.05f * x * y + 1e-4f * x * (float)step;
}

static float gradient_of(int step, int unit, size_t i) {
  return fresh ? parameter(0, unit + UNITS * step, i) : parameter(step + 100, unit, i);
}

static void fill(int step, int unit) {
  char *to = in_place ? whole[unit] + (size_t)rank * counts[unit] * size_of(type) : shard[unit];
  for (size_t i = 0; i < counts[unit]; i++)
    store(host, i, parameter(step, unit, i), type);
  memory.copy(to, host, counts[unit] * size_of(type), true);
  for (size_t i = 0; i < (size_t)nranks * counts[unit]; i++)
    store(host, i, gradient_of(step, unit, i), type);
  memory.copy(gradient[unit], host, (size_t)nranks * counts[unit] * size_of(type), true);
}

static void gather(int unit) {
  const char *from = in_place ? whole[unit] + (size_t)rank * counts[unit] * size_of(type) : shard[unit];
  CHECK(ncclAllGather(from, whole[unit], counts[unit], type, world, memory.stream[0]));
}

/* Gathers to an unaligned buffer, which no kernel accepts. */
static void gather_wrongly(int unit) {
  if (fails)
    fails = ncclAllGather(shard[unit], whole[unit] + 1, counts[unit], type, world, memory.stream[0]) != ncclSuccess;
  else
    gather(unit);
}

static void tell(int step, int unit, const char *what, const char *from, size_t bytes) {
  memory.copy(host, from, bytes, false);
  printf("step %d %s %d rank %d %016llx\n", step, what, unit, rank,
         (unsigned long long)tagc_hash_add(TAGC_HASH_START, host, bytes));
}

/* Around the ring of ranks, of what was gathered first. The buffer of reduced gradients of unit 1 has room beyond. */
static void send_messages(void) {
  enum { SENT = 16 };
  char *to = reduced[1] + counts[1] * size_of(type);
  CHECK(ncclGroupStart());
  CHECK(ncclSend(whole[0], SENT, type, (rank + 1) % nranks, world, memory.stream[0]));
  CHECK(ncclRecv(to, SENT, type, (rank + nranks - 1) % nranks, world, memory.stream[0]));
  CHECK(ncclGroupEnd());
}

static void run_step(int step) {
  for (int unit = 0; unit < UNITS; unit++)
    fill(step, unit);
  for (int unit = 0; unit < UNITS; unit++) {
    if (again && step == AGAIN && unit == 1)
      gather_wrongly(unit);
    gather(unit);
  }
  for (int unit = UNITS - 1; unit >= 0; unit--) {
    gather(unit);
    CHECK(ncclReduceScatter(gradient[unit], reduced[unit], counts[unit], type, ncclSum, world, memory.stream[1]));
  }
  if (messages)
    send_messages();
  memory.synchronize();
  for (int unit = 0; unit < UNITS; unit++) {
    tell(step, unit, "gathered", whole[unit], (size_t)nranks * counts[unit] * size_of(type));
    tell(step, unit, "reduced", reduced[unit], counts[unit] * size_of(type));
  }
}

int main(int argc, char **argv) {
  static const char *const names[] = {"fp32", "fp16", "bf16"};
  static const ncclDataType_t types[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  int which = 0;
  while (argc > 3 && which < 3 && strcmp(argv[2], names[which]) != 0)
    which++;
  if (argc < 4 || which == 3 || !use_memory(argv[1])) {
    fprintf(stderr, "usage: on_device_gathers host|cuda fp32|fp16|bf16 STEPS [in-place|again|fresh|messages]\n");
    return 2;
  }
  type = types[which];
  in_place = argc > 4 && strcmp(argv[4], "in-place") == 0;
  fresh = argc > 4 && strcmp(argv[4], "fresh") == 0;
  messages = argc > 4 && strcmp(argv[4], "messages") == 0;
  again = argc > 4 && strcmp(argv[4], "again") == 0;
  fails = strcmp(argv[1], "cuda") == 0;
  setvbuf(stdout, NULL, _IOLBF, 0); /* keeps lines whole: the ranks share a pipe */
  meet();
  host = malloc((size_t)nranks * counts[1] * sizeof(float));
  for (int unit = 0; unit < UNITS; unit++) {
    shard[unit] = memory.alloc(counts[unit] * sizeof(float));
    whole[unit] = memory.alloc((size_t)nranks * counts[unit] * sizeof(float));
    gradient[unit] = memory.alloc((size_t)nranks * counts[unit] * sizeof(float));
    reduced[unit] = memory.alloc((counts[unit] + 16) * sizeof(float));
    if (!host || !shard[unit] || !whole[unit] || !gradient[unit] || !reduced[unit])
      return 1;
  }
  for (int step = 0; step < atoi(argv[3]); step++)
    run_step(step);
  if (again && fails != (strcmp(argv[1], "cuda") == 0)) {
    fprintf(stderr, "the call that cannot be made has not failed\n");
    return 1;
  }
  free(host);
  CHECK(ncclCommDestroy(world));
  return 0;
}
