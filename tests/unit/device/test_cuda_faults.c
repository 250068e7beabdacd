/* SPDX-License-Identifier: BSD-3-Clause
 * The table of a CUDA device if the driver is missing, too old, refuses, fails, or loses its context: every function
 * returns failure, the log gives the reason once, and nothing hangs or touches lost objects.
 */
#include "kernels/device/cuda_device.h"
#include "kernels/device/fatbin.h"
#include "tests/unit/device/cuda_child.h"
#include "tests/unit/device/life.h"

/* The scenario succeeds, and logs all of these words (separated by |). */
static void says(const char *environment, void (*scenario)(void), const char *words, const char *what) {
  const int status = child_run(environment, scenario);
  bool good = status == 0;
  char copy[512], *rest;
  snprintf(copy, sizeof copy, "%s", words);
  for (char *one = strtok_r(copy, "|", &rest); one; one = strtok_r(NULL, "|", &rest)) {
    const char *at = strstr(child_said, one);
    good = good && at && !strstr(at + 1, one); /* once */
  }
  if (!ok(good, "%s", what))
    child_show(status);
}

static bool runs(const struct tagc_device *d, const char *codec) {
  const struct tagc_shape shape = {.n = 100, .nranks = 2, .keep_ppm = 10000, .residual = TAGC_STORAGE_FP32};
  struct tagc_layout layout;
  return d->layout(d, tagc_codec_find(codec), &shape, &layout);
}

static bool has_layout(const struct tagc_device *d) { return runs(d, "q8"); }

/* -- no driver, or none that can do it ----------------------------------------------------------------------------- */
static void no_driver(void) {
  const char *why = NULL;
  EXPECT(!tagc_device_cuda_is_there(&why) && why);
  for (int ordinal = -1; ordinal < 70; ordinal++)
    EXPECT(!life_device(ordinal));
  fprintf(stderr, "%s", why);
}

/* An unusable GPU has a table that says so; host memory is available if the GPU has a context. */
static void unusable(const struct tagc_device *d, bool has_context) {
  struct sim sim = life_sim("q8", TAGC_STORAGE_FP32);
  struct life life;
  char got = 0, *pinned;
  for (int i = 0; i < 2; i++) {
    EXPECT(d && !has_layout(d) && !d->alloc(d, 1, NULL) && !d->fence_make(d) && !d->tally_make(d, NULL));
    EXPECT(!life_begin(&life, d, &sim, NULL));
    life_end(&life, LIFE_RANKS);
    pinned = d->alloc_pinned(d, 1);
    EXPECT(has_context == (pinned != NULL));
    EXPECT(!pinned || (d->put(d, pinned, "x", 1, NULL) && d->get(d, &got, pinned, 1, NULL) && got == 'x'));
  }
  sim_free(&sim);
}

static void without_kernels(void) { unusable(life_device(0), true); }
static void without_context(void) { unusable(life_device(0), false); }

static void wrong_ordinals(void) {
  static const int ordinals[] = {1, 63, 64, 1000000, -1};
  for (size_t i = 0; i < sizeof ordinals / sizeof *ordinals; i++)
    unusable(life_device(ordinals[i]), false);
  EXPECT(has_layout(life_device(0)));
}

static void other_device(void) {
  struct sim sim = life_sim("q8", TAGC_STORAGE_FP32);
  unusable(life_device(0), false);
  EXPECT(life_whole(life_device(1), &sim, 2, NULL));
  sim_free(&sim);
}

static void translated(void) {
  struct sim sim = life_sim("q8", TAGC_STORAGE_FP32);
  EXPECT(life_whole(life_device(0), &sim, 2, NULL));
  sim_free(&sim);
}

static void nothing_yet(void) {
  const struct tagc_device *d = life_device(0);
  EXPECT(d && tagc_cuda_device_of(d)->rates.ns_per_byte == 0 &&
         atomic_load(&tagc_cuda_device_of(d)->state) == TAGC_CUDA_UNTRIED);
  EXPECT(has_layout(d) && tagc_cuda_device_of(d)->rates.ns_per_byte > 0 &&
         tagc_cuda_device_of(d)->rates.ns_per_byte < 1);
}

