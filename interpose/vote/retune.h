/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_BUDGET on a communicator: the codecs of all its slots together (budget.h), and anew at agreed cycles.
 *
 * When     The first selection is that of the first vote, in its cycle v. The next ones are votes like it, in the cycles v + 32,
 *          v + 96, v + 224 and so on, at last every 1024. A slot that stays plain as its gradient got denser has the next one brought
 *          forward, and one that the guard has changed makes the next intervals short again. All of that is equal on all ranks.
 * Before   In the cycle before it, every gradient is looked at again (tune.h), compressed or not, and slots with a residual send it:
 *          nothing is lost when a codec changes. Where some rank could not look, or has met NaN or zeros, the last look counts.
 * Times    Estimates, times what calls have taken by what was estimated for them: of compressed and plain calls each, over all slots,
 *          since the last selection. Of the ranks the least counts, for that one has waited least for others: that some ranks come
 *          late is no codec's to mend. What was measured enters through the vote alone.
 * Norms    Of a gradient the largest of the ranks' counts, as of errors.
 * Threads  As the calls of a communicator: one at a time; with its lock where it says so.
 */
#ifndef INTERPOSE_VOTE_RETUNE_H
#define INTERPOSE_VOTE_RETUNE_H

#include "interpose/comm/spent.h"

/* What ranks tell one another beside what they have seen: so many int64, for a min all-reduce; none without a budget. */
size_t tagc_selection_words(void);
void tagc_selection_tell(const struct tagc_comm *comm, int64_t *words);
void tagc_selection_hear(struct tagc_comm *comm, const int64_t *words);

/* Chooses for all slots: fills the choice of each. `wire` NULL: all stay plain. Without the lock. */
void tagc_selection_plan(struct tagc_comm *comm, const struct tagc_wire *wire);

/* The vote before a call in this cycle has been counted: says what has come of it, and when the next one is due. With the lock. */
void tagc_selection_end(struct tagc_comm *comm, uint64_t cycle);

#endif
