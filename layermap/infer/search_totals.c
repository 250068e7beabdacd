/* SPDX-License-Identifier: BSD-3-Clause
 * If no slot is a block (one slot holds the whole model, or full buckets are cut), only the sum of all slots counts. A
 * model of published sizes with a known vocabulary and a whole number of blocks must explain it. See search.h.
 */
#include "layermap/infer/search.h"

enum { COST_TOTALS = 4 * TAGC_BIT, COST_OTHERS = 6 * TAGC_BIT };

struct total {
  struct tagc_search *search;
  const struct tagc_family_shapes *shapes;
  const struct tagc_shapes *outside;
  struct tagc_candidate candidate;
  uint64_t least, most;  /* range of measures that explain the slots */
  uint64_t block, dense; /* measures of one */
};

/* Padding hides the exact contents of the slots. */
static void find_total_range(struct total *t) {
  const struct tagc_search *search = t->search;
  uint64_t sum = 0, nranks = search->nranks;
  for (size_t i = 0; i < search->count; i++)
    sum += search->counts[i];
  t->most = sum;
  t->least = sum;
  if (t->candidate.layout == TAGC_LAYOUT_FSDP1) {
    t->most = sum * nranks;
    t->least = t->most - (nranks - 1);
  } else if (t->candidate.layout == TAGC_LAYOUT_MEGATRON) {
    t->most = sum * nranks;
    uint64_t padding = search->count * 128 * nranks;
    t->least = t->most > padding ? t->most - padding : 0;
  }
}

static uint64_t measure(const struct total *t, const struct tagc_shapes *shapes) {
  return tagc_shapes_measure(shapes, &t->candidate.architecture, t->candidate.layout, t->search->nranks, TAGC_KEEP_ALL);
}

/* Everything but the number of blocks is known. */
static void solve_blocks(struct total *t, unsigned cost) {
  struct tagc_architecture *a = &t->candidate.architecture;
  bool is_latent = t->candidate.prior->attention == TAGC_LATENT;
  uint64_t outside = measure(t, t->outside);
  for (uint32_t dense = 0; dense <= (is_latent ? 3 : 0); dense++) {
    uint64_t known = outside + dense * t->dense;
    if (known + t->block > t->most)
      continue;
    uint64_t blocks = (t->most - known) / t->block;
    if (known + blocks * t->block < t->least || blocks > 256)
      continue;
    a->blocks = (uint32_t)blocks + dense;
    a->dense_blocks = dense;
    t->candidate.cost = COST_TOTALS + t->candidate.prior->cost + cost + tagc_cost_size(a->blocks);
    t->candidate.cost += a->vocabulary ? tagc_cost_vocabulary(a->family, a->vocabulary) : 0;
    t->candidate.cost += tagc_cost_layout(t->candidate.layout, t->search->reduction, t->search->is_gathered);
    /* Megatron's own models, or others in its buckets. */
    bool megatron = t->candidate.layout == TAGC_LAYOUT_MEGATRON && !t->candidate.prior->is_sparse;
    for (t->candidate.megatron = megatron;; t->candidate.megatron = false) {
      if (tagc_search_holds(t->search, &t->candidate))
        tagc_search_rank(t->search, &t->candidate);
      if (!t->candidate.megatron)
        break;
      t->candidate.cost += COST_OTHERS;
    }
  }
}

static void try_vocabularies(struct total *t, unsigned cost) {
  struct tagc_architecture *a = &t->candidate.architecture;
  a->vocabulary = 0;
  if (a->family == TAGC_FAMILY_VIT) {
    solve_blocks(t, cost);
    return;
  }
  for (const uint32_t *known = tagc_vocabularies; *known && !tagc_search_is_long(t->search); known++) {
    a->vocabulary = *known;
    solve_blocks(t, cost);
  }
}

static void try_positions(struct total *t, unsigned cost) {
  struct tagc_architecture *a = &t->candidate.architecture;
  a->positions = 0;
  if (!t->candidate.prior->has_positions) {
    try_vocabularies(t, cost);
    return;
  }
  for (const uint32_t *positions = tagc_positions; *positions; positions++)
    if (tagc_cost_positions(a->family, *positions) == 0) {
      a->positions = *positions;
      try_vocabularies(t, cost);
    }
}

void tagc_search_totals(struct tagc_search *search, const struct tagc_prior *prior, enum tagc_layout_kind layout) {
  struct total t = {.search = search, .shapes = &search->shapes[prior - tagc_priors]};
  t.candidate = (struct tagc_candidate){.architecture = tagc_search_kind(prior), .prior = prior, .layout = layout};
  find_total_range(&t);
  for (size_t i = 0; i < tagc_published_count; i++) {
    if (tagc_published[i].family != prior->family)
      continue;
    tagc_published_set(&t.candidate.architecture, &tagc_published[i]);
    t.block = measure(&t, &t.shapes->block);
    t.dense = measure(&t, &t.shapes->dense);
    if (t.block > t.most)
      continue;
    for (size_t j = 0; j < t.shapes->outsides.count; j++) {
      tagc_outside_set(&t.candidate.architecture, &t.shapes->outsides.variants[j]);
      t.outside = &t.shapes->outsides.shapes[j];
      try_positions(&t, t.shapes->outsides.variants[j].cost);
    }
  }
}
