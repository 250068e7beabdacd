/* SPDX-License-Identifier: BSD-3-Clause
 * The `lhc` codec on the host, inside: geometry, state and the hot functions.
 *
 * Ownership  All memory is the job's; pointers into job->state are carved by tagc_lhc_state_carve().
 * Threads    Reentrant. Failure: none after layout() said yes.
 */
#ifndef KERNELS_LHC_H
#define KERNELS_LHC_H

#include "kernels/codec.h"
#include "kernels/codec_lhc.h"
#include "kernels/exceptions.h"

/* False where the codec cannot carry the shape. Pure. */
bool tagc_lhc_geometry_fill(struct tagc_lhc_geometry *geo, const struct tagc_shape *shape);
bool tagc_lhc_layout(const struct tagc_shape *shape, struct tagc_layout *out);

/* Kept from prepare to the end, at the start of the state. */
struct tagc_lhc_header {
  double norm2;                    /* of what stays in the residual */
  uint32_t nonfinite;              /* this rank had exceptions somewhere */
};

/* What job->state holds. The lists are used from prepare to encode, the rest in decode, in the same memory. */
struct tagc_lhc_state {
  struct tagc_lhc_header *header;
  uint32_t *counts;                /* per foreign shard and chunk: selected values */
  float *values;                   /* `stride` per foreign shard and chunk */
  uint32_t *ids;
  uint32_t *bitmap;                /* sparse layout: lines of the shard */
  size_t stride;

  struct tagc_exception *exceptions;  /* of all senders */
  uint32_t *cursors;               /* sparse layout: per sender */
  uint64_t *cells;
  uint32_t *elements;              /* ids of a chunk's support; a peeled one's value takes its place */
  uint32_t *masks;                 /* support of a chunk, a word a line */
  uint32_t *queue;
  uint8_t *peeled;
};

/* Points *out into the memory at `base`; returns the bytes needed (base may be NULL for that). */
size_t tagc_lhc_state_carve(struct tagc_lhc_state *out, const struct tagc_lhc_geometry *geo, void *base);

/* The bytes and offsets of a message: exceptions | bitmap, or exceptions | counts | offsets | values (sparse). */
struct tagc_lhc_message {
  size_t bitmap;                   /* uint32 x chunks x chunk_lines */
  size_t counts, offsets, values;  /* uint16 per 256 positions; uint8, float per value */
  size_t bytes;
};

void tagc_lhc_message_fill(struct tagc_lhc_message *out, const struct tagc_lhc_geometry *geo);

/* -- hot functions: compiled once per instruction set, the same bits from each ------------------------------------- */

/* One chunk of one foreign shard on its way out. */
struct tagc_lhc_part {
  const struct tagc_lhc_geometry *geo;
  uint32_t chunk, lines, capacity;
  uint64_t seed;
  const void *send;                /* the shard */
  enum tagc_dtype dtype;
  float scale;
  float *residual;                 /* of the shard */
  bool residual_empty;
  uint32_t *bitmap;                /* a word a line: what was selected */
  float *values;                   /* what was selected, in order of id */
  uint32_t *ids;
  struct tagc_exceptions *exceptions;
};

/* What is selected: whole bins above `bin`, and of those in it `take`, from the offset-th on, around. */
struct tagc_lhc_choice { uint32_t bin, count, take, offset; };

/* One chunk of this rank's own shard on its way in. */
struct tagc_lhc_sum {
  const struct tagc_lhc_geometry *geo;
  uint32_t chunk, lines;
  uint64_t seed;
  const int32_t *counters;
  const struct tagc_lhc_state *state;
  uint32_t count;                  /* elements of the support */
  const uint8_t *exponents;
  const void *own;
  void *recv;
  enum tagc_dtype dtype;
  float scale, divisor;
};

struct tagc_lhc_kernels {
  const char *name;
  /* scale*g + e into the residual, and how many values there are in each bin. */
  void (*accumulate)(const struct tagc_lhc_part *part, uint32_t histogram[TAGC_LHC_BINS]);
  /* Moves the chosen values from the residual to the lists and the bitmap. Returns their number; adds the squares of
   * what stays to *norm2. */
  uint32_t (*select)(const struct tagc_lhc_part *part, const struct tagc_lhc_choice *choice, double *norm2);
  /* Adds a chunk's selected values to its counters, what rounding left over to the residual, its squares to *norm2. */
  void (*scatter)(const struct tagc_lhc_part *part, uint32_t count, const uint8_t *exponents, int32_t *counters,
                  double *norm2);
  /* Fills sum->state->cells from counters and elements. */
  void (*build)(const struct tagc_lhc_sum *sum);
  /* Peels; returns how many values were recovered. Their indices are the first entries of the queue. */
  uint32_t (*peel)(const struct tagc_lhc_sum *sum);
  /* Writes results of the local lines [from, to), all complete; `element` is the index of the first one's first element.
   * Returns that of the line `to`. */
  uint32_t (*output)(const struct tagc_lhc_sum *sum, uint32_t from, uint32_t to, uint32_t element);
};

extern const struct tagc_lhc_kernels tagc_lhc_plain, tagc_lhc_avx2, tagc_lhc_avx512;

/* The fastest that this processor runs. Thread-safe. */
const struct tagc_lhc_kernels *tagc_lhc_kernels(void);

/* For tests and benchmarks: makes tagc_lhc_kernels() return the variant of that name from now on (NULL: the fastest).
 * False where this processor or this build has none of that name. */
bool tagc_lhc_force_variant(const char *name);

void tagc_lhc_prepare(struct tagc_job *job);
void tagc_lhc_encode(struct tagc_job *job);
void tagc_lhc_decode(struct tagc_job *job);

/* The parts of the sparse layout. */
void tagc_lhc_sparse_encode(struct tagc_job *job, const struct tagc_lhc_geometry *geo);
void tagc_lhc_sparse_decode(struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                            const struct tagc_exception *exceptions, size_t count);

#endif
