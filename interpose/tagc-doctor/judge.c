/* SPDX-License-Identifier: BSD-3-Clause
 * The diagnosis: ordered questions; the first with an answer decides.
 */
#include <elf.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-doctor/doctor.h"

void tagc_diagnosis_set(struct tagc_findings *f, enum tagc_diagnosis diagnosis, const char *format, ...) {
  static const char *const starts[] = {"Interception will work: ", "Interception will not work: ", "Cannot tell: "};
  va_list args;
  int n = snprintf(f->words, sizeof f->words, "%s", starts[diagnosis]);
  f->diagnosis = diagnosis;
  va_start(args, format);
  vsnprintf(f->words + n, sizeof f->words - (size_t)n, format, args);
  va_end(args);
}

const char *tagc_machine_words(const struct tagc_image *image, char words[48]) {
  const char *name = image->machine == EM_X86_64    ? "x86_64"
                     : image->machine == EM_AARCH64 ? "aarch64"
                     : image->machine == EM_386     ? "i386"
                     : image->machine == EM_ARM     ? "arm"
                     : image->machine == EM_PPC64   ? "ppc64"
                                                    : NULL;
  if (name)
    snprintf(words, 48, "%s, %d bit", name, image->is64 ? 64 : 32);
  else
    snprintf(words, 48, "machine %u, %d bit", image->machine, image->is64 ? 64 : 32);
  return words;
}

const char *tagc_doctor_role_words(enum tagc_role role) {
  static const char *const words[] = {
    [TAGC_ROLE_NOTHING] = "nothing",
    [TAGC_ROLE_CALLS] = "calls NCCL through the dynamic linker: intercepted",
    [TAGC_ROLE_ASKS] = "asks dlsym for NCCL's functions: intercepted by the dlsym hook",
    [TAGC_ROLE_OPEN] = "holds NCCL, but calls it through the dynamic linker: intercepted",
    [TAGC_ROLE_CONTAINS] = "holds NCCL and calls it directly: out of reach",
    [TAGC_ROLE_NCCL] = "the NCCL library",
    [TAGC_ROLE_OURS] = "libtagc-preload.so",
    [TAGC_ROLE_RCCL] = "RCCL, the library for AMD's GPUs",
  };
  return words[role];
}

const char *tagc_object_version(const struct tagc_object *object) {
  return object->image.nccl_version[0] ? object->image.nccl_version : object->file_version;
}

bool tagc_version_reaches(const char *version, unsigned least) {
  unsigned major, minor;
  return !*version || sscanf(version, "%4u.%4u", &major, &minor) != 2 || major > 2 || (major == 2 && minor >= least);
}

bool tagc_version_supported(const char *version) { return tagc_version_reaches(version, 18); }

static const char *object_name(const struct tagc_findings *f, int object) {
  return tagc_base_name(f->walk.objects[object].path);
}

static bool fails(struct tagc_findings *f) { return f->words[0]; }

/* Judges whether anything can be preloaded into the program. */
static void judge_program(struct tagc_findings *f) {
  const struct tagc_image *image = &f->walk.objects[0].image;
  const char *interpreter = image->interpreter ? image->interpreter : "";
  bool musl = strstr(interpreter, "ld-musl");
  for (size_t i = 0; i < image->needed_count; i++)
    musl |= strncmp(image->needed[i], "libc.musl", 9) == 0;
  if (f->kind != TAGC_KIND_LIBRARY && tagc_image_is_static(image))
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS,
                       "%s is linked statically, and nothing can be preloaded into it; link it "
                       "dynamically, with a shared NCCL",
                       f->path);
  else if (musl)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS, "%s is made for the musl C library, libtagc-preload.so for glibc",
                       f->path);
  else if (f->secure && f->kind != TAGC_KIND_PROCESS)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS,
                       "%s has %s, and the dynamic linker ignores LD_PRELOAD in such programs; run a copy without",
                       f->path, f->secure_why);
}

/* The highest GLIBC_2.x of the program's C library, 0: unknown. */
static unsigned glibc_of(const struct tagc_findings *f) {
  for (size_t i = 0; i < f->walk.count; i++)
    if (strcmp(object_name(f, (int)i), "libc.so.6") == 0)
      return f->walk.objects[i].image.glibc_defined;
  return 0;
}

