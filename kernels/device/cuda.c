/* SPDX-License-Identifier: BSD-3-Clause
 * NVIDIA GPUs as devices, through the driver (driver.h), with kernels inside the library: the table of functions, and
 * the set-up of a GPU. cuda_device.h explains contexts and captures, and lists the other files.
 */
#include <stdio.h>
#include <stdlib.h>

#include "env/log.h"
#include "kernels/cuda/codecs.h"
#include "kernels/device/cuda_device.h"
#include "kernels/device/fatbin.h"

enum { MOST_DEVICES = 64 };

/* The stand-in for the driver takes this for a module with its own kernels. */
#define STANDIN_IMAGE "CUDA-STANDIN"

/* From cuda.h. */
enum {
  CAPTURE_RELAXED = 2,
  STREAM_NON_BLOCKING = 1,
  EVENT_NO_TIMING = 2,
  CLOCK_KHZ = 13,
  PROCESSORS = 16,
  MEMORY_KHZ = 36,
  MEMORY_BITS = 37,
  CAPABILITY_MAJOR = 75,
  CAPABILITY_MINOR = 76,
  PAGEABLE_ACCESS = 88,
  CONCURRENT_MANAGED = 89, /* attributes of a device */
};

/* The oldest GPUs that the kernels support, and their least rates, for drivers that do not report them. */
enum { LEAST_CAPABILITY = 75, LEAST_GIGABYTES_A_PROCESSOR = 8, LEAST_CLOCK_KHZ = 1000000 };

/* -- set-up -------------------------------------------------------------------------------------------------------- */

static int attribute(const struct tagc_cuda_device *d, int which) {
  int value = 0;
  return d->driver->device_attribute(&value, which, d->number) == 0 ? value : 0;
}

/* False if a call of the set-up has failed; d->why says which. */
static bool went(struct tagc_cuda_device *d, int error, const char *call) {
  if (error)
    tagc_cuda_words(error, call, d->why, sizeof d->why);
  return !error;
}

static void look_at(struct tagc_cuda_device *d) {
  d->launcher.processors = (uint32_t)attribute(d, PROCESSORS);
  d->reaches_managed = attribute(d, CONCURRENT_MANAGED);
  d->reaches_pageable = attribute(d, PAGEABLE_ACCESS);
  /* Two transfers a clock (DDR). Some drivers do not report it, such as those of virtual GPUs. */
  double bytes_a_second = 2e3 * attribute(d, MEMORY_KHZ) * attribute(d, MEMORY_BITS) / 8;
  if (bytes_a_second < 1e9 * LEAST_GIGABYTES_A_PROCESSOR)
    bytes_a_second = 1e9 * LEAST_GIGABYTES_A_PROCESSOR * (d->launcher.processors ? d->launcher.processors : 1);
  double clock_khz = attribute(d, CLOCK_KHZ);
  if (clock_khz < LEAST_CLOCK_KHZ)
    clock_khz = LEAST_CLOCK_KHZ;
  d->rates = (struct tagc_gpu_rates){
    .ns_per_byte = 1e9 / bytes_a_second,
    .ns_per_op = 1e6 / (clock_khz * TAGC_GPU_LANES * (d->launcher.processors ? d->launcher.processors : 1)),
  };
}

/* Loads the kernels: binaries for many GPUs, and PTX, which older drivers and newer GPUs translate. cuModuleGetFunction
 * loads each function here, and the self-tests launch each: later, either could wait for kernels that wait for us. */
