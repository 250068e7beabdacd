/* SPDX-License-Identifier: BSD-3-Clause
 * Reads one trace into sums; see trace_merge.h.
 *
 * A program makes the same calls over and over: what two calls have in common but their times is a *sort*, of which there are hundreds
 * where there are millions of calls. Of a call itself 48 bytes are kept until the file has ended, as only then it is known which
 * communicator tells the steps, and which of these are whole.
 */
#include <math.h>
#include <stdlib.h>

#include "interpose/trace_merge.h"
#include "interpose/trace_table.h"

/* More than this is no number of a call: 4 TiB, a year. */
#define BYTES_MOST (UINT64_C(1) << 42)
#define NS_MOST (UINT64_C(366) * 86400 * 1000000000)
#define ELEMENTS_MOST (UINT64_C(1) << 50)
enum { RECENT = 1 << 16 /* calls whose times may still come */, EARLY = 1 << 10 /* times whose calls may */, POINTS = 2 * TAGC_SUM_POINTS, CODES = 256, COMMS_MOST = 1 << 16 };

struct sort_key {
  uint64_t count, raw_bytes;
  struct tagc_sum_sent sent, plain;
  uint32_t comm, lock;              /* comm: index into the part's; UINT32_MAX: none */
  int32_t slot, peer;
  uint16_t function, reason;
  uint8_t type, op, compressed, failed;
};

struct sort {
  struct sort_key key;
  struct tagc_sum_calls calls, whole;
};

struct light {
  uint64_t began_ns, host_ns, wire_ns;
  uint32_t sort, number, cycle;     /* number: its low bits; cycle: likewise */
  uint32_t encode_ns, decode_ns;
  bool timed;
};

struct cycle {
  uint32_t comm, lock;
  struct tagc_sum_step step;
  uint64_t first, last;             /* numbers of its calls */
  uint32_t own;                     /* its calls on the communicator itself */
};

struct lock {
  uint32_t comm, lock, calls;
};

/* A file while it is read. */
struct gather {
  struct tagc_part *part;
  struct tagc_sum_names *names;
  uint8_t code[TAGC_TRACE_OPS + 1][CODES];   /* of this file -> of the summary */
  struct tagc_table comm_table, sort_table, slot_table;
  struct sort *sorts;
  struct light *lights;
  struct cycle *cycles;
  struct lock *locks;
  struct slot_place {
    uint32_t comm, lock, slot, place;        /* place: in the communicator's slots */
  } *places;
  size_t sort_count, light_count, cycle_count, lock_count, place_count;
  uint32_t recent[RECENT];          /* by number: index into lights, from 1 */
  struct tagc_trace_times early[EARLY];      /* by number: of calls that have not come yet */
  uint64_t timed, timed_by_device;
  bool no_memory;
};

/* -- names and texts --------------------------------------------------------------------------------------------------- */

/* What a terminal would obey is taken out: control characters, and those of C1 in UTF-8. */
static char *copy_text(struct gather *g, const char *text)
{
  char *copy = strdup(text);
  g->no_memory |= !copy;
  for (unsigned char *c = (unsigned char *)copy; c && *c; c++)
    if ((*c < 0x20 && *c != '\n') || *c == 0x7f || (*c >= 0x80 && *c < 0xa0 && c > (unsigned char *)copy && c[-1] == 0xc2))
      *c = '?';
  return copy;
}

static void set_text(struct gather *g, char **to, const char *text)
{
  free(*to);
  *to = copy_text(g, text);
}

/* Codes of another version of the library may mean other things: the summary's own are those of the first file. */
static void take_name(struct gather *g, const struct tagc_trace_name *r)
{
  if (r->table < TAGC_TRACE_FUNCTIONS || r->table > TAGC_TRACE_OPS || r->code >= CODES) {
    g->part->absurd++;
    return;
  }
  char **texts = g->names->text[r->table];
  unsigned code = r->code;
  for (unsigned i = 0; i < CODES; i++)
    if (texts[i] && strcmp(texts[i], r->text) == 0) {
      g->code[r->table][r->code] = (uint8_t)i;
      return;
    }
  for (unsigned i = 0; texts[code] && i < CODES; i++)
    code = (code + 1) % CODES;
  if (texts[code])
    return;                         /* all are taken; it keeps its number */
  texts[code] = copy_text(g, r->text);
  g->code[r->table][r->code] = (uint8_t)code;
}

