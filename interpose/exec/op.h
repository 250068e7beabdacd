/* SPDX-License-Identifier: BSD-3-Clause
 * A call on its way through execute.c, and what there is to be done with it.
 *
 * Work is done in parts: a reduce-scatter is one, and so is an all-gather; an all-reduce is one of each, one after the other. Each part
 * goes through the same stages, in the same order, and all works of a batch go through a stage before any goes on to the next:
 *
 *   lay_out                    once for each part, before anything is begun: which memory it has
 *   begin
 *   before[0], before[1]       exchanges that come first, each with what a work does with the outcome
 *   encode, enqueue, decode    for each piece of the part: one is encoded while another one travels and a third is decoded
 *   decoded                    all of its pieces are
 *   after                      an exchange that comes last, and what a work does with the outcome
 *   settle, or give_up         where anything of it has failed, on this rank
 *
 * Which stages have an exchange, and how many pieces a part has, is equal on all ranks.
 * Threads    Those of execute.h. What a step enqueues on a device it enqueues between tagc_comms_enter_driver() and
 *            tagc_comms_leave_driver(); what is called in an exchange lies between the start and the end of a real group.
 */
#ifndef INTERPOSE_EXEC_OP_H
#define INTERPOSE_EXEC_OP_H

#include "interpose/comm/comm.h"
#include "interpose/comm/partial.h"
#include "interpose/comm/placement.h"
#include "interpose/exec/nccl_group.h"

struct tagc_work;

/* An exchange with what comes behind it. wanted: does the work take part? Where no work of a batch does, there is none. then: of every
 * work of the batch, taking part or not. Either may be NULL: no work ever takes part; nothing is done. */
struct tagc_round {
  bool (*wanted)(const struct tagc_work *w);
  ncclResult_t (*enqueue)(const struct tagc_exchange *real, struct tagc_work *w);
  ncclResult_t (*then)(struct tagc_work *w);
  bool sums;                        /* its time is that of sums inside a host */
};

/* A part's steps. begin, encoded, exchanged and decoded may be NULL. A part in several pieces is encoded and decoded on the lane of its
 * communicator: on a thread, or on a stream of its own; but for the first encode, and on a thread the last decode, for which the caller
 * would wait at once. */
struct tagc_part {
  void (*lay_out)(struct tagc_work *w);
  ncclResult_t (*begin)(struct tagc_work *w);
  struct tagc_round before[2];
  ncclResult_t (*encode)(struct tagc_work *w, unsigned piece, void *stream);
  ncclResult_t (*encoded)(struct tagc_work *w, unsigned piece);     /* on the caller's stream, behind that */
  ncclResult_t (*enqueue)(const struct tagc_exchange *real, struct tagc_work *w, unsigned piece);
  ncclResult_t (*exchanged)(struct tagc_work *w, unsigned piece);
  ncclResult_t (*decode)(struct tagc_work *w, unsigned piece, void *stream);
  ncclResult_t (*decoded)(struct tagc_work *w);
  struct tagc_round after;
  void (*settle)(struct tagc_work *w);
  void (*give_up)(struct tagc_work *w);
};

/* A reduce-scatter that is compressed or flushed (reduce_scatter.c). */
struct tagc_reducing {
  struct tagc_party party;          /* who exchanges payloads */
  struct tagc_job job;              /* in several pieces (slot->pieces): of them together, and without memory; else what is done */
  struct tagc_job piece[TAGC_CHUNKS];
  struct tagc_codec_stats seen[TAGC_CHUNKS];        /* of these */
  uint8_t *sums;                    /* two levels: the sums over this host's ranks; otherwise NULL */
  struct tagc_split split;          /* where but a part of the slot is selected */
  int64_t *told;                    /* where the ranks of a host tell one another what they have seen; NULL: they need not */
  void *scratch;                    /* TAGC_FLUSH: the send buffer of the plain call */
  bool encoded;                     /* the residual has changed */
  bool denser;                      /* the device says that the gradient has outgrown the codec */
};

/* An all-gather that is compressed, or plain for later ones to refer to (allgather.c); or that of the sums of an all-reduce (allreduce_tail.c): no
 * codec, and nothing of the job but what lies where, where they are gathered plainly. */
struct tagc_gathering {
  ncclComm_t handle;                /* between whose ranks */
  const struct tagc_allgather_codec *codec;
  struct tagc_allgather_job job;    /* what is gathered, from where to where; in several pieces without memory: then what is done */
  struct tagc_allgather_job piece[TAGC_CHUNKS];
  struct tagc_allgather_stats seen[TAGC_CHUNKS];    /* of these */
  unsigned pieces;
  bool refused;                     /* some rank's payload held no shard */
};

extern const struct tagc_part tagc_part_reduce, tagc_part_gather, tagc_part_spread;

/* Gives w->gather.job, compressed, its memory at `base`, in these pieces; w->pieces[part] is their number then (allgather.c). */
void tagc_gather_carve(struct tagc_work *w, int part, const struct tagc_allgather_chunks *chunks, uint8_t *base);

/* In one piece: what is done; else that piece. */
static inline struct tagc_allgather_job *tagc_gather_job(struct tagc_gathering *gather, unsigned piece)
{
  return gather->pieces > 1 ? &gather->piece[piece] : &gather->job;
}

/* Adds to a group what carries a piece that is `encoded`, or else the whole as it is (allgather.c). */
ncclResult_t tagc_gather_enqueue(const struct tagc_exchange *real, struct tagc_work *w, unsigned piece, bool encoded);

enum { TAGC_WORK_PARTS = 2 };

/* What has been given to a lane. */
struct tagc_errand {
  struct tagc_work *work;
  ncclResult_t (*step)(struct tagc_work *w, unsigned piece, void *stream);
  enum tagc_lane_work kind;
  unsigned piece;
  uint64_t ticket;                  /* 0: it was done at once */
  ncclResult_t status;
  uint64_t took_ns;
};

struct tagc_work {
  struct tagc_call *call;
  const struct tagc_device *device;
  const struct tagc_part *parts[TAGC_WORK_PARTS];   /* one after the other; NULL: no more */
  unsigned pieces[TAGC_WORK_PARTS]; /* of each; lay_out may cut it into several, at most TAGC_CHUNKS */
  struct tagc_errand encode[TAGC_CHUNKS], decode[TAGC_CHUNKS];
  uint64_t ticket;                  /* of the last errand */
  struct tagc_lane_times lane;      /* when the call began */
  struct tagc_trace_times took;     /* on memory of the host */
  struct tagc_reducing reduce;
  struct tagc_gathering gather;
};

/* What a device could not do is said by what NCCL says of its own troubles with one. */
static inline ncclResult_t tagc_work_done(bool good) { return good ? ncclSuccess : ncclUnhandledCudaError; }

#endif
