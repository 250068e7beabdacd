/* SPDX-License-Identifier: BSD-3-Clause
 * Runs the blocks of a launch. The lanes of a warp that are at one instruction are a part of it. Usually the part that
 * is furthest behind goes on, until it meets another: then both are one. With a seed, parts, warps and blocks take
 * turns at random, and four blocks are alive at once.
 *
 * If nobody can go on, or nothing has changed for very many instructions, that is a finding, which ends the process.
 */
#include "tests/standin/cuda/ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 100000, TURN = 64, PATTERN = 0xcd };
#define MOST_IDLE UINT64_C(50000000)

static uint64_t draw(struct ptx_machine *m) { return m->random = standin_mix(m->random); }

static bool meet(const struct ptx_part *a, const struct ptx_part *b) {
  return a->pc == b->pc && a->depth == b->depth && a->state != PTX_AT_BARRIER && b->state != PTX_AT_BARRIER &&
         memcmp(a->returns, b->returns, a->depth * sizeof *a->returns) == 0;
}

/* Joins parts that have met: their lanes go on together. */
static void join_parts(struct ptx_warp *w) {
  for (unsigned a = 0; a < w->count; a++)
    for (unsigned b = a + 1; b < w->count;)
      if (meet(&w->parts[a], &w->parts[b])) {
        w->parts[a].mask |= w->parts[b].mask;
        w->parts[a].state = PTX_RUNS;
        w->parts[b] = w->parts[--w->count];
      } else
        b++;
}

static void take_part(struct ptx_warp *w, uint32_t mask) {
  if (mask == w->mask)
    return;
  w->mask = mask;
  for (unsigned lane = 0; lane < LANES; lane++)
    w->on[lane] = mask & ptx_bits[lane] ? UINT32_MAX : 0;
}

/* -- barriers ------------------------------------------------------------------------------------------------------ */
static uint32_t gathered(const struct ptx_block *b, enum ptx_how how) {
  return how == PTX_OR ? b->gathered_or : how == PTX_AND ? b->gathered_and : b->gathered_count;
}

static void let_go(struct ptx_block *b) {
  const struct ptx_machine *m = b->machine;
  for (unsigned k = 0; k < m->warps; k++) {
    struct ptx_warp *w = &b->warps[k];
    uint32_t at = UINT32_MAX;
    for (unsigned p = 0; p < w->count; p++) {
      struct ptx_part *part = &w->parts[p];
      const struct ptx_ins *i = &m->module->code[part->pc];
      if (at != UINT32_MAX && part->pc != at)
        ptx_finding(w, i, (unsigned)__builtin_ctz(part->mask), "lanes of one warp are at different barriers");
      at = part->pc;
      take_part(w, part->mask);
      if (i->targets) {
        PTX_EACH(lane, part->mask) ptx_put(w, i->to[0], lane, gathered(b, (enum ptx_how)i->how));
        ptx_define(w, i->to[0], UINT32_MAX);
      }
      part->pc++;
      part->state = PTX_RUNS;
    }
    join_parts(w);
  }
  b->waiting = b->gathered_or = b->gathered_count = 0;
  b->gathered_and = 1;
  b->machine->idle = 0;
  ptx_races_barrier(b);
}

static void arrive(struct ptx_warp *w, struct ptx_part *part, const struct ptx_ins *i) {
  struct ptx_block *b = w->block;
  part->state = PTX_AT_BARRIER;
  if (i->sources) {
    uint32_t values = ptx_truths(w, i->from[0]) & part->mask;
    ptx_check_defined(w, i, i->from[0], "what a thread brings to the barrier");
    b->gathered_or |= values != 0;
    b->gathered_and &= values == part->mask;
    b->gathered_count += (uint32_t)__builtin_popcount(values);
  }
  b->waiting += (uint32_t)__builtin_popcount(part->mask);
  if (b->returned)
    ptx_finding(w, i, (unsigned)__builtin_ctz(part->mask), "%u threads of the block returned before this barrier",
                b->returned);
  if (b->waiting + b->returned == b->machine->threads)
    let_go(b);
}

