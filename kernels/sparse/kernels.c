/* SPDX-License-Identifier: BSD-3-Clause
 * The hot functions of sparse.h. Compiled once for each instruction set (codec/instruction_set.h), with that set's
 * vector steps (sparsify_vector_*.h). The compiler vectorizes the loops of 16.
 */
#include "kernels/codec/instruction_set.h"
/* clang-format off */
#include TAGC_SIMD_HEADER(kernels/sparse/sparsify_vector)
/* clang-format on */

#include <string.h>

#include "kernels/sparse/sparse.h"

enum { BLOCK = TAGC_SPARSE_BLOCK, LANES = 16 };

static bool count(const struct tagc_sparse_message *message, const uint32_t *bitmap, uint8_t *out) {
  const uint64_t blocks = (message->n + BLOCK - 1) / BLOCK, lines = (message->n + TAGC_GRID_LINE - 1) / TAGC_GRID_LINE;
  const uint64_t per_block = BLOCK / TAGC_GRID_LINE;
  bool full = false;
  for (uint64_t block = 0; block < blocks; block++) {
    const uint64_t end = (block + 1) * per_block < lines ? (block + 1) * per_block : lines;
    uint32_t some = 0;
    for (uint64_t line = block * per_block; line < end; line++)
      some += (uint32_t)__builtin_popcount(bitmap[line]);
    full |= some == BLOCK;
    if (message->exact)
      ((uint16_t *)(out + message->counts))[block] = (uint16_t)some;
    else
      out[message->counts + block] = (uint8_t)some;
  }
  return full;
}

static ALWAYS_INLINE void pack16(const float *restrict values, const uint32_t *restrict ids, uint8_t *restrict offsets,
                                 uint16_t *restrict out, double *restrict squares) {
  for (uint32_t i = 0; i < LANES; i++)
    offsets[i] = (uint8_t)ids[i];
  for (uint32_t i = 0; i < LANES; i++) {
    uint32_t bits = tagc_bits_of(values[i]);
    bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
    out[i] = (uint16_t)(bits >> 16);
    double left = (double)(values[i] - tagc_float_of(bits));
    squares[i] += left * left;
  }
}

static double pack_rounded(const struct tagc_sparse_message *message, const float *values, const uint32_t *ids,
                           uint32_t count, uint8_t *out) {
  uint8_t *offsets = out + message->offsets;
  uint16_t *to = (uint16_t *)(out + message->values);
  double squares[LANES] = {0}, norm2 = 0;
  uint32_t i = 0;
  for (; i + LANES <= count; i += LANES)
    pack16(values + i, ids + i, offsets + i, to + i, squares);
  if (i < count) {
    float last[LANES] = {0};
    uint32_t last_ids[LANES] = {0};
    uint8_t last_offsets[LANES];
    uint16_t last_to[LANES];
    memcpy(last, values + i, (count - i) * sizeof *last);
    memcpy(last_ids, ids + i, (count - i) * sizeof *last_ids);
    pack16(last, last_ids, last_offsets, last_to, squares);
    memcpy(offsets + i, last_offsets, count - i);
    memcpy(to + i, last_to, (count - i) * sizeof *to);
  }
  for (uint32_t lane = 0; lane < LANES; lane++)
    norm2 += squares[lane];
  return norm2;
}

static double sparse_pack(const struct tagc_sparse_message *message, const float *values, const uint32_t *ids,
                          uint32_t count, uint8_t *out) {
  if (!message->exact)
    return pack_rounded(message, values, ids, count, out);
  for (uint32_t i = 0; i < count; i++)
    out[message->offsets + i] = (uint8_t)ids[i];
  memcpy(out + message->values, values, count * sizeof *values);
  return 0;
}

/* `exact` is a constant where this is inlined. */
static ALWAYS_INLINE void sparse_add_block_typed(const struct tagc_sparse_input *in, bool exact, uint64_t block,
                                                 float sum[BLOCK]) {
  const struct tagc_job *job = in->job;
  const struct tagc_sparse_message *message = in->message;
  uint32_t *cursor = in->cursors;
  for (int sender = 0; sender < job->shape.nranks; sender++) {
    if (sender == job->rank)
      continue;
    const uint8_t *from = job->message_in + (size_t)sender * message->bytes;
    uint32_t count = exact ? ((const uint16_t *)(from + message->counts))[block] : from[message->counts + block];
    if (__builtin_expect(count > message->capacity - *cursor, 0))
      count = message->capacity - *cursor;
    const uint8_t *offsets = from + message->offsets + *cursor;
    const void *values = from + message->values + (size_t)*cursor * (exact ? sizeof(float) : sizeof(uint16_t));
    for (uint32_t i = 0; i < count; i++)
      sum[offsets[i]] += exact ? ((const float *)values)[i] : tagc_from_bf16(((const uint16_t *)values)[i]);
    *cursor++ += count;
  }
}

static void sparse_add_block(const struct tagc_sparse_input *in, uint64_t block, float sum[BLOCK]) {
  if (in->message->exact)
    sparse_add_block_typed(in, true, block, sum);
  else
    sparse_add_block_typed(in, false, block, sum);
}

static TAGC_SPECIALISED bool sum_blocks(const struct tagc_sparse_input *in, bool exact,
                                        struct tagc_result_format result, uint64_t from, uint64_t to) {
  const char *own = tagc_element_of(tagc_job_shard(in->job, in->job->rank), from * BLOCK, result.dtype);
  char *recv = (char *)in->job->recv + from * BLOCK * tagc_dtype_size(result.dtype);
  const size_t step = LANES * tagc_dtype_size(result.dtype);
  struct largest largest = largest_new();
  for (uint64_t block = from; block < to; block++) {
    float sum[BLOCK] = {0};
    sparse_add_block_typed(in, exact, block, sum);
    for (uint32_t i = 0; i < BLOCK; i += LANES, own += step, recv += step) {
      __builtin_prefetch(own + PREFETCH_BYTES);
      finish16(sum + i, own, recv, result, &largest);
    }
  }
  return largest_end(&largest) >= tagc_infinite_bits(result.dtype);
}

static ALWAYS_INLINE bool sum_typed(const struct tagc_sparse_input *in, enum tagc_dtype dtype, uint64_t from,
                                    uint64_t to) {
  const float scale = in->job->scale, divisor = in->job->divisor;
  if (in->message->exact)
    return sum_blocks(in, true, result_format(dtype, false, scale, divisor), from, to);
  if (in->streaming)
    return sum_blocks(in, false, result_format(dtype, true, scale, divisor), from, to);
  return sum_blocks(in, false, result_format(dtype, false, scale, divisor), from, to);
}

static bool sum(const struct tagc_sparse_input *in, uint64_t from, uint64_t to) {
  bool seen;
  if (in->job->shape.dtype == TAGC_FLOAT32)
    seen = sum_typed(in, TAGC_FLOAT32, from, to);
  else if (in->job->shape.dtype == TAGC_FLOAT16)
    seen = sum_typed(in, TAGC_FLOAT16, from, to);
  else
    seen = sum_typed(in, TAGC_BFLOAT16, from, to);
  if (in->streaming)
    stream_end();
  return seen;
}

const struct tagc_sparse_kernels TAGC_SIMD_TABLE(tagc_sparse) = {
  .count = count,
  .pack = sparse_pack,
  .add = sparse_add_block,
  .sum = sum,
};
