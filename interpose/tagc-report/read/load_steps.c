/* SPDX-License-Identifier: BSD-3-Clause
 * The evaluation at the end of a trace: steps, the whole ones among them, and sums; see load.h.
 */
#include <math.h>
#include <stdlib.h>

#include "interpose/tagc-report/read/load.h"

/* -- steps --------------------------------------------------------------------------------------------------------- */

/* The communicator with gradients, else with cycles, whose calls have most bytes. */
static void choose_main(struct tagc_load *g) {
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
    if (cycles[i] &&
        (!best || (c->gradients != best->gradients ? c->gradients : c->calls.raw_bytes > best->calls.raw_bytes)))
      p->main = i;
  }
  free(cycles);
}

static int by_begin(const void *a, const void *b) {
  const struct tagc_load_cycle *x = a, *y = b;
  return (x->step.began_ns > y->step.began_ns) - (x->step.began_ns < y->step.began_ns);
}

static void order_cycles(struct tagc_load *g) {
  size_t count = 0;
  for (size_t i = 0; i < g->cycle_count; i++)
    if (g->cycles[i].comm == g->part->main)
      g->cycles[count++] = g->cycles[i];
  g->cycle_count = count;
  if (count > 1)
    qsort(g->cycles, count, sizeof *g->cycles, by_begin);
  for (size_t i = count = 0; i < g->cycle_count; i++) {
    const struct tagc_load_cycle *last = count ? &g->cycles[count - 1] : NULL, *next = &g->cycles[i];
    if (last && (next->lock < last->lock || (next->lock == last->lock && next->step.cycle <= last->step.cycle)))
      g->part->backwards++;
    else
      g->cycles[count++] = *next;
  }
  g->cycle_count = count;
}

/* The step in which `ns` falls; NULL: none. Times mostly grow, so the search begins at the last result. */
static struct tagc_load_cycle *step_at(struct tagc_load *g, uint64_t ns, size_t *near) {
  size_t low_end = 0, high = g->cycle_count;
  if (*near < high && g->cycles[*near].step.began_ns <= ns &&
      (*near + 1 == high || ns < g->cycles[*near + 1].step.began_ns))
    low_end = *near;
  else
    while (high - low_end > 1) {
      size_t middle = low_end + (high - low_end) / 2;
      *(g->cycles[middle].step.began_ns <= ns ? &low_end : &high) = middle;
    }
  *near = low_end;
  struct tagc_load_cycle *c = &g->cycles[low_end];
  return ns >= c->step.began_ns && ns - c->step.began_ns < c->step.ns + (c->step.ns == 0) ? c : NULL;
}

bool tagc_load_in_whole_step(struct tagc_load *g, uint64_t ns, size_t *near) {
  const struct tagc_load_cycle *c = g->cycle_count ? step_at(g, ns, near) : NULL;
  return c && c->step.whole;
}

/* The step of a call. On the main communicator the call's own cycle decides: steps may end before their last call. */
static struct tagc_load_cycle *step_of(struct tagc_load *g, const struct tagc_light *light, size_t *near) {
  struct tagc_load_cycle *c = g->cycle_count ? step_at(g, light->began_ns, near) : NULL;
  if (!light->cycle || g->sorts[light->sort].key.comm != g->part->main || !g->cycle_count)
    return c;
  size_t from = *near > 0 ? *near - 1 : 0;
  for (size_t i = from; i < g->cycle_count && i <= from + 2; i++)
    if ((uint32_t)g->cycles[i].step.cycle == light->cycle)
      return &g->cycles[i];
  return NULL;
}

/* Does NCCL run a kernel for such a call? */
static bool has_kernel(const struct tagc_load *g, const struct tagc_sort_key *key) {
  return key->count && !key->failed && key->comm != UINT32_MAX && g->part->comms[key->comm].nranks != 1;
}

