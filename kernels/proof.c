/* SPDX-License-Identifier: BSD-3-Clause
 * Plays two ranks on the host, and the first of them on the device, too. See proof.h.
 */
#include "kernels/proof.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/codec_bits.h"
#include "kernels/residual.h"

enum {
  RANKS = 2,
  CALLS = 2,                       /* the second one has a residual */
  ELEMENTS = 20011,                /* of a shard: no block size divides it */
  KEEP_PPM = 250000,               /* enough for a sketch */
};

/* What a codec is tried with. */
static const struct { enum tagc_dtype dtype; enum tagc_storage residual; } variants[] = {
  {TAGC_FLOAT32, TAGC_STORAGE_INT8}, {TAGC_BFLOAT16, TAGC_STORAGE_FP32}, {TAGC_FLOAT16, TAGC_STORAGE_BF16},
};

/* A rank on the host. */
struct played {
  struct tagc_job job;
  struct tagc_codec_stats stats;
  uint8_t *memory;
};

/* The first rank on the device; where its parts are in one piece of memory. */
struct tried {
  const struct tagc_device *device;
  const struct tagc_codec *codec;
  void *stream;
  struct tagc_job job;
  uint8_t *memory;
  uint8_t *seen;                   /* on the host: what is compared */
  char *why;
  size_t size;
};

static size_t pad64(size_t bytes) { return (bytes + 63) & ~(size_t)63; }

/* Places send, recv and residual behind the payloads at `base`, which may be NULL; returns the bytes of all. */
static size_t carve(struct tagc_job *job, uint8_t *base)
{
  const size_t shard = pad64(job->shape.n * tagc_dtype_size(job->shape.dtype) + 64);
  size_t used = pad64(tagc_job_carve(job, base));
  job->send = base + used;
  used += RANKS * shard;
  job->recv = base + used;
  used += shard;
  job->residual = base + used;
  return used + pad64(tagc_residual_bytes(&job->shape));
}

/* Of many sizes, some of them zero, one that is not finite. */
static float element(uint64_t place)
{
  const uint64_t mixed = tagc_mix64(place + 1);
  const uint32_t exponent = 100 + (uint32_t)(mixed >> 32) % 24, sign = (uint32_t)(mixed >> 63) << 31;
  if (mixed % 64 == 0)
    return 0;
  return tagc_float_of(place % (2 * ELEMENTS) == 4321 ? 0x7f800000u : sign | exponent << 23 | ((uint32_t)mixed & 0x7fffff));
}

static void fill(const struct tagc_job *job, int call)
{
  for (uint64_t i = 0; i < RANKS * job->shape.n; i++)
    tagc_store((void *)(uintptr_t)job->send, i, job->shape.dtype, element(((uint64_t)call << 32 | (uint64_t)job->rank << 24) + i));
}

static bool start_played(struct played *rank, const struct tagc_codec *codec, const struct tagc_shape *shape, int number)
{
  *rank = (struct played){.job = {.shape = *shape, .rank = number, .scale = 0.5f, .divisor = RANKS, .residual_empty = true}};
  if (!codec->layout(shape, &rank->job.layout))
    return false;
  rank->memory = aligned_alloc(64, pad64(carve(&rank->job, NULL)));
  if (!rank->memory)
    return false;
  carve(&rank->job, rank->memory);
  rank->job.stats = &rank->stats;
  memset(rank->job.residual, 0, tagc_residual_bytes(shape));         /* nobody writes what pads it */
  return true;
}

static uint8_t *part(uint8_t *all, int shard, size_t bytes) { return all + (size_t)shard * bytes; }

/* What the exchange does between two ranks. */
static void exchange_exponents(struct played ranks[RANKS])
{
  const size_t bytes = RANKS * ranks[0].job.layout.exponent_bytes;
  for (size_t i = 0; i < bytes; i++) {
    const uint8_t a = ranks[0].job.exponents[i], b = ranks[1].job.exponents[i];
    ranks[0].job.exponents[i] = ranks[1].job.exponents[i] = a > b ? a : b;
  }
}

static void exchange_payloads(struct played ranks[RANKS])
{
  for (int to = 0; to < RANKS; to++) {
    const struct tagc_job *from = &ranks[1 - to].job, *job = &ranks[to].job;
    const size_t message = job->layout.message_bytes, sketch = job->layout.sketch_count;
    memcpy(part(job->message_in, 1 - to, message), part(from->message_out, to, message), message);
    for (size_t i = 0; i < sketch; i++)            /* the own part of a sketch is zero */
      job->sketch_in[i] = from->sketch_out[(size_t)to * sketch + i];
  }
}

static bool fails(const struct tried *t, const char *what)
{
  snprintf(t->why, t->size, "codec %s: %s", t->codec->name, what);
  return false;
}

/* Are so many bytes of the device those of the host? */
static bool same(const struct tried *t, const char *what, const void *host, const void *there, size_t bytes)
{
  if (!bytes)
    return true;
  if (!t->device->get(t->device, t->seen, there, bytes, t->stream))
    return fails(t, "the device fails");
  return memcmp(t->seen, host, bytes) == 0 || fails(t, what);
}

