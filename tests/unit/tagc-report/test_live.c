/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report --live: a trace that grows is read once, its figures are those of a summary, and a screen fits its
 * window.
 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/tagc-report/live/live.h"
#include "interpose/tagc-report/read/summary.h"
#include "tests/unit/tagc-report/make.h"
#include "tests/unit/tap.h"

static char folder[] = "/tmp/tagc-test-live.XXXXXX", path[200];

/* Appends bytes [from, to) of a file to another. */
static void append_bytes(const char *name, const unsigned char *bytes, size_t from, size_t to) {
  FILE *file = fopen(name, "ab");
  if (!file || fwrite(bytes + from, 1, to - from, file) != to - from || fclose(file) != 0)
    exit(1);
}

static unsigned char *read_bytes(const char *name, size_t *size) {
  struct stat about;
  FILE *file = fopen(name, "rb");
  if (!file || fstat(fileno(file), &about) != 0)
    exit(1);
  unsigned char *bytes = malloc((size_t)about.st_size + 1);
  *size = bytes ? fread(bytes, 1, (size_t)about.st_size, file) : 0;
  fclose(file);
  return bytes;
}

/* ---- growing files ----------------------------------------------------------------------------------------------- */

static uint64_t last_number;
static unsigned taken, wrong;

static void count_record(void *context, const struct tagc_trace_record *record) {
  (void)context;
  if (record->kind != TAGC_TRACE_TIMES)
    return;
  const uint64_t number = ((const struct tagc_trace_times *)(const void *)record)->call;
  wrong += number <= last_number;
  last_number = number;
  taken++;
}

/* A trace of `chunks` chunks with ten numbered records each; `ends`: where they end. */
static void make_trace(struct trace *t, unsigned chunks, size_t *ends) {
  trace_head(t);
  for (unsigned i = 0; i < chunks; i++) {
    for (unsigned n = 0; n < 10; n++)
      trace_put(t, TIMES, 1, .call = 10 * i + n + 1);
    trace_chunk_ends(t);
    ends[i] = t->size;
  }
}

static void test_growing(void) {
  struct trace t = {0};
  struct tagc_follow follow = {.path = path};
  size_t ends[4];
  make_trace(&t, 4, ends);
  snprintf(path, sizeof path, "%s/grows.trace", folder);
  tagc_follow_read(&follow, count_record, NULL);
  ok(!taken && strstr(follow.why, "No such file") && !follow.changed, "a file that is not there: %s", follow.why);
  for (size_t at = 0; at < ends[1]; at++) { /* byte by byte */
    append_bytes(path, t.bytes, at, at + 1);
    tagc_follow_read(&follow, count_record, NULL);
    const unsigned due = at + 1 < ends[0] ? 0 : at + 1 < ends[1] ? 10 : 20;
    wrong += taken != due || (at > 40 && *follow.why);
  }
  ok(!wrong && taken == 20 && follow.changed > 0, "byte by byte: each chunk once, when it is whole");
  t.bytes[ends[1] + 50]++; /* in the third chunk */
  append_bytes(path, t.bytes, ends[1], ends[3]);
  tagc_follow_read(&follow, count_record, NULL);
  ok(!wrong && taken == 30 && last_number == 40, "a damaged chunk is skipped");
  tagc_follow_read(&follow, count_record, NULL);
  ok(taken == 30 && !*follow.why, "nothing is new");
  if (truncate(path, 100) != 0)
    exit(1);
  tagc_follow_read(&follow, count_record, NULL);
  ok(taken == 30 && strstr(follow.why, "it was replaced"), "a file that got shorter is another one: %s", follow.why);
  unlink(path);

  follow = (struct tagc_follow){.path = path};
  append_bytes(path, (const unsigned char *)"this is a text, and it is longer than a head\n", 0, 45);
  tagc_follow_read(&follow, count_record, NULL);
  ok(taken == 30 && *follow.why, "a file that is no trace: %s", follow.why);
  unlink(path);
  follow = (struct tagc_follow){.path = folder};
  tagc_follow_read(&follow, count_record, NULL);
  ok(strstr(follow.why, "it is no file") != NULL, "a folder: %s", follow.why);
  trace_free(&t);
}

/* ---- a job ------------------------------------------------------------------------------------------------------- */

static char screen_text[1 << 16];

/* Draws into screen_text. */
static const char *draw(const struct tagc_live *live, const struct tagc_live_screen *screen) {
  FILE *to = fmemopen(screen_text, sizeof screen_text, "w");
  tagc_live_draw(live, screen, to);
  fclose(to);
  return screen_text;
}

