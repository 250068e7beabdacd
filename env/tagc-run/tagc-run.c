/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-run: starts a command with libtagc-preload.so in front of NCCL. See tagc-run(1).
 *
 * It becomes the command (exec), so that signals, exit status and process id are the command's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/mark.h"
#include "env/place.h"
#include "env/program/output.h"
#include "env/program/terminal.h"
#include "env/tagc-run/run.h"
#include "interpose/policy/option_check.h"

extern char **environ;

#define FAIL(status, ...) tagc_fail("tagc-run", status, __VA_ARGS__)

/* -- values: always checked, since no machine accepts bad ones ----------------------------------------------------- */

/* Reads all TAGC_ variables as the library will. False: the library would refuse one. */
static bool read_tagc_variables(struct tagc_options *options) {
  char why[TAGC_OPTION_WHY];
  bool good = true;
  tagc_options_default(options);
  for (char **e = environ; e && *e; e++) {
    enum tagc_options_taken taken = tagc_options_take(options, environ, *e, why, sizeof why);
    if (taken != TAGC_TAKEN && taken != TAGC_TAKEN_NOT_OURS)
      FAIL(0, "%s", why);
    good &= taken != TAGC_TAKEN_REFUSED;
  }
  for (int i = 0; i < TAGC_OPTION_COUNT; i++)
    if (!tagc_option_check(options, (enum tagc_option_index)i, why))
      good = FAIL(false, "%s", why);
  return good;
}

/* -- this machine: files and the program --------------------------------------------------------------------------- */

/* True if files with this prefix can be made. A folder is taken for a slip: files would lie beside it, or have names
 * that begin with a dash. */
static bool check_prefix(const char *variable, const char *prefix) {
  struct stat whole;
  if (stat(prefix, &whole) == 0 && S_ISDIR(whole.st_mode)) {
    int length = (int)strlen(prefix);
    while (length > 1 && prefix[length - 1] == '/')
      length--;
    return FAIL(false, "%s=%s: this is a folder, not the beginning of file names; for files in it write %.*s/run",
                variable, prefix, prefix[length - 1] == '/' ? 0 : length, prefix);
  }
  const char *slash = strrchr(prefix, '/');
  char *folder = slash ? strndup(prefix, (size_t)(slash - prefix) + 1) : strdup(".");
  struct stat status;
  errno = folder && stat(folder, &status) == 0 && !S_ISDIR(status.st_mode) ? ENOTDIR : 0;
  bool good = folder && !errno && access(folder, W_OK | X_OK) == 0;
  if (!good)
    FAIL(0, "%s=%s: no file can be made in the folder %s: %s", variable, prefix, folder ? folder : "", strerror(errno));
  free(folder);
  return good;
}

static bool check_input(enum tagc_option_index i, const char *path) {
  char why[TAGC_OPTION_WHY];
  const char *variable = tagc_option_table[i].variable;
  if (i == TAGC_OPTION_layermap)
    return tagc_option_map_is_good(path, why) || FAIL(false, "%s", why);
  if (!strchr(path, '/') || access(path, R_OK) == 0) /* without a slash the dynamic linker searches for it */
    return true;
  return FAIL(false, "%s=%s: %s", variable, path, strerror(errno));
}

static bool check_files(const struct tagc_options *options) {
  bool good = true;
  for (int i = 0; i < TAGC_OPTION_COUNT; i++) {
    const struct tagc_option *o = &tagc_option_table[i];
    const bool counts = options->mode != TAGC_MODE_OFF || i == TAGC_OPTION_nccl; /* all calls go there, in any mode */
    if (!counts || (o->kind != TAGC_OPTION_INPUT && o->kind != TAGC_OPTION_OUTPUT))
      continue;
    const char *path = *(const char *const *)((const char *)options + o->offset);
    if (*path && !(i == TAGC_OPTION_layermap && tagc_options_have_no_map(options)))
      good &=
        o->kind == TAGC_OPTION_INPUT ? check_input((enum tagc_option_index)i, path) : check_prefix(o->variable, path);
  }
  return good;
}

/* Runs tagc-doctor if it is installed beside this program. False: it reported on stderr that this will not work. Its
 * stdout says why it cannot tell, as of every script: that is nobody's problem. */
