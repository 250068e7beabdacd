/* SPDX-License-Identifier: BSD-3-Clause
 * The table of a CUDA device, member by member, on the stand-in for the driver: the effects of its calls on memory,
 * streams and the host, and refusals by the driver. The tests in tests/unit/dense check the bits of the codecs.
 */
#include <signal.h>

#include "kernels/codec/codecs.h"
#include "kernels/cuda/codecs.h"
#include "kernels/device/cuda_device.h"
#include "tests/unit/device/cuda_child.h"
#include "tests/unit/device/life.h"

enum { N = LIFE_N, RANKS = LIFE_RANKS, KIB = 1 << 10 };

static void wait_for(CUstream stream) { MUST(cuStreamSynchronize(stream)); }

/* -- memory -------------------------------------------------------------------------------------------------------- */
static void order(bool waits) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream a = device_stream(CU_STREAM_NON_BLOCKING), b = device_stream(CU_STREAM_NON_BLOCKING);
  uint8_t sent[256], got[256];
  memset(sent, 7, sizeof sent);
  for (int i = 0; i < 50; i++) { /* of 1 MiB */
    void *fence = d->fence_make(d);
    char *memory = d->alloc(d, 512 * KIB, a);
    EXPECT(memory && (uintptr_t)memory % 64 == 0);
    EXPECT(d->clear(d, memory, 512 * KIB, a) && d->fence_set(d, fence, a) && d->fence_wait(d, fence, b));
    EXPECT(d->put(d, memory + 256, sent, sizeof sent, b) && d->fence_set(d, fence, b) && d->fence_wait(d, fence, a));
    EXPECT(d->get(d, got, memory + 256, sizeof got, a) && memcmp(sent, got, sizeof got) == 0);
    EXPECT(d->get(d, got, memory + 512, sizeof got, a) && got[0] == 0 && got[255] == 0);
    if (i % 2) {
      EXPECT(d->fence_set(d, fence, a));
      d->release_after(d, memory, fence);
    } else {
      d->release(d, memory, a);
    }
    if (waits)
      MUST(cuCtxSynchronize());
    d->fence_free(d, fence);
    d->release(d, NULL, a);
    d->release_after(d, NULL, NULL);
    d->fence_free(d, NULL);
  }
  void *empty = d->alloc(d, 0, a);
  EXPECT(empty && d->clear(d, empty, 0, a));
  d->release(d, empty, a);
}

static void in_order(void) { order(false); }
static void in_order_waiting(void) { order(true); }

/* Memory that was freed on a late stream is not reused before that stream has come to it. */
static void late(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream a = device_stream(CU_STREAM_NON_BLOCKING), b = device_stream(CU_STREAM_NON_BLOCKING);
  void *first = d->alloc(d, 300 * KIB, a), *fence = d->fence_make(d);
  EXPECT(first && d->clear(d, first, 300 * KIB, a) && d->fence_set(d, fence, a));
  d->release_after(d, first, fence);
  void *second = d->alloc(d, 300 * KIB, b);
  EXPECT(second && second != first && d->clear(d, second, 300 * KIB, b));
  d->release(d, second, b);
  wait_for(a);
  wait_for(b);
  MUST(cuCtxSynchronize());
  void *third = d->alloc(d, 200 * KIB, b);
  EXPECT(third && d->clear(d, third, 200 * KIB, b));
  if (tagc_cuda_device_of(d)->pool == NULL)
    EXPECT(third == first || third == second);
}

static void too_small(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  void *small = d->alloc(d, 16 * KIB, NULL), *large = d->alloc(d, 700 * KIB, NULL);
  d->release(d, small, NULL);
  d->release(d, large, NULL);
  MUST(cuCtxSynchronize());
  EXPECT(d->alloc(d, 1 * KIB, NULL) == small && d->alloc(d, 2 * KIB, NULL) != large);
  EXPECT(d->alloc(d, 600 * KIB, NULL) == large);
}

