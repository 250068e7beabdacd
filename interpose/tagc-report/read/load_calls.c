/* SPDX-License-Identifier: BSD-3-Clause
 * The calls of a trace, and their times; see load.h.
 */
#include "interpose/tagc-report/read/load.h"

static bool same_sort(const void *array, size_t place, const void *key) {
  return memcmp(&((const struct tagc_sort *)array)[place].key, key, sizeof(struct tagc_sort_key)) == 0;
}

static uint64_t hash_sort(const struct tagc_sort_key *key) {
  uint64_t words[sizeof *key / 8], hash = 0;
  _Static_assert(sizeof *key == 80, "no holes, whose bytes would be compared");
  memcpy(words, key, sizeof words);
  for (size_t i = 0; i < sizeof words / 8; i++)
    hash = tagc_table_mix(hash, words[i]);
  return hash;
}

static size_t sort_of(struct tagc_load *g, const struct tagc_sort_key *key) {
  bool added;
  if (!TAGC_SUM_ROOM(g->sorts, g->sort_count))
    return SIZE_MAX;
  size_t place = tagc_table_place(&g->sort_table, hash_sort(key), g->sorts, key, same_sort, g->sort_count, &added);
  if (added)
    g->sorts[g->sort_count++] = (struct tagc_sort){.key = *key, .least_count = UINT64_MAX};
  return place;
}

static bool sane_call(const struct tagc_trace_call *r) {
  return r->raw_bytes <= TAGC_BYTES_MOST && r->inside <= TAGC_BYTES_MOST && r->between <= TAGC_BYTES_MOST &&
         r->plain_inside <= TAGC_BYTES_MOST && r->plain_between <= TAGC_BYTES_MOST && r->host_ns <= TAGC_NS_MOST &&
         r->began_ns <= UINT64_MAX - TAGC_NS_MOST && r->slot >= -1 && r->allgather <= INT32_MAX &&
         r->count <= TAGC_ELEMENTS_MOST;
}

static uint32_t low(uint64_t n) { return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n; }

static void add_call_times(struct tagc_load *g, struct tagc_light *light, const struct tagc_trace_times *r) {
  struct tagc_sort *sort = &g->sorts[light->sort];
  light->timed = true;
  light->hidden_unknown = r->hidden_unknown != 0;
  light->wire_ns = r->sum_ns + r->exchange_ns;
  light->encode_ns = low(r->encode_ns);
  light->decode_ns = low(r->decode_ns);
  /* The clocks differ: slightly more may seem hidden. */
  const uint64_t coding = (uint64_t)light->encode_ns + light->decode_ns;
  light->hidden_ns = low(r->hidden_ns < coding ? r->hidden_ns : coding);
  light->queued |=
    r->by_device || light->encode_ns + light->wire_ns + light->decode_ns - light->hidden_ns > light->host_ns;
  tagc_load_add_times(&sort->calls, light, sort->key.compressed);
}

static uint8_t stream_of(struct tagc_load *g, uint64_t stream) {
  unsigned i = 0;
  while (i < g->stream_count && g->streams[i] != stream)
    i++;
  if (i == g->stream_count && i < TAGC_LOAD_STREAMS)
    g->streams[g->stream_count++] = stream;
  return (uint8_t)(i < TAGC_LOAD_STREAMS ? i : TAGC_LOAD_STREAMS - 1);
}

/* The record of a call timed at its return comes after its times. */
void tagc_load_times(struct tagc_load *g, const struct tagc_trace_times *r) {
  uint32_t at = g->recent[r->call % TAGC_LOAD_RECENT];
  struct tagc_light *light = at ? &g->lights[at - 1] : NULL;
  if (r->sum_ns > TAGC_NS_MOST || r->encode_ns > TAGC_NS_MOST || r->exchange_ns > TAGC_NS_MOST ||
      r->decode_ns > TAGC_NS_MOST || r->hidden_ns > TAGC_NS_MOST)
    g->part->absurd++;
  else if (!light || light->number != (uint32_t)r->call)
    g->early[r->call % TAGC_LOAD_EARLY] = *r;
  else if (!light->timed)
    add_call_times(g, light, r);
}