static void has_line(const char *text, const char *part, const char *what) {
  if (!ok(strstr(text, part) != NULL, "%s", what))
    note_lines(text);
}

/* Traces of a job, which grow in so many steps. */
static void follow_job(struct tagc_live *live, char **paths, size_t count, unsigned pieces) {
  struct tagc_paths now = {NULL, 0};
  for (unsigned piece = 0; piece < pieces; piece++) {
    for (size_t i = 0; i < count; i++) {
      size_t size;
      char name[256];
      unsigned char *bytes = read_bytes(paths[i], &size);
      snprintf(name, sizeof name, "%s/live-%zu.trace", folder, i);
      append_bytes(name, bytes, size * piece / pieces, size * (piece + 1) / pieces);
      free(bytes);
    }
    (void)tagc_paths_add(&now, folder);
    size_t kept = 0;
    for (size_t i = 0; i < now.count; i++) /* the whole ones are there, too */
      if (strstr(now.paths[i], "/live-"))
        now.paths[kept++] = now.paths[i];
      else
        free(now.paths[i]);
    now.count = kept;
    tagc_live_read(live, &now);
    tagc_paths_free(&now);
  }
}

static void remove_followed(size_t count) {
  for (size_t i = 0; i < count; i++) {
    char name[256];
    snprintf(name, sizeof name, "%s/live-%zu.trace", folder, i);
    unlink(name);
  }
}

static void test_job(void) {
  struct trace_job job = trace_job_usual(2, 40, 3);
  struct tagc_live live = {.began = 2e9};
  struct tagc_live_screen screen = {.columns = 80, .rows = 24, .now = 2e9};
  struct tagc_ab_figures figures;
  job.window = 5;
  job.allgathers = true;
  job.on_gpu = false;
  char later[256], *later_paths[] = {later};
  const struct tagc_paths none_yet = {later_paths, 1};
  snprintf(later, sizeof later, "%s/later", folder);
  tagc_live_read(&live, &none_yet);
  ok(!live.count && tagc_live_state(&live, screen.now) == TAGC_LIVE_RUNNING, "a path that may come later is no rank");
  ok(tagc_live_state(&live, screen.now + 3600) == TAGC_LIVE_GONE, "nobody waits for it for an hour");
  has_line(draw(&live, &screen), "waiting for traces", "without traces it waits");
  char **paths = trace_job_write(&job, folder, "job");
  struct tagc_summary *summary = tagc_sum_read(paths, 2);
  follow_job(&live, paths, 2, 7);
  struct tagc_live_comm *main = live.count ? tagc_live_main(&live.ranks[0]) : NULL;
  if (!ok(summary && live.count == 2 && main && main->rank == 0, "two ranks, in their order"))
    return;
  const struct tagc_sum_rank *rank = &summary->ranks[0];
  ok(main->steps == rank->step_count, "as many steps as in a summary: %zu", rank->step_count);
  double ns = 0, sent = 0;
  for (size_t i = rank->step_count - TAGC_LIVE_RECENT; i < rank->step_count; i++) {
    ns += (double)rank->steps[i].ns;
    sent += (double)rank->steps[i].sent.between;
  }
  double recent_ns = 0, recent_sent = 0;
  for (size_t i = 0; i < TAGC_LIVE_RECENT; i++) {
    recent_ns += main->recent[i].ns;
    recent_sent += main->recent[i].sums.sent_between;
  }
  ok(fabs(ns - recent_ns) < 1 && fabs(sent - recent_sent) < 1e-3 * sent, "times and bytes of the last %d",
     TAGC_LIVE_RECENT);
  size_t layers = 0;
  bool equal = true;
  for (size_t i = 0; i < main->layer_count; i++) {
    const struct tagc_live_layer *layer = &main->layers[i];
    if (!*layer->name || layer->gathers)
      continue;
    const struct tagc_sum_slot *slot = &summary->comms[0].slots[layers++];
    equal = equal && strcmp(layer->name, slot->name) == 0 && strcmp(layer->codec, slot->codec) == 0 &&
            2 * layer->calls == slot->calls.calls && 2 * layer->compressed == slot->calls.compressed &&
            layer->sent > 0 && layer->sent <= (double)slot->calls.sent.between;
  }
  ok(equal && layers == 3, "calls of layers");
  tagc_ab_so_far(&main->ab, &figures);
  ok(figures.pairs >= 3 && figures.outcome == TAGC_AB_FASTER, "A/B: %zu pairs", figures.pairs);
  const double changed = live.ranks[0].follow.changed;
  ok(tagc_live_state(&live, changed) == TAGC_LIVE_ENDED, "both have ended");
  live.ranks[0].ended = false;
  ok(tagc_live_state(&live, changed + 60) == TAGC_LIVE_RUNNING, "one may be silent for a minute");
  ok(tagc_live_state(&live, changed + 3600) == TAGC_LIVE_GONE, "it is gone after an hour");
  live.ranks[0].ended = true;

  const char *text = draw(&live, &screen);
  has_line(text, "train, 2 ranks on 2 hosts, ended", "the job");
  has_line(text, "times as fast (", "A/B");
  has_line(text, "ended\n", "a line a rank");
  has_line(text, "% compressed", "outcomes");
  ok(!strchr(text, '\033'), "no escape sequence outside of a terminal");
  screen.terminal = true;
  ok(strstr(draw(&live, &screen), "\033[K\r\n") && !strstr(screen_text, "\033[1m") && !strstr(screen_text, "\033[32m"),
     "on a terminal lines end themselves; without colours there are none");
  screen.colours = true;
  ok(strstr(draw(&live, &screen), "\033[32mA/B") != NULL, "with colours a faster side is green");
  tagc_live_free(&live);
  remove_followed(2);
  tagc_sum_free(summary);
  trace_paths_free(paths);
}

