/* SPDX-License-Identifier: BSD-3-Clause
 * Evidence: the recent calls on a communicator, from which its cycle is learned.
 *
 * Every signature gets a small id. At least the newest TAGC_EVIDENCE_CALLS / 2 ids of the sequence are kept. More than
 * TAGC_EVIDENCE_SIGNATURES different signatures restart the evidence. Part of struct tagc_cycle, which owns its memory;
 * same rules for threads and purity; cannot fail.
 */
#ifndef LAYERMAP_CYCLE_EVIDENCE_H
#define LAYERMAP_CYCLE_EVIDENCE_H

#include "layermap/cycle/beginning.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { TAGC_EVIDENCE_CALLS = 512, TAGC_EVIDENCE_SIGNATURES = 16 }; /* so that short inputs fill them */
#else
enum { TAGC_EVIDENCE_CALLS = 65536, TAGC_EVIDENCE_SIGNATURES = 4096 };
#endif
enum { TAGC_EVIDENCE_BUCKETS = 2 * TAGC_EVIDENCE_SIGNATURES };

struct tagc_seen {
  struct tagc_signature signature;
  uint64_t last, before; /* numbers of the newest equal call and of the one before it; the first call is 1, 0: none */
  uint64_t last_reduced, before_reduced; /* reduce-scatters until these two */
  uint32_t times;                        /* in the newest pattern (see pattern.h) */
  uint16_t kind;                         /* likewise: of its places */
  bool gathered;                         /* likewise: it has an all-gather of the same count */
  bool evident;                          /* likewise: if the pattern is a whole step, this is a gradient */
};

struct tagc_evidence {
  uint64_t calls;   /* since the evidence began */
  uint64_t reduced; /* of them floating-point reduce-scatters */
  uint32_t kept;    /* the newest of them, in history */
  uint32_t signatures;
  bool reduces; /* they include a floating-point reduce-scatter, or an all-reduce that might be a slot */
  struct tagc_beginning beginning; /* never forgotten */
  struct tagc_seen seen[TAGC_EVIDENCE_SIGNATURES];
  uint16_t buckets[TAGC_EVIDENCE_BUCKETS]; /* id + 1, or 0 */
  uint16_t history[TAGC_EVIDENCE_CALLS];   /* ids, oldest first */
};

static inline bool tagc_signature_equal(const struct tagc_signature *a, const struct tagc_signature *b) {
  return a->count == b->count && a->collective == b->collective && a->dtype == b->dtype && a->op == b->op &&
         a->is_float == b->is_float;
}

/* True if this call could carry gradients or parameters. */
static inline bool tagc_signature_reduces(const struct tagc_signature *s) {
  return s->collective == TAGC_COLL_REDUCE_SCATTER && s->is_float;
}
/* True if this is an all-reduce that could carry them. */
static inline bool tagc_signature_sums(const struct tagc_signature *s) {
  return s->collective == TAGC_COLL_ALL_REDUCE && s->is_float && s->count >= TAGC_ALL_REDUCE_LEAST &&
         s->op <= TAGC_CODE_SCALED_SUM;
}
static inline bool tagc_signature_is_bytes(const struct tagc_signature *s) {
  return s->dtype == TAGC_CODE_INT8 || s->dtype == TAGC_CODE_UINT8;
}
static inline bool tagc_signature_allgathers(const struct tagc_signature *s) {
  return s->collective == TAGC_COLL_ALL_GATHER && s->is_float;
}

/* Starts over with no evidence. */
void tagc_evidence_begin(struct tagc_evidence *evidence);
/* Adds a call and returns its id. */
uint16_t tagc_evidence_add(struct tagc_evidence *evidence, const struct tagc_signature *call);
/* True if the newest `calls` calls repeat with this period (calls > period > 0). False if fewer are kept. */
bool tagc_evidence_repeats(const struct tagc_evidence *evidence, uint32_t period, uint32_t calls);
/* How many of the newest calls do so: `period` at least, and `most` or those kept at most. */
uint32_t tagc_evidence_repeating(const struct tagc_evidence *evidence, uint32_t period, uint32_t most);
/* True if the newest floating-point reduce-scatters repeat so many times with this period, whatever comes between. Each
 * time one call is like the newest one, and the forward pass comes first: as many calls in a row, or more. */
bool tagc_evidence_has_steps(const struct tagc_evidence *evidence, uint64_t period, uint64_t times);
/* True if the `calls` calls before the newest one came before, in a row. */
bool tagc_evidence_recurs(const struct tagc_evidence *evidence, uint32_t calls);

#endif