static void check_drivers(void) {
  lives("CUDA_STANDIN_FAULT=context:2,module:2,stream:2", nothing_yet,
        "a device is set up when it is used first, and not before");
  says("CUDA_STANDIN_DRIVER=11010", no_driver, "the CUDA driver is of 11.1: it is older than 11.2",
       "a driver that is too old");
  says("CUDA_STANDIN_DEVICES=0", no_driver, "cuInit: CUDA_ERROR_NO_DEVICE (100)", "a driver without a device");
  says("CUDA_STANDIN_FAULT=module:1+", without_kernels,
       "GPU 0: every call passes|CUDA_ERROR_NO_BINARY_FOR_GPU (209); the GPU is of 8.0 (7.5 is needed), the driver of "
       "CUDA 13.0",
       "kernels that the driver refuses");
  if (tagc_fatbin_ptx())
    lives("CUDA_STANDIN_FAULT=module:1", translated, "binaries are refused, text is not");
  else
    skip("binaries are refused, text is not", "this build has neither");
  says("CUDA_STANDIN_FAULT=function:3", without_kernels,
       "GPU 0: every call passes: tagc_|cuModuleGetFunction: CUDA_ERROR_NOT_FOUND", "a kernel that is missing");
  says("CUDA_STANDIN_FAULT=stream:1", without_kernels,
       "every call passes: cuStreamCreate: CUDA_ERROR_OUT_OF_MEMORY (2)", "no stream of its own");
  says("CUDA_STANDIN_FAULT=context:1", without_context,
       "GPU 0: every call passes: cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY", "no context");
  says("CUDA_STANDIN_DEVICES=2 CUDA_STANDIN_FAULT=context:1", other_device, "GPU 0: every call passes",
       "and the next GPU has one");
  says("", wrong_ordinals,
       "GPU 1: every call passes: cuDeviceGet: CUDA_ERROR_INVALID_DEVICE (101)|GPU 63: every|GPU -1: every",
       "GPUs that are not there");
}

/* -- self-tests ---------------------------------------------------------------------------------------------------- */

static const char *const codecs[] = {"none", "precise", "bf16", "q8", "q4", "q3", "q2", "sparse", "lhc"};
enum { CODECS = sizeof codecs / sizeof *codecs, ALL_GATHERS = 63 << 16 }; /* as bits of passed tests */

static int (*real_launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                          void **);
static bool launched[TAGC_CUDA_KERNEL_COUNT];
static void *left_out; /* a kernel that does nothing on this GPU */

static int launch(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra) {
  const struct tagc_cuda_launcher *its = &tagc_cuda_device_of(tagc_device_cuda(0))->launcher;
  left_out = its->function[tagc_dense_decode_q4_kernel];
  for (int i = 0; i < TAGC_CUDA_KERNEL_COUNT; i++)
    launched[i] |= function == its->function[i];
  return function == left_out ? 0
                              : real_launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream,
                                            parameters, extra);
}

/* A wrong codec does not affect the others, and is never tried again. */
static void one_is_wrong(void) {
  const struct tagc_device *d = life_device(0);
  struct tagc_cuda_driver *driver = (struct tagc_cuda_driver *)(uintptr_t)tagc_cuda_driver(NULL);
  struct sim sim = life_sim("q8", TAGC_STORAGE_FP32);
  real_launch = driver->launch;
  driver->launch = launch;
  for (int again = 0; again < 2; again++)
    for (int i = 0; i < CODECS; i++)
      EXPECT(runs(d, codecs[i]) == (strcmp(codecs[i], "q4") != 0));
  for (int i = 0; i < TAGC_CUDA_KERNEL_COUNT; i++) /* kernels first launched later might have to be loaded */
    EXPECT(launched[i]);
  EXPECT(left_out && life_whole(d, &sim, 2, NULL));
  tagc_cuda_device_of(d)->launcher.launch = real_launch;
  EXPECT(!runs(d, "q4"));
  sim_free(&sim);
}

/* A self-test that could not run is repeated; one that ran is not. */
static void two_are_late(void) {
  const struct tagc_device *d = life_device(0);
  const struct tagc_cuda_device *its = tagc_cuda_device_of(d);
  void *memory = d->alloc(d, 1, NULL); /* sets up */
  uint32_t known = its->passed;
  EXPECT(memory && !its->failed && its->not_run && !(known & its->not_run));
  for (int i = 0; i < CODECS; i++)
    EXPECT(runs(d, codecs[i]) && (its->passed & known) == known);
  known = ALL_GATHERS;
  for (int c = 0; tagc_codecs[c]; c++)
    for (int i = 0; i < CODECS; i++)
      known |= strcmp(tagc_codecs[c]->name, codecs[i]) == 0 ? 1u << c : 0;
  EXPECT(its->passed == known);
}

static void none_can_be_tried(void) {
  const struct tagc_device *d = life_device(0);
  for (int again = 0; again < 2; again++)
    for (int i = 0; i < CODECS; i++)
      EXPECT(!runs(d, codecs[i]));
  EXPECT(!tagc_cuda_device_of(d)->failed);
}

