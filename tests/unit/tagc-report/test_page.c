/* SPDX-License-Identifier: BSD-3-Clause
 * Pages and timelines of synthetic jobs: well-formed, self-contained, bounded, escaped, with the summary's numbers.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/tagc-report/show/html.h"
#include "interpose/tagc-report/show/page.h"
#include "interpose/tagc-report/show/perfetto.h"
#include "tests/unit/tap.h"
#include "tests/unit/tagc-report/make.h"

enum { RANKS = 4 };

static char folder[] = "/tmp/tagc-pages.XXXXXX";

/* -- what is looked at --------------------------------------------------------------------------------------------- */

struct text {
  char *bytes;
  size_t size;
};

static struct tagc_summary *read_job(const struct trace_job *job, char paths[][64]) {
  char *list[64];
  for (int i = 0; i < job->ranks; i++) {
    struct trace t = {0};
    snprintf(paths[i], 64, "%s/%d.trace", folder, i);
    list[i] = paths[i];
    trace_job_rank(&t, job, i);
    trace_write(&t, paths[i]);
    trace_free(&t);
  }
  struct tagc_summary *summary = tagc_sum_read(list, (size_t)job->ranks);
  tagc_sum_roles(summary);
  return summary;
}

static struct text page_of(const struct tagc_summary *summary) {
  struct text text = {0};
  FILE *file = open_memstream(&text.bytes, &text.size);
  ok(tagc_html_write(summary, NULL, file), "a page is written");
  fclose(file);
  return text;
}

static struct text timeline_of(const struct tagc_summary *summary, struct tagc_step_range range) {
  struct text text = {0};
  char why[TAGC_TRACE_WHY] = "";
  FILE *file = open_memstream(&text.bytes, &text.size);
  ok(tagc_perfetto_write(summary, range, file, why), "a timeline is written");
  fclose(file);
  return text;
}

#if defined __SANITIZE_ADDRESS__
/* The sanitizer's strstr() would measure the rest of a page, byte by byte, each time. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "intercept_strstr=0"; }
#endif

static size_t count_of(const char *text, const char *what) {
  size_t count = 0;
  for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
    count++;
  return count;
}

/* -- HTML ---------------------------------------------------------------------------------------------------------- */

/* True if every element is closed in order. `why`: the first error. */
static bool is_well_formed(const char *page, char why[80]) {
  static char open[64][16];
  size_t depth = 0;
  for (const char *at = page; (at = strchr(at, '<')); at++) {
    const char *end = strchr(at, '>'), *name = at + 1 + (at[1] == '/');
    char tag[16] = "";
    snprintf(why, 80, "%.60s", at);
    if (!end || strcspn(name, " >/\n") >= sizeof tag)
      return false;
    memcpy(tag, name, strcspn(name, " >/\n"));
    if (at[1] == '!' || end[-1] == '/' || strcmp(tag, "meta") == 0)
      continue;
    if (at[1] != '/') {
      if (depth == 64)
        return false;
      memcpy(open[depth++], tag, sizeof tag);
    } else if (!depth || strcmp(open[--depth], tag) != 0)
      return false;
  }
  return depth == 0;
}

/* True if no id occurs twice, and every referenced one exists. */
static bool has_good_ids(const char *page) {
  for (const char *at = page; (at = strstr(at, " id=\"")); at++) {
    char id[80];
    snprintf(id, sizeof id, "%.*s", (int)strcspn(at + 5, "\"") + 6, at);
    if (count_of(page, id) != 1)
      return false;
  }
  for (const char *at = page; (at = strstr(at, "href=\"#")); at++) {
    char id[80];
    snprintf(id, sizeof id, " id=\"%.*s\"", (int)strcspn(at + 7, "\""), at + 7);
    if (!strstr(page, id))
      return false;
  }
  return true;
}

/* True if each section with figures has tables, and each picture a title and a description. */
static bool has_tables(const char *page) {
  const char *section = page;
  while ((section = strstr(section, "<section "))) {
    const char *end = strstr(section, "</section>"), *figure = strstr(section, "<figure "),
               *table = strstr(section, "<table>");
    if (figure && figure < end && (!table || table > end))
      return false;
    section = end;
  }
  return count_of(page, "<svg ") == count_of(page, "role=\"img\" aria-labelledby=\"fig-") &&
         count_of(page, "<svg ") == count_of(page, "<desc id=\"fig-") &&
         count_of(page, "<table>") == count_of(page, "<caption>");
}

