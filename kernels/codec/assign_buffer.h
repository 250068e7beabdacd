/* SPDX-License-Identifier: BSD-3-Clause
 * How a job's state is divided: one part after the other, each on a line of the cache.
 *
 * Threads  Pure.
 */
#ifndef KERNELS_CODEC_ASSIGN_BUFFER_H
#define KERNELS_CODEC_ASSIGN_BUFFER_H

#include <stddef.h>

/* The next `bytes` at base + *used, which moves on; NULL where base is. */
static inline void *tagc_assign_buffer(void *base, size_t *used, size_t bytes) {
  void *part = base ? (char *)base + *used : NULL;
  *used += (bytes + 63) & ~(size_t)63;
  return part;
}

#endif
