/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-doctor: will interception work here, and if not, why? See tagc-doctor(1).
 *
 * It reads files and /proc. It runs only the interpreter of --python, and NCCL with --run-nccl.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/program/command_line.h"
#include "env/place.h"
#include "env/program/output.h"
#include "env/program/terminal.h"
#include "interpose/tagc-doctor/doctor.h"

extern char **environ;

struct request {
  const char *target, *python; /* python: the target is an interpreter */
  bool json, run_nccl, quick;
};

#define TO(type, field) .kind = TAGC_ARGUMENT_##type, .offset = offsetof(struct request, field)
/* clang-format off */
static const struct tagc_argument rows[] = {
  {.name = "python", .value = "PYTHON", TO(FILE, python),
   .help = "the torch and jaxlib of this interpreter, which tells their places"},
  {.name = "run-nccl", TO(FLAG, run_nccl),
   .help = "also load the NCCL library that was found, and call ncclGetVersion()"},
  {.name = "json", TO(FLAG, json), .help = "print one JSON document"},
  {.name = "quick", TO(FLAG, quick), .help = "for scripts, and tagc-run: silent if interception will work"},
};
/* clang-format on */

static const struct tagc_command_line command_line = {
  .program = "tagc-doctor",
  .head = "usage: tagc-doctor [--json] [--run-nccl] PROGRAM | LIBRARY | PID\n"
          "       tagc-doctor [--json] [--run-nccl] --python PYTHON\n"
          "       tagc-doctor --quick PROGRAM\n"
          "Says whether libtagc-preload.so will intercept the NCCL calls of a program, and if not, why.\n"
          "\n"
          "  PROGRAM          a program or script, on PATH if it has no slash; it is read, not run\n"
          "  LIBRARY          a shared library: libtorch_cuda.so, a plugin\n"
          "  PID              a running process\n",
  .tail =
    "\n"
    "Exit status: 0 it will work; 1 it will not, or nothing will be compressed; 2 it cannot tell, or wrong usage.\n",
  .indent = 19,
  .rows = rows,
  .count = sizeof rows / sizeof *rows,
};

#define FAIL(...) tagc_fail(command_line.program, TAGC_DIAGNOSIS_UNKNOWN, __VA_ARGS__)

/* -1: go on; otherwise the exit status. */
static int parse(char **argv, struct request *request) {
  const int status = tagc_command_line_parse(&command_line, argv, request, stdout);
  if (status >= 0)
    return status;
  char **word = argv + 1;
  request->target = request->python ? request->python : *word ? *word++ : "";
  if (*word)
    return tagc_refuse(&command_line, "one target at a time, not also %s", *word);
  if (request->quick && (request->json || request->python || request->run_nccl))
    return tagc_refuse(&command_line, "--quick stands alone, with a program");
  if (!*request->target)
    return tagc_refuse(&command_line, "nothing to examine: give a program, a library, a process id or --python");
  return -1;
}

/* In a separate process: a library that crashes, or prints, affects only that. */
static int run_version(const char *path) {
  int ends[2], version = 0;
  if (pipe(ends) != 0)
    return 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*function)(int *) = NULL;
    if (library)
      *(void **)&function = dlsym(library, "ncclGetVersion");
    if (!function || function(&version) != 0 || write(ends[1], &version, sizeof version) != sizeof version)
      _exit(1);
    _exit(0);
  }
  close(ends[1]);
  if (child > 0) {
    if (read(ends[0], &version, sizeof version) != sizeof version)
      version = 0;
    waitpid(child, NULL, 0);
  }
  close(ends[0]);
  return version;
}

/* The index of the object that TAGC_NCCL names, or -1. Without a slash, the dynamic linker takes the one of that name
 * that is there already, or searches for it. */
static int add_chosen_nccl(struct tagc_findings *f, const char *chosen) {
  char found[PATH_MAX + 64];
  const char *how;
  if (strchr(chosen, '/'))
    return tagc_path_to_read(f, chosen, found, sizeof found) ? tagc_walk_add(&f->walk, chosen, found, "TAGC_NCCL", -1)
                                                             : -1;
  const int there = tagc_walk_named(&f->walk, chosen);
  if (there >= 0)
    return there;
  errno = ENOENT;
  if (!tagc_walk_look_up(&f->walk, chosen, f->walk.count ? 0 : -1, found, sizeof found, &how))
    return -1;
  return tagc_walk_add(&f->walk, found, found, "TAGC_NCCL", -1);
}

