/* SPDX-License-Identifier: BSD-3-Clause
 * Work on the same memory must be ordered. Every allocation remembers the last accesses to its bytes. New work is
 * ordered after those if its clock says so: by its stream, by events, or because the host has waited. The check uses
 * enqueue order, not run time: it finds a missing dependency even in a run without a wrong result.
 */
#include "tests/standin/cuda/driver.h"

#include <stdlib.h>

static bool overlap(const struct touch *touch, const struct access *access) {
  return touch->begin < access->end && access->begin < touch->end;
}

/* Work after the new access is also after the old one, so remembering the new one is enough. */
static bool replaces(const struct access *access, const struct touch *old, const struct clock *clock) {
  return access->begin <= old->begin && old->end <= access->end && (access->writes || !old->writes) &&
         clock->at[old->slot] >= old->sequence;
}

static void check(struct allocation *a, const struct task *task, const struct access *access,
                  const struct clock *clock) {
  for (unsigned i = 0; i < a->count; i++) {
    const struct touch *t = &a->touches[i];
    if (overlap(t, access) && (t->writes || access->writes) && clock->at[t->slot] < t->sequence)
      standin_die("'%s' %s bytes %zu to %zu of a buffer of %zu, without being in order after '%s' on another stream, "
                  "which %s them",
                  task->name, access->writes ? "writes" : "reads", (size_t)(access->begin - a->begin),
                  (size_t)(access->end - a->begin), a->size, t->name, t->writes ? "writes" : "reads");
  }
}

/* A read does not replace a read of another stream: a write that follows must be after both. */
static void remember(struct allocation *a, const struct touch *touch, const struct access *access,
                     const struct clock *clock) {
  unsigned kept = 0;
  for (unsigned i = 0; i < a->count; i++) {
    const struct touch *old = &a->touches[i];
    if (!replaces(access, old, clock))
      a->touches[kept++] = *old;
  }
  struct touch *touches = realloc(a->touches, (kept + 1) * sizeof *touches);
  if (!touches)
    standin_die("no memory for the order of work");
  a->touches = touches;
  a->touches[kept] = *touch;
  a->count = kept + 1;
}

void standin_check_order(const struct task *task, const struct clock *clock, unsigned slot) {
  for (unsigned i = 0; i < task->accesses; i++) {
    const struct access *access = &task->access[i];
    struct allocation *a = standin_allocation(access->begin);
    if (!a && !standin_is_device_address(access->begin))
      continue; /* pageable memory of the host */
    if (!a || a->freed || access->end > a->begin + a->size)
      standin_die("'%s' works on device memory at %#lx, %s", task->name, (unsigned long)access->begin,
                  a && a->freed ? "which was freed" : "which belongs to no buffer");
    if (standin_settings()->order)
      check(a, task, access, clock);
  }
  for (unsigned i = 0; i < task->accesses && standin_settings()->order; i++) {
    const struct access *access = &task->access[i];
    struct allocation *a = standin_allocation(access->begin);
    struct touch touch = {access->begin, access->end, access->writes, slot, clock->at[slot], task->name};
    if (a)
      remember(a, &touch, access, clock);
  }
}
