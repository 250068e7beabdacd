/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/linker.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>

/* The version that every C library for this machine has, be it to run what was built long ago. To ask for one that is not
 * there would allocate the text for dlerror(): a malloc that is preloaded, and looks for the next one by dlsym, would come
 * back here for ever. */
#if defined __x86_64__
#define BASELINE "GLIBC_2.2.5"
#elif defined __aarch64__
#define BASELINE "GLIBC_2.17"
#endif

TAGC_BEFORE_SANITIZERS tagc_dlsym_function *tagc_linker_dlsym(void)
{
  static _Atomic(tagc_dlsym_function *) known;
  tagc_dlsym_function *found = atomic_load_explicit(&known, memory_order_relaxed);
  if (found)
    return found;
  /* By version: dlvsym passes over those of other preloaded libraries, which have none. */
  found = (tagc_dlsym_function *)dlvsym(RTLD_NEXT, "dlsym", BASELINE);
  atomic_store_explicit(&known, found, memory_order_relaxed);
  return found;
}

TAGC_BEFORE_SANITIZERS tagc_dlsym_function *tagc_linker_next_dlsym(void)
{
  static _Atomic(tagc_dlsym_function *) known;
  tagc_dlsym_function *found = atomic_load_explicit(&known, memory_order_relaxed);
  if (found)
    return found;
  found = (tagc_dlsym_function *)tagc_linker_dlsym()(RTLD_NEXT, "dlsym");
  atomic_store_explicit(&known, found, memory_order_relaxed);
  return found;
}

TAGC_BEFORE_SANITIZERS tagc_dlopen_function *tagc_linker_next_dlopen(void)
{
  static _Atomic(tagc_dlopen_function *) known;
  tagc_dlopen_function *found = atomic_load_explicit(&known, memory_order_relaxed);
  if (found)
    return found;
  found = (tagc_dlopen_function *)tagc_linker_dlsym()(RTLD_NEXT, "dlopen");
  atomic_store_explicit(&known, found, memory_order_relaxed);
  return found;
}

struct search {
  uintptr_t address;
  struct tagc_object *found;
  bool past_us;                     /* this library has been visited */
};

static void span(const struct dl_phdr_info *info, uintptr_t *low, uintptr_t *high)
{
  *low = UINTPTR_MAX;
  *high = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    uintptr_t begins = info->dlpi_addr + segment->p_vaddr, ends = begins + segment->p_memsz;
    if (segment->p_type != PT_LOAD)
      continue;
    *low = begins < *low ? begins : *low;
    *high = ends > *high ? ends : *high;
  }
}

/* Objects come in the order in which they were loaded: the program, what is preloaded, everything else. */
static int visit(struct dl_phdr_info *info, size_t size, void *argument)
{
  struct search *search = argument;
  uintptr_t low, high, us = (uintptr_t)&tagc_linker_find;
  (void)size;
  span(info, &low, &high);
  if (low <= search->address && search->address < high) {
    *search->found = (struct tagc_object){low, high, info->dlpi_name ? info->dlpi_name : "", !search->past_us};
    return 1;
  }
  search->past_us |= low <= us && us < high;
  return 0;
}

bool tagc_linker_find(const void *address, struct tagc_object *object)
{
  struct search search = {(uintptr_t)address, object, false};
  return dl_iterate_phdr(visit, &search) == 1;
}

void *tagc_linker_pin(const struct tagc_object *object)
{
  return dlopen(*object->name ? object->name : NULL, RTLD_LAZY | RTLD_NOLOAD);
}
