/* SPDX-License-Identifier: BSD-3-Clause
 * Where buffers live, how memory is got there and how codecs run there: a table of functions, with one implementation a
 * kind of device.
 *
 * Every member is mandatory. Functions take the stream of the call (opaque here: a cudaStream_t) and enqueue on it;
 * none of them waits for it except get(), tally_denser(), and put() of much. What returns false has failed for good:
 * the log says of what, and nothing can be said of the memory that was to be written.
 * Threads    Any; a tally and a fence are used by one thread at a time.
 */
#ifndef KERNELS_CODEC_DEVICE_H
#define KERNELS_CODEC_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/codec/allgather.h"
#include "kernels/codec/codec.h"
#include "kernels/codec/cost.h"
#include "kernels/codec/nonzero_index.h"

/* Moments of a call, in their order. SUMMED: the sums inside a host are there. HALF: of an all-reduce, its
 * reduce-scatter is decoded; then come those of its all-gather. DECODED: the call ends. */
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

/* Flags of a call that the ranks of a node share: the largest of each counts. */
enum { TAGC_FLAG_NONFINITE, TAGC_FLAG_SURPLUS, TAGC_FLAGS };

/* A slot is too dense for its codec when so many calls in a row had more values than room for them. */
enum { TAGC_SURPLUS_CALLS = 8 };

/* What is done on a side stream. */
enum tagc_side_work { TAGC_SIDE_ENCODE, TAGC_SIDE_DECODE, TAGC_SIDE_WORKS };

/* What a device tells later of a call: its number, as the caller counts, and milliseconds (ms[i]: until mark i + 1,
 * since the mark before, on the call's stream). Of a side stream that worked for it: how long it did so, and how long
 * the stream waited for it, both by what was done; 0 without one. */
struct tagc_tally_times {
  uint64_t number;
  double ms[TAGC_MARKS - 1];
  double worked_ms[TAGC_SIDE_WORKS], waited_ms[TAGC_SIDE_WORKS];
  bool side_known; /* false: the side stream worked, and some of that is not known */
};
struct tagc_timed {
  uint64_t number;
  double ms;
};

/* What runs on a side stream, on this stream. */
typedef void tagc_side_function(void *argument, void *stream);

/* Since a side stream was made: how long its functions ran, and how long callers waited for it. */
struct tagc_side_times {
  uint64_t worked_ns, waited_ns;
};

struct tagc_device {
  const char *name;
  bool host_reads;     /* the host reads and writes its memory as its own, and work is done when it is enqueued */
  size_t health_bytes; /* of memory, zero at first, that a communicator with residuals has for job->health; 0: none */

  /* Memory of the device, 64-byte aligned, content undefined, to be used on `stream`, or after a fence set there; NULL
   * when there is none. */
  void *(*alloc)(const struct tagc_device *self, size_t bytes, void *stream);
  /* Gives memory back (NULL is allowed), after the work that is enqueued on `stream`, or before `fence` was set. */
  void (*release)(const struct tagc_device *self, void *memory, void *stream);
  void (*release_after)(const struct tagc_device *self, void *memory, void *fence);
  /* Memory of the host that the device and NCCL work on as on the device's own, for where that has none left. It is
   * never given back: that would wait for all streams. NULL where there is none. */
  void *(*alloc_pinned)(const struct tagc_device *self, size_t bytes);
  /* Can kernels work on the buffer? Asks about its first byte alone, and waits for nothing. */
  bool (*reaches)(const struct tagc_device *self, const void *buffer);
  /* Fills memory with zeros. */
  bool (*clear)(const struct tagc_device *self, void *memory, size_t bytes, void *stream);
  /* Copies from the host, whose side may be reused at once. */
  bool (*put)(const struct tagc_device *self, void *to_device, const void *from_host, size_t bytes, void *stream);
  /* Copies to the host and waits until it is there: for the looks before a vote, the vote with its probe, dumps, and
   * the self-test of a device; never in a step. */
  bool (*get)(const struct tagc_device *self, void *to_host, const void *from_device, size_t bytes, void *stream);

