/* SPDX-License-Identifier: BSD-3-Clause
 * A pattern: the calls of one cycle, their meaning for the program, and its slots.
 *
 * While learning, a pattern is the candidate under test; once locked, it is followed. Part of struct tagc_cycle, which
 * owns its memory; same rules for threads and purity; cannot fail.
 */
#ifndef LAYERMAP_CYCLE_PATTERN_H
#define LAYERMAP_CYCLE_PATTERN_H

#include "layermap/cycle/evidence.h"

/* The evidence always holds twice that and one call. */
enum { TAGC_PATTERN_CALLS = TAGC_EVIDENCE_CALLS / 4 - 1 };

struct tagc_place {
  struct tagc_signature signature;
  int32_t slot;             /* of a reduce-scatter (or an all-reduce, see all_reduces), else -1 */
  int32_t allgather;        /* of an all-gather of parameters, else -1 */
  bool lone;                /* unique in the pattern */
  bool landmark;            /* it tells its place in a step (landmarks.h) */
  bool gathered;            /* the pattern has a floating-point all-gather of the same count */
  bool evident;             /* as in struct tagc_slot_info */
  bool stays;               /* a gather of a forward pass whose unit stays gathered (forward.h) */
  bool may_be, may_be_next; /* out of sync: the newest call may be here; scratch of forward.c */
  uint16_t forward_end;     /* of a call with which a forward pass may begin: the place behind that pass; else 0 */
  uint16_t kind; /* number of the count, from 1, for reduce-scatters and floating-point all-gathers of one; else 0 */
};

/* Scratch of units.c. */
struct tagc_order_scratch {
  uint16_t reduced[TAGC_PATTERN_CALLS];  /* places of the reduce-scatters, from the first of the backward pass */
  uint16_t gathered[TAGC_PATTERN_CALLS]; /* kinds of the gathers before it */
  uint16_t link[TAGC_PATTERN_CALLS], ranked[TAGC_PATTERN_CALLS];
  int32_t open[TAGC_EVIDENCE_SIGNATURES + 1];
};

/* Scratch of allgathers.c. */
struct tagc_allgathers_scratch {
  uint16_t begin[TAGC_EVIDENCE_SIGNATURES + 2]; /* where a kind's units begin in the two lists below */
  uint16_t ascending[TAGC_PATTERN_CALLS];       /* units in forward order, by kind */
  uint16_t reducing[TAGC_PATTERN_CALLS];        /* units in a pass's order of reduction, by kind */
  uint16_t nth[TAGC_PATTERN_CALLS];             /* of a unit: the place of its reduce-scatter in a pass */
  uint16_t index[TAGC_PATTERN_CALLS];           /* of a place: the index of the gather among its kind in the segment */
  uint16_t unit[TAGC_PATTERN_CALLS];            /* of a gather, if it has one */
  uint16_t seen[TAGC_EVIDENCE_SIGNATURES + 1], total[TAGC_EVIDENCE_SIGNATURES + 1],
    reduced[TAGC_EVIDENCE_SIGNATURES + 1];
  bool early[TAGC_EVIDENCE_SIGNATURES + 1]; /* some unit of that kind is reduced before its last gather */
  bool sure[TAGC_PATTERN_CALLS];            /* of a gather that has a unit */
  bool held[TAGC_PATTERN_CALLS];            /* of a unit: gathered, and not reduced since */
};

/* The order of the gathers of a forward pass (units.h). */
enum tagc_order { TAGC_ORDER_UNKNOWN, TAGC_ORDER_FORWARD, TAGC_ORDER_REDUCING, TAGC_ORDER_EITHER };

struct tagc_pattern {
  int nranks; /* of the communicator; 0: unknown. Set once */
  uint32_t length;
  uint32_t slot_count, allgather_count;
  uint32_t units; /* reduce-scatters of one pass */
  enum tagc_order order;
  uint32_t first;   /* the first reduce-scatter after the longest stretch without any (the forward pass) */
  uint32_t stretch; /* calls in that stretch */
  bool has_lone;    /* some place is lone */
  bool has_landmarks;
  uint64_t passes;        /* of proven all-reduces: how often they reduce the model */
  bool all_reduces;       /* its slots are all-reduces: no floating-point reduce-scatter, or none of a gradient */
  bool whole;             /* it looks like a whole training step: see tagc_cycle_is_gradients() */
  bool proven;            /* of all-reduces: the program's beginning proves it (replicas.h) */
  bool rebuilt;           /* and they are DDP's new buckets */
  bool row;               /* but recent reduce-scatters are not all in it, or not in its order (activations.h) */
  uint32_t forward_calls; /* of the shortest forward pass, without units that stay gathered; 0: none is known */
  uint32_t followed;      /* calls since tagc_forward_begin() */
  struct tagc_place places[TAGC_PATTERN_CALLS];
  struct tagc_slot_info slots[TAGC_PATTERN_CALLS];
  struct tagc_allgather_info allgathers[TAGC_PATTERN_CALLS];
  struct tagc_order_scratch scratch;
  struct tagc_allgathers_scratch allgather_scratch;
};

/* True if this call could carry gradients in this pattern's cycle. */
static inline bool tagc_pattern_reduces(const struct tagc_pattern *pattern, const struct tagc_signature *s) {
  return tagc_signature_reduces(s) || (pattern->all_reduces && tagc_signature_sums(s));
}

/* The place before another one. */
static inline uint32_t tagc_pattern_before(const struct tagc_pattern *pattern, uint32_t at) {
  return at ? at - 1 : pattern->length - 1;
}

/* True if the pattern has such a call. */
bool tagc_pattern_has(const struct tagc_pattern *pattern, const struct tagc_signature *s);

/* Makes the `period` calls before the newest one the pattern, without the infos of its slots. False, and the pattern is
 * unusable: no floating-point slot, or the newest call (place 0) is no anchor. */
bool tagc_pattern_take(struct tagc_pattern *pattern, struct tagc_evidence *evidence, uint32_t period);
/* True if the pattern just taken lacks a recent call that belongs in such a cycle. */
bool tagc_pattern_contradicted(const struct tagc_pattern *pattern, const struct tagc_evidence *evidence);
/* Sets the slots' infos. Call it right after take(), with the same evidence. */
void tagc_pattern_name(struct tagc_pattern *pattern, struct tagc_evidence *evidence);

#endif
