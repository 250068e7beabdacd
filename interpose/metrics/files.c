/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/metrics/files.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "env/files.h"
#include "env/host.h"
#include "env/log.h"
#include "env/numbers.h"
#include "env/signals.h"

enum { NAMES_MOST = 1000 };

static struct {
  char stem[PATH_MAX]; /* of both names, without the rank */
  const char *run;
  int rank;
  bool wants[2]; /* by format */
  bool warned;
  struct tagc_metrics_text text[2];
  char prometheus[PATH_MAX], lines[PATH_MAX]; /* their names */
  struct tagc_kept_file file;                 /* of lines */
  off_t good;                                 /* bytes of whole lines */
} out = {.text = {{.format = TAGC_METRICS_PROMETHEUS}, {.format = TAGC_METRICS_JSON}}, .file = {.file = -1}};

/* If the name ends so, cuts that off. */
static bool cut_ending(char *name, const char *ending) {
  const size_t length = strlen(name), size = strlen(ending);
  if (length < size || strcmp(name + length - size, ending) != 0)
    return false;
  name[length - size] = '\0';
  return true;
}

void tagc_metrics_name(const char *prefix, struct tagc_figures_view *view) {
  const int told = tagc_host_job_rank();
  snprintf(out.stem, sizeof out.stem, "%s", prefix);
  const bool prometheus = cut_ending(out.stem, ".prom"), lines = !prometheus && cut_ending(out.stem, ".jsonl");
  out.wants[TAGC_METRICS_PROMETHEUS] = !lines;
  out.wants[TAGC_METRICS_JSON] = !prometheus;
  const char *slash = strrchr(out.stem, '/');
  out.run = slash ? slash + 1 : out.stem;
  out.rank = told >= 0 ? told : tagc_log_rank() >= 0 ? tagc_log_rank() : 0;
  view->run = out.run;
  view->rank = out.rank;
}

/* PREFIX-rank3.prom; false: too long. */
__attribute__((format(printf, 2, 3))) static bool name_metrics_file(char path[PATH_MAX], const char *rest, ...) {
  va_list arguments;
  int used = snprintf(path, PATH_MAX, "%s-rank%d", out.stem, out.rank);
  if (used < 0 || used >= PATH_MAX)
    return false;
  va_start(arguments, rest);
  used += vsnprintf(path + used, (size_t)(PATH_MAX - used), rest, arguments);
  va_end(arguments);
  return used < PATH_MAX;
}

static void warn_once(const char *path, int error) {
  if (!out.warned)
    tagc_log(TAGC_LOG_WARN, "interpose", "TAGC_METRICS: %s: %s; the training goes on, and the next figures try again",
             path, tagc_file_words(error));
  out.warned = true;
}

void tagc_metrics_lack(const char *what) {
  static atomic_bool said;
  if (!atomic_exchange(&said, true))
    tagc_log(TAGC_LOG_WARN, "interpose", "TAGC_METRICS: no %s; figures are missing", what);
}

static int write_prometheus(const struct tagc_metrics_text *text) {
  if (!name_metrics_file(out.prometheus, ".prom"))
    return ENAMETOOLONG;
  return tagc_file_replace(out.prometheus, text->at, text->used);
}

static int open_lines(void) {
  int error = EEXIST;
  out.good = 0;
  for (int turn = 1; turn <= NAMES_MOST && error == EEXIST; turn++) {
    const bool named =
      turn == 1 ? name_metrics_file(out.lines, ".jsonl") : name_metrics_file(out.lines, "-%d.jsonl", turn);
    error = named ? tagc_file_keep(&out.file, out.lines) : ENAMETOOLONG;
  }
  return error;
}

/* A full disk takes a part of a line: removes it, and keeps the file. */
static int write_json_line(const struct tagc_metrics_text *text) {
  int error = out.file.file < 0 ? open_lines() : tagc_file_look(&out.file);
  if (!error)
    error = tagc_write_all(out.file.file, text->at, text->used);
  if (!error)
    out.good += (off_t)text->used;
  else if (tagc_file_look(&out.file) != 0 || ftruncate(out.file.file, out.good) != 0 ||
           lseek(out.file.file, out.good, SEEK_SET) < 0)
    tagc_file_drop(&out.file); /* the next line begins a new file */
  return error;
}

static int write_format(const struct tagc_figures_view *view, enum tagc_metrics_format format) {
  struct tagc_metrics_text *text = &out.text[format];
  struct tagc_held_signals held;
  text->failed = false;
  tagc_families_write(text, view);
  if (text->failed)
    return ENOMEM;
  tagc_signals_hold(&held);
  const int error = format == TAGC_METRICS_JSON ? write_json_line(text) : write_prometheus(text);
  tagc_signals_release(&held, error);
  return error;
}

void tagc_metrics_write(const struct tagc_figures_view *view) {
  const struct tagc_numbers numbers = tagc_numbers_begin();
  for (int format = TAGC_METRICS_PROMETHEUS; format <= TAGC_METRICS_JSON; format++) {
    const int error = out.wants[format] ? write_format(view, (enum tagc_metrics_format)format) : 0;
    if (error == ENOMEM)
      tagc_metrics_lack("memory");
    else if (error)
      warn_once(format == TAGC_METRICS_JSON ? (*out.lines ? out.lines : out.stem) : out.prometheus, error);
  }
  tagc_numbers_end(&numbers);
}