  /* Copies `rows` times `width` bytes, from one place of the device to another; rows begin so many bytes apart. They do
   * not overlap. */
  bool (*copy)(const struct tagc_device *self, void *to, size_t to_pitch, const void *from, size_t from_pitch,
               size_t width, size_t rows, void *stream);

  /* A fence orders work on different streams: what is enqueued after a wait comes after what was enqueued before it was
   * last set. NULL without memory; free(NULL) is allowed. */
  void *(*fence_make)(const struct tagc_device *self);
  bool (*fence_set)(const struct tagc_device *self, void *fence, void *stream);
  bool (*fence_wait)(const struct tagc_device *self, void *fence, void *stream);
  void (*fence_free)(const struct tagc_device *self, void *fence);

  /* Codecs. layout: as codec->layout(), with the state that is needed here; false also where the codec does not run
   * here. The others enqueue what their namesakes do; flush: tagc_residual_flush(). */
  bool (*layout)(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
                 struct tagc_layout *out);
  /* What a call is expected to cost: estimates. False where the host can measure it, and where the codec does not run
   * here. */
  bool (*cost)(const struct tagc_device *self, const struct tagc_codec *codec, const struct tagc_shape *shape,
               struct tagc_gpu_cost *out);
  bool (*prepare)(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream);
  bool (*encode)(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream);
  bool (*decode)(const struct tagc_device *self, const struct tagc_codec *codec, struct tagc_job *job, void *stream);
  bool (*flush)(const struct tagc_device *self, struct tagc_job *job, void *out, void *stream);

  /* The same for all-gathers (allgather.h). refused: did some rank's payload say, in the call that was decoded last,
   * that it holds no shard? Waits for that call; for codecs that may refuse alone. */
  bool (*allgather_layout)(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                           const struct tagc_allgather_shape *shape, struct tagc_allgather_layout *out);
  bool (*allgather_encode)(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                           struct tagc_allgather_job *job, void *stream);
  bool (*allgather_decode)(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                           struct tagc_allgather_job *job, void *stream);
  bool (*allgather_refer)(const struct tagc_device *self, const struct tagc_allgather_codec *codec,
                          struct tagc_allgather_job *job, void *stream);
  bool (*allgather_refused)(const struct tagc_device *self, struct tagc_allgather_job *job, void *stream,
                            bool *refused);

  /* Adds what is in the foreign shards to words of the device, as tagc_nonzero_index_count() does. */
  bool (*count)(const struct tagc_device *self, const struct tagc_job *job, uint64_t range, uint64_t *flags,
                void *stream);

  /* After decode, what this rank has seen of the call, as flags in memory of the device. */
  bool (*pack_flags)(const struct tagc_device *self, const struct tagc_job *job, int64_t *flags, void *stream);
  /* Ends a call: what was seen of it, on all ranks of a node by the flags or, with NULL, by this rank, becomes the
   * job's flags; or, where the host would have to wait for it, the tally's and the health's. */
  bool (*end_call)(const struct tagc_device *self, struct tagc_job *job, const int64_t *flags, void *stream);

  /* What happens on the device later than the host looks: counts and times of the calls of a slot. make: NULL without
   * memory, or where the host reads all itself; then nothing is done with it. A mark is a moment on the stream: the
   * first one begins the call of that number, the last one ends it, others may be left out. read: the times of a call
   * that has ended and was not read before, the earliest one first, and adds what was counted since the last time;
   * false where none is known. The device keeps the last two calls of a slot: who reads before each call hears of
   * nearly all. */
  void *(*tally_make)(const struct tagc_device *self, void *stream);
  bool (*tally_mark)(const struct tagc_device *self, void *tally, enum tagc_mark mark, uint64_t number, void *stream);
  bool (*tally_read)(const struct tagc_device *self, void *tally, struct tagc_tally_times *times,
                     struct tagc_codec_stats *stats);
  /* Behind its first mark: until its last one the side stream works for this call, at most so many functions, each of
   * which is waited for once. Where earlier calls of the side stream leave no room its times are not known. */
  void (*tally_side_stream)(const struct tagc_device *self, void *tally, void *side, unsigned functions);
  /* Has the slot had TAGC_SURPLUS_CALLS calls in a row with a surplus, by the last time that this was asked? It is to
   * be asked after the same calls on all ranks, who get the same answer; waits for the call after which it was asked
   * before, of which there should have been some more since. False for *denser at the first time. */
  bool (*tally_denser)(const struct tagc_device *self, void *tally, void *stream, bool *denser);
  void (*tally_free)(const struct tagc_device *self, void *tally, void *fence);

