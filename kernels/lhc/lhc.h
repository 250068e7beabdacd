/* SPDX-License-Identifier: BSD-3-Clause
 * The inside of the `lhc` codec on the host: geometry, state and the hot functions.
 *
 * Ownership  All memory is the job's; tagc_lhc_assign_state() assigns pointers into job->state.
 * Threads    Reentrant. Failure: none once layout() has accepted.
 */
#ifndef KERNELS_LHC_LHC_H
#define KERNELS_LHC_LHC_H

#include "kernels/codec/codec.h"
#include "kernels/lhc/codec.h"
#include "kernels/codec/exceptions.h"
#include "kernels/sparse/sparse.h"
#include "kernels/sparse/sparsify.h"

/* False if the codec cannot carry the shape. Pure. */
bool tagc_lhc_geometry_fill(struct tagc_lhc_geometry *geo, const struct tagc_shape *shape);
bool tagc_lhc_layout(const struct tagc_shape *shape, struct tagc_layout *out);

/* Kept from prepare to decode, at the start of the state. */
struct tagc_lhc_header {
  double norm2;      /* of the residual */
  uint32_t anywhere; /* this rank's flags for the others (exceptions.h) */
  uint32_t own_most; /* the largest magnitude of its own shard, as bits */
};

/* The contents of job->state. The lists live from prepare to encode; decode uses the same memory for the rest. */
struct tagc_lhc_state {
  struct tagc_lhc_header *header;
  struct tagc_sparsify_memory selected;
  uint32_t *bitmap; /* sparse layout: lines of the shard */
  float *residual;  /* of the foreign shards, if it is stored narrower */

  struct tagc_exception *exceptions; /* of all senders */
  uint32_t *cursors;                 /* per sender (sparse layout), or per stripe: elements written */
  uint32_t *masks, *elements;        /* of all stripes: stripe_lines words and `support` elements of each */
  size_t support;
  uint64_t *cells; /* of one stripe, like the rest */
  uint64_t *queue; /* two of queue_room */
  size_t queue_room;
  uint8_t *peeled;
};

/* Points *out into the memory at `base`; returns the bytes needed (base may be NULL for that). */
size_t tagc_lhc_assign_state(struct tagc_lhc_state *out, const struct tagc_lhc_geometry *geo, void *base);

/* The bytes and offsets of a message: exceptions | bitmap, or exceptions | counts | offsets | values. */
struct tagc_lhc_message {
  size_t bitmap; /* uint32 x stripes x stripe_lines */
  struct tagc_sparse_message sparse;
  size_t bytes;
};

void tagc_lhc_message_fill(struct tagc_lhc_message *out, const struct tagc_lhc_geometry *geo);

/* -- hot functions: compiled once per instruction set, the same bits from each ------------------------------------- */

/* The selected values of one stripe of a foreign shard. */
struct tagc_lhc_part {
  const struct tagc_lhc_geometry *geo;
  float *residual; /* of the shard */
  uint32_t stripe, count;
  uint64_t seed;
  const float *values; /* in order of id */
  const uint32_t *ids;
};

/* One stripe of this rank's own shard during decode. */
struct tagc_lhc_sum {
  const struct tagc_lhc_geometry *geo;
  uint64_t seed;
  const int32_t *counters;
  uint32_t lines;
  uint32_t *masks;    /* the support, a word a line */
  uint32_t *elements; /* its ids, in order; a peeled element's value replaces its id */
  uint32_t count;     /* of elements */
  uint64_t *cells;
  uint64_t *queue; /* two of queue_room: this round's and the next one's */
  size_t queue_room;
  uint8_t *peeled; /* a flag an element, and one more */
};

/* The output of all stripes. */
struct tagc_lhc_output {
  const struct tagc_lhc_geometry *geo;
  const uint32_t *masks; /* stripe_lines words a stripe */
  const uint32_t *sums;  /* `support` a stripe: the values of its elements */
  size_t support;
  uint32_t *cursors; /* a stripe: its sums used so far */
  const uint8_t *exponents;
  const float *units; /* by exponent; 0 for 0 */
  const void *own;
  void *recv;
  bool streaming; /* write past the caches */
  enum tagc_dtype dtype;
  float scale, divisor;
};

struct tagc_lhc_kernels {
  const char *name;

  /* Adds a stripe's selected values to its counters, their errors to the residual, the squares of these to *norm2. */
  void (*scatter)(const struct tagc_lhc_part *part, const uint8_t *exponents, int32_t *counters, double *norm2);

  /* Lists the ids of the support in the masks; returns their number. Cuts a support beyond its bound (which no sender
   * of this code makes), so that hostile bytes cannot lead out of the lists. */
  uint32_t (*find_support)(const struct tagc_lhc_sum *sum);
  /* Fills the cells from counters and elements. */
  void (*build)(const struct tagc_lhc_sum *sum);
  /* Peels; returns the number of recovered values. */
  uint32_t (*peel)(const struct tagc_lhc_sum *sum);
  /* Writes the results of the lines [from, to) of the shard, all complete. */
  void (*output)(const struct tagc_lhc_output *out, uint32_t from, uint32_t to);
};

extern const struct tagc_lhc_kernels tagc_lhc_plain, tagc_lhc_avx2, tagc_lhc_avx512;

/* The table of tagc_variant(). Thread-safe. */
const struct tagc_lhc_kernels *tagc_lhc_kernels(void);

void tagc_lhc_measure(struct tagc_job *job);
void tagc_lhc_prepare(struct tagc_job *job);
void tagc_lhc_encode(struct tagc_job *job);
void tagc_lhc_decode(struct tagc_job *job);

#endif
