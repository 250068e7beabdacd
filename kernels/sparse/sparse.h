/* SPDX-License-Identifier: BSD-3-Clause
 * Lists of values by block: the messages of the codec `sparse`, and of `lhc` for shards too small for a sketch.
 *
 * Layout   After the exceptions, little-endian, each part padded with zeros to 16 bytes; unused entries are zero:
 *            counts    per block of 256 positions the number of its values
 *            offsets   uint8 x capacity: positions inside the blocks, in order of position
 *            values    x capacity, in the same order
 *          sparse: counts uint8, so that a block has 255 values at most; values bf16. lhc: counts uint16, values fp32.
 * Threads  Reentrant; all memory is the caller's.
 */
#ifndef KERNELS_SPARSE_SPARSE_H
#define KERNELS_SPARSE_SPARSE_H

#include "kernels/codec/exceptions.h"

enum { TAGC_SPARSE_BLOCK = 256 };

struct tagc_sparse_message {
  uint64_t n;
  uint32_t capacity;
  bool exact;                     /* fp32 values and 16-bit counts */
  size_t counts, offsets, values; /* byte offsets of the parts */
  size_t bytes;
};

/* Pure. */
void tagc_sparse_message_fill(struct tagc_sparse_message *out, uint64_t n, uint32_t capacity, bool exact);

/* Fills the counts from a bitmap of the shard's positions. True if a count does not fit its byte (it is zero then). */
bool tagc_sparse_count(const struct tagc_sparse_message *message, const uint32_t *bitmap, uint8_t *out);

/* Fills the other parts after the exceptions. Returns the squared norm of the rounding errors. */
double tagc_sparse_pack(const struct tagc_sparse_message *message, const float *values, const uint32_t *ids,
                        uint32_t count, uint8_t *out);

/* Sums the messages of job->message_in in rank order, then the own shard and the merged exceptions; writes job->recv.
 * Sets job->nonfinite_seen if a result is not finite. `cursors`: room for nranks - 1. Counts beyond a list are cut. */
void tagc_sparse_sum(struct tagc_job *job, const struct tagc_sparse_message *message, uint32_t *cursors,
                     const struct tagc_exception *exceptions, size_t count);

/* -- hot functions: compiled once per instruction set, the same bits from each ------------------------------------- */

struct tagc_sparse_input {
  const struct tagc_job *job;
  const struct tagc_sparse_message *message;
  uint32_t *cursors; /* per foreign sender: values read so far */
  bool streaming;    /* write past the caches */
};

struct tagc_sparse_kernels {
  /* Counts the bits of each block of 256. True if a count was 256. */
  bool (*count)(const struct tagc_sparse_message *message, const uint32_t *bitmap, uint8_t *out);
  /* Writes offsets and values (in wire format) of ids[0..count). Returns the squared norm of the rounding errors. */
  double (*pack)(const struct tagc_sparse_message *message, const float *values, const uint32_t *ids, uint32_t count,
                 uint8_t *out);
  /* Adds the foreign values of the next block, sender by sender. */
  void (*add)(const struct tagc_sparse_input *in, uint64_t block, float sum[TAGC_SPARSE_BLOCK]);
  /* Writes the results of the blocks [from, to), all complete and without exceptions. True if a sum was too large. */
  bool (*sum)(const struct tagc_sparse_input *in, uint64_t from, uint64_t to);
};

extern const struct tagc_sparse_kernels tagc_sparse_plain, tagc_sparse_avx2, tagc_sparse_avx512;

#endif
