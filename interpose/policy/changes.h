/* SPDX-License-Identifier: BSD-3-Clause
 * What do the all-gathers of a cycle gather? The contents of its calls, from one cycle to the next, tell.
 *
 *   parameters   differ by little: an optimizer moves each by a small part of itself
 *   activations  differ wholly: each step has other tokens. So do the gradients of both
 *   moments      of an optimizer (Muon's momentum) differ more than parameters
 *
 * Each rank compares samples of what it sends itself, and the ranks merge their findings in the vote. The all-gathers
 * of one count are judged together with its reduce-scatters:
 *   other        all of these all-gathers differ wholly: the reduce-scatters are no gradients
 *   parameters   all of these all-gathers differ by little, some differ, and all reduce-scatters differ wholly.
 * Contents that never change prove nothing (weights at inference), nor do steps that repeat one batch. Everything else
 * is no proof.
 *
 * All-reduces may be of averaged parameters (local SGD), with the sizes and the beginning of gradients. There the ranks
 * compare what each of them sends in one cycle. Their parameters are nearly the same. Gradients of different batches
 * are that only if batches are huge, or all samples alike. Equal values prove nothing, as all ranks may have the same
 * batch. More ranks spread further: parameters of many ranks, and of many local steps, are not found.
 *
 * Pure functions. Cannot fail.
 */
#ifndef INTERPOSE_POLICY_CHANGES_H
#define INTERPOSE_POLICY_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/codec/codec.h"

/* A sample: rows of neighbours, evenly spread. */
enum { TAGC_CHANGE_ROWS = 64, TAGC_CHANGE_WIDTH = 32, TAGC_CHANGE_BYTES = TAGC_CHANGE_ROWS * TAGC_CHANGE_WIDTH };

/* Where the rows of a sample begin in a buffer, all in bytes. A short buffer is one row. */
struct tagc_change_rows {
  size_t pitch, width, rows;
};
struct tagc_change_rows tagc_change_rows(size_t bytes, size_t element);

/* The change of a call's content from one cycle to the next, the largest first. UNKNOWN: it was not sampled twice, or
 * nearly all of it is zero. */
enum tagc_change { TAGC_CHANGE_WHOLLY, TAGC_CHANGE_MUCH, TAGC_CHANGE_LITTLE, TAGC_CHANGE_NONE, TAGC_CHANGE_UNKNOWN };
enum tagc_change tagc_change_between(const void *before, const void *after, size_t n, enum tagc_dtype dtype);

/* The changes that the ranks found. No rank knows: least is UNKNOWN. */
struct tagc_change_range {
  enum tagc_change largest, least;
};

/* Verdict on the reduce-scatters of a count. */
enum tagc_proof { TAGC_PROOF_NONE, TAGC_PROOF_PARAMETERS, TAGC_PROOF_OTHER };

/* The calls of one count whose changes are known. */
struct tagc_change_tally {
  uint64_t count;
  size_t gathered, little, moved, wholly; /* all-gathers; of them changed a little or not; a little; wholly */
  size_t reduced, reduced_wholly;         /* reduce-scatters; of them changed wholly */
};
void tagc_change_add_allgather(struct tagc_change_tally *tally, const struct tagc_change_range *changes);
void tagc_change_add_reduce_scatter(struct tagc_change_tally *tally, const struct tagc_change_range *changes);
enum tagc_proof tagc_change_judge(const struct tagc_change_tally *tally);

/* Only movement is missing: a later step may prove parameters (a learning rate of 0, skipped steps of a loss scale). */
bool tagc_change_is_missing(const struct tagc_change_tally *tally);

/* Spread values of a sample, which the ranks compare. NaN: not known. */
enum { TAGC_CHANGE_VALUES = 128 };
void tagc_change_pick(const void *sample, size_t n, enum tagc_dtype dtype, float values[TAGC_CHANGE_VALUES]);

/* How alike the ranks are in values that are not zero. */
struct tagc_likeness {
  size_t values, near, equal;
};
/* Adds the least and the largest that some rank has in one place. */
void tagc_likeness_add(struct tagc_likeness *likeness, float least, float largest);
/* False: too few, or all equal. A later step may tell. */
bool tagc_likeness_is_known(const struct tagc_likeness *likeness);
bool tagc_likeness_is_of_parameters(const struct tagc_likeness *likeness);

/* True if an all-gather changed wholly on every rank that knows. */
static inline bool tagc_change_is_whole(const struct tagc_change_range *changes) {
  return changes->least == TAGC_CHANGE_WHOLLY;
}

#endif
