/* SPDX-License-Identifier: BSD-3-Clause
 * Merges the traces of a job; see merge.h.
 */
#include "interpose/tagc-report/read/merge.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "interpose/tagc-report/read/table.h"

/* A communicator of some part. */
struct place {
  size_t part, comm;
};

static const struct tagc_sum_comm *comm_at(const struct tagc_part *parts, struct place at) {
  return &parts[at.part].comms[at.comm];
}

/* -- which communicators are one ----------------------------------------------------------------------------------- */

/* A communicator while it is merged, with the places of its members. */
struct whole {
  uint64_t identity;
  int nranks;
  struct place *members;
  size_t count;
  uint64_t raw_bytes;
  struct tagc_sum_sent sent;
  bool is_main; /* of some part */
  size_t first; /* in order of appearance */
};

struct wholes {
  struct whole *all;
  size_t count;
  struct tagc_table table;
};

/* Communicators without identity: the n-th of a size matches the n-th of that size in other parts. `variant` separates
 * those that have the same rank. */
struct whole_key {
  uint64_t identity, nranks, nth, variant;
};

static bool same_whole(const void *array, size_t place, const void *key) {
  const struct whole_key *k = &((const struct whole_key *)array)[place], *b = key;
  return k->identity == b->identity && k->nranks == b->nranks && k->nth == b->nth && k->variant == b->variant;
}

static bool add_member(struct whole *w, const struct tagc_part *parts, struct place at) {
  const struct tagc_sum_comm *c = comm_at(parts, at);
  if (!TAGC_SUM_ROOM(w->members, w->count))
    return false;
  w->members[w->count++] = at;
  w->nranks = w->nranks < 0 ? c->nranks : w->nranks;
  w->is_main |= parts[at.part].main == at.comm;
  tagc_sum_add(&w->raw_bytes, c->calls.raw_bytes);
  tagc_sum_add(&w->sent.inside, c->calls.sent.inside);
  tagc_sum_add(&w->sent.between, c->calls.sent.between);
  return true;
}

/* Communicators of a part without an identity, by their sizes. */
struct nameless {
  struct tagc_table table;
  struct sized {
    int nranks;
    uint64_t count;
  } * sizes;
  size_t size_count;
};

static bool same_size(const void *array, size_t place, const void *key) {
  return ((const struct sized *)array)[place].nranks == *(const int *)key;
}

/* Counts one more of that size: it is the n-th. 0: no memory. */
static uint64_t count_nameless(struct nameless *n, int nranks) {
  bool added;
  if (!TAGC_SUM_ROOM(n->sizes, n->size_count))
    return 0;
  const size_t place = tagc_table_place(&n->table, tagc_table_mix(0, (uint64_t)nranks), n->sizes, &nranks, same_size,
                                        n->size_count, &added);
  if (place == SIZE_MAX)
    return 0;
  if (added)
    n->sizes[n->size_count++] = (struct sized){nranks, 0};
  return ++n->sizes[place].count;
}

static void nameless_free(struct nameless *n) {
  tagc_table_free(&n->table);
  free(n->sizes);
}

static bool whole_has_rank(const struct whole *w, const struct tagc_part *parts, int as) {
  for (size_t i = 0; i < w->count; i++)
    if (comm_at(parts, w->members[i])->members[0].as == as)
      return true;
  return false;
}

/* Finds or begins the whole of a communicator. SIZE_MAX: no memory. `nth`: among its part's nameless ones alike. */
static size_t whole_of(struct wholes *ws, struct whole_key **keys, const struct tagc_part *parts, struct place at,
                       uint64_t nth) {
  const struct tagc_sum_comm *c = comm_at(parts, at);
  struct whole_key key = {c->identity, c->identity ? 0 : (uint64_t)c->nranks, nth, 0};
  for (bool added;; key.variant++) {
    if (!TAGC_SUM_ROOM(*keys, ws->count) || !TAGC_SUM_ROOM(ws->all, ws->count))
      return SIZE_MAX;
    uint64_t hash = tagc_table_mix(tagc_table_mix(tagc_table_mix(key.identity, key.nranks), key.nth), key.variant);
    size_t place = tagc_table_place(&ws->table, hash, *keys, &key, same_whole, ws->count, &added);
    if (place == SIZE_MAX)
      return place;
    if (added) {
      (*keys)[place] = key;
      ws->all[ws->count++] = (struct whole){.identity = c->identity, .nranks = -1, .first = place};
    }
    if (c->identity || !whole_has_rank(&ws->all[place], parts, c->members[0].as))
      return place;
  }
}