/* -- instructions -------------------------------------------------------------------------------------------------- */
/* Halves have 16 or 32 bits. */
static void unpack(struct ptx_warp *w, const struct ptx_ins *i) {
  const void *from = ptx_row(w, i->from[0]);
  row32 halves[2][LANES]; /* a target may be a half of the source's row */
  for (unsigned lane = 0; lane < LANES; lane++) {
    uint64_t value = i->bytes == 4 ? ((const row64 *)from)[lane] : ((const row32 *)from)[lane];
    halves[0][lane] = (uint32_t)(i->bytes == 4 ? value : value & UINT16_MAX);
    halves[1][lane] = (uint32_t)(i->bytes == 4 ? value >> 32 : value >> 16);
  }
  for (unsigned k = 0; k < 2; k++) {
    row32 *to = ptx_row(w, i->to[k]);
    if (!i->to[k].kind)
      continue;
    for (unsigned lane = 0; lane < LANES; lane++)
      to[lane] = w->on[lane] ? halves[k][lane] : to[lane];
    ptx_define(w, i->to[k], ptx_defined(w, i->from[0]));
  }
}

static void pack(struct ptx_warp *w, const struct ptx_ins *i) {
  const row32 *low = ptx_row(w, i->from[0]), *high = ptx_row(w, i->from[1]);
  void *to = ptx_row(w, i->to[0]);
  for (unsigned lane = 0; lane < LANES; lane++)
    if (i->bytes == 4)
      ((row64 *)to)[lane] = w->on[lane] ? low[lane] | (uint64_t)high[lane] << 32 : ((row64 *)to)[lane];
    else
      ((row32 *)to)[lane] = w->on[lane] ? low[lane] | high[lane] << 16 : ((row32 *)to)[lane];
  ptx_define(w, i->to[0], ptx_defined(w, i->from[0]) & ptx_defined(w, i->from[1]));
}

static void compute(struct ptx_warp *w, const struct ptx_ins *i) {
  const uint32_t *of = w->defined[0], *known = i->known;
  uint32_t defined = of[known[0]] & of[known[1]] & of[known[2]] & of[known[3]];
  if (i->picks) {
    uint32_t picked = ptx_truths(w, i->from[2]);
    defined = of[known[2]] & ((of[known[0]] & picked) | (of[known[1]] & ~picked));
  }
  i->run(w, i);
  ptx_define(w, i->to[0], defined);
}

static void leave(struct ptx_warp *w, struct ptx_part *part) {
  struct ptx_block *b = w->block;
  w->returned |= part->mask;
  b->returned += (uint32_t)__builtin_popcount(part->mask);
  b->machine->idle = 0;
  *part = w->parts[--w->count];
  for (unsigned k = 0; k < w->count; k++) /* some may have waited for these lanes alone */
    if (w->parts[k].state == PTX_AT_WARP)
      w->parts[k].state = PTX_RUNS;
  if (b->waiting && b->waiting + b->returned == b->machine->threads)
    let_go(b);
}

/* Lanes whose guard is false go on behind the instruction, as a part of their own. */
static void split(struct ptx_warp *w, struct ptx_part *part, uint32_t taken) {
  struct ptx_part *other = &w->parts[w->count++];
  *other = *part;
  other->mask &= ~taken;
  other->pc++;
  part->mask = taken;
}

