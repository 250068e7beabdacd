/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/nccl/real.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "env/log.h"
#include "interpose/nccl/process.h"
#include "interpose/nccl/unknown.h"

_Thread_local int tagc_real_depth __attribute__((tls_model("initial-exec")));
_Thread_local int tagc_real_stub __attribute__((tls_model("initial-exec")));

/* ---- the copies -------------------------------------------------------------------------------------------------- */

const struct tagc_nccl tagc_real_none = {.index = -1, .group = TAGC_NCCL_MAX};

/* A table is published by its address when it is complete, and never changes afterwards. The additional tables are for
 * copies that replace others, which a program only asked for a function and closed. */
static struct tagc_nccl tables[4 * TAGC_NCCL_MAX];
static unsigned table_count;
static _Atomic(const struct tagc_nccl *) copies[TAGC_NCCL_MAX];
static atomic_bool kept[TAGC_NCCL_MAX]; /* loaded until the process ends, because it was called */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static const struct tagc_nccl *copy(int i) { return atomic_load_explicit(&copies[i], memory_order_acquire); }

/* The scope of a lookup by name, in this order. */
struct scope {
  tagc_dlsym_function *dlsym;
  bool next;                        /* objects after this library, for everybody */
  void *handle;                     /* then this one; NULL: none */
  const struct tagc_object *except; /* an object whose own functions do not count; NULL: none */
};

static bool is_own_function(const void *function) {
  struct tagc_object us;
  return tagc_linker_find((const void *)&is_own_function, &us) && tagc_object_holds(&us, function);
}

static void *look_up(const struct scope *scope, const char *name) {
  void *found = scope->next ? scope->dlsym(RTLD_NEXT, name) : NULL;
  if (!found && scope->handle)
    found = scope->dlsym(scope->handle, name);
  /* This library must not find itself, and a wrapper must not find itself through us. */
  return found && (is_own_function(found) || (scope->except && tagc_object_holds(scope->except, found))) ? NULL : found;
}

/* The library itself, behind wrappers of its functions: they leave alone the second name of each function, and the
 * function that turns a code into words. */
static bool find_library(const struct scope *scope, struct tagc_nccl *nccl) {
  static const char *const unwrapped[] = {"pncclGroupStart", "ncclGetErrorString", "ncclGroupStart"};
  void *function = NULL;
  for (size_t i = 0; i < sizeof unwrapped / sizeof *unwrapped && !function; i++)
    function = look_up(scope, unwrapped[i]);
  for (int i = 0; i < TAGC_ENTRY_COUNT && !function; i++)
    function = nccl->functions[i];
  return tagc_linker_find(function, &nccl->library);
}

/* Is the copy certainly the one that was found? For copies that were never called this is unknown: another library may
 * have their addresses by now. */
static bool is_kept(const struct tagc_nccl *nccl) {
  return nccl->index >= 0 && atomic_load_explicit(&kept[nccl->index], memory_order_acquire);
}

static bool is_loaded(const struct tagc_nccl *nccl) {
  struct tagc_object there;
  return is_kept(nccl) || (tagc_linker_find((const void *)nccl->library.low, &there) &&
                           there.low == nccl->library.low && there.high == nccl->library.high);
}

static void tell_unpinned(const char *name) {
  static atomic_flag told;
  const char *why = dlerror();
  if (!atomic_flag_test_and_set(&told))
    tagc_log(TAGC_LOG_WARN, "interpose", "%s cannot be kept loaded (%s): calls of it may fail once it is closed", name,
             why ? why : "the dynamic linker does not say why");
}

static void note_kept(const struct tagc_nccl *nccl) {
  static atomic_flag looked[TAGC_NCCL_MAX];
  if (!atomic_flag_test_and_set(&looked[nccl->index]))
    tagc_unknown_look(nccl);
  atomic_store_explicit(&kept[nccl->index], true, memory_order_release);
}

