/* SPDX-License-Identifier: BSD-3-Clause
 * Plain host memory as a device: its streams defer nothing, so every function is done when it returns.
 *
 * Purpose    For a libnccl.so.2 that works on host memory, and for the tests of the codecs.
 * Ownership  alloc() gives, release() takes back. Threads: any. Failure: NULL from alloc(), errno unchanged.
 */
#include "kernels/codec/device.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/codec/fpmode.h"
#include "kernels/device/host_side_stream.h"
#include "kernels/codec/residual.h"

enum { SMALL_ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

/* Codecs walk large buffers in strides: huge pages, if the system grants them, save most of the page walks. */
static void *host_alloc(const struct tagc_device *self, size_t bytes, void *stream) {
  (void)self, (void)stream;
  int saved_errno = errno;
  size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : SMALL_ALIGNMENT;
  void *memory = NULL;
  if (bytes > SIZE_MAX - alignment || posix_memalign(&memory, alignment, bytes ? bytes : 1) != 0)
    memory = NULL;
  if (memory && alignment == HUGE_PAGE)
    (void)madvise(memory, bytes & ~(size_t)(HUGE_PAGE - 1), MADV_HUGEPAGE);
  errno = saved_errno;
  return memory;
}

static void host_release(const struct tagc_device *self, void *memory, void *stream_or_fence) {
  (void)self, (void)stream_or_fence;
  free(memory);
}

static void *host_alloc_pinned(const struct tagc_device *self, size_t bytes) {
  (void)self, (void)bytes;
  return NULL;
}

static size_t host_spare(const struct tagc_device *self) {
  (void)self;
  return SIZE_MAX;
}

static bool host_reaches(const struct tagc_device *self, const void *buffer) {
  (void)self, (void)buffer;
  return true;
}

static bool host_clear(const struct tagc_device *self, void *memory, size_t bytes, void *stream) {
  (void)self, (void)stream;
  if (bytes)
    memset(memory, 0, bytes);
  return true;
}

/* Both put and get. */
static bool host_copy(const struct tagc_device *self, void *to, const void *from, size_t bytes, void *stream) {
  (void)self, (void)stream;
  if (bytes)
    memcpy(to, from, bytes);
  return true;
}

static bool host_copy_rows(const struct tagc_device *self, void *to, size_t to_pitch, const void *from,
                           size_t from_pitch, size_t width, size_t rows, void *stream) {
  (void)self, (void)stream;
  for (size_t row = 0; row < rows; row++)
    memcpy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
  return true;
}

/* All work is in order already. */
static void *host_fence_make(const struct tagc_device *self) {
  static char fence;
  (void)self;
  return &fence;
}

static bool host_fence(const struct tagc_device *self, void *fence, void *stream) {
  (void)self, (void)fence, (void)stream;
  return true;
}

static bool host_fence_is_over(const struct tagc_device *self, void *fence) {
  (void)self, (void)fence;
  return true;
}

static bool host_takes_stream(const struct tagc_device *self, void *stream) {
  (void)self, (void)stream;
  return true;
}

static void host_fence_free(const struct tagc_device *self, void *fence) { (void)self, (void)fence; }

static bool host_layout(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                        struct tagc_layout *out) {
  (void)self;
  return codec->layout(shape, out);
}

static bool host_cost(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                      struct tagc_gpu_cost *out) {
  (void)self, (void)codec, (void)shape, (void)out;
  return false;
}

static bool host_measure(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job,
                         void *stream) {
  (void)self, (void)stream;
  codec->measure(job);
  return true;
}

static bool host_prepare(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job,
                         void *stream) {
  (void)self, (void)stream;
  if (codec->prepare)
    codec->prepare(job);
  return true;
}

static bool host_encode(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job,
                        void *stream) {
  (void)self, (void)stream;
  codec->encode(job);
  return true;
}

static bool host_decode(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job,
                        void *stream) {
  (void)self, (void)stream;
  codec->decode(job);
  return true;
}

static bool host_flush(const struct tagc_device *self, struct tagc_job *job, void *out, void *stream) {
  (void)self, (void)stream;
  tagc_residual_flush(job, out);
  return true;
}

static bool host_allgather_layout(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                  const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out) {
  (void)self;
  return codec->layout(shape, out);
}

static bool host_allgather_cost(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                struct tagc_gpu_cost *out) {
  (void)self, (void)codec, (void)out;
  return false;
}

static bool host_allgather_encode(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                  struct tagc_allgather_job *job, void *stream) {
  (void)self, (void)stream;
  codec->encode(job);
  return true;
}

static bool host_allgather_decode(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                  struct tagc_allgather_job *job, void *stream) {
  (void)self, (void)stream;
  codec->decode(job);
  return !job->failed;
}

static bool host_allgather_refer(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                 struct tagc_allgather_job *job, void *stream) {
  (void)self, (void)stream;
  if (codec->refer)
    codec->refer(job);
  return true;
}

static bool host_allgather_refused(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                   struct tagc_allgather_job *job, void *stream, bool *refused) {
  (void)self, (void)codec, (void)stream;
  *refused = job->refused;
  return true;
}

static bool host_allgather_digest(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                                  struct tagc_allgather_job *job, void *stream) {
  (void)self, (void)codec, (void)job, (void)stream;
  return true;
}

static bool host_count(const struct tagc_device *self, const struct tagc_job *job, uint64_t range, uint64_t *words,
                       void *stream) {
  (void)self, (void)stream;
  tagc_fpmode mode = tagc_fpmode_enter();
  tagc_nonzero_index_count(job, range, words);
  tagc_fpmode_leave(mode);
  return true;
}

static bool host_pack_flags(const struct tagc_device *self, const struct tagc_job *job, int64_t *words, void *stream) {
  (void)self, (void)stream;
  words[TAGC_FLAG_NONFINITE] = job->nonfinite_seen;
  words[TAGC_FLAG_SURPLUS] = job->surplus_seen;
  return true;
}

static bool host_end_call(const struct tagc_device *self, struct tagc_job *job, const int64_t *words, void *stream) {
  (void)self, (void)stream;
  if (words) {
    job->nonfinite_seen = words[TAGC_FLAG_NONFINITE];
    job->surplus_seen = words[TAGC_FLAG_SURPLUS];
  }
  return true;
}

static void *host_tally_make(const struct tagc_device *self, void *stream) {
  (void)self, (void)stream;
  return NULL;
}

static bool host_tally_mark(const struct tagc_device *self, void *tally, enum tagc_mark mark, uint64_t number,
                            void *stream) {
  (void)self, (void)tally, (void)mark, (void)number, (void)stream;
  return true;
}

static bool host_tally_read(const struct tagc_device *self, void *tally, struct tagc_tally_times *times,
                            struct tagc_codec_stats *stats) {
  (void)self, (void)tally, (void)times, (void)stats;
  return false;
}

static void host_tally_side_stream(const struct tagc_device *self, void *tally, void *side, unsigned functions) {
  (void)self, (void)tally, (void)side, (void)functions;
}

static bool host_tally_denser(const struct tagc_device *self, void *tally, void *stream, bool *denser) {
  (void)self, (void)tally, (void)stream;
  *denser = false;
  return true;
}

static void host_tally_free(const struct tagc_device *self, void *tally, void *fence) {
  (void)self, (void)tally, (void)fence;
}

/* Calls end when they return: their caller can time them. */
static void *host_timer_make(const struct tagc_device *self) {
  (void)self;
  return NULL;
}

static int host_timer_begin(const struct tagc_device *self, void *timer, uint64_t number, void *stream) {
  (void)self, (void)timer, (void)number, (void)stream;
  return -1;
}

static void host_timer_end(const struct tagc_device *self, void *timer, int begun, void *stream, bool good) {
  (void)self, (void)timer, (void)begun, (void)stream, (void)good;
}

static size_t host_timer_read(const struct tagc_device *self, void *timer, size_t least, struct tagc_timed *out,
                              size_t most) {
  (void)self, (void)timer, (void)least, (void)out, (void)most;
  return 0;
}

static void host_timer_free(const struct tagc_device *self, void *timer) { (void)self, (void)timer; }

const struct tagc_device tagc_device_host = {
  .name = "host",
  .host_reads = true,
  .alloc = host_alloc,
  .release = host_release,
  .release_after = host_release,
  .alloc_pinned = host_alloc_pinned,
  .spare = host_spare,
  .reaches = host_reaches,
  .clear = host_clear,
  .put = host_copy,
  .get = host_copy,
  .copy = host_copy_rows,
  .fence_make = host_fence_make,
  .fence_set = host_fence,
  .fence_wait = host_fence,
  .fence_is_over = host_fence_is_over,
  .fence_free = host_fence_free,
  .takes_stream = host_takes_stream,
  .layout = host_layout,
  .cost = host_cost,
  .measure = host_measure,
  .prepare = host_prepare,
  .encode = host_encode,
  .decode = host_decode,
  .flush = host_flush,
  .allgather_layout = host_allgather_layout,
  .allgather_cost = host_allgather_cost,
  .allgather_encode = host_allgather_encode,
  .allgather_decode = host_allgather_decode,
  .allgather_refer = host_allgather_refer,
  .allgather_refused = host_allgather_refused,
  .allgather_digest = host_allgather_digest,
  .count = host_count,
  .pack_flags = host_pack_flags,
  .end_call = host_end_call,
  .tally_make = host_tally_make,
  .tally_mark = host_tally_mark,
  .tally_read = host_tally_read,
  .tally_side_stream = host_tally_side_stream,
  .tally_denser = host_tally_denser,
  .tally_free = host_tally_free,
  .timer_make = host_timer_make,
  .timer_begin = host_timer_begin,
  .timer_end = host_timer_end,
  .timer_read = host_timer_read,
  .timer_free = host_timer_free,
  .side_stream_make = tagc_host_side_stream_make,
  .side_stream_submit = tagc_host_side_stream_submit,
  .side_stream_after = tagc_host_side_stream_after,
  .side_stream_wait = tagc_host_side_stream_wait,
  .side_stream_close = tagc_host_side_stream_close,
  .side_stream_times = tagc_host_side_stream_times,
  .side_stream_free = tagc_host_side_stream_free,
};