/* Finds NCCL libraries that no object needs by name: that of TAGC_NCCL, and those that programs open themselves. */
static void find_more_nccl(struct tagc_findings *f) {
  char found[PATH_MAX + 64];
  const char *how, *chosen = f->options.nccl;
  int asks = tagc_walk_first(&f->walk, TAGC_ROLE_ASKS);
  if (*chosen && (f->chosen_nccl = add_chosen_nccl(f, chosen)) < 0)
    tagc_findings_note(f, "TAGC_NCCL=%s cannot be read: %s", chosen, strerror(errno));
  if (f->kind == TAGC_KIND_PROCESS || asks < 0 || tagc_walk_first(&f->walk, TAGC_ROLE_NCCL) >= 0 ||
      tagc_walk_first(&f->walk, TAGC_ROLE_RCCL) >= 0)
    return;
  if (tagc_walk_look_up(&f->walk, "libnccl.so.2", asks, found, sizeof found, &how))
    tagc_walk_add(&f->walk, found, found, how, asks);
  else
    tagc_findings_note(f, "libnccl.so.2 is not in the folders of the dynamic linker; "
                          "the program may know another place");
}

static void ask_version(struct tagc_findings *f) {
  char path[PATH_MAX + 64];
  int nccl = tagc_walk_first(&f->walk, TAGC_ROLE_NCCL);
  if (nccl >= 0 && tagc_path_to_read(f, f->walk.objects[nccl].path, path, sizeof path))
    f->run_version = run_version(path);
  if (!f->run_version)
    tagc_findings_note(f, "--run-nccl: %s",
                       nccl < 0 ? "no NCCL library was found" : "ncclGetVersion() could not be called");
}

static bool is_pid(const char *target, int *pid) {
  size_t length = strlen(target);
  if (!length || length > 9 || strspn(target, "0123456789") != length)
    return false;
  *pid = atoi(target);
  return true;
}

static void run_examination(struct tagc_findings *f, const struct request *request) {
  char **environment = environ, self[PATH_MAX];
  tagc_place_self(self);
  f->given = request->target;
  f->kind = request->python                                       ? TAGC_KIND_PYTHON
            : !request->quick && is_pid(request->target, &f->pid) ? TAGC_KIND_PROCESS
                                                                  : TAGC_KIND_PROGRAM;
  bool found = f->kind == TAGC_KIND_PYTHON    ? tagc_find_python(f, environment)
               : f->kind == TAGC_KIND_PROCESS ? tagc_find_process(f, &environment)
                                              : tagc_find_file(f, environment);
  tagc_find_variables(f, environment);
  tagc_find_library(f, environment, self, BINDIR, PRELOADDIR);
  if (found) {
    find_more_nccl(f);
    if (request->run_nccl)
      ask_version(f);
  }
  tagc_find_nccl_files(f, environment);
  if (!request->quick) {
    tagc_find_gpu(f);
    tagc_find_interfaces(f, environment);
  }
  tagc_judge(f);
}

/* Prints what matters before a start, and decides about it. A launcher may be static (kubectl, micromamba): if it holds
 * no NCCL, its children may still be intercepted. */
static int report_quick(const struct tagc_findings *f) {
  const bool launches = f->walk.count && tagc_image_is_static(&f->walk.objects[0].image) &&
                        tagc_walk_first(&f->walk, TAGC_ROLE_CONTAINS) < 0;
  if (f->diagnosis == TAGC_DIAGNOSIS_UNKNOWN) { /* no problem: tagc-run starts scripts and Python without a word */
    tagc_put_tamed(stdout, f->words);
    putchar('\n');
  }
  if (f->diagnosis != TAGC_DIAGNOSIS_FAILS)
    return (int)f->diagnosis;
  if (launches)
    return FAIL("%s is linked statically, so nothing is intercepted in it; it holds no NCCL, and programs that it "
                "starts may be",
                f->path);
  FAIL("%s", f->words);
  return f->intercepted ? TAGC_DIAGNOSIS_UNKNOWN : TAGC_DIAGNOSIS_FAILS;
}

static int run(const struct request *request) {
  struct tagc_findings *findings = calloc(1, sizeof *findings);
  const char *library_path = tagc_environment_value(environ, "LD_LIBRARY_PATH"),
             *no_colour = tagc_environment_value(environ, "NO_COLOR");
  if (!findings || !tagc_walk_start(&findings->walk, library_path))
    return FAIL("no memory");
  run_examination(findings, request);
  if (request->quick)
    return report_quick(findings);
  if (request->json)
    tagc_report_json(findings, stdout);
  else
    tagc_report_text(findings, stdout, isatty(STDOUT_FILENO) && !(no_colour && *no_colour));
  return (int)findings->diagnosis;
}

int main(int argc, char **argv) {
  (void)argc;
  struct request request = {0};
  int status = parse(argv, &request);
  if (status < 0)
    status = run(&request);
  const int error = tagc_output_flush(stdout);
  return error ? FAIL("cannot write: %s", strerror(error)) : status;
}