/* Keeps all objects of a table loaded before its first call: its addresses must stay valid. */
static bool keep_loaded(const struct tagc_nccl *nccl) {
  if (is_kept(nccl))
    return true;
  struct tagc_object object = nccl->library;
  bool good = tagc_linker_find((const void *)object.low, &object) && tagc_linker_pin(&object);
  for (int i = 0; i < TAGC_ENTRY_COUNT && good; i++)
    if (nccl->functions[i] && !tagc_object_holds(&object, nccl->functions[i]))
      good = tagc_linker_find(nccl->functions[i], &object) && tagc_linker_pin(&object);
  if (good)
    note_kept(nccl);
  else
    tell_unpinned(object.name);
  return good;
}

/* Fills a table. False if the scope has no NCCL, or one in its own namespace. */
static bool fill_functions(const struct scope *scope, struct tagc_nccl *nccl) {
  bool any = false;
  for (int i = 0; i < TAGC_ENTRY_COUNT; i++) {
    nccl->functions[i] = look_up(scope, tagc_real_name((enum tagc_entry)i));
    any |= nccl->functions[i] && tagc_real_is_exported((enum tagc_entry)i);
  }
  if (!any || !find_library(scope, nccl))
    return false;
  void *library = tagc_linker_pin(&nccl->library);
  nccl->on_rocm = library && tagc_linker_dlsym()(library, "hipGetDevice");
  nccl->on_host = library && !nccl->on_rocm && tagc_linker_dlsym()(library, "ncclStandinHostMemory");
  if (library)
    dlclose(library);
  return library != NULL;
}

static void tell_found(const struct tagc_nccl *nccl) {
  tagc_log(TAGC_LOG_INFO, "interpose", "NCCL library %d of this process: %s%s", nccl->index + 1,
           *nccl->library.name ? nccl->library.name : "the program itself",
           nccl->group != nccl->index ? " (seen before; other libraries stand in front of it)" : "");
}

static void tell_no_room(const struct tagc_nccl *nccl) {
  static atomic_flag told;
  if (!atomic_flag_test_and_set(&told))
    tagc_log(TAGC_LOG_WARN, "interpose",
             "%s is NCCL library %d of this process, one too many: functions that programs ask for by "
             "name are not intercepted there, and linked calls of it fail",
             nccl->library.name, TAGC_NCCL_MAX + 1);
}

/* Returns the table equal to the candidate, or adds one; NULL: no room. Copies in `gone` give up their places. With the
 * lock. */
static const struct tagc_nccl *find_or_add(const struct tagc_nccl *candidate, const struct tagc_nccl *const *gone,
                                           bool *added) {
  struct tagc_nccl fresh = *candidate;
  int place = TAGC_NCCL_MAX, group = TAGC_NCCL_MAX;
  for (int i = TAGC_NCCL_MAX - 1; i >= 0; i--) {
    const struct tagc_nccl *nccl = copy(i);
    if (nccl && memcmp(nccl->functions, fresh.functions, sizeof fresh.functions) == 0)
      return nccl;
    if (!nccl || nccl == gone[i])
      place = i;
    else if (nccl->library.low == fresh.library.low)
      group = nccl->group;
  }
  if (place == TAGC_NCCL_MAX || table_count == sizeof tables / sizeof *tables)
    return NULL;
  fresh.index = place;
  fresh.group = group < TAGC_NCCL_MAX ? group : place;
  tables[table_count] = fresh;
  atomic_store_explicit(&copies[place], &tables[table_count++], memory_order_release);
  *added = true;
  return copy(place);
}

/* The same, but logs a lack of room and returns tagc_real_none. */
static const struct tagc_nccl *add_copy(const struct tagc_nccl *candidate) {
  const struct tagc_nccl *gone[TAGC_NCCL_MAX];
  bool added = false;
  for (int i = 0; i < TAGC_NCCL_MAX; i++)
    gone[i] = copy(i) && !is_loaded(copy(i)) ? copy(i) : NULL; /* the linker takes its own locks: we hold none here */
  pthread_mutex_lock(&adding);
  const struct tagc_nccl *found = find_or_add(candidate, gone, &added);
  pthread_mutex_unlock(&adding);
  if (added)
    tell_found(found);
  else if (!found)
    tell_no_room(candidate);
  return found ? found : &tagc_real_none;
}

