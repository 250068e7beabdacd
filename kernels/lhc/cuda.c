/* SPDX-License-Identifier: BSD-3-Clause
 * Launches the kernels of lhc.cu: see cuda.h.
 */
#include "kernels/lhc/cuda.h"

#include "kernels/codec/assign_buffer.h"
#include "kernels/lhc/lhc.h"

enum { MANY_WARPS = TAGC_CUDA_MANY_THREADS / 32, CLEARED_BYTES = 16 * TAGC_CUDA_THREADS };

/* The contents of job->state, one part after the other; sending and receiving share memory. */
struct lhc_state {
  struct tagc_cuda_state *state;
  unsigned long long *words;
  void *lists;
  /* from prepare to encode */
  double *norms, *shard_norms;
  struct tagc_choose_shard *shards;
  uint32_t *counts;
  uint32_t *bitmap; /* lists: `bitmap_words` a shard */
  size_t bitmap_words;
  void *choosing;
  /* decode */
  unsigned long long *cells, *due;
  uint32_t *elements, *queue, *warp_counts;
  struct tagc_lhc_line *lines;
};

static uint32_t most_parts(const struct tagc_lhc_geometry *geo) {
  return (geo->union_capacity + TAGC_LHC_GROUP_VALUES - 1) / TAGC_LHC_GROUP_VALUES;
}

static size_t assign_gpu_sending(struct lhc_state *out, const struct tagc_lhc_geometry *geo, void *base, size_t used) {
  const size_t places = geo->senders, rows = places < TAGC_CUDA_ROWS ? places : TAGC_CUDA_ROWS;
  out->norms = tagc_assign_buffer(base, &used, TAGC_CUDA_GROUPS * sizeof *out->norms);
  out->shard_norms = tagc_assign_buffer(base, &used, places * (TAGC_CUDA_GROUPS / rows) * 2 * sizeof *out->shard_norms);
  out->shards = tagc_assign_buffer(base, &used, places * sizeof *out->shards);
  out->counts = tagc_assign_buffer(base, &used, places * geo->grid.stripes * sizeof *out->counts);
  out->bitmap_words = geo->hashes ? 0 : ((size_t)geo->grid.lines + 15) / 16 * 16;
  out->bitmap = tagc_assign_buffer(base, &used, (places + 1) * out->bitmap_words * sizeof *out->bitmap);
  out->choosing = tagc_assign_buffer(base, &used, tagc_choose_bytes(&geo->grid, geo->senders));
  return used;
}

static size_t assign_gpu_receiving(struct lhc_state *out, const struct tagc_lhc_geometry *geo, void *base,
                                   size_t used) {
  const size_t stripes = geo->hashes ? geo->grid.stripes : 0, support = stripes * geo->union_capacity;
  out->cells = tagc_assign_buffer(base, &used, stripes * geo->stripe_counters * sizeof *out->cells);
  out->due = tagc_assign_buffer(base, &used, support * sizeof *out->due);
  out->elements = tagc_assign_buffer(base, &used, support * sizeof *out->elements);
  out->queue = tagc_assign_buffer(base, &used, support * sizeof *out->queue);
  out->warp_counts = tagc_assign_buffer(base, &used, stripes * most_parts(geo) * MANY_WARPS * sizeof *out->warp_counts);
  out->lines = tagc_assign_buffer(base, &used, (geo->hashes ? geo->grid.lines : 0) * sizeof *out->lines);
  return used;
}

static size_t lhc_assign_gpu_state(struct lhc_state *out, const struct tagc_lhc_geometry *geo, void *base) {
  size_t used = 0;
  out->state = tagc_assign_buffer(base, &used, sizeof *out->state);
  out->words = tagc_assign_buffer(base, &used, geo->grid.stripes * (size_t)TAGC_LHC_WORDS * sizeof *out->words);
  out->lists = tagc_assign_buffer(base, &used, geo->hashes ? 0 : tagc_lists_bytes(geo->grid.n, geo->senders + 1));
  const size_t sending = assign_gpu_sending(out, geo, base, used),
               receiving = assign_gpu_receiving(out, geo, base, used);
  return sending > receiving ? sending : receiving;
}

