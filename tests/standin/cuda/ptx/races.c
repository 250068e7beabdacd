/* SPDX-License-Identifier: BSD-3-Clause
 * Races: two threads access the same bytes, one of them writes, not both by strong operations (atomics, volatile,
 * relaxed, acquire), and nothing orders them. Each word has its last write and last read.
 *
 * What orders accesses: a barrier of the block; a barrier of the warp, and for a read of global memory before a write
 * anything that the whole warp does together; a fence or release, a strong write, a strong read of the same word, and a
 * fence or acquire. The latter is kept as knowledge: for each block, how far its accesses come before. A lane's
 * knowledge becomes its warp's at the warp's next barrier, and its block's at the block's.
 *
 * It forgets: earlier reads behind the last, and bytes of a word behind those of the last access. So it may miss a
 * race.
 */
#include "tests/standin/cuda/ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

enum { WORD = 4, PAGE_WORDS = 1024, SYNC_BUCKETS = 1024, SEVERAL = 0xffff };

/* When an access was: barriers of the block, barriers of the warp, and releases of the block, that came before. */
struct ptx_when {
  uint32_t block; /* its number and one; 0: there was none */
  uint32_t epoch, tick, clock;
  uint16_t thread;      /* SEVERAL: of several warps */
  uint8_t bytes, lanes; /* bytes: of the word, a bit each; lanes: several of that warp */
};

struct ptx_cell {
  struct ptx_when written, read;
  uint8_t strong, defined;
};

/* What comes before, of a block: epochs below this one; of that warp, ticks below this one; of that thread, clocks up
 * to this one. */
struct ptx_known {
  uint32_t epoch, tick, clock;
  uint16_t thread;
  bool any;
};

struct sync_word {
  const void *at;
  struct ptx_known *known;
  struct sync_word *next;
};

struct ptx_races {
  struct ptx_cell ***pages; /* of each range */
  struct sync_word *words[SYNC_BUCKETS];
  uint64_t blocks;
};

static void *cleared(size_t count, size_t size) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory)
    ptx_refuse("no memory to look for races");
  return memory;
}

/* -- knowledge ----------------------------------------------------------------------------------------------------- */
static struct ptx_known *more_known(const struct ptx_machine *m, struct ptx_known **known) {
  if (!*known)
    *known = cleared(m->races->blocks, sizeof **known);
  return *known;
}

static void learn(const struct ptx_machine *m, struct ptx_known **known, const struct ptx_known *from) {
  if (!from)
    return;
  struct ptx_known *to = more_known(m, known);
  for (uint64_t k = 0; k < m->races->blocks; k++)
    if (from[k].any &&
        (!to[k].any || from[k].epoch > to[k].epoch || (from[k].epoch == to[k].epoch && from[k].clock > to[k].clock)))
      to[k] = from[k];
}

static void forget_known(struct ptx_known **known) {
  free(*known);
  *known = NULL;
}

static bool covers(const struct ptx_known *known, const struct ptx_when *when) {
  const struct ptx_known *k = known ? &known[when->block - 1] : NULL;
  if (!k || !k->any)
    return false;
  if (when->epoch < k->epoch)
    return true;
  if (when->epoch > k->epoch || when->thread == SEVERAL)
    return false;
  if (when->thread / LANES == k->thread / LANES && when->tick < k->tick)
    return true;
  return when->thread == k->thread && !when->lanes && when->clock <= k->clock;
}

static bool comes_before(const struct ptx_warp *w, unsigned lane, const struct ptx_when *when, uint32_t tick) {
  const struct ptx_block *b = w->block;
  if (when->block == b->linear + 1) {
    if (when->epoch < b->epoch || (when->thread == w->index * LANES + lane && !when->lanes))
      return true;
    if (when->thread != SEVERAL && when->thread / LANES == w->index && when->tick < tick)
      return true;
  }
  return covers(b->known, when) || covers(w->known, when) || covers(w->lane_known[lane], when);
}

/* All that the lane knows, and what it did itself. */
static void snapshot(struct ptx_warp *w, unsigned lane, struct ptx_known **to) {
  struct ptx_block *b = w->block;
  const struct ptx_machine *m = b->machine;
  learn(m, to, b->known);
  learn(m, to, w->known);
  learn(m, to, w->lane_known[lane]);
  more_known(m, to)[b->linear] =
    (struct ptx_known){b->epoch, w->tick, b->clock++, (uint16_t)(w->index * LANES + lane), true};
}

static struct sync_word *find_sync(struct ptx_races *r, const void *at, bool make) {
  struct sync_word **bucket = &r->words[(uintptr_t)at / WORD % SYNC_BUCKETS];
  for (struct sync_word *s = *bucket; s; s = s->next)
    if (s->at == at)
      return s;
  if (!make)
    return NULL;
  struct sync_word *s = cleared(1, sizeof *s);
  *s = (struct sync_word){at, NULL, *bucket};
  return *bucket = s;
}