/* Uses three of four GPUs. */
static void peers(void) {
  for (int ordinal = 0; ordinal < 3; ordinal++)
    EXPECT(life_device(ordinal)->alloc(life_device(ordinal), 1, NULL));
  for (int ordinal = 0; ordinal < 3; ordinal++) {
    const struct tagc_device *d = life_device(ordinal);
    void *memory = d->alloc(d, 100, NULL);
    CUmemoryPool pool;
    EXPECT(memory);
    device_open(ordinal);
    MUST(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, (uintptr_t)memory));
    EXPECT(pool && pool == tagc_cuda_device_of(d)->pool);
    for (int other = 0; other < 4; other++) {
      CUmemAccess_flags flags;
      MUST(cuMemPoolGetAccess(&flags, pool, &(CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, other}));
      EXPECT(flags == (other < 3 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE));
    }
  }
}

static void reaches(void) {
  const struct tagc_device *d = life_device(0);
  CUdeviceptr managed;
  void *pinned;
  char own[16];
  device_open(1);
  CUdeviceptr elsewhere = device_buffer(100);
  device_open(0);
  CUdeviceptr here = device_buffer(100);
  MUST(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
  MUST(cuMemAllocHost_v2(&pinned, 100));
  EXPECT(d->reaches(d, (void *)(uintptr_t)here) && d->reaches(d, (char *)(uintptr_t)here + 99));
  EXPECT(d->reaches(d, pinned) && d->reaches(d, (void *)(uintptr_t)managed));
  EXPECT(!d->reaches(d, (void *)(uintptr_t)elsewhere) && !d->reaches(d, own) && !d->reaches(d, NULL));
  MUST(cuMemFree_v2(here));
  EXPECT(!d->reaches(d, (void *)(uintptr_t)here));
  EXPECT(tagc_device_host.reaches(&tagc_device_host, own));
}

static void pinned(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  char *last = NULL;
  for (int i = 0; i < 100; i++) { /* more than a piece, and a larger one */
    char *memory = d->alloc_pinned(d, i == 50 ? 200 * KIB : 1000), got = 0;
    EXPECT(memory && (uintptr_t)memory % 64 == 0 && memory != last && d->reaches(d, memory));
    memory[999] = 1; /* the host's own */
    EXPECT(d->put(d, memory, "x", 1, stream) && d->get(d, &got, memory, 1, stream) && got == 'x');
    last = memory;
  }
  EXPECT(!tagc_device_host.alloc_pinned(&tagc_device_host, 1));
}

/* Large pinned memory is used again, behind the work that came before its release. */
static void pinned_blocks(void) {
  enum { BLOCK_BYTES = 300 * KIB };
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  char *first = d->alloc_pinned(d, BLOCK_BYTES), *there = d->alloc(d, BLOCK_BYTES, stream), *second, *third, got = 0;
  EXPECT(first && there && (uintptr_t)first % 64 == 0 && d->reaches(d, first));
  memset(first, 7, BLOCK_BYTES);
  EXPECT(d->copy(d, there, BLOCK_BYTES, first, BLOCK_BYTES, BLOCK_BYTES, 1, stream));
  d->release(d, first, stream);
  second = d->alloc_pinned(d, BLOCK_BYTES); /* the copy has not run yet */
  EXPECT(second && second != first);
  EXPECT(d->get(d, &got, there + BLOCK_BYTES - 1, 1, stream) && got == 7);
  third = d->alloc_pinned(d, BLOCK_BYTES - KIB);
  EXPECT(third == first && d->alloc_pinned(d, BLOCK_BYTES) != first);
  d->release(d, second, stream);
  d->release(d, there, stream);
  MUST(cuCtxSynchronize());
  EXPECT(d->alloc(d, BLOCK_BYTES, stream) != (void *)second);
  EXPECT(d->alloc_pinned(d, BLOCK_BYTES / 8) != second); /* too large for that */
}

/* Rows are copied to their places and nothing else is touched: from the device, and from pinned and managed memory. */
static void rows(void) {
  enum { ROWS = 7, FROM = 1000, TO = 301, WIDTH = 123 };
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  CUdeviceptr managed;
  void *pinned;
  static char sent[ROWS * FROM], got[ROWS * TO];
  MUST(cuMemAllocManaged(&managed, sizeof sent, CU_MEM_ATTACH_GLOBAL));
  MUST(cuMemAllocHost_v2(&pinned, sizeof sent));
  char *from[] = {d->alloc(d, sizeof sent, stream), (char *)(uintptr_t)managed, pinned},
       *to = d->alloc(d, sizeof got, stream);
  for (size_t i = 0; i < sizeof sent; i++)
    sent[i] = (char)(i % 251);
  for (int kind = 0; kind < 3; kind++)
    for (size_t count = 1; count <= ROWS; count += ROWS - 1) {
      EXPECT(from[kind] && to && d->put(d, from[kind], sent, sizeof sent, stream) &&
             d->clear(d, to, sizeof got, stream));
      EXPECT(d->copy(d, to + 3, TO, from[kind] + 11, FROM, WIDTH, count, stream) &&
             d->get(d, got, to, sizeof got, stream));
      for (size_t i = 0; i < sizeof got; i++) {
        const size_t row = i / TO, at = i % TO - 3;
        EXPECT(got[i] == (i >= 3 && at < WIDTH && row < count ? sent[row * FROM + 11 + at] : 0));
      }
    }
}

/* The order of each row is checked: another stream works on one of them. */
static void rows_out_of_order(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream a = device_stream(CU_STREAM_NON_BLOCKING), b = device_stream(CU_STREAM_NON_BLOCKING);
  char *memory = d->alloc(d, 10 * KIB, a);
  wait_for(a);
  EXPECT(memory && d->clear(d, memory + 2 * KIB + 50, 10, b) &&
         d->copy(d, memory + 5 * KIB, KIB, memory, KIB, 50, 5, a));
  fprintf(stderr, "between rows: good\n");
  (void)d->copy(d, memory + 5 * KIB, KIB, memory, KIB, 51, 5, a);
}

/* The host's buffer may be reused at once, for any size, and copies under way are not overwritten. */
static void staged(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  enum { MOST = 40 * KIB, COUNT = 20 };
  char *host = malloc(MOST), *there[COUNT];
  for (int i = 0; i < COUNT; i++) {
    const size_t bytes = i == 7 ? MOST : 3 * KIB;
    there[i] = d->alloc(d, bytes, stream);
    memset(host, i, bytes);
    EXPECT(there[i] && d->put(d, there[i], host, bytes, stream));
    memset(host, -1, bytes);
  }
  for (int i = 0; i < COUNT; i++) {
    EXPECT(d->get(d, host, there[i], 3 * KIB, stream));
    for (int k = 0; k < 3 * KIB; k++)
      EXPECT(host[k] == i);
  }
  free(host);
}

/* -- tallies ------------------------------------------------------------------------------------------------------- */
static void count(const struct tagc_device *d, void *tally, uint64_t number, CUstream stream) {
  const struct tagc_counts counts = {
    number, number, number, number, number, (double)number, .denser = number > 3, .lost = number};
  EXPECT(d->put(d, tagc_cuda_tally_counts(tally), &counts, sizeof counts, stream));
}

static void call(const struct tagc_device *d, void *tally, uint64_t number, CUstream stream) {
  for (int mark = 0; mark < TAGC_MARKS; mark++) {
    if (mark == TAGC_MARK_DECODED)
      count(d, tally, number, stream);
    EXPECT(mark == TAGC_MARK_SUMMED || d->tally_mark(d, tally, (enum tagc_mark)mark, number, stream));
  }
}

static bool all_are(const struct tagc_codec_stats *s, uint64_t number) {
  return s->selected == number && s->unrecovered == number && s->nonfinite == number && s->overflowed == number &&
         s->lost == number && s->dropped == number && s->residual_norm2 == (double)number;
}

/* Reads are late, one call after the other, and never of a call under way. */
static void tallies(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  void *tally = d->tally_make(d, stream);
  struct tagc_codec_stats stats = {0};
  struct tagc_tally_times t = {.number = 9, .ms = {-1, -1, -1, -1}};
  EXPECT(tally && !d->tally_read(d, tally, &t, &stats));
  call(d, tally, 1, stream);
  EXPECT(!d->tally_read(d, tally, &t, &stats) && all_are(&stats, 0));
  wait_for(stream);
  call(d, tally, 2, stream); /* under way, while the first one is read */
  EXPECT(d->tally_read(d, tally, &t, &stats) && t.number == 1 && all_are(&stats, 1));
  for (int i = 0; i < TAGC_MARKS - 1; i++)
    EXPECT(t.ms[i] >= 0);
  EXPECT(t.ms[TAGC_MARK_BEGUN] == 0); /* that mark was left out */
  EXPECT(!d->tally_read(d, tally, &t, &stats) && all_are(&stats, 1));
  wait_for(stream);
  EXPECT(d->tally_read(d, tally, &t, &stats) && t.number == 2 && all_are(&stats, 2));
  EXPECT(!d->tally_read(d, tally, &t, &stats));
  for (uint64_t i = 3; i < 6; i++)
    call(d, tally, i, stream);
  wait_for(stream);
  EXPECT(d->tally_read(d, tally, &t, &stats) && t.number == 4 && all_are(&stats, 4));
  EXPECT(d->tally_read(d, tally, &t, &stats) && t.number == 5 && all_are(&stats, 5) &&
         !d->tally_read(d, tally, &t, &stats));
  call(d, tally, 6, stream);
  wait_for(stream);
  EXPECT(d->tally_mark(d, tally, TAGC_MARK_BEGUN, 7, stream)); /* a call that fails does not hide the previous one */
  EXPECT(d->tally_read(d, tally, &t, &stats) && t.number == 6 && all_are(&stats, 6) &&
         !d->tally_read(d, tally, &t, &stats));
}

/* -- timers -------------------------------------------------------------------------------------------------------- */
static void timed_call(const struct tagc_device *d, void *timer, uint64_t number, CUstream stream, bool good) {
  const int begun = d->timer_begin(d, timer, number, stream);
  EXPECT(begun >= 0);
  d->timer_end(d, timer, begun, stream, good);
}

/* Reads are late and in order; calls that are unfinished, or not to be timed, are not read. */
static void timers(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct tagc_timed out[64];
  void *timer = d->timer_make(d);
  EXPECT(timer && d->timer_read(d, timer, 0, out, 64) == 0);
  timed_call(d, timer, 1, stream, true);
  EXPECT(d->timer_read(d, timer, 2, out, 64) == 0 && d->timer_read(d, timer, 1, out, 64) == 0);
  wait_for(stream);
  timed_call(d, timer, 2, stream, true); /* under way, while the first one is read */
  EXPECT(d->timer_read(d, timer, 3, out, 64) == 0);
  EXPECT(d->timer_read(d, timer, 2, out, 64) == 1 && out[0].number == 1 && out[0].ms >= 0 && out[0].ms < 60000);
  wait_for(stream);
  EXPECT(d->timer_read(d, timer, 1, out, 64) == 1 && out[0].number == 2 && d->timer_read(d, timer, 0, out, 64) == 0);
  for (uint64_t i = 3; i < 67; i++)
    timed_call(d, timer, i, stream, i % 2);         /* every second one fails */
  EXPECT(d->timer_begin(d, timer, 99, stream) < 0); /* no pair is free */
  d->timer_end(d, timer, -1, stream, true);
  wait_for(stream);
  EXPECT(d->timer_read(d, timer, 1, out, 10) == 10 && out[9].number == 21);
  EXPECT(d->timer_read(d, timer, 1, out, 64) == 22 && out[0].number == 23 && out[21].number == 65);
  const int open = d->timer_begin(d, timer, 67, stream);
  timed_call(d, timer, 68, stream, true);
  wait_for(stream);
  EXPECT(open >= 0 && d->timer_read(d, timer, 0, out, 64) == 0); /* in order: the first one has not ended */
  d->timer_end(d, timer, open, stream, true);
  wait_for(stream);
  EXPECT(d->timer_read(d, timer, 0, out, 64) == 2 && out[0].number == 67 && out[1].number == 68);
  d->timer_free(d, timer);
  d->timer_free(d, NULL);
  EXPECT(d->timer_begin(d, NULL, 1, stream) < 0 && d->timer_read(d, NULL, 0, out, 64) == 0);
}

static void nap(void *unused) {
  (void)unused;
  nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
}

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Work of that many milliseconds takes at least as long; later work is not part of it, and it is not part of that. */
static void timed(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct tagc_timed out[64];
  void *timer = d->timer_make(d);
  wait_for(stream);
  const double before = now_ms();
  const int begun = d->timer_begin(d, timer, 1, stream);
  MUST(cuLaunchHostFunc(stream, nap, NULL));
  d->timer_end(d, timer, begun, stream, true);
  timed_call(d, timer, 2, stream, true);
  wait_for(stream);
  const double passed = now_ms() - before;
  EXPECT(d->timer_read(d, timer, 0, out, 64) == 2 && out[0].ms > 2.9 && out[1].ms >= 0 &&
         out[0].ms + out[1].ms < passed + 0.1);
  d->timer_free(d, timer);
}

/* Timing calls does not set up a GPU without compression. */
static void timers_set_nothing_up(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  struct tagc_timed out[64];
  void *timer = d->timer_make(d);
  timed_call(d, timer, 5, NULL, true);
  MUST(cuCtxSynchronize());
  EXPECT(d->timer_read(d, timer, 1, out, 64) == 1 && out[0].number == 5 && !tagc_device_cuda_is_set_up(d));
  timed_call(d, timer, 6, NULL, true);
  MUST(cuDevicePrimaryCtxReset_v2(0));
  device_open(0);
  EXPECT(d->timer_read(d, timer, 1, out, 64) == 0 && d->timer_begin(d, timer, 7, NULL) < 0);
  d->timer_free(d, timer);
  const struct tagc_device *fresh = life_device(0);
  struct tagc_shape shape = {.n = 100, .nranks = 2};
  struct tagc_layout layout;
  EXPECT(fresh != d && fresh->layout(fresh, tagc_codec_find("q8"), &shape, &layout));
}

/* A freed tally is reused only when nothing writes to it any more. */
static void tallies_again(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct tagc_codec_stats stats = {0};
  struct tagc_tally_times t;
  bool denser = true;
  void *fence = d->fence_make(d), *first = d->tally_make(d, stream);
  call(d, first, 9, stream);
  EXPECT(d->fence_set(d, fence, stream));
  d->tally_free(d, first, fence);
  void *second = d->tally_make(d, stream);
  EXPECT(second && second != first);
  count(d, second, 9, stream);
  EXPECT(d->tally_denser(d, second, stream, &denser) && !denser && d->fence_set(d, fence, stream));
  d->tally_free(d, second, fence);
  void *third = d->tally_make(d, stream);
  EXPECT(third && third != second && d->fence_set(d, fence, stream)); /* the first one may be over by now */
  d->tally_free(d, third, fence);
  MUST(cuCtxSynchronize());
  third = d->tally_make(d, stream);
  EXPECT(third);
  EXPECT(!d->tally_read(d, third, &t, &stats) && d->tally_denser(d, third, stream, &denser) && !denser);
  call(d, third, 1, stream);
  wait_for(stream);
  EXPECT(d->tally_read(d, third, &t, &stats) && all_are(&stats, 1));
  d->tally_free(d, NULL, NULL);
}

/* The answer is that of the last time, and the first one is no. */
static void denser(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  void *tally = d->tally_make(d, stream);
  bool answer;
  for (uint64_t i = 3; i < 7; i++) {
    count(d, tally, i, stream);
    EXPECT(d->tally_denser(d, tally, stream, &answer) && answer == (i > 4));
  }
  count(d, tally, 0, stream);
  EXPECT(d->tally_denser(d, tally, stream, &answer) && answer);
  EXPECT(d->tally_denser(d, tally, stream, &answer) && !answer);
}

/* -- residuals ----------------------------------------------------------------------------------------------------- */

/* The host's part of a call of the codec, with residuals void or not. */
static void host_call(struct sim *sim, bool residual_void, uint64_t seed) {
  for (int r = 0; r < RANKS; r++) {
    sim->job[r].residual_empty = residual_void;
    sim->job[r].seed = seed;
    sim->job[r].stats = &sim->stats;
    sim->codec->encode(&sim->job[r]);
  }
  sim_exchange(sim);
  for (int r = 0; r < RANKS; r++)
    sim->codec->decode(&sim->job[r]);
}

static bool same_results(const struct life *life, const struct sim *sim) {
  const size_t bytes = life_all_bytes(&sim->shape) / RANKS;
  char *got = malloc(bytes);
  bool same = true;
  for (int r = 0; r < RANKS; r++)
    same = same && life->device->get(life->device, got, life->rank[r].job.recv, bytes, life->stream) &&
           memcmp(got, sim->job[r].recv, bytes) == 0;
  free(got);
  return same;
}

/* Cycles: a negative one has NaN. Only the residual of a cycle with NaN is void in the next. */
static void health_of(const int *cycles, int count, bool tells) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct sim sim = life_sim("q4", TAGC_STORAGE_FP32);
  struct life life;
  uint64_t dropped = 0, before = 0;
  bool was_bad = false;
  EXPECT(life_begin(&life, d, &sim, stream));
  for (int i = 0; i < count; i++) {
    const bool bad = cycles[i] < 0;
    const uint64_t cycle = (uint64_t)abs(cycles[i]);
    case_fill(&sim, GAUSS);
    if (bad)
      sim_put(&sim, 0, 1, 5, NAN);
    host_call(&sim, i == 0 || was_bad, 77 + (uint64_t)i);
    EXPECT(life_call(&life, &sim, cycle, before, tells));
    EXPECT(same_results(&life, &sim));
    dropped += was_bad;
    was_bad = bad;
    before = cycle;
  }
  for (int r = 0; r < RANKS; r++) {
    struct tagc_codec_stats stats = {0};
    struct tagc_tally_times t;
    wait_for(stream);
    while (d->tally_read(d, life.rank[r].job.tally, &t, &stats))
      continue;
    EXPECT(stats.dropped == dropped);
  }
  life_end(&life, RANKS);
  sim_free(&sim);
}

