/* SPDX-License-Identifier: BSD-3-Clause
 * The repeating cycle of the calls of one communicator, and its slots.
 *
 * A training step issues the same collectives in the same order, step after step. This room finds, locks and follows
 * that cycle from the sequence of signatures alone, which NCCL's contract makes equal on all ranks of a communicator.
 * Every reduce-scatter in it is a *slot*: the same unit of the model, step after step. In a cycle without
 * floating-point reduce-scatters (DDP, the replicas of HSDP, ZeRO-1 and 2) the slots are the large floating-point
 * all-reduces that sum or average.
 *
 * Learning    A cycle of p calls is locked when the last 2p+1 calls repeat with period p, the shortest such, and more
 *             than floor_calls calls have passed. (Proven all-reduces wait for no floor: replicas.h.) Nothing may
 *             contradict it: it contains every floating-point reduce-scatter seen more than once lately. A cycle that
 *             is not a whole training step (tagc_cycle_is_gradients) must have repeated for floor_calls calls. If no
 *             longer than 256 calls, it must also hold all recent all-gathers, since rows of like blocks repeat inside
 *             one backward pass, too. An apparent step of plain sums must have all recent reduce-scatters, in their
 *             order. A lock that fails too often is dropped, and the floor doubled. Cycles of more than 16,383 calls
 *             are not found. All of this also holds for all-reduces that are slots.
 * Variation   Steps may differ in what reduces nothing: they accumulate over other numbers of rounds. If six in a row
 *             have the same reduce-scatters, each behind a forward pass, and one was like the newest, that is locked.
 * Anchor      Position 0 is the first reduce-scatter of the backward pass. If the cycle has unique calls, it is the
 *             nearest of these at or before that. So a cycle holds the gradients of one step.
 * Order       Units are numbered in forward order: by the gathers of the forward pass, if any, else by the reverse of
 *             the order in which gradients are reduced (units.h).
 * Following   An unexpected call loses the track. Landmarks find it again (landmarks.h): a round more or less, and
 *             evaluation between steps, cost at most a call each. (Without landmarks: when the calls since the loss fit
 *             one place only.) A reduction that finds it is no sure one of its slot, and goes plain (policy/plan.h): so
 *             steps of varying rounds have one plain reduction each.
 * Purity      All results are a function of the options and the observed sequence, never of a clock, an address, free
 *             memory or another communicator. So ranks that observe equal sequences get equal results.
 * Threads     A cycle belongs to one communicator; its calls come one at a time (NCCL's rule, the caller's lock).
 * Failure     create() allocates all memory (2.7 MB, of which little is touched). Nothing else can fail, so that no
 *             rank falls behind the others here.
 * Cost        In sync, observe() is a comparison and a few stores.
 */
#ifndef LAYERMAP_CYCLE_CYCLE_H
#define LAYERMAP_CYCLE_CYCLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Collectives, by their effect. Point-to-point calls are no collectives and are not observed. */
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

/* The compared part of a call. `count` is per rank, as in the call itself (recvcount of a reduce-scatter, sendcount of
 * an all-gather). dtype and op are the caller's codes: cycles only compare them. is_float: fp32, fp16 or bf16. */
struct tagc_signature {
  uint64_t count;
  uint8_t collective; /* enum tagc_collective */
  uint8_t dtype;
  uint8_t op; /* kind of reduction, or 0 */
  bool is_float;
};

/* The codes that matter for models: values of ncclDataType_t, and the library's kinds of reductions. */
enum { TAGC_CODE_INT8 = 0, TAGC_CODE_UINT8 = 1, TAGC_CODE_INT32 = 2, TAGC_CODE_INT64 = 4 };
enum { TAGC_CODE_FLOAT16 = 6, TAGC_CODE_FLOAT32 = 7, TAGC_CODE_FLOAT64 = 8 };
enum { TAGC_CODE_SUM = 0, TAGC_CODE_AVERAGE = 1, TAGC_CODE_SCALED_SUM = 2 };

/* All-reduces of fewer elements are no slots. A build may set it lower, for PyTorch's own tests (tests/torch). */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define TAGC_ALL_REDUCE_LEAST 16 /* so that short inputs have some */
#elif !defined TAGC_ALL_REDUCE_LEAST
#define TAGC_ALL_REDUCE_LEAST (1 << 15)
#endif

struct tagc_cycle_options {
  uint32_t warmup;      /* whole cycles before a slot may be compressed (TAGC_WARMUP); 0 drops the floor */
  uint64_t floor_calls; /* calls before the first lock (256), unless warmup is 0 */
  int nranks;           /* of the communicator; 0: unknown */
};

enum tagc_cycle_state {
  TAGC_CYCLE_LEARNING,   /* no cycle is known: not yet, or no longer; then all data kept by slot is void */
  TAGC_CYCLE_IN_SYNC,    /* this call's place in the cycle is known */
  TAGC_CYCLE_OUT_OF_SYNC /* a cycle is known, but not this call's place */
};