/* Judges whether our library can be preloaded into it. */
static void judge_library(struct tagc_findings *f) {
  const struct tagc_image *image = &f->walk.objects[0].image;
  char ours[48], theirs[48];
  for (size_t i = 0; i < f->preload_count; i++)
    if (f->preload[i].ours && f->preload[i].problem[0] && !f->process.mapped) {
      tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS, "%s (%s) %s; the dynamic linker says so and goes on without it",
                         f->preload[i].path, f->preload[i].source, f->preload[i].problem);
      return;
    }
  if (!f->library.path[0])
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS,
                       "libtagc-preload.so was found neither in LD_PRELOAD nor where it is installed");
  else if (f->library.problem[0])
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS, "%s: %s", f->library.path, f->library.problem);
  else if (f->library.image.machine &&
           (image->machine != f->library.image.machine || image->is64 != f->library.image.is64))
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS, "%s is for another machine (%s) than libtagc-preload.so (%s)", f->path,
                       tagc_machine_words(image, theirs), tagc_machine_words(&f->library.image, ours));
  else if (glibc_of(f) && f->library.image.glibc_needed > glibc_of(f))
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS,
                       "%s needs glibc 2.%u, and this program's is 2.%u: build the library on the older system",
                       f->library.path, f->library.image.glibc_needed, glibc_of(f));
}

static void judge_process(struct tagc_findings *f) {
  if (f->process.mapped && !f->library.preloaded && !f->process.no_environment)
    tagc_findings_note(f, "libtagc-preload.so is mapped, but neither the environment that the process was started "
                          "with nor /etc/ld.so.preload names it: it may stand behind NCCL");
  bool broken = false; /* judge_library() reports it better */
  for (size_t i = 0; i < f->preload_count; i++)
    broken |= f->preload[i].ours && f->preload[i].problem[0];
  if (f->process.mapped || broken)
    return;
  if (f->secure)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS,
                       "process %d runs in secure mode (set-user-ID, file capabilities), which ignores LD_PRELOAD",
                       f->pid);
  else if (f->process.preload_set)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS,
                       "libtagc-preload.so is not mapped in process %d, whose LD_PRELOAD does not name a "
                       "copy that could be loaded",
                       f->pid);
  else
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS, "process %d was started without LD_PRELOAD=%s", f->pid,
                       f->library.path[0] ? f->library.path : "libtagc-preload.so");
}

static void say_no_caller(struct tagc_findings *f) {
  if (f->kind == TAGC_KIND_PYTHON && !f->python.torch[0] && !f->python.jaxlib[0])
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "no torch here, and no jaxlib: %s does not find these packages",
                       f->python.executable);
  else if (f->kind == TAGC_KIND_PYTHON && f->python.no_gpu && f->python.torch[0])
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS, "the torch in %s is built without CUDA, and makes no call to NCCL",
                       f->python.torch);
  else if (f->kind == TAGC_KIND_PYTHON && f->python.no_gpu)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS,
                       "the jaxlib in %s has no plugin for GPUs (jax-cuda12-plugin), and makes no call to NCCL",
                       f->python.jaxlib);
  else if (f->kind == TAGC_KIND_PROCESS)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "nothing in process %d calls NCCL yet; ask again when it trains",
                       f->pid);
  else if (f->python_path[0])
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN,
                       "this is Python, which loads what calls NCCL later; ask tagc-doctor --python %s",
                       f->python_path);
  else if (f->walk.objects[0].role >= TAGC_ROLE_NCCL)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "%s is %s itself; ask for a program that calls NCCL", f->path,
                       tagc_doctor_role_words(f->walk.objects[0].role));
  else if (f->script[0])
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN, "%s is a script of %s; ask for the program that it starts", f->script,
                       f->path);
  else
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN,
                       "nothing in %s or its libraries calls NCCL; if it opens plugins, ask for those, or "
                       "for its process id when it runs",
                       f->path);
}

/* The index of an object whose calls of NCCL can be intercepted, or -1. */
static int first_caller(const struct tagc_findings *f) {
  static const enum tagc_role roles[] = {TAGC_ROLE_CALLS, TAGC_ROLE_OPEN, TAGC_ROLE_ASKS};
  int first = -1;
  for (size_t i = 0; i < sizeof roles / sizeof *roles && first < 0; i++)
    first = tagc_walk_first(&f->walk, roles[i]);
  return first;
}

