/* SPDX-License-Identifier: BSD-3-Clause
 * interpose/broadcast/verdict: what follows from the statuses of a broadcast's ranks. Then ranks that send tensors,
 * with failures of one of them at every point of a call: none may ever have wrong values.
 */
#include "interpose/broadcast/verdict.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/allgather/exact.h"
#include "tests/unit/tap.h"

enum { RANKS = 3, TENSORS = 5, WORDS = 2048, BYTES = 2 * WORDS, CALLS = 40000 };

static uint64_t state = 1;
static uint32_t below(uint32_t most) {
  uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)((x ^ x >> 31) >> 32) % most;
}

/* ---- one verdict ------------------------------------------------------------------------------------------------- */

static const struct tagc_broadcast_shape shape = {WORDS, TAGC_BFLOAT16, 1};
static struct tagc_reference one = {.shape = {WORDS, TAGC_BFLOAT16, 1}, .digest = 7, .next = TAGC_NO_REFERENCE};

static const struct example {
  const char *what;
  uint32_t action, reference;
  uint64_t bytes;
  uint32_t flags_of_2;
  uint64_t references_of_2, call_of_0; /* added to what all have */
  enum tagc_broadcast_action wanted;
  enum tagc_broadcast_cause cause;
} examples[] = {
  {"changes", TAGC_BROADCAST_CHANGES, 0, 640, 0, 0, 0, TAGC_BROADCAST_CHANGES, TAGC_BROADCAST_CHOSEN},
  {"the largest payload", TAGC_BROADCAST_CHANGES, 0, 3000, 0, 0, 0, TAGC_BROADCAST_CHANGES, TAGC_BROADCAST_CHOSEN},
  {"too large a payload", TAGC_BROADCAST_CHANGES, 0, 3001, 0, 0, 0, TAGC_BROADCAST_KEEP, TAGC_BROADCAST_DIFFER},
  {"an empty payload", TAGC_BROADCAST_CHANGES, 0, 0, 0, 0, 0, TAGC_BROADCAST_KEEP, TAGC_BROADCAST_DIFFER},
  {"no such reference", TAGC_BROADCAST_CHANGES, 1, 640, 0, 0, 0, TAGC_BROADCAST_KEEP, TAGC_BROADCAST_DIFFER},
  {"kept in place", TAGC_BROADCAST_KEEP, 0, 0, 0, 0, 0, TAGC_BROADCAST_KEEP, TAGC_BROADCAST_CHOSEN},
  {"kept beside", TAGC_BROADCAST_KEEP, 1, 0, 0, 0, 0, TAGC_BROADCAST_KEEP, TAGC_BROADCAST_CHOSEN},
  {"kept beyond the end", TAGC_BROADCAST_KEEP, 2, 0, 0, 0, 0, TAGC_BROADCAST_KEEP, TAGC_BROADCAST_DIFFER},
  {"plain", TAGC_BROADCAST_PLAIN, 0, 0, 0, 0, 0, TAGC_BROADCAST_PLAIN, TAGC_BROADCAST_CHOSEN},
  {"no such action", 3, 0, 0, 0, 0, 0, TAGC_BROADCAST_KEEP, TAGC_BROADCAST_DIFFER},
  {"other references", TAGC_BROADCAST_CHANGES, 0, 640, 0, 1, 0, TAGC_BROADCAST_KEEP, TAGC_BROADCAST_DIFFER},
  {"a failed call", TAGC_BROADCAST_CHANGES, 0, 640, TAGC_BROADCAST_LOST, 0, 0, TAGC_BROADCAST_KEEP,
   TAGC_BROADCAST_DIFFER},
  {"no memory", TAGC_BROADCAST_CHANGES, 0, 640, TAGC_BROADCAST_NO_MEMORY, 0, 0, TAGC_BROADCAST_PLAIN,
   TAGC_BROADCAST_LACKING},
  {"an unknown flag", TAGC_BROADCAST_CHANGES, 0, 640, 16, 0, 0, TAGC_BROADCAST_KEEP, TAGC_BROADCAST_DIFFER},
  {"a configuration", TAGC_BROADCAST_CHANGES, 0, 640, TAGC_BROADCAST_ASKS_PLAIN, 0, 0, TAGC_BROADCAST_PLAIN,
   TAGC_BROADCAST_ASKED},
  {"a configuration and a failed call", TAGC_BROADCAST_CHANGES, 0, 640, TAGC_BROADCAST_ASKS_PLAIN | TAGC_BROADCAST_LOST,
   0, 0, TAGC_BROADCAST_KEEP, TAGC_BROADCAST_DIFFER},
  {"a GPU that cannot", TAGC_BROADCAST_CHANGES, 0, 640, TAGC_BROADCAST_UNABLE, 0, 0, TAGC_BROADCAST_PLAIN,
   TAGC_BROADCAST_REJECTED},
  {"a GPU that cannot, and a failed call", TAGC_BROADCAST_CHANGES, 0, 640, TAGC_BROADCAST_UNABLE | TAGC_BROADCAST_LOST,
   0, 0, TAGC_BROADCAST_PLAIN, TAGC_BROADCAST_REJECTED},
  {"another call", TAGC_BROADCAST_CHANGES, 0, 640, 0, 0, 1, TAGC_BROADCAST_PLAIN, TAGC_BROADCAST_PARTED},
};

