/* SPDX-License-Identifier: BSD-3-Clause
 * Sparsification: chooses the largest values of scale*g + e and leaves the others in the residual. What the codecs lhc
 * and sparse do first.
 *
 * What is chosen   Of each stripe of a foreign shard (sparsify_bits.h) whole bins from the top, then of the next one as
 *                  many as fit, in order of place from a seeded offset on, around: exactly the stripe's capacity, if so
 *                  many reach 2^-120. Exceptions (exceptions.h) are listed and become zero.
 * How              From a sample a guess of the threshold; one scan, in the order of memory, that collects what is
 *                  above it; and of that what is chosen. Where the guess was bad for a stripe: the long way, with a
 *                  histogram of all its values.
 * Ownership        All memory is the caller's; tagc_sparsify_assign_buffers() says how much. Threads: reentrant.
 */
#ifndef KERNELS_SPARSE_SPARSIFY_H
#define KERNELS_SPARSE_SPARSIFY_H

#include "kernels/codec/exceptions.h"
#include "kernels/sparse/sparsify_bits.h"

/* For n < 2^32 elements, of which keep_ppm may be chosen, and `stripes` stripes. Pure. */
void tagc_grid_fill(struct tagc_grid *grid, uint64_t n, uint32_t keep_ppm, uint32_t stripes);

/* Values that may be chosen from a stripe, with their ids, in order of id. Vector stores may run 32 entries over. */
struct tagc_sparsify_list {
  float *values;
  uint32_t *ids;
  uint32_t *bitmap; /* of the stripe */
  uint32_t count;
  uint32_t threshold; /* bits of the least magnitude that enters; UINT32_MAX: none, the long way */
};

/* Lists that are filled on the way, and those of what was chosen. */
struct tagc_sparsify_memory {
  struct tagc_sparsify_list *candidates; /* of one shard: a list a stripe, in the two that follow */
  float *candidate_values;
  uint32_t *candidate_ids;
  size_t room;      /* of a list; the memory is 32 entries larger */
  uint32_t *counts; /* per shard and stripe: chosen values */
  float *values;    /* `stride` per shard and stripe, in order of id */
  uint32_t *ids;
  size_t stride;
};

/* Places the lists of `shards` shards at base + used, where base may be NULL; returns where they end. */
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
  float *residual; /* n floats: gets scale*g + e, without what was chosen */
  bool residual_empty;
  struct tagc_exceptions *exceptions; /* empty before, open after */
  bool rounded;                       /* chosen values will be rounded to bf16: what that leaves over stays, too */
  uint8_t *exponents;                 /* a byte a block of 1,024 positions; NULL with `rounded`, which needs none */
  uint32_t *bitmap;                   /* of what was chosen, stripe_lines words a stripe: a word a line */
  const struct tagc_sparsify_memory *memory;
  size_t list; /* which shard's in memory the lists of what was chosen are */
};

/* Chooses. Returns the squared norm of what stays in the residual, but for what rounding leaves over. */
double tagc_sparsify(const struct tagc_sparsify_shard *shard);

/* For tagc_exceptions_anywhere(): TAGC_ANYWHERE_SURPLUS where a stripe of a shard whose values were just chosen is
 * full, and what stays has more than 1/64 of the squared norm of what was chosen, else 0. `left` is what
 * tagc_sparsify() returned. Full alone says little: what rounding has left of earlier steps takes whatever room there
 * is. Values below 2^-120 never fill a stripe, but they stay: a plain call would carry them. */
uint32_t tagc_sparsify_surplus(const struct tagc_sparsify_shard *shard, double left);

/* TAGC_ANYWHERE_EXCEPTION where this rank's own shard has exceptions, else 0: no codec touches it, but
 * tagc_exceptions_anywhere() wants to know. */
uint32_t tagc_sparsify_own_exceptions(const struct tagc_job *job);

/* -- hot functions: compiled once per instruction set, the same bits from each ------------------------------------- */

/* One stripe of a shard. */
struct tagc_sparsify_part {
  const struct tagc_sparsify_shard *shard;
  const struct tagc_grid *grid;
  uint32_t stripe, lines, capacity;
  uint64_t seed;
  uint32_t *bitmap; /* a word a line */
  float *values;    /* what was chosen, in order of id */
  uint32_t *ids;
};

struct tagc_sparsify_kernels {
  /* scale*g + e of every step-th line from step / 2 on. Returns how many values. */
  uint32_t (*sample)(const struct tagc_sparsify_shard *shard, uint32_t step, float *values);
  /* Writes scale*g + e to the residual, but for magnitudes from the stripe's threshold on: these go to the stripe's
   * list and its bitmap, and the residual gets what stays of them when they are sent. Fills the exponents. Returns the
   * squared norm of what is below the threshold. Where a list gets full, its values go back and the stripe goes the
   * long way. */
  double (*scan)(const struct tagc_sparsify_shard *shard);
  /* Counts values by coarse bin, or where `coarse` is one, those in it by fine bin. */
  void (*count_list)(const float *values, uint32_t count, uint32_t coarse, uint32_t *histogram);
  /* Counts values by fine bin above `threshold`, in TAGC_SPARSIFY_NEAR bins, the last of which takes the rest. */
  void (*count_near)(const float *values, uint32_t count, uint32_t threshold, uint32_t *histogram);
  /* As count_list, for what is in the residual of a stripe. */
  void (*count_residual)(const struct tagc_sparsify_part *part, uint32_t coarse, uint32_t *histogram);
  /* Takes the chosen ones from the list (which is then void); the others return to the residual, their squares to
   * *norm2. Returns the number of the chosen. */
  uint32_t (*filter)(const struct tagc_sparsify_part *part, const struct tagc_sparsify_list *list,
                     const struct tagc_sparsify_choice *choice, double *norm2);
  /* Moves the chosen values from the residual to the lists and the bitmap. Returns their number. */
  uint32_t (*select)(const struct tagc_sparsify_part *part, const struct tagc_sparsify_choice *choice);

  bool (*has_exceptions)(const void *values, uint64_t n, enum tagc_dtype dtype, float scale);
};

extern const struct tagc_sparsify_kernels tagc_sparsify_plain, tagc_sparsify_avx2, tagc_sparsify_avx512;

/* Those of tagc_variant(). Thread-safe. */
const struct tagc_sparsify_kernels *tagc_sparsify_kernels(void);

/* Puts a stripe's candidates back into the residual; from now on the stripe goes the long way. */
void tagc_sparsify_put_back(const struct tagc_sparsify_shard *shard, uint32_t stripe);

#endif
