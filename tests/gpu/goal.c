/* SPDX-License-Identifier: BSD-3-Clause
 * The collectives of an FSDP training of GPT-2 124M, step by step, with a substitute for its compute. They measure the
 * library's goal under any NCCL: the real one on a GPU (tests/gpu/run), or the stand-in.
 *
 *   goal STEPS MS sleep|copy DIVISOR    a step computes for MS milliseconds: sleeps in a host function that the stream
 *                                       waits for (the GPU idles), or copies on the GPU (its memory is busy)
 *
 * Units are the 12 blocks and the root (embeddings), in fp32, with their elements divided by DIVISOR. The forward pass
 * gathers each in place, then makes a third of its compute. The backward pass has the reverse order: it gathers blocks
 * once more, makes the rest of the compute, and reduce-scatters. All runs in the order of one stream, so nothing hides
 * communication. Weights change a little from step to step.
 *
 * RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them; all ranks use the first device. The program
 * knows nothing of tagc. Rank 0 prints "goal: " with names and numbers: milliseconds of a step and of its compute
 * (medians), and the bytes that a rank sends in a step. These are the minimum of plain calls.
 */
#include <time.h>

#include "tests/e2e/harness.h"
#include "tests/standin/cuda/device.h"

enum {
  BLOCKS = 12,
  UNITS = BLOCKS + 1,
  ROOT = 0,
  LEARNING = 4,
  ALONE = 3,
  MOST_STEPS = 1000,
  VERSIONS = 2,
  TILE = 1 << 16
};
enum { BLOCK_ELEMENTS = 7087872, ROOT_ELEMENTS = 39385344, MOST_COPIED = 64 << 20 };

struct unit {
  size_t n; /* elements of a shard */
  CUdeviceptr weights, gradient, shard, versions[VERSIONS];
};

static struct unit units[UNITS];
static CUstream stream;
static struct timespec rest; /* of a third of a unit's compute: asleep */
static CUdeviceptr spare;    /* or so many copies */
static int copies;
static size_t copied; /* bytes */

/* -- compute ------------------------------------------------------------------------------------------------------- */

static void sleep_now(void *unused) {
  (void)unused;
  nanosleep(&rest, NULL);
}

