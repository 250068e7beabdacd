/* SPDX-License-Identifier: BSD-3-Clause
 * What NCCL's profiler saw, in a trace: the kernels of its calls, and the network of its steps; see load.h.
 */
#include "interpose/tagc-report/read/load.h"

static bool sane_profile(const struct tagc_trace_profile *r) {
  return r->kernel_ns <= TAGC_NS_MOST && r->network_ns <= TAGC_NS_MOST && r->sending_ns <= TAGC_NS_MOST &&
         r->posted_ns <= UINT64_MAX - TAGC_NS_MOST && r->kernel_began_ns <= UINT64_MAX - TAGC_NS_MOST &&
         r->sent_bytes <= TAGC_BYTES_MOST && r->received_bytes <= TAGC_BYTES_MOST && r->send_gpu_ns <= TAGC_NS_MOST &&
         r->send_peer_ns <= TAGC_NS_MOST && r->send_network_ns <= TAGC_NS_MOST;
}

/* An operation may have several records, and a call several operations: its messages. */
static void join_kernels(struct tagc_load_profile *p, const struct tagc_load_profile *before) {
  const uint64_t end = p->kernel_began_ns + p->kernel_ns, end_before = before->kernel_began_ns + before->kernel_ns;
  if (!p->kernel_ns || before->kernel_began_ns < p->kernel_began_ns)
    p->kernel_began_ns = before->kernel_began_ns;
  p->kernel_ns = (p->kernel_ns && end > end_before ? end : end_before) - p->kernel_began_ns;
}

void tagc_load_call_profile(struct tagc_load *g, struct tagc_light *light, uint32_t profile) {
  struct tagc_sort *sort = &g->sorts[light->sort];
  struct tagc_load_profile *p = &g->profiles[profile - 1];
  if (light->profile && light->profile != profile)
    join_kernels(p, &g->profiles[light->profile - 1]);
  if (!p->kernel_ns || sort->key.compressed)
    return; /* the times of a compressed call are those of its exchange */
  if (light->timed)
    sort->calls.wire_ns -= sort->calls.wire_ns < light->wire_ns ? sort->calls.wire_ns : light->wire_ns;
  else
    sort->calls.wire_calls++;
  light->timed = true;
  light->profile = profile;
  light->wire_ns = p->kernel_ns;
  tagc_sum_add(&sort->calls.wire_ns, light->wire_ns);
}

/* The record of a call may come before or after that of its kernel. */
void tagc_load_profile(struct tagc_load *g, const struct tagc_trace_profile *r) {
  const uint32_t at = r->call ? g->recent[r->call % TAGC_LOAD_RECENT] : 0;
  struct tagc_light *light = at ? &g->lights[at - 1] : NULL;
  if (!sane_profile(r)) {
    g->part->absurd++;
    return;
  }
  if (!TAGC_SUM_ROOM(g->profiles, g->profile_count) || g->profile_count >= UINT32_MAX - 1) {
    g->no_memory = true;
    return;
  }
  g->profiles[g->profile_count++] = (struct tagc_load_profile){.call = r->call,
                                                               .posted_ns = r->posted_ns,
                                                               .kernel_began_ns = r->kernel_began_ns,
                                                               .kernel_ns = r->kernel_ns,
                                                               .network = {.bytes = r->sent_bytes,
                                                                           .sending_ns = r->sending_ns,
                                                                           .gpu_ns = r->send_gpu_ns,
                                                                           .peer_ns = r->send_peer_ns,
                                                                           .network_ns = r->send_network_ns}};
  if (light && light->number == (uint32_t)r->call)
    tagc_load_call_profile(g, light, (uint32_t)g->profile_count);
  else if (r->call)
    g->early_profiles[r->call % TAGC_LOAD_EARLY] = (uint32_t)g->profile_count;
}

uint32_t tagc_load_early_profile(const struct tagc_load *g, uint64_t call) {
  const uint32_t at = g->early_profiles[call % TAGC_LOAD_EARLY];
  return at && g->profiles[at - 1].call == call ? at : 0;
}
