/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map forecast: gradients and parameters. Counts are those of tests/fixtures, call by call, except where a comment
 * says that nobody recorded them.
 *
 *   ddp       PyTorch, torch/csrc/distributed/c10d/reducer.cpp, compute_bucket_assignment_by_size() and
 *             Reducer::rebuild_buckets(): buckets in the order of gradients: the reverse of the forward pass, of its
 *             parameters; a bucket ends with the parameter that fills it. torch/nn/parallel/distributed.py,
 *             _ddp_init_helper(): the first one is filled by 1 MiB, unless the program sets bucket_cap_mb
 *   fsdp1     torch/distributed/fsdp/_runtime_utils.py, _pre_forward_unshard(), _pre_backward_hook(),
 *             _post_backward_hook(); original parameters are kept (use_orig_params, as accelerate has it)
 *   fsdp2     torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, FSDPParamGroup.pre_forward(), pre_backward(),
 *             post_backward(); with pp, torch/distributed/pipelining/stage.py, backward_maybe_with_nosync(): parameters
 *             stay until the last micro-batch
 *   zero1, 2  DeepSpeed, deepspeed/runtime/zero/stage_1_and_2.py, reduce_independent_p_g_buckets_and_remove_grads(),
 *             average_tensor(), allreduce_and_scatter(), and all_gather_dp_groups() of runtime/utils.py; one group
 *             of parameters, padded to twice the ranks (nccl_start_alignment_factor)
 *   zero3     deepspeed/runtime/zero/stage3.py, reduce_independent_p_g_buckets_and_remove_grads(), and
 *             deepspeed/runtime/comm/coalesced_collectives.py, reduce_scatter_coalesced(): as zero2, each parameter
 *             padded to the ranks. partitioned_param_coordinator.py, fetch_sub_module(): parameters stay from the
 *             forward to the backward pass if they are used again within 1e9 elements (max_reuse_distance), so those
 *             of a model of up to 5e8 are gathered once in a micro-batch; in how many calls depends on prefetching.
 *             Those of up to 100,000 elements (param_persistence_threshold) are gathered one by one behind the step
 *   megatron  megatron/core/distributed/param_and_grad_buffer.py, _ParamAndGradBuffer.__init__() and
 *             start_grad_sync(); distributed_data_parallel.py has the size of buckets
 */
#include <stdlib.h>

#include "layermap/tagc-map/forecast.h"

static const uint64_t PERSISTENT = 100000; /* zero3: elements */

static uint64_t part_elements(const struct tagc_forecast_part *part) {
  return part->parameter.rows * part->parameter.columns;
}

static uint64_t up_to(uint64_t number, uint64_t multiple) { return (number + multiple - 1) / multiple * multiple; }

static uint64_t rounds(const struct tagc_forecast_work *w) {
  return tagc_forecast_has(w->job, TAGC_FORECAST_EVERY) ? (uint64_t)w->job->accumulate : 1;
}

static void add_data(struct tagc_forecast_work *w, enum tagc_forecast_function function,
                     enum tagc_forecast_content content, uint64_t count, uint64_t times) {
  const enum tagc_dtype type = content == TAGC_FORECAST_GRADIENTS ? w->job->gradients : w->job->type;
  tagc_forecast_add(w, TAGC_FORECAST_DATA, function, content, type, count, times);
}

static void add_norm_sum(struct tagc_forecast_work *w, enum tagc_forecast_group group) {
  tagc_forecast_add(w, group, TAGC_FORECAST_ALL_REDUCE, TAGC_FORECAST_NORM, TAGC_FLOAT32, 1, 1);
}

/* -- ddp ----------------------------------------------------------------------------------------------------------- */

static void ddp(struct tagc_forecast_work *w) {
  const uint64_t size = tagc_dtype_size(w->job->type);
  uint64_t held = 0, full = w->job->first_bucket;
  for (size_t i = w->part_count; i-- > 0;) {
    held += part_elements(&w->parts[i]);
    if (i && held * size < full)
      continue;
    add_data(w, TAGC_FORECAST_ALL_REDUCE, TAGC_FORECAST_GRADIENTS, held, rounds(w));
    full = w->job->bucket;
    held = 0;
  }
}

/* -- fsdp ---------------------------------------------------------------------------------------------------------- */

