/* SPDX-License-Identifier: BSD-3-Clause
 * Finds architectures with blocks of a given size. Tries hidden sizes and heads; the MLP's width follows. See search.h.
 */
#include <string.h>

#include "layermap/infer/search.h"

void tagc_unknown_set(struct tagc_architecture *a, enum tagc_unknown unknown, uint64_t size) {
  switch (unknown) {
  case TAGC_UNKNOWN_INTERMEDIATE: a->intermediate = (uint32_t)size; break;
  case TAGC_UNKNOWN_EXPERT:
    /* Shared experts are a multiple of the others. */
    a->shared_intermediate =
      a->expert_intermediate ? a->shared_intermediate / a->expert_intermediate * (uint32_t)size : 0;
    a->expert_intermediate = (uint32_t)size;
    break;
  case TAGC_UNKNOWN_VOCABULARY: a->vocabulary = size; break;
  case TAGC_UNKNOWN_POSITIONS: a->positions = (uint32_t)size; break;
  }
}

struct tagc_architecture tagc_search_kind(const struct tagc_prior *prior) {
  struct tagc_architecture kind = {.family = prior->family,
                                   .no_bias = prior->no_bias,
                                   .plain_linear = prior->plain_linear,
                                   .positions = prior->has_positions};
  kind.experts = kind.expert_intermediate = prior->is_sparse;
  kind.fused_experts = prior->fused_experts;
  if (prior->attention == TAGC_LATENT) {
    kind.shared_intermediate = kind.dense_blocks = 1;
    kind.q_rank = prior->no_q_rank ? 0 : 1536;
    kind.kv_rank = 512;
    kind.rope_dim = 64;
    kind.nope_dim = kind.v_dim = 128;
  }
  return kind;
}

void tagc_published_set(struct tagc_architecture *a, const struct tagc_published *known) {
  a->hidden = known->hidden;
  a->intermediate = known->intermediate;
  a->heads = known->heads;
  a->kv_heads = known->kv_heads;
  a->head_dim = known->head_dim;
  a->experts = known->experts;
  a->expert_intermediate = known->expert_intermediate;
  a->shared_intermediate = known->shared_intermediate;
}

bool tagc_equation_holds(const struct tagc_equation *e, const struct tagc_architecture *a) {
  ++*e->steps;
  uint64_t measure = e->times * tagc_shapes_measure(e->shapes, a, e->layout, e->nranks, e->keep) + e->more;
  return tagc_measure_shard(e->layout, measure, e->nranks) == e->count;
}

/* A measure grows by equal steps as the unknown grows by nranks; in between it is at most a step higher. */
bool tagc_equation_range(const struct tagc_equation *e, const struct tagc_architecture *a, enum tagc_unknown unknown,
                         uint64_t *low, uint64_t *high) {
  struct tagc_architecture tried = *a;
  uint64_t step = unknown == TAGC_UNKNOWN_EXPERT ? 64 * (uint64_t)e->nranks : e->nranks, none;
  tagc_unknown_set(&tried, unknown, step);
  uint64_t rise = e->times * tagc_shapes_slope(e->shapes, &tried, e->layout, e->nranks, e->keep, unknown, &none);
  none = e->times * none + e->more;
  *e->steps += 2;
  bool flat = e->layout == TAGC_LAYOUT_FSDP1;
  uint64_t most = flat ? e->count * e->nranks : e->count, least = flat ? most - e->nranks : most - 1;
  if (!rise || most < none || (most - none) / rise > (UINT32_MAX >> 1) / step)
    return false;
  *high = (most - none) / rise * step + (most - none) % rise * step / rise;
  uint64_t before = least < none ? 0 : (least - none) / rise * step + (least - none) % rise * step / rise;
  uint64_t slack = flat ? 0 : e->nranks;
  *low = before > slack ? before - slack : 0;
  return true;
}

