/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report: reports on a job from its traces. See tagc-report(1).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/program/command_line.h"
#include "env/program/output.h"
#include "env/program/terminal.h"
#include "env/units.h"
#include "interpose/tagc-report/events/tensorboard.h"
#include "interpose/tagc-report/live/live.h"
#include "interpose/tagc-report/read/format.h"
#include "interpose/tagc-report/read/paths.h"
#include "interpose/tagc-report/show/html.h"
#include "interpose/tagc-report/show/perfetto.h"
#include "interpose/tagc-report/show/report.h"

enum { READ = 0, UNREADABLE = 1 };

struct request {
  struct tagc_volume_facts facts;
  struct tagc_step_range steps;
  bool characterise, live;
  double interval;                    /* of the live screen, in seconds; 0: not given */
  const char *json, *html, *perfetto; /* files; "": standard output; NULL: none */
  const char *tensorboard;            /* a folder; NULL: none */
  struct tagc_paths traces;
};

/* "7" or "7-9" */
static bool set_steps(void *request, const char *value) {
  struct tagc_step_range *steps = &((struct request *)request)->steps;
  const char *end;
  const bool first = tagc_units_read(value, false, &steps->first, &end);
  steps->last = steps->first;
  const bool last = first && (*end != '-' || tagc_units_read(end + 1, false, &steps->last, &end));
  return last && !*end && steps->first && steps->first <= steps->last;
}

#define TO(type, field) .kind = TAGC_ARGUMENT_##type, .offset = offsetof(struct request, field)
#define NUMBER(field) .value = "N", TO(COUNT, facts.field), .accepts = "1 to 1000000000000000", .without = {"live"}
/* clang-format off */
static const struct tagc_argument rows[] = {
  {.name = "live", TO(FLAG, live), .help = "follow a running job on the screen; q ends it"},
  {.name = "interval", .with = "live", .value = "SECONDS", TO(REAL, interval), .accepts = "0.1 to 3600",
   .help = "time from one screen to the next; default: 1"},
  {.name = "html", .without = {"live"}, .value = "FILE", TO(FILE, html),
   .help = "also write a page for browsers; it loads nothing"},
  {.name = "perfetto", .without = {"live"}, .value = "FILE", TO(FILE, perfetto),
   .help = "also write a timeline of calls, which ui.perfetto.dev opens"},
  {.name = "steps", .with = "perfetto", .value = "N[-M]", TO(CALL, steps), .accepts = "a number, or two as 7-9",
   .set = set_steps, .help = "limit the timeline to these steps of a rank, counted from 1"},
  {.name = "tensorboard", .without = {"live"}, .value = "DIR", TO(FILE, tensorboard),
   .help = "also write steps and losses into this folder, for TensorBoard"},
  {.name = "json", .without = {"live"}, .value = "FILE", .optional = true, TO(FILE, json),
   .help = "write one JSON document to FILE, or in place of the text"},
  {.name = "characterise", .without = {"live"}, TO(FLAG, characterise),
   .help = "print tables of volumes, frequencies, sizes of messages and bandwidths, in place of the report"},
  {.name = "parameters", NUMBER(parameters),
   .help = "parameters of the model, for the formulas of volume; default: those of the trace"},
  {.name = "layers", NUMBER(layers), .help = "its layers"},
  {.name = "hidden", NUMBER(hidden), .help = "its hidden size"},
  {.name = "tokens", NUMBER(tokens), .help = "tokens of a microbatch of one rank"},
  {.name = "microbatches", NUMBER(microbatches), .help = "microbatches in a step"},
};
/* clang-format on */

static const struct tagc_command_line command_line = {
  .program = "tagc-report",
  .head = "usage: tagc-report [OPTION]... TRACE...\n"
          "Reports the traces of a job: its network, layer by layer, and whether TAGC helps.\n"
          "\n"
          "  TRACE              a file of TAGC_TRACE, a prefix (PREFIX-*.trace),\n"
          "                     or a folder (all of its files *.trace)\n",
  .tail = "\nExit status: 0 reported; 1 nothing could be read, or the output not be written; 2 wrong usage.\n",
  .indent = 21,
  .rows = rows,
  .count = sizeof rows / sizeof *rows,
};

static const char standard_output[] = "standard output";

static int fail(const char *what, const char *why) {
  return tagc_fail(command_line.program, UNREADABLE, "%s: %s", what, why);
}

/* -- arguments ----------------------------------------------------------------------------------------------------- */

static bool begins_as_trace(const char *path) {
  char magic[sizeof TAGC_TRACE_MAGIC - 1];
  FILE *file = fopen(path, "rb");
  bool does = file && fread(magic, sizeof magic, 1, file) == 1 && memcmp(magic, TAGC_TRACE_MAGIC, sizeof magic) == 0;
  if (file)
    fclose(file);
  return does;
}

/* Protects traces, which nobody can make again: an option without FILE takes the next word. -1: go on. */
static int check_output(const struct request *r, const char *option, const char *path) {
  struct stat output;
  if (!path || !*path)
    return -1;
  if (strncmp(path, "--", 2) == 0)
    return tagc_refuse(&command_line, "%s needs the name of a file to write, not %s", option, path);
  bool spoils = stat(path, &output) == 0 && S_ISREG(output.st_mode) && begins_as_trace(path);
  for (size_t i = 0; i < r->traces.count; i++)
    spoils |= tagc_output_is(path, r->traces.paths[i]);
  return spoils ? tagc_refuse(&command_line, "%s would overwrite a trace: %s", option, path) : -1;
}

