/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: any bytes must be analysed as an ELF image without a crash, a leak or a long loop, and the results
 * must be consistent. The input is the image.
 */
#ifdef ELF_SEED
/* The seeds are shared objects of this file: a call, a definition, dlsym, and the texts that the analysis looks for.
 *   cc -DELF_SEED -Os -fPIC -shared -nostdlib -fno-asynchronous-unwind-tables -Wl,--build-id=none \
 *     -Wl,-z,noseparate-code -Wl,--unresolved-symbols=ignore-all -Wl,-rpath,'$ORIGIN' tests/fuzz/elf.c \
 *     -o tests/fuzz/corpus/elf/NAME
 * with -Wl,-soname,libnccl.so.2 (gnu), and with -s -Wl,--hash-style=sysv (sysv). */
int ncclReduceScatter(void);
void *dlsym(void *handle, const char *name);
static const char version[] = "NCCL version 2.28.9+cuda13.0", library[] = "libnccl.so.2";
__attribute__((weak)) int ncclAllReduce(void) { return ncclReduceScatter(); }
int ncclAllGather(void) { return ncclAllReduce() + (dlsym(0, version) == library); }
#else
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-doctor/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text) {
  if (text && strlen(text) > 4096)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct tagc_image image;
  char *copy = malloc(size + !size), version[TAGC_NCCL_VERSION_SIZE]; /* aligned like a mapped file */
  if (!copy)
    return 0;
  memcpy(copy, data, size);
  tagc_image_read(&image, copy, size);
  if (memcmp(copy, data, size) != 0)
    abort();
  if ((image.state == TAGC_IMAGE_BAD) != (image.why[0] != '\0') || image.open_calls & ~image.exported ||
      image.hidden & image.exported || image.needed_count > TAGC_NEEDED_MAX ||
      (image.imported | image.hidden) >> TAGC_FUNCTION_COUNT)
    abort();
  for (size_t i = 0; i < image.needed_count; i++)
    check_text(image.needed[i]);
  check_text(image.soname);
  check_text(image.interpreter);
  tagc_image_is_static(&image);
  tagc_image_free(&image);
  tagc_nccl_version_text(copy, size, version);
  free(copy);
  return 0;
}
#endif