/* One instruction of a part. False: it has to wait, or its turn is over. */
static bool step(struct ptx_warp *w, struct ptx_part *part) {
  struct ptx_machine *m = w->block->machine;
  const struct ptx_ins *i = &m->module->code[part->pc];
  uint32_t taken = part->mask;
  m->idle++;
  m->counts.instructions++;
  take_part(w, part->mask);
  if (i->guard.kind) {
    ptx_check_defined(w, i, i->guard, "the condition");
    taken &= i->guard_inverted ? ~ptx_truths(w, i->guard) : ptx_truths(w, i->guard);
    if (!taken) {
      part->pc++;
      return true;
    }
    if (i->op >= PTX_SHUFFLE && taken != part->mask) {
      split(w, part, taken);
      if (i->op != PTX_BRANCH && i->op != PTX_RETURN)
        return true;
    }
    take_part(w, taken);
  }
  switch (i->op) {
  case PTX_ARITHMETIC: compute(w, i); break;
  case PTX_PACK: pack(w, i); break;
  case PTX_UNPACK: unpack(w, i); break;
  case PTX_PARAMETER: ptx_read_parameter(w, i); break;
  case PTX_LOAD:
  case PTX_STORE:
  case PTX_ATOMIC: ptx_access(w, i); break;
  case PTX_BRANCH: part->pc = i->target; return true;
  case PTX_CALL:
    if (part->depth == MOST_RETURNS)
      ptx_refuse("%s: calls too deep", m->function->name);
    part->returns[part->depth++] = part->pc + 1;
    part->pc = i->target;
    return true;
  case PTX_RETURN:
    if (part->depth) {
      part->pc = part->returns[--part->depth];
      return true;
    }
    leave(w, part);
    return false;
  case PTX_BARRIER: arrive(w, part, i); return false;
  case PTX_SLEEP: part->pc++; return false;
  case PTX_FENCE: ptx_races_fence(w, i); break;
  default:
    if (!ptx_together(w, i)) {
      part->state = PTX_AT_WARP;
      return false;
    }
  }
  part->pc++;
  return true;
}

/* -- turns --------------------------------------------------------------------------------------------------------- */
static bool behind(const struct ptx_part *a, const struct ptx_part *b) {
  return a->depth != b->depth ? a->depth > b->depth : a->pc < b->pc;
}

/* The part whose turn it is; NULL: all wait. */
static struct ptx_part *choose_part(struct ptx_warp *w, bool fair) {
  struct ptx_machine *m = w->block->machine;
  struct ptx_part *chosen = NULL;
  unsigned first = m->random ? (unsigned)(draw(m) % w->count) : fair ? w->turn++ % w->count : 0;
  for (unsigned k = 0; k < w->count; k++) {
    struct ptx_part *part = &w->parts[(first + k) % w->count];
    if (part->state != PTX_RUNS)
      continue;
    if (m->random || fair)
      return part;
    if (!chosen || behind(part, chosen))
      chosen = part;
  }
  return chosen;
}

/* Whether the part has come as far as another one: they may have met. */
static bool has_caught_up(const struct ptx_warp *w, const struct ptx_part *part) {
  for (unsigned k = 0; k < w->count; k++) {
    const struct ptx_part *other = &w->parts[k];
    if (other != part && (other->state == PTX_RUNS ? !behind(part, other) : meet(part, other)))
      return true;
  }
  return false;
}

/* Runs parts of the warp. Returns whether anything was done. While nothing changes, its parts take turns: one may wait
 * for another. */
static bool run_warp(struct ptx_warp *w) {
  struct ptx_machine *m = w->block->machine;
  unsigned left = m->random ? 1 + (unsigned)(draw(m) % 400) : MOST_STEPS;
  bool done = false;
  while (left && w->count) {
    join_parts(w);
    bool fair = !m->random && m->idle > MOST_STEPS;
    struct ptx_part *part = choose_part(w, fair);
    if (!part)
      break;
    unsigned turn = m->random ? 1 + (unsigned)(draw(m) % 24) : fair ? TURN : left;
    bool goes_on = true;
    for (unsigned count = w->count; goes_on && turn && left; turn--, left--) {
      bool sleeps = m->module->code[part->pc].op == PTX_SLEEP;
      done = true;
      goes_on = step(w, part) && w->count == count && (m->random || fair || !has_caught_up(w, part));
      if (sleeps)
        return done;
    }
  }
  return done;
}

static void fill_row(struct ptx_warp *w, enum ptx_special row, uint32_t value) {
  for (unsigned lane = 0; lane < LANES; lane++)
    w->base[0][row * LANES + lane] = value;
}