static void check_example(const struct example *e) {
  const struct tagc_references refs = {.all = &one, .count = 1, .bytes = BYTES, .last = TAGC_NO_REFERENCE};
  struct tagc_broadcast_status statuses[RANKS];
  for (int r = 0; r < RANKS; r++)
    statuses[r] = tagc_broadcast_status_of(&refs, &shape);
  statuses[1].action = e->action;
  statuses[1].reference = e->reference;
  statuses[1].bytes = e->bytes;
  statuses[2].flags |= e->flags_of_2;
  statuses[2].references += e->references_of_2;
  statuses[0].call += e->call_of_0;
  const struct tagc_broadcast_verdict v = tagc_broadcast_judge(&refs, &shape, statuses, RANKS, 3000, 2 * BYTES);
  const bool chosen = e->cause == TAGC_BROADCAST_CHOSEN;
  ok(v.action == e->wanted && v.cause == e->cause && v.forgets == (e->cause > TAGC_BROADCAST_REJECTED) &&
       v.bytes == (e->wanted == TAGC_BROADCAST_CHANGES ? e->bytes : 0) &&
       v.reference == (e->wanted == TAGC_BROADCAST_PLAIN ? TAGC_NO_REFERENCE
                       : chosen                          ? e->reference
                                                         : 0),
     "%s", e->what);
}

/* ---- ranks --------------------------------------------------------------------------------------------------------
 */

/* Where a rank's call fails. */
enum failure { NOWHERE, BEFORE_STATUSES, BEHIND_STATUSES, BEFORE_CONTENT, BEHIND_CONTENT, FAILURES };

static struct rank {
  struct tagc_references refs;
  struct tagc_broadcast_verdict verdict;
  enum failure fails;
  uint16_t recv[WORDS];
} ranks[RANKS];

static uint16_t contents[TENSORS][WORDS];
static unsigned changes, kept, forgotten, wrong, parted;
static bool poor;

static void *alloc_or_not(const struct tagc_device *self, size_t bytes, void *stream) {
  return poor && below(400) == 0 ? NULL : tagc_device_host.alloc(self, bytes, stream);
}
static struct tagc_device device;

static struct tagc_allgather_job job_of(struct rank *r, const struct tagc_broadcast_shape *of, const uint16_t *send) {
  struct tagc_allgather_job job = {.shape = tagc_broadcast_codec_shape(of),
                                   .rank = send ? 0 : -1,
                                   .send = send,
                                   .recv = r->recv,
                                   .payloads = r->refs.packed};
  tagc_allgather_exact.layout(&job.shape, &job.layout);
  return job;
}

static void refer_to(struct tagc_allgather_job *job, struct rank *r, uint32_t reference) {
  job->reference = r->refs.all[reference].memory;
  job->digest = &r->refs.all[reference].digest;
}

static struct tagc_broadcast_status status_of(struct rank *r, const struct tagc_broadcast_shape *of,
                                              const uint16_t *send, uint64_t most) {
  struct tagc_broadcast_status status = tagc_broadcast_status_of(&r->refs, of);
  if (send && !r->refs.no_memory)
    tagc_references_sample(&r->refs, &device, of, send, NULL);
  if (!send || status.flags)
    return status;
  const struct tagc_broadcast_choice choice = tagc_references_choose(&r->refs, of, most);
  status.action = choice.action;
  status.reference = choice.reference;
  if (choice.action != TAGC_BROADCAST_CHANGES)
    return status;
  struct tagc_allgather_job job = job_of(r, of, send);
  struct tagc_exact_header header;
  refer_to(&job, r, choice.reference);
  tagc_allgather_exact.encode(&job);
  memcpy(&header, job.payloads, sizeof header);
  status.bytes = header.needed;
  if (header.common.flags & TAGC_ALLGATHER_REFUSED)
    status.action = TAGC_BROADCAST_KEEP;
  return status;
}

static void apply(struct rank *r, const struct tagc_broadcast_shape *of) {
  static const struct tagc_allgather_layout layout = {.reference_bytes = BYTES};
  static const struct tagc_reference_limits limits = {UINT64_MAX, 0};
  if (r->verdict.forgets)
    tagc_references_forget(&r->refs, &device, NULL);
  if (r->verdict.action == TAGC_BROADCAST_CHANGES)
    tagc_references_use(&r->refs, r->verdict.reference);
  if (r->verdict.action == TAGC_BROADCAST_KEEP)
    tagc_references_keep(&r->refs, &device, of, &layout, r->verdict.reference, &limits, NULL);
}

