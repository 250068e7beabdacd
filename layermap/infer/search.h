/* SPDX-License-Identifier: BSD-3-Clause
 * The steps of tagc_solve(), for its files alone: what repeats (solve.c), which architectures have such blocks
 * (search_blocks.c), and which vocabulary explains the rest (search_outside.c).
 *
 * A search belongs to one caller and holds all it needs; costs are those of prior.h.
 */
#ifndef LAYERMAP_INFER_SEARCH_H
#define LAYERMAP_INFER_SEARCH_H

#include "layermap/infer/prior.h"
#include "layermap/infer/shapes.h"
#include "layermap/infer/solve.h"

/* Bounds: kept candidates, and examined slots outside the blocks. */
enum { TAGC_CANDIDATES = 96, TAGC_FINALISTS = 32, TAGC_OTHERS = 6, TAGC_DIVISIONS = 5 };

/* A repetition: slots of like blocks, in forward order. */
struct tagc_frame {
  size_t start, length; /* slots */
  size_t period;        /* slots of one block, or group of blocks: 1; or attention and MLP (2), norms before them (3) */
  uint32_t group;       /* blocks per slot */
  uint32_t blocks;
  uint64_t counts[3];   /* of one period */
  uint32_t dense;       /* blocks right before `start` with another MLP ... */
  uint64_t dense_count; /* ... in a slot of that size */
};

struct tagc_candidate {
  struct tagc_architecture architecture;
  const struct tagc_prior *prior;
  enum tagc_layout_kind layout;
  struct tagc_frame frame;
  bool blocks_only; /* nothing explains the slots outside the blocks */
  bool is_missing;  /* no slot has some of the parameters outside the blocks */
  size_t odd;       /* slots that nothing explains */
  bool megatron;    /* see struct tagc_solution */
  unsigned cost;
};

/* The variants of a family outside its blocks. */
struct tagc_outsides {
  size_t count;
  struct tagc_outside variants[TAGC_OUTSIDES];
  struct tagc_shapes shapes[TAGC_OUTSIDES];
};

struct tagc_family_shapes {
  struct tagc_shapes block, dense;
  struct tagc_outsides outsides;
};

/* Bounds of a search, since a program waits for it: a longer one ends without an answer, as for an unknown model. Steps
 * are counted, not timed, so that all ranks end alike: tested equations, and parameters and slots of models made. */
enum { TAGC_SEARCH_BLOCKS = 512, TAGC_SEARCH_STEPS = 5000000 };

struct tagc_search {
  const uint64_t *counts; /* in forward order */
  size_t count;
  uint32_t nranks;
  struct tagc_piece *pieces;              /* room for the pieces of a candidate */
  uint64_t *steps;                        /* taken so far */
  bool no_memory;                         /* some step lacked memory: discard all results */
  const struct tagc_signature *reduction; /* of the first slot: all have the same */
  bool is_gathered;                       /* all-gathers of the same counts exist */
  unsigned none;                          /* the cost of the counts without any model */
  struct tagc_frame frame;
  struct tagc_family_shapes *shapes; /* one per entry of tagc_priors */
  size_t used;
  struct tagc_candidate candidates[TAGC_CANDIDATES]; /* they explain blocks, cheapest first */
  size_t finalist_count;
  struct tagc_candidate finalists[TAGC_FINALISTS]; /* complete ones, likewise */
};

/* Adds candidates of published sizes that explain the blocks of search->frame in that layout. */
void tagc_search_published(struct tagc_search *search, const struct tagc_prior *prior, enum tagc_layout_kind layout);
/* Ranks candidates of published sizes, with known vocabularies, that explain the sum of all slots. */
void tagc_search_totals(struct tagc_search *search, const struct tagc_prior *prior, enum tagc_layout_kind layout);
/* Adds a complete candidate to the finalists, behind those of equal cost: the order is equal on every platform. */
void tagc_search_rank(struct tagc_search *search, const struct tagc_candidate *candidate);
/* True if the candidate's model fits the slots. search->pieces are then its pieces. */
bool tagc_search_holds(struct tagc_search *search, const struct tagc_candidate *candidate);
/* True if a candidate that holds (its match, and search->pieces) is ambiguous although all others cost more. */
bool tagc_search_doubts(struct tagc_search *search, const struct tagc_candidate *candidate,
                        const struct tagc_match *match);
/* True if this confidence is too low to prefer the candidate: its widths are unpublished, queries differ. */
bool tagc_search_is_close(const struct tagc_candidate *candidate, const struct tagc_candidate *rival,
                          unsigned confidence);
void tagc_published_set(struct tagc_architecture *a, const struct tagc_published *known);
/* Adds candidates that explain the blocks of search->frame in that layout. */
void tagc_search_blocks(struct tagc_search *search, const struct tagc_prior *prior, enum tagc_layout_kind layout);

/* An architecture with the family's traits and unknown sizes. */
struct tagc_architecture tagc_search_kind(const struct tagc_prior *prior);
void tagc_outside_set(struct tagc_architecture *a, const struct tagc_outside *outside);

/* Finds vocabulary, positions and whether the head is tied. Adds their cost and that of slots left unexplained. */
void tagc_search_outside(const struct tagc_search *search, struct tagc_candidate *candidate);

static inline bool tagc_search_is_long(const struct tagc_search *search) { return *search->steps > TAGC_SEARCH_STEPS; }

void tagc_unknown_set(struct tagc_architecture *a, enum tagc_unknown unknown, uint64_t size);

/* An equation: `times` the measure of the shapes in `keep`, plus `more`, is a shard of `count` elements. */
struct tagc_equation {
  const struct tagc_shapes *shapes;
  unsigned keep;
  enum tagc_layout_kind layout;
  uint32_t nranks, times;
  uint64_t more, count;
  uint64_t *steps; /* the counter of steps */
};

bool tagc_equation_holds(const struct tagc_equation *e, const struct tagc_architecture *a);
/* The range of solutions for the unknown: (*low, *high]. False: none, or the equation does not depend on it. */
bool tagc_equation_range(const struct tagc_equation *e, const struct tagc_architecture *a, enum tagc_unknown unknown,
                         uint64_t *low, uint64_t *high);

#endif
