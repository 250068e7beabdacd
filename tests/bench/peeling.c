/* SPDX-License-Identifier: BSD-3-Clause
 * How many counters a value needs until peeling recovers a whole stripe of `lhc`: draws supports, peels the graph of
 * their cells, and prints how many supports were not recovered, how many values those left, and the rounds.
 *
 * Layouts
 *   codec     of the codec: dense octets have four cells in each of three parts, the others one; and the checks, which
 *             are not among the counters a value that the command names
 *   three     one cell in each of three parts; `four`: in each of four
 *   coupled   one cell in each of four neighbours among SEGMENTS segments (spatially coupled)
 * Supports: `values` alone, `octets` of 8, `lines` of 32, or `rows` of 256 neighbours.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/lhc/codec.h"

enum { MOST_CELLS = 3 * TAGC_LHC_TURNS, SPREAD = 20 /* positions for each value */ };

struct element {
  uint32_t id, check, ncells, cells[MOST_CELLS];
};

struct layout {
  const char *name;
  uint32_t hashes, segments; /* segments: 0 but for coupled */
  uint32_t checks;
  uint32_t part_cells; /* of a part or segment */
  uint32_t cells;
};

static uint64_t random_state;

static uint64_t draw(void) { return tagc_mix64(random_state++ + UINT64_C(0x632be59bd9b4e019)); }

static void add_cell(struct element *e, uint32_t cell) { e->cells[e->ncells++] = cell; }

static void find_cells(const struct layout *layout, uint64_t seed, struct element *e) {
  const struct tagc_lhc_geometry geo = {.hashes = 3, .part_cells = layout->part_cells};
  uint64_t cells = tagc_lhc_cells(seed, layout->part_cells, e->id);
  const bool dense = layout->checks && tagc_lhc_is_dense(cells, tagc_lhc_dense_rows(&geo));
  uint32_t first = 0;
  if (layout->segments) {
    const uint64_t starts = layout->segments - layout->hashes + 1, octet = e->id / TAGC_LHC_OCTET;
    first = (uint32_t)((tagc_mix64(tagc_mix64(seed ^ 1) + octet) >> 32) * starts >> 32);
  }
  e->ncells = 0;
  e->check = tagc_lhc_check(cells);
  for (uint32_t turn = 0; turn < (dense ? TAGC_LHC_TURNS : 1); turn++) {
    cells = tagc_lhc_cells(tagc_lhc_turn_seed(seed, turn), layout->part_cells, e->id);
    for (uint32_t hash = 0; hash < layout->hashes; hash++, cells >>= 16)
      add_cell(e, (first + hash) * layout->part_cells + (uint32_t)(cells & 0xffff));
  }
}

/* Draws `count` positions, in runs of `run`. */
static void draw_support(struct element *elements, uint32_t count, uint32_t run, bool *used) {
  const uint32_t runs = count * SPREAD / run;
  memset(used, 0, (size_t)count * SPREAD);
  for (uint32_t n = 0; n < count;) {
    const uint32_t at = (uint32_t)((draw() >> 32) * runs >> 32) * run;
    for (uint32_t i = 0; i < run && n < count && !used[at]; i++)
      elements[n++].id = at + i;
    used[at] = true;
  }
}

struct cell {
  uint32_t degree, sum; /* of the indices */
};

/* Peels in rounds. Returns the number of values that are left. */
static uint32_t peel(struct element *elements, uint32_t count, struct cell *cells, uint32_t ncells, uint32_t *now,
                     uint32_t *next, bool *peeled, unsigned *rounds) {
  uint32_t found = 0, left = count;
  memset(cells, 0, ncells * sizeof *cells);
  memset(peeled, 0, count);
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < elements[i].ncells; k++) {
      cells[elements[i].cells[k]].degree++;
      cells[elements[i].cells[k]].sum += i;
    }
  for (uint32_t c = 0; c < ncells; c++)
    if (cells[c].degree == 1)
      now[found++] = cells[c].sum;
  for (*rounds = 0; found > 0; ++*rounds) {
    uint32_t later = 0;
    for (uint32_t q = 0; q < found; q++) {
      const struct element *e = &elements[now[q]];
      if (peeled[now[q]])
        continue;
      peeled[now[q]] = true;
      left--;
      for (uint32_t k = 0; k < e->ncells; k++) {
        struct cell *cell = &cells[e->cells[k]];
        cell->degree--;
        cell->sum -= now[q];
        if (cell->degree == 1 && !peeled[cell->sum])
          next[later++] = cell->sum;
      }
    }
    uint32_t *swap = now;
    now = next;
    next = swap;
    found = later;
  }
  return left;
}

