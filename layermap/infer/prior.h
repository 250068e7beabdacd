/* SPDX-License-Identifier: BSD-3-Clause
 * How likely the sizes of a transformer are a priori, as costs in quarters of a bit: 4 log2(1 / likelihood).
 *
 * People train models of published sizes, with vocabularies of known tokenisers. Others choose round sizes (many
 * factors of two) with a few ratios. The costs are rules of thumb, and only rank guesses that fit the counts. Pure;
 * integers alone.
 */
#ifndef LAYERMAP_INFER_PRIOR_H
#define LAYERMAP_INFER_PRIOR_H

#include "layermap/cycle/cycle.h"
#include "layermap/model/families.h"
#include "layermap/model/layout.h"

enum { TAGC_BIT = 4, TAGC_COST_NEVER = 1 << 20 };
/* So many quarters of a bit halve the doubt. */
enum { TAGC_DOUBT = 3 * TAGC_BIT };

/* The confidence, per cent, of a guess that costs `gap` less than all others. 0: none, 99: as good as certain. */
unsigned tagc_confidence(unsigned gap);

/* The width of a family's queries, relative to its stream. */
enum tagc_attention {
  TAGC_SQUARE,  /* equal; queries, keys and values alike: counts do not depend on the number of heads */
  TAGC_GROUPED, /* equal; keys and values may be narrower */
  TAGC_WIDE,    /* any number of heads of 128 or 256 */
  TAGC_LATENT   /* DeepSeek's */
};

/* The common traits of a family. */
struct tagc_prior {
  enum tagc_family family;
  enum tagc_attention attention;
  uint16_t cost;
  uint16_t cost_untied, cost_tied;
  uint16_t usual_head;        /* 0: any */
  bool has_positions;         /* learned positions */
  bool is_sparse;             /* mixture of experts */
  bool no_bias, plain_linear; /* see tagc_architecture */
  bool no_q_rank;             /* DeepSeek with uncompressed queries */
  bool fused_experts;
  bool is_rare; /* only models of published widths */
};

/* Optional parts outside the blocks. */
struct tagc_outside {
  bool tied, pooler, masked_head, next_head;
  uint32_t labels, patch;
  unsigned cost;
};
enum { TAGC_OUTSIDES = 4 };

/* Writes the variants of a family, at most TAGC_OUTSIDES; returns their number. */
size_t tagc_prior_outsides(const struct tagc_prior *prior, struct tagc_outside *outsides);

/* The families with distinct arithmetic; the others share that of a commoner one here. */
extern const struct tagc_prior tagc_priors[];
extern const size_t tagc_prior_count;

/* The widths of published models, which most people train or tune: of a block alone. And the words that models of just
 * these widths were published with, as far as such a row has any. */
struct tagc_published {
  enum tagc_family family;
  uint32_t hidden, intermediate, heads, kv_heads, head_dim;
  uint32_t experts, expert_intermediate, shared_intermediate;
  uint32_t words[3];
};
extern const struct tagc_published tagc_published[];
extern const size_t tagc_published_count;
/* Published widths are of another family; they are of none. */
enum { TAGC_COST_FOREIGN = 6 * TAGC_BIT, TAGC_COST_UNPUBLISHED = 7 * TAGC_BIT };

/* 4 log2(n), rounded down; n >= 1. */
unsigned tagc_cost_bits(uint64_t n);
/* The cost of n as a size: of its odd part. */
unsigned tagc_cost_size(uint64_t n);
unsigned tagc_cost_hidden(uint64_t hidden);
unsigned tagc_cost_intermediate(uint64_t hidden, uint64_t intermediate, const struct tagc_prior *prior);
unsigned tagc_cost_heads(const struct tagc_architecture *a, const struct tagc_prior *prior);
/* A tokeniser of the family's own published models, and of others. */
enum { TAGC_COST_OWN_WORDS = TAGC_BIT, TAGC_COST_KNOWN_WORDS = 6 * TAGC_BIT };
unsigned tagc_cost_vocabulary(enum tagc_family family, uint64_t vocabulary);
/* The cost of a layout beside others of equal counts: by the kind of reduction, and by all-gathers of equal counts. */
enum { TAGC_COST_OTHER_REDUCTION = 15 * TAGC_BIT, TAGC_COST_OTHER_GATHERS = 15 * TAGC_BIT };
unsigned tagc_cost_layout(enum tagc_layout_kind layout, const struct tagc_signature *reduction, bool is_gathered);
unsigned tagc_cost_positions(enum tagc_family family, uint64_t positions);

/* Known vocabularies and numbers of positions, 0-terminated. */
extern const uint32_t tagc_vocabularies[], tagc_positions[];

#endif
