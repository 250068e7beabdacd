/* SPDX-License-Identifier: BSD-3-Clause
 * Reading traces: written records are read back, and from damaged traces all intact ones.
 */
#include <unistd.h>

#include "interpose/tagc-report/read/records.h"
#include "tests/unit/tap.h"
#include "tests/unit/tagc-report/make.h"

static char why[TAGC_TRACE_WHY];

static struct tagc_trace_file *open_made(struct trace *t) {
  trace_chunk_ends(t);
  return tagc_trace_open_bytes("made", t->bytes, t->size, why);
}

/* `chunks` chunks of `calls` calls each, with consecutive numbers. */
static struct trace make_calls(unsigned chunks, unsigned calls) {
  struct trace t = {0};
  for (unsigned i = 0; i < chunks; i++, trace_chunk_ends(&t))
    for (unsigned j = 0; j < calls; j++)
      trace_put(&t, CALL, 1, .number = ++t.calls, .count = 7 * t.calls);
  return t;
}

/* Reads all calls: their number, and whether each is as it was made; `missing`: absent numbers. */
struct seen {
  uint64_t calls, missing;
  bool right;
  struct tagc_trace_health health;
};

static struct seen see(struct tagc_trace_file *file) {
  struct seen seen = {.right = true};
  const struct tagc_trace_record *record;
  uint64_t last = 0;
  while ((record = tagc_trace_next(file))) {
    const struct tagc_trace_call *call = (const void *)record;
    seen.right = seen.right && record->kind == TAGC_TRACE_CALL && call->count == 7 * call->number &&
                 call->number > last && (uintptr_t)record % 8 == 0;
    seen.calls++;
    seen.missing += call->number - last - 1;
    last = call->number;
  }
  seen.health = *tagc_trace_health(file);
  return seen;
}

static struct seen see_bytes(const void *bytes, size_t size) {
  struct tagc_trace_file *file = tagc_trace_open_bytes("made", bytes, size, why);
  struct seen seen = {0};
  if (file)
    seen = see(file);
  tagc_trace_close(file);
  return seen;
}

static void test_whole(void) {
  struct trace t = {0};
  struct tagc_trace_process process = {.pid = 7};
  trace_process(&t, &process, "h", "programme", "0.1");
  trace_name(&t, TAGC_TRACE_FUNCTIONS, 3, "ncclReduceScatter");
  trace_put(&t, CALL, 2, .number = 1, .result = -3);
  t.dropped = 5;
  trace_chunk_ends(&t);
  trace_put(&t, END, 0, .calls = 1, .dropped = 6);
  struct tagc_trace_file *file = open_made(&t);
  if (!ok(file != NULL, "a trace is opened"))
    return;
  for (int round = 0; round < 2; round++) {
    const struct tagc_trace_record *r = tagc_trace_next(file);
    const char *texts = r ? ((const struct tagc_trace_process *)r)->text : NULL;
    ok(r && r->kind == TAGC_TRACE_PROCESS && ((const struct tagc_trace_process *)r)->pid == 7, "its process");
    ok(r && strcmp(tagc_trace_text(r, texts, 0), "h") == 0 && strcmp(tagc_trace_text(r, texts, 1), "programme") == 0 &&
         strcmp(tagc_trace_text(r, texts, 2), "0.1") == 0,
       "three texts");
    ok(r && *tagc_trace_text(r, texts, 3) == '\0' && *tagc_trace_text(r, texts, 4000) == '\0', "and no more");
    r = tagc_trace_next(file);
    ok(r && r->kind == TAGC_TRACE_NAME && strcmp(((const struct tagc_trace_name *)r)->text, "ncclReduceScatter") == 0,
       "a name");
    r = tagc_trace_next(file);
    ok(r && r->kind == TAGC_TRACE_CALL && r->comm == 2 && ((const struct tagc_trace_call *)r)->result == -3, "a call");
    r = tagc_trace_next(file);
    ok(r && r->kind == TAGC_TRACE_END && !tagc_trace_next(file) && !tagc_trace_next(file),
       "the end, and nothing behind it");
    const struct tagc_trace_health *h = tagc_trace_health(file);
    ok(h->bytes == t.size && h->records == 4 && h->chunks == 2 && h->dropped == 6 && h->ended && !h->cut &&
         !h->damaged_chunks && !h->skipped_bytes && !h->unknown_records && !h->refused_records && h->major == 1 &&
         h->minor == TAGC_TRACE_MINOR,
       "in good health");
    ok(tagc_trace_rewind(file) && (round || !tagc_trace_health(file)->records), "and once more");
  }
  tagc_trace_close(file);
  trace_free(&t);
}

