/* SPDX-License-Identifier: BSD-3-Clause
 * Chooses the largest values of a shard: see sparsify.h. sparsify_kernels.c has the loops over all elements.
 */
#include "kernels/sparse/sparsify.h"

#include <string.h>

#include "kernels/codec/assign_buffer.h"
#include "kernels/codec/variant.h"

enum {
  SAMPLE_LINES = 256, /* at least; eight times as many of large shards */
  LIST_SLACK = 16,    /* vector stores may run over the end of a list */
};

const struct tagc_sparsify_kernels *tagc_sparsify_kernels(void) { return TAGC_OF_VARIANT(tagc_sparsify); }

void tagc_grid_fill(struct tagc_grid *grid, uint64_t n, uint32_t keep_ppm, uint32_t stripes) {
  const uint32_t lines = (uint32_t)((n + TAGC_GRID_LINE - 1) / TAGC_GRID_LINE);
  *grid = (struct tagc_grid){
    .n = n,
    .keep_ppm = keep_ppm,
    .lines = lines,
    .stripes = stripes,
    .groups = lines / stripes,
    .rest = lines % stripes,
  };
  grid->stripe_lines = grid->groups + (grid->rest > 0);
  uint64_t positions = (uint64_t)grid->stripe_lines * TAGC_GRID_LINE;
  uint64_t capacity = (positions < n ? positions : n) * keep_ppm / 1000000;
  grid->stripe_capacity = capacity ? (uint32_t)capacity : 1;
}

/* About 1.1 to 1.3 times the capacity become candidates. */
size_t tagc_sparsify_assign_buffers(struct tagc_sparsify_memory *out, const struct tagc_grid *grid, size_t shards,
                                    void *base, size_t used) {
  const size_t lists = shards * grid->stripes, positions = (size_t)grid->stripe_lines * TAGC_GRID_LINE;
  const size_t room = 2 * (size_t)grid->stripe_capacity + positions / 128;
  out->stride = ((size_t)grid->stripe_capacity + 15) / 16 * 16 + LIST_SLACK;
  out->room = (room < positions ? room : positions) + TAGC_GRID_LINE;
  out->counts = tagc_assign_buffer(base, &used, lists * sizeof *out->counts);
  out->values = tagc_assign_buffer(base, &used, lists * out->stride * sizeof *out->values);
  out->ids = tagc_assign_buffer(base, &used, lists * out->stride * sizeof *out->ids);
  const size_t candidates = grid->stripes * (out->room + TAGC_GRID_LINE);
  out->candidates = tagc_assign_buffer(base, &used, grid->stripes * sizeof *out->candidates);
  out->candidate_values = tagc_assign_buffer(base, &used, candidates * sizeof *out->candidate_values);
  out->candidate_ids = tagc_assign_buffer(base, &used, candidates * sizeof *out->candidate_ids);
  return used;
}

/* The first bin from the top, plus one, whose values do not fit into `capacity` after *above values; 0: all fit. */
static uint32_t find_boundary(const uint32_t *histogram, uint32_t top, uint32_t bottom, uint32_t capacity,
                              uint32_t *above) {
  for (uint32_t bin = top; bin-- > bottom;) {
    if (histogram[bin] > capacity - *above)
      return bin + 1;
    *above += histogram[bin];
  }
  return 0;
}

/* The fine bin in which `capacity` ends, by coarse and then fine bins: of a list, or, without one, of the residual. */
static struct tagc_sparsify_choice find_bin(const struct tagc_sparsify_part *part, const float *values, uint32_t count,
                                            uint32_t capacity) {
  const struct tagc_sparsify_kernels *kernels = tagc_sparsify_kernels();
  uint32_t histogram[TAGC_BIN_COARSE] = {0}, above = 0, coarse, fine;
  if (values)
    kernels->count_list(values, count, TAGC_SPARSIFY_NO_BIN, histogram);
  else
    kernels->count_residual(part, TAGC_SPARSIFY_NO_BIN, histogram);
  coarse = find_boundary(histogram, TAGC_BIN_HUGE / TAGC_BIN_FINE, TAGC_BIN_TINY / TAGC_BIN_FINE, capacity, &above);
  if (coarse == 0)
    return (struct tagc_sparsify_choice){.bin = TAGC_BIN_TINY - 1, .above = above};
  memset(histogram, 0, TAGC_BIN_FINE * sizeof *histogram);
  if (values)
    kernels->count_list(values, count, coarse - 1, histogram);
  else
    kernels->count_residual(part, coarse - 1, histogram);
  fine = find_boundary(histogram, TAGC_BIN_FINE, 0, capacity, &above);
  return (struct tagc_sparsify_choice){
    .bin = (coarse - 1) * TAGC_BIN_FINE + fine - 1,
    .above = above,
    .count = histogram[fine - 1],
  };
}