/* True if both divide blocks alike: published widths come several times, under other numbers of heads. */
static bool is_same_block(const struct tagc_candidate *one, const struct tagc_candidate *other) {
  const struct tagc_architecture *a = &one->architecture, *b = &other->architecture;
  return one->prior == other->prior && one->layout == other->layout && a->hidden == b->hidden &&
         a->intermediate == b->intermediate && a->heads * a->head_dim == b->heads * b->head_dim &&
         a->kv_heads * a->head_dim == b->kv_heads * b->head_dim && a->experts == b->experts &&
         a->expert_intermediate == b->expert_intermediate && a->shared_intermediate == b->shared_intermediate &&
         a->blocks == b->blocks && a->dense_blocks == b->dense_blocks && one->frame.group == other->frame.group &&
         one->frame.period == other->frame.period &&
         (a->head_dim == b->head_dim || one->prior->attention == TAGC_SQUARE);
}

static void keep_candidate(struct tagc_search *search, const struct tagc_candidate *candidate) {
  size_t at = search->used;
  for (size_t i = 0; i < search->used; i++)
    if (search->candidates[i].cost <= candidate->cost && is_same_block(&search->candidates[i], candidate))
      return;
  while (at && search->candidates[at - 1].cost > candidate->cost)
    at--;
  if (at == TAGC_CANDIDATES)
    return;
  size_t moved = search->used < TAGC_CANDIDATES ? search->used++ : TAGC_CANDIDATES - 1;
  memmove(&search->candidates[at + 1], &search->candidates[at], (moved - at) * sizeof *candidate);
  search->candidates[at] = *candidate;
}

/* One attempt: all but the width of the MLP is fixed. */
struct attempt {
  struct tagc_search *search;
  const struct tagc_family_shapes *shapes;
  struct tagc_candidate candidate;
  uint64_t beside; /* measure of the MLP slot's other contents */
};

static struct tagc_equation blocks_equation(const struct attempt *t, const struct tagc_shapes *shapes, unsigned sorts,
                                            uint32_t times, uint64_t count) {
  return (struct tagc_equation){.shapes = shapes,
                                .keep = sorts,
                                .layout = t->candidate.layout,
                                .nranks = t->search->nranks,
                                .times = times,
                                .count = count,
                                .steps = t->search->steps};
}

/* With several blocks a slot, the last slot may hold fewer, and the first ones other blocks, too. */
static void keep_group(struct attempt *t) {
  struct tagc_candidate whole = t->candidate;
  struct tagc_frame *frame = &whole.frame;
  struct tagc_architecture *a = &whole.architecture;
  const uint64_t *counts = t->search->counts;
  for (uint32_t rest = 1; rest < frame->group && frame->start + frame->length < t->search->count; rest++) {
    struct tagc_equation e =
      blocks_equation(t, &t->shapes->block, TAGC_KEEP_BLOCK, rest, counts[frame->start + frame->length]);
    if (!tagc_equation_holds(&e, a))
      continue;
    a->blocks += rest;
    frame->length++;
    break;
  }
  for (uint32_t dense = 3; dense && a->kv_rank && !a->dense_blocks; dense--) {
    uint32_t slots = (dense + frame->group - 1) / frame->group, fitting = 0;
    for (uint32_t i = 0; i < slots && slots <= frame->start; i++) {
      uint32_t others = dense - i * frame->group < frame->group ? dense - i * frame->group : frame->group;
      struct tagc_equation e =
        blocks_equation(t, &t->shapes->block, TAGC_KEEP_BLOCK, frame->group - others, counts[frame->start - slots + i]);
      e.more =
        others * tagc_shapes_measure(&t->shapes->dense, a, t->candidate.layout, t->search->nranks, TAGC_KEEP_BLOCK);
      fitting += tagc_equation_holds(&e, a);
    }
    if (fitting < slots)
      continue;
    a->blocks += slots * frame->group;
    a->dense_blocks = dense;
    frame->start -= slots;
    frame->length += slots;
  }
  keep_candidate(t->search, &whole);
}