static void refuses(const void *bytes, size_t size, const char *words) {
  *why = '\0';
  struct tagc_trace_file *file = tagc_trace_open_bytes("some.trace", bytes, size, why);
  ok(!file && strncmp(why, "some.trace: ", 12) == 0 && strstr(why, words), "%s", why);
  tagc_trace_close(file);
}

static void test_refusals(void) {
  struct trace t = make_calls(1, 1);
  struct tagc_trace_head head;
  memcpy(&head, t.bytes, sizeof head);
  refuses("", 0, "empty");
  refuses("tagc-calls 1\n", 13, "no trace");
  refuses(t.bytes, 7, "ends inside its head");
  refuses(t.bytes, 23, "ends inside its head");
  refuses("TAGC\n\032\n and something behind it", 30, "no trace");
  head.major = 2;
  refuses(&head, sizeof head, "of the format; this program reads 1.x");
  head.order = 0x04030201;
  refuses(&head, sizeof head, "other byte order");
  head.order = 5;
  refuses(&head, sizeof head, "damaged");
  trace_free(&t);
}

/* -- damage -------------------------------------------------------------------------------------------------------- */

/* Every byte of a small file is damaged in turn: at most the calls of one chunk are lost, and that is reported. */
static void test_damage(void) {
  struct trace t = make_calls(4, 3);
  size_t head = sizeof(struct tagc_trace_head), chunk = (t.size - head) / 4;
  unsigned wrong = 0;
  for (size_t i = head; i < t.size; i++) {
    t.bytes[i] ^= 0x41;
    struct seen seen = see_bytes(t.bytes, t.size);
    t.bytes[i] ^= 0x41;
    bool last = i >= head + 3 * chunk;
    /* The last chunk may seem to be cut; its calls are then read, with any content. */
    wrong += !(seen.health.damaged_chunks == 1 ? seen.right && seen.calls == 9 && seen.missing == (last ? 0 : 3) &&
                                                   seen.health.skipped_bytes == chunk && seen.health.chunks == 3
                                               : last && seen.health.cut);
  }
  ok(!wrong, "a damaged byte costs its chunk and no other one: of %zu wrong %u", t.size - head, wrong);
  trace_free(&t);
}

static void test_cuts(void) {
  struct trace t = make_calls(3, 3);
  size_t head = sizeof(struct tagc_trace_head), chunk = (t.size - head) / 3;
  unsigned wrong = 0;
  for (size_t size = head; size < t.size; size++) {
    struct seen seen = see_bytes(t.bytes, size);
    size_t whole = (size - head) / chunk, rest = (size - head) % chunk;
    size_t more = rest < sizeof(struct tagc_trace_chunk)
                    ? 0
                    : (rest - sizeof(struct tagc_trace_chunk)) / sizeof(struct tagc_trace_call);
    wrong += !(seen.right && !seen.missing && seen.calls == 3 * whole + more && seen.health.cut == (rest > 0) &&
               !seen.health.damaged_chunks && !seen.health.refused_records);
  }
  ok(!wrong, "of a file that was cut anywhere all whole calls are there: of %zu wrong %u", t.size - head, wrong);
  trace_free(&t);
}

