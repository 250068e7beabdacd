/* SPDX-License-Identifier: BSD-3-Clause
 * Trains a small GPT the way FSDP does: each rank owns a shard of every unit's parameters, gathers a unit just
 * before its forward and its backward pass, and reduce-scatters its gradient just after; or, with --parallel ddp, the
 * way DDP does: each rank owns all parameters, which the first one broadcasts, and gradients are all-reduced in
 * buckets. An ordinary NCCL program in C.
 *
 * A step of L blocks calls NCCL for 2L+4 all-gathers and L+2 reduce-scatters (with --unit half for 4L+4 and 2L+2), or
 * for one all-reduce per bucket. One all-reduce of two floats carries the loss and the squared norm of the gradient.
 * The sequence is the same in every step. All results depend only on the options and the number of ranks: equal runs
 * give equal bits.
 */
#include <errno.h>
#include <math.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/gpt/adamw.h"
#include "examples/gpt/checkpoint.h"
#include "examples/gpt/fail.h"
#include "examples/gpt/gradients.h"
#include "examples/gpt/model.h"
#include "examples/gpt/options.h"
#include "examples/gpt/parallel.h"
#include "examples/gpt/steps.h"
#include "examples/gpt/text.h"
#include "examples/gpt/vocabulary.h"
#include "examples/rendezvous.h"

/* OpenBLAS has it; another BLAS may have its own way to set the threads. */
void openblas_set_num_threads(int threads) __attribute__((weak));

struct trainer {
  struct options options;
  struct rendezvous world;
  struct text text;
  struct gpt_model *model;
  struct parallel *parallel;
  struct adamw *adamw;
  uint16_t *inputs, *targets; /* batch x context */
  size_t skipped;             /* steps */
};

static ncclComm_t connect_ranks(const struct rendezvous *world) {
  char why[256];
  ncclUniqueId id = {{0}};
  ncclComm_t comm;
  ncclResult_t result = world->rank == 0 ? ncclGetUniqueId(&id) : ncclSuccess;
  if (result != ncclSuccess)
    fail(1, "ncclGetUniqueId: %s", ncclGetErrorString(result));
  if (!rendezvous_share(world, &id, sizeof id, why, sizeof why))
    fail(1, "%s", why);
  result = ncclCommInitRank(&comm, world->nranks, id, world->rank);
  if (result != ncclSuccess)
    fail(1, "rank %d: ncclCommInitRank: %s", world->rank, ncclGetErrorString(result));
  return comm;
}

static void initialise_params(struct trainer *t) {
  for (size_t unit = 0; unit < t->model->nunits; unit++) {
    const struct parallel_unit *u = &t->parallel->units[unit];
    for (size_t i = 0; i < u->owned && u->first + i < t->model->units[unit].count; i++)
      u->params[i] = gpt_initial_value(&t->model->units[unit], unit, u->first + i, t->options.seed);
  }
}

static size_t vocabulary_size(const struct options *o) { return o->vocabulary ? o->vocabulary : VOCABULARY_BYTES; }

static void trainer_create(struct trainer *t) {
  const struct options *o = &t->options;
  struct gpt_shape shape = {.layers = o->layers,
                            .hidden = o->hidden,
                            .heads = o->heads,
                            .context = o->context,
                            .vocabulary = vocabulary_size(o),
                            .batch = o->batch,
                            .halves = o->unit == UNIT_HALF};
  t->text = text_read(o->text, o->ntext, shape.vocabulary, o->context);
  t->model = gpt_create(&shape);
  t->inputs = malloc(o->batch * o->context * sizeof *t->inputs);
  t->targets = malloc(o->batch * o->context * sizeof *t->targets);
  if (!t->model || !t->inputs || !t->targets)
    fail(1, "no memory for a model of --layers %zu --hidden %zu --context %zu --batch %zu", o->layers, o->hidden,
         o->context, o->batch);
  gpt_set_batch(t->model, t->inputs, t->targets);
  struct parallel_options parallel = {.kind = (enum parallel_kind)o->parallel,
                                      .accumulates = o->accumulate > 1,
                                      .allgather_in_place = o->allgather_in_place,
                                      .gather_bf16 = o->allgather_type == ALLGATHER_BF16,
                                      .reduce_bf16 = o->gradient_type == GRADIENT_BF16,
                                      .bucket_bytes = (size_t)((double)o->bucket_mb * 1048576.0)};
  t->parallel = parallel_create(&parallel, t->model->units, t->model->nunits, connect_ranks(&t->world), t->world.rank,
                                t->world.nranks);
  t->adamw = adamw_create(t->parallel, o->weight_decay);
  initialise_params(t);
  parallel_share_params(t->parallel);
}

static void trainer_destroy(struct trainer *t) {
  ncclCommDestroy(t->parallel->comm);
  adamw_destroy(t->adamw, t->parallel);
  parallel_destroy(t->parallel);
  gpt_destroy(t->model);
  text_free(&t->text);
  free(t->inputs);
  free(t->targets);
  free(t->options.text);
}

