/* SPDX-License-Identifier: BSD-3-Clause
 * Sparsification: chooses the largest values of scale*g + e and leaves the others in the residual. The first step of
 * the codecs lhc and sparse.
 *
 * Choice      In each stripe of a foreign shard (sparsify_bits.h): whole bins from the top, then as many of the next
 *             one as fit, in order of place from a seeded offset on, around. That is exactly the stripe's capacity, if
 *             so many reach 2^-120. Exceptions (exceptions.h) are listed and become zero.
 * How         A sample gives a guess of the threshold. One scan, in the order of memory, collects the values above it,
 *             and the choice is made among these. If the guess was bad for a stripe, it goes the long way, with a
 *             histogram of all its values.
 * Ownership   All memory is the caller's; tagc_sparsify_assign_buffers() gives its size. Threads: reentrant.
 */
#ifndef KERNELS_SPARSE_SPARSIFY_H
#define KERNELS_SPARSE_SPARSIFY_H

#include "kernels/codec/exceptions.h"
#include "kernels/sparse/sparsify_bits.h"

/* For n < 2^32 elements, of which keep_ppm may be chosen, in `stripes` stripes. Pure. */
void tagc_grid_fill(struct tagc_grid *grid, uint64_t n, uint32_t keep_ppm, uint32_t stripes);

/* Candidates of a stripe with their ids, in order of id. Vector stores may run 32 entries over. */
struct tagc_sparsify_list {
  float *values;
  uint32_t *ids;
  uint32_t *bitmap; /* of the stripe */
  uint32_t count;
  uint32_t threshold; /* bits of the least magnitude that enters; UINT32_MAX: none, the long way */
};

/* The lists of candidates, and those of chosen values. */
struct tagc_sparsify_memory {
  struct tagc_sparsify_list *candidates; /* of one shard: a list a stripe, in the next two */
  float *candidate_values;
  uint32_t *candidate_ids;
  size_t room;      /* of a list; the memory is 32 entries larger */
  uint32_t *counts; /* per shard and stripe: chosen values */
  float *values;    /* `stride` per shard and stripe, in order of id */
  uint32_t *ids;
  size_t stride;
};

/* Places the lists of `shards` shards at base + used; returns their end. `base` may be NULL. */
size_t tagc_sparsify_assign_buffers(struct tagc_sparsify_memory *out, const struct tagc_grid *grid, size_t shards,
                                    void *base, size_t used);

/* One foreign shard on its way out. */
struct tagc_sparsify_shard {
  const struct tagc_grid *grid;
  const void *send;
  enum tagc_dtype dtype;
  float scale;
  uint64_t seed;   /* of the call */
  uint32_t number; /* of the shard */
  float *residual; /* n floats: becomes scale*g + e without the chosen values */
  bool residual_empty;
  struct tagc_exceptions *exceptions; /* empty before, unsorted after */
  bool rounded;                       /* chosen values will be rounded to bf16: the rounding errors stay, too */
  uint8_t *exponents;                 /* a byte a block of 1,024 positions; NULL with `rounded`, which needs none */
  uint32_t *bitmap;                   /* of the chosen values, stripe_lines words a stripe: a word a line */
  const struct tagc_sparsify_memory *memory;
  size_t list; /* the shard's number in memory, for the lists of chosen values */
};

/* Chooses. Returns the squared norm of the residual without rounding errors. */
double tagc_sparsify(const struct tagc_sparsify_shard *shard);

/* For tagc_exceptions_anywhere(), after the choice: TAGC_ANYWHERE_SURPLUS if a stripe is full and the residual has more
 * than 1/64 of the squared norm of the chosen values, else 0. `left` is the result of tagc_sparsify(). A full stripe
 * alone says little: rounding errors of earlier steps take all the room there is. Values below 2^-120 never fill a
 * stripe, but they stay: a plain call would carry them. */
uint32_t tagc_sparsify_surplus(const struct tagc_sparsify_shard *shard, double left);

/* The largest magnitude of the own shard, scaled, as bits; and, for tagc_exceptions_anywhere(),
 * TAGC_ANYWHERE_EXCEPTION in *anywhere if it is an exception, as no codec touches that shard. */
uint32_t tagc_sparsify_own_largest(const struct tagc_job *job, uint32_t *anywhere);

/* -- hot functions: compiled once per instruction set, the same bits from each ------------------------------------- */

/* One stripe of a shard. */
struct tagc_sparsify_part {
  const struct tagc_sparsify_shard *shard;
  const struct tagc_grid *grid;
  uint32_t stripe, lines, capacity;
  uint64_t seed;
  uint32_t *bitmap; /* a word a line */
  float *values;    /* the chosen ones, in order of id */
  uint32_t *ids;
};

struct tagc_sparsify_kernels {
  /* Returns the exponent byte of scale*g + e, at most a block of 1,024 positions; `residual` = NULL: of scale*g. */
  uint8_t (*measure)(const void *send, const float *residual, uint32_t count, enum tagc_dtype dtype, float scale);
  /* Writes scale*g + e of every step-th line from step / 2 on. Returns the number of values. */
  uint32_t (*sample)(const struct tagc_sparsify_shard *shard, uint32_t step, float *values);
  /* Writes scale*g + e to the residual. Magnitudes from the stripe's threshold on go to the stripe's list and its
   * bitmap instead; the residual gets the error of sending them. Fills the exponents. Returns the squared norm below
   * the threshold. If a list gets full, its values go back and the stripe goes the long way. */
  double (*scan)(const struct tagc_sparsify_shard *shard);
  /* Counts values by coarse bin, or, if `coarse` is one, the values in it by fine bin. */
  void (*count_list)(const float *values, uint32_t count, uint32_t coarse, uint32_t *histogram);
  /* Counts values by fine bin above `threshold`, in TAGC_SPARSIFY_NEAR bins; the last bin takes the rest. */
  void (*count_near)(const float *values, uint32_t count, uint32_t threshold, uint32_t *histogram);
  /* Like count_list, for the residual of a stripe. */
  void (*count_residual)(const struct tagc_sparsify_part *part, uint32_t coarse, uint32_t *histogram);
  /* Takes the chosen values from the list (which is then void); the others return to the residual, their squares are
   * added to *norm2. Returns the number of chosen values. */
  uint32_t (*filter)(const struct tagc_sparsify_part *part, const struct tagc_sparsify_list *list,
                     const struct tagc_sparsify_choice *choice, double *norm2);
  /* Moves the chosen values from the residual to the lists and the bitmap. Returns their number. */
  uint32_t (*select)(const struct tagc_sparsify_part *part, const struct tagc_sparsify_choice *choice);

  /* The largest magnitude of the scaled values, as bits. */
  uint32_t (*largest)(const void *values, uint64_t n, enum tagc_dtype dtype, float scale);
};

extern const struct tagc_sparsify_kernels tagc_sparsify_plain, tagc_sparsify_avx2, tagc_sparsify_avx512;

/* The table of tagc_variant(). Thread-safe. */
const struct tagc_sparsify_kernels *tagc_sparsify_kernels(void);

/* Puts a stripe's candidates back into the residual; the stripe then goes the long way. */
void tagc_sparsify_put_back(const struct tagc_sparsify_shard *shard, uint32_t stripe);

#endif
