/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/nccl/hook.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "env/log.h"
#include "interpose/nccl/imports.h"
#include "interpose/nccl/process.h"
#include "interpose/nccl/real.h"

_Static_assert(TAGC_NCCL_MAX == 4, "the assembly has stubs for four");

/* The address of our own function of an entry, from the dynamic symbol table, as all others see it. */
static void *own_function(enum tagc_entry entry) {
  switch (entry) {
/* clang-format off */
#define ENTRY(name) case TAGC_ENTRY_##name: return (void *)&name;
/* clang-format on */
#include "interpose/nccl/entries.def"
  default: return NULL;
  }
}

static void *stub_of(const struct tagc_nccl *nccl, enum tagc_entry entry) {
  return (void *)(tagc_hook_stubs + TAGC_HOOK_STUB * ((size_t)nccl->index * TAGC_ENTRY_COUNT + entry));
}

/* Do all lookups of the name find our function? RTLD_DEFAULT cannot answer that here: it would search from this
 * library, which is linked with -Bsymbolic and finds itself first. */
static bool is_in_front(const char *name, const void *own) {
  void *program = dlopen(NULL, RTLD_LAZY);
  bool is = program && tagc_linker_dlsym()(program, name) == own;
  if (program)
    dlclose(program);
  return is;
}

/* Does the handle mean this library alone? */
static bool is_own_handle(void *handle) {
  struct tagc_object us;
  return tagc_linker_find((const void *)&tagc_hook_dlsym, &us) && tagc_linker_pin(&us) == handle;
}

/* Answers for a name that everybody, or the caller, would see without this library. If no room is left for another
 * copy, its function is not intercepted; if nothing is visible, NULL, and dlerror() has a message. */
static void *answer_visible(const char *name, enum tagc_entry entry, const void *caller) {
  if (tagc_real_is_lost())
    return own_function(entry); /* it reports that when it is called */
  const struct tagc_nccl *nccl = tagc_real_visible(entry, caller);
  if (!nccl)
    return tagc_linker_dlsym()(RTLD_NEXT, name);
  dlerror(); /* our own search may have left one */
  return stub_of(nccl, entry);
}

static struct tagc_hook_answer answer_lookup(void *handle, const char *name, enum tagc_entry entry,
                                             const void *caller) {
  struct tagc_hook_answer jump = {(void *)tagc_linker_next_dlsym(), NULL};
  void *own = own_function(entry);
  if (handle == RTLD_DEFAULT) {
    if (!is_in_front(name, own))
      return jump; /* the function of a library in front of us, or of the program itself */
    return (struct tagc_hook_answer){NULL, answer_visible(name, entry, caller)};
  }
  void *found = tagc_linker_next_dlsym()(handle, name);
  if (!found)
    return jump;    /* sets the message of dlerror() */
  if (found == own) /* dlopen(NULL), which sees what everybody sees */
    return (struct tagc_hook_answer){NULL, is_own_handle(handle) ? own : answer_visible(name, entry, NULL)};
  struct tagc_object holder;
  if (tagc_linker_find(found, &holder) && holder.before_us)
    return jump; /* a wrapper that calls us, or a program whose own calls never do */
  const struct tagc_nccl *nccl = tagc_real_of_handle(handle, entry, found);
  if (nccl)
    return (struct tagc_hook_answer){NULL, stub_of(nccl, entry)};
  return (struct tagc_hook_answer){NULL, tagc_real_is_lost() ? own : found};
}

/* A program may have a profiler plugin linked in, which NCCL finds by dlopen(NULL)
 * (NCCL_PROFILER_PLUGIN=STATIC_PLUGIN). Our tables (interpose/profiler) must not stand in front of it: only those who
 * have opened this library get them. */
static struct tagc_hook_answer answer_plugin(void *handle, const char *name) {
  struct tagc_hook_answer jump = {(void *)tagc_linker_next_dlsym(), NULL};
  struct tagc_object us, holder;
  void *found = handle == RTLD_DEFAULT ? NULL : tagc_linker_next_dlsym()(handle, name);
  const bool ours = found && tagc_linker_find((const void *)&tagc_hook_dlsym, &us) &&
                    tagc_linker_find(found, &holder) && holder.low == us.low;
  if (ours && !is_own_handle(handle))
    return (struct tagc_hook_answer){NULL, tagc_linker_dlsym()(RTLD_NEXT, name)};
  return jump;
}

TAGC_BEFORE_SANITIZERS struct tagc_hook_answer tagc_hook_dlsym(void *handle, const char *name, const void *caller) {
  struct tagc_hook_answer jump = {(void *)tagc_linker_next_dlsym(), NULL};
  if (!name || name[0] != 'n' || name[1] != 'c' || name[2] != 'c' || name[3] != 'l' || handle == RTLD_NEXT)
    return jump;
  enum tagc_entry entry = tagc_real_find_entry(name);
  const bool plugin = strncmp(name, "ncclProfiler_v", strlen("ncclProfiler_v")) == 0;
  if ((entry == TAGC_ENTRY_COUNT && !plugin) || tagc_real_is_opening())
    return jump;
  int saved = errno;
  struct tagc_hook_answer next = plugin ? answer_plugin(handle, name) : answer_lookup(handle, name, entry, caller);
  errno = saved;
  return next;
}

tagc_dlopen_function *tagc_hook_next_dlopen;

/* Would a library that needs `library` get the NCCL that everybody sees? True also if none is visible: then the library
 * cannot be bound to a wrong one. */
static bool shares_nccl(const char *library) {
  const struct tagc_nccl *everybodys = tagc_real_visible(TAGC_ENTRY_ncclReduceScatter, NULL);
  if (!everybodys)
    return true;
  struct tagc_object its;
  void *handle = *library ? dlopen(library, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  void *function = handle ? tagc_linker_dlsym()(handle, "ncclGetErrorString") : NULL;
  bool shares = function && tagc_linker_find(function, &its) && its.low == everybodys->library.low;
  if (handle)
    dlclose(handle);
  return shares;
}

/* May a library be opened without RTLD_DEEPBIND? Only if this library needs that to see its calls, and if it brings no
 * other NCCL: it also calls functions that are not intercepted, and another NCCL may stand in front of this library (in
 * the program, or preloaded). Ignores names without a slash: their search depends on the caller. */
static bool can_be_bound_to_us(const char *path) {
  struct tagc_imports imports;
  if (!strchr(path, '/') || strchr(path, '$') || !tagc_imports_read(path, &imports) || !imports.nccl ||
      tagc_library_options()->mode == TAGC_MODE_OFF)
    return false;
  bool can =
    is_in_front("ncclReduceScatter", own_function(TAGC_ENTRY_ncclReduceScatter)) && shares_nccl(imports.library);
  tagc_log(TAGC_LOG_INFO, "interpose",
           can ? "%s imports NCCL's functions: opened without RTLD_DEEPBIND, to see its calls"
               : "%s is opened with RTLD_DEEPBIND, and binds to an NCCL of its own: its calls are not seen",
           path);
  return can;
}

TAGC_BEFORE_SANITIZERS struct tagc_hook_opening tagc_hook_dlopen(const char *path, int flags) {
  struct tagc_hook_opening opening = {tagc_linker_next_dlopen(), flags};
  __atomic_store_n(&tagc_hook_next_dlopen, opening.target, __ATOMIC_RELAXED);
  if (!(flags & RTLD_DEEPBIND) || (flags & RTLD_NOLOAD) || !path)
    return opening;
  int saved = errno;
  if (can_be_bound_to_us(path))
    opening.flags &= ~RTLD_DEEPBIND;
  errno = saved;
  return opening;
}
