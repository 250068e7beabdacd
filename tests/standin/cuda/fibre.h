/* SPDX-License-Identifier: BSD-3-Clause
 * Fibres: separate stacks on one OS thread, with explicit switches that sanitizers learn of. A fibre keeps its thread.
 */
#ifndef TESTS_STANDIN_CUDA_FIBRE_H
#define TESTS_STANDIN_CUDA_FIBRE_H

#include <stddef.h>

struct fibre {
  void *kept;  /* the stack pointer while it does not run */
  void *stack; /* lowest address; NULL for the thread's own */
  size_t size;
  void *fake; /* the address sanitizer's */
  void (*body)(void *data);
  void *data;
  struct fibre *next; /* for its owner */
};

/* Makes the calling thread a fibre, so that others can switch back to it. */
void fibre_adopt(struct fibre *thread);

/* Runs body(data) at the first switch; it never returns. NULL without memory. */
struct fibre *fibre_create(void (*body)(void *data), void *data);
void fibre_free(struct fibre *fibre);

/* Returns when another fibre switches back. Without sanitizers that is a call of context.S. */
#ifdef __SANITIZE_ADDRESS__
void fibre_switch(struct fibre *from, struct fibre *to);
#else
extern __thread struct fibre *fibre_current __attribute__((tls_model("initial-exec"), visibility("hidden")));
void context_switch(void **from, void *to);

static inline void fibre_switch(struct fibre *from, struct fibre *to) {
  fibre_current = to;
  context_switch(&from->kept, to->kept);
}
#endif

#endif
