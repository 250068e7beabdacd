/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report --characterise: every file of calls (tests/fixtures) byte by byte, and bandwidths as nccl-tests count
 * them.
 */
#include "interpose/tagc-report/judge/characterise.h"

#include <math.h>

#include "interpose/tagc-report/judge/volume.h"
#include "interpose/tagc-report/show/report.h"
#include "tests/unit/fixtures.h"
#include "tests/unit/tap.h"
#include "tests/unit/tagc-report/jobs.h"

/* The first ranks of a job make whole steps. */
static void make_steps(struct tagc_summary *job, int ranks) {
  static struct tagc_sum_step steps[JOB_STEPS];
  job->rank_count = (size_t)ranks;
  for (int i = 0; i < JOB_STEPS; i++)
    steps[i].whole = true;
  for (int i = 0; i < ranks; i++) {
    job->ranks[i].steps = steps;
    job->ranks[i].step_count = JOB_STEPS;
    job->ranks[i].blocking = true;
  }
}

/* What --characterise prints; for free(). */
static char *print_traits(struct tagc_summary *job) {
  char *text = NULL;
  size_t size;
  FILE *to = open_memstream(&text, &size);
  struct tagc_report report = {.summary = job};
  if (!to || !tagc_traits_find(job, &report.traits))
    abort();
  tagc_report_characterise(&report, to);
  fclose(to);
  tagc_traits_free(&report.traits);
  return text;
}

/* The messages of the step at the end of a file; counts its calls. */
static double step_of_file(const char *path, size_t *calls) {
  struct tagc_complaint complaint;
  struct tagc_call_file *file = tagc_calls_read(path, &complaint);
  const struct tagc_call_list *list = &file->lists[0];
  double bytes = 0;
  *calls = fixtures_step(path);
  for (size_t i = list->count - *calls; i < list->count; i++) {
    const struct tagc_signature *call = &list->calls[i];
    const bool whole = call->collective != TAGC_COLL_ALL_REDUCE && call->collective != TAGC_COLL_BROADCAST &&
                       call->collective != TAGC_COLL_REDUCE;
    bytes += (double)(call->count * job_element(call->dtype)) * (whole ? list->nranks : 1);
  }
  tagc_calls_free(file);
  return bytes;
}

static void test_file(const char *path) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *comm = job_fixture(job, path, 0);
  struct tagc_traits traits;
  double calls = 0, bytes = 0, plain = 0;
  size_t expected_calls;
  make_steps(job, comm->nranks);
  tagc_sum_roles(job);
  const double expected = step_of_file(path, &expected_calls);
  ok(tagc_traits_find(job, &traits) && traits.steps, "%s has steps", strrchr(path, '/') + 1);
  for (size_t i = 0; i < traits.count; i++) {
    calls += traits.rows[i].calls / traits.each;
    bytes += traits.rows[i].message_bytes / traits.each;
    plain += traits.rows[i].plain_bytes;
  }
  ok(fabs(calls - (double)expected_calls) < 1e-6, "%g calls a step, of %zu", calls, expected_calls);
  ok(fabs(bytes - expected) < 0.5, "messages of %.0f bytes a step, of %.0f", bytes, expected);
  ok(plain == traits.all.plain_bytes && traits.of[comm->role].calls == traits.all.calls, "shares add up");
  char *text = print_traits(job);
  size_t widest = 0;
  for (const char *line = text; *line; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n'))
    widest = strcspn(line, "\n") > widest ? strcspn(line, "\n") : widest;
  ok(widest <= 120 && strstr(text, "Sizes of messages"), "the text has %zu columns", widest);
  free(text);
  tagc_traits_free(&traits);
  job_free(job);
}

static void test_fixtures(void) {
  glob_t found;
  const size_t count = fixtures_find("*", &found);
  for (size_t i = 0; i < count; i++)
    test_file(found.gl_pathv[i]);
  ok(count > 60, "%zu files of calls", count);
  globfree(&found);
}

/* The calls a step of a function and size class, and their messages together, by hand from the lines of the file. */
static const struct by_hand {
  const char *file;
  uint16_t function;
  int size_class;
  double calls, bytes;
} by_hand[] = {
  /* all-reduce 345408, 296640 x2, 296832 x2, 296256; 74112; 1; of 4 bytes each */
  {"real-ddp", JOB_AR, 20, 6, 7314432},
  {"real-ddp", JOB_AR, 18, 1, 296448},
  {"real-ddp", JOB_AR, 2, 1, 4},
  /* two ranks: all-gather 90752 x12, 128064; reduce-scatter 90752 x6, 128064; all-reduce 57 */
  {"real-fsdp2", JOB_AG, 19, 13, 9736704},
  {"real-fsdp2", JOB_RS, 19, 7, 5380608},
  {"real-fsdp2", JOB_AR, 7, 1, 228},
  {"real-zero1", JOB_AG, 22, 1, 7610880},
};

