/* SPDX-License-Identifier: BSD-3-Clause
 * 64-bit hashes, not cryptographic. Pure.
 */
#ifndef ENV_HASH_H
#define ENV_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TAGC_HASH_START UINT64_C(0xcbf29ce484222325)

/* FNV-1a (Fowler, Noll, Vo), for texts. Extends `hash` by `size` bytes of data; TAGC_HASH_START is the empty hash. */
static inline uint64_t tagc_hash_add(uint64_t hash, const void *data, size_t size) {
  for (const unsigned char *c = data; size--; c++)
    hash = (hash ^ *c) * UINT64_C(0x100000001b3);
  return hash;
}

/* For much data, at memory speed: four lanes of words, each multiplied and folded as FNV does with bytes. Only whole
 * words count: zeros fill the last one. */
static inline uint64_t tagc_hash_words(const void *data, size_t size) {
  uint64_t lane[4] = {TAGC_HASH_START, TAGC_HASH_START + 1, TAGC_HASH_START + 2, TAGC_HASH_START + 3}, hash = size;
  for (size_t at = 0; at < size; at += 32) {
    uint64_t word[4] = {0};
    memcpy(word, (const unsigned char *)data + at, size - at < 32 ? size - at : 32);
    for (int i = 0; i < 4; i++) {
      lane[i] = (lane[i] ^ word[i]) * UINT64_C(0x9e3779b97f4a7c15);
      lane[i] ^= lane[i] >> 32;
    }
  }
  for (int i = 0; i < 4; i++)
    hash = (hash ^ lane[i]) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}

#endif