static void health(void) {
  static const int bad_then_good[] = {1, -2, 3, 4}, twice[] = {1, -2, -3, 4, 5},
                   ring[] = {-1, 2, 63, 64, 65, 66, -128, 129, 130}, far[] = {1, -64, 128, 129, -193, 500, 501};
  for (int tells = 0; tells < 2; tells++) {
    health_of(bad_then_good, 4, tells);
    health_of(twice, 5, tells);
    health_of(ring, 9, tells);
    health_of(far, 7, tells);
  }
}

/* The flags that a node's ranks have exchanged count, not those that this rank has seen. */
static void told_by_others(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct sim sim = life_sim("q4", TAGC_STORAGE_FP32);
  const int64_t words[TAGC_FLAGS] = {1, 1};
  struct life life;
  bool answer;
  EXPECT(life_begin(&life, d, &sim, stream));
  struct life_rank *rank = &life.rank[0];
  for (uint64_t cycle = 1; cycle <= TAGC_SURPLUS_CALLS; cycle++) {
    int64_t got[TAGC_FLAGS];
    host_call(&sim, cycle == 1 || cycle > 1, cycle); /* void after each */
    EXPECT(life_call(&life, &sim, cycle, cycle - 1, true) && same_results(&life, &sim));
    EXPECT(d->get(d, got, rank->told, sizeof got, stream) && got[0] == 0 && got[1] == 0);
    for (int r = 0; r < RANKS; r++)
      EXPECT(d->put(d, life.rank[r].told, words, sizeof words, stream) &&
             d->end_call(d, &life.rank[r].job, life.rank[r].told, stream));
    EXPECT(d->tally_denser(d, rank->job.tally, stream, &answer) && !answer);
  }
  /* Each call was settled twice, the first time without a surplus: so never two in a row. */
  for (int i = 0; i < TAGC_SURPLUS_CALLS - 1; i++)
    EXPECT(d->end_call(d, &rank->job, rank->told, stream));
  EXPECT(d->tally_denser(d, rank->job.tally, stream, &answer) && !answer);
  EXPECT(d->tally_denser(d, rank->job.tally, stream, &answer) && answer);
  life_end(&life, RANKS);
  sim_free(&sim);
}

