/* SPDX-License-Identifier: BSD-3-Clause
 * The Huffman codes of the codec exact: see exact.h.
 *
 * Symbols of a quad are taken for independent (on trainings that costs 0.002 bits an element). Their weights were
 * counted on the example trainer at learning rates of 3e-3, 3e-4 and 3e-5. The lengths are the best ones of at most
 * TAGC_EXACT_CODE_BITS bits (package-merge: Larmore and Hirschberg 1990), and the codes canonical. All in integers.
 */
#include <pthread.h>
#include <string.h>

#include "kernels/allgather/exact.h"

enum { QUADS = TAGC_EXACT_QUADS, BITS = TAGC_EXACT_CODE_BITS };

static const uint16_t symbol_weights[TAGC_EXACT_LEVELS][4] = {
  [2] = {959, 21, 15, 5},    [3] = {925, 55, 15, 5},    [4] = {865, 89, 41, 5},     [5] = {816, 120, 60, 4},
  [6] = {747, 175, 74, 4},   [7] = {682, 216, 98, 4},   [8] = {606, 270, 119, 5},   [9] = {530, 322, 142, 6},
  [10] = {455, 367, 171, 7}, [11] = {353, 429, 210, 8}, [12] = {239, 520, 231, 10}, [13] = {110, 500, 375, 15},
};

/* What is merged: a quad, or a package of two. */
struct package {
  uint64_t weight;
  bool is_quad;
};

static uint64_t weight_of(const uint16_t of[4], uint32_t quad) {
  return (uint64_t)of[quad & 3] * of[quad >> 2 & 3] * of[quad >> 4 & 3] * of[quad >> 6];
}

/* By weight, equal ones by number. */
static void sort_quads(const uint16_t of[4], uint8_t sorted[QUADS]) {
  for (uint32_t quad = 0; quad < QUADS; quad++) {
    uint32_t at = quad;
    for (; at > 0 && weight_of(of, sorted[at - 1]) > weight_of(of, quad); at--)
      sorted[at] = sorted[at - 1];
    sorted[at] = (uint8_t)quad;
  }
}

/* Merges the quads with packages of two of the list before. Returns the new list's length. */
static uint32_t merge_packages(const uint16_t of[4], const uint8_t sorted[QUADS], const struct package *before,
                               uint32_t count, struct package *list) {
  uint32_t quad = 0, pair = 0, length = 0;
  while (quad < QUADS || pair + 1 < count) {
    const uint64_t both = pair + 1 < count ? before[pair].weight + before[pair + 1].weight : UINT64_MAX;
    const uint64_t one = quad < QUADS ? weight_of(of, sorted[quad]) : UINT64_MAX;
    list[length++] = one <= both ? (struct package){one, true} : (struct package){both, false};
    quad += one <= both;
    pair += one <= both ? 0 : 2;
  }
  return length;
}

static void find_lengths(const uint16_t of[4], uint8_t length[QUADS]) {
  static struct package list[BITS][2 * QUADS];
  uint8_t sorted[QUADS];
  uint32_t count = 0, needed = 2 * QUADS - 2;
  memset(length, 0, QUADS);
  sort_quads(of, sorted);
  for (int bit = 0; bit < BITS; bit++)
    count = merge_packages(of, sorted, bit ? list[bit - 1] : NULL, count, list[bit]);
  for (int bit = BITS - 1; bit >= 0; bit--) {
    uint32_t quads = 0;
    for (uint32_t i = 0; i < needed; i++)
      quads += list[bit][i].is_quad;
    for (uint32_t i = 0; i < quads; i++)
      length[sorted[i]]++;
    needed = 2 * (needed - quads);
  }
}

static uint32_t reversed(uint32_t code, uint32_t length) {
  uint32_t back = 0;
  for (uint32_t bit = 0; bit < length; bit++)
    back |= (code >> bit & 1) << (length - 1 - bit);
  return back;
}

/* Canonical: shorter codes first, equal lengths by the number of the quad. */
static void assign_codes(const uint8_t length[QUADS], uint16_t code[QUADS], uint16_t quad_of[1 << BITS]) {
  uint32_t next = 0;
  for (uint32_t bits = 1; bits <= BITS; bits++, next <<= 1)
    for (uint32_t quad = 0; quad < QUADS; quad++) {
      if (length[quad] != bits)
        continue;
      const uint32_t its = reversed(next++, bits);
      code[quad] = (uint16_t)(its | bits << BITS);
      for (uint32_t at = its; at < 1 << BITS; at += 1u << bits)
        quad_of[at] = (uint16_t)(quad | bits << 8);
    }
}

/* The quad whose code comes first in the bits, and the next one if its code lies there, too. */
static void make_pairs(const uint16_t quad_of[1 << BITS], uint32_t pair_of[1 << BITS]) {
  for (uint32_t bits = 0; bits < 1 << BITS; bits++) {
    const uint32_t first = quad_of[bits], length = first >> 8, next = quad_of[bits >> length];
    const bool both = length + (next >> 8) <= BITS;
    pair_of[bits] = (first & 0xff) | (both ? (next & 0xff) << 8 : 0) | (length + (both ? next >> 8 : 0)) << 16 |
                    length << 20 | (both ? 8u : 4u) << 24;
  }
}

static struct tagc_exact_tables tables;
static struct tagc_exact_pairs pairs;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_tables(void) {
  for (int level = TAGC_EXACT_LIST + 1; level < TAGC_EXACT_LEVELS; level++) {
    uint8_t length[QUADS];
    find_lengths(symbol_weights[level], length);
    assign_codes(length, tables.code[level], tables.quad[level]);
    make_pairs(tables.quad[level], pairs.of[level]);
  }
}

const struct tagc_exact_tables *tagc_exact_get_tables(void) {
  pthread_once(&once, make_tables);
  return &tables;
}

const struct tagc_exact_pairs *tagc_exact_get_pairs(void) {
  pthread_once(&once, make_tables);
  return &pairs;
}
