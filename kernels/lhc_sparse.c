/* SPDX-License-Identifier: BSD-3-Clause
 * The `lhc` codec without a sketch: the exact layout for shards too small for one. See codec_lhc.c for the bytes.
 */
#include <string.h>

#include "kernels/lhc.h"

enum { BLOCK = 256 };

/* From the lists to the message: they are in order of position, because there is one chunk. */
void tagc_lhc_sparse_encode(struct tagc_job *job, const struct tagc_lhc_geometry *geo)
{
  struct tagc_lhc_state state;
  struct tagc_lhc_message message;
  tagc_lhc_state_carve(&state, geo, job->state);
  tagc_lhc_message_fill(&message, geo);
  for (int shard = 0; shard < job->shape.nranks; shard++) {
    if (shard == job->rank)
      continue;
    size_t list = (size_t)(shard - (shard > job->rank));
    const float *values = state.selected.values + list * state.selected.stride;
    const uint32_t *ids = state.selected.ids + list * state.selected.stride;
    uint8_t *out = job->message_out + (size_t)shard * job->layout.message_bytes;
    uint16_t *counts = (uint16_t *)(out + message.counts);
    memset(counts, 0, message.bytes - message.counts);
    for (uint32_t i = 0; i < state.selected.counts[list]; i++) {
      counts[ids[i] / BLOCK]++;
      out[message.offsets + i] = (uint8_t)(ids[i] % BLOCK);
    }
    memcpy(out + message.values, values, state.selected.counts[list] * sizeof *values);
  }
}

/* The foreign values of one block, added in rank order. Counts that lead out of the lists are ignored. */
static void sum_block(const struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                      const struct tagc_lhc_message *message, uint32_t *cursors, uint64_t block, float sum[BLOCK])
{
  for (int sender = 0; sender < job->shape.nranks; sender++) {
    if (sender == job->rank)
      continue;
    const uint8_t *in = job->message_in + (size_t)sender * job->layout.message_bytes;
    uint32_t *cursor = cursors + (sender - (sender > job->rank));
    uint32_t count = ((const uint16_t *)(in + message->counts))[block];
    if (count > geo->grid.chunk_capacity - *cursor)
      count = geo->grid.chunk_capacity - *cursor;
    const float *values = (const float *)(in + message->values) + *cursor;
    const uint8_t *offsets = in + message->offsets + *cursor;
    for (uint32_t i = 0; i < count; i++)
      sum[offsets[i]] += values[i];
    *cursor += count;
  }
}

void tagc_lhc_sparse_decode(struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                            const struct tagc_exception *exceptions, size_t count)
{
  struct tagc_lhc_state state;
  struct tagc_lhc_message message;
  tagc_lhc_state_carve(&state, geo, job->state);
  tagc_lhc_message_fill(&message, geo);
  memset(state.cursors, 0, geo->senders * sizeof *state.cursors);
  const void *own = tagc_job_shard(job, job->rank);
  const enum tagc_dtype dtype = job->shape.dtype;
  for (uint64_t block = 0; block * BLOCK < geo->grid.n; block++) {
    float sum[BLOCK] = { 0 };
    sum_block(job, geo, &message, state.cursors, block, sum);
    for (uint64_t i = block * BLOCK; i < geo->grid.n && i < (block + 1) * BLOCK; i++) {
      float x = sum[i % BLOCK] + job->scale * tagc_load(own, i, dtype);
      job->nonfinite_seen |= tagc_is_exception(tagc_bits_of(x));
      for (; count > 0 && exceptions->position == i; exceptions++, count--)
        x += tagc_float_of(exceptions->bits);
      tagc_store_result(job->recv, i, dtype, x, job->divisor);
    }
  }
}
