/* SPDX-License-Identifier: BSD-3-Clause
 * Makes random programs; see random_program.h.
 *
 * A communicator has a pattern: the calls of one training step, as FSDP or DDP has them, or any. It repeats that, so
 * its cycle locks. Now and then it strays: a step is missing, or cut short, or holds more calls. Communicators stray
 * more or less often, and some begin late. So those that share a group are in different states.
 */
#include "tests/e2e/calls/random_program.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PATTERN = 12 };

/* The calls of one communicator in a step. */
struct pattern {
  int nbundles;
  struct bundle bundles[MOST_PATTERN];
  int unrest;        /* percent of steps that stray */
  int begins, every; /* its first step in a run; it calls in every `every`th step */
};

struct maker {
  uint64_t state;
  struct program *program;
  struct pattern patterns[MOST_COMMS];
  bool alive[MOST_COMMS];
  int step, block;
  int together; /* percent: how often the next bundle joins the group */
  bool steady;  /* all steps are interleaved alike */
};

uint64_t mix_bits(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static int below(struct maker *m, int n) { return (int)(mix_bits(m->state++) % (uint64_t)n); }

static bool chance(struct maker *m, int percent) { return below(m, 100) < percent; }

int place_in(const struct communicator *comm, int rank) {
  for (int i = 0; i < comm->nranks; i++)
    if (comm->ranks[i] == rank)
      return i;
  return -1;
}

/* -- calls --------------------------------------------------------------------------------------------------------- */
static ncclDataType_t float_type(struct maker *m) {
  static const ncclDataType_t types[] = {ncclFloat32, ncclFloat32, ncclFloat32, ncclBfloat16, ncclFloat16};
  return types[below(m, 5)];
}

static ncclDataType_t any_type(struct maker *m) {
  static const ncclDataType_t types[] = {ncclInt32, ncclInt64, ncclUint8, ncclFloat64};
  return chance(m, 50) ? float_type(m) : types[below(m, 4)];
}

static bool is_float(ncclDataType_t type) { return type == ncclFloat32 || type == ncclFloat16 || type == ncclBfloat16; }

static enum op any_op(struct maker *m, ncclDataType_t type) {
  static const enum op ops[] = {SUM, SUM, AVERAGE, MAX, MIN, SCALED};
  const enum op op = ops[below(m, 6)];
  return is_float(type) || op == MAX || op == MIN ? op : SUM;
}

static struct call any_call(struct maker *m, int comm) {
  static const enum function functions[] = {REDUCE_SCATTER, ALL_GATHER, ALL_REDUCE, BROADCAST, REDUCE, BROADCAST,
                                            REDUCE,         SHIFT,      ALL_TO_ALL, GATHER,    SCATTER};
  struct call call = {.function = functions[below(m, 11)], .type = any_type(m), .count = 1 + (size_t)below(m, 700)};
  call.op = any_op(m, call.type);
  call.in_place = call.function <= ALL_REDUCE && chance(m, 40);
  call.root = below(m, m->program->comms[comm].nranks);
  call.count = chance(m, 3) ? 0 : call.count;
  return call;
}

/* -- patterns ------------------------------------------------------------------------------------------------------ */
/* Adds a call, in a bundle of its own or in the last one. Point-to-point calls run after collectives, so they stay
 * alone. */
static void add(struct pattern *p, const struct call *call, bool joins) {
  struct bundle *last = p->nbundles ? &p->bundles[p->nbundles - 1] : NULL;
  joins = joins && last && last->ncalls < MOST_CALLS && call->function < SHIFT && last->calls[0].function < SHIFT;
  if (!joins && p->nbundles == MOST_PATTERN)
    return;
  if (!joins) {
    last = &p->bundles[p->nbundles++];
    *last = (struct bundle){.comm = 0};
  }
  last->calls[last->ncalls++] = *call;
}

/* Adds all-gathers of parameters, then for each unit one more, and its gradient. */
static void add_sharded(struct maker *m, struct pattern *p) {
  const int units = 1 + below(m, 3), fused = chance(m, 35) ? 40 : 0;
  const ncclDataType_t type = float_type(m), gradient = chance(m, 70) ? type : ncclFloat32;
  const enum op op = chance(m, 60) ? AVERAGE : chance(m, 70) ? SUM : SCALED;
  const bool in_place = chance(m, 40), again = chance(m, 50);
  struct call gather = {.function = ALL_GATHER, .type = type, .in_place = in_place};
  size_t counts[3];
  for (int u = 0; u < units; u++) {
    gather.count = counts[u] = 300 + (size_t)below(m, 1200) + 1500 * (size_t)u;
    add(p, &gather, chance(m, fused));
  }
  for (int u = units - 1; u >= 0; u--) {
    gather.count = counts[u];
    if (again)
      add(p, &gather, chance(m, fused));
    add(p,
        &(struct call){
          .function = REDUCE_SCATTER, .type = gradient, .op = op, .count = counts[u], .in_place = chance(m, 30)},
        chance(m, fused));
  }
}

/* Adds buckets of gradients; smaller ones are never compressed. */
static void add_replicated(struct maker *m, struct pattern *p) {
  const int buckets = 1 + below(m, 2), fused = chance(m, 40) ? 60 : 0;
  const ncclDataType_t type = float_type(m);
  const enum op op = chance(m, 60) ? AVERAGE : SUM;
  for (int b = 0; b < buckets; b++)
    add(p,
        &(struct call){.function = ALL_REDUCE,
                       .type = type,
                       .op = op,
                       .in_place = chance(m, 50),
                       .count = (1 << 15) + (size_t)below(m, 2000) + 2000 * (size_t)b},
        chance(m, fused));
}

static void add_reductions(struct maker *m, struct pattern *p) {
  const ncclDataType_t type = float_type(m);
  const int count = 1 + below(m, 3), fused = chance(m, 30) ? 50 : 0;
  const enum op op = chance(m, 60) ? SUM : chance(m, 50) ? AVERAGE : SCALED;
  for (int i = 0; i < count; i++)
    add(p,
        &(struct call){.function = REDUCE_SCATTER,
                       .type = type,
                       .op = op,
                       .in_place = chance(m, 30),
                       .count = 200 + (size_t)below(m, 2000) + 2000 * (size_t)i},
        chance(m, fused));
}

static void make_pattern(struct maker *m, int comm) {
  static const int unrests[] = {0, 0, 5, 15, 40};
  struct pattern *p = &m->patterns[comm];
  *p = (struct pattern){.unrest = unrests[below(m, 5)], .every = chance(m, 85) ? 1 : 2};
  p->begins = chance(m, 70) ? 0 : below(m, 5);
  const int kind = below(m, 10);
  if (kind < 4)
    add_sharded(m, p);
  else if (kind < 7)
    add_reductions(m, p);
  else if (kind < 8)
    add_replicated(m, p);
  for (int i = kind < 8 ? below(m, 3) : 1 + below(m, 3); i > 0; i--) {
    const struct call call = any_call(m, comm);
    add(p, &call, chance(m, 20));
  }
}

/* -- communicators ------------------------------------------------------------------------------------------------- */
static struct event *new_event(struct program *p, enum event_kind kind, int which) {
  if (p->nevents == MOST_EVENTS)
    abort();
  struct event *event = &p->events[p->nevents++];
  *event = (struct event){.kind = kind, .which = which};
  return event;
}

static int new_comm(struct program *p, int parent) {
  if (p->ncomms == MOST_COMMS)
    abort();
  p->comms[p->ncomms] = (struct communicator){.parent = parent};
  return p->ncomms++;
}

static int init_comm(struct program *p) {
  const int comm = new_comm(p, -1);
  p->comms[comm].nranks = p->nranks;
  for (int r = 0; r < p->nranks; r++)
    p->comms[comm].ranks[r] = r;
  new_event(p, EVENT_INIT, comm);
  return comm;
}

/* Orders members by their keys, equal keys by the ranks in the parent. */
static void add_member(struct communicator *child, const struct split *split, int rank) {
  int at = child->nranks++;
  for (; at > 0 && split->key[child->ranks[at - 1]] > split->key[rank]; at--)
    child->ranks[at] = child->ranks[at - 1];
  child->ranks[at] = rank;
}

/* `colors` and `keys`: of the program's ranks. */
static void split_comm(struct program *p, int parent, const int *colors, const int *keys) {
  struct split *split = &p->splits[p->nsplits];
  int of_color[MOST_RANKS] = {-1, -1, -1, -1, -1, -1};
  split->parent = parent;
  for (int r = 0; r < MOST_RANKS; r++)
    split->child[r] = -1;
  for (int i = 0; i < p->comms[parent].nranks; i++) {
    const int rank = p->comms[parent].ranks[i];
    split->color[rank] = colors[rank];
    split->key[rank] = keys[rank];
    if (colors[rank] == NCCL_SPLIT_NOCOLOR)
      continue;
    if (of_color[colors[rank]] < 0)
      of_color[colors[rank]] = new_comm(p, parent);
    split->child[rank] = of_color[colors[rank]];
    add_member(&p->comms[split->child[rank]], split, rank);
  }
  new_event(p, EVENT_SPLIT, p->nsplits++);
}

static void begin_comm(struct maker *m, int comm) {
  m->alive[comm] = true;
  m->program->comms[comm].side_stream = m->program->threads && comm ? below(m, LANES) : 0;
  make_pattern(m, comm);
}

/* Returns a living communicator; the first one more often. */
static int choose_parent(struct maker *m) {
  int living[MOST_COMMS], count = 0;
  for (int c = 0; c < m->program->ncomms; c++)
    if (m->alive[c] && (m->program->comms[c].nranks > 1 || chance(m, 10)))
      living[count++] = c;
  return chance(m, 50) ? 0 : living[below(m, count)];
}

/* Duplicates, stripes, neighbours, a ring's other neighbours, anything, and anything with ranks that are left out. */
static void draw_colors(struct maker *m, int *colors) {
  const int way = below(m, 6), modulus = 1 + below(m, 3), n = m->program->nranks;
  for (int r = 0; r < n; r++) {
    const int drawn = below(m, 3);
    const int of_way[] = {0, r % modulus, r / 2, (r + 1) % n / 2, drawn, drawn ? drawn - 1 : NCCL_SPLIT_NOCOLOR};
    colors[r] = of_way[way];
  }
}

static void random_split(struct maker *m) {
  struct program *p = m->program;
  const int before = p->ncomms, parent = choose_parent(m);
  const bool ordered = chance(m, 50);
  int colors[MOST_RANKS], keys[MOST_RANKS];
  draw_colors(m, colors);
  for (int r = 0; r < p->nranks; r++)
    keys[r] = ordered ? r : below(m, 4) - 1;
  split_comm(p, parent, colors, keys);
  for (int c = before; c < p->ncomms; c++)
    begin_comm(m, c);
}

/* -- steps --------------------------------------------------------------------------------------------------------- */
/* Draws the calls of a communicator in this step. */
static void draw_step(struct maker *m, int comm, struct pattern *out) {
  const struct pattern *p = &m->patterns[comm];
  *out = *p;
  if (m->step < p->begins || m->step % p->every) {
    out->nbundles = 0;
    return;
  }
  if (!chance(m, p->unrest))
    return;
  const int what = below(m, 6);
  if (what == 0)
    out->nbundles = 0;
  else if (what == 1)
    out->nbundles = out->nbundles ? below(m, out->nbundles) : 0;
  for (int i = what < 2 ? 0 : 1 + below(m, 2); i > 0; i--) {
    struct call call = any_call(m, comm);
    if (what == 5 && chance(m, 30))
      call = (struct call){REFUSED, .type = ncclFloat32, .count = 8, .root = m->program->comms[comm].nranks};
    else if (what == 4)
      call = (struct call){ALL_REDUCE, .type = ncclFloat32, .op = SUM, .count = (1 << 15) + (size_t)below(m, 9000)};
    add(out, &call, false);
  }
}

static bool is_in_block(const struct program *p, int comm, int block) {
  for (int i = p->nbundles - 1; i >= 0 && p->bundles[i].block == block; i--)
    if (p->bundles[i].comm == comm)
      return true;
  return false;
}

static bool stays_alone(const struct bundle *b) { return b->calls[0].function == REFUSED; }

static bool may_join(const struct maker *m, const struct bundle *bundle, int comm) {
  const struct program *p = m->program;
  const struct bundle *last = p->nbundles ? &p->bundles[p->nbundles - 1] : NULL;
  return last && last->step == m->step && !is_in_block(p, comm, m->block) && !stays_alone(last) && !stays_alone(bundle);
}

static void emit(struct maker *m, const struct bundle *template, int comm) {
  struct program *p = m->program;
  if (p->nbundles == MOST_BUNDLES)
    return;
  if (!chance(m, m->together) || !may_join(m, template, comm))
    m->block++;
  struct bundle *b = &p->bundles[p->nbundles++];
  *b = *template;
  b->comm = comm;
  b->step = m->step;
  b->side_stream = p->comms[comm].side_stream;
  b->block = m->block;
}

/* True if another communicator could join the block. */
static bool offers_another(const struct maker *m, const struct pattern *drawn, const int *done) {
  for (int c = 0; c < m->program->ncomms; c++)
    if (done[c] < drawn[c].nbundles && !is_in_block(m->program, c, m->block))
      return true;
  return false;
}

/* Emits the patterns of the living communicators of a side stream, interleaved. */
static void emit_step(struct maker *m, int side_stream) {
  static struct pattern drawn[MOST_COMMS];
  int done[MOST_COMMS] = {0}, left = 0;
  const struct program *p = m->program;
  for (int c = 0; c < p->ncomms; c++) {
    drawn[c].nbundles = 0;
    if (m->alive[c] && p->comms[c].side_stream == side_stream)
      draw_step(m, c, &drawn[c]);
    left += drawn[c].nbundles;
  }
  const uint64_t resumes = m->state;
  if (m->steady)
    m->state = mix_bits(p->seed + (uint64_t)side_stream);
  while (left > 0) {
    const int c = below(m, p->ncomms);
    const bool again = is_in_block(p, c, m->block) && chance(m, 80);
    if (done[c] == drawn[c].nbundles || (again && offers_another(m, drawn, done)))
      continue;
    emit(m, &drawn[c].bundles[done[c]++], c);
    left--;
  }
  m->state = m->steady ? resumes : m->state;
  m->block++;
}

static void emit_steps(struct maker *m, int steps) {
  struct event *run = new_event(m->program, EVENT_RUN, 0);
  run->first = m->program->nbundles;
  for (int i = 0; i < steps; i++, m->step++)
    for (int side_stream = 0; side_stream < LANES; side_stream++)
      emit_step(m, side_stream);
  run->last = m->program->nbundles;
}

/* Ends some communicators; the first one stays. */
static void end_some(struct maker *m) {
  for (int c = 1; c < m->program->ncomms; c++)
    if (m->alive[c] && chance(m, 40)) {
      m->alive[c] = false;
      new_event(m->program, EVENT_END, c);
    }
}

void make_program(struct program *program, uint64_t seed, int nranks, unsigned shapes) {
  static struct maker m;
  memset(program, 0, sizeof *program);
  memset(&m, 0, sizeof m);
  m.state = mix_bits(seed) ^ 0x7461;
  m.program = program;
  program->seed = seed;
  program->nranks = nranks;
  snprintf(program->name, sizeof program->name, "seed %llu", (unsigned long long)seed);
  do
    program->shape = (enum shape)below(&m, SHAPES);
  while (!(shapes & 1u << program->shape));
  program->nonblocking = chance(&m, 12);
  program->threads = chance(&m, 20);
  m.steady = chance(&m, 60);
  m.together = program->shape == SHAPE_APART ? 0 : (const int[]){100, 100, 70, 30}[below(&m, 4)];
  begin_comm(&m, init_comm(program));
  for (int part = 1 + below(&m, 2); part > 0; part--) {
    for (int i = below(&m, 3) + (program->ncomms == 1); i > 0 && program->ncomms < MOST_COMMS - MOST_RANKS; i--)
      random_split(&m);
    if (chance(&m, 15))
      begin_comm(&m, init_comm(program));
    emit_steps(&m, 8 + below(&m, 8));
    if (part > 1)
      end_some(&m);
  }
  for (int c = program->ncomms - 1; c >= 0; c--)
    if (m.alive[c])
      new_event(program, EVENT_END, c);
}

bool cuts_before(const struct program *p, int bundle, int before, int rank) {
  const struct bundle *b = &p->bundles[bundle], *last = &p->bundles[before];
  if (p->shape < SHAPE_CUTS || stays_alone(b) || stays_alone(last))
    return b->block != last->block;
  return b->step != last->step || mix_bits(p->seed ^ mix_bits((uint64_t)(bundle * MOST_RANKS + rank))) % 3 == 0;
}

/* -- programs with a name ------------------------------------------------------------------------------------------ */
static void call_in(struct maker *m, int comm, const struct call *call, bool joins) {
  m->together = joins ? 100 : 0;
  emit(m, &(struct bundle){.ncalls = 1, .calls = {*call}}, comm);
}

static const struct call sum_all = {.function = ALL_REDUCE, .type = ncclFloat32, .op = SUM, .count = (1 << 15) + 8};
static const struct call scatter_sum = {.function = REDUCE_SCATTER, .type = ncclFloat32, .op = SUM, .count = 2048};

/* Every step is one group. One half then makes one more all-reduce, of another size each time, so the other half's
 * cycle locks first. */
static void make_steps_of_halves(struct maker *m, int steps) {
  struct program *p = m->program;
  const int halves[MOST_RANKS] = {0, 1, 0, 1}, keys[MOST_RANKS] = {0};
  split_comm(p, 0, halves, keys);
  struct event *run = new_event(p, EVENT_RUN, 0);
  for (; m->step < steps; m->step++) {
    struct call more = sum_all;
    more.count = 40 + (size_t)m->step;
    call_in(m, 0, &scatter_sum, false);
    call_in(m, 1, &sum_all, true);
    call_in(m, 2, &sum_all, true);
    call_in(m, 1, &more, false);
  }
  run->last = p->nbundles;
}

static void make_halves(struct maker *m) { make_steps_of_halves(m, 40); }

/* With all options at their defaults: a cycle locks after more than 256 calls. */
static void make_defaults(struct maker *m) { make_steps_of_halves(m, 270); }

/* In one step a sub-communicator also has a call in the group. One rank is alone in its own, or has none. */
static void make_alone(struct maker *m, int color) {
  struct program *p = m->program;
  const int colors[MOST_RANKS] = {0, color, 0}, keys[MOST_RANKS] = {0};
  const struct call reduce = {.function = REDUCE, .type = ncclFloat32, .op = SUM, .count = 100};
  split_comm(p, 0, colors, keys);
  struct event *run = new_event(p, EVENT_RUN, 0);
  for (; m->step < 20; m->step++) {
    for (int c = 1; c < p->ncomms && m->step == 15; c++)
      call_in(m, c, &reduce, c > 1);
    call_in(m, 0, &scatter_sum, m->step == 15);
  }
  run->last = p->nbundles;
}

/* Each rank shares a communicator with the next one, and calls its two in its own order. */
static void make_ring(struct maker *m) {
  struct program *p = m->program;
  const int firsts[MOST_RANKS] = {0, 0, 1, 1}, seconds[MOST_RANKS] = {0, 1, 1, 0}, keys[MOST_RANKS] = {0};
  p->shape = SHAPE_ORDERS;
  split_comm(p, 0, firsts, keys);
  split_comm(p, 0, seconds, keys);
  struct event *run = new_event(p, EVENT_RUN, 0);
  for (; m->step < 20; m->step++)
    for (int c = 1; c < p->ncomms; c++)
      call_in(m, c, &scatter_sum, c > 1);
  run->last = p->nbundles;
}

/* Two communicators of the same ranks: one rank calls both in a group, the other one after the other. A plain call
 * precedes the compressed one. */
static void make_cuts(struct maker *m) {
  struct program *p = m->program;
  const int colors[MOST_RANKS] = {0}, keys[MOST_RANKS] = {0};
  const struct call reduce = {.function = REDUCE, .type = ncclFloat32, .op = SUM, .count = 100};
  p->shape = SHAPE_CUTS;
  split_comm(p, 0, colors, keys);
  struct event *run = new_event(p, EVENT_RUN, 0);
  for (; m->step < 30; m->step++)
    for (int c = 0; c < 2; c++)
      call_in(m, c, c ? &scatter_sum : &reduce, c > 0);
  run->last = p->nbundles;
}

/* Non-blocking communicators: a group holds compressed calls, and messages of a communicator without collectives. */
static void make_messages(struct maker *m) {
  struct program *p = m->program;
  const int colors[MOST_RANKS] = {0}, keys[MOST_RANKS] = {0};
  const struct call message = {.function = SHIFT, .type = ncclFloat32, .count = 100};
  p->nonblocking = true;
  split_comm(p, 0, colors, keys);
  struct event *run = new_event(p, EVENT_RUN, 0);
  for (; m->step < 20; m->step++)
    for (int c = 0; c < 2; c++)
      call_in(m, c, c ? &scatter_sum : &message, c > 0);
  run->last = p->nbundles;
}

static void make_alone_apart(struct maker *m) { make_alone(m, 1); }

static void make_no_color(struct maker *m) { make_alone(m, NCCL_SPLIT_NOCOLOR); }

static const struct {
  const char *name;
  int nranks;
  void (*make)(struct maker *m);
} named[] = {{"halves", 4, make_halves},    {"alone", 3, make_alone_apart}, {"no-color", 3, make_no_color},
             {"ring", 4, make_ring},        {"defaults", 4, make_defaults}, {"cuts", 2, make_cuts},
             {"messages", 2, make_messages}};

const char *named_program(int number, int *nranks) {
  if (number < 0 || number >= (int)(sizeof named / sizeof *named))
    return NULL;
  *nranks = named[number].nranks;
  return named[number].name;
}

bool make_named(struct program *program, const char *name) {
  static struct maker m;
  int number = 0, nranks;
  const char *known;
  while ((known = named_program(number, &nranks)) && strcmp(known, name))
    number++;
  if (!known)
    return false;
  memset(program, 0, sizeof *program);
  m = (struct maker){.program = program};
  program->nranks = nranks;
  program->shape = SHAPE_ALIKE;
  snprintf(program->name, sizeof program->name, "%s", name);
  init_comm(program);
  named[number].make(&m);
  for (int c = program->ncomms - 1; c >= 0; c--)
    new_event(program, EVENT_END, c);
  return true;
}

/* -- settings ------------------------------------------------------------------------------------------------------ */
__attribute__((format(printf, 2, 3))) static void set(struct setting *s, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(s->options[s->noptions++], sizeof *s->options, format, args);
  va_end(args);
}

static void place_ranks(struct maker *m, struct setting *s) {
  const int way = below(m, 4);
  size_t at = 0;
  for (int r = 0; r < s->nranks; r++) {
    const int host = way == 0 ? r : way == 1 ? r / 2 : way == 2 ? r % 2 : r % 3;
    at += (size_t)snprintf(s->hosts + at, sizeof s->hosts - at, "%s%d", r ? "," : "", host);
  }
}

void make_setting(struct setting *s, uint64_t batch) {
  static const char *const codecs[] = {"none", "none", "none",   "bf16", "bf16", "q8",   "q8",
                                       "q4",   "q3",   "sparse", "lhc",  "auto", "auto", "q2"};
  static const char *const gathers[] = {"off", "off", "bf16", "lossless", "q8", "delta", "exact", "exact"};
  struct maker m = {.state = mix_bits(batch) ^ 0x6373};
  *s = (struct setting){.nranks = 2 + below(&m, MOST_RANKS - 1)};
  place_ranks(&m, s);
  s->codec = codecs[below(&m, 14)];
  s->gather = gathers[below(&m, 8)];
  s->residual = chance(&m, 20);
  set(s, "TAGC_WARMUP=0");
  set(s, "TAGC_MIN_BYTES=%d", chance(&m, 70) ? 0 : 2048);
  set(s, "TAGC_CODEC=%s", s->codec);
  set(s, "TAGC_ALLGATHER=%s", s->gather);
  set(s, "TAGC_SPARSITY=0.8");
  set(s, "TAGC_RESIDUAL=%s", s->residual ? "fp32" : "auto");
  set(s, "TAGC_SCOPE=%s", chance(&m, 60) ? "flat" : "auto");
  set(s, "TAGC_DEPTH=%d", chance(&m, 50) ? 0 : below(&m, 4));
  set(s, "TAGC_SEED=%d", 1 + below(&m, 1000));
  if (chance(&m, 70))
    set(s, "TAGC_ASSUME=gradients");
  if (chance(&m, 25))
    set(s, "TAGC_MODE=%s", chance(&m, 75) ? "ab" : "observe");
  set(s, "TAGC_AB=%d", 2 + below(&m, 3));
  if (chance(&m, 20))
    set(s, "TAGC_ROUNDING=stochastic");
  if (s->codec[0] == 'a' && chance(&m, 50))
    set(s, "TAGC_BUDGET=%s", chance(&m, 50) ? "5%" : "1ms");
  if (chance(&m, 10))
    set(s, "TAGC_SKIP=unit1*");
}

void named_setting(struct setting *s, const char *name, int nranks) {
  *s = (struct setting){.nranks = nranks, .hosts = "0,1,2,3", .codec = "none", .gather = "off"};
  s->hosts[2 * nranks - 1] = '\0';
  if (strcmp(name, "defaults") == 0)
    return;
  set(s, "TAGC_WARMUP=0");
  set(s, "TAGC_MIN_BYTES=0");
  set(s, "TAGC_CODEC=none");
  set(s, "TAGC_ASSUME=gradients");
}

/* -- words --------------------------------------------------------------------------------------------------------- */
const char *call_words(const struct call *call, char text[100]) {
  static const char *const functions[FUNCTIONS] = {"ReduceScatter", "AllGather",     "AllReduce", "Broadcast",
                                                   "Reduce",        "Send and Recv", "AlltoAll",  "Gather",
                                                   "Scatter",       "bad Broadcast"};
  static const char *const ops[OPS] = {"sum", "avg", "max", "min", "premulsum"};
  static const char *const types[] = {"int8",   "uint8", "int32", "uint32", "int64",
                                      "uint64", "fp16",  "fp32",  "fp64",   "bf16"};
  const enum function f = call->function;
  const bool reduces = f == REDUCE_SCATTER || f == ALL_REDUCE || f == REDUCE;
  const bool rooted = f == BROADCAST || f == REDUCE || f == GATHER || f == SCATTER;
  int n = snprintf(text, 100, "%s %s%s%s %zu%s", functions[f], types[call->type], reduces ? " " : "",
                   reduces ? ops[call->op] : "", call->count, call->in_place ? " in place" : "");
  if (rooted)
    snprintf(text + n, 100 - (size_t)n, " root %d", call->root);
  return text;
}

static void describe_comm(const struct program *p, int c, FILE *to) {
  fprintf(to, "  communicator %d:", c);
  for (int i = 0; i < p->comms[c].nranks; i++)
    fprintf(to, " %d", p->comms[c].ranks[i]);
  if (p->comms[c].parent >= 0)
    fprintf(to, " of %d", p->comms[c].parent);
  fprintf(to, "%s\n", p->comms[c].side_stream ? " (second thread)" : "");
}

static void describe_run(const struct program *p, const struct event *run, FILE *to) {
  char text[100];
  for (int i = run->first; i < run->last; i++) {
    const struct bundle *b = &p->bundles[i];
    const bool begins = i == run->first || b->block != b[-1].block;
    if (i == run->first || b->step != b[-1].step)
      fprintf(to, "  step %d\n", b->step);
    for (int k = 0; k < b->ncalls; k++)
      fprintf(to, "    %s communicator %d: %s\n",
              k        ? "&"
              : begins ? "-"
                       : " ",
              b->comm, call_words(&b->calls[k], text));
  }
}

static const char *shape_words(const struct program *p) {
  static const char *const words[SHAPES] = {"no group of several communicators", "all ranks group alike",
                                            "each orders its groups", "each cuts its groups",
                                            "each cuts and orders its groups"};
  return words[p->shape];
}

void describe(const struct program *p, FILE *to) {
  fprintf(to, "%s: %d ranks, %s%s%s\n", p->name, p->nranks, shape_words(p), p->nonblocking ? ", non-blocking" : "",
          p->threads ? ", two threads" : "");
  for (int i = 0; i < p->nevents; i++) {
    const struct event *e = &p->events[i];
    if (e->kind == EVENT_RUN)
      describe_run(p, e, to);
    else if (e->kind == EVENT_END)
      fprintf(to, "  end of communicator %d\n", e->which);
    else if (e->kind == EVENT_INIT)
      describe_comm(p, e->which, to);
    else
      for (int c = 0; c < p->ncomms; c++)
        for (int r = 0, told = 0; r < p->nranks; r++)
          if (p->splits[e->which].child[r] == c && !told++)
            describe_comm(p, c, to);
  }
}
