/* SPDX-License-Identifier: BSD-3-Clause
 * NVIDIA GPUs as devices, through the driver (cuda_driver.h), with kernels that the library carries along.
 *
 * Context    The primary one of the GPU, which the CUDA runtime uses, too; every function makes it current, and the caller's
 *            current again. A program that works in a context of its own making has memory that the kernels cannot reach: NCCL
 *            does not support that either.
 * Capture    While some thread captures a stream into a graph, others must not allocate or query: these functions ask the
 *            driver to look away (relaxed mode), because nothing that they do belongs to that graph.
 * Memory     From the pool of the device, in the order of streams; where the driver has no pool, the old way, which may wait.
 * Counts     Kernels add to counts in device memory; the last mark of a call copies them to pinned host memory, where they are
 *            read when its event has come to pass.
 */
#include <pthread.h>
#include <stdlib.h>

#include "env/log.h"
#include "kernels/cuda_codecs.h"
#include "kernels/cuda_driver.h"
#include "kernels/device.h"
#include "kernels/fatbin.h"

enum { MOST_DEVICES = 64 };

/* What a stand-in for the driver takes for a module that has its own kernels. */
#define STANDIN_IMAGE "CUDA-STANDIN"

/* Of cuda.h. */
enum {
  CAPTURE_RELAXED = 2,
  STREAM_NON_BLOCKING = 1,
  EVENT_NO_TIMING = 2,
  PROCESSORS = 16, MEMORY_KHZ = 36, MEMORY_BITS = 37, MEMORY_POOLS = 115,   /* attributes of a device */
};

struct cuda_device {
  struct tagc_device base;
  const struct tagc_cuda_driver *driver;
  int ordinal;
  bool usable;                     /* its context is there */
  bool pools;
  void *context, *service;         /* a stream for what belongs to no call */
  bool has_kernels;
  struct tagc_cuda_launcher launcher;
};

struct tally {
  struct tagc_counts *counts;      /* in device memory */
  struct tagc_counts *seen;        /* in pinned memory of the host */
  struct tagc_counts *agreed;      /* behind it: when tally_denser was asked */
  void *asked;                     /* its event */
  void *event[TAGC_MARKS];
  bool pending;                    /* a call has ended that was not read */
};

static const struct cuda_device *of(const struct tagc_device *self) { return (const struct cuda_device *)self; }

static bool good(int error, const char *call) { return tagc_cuda_good(error, call); }

static uint64_t address_of(const void *memory) { return (uint64_t)(uintptr_t)memory; }

/* -- the context ---------------------------------------------------------------------------------------------------- */

/* What leave() makes undone. */
struct visit {
  const struct cuda_device *device;
  int capture_mode;
};

static bool enter(const struct tagc_device *self, struct visit *visit)
{
  const struct cuda_device *d = of(self);
  *visit = (struct visit){d, CAPTURE_RELAXED};
  if (!d->usable || !good(d->driver->context_push(d->context), "cuCtxPushCurrent"))
    return false;
  d->driver->capture_mode(&visit->capture_mode);
  return true;
}

static bool leave(struct visit *visit, bool result)
{
  void *context;
  visit->device->driver->capture_mode(&visit->capture_mode);
  return good(visit->device->driver->context_pop(&context), "cuCtxPopCurrent") && result;
}

/* -- memory --------------------------------------------------------------------------------------------------------- */

static void *cuda_alloc(const struct tagc_device *self, size_t bytes, void *stream)
{
  const struct cuda_device *d = of(self);
  struct visit visit;
  uint64_t memory = 0;
  if (!enter(self, &visit))
    return NULL;
  const size_t size = bytes ? bytes : 1;
  const int error = d->pools ? d->driver->alloc_async(&memory, size, stream) : d->driver->alloc(&memory, size);
  return leave(&visit, good(error, d->pools ? "cuMemAllocAsync" : "cuMemAlloc")) ? (void *)(uintptr_t)memory : NULL;
}

static void cuda_release(const struct tagc_device *self, void *memory, void *stream)
{
  const struct cuda_device *d = of(self);
  struct visit visit;
  if (!memory || !enter(self, &visit))
    return;
  if (d->pools)
    good(d->driver->free_async(address_of(memory), stream), "cuMemFreeAsync");
  else
    good(d->driver->free(address_of(memory)), "cuMemFree");
  leave(&visit, true);
}

static void cuda_release_after(const struct tagc_device *self, void *memory, void *fence)
{
  const struct cuda_device *d = of(self);
  struct visit visit;
  if (!memory || !enter(self, &visit))
    return;
  bool ordered = !fence || good(d->driver->stream_wait(d->service, fence, 0), "cuStreamWaitEvent");
  leave(&visit, true);
  if (ordered)                     /* else it is lost: to give it back under a kernel would be worse */
    cuda_release(self, memory, d->service);
}