static bool find_wholes(struct wholes *ws, const struct tagc_part *parts, size_t count) {
  struct whole_key *keys = NULL;
  bool done = true;
  for (size_t i = 0; i < count; i++) {
    struct nameless nameless = {.sizes = NULL};
    for (size_t j = 0; done && j < parts[i].comm_count; j++) {
      const struct tagc_sum_comm *c = &parts[i].comms[j];
      const uint64_t nth = c->identity ? 0 : count_nameless(&nameless, c->nranks);
      const size_t at = c->identity || nth ? whole_of(ws, &keys, parts, (struct place){i, j}, nth) : SIZE_MAX;
      done = at != SIZE_MAX && add_member(&ws->all[at], parts, (struct place){i, j});
    }
    nameless_free(&nameless);
  }
  free(keys);
  return done;
}

static int by_weight(const void *a, const void *b) {
  const struct whole *x = a, *y = b;
  if (x->is_main != y->is_main)
    return y->is_main - x->is_main;
  uint64_t left = x->is_main ? x->raw_bytes : tagc_sent_all(&x->sent),
           right = y->is_main ? y->raw_bytes : tagc_sent_all(&y->sent);
  return left != right ? (left < right) - (left > right) : (x->first > y->first) - (x->first < y->first);
}

/* -- numbers of ranks ---------------------------------------------------------------------------------------------- */

static bool covers_all(const struct whole *w, const struct tagc_part *parts, size_t count) {
  size_t there = 0;
  if (w->nranks < 0 || w->count < count)
    return false;
  for (size_t i = 0; i < w->count; i++)
    there += i == 0 || w->members[i].part != w->members[i - 1].part;
  for (size_t i = 0; i < w->count; i++)
    if (comm_at(parts, w->members[i])->members[0].as < 0)
      return false;
  return there == count;
}

/* By the largest communicator that all have, else by the order of the files. */
static void number_ranks(const struct wholes *ws, struct tagc_part *parts, size_t count) {
  const struct whole *best = NULL;
  for (size_t i = 0; i < ws->count; i++)
    if (covers_all(&ws->all[i], parts, count) &&
        (!best || ws->all[i].nranks > best->nranks ||
         (ws->all[i].nranks == best->nranks && ws->all[i].first < best->first)))
      best = &ws->all[i];
  for (size_t i = 0; i < count; i++)
    parts[i].rank.number = (int)i;
  for (size_t i = best ? best->count : 0; i-- > 0;)
    parts[best->members[i].part].rank.number = comm_at(parts, best->members[i])->members[0].as;
}

