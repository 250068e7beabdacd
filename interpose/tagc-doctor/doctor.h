/* SPDX-License-Identifier: BSD-3-Clause
 * The findings of tagc-doctor: one struct. The parts of the program fill it one after the other; at the end it is
 * judged, and printed as text or JSON.
 *
 * One thread. Nothing is freed before the process ends, except the maps of files. Texts may come from hostile files:
 * whoever prints them escapes them.
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

/* A variable in force. `problem` is "" without one. */
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
  long mtu, speed; /* bytes; Mbit/s, -1: unknown */
  bool chosen;     /* by NCCL's rules */
};

struct tagc_findings {
  enum tagc_kind kind;
  const char *given;          /* the argument */
  char path[PATH_MAX];        /* its file; for a script the interpreter */
  char script[PATH_MAX];      /* "": none */
  char python_path[PATH_MAX]; /* the last file on the way that is named python..., "": none */
  bool secure;                /* set-user-ID, set-group-ID or file capabilities */
  char secure_why[64];
  int pid;
  struct tagc_walk walk; /* objects[0] is the program, library or interpreter */
  int chosen_nccl;       /* the object that TAGC_NCCL names; 0 or less: none */

  struct {
    char path[PATH_MAX], source[32]; /* "": not found */
    char problem[TAGC_WORDS];
    struct tagc_image image;
    bool preloaded; /* LD_PRELOAD names it; for a process it is also mapped */
  } library;
  struct tagc_preloaded preload[TAGC_ROWS_MAX];
  size_t preload_count;

  struct {
    bool preload_set, mapped, gone; /* in its environment; libtagc-preload.so is mapped; its file was deleted */
    bool no_environment;            /* unreadable */
  } process;

  struct {
    char executable[PATH_MAX], version[64], torch[PATH_MAX], torch_version[64], nccl[PATH_MAX];
    char jaxlib[PATH_MAX], jaxlib_version[64], jax_plugin[PATH_MAX]; /* the plugin: its shared object for GPUs */
    bool no_gpu; /* this torch, or this jaxlib, has no library for GPUs */
  } python;

  int run_version; /* from ncclGetVersion(), 0: not called */
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
  bool intercepted; /* interception works, but nothing would be compressed */
  char words[TAGC_WORDS];
};

/* Adds a sentence for users; drops it if the rows are full. */
__attribute__((format(printf, 2, 3))) void tagc_findings_note(struct tagc_findings *findings, const char *format, ...);

/* The value of a variable in an environment (as `environ`), or NULL. */
const char *tagc_environment_value(char *const *environment, const char *name);

/* -- the parts; false with the diagnosis set: nothing more can be found -------------------------------------------- */

/* Finds a program (on PATH if it has no slash) or a library; follows scripts to their interpreter. */
bool tagc_find_file(struct tagc_findings *findings, char *const *environment);

/* The path to read a file of the examined program from. For a process, which may live in a container, this goes through
 * /proc/PID/root or /proc/PID/cwd. False: too long. */
bool tagc_path_to_read(const struct tagc_findings *findings, const char *path, char *real, size_t size);

/* Examines a process; *environment becomes its own (allocated), if readable. */
bool tagc_find_process(struct tagc_findings *findings, char ***environment);

/* Runs a Python interpreter to find torch, without importing torch. */
bool tagc_find_python(struct tagc_findings *findings, char *const *environment);

/* Examines our library, LD_PRELOAD, options, NCCL's variables, the driver. `self` is this program's folder; `bindir`,
 * `libdir`: where it and the library are installed. */
void tagc_find_library(struct tagc_findings *findings, char *const *environment, const char *self, const char *bindir,
                       const char *libdir);
void tagc_find_variables(struct tagc_findings *findings, char *const *environment);

/* Adds NCCL's variables of its files, as its version reads them: behind tagc_find_variables(), and when NCCL is known.
 */
void tagc_find_nccl_files(struct tagc_findings *findings, char *const *environment);
void tagc_find_gpu(struct tagc_findings *findings);
void tagc_find_interfaces(struct tagc_findings *findings, char *const *environment);

/* True if NCCL takes the interface `name` by NCCL_SOCKET_IFNAME=`rule`. */
bool tagc_interface_matches(const char *rule, const char *name);

/* Sets the diagnosis and its words. */
void tagc_judge(struct tagc_findings *findings);
__attribute__((format(printf, 3, 4))) void tagc_diagnosis_set(struct tagc_findings *findings,
                                                              enum tagc_diagnosis diagnosis, const char *format, ...);

/* -- the reports ------------------------------------------------------------------------------------------------- */
void tagc_report_text(const struct tagc_findings *findings, FILE *out, bool colour);
void tagc_report_json(const struct tagc_findings *findings, FILE *out);

/* Words for machines and roles, used by both. */
const char *tagc_machine_words(const struct tagc_image *image, char words[48]);
const char *tagc_doctor_role_words(enum tagc_role role);

/* The version of an object that is or contains NCCL, "" if unknown. */
const char *tagc_object_version(const struct tagc_object *object);

/* True for version 2.`least` or newer, and for "". */
bool tagc_version_reaches(const char *version, unsigned least);

/* True for version 2.18 or newer, and for "". */
bool tagc_version_supported(const char *version);

#endif
