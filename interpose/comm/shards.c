/* SPDX-License-Identifier: BSD-3-Clause
 * Shards of gradients: see slot.h.
 */
#include <pthread.h>
#include <stdlib.h>

#include "interpose/comm/call.h"
#include "interpose/comm/comm.h"

/* The counts of one communicator, ascending. */
struct shards {
  struct shards *next;
  const struct tagc_comm *comm;
  size_t count;
  uint64_t counts[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shards *all;

/* The newest reduce-scatter of a gradient, if no other one came behind it. */
static struct {
  const void *where; /* NULL: none */
  size_t count;
  ncclDataType_t type;
} newest;

static int compare(const void *a, const void *b) {
  const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
  return (left > right) - (left < right);
}

/* Those of a communicator that are gradients; without one all. */
static struct shards *make_shards(const struct tagc_comm *comm, const struct tagc_slot_info *slots, size_t count) {
  struct shards *shards = malloc(sizeof *shards + count * sizeof *shards->counts);
  if (!shards)
    return NULL;
  *shards = (struct shards){.comm = comm};
  for (size_t i = 0; i < count; i++)
    if (slots[i].signature.count >= TAGC_ALL_REDUCE_LEAST && (!comm || tagc_slot_is_gradient(comm, i)))
      shards->counts[shards->count++] = slots[i].signature.count;
  qsort(shards->counts, shards->count, sizeof *shards->counts, compare);
  return shards;
}

void tagc_shards_drop(const struct tagc_comm *comm) {
  pthread_mutex_lock(&lock);
  struct shards **at = &all;
  while (*at && (*at)->comm != comm)
    at = &(*at)->next;
  struct shards *found = *at;
  if (found)
    *at = found->next;
  pthread_mutex_unlock(&lock);
  free(found);
}

void tagc_shards_set(const struct tagc_comm *comm) {
  size_t count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(comm->observed.cycle, &count);
  tagc_shards_drop(comm);
  if (!count || slots[0].signature.collective != TAGC_COLL_REDUCE_SCATTER)
    return;
  struct shards *shards = make_shards(comm, slots, count);
  if (!shards)
    return;
  pthread_mutex_lock(&lock);
  shards->next = all;
  all = shards;
  pthread_mutex_unlock(&lock);
}

static bool have_one_count(const struct tagc_slot_info *slots, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (slots[i].signature.count != slots[0].signature.count)
      return false;
  return true;
}

bool tagc_shards_may_be(const struct tagc_comm *comm) {
  size_t count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(comm->observed.cycle, &count);
  return count && slots[0].signature.collective == TAGC_COLL_ALL_REDUCE &&
         (!have_one_count(slots, count) || tagc_cycle_length(comm->observed.cycle) > count);
}

static bool are_equal(const struct shards *scattered, const struct shards *reduced) {
  const size_t passes = reduced->count ? scattered->count / reduced->count : 0;
  if (!passes || scattered->count % reduced->count)
    return false;
  for (size_t i = 0; i < scattered->count; i++)
    if (scattered->counts[i] != reduced->counts[i / passes])
      return false;
  return true;
}

/* True if some communicator has just these counts. */
static bool are_known(const struct tagc_slot_info *slots, size_t count) {
  struct shards *reduced = make_shards(NULL, slots, count);
  bool found = false;
  pthread_mutex_lock(&lock);
  for (const struct shards *s = all; s && reduced && !found; s = s->next)
    found = are_equal(s, reduced);
  pthread_mutex_unlock(&lock);
  free(reduced);
  return found;
}

bool tagc_shards_are(const struct tagc_comm *comm) {
  size_t count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(comm->observed.cycle, &count);
  bool all_sum = count == comm->slot_count;
  for (size_t i = 0; i < comm->slot_count && all_sum; i++)
    all_sum = comm->slots[i].sample.sums_shard;
  return all_sum || (!have_one_count(slots, count) && are_known(slots, count));
}

void tagc_shards_note(const struct tagc_call *call) {
  const bool is_gradient = call->slot >= 0 && tagc_slot_is_gradient(call->comm, (size_t)call->slot);
  pthread_mutex_lock(&lock);
  newest.where = is_gradient ? call->recv : NULL;
  newest.count = call->count;
  newest.type = call->type;
  pthread_mutex_unlock(&lock);
}

bool tagc_shards_sums(const struct tagc_call *call) {
  pthread_mutex_lock(&lock);
  const bool sums =
    newest.where && newest.where == call->send && newest.count == call->count && newest.type == call->type;
  pthread_mutex_unlock(&lock);
  return sums && call->send == call->recv;
}