static bool load_kernels(struct tagc_cuda_device *d) {
  const int capability = 10 * attribute(d, CAPABILITY_MAJOR) + attribute(d, CAPABILITY_MINOR);
  char refused[160] = "", words[160];
  const char *missing = "";
  void *module = NULL;
  int version = 0;
  int error = d->driver->module_load(&module, tagc_fatbin() ? tagc_fatbin() : STANDIN_IMAGE);
  if (error && tagc_fatbin_ptx()) {
    tagc_cuda_words(error, "cuModuleLoadData for binaries", refused, sizeof refused - 2);
    tagc_log(TAGC_LOG_INFO, "kernels", "GPU %d: %s: the driver translates the kernels", d->ordinal, refused);
    error = d->driver->module_load(&module, tagc_fatbin_ptx());
  }
  if (error) {
    (void)d->driver->driver_version(&version);
    snprintf(d->why, sizeof d->why, "%s%s%s; the GPU is of %d.%d (%d.%d is needed), the driver of CUDA %d.%d", refused,
             *refused ? "; " : "", tagc_cuda_words(error, "cuModuleLoadData", words, sizeof words), capability / 10,
             capability % 10, LEAST_CAPABILITY / 10, LEAST_CAPABILITY % 10, version / 1000, version % 1000 / 10);
    return false;
  }
  d->launcher.launch = d->driver->launch;
  error = tagc_cuda_find(&d->launcher, d->driver->module_function, module, &missing);
  if (error)
    snprintf(d->why, sizeof d->why, "%s: %s", missing,
             tagc_cuda_words(error, "cuModuleGetFunction", words, sizeof words));
  return !error;
}

/* Finds the primary context, which the program uses, too, and the id that tells it from a later one. */
static bool find_device_context(struct tagc_cuda_device *d) {
  if (atomic_load(&d->has_context))
    return true;
  if (!went(d, d->driver->device_get(&d->number, d->ordinal), "cuDeviceGet") ||
      !went(d, d->driver->context_retain(&d->context, d->number), "cuDevicePrimaryCtxRetain"))
    return false;
  if (d->driver->context_id && !went(d, d->driver->context_id(d->context, &d->context_id), "cuCtxGetId"))
    return false;
  atomic_store(&d->has_context, true);
  return true;
}

/* Inside the context. */
static enum tagc_cuda_condition furnish(struct tagc_cuda_device *d) {
  look_at(d);
  (void)tagc_cuda_pinned(d, 0); /* a piece, for votes: later the driver might wait for the GPU */
  if (!went(d, d->driver->stream_create(&d->service, STREAM_NON_BLOCKING), "cuStreamCreate") || !load_kernels(d))
    return TAGC_CUDA_CRIPPLED;
  d->beside = d->launcher;
  d->beside.most = tagc_cuda_beside(d->launcher.processors);
  return tagc_cuda_memory_set_up(d) ? TAGC_CUDA_READY : TAGC_CUDA_CRIPPLED;
}

static enum tagc_cuda_condition set_up_device(struct tagc_cuda_device *d) {
  enum tagc_cuda_condition state = TAGC_CUDA_FAILED;
  int capture_mode = CAPTURE_RELAXED;
  void *context;
  if (find_device_context(d) && went(d, d->driver->context_push(d->context), "cuCtxPushCurrent")) {
    (void)d->driver->capture_mode(&capture_mode);
    state = furnish(d);
    (void)d->driver->capture_mode(&capture_mode);
    if (!went(d, d->driver->context_pop(&context), "cuCtxPopCurrent"))
      state = TAGC_CUDA_FAILED;
  }
  if (state != TAGC_CUDA_READY)
    tagc_log(TAGC_LOG_WARN, "kernels", "GPU %d: every call passes: %s", d->ordinal, d->why);
  return state;
}

static enum tagc_cuda_condition set_up_once(struct tagc_cuda_device *d) {
  bool is_new = false;
  if (atomic_load_explicit(&d->state, memory_order_acquire) == TAGC_CUDA_UNTRIED) {
    pthread_mutex_lock(&d->set_up_lock);
    if (atomic_load_explicit(&d->state, memory_order_relaxed) == TAGC_CUDA_UNTRIED) {
      enum tagc_cuda_condition state = set_up_device(d), untried = TAGC_CUDA_UNTRIED;
      is_new = atomic_compare_exchange_strong(&d->state, &untried, state); /* unless lost meanwhile */
    }
    pthread_mutex_unlock(&d->set_up_lock);
  }
  if (is_new)
    tagc_cuda_self_test_codecs(d);
  return atomic_load_explicit(&d->state, memory_order_acquire);
}