/* The number of values that are not alone in their checks. */
static uint32_t check_rest(const struct element *elements, uint32_t count, const bool *peeled) {
  uint32_t stuck[TAGC_LHC_CHECKS] = {0}, left = 0;
  for (uint32_t i = 0; i < count; i++)
    stuck[elements[i].check] += !peeled[i];
  for (uint32_t c = 0; c < TAGC_LHC_CHECKS; c++)
    left += stuck[c] > 1 ? stuck[c] : 0;
  return left;
}

static void *room(size_t count, size_t size) {
  void *memory = calloc(count, size);
  if (!memory)
    exit(1);
  return memory;
}

static struct layout layout_of(const char *name, uint32_t values, double counters, uint32_t segments) {
  struct layout l = {.name = name, .hashes = strcmp(name, "codec") == 0 || strcmp(name, "three") == 0 ? 3 : 4};
  l.segments = strcmp(name, "coupled") == 0 ? segments : 0;
  l.checks = strcmp(name, "codec") == 0 ? TAGC_LHC_CHECKS : 0;
  const uint32_t parts = l.segments ? l.segments : l.hashes;
  l.part_cells = ((uint32_t)(values * counters) + 32 * parts - 1) / (32 * parts) * 32;
  l.cells = parts * l.part_cells;
  return l;
}

int main(int argc, char **argv) {
  static const char *const kinds[] = {"values", "octets", "lines", "rows"};
  static const uint32_t runs[] = {1, 8, 32, 256};
  if (argc < 6) {
    fprintf(stderr, "usage: peeling codec|three|four|coupled COUNTERS_A_VALUE VALUES values|octets|lines|rows SUPPORTS "
                    "[SEED [SEGMENTS]]\n");
    return 2;
  }
  const uint32_t values = (uint32_t)atol(argv[3]), supports = (uint32_t)atol(argv[5]);
  const struct layout layout = layout_of(argv[1], values, atof(argv[2]), argc > 7 ? (uint32_t)atol(argv[7]) : 32);
  uint32_t run = 0, failed = 0, pairs = 0;
  uint64_t left = 0, rounds = 0;
  unsigned most = 0;
  for (size_t i = 0; i < 4; i++)
    run = strcmp(argv[4], kinds[i]) == 0 ? runs[i] : run;
  if (run == 0 || values < 1000 || layout.part_cells > 65535) {
    fprintf(stderr,
            "peeling: expected a support of values, octets, lines or rows, and 1000 values to 65535 cells a part\n");
    return 2;
  }
  random_state = argc > 6 ? strtoull(argv[6], NULL, 10) << 40 : 0;
  struct element *elements = room(values, sizeof *elements);
  struct cell *cells = room(layout.cells, sizeof *cells);
  uint32_t *now = room(MOST_CELLS * values, sizeof *now), *next = room(MOST_CELLS * values, sizeof *next);
  bool *used = room(values, SPREAD), *peeled = room(values, 1);
  for (uint32_t s = 0; s < supports; s++) {
    const uint64_t seed = draw();
    unsigned took;
    draw_support(elements, values, run, used);
    for (uint32_t i = 0; i < values; i++)
      find_cells(&layout, seed, &elements[i]);
    uint32_t some = peel(elements, values, cells, layout.cells, now, next, peeled, &took);
    pairs += some == 2;
    some = some && layout.checks ? check_rest(elements, values, peeled) : some;
    failed += some > 0;
    left += some;
    rounds += took;
    most = took > most ? took : most;
  }
  printf("%s %.3f counters a value, %u %s: %u of %u supports not recovered, of %.1f values on average; peeling left a "
         "pair of %u; %.1f rounds, at most %u\n",
         layout.name, (double)(layout.cells + layout.checks) / values, values, argv[4], failed, supports,
         failed ? (double)left / failed : 0.0, pairs, (double)rounds / supports, most);
  return 0;
}
