/* SPDX-License-Identifier: BSD-3-Clause
 * The receiving side of the `lhc` codec: support, peeling, estimates for stuck elements, and the sum.
 *
 * It recovers stripe by stripe, because cells and support of one stay in the second-level cache. It writes the results
 * in the order of memory, which main memory is fast at.
 */
#include <string.h>

#include "kernels/codec/fpmode.h"
#include "kernels/lhc/lhc.h"

enum { STREAM_BYTES = 8 << 20 }; /* larger results would push everything else out of the caches */

/* Merges the senders' supports of a stripe. */
static void merge_bitmaps(const struct tagc_job *job, const struct tagc_lhc_sum *sum, uint32_t stripe) {
  const struct tagc_lhc_geometry *geo = sum->geo;
  struct tagc_lhc_message message;
  tagc_lhc_message_fill(&message, geo);
  const size_t at = message.bitmap + (size_t)stripe * geo->grid.stripe_lines * sizeof *sum->masks;
  bool first = true;
  for (int sender = 0; sender < job->shape.nranks; sender++) {
    const uint32_t *in = (const uint32_t *)(job->message_in + (size_t)sender * job->layout.message_bytes + at);
    if (sender == job->rank)
      continue;
    for (uint32_t local = 0; local < sum->lines; local++)
      sum->masks[local] = first ? in[local] : sum->masks[local] | in[local];
    first = false;
  }
}

/* The checks of a stripe without the elements that were recovered. */
struct checks {
  uint32_t rest[TAGC_LHC_CHECKS];  /* counters */
  uint32_t stuck[TAGC_LHC_CHECKS]; /* elements that are left in each */
};

static void fill_checks(const struct tagc_lhc_sum *sum, struct checks *checks) {
  const struct tagc_lhc_geometry *geo = sum->geo;
  memset(checks, 0, sizeof *checks);
  memcpy(checks->rest, sum->counters + (size_t)geo->hashes * geo->part_cells, sizeof checks->rest);
  for (uint32_t local = 0, i = 0; local < sum->lines; local++)
    for (uint32_t mask = sum->masks[local]; mask; mask &= mask - 1, i++) {
      const uint32_t id = local * TAGC_GRID_LINE + (uint32_t)__builtin_ctz(mask);
      const uint32_t check = tagc_lhc_check(tagc_lhc_cells(sum->seed, geo->part_cells, id));
      checks->rest[check] -= sum->peeled[i] ? sum->elements[i] : 0;
      checks->stuck[check] += !sum->peeled[i];
    }
}

/* Replaces the ids of the elements that peeling could not reach: by their values, if they are alone in their checks,
 * otherwise by estimates from the rests of their cells. Returns the number of estimates. */
static uint64_t settle_stuck(const struct tagc_lhc_sum *sum) {
  const struct tagc_lhc_geometry *geo = sum->geo;
  const int64_t limit = (int64_t)geo->senders * ((INT64_C(1) << geo->counter_bits) - 1);
  struct checks checks;
  uint64_t estimates = 0;
  if (geo->hashes == 3)
    fill_checks(sum, &checks);
  for (uint32_t i = 0; i < sum->count; i++) {
    if (sum->peeled[i])
      continue;
    uint64_t at = tagc_lhc_cells(sum->seed, geo->part_cells, sum->elements[i]);
    if (geo->hashes == 3 && checks.stuck[tagc_lhc_check(at)] == 1) {
      sum->elements[i] = checks.rest[tagc_lhc_check(at)];
      continue;
    }
    estimates++;
    int32_t share[TAGC_LHC_MAX_HASHES] = {0};
    for (uint32_t hash = 0; hash < geo->hashes; hash++, at >>= 16) {
      uint64_t cell = sum->cells[(size_t)hash * geo->part_cells + (at & 0xffff)];
      int32_t degree = (int32_t)((uint32_t)cell >> 24);
      share[hash] = (int32_t)(cell >> 32) / (degree ? degree : 1);
    }
    sum->elements[i] = (uint32_t)tagc_lhc_median(share, geo->hashes, limit);
  }
  return estimates;
}

/* Recovers the foreign sums of all stripes. Returns the number of estimates. */
static uint64_t recover_stripes(const struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                                const struct tagc_lhc_state *state) {
  const struct tagc_lhc_kernels *kernels = tagc_lhc_kernels();
  uint64_t estimates = 0;
  for (uint32_t stripe = 0; stripe < geo->grid.stripes; stripe++) {
    struct tagc_lhc_sum sum = {
      .geo = geo,
      .seed = tagc_grid_seed(job->seed, (uint32_t)job->rank, stripe),
      .counters = job->sketch_in + (size_t)stripe * geo->stripe_counters,
      .lines = tagc_grid_stripe_lines(&geo->grid, stripe),
      .masks = state->masks + (size_t)stripe * geo->grid.stripe_lines,
      .elements = state->elements + stripe * state->support,
      .cells = state->cells,
      .queue = state->queue,
      .queue_room = state->queue_room,
      .peeled = state->peeled,
    };
    merge_bitmaps(job, &sum, stripe);
    sum.count = kernels->find_support(&sum);
    kernels->build(&sum);
    if (kernels->peel(&sum) < sum.count)
      estimates += settle_stuck(&sum);
  }
  return estimates;
}