static void flush_of(enum tagc_dtype dtype, enum tagc_storage storage, bool empty) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  CUstream stream = device_stream(CU_STREAM_NON_BLOCKING);
  struct sim sim = sim_new_stored("q8", N, RANKS, dtype, 10000, storage);
  struct life life;
  const size_t bytes = life_all_bytes(&sim.shape);
  char *host = malloc(bytes), *got = malloc(bytes);
  for (int r = 0; r < RANKS; r++)
    sim.job[r].scale = 0.75f;
  case_fill(&sim, GAUSS);
  EXPECT(life_begin(&life, d, &sim, stream));
  host_call(&sim, true, 3);
  EXPECT(life_call(&life, &sim, 1, 0, false));
  case_fill(&sim, FEW_EXCEPTIONS);
  for (int r = 0; r < RANKS; r++) {
    struct tagc_job *job = &life.rank[r].job;
    sim.job[r].residual_empty = job->residual_empty = empty;
    job->residual_cycle = 1;
    tagc_residual_flush(&sim.job[r], host);
    EXPECT(d->put(d, (void *)(uintptr_t)job->send, sim.job[r].send, bytes, stream));
    EXPECT(d->flush(d, job, life.rank[r].flushed, stream) && d->get(d, got, life.rank[r].flushed, bytes, stream));
    EXPECT(memcmp(host, got, bytes) == 0);
  }
  life_end(&life, RANKS);
  sim_free(&sim);
  free(host);
  free(got);
}