/* The writer did not know the ranks' hosts, and assumed a single one. */
static void split_by_hosts(const struct tagc_load *g, const struct tagc_sort_key *key, struct tagc_sum_sent *sent,
                           struct tagc_sum_sent *plain) {
  static const char *const names[] = {"ncclSend", "ncclAlltoAll", "ncclGather", "ncclScatter", "ncclPutSignal"};
  const struct tagc_comm_hosts *hosts = key->comm == UINT32_MAX ? NULL : &g->comm_hosts[key->comm];
  bool messages = false;
  if (!hosts || hosts->hosts < 2 || sent->between || plain->between)
    return;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    messages |= tagc_load_named(g, TAGC_TRACE_FUNCTIONS, key->function, names[i]);
  struct tagc_sum_sent *const both[] = {sent, plain};
  for (int i = 0; i < 2; i++) {
    both[i]->between = tagc_placement_between(hosts, both[i]->inside, messages);
    both[i]->inside -= both[i]->between;
  }
}

/* -- sorts of messages whose counts differ ------------------------------------------------------------------------- */

static bool none_or_all(const struct tagc_sum_sent *sent, uint64_t bytes) {
  return (!sent->inside || sent->inside == bytes) && (!sent->between || sent->between == bytes);
}

/* A call to or from one rank, or with a root: it sends its whole buffer, or nothing. */
static bool is_message(const struct tagc_sort_key *key) {
  return key->peer >= 0 && key->slot < 0 && !key->allgather && !key->compressed && key->count && key->raw_bytes &&
         none_or_all(&key->sent, key->raw_bytes) && none_or_all(&key->plain, key->raw_bytes);
}

static void fold_sort(struct tagc_sort_key *key) {
  uint64_t *const bytes[] = {&key->raw_bytes, &key->sent.inside, &key->sent.between, &key->plain.inside,
                             &key->plain.between};
  const uint64_t size = UINT64_C(1) << (63 - __builtin_clzll(key->raw_bytes));
  key->folded = 1;
  key->count = 1;
  for (int i = 0; i < 5; i++)
    *bytes[i] = *bytes[i] ? size : 0;
}

struct tagc_call_bytes tagc_load_bytes_of(const struct tagc_load *g, const struct tagc_sort_key *key, uint64_t raw) {
  struct tagc_call_bytes b = {key->raw_bytes, key->sent, key->plain};
  if (!key->folded)
    return b;
  uint64_t *const bytes[] = {&b.raw, &b.sent.inside, &b.sent.between, &b.plain.inside, &b.plain.between};
  for (int i = 0; i < 5; i++)
    *bytes[i] = *bytes[i] ? raw : 0;
  split_by_hosts(g, key, &b.sent, &b.plain);
  return b;
}

void tagc_load_add_bytes(const struct tagc_load *g, struct tagc_sum_calls *sum, const struct tagc_sort_key *key,
                         uint64_t raw) {
  if (!key->folded)
    return;
  const struct tagc_call_bytes b = tagc_load_bytes_of(g, key, raw);
  tagc_sum_add(&sum->raw_bytes, b.raw);
  tagc_sum_add(&sum->sent.inside, b.sent.inside);
  tagc_sum_add(&sum->sent.between, b.sent.between);
  tagc_sum_add(&sum->plain.inside, b.plain.inside);
  tagc_sum_add(&sum->plain.between, b.plain.between);
}

/* -- calls --------------------------------------------------------------------------------------------------------- */

struct tagc_sum_slot *tagc_load_slot_of(struct tagc_load *g, const struct tagc_sort_key *key) {
  if (key->comm == UINT32_MAX || !key->lock || (key->slot < 0 && !key->allgather))
    return NULL;
  return tagc_load_slot(g, key->comm, key->lock,
                        key->allgather ? TAGC_LOAD_ALLGATHER + key->allgather : (uint32_t)key->slot);
}

