/* SPDX-License-Identifier: BSD-3-Clause
 * Prints lists from the tables that the library is made of. `print_tables LIST` writes to stdout
 *   options, local, renames, reasons, entries, metrics   items of a list in mdoc(7), for libtagc-preload(7)
 *   run                                  those of tagc-run's options, for its page
 *   bash, zsh                            the same for its completions
 * Run while the manual is built, so it needs nothing that is made for the machine that the library is for.
 */
#include <stdio.h>
#include <string.h>

#include "env/program/terminal.h"
#include "env/tagc-run/run.h"
#include "layermap/model/model.h"

/* Text as the manual's source has it, with a full stop behind it. */
static void wrapped(const char *text) {
  tagc_put_wrapped(stdout, text, 0, 0, 77);
  puts(".");
}

/* What an option accepts, as an argument of mdoc(7). */
static const char *accepted(const struct tagc_option *o) {
  switch (o->kind) {
  case TAGC_OPTION_CHOICE: return o->text;
  case TAGC_OPTION_NUMBER: return "number";
  case TAGC_OPTION_BYTES: return "bytes Ns Op K|M|G";
  case TAGC_OPTION_SCHEDULE: return "fraction Ns Op ,fraction@cycle ...";
  case TAGC_OPTION_BUDGET: return "time|percent%";
  case TAGC_OPTION_INPUT: return o == &tagc_option_table[TAGC_OPTION_layermap] ? "file|torch|infer" : "file";
  case TAGC_OPTION_OUTPUT: return "prefix";
  default: return "text";
  }
}

static void explain(const struct tagc_option *o) {
  char preset[TAGC_OPTION_PRESET], limits[TAGC_RUN_LIMITS];
  wrapped(o->help);
  if (*tagc_run_limits(o, limits))
    printf("Accepted: %s.\n", limits);
  if (*tagc_option_preset(o, preset))
    printf("Default: %s.\n", preset);
}

#define EACH_OPTION(o) \
  for (const struct tagc_option *o = tagc_option_table; o < tagc_option_table + TAGC_OPTION_COUNT; o++)

static void options(void) {
  EACH_OPTION(o) {
    printf(".It Ev %s Ns = Ns Ar %s\n", o->variable, accepted(o));
    explain(o);
  }
}

/* The map is named apart. */
static void local(void) {
  EACH_OPTION(o) {
    const enum tagc_option_index i = (enum tagc_option_index)(o - tagc_option_table);
    if (tagc_option_is_local(i) && i != TAGC_OPTION_layermap)
      printf(".Ev %s ,\n", o->variable);
  }
}

static void renames(void) {
  for (const struct tagc_option_rename *r = tagc_option_renames; r->old; r++)
    printf(".It\n.Ev %s\nis\n.Ev %s\nnow\n", r->old, tagc_option_table[r->option].variable);
}

static void run(void) {
  char name[TAGC_RUN_NAME];
  EACH_OPTION(o) {
    printf(".It Fl -%s Ar %s\n", tagc_run_name(o, name) + 2, accepted(o));
    explain(o);
  }
}

/* The words that the value of an option may be, or begin with: "off|observe"; "" where none are known. */
static const char *words_of(const struct tagc_option *o, char text[160]) {
  text[0] = '\0';
  switch (o - tagc_option_table) {
  case TAGC_OPTION_codec:
    strcpy(text, "auto"
#define CODEC(name) "|" #name
#include "kernels/codec/codecs.def"
    );
    break;
  case TAGC_OPTION_layers:
  case TAGC_OPTION_skip:
    strcpy(text, "@paper|@all");
    for (int kind = TAGC_KIND_ATTN; kind <= TAGC_KIND_EXPERT; kind *= 2)
      snprintf(text + strlen(text), 160 - strlen(text), "|%s", tagc_kind_name((enum tagc_kind)kind));
    break;
  case TAGC_OPTION_layermap: strcpy(text, "torch|infer"); break;
  default:
    if (o->kind == TAGC_OPTION_CHOICE)
      snprintf(text, 160, "%s", o->text);
  }
  for (char *c = text; *c; c++)
    *c = *c == '|' ? ' ' : *c;
  return text;
}