static bool cuda_clear(const struct tagc_device *self, void *memory, size_t bytes, void *stream)
{
  struct visit visit;
  return enter(self, &visit) &&
         leave(&visit, !bytes || good(of(self)->driver->clear(address_of(memory), 0, bytes, stream), "cuMemsetD8Async"));
}

/* Memory of the host that is not pinned is copied before the function returns. */
static bool cuda_put(const struct tagc_device *self, void *to_device, const void *from_host, size_t bytes, void *stream)
{
  struct visit visit;
  return enter(self, &visit) &&
         leave(&visit, good(of(self)->driver->put(address_of(to_device), from_host, bytes, stream), "cuMemcpyHtoDAsync"));
}

static bool cuda_get(const struct tagc_device *self, void *to_host, const void *from_device, size_t bytes, void *stream)
{
  const struct tagc_cuda_driver *driver = of(self)->driver;
  struct visit visit;
  return enter(self, &visit) &&
         leave(&visit, good(driver->get(to_host, address_of(from_device), bytes, stream), "cuMemcpyDtoHAsync") &&
                         good(driver->stream_synchronize(stream), "cuStreamSynchronize"));
}

/* -- fences --------------------------------------------------------------------------------------------------------- */

static void *make_event(const struct cuda_device *d, unsigned flags)
{
  void *event = NULL;
  return good(d->driver->event_create(&event, flags), "cuEventCreate") ? event : NULL;
}

static void *cuda_fence_make(const struct tagc_device *self)
{
  struct visit visit;
  void *event = NULL;
  if (enter(self, &visit)) {
    event = make_event(of(self), EVENT_NO_TIMING);
    leave(&visit, true);
  }
  return event;
}

static bool cuda_fence_set(const struct tagc_device *self, void *fence, void *stream)
{
  struct visit visit;
  return enter(self, &visit) && leave(&visit, good(of(self)->driver->event_record(fence, stream), "cuEventRecord"));
}

static bool cuda_fence_wait(const struct tagc_device *self, void *fence, void *stream)
{
  struct visit visit;
  return enter(self, &visit) && leave(&visit, good(of(self)->driver->stream_wait(stream, fence, 0), "cuStreamWaitEvent"));
}

static void cuda_fence_free(const struct tagc_device *self, void *fence)
{
  struct visit visit;
  if (!fence || !enter(self, &visit))
    return;
  good(of(self)->driver->event_destroy(fence), "cuEventDestroy");
  leave(&visit, true);
}

/* -- codecs --------------------------------------------------------------------------------------------------------- */

static bool cuda_layout(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                        struct tagc_layout *out)
{
  const struct tagc_cuda_codec *its = tagc_cuda_codec_of(codec);
  return of(self)->has_kernels && its && its->layout(codec, shape, out);
}

/* `what`: for the log. */
static bool run(const struct tagc_device *self, tagc_cuda_step *step, const struct tagc_codec *codec, const struct tagc_job *job,
                void *stream, const char *what)
{
  const struct tally *tally = job->tally;
  struct visit visit;
  return enter(self, &visit) && leave(&visit, good(step(&of(self)->launcher, codec, job, tally->counts, stream), what));
}

static bool cuda_prepare(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream)
{
  tagc_cuda_step *prepare = tagc_cuda_codec_of(codec)->prepare;
  return !prepare || run(self, prepare, codec, job, stream, "cuLaunchKernel for a choice");
}

static bool cuda_encode(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream)
{
  return run(self, tagc_cuda_codec_of(codec)->encode, codec, job, stream, "cuLaunchKernel for an encoder");
}

static bool cuda_decode(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream)
{
  return run(self, tagc_cuda_codec_of(codec)->decode, codec, job, stream, "cuLaunchKernel for a decoder");
}

static bool cuda_flush(const struct tagc_device *self, struct tagc_job *job, void *out, void *stream)
{
  struct visit visit;
  return enter(self, &visit) && leave(&visit, good(tagc_cuda_flush(&of(self)->launcher, job, out, stream),
                                                   "cuLaunchKernel for a flush"));
}

static bool cuda_tell(const struct tagc_device *self, const struct tagc_job *job, int64_t *words, void *stream)
{
  const struct tally *tally = job->tally;
  const struct tagc_cuda_told told = {.counts = tally->counts, .words = words};
  struct visit visit;
  return enter(self, &visit) && leave(&visit, good(tagc_cuda_tell(&of(self)->launcher, &told, stream), "cuLaunchKernel"));
}

