/* SPDX-License-Identifier: BSD-3-Clause
 * A running process, from /proc: its maps, and the environment that it was started with. Its files are read through
 * /proc/PID/root, as they may be those of a container.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/tagc-doctor/doctor.h"

enum { MAPS_MAX = 16 << 20, ENVIRONMENT_MAX = 4 << 20 };

static bool say_no(struct tagc_findings *f, const char *file, int error) {
  if (error == EACCES || error == EPERM)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN,
                       "/proc/%d/%s may not be read (%s): run tagc-doctor as the user of that process, "
                       "or as root",
                       f->pid, file, strerror(error));
  else if (error == ENOENT || error == ESRCH)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "there is no process %d", f->pid);
  else
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "/proc/%d/%s: %s", f->pid, file, strerror(error));
  return false;
}

/* The environment in the form of `environ`; its strings live in the one block that was read. */
static char **read_environment(int pid) {
  char path[64];
  size_t size, count = 0;
  snprintf(path, sizeof path, "/proc/%d/environ", pid);
  char *block = tagc_file_text(path, ENVIRONMENT_MAX, &size);
  for (size_t i = 0; block && i < size; i += strlen(block + i) + 1)
    count++;
  char **environment = block ? calloc(count + 1, sizeof *environment) : NULL;
  count = 0;
  for (size_t i = 0; environment && i < size; i += strlen(block + i) + 1)
    environment[count++] = block + i;
  return environment;
}

bool tagc_path_to_read(const struct tagc_findings *f, const char *path, char *real, size_t size) {
  if (f->kind != TAGC_KIND_PROCESS)
    return (size_t)snprintf(real, size, "%s", path) < size;
  if (path[0] == '/')
    return (size_t)snprintf(real, size, "/proc/%d/root%s", f->pid, path) < size;
  return (size_t)snprintf(real, size, "/proc/%d/cwd/%s", f->pid, path) < size;
}

static void read_mapped(struct tagc_findings *f, const char *range, const char *path, bool gone) {
  char from[PATH_MAX + 64];
  /* A deleted file is still readable through the map itself, given the rights. */
  if (gone)
    snprintf(from, sizeof from, "/proc/%d/map_files/%s", f->pid, range);
  else
    tagc_path_to_read(f, path, from, sizeof from);
  bool ours = strncmp(tagc_base_name(path), "libtagc-preload.so", 18) == 0;
  f->process.mapped |= ours;
  f->process.gone |= ours && gone;
  int i = tagc_walk_add(&f->walk, path, from, "mapped", -1);
  if (i >= 0)
    f->walk.objects[i].deleted = gone;
  else if (strstr(path, ".so") && errno != E2BIG)
    tagc_findings_note(f, "%s is mapped and cannot be read (%s)", path, strerror(errno));
  if (gone && (ours || strstr(tagc_base_name(path), "nccl")))
    tagc_findings_note(f, "the file of %s has been deleted or replaced; the process still runs the old one", path);
}

/* "7f0000000000-7f0000001000 r-xp 00001000 08:01 1234 /path (deleted)": an executable map is a program or a library. */
static void read_maps(struct tagc_findings *f, char *text) {
  static const char mark[] = " (deleted)";
  char *save = NULL;
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    char range[64], rights[8];
    int at = 0;
    if (sscanf(line, "%63s %7s %*s %*s %*s %n", range, rights, &at) < 2 || !at || !strchr(rights, 'x') ||
        line[at] != '/')
      continue;
    char *path = line + at;
    size_t length = strlen(path);
    bool gone = length >= sizeof mark && strcmp(path + length - (sizeof mark - 1), mark) == 0;
    if (gone)
      path[length - (sizeof mark - 1)] = '\0';
    bool seen = false;
    for (size_t i = 0; i < f->walk.count; i++)
      seen |= strcmp(f->walk.objects[i].path, path) == 0;
    if (!seen)
      read_mapped(f, range, path, gone);
  }
}

/* True if the kernel started it in secure mode, where the dynamic linker ignores most of LD_PRELOAD. */
static void read_rights(struct tagc_findings *f) {
  char path[64];
  size_t size = 0;
  snprintf(path, sizeof path, "/proc/%d/auxv", f->pid);
  char *vector = tagc_file_text(path, 4096, &size);
  for (size_t i = 0; vector && i + 2 * sizeof(unsigned long) <= size; i += 2 * sizeof(unsigned long)) {
    unsigned long pair[2];
    memcpy(pair, vector + i, sizeof pair);
    f->secure |= pair[0] == AT_SECURE && pair[1];
  }
  free(vector);
  snprintf(f->secure_why, sizeof f->secure_why, "%s", f->secure ? "secure mode" : "");
}

bool tagc_find_process(struct tagc_findings *f, char ***environment) {
  char path[64], exe[PATH_MAX] = "";
  size_t size;
  snprintf(path, sizeof path, "/proc/%d/maps", f->pid);
  char *maps = tagc_file_text(path, MAPS_MAX, &size);
  if (!maps)
    return say_no(f, "maps", errno);
  if (!size) {
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "process %d maps nothing: it has ended, or belongs to the kernel",
                       f->pid);
    return false;
  }
  snprintf(path, sizeof path, "/proc/%d/exe", f->pid);
  ssize_t n = readlink(path, exe, sizeof exe - 1);
  if (n < 0)
    return say_no(f, "exe", errno);
  snprintf(f->path, sizeof f->path, "%s", exe);
  int first = tagc_walk_add(&f->walk, f->path, path, "the program", -1);
  if (first < 0)
    return say_no(f, "exe", errno);
  read_rights(f);
  read_maps(f, maps);
  free(maps);
  char **own = read_environment(f->pid);
  f->process.no_environment = !own;
  if (!own)
    tagc_findings_note(f, "/proc/%d/environ cannot be read (%s): the variables of the process are not known", f->pid,
                       strerror(errno));
  else
    *environment = own;
  f->process.preload_set = own && tagc_environment_value(own, "LD_PRELOAD");
  return true;
}
