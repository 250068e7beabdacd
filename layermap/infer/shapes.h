/* SPDX-License-Identifier: BSD-3-Clause
 * The shapes of a family's parameters with sizes left open: "2 x (intermediate x hidden)", so that thousands of sizes
 * can be tried against a count without making a model of each.
 *
 * They are read from families.h: a unit is made with sizes that are primes, and what equals a prime, or a product or
 * sum of a few, is that size. So no family's parameters are written down twice.
 *
 * A *measure* is what adds up over the parameters that are communicated at once: for the layouts that pad each
 * parameter the elements of one shard, for fsdp1 the elements of all. tagc_measure_shard() makes elements of one shard
 * of it.
 *
 * Pure functions of their arguments; integers alone; any thread.
 */
#ifndef LAYERMAP_INFER_SHAPES_H
#define LAYERMAP_INFER_SHAPES_H

#include "layermap/infer/match.h"
#include "layermap/model/families.h"

enum { TAGC_SHAPES = 32, TAGC_SHAPE_SIZES = 19 };

/* The sizes that are solved for. */
enum tagc_unknown { TAGC_UNKNOWN_INTERMEDIATE, TAGC_UNKNOWN_EXPERT, TAGC_UNKNOWN_VOCABULARY, TAGC_UNKNOWN_POSITIONS };
enum { TAGC_UNKNOWNS = TAGC_UNKNOWN_POSITIONS + 1 };

/* `times` + `times_expert` for each expert of (rows x columns). An index into the sizes, or TAGC_SHAPE_SIZES and a
 * constant. */
struct tagc_shape {
  uint8_t rows, columns;
  uint8_t keep;     /* enum tagc_keep */
  uint8_t unknowns; /* a bit for each that it is a multiple of */
  uint32_t constant_rows, constant_columns;
  uint32_t times, times_expert;
};

struct tagc_shapes {
  size_t count;
  uint8_t keep;                   /* the sorts that there are, ... */
  uint8_t depends[TAGC_UNKNOWNS]; /* ... and those of them that depend on an unknown */
  struct tagc_shape shapes[TAGC_SHAPES];
};

/* The shapes of the units of a family: those of embedding and head, and those of a block (dense: one of DeepSeek's
 * first ones). Of `kind` the family and all flags matter, and which of positions, experts, expert_intermediate,
 * shared_intermediate, dense_blocks, and the sizes of latent attention are 0. False: the family is not to be read like
 * this, or without memory. */
bool tagc_shapes_outside(struct tagc_shapes *shapes, const struct tagc_architecture *kind);
bool tagc_shapes_block(struct tagc_shapes *shapes, const struct tagc_architecture *kind, bool dense);

/* The sum over those shapes that have a bit of `keep`. */
uint64_t tagc_shapes_measure(const struct tagc_shapes *shapes, const struct tagc_architecture *a,
                             enum tagc_layout_kind layout, uint32_t nranks, unsigned keep);

/* The same in two parts, where the unknown is a multiple of nranks: returns what is in proportion to it, *rest is all
 * else. */
uint64_t tagc_shapes_slope(const struct tagc_shapes *shapes, const struct tagc_architecture *a,
                           enum tagc_layout_kind layout, uint32_t nranks, unsigned keep, enum tagc_unknown unknown,
                           uint64_t *rest);

/* The measure of all shapes is *residue more than some multiple of *modulus, whatever sizes but hidden and head_dim
 * are. False: that cannot be said. */
bool tagc_shapes_residue(const struct tagc_shapes *shapes, const struct tagc_architecture *a,
                         enum tagc_layout_kind layout, uint32_t nranks, uint64_t *modulus, uint64_t *residue);

/* Elements of a shard of what has that measure. */
static inline uint64_t tagc_measure_shard(enum tagc_layout_kind layout, uint64_t measure, uint32_t nranks) {
  return layout == TAGC_LAYOUT_FSDP1 ? measure / nranks + (measure % nranks != 0) : measure;
}

#endif