/* Checks that need all arguments. -1: go on; otherwise the exit status. */
static int check_all(const struct request *r) {
  const char *const outputs[][2] = {{"--html", r->html}, {"--perfetto", r->perfetto}, {"--json", r->json}};
  if (r->tensorboard && strncmp(r->tensorboard, "--", 2) == 0)
    return tagc_refuse(&command_line, "--tensorboard needs the name of a folder, not %s", r->tensorboard);
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
    int result = check_output(r, outputs[i][0], outputs[i][1]);
    if (result >= 0)
      return result;
    for (size_t k = 0; k < i; k++)
      if (outputs[i][1] && outputs[k][1] && tagc_output_is(outputs[i][1], outputs[k][1]))
        return tagc_refuse(&command_line, "%s and %s would write the same file: %s", outputs[k][0], outputs[i][0],
                           outputs[i][1]);
  }
  if (!r->traces.count)
    return tagc_refuse(&command_line, "nothing to report: give traces, or their folder");
  return -1;
}

/* The live screen is all that a call can show. Returns the exit status. */
static int follow(const struct request *r, char **words) {
  if (!*words)
    return tagc_refuse(&command_line, "nothing to follow: give traces, or their folder");
  return tagc_live_run(command_line.program, words, r->interval ? r->interval : 1);
}

/* -1: go on; otherwise the exit status. */
static int parse(char **argv, struct request *r) {
  int result = tagc_command_line_parse(&command_line, argv, r, stdout);
  if (result == 0) {
    const int error = tagc_output_flush(stdout);
    return error ? fail(standard_output, strerror(error)) : READ;
  }
  if (result < 0 && r->live)
    return follow(r, argv + 1);
  for (char **word = argv + 1; result < 0 && *word; word++) {
    const char *why = tagc_paths_add(&r->traces, *word);
    result = why ? fail(*word, why) : result;
  }
  return result < 0 ? check_all(r) : result;
}

/* -- output -------------------------------------------------------------------------------------------------------- */

/* TENSORBOARD: the first run; the others follow. */
enum output { TEXT, TRAITS, JSON, HTML, PERFETTO, TENSORBOARD };

/* False: not written, see `why`. */
static bool write_output(unsigned output, const struct request *request, const struct tagc_report *report, FILE *to,
                         char why[TAGC_TRACE_WHY]) {
  switch (output) {
  case TEXT: tagc_report_print(report, to); return true;
  case TRAITS: tagc_report_characterise(report, to); return true;
  case JSON: tagc_report_json(report, to); return true;
  case HTML: return tagc_html_write(report->summary, &request->facts, to);
  case PERFETTO: return tagc_perfetto_write(report->summary, request->steps, to, why);
  default: return tagc_tensorboard_write(report->summary, output - TENSORBOARD, to);
  }
}

/* Writes one kind of output to a file, or ("") to standard output. Returns 0, or the exit status. */
static int write_to(const struct request *request, const struct tagc_report *report, const char *path,
                    unsigned output) {
  char why[TAGC_TRACE_WHY] = "no memory";
  struct tagc_output file = {.to = stdout};
  if (*path && !tagc_output_open(&file, path))
    return fail(path, strerror(errno));
  const bool written = write_output(output, request, report, file.to, why);
  const int error = *path ? tagc_output_close(&file, written) : tagc_output_flush(stdout);
  if (!written)
    return fail(*path ? path : standard_output, why);
  return error ? fail(*path ? path : standard_output, strerror(error)) : READ;
}

static bool make_folder(const char *path) {
  struct stat status;
  return mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &status) == 0 && S_ISDIR(status.st_mode));
}

/* Writes the runs into folders of their own: a run is a folder there. Those of an earlier report are replaced. */
static int write_runs(const struct request *request, const struct tagc_report *report) {
  const char *folder = request->tensorboard;
  char name[32], *path = NULL;
  int result = make_folder(folder) ? READ : fail(folder, strerror(errno));
  for (size_t i = 0; i < tagc_tensorboard_runs(report->summary) && !result; i++) {
    tagc_tensorboard_run(report->summary, i, name);
    if (asprintf(&path, "%s/%s", folder, name) < 0)
      return fail(folder, "no memory");
    result = make_folder(path) ? READ : fail(path, strerror(errno));
    free(path);
    if (result || asprintf(&path, "%s/%s/" TAGC_TENSORBOARD_FILE, folder, name) < 0)
      return result ? result : fail(folder, "no memory");
    result = write_to(request, report, path, TENSORBOARD + (unsigned)i);
    free(path);
  }
  return result;
}

static int put_all(const struct request *request, const struct tagc_report *report) {
  const bool read = report->summary->rank_count > 0, to_stdout = request->json && !*request->json;
  int result = READ;
  if (read && request->html)
    result = write_to(request, report, request->html, HTML);
  if (read && request->perfetto && !result)
    result = write_to(request, report, request->perfetto, PERFETTO);
  if (read && request->tensorboard && !result)
    result = write_runs(request, report);
  if (request->json && !result)
    result = write_to(request, report, request->json, JSON);
  if (!to_stdout && !result)
    result = write_to(request, report, "", request->characterise && read ? TRAITS : TEXT);
  if (!read && !result)
    result = fail("nothing could be read", report->summary->problem_count ? report->summary->problems[0] : "no traces");
  return result;
}

static int report_all(const struct request *request) {
  struct tagc_report report;
  bool made = tagc_report_make(&report, request->traces.paths, request->traces.count, &request->facts);
  int result = made ? put_all(request, &report) : fail("traces", "no memory");
  tagc_report_free(&report);
  return result;
}

int main(int argc, char **argv) {
  (void)argc;
  struct request request = {.json = NULL};
  int status = parse(argv, &request);
  if (status < 0)
    status = report_all(&request);
  tagc_paths_free(&request.traces);
  return status;
}
