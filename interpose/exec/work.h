/* SPDX-License-Identifier: BSD-3-Clause
 * A call on its way through execute.c: its work.
 *
 * Work has phases, one after the other: one for a reduce-scatter or an all-gather, and one of each for an all-reduce.
 * Each phase takes the same steps in the same order. All works of a batch take a step before any takes the next one:
 *
 *   lay_out                            once for each phase, before anything begins: assigns its memory
 *   begin
 *   exchanges SUMS and EXPONENTS       with the next step of a work behind each
 *   encode, enqueue_payloads, decode   for each chunk: one is encoded while another one travels and a third is decoded
 *   after_decode                       all chunks are decoded
 *   exchange LAST                      likewise
 *   commit, or abort                   once for each work, of its first phase; abort if this rank's work has failed
 *
 * The exchanges, and the number of chunks of a phase, are equal on all ranks.
 * Threads    As in execute.h. A step enqueues on a device between tagc_comms_enter_driver() and
 *            tagc_comms_leave_driver(). An exchange enqueues between the start and the end of a real group.
 */
#ifndef INTERPOSE_EXEC_WORK_H
#define INTERPOSE_EXEC_WORK_H

#include "interpose/broadcast/verdict.h"
#include "interpose/comm/comm.h"
#include "interpose/comm/partial.h"
#include "interpose/comm/placement.h"
#include "interpose/exec/nccl_group.h"

struct tagc_work;

/* An exchange and its next step. wanted: does the work take part? The exchange is skipped if no work of a batch does.
 * then: called for every work of the batch, taking part or not. If NULL: no work ever takes part; nothing follows. */
struct tagc_exchange {
  bool (*wanted)(const struct tagc_work *w);
  ncclResult_t (*enqueue)(const struct tagc_nccl_group *real, struct tagc_work *w);
  ncclResult_t (*then)(struct tagc_work *w);
};

/* Sums inside a host; exponents of all ranks, or the bytes of their sums; facts that all ranks must know after the
 * decoding. */
enum { TAGC_EXCHANGE_SUMS, TAGC_EXCHANGE_EXPONENTS, TAGC_EXCHANGE_LAST, TAGC_EXCHANGES };

/* The steps of a phase. If a device measures times, its stream is marked after the encoding of the first chunk and
 * after the exchange of the last one. begin may be NULL; only a first phase has commit and abort. The chunks of a
 * phase, if several, are encoded and decoded on the communicator's side stream: a thread, or a stream of its own.
 * Exceptions are the first encode and, on a thread, the last decode: the caller would wait for them at once. */
struct tagc_phase {
  void (*lay_out)(struct tagc_work *w);
  ncclResult_t (*begin)(struct tagc_work *w);
  struct tagc_exchange exchanges[TAGC_EXCHANGES];
  enum tagc_mark encoded, exchanged;
  ncclResult_t (*encode)(struct tagc_work *w, unsigned chunk, void *stream);
  ncclResult_t (*enqueue_payloads)(const struct tagc_nccl_group *real, struct tagc_work *w, unsigned chunk);
  ncclResult_t (*decode)(struct tagc_work *w, unsigned chunk, void *stream);
  ncclResult_t (*after_decode)(struct tagc_work *w);
  void (*commit)(struct tagc_work *w);
  void (*abort)(struct tagc_work *w);
};

/* A reduce-scatter that is compressed or flushed (reduce_scatter.c). */
struct tagc_reduce_scatter_work {
  struct tagc_exchange_comm peers; /* the ranks that exchange payloads */
  struct tagc_job job;             /* the whole job; in several chunks it has no memory of its own */
  struct tagc_job chunk[TAGC_CHUNKS];
  struct tagc_codec_stats seen[TAGC_CHUNKS]; /* of the chunks */
  uint8_t *sums;                             /* two levels: the sums over this host's ranks; otherwise NULL */
  bool gathers;                              /* with exact sums: `sums` has the values of this host's ranks instead */
  uint8_t *beside;             /* then: this rank's values, scaled; later those of hosts whose messages lack sums */
  bool lacks_sums;             /* some message of this rank, or to it, does: values come after the decoding */
  bool follow;                 /* the same on a device, known before: values come with the messages */
  uint64_t values_bytes;       /* sent for those */
  struct tagc_partial partial; /* if only a part of the slot is selected */
  int64_t *told;               /* flags that the ranks of a host exchange after the call; NULL: not needed */
  void *scratch;               /* TAGC_FLUSH: the send buffer of the plain call */
  bool encoded;                /* the residual has changed */
  bool has_no_layout;          /* the device has failed at the slot's next stage */
  bool denser;                 /* the device reports that the gradient has outgrown the codec */
};

