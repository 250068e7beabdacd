/* SPDX-License-Identifier: BSD-3-Clause
 * The surroundings of a program: libtagc-preload.so, LD_PRELOAD, options, NCCL's variables and files, the GPU driver.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env/place.h"
#include "interpose/policy/option_check.h"
#include "interpose/tagc-doctor/doctor.h"

enum { CONFIGURATION_MAX = 1 << 20 };

void tagc_findings_note(struct tagc_findings *f, const char *format, ...) {
  if (f->note_count == TAGC_ROWS_MAX)
    return;
  va_list args;
  va_start(args, format);
  vsnprintf(f->notes[f->note_count++], TAGC_WORDS, format, args);
  va_end(args);
}

/* -- LD_PRELOAD and our library ---------------------------------------------------------------------------------- */
static void check_preloaded(struct tagc_findings *f, struct tagc_preloaded *row) {
  char path[PATH_MAX + 64], found[PATH_MAX];
  const char *how;
  struct tagc_image image;
  if (!strchr(row->path, '/')) {
    if (!tagc_walk_look_up(&f->walk, row->path, f->walk.count ? 0 : -1, found, sizeof found, &how)) {
      snprintf(row->problem, sizeof row->problem, "is not in the folders of the dynamic linker");
      return;
    }
    snprintf(row->path, sizeof row->path, "%s", found);
  }
  tagc_path_to_read(f, row->path, path, sizeof path);
  if (!tagc_file_image(path, &image, NULL)) {
    snprintf(row->problem, sizeof row->problem, "cannot be read: %s", strerror(errno));
    return;
  }
  if (image.state == TAGC_IMAGE_BAD)
    snprintf(row->problem, sizeof row->problem, "is %s", image.why);
  else if (f->walk.count && f->walk.objects[0].image.state != TAGC_IMAGE_BAD &&
           (image.machine != f->walk.objects[0].image.machine || image.is64 != f->walk.objects[0].image.is64)) {
    char words[48];
    snprintf(row->problem, sizeof row->problem, "is for another machine (%s)", tagc_machine_words(&image, words));
  }
  tagc_image_free(&image);
}

static void read_preload(struct tagc_findings *f, const char *list, const char *source) {
  static const char between[] = ": \t\n";
  while (list && *(list += strspn(list, between)) && f->preload_count < TAGC_ROWS_MAX) {
    size_t length = strcspn(list, between);
    struct tagc_preloaded *row = &f->preload[f->preload_count++];
    snprintf(row->path, sizeof row->path, "%.*s", (int)length, list);
    row->ours = strncmp(tagc_base_name(row->path), "libtagc-preload.so", 18) == 0;
    check_preloaded(f, row);
    row->source = source;
    list += length;
  }
}

/* Finds the copy that a process has mapped, or that LD_PRELOAD names; otherwise the one that came with this program. */
static bool find_preload(struct tagc_findings *f, const char *self, const char *bindir, const char *libdir) {
  const struct tagc_preloaded *named = NULL;
  int mapped = f->kind == TAGC_KIND_PROCESS ? tagc_walk_first(&f->walk, TAGC_ROLE_OURS) : -1;
  for (size_t i = 0; i < f->preload_count && !named; i++)
    if (f->preload[i].ours && (!f->preload[i].problem[0] || mapped >= 0))
      named = &f->preload[i];
  f->library.preloaded = named && (f->kind != TAGC_KIND_PROCESS || f->process.mapped);
  if (mapped >= 0 || named) {
    snprintf(f->library.path, sizeof f->library.path, "%s", mapped >= 0 ? f->walk.objects[mapped].path : named->path);
    snprintf(f->library.source, sizeof f->library.source, "%s", named ? named->source : "mapped");
    return true;
  }
  const char *how;
  if (!tagc_place_library(self, bindir, libdir, f->library.path, &how))
    return false;
  snprintf(f->library.source, sizeof f->library.source, "%s", how);
  return true;
}

