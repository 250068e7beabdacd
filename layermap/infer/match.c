/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/infer/match.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint8_t tagc_keep_of(const struct tagc_model *model, size_t place, const struct tagc_parameter *parameter) {
  if (model->places[place].block >= 0) {
    if (parameter->kinds & TAGC_KIND_ATTN)
      return TAGC_KEEP_ATTN;
    return parameter->kinds & (TAGC_KIND_MLP | TAGC_KIND_EXPERT) ? TAGC_KEEP_MLP : TAGC_KEEP_REST;
  }
  size_t before = 0;
  while (before < place && model->places[before].block < 0)
    before++;
  if (before == place && !(parameter->kinds & TAGC_KIND_HEAD))
    return TAGC_KEEP_EMBED;
  return (parameter->kinds & TAGC_KIND_NORM) && !(parameter->kinds & TAGC_KIND_HEAD) ? TAGC_KEEP_NORM : TAGC_KEEP_HEAD;
}

size_t tagc_piece_members(const struct tagc_model *model, const struct tagc_piece *piece, struct tagc_member *members) {
  size_t count = 0, number = 0;
  for (size_t place = piece->first; place < piece->first + piece->count; place++) {
    const struct tagc_unit *unit = &model->units[model->places[place].unit];
    for (size_t i = 0; i < unit->count; i++) {
      if (piece->keep != TAGC_KEEP_ALL && !(tagc_keep_of(model, place, &unit->parameters[i]) & piece->keep))
        continue;
      if (!piece->to || (number >= piece->from && number < piece->to)) {
        if (members)
          members[count] = (struct tagc_member){&unit->parameters[i], model->places[place].block, unit->name};
        count++;
      }
      number++;
    }
  }
  return count;
}

struct search {
  const struct tagc_model *model;
  const uint64_t *counts;
  size_t count;
  int nranks;
  size_t element_bytes;
  uint32_t first_block, blocks; /* places in a row with blocks: an encoder has some, its decoder others */
  struct tagc_match match;      /* the current attempt */
  struct tagc_piece *pieces, *tried;
  uint64_t *shards;
  struct tagc_member *members; /* room for all of the model's */
};

static uint64_t piece_shard(const struct search *s, const struct tagc_piece *piece) {
  size_t count = tagc_piece_members(s->model, piece, s->members);
  return count ? tagc_layout_shard(s->match.layout, s->members, count, s->nranks, s->element_bytes) : 0;
}

/* Goes on to the next blocks in a row. False: there are none. */
static bool next_blocks(struct search *s) {
  const struct tagc_model *model = s->model;
  s->first_block += s->blocks;
  s->blocks = 0;
  while (s->first_block < model->place_count && model->places[s->first_block].block < 0)
    s->first_block++;
  while (s->first_block + s->blocks < model->place_count && model->places[s->first_block + s->blocks].block >= 0)
    s->blocks++;
  return s->blocks;
}

static bool first_blocks(struct search *s) {
  s->first_block = s->blocks = 0;
  return next_blocks(s);
}

/* A way to wrap blocks: `group` at once, or each in slots of these sorts, in forward order. */
struct wrap {
  enum tagc_wrapping wrapping;
  size_t parts;
  uint8_t keep[3];
};

static const struct wrap wraps[] = {
  {TAGC_WRAP_BLOCK, 1, {TAGC_KEEP_BLOCK}},
  {TAGC_WRAP_SUB_BLOCK, 2, {TAGC_KEEP_ATTN, TAGC_KEEP_MLP}},
  {TAGC_WRAP_SUB_BLOCK, 3, {TAGC_KEEP_REST, TAGC_KEEP_ATTN, TAGC_KEEP_MLP}},
};

static struct tagc_piece block_piece(const struct search *s, const struct wrap *wrap, uint32_t group, size_t number) {
  uint32_t block = (uint32_t)(number / wrap->parts) * group;
  uint32_t left = s->blocks - block;
  return (struct tagc_piece){
    .first = s->first_block + block, .count = left < group ? left : group, .keep = wrap->keep[number % wrap->parts]};
}

static bool have_same_units(const struct tagc_model *model, const struct tagc_piece *a, const struct tagc_piece *b) {
  if (a->count != b->count || a->keep != b->keep)
    return false;
  for (uint32_t i = 0; i < a->count; i++)
    if (model->places[a->first + i].unit != model->places[b->first + i].unit)
      return false;
  return true;
}

/* True if the blocks lie in slots start, start + 1, ... */
static bool blocks_fit(const struct search *s, size_t needed, size_t start) {
  for (size_t i = 0; i < needed; i++)
    if (s->counts[start + i] != s->shards[i])
      return false;
  return true;
}

