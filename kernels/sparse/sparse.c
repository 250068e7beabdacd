/* SPDX-License-Identifier: BSD-3-Clause
 * Lists of values by block: writing and summing them. See sparse.h.
 */
#include "kernels/sparse/sparse.h"

#include <string.h>

#include "kernels/sparse/sparsify_bits.h"
#include "kernels/codec/variant.h"

enum {
  BLOCK = TAGC_SPARSE_BLOCK,
  STREAM_BYTES = 8 << 20, /* larger results would push everything else out of the caches */
};

static const struct tagc_sparse_kernels *sparse_kernels(void) { return TAGC_OF_VARIANT(tagc_sparse); }

void tagc_sparse_message_fill(struct tagc_sparse_message *out, uint64_t n, uint32_t capacity, bool exact) {
  const size_t blocks = (size_t)((n + BLOCK - 1) / BLOCK);
  *out = (struct tagc_sparse_message){.n = n, .capacity = capacity, .exact = exact, .counts = tagc_exceptions_bytes(n)};
  out->offsets = out->counts + tagc_pad16(exact ? blocks * sizeof(uint16_t) : blocks);
  out->values = out->offsets + tagc_pad16(capacity);
  out->bytes = out->values + tagc_pad16((size_t)capacity * (exact ? sizeof(float) : sizeof(uint16_t)));
}

bool tagc_sparse_count(const struct tagc_sparse_message *message, const uint32_t *bitmap, uint8_t *out) {
  memset(out + message->offsets - 16, 0, 16);
  return sparse_kernels()->count(message, bitmap, out);
}

double tagc_sparse_pack(const struct tagc_sparse_message *message, const float *values, const uint32_t *ids,
                        uint32_t count, uint8_t *out) {
  const size_t width = message->exact ? sizeof(float) : sizeof(uint16_t);
  memset(out + message->offsets + count, 0, message->values - message->offsets - count);
  memset(out + message->values + count * width, 0, message->bytes - message->values - count * width);
  return sparse_kernels()->pack(message, values, ids, count, out);
}

/* Sums one block alone: the incomplete one, or one with exceptions, which are entry[0..count). */
static bool sum_block(const struct tagc_sparse_input *in, uint64_t block, const struct tagc_exception *entry,
                      size_t count) {
  const struct tagc_job *job = in->job;
  const enum tagc_dtype dtype = job->shape.dtype;
  const void *own = tagc_job_shard(job, job->rank);
  float sum[BLOCK] = {0};
  bool seen = false;
  sparse_kernels()->add(in, block, sum);
  for (uint64_t i = block * BLOCK; i < job->shape.n && i < (block + 1) * BLOCK; i++) {
    float x = sum[i % BLOCK] + job->scale * tagc_load(own, i, dtype);
    for (; count > 0 && entry->position == i; entry++, count--)
      x += tagc_float_of(entry->bits);
    seen |= tagc_store_result(job->recv, i, dtype, x, job->divisor);
  }
  return seen;
}

void tagc_sparse_sum(struct tagc_job *job, const struct tagc_sparse_message *message, uint32_t *cursors,
                     const struct tagc_exception *exceptions, size_t count) {
  const uint64_t n = job->shape.n, complete = n / BLOCK;
  const struct tagc_sparse_input in = {
    .job = job,
    .message = message,
    .cursors = cursors,
    .streaming = n * tagc_dtype_size(job->shape.dtype) >= STREAM_BYTES && (uintptr_t)job->recv % 64 == 0 &&
                 tagc_job_shard(job, job->rank) != job->recv,
  };
  bool seen = false;
  uint64_t from = 0;
  memset(cursors, 0, ((size_t)job->shape.nranks - 1) * sizeof *cursors);
  for (size_t i = 0, next; i < count; i = next) {
    const uint64_t block = exceptions[i].position / BLOCK;
    for (next = i + 1; next < count && exceptions[next].position / BLOCK == block;)
      next++;
    seen |= sparse_kernels()->sum(&in, from, block);
    seen |= sum_block(&in, block, exceptions + i, next - i);
    from = block + 1;
  }
  if (from < complete) {
    seen |= sparse_kernels()->sum(&in, from, complete);
    from = complete;
  }
  if (from * BLOCK < n)
    seen |= sum_block(&in, from, NULL, 0);
  job->nonfinite_seen |= seen;
}
