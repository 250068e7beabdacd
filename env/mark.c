/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/mark.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "env/log.h"

/* The file, and the process id before it; NULL: no mark, or a name that tagc-run does not give. */
static const char *read_mark(long *pid) {
  const char *mark = getauxval(AT_SECURE) ? NULL : getenv(TAGC_MARK);
  char *file;
  if (!mark)
    return NULL;
  *pid = strtol(mark, &file, 10);
  const char *name = strrchr(file, '/');
  return file > mark && file[0] == ':' && file[1] == '/' &&
             strncmp(name + 1, TAGC_MARK_PREFIX, sizeof TAGC_MARK_PREFIX - 1) == 0
           ? file + 1
           : NULL;
}

void tagc_mark_remove(void) {
  long pid;
  const char *file = read_mark(&pid);
  if (file)
    unlink(file);
}

void tagc_mark_end_of(long ended) {
  long pid;
  const char *file = read_mark(&pid);
  if (file && pid == ended && unlink(file) == 0)
    tagc_say("tagc: no NCCL call reached the library from this command, or from what it started on this host: nothing "
             "was compressed, and no trace was written. tagc-doctor PROGRAM, or tagc-doctor --python PYTHON, shows if "
             "calls can be seen");
}

void tagc_mark_end(void) { tagc_mark_end_of((long)getpid()); }
