/* SPDX-License-Identifier: BSD-3-Clause
 * A library to preload after libtagc-preload.so. It makes one of the library's allocations or thread starts fail.
 *
 *   FAIL_ALLOCATION=N    the Nth one, counted from 1 in each process, and named on stderr
 *   FAIL_ABOVE=BYTES     all aligned ones of more bytes, as buffers are; without either nothing fails
 *   FAIL_RANK=R          only in the process with RANK=R
 *
 * A program may make several fail, one after the other: failing_malloc_at(N) counts from 1 again, and
 * failing_malloc_made() returns the count so far.
 *
 * The return address identifies the library's allocations. So programs, NCCL and libc are spared. All other allocations
 * go to glibc under its internal names.
 */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define CALLER ((uintptr_t)__builtin_return_address(0))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static uintptr_t begin, end; /* of the library; 0: nothing fails */
static atomic_ulong which;
static atomic_ulong made;
static size_t above = SIZE_MAX;

static int find_library(struct dl_phdr_info *object, size_t size, void *unused) {
  (void)size;
  (void)unused;
  if (!strstr(object->dlpi_name, "libtagc-preload.so"))
    return 0;
  for (int i = 0; i < object->dlpi_phnum; i++)
    if (object->dlpi_phdr[i].p_type == PT_LOAD && object->dlpi_phdr[i].p_flags & PF_X) {
      begin = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
      end = begin + object->dlpi_phdr[i].p_memsz;
    }
  return 1;
}

__attribute__((constructor)) static void start(void) {
  const char *number = getenv("FAIL_ALLOCATION"), *size = getenv("FAIL_ABOVE"), *wanted = getenv("FAIL_RANK"),
             *rank = getenv("RANK");
  if ((!number && !size) || (wanted && (!rank || strcmp(wanted, rank) != 0)))
    return;
  which = number ? strtoul(number, NULL, 10) : 0;
  above = size ? strtoul(size, NULL, 10) : SIZE_MAX;
  dl_iterate_phdr(find_library, NULL);
}

EXPORT void failing_malloc_at(unsigned long number);
EXPORT unsigned long failing_malloc_made(void);

EXPORT void failing_malloc_at(unsigned long number) {
  if (!begin)
    dl_iterate_phdr(find_library, NULL);
  made = 0;
  which = number;
}

EXPORT unsigned long failing_malloc_made(void) { return made; }

static bool fails(uintptr_t caller, const char *what, size_t size) {
  const bool large = strstr(what, "align") && size > above;
  if (caller < begin || caller >= end || (atomic_fetch_add(&made, 1) + 1 != which && !large))
    return false;
  char line[160];
  int n = snprintf(line, sizeof line, "failing_malloc: %s of %zu bytes fails, at %#lx of the library\n", what, size,
                   (unsigned long)(caller - begin));
  (void)!write(STDERR_FILENO, line, (size_t)n);
  errno = ENOMEM;
  return true;
}

EXPORT void *malloc(size_t size) { return fails(CALLER, "malloc", size) ? NULL : __libc_malloc(size); }

EXPORT void *calloc(size_t count, size_t size) {
  return fails(CALLER, "calloc", count * size) ? NULL : __libc_calloc(count, size);
}

EXPORT void *realloc(void *memory, size_t size) {
  return fails(CALLER, "realloc", size) ? NULL : __libc_realloc(memory, size);
}

EXPORT int posix_memalign(void **memory, size_t alignment, size_t size) {
  if (fails(CALLER, "posix_memalign", size))
    return ENOMEM;
  void *made_here = __libc_memalign(alignment, size);
  if (!made_here)
    return ENOMEM;
  *memory = made_here;
  return 0;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
  return fails(CALLER, "aligned_alloc", size) ? NULL : __libc_memalign(alignment, size);
}

/* dlopen() allocates, too. */
EXPORT void *dlopen(const char *path, int mode) {
  static void *(*real)(const char *, int);
  if (!real)
    real = (__typeof__(real))dlsym(RTLD_NEXT, "dlopen");
  return fails(CALLER, "dlopen", 0) ? NULL : real(path, mode);
}

/* A thread needs a stack. */
EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument) {
  static __typeof__(&pthread_create) _Atomic real;
  if (!real)
    real = (__typeof__(&pthread_create))dlsym(RTLD_NEXT, "pthread_create");
  if (!fails(CALLER, "pthread_create", 0))
    return real(thread, attributes, work, argument);
  errno = 0; /* only the return value reports the error */
  return EAGAIN;
}

EXPORT char *strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = fails(CALLER, "strdup", size) ? NULL : __libc_malloc(size);
  return copy ? memcpy(copy, text, size) : NULL;
}
