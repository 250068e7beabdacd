/* SPDX-License-Identifier: BSD-3-Clause
 * See gradients.h.
 *
 * The rounding of fp32 hides one element's slope, so slopes are taken along unit directions through a whole tensor.
 * The first is the computed gradient g itself. In others a random half of g is zeroed: errors that cancel in one half
 * show in another. The last has random signs, and finds a gradient that is wrongly zero. Along a unit direction v the
 * slope must be g.v; the difference is measured against |g|. A stencil of four points has an error of the fourth order,
 * so the step can be wide enough for fp32.
 */
#include "examples/gpt/gradients.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/fail.h"
#include "examples/gpt/model.h"
#include "examples/gpt/random.h"

#define DIRECTIONS 12
#define TOLERANCE 2e-3

struct checker {
  struct gpt_model *model;
  float **params, **grads;
  float *saved, *direction; /* as long as the largest unit */
  uint64_t seed;
};

static double loss_of(struct checker *c) {
  size_t tokens = c->model->shape.batch * c->model->shape.context;
  for (size_t unit = 0; unit < c->model->nunits; unit++)
    gpt_forward(c->model, unit, c->params[unit], c->model->shape.batch, 1.0f / (float)tokens);
  return c->model->loss / (double)tokens;
}

/* The loss with the tensor moved by `distance` along c->direction. */
static double loss_at(struct checker *c, float *tensor, size_t count, double distance) {
  memcpy(c->saved, tensor, count * sizeof *tensor);
  for (size_t i = 0; i < count; i++)
    tensor[i] += (float)(distance * (double)c->direction[i]);
  double loss = loss_of(c);
  memcpy(tensor, c->saved, count * sizeof *tensor);
  return loss;
}

/* Fills c->direction with the unit vector number `kind` for a gradient. */
static void choose_direction(struct checker *c, const float *g, size_t count, size_t kind) {
  double squares = 0.0;
  for (size_t i = 0; i < count; i++) {
    bool coin = random_bits(c->seed, 1000 + kind, i) & 1;
    c->direction[i] = kind == 0 ? g[i] : kind <= DIRECTIONS / 2 ? (coin ? g[i] : 0.0f) : (coin ? 1.0f : -1.0f);
    squares += (double)c->direction[i] * (double)c->direction[i];
  }
  for (size_t i = 0; i < count && squares > 0.0; i++)
    c->direction[i] = (float)((double)c->direction[i] / sqrt(squares));
}

/* The largest difference of slopes over all directions, as a part of |g|. */
static double tensor_error(struct checker *c, float *tensor, const float *g, size_t count) {
  double worst = 0.0, squares = 0.0;
  for (size_t i = 0; i < count; i++)
    squares += (double)g[i] * (double)g[i];
  for (size_t kind = 0; kind < DIRECTIONS; kind++) {
    choose_direction(c, g, count, kind);
    double expected = 0.0, step = 0.02;
    for (size_t i = 0; i < count; i++)
      expected += (double)g[i] * (double)c->direction[i];
    double near = loss_at(c, tensor, count, step) - loss_at(c, tensor, count, -step);
    double far = loss_at(c, tensor, count, 2.0 * step) - loss_at(c, tensor, count, -2.0 * step);
    double error = fabs((8.0 * near - far) / (12.0 * step) - expected) / sqrt(squares);
    worst = error > worst || isnan(error) ? error : worst;
  }
  return worst;
}

static float *array(size_t count) {
  float *memory = calloc(count, sizeof *memory);
  if (!memory)
    fail(1, "no memory");
  return memory;
}

/* Far from the usual start, where many gradients vanish: every parameter gets noise. */
static void fill_params(struct checker *c) {
  for (size_t unit = 0; unit < c->model->nunits; unit++)
    for (size_t i = 0; i < c->model->units[unit].count; i++)
      c->params[unit][i] =
        gpt_initial_value(&c->model->units[unit], unit, i, c->seed) + 0.3f * random_normal(c->seed, 100 + unit, i);
}

static bool check_all(struct checker *c) {
  bool good = true;
  loss_of(c);
  for (size_t unit = c->model->nunits; unit-- > 0;)
    gpt_backward(c->model, unit, c->params[unit], c->grads[unit]);
  for (size_t unit = 0; unit < c->model->nunits; unit++)
    for (size_t k = 0; k < c->model->units[unit].ntensors; k++) {
      const struct gpt_tensor *t = &c->model->units[unit].tensors[k];
      double error = tensor_error(c, c->params[unit] + t->offset, c->grads[unit] + t->offset, t->count);
      bool holds = error < TOLERANCE; /* false for NaN */
      printf("gradient: %s unit=%s tensor=%s error=%.1e limit=%.0e\n", holds ? "good" : "WRONG",
             c->model->units[unit].name, t->name, error, TOLERANCE);
      good = good && holds;
    }
  return good;
}

bool gradients_check(uint64_t seed, size_t vocabulary, bool halves) {
  struct gpt_shape shape = {
    .layers = 2, .hidden = 12, .heads = 3, .context = 7, .batch = 3, .vocabulary = vocabulary, .halves = halves};
  struct checker c = {.model = gpt_create(&shape), .seed = seed};
  if (!c.model)
    fail(1, "no memory");
  size_t nunits = c.model->nunits, largest = 0, tokens = shape.batch * shape.context;
  uint16_t text[64];
  for (size_t i = 0; i <= tokens; i++)
    text[i] = (uint16_t)(random_bits(seed, 999, i) % vocabulary);
  gpt_set_batch(c.model, text, text + 1);
  c.params = calloc(nunits, sizeof *c.params);
  c.grads = calloc(nunits, sizeof *c.grads);
  if (!c.params || !c.grads)
    fail(1, "no memory");
  for (size_t unit = 0; unit < nunits; unit++) {
    size_t count = c.model->units[unit].count;
    c.params[unit] = array(count);
    c.grads[unit] = array(count);
    largest = count > largest ? count : largest;
  }
  c.saved = array(largest);
  c.direction = array(largest);
  fill_params(&c);
  bool good = check_all(&c);
  for (size_t unit = 0; unit < nunits; unit++) {
    free(c.params[unit]);
    free(c.grads[unit]);
  }
  free(c.params);
  free(c.grads);
  free(c.saved);
  free(c.direction);
  gpt_destroy(c.model);
  return good;
}
