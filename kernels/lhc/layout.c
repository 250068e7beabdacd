/* SPDX-License-Identifier: BSD-3-Clause
 * Sizes of the `lhc` codec: pure functions of the shape, equal on every rank. See lhc.h and codec.c.
 *
 * Sizes cannot overflow: n < 2^32 and nranks <= 2^16 keep every product below 2^60.
 */
#include "kernels/codec/assign_buffer.h"
#include "kernels/lhc/lhc.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { SHRINK = 128 }; /* reaches every branch at sizes that take microseconds */
#else
enum { SHRINK = 1 };
#endif

enum {
  MAX_RANKS = 1 << 16,
  SPARSE_BELOW = 4096 / SHRINK,       /* union capacity of a shard: smaller sketches fail too often */
  FOUR_HASHES_BELOW = 30000 / SHRINK, /* union capacity of a stripe */
  ONE_STRIPE_UP_TO = 65536 / SHRINK,  /* union capacity of a shard; also the most that 16 bits can number */
  STRIPE_UNION = 49152 / SHRINK,      /* a stripe's target beyond: cells and support fit the second-level cache */
  LIST_SLACK = 16,                    /* vector stores may run over the end of a list */
};

static int ceil_log2(uint32_t x) {
  int bits = 0;
  while ((UINT64_C(1) << bits) < x)
    bits++;
  return bits;
}

static uint64_t at_most(uint64_t x, uint64_t limit) { return x < limit ? x : limit; }

/* Counters per value: 1.215 and the checks with three hashes and dense octets, 1.35 with four. The limits for infinite
 * sizes are 1.164 and 1.295; tests/bench/RESULTS.md ("Counters of lhc") has what was measured at these and other sizes.
 */
static void size_sketch(struct tagc_lhc_geometry *geo) {
  bool small = geo->union_capacity < FOUR_HASHES_BELOW;
  uint64_t thousandths = small ? 1350 : 1215;
  geo->hashes = small ? 4 : 3;
  uint64_t row = 1000 * (uint64_t)geo->hashes * TAGC_GRID_LINE;
  geo->part_cells = (uint32_t)((geo->union_capacity * thousandths + row - 1) / row) * TAGC_GRID_LINE;
  geo->stripe_counters = geo->hashes * geo->part_cells + (small ? 0 : TAGC_LHC_CHECKS);
}

bool tagc_lhc_geometry_fill(struct tagc_lhc_geometry *geo, const struct tagc_shape *shape) {
  if (shape->n == 0 || shape->n > UINT32_MAX || shape->nranks < 2 || shape->nranks > MAX_RANKS ||
      shape->keep_ppm == 0 || shape->keep_ppm > 1000000)
    return false;
  uint64_t senders = (uint64_t)shape->nranks - 1, kept = shape->n * shape->keep_ppm / 1000000;
  uint64_t whole = at_most(senders * (kept ? kept : 1), shape->n);
  uint64_t stripes = whole <= ONE_STRIPE_UP_TO ? 1 : (whole + STRIPE_UNION / 2) / STRIPE_UNION;
  if (whole > ONE_STRIPE_UP_TO && stripes < 2)
    stripes = 2;
  *geo = (struct tagc_lhc_geometry){
    .senders = (uint32_t)senders,
    .blocks = (uint32_t)((shape->n + 1023) / 1024),
    .counter_bits = 31 - ceil_log2((uint32_t)shape->nranks),
    .narrow_residual = shape->residual > TAGC_STORAGE_FP32,
  };
  tagc_grid_fill(&geo->grid, shape->n, shape->keep_ppm, (uint32_t)stripes);
  uint64_t positions = at_most((uint64_t)geo->grid.stripe_lines * TAGC_GRID_LINE, shape->n);
  geo->union_capacity = (uint32_t)at_most(senders * geo->grid.stripe_capacity, positions);
  if (whole >= SPARSE_BELOW)
    size_sketch(geo);
  return true;
}

void tagc_lhc_message_fill(struct tagc_lhc_message *out, const struct tagc_lhc_geometry *geo) {
  const size_t at = tagc_exceptions_bytes(geo->grid.n);
  const size_t words = (size_t)geo->grid.stripes * geo->grid.stripe_lines;
  *out = (struct tagc_lhc_message){.bitmap = at, .bytes = at + tagc_pad16(sizeof(uint32_t) * words)};
  if (geo->hashes)
    return;
  tagc_sparse_message_fill(&out->sparse, geo->grid.n, geo->grid.stripe_capacity, true);
  out->bytes = out->sparse.bytes;
}

