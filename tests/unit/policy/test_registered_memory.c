/* SPDX-License-Identifier: BSD-3-Clause
 * Registered memory: random ranges, overlapping and duplicate, against a linear search; the homes of slots; threads.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/policy/registered_memory.h"
#include "tests/unit/tap.h"

enum { COMMS = 4, MOST = 400, ROUNDS = 40000, SPACE = 4096 };

static uint64_t state = 1;

static unsigned below(unsigned n) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  return (unsigned)((z ^ z >> 31) % n);
}

/* Handles: the first represents the process. */
static ncclComm_t comm_of(unsigned i) { return (ncclComm_t)(uintptr_t)(i * 64); }
static void *at(uintptr_t address) { return (void *)(0x1000 + address); }

/* The expected registrations, newest last. */
struct known {
  unsigned comm;
  uintptr_t begin, size;
  uint64_t number;
  void *handle;
};
static struct known known[MOST];
static size_t count;
static uint64_t numbers[COMMS];

static void forget(size_t i) {
  memmove(&known[i], &known[i + 1], (count - i - 1) * sizeof *known);
  count--;
}

static void add(void) {
  unsigned comm = below(COMMS);
  struct known k = {comm, below(SPACE), 1 + below(below(4) ? 64 : SPACE), ++numbers[comm], NULL};
  if (count && below(4) == 0) { /* an existing one, perhaps with the same handle */
    const struct known *twin = &known[below((unsigned)count)];
    k.begin = twin->begin;
    k.size = twin->size;
    k.handle = twin->handle;
  }
  if (!k.handle || below(2))
    k.handle = (void *)(uintptr_t)(1 + below(1 << 20));
  known[count++] = k;
  tagc_ranges_add(comm_of(comm), at(k.begin), k.size, k.handle);
}

static void remove_one(void) {
  const struct known k = known[below((unsigned)count)];
  tagc_ranges_remove(comm_of(k.comm), k.handle);
  for (size_t i = count; i-- > 0;)
    if (known[i].comm == k.comm && known[i].handle == k.handle) {
      forget(i);
      return;
    }
}

static void end_comm(void) {
  unsigned comm = 1 + below(COMMS - 1);
  tagc_ranges_forget(comm_of(comm));
  numbers[comm] = 0;
  for (size_t i = count; i-- > 0;)
    if (known[i].comm == comm)
      forget(i);
}

static bool search(unsigned comm, uintptr_t begin, size_t size, struct tagc_range *found) {
  const struct known *best = NULL;
  for (int of_process = 0; of_process < 2 && !best; of_process++)
    for (size_t i = 0; i < count; i++)
      if (known[i].comm == (of_process ? 0 : comm) && known[i].begin <= begin &&
          known[i].begin + known[i].size >= begin + size && (!best || known[i].number < best->number))
        best = &known[i];
  if (best)
    *found = (struct tagc_range){best->number, begin - best->begin, best->comm == 0};
  return best != NULL;
}

static bool as_searched(void) {
  unsigned comm = 1 + below(COMMS - 1);
  uintptr_t begin = below(SPACE);
  size_t size = 1 + below(below(2) ? 8 : 200);
  struct tagc_range a = {0}, b = {0};
  bool found = tagc_ranges_find(comm_of(comm), at(begin), size, &a), wanted = search(comm, begin, size, &b);
  return found == wanted && a.number == b.number && a.offset == b.offset && a.of_process == b.of_process;
}

static void test_random(void) {
  bool good = true;
  unsigned hits = 0;
  for (int i = 0; i < ROUNDS && good; i++) {
    unsigned what = below(100);
    if (count == MOST || (count && what < 45))
      remove_one();
    else if (what == 99 && below(20) == 0)
      end_comm();
    else
      add();
    struct tagc_range any;
    for (int j = 0; j < 4; j++)
      good = good && as_searched();
    hits += search(1, below(SPACE), 4, &any);
  }
  ok(good, "%d random changes: every buffer is where a search finds it (%u of %d lay in one)", ROUNDS, hits, ROUNDS);
  while (count)
    remove_one();
  for (unsigned comm = 1; comm < COMMS; comm++)
    tagc_ranges_forget(comm_of(comm));
}

