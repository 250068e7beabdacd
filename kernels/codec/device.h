/* SPDX-License-Identifier: BSD-3-Clause
 * A device: where buffers live, how to get memory there, and how codecs run there. A table of functions, with one
 * implementation for each kind of device.
 *
 * Every member is mandatory. Functions take the stream of the call (opaque here: a cudaStream_t) and enqueue on it.
 * None waits for it except get(), tally_denser(), allgather_refused(), allgather_digest(), and put() of much data. A
 * function that returns false has failed for good: the log names the failure, and the content of its output memory is
 * undefined. Threads    Any; one thread at a time uses a tally or a fence.
 */
#ifndef KERNELS_CODEC_DEVICE_H
#define KERNELS_CODEC_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/codec/allgather.h"
#include "kernels/codec/codec.h"
#include "kernels/codec/cost.h"
#include "kernels/codec/nonzero_index.h"

/* The moments of a call, in order. SUMMED: the sums inside a host are complete. HALF: the reduce-scatter of an
 * all-reduce is decoded; the moments of its all-gather follow. DECODED: the call ends. */
enum tagc_mark {
  TAGC_MARK_BEGUN,
  TAGC_MARK_SUMMED,
  TAGC_MARK_ENCODED,
  TAGC_MARK_EXCHANGED,
  TAGC_MARK_HALF,
  TAGC_MARK_SUMS_ENCODED,
  TAGC_MARK_SUMS_EXCHANGED,
  TAGC_MARK_DECODED,
  TAGC_MARKS
};

/* Flags of a call that the ranks of a host share: the maximum of each counts. */
enum { TAGC_FLAG_NONFINITE, TAGC_FLAG_SURPLUS, TAGC_FLAGS };

/* A slot is too dense for its codec after so many calls in a row with more values than room. */
enum { TAGC_SURPLUS_CALLS = 8 };

/* The kinds of work on a side stream. */
enum tagc_side_work { TAGC_SIDE_ENCODE, TAGC_SIDE_DECODE, TAGC_SIDE_WORKS };

/* The times of a call, which a device reports later: the caller's number of the call, and milliseconds on its stream
 * (ms[i]: from the mark before to mark i + 1). For a side stream, by kind of work: how long it worked for the call, and
 * how long the stream waited for it; 0 without a side stream. */
struct tagc_tally_times {
  uint64_t number;
  double ms[TAGC_MARKS - 1];
  double worked_ms[TAGC_SIDE_WORKS], waited_ms[TAGC_SIDE_WORKS];
  bool side_known; /* false: some times of the side stream are unknown */
};
struct tagc_timed {
  uint64_t number;
  double ms;
};

/* A function that runs on a side stream; `stream` is that stream. */
typedef void tagc_side_function(void *argument, void *stream);

/* Since a side stream was made: how long its functions ran, and how long callers waited for it. */
struct tagc_side_times {
  uint64_t worked_ns, waited_ns;
};

enum { TAGC_PINNED_LARGE = 64 << 10 };

struct tagc_device {
  const char *name;
  bool host_reads;     /* the host accesses its memory directly, and enqueued work is done at once */
  bool emulated;       /* a CPU plays the kernels: thousands of times slower than a GPU */
  size_t health_bytes; /* of job->health, zero at first, for a communicator with residuals; 0: it needs none */

  /* Allocates memory, 64-byte aligned, undefined content, for `stream` or after a fence set there. NULL: none. */
  void *(*alloc)(const struct tagc_device *self, size_t bytes, void *stream);
  /* Frees memory (NULL is allowed) after the work enqueued on `stream`, or after the work before `fence` was set. */
  void (*release)(const struct tagc_device *self, void *memory, void *stream);
  void (*release_after)(const struct tagc_device *self, void *memory, void *fence);
  /* Allocates host memory that the device and NCCL can use like device memory, for when the device has none left. It is
   * never freed: that would wait for all streams. From TAGC_PINNED_LARGE bytes on it may be released, and serves later
   * requests. NULL if there is none. */
  void *(*alloc_pinned)(const struct tagc_device *self, size_t bytes);
  /* Bytes that the device has free now; SIZE_MAX for the host's memory, which nobody asks about. */
  size_t (*spare)(const struct tagc_device *self);
  /* True if kernels can access the buffer. Checks its first byte alone, and waits for nothing. */
  bool (*reaches)(const struct tagc_device *self, const void *buffer);
  /* Fills memory with zeros. */
  bool (*clear)(const struct tagc_device *self, void *memory, size_t bytes, void *stream);
  /* Copies from the host. The caller may reuse the host memory at once. */
  bool (*put)(const struct tagc_device *self, void *to_device, const void *from_host, size_t bytes, void *stream);
  /* Copies to the host and waits for the copy: for the samples before a vote, the vote with its probe, dumps, the
   * self-test of a device, broadcasts, exact sums in two levels, and the bytes of nonzero sums; never for other
   * gradients in a step. */
  bool (*get)(const struct tagc_device *self, void *to_host, const void *from_device, size_t bytes, void *stream);

