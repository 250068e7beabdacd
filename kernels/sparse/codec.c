/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `sparse`: sends the largest values of each foreign shard, with their places; all others stay in the
 * residual (top-k with error feedback; arXiv 1712.01887).
 *
 * Choice    C = max(1, floor(n * keep_ppm / 10^6)) values a shard, as in sparsify.h with one threshold a shard. Fewer
 *           only if fewer reach 2^-120, or if all 256 of a block are chosen: the smallest of these stays (the last of
 *           equal ones). The errors of rounding to bf16 (nearest even) stay, too. A shard is full if C values were
 *           chosen, including one that stays in a block of 256. It counts as a surplus if the residual has more than
 *           1/64 of their squared norm.
 * Payload   Exchange A2A, little-endian, each part padded with zeros to 16 bytes, unused entries zero:
 *             exceptions   exceptions.h
 *             counts       uint8 x ceil(n/256): values sent of each block of 256 positions
 *             offsets      uint8 x C: positions inside the blocks, in order of position
 *             values       bf16 x C, in the same order
 * Example   n = 300, keep 1% (C = 3), shard zero but for 1 at 2, -3 at 255 and 1/2 at 258:
 *             00 00 00 00  00 00 00 00  (40 zeros)      no exceptions, room for five; nothing stays behind
 *             02 01 (14 zeros)                          two values in the first block, one in the second
 *             02 ff 02 (13 zeros)                       at 2 and 255, and at 258
 *             80 3f  40 c0  00 3f (10 zeros)            1, -3, 1/2
 * Sum       The owner adds the senders' values in fp32 in rank order, its own shard, exceptions; divides, rounds once.
 * State     The lists of one shard, and one shard's residual as fp32 if it is stored narrower. Then, for decode:
 *           `anywhere`, the merged exceptions and a cursor a sender.
 * Threads   Reentrant.
 */
#include <string.h>

#include "kernels/codec/assign_buffer.h"
#include "kernels/codec/codecs.h"
#include "kernels/codec/fpmode.h"
#include "kernels/codec/residual.h"
#include "kernels/sparse/sparse.h"
#include "kernels/sparse/sparsify.h"

enum { BLOCK = TAGC_SPARSE_BLOCK, MAX_RANKS = 1 << 16 };

struct state {
  uint32_t *anywhere; /* this rank's flags for the others (exceptions.h) */

  struct tagc_sparsify_memory lists;
  uint32_t *bitmap; /* of the shard's chosen positions */
  float *residual;  /* of the shard, if it is stored narrower */

  struct tagc_exception *exceptions; /* of all senders, in the place of the lists */
  uint32_t *cursors;
};

static size_t assign_state(struct state *out, const struct tagc_shape *shape, const struct tagc_grid *grid,
                           void *base) {
  const size_t senders = (size_t)shape->nranks - 1;
  size_t sending = 0, receiving;
  out->anywhere = tagc_assign_buffer(base, &sending, sizeof *out->anywhere);
  receiving = sending;
  sending = tagc_sparsify_assign_buffers(&out->lists, grid, 1, base, sending);
  out->bitmap = tagc_assign_buffer(base, &sending, grid->lines * sizeof *out->bitmap);
  out->residual =
    tagc_assign_buffer(base, &sending, shape->residual > TAGC_STORAGE_FP32 ? shape->n * sizeof(float) : 0);
  out->exceptions =
    tagc_assign_buffer(base, &receiving, senders * tagc_exceptions_capacity(shape->n) * sizeof *out->exceptions);
  out->cursors = tagc_assign_buffer(base, &receiving, senders * sizeof *out->cursors);
  return sending > receiving ? sending : receiving;
}

/* Fills the parts that follow from a shape. */
static void parts_fill(const struct tagc_shape *shape, struct tagc_grid *grid, struct tagc_sparse_message *message) {
  tagc_grid_fill(grid, shape->n, shape->keep_ppm, 1);
  tagc_sparse_message_fill(message, shape->n, grid->stripe_capacity, false);
}

static bool sparse_layout(const struct tagc_shape *shape, struct tagc_layout *out) {
  struct tagc_grid grid;
  struct tagc_sparse_message message;
  struct state state;
  if (shape->n == 0 || shape->n > UINT32_MAX || shape->nranks < 2 || shape->nranks > MAX_RANKS ||
      shape->keep_ppm == 0 || shape->keep_ppm > 1000000)
    return false;
  parts_fill(shape, &grid, &message);
  *out = (struct tagc_layout){
    .message_bytes = message.bytes,
    .state_bytes = assign_state(&state, shape, &grid, NULL),
    .capacity = grid.stripe_capacity,
  };
  return true;
}