static bool loads_nothing(const char *page) {
  static const char *const words[] = {"<script", "http://", "https://", " src=",   "url(",
                                      "@import", "<link",   "<img",     "<iframe", "xlink:"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strstr(page, words[i])) {
      note("the page has %s", words[i]);
      return false;
    }
  return true;
}

/* Checks coordinates and cells. */
static bool has_numbers_alone(const char *page) {
  return !strstr(page, "=\"nan") && !strstr(page, "=\"-nan") && !strstr(page, "=\"inf") && !strstr(page, ">nan") &&
         !strstr(page, " nan") && !strstr(page, "nan%");
}

static void check_page(const struct text *page, const char *what) {
  char why[80];
  ok(is_well_formed(page->bytes, why), "%s: elements are closed in their order", what) || (note("%s", why), 0);
  ok(has_good_ids(page->bytes), "%s: ids are there, and once", what);
  ok(has_tables(page->bytes), "%s: pictures have words, and tables beside them", what);
  ok(loads_nothing(page->bytes), "%s: it stands alone", what);
  ok(has_numbers_alone(page->bytes), "%s: no strange numbers", what);
  ok(count_of(page->bytes, "<section ") == 11, "%s: all sections are there", what);
}

/* -- JSON ---------------------------------------------------------------------------------------------------------- */

static const char *skip_value(const char *at);

static const char *skip_string(const char *at) {
  for (at++; *at && *at != '"'; at++)
    if ((unsigned char)*at < 0x20 || (*at == '\\' && !strchr("\"\\/bfnrtu", *++at)))
      return NULL;
  return *at ? at + 1 : NULL;
}

static const char *skip_space(const char *at) { return at + strspn(at, " \t\n"); }

static const char *skip_members(const char *at, char end) {
  at = skip_space(at + 1);
  if (*at == end)
    return at + 1;
  for (;;) {
    if (end == '}') {
      if (*at != '"' || !(at = skip_string(at)) || *(at = skip_space(at)) != ':')
        return NULL;
      at++;
    }
    if (!(at = skip_value(at)))
      return NULL;
    at = skip_space(at);
    if (*at == end)
      return at + 1;
    if (*at != ',')
      return NULL;
    at = skip_space(at + 1);
  }
}

/* The end of the value; NULL: it is invalid. */
static const char *skip_value(const char *at) {
  at = skip_space(at);
  if (*at == '"')
    return skip_string(at);
  if (*at == '{' || *at == '[')
    return skip_members(at, *at == '{' ? '}' : ']');
  if (strncmp(at, "true", 4) == 0 || strncmp(at, "null", 4) == 0)
    return at + 4;
  if (strncmp(at, "false", 5) == 0)
    return at + 5;
  char *end;
  if (*at != '-' && (*at < '0' || *at > '9'))
    return NULL;
  strtod(at, &end);
  return end;
}

static bool is_json(const char *text) {
  const char *end = skip_value(text);
  return end && *skip_space(end) == '\0';
}

struct span {
  uint64_t lane;
  double from, to;
  size_t at;
};

static int by_begin(const void *a, const void *b) {
  const struct span *x = a, *y = b;
  if (x->lane != y->lane)
    return x->lane < y->lane ? -1 : 1;
  if (x->from != y->from)
    return x->from < y->from ? -1 : 1;
  return x->at < y->at ? -1 : 1;
}

/* The number of spans; 0 if any two of a lane overlap without being nested: viewers draw nothing else. */
static size_t nested_spans(const char *text, double *first) {
  size_t count = 0, all = count_of(text, "\"ph\":\"X\"");
  struct span *spans = calloc(all + 1, sizeof *spans), *open = calloc(all + 1, sizeof *open);
  bool nest = true;
  for (const char *at = text; (at = strstr(at, "\"ph\":\"X\"")); at++) {
    double dur = strtod(strstr(at, "\"dur\":") + 6, NULL);
    struct span span = {strtoull(strstr(at, "\"tid\":") + 6, NULL, 10), strtod(strstr(at, "\"ts\":") + 5, NULL), 0,
                        count};
    span.to = span.from + dur;
    spans[count++] = span;
  }
  qsort(spans, count, sizeof *spans, by_begin);
  *first = INFINITY;
  for (size_t i = 0, depth = 0; i < count; i++) {
    *first = fmin(*first, spans[i].from);
    while (depth && (open[depth - 1].lane != spans[i].lane || open[depth - 1].to <= spans[i].from + 1e-6))
      depth--;
    nest &= !depth || spans[i].to <= open[depth - 1].to + 1e-6;
    open[depth++] = spans[i];
  }
  free(spans);
  free(open);
  return nest ? count : 0;
}

