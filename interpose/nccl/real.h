/* SPDX-License-Identifier: BSD-3-Clause
 * The real NCCL, or several: a process may hold more than one copy, and every call goes on to its caller's own.
 *
 * A copy is a table of functions, found whole and never changed. It stays loaded from its first call on; one that was
 * only asked for by name, and closed, gives up its place to the next. Which one a call means:
 *   linked      The object that calls was bound to this library by the dynamic linker. It gets what it would have been
 *               bound to instead: that which its other references to NCCL are bound to, for functions that are not
 *               intercepted; where it has none yet, the next library in the global scope, else those that it needs
 *               itself. Remembered by the object's addresses; the object stays loaded from then on, so that these stay
 *               its own.
 *   by name     dlsym() gave the program a stub (interpose/nccl/hook.h), one set a copy, that notes its copy on the way
 *               in.
 *   neither     An object that sees no NCCL called (a tail call out of another object, code without an object): the
 *               only copy that is known or loaded; where there are several, nobody can tell, and the call fails.
 * TAGC_NCCL overrides all of it.
 *
 * Threads: any; tables and objects are only ever added, and read without a lock.
 * Errors: nothing here needs memory but the dynamic linker. Where that has none, a linked call fails, which the log
 * says, and what is asked for by name is not intercepted.
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

/* Copies of NCCL in a process; one more is left alone. */
#define TAGC_NCCL_MAX 4

struct tagc_nccl {
  void *functions[TAGC_ENTRY_COUNT]; /* NULL: it does not have this one */
  struct tagc_object library;        /* where the work is done; functions may lie in libraries that wrap it */
  int index;                         /* its place among the copies */
  int group;                         /* the index of the first one with this library: their groups are the same */
  bool on_host;                      /* works on host memory (the stand-in of the tests says so by a symbol) */
  bool on_rocm;                      /* RCCL, for AMD's GPUs: a stream or a buffer means nothing to CUDA's driver */
};

/* Stands for a copy where there is none: it has no functions. */
extern const struct tagc_nccl tagc_real_none;

/* The copy that a call means, never NULL: that of the stub which the thread came through, else that of the linked
 * caller (an address inside the calling object). The first thing that every exported function asks, once: the note of
 * a stub is taken by it. */
static inline const struct tagc_nccl *tagc_real_called(const void *caller);

/* The copy in which an object at this address would find `entry` if it were linked; NULL where it would find none. For
 * NULL: what everybody sees. */
const struct tagc_nccl *tagc_real_visible(enum tagc_entry entry, const void *caller);

/* The copy in which a program found `function` under the name of `entry`, asking `handle`. NULL where there is no room
 * for another copy (said in the log), or where TAGC_NCCL cannot be had. */
const struct tagc_nccl *tagc_real_of_handle(void *handle, enum tagc_entry entry, void *function);

/* Can TAGC_NCCL, which was given, not be opened? */
bool tagc_real_is_lost(void);

/* Does this thread open TAGC_NCCL right now? What its constructors ask for is not intercepted. */
bool tagc_real_is_opening(void);

/* Names (interpose/nccl/names.c). The library exports what is ENTRY() in entries.def. */
const char *tagc_real_name(enum tagc_entry entry);
bool tagc_real_is_exported(enum tagc_entry entry);
/* The entry of that exact name, if the library exports it, or TAGC_ENTRY_COUNT. */
enum tagc_entry tagc_real_find_entry(const char *name);

/* The real function of a name, typed, or NULL (said in the log, once). */
#define TAGC_REAL(name, nccl) ((__typeof__(&name))tagc_real_get(nccl, TAGC_ENTRY_##name))

void *tagc_real_missing(const struct tagc_nccl *nccl, enum tagc_entry entry);

/* The version code of a copy (2.28.9 is 22809); 0 where it does not say. */
int tagc_real_version(const struct tagc_nccl *nccl);

static inline void *tagc_real_get(const struct tagc_nccl *nccl, enum tagc_entry entry) {
  void *function = nccl->functions[entry];
  return __builtin_expect(function != NULL, 1) ? function : tagc_real_missing(nccl, entry);
}

/* Has the real library refused a call for what it was asked, so that all is as it was before? */
static inline bool tagc_real_refuses(ncclResult_t status) {
  return status == ncclInvalidArgument || status == ncclInvalidUsage;
}

/* NCCL's own calls of its public functions come back to us: while a thread is inside the real library, whatever it
 * calls is forwarded untouched. A counter a thread. */
extern _Thread_local int tagc_real_depth __attribute__((tls_model("initial-exec")));

/* The value of calls of the real library. With *real_errno: calls for the program, and what it finds in errno then. */
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

/* Set by a stub: one more than the index of its copy. Taken, and set to 0, by the exported function behind it. */
extern _Thread_local int tagc_real_stub __attribute__((tls_model("initial-exec")));

/* The addresses of a calling object. `size` is written last; 0: empty. */
struct tagc_real_caller {
  _Atomic uintptr_t size, low;
  const struct tagc_nccl *nccl; /* NULL: it sees none */
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
