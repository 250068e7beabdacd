/* SPDX-License-Identifier: BSD-3-Clause
 * The report for people: a label, then lines. Texts of files and environments lose their control characters.
 */
#include <stdarg.h>
#include <string.h>

#include "env/program/terminal.h"
#include "interpose/tagc-doctor/doctor.h"

enum { LABEL = 12, WIDTH = 110, LINE = 2 * PATH_MAX };

struct page {
  FILE *out;
  bool colour;
};

enum colour { PLAIN, RED, GREEN, YELLOW };
static const char *const codes[] = {"", "\033[31m", "\033[32m", "\033[33m"};

/* Prints words in lines of WIDTH columns, indented after the first. A path is one word, however long. */
static void put_text(const struct page *page, enum colour colour, char *text, size_t indent) {
  tagc_tame(text, '\0');
  fputs(page->colour ? codes[colour] : "", page->out);
  tagc_put_wrapped(page->out, text, indent, indent, WIDTH);
  fputs(page->colour && colour ? "\033[0m\n" : "\n", page->out);
}

/* Prints one line behind a label, or behind its space if it is "". */
__attribute__((format(printf, 4, 5))) static void line(const struct page *page, const char *label, enum colour colour,
                                                       const char *format, ...) {
  char text[LINE];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  int indent = LABEL + (int)strspn(text, " ");
  fprintf(page->out, page->colour && *label ? "\033[1m%s\033[0m%*s" : "%s%*s", label, indent - (int)strlen(label), "");
  put_text(page, colour, text + indent - LABEL, (size_t)indent);
}

static const char *kind_words(const struct tagc_findings *f) {
  const struct tagc_image *image = &f->walk.objects[0].image;
  return image->state == TAGC_IMAGE_FOREIGN ? "ELF file"
         : tagc_image_is_static(image)      ? "static program"
         : image->has_interpreter           ? "program"
                                            : "shared library";
}

/* True if the target was read. Otherwise only the diagnosis, which explains it, is worth printing. */
static bool readable(const struct tagc_findings *f) {
  return f->walk.count && f->walk.objects[0].image.state != TAGC_IMAGE_BAD;
}

static void print_package(const struct page *page, const char *name, const char *folder, const char *version) {
  if (*folder)
    line(page, name, PLAIN, "%s  %s", *version ? version : "(version not known)", folder);
}

static void print_examined(const struct page *page, const struct tagc_findings *f) {
  static const char *const labels[] = {"program", "library", "process", "python"};
  char words[48];
  if (f->script[0])
    line(page, "script", PLAIN, "%s", f->script);
  if (f->kind == TAGC_KIND_PROCESS)
    line(page, labels[f->kind], PLAIN, "%d: %s", f->pid, f->path[0] ? f->path : "?");
  else
    line(page, labels[f->kind], PLAIN, "%s", f->path[0] ? f->path : f->given);
  if (!readable(f))
    return;
  const struct tagc_image *image = &f->walk.objects[0].image;
  line(page, "", PLAIN, "%s for %s%s%s%s%s", kind_words(f), tagc_machine_words(image, words),
       image->interpreter ? ", started by " : "", image->interpreter ? image->interpreter : "", f->secure ? ", " : "",
       f->secure_why);
  if (f->kind != TAGC_KIND_PYTHON)
    return;
  line(page, "", PLAIN, "Python %s", f->python.version);
  print_package(page, "torch", f->python.torch, f->python.torch_version);
  print_package(page, "jaxlib", f->python.jaxlib, f->python.jaxlib_version);
  if (!f->python.torch[0] && !f->python.jaxlib[0])
    line(page, "packages", YELLOW, "no torch here, and no jaxlib");
}

static int count_functions(uint64_t set) { return __builtin_popcountll(set); }

static void print_object(const struct page *page, const struct tagc_findings *f, const char *label,
                         const struct tagc_object *o) {
  char detail[96] = "";
  enum colour colour = o->role == TAGC_ROLE_CONTAINS ? RED : GREEN;
  if (o->role == TAGC_ROLE_CALLS)
    snprintf(detail, sizeof detail, " (%d functions%s)", count_functions(o->image.imported),
             o->image.imported & TAGC_FUNCTION_BIT(TAGC_FUNCTION_ncclReduceScatter) ? "" : ", no ncclReduceScatter");
  else if ((o->role == TAGC_ROLE_CONTAINS || o->role == TAGC_ROLE_OPEN) && o->image.nccl_version[0])
    snprintf(detail, sizeof detail, " (version %s%s)", o->image.nccl_version,
             (o->image.exported | o->image.hidden) ? "" : ", by its texts: the file is stripped");
  line(page, label, colour, "%s %s%s", tagc_base_name(o->path), tagc_doctor_role_words(o->role), detail);
  if (strcmp(o->path, f->path) != 0)
    line(page, "", PLAIN, "  %s (%s)%s", o->path, o->how, o->deleted ? ", deleted" : "");
}