static bool check_program(const char *self, char *program) {
  char doctor[PATH_MAX + 16];
  char *arguments[] = {doctor, "--quick", "--", program, NULL};
  posix_spawn_file_actions_t silent;
  pid_t child;
  int status;
  snprintf(doctor, sizeof doctor, "%s/tagc-doctor", self);
  if (access(doctor, X_OK) != 0)
    return true;
  void (*saved)(int) = signal(SIGCHLD, SIG_DFL); /* or its end would stay unnoticed */
  posix_spawn_file_actions_init(&silent);
  posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  if (posix_spawn(&child, doctor, &silent, NULL, arguments, environ) != 0)
    child = -1;
  posix_spawn_file_actions_destroy(&silent);
  while (child > 0 && waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      child = -1;
  signal(SIGCHLD, saved);
  return child < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 1;
}

static int check_machine(const struct tagc_run *run, const struct tagc_options *options, const char *self) {
  if (run->no_check)
    return TAGC_RUN_GO;
  bool good = check_files(options);
  if (*run->command && !check_program(self, run->command[0]))
    good = false;
  if (good || run->force)
    return TAGC_RUN_GO;
  return FAIL(TAGC_RUN_FAILED, "nothing was started; --force starts it all the same, --no-check does not look");
}

/* -- main ---------------------------------------------------------------------------------------------------------- */

static int find_preload_library(const char *self, char library[PATH_MAX]) {
  const char *how;
  if (tagc_place_library(self, BINDIR, PRELOADDIR, library, &how))
    return TAGC_RUN_GO;
  return FAIL(TAGC_RUN_FAILED, "libtagc-preload.so is neither beside this program, in %s, nor in %s", self, PRELOADDIR);
}

/* Does this process, and so the command, become the parent of orphans? */
static bool takes_orphans(void) {
  int reaper = 0;
  return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &reaper) == 0 && reaper);
}

/* Leaves a process behind that waits for the end of this one, the command by then. It is not the command's child, which
 * may wait for all it has. No signal that a terminal or a job manager sends to the group of the command ends it. */
static void leave_watcher(void) {
  const long watched = (long)getpid();
  const int end = (int)syscall(SYS_pidfd_open, watched, 0);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  const pid_t child = end < 0 ? -1 : fork();
  if (child == 0) {
    if (fork() != 0)
      _exit(0);
    struct pollfd wait = {.fd = end, .events = POLLIN};
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    while (poll(&wait, 1, -1) < 0 && errno == EINTR)
      ;
    tagc_mark_end_of(watched);
    _exit(0);
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
    ;
  if (end >= 0)
    close(end);
}

/* Marks the job, so that at its end the library can say if no NCCL call was made. Without the file it cannot. Under
 * another tagc-run its mark serves. */
static void mark(const struct tagc_options *options) {
  const char *folder = getenv("TMPDIR");
  char file[PATH_MAX], value[PATH_MAX + 24];
  if (getenv(TAGC_MARK) || options->mode == TAGC_MODE_OFF || options->report == TAGC_REPORT_NEVER)
    return;
  snprintf(file, sizeof file, "%s/" TAGC_MARK_PREFIX "XXXXXX", folder && *folder == '/' ? folder : "/tmp");
  const int made = mkstemp(file);
  if (made < 0)
    return;
  close(made);
  snprintf(value, sizeof value, "%ld:%s", (long)getpid(), file);
  if (setenv(TAGC_MARK, value, 1) == 0 && !takes_orphans())
    leave_watcher();
}

static int start(char **command) {
  execvp(command[0], command);
  const int why = errno;
  tagc_mark_remove();
  errno = why;
  return FAIL(errno == ENOENT ? TAGC_RUN_NOT_FOUND : TAGC_RUN_NOT_EXECUTABLE, "%s: %s", command[0], strerror(errno));
}

static int finish_output(void) {
  const int error = tagc_output_flush(stdout);
  return error ? FAIL(TAGC_RUN_FAILED, "cannot write: %s", strerror(error)) : 0;
}

int main(int argc, char **argv) {
  (void)argc;
  static struct tagc_run run;
  static struct tagc_options options;
  char self[PATH_MAX], library[PATH_MAX];
  int status = tagc_run_parse(&run, argv);
  if (status != TAGC_RUN_GO)
    return status ? status : finish_output();
  tagc_place_self(self);
  if (!tagc_run_set_options(&run))
    return FAIL(TAGC_RUN_FAILED, "no memory");
  if (!read_tagc_variables(&options))
    return TAGC_RUN_USAGE;
  if ((status = find_preload_library(self, library)) != TAGC_RUN_GO ||
      (status = check_machine(&run, &options, self)) != TAGC_RUN_GO ||
      (status = tagc_run_set_preload(&run, library)) != TAGC_RUN_GO)
    return status;
  if (!run.print) {
    mark(&options);
    return start(run.command);
  }
  tagc_run_print();
  return finish_output();
}