/* Widths of MLPs are multiples of this. */
static uint64_t grain(uint32_t hidden) { return hidden >= 1024 ? 64 : hidden % 8 ? 1 : 8; }

/* Solves for the width that makes the leading dense blocks fit, too. */
static bool solve_dense(struct attempt *t) {
  struct tagc_architecture *a = &t->candidate.architecture;
  uint64_t low, high;
  if (!t->search->frame.dense)
    return true;
  struct tagc_equation e =
    blocks_equation(t, &t->shapes->dense, t->search->frame.period > 1 ? TAGC_KEEP_MLP : TAGC_KEEP_BLOCK, 1,
                    t->search->frame.dense_count);
  if (!tagc_equation_range(&e, a, TAGC_UNKNOWN_INTERMEDIATE, &low, &high))
    return false;
  a->intermediate = (uint32_t)(high / 64 * 64);
  if (!a->intermediate || a->intermediate <= low || !tagc_equation_holds(&e, a))
    return false;
  t->candidate.cost += tagc_cost_intermediate(a->hidden, a->intermediate, t->candidate.prior);
  return true;
}

static void found(struct attempt *t, uint64_t width) {
  struct tagc_architecture *a = &t->candidate.architecture;
  unsigned cost = t->candidate.cost;
  if (t->candidate.prior->is_sparse)
    t->candidate.cost +=
      width > a->hidden ? tagc_cost_intermediate(a->hidden, width, t->candidate.prior) : 8 + tagc_cost_size(width);
  else
    t->candidate.cost += tagc_cost_intermediate(a->hidden, width, t->candidate.prior);
  if (solve_dense(t))
    keep_group(t);
  t->candidate.cost = cost;
}

/* Solves for the width of the MLP, or of its experts. */
static void solve_width(struct attempt *t) {
  const struct tagc_frame *frame = &t->search->frame;
  struct tagc_architecture *a = &t->candidate.architecture;
  enum tagc_unknown unknown = t->candidate.prior->is_sparse ? TAGC_UNKNOWN_EXPERT : TAGC_UNKNOWN_INTERMEDIATE;
  struct tagc_equation e =
    blocks_equation(t, &t->shapes->block, TAGC_KEEP_MLP, frame->group, frame->counts[frame->period - 1]);
  e.more = frame->group * t->beside;
  uint64_t low, high, quantum = grain(a->hidden);
  if (!tagc_equation_range(&e, a, unknown, &low, &high))
    return;
  for (uint64_t width = high / quantum * quantum; width && width > low && !tagc_search_is_long(t->search);
       width -= quantum) {
    if (width > 16 * (uint64_t)a->hidden || (!t->candidate.prior->is_sparse && 4 * width < a->hidden))
      continue;
    tagc_unknown_set(a, unknown, width);
    if (tagc_equation_holds(&e, a))
      found(t, width);
  }
}

/* Attention in slots of its own must fit them alone; so must norms. */
static bool parts_fit(const struct attempt *t) {
  const struct tagc_frame *frame = &t->search->frame;
  if (frame->period == 1)
    return true;
  struct tagc_equation e = blocks_equation(t, &t->shapes->block, TAGC_KEEP_ATTN, 1, frame->counts[frame->period - 2]);
  if (!tagc_equation_holds(&e, &t->candidate.architecture))
    return false;
  if (frame->period == 2)
    return true;
  e = blocks_equation(t, &t->shapes->block, TAGC_KEEP_REST, 1, frame->counts[0]);
  return tagc_equation_holds(&e, &t->candidate.architecture);
}

/* All sizes are known: tests whether they fit. */
static void try_known(struct attempt *t) {
  const struct tagc_frame *frame = &t->search->frame;
  const struct tagc_architecture *a = &t->candidate.architecture;
  struct tagc_equation e = blocks_equation(t, &t->shapes->block, frame->period > 1 ? TAGC_KEEP_MLP : TAGC_KEEP_BLOCK,
                                           frame->group, frame->counts[frame->period - 1]);
  struct tagc_equation dense =
    blocks_equation(t, &t->shapes->dense, frame->period > 1 ? TAGC_KEEP_MLP : TAGC_KEEP_BLOCK, 1, frame->dense_count);
  if (parts_fit(t) && tagc_equation_holds(&e, a) && (!frame->dense || tagc_equation_holds(&dense, a)))
    keep_group(t);
}

