/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/hook.h"

#include <dlfcn.h>
#include <stddef.h>

#include "interpose/real.h"

/* The address of our own function of an entry, through the dynamic symbol table as everybody else sees it. */
static void *own_function(enum tagc_entry entry)
{
  switch (entry) {
#define ENTRY(name) case TAGC_ENTRY_##name: return (void *)&name;
#include "interpose/entries.def"
  default: return NULL;
  }
}

/* An NCCL name of an explicit handle: what the real dlsym finds there is replaced by our function. Another copy of NCCL
 * than the one that is forwarded to is given out as it is: its callers must get their own. */
static void *answer(void *handle, const char *name, enum tagc_entry entry)
{
  void *found = tagc_real_dlsym()(handle, name), *own = own_function(entry);
  if (!found || found == own)
    return found;
  return tagc_real_record(entry, found) ? own : found;
}

TAGC_BEFORE_SANITIZERS struct tagc_hook_answer tagc_hook_dlsym(void *handle, const char *name)
{
  struct tagc_hook_answer jump = {(void *)tagc_real_dlsym(), NULL};
  if (!name || name[0] != 'n' || name[1] != 'c' || name[2] != 'c' || name[3] != 'l' || handle == RTLD_NEXT ||
      handle == RTLD_DEFAULT)
    return jump;
  enum tagc_entry entry = tagc_real_find_entry(name);
  if (entry == TAGC_ENTRY_COUNT)
    return jump;
  void *found = answer(handle, name, entry);
  return found ? (struct tagc_hook_answer){NULL, found} : jump;    /* the jump makes dlerror() say it */
}
