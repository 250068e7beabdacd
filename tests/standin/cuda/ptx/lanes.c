/* SPDX-License-Identifier: BSD-3-Clause
 * What the lanes of a warp do together: shuffles, votes, matches, reductions, and the warp's barrier. Lanes at the same
 * instruction may name different masks: each mask is a group of its own, and all groups are there before one goes on.
 */
#include "tests/standin/cuda/ptx/ptx.h"

static struct ptx_operand mask_of(const struct ptx_ins *i) { return i->from[i->sources - 1]; }

static bool complete(const struct ptx_warp *w, uint32_t named) {
  return (named & w->exists & ~w->returned & ~w->mask) == 0;
}

/* The lanes that each lane of a shuffle reads from, itself at the end of its segment. Returns those that read inside.
 */
static uint32_t source_lanes(const struct ptx_warp *w, const struct ptx_ins *i, int from[LANES]) {
  const row32 *by = ptx_row(w, i->from[1]), *control = ptx_row(w, i->from[2]);
  uint32_t inside = 0;
  for (int lane = 0; lane < LANES; lane++) {
    int shift = by[lane] & 31, segment = control[lane] >> 8 & 31, clamp = control[lane] & 31;
    int least = lane & segment, most = least | (clamp & ~segment);
    int to = i->how == PTX_UP          ? lane - shift
             : i->how == PTX_DOWN      ? lane + shift
             : i->how == PTX_BUTTERFLY ? lane ^ shift
                                       : least | (shift & ~segment);
    bool is_inside = i->how == PTX_UP ? to >= most : to <= most;
    from[lane] = is_inside ? to : lane;
    inside |= is_inside ? ptx_bits[lane] : 0;
  }
  return inside;
}

static void shuffle(struct ptx_warp *w, const struct ptx_ins *i, uint32_t group) {
  int from[LANES];
  row32 values[LANES];
  const row32 *row = ptx_row(w, i->from[0]); /* shuffles have 32 bits */
  uint32_t known = ptx_defined(w, i->from[0]), defined = 0, all = w->mask, inside = source_lanes(w, i, from);
  PTX_EACH(lane, group) {
    if (!(group >> from[lane] & 1)) {
      ptx_finding(w, i, lane, "the shuffle reads lane %d, which does not take part", from[lane]);
      from[lane] = (int)lane;
    }
    values[lane] = row[from[lane]];
    defined |= (known >> from[lane] & 1) << lane;
  }
  w->mask = group;
  PTX_EACH(lane, group) {
    ((row32 *)ptx_row(w, i->to[0]))[lane] = values[lane];
    if (i->targets > 1)
      ptx_put(w, i->to[1], lane, inside >> lane & 1);
  }
  ptx_define(w, i->to[0], defined);
  if (i->targets > 1)
    ptx_define(w, i->to[1], UINT32_MAX);
  w->mask = all;
}

static uint32_t reduced(enum ptx_how how, bool is_signed, uint32_t a, uint32_t b) {
  switch (how) {
  case PTX_ADD: return a + b;
  case PTX_AND: return a & b;
  case PTX_OR: return a | b;
  case PTX_XOR: return a ^ b;
  case PTX_MIN: return is_signed ? ((int32_t)a < (int32_t)b ? a : b) : a < b ? a : b;
  default: return is_signed ? ((int32_t)a > (int32_t)b ? a : b) : a > b ? a : b;
  }
}

/* The lanes whose row has the value. */
static uint32_t alike(const struct ptx_warp *w, struct ptx_operand operand, uint64_t value) {
  const void *row = ptx_row(w, operand);
  uint32_t result = 0;
  if (operand.bits == 64)
    for (unsigned lane = 0; lane < LANES; lane++)
      result |= ((const row64 *)row)[lane] == value ? ptx_bits[lane] : 0;
  else
    for (unsigned lane = 0; lane < LANES; lane++)
      result |= ((const row32 *)row)[lane] == (uint32_t)value ? ptx_bits[lane] : 0;
  return result;
}

/* What all lanes of the group get from a vote or a reduction. */
static uint32_t combined(const struct ptx_warp *w, const struct ptx_ins *i, uint32_t group) {
  if (i->op == PTX_VOTE) {
    uint32_t truths = ptx_truths(w, i->from[0]) & group;
    return i->how == PTX_BALLOT ? truths : i->how == PTX_ANY ? truths != 0 : truths == group;
  }
  uint32_t result = (uint32_t)ptx_get(w, i->from[0], (unsigned)__builtin_ctz(group));
  PTX_EACH(lane, group & (group - 1))
  result = reduced((enum ptx_how)i->how, i->is_signed, result, (uint32_t)ptx_get(w, i->from[0], lane));
  return result;
}

static void combine(struct ptx_warp *w, const struct ptx_ins *i, uint32_t group) {
  uint32_t results[LANES], all = w->mask, known = ptx_defined(w, i->from[0]);
  w->mask = group;
  if (i->op == PTX_VOTE)
    ptx_check_defined(w, i, i->from[0], "the vote of a lane");
  uint32_t same = i->op == PTX_MATCH ? 0 : combined(w, i, group);
  PTX_EACH(lane, group)
  results[lane] = i->op == PTX_MATCH ? alike(w, i->from[0], ptx_get(w, i->from[0], lane)) & group : same;
  PTX_EACH(lane, group) ptx_put(w, i->to[0], lane, results[lane]);
  ptx_define(w, i->to[0], (group & ~known) && i->op != PTX_VOTE ? 0 : UINT32_MAX);
  w->mask = all;
}

bool ptx_together(struct ptx_warp *w, const struct ptx_ins *i) {
  struct ptx_operand named = mask_of(i);
  uint32_t groups[LANES];
  unsigned count = 0;
  ptx_check_defined(w, i, named, "the mask of lanes");
  for (uint32_t left = w->mask; left;) {
    unsigned first = (unsigned)__builtin_ctz(left);
    uint32_t mask = (uint32_t)ptx_get(w, named, first);
    if (!complete(w, mask))
      return false;
    uint32_t group = left & alike(w, named, mask);
    if (group & ~mask)
      ptx_finding(w, i, first, "the mask %08x does not name the lane itself", mask);
    if (mask & w->returned)
      ptx_finding(w, i, first, "the mask %08x names lanes that have returned", mask);
    if (mask & w->exists & ~w->returned & ~group)
      ptx_finding(w, i, first, "the lanes of mask %08x name other masks", mask);
    left &= ~group;
    groups[count++] = group;
  }
  ptx_races_together(w, i);
  for (unsigned k = 0; k < count; k++)
    if (i->op == PTX_SHUFFLE)
      shuffle(w, i, groups[k]);
    else if (i->op != PTX_WARP_BARRIER)
      combine(w, i, groups[k]);
  return true;
}
