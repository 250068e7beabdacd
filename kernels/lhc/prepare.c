/* SPDX-License-Identifier: BSD-3-Clause
 * The sending side of the `lhc` codec: exponents (measure), selection (prepare), and payloads (encode).
 *
 * Messages are filled from prepare on, when exceptions and bitmaps are known.
 */
#include <string.h>

#include "kernels/codec/fpmode.h"
#include "kernels/lhc/lhc.h"
#include "kernels/codec/residual.h"

enum { BLOCK = TAGC_GRID_BLOCK_LINES * TAGC_GRID_LINE };

/* The place among the foreign shards. */
static size_t foreign_place_of(const struct tagc_job *job, int shard) { return (size_t)(shard - (shard > job->rank)); }

/* The residual of a foreign shard as fp32: itself, or its copy in the state. */
static float *residual_of(const struct tagc_job *job, const struct tagc_lhc_state *state, int shard) {
  if (job->shape.residual == TAGC_STORAGE_FP32)
    return tagc_residual_floats(job, shard);
  return state->residual + foreign_place_of(job, shard) * job->shape.n;
}

/* Fills the exponents of one foreign shard. */
static void measure_shard(const struct tagc_job *job, int shard, uint8_t *exponents) {
  float widened[BLOCK];
  const float *kept = job->residual_empty ? NULL : tagc_residual_floats(job, shard);
  const bool widens = !job->residual_empty && !kept;
  const void *send = tagc_job_shard(job, shard);
  for (uint64_t at = 0; at < job->shape.n; at += BLOCK) {
    const uint32_t count = job->shape.n - at < BLOCK ? (uint32_t)(job->shape.n - at) : BLOCK;
    for (uint32_t from = 0; from < count && widens; from += TAGC_RESIDUAL_BLOCK)
      tagc_residual_load(job, shard, at + from, count - from < TAGC_RESIDUAL_BLOCK ? count - from : TAGC_RESIDUAL_BLOCK,
                         widened + from);
    exponents[at / BLOCK] = tagc_sparsify_kernels()->measure(tagc_element_of(send, at, job->shape.dtype),
                                                             widens ? widened
                                                             : kept ? kept + at
                                                                    : NULL,
                                                             count, job->shape.dtype, job->scale);
  }
}

void tagc_lhc_measure(struct tagc_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  if (job->layout.exponent_bytes > 0)
    memset(job->exponents, 0, (size_t)job->shape.nranks * job->layout.exponent_bytes);
  for (int shard = 0; shard < job->shape.nranks && job->layout.exponent_bytes > 0; shard++)
    if (shard != job->rank)
      measure_shard(job, shard, job->exponents + (size_t)shard * job->layout.exponent_bytes);
  tagc_fpmode_leave(mode);
}

/* Selects from one foreign shard; returns its number of exceptions. */
static uint32_t prepare_shard(const struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                              const struct tagc_lhc_state *state, int number) {
  uint8_t *out = job->message_out + (size_t)number * job->layout.message_bytes;
  struct tagc_lhc_message message;
  tagc_lhc_message_fill(&message, geo);
  const struct tagc_sparsify_shard shard = {
    .grid = &geo->grid,
    .send = tagc_job_shard(job, number),
    .dtype = job->shape.dtype,
    .scale = job->scale,
    .seed = job->seed,
    .number = (uint32_t)number,
    .residual = residual_of(job, state, number),
    .residual_empty = job->residual_empty,
    .exceptions = (struct tagc_exceptions *)out,
    .exponents = geo->hashes && !job->measured ? job->exponents + (size_t)number * job->layout.exponent_bytes : NULL,
    .bitmap = geo->hashes ? (uint32_t *)(out + message.bitmap) : state->bitmap,
    .memory = &state->selected,
    .list = foreign_place_of(job, number),
  };
  tagc_exceptions_clear(shard.exceptions, geo->grid.n);
  if (geo->hashes) /* the padding after the bitmap, which is written whole later */
    memset(out + message.bytes - 16, 0, 16);
  if (geo->narrow_residual && !job->residual_empty)
    tagc_residual_load_shard(job, number, shard.residual);
  const double left = tagc_sparsify(&shard);
  state->header->norm2 += left;
  state->header->anywhere |= tagc_sparsify_surplus(&shard, left);
  if (geo->hashes == 0) {
    const size_t first = shard.list * state->selected.stride;
    tagc_sparse_count(&message.sparse, shard.bitmap, out);
    tagc_sparse_pack(&message.sparse, state->selected.values + first, state->selected.ids + first,
                     state->selected.counts[shard.list], out);
  }
  for (uint32_t stripe = 0; stripe < geo->grid.stripes; stripe++)
    job->stats->selected += state->selected.counts[shard.list * geo->grid.stripes + stripe];
  return tagc_exceptions_close(shard.exceptions, geo->grid.n);
}

