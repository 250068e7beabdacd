/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/codec/chunks.h"

#include "kernels/codec/bits.h"
#include "kernels/codec/residual.h"

struct tagc_chunks tagc_chunks_of(uint64_t n, int count) {
  struct tagc_chunks chunks = {.count = count};
  while (chunks.count > 1 && n / TAGC_CHUNK_ELEMENTS / 2 / ((uint64_t)chunks.count - 1) == 0)
    chunks.count--;
  for (uint64_t k = 1; k < (uint64_t)chunks.count; k++) {
    const uint64_t halves = 2 * ((uint64_t)chunks.count - 1), blocks = n / TAGC_CHUNK_ELEMENTS;
    chunks.at[k] = TAGC_CHUNK_ELEMENTS * (blocks / halves * (2 * k - 1) + blocks % halves * (2 * k - 1) / halves);
  }
  chunks.at[chunks.count] = n;
  return chunks;
}

bool tagc_chunks_possible(const struct tagc_codec *codec, const struct tagc_layout *layout) {
  return !layout->exponent_bytes || codec->measure;
}

double tagc_chunk_share(int k, int count) {
  return count == 1 ? 1 : (k == 0 || k == count - 1 ? 0.5 : 1) / (count - 1);
}

struct tagc_shape tagc_chunk_shape(const struct tagc_shape *whole, const struct tagc_chunks *chunks, int k) {
  struct tagc_shape shape = *whole;
  shape.n = chunks->at[k + 1] - chunks->at[k];
  return shape;
}

struct tagc_job tagc_chunk_job(const struct tagc_job *whole, const struct tagc_chunks *chunks, int k) {
  struct tagc_job job = *whole;
  const size_t from = chunks->at[k] * tagc_dtype_size(whole->shape.dtype);
  size_t residual = 0;
  for (int i = 0; i < k; i++) {
    const struct tagc_shape before = tagc_chunk_shape(&whole->shape, chunks, i);
    residual += tagc_residual_bytes(&before);
  }
  job.shape = tagc_chunk_shape(&whole->shape, chunks, k);
  job.stride = whole->stride ? whole->stride : whole->shape.n;
  job.continues = k > 0;
  job.ends = whole->ends && k + 1 == chunks->count;
  job.send = (const char *)whole->send + from;
  job.recv = (char *)whole->recv + from;
  job.values = whole->values ? (const char *)whole->values + from : NULL;
  job.residual = whole->residual ? (char *)whole->residual + residual : NULL;
  job.seed = k ? tagc_mix64(whole->seed + (uint64_t)k) : whole->seed;
  return job;
}

void tagc_chunk_add_stats(struct tagc_job *whole, const struct tagc_job *chunk) {
  struct tagc_codec_stats *to = whole->stats;
  const struct tagc_codec_stats *from = chunk->stats;
  to->selected += from->selected;
  to->unrecovered += from->unrecovered;
  to->nonfinite += from->nonfinite;
  to->overflowed += from->overflowed;
  to->lost += from->lost;
  to->dropped += from->dropped;
  to->residual_norm2 = from->residual_norm2 + (chunk->continues ? to->residual_norm2 : 0);
  whole->nonfinite_seen = chunk->nonfinite_seen || (chunk->continues && whole->nonfinite_seen);
  whole->surplus_seen = chunk->surplus_seen || (chunk->continues && whole->surplus_seen);
}

/* ---- all-gathers ------------------------------------------------------------------------------------------------- */

struct tagc_allgather_shape tagc_chunk_allgather_shape(const struct tagc_allgather_shape *whole,
                                                       const struct tagc_chunks *chunks, int k) {
  struct tagc_allgather_shape shape = *whole;
  shape.n = chunks->at[k + 1] - chunks->at[k];
  return shape;
}

struct tagc_allgather_job tagc_chunk_allgather_job(const struct tagc_allgather_job *whole,
                                                   const struct tagc_chunks *chunks, int k) {
  struct tagc_allgather_job job = *whole;
  const size_t from = chunks->at[k] * tagc_dtype_size(whole->shape.dtype);
  job.shape = tagc_chunk_allgather_shape(&whole->shape, chunks, k);
  job.stride = whole->stride ? whole->stride : whole->shape.n;
  job.send = (const char *)whole->send + from;
  job.recv = (char *)whole->recv + from;
  job.reference = whole->reference ? (char *)whole->reference + from : NULL;
  job.seed = k ? tagc_mix64(whole->seed + (uint64_t)k) : whole->seed;
  return job;
}

/* A refused call has no norms. */
void tagc_chunk_allgather_add_stats(struct tagc_allgather_job *whole, const struct tagc_allgather_job *chunk,
                                    int count) {
  struct tagc_allgather_stats *to = whole->stats;
  double error2 = 0, norm2 = 0;
  whole->refused = false;
  for (int k = 0; k < count; k++) {
    const struct tagc_allgather_stats *from = chunk[k].stats;
    to->escapes += from->escapes;
    to->nonfinite += from->nonfinite;
    error2 += from->error2;
    norm2 += from->norm2;
    whole->refused |= chunk[k].refused;
  }
  to->refused += whole->refused;
  if (whole->refused)
    return;
  to->error2 = error2;
  to->norm2 = norm2;
}