/* Elements of a shard of each of the `needed` pieces. */
static void find_shards(const struct search *s, const struct wrap *wrap, uint32_t group, size_t needed) {
  for (size_t i = 0; i < needed; i++) {
    struct tagc_piece piece = block_piece(s, wrap, group, i);
    if (i >= wrap->parts) {
      struct tagc_piece before = block_piece(s, wrap, group, i - wrap->parts);
      if (have_same_units(s->model, &before, &piece)) {
        s->shards[i] = s->shards[i - wrap->parts];
        continue;
      }
    }
    s->shards[i] = piece_shard(s, &piece);
  }
}

static bool is_among_slots(const struct search *s, uint64_t shard) {
  for (size_t i = 0; i < s->count; i++)
    if (s->counts[i] == shard)
      return true;
  return false;
}

/* Gives the current blocks the first slots from *slot on that fit, and moves *slot behind them. */
static bool place_current(struct search *s, const struct wrap *wrap, uint32_t group, size_t *slot) {
  size_t needed = ((size_t)s->blocks + group - 1) / group * wrap->parts, start = *slot;
  if (start + needed > s->count)
    return false;
  struct tagc_piece first = block_piece(s, wrap, group, 0);
  if (!is_among_slots(s, piece_shard(s, &first)))
    return false;
  find_shards(s, wrap, group, needed);
  while (start + needed <= s->count && !blocks_fit(s, needed, start))
    start++;
  if (start + needed > s->count)
    return false;
  for (size_t i = 0; i < needed; i++)
    s->pieces[start + i] = block_piece(s, wrap, group, i);
  *slot = start + needed;
  return true;
}

/* Places the first blocks, and behind them those of a decoder, or of a model behind another one, as far as they fit. */
static bool place_blocks(struct search *s, const struct wrap *wrap, uint32_t group) {
  size_t slot = 0;
  memset(s->pieces, 0, s->count * sizeof *s->pieces);
  if (!place_current(s, wrap, group, &slot))
    return false;
  while (next_blocks(s) && place_current(s, wrap, group, &slot)) {
  }
  first_blocks(s);
  s->match.wrapping = group > 1 ? TAGC_WRAP_GROUP : wrap->wrapping;
  s->match.group = wrap->parts > 1 ? 0 : group;
  return true;
}

/* The ways to divide the parameters outside the blocks among slots. */
static const uint8_t divisions[][3] = {
  {TAGC_KEEP_EMBED | TAGC_KEEP_NORM | TAGC_KEEP_HEAD}, {TAGC_KEEP_EMBED, TAGC_KEEP_NORM | TAGC_KEEP_HEAD},
  {TAGC_KEEP_EMBED | TAGC_KEEP_NORM, TAGC_KEEP_HEAD},  {TAGC_KEEP_EMBED | TAGC_KEEP_HEAD, TAGC_KEEP_NORM},
  {TAGC_KEEP_EMBED, TAGC_KEEP_NORM, TAGC_KEEP_HEAD},
};
enum { DIVISIONS = sizeof divisions / sizeof *divisions };

/* Gives each part of the division a free slot of its size, if any: the embedding the first, others the last. Norms of
 * blocks without a slot go with the final norm. Returns the elements of the slots found. */
static uint64_t place_outside(const struct search *s, const uint8_t division[3], struct tagc_piece *pieces) {
  bool rest = s->match.wrapping == TAGC_WRAP_SUB_BLOCK;
  for (size_t i = 0; i < s->count && rest; i++)
    rest = !(pieces[i].keep & TAGC_KEEP_REST);
  uint64_t found = 0;
  for (size_t i = 0; i < 3 && division[i]; i++) {
    struct tagc_piece piece = {.first = 0, .count = (uint32_t)s->model->place_count, .keep = division[i]};
    if (rest && (division[i] & TAGC_KEEP_NORM))
      piece.keep |= TAGC_KEEP_REST;
    uint64_t shard = piece_shard(s, &piece);
    size_t slot = s->count;
    for (size_t j = 0; j < s->count && shard; j++)
      if (!pieces[j].keep && s->counts[j] == shard && (slot == s->count || !(division[i] & TAGC_KEEP_EMBED)))
        slot = j;
    if (slot == s->count)
      continue;
    pieces[slot] = piece;
    found += shard;
  }
  return found;
}

