/* SPDX-License-Identifier: BSD-3-Clause
 * The instruction set of the codecs' hot functions: each function is compiled once per variant, with the same bits.
 *
 * Hidden   TAGC_TEST_HIDE=avx512 makes every program ignore this processor's AVX-512, =avx2 both sets: for tests on a
 *          processor that has both. No bit changes.
 * Threads  Any; the choice is one atomic word.
 */
#ifndef KERNELS_CODEC_VARIANT_H
#define KERNELS_CODEC_VARIANT_H

#include <stdbool.h>

enum tagc_variant {
  TAGC_VARIANT_PLAIN,  /* C, whatever the processor */
  TAGC_VARIANT_AVX2,   /* x86-64: with local.mk's AVX2_CFLAGS */
  TAGC_VARIANT_AVX512, /* and AVX512_CFLAGS */
  TAGC_VARIANT_COUNT
};

/* The fastest variant that this processor runs and that is not hidden. */
enum tagc_variant tagc_variant(void);

/* A pointer to prefix_plain, prefix_avx2 or prefix_avx512: the variant in use. */
#ifdef __x86_64__
#define TAGC_OF_VARIANT(prefix) \
  (__extension__({ \
    static const __typeof__(prefix##_plain) *const variants_[] = { \
      [TAGC_VARIANT_PLAIN] = &prefix##_plain, \
      [TAGC_VARIANT_AVX2] = &prefix##_avx2, \
      [TAGC_VARIANT_AVX512] = &prefix##_avx512, \
    }; \
    variants_[tagc_variant()]; \
  }))
#else
#define TAGC_OF_VARIANT(prefix) (&prefix##_plain)
#endif

/* "plain", "avx2", "avx512". */
const char *tagc_variant_name(enum tagc_variant variant);

/* For tests and benchmarks: tagc_variant() returns the variant of that name from now on (NULL: the fastest). False if
 * this processor or build lacks it, or if it is hidden. */
bool tagc_variant_force(const char *name);

#endif
