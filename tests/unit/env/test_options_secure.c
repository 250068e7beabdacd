/* SPDX-License-Identifier: BSD-3-Clause
 * env/options in a program with more rights than its caller: it ignores all TAGC_ variables. A copy of this program
 * with another owner and that owner's rights (setuid) reports the options that it has read. Only root can make one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "env/log.h"
#include "env/options.h"
#include "tests/unit/tap.h"

enum { NOBODY = 65534, SECURE = 64, BAD = 1, DEFAULTS = 2, NONBLOCKING = 4 };

/* The options that were read, as an exit status. */
static int report(void) {
  static struct tagc_options read, preset;
  tagc_log_set_level(-1);
  tagc_options_read_process(&read);
  tagc_options_default(&preset);
  return (getauxval(AT_SECURE) ? SECURE : 0) | (read.bad ? BAD : 0) | (read.nccl_blocking == 0 ? NONBLOCKING : 0) |
         (read.mode == preset.mode && !*read.nccl && !read.given ? DEFAULTS : 0);
}

static bool copy_self(const char *path) {
  char block[65536];
  int from = open("/proc/self/exe", O_RDONLY), to = open(path, O_WRONLY | O_CREAT | O_EXCL, 0700);
  ssize_t n;
  while ((n = read(from, block, sizeof block)) > 0 && write(to, block, (size_t)n) == n)
    ;
  bool good = n == 0 && from >= 0 && to >= 0 && fchown(to, NOBODY, NOBODY) == 0 && fchmod(to, 04755) == 0;
  close(from);
  close(to);
  return good;
}

/* Runs a program with options that try to control it. Returns its exit status. */
static int run(const char *program) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    setenv("TAGC_MODE", "observe", 1);
    setenv("TAGC_NCCL", "/tmp/evil.so", 1);
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    execl(program, program, "report", (char *)NULL);
    _exit(127);
  }
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
    return 127;
  return WEXITSTATUS(status);
}

int main(int argc, char **argv) {
  char folder[] = "/tmp/tagc-secure.XXXXXX", copy[sizeof folder + 8];
  if (argc > 1 && strcmp(argv[1], "report") == 0)
    return report();
  ok(run("/proc/self/exe") == NONBLOCKING, "an ordinary process reads its options");
  if (geteuid() != 0) {
    skip("a setuid program ignores TAGC_*", "only root can make one");
    return tap_done();
  }
  if (!mkdtemp(folder) || chmod(folder, 0755) != 0)
    return 1;
  snprintf(copy, sizeof copy, "%s/report", folder);
  bool copied = copy_self(copy);
  int status = copied ? run(copy) : 0;
  if (copied && !(status & SECURE))
    skip("a setuid program ignores TAGC_*", "/tmp is mounted nosuid, or this process may gain no rights");
  else
    ok(status == (SECURE | BAD | DEFAULTS | NONBLOCKING), "a setuid program ignores TAGC_*, and passes calls through");
  unlink(copy);
  rmdir(folder);
  return tap_done();
}