/* Puts a sequence of context + 1 tokens into the batch: each token predicts the next. */
static void place_sequence(struct trainer *t, size_t i, const uint16_t *sequence) {
  size_t context = t->options.context;
  memcpy(t->inputs + i * context, sequence, context * sizeof *sequence);
  memcpy(t->targets + i * context, sequence + 1, context * sizeof *sequence);
}

/* Forward over all units; returns the sum of the loss over the first `counted` sequences. */
static double forward(struct trainer *t, size_t counted, float grad_scale) {
  for (size_t unit = 0; unit < t->model->nunits; unit++)
    gpt_forward(t->model, unit, parallel_params(t->parallel, unit), counted, grad_scale);
  return t->model->loss;
}

/* Makes all passes of a step. Leaves the averaged gradient of the elements that this rank owns; returns this rank's
 * mean loss. */
static double accumulate_gradients(struct trainer *t, size_t step) {
  const struct options *o = &t->options;
  size_t tokens = o->batch * o->context * o->accumulate, ranks = (size_t)t->world.nranks;
  double loss = 0.0;
  for (size_t pass = 0; pass < o->accumulate; pass++) {
    uint64_t first = ((step * o->accumulate + pass) * ranks + (size_t)t->world.rank) * o->batch;
    for (size_t i = 0; i < o->batch; i++)
      place_sequence(t, i, text_training_sequence(&t->text, o->seed, first + i, o->context));
    loss += forward(t, o->batch, 1.0f / (float)tokens) / (double)tokens;
    for (size_t unit = t->model->nunits; unit-- > 0;) {
      const float *params = parallel_params(t->parallel, unit);
      gpt_backward(t->model, unit, params, parallel_full_grads(t->parallel, unit, pass == 0));
      if (pass == o->accumulate - 1)
        parallel_reduce(t->parallel, unit);
    }
  }
  return loss;
}

static double squared_norm(const float *values, size_t count) {
  float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
  for (size_t i = 0; i < count; i++)
    sum += values[i] * values[i];
  return (double)sum;
}

/* Makes one optimiser step; sets the loss averaged over the ranks, and the norm. Skips a non-finite gradient. */
static void train_step(struct trainer *t, size_t step, struct step *told) {
  const struct options *o = &t->options;
  double loss = accumulate_gradients(t, step), squares = 0.0;
  for (size_t unit = 0; unit < t->parallel->nunits; unit++)
    squares += squared_norm(t->parallel->units[unit].grads, t->parallel->units[unit].owned);
  float shared[2] = {(float)(loss / (double)t->world.nranks), (float)(squares / parallel_owners(t->parallel))};
  parallel_sum(t->parallel, shared, 2);
  float norm = sqrtf(shared[1]);
  if (isfinite(norm)) {
    float scale = o->clip > 0.0f && norm > o->clip ? o->clip / norm : 1.0f;
    float rate = adamw_rate(o->lr, o->lr_left, step, o->warmup_steps, o->steps);
    adamw_update(t->adamw, t->parallel, t->model->units, rate, scale);
  } else {
    t->skipped++;
  }
  told->loss = (double)shared[0];
  told->gradient_norm = (double)norm;
}

/* Mean loss over the held-out sequences. Every rank makes the same number of passes. The last one may be filled up with
 * a sequence that does not count. */
static double validate(struct trainer *t) {
  const struct options *o = &t->options;
  size_t count = text_validation_count(&t->text, o->context, o->eval_sequences), ranks = (size_t)t->world.nranks;
  double loss = 0.0;
  for (size_t first = 0; first < count; first += ranks * o->batch) {
    size_t mine = first + (size_t)t->world.rank * o->batch;
    size_t counted = mine >= count ? 0 : count - mine < o->batch ? count - mine : o->batch;
    for (size_t i = 0; i < o->batch; i++)
      place_sequence(t, i, text_validation_sequence(&t->text, i < counted ? mine + i : 0, count, o->context));
    loss += forward(t, counted, 0.0f);
  }
  float shared = (float)(loss / (double)(count * o->context));
  parallel_sum(t->parallel, &shared, 1);
  return (double)shared;
}

/* Makes steps that leave no trace: what NCCL or a library in front of it learns from a program's first steps, it knows
 * when the training begins. */
static void rehearse(struct trainer *t) {
  struct step ignored;
  for (size_t i = 0; i < t->options.rehearsal; i++)
    train_step(t, i, &ignored);
  adamw_destroy(t->adamw, t->parallel);
  t->adamw = adamw_create(t->parallel, t->options.weight_decay);
  initialise_params(t);
  t->skipped = 0;
}