void tagc_find_library(struct tagc_findings *f, char *const *environment, const char *self, const char *bindir,
                       const char *libdir) {
  char path[PATH_MAX + 64] = "";
  tagc_path_to_read(f, "/etc/ld.so.preload", path, sizeof path);
  char *system = tagc_file_text(path, CONFIGURATION_MAX, NULL);
  read_preload(f, tagc_environment_value(environment, "LD_PRELOAD"), "LD_PRELOAD");
  read_preload(f, system, "/etc/ld.so.preload");
  free(system);
  if (!find_preload(f, self, bindir, libdir))
    return;
  if (f->process.mapped || f->library.preloaded)
    tagc_path_to_read(f, f->library.path, path, sizeof path);
  else
    snprintf(path, sizeof path, "%s", f->library.path);
  if (!tagc_file_image(path, &f->library.image, NULL)) {
    if (!f->process.gone)
      snprintf(f->library.problem, TAGC_WORDS, "it cannot be read: %s", strerror(errno));
  } else if (f->library.image.state != TAGC_IMAGE_GOOD ||
             !(f->library.image.exported & TAGC_FUNCTION_BIT(TAGC_FUNCTION_ncclReduceScatter)))
    snprintf(f->library.problem, TAGC_WORDS,
             "it is not a libtagc-preload.so for this machine: it lacks NCCL's functions");
}

/* -- options ----------------------------------------------------------------------------------------------------- */

static void list_presets(struct tagc_findings *f) {
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++) {
    const struct tagc_option *o = &tagc_option_table[i];
    char preset[TAGC_OPTION_PRESET];
    snprintf(f->tagc[i].name, sizeof f->tagc[i].name, "%s", o->variable);
    snprintf(f->tagc[i].value, sizeof f->tagc[i].value, "%s", tagc_option_preset(o, preset));
    snprintf(f->tagc[i].source, sizeof f->tagc[i].source, "default");
  }
  f->tagc_count = TAGC_OPTION_COUNT;
}

static void take_option(struct tagc_findings *f, char *const *environment, const char *name, const char *value) {
  struct tagc_variable *row = NULL;
  char why[280];
  bool ignored = false;
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++)
    if (strcmp(f->tagc[i].name, name) == 0)
      row = &f->tagc[i];
  bool known = row;
  if (!known) {
    if (f->tagc_count == sizeof f->tagc / sizeof *f->tagc)
      return;
    row = &f->tagc[f->tagc_count++];
    snprintf(row->name, sizeof row->name, "%s", name);
  }
  snprintf(row->value, sizeof row->value, "%s", value);
  snprintf(row->source, sizeof row->source, "environment");
  const struct tagc_option *renamed =
    tagc_option_renamed(name, environment, &ignored, row->problem, sizeof row->problem);
  if (renamed && !ignored)
    take_option(f, environment, renamed->variable, value);
  if (renamed)
    return;
  if (tagc_options_set(&f->options, name, value, why, sizeof why))
    return;
  f->options.bad |= known;
  snprintf(row->problem, sizeof row->problem, "%s; %s", why,
           known ? "this process passes every call through" : "it is ignored");
}

/* The map that the process reads. */
static bool map_is_good(const struct tagc_findings *f, char why[TAGC_OPTION_WHY]) {
  char path[PATH_MAX + 64];
  return f->options.mode == TAGC_MODE_OFF || tagc_options_have_no_map(&f->options) ||
         !tagc_path_to_read(f, f->options.layermap, path, sizeof path) || tagc_option_map_is_good(path, why);
}

/* Applies the library's further checks, in the same words. */
static void check_further(struct tagc_findings *f) {
  char why[TAGC_OPTION_WHY];
  for (size_t i = 0; i < TAGC_OPTION_COUNT; i++) {
    const enum tagc_option_index option = (enum tagc_option_index)i;
    struct tagc_variable *row = &f->tagc[i];
    if (!tagc_option_check(&f->options, option, why) || (option == TAGC_OPTION_layermap && !map_is_good(f, why))) {
      f->options.bad = true;
      snprintf(row->problem, sizeof row->problem, "%s; this process passes every call through", why);
    } else if (tagc_option_is_idle(&f->options, option, why)) {
      snprintf(row->problem, sizeof row->problem, "%s", why);
    }
  }
}

/* -- NCCL's variables -------------------------------------------------------------------------------------------- */
/* The meaning of an NCCL variable for us; "" for most. */
static const char *remark(const char *name) {
  return strcmp(name, "NCCL_COMM_ID") == 0 ? "the ranks cannot agree: every call passes through" : "";
}