/* The copy that a scope shows; NULL: none. Leaves no message for dlerror(). */
static const struct tagc_nccl *in_scope(const struct scope *scope) {
  struct tagc_nccl candidate = {0};
  const struct tagc_nccl *found = fill_functions(scope, &candidate) ? add_copy(&candidate) : NULL;
  dlerror();
  return found;
}

/* ---- TAGC_NCCL --------------------------------------------------------------------------------------------------- */

/* NULL: not opened yet */
static _Atomic(const struct tagc_nccl *) given;

/* This thread is opening it: its constructors may ask for NCCL's functions, and must get their own. */
static _Thread_local bool opening __attribute__((tls_model("initial-exec")));

bool tagc_real_is_opening(void) { return opening; }

/* tagc_real_none if it cannot be opened. */
static const struct tagc_nccl *open_given(void) {
  static atomic_flag told;
  const char *path = tagc_library_options()->nccl;
  struct scope scope = {.dlsym = tagc_linker_dlsym(), .handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL)};
  const char *why = scope.handle ? "has none of NCCL's functions" : dlerror();
  const struct tagc_nccl *nccl = scope.handle ? in_scope(&scope) : NULL;
  if (nccl)
    return nccl;
  if (!atomic_flag_test_and_set(&told))
    tagc_log(TAGC_LOG_ERROR, "interpose", "TAGC_NCCL=%s: %s", path, why ? why : "cannot be opened");
  return &tagc_real_none;
}

/* Do all calls go to the library of TAGC_NCCL? Threads that come at once may all open it, and the first to finish sets
 * it: a lock here and the dynamic linker's could be taken in either order. */
static bool is_given(const struct tagc_nccl **nccl) {
  if (!*tagc_library_options()->nccl || opening)
    return false;
  const struct tagc_nccl *known = atomic_load_explicit(&given, memory_order_acquire);
  if (!known) {
    opening = true;
    const struct tagc_nccl *opened = open_given();
    opening = false;
    if (atomic_compare_exchange_strong(&given, &known, opened))
      known = opened;
  }
  *nccl = known == &tagc_real_none ? NULL : known;
  return true;
}

bool tagc_real_is_lost(void) {
  const struct tagc_nccl *nccl = NULL;
  return is_given(&nccl) && !nccl;
}

/* ---- programs that ask by name ----------------------------------------------------------------------------------- */

const struct tagc_nccl *tagc_real_of_handle(void *handle, enum tagc_entry entry, void *function) {
  const struct tagc_nccl *nccl;
  if (is_given(&nccl))
    return nccl;
  for (int i = 0; i < TAGC_NCCL_MAX && (nccl = copy(i)); i++)
    if (is_kept(nccl) && nccl->functions[entry] == function)
      return nccl;
  struct scope scope = {.dlsym = tagc_linker_next_dlsym(), .handle = handle};
  nccl = in_scope(&scope);
  return nccl == &tagc_real_none ? NULL : nccl;
}

const struct tagc_nccl *tagc_real_by_stub(void) {
  const struct tagc_nccl *nccl = copy(tagc_real_stub - 1);
  tagc_real_stub = 0;
  if (!is_kept(nccl)) {
    int saved = errno;
    keep_loaded(nccl);
    errno = saved;
  }
  return nccl;
}

/* ---- programs that are linked ------------------------------------------------------------------------------------ */

struct tagc_real_caller tagc_real_first_caller;

/* The other callers. Few objects call NCCL; for those without room here every call asks the linker. */
static struct tagc_real_caller callers[32];
static atomic_uint caller_count;