static void try_experts(struct attempt *t) {
  static const struct {
    uint16_t experts;
    uint8_t cost;
  } all[] = {{8, 0}, {16, 8}, {32, 10}, {64, 6}, {128, 4}, {160, 10}, {256, 6}, {4, 12}};
  struct tagc_architecture *a = &t->candidate.architecture;
  unsigned cost = t->candidate.cost;
  if (!parts_fit(t))
    return;
  t->beside = t->search->frame.period > 1 ? 0
                                          : tagc_shapes_measure(&t->shapes->block, a, t->candidate.layout,
                                                                t->search->nranks, TAGC_KEEP_ATTN | TAGC_KEEP_REST);
  if (!t->candidate.prior->is_sparse) {
    solve_width(t);
    return;
  }
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (uint32_t shared = t->candidate.prior->attention == TAGC_LATENT;
         shared <= (t->candidate.prior->attention == TAGC_LATENT ? 2 : 0); shared++) {
      a->experts = all[i].experts;
      a->expert_intermediate = 1;
      a->shared_intermediate = shared;
      t->candidate.cost = cost + all[i].cost + 4 * shared;
      solve_width(t);
    }
  t->candidate.cost = cost;
}

static void try_key_heads(struct attempt *t) {
  struct tagc_architecture *a = &t->candidate.architecture;
  unsigned cost = t->candidate.cost;
  for (uint32_t kv = 1; kv <= a->heads; kv++) {
    if (a->heads % kv)
      continue;
    a->kv_heads = kv;
    t->candidate.cost = cost + tagc_cost_heads(a, t->candidate.prior);
    if (t->candidate.cost <= cost + 36) /* nobody builds anything costlier */
      try_experts(t);
  }
  t->candidate.cost = cost;
}

/* A head size for attention as wide as the stream; only names depend on it. */
static uint32_t usual_head(uint32_t hidden, uint32_t usual) {
  static const uint32_t sizes[] = {128, 80, 64, 96, 40, 32, 16, 8, 4, 2, 1};
  if (usual && hidden % usual == 0)
    return usual;
  size_t i = 0;
  while (hidden % sizes[i] || (hidden / sizes[i] < 4 && sizes[i] > 8))
    i++;
  return sizes[i];
}

/* Quick test that rejects most widths: a multiple of the common factor of such blocks must lie in range. */
static bool may_fit(const struct attempt *t) {
  const struct tagc_frame *frame = &t->search->frame;
  uint64_t modulus, residue, most = frame->counts[0], least = most - 1, group = frame->group;
  if (frame->period > 1 || !tagc_shapes_residue(&t->shapes->block, &t->candidate.architecture, t->candidate.layout,
                                                t->search->nranks, &modulus, &residue))
    return true;
  if (t->candidate.layout == TAGC_LAYOUT_FSDP1) {
    most *= t->search->nranks;
    least = most - t->search->nranks;
  }
  return group * residue <= most &&
         (most - group * residue) / (group * modulus) * (group * modulus) + group * residue > least;
}

static void try_latent(struct attempt *t) {
  struct tagc_architecture *a = &t->candidate.architecture;
  a->head_dim = 192;
  for (a->heads = 16; a->heads <= 128; a->heads *= 2) {
    a->kv_heads = a->heads;
    try_experts(t);
  }
}

