/* SPDX-License-Identifier: BSD-3-Clause
 * Measures the cost of following a program: the nanoseconds per call of tagc_cycle_observe() and, for reduce-scatters,
 * of tagc_home_see(), in steady state; and the bytes of memory that a lock takes for each slot.
 *
 *   observe FILE...            files of calls (tests/fixtures)
 *
 * Prints one line per file: calls a step, slots; ns a call (best of ten rounds) without registered memory, with 1000
 * ranges of it, and with buffers that move from call to call, so every one is looked up; bytes a slot for the slot, its
 * row in the accounts, its layer with the memory behind it, and all of them (TAGC_CODEC=auto: with the inputs of its
 * choices); the touched part of the cycle's memory. Then the sizes that every communicator has.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "interpose/comm/comm.h"
#include "layermap/cycle/calls.h"
#include "layermap/infer/layers.h"

enum { ROUNDS = 10, CALLS = 400000, RANGES = 1000 };

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* The resident memory of this process, in bytes. */
static long resident(void) {
  long pages = 0, all = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2)
    pages = 0;
  if (file)
    fclose(file);
  return pages * sysconf(_SC_PAGESIZE);
}

static ncclComm_t any_comm(void) { return (ncclComm_t)(uintptr_t)4096; }

/* ns a call; `stride`: how far a buffer moves from one call of its slot to the next. */
static double time_calls(struct tagc_cycle *cycle, const struct tagc_call_list *list, struct tagc_home *homes,
                         size_t stride) {
  double best = 1e30;
  struct tagc_sighting seen;
  size_t step = tagc_cycle_length(cycle), begin = list->count - step, moved = 0;
  for (int round = 0; round < ROUNDS; round++) {
    const double began = now_ns();
    for (size_t i = 0; i < CALLS; i++) {
      tagc_cycle_observe(cycle, &list->calls[begin + i % step], &seen);
      if (seen.slot >= 0)
        tagc_home_see(&homes[seen.slot], any_comm(),
                      (const void *)(uintptr_t)(4096 + 4096 * seen.slot + (moved += stride) % 2048), 64);
    }
    const double each = (now_ns() - began) / CALLS;
    best = each < best ? each : best;
  }
  return best;
}

static void bench(const char *path) {
  struct tagc_complaint complaint;
  struct tagc_cycle_options options = {0, 256, 0};
  struct tagc_sighting seen;
  struct tagc_call_file *file = tagc_calls_read(path, &complaint);
  const long before = resident();
  struct tagc_cycle *cycle = tagc_cycle_create(&options);
  if (!file || !cycle)
    exit(1);
  const struct tagc_call_list *list = &file->lists[0];
  size_t slots, step = 0;
  for (int round = 0; round < 40 && !step; round++) {
    for (size_t i = 0; i < list->count; i++)
      tagc_cycle_observe(cycle, &list->calls[i], &seen);
    step = tagc_cycle_length(cycle);
  }
  const long touched = resident() - before;
  const struct tagc_slot_info *infos = tagc_cycle_slots(cycle, &slots);
  if (!infos)
    exit(1);
  char why[160];
  const size_t used = mallinfo2().uordblks + mallinfo2().hblkhd;
  struct tagc_layers *layers = tagc_layers_infer(infos, slots, list->nranks, NULL, why);
  const size_t inferred = mallinfo2().uordblks + mallinfo2().hblkhd - used;
  struct tagc_home *homes = calloc(slots, sizeof *homes);
  if (!layers || !homes)
    exit(1);
  const double plain = time_calls(cycle, list, homes, 0);
  for (uintptr_t i = 1; i <= RANGES; i++)
    tagc_ranges_add(any_comm(), (const void *)(4096 * i), 4096, (const void *)i);
  const double there = time_calls(cycle, list, homes, 0), moving = time_calls(cycle, list, homes, 64);
  tagc_ranges_forget(any_comm());
  const char *name = strrchr(path, '/');
  const double layer = (double)inferred / (double)slots,
               all = layer + sizeof(struct tagc_slot) + sizeof(struct tagc_ledger_row);
  printf("%-36s %5zu %5zu %7.1f %7.1f %7.1f %7zu %7zu %7.0f %7.0f %7.0f %9ld\n", name ? name + 1 : path, step, slots,
         plain, there, moving, sizeof(struct tagc_slot), sizeof(struct tagc_ledger_row), layer, all,
         all + sizeof(struct tagc_decision_inputs), touched);
  free(homes);
  tagc_layers_free(layers);
  tagc_calls_free(file);
  tagc_cycle_destroy(cycle);
}

int main(int argc, char **argv) {
  mallopt(M_MMAP_THRESHOLD, 128 << 10); /* else a cycle reuses, and clears, the memory of the previous one */
  printf("%-36s %5s %5s %7s %7s %7s %7s %7s %7s %7s %7s %9s\n", "file", "step", "slots", "ns", "ranges", "moving",
         "slot", "row", "layer", "all", "auto", "touched");
  for (int i = 1; i < argc; i++)
    bench(argv[i]);
  struct tagc_cycle_options options = {0, 256, 0};
  const size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
  struct tagc_cycle *cycle = tagc_cycle_create(&options);
  printf("each communicator: %zu bytes for its cycle, %zu for the rest and its accounts\n",
         mallinfo2().uordblks + mallinfo2().hblkhd - before, sizeof(struct tagc_comm) + sizeof(struct tagc_ledger));
  tagc_cycle_destroy(cycle);
  return 0;
}