/* -- the context --------------------------------------------------------------------------------------------------- */

static void lose(struct tagc_cuda_device *d, int error) {
  const char *name = NULL;
  const enum tagc_cuda_condition before = atomic_exchange(&d->state, TAGC_CUDA_LOST);
  if (before == TAGC_CUDA_LOST || before == TAGC_CUDA_UNTRIED || error == TAGC_CUDA_DEINITIALIZED)
    return;
  if (d->driver->error_name(error, &name) || !name)
    name = "an unknown error";
  tagc_log(TAGC_LOG_ERROR, "kernels",
           "GPU %d: its context is gone (cudaDeviceReset or the like), and with it all that this "
           "library had there: compressed calls of its communicators fail (%s)",
           d->ordinal, name);
}

/* The error, if the context is not the one of the set-up any more. A new context may have the old one's address, but
 * none of its contents; only newer drivers tell the two apart. */
static int context_error(const struct tagc_cuda_device *d) {
  unsigned long long id = 0;
  unsigned version = 0;
  if (!d->driver->context_id)
    return d->driver->context_version(d->context, &version);
  const int error = d->driver->context_id(d->context, &id);
  return error ? error : id == d->context_id ? 0 : TAGC_CUDA_CONTEXT_IS_DESTROYED;
}

bool tagc_cuda_did(struct tagc_cuda_device *d, int error, const char *call) {
  if (error == TAGC_CUDA_DEINITIALIZED || error == TAGC_CUDA_CONTEXT_IS_DESTROYED ||
      (error == TAGC_CUDA_INVALID_CONTEXT && context_error(d))) /* else it is the stream's */
    lose(d, error);
  return tagc_cuda_good(error, call);
}

bool tagc_cuda_is_lost(struct tagc_cuda_device *d) {
  const enum tagc_cuda_condition state = atomic_load_explicit(&d->state, memory_order_acquire);
  const bool has_context = state != TAGC_CUDA_LOST && state != TAGC_CUDA_FAILED && atomic_load(&d->has_context);
  const int error = has_context ? context_error(d) : 0;
  if (error)
    lose(d, error);
  return error || state == TAGC_CUDA_LOST;
}

static bool enter_context(struct tagc_cuda_device *d, struct tagc_cuda_visit *visit) {
  *visit = (struct tagc_cuda_visit){d, CAPTURE_RELAXED};
  if (tagc_cuda_is_lost(d) || !tagc_cuda_did(d, d->driver->context_push(d->context), "cuCtxPushCurrent"))
    return false;
  (void)d->driver->capture_mode(&visit->capture_mode);
  return true;
}

bool tagc_cuda_enter(const struct tagc_device *self, struct tagc_cuda_visit *visit) {
  struct tagc_cuda_device *d = tagc_cuda_device_of(self);
  const enum tagc_cuda_condition state = set_up_once(d);
  return (state == TAGC_CUDA_READY || state == TAGC_CUDA_CRIPPLED) && enter_context(d, visit);
}

bool tagc_cuda_enter_ready(const struct tagc_device *self, struct tagc_cuda_visit *visit) {
  struct tagc_cuda_device *d = tagc_cuda_device_of(self);
  return set_up_once(d) == TAGC_CUDA_READY && enter_context(d, visit);
}

bool tagc_cuda_enter_context(const struct tagc_device *self, struct tagc_cuda_visit *visit) {
  struct tagc_cuda_device *d = tagc_cuda_device_of(self);
  if (!atomic_load(&d->has_context)) {
    if (pthread_mutex_trylock(&d->set_up_lock) != 0)
      return false;
    if (atomic_load(&d->state) == TAGC_CUDA_UNTRIED)
      (void)find_device_context(d);
    pthread_mutex_unlock(&d->set_up_lock);
  }
  return atomic_load(&d->has_context) && atomic_load(&d->state) != TAGC_CUDA_FAILED && enter_context(d, visit);
}