static void print_objects(const struct page *page, const struct tagc_findings *f) {
  const char *label = "calls";
  for (size_t i = 0; i < f->walk.count; i++) {
    enum tagc_role role = f->walk.objects[i].role;
    if (role != TAGC_ROLE_CALLS && role != TAGC_ROLE_ASKS && role != TAGC_ROLE_OPEN && role != TAGC_ROLE_CONTAINS)
      continue;
    print_object(page, f, label, &f->walk.objects[i]);
    label = "";
  }
  if (*label)
    line(page, "calls", PLAIN, "none of %zu files calls NCCL", f->walk.count);
  label = "NCCL";
  for (size_t i = 0; i < f->walk.count; i++) {
    const struct tagc_object *o = &f->walk.objects[i];
    if (o->role != TAGC_ROLE_NCCL)
      continue;
    const char *version = tagc_object_version(o);
    if (!*version)
      line(page, label, YELLOW, "version not known (2.18 or newer is supported)");
    else if (tagc_version_supported(version))
      line(page, label, GREEN, "%s, supported", version);
    else
      line(page, label, RED, "%s, older than 2.18", version);
    line(page, "", PLAIN, "  %s (%s)%s", o->path, o->how, o->deleted ? ", deleted" : "");
    label = "";
  }
  int rccl = tagc_walk_first(&f->walk, TAGC_ROLE_RCCL);
  if (rccl >= 0) {
    line(page, "RCCL", YELLOW, "NCCL's functions for AMD's GPUs: what calls it passes");
    line(page, "", PLAIN, "  %s (%s)", f->walk.objects[rccl].path, f->walk.objects[rccl].how);
  }
  if (f->run_version)
    line(page, label, PLAIN, "ncclGetVersion() says %d", f->run_version);
  for (size_t i = 0; i < f->walk.missing_count; i++)
    line(page, i ? "" : "not found", YELLOW, "%s, needed by %s", f->walk.missing[i].name,
         f->walk.objects[f->walk.missing[i].parent].path);
  if (f->walk.cut)
    line(page, "", YELLOW, "more libraries than are looked at: this list is not complete");
}

static void print_library(const struct page *page, const struct tagc_findings *f) {
  if (!f->library.path[0])
    line(page, "preload", RED, "libtagc-preload.so was not found");
  else if (f->library.problem[0]) {
    line(page, "preload", RED, "%s (%s)", f->library.path, f->library.source);
    line(page, "", RED, "  %s", f->library.problem);
  } else if (f->library.preloaded)
    line(page, "preload", GREEN, "%s (%s)", f->library.path, f->library.source);
  else
    line(page, "preload", YELLOW, "%s (%s), not in LD_PRELOAD", f->library.path, f->library.source);
  for (size_t i = 0; i < f->preload_count; i++)
    if (!f->preload[i].ours || f->preload[i].problem[0])
      line(page, "", f->preload[i].problem[0] ? RED : PLAIN, "  %s (%s)%s%s", f->preload[i].path, f->preload[i].source,
           f->preload[i].problem[0] ? " " : ", another library", f->preload[i].problem);
}

static void print_variables(const struct page *page, const char *label, const struct tagc_variable *rows, size_t count,
                            const char *none) {
  size_t shown = 0;
  for (size_t i = 0; i < count; i++) {
    if (strcmp(rows[i].source, "default") == 0 && !rows[i].problem[0])
      continue;
    line(page, shown++ ? "" : label, rows[i].problem[0] ? RED : PLAIN, "%s=%s (%s)", rows[i].name, rows[i].value,
         rows[i].source);
    if (rows[i].problem[0])
      line(page, "", RED, "  %s", rows[i].problem);
  }
  if (!shown)
    line(page, label, PLAIN, "%s", none);
}

static void print_defaults(const struct page *page, const struct tagc_findings *f) {
  char text[LINE] = "";
  size_t used = 0;
  for (size_t i = 0; i < f->tagc_count && used < sizeof text; i++)
    if (strcmp(f->tagc[i].source, "default") == 0)
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%s=%s", used ? "  " : "", f->tagc[i].name + 5,
                               f->tagc[i].value);
  if (used)
    line(page, " defaults", PLAIN, "%s", text);
}

static void print_machine(const struct page *page, const struct tagc_findings *f) {
  if (f->driver[0] || f->gpus || f->libcuda[0])
    line(page, "GPU", PLAIN, "%s%s, %d device%s, libcuda.so.1 %s", f->driver[0] ? "NVIDIA driver " : "no NVIDIA driver",
         f->driver, f->gpus, f->gpus == 1 ? "" : "s", f->libcuda[0] ? f->libcuda : "not found");
  else
    line(page, "GPU", PLAIN, "none: no NVIDIA driver, no device, no libcuda.so.1");
  const char *label = "network";
  for (size_t i = 0; i < f->interface_count; i++) {
    const struct tagc_interface *n = &f->interfaces[i];
    char speed[32] = "speed not known";
    if (!n->chosen)
      continue;
    if (n->speed > 0)
      snprintf(speed, sizeof speed, "%ld Mbit/s", n->speed);
    line(page, label, PLAIN, "%s  %s, MTU %ld, %s, %s", n->name, n->state, n->mtu, speed, n->addresses);
    label = "";
  }
  if (*label)
    line(page, label, YELLOW, "no interface that NCCL would use");
  if (f->interface_rule[0])
    line(page, "", PLAIN, "  rule: %s", f->interface_rule);
}

void tagc_report_text(const struct tagc_findings *f, FILE *out, bool colour) {
  static const enum colour colours[] = {GREEN, RED, YELLOW};
  const struct page page = {out, colour};
  char words[TAGC_WORDS];
  print_examined(&page, f);
  if (readable(f)) {
    print_objects(&page, f);
    print_library(&page, f);
    print_variables(&page, "options", f->tagc, f->tagc_count, "all have their defaults");
    print_defaults(&page, f);
    print_variables(&page, "NCCL_*", f->nccl, f->nccl_count, "none is set");
    print_machine(&page, f);
  }
  for (size_t i = 0; i < f->note_count; i++)
    line(&page, i ? "" : "note", YELLOW, "%s", f->notes[i]);
  putc('\n', out);
  snprintf(words, sizeof words, "%s", f->words);
  put_text(&page, colours[f->diagnosis], words, 0);
}