static void test_by_hand(void) {
  for (size_t i = 0; i < sizeof by_hand / sizeof *by_hand; i++) {
    const struct by_hand *hand = &by_hand[i];
    struct tagc_summary *job = job_make();
    struct tagc_traits traits;
    double calls = 0, bytes = 0;
    glob_t found;
    if (fixtures_find(hand->file, &found) != 1)
      abort();
    make_steps(job, job_fixture(job, found.gl_pathv[0], 0)->nranks);
    tagc_sum_roles(job);
    if (!tagc_traits_find(job, &traits))
      abort();
    for (size_t k = 0; k < traits.count; k++)
      if (traits.rows[k].function == hand->function && traits.rows[k].size_class == hand->size_class) {
        calls += traits.rows[k].calls / traits.each;
        bytes += traits.rows[k].message_bytes / traits.each;
      }
    ok(fabs(calls - hand->calls) < 1e-9 && fabs(bytes - hand->bytes) < 0.5,
       "%s: %g calls of 2^%d bytes or more, %.0f bytes; by hand %g, %.0f", hand->file, calls, hand->size_class, bytes,
       hand->calls, hand->bytes);
    tagc_traits_free(&traits);
    globfree(&found);
    job_free(job);
  }
}

/* 4 MB in 1 ms: algbw 4 GB/s; a message of 2 KB in 10 us. */
static void test_bandwidth(void) {
  struct tagc_summary *job = job_make();
  struct tagc_sum_comm *comm = job_comm(job, 4, 0, 1);
  make_steps(job, 4);
  job_calls(comm, JOB_AR, JOB_F32, JOB_SUM, 1000000, 2);
  job_calls(comm, JOB_AG, JOB_F32, 0, 1000000, 1);
  job_calls(comm, JOB_SEND, JOB_F16, 0, 1000, 3);
  comm->lines[0].whole.wire_calls = comm->lines[0].whole.calls;
  comm->lines[0].whole.wire_ns = comm->lines[0].whole.calls * 1000000;
  comm->lines[2].whole.alone_calls = 5; /* the others were in groups */
  comm->lines[2].whole.alone_ns = 50000;
  tagc_sum_roles(job);
  ok(tagc_busbw_factor(job, JOB_AR, 4) == 1.5 && tagc_busbw_factor(job, JOB_AG, 4) == 0.75 &&
       tagc_busbw_factor(job, JOB_RS, 4) == 0.75 && tagc_busbw_factor(job, JOB_A2A, 4) == 0.75 &&
       tagc_busbw_factor(job, JOB_BROADCAST, 4) == 1 && tagc_busbw_factor(job, JOB_SEND, 4) == 1,
     "busbw over algbw");
  ok(tagc_message_bytes(job, JOB_AG, 4, 10) == 40 && tagc_message_bytes(job, JOB_AR, 4, 10) == 10, "sizes of messages");
  char *text = print_traits(job);
  const char *sum = strstr(text, "\n  AllReduce "), *message = strstr(text, "\n  Send ");
  char calls[16] = "", size[16] = "";
  double us = 0, algbw = 0, busbw = 0;
  int read = sum ? sscanf(sum, " AllReduce 4 %15s MiB plain %15s %lf %lf %lf", size, calls, &us, &algbw, &busbw) : 0;
  ok(read == 5 && us == 1000 && algbw == 4 && busbw == 6 && strcmp(calls, "24") == 0,
     "an all-reduce: %s calls of %s MiB in %g us: %g GB/s, busbw %g", calls, size, us, algbw, busbw);
  read = message ? sscanf(message, " Send 4 %15s KiB plain %15s %lf %lf %lf", size, calls, &us, &algbw, &busbw) : 0;
  ok(read == 5 && us == 10 && algbw == 0.2 && busbw == 0.2 && strcmp(calls, "5") == 0,
     "a message: %s calls of %s KiB in %g us: %g GB/s", calls, size, us, algbw);
  free(text);
  job_free(job);
}

int main(void) {
  test_fixtures();
  test_by_hand();
  test_bandwidth();
  return tap_done();
}