static void check_self_tests(void) {
  says("CUDA_STANDIN_SELF_TEST=1", one_is_wrong,
       "GPU 0: calls with codec q4 pass: a made-up gradient differs from the host's: codec q4: a result differs",
       "a codec that is wrong on this GPU, and others that are not");
  /* One codec finds no memory, a copy of the next one fails. */
  says("CUDA_STANDIN_SELF_TEST=1 CUDA_STANDIN_FAULT=alloc:2,copy:40", two_are_late,
       "codec none pass until the self-test succeeds|CUDA_ERROR_OUT_OF_MEMORY (2)|"
       "codec precise pass until the self-test succeeds: codec precise: the device fails|CUDA_ERROR_UNKNOWN (999)",
       "there is no memory, a copy fails, and these codecs are tried later");
  says("CUDA_STANDIN_SELF_TEST=1 CUDA_STANDIN_FAULT=alloc:2+", none_can_be_tried,
       "GPU 0: calls with codec q8 pass until the self-test succeeds|GPU 0: calls with codec lhc pass until the "
       "self-test succeeds",
       "there never is any");
}

/* -- calls that fail ----------------------------------------------------------------------------------------------- */

/* A life in which a call may fail, and later ones, which succeed unless the set-up failed. */
static void one_fails(void) {
  const struct tagc_device *d = life_device(0);
  struct sim sim = life_sim("q8", TAGC_STORAGE_BF16);
  const bool good = life_whole(d, &sim, 1, NULL), usable = has_layout(d);
  fprintf(stderr, good ? "good\n" : "failed\n");
  for (int i = 0; i < 3; i++)
    EXPECT(life_whole(d, &sim, 1, NULL) == usable);
  sim_free(&sim);
}

static bool says_one_of(const char *calls) {
  char copy[128], *rest;
  snprintf(copy, sizeof copy, "%s", calls);
  for (char *one = strtok_r(copy, "|", &rest); one; one = strtok_r(NULL, "|", &rest))
    if (strstr(child_said, one))
      return true;
  return false;
}

/* Fails each call of a kind, from a life's first to its last. Memory is too small for lives that leak all of theirs. */
static void each_fails(const char *kind, const char *error, const char *calls, const char *more) {
  char environment[160];
  const int step = SANITIZED ? 2 : 1; /* a child takes many times as long */
  int nth = 1 - step, failed = 0;
  bool all = true, over = false;
  while (!over && all && (nth += step) < 300) {
    snprintf(environment, sizeof environment, "CUDA_STANDIN_FAULT=%s:%d CUDA_STANDIN_MEMORY=1 %s", kind, nth, more);
    const int status = child_run(environment, one_fails);
    over = strncmp(child_said, "good\n", 5) == 0; /* the first life did not reach the fault */
    failed += strstr(child_said, "failed\n") != NULL;
    all = over || (status == 0 && says_one_of(calls) && strstr(child_said, error));
    if (!all)
      child_show(status);
  }
  ok(all && over && nth > 1, "each %s fails once: %d, of which %d spoil what was to be done %s", kind, (nth - 1) / step,
     failed, more);
}

static void broken(void) {
  const struct tagc_device *d = life_device(0);
  struct sim sim = life_sim("q8", TAGC_STORAGE_BF16);
  for (int i = 0; i < 3; i++)
    EXPECT(!life_whole(d, &sim, 1, NULL));
  sim_free(&sim);
}

static void stays(void) {
  const struct tagc_device *d = life_device(0);
  struct sim sim = life_sim("q8", TAGC_STORAGE_BF16);
  EXPECT(!life_whole(d, &sim, 1, NULL) && life_whole(d, &sim, 1, NULL) && life_device(0) == d);
  sim_free(&sim);
}

/* A copy of counts is under way, and nothing reports its end: its tally is never reused. */
static void unsure(void) {
  const struct tagc_device *d = life_device(0);
  void *tally = d->tally_make(d, NULL);
  bool answer;
  EXPECT(tally && !d->tally_mark(d, tally, TAGC_MARK_DECODED, 1, NULL) && d->tally_denser(d, tally, NULL, &answer) &&
         !answer);
  device_open(0);
  MUST(cuCtxSynchronize());
  d->tally_free(d, tally, NULL);
  EXPECT(d->tally_make(d, NULL) != tally);
}

