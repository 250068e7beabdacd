/* SPDX-License-Identifier: BSD-3-Clause
 * For files that are compiled once per instruction set (see variant.h). The compiler's command line sets TAGC_SIMD to
 * plain, avx2 or avx512 (kernels/local.mk). Such a file defines one table, whose name ends in that word; all else is
 * static.
 */
#ifndef KERNELS_CODEC_INSTRUCTION_SET_H
#define KERNELS_CODEC_INSTRUCTION_SET_H

#define TAGC_SIMD_JOIN_(name, set) name##_##set
#define TAGC_SIMD_JOIN(name, set) TAGC_SIMD_JOIN_(name, set)
#define TAGC_SIMD_TEXT_(text) #text
#define TAGC_SIMD_TEXT(text) TAGC_SIMD_TEXT_(text)

/* tagc_dense is tagc_dense_avx2. */
#define TAGC_SIMD_TABLE(name) TAGC_SIMD_JOIN(name, TAGC_SIMD)

/* Before a function whose settings (such as a type) are constants where it is inlined, so that each has fast code of
 * its own. With sanitizers one code serves all settings: their compilers would take three times as long. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define TAGC_SPECIALISED __attribute__((noinline))
#else
#define TAGC_SPECIALISED inline __attribute__((always_inline))
#endif

/* #include TAGC_SIMD_HEADER(kernels/simd/vector) includes "kernels/simd/vector_avx2.h". */
#define TAGC_SIMD_HEADER(stem) TAGC_SIMD_TEXT(TAGC_SIMD_JOIN(stem, TAGC_SIMD).h)

#endif