/* -- cases --------------------------------------------------------------------------------------------------------- */

/* Both sides, two hosts: the page has the numbers of the judgements. */
static void test_sides(void) {
  struct trace_job job = trace_job_usual(RANKS, 60, 8);
  char paths[RANKS][64], number[32];
  job.hosts = 2;
  job.window = 6;
  job.jitter_ns = 2000000;
  struct tagc_summary *summary = read_job(&job, paths);
  struct tagc_ab_result ab;
  tagc_ab_compare(summary, &ab);
  struct text page = page_of(summary);
  check_page(&page, "both sides");
  ok(strstr(page.bytes, "<h1>Compression helps: ") != NULL, "the outcome is the headline");
  ok(count_of(page.bytes, "<figure id=\"fig-timeline") == 2, "a plain step and a compressed one are drawn");
  for (int side = TAGC_SUM_PLAIN; side <= TAGC_SUM_COMPRESSED; side++) {
    char cell[64];
    snprintf(cell, sizeof cell, "<td class=\"n\">%s</td>", tagc_format_count((double)ab.sent[side].between, number));
    ok(strstr(page.bytes, cell) != NULL, "the page has what is sent between hosts on side %d: %s", side, number);
    snprintf(cell, sizeof cell, "<td class=\"n\">%.3f</td>", ab.figures.mean_ms[side]);
    ok(strstr(page.bytes, cell) != NULL, "and its mean step");
  }
  const char *between = strstr(page.bytes, "<dt>Sent by a rank to other hosts in a step</dt>"),
             *inside = strstr(page.bytes, "<dt>And inside its host</dt>"),
             *whole = strstr(page.bytes, "<dt>Sent to other hosts in the whole run</dt>");
  ok(between && whole && between < whole && (!inside || (between < inside && inside < whole)),
     "the cards have the bytes between hosts first");
  const char *figure = strstr(page.bytes, "<figure id=\"fig-difference\""),
             *end = figure ? strstr(figure, "</figure>") : NULL,
             *wide = figure ? strstr(figure, "class=\"wide\"") : NULL;
  ok(end && (!wide || wide > end), "the interval fits into a narrow window, with zero in sight");
  ok(strstr(page.bytes, ">neither</text>") != NULL, "steps of neither side have a key");
  ok(strstr(page.bytes, ">\342\200\246</text>") && !strstr(page.bytes, ">64 B</text>"),
     "of sizes without calls there is a gap, no empty picture");
  ok(strstr(page.bytes, "class=\"line dash\"") != NULL, "residuals are drawn");
  struct tagc_volume_check checks[8];
  static const struct tagc_volume_facts nothing;
  size_t count = tagc_volume_checks(summary, &nothing, checks, 8);
  for (size_t i = 0; i < count && i < 8; i++) {
    char row[160];
    snprintf(row, sizeof row, "<td class=\"n\">%s</td>", tagc_format_count(checks[i].measured, number));
    ok(isnan(checks[i].measured) || strstr(page.bytes, row), "and the measured volume of %s", checks[i].what);
  }
  ok(count >= 2, "volumes are checked");
  ok(strstr(page.bytes, ">block.6<") || strstr(page.bytes, ">block.6 to"), "layers have their names");
  free(page.bytes);
  tagc_sum_free(summary);
}