static uint8_t code_of(const struct gather *g, enum tagc_trace_table table, uint16_t code)
{
  return code < CODES ? g->code[table][code] : CODES - 1;
}

static bool named(const struct gather *g, enum tagc_trace_table table, uint16_t code, const char *name)
{
  const char *text = code < CODES ? g->names->text[table][code] : NULL;
  return text && strcmp(text, name) == 0;
}

/* -- communicators and slots --------------------------------------------------------------------------------------------- */

static bool same_comm(const void *array, size_t place, const void *key)
{
  return ((const struct tagc_sum_comm *)array)[place].members[0].id == *(const uint32_t *)key;
}

/* The index of the communicator; UINT32_MAX: it is none. */
static uint32_t comm_of(struct gather *g, uint32_t id)
{
  struct tagc_part *p = g->part;
  bool added;
  if (id == 0)
    return UINT32_MAX;
  if (p->comm_count >= COMMS_MOST) {
    p->absurd++;
    return UINT32_MAX;
  }
  if (!TAGC_SUM_ROOM(p->comms, p->comm_count)) {
    g->no_memory = true;
    return UINT32_MAX;
  }
  size_t place = tagc_table_place(&g->comm_table, tagc_table_mix(0, id), p->comms, &id, same_comm, p->comm_count, &added);
  if (place == SIZE_MAX)
    g->no_memory = true;
  else if (added) {
    struct tagc_sum_member *member = calloc(1, sizeof *member);
    p->comms[place] = (struct tagc_sum_comm){.number = UINT32_MAX, .nranks = -1, .members = member, .member_count = 1};
    p->comm_count++;
    if (member)
      *member = (struct tagc_sum_member){.id = id, .as = -1};
    g->no_memory |= !member;
  }
  return g->no_memory ? UINT32_MAX : (uint32_t)place;
}

static void take_comm(struct gather *g, const struct tagc_trace_comm *r)
{
  uint32_t index = comm_of(g, r->record.comm);
  if (index == UINT32_MAX)
    return;
  struct tagc_sum_comm *c = &g->part->comms[index];
  struct tagc_sum_member *m = c->members;
  bool sane = r->nranks >= 1 && r->nranks <= 1 << 24 && r->rank >= -1 && r->rank < r->nranks && r->hosts <= (uint32_t)r->nranks;
  if (!sane && r->nranks != -1)
    g->part->absurd++;
  if (sane) {
    c->nranks = r->nranks;
    c->hosts = r->hosts;
    m->as = r->rank;
  }
  c->identity = r->identity;
  c->number = r->number;
  m->born_ns = r->born_ns;
  m->born_by = code_of(g, TAGC_TRACE_FUNCTIONS, r->function);
}

static void take_comm_end(struct gather *g, const struct tagc_trace_comm_end *r)
{
  uint32_t index = comm_of(g, r->record.comm);
  if (index == UINT32_MAX)
    return;
  g->part->comms[index].members[0].ended_ns = r->at_ns;
  g->part->comms[index].members[0].ended_by = code_of(g, TAGC_TRACE_FUNCTIONS, r->function);
}

static bool same_slot(const void *array, size_t place, const void *key)
{
  const struct slot_place *a = (const struct slot_place *)array + place, *b = key;
  return a->comm == b->comm && a->lock == b->lock && a->slot == b->slot;
}