/* Indices of elements have 32 bits. */
bool tagc_lhc_cuda_layout(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out) {
  struct tagc_lhc_geometry geo;
  struct lhc_state state;
  if (!codec->layout(shape, out) || !tagc_lhc_geometry_fill(&geo, shape) ||
      (geo.hashes && (uint64_t)geo.grid.stripes * geo.union_capacity > UINT32_MAX))
    return false;
  out->state_bytes = lhc_assign_gpu_state(&state, &geo, NULL);
  return true;
}

static struct tagc_lhc_call lhc_call_of(const struct tagc_job *job, struct tagc_counts *counts, struct lhc_state *state,
                                        struct tagc_lhc_message *message) {
  struct tagc_lhc_call lhc = {
    .call = tagc_cuda_call_of(job, counts),
    .exponents = job->exponents,
    .sketch_out = job->sketch_out,
    .sketch_in = job->sketch_in,
    .exponent_bytes = job->layout.exponent_bytes,
    .sketch_count = job->layout.sketch_count,
    .measured = job->measured,
  };
  tagc_lhc_geometry_fill(&lhc.geo, &job->shape);
  tagc_lhc_message_fill(message, &lhc.geo);
  lhc_assign_gpu_state(state, &lhc.geo, job->state);
  lhc.call.norms = state->norms;
  lhc.bitmap_at = message->bitmap;
  lhc.shards = state->shards;
  lhc.norms = state->shard_norms;
  lhc.words = state->words;
  lhc.cells = state->cells;
  lhc.due = state->due;
  lhc.elements = state->elements;
  lhc.queue = state->queue;
  lhc.counts = state->warp_counts;
  lhc.lines = state->lines;
  lhc.most_parts = most_parts(&lhc.geo);
  return lhc;
}

static struct tagc_choose_call choose_of(const struct tagc_lhc_call *lhc, const struct lhc_state *state) {
  const bool lists = lhc->geo.hashes == 0;
  return (struct tagc_choose_call){
    .call = lhc->call,
    .grid = lhc->geo.grid,
    .exponents = lists || lhc->measured ? NULL : lhc->exponents,
    .exponent_bytes = lhc->exponent_bytes,
    .bitmap = lists ? state->bitmap : (uint32_t *)(lhc->call.message_out + lhc->bitmap_at),
    .bitmap_words = lists ? state->bitmap_words : lhc->call.message_bytes / sizeof(uint32_t),
    .shards = state->shards,
    .counts = state->counts,
    .memory = state->choosing,
  };
}

static int clear(const struct tagc_cuda_launcher *launcher, const struct tagc_lhc_call *lhc, void *stream) {
  const uint64_t bytes = lhc->call.nranks * (4 * lhc->sketch_count + lhc->exponent_bytes);
  const struct tagc_cuda_grid grid = tagc_cuda_grid_for(launcher, (bytes + CLEARED_BYTES - 1) / CLEARED_BYTES, 1);
  return tagc_cuda_launch(launcher, tagc_lhc_clear_kernel, grid, lhc, stream);
}

int tagc_lhc_cuda_measure(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                          const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  struct lhc_state state;
  struct tagc_lhc_message message;
  const struct tagc_lhc_call lhc = lhc_call_of(job, counts, &state, &message);
  const uint64_t groups = (lhc.exponent_bytes + TAGC_CUDA_THREADS / 32 - 1) / (TAGC_CUDA_THREADS / 32);
  (void)codec;
  if (lhc.geo.hashes == 0)
    return 0;
  return tagc_cuda_launch(launcher, tagc_lhc_measure_kernel, tagc_cuda_grid_for(launcher, groups, lhc.call.nranks),
                          &lhc, stream);
}

int tagc_lhc_cuda_prepare(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                          const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  struct lhc_state state;
  struct tagc_lhc_message message;
  const struct tagc_lhc_call lhc = lhc_call_of(job, counts, &state, &message);
  const struct tagc_choose_call choose = choose_of(&lhc, &state);
  (void)codec;
  const int error = lhc.geo.hashes ? clear(launcher, &lhc, stream) : 0;
  return error ? error : tagc_choose_enqueue(launcher, &choose, stream);
}