bool tagc_cuda_leave(struct tagc_cuda_visit *visit, bool result) {
  struct tagc_cuda_device *d = visit->device;
  void *context;
  (void)d->driver->capture_mode(&visit->capture_mode);
  return tagc_cuda_did(d, d->driver->context_pop(&context), "cuCtxPopCurrent") && result;
}

/* -- streams ------------------------------------------------------------------------------------------------------- */

/* Old drivers give a green context's own handle, and no answer for a stream that is captured: such a stream passes for
 * one that is not ours, this one for ours. */
bool tagc_cuda_takes(struct tagc_cuda_device *d, void *stream) {
  void *context = NULL, *green;
  const int error = d->driver->stream_contexts  ? d->driver->stream_contexts(stream, &context, &green)
                    : d->driver->stream_context ? d->driver->stream_context(stream, &context)
                                                : 0;
  return error || !context || context == d->context;
}

static bool cuda_takes_stream(const struct tagc_device *self, void *stream) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return true; /* nothing works here; later calls report it */
  const bool takes = tagc_cuda_takes(visit.device, stream);
  return tagc_cuda_leave(&visit, true) && takes;
}

/* -- fences -------------------------------------------------------------------------------------------------------- */

void *tagc_cuda_event(struct tagc_cuda_device *d, bool timed) {
  void *event = NULL;
  return tagc_cuda_did(d, d->driver->event_create(&event, timed ? 0 : EVENT_NO_TIMING), "cuEventCreate") ? event : NULL;
}

static void *cuda_fence_make(const struct tagc_device *self) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter_ready(self, &visit))
    return NULL;
  void *event = tagc_cuda_event(visit.device, false);
  tagc_cuda_leave(&visit, true);
  return event;
}

static bool cuda_fence_set(const struct tagc_device *self, void *fence, void *stream) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return false;
  const int error = visit.device->driver->event_record(fence, stream);
  return tagc_cuda_leave(&visit, tagc_cuda_did(visit.device, error, "cuEventRecord"));
}

static bool cuda_fence_wait(const struct tagc_device *self, void *fence, void *stream) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter(self, &visit))
    return false;
  const int error = visit.device->driver->stream_wait(stream, fence, 0);
  return tagc_cuda_leave(&visit, tagc_cuda_did(visit.device, error, "cuStreamWaitEvent"));
}

static bool cuda_fence_is_over(const struct tagc_device *self, void *fence) {
  enum { NOT_READY = 600 }; /* of cuda.h */
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter_context(self, &visit))
    return true;
  const bool over = visit.device->driver->event_query(fence) != NOT_READY;
  return tagc_cuda_leave(&visit, true) ? over : true;
}

static void cuda_fence_free(const struct tagc_device *self, void *fence) {
  struct tagc_cuda_visit visit;
  if (!fence || !tagc_cuda_enter(self, &visit))
    return;
  tagc_cuda_did(visit.device, visit.device->driver->event_destroy(fence), "cuEventDestroy");
  tagc_cuda_leave(&visit, true);
}

/* -- codecs -------------------------------------------------------------------------------------------------------- */

static bool cuda_layout(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                        struct tagc_layout *out) {
  const struct tagc_cuda_codec *its = tagc_cuda_codec_of(codec);
  struct tagc_cuda_visit visit;
  return its && tagc_cuda_enter_ready(self, &visit) && tagc_cuda_leave(&visit, true) &&
         its->layout(codec, shape, out) && tagc_cuda_codec_passes(tagc_cuda_device_of(self), codec);
}

static bool cuda_cost(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                      struct tagc_gpu_cost *out) {
  struct tagc_cuda_visit visit;
  return tagc_cuda_enter_ready(self, &visit) && tagc_cuda_leave(&visit, true) &&
         tagc_cuda_codec_cost(codec, shape, &visit.device->rates, out);
}

/* `what`: for the log. */
static bool run_codec_step(const struct tagc_device *self, tagc_cuda_step *step, const struct tagc_codec *codec,
                           const struct tagc_job *job, void *stream, const char *what) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter_ready(self, &visit))
    return false;
  const struct tagc_cuda_launcher *launcher = job->beside ? &visit.device->beside : &visit.device->launcher;
  const int error = step(launcher, codec, job, tagc_cuda_tally_counts(job->tally), stream);
  return tagc_cuda_leave(&visit, tagc_cuda_did(visit.device, error, what));
}