/* Numbers that are the same in each block of the launch. */
static void number_warp(const struct ptx_machine *m, struct ptx_warp *w, unsigned index) {
  unsigned threads = m->threads - index * LANES < LANES ? m->threads - index * LANES : LANES;
  const struct emulate_index *size = &m->launch->block, *grid = &m->launch->grid;
  w->index = index;
  w->exists = threads == LANES ? UINT32_MAX : (1u << threads) - 1;
  fill_row(w, PTX_NTID_X, size->x);
  fill_row(w, PTX_NTID_Y, size->y);
  fill_row(w, PTX_NTID_Z, size->z);
  fill_row(w, PTX_NCTAID_X, grid->x);
  fill_row(w, PTX_NCTAID_Y, grid->y);
  fill_row(w, PTX_NCTAID_Z, grid->z);
  for (unsigned lane = 0; lane < LANES; lane++) {
    unsigned thread = index * LANES + lane;
    w->base[0][PTX_TID_X * LANES + lane] = thread % size->x;
    w->base[0][PTX_TID_Y * LANES + lane] = thread / size->x % size->y;
    w->base[0][PTX_TID_Z * LANES + lane] = thread / size->x / size->y;
    w->base[0][PTX_LANEID * LANES + lane] = lane;
  }
}

static void prepare_warp(struct ptx_block *b, struct ptx_warp *w) {
  const struct ptx_machine *m = b->machine;
  w->block = b;
  w->returned = w->turn = 0;
  w->count = 1;
  w->parts[0] = (struct ptx_part){.mask = w->exists, .pc = m->function->begin};
  w->mask = 0;
  memset(w->on, 0, sizeof w->on);
  memset(w->defined[0], 0, m->function->words / LANES * sizeof *w->defined[0]);
  for (unsigned k = 0; k < PTX_SPECIALS; k++)
    w->defined[0][k] = UINT32_MAX;
  fill_row(w, PTX_CTAID_X, b->index.x);
  fill_row(w, PTX_CTAID_Y, b->index.y);
  fill_row(w, PTX_CTAID_Z, b->index.z);
}

static void begin_block(struct ptx_block *b, uint64_t linear) {
  const struct ptx_machine *m = b->machine;
  const struct emulate_index *grid = &m->launch->grid;
  b->linear = linear;
  b->index = (struct emulate_index){(unsigned)(linear % grid->x), (unsigned)(linear / grid->x % grid->y),
                                    (unsigned)(linear / grid->x / grid->y)};
  b->waiting = b->returned = b->gathered_or = b->gathered_count = 0;
  b->gathered_and = 1;
  b->over = false;
  memset(b->shared, PATTERN, m->shared);
  for (unsigned k = 0; k < m->warps; k++)
    prepare_warp(b, &b->warps[k]);
  ptx_races_begin_block(b);
}

static bool run_turn(struct ptx_block *b) {
  struct ptx_machine *m = b->machine;
  unsigned first = m->random ? (unsigned)(draw(m) % m->warps) : 0;
  bool done = false;
  for (unsigned k = 0; k < m->warps; k++)
    done |= run_warp(&b->warps[(first + k) % m->warps]);
  b->over = b->returned == m->threads;
  return done;
}

/* -- launches ------------------------------------------------------------------------------------------------------ */
static void *zeroed(size_t count, size_t size) {
  void *memory = NULL;
  size_t bytes = count * size + 1;
  if (posix_memalign(&memory, 64, bytes) != 0)
    ptx_refuse("no memory for a kernel");
  return memset(memory, 0, bytes);
}

/* Files of warps are large: this thread keeps their memory for the next launch. */
static _Thread_local struct {
  row32 *memory;
  size_t words;
} files;

static row32 *take_files(size_t words) {
  if (words > files.words) {
    free(files.memory);
    files.memory = zeroed(words, sizeof *files.memory);
    files.words = words;
  }
  return files.memory;
}

void ptx_end_thread(void) {
  ptx_races_end_thread();
  free(files.memory);
  files.memory = NULL;
  files.words = 0;
}