void tagc_lhc_prepare(struct tagc_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  struct tagc_lhc_geometry geo;
  struct tagc_lhc_state state;
  tagc_lhc_geometry_fill(&geo, &job->shape);
  tagc_lhc_assign_state(&state, &geo, job->state);
  *state.header = (struct tagc_lhc_header){0};
  if (geo.hashes && !job->measured)
    memset(job->exponents, 0, (size_t)job->shape.nranks * job->layout.exponent_bytes);
  for (int shard = 0; shard < job->shape.nranks; shard++)
    if (shard != job->rank)
      job->stats->nonfinite += prepare_shard(job, &geo, &state, shard);
  tagc_fpmode_leave(mode);
}

/* Fills the counters of one foreign shard. */
static void lhc_encode_shard(const struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                             const struct tagc_lhc_state *state, int shard) {
  const size_t cells = geo->stripe_counters;
  const uint8_t *exponents = job->exponents + (size_t)shard * job->layout.exponent_bytes;
  int32_t *counters = job->sketch_out + (size_t)shard * job->layout.sketch_count;
  for (uint32_t stripe = 0; stripe < geo->grid.stripes; stripe++, counters += cells) {
    const size_t list = foreign_place_of(job, shard) * geo->grid.stripes + stripe;
    struct tagc_lhc_part part = {
      .geo = geo,
      .residual = residual_of(job, state, shard),
      .stripe = stripe,
      .count = state->selected.counts[list],
      .seed = tagc_grid_seed(job->seed, (uint32_t)shard, stripe),
      .values = state->selected.values + list * state->selected.stride,
      .ids = state->selected.ids + list * state->selected.stride,
    };
    memset(counters, 0, cells * sizeof *counters);
    tagc_lhc_kernels()->scatter(&part, exponents, counters, &state->header->norm2);
  }
}

/* Stores the residual; returns the squared norm of what its storage could keep. */
static double store_residual(const struct tagc_job *job, const struct tagc_lhc_state *state) {
  double norm2 = 0;
  for (int shard = 0; shard < job->shape.nranks; shard++)
    if (shard != job->rank)
      norm2 += tagc_residual_store_shard(job, shard, residual_of(job, state, shard));
  return norm2;
}

void tagc_lhc_encode(struct tagc_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  struct tagc_lhc_geometry geo;
  struct tagc_lhc_state state;
  tagc_lhc_geometry_fill(&geo, &job->shape);
  tagc_lhc_assign_state(&state, &geo, job->state);
  state.header->own_most = tagc_sparsify_own_largest(job, &state.header->anywhere);
  state.header->anywhere = tagc_exceptions_anywhere(job, state.header->anywhere);
  for (int shard = 0; geo.hashes && shard < job->shape.nranks; shard++) {
    if (shard != job->rank)
      lhc_encode_shard(job, &geo, &state, shard);
    else
      memset(job->sketch_out + (size_t)shard * job->layout.sketch_count, 0,
             job->layout.sketch_count * sizeof *job->sketch_out);
  }
  job->stats->residual_norm2 = geo.narrow_residual ? store_residual(job, &state) : state.header->norm2;
  tagc_fpmode_leave(mode);
}
