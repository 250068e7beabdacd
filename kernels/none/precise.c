/* SPDX-License-Identifier: BSD-3-Clause
 * The codec whose sums are exact: it sends what `none` sends, adds without any error, and rounds once.
 *
 * Payload    Exchange A2A, one part, that of `none`:
 *              values   n elements of the call's type, padded with zeros to 16 bytes
 * Example    n = 3, bf16, shard (1, -2, 0.5): 80 3f  00 c0  00 3f, ten zeros: 16 bytes.
 * Sum        The result is the exact sum over all ranks (ncclAvg: divided by their number), rounded to the call's type
 *            once, to nearest, ties to even. So its bits do not depend on the order of ranks, on the division into
 *            shards and chunks, or on who shares a host. A factor (PreMulSum) is applied before: each product is
 *            rounded to fp32 and to the call's type, as NCCL does, on its own rank.
 *            A NaN, or infinities of both signs, give NaN (7fc0; fp32: 7fc00000; fp16: 7e00). A sum of exactly zero is
 *            +0, even if all values are -0; a result that rounds to zero keeps its sign.
 * Fast sums  An element of all ranks is added in fp64 where that is exact: every value is a multiple of 2^l, and the
 *            magnitudes of all partial sums stay below 2^(l + 53). It is so if the exponents of the values other than 0
 *            differ by at most 53 - p - log2(W), where p is 8 for bf16, 11 for fp16, 24 for fp32. Else exact.h adds it
 *            in integers of 384 bits. Rounding to odd between fp64 and the type makes the two roundings one.
 *            sums.c does so on the host, precise.cu on a GPU; exact.h is common to both.
 * Two levels The values of a host's ranks are added first, without error, so the bits are the same (levels.h).
 * Pairs      Two 16-bit values, or a half of each, are added in fp32: its 24 bits are 2 p + 2 or more, so that rounding
 *            to them first changes no result (Figueroa, When is double rounding innocuous? 1995). Denormal results are
 *            exact in it.
 * Residual   As in `none`.
 * Exceptions None: NaN and infinities travel as they are.
 */
#include "kernels/codec/bits.h"
#include "kernels/codec/codecs.h"
#include "kernels/codec/fpmode.h"
#include "kernels/codec/variant.h"
#include "kernels/none/exact.h"
#include "kernels/none/none.h"

/* A sum of more values may not fit. */
static bool precise_layout(const struct tagc_shape *shape, struct tagc_layout *out) {
  if (shape->local > 0)
    return tagc_levels_layout(shape, out);
  return shape->nranks <= TAGC_EXACT_DIVISOR && tagc_none_layout(shape, out);
}

uint32_t tagc_none_exact_sum(const struct tagc_job *job, uint64_t i, float own) {
  const enum tagc_dtype dtype = job->shape.dtype;
  struct tagc_exact sum = {0};
  for (int sender = 0; sender < job->shape.nranks; sender++)
    tagc_exact_add(&sum, sender == job->rank
                           ? own
                           : tagc_load(job->message_in + (size_t)sender * job->layout.message_bytes, i, dtype));
  return tagc_exact_round(&sum, (uint32_t)job->divisor, dtype);
}

static void precise_encode(struct tagc_job *job) {
  if (job->shape.local > 0)
    tagc_levels_encode(job);
  else
    tagc_none_encode(job);
}

static void precise_decode(struct tagc_job *job) {
  if (job->shape.local > 0) {
    tagc_levels_decode(job);
    return;
  }
  const tagc_fpmode mode = tagc_fpmode_enter();
  job->nonfinite_seen = TAGC_OF_VARIANT(tagc_none)->exact(job); /* of this shard only: no message has flags */
  job->surplus_seen = false;
  tagc_fpmode_leave(mode);
}

const struct tagc_codec tagc_codec_precise = {
  .name = "precise",
  .needs_residual = false,
  .layout = precise_layout,
  .prepare = NULL,
  .encode = precise_encode,
  .decode = precise_decode,
  .levels = &tagc_levels_of_precise,
};
