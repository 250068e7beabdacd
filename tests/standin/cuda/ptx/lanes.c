/* SPDX-License-Identifier: BSD-3-Clause
 * What the lanes of a warp do together: shuffles, votes, matches, reductions, and the warp's barrier. Lanes at the same
 * instruction may name different masks: each mask is a group of its own, and all groups are there before one goes on.
 */
#include "tests/standin/cuda/ptx/ptx.h"

static struct ptx_operand mask_of(const struct ptx_ins *i) { return i->from[i->sources - 1]; }

static bool complete(const struct ptx_warp *w, uint32_t named) {
  return (named & w->exists & ~w->returned & ~w->mask) == 0;
}

static unsigned source_lane(const struct ptx_warp *w, const struct ptx_ins *i, unsigned lane, bool *inside) {
  uint32_t by = (uint32_t)ptx_get(w, i->from[1], lane) & 31, control = (uint32_t)ptx_get(w, i->from[2], lane);
  uint32_t segment = control >> 8 & 31, clamp = control & 31;
  int most = (int)((lane & segment) | (clamp & ~segment)), from;
  switch (i->how) {
  case PTX_UP:
    from = (int)lane - (int)by;
    *inside = from >= most;
    break;
  case PTX_DOWN:
    from = (int)(lane + by);
    *inside = from <= most;
    break;
  case PTX_BUTTERFLY:
    from = (int)(lane ^ by);
    *inside = from <= most;
    break;
  default: from = (int)((lane & segment) | (by & ~segment)); *inside = from <= most;
  }
  return *inside ? (unsigned)from : lane;
}

static void shuffle(struct ptx_warp *w, const struct ptx_ins *i, uint32_t group) {
  uint64_t values[LANES], results[LANES];
  uint32_t known = ptx_defined(w, i->from[0]), defined = 0, all = w->mask, predicate = 0;
  PTX_EACH(lane, group) values[lane] = ptx_get(w, i->from[0], lane);
  PTX_EACH(lane, group) {
    bool inside;
    unsigned from = source_lane(w, i, lane, &inside);
    if (!(group >> from & 1)) {
      ptx_finding(w, i, lane, "the shuffle reads lane %u, which does not take part", from);
      from = lane;
    }
    results[lane] = values[from];
    defined |= (known >> from & 1) << lane;
    predicate |= (uint32_t)inside << lane;
  }
  w->mask = group;
  PTX_EACH(lane, group) {
    ptx_put(w, i->to[0], lane, results[lane]);
    if (i->targets > 1)
      ptx_put(w, i->to[1], lane, predicate >> lane & 1);
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

/* What a lane of the group gets. */
static uint32_t combined(const struct ptx_warp *w, const struct ptx_ins *i, uint32_t group, unsigned self) {
  uint32_t result = 0;
  bool first = true;
  PTX_EACH(lane, group) {
    uint64_t value = ptx_get(w, i->from[0], lane);
    if (i->op == PTX_VOTE)
      result |= (uint32_t)(value & 1) << lane;
    else if (i->op == PTX_MATCH)
      result |= (uint32_t)(value == ptx_get(w, i->from[0], self)) << lane;
    else
      result = first ? (uint32_t)value : reduced((enum ptx_how)i->how, i->is_signed, result, (uint32_t)value);
    first = false;
  }
  if (i->op != PTX_VOTE || i->how == PTX_BALLOT)
    return result;
  return i->how == PTX_ANY ? result != 0 : result == group;
}

static void combine(struct ptx_warp *w, const struct ptx_ins *i, uint32_t group) {
  uint32_t results[LANES], all = w->mask, known = ptx_defined(w, i->from[0]);
  w->mask = group;
  if (i->op == PTX_VOTE)
    ptx_check_defined(w, i, i->from[0], "the vote of a lane");
  PTX_EACH(lane, group) results[lane] = combined(w, i, group, i->op == PTX_MATCH ? lane : 0);
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
    uint32_t mask = (uint32_t)ptx_get(w, named, first), group = 0;
    if (!complete(w, mask))
      return false;
    PTX_EACH(lane, left) group |= (uint32_t)(ptx_get(w, named, lane) == mask) << lane;
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