/* Names in a trace never become markup. */
static void test_hostile(void) {
  struct trace t = {0};
  struct tagc_trace_process process = {.pid = 7, .realtime_ns = 1700000000000000000, .monotonic_ns = 1000};
  static const char evil[] = "<script>alert(1)</script>\"'&\001\377\342\200\256";
  char path[64], *list[] = {path};
  snprintf(path, sizeof path, "%s/evil.trace", folder);
  trace_process(&t, &process, evil, evil, evil);
  trace_name(&t, TAGC_TRACE_FUNCTIONS, 0, evil);
  trace_name(&t, TAGC_TRACE_FUNCTIONS, 1, "ncclReduceScatter");
  trace_name(&t, TAGC_TRACE_REASONS, 0, evil);
  trace_name(&t, TAGC_TRACE_ACTIONS, 0, evil);
  trace_name(&t, TAGC_TRACE_ACTIONS, 1, "compress");
  trace_options(&t, evil);
  trace_put(&t, COMM, 1, .identity = 5, .born_ns = 1000, .rank = 0, .nranks = 2, .function = 0);
  struct tagc_trace_lock lock = {.at_ns = 1500, .lock = 1, .calls = 2, .slots = 1, .gradients = 1, .confidence = 3};
  trace_lock(&t, 1, &lock, evil, evil);
  struct tagc_trace_slot slot = {.lock = 1, .count = 100, .voted = 1};
  trace_slot(&t, 1, &slot, evil, evil);
  for (uint64_t i = 1; i <= 40; i++) {
    trace_put(&t, CALL, 1, .number = i, .began_ns = 2000 + 100 * i, .host_ns = 50, .count = 100, .raw_bytes = 800,
              .inside = 400, .plain_inside = 400, .slot = i % 2 ? 0 : -1, .lock = 1, .cycle = (i + 1) / 2, .peer = -1,
              .thread = 1, .function = i % 2, .action = i % 4 == 1);
    if (i % 2 == 0) {
      trace_put(&t, STATE, 1, .cycle = i / 2, .lock = 1, .residual_norm = NAN, .gradient_norm = INFINITY,
                .error = i % 4 ? 0.5 : NAN);
      trace_put(&t, CYCLE, 1, .began_ns = 1900 + 100 * i, .ended_ns = 2100 + 100 * i, .cycle = i / 2, .lock = 1,
                .side = 7);
    }
  }
  trace_write(&t, path);
  trace_free(&t);
  struct tagc_summary *summary = tagc_sum_read(list, 1);
  tagc_sum_roles(summary);
  struct text page = page_of(summary), timeline = timeline_of(summary, (struct tagc_step_range){0});
  check_page(&page, "hostile names");
  ok(count_of(page.bytes, "&lt;script&gt;alert(1)&lt;/script&gt;&quot;'&amp;??") >= 6 && !strchr(page.bytes, '\001'),
     "names are escaped: %zu times", count_of(page.bytes, "&lt;script&gt;"));
  ok(is_json(timeline.bytes), "the timeline is JSON");
  ok(strstr(timeline.bytes, "alert(1)</script>\\\"'&") != NULL, "and names are escaped there, too");
  free(page.bytes);
  free(timeline.bytes);
  tagc_sum_free(summary);
}

static void test_empty(void) {
  char path[64], *list[] = {path};
  struct trace t = {0};
  snprintf(path, sizeof path, "%s/nothing", folder);
  struct tagc_summary *summary = tagc_sum_read(list, 1);
  struct text page = page_of(summary), timeline = timeline_of(summary, (struct tagc_step_range){0});
  check_page(&page, "no trace");
  ok(strstr(page.bytes, "<h1>No trace could be read</h1>") && strstr(page.bytes, "class=\"alert\""),
     "the headline says it, and why");
  ok(is_json(timeline.bytes), "its timeline is JSON");
  free(page.bytes);
  free(timeline.bytes);
  tagc_sum_free(summary);
  struct tagc_trace_process process = {.pid = 7};
  trace_process(&t, &process, "", "", "");
  trace_write(&t, path);
  trace_free(&t);
  summary = tagc_sum_read(list, 1);
  tagc_sum_roles(summary);
  page = page_of(summary);
  check_page(&page, "no calls");
  ok(count_of(page.bytes, "class=\"nothing\"") >= 6, "sections without data say why");
  char why[TAGC_TRACE_WHY] = "";
  ok(!tagc_perfetto_write(summary, (struct tagc_step_range){1, 2}, stderr, why) && strstr(why, "no steps"),
     "steps that are not there: %s", why);
  free(page.bytes);
  tagc_sum_free(summary);
}

