/* SPDX-License-Identifier: BSD-3-Clause
 * Early queries to the dynamic linker: none fails, with a C library of any age. A failed one allocates its error text,
 * and a preloaded malloc may be at its own first dlsym at that moment.
 */
#include "interpose/nccl/linker.h"

#include <dlfcn.h>
#include <string.h>

#include "tests/unit/tap.h"

static int asked, failed;

/* The linker replaces dlvsym with this. It answers like a C library before 2.34: no later versions of symbols. */
void *__wrap_dlvsym(void *handle, const char *name, const char *version);
void *__wrap_dlvsym(void *handle, const char *name, const char *version) {
  static const char *const old[] = {"GLIBC_2.2.5", "GLIBC_2.17"};
  __typeof__(&__wrap_dlvsym) real = (__typeof__(&__wrap_dlvsym))dlsym(RTLD_NEXT, "dlvsym");
  bool known = strcmp(version, old[0]) == 0 || strcmp(version, old[1]) == 0;
  void *found = known ? real(handle, name, version) : NULL;
  asked++;
  failed += !found;
  return found;
}

int main(void) {
  tagc_dlsym_function *found = tagc_linker_dlsym();
  ok(found && found(RTLD_DEFAULT, "malloc") == dlsym(RTLD_DEFAULT, "malloc"), "the C library's dlsym is found");
  ok(asked > 0 && failed == 0, "and no question failed on the way (%d of %d)", failed, asked);
  ok(tagc_linker_next_dlsym() && tagc_linker_next_dlopen() && failed == 0, "nor for the next dlsym and dlopen");
  ok(tagc_linker_dlsym() == found && asked == 1, "it is asked for once");
  return tap_done();
}
