/* SPDX-License-Identifier: BSD-3-Clause
 * The hooks of dlsym and dlopen, for programs that open libnccl themselves and ask it for functions by name: those
 * functions are never looked up in a preloaded library.
 *
 * dlsym   answers an exact NCCL name with a stub of the copy of NCCL in which the name was found. The stub notes its
 *         copy for the thread and jumps to the exported function of that name. For RTLD_DEFAULT the answer is as
 *         without this library: NULL if the caller sees no NCCL. RTLD_NEXT, and functions found in front of this
 *         library, are for wrappers of NCCL, and stay untouched.
 * dlopen  removes RTLD_DEEPBIND for a library that imports NCCL's functions: with it, they would be bound past us.
 *
 * Both are assembly (hook_x86_64.S, hook_aarch64.S), because the real ones identify their caller by their return
 * address (RTLD_NEXT, RPATH): all other calls must become a tail jump. They jump to the functions behind this library:
 * the C library's, or the hook of another preloaded library.
 * Threads: any. Before a process asks for an NCCL name nothing here allocates, locks, reads options or changes errno
 * beyond what the real functions do.
 */
#ifndef INTERPOSE_NCCL_HOOK_H
#define INTERPOSE_NCCL_HOOK_H

#include "interpose/nccl/linker.h"

/* The next step of dlsym: jump to `target` with its arguments or, if NULL, return `answer`. In two registers. */
struct tagc_hook_answer {
  void *target;
  void *answer;
};

/* `caller` is the return address of the call. */
struct tagc_hook_answer tagc_hook_dlsym(void *handle, const char *name, const void *caller);

/* The next step of dlopen: jump to `target` with its own path, and these flags. */
struct tagc_hook_opening {
  tagc_dlopen_function *target;
  long flags;
};

struct tagc_hook_opening tagc_hook_dlopen(const char *path, int flags);

/* The target of dlopen's immediate jump if the flags lack RTLD_DEEPBIND. NULL until dlopen has been called. */
extern tagc_dlopen_function *tagc_hook_next_dlopen;

/* The stubs: TAGC_HOOK_STUB bytes each, one for every line of entries.def; those of the first copy come first. */
#define TAGC_HOOK_STUB 32
extern const char tagc_hook_stubs[];

#endif
