/* SPDX-License-Identifier: BSD-3-Clause
 * What a kernel costs, in numbers that no machine changes: instructions of warps, sectors of 32 bytes of global memory,
 * steps of shared memory that wait for a bank, atomics that wait for one on the same word. CUDA_STANDIN_COUNTS=FILE
 * gets a line for each kernel when the process ends. Only the usual schedule gives the same numbers each time.
 */
#include "tests/standin/cuda/ptx/ptx.h"

#include <stdlib.h>
#include <string.h>

enum { BANKS = 32, SECTOR = 32 };

struct total {
  const char *kernel;
  uint64_t launches;
  struct ptx_counts counts;
  struct total *next;
};

static pthread_mutex_t totals_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct total *totals;

static void write_totals(void) {
  FILE *file = fopen(standin_settings()->counts, "ae");
  for (const struct total *t = totals; file && t; t = t->next)
    fprintf(file, "%s launches=%llu instructions=%llu read=%llu written=%llu conflicts=%llu atomics=%llu same=%llu\n",
            t->kernel, (unsigned long long)t->launches, (unsigned long long)t->counts.instructions,
            (unsigned long long)t->counts.read, (unsigned long long)t->counts.written,
            (unsigned long long)t->counts.conflicts, (unsigned long long)t->counts.atomics,
            (unsigned long long)t->counts.same);
  if (file)
    fclose(file);
}

void ptx_count_launch(const struct ptx_machine *m) {
  if (!standin_settings()->counts)
    return;
  pthread_mutex_lock(&totals_mutex);
  struct total *t = totals;
  while (t && strcmp(t->kernel, m->function->name) != 0)
    t = t->next;
  if (!t && (t = calloc(1, sizeof *t))) {
    if (!totals)
      atexit(write_totals);
    *t = (struct total){.kernel = m->function->name, .next = totals};
    totals = t;
  }
  if (t) {
    t->launches++;
    t->counts.instructions += m->counts.instructions;
    t->counts.read += m->counts.read;
    t->counts.written += m->counts.written;
    t->counts.conflicts += m->counts.conflicts;
    t->counts.atomics += m->counts.atomics;
    t->counts.same += m->counts.same;
  }
  pthread_mutex_unlock(&totals_mutex);
}

/* Different sectors among the addresses, which the lanes of the mask have. */
static unsigned sectors(const uint64_t *addresses, uint32_t mask, unsigned bytes) {
  uint64_t seen[LANES * 2];
  unsigned count = 0;
  PTX_EACH(lane, mask) for (uint64_t s = addresses[lane] / SECTOR; s <= (addresses[lane] + bytes - 1) / SECTOR; s++) {
    unsigned k = count;
    while (k > 0 && seen[k - 1] != s)
      k--;
    if (k == 0)
      seen[count++] = s;
  }
  return count;
}

/* How often the fullest bank is asked for another word, by so many lanes at once as 128 bytes are for. */
static unsigned waits(const uint64_t *addresses, uint32_t mask, unsigned bytes) {
  unsigned words = bytes > 4 ? bytes / 4 : 1, together = LANES / words, waited = 0;
  for (unsigned first = 0; first < LANES; first += together) {
    uint64_t asked[BANKS][LANES];
    unsigned counts[BANKS] = {0}, most = 1;
    uint32_t some = together == LANES ? mask : mask >> first << first & ((1u << together) - 1) << first;
    PTX_EACH(lane, some) for (unsigned k = 0; k < words; k++) {
      uint64_t word = addresses[lane] / 4 + k;
      unsigned bank = (unsigned)(word % BANKS), n = 0;
      while (n < counts[bank] && asked[bank][n] != word)
        n++;
      if (n == counts[bank])
        asked[bank][counts[bank]++] = word;
      most = counts[bank] > most ? counts[bank] : most;
    }
    waited += most - 1;
  }
  return waited;
}

static unsigned most_alike(const uint64_t *addresses, uint32_t mask) {
  unsigned most = 1;
  PTX_EACH(lane, mask) {
    unsigned alike = 0;
    for (uint32_t left = mask; left; left &= left - 1)
      alike += addresses[__builtin_ctz(left)] == addresses[lane];
    most = alike > most ? alike : most;
  }
  return most;
}

void ptx_count_access(struct ptx_warp *w, const struct ptx_ins *i, char *const *at, uint32_t shared, uint32_t global) {
  struct ptx_counts *c = &w->block->machine->counts;
  unsigned bytes = (unsigned)i->bytes * i->vector;
  uint64_t addresses[LANES];
  if (!standin_settings()->counts)
    return;
  PTX_EACH(lane, shared | global)
  addresses[lane] = (uintptr_t)at[lane] - (shared >> lane & 1 ? (uintptr_t)w->block->shared : 0);
  if (i->op == PTX_ATOMIC) {
    c->atomics += (shared != 0) + (global != 0);
    c->same += (shared ? most_alike(addresses, shared) - 1 : 0) + (global ? most_alike(addresses, global) - 1 : 0);
  } else if (shared)
    c->conflicts += waits(addresses, shared, bytes);
  if (global && i->op != PTX_STORE)
    c->read += sectors(addresses, global, bytes);
  if (global && i->op != PTX_LOAD)
    c->written += sectors(addresses, global, bytes);
}
