/* SPDX-License-Identifier: BSD-3-Clause
 * See solve.h: what repeats in the slots, which candidates explain it, and how certain the best one is.
 */
#include "layermap/infer/solve.h"

#include <stdlib.h>
#include <string.h>

#include "layermap/infer/division.h"
#include "layermap/infer/layers.h"
#include "layermap/infer/search.h"
#include "layermap/model/megatron.h"

/* A cheaper guess is taken without trying less likely ones. */
enum { ENOUGH = 20 * TAGC_BIT };

bool tagc_forward_order(const struct tagc_slot_info *slots, size_t count, uint32_t *order, uint64_t *counts) {
  memset(counts, 0, count * sizeof *counts);
  for (size_t i = 0; i < count; i++) {
    uint32_t unit = slots[i].unit;
    if (unit >= count || counts[unit] || !slots[i].signature.count)
      return false;
    order[unit] = (uint32_t)i;
    counts[unit] = slots[i].signature.count;
  }
  return true;
}

/* The longest stretch with this period, of at least two periods. */
static bool find_frame(const uint64_t *counts, size_t count, size_t period, struct tagc_frame *frame) {
  *frame = (struct tagc_frame){.period = period, .group = 1};
  size_t start = 0;
  for (size_t i = period; i <= count; i++) {
    if (i < count && counts[i] == counts[i - period])
      continue;
    size_t length = (i - start) / period * period;
    if (length >= 2 * period && length > frame->length) {
      frame->start = start;
      frame->length = length;
    }
    start = i + 1 - period;
  }
  for (size_t i = 0; i < period && frame->length; i++)
    frame->counts[i] = counts[frame->start + i];
  frame->blocks = (uint32_t)(frame->length / period);
  /* A shorter period excludes this one. */
  return frame->length && (period == 1 || frame->counts[0] != frame->counts[1]) &&
         (period < 3 || frame->counts[1] != frame->counts[2]);
}

/* True if the slots right before the frame may be blocks that differ only in the MLP. */
static bool is_dense(const uint64_t *counts, const struct tagc_frame *frame, uint32_t blocks) {
  size_t period = frame->period;
  if (blocks * period > frame->start)
    return false;
  for (size_t i = 0; i < period; i++) {
    uint64_t wanted = i + 1 < period ? frame->counts[i] : counts[frame->start - 1];
    if (counts[frame->start - blocks * period + i] != wanted)
      return false;
  }
  return true;
}

static bool read_families(struct tagc_family_shapes *all) {
  for (size_t i = 0; i < tagc_prior_count; i++) {
    const struct tagc_prior *prior = &tagc_priors[i];
    struct tagc_architecture kind = tagc_search_kind(prior);
    struct tagc_family_shapes *shapes = &all[i];
    bool has_dense = prior->attention == TAGC_LATENT;
    if (!tagc_shapes_block(&shapes->block, &kind, false) ||
        (has_dense && !tagc_shapes_block(&shapes->dense, &kind, true)))
      return false;
    shapes->outsides.count = tagc_prior_outsides(prior, shapes->outsides.variants);
    for (size_t j = 0; j < shapes->outsides.count; j++) {
      tagc_outside_set(&kind, &shapes->outsides.variants[j]);
      if (!tagc_shapes_outside(&shapes->outsides.shapes[j], &kind))
        return false;
    }
  }
  return true;
}

void tagc_search_rank(struct tagc_search *search, const struct tagc_candidate *candidate) {
  size_t at = search->finalist_count;
  while (at && search->finalists[at - 1].cost > candidate->cost)
    at--;
  if (at == TAGC_FINALISTS)
    return;
  size_t moved = search->finalist_count < TAGC_FINALISTS ? search->finalist_count++ : TAGC_FINALISTS - 1;
  memmove(&search->finalists[at + 1], &search->finalists[at], (moved - at) * sizeof *candidate);
  search->finalists[at] = *candidate;
}

/* True for all-reduces, which carry whole parameters. */
static bool is_whole(const struct tagc_search *search) { return search->reduction->collective == TAGC_COLL_ALL_REDUCE; }

/* The search ends after a stage with a convincing result: likely cases come first. */
enum stage { STAGE_PUBLISHED, STAGE_TOTALS, STAGE_BLOCKS, STAGE_GROUPS, STAGES };