static uint64_t shard_of_unit(struct tagc_forecast_work *w, const struct tagc_forecast_unit *unit) {
  const int ranks = w->job->shards ? w->job->shards : tagc_forecast_replicas(w->job);
  const bool first = w->job->base == TAGC_FORECAST_FSDP1;
  struct tagc_member *members = calloc(unit->count, sizeof *members);
  uint64_t shard = UINT64_MAX;
  for (size_t i = 0; members && i < unit->count; i++)
    members[i].parameter = &w->parts[unit->first + i].parameter;
  if (members)
    shard = tagc_layout_shard(first ? TAGC_LAYOUT_FSDP1_ALIGNED : TAGC_LAYOUT_FSDP2, members, unit->count, ranks,
                              tagc_dtype_size(w->job->type));
  free(members);
  w->failed |= shard == UINT64_MAX;
  return shard;
}

/* A pipeline gathers for all its micro-batches at once. */
static void fsdp(struct tagc_forecast_work *w) {
  const uint64_t passes = w->job->pp > 1 ? 1 : (uint64_t)w->job->accumulate;
  for (size_t i = 0; i < w->unit_count; i++) {
    const uint64_t shard = shard_of_unit(w, &w->units[i]);
    add_data(w, TAGC_FORECAST_ALL_GATHER, TAGC_FORECAST_PARAMETERS, shard, passes * (w->units[i].twice ? 2 : 1));
    add_data(w, TAGC_FORECAST_REDUCE_SCATTER, TAGC_FORECAST_GRADIENTS, shard, rounds(w));
    tagc_forecast_add(w, TAGC_FORECAST_REPLICAS, TAGC_FORECAST_ALL_REDUCE, TAGC_FORECAST_GRADIENTS, w->job->gradients,
                      shard, rounds(w));
  }
}

/* -- zero ---------------------------------------------------------------------------------------------------------- */

static uint64_t zero_times(const struct tagc_forecast_work *w) {
  return w->job->base == TAGC_FORECAST_ZERO1 ? 1 : (uint64_t)w->job->accumulate;
}

/* The elements of a rank's partition. */
static uint64_t zero_partition(const struct tagc_forecast_work *w) {
  const uint64_t ranks = (uint64_t)tagc_forecast_replicas(w->job);
  return up_to(w->elements, 2 * ranks) / ranks;
}

/* ZeRO-1 and 2 reduce the gradient of a parameter that no bucket can hold by the slices of the partitions that it lies
 * in: several together, until they are larger than a bucket. */
static void zero_slices(struct tagc_forecast_work *w, const struct tagc_forecast_part *part) {
  const uint64_t partition = zero_partition(w), end = part->before + part_elements(part);
  uint64_t held = 0;
  for (uint64_t at = part->before; at < end;) {
    const uint64_t next = at / partition * partition + partition, stop = next < end ? next : end;
    held += stop - at;
    at = stop;
    if (held <= w->job->bucket && at < end)
      continue;
    add_data(w, TAGC_FORECAST_ALL_REDUCE, TAGC_FORECAST_GRADIENTS, held, zero_times(w));
    held = 0;
  }
}

static void zero_bucket(struct tagc_forecast_work *w, const struct tagc_forecast_part *last, uint64_t elements,
                        uint64_t held) {
  if (w->job->base == TAGC_FORECAST_ZERO3)
    add_data(w, TAGC_FORECAST_REDUCE_SCATTER, TAGC_FORECAST_GRADIENTS, held, zero_times(w));
  else if (elements > w->job->bucket)
    zero_slices(w, last);
  else
    add_data(w, TAGC_FORECAST_ALL_REDUCE, TAGC_FORECAST_GRADIENTS, held, zero_times(w));
}

/* Buckets end before the parameter that would overfill them, so one that is larger has a bucket of its own. ZeRO-1
 * reduces them behind the last micro-batch, in the order of the parameters (reduce_gradients()), ZeRO-2 and 3 in each
 * one, in the order of the gradients. `padding`: each parameter is padded to a multiple of it. */
