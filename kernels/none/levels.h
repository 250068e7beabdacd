/* SPDX-License-Identifier: BSD-3-Clause
 * `precise` in two levels: a host sends the exact sums of its ranks' values, in fp32 and a list of what that lacks.
 *
 * Before     The ranks of a host exchange their values, so that each has those of `local` ranks for its shards.
 * Payload    Exchange A2A, for 16-bit types alone:
 *              count    of the list's entries, or TAGC_LEVELS_FULL; padded to 16 bytes
 *              sums     n fp32, padded to 16 bytes
 *              places   capacity uint32: the elements of the list's entries, ascending
 *              terms    capacity fp32: what is added to the sum of that element; an element may have several
 *            4.25 bytes an element. Flat, the same ranks send 2 bytes of each of them: it is less from three ranks on.
 * Example    Two ranks, bf16, n = 1: 1 and 2^-30. Count 1, sum 1, place 0, term 2^-30.
 * Exact      The sum of a host's values is that of fp32 and the terms, without any error. fp32 holds it alone where the
 *            values' exponents differ by at most 24 - p - log2(local) (precise.c has the proof, with 53): for normal
 *            values of 8 ranks in all but one of a thousand elements. There a double holds it, as two terms of fp32. If
 *            not, the terms are the values themselves. So owners get what they would get flat: the same bits.
 * Full       If the list has no room, the message lacks its sums. Sender and owner both see it: the owner then gets the
 *            values, as flat, in one more exchange of these two alone (job->values), and decodes behind it.
 * Specials   NaN and infinities are sums: those of fp64, which keep them.
 *
 * Threads    As in codec.h.
 */
#ifndef KERNELS_NONE_LEVELS_H
#define KERNELS_NONE_LEVELS_H

#include "kernels/codec/bits.h"

#define TAGC_LEVELS_FULL UINT32_MAX

/* The parts of a message, in its memory. */
struct tagc_levels_message {
  uint32_t *count;
  float *sums;
  uint32_t *places;
  float *terms;
  uint32_t capacity;
};

/* False for types or numbers of ranks that it does not take. */
bool tagc_levels_layout(const struct tagc_shape *shape, struct tagc_layout *out);

struct tagc_levels_message tagc_levels_message_at(const struct tagc_shape *shape, const uint8_t *message);

/* The message of a host; the own one is never sent. Does it hold sums? */
const uint8_t *tagc_levels_message_of(const struct tagc_job *job, int host);
bool tagc_levels_has_sums(const struct tagc_job *job, int host);

/* The values of a host's rank for this rank's shard, and of this host's rank for any shard. */
const void *tagc_levels_values(const struct tagc_job *job, int host, int local);
const void *tagc_levels_own_values(const struct tagc_job *job, int shard, int local);

/* Adds element i of a shard where fp32 may not: sets its sum, and lists its terms. */
void tagc_levels_add(const struct tagc_job *job, int shard, uint64_t i, const struct tagc_levels_message *to);

/* The bits of element i of the result. */
uint32_t tagc_levels_exact_sum(const struct tagc_job *job, uint64_t i);

/* As in struct tagc_codec. */
void tagc_levels_encode(struct tagc_job *job);
void tagc_levels_decode(struct tagc_job *job);

extern const struct tagc_codec_levels tagc_levels_of_precise;

#endif
