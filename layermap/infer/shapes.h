/* SPDX-License-Identifier: BSD-3-Clause
 * The shapes of a family's parameters with open sizes: "2 x (intermediate x hidden)". So thousands of sizes can be
 * tried against a count without making their models.
 *
 * The shapes are read from families.h: a unit is made with prime sizes, and a dimension equal to a prime, or to a
 * product or sum of a few, is that size. So each family's parameters are written down once.
 *
 * A *measure* adds up over the parameters of one call: for layouts that pad each parameter the elements of one shard,
 * for fsdp1 the elements of all. tagc_measure_shard() converts it to elements of one shard.
 *
 * Pure functions of their arguments; integers alone; any thread.
 */
#ifndef LAYERMAP_INFER_SHAPES_H
#define LAYERMAP_INFER_SHAPES_H

#include "layermap/infer/match.h"
#include "layermap/model/families.h"

enum { TAGC_SHAPES = 32, TAGC_SHAPE_SIZES = 22 };

/* The sizes to solve for. */
enum tagc_unknown { TAGC_UNKNOWN_INTERMEDIATE, TAGC_UNKNOWN_EXPERT, TAGC_UNKNOWN_VOCABULARY, TAGC_UNKNOWN_POSITIONS };
enum { TAGC_UNKNOWNS = TAGC_UNKNOWN_POSITIONS + 1 };

/* (rows x columns), `times` + `times_expert` for each expert. rows, columns: size index; TAGC_SHAPE_SIZES: constant. */
struct tagc_shape {
  uint8_t rows, columns;
  uint8_t keep;     /* enum tagc_keep */
  uint8_t unknowns; /* bits of the unknowns that divide it */
  uint32_t constant_rows, constant_columns;
  uint32_t times, times_expert;
};

struct tagc_shapes {
  size_t count;
  uint8_t keep;                   /* the sorts present, ... */
  uint8_t depends[TAGC_UNKNOWNS]; /* ... and those that depend on an unknown */
  struct tagc_shape shapes[TAGC_SHAPES];
};

/* The shapes of a family's units: of embedding and head, and of a block (dense: one of DeepSeek's first). From `kind`
 * it uses the family, all flags, and which of positions, experts, expert_intermediate, shared_intermediate,
 * dense_blocks, and sizes of latent attention are 0. False: the family cannot be read like this, or no memory. */
bool tagc_shapes_outside(struct tagc_shapes *shapes, const struct tagc_architecture *kind);
bool tagc_shapes_block(struct tagc_shapes *shapes, const struct tagc_architecture *kind, bool dense);

/* The sum over the shapes with a bit of `keep`. */
uint64_t tagc_shapes_measure(const struct tagc_shapes *shapes, const struct tagc_architecture *a,
                             enum tagc_layout_kind layout, uint32_t nranks, unsigned keep);

/* The same in two parts, if the unknown is a multiple of nranks: returns the proportional part, *rest is the other. */
uint64_t tagc_shapes_slope(const struct tagc_shapes *shapes, const struct tagc_architecture *a,
                           enum tagc_layout_kind layout, uint32_t nranks, unsigned keep, enum tagc_unknown unknown,
                           uint64_t *rest);

/* For any sizes with this hidden and head_dim, the measure is *residue plus a multiple of *modulus. False: unknown. */
bool tagc_shapes_residue(const struct tagc_shapes *shapes, const struct tagc_architecture *a,
                         enum tagc_layout_kind layout, uint32_t nranks, uint64_t *modulus, uint64_t *residue);

/* Elements of a shard with that measure. */
static inline uint64_t tagc_measure_shard(enum tagc_layout_kind layout, uint64_t measure, uint32_t nranks) {
  return layout == TAGC_LAYOUT_FSDP1 ? measure / nranks + (measure % nranks != 0) : measure;
}

#endif
