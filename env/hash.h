/* SPDX-License-Identifier: BSD-3-Clause
 * FNV-1a, 64 bits (Fowler, Noll, Vo): tells texts apart, keeps no secret. Pure.
 */
#ifndef ENV_HASH_H
#define ENV_HASH_H

#include <stddef.h>
#include <stdint.h>

#define TAGC_HASH_START UINT64_C(0xcbf29ce484222325)

/* The hash of what `hash` stands for (TAGC_HASH_START: nothing), followed by `size` bytes of data. */
static inline uint64_t tagc_hash_add(uint64_t hash, const void *data, size_t size)
{
  for (const unsigned char *c = data; size--; c++)
    hash = (hash ^ *c) * UINT64_C(0x100000001b3);
  return hash;
}

#endif