/* A step with many calls is drawn with few elements. */
static void test_many(void) {
  struct trace_job job = trace_job_usual(RANKS, 12, 3000);
  char paths[RANKS][64];
  job.compressed = true;
  job.states = false;
  struct tagc_summary *summary = read_job(&job, paths);
  struct text page = page_of(summary);
  check_page(&page, "many calls");
  ok(count_of(page.bytes, "<rect") < 12000, "36,004 calls of a step are %zu bars", count_of(page.bytes, "<rect"));
  ok(count_of(page.bytes, " calls of AllGather, ") > 20, "and those that are together say so");
  ok(page.size < (4 << 20), "in %zu bytes", page.size);
  free(page.bytes);
  tagc_sum_free(summary);
}

/* What NCCL's profiler saw takes three columns of the table of ranks. */
static void test_profiled(void) {
  size_t cells[2];
  for (int profiled = 0; profiled < 2; profiled++) {
    struct trace_job job = trace_job_usual(RANKS, 20, 4);
    char paths[RANKS][64];
    job.on_gpu = true;
    job.profiled = profiled;
    struct tagc_summary *summary = read_job(&job, paths);
    struct text page = page_of(summary);
    check_page(&page, profiled ? "with kernels" : "without kernels");
    ok(count_of(page.bytes, "Network sends") == (size_t)profiled, "%s",
       profiled ? "has their columns" : "without them");
    const char *ranks = strstr(page.bytes, "id=\"ranks\""), *end = ranks ? strstr(ranks, "</table>") : NULL;
    cells[profiled] = end ? count_of(ranks, "<td") - count_of(end, "<td") : 0;
    free(page.bytes);
    tagc_sum_free(summary);
  }
  ok(cells[0] && cells[1] == cells[0] + 3 * RANKS, "and every rank has them: %zu cells, not %zu", cells[1], cells[0]);
}

/* All calls once, in their lanes; collectives align; a range contains its steps. */
static void test_timeline(bool on_gpu) {
  struct trace_job job = trace_job_usual(RANKS, 20, 4);
  char paths[RANKS][64], why[TAGC_TRACE_WHY];
  double first = 0;
  job.window = 4;
  job.hosts = 2;
  job.clock_skew_ns = -1000;
  job.on_gpu = job.profiled = on_gpu;
  struct tagc_summary *summary = read_job(&job, paths);
  uint64_t calls = 0;
  for (size_t i = 0; i < summary->rank_count; i++)
    calls += summary->ranks[i].calls.calls;
  struct text all = timeline_of(summary, (struct tagc_step_range){0}),
              some = timeline_of(summary, (struct tagc_step_range){3, 5});
  ok(is_json(all.bytes) && is_json(some.bytes), "timelines are JSON");
  ok(count_of(all.bytes, "\"cat\":\"call\"") == calls, "all %" PRIu64 " calls are there", calls);
  ok(count_of(some.bytes, "\"cat\":\"call\"") == RANKS * 3 * (3 * 4 + 1), "three steps have their calls: %zu",
     count_of(some.bytes, "\"cat\":\"call\""));
  ok(count_of(some.bytes, "\"cat\":\"step\"") == 3 * RANKS, "and are there: %zu",
     count_of(some.bytes, "\"cat\":\"step\""));
  bool nest = nested_spans(all.bytes, &first) > 0;
  ok(nest && first >= 0 && first < 1e6, "spans nest, and begin near 0: at %.3f us", first);
  nest = nested_spans(some.bytes, &first) > 0;
  ok(nest && first >= 0 && first < 1e5, "in a range, too: at %.3f us", first);
  ok(count_of(all.bytes, "\"ph\":\"s\"") == count_of(all.bytes, "\"ph\":\"f\"") &&
       count_of(some.bytes, "\"ph\":\"s\"") == 3 * (3 * 4 + 1),
     "arrows begin and end: %zu", count_of(some.bytes, "\"ph\":\"s\""));
  ok(count_of(some.bytes, "\"ph\":\"t\"") == (RANKS - 2) * count_of(some.bytes, "\"ph\":\"s\""), "and touch all ranks");
  ok(count_of(all.bytes, "\"name\":\"encode\"") > 0 && count_of(all.bytes, "wire, stream 1") == (on_gpu ? RANKS : 0),
     "times lie %s", on_gpu ? "on lanes of streams" : "under their calls");
  ok(count_of(some.bytes, "\"cat\":\"kernel\"") == (on_gpu ? RANKS * 3 * (3 * 4 + 1) : 0) &&
       count_of(all.bytes, "\"NCCL's kernels\"") == (on_gpu ? RANKS : 0),
     "NCCL's kernels have a lane: %zu", count_of(some.bytes, "\"cat\":\"kernel\""));
  ok(count_of(all.bytes, "\"collective\":\"0.7\"") == RANKS, "a collective has one id on all ranks");
  ok(strstr(all.bytes, "residual norm") && strstr(all.bytes, "bytes sent in a step") && strstr(all.bytes, " is born "),
     "counters and births");
  FILE *nowhere = fopen("/dev/null", "w");
  ok(!tagc_perfetto_write(summary, (struct tagc_step_range){21, 30}, nowhere, why) && strstr(why, "1 to 20"),
     "a range that is not there: %s", why);
  fclose(nowhere);
  /* As ncclAllGatherConfig and the like, which NCCL has from 2.31 on. */
  for (unsigned code = 0; code < 256; code++) {
    char **name = &summary->names.text[TAGC_TRACE_FUNCTIONS][code], *longer;
    if (!*name || asprintf(&longer, "%sConfig", *name) < 0)
      continue;
    free(*name);
    *name = longer;
  }
  struct text configured = timeline_of(summary, (struct tagc_step_range){3, 5});
  ok(count_of(configured.bytes, "\"ph\":\"s\"") == count_of(some.bytes, "\"ph\":\"s\""),
     "calls with a configuration are collectives, too: %zu arrows", count_of(configured.bytes, "\"ph\":\"s\""));
  free(configured.bytes);
  free(all.bytes);
  free(some.bytes);
  tagc_sum_free(summary);
}