  /* Copies `rows` rows of `width` bytes within the device, without overlap. A pitch: bytes between starts of rows. */
  bool (*copy)(const struct tagc_device *self, void *to, size_t to_pitch, const void *from, size_t from_pitch,
               size_t width, size_t rows, void *stream);

  /* A fence orders work on different streams: work enqueued after a wait runs after the work enqueued before the last
   * set. fence_make: NULL without memory. fence_is_over: has the work before the last set ended, or can none end any
   * more? Waits for nothing; any thread. fence_free: NULL is allowed. */
  void *(*fence_make)(const struct tagc_device *self);
  bool (*fence_set)(const struct tagc_device *self, void *fence, void *stream);
  bool (*fence_wait)(const struct tagc_device *self, void *fence, void *stream);
  bool (*fence_is_over)(const struct tagc_device *self, void *fence);
  void (*fence_free)(const struct tagc_device *self, void *fence);

  /* False for a stream on which the device's work cannot run. Such a stream takes copies alone: put() and get().
   * alloc() finds no memory for it. */
  bool (*takes_stream)(const struct tagc_device *self, void *stream);

  /* Codecs. layout: codec->layout() with the state that this device needs; false also if the codec does not run here.
   * The others enqueue the codec's functions of these names; flush: tagc_residual_flush(). measure: only of codecs that
   * have it; the caller sets job->measured. */
  bool (*layout)(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                 struct tagc_layout *out);
  /* Estimates the cost of a call. False if the host can measure it, or if the codec does not run here. */
  bool (*cost)(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
               struct tagc_gpu_cost *out);
  bool (*measure)(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream);
  bool (*prepare)(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream);
  bool (*encode)(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream);
  bool (*decode)(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream);
  bool (*flush)(const struct tagc_device *self, struct tagc_job *job, void *out, void *stream);

  /* The same for all-gathers (allgather.h). refused: true if a rank's payload was refused in the call that was decoded
   * last; also sets job->failed (then it returns false) and job->sizes, if decode has not. Waits for that call; only
   * for codecs that may refuse. digest: sets *job->digest, if decode or refer has not, and waits for it. */
  bool (*allgather_layout)(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                           const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out);
  /* Estimates the cost for an element of the own shard (encode), for one of each shard (decode), and for a call, the
   * host's waiting included. False if the host can measure it, or nothing is known. */
  bool (*allgather_cost)(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                         struct tagc_gpu_cost *out);
  bool (*allgather_encode)(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                           struct tagc_allgather_job *job, void *stream);
  bool (*allgather_decode)(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                           struct tagc_allgather_job *job, void *stream);
  bool (*allgather_refer)(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                          struct tagc_allgather_job *job, void *stream);
  bool (*allgather_refused)(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                            struct tagc_allgather_job *job, void *stream, bool *refused);
  bool (*allgather_digest)(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                           struct tagc_allgather_job *job, void *stream);

  /* Adds the counts of the foreign shards to words in device memory, like tagc_nonzero_index_count(). */
  bool (*count)(const struct tagc_device *self, const struct tagc_job *job, uint64_t range, uint64_t *flags,
                void *stream);

  /* After decode: writes what this rank saw of the call to flags in device memory. */
  bool (*pack_flags)(const struct tagc_device *self, const struct tagc_job *job, int64_t *flags, void *stream);
  /* Ends a call: sets the job's flags from `flags` (all ranks of a host) or, with NULL, from this rank alone. Where the
   * host would have to wait for them, sets the tally's and the health's instead. Nothing is left to do if the job has
   * `ended`. */
  bool (*end_call)(const struct tagc_device *self, struct tagc_job *job, const int64_t *flags, void *stream);