static void take_content(struct rank *r, const struct tagc_broadcast_shape *of, const uint16_t *send,
                         const struct rank *root, const uint16_t *content) {
  struct tagc_allgather_job job = job_of(r, of, send);
  if (r->verdict.action == TAGC_BROADCAST_CHANGES) {
    if (r != root)
      memcpy(r->refs.packed, root->refs.packed, r->verdict.bytes);
    refer_to(&job, r, r->verdict.reference);
    tagc_allgather_exact.decode(&job);
    wrong += job.failed || job.refused;
    return;
  }
  memcpy(r->recv, content, BYTES);
  if (r->verdict.action != TAGC_BROADCAST_KEEP || r->refs.no_memory)
    return;
  refer_to(&job, r, r->verdict.reference);
  tagc_allgather_exact.refer(&job);
}

/* One call of all ranks. A rank that fails before it has sent its status leaves the others without it. */
static void call(uint64_t most) {
  const uint32_t tensor = below(TENSORS);
  const struct tagc_broadcast_shape of = {WORDS, TAGC_BFLOAT16, tensor == 3 ? 2 : 0};
  struct tagc_broadcast_status statuses[RANKS];
  struct rank *root = &ranks[of.root];
  bool sent = true;
  for (unsigned i = below(8) ? 0 : below(WORDS / (below(20) ? 50 : 1)); i > 0; i--)
    contents[tensor][below(WORDS)] ^= (uint16_t)(below(30) ? 1 : below(0x10000));
  for (int r = 0; r < RANKS; r++) {
    struct rank *me = &ranks[r];
    me->fails = below(60) ? NOWHERE : (enum failure)below(FAILURES);
    memset(me->recv, 0x77, sizeof me->recv);
    tagc_references_reserve_statuses(&me->refs, &device, RANKS, NULL);
    tagc_references_reserve_payload(&me->refs, &device, BYTES, NULL);
    me->refs.calls++;
    statuses[r] = status_of(me, &of, me == root ? contents[tensor] : NULL, most);
    sent &= me->fails != BEFORE_STATUSES;
  }
  bool forgets = false;
  for (int r = 0; r < RANKS; r++) {
    struct rank *me = &ranks[r];
    if (!sent || me->fails == BEHIND_STATUSES) {
      me->refs.lost = true;
      continue;
    }
    uint64_t payload_most = job_of(me, &of, NULL).layout.payload_bytes;
    me->verdict = tagc_broadcast_judge(&me->refs, &of, statuses, RANKS, payload_most, most);
    forgets |= me->verdict.forgets;
    for (int other = 0; other < r; other++)
      if (ranks[other].fails != BEHIND_STATUSES)
        parted += memcmp(&ranks[other].verdict, &me->verdict, sizeof me->verdict) != 0;
    apply(me, &of);
    if (me->fails == BEFORE_CONTENT)
      me->refs.lost = true;
  }
  forgotten += forgets;
  /* Without the root's content nobody has any. */
  const bool comes = sent && root->fails != BEHIND_STATUSES && root->fails != BEFORE_CONTENT;
  for (int r = 0; r < RANKS; r++) {
    struct rank *me = &ranks[r];
    if (!sent || me->fails == BEHIND_STATUSES || me->fails == BEFORE_CONTENT)
      continue;
    if (!comes) {
      me->refs.lost = true;
      continue;
    }
    take_content(me, &of, me == root ? contents[tensor] : NULL, root, contents[tensor]);
    changes += me->verdict.action == TAGC_BROADCAST_CHANGES;
    kept += me->verdict.action == TAGC_BROADCAST_KEEP;
    wrong += memcmp(me->recv, contents[tensor], BYTES) != 0;
    if (me->fails == BEHIND_CONTENT)
      me->refs.lost = true;
  }
}

static void run_ranks(const char *what, uint64_t most, bool some_poor) {
  device = tagc_device_host;
  device.alloc = alloc_or_not;
  poor = some_poor;
  changes = kept = forgotten = wrong = parted = 0;
  memset(ranks, 0, sizeof ranks);
  for (int t = 0; t < TENSORS; t++)
    for (int i = 0; i < WORDS; i++)
      contents[t][i] = (uint16_t)(below(2) << 15 | (0x3b00 + below(0x300)));
  for (int i = 0; i < CALLS / (SANITIZED ? 10 : 1); i++)
    call(most);
  ok(!wrong, "%s: no rank has wrong values (%u)", what, wrong);
  ok(!parted, "%s: all ranks have one verdict (%u)", what, parted);
  if (some_poor)
    ok(changes && kept && forgotten, "%s: %u changes, %u kept, %u times forgotten", what, changes, kept, forgotten);
  else
    ok(changes > kept && forgotten > 100, "%s: %u changes, %u kept, %u times forgotten", what, changes, kept,
       forgotten);
  for (int r = 0; r < RANKS; r++)
    tagc_references_free(&ranks[r].refs, &device, NULL, false);
}

int main(void) {
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
    check_example(&examples[i]);
  run_ranks("failures everywhere", UINT64_C(1) << 30, false);
  run_ranks("room for three", 3 * BYTES, false);
  run_ranks("a rank gets poor", UINT64_C(1) << 30, true);
  return tap_done();
}