static bool cuda_measure(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job,
                         void *stream) {
  return run_codec_step(self, tagc_cuda_codec_of(codec)->measure, codec, job, stream, "cuLaunchKernel for exponents");
}

static bool cuda_prepare(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job,
                         void *stream) {
  tagc_cuda_step *prepare = tagc_cuda_codec_of(codec)->prepare;
  return !prepare || run_codec_step(self, prepare, codec, job, stream, "cuLaunchKernel for a choice");
}

static bool cuda_encode(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job,
                        void *stream) {
  return run_codec_step(self, tagc_cuda_codec_of(codec)->encode, codec, job, stream, "cuLaunchKernel for an encoder");
}

static bool cuda_decode(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job,
                        void *stream) {
  const struct tagc_cuda_codec *its = tagc_cuda_codec_of(codec);
  job->ended = job->ends && its->ends;
  return run_codec_step(self, its->decode, codec, job, stream, "cuLaunchKernel for a decoder");
}

static bool cuda_flush(const struct tagc_device *self, struct tagc_job *job, void *out, void *stream) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter_ready(self, &visit))
    return false;
  const int error = tagc_cuda_flush(&visit.device->launcher, job, out, stream);
  return tagc_cuda_leave(&visit, tagc_cuda_did(visit.device, error, "cuLaunchKernel for a flush"));
}

static bool cuda_count(const struct tagc_device *self, const struct tagc_job *job, uint64_t range, uint64_t *words,
                       void *stream) {
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter_ready(self, &visit))
    return false;
  const int error = tagc_cuda_count(&visit.device->launcher, job, range, words, stream);
  return tagc_cuda_leave(&visit, tagc_cuda_did(visit.device, error, "cuLaunchKernel for a look at a gradient"));
}

static bool cuda_pack_flags(const struct tagc_device *self, const struct tagc_job *job, int64_t *words, void *stream) {
  const struct tagc_cuda_flags flags = {.counts = tagc_cuda_tally_counts(job->tally), .words = words};
  struct tagc_cuda_visit visit;
  if (!tagc_cuda_enter_ready(self, &visit))
    return false;
  const int error = tagc_cuda_pack_flags(&visit.device->launcher, &flags, stream);
  return tagc_cuda_leave(&visit, tagc_cuda_did(visit.device, error, "cuLaunchKernel for what was seen"));
}

static bool cuda_end_call(const struct tagc_device *self, struct tagc_job *job, const int64_t *words, void *stream) {
  const struct tagc_cuda_flags flags = {
    .counts = tagc_cuda_tally_counts(job->tally),
    .health = job->health,
    .words = (int64_t *)(uintptr_t)words,
    .cycle = job->cycle,
  };
  struct tagc_cuda_visit visit;
  if (job->ended)
    return true;
  if (!tagc_cuda_enter_ready(self, &visit))
    return false;
  const int error = tagc_cuda_end_call(&visit.device->launcher, &flags, stream);
  return tagc_cuda_leave(&visit, tagc_cuda_did(visit.device, error, "cuLaunchKernel for the end of a call"));
}

/* -- the devices --------------------------------------------------------------------------------------------------- */

