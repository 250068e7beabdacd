/* SPDX-License-Identifier: BSD-3-Clause
 * The TAGC codec: support bitmap + count sketch, with sparsification and error feedback (arXiv 2504.05638).
 *
 * Choice         The largest values of each foreign shard, stripe by stripe, by the upper 19 bits of their magnitudes:
 *                whole bins from the top, then part of the next from a seeded offset on, until the stripe's capacity is
 *                exactly full (its positions * keep_ppm / 10^6, at least 1). The rest stays in the residual. |x| <
 *                2^-120 counts as zero and is never sent.
 * Payload        Little-endian; parts in this order, padded with zeros to 16 bytes.
 *   exponents      uint8 per 1,024 positions: e + 128 for the smallest e such that all values there (but exceptions)
 *                  are below 2^e; 0 if none reaches 2^-120.
 *   sketch         int32, `stripes` x (`hashes` x `part_cells` counters, checks) (codec.h maps elements to them).
 *   message        exceptions (exceptions.h)
 *                  bitmap   uint32 x stripes x stripe_lines: bit t of word (c, l) is lane t of local line l of stripe c
 * Sizes          U = min((nranks-1) * keep, n) is the most values that can meet in a shard. Below 4,096 there are no
 *                exponents and no sketch (see below). Otherwise U / 49,152 stripes (one up to 65,536), counters = 1.215
 *                times the union capacity of a stripe (3 hashes), 1.35 below 30,000 (4 hashes), in rows of 32 a hash,
 *                and 128 checks a stripe with 3 hashes.
 * Small shards   message: exceptions
 *                  counts   uint16 per 256 positions
 *                  offsets  uint8 x capacity: positions inside those blocks
 *                  values   fp32 x capacity, exact
 * Example        n = 3, nranks = 2, keep all, shard (0, 1, 2):
 *                  00 00 00 00  00 00 00 00  (8 zeros)       no exceptions, room for one; not full
 *                  02 00 (14 zeros)                          two values in the block
 *                  01 02 00 (13 zeros)                       at 1 and 2
 *                  00 00 80 3f  00 00 00 40  (8 zeros)       1 and 2
 * Sum            The foreign sum of an element is one int32 (exact while |sum| < 2^31); to fp32 with one rounding,
 *                times 2^(e-B), plus the own shard, plus exceptions, divided, rounded once to the type. Elements that
 *                cannot be peeled are estimated, and counted in stats->unrecovered.
 * Threads        Reentrant.
 */
#include "kernels/codec/codecs.h"
#include "kernels/lhc/lhc.h"
#include "kernels/codec/variant.h"

const struct tagc_lhc_kernels *tagc_lhc_kernels(void) { return TAGC_OF_VARIANT(tagc_lhc); }

const struct tagc_codec tagc_codec_lhc = {
  .name = "lhc",
  .needs_residual = true,
  .layout = tagc_lhc_layout,
  .measure = tagc_lhc_measure,
  .prepare = tagc_lhc_prepare,
  .encode = tagc_lhc_encode,
  .decode = tagc_lhc_decode,
};
