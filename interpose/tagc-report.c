/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report: what traces tell of a job. See tagc-report(1).
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "interpose/trace_merge.h"
#include "interpose/trace_report.h"

static const char usage[] =
  "usage: tagc-report [OPTION]... TRACE...\n"
  "Says what the traces of a job tell: what its network does, layer by layer, and whether TAGC helps.\n"
  "\n"
  "  TRACE              a file that TAGC_TRACE has written, or a folder: all of its files *.trace\n"
  "  --json[=FILE]      write one JSON document to FILE, or in place of the text\n"
  "  --parameters N     parameters of the model, for the formulas of volume; without it, as the trace has them\n"
  "  --layers N         its layers\n"
  "  --hidden N         its hidden size\n"
  "  --tokens N         tokens of a microbatch of one rank\n"
  "  --microbatches N   microbatches in a step\n"
  "  --help, --version\n"
  "\n"
  "Exit status: 0 reported; 1 nothing could be read, or the output not be written; 2 wrong usage.\n";

enum { READ = 0, UNREADABLE = 1, WRONG_USAGE = 2 };

struct request {
  struct tagc_volume_facts facts;
  const char *json;                 /* the file; "": standard output; NULL: none */
  char **paths;
  size_t count;
};

static int refuse(const char *what, const char *argument)
{
  fprintf(stderr, "tagc-report: %s%s%s (tagc-report --help lists the options)\n", what, *argument ? " " : "", argument);
  return WRONG_USAGE;
}

static int fail(const char *what, const char *why)
{
  fprintf(stderr, "tagc-report: %s: %s\n", what, why);
  return UNREADABLE;
}

/* -- arguments ----------------------------------------------------------------------------------------------------------- */

static bool add_path(struct request *r, const char *folder, const char *name)
{
  size_t size = (folder ? strlen(folder) + 1 : 0) + strlen(name) + 1;
  char *path = malloc(size);
  if (!path || !TAGC_SUM_ROOM(r->paths, r->count)) {
    free(path);
    return false;
  }
  snprintf(path, size, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
  r->paths[r->count++] = path;
  return true;
}

static int is_trace(const struct dirent *entry)
{
  size_t length = strlen(entry->d_name);
  return length > 6 && strcmp(entry->d_name + length - 6, ".trace") == 0;
}

/* -1: go on. */
static int add_traces(struct request *r, const char *path)
{
  struct stat status;
  struct dirent **entries = NULL;
  if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))
    return add_path(r, NULL, path) ? -1 : fail(path, "no memory");
  int n = scandir(path, &entries, is_trace, alphasort), result = -1;
  if (n < 0)
    return fail(path, strerror(errno));
  if (n == 0)
    result = fail(path, "no file in it ends with .trace");
  for (int i = 0; i < n; i++) {
    if (result < 0 && !add_path(r, path, entries[i]->d_name))
      result = fail(path, "no memory");
    free(entries[i]);
  }
  free(entries);
  return result;
}

/* The options that take a number. */
static uint64_t *number_of(struct request *r, const char *name, size_t length)
{
  const struct {
    const char *name;
    uint64_t *to;
  } numbers[] = {{"--parameters", &r->facts.parameters}, {"--layers", &r->facts.layers}, {"--hidden", &r->facts.hidden},
                 {"--tokens", &r->facts.tokens}, {"--microbatches", &r->facts.microbatches}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (strlen(numbers[i].name) == length && strncmp(numbers[i].name, name, length) == 0)
      return numbers[i].to;
  return NULL;
}

static bool parse_number(const char *text, uint64_t *to)
{
  char *end;
  errno = 0;
  *to = strtoull(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && !*end && !errno && *to && *to <= UINT64_C(1) << 60;
}

/* -1: go on; otherwise the exit status. */
static int parse(int argc, char **argv, struct request *r)
{
  bool options = true;
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i];
    size_t length = strcspn(a, "=");
    uint64_t *number = number_of(r, a, length);
    if (!options || a[0] != '-' || !a[1]) {
      int result = add_traces(r, a);
      if (result >= 0)
        return result;
    } else if (strcmp(a, "--") == 0)
      options = false;
    else if (strcmp(a, "--json") == 0)
      r->json = "";
    else if (strncmp(a, "--json=", 7) == 0 && a[7])
      r->json = a + 7;
    else if (number) {
      const char *value = a[length] ? a + length + 1 : i + 1 < argc ? argv[++i] : "";
      if (!parse_number(value, number))
        return refuse(a, "needs a number from 1 to 1152921504606846976");
    } else if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0)
      return fputs(usage, stdout) < 0 || fflush(stdout) != 0;
    else if (strcmp(a, "--version") == 0)
      return puts("tagc-report " PACKAGE_VERSION) < 0 || fflush(stdout) != 0;
    else
      return refuse("unknown option", a);
  }
  return r->count ? -1 : refuse("what is to be reported? Give traces, or the folder that they are in", "");
}

/* -- output -------------------------------------------------------------------------------------------------------------- */

/* Writes one kind of output to a file, or ("") to standard output. 0, or the exit status. */
static int put(const struct tagc_report *report, const char *path, void (*write)(const struct tagc_report *, FILE *))
{
  FILE *to = *path ? fopen(path, "w") : stdout;
  if (!to)
    return fail(path, strerror(errno));
  errno = 0;
  write(report, to);
  bool failed = fflush(to) != 0 || ferror(to);
  int error = errno;
  if (to != stdout && fclose(to) != 0 && !failed) {
    failed = true;
    error = errno;
  }
  return failed ? fail(*path ? path : "standard output", strerror(error ? error : EIO)) : READ;
}

static int report_all(const struct request *request)
{
  struct tagc_report report;
  int result = READ;
  if (!tagc_report_make(&report, request->paths, request->count, &request->facts)) {
    tagc_report_free(&report);
    return fail("traces", "no memory");
  }
  if (request->json)
    result = put(&report, request->json, tagc_report_json);
  if (!result && !(request->json && !*request->json))
    result = put(&report, "", tagc_report_print);
  if (!result && !report.summary->rank_count)
    result = fail("nothing could be read", report.summary->problem_count ? report.summary->problems[0] : "no traces");
  tagc_report_free(&report);
  return result;
}

int main(int argc, char **argv)
{
  struct request request = {.json = NULL};
  int status = parse(argc, argv, &request);
  if (status < 0)
    status = report_all(&request);
  for (size_t i = 0; i < request.count; i++)
    free(request.paths[i]);
  free(request.paths);
  return status;
}
