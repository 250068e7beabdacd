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
  bool nonfinite;                  /* this rank had an exception somewhere */
};

/* Values that may be selected from a chunk, with their ids, in order of id. Vector stores may run 32 entries over. */
struct tagc_lhc_list {
  float *values;
  uint32_t *ids;
  uint32_t *bitmap;                /* of the chunk */
  uint32_t count;
  uint32_t threshold;              /* bits of the least magnitude that enters; UINT32_MAX: none, the long way */
};

/* What job->state holds. The lists are used from prepare to encode, the rest in decode, in the same memory. */
struct tagc_lhc_state {
  struct tagc_lhc_header *header;
  uint32_t *counts;                /* per foreign shard and chunk: selected values */
  float *values;                   /* `stride` per foreign shard and chunk */
  uint32_t *ids;
  size_t stride;
  struct tagc_lhc_list *candidates;   /* of one shard: a list a chunk, in candidate_values and candidate_ids */
  float *candidate_values;
  uint32_t *candidate_ids;
  size_t room;                     /* of a list; the memory is 32 entries larger */
  uint8_t *exponents;              /* sparse layout: of one shard; nobody reads them */
  uint32_t *bitmap;                /* sparse layout: lines of the shard */

  struct tagc_exception *exceptions;  /* of all senders */
  uint32_t *cursors;               /* per sender (sparse layout), or per chunk: elements that are written */
  uint32_t *masks, *elements;      /* of all chunks: chunk_lines and `support` of each */
  size_t support;
  uint64_t *cells;                 /* of one chunk, like the rest */
  uint64_t *queue;                 /* two of queue_room */
  size_t queue_room;
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

/* One foreign shard on its way out. */
struct tagc_lhc_shard {
  const struct tagc_lhc_geometry *geo;
  const void *send;
  enum tagc_dtype dtype;
  float scale;
  float *residual;
  bool residual_empty;
  struct tagc_exceptions *exceptions;
  uint8_t *exponents;              /* a byte a block */
  struct tagc_lhc_list *candidates;   /* a list a chunk */
  uint32_t room;
};

/* One chunk of it. */
struct tagc_lhc_part {
  const struct tagc_lhc_shard *shard;
  const struct tagc_lhc_geometry *geo;
  uint32_t chunk, lines, capacity;
  uint64_t seed;
  uint32_t *bitmap;                /* a word a line */
  float *values;                   /* what was selected, in order of id */
  uint32_t *ids;
};

enum {
  TAGC_LHC_NO_BIN = TAGC_LHC_COARSE,
  TAGC_LHC_NEAR = 4096,            /* fine bins above a threshold: two octaves */
};

/* What is selected: whole fine bins above `bin` (`above` values), and of the `count` in it `take`, from the offset-th
 * on, around. */
struct tagc_lhc_choice { uint32_t bin, above, count, take, offset; };

/* `rank`: how many values of the boundary bin came before. */
static inline bool tagc_lhc_chosen(const struct tagc_lhc_choice *choice, uint32_t bin, uint32_t rank)
{
  uint32_t from = rank + (rank < choice->offset ? choice->count : 0) - choice->offset;
  return bin == choice->bin ? from < choice->take : bin > choice->bin && bin < TAGC_LHC_HUGE;
}

/* One chunk of this rank's own shard on its way in. */
struct tagc_lhc_sum {
  const struct tagc_lhc_geometry *geo;
  uint64_t seed;
  const int32_t *counters;
  uint32_t lines;
  uint32_t *masks;                 /* the support, a word a line */
  uint32_t *elements;              /* its ids, in order; a peeled one's value takes its place */
  uint32_t count;                  /* of elements */
  uint64_t *cells;
  uint64_t *queue;                 /* two of queue_room: this round's and the next one's */
  size_t queue_room;
  uint8_t *peeled;                 /* a flag an element, and one more */
};

/* What becomes of all chunks. */
struct tagc_lhc_output {
  const struct tagc_lhc_geometry *geo;
  const uint32_t *masks;           /* chunk_lines words a chunk */
  const uint32_t *sums;            /* `support` a chunk: the values of its elements */
  size_t support;
  uint32_t *cursors;               /* a chunk: how many of its sums are used up */
  const uint8_t *exponents;
  const float *units;              /* by exponent; 0 for 0 */
  const void *own;
  void *recv;
  bool streaming;                  /* write past the caches */
  enum tagc_dtype dtype;
  float scale, divisor;
};

struct tagc_lhc_kernels {
  const char *name;

