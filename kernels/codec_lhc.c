/* SPDX-License-Identifier: BSD-3-Clause
 * The TAGC codec: support bitmap + count sketch, with sparsification and error feedback (arXiv 2504.05638).
 *
 * What is sent   Of each foreign shard the largest values, chunk by chunk, by the upper 19 bits of their magnitudes:
 *                whole bins from the top, then part of the next from a seeded offset on, until the chunk's capacity is
 *                exactly full (its positions * keep_ppm / 10^6, at least 1). The rest stays in the residual.
 *                |x| < 2^-120 counts as zero and is never sent.
 * Payload        Little-endian; parts in this order, padded with zeros to 16 bytes.
 *   exponents      uint8 per 1,024 positions: e + 128 for the smallest e such that all values there (but exceptions)
 *                  are below 2^e; 0 where none reaches 2^-120.
 *   sketch         int32, `chunks` x `hashes` x `part_cells` counters (codec_lhc.h says which element adds to which).
 *   message        exceptions (exceptions.h)
 *                  bitmap   uint32 x chunks x chunk_lines: bit t of word (c, l) is lane t of local line l of chunk c
 * Sizes          With U = min((nranks-1) * keep, n) the most values that can meet in a shard: below 4,096 there are no
 *                exponents and no sketch (see below). Otherwise U / 49,152 chunks (one up to 65,536), counters = 1.30
 *                times the union capacity of a chunk (3 hashes), 1.35 below 30,000 (4 hashes), in rows of 32 a hash.
 * Small shards   message: exceptions
 *                  counts   uint16 per 256 positions
 *                  offsets  uint8 x capacity: positions inside those blocks
 *                  values   fp32 x capacity, exact
 * Example        n = 3, nranks = 2, keep all, shard (0, 1, 2):
 *                  00 00 00 00  00 00 00 00  (8 zeros)       no exceptions, room for one
 *                  02 00 (14 zeros)                          two values in the block
 *                  01 02 00 (13 zeros)                       at 1 and 2
 *                  00 00 80 3f  00 00 00 40  (8 zeros)       1 and 2
 * Sum            The foreign sum of an element is one int32 (exact while |sum| < 2^31); to fp32 with one rounding,
 *                times 2^(e-B), plus the own shard, plus exceptions, divided, rounded once to the type. What cannot be
 *                peeled is estimated and counted in stats->unrecovered.
 * Threads        Reentrant; the choice of the variant is an atomic pointer.
 */
#include <stdatomic.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "kernels/codecs.h"
#include "kernels/lhc.h"

/* Fastest first. */
static const struct tagc_lhc_kernels *const variants[] = {
#ifdef __x86_64__
  &tagc_lhc_avx512,
  &tagc_lhc_avx2,
#endif
  &tagc_lhc_plain,
};

#ifdef __x86_64__
/* What the system saves of the vector registers when it switches threads. */
static uint64_t saved_registers(void)
{
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

/* Asked of the processor directly: the compiler's own way would add a constructor to every program that we are
 * preloaded into. The bits are those that the objects of each variant are compiled for (local.mk). */
static bool runs_here(const struct tagc_lhc_kernels *variant)
{
  const uint32_t first = bit_OSXSAVE | bit_AVX | bit_F16C | bit_POPCNT, second = bit_AVX2 | bit_BMI | bit_BMI2;
  const uint32_t wide = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  uint32_t a, b, c, d;
  if (variant == &tagc_lhc_plain)
    return true;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & first) != first)
    return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & second) != second || (saved_registers() & 6) != 6)
    return false;
  return variant == &tagc_lhc_avx2 || ((b & wide) == wide && (saved_registers() & 0xe0) == 0xe0);
}
#else
static bool runs_here(const struct tagc_lhc_kernels *variant)
{
  return variant == &tagc_lhc_plain;
}
#endif

static _Atomic(const struct tagc_lhc_kernels *) chosen;

bool tagc_lhc_force_variant(const char *name)
{
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    if (!runs_here(variants[i]) || (name && strcmp(name, variants[i]->name) != 0))
      continue;
    atomic_store_explicit(&chosen, variants[i], memory_order_release);
    return true;
  }
  return false;
}

const struct tagc_lhc_kernels *tagc_lhc_kernels(void)
{
  const struct tagc_lhc_kernels *variant = atomic_load_explicit(&chosen, memory_order_acquire);
  if (!variant) {
    tagc_lhc_force_variant(NULL);
    variant = atomic_load_explicit(&chosen, memory_order_acquire);
  }
  return variant;
}

const struct tagc_codec tagc_codec_lhc = {
  .name = "lhc",
  .needs_residual = true,
  .layout = tagc_lhc_layout,
  .prepare = tagc_lhc_prepare,
  .encode = tagc_lhc_encode,
  .decode = tagc_lhc_decode,
};
