/* SPDX-License-Identifier: BSD-3-Clause
 * The times and results of every step, and their output: progress, the summary, the file of --times. Single-threaded.
 */
#ifndef EXAMPLES_GPT_STEPS_H
#define EXAMPLES_GPT_STEPS_H

#include <stddef.h>
#include <stdio.h>

struct step {
  /* all_reduce: of gradients; other: of a few values. */
  double total_s, all_gather_s, reduce_scatter_s, all_reduce_s, other_s;
  double loss;          /* mean over the tokens of all ranks */
  double gradient_norm; /* of the whole model, before clipping */
};

/* Time that is not spent in communication calls. */
static inline double step_compute_s(const struct step *s) {
  return s->total_s - s->all_gather_s - s->reduce_scatter_s - s->all_reduce_s - s->other_s;
}

/* Prints a line such as "step 20/120  loss 2.431  step time 412 ms" for the steps [from, to). */
void steps_print_progress(const struct step *steps, size_t from, size_t to, size_t all);

/* The summary's facts besides the steps. */
struct summary {
  size_t steps, skip_timing, skipped, ranks, params;
  double loss_val;
};
/* Prints a block to read and a line "train: key=value ...". loss_train is the mean over the last tenth of the steps. */
void steps_print_summary(const struct step *steps, const struct summary *summary);

/* Writes one line per step, tab-separated, with a header; times in milliseconds. Ends the process if that fails. */
void steps_write(const struct step *steps, size_t count, const char *path);

#endif