static void flushes(void) {
  for (int dtype = TAGC_FLOAT32; dtype <= TAGC_BFLOAT16; dtype++)
    for (int storage = TAGC_STORAGE_NONE; storage <= TAGC_STORAGE_INT8; storage++)
      for (int empty = 0; empty < 2; empty++)
        flush_of((enum tagc_dtype)dtype, (enum tagc_storage)storage, empty);
}

/* -- streams ------------------------------------------------------------------------------------------------------- */

/* Streams of the primary context and of its parts are taken; those of another context take copies alone. */
static void contexts(void) {
  const struct tagc_device *d = life_device(0);
  struct tagc_cuda_driver *driver = (struct tagc_cuda_driver *)(uintptr_t)tagc_cuda_driver(NULL);
  char sent[100] = "sent", got[sizeof sent];
  CUgreenCtx part;
  CUcontext own;
  CUstream green;
  device_open(0);
  const CUstream usual = device_stream(CU_STREAM_NON_BLOCKING);
  MUST(cuGreenCtxCreate(&part, NULL, 0, 0));
  MUST(cuGreenCtxStreamCreate(&green, part, CU_STREAM_NON_BLOCKING, 0));
  MUST(cuCtxCreate_v2(&own, 0, 0));
  const CUstream other = device_stream(CU_STREAM_NON_BLOCKING);
  EXPECT(d->takes_stream(d, usual) && d->takes_stream(d, NULL) && d->takes_stream(d, CU_STREAM_PER_THREAD));
  EXPECT(d->takes_stream(d, green) && !d->takes_stream(d, other));
  char *words = d->alloc_pinned(d, sizeof sent);
  EXPECT(!d->alloc(d, sizeof sent, other) && d->put(d, words, sent, sizeof sent, other) &&
         d->get(d, got, words, sizeof got, other) && memcmp(sent, got, sizeof got) == 0);
  void *timer = d->timer_make(d);
  EXPECT(d->timer_begin(d, timer, 1, other) == -1 && d->timer_begin(d, timer, 1, usual) == 0);
  driver->stream_contexts = NULL; /* before 12.5: a part in doubt is not taken */
  EXPECT(d->takes_stream(d, usual) && !d->takes_stream(d, green) && !d->takes_stream(d, other));
  driver->stream_context = NULL;
  EXPECT(d->takes_stream(d, usual));
}