static void place_rest(struct search *s) {
  size_t best = 0;
  uint64_t most = 0;
  for (size_t i = 0; i < DIVISIONS; i++) {
    memcpy(s->tried, s->pieces, s->count * sizeof *s->tried);
    uint64_t found = place_outside(s, divisions[i], s->tried);
    if (found > most) {
      most = found;
      best = i;
    }
  }
  if (most)
    place_outside(s, divisions[best], s->pieces);
}

static bool place_whole(struct search *s) {
  struct tagc_piece piece = {.first = 0, .count = (uint32_t)s->model->place_count, .keep = TAGC_KEEP_ALL};
  if (s->count != 1 || s->counts[0] != piece_shard(s, &piece))
    return false;
  s->pieces[0] = piece;
  s->match.wrapping = TAGC_WRAP_WHOLE;
  return true;
}

/* One rule cuts all buckets. Megatron's and DDP's end with the parameter that fills them, DeepSpeed's before the one
 * that does not fit. The last one tells nothing. */
struct rule {
  uint64_t most, least; /* the size that fills a bucket is in (most, least] */
};

/* Narrows the rule: a bucket of `elements`, whose last parameter has `end`, is followed by one with `next` elements. */
static void check_rule(struct rule *rule, bool filled, uint64_t elements, uint64_t end, uint64_t next) {
  uint64_t below = filled ? elements - end : elements == end ? 0 : elements - 1;
  uint64_t above = filled ? elements : elements + next - 1;
  rule->most = below > rule->most ? below : rule->most;
  rule->least = next && above < rule->least ? above : rule->least;
}

/* Parameters, last to first, fill the slots, last to first; a bucket ends at its slot's size. */
static bool place_buckets(struct search *s) {
  const struct tagc_model *model = s->model;
  const bool ddp = s->nranks == 1 && s->match.layout == TAGC_LAYOUT_ZERO3,
             filled = ddp || s->match.layout == TAGC_LAYOUT_MEGATRON;
  size_t slot = s->count, place = model->place_count, index = 0; /* of the latest parameter */
  uint64_t sum = 0, elements = 0, full = 0, end = 0;
  size_t taken = 0, last = 0;
  struct rule rule = {0, UINT64_MAX};
  while (slot) {
    while (!index) {
      if (!place--)
        return false;
      index = model->units[model->places[place].unit].count;
    }
    const struct tagc_parameter *parameter = &model->units[model->places[place].unit].parameters[--index];
    uint64_t size = parameter->rows * parameter->columns;
    if (full && (!ddp || slot + 1 < s->count)) /* DDP's first one is smaller */
      check_rule(&rule, filled, full, end, size);
    full = 0;
    last = taken++ ? last : place;
    elements += size;
    sum += tagc_layout_part(s->match.layout, parameter->rows, parameter->columns, s->nranks);
    const uint64_t shard = tagc_layout_shard_of_parts(s->match.layout, sum, s->nranks);
    if (shard < s->counts[slot - 1])
      continue;
    if (shard > s->counts[slot - 1])
      return false;
    s->pieces[--slot] = (struct tagc_piece){.first = (uint32_t)place,
                                            .count = (uint32_t)(last - place + 1),
                                            .from = (uint32_t)index,
                                            .to = (uint32_t)(index + taken),
                                            .keep = TAGC_KEEP_ALL};
    full = elements;
    end = size;
    sum = elements = taken = 0;
  }
  s->match.wrapping = TAGC_WRAP_BUCKETS;
  return !index && !place && s->count > 1 && rule.most < rule.least;
}

/* Counts the slots without a piece, and the elements of the others. */
static void count_explained(struct search *s) {
  s->match.odd = 0;
  s->match.explained = 0;
  for (size_t i = 0; i < s->count; i++) {
    s->match.odd += !s->pieces[i].keep;
    s->match.explained += s->pieces[i].keep ? s->counts[i] : 0;
  }
}

static bool try_layout(struct search *s) {
  uint32_t buckets = 1u << TAGC_LAYOUT_MEGATRON | 1u << TAGC_LAYOUT_ZERO3;
  s->match.group = 0;
  if (place_whole(s))
    return true;
  for (size_t i = 0; i < sizeof wraps / sizeof *wraps && s->blocks && s->match.layout != TAGC_LAYOUT_MEGATRON; i++)
    for (uint32_t group = 1; group <= (wraps[i].parts > 1 ? 1 : s->blocks) && group <= TAGC_MATCH_GROUP; group++)
      if (place_blocks(s, &wraps[i], group)) {
        place_rest(s);
        return true;
      }
  return (buckets >> s->match.layout & 1) && place_buckets(s);
}