static bool is_of_pool(int ordinal) {
  const struct tagc_device *d = life_device(ordinal);
  void *memory = d->alloc(d, 1, NULL);
  CUmemoryPool pool;
  EXPECT(memory);
  device_open(ordinal);
  MUST(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, (uintptr_t)memory));
  return pool;
}

/* A pool that a peer cannot access is not used. */
static void closed_pool(void) { EXPECT(is_of_pool(0) && !is_of_pool(1) && is_of_pool(0)); }

/* A pool already in use stays in use: the other GPU does without the library. */
static void closed_before(void) {
  EXPECT(is_of_pool(0));
  unusable(life_device(1), true);
  EXPECT(is_of_pool(0) && has_layout(life_device(0)));
}

/* Two different calls fail with the same error. */
static void same_error(void) {
  const struct tagc_device *d = life_device(0);
  for (int i = 0; i < 3; i++)
    EXPECT(!d->fence_make(d) && !d->alloc(d, 1, NULL));
}

static void rows_fail(void) {
  const struct tagc_device *d = life_device(0);
  device_open(0);
  char *memory = d->alloc(d, 3000, NULL);
  EXPECT(memory && !d->copy(d, memory, 500, memory + 1500, 500, 100, 3, NULL));
  EXPECT(!d->copy(d, memory, 500, memory + 1500, 500, 100, 1, NULL));
}

static void ended(void) {
  const struct tagc_device *d = life_device(0);
  struct sim sim = life_sim("q8", TAGC_STORAGE_BF16);
  EXPECT(!life_whole(d, &sim, 1, NULL) && !life_whole(d, &sim, 1, NULL));
  sim_free(&sim);
}

static void check_faults(void) {
  each_fails("alloc", "CUDA_ERROR_OUT_OF_MEMORY (2)", "cuMemAllocFromPoolAsync|cuMemAllocHost", "");
  each_fails("copy", "CUDA_ERROR_UNKNOWN (999)", "cuMemcpyHtoDAsync|cuMemcpyDtoHAsync|cuMemsetD8Async", "");
  each_fails("event", "CUDA_ERROR_OUT_OF_MEMORY (2)", "cuEventCreate|cuEventRecord", "");
  each_fails("free", "CUDA_ERROR_INVALID_VALUE (1)", "cuMemFreeAsync", "");
  each_fails("launch", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)", "cuLaunchKernel for", "");
  each_fails("pointer", "CUDA_ERROR_INVALID_VALUE (1)", "cuPointerGetAttributes", "");
  each_fails("pool", "CUDA_ERROR_NOT_SUPPORTED (801)", "cuMemPoolCreate", "CUDA_STANDIN_DEVICES=2");
  each_fails("sync", "CUDA_ERROR_LAUNCH_FAILED (719)", "cuStreamSynchronize|cuEventSynchronize", "");
  each_fails("wait", "CUDA_ERROR_INVALID_HANDLE (400)", "cuStreamWaitEvent", "");
  each_fails("alloc", "CUDA_ERROR_OUT_OF_MEMORY (2)", "cuMemAlloc", "CUDA_STANDIN_POOLS=0");
  each_fails("event", "CUDA_ERROR_OUT_OF_MEMORY (2)", "cuEventCreate|cuEventRecord", "CUDA_STANDIN_POOLS=0");
  says("CUDA_STANDIN_FAULT=run:9", broken, "CUDA_ERROR_ILLEGAL_ADDRESS (700): by this or by earlier work on the GPU",
       "work that fails when it runs: every later call does, and the log says it once");
  says("CUDA_STANDIN_FAULT=launch:2=201", stays, "cuLaunchKernel for an encoder: CUDA_ERROR_INVALID_CONTEXT (201)",
       "a stream of another context is that call's trouble alone");
  says("CUDA_STANDIN_DEVICES=2 CUDA_STANDIN_FAULT=pool:3", closed_pool,
       "cuMemPoolSetAccess: CUDA_ERROR_NOT_SUPPORTED (801)", "a pool that is closed to a peer is not used");
  says("CUDA_STANDIN_DEVICES=2 CUDA_STANDIN_FAULT=pool:4", closed_before,
       "GPU 1: every call passes: cuMemPoolSetAccess for the pool of another GPU: CUDA_ERROR_NOT_SUPPORTED (801)",
       "a GPU that is not let into a pool in use");
  says("CUDA_STANDIN_FAULT=event:1+,alloc:2+", same_error,
       "cuEventCreate: CUDA_ERROR_OUT_OF_MEMORY (2)|cuMemAllocFromPoolAsync: CUDA_ERROR_OUT_OF_MEMORY (2)",
       "an error of two calls is told twice");
  says("CUDA_STANDIN_FAULT=event:18", unsure, "cuEventRecord: CUDA_ERROR_OUT_OF_MEMORY (2)",
       "counts of which no event tells"); /* 17 are made */
  says("CUDA_STANDIN_FAULT=copy:1+", rows_fail,
       "cuMemcpy2DAsync: CUDA_ERROR_UNKNOWN (999)|cuMemcpyAsync: CUDA_ERROR_UNKNOWN (999)", "copies of rows that fail");
  says("CUDA_STANDIN_FAULT=copy:1+=1", rows_fail, "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE (1)",
       "and that are refused");
  lives("CUDA_STANDIN_FAULT=copy:4+=4", ended, "at the driver's end nothing is said");
}

