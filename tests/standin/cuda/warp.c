/* SPDX-License-Identifier: BSD-3-Clause
 * Warp operations: the lanes in the mask wait for each other, whatever the others do. Nobody waits for lanes that have
 * returned; reading from one gives an undefined value.
 */
#include "tests/standin/cuda/strand.h"

static bool is_there(const struct strand *lane, unsigned i, unsigned count) {
  return i < count && lane->state != RETURNED;
}

/* True if all lanes of the strand's operation have arrived or returned. Checks the last lane first: it arrives last. */
static inline bool is_complete(const struct strand *lanes, unsigned count, const struct strand *strand) {
  const uint32_t mask = count < EMULATE_WARP ? strand->mask & ((1u << count) - 1) : strand->mask;
  for (uint32_t left = mask; left;) {
    const unsigned i = 31 - (unsigned)__builtin_clz(left);
    if (lanes[i].state != RETURNED &&
        (lanes[i].state != AT_WARP || lanes[i].mask != strand->mask || lanes[i].kind != strand->kind))
      return false;
    left &= ~(1u << i);
  }
  return true;
}

/* The source lane of a shuffle; its own at the end of the segment. */
static inline unsigned source(enum emulate_warp_kind kind, const struct strand *strand, unsigned lane) {
  unsigned width = strand->width, begin = lane & ~(width - 1), by = strand->argument;
  if (kind == EMULATE_SHFL)
    return begin + (by & (width - 1));
  if (kind == EMULATE_SHFL_UP)
    return by <= lane - begin ? lane - by : lane;
  if (kind == EMULATE_SHFL_DOWN)
    return by < begin + width - lane ? lane + by : lane;
  return (lane ^ by) < begin + width ? lane ^ by : lane;
}

static uint32_t reduce(enum emulate_warp_kind kind, uint32_t a, uint32_t b) {
  switch (kind) {
  case EMULATE_REDUCE_AND: return a & b;
  case EMULATE_REDUCE_OR: return a | b;
  case EMULATE_REDUCE_XOR: return a ^ b;
  case EMULATE_REDUCE_MIN_U: return a < b ? a : b;
  case EMULATE_REDUCE_MAX_U: return a > b ? a : b;
  case EMULATE_REDUCE_MIN_S: return (int32_t)a < (int32_t)b ? a : b;
  case EMULATE_REDUCE_MAX_S: return (int32_t)a > (int32_t)b ? a : b;
  default: return a + b;
  }
}

static inline uint64_t shuffled(const struct strand *lanes, unsigned count, const struct strand *strand) {
  unsigned from = source(strand->kind, strand, strand->self.linear % EMULATE_WARP);
  bool takes_part = (strand->mask >> from & 1) && is_there(&lanes[from], from, count);
  return takes_part ? lanes[from].value : 0xcdcdcdcdcdcdcdcdu; /* undefined */
}

/* A whole warp, of which each lane reads from one that is there: most shuffles. */
static inline void shuffle_all(struct strand *lanes, enum emulate_warp_kind kind) {
  for (unsigned i = 0; i < EMULATE_WARP; i++)
    lanes[i].result = lanes[source(kind, &lanes[i], i)].value;
}

static void shuffle(struct strand *lanes, unsigned count, enum emulate_warp_kind kind, uint32_t there) {
  if (there != UINT32_MAX)
    for (; there; there &= there - 1) {
      struct strand *strand = &lanes[__builtin_ctz(there)];
      strand->result = shuffled(lanes, count, strand);
    }
  else if (kind == EMULATE_SHFL) /* with constants, the loops have no branches */
    shuffle_all(lanes, EMULATE_SHFL);
  else if (kind == EMULATE_SHFL_UP)
    shuffle_all(lanes, EMULATE_SHFL_UP);
  else if (kind == EMULATE_SHFL_DOWN)
    shuffle_all(lanes, EMULATE_SHFL_DOWN);
  else
    shuffle_all(lanes, EMULATE_SHFL_XOR);
}

