/* SPDX-License-Identifier: BSD-3-Clause */
#include "layermap/cycle/beginning.h"

#include "layermap/cycle/evidence.h"

static bool is_broadcast(const struct tagc_signature *s, uint8_t dtype) {
  return s->collective == TAGC_COLL_BROADCAST && s->dtype == dtype;
}

static void add_broadcast(struct tagc_beginning *b, const struct tagc_signature *call) {
  uint32_t i = 0;
  while (i < b->broadcast_count && !tagc_signature_equal(&b->broadcasts[i].signature, call))
    i++;
  b->overflow |= i == TAGC_BEGINNING_BROADCASTS;
  if (i == TAGC_BEGINNING_BROADCASTS)
    return;
  if (i == b->broadcast_count) {
    b->broadcasts[b->broadcast_count++].signature = *call;
    b->broadcasts[i].times = 0;
  }
  b->broadcasts[i].times++;
}

/* Behind these calls the all-reduces are cut anew. */
static void end_first_cut(struct tagc_beginning *b, const struct tagc_signature *call) {
  b->rebuilding = *call;
  b->rebuilt_reduced = b->reduced;
  b->rebuilt_bucket = b->bucket;
  b->reduced = 0;
}

void tagc_beginning_add(struct tagc_beginning *b, const struct tagc_signature *call) {
  const struct tagc_signature last = b->last;
  if (call->collective == TAGC_COLL_BROADCAST && (call->is_float || tagc_signature_is_bytes(call)))
    add_broadcast(b, call);
  b->constructed |= b->counted && is_broadcast(&last, TAGC_CODE_INT64) && call->collective == TAGC_COLL_BROADCAST;
  b->counted = last.collective == TAGC_COLL_ALL_GATHER && last.count == 1 && last.dtype == TAGC_CODE_INT64;
  if (is_broadcast(call, TAGC_CODE_INT32) && is_broadcast(&last, TAGC_CODE_INT32) && call->count < last.count)
    end_first_cut(b, call);
  if (tagc_signature_sums(call)) {
    b->reduced += call->count;
    b->bucket = *call;
  }
  b->last = *call;
}
