/* SPDX-License-Identifier: BSD-3-Clause
 * Where a Python interpreter would find torch, jaxlib and NCCL. Runs it to ask for the packages' places, without
 * imports.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/tagc-doctor/doctor.h"

enum { ANSWER_MAX = 64 << 10 };

/* Excludes the current folder: a script elsewhere would not import from it. */
static char question[] =
  "import sys\n"
  "sys.path[:] = [p for p in sys.path if p]\n"
  "import glob, importlib.util, os\n"
  "def places(name):\n"
  "  try:\n"
  "    spec = importlib.util.find_spec(name)\n"
  "  except (ImportError, ValueError, AttributeError):\n"
  "    return []\n"
  "  if spec is None:\n"
  "    return []\n"
  "  return list(spec.submodule_search_locations or [os.path.dirname(spec.origin or '')])\n"
  "def place(name):\n"
  "  return (places(name) + [''])[0]\n"
  "def version(name):\n"
  "  try:\n"
  "    from importlib import metadata\n"
  "    return metadata.version(name)\n"
  "  except Exception:\n"
  "    return ''\n"
  "answers = [('executable', os.path.realpath(sys.executable)), ('version', sys.version.split()[0]),\n"
  "           ('torch', place('torch')), ('torch_version', version('torch')), ('nccl', place('nvidia.nccl')),\n"
  "           ('jaxlib', place('jaxlib')), ('jaxlib_version', version('jaxlib'))]\n"
  "for folder in places('jax_plugins'):\n"
  "  for plugin in ('xla_cuda_plugin.so', 'xla_rocm_plugin.so'):\n"
  "    answers += [('jax_plugin', f) for f in sorted(glob.glob(os.path.join(glob.escape(folder), '*', plugin)))]\n"
  "for name, value in answers:\n"
  "  sys.stdout.buffer.write(('tagc:%s=%s\\n' % (name, value)).encode('utf-8', 'surrogateescape'))\n";

/* Runs the interpreter and writes its output to `answer`. Returns its exit status; -1 with errno set: did not run. */
static int ask_python(const char *python, char *const *environment, char *answer) {
  int ends[2], status;
  pid_t child;
  if (pipe2(ends, O_CLOEXEC) != 0)
    return -1;
  posix_spawn_file_actions_t actions;
  char dash_c[] = "-c", *arguments[] = {(char *)python, dash_c, question, NULL};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  int wrong = posix_spawnp(&child, python, &actions, NULL, arguments, environment);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  size_t used = 0;
  ssize_t n;
  char rest[4096];
  /* Reads beyond the limit, too, so that the interpreter is not blocked. */
  while (!wrong && (n = used < ANSWER_MAX ? read(ends[0], answer + used, ANSWER_MAX - used)
                                          : read(ends[0], rest, sizeof rest)) > 0)
    used += used < ANSWER_MAX ? (size_t)n : 0;
  answer[used] = '\0';
  close(ends[0]);
  if (wrong) {
    errno = wrong;
    return -1;
  }
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void take(const char *answer, const char *name, char *value, size_t size) {
  char key[32];
  int n = snprintf(key, sizeof key, "tagc:%s=", name);
  const char *at = strstr(answer, key);
  if (at && (at == answer || at[-1] == '\n'))
    snprintf(value, size, "%.*s", (int)strcspn(at + n, "\n"), at + n);
}

/* Adds a file of a package; false: it does not exist. */
static bool add_file(struct tagc_findings *f, const char *path, const char *how) {
  if (access(path, F_OK) != 0)
    return false;
  if (tagc_walk_add(&f->walk, path, path, how, -1) < 0)
    tagc_findings_note(f, "%s cannot be read (%s)", path, strerror(errno));
  return true;
}

static bool add_library(struct tagc_findings *f, const char *folder, const char *name, const char *how) {
  char path[PATH_MAX + 64];
  return *folder && (size_t)snprintf(path, sizeof path, "%s/lib/%s", folder, name) < sizeof path &&
         add_file(f, path, how);
}

static void find_libraries(struct tagc_findings *f) {
  bool cuda = add_library(f, f->python.torch, "libtorch_cuda.so", "torch");
  bool rocm = add_library(f, f->python.torch, "libtorch_hip.so", "torch");
  add_library(f, f->python.torch, "libtorch_python.so", "torch");
  bool jax = f->python.jaxlib[0] && add_file(f, f->python.jax_plugin, "a plugin of jax");
  f->python.no_gpu = !cuda && !rocm && !jax;
  tagc_walk_needed(&f->walk);
  /* torch itself opens libraries of the nvidia packages that the dynamic linker would not find. */
  if (!rocm && tagc_walk_first(&f->walk, TAGC_ROLE_NCCL) < 0 && tagc_walk_count(&f->walk, TAGC_ROLE_CALLS) &&
      add_library(f, f->python.nccl, "libnccl.so.2", "the nvidia-nccl package"))
    tagc_walk_needed(&f->walk);
}

bool tagc_find_python(struct tagc_findings *f, char *const *environment) {
  char *answer = malloc(ANSWER_MAX + 1);
  int status = answer ? ask_python(f->given, environment, answer) : -1;
  if (status != 0) {
    snprintf(f->path, sizeof f->path, "%s", f->given);
    if (status < 0)
      tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "%s cannot be run: %s", f->given, strerror(errno));
    else
      tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "%s did not answer (exit status %d): is it a Python 3?", f->given,
                         status);
    free(answer);
    return false;
  }
  take(answer, "executable", f->python.executable, sizeof f->python.executable);
  take(answer, "version", f->python.version, sizeof f->python.version);
  take(answer, "torch", f->python.torch, sizeof f->python.torch);
  take(answer, "torch_version", f->python.torch_version, sizeof f->python.torch_version);
  take(answer, "nccl", f->python.nccl, sizeof f->python.nccl);
  take(answer, "jaxlib", f->python.jaxlib, sizeof f->python.jaxlib);
  take(answer, "jaxlib_version", f->python.jaxlib_version, sizeof f->python.jaxlib_version);
  take(answer, "jax_plugin", f->python.jax_plugin, sizeof f->python.jax_plugin);
  free(answer);
  if (!f->python.executable[0]) {
    snprintf(f->path, sizeof f->path, "%s", f->given);
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "%s did not answer: is it a Python 3?", f->given);
    return false;
  }
  const char *given = f->given;
  f->given = f->python.executable;
  bool found = tagc_find_file(f, environment);
  f->given = given;
  if (!found)
    return false;
  if (f->python.torch[0] || f->python.jaxlib[0])
    find_libraries(f);
  return true;
}