/* -- launches ------------------------------------------------------------------------------------------------------ */
static unsigned launched;
static struct tagc_cuda_launcher launcher;

static int launch(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra) {
  launched++;
  return launcher.launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters,
                         extra);
}

/* The launches of each rank's call. */
static unsigned launches_of(const char *codec, enum pattern pattern, bool tells) {
  const struct tagc_device *d = life_device(0);
  struct tagc_cuda_device *device = tagc_cuda_device_of(d);
  struct sim sim = life_sim(codec, tagc_codec_find(codec)->needs_residual ? TAGC_STORAGE_FP32 : TAGC_STORAGE_NONE);
  struct life life;
  device_open(0);
  case_fill(&sim, pattern);
  EXPECT(life_begin(&life, d, &sim, device_stream(CU_STREAM_NON_BLOCKING)));
  launcher = device->launcher;
  device->launcher.launch = launch;
  launched = 0;
  EXPECT(life_call(&life, &sim, 1, 0, tells));
  device->launcher = launcher;
  life_end(&life, RANKS);
  sim_free(&sim);
  return launched / RANKS;
}

/* Small calls wait for launches. */
static void launches(void) {
  static const char *const codecs[] = {"none", "precise", "bf16", "q8", "q4", "q3", "q2"};
  for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
    EXPECT(tagc_cuda_codec_of(tagc_codec_find(codecs[i]))->work.launches == 2);
    EXPECT(launches_of(codecs[i], GAUSS, false) == 2);
    EXPECT(launches_of(codecs[i], FEW_EXCEPTIONS, false) == 2);
    EXPECT(launches_of(codecs[i], GAUSS, true) == 4); /* the flags of a host's ranks are packed, and heard */
  }
  EXPECT(launches_of("sparse", GAUSS, false) == tagc_cuda_codec_of(&tagc_codec_sparse)->work.launches);
}