/* All that a later process needs. The times of the steps are among it: the summary is of the whole training. */
static struct checkpoint checkpoint_create(struct trainer *t, struct step *steps) {
  const struct parallel *p = t->parallel;
  size_t nparts = 0;
  struct checkpoint_part *parts = calloc(3 * p->nunits + 3, sizeof *parts);
  if (!parts)
    fail(1, "no memory");
  for (size_t i = 0; i < p->nunits; i++) {
    size_t bytes = p->units[i].owned * sizeof(float);
    parts[nparts++] = (struct checkpoint_part){p->units[i].params, bytes};
    parts[nparts++] = (struct checkpoint_part){t->adamw->first[i], bytes};
    parts[nparts++] = (struct checkpoint_part){t->adamw->second[i], bytes};
  }
  parts[nparts++] = (struct checkpoint_part){&t->adamw->updates, sizeof t->adamw->updates};
  parts[nparts++] = (struct checkpoint_part){&t->skipped, sizeof t->skipped};
  parts[nparts++] = (struct checkpoint_part){steps, t->options.steps * sizeof *steps};
  return (struct checkpoint){
    .options = &t->options, .parallel = t->parallel, .tokens = t->text.count, .nparts = nparts, .parts = parts};
}

static void train(struct trainer *t, struct step *steps) {
  const struct options *o = &t->options;
  const struct parallel *p = t->parallel;
  rehearse(t);
  struct checkpoint checkpoint = checkpoint_create(t, steps);
  size_t first = o->checkpoint ? checkpoint_read(&checkpoint) : 0, printed = first;
  if (first && t->world.rank == 0) {
    printf("step %zu/%zu  resumed\n", first, o->steps);
    fflush(stdout);
  }
  for (size_t i = first; i < o->steps; i++) {
    struct step before = {.total_s = parallel_clock(),
                          .all_gather_s = p->all_gather_s,
                          .reduce_scatter_s = p->reduce_scatter_s,
                          .all_reduce_s = p->all_reduce_s,
                          .other_s = p->other_s};
    train_step(t, i, &steps[i]);
    steps[i].total_s = parallel_clock() - before.total_s;
    steps[i].all_gather_s = p->all_gather_s - before.all_gather_s;
    steps[i].reduce_scatter_s = p->reduce_scatter_s - before.reduce_scatter_s;
    steps[i].all_reduce_s = p->all_reduce_s - before.all_reduce_s;
    steps[i].other_s = p->other_s - before.other_s;
    if (o->print_every && t->world.rank == 0 && ((i + 1) % o->print_every == 0 || i == 0 || i + 1 == o->steps)) {
      steps_print_progress(steps, printed, i + 1, o->steps);
      printed = i + 1;
    }
    if (o->eval_every && (i + 1) % o->eval_every == 0 && i + 1 < o->steps) {
      double validation = validate(t);
      if (t->world.rank == 0) {
        printf("step %zu/%zu  validation loss %.6f\n", i + 1, o->steps, validation);
        fflush(stdout);
      }
    }
    if (o->checkpoint && (i + 1) % o->checkpoint_every == 0)
      checkpoint_write(&checkpoint, i + 1);
  }
  free((void *)checkpoint.parts);
}

/* Every rank gathers; rank 0 writes. */
static void dump_params(struct trainer *t, const char *path) {
  FILE *file = t->world.rank == 0 ? fopen(path, "wb") : NULL;
  if (t->world.rank == 0 && !file)
    fail(1, "cannot write %s: %s", path, strerror(errno));
  for (size_t unit = 0; unit < t->model->nunits; unit++) {
    const float *params = parallel_params(t->parallel, unit);
    if (file)
      fwrite(params, sizeof *params, t->model->units[unit].count, file);
  }
  if (file && !close_written(file))
    fail(1, "cannot write %s: %s", path, strerror(errno));
}

static void finish(struct trainer *t, const struct step *steps) {
  const struct options *o = &t->options;
  struct summary summary = {.steps = o->steps,
                            .skip_timing = o->skip_timing,
                            .skipped = t->skipped,
                            .ranks = (size_t)t->world.nranks,
                            .loss_val = validate(t)};
  for (size_t unit = 0; unit < t->model->nunits; unit++)
    summary.params += t->model->units[unit].count;
  parallel_check_replicas(t->parallel);
  if (o->dump_params)
    dump_params(t, o->dump_params);
  if (t->world.rank != 0)
    return;
  if (o->times)
    steps_write(steps, o->steps, o->times);
  steps_print_summary(steps, &summary);
}

int main(int argc, char **argv) {
  char why[256];
  struct trainer t = {.options = options_parse(argc, argv)};
  if (openblas_set_num_threads)
    openblas_set_num_threads((int)t.options.threads);
  if (t.options.check_gradients) {
    bool good = gradients_check(t.options.seed, vocabulary_size(&t.options), t.options.unit == UNIT_HALF);
    free(t.options.text);
    check_output();
    return good ? 0 : 1;
  }
  if (!rendezvous_from_env(&t.world, why, sizeof why))
    fail(2, "%s", why);
  trainer_create(&t);
  struct step *steps = calloc(t.options.steps, sizeof *steps);
  if (!steps)
    fail(1, "no memory for %zu steps", t.options.steps);
  train(&t, steps);
  finish(&t, steps);
  free(steps);
  trainer_destroy(&t);
  check_output();
  return 0;
}
