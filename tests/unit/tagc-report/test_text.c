/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report's text and JSON of synthetic jobs: the contents of columns, and omissions.
 */
#include <math.h>
#include <unistd.h>

#include "interpose/tagc-report/show/html.h"
#include "interpose/tagc-report/show/report.h"
#include "tests/unit/tap.h"
#include "tests/unit/tagc-report/make.h"

static char folder[] = "/tmp/test_trace_text.XXXXXX";

/* The printed report of the traces; for free(). */
static char *print(char *const *paths, size_t count, void (*put)(const struct tagc_report *, FILE *)) {
  struct tagc_report report;
  static char *text;
  static size_t size;
  FILE *to = open_memstream(&text, &size);
  if (!to || !tagc_report_make(&report, paths, count, &(struct tagc_volume_facts){0}))
    abort();
  put(&report, to);
  fclose(to);
  tagc_report_free(&report);
  return text;
}

static char *print_job(const struct trace_job *job, const char *name, void (*put)(const struct tagc_report *, FILE *)) {
  char **paths = trace_job_write(job, folder, name), *text = print(paths, (size_t)job->ranks, put);
  trace_paths_free(paths);
  return text;
}

/* The first line with these words; "": none. */
static const char *line_of(const char *text, const char *words) {
  static char line[512];
  const char *at = strstr(text, words), *from = at;
  while (from && from > text && from[-1] != '\n')
    from--;
  snprintf(line, sizeof line, "%.*s", from ? (int)strcspn(from, "\n") : 0, from ? from : "");
  return line;
}

/* Half of the calls are compressed: of 0.7 ms a tenth is encoding, a twentieth decoding. */
static void test_slot_times(void) {
  struct trace_job job = trace_job_usual(2, 22, 2);
  job.window = 5;
  job.on_gpu = true;
  char *text = print_job(&job, "slots", tagc_report_print);
  double ratio, encode, wire, decode;
  const char *line = line_of(text, " q4 "), *behind = strrchr(line, 'B');
  int read = sscanf(behind ? behind + 1 : "", "%lf %lf %lf %lf", &ratio, &encode, &wire, &decode);
  ok(read == 4 && ratio == 0.25 && encode == 0.070 && decode == 0.035 && wire == 0.595,
     "a row of slots has the times of compressed calls: %s", line);
  free(text);
}

/* All-gathers stand below their slots; codecs, with the time they hide and when they were chosen. */
static void test_allgathers(void) {
  struct trace_job job = trace_job_usual(2, 22, 2);
  job.compressed = job.allgathers = true;
  job.revote = 13;
  job.hidden_percent = 80;
  char *text = print_job(&job, "gathers", tagc_report_print);
  ok(strstr(line_of(text, "sent by"),
            "AllGather 67% (64.0 MiB, plain 184.0 MiB), ReduceScatter 33% (32.0 MiB, plain 92.0 "
            "MiB)") != NULL,
     "bytes by function, and plain: %s", line_of(text, "sent by"));
  ok(strstr(text, "80% of encoding and") && strstr(text, "compressed; the network carried 34.8%"),
     "compressed calls of all kinds: %s", line_of(text, "  TAGC "));
  double ratio, encode, wire, decode, hidden;
  const char *line = line_of(text, "    all-gathers      "), *behind = strrchr(line, 'B');
  int read = sscanf(behind ? behind + 1 : "", "%lf %lf %lf %lf %lf%%", &ratio, &encode, &wire, &decode, &hidden);
  ok(read == 5 && ratio == 0.25 && encode == 0.070 && decode == 0.035 && fabs(wire - 0.679) < 1e-9 && hidden == 80 &&
       strstr(line, " 2 bf16 "),
     "a row of all-gathers: %s", line);
  ok(strstr(line_of(text, " q8* "), "block.0") != NULL, "a codec that is not the first one: %s",
     line_of(text, " q8* "));
  ok(strstr(text, "cycle 3     2 q4; all-gathers: 4 bf16\n") &&
       strstr(text, "cycle 13    2 q8; all-gathers: 4 bf16. the error was 3%\n"),
     "the votes: %s", line_of(text, "cycle 13 "));
  ok(strstr(line_of(text, "ReduceScatter q4"), " 40 ") && strstr(line_of(text, "ReduceScatter q8"), " 40 ") &&
       strstr(line_of(text, "AllGather     bf16"), " 160 ") && strstr(line_of(text, "  all  "), "80%"),
     "a line a codec: %s", line_of(text, "AllGather     bf16"));
  ok(strstr(text, "all-gathers of parameters: 90.9%") != NULL, "why they go so: %s",
     line_of(text, "all-gathers of parameters: "));
  ok(strstr(text, "reshard_after_forward=False") != NULL, "and what is gathered again could be kept");
  size_t longest = 0, exact = 0;
  for (const char *at = text; (at = strstr(at, " exactly ")); at++)
    exact++;
  ok(exact == 2, "formulas hold for plain calls, whatever compressed ones send");
  for (const char *at = text; *at; at += strcspn(at, "\n") + 1)
    longest = strcspn(at, "\n") > longest ? strcspn(at, "\n") : longest;
  ok(longest <= 120, "no line has more than 120 columns: %zu", longest);
  free(text);
}

