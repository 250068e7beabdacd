/* SPDX-License-Identifier: BSD-3-Clause
 * The real NCCL, or several: a process may hold more than one copy, and every call goes on to its caller's own.
 *
 * A copy is a table of functions, found whole and never changed. It stays loaded from its first call on; a copy that
 * was only asked for by name, and closed, gives up its place to the next. Which copy a call means:
 *   linked      The dynamic linker has bound the calling object to this library. The object gets the copy that it would
 *               have been bound to instead: that of its other references to NCCL, for functions that are not
 *               intercepted. If it has none yet: the next library in the global scope, else those that it needs itself.
 *               Remembered by the object's addresses; the object stays loaded, so that these stay its own.
 *   by name     dlsym() gave the program a stub (interpose/nccl/hook.h), one set a copy, that notes its copy on the way
 *               in.
 *   neither     An object that sees no NCCL called (a tail call out of another object, code without an object): the
 *               only copy that is known or loaded; with several the choice is impossible, and the call fails.
 * TAGC_NCCL overrides all of it.
 *
 * Threads: any; tables and objects are only ever added, and read without a lock.
 * Errors: only the dynamic linker needs memory here. Without it, a linked call fails, which is logged, and functions
 * requested by name are not intercepted.
 */
#ifndef INTERPOSE_NCCL_REAL_H
#define INTERPOSE_NCCL_REAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/nccl/linker.h"
#include "interpose/nccl/nccl_newer.h"

enum tagc_entry {
#define ENTRY(name) TAGC_ENTRY_##name,
#define USED(name) TAGC_ENTRY_##name,
#include "interpose/nccl/entries.def"
  TAGC_ENTRY_COUNT
};

/* Copies of NCCL in a process; further ones are left alone. */
#define TAGC_NCCL_MAX 4

struct tagc_nccl {
  void *functions[TAGC_ENTRY_COUNT]; /* NULL: it lacks this one */
  struct tagc_object library;        /* does the work; functions may lie in libraries that wrap it */
  int index;                         /* its index among the copies */
  int group;                         /* the index of the first copy with this library: they share their groups */
  bool on_host;                      /* works on host memory (the stand-in of the tests has a symbol for that) */
  bool on_rocm;                      /* RCCL, for AMD's GPUs: its streams and buffers mean nothing to CUDA's driver */
};

/* Means "no copy": it has no functions. */
extern const struct tagc_nccl tagc_real_none;

/* The copy that a call means, never NULL: that of the stub on the thread's way in, else that of the linked caller (an
 * address inside the calling object). Every exported function calls it first, and once: it takes the stub's note. */
static inline const struct tagc_nccl *tagc_real_called(const void *caller);

/* The copy in which an object at `caller` would find `entry` if linked; NULL: none. caller = NULL: everybody's copy. */
const struct tagc_nccl *tagc_real_visible(enum tagc_entry entry, const void *caller);

/* The copy in which a program found `function` under the name of `entry`, asking `handle`. NULL without room for
 * another copy (logged), or if TAGC_NCCL cannot be opened. */
const struct tagc_nccl *tagc_real_of_handle(void *handle, enum tagc_entry entry, void *function);

/* Is TAGC_NCCL set, but cannot be opened? */
bool tagc_real_is_lost(void);

/* Is this thread opening TAGC_NCCL? Lookups of its constructors are not intercepted. */
bool tagc_real_is_opening(void);

/* Names (interpose/nccl/names.c). The library exports the ENTRY() functions of entries.def. */
const char *tagc_real_name(enum tagc_entry entry);
bool tagc_real_is_exported(enum tagc_entry entry);
/* The entry of that exact name, if the library exports it, or TAGC_ENTRY_COUNT. */
enum tagc_entry tagc_real_find_entry(const char *name);

/* The real function of a name, typed, or NULL (logged once). */
#define TAGC_REAL(name, nccl) ((__typeof__(&name))tagc_real_get(nccl, TAGC_ENTRY_##name))

void *tagc_real_missing(const struct tagc_nccl *nccl, enum tagc_entry entry);

/* The version code of a copy (2.28.9 is 22809); 0: unknown. */
int tagc_real_version(const struct tagc_nccl *nccl);

static inline void *tagc_real_get(const struct tagc_nccl *nccl, enum tagc_entry entry) {
  void *function = nccl->functions[entry];
  return __builtin_expect(function != NULL, 1) ? function : tagc_real_missing(nccl, entry);
}

/* Has the real library refused a call because of its arguments, so that nothing has changed? */
static inline bool tagc_real_refuses(ncclResult_t status) {
  return status == ncclInvalidArgument || status == ncclInvalidUsage;
}

/* Is this no error: a call has succeeded, or goes on in the background? */
static inline bool tagc_real_accepts(ncclResult_t status) { return status == ncclSuccess || status == ncclInProgress; }

/* NCCL's own calls of its public functions come back to us: while a thread is inside the real library, its calls are
 * forwarded untouched. A counter a thread. */
extern _Thread_local int tagc_real_depth __attribute__((tls_model("initial-exec")));

/* The value of calls of the real library. With *real_errno: the errno of the program, before and after them. */
#define TAGC_IN_REAL(calls) \
  ({ \
    tagc_real_depth++; \
    const __typeof__(calls) in_real_value = (calls); \
    tagc_real_depth--; \
    in_real_value; \
  })
#define TAGC_IN_REAL_ERRNO(calls, real_errno) \
  ({ \
    errno = *(real_errno); \
    const ncclResult_t in_real_status = TAGC_IN_REAL(calls); \
    *(real_errno) = errno; \
    in_real_status; \
  })

/* ---- what tagc_real_called() looks at ---------------------------------------------------------------------------- */

/* Set by a stub to one more than the index of its copy. The exported function behind it reads it and sets it to 0. */
extern _Thread_local int tagc_real_stub __attribute__((tls_model("initial-exec")));

/* The addresses of a calling object. `size` is written last; 0: empty. */
struct tagc_real_caller {
  _Atomic uintptr_t size, low;
  const struct tagc_nccl *nccl; /* NULL: it sees no copy */
};
extern struct tagc_real_caller tagc_real_first_caller;

const struct tagc_nccl *tagc_real_by_stub(void);
const struct tagc_nccl *tagc_real_by_caller(const void *caller);

static inline const struct tagc_nccl *tagc_real_called(const void *caller) {
  if (__builtin_expect(tagc_real_stub != 0, 0))
    return tagc_real_by_stub();
  uintptr_t size = atomic_load_explicit(&tagc_real_first_caller.size, memory_order_acquire);
  uintptr_t low = atomic_load_explicit(&tagc_real_first_caller.low, memory_order_relaxed);
  if (__builtin_expect((uintptr_t)caller - low < size, 1))
    return tagc_real_first_caller.nccl;
  return tagc_real_by_caller(caller);
}

#endif
