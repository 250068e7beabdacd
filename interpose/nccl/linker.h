/* SPDX-License-Identifier: BSD-3-Clause
 * What this library asks of the dynamic linker: which object an address lies in, and the functions that its own dlsym
 * and dlopen (interpose/nccl/hook.h) stand in front of.
 *
 * Threads: any. Nothing here allocates or keeps a lock; the dynamic linker takes its own. errno may change.
 */
#ifndef INTERPOSE_NCCL_LINKER_H
#define INTERPOSE_NCCL_LINKER_H

#include <stdbool.h>
#include <stdint.h>

/* Sanitizers ask dlsym for what they replace before they can run instrumented code. */
#define TAGC_BEFORE_SANITIZERS __attribute__((no_sanitize("address", "undefined", "thread")))

typedef void *tagc_dlsym_function(void *handle, const char *name);
typedef void *tagc_dlopen_function(const char *path, int flags);

/* The C library's dlsym: RTLD_NEXT, asked with it from here, means what comes after this library. Never NULL once the
 * process runs. */
tagc_dlsym_function *tagc_linker_dlsym(void);

/* The dlsym and dlopen that programs would reach without this library: those of the next library that stands in front
 * of them, too, or the C library's. */
tagc_dlsym_function *tagc_linker_next_dlsym(void);
tagc_dlopen_function *tagc_linker_next_dlopen(void);

/* A loaded object. */
struct tagc_object {
  uintptr_t low, high; /* all of its segments lie in [low, high) */
  const char *name;    /* the dynamic linker's; "" is the program. Valid while the object is loaded */
  bool before_us;      /* found before this library: the program, or one that is preloaded before it */
  uintptr_t base;      /* what is added to the addresses in it */
  const void *dynamic; /* its dynamic section; NULL: it has none */
};

/* The object that holds an address; false where none does (memory that a program filled with code itself), or one in
 * another namespace (dlmopen). */
bool tagc_linker_find(const void *address, struct tagc_object *object);

static inline bool tagc_object_holds(const struct tagc_object *object, const void *address) {
  return (uintptr_t)address - object->low < object->high - object->low;
}

/* A function of another object that the dynamic linker has bound an object to. */
struct tagc_binding {
  const char *name; /* valid while the object that is bound is loaded */
  void *address;
};

/* The first of the functions an object imports that is `wanted`, and bound already (with lazy binding that is done when
 * it is called), to an object behind this library. False where there is none. The object must stay loaded meanwhile. */
bool tagc_linker_find_binding(const struct tagc_object *object, bool (*wanted)(const char *name),
                              struct tagc_binding *binding);

/* Keeps an object loaded for as long as the process lives, so that addresses in it stay what they are. Its handle; NULL
 * where the dynamic linker does not know it under its name any more. */
void *tagc_linker_pin(const struct tagc_object *object);

#endif
