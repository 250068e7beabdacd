/* SPDX-License-Identifier: BSD-3-Clause
 * Finds the vocabulary and the number of positions that explain the slots outside the blocks. See search.h.
 */
#include "layermap/infer/search.h"

/* Costs of parameters absent from the calls (frozen?), and of a slot that nothing explains. */
enum { COST_MISSING = 6 * TAGC_BIT, COST_ODD = 2 * TAGC_BIT };

/* Ways to divide the parameters outside the blocks; likelier ones cost less. */
static const struct {
  uint8_t parts[3];
  uint8_t cost;
} divisions[TAGC_DIVISIONS] = {
  {{TAGC_KEEP_OUTSIDE}, 0},
  {{TAGC_KEEP_EMBED, TAGC_KEEP_NORM | TAGC_KEEP_HEAD}, 4},
  {{TAGC_KEEP_EMBED | TAGC_KEEP_NORM, TAGC_KEEP_HEAD}, 6},
  {{TAGC_KEEP_EMBED | TAGC_KEEP_HEAD, TAGC_KEEP_NORM}, 8},
  {{TAGC_KEEP_EMBED, TAGC_KEEP_NORM, TAGC_KEEP_HEAD}, 8},
};

struct outside {
  const struct tagc_search *search;
  const struct tagc_candidate *candidate;
  const struct tagc_shapes *shapes;
  size_t slots[TAGC_OTHERS], slot_count;
  size_t others;  /* all slots outside the blocks */
  unsigned odd;   /* cost of these if nothing explained them */
  uint64_t norms; /* measure of the blocks' norms that go with the last one */
  uint8_t parts[3];
  size_t part_count;
  unsigned cost; /* of the variant and the division */
  struct tagc_architecture best;
  unsigned best_cost;
  size_t explained;
  bool found, is_missing;
};

void tagc_outside_set(struct tagc_architecture *a, const struct tagc_outside *outside) {
  a->tied = outside->tied;
  a->pooler = outside->pooler;
  a->masked_head = outside->masked_head;
  a->next_head = outside->next_head;
  a->labels = outside->labels;
  a->patch = outside->patch;
}

static unsigned slot_cost(const struct outside *o, size_t slot) {
  return COST_ODD + tagc_cost_bits(o->search->counts[slot] + 1);
}

/* The slots next to the blocks on both sides, and those at both ends. */
static void find_slots(struct outside *o) {
  const struct tagc_frame *frame = &o->candidate->frame;
  size_t first = frame->start - frame->dense * frame->period, last = frame->start + frame->length,
         count = o->search->count;
  for (size_t i = 0; i < count; i++) {
    if (i >= first && i < last)
      continue;
    o->others++;
    /* A tower of equal blocks beside the model costs once. */
    o->odd += i && i != last && o->search->counts[i] == o->search->counts[i - 1] ? 1 : slot_cost(o, i);
    bool near = i < 2 || i + 2 >= count || i + 1 == first || i == last;
    if (near && o->slot_count < TAGC_OTHERS)
      o->slots[o->slot_count++] = i;
  }
}

static struct tagc_equation outside_equation(const struct outside *o, uint8_t part, size_t slot) {
  return (struct tagc_equation){.shapes = o->shapes,
                                .keep = part,
                                .layout = o->candidate->layout,
                                .nranks = o->search->nranks,
                                .times = 1,
                                .more = part & TAGC_KEEP_NORM ? o->norms : 0,
                                .count = o->search->counts[slot],
                                .steps = o->search->steps};
}

static uint64_t part_shard(const struct outside *o, const struct tagc_architecture *a, uint8_t part) {
  const struct tagc_candidate *candidate = o->candidate;
  uint64_t measure = tagc_shapes_measure(o->shapes, a, candidate->layout, o->search->nranks, part);
  return tagc_measure_shard(candidate->layout, measure + (part & TAGC_KEEP_NORM ? o->norms : 0), o->search->nranks);
}

/* Counts as a tested equation, too. */
static bool is_shard(const struct outside *o, size_t slot, uint64_t shard) {
  ++*o->search->steps;
  return o->search->counts[o->slots[slot]] == shard;
}

/* All sizes are known: finds the slots that they explain. */
static void weigh_outside(struct outside *o, const struct tagc_architecture *a) {
  unsigned cost = o->cost + o->odd;
  size_t used = 0;
  for (size_t i = 0; i < o->part_count; i++) {
    uint64_t shard = part_shard(o, a, o->parts[i]);
    size_t slot = 0;
    while (slot < o->slot_count && (used >> slot & 1 || !is_shard(o, slot, shard)))
      slot++;
    if (slot == o->slot_count) {
      cost += COST_MISSING;
      continue;
    }
    used |= (size_t)1 << slot;
    cost -= slot_cost(o, o->slots[slot]);
  }
  cost += a->vocabulary ? tagc_cost_vocabulary(a->family, a->vocabulary) : 0;
  cost += a->positions ? tagc_cost_positions(a->family, a->positions) : 0;
  if (used && cost < o->best_cost) {
    o->best_cost = cost;
    o->best = *a;
    o->explained = (size_t)__builtin_popcountll(used);
    o->is_missing = o->explained < o->part_count;
    o->found = true;
  }
}