/* Lines of a screen of plain text; the longest in *columns. */
static size_t lines_in(const char *text, size_t *columns) {
  size_t lines = 0;
  *columns = 0;
  for (; *text; text += strcspn(text, "\n") + 1, lines++)
    *columns = strcspn(text, "\n") > *columns ? strcspn(text, "\n") : *columns;
  return lines;
}

static void test_windows(void) {
  static const size_t sizes[][2] = {{80, 24}, {40, 10}, {200, 60}, {80, 1}, {1, 1}, {20, 500}};
  enum { RANKS = 100, LAYERS = 90 };
  struct tagc_live live = {.ranks = calloc(RANKS, sizeof *live.ranks), .count = RANKS};
  for (size_t i = 0; i < RANKS; i++) {
    struct tagc_live_rank *r = &live.ranks[i];
    r->follow.changed = 100;
    snprintf(r->host, sizeof r->host, "node-with-a-long-name-%zu", i);
    snprintf(r->program, sizeof r->program, "tr\033[2Jain");
    r->comms = calloc(1, sizeof *r->comms);
    r->comm_count = 1;
    *r->comms = (struct tagc_live_comm){.rank = (int32_t)i, .nranks = RANKS, .hosts = 25, .steps = 12345678};
    for (size_t n = 0; n < TAGC_LIVE_RECENT; n++)
      r->comms->recent[n].ns = 1e9;
    r->comms->layers = calloc(2 * LAYERS, sizeof *r->comms->layers);
    r->comms->layer_count = 2 * LAYERS;
    for (size_t n = 0; n < LAYERS; n++)
      snprintf(r->comms->layers[2 * n].name, sizeof r->comms->layers->name, "block.%zu", n);
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const struct tagc_live_screen screen = {.columns = sizes[i][0], .rows = sizes[i][1], .now = 105};
    size_t columns, lines = lines_in(draw(&live, &screen), &columns);
    if (!ok(lines <= sizes[i][1] && columns <= sizes[i][0], "%zux%zu: %zu lines of at most %zu columns", sizes[i][0],
            sizes[i][1], lines, columns))
      note_lines(screen_text);
    if (sizes[i][1] == 24)
      ok(strstr(screen_text, "      and ") && strstr(screen_text, "\nand ") && strstr(screen_text, "block.89"),
         "long lists say how much they leave out");
  }
  const struct tagc_live_screen wide = {.columns = 200, .now = 105};
  draw(&live, &wide);
  ok(!strchr(screen_text, '\033') && strstr(screen_text, "tr?[2Jain"), "names cannot steer a terminal");
  const struct tagc_live_screen later = {.columns = 120, .rows = 24, .now = 160};
  has_line(draw(&live, &later), " silent 60s", "a rank that writes no more");
  for (size_t i = 0; i < RANKS; i++)
    live.ranks[i].comms->identity = 7 + i % 2;
  live.ranks[1].follow.changed = 150;
  has_line(draw(&live, &later), "50 of 100 ranks on 50 hosts, running, other jobs left out",
           "an older job in the folder is left out");
  tagc_live_free(&live);
}

int main(void) {
  if (!mkdtemp(folder))
    return 1;
  test_growing();
  test_job();
  test_windows();
  rmdir(folder);
  return tap_done();
}
