/* SPDX-License-Identifier: BSD-3-Clause
 * The dlsym hook: programs that open libnccl themselves and ask it for functions by name never look at a preloaded
 * library. They get our functions, and what they would have got is recorded as the real one.
 *
 * dlsym itself is an assembly stub (hook_x86_64.S, hook_aarch64.S), because the real dlsym looks at its return address to
 * know who asks (RTLD_NEXT): everything that is not an exact NCCL name of an explicit handle must be a tail jump.
 * Threads: any. Nothing here allocates, locks or changes errno beyond what the real dlsym does.
 */
#ifndef INTERPOSE_HOOK_H
#define INTERPOSE_HOOK_H

/* What the stub does next: jump to `target` with the arguments it was called with, or, where that is NULL, return
 * `answer`. Two registers in both ABIs. */
struct tagc_hook_answer {
  void *target;
  void *answer;
};

struct tagc_hook_answer tagc_hook_dlsym(void *handle, const char *name);

#endif
