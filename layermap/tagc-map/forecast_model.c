/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map forecast: activations, and sums within one copy of the model. Recorded steps of both frameworks hold these
 * counts (tests/fixtures/parallel).
 *
 *   Megatron  megatron/core/tensor_parallel/layers.py, LinearWithGradAccumulationAndAsyncCommunication,
 *             RowParallelLinear.forward(), VocabParallelEmbedding.forward(): sums behind attention and MLP and behind
 * the embedding, and of the gradients of the inputs of attention, MLP and head. With sequence parallelism each sum is a
 * reduce-scatter, the inputs are gathered, and gathered again for the gradients of the weights. cross_entropy.py,
 * VocabParallelCrossEntropy.forward(): a maximum and two sums over the vocabulary.
 *             core/distributed/finalize_model_grads.py, _allreduce_non_tensor_model_parallel_grads() (whatever is not
 *             cut, with sequence parallelism), _allreduce_word_embedding_grads() (a tied embedding).
 *             core/pipeline_parallel/schedules.py, forward_backward_pipelining_without_interleaving()
 *   PyTorch   torch/distributed/tensor/parallel/style.py (ColwiseParallel, RowwiseParallel, SequenceParallel) and
 *             loss.py (loss_parallel), with the plan of torchtitan, models/llama3/infra/parallelize.py: always sequence
 *             parallel; inputs are kept, not gathered again. FSDP sums the gradients of norms before it reduces them
 *             (_fsdp_param.py, unsharded_accumulated_grad_data, to_accumulated_grad_if_needed()).
 * torch/distributed/pipelining/schedules.py, Schedule1F1B
 *
 * Schedules are 1F1B, without interleaving; another order of the same micro-batches has the same messages.
 */
#include "layermap/tagc-map/forecast.h"

static uint64_t activation_count(const struct tagc_forecast_work *w, bool cut) {
  const uint64_t all = (uint64_t)w->job->micro_batch * w->job->sequence * w->hidden;
  return cut ? all / (uint64_t)w->job->tp : all;
}

static bool is_sequence_parallel(const struct tagc_forecast_job *job) {
  return job->tp > 1 && (job->base == TAGC_FORECAST_FSDP2 || tagc_forecast_has(job, TAGC_FORECAST_SP));
}

static void add_activations(struct tagc_forecast_work *w, enum tagc_forecast_function function, uint64_t times) {
  tagc_forecast_add(w, TAGC_FORECAST_TENSOR, function, TAGC_FORECAST_ACTIVATIONS, w->job->type,
                    activation_count(w, is_sequence_parallel(w->job)), times * (uint64_t)w->job->accumulate);
}

/* Elements of parameters that each rank of a tensor-parallel group holds whole, and their number. */
static uint64_t whole_parts(const struct tagc_forecast_work *w, uint64_t *number) {
  uint64_t elements = 0;
  *number = 0;
  for (size_t i = 0; i < w->part_count; i++)
    if (!w->parts[i].cut) {
      elements += w->parts[i].parameter.rows * w->parts[i].parameter.columns;
      ++*number;
    }
  return elements;
}

/* The sums of the gradients of whole parameters. Megatron flattens them. FSDP reduces each, in the type of parameters,
 * or in that of the reduction if micro-batches without a reduction added up before. */
static void add_whole_gradients(struct tagc_forecast_work *w) {
  uint64_t number;
  const uint64_t elements = whole_parts(w, &number);
  const bool every = tagc_forecast_has(w->job, TAGC_FORECAST_EVERY);
  const bool added_up = w->job->pp > 1 || (w->job->accumulate > 1 && !every);
  const uint64_t times = number * (every ? (uint64_t)w->job->accumulate : 1);
  if (w->job->base == TAGC_FORECAST_FSDP2)
    tagc_forecast_add(w, TAGC_FORECAST_TENSOR, TAGC_FORECAST_ALL_REDUCE, TAGC_FORECAST_GRADIENTS,
                      added_up ? w->job->gradients : w->job->type, w->hidden, times);
  else
    tagc_forecast_add(w, TAGC_FORECAST_TENSOR, TAGC_FORECAST_ALL_REDUCE, TAGC_FORECAST_GRADIENTS, w->job->gradients,
                      elements, 1);
}

static void tensor_parallel(struct tagc_forecast_work *w) {
  const uint64_t blocks = (uint64_t)w->blocks, first = tagc_forecast_is_first(w), last = tagc_forecast_is_last(w);
  const uint64_t again = w->job->base == TAGC_FORECAST_MEGATRON;
  if (is_sequence_parallel(w->job)) {
    add_activations(w, TAGC_FORECAST_REDUCE_SCATTER, 4 * blocks + first + last);
    add_activations(w, TAGC_FORECAST_ALL_GATHER, (4 + 2 * again) * blocks + first + (1 + again) * last);
    add_whole_gradients(w);
  } else {
    add_activations(w, TAGC_FORECAST_ALL_REDUCE, 4 * blocks + first + last);
  }
  tagc_forecast_add(w, TAGC_FORECAST_TENSOR, TAGC_FORECAST_ALL_REDUCE, TAGC_FORECAST_LOSS, TAGC_FLOAT32,
                    (uint64_t)w->job->micro_batch * w->job->sequence, 3 * last * (uint64_t)w->job->accumulate);
}

static void pipeline(struct tagc_forecast_work *w) {
  const uint64_t count = activation_count(w, is_sequence_parallel(w->job)), times = (uint64_t)w->job->accumulate;
  for (int on = 0; on < 2; on++) {
    if (on ? tagc_forecast_is_last(w) : tagc_forecast_is_first(w))
      continue;
    tagc_forecast_add_message(w, TAGC_FORECAST_SEND, on, count, times);
    tagc_forecast_add_message(w, TAGC_FORECAST_RECV, on, count, times);
  }
}

/* The gradient of a tied embedding, and the norm of all gradients; with the distributed optimizer all ranks have
 * another part of these (optimizer.py, get_grad_stats_parallel_group()). */
static void megatron_sums(struct tagc_forecast_work *w) {
  const bool apart = tagc_forecast_has(w->job, TAGC_FORECAST_OPTIMIZER);
  if (w->shared && (tagc_forecast_is_first(w) || tagc_forecast_is_last(w)))
    tagc_forecast_add(w, TAGC_FORECAST_EMBEDDING, TAGC_FORECAST_ALL_REDUCE, TAGC_FORECAST_GRADIENTS, w->job->gradients,
                      w->shared, 1);
  tagc_forecast_add(w, apart ? TAGC_FORECAST_WORLD : TAGC_FORECAST_MODEL, TAGC_FORECAST_ALL_REDUCE, TAGC_FORECAST_NORM,
                    TAGC_FLOAT32, 1, 1);
}

void tagc_forecast_model(struct tagc_forecast_work *w) {
  if (w->job->tp > 1)
    tensor_parallel(w);
  if (w->job->pp > 1)
    pipeline(w);
  if (w->job->base == TAGC_FORECAST_MEGATRON)
    megatron_sums(w);
}