/* Takes as many values of the boundary bin as fit. */
static void fill_up(struct tagc_sparsify_choice *choice, const struct tagc_sparsify_part *part) {
  if (choice->bin < TAGC_BIN_TINY)
    return;
  choice->take = part->capacity - choice->above;
  choice->offset = tagc_bin_offset(part->seed, choice->count);
}

/* The lowest magnitude to collect: the sample's share of the capacity, 1/32 more, and three standard deviations. */
static uint32_t guess_threshold(const struct tagc_sparsify_shard *shard) {
  const struct tagc_grid *grid = shard->grid;
  const struct tagc_sparsify_memory *memory = shard->memory;
  const uint32_t room = (uint32_t)(grid->stripes * memory->room / TAGC_GRID_LINE), few = SAMPLE_LINES;
  uint32_t lines = grid->lines / 128 < few ? few : grid->lines / 128 < 8 * few ? grid->lines / 128 : 8 * few;
  lines = lines < room ? lines : room;
  float *values = memory->candidate_values;
  uint32_t count = tagc_sparsify_kernels()->sample(shard, (grid->lines - 1) / lines + 1, values);
  uint64_t expected = (uint64_t)count * grid->keep_ppm / 1000000, deviation = 1;
  while (deviation * deviation < expected)
    deviation++;
  uint64_t enough = expected + expected / 32 + 3 * deviation + 8;
  struct tagc_sparsify_choice choice = find_bin(NULL, values, count, (uint32_t)enough);
  return (choice.bin < TAGC_BIN_TINY ? TAGC_BIN_TINY : choice.bin) << 12;
}

/* The short way for a stripe, from its list of candidates. False if they are too few, or far too many. */
static bool choose_candidates(const struct tagc_sparsify_part *part, const struct tagc_sparsify_list *list,
                              struct tagc_sparsify_choice *choice) {
  const uint32_t lowest = tagc_bin_of(list->threshold), most = TAGC_SPARSIFY_NEAR - 1;
  uint32_t histogram[TAGC_SPARSIFY_NEAR] = {0}, above = 0, near;
  if (list->threshold == UINT32_MAX)
    return false;
  tagc_sparsify_kernels()->count_near(list->values, list->count, list->threshold, histogram);
  near = find_boundary(histogram, TAGC_SPARSIFY_NEAR, 0, part->capacity, &above);
  *choice = (struct tagc_sparsify_choice){.bin = TAGC_BIN_TINY - 1, .above = above};
  if (near == 0)
    return above == part->capacity || lowest == TAGC_BIN_TINY;
  choice->bin = lowest + near - 1;
  choice->count = histogram[near - 1];
  return near - 1 < most;
}

/* The long way for a stripe, with all its values in the residual. */
static uint32_t select_all(const struct tagc_sparsify_part *part) {
  struct tagc_sparsify_choice choice = find_bin(part, NULL, 0, part->capacity);
  fill_up(&choice, part);
  return tagc_sparsify_kernels()->select(part, &choice);
}

void tagc_sparsify_put_back(const struct tagc_sparsify_shard *shard, uint32_t stripe) {
  struct tagc_sparsify_list *list = &shard->memory->candidates[stripe];
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t line = tagc_grid_line(shard->grid->stripes, stripe, list->ids[i] / TAGC_GRID_LINE);
    shard->residual[(uint64_t)line * TAGC_GRID_LINE + list->ids[i] % TAGC_GRID_LINE] = list->values[i];
  }
  list->count = 0;
  list->threshold = UINT32_MAX;
}

