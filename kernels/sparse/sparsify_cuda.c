/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the kernels of sparsify.cu: see sparsify_cuda.h.
 */
#include "kernels/sparse/sparsify_cuda.h"

#include "kernels/codec/assign_buffer.h"

enum {
  WARPS = TAGC_CUDA_THREADS / 32,
  CLEARED_BYTES = 64 * TAGC_CUDA_THREADS, /* by a group of the first kernel */
};

/* Divides the memory; returns its bytes. */
static size_t assign_choosing(struct tagc_choosing *out, const struct tagc_grid *grid, uint32_t places, void *base) {
  const size_t parts = (size_t)places * grid->stripes;
  size_t used = 0;
  out->places = places;
  out->tiles = (grid->stripe_lines + TAGC_CHOOSE_TILE - 1) / TAGC_CHOOSE_TILE;
  out->spans = (out->tiles + TAGC_CHOOSE_SPAN - 1) / TAGC_CHOOSE_SPAN;
  out->parts = tagc_assign_buffer(base, &used, parts * sizeof *out->parts);
  const size_t cleared = used;
  out->histograms = tagc_assign_buffer(base, &used, parts * TAGC_SPARSIFY_NEAR * sizeof *out->histograms);
  out->arrived = tagc_assign_buffer(base, &used, 3 * (size_t)places * sizeof *out->arrived);
  out->long_ways = tagc_assign_buffer(base, &used, sizeof *out->long_ways);
  out->edge_sums = tagc_assign_buffer(base, &used, parts * out->spans * sizeof *out->edge_sums);
  out->cleared = used - cleared;
  out->guesses = tagc_assign_buffer(base, &used, places * sizeof *out->guesses);
  out->own = tagc_assign_buffer(base, &used, TAGC_CUDA_GROUPS * sizeof *out->own);
  out->edges = tagc_assign_buffer(base, &used, parts * out->tiles * TAGC_CHOOSE_TILE * sizeof *out->edges);
  out->edge_counts = tagc_assign_buffer(base, &used, parts * out->tiles * sizeof *out->edge_counts);
  return used;
}

size_t tagc_choose_bytes(const struct tagc_grid *grid, uint32_t places) {
  struct tagc_choosing choosing;
  return assign_choosing(&choosing, grid, places, NULL);
}

/* Around the sample's share of the capacity: two standard deviations, as if all values of a line were alike. */
static struct tagc_choose_sampling sample_of(const struct tagc_grid *grid) {
  const uint32_t step = (grid->lines - 1) / TAGC_CHOOSE_SAMPLED + 1, lines = (grid->lines - 1 - step / 2) / step + 1;
  const uint32_t expected = (uint32_t)((uint64_t)lines * TAGC_GRID_LINE * grid->keep_ppm / 1000000);
  uint32_t deviation = 1;
  while (deviation * deviation < expected * TAGC_GRID_LINE)
    deviation++;
  const uint32_t margin = 2 * deviation + 8;
  return (struct tagc_choose_sampling){
    .step = step,
    .lines = lines,
    .fewest = expected > margin ? expected - margin : 0,
    .most = expected + margin,
  };
}

static struct tagc_choosing choosing_of(const struct tagc_choose_call *choose) {
  struct tagc_choosing choosing = {.of = *choose, .sample = sample_of(&choose->grid)};
  assign_choosing(&choosing, &choose->grid, choose->call.nranks - 1, choose->memory);
  return choosing;
}

/* A warp for each block of the own shard, a group for each guess, or as many as clearing needs. */
static struct tagc_cuda_grid grid_to_begin(const struct tagc_cuda_launcher *launcher,
                                           const struct tagc_choosing *choosing) {
  const uint64_t clear = (choosing->cleared + CLEARED_BYTES - 1) / CLEARED_BYTES;
  const uint64_t look = (choosing->of.call.blocks + WARPS - 1) / WARPS;
  const uint64_t groups = clear > look ? clear : look;
  return tagc_cuda_grid_for(launcher, groups > choosing->places ? groups : choosing->places, 1);
}

int tagc_choose_enqueue(const struct tagc_cuda_launcher *launcher, const struct tagc_choose_call *choose,
                        void *stream) {
  struct tagc_choosing choosing = choosing_of(choose);
  const uint32_t places = choosing.places;
  const uint64_t rows = (choose->grid.n + 1023) / 1024;
  const struct tagc_cuda_grid begin = grid_to_begin(launcher, &choosing);
  const struct tagc_cuda_grid scan = tagc_cuda_grid_for(launcher, (rows + WARPS - 1) / WARPS, places);
  const struct tagc_cuda_grid tiles =
    tagc_cuda_grid_for(launcher, (uint64_t)choose->grid.stripes * choosing.tiles, places);
  const struct {
    enum tagc_cuda_kernel kernel;
    struct tagc_cuda_grid grid;
  } launches[] = {
    {tagc_choose_begin_kernel, begin}, {tagc_choose_scan_kernel, scan},  {tagc_choose_coarse_kernel, tiles},
    {tagc_choose_fine_kernel, tiles},  {tagc_choose_mark_kernel, tiles}, {tagc_choose_fill_kernel, tiles},
  };
  int error = 0;
  choosing.own_groups = begin.x;
  for (size_t i = 0; i < sizeof launches / sizeof *launches && !error; i++)
    error = tagc_cuda_launch(launcher, launches[i].kernel, launches[i].grid, &choosing, stream);
  return error;
}

int tagc_choose_close(const struct tagc_cuda_launcher *launcher, const struct tagc_choose_call *choose, void *stream) {
  const struct tagc_cuda_grid grid = tagc_cuda_grid_for(launcher, choose->call.nranks - 1, 1);
  return tagc_cuda_launch(launcher, tagc_choose_weigh_kernel, grid, choose, stream);
}
