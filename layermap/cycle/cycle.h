/* SPDX-License-Identifier: BSD-3-Clause
 * The repeating cycle of the calls of one communicator, and the slots in it.
 *
 * A training step issues the same collectives in the same order, step after step. From the sequence of signatures alone
 * (which NCCL's contract makes equal on all ranks of a communicator) the cycle is found, locked and followed; every
 * reduce-scatter in it is a *slot*: the same unit of the model, step after step. In a cycle without floating-point
 * reduce-scatters (DDP, the replicas of HSDP, ZeRO-1 and 2) the large floating-point sums and averages by all-reduce
 * are.
 *
 * Learning    A cycle of p calls is locked when the last 2p+1 calls repeat with period p, the shortest such, more than
 *             floor_calls calls have passed, and nothing contradicts it: every floating-point reduce-scatter seen more
 *             than once lately is part of it. A cycle that is not a whole training step (tagc_cycle_is_gradients) must
 *             have repeated for floor_calls calls, and, if it is no longer than 256, hold the all-gathers seen lately
 *             as well, for inside one backward pass a row of like blocks repeats too (and what looks like a step of
 *             plain sums must have all reduce-scatters seen lately, in their order). A lock that fails too often is
 *             dropped, and the floor doubled. Cycles of more than 16,383 calls are not found.
 *             All of this holds of the all-reduces that are slots, too.
 * Anchor      Position 0 is the first reduce-scatter of the backward pass or, where the cycle has calls that nothing
 *             else in it looks like, the nearest of these at or before it: so a cycle holds the gradients of one step.
 * Order       Units are numbered in forward order: by the gathers of the forward pass, where there are some, else by
 *             the reverse of the order in which gradients are reduced (units.h).
 * Following   An unexpected call loses the track, and a call that nothing else in the cycle looks like finds it again.
 *             (Where every call has its like: when the calls since the loss fit one place only.)
 * Purity      All that is reported is a function of the options and of the sequence observed, never of a clock, an
 *             address, the memory at hand or another communicator: ranks that observe equal sequences report equally.
 * Threads     A cycle belongs to one communicator; calls on it are made one at a time (NCCL's rule, the caller's lock).
 * Failure     create() allocates all that is ever needed (2.7 MB, of which little is touched); nothing else can fail,
 *             so that no rank can fall behind the others here.
 * Cost        In sync, observe() is a comparison and a few stores.
 */
#ifndef LAYERMAP_CYCLE_CYCLE_H
#define LAYERMAP_CYCLE_CYCLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Collectives, by what they do. Point-to-point calls are no collectives and are not observed. */
enum tagc_collective {
  TAGC_COLL_REDUCE_SCATTER,
  TAGC_COLL_ALL_GATHER,
  TAGC_COLL_ALL_REDUCE,
  TAGC_COLL_BROADCAST,
  TAGC_COLL_REDUCE,
  TAGC_COLL_ALL_TO_ALL,
  TAGC_COLL_GATHER,
  TAGC_COLL_SCATTER
};

/* What is compared of a call. `count` is per rank, as in the call itself (recvcount of a reduce-scatter, sendcount of
 * an all-gather). dtype and op are the caller's codes: for cycles only their equality matters; is_float: fp32, fp16 or
 * bf16. */
struct tagc_signature {
  uint64_t count;
  uint8_t collective; /* enum tagc_collective */
  uint8_t dtype;
  uint8_t op; /* kind of reduction; 0 where there is none */
  bool is_float;
};

/* The codes that tell something of a model: ncclDataType_t's, and of the library's kinds of reductions. */
enum { TAGC_CODE_FLOAT16 = 6, TAGC_CODE_FLOAT32 = 7, TAGC_CODE_FLOAT64 = 8 };
enum { TAGC_CODE_SUM = 0, TAGC_CODE_AVERAGE = 1, TAGC_CODE_SCALED_SUM = 2 };

/* All-reduces of fewer elements are no slots. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { TAGC_ALL_REDUCE_LEAST = 16 }; /* so that short inputs have some */
#else
enum { TAGC_ALL_REDUCE_LEAST = 1 << 15 };
#endif

struct tagc_cycle_options {
  uint32_t warmup;      /* whole cycles to pass before a slot may be compressed (TAGC_WARMUP); 0 drops the floor */
  uint64_t floor_calls; /* calls that must have been seen before the first lock (256), unless warmup is 0 */
  int nranks;           /* of the communicator; 0: not known */
};

enum tagc_cycle_state {
  TAGC_CYCLE_LEARNING,   /* no cycle is known: not yet, or no longer, then all that was kept by slot is void */
  TAGC_CYCLE_IN_SYNC,    /* the place of this call in the cycle is known */
  TAGC_CYCLE_OUT_OF_SYNC /* a cycle is known, but not this call's place in it */
};