/* The smallest of a block's values, all of which are in the list from `first` on; the last of equal ones. */
static uint32_t find_surplus(const float *values, uint32_t first) {
  uint32_t least = first;
  for (uint32_t i = first; i < first + BLOCK; i++)
    if ((tagc_bits_of(values[i]) & 0x7fffffffu) <= (tagc_bits_of(values[least]) & 0x7fffffffu))
      least = i;
  return least;
}

/* A count is one byte: if all 256 values of a block were chosen, the smallest goes back (a fixed place would never be
 * sent). Returns the squared norm of these. */
static double drop_surplus(const struct tagc_sparsify_shard *shard, uint8_t *counts) {
  const struct tagc_sparsify_memory *lists = shard->memory;
  const uint32_t count = lists->counts[0];
  double norm2 = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0, next; i < count; i = next) {
    const uint32_t block = lists->ids[i] / BLOCK;
    for (next = i; next < count && lists->ids[next] / BLOCK == block;)
      next++;
    const uint32_t surplus = next - i == BLOCK ? find_surplus(lists->values, i) : next;
    for (uint32_t from = i; from < next; from++) {
      const float v = lists->values[from];
      const uint32_t id = lists->ids[from];
      if (from == surplus) {
        shard->residual[id] = v;
        norm2 += (double)v * (double)v;
        counts[block] = BLOCK - 1;
        continue;
      }
      lists->values[kept] = v;
      lists->ids[kept++] = id;
    }
  }
  lists->counts[0] = kept;
  return norm2;
}

/* Encodes one foreign shard. Returns the squared norm of its residual. */
static double sparse_encode_shard(const struct tagc_job *job, const struct tagc_grid *grid,
                                  const struct tagc_sparse_message *message, const struct state *state, int number) {
  uint8_t *out = job->message_out + (size_t)number * job->layout.message_bytes;
  float *floats = tagc_residual_floats(job, number);
  const struct tagc_sparsify_shard shard = {
    .grid = grid,
    .send = tagc_job_shard(job, number),
    .dtype = job->shape.dtype,
    .scale = job->scale,
    .seed = job->seed,
    .number = (uint32_t)number,
    .residual = floats ? floats : state->residual,
    .residual_empty = job->residual_empty,
    .rounded = true,
    .exceptions = (struct tagc_exceptions *)out,
    .bitmap = state->bitmap,
    .memory = &state->lists,
  };
  tagc_exceptions_clear(shard.exceptions, job->shape.n);
  if (!floats && !job->residual_empty)
    tagc_residual_load_shard(job, number, shard.residual);
  double norm2 = tagc_sparsify(&shard);
  *state->anywhere |= tagc_sparsify_surplus(&shard, norm2); /* before drop_surplus() */
  if (tagc_sparse_count(message, shard.bitmap, out))
    norm2 += drop_surplus(&shard, out + message->counts);
  job->stats->nonfinite += tagc_exceptions_close(shard.exceptions, job->shape.n);
  job->stats->selected += state->lists.counts[0];
  norm2 += tagc_sparse_pack(message, state->lists.values, state->lists.ids, state->lists.counts[0], out);
  return floats ? norm2 : tagc_residual_store_shard(job, number, shard.residual);
}

static void sparse_encode(struct tagc_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  struct tagc_grid grid;
  struct tagc_sparse_message message;
  struct state state;
  double norm2 = 0;
  parts_fill(&job->shape, &grid, &message);
  assign_state(&state, &job->shape, &grid, job->state);
  *state.anywhere = 0;
  tagc_sparsify_own_largest(job, state.anywhere);
  for (int shard = 0; shard < job->shape.nranks; shard++)
    if (shard != job->rank)
      norm2 += sparse_encode_shard(job, &grid, &message, &state, shard);
  *state.anywhere = tagc_exceptions_anywhere(job, *state.anywhere);
  job->stats->residual_norm2 = norm2;
  tagc_fpmode_leave(mode);
}

static void sparse_decode(struct tagc_job *job) {
  tagc_fpmode mode = tagc_fpmode_enter();
  struct tagc_grid grid;
  struct tagc_sparse_message message;
  struct state state;
  size_t count;
  parts_fill(&job->shape, &grid, &message);
  assign_state(&state, &job->shape, &grid, job->state);
  if (tagc_exceptions_collect(job, *state.anywhere, state.exceptions, &count))
    tagc_sparse_sum(job, &message, state.cursors, state.exceptions, count);
  else
    tagc_exceptions_overflow(job);
  tagc_fpmode_leave(mode);
}

const struct tagc_codec tagc_codec_sparse = {
  .name = "sparse",
  .needs_residual = true,
  .layout = sparse_layout,
  .prepare = NULL,
  .encode = sparse_encode,
  .decode = sparse_decode,
};
