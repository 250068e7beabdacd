/* SPDX-License-Identifier: BSD-3-Clause
 * The sending side of the `lhc` codec: what is selected (prepare), and what it looks like on the wire (encode).
 *
 * Reads gradient and residual once, in the order of memory; candidates go to a list a chunk, and the rest happens chunk
 * by chunk. Messages are filled from prepare on: exceptions and bitmaps are known then.
 */
#include <string.h>

#include "kernels/fpmode.h"
#include "kernels/lhc.h"
#include "kernels/residual.h"

enum { SAMPLE_LINES = 256 };       /* at least; of large shards eight times as many */

static struct tagc_lhc_shard shard_of(const struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                                      const struct tagc_lhc_state *state, int shard)
{
  uint8_t *out = job->message_out + (size_t)shard * job->layout.message_bytes;
  return (struct tagc_lhc_shard){
    .geo = geo,
    .send = tagc_job_shard(job, shard),
    .dtype = job->shape.dtype,
    .scale = job->scale,
    .residual = tagc_residual_floats(job, shard),
    .residual_empty = job->residual_empty,
    .exceptions = (struct tagc_exceptions *)out,
    .exponents = geo->hashes ? job->exponents + (size_t)shard * job->layout.exponent_bytes : state->exponents,
    .candidates = state->candidates,
    .room = (uint32_t)state->room,
  };
}

static struct tagc_lhc_part part_of(const struct tagc_job *job, const struct tagc_lhc_shard *shard,
                                    const struct tagc_lhc_state *state, int number, uint32_t chunk)
{
  size_t list = (size_t)(number - (number > job->rank)) * shard->geo->chunks + chunk;
  return (struct tagc_lhc_part){
    .shard = shard,
    .geo = shard->geo,
    .chunk = chunk,
    .lines = tagc_lhc_chunk_lines(shard->geo, chunk),
    .capacity = tagc_lhc_capacity(shard->geo, chunk),
    .seed = tagc_lhc_seed(job->seed, (uint32_t)number, chunk),
    .bitmap = shard->candidates[chunk].bitmap,
    .values = state->values + list * state->stride,
    .ids = state->ids + list * state->stride,
  };
}

/* The first bin from the top that has no room any more below `above` values and `capacity`; 0 where all have. */
static uint32_t find_boundary(const uint32_t *histogram, uint32_t top, uint32_t bottom, uint32_t capacity,
                              uint32_t *above)
{
  for (uint32_t bin = top; bin-- > bottom;) {
    if (histogram[bin] > capacity - *above)
      return bin + 1;
    *above += histogram[bin];
  }
  return 0;
}

/* The fine bin in which `capacity` ends, from counts by coarse bin and then by fine bin: of a list, or where there is
 * none, of the part's residual. */
static struct tagc_lhc_choice find_bin(const struct tagc_lhc_part *part, const float *values, uint32_t count,
                                       uint32_t capacity)
{
  const struct tagc_lhc_kernels *kernels = tagc_lhc_kernels();
  uint32_t histogram[TAGC_LHC_COARSE] = { 0 }, above = 0, coarse, fine;
  if (values)
    kernels->count_list(values, count, TAGC_LHC_NO_BIN, histogram);
  else
    kernels->count_residual(part, TAGC_LHC_NO_BIN, histogram);
  coarse = find_boundary(histogram, TAGC_LHC_HUGE / TAGC_LHC_FINE, TAGC_LHC_TINY / TAGC_LHC_FINE, capacity, &above);
  if (coarse == 0)
    return (struct tagc_lhc_choice){ .bin = TAGC_LHC_TINY - 1, .above = above };
  memset(histogram, 0, TAGC_LHC_FINE * sizeof *histogram);
  if (values)
    kernels->count_list(values, count, coarse - 1, histogram);
  else
    kernels->count_residual(part, coarse - 1, histogram);
  fine = find_boundary(histogram, TAGC_LHC_FINE, 0, capacity, &above);
  return (struct tagc_lhc_choice){
    .bin = (coarse - 1) * TAGC_LHC_FINE + fine - 1,
    .above = above,
    .count = histogram[fine - 1],
  };
}

