/* SPDX-License-Identifier: BSD-3-Clause
 * The parameters of a unit, their order in its flat array, and their initial values. Matrices start from normal numbers
 * of variance 1 / inputs. Positions start as sinusoids (Vaswani et al. 2017), which let attention find the preceding
 * bytes within tens of steps. See model.h.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/gpt/model.h"
#include "examples/gpt/random.h"

static void add_tensor(struct gpt_unit *unit, const char *name, size_t count, float start, float deviation,
                       bool decays) {
  unit->tensors[unit->ntensors++] = (struct gpt_tensor){
    .name = name, .offset = unit->count, .count = count, .start = start, .deviation = deviation, .decays = decays};
  unit->count += count;
}

static void add_matrix(struct gpt_unit *unit, const char *name, size_t outputs, size_t inputs) {
  add_tensor(unit, name, outputs * inputs, 0.0f, 1.0f / sqrtf((float)inputs), true);
}

static void add_vector(struct gpt_unit *unit, const char *name, size_t count, float start) {
  add_tensor(unit, name, count, start, 0.0f, false);
}

/* view_half() in block.c relies on the order in both halves of a block. */
static void describe_attention(struct gpt_unit *unit, size_t h) {
  add_vector(unit, "norm1.gain", h, 1.0f);
  add_vector(unit, "norm1.bias", h, 0.0f);
  add_matrix(unit, "attention.qkv.weight", 3 * h, h);
  add_vector(unit, "attention.qkv.bias", 3 * h, 0.0f);
  add_matrix(unit, "attention.out.weight", h, h);
  add_vector(unit, "attention.out.bias", h, 0.0f);
}

static void describe_mlp(struct gpt_unit *unit, size_t h) {
  add_vector(unit, "norm2.gain", h, 1.0f);
  add_vector(unit, "norm2.bias", h, 0.0f);
  add_matrix(unit, "mlp.in.weight", 4 * h, h);
  add_vector(unit, "mlp.in.bias", 4 * h, 0.0f);
  add_matrix(unit, "mlp.out.weight", h, 4 * h);
  add_vector(unit, "mlp.out.bias", h, 0.0f);
}

size_t gpt_count_units(const struct gpt_shape *shape) { return shape->layers * (shape->halves ? 2 : 1) + 2; }

struct gpt_unit *gpt_units_create(const struct gpt_shape *shape) {
  size_t h = shape->hidden, nunits = gpt_count_units(shape);
  struct gpt_unit *units = calloc(nunits, sizeof *units);
  if (!units)
    return NULL;
  struct gpt_unit *embedding = units, *head = units + nunits - 1, *unit = units + 1;
  snprintf(embedding->name, sizeof embedding->name, "embedding");
  add_tensor(embedding, "token", shape->vocabulary * h, 0.0f, 1.0f, true);
  add_tensor(embedding, "position", shape->context * h, 0.0f, 0.0f, true);
  embedding->tensors[1].sinusoid_width = h;
  for (size_t layer = 0; layer < shape->layers; layer++) {
    snprintf(unit->name, sizeof unit->name, "block.%zu%s", layer, shape->halves ? ".attention" : "");
    describe_attention(unit, h);
    if (shape->halves)
      snprintf((++unit)->name, sizeof unit->name, "block.%zu.mlp", layer);
    describe_mlp(unit++, h);
  }
  snprintf(head->name, sizeof head->name, "head");
  add_vector(head, "norm.gain", h, 1.0f);
  add_vector(head, "norm.bias", h, 0.0f);
  add_matrix(head, "weight", shape->vocabulary, h);
  return units;
}

/* Column pairs turn with the position, the first by one radian a byte, the last 200 times slower. */
static float sinusoid(size_t i, size_t width) {
  size_t column = i % width, pair = column / 2 * 2;
  double angle = (double)(i / width) * pow(200.0, -(double)pair / (double)width);
  return (float)(column % 2 ? cos(angle) : sin(angle));
}

float gpt_initial_value(const struct gpt_unit *unit, size_t unit_index, size_t i, uint64_t seed) {
  const struct gpt_tensor *tensor = unit->tensors;
  while (i >= tensor->offset + tensor->count)
    tensor++;
  if (tensor->sinusoid_width)
    return sinusoid(i - tensor->offset, tensor->sinusoid_width);
  if (tensor->deviation == 0.0f)
    return tensor->start;
  return tensor->start + tensor->deviation * random_normal(seed, unit_index, i);
}