int main(void) {
  lives("CUDA_STANDIN_MEMORY=1", in_order, "memory, copies and fences, in the order of streams");
  lives("CUDA_STANDIN_MEMORY=1 CUDA_STANDIN_LAZY=1", in_order, "the same, late");
  lives("CUDA_STANDIN_MEMORY=2 CUDA_STANDIN_DELAY=500", in_order, "the same, sometimes late");
  lives("CUDA_STANDIN_LAZY=1", late, "memory that is given back late");
  lives("CUDA_STANDIN_MEMORY=1 CUDA_STANDIN_POOLS=0", in_order_waiting,
        "without pools: nothing is given back, and all is used again");
  lives("CUDA_STANDIN_LAZY=1 CUDA_STANDIN_POOLS=0", late,
        "without pools: what is late is not used again before its time");
  lives("CUDA_STANDIN_POOLS=0", too_small, "without pools: small pieces do not take large ones");
  lives("CUDA_STANDIN_DEVICES=4", peers, "the devices that are used may access the pools of one another");
  lives("CUDA_STANDIN_DEVICES=2", reaches, "which buffers kernels can work on");
  lives("", pinned, "pinned memory");
  lives("CUDA_STANDIN_LAZY=1", pinned_blocks, "large pinned memory is used again, in the order of streams");
  lives("CUDA_STANDIN_LAZY=1 CUDA_STANDIN_POOLS=0", pinned_blocks, "the same, without pools");
  lives("CUDA_STANDIN_LAZY=1", rows, "copies of rows");
  lives("CUDA_STANDIN_PITCH=400", rows, "a driver that refuses rows so far apart copies each by itself");
  ok(child_run("", rows_out_of_order) == 128 + SIGABRT && strstr(child_said, "between rows: good") &&
       strstr(child_said, "cuMemcpy2DAsync"),
     "copies of rows that are not in order with work on one of them are found");
  lives("CUDA_STANDIN_LAZY=1", staged, "copies from the host, which may write there again");
  lives("CUDA_STANDIN_LAZY=1", tallies, "tallies are read late, one call after the other");
  lives("CUDA_STANDIN_LAZY=1", tallies_again, "tallies that are given back, and used again");
  lives("CUDA_STANDIN_LAZY=1", timers, "timers are read late, in the order of their calls");
  lives("CUDA_STANDIN_DELAY=500", timed, "what takes longer is timed as longer");
  lives("", timers_set_nothing_up, "a timer sets no GPU up, and knows when its context is gone");
  lives("CUDA_STANDIN_LAZY=1", denser, "is the gradient too dense: the answer is that of the last time");
  lives("CUDA_STANDIN_LAZY=1", health, "a residual of a cycle with NaN is void, another one is not");
  lives("", told_by_others, "what the ranks of a host have told one another counts");
  lives("CUDA_STANDIN_DELAY=100", flushes, "a flush gives the host's bits, for all types and storages");
  lives("", contexts, "which streams take work");
  lives("", launches, "a call with a dense codec is a kernel to encode and one to decode, as costs have it");
  return tap_done();
}
