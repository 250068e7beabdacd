/* SPDX-License-Identifier: BSD-3-Clause
 * Plain host memory as a device: its streams do nothing later, so every function is done when it returns.
 *
 * Purpose    For a libnccl.so.2 that works on host memory, and for the tests of the codecs.
 * Ownership  alloc() gives, release() takes back. Threads: any. Failure: NULL from alloc(), errno unchanged.
 */
#include "kernels/device.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SMALL_ALIGNMENT = 64, HUGE_PAGE = 2 << 20 };

/* Large buffers are walked in strides: huge pages, where the system grants them, save most of the page walks. */
static void *host_alloc(size_t bytes)
{
  int saved_errno = errno;
  size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : SMALL_ALIGNMENT;
  void *memory = NULL;
  if (bytes > SIZE_MAX - alignment || posix_memalign(&memory, alignment, bytes ? bytes : 1) != 0)
    memory = NULL;
  if (memory && alignment == HUGE_PAGE)
    (void)madvise(memory, bytes & ~(size_t)(HUGE_PAGE - 1), MADV_HUGEPAGE);
  errno = saved_errno;
  return memory;
}

static void host_release(void *memory, void *stream)
{
  (void)stream;
  free(memory);
}

static void host_clear(void *memory, size_t bytes, void *stream)
{
  (void)stream;
  if (bytes)
    memset(memory, 0, bytes);
}

static void host_put(void *to_device, const void *from_host, size_t bytes, void *stream)
{
  (void)stream;
  if (bytes)
    memcpy(to_device, from_host, bytes);
}

static void host_get(void *to_host, const void *from_device, size_t bytes, void *stream)
{
  (void)stream;
  if (bytes)
    memcpy(to_host, from_device, bytes);
}

const struct tagc_device tagc_device_host = {
  .name = "host",
  .host_reads = true,
  .alloc = host_alloc,
  .release = host_release,
  .clear = host_clear,
  .put = host_put,
  .get = host_get,
};
