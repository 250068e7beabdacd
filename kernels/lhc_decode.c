/* SPDX-License-Identifier: BSD-3-Clause
 * The receiving side of the `lhc` codec: support, peeling, estimates for what is stuck, and the sum.
 *
 * Works chunk by chunk: cells and support of one stay in the second-level cache.
 */
#include <string.h>

#include "kernels/fpmode.h"
#include "kernels/lhc.h"

/* The union of the senders' supports of a chunk, as masks and as a list of ids. A support beyond its bound (which no
 * sender of this code makes) is cut, so that bytes from elsewhere cannot lead out of the lists. Returns its size. */
static uint32_t find_support(const struct tagc_job *job, const struct tagc_lhc_sum *sum)
{
  const struct tagc_lhc_geometry *geo = sum->geo;
  struct tagc_lhc_message message;
  tagc_lhc_message_fill(&message, geo);
  uint32_t count = 0;
  for (uint32_t local = 0; local < sum->lines; local++) {
    uint32_t mask = 0;
    for (int sender = 0; sender < job->shape.nranks; sender++) {
      const uint8_t *in = job->message_in + (size_t)sender * job->layout.message_bytes + message.bitmap;
      if (sender != job->rank)
        mask |= ((const uint32_t *)in)[(size_t)sum->chunk * geo->chunk_lines + local];
    }
    if (count + (uint32_t)__builtin_popcount(mask) > geo->union_capacity)
      mask = 0;
    sum->state->masks[local] = mask;
    for (; mask; mask &= mask - 1)
      sum->state->elements[count++] = local * TAGC_LHC_LINE + (uint32_t)__builtin_ctz(mask);
  }
  return count;
}

/* Replaces the ids of the elements that peeling could not reach by estimates from what is left in their cells. */
static void estimate_stuck(const struct tagc_lhc_sum *sum, uint32_t peeled)
{
  const struct tagc_lhc_geometry *geo = sum->geo;
  const struct tagc_lhc_state *state = sum->state;
  const int64_t limit = (int64_t)geo->senders * ((INT64_C(1) << geo->counter_bits) - 1);
  memset(state->peeled, 0, sum->count);
  for (uint32_t i = 0; i < peeled; i++)
    state->peeled[state->queue[i]] = 1;
  for (uint32_t i = 0; i < sum->count; i++) {
    if (state->peeled[i])
      continue;
    uint64_t at = tagc_lhc_cells(sum->seed, geo->part_cells, state->elements[i]);
    int32_t share[TAGC_LHC_MAX_HASHES];
    for (uint32_t hash = 0; hash < geo->hashes; hash++, at >>= 16) {
      uint64_t cell = state->cells[(size_t)hash * geo->part_cells + (at & 0xffff)];
      int32_t degree = (int32_t)((uint32_t)cell >> 24);
      share[hash] = (int32_t)(cell >> 32) / (degree ? degree : 1);
    }
    state->elements[i] = (uint32_t)tagc_lhc_median(share, geo->hashes, limit);
  }
}

/* One line by hand: the incomplete one, or one with exceptions, of which entry[0..count) are its own. */
static uint32_t output_line(const struct tagc_lhc_sum *sum, uint32_t local, uint32_t element,
                            const struct tagc_exception *entry, size_t count)
{
  const struct tagc_lhc_geometry *geo = sum->geo;
  uint32_t line = tagc_lhc_line(geo->chunks, sum->chunk, local), mask = sum->state->masks[local];
  uint32_t exponent = sum->exponents[line / TAGC_LHC_BLOCK_LINES];
  float unit = exponent ? tagc_lhc_unit(exponent, geo->counter_bits) : 0.0f;
  uint64_t at = (uint64_t)line * TAGC_LHC_LINE;
  for (uint32_t lane = 0; lane < TAGC_LHC_LINE && at + lane < geo->n; lane++) {
    float x = mask >> lane & 1 ? (float)(int32_t)sum->state->elements[element++] * unit : 0.0f;
    x += sum->scale * tagc_load(sum->own, at + lane, sum->dtype);
    for (; count > 0 && entry->position == at + lane; entry++, count--)
      x += tagc_float_of(entry->bits);
    tagc_store_result(sum->recv, at + lane, sum->dtype, x, sum->divisor);
  }
  return element;
}