static bool cuda_settle(const struct tagc_device *self, struct tagc_job *job, const int64_t *words, void *stream)
{
  const struct tally *tally = job->tally;
  const struct tagc_cuda_told told = {
    .counts = tally->counts, .health = job->health, .words = (int64_t *)(uintptr_t)words, .cycle = job->cycle,
  };
  struct visit visit;
  return enter(self, &visit) && leave(&visit, good(tagc_cuda_settle(&of(self)->launcher, &told, stream), "cuLaunchKernel"));
}

/* -- tallies -------------------------------------------------------------------------------------------------------- */

static void cuda_tally_free(const struct tagc_device *self, void *tally_, void *fence)
{
  const struct cuda_device *d = of(self);
  struct tally *tally = tally_;
  struct visit visit;
  if (!tally)
    return;
  cuda_release_after(self, tally->counts, fence);
  if (enter(self, &visit)) {
    for (int i = 0; i < TAGC_MARKS; i++)
      if (tally->event[i])
        d->driver->event_destroy(tally->event[i]);
    if (tally->asked)
      d->driver->event_destroy(tally->asked);
    if (tally->seen)
      d->driver->free_host(tally->seen);           /* waits for the copies into it */
    leave(&visit, true);
  }
  free(tally);
}

static void *cuda_tally_make(const struct tagc_device *self, void *stream)
{
  const struct cuda_device *d = of(self);
  struct tally *tally = calloc(1, sizeof *tally);
  struct visit visit;
  bool whole = tally != NULL;
  if (whole && (whole = enter(self, &visit))) {
    void *seen = NULL;
    whole = good(d->driver->alloc_host(&seen, 2 * sizeof *tally->seen), "cuMemAllocHost");
    tally->seen = seen;
    tally->agreed = tally->seen + 1;
    for (int i = 0; i < TAGC_MARKS && whole; i++)
      whole = (tally->event[i] = make_event(d, 0)) != NULL;
    leave(&visit, true);
  }
  if (whole) {
    tally->counts = cuda_alloc(self, sizeof *tally->counts, stream);
    whole = tally->counts && cuda_clear(self, tally->counts, sizeof *tally->counts, stream);
  }
  if (whole)
    return tally;
  cuda_tally_free(self, tally, NULL);
  return NULL;
}

static bool cuda_tally_mark(const struct tagc_device *self, void *tally_, enum tagc_mark mark, void *stream)
{
  const struct tagc_cuda_driver *driver = of(self)->driver;
  struct tally *tally = tally_;
  struct visit visit;
  if (!enter(self, &visit))
    return false;
  bool done = mark != TAGC_MARK_DECODED ||
              good(driver->get(tally->seen, address_of(tally->counts), sizeof *tally->seen, stream), "cuMemcpyDtoHAsync");
  done = done && good(driver->event_record(tally->event[mark], stream), "cuEventRecord");
  tally->pending = mark == TAGC_MARK_DECODED;
  return leave(&visit, done);
}

static bool cuda_tally_denser(const struct tagc_device *self, void *tally_, void *stream, bool *denser)
{
  const struct tagc_cuda_driver *driver = of(self)->driver;
  struct tally *tally = tally_;
  struct visit visit;
  *denser = false;
  if (!enter(self, &visit))
    return false;
  bool done = true;
  if (tally->asked) {
    done = good(driver->event_synchronize(tally->asked), "cuEventSynchronize");
    *denser = tally->agreed->denser;
  } else {
    done = (tally->asked = make_event(of(self), EVENT_NO_TIMING)) != NULL;
  }
  done = done && good(driver->get(tally->agreed, address_of(tally->counts), sizeof *tally->agreed, stream), "cuMemcpyDtoHAsync") &&
         good(driver->event_record(tally->asked, stream), "cuEventRecord");
  return leave(&visit, done);
}

static bool cuda_tally_read(const struct tagc_device *self, void *tally_, double ms[TAGC_MARKS - 1],
                            struct tagc_codec_stats *stats)
{
  const struct tagc_cuda_driver *driver = of(self)->driver;
  struct tally *tally = tally_;
  struct visit visit;
  if (!tally || !tally->pending || !enter(self, &visit))
    return false;
  int error = driver->event_query(tally->event[TAGC_MARK_DECODED]);
  for (int i = 0; i + 1 < TAGC_MARKS && !error; i++) {
    float took = 0;
    error = driver->event_elapsed(&took, tally->event[i], tally->event[i + 1]);
    ms[i] = (double)took;
  }
  if (!error) {
    tally->pending = false;
    stats->selected = tally->seen->selected;
    stats->unrecovered = tally->seen->unrecovered;
    stats->nonfinite = tally->seen->nonfinite;
    stats->overflowed = tally->seen->overflowed;
    stats->residual_norm2 = tally->seen->residual_norm2;
  }
  return leave(&visit, error == 0);
}

