/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/device/parameter_stats.h"

#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 8192, RANKS = 2, OWN = 0, NOBODY = -1, RUNS = 4 /* the first one does not count */ };

/* A call between two ranks with the same shards. */
struct parameter_trial {
  const struct tagc_allgather_codec *codec;
  struct tagc_allgather_job job;
  struct tagc_allgather_sizes sizes;
  const void *before;
  size_t sample_bytes;
  uint8_t *memory; /* of all buffers of the job */
};

/* Rounds up to the alignment of buffers. */
static size_t aligned(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

static void repeat(uint8_t *to, size_t bytes, const void *sample, size_t sample_bytes) {
  for (size_t at = 0; at < bytes; at += sample_bytes)
    memcpy(to + at, sample, sample_bytes);
}

/* Lays the buffers out; false if the codec cannot have the shape, or without memory. */
static bool make_trial(struct parameter_trial *t, const void *after, size_t n, enum tagc_dtype dtype) {
  struct tagc_allgather_job *job = &t->job;
  const size_t times = ELEMENTS / n + (n > ELEMENTS), shard = times * t->sample_bytes;
  job->shape = (struct tagc_allgather_shape){.n = times * n, .nranks = RANKS, .dtype = dtype};
  if (!t->codec->layout(&job->shape, &job->layout))
    return false;
  const size_t used = aligned(tagc_allgather_assign_buffers(job, NULL));
  t->memory = aligned_alloc(64, used + aligned((1 + 2 * RANKS) * shard));
  if (!t->memory)
    return false;
  (void)tagc_allgather_assign_buffers(job, t->memory);
  uint8_t *send = t->memory + used;
  repeat(send, shard, after, t->sample_bytes);
  send[0] ^= 1; /* the lowest bit of an element: a change even if there is none */
  job->send = send;
  job->reference = send + shard;
  job->recv = send + (1 + RANKS) * shard;
  job->sizes = &t->sizes;
  return true;
}

/* One call. Adds its times where they are less. */
static void run_trial(struct parameter_trial *t, double (*clock_ms)(void), double best_ms[2]) {
  struct tagc_allgather_job *job = &t->job;
  const size_t shard = job->shape.n * tagc_dtype_size(job->shape.dtype);
  repeat(job->reference, RANKS * shard, t->before, t->sample_bytes);
  t->sizes = (struct tagc_allgather_sizes){0};
  job->rank = OWN;
  const double began = clock_ms();
  t->codec->encode(job);
  const double encoded = clock_ms();
  memcpy(tagc_allgather_payload(job, 1), tagc_allgather_payload(job, OWN), job->layout.payload_bytes);
  job->rank = NOBODY; /* no shard is the own one, which needs no decoding */
  const double arrived = clock_ms();
  t->codec->decode(job);
  const double decode_ms = clock_ms() - arrived;
  best_ms[0] = encoded - began < best_ms[0] ? encoded - began : best_ms[0];
  best_ms[1] = decode_ms < best_ms[1] ? decode_ms : best_ms[1];
}

static double no_clock(void) { return 0; }

bool tagc_parameter_stats_measure(const struct tagc_allgather_codec *codec, const void *before, const void *after,
                                  size_t n, enum tagc_dtype dtype, double (*clock_ms)(void),
                                  struct tagc_parameter_stats *out) {
  struct parameter_trial t = {.codec = codec, .before = before, .sample_bytes = n * tagc_dtype_size(dtype)};
  double best_ms[2] = {__builtin_inf(), __builtin_inf()};
  *out = (struct tagc_parameter_stats){__builtin_inf(), __builtin_inf(), __builtin_inf(), 0};
  if (!make_trial(&t, after, n, dtype))
    return false;
  run_trial(&t, no_clock, (double[2]){0, 0});
  for (int i = 1; i < RUNS; i++)
    run_trial(&t, clock_ms ? clock_ms : no_clock, best_ms);
  const double elements = (double)t.job.shape.n;
  if (!t.job.refused && !t.job.failed)
    *out = (struct tagc_parameter_stats){.bits = 8 * (double)t.sizes.payload_bytes / elements,
                                         .encode_ns = 1e6 * best_ms[0] / elements,
                                         .decode_ns = 1e6 * best_ms[1] / (RANKS * elements)};
  free(t.memory);
  return true;
}
