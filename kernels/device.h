/* SPDX-License-Identifier: BSD-3-Clause
 * Where buffers live and how memory is got there: a small table with one implementation a kind of device.
 *
 * Every member is mandatory. Functions take the stream of the call (opaque here: a cudaStream_t) and keep its order;
 * none of them waits for it except wait(). Thread-safe.
 */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

struct tagc_device {
  const char *name;
  bool host_reads;                 /* the host can read and write its memory as its own */
  /* Memory of the device, 64-byte aligned, content undefined; NULL when there is none. */
  void *(*alloc)(size_t bytes);
  /* Gives memory back (NULL is allowed), after the work that is enqueued on `stream`. */
  void (*release)(void *memory, void *stream);
  /* Fills memory with zeros in stream order. */
  void (*clear)(void *memory, size_t bytes, void *stream);
  /* Copies between the host and the device in stream order; the host side may be reused at once. */
  void (*put)(void *to_device, const void *from_host, size_t bytes, void *stream);
  /* Copies to the host and waits until it is there: the one meeting of ranks (the vote) alone may use it. */
  void (*get)(void *to_host, const void *from_device, size_t bytes, void *stream);
};

/* Plain host memory: for a libnccl.so.2 that works on it (the stand-in of the tests). */
extern const struct tagc_device tagc_device_host;

#endif