static struct tagc_sum_slot *slot_of(struct gather *g, uint32_t comm, uint32_t lock, uint32_t slot)
{
  struct slot_place key = {comm, lock, slot, 0};
  struct tagc_sum_comm *c = &g->part->comms[comm];
  bool added;
  if (!TAGC_SUM_ROOM(g->places, g->place_count) || !TAGC_SUM_ROOM(c->slots, c->slot_count)) {
    g->no_memory = true;
    return NULL;
  }
  size_t place = tagc_table_place(&g->slot_table, tagc_table_mix(tagc_table_mix(comm, lock), slot), g->places, &key, same_slot,
                                  g->place_count, &added);
  if (place == SIZE_MAX) {
    g->no_memory = true;
    return NULL;
  }
  if (added) {
    key.place = (uint32_t)c->slot_count++;
    g->places[g->place_count++] = key;
    c->slots[key.place] = (struct tagc_sum_slot){.lock = lock, .slot = slot, .kind = TAGC_TRACE_OTHER,
                                                 .name = copy_text(g, ""), .codec = copy_text(g, "")};
  }
  return g->no_memory ? NULL : &c->slots[g->places[place].place];
}

static void take_slot(struct gather *g, const struct tagc_trace_slot *r)
{
  uint32_t comm = comm_of(g, r->record.comm);
  bool sane = r->count <= ELEMENTS_MOST && r->selected <= ELEMENTS_MOST && r->lock && r->slot <= INT32_MAX;
  for (int i = 0; i < TAGC_TRACE_PARTS; i++)
    sane = sane && r->part[i] <= ELEMENTS_MOST;
  if (comm == UINT32_MAX || !sane) {
    g->part->absurd++;
    return;
  }
  struct tagc_sum_slot *s = slot_of(g, comm, r->lock, r->slot);
  if (!s)
    return;
  set_text(g, &s->name, tagc_trace_text(&r->record, r->text, 0));
  set_text(g, &s->codec, tagc_trace_text(&r->record, r->text, 1));
  s->unit = r->unit;
  s->pass = r->pass;
  s->count = r->count;
  s->selected = r->selected;
  s->type = code_of(g, TAGC_TRACE_TYPES, r->type);
  s->reason = code_of(g, TAGC_TRACE_REASONS, r->reason);
  s->voted = r->voted;
  s->parts_known = false;
  memcpy(s->part, r->part, sizeof s->part);
  for (int i = 0; i < TAGC_TRACE_PARTS; i++)
    if (r->part[i]) {
      s->kind = !s->parts_known || r->part[i] > r->part[s->kind] ? (enum tagc_trace_part)i : s->kind;
      s->parts_known = true;
    }
}

static void take_lock(struct gather *g, const struct tagc_trace_lock *r)
{
  uint32_t comm = comm_of(g, r->record.comm);
  if (comm == UINT32_MAX || r->confidence > 100 || !TAGC_SUM_ROOM(g->locks, g->lock_count)) {
    g->part->absurd++;
    return;
  }
  struct tagc_sum_comm *c = &g->part->comms[comm];
  g->locks[g->lock_count++] = (struct lock){comm, r->lock, r->calls};
  if (r->slots == 0 && c->layers)
    return;                         /* given up: what was known of it stays the last word */
  c->last_lock = r->lock;
  c->gradients = r->gradients;
  c->confidence = r->confidence;
  set_text(g, &c->layers, tagc_trace_text(&r->record, r->text, 0));
  set_text(g, &c->or_layers, tagc_trace_text(&r->record, r->text, 1));
}

/* A sample of a slot; when there are too many of it, every second one is left. */
static void take_state(struct gather *g, const struct tagc_trace_state *r)
{
  uint32_t comm = comm_of(g, r->record.comm);
  if (comm == UINT32_MAX || !r->lock || r->slot > INT32_MAX) {
    g->part->absurd++;
    return;
  }
  struct tagc_sum_slot *s = slot_of(g, comm, r->lock, r->slot);
  if (!s || !TAGC_SUM_ROOM(s->points, s->point_count)) {
    g->no_memory = true;
    return;
  }
  s->points[s->point_count++] = (struct tagc_sum_point){r->cycle, r->error, r->residual_norm, r->gradient_norm};
  if (s->point_count < POINTS)
    return;
  for (size_t i = 0; 2 * i < s->point_count; i++)
    s->points[i] = s->points[2 * i];
  s->point_count /= 2;
}

/* -- calls --------------------------------------------------------------------------------------------------------------- */

static bool same_sort(const void *array, size_t place, const void *key)
{
  return memcmp(&((const struct sort *)array)[place].key, key, sizeof(struct sort_key)) == 0;
}

