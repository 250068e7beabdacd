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

enum { WORD = 4, PAGE_WORDS = 1024, SYNC_BUCKETS = 1024, SEVERAL = 0xff, NO_THREAD = 0xffff };

/* A time of a warp: barriers of the block, barriers of the warp, and releases of the block, that came before. Cells
 * name it by its number, as there are many cells. */
struct moment {
  uint32_t block; /* its number and one; 0: never, which is the moment 0 */
  uint32_t epoch, tick, clock, warp;
};

/* When an access was. */
struct ptx_when {
  uint32_t moment;
  uint8_t lane, bytes;             /* lane: SEVERAL: of several warps; bytes: of the word, a bit each */
  bool lanes;                      /* several of that warp */
  uint8_t strong : 1, defined : 4; /* of what was written: by a strong operation; bytes that are defined */
};

struct ptx_cell {
  struct ptx_when written, read;
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
  struct moment *moments;
  uint32_t count, room;
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
  if (*known)
    free(*known);
  *known = NULL;
}

static inline bool covers(const struct ptx_known *known, const struct moment *t, const struct ptx_when *when) {
  const struct ptx_known *k = known ? &known[t->block - 1] : NULL;
  if (!k || !k->any)
    return false;
  if (t->epoch < k->epoch)
    return true;
  if (t->epoch > k->epoch || when->lane == SEVERAL)
    return false;
  if (t->warp == k->thread / LANES && t->tick < k->tick)
    return true;
  return t->warp * LANES + when->lane == k->thread && !when->lanes && t->clock <= k->clock;
}

static inline bool comes_before(const struct ptx_warp *w, unsigned lane, const struct ptx_when *when, uint32_t tick) {
  const struct ptx_block *b = w->block;
  const struct moment *t = &b->machine->races->moments[when->moment];
  if (t->block == b->linear + 1) {
    if (t->epoch < b->epoch)
      return true;
    if (t->warp == w->index && when->lane != SEVERAL && (t->tick < tick || (when->lane == lane && !when->lanes)))
      return true;
  }
  return covers(b->known, t, when) || covers(w->known, t, when) || covers(w->lane_known[lane], t, when);
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
  w->knows = true;
  PTX_EACH(lane, w->mask) {
    learn(w->block->machine, &w->lane_known[lane], w->pending[lane]);
    learn(w->block->machine, &w->lane_known[lane], w->block->pending);
    forget_known(&w->pending[lane]);
    forget_known(&w->released[lane]);
    snapshot(w, lane, &w->released[lane]);
  }
}