  /* A tally: counts and times of a slot's calls, which the device has later than the host asks.
   * make    NULL without memory, or if the host reads everything itself: all functions then ignore it.
   * mark    a moment on the stream. The first mark begins the call of that number, the last one ends it; others are
   *         optional.
   * read    gives the times of the earliest ended call not read before, and adds the counts since the last read; false
   *         if none is known. The device keeps a slot's last two calls: reading before each call misses few. */
  void *(*tally_make)(const struct tagc_device *self, void *stream);
  bool (*tally_mark)(const struct tagc_device *self, void *tally, enum tagc_mark mark, uint64_t number, void *stream);
  bool (*tally_read)(const struct tagc_device *self, void *tally, struct tagc_tally_times *times,
                     struct tagc_codec_stats *stats);
  /* Called after the first mark: until the last mark the side stream runs at most `functions` functions for this call,
   * and the call waits once for each. If earlier calls leave no room on the side stream, its times are unknown. */
  void (*tally_side_stream)(const struct tagc_device *self, void *tally, void *side, unsigned functions);
  /* *denser: the slot had TAGC_SURPLUS_CALLS calls in a row with a surplus, as of the last time this was called; false
   * the first time. All ranks must call it after the same calls; they get the same answer. Waits for the call after
   * which it was called before: leave some calls between. */
  bool (*tally_denser)(const struct tagc_device *self, void *tally, void *stream, bool *denser);
  void (*tally_free)(const struct tagc_device *self, void *tally, void *fence);

  /* A side stream runs functions beside the caller's stream, one after the other: on the host on a thread, on a GPU on
   * a stream of its own.
   * make    NULL without one; work is then done on the caller's stream.
   * submit  calls function(argument, its stream): later on the thread, or at once where it enqueues on a stream.
   *         `work`: its kind. Returns its event, from 1 on and rising. 0: not called, because the side stream is closed
   *         or another process's, or the device has failed.
   * after   all work submitted from here on runs after the work now on the stream.
   * wait    all work enqueued on the stream from here on runs after that event and earlier ones. The host device waits.
   *         False also if the function was dropped.
   * close   drops functions that have not begun, and refuses new ones. No function runs when it returns.
   * times   false if they are unknown: a GPU reports them in the times of a tally.
   * free    after the submitted work; NULL is allowed.
   * Threads: close from any, the others from one at a time. */
  void *(*side_stream_make)(const struct tagc_device *self);
  uint64_t (*side_stream_submit)(const struct tagc_device *self, void *side, enum tagc_side_work work,
                                 tagc_side_function *function, void *argument);
  bool (*side_stream_after)(const struct tagc_device *self, void *side, void *stream);
  bool (*side_stream_wait)(const struct tagc_device *self, void *side, uint64_t event, void *stream);
  void (*side_stream_close)(const struct tagc_device *self, void *side);
  bool (*side_stream_times)(const struct tagc_device *self, void *side, struct tagc_side_times *times);
  void (*side_stream_free)(const struct tagc_device *self, void *side);

  /* A timer: how long others' work on a stream takes. None of its functions sets the device up. Any thread.
   * make    NULL without memory, or if nothing can be timed: all functions then ignore it.
   * begin   -1 if too many calls are under way to time this one; else the value for `begun` of end.
   * end     exactly once for each begin, also if the stream no longer exists (`good`: false).
   * read    fills in the ended ones, the earliest first, and returns their number. It does not ask the device while
   *         fewer than `least` are unread. */
  void *(*timer_make)(const struct tagc_device *self);
  int (*timer_begin)(const struct tagc_device *self, void *timer, uint64_t number, void *stream);
  void (*timer_end)(const struct tagc_device *self, void *timer, int begun, void *stream, bool good);
  size_t (*timer_read)(const struct tagc_device *self, void *timer, size_t least, struct tagc_timed *out, size_t most);
  void (*timer_free)(const struct tagc_device *self, void *timer);
};

/* Plain host memory, for a libnccl.so.2 that works on it (the stand-in of the tests). */
extern const struct tagc_device tagc_device_host;

/* The GPU of that ordinal, through the CUDA driver (device/cuda.c): one table each, until its context ends
 * (cudaDeviceReset), then another one. NULL if this build has no GPU kernels, or the process has no driver that can run
 * them (*why says which): equal for all ordinals and at all times. A GPU that cannot be used has a table, too, whose
 * layout() and alloc() fail. The first function used of a table sets the GPU up, which may take seconds. */
const struct tagc_device *tagc_device_cuda(int ordinal);
bool tagc_device_cuda_is_there(const char **why);
/* True once the set-up was tried: no function of the table waits for it any more. */
bool tagc_device_cuda_is_set_up(const struct tagc_device *device);

#endif
