/* SPDX-License-Identifier: BSD-3-Clause
 * The foreign shards of a gradient as one array of elements: the number of values of each, whether there are
 * exceptions, and where values begin. The host or a GPU (device.h) counts where the gradient is, with the same words.
 *
 * Words    Start as zeros and are only raised or added to, so that they may be filled in any order.
 * Units    Elements; places in the array. Threads: reentrant. Failure: none.
 */
#ifndef KERNELS_CODEC_NONZERO_INDEX_H
#define KERNELS_CODEC_NONZERO_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/codec/bits.h"
#include "kernels/codec/exceptions.h"

struct tagc_job;

/* The array is divided into ranges of equal length; the last one may be shorter. */
enum { TAGC_NONZERO_RANGES = 64, TAGC_NONZERO_BLOCK = 256 };

/* The words. */
enum {
  TAGC_NONZERO_EXCEPTIONS, /* some value is NaN, infinite or at least 2^120: not 0 */
  TAGC_NONZERO_FIRST,      /* by range: the complement of the place of the first block with a value; 0: none */
  TAGC_NONZERO_VALUES = TAGC_NONZERO_FIRST + TAGC_NONZERO_RANGES, /* by foreign shard: elements with |x| >= 2^-120 */
};

static inline size_t tagc_nonzero_index_bytes(unsigned nranks) {
  return (TAGC_NONZERO_VALUES + (size_t)nranks - 1) * sizeof(uint64_t);
}

static inline TAGC_HD bool tagc_is_value(float x) { return (tagc_bits_of(x) & 0x7fffffffu) >= TAGC_LEAST_BITS; }

/* Counts on the host, in the codecs' mode (fpmode.h). Uses the job's shape, rank, send and scale; `range`: elements. */
void tagc_nonzero_index_count(const struct tagc_job *job, uint64_t range, uint64_t *words);

#endif