/* The result of a vote, a reduction or a match. */
static uint64_t result_of(const struct strand *lanes, unsigned count, const struct strand *strand) {
  uint64_t result = 0;
  bool any = false;
  for (unsigned i = 0; i < count; i++) {
    if (!(strand->mask >> i & 1) || !is_there(&lanes[i], i, count))
      continue;
    if (strand->kind == EMULATE_BALLOT)
      result |= (lanes[i].value & 1) << i;
    else if (strand->kind == EMULATE_MATCH_ANY)
      result |= (uint64_t)(lanes[i].value == strand->value) << i;
    else
      result = any ? reduce(strand->kind, (uint32_t)result, (uint32_t)lanes[i].value) : lanes[i].value;
    any = true;
  }
  return result;
}

static unsigned lanes_of(const struct strand *strand, struct strand **lanes) {
  unsigned first = strand->self.linear / EMULATE_WARP * EMULATE_WARP, count = runner.threads - first;
  *lanes = &strand->self.home->strands[first];
  return count < EMULATE_WARP ? count : EMULATE_WARP;
}

/* Gives all lanes of the operation their results, and releases them. A vote or reduction gives all the same. */
static void finish(struct strand *lanes, unsigned count, const struct strand *strand) {
  enum emulate_warp_kind kind = strand->kind;
  uint32_t there = 0;
  for (unsigned i = 0; i < count; i++)
    there |= (uint32_t)(lanes[i].state == AT_WARP) << i;
  there &= strand->mask;
  if (kind <= EMULATE_SHFL_XOR)
    shuffle(lanes, count, kind, there);
  else {
    uint64_t same = kind == EMULATE_MATCH_ANY ? 0 : result_of(lanes, count, strand);
    for (uint32_t left = there; left; left &= left - 1) {
      struct strand *lane = &lanes[__builtin_ctz(left)];
      lane->result = kind == EMULATE_MATCH_ANY ? result_of(lanes, count, lane) : same;
    }
  }
  strand->self.home->at_warp -= (unsigned)__builtin_popcount(there);
  for (; there; there &= there - 1)
    strand_release(&lanes[__builtin_ctz(there)]);
}

static void __attribute__((noinline, cold)) refuse(const struct strand *strand, const char *why) {
  char text[256];
  strand_describe(text, sizeof text, strand);
  standin_die("kernel '%s': %s\n  %s", runner.launch->kernel->name, why, text);
}

EMULATE_API uint64_t emulate_warp(enum emulate_warp_kind kind, uint32_t mask, uint64_t value, unsigned argument,
                                  unsigned width, const char *file, int line) {
  struct strand *strand = strand_self(), *lanes;
  unsigned count = lanes_of(strand, &lanes);
  strand_wait(strand, AT_WARP, file, line);
  strand->self.home->at_warp++;
  strand->kind = kind;
  strand->mask = mask;
  strand->value = value;
  strand->argument = argument;
  strand->width = width;
  bool known_width = width && width <= EMULATE_WARP && (width & (width - 1)) == 0;
  if (!known_width)
    refuse(strand, "the width of a shuffle is not a power of two");
  if (!(mask >> strand->self.linear % EMULATE_WARP & 1))
    refuse(strand, "a lane is not in its own mask");
  if (is_complete(lanes, count, strand))
    finish(lanes, count, strand); /* itself, too: it is the last of those that are ready */
  strand_go_on(strand->fibre);
  return strand->result;
}

void warp_returned(struct strand *strand) {
  struct strand *lanes;
  unsigned count = lanes_of(strand, &lanes);
  for (unsigned i = 0; i < count && strand->self.home->at_warp; i++)
    if (lanes[i].state == AT_WARP && is_complete(lanes, count, &lanes[i]))
      finish(lanes, count, &lanes[i]);
}
