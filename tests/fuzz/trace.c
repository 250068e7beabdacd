/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: any trace is read, summed up and reported, as text, JSON, page, timeline, scalars and live screen.
 * Inputs are the bytes of a file, or (mostly, because checksums keep a fuzzer out) the records of two traces, which it
 * puts into chunks here.
 */
#include <sys/mman.h>

#include "interpose/tagc-report/events/tensorboard.h"
#include "interpose/tagc-report/live/live.h"
#include "interpose/tagc-report/show/html.h"
#include "interpose/tagc-report/show/perfetto.h"
#include "interpose/tagc-report/read/records.h"
#include "interpose/tagc-report/show/report.h"
#include "tests/fuzz/input.h"
#include "tests/unit/tagc-report/make.h"

static char path[2][40];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  for (int i = 0; i < 2; i++) { /* files without a path, so none stays */
    int file = memfd_create("trace", 0);
    MUST(file >= 0);
    snprintf(path[i], sizeof path[i], "/proc/self/fd/%d", file);
  }
  return 0;
}

/* Checks the promises of read/records.h for each record. */
static void check_records(const void *bytes, size_t size) {
  char why[TAGC_TRACE_WHY] = "";
  struct tagc_trace_file *file = tagc_trace_open_bytes("fuzzed", bytes, size, why);
  const struct tagc_trace_record *record;
  uint64_t count = 0;
  if (!file) {
    MUST(strncmp(why, "fuzzed: ", 8) == 0 && why[8]);
    return;
  }
  while ((record = tagc_trace_next(file))) {
    MUST((uintptr_t)record % 8 == 0 && record->bytes % 8 == 0 && record->bytes >= 8);
    MUST(record->kind >= TAGC_TRACE_PROCESS && record->kind < TAGC_TRACE_KINDS);
    if (record->kind == TAGC_TRACE_SLOT)
      MUST(strlen(tagc_trace_text(record, ((const struct tagc_trace_slot *)record)->text, 2)) < record->bytes);
    count++;
  }
  const struct tagc_trace_health *h = tagc_trace_health(file);
  MUST(h->records == count && h->skipped_bytes <= h->bytes && h->bytes == size);
  tagc_trace_close(file);
}

/* Adds a record with texts that pages, terminals and JSON must escape. */
static void add_hostile(struct input *in, struct trace *t) {
  static const char hostile[] = "<script>\"\\\033[31m\n&";
  const struct tagc_trace_process process = {.pid = 1, .realtime_ns = 1};
  const struct tagc_trace_lock lock = {.lock = 1, .calls = 4, .slots = 1, .gradients = 1, .confidence = 50};
  const struct tagc_trace_slot slot = {.lock = 1, .slot = input_below(in, 3), .count = 100, .voted = 1};
  switch (input_below(in, 5)) {
  case 0: trace_process(t, &process, hostile, hostile, hostile); break;
  case 1: trace_name(t, 1 + input_below(in, TAGC_TRACE_OPS), input_below(in, 12), hostile); break;
  case 2: trace_options(t, hostile); break;
  case 3: trace_lock(t, 1, &lock, hostile, hostile); break;
  default: trace_slot(t, 1, &slot, hostile, hostile);
  }
}

/* Makes the records of one trace: random ones, or those of a job with a few bytes changed. */
static void make(struct input *in, struct trace *t, int rank) {
  struct trace_job job = trace_job_usual(1 + (int)input_below(in, 3), input_below(in, 8), 1 + input_below(in, 2));
  job.window = input_below(in, 3);
  if (rank >= job.ranks || input_below(in, 4) == 0)
    trace_process(t, &(struct tagc_trace_process){.pid = rank + 1}, "h", "p", "v");
  else
    trace_job_rank(t, &job, rank);
  size_t end = t->size;
  for (unsigned changes = input_below(in, 16); changes-- && end > 64;) {
    size_t at = 56 + input_number(in, 3) % (end - 56);
    t->bytes[at] ^= input_byte(in);
  }
  trace_chunk_ends(t);
  if (end > 56)
    trace_sum(t, sizeof(struct tagc_trace_head));
  for (unsigned hostile = input_below(in, 4); hostile--;)
    add_hostile(in, t);
  while (input_left(in) > 8 && input_below(in, 8)) {
    union {
      struct tagc_trace_record record;
      unsigned char bytes[160];
    } r = {{0, 0, 0}};
    r.record.kind = (uint16_t)(1 + input_below(in, TAGC_TRACE_KINDS));
    r.record.bytes = (uint16_t)(8 * (1 + input_below(in, 20)));
    r.record.comm = input_below(in, 4);
    for (size_t i = 8; i < r.record.bytes; i++)
      r.bytes[i] = input_byte(in);
    trace_add_bytes(t, &r, r.record.bytes);
  }
}

