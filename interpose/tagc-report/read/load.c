/* SPDX-License-Identifier: BSD-3-Clause
 * Reads one trace into sums, in one pass; see merge.h. Here: names, communicators, slots and samples.
 */
#include "interpose/tagc-report/read/load.h"

#include <stdlib.h>
#include <string.h>

#include "env/program/terminal.h"

enum { POINTS = 2 * TAGC_SUM_POINTS, COMMS_MOST = 1 << 16, CHOICES_MOST = 1 << 12 };

/* -- names and texts ----------------------------------------------------------------------------------------------- */

static char *copy_text(struct tagc_load *g, const char *text) {
  char *copy = strdup(text);
  g->no_memory |= !copy;
  if (copy)
    tagc_tame(copy, '\0');
  return copy;
}

static void set_text(struct tagc_load *g, char **to, const char *text) {
  free(*to);
  *to = copy_text(g, text);
}

/* Other versions of the library may use other codes: the summary has those of the first file. */
static void take_name(struct tagc_load *g, const struct tagc_trace_name *r) {
  if (r->table < TAGC_TRACE_FUNCTIONS || r->table > TAGC_TRACE_OPS || r->code >= TAGC_LOAD_CODES) {
    g->part->absurd++;
    return;
  }
  char **texts = g->names->text[r->table];
  unsigned code = r->code;
  for (unsigned i = 0; i < TAGC_LOAD_CODES; i++)
    if (texts[i] && strcmp(texts[i], r->text) == 0) {
      g->part->rank.code[r->table][r->code] = (uint8_t)i;
      return;
    }
  for (unsigned i = 0; texts[code] && i < TAGC_LOAD_CODES; i++)
    code = (code + 1) % TAGC_LOAD_CODES;
  if (texts[code])
    return; /* all are taken; it keeps its number */
  texts[code] = copy_text(g, r->text);
  g->part->rank.code[r->table][r->code] = (uint8_t)code;
}

uint8_t tagc_load_code(const struct tagc_load *g, enum tagc_trace_table table, uint16_t code) {
  return tagc_sum_code(&g->part->rank, table, code);
}

bool tagc_load_named(const struct tagc_load *g, enum tagc_trace_table table, uint16_t code, const char *name) {
  const char *text = code < TAGC_LOAD_CODES ? g->names->text[table][code] : NULL;
  return text && tagc_sum_same(table, text, name);
}

/* -- communicators and slots --------------------------------------------------------------------------------------- */

static bool same_comm(const void *array, size_t place, const void *key) {
  return ((const struct tagc_sum_comm *)array)[place].members[0].id == *(const uint32_t *)key;
}

uint32_t tagc_load_comm(struct tagc_load *g, uint32_t id) {
  struct tagc_part *p = g->part;
  bool added;
  if (id == 0)
    return UINT32_MAX;
  if (p->comm_count >= COMMS_MOST) {
    p->absurd++;
    return UINT32_MAX;
  }
  if (!TAGC_SUM_ROOM(p->comms, p->comm_count) || !TAGC_SUM_ROOM(g->comm_hosts, p->comm_count)) {
    g->no_memory = true;
    return UINT32_MAX;
  }
  size_t place =
    tagc_table_place(&g->comm_table, tagc_table_mix(0, id), p->comms, &id, same_comm, p->comm_count, &added);
  if (place == SIZE_MAX)
    g->no_memory = true;
  else if (added) {
    struct tagc_sum_member *member = calloc(1, sizeof *member);
    g->comm_hosts[place] = (struct tagc_comm_hosts){0};
    p->comms[place] = (struct tagc_sum_comm){.number = UINT32_MAX, .nranks = -1, .members = member, .member_count = 1};
    p->comm_count++;
    if (member)
      *member = (struct tagc_sum_member){.id = id, .as = -1};
    g->no_memory |= !member;
  }
  return g->no_memory ? UINT32_MAX : (uint32_t)place;
}

static void take_comm(struct tagc_load *g, const struct tagc_trace_comm *r) {
  uint32_t index = tagc_load_comm(g, r->record.comm);
  if (index == UINT32_MAX)
    return;
  struct tagc_sum_comm *c = &g->part->comms[index];
  struct tagc_sum_member *m = c->members;
  bool sane =
    r->nranks >= 1 && r->nranks <= 1 << 24 && r->rank >= -1 && r->rank < r->nranks && r->hosts <= (uint32_t)r->nranks;
  if (!sane && r->nranks != -1)
    g->part->absurd++;
  if (sane) {
    c->nranks = r->nranks;
    c->hosts = r->hosts;
    m->as = r->rank;
  }
  c->identity = r->identity;
  g->comm_hosts[index] = tagc_placement_of(g->placement, r->identity, g->part->host);
  c->hosts = c->hosts ? c->hosts : g->comm_hosts[index].hosts;
  c->number = r->number;
  c->unknown |= r->unknown == 1;
  g->part->rank.blocking |= r->on_host == 1;
  m->born_ns = r->born_ns;
  m->born_by = tagc_load_code(g, TAGC_TRACE_FUNCTIONS, r->function);
}

