/* SPDX-License-Identifier: BSD-3-Clause
 * Sizes of the `lhc` codec: pure functions of the shape, equal on every rank. See lhc.h and codec_lhc.c.
 *
 * Sizes cannot overflow: n < 2^32 and nranks <= 2^16 keep every product below 2^60.
 */
#include "kernels/lhc.h"

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { SHRINK = 128 };             /* every way through the code at sizes that take microseconds */
#else
enum { SHRINK = 1 };
#endif

enum {
  MAX_RANKS = 1 << 16,
  SPARSE_BELOW = 4096 / SHRINK,    /* union capacity of a shard: a sketch that small fails too often */
  FOUR_HASHES_BELOW = 30000 / SHRINK,    /* union capacity of a chunk */
  ONE_CHUNK_UP_TO = 65536 / SHRINK,    /* union capacity of a shard; also what 16 bits can number */
  CHUNK_UNION = 49152 / SHRINK,    /* aimed at beyond: cells and support of a chunk stay in the second-level cache */
  LIST_SLACK = 16,                 /* vector stores may run over the end of a list */
};

static int ceil_log2(uint32_t x)
{
  int bits = 0;
  while ((UINT64_C(1) << bits) < x)
    bits++;
  return bits;
}

static uint64_t at_most(uint64_t x, uint64_t limit) { return x < limit ? x : limit; }

/* Counters per value: 1.30 with three hashes, 1.35 with four (1.222 and 1.295 are the limits for endless sizes). */
static void size_sketch(struct tagc_lhc_geometry *geo)
{
  bool small = geo->union_capacity < FOUR_HASHES_BELOW;
  uint64_t hundredths = small ? 135 : 130;
  geo->hashes = small ? 4 : 3;
  uint64_t row = 100 * (uint64_t)geo->hashes * TAGC_LHC_LINE;
  geo->part_cells = (uint32_t)((geo->union_capacity * hundredths + row - 1) / row) * TAGC_LHC_LINE;
}

bool tagc_lhc_geometry_fill(struct tagc_lhc_geometry *geo, const struct tagc_shape *shape)
{
  if (shape->residual > TAGC_STORAGE_FP32)
    return false;
  if (shape->n == 0 || shape->n > UINT32_MAX || shape->nranks < 2 || shape->nranks > MAX_RANKS ||
      shape->keep_ppm == 0 || shape->keep_ppm > 1000000)
    return false;
  uint64_t senders = (uint64_t)shape->nranks - 1, kept = shape->n * shape->keep_ppm / 1000000;
  uint64_t whole = at_most(senders * (kept ? kept : 1), shape->n);
  uint64_t chunks = whole <= ONE_CHUNK_UP_TO ? 1 : (whole + CHUNK_UNION / 2) / CHUNK_UNION;
  if (whole > ONE_CHUNK_UP_TO && chunks < 2)
    chunks = 2;
  *geo = (struct tagc_lhc_geometry){
    .n = shape->n,
    .senders = (uint32_t)senders,
    .keep_ppm = shape->keep_ppm,
    .lines = (uint32_t)((shape->n + TAGC_LHC_LINE - 1) / TAGC_LHC_LINE),
    .chunks = (uint32_t)chunks,
    .blocks = (uint32_t)((shape->n + 1023) / 1024),
    .counter_bits = 31 - ceil_log2((uint32_t)shape->nranks),
  };
  geo->groups = geo->lines / geo->chunks;
  geo->rest = geo->lines % geo->chunks;
  geo->chunk_lines = geo->groups + (geo->rest > 0);
  uint64_t positions = at_most((uint64_t)geo->chunk_lines * TAGC_LHC_LINE, shape->n);
  uint64_t capacity = positions * shape->keep_ppm / 1000000;
  geo->chunk_capacity = capacity ? (uint32_t)capacity : 1;
  geo->union_capacity = (uint32_t)at_most(senders * geo->chunk_capacity, positions);
  if (whole >= SPARSE_BELOW)
    size_sketch(geo);
  return true;
}

void tagc_lhc_message_fill(struct tagc_lhc_message *out, const struct tagc_lhc_geometry *geo)
{
  size_t at = tagc_exceptions_bytes(geo->n);
  *out = (struct tagc_lhc_message){ .bytes = at };
  if (geo->hashes) {
    out->bitmap = at;
    out->bytes = at + tagc_pad16(sizeof(uint32_t) * (size_t)geo->chunks * geo->chunk_lines);
    return;
  }
  out->counts = at;
  out->offsets = out->counts + tagc_pad16(sizeof(uint16_t) * ((geo->n + 255) / 256));
  out->values = out->offsets + tagc_pad16(geo->chunk_capacity);
  out->bytes = out->values + tagc_pad16(sizeof(float) * (size_t)geo->chunk_capacity);
}

