/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report --tensorboard: its event files, read back by a reader of their own, and the scalars of a made job.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose/tagc-report/events/event_file.h"
#include "interpose/tagc-report/events/tensorboard.h"
#include "interpose/tagc-report/judge/steps.h"
#include "tests/unit/tagc-report/make.h"
#include "tests/unit/tap.h"

/* ---- a reader ---------------------------------------------------------------------------------------------------- */

enum { MOST = 1000 };

struct scalar {
  double time;
  uint64_t step;
  char tag[TAGC_EVENT_TAG + 1];
  float value;
};

/* All of a file. */
struct events {
  size_t versions, count;
  struct scalar scalars[MOST];
};

static uint64_t little_endian(const uint8_t *from, int bytes) {
  uint64_t value = 0;
  for (int i = bytes; i-- > 0;)
    value = value << 8 | from[i];
  return value;
}

static bool sum_fits(const uint8_t *data, size_t size) {
  const uint32_t crc = tagc_crc32c(data, size);
  return (uint32_t)little_endian(data + size, 4) == ((crc >> 15 | crc << 17) + 0xa282ead8U);
}

static uint64_t varint(const uint8_t **at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    value |= (uint64_t)(**at & 0x7f) << shift;
    if (!(*(*at)++ & 0x80))
      return value;
  }
}

/* Reads the fields of a message, and of those in it; false: not as expected. */
static bool read_message(const uint8_t *at, size_t size, int depth, struct scalar *out, bool *version) {
  const uint8_t *end = at + size;
  while (at < end) {
    const uint64_t key = varint(&at);
    const unsigned field = (unsigned)key >> 3, type = key & 7;
    const uint64_t length = type == 2 ? varint(&at) : 0;
    if (depth == 0 && field == 1 && type == 1) {
      const uint64_t bits = little_endian(at, 8);
      memcpy(&out->time, &bits, 8);
      at += 8;
    } else if (depth == 0 && field == 2 && type == 0) {
      out->step = varint(&at);
    } else if (depth == 0 && field == 3 && type == 2) {
      *version = length == 13 && memcmp(at, "brain.Event:2", 13) == 0;
      at += length;
    } else if ((depth == 0 && field == 5 && type == 2) || (depth == 1 && field == 1 && type == 2)) {
      if (!read_message(at, length, depth + 1, out, version))
        return false;
      at += length;
    } else if (depth == 2 && field == 1 && type == 2 && length <= TAGC_EVENT_TAG) {
      memcpy(out->tag, at, length);
      out->tag[length] = '\0';
      at += length;
    } else if (depth == 2 && field == 2 && type == 5) {
      const uint32_t bits = (uint32_t)little_endian(at, 4);
      memcpy(&out->value, &bits, 4);
      at += 4;
    } else {
      return false;
    }
  }
  return at == end;
}

static bool read_events(const uint8_t *at, size_t size, struct events *out) {
  const uint8_t *end = at + size;
  out->versions = out->count = 0;
  while (end - at >= 16 && out->count < MOST) {
    const uint64_t length = little_endian(at, 8);
    struct scalar *next = &out->scalars[out->count];
    bool version = false;
    *next = (struct scalar){.step = 0};
    if (length > (uint64_t)(end - at) - 16 || !sum_fits(at, 8) || !sum_fits(at + 12, length) ||
        !read_message(at + 12, length, 0, next, &version))
      return false;
    out->versions += version;
    out->count += !version;
    at += length + 16;
  }
  return at == end;
}

static struct events found;

/* The scalars of a run of the summary, in `found`. */
static bool read_run(const struct tagc_summary *summary, size_t run) {
  char *bytes = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&bytes, &size);
  const bool written = tagc_tensorboard_write(summary, run, file);
  fclose(file);
  const bool good = written && read_events((const uint8_t *)bytes, size, &found) && found.versions == 1;
  free(bytes);
  return good;
}

static size_t count_of(const char *tag) {
  size_t n = 0;
  for (size_t i = 0; i < found.count; i++)
    n += strcmp(found.scalars[i].tag, tag) == 0;
  return n;
}

