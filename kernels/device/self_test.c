/* SPDX-License-Identifier: BSD-3-Clause
 * Runs two ranks on the host, and the first of them on the device, too. See self_test.h.
 */
#include "kernels/device/self_test_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/codec/assign_buffer.h"
#include "kernels/codec/bits.h"
#include "kernels/codec/fpmode.h"
#include "kernels/codec/residual.h"
#include "kernels/codec/nonzero_index.h"

enum {
  RANKS = 2,
  CALLS = 3, /* the second has a residual and a non-finite value, so the third one's residual is void */
  NONFINITE = 1,
  VOID = 2,        /* of the calls, from 0 on */
  LOCAL = 3,       /* of the ranks of a host, in two levels */
  PART = 20011,    /* elements: no block size divides it */
  ANYTHING = 0xa5, /* fills memory at first, on both sides: padding is compared, too */
};

/* The variants that a codec is tried with; shards of n elements. */
static const struct variant {
  enum tagc_dtype dtype;
  enum tagc_storage residual;
  uint32_t n, keep_ppm; /* enough for a sketch */
  bool large;           /* several stripes: for codecs that have them */
  int local;            /* two levels: for codecs that add a host's values themselves */
} variants[] = {
  {TAGC_FLOAT32, TAGC_STORAGE_INT8, PART, 250000, false, 0},
  {TAGC_BFLOAT16, TAGC_STORAGE_FP32, PART, 250000, false, 0},
  {TAGC_FLOAT16, TAGC_STORAGE_BF16, PART, 250000, false, 0},
  {TAGC_FLOAT32, TAGC_STORAGE_NONE, PART, 250000, false, 0},
  {TAGC_BFLOAT16, TAGC_STORAGE_BF16, 7 * PART, 500000, true, 0},
  {TAGC_BFLOAT16, TAGC_STORAGE_NONE, PART, 250000, false, LOCAL},
};

/* A rank's call and its memory. */
struct piece {
  struct tagc_job job;
  int64_t *words;
  void *flushed;
  uint8_t *memory; /* holds all buffers */
};

struct played {
  struct piece its;
  struct tagc_codec_stats stats;
};

/* The first rank on the device. */
struct tried {
  struct tagc_self_test_run run;
  const struct tagc_codec *codec;
  struct piece its;
};

static size_t bytes_of_all(const struct tagc_shape *shape) { return RANKS * shape->n * tagc_dtype_size(shape->dtype); }

/* In two levels a host has the values of all its ranks. */
static size_t shards_sent(const struct tagc_shape *shape) { return RANKS * (size_t)(shape->local ? shape->local : 1); }

static size_t bytes_sent(const struct tagc_shape *shape) { return bytes_of_all(shape) / RANKS * shards_sent(shape); }

/* Points the buffers into the memory, which may be NULL; returns the bytes that they need. */
static size_t assign_rank_buffers(struct piece *its, const struct tagc_device *device) {
  struct tagc_job *job = &its->job;
  size_t used = tagc_job_assign_buffers(job, its->memory);
  const size_t residual = tagc_residual_bytes(&job->shape);
  void *there = tagc_assign_buffer(its->memory, &used, residual);
  job->residual = residual ? there : NULL;
  job->send = tagc_assign_buffer(its->memory, &used, bytes_sent(&job->shape));
  job->values = tagc_assign_buffer(its->memory, &used, job->shape.local ? bytes_sent(&job->shape) : 0);
  job->recv = tagc_assign_buffer(its->memory, &used, bytes_of_all(&job->shape) / RANKS);
  its->flushed = tagc_assign_buffer(its->memory, &used, bytes_of_all(&job->shape));
  its->words = tagc_assign_buffer(its->memory, &used, TAGC_FLAGS * sizeof *its->words);
  there = tagc_assign_buffer(its->memory, &used, device ? device->health_bytes : 0);
  job->health = device && device->health_bytes ? there : NULL;
  return used;
}

/* A value of random magnitude, sometimes zero. */
static float test_gradient(uint64_t place, uint32_t binades) {
  const uint64_t mixed = tagc_mix64(place + 1);
  const uint32_t exponent = 100 + (uint32_t)(mixed >> 32) % binades, sign = (uint32_t)(mixed >> 63) << 31;
  return mixed % 64 == 0 ? 0 : tagc_float_of(sign | exponent << 23 | ((uint32_t)mixed & 0x7fffff));
}