static bool holds(struct tagc_real_caller *c, const void *address) {
  uintptr_t size = atomic_load_explicit(&c->size, memory_order_acquire);
  return (uintptr_t)address - atomic_load_explicit(&c->low, memory_order_relaxed) < size;
}

/* A remembered caller; NULL: none. */
static const struct tagc_real_caller *recall(const void *address) {
  unsigned count = atomic_load_explicit(&caller_count, memory_order_relaxed), room = sizeof callers / sizeof *callers;
  for (unsigned i = 0; i < (count < room ? count : room); i++)
    if (holds(&callers[i], address))
      return &callers[i];
  return NULL;
}

/* Two threads may remember the same object twice: no harm. False: no room. */
static bool remember_caller(const struct tagc_object *object, const struct tagc_nccl *nccl) {
  static atomic_flag first_taken;
  unsigned room = sizeof callers / sizeof *callers;
  struct tagc_real_caller *c = NULL;
  if (nccl && !atomic_flag_test_and_set(&first_taken)) {
    c = &tagc_real_first_caller; /* every call checks this one */
  } else {
    unsigned i = atomic_load(&caller_count);
    while (i < room && !atomic_compare_exchange_weak(&caller_count, &i, i + 1))
      ;
    c = i < room ? &callers[i] : NULL;
  }
  if (!c)
    return false;
  atomic_store_explicit(&c->low, object->low, memory_order_relaxed);
  c->nccl = nccl;
  atomic_store_explicit(&c->size, object->high - object->low, memory_order_release);
  return true;
}

/* Is it a function of NCCL that this library does not export? Its callers are bound past us. */
static bool is_unhooked(const char *name) {
  return strncmp(name, "nccl", 4) == 0 && tagc_real_find_entry(name) == TAGC_ENTRY_COUNT;
}

/* The copy to which the dynamic linker has bound an object, if that can be found; else NULL. The object's scope may
 * have changed since then, and a library is bound in the scope of the object for which it was loaded. */
static const struct tagc_nccl *bound_to(const struct tagc_object *object, const struct scope *usual) {
  struct tagc_binding binding;
  struct tagc_object holder;
  if (!tagc_linker_find_binding(object, is_unhooked, &binding) || !tagc_linker_find(binding.address, &holder))
    return NULL;
  struct scope scopes[] = {*usual, *usual, {.dlsym = usual->dlsym, .handle = tagc_linker_pin(&holder)}};
  scopes[1].next = false;
  const struct tagc_nccl *nccl = NULL;
  for (size_t i = 0; i < sizeof scopes / sizeof *scopes && !nccl; i++)
    if (look_up(&scopes[i], binding.name) == binding.address)
      nccl = in_scope(&scopes[i]);
  if (scopes[2].handle)
    dlclose(scopes[2].handle); /* its table keeps it, if it has one */
  dlerror();
  return nccl;
}

/* The copy to which an object's references were bound (`linked`), or would be: the global scope precedes its own. */
static const struct tagc_nccl *seen_by(const struct tagc_object *object, void *handle, bool linked) {
  const struct tagc_nccl *nccl;
  if (is_given(&nccl))
    return nccl;
  for (int i = 0; object && i < TAGC_NCCL_MAX && (nccl = copy(i)); i++)
    if (is_kept(nccl) && nccl->library.low == object->low)
      return copy(nccl->group); /* NCCL calls itself */
  struct scope scope = {.dlsym = tagc_linker_dlsym(),
                        .next = true,
                        .handle = handle,
                        .except = object && object->before_us ? object : NULL};
  nccl = object && linked ? bound_to(object, &scope) : NULL;
  return nccl ? nccl : in_scope(&scope);
}