/* All-reduces of whole layers are slots, too. */
static void test_all_reduces(void) {
  struct trace_job job = trace_job_usual(4, 22, 3);
  job.compressed = job.all_reduces = true;
  char *text = print_job(&job, "reduces", tagc_report_print);
  ok(strstr(line_of(text, "  why "), "gradients: 90.9% compressed") && strstr(text, "AllReduce     q4"),
     "gradients that are all-reduced: %s", line_of(text, "AllReduce     q4"));
  ok(strstr(text, "data parallel (all-reduced gradients)") && strstr(text, " exactly "), "against the formula: %s",
     line_of(text, " expected "));
  free(text);
}

/* The possible savings of a job without compression; small calls stay plain. */
static void test_advice(void) {
  struct trace_job job = trace_job_usual(2, 10, 2);
  job.allgathers = true;
  char *text = print_job(&job, "plain", tagc_report_print);
  ok(strstr(text, "Gradients are 33% of what a rank sends in a step, and nothing is compressed: TAGC_MODE=ab") != NULL,
     "to compress: %s", line_of(text, "Gradients are"));
  ok(strstr(text, "All-gathers of parameters are 67% of what a rank sends in a step, 4.0 MiB: with "
                  "TAGC_ALLGATHER=q8") != NULL,
     "to gather in 8 bits: %s", line_of(text, "All-gathers of parameters are"));
  free(text);
  job.world = 4;
  struct trace_job other = job; /* another group of two ranks, such as that of the next pipeline stage */
  other.first_rank = 2;
  other.identity++;
  other.first_pid = 2000;
  char **first = trace_job_write(&job, folder, "first"), **second = trace_job_write(&other, folder, "second");
  text = print((char *[]){first[0], first[1], second[0], second[1]}, 4, tagc_report_print);
  ok(strstr(text, "traced      train: 4 ranks") && strstr(text, "Gradients are 33% of") &&
       strstr(text, "All-gathers of parameters are 67% of what a rank sends"),
     "several communicators: of what a rank sends, too: %s", line_of(text, "Gradients are"));
  free(text);
  trace_paths_free(first);
  trace_paths_free(second);
  job.shard = 1 << 15;
  text = print_job(&job, "small", tagc_report_print);
  ok(!strstr(text, "TAGC_ALLGATHER=q8") && strstr(text, "reshard_after_forward"),
     "but not what is below TAGC_MIN_BYTES");
  free(text);
  job.allgathers = false;
  job.compressed = true;
  text = print_job(&job, "none", tagc_report_print);
  ok(!strstr(text, "What could still be saved"), "where nothing is known to be saved nothing is said");
  free(text);
}

