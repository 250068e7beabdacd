/* SPDX-License-Identifier: BSD-3-Clause
 * The choice of the instruction set: the fastest that runs here, the requested one, and never a hidden one.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env/host.h"
#include "kernels/codec/variant.h"
#include "tests/unit/tap.h"

static bool runs(enum tagc_variant variant) { return tagc_variant_force(tagc_variant_name(variant)); }

/* With a name hidden: those below it run as before, it and those above do not. */
static void check_hidden(const char *name, enum tagc_variant first, const bool before[TAGC_VARIANT_COUNT]) {
  bool right = true;
  enum tagc_variant fastest = TAGC_VARIANT_PLAIN;
  setenv(TAGC_HOST_LACKS, name, 1);
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
    const bool expected = before[v] && v < (int)first;
    right &= runs((enum tagc_variant)v) == expected;
    fastest = expected ? (enum tagc_variant)v : fastest;
  }
  ok(right && tagc_variant_force(NULL) && tagc_variant() == fastest, "'%s' is hidden: the fastest is %s", name,
     tagc_variant_name(tagc_variant()));
  unsetenv(TAGC_HOST_LACKS);
}

/* The log of a process that chooses for the first time. */
static size_t said(const char *hidden, char *text, size_t size) {
  int ends[2], before = dup(STDERR_FILENO);
  if (before < 0 || pipe(ends) != 0)
    return 0;
  dup2(ends[1], STDERR_FILENO);
  setenv(TAGC_HOST_LACKS, hidden, 1);
  tagc_variant();
  unsetenv(TAGC_HOST_LACKS);
  dup2(before, STDERR_FILENO);
  close(before);
  close(ends[1]);
  const ssize_t length = read(ends[0], text, size - 1);
  close(ends[0]);
  text[length > 0 ? length : 0] = '\0';
  text[strcspn(text, "\n")] = '\0';
  return strlen(text);
}

int main(void) {
  char text[400];
  bool before[TAGC_VARIANT_COUNT];
  ok(said("sse9", text, sizeof text) && strstr(text, "TAGC_TEST_HIDE=sse9 hides nothing"),
     "a name that is none is not silent: %s", text);
  unsetenv(TAGC_HOST_LACKS);
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++)
    before[v] = runs((enum tagc_variant)v);
  ok(before[TAGC_VARIANT_PLAIN] && (before[TAGC_VARIANT_AVX2] || !before[TAGC_VARIANT_AVX512]),
     "plain C runs anywhere");
  ok(!tagc_variant_force("sse9") && tagc_variant_force(NULL), "variants are known by name");
  check_hidden("avx512", TAGC_VARIANT_AVX512, before);
  check_hidden("avx2", TAGC_VARIANT_AVX2, before);
  check_hidden("plain", TAGC_VARIANT_COUNT, before);
  check_hidden("", TAGC_VARIANT_COUNT, before);
  return tap_done();
}
