/* SPDX-License-Identifier: BSD-3-Clause
 * A hash table over an array that its user keeps: maps keys to places in the array, and grows with it. Ownership:
 * tagc_table_free(). Threads: one at a time.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_TABLE_H
#define INTERPOSE_TAGC_REPORT_READ_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct tagc_table {
  struct {
    uint32_t hash, place; /* place: from 1; 0: free */
  } * cells;
  size_t room, count; /* room: a power of two, or 0 */
};

/* True if the element at `place` has the key. */
typedef bool tagc_table_same(const void *array, size_t place, const void *key);

/* Mixes words into a hash; low bits of all words affect all of its bits. */
static inline uint64_t tagc_table_mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}

static inline bool tagc_table_grow(struct tagc_table *t) {
  size_t room = t->room ? 2 * t->room : 64;
  __typeof__(t->cells) cells = calloc(room, sizeof *cells);
  if (!cells)
    return false;
  for (size_t i = 0; i < t->room; i++)
    if (t->cells[i].place) {
      size_t at = t->cells[i].hash & (room - 1);
      while (cells[at].place)
        at = (at + 1) & (room - 1);
      cells[at] = t->cells[i];
    }
  free(t->cells);
  t->cells = cells;
  t->room = room;
  return true;
}

/* The place of the key in the array. A new key gets `next`, and *added is true. SIZE_MAX: no memory. */
static inline size_t tagc_table_place(struct tagc_table *t, uint64_t hash, const void *array, const void *key,
                                      tagc_table_same *same, size_t next, bool *added) {
  uint32_t short_hash = (uint32_t)hash;
  *added = false;
  if (next >= UINT32_MAX || (2 * t->count >= t->room && !tagc_table_grow(t)))
    return SIZE_MAX;
  size_t at = short_hash & (t->room - 1);
  for (; t->cells[at].place; at = (at + 1) & (t->room - 1))
    if (t->cells[at].hash == short_hash && same(array, t->cells[at].place - 1, key))
      return t->cells[at].place - 1;
  t->cells[at].hash = short_hash;
  t->cells[at].place = (uint32_t)next + 1;
  t->count++;
  *added = true;
  return next;
}

static inline void tagc_table_free(struct tagc_table *t) {
  free(t->cells);
  *t = (struct tagc_table){0};
}

#endif
