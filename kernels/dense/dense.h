/* SPDX-License-Identifier: BSD-3-Clause
 * The common part of the dense codecs: they send every value of a shard, in blocks of 256.
 *
 * Message    exceptions (exceptions.h)
 *            scales     uint16 (bf16 bits), `scales` a block
 *            codes      `bytes` a block; whole blocks, but bf16's end with the shard
 *            Each part is padded with zeros to 16 bytes. A shard is padded with zeros to whole blocks.
 * Values     x = scale*g + e. Exceptions and magnitudes below 2^-120 are encoded as zero. The residual becomes x minus
 *            the decoded value; zero for exceptions.
 * Sum        In fp32 from 0: the senders in rank order (q4, q2: rotated, and turned back once), the own shard, the
 *            exceptions; divided, rounded once.
 * State      header | exceptions of all senders
 * Ownership  All memory is the job's. Threads: reentrant. Failure: none once layout() has accepted.
 */
#ifndef KERNELS_DENSE_DENSE_H
#define KERNELS_DENSE_DENSE_H

#include "kernels/codec/codec.h"
#include "kernels/codec/blocks.h"
#include "kernels/codec/exceptions.h"
#include "kernels/codec/rotate.h"

enum tagc_dense_codec {
  TAGC_DENSE_BF16,
  TAGC_DENSE_Q8,
  TAGC_DENSE_Q4,
  TAGC_DENSE_Q3,
  TAGC_DENSE_Q2,
  TAGC_DENSE_CODECS
};

/* The properties of a codec, without its steps. */
struct tagc_dense_format {
  enum tagc_dense_codec codec;
  uint32_t scales; /* a block */
  uint32_t bytes;  /* of the codes of a block */
  bool rotates;
  bool draws; /* can round by chance, with random bits for each element */
};

extern const struct tagc_dense_format tagc_dense_formats[TAGC_DENSE_CODECS];

/* The offsets of the parts of a message, and their sizes. */
struct tagc_dense_parts {
  size_t scales, codes, code_bytes, bytes;
};

struct tagc_dense_parts tagc_dense_parts_of(const struct tagc_dense_format *format, uint64_t n);
bool tagc_dense_layout(const struct tagc_dense_format *format, const struct tagc_shape *shape, struct tagc_layout *out);
void tagc_dense_encode(const struct tagc_dense_format *format, struct tagc_job *job);
void tagc_dense_decode(const struct tagc_dense_format *format, struct tagc_job *job);

/* -- hot functions: compiled once per instruction set, the same bits from each ------------------------------------- */

/* A block's codes depend on this besides its values. */
struct tagc_dense_context {
  uint64_t signs[TAGC_ROTATION_WORDS];
  bool stochastic;
  uint16_t chance[TAGC_DENSE_BLOCK]; /* random bits, for codecs that draw */
};

/* One whole block. Values are finite, below 2^120, and zero below 2^-120. */
struct tagc_dense_steps {
  /* Fills scales and codes, and `left`, unless NULL, with the values minus the decoded ones. */
  void (*encode)(const float *values, const struct tagc_dense_context *context, uint16_t *scales, uint8_t *codes,
                 float *left);
  /* Adds the encoded values; rotated if the codec rotates. */
  void (*add)(float *sum, const uint16_t *scales, const uint8_t *codes);
};

/* The format of results. Factors that are NaN have no low bits: then no NaN has some that is rounded to bf16, and so no
 * rounding carries into its sign. */
struct tagc_dense_result {
  enum tagc_dtype dtype;
  float scale, divisor;
};

struct tagc_dense_kernels {
  /* Writes scale*g + e (`residual` NULL: no e) of a whole block. False if it has tiny, huge or non-finite values. */
  bool (*load)(const void *from, enum tagc_dtype dtype, float scale, const float *residual, float *values);
  bool (*has_exceptions)(const void *from, uint64_t n, enum tagc_dtype dtype, float scale);
  /* Turns a rotated sum back. */
  void (*turn_back)(float *sum, const uint64_t signs[TAGC_ROTATION_WORDS]);
  /* Adds the own values of a whole block, divides, and writes. True if a result is not finite. */
  bool (*finish)(const float *sum, const void *own, void *recv, struct tagc_dense_result result);
  struct tagc_dense_steps codec[TAGC_DENSE_CODECS];
};

extern const struct tagc_dense_kernels tagc_dense_plain, tagc_dense_avx2, tagc_dense_avx512;

#endif
