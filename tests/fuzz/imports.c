/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: the library inspects any file that dlopen() gets. It reads nothing outside the file, and finds
 * nothing in a file that is no object of this machine. The input is the file.
 */
#include "interpose/nccl/imports.h"
#include "tests/fuzz/input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct tagc_imports imports, again;
  char *bytes = input_memory(size);
  memcpy(bytes, data, size);
  memset(&imports, 0x5a, sizeof imports);
  bool good = tagc_imports_scan(bytes, size, &imports);
  MUST(memchr(imports.library, 0, sizeof imports.library));
  MUST(good || (!imports.nccl && !*imports.library));
  MUST(memcmp(bytes, data, size) == 0);
  MUST(tagc_imports_scan(bytes, size, &again) == good && again.nccl == imports.nccl &&
       strcmp(again.library, imports.library) == 0);
  free(bytes);
  return 0;
}
