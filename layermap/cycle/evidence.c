/* SPDX-License-Identifier: BSD-3-Clause
 * The recent calls; see evidence.h. Signatures are in an open-addressing table that is at most half full. The history
 * is a plain array, so that testing a period is a memcmp; a full one drops its older half.
 */
#include "layermap/cycle/evidence.h"

#include <string.h>

void tagc_evidence_begin(struct tagc_evidence *evidence) {
  evidence->calls = evidence->reduced = 0;
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
  evidence->reduced += tagc_signature_reduces(call);
  evidence->seen[id].before_reduced = evidence->seen[id].last_reduced;
  evidence->seen[id].last_reduced = evidence->reduced;
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

uint32_t tagc_evidence_repeating(const struct tagc_evidence *evidence, uint32_t period, uint32_t most) {
  const uint16_t *end = evidence->history + evidence->kept;
  uint32_t calls = period;
  most = most < evidence->kept ? most : evidence->kept;
  while (calls < most && end[-1 - (ptrdiff_t)calls] == end[-1 - (ptrdiff_t)calls + (ptrdiff_t)period])
    calls++;
  return calls;
}

/* Goes back to the next reduce-scatter before call `at`; 0: none is kept. */
static uint32_t reduction_before(const struct tagc_evidence *evidence, uint32_t at) {
  while (at && !tagc_signature_reduces(&evidence->seen[evidence->history[at - 1]].signature))
    at--;
  return at ? at - 1 : 0;
}

/* True if the newest reduce-scatters repeat so many times with this period. */
static bool reductions_repeat(const struct tagc_evidence *evidence, uint64_t period, uint64_t times) {
  uint32_t newer = evidence->kept, older = evidence->kept;
  for (uint64_t i = 0; i < period; i++)
    older = reduction_before(evidence, older);
  for (uint64_t i = 0; i < period * (times - 1); i++) {
    newer = reduction_before(evidence, newer);
    older = reduction_before(evidence, older);
    if (!older || evidence->history[newer] != evidence->history[older])
      return false;
  }
  return true;
}

bool tagc_evidence_has_steps(const struct tagc_evidence *evidence, uint64_t period, uint64_t times) {
  if (evidence->reduced <= period * times || !reductions_repeat(evidence, period, times))
    return false;
  const uint16_t id = evidence->history[evidence->kept - 1];
  uint32_t at = reduction_before(evidence, evidence->kept);
  for (uint64_t step = 0; step < times; step++) {
    uint32_t longest = 0, likes = 0;
    for (uint64_t i = 0; i < period; i++) {
      const uint32_t earlier = reduction_before(evidence, at);
      longest = at - earlier > longest ? at - earlier : longest;
      for (; at > earlier; at--)
        likes += evidence->history[at] == id;
    }
    if (!at || longest <= period || likes != 1)
      return false;
  }
  return true;
}

bool tagc_evidence_recurs(const struct tagc_evidence *evidence, uint32_t calls) {
  if (2 * calls >= evidence->kept)
    return false;
  const uint16_t *newest = evidence->history + (evidence->kept - 1 - calls);
  for (const uint16_t *earlier = newest - calls; earlier >= evidence->history; earlier--)
    if (*earlier == *newest && memcmp(earlier, newest, calls * sizeof *newest) == 0)
      return true;
  return false;
}
