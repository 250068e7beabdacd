/* SPDX-License-Identifier: BSD-3-Clause
 * A call on its way through execute.c: its work.
 *
 * Work has phases, one after the other: a reduce-scatter has one, an all-gather has one, an all-reduce has one of each.
 * Each phase takes the same steps in the same order. All works of a batch take a step before any takes the next one:
 *
 *   lay_out                            once for each phase, before anything begins: which memory it has
 *   begin
 *   exchanges SUMS and EXPONENTS       with the next step of a work behind each
 *   encode, enqueue_payloads, decode   for each chunk: one is encoded while another one travels and a third is decoded
 *   after_decode                       all chunks are decoded
 *   exchange LAST                      likewise
 *   commit, or abort                   once for each work, of its first phase; abort where this rank's work has failed
 *
 * Which exchanges there are, and how many chunks a phase has, is equal on all ranks.
 * Threads    Those of execute.h. A step enqueues on a device between tagc_comms_enter_driver() and
 *            tagc_comms_leave_driver(). An exchange enqueues between the start and the end of a real group.
 */
#ifndef INTERPOSE_EXEC_WORK_H
#define INTERPOSE_EXEC_WORK_H

#include "interpose/comm/comm.h"
#include "interpose/comm/partial.h"
#include "interpose/comm/placement.h"
#include "interpose/exec/nccl_group.h"

struct tagc_work;

/* An exchange with what comes behind it. wanted: does the work take part? Where no work of a batch does, there is
 * none. then: of every work of the batch, taking part or not. Either may be NULL: no work ever takes part; nothing
 * is done. */
struct tagc_exchange {
  bool (*wanted)(const struct tagc_work *w);
  ncclResult_t (*enqueue)(const struct tagc_nccl_group *real, struct tagc_work *w);
  ncclResult_t (*then)(struct tagc_work *w);
};

/* Sums inside a host; exponents of all ranks; what all ranks must hear after the decoding. */
enum { TAGC_EXCHANGE_SUMS, TAGC_EXCHANGE_EXPONENTS, TAGC_EXCHANGE_LAST, TAGC_EXCHANGES };

/* The steps of a phase. Where a device tells times, its stream is marked when the first chunk is encoded, and when the
 * last one has been exchanged. begin may be NULL; commit and abort are those of a first phase alone. A phase in several
 * chunks is encoded and decoded on the side stream of its communicator: on a thread, or on a stream of its own; but for
 * the first encode, and on a thread the last decode, for which the caller would wait at once. */
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
  struct tagc_exchange_comm peers; /* who exchanges payloads */
  struct tagc_job job;             /* in several chunks: of them together, and without memory; else what is done */
  struct tagc_job chunk[TAGC_CHUNKS];
  struct tagc_codec_stats seen[TAGC_CHUNKS]; /* of these */
  uint8_t *sums;                             /* two levels: the sums over this host's ranks; otherwise NULL */
  struct tagc_partial partial;               /* where but a part of the slot is selected */
  int64_t *told; /* what the ranks of a host tell one another of the call; NULL: they need not */
  void *scratch; /* TAGC_FLUSH: the send buffer of the plain call */
  bool encoded;  /* the residual has changed */
  bool denser;   /* the device says that the gradient has outgrown the codec */
};

/* An all-gather that is compressed, or plain for later ones to refer to (allgather.c); or that of the sums of an
 * all-reduce (allgather_phase.c): no codec, and nothing of the job but what lies where, where they are gathered
 * plainly. */
struct tagc_allgather_work {
  ncclComm_t handle; /* between whose ranks */
  const struct tagc_allgather_codec *codec;
  struct tagc_allgather_job job; /* what is gathered, from where to where; in several chunks without memory */
  struct tagc_allgather_job chunk[TAGC_CHUNKS];
  struct tagc_allgather_stats seen[TAGC_CHUNKS]; /* of these */
  unsigned chunks;
  bool refused; /* some rank's payload held no shard */
};

extern const struct tagc_phase tagc_phase_reduce_scatter, tagc_phase_parameters, tagc_phase_sums;

/* Gives w->allgather.job, compressed, its memory at `base`, in these chunks; w->chunks[phase] is their number then
 * (allgather.c). */
void tagc_work_assign_chunks(struct tagc_work *w, int phase, const struct tagc_allgather_chunking *chunking,
                             uint8_t *base);

/* In one chunk: what is done; else that chunk. */
static inline struct tagc_allgather_job *tagc_work_allgather_job(struct tagc_allgather_work *allgather,
                                                                 unsigned chunk) {
  return allgather->chunks > 1 ? &allgather->chunk[chunk] : &allgather->job;
}

/* Adds to a group what carries a chunk that is `encoded`, or else the whole as it is (allgather.c). */
ncclResult_t tagc_work_enqueue_allgather(const struct tagc_nccl_group *real, struct tagc_work *w, unsigned chunk,
                                         bool encoded);

/* What has been given to a side stream. */
struct tagc_side_task {
  struct tagc_work *work;
  ncclResult_t (*function)(struct tagc_work *w, unsigned chunk, void *stream);
  enum tagc_side_work kind;
  unsigned chunk;
  uint64_t event; /* 0: it was done at once */
  ncclResult_t status;
  uint64_t took_ns;
};

enum { TAGC_PHASES = 2 };

struct tagc_work {
  struct tagc_call *call;
  const struct tagc_device *device;
  const struct tagc_phase *phases[TAGC_PHASES]; /* one after the other; NULL: no more */
  unsigned chunks[TAGC_PHASES];                 /* of each; lay_out may make several, at most TAGC_CHUNKS */
  struct tagc_side_task encode[TAGC_CHUNKS], decode[TAGC_CHUNKS];
  void *tally;                        /* of a device that counts by itself; NULL: none */
  uint64_t event;                     /* of the last task */
  struct tagc_side_times side_stream; /* when the call began */
  struct tagc_trace_times took;       /* on memory of the host */
  struct tagc_reduce_scatter_work reduce;
  struct tagc_allgather_work allgather;
};

/* Or is it plain: a flush, or for later calls to refer to? */
static inline bool tagc_work_compresses(const struct tagc_work *w) { return w->call->decision.action == TAGC_COMPRESS; }

/* The stream of the call is here. */
static inline bool tagc_work_mark(const struct tagc_work *w, enum tagc_mark mark) {
  return !w->tally || w->device->tally_mark(w->device, w->tally, mark, w->call->trace.number, w->call->stream);
}

/* What a device could not do is said by what NCCL says of its own troubles with one. */
static inline ncclResult_t tagc_work_done(bool good) { return good ? ncclSuccess : ncclUnhandledCudaError; }

#endif