/* Whole bins from the top while they fit; of the first that does not, as many as fit. */
static void fill_up(struct tagc_lhc_choice *choice, const struct tagc_lhc_part *part)
{
  if (choice->bin < TAGC_LHC_TINY)
    return;
  choice->take = part->capacity - choice->above;
  choice->offset = tagc_lhc_offset(part->seed, choice->count);
}

/* The lowest magnitude to collect, so that candidates will do with some margin: what the capacity is in the sample, a
 * bit more, and three standard deviations. */
static uint32_t guess_threshold(const struct tagc_lhc_shard *shard, const struct tagc_lhc_state *state)
{
  const struct tagc_lhc_geometry *geo = shard->geo;
  const uint32_t room = (uint32_t)(geo->chunks * state->room / TAGC_LHC_LINE), few = SAMPLE_LINES;
  uint32_t lines = geo->lines / 128 < few ? few : geo->lines / 128 < 8 * few ? geo->lines / 128 : 8 * few;
  lines = lines < room ? lines : room;
  float *values = state->candidate_values;
  uint32_t count = tagc_lhc_kernels()->sample(shard, (geo->lines - 1) / lines + 1, values);
  uint64_t expected = (uint64_t)count * geo->keep_ppm / 1000000, deviation = 1;
  while (deviation * deviation < expected)
    deviation++;
  uint64_t enough = expected + expected / 32 + 3 * deviation + 8;
  struct tagc_lhc_choice choice = find_bin(NULL, values, count, (uint32_t)enough);
  return (choice.bin < TAGC_LHC_TINY ? TAGC_LHC_TINY : choice.bin) << 12;
}

/* The short way for a chunk, from its list of candidates. False where they are too few, or all but the best much too
 * many. */
static bool choose_candidates(const struct tagc_lhc_part *part, const struct tagc_lhc_list *list,
                              struct tagc_lhc_choice *choice)
{
  const uint32_t lowest = tagc_lhc_bin(list->threshold), most = TAGC_LHC_NEAR - 1;
  uint32_t histogram[TAGC_LHC_NEAR] = { 0 }, above = 0, near;
  if (list->threshold == UINT32_MAX)
    return false;
  tagc_lhc_kernels()->count_near(list->values, list->count, list->threshold, histogram);
  for (uint32_t i = 0; i < list->count && histogram[most] > 0; i++)
    if (tagc_is_exception(tagc_bits_of(list->values[i])))
      histogram[most]--;
  near = find_boundary(histogram, TAGC_LHC_NEAR, 0, part->capacity, &above);
  *choice = (struct tagc_lhc_choice){ .bin = TAGC_LHC_TINY - 1, .above = above };
  if (near == 0)
    return above == part->capacity || lowest == TAGC_LHC_TINY;
  choice->bin = lowest + near - 1;
  choice->count = histogram[near - 1];
  return near - 1 < most;
}

/* The long way for a chunk, whose values all are in the residual. */
static uint32_t select_all(const struct tagc_lhc_part *part)
{
  struct tagc_lhc_choice choice = find_bin(part, NULL, 0, part->capacity);
  fill_up(&choice, part);
  return tagc_lhc_kernels()->select(part, &choice);
}

void tagc_lhc_put_back(const struct tagc_lhc_shard *shard, uint32_t chunk)
{
  struct tagc_lhc_list *list = &shard->candidates[chunk];
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t line = tagc_lhc_line(shard->geo->chunks, chunk, list->ids[i] / TAGC_LHC_LINE);
    shard->residual[(uint64_t)line * TAGC_LHC_LINE + list->ids[i] % TAGC_LHC_LINE] = list->values[i];
  }
  list->count = 0;
  list->threshold = UINT32_MAX;
}

/* Selects from one chunk of a scanned shard. Returns whether it went the short way. */
static bool select_part(const struct tagc_lhc_part *part, struct tagc_lhc_list *list, uint32_t *count, double *norm2)
{
  struct tagc_lhc_choice choice;
  bool good = choose_candidates(part, list, &choice);
  if (good) {
    fill_up(&choice, part);
    *count = tagc_lhc_kernels()->filter(part, list, &choice, norm2);
  } else {
    tagc_lhc_put_back(part->shard, part->chunk);
    *count = select_all(part);
  }
  /* Chunks differ by a line at most; the wire has no undefined bytes. */
  for (uint32_t line = part->lines; part->geo->hashes && line < part->geo->chunk_lines; line++)
    part->bitmap[line] = 0;
  return good;
}

