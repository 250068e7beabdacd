/* SPDX-License-Identifier: BSD-3-Clause
 * How likely sizes of a transformer are, before anything is counted: as costs in quarters of a bit, 4 log2(1 /
 * likelihood).
 *
 * People train models of published sizes, with vocabularies of known tokenisers; who does not chooses round sizes (many
 * factors of two), and a few ratios between them. The costs are rules of thumb; what they decide between fits the
 * counts all the same. Pure; integers alone.
 */
#ifndef LAYERMAP_INFER_PRIOR_H
#define LAYERMAP_INFER_PRIOR_H

#include "layermap/cycle/cycle.h"
#include "layermap/model/families.h"
#include "layermap/model/layout.h"

enum { TAGC_BIT = 4, TAGC_COST_NEVER = 1 << 20 };
/* Every so many quarters of a bit halve the doubt. */
enum { TAGC_DOUBT = 3 * TAGC_BIT };

/* How sure, per cent, is what costs that much less than all else? 0: not at all, 99: as good as certain. */
unsigned tagc_confidence(unsigned gap);

/* How the queries of a family relate to its stream. */
enum tagc_attention {
  TAGC_SQUARE,  /* as wide; queries, keys and values alike: how many heads does not matter to counts */
  TAGC_GROUPED, /* as wide; keys and values may be narrower */
  TAGC_WIDE,    /* any number of heads of 128 or 256 */
  TAGC_LATENT   /* DeepSeek's */
};

/* What a family's members have in common. */
struct tagc_prior {
  enum tagc_family family;
  enum tagc_attention attention;
  uint16_t cost;
  uint16_t cost_untied, cost_tied;
  uint16_t usual_head;        /* 0: any */
  bool has_positions;         /* learned ones */
  bool is_sparse;             /* a mixture of experts */
  bool no_bias, plain_linear; /* see tagc_architecture */
  bool no_q_rank;             /* DeepSeek's queries are not compressed */
};

/* What may be outside the blocks. */
struct tagc_outside {
  bool tied, pooler, masked_head, next_head;
  uint32_t labels, patch;
  unsigned cost;
};
enum { TAGC_OUTSIDES = 4 };

/* The variants of a family, at most TAGC_OUTSIDES; returns how many there are. */
size_t tagc_prior_outsides(const struct tagc_prior *prior, struct tagc_outside *outsides);

/* Families whose arithmetic differs; those that are missing have that of one that is there, and commoner. */
extern const struct tagc_prior tagc_priors[];
extern const size_t tagc_prior_count;

/* The widths of published models, which most people train, or tune: of a block alone. */
struct tagc_published {
  enum tagc_family family;
  uint32_t hidden, intermediate, heads, kv_heads, head_dim;
  uint32_t experts, expert_intermediate, shared_intermediate;
};
extern const struct tagc_published tagc_published[];
extern const size_t tagc_published_count;
enum { TAGC_COST_UNPUBLISHED = 7 * TAGC_BIT };

/* 4 log2(n), rounded down; n >= 1. */
unsigned tagc_cost_bits(uint64_t n);
/* Of n as a size: of its odd part. */
unsigned tagc_cost_size(uint64_t n);
unsigned tagc_cost_hidden(uint64_t hidden);
unsigned tagc_cost_intermediate(uint64_t hidden, uint64_t intermediate, const struct tagc_prior *prior);
unsigned tagc_cost_heads(const struct tagc_architecture *a, const struct tagc_prior *prior);
unsigned tagc_cost_vocabulary(enum tagc_family family, uint64_t vocabulary);
/* How unlikely a layout is, beside others of equal counts: by how the gradients are reduced, and whether the same
 * counts are all-gathered, too. */
unsigned tagc_cost_layout(enum tagc_layout_kind layout, const struct tagc_signature *reduction, bool is_gathered);
unsigned tagc_cost_positions(enum tagc_family family, uint64_t positions);

/* Known vocabularies and numbers of positions, ended by 0. */
extern const uint32_t tagc_vocabularies[], tagc_positions[];

#endif
