/* SPDX-License-Identifier: BSD-3-Clause
 * A self-test under way (self_test.c, self_test_allgather.c): its comparisons, and its first finding in words.
 *
 * Functions return false once the self-test has ended. Ownership: all memory is the caller's. Threads: one at a time.
 */
#ifndef KERNELS_DEVICE_SELF_TEST_RUN_H
#define KERNELS_DEVICE_SELF_TEST_RUN_H

#include <stdio.h>
#include <string.h>

#include "kernels/device/self_test.h"

/* Elements of a shard, of `n` on a real GPU. An emulated one gets fewer: its kernels have their own tests. */
static inline uint32_t tagc_self_test_elements(const struct tagc_device *device, uint32_t n) {
  return device->emulated ? n / 7 : n;
}

struct tagc_self_test_run {
  const struct tagc_device *device;
  const char *codec; /* its name */
  void *stream;
  uint8_t *seen; /* on the host: a copy of device memory to compare */
  enum tagc_self_test result;
  char *why; /* of `size` bytes */
  size_t size;
};

/* Only the first finding counts. */
static inline bool tagc_self_test_end(struct tagc_self_test_run *t, enum tagc_self_test result, const char *what) {
  if (t->result == TAGC_SELF_TEST_PASSED) {
    snprintf(t->why, t->size, "codec %s: %s", t->codec, what);
    t->result = result;
  }
  return false;
}

static inline bool tagc_self_test_device_failed(struct tagc_self_test_run *t) {
  return tagc_self_test_end(t, TAGC_SELF_TEST_NOT_RUN, "the device fails");
}

/* Compares `bytes` bytes of the device with the host's. */
static inline bool tagc_self_test_compare(struct tagc_self_test_run *t, const char *what, const void *host,
                                          const void *there, size_t bytes) {
  if (!bytes)
    return true;
  if (!t->device->get(t->device, t->seen, there, bytes, t->stream))
    return tagc_self_test_device_failed(t);
  return memcmp(t->seen, host, bytes) == 0 || tagc_self_test_end(t, TAGC_SELF_TEST_FAILED, what);
}

#endif