static void take_comm_end(struct tagc_load *g, const struct tagc_trace_comm_end *r) {
  uint32_t index = tagc_load_comm(g, r->record.comm);
  if (index == UINT32_MAX)
    return;
  g->part->comms[index].members[0].ended_ns = r->at_ns;
  g->part->comms[index].members[0].ended_by = tagc_load_code(g, TAGC_TRACE_FUNCTIONS, r->function);
}

static bool same_slot(const void *array, size_t place, const void *key) {
  const struct tagc_slot_place *a = (const struct tagc_slot_place *)array + place, *b = key;
  return a->comm == b->comm && a->lock == b->lock && a->slot == b->slot;
}

struct tagc_sum_slot *tagc_load_slot(struct tagc_load *g, uint32_t comm, uint32_t lock, uint32_t slot) {
  struct tagc_slot_place key = {comm, lock, slot, 0};
  struct tagc_sum_comm *c = &g->part->comms[comm];
  bool added;
  const bool allgathers = slot >= TAGC_LOAD_ALLGATHER;
  struct tagc_sum_slot **list = allgathers ? &c->allgathers : &c->slots;
  size_t *count = allgathers ? &c->allgather_count : &c->slot_count;
  if (!TAGC_SUM_ROOM(g->places, g->place_count) || !TAGC_SUM_ROOM(*list, *count)) {
    g->no_memory = true;
    return NULL;
  }
  size_t place = tagc_table_place(&g->slot_table, tagc_table_mix(tagc_table_mix(comm, lock), slot), g->places, &key,
                                  same_slot, g->place_count, &added);
  if (place == SIZE_MAX) {
    g->no_memory = true;
    return NULL;
  }
  if (added) {
    key.place = (uint32_t)(*count)++;
    g->places[g->place_count++] = key;
    (*list)[key.place] = (struct tagc_sum_slot){.lock = lock,
                                                .slot = slot % TAGC_LOAD_ALLGATHER,
                                                .of = UINT32_MAX,
                                                .kind = TAGC_TRACE_OTHER,
                                                .name = copy_text(g, ""),
                                                .codec = copy_text(g, "")};
  }
  return g->no_memory ? NULL : &(*list)[g->places[place].place];
}

/* Records a vote's choice. A second one for the same cycle replaces the first. */
static void note_choice(struct tagc_load *g, uint32_t comm, struct tagc_sum_slot *s, const char *codec) {
  const uint64_t cycle = g->vote.comm == comm && g->vote.lock == s->lock ? g->vote.cycle : 0;
  struct tagc_sum_choice *last = s->choice_count ? &s->choices[s->choice_count - 1] : NULL;
  set_text(g, &s->codec, codec);
  if (!s->voted)
    return;
  if (last && last->cycle < cycle && s->codec && last->codec && strcmp(last->codec, s->codec) != 0)
    last = NULL;
  if (!last && (s->choice_count >= CHOICES_MOST || !TAGC_SUM_ROOM(s->choices, s->choice_count))) {
    g->part->absurd += s->choice_count >= CHOICES_MOST;
    g->no_memory |= s->choice_count < CHOICES_MOST;
    return;
  }
  if (!last) {
    last = &s->choices[s->choice_count++];
    *last = (struct tagc_sum_choice){.cycle = cycle};
  }
  set_text(g, &last->codec, codec);
  last->reason = s->reason;
}

static void take_slot(struct tagc_load *g, const struct tagc_trace_slot *r) {
  uint32_t comm = tagc_load_comm(g, r->record.comm);
  bool sane = r->count <= TAGC_ELEMENTS_MOST && r->selected <= TAGC_ELEMENTS_MOST && r->lock && r->slot <= INT32_MAX;
  for (int i = 0; i < TAGC_TRACE_PARTS; i++)
    sane = sane && r->part[i] <= TAGC_ELEMENTS_MOST;
  if (comm == UINT32_MAX || !sane) {
    g->part->absurd++;
    return;
  }
  struct tagc_sum_slot *s = tagc_load_slot(g, comm, r->lock, r->slot);
  if (!s)
    return;
  set_text(g, &s->name, tagc_trace_text(&r->record, r->text, 0));
  s->all_reduce = strcmp(tagc_trace_text(&r->record, r->text, 2), "ncclAllReduce") == 0;
  g->part->comms[comm].all_reduces |= s->all_reduce;
  s->unit = r->unit;
  s->pass = r->pass;
  s->count = r->count;
  s->selected = r->selected;
  s->type = tagc_load_code(g, TAGC_TRACE_TYPES, r->type);
  s->reason = tagc_load_code(g, TAGC_TRACE_REASONS, r->reason);
  s->voted = r->voted;
  note_choice(g, comm, s, tagc_trace_text(&r->record, r->text, 1));
  s->parts_known = false;
  memcpy(s->part, r->part, sizeof s->part);
  for (int i = 0; i < TAGC_TRACE_PARTS; i++)
    if (r->part[i]) {
      s->kind = !s->parts_known || r->part[i] > r->part[s->kind] ? (enum tagc_trace_part)i : s->kind;
      s->parts_known = true;
    }
}