static uint64_t hash_sort(const struct sort_key *key)
{
  uint64_t words[sizeof *key / 8], hash = 0;
  _Static_assert(sizeof *key == 72, "no holes, whose bytes would be compared");
  memcpy(words, key, sizeof words);
  for (size_t i = 0; i < sizeof words / 8; i++)
    hash = tagc_table_mix(hash, words[i]);
  return hash;
}

static size_t sort_of(struct gather *g, const struct sort_key *key)
{
  bool added;
  if (!TAGC_SUM_ROOM(g->sorts, g->sort_count))
    return SIZE_MAX;
  size_t place = tagc_table_place(&g->sort_table, hash_sort(key), g->sorts, key, same_sort, g->sort_count, &added);
  if (added)
    g->sorts[g->sort_count++] = (struct sort){.key = *key};
  return place;
}

static bool sane_call(const struct tagc_trace_call *r)
{
  return r->raw_bytes <= BYTES_MOST && r->inside <= BYTES_MOST && r->between <= BYTES_MOST && r->plain_inside <= BYTES_MOST &&
         r->plain_between <= BYTES_MOST && r->host_ns <= NS_MOST && r->began_ns <= UINT64_MAX - NS_MOST && r->slot >= -1 &&
         r->count <= ELEMENTS_MOST;
}

static uint32_t low(uint64_t n) { return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n; }

static void time_call(struct gather *g, struct light *light, const struct tagc_trace_times *r)
{
  struct tagc_sum_calls *calls = &g->sorts[light->sort].calls;
  g->timed++;
  g->timed_by_device += r->by_device != 0;
  light->timed = true;
  light->wire_ns = r->sum_ns + r->exchange_ns;
  light->encode_ns = low(r->encode_ns);
  light->decode_ns = low(r->decode_ns);
  calls->wire_calls++;
  tagc_sum_add(&calls->wire_ns, light->wire_ns);
  tagc_sum_add(&calls->encode_ns, r->encode_ns);
  tagc_sum_add(&calls->decode_ns, r->decode_ns);
}

/* A call that has been timed when it returns is written behind its times. */
static void take_times(struct gather *g, const struct tagc_trace_times *r)
{
  uint32_t at = g->recent[r->call % RECENT];
  struct light *light = at ? &g->lights[at - 1] : NULL;
  if (r->sum_ns > NS_MOST || r->encode_ns > NS_MOST || r->exchange_ns > NS_MOST || r->decode_ns > NS_MOST)
    g->part->absurd++;
  else if (!light || light->number != (uint32_t)r->call)
    g->early[r->call % EARLY] = *r;
  else if (!light->timed)
    time_call(g, light, r);
}

static void take_call(struct gather *g, const struct tagc_trace_call *r)
{
  struct tagc_sum_rank *rank = &g->part->rank;
  if (!sane_call(r)) {
    g->part->absurd++;
    return;
  }
  struct sort_key key = {
    .count = r->count, .raw_bytes = r->raw_bytes, .sent = {r->inside, r->between}, .plain = {r->plain_inside, r->plain_between},
    .comm = comm_of(g, r->record.comm), .lock = r->slot < 0 ? 0 : r->lock, .slot = r->slot, .peer = r->peer,
    .function = code_of(g, TAGC_TRACE_FUNCTIONS, r->function), .reason = code_of(g, TAGC_TRACE_REASONS, r->reason),
    .type = code_of(g, TAGC_TRACE_TYPES, r->type), .op = code_of(g, TAGC_TRACE_OPS, r->op),
    .compressed = named(g, TAGC_TRACE_ACTIONS, code_of(g, TAGC_TRACE_ACTIONS, r->action), "compress"),
    .failed = (r->flags & TAGC_TRACE_FAILED) != 0,
  };
  size_t sort = sort_of(g, &key);
  if (sort == SIZE_MAX || !TAGC_SUM_ROOM(g->lights, g->light_count) || g->light_count >= UINT32_MAX - 1) {
    g->no_memory = true;
    return;
  }
  struct tagc_sum_calls *calls = &g->sorts[sort].calls;
  calls->calls++;
  tagc_sum_add(&calls->host_ns, r->host_ns);
  g->lights[g->light_count++] = (struct light){.began_ns = r->began_ns, .host_ns = r->host_ns, .sort = (uint32_t)sort,
                                               .number = (uint32_t)r->number, .cycle = r->lock ? (uint32_t)r->cycle : 0};
  g->recent[r->number % RECENT] = (uint32_t)g->light_count;
  if (g->early[r->number % EARLY].call == r->number && r->number)
    time_call(g, &g->lights[g->light_count - 1], &g->early[r->number % EARLY]);
  rank->first_ns = rank->last_ns && rank->first_ns < r->began_ns ? rank->first_ns : r->began_ns;
  rank->last_ns = rank->last_ns > r->began_ns + r->host_ns ? rank->last_ns : r->began_ns + r->host_ns;
}