/* -- sums of members ----------------------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b) {
  const struct tagc_sum_line *x = a, *y = b;
  return x->function != y->function ? x->function - y->function
         : x->type != y->type       ? x->type - y->type
         : x->op != y->op           ? x->op - y->op
                                    : x->size_class - y->size_class;
}

static bool add_lines(struct tagc_sum_comm *to, const struct tagc_sum_comm *from) {
  for (size_t i = 0; i < from->line_count; i++) {
    if (!TAGC_SUM_ROOM(to->lines, to->line_count))
      return false;
    to->lines[to->line_count++] = from->lines[i];
  }
  return true;
}

static int order_by_bytes(const void *a, const void *b) {
  const struct tagc_sum_line *x = a, *y = b;
  uint64_t left = tagc_sent_all(&x->calls.sent), right = tagc_sent_all(&y->calls.sent);
  return left != right ? (left < right) - (left > right) : by_key(a, b);
}

/* Merges equal lines of several members. */
static void settle_lines(struct tagc_sum_comm *c) {
  size_t count = 0;
  if (c->line_count)
    qsort(c->lines, c->line_count, sizeof *c->lines, by_key);
  for (size_t i = 0; i < c->line_count; i++) {
    struct tagc_sum_line *l = &c->lines[i], *last = count ? &c->lines[count - 1] : NULL;
    if (!last || by_key(last, l) != 0) {
      c->lines[count++] = *l;
      continue;
    }
    tagc_sum_add_calls(&last->calls, &l->calls);
    tagc_sum_add_calls(&last->whole, &l->whole);
    last->least_count = l->least_count < last->least_count ? l->least_count : last->least_count;
    last->most_count = l->most_count > last->most_count ? l->most_count : last->most_count;
  }
  c->line_count = count;
  for (size_t i = 0; i < count; i++)
    c->lines[i].per_step = c->whole_steps ? (double)c->lines[i].whole.calls / (double)c->whole_steps : NAN;
  if (count)
    qsort(c->lines, count, sizeof *c->lines, order_by_bytes);
}

void tagc_sum_add_group_times(struct tagc_group_times *to, const struct tagc_group_times *from) {
  if (from->groups && (!to->groups || from->least_ns < to->least_ns))
    to->least_ns = from->least_ns;
  tagc_sum_add(&to->groups, from->groups);
  tagc_sum_add(&to->bytes, from->bytes);
  tagc_sum_add(&to->ns, from->ns);
}

bool tagc_sum_add_group(struct tagc_sum_comm *to, const struct tagc_sum_group *group) {
  size_t i = 0;
  while (i < to->group_count && (to->groups[i].sends != group->sends || to->groups[i].receives != group->receives ||
                                 to->groups[i].size_class != group->size_class))
    i++;
  if (i == to->group_count) {
    if (!TAGC_SUM_ROOM(to->groups, to->group_count))
      return false;
    to->groups[to->group_count++] = *group;
    return true;
  }
  tagc_sum_add_group_times(&to->groups[i].all, &group->all);
  tagc_sum_add_group_times(&to->groups[i].whole, &group->whole);
  return true;
}

static bool add_groups(struct tagc_sum_comm *to, const struct tagc_sum_comm *from) {
  bool good = true;
  for (size_t i = 0; i < from->group_count && good; i++)
    good = tagc_sum_add_group(to, &from->groups[i]);
  return good;
}

/* Adds a part's communicator; its texts and slots move over. */
static bool add_comm(struct tagc_sum_comm *to, struct tagc_sum_comm *from, size_t rank) {
  if (!TAGC_SUM_ROOM(to->members, to->member_count))
    return false;
  struct tagc_sum_member *m = &to->members[to->member_count++];
  *m = from->members[0];
  m->rank = rank;
  to->identity = to->identity ? to->identity : from->identity;
  to->number = to->number == UINT32_MAX ? from->number : to->number;
  to->nranks = to->nranks < 0 ? from->nranks : to->nranks;
  to->hosts = to->hosts ? to->hosts : from->hosts;
  to->unknown |= from->unknown;
  tagc_sum_add_calls(&to->calls, &from->calls);
  for (int i = 0; i < 256; i++)
    tagc_sum_add(&to->reasons[i], from->reasons[i]);
  for (int i = 0; i < 256; i++)
    tagc_sum_add(&to->allgather_reasons[i], from->allgather_reasons[i]);
  for (int i = 0; i < 256; i++)
    tagc_sum_add(&to->broadcast_reasons[i], from->broadcast_reasons[i]);
  to->all_reduces |= from->all_reduces;
  for (int i = 0; i < TAGC_WAYS; i++)
    tagc_sum_add(&to->sends[i], from->sends[i]);
  if (!to->layers && from->layers) {
    to->layers = from->layers;
    to->or_layers = from->or_layers;
    to->last_lock = from->last_lock;
    to->gradients = from->gradients;
    to->confidence = from->confidence;
    from->layers = from->or_layers = NULL;
  }
  return add_lines(to, from) && add_groups(to, from) && tagc_slots_add(to, from);
}

