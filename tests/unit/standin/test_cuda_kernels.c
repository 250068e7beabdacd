/* SPDX-License-Identifier: BSD-3-Clause
 * The stand-in for the CUDA driver runs kernels: results are those of the language, in any starting order of the
 * threads, and errors in a kernel are found and named.
 */
#include <math.h>
#include <signal.h>
#include <stdint.h>

#include "tests/unit/device/cuda_child.h"

enum { N = 10007 };

static uint32_t noise(uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

static uint32_t words[N];

static void fill_words(void) {
  for (uint32_t i = 0; i < N; i++)
    words[i] = noise(i);
}

/* -- kernels that are right ---------------------------------------------------------------------------------------- */
static void plain(void) {
  static float x[N], y[N], out[N];
  device_open(0);
  for (int i = 0; i < N; i++) {
    x[i] = (float)(noise((uint32_t)i) % 1000) / 7;
    y[i] = (float)(noise((uint32_t)i + N) % 1000) / 3;
  }
  CUdeviceptr dx = device_copy(x, sizeof x), dy = device_copy(y, sizeof y), dout = device_buffer(sizeof out);
  float a = 1.7f;
  unsigned n = N;
  MUST(LAUNCH(device_kernel("axpy"), 13, 256, 0, NULL, &a, &dx, &dy, &dout, &n));
  device_read(out, dout, sizeof out);
  for (int i = 0; i < N; i++)
    EXPECT(out[i] == a * x[i] + y[i]);
}

static void vectors(void) {
  static uint32_t out[N];
  device_open(0);
  fill_words();
  unsigned n = N / 4;
  CUdeviceptr x = device_copy(words, sizeof words), o = device_buffer(sizeof words);
  MUST(LAUNCH(device_kernel("add_vectors"), (n + 95) / 96, 96, 0, NULL, &x, &o, &n));
  device_read(out, o, n * 16);
  for (unsigned i = 0; i < n * 4; i++)
    EXPECT(out[i] == words[i] + (i % 4 < 3 ? i % 4 + 1 : i / 4));
}

static void reduction(void) {
  uint64_t total = 5, wanted = 5;
  device_open(0);
  for (uint32_t i = 0; i < N; i++)
    wanted += words[i] = noise(i) >> 12;
  unsigned n = N;
  CUdeviceptr x = device_copy(words, sizeof words), t = device_copy(&total, sizeof total);
  MUST(LAUNCH(device_kernel("sum"), 7, 256, 0, NULL, &x, &n, &t));
  device_read(&total, t, sizeof total);
  EXPECT(total == wanted);
}

static void histogram(void) {
  enum { BINS = 1000 };
  static uint32_t counts[BINS], wanted[BINS];
  device_open(0);
  fill_words();
  for (int i = 0; i < N; i++)
    wanted[words[i] % BINS]++;
  struct {
    CUdeviceptr x, counts;
    unsigned n, bins;
  } arguments = {device_copy(words, sizeof words), device_copy(counts, sizeof counts), N, BINS};
  MUST(LAUNCH(device_kernel("histogram"), 5, 192, BINS * 4, NULL, &arguments));
  device_read(counts, arguments.counts, sizeof counts);
  EXPECT(memcmp(counts, wanted, sizeof counts) == 0);
}

static void cooperative(void) {
  enum { BLOCKS = 6, THREADS = 64, M = BLOCKS * THREADS };
  uint32_t state[2] = {0, 0xffffffff}, got[M]; /* the count of barriers wraps around */
  unsigned rounds = 9;
  device_open(0);
  fill_words();
  CUdeviceptr x = device_copy(words, sizeof got), next = device_buffer(sizeof got),
              s = device_copy(state, sizeof state);
  for (int launch = 0; launch < 2; launch++)
    MUST(LAUNCH_COOPERATIVE(device_kernel("neighbours"), BLOCKS, THREADS, 0, NULL, &x, &next, &rounds, &s));
  device_read(got, x, sizeof got);
  for (unsigned round = 0; round < 2 * rounds; round++) {
    uint32_t first = words[0];
    for (int i = 0; i < M; i++)
      words[i] += i + 1 < M ? words[i + 1] : first;
  }
  EXPECT(memcmp(got, words, sizeof got) == 0);
}

/* The words that a lane reads in `warps`, or leaves unchanged. */
static void warps(void) {
  enum { UNTOUCHED = 0xcdcdcdcd };
  uint32_t out[48][16];
  device_open(0);
  CUdeviceptr o = device_buffer(sizeof out);
  MUST(LAUNCH(device_kernel("warps"), 1, 48, 0, NULL, &o));
  device_read(out, o, sizeof out);
  for (uint32_t t = 0; t < 48; t++) {
    const uint32_t lane = t % 32, base = t - lane, there = t < 32 ? 0xffffffff : 0xffff, last = t < 32 ? 31 : 15;
    const uint32_t odd = lane % 2, mine = odd ? there & 0xaaaaaaaa : there & 0x55555555, group = lane / 5;
    float from_lane;
    memcpy(&from_lane, &out[t][7], 4);
    EXPECT(out[t][0] == base + 3);
    EXPECT(out[t][1] == (lane >= 2 ? t - 2 : t));
    EXPECT(out[t][2] == (lane % 8 < 7 ? t + 1 : t));
    EXPECT(out[t][3] == (t ^ 5));
    EXPECT(out[t][4] == (0x49249249u & there));
    EXPECT(out[t][5] == (t < 32 ? 1 : 2));
    EXPECT(from_lane == (float)(lane < 16 ? base + 15 : base + 31));
    EXPECT(out[t][8] == (odd ? base + 5 : UNTOUCHED));
    EXPECT(out[t][9] == (odd ? (t < 32 ? mine & 0xfffe0000 : mine) : t < 32 ? mine & 0xffff : 0));
    uint32_t alike = 0;
    for (uint32_t i = 0; i <= last; i++)
      alike |= (i / 5 == group ? 1u : 0) << i;
    EXPECT(out[t][10] == alike);
    EXPECT(out[t][11] == base + 1);
    EXPECT(out[t][12] == (t < 32 ? 496 : UNTOUCHED));
    EXPECT(out[t][13] == (t < 32 ? 1 : UNTOUCHED));
    EXPECT(out[t][14] == (t < 32 && lane >= 8 ? 31 : UNTOUCHED));
    EXPECT(out[t][15] == (t < 32 && lane != 31 ? 0x7fffffff : UNTOUCHED));
  }
}

static void votes(void) {
  enum { BLOCKS = 4, THREADS = 100 };
  uint32_t x[BLOCKS * THREADS];
  int out[BLOCKS][3];
  device_open(0);
  for (int i = 0; i < BLOCKS * THREADS; i++)
    x[i] = i / THREADS == 0 ? 0 : i / THREADS == 1 ? 1 : (uint32_t)i;
  CUdeviceptr dx = device_copy(x, sizeof x), o = device_buffer(sizeof out);
  MUST(LAUNCH(device_kernel("votes"), BLOCKS, THREADS, 0, NULL, &dx, &o));
  device_read(out, o, sizeof out);
  const int wanted[BLOCKS][3] = {{0, 0, 0}, {100, 1, 1}, {50, 1, 0}, {50, 1, 0}};
  EXPECT(memcmp(out, wanted, sizeof out) == 0);
}

static void places(void) {
  enum { BLOCKS = 3 * 2 * 2, THREADS = 4 * 3 * 5 };
  uint32_t out[BLOCKS * THREADS] = {0};
  device_open(0);
  CUdeviceptr o = device_copy(out, sizeof out);
  MUST(cuLaunchKernel(device_kernel("places"), 3, 2, 2, 4, 3, 5, 0, NULL, (void *[]){&o}, NULL));
  device_read(out, o, sizeof out);
  for (uint32_t i = 0; i < BLOCKS * THREADS; i++)
    EXPECT(out[i] == 1 + i / THREADS * 1000 + i % THREADS);
}

static uint32_t reversed(uint32_t x) {
  uint32_t y = 0;
  for (int i = 0; i < 32; i++)
    y |= (x >> i & 1) << (31 - i);
  return y;
}

static uint32_t count_leading(uint64_t x, int width) {
  uint32_t zeros = 0;
  while (width-- > 0 && !(x >> width & 1))
    zeros++;
  return zeros;
}

static uint32_t permuted(uint32_t x, uint32_t y, uint32_t selector) {
  uint32_t result = 0;
  for (int i = 0; i < 4; i++) {
    uint32_t which = selector >> 4 * i & 7, sign = selector >> 4 * i & 8;
    uint32_t byte = (which < 4 ? x >> 8 * which : y >> 8 * (which - 4)) & 255;
    result |= (sign ? (byte >> 7) * 255 : byte) << 8 * i;
  }
  return result;
}

static bool same_float(uint32_t bits, float wanted) {
  float got;
  memcpy(&got, &bits, 4);
  return (isnan(got) && isnan(wanted)) || memcmp(&bits, &wanted, 4) == 0;
}

static void bits(void) {
  static uint32_t out[N][16];
  device_open(0);
  fill_words();
  words[0] = 0;
  words[1] = 1;
  words[2] = 0x80000000;
  unsigned n = N;
  CUdeviceptr x = device_copy(words, sizeof words), o = device_buffer(sizeof out);
  MUST(LAUNCH(device_kernel("bits"), (N + 127) / 128, 128, 0, NULL, &x, &o, &n));
  device_read(out, o, sizeof out);
  for (uint32_t i = 0; i < N; i++) {
    uint32_t v = words[i], w = words[(i + 1) % N], r = v % 11, first = v ? 1 : 0;
    uint64_t wide = (uint64_t)w << 32 | v, sum;
    float f, g;
    memcpy(&f, &v, 4);
    memcpy(&g, &w, 4);
    while (v && !(v >> (first - 1) & 1))
      first++;
    EXPECT(out[i][0] == ((uint32_t)__builtin_popcount(v) | count_leading(v, 32) << 8 | first << 16));
    EXPECT(out[i][1] == reversed(v));
    EXPECT(out[i][2] == permuted(v, w, w));
    EXPECT(out[i][3] == ((uint32_t)__builtin_popcountll(wide) | count_leading(wide, 64) << 8));
    EXPECT(same_float(out[i][4], f * g) && same_float(out[i][5], f + g) && same_float(out[i][6], f / g));
    EXPECT(same_float(out[i][7], fmaf(f, g, f)));
    EXPECT(out[i][8] == (r > 5 ? r : 5) && out[i][9] == (r < 5 ? r : 5));
    EXPECT(out[i][10] == ((v | w) & 0xffff00ff) && out[i][11] == (v ^ (v | w)));
    EXPECT(out[i][13] == 1 && out[i][12] == 7);
    memcpy(&sum, &out[i][14], 8);
    EXPECT(sum == (wide ? wide : 1));
  }
}

/* A lane's reductions over every third lane. */
static void expect_reductions(const uint32_t *o, unsigned lane) {
  uint32_t add = 0, least = UINT32_MAX, most = 0, and = UINT32_MAX, or = 0, xor = 0;
  int32_t least_signed = INT32_MAX, most_signed = INT32_MIN;
  for (unsigned i = lane % 3; i < 32; i += 3) {
    const uint32_t v = words[i];
    const int32_t s = (int32_t)v;
    add += v;
    least = v < least ? v : least;
    most = v > most ? v : most;
    least_signed = s < least_signed ? s : least_signed;
    most_signed = s > most_signed ? s : most_signed;
    and &= v | 0xffff;
    or |= v & 0xff;
    xor ^= v;
  }
  EXPECT(o[0] == add && o[1] == least && o[2] == most);
  EXPECT((int32_t)o[3] == least_signed && (int32_t)o[4] == most_signed);
  EXPECT(o[5] == and&&o[6] == or &&o[7] == xor);
}

static void reductions(void) {
  static uint32_t out[32][16];
  device_open(0);
  fill_words();
  words[2] = 0;
  words[3] = 0;
  CUdeviceptr x = device_copy(words, 32 * sizeof *words), o = device_buffer(sizeof out);
  MUST(LAUNCH(device_kernel("reductions"), 1, 32, 0, NULL, &x, &o));
  device_read(out, o, sizeof out);
  for (unsigned lane = 0; lane < 32; lane++) {
    const uint32_t v = words[lane], w = words[(lane + 1) % 32], *got = out[lane];
    const uint64_t wide = (uint64_t)w << 32 | v, shifted = wide << (lane & 31);
    unsigned first = 0;
    while (first < 64 && !(wide >> first & 1))
      first++;
    expect_reductions(got, lane);
    EXPECT(got[8] == reversed(w) && got[9] == reversed(v) && got[10] == (wide ? first + 1 : 0));
    EXPECT(got[11] == (uint32_t)(shifted >> 32) && got[12] == (uint32_t)(wide >> (lane & 31)));
    EXPECT(got[13] + 1 == (uint32_t)((uint64_t)v * w >> 32) && got[15] == 1);
    __extension__ typedef unsigned __int128 square;
    EXPECT(got[14] == (uint32_t)((square)wide * wide >> 96));
  }
}

static void all_kernels(void) {
  plain();
  vectors();
  reduction();
  histogram();
  cooperative();
  warps();
  votes();
  places();
  bits();
  reductions();
}

/* -- kernels that are wrong ---------------------------------------------------------------------------------------- */
static void run_wrong(const char *name, unsigned threads) {
  uint32_t zeros[64] = {0};
  device_open(0);
  CUdeviceptr out = device_copy(zeros, sizeof zeros);
  MUST(LAUNCH(device_kernel(name), 2, threads, 0, NULL, &out));
  MUST(cuCtxSynchronize());
}

static void leaves_early(void) { run_wrong("leaves_early", 64); }
static void two_barriers(void) { run_wrong("two_barriers", 64); }
static void missing_lanes(void) { run_wrong("missing_lanes", 64); }
static void not_in_mask(void) { run_wrong("not_in_mask", 32); }
static void masks_differ(void) { run_wrong("masks_differ", 3); }
static void waits_forever(void) { run_wrong("waits_forever", 2); }
static void gives_up(void) { run_wrong("gives_up", 32); }

static void not_cooperative(void) {
  uint32_t state[2] = {0, 0};
  unsigned rounds = 1;
  device_open(0);
  CUdeviceptr x = device_buffer(1024), next = device_buffer(1024), s = device_copy(state, sizeof state);
  MUST(LAUNCH(device_kernel("neighbours"), 4, 64, 0, NULL, &x, &next, &rounds, &s));
  MUST(cuCtxSynchronize());
}

static void beyond_buffer(void) {
  device_open(0);
  CUdeviceptr out = device_buffer(4000);
  unsigned at = 1024;
  MUST(LAUNCH(device_kernel("beyond"), 1, 1, 0, NULL, &out, &at));
  MUST(cuCtxSynchronize());
}

/* The first word after the buffer: only the address sanitizer detects it. */
static void just_beyond(void) {
  device_open(0);
  CUdeviceptr out = device_buffer(4000);
  unsigned at = 1000;
  MUST(LAUNCH(device_kernel("beyond"), 1, 1, 0, NULL, &out, &at));
  MUST(cuCtxSynchronize());
}

static void beyond_shared(void) {
  device_open(0);
  CUdeviceptr out = device_buffer(256);
  unsigned at = 1;
  MUST(LAUNCH(device_kernel("beyond_shared"), 1, 64, 256, NULL, &out, &at));
  MUST(cuCtxSynchronize());
}

static void follow(void) {
  device_open(0);
  CUdeviceptr target = device_buffer(4), at = device_copy(&target, sizeof target);
  MUST(LAUNCH(device_kernel("follow"), 1, 1, 0, NULL, &at));
  MUST(cuCtxSynchronize());
}

static void stale_shared(void) {
  uint32_t out[4];
  device_open(0);
  CUdeviceptr o = device_buffer(sizeof out);
  for (int i = 0; i < 2; i++)
    MUST(LAUNCH(device_kernel("stale_shared"), 3, 4, 0, NULL, &o));
  device_read(out, o, sizeof out);
  for (int i = 0; i < 4; i++)
    EXPECT(out[i] == 0xcdcdcdcd);
}

static void large_cooperative(void) {
  uint32_t state[2] = {0, 0};
  unsigned rounds = 1;
  int blocks;
  device_open(0);
  CUfunction f = device_kernel("neighbours");
  MUST(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 64, 0));
  unsigned most = (unsigned)blocks * 4;
  CUdeviceptr x = device_buffer(1 << 16), next = device_buffer(1 << 16), s = device_copy(state, sizeof state);
  MUST(LAUNCH_COOPERATIVE(f, most, 64, 0, NULL, &x, &next, &rounds, &s));
  EXPECT(LAUNCH_COOPERATIVE(f, most + 1, 64, 0, NULL, &x, &next, &rounds, &s) ==
         CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  MUST(cuCtxSynchronize());
}

static void wrong_kernels(void) {
  dies("", leaves_early, "kernel 'leaves_early': deadlock", "a thread that leaves before a barrier: is a deadlock");
  ok(strstr(child_said, "block (0,0,0) thread (0,0,0) waits at the barrier of") && strstr(child_said, "samples.cu:") &&
       strstr(child_said, "the next 4\n") && strstr(child_said, "block (0,0,0) thread (5,0,0) has returned\n"),
     "which names who waits where, and who has left");
  dies("", two_barriers, "are at different barriers", "threads at different barriers");
  ok(strstr(child_said, "block (0,0,0) thread (0,0,0) waits") &&
       strstr(child_said, "block (0,0,0) thread (32,0,0) waits"),
     "which names one of each");
  dies("", missing_lanes, "waits for lanes ffffffff at", "lanes that never come to a shuffle");
  dies("", not_in_mask, "a lane is not in its own mask", "a lane that is not in its own mask");
  dies("", masks_differ, "thread (1,0,0) waits for lanes 00000007 at", "lanes that do not name the same lanes");
  dies("", waits_forever, "thread (0,0,0) spins at", "a loop that waits for nobody");
  dies("", not_cooperative, "not a cooperative launch", "a barrier of all blocks in a launch that is not cooperative");
  dies("", gives_up, "kernel 'gives_up': trap at", "a trap");
  dies("", beyond_buffer, "kernel 'beyond': block (0,0,0) thread (0,0,0) runs accesses device memory",
       "an access beyond a buffer, and what it is rounded up to");
  dies("", follow, "a pointer that was not a parameter", "a pointer that is read from device memory is not followed");
#ifdef __SANITIZE_ADDRESS__
  dies("", just_beyond, "AddressSanitizer: use-after-poison", "the first word beyond a buffer");
  dies("", beyond_shared, "AddressSanitizer: heap-buffer-overflow", "the first word beyond dynamic shared memory");
#else
  (void)just_beyond, (void)beyond_shared;
#endif
  lives("", stale_shared, "shared memory holds nothing of the block before");
  lives("", large_cooperative, "a cooperative launch is as large as the device, and no larger");
}

int main(void) {
  lives("", plain, "a kernel that does not synchronise");
  lives("", vectors, "accesses of 16 bytes");
  lives("", reduction, "a reduction with shuffles and static shared memory, from a template");
  lives("", histogram, "a histogram with atomics on dynamic shared memory, its arguments in a structure");
  lives("", cooperative, "a cooperative launch: a barrier of all blocks, shared memory of each");
  lives("", warps, "shuffles, votes and matches, of whole, halved and divergent warps");
  lives("", votes, "barriers that count");
  lives("", places, "three dimensions");
  lives("", bits, "functions of bits, arithmetic and atomics");
  lives("", reductions, "reductions of a warp, and more functions");
  for (int seed = 1; seed <= 3; seed++) {
    char environment[128];
    snprintf(environment, sizeof environment, "CUDA_STANDIN_SEED=%d CUDA_STANDIN_DELAY=200", seed);
    lives(environment, all_kernels, "all of them, their threads in another order");
  }
  wrong_kernels();
  return tap_done();
}