/* Assigns the buffers from prepare to encode. */
static size_t assign_sending(struct tagc_lhc_state *out, const struct tagc_lhc_geometry *geo, void *base, size_t used) {
  used = tagc_sparsify_assign_buffers(&out->selected, &geo->grid, geo->senders, base, used);
  out->bitmap = tagc_assign_buffer(base, &used, geo->hashes ? 0 : (size_t)geo->grid.lines * sizeof *out->bitmap);
  const size_t widened = geo->narrow_residual ? geo->senders * geo->grid.n : 0;
  out->residual = tagc_assign_buffer(base, &used, widened * sizeof *out->residual);
  return used;
}

/* Assigns the buffers of decode. A cell enters the queue once, and once more for every 256 words taken out of it, which
 * are twelve of an element at most. A cell never has so many, but a hostile support must not lead out of the queue
 * either. */
static size_t assign_receiving(struct tagc_lhc_state *out, const struct tagc_lhc_geometry *geo, void *base,
                               size_t used) {
  const size_t cells = (size_t)geo->hashes * geo->part_cells;
  const size_t support = geo->hashes ? geo->union_capacity + 2 * LIST_SLACK : 0;
  out->support = support;
  out->queue_room = cells ? cells + 3 * TAGC_LHC_TURNS * support / 256 + LIST_SLACK : 0;
  const size_t exceptions = geo->senders * tagc_exceptions_capacity(geo->grid.n);
  const size_t words = geo->hashes ? (size_t)geo->grid.stripes * geo->grid.stripe_lines : 0;
  out->exceptions = tagc_assign_buffer(base, &used, exceptions * sizeof *out->exceptions);
  out->cursors =
    tagc_assign_buffer(base, &used, (geo->hashes ? geo->grid.stripes : geo->senders) * sizeof *out->cursors);
  out->masks = tagc_assign_buffer(base, &used, words * sizeof *out->masks);
  out->elements = tagc_assign_buffer(base, &used, geo->grid.stripes * support * sizeof *out->elements);
  out->cells = tagc_assign_buffer(base, &used, cells * sizeof *out->cells);
  out->queue = tagc_assign_buffer(base, &used, 2 * out->queue_room * sizeof *out->queue);
  out->peeled = tagc_assign_buffer(base, &used, support);
  return used;
}

size_t tagc_lhc_assign_state(struct tagc_lhc_state *out, const struct tagc_lhc_geometry *geo, void *base) {
  size_t used = 0;
  out->header = tagc_assign_buffer(base, &used, sizeof *out->header);
  size_t sending = assign_sending(out, geo, base, used), receiving = assign_receiving(out, geo, base, used);
  return sending > receiving ? sending : receiving;
}

bool tagc_lhc_layout(const struct tagc_shape *shape, struct tagc_layout *out) {
  struct tagc_lhc_geometry geo;
  struct tagc_lhc_message message;
  struct tagc_lhc_state state;
  if (!tagc_lhc_geometry_fill(&geo, shape))
    return false;
  tagc_lhc_message_fill(&message, &geo);

  /* Stripes come in two lengths, and one of the longer ones holds the last line, which may be incomplete. */
  uint32_t last = tagc_grid_stripe_of(geo.grid.stripes, geo.grid.lines - 1);
  uint64_t longer = geo.grid.rest ? geo.grid.rest : geo.grid.stripes, shorter = geo.grid.stripes - longer;
  uint64_t shorter_capacity = (uint64_t)geo.grid.groups * TAGC_GRID_LINE * geo.grid.keep_ppm / 1000000;
  *out = (struct tagc_layout){
    .exponent_bytes = geo.hashes ? tagc_pad16(geo.blocks) : 0,
    .sketch_count = (size_t)geo.grid.stripes * geo.stripe_counters,
    .message_bytes = message.bytes,
    .state_bytes = tagc_lhc_assign_state(&state, &geo, NULL),
    .capacity = (longer - 1) * geo.grid.stripe_capacity + shorter * (shorter_capacity ? shorter_capacity : 1) +
                tagc_grid_capacity(&geo.grid, last),
  };
  return true;
}
