/* SPDX-License-Identifier: BSD-3-Clause
 * The sending side of the `lhc` codec: what is selected (prepare), and what it looks like on the wire (encode).
 *
 * Works chunk by chunk, so that what one pass wrote is in the cache for the next. Messages are filled from prepare on:
 * exceptions and bitmaps are known then.
 */
#include <string.h>

#include "kernels/fpmode.h"
#include "kernels/lhc.h"

/* The chunk's share of everything that belongs to the job. */
static struct tagc_lhc_part part_of(const struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                                    const struct tagc_lhc_state *state, int shard, uint32_t chunk)
{
  struct tagc_lhc_message message;
  tagc_lhc_message_fill(&message, geo);
  uint8_t *out = job->message_out + (size_t)shard * job->layout.message_bytes;
  size_t list = (size_t)(shard - (shard > job->rank)) * geo->chunks + chunk;
  uint32_t *bitmap = geo->hashes ? (uint32_t *)(out + message.bitmap) : state->bitmap;
  return (struct tagc_lhc_part){
    .geo = geo,
    .chunk = chunk,
    .lines = tagc_lhc_chunk_lines(geo, chunk),
    .capacity = tagc_lhc_capacity(geo, chunk),
    .seed = tagc_lhc_seed(job->seed, (uint32_t)shard, chunk),
    .send = tagc_job_shard(job, shard),
    .dtype = job->shape.dtype,
    .scale = job->scale,
    .residual = tagc_job_residual(job, shard),
    .residual_empty = job->residual_empty,
    .bitmap = bitmap + (size_t)chunk * geo->chunk_lines,
    .values = state->values + list * state->stride,
    .ids = state->ids + list * state->stride,
    .exceptions = (struct tagc_exceptions *)out,
  };
}

/* Whole bins from the top while they fit; of the first that does not, as many as fit. */
static struct tagc_lhc_choice choose(const uint32_t histogram[TAGC_LHC_BINS], uint32_t capacity, uint64_t seed)
{
  uint32_t taken = 0;
  for (uint32_t bin = TAGC_LHC_HUGE_BIN - 1; bin >= TAGC_LHC_TINY_BIN; bin--) {
    uint32_t count = histogram[bin];
    if (count > capacity - taken)
      return (struct tagc_lhc_choice){
        .bin = bin,
        .count = count,
        .take = capacity - taken,
        .offset = tagc_lhc_offset(seed, count),
      };
    taken += count;
  }
  return (struct tagc_lhc_choice){ .bin = TAGC_LHC_TINY_BIN - 1 };
}

static void note_exponents(const struct tagc_lhc_part *part, uint32_t count, uint8_t *exponents)
{
  for (uint32_t i = 0; i < count; i++) {
    uint32_t line = tagc_lhc_line(part->geo->chunks, part->chunk, part->ids[i] / TAGC_LHC_LINE);
    uint8_t exponent = tagc_lhc_exponent(tagc_bits_of(part->values[i]));
    if (exponent > exponents[line / TAGC_LHC_BLOCK_LINES])
      exponents[line / TAGC_LHC_BLOCK_LINES] = exponent;
  }
}

/* Selects from one foreign shard; returns how many exceptions it had. */
static uint32_t prepare_shard(const struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                              const struct tagc_lhc_state *state, int shard)
{
  const struct tagc_lhc_kernels *kernels = tagc_lhc_kernels();
  struct tagc_exceptions *exceptions =
    (struct tagc_exceptions *)(job->message_out + (size_t)shard * job->layout.message_bytes);
  uint32_t *counts = state->counts + (size_t)(shard - (shard > job->rank)) * geo->chunks;
  tagc_exceptions_clear(exceptions, geo->n);
  for (uint32_t chunk = 0; chunk < geo->chunks; chunk++) {
    struct tagc_lhc_part part = part_of(job, geo, state, shard, chunk);
    uint32_t histogram[TAGC_LHC_BINS] = { 0 };
    kernels->accumulate(&part, histogram);
    struct tagc_lhc_choice choice = choose(histogram, part.capacity, part.seed);
    counts[chunk] = kernels->select(&part, &choice, &state->header->norm2);
    /* Chunks differ by a line at most; the wire has no undefined bytes. */
    for (uint32_t line = part.lines; geo->hashes && line < geo->chunk_lines; line++)
      part.bitmap[line] = 0;
    if (geo->hashes)
      note_exponents(&part, counts[chunk], job->exponents + (size_t)shard * job->layout.exponent_bytes);
    job->stats->selected += counts[chunk];
  }
  return tagc_exceptions_close(exceptions, geo->n);
}

