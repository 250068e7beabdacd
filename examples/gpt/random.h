/* SPDX-License-Identifier: BSD-3-Clause
 * Random numbers as a pure function of (seed, stream, counter). Any rank can compute number i, in any order, so a model
 * starts equal whether it is sharded over one rank or over eight. Thread-safe.
 */
#ifndef EXAMPLES_GPT_RANDOM_H
#define EXAMPLES_GPT_RANDOM_H

#include <math.h>
#include <stdint.h>

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit. */
static inline uint64_t random_mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static inline uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t counter) {
  return random_mix(random_mix(random_mix(seed) ^ stream) ^ counter);
}

/* Normal with mean 0 and deviation 1 (Box and Muller 1958). */
static inline float random_normal(uint64_t seed, uint64_t stream, uint64_t counter) {
  uint64_t bits = random_bits(seed, stream, counter);
  double radius = ((double)(bits >> 32) + 0.5) * 0x1p-32, angle = (double)(uint32_t)bits * 0x1p-32;
  return (float)(sqrt(-2.0 * log(radius)) * cos(2.0 * 3.14159265358979323846 * angle));
}

#endif