static void add_to_step(const struct tagc_load *g, struct tagc_load_cycle *c, const struct tagc_light *light,
                        const struct tagc_sort_key *key, bool own) {
  struct tagc_sum_step *s = &c->step;
  const struct tagc_call_bytes bytes = tagc_load_bytes_of(g, key, light->raw_bytes);
  s->kernels_due += has_kernel(g, key);
  s->kernels += has_kernel(g, key) && light->profile;
  s->calls++;
  c->own += own;
  c->first = light->number < c->first ? light->number : c->first;
  c->last = light->number > c->last ? light->number : c->last;
  tagc_sum_add(&s->sent.inside, bytes.sent.inside);
  tagc_sum_add(&s->sent.between, bytes.sent.between);
  tagc_sum_add(&s->plain.inside, bytes.plain.inside);
  tagc_sum_add(&s->plain.between, bytes.plain.between);
  tagc_sum_add(&s->raw_bytes, bytes.raw);
  tagc_sum_add(&s->untimed_bytes, light->timed ? 0 : bytes.raw);
  tagc_sum_add(&s->host_ns, light->host_ns);
}

/* When a step's calls were under way. GPU calls have only durations: they go to the earliest place, as in window.h. */
struct tagc_spans {
  struct span {
    uint64_t from, to;
  } * list;
  size_t count;
  struct tagc_load_cycle *step;
  uint64_t busy[TAGC_LOAD_STREAMS]; /* the time until which each stream is busy */
};

static int by_from(const void *a, const void *b) {
  const struct span *x = a, *y = b;
  return (x->from > y->from) - (x->from < y->from);
}

/* Simultaneous calls on several streams count once. */
static void add_spans(struct tagc_spans *spans) {
  uint64_t covered = 0;
  if (spans->count > 1)
    qsort(spans->list, spans->count, sizeof *spans->list, by_from);
  for (size_t i = 0; i < spans->count; i++) {
    const struct span *s = &spans->list[i];
    const uint64_t from = s->from > covered ? s->from : covered;
    if (s->to > from)
      tagc_sum_add(&spans->step->step.wire_ns, s->to - from);
    covered = s->to > covered ? s->to : covered;
  }
  spans->count = 0;
}

/* False: no memory. `step`: the light's; NULL: none. `profile`: has the time of its kernel; NULL: unknown. */
static bool add_span(struct tagc_spans *spans, const struct tagc_light *light, const struct tagc_load_profile *profile,
                     struct tagc_load_cycle *step) {
  uint64_t *busy = &spans->busy[light->stream], at = light->began_ns;
  if (!light->timed)
    return true;
  if (profile) {
    at = profile->kernel_began_ns;
    *busy = at + profile->kernel_ns > *busy ? at + profile->kernel_ns : *busy;
  } else if (light->queued) {
    at = *busy > at ? *busy : at;
    *busy = at;
    tagc_sum_add(busy, light->encode_ns + light->wire_ns + light->decode_ns - light->hidden_ns);
  }
  if (step != spans->step)
    add_spans(spans);
  spans->step = step;
  if (!step)
    return true;
  if (!TAGC_SUM_ROOM(spans->list, spans->count))
    return false;
  struct span *s = &spans->list[spans->count++];
  tagc_sum_add(&at, light->encode_ns - tagc_encode_hidden(light->encode_ns, light->decode_ns, light->hidden_ns));
  *s = (struct span){at, at};
  tagc_sum_add(&s->to, light->wire_ns);
  return true;
}

/* Operations count for the step in which NCCL has launched them, also those that are no call's. */
static void add_networks(struct tagc_load *g) {
  size_t near = 0;
  for (size_t i = 0; i < g->profile_count && g->cycle_count; i++) {
    struct tagc_load_cycle *c = step_at(g, g->profiles[i].posted_ns, &near);
    if (!c)
      continue;
    const struct tagc_sum_network *from = &g->profiles[i].network;
    struct tagc_sum_network *to = &c->step.network;
    tagc_sum_add(&to->bytes, from->bytes);
    tagc_sum_add(&to->sending_ns, from->sending_ns);
    tagc_sum_add(&to->gpu_ns, from->gpu_ns);
    tagc_sum_add(&to->peer_ns, from->peer_ns);
    tagc_sum_add(&to->network_ns, from->network_ns);
    c->step.profiled = true;
  }
}

/* True if all of its calls are present. Their numbers matter only after losses: threads may number out of order. */
static bool is_complete(const struct tagc_load *g, const struct tagc_load_cycle *c, bool lossy) {
  for (size_t i = g->lock_count; i-- > 0;)
    if (g->locks[i].comm == c->comm && g->locks[i].lock == c->lock)
      return c->own >= g->locks[i].calls && (!lossy || c->last - c->first + 1 == c->step.calls);
  return !lossy;
}

