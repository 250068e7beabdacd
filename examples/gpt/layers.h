/* SPDX-License-Identifier: BSD-3-Clause
 * The layers of a transformer, forward and backward, on row-major fp32 matrices of `rows` tokens.
 *
 * Backward functions take the gradient of the loss with respect to the output (dy) and write the one with respect to
 * the input (dx; overwritten unless said otherwise). They add gradients of parameters to the previous values. No
 * function allocates; inputs and outputs must not overlap. Thread-safe, and deterministic if the BLAS is.
 */
#ifndef EXAMPLES_GPT_LAYERS_H
#define EXAMPLES_GPT_LAYERS_H

#include <stddef.h>
#include <stdint.h>

/* y = x w^T + b, with w of `out` rows and `in` columns; b may be NULL. */
void linear_forward(float *y, const float *x, const float *w, const float *b, size_t rows, size_t in, size_t out);
/* db may be NULL. */
void linear_backward(float *dx, float *dw, float *db, const float *dy, const float *x, const float *w, size_t rows,
                     size_t in, size_t out);

/* y = (x - mean) * scale * gain + bias over every row; stats keeps mean and scale (1 / deviation) of each. */
void layernorm_forward(float *y, float *stats, const float *x, const float *gain, const float *bias, size_t rows,
                       size_t width);
/* Adds to dx: the residual connection around the layer has put its share there. */
void layernorm_backward(float *dx, float *dgain, float *dbias, const float *dy, const float *x, const float *stats,
                        const float *gain, size_t rows, size_t width);

/* GELU in its tanh form (Hendrycks and Gimpel 2016), which is x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)). */
void gelu_forward(float *y, const float *x, size_t count);
/* Multiplies dx, which holds dy, by the derivative at x. */
void gelu_backward(float *dx, const float *x, size_t count);

/* Causal self-attention of `batch` sequences of `context` tokens. qkv has 3 * heads * width columns: queries, keys,
 * values, each head by head. probs receives batch * heads matrices of context x context, kept for the backward pass. */
struct attention {
  size_t batch, context, heads, width;
};
void attention_forward(const struct attention *a, float *y, float *probs, const float *qkv);
/* scratch: context x context floats. */
void attention_backward(const struct attention *a, float *dqkv, const float *dy, const float *probs, const float *qkv,
                        float *scratch);

/* Sum over rows of the cross entropy of softmax(logits) against the target. Overwrites logits with the gradient of
 * grad_scale times that sum. */
double cross_entropy(float *logits, const uint16_t *targets, size_t rows, size_t classes, float grad_scale);

#endif