/* A strong access to a word of global memory. */
static void synchronise(struct ptx_warp *w, const struct ptx_ins *i, unsigned lane, const void *at) {
  struct ptx_machine *m = w->block->machine;
  struct sync_word *s = find_sync(m->races, at, false);
  w->knows = true;
  if (i->op != PTX_STORE && s)
    learn(m, i->acquires ? &w->lane_known[lane] : &w->pending[lane], s->known);
  if (i->op == PTX_LOAD || (!i->releases && !w->released[lane]))
    return;
  s = s ? s : find_sync(m->races, at, true);
  if (i->releases) {
    struct ptx_known *now = NULL;
    snapshot(w, lane, &now);
    learn(m, &s->known, now);
    free(now);
  } else {
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
  for (unsigned lane = 0; lane < LANES && w->knows; lane++) {
    learn(w->block->machine, &w->known, w->lane_known[lane]);
    forget_known(&w->lane_known[lane]);
  }
}

void ptx_races_barrier(struct ptx_block *b) {
  const struct ptx_machine *m = b->machine;
  b->epoch++;
  for (unsigned k = 0; k < m->warps; k++) {
    struct ptx_warp *w = &b->warps[k];
    w->tick++;
    w->any_tick++;
    learn(m, &b->known, w->known);
    forget_known(&w->known);
    for (unsigned lane = 0; lane < LANES && w->knows; lane++) {
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
  b->epoch = b->clock = 1;
  b->first_moment = m->races->count;
  forget_known(&b->known);
  forget_known(&b->pending);
  for (unsigned k = 0; k < m->warps; k++) {
    struct ptx_warp *w = &b->warps[k];
    w->tick = w->any_tick = 1;
    w->moments[0] = w->moments[1] = 0;
    forget_known(&w->known);
    for (unsigned lane = 0; lane < LANES && w->knows; lane++) {
      forget_known(&w->lane_known[lane]);
      forget_known(&w->pending[lane]);
      forget_known(&w->released[lane]);
    }
    w->knows = false;
  }
}

void ptx_races_end_block(struct ptx_block *b) {
  ptx_races_begin_block(b);
  free(b->cells);
  b->cells = NULL;
}

/* -- launches ------------------------------------------------------------------------------------------------------ */
/* Pages are large: this thread keeps them for the next launch. */
static _Thread_local union page {
  union page *next;
  struct ptx_cell cells[PAGE_WORDS];
} * kept;

static struct ptx_cell *take_page(void) {
  union page *page = kept;
  if (!page)
    return cleared(1, sizeof *page);
  kept = page->next;
  return memset(page, 0, sizeof *page);
}

static void keep_page(struct ptx_cell *cells) {
  union page *page = (void *)cells;
  page->next = kept;
  kept = page;
}

void ptx_races_end_thread(void) {
  for (union page *page; (page = kept); free(page))
    kept = page->next;
}

static size_t pages_in(const struct ptx_range *r) { return (r->size / WORD + 2) / PAGE_WORDS + 1; }

static uint32_t new_moment(struct ptx_races *r, const struct moment *t) {
  if (r->count == r->room) {
    r->room = r->room ? 2 * r->room : 256;
    r->moments = realloc(r->moments, r->room * sizeof *r->moments);
    if (!r->moments)
      ptx_refuse("no memory to look for races");
  }
  r->moments[r->count] = *t;
  return r->count++;
}

void ptx_races_begin(struct ptx_machine *m) {
  m->races = cleared(1, sizeof *m->races);
  m->races->blocks = (uint64_t)m->launch->grid.x * m->launch->grid.y * m->launch->grid.z;
  m->races->pages = cleared(m->count, sizeof *m->races->pages);
  new_moment(m->races, &(struct moment){.block = 0});
}

void ptx_races_end(struct ptx_machine *m) {
  struct ptx_races *r = m->races;
  for (unsigned k = 0; k < m->count; k++) {
    for (size_t p = 0; r->pages[k] && p < pages_in(&m->ranges[k]); p++)
      if (r->pages[k][p])
        keep_page(r->pages[k][p]);
    free(r->pages[k]);
  }
  for (unsigned k = 0; k < SYNC_BUCKETS; k++)
    for (struct sync_word *s = r->words[k], *next; s; s = next) {
      next = s->next;
      free(s->known);
      free(s);
    }
  free(r->pages);
  free(r->moments);
  free(r);
}

/* -- accesses ------------------------------------------------------------------------------------------------------ */
/* The cells of some bytes that follow one another. */
struct cells {
  uintptr_t begin;
  size_t bytes;
  struct ptx_cell *first;
};

/* Of global memory: those of the word's page, as far as its buffer goes. */
static struct cells global_cells(struct ptx_machine *m, uintptr_t word) {
  const struct ptx_range *range = ptx_find_range(m, word, 1);
  if (!range) /* a word that begins before its buffer */
    range = &m->ranges[m->last];
  for (unsigned k = 0; k < m->last; k++) /* one buffer may be several parameters */
    if (m->ranges[k].begin == range->begin)
      range = &m->ranges[k];
  struct ptx_cell ***pages = &m->races->pages[range - m->ranges];
  uintptr_t first = range->begin / WORD;
  size_t page = (word / WORD - first) / PAGE_WORDS;
  if (!*pages)
    *pages = cleared(pages_in(range), sizeof **pages);
  if (!(*pages)[page])
    (*pages)[page] = take_page();
  uintptr_t begin = (first + page * PAGE_WORDS) * WORD;
  size_t left = range->begin + range->size - begin, bytes = PAGE_WORDS * WORD;
  return (struct cells){begin, left < bytes ? left : bytes, (*pages)[page]};
}

/* The warp's moment, as far as others count its barriers, or all that it does together. */
static inline uint32_t moment_now(struct ptx_warp *w, bool any) {
  const struct ptx_block *b = w->block;
  struct ptx_races *r = b->machine->races;
  const struct moment *last = &r->moments[w->moments[any]];
  uint32_t tick = any ? w->any_tick : w->tick;
  if (!last->block || last->epoch != b->epoch || last->tick != tick || last->clock != b->clock)
    w->moments[any] = new_moment(r, &(struct moment){(uint32_t)b->linear + 1, b->epoch, tick, b->clock, w->index});
  return w->moments[any];
}

/* A read. Others at the same time are kept in mind, but not which they were. */
static inline void note(const struct ptx_warp *w, struct ptx_when *to, const struct ptx_when *now) {
  if (!to->moment) {
    *to = *now;
    return;
  }
  const struct ptx_block *b = w->block;
  const struct moment *t = &b->machine->races->moments[to->moment];
  bool same_warp = t->warp == w->index && to->lane != SEVERAL;
  bool same_time = t->block == b->linear + 1 && t->epoch == b->epoch && (to->bytes & now->bytes) &&
                   !(same_warp && to->lane == now->lane);
  *to = *now;
  if (same_time && same_warp)
    to->lanes = true;
  else if (same_time)
    to->lane = SEVERAL;
}

static void found(const struct ptx_warp *w, const struct ptx_ins *i, unsigned lane, const struct ptx_when *when,
                  bool shared, const char *does, const char *did) {
  const struct moment *t = &w->block->machine->races->moments[when->moment];
  ptx_finding(w, i, lane, "a race in %s memory: %s what thread %u of block %u %s, and nothing orders them",
              shared ? "shared" : "global", does, when->lane == SEVERAL ? NO_THREAD : t->warp * LANES + when->lane,
              t->block - 1, did);
}

/* Findings about an access of these bytes of a word, and what the cell knows of it then. */
static inline __attribute__((always_inline)) void look_at(struct ptx_warp *w, const struct ptx_ins *i, unsigned lane,
                                                          struct ptx_cell *c, const struct ptx_when *now, bool writes,
                                                          bool shared) {
  if (c->written.moment && (c->written.bytes & now->bytes) && !(now->strong && c->written.strong) &&
      !comes_before(w, lane, &c->written, w->tick))
    found(w, i, lane, &c->written, shared, writes ? "writes over" : "reads", "wrote");
  if (writes && c->read.moment && (c->read.bytes & now->bytes) &&
      !comes_before(w, lane, &c->read, shared ? w->tick : w->any_tick))
    found(w, i, lane, &c->read, shared, "writes", "reads");
  if (writes) {
    unsigned defined = c->written.defined | now->bytes;
    c->written = *now;
    c->written.defined = defined & 15;
    if (!now->strong)
      c->read.moment = 0;
  } else if (!now->strong)
    note(w, &c->read, now);
}

static uint8_t bytes_of_word(uintptr_t word, uintptr_t begin, uintptr_t end) {
  unsigned first = word < begin ? (unsigned)(begin - word) : 0,
           last = end - word < WORD ? (unsigned)(end - word) : WORD;
  return (uint8_t)(((1u << last) - 1) & ~((1u << first) - 1));
}

/* Shared memory begins anew with each block. False: some of these bytes were not written since. */
static inline bool was_written(const struct ptx_block *b, struct ptx_cell *c, uint8_t bytes) {
  if (c->written.moment < b->first_moment)
    c->written = (struct ptx_when){.moment = 0};
  if (c->read.moment < b->first_moment)
    c->read.moment = 0;
  return (c->written.defined & bytes) == bytes;
}

/* With constants for `writes` and `shared`, as much of the interpreter's time goes here. */
static inline __attribute__((always_inline)) uint32_t look_at_all(struct ptx_warp *w, const struct ptx_ins *i,
                                                                  char *const *at, uint32_t lanes, bool writes,
                                                                  bool shared) {
  struct ptx_block *b = w->block;
  bool strong = i->strong || i->op == PTX_ATOMIC;
  struct cells cells = {(uintptr_t)b->shared, shared ? b->machine->shared : 0, b->cells};
  struct ptx_when now = {.moment = moment_now(w, !writes && !shared), .strong = strong};
  uint32_t unwritten = 0;
  PTX_EACH(lane, lanes) {
    if (strong && !shared) {
      synchronise(w, i, lane, at[lane]);
      now.moment = moment_now(w, !writes);
    }
    uintptr_t begin = (uintptr_t)at[lane], end = begin + (unsigned)i->bytes * i->vector;
    now.lane = (uint8_t)lane;
    for (uintptr_t word = begin / WORD * WORD; word < end; word += WORD) {
      now.bytes = i->bytes >= WORD ? 15 : bytes_of_word(word, begin, end);
      if (!shared && word - cells.begin >= cells.bytes)
        cells = global_cells(b->machine, word);
      struct ptx_cell *c = &cells.first[(word - cells.begin) / WORD];
      if (shared && !was_written(b, c, now.bytes))
        unwritten |= 1u << lane;
      look_at(w, i, lane, c, &now, writes, shared);
    }
  }
  return unwritten;
}

uint32_t ptx_races_access(struct ptx_warp *w, const struct ptx_ins *i, char *const *at, uint32_t lanes, bool shared) {
  const bool writes = i->op != PTX_LOAD;
  uint32_t unwritten = writes
                         ? shared ? look_at_all(w, i, at, lanes, true, true) : look_at_all(w, i, at, lanes, true, false)
                       : shared ? look_at_all(w, i, at, lanes, false, true)
                                : look_at_all(w, i, at, lanes, false, false);
  return i->op == PTX_STORE ? 0 : unwritten;
}

void ptx_races_undefined(struct ptx_warp *w, const struct ptx_ins *i, const void *at) {
  uintptr_t begin = (uintptr_t)at, end = begin + (unsigned)i->bytes * i->vector, base = (uintptr_t)w->block->shared;
  for (uintptr_t word = begin / WORD * WORD; word < end; word += WORD)
    w->block->cells[(word - base) / WORD].written.defined &= ~bytes_of_word(word, begin, end) & 15;
}