/* An all-gather that is compressed, or plain for later ones to refer to (allgather.c). Or that of an all-reduce's sums
 * (allgather_phase.c): gathered plainly, it has no codec, and of the job only shape and buffers. */
struct tagc_allgather_work {
  ncclComm_t handle; /* its ranks take part */
  const struct tagc_allgather_codec *codec;
  struct tagc_allgather_job job; /* the whole job; in several chunks without memory */
  struct tagc_allgather_job chunk[TAGC_CHUNKS];
  struct tagc_allgather_stats seen[TAGC_CHUNKS]; /* of the chunks */
  unsigned chunks;
  struct tagc_support_buffers support; /* of sums; NULL: all sums travel */
  uint64_t sizes_before;               /* calls that had set the sizes of payloads before this one */
  bool refused;                        /* some rank's payload held no shard */
};

/* A broadcast (broadcast.c). */
struct tagc_broadcast_work {
  struct tagc_broadcast_shape shape;
  struct tagc_allgather_job job; /* at the root of rank 0, elsewhere of none */
  struct tagc_broadcast_verdict verdict;
  uint64_t payload_most;
};

extern const struct tagc_phase tagc_phase_reduce_scatter, tagc_phase_parameters, tagc_phase_sums, tagc_phase_broadcast;

/* Why this rank's device cannot take the broadcast; TAGC_REASON_NONE: it can. Its status tells the others. */
enum tagc_reason tagc_broadcast_reject_reason(struct tagc_work *w);

/* Cuts w->allgather.job, compressed, with memory at `base`, into these chunks; sets w->chunks[phase] (allgather.c). */
void tagc_work_assign_chunks(struct tagc_work *w, int phase, const struct tagc_allgather_chunking *chunking,
                             uint8_t *base);

/* The job of a chunk; with one chunk, the whole job. */
static inline struct tagc_allgather_job *tagc_work_allgather_job(struct tagc_allgather_work *allgather,
                                                                 unsigned chunk) {
  return allgather->chunks > 1 ? &allgather->chunk[chunk] : &allgather->job;
}

/* Adds the exchange of a chunk to a group if it is `encoded`, or else of the whole, plain (allgather.c). */
ncclResult_t tagc_work_enqueue_allgather(const struct tagc_nccl_group *real, struct tagc_work *w, unsigned chunk,
                                         bool encoded);

/* A task for a side stream. */
struct tagc_side_task {
  struct tagc_work *work;
  ncclResult_t (*function)(struct tagc_work *w, unsigned chunk, void *stream);
  enum tagc_side_work kind;
  unsigned chunk;
  uint64_t event; /* 0: done at once */
  ncclResult_t status;
  uint64_t took_ns;
};

enum { TAGC_PHASES = 2 };

struct tagc_work {
  struct tagc_call *call;
  const struct tagc_device *device;
  const struct tagc_phase *phases[TAGC_PHASES]; /* in order; NULL: no more */
  unsigned chunks[TAGC_PHASES];                 /* of each phase; lay_out may make several, at most TAGC_CHUNKS */
  struct tagc_side_task encode[TAGC_CHUNKS], decode[TAGC_CHUNKS];
  void *tally;                        /* only for a device that counts by itself; NULL: none */
  uint64_t event;                     /* of the last task */
  bool fenced;                        /* the call has begun on its stream, behind earlier work on our memory */
  enum tagc_reason reject_reason;     /* why a broadcast's stream takes copies alone; TAGC_REASON_NONE: it takes all */
  struct tagc_side_times side_stream; /* at the begin of the call */
  struct tagc_trace_times took;       /* on host memory */
  struct tagc_reduce_scatter_work reduce;
  struct tagc_allgather_work allgather;
  struct tagc_broadcast_work broadcast;
};

/* False: plain, as a flush or as a reference for later calls. */
static inline bool tagc_work_compresses(const struct tagc_work *w) { return w->call->decision.action == TAGC_COMPRESS; }

/* Marks the place in the call's stream. */
static inline bool tagc_work_mark(const struct tagc_work *w, enum tagc_mark mark) {
  return !w->tally || w->device->tally_mark(w->device, w->tally, mark, w->call->trace.number, w->call->stream);
}

/* A failure of a device becomes the error that NCCL gives for its own device failures. */
static inline ncclResult_t tagc_work_done(bool good) { return good ? ncclSuccess : ncclUnhandledCudaError; }

#endif
