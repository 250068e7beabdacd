/* SPDX-License-Identifier: BSD-3-Clause
 * The instruction sets of kernels/codec/variant.h, for tests: each check runs with all sets available here, so that no
 * case depends on the processor.
 *
 * Threads  Single-threaded.
 */
#ifndef TESTS_UNIT_CODEC_VARIANTS_H
#define TESTS_UNIT_CODEC_VARIANTS_H

#include "env/host.h"
#include "kernels/codec/variant.h"
#include "tests/unit/tap.h"

/* The gate's summary counts sets that a processor lacks; hidden ones are hidden on purpose. */
static inline void variant_is_missing(const char *name) {
  if (tagc_host_lacks())
    note("not with %s: " TAGC_HOST_LACKS "=%s", name, tagc_host_lacks());
  else
    skip(name, "this processor or this build has none");
}

/* Notes once which sets run here and which do not, for tests that try all of them in each case. */
static inline void variants_tell(void) {
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
    const char *name = tagc_variant_name((enum tagc_variant)v);
    if (tagc_variant_force(name))
      note("with %s", name);
    else
      variant_is_missing(name);
  }
  tagc_variant_force(NULL);
}

/* Runs all of `check` with each of them. Its random numbers must restart. */
static inline void with_each_variant(void (*check)(void)) {
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
    const char *name = tagc_variant_name((enum tagc_variant)v);
    if (!tagc_variant_force(name)) {
      variant_is_missing(name);
      continue;
    }
    note("with %s", name);
    check();
  }
  tagc_variant_force(NULL);
}

#endif