const struct tagc_nccl *tagc_real_visible(enum tagc_entry entry, const void *caller) {
  struct tagc_object object;
  const struct tagc_nccl *nccl;
  void *everybodys = tagc_linker_dlsym()(RTLD_NEXT, tagc_real_name(entry));
  for (int i = 0; everybodys && !*tagc_library_options()->nccl && i < TAGC_NCCL_MAX && (nccl = copy(i)); i++)
    if (is_kept(nccl) && nccl->functions[entry] == everybodys)
      return nccl;
  bool known = caller && tagc_linker_find(caller, &object);
  void *handle = known ? tagc_linker_pin(&object) : NULL;
  nccl = seen_by(known ? &object : NULL, known && *object.name ? handle : NULL, !everybodys);
  if (handle)
    dlclose(handle); /* it has only asked */
  return nccl && nccl->functions[entry] ? nccl : NULL;
}

/* The copy for a caller that sees no NCCL, and yet calls one: the only one. */
static const struct tagc_nccl *only_one(void) {
  const struct tagc_nccl *nccl, *only = NULL;
  if (is_given(&nccl))
    return nccl ? nccl : &tagc_real_none;
  for (int i = 0; i < TAGC_NCCL_MAX && (nccl = copy(i)); i++) {
    if (!is_loaded(nccl))
      continue;
    if (only && nccl->group != only->group) {
      static atomic_flag told;
      if (!atomic_flag_test_and_set(&told))
        tagc_log(TAGC_LOG_ERROR, "interpose",
                 "this process has several NCCL libraries, and a caller sees "
                 "none of them: such calls fail (TAGC_NCCL chooses one)");
      return &tagc_real_none;
    }
    only = only ? only : nccl;
  }
  if (only)
    return only;
  struct scope scope = {.dlsym = tagc_linker_dlsym(), .handle = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_NOLOAD)};
  nccl = scope.handle ? in_scope(&scope) : NULL;
  return nccl ? nccl : &tagc_real_none;
}

const struct tagc_nccl *tagc_real_by_caller(const void *caller) {
  const struct tagc_real_caller *known = recall(caller);
  if (known)
    return known->nccl ? known->nccl : only_one();
  int saved = errno;
  struct tagc_object object;
  bool has_object = tagc_linker_find(caller, &object);
  if (!has_object && copy(0) && !copy(1) && is_kept(copy(0)))
    return copy(0); /* nothing to remember it by, but this avoids a slow search each time */
  void *handle = has_object ? tagc_linker_pin(&object) : NULL;
  const struct tagc_nccl *seen = seen_by(has_object ? &object : NULL, has_object && *object.name ? handle : NULL, true);
  const struct tagc_nccl *nccl = seen ? seen : only_one();
  bool good = nccl != &tagc_real_none && keep_loaded(nccl); /* if it cannot be kept, it still exists for this call */
  const bool remembered = handle && good && !opening && remember_caller(&object, seen);
  if (handle && !remembered)
    dlclose(handle); /* without an NCCL nothing is known of the caller */
  errno = saved;
  return nccl;
}

/* ---- what is missing --------------------------------------------------------------------------------------------- */

int tagc_real_version(const struct tagc_nccl *nccl) {
  int version = 0;
  __typeof__(&ncclGetVersion) get = (__typeof__(&ncclGetVersion))nccl->functions[TAGC_ENTRY_ncclGetVersion];
  return get && TAGC_IN_REAL(get(&version)) == ncclSuccess ? version : 0;
}

void *tagc_real_missing(const struct tagc_nccl *nccl, enum tagc_entry entry) {
  static atomic_flag told[TAGC_ENTRY_COUNT];
  if (atomic_flag_test_and_set(&told[entry]))
    return NULL;
  int saved = errno, version = tagc_real_version(nccl);
  if (version)
    tagc_log(TAGC_LOG_ERROR, "interpose", "%s: the NCCL of this process (%d.%d.%d) does not have it: calls of it fail",
             tagc_real_name(entry), version / 10000, version / 100 % 100, version % 100);
  else
    tagc_log(TAGC_LOG_ERROR, "interpose", "%s: no NCCL library that has it was found for its caller",
             tagc_real_name(entry));
  errno = saved;
  return NULL;
}
