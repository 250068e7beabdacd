/* SPDX-License-Identifier: BSD-3-Clause
 * `precise` in two levels: a host sends the exact sums of its ranks' values, in fp32 and a list of what that lacks.
 *
 * Before     The ranks of a host exchange their values, so that each has those of `local` ranks for its shards.
 * Payload    Exchange A2A, for 16-bit types alone:
 *              count    of the list's entries, or TAGC_LEVELS_FULL; then 1 if the values that such a message lacks
 *                       have exceptions (codec/exceptions.h), else 0; padded to 16 bytes
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
 * On a GPU   The message is made by prepare, and exponents tell all ranks whether some message lacks its sums, before
 *            any is sent (levels.cu): a flag of TAGC_LEVELS_FLAG_BYTES a shard.
 * Specials   NaN and infinities are sums: those of fp64, which keep them. The owner sees exceptions in sums and terms,
 * or is told of them by a message that is full: ranks agree about the call before its values come.
 *
 * Threads    As in codec.h.
 */
#ifndef KERNELS_NONE_LEVELS_H
#define KERNELS_NONE_LEVELS_H

#include "kernels/codec/bits.h"

#define TAGC_LEVELS_FULL UINT32_MAX

enum { TAGC_LEVELS_HEAD_BYTES = 16, TAGC_LEVELS_FLAG_BYTES = 16, TAGC_LEVELS_ELEMENTS_AN_ENTRY = 32 };

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

static inline TAGC_HD uint32_t tagc_levels_capacity(uint64_t n) {
  return (uint32_t)((n + TAGC_LEVELS_ELEMENTS_AN_ENTRY - 1) / TAGC_LEVELS_ELEMENTS_AN_ENTRY + 15) & ~15u;
}

/* The parts of a message for shards of n elements. */
static inline TAGC_HD struct tagc_levels_message tagc_levels_parts(uint64_t n, const uint8_t *message) {
  uint8_t *at = (uint8_t *)(uintptr_t)message;
  struct tagc_levels_message parts;
  parts.capacity = tagc_levels_capacity(n);
  parts.count = (uint32_t *)at;
  parts.sums = (float *)(at + TAGC_LEVELS_HEAD_BYTES);
  parts.places = (uint32_t *)(at + TAGC_LEVELS_HEAD_BYTES + ((n * sizeof(float) + 15) & ~(uint64_t)15));
  parts.terms = (float *)(parts.places + parts.capacity);
  return parts;
}

/* A message from outside may say anything. */
static inline TAGC_HD uint32_t tagc_levels_entries(const struct tagc_levels_message *message) {
  return *message->count < message->capacity ? *message->count : message->capacity;
}

/* The first entry of element i or of a later one. */
static inline TAGC_HD uint32_t tagc_levels_entry_from(const struct tagc_levels_message *message, uint64_t i) {
  uint32_t low = 0, high = tagc_levels_entries(message);
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (message->places[middle] < i)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* -- the sum of an element over the ranks of a host ---------------------------------------------------------------- */

/* In fp64, and whether it has no error (Knuth, The Art of Computer Programming, vol. 2, 4.2.2, Theorem B). */
struct tagc_levels_sum {
  double sum;
  bool exact;
};

static inline TAGC_HD void tagc_levels_next(struct tagc_levels_sum *so_far, float value) {
  const double sum = so_far->sum, x = (double)value, next = sum + x, part = next - sum;
  so_far->exact &= (sum - (next - part)) + (x - part) == 0;
  so_far->sum = next;
}

static inline TAGC_HD bool tagc_levels_is_finite(double x) { return x - x == 0; }

/* Splits it into the fp32 of a message and one term. Returns the number of terms: 0, 1, or `local`: then the fp32 is 0,
 * and the values themselves are the terms. A sum that is not finite has no error: values of fp32 overflow no fp64. */
static inline TAGC_HD uint32_t tagc_levels_split(const struct tagc_levels_sum *whole, uint32_t local, float *head,
                                                 float *term) {
  const double sum = whole->sum, rest = sum - (double)(float)sum;
  *head = sum == sum ? (float)sum : tagc_float_of(TAGC_NAN_BITS);
  *term = 0;
  if (!tagc_levels_is_finite(sum) || (whole->exact && rest == 0))
    return 0;
  if (whole->exact && tagc_levels_is_finite(rest) && (double)(float)rest == rest) {
    *term = (float)rest;
    return 1;
  }
  *head = 0;
  return local;
}

/* The message of a host; the own one is never sent. Does it hold sums? */
const uint8_t *tagc_levels_message_of(const struct tagc_job *job, int host);
bool tagc_levels_has_sums(const struct tagc_job *job, int host);

/* The values of a host's rank for this rank's shard, and of this host's rank for any shard. */
const void *tagc_levels_values(const struct tagc_job *job, int host, int local);
const void *tagc_levels_own_values(const struct tagc_job *job, int shard, int local);

/* Adds element i of a shard where fp32 may not: sets its sum, and lists its terms. */
void tagc_levels_add(const struct tagc_job *job, int shard, uint64_t i, const struct tagc_levels_message *to);

/* Writes element i of the result. True if it is not finite. */
bool tagc_levels_write_exact(const struct tagc_job *job, uint64_t i);

/* As in struct tagc_codec. */
void tagc_levels_encode(struct tagc_job *job);
void tagc_levels_decode(struct tagc_job *job);

extern const struct tagc_codec_levels tagc_levels_of_precise;

#endif