  /* A side stream runs functions beside the caller's stream, one after the other: on the host on a thread, on a GPU on
   * a stream of its own.
   * make    NULL without one; then work is done on the caller's stream.
   * submit  function(argument, its stream) is called on the thread, or at once where it enqueues on a stream. Gives its
   *         event, from 1 on and rising. 0 where it is not called: the side stream is closed or another process's, or
   *         the device has failed. work: what it does.
   * after   what is submitted from here on comes after what the stream holds now.
   * wait    what comes on the stream from here on comes after that event, and those before it. The host device waits
   *         for it. False also where the function was dropped.
   * close   drops what has not begun, and takes nothing more. No function runs when it returns.
   * times   false where they are not known: a GPU tells them in the times of a tally.
   * free    after what was submitted; NULL is allowed.
   * Threads: close from any, the others from one at a time. */
  void *(*side_stream_make)(const struct tagc_device *self);
  uint64_t (*side_stream_submit)(const struct tagc_device *self, void *side, enum tagc_side_work work,
                                 tagc_side_function *function, void *argument);
  bool (*side_stream_after)(const struct tagc_device *self, void *side, void *stream);
  bool (*side_stream_wait)(const struct tagc_device *self, void *side, uint64_t event, void *stream);
  void (*side_stream_close)(const struct tagc_device *self, void *side);
  bool (*side_stream_times)(const struct tagc_device *self, void *side, struct tagc_side_times *times);
  void (*side_stream_free)(const struct tagc_device *self, void *side);

  /* How long what others put on a stream takes, from begin to end. make: NULL without memory, or where there is nothing
   * to be timed; then nothing is done with it. begin: -1 where it goes untimed, as too many calls are under way; else
   * what end is to be given, once, also where there is no stream any more (`good`: false). read: fills those that have
   * ended, the earliest first, and gives their number; nothing is asked of the device while fewer than `least` are
   * unread. None of them sets the device up. Any thread. */
  void *(*timer_make)(const struct tagc_device *self);
  int (*timer_begin)(const struct tagc_device *self, void *timer, uint64_t number, void *stream);
  void (*timer_end)(const struct tagc_device *self, void *timer, int begun, void *stream, bool good);
  size_t (*timer_read)(const struct tagc_device *self, void *timer, size_t least, struct tagc_timed *out, size_t most);
  void (*timer_free)(const struct tagc_device *self, void *timer);
};

/* Plain host memory: for a libnccl.so.2 that works on it (the stand-in of the tests). */
extern const struct tagc_device tagc_device_host;

/* The GPU of that ordinal, through the CUDA driver (device/cuda.c): one table for each, until its context ends
 * (cudaDeviceReset), and another one then. NULL where this build has no kernels for GPUs, or the process no driver that
 * they can use (*why says so then): equal for all ordinals and at all times. A GPU that cannot be used has a table,
 * too, whose layout() and alloc() say no. The first function of a table that is used sets the GPU up, which may take
 * seconds. */
const struct tagc_device *tagc_device_cuda(int ordinal);
bool tagc_device_cuda_is_there(const char **why);
/* Has that been tried? Then no function of the table waits for it. */
bool tagc_device_cuda_is_set_up(const struct tagc_device *device);

#endif