/* Writes one line alone: the incomplete one, or one with exceptions, which are entry[0..count). */
static void output_line(const struct tagc_lhc_output *out, uint32_t line, const struct tagc_exception *entry,
                        size_t count) {
  const struct tagc_lhc_geometry *geo = out->geo;
  const uint32_t stripe = tagc_grid_stripe_of(geo->grid.stripes, line), local = line / geo->grid.stripes;
  const uint32_t mask = out->masks[(size_t)stripe * geo->grid.stripe_lines + local];
  const uint32_t *sums = out->sums + stripe * out->support + out->cursors[stripe];
  const float unit = out->units[out->exponents[line / TAGC_GRID_BLOCK_LINES]];
  uint64_t at = (uint64_t)line * TAGC_GRID_LINE;
  for (uint32_t lane = 0; lane < TAGC_GRID_LINE && at + lane < geo->grid.n; lane++) {
    float x = mask >> lane & 1 ? (float)(int32_t)*sums++ * unit : 0.0f;
    x += out->scale * tagc_load(out->own, at + lane, out->dtype);
    for (; count > 0 && entry->position == at + lane; entry++, count--)
      x += tagc_float_of(entry->bits);
    tagc_store_result(out->recv, at + lane, out->dtype, x, out->divisor);
  }
  out->cursors[stripe] += (uint32_t)__builtin_popcount(mask);
}

/* Writes all results: runs of ordinary lines at once, the others one by one. */
static void output_all(const struct tagc_lhc_output *out, const struct tagc_exception *exceptions, size_t count) {
  const uint32_t complete = (uint32_t)(out->geo->grid.n / TAGC_GRID_LINE);
  uint32_t from = 0;
  for (size_t i = 0, next; i < count; i = next) {
    uint32_t line = exceptions[i].position / TAGC_GRID_LINE;
    for (next = i + 1; next < count && exceptions[next].position / TAGC_GRID_LINE == line;)
      next++;
    tagc_lhc_kernels()->output(out, from, line);
    output_line(out, line, exceptions + i, next - i);
    from = line + 1;
  }
  if (from < complete)
    tagc_lhc_kernels()->output(out, from, complete);
  if (complete < out->geo->grid.lines && from <= complete)
    output_line(out, complete, NULL, 0);
}

/* Could a result be infinite? A foreign sum is at most 2^31 units of its block; the rest is for rounding. */
static bool may_overflow(const struct tagc_lhc_output *out, float own_most) {
  float unit = 0;
  for (uint32_t line = 0; line < out->geo->grid.lines; line += TAGC_GRID_BLOCK_LINES) {
    const float its = out->units[out->exponents[line / TAGC_GRID_BLOCK_LINES]];
    unit = its > unit ? its : unit;
  }
  return tagc_is_nonfinite((own_most + 0x1p31f * unit) / out->divisor * 1.001f, out->dtype);
}

/* The hot loop does not look: a few more instructions there cost up to a third of decode. */
static bool has_nonfinite(const struct tagc_lhc_output *out) {
  for (uint64_t i = 0; i < out->geo->grid.n; i++)
    if (tagc_is_nonfinite(tagc_load(out->recv, i, out->dtype), out->dtype))
      return true;
  return false;
}

static void decode_sketch(struct tagc_job *job, const struct tagc_lhc_geometry *geo, const struct tagc_lhc_state *state,
                          size_t exceptions) {
  job->stats->unrecovered += recover_stripes(job, geo, state);
  memset(state->cursors, 0, geo->grid.stripes * sizeof *state->cursors);
  float units[256] = {0};
  for (uint32_t exponent = TAGC_LHC_LEAST_EXPONENT; exponent < 250; exponent++)
    units[exponent] = tagc_lhc_unit(exponent, geo->counter_bits);
  const void *own = tagc_job_shard(job, job->rank);
  struct tagc_lhc_output out = {
    .geo = geo,
    .masks = state->masks,
    .sums = state->elements,
    .support = state->support,
    .cursors = state->cursors,
    .exponents = job->exponents + (size_t)job->rank * job->layout.exponent_bytes,
    .units = units,
    .own = own,
    .recv = job->recv,
    .streaming = geo->grid.n * tagc_dtype_size(job->shape.dtype) >= STREAM_BYTES && own != job->recv &&
                 (uintptr_t)job->recv % 64 == 0,
    .dtype = job->shape.dtype,
    .scale = job->scale,
    .divisor = job->divisor,
  };
  output_all(&out, state->exceptions, exceptions);
  if (!job->nonfinite_seen && may_overflow(&out, tagc_float_of(state->header->own_most)))
    job->nonfinite_seen = has_nonfinite(&out);
}

void tagc_lhc_decode(struct tagc_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  struct tagc_lhc_geometry geo;
  struct tagc_lhc_state state;
  struct tagc_lhc_message message;
  tagc_lhc_geometry_fill(&geo, &job->shape);
  tagc_lhc_assign_state(&state, &geo, job->state);
  size_t count;
  if (!tagc_exceptions_collect(job, state.header->anywhere, state.exceptions, &count)) {
    tagc_exceptions_overflow(job);
  } else if (geo.hashes == 0) {
    tagc_lhc_message_fill(&message, &geo);
    tagc_sparse_sum(job, &message.sparse, state.cursors, state.exceptions, count);
  } else {
    decode_sketch(job, &geo, &state, count);
  }
  tagc_fpmode_leave(mode);
}