/* True if a missing library is NCCL or RCCL, and no other of its kind was found. */
static bool is_lost(const struct tagc_findings *f, const char *name) {
  return (strncmp(name, "libnccl.so", 10) == 0 && tagc_walk_first(&f->walk, TAGC_ROLE_NCCL) < 0) ||
         (strncmp(name, "librccl.so", 10) == 0 && tagc_walk_first(&f->walk, TAGC_ROLE_RCCL) < 0);
}

/* Judges whether anything calls NCCL, and whether all these calls can be intercepted. */
static void judge_callers(struct tagc_findings *f) {
  int inside = tagc_walk_first(&f->walk, TAGC_ROLE_CONTAINS), first = first_caller(f);
  if (inside >= 0 && first < 0)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS, "static NCCL in %s; use a build with a shared NCCL",
                       object_name(f, inside));
  else if (inside >= 0)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN,
                       "the calls of %s are intercepted, those of the static NCCL in %s are not", object_name(f, first),
                       object_name(f, inside));
  else if (first < 0)
    say_no_caller(f);
  for (size_t i = 0; i < f->walk.missing_count && !fails(f) && f->kind != TAGC_KIND_PROCESS; i++)
    if (is_lost(f, f->walk.missing[i].name))
      tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS, "%s, which %s needs, was not found: the program would not start here",
                         f->walk.missing[i].name, object_name(f, f->walk.missing[i].parent));
}

static void judge_versions(struct tagc_findings *f) {
  for (size_t i = 0; i < f->walk.count && !fails(f); i++) {
    const struct tagc_object *object = &f->walk.objects[i];
    if ((object->role == TAGC_ROLE_NCCL || object->role == TAGC_ROLE_OPEN) &&
        !tagc_version_supported(tagc_object_version(object)))
      tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS, "NCCL %s (%s) is older than 2.18", tagc_object_version(object),
                         object->path);
  }
  if (tagc_walk_count(&f->walk, TAGC_ROLE_NCCL) > 1)
    tagc_findings_note(f, "there are several NCCL libraries; all ranks must use the same one");
}

/* Calls that the library would not see: of functions of a newer NCCL, and by second names. */
static void note_unknown(struct tagc_findings *f) {
  for (size_t i = 0; i < f->walk.count; i++) {
    const struct tagc_object *object = &f->walk.objects[i];
    if (object->image.second_names)
      tagc_findings_note(f, "%s calls NCCL by second names (pncclAllReduce): such calls go past libtagc-preload.so",
                         object->path);
    if (object->role >= TAGC_ROLE_OPEN && object->role != TAGC_ROLE_OURS && *object->image.unknown.text)
      tagc_findings_note(
        f,
        "NCCL %s (%s) has functions that libtagc-preload.so does not know: %s. It does not see calls of "
        "them, so steps, reports and traces may lack calls; a newer version may know them",
        *tagc_object_version(object) ? tagc_object_version(object) : "of an unknown version", object->path,
        object->image.unknown.text);
  }
}

/* All calls go to the library of TAGC_NCCL; one that runs has it already. */
static void judge_chosen(struct tagc_findings *f) {
  const char *chosen = f->options.nccl;
  if (!chosen[0] || f->kind == TAGC_KIND_PROCESS)
    return;
  if (f->chosen_nccl < 0 && !strchr(chosen, '/'))
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_UNKNOWN,
                       "TAGC_NCCL=%s was not found; if the program has loaded no library of that name before its first "
                       "call of NCCL, every call fails",
                       chosen);
  else if (f->chosen_nccl < 0)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS, "TAGC_NCCL=%s cannot be opened: every call of NCCL would fail", chosen);
  else if (f->walk.objects[f->chosen_nccl].role == TAGC_ROLE_NOTHING)
    tagc_diagnosis_set(f, TAGC_DIAGNOSIS_FAILS, "TAGC_NCCL=%s has no function of NCCL: every call of NCCL would fail",
                       chosen);
}