static double value_of(const char *tag, uint64_t step) {
  for (size_t i = 0; i < found.count; i++)
    if (strcmp(found.scalars[i].tag, tag) == 0 && found.scalars[i].step == step)
      return (double)found.scalars[i].value;
  return NAN;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static void test_sums(void) {
  uint8_t bytes[32] = {0};
  ok(tagc_crc32c("123456789", 9) == 0xe3069283U, "the check value of CRC-32C");
  ok(tagc_crc32c(bytes, 32) == 0x8a9136aaU, "RFC 3720: zeros");
  memset(bytes, 0xff, 32);
  ok(tagc_crc32c(bytes, 32) == 0x62a8ab43U, "RFC 3720: ones");
  for (int i = 0; i < 32; i++)
    bytes[i] = (uint8_t)i;
  ok(tagc_crc32c(bytes, 32) == 0x46dd794eU, "RFC 3720: ascending");
}

static void test_frames(void) {
  /* The head of every event file that TensorFlow writes. */
  static const uint8_t head[] = {0x18, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22, 0x09};
  char *bytes, tag[2 * TAGC_EVENT_TAG];
  size_t size;
  FILE *file = open_memstream(&bytes, &size);
  tagc_event_version(file, 1700000000.5);
  fflush(file);
  ok(size == 40 && memcmp(bytes, head, sizeof head) == 0, "the first record, as TensorFlow writes it");
  memset(tag, 'x', sizeof tag);
  tag[sizeof tag - 1] = '\0';
  tagc_event_scalar(file, 1700000001.25, 300, "a/b", -0.75);
  tagc_event_scalar(file, 2, UINT64_C(1) << 40, tag, INFINITY);
  fclose(file);
  ok(read_events((uint8_t *)bytes, size, &found) && found.versions == 1 && found.count == 2, "records with right sums");
  const struct scalar *one = found.scalars, *two = one + 1;
  ok(one->time == 1700000001.25 && one->step == 300 && strcmp(one->tag, "a/b") == 0 && one->value == -0.75F,
     "time, step, tag and value of a scalar");
  ok(two->step == UINT64_C(1) << 40 && strlen(two->tag) == TAGC_EVENT_TAG && isinf(two->value),
     "a long tag is cut, a large step is whole");
  bytes[50]++;
  ok(!read_events((uint8_t *)bytes, size, &found), "a changed byte is noticed");
  free(bytes);
}

/* ---- a job ------------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/tagc-test-events.XXXXXX";

static struct tagc_summary *read_job(const struct trace_job *job, char ***paths) {
  *paths = trace_job_write(job, folder, "job");
  struct tagc_summary *summary = tagc_sum_read(*paths, (size_t)job->ranks);
  if (!summary)
    abort();
  return summary;
}

static void test_job(void) {
  struct trace_job job = trace_job_usual(2, 24, 3);
  char **paths, name[32], names[200] = "";
  job.window = 4;
  job.disturbed = 11;
  struct tagc_summary *summary = read_job(&job, &paths);
  for (size_t run = 0; run < tagc_tensorboard_runs(summary); run++)
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", tagc_tensorboard_run(summary, run, name));
  ok(strcmp(names, "rank0 rank1 plain compressed layers ") == 0, "the runs: %s", names);

  const struct tagc_sum_rank *rank = &summary->ranks[1];
  size_t whole = 0, right = 0;
  bool good = read_run(summary, 1);
  for (size_t i = 0; i < rank->step_count; i++) {
    const struct tagc_sum_step *step = &rank->steps[i];
    const double took = 1e-9 * (double)step->ns, got = value_of("step/seconds", i + 1);
    whole += step->whole;
    right += step->whole && fabs(got - took) < 1e-6 * took &&
             value_of("bytes/sent", i + 1) == (double)step->sent.between &&
             value_of("bytes/plain", i + 1) == (double)step->plain.between &&
             fabs(value_of("step/exposed_seconds", i + 1) - 1e-9 * (double)step->host_ns) < 1e-6 * took;
    if (!step->whole && !isnan(got))
      right = SIZE_MAX;
  }
  ok(good && whole == count_of("step/seconds") && right == whole && whole < rank->step_count,
     "a rank: the %zu whole steps of %zu", whole, rank->step_count);
  ok(found.scalars[0].time > 1e9, "at times since 1970");

  size_t sides[2];
  good = true;
  for (size_t side = 0; side < 2; side++) {
    good = good && read_run(summary, 2 + side);
    sides[side] = count_of("step/seconds");
    for (size_t i = 0; i < summary->ranks[0].step_count; i++) {
      const struct tagc_sum_step *a = &summary->ranks[0].steps[i], *b = &summary->ranks[1].steps[i];
      const double mean = 0.5e-9 * ((double)a->ns + (double)b->ns), got = value_of("step/seconds", i + 1);
      const bool counts = a->whole && b->whole && a->side == 1 + side;
      good = good && (counts ? fabs(got - mean) < 1e-6 * mean : isnan(got));
    }
  }
  ok(good && sides[0] && sides[1] && sides[0] + sides[1] <= whole, "sides: %zu plain steps, %zu compressed ones",
     sides[0], sides[1]);

  good = read_run(summary, 4);
  const struct tagc_sum_comm *main = summary->comms;
  right = 0;
  for (size_t i = 0; i < main->slot_count; i++) {
    char error[64], residual[64];
    snprintf(error, sizeof error, "error/%s", main->slots[i].name);
    snprintf(residual, sizeof residual, "residual/%s", main->slots[i].name);
    for (size_t p = 0; p < main->slots[i].point_count; p++) {
      const struct tagc_sum_point *point = &main->slots[i].points[p];
      const size_t number = tagc_step_number(summary, main->slots[i].lock, point->cycle);
      right += (float)point->error == (float)value_of(error, number) &&
               (float)point->residual == (float)value_of(residual, number);
    }
  }
  ok(good && right && 2 * right == found.count, "layers: %zu errors and residuals", right);
  tagc_sum_free(summary);
  trace_paths_free(paths);

  job.window = 0;
  job.states = false;
  summary = read_job(&job, &paths);
  ok(tagc_tensorboard_runs(summary) == 2, "without sides and samples there are ranks alone");
  tagc_sum_free(summary);
  trace_paths_free(paths);
}

int main(void) {
  if (!mkdtemp(folder))
    return 1;
  test_sums();
  test_frames();
  test_job();
  rmdir(folder);
  return tap_done();
}
