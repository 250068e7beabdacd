/* SPDX-License-Identifier: BSD-3-Clause
 * Registered memory; see registered_memory.h. The ranges of a communicator, and those of the process, form an array
 * each, sorted by their begin. Every range knows the highest end up to it, which ends a search early.
 */
#include "interpose/policy/registered_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/units.h"

#define HASH_NONFATAL_OOM 1 /* uthash must not end the host program */
#define uthash_nonfatal_oom(element) ((element)->unhashed = true)
#include <uthash.h>

/* A registration. */
struct range {
  uintptr_t begin, end, last; /* last: the highest `end` up to this one */
  uint64_t number;
  const void *handle;
  bool symmetric;
};

/* The ranges of a communicator or, under NULL, of the process. */
struct registry {
  ncclComm_t comm;
  struct range *ranges;
  size_t count, room;
  uint64_t numbers;
  bool unhashed;
  UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registry *registries;
static atomic_size_t living; /* ranges */
static atomic_uint_least64_t changes;

/* The number of ranges that begin at or before `begin`. */
static size_t count_to(const struct registry *r, uintptr_t begin) {
  size_t low = 0, high = r->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (r->ranges[middle].begin <= begin)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Updates `last` from range `i` on. */
static void update(struct registry *r, size_t i) {
  for (; i < r->count; i++) {
    struct range *range = &r->ranges[i];
    range->last = i && range[-1].last > range->end ? range[-1].last : range->end;
  }
}

static bool insert(struct registry *r, const struct range *range) {
  const size_t at = count_to(r, range->begin), room = r->room ? 2 * r->room : 16;
  if (r->count == r->room) {
    struct range *larger = realloc(r->ranges, room * sizeof *larger);
    if (!larger)
      return false;
    r->ranges = larger;
    r->room = room;
  }
  memmove(&r->ranges[at + 1], &r->ranges[at], (r->count++ - at) * sizeof *range);
  r->ranges[at] = *range;
  update(r, at);
  return true;
}

/* The oldest range that holds all of [begin, end). */
static const struct range *find_registered(const struct registry *r, uintptr_t begin, uintptr_t end) {
  const struct range *found = NULL;
  for (size_t i = count_to(r, begin); i-- > 0 && r->ranges[i].last >= end;) {
    const struct range *range = &r->ranges[i];
    if (range->end >= end && (!found || range->number < found->number))
      found = range;
  }
  return found;
}

static uintptr_t end_of_memory(const void *memory, size_t size) {
  const uintptr_t begin = (uintptr_t)memory;
  return size > UINTPTR_MAX - begin ? UINTPTR_MAX : begin + size;
}

static struct registry *registry_of(ncclComm_t comm) {
  struct registry *r;
  HASH_FIND_PTR(registries, &comm, r);
  return r;
}

static struct registry *make_registry(ncclComm_t comm) {
  struct registry *r = registry_of(comm);
  if (r || !(r = calloc(1, sizeof *r)))
    return r;
  r->comm = comm;
  HASH_ADD_PTR(registries, comm, r);
  if (!r->unhashed)
    return r;
  free(r);
  return NULL;
}

void tagc_ranges_add(ncclComm_t comm, const void *memory, size_t size, const void *handle) {
  if (!memory || !size)
    return;
  pthread_mutex_lock(&lock);
  struct registry *r = make_registry(comm);
  if (r && insert(r, &(struct range){.begin = (uintptr_t)memory,
                                     .end = end_of_memory(memory, size),
                                     .number = ++r->numbers,
                                     .handle = handle})) {
    atomic_fetch_add(&living, 1);
    atomic_fetch_add(&changes, 1);
  }
  pthread_mutex_unlock(&lock);
}

/* The newest range with a handle; NULL: none. With the lock. */
static struct range *newest_of(struct registry *r, const void *handle) {
  struct range *newest = NULL;
  for (size_t i = 0; r && i < r->count; i++)
    if (r->ranges[i].handle == handle && (!newest || r->ranges[i].number > newest->number))
      newest = &r->ranges[i];
  return newest;
}

void tagc_ranges_are_symmetric(ncclComm_t comm, const void *handle) {
  pthread_mutex_lock(&lock);
  struct range *range = newest_of(registry_of(comm), handle);
  if (range)
    range->symmetric = true;
  pthread_mutex_unlock(&lock);
}

bool tagc_ranges_hold_symmetric(ncclComm_t comm, const void *buffer, size_t size) {
  const uintptr_t begin = (uintptr_t)buffer, end = end_of_memory(buffer, size);
  bool held = false;
  if (atomic_load_explicit(&living, memory_order_relaxed) == 0)
    return false;
  pthread_mutex_lock(&lock);
  const struct registry *r = registry_of(comm);
  for (size_t i = r ? count_to(r, begin) : 0; !held && i-- > 0 && r->ranges[i].last >= end;)
    held = r->ranges[i].symmetric && r->ranges[i].end >= end;
  pthread_mutex_unlock(&lock);
  return held;
}

void tagc_ranges_remove(ncclComm_t comm, const void *handle) {
  if (!handle || atomic_load_explicit(&living, memory_order_relaxed) == 0)
    return;
  pthread_mutex_lock(&lock);
  struct registry *r = registry_of(comm);
  struct range *newest = newest_of(r, handle);
  if (newest) {
    const size_t at = (size_t)(newest - r->ranges);
    memmove(newest, newest + 1, (--r->count - at) * sizeof *newest);
    update(r, at);
    atomic_fetch_sub(&living, 1);
    atomic_fetch_add(&changes, 1);
  }
  pthread_mutex_unlock(&lock);
}

void tagc_ranges_forget(ncclComm_t comm) {
  if (!comm)
    return;
  pthread_mutex_lock(&lock);
  struct registry *r = registry_of(comm);
  if (r) {
    HASH_DEL(registries, r);
    atomic_fetch_sub(&living, r->count);
    atomic_fetch_add(&changes, 1);
    free(r->ranges);
    free(r);
  }
  pthread_mutex_unlock(&lock);
}

bool tagc_ranges_find(ncclComm_t comm, const void *buffer, size_t size, struct tagc_range *found) {
  if (atomic_load_explicit(&living, memory_order_relaxed) == 0 || !buffer)
    return false;
  const uintptr_t begin = (uintptr_t)buffer, end = end_of_memory(buffer, size);
  const struct range *range = NULL;
  pthread_mutex_lock(&lock);
  for (int of_process = 0; of_process < 2 && !range; of_process++) {
    const struct registry *r = registry_of(of_process ? NULL : comm);
    range = r ? find_registered(r, begin, end) : NULL;
    if (range)
      *found = (struct tagc_range){range->number, begin - range->begin, of_process};
  }
  pthread_mutex_unlock(&lock);
  return range != NULL;
}

const char *tagc_range_text(const struct tagc_range *range, char text[48]) {
  char offset[16];
  snprintf(text, 48, "%s %llu + %s", range->of_process ? "allocated" : "registered", (unsigned long long)range->number,
           tagc_units_bytes(range->offset, offset));
  return text;
}

/* ---- homes ------------------------------------------------------------------------------------------------------- */

/* So many calls in a row at one place are no coincidence. */
enum { SETTLED = 3 };

static bool is_same_range(const struct tagc_range *a, const struct tagc_range *b) {
  return a->number == b->number && a->offset == b->offset && a->of_process == b->of_process;
}

bool tagc_home_see(struct tagc_home *home, ncclComm_t comm, const void *buffer, size_t size) {
  if (home->calls == 0 && atomic_load_explicit(&living, memory_order_relaxed) == 0)
    return false;
  const uint64_t now = atomic_load_explicit(&changes, memory_order_acquire);
  if (home->calls >= SETTLED && home->buffer == buffer && home->changes == now)
    return true;
  struct tagc_range place;
  const bool found = tagc_ranges_find(comm, buffer, size, &place);
  if (!found)
    home->calls = 0;
  else if (home->calls == 0 || !is_same_range(&place, &home->place))
    home->calls = 1;
  else if (home->calls < SETTLED)
    home->calls++;
  if (found)
    home->place = place;
  home->buffer = buffer;
  home->changes = now;
  return home->calls >= SETTLED;
}