static void take_cycle(struct gather *g, const struct tagc_trace_cycle *r)
{
  uint32_t comm = comm_of(g, r->record.comm);
  if (comm == UINT32_MAX || r->ended_ns < r->began_ns || r->ended_ns - r->began_ns > NS_MOST || !r->cycle || r->side >= TAGC_SUM_SIDES) {
    g->part->absurd++;
    return;
  }
  if (!TAGC_SUM_ROOM(g->cycles, g->cycle_count)) {
    g->no_memory = true;
    return;
  }
  g->cycles[g->cycle_count++] = (struct cycle){
    .comm = comm, .lock = r->lock, .first = UINT64_MAX,
    .step = {.cycle = r->cycle, .began_ns = r->began_ns, .ns = r->ended_ns - r->began_ns, .lock = r->lock,
             .side = (uint8_t)r->side, .whole = !r->disturbed}};
}

static void take_process(struct gather *g, const struct tagc_trace_process *r)
{
  struct tagc_sum_rank *rank = &g->part->rank;
  set_text(g, &rank->host, tagc_trace_text(&r->record, r->text, 0));
  set_text(g, &rank->program, tagc_trace_text(&r->record, r->text, 1));
  set_text(g, &rank->version, tagc_trace_text(&r->record, r->text, 2));
  rank->pid = r->pid;
  rank->nccl_version = r->nccl_version ? r->nccl_version : rank->nccl_version;
  rank->clock_ns = (int64_t)((uint64_t)r->realtime_ns - r->monotonic_ns);
  g->part->realtime_ns = r->realtime_ns;
}

static void take(struct gather *g, const struct tagc_trace_record *r)
{
  switch ((enum tagc_trace_kind)r->kind) {
  case TAGC_TRACE_CALL: take_call(g, (const void *)r); break;
  case TAGC_TRACE_TIMES: take_times(g, (const void *)r); break;
  case TAGC_TRACE_CYCLE: take_cycle(g, (const void *)r); break;
  case TAGC_TRACE_STATE: take_state(g, (const void *)r); break;
  case TAGC_TRACE_PROCESS: take_process(g, (const void *)r); break;
  case TAGC_TRACE_NAME: take_name(g, (const void *)r); break;
  case TAGC_TRACE_OPTIONS: set_text(g, &g->part->rank.options, ((const struct tagc_trace_options *)r)->text); break;
  case TAGC_TRACE_COMM: take_comm(g, (const void *)r); break;
  case TAGC_TRACE_COMM_END: take_comm_end(g, (const void *)r); break;
  case TAGC_TRACE_LOCK: take_lock(g, (const void *)r); break;
  case TAGC_TRACE_SLOT: take_slot(g, (const void *)r); break;
  case TAGC_TRACE_END: break;
  }
}

/* -- steps --------------------------------------------------------------------------------------------------------------- */

/* The communicator with gradients, else with cycles, whose calls have most bytes. */
static void choose_main(struct gather *g)
{
  struct tagc_part *p = g->part;
  unsigned char *cycles = calloc(p->comm_count + 1, 1);
  g->no_memory |= !cycles;
  p->main = SIZE_MAX;
  if (!cycles)
    return;
  for (size_t i = 0; i < g->cycle_count; i++)
    cycles[g->cycles[i].comm] = 1;
  for (size_t i = 0; i < p->comm_count; i++) {
    const struct tagc_sum_comm *c = &p->comms[i], *best = p->main == SIZE_MAX ? NULL : &p->comms[p->main];
    if (cycles[i] && (!best || (c->gradients != best->gradients ? c->gradients : c->calls.raw_bytes > best->calls.raw_bytes)))
      p->main = i;
  }
  free(cycles);
}

