/* SPDX-License-Identifier: BSD-3-Clause
 * Fibres: stacks of their own on one thread of the system, which switch where they say so. Sanitizers are told of it.
 * A fibre stays on the thread that made it.
 */
#ifndef TESTS_STANDIN_CUDA_FIBRE_H
#define TESTS_STANDIN_CUDA_FIBRE_H

#include <stddef.h>

struct fibre {
  void *kept;  /* the stack pointer while it does not run */
  void *stack; /* lowest address; NULL for the thread's own */
  size_t size;
  void *fake, *tsan; /* the sanitizers' */
  void (*body)(void *data);
  void *data;
  struct fibre *next; /* for its owner */
};

/* The calling thread becomes a fibre, so that others can switch back to it. */
void fibre_adopt(struct fibre *thread);

/* body(data) runs at the first switch, and never returns. NULL without memory. */
struct fibre *fibre_create(void (*body)(void *data), void *data);
void fibre_free(struct fibre *fibre);

/* Returns when somebody switches back. */
void fibre_switch(struct fibre *from, struct fibre *to);

#endif