static void test_edges(void) {
  struct tagc_range r;
  ncclComm_t comm = comm_of(9);
  ok(!tagc_ranges_find(comm, at(0), 1, &r), "nothing is registered: nothing is found");
  tagc_ranges_add(comm, at(100), 50, at(1));
  ok(tagc_ranges_find(comm, at(100), 50, &r) && r.number == 1 && r.offset == 0 && !r.of_process,
     "all of a range is in it");
  ok(!tagc_ranges_find(comm, at(100), 51, &r) && !tagc_ranges_find(comm, at(99), 2, &r), "what sticks out is not");
  ok(!tagc_ranges_find(comm_of(10), at(100), 50, &r), "nor is it another communicator's");
  ok(!tagc_ranges_hold_symmetric(comm, at(110), 5), "a registration is no symmetric window");
  tagc_ranges_are_symmetric(comm, at(1));
  tagc_ranges_are_symmetric(comm, at(9));
  ok(tagc_ranges_hold_symmetric(comm, at(110), 5) && tagc_ranges_hold_symmetric(comm, at(100), 50), "unless it is one");
  ok(!tagc_ranges_hold_symmetric(comm, at(100), 51) && !tagc_ranges_hold_symmetric(comm_of(10), at(110), 5),
     "it ends where it ends, and is of one communicator");
  tagc_ranges_add(comm, at(200), SIZE_MAX, at(2));
  ok(tagc_ranges_find(comm, at(1 << 20), 5, &r) && r.number == 2, "a size beyond the end of memory");
  tagc_ranges_add(comm, NULL, 5, at(3));
  tagc_ranges_add(comm, at(5), 0, at(4));
  ok(!tagc_ranges_find(comm, at(5), 0, &r), "no memory and no size are not noted");
  tagc_ranges_remove(comm, at(7));
  tagc_ranges_remove(comm_of(11), at(1));
  ok(tagc_ranges_find(comm, at(100), 50, &r), "an end that nothing had begun is none");
  tagc_ranges_forget(comm);
  ok(!tagc_ranges_find(comm, at(100), 50, &r), "a communicator ends with what was registered with it");
}

static void test_homes(void) {
  struct tagc_home home = {0};
  ncclComm_t comm = comm_of(1);
  char text[48];
  ok(!tagc_home_see(&home, comm, at(0), 8) && !tagc_home_see(&home, comm, at(0), 8) &&
       !tagc_home_see(&home, comm, at(0), 8),
     "an address alone is no home, however often it comes");
  tagc_ranges_add(comm, at(0), 64 << 20, at(1));
  bool first = tagc_home_see(&home, comm, at(12 << 20), 8), second = tagc_home_see(&home, comm, at(12 << 20), 8);
  ok(!first && !second && tagc_home_see(&home, comm, at(12 << 20), 8),
     "the third call in a row at one place makes it one");
  ok(!strcmp(tagc_range_text(&home.place, text), "registered 1 + 12.0 MiB"), "%s", text);
  tagc_ranges_add(comm, at(12 << 20), 1024, at(2));
  ok(tagc_home_see(&home, comm, at(12 << 20), 8), "it stays one when something else is registered over it");
  ok(!tagc_home_see(&home, comm, at(13 << 20), 8) && !tagc_home_see(&home, comm, at(12 << 20), 8),
     "another place ends it");
  for (int i = 0; i < 3; i++)
    tagc_home_see(&home, comm, at(12 << 20), 8);
  tagc_ranges_remove(comm, at(1));
  tagc_ranges_remove(comm, at(2));
  tagc_ranges_add(comm, at(0), 64 << 20, at(1));
  ok(!tagc_home_see(&home, comm, at(12 << 20), 8),
     "given back and registered anew it is another place, at the same address");
  tagc_ranges_forget(comm);
  ok(!tagc_home_see(&home, comm, at(12 << 20), 8), "and none without a registration");
  tagc_ranges_add(NULL, at(0), 100, at(0));
  for (int i = 0; i < 3; i++)
    tagc_home_see(&home, comm, at(0), 8);
  tagc_range_text(&home.place, text);
  ok(!strncmp(text, "allocated ", 10) && strstr(text, " + 0 B"), "%s", text);
  tagc_ranges_remove(NULL, at(0));
}

/* Every thread has its own communicator; all of them also query the process. */
static void *work(void *which) {
  ncclComm_t comm = comm_of(100 + *(unsigned *)which);
  bool good = true;
  struct tagc_range r;
  for (unsigned i = 0; i < 3000; i++) {
    tagc_ranges_add(comm, at(i), 100, at(i));
    good = good && tagc_ranges_find(comm, at(i), 100, &r) && !r.of_process && r.offset == 0;
    tagc_ranges_add(NULL, at(5000 + 200 * *(unsigned *)which), 100, at(i + 1));
    if (i % 3)
      tagc_ranges_remove(comm, at(i));
    tagc_ranges_remove(NULL, at(i + 1));
  }
  tagc_ranges_forget(comm);
  *(unsigned *)which = good;
  return NULL;
}

static void test_threads(void) {
  pthread_t threads[4];
  unsigned which[4] = {0, 1, 2, 3};
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, work, &which[i]);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  ok(which[0] && which[1] && which[2] && which[3], "four threads find what they have registered");
}

int main(void) {
  test_random();
  test_edges();
  test_homes();
  test_threads();
  return tap_done();
}
