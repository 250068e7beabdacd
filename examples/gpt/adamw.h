/* SPDX-License-Identifier: BSD-3-Clause
 * AdamW (Loshchilov and Hutter 2019) on the parameters that this rank owns, and the schedule of the learning rate.
 */
#ifndef EXAMPLES_GPT_ADAMW_H
#define EXAMPLES_GPT_ADAMW_H

#include <stddef.h>

#include "examples/gpt/parallel.h"
#include "examples/gpt/model.h"

struct adamw {
  float weight_decay;
  size_t updates;          /* done so far; skipped steps do not count */
  float **first, **second; /* moments of what this rank owns of every unit */
};

/* Ends the process without memory. */
struct adamw *adamw_create(const struct parallel *p, float weight_decay);
void adamw_destroy(struct adamw *a, const struct parallel *p);

/* Updates all of them by their gradients times grad_scale. */
void adamw_update(struct adamw *a, struct parallel *p, const struct gpt_unit *units, float rate, float grad_scale);

/* Linear warm-up to `peak`, then a half cosine down to `left` percent of it at the last step. `step` counts from 0. */
float adamw_rate(float peak, size_t left, size_t step, size_t warmup_steps, size_t steps);

#endif