/* Writes the chunk's results: runs of ordinary lines at once, the others one by one. */
static void output_chunk(const struct tagc_lhc_sum *sum, const struct tagc_exception *exceptions, size_t count)
{
  const struct tagc_lhc_geometry *geo = sum->geo;
  const struct tagc_lhc_kernels *kernels = tagc_lhc_kernels();
  uint32_t from = 0, element = 0;
  for (size_t i = 0, next; i < count; i = next) {
    uint32_t line = exceptions[i].position / TAGC_LHC_LINE, local = line / geo->chunks;
    for (next = i + 1; next < count && exceptions[next].position / TAGC_LHC_LINE == line;)
      next++;
    if (tagc_lhc_chunk_of(geo->chunks, line) != sum->chunk)
      continue;
    element = kernels->output(sum, from, local, element);
    element = output_line(sum, local, element, exceptions + i, next - i);
    from = local + 1;
  }
  uint32_t last = sum->lines;
  if (last > from &&
      (tagc_lhc_line(geo->chunks, sum->chunk, last - 1) + UINT64_C(1)) * TAGC_LHC_LINE > geo->n)
    last--;
  element = kernels->output(sum, from, last, element);
  if (last < sum->lines && last >= from)
    output_line(sum, last, element, NULL, 0);
}

static void decode_chunks(struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                          const struct tagc_lhc_state *state, size_t exceptions)
{
  const struct tagc_lhc_kernels *kernels = tagc_lhc_kernels();
  const size_t cells = (size_t)geo->hashes * geo->part_cells;
  for (uint32_t chunk = 0; chunk < geo->chunks; chunk++) {
    struct tagc_lhc_sum sum = {
      .geo = geo,
      .chunk = chunk,
      .lines = tagc_lhc_chunk_lines(geo, chunk),
      .seed = tagc_lhc_seed(job->seed, (uint32_t)job->rank, chunk),
      .counters = job->sketch_in + chunk * cells,
      .state = state,
      .exponents = job->exponents + (size_t)job->rank * job->layout.exponent_bytes,
      .own = tagc_job_shard(job, job->rank),
      .recv = job->recv,
      .dtype = job->shape.dtype,
      .scale = job->scale,
      .divisor = job->divisor,
    };
    sum.count = find_support(job, &sum);
    kernels->build(&sum);
    uint32_t peeled = kernels->peel(&sum);
    if (peeled < sum.count)
      estimate_stuck(&sum, peeled);
    job->stats->unrecovered += sum.count - peeled;
    output_chunk(&sum, state->exceptions, exceptions);
  }
}

/* Collects the senders' exceptions. False where they do not say which values they were: the shard is lost. */
static bool merge_exceptions(const struct tagc_job *job, const struct tagc_lhc_state *state, size_t *count)
{
  bool fits = true;
  *count = 0;
  for (int sender = 0; sender < job->shape.nranks; sender++) {
    const uint8_t *in = job->message_in + (size_t)sender * job->layout.message_bytes;
    if (sender != job->rank)
      fits &= tagc_exceptions_merge(state->exceptions, count, (const struct tagc_exceptions *)in, job->shape.n);
  }
  return fits;
}

void tagc_lhc_decode(struct tagc_job *job)
{
  tagc_fpmode mode = tagc_fpmode_enter();
  struct tagc_lhc_geometry geo;
  struct tagc_lhc_state state;
  tagc_lhc_geometry_fill(&geo, &job->shape);
  tagc_lhc_state_carve(&state, &geo, job->state);
  size_t count;
  bool fits = merge_exceptions(job, &state, &count), seen = !fits || count > 0 || state.header->nonfinite;
  for (int shard = 0; geo.hashes && shard < job->shape.nranks; shard++)
    seen |= job->exponents[(size_t)shard * job->layout.exponent_bytes + geo.blocks] != 0;
  job->nonfinite_seen = seen;
  if (!fits) {
    job->stats->overflowed++;
    for (uint64_t i = 0; i < job->shape.n; i++)
      tagc_store(job->recv, i, job->shape.dtype, tagc_float_of(TAGC_NAN_BITS));
  } else if (geo.hashes == 0) {
    tagc_lhc_sparse_decode(job, &geo, state.exceptions, count);
  } else {
    decode_chunks(job, &geo, &state, count);
  }
  tagc_fpmode_leave(mode);
}
