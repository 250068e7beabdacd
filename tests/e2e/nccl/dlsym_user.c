/* SPDX-License-Identifier: BSD-3-Clause
 * A program that is not linked with NCCL. It reaches one or more copies of it in the ways of real programs, makes a
 * communicator in each, and runs equal steps of reduce-scatters in all of them. Results must be exact.
 *
 *   dlsym_user [one] HOW:PATH...
 *
 * load                      dlopen(PATH, RTLD_GLOBAL), and nothing more
 * close                     a plugin is opened, calls NCCL and is closed: the next one may take its place in memory
 * local, global, deepbind   dlopen(PATH) with these flags, then dlsym() for each function, like dlopen stubs and ctypes
 * default                   dlopen(PATH, RTLD_GLOBAL), then dlsym(RTLD_DEFAULT), which must have found nothing before
 * main                      the same through dlopen(NULL)
 * given                     dlsym() through dlopen(NULL), of what nobody opened (TAGC_NCCL=PATH)
 * reopen                    asked for the functions, closed, opened again and asked again
 * namespace                 dlmopen() into a separate namespace
 * plugin, plugin-deepbind   PATH is a library that is linked with NCCL (nccl_plugin.c), opened RTLD_LOCAL
 * tail                      the same, but a jump out of the plugin starts and ends groups
 *
 * With several copies, the group of one must not hold the calls of another. `one`: all ways reach the same copy, and
 * its groups hold all calls.
 */
#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/rendezvous.h"

enum { N = 8192, STEPS = 8, MOST = 6 };

#define FUNCTIONS \
  FUNCTION(ncclGetUniqueId) \
  FUNCTION(ncclCommInitRank) \
  FUNCTION(ncclReduceScatter) \
  FUNCTION(ncclGroupStart) \
  FUNCTION(ncclGroupEnd) \
  FUNCTION(ncclCommDestroy)

struct copy {
  const char *how;
#define FUNCTION(name) __typeof__(&name) name;
  FUNCTIONS
#undef FUNCTION
  ncclComm_t comm;
  float *out;
};

static int fail(const char *what, const char *how) {
  fprintf(stderr, "%s (%s)\n", what, how);
  return 1;
}

static void *find(void *handle, const char *prefix, const char *name) {
  char full[80];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  void *function = dlsym(handle, full);
  const char *error = dlerror();
  if (!function != !!error)
    fprintf(stderr, "%s: dlsym and dlerror disagree: %s\n", full, error ? error : "no error");
  return function && !error ? function : NULL;
}

static bool fill(struct copy *c, void *handle, const char *prefix) {
  bool good = true;
#define FUNCTION(name) \
  c->name = (__typeof__(&name))find(handle, prefix, #name); \
  good &= c->name != NULL;
  FUNCTIONS
#undef FUNCTION
  /* A missing name is still not found, and dlerror() reports it. */
  return good && !dlsym(handle, "ncclNoSuchFunction") && dlerror();
}

static bool is(const char *how, const char *name) { return strcmp(how, name) == 0; }

static bool open_copy(struct copy *c, const char *how, const char *path) {
  bool shown = is(how, "default") || is(how, "main"), plugin = strncmp(how, "plugin", 6) == 0 || is(how, "tail");
  int flags = shown || is(how, "global") ? RTLD_LAZY | RTLD_GLOBAL : RTLD_NOW | RTLD_LOCAL;
  void *library, *program = dlopen(NULL, RTLD_LAZY);
  c->how = how;
  if (strstr(how, "deepbind"))
    flags |= RTLD_DEEPBIND;
  if (shown && (dlsym(RTLD_DEFAULT, "ncclGroupEnd") || !dlerror() || dlsym(program, "ncclGroupEnd") || !dlerror()))
    return fail("NCCL is there before it was loaded", how), false;
  if (is(how, "reopen")) {
    library = dlopen(path, flags);
    if (!library || !fill(c, library, "") || dlclose(library) != 0)
      return fail("cannot be opened and closed", path), false;
  }
  if (is(how, "given"))
    return fill(c, program, "") || (fail("a function is missing", how), false);
  library = is(how, "namespace") ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW) : dlopen(path, flags);
  if (!library)
    return fail(dlerror(), how), false;
  if (is(how, "default"))
    library = RTLD_DEFAULT;
  else if (is(how, "main"))
    library = program;
  if (!fill(c, library, plugin ? "plugin_" : ""))
    return fail("a function is missing", how), false;
  if (is(how, "tail")) {
    c->ncclGroupStart = (__typeof__(&ncclGroupStart))dlsym(library, "tail_ncclGroupStart");
    c->ncclGroupEnd = (__typeof__(&ncclGroupEnd))dlsym(library, "tail_ncclGroupEnd");
  }
  return c->ncclGroupStart && c->ncclGroupEnd;
}