static bool put(const struct tried *t, void *there, const void *host, size_t bytes)
{
  return !bytes || t->device->put(t->device, there, host, bytes, t->stream) || fails(t, "the device fails");
}

/* One call, whose gradient is there. */
static bool try_call(struct tried *t, struct played ranks[RANKS])
{
  const struct tagc_codec *codec = t->codec;
  const struct tagc_device *device = t->device;
  struct tagc_job *job = &t->job, *host = &ranks[0].job;
  const size_t exponents = RANKS * host->layout.exponent_bytes, message = host->layout.message_bytes;
  const size_t sketch = host->layout.sketch_count * sizeof(int32_t), size = tagc_dtype_size(host->shape.dtype);
  for (int r = 0; r < RANKS && codec->prepare; r++)
    codec->prepare(&ranks[r].job);
  if (!put(t, (void *)(uintptr_t)job->send, host->send, RANKS * host->shape.n * size) ||
      !device->prepare(device, codec, job, t->stream))
    return fails(t, "the device fails");
  if (!same(t, "exponents differ", host->exponents, job->exponents, exponents))
    return false;
  exchange_exponents(ranks);
  for (int r = 0; r < RANKS; r++)
    codec->encode(&ranks[r].job);
  exchange_payloads(ranks);
  if (!put(t, job->exponents, host->exponents, exponents) || !device->encode(device, codec, job, t->stream))
    return fails(t, "the device fails");
  if (!same(t, "a message differs", part(host->message_out, 1, message), part(job->message_out, 1, message), message) ||
      !same(t, "a sketch differs", host->sketch_out, job->sketch_out, RANKS * sketch) ||
      !same(t, "a residual differs", host->residual, job->residual, tagc_residual_bytes(&host->shape)))
    return false;
  for (int r = 0; r < RANKS; r++)
    codec->decode(&ranks[r].job);
  if (!put(t, part(job->message_in, 1, message), part(host->message_in, 1, message), message) ||
      !put(t, job->sketch_in, host->sketch_in, sketch) || !device->decode(device, codec, job, t->stream) ||
      !device->settle(device, job, NULL, t->stream))
    return fails(t, "the device fails");
  return same(t, "a result differs", host->recv, job->recv, host->shape.n * size);
}

static bool try_calls(struct tried *t, struct played ranks[RANKS])
{
  for (int call = 0; call < CALLS; call++) {
    for (int r = 0; r < RANKS; r++) {
      ranks[r].job.seed = (uint64_t)call + 1;
      ranks[r].job.residual_empty = call == 0;
      fill(&ranks[r].job, call);
    }
    t->job.seed = ranks[0].job.seed;
    t->job.residual_empty = ranks[0].job.residual_empty;
    t->job.cycle = t->job.residual_cycle = (uint64_t)call + 1;
    if (!try_call(t, ranks))
      return false;
  }
  return true;
}

/* A codec with one kind of gradient: memory, and what is done with it. */
static bool try_variant(struct tried *t, const struct tagc_shape *shape)
{
  const struct tagc_device *device = t->device;
  struct played ranks[RANKS] = {0};
  bool good = true;
  for (int r = 0; r < RANKS; r++)
    good = good && start_played(&ranks[r], t->codec, shape, r);
  if (good) {
    t->job = ranks[0].job;
    good = device->layout(device, t->codec, shape, &t->job.layout);
  }
  const size_t bytes = carve(&t->job, NULL);
  t->memory = good ? device->alloc(device, bytes, t->stream) : NULL;
  t->seen = malloc(bytes);
  carve(&t->job, t->memory);
  t->job.tally = t->memory ? device->tally_make(device, t->stream) : NULL;
  t->job.stats = &ranks[1].stats;  /* of a device that does not count by itself */
  good = t->memory && t->seen && (t->job.tally || device->host_reads);
  good = !good ? fails(t, "no memory to try it")
       : !device->clear(device, t->job.residual, tagc_residual_bytes(shape), t->stream) ? fails(t, "the device fails")
                                                                                         : try_calls(t, ranks);
  device->release(device, t->memory, t->stream);
  device->tally_free(device, t->job.tally, NULL);
  free(t->seen);
  for (int r = 0; r < RANKS; r++)
    free(ranks[r].memory);
  return good;
}

bool tagc_device_prove(const struct tagc_device *device, void *stream, char *why, size_t size)
{
  for (const struct tagc_codec *const *codec = tagc_codecs; *codec; codec++)
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
      const struct tagc_shape shape = {
        .n = ELEMENTS, .nranks = RANKS, .dtype = variants[i].dtype, .keep_ppm = KEEP_PPM, .residual = variants[i].residual,
      };
      struct tried tried = {.device = device, .codec = *codec, .stream = stream, .why = why, .size = size};
      struct tagc_layout layout;
      if (device->layout(device, *codec, &shape, &layout) && !try_variant(&tried, &shape))
        return false;
    }
  return true;
}