static int by_rank_in_comm(const void *a, const void *b) {
  const struct tagc_sum_member *x = a, *y = b;
  return x->as != y->as       ? (x->as > y->as) - (x->as < y->as)
         : x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
                              : (x->id > y->id) - (x->id < y->id);
}

static bool make_comm(struct tagc_sum_comm *c, const struct whole *w, struct tagc_part *parts) {
  *c = (struct tagc_sum_comm){.number = UINT32_MAX, .nranks = -1};
  for (size_t i = 0; i < w->count; i++) {
    struct tagc_part *part = &parts[w->members[i].part];
    if (!add_comm(c, &part->comms[w->members[i].comm], w->members[i].part))
      return false;
    c->whole_steps += i == 0 || w->members[i].part != w->members[i - 1].part ? part->steps_whole : 0;
  }
  settle_lines(c);
  qsort(c->members, c->member_count, sizeof *c->members, by_rank_in_comm);
  c->layers = c->layers ? c->layers : strdup("");
  c->or_layers = c->or_layers ? c->or_layers : strdup("");
  return tagc_slots_settle(c) && c->layers && c->or_layers;
}

/* -- all ----------------------------------------------------------------------------------------------------------- */

static int order_by_number(const void *a, const void *b) {
  const struct tagc_part *x = a, *y = b;
  return (x->rank.number > y->rank.number) - (x->rank.number < y->rank.number);
}

/* Played hosts share one name: names decide only if host numbers are unknown. */
static bool share_host(const struct tagc_part *a, const struct tagc_sum_rank *a_rank, const struct tagc_part *b,
                       const struct tagc_sum_rank *b_rank) {
  if (a->host && b->host)
    return a->host == b->host;
  return *a_rank->host && strcmp(a_rank->host, b_rank->host) == 0;
}

static bool make_ranks(struct tagc_summary *s, struct tagc_part *parts, size_t count) {
  s->ranks = calloc(count + 1, sizeof *s->ranks);
  for (size_t i = 0; s->ranks && i < count; i++) {
    s->ranks[i] = parts[i].rank;
    parts[i].rank = (struct tagc_sum_rank){0};
    s->ranks[i].host_index = i;
    for (size_t j = 0; j < i; j++)
      if (share_host(&parts[i], &s->ranks[i], &parts[j], &s->ranks[j])) {
        s->ranks[i].host_index = s->ranks[j].host_index;
        break;
      }
    s->rank_count++;
  }
  return s->ranks != NULL;
}

static bool make_comms(struct tagc_summary *s, const struct wholes *ws, struct tagc_part *parts) {
  s->comms = calloc(ws->count + 1, sizeof *s->comms);
  for (size_t i = 0; s->comms && i < ws->count; i++) {
    s->comm_count++;
    if (!make_comm(&s->comms[i], &ws->all[i], parts))
      return false;
  }
  s->has_main = ws->count && ws->all[0].is_main;
  return s->comms != NULL;
}

static void wholes_free(struct wholes *ws) {
  for (size_t i = 0; i < ws->count; i++)
    free(ws->all[i].members);
  free(ws->all);
  tagc_table_free(&ws->table);
  *ws = (struct wholes){0};
}

bool tagc_parts_merge(struct tagc_summary *s, struct tagc_part *parts, size_t count) {
  struct wholes ws = {0};
  bool done = tagc_parts_of_one_job(s, parts, &count) && find_wholes(&ws, parts, count);
  if (done) {
    number_ranks(&ws, parts, count);
    wholes_free(&ws);
    if (count)
      qsort(parts, count, sizeof *parts, order_by_number);
    done = find_wholes(&ws, parts, count);
  }
  if (done && ws.count)
    qsort(ws.all, ws.count, sizeof *ws.all, by_weight);
  done = done && make_comms(s, &ws, parts) && make_ranks(s, parts, count);
  wholes_free(&ws);
  for (size_t i = 0; i < count; i++)
    tagc_part_free(&parts[i]);
  return done;
}
