/* SPDX-License-Identifier: BSD-3-Clause
 * See layers.h. The BLAS computes products; the rest are loops that vectorise. `omp simd` also allows a sum to be split
 * over vector lanes, the same way in every run.
 */
#include "examples/gpt/layers.h"

#include <math.h>
#include <string.h>
#ifdef CBLAS_OF_OPENBLAS /* Fedora has it in a folder of its own */
#include <openblas/cblas.h>
#else
#include <cblas.h>
#endif

#include "examples/gpt/fast_exp.h"

void linear_forward(float *y, const float *x, const float *w, const float *b, size_t rows, size_t in, size_t out) {
  if (b)
    for (size_t row = 0; row < rows; row++)
      memcpy(y + row * out, b, out * sizeof *y);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)out, (int)in, 1.0f, x, (int)in, w, (int)in,
              b ? 1.0f : 0.0f, y, (int)out);
}

void linear_backward(float *dx, float *dw, float *db, const float *dy, const float *x, const float *w, size_t rows,
                     size_t in, size_t out) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)in, (int)out, 1.0f, dy, (int)out, w, (int)in,
              0.0f, dx, (int)in);
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)out, (int)in, (int)rows, 1.0f, dy, (int)out, x, (int)in,
              1.0f, dw, (int)in);
  if (!db)
    return;
  for (size_t row = 0; row < rows; row++)
#pragma omp simd
    for (size_t i = 0; i < out; i++)
      db[i] += dy[row * out + i];
}

void layernorm_forward(float *y, float *stats, const float *x, const float *gain, const float *bias, size_t rows,
                       size_t width) {
  for (size_t row = 0; row < rows; row++, x += width, y += width) {
    float sum = 0.0f, squares = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < width; i++)
      sum += x[i];
    float mean = sum / (float)width;
#pragma omp simd reduction(+ : squares)
    for (size_t i = 0; i < width; i++)
      squares += (x[i] - mean) * (x[i] - mean);
    float scale = 1.0f / sqrtf(squares / (float)width + 1e-5f);
#pragma omp simd
    for (size_t i = 0; i < width; i++)
      y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
    stats[2 * row] = mean;
    stats[2 * row + 1] = scale;
  }
}

void layernorm_backward(float *dx, float *dgain, float *dbias, const float *dy, const float *x, const float *stats,
                        const float *gain, size_t rows, size_t width) {
  for (size_t row = 0; row < rows; row++, x += width, dy += width, dx += width) {
    float mean = stats[2 * row], scale = stats[2 * row + 1], sum = 0.0f, dot = 0.0f;
#pragma omp simd reduction(+ : sum, dot)
    for (size_t i = 0; i < width; i++) {
      float normal = (x[i] - mean) * scale;
      dgain[i] += dy[i] * normal;
      dbias[i] += dy[i];
      sum += dy[i] * gain[i];
      dot += dy[i] * gain[i] * normal;
    }
    sum /= (float)width;
    dot /= (float)width;
#pragma omp simd
    for (size_t i = 0; i < width; i++)
      dx[i] += scale * (dy[i] * gain[i] - sum - (x[i] - mean) * scale * dot);
  }
}

#define GELU_SLOPE 1.5957691216f /* 2 sqrt(2 / pi) */
#define GELU_CUBIC 0.044715f

void gelu_forward(float *y, const float *x, size_t count) {
#pragma omp simd
  for (size_t i = 0; i < count; i++)
    y[i] = x[i] / (1.0f + fast_exp(-GELU_SLOPE * (x[i] + GELU_CUBIC * x[i] * x[i] * x[i])));
}

void gelu_backward(float *dx, const float *x, size_t count) {
#pragma omp simd
  for (size_t i = 0; i < count; i++) {
    float square = x[i] * x[i];
    float sigmoid = 1.0f / (1.0f + fast_exp(-GELU_SLOPE * x[i] * (1.0f + GELU_CUBIC * square)));
    float slope = GELU_SLOPE * (1.0f + 3.0f * GELU_CUBIC * square);
    dx[i] *= sigmoid * (1.0f + x[i] * (1.0f - sigmoid) * slope);
  }
}