void ptx_races_fence(struct ptx_warp *w, const struct ptx_ins *i) {
  if (!i->strong) /* of the block alone: its barriers are enough for us */
    return;
  PTX_EACH(lane, w->mask) {
    learn(w->block->machine, &w->lane_known[lane], w->pending[lane]);
    learn(w->block->machine, &w->lane_known[lane], w->block->pending);
    forget_known(&w->pending[lane]);
    forget_known(&w->released[lane]);
    snapshot(w, lane, &w->released[lane]);
  }
  w->fenced |= w->mask;
}

/* A strong access to a word of global memory. */
static void synchronise(struct ptx_warp *w, const struct ptx_ins *i, unsigned lane, const void *at) {
  struct ptx_machine *m = w->block->machine;
  struct sync_word *s = find_sync(m->races, at, false);
  if (i->op != PTX_STORE && s)
    learn(m, i->acquires ? &w->lane_known[lane] : &w->pending[lane], s->known);
  if (i->op == PTX_LOAD || (!i->releases && !w->released[lane] && !w->block->released))
    return;
  s = s ? s : find_sync(m->races, at, true);
  if (i->releases) {
    struct ptx_known *now = NULL;
    snapshot(w, lane, &now);
    learn(m, &s->known, now);
    free(now);
  } else {
    learn(m, &s->known, w->block->released);
    learn(m, &s->known, w->released[lane]);
  }
}

/* -- barriers ------------------------------------------------------------------------------------------------------ */
void ptx_races_together(struct ptx_warp *w, const struct ptx_ins *i) {
  if (w->mask != (w->exists & ~w->returned))
    return;
  w->any_tick++;
  if (i->op != PTX_WARP_BARRIER)
    return;
  w->tick++;
  for (unsigned lane = 0; lane < LANES; lane++) {
    learn(w->block->machine, &w->known, w->lane_known[lane]);
    forget_known(&w->lane_known[lane]);
  }
}

/* All threads passed a fence, and a barrier then: a strong write of any of them releases what all did before. So do the
 * examples of CUDA; its memory model would like the fence behind the barrier. */
static void release_block(struct ptx_block *b) {
  const struct ptx_machine *m = b->machine;
  for (unsigned k = 0; k < m->warps; k++)
    if (b->warps[k].exists & ~b->warps[k].returned & ~b->warps[k].fenced)
      return;
  learn(m, &b->released, b->known);
  more_known(m, &b->released)[b->linear] = (struct ptx_known){b->epoch + 1, 0, b->clock++, SEVERAL, true};
}

void ptx_races_barrier(struct ptx_block *b) {
  const struct ptx_machine *m = b->machine;
  release_block(b);
  b->epoch++;
  for (unsigned k = 0; k < m->warps; k++) {
    struct ptx_warp *w = &b->warps[k];
    w->tick++;
    w->any_tick++;
    w->fenced = 0;
    learn(m, &b->known, w->known);
    forget_known(&w->known);
    for (unsigned lane = 0; lane < LANES; lane++) {
      learn(m, &b->known, w->lane_known[lane]);
      forget_known(&w->lane_known[lane]);
      learn(m, &b->pending, w->pending[lane]);
    }
  }
}

void ptx_races_begin_block(struct ptx_block *b) {
  const struct ptx_machine *m = b->machine;
  if (!b->cells)
    b->cells = cleared(m->shared / WORD + 1, sizeof *b->cells);
  memset(b->cells, 0, (m->shared / WORD + 1) * sizeof *b->cells);
  b->epoch = b->clock = 1;
  forget_known(&b->known);
  forget_known(&b->pending);
  forget_known(&b->released);
  for (unsigned k = 0; k < m->warps; k++) {
    struct ptx_warp *w = &b->warps[k];
    w->tick = w->any_tick = 1;
    w->fenced = 0;
    forget_known(&w->known);
    for (unsigned lane = 0; lane < LANES; lane++) {
      forget_known(&w->lane_known[lane]);
      forget_known(&w->pending[lane]);
      forget_known(&w->released[lane]);
    }
  }
}

void ptx_races_end_block(struct ptx_block *b) {
  ptx_races_begin_block(b);
  free(b->cells);
  b->cells = NULL;
}

/* -- launches ------------------------------------------------------------------------------------------------------ */
static size_t pages_in(const struct ptx_range *r) { return (r->size / WORD + 2) / PAGE_WORDS + 1; }

void ptx_races_begin(struct ptx_machine *m) {
  m->races = cleared(1, sizeof *m->races);
  m->races->blocks = (uint64_t)m->launch->grid.x * m->launch->grid.y * m->launch->grid.z;
  m->races->pages = cleared(m->count, sizeof *m->races->pages);
}

