/* SPDX-License-Identifier: BSD-3-Clause
 * A GPT (Radford et al. 2019): token and position embedding, pre-norm blocks of causal attention and a GELU
 * MLP, a final LayerNorm and an untied head.
 *
 * The model is a sequence of *units*: the embedding, each block (or its attention, then its MLP), the head. Each unit's
 * parameters are one flat array, laid out by its tensors. The model does not own parameters or gradients: the caller
 * hands each pass the unit's flat arrays, so it can gather them just before and drop them just after. The model owns
 * the activations of one batch.
 *
 * Not thread-safe. Functions that allocate return NULL or false without memory.
 */
#ifndef EXAMPLES_GPT_MODEL_H
#define EXAMPLES_GPT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "examples/gpt/layers.h"

struct gpt_shape {
  size_t layers, hidden, heads, context;
  size_t vocabulary; /* tokens that there are: 256 bytes, and perhaps words */
  size_t batch;      /* sequences of one pass */
  bool halves;       /* the attention and the MLP of a block are units of their own */
};

/* A named part of a unit's flat parameters. It starts as `start` plus normal numbers of that deviation, or as sinusoids
 * where sinusoid_width, the length of its rows, is not 0. */
struct gpt_tensor {
  const char *name;
  size_t offset, count;
  float start, deviation;
  size_t sinusoid_width;
  bool decays; /* weight decay applies (matrices) */
};

#define GPT_MAX_TENSORS 12

struct gpt_unit {
  char name[40];
  size_t count; /* parameters */
  size_t ntensors;
  struct gpt_tensor tensors[GPT_MAX_TENSORS];
};

/* Activations that a block keeps from its forward to its backward pass; see block.c. */
struct gpt_block {
  float *normal1, *stats1, *qkv, *probs, *attended, *middle, *normal2, *stats2, *wide, *gelu;
};

struct gpt_model {
  struct gpt_shape shape;
  size_t nunits;          /* layers + 2; in halves, 2 layers + 2 */
  struct gpt_unit *units; /* in forward order */
  struct gpt_block *blocks;
  float **stream;             /* layers + 1 arrays of tokens x hidden: the input of block 0, 1, ..., the head */
  float *final, *final_stats; /* output of the last LayerNorm, and its statistics */
  float *logits;
  float *dstream; /* gradient of the stream where the backward pass is */
  float *dnarrow, *dwide, *dscores;
  float *memory; /* all of the arrays above */
  const uint16_t *inputs, *targets;
  double loss;
};

/* The units of a model of that shape; free() the result. */
struct gpt_unit *gpt_units_create(const struct gpt_shape *shape);
/* Parameter `i` of a unit as it is before the first step. */
float gpt_initial_value(const struct gpt_unit *unit, size_t unit_index, size_t i, uint64_t seed);

struct gpt_model *gpt_create(const struct gpt_shape *shape);
void gpt_destroy(struct gpt_model *model);

/* Sets the batch of the following passes: batch x context tokens each, which must stay until the passes are done. */
void gpt_set_batch(struct gpt_model *model, const uint16_t *inputs, const uint16_t *targets);
/* Units go forward in ascending order. After the last one model->loss holds the sum of the cross entropy over the
 * tokens of sequences [0, counted), and the head's gradient is that of grad_scale times the sum over all sequences. */
void gpt_forward(struct gpt_model *model, size_t unit, const float *params, size_t counted, float grad_scale);
/* Units go backward in descending order, after a whole forward pass. Adds to grads. */
void gpt_backward(struct gpt_model *model, size_t unit, const float *params, float *grads);

/* The number of units of a model of that shape. */
size_t gpt_count_units(const struct gpt_shape *shape);

/* block.c: a unit that is a block, or a half of one: block L from stream[L] to stream[L + 1], and the gradient back, in
 * dstream. */
void gpt_block_forward(struct gpt_model *model, size_t unit, const float *params);
void gpt_block_backward(struct gpt_model *model, size_t unit, const float *params, float *grads);

#endif
