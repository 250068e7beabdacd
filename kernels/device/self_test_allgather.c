/* SPDX-License-Identifier: BSD-3-Clause
 * Runs two ranks of an all-gather on the host, and the first of them on the device, too. See self_test.h.
 */
#include "kernels/device/self_test_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/allgather/exact.h"
#include "kernels/allgather/steps.h"
#include "kernels/allgather/support.h"
#include "kernels/codec/assign_buffer.h"

enum {
  RANKS = 2,
  CALLS = 4, /* the second keeps the own shard, the third has non-finite values, and the other rank refuses the
              * fourth, if the codec may refuse */
  KEPT = 1,
  NONFINITE = 2,
  REFUSED = 3,
  PART = 70001,    /* elements: no block size divides it, and there are two segments */
  ANYTHING = 0xa5, /* fills memory at first, on both sides */
};

/* A rank's call and its memory. */
struct piece {
  struct tagc_allgather_job job;
  uint8_t *memory;
  uint64_t digest; /* of its reference */
};

struct tried {
  struct tagc_self_test_run run;
  const struct tagc_allgather_codec *codec;
  struct piece ranks[RANKS], its; /* on the host; the first one on the device */
};

static size_t shard_bytes(const struct tagc_allgather_shape *shape) { return shape->n * tagc_dtype_size(shape->dtype); }

/* Points the buffers into the memory, which may be NULL; returns the bytes that they need. */
static size_t assign_allgather_buffers(struct piece *its) {
  struct tagc_allgather_job *job = &its->job;
  size_t used = tagc_allgather_assign_buffers(job, its->memory);
  job->send = tagc_assign_buffer(its->memory, &used, shard_bytes(&job->shape));
  job->recv = tagc_assign_buffer(its->memory, &used, RANKS * shard_bytes(&job->shape));
  job->reference = tagc_assign_buffer(its->memory, &used, job->layout.reference_bytes);
  job->tables = tagc_assign_buffer(its->memory, &used, job->layout.tables_bytes);
  return used;
}

/* A weight: of varying magnitude, sometimes zero, slightly different in each call. */
static float test_parameter(uint64_t place, int call) {
  const uint64_t mixed = tagc_mix64(place + 1), change = tagc_mix64(place + 77 * (uint64_t)(call + 1));
  const uint32_t exponent = mixed >> 40 & 63 ? 116 + (uint32_t)(mixed >> 32) % 5 : 90 + (uint32_t)(mixed >> 32) % 40;
  const float x = tagc_float_of((uint32_t)(mixed >> 63) << 31 | exponent << 23 | ((uint32_t)mixed & 0x7fffff));
  return mixed % 512 == 0 ? 0 : x + x * ((float)(change >> 48) - 32768) * 0x1p-22f;
}

/* Has a sum a value here? In one block a few have, in the next a third, in the third all. */
static bool test_sum_is_there(uint64_t i, int call) {
  const uint64_t mixed = tagc_mix64(i + 5 * (uint64_t)(call + 1)), block = i / TAGC_ALLGATHER_BLOCK % 8;
  return mixed % 20 == 0 || (block == 1 && mixed % 3 == 0) || block == 2;
}

static void fill_parameters(const struct tried *t, const struct tagc_allgather_job *job, int call) {
  const bool sums = t->codec == &tagc_allgather_support;
  void *send = (void *)(uintptr_t)job->send;
  for (uint64_t i = 0; i < job->shape.n; i++)
    tagc_store(send, i, job->shape.dtype,
               sums && !test_sum_is_there(i, call) ? 0 : test_parameter((uint64_t)job->rank << 32 | i, call));
  for (uint64_t i = 0; i < 3 && call == NONFINITE; i++)
    tagc_store(send, job->shape.n / 16 * (i + 1), job->shape.dtype, tagc_float_of(i ? 0x7f800000u : 0x7fc00000u));
}