static void take_allgather(struct tagc_load *g, const struct tagc_trace_allgather *r) {
  uint32_t comm = tagc_load_comm(g, r->record.comm);
  if (comm == UINT32_MAX || r->count > TAGC_ELEMENTS_MOST || !r->lock || !r->allgather || r->allgather > INT32_MAX ||
      r->slot > INT32_MAX) {
    g->part->absurd++;
    return;
  }
  struct tagc_sum_slot *s = tagc_load_slot(g, comm, r->lock, TAGC_LOAD_ALLGATHER + r->allgather);
  if (!s)
    return;
  s->of = r->slot;
  s->again = r->again;
  s->count = r->count;
  s->type = tagc_load_code(g, TAGC_TRACE_TYPES, r->type);
  s->reason = tagc_load_code(g, TAGC_TRACE_REASONS, r->reason);
  s->voted = r->voted;
  note_choice(g, comm, s, tagc_trace_text(&r->record, r->text, 0));
}

static void take_vote(struct tagc_load *g, const struct tagc_trace_vote *r) {
  uint32_t comm = tagc_load_comm(g, r->record.comm);
  if (comm == UINT32_MAX || !r->lock || g->part->comms[comm].vote_count >= CHOICES_MOST) {
    g->part->absurd++;
    return;
  }
  struct tagc_sum_comm *c = &g->part->comms[comm];
  char *why = copy_text(g, tagc_trace_text(&r->record, r->text, 0));
  if (!why || !TAGC_SUM_ROOM(c->votes, c->vote_count)) {
    g->no_memory = true;
    free(why);
    return;
  }
  c->votes[c->vote_count++] = (struct tagc_sum_vote){r->lock, r->vote, r->cycle, r->at_ns, why};
  g->vote.comm = comm;
  g->vote.lock = r->lock;
  g->vote.cycle = r->cycle;
}

static void take_lock_record(struct tagc_load *g, const struct tagc_trace_lock *r) {
  uint32_t comm = tagc_load_comm(g, r->record.comm);
  if (comm == UINT32_MAX || r->confidence > 100 || !TAGC_SUM_ROOM(g->locks, g->lock_count)) {
    g->part->absurd++;
    return;
  }
  struct tagc_sum_comm *c = &g->part->comms[comm];
  g->locks[g->lock_count++] = (struct tagc_load_lock){comm, r->lock, r->calls};
  if (r->slots == 0 && c->layers)
    return; /* given up: its earlier facts stay */
  c->last_lock = r->lock;
  c->gradients = r->gradients;
  c->confidence = r->confidence;
  set_text(g, &c->layers, tagc_trace_text(&r->record, r->text, 0));
  set_text(g, &c->or_layers, tagc_trace_text(&r->record, r->text, 1));
}

