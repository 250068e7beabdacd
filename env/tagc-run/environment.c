/* SPDX-License-Identifier: BSD-3-Clause
 * Makes the environment of the command.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env/tagc-run/run.h"
#include "env/program/terminal.h"

extern char **environ;

static const char library_name[] = "libtagc-preload.so";

bool tagc_run_set_options(const struct tagc_run *run) {
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++)
    if (run->values[i]) {
      unsetenv(tagc_option_table[i].variable); /* all of them, if an environment has a name twice */
      if (setenv(tagc_option_table[i].variable, run->values[i], 1) != 0)
        return false;
    }
  return true;
}

/* The entry of our library in a list, of *length bytes, or NULL. */
static const char *find_in_preload(const char *list, size_t *length) {
  for (const char *c = list; *(c += strspn(c, " :")); c += *length) {
    *length = strcspn(c, " :");
    const char *name = c + *length;
    while (name > c && name[-1] != '/')
      name--;
    if ((size_t)(c + *length - name) == sizeof library_name - 1 &&
        memcmp(name, library_name, sizeof library_name - 1) == 0)
      return c;
  }
  return NULL;
}

/* True if this entry of LD_PRELOAD exists. Without a slash the dynamic linker searches for it: true. */
static bool is_there(const char *entry, size_t length) {
  char path[PATH_MAX];
  return !memchr(entry, '/', length) || length >= sizeof path ||
         (snprintf(path, sizeof path, "%.*s", (int)length, entry), access(path, R_OK) == 0);
}

int tagc_run_set_preload(const struct tagc_run *run, const char *library) {
  const char *list = getenv("LD_PRELOAD");
  list = list ? list : "";
  size_t length = 0;
  const char *there = find_in_preload(list, &length);
  if (there && !run->no_check && !is_there(there, length))
    return tagc_fail("tagc-run", run->force ? TAGC_RUN_GO : TAGC_RUN_FAILED,
                     "LD_PRELOAD names %.*s, which cannot be read: %s; take it out, and %s is used", (int)length, there,
                     strerror(errno), library);
  if (there && strlen(library) == length && memcmp(library, there, length) == 0)
    return TAGC_RUN_GO;
  if (there)
    return tagc_fail("tagc-run", TAGC_RUN_GO, "LD_PRELOAD names %.*s already: that one is used, not %s", (int)length,
                     there, library);
  if (strpbrk(library, " :"))
    return tagc_fail("tagc-run", TAGC_RUN_FAILED,
                     "%s has a space or a colon in its path, and LD_PRELOAD cannot name "
                     "such a file; move the library or its folder",
                     library);
  char *both = malloc(strlen(list) + strlen(library) + 2);
  if (both)
    sprintf(both, "%s%s%s", list, *list ? ":" : "", library);
  if (!both || setenv("LD_PRELOAD", both, 1) != 0)
    return tagc_fail("tagc-run", TAGC_RUN_FAILED, "no memory");
  free(both);
  return TAGC_RUN_GO;
}

/* NAME='value': inside single quotes a shell takes everything literally but a single quote. */
static void print_variable(const char *variable) {
  size_t name = strcspn(variable, "=");
  printf("export %.*s='", (int)name, variable);
  for (const char *c = variable + name + 1; *c; c++)
    if (*c == '\'')
      fputs("'\\''", stdout);
    else
      putchar(*c);
  puts("'");
}

static bool is_variable_name(const char *variable) {
  size_t length = strspn(variable, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_abcdefghijklmnopqrstuvwxyz");
  return variable[length] == '=';
}

void tagc_run_print(void) {
  for (char **e = environ; e && *e; e++)
    if ((strncmp(*e, "TAGC_", 5) == 0 || strncmp(*e, "LD_PRELOAD=", 11) == 0) && is_variable_name(*e))
      print_variable(*e);
}