static double norm_of(const float *residual, uint64_t n)
{
  double norm = 0;
  for (uint64_t i = 0; i < n; i++)
    norm += (double)residual[i] * residual[i];
  return norm;
}

/* Empty lists for all chunks of a shard. */
static void clear_lists(const struct tagc_lhc_shard *shard, const struct tagc_lhc_state *state, uint8_t *message_out,
                        uint32_t threshold)
{
  struct tagc_lhc_message message;
  tagc_lhc_message_fill(&message, shard->geo);
  uint32_t *bitmap = shard->geo->hashes ? (uint32_t *)(message_out + message.bitmap) : state->bitmap;
  for (uint32_t chunk = 0; chunk < shard->geo->chunks; chunk++)
    shard->candidates[chunk] = (struct tagc_lhc_list){
      .values = state->candidate_values + chunk * (state->room + TAGC_LHC_LINE),
      .ids = state->candidate_ids + chunk * (state->room + TAGC_LHC_LINE),
      .bitmap = bitmap + (size_t)chunk * shard->geo->chunk_lines,
      .threshold = threshold,
    };
}

/* Selects from one foreign shard; returns how many exceptions it had. */
static uint32_t prepare_shard(const struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                              const struct tagc_lhc_state *state, int number)
{
  const struct tagc_lhc_kernels *kernels = tagc_lhc_kernels();
  const struct tagc_lhc_shard shard = shard_of(job, geo, state, number);
  uint32_t *counts = state->counts + (size_t)(number - (number > job->rank)) * geo->chunks;
  tagc_exceptions_clear(shard.exceptions, geo->n);
  clear_lists(&shard, state, (uint8_t *)shard.exceptions, guess_threshold(&shard, state));
  double norm = kernels->scan(&shard);
  bool good = true;
  for (uint32_t chunk = 0; chunk < geo->chunks; chunk++) {
    struct tagc_lhc_part part = part_of(job, &shard, state, number, chunk);
    good &= select_part(&part, &state->candidates[chunk], &counts[chunk], &norm);
    job->stats->selected += counts[chunk];
  }
  state->header->norm2 += good ? norm : norm_of(shard.residual, geo->n);
  return tagc_exceptions_close(shard.exceptions, geo->n);
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
  for (int shard = 0; shard < job->shape.nranks; shard++)
    if (shard != job->rank)
      job->stats->nonfinite += prepare_shard(job, &geo, &state, shard);
  tagc_fpmode_leave(mode);
}

/* Tells every receiver whether this rank had an exception anywhere. No codec touches the own shard, but the others want
 * to know of it as well. */
static void tell_of_exceptions(const struct tagc_job *job, const struct tagc_lhc_state *state)
{
  struct tagc_exceptions *list;
  const uint64_t n = job->shape.n;
  uint32_t seen = tagc_lhc_kernels()->has_exceptions(tagc_job_shard(job, job->rank), n, job->shape.dtype, job->scale);
  for (int pass = 0; pass < 2; pass++)
    for (int shard = 0; shard < job->shape.nranks; shard++) {
      list = (struct tagc_exceptions *)(job->message_out + (size_t)shard * job->layout.message_bytes);
      if (shard != job->rank && pass == 0)
        seen |= list->count > 0;
      else if (shard != job->rank)
        list->anywhere = seen;
    }
  state->header->nonfinite = seen;
}

/* The counters of one foreign shard. */
static void encode_shard(const struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                         const struct tagc_lhc_state *state, int shard)
{
  const size_t cells = (size_t)geo->hashes * geo->part_cells;
  const struct tagc_lhc_shard out = shard_of(job, geo, state, shard);
  const uint8_t *exponents = job->exponents + (size_t)shard * job->layout.exponent_bytes;
  const uint32_t *counts = state->counts + (size_t)(shard - (shard > job->rank)) * geo->chunks;
  int32_t *counters = job->sketch_out + (size_t)shard * job->layout.sketch_count;
  for (uint32_t chunk = 0; chunk < geo->chunks; chunk++, counters += cells) {
    struct tagc_lhc_part part = part_of(job, &out, state, shard, chunk);
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
  tell_of_exceptions(job, &state);
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