static bool copy_to_device(struct tried *t, const void *there, const void *host, size_t bytes) {
  const struct tagc_self_test_run *run = &t->run;
  return !bytes || run->device->put(run->device, (void *)(uintptr_t)there, host, bytes, run->stream) ||
         tagc_self_test_device_failed(&t->run);
}

/* The digest of what is kept, if the codec has one. */
static bool compare_digests(struct tried *t) {
  if (!t->run.device->allgather_digest(t->run.device, t->codec, &t->its.job, t->run.stream))
    return tagc_self_test_device_failed(&t->run);
  return t->its.digest == t->ranks[0].digest ||
         tagc_self_test_end(&t->run, TAGC_SELF_TEST_FAILED, "the digest of what is kept differs");
}

/* Runs the plain call that a reference begins with. */
static bool begin_reference(struct tried *t) {
  struct tagc_allgather_job *host = &t->ranks[0].job, *job = &t->its.job;
  const size_t shard = shard_bytes(&host->shape);
  if (!t->codec->refer)
    return true;
  for (int r = 0; r < RANKS; r++)
    fill_parameters(t, &t->ranks[r].job, -1);
  for (int to = 0; to < RANKS; to++) {
    for (int from = 0; from < RANKS; from++)
      memcpy((char *)t->ranks[to].job.recv + (size_t)from * shard, t->ranks[from].job.send, shard);
    t->codec->refer(&t->ranks[to].job);
  }
  if (!copy_to_device(t, job->recv, host->recv, RANKS * shard))
    return false;
  if (!t->run.device->allgather_refer(t->run.device, t->codec, job, t->run.stream))
    return tagc_self_test_device_failed(&t->run);
  return tagc_self_test_compare(&t->run, "what is kept differs", host->reference, job->reference,
                                host->layout.reference_bytes) &&
         compare_digests(t);
}

/* Tries the first rank's payload; then gives both payloads to both host ranks. */
static bool try_allgather_encode(struct tried *t, int call) {
  struct tagc_allgather_job *host = &t->ranks[0].job, *job = &t->its.job;
  const size_t bytes = host->layout.payload_bytes;
  for (int r = 0; r < RANKS; r++)
    t->codec->encode(&t->ranks[r].job);
  struct tagc_allgather_header *mine = (void *)host->payloads, *other = (void *)(t->ranks[1].job.payloads + bytes);
  if (call == REFUSED && t->codec->may_refuse)
    other->flags |= TAGC_ALLGATHER_REFUSED;
  memcpy(host->payloads + bytes, other, bytes);
  memcpy(t->ranks[1].job.payloads, mine, bytes);
  if (!copy_to_device(t, job->send, host->send, shard_bytes(&host->shape)))
    return false;
  if (!t->run.device->allgather_encode(t->run.device, t->codec, job, t->run.stream))
    return tagc_self_test_device_failed(&t->run);
  const size_t head = t->codec == &tagc_allgather_exact ? sizeof(struct tagc_exact_header) : sizeof *mine;
  return tagc_self_test_compare(&t->run, "a payload differs", mine, job->payloads, mine->flags ? head : bytes);
}

static bool try_allgather_decode(struct tried *t) {
  struct tagc_allgather_job *host = &t->ranks[0].job, *job = &t->its.job;
  const size_t bytes = host->layout.payload_bytes;
  bool refused = false;
  for (int r = 0; r < RANKS; r++)
    t->codec->decode(&t->ranks[r].job);
  if (!copy_to_device(t, job->payloads + bytes, host->payloads + bytes, bytes))
    return false;
  if (!t->run.device->allgather_decode(t->run.device, t->codec, job, t->run.stream))
    return tagc_self_test_device_failed(&t->run);
  if (t->codec->may_refuse && !t->run.device->allgather_refused(t->run.device, t->codec, job, t->run.stream, &refused))
    return job->failed ? tagc_self_test_end(&t->run, TAGC_SELF_TEST_FAILED, "a result differs")
                       : tagc_self_test_device_failed(&t->run);
  if (refused != host->refused)
    return tagc_self_test_end(&t->run, TAGC_SELF_TEST_FAILED, "whether a shard is refused differs");
  return tagc_self_test_compare(&t->run, "a result differs", host->recv, job->recv,
                                RANKS * shard_bytes(&host->shape)) &&
         tagc_self_test_compare(&t->run, "what is kept differs", host->reference, job->reference,
                                host->layout.reference_bytes) &&
         compare_digests(t);
}

