/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/codec/pieces.h"

#include "kernels/codec/bits.h"
#include "kernels/codec/residual.h"

struct tagc_pieces tagc_pieces_of(uint64_t n, int depth)
{
  struct tagc_pieces pieces = {.count = depth};
  while (pieces.count > 1 && n / TAGC_PIECE_ELEMENTS / 2 / ((uint64_t)pieces.count - 1) == 0)
    pieces.count--;
  for (uint64_t k = 1; k < (uint64_t)pieces.count; k++) {
    const uint64_t halves = 2 * ((uint64_t)pieces.count - 1), blocks = n / TAGC_PIECE_ELEMENTS;
    pieces.at[k] = TAGC_PIECE_ELEMENTS * (blocks / halves * (2 * k - 1) + blocks % halves * (2 * k - 1) / halves);
  }
  pieces.at[pieces.count] = n;
  return pieces;
}

bool tagc_pieces_can(const struct tagc_codec *codec, const struct tagc_layout *layout)
{
  return !codec->whole && !layout->exponent_bytes && !layout->sketch_count;
}

double tagc_piece_share(int k, int count)
{
  return count == 1 ? 1 : (k == 0 || k == count - 1 ? 0.5 : 1) / (count - 1);
}

struct tagc_shape tagc_piece_shape(const struct tagc_shape *whole, const struct tagc_pieces *pieces, int k)
{
  struct tagc_shape shape = *whole;
  shape.n = pieces->at[k + 1] - pieces->at[k];
  return shape;
}

struct tagc_job tagc_piece_job(const struct tagc_job *whole, const struct tagc_pieces *pieces, int k)
{
  struct tagc_job job = *whole;
  const size_t from = pieces->at[k] * tagc_dtype_size(whole->shape.dtype);
  size_t residual = 0;
  for (int i = 0; i < k; i++) {
    const struct tagc_shape before = tagc_piece_shape(&whole->shape, pieces, i);
    residual += tagc_residual_bytes(&before);
  }
  job.shape = tagc_piece_shape(&whole->shape, pieces, k);
  job.stride = whole->stride ? whole->stride : whole->shape.n;
  job.continues = k > 0;
  job.send = (const char *)whole->send + from;
  job.recv = (char *)whole->recv + from;
  job.residual = whole->residual ? (char *)whole->residual + residual : NULL;
  job.seed = k ? tagc_mix64(whole->seed + (uint64_t)k) : whole->seed;
  return job;
}

void tagc_piece_seen(struct tagc_job *whole, const struct tagc_job *piece)
{
  struct tagc_codec_stats *to = whole->stats;
  const struct tagc_codec_stats *from = piece->stats;
  to->selected += from->selected;
  to->unrecovered += from->unrecovered;
  to->nonfinite += from->nonfinite;
  to->overflowed += from->overflowed;
  to->lost += from->lost;
  to->dropped += from->dropped;
  to->residual_norm2 = from->residual_norm2 + (piece->continues ? to->residual_norm2 : 0);
  whole->nonfinite_seen = piece->nonfinite_seen || (piece->continues && whole->nonfinite_seen);
  whole->surplus_seen = piece->surplus_seen || (piece->continues && whole->surplus_seen);
}

/* ---- all-gathers ------------------------------------------------------------------------------------------------------ */

struct tagc_allgather_shape tagc_piece_gather_shape(const struct tagc_allgather_shape *whole, const struct tagc_pieces *pieces, int k)
{
  struct tagc_allgather_shape shape = *whole;
  shape.n = pieces->at[k + 1] - pieces->at[k];
  return shape;
}

struct tagc_allgather_job tagc_piece_gather_job(const struct tagc_allgather_job *whole, const struct tagc_pieces *pieces, int k)
{
  struct tagc_allgather_job job = *whole;
  const size_t from = pieces->at[k] * tagc_dtype_size(whole->shape.dtype);
  job.shape = tagc_piece_gather_shape(&whole->shape, pieces, k);
  job.stride = whole->stride ? whole->stride : whole->shape.n;
  job.send = (const char *)whole->send + from;
  job.recv = (char *)whole->recv + from;
  job.reference = whole->reference ? (char *)whole->reference + from : NULL;
  job.seed = k ? tagc_mix64(whole->seed + (uint64_t)k) : whole->seed;
  return job;
}

/* The norms of a call that was refused are none. */
void tagc_piece_gather_seen(struct tagc_allgather_job *whole, const struct tagc_allgather_job *piece, int count)
{
  struct tagc_allgather_stats *to = whole->stats;
  double error2 = 0, norm2 = 0;
  whole->refused = false;
  for (int k = 0; k < count; k++) {
    const struct tagc_allgather_stats *from = piece[k].stats;
    to->escapes += from->escapes;
    to->nonfinite += from->nonfinite;
    error2 += from->error2;
    norm2 += from->norm2;
    whole->refused |= piece[k].refused;
  }
  to->refused += whole->refused;
  if (whole->refused)
    return;
  to->error2 = error2;
  to->norm2 = norm2;
}
