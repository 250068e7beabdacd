/* SPDX-License-Identifier: BSD-3-Clause
 * Lists of exceptions: see exceptions.h. They are short and rare, so simple beats fast here.
 */
#include "kernels/codec/exceptions.h"

#include <string.h>

void tagc_exceptions_clear(struct tagc_exceptions *list, uint64_t n) { memset(list, 0, tagc_exceptions_bytes(n)); }

void tagc_exceptions_add(struct tagc_exceptions *list, uint64_t n, uint32_t position, float value) {
  if (list->count < tagc_exceptions_capacity(n))
    list->entry[list->count] = (struct tagc_exception){
      .position = position,
      .bits = value == value ? tagc_bits_of(value) : TAGC_NAN_BITS,
    };
  list->count += list->count != UINT32_MAX;
}

/* Restores the heap order of entry[0..count) below `root`: no recursion, no memory, n log n for any input. */
static void sift_down(struct tagc_exception *entry, size_t root, size_t count) {
  for (size_t child; (child = 2 * root + 1) < count; root = child) {
    if (child + 1 < count && entry[child].position < entry[child + 1].position)
      child++;
    if (entry[root].position >= entry[child].position)
      return;
    struct tagc_exception swap = entry[root];
    entry[root] = entry[child];
    entry[child] = swap;
  }
}

uint32_t tagc_exceptions_close(struct tagc_exceptions *list, uint64_t n) {
  uint64_t capacity = tagc_exceptions_capacity(n);
  size_t count = list->count;
  if (count > capacity) {
    memset(list->entry, 0, capacity * sizeof(struct tagc_exception));
    return list->count;
  }
  for (size_t root = count / 2; root-- > 0;)
    sift_down(list->entry, root, count);
  for (size_t last = count; last-- > 1;) {
    struct tagc_exception largest = list->entry[0];
    list->entry[0] = list->entry[last];
    list->entry[last] = largest;
    sift_down(list->entry, 0, last);
  }
  return list->count;
}

bool tagc_exceptions_merge(struct tagc_exception *sorted, size_t *count, const struct tagc_exceptions *list,
                           uint64_t n) {
  size_t more = list->count, have = *count;
  if (more > tagc_exceptions_capacity(n))
    return false;
  for (size_t i = 0; i < more; i++)
    if (list->entry[i].position >= n || (i && list->entry[i].position <= list->entry[i - 1].position))
      return false;
  /* From the back, so that the merge happens in place. */
  size_t to = have + more;
  *count = to;
  while (more > 0) {
    if (have > 0 && sorted[have - 1].position > list->entry[more - 1].position)
      sorted[--to] = sorted[--have];
    else
      sorted[--to] = list->entry[--more];
  }
  return true;
}

static struct tagc_exceptions *list_of(const struct tagc_job *job, uint8_t *messages, int rank) {
  return (struct tagc_exceptions *)(messages + (size_t)rank * job->layout.message_bytes);
}

uint32_t tagc_exceptions_anywhere(const struct tagc_job *job, uint32_t known) {
  uint32_t anywhere = known | (job->nonfinite_before ? TAGC_ANYWHERE_EXCEPTION : 0);
  for (int shard = 0; shard < job->shape.nranks; shard++)
    if (shard != job->rank && list_of(job, job->message_out, shard)->count > 0)
      anywhere |= TAGC_ANYWHERE_EXCEPTION;
  for (int shard = 0; shard < job->shape.nranks; shard++)
    if (shard != job->rank)
      list_of(job, job->message_out, shard)->anywhere = anywhere;
  return anywhere;
}

bool tagc_exceptions_collect(struct tagc_job *job, uint32_t own, struct tagc_exception *sorted, size_t *count) {
  uint32_t anywhere = own;
  bool fits = true;
  *count = 0;
  for (int sender = 0; sender < job->shape.nranks; sender++) {
    if (sender == job->rank)
      continue;
    const struct tagc_exceptions *list = list_of(job, job->message_in, sender);
    fits &= tagc_exceptions_merge(sorted, count, list, job->shape.n);
    anywhere |= list->anywhere;
  }
  job->nonfinite_seen = anywhere & TAGC_ANYWHERE_EXCEPTION || !fits;
  job->surplus_seen = anywhere & TAGC_ANYWHERE_SURPLUS;
  return fits;
}

void tagc_exceptions_overflow(struct tagc_job *job) {
  job->stats->overflowed++;
  for (uint64_t i = 0; i < job->shape.n; i++)
    tagc_store(job->recv, i, job->shape.dtype, tagc_float_of(TAGC_NAN_BITS));
}