/* Whether this rank's own shard, which no codec touches, has values that are not finite. */
static bool own_exceptions(const struct tagc_job *job)
{
  const void *own = tagc_job_shard(job, job->rank);
  bool seen = false;
  for (uint64_t i = 0; i < job->shape.n; i++)
    seen |= tagc_is_exception(tagc_bits_of(job->scale * tagc_load(own, i, job->shape.dtype)));
  return seen;
}

void tagc_lhc_prepare(struct tagc_job *job)
{
  tagc_fpmode mode = tagc_fpmode_enter();
  struct tagc_lhc_geometry geo;
  struct tagc_lhc_state state;
  tagc_lhc_geometry_fill(&geo, &job->shape);
  tagc_lhc_state_carve(&state, &geo, job->state);
  *state.header = (struct tagc_lhc_header){ 0 };
  if (geo.hashes)
    memset(job->exponents, 0, (size_t)job->shape.nranks * job->layout.exponent_bytes);
  for (int shard = 0; shard < job->shape.nranks; shard++) {
    bool seen;
    if (shard == job->rank) {
      seen = own_exceptions(job);
    } else {
      uint32_t count = prepare_shard(job, &geo, &state, shard);
      job->stats->nonfinite += count;
      seen = count > 0;
    }
    state.header->nonfinite |= seen;
    if (geo.hashes)
      job->exponents[(size_t)shard * job->layout.exponent_bytes + geo.blocks] = seen;
  }
  tagc_fpmode_leave(mode);
}

/* The counters of one foreign shard. */
static void encode_shard(const struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                         const struct tagc_lhc_state *state, int shard)
{
  const size_t cells = (size_t)geo->hashes * geo->part_cells;
  const uint8_t *exponents = job->exponents + (size_t)shard * job->layout.exponent_bytes;
  const uint32_t *counts = state->counts + (size_t)(shard - (shard > job->rank)) * geo->chunks;
  int32_t *counters = job->sketch_out + (size_t)shard * job->layout.sketch_count;
  for (uint32_t chunk = 0; chunk < geo->chunks; chunk++, counters += cells) {
    struct tagc_lhc_part part = part_of(job, geo, state, shard, chunk);
    memset(counters, 0, cells * sizeof *counters);
    tagc_lhc_kernels()->scatter(&part, counts[chunk], exponents, counters, &state->header->norm2);
  }
}

void tagc_lhc_encode(struct tagc_job *job)
{
  tagc_fpmode mode = tagc_fpmode_enter();
  struct tagc_lhc_geometry geo;
  struct tagc_lhc_state state;
  tagc_lhc_geometry_fill(&geo, &job->shape);
  tagc_lhc_state_carve(&state, &geo, job->state);
  if (geo.hashes == 0)
    tagc_lhc_sparse_encode(job, &geo);
  for (int shard = 0; geo.hashes && shard < job->shape.nranks; shard++) {
    if (shard != job->rank)
      encode_shard(job, &geo, &state, shard);
    else
      memset(job->sketch_out + (size_t)shard * job->layout.sketch_count, 0,
             job->layout.sketch_count * sizeof *job->sketch_out);
  }
  job->stats->residual_norm2 = state.header->norm2;
  tagc_fpmode_leave(mode);
}
