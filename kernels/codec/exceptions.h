/* SPDX-License-Identifier: BSD-3-Clause
 * Exceptions: values that no codec can carry (NaN, infinities, 2^120 and more) travel beside the payload.
 *
 * Purpose  Loss scalers look for infinities at the end of a step. So these values must come out at their positions and
 *          touch nothing else. The codec sees zeros, their residual becomes zero, and the owner adds them last.
 * Layout   The first part of a message, little-endian, padded with zeros to 16 bytes:
 *            uint32 count      number of exceptions; more than E: the shard comes out all NaN and the entries are zero
 *            uint32 anywhere   of all shards of the call, the same in all messages of a sender:
 *                                bit 0  the sender had an exception in some shard, its own included, or knows of an
 *                                       earlier call of the cycle with a value or a result that is not finite
 *                                bit 1  it filled the capacity of a foreign shard (lhc: of a stripe of one), and left a
 *                                       good part behind: values too small to be sent as well as values without room
 *                              the other bits are zero, and ignored
 *            E x {uint32 position in the shard, uint32 bits of the fp32}, by position; unused entries are zero
 *          E = max(ceil(n / 4096), min(16, ceil(n / 64))).
 * Example  n = 100: E = 2, 32 bytes. One value, +Inf at position 7, and no shard is full (03 where one is):
 *            01 00 00 00  01 00 00 00  07 00 00 00  00 00 80 7f  (16 zeros)
 * Threads  Reentrant; the message belongs to the caller.
 */
#ifndef KERNELS_CODEC_EXCEPTIONS_H
#define KERNELS_CODEC_EXCEPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/codec/bits.h"

#define TAGC_EXCEPTION_BITS 0x7b800000u /* 2^120: magnitudes from here on are exceptions */

/* The bits of `anywhere`. */
enum { TAGC_ANYWHERE_EXCEPTION = 1, TAGC_ANYWHERE_SURPLUS = 2 };

struct tagc_exception {
  uint32_t position, bits;
};

struct tagc_exceptions {
  uint32_t count, anywhere;
  struct tagc_exception entry[];
};

static inline TAGC_HD bool tagc_is_exception(uint32_t bits) { return (bits & 0x7fffffffu) >= TAGC_EXCEPTION_BITS; }

static inline uint64_t tagc_exceptions_capacity(uint64_t n) {
  uint64_t few = (n + 63) / 64, share = (n + 4095) / 4096;
  if (few > 16)
    few = 16;
  return share > few ? share : few;
}

static inline size_t tagc_exceptions_bytes(uint64_t n) {
  return tagc_pad16(sizeof(struct tagc_exceptions) + tagc_exceptions_capacity(n) * sizeof(struct tagc_exception));
}

/* Makes the list of a shard of n elements empty. */
void tagc_exceptions_clear(struct tagc_exceptions *list, uint64_t n);

/* Adds a value, in any order. */
void tagc_exceptions_add(struct tagc_exceptions *list, uint64_t n, uint32_t position, float value);

/* Sorts the entries by position, or zeroes them if there were too many. Returns the count. */
uint32_t tagc_exceptions_close(struct tagc_exceptions *list, uint64_t n);

/* Merges a sender's closed list into sorted[0..*count), which has room for it. Entries with equal positions keep the
 * order of their lists. Returns false if the list is too long or does not fit the shard: the shard is NaN then. */
bool tagc_exceptions_merge(struct tagc_exception *sorted, size_t *count, const struct tagc_exceptions *list,
                           uint64_t n);

/* A sender's last step, after all lists are closed: writes `anywhere` into every message. `known`: bits of `anywhere`
 * that the lists do not show: those of its own shard, which no codec touches, and of full capacities. Each list is the
 * first part of its message in job->message_out. Returns the flags. */
uint32_t tagc_exceptions_anywhere(const struct tagc_job *job, uint32_t known);

/* The receiver's first step: merges all lists of job->message_in into `sorted`, which has room for nranks - 1 full
 * ones. Sets job->nonfinite_seen and job->surplus_seen from the flags of all senders and of this rank (`own`). False if
 * a list has lost its values: the shard is NaN then. */
bool tagc_exceptions_collect(struct tagc_job *job, uint32_t own, struct tagc_exception *sorted, size_t *count);

/* Makes such a shard all NaN, and counts it. */
void tagc_exceptions_overflow(struct tagc_job *job);

#endif