/* Checks that a page and a timeline are complete, and that no text of the traces is markup. */
static void draw(const struct tagc_summary *summary) {
  char *text = NULL, why[TAGC_TRACE_WHY] = "";
  size_t length = 0;
  FILE *to = open_memstream(&text, &length);
  MUST(to && tagc_html_write(summary, NULL, to) && fclose(to) == 0);
  MUST(length > 8 && strcmp(text + length - 8, "</html>\n") == 0);
  MUST(!strstr(text, "<script"));
  free(text);
  to = open_memstream(&text, &length);
  MUST(to);
  const bool drawn = tagc_perfetto_write(summary, (struct tagc_step_range){0}, to, why);
  MUST(fclose(to) == 0 && (!drawn || (length > 2 && *text == '{' && strcmp(text + length - 2, "}\n") == 0)));
  free(text);
}

/* True if the text has control characters that a terminal would obey. */
static bool has_controls(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (((unsigned char)text[i] < 0x20 && text[i] != '\n') || text[i] == 0x7f)
      return true;
  return false;
}

static void report(void) {
  struct tagc_report r;
  char *text = NULL, *const paths[] = {path[0], path[1]};
  size_t length = 0;
  const struct tagc_volume_facts facts = {0};
  MUST(tagc_report_make(&r, paths, 2, &facts));
  FILE *to = open_memstream(&text, &length);
  MUST(to);
  tagc_report_print(&r, to);
  tagc_report_characterise(&r, to);
  MUST(fflush(to) == 0 && !has_controls(text, length));
  tagc_report_json(&r, to);
  MUST(fclose(to) == 0 && length > 2 && strcmp(text + length - 2, "}\n") == 0);
  free(text);
  draw(r.summary);
  for (size_t run = 0; run < tagc_tensorboard_runs(r.summary); run++) {
    to = open_memstream(&text, &length);
    MUST(to && tagc_tensorboard_write(r.summary, run, to) && fclose(to) == 0 && length >= 40);
    free(text);
  }
  tagc_report_free(&r);
}

/* The live screen of the same traces, in some window. */
static void follow(struct input *in) {
  struct tagc_live live = {.count = 0};
  char *words[] = {path[0], path[1]}, *text = NULL;
  const struct tagc_paths paths = {words, 2};
  const struct tagc_live_screen screen = {.columns = 1 + input_below(in, 120), .rows = input_below(in, 40), .now = 1e9};
  size_t length = 0, lines = 0;
  tagc_live_read(&live, &paths);
  tagc_live_read(&live, &paths); /* nothing is new */
  FILE *to = open_memstream(&text, &length);
  MUST(to);
  tagc_live_draw(&live, &screen, to);
  MUST(fclose(to) == 0 && !has_controls(text, length));
  for (const char *line = text; *line; line += strcspn(line, "\n") + 1)
    lines++;
  MUST(!screen.rows || lines <= screen.rows);
  free(text);
  tagc_live_free(&live);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  bool plain = input_below(&in, 8) == 0;
  for (int i = 0; i < 2; i++) {
    struct trace t = {0};
    if (plain && i == 0 && input_left(&in))
      memcpy(trace_more(&t, input_left(&in)), in.at, input_left(&in));
    else if (!plain || i)
      make(&in, &t, i);
    trace_chunk_ends(&t);
    unsigned char *exact = input_memory(t.size);
    if (t.size)
      memcpy(exact, t.bytes, t.size);
    check_records(exact, t.size);
    free(exact);
    trace_write(&t, path[i]);
    trace_free(&t);
  }
  report();
  follow(&in);
  return 0;
}