/* As in NCCL, the first source that names a variable wins: the environment, the user's file, the system's. */
static void take_variable(struct tagc_findings *f, const char *text, const char *source) {
  size_t length = strcspn(text, "=");
  struct tagc_variable *row = &f->nccl[f->nccl_count];
  if (text[length] != '=' || length >= sizeof row->name || f->nccl_count == TAGC_ROWS_MAX ||
      strncmp(text, "NCCL_", 5) != 0)
    return;
  for (size_t i = 0; i < f->nccl_count; i++)
    if (strncmp(f->nccl[i].name, text, length) == 0 && !f->nccl[i].name[length])
      return;
  snprintf(row->name, sizeof row->name, "%.*s", (int)length, text);
  snprintf(row->value, sizeof row->value, "%s", text + length + 1);
  snprintf(row->source, sizeof row->source, "%s", source);
  snprintf(row->problem, sizeof row->problem, "%s", remark(row->name));
  f->nccl_count++;
}

/* Does NCCL have this version, 2.`least`, or a newer one? If it is not known, it counts as the newest. */
static bool nccl_reaches(const struct tagc_findings *f, unsigned least) {
  static const enum tagc_role roles[] = {TAGC_ROLE_NCCL, TAGC_ROLE_OPEN, TAGC_ROLE_RCCL};
  int nccl = f->chosen_nccl > 0 ? f->chosen_nccl : -1;
  for (size_t i = 0; i < sizeof roles / sizeof *roles && nccl < 0; i++)
    nccl = tagc_walk_first(&f->walk, roles[i]);
  return nccl < 0 || tagc_version_reaches(tagc_object_version(&f->walk.objects[nccl]), least);
}

static void read_configuration(struct tagc_findings *f, const char *path) {
  char real[PATH_MAX + 64];
  char *text = tagc_path_to_read(f, path, real, sizeof real) ? tagc_file_text(real, CONFIGURATION_MAX, NULL) : NULL;
  char *save = NULL;
  for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
    if (line[0] != '#' && strncmp(line, "NCCL_", 5) == 0) {
      const size_t end = strlen(line);
      if (line[end - 1] == '\r' && nccl_reaches(f, 30))
        line[end - 1] = '\0';
      take_variable(f, line, path);
    }
  free(text);
}

void tagc_find_variables(struct tagc_findings *f, char *const *environment) {
  tagc_options_default(&f->options);
  list_presets(f);
  for (char *const *e = environment; *e; e++) {
    char name[64];
    size_t length = strcspn(*e, "=");
    take_variable(f, *e, "environment");
    if (strncmp(*e, "TAGC_", 5) != 0 || !(*e)[length] || tagc_options_is_internal(*e, length))
      continue;
    snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), *e);
    take_option(f, environment, name, *e + length + 1);
  }
  check_further(f);
}

static const char *home_of_user(const struct tagc_findings *f, char *const *environment) {
  if (nccl_reaches(f, 30))
    return tagc_environment_value(environment, "HOME");
  const struct passwd *user = getpwuid(getuid());
  return user ? user->pw_dir : NULL;
}

/* The rules are those of env/conf.c. */
void tagc_find_nccl_files(struct tagc_findings *f, char *const *environment) {
  const char *named = nccl_reaches(f, 23) ? tagc_environment_value(environment, "NCCL_CONF_FILE") : NULL;
  const char *home = named && *named ? NULL : home_of_user(f, environment);
  char path[PATH_MAX];
  if (named && *named)
    read_configuration(f, named);
  else if (home && (size_t)snprintf(path, sizeof path, "%s/.nccl.conf", home) < sizeof path)
    read_configuration(f, path);
  read_configuration(f, "/etc/nccl.conf");
}

/* -- the GPU ----------------------------------------------------------------------------------------------------- */
void tagc_find_gpu(struct tagc_findings *f) {
  const char *how;
  char *text = tagc_file_text("/proc/driver/nvidia/version", 4096, NULL);
  /* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 ..." */
  for (const char *c = text; c && *c && *c != '\n' && !f->driver[0]; c++)
    if (c > text && isspace((unsigned char)c[-1]) && isdigit((unsigned char)*c)) {
      size_t length = strspn(c, "0123456789.");
      if (memchr(c, '.', length))
        snprintf(f->driver, sizeof f->driver, "%.*s", (int)length, c);
    }
  free(text);
  DIR *devices = opendir("/dev");
  for (struct dirent *d; devices && (d = readdir(devices)) != NULL;)
    f->gpus += strncmp(d->d_name, "nvidia", 6) == 0 && d->d_name[6] &&
               strspn(d->d_name + 6, "0123456789") == strlen(d->d_name + 6);
  if (devices)
    closedir(devices);
  if (!tagc_walk_look_up(&f->walk, "libcuda.so.1", f->walk.count ? 0 : -1, f->libcuda, sizeof f->libcuda, &how))
    f->libcuda[0] = '\0';
}