static void put_page(const struct tagc_report *report, FILE *to) {
  if (!tagc_html_write(report->summary, &report->facts, to))
    abort();
}

/* Compressed steps are faster by a few microseconds, without noise. */
static void test_little(void) {
  struct trace_job job = trace_job_usual(2, 42, 2);
  job.window = 5;
  job.compressed_ns = job.plain_ns - 5000;
  char *text = print_job(&job, "little", tagc_report_print), *page = print_job(&job, "page", put_page);
  ok(strstr(text, "too little to matter") && strstr(page, "<h1>Compression changes the speed by too little to matter"),
     "an effect that is tiny does not help in the headline, either");
  free(text);
  free(page);
}

/* Prints with the layers' certainty reduced to this. */
static unsigned sure;

static void put_less_sure(const struct tagc_report *report, FILE *to) {
  report->summary->comms[0].confidence = sure;
  tagc_report_print(report, to);
  tagc_report_json(report, to);
  put_page(report, to);
}

static void test_layers(void) {
  struct trace_job job = trace_job_usual(2, 10, 2);
  static const struct {
    unsigned sure;
    bool known, ambiguous;
  } cases[] = {{80, true, false}, {49, true, true}, {0, false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    sure = cases[i].sure;
    char *text = print_job(&job, "layers", put_less_sure);
    ok((strstr(text, "llama, hidden 64 (") != NULL) == cases[i].known &&
         (strstr(text, "Taken for: llama") != NULL) == cases[i].known &&
         (strstr(text, "\"layers\":\"llama") != NULL) == cases[i].known &&
         (strstr(text, "\"layers\":null") != NULL) != cases[i].known &&
         (strstr(text, "% sure: ambiguous)") != NULL) == cases[i].ambiguous &&
         (strstr(text, "% sure: ambiguous. ") != NULL) == cases[i].ambiguous,
       "layers of %u%%: %s", sure, line_of(text, "  layers  "));
    free(text);
  }
}

static void test_labels(void) {
  struct trace_job job = trace_job_usual(2, 10, 2);
  char **paths = trace_job_write(&job, folder, "labels");
  struct trace t = {0};
  trace_job_rank(&t, &job, 1);
  trace_name(&t, TAGC_TRACE_FUNCTIONS, 40, "ncclRedOpCreatePreMulSum");
  trace_put(&t, CALL, 1, .number = ++t.calls, .function = 40, .slot = -1, .began_ns = 2000000000);
  trace_write(&t, paths[1]);
  trace_free(&t);
  char *text = print(paths, 2, tagc_report_print);
  size_t longest = 0;
  for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
    longest = strchr(line, '/') && strchr(line, '/') < line + strcspn(line, "\n") ? longest
              : strcspn(line, "\n") > longest                                     ? strcspn(line, "\n")
                                                                                  : longest;
  ok(strstr(text, "\n  RedOpCreatePreMulSum ") && longest <= 120, "names of functions are whole: %s",
     line_of(text, "RedOp"));
  ok(strstr(text, "all ranks and the whole run") && strstr(line_of(text, "last in"), " outside "),
     "columns are explained: %s", line_of(text, "last in"));
  free(text);
  trace_paths_free(paths);
}

/* Prints with bytes that nobody would have sent, errors of a gradient of zeros, and a long option. */
static void put_odd(const struct tagc_report *report, FILE *to) {
  struct tagc_summary *s = report->summary;
  static char option[6000] = "TAGC_LAYERS=";
  memset(option + strlen(option), 'x', sizeof option - strlen(option) - 5);
  memcpy(option + sizeof option - 5, ".end", 5);
  free(s->ranks[0].options);
  s->ranks[0].options = strdup(option);
  for (size_t r = 0; r < s->rank_count; r++)
    s->ranks[r].calls.plain = s->ranks[r].calls.sent = (struct tagc_sum_sent){0, 0};
  for (size_t i = 0; i < s->comms[0].slot_count; i++)
    for (size_t k = 0; k < s->comms[0].slots[i].point_count; k++)
      s->comms[0].slots[i].points[k].error = HUGE_VAL;
  tagc_report_print(report, to);
  put_page(report, to);
}

static void test_odd_figures(void) {
  struct trace_job job = trace_job_usual(2, 10, 2);
  job.compressed = true;
  char *text = print_job(&job, "odd", put_odd);
  ok(strstr(text, " calls were compressed; whether steps are faster") && !strstr(text, "nan%") && !strstr(text, "inf%"),
     "a share of nothing is not told: %s", line_of(text, "  TAGC "));
  ok(strstr(text, "xxx.end") != NULL, "an option is whole, however long it is");
  free(text);
  job = trace_job_usual(70, 2, 1);
  text = print_job(&job, "hosts", tagc_report_print);
  const char *last = line_of(text, " more\n"); /* the lines wrap */
  ok(strstr(text, "node63 (") && !strstr(text, "node64") && strstr(last, "and 6 more"),
     "of many hosts the rest is counted: %s", last);
  free(text);
}

/* A process without a version of NCCL; a call without a type on a communicator of which nothing is told. And a process
 * that knows more. */
static void test_unknown(void) {
  struct trace t[2] = {{0}, {0}};
  char path[2][64], *const paths[] = {path[0], path[1]};
  for (int i = 0; i < 2; i++) {
    struct tagc_trace_process process = {.pid = i + 1, .realtime_ns = 5, .nccl_version = i ? 22809 : 0};
    trace_process(&t[i], &process, "h", "p", "0.2");
    trace_name(&t[i], TAGC_TRACE_FUNCTIONS, 0, "ncclAllGather");
    trace_name(&t[i], TAGC_TRACE_FUNCTIONS, 5, "ncclBcast");
    trace_name(&t[i], TAGC_TRACE_TYPES, 7, "float32");
    if (i)
      trace_put(&t[i], COMM, 1, .identity = 7, .rank = 1, .nranks = 2, .hosts = 2, .born_ns = 9, .function = 5);
    trace_put(&t[i], CALL, 1, .number = 1, .function = 5, .type = i ? 7 : 255, .op = 255, .slot = -1, .began_ns = 90);
    if (i)
      trace_put(&t[i], COMM_END, 1, .at_ns = 99, .function = 5);
    trace_put(&t[i], END, 0, .calls = 1);
    snprintf(path[i], sizeof path[i], "%s/unknown%d.trace", folder, i);
    trace_write(&t[i], path[i]);
    trace_free(&t[i]);
  }
  char *little = print(paths, 1, tagc_report_json), *more = print(paths + 1, 1, tagc_report_json);
  ok(strstr(little, "\"nccl_version\":-1,") && strstr(more, "\"nccl_version\":22809,"),
     "the version of NCCL is -1 if unknown");
  ok(strstr(little, "\"hosts\":-1,") && strstr(more, "\"hosts\":2,"), "and so are hosts");
  ok(strstr(little, "\"type\":null,\"op\":null,") && strstr(more, "\"type\":\"float32\",\"op\":null,"),
     "a type and a reduction that no call has are null");
  ok(strstr(little, "\"born_ns\":-1,\"born_by\":null,") && strstr(little, "\"ended_ns\":-1,\"ended_by\":null}") &&
       strstr(more, "\"born_ns\":9,\"born_by\":\"ncclBcast\",\"ended_ns\":99,\"ended_by\":\"ncclBcast\"}"),
     "a communicator that lives has no end");
  free(little);
  free(more);
  for (int i = 0; i < 2; i++)
    unlink(path[i]);
}

int main(void) {
  if (!mkdtemp(folder))
    return 1;
  test_slot_times();
  test_allgathers();
  test_all_reduces();
  test_advice();
  test_little();
  test_layers();
  test_labels();
  test_odd_figures();
  test_unknown();
  ok(rmdir(folder) == 0, "nothing is left");
  return tap_done();
}