static int by_begin(const void *a, const void *b)
{
  const struct cycle *x = a, *y = b;
  return (x->step.began_ns > y->step.began_ns) - (x->step.began_ns < y->step.began_ns);
}

/* Only the cycles of the main one, in their order. */
static void order_cycles(struct gather *g)
{
  size_t count = 0;
  for (size_t i = 0; i < g->cycle_count; i++)
    if (g->cycles[i].comm == g->part->main)
      g->cycles[count++] = g->cycles[i];
  g->cycle_count = count;
  if (count > 1)
    qsort(g->cycles, count, sizeof *g->cycles, by_begin);
  for (size_t i = count = 0; i < g->cycle_count; i++) {
    const struct cycle *last = count ? &g->cycles[count - 1] : NULL, *next = &g->cycles[i];
    if (last && (next->lock < last->lock || (next->lock == last->lock && next->step.cycle <= last->step.cycle)))
      g->part->backwards++;
    else
      g->cycles[count++] = *next;
  }
  g->cycle_count = count;
}

/* The step in which something began at that time; NULL: none. Times mostly grow, so that the step is near that of the last question. */
static struct cycle *step_at(struct gather *g, uint64_t ns, size_t *near)
{
  size_t low_end = 0, high = g->cycle_count;
  if (*near < high && g->cycles[*near].step.began_ns <= ns && (*near + 1 == high || ns < g->cycles[*near + 1].step.began_ns))
    low_end = *near;
  else
    while (high - low_end > 1) {
      size_t middle = low_end + (high - low_end) / 2;
      *(g->cycles[middle].step.began_ns <= ns ? &low_end : &high) = middle;
    }
  *near = low_end;
  struct cycle *c = &g->cycles[low_end];
  return ns >= c->step.began_ns && ns - c->step.began_ns < c->step.ns + (c->step.ns == 0) ? c : NULL;
}

/* A call of the main communicator that knows its cycle: that is the truth, as steps may end a moment before the last call does. */
static struct cycle *step_of(struct gather *g, const struct light *light, size_t *near)
{
  struct cycle *c = g->cycle_count ? step_at(g, light->began_ns, near) : NULL;
  if (!light->cycle || g->sorts[light->sort].key.comm != g->part->main || !g->cycle_count)
    return c;
  size_t from = *near > 0 ? *near - 1 : 0;
  for (size_t i = from; i < g->cycle_count && i <= from + 2; i++)
    if ((uint32_t)g->cycles[i].step.cycle == light->cycle)
      return &g->cycles[i];
  return NULL;
}

static void add_to_step(struct cycle *c, const struct light *light, const struct sort_key *key, bool own)
{
  struct tagc_sum_step *s = &c->step;
  s->calls++;
  c->own += own;
  c->first = light->number < c->first ? light->number : c->first;
  c->last = light->number > c->last ? light->number : c->last;
  tagc_sum_add(&s->sent.inside, key->sent.inside);
  tagc_sum_add(&s->sent.between, key->sent.between);
  tagc_sum_add(&s->plain.inside, key->plain.inside);
  tagc_sum_add(&s->plain.between, key->plain.between);
  tagc_sum_add(&s->raw_bytes, key->raw_bytes);
  tagc_sum_add(&s->host_ns, light->host_ns);
  tagc_sum_add(&s->wire_ns, light->wire_ns);
}

/* Are all of its calls there? Where nothing was lost nobody asks for their numbers, which threads may take in another order. */
static bool is_complete(const struct gather *g, const struct cycle *c, bool lossy)
{
  for (size_t i = g->lock_count; i-- > 0;)
    if (g->locks[i].comm == c->comm && g->locks[i].lock == c->lock)
      return c->own >= g->locks[i].calls && (!lossy || c->last - c->first + 1 == c->step.calls);
  return !lossy;
}

