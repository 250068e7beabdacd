/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_BUDGET on a communicator: the codecs of all slots of a lock together (budget.h), chosen anew at agreed cycles.
 *
 * When     The first choice is that of the first vote, in its cycle v. The next ones are votes like it, in the cycles v
 *          + 32, v + 96, v + 224 and so on, finally every 1024. A slot that becomes plain because its gradient got
 *          denser brings the next one forward, and one that the guard has changed makes the next intervals short again.
 *          All of that is equal on all ranks.
 * Before   In the cycle before it, every gradient is sampled again (vote/tune.h), compressed or not, and slots with a
 *          residual send it: nothing is lost when a codec changes. If some rank could not sample, or has met NaN or
 *          zeros, the last sample counts.
 * Times    Estimates, times the ratio of measured to estimated times of calls: one for compressed and one for plain
 *          calls, over all slots, since the last choice. The least ratio of all ranks counts, as that rank has waited
 *          least for others: no codec helps if some ranks come late. A measured time enters only through the vote.
 * Norms    Of a gradient's norms the largest of all ranks counts, as of errors.
 * Threads  As a communicator's calls: one at a time; with its lock where noted. The report reads it at exit.
 *
 * Without TAGC_BUDGET it is NULL: every function then does nothing, or returns 0 or false.
 */
#ifndef INTERPOSE_BUDGET_RETUNE_H
#define INTERPOSE_BUDGET_RETUNE_H

#include "interpose/budget/budget.h"

enum { TAGC_RETUNE_ENTRIES = 48, TAGC_RETUNE_CODECS = 120, TAGC_RETUNE_TEXT = TAGC_RETUNE_CODECS + 120 };

/* A choice, and later ones that have changed nothing. */
struct tagc_retune_entry {
  uint64_t cycle, last; /* cycles of the first and of the last one */
  uint64_t times;
  struct tagc_budget_outcome outcome; /* of the first one */
  char codecs[TAGC_RETUNE_CODECS];    /* number of slots by codec */
  double measured_ns;                 /* of a step's calls until the next choice; 0: unknown */
  double measured_error;              /* by the sample before the next choice; 0: none */
};

/* Facts about a slot; its options for the choice lie beside it. */
struct tagc_retune_slot {
  struct tagc_choice *choice; /* the ledger's; NULL: never offered */
  int previous;               /* its option before the last vote, and the estimate for a call since then */
  double estimated_ns;
  double spent_ns;      /* time of calls made as chosen since the last choice, ... */
  uint64_t spent_calls; /* ... and their number */
};

struct tagc_retune {
  uint64_t next;                      /* cycle of the next choice; 0: none */
  uint64_t chosen;                    /* cycle of the last choice; 0: none yet */
  uint32_t interval;                  /* between the two */
  double ratios[2];                   /* plain, compressed: measured by estimated times, as of the last vote */
  struct tagc_budget_outcome outcome; /* of the last choice, as the vote has left it */
  struct tagc_retune_entry entries[TAGC_RETUNE_ENTRIES];
  size_t entry_count, slot_count;
  struct tagc_budget_slot *options; /* of the slots, in their order */
  struct tagc_retune_slot slots[];
};

/* Makes it for the slots of a new lock. NULL without memory. */
struct tagc_retune *tagc_retune_make(size_t slot_count);

/* ---- when -------------------------------------------------------------------------------------------------------- */

/* The cycle of the next choice; 0: none. */
static inline uint64_t tagc_retune_next(const struct tagc_retune *retune) { return retune ? retune->next : 0; }
/* Is this the cycle before the next choice, or a later one? Equal on all ranks. */
bool tagc_retune_is_near(const struct tagc_retune *retune, uint64_t cycle);
/* A slot has become plain, on all ranks, by a call in this cycle: brings the next choice as near as possible. */
void tagc_retune_hasten(struct tagc_retune *retune, uint64_t cycle);

/* ---- what calls take --------------------------------------------------------------------------------------------- */

/* Do times of calls in this cycle count? Not if a sample or a vote disturbs them. */
bool tagc_retune_counts(const struct tagc_retune *retune, uint64_t cycle);
/* Adds the time of a call made as chosen. slot < 0: a former slot, which counts no more. */
void tagc_retune_add(struct tagc_retune *retune, int slot, double ns);
/* Measured by estimated times of plain and compressed calls, on this rank (0: no measurement); then of all ranks. */
void tagc_retune_measure(const struct tagc_retune *retune, double ratios[2]);
void tagc_retune_correct(struct tagc_retune *retune, const double ratios[2]);

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* Offers a slot for the choice, with its estimates. */
void tagc_retune_offer(struct tagc_retune *retune, size_t slot, const struct tagc_slot_question *question,
                       const struct tagc_gradient_stats *gradient, struct tagc_choice *choice);
/* Chooses for all slots: fills the choice of each. offered: all were offered; else they stay plain. */
void tagc_retune_choose(struct tagc_retune *retune, bool offered);
/* The vote's outcome for a slot; then for all of them, in this cycle: logs it, and the next cycle. With the lock. */
void tagc_retune_resolve(struct tagc_retune *retune, size_t slot, bool compressed);
void tagc_retune_end(struct tagc_retune *retune, uint64_t communicator, uint64_t cycle);

/* ---- reports ----------------------------------------------------------------------------------------------------- */

/* The last choice in words, for a trace; "": none. */
const char *tagc_retune_text(const struct tagc_retune *retune, char text[TAGC_RETUNE_TEXT]);
/* Prints all choices, and whether the target was met. */
void tagc_retune_report(const struct tagc_retune *retune);

#endif
