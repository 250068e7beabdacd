/* SPDX-License-Identifier: BSD-3-Clause
 * One transformer block:  middle = x + attention(norm1(x));  y = middle + mlp(norm2(middle)).  See model.h.
 */
#include "examples/gpt/model.h"

/* The tensors of a block inside a flat array of its parameters or gradients, in the order of units.c. */
struct block_view {
  float *gain1, *bias1, *qkv_weight, *qkv_bias, *out_weight, *out_bias;
  float *gain2, *bias2, *in_weight, *in_bias, *down_weight, *down_bias;
};

static struct block_view view_block(const struct gpt_model *m, size_t layer, float *flat) {
  const struct gpt_tensor *t = m->units[layer + 1].tensors;
  return (struct block_view){
    .gain1 = flat + t[0].offset,
    .bias1 = flat + t[1].offset,
    .qkv_weight = flat + t[2].offset,
    .qkv_bias = flat + t[3].offset,
    .out_weight = flat + t[4].offset,
    .out_bias = flat + t[5].offset,
    .gain2 = flat + t[6].offset,
    .bias2 = flat + t[7].offset,
    .in_weight = flat + t[8].offset,
    .in_bias = flat + t[9].offset,
    .down_weight = flat + t[10].offset,
    .down_bias = flat + t[11].offset,
  };
}

static struct attention attention_of(const struct gpt_shape *s) {
  return (struct attention){.batch = s->batch, .context = s->context, .heads = s->heads, .width = s->hidden / s->heads};
}

static void add(float *y, const float *a, size_t count) {
#pragma omp simd
  for (size_t i = 0; i < count; i++)
    y[i] += a[i];
}

void gpt_block_forward(struct gpt_model *m, size_t layer, const float *params) {
  size_t h = m->shape.hidden, rows = m->shape.batch * m->shape.context;
  struct attention attention = attention_of(&m->shape);
  struct block_view p = view_block(m, layer, (float *)params); /* only read */
  struct gpt_block *b = &m->blocks[layer];
  const float *x = m->stream[layer];
  float *y = m->stream[layer + 1];

  layernorm_forward(b->normal1, b->stats1, x, p.gain1, p.bias1, rows, h);
  linear_forward(b->qkv, b->normal1, p.qkv_weight, p.qkv_bias, rows, h, 3 * h);
  attention_forward(&attention, b->attended, b->probs, b->qkv);
  linear_forward(b->middle, b->attended, p.out_weight, p.out_bias, rows, h, h);
  add(b->middle, x, rows * h);

  layernorm_forward(b->normal2, b->stats2, b->middle, p.gain2, p.bias2, rows, h);
  linear_forward(b->wide, b->normal2, p.in_weight, p.in_bias, rows, h, 4 * h);
  gelu_forward(b->gelu, b->wide, rows * 4 * h);
  linear_forward(y, b->gelu, p.down_weight, p.down_bias, rows, 4 * h, h);
  add(y, b->middle, rows * h);
}

void gpt_block_backward(struct gpt_model *m, size_t layer, const float *params, float *grads) {
  size_t h = m->shape.hidden, rows = m->shape.batch * m->shape.context;
  struct attention attention = attention_of(&m->shape);
  struct block_view p = view_block(m, layer, (float *)params); /* only read */
  struct block_view g = view_block(m, layer, grads);
  const struct gpt_block *b = &m->blocks[layer];
  const float *x = m->stream[layer];
  float *dstream = m->dstream, *dnarrow = m->dnarrow, *dwide = m->dwide;

  /* dstream holds dy, which is also the residual connection's share of dmiddle; norm2 adds the other. */
  linear_backward(dwide, g.down_weight, g.down_bias, dstream, b->gelu, p.down_weight, rows, 4 * h, h);
  gelu_backward(dwide, b->wide, rows * 4 * h);
  linear_backward(dnarrow, g.in_weight, g.in_bias, dwide, b->normal2, p.in_weight, rows, h, 4 * h);
  layernorm_backward(dstream, g.gain2, g.bias2, dnarrow, b->middle, b->stats2, p.gain2, rows, h);

  /* The same for dmiddle and dx; dwide has room for the gradient of qkv. */
  linear_backward(dnarrow, g.out_weight, g.out_bias, dstream, b->attended, p.out_weight, rows, h, h);
  attention_backward(&attention, dwide, dnarrow, b->probs, b->qkv, m->dscores);
  linear_backward(dnarrow, g.qkv_weight, g.qkv_bias, dwide, b->normal1, p.qkv_weight, rows, h, 3 * h);
  layernorm_backward(dstream, g.gain1, g.bias1, dnarrow, x, b->stats1, p.gain1, rows, h);
}