/* The likeliest size in (low, high] that solves the equation; 0: none does. */
static uint64_t likeliest(const struct tagc_equation *e, const struct tagc_architecture *a, enum tagc_unknown unknown,
                          uint64_t low, uint64_t high) {
  const uint32_t *known = unknown == TAGC_UNKNOWN_VOCABULARY ? tagc_vocabularies : tagc_positions;
  struct tagc_architecture tried = *a;
  uint64_t best = 0;
  unsigned best_cost = TAGC_COST_NEVER;
  for (; *known; known++) {
    if (*known <= low || *known > high)
      continue;
    unsigned cost = unknown == TAGC_UNKNOWN_VOCABULARY ? tagc_cost_vocabulary(a->family, *known)
                                                       : tagc_cost_positions(a->family, *known);
    tagc_unknown_set(&tried, unknown, *known);
    if (cost < best_cost && tagc_equation_holds(e, &tried)) {
      best = *known;
      best_cost = cost;
    }
  }
  static const uint64_t grains[] = {128, 64, 8, 1};
  for (size_t i = 0; i < sizeof grains / sizeof *grains && !best; i++) {
    uint64_t size = high / grains[i] * grains[i];
    tagc_unknown_set(&tried, unknown, size);
    if (size > low && tagc_equation_holds(e, &tried))
      best = size;
  }
  return best;
}

/* Solves for the positions in the other parts unless they are known, then weighs. */
static void solve_positions(struct outside *o, struct tagc_architecture *a, bool known) {
  for (size_t i = 0; i < o->part_count && !known; i++) {
    if (!(o->shapes->depends[TAGC_UNKNOWN_POSITIONS] & o->parts[i]))
      continue;
    for (size_t slot = 0; slot < o->slot_count; slot++) {
      struct tagc_equation e = outside_equation(o, o->parts[i], o->slots[slot]);
      uint64_t low, high, size;
      if (!tagc_equation_range(&e, a, TAGC_UNKNOWN_POSITIONS, &low, &high) || high > 1 << 20 ||
          !(size = likeliest(&e, a, TAGC_UNKNOWN_POSITIONS, low, high)))
        continue;
      a->positions = (uint32_t)size;
      weigh_outside(o, a);
    }
    a->positions = tagc_positions[0];
  }
  weigh_outside(o, a);
}

/* Solves for the vocabulary: `part` lies in that slot. */
static void solve_vocabulary(struct outside *o, uint8_t part, size_t slot) {
  struct tagc_architecture a = o->candidate->architecture;
  struct tagc_equation e = outside_equation(o, part, slot);
  bool with_positions = o->shapes->depends[TAGC_UNKNOWN_POSITIONS] & part;
  uint64_t low, high;
  for (const uint32_t *positions = tagc_positions; *positions; positions++) {
    a.positions = o->candidate->prior->has_positions ? *positions : 0;
    a.vocabulary = 1;
    if (tagc_equation_range(&e, &a, TAGC_UNKNOWN_VOCABULARY, &low, &high) && high < 1 << 21 &&
        (a.vocabulary = likeliest(&e, &a, TAGC_UNKNOWN_VOCABULARY, low, high)))
      solve_positions(o, &a, with_positions || !o->candidate->prior->has_positions);
    if (!with_positions)
      return;
  }
}

static void try_division(struct outside *o, const uint8_t parts[3]) {
  uint8_t lead = 0;
  o->part_count = 0;
  for (size_t i = 0; i < 3 && parts[i]; i++)
    if (o->shapes->keep & parts[i]) {
      o->parts[o->part_count++] = parts[i];
      if (o->shapes->depends[TAGC_UNKNOWN_VOCABULARY] & parts[i])
        lead = parts[i];
    }
  for (size_t i = 0; i < o->slot_count && lead; i++)
    solve_vocabulary(o, lead, o->slots[i]);
  if (lead)
    return;
  struct tagc_architecture some = o->candidate->architecture;
  some.vocabulary = 0;
  some.positions = o->candidate->prior->has_positions ? tagc_positions[0] : 0;
  solve_positions(o, &some, false);
}

void tagc_search_outside(const struct tagc_search *search, struct tagc_candidate *candidate) {
  const struct tagc_outsides *outsides = &search->shapes[candidate->prior - tagc_priors].outsides;
  struct tagc_candidate tried = *candidate;
  struct outside o = {.search = search, .candidate = &tried};
  find_slots(&o);
  /* The fallback: nothing explains these slots. */
  o.best = candidate->architecture;
  o.best_cost = o.odd + COST_MISSING;
  if (candidate->frame.period == 2)
    o.norms =
      candidate->frame.blocks * tagc_shapes_measure(&search->shapes[candidate->prior - tagc_priors].block,
                                                    &tried.architecture, tried.layout, search->nranks, TAGC_KEEP_REST);
  for (size_t i = 0; i < outsides->count; i++) {
    tagc_outside_set(&tried.architecture, &outsides->variants[i]);
    o.shapes = &outsides->shapes[i];
    for (size_t j = 0; j < TAGC_DIVISIONS; j++) {
      o.cost = outsides->variants[i].cost + divisions[j].cost;
      try_division(&o, divisions[j].parts);
    }
  }
  candidate->architecture = o.best;
  candidate->blocks_only = !o.found;
  candidate->is_missing = o.is_missing;
  candidate->odd = o.others - o.explained;
  if (!o.found)
    candidate->architecture.positions = 0;
  candidate->cost += o.best_cost;
}