/* The work of a stream does not overlap, although the calls were made at once; times are exact. */
static void test_stream(void) {
  struct trace t = {0};
  struct tagc_trace_process process = {.pid = 7, .realtime_ns = 1700000000000000123, .monotonic_ns = 1000000};
  char path[64], *list[] = {path};
  snprintf(path, sizeof path, "%s/0.trace", folder);
  trace_process(&t, &process, "host", "train", "0.1");
  trace_names(&t);
  trace_put(&t, COMM, 1, .identity = 5, .born_ns = 1000000, .rank = 0, .nranks = 2, .function = MADE_INIT);
  for (uint64_t i = 0; i < 2; i++) {
    trace_put(&t, CALL, 1, .number = i + 1, .began_ns = 1000001 + 501 * i, .host_ns = 100, .count = 4, .raw_bytes = 16,
              .slot = -1, .peer = -1, .thread = 1, .stream = 9, .function = MADE_ALL_GATHER);
    trace_put(&t, TIMES, 1, .call = i + 1, .exchange_ns = 2003, .by_device = 1);
  }
  trace_write(&t, path);
  trace_free(&t);
  struct tagc_summary *summary = tagc_sum_read(list, 1);
  struct text timeline = timeline_of(summary, (struct tagc_step_range){0});
  ok(count_of(timeline.bytes, "\"cat\":\"call\",\"ts\":0.501,\"dur\":0.100") == 1,
     "the second call begins 501 ns after the first one");
  ok(count_of(timeline.bytes, "\"cat\":\"wire\",\"ts\":0.000,\"dur\":2.003") == 1 &&
       count_of(timeline.bytes, "\"cat\":\"wire\",\"ts\":2.003,\"dur\":2.003") == 1,
     "and goes on the wire when that has left it");
  free(timeline.bytes);
  tagc_sum_free(summary);
}

static void swap(uint16_t *code) { *code = *code < 2 ? !*code : *code; }
static void swap_byte(uint8_t *code) { *code = *code < 2 ? !*code : *code; }