static void add_to_whole(struct gather *g, const struct light *light)
{
  struct tagc_sum_calls *w = &g->sorts[light->sort].whole;
  w->calls++;
  tagc_sum_add(&w->host_ns, light->host_ns);
  w->wire_calls += light->timed;
  tagc_sum_add(&w->wire_ns, light->wire_ns);
  tagc_sum_add(&w->encode_ns, light->encode_ns);
  tagc_sum_add(&w->decode_ns, light->decode_ns);
}

static void make_steps(struct gather *g)
{
  struct tagc_part *p = g->part;
  const struct tagc_trace_health *h = &p->rank.health;
  bool lossy = h->dropped || h->damaged_chunks || h->refused_records || p->absurd;
  size_t near = 0;
  if (p->main == SIZE_MAX)
    return;
  order_cycles(g);
  for (size_t i = 0; i < g->light_count; i++) {
    struct cycle *c = step_of(g, &g->lights[i], &near);
    const struct sort_key *key = &g->sorts[g->lights[i].sort].key;
    if (c)
      add_to_step(c, &g->lights[i], key, key->comm == p->main && g->lights[i].cycle);
  }
  p->rank.steps = calloc(g->cycle_count + 1, sizeof *p->rank.steps);
  g->no_memory |= !p->rank.steps;
  for (size_t i = 0; p->rank.steps && i < g->cycle_count; i++) {
    struct cycle *c = &g->cycles[i];
    c->step.whole = c->step.whole && c->step.calls && is_complete(g, c, lossy);
    p->steps_whole += c->step.whole;
    p->rank.steps[p->rank.step_count++] = c->step;
  }
  for (size_t i = near = 0; i < g->light_count; i++) {
    const struct cycle *c = step_of(g, &g->lights[i], &near);
    if (c && c->step.whole)
      add_to_whole(g, &g->lights[i]);
  }
}

/* -- sums ---------------------------------------------------------------------------------------------------------------- */

/* Of calls that are alike: what is the same of all of them, times how many they are. */
static void multiply(struct tagc_sum_calls *calls, const struct sort_key *key)
{
  uint64_t n = calls->calls;
  calls->compressed = key->compressed ? n : 0;
  calls->failed = key->failed ? n : 0;
  uint64_t *const to[] = {&calls->raw_bytes, &calls->sent.inside, &calls->sent.between, &calls->plain.inside, &calls->plain.between};
  const uint64_t each[] = {key->raw_bytes, key->sent.inside, key->sent.between, key->plain.inside, key->plain.between};
  for (int i = 0; i < 5; i++)
    if (__builtin_mul_overflow(each[i], n, to[i]))
      *to[i] = UINT64_MAX;
}

static int size_class(const struct sort_key *key) { return key->raw_bytes ? 63 - __builtin_clzll(key->raw_bytes) : -1; }

static int by_line(const void *a, const void *b)
{
  const struct sort_key *x = &((const struct sort *)a)->key, *y = &((const struct sort *)b)->key;
  return x->comm != y->comm           ? (x->comm > y->comm) - (x->comm < y->comm)
         : x->function != y->function ? x->function - y->function
         : x->type != y->type         ? x->type - y->type
         : x->op != y->op             ? x->op - y->op
                                      : size_class(x) - size_class(y);
}

/* `last`: the sort before this one, in the order of lines; NULL: none. */
static void add_line(struct gather *g, struct tagc_sum_comm *c, const struct sort *s, const struct sort *last)
{
  if (!last || by_line(last, s) != 0) {
    if (!TAGC_SUM_ROOM(c->lines, c->line_count)) {
      g->no_memory = true;
      return;
    }
    c->lines[c->line_count++] =
      (struct tagc_sum_line){.function = s->key.function, .type = s->key.type, .op = s->key.op, .least_count = UINT64_MAX,
                             .size_class = (int8_t)size_class(&s->key), .per_step = NAN};
  }
  struct tagc_sum_line *line = &c->lines[c->line_count - 1];
  tagc_sum_add_calls(&line->calls, &s->calls);
  tagc_sum_add_calls(&line->whole, &s->whole);
  line->least_count = s->key.count < line->least_count ? s->key.count : line->least_count;
  line->most_count = s->key.count > line->most_count ? s->key.count : line->most_count;
}