static void add_to_whole(struct tagc_load *g, const struct tagc_light *light) {
  struct tagc_sort *sort = &g->sorts[light->sort];
  sort->whole.calls++;
  tagc_load_add_bytes(g, &sort->whole, &sort->key, light->raw_bytes);
  tagc_sum_add(&sort->whole.host_ns, light->host_ns);
  if (!light->queued) {
    sort->whole.alone_calls++;
    tagc_sum_add(&sort->whole.alone_ns, light->host_ns);
  }
  if (light->timed)
    tagc_load_add_times(&sort->whole, light, sort->key.compressed);
}

void tagc_load_steps(struct tagc_load *g) {
  struct tagc_part *p = g->part;
  const struct tagc_trace_health *h = &p->rank.health;
  bool lossy = h->dropped || h->damaged_chunks || h->refused_records || p->absurd;
  size_t near = 0;
  struct tagc_spans spans = {.count = 0};
  choose_main(g);
  if (g->no_memory || p->main == SIZE_MAX)
    return;
  order_cycles(g);
  for (size_t i = 0; i < g->light_count; i++) {
    struct tagc_load_cycle *c = step_of(g, &g->lights[i], &near);
    const struct tagc_sort_key *key = &g->sorts[g->lights[i].sort].key;
    if (c)
      add_to_step(g, c, &g->lights[i], key, key->comm == p->main && g->lights[i].cycle);
    const uint32_t profile = g->lights[i].profile;
    g->no_memory |= !add_span(&spans, &g->lights[i], profile ? &g->profiles[profile - 1] : NULL, c);
  }
  add_spans(&spans);
  free(spans.list);
  add_networks(g);
  p->rank.steps = calloc(g->cycle_count + 1, sizeof *p->rank.steps);
  g->no_memory |= !p->rank.steps;
  for (size_t i = 0; p->rank.steps && i < g->cycle_count; i++) {
    struct tagc_load_cycle *c = &g->cycles[i];
    c->step.whole = c->step.whole && c->step.calls && is_complete(g, c, lossy);
    p->steps_whole += c->step.whole;
    p->rank.steps[p->rank.step_count++] = c->step;
  }
  for (size_t i = near = 0; i < g->light_count; i++) {
    const struct tagc_load_cycle *c = step_of(g, &g->lights[i], &near);
    if (c && c->step.whole)
      add_to_whole(g, &g->lights[i]);
  }
}

/* -- sums ---------------------------------------------------------------------------------------------------------- */

/* For equal calls: each sum is the common value times their number. Folded ones have their bytes already. */
static void multiply(struct tagc_sum_calls *calls, const struct tagc_sort_key *key) {
  uint64_t n = calls->calls;
  calls->compressed = key->compressed ? n : 0;
  calls->failed = key->failed ? n : 0;
  uint64_t *const to[] = {&calls->raw_bytes, &calls->sent.inside, &calls->sent.between, &calls->plain.inside,
                          &calls->plain.between};
  const uint64_t each[] = {key->raw_bytes, key->sent.inside, key->sent.between, key->plain.inside, key->plain.between};
  for (int i = 0; i < 5 && !key->folded; i++)
    if (__builtin_mul_overflow(each[i], n, to[i]))
      *to[i] = UINT64_MAX;
}

static int size_class(const struct tagc_sort_key *key) {
  return key->raw_bytes ? 63 - __builtin_clzll(key->raw_bytes) : -1;
}

static int by_line(const void *a, const void *b) {
  const struct tagc_sort_key *x = &((const struct tagc_sort *)a)->key, *y = &((const struct tagc_sort *)b)->key;
  return x->comm != y->comm           ? (x->comm > y->comm) - (x->comm < y->comm)
         : x->function != y->function ? x->function - y->function
         : x->type != y->type         ? x->type - y->type
         : x->op != y->op             ? x->op - y->op
                                      : size_class(x) - size_class(y);
}

