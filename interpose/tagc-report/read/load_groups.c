/* SPDX-License-Identifier: BSD-3-Clause
 * Groups of messages between two ranks, as pipelines and all-to-alls batch them: the end of a group has their time. See
 * load.h, and struct tagc_sum_group.
 */
#include "interpose/tagc-report/read/load.h"

static bool is_function(const struct tagc_load *g, const struct tagc_sort_key *key, const char *name) {
  return tagc_load_named(g, TAGC_TRACE_FUNCTIONS, key->function, name);
}

static void add_message(struct tagc_load *g, struct tagc_open_group *open, const struct tagc_sort_key *key,
                        uint64_t count) {
  const char *type = g->names->text[TAGC_TRACE_TYPES][key->type];
  const bool send = is_function(g, key, "ncclSend"), receive = is_function(g, key, "ncclRecv");
  struct tagc_load_group *group = &open->group;
  open->other |= (!send && !receive) || key->failed || key->comm == UINT32_MAX ||
                 (group->sends + group->receives && group->comm != key->comm);
  group->comm = key->comm;
  group->sends += send;
  group->receives += receive;
  uint64_t bytes;
  if (__builtin_mul_overflow(count, type ? tagc_sum_element(type) : 0, &bytes))
    bytes = UINT64_MAX;
  tagc_sum_add(&group->bytes, bytes);
  if (open->place) /* an end of it that came before was none of this message */
    g->groups[open->place - 1].ns = 0;
}

void tagc_load_group_call(struct tagc_load *g, const struct tagc_trace_call *r, const struct tagc_sort_key *key) {
  struct tagc_open_group *open = &g->open_groups[r->group % TAGC_LOAD_OPEN_GROUPS];
  if (open->number != r->group)
    *open = (struct tagc_open_group){.number = r->group};
  if (is_function(g, key, "ncclGroupStart"))
    return;
  if (!is_function(g, key, "ncclGroupEnd")) {
    add_message(g, open, key, r->count);
    return;
  }
  if (open->other || !(open->group.sends || open->group.receives))
    return;
  if (!open->place && !TAGC_SUM_ROOM(g->groups, g->group_count)) {
    g->no_memory = true;
    return;
  }
  open->place = open->place ? open->place : ++g->group_count;
  open->group.began_ns = r->began_ns;
  open->group.ns = r->result ? 0 : r->host_ns; /* it failed, or goes on in the background */
  g->groups[open->place - 1] = open->group;
}

void tagc_load_groups(struct tagc_load *g) {
  size_t near = 0;
  for (size_t i = 0; i < g->group_count && !g->no_memory; i++) {
    const struct tagc_load_group *group = &g->groups[i];
    const struct tagc_group_times times = {1, group->bytes, group->ns, group->ns};
    struct tagc_sum_group sum = {.sends = group->sends,
                                 .receives = group->receives,
                                 .size_class = group->bytes ? (int8_t)(63 - __builtin_clzll(group->bytes)) : -1,
                                 .all = times};
    if (!group->ns)
      continue;
    if (tagc_load_in_whole_step(g, group->began_ns, &near))
      sum.whole = times;
    g->no_memory |= !tagc_sum_add_group(&g->part->comms[group->comm], &sum);
  }
}