/* A slot: a reduce-scatter or all-reduce of the cycle, per its signature. The count of an all-reduce is that of all
 * elements. Names and layouts of parameters from better sources than the guess below belong here: a map file,
 * registered buffers, the arithmetic of transformers. */
struct tagc_slot_info {
  struct tagc_signature signature;
  uint32_t position; /* in the cycle; the anchor is 0 */
  uint32_t unit;     /* inferred number in forward order: unit 0 is the first of the forward pass (units.h) */
  uint32_t pass;     /* which reduction of the unit in the cycle, from 0 (accumulation). They share `unit` and `name` */
  bool told;     /* `unit` comes from the gathers of the forward pass; else from the reverse of the gradients' order */
  char name[16]; /* "unit<unit>" */
  bool gathered; /* the cycle has an all-gather of the same count (its parameters, maybe in another type) */
  bool evident;  /* where tagc_cycle_is_gradients(), this slot is one: not every all-reduce is, and beside averages by
                    reduce-scatter no sum is */
};

/* An all-gather of the cycle, taken for one of parameters: floating-point, with the count of a reduce-scatter. */
struct tagc_allgather_info {
  struct tagc_signature signature;
  uint32_t position; /* in the cycle; the anchor is 0 */
  uint32_t slot;     /* the unit's next reduce-scatter (allgathers.h finds it) */
  bool sure;         /* else `slot` is a guess among the units of this count */
  bool again; /* sure, and the unit was gathered before and not reduced since: it is unchanged. (The first gather may be
                 at the end of the previous cycle.) */
};

/* The result of observe() for a call. */
struct tagc_sighting {
  enum tagc_cycle_state state;
  int slot;       /* index into tagc_cycle_slots(), or -1: out of sync, learning, or no reduce-scatter */
  int allgather;  /* index into tagc_cycle_allgathers(), or -1 */
  bool locked;    /* this call made (or changed) the lock: all slots are new, all data kept by slot is void */
  bool starts;    /* this call is the anchor */
  uint64_t cycle; /* cycles started since the lock, including this one; 0 while learning */
  bool lost; /* this call was unexpected while in sync: see tagc_cycle_suspects(), which precede its own slot, if any.
                It may be in sync again at once */
  bool calls_skipped; /* in sync again, but elsewhere than where sync was lost: calls of the cycle were left out. Else
                         there were only extra calls */
};

struct tagc_cycle;

/* A new, empty cycle; NULL: no memory. Free it with tagc_cycle_destroy (NULL is allowed). */
struct tagc_cycle *tagc_cycle_create(const struct tagc_cycle_options *options);
void tagc_cycle_destroy(struct tagc_cycle *cycle);

/* Observes the next collective of the communicator and fills *out. */
void tagc_cycle_observe(struct tagc_cycle *cycle, const struct tagc_signature *call, struct tagc_sighting *out);

/* The slots of the locked cycle in the order of their calls; NULL and 0 without a lock. Owned by the cycle. */
const struct tagc_slot_info *tagc_cycle_slots(const struct tagc_cycle *cycle, size_t *count);
/* The all-gathers of its parameters, likewise. */
const struct tagc_allgather_info *tagc_cycle_allgathers(const struct tagc_cycle *cycle, size_t *count);
/* The number of calls in the locked cycle; 0 without a lock. */
size_t tagc_cycle_length(const struct tagc_cycle *cycle);

/* After a sighting with `lost`: the slots since the last sure call, which may have been mistaken for one another. Data
 * kept for them may be misapplied. Sure are calls that are unique in the cycle, and slots of a unit with a size of its
 * own. Owned by the cycle, valid until the next observe(). */
const uint32_t *tagc_cycle_suspects(const struct tagc_cycle *cycle, size_t *count);

/* True if the reduce-scatters of the locked cycle are gradients, that is, if the cycle is a whole training step. It
 * then has floating-point reduce-scatters of at least two different counts. A stretch free of reduce-scatters (the
 * forward pass) all-gathers each of these counts (the parameters, maybe in another floating-point type than their
 * gradients). In tensor and sequence parallelism activations alternate both kinds, and do not look like that; nor do
 * others (activations.h). All-reduces carry activations in tensor parallelism, and their counts tell less: they are
 * gradients if the program's beginning proves it (replicas.h). Other proofs are layers whose sizes are known
 * (layers.h), and the shards of other communicators. */
bool tagc_cycle_is_gradients(const struct tagc_cycle *cycle);

/* True if the locked cycle reduces as many buckets as DDP said when it cut them anew, and more than one. Hardly
 * anything but DDP's gradients does. Other proven all-reduces may be of averaged parameters, which begin likewise. */
bool tagc_cycle_has_rebuilt_buckets(const struct tagc_cycle *cycle);

#endif
