/* SPDX-License-Identifier: BSD-3-Clause
 * The recent calls; see evidence.h. Signatures are in an open-addressing table that is at most half full. The history
 * is a plain array, so that testing a period is a memcmp; a full one drops its older half.
 */
#include "layermap/cycle/evidence.h"

#include <string.h>

void tagc_evidence_begin(struct tagc_evidence *evidence) {
  evidence->calls = 0;
  evidence->kept = 0;
  evidence->reduces = false;
  if (evidence->signatures)
    memset(evidence->buckets, 0, sizeof evidence->buckets);
  evidence->signatures = 0;
}

/* The bucket of the signature, or the free one where it belongs. */
static uint16_t *find_bucket(struct tagc_evidence *evidence, const struct tagc_signature *call) {
  uint64_t rest = (uint64_t)call->collective | (uint64_t)call->dtype << 8 | (uint64_t)call->op << 16;
  uint64_t mixed = (call->count ^ rest << 40) * 0x9e3779b97f4a7c15u;
  uint32_t at = (uint32_t)(mixed >> 32) % TAGC_EVIDENCE_BUCKETS;
  while (evidence->buckets[at] && !tagc_signature_equal(&evidence->seen[evidence->buckets[at] - 1].signature, call))
    at = (at + 1) % TAGC_EVIDENCE_BUCKETS;
  return &evidence->buckets[at];
}

uint16_t tagc_evidence_add(struct tagc_evidence *evidence, const struct tagc_signature *call) {
  uint16_t *bucket = find_bucket(evidence, call);
  tagc_beginning_add(&evidence->beginning, call);
  if (!*bucket) {
    if (evidence->signatures == TAGC_EVIDENCE_SIGNATURES) {
      tagc_evidence_begin(evidence);
      bucket = find_bucket(evidence, call);
    }
    evidence->seen[evidence->signatures] = (struct tagc_seen){.signature = *call};
    *bucket = (uint16_t)++evidence->signatures;
    evidence->reduces |= tagc_signature_reduces(call) || tagc_signature_sums(call);
  }
  uint16_t id = (uint16_t)(*bucket - 1);
  if (evidence->kept == TAGC_EVIDENCE_CALLS) {
    evidence->kept /= 2;
    memcpy(evidence->history, evidence->history + evidence->kept, evidence->kept * sizeof *evidence->history);
  }
  evidence->history[evidence->kept++] = id;
  evidence->seen[id].before = evidence->seen[id].last;
  evidence->seen[id].last = ++evidence->calls;
  return id;
}

bool tagc_evidence_repeats(const struct tagc_evidence *evidence, uint32_t period, uint32_t calls) {
  if (calls > evidence->kept)
    return false;
  const uint16_t *oldest = evidence->history + (evidence->kept - calls);
  return memcmp(oldest, oldest + period, (calls - period) * sizeof *oldest) == 0;
}