static void test_middle(void) {
  struct trace t = make_calls(300, 40), longer = {0};
  size_t head = sizeof(struct tagc_trace_head), chunk = (t.size - head) / 300, at = head + 100 * chunk + 777;
  memcpy(trace_more(&longer, at), t.bytes, at);
  memcpy(trace_more(&longer, t.size - at - 1001), t.bytes + at + 1001, t.size - at - 1001);
  struct seen seen = see_bytes(longer.bytes, longer.size);
  ok(seen.right && seen.calls == 299 * 40 && seen.missing == 40 && seen.health.damaged_chunks == 1 && !seen.health.cut,
     "1001 bytes that are lost cost their chunk: those behind it lie at odd addresses");
  longer.size = 0;
  memcpy(trace_more(&longer, at), t.bytes, at);
  memset(trace_more(&longer, 70001), 0x11, 70001);
  memcpy(trace_more(&longer, t.size - at), t.bytes + at, t.size - at);
  seen = see_bytes(longer.bytes, longer.size);
  ok(seen.right && seen.calls == 299 * 40 && seen.health.damaged_chunks == 1 &&
       seen.health.skipped_bytes == chunk + 70001,
     "and so do bytes that came in");
  longer.size = 0;
  memcpy(trace_more(&longer, t.size), t.bytes, t.size);
  memcpy(trace_more(&longer, t.size), t.bytes, t.size);
  seen = see_bytes(longer.bytes, longer.size);
  ok(seen.right && seen.calls == 12000 && seen.health.damaged_chunks == 300 && !seen.missing,
     "what is there twice is read once");
  longer.size = 0;
  memcpy(trace_more(&longer, head + 2 * chunk), t.bytes, head + 2 * chunk);
  memcpy(trace_more(&longer, t.size - head - 7 * chunk), t.bytes + head + 7 * chunk, t.size - head - 7 * chunk);
  seen = see_bytes(longer.bytes, longer.size);
  ok(seen.right && seen.calls == 295 * 40 && seen.health.damaged_chunks == 5, "chunks that are missing are counted");
  trace_free(&longer);
  trace_free(&t);
}

/* A file that looks like chunks everywhere: reading gives up in time linear in its size, not quadratic. */
static void test_hostile(void) {
  struct trace t = make_calls(1, 1);
  size_t size = 4 << 20;
  struct tagc_trace_chunk like = {TAGC_TRACE_CHUNK_MAGIC, TAGC_TRACE_CHUNK_MOST, 1, 0, 0};
  for (size_t i = 0; i < size / sizeof like; i++)
    memcpy(trace_more(&t, sizeof like), &like, sizeof like);
  struct seen seen = see_bytes(t.bytes, t.size);
  ok(seen.right && seen.calls == 1 && seen.health.damaged_chunks == 1 && seen.health.skipped_bytes == size,
     "a file that looks like chunks all over ends");
  trace_free(&t);
}

/* -- records ------------------------------------------------------------------------------------------------------- */

static void test_records(void) {
  struct trace t = {0};
  struct tagc_trace_call longer[2] = {{.record = {TAGC_TRACE_CALL, sizeof longer, 1}, .number = 1, .count = 7}};
  struct tagc_trace_record later = {99, 16, 0}, none = {0, 8, 0}, endless = {TAGC_TRACE_NAME, 16, 0},
                           nothing = {TAGC_TRACE_CALL, 0, 0};
  struct tagc_trace_call shorter = {.record = {TAGC_TRACE_CALL, 120, 1}, .number = 1, .count = 7};
  char text[16] = "            abcd";
  memcpy(text, &endless, sizeof endless);
  trace_add_bytes(&t, longer, sizeof longer);
  trace_add_bytes(&t, &later, sizeof later);
  trace_more(&t, 8);
  trace_add_bytes(&t, &none, sizeof none);
  trace_add_bytes(&t, text, sizeof text);
  trace_add_bytes(&t, &shorter, 120);
  trace_put(&t, CALL, 1, .number = 2, .count = 14);
  trace_add_bytes(&t, &nothing, sizeof nothing);
  trace_put(&t, CALL, 1, .number = 3, .count = 21);
  trace_chunk_ends(&t);
  trace_put(&t, CALL, 1, .number = 4, .count = 28);
  struct tagc_trace_file *file = open_made(&t);
  struct seen seen = see(file);
  ok(seen.right && seen.calls == 3 && seen.missing == 1,
     "longer ones of a later version, and those around what is none");
  ok(seen.health.unknown_records == 2, "kinds that are not known are counted");
  ok(seen.health.refused_records == 3, "and too short ones, texts without an end, and lengths of nothing");
  ok(seen.health.skipped_bytes == 8 + sizeof(struct tagc_trace_call), "behind a wrong length the chunk is lost");
  tagc_trace_close(file);
  trace_free(&t);
}