/* The choice in force for a call of the cycle. */
static uint32_t choice_of(struct tagc_load *g, const struct tagc_sort_key *key, uint64_t cycle) {
  const struct tagc_sum_slot *slot = tagc_load_slot_of(g, key);
  const struct tagc_sum_choice *choice = slot ? tagc_sum_choice_of(slot, cycle) : NULL;
  return choice ? (uint32_t)(choice - slot->choices) + 1 : 0;
}

void tagc_load_call(struct tagc_load *g, const struct tagc_trace_call *r) {
  struct tagc_sum_rank *rank = &g->part->rank;
  if (!sane_call(r)) {
    g->part->absurd++;
    return;
  }
  struct tagc_sort_key key = {
    .count = r->count,
    .raw_bytes = r->raw_bytes,
    .sent = {r->inside, r->between},
    .plain = {r->plain_inside, r->plain_between},
    .comm = tagc_load_comm(g, r->record.comm),
    .lock = r->slot < 0 && !r->allgather ? 0 : r->lock,
    .slot = r->slot,
    .allgather = r->allgather,
    .peer = r->peer,
    .function = tagc_load_code(g, TAGC_TRACE_FUNCTIONS, r->function),
    .reason = tagc_load_code(g, TAGC_TRACE_REASONS, r->reason),
    .type = tagc_load_code(g, TAGC_TRACE_TYPES, r->type),
    .op = tagc_load_code(g, TAGC_TRACE_OPS, r->op),
    .compressed = tagc_load_named(g, TAGC_TRACE_ACTIONS, tagc_load_code(g, TAGC_TRACE_ACTIONS, r->action), "compress"),
    .failed = (r->flags & TAGC_TRACE_FAILED) != 0,
  };
  if (g->sort_count >= TAGC_LOAD_SORTS && is_message(&key))
    fold_sort(&key);
  else
    split_by_hosts(g, &key, &key.sent, &key.plain);
  key.choice = choice_of(g, &key, r->cycle);
  size_t sort = sort_of(g, &key);
  if (sort == SIZE_MAX || !TAGC_SUM_ROOM(g->lights, g->light_count) || g->light_count >= UINT32_MAX - 1) {
    g->no_memory = true;
    return;
  }
  struct tagc_sort *of = &g->sorts[sort];
  struct tagc_sum_calls *calls = &of->calls;
  of->least_count = r->count < of->least_count ? r->count : of->least_count;
  of->most_count = r->count > of->most_count ? r->count : of->most_count;
  calls->calls++;
  tagc_load_add_bytes(g, calls, &of->key, r->raw_bytes);
  tagc_sum_add(&calls->host_ns, r->host_ns);
  if (!(r->flags & TAGC_TRACE_GROUPED)) {
    calls->alone_calls++;
    tagc_sum_add(&calls->alone_ns, r->host_ns);
  }
  g->lights[g->light_count++] = (struct tagc_light){.began_ns = r->began_ns,
                                                    .host_ns = r->host_ns,
                                                    .raw_bytes = r->raw_bytes,
                                                    .sort = (uint32_t)sort,
                                                    .number = (uint32_t)r->number,
                                                    .queued = (r->flags & TAGC_TRACE_GROUPED) != 0,
                                                    .stream = stream_of(g, r->stream),
                                                    .cycle = r->lock ? (uint32_t)r->cycle : 0};
  g->recent[r->number % TAGC_LOAD_RECENT] = (uint32_t)g->light_count;
  if (g->early[r->number % TAGC_LOAD_EARLY].call == r->number && r->number)
    add_call_times(g, &g->lights[g->light_count - 1], &g->early[r->number % TAGC_LOAD_EARLY]);
  const uint32_t profile = tagc_load_early_profile(g, r->number);
  if (profile)
    tagc_load_call_profile(g, &g->lights[g->light_count - 1], profile);
  rank->first_ns = rank->last_ns && rank->first_ns < r->began_ns ? rank->first_ns : r->began_ns;
  rank->last_ns = rank->last_ns > r->began_ns + r->host_ns ? rank->last_ns : r->began_ns + r->host_ns;
  if (r->group)
    tagc_load_group_call(g, r, &key);
}