int tagc_lhc_cuda_encode(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                         const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  struct lhc_state state;
  struct tagc_lhc_message message;
  struct tagc_lhc_call lhc = lhc_call_of(job, counts, &state, &message);
  const struct tagc_cuda_grid grid = tagc_cuda_grid_of_blocks(launcher, &lhc.call, lhc.geo.senders);
  int error;
  (void)codec;
  lhc.call.groups = lhc.geo.hashes ? grid.x * grid.y : tagc_lists_groups(launcher, &lhc.call);
  const struct tagc_choose_call choose = choose_of(&lhc, &state);
  if (lhc.geo.hashes)
    error = tagc_cuda_launch(launcher, tagc_lhc_send_kernel, grid, &lhc, stream);
  else
    error = tagc_lists_pack(launcher, &choose, &message.sparse, state.lists, stream);
  return error ? error : tagc_choose_close(launcher, &choose, stream);
}

enum {
  GROUPS_A_PROCESSOR = 2, /* as many of 1,024 threads as most processors have room for */
  FEW_ROUNDS = 2,         /* in launches of their own, for supports below LARGE */
  MANY_ROUNDS = 22,
  LARGE = 16384,
};

/* The groups that share a stripe. */
static uint32_t groups_of_stripe(const struct tagc_cuda_launcher *launcher, const struct tagc_lhc_call *lhc) {
  const uint32_t all = launcher->processors * GROUPS_A_PROCESSOR;
  const uint32_t room = (launcher->most && launcher->most < all ? launcher->most : all) / lhc->geo.grid.stripes;
  return room < 2 ? 1 : room < lhc->most_parts ? room : lhc->most_parts;
}

static int open_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_lhc_call *lhc, void *stream) {
  const uint64_t cells = lhc->sketch_count * sizeof *lhc->cells;
  const struct tagc_cuda_grid grid = tagc_cuda_grid_for(launcher, (cells + CLEARED_BYTES - 1) / CLEARED_BYTES, 1);
  return tagc_cuda_launch(launcher, tagc_lhc_open_kernel, grid, lhc, stream);
}

/* The steps and the first rounds, each a launch of groups that share stripes. */
static int share_stripes(const struct tagc_cuda_launcher *launcher, struct tagc_lhc_call *lhc, void *stream) {
  static const enum tagc_cuda_kernel steps[] = {tagc_lhc_list_kernel, tagc_lhc_build_kernel, tagc_lhc_look_kernel};
  const uint32_t rounds = lhc->geo.union_capacity < LARGE ? FEW_ROUNDS : MANY_ROUNDS;
  const struct tagc_cuda_grid grid = {lhc->geo.grid.stripes * lhc->parts, 1};
  int error = 0;
  for (size_t i = 0; i < sizeof steps / sizeof *steps && !error; i++)
    error = tagc_cuda_launch(launcher, steps[i], grid, lhc, stream);
  for (; lhc->round <= rounds && !error; lhc->round++)
    error = tagc_cuda_launch(launcher, tagc_lhc_take_kernel, grid, lhc, stream);
  return error;
}

static int launch_recover(const struct tagc_cuda_launcher *launcher, struct tagc_lhc_call *lhc, void *stream) {
  const struct tagc_cuda_grid grid = tagc_cuda_grid_for(launcher, lhc->geo.grid.stripes, 1);
  lhc->round = 1;
  const int error = lhc->parts > 1 ? share_stripes(launcher, lhc, stream) : 0;
  return error ? error : tagc_cuda_launch(launcher, tagc_lhc_recover_kernel, grid, lhc, stream);
}

int tagc_lhc_cuda_decode(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec,
                         const struct tagc_job *job, struct tagc_counts *counts, void *stream) {
  struct lhc_state state;
  struct tagc_lhc_message message;
  struct tagc_lhc_call lhc = lhc_call_of(job, counts, &state, &message);
  const struct tagc_cuda_grid grid = tagc_cuda_grid_of_blocks(launcher, &lhc.call, 1);
  (void)codec;
  int error = tagc_cuda_check(launcher, &lhc.call, stream);
  if (!error && lhc.geo.hashes == 0)
    return tagc_lists_sum(launcher, &lhc.call, &message.sparse, state.lists, stream);
  lhc.parts = groups_of_stripe(launcher, &lhc);
  if (!error)
    error = open_decode(launcher, &lhc, stream);
  if (!error)
    error = launch_recover(launcher, &lhc, stream);
  return error ? error : tagc_cuda_launch(launcher, tagc_lhc_result_kernel, grid, &lhc, stream);
}
