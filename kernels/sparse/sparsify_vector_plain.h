/* SPDX-License-Identifier: BSD-3-Clause
 * The vector steps of sparsify_kernels.c in plain C: the others must give the same bits.
 *
 * Lists grow by whole vectors: a step may write 16 entries even if it adds fewer, and returns how many count.
 */
#ifndef KERNELS_SPARSE_SPARSIFY_VECTOR_PLAIN_H
#define KERNELS_SPARSE_SPARSIFY_VECTOR_PLAIN_H

#include "kernels/sparse/sparsify_vector.h"

/* What a scan collects in a block of 1,024 positions: the largest magnitude that is no exception (as bits), and for the
 * report the squares of the values that stay, in fp32 a lane, added up in one order by every variant. For that, values
 * are scaled by a power of two, so that squares neither overflow nor vanish. */
struct block {
  float scale, lane[16];
  uint32_t most[16];
  double norm2; /* of all blocks so far */
};

STEP struct block block_new(float scale) { return (struct block){.scale = scale}; }

STEP void block_include(struct block *block, const float v[16]) {
  for (uint32_t i = 0; i < 16; i++) {
    uint32_t magnitude = tagc_bits_of(v[i]) & 0x7fffffffu;
    if (magnitude < TAGC_EXCEPTION_BITS && magnitude > block->most[i])
      block->most[i] = magnitude;
  }
}

/* Returns the largest magnitude and begins a new block. */
STEP uint32_t block_end(struct block *block) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < 16; i++) {
    block->norm2 += (double)block->lane[i];
    most = block->most[i] > most ? block->most[i] : most;
    block->lane[i] = 0;
    block->most[i] = 0;
  }
  return most;
}

/* scale*g + e. */
STEP void sum16(const void *send, const float *residual, struct tagc_sparsify_input input, float out[16]) {
  for (uint32_t i = 0; i < 16; i++)
    out[i] = input.scale * tagc_load(send, i, input.dtype) + (input.residual_empty ? 0.0f : residual[i]);
}

/* Writes scale*g + e to the residual. Magnitudes of at least `threshold` (bits) go to the lists instead; the residual
 * gets the error of sending them. Returns their mask. */
STEP uint32_t scan16(const void *send, float *residual, struct tagc_sparsify_input input, uint32_t threshold,
                     uint32_t id, float *values, uint32_t *ids, struct block *block) {
  float v[16];
  uint32_t mask = 0, count = 0;
  sum16(send, residual, input, v);
  block_include(block, v);
  for (uint32_t i = 0; i < 16; i++) {
    bool large = (tagc_bits_of(v[i]) & 0x7fffffffu) >= threshold;
    values[count] = v[i];
    ids[count] = id + i;
    count += large;
    mask |= (uint32_t)large << i;
    float rest = large ? 0.0f : v[i], scaled = rest * block->scale;
    residual[i] = large ? left_of(v[i], input.rounded) : rest;
    block->lane[i] += scaled * scaled;
  }
  return mask;
}

/* Writes the fine bins of the values in a coarse bin. Returns their number. */
STEP uint32_t fine16(const float *values, uint32_t lanes, uint32_t coarse, uint32_t fine[16]) {
  return fine16_in_turn(values, lanes, coarse, fine);
}

/* Splits candidates: the chosen ones to out, the others to left, exceptions included. Returns the number of chosen
 * ones. *rank counts the values of the boundary bin. */
STEP uint32_t filter16(const float *values, const uint32_t *ids, uint32_t lanes,
                       const struct tagc_sparsify_choice *choice, uint32_t *rank, float *out_values, uint32_t *out_ids,
                       float left_values[16], uint32_t left_ids[16], uint32_t *left) {
  uint32_t kept = 0;
  *left = 0;
  for (uint32_t i = 0; i < 16 && lanes >> i & 1; i++) {
    uint32_t bin = tagc_bin_of(tagc_bits_of(values[i]));
    bool chosen = tagc_sparsify_chosen(choice, bin, *rank);
    *rank += bin == choice->bin;
    out_values[kept] = left_values[*left] = values[i];
    out_ids[kept] = left_ids[*left] = ids[i];
    kept += chosen;
    *left += !chosen;
  }
  return kept;
}

/* The largest magnitude of some values, as bits: NaNs are larger than infinities. */
struct largest {
  uint32_t lane[16];
};

STEP struct largest largest_new(void) { return (struct largest){{0}}; }

STEP void largest_include(struct largest *largest, uint32_t i, float x) {
  uint32_t magnitude = tagc_bits_of(x) & 0x7fffffffu;
  largest->lane[i] = magnitude > largest->lane[i] ? magnitude : largest->lane[i];
}

STEP uint32_t largest_end(const struct largest *largest) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < 16; i++)
    most = largest->lane[i] > most ? largest->lane[i] : most;
  return most;
}

/* Includes scale*g. */
STEP void largest16(const void *send, struct tagc_sparsify_input input, struct largest *largest) {
  for (uint32_t i = 0; i < 16; i++)
    largest_include(largest, i, input.scale * tagc_load(send, i, input.dtype));
}

/* The shard's lines of a stripe's ids. */
STEP void lines16(const uint32_t *ids, uint32_t stripes, uint32_t stripe, uint32_t lines[16]) {
  for (uint32_t i = 0; i < 16; i++)
    lines[i] = tagc_grid_line(stripes, stripe, ids[i] / TAGC_GRID_LINE);
}

/* Adds the own values to the foreign sums; divides, rounds, writes. `largest` (NULL: nobody asks) includes the results.
 */
STEP void finish16(const float *sum, const void *own, void *recv, struct tagc_result_format result,
                   struct largest *largest) {
  for (uint32_t i = 0; i < 16; i++) {
    float x = sum[i] + result.scale * tagc_load(own, i, result.dtype);
    x = result.by_inverse ? x * result.divisor : x / result.divisor;
    if (largest)
      largest_include(largest, i, x);
    tagc_store_result(recv, i, result.dtype, x, 1);
  }
}

/* Ends a run of streaming stores. */
STEP void stream_end(void) {}

#endif
