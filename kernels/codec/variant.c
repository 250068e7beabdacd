/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/codec/variant.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "env/host.h"
#include "env/log.h"
#ifdef __x86_64__
#include <cpuid.h>

/* The vector registers that the system saves when it switches threads. */
static uint64_t saved_registers(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

/* Asks the processor directly: the compiler's own way would add a constructor to every program that we are preloaded
 * into. The bits are those that each variant's objects are compiled for (local.mk). */
static bool runs_here(enum tagc_variant variant) {
  const uint32_t first = bit_OSXSAVE | bit_AVX | bit_F16C | bit_POPCNT, second = bit_AVX2 | bit_BMI | bit_BMI2;
  const uint32_t wide = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
  uint32_t a, b, c, d;
  if (variant == TAGC_VARIANT_PLAIN)
    return true;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & first) != first)
    return false;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & second) != second || (saved_registers() & 6) != 6)
    return false;
  return variant == TAGC_VARIANT_AVX2 || ((b & wide) == wide && (saved_registers() & 0xe0) == 0xe0);
}
#else
static bool runs_here(enum tagc_variant variant) { return variant == TAGC_VARIANT_PLAIN; }
#endif

static atomic_int chosen = -1;

const char *tagc_variant_name(enum tagc_variant variant) {
  static const char *const names[] = {"plain", "avx2", "avx512"};
  return names[variant];
}

/* True if a test hides this variant, or one that it builds on. */
static bool hidden(enum tagc_variant variant) {
  const char *lacks = tagc_host_lacks();
  for (int v = TAGC_VARIANT_AVX2; lacks && v <= (int)variant; v++)
    if (strcmp(lacks, tagc_variant_name((enum tagc_variant)v)) == 0)
      return true;
  return false;
}

bool tagc_variant_force(const char *name) {
  for (int v = TAGC_VARIANT_COUNT - 1; v >= 0; v--) {
    if ((name && strcmp(name, tagc_variant_name((enum tagc_variant)v)) != 0) || !runs_here((enum tagc_variant)v) ||
        hidden((enum tagc_variant)v))
      continue;
    atomic_store(&chosen, v);
    return true;
  }
  return false;
}

static void choose_variant(void) {
  const char *lacks = tagc_host_lacks();
  if (lacks && !hidden(TAGC_VARIANT_COUNT - 1))
    tagc_log(TAGC_LOG_WARN, "kernels", TAGC_HOST_LACKS "=%s hides nothing: it takes avx512, or avx2, which hides both",
             lacks);
  tagc_variant_force(NULL);
}

enum tagc_variant tagc_variant(void) {
  if (atomic_load_explicit(&chosen, memory_order_relaxed) < 0)
    choose_variant();
  return (enum tagc_variant)atomic_load_explicit(&chosen, memory_order_relaxed);
}