static void compute(int thirds) {
  for (int i = 0; i < thirds; i++) {
    if (!copies)
      MUST(cuLaunchHostFunc(stream, sleep_now, NULL));
    for (int k = 0; k < copies; k++)
      MUST(cuMemcpyDtoDAsync_v2(spare + copied, spare, copied, stream));
  }
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void choose_compute(double ms, bool by_copies, long divisor) {
  const double third = ms / (3 * UNITS);
  rest = (struct timespec){.tv_sec = (time_t)(third / 1e3), .tv_nsec = (long)(third * 1e6) % 1000000000};
  if (!by_copies || ms <= 0)
    return;
  copied = (size_t)(MOST_COPIED / divisor + 1);
  spare = device_buffer(2 * copied);
  copies = 8;
  compute(1);
  MUST(cuStreamSynchronize(stream));
  const double began = now_ms();
  compute(1);
  MUST(cuStreamSynchronize(stream));
  const double each = (now_ms() - began) / copies;
  copies = third > each ? (int)(third / each + 0.5) : 1;
}

/* -- a step -------------------------------------------------------------------------------------------------------- */

static void gather(const struct unit *u) {
  const CUdeviceptr own = u->weights + (size_t)rank * u->n * sizeof(float);
  CHECK(ncclAllGather((void *)(uintptr_t)own, (void *)(uintptr_t)u->weights, u->n, ncclFloat32, world,
                      (cudaStream_t)stream));
}

static void reduce(const struct unit *u) {
  CHECK(ncclReduceScatter((void *)(uintptr_t)u->gradient, (void *)(uintptr_t)u->shard, u->n, ncclFloat32, ncclAvg,
                          world, (cudaStream_t)stream));
}

/* Writes new weights to the rank's shards, like an optimizer. */
static void update(int step) {
  for (int i = 0; i < UNITS; i++)
    MUST(cuMemcpyDtoDAsync_v2(units[i].weights + (size_t)rank * units[i].n * sizeof(float),
                              units[i].versions[step % VERSIONS], units[i].n * sizeof(float), stream));
}

/* Makes a step. Returns its milliseconds. */
static double run_step(int step, bool communicates) {
  const double began = now_ms();
  update(step);
  for (int i = 0; i < UNITS; i++) {
    if (communicates)
      gather(&units[i]);
    compute(1);
  }
  for (int i = UNITS - 1; i >= 0; i--) {
    if (communicates && i != ROOT)
      gather(&units[i]);
    compute(2);
    if (communicates)
      reduce(&units[i]);
  }
  MUST(cuStreamSynchronize(stream));
  return now_ms() - began;
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

static float noise(uint64_t place) {
  float sum = 0;
  for (uint64_t i = 0; i < 4; i++)
    sum += (float)(mix(4 * place + i) >> 40) * 0x1p-24f - 0.5f;
  return sum;
}

/* Fills with a repeated tile of numbers about `scale`, each changed by a fraction of itself. */
static void fill(CUdeviceptr to, size_t n, float scale, float change, uint64_t seed) {
  static float tile[TILE];
  for (size_t i = 0; i < TILE; i++)
    tile[i] = scale * (noise(i + seed) + change * noise(i + seed + TILE));
  for (size_t i = 0; i < n; i += TILE)
    MUST(cuMemcpyHtoD_v2(to + i * sizeof(float), tile, (n - i < TILE ? n - i : TILE) * sizeof(float)));
}

static void make_units(size_t divisor) {
  for (int i = 0; i < UNITS; i++) {
    struct unit *u = &units[i];
    const size_t all = (i == ROOT ? ROOT_ELEMENTS : BLOCK_ELEMENTS) / divisor;
    const uint64_t seed = ((uint64_t)rank << 32) + (uint64_t)i * 3 * TILE;
    u->n = (all + (size_t)nranks - 1) / (size_t)nranks;
    u->weights = device_buffer((size_t)nranks * u->n * sizeof(float));
    u->gradient = device_buffer((size_t)nranks * u->n * sizeof(float));
    u->shard = device_buffer(u->n * sizeof(float));
    fill(u->gradient, (size_t)nranks * u->n, 1e-3f, 0, seed);
    for (int version = 0; version < VERSIONS; version++) {
      u->versions[version] = device_buffer(u->n * sizeof(float));
      fill(u->versions[version], u->n, 0.04f, version * 1e-3f, seed);
    }
  }
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *of, int count) {
  qsort(of, (size_t)count, sizeof *of, by_size);
  return of[count / 2];
}

int main(int argc, char **argv) {
  static double steps_ms[MOST_STEPS], alone_ms[ALONE];
  const long steps = argc == 5 ? atol(argv[1]) : 0, divisor = argc == 5 ? atol(argv[4]) : 0;
  const bool by_copies = argc == 5 && strcmp(argv[3], "copy") == 0;
  size_t reduced = 0, gathered = 0;
  if (steps < 1 || steps > MOST_STEPS || divisor < 1 || (!by_copies && strcmp(argv[3], "sleep") != 0)) {
    fprintf(stderr, "usage: goal STEPS MS sleep|copy DIVISOR\n");
    return 2;
  }
  device_open(0);
  meet();
  stream = device_stream(CU_STREAM_NON_BLOCKING);
  make_units((size_t)divisor);
  choose_compute(atof(argv[2]), by_copies, divisor);
  for (int i = 0; i < ALONE; i++)
    alone_ms[i] = run_step(i, false);
  for (int i = -LEARNING; i < steps; i++) {
    const double ms = run_step(i + LEARNING, true);
    if (i >= 0)
      steps_ms[i] = ms;
  }
  for (int i = 0; i < UNITS; i++) {
    reduced += (size_t)(nranks - 1) * units[i].n * sizeof(float);
    gathered += (size_t)(nranks - 1) * units[i].n * sizeof(float) * (i == ROOT ? 1 : 2);
  }
  if (rank == 0)
    printf("goal: step_ms=%.3f compute_ms=%.3f reduced_bytes=%zu gathered_bytes=%zu\n", median(steps_ms, (int)steps),
           median(alone_ms, ALONE), reduced, gathered);
  CHECK(ncclCommDestroy(world));
  return 0;
}