/* Another version of the library: codes 0 and 1 of every table are exchanged. */
static void swap_codes(struct tagc_trace_record *r) {
  if (r->kind == TAGC_TRACE_NAME)
    swap(&((struct tagc_trace_name *)r)->code);
  if (r->kind == TAGC_TRACE_CALL) {
    struct tagc_trace_call *call = (void *)r;
    swap(&call->function);
    swap(&call->reason);
    swap_byte(&call->action);
    swap_byte(&call->type);
    swap_byte(&call->op);
  } else if (r->kind == TAGC_TRACE_SLOT) {
    struct tagc_trace_slot *slot = (void *)r;
    swap(&slot->type);
    swap(&slot->op);
    swap(&slot->reason);
  }
}

static void write_changed(const struct trace_job *job, int rank, void (*change)(struct tagc_trace_record *),
                          const char *path) {
  struct trace t = {0};
  struct tagc_trace_chunk chunk;
  trace_job_rank(&t, job, rank);
  for (size_t at = sizeof(struct tagc_trace_head); at < t.size; at += sizeof chunk + chunk.bytes) {
    memcpy(&chunk, t.bytes + at, sizeof chunk);
    struct tagc_trace_record *r = (void *)(t.bytes + at + sizeof chunk);
    const unsigned char *end = (unsigned char *)r + chunk.bytes;
    for (; (unsigned char *)r < end; r = (void *)((unsigned char *)r + r->bytes))
      change(r);
    trace_sum(&t, at);
  }
  trace_write(&t, path);
  trace_free(&t);
}

/* Ranks with other codes in their libraries: nothing changes, wherever single calls are read. */
static void test_versions(void) {
  struct trace_job job = trace_job_usual(2, 20, 4);
  char paths[2][64], *list[] = {paths[0], paths[1]};
  job.window = 4;
  struct tagc_summary *summary = read_job(&job, paths);
  struct text page = page_of(summary), timeline = timeline_of(summary, (struct tagc_step_range){0});
  tagc_sum_free(summary);
  write_changed(&job, 1, swap_codes, paths[1]);
  summary = tagc_sum_read(list, 2);
  tagc_sum_roles(summary);
  struct text other_page = page_of(summary), other_timeline = timeline_of(summary, (struct tagc_step_range){0});
  ok(strcmp(page.bytes, other_page.bytes) == 0, "a rank with other codes: the page is the same");
  ok(strcmp(timeline.bytes, other_timeline.bytes) == 0, "and so is the timeline");
  free(page.bytes);
  free(timeline.bytes);
  free(other_page.bytes);
  free(other_timeline.bytes);
  tagc_sum_free(summary);
}

/* A clock at the end of time: nothing overflows (sanitizers check), and the page reports that clocks differ. */
static void late_clock(struct tagc_trace_record *r) {
  if (r->kind == TAGC_TRACE_PROCESS)
    ((struct tagc_trace_process *)r)->realtime_ns = INT64_MAX;
}

static void test_clocks(void) {
  struct trace_job job = trace_job_usual(2, 20, 4);
  char paths[2][64], *list[] = {paths[0], paths[1]};
  tagc_sum_free(read_job(&job, paths));
  write_changed(&job, 1, late_clock, paths[1]);
  struct tagc_summary *summary = tagc_sum_read(list, 2);
  tagc_sum_roles(summary);
  struct text page = page_of(summary);
  check_page(&page, "absurd clocks");
  ok(strstr(page.bytes, "each rank begins at 0") != NULL, "and it says that clocks differ");
  free(page.bytes);
  tagc_sum_free(summary);
}

/* Two levels: compressed calls sum inside the host for as long as they encode and decode together. */
static void sum_first(struct tagc_trace_record *r) {
  struct tagc_trace_times *times = (void *)r;
  if (r->kind == TAGC_TRACE_TIMES && times->encode_ns) {
    times->sum_ns = times->encode_ns + times->decode_ns;
    times->exchange_ns -= times->sum_ns;
  }
}

