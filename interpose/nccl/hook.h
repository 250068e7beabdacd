/* SPDX-License-Identifier: BSD-3-Clause
 * The hooks of dlsym and dlopen, for programs that open libnccl themselves and ask it for functions by name: they
 * never look at a preloaded library.
 *
 * dlsym   answers an exact NCCL name with a stub of the copy of NCCL in which the name was found. The stub notes its
 *         copy for the thread and goes on to the exported function of that name. RTLD_DEFAULT is answered as it would
 *         be without this library: NULL where the caller sees no NCCL. RTLD_NEXT, and what is found in front of this
 *         library, is for those who wrap NCCL themselves, and is left alone.
 * dlopen  takes RTLD_DEEPBIND off a library that imports NCCL's functions: with it, they would be bound past us.
 *
 * Both are assembly (hook_x86_64.S, hook_aarch64.S), because the real ones look at their return address to know who
 * asks (RTLD_NEXT, RPATH): whatever is not answered here must be a tail jump. They jump to what stands behind this
 * library: the C library's, or the hook of another preloaded library.
 * Threads: any. Before a process asks for an NCCL name nothing here allocates, locks, reads options or changes errno
 * beyond what the real functions do.
 */
#ifndef INTERPOSE_NCCL_HOOK_H
#define INTERPOSE_NCCL_HOOK_H

#include "interpose/nccl/linker.h"

/* What dlsym does next: jump to `target` with the arguments it was called with, or, where that is NULL, return
 * `answer`. Two registers in both ABIs. */
struct tagc_hook_answer {
  void *target;
  void *answer;
};

/* `caller` is the return address of the call. */
struct tagc_hook_answer tagc_hook_dlsym(void *handle, const char *name, const void *caller);

/* What dlopen does next: jump to `target` with the path it was called with, and these flags. */
struct tagc_hook_opening {
  tagc_dlopen_function *target;
  long flags;
};

struct tagc_hook_opening tagc_hook_dlopen(const char *path, int flags);

/* Where dlopen jumps at once when the flags have no RTLD_DEEPBIND. NULL until it has been called. */
extern tagc_dlopen_function *tagc_hook_next_dlopen;

/* The stubs: TAGC_HOOK_STUB bytes each, one for every line of entries.def; first those of the first copy. */
#define TAGC_HOOK_STUB 32
extern const char tagc_hook_stubs[];

#endif