static void fill_gradient(const struct tagc_job *job, int call) {
  void *send = (void *)(uintptr_t)job->send;
  for (uint64_t i = 0; i < shards_sent(&job->shape) * job->shape.n; i++) {
    /* Of a host's ranks only some values are far apart: their sums go in lists, which are full in the last call. */
    const uint32_t binades = job->shape.local && call != VOID && i % 64 ? 6 : 24;
    tagc_store(send, i, job->shape.dtype,
               test_gradient(((uint64_t)call << 32 | (uint64_t)job->rank << 24) + i, binades));
  }
  for (uint64_t shard = 0; shard < RANKS && call == NONFINITE; shard++)
    tagc_store(send, shard * job->shape.n + job->shape.n / 5, job->shape.dtype, tagc_float_of(0x7f800000u));
}

static bool start_rank(struct played *rank, const struct tagc_codec *codec, const struct tagc_shape *shape,
                       int number) {
  struct tagc_job *job = &rank->its.job;
  *rank = (struct played){.its.job = {.shape = *shape, .rank = number, .scale = 0.5f, .divisor = RANKS}};
  if (shape->local) {
    job->scale = 1;
    job->divisor = (float)(RANKS * shape->local);
    job->has_values = true;
  }
  if (!codec->layout(shape, &job->layout))
    return false;
  rank->its.memory = aligned_alloc(64, assign_rank_buffers(&rank->its, NULL));
  if (!rank->its.memory)
    return false;
  memset(rank->its.memory, ANYTHING, assign_rank_buffers(&rank->its, NULL));
  job->stats = &rank->stats;
  return true;
}

static uint8_t *part(uint8_t *all, int shard, size_t bytes) { return all + (size_t)shard * bytes; }

/* The exchange between two ranks. */
static void exchange_exponents(struct played ranks[RANKS]) {
  struct tagc_job *a = &ranks[0].its.job, *b = &ranks[1].its.job;
  for (size_t i = 0; i < RANKS * a->layout.exponent_bytes; i++)
    a->exponents[i] = b->exponents[i] = a->exponents[i] > b->exponents[i] ? a->exponents[i] : b->exponents[i];
}

static void exchange_payloads(struct played ranks[RANKS]) {
  for (int to = 0; to < RANKS; to++) {
    const struct tagc_job *from = &ranks[1 - to].its.job, *job = &ranks[to].its.job;
    const size_t message = job->layout.message_bytes, sketch = job->layout.sketch_count;
    memcpy(part(job->message_in, 1 - to, message), part(from->message_out, to, message), message);
    for (size_t i = 0; i < sketch; i++) /* the own part of a sketch is zero */
      job->sketch_in[i] = from->sketch_out[(size_t)to * sketch + i];
  }
}

/* Of two hosts. */
static void exchange_values(struct played ranks[RANKS]) {
  const struct tagc_shape *shape = &ranks[0].its.job.shape;
  const size_t bytes = bytes_of_all(shape) / RANKS;
  for (int local = 0; local < shape->local; local++)
    for (int to = 0; to < RANKS; to++)
      memcpy(part((uint8_t *)(uintptr_t)ranks[to].its.job.values, local * RANKS + 1 - to, bytes),
             part((uint8_t *)(uintptr_t)ranks[1 - to].its.job.send, local * RANKS + to, bytes), bytes);
}

static bool put_on_device(struct tried *t, void *there, const void *host, size_t bytes) {
  return !bytes || t->run.device->put(t->run.device, there, host, bytes, t->run.stream) ||
         tagc_self_test_device_failed(&t->run);
}

/* A message without sums says nothing more; a device says so in exponents. */
static bool compare_message(struct tried *t, const struct tagc_job *host) {
  const struct tagc_job *job = &t->its.job;
  const size_t message = host->layout.message_bytes;
  const uint8_t *sent = part(host->message_out, 1, message);
  const bool lacks = host->shape.local && t->codec->levels->lacks_sums(host, sent);
  uint8_t flags[16] = {lacks};
  const size_t said = host->shape.local ? job->layout.exponent_bytes : 0;
  return tagc_self_test_compare(&t->run, "a message differs", sent, part(job->message_out, 1, message),
                                lacks ? sizeof(uint32_t) : message) &&
         tagc_self_test_compare(&t->run, "which sums do not fit differs", flags, part(job->exponents, 1, said),
                                said < sizeof flags ? said : sizeof flags);
}

/* Tries the exponents before a chunk; prepare fills them in anew. */
static bool try_measure(struct tried *t, struct tagc_job *host) {
  const struct tagc_device *device = t->run.device;
  if (!t->codec->measure)
    return true;
  t->codec->measure(host);
  if (!device->measure(device, t->codec, &t->its.job, t->run.stream))
    return tagc_self_test_device_failed(&t->run);
  return tagc_self_test_compare(&t->run, "measured exponents differ", host->exponents, t->its.job.exponents,
                                RANKS * host->layout.exponent_bytes);
}