/* Reports that interception would work, but nothing would be compressed. */
__attribute__((format(printf, 2, 3))) static void say_idle(struct tagc_findings *f, const char *format, ...) {
  int n = snprintf(f->words, sizeof f->words, "Interception will work, but nothing will be compressed: ");
  f->diagnosis = TAGC_DIAGNOSIS_FAILS;
  f->intercepted = true;
  va_list args;
  va_start(args, format);
  vsnprintf(f->words + n, sizeof f->words - (size_t)n, format, args);
  va_end(args);
}

/* The library receives RCCL's calls, but does nothing on AMD GPUs. */
static void judge_rccl(struct tagc_findings *f) {
  int rccl = tagc_walk_first(&f->walk, TAGC_ROLE_RCCL);
  if (rccl >= 0 && tagc_walk_first(&f->walk, TAGC_ROLE_NCCL) < 0)
    say_idle(f, "%s calls RCCL (%s); codecs run on NVIDIA's GPUs alone, so every call passes",
             object_name(f, first_caller(f)), f->walk.objects[rccl].path);
}

/* Options or variables may prevent interception. */
static void judge_options(struct tagc_findings *f) {
  const char *why = NULL, *words = NULL;
  for (size_t i = 0; i < f->tagc_count && !why; i++)
    if (f->options.bad && i < TAGC_OPTION_COUNT && f->tagc[i].problem[0])
      why = f->tagc[i].name, words = "its value is refused, see above";
  for (size_t i = 0; i < f->nccl_count && !why; i++)
    if (f->nccl[i].problem[0])
      why = f->nccl[i].name, words = f->nccl[i].problem;
  if (why)
    say_idle(f, "%s: %s", why, words);
}

static void say_works(struct tagc_findings *f) {
  size_t calls = tagc_walk_count(&f->walk, TAGC_ROLE_CALLS) + tagc_walk_count(&f->walk, TAGC_ROLE_OPEN);
  size_t asks = tagc_walk_count(&f->walk, TAGC_ROLE_ASKS);
  const char *how = f->library.preloaded           ? ", and libtagc-preload.so stands in front"
                    : f->kind == TAGC_KIND_LIBRARY ? "; start its program with LD_PRELOAD="
                                                   : "; start it with LD_PRELOAD=";
  char others[48] = "";
  if (calls + asks > 1)
    snprintf(others, sizeof others, " (and %zu more)", calls + asks - 1);
  tagc_diagnosis_set(f, TAGC_DIAGNOSIS_WORKS, "%s%s %s%s%s", object_name(f, first_caller(f)), others,
                     calls ? "calls NCCL through the dynamic linker" : "asks dlsym for NCCL's functions", how,
                     f->library.preloaded ? "" : f->library.path);
  static const uint64_t compressed =
    TAGC_FUNCTION_BIT(TAGC_FUNCTION_ncclReduceScatter) | TAGC_FUNCTION_BIT(TAGC_FUNCTION_ncclReduceScatterConfig) |
    TAGC_FUNCTION_BIT(TAGC_FUNCTION_ncclAllReduce) | TAGC_FUNCTION_BIT(TAGC_FUNCTION_ncclAllReduceConfig);
  bool compressible = tagc_walk_count(&f->walk, TAGC_ROLE_CALLS) < calls + asks;
  for (size_t i = 0; i < f->walk.count; i++)
    compressible |= (f->walk.objects[i].image.imported & compressed) != 0;
  if (!compressible)
    tagc_findings_note(f, "nothing here calls ncclReduceScatter or ncclAllReduce: there would be nothing to compress");
  if (f->options.mode == TAGC_MODE_OFF || f->options.mode == TAGC_MODE_OBSERVE)
    tagc_findings_note(f, "TAGC_MODE=%s: nothing is compressed", f->options.mode == TAGC_MODE_OFF ? "off" : "observe");
}

void tagc_judge(struct tagc_findings *f) {
  static void (*const questions[])(struct tagc_findings *) = {judge_callers,  judge_rccl,    judge_chosen,
                                                              judge_versions, judge_options, say_works};
  if (fails(f))
    return; /* the target was unreadable */
  note_unknown(f);
  judge_program(f);
  if (!fails(f) && f->kind == TAGC_KIND_PROCESS)
    judge_process(f);
  if (!fails(f))
    judge_library(f);
  for (size_t i = 0; i < sizeof questions / sizeof *questions && !fails(f); i++)
    questions[i](f);
}
