/* SPDX-License-Identifier: BSD-3-Clause
 * See model.h. Here: the memory of the activations, the embedding and the head.
 */
#include "examples/gpt/model.h"

#include <stdlib.h>
#include <string.h>

/* Hands out parts of one allocation; while memory is NULL it only counts. */
struct carver {
  float *memory;
  size_t used;
};

static float *carve(struct carver *carver, size_t count) {
  float *part = carver->memory ? carver->memory + carver->used : NULL;
  carver->used += (count + 15) / 16 * 16; /* whole cache lines */
  return part;
}

static void place_arrays(struct gpt_model *m, struct carver *carver) {
  size_t h = m->shape.hidden, t = m->shape.context, rows = m->shape.batch * t;
  for (size_t i = 0; i < m->shape.layers; i++)
    m->blocks[i] = (struct gpt_block){
      .normal1 = carve(carver, rows * h),
      .stats1 = carve(carver, rows * 2),
      .qkv = carve(carver, rows * 3 * h),
      .probs = carve(carver, m->shape.batch * m->shape.heads * t * t),
      .attended = carve(carver, rows * h),
      .middle = carve(carver, rows * h),
      .normal2 = carve(carver, rows * h),
      .stats2 = carve(carver, rows * 2),
      .wide = carve(carver, rows * 4 * h),
      .gelu = carve(carver, rows * 4 * h),
    };
  for (size_t i = 0; i <= m->shape.layers; i++)
    m->stream[i] = carve(carver, rows * h);
  m->final = carve(carver, rows * h);
  m->final_stats = carve(carver, rows * 2);
  m->logits = carve(carver, rows * m->shape.vocabulary);
  m->dstream = carve(carver, rows * h);
  m->dnarrow = carve(carver, rows * h);
  m->dwide = carve(carver, rows * 4 * h);
  m->dscores = carve(carver, t * t);
}

struct gpt_model *gpt_create(const struct gpt_shape *shape) {
  struct gpt_model *m = calloc(1, sizeof *m);
  if (!m)
    return NULL;
  m->shape = *shape;
  m->nunits = gpt_count_units(shape);
  m->units = gpt_units_create(shape);
  m->blocks = calloc(shape->layers, sizeof *m->blocks);
  m->stream = calloc(shape->layers + 1, sizeof *m->stream);
  if (!m->units || !m->blocks || !m->stream)
    goto no_memory;
  struct carver carver = {0};
  place_arrays(m, &carver);
  m->memory = carver.memory = aligned_alloc(64, carver.used * sizeof(float));
  if (!m->memory)
    goto no_memory;
  carver.used = 0;
  place_arrays(m, &carver);
  return m;
no_memory:
  gpt_destroy(m);
  return NULL;
}

void gpt_destroy(struct gpt_model *m) {
  if (!m)
    return;
  free(m->memory);
  free(m->stream);
  free(m->blocks);
  free(m->units);
  free(m);
}

void gpt_set_batch(struct gpt_model *m, const uint16_t *inputs, const uint16_t *targets) {
  m->inputs = inputs;
  m->targets = targets;
}

static void embedding_forward(struct gpt_model *m, const float *params) {
  size_t h = m->shape.hidden, rows = m->shape.batch * m->shape.context;
  const float *token = params, *position = params + m->shape.vocabulary * h;
  for (size_t row = 0; row < rows; row++) {
    const float *t = token + m->inputs[row] * h, *p = position + row % m->shape.context * h;
    float *x = m->stream[0] + row * h;
#pragma omp simd
    for (size_t i = 0; i < h; i++)
      x[i] = t[i] + p[i];
  }
}

static void embedding_backward(const struct gpt_model *m, float *grads) {
  size_t h = m->shape.hidden, rows = m->shape.batch * m->shape.context;
  float *token = grads, *position = grads + m->shape.vocabulary * h;
  for (size_t row = 0; row < rows; row++) {
    float *t = token + m->inputs[row] * h, *p = position + row % m->shape.context * h;
    const float *dx = m->dstream + row * h;
#pragma omp simd
    for (size_t i = 0; i < h; i++) {
      t[i] += dx[i];
      p[i] += dx[i];
    }
  }
}

static void head_forward(struct gpt_model *m, const float *params, size_t counted, float grad_scale) {
  size_t h = m->shape.hidden, t = m->shape.context, rows = m->shape.batch * t, classes = m->shape.vocabulary;
  const float *gain = params, *bias = params + h, *weight = params + 2 * h;
  layernorm_forward(m->final, m->final_stats, m->stream[m->shape.layers], gain, bias, rows, h);
  linear_forward(m->logits, m->final, weight, NULL, rows, h, classes);
  size_t first = counted < m->shape.batch ? counted * t : rows;
  m->loss = cross_entropy(m->logits, m->targets, first, classes, grad_scale);
  cross_entropy(m->logits + first * classes, m->targets + first, rows - first, classes, grad_scale);
}

static void head_backward(struct gpt_model *m, const float *params, float *grads) {
  size_t h = m->shape.hidden, rows = m->shape.batch * m->shape.context;
  linear_backward(m->dnarrow, grads + 2 * h, NULL, m->logits, m->final, params + 2 * h, rows, h, m->shape.vocabulary);
  memset(m->dstream, 0, rows * h * sizeof *m->dstream);
  layernorm_backward(m->dstream, grads, grads + h, m->dnarrow, m->stream[m->shape.layers], m->final_stats, params, rows,
                     h);
}

void gpt_forward(struct gpt_model *m, size_t unit, const float *params, size_t counted, float grad_scale) {
  if (unit == 0)
    embedding_forward(m, params);
  else if (unit < m->nunits - 1)
    gpt_block_forward(m, unit, params);
  else
    head_forward(m, params, counted, grad_scale);
}

void gpt_backward(struct gpt_model *m, size_t unit, const float *params, float *grads) {
  if (unit == 0)
    embedding_backward(m, grads);
  else if (unit < m->nunits - 1)
    gpt_block_backward(m, unit, params, grads);
  else
    head_backward(m, params, grads);
}
