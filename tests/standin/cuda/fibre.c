/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/standin/cuda/fibre.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define WITH_ASAN 1
#include <sanitizer/common_interface_defs.h>
#else
#define WITH_ASAN 0
#endif

enum { STACK = WITH_ASAN ? 256 << 10 : 64 << 10 };

void context_begin(void);
void fibre_main(void) __attribute__((visibility("hidden"), noreturn));

__thread struct fibre *fibre_current __attribute__((tls_model("initial-exec"), visibility("hidden")));

static void arrived(struct fibre *at) {
#if WITH_ASAN
  __sanitizer_finish_switch_fiber(at->fake, NULL, NULL);
#else
  (void)at;
#endif
}

void fibre_main(void) {
  arrived(fibre_current);
  fibre_current->body(fibre_current->data);
  abort();
}

void fibre_adopt(struct fibre *thread) {
  pthread_attr_t attributes;
  *thread = (struct fibre){.stack = NULL};
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &thread->stack, &thread->size);
    pthread_attr_destroy(&attributes);
  }
  fibre_current = thread;
}

/* Writes the words that context_switch() pops, and its return address. */
static void *lay_out(char *top) {
#ifdef __x86_64__
  enum { WORDS = 7, RETURN = 6 }; /* at context_begin the stack is aligned as before a call */
#else
  enum { WORDS = 20, RETURN = 11 };
#endif
  uintptr_t *words = (uintptr_t *)(void *)top - WORDS;
  for (int i = 0; i < WORDS; i++)
    words[i] = 0;
  words[RETURN] = (uintptr_t)context_begin;
  return words;
}

struct fibre *fibre_create(void (*body)(void *data), void *data) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  struct fibre *fibre = calloc(1, sizeof *fibre);
  char *memory = mmap(NULL, STACK + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!fibre || memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) {
    free(fibre);
    if (memory != MAP_FAILED)
      munmap(memory, STACK + page);
    return NULL;
  }
  *fibre = (struct fibre){.stack = memory + page, .size = STACK, .body = body, .data = data};
  /* Stacks that all end at the same place of a page would share few lines of the cache. */
  static _Atomic unsigned created;
  fibre->kept = lay_out(memory + page + STACK - created++ * 7 % 64 * 64);
  return fibre;
}

void fibre_free(struct fibre *fibre) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  munmap((char *)fibre->stack - page, fibre->size + page);
  free(fibre);
}

#if WITH_ASAN
void context_switch(void **from, void *to);

/* Not instrumented: entered on one stack and left on another. */
__attribute__((no_sanitize("address"))) void fibre_switch(struct fibre *from, struct fibre *to) {
  fibre_current = to;
  __sanitizer_start_switch_fiber(&from->fake, to->stack, to->size);
  context_switch(&from->kept, to->kept);
  arrived(from);
}
#endif