/* `last`: the sort before this one in the order of lines; NULL: none. */
static void add_sum_line(struct tagc_load *g, struct tagc_sum_comm *c, const struct tagc_sort *s,
                         const struct tagc_sort *last) {
  if (!last || by_line(last, s) != 0) {
    if (!TAGC_SUM_ROOM(c->lines, c->line_count)) {
      g->no_memory = true;
      return;
    }
    c->lines[c->line_count++] = (struct tagc_sum_line){.function = s->key.function,
                                                       .type = s->key.type,
                                                       .op = s->key.op,
                                                       .least_count = UINT64_MAX,
                                                       .size_class = (int8_t)size_class(&s->key),
                                                       .per_step = NAN};
  }
  struct tagc_sum_line *line = &c->lines[c->line_count - 1];
  tagc_sum_add_calls(&line->calls, &s->calls);
  tagc_sum_add_calls(&line->whole, &s->whole);
  line->least_count = s->least_count < line->least_count ? s->least_count : line->least_count;
  line->most_count = s->most_count > line->most_count ? s->most_count : line->most_count;
}

static enum tagc_sum_way way_of(int from, int to, int nranks) {
  return to == from + 1                                ? TAGC_WAY_ON
         : to == from - 1                              ? TAGC_WAY_BACK
         : nranks > 2 && from == nranks - 1 && to == 0 ? TAGC_WAY_ROUND_ON
         : nranks > 2 && from == 0 && to == nranks - 1 ? TAGC_WAY_ROUND_BACK
                                                       : TAGC_WAY_ACROSS;
}

/* Sums that steps need; the rest follows after these. */
void tagc_load_bytes(struct tagc_load *g) {
  for (size_t i = 0; i < g->sort_count; i++) {
    struct tagc_sort *s = &g->sorts[i];
    multiply(&s->calls, &s->key);
    tagc_sum_add_calls(&g->part->rank.calls, &s->calls);
    if (s->key.comm != UINT32_MAX)
      tagc_sum_add_calls(&g->part->comms[s->key.comm].calls, &s->calls);
  }
}

/* With TAGC_BROADCAST=off broadcasts pass for the reason of calls that nothing compresses. */
static bool is_watched_broadcast(const struct tagc_load *g, const struct tagc_sort_key *key) {
  return (tagc_load_named(g, TAGC_TRACE_FUNCTIONS, key->function, "ncclBroadcast") ||
          tagc_load_named(g, TAGC_TRACE_FUNCTIONS, key->function, "ncclBcast") ||
          tagc_load_named(g, TAGC_TRACE_FUNCTIONS, key->function, "ncclBroadcastConfig")) &&
         !tagc_load_named(g, TAGC_TRACE_REASONS, key->reason, "not a call that is compressed");
}

void tagc_load_details(struct tagc_load *g) {
  if (g->sort_count)
    qsort(g->sorts, g->sort_count, sizeof *g->sorts, by_line);
  for (size_t i = 0; i < g->sort_count && !g->no_memory; i++) {
    struct tagc_sort *s = &g->sorts[i];
    multiply(&s->whole, &s->key);
    if (s->key.comm == UINT32_MAX)
      continue;
    struct tagc_sum_comm *c = &g->part->comms[s->key.comm];
    int as = c->members[0].as;
    add_sum_line(g, c, s, i ? s - 1 : NULL);
    if (s->key.allgather)
      tagc_sum_add(&c->allgather_reasons[s->key.reason], s->calls.calls);
    if (is_watched_broadcast(g, &s->key))
      tagc_sum_add(&c->broadcast_reasons[s->key.reason], s->calls.calls);
    if (s->key.slot >= 0 || tagc_load_named(g, TAGC_TRACE_FUNCTIONS, s->key.function, "ncclReduceScatter"))
      tagc_sum_add(&c->reasons[s->key.reason], s->calls.calls);
    else if (tagc_load_named(g, TAGC_TRACE_FUNCTIONS, s->key.function, "ncclSend") && as >= 0 && s->key.peer >= 0 &&
             s->key.peer < c->nranks)
      tagc_sum_add(&c->sends[way_of(as, s->key.peer, c->nranks)], s->calls.calls);
    struct tagc_sum_slot *slot = tagc_load_slot_of(g, &s->key);
    if (slot)
      tagc_sum_add_calls(&slot->calls, &s->calls);
    if (slot && s->key.choice)
      tagc_sum_add_calls(&slot->choices[s->key.choice - 1].calls, &s->calls);
  }
}