  /* Selecting goes the short way: from a sample a guess of the threshold, one scan that collects what is above, and of
   * that what is chosen. Where the guess was bad for a chunk: the long way, with a histogram of all its values. */

  /* scale*g + e of every step-th line from step / 2 on. Returns how many values. */
  uint32_t (*sample)(const struct tagc_lhc_shard *shard, uint32_t step, float *values);
  /* Writes scale*g + e to the residual, but for magnitudes from the chunk's threshold on: these go to the chunk's list
   * and its bitmap, and are zero in the residual. Fills the exponents. Returns the squared norm of what stays. Where a
   * list gets full, its values go back and the chunk goes the long way. */
  double (*scan)(const struct tagc_lhc_shard *shard);
  /* Counts values by coarse bin, or where `coarse` is one, those in it by fine bin. */
  void (*count_list)(const float *values, uint32_t count, uint32_t coarse, uint32_t *histogram);
  /* Counts values by fine bin above `threshold`, in TAGC_LHC_NEAR bins, the last of which takes the rest. */
  void (*count_near)(const float *values, uint32_t count, uint32_t threshold, uint32_t *histogram);
  /* As count_list, for what is in the residual of a chunk. */
  void (*count_residual)(const struct tagc_lhc_part *part, uint32_t coarse, uint32_t *histogram);
  /* Takes the chosen ones from the list (which is then void); the others return to the residual, their squares to
   * *norm2. Returns the number of the chosen. */
  uint32_t (*filter)(const struct tagc_lhc_part *part, const struct tagc_lhc_list *list,
                     const struct tagc_lhc_choice *choice, double *norm2);
  /* Moves the chosen values from the residual to the lists and the bitmap. Returns their number. */
  uint32_t (*select)(const struct tagc_lhc_part *part, const struct tagc_lhc_choice *choice);

  bool (*has_exceptions)(const void *values, uint64_t n, enum tagc_dtype dtype, float scale);
  /* Adds a chunk's selected values to its counters, what rounding left over to the residual, its squares to *norm2. */
  void (*scatter)(const struct tagc_lhc_part *part, uint32_t count, const uint8_t *exponents, int32_t *counters,
                  double *norm2);

  /* Lists the ids of the support in the masks; returns their number. A support beyond its bound (which no sender of
   * this code makes) is cut, so that bytes from elsewhere cannot lead out of the lists. */
  uint32_t (*find_support)(const struct tagc_lhc_sum *sum);
  /* Fills the cells from counters and elements. */
  void (*build)(const struct tagc_lhc_sum *sum);
  /* Peels; returns how many values were recovered. */
  uint32_t (*peel)(const struct tagc_lhc_sum *sum);
  /* Writes the results of the lines [from, to) of the shard, all complete. */
  void (*output)(const struct tagc_lhc_output *out, uint32_t from, uint32_t to);
};

extern const struct tagc_lhc_kernels tagc_lhc_plain, tagc_lhc_avx2, tagc_lhc_avx512;

/* Those of tagc_variant(). Thread-safe. */
const struct tagc_lhc_kernels *tagc_lhc_kernels(void);

/* Puts a chunk's candidates back into the residual; from now on the chunk goes the long way. */
void tagc_lhc_put_back(const struct tagc_lhc_shard *shard, uint32_t chunk);

void tagc_lhc_prepare(struct tagc_job *job);
void tagc_lhc_encode(struct tagc_job *job);
void tagc_lhc_decode(struct tagc_job *job);

/* The parts of the sparse layout. */
void tagc_lhc_sparse_encode(struct tagc_job *job, const struct tagc_lhc_geometry *geo);
void tagc_lhc_sparse_decode(struct tagc_job *job, const struct tagc_lhc_geometry *geo,
                            const struct tagc_exception *exceptions, size_t count);

#endif