/* Adds a sample of a slot; of too many it keeps every second one. */
static void take_state_record(struct tagc_load *g, const struct tagc_trace_state *r) {
  uint32_t comm = tagc_load_comm(g, r->record.comm);
  if (comm == UINT32_MAX || !r->lock || r->slot > INT32_MAX || r->allgather > INT32_MAX) {
    g->part->absurd++;
    return;
  }
  struct tagc_sum_slot *s =
    tagc_load_slot(g, comm, r->lock, r->allgather ? TAGC_LOAD_ALLGATHER + r->allgather : r->slot);
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

static void take_cycle(struct tagc_load *g, const struct tagc_trace_cycle *r) {
  uint32_t comm = tagc_load_comm(g, r->record.comm);
  if (comm == UINT32_MAX || r->ended_ns < r->began_ns || r->ended_ns - r->began_ns > TAGC_NS_MOST || !r->cycle ||
      r->side >= TAGC_SUM_SIDES) {
    g->part->absurd++;
    return;
  }
  if (!TAGC_SUM_ROOM(g->cycles, g->cycle_count)) {
    g->no_memory = true;
    return;
  }
  g->cycles[g->cycle_count++] = (struct tagc_load_cycle){.comm = comm,
                                                         .lock = r->lock,
                                                         .first = UINT64_MAX,
                                                         .step = {.cycle = r->cycle,
                                                                  .began_ns = r->began_ns,
                                                                  .ns = r->ended_ns - r->began_ns,
                                                                  .lock = r->lock,
                                                                  .side = (uint8_t)r->side,
                                                                  .whole = !r->disturbed}};
}

/* One line per option. */
static void take_options(struct tagc_load *g, const struct tagc_trace_options *r) {
  char **options = &g->part->rank.options;
  free(*options);
  *options = strdup(r->text);
  g->no_memory |= !*options;
  if (*options)
    tagc_tame(*options, '\n');
}

static void take_process(struct tagc_load *g, const struct tagc_trace_process *r) {
  struct tagc_sum_rank *rank = &g->part->rank;
  set_text(g, &rank->host, tagc_trace_text(&r->record, r->text, 0));
  set_text(g, &rank->program, tagc_trace_text(&r->record, r->text, 1));
  set_text(g, &rank->version, tagc_trace_text(&r->record, r->text, 2));
  rank->pid = r->pid;
  rank->nccl_version = r->nccl_version ? r->nccl_version : rank->nccl_version;
  rank->clock_ns = (int64_t)((uint64_t)r->realtime_ns - r->monotonic_ns);
  g->part->realtime_ns = r->realtime_ns;
  g->part->host = tagc_placement_host(r);
}

static void take_record(struct tagc_load *g, const struct tagc_trace_record *r) {
  switch ((enum tagc_trace_kind)r->kind) {
  case TAGC_TRACE_CALL: tagc_load_call(g, (const void *)r); break;
  case TAGC_TRACE_TIMES: tagc_load_times(g, (const void *)r); break;
  case TAGC_TRACE_PROFILE: tagc_load_profile(g, (const void *)r); break;
  case TAGC_TRACE_CYCLE: take_cycle(g, (const void *)r); break;
  case TAGC_TRACE_STATE: take_state_record(g, (const void *)r); break;
  case TAGC_TRACE_PROCESS: take_process(g, (const void *)r); break;
  case TAGC_TRACE_NAME: take_name(g, (const void *)r); break;
  case TAGC_TRACE_OPTIONS: take_options(g, (const void *)r); break;
  case TAGC_TRACE_COMM: take_comm(g, (const void *)r); break;
  case TAGC_TRACE_COMM_END: take_comm_end(g, (const void *)r); break;
  case TAGC_TRACE_LOCK: take_lock_record(g, (const void *)r); break;
  case TAGC_TRACE_SLOT: take_slot(g, (const void *)r); break;
  case TAGC_TRACE_ALLGATHER: take_allgather(g, (const void *)r); break;
  case TAGC_TRACE_VOTE: take_vote(g, (const void *)r); break;
  case TAGC_TRACE_END:
  case TAGC_TRACE_KINDS: break;
  }
}

/* -- the file ------------------------------------------------------------------------------------------------------ */

static void load_free(struct tagc_load *g) {
  tagc_table_free(&g->comm_table);
  tagc_table_free(&g->sort_table);
  tagc_table_free(&g->slot_table);
  free(g->sorts);
  free(g->lights);
  free(g->profiles);
  free(g->cycles);
  free(g->locks);
  free(g->groups);
  free(g->places);
  free(g->comm_hosts);
  free(g);
}

bool tagc_part_load(struct tagc_part *part, struct tagc_trace_file *file, struct tagc_sum_names *names,
                    const struct tagc_placement *placement) {
  struct tagc_load *g = calloc(1, sizeof *g);
  const struct tagc_trace_record *record;
  if (!g)
    return false;
  g->part = part;
  g->names = names;
  g->placement = placement;
  for (int table = 0; table <= TAGC_TRACE_OPS; table++)
    for (int i = 0; i < TAGC_LOAD_CODES; i++)
      part->rank.code[table][i] = (uint8_t)i;
  part->main = SIZE_MAX;
  while (!g->no_memory && (record = tagc_trace_next(file)))
    take_record(g, record);
  part->rank.health = *tagc_trace_health(file);
  tagc_load_bytes(g);
  tagc_load_steps(g);
  tagc_load_groups(g);
  tagc_load_details(g);
  char **const texts[] = {&part->rank.host, &part->rank.program, &part->rank.version, &part->rank.options};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!*texts[i])
      set_text(g, texts[i], "");
  bool done = !g->no_memory;
  load_free(g);
  return done;
}

void tagc_part_free(struct tagc_part *part) {
  for (size_t i = 0; i < part->comm_count; i++)
    tagc_sum_comm_free(&part->comms[i]);
  free(part->comms);
  tagc_sum_rank_free(&part->rank);
  *part = (struct tagc_part){0};
}
