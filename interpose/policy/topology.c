/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/policy/topology.h"

#include <stdlib.h>

static enum tagc_placement placement_of(const struct tagc_topology *t) {
  bool blocks = true, stripes = true;
  for (int r = 0; r < t->hosts.nranks; r++) {
    blocks &= r == t->place[r] * t->hosts.local + t->local[r];
    stripes &= r == t->local[r] * t->hosts.hosts + t->place[r];
  }
  return blocks ? TAGC_BLOCKS : stripes ? TAGC_STRIPES : TAGC_SCATTERED;
}

bool tagc_topology_make(struct tagc_topology *t, const uint32_t *host_of, int nranks, int rank) {
  uint32_t last = 0;
  for (int r = 0; r < nranks; r++)
    last = host_of[r] > last ? host_of[r] : last;
  *t = (struct tagc_topology){
    .hosts.nranks = nranks, .even = true, .local = malloc(2 * (size_t)nranks * sizeof *t->local)};
  int *on_host = calloc((size_t)last + 1, sizeof *on_host); /* ranks so far on each host, */
  int *met = calloc((size_t)nranks, sizeof *met);           /* and with each local index */
  if (!t->local || !on_host || !met) {
    tagc_topology_free(t);
    t = NULL;
  }
  for (int r = 0; t && r < nranks; r++) {
    t->place = t->local + nranks;
    t->local[r] = on_host[host_of[r]]++;
    t->place[r] = met[t->local[r]]++;
  }
  if (t) {
    t->hosts.hosts = met[0];
    t->hosts.local = on_host[host_of[rank]];
    for (int r = 0; r < nranks; r++)
      t->even &= on_host[host_of[r]] == t->hosts.local;
    t->placement = t->even ? placement_of(t) : TAGC_SCATTERED;
  }
  free(on_host);
  free(met);
  return t != NULL;
}

void tagc_topology_free(struct tagc_topology *t) {
  free(t->local);
  t->local = t->place = NULL;
}
