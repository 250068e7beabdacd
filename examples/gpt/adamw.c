/* SPDX-License-Identifier: BSD-3-Clause
 * See adamw.h.
 */
#include "examples/gpt/adamw.h"

#include <math.h>
#include <stdlib.h>

#include "examples/gpt/fail.h"

#define BETA1 0.9f
#define BETA2 0.95f
#define EPSILON 1e-8f

struct adamw *adamw_create(const struct parallel *p, float weight_decay) {
  struct adamw *a = calloc(1, sizeof *a);
  float **first = calloc(p->nunits, sizeof *first), **second = calloc(p->nunits, sizeof *second);
  if (!a || !first || !second)
    fail(1, "no memory");
  *a = (struct adamw){.weight_decay = weight_decay, .first = first, .second = second};
  for (size_t i = 0; i < p->nunits; i++) {
    first[i] = calloc(p->units[i].owned, sizeof **first);
    second[i] = calloc(p->units[i].owned, sizeof **second);
    if (!first[i] || !second[i])
      fail(1, "no memory for the optimiser");
  }
  return a;
}

void adamw_destroy(struct adamw *a, const struct parallel *p) {
  for (size_t i = 0; i < p->nunits; i++) {
    free(a->first[i]);
    free(a->second[i]);
  }
  free(a->first);
  free(a->second);
  free(a);
}

/* The coefficients of an update. All elements share them; only decay differs. */
struct coefficients {
  float rate, grad_scale, correction1, correction2;
};

static void update_range(const struct coefficients *c, float decay, float *params, const float *grads, float *first,
                         float *second, size_t count) {
#pragma omp simd
  for (size_t i = 0; i < count; i++) {
    float g = grads[i] * c->grad_scale;
    first[i] = BETA1 * first[i] + (1.0f - BETA1) * g;
    second[i] = BETA2 * second[i] + (1.0f - BETA2) * g * g;
    float direction = first[i] * c->correction1 / (sqrtf(second[i] * c->correction2) + EPSILON);
    params[i] -= c->rate * (direction + decay * params[i]);
  }
}

void adamw_update(struct adamw *a, struct parallel *p, const struct gpt_unit *units, float rate, float grad_scale) {
  a->updates++;
  struct coefficients c = {.rate = rate,
                           .grad_scale = grad_scale,
                           .correction1 = (float)(1.0 / (1.0 - pow((double)BETA1, (double)a->updates))),
                           .correction2 = (float)(1.0 / (1.0 - pow((double)BETA2, (double)a->updates)))};
  for (size_t i = 0; i < p->nunits; i++) {
    const struct parallel_unit *u = &p->units[i];
    size_t low = u->first, high = low + u->owned;
    /* Decay depends on the tensor: update the part of each that this rank owns. The padding stays zero. */
    for (size_t k = 0; k < units[i].ntensors; k++) {
      const struct gpt_tensor *t = &units[i].tensors[k];
      size_t from = t->offset > low ? t->offset : low;
      size_t to = t->offset + t->count < high ? t->offset + t->count : high;
      if (from >= to)
        continue;
      size_t at = from - low;
      update_range(&c, t->decays ? a->weight_decay : 0.0f, u->params + at, u->grads + at, a->first[i] + at,
                   a->second[i] + at, to - from);
    }
  }
}

float adamw_rate(float peak, size_t left, size_t step, size_t warmup_steps, size_t steps) {
  if (step < warmup_steps)
    return peak * (float)(step + 1) / (float)warmup_steps;
  double progress = steps > warmup_steps + 1 ? (double)(step - warmup_steps) / (double)(steps - 1 - warmup_steps) : 1.0;
  double least = (double)left / 100.0;
  return peak * (float)(least + (1.0 - least) * 0.5 * (1.0 + cos(3.14159265358979323846 * progress)));
}
