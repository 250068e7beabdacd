/* SPDX-License-Identifier: BSD-3-Clause
 * One transformer block:  middle = x + attention(norm1(x));  y = middle + mlp(norm2(middle)).  See model.h.
 */
#include "examples/gpt/model.h"

/* Both halves of a block are a norm, a layer into it, and a layer out of it; the order is that of units.c. */
struct half {
  float *gain, *bias, *in_weight, *in_bias, *out_weight, *out_bias;
};

#define HALF_TENSORS 6

/* The half that begins with tensor `first` of the unit, inside a flat array of its parameters or gradients. */
static struct half view_half(const struct gpt_model *m, size_t unit, size_t first, float *flat) {
  const struct gpt_tensor *t = m->units[unit].tensors + first;
  return (struct half){
    .gain = flat + t[0].offset,
    .bias = flat + t[1].offset,
    .in_weight = flat + t[2].offset,
    .in_bias = flat + t[3].offset,
    .out_weight = flat + t[4].offset,
    .out_bias = flat + t[5].offset,
  };
}

/* Where a unit of blocks stands in the model. */
struct place {
  size_t layer, mlp; /* the MLP's first tensor */
  bool has_attention, has_mlp;
};

static struct place place_of(const struct gpt_model *m, size_t unit) {
  if (!m->shape.halves)
    return (struct place){.layer = unit - 1, .mlp = HALF_TENSORS, .has_attention = true, .has_mlp = true};
  bool is_mlp = (unit - 1) % 2;
  return (struct place){.layer = (unit - 1) / 2, .has_attention = !is_mlp, .has_mlp = is_mlp};
}

static struct attention attention_of(const struct gpt_shape *s) {
  return (struct attention){.batch = s->batch, .context = s->context, .heads = s->heads, .width = s->hidden / s->heads};
}

static void add(float *y, const float *a, size_t count) {
#pragma omp simd
  for (size_t i = 0; i < count; i++)
    y[i] += a[i];
}

static void attention_half_forward(struct gpt_model *m, size_t layer, const struct half *p) {
  size_t h = m->shape.hidden, rows = m->shape.batch * m->shape.context;
  struct attention attention = attention_of(&m->shape);
  struct gpt_block *b = &m->blocks[layer];
  const float *x = m->stream[layer];
  layernorm_forward(b->normal1, b->stats1, x, p->gain, p->bias, rows, h);
  linear_forward(b->qkv, b->normal1, p->in_weight, p->in_bias, rows, h, 3 * h);
  attention_forward(&attention, b->attended, b->probs, b->qkv);
  linear_forward(b->middle, b->attended, p->out_weight, p->out_bias, rows, h, h);
  add(b->middle, x, rows * h);
}

static void mlp_half_forward(struct gpt_model *m, size_t layer, const struct half *p) {
  size_t h = m->shape.hidden, rows = m->shape.batch * m->shape.context;
  struct gpt_block *b = &m->blocks[layer];
  float *y = m->stream[layer + 1];
  layernorm_forward(b->normal2, b->stats2, b->middle, p->gain, p->bias, rows, h);
  linear_forward(b->wide, b->normal2, p->in_weight, p->in_bias, rows, h, 4 * h);
  gelu_forward(b->gelu, b->wide, rows * 4 * h);
  linear_forward(y, b->gelu, p->out_weight, p->out_bias, rows, 4 * h, h);
  add(y, b->middle, rows * h);
}

void gpt_block_forward(struct gpt_model *m, size_t unit, const float *params) {
  struct place place = place_of(m, unit);
  struct half p;
  if (place.has_attention) {
    p = view_half(m, unit, 0, (float *)params); /* only read */
    attention_half_forward(m, place.layer, &p);
  }
  if (place.has_mlp) {
    p = view_half(m, unit, place.mlp, (float *)params);
    mlp_half_forward(m, place.layer, &p);
  }
}

/* dstream holds dy, which is also the residual connection's share of dmiddle; norm2 adds the other. */
static void mlp_half_backward(struct gpt_model *m, size_t layer, const struct half *p, const struct half *g) {
  size_t h = m->shape.hidden, rows = m->shape.batch * m->shape.context;
  const struct gpt_block *b = &m->blocks[layer];
  float *dstream = m->dstream, *dnarrow = m->dnarrow, *dwide = m->dwide;
  linear_backward(dwide, g->out_weight, g->out_bias, dstream, b->gelu, p->out_weight, rows, 4 * h, h);
  gelu_backward(dwide, b->wide, rows * 4 * h);
  linear_backward(dnarrow, g->in_weight, g->in_bias, dwide, b->normal2, p->in_weight, rows, h, 4 * h);
  layernorm_backward(dstream, g->gain, g->bias, dnarrow, b->middle, b->stats2, p->gain, rows, h);
}

/* The same for dmiddle and dx; dwide has room for the gradient of qkv. */
static void attention_half_backward(struct gpt_model *m, size_t layer, const struct half *p, const struct half *g) {
  size_t h = m->shape.hidden, rows = m->shape.batch * m->shape.context;
  struct attention attention = attention_of(&m->shape);
  const struct gpt_block *b = &m->blocks[layer];
  float *dstream = m->dstream, *dnarrow = m->dnarrow, *dwide = m->dwide;
  linear_backward(dnarrow, g->out_weight, g->out_bias, dstream, b->attended, p->out_weight, rows, h, h);
  attention_backward(&attention, dwide, dnarrow, b->probs, b->qkv, m->dscores);
  linear_backward(dnarrow, g->in_weight, g->in_bias, dwide, b->normal1, p->in_weight, rows, h, 3 * h);
  layernorm_backward(dstream, g->gain, g->bias, dnarrow, m->stream[layer], b->stats1, p->gain, rows, h);
}

void gpt_block_backward(struct gpt_model *m, size_t unit, const float *params, float *grads) {
  struct place place = place_of(m, unit);
  struct half p, g;
  if (place.has_mlp) {
    p = view_half(m, unit, place.mlp, (float *)params); /* only read */
    g = view_half(m, unit, place.mlp, grads);
    mlp_half_backward(m, place.layer, &p, &g);
  }
  if (place.has_attention) {
    p = view_half(m, unit, 0, (float *)params);
    g = view_half(m, unit, 0, grads);
    attention_half_backward(m, place.layer, &p, &g);
  }
}