/* Selects from one stripe of a scanned shard. True if it went the short way. */
static bool select_part(const struct tagc_sparsify_part *part, struct tagc_sparsify_list *list, uint32_t *count,
                        double *norm2) {
  struct tagc_sparsify_choice choice;
  bool good = choose_candidates(part, list, &choice);
  if (good) {
    fill_up(&choice, part);
    *count = tagc_sparsify_kernels()->filter(part, list, &choice, norm2);
  } else {
    tagc_sparsify_put_back(part->shard, part->stripe);
    *count = select_all(part);
  }
  /* Stripes differ by one line at most; the wire must have no undefined bytes. */
  for (uint32_t line = part->lines; line < part->grid->stripe_lines; line++)
    part->bitmap[line] = 0;
  return good;
}

/* The squared norm of the residual without the places of chosen values. */
static double norm_of(const struct tagc_sparsify_shard *shard) {
  const struct tagc_grid *grid = shard->grid;
  double norm2 = 0;
  for (uint32_t line = 0; line < grid->lines; line++) {
    const uint32_t stripe = tagc_grid_stripe_of(grid->stripes, line), local = line / grid->stripes;
    const uint32_t chosen = shard->bitmap[(size_t)stripe * grid->stripe_lines + local];
    const uint64_t at = (uint64_t)line * TAGC_GRID_LINE;
    for (uint32_t lane = 0; lane < TAGC_GRID_LINE && at + lane < grid->n; lane++)
      if (!(chosen >> lane & 1))
        norm2 += (double)shard->residual[at + lane] * (double)shard->residual[at + lane];
  }
  return norm2;
}

/* Empty lists for all stripes. */
static void clear_lists(const struct tagc_sparsify_shard *shard, uint32_t threshold) {
  const struct tagc_sparsify_memory *memory = shard->memory;
  for (uint32_t stripe = 0; stripe < shard->grid->stripes; stripe++)
    memory->candidates[stripe] = (struct tagc_sparsify_list){
      .values = memory->candidate_values + stripe * (memory->room + TAGC_GRID_LINE),
      .ids = memory->candidate_ids + stripe * (memory->room + TAGC_GRID_LINE),
      .bitmap = shard->bitmap + (size_t)stripe * shard->grid->stripe_lines,
      .threshold = threshold,
    };
}

double tagc_sparsify(const struct tagc_sparsify_shard *shard) {
  const struct tagc_grid *grid = shard->grid;
  const struct tagc_sparsify_memory *memory = shard->memory;
  clear_lists(shard, guess_threshold(shard));
  double norm2 = tagc_sparsify_kernels()->scan(shard);
  bool good = true;
  for (uint32_t stripe = 0; stripe < grid->stripes; stripe++) {
    const size_t list = shard->list * grid->stripes + stripe;
    struct tagc_sparsify_part part = {
      .shard = shard,
      .grid = grid,
      .stripe = stripe,
      .lines = tagc_grid_stripe_lines(grid, stripe),
      .capacity = tagc_grid_capacity(grid, stripe),
      .seed = tagc_grid_seed(shard->seed, shard->number, stripe),
      .bitmap = memory->candidates[stripe].bitmap,
      .values = memory->values + list * memory->stride,
      .ids = memory->ids + list * memory->stride,
    };
    good &= select_part(&part, &memory->candidates[stripe], &memory->counts[list], &norm2);
  }
  return good ? norm2 : norm_of(shard);
}

uint32_t tagc_sparsify_surplus(const struct tagc_sparsify_shard *shard, double left) {
  const struct tagc_sparsify_memory *memory = shard->memory;
  const struct tagc_grid *grid = shard->grid;
  const size_t first = shard->list * grid->stripes;
  bool full = false;
  double chosen = 0;
  for (uint32_t stripe = 0; stripe < grid->stripes; stripe++)
    full |= memory->counts[first + stripe] >= tagc_grid_capacity(grid, stripe);
  for (uint32_t stripe = 0; stripe < grid->stripes && full; stripe++)
    for (uint32_t i = 0; i < memory->counts[first + stripe]; i++) {
      const double x = memory->values[(first + stripe) * memory->stride + i];
      chosen += x * x;
    }
  return full && left * 64 > chosen ? TAGC_ANYWHERE_SURPLUS : 0;
}

uint32_t tagc_sparsify_own_largest(const struct tagc_job *job, uint32_t *anywhere) {
  const void *own = tagc_job_shard(job, job->rank);
  const uint32_t most = tagc_sparsify_kernels()->largest(own, job->shape.n, job->shape.dtype, job->scale);
  *anywhere |= tagc_is_exception(most) ? TAGC_ANYWHERE_EXCEPTION : 0;
  return most;
}