static void test_levels(void) {
  struct trace_job job = trace_job_usual(2, 20, 4);
  char paths[2][64], *list[] = {paths[0], paths[1]};
  struct {
    double x, width;
  } sum = {0}, encode = {0}, decode = {0};
  job.compressed = true;
  job.compressed_ns = 4000000;
  tagc_sum_free(read_job(&job, paths));
  for (int i = 0; i < 2; i++)
    write_changed(&job, i, sum_first, paths[i]);
  struct tagc_summary *summary = tagc_sum_read(list, 2);
  tagc_sum_roles(summary);
  struct text page = page_of(summary);
  check_page(&page, "two levels");
  ok(strstr(page.bytes, ">sum inside the host</text>") != NULL, "the sum inside the host has a key");
  const char *bar = strstr(page.bytes, "sum inside the host 0.60 ms, encode 0.40 ms, exchange 2.80 ms, decode 0.20 ms");
  ok(bar != NULL, "it is told of a bar, and parts come to the whole");
  bool drawn = bar && (bar = strstr(bar, "<rect class=\"sum\"")) &&
               sscanf(bar, "<rect class=\"sum\" x=\"%lf\" y=\"%*f\" width=\"%lf\"", &sum.x, &sum.width) == 2 &&
               (bar = strchr(bar + 1, '<')) &&
               sscanf(bar, "<rect class=\"encode\" x=\"%lf\" y=\"%*f\" width=\"%lf\"", &encode.x, &encode.width) == 2 &&
               (bar = strchr(bar + 1, '<')) &&
               sscanf(bar, "<rect class=\"decode\" x=\"%lf\" y=\"%*f\" width=\"%lf\"", &decode.x, &decode.width) == 2;
  ok(drawn && fabs(sum.x + sum.width - encode.x) < 0.03 && fabs(sum.width - 1.5 * encode.width) < 0.03 &&
       fabs(encode.width - 2 * decode.width) < 0.03,
     "the sum is drawn in front of the encoding, each as long as it took: %.2f, %.2f, %.2f", sum.width, encode.width,
     decode.width);
  static const char cells[] = "<td class=\"n\">0.600</td><td class=\"n\">0.400</td><td class=\"n\">2.800</td>"
                              "<td class=\"n\">0.200</td>";
  ok(strstr(page.bytes, cells) != NULL, "and the table has it");
  free(page.bytes);
  tagc_sum_free(summary);
}

/* A codec without a residual has no line for it. */
static void keep_none(struct tagc_trace_record *r) {
  if (r->kind == TAGC_TRACE_STATE)
    ((struct tagc_trace_state *)r)->residual_norm = 0;
}

static void test_residual(void) {
  struct trace_job job = trace_job_usual(2, 20, 4);
  char paths[2][64], *list[] = {paths[0], paths[1]};
  job.compressed = true;
  tagc_sum_free(read_job(&job, paths));
  for (int i = 0; i < 2; i++)
    write_changed(&job, i, keep_none, paths[i]);
  struct tagc_summary *summary = tagc_sum_read(list, 2);
  tagc_sum_roles(summary);
  struct text page = page_of(summary);
  ok(strstr(page.bytes, "id=\"fig-loss-0\"") && !strstr(page.bytes, "class=\"line dash\""),
     "a codec that keeps no residual has no line for it");
  free(page.bytes);
  tagc_sum_free(summary);
}

/* A cycle that was found again has its own layers: only those of the last one are shown. */
static void test_locks(void) {
  struct trace_job job = trace_job_usual(2, 20, 8);
  char paths[2][64];
  job.compressed = true;
  struct tagc_summary *summary = read_job(&job, paths);
  struct tagc_sum_comm *comm = &summary->comms[0];
  for (size_t i = comm->slot_count / 2; i < comm->slot_count; i++)
    comm->slots[i].lock = 2;
  struct text page = page_of(summary);
  char *layers = strstr(page.bytes, "<section id=\"layers\""), *sizes = strstr(page.bytes, "<section id=\"sizes\"");
  ok(layers && sizes, "layers have a section");
  *sizes = '\0';
  ok(strstr(layers, "block.2") && !strstr(layers, "block.6"), "layers of the last lock alone");
  free(page.bytes);
  tagc_sum_free(summary);
}

int main(void) {
  if (!mkdtemp(folder))
    return 1;
  test_sides();
  test_hostile();
  test_empty();
  test_many();
  test_profiled();
  test_timeline(false);
  test_timeline(true);
  test_stream();
  test_versions();
  test_clocks();
  test_levels();
  test_locks();
  test_residual();
  char path[64];
  for (int i = 0; i < RANKS; i++) {
    snprintf(path, sizeof path, "%s/%d.trace", folder, i);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s/evil.trace", folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/nothing", folder);
  unlink(path);
  rmdir(folder);
  return tap_done();
}
