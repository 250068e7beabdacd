/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/nccl/unknown.h"

#include <stdatomic.h>
#include <string.h>

#include "env/log.h"
#include "interpose/nccl/process.h"
#include "interpose/nccl/real.h"

static void add_if_unknown(const char *name, void *list) {
  if (tagc_unknown_is(name))
    tagc_unknown_add(list, name);
}

/* Of each copy; published when it is complete. */
static struct tagc_unknown_list lists[TAGC_NCCL_MAX];
static _Atomic(const char *) found[TAGC_NCCL_MAX];

static void tell_unknown(const struct tagc_nccl *nccl, const char *functions) {
  const int version = tagc_real_version(nccl);
  tagc_log(TAGC_LOG_WARN, "interpose",
           "%s (NCCL %d.%d.%d) has functions that this library does not know: %s. It does not see calls of them: its "
           "steps, its reports and its traces may lack calls. A newer version may know them",
           *nccl->library.name ? nccl->library.name : "this program", version / 10000, version / 100 % 100,
           version % 100, functions);
}

static bool is_second_name(const char *name) { return strncmp(name, "pnccl", 5) == 0; }

/* Second names are for wrappers. A program or a wrapper in front of this library that calls them calls past it. */
static void look_for_second_names(struct tagc_unknown_list *list) {
  struct tagc_importer importer;
  if (!tagc_linker_find_importer(is_second_name, 1, &importer))
    return;
  tagc_log(TAGC_LOG_WARN, "interpose",
           "%s calls %s: NCCL's functions under their second names go past this library, which does not see such calls",
           importer.object, importer.name);
  tagc_unknown_add(list, importer.name);
}

void tagc_unknown_look(const struct tagc_nccl *nccl) {
  struct tagc_unknown_list *list = &lists[nccl->index];
  if (tagc_library_options()->mode == TAGC_MODE_OFF)
    return;
  tagc_linker_visit_exports(&nccl->library, add_if_unknown, list);
  if (*list->text)
    tell_unknown(nccl, list->text);
  look_for_second_names(list);
  if (*list->text)
    atomic_store_explicit(&found[nccl->index], list->text, memory_order_release);
}

const char *tagc_unknown_functions(const struct tagc_nccl *nccl) {
  const char *text = nccl->index < 0 ? NULL : atomic_load_explicit(&found[nccl->index], memory_order_acquire);
  return text ? text : "";
}