/* -- a context that ends ------------------------------------------------------------------------------------------- */
static void use_all(struct life *life, const struct sim *sim) {
  const struct tagc_device *d = life->device;
  struct life_rank *r = &life->rank[0];
  struct tagc_codec_stats stats = {0};
  struct tagc_tally_times times;
  int64_t word = 0;
  bool answer;
  EXPECT(!has_layout(d) && !d->alloc(d, 1, NULL) && !d->alloc_pinned(d, 1) && !d->fence_make(d) &&
         !d->tally_make(d, NULL));
  EXPECT(!d->clear(d, r->told, 8, NULL) && !d->put(d, r->told, &word, 8, NULL) && !d->get(d, &word, r->told, 8, NULL));
  EXPECT(!d->copy(d, r->told, 8, r->told + 1, 8, 8, 1, NULL));
  EXPECT(!d->fence_set(d, r->fence, NULL) && !d->fence_wait(d, r->fence, NULL));
  EXPECT(!d->encode(d, life->codec, &r->job, NULL) && !d->decode(d, life->codec, &r->job, NULL));
  EXPECT(!d->flush(d, &r->job, r->flushed, NULL) && !d->pack_flags(d, &r->job, r->told, NULL) &&
         !d->end_call(d, &r->job, NULL, NULL));
  EXPECT(!d->tally_mark(d, r->job.tally, TAGC_MARK_BEGUN, 1, NULL) && !d->tally_read(d, r->job.tally, &times, &stats));
  EXPECT(!d->tally_denser(d, r->job.tally, NULL, &answer) && !answer);
  EXPECT(!life_call(life, sim, 2, 1, true));
  life_end(life, LIFE_RANKS);
}

/* `again`: the program has recreated its context, at the same address, before the library checks it. */
static void reset(bool again) {
  const struct tagc_device *d = life_device(0);
  struct sim sim = life_sim("q8", TAGC_STORAGE_FP32);
  struct life life;
  const CUcontext before = device_open(0);
  EXPECT(life_begin(&life, d, &sim, NULL) && life_call(&life, &sim, 1, 0, true));
  MUST(cuDevicePrimaryCtxReset_v2(0));
  if (again)
    EXPECT(device_open(0) == before);
  use_all(&life, &sim);
  const struct tagc_device *fresh = life_device(0);
  EXPECT(fresh != d && fresh == life_device(0) && life_whole(fresh, &sim, 2, NULL) && !has_layout(d));
  sim_free(&sim);
}

static void reset_once(void) { reset(false); }
static void reset_and_made_anew(void) { reset(true); }

static void stale_stream(void) {
  device_open(0);
  CUstream stream = device_stream(0);
  MUST(cuDevicePrimaryCtxReset_v2(0));
  EXPECT(cuStreamQuery(NULL) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  device_open(0);
  cuStreamQuery(stream);
}

static void stale_event(void) {
  device_open(0);
  CUevent event = device_event();
  MUST(cuDevicePrimaryCtxReset_v2(0));
  device_open(0);
  cuEventQuery(event);
}

static void check_resets(void) {
  says("", reset_once, "GPU 0: its context is gone|CUDA_ERROR_CONTEXT_IS_DESTROYED",
       "a context that ends: all is lost, nothing is touched, and the GPU is set up again for others");
  says("", reset_and_made_anew, "GPU 0: its context is gone", "and where the program has made it anew");
  says("CUDA_STANDIN_POOLS=0", reset_and_made_anew, "GPU 0: its context is gone", "without pools, too");
  dies("", stale_stream, "a stream is used that was made before its device was reset",
       "such a stream is found by the stand-in");
  dies("", stale_event, "an event is used that was made before its device was reset", "and such an event");
}

int main(void) {
  check_drivers();
  check_self_tests();
  check_faults();
  check_resets();
  return tap_done();
}