/* Tries the sending side; the gradient is filled in. */
static bool try_send(struct tried *t, struct played ranks[RANKS]) {
  const struct tagc_codec *codec = t->codec;
  const struct tagc_device *device = t->run.device;
  struct tagc_job *job = &t->its.job, *host = &ranks[0].its.job;
  const size_t exponents = RANKS * host->layout.exponent_bytes;
  if (!put_on_device(t, (void *)(uintptr_t)job->send, host->send, bytes_sent(&host->shape)) || !try_measure(t, host))
    return false;
  for (int r = 0; r < RANKS && codec->prepare; r++)
    codec->prepare(&ranks[r].its.job);
  if (!device->prepare(device, codec, job, t->run.stream))
    return tagc_self_test_device_failed(&t->run);
  if (!tagc_self_test_compare(&t->run, "exponents differ", host->exponents, job->exponents, exponents))
    return false;
  exchange_exponents(ranks);
  for (int r = 0; r < RANKS; r++)
    codec->encode(&ranks[r].its.job);
  exchange_payloads(ranks);
  exchange_values(ranks);
  if (!put_on_device(t, job->exponents, host->exponents, exponents) ||
      !device->encode(device, codec, job, t->run.stream))
    return tagc_self_test_device_failed(&t->run);
  return compare_message(t, host) &&
         tagc_self_test_compare(&t->run, "a sketch differs", host->sketch_out, job->sketch_out,
                                RANKS * host->layout.sketch_count * sizeof(int32_t)) &&
         tagc_self_test_compare(&t->run, "a residual differs", host->residual, job->residual,
                                tagc_residual_bytes(&host->shape));
}

/* Tries the receiving side. `by_words`: ends the call with the flags of a host's ranks, else with its own. */
static bool try_receive(struct tried *t, struct played ranks[RANKS], bool by_words) {
  const struct tagc_device *device = t->run.device;
  struct tagc_job *job = &t->its.job, *host = &ranks[0].its.job;
  const size_t message = host->layout.message_bytes, sketch = host->layout.sketch_count * sizeof(int32_t);
  int64_t words[TAGC_FLAGS];
  for (int r = 0; r < RANKS; r++)
    t->codec->decode(&ranks[r].its.job);
  job->ends = !by_words;
  if (!put_on_device(t, part(job->message_in, 1, message), part(host->message_in, 1, message), message) ||
      !put_on_device(t, job->sketch_in, host->sketch_in, sketch) ||
      !put_on_device(t, (void *)(uintptr_t)job->values, host->values,
                     host->shape.local ? bytes_sent(&host->shape) : 0) ||
      !device->decode(device, t->codec, job, t->run.stream) ||
      !device->pack_flags(device, job, t->its.words, t->run.stream) ||
      !device->end_call(device, job, by_words ? t->its.words : NULL, t->run.stream))
    return tagc_self_test_device_failed(&t->run);
  words[TAGC_FLAG_NONFINITE] = host->nonfinite_seen;
  words[TAGC_FLAG_SURPLUS] = host->surplus_seen;
  return tagc_self_test_compare(&t->run, "a result differs", host->recv, job->recv,
                                bytes_of_all(&host->shape) / RANKS) &&
         tagc_self_test_compare(&t->run, "what was seen differs", words, t->its.words, sizeof words);
}

/* Tries a flush: the residual is sent in full. */
static bool try_flush(struct tried *t, struct played ranks[RANKS]) {
  tagc_residual_flush(&ranks[0].its.job, ranks[0].its.flushed);
  if (!t->run.device->flush(t->run.device, &t->its.job, t->its.flushed, t->run.stream))
    return tagc_self_test_device_failed(&t->run);
  return tagc_self_test_compare(&t->run, "a flush differs", ranks[0].its.flushed, t->its.flushed,
                                bytes_of_all(&t->its.job.shape));
}

/* Tries the count of values (nonzero_index.h). Job->recv is free by now. */
static bool try_count(struct tried *t, const struct tagc_job *host) {
  const uint64_t range = (host->shape.n / TAGC_NONZERO_RANGES / TAGC_NONZERO_BLOCK + 1) * TAGC_NONZERO_BLOCK;
  const size_t bytes = tagc_nonzero_index_bytes(RANKS);
  uint64_t words[TAGC_NONZERO_VALUES + RANKS - 1] = {0};
  tagc_fpmode mode = tagc_fpmode_enter();
  tagc_nonzero_index_count(host, range, words);
  tagc_fpmode_leave(mode);
  if (!t->run.device->clear(t->run.device, t->its.job.recv, bytes, t->run.stream) ||
      !t->run.device->count(t->run.device, &t->its.job, range, t->its.job.recv, t->run.stream))
    return tagc_self_test_device_failed(&t->run);
  return tagc_self_test_compare(&t->run, "a count differs", words, t->its.job.recv, bytes);
}