static bool open_and_close(const char *path) {
  struct copy c;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return library && fill(&c, library, "plugin_") && c.ncclGroupStart() == ncclSuccess &&
         c.ncclGroupEnd() == ncclSuccess && dlclose(library) == 0;
}

static bool is_exact(const float *out, int step, const struct rendezvous *r) {
  for (int i = 0; i < N; i++)
    if (out[i] != (i % 64 ? 0 : (float)(r->nranks * (step + (r->rank * N + i) / 64 % 7))))
      return false;
  return true;
}

/* Opens a group in the first copy. The reduce-scatters of the others run at once, unless all are the same copy. */
static int run_step(struct copy *copies, int count, bool one, int step, const float *send, const struct rendezvous *r) {
  struct copy *first = &copies[0];
  for (int i = 0; i < count; i++)
    memset(copies[i].out, 0xff, N * sizeof *copies[i].out);
  if (first->ncclGroupStart() != ncclSuccess)
    return fail("ncclGroupStart", first->how);
  for (int i = 0; i < count; i++) {
    struct copy *c = &copies[i];
    if (c->ncclReduceScatter(send, c->out, N, ncclFloat, ncclSum, c->comm, NULL) != ncclSuccess)
      return fail("ncclReduceScatter", c->how);
    bool held = i == 0 || one;
    if (is_exact(c->out, step, r) == held)
      return fail(held ? "not held by its group" : "held by the group of another copy, or wrong", c->how);
  }
  if (first->ncclGroupEnd() != ncclSuccess)
    return fail("ncclGroupEnd", first->how);
  for (int i = 0; i < count; i++)
    if (!is_exact(copies[i].out, step, r))
      return fail("a wrong sum", copies[i].how);
  return 0;
}

static int run(struct copy *copies, int count, bool one, const struct rendezvous *r) {
  float *send = calloc((size_t)N * (size_t)r->nranks, sizeof *send);
  int bad = 0;
  for (int step = 0; step < STEPS && !bad; step++) {
    for (int i = 0; i < N * r->nranks; i += 64)
      send[i] = (float)(step + i / 64 % 7);
    bad = run_step(copies, count, one, step, send, r);
  }
  free(send);
  return bad;
}

int main(int argc, char **argv) {
  static struct copy copies[MOST];
  ncclUniqueId ids[MOST] = {0};
  struct rendezvous r;
  char why[200];
  int count = 0;
  bool one = argc > 1 && is(argv[1], "one");
  for (int i = 1 + one; i < argc; i++) {
    char *path = strchr(argv[i], ':');
    if (!path || count == MOST)
      return fail("usage: dlsym_user [one] HOW:PATH...", argv[i]);
    *path++ = 0;
    if (is(argv[i], "load")) {
      if (!dlopen(path, RTLD_LAZY | RTLD_GLOBAL))
        return fail(dlerror(), argv[i]);
    } else if (is(argv[i], "close")) {
      if (!open_and_close(path))
        return fail("cannot be opened, used and closed", path);
    } else if (!open_copy(&copies[count++], argv[i], path)) {
      return 1;
    }
  }
  if (!rendezvous_from_env(&r, why, sizeof why))
    return fail(why, "rendezvous");
  for (int i = 0; i < count && r.rank == 0; i++)
    if (copies[i].ncclGetUniqueId(&ids[i]) != ncclSuccess)
      return fail("ncclGetUniqueId", copies[i].how);
  if (!rendezvous_share(&r, ids, sizeof ids, why, sizeof why))
    return fail(why, "rendezvous");
  for (int i = 0; i < count; i++) {
    copies[i].out = calloc(N, sizeof *copies[i].out);
    if (copies[i].ncclCommInitRank(&copies[i].comm, r.nranks, ids[i], r.rank) != ncclSuccess)
      return fail("ncclCommInitRank", copies[i].how);
  }
  int bad = run(copies, count, one, &r);
  for (int i = 0; i < count && !bad; i++) {
    bad = copies[i].ncclCommDestroy(copies[i].comm) != ncclSuccess;
    free(copies[i].out);
  }
  return bad;
}