/* Explains that no division into buckets gives the sizes of all-reduces. */
static void explain_no_buckets(const struct search *s, char *why) {
  uint64_t sum = 0;
  for (size_t i = 0; i < s->count; i++)
    sum += s->counts[i];
  snprintf(why, 160,
           "the map has %" PRIu64 " elements, %zu all-reduces have %" PRIu64
           "; buckets in the order of the map have other sizes",
           tagc_model_elements(s->model), s->count, sum);
}

/* Explains a failure: the first block's size, in the layout nearest to the size that most calls in a row have. */
static void explain_no_match(struct search *s, unsigned layouts, char *why) {
  uint64_t usual = 0, nearest = UINT64_MAX, shard = 0;
  size_t best = 0;
  for (size_t i = 0, times = 0; i < s->count; i++) {
    times = i && s->counts[i] == s->counts[i - 1] ? times + 1 : 1;
    if (times > best) {
      best = times;
      usual = s->counts[i];
    }
  }
  struct tagc_piece piece = {.first = s->first_block, .count = 1, .keep = TAGC_KEEP_ALL};
  if (!s->blocks)
    piece.first = 0, piece.count = (uint32_t)s->model->place_count;
  enum tagc_layout_kind layout = TAGC_LAYOUT_FSDP1;
  for (int i = 0; i < TAGC_LAYOUTS; i++) {
    s->match.layout = (enum tagc_layout_kind)i;
    uint64_t size = piece_shard(s, &piece), distance = size < usual ? usual - size : size - usual;
    if ((layouts >> i & 1) && distance < nearest) {
      nearest = distance;
      shard = size;
      layout = s->match.layout;
    }
  }
  if (!nearest) {
    snprintf(why, 160,
             "the map has %u blocks of %" PRIu64 " elements a rank (%s over %d ranks); %zu calls in a "
             "row have that size",
             s->blocks, shard, tagc_layout_name(layout), s->nranks, best);
    return;
  }
  const struct tagc_model *model = s->model;
  const struct tagc_unit *unit =
    piece.first < model->place_count ? &model->units[model->places[piece.first].unit] : NULL;
  char name[TAGC_UNIT_NAME + 12] = "whole";
  if (s->blocks)
    snprintf(name, sizeof name, "%s.%" PRId32, unit->name, model->places[piece.first].block);
  snprintf(why, 160,
           "unit %s: the map has %" PRIu64 " elements, in %s over %d ranks %" PRIu64 " each; the call has %" PRIu64,
           name, s->blocks ? tagc_unit_elements(unit) : tagc_model_elements(model), tagc_layout_name(layout), s->nranks,
           shard, usual);
}

static bool try_layouts(struct search *s, unsigned layouts, struct tagc_match *match, struct tagc_piece *pieces) {
  bool found = false;
  for (int layout = 0; layout < TAGC_LAYOUTS; layout++) {
    if (!(layouts >> layout & 1))
      continue;
    s->match.layout = (enum tagc_layout_kind)layout;
    memset(s->pieces, 0, s->count * sizeof *s->pieces);
    if (!try_layout(s))
      continue;
    count_explained(s);
    if (found && s->match.explained <= match->explained)
      continue;
    found = true;
    *match = s->match;
    memcpy(pieces, s->pieces, s->count * sizeof *pieces);
  }
  return found;
}

enum tagc_found tagc_match_find(const struct tagc_model *model, const uint64_t *counts, size_t count, int nranks,
                                size_t element_bytes, unsigned layouts, struct tagc_match *match,
                                struct tagc_piece *pieces, char *why) {
  struct search s = {
    .model = model, .counts = counts, .count = count, .nranks = nranks, .element_bytes = element_bytes};
  struct tagc_piece all = {.first = 0, .count = (uint32_t)model->place_count, .keep = TAGC_KEEP_ALL};
  enum tagc_found found = TAGC_FOUND_NO_MEMORY;
  s.members = malloc((tagc_piece_members(model, &all, NULL) + 1) * sizeof *s.members);
  s.shards = calloc(count + 1, sizeof *s.shards);
  s.pieces = calloc(count + 1, sizeof *s.pieces);
  s.tried = calloc(count + 1, sizeof *s.tried);
  if (s.members && s.shards && s.pieces && s.tried) {
    first_blocks(&s);
    found = try_layouts(&s, layouts, match, pieces) ? TAGC_FOUND : TAGC_FOUND_NONE;
    if (found == TAGC_FOUND_NONE && why) {
      if (s.nranks == 1) /* all-reduces, of whole parameters */
        explain_no_buckets(&s, why);
      else
        explain_no_match(&s, layouts, why);
    }
  }
  free(s.members);
  free(s.shards);
  free(s.pieces);
  free(s.tried);
  return found;
}
