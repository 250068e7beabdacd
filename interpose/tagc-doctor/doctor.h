/* SPDX-License-Identifier: BSD-3-Clause
 * What tagc-doctor found out: one struct, filled by the parts of the program one after the other, judged at the end,
 * and printed as text or JSON.
 *
 * One thread. Nothing is released before the process ends, but for the maps of the files that were read. Texts may come
 * from hostile files: whoever prints them escapes them.
 */
#ifndef INTERPOSE_TAGC_DOCTOR_DOCTOR_H
#define INTERPOSE_TAGC_DOCTOR_DOCTOR_H

#include <limits.h>
#include <net/if.h>
#include <stdio.h>

#include "env/options.h"
#include "interpose/tagc-doctor/elf.h"
#include "interpose/tagc-doctor/search.h"

enum {
  TAGC_ROWS_MAX = 32, /* variables, notes, interfaces, preloaded libraries */
  TAGC_WORDS = 512,   /* a sentence */
};

enum tagc_kind { TAGC_KIND_PROGRAM, TAGC_KIND_LIBRARY, TAGC_KIND_PROCESS, TAGC_KIND_PYTHON };

/* The exit statuses. */
enum tagc_diagnosis { TAGC_DIAGNOSIS_WORKS, TAGC_DIAGNOSIS_FAILS, TAGC_DIAGNOSIS_UNKNOWN };

/* A variable in force. `problem` is empty where there is none. */
struct tagc_variable {
  char name[64], value[160], source[64], problem[600];
};

struct tagc_preloaded {
  char path[PATH_MAX], problem[160];
  const char *source; /* LD_PRELOAD or /etc/ld.so.preload */
  bool ours;
};

struct tagc_interface {
  char name[IFNAMSIZ], state[16], addresses[160];
  long mtu, speed; /* bytes; Mbit/s, -1: not known */
  bool chosen;     /* by NCCL's rules */
};

struct tagc_findings {
  enum tagc_kind kind;
  const char *given;          /* the argument */
  char path[PATH_MAX];        /* the file that it means; of a script: its interpreter */
  char script[PATH_MAX];      /* "": it is none */
  char python_path[PATH_MAX]; /* the file on the way that is a Python by its name, "": none */
  bool secure;                /* set-user-ID, set-group-ID or file capabilities */
  char secure_why[64];
  int pid;
  struct tagc_walk walk; /* objects[0] is the program, library or interpreter itself */

  struct {
    char path[PATH_MAX], source[32]; /* "": not found */
    char problem[TAGC_WORDS];
    struct tagc_image image;
    bool preloaded; /* LD_PRELOAD names it; of a process: and it is mapped */
  } library;
  struct tagc_preloaded preload[TAGC_ROWS_MAX];
  size_t preload_count;

  struct {
    bool preload_set, mapped, gone; /* in its environment; libtagc-preload.so is mapped; its file was deleted */
    bool no_environment;            /* could not be read */
  } process;

  struct {
    char executable[PATH_MAX], version[64], torch[PATH_MAX], torch_version[64], nccl[PATH_MAX];
    char jaxlib[PATH_MAX], jaxlib_version[64], jax_plugin[PATH_MAX]; /* the plugin: its shared object for GPUs */
    bool no_gpu; /* no library of this torch, or of this jaxlib, is for GPUs */
  } python;

  int run_version; /* what ncclGetVersion() said, 0: not asked */
  char driver[128], libcuda[PATH_MAX];
  int gpus;

  struct tagc_options options; /* those in force */
  struct tagc_variable tagc[TAGC_OPTION_COUNT + TAGC_ROWS_MAX], nccl[TAGC_ROWS_MAX];
  size_t tagc_count, nccl_count;

  struct tagc_interface interfaces[TAGC_ROWS_MAX];
  size_t interface_count;
  char interface_rule[96];

  char notes[TAGC_ROWS_MAX][TAGC_WORDS];
  size_t note_count;
  enum tagc_diagnosis diagnosis;
  bool intercepted; /* it fails because nothing would be compressed */
  char words[TAGC_WORDS];
};

/* Adds a sentence that users should see; what is beyond the last row is dropped. */
__attribute__((format(printf, 2, 3))) void tagc_findings_note(struct tagc_findings *findings, const char *format, ...);

/* The value of a variable in an environment (as `environ`), or NULL. */
const char *tagc_environment_value(char *const *environment, const char *name);

/* -- the parts: each returns false with the diagnosis set where nothing more can be found out ---------------------- */

/* A program (looked for on PATH where it has no slash) or a library; scripts are followed to their interpreter. */
bool tagc_find_file(struct tagc_findings *findings, char *const *environment);

/* The path under which a file of the examined program is to be read: of a process, which may live in a container,
 * through /proc/PID/root or /proc/PID/cwd. False where it is too long. */
bool tagc_path_to_read(const struct tagc_findings *findings, const char *path, char *real, size_t size);

/* A process: *environment becomes its own (allocated), where it may be read. */
bool tagc_find_process(struct tagc_findings *findings, char ***environment);

/* A Python interpreter: runs it to find torch, without importing torch. */
bool tagc_find_python(struct tagc_findings *findings, char *const *environment);

/* Our library, LD_PRELOAD, options, NCCL's variables, the driver. `self` is this program's folder; `bindir`, `libdir`:
 * where it and the library are installed. */
void tagc_find_library(struct tagc_findings *findings, char *const *environment, const char *self, const char *bindir,
                       const char *libdir);
void tagc_find_variables(struct tagc_findings *findings, char *const *environment);
void tagc_find_gpu(struct tagc_findings *findings);
void tagc_find_interfaces(struct tagc_findings *findings, char *const *environment);

/* Would NCCL take the interface `name` by NCCL_SOCKET_IFNAME=`rule`? */
bool tagc_interface_matches(const char *rule, const char *name);

/* The diagnosis and its words. */
void tagc_judge(struct tagc_findings *findings);
__attribute__((format(printf, 3, 4))) void tagc_diagnosis_set(struct tagc_findings *findings,
                                                              enum tagc_diagnosis diagnosis, const char *format, ...);

/* -- the reports ------------------------------------------------------------------------------------------------- */
void tagc_report_text(const struct tagc_findings *findings, FILE *out, bool colour);
void tagc_report_json(const struct tagc_findings *findings, FILE *out);

/* Words for machines and roles, used by both. */
const char *tagc_machine_words(const struct tagc_image *image, char words[48]);
const char *tagc_doctor_role_words(enum tagc_role role);

/* The version of an object that is NCCL or holds it, "" where it is not known. */
const char *tagc_object_version(const struct tagc_object *object);

/* Is a version 2.18 or newer? True for "". */
bool tagc_version_supported(const char *version);

#endif