/* A host codec gets the flag of a void residual; a device that counts by itself must find out. */
static bool try_codec_calls(struct tried *t, struct played ranks[RANKS]) {
  struct tagc_job *job = &t->its.job;
  for (int call = 0; call < CALLS; call++) {
    const bool is_void = call == 0 || call == VOID;
    for (int r = 0; r < RANKS; r++) {
      ranks[r].its.job.seed = (uint64_t)call + 1;
      ranks[r].its.job.residual_empty = is_void;
      fill_gradient(&ranks[r].its.job, call);
    }
    job->seed = ranks[0].its.job.seed;
    job->residual_empty = job->health ? call == 0 : is_void;
    job->residual_cycle = (uint64_t)call;
    job->cycle = job->residual_cycle + 1;
    if (!try_send(t, ranks) || !try_receive(t, ranks, call == NONFINITE))
      return false;
  }
  if (job->shape.local) /* neither flushed nor counted as such */
    return true;
  for (int r = 0; r < RANKS; r++)
    ranks[r].its.job.residual_empty = false;
  job->residual_empty = false;
  job->residual_cycle = CALLS;
  return try_flush(t, ranks) && try_count(t, &ranks[0].its.job);
}

static bool start_tried(struct tried *t, size_t bytes) {
  const struct tagc_device *device = t->run.device;
  void *health = t->its.job.health;
  memset(t->run.seen, ANYTHING, bytes);
  return put_on_device(t, t->its.memory, t->run.seen, bytes) &&
         (!health || device->clear(device, health, device->health_bytes, t->run.stream) ||
          tagc_self_test_device_failed(&t->run));
}

/* Tries a codec with one kind of gradient: allocates, runs, frees. */
static bool try_variant(struct tried *t, const struct tagc_shape *shape) {
  const struct tagc_device *device = t->run.device;
  struct tagc_job *job = &t->its.job;
  struct played ranks[RANKS] = {0};
  bool good = true;
  for (int r = 0; r < RANKS; r++)
    good = good && start_rank(&ranks[r], t->codec, shape, r);
  t->its = (struct piece){.job = ranks[0].its.job};
  good = good && device->layout(device, t->codec, shape, &job->layout);
  const size_t bytes = good ? assign_rank_buffers(&t->its, device) : 0;
  t->its.memory = good ? device->alloc(device, bytes, t->run.stream) : NULL;
  t->run.seen = malloc(bytes);
  if (t->its.memory)
    assign_rank_buffers(&t->its, device);
  job->tally = t->its.memory ? device->tally_make(device, t->run.stream) : NULL;
  job->stats = &ranks[1].stats; /* for a device that does not count by itself */
  good = t->its.memory && t->run.seen && (job->tally || device->host_reads);
  good = good ? start_tried(t, bytes) && try_codec_calls(t, ranks)
              : tagc_self_test_end(&t->run, TAGC_SELF_TEST_NOT_RUN, "no memory to try it");
  device->release(device, t->its.memory, t->run.stream);
  device->tally_free(device, job->tally, NULL);
  free(t->run.seen);
  for (int r = 0; r < RANKS; r++)
    free(ranks[r].its.memory);
  return good;
}

enum tagc_self_test tagc_self_test_codec(const struct tagc_device *device, const struct tagc_codec *codec, void *stream,
                                         char *why, size_t size) {
  struct tried tried = {.run = {device, codec->name, stream, NULL, TAGC_SELF_TEST_PASSED, why, size}, .codec = codec};
  bool good = true;
  for (size_t i = 0; i < sizeof variants / sizeof *variants && good; i++) {
    const struct variant *v = &variants[i];
    const struct tagc_shape shape = {
      .n = tagc_self_test_elements(device, v->n),
      .nranks = RANKS,
      .dtype = v->dtype,
      .keep_ppm = v->keep_ppm,
      .residual = v->residual,
      .local = v->local,
    };
    if (v->local ? codec->levels != NULL : codec->needs_residual || !v->large)
      good = (codec->needs_residual && !v->residual) || try_variant(&tried, &shape);
  }
  return tried.run.result;
}