static const struct tagc_device functions = {
  .name = "CUDA",
  .health_bytes = sizeof(struct tagc_health),
  .alloc = tagc_cuda_alloc,
  .release = tagc_cuda_release,
  .release_after = tagc_cuda_release_after,
  .alloc_pinned = tagc_cuda_alloc_pinned,
  .spare = tagc_cuda_spare,
  .reaches = tagc_cuda_reaches,
  .clear = tagc_cuda_clear,
  .put = tagc_cuda_put,
  .get = tagc_cuda_get,
  .copy = tagc_cuda_copy,
  .fence_make = cuda_fence_make,
  .fence_set = cuda_fence_set,
  .fence_wait = cuda_fence_wait,
  .fence_is_over = cuda_fence_is_over,
  .fence_free = cuda_fence_free,
  .takes_stream = cuda_takes_stream,
  .layout = cuda_layout,
  .cost = cuda_cost,
  .measure = cuda_measure,
  .prepare = cuda_prepare,
  .encode = cuda_encode,
  .decode = cuda_decode,
  .flush = cuda_flush,
  .allgather_layout = tagc_cuda_allgather_layout,
  .allgather_cost = tagc_cuda_allgather_cost,
  .allgather_encode = tagc_cuda_allgather_encode,
  .allgather_decode = tagc_cuda_allgather_decode,
  .allgather_refer = tagc_cuda_allgather_refer,
  .allgather_refused = tagc_cuda_allgather_refused,
  .allgather_digest = tagc_cuda_allgather_digest,
  .count = cuda_count,
  .pack_flags = cuda_pack_flags,
  .end_call = cuda_end_call,
  .tally_make = tagc_cuda_tally_make,
  .tally_mark = tagc_cuda_tally_mark,
  .tally_read = tagc_cuda_tally_read,
  .tally_side_stream = tagc_cuda_tally_side_stream,
  .tally_denser = tagc_cuda_tally_denser,
  .tally_free = tagc_cuda_tally_free,
  .timer_make = tagc_cuda_timer_make,
  .timer_begin = tagc_cuda_timer_begin,
  .timer_end = tagc_cuda_timer_end,
  .timer_read = tagc_cuda_timer_read,
  .timer_free = tagc_cuda_timer_free,
  .side_stream_make = tagc_cuda_side_stream_make,
  .side_stream_submit = tagc_cuda_side_stream_submit,
  .side_stream_after = tagc_cuda_side_stream_after,
  .side_stream_wait = tagc_cuda_side_stream_wait,
  .side_stream_close = tagc_cuda_side_stream_close,
  .side_stream_times = tagc_cuda_side_stream_times,
  .side_stream_free = tagc_cuda_side_stream_free,
};

bool tagc_device_cuda_is_there(const char **why) {
  const struct tagc_cuda_driver *driver = tagc_cuda_driver(why);
  if (driver && (tagc_fatbin() || driver->plays_kernels))
    return true;
  if (driver)
    *why = "this library was built without nvcc, and has no kernels for GPUs";
  return false;
}

static struct tagc_cuda_device *start_device(struct tagc_cuda_device *d, int ordinal) {
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  d->base = functions;
  d->driver = tagc_cuda_driver(NULL);
  d->base.emulated = d->driver->plays_kernels;
  d->ordinal = ordinal;
  pthread_mutex_init(&d->set_up_lock, NULL);
  pthread_mutex_init(&d->self_test_lock, &recursive);
  pthread_mutex_init(&d->lock, NULL);
  return d;
}

const struct tagc_device *tagc_device_cuda(int ordinal) {
  /* The last one is for impossible ordinals: the driver refuses them. */
  static struct tagc_cuda_device first[MOST_DEVICES + 1], *devices[MOST_DEVICES + 1];
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  const char *why;
  if (!tagc_device_cuda_is_there(&why))
    return NULL;
  const int i = ordinal < 0 || ordinal >= MOST_DEVICES ? MOST_DEVICES : ordinal;
  pthread_mutex_lock(&lock);
  if (!devices[i]) {
    devices[i] = start_device(&first[i], i == MOST_DEVICES ? -1 : i);
  } else if (tagc_cuda_is_lost(devices[i])) {
    struct tagc_cuda_device *another = calloc(1, sizeof *another);
    if (another) /* else the lost one stays: it refuses everything */
      devices[i] = start_device(another, i);
  }
  struct tagc_cuda_device *d = devices[i];
  pthread_mutex_unlock(&lock);
  return &d->base;
}

bool tagc_device_cuda_is_set_up(const struct tagc_device *device) {
  return atomic_load_explicit(&tagc_cuda_device_of(device)->state, memory_order_acquire) != TAGC_CUDA_UNTRIED;
}