/* The next `bytes` of the state, on a line of the cache. */
static void *carve(char *base, size_t *used, size_t bytes)
{
  void *part = base ? base + *used : NULL;
  *used += (bytes + 63) & ~(size_t)63;
  return part;
}

/* What is used from prepare to encode. Candidates: 1.1 to 1.3 times the capacity are expected. */
static size_t carve_sending(struct tagc_lhc_state *out, const struct tagc_lhc_geometry *geo, char *base, size_t used)
{
  const size_t lists = (size_t)geo->senders * geo->chunks;
  const size_t positions = (size_t)geo->chunk_lines * TAGC_LHC_LINE;
  size_t candidates;
  out->stride = ((size_t)geo->chunk_capacity + 15) / 16 * 16 + LIST_SLACK;
  out->room = at_most(2 * (uint64_t)geo->chunk_capacity + positions / 128, positions) + TAGC_LHC_LINE;
  out->counts = carve(base, &used, lists * sizeof *out->counts);
  out->values = carve(base, &used, lists * out->stride * sizeof *out->values);
  out->ids = carve(base, &used, lists * out->stride * sizeof *out->ids);
  candidates = geo->chunks * (out->room + TAGC_LHC_LINE);
  out->candidates = carve(base, &used, geo->chunks * sizeof *out->candidates);
  out->candidate_values = carve(base, &used, candidates * sizeof *out->candidate_values);
  out->candidate_ids = carve(base, &used, candidates * sizeof *out->candidate_ids);
  out->exponents = carve(base, &used, geo->hashes ? 0 : geo->blocks);
  out->bitmap = carve(base, &used, geo->hashes ? 0 : (size_t)geo->lines * sizeof *out->bitmap);
  return used;
}

/* What is used in decode. A cell enters the queue once, and once more for every 256 elements taken out of it: that many
 * are never in one, but a support from elsewhere must not lead out of the queue either. */
static size_t carve_receiving(struct tagc_lhc_state *out, const struct tagc_lhc_geometry *geo, char *base, size_t used)
{
  const size_t cells = (size_t)geo->hashes * geo->part_cells;
  const size_t support = geo->hashes ? geo->union_capacity + 2 * LIST_SLACK : 0;
  out->support = support;
  out->queue_room = cells ? cells + geo->hashes * support / 256 + LIST_SLACK : 0;
  out->exceptions = carve(base, &used, geo->senders * tagc_exceptions_capacity(geo->n) * sizeof *out->exceptions);
  out->cursors = carve(base, &used, (geo->hashes ? geo->chunks : geo->senders) * sizeof *out->cursors);
  out->masks = carve(base, &used, geo->hashes ? (size_t)geo->chunks * geo->chunk_lines * sizeof *out->masks : 0);
  out->elements = carve(base, &used, geo->chunks * support * sizeof *out->elements);
  out->cells = carve(base, &used, cells * sizeof *out->cells);
  out->queue = carve(base, &used, 2 * out->queue_room * sizeof *out->queue);
  out->peeled = carve(base, &used, support);
  return used;
}

size_t tagc_lhc_state_carve(struct tagc_lhc_state *out, const struct tagc_lhc_geometry *geo, void *base)
{
  size_t used = 0;
  out->header = carve(base, &used, sizeof *out->header);
  size_t sending = carve_sending(out, geo, base, used), receiving = carve_receiving(out, geo, base, used);
  return sending > receiving ? sending : receiving;
}

bool tagc_lhc_layout(const struct tagc_shape *shape, struct tagc_layout *out)
{
  struct tagc_lhc_geometry geo;
  struct tagc_lhc_message message;
  struct tagc_lhc_state state;
  if (!tagc_lhc_geometry_fill(&geo, shape))
    return false;
  tagc_lhc_message_fill(&message, &geo);

  /* Chunks come in two lengths, and one of the longer ones holds the last line, which may be incomplete. */
  uint32_t last = tagc_lhc_chunk_of(geo.chunks, geo.lines - 1);
  uint64_t longer = geo.rest ? geo.rest : geo.chunks, shorter = geo.chunks - longer;
  uint64_t shorter_capacity = (uint64_t)geo.groups * TAGC_LHC_LINE * geo.keep_ppm / 1000000;
  *out = (struct tagc_layout){
    .exponent_bytes = geo.hashes ? tagc_pad16(geo.blocks) : 0,
    .sketch_count = (size_t)geo.chunks * geo.hashes * geo.part_cells,
    .message_bytes = message.bytes,
    .state_bytes = tagc_lhc_state_carve(&state, &geo, NULL),
    .capacity = (longer - 1) * geo.chunk_capacity + shorter * (shorter_capacity ? shorter_capacity : 1) +
                tagc_lhc_capacity(&geo, last),
  };
  return true;
}
