/* SPDX-License-Identifier: BSD-3-Clause
 * Forecasts what a codec takes from a training, in one run: examples/fidelity needs ten of them for a codec.
 *
 *   progress TEXT STEPS SEED CODEC...    codecs of TAGC_CODEC without options; CODEC+fp32: with a residual
 *
 * The model, the batches and the optimiser are those of examples/fidelity, in one process. The exact gradient moves the
 * parameters. Beside it each codec carries the same gradients to an Adam of its own, whose step moves nothing. The
 * progress of a step is its product with the gradient of a batch that no rank has seen: how far the loss falls, to
 * first order. All steps are multiplied with the same gradients, so the noise of batches cancels in the ratio.
 *
 * Without a residual the loss changes by 0.10 to 0.26% for each percent of progress. A residual delivers later, so the
 * forecast is too dark then: compare such codecs only with one another.
 *
 * Prints the share of the progress in each unit, then a line a codec: the relative error of the average, and the change
 * of the progress in %, of all units and of each (embedding, blocks, head). Steps before FROM do not count: Adam
 * begins.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/fail.h"
#include "examples/gpt/model.h"
#include "examples/gpt/text.h"
#include "tests/unit/codec/sim.h"

enum {
  RANKS = 2,
  UNSEEN = RANKS,
  BATCH = 32,
  CONTEXT = 32,
  LAYERS = 2,
  UNITS = LAYERS + 2,
  FROM = 20,
  MOST_CODECS = 16
};

/* Far from the numbers of all training sequences. */
static const uint64_t first_unseen = 1u << 30;

/* One codec with its optimiser. */
struct shadow {
  const char *name;
  struct sim sim[UNITS];
  float *first[UNITS], *second[UNITS], *step[UNITS];
  double progress[UNITS], error2, exact2;
};

struct forecast {
  struct text text;
  uint64_t seed;
  struct gpt_model *model;
  uint16_t inputs[BATCH * CONTEXT], targets[BATCH * CONTEXT];
  float *params[UNITS], *grads[UNITS][RANKS + 1];
  struct shadow shadow[MOST_CODECS + 1]; /* the first one is exact, and moves the parameters */
  int shadows;
};

static size_t shard_of(const struct forecast *f, int unit) { return (f->model->units[unit].count + RANKS - 1) / RANKS; }

static float *zeros(size_t count) {
  float *memory = calloc(count, sizeof *memory);
  if (!memory)
    fail(1, "no memory for %zu numbers", count);
  return memory;
}

static void add_shadow(struct forecast *f, char *name) {
  struct shadow *s = &f->shadow[f->shadows++];
  *s = (struct shadow){.name = strdup(name)};
  char *plus = strchr(name, '+');
  if (plus && strcmp(plus, "+fp32") != 0)
    fail(2, "'%s': behind a codec may be +fp32", name);
  if (plus)
    *plus = 0;
  const struct tagc_codec *codec = tagc_codec_find(name);
  if (!codec || (codec->needs_residual && !plus))
    fail(2, "'%s' is no codec, or needs a residual: %s+fp32", name, name);
  for (int unit = 0; unit < UNITS; unit++) {
    const size_t n = shard_of(f, unit);
    s->sim[unit] = sim_new_stored(name, n, RANKS, TAGC_FLOAT32, 200000, plus ? TAGC_STORAGE_FP32 : TAGC_STORAGE_NONE);
    for (int rank = 0; rank < RANKS; rank++)
      s->sim[unit].job[rank].divisor = RANKS;
    s->first[unit] = zeros(n * RANKS);
    s->second[unit] = zeros(n * RANKS);
    s->step[unit] = zeros(n * RANKS);
  }
}

/* The gradient of one batch; `number`: of its first sequence. */
static void find_gradient(struct forecast *f, int which, uint64_t number) {
  for (size_t i = 0; i < BATCH; i++) {
    const uint16_t *sequence = text_training_sequence(&f->text, f->seed, number + i, CONTEXT);
    memcpy(f->inputs + i * CONTEXT, sequence, CONTEXT * sizeof *sequence);
    memcpy(f->targets + i * CONTEXT, sequence + 1, CONTEXT * sizeof *sequence);
  }
  for (size_t unit = 0; unit < UNITS; unit++)
    gpt_forward(f->model, unit, f->params[unit], BATCH, 1.0f / (BATCH * CONTEXT));
  for (size_t unit = UNITS; unit-- > 0;) {
    memset(f->grads[unit][which], 0, shard_of(f, (int)unit) * RANKS * sizeof(float));
    gpt_backward(f->model, unit, f->params[unit], f->grads[unit][which]);
  }
}