static void make_ptx_block(struct ptx_machine *m, struct ptx_block *b, row32 *file) {
  uint32_t words = m->function->words;
  b->machine = m;
  b->shared = zeroed(m->shared, 1);
  b->warps = zeroed(m->warps, sizeof *b->warps);
  b->warps[0].defined[0] = zeroed((size_t)m->warps * (words / LANES), sizeof *b->warps[0].defined[0]);
  for (unsigned k = 0; k < m->warps; k++) {
    struct ptx_warp *w = &b->warps[k];
    w->base[0] = file + (size_t)k * words;
    w->base[1] = m->module->constants;
    w->defined[0] = b->warps[0].defined[0] + (size_t)k * (words / LANES);
    w->defined[1] = m->module->all_defined;
    number_warp(m, w, k);
  }
}

static void free_block(struct ptx_block *b) {
  ptx_races_end_block(b);
  free(b->warps[0].defined[0]);
  free(b->warps);
  free(b->shared);
}

static void stuck(const struct ptx_machine *m, const char *what) {
  unsigned said = 0;
  for (unsigned k = 0; k < m->alive; k++)
    for (unsigned n = 0; n < m->warps && !m->blocks[k].over; n++)
      for (unsigned p = 0; p < m->blocks[k].warps[n].count && said < 8; p++, said++) {
        const struct ptx_part *part = &m->blocks[k].warps[n].parts[p];
        ptx_finding(&m->blocks[k].warps[n], &m->module->code[part->pc], (unsigned)__builtin_ctz(part->mask),
                    "%s: here are lanes %08x", what, part->mask);
      }
  ptx_refuse("%s: %s", m->function->name, what);
}

/* The parameters, as PTX lays them out. */
static void lay_out(struct ptx_machine *m) {
  const struct ptx_function *f = m->function;
  const struct emulate_kernel *k = m->launch->kernel;
  if (k->count != f->count)
    ptx_refuse("%s has %u parameters in PTX, and %u elsewhere", f->name, f->count, k->count);
  m->parameters = zeroed(f->parameter_bytes, 1);
  for (uint32_t n = 0; n < f->count; n++) {
    if (k->parameters[n].size != f->parameters[n].size)
      ptx_refuse("%s: parameter %u has another size in PTX", f->name, n);
    memcpy(m->parameters + f->parameters[n].at, m->launch->parameters[n], f->parameters[n].size);
  }
}

void ptx_run(const struct ptx_module *module, const struct ptx_function *function, const struct emulate_launch *launch,
             const struct ptx_range *ranges, unsigned count) {
  uint64_t blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z, next = 0, left = blocks;
  unsigned threads = launch->block.x * launch->block.y * launch->block.z;
  struct ptx_machine m = {.module = module,
                          .function = function,
                          .launch = launch,
                          .ranges = ranges,
                          .count = count,
                          .threads = threads,
                          .warps = (threads + LANES - 1) / LANES,
                          .shared = function->shared,
                          .random = (uint64_t)standin_settings()->schedule};
  uint64_t most = launch->cooperative ? blocks : m.random ? 4 : 1;
  m.alive = (unsigned)(most < blocks ? most : blocks);
  m.blocks = zeroed(m.alive, sizeof *m.blocks);
  lay_out(&m);
  ptx_races_begin(&m);
  size_t words = (size_t)m.warps * function->words;
  row32 *file = take_files(m.alive * words);
  for (unsigned k = 0; k < m.alive; k++) {
    make_ptx_block(&m, &m.blocks[k], file + k * words);
    begin_block(&m.blocks[k], next++);
  }
  while (left) {
    bool done = false;
    for (unsigned k = 0; k < m.alive; k++) {
      struct ptx_block *b = &m.blocks[k];
      if (b->over)
        continue;
      done |= run_turn(b);
      left -= b->over;
      if (b->over && next < blocks)
        begin_block(b, next++);
    }
    if (!done)
      stuck(&m, "nobody can go on");
    if (m.idle > MOST_IDLE)
      stuck(&m, "nothing has changed for many instructions");
  }
  for (unsigned k = 0; k < m.alive; k++)
    free_block(&m.blocks[k]);
  ptx_races_end(&m);
  ptx_count_launch(&m);
  free(m.blocks);
  free(m.parameters);
}