/* Lane by lane: compilers may not reorder a plain maximum because of NaN. Ignores NaN, except in the first element. */
static float maximum(const float *values, size_t count) {
  float lanes[16];
  for (size_t k = 0; k < 16; k++)
    lanes[k] = values[0];
  size_t i = 0;
  for (; i + 16 <= count; i += 16)
#pragma omp simd
    for (size_t k = 0; k < 16; k++)
      lanes[k] = values[i + k] > lanes[k] ? values[i + k] : lanes[k];
  for (; i < count; i++)
    lanes[0] = values[i] > lanes[0] ? values[i] : lanes[0];
  for (size_t k = 1; k < 16; k++)
    lanes[0] = lanes[k] > lanes[0] ? lanes[k] : lanes[0];
  return lanes[0];
}

/* Softmax of the first `used` of `count` values in place; the others become zero. Returns the logarithm of the sum of
 * exponentials. A NaN anywhere makes the row NaN. */
static float softmax(float *values, size_t used, size_t count) {
  float largest = maximum(values, used), sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < used; i++) {
    values[i] = fast_exp(values[i] - largest);
    sum += values[i];
  }
  float scale = 1.0f / sum;
#pragma omp simd
  for (size_t i = 0; i < used; i++)
    values[i] *= scale;
  memset(values + used, 0, (count - used) * sizeof *values);
  return largest + logf(sum);
}

void attention_forward(const struct attention *a, float *y, float *probs, const float *qkv) {
  size_t hidden = a->heads * a->width;
  int t = (int)a->context, d = (int)a->width, h = (int)hidden;
  float scale = 1.0f / sqrtf((float)a->width);
  for (size_t i = 0; i < a->batch * a->heads; i++) {
    size_t sequence = i / a->heads, column = i % a->heads * a->width;
    const float *query = qkv + sequence * a->context * 3 * hidden + column;
    const float *key = query + hidden, *value = key + hidden;
    float *p = probs + i * a->context * a->context, *out = y + sequence * a->context * hidden + column;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t, t, d, scale, query, 3 * h, key, 3 * h, 0.0f, p, t);
    for (size_t row = 0; row < a->context; row++)
      softmax(p + row * a->context, row + 1, a->context);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t, d, t, 1.0f, p, t, value, 3 * h, 0.0f, out, h);
  }
}

/* Turns gradients of probabilities, in place, into gradients of the scores that softmax got. */
static void softmax_backward(float *d, const float *probs, size_t count) {
  float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
  for (size_t i = 0; i < count; i++)
    dot += d[i] * probs[i];
#pragma omp simd
  for (size_t i = 0; i < count; i++)
    d[i] = probs[i] * (d[i] - dot);
}

void attention_backward(const struct attention *a, float *dqkv, const float *dy, const float *probs, const float *qkv,
                        float *scratch) {
  size_t hidden = a->heads * a->width;
  int t = (int)a->context, d = (int)a->width, h = (int)hidden;
  float scale = 1.0f / sqrtf((float)a->width);
  for (size_t i = 0; i < a->batch * a->heads; i++) {
    size_t sequence = i / a->heads, column = i % a->heads * a->width;
    size_t at = sequence * a->context * 3 * hidden + column;
    const float *query = qkv + at, *key = query + hidden, *value = key + hidden;
    const float *p = probs + i * a->context * a->context, *dout = dy + sequence * a->context * hidden + column;
    float *dquery = dqkv + at, *dkey = dquery + hidden, *dvalue = dkey + hidden;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, t, d, t, 1.0f, p, t, dout, h, 0.0f, dvalue, 3 * h);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t, t, d, 1.0f, dout, h, value, 3 * h, 0.0f, scratch, t);
    for (size_t row = 0; row < a->context; row++)
      softmax_backward(scratch + row * a->context, p + row * a->context, a->context);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t, d, t, scale, scratch, t, key, 3 * h, 0.0f, dquery, 3 * h);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, t, d, t, scale, scratch, t, query, 3 * h, 0.0f, dkey, 3 * h);
  }
}

double cross_entropy(float *logits, const uint16_t *targets, size_t rows, size_t classes, float grad_scale) {
  double loss = 0.0;
  for (size_t row = 0; row < rows; row++, logits += classes) {
    float target = logits[targets[row]];
    loss += (double)(softmax(logits, classes, classes) - target);
    logits[targets[row]] -= 1.0f;
#pragma omp simd
    for (size_t i = 0; i < classes; i++)
      logits[i] *= grad_scale;
  }
  return loss;
}