static bool is_path(const struct tagc_option *o) {
  return o->kind == TAGC_OPTION_INPUT || o->kind == TAGC_OPTION_OUTPUT;
}

/* A case for each option: $words, and $files, to choose its value from. */
static void bash(void) {
  char name[TAGC_RUN_NAME], words[160];
  EACH_OPTION(o) {
    printf("    %s) ", tagc_run_name(o, name));
    if (is_path(o))
      printf("files=yes ");
    printf("words='%s' ;;\n", words_of(o, words));
  }
}

/* A specification of _arguments for each. */
static void zsh(void) {
  char name[TAGC_RUN_NAME], words[160];
  EACH_OPTION(o) {
    tagc_run_name(o, name);
    printf("  '%s=[%s]:%s:", name, o->variable, name + 2);
    if (is_path(o) && *words_of(o, words))
      printf("_alternative \"words\\:word\\:(%s)\" \"files\\:file\\:_files\"'\n", words);
    else if (is_path(o))
      printf("_files'\n");
    else if (*words_of(o, words))
      printf("(%s)'\n", words);
    else
      printf("'\n");
  }
}

static void reasons(void) {
#define REASON(name, words, advice) \
  if (strcmp(#name, "compressed") != 0) \
    printf(".It\n%s%s%s\n.Pq Ql %s\n", words, *(advice) ? ": " : "", advice, #name);
#include "interpose/policy/reasons.def"
}

/* The labels of a scope of metrics.def, beside run and rank. */
#define LABELS_PROCESS ""
#define LABELS_COMM "communicator"
#define LABELS_SIDE "communicator, side"
#define LABELS_AB "communicator"
#define LABELS_ABSIDE "communicator, side"
#define LABELS_COLLECTIVE "communicator, collective"
#define LABELS_SLOTS "communicator, collective"
#define LABELS_TRAFFIC "communicator, collective, destination"
#define LABELS_REASON "communicator, collective, reason"
#define LABELS_LARGE "communicator, reason"
#define LABELS_PHASE "communicator, collective, phase"
#define LABELS_LAYER "communicator, collective, slot, layer"
#define LABELS_LAYERTRAFFIC "communicator, collective, slot, layer, destination"

/* `more`: labels beside those of the scope. */
static void metric(const char *name, const char *type, const char *labels, const char *more, const char *help) {
  printf(".It Ql tagc_%s\n.Pq %s%s%s%s%s\n%s\n", name, type, *labels || *more ? "; " : "", labels,
         *labels && *more ? ", " : "", more, help);
}

static void metrics(void) {
#define INFO(scope, name, more, help) metric(#name, "always 1", LABELS_##scope, more, help);
#define GAUGE(scope, name, value, help) metric(#name, "gauge", LABELS_##scope, "", help);
#define COUNTER(scope, name, value, help) metric(#name, "counter", LABELS_##scope, "", help);
#define SUMMARY(scope, name, sum, count, help) metric(#name, "summary", LABELS_##scope, "", help);
#include "interpose/metrics/metrics.def"
}

static void entries(void) {
#define ENTRY(name) printf(".It\n.Fn " #name "\n");
#include "interpose/nccl/entries.def"
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*print)(void);
  } lists[] = {{"options", options}, {"local", local}, {"renames", renames}, {"reasons", reasons}, {"entries", entries},
               {"run", run},         {"bash", bash},   {"zsh", zsh},         {"metrics", metrics}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    if (argc == 2 && strcmp(argv[1], lists[i].name) == 0) {
      lists[i].print();
      return fflush(stdout) != 0;
    }
  fprintf(stderr, "usage: print_tables options|local|renames|reasons|entries|run|bash|zsh|metrics\n");
  return 2;
}