/* -- the devices ---------------------------------------------------------------------------------------------------- */

static const struct tagc_device functions = {
  .name = "CUDA",
  .health_bytes = sizeof(struct tagc_health),
  .alloc = cuda_alloc,
  .release = cuda_release,
  .release_after = cuda_release_after,
  .clear = cuda_clear,
  .put = cuda_put,
  .get = cuda_get,
  .fence_make = cuda_fence_make,
  .fence_set = cuda_fence_set,
  .fence_wait = cuda_fence_wait,
  .fence_free = cuda_fence_free,
  .layout = cuda_layout,
  .prepare = cuda_prepare,
  .encode = cuda_encode,
  .decode = cuda_decode,
  .flush = cuda_flush,
  .tell = cuda_tell,
  .settle = cuda_settle,
  .tally_make = cuda_tally_make,
  .tally_mark = cuda_tally_mark,
  .tally_read = cuda_tally_read,
  .tally_denser = cuda_tally_denser,
  .tally_free = cuda_tally_free,
};

static int attribute(const struct cuda_device *d, int device, int which)
{
  int value = 0;
  return d->driver->device_attribute(&value, which, device) == 0 ? value : 0;
}

/* The kernels for this GPU: they are in the image for many, and as code that the driver translates for newer ones. */
static bool load_kernels(struct cuda_device *d)
{
  void *module = NULL;
  const char *missing = "";
  int error = d->driver->module_load(&module, tagc_fatbin() ? tagc_fatbin() : STANDIN_IMAGE);
  if (error && tagc_fatbin_ptx())
    error = d->driver->module_load(&module, tagc_fatbin_ptx());
  if (!good(error, "cuModuleLoadData"))
    return false;
  d->launcher.launch = d->driver->launch;
  return good(tagc_cuda_find(&d->launcher, d->driver->module_function, module, &missing), "cuModuleGetFunction");
}

static void set_up(struct cuda_device *d, int ordinal)
{
  int device = 0;
  *d = (struct cuda_device){.base = functions, .driver = tagc_cuda_driver(NULL), .ordinal = ordinal};
  if (!good(d->driver->device_get(&device, ordinal), "cuDeviceGet") ||
      !good(d->driver->context_retain(&d->context, device), "cuDevicePrimaryCtxRetain"))
    return;
  d->usable = true;
  struct visit visit;
  if (!enter(&d->base, &visit))
    return;
  d->pools = attribute(d, device, MEMORY_POOLS);
  d->launcher.processors = (uint32_t)attribute(d, device, PROCESSORS);
  /* Twice a clock (DDR); a driver that does not say: 500 GB/s. */
  const double bytes_a_second = 2e3 * attribute(d, device, MEMORY_KHZ) * attribute(d, device, MEMORY_BITS) / 8;
  d->base.ns_per_byte = bytes_a_second > 1e9 ? 1e9 / bytes_a_second : 0.002;
  d->usable = leave(&visit, good(d->driver->stream_create(&d->service, STREAM_NON_BLOCKING), "cuStreamCreate"));
  if (d->usable && enter(&d->base, &visit)) {
    d->has_kernels = load_kernels(d);
    leave(&visit, true);
  }
  if (!d->has_kernels)
    tagc_log(TAGC_LOG_WARN, "kernels", "GPU %d: its driver does not take the kernels of this library: every call passes", ordinal);
}

bool tagc_device_cuda_is_there(const char **why)
{
  const struct tagc_cuda_driver *driver = tagc_cuda_driver(why);
  if (driver && (tagc_fatbin() || driver->plays_kernels))
    return true;
  if (driver)
    *why = "this library was built without nvcc, and has no kernels for GPUs";
  return false;
}

const struct tagc_device *tagc_device_cuda(int ordinal)
{
  static struct cuda_device devices[MOST_DEVICES];
  static bool ready[MOST_DEVICES];
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  const char *why;
  if (ordinal < 0 || ordinal >= MOST_DEVICES || !tagc_device_cuda_is_there(&why))
    return NULL;
  pthread_mutex_lock(&lock);
  if (!ready[ordinal])
    set_up(&devices[ordinal], ordinal);
  ready[ordinal] = true;
  pthread_mutex_unlock(&lock);
  return &devices[ordinal].base;
}
