/* SPDX-License-Identifier: BSD-3-Clause
 * The processor's rounding and denormal modes, and its traps, while a codec computes or a report is printed.
 *
 * Purpose  Programs set "flush denormals to zero" or another rounding for speed; payloads must have the same bits all
 *          the same. Each codec function saves the modes at its entry, works with the defaults (nearest even, denormals
 *          kept, no traps) and restores them at its exit, sticky exception flags included.
 * Threads  The modes are per thread. Failure: none. Processors other than x86-64 and aarch64 keep their modes.
 */
#ifndef KERNELS_CODEC_FPMODE_H
#define KERNELS_CODEC_FPMODE_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

typedef unsigned tagc_fpmode;

static inline tagc_fpmode tagc_fpmode_enter(void) {
  tagc_fpmode saved = _mm_getcsr();
  _mm_setcsr(0x1f80);
  return saved;
}

static inline void tagc_fpmode_leave(tagc_fpmode saved) { _mm_setcsr(saved); }

#elif defined(__aarch64__)

typedef uint64_t tagc_fpmode;

static inline tagc_fpmode tagc_fpmode_enter(void) {
  tagc_fpmode saved;
  __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
  __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
  return saved;
}

static inline void tagc_fpmode_leave(tagc_fpmode saved) { __asm__ volatile("msr fpcr, %0" : : "r"(saved)); }

#else

typedef int tagc_fpmode;

static inline tagc_fpmode tagc_fpmode_enter(void) { return 0; }
static inline void tagc_fpmode_leave(tagc_fpmode saved) { (void)saved; }

#endif
#endif