void ptx_races_end(struct ptx_machine *m) {
  struct ptx_races *r = m->races;
  for (unsigned k = 0; k < m->count; k++) {
    for (size_t p = 0; r->pages[k] && p < pages_in(&m->ranges[k]); p++)
      free(r->pages[k][p]);
    free(r->pages[k]);
  }
  for (unsigned k = 0; k < SYNC_BUCKETS; k++)
    for (struct sync_word *s = r->words[k], *next; s; s = next) {
      next = s->next;
      free(s->known);
      free(s);
    }
  free(r->pages);
  free(r);
}

/* -- accesses ------------------------------------------------------------------------------------------------------ */
static struct ptx_cell *cell_of(struct ptx_block *b, uintptr_t word, bool shared) {
  struct ptx_machine *m = b->machine;
  if (shared)
    return &b->cells[(word - (uintptr_t)b->shared) / WORD];
  const struct ptx_range *range = &m->ranges[m->last];
  for (unsigned k = 0; k < m->last; k++) /* one buffer may be several parameters */
    if (m->ranges[k].begin == range->begin)
      range = &m->ranges[k];
  struct ptx_cell ***pages = &m->races->pages[range - m->ranges];
  size_t at = word / WORD - range->begin / WORD;
  if (!*pages)
    *pages = cleared(pages_in(range), sizeof **pages);
  struct ptx_cell **page = &(*pages)[at / PAGE_WORDS];
  if (!*page)
    *page = cleared(PAGE_WORDS, sizeof **page);
  return &(*page)[at % PAGE_WORDS];
}

static void note(struct ptx_when *to, const struct ptx_when *now) {
  bool same_time =
    to->block == now->block && to->epoch == now->epoch && to->thread != now->thread && (to->bytes & now->bytes);
  uint16_t before = to->thread;
  bool lanes = to->lanes;
  *to = *now;
  if (!same_time)
    return;
  if (before == SEVERAL || before / LANES != now->thread / LANES)
    to->thread = SEVERAL;
  else
    to->lanes = 1;
  to->lanes |= lanes && before / LANES == now->thread / LANES;
}

static void look_at(struct ptx_warp *w, const struct ptx_ins *i, unsigned lane, struct ptx_cell *c, uint8_t bytes,
                    bool shared) {
  const struct ptx_block *b = w->block;
  bool writes = i->op != PTX_LOAD, strong = i->strong || i->op == PTX_ATOMIC;
  const char *where = shared ? "shared" : "global";
  if (c->written.block && (c->written.bytes & bytes) && !(strong && c->strong) &&
      !comes_before(w, lane, &c->written, w->tick))
    ptx_finding(w, i, lane, "a race in %s memory: %s what thread %u of block %u wrote, and nothing orders them", where,
                writes ? "writes over" : "reads", c->written.thread, c->written.block - 1);
  if (writes && c->read.block && (c->read.bytes & bytes) &&
      !comes_before(w, lane, &c->read, shared ? w->tick : w->any_tick))
    ptx_finding(w, i, lane, "a race in %s memory: writes what thread %u of block %u reads, and nothing orders them",
                where, c->read.thread, c->read.block - 1);
  struct ptx_when now = {(uint32_t)b->linear + 1,
                         b->epoch,
                         writes || shared ? w->tick : w->any_tick,
                         b->clock,
                         (uint16_t)(w->index * LANES + lane),
                         bytes,
                         0};
  if (writes) {
    c->written = now;
    c->strong = strong;
    c->defined |= bytes;
    if (!strong)
      c->read.block = 0;
  } else if (!strong)
    note(&c->read, &now);
}

bool ptx_races_access(struct ptx_warp *w, const struct ptx_ins *i, unsigned lane, const void *at) {
  struct ptx_block *b = w->block;
  uintptr_t begin = (uintptr_t)at, end = begin + (unsigned)i->bytes * i->vector;
  bool shared = begin - (uintptr_t)b->shared < b->machine->shared, defined = true;
  bool strong = i->strong || i->op == PTX_ATOMIC;
  if (strong && !shared)
    synchronise(w, i, lane, at);
  if (!shared && i->op != PTX_LOAD && !strong)
    w->fenced &= ~(1u << lane);
  for (uintptr_t word = begin / WORD * WORD; word < end; word += WORD) {
    struct ptx_cell *c = cell_of(b, word, shared);
    unsigned first = word < begin ? (unsigned)(begin - word) : 0,
             last = end - word < WORD ? (unsigned)(end - word) : WORD;
    uint8_t bytes = (uint8_t)(((1u << last) - 1) & ~((1u << first) - 1));
    defined &= !shared || i->op == PTX_STORE || (c->defined & bytes) == bytes;
    look_at(w, i, lane, c, bytes, shared);
  }
  return defined;
}

void ptx_races_undefined(struct ptx_warp *w, const struct ptx_ins *i, const void *at) {
  uintptr_t begin = (uintptr_t)at, end = begin + (unsigned)i->bytes * i->vector;
  for (uintptr_t word = begin / WORD * WORD; word < end; word += WORD)
    cell_of(w->block, word, true)->defined = 0;
}
