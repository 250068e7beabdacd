/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/cycle/activations.h"

#include <string.h>

#include "layermap/cycle/units.h"

static struct tagc_place *reduction_place(struct tagc_pattern *pattern, uint32_t i) {
  return &pattern->places[pattern->scratch.reduced[i]];
}

/* Adds the gathers of the stretch before reduce-scatter i to the credit of their kinds, or resets that to 0. */
static void credit(struct tagc_pattern *pattern, uint32_t i, bool add) {
  uint32_t at = pattern->scratch.reduced[i ? i - 1 : pattern->slot_count - 1];
  for (at = (at + 1) % pattern->length; at != pattern->scratch.reduced[i]; at = (at + 1) % pattern->length) {
    const struct tagc_place *place = &pattern->places[at];
    if (place->kind && tagc_signature_allgathers(&place->signature))
      pattern->allgather_scratch.total[place->kind] =
        add ? (uint16_t)(pattern->allgather_scratch.total[place->kind] + 1) : 0;
  }
}

/* True if the reduce-scatters fall into passes, each gathered before it. held[i]: the first i do. */
static bool are_gathered_ahead(struct tagc_pattern *pattern) {
  bool *held = pattern->allgather_scratch.held, reached_end = false;
  uint16_t *left = pattern->allgather_scratch.total;
  const uint32_t count = pattern->slot_count;
  memset(left, 0, sizeof pattern->allgather_scratch.total);
  memset(held, 0, count * sizeof *held);
  held[0] = true;
  for (uint32_t begin = 0; begin < count; begin++) {
    if (!held[begin])
      continue;
    const uint16_t first = reduction_place(pattern, begin)->kind;
    bool several = false;
    credit(pattern, begin, true);
    for (uint32_t i = begin; i < count && left[reduction_place(pattern, i)->kind]; i++) {
      left[reduction_place(pattern, i)->kind]--;
      several |= reduction_place(pattern, i)->kind != first;
      if (several && i + 1 < count)
        held[i + 1] = true;
      reached_end |= several && i + 1 == count;
    }
    credit(pattern, begin, false);
  }
  return reached_end;
}

/* In calls. */
enum { LATELY = 256 };

bool tagc_pattern_is_row(const struct tagc_pattern *pattern, const struct tagc_evidence *evidence) {
  uint16_t ids[LATELY];
  uint32_t found = 0, period = 0;
  for (uint32_t i = 0; i < pattern->length; i++)
    period += tagc_signature_reduces(&pattern->places[i].signature);
  for (uint32_t back = 1; back <= evidence->kept && back <= LATELY; back++) {
    const uint16_t id = evidence->history[evidence->kept - back];
    if (!tagc_signature_reduces(&evidence->seen[id].signature))
      continue;
    if (found >= period && ids[found - period] != id)
      return true;
    ids[found++] = id;
  }
  return false;
}

bool tagc_pattern_has_replicas(const struct tagc_evidence *evidence, int nranks) {
  uint64_t replicated = 0, sharded = 0;
  for (uint32_t i = 0; i < evidence->signatures; i++) {
    const struct tagc_seen *seen = &evidence->seen[i];
    if (tagc_signature_sums(&seen->signature))
      replicated += seen->times * seen->signature.count;
    if (tagc_signature_reduces(&seen->signature))
      sharded += seen->times * seen->signature.count;
  }
  return nranks > 0 && replicated / (unsigned)nranks > sharded;
}

bool tagc_pattern_has_activations(struct tagc_pattern *pattern, const struct tagc_evidence *evidence, int nranks) {
  if (tagc_pattern_has_replicas(evidence, nranks))
    return true;
  tagc_units_number(pattern);
  return !are_gathered_ahead(pattern);
}