/* One slot: a reduce-scatter of the cycle, or an all-reduce, as its signature says: the count of an all-reduce is that
 * of all elements. Names and layouts of parameters that are better than the guess below (from a
 * map file, from registered buffers, from the arithmetic of transformers) belong here. */
struct tagc_slot_info {
  struct tagc_signature signature;
  uint32_t position; /* in the cycle, the anchor being 0 */
  uint32_t unit; /* its number in forward order, as inferred: unit 0 is the first of the forward pass (units.h says how)
                  */
  uint32_t pass; /* a cycle may reduce every unit several times (accumulation): the how manieth of these, from 0 on.
                    Slots of one unit share its number and its name */
  bool told;     /* by the gathers of the forward pass; else it is the reverse of the order of the gradients */
  char name[16]; /* "unit<unit>" */
  bool gathered; /* an all-gather of the same count is in the cycle (its parameters, maybe in another type) */
  bool evident;  /* where tagc_cycle_is_gradients(), it is one of these: not each all-reduce is, and
                    beside averages by reduce-scatter no sum is */
};

/* An all-gather of the cycle that is taken for one of parameters: its count is that of a reduce-scatter, and its type a
 * float's. */
struct tagc_allgather_info {
  struct tagc_signature signature;
  uint32_t position; /* in the cycle, the anchor being 0 */
  uint32_t slot;     /* the reduce-scatter of the same unit that comes next (allgathers.h says how that is known) */
  bool sure;         /* else which of the units of this count it is, is a guess */
  bool again; /* it is sure, and the unit was gathered before, and not reduced since: nothing has changed it. (The
                 first gather may be at the end of the cycle before.) */
};

/* What observe() says about a call. */
struct tagc_sighting {
  enum tagc_cycle_state state;
  int slot;           /* index into tagc_cycle_slots(), or -1: out of sync, learning, or no reduce-scatter */
  int allgather;      /* index into tagc_cycle_allgathers(), or -1 */
  bool locked;        /* this call made (or changed) the lock: all slots are new, what was kept by slot is void */
  bool starts;        /* this call is the anchor of a cycle */
  uint64_t cycle;     /* how many cycles have started since the lock, this one included; 0 while learning */
  bool lost;          /* this call was unexpected while in sync: see tagc_cycle_suspects(), which come before its
                         own slot, if it has one: where nothing else looks like it, it is in sync at once */
  bool calls_skipped; /* in sync again, but elsewhere than where sync was lost: calls of the cycle were left out. Else
                there were but others in between */
};

struct tagc_cycle;

/* A new, empty cycle; NULL without memory. Free with tagc_cycle_destroy (NULL is allowed). */
struct tagc_cycle *tagc_cycle_create(const struct tagc_cycle_options *options);
void tagc_cycle_destroy(struct tagc_cycle *cycle);

/* Tells the next collective of the communicator; fills *out. */
void tagc_cycle_observe(struct tagc_cycle *cycle, const struct tagc_signature *call, struct tagc_sighting *out);

/* The slots of the locked cycle in the order of their calls; NULL and 0 while nothing is locked. Owned by the cycle. */
const struct tagc_slot_info *tagc_cycle_slots(const struct tagc_cycle *cycle, size_t *count);
/* The all-gathers of its parameters, likewise. */
const struct tagc_allgather_info *tagc_cycle_allgathers(const struct tagc_cycle *cycle, size_t *count);
/* The number of calls in the locked cycle, 0 while nothing is locked. */
size_t tagc_cycle_length(const struct tagc_cycle *cycle);

/* After a sighting with `lost`: the slots that may have been taken for one another since the last call that nothing
 * else in the cycle looks like. What was kept for them may be misapplied. Owned by the cycle, valid until the next
 * observe(). */
const uint32_t *tagc_cycle_suspects(const struct tagc_cycle *cycle, size_t *count);

/* Are the reduce-scatters of the locked cycle gradients? True when the cycle is a whole training step: floating-point
 * reduce-scatters of at least two different counts, and a stretch free of reduce-scatters (the forward pass) in which
 * each of these counts is all-gathered (the parameters, maybe in another floating-point type than their gradients).
 * Activations of tensor and sequence parallelism, where both kinds alternate, do not look like that, nor do others
 * (activations.h). Of all-reduces, which carry activations in tensor parallelism, the numbers say less. True when all
 * of them are averages, of at least two counts (activations and their gradients are summed); or when most of them, by
 * number and by elements, are the only ones of their count and reduced alike, at least two (an activation is reduced in
 * the forward pass as well as in the backward pass, and in every layer). A model whose buckets repeat is not seen here,
 * but by its layers, which know what sizes it has (layers.h). */
bool tagc_cycle_is_gradients(const struct tagc_cycle *cycle);

#endif