static void try_heads(struct attempt *t) {
  static const uint32_t sizes[] = {128, 64, 96, 80, 256, 32, 112, 48, 16};
  const struct tagc_prior *prior = t->candidate.prior;
  struct tagc_architecture *a = &t->candidate.architecture;
  switch (prior->attention) {
  case TAGC_SQUARE:
    a->head_dim = usual_head(a->hidden, prior->usual_head);
    a->heads = a->kv_heads = a->hidden / a->head_dim;
    try_experts(t);
    return;
  case TAGC_LATENT: try_latent(t); return;
  case TAGC_GROUPED:
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      a->head_dim = sizes[i];
      a->heads = a->hidden / sizes[i];
      if (a->hidden % sizes[i] == 0 && may_fit(t))
        try_key_heads(t);
    }
    return;
  case TAGC_WIDE:
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      a->head_dim = sizes[i];
      if ((sizes[i] != 128 && sizes[i] != prior->usual_head) || !may_fit(t))
        continue;
      for (a->heads = 2; a->heads * a->head_dim <= 3 * a->hidden; a->heads += 2)
        if (2 * a->heads * a->head_dim >= a->hidden && tagc_cost_size(a->heads) <= 16)
          try_key_heads(t);
    }
  }
}

/* Streams are multiples of these steps; toys' small ones are arbitrary. */
static uint64_t next_hidden(uint64_t hidden) {
  return hidden < 64 ? hidden + 1 : hidden < 512 ? hidden + 8 : hidden < 8192 ? hidden + 64 : hidden + 256;
}

static struct attempt begin_attempt(struct tagc_search *search, const struct tagc_prior *prior,
                                    enum tagc_layout_kind layout) {
  struct attempt t = {.search = search, .shapes = &search->shapes[prior - tagc_priors]};
  t.candidate = (struct tagc_candidate){.architecture = tagc_search_kind(prior),
                                        .prior = prior,
                                        .layout = layout,
                                        .frame = search->frame,
                                        .cost = prior->cost};
  t.candidate.architecture.blocks = search->frame.blocks;
  t.candidate.architecture.dense_blocks = search->frame.dense;
  return t;
}

/* True if a model of the family may have these widths. */
static bool may_have_widths(const struct tagc_prior *prior, const struct tagc_published *known) {
  if (known->family == prior->family)
    return true;
  const bool is_square = known->heads == known->kv_heads && known->heads * known->head_dim == known->hidden &&
                         known->intermediate == 4 * known->hidden;
  return !known->experts && !prior->is_sparse && (prior->attention != TAGC_SQUARE || is_square);
}

void tagc_search_published(struct tagc_search *search, const struct tagc_prior *prior, enum tagc_layout_kind layout) {
  struct attempt t = begin_attempt(search, prior, layout);
  for (size_t i = 0; i < tagc_published_count; i++) {
    if (!may_have_widths(prior, &tagc_published[i]))
      continue;
    tagc_published_set(&t.candidate.architecture, &tagc_published[i]);
    t.candidate.cost = prior->cost + (tagc_published[i].family == prior->family ? 0 : TAGC_COST_FOREIGN);
    try_known(&t);
  }
}

void tagc_search_blocks(struct tagc_search *search, const struct tagc_prior *prior, enum tagc_layout_kind layout) {
  const struct tagc_frame *frame = &search->frame;
  struct attempt t = begin_attempt(search, prior, layout);
  uint64_t elements = 0;
  for (size_t i = 0; i < frame->period; i++)
    elements += frame->counts[i] * search->nranks / frame->group;
  /* A block has 4 to 40 times the square of the stream, experts many more. */
  for (uint64_t hidden = 8; hidden <= 20480 && 3 * hidden * hidden <= elements && !tagc_search_is_long(search);
       hidden = next_hidden(hidden)) {
    if (!prior->is_sparse && 45 * hidden * hidden < elements)
      continue;
    if ((prior->is_sparse && hidden % 256) ||
        (prior->attention == TAGC_WIDE && (hidden % 64 || tagc_cost_size(hidden) > 20)))
      continue;
    t.candidate.architecture.hidden = (uint32_t)hidden;
    t.candidate.cost = prior->cost + TAGC_COST_UNPUBLISHED + tagc_cost_hidden(hidden);
    try_heads(&t);
  }
}