/* Reduces a unit's gradient with the codec, and makes the step of Adam (rate 1) from it. */
static void step_shadow(struct forecast *f, struct shadow *s, int unit, size_t step, float clip) {
  struct sim *sim = &s->sim[unit];
  const size_t n = shard_of(f, unit);
  const float *const *grads = (const float *const *)f->grads[unit];
  const float correct1 = (float)(1 / (1 - pow(0.9, (double)step + 1)));
  const float correct2 = (float)(1 / (1 - pow(0.95, (double)step + 1)));
  for (int rank = 0; rank < RANKS; rank++)
    memcpy((void *)(uintptr_t)sim->job[rank].send, grads[rank], n * RANKS * sizeof(float));
  sim_step(sim, tagc_mix64(f->seed + step) + (uint64_t)unit);
  for (size_t i = 0; i < n * RANKS; i++) {
    const float exact = (grads[0][i] + grads[1][i]) / RANKS, sent = sim_got(sim, (int)(i / n), i % n), g = clip * sent;
    s->error2 += (double)((sent - exact) * (sent - exact));
    s->exact2 += (double)(exact * exact);
    s->first[unit][i] += 0.1f * (g - s->first[unit][i]);
    s->second[unit][i] += 0.05f * (g * g - s->second[unit][i]);
    s->step[unit][i] = s->first[unit][i] * correct1 / (sqrtf(s->second[unit][i] * correct2) + 1e-8f);
    if (step >= FROM)
      s->progress[unit] += (double)(s->step[unit][i] * f->grads[unit][UNSEEN][i]);
  }
}

/* What the trainer multiplies gradients with, so that their norm is at most 1. */
static float clip_of(const struct forecast *f) {
  double squares = 0;
  for (int unit = 0; unit < UNITS; unit++)
    for (size_t i = 0; i < shard_of(f, unit) * RANKS; i++) {
      const double g = (double)(f->grads[unit][0][i] + f->grads[unit][1][i]) / RANKS;
      squares += g * g;
    }
  return squares > 1 ? (float)(1 / sqrt(squares)) : 1;
}

static void move_params(struct forecast *f, int unit, float rate) {
  const struct gpt_unit *u = &f->model->units[unit];
  for (size_t k = 0; k < u->ntensors; k++)
    for (size_t i = u->tensors[k].offset; i < u->tensors[k].offset + u->tensors[k].count; i++) {
      const float decay = u->tensors[k].decays ? 0.1f * f->params[unit][i] : 0;
      f->params[unit][i] -= rate * (f->shadow[0].step[unit][i] + decay);
    }
}

/* The first steps of 400. */
static float rate_of(size_t step) {
  const double progress = step < 10 ? 0 : (double)(step - 10) / 389;
  return 3e-3f * (step < 10 ? (float)(step + 1) / 10 : (float)(0.5 * (1 + cos(3.14159265358979323846 * progress))));
}

static void run_step(struct forecast *f, size_t step) {
  for (int rank = 0; rank < RANKS; rank++)
    find_gradient(f, rank, (step * RANKS + (size_t)rank) * BATCH);
  find_gradient(f, UNSEEN, first_unseen + step * BATCH);
  const float clip = clip_of(f);
  for (int unit = 0; unit < UNITS; unit++) {
    for (int s = 0; s < f->shadows; s++)
      step_shadow(f, &f->shadow[s], unit, step, clip);
    move_params(f, unit, rate_of(step));
  }
}

static void create(struct forecast *f, const char *path) {
  const struct gpt_shape shape = {
    .layers = LAYERS, .hidden = 128, .heads = 4, .context = CONTEXT, .vocabulary = 256, .batch = BATCH};
  f->text = text_read(&path, 1, shape.vocabulary, CONTEXT);
  f->model = gpt_create(&shape);
  if (!f->model)
    fail(1, "no memory for the model");
  gpt_set_batch(f->model, f->inputs, f->targets);
  for (int unit = 0; unit < UNITS; unit++) {
    const size_t all = shard_of(f, unit) * RANKS;
    f->params[unit] = zeros(all);
    for (int which = 0; which <= UNSEEN; which++)
      f->grads[unit][which] = zeros(all);
    for (size_t i = 0; i < f->model->units[unit].count; i++)
      f->params[unit][i] = gpt_initial_value(&f->model->units[unit], (size_t)unit, i, f->seed);
  }
}

static double total(const double values[UNITS]) {
  double sum = 0;
  for (int unit = 0; unit < UNITS; unit++)
    sum += values[unit];
  return sum;
}

static void print_forecast(const struct forecast *f) {
  const double *exact = f->shadow[0].progress;
  printf("share of the progress            ");
  for (int unit = 0; unit < UNITS; unit++)
    printf(" %7.3f", exact[unit] / total(exact));
  printf("\ncodec           error   progress, %%: all and by unit\n");
  for (int i = 1; i < f->shadows; i++) {
    const struct shadow *s = &f->shadow[i];
    printf("%-13s %7.4f %+11.2f", s->name, sqrt(s->error2 / s->exact2), 100 * (total(s->progress) / total(exact) - 1));
    for (int unit = 0; unit < UNITS; unit++)
      printf(" %+7.2f", 100 * (s->progress[unit] / exact[unit] - 1));
    printf("\n");
  }
}

int main(int argc, char **argv) {
  static struct forecast f;
  char exact[] = "none";
  const long steps = argc > 4 ? atol(argv[2]) : 0;
  if (argc < 5 || argc - 4 > MOST_CODECS || steps <= FROM || steps > 400)
    fail(2, "usage: progress TEXT STEPS SEED CODEC...  (%d to 400 steps, at most %d codecs)", FROM + 1, MOST_CODECS);
  f.seed = strtoull(argv[3], NULL, 10);
  create(&f, argv[1]);
  add_shadow(&f, exact);
  for (int i = 4; i < argc; i++)
    add_shadow(&f, argv[i]);
  for (size_t step = 0; step < (size_t)steps; step++)
    run_step(&f, step);
  print_forecast(&f);
  return 0;
}