/* Records of version 1.0 are shorter: missing fields are 0, whatever follows. */
static void test_older(void) {
  struct trace t = {0};
  struct tagc_trace_call call = {.record = {TAGC_TRACE_CALL, 128, 1}, .number = 7, .result = -1};
  struct tagc_trace_times times = {.record = {TAGC_TRACE_TIMES, 56, 1}, .call = 7, .by_device = 1};
  struct tagc_trace_state state = {.record = {TAGC_TRACE_STATE, 64, 1}, .nonfinite = 9};
  trace_add_bytes(&t, &call, 128);
  trace_add_bytes(&t, &times, 56);
  trace_add_bytes(&t, &state, 64);
  trace_put(&t, CALL, 2, .number = 8, .allgather = 3);
  struct tagc_trace_file *file = open_made(&t);
  const struct tagc_trace_call *c = (const void *)tagc_trace_next(file);
  ok(c && c->record.bytes == sizeof *c && c->number == 7 && c->result == -1 && c->allgather == 0, "a call of 1.0");
  const struct tagc_trace_times *s = (const void *)tagc_trace_next(file);
  ok(s && s->record.bytes == sizeof *s && s->call == 7 && s->by_device == 1 && s->hidden_ns == 0, "its times");
  const struct tagc_trace_state *l = (const void *)tagc_trace_next(file);
  ok(l && l->record.bytes == sizeof *l && l->nonfinite == 9 && l->allgather == 0, "what its codec loses");
  c = (const void *)tagc_trace_next(file);
  ok(c && c->number == 8 && c->allgather == 3 && !tagc_trace_next(file), "and a call of today behind them");
  ok(tagc_trace_health(file)->records == 4 && !tagc_trace_health(file)->refused_records, "none is refused");
  tagc_trace_close(file);
  trace_free(&t);
}

static void test_files(void) {
  char path[] = "/tmp/test_trace_read.XXXXXX";
  int descriptor = mkstemp(path);
  struct trace t = make_calls(200, 480);
  trace_write(&t, path);
  struct tagc_trace_file *file = tagc_trace_open(path, why);
  struct seen seen = file ? see(file) : (struct seen){0};
  ok(seen.right && seen.calls == 96000 && !seen.missing && seen.health.chunks == 200, "a file of 13 MB");
  ok(truncate(path, 5000000) == 0 && file && tagc_trace_rewind(file), "it becomes shorter");
  seen = file ? see(file) : (struct seen){0};
  ok(seen.right && seen.calls > 36000 && seen.calls < 36800 && !seen.missing && seen.health.cut, "and is read anew");
  tagc_trace_close(file);
  ok(!tagc_trace_open("/tmp", why) && strstr(why, "/tmp: Is a directory"), "%s", why);
  ok(!tagc_trace_open("/dev/null", why) && strstr(why, "no file"), "%s", why);
  ok(!tagc_trace_open("/tmp/there/is/none", why) && strstr(why, "No such file"), "%s", why);
  close(descriptor);
  unlink(path);
  trace_free(&t);
}

static void test_jobs(void) {
  struct trace_job job = trace_job_usual(2, 10, 3);
  struct trace t = {0};
  uint64_t kinds[TAGC_TRACE_KINDS] = {0};
  const struct tagc_trace_record *record;
  job.window = 2;
  trace_job_rank(&t, &job, 1);
  struct tagc_trace_file *file = open_made(&t);
  while ((record = tagc_trace_next(file)))
    kinds[record->kind]++;
  ok(kinds[TAGC_TRACE_CALL] == 11 * 10 && kinds[TAGC_TRACE_CYCLE] == 10 && kinds[TAGC_TRACE_TIMES] == 33 &&
       kinds[TAGC_TRACE_SLOT] == 6 && kinds[TAGC_TRACE_STATE] == 12 && kinds[TAGC_TRACE_END] == 1 &&
       kinds[TAGC_TRACE_LOCK] == 1,
     "a job that was made up");
  tagc_trace_close(file);
  trace_free(&t);
}

int main(void) {
  test_whole();
  test_refusals();
  test_damage();
  test_cuts();
  test_middle();
  test_hostile();
  test_records();
  test_older();
  test_files();
  test_jobs();
  return tap_done();
}
