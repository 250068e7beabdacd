/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/broadcast/verdict.h"

#include "env/hash.h"

static uint64_t shape_digest(const struct tagc_broadcast_shape *shape) {
  const uint64_t words[] = {shape->words, (uint64_t)shape->dtype, (uint64_t)shape->root};
  return tagc_hash_words(words, sizeof words);
}

struct tagc_broadcast_status tagc_broadcast_status_of(const struct tagc_references *refs,
                                                      const struct tagc_broadcast_shape *shape) {
  return (struct tagc_broadcast_status){
    .call = shape_digest(shape),
    .references = tagc_references_digest(refs),
    .flags = (refs->lost ? TAGC_BROADCAST_LOST : 0u) | (refs->no_memory ? TAGC_BROADCAST_NO_MEMORY : 0u),
  };
}

/* Is the root's choice one that all ranks can follow? */
static bool is_possible(const struct tagc_references *refs, const struct tagc_broadcast_shape *shape,
                        const struct tagc_broadcast_status *root, uint64_t payload_most, uint64_t most) {
  switch (root->action) {
  case TAGC_BROADCAST_PLAIN: return true;
  case TAGC_BROADCAST_KEEP: return tagc_references_have_room(refs, shape, root->reference, most);
  case TAGC_BROADCAST_CHANGES:
    return root->reference < refs->count && tagc_broadcast_is_same(&refs->all[root->reference].shape, shape) &&
           root->bytes > 0 && root->bytes <= payload_most;
  default: return false;
  }
}

static enum tagc_broadcast_cause find_cause(const struct tagc_references *refs,
                                            const struct tagc_broadcast_shape *shape,
                                            const struct tagc_broadcast_status *statuses, int nranks,
                                            uint64_t payload_most, uint64_t most) {
  const struct tagc_broadcast_status *first = &statuses[0];
  bool differ = false, asked = false, unable = false;
  for (int rank = 0; rank < nranks; rank++)
    if (statuses[rank].call != first->call)
      return TAGC_BROADCAST_PARTED;
  for (int rank = 0; rank < nranks; rank++) {
    const uint32_t flags = statuses[rank].flags;
    if (flags & TAGC_BROADCAST_NO_MEMORY)
      return TAGC_BROADCAST_LACKING;
    unable |= flags & TAGC_BROADCAST_UNABLE;
    asked |= flags & TAGC_BROADCAST_ASKS_PLAIN;
    differ |= (flags & ~(uint32_t)TAGC_BROADCAST_ASKS_PLAIN) || statuses[rank].references != first->references;
  }
  if (unable) /* it could not keep the call, either */
    return TAGC_BROADCAST_REJECTED;
  if (differ)
    return TAGC_BROADCAST_DIFFER;
  if (asked)
    return TAGC_BROADCAST_ASKED;
  return is_possible(refs, shape, &statuses[shape->root], payload_most, most) ? TAGC_BROADCAST_CHOSEN
                                                                              : TAGC_BROADCAST_DIFFER;
}

bool tagc_broadcast_is_inside(const struct tagc_broadcast_status *statuses, int nranks) {
  for (int rank = 1; rank < nranks; rank++)
    if (statuses[rank].host != statuses[0].host)
      return false;
  return true;
}

/* After a difference this call is the first reference of a new list. The others know as much as this rank: what counts
 * beside the statuses is the call's size. */
struct tagc_broadcast_verdict tagc_broadcast_judge(const struct tagc_references *refs,
                                                   const struct tagc_broadcast_shape *shape,
                                                   const struct tagc_broadcast_status *statuses, int nranks,
                                                   uint64_t payload_most, uint64_t most) {
  const struct tagc_broadcast_status *root = &statuses[shape->root];
  struct tagc_broadcast_verdict verdict = {.cause = find_cause(refs, shape, statuses, nranks, payload_most, most)};
  if (verdict.cause == TAGC_BROADCAST_CHOSEN) {
    verdict.action = (enum tagc_broadcast_action)root->action;
    verdict.reference = verdict.action == TAGC_BROADCAST_PLAIN ? TAGC_NO_REFERENCE : root->reference;
    verdict.bytes = verdict.action == TAGC_BROADCAST_CHANGES ? root->bytes : 0;
    return verdict;
  }
  verdict.forgets = verdict.cause > TAGC_BROADCAST_REJECTED;
  const bool kept = verdict.cause == TAGC_BROADCAST_DIFFER && tagc_broadcast_bytes(shape) <= most;
  verdict.action = kept ? TAGC_BROADCAST_KEEP : TAGC_BROADCAST_PLAIN;
  verdict.reference = kept ? 0 : TAGC_NO_REFERENCE;
  return verdict;
}
