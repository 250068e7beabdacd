/* SPDX-License-Identifier: BSD-3-Clause
 * Queries of the dynamic linker: the object that holds an address, and the functions behind this library's own dlsym
 * and dlopen (interpose/nccl/hook.h).
 *
 * Threads: any. Nothing here allocates or keeps a lock; the dynamic linker takes its own. errno may change.
 */
#ifndef INTERPOSE_NCCL_LINKER_H
#define INTERPOSE_NCCL_LINKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sanitizers call dlsym for the functions that they replace before they can run instrumented code. */
#define TAGC_BEFORE_SANITIZERS __attribute__((no_sanitize("address", "undefined", "thread")))

typedef void *tagc_dlsym_function(void *handle, const char *name);
typedef void *tagc_dlopen_function(const char *path, int flags);

/* The C library's dlsym: with it, RTLD_NEXT means the objects after this library. Never NULL in a running process. */
tagc_dlsym_function *tagc_linker_dlsym(void);

/* The dlsym and dlopen that programs would reach without this library: those of a hook behind it, or of libc. */
tagc_dlsym_function *tagc_linker_next_dlsym(void);
tagc_dlopen_function *tagc_linker_next_dlopen(void);

/* A loaded object. */
struct tagc_object {
  uintptr_t low, high; /* all of its segments lie in [low, high) */
  const char *name;    /* the dynamic linker's; "": the program. Valid while the object is loaded */
  bool before_us;      /* found before this library: the program, or a library preloaded before it */
  uintptr_t base;      /* added to the addresses in it */
  const void *dynamic; /* its dynamic section; NULL: none */
};

/* Finds the object that holds an address. False: none (code in plain memory), or in another namespace (dlmopen). */
bool tagc_linker_find(const void *address, struct tagc_object *object);

static inline bool tagc_object_holds(const struct tagc_object *object, const void *address) {
  return (uintptr_t)address - object->low < object->high - object->low;
}

/* A function of another object that the dynamic linker has bound an object to. */
struct tagc_binding {
  const char *name; /* valid while the bound object is loaded */
  void *address;
};

/* Finds the first imported function of an object that is `wanted`, and already bound to an object behind this library.
 * (Lazy binding happens at the first call.) False: none. The object must stay loaded meanwhile. */
bool tagc_linker_find_binding(const struct tagc_object *object, bool (*wanted)(const char *name),
                              struct tagc_binding *binding);

/* Visits the names that a loaded object exports: of its functions, and perhaps of data. It must stay loaded meanwhile.
 */
void tagc_linker_visit_exports(const struct tagc_object *object, void (*visit)(const char *name, void *context),
                               void *context);

/* Finds a loaded object, other than this library, that imports a `wanted` function: by the dynamic linker, wherever it
 * may be bound to. Copies the names. An object behind this library that exports `name + skip` does not count. */
struct tagc_importer {
  char object[256], name[64];
};
bool tagc_linker_find_importer(bool (*wanted)(const char *name), size_t skip, struct tagc_importer *importer);

/* Keeps an object loaded for as long as the process lives, so that its addresses stay valid. Returns its handle; NULL
 * if the dynamic linker no longer knows it under its name. */
void *tagc_linker_pin(const struct tagc_object *object);

#endif