static enum tagc_sum_way way_of(int from, int to, int nranks)
{
  return to == from + 1                                 ? TAGC_WAY_ON
         : to == from - 1                               ? TAGC_WAY_BACK
         : nranks > 2 && from == nranks - 1 && to == 0  ? TAGC_WAY_ROUND_ON
         : nranks > 2 && from == 0 && to == nranks - 1  ? TAGC_WAY_ROUND_BACK
                                                        : TAGC_WAY_ACROSS;
}

/* What steps need is summed before them, the rest behind. */
static void add_bytes(struct gather *g)
{
  for (size_t i = 0; i < g->sort_count; i++) {
    struct sort *s = &g->sorts[i];
    multiply(&s->calls, &s->key);
    tagc_sum_add_calls(&g->part->rank.calls, &s->calls);
    if (s->key.comm != UINT32_MAX)
      tagc_sum_add_calls(&g->part->comms[s->key.comm].calls, &s->calls);
  }
}

static void add_details(struct gather *g)
{
  if (g->sort_count)
    qsort(g->sorts, g->sort_count, sizeof *g->sorts, by_line);
  for (size_t i = 0; i < g->sort_count && !g->no_memory; i++) {
    struct sort *s = &g->sorts[i];
    multiply(&s->whole, &s->key);
    if (s->key.comm == UINT32_MAX)
      continue;
    struct tagc_sum_comm *c = &g->part->comms[s->key.comm];
    int as = c->members[0].as;
    add_line(g, c, s, i ? s - 1 : NULL);
    if (named(g, TAGC_TRACE_FUNCTIONS, s->key.function, "ncclReduceScatter"))
      tagc_sum_add(&c->reasons[s->key.reason], s->calls.calls);
    else if (named(g, TAGC_TRACE_FUNCTIONS, s->key.function, "ncclSend") && as >= 0 && s->key.peer >= 0 && s->key.peer < c->nranks)
      tagc_sum_add(&c->sends[way_of(as, s->key.peer, c->nranks)], s->calls.calls);
    if (s->key.slot >= 0 && s->key.lock) {
      struct tagc_sum_slot *slot = slot_of(g, s->key.comm, s->key.lock, (uint32_t)s->key.slot);
      if (slot)
        tagc_sum_add_calls(&slot->calls, &s->calls);
    }
  }
}

/* -- the file ------------------------------------------------------------------------------------------------------------ */

static void gather_free(struct gather *g)
{
  tagc_table_free(&g->comm_table);
  tagc_table_free(&g->sort_table);
  tagc_table_free(&g->slot_table);
  free(g->sorts);
  free(g->lights);
  free(g->cycles);
  free(g->locks);
  free(g->places);
  free(g);
}

bool tagc_part_gather(struct tagc_part *part, struct tagc_trace_file *file, struct tagc_sum_names *names)
{
  struct gather *g = calloc(1, sizeof *g);
  const struct tagc_trace_record *record;
  if (!g)
    return false;
  g->part = part;
  g->names = names;
  for (int table = 0; table <= TAGC_TRACE_OPS; table++)
    for (int i = 0; i < CODES; i++)
      g->code[table][i] = (uint8_t)i;
  part->main = SIZE_MAX;
  while (!g->no_memory && (record = tagc_trace_next(file)))
    take(g, record);
  part->rank.health = *tagc_trace_health(file);
  part->rank.blocking = g->timed && !g->timed_by_device;
  add_bytes(g);
  choose_main(g);
  if (!g->no_memory)
    make_steps(g);
  add_details(g);
  char **const texts[] = {&part->rank.host, &part->rank.program, &part->rank.version, &part->rank.options};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!*texts[i])
      set_text(g, texts[i], "");
  bool done = !g->no_memory;
  gather_free(g);
  return done;
}

void tagc_part_free(struct tagc_part *part)
{
  for (size_t i = 0; i < part->comm_count; i++)
    tagc_sum_comm_free(&part->comms[i]);
  free(part->comms);
  tagc_sum_rank_free(&part->rank);
  *part = (struct tagc_part){0};
}