static bool try_allgather_calls(struct tried *t) {
  for (int call = 0; call < CALLS; call++) {
    for (int r = 0; r < RANKS; r++) {
      fill_parameters(t, &t->ranks[r].job, call);
      t->ranks[r].job.seed = (uint64_t)call + 1;
      t->ranks[r].job.keep_own = call == KEPT;
    }
    t->its.job.seed = (uint64_t)call + 1;
    t->its.job.keep_own = call == KEPT;
    if (!try_allgather_encode(t, call) || !try_allgather_decode(t))
      return false;
  }
  return true;
}

static bool start_allgather_rank(struct tried *t, const struct tagc_allgather_shape *shape, int number) {
  struct piece *rank = &t->ranks[number];
  *rank = (struct piece){.job = {.shape = *shape, .rank = number, .digest = &rank->digest}};
  if (!t->codec->layout(shape, &rank->job.layout))
    return false;
  const size_t bytes = assign_allgather_buffers(rank);
  rank->memory = aligned_alloc(64, bytes);
  if (rank->memory)
    memset(rank->memory, ANYTHING, bytes);
  assign_allgather_buffers(rank);
  return rank->memory;
}

/* Tries a codec with one type of parameters: allocates, runs, frees. */
static void try_type(struct tried *t, const struct tagc_allgather_shape *shape) {
  const struct tagc_device *device = t->run.device;
  struct tagc_allgather_layout layout;
  bool good = true;
  if (!t->codec->layout(shape, &layout))
    return; /* the codec cannot carry it */
  for (int r = 0; r < RANKS; r++)
    good = start_allgather_rank(t, shape, r) && good;
  t->its = (struct piece){.job = {.shape = *shape, .digest = &t->its.digest}};
  good = good && device->allgather_layout(device, t->codec, shape, &t->its.job.layout);
  const size_t bytes = good ? assign_allgather_buffers(&t->its) : 0;
  t->its.memory = good ? device->alloc(device, bytes, t->run.stream) : NULL;
  t->run.seen = malloc(bytes);
  if (t->its.memory && t->run.seen) {
    assign_allgather_buffers(&t->its);
    memset(t->run.seen, ANYTHING, bytes);
    (void)(copy_to_device(t, t->its.memory, t->run.seen, bytes) && begin_reference(t) && try_allgather_calls(t));
  } else {
    tagc_self_test_end(&t->run, TAGC_SELF_TEST_NOT_RUN, "no memory to try it");
  }
  device->release(device, t->its.memory, t->run.stream);
  free(t->run.seen);
  for (int r = 0; r < RANKS; r++)
    free(t->ranks[r].memory);
}

enum tagc_self_test tagc_self_test_allgather(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                                             void *stream, char *why, size_t size) {
  struct tried tried = {.run = {device, codec->name, stream, NULL, TAGC_SELF_TEST_PASSED, why, size}, .codec = codec};
  static const enum tagc_dtype types[] = {TAGC_FLOAT32, TAGC_FLOAT16, TAGC_BFLOAT16};
  for (size_t i = 0; i < sizeof types / sizeof *types && tried.run.result == TAGC_SELF_TEST_PASSED; i++) {
    const struct tagc_allgather_shape shape = {
      .n = tagc_self_test_elements(device, PART), .nranks = RANKS, .dtype = types[i]};
    memset(tried.ranks, 0, sizeof tried.ranks);
    try_type(&tried, &shape);
  }
  return tried.run.result;
}