static void zero_buckets(struct tagc_forecast_work *w, uint64_t padding) {
  const bool forward = w->job->base == TAGC_FORECAST_ZERO1;
  const struct tagc_forecast_part *part = NULL;
  uint64_t held = 0, elements = 0;
  for (size_t i = 0; i < w->part_count; i++) {
    const struct tagc_forecast_part *next = &w->parts[forward ? i : w->part_count - 1 - i];
    if (elements && elements + part_elements(next) > w->job->bucket) {
      zero_bucket(w, part, elements, held);
      held = elements = 0;
    }
    part = next;
    elements += part_elements(part);
    held += up_to(part_elements(part), padding) / padding;
  }
  zero_bucket(w, part, elements, held);
}

static void zero(struct tagc_forecast_work *w) {
  zero_buckets(w, 1);
  add_data(w, TAGC_FORECAST_ALL_GATHER, TAGC_FORECAST_PARAMETERS, zero_partition(w), 1);
  add_norm_sum(w, TAGC_FORECAST_DATA);
}

/* The norm, one number of 64 bits, is left out. */
static void zero3(struct tagc_forecast_work *w) {
  const uint64_t ranks = (uint64_t)tagc_forecast_replicas(w->job);
  uint64_t fetched = 0;
  zero_buckets(w, ranks);
  for (size_t i = 0; i < w->part_count; i++) {
    const uint64_t elements = part_elements(&w->parts[i]), shard = up_to(elements, ranks) / ranks;
    if (elements > PERSISTENT)
      fetched += shard * zero_times(w);
    else
      add_data(w, TAGC_FORECAST_ALL_GATHER, TAGC_FORECAST_PARAMETERS, shard, 1);
  }
  tagc_forecast_add_some(w, TAGC_FORECAST_DATA, TAGC_FORECAST_ALL_GATHER, TAGC_FORECAST_PARAMETERS, w->job->type,
                         fetched);
}

/* -- megatron ------------------------------------------------------------------------------------------------------ */

static void megatron_bucket(struct tagc_forecast_work *w, uint64_t elements) {
  const uint64_t ranks = (uint64_t)tagc_forecast_replicas(w->job);
  if (!tagc_forecast_has(w->job, TAGC_FORECAST_OPTIMIZER)) {
    add_data(w, TAGC_FORECAST_ALL_REDUCE, TAGC_FORECAST_GRADIENTS, elements, 1);
    return;
  }
  const uint64_t shard = tagc_layout_shard_of_parts(TAGC_LAYOUT_MEGATRON, elements, (int)ranks);
  add_data(w, TAGC_FORECAST_REDUCE_SCATTER, TAGC_FORECAST_GRADIENTS, shard, 1);
  add_data(w, TAGC_FORECAST_ALL_GATHER, TAGC_FORECAST_PARAMETERS, shard, 1);
}

/* From the last parameter to the first. Buckets are cut with `overlap`, in the first stage alone; a shared embedding
 * has one of its own with the distributed optimizer. That pads the start of each parameter, too. */
static void megatron_buckets(struct tagc_forecast_work *w) {
  const uint64_t ranks = (uint64_t)tagc_forecast_replicas(w->job);
  const uint64_t least = 1000000 * ranks > 40000000 ? 1000000 * ranks : 40000000;
  const uint64_t size =
    tagc_forecast_has(w->job, TAGC_FORECAST_OVERLAP) && tagc_forecast_is_first(w) ? least : UINT64_MAX;
  const uint64_t alignment = tagc_forecast_has(w->job, TAGC_FORECAST_OPTIMIZER) ? TAGC_MEGATRON_PARAMETER : 1;
  uint64_t held = 0;
  for (size_t i = w->part_count; i-- > 0;) {
    if (w->parts[i].alone && held) {
      megatron_bucket(w, held);
      held = 0;
    }
    held = up_to(held, alignment) + part_elements(&w->parts[i]);
    if (i && held < size && !w->parts[i].alone)
      continue;
    megatron_bucket(w, held);
    held = 0;
  }
}

/* ------------------------------------------------------------------------------------------------------------------ */

void tagc_forecast_data(struct tagc_forecast_work *w) {
  switch (w->job->base) {
  case TAGC_FORECAST_DDP: ddp(w); break;
  case TAGC_FORECAST_FSDP1:
  case TAGC_FORECAST_FSDP2: fsdp(w); break;
  case TAGC_FORECAST_ZERO1:
  case TAGC_FORECAST_ZERO2: zero(w); break;
  case TAGC_FORECAST_ZERO3: zero3(w); break;
  default: megatron_buckets(w); break;
  }
}
