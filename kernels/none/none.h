/* SPDX-License-Identifier: BSD-3-Clause
 * The parts that `none` and `precise` share: both send every value as it is, and differ in their sums alone.
 */
#ifndef KERNELS_NONE_NONE_H
#define KERNELS_NONE_NONE_H

#include "kernels/none/levels.h"

/* As in struct tagc_codec. */
bool tagc_none_layout(const struct tagc_shape *shape, struct tagc_layout *out);
void tagc_none_encode(struct tagc_job *job);

/* Decodes a shard: compiled once per instruction set, the same bits from each. Returns true if a result is not
 * finite, or (exact) if a value of a rank was 2^120 or more, an infinity or a NaN. */
struct tagc_none_sums {
  bool (*rank_order)(const struct tagc_job *job);
  bool (*exact)(const struct tagc_job *job);
  /* Two levels (levels.h): fills a message with the sums of a shard; and decodes all messages, without their lists. */
  void (*add_local)(const struct tagc_job *job, int shard, const struct tagc_levels_message *to);
  bool (*exact_levels)(const struct tagc_job *job);
};

extern const struct tagc_none_sums tagc_none_plain, tagc_none_avx2, tagc_none_avx512;

/* Element i of the messages and of the own shard, whose values `own` holds as they are sent; the bits of the result. */
uint32_t tagc_none_exact_sum(const struct tagc_job *job, uint64_t i, float own);

#endif
