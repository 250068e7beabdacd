/* SPDX-License-Identifier: BSD-3-Clause
 * The parts of a job's state: one after the other, each on its own cache line.
 *
 * Threads  Pure.
 */
#ifndef KERNELS_CODEC_ASSIGN_BUFFER_H
#define KERNELS_CODEC_ASSIGN_BUFFER_H

#include <stddef.h>

/* Returns the next `bytes` at base + *used and advances *used; NULL if base is NULL. */
static inline void *tagc_assign_buffer(void *base, size_t *used, size_t bytes) {
  void *part = base ? (char *)base + *used : NULL;
  *used += (bytes + 63) & ~(size_t)63;
  return part;
}

#endif
