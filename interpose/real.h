/* SPDX-License-Identifier: BSD-3-Clause
 * The real NCCL: one pointer a function, found at its first call.
 *
 * Looked for, in this order: TAGC_NCCL; the pointer that a program got through dlsym() (interpose/hook.c); the next
 * library that has the name; the library that the calling object itself links; a libnccl.so.2 that is loaded already.
 * Threads: any; two threads that resolve at once find the same.
 */
#ifndef INTERPOSE_REAL_H
#define INTERPOSE_REAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "interpose/nccl_newer.h"

enum tagc_entry {
#define ENTRY(name) TAGC_ENTRY_##name,
#define USED(name) TAGC_ENTRY_##name,
#include "interpose/entries.def"
  TAGC_ENTRY_COUNT
};

/* Indexed by enum tagc_entry; NULL: not looked for yet, or not there. */
extern _Atomic(void *) tagc_real_functions[TAGC_ENTRY_COUNT];

/* Finds a function for a caller (an address inside the calling object). NULL, with one message in the log, where no NCCL
 * has it. */
void *tagc_real_resolve(enum tagc_entry entry, const void *caller);

/* What the dlsym hook learnt: a program asked a libnccl for `entry` and would have got `function`. True where that is the
 * function that calls are forwarded to; false for that of a second NCCL in the process (said in the log). */
bool tagc_real_record(enum tagc_entry entry, void *function);

/* The entry of that exact name, or TAGC_ENTRY_COUNT. Only those of ENTRY(): what the library exports. */
enum tagc_entry tagc_real_find_entry(const char *name);

/* The C library's dlsym, which the library's own (interpose/hook.c) stands in front of. Never NULL once the process runs. */
typedef void *tagc_dlsym_function(void *handle, const char *name);
tagc_dlsym_function *tagc_real_dlsym(void);

/* Sanitizers ask dlsym for what they replace before they can run instrumented code. */
#define TAGC_BEFORE_SANITIZERS __attribute__((no_sanitize("address", "undefined", "thread")))

/* The version code of the real library (2.28.9 is 22809); 0 where it does not say. `caller` as above. */
int tagc_real_version(const void *caller);

/* Does the real library work on host memory (the stand-in of the tests says so by a symbol)? */
bool tagc_real_is_on_host(void);

/* The real function of a name, typed, or NULL. `caller` as above. */
#define TAGC_REAL(name, caller)                                                                                        \
  ((__typeof__(&name))tagc_real_get(TAGC_ENTRY_##name, caller))

static inline void *tagc_real_get(enum tagc_entry entry, const void *caller)
{
  void *function = atomic_load_explicit(&tagc_real_functions[entry], memory_order_acquire);
  return __builtin_expect(function != NULL, 1) ? function : tagc_real_resolve(entry, caller);
}

/* NCCL's own calls of its public functions come back to us: while a thread is inside the real library, whatever it calls
 * is forwarded untouched. A counter a thread. */
extern _Thread_local int tagc_real_depth __attribute__((tls_model("initial-exec")));

#endif