static void search_frame(struct tagc_search *search, enum stage stage) {
  static const enum tagc_layout_kind layouts[] = {TAGC_LAYOUT_FSDP1, TAGC_LAYOUT_FSDP2, TAGC_LAYOUT_ZERO3};
  const struct tagc_frame *frame = &search->frame;
  /* For whole parameters all layouts are alike. */
  const size_t layout_count = is_whole(search) ? 1 : sizeof layouts / sizeof *layouts;
  for (size_t i = 0; i < tagc_prior_count; i++)
    for (size_t j = 0; j < layout_count; j++) {
      const struct tagc_prior *prior = &tagc_priors[i];
      if ((frame->dense && prior->attention != TAGC_LATENT) || (stage == STAGE_GROUPS && prior->is_sparse) ||
          (stage != STAGE_PUBLISHED && prior->is_rare))
        continue;
      (stage == STAGE_PUBLISHED ? tagc_search_published : tagc_search_blocks)(search, prior, layouts[j]);
    }
}

static int by_size(const void *a, const void *b) {
  const uint64_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

/* The cost of the counts without any model. `sorted` has room for them. */
static unsigned cost_of_none(const uint64_t *counts, size_t count, uint64_t *sorted) {
  unsigned cost = 0;
  memcpy(sorted, counts, count * sizeof *sorted);
  qsort(sorted, count, sizeof *sorted, by_size);
  for (size_t i = 0; i < count; i++)
    cost += i && sorted[i] == sorted[i - 1] ? 0 : tagc_cost_bits(sorted[i] + 1);
  return cost;
}

static void complete(struct tagc_search *search) {
  for (size_t i = 0; i < search->used; i++) {
    struct tagc_candidate *candidate = &search->candidates[i];
    const struct tagc_frame *frame = &candidate->frame;
    tagc_search_outside(search, candidate);
    candidate->cost += tagc_cost_layout(candidate->layout, search->reduction, search->is_gathered);
    candidate->cost += frame->period > 1 ? 8 : 0;
    candidate->cost += frame->group > 1 ? 16 + tagc_cost_bits(frame->group) : 0;
    tagc_search_rank(search, candidate);
  }
  search->used = 0;
}

/* Tries the repetitions of blocks: each by itself, attention and MLP apart, or several at once. */
static void search_frames(struct tagc_search *search, enum stage stage) {
  static const uint32_t groups[] = {1, 2, 4, 3, 6, 8, 5};
  size_t from = stage == STAGE_GROUPS, to = stage == STAGE_BLOCKS ? 1 : sizeof groups / sizeof *groups;
  for (size_t period = 1; period <= 3; period++) {
    struct tagc_frame frame;
    if (!find_frame(search->counts, search->count, period, &frame))
      continue;
    for (size_t i = from; i < to && (period == 1 || !i); i++) {
      search->frame = frame;
      search->frame.group = groups[i];
      search->frame.blocks = frame.blocks * groups[i];
      if (search->frame.blocks <= TAGC_SEARCH_BLOCKS)
        search_frame(search, stage);
    }
    /* DeepSeek's first blocks differ. */
    search->frame = frame;
    uint32_t most_dense = stage != STAGE_GROUPS && frame.blocks <= TAGC_SEARCH_BLOCKS ? 3 : 0;
    for (uint32_t dense = 1; dense <= most_dense && is_dense(search->counts, &frame, dense); dense++) {
      search->frame.dense = dense;
      search->frame.dense_count = search->counts[frame.start - 1];
      search->frame.blocks = frame.blocks + dense;
      search_frame(search, stage);
    }
  }
}

/* True if no untried guess could make the best one doubtful. */
static bool is_convincing(const struct tagc_search *search) {
  const struct tagc_candidate *best = search->finalists;
  return search->finalist_count && !best->odd && best->cost < ENOUGH && best->cost + 4 * TAGC_DOUBT < search->none;
}

/* Tries readings that are not cut at blocks: layouts for one slot, or for buckets. */
static void search_totals(struct tagc_search *search) {
  static const enum tagc_layout_kind whole[] = {TAGC_LAYOUT_FSDP1, TAGC_LAYOUT_FSDP2, TAGC_LAYOUT_ZERO3};
  static const enum tagc_layout_kind buckets[] = {TAGC_LAYOUT_MEGATRON, TAGC_LAYOUT_ZERO3};
  const enum tagc_layout_kind *layouts = search->count == 1 ? whole : buckets;
  size_t layout_count = search->count == 1 ? sizeof whole / sizeof *whole : sizeof buckets / sizeof *buckets;
  if (is_whole(search)) { /* whole parameters have no Megatron padding either */
    layouts = &buckets[1];
    layout_count = 1;
  }
  for (size_t i = 0; i < tagc_prior_count; i++)
    for (size_t j = 0; j < layout_count; j++)
      tagc_search_totals(search, &tagc_priors[i], layouts[j]);
}

static void search_all(struct tagc_search *search) {
  for (enum stage stage = 0; stage < STAGES && !is_convincing(search) && !tagc_search_is_long(search); stage++) {
    if (stage == STAGE_TOTALS)
      search_totals(search);
    else
      search_frames(search, stage);
    complete(search);
  }
}

static void keep_blocks(struct tagc_model *model) {
  size_t kept = 0;
  for (size_t i = 0; i < model->place_count; i++)
    if (model->places[i].block >= 0)
      model->places[kept++] = model->places[i];
  model->place_count = kept;
}

struct tagc_model *tagc_solution_model(const struct tagc_solution *solution, bool *no_memory) {
  struct tagc_architecture a = solution->architecture;
  if (solution->blocks_only)
    a.vocabulary = a.positions = 1;
  struct tagc_model *model = tagc_family_try(&a, no_memory);
  if (model && solution->blocks_only)
    keep_blocks(model);
  if (model && (solution->megatron || solution->forward)) {
    struct tagc_model *other =
      solution->forward ? tagc_family_forward_model(model, no_memory) : tagc_megatron_model(model, no_memory);
    tagc_model_free(model);
    return other;
  }
  return model;
}

/* Makes a solution's model, and compares it with the slots. NULL: it does not fit, or there is none. */
static struct tagc_model *fit_solution(struct tagc_search *search, enum tagc_layout_kind layout,
                                       struct tagc_solution *solution) {
  bool no_memory = false;
  struct tagc_model *model = tagc_solution_model(solution, &no_memory);
  enum tagc_found holds = TAGC_FOUND_NONE;
  if (model) {
    const struct tagc_piece all = {.first = 0, .count = (uint32_t)model->place_count, .keep = TAGC_KEEP_ALL};
    *search->steps += tagc_piece_members(model, &all, NULL) + search->count;
    holds = tagc_match_find(model, search->counts, search->count, (int)search->nranks, 4, 1u << layout,
                            &solution->match, search->pieces, NULL);
  }
  search->no_memory |= (!model && no_memory) || holds == TAGC_FOUND_NO_MEMORY;
  if (holds == TAGC_FOUND)
    return model;
  tagc_model_free(model);
  return NULL;
}

/* The model of a candidate if it fits once made, with its match and the pieces of the slots; else NULL. */
static struct tagc_model *check(struct tagc_search *search, const struct tagc_candidate *candidate,
                                struct tagc_solution *solution) {
  solution->architecture = candidate->architecture;
  solution->blocks_only = candidate->blocks_only;
  solution->megatron = candidate->megatron;
  solution->whole = is_whole(search);
  solution->forward = false;
  struct tagc_model *model = fit_solution(search, candidate->layout, solution);
  if (!model && solution->whole && !candidate->frame.length) {
    solution->forward = true;
    model = fit_solution(search, candidate->layout, solution);
  }
  if (!model)
    return NULL;
  bool is_total = !candidate->frame.length;
  bool is_cut = solution->match.wrapping == TAGC_WRAP_WHOLE || solution->match.wrapping == TAGC_WRAP_BUCKETS;
  if (is_total == is_cut)
    return model;
  tagc_model_free(model);
  return NULL;
}

bool tagc_search_holds(struct tagc_search *search, const struct tagc_candidate *candidate) {
  struct tagc_solution ignored;
  struct tagc_model *model = check(search, candidate, &ignored);
  tagc_model_free(model);
  return model != NULL;
}

/* Does the same, and digests how it divides the slots. */
static bool examine(struct tagc_search *search, const struct tagc_candidate *candidate, struct tagc_solution *solution,
                    uint64_t *division) {
  struct tagc_model *model = check(search, candidate, solution);
  if (model)
    search->no_memory |= !tagc_division_digest(TAGC_DIVISION_KINDS, model, &solution->match, search->pieces,
                                               search->count, (int)search->nranks, 4, division);
  tagc_model_free(model);
  return model != NULL;
}

static unsigned gap_to(unsigned cost, unsigned other) { return other > cost ? other - cost : 0; }

/* Chooses the best candidate that holds, and the best one that divides the slots otherwise. */
static bool choose(struct tagc_search *search, struct tagc_solution found[2]) {
  uint64_t division = 0, other;
  const struct tagc_candidate *first = NULL;
  unsigned best = 0, gap = 0;
  bool any = false, rivalled = false, doubted = false;
  for (size_t i = 0; i < search->finalist_count && !rivalled; i++) {
    const struct tagc_candidate *candidate = &search->finalists[i];
    if (any && candidate->cost > best + 8 * TAGC_DOUBT)
      break;
    if (!any) {
      any = examine(search, candidate, &found[0], &division);
      doubted = any && tagc_search_doubts(search, candidate, &found[0].match);
      first = candidate;
      best = candidate->cost;
      gap = gap_to(best, search->none);
      continue;
    }
    rivalled = examine(search, candidate, &found[1], &other) && other != division;
    if (rivalled) {
      unsigned sure = tagc_confidence(candidate->cost - best);
      doubted |= tagc_search_is_close(first, candidate, sure);
      found[1].confidence = sure < 99 ? 100 - sure : 1;
      gap = candidate->cost - best < gap ? candidate->cost - best : gap;
    }
  }
  /* An unexplained slot makes the whole guess doubtful. */
  found[0].confidence = any ? tagc_confidence(gap) : 0;
  if (found[0].match.odd)
    found[0].confidence = found[0].confidence * (found[0].blocks_only ? 2 : 3) / 4;
  if (doubted && found[0].confidence >= TAGC_LAYERS_AMBIGUOUS)
    found[0].confidence = TAGC_LAYERS_AMBIGUOUS - 1;
  return any;
}

enum tagc_found tagc_solve(const struct tagc_slot_info *slots, size_t count, int nranks,
                           struct tagc_solution found[2]) {
  memset(found, 0, 2 * sizeof *found);
  struct tagc_search *search = calloc(1, sizeof *search);
  struct tagc_family_shapes *shapes = calloc(tagc_prior_count, sizeof *shapes);
  uint64_t *counts = calloc(count ? count : 1, sizeof *counts);
  uint64_t *sorted = calloc(count ? count : 1, sizeof *sorted);
  uint32_t *order = calloc(count ? count : 1, sizeof *order);
  uint64_t steps = 0;
  struct tagc_piece *pieces = calloc(count ? count : 1, sizeof *pieces);
  enum tagc_found any = TAGC_FOUND_NO_MEMORY;
  if (search && shapes && counts && sorted && order && pieces && read_families(shapes))
    any = TAGC_FOUND_NONE;
  if (any == TAGC_FOUND_NONE && count && nranks > 0 && tagc_forward_order(slots, count, order, counts)) {
    *search = (struct tagc_search){.counts = counts,
                                   .count = count,
                                   .nranks = (uint32_t)nranks,
                                   .shapes = shapes,
                                   .pieces = pieces,
                                   .steps = &steps};
    search->none = cost_of_none(counts, count, sorted);
    search->reduction = &slots[0].signature;
    for (size_t i = 0; i < count; i++)
      search->is_gathered |= slots[i].gathered;
    search_all(search);
    bool is_chosen = !tagc_search_is_long(search) && choose(search, found);
    any = is_chosen && !tagc_search_is_long(search) ? TAGC_FOUND : TAGC_FOUND_NONE;
    any = search->no_memory ? TAGC_FOUND_NO_MEMORY : any;
  }
  free(pieces);
  free(order);
  free(sorted);
  free(counts);
  free(shapes);
  free(search);
  return any;
}
