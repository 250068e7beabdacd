/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/device/gradient_stats.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/codec/bits.h"
#include "kernels/codec/exceptions.h"
#include "kernels/codec/fpmode.h"
#include "kernels/codec/residual.h"

enum {
  BLOCK = TAGC_NONZERO_BLOCK, /* of the codecs: runs begin at block starts */
  RUN_LENGTH = 16 * BLOCK,
  TIMES = 3,           /* with a clock */
  SPOT_CHECK_RUNS = 2, /* runs of a spot check */
  MOST_KEPT = 250000,  /* ppm: gradients denser than this are not sparse */
  EVERYTHING = 1000000,
  CACHE_LINE = 64,
  CACHED = 8 << 20, /* bytes to read so that others leave the caches nearest to the core */
};

static const struct tagc_codec_estimate NOTHING = {__builtin_inf(), __builtin_inf(), __builtin_inf(), __builtin_inf()};
static const uint64_t NOWHERE = UINT64_MAX;

/* The foreign shards as one array of elements (nonzero_index.h). */
struct foreign {
  const struct tagc_gradient_request *q;
  const struct tagc_device *device; /* which reads them */
  void *stream;
  uint64_t n, length;
  uint64_t ranges, range;              /* each range gives one run; elements of a range */
  uint64_t first[TAGC_NONZERO_RANGES]; /* the first block of a range that holds a value */
  uint64_t values;                     /* of all shards */
  uint64_t most;                       /* of one */
  bool exceptions;
};

static uint32_t next_keep(double ppm) {
  uint32_t step = 1;
  while (step < ppm && step < EVERYTHING)
    step = (step & (step - 1)) == 0 && step > 1 ? step / 2 * 3 : step == 1 ? 2 : step / 3 * 4;
  return step < EVERYTHING ? step : EVERYTHING;
}

uint32_t tagc_gradient_keep_ppm(double density) {
  uint32_t keep = next_keep(1.5e6 * density);
  return keep <= MOST_KEPT ? keep : 0;
}

/* ---- the whole gradient ------------------------------------------------------------------------------------------ */

static void read_index(struct foreign *foreign, const uint64_t *words) {
  foreign->exceptions = words[TAGC_NONZERO_EXCEPTIONS] > 0;
  for (int i = 0; i < TAGC_NONZERO_RANGES; i++)
    foreign->first[i] = ~words[TAGC_NONZERO_FIRST + i]; /* none: NOWHERE */
  for (uint64_t place = 0; place < foreign->length / foreign->n; place++) {
    const uint64_t values = words[TAGC_NONZERO_VALUES + place];
    foreign->values += values;
    foreign->most = values > foreign->most ? values : foreign->most;
  }
}

/* Counts every element, on any device. Few rows of an embedding's gradient are live: a sample small enough to be copied
 * may miss them all, or meet too few to tell how many exist. */
static bool count_foreign(struct foreign *foreign) {
  const struct tagc_gradient_request *q = foreign->q;
  const struct tagc_device *d = foreign->device;
  const struct tagc_job job = {.shape = q->shape, .rank = q->rank, .send = q->send, .scale = q->scale, .divisor = 1};
  const size_t bytes = tagc_nonzero_index_bytes((unsigned)q->shape.nranks);
  uint64_t *words = malloc(bytes), *there = d->alloc(d, bytes, foreign->stream);
  const bool good = words && there && d->clear(d, there, bytes, foreign->stream) &&
                    d->count(d, &job, foreign->range, there, foreign->stream) &&
                    d->get(d, words, there, bytes, foreign->stream);
  if (good)
    read_index(foreign, words);
  d->release(d, there, foreign->stream);
  free(words);
  return good;
}

static struct foreign foreign_of(const struct tagc_gradient_request *q, const struct tagc_device *device,
                                 void *stream) {
  struct foreign foreign = {.q = q,
                            .device = device,
                            .stream = stream,
                            .n = q->shape.n,
                            .length = q->shape.n * ((uint64_t)q->shape.nranks - 1)};
  foreign.ranges = foreign.length / RUN_LENGTH;
  foreign.ranges = foreign.ranges > TAGC_NONZERO_RANGES ? TAGC_NONZERO_RANGES : foreign.ranges ? foreign.ranges : 1;
  foreign.range = (foreign.length + foreign.ranges - 1) / foreign.ranges;
  return foreign;
}

/* ---- the sample -------------------------------------------------------------------------------------------------- */

static uint8_t *sample_shard(const struct tagc_gradient_sample *s, int i) {
  return s->shards + (size_t)i * s->n * tagc_dtype_size(s->dtype);
}

static float sampled(const struct tagc_gradient_sample *s, uint64_t i) {
  return s->scale * tagc_load(sample_shard(s, 1), i, s->dtype);
}

static const void *foreign_shard(const struct tagc_gradient_request *q, uint64_t place) {
  const uint64_t shard = place + (place >= (uint64_t)q->rank);
  return (const char *)q->send + shard * q->shape.n * tagc_dtype_size(q->shape.dtype);
}

/* Sets *at to the run that begins at the block of `from`, and ends with the shard at the latest. Returns its length. */
static uint64_t run_at(const struct foreign *foreign, uint64_t from, const void **at) {
  const uint64_t begin = from % foreign->n / BLOCK * BLOCK;
  *at = (const char *)foreign_shard(foreign->q, from / foreign->n) + begin * tagc_dtype_size(foreign->q->shape.dtype);
  return foreign->n - begin < RUN_LENGTH ? foreign->n - begin : RUN_LENGTH;
}

/* Copies the runs to `to`, unless NULL: from the ranges' starts, or from the first values in them. *n: elements. */
static bool copy_runs(const struct foreign *foreign, bool from_values, uint8_t *to, uint64_t *n) {
  const size_t size = tagc_dtype_size(foreign->q->shape.dtype);
  const struct tagc_device *d = foreign->device;
  bool good = true;
  *n = 0;
  for (uint64_t i = 0; i < foreign->ranges && i * foreign->range < foreign->length; i++) {
    const bool at_value = from_values && foreign->first[i] != NOWHERE;
    const void *at;
    const uint64_t length = run_at(foreign, at_value ? foreign->first[i] : i * foreign->range, &at);
    good &= !to || d->get(d, to + *n * size, at, length * size, foreign->stream);
    *n += length;
  }
  return good;
}

/* Fills in values, kurtosis, and the norm of one value. */
static void measure_sample(struct tagc_gradient_sample *s) {
  tagc_fpmode mode = tagc_fpmode_enter();
  double second = 0, fourth = 0;
  s->values = 0;
  for (uint64_t i = 0; i < s->n; i++) {
    const float x = sampled(s, i);
    if (!tagc_is_value(x) || tagc_is_exception(tagc_bits_of(x)))
      continue;
    const double square = (double)x * x;
    second += square;
    fourth += square * square;
    s->values++;
  }
  s->kurtosis = second > 0 ? (double)s->n * fourth / (second * second) : 0;
  s->gradient_norm = s->values ? __builtin_sqrt(second / (double)s->values) : 0; /* of one value so far */
  tagc_fpmode_leave(mode);
}

static struct tagc_shape shape_of(const struct tagc_gradient_sample *s, const struct tagc_candidate *candidate) {
  const double own = (double)s->values / (double)s->n;
  const uint32_t keep = s->keep_ppm ? s->keep_ppm : next_keep(1.5e6 * (own > s->density ? own : s->density));
  return (struct tagc_shape){
    .n = s->n, .nranks = 2, .dtype = s->dtype, .residual = candidate->residual, .keep_ppm = keep};
}

/* ---- codecs on the sample ---------------------------------------------------------------------------------------- */

static void merge_exponents(struct tagc_job *a, struct tagc_job *b) {
  for (size_t i = 0; i < 2 * a->layout.exponent_bytes; i++)
    a->exponents[i] = b->exponents[i] = a->exponents[i] > b->exponents[i] ? a->exponents[i] : b->exponents[i];
}

static double clock_ms(const struct tagc_gradient_request *q) { return q->clock_ms ? q->clock_ms() : 0; }

/* A gradient comes out of the backward pass, not out of the caches, where the sample has just been. Measured there,
 * codecs look two to three times as fast as they are. */
static double cool_clock_ms(const struct tagc_gradient_request *q) {
  const uint64_t all = q->shape.n * (uint64_t)q->shape.nranks * tagc_dtype_size(q->shape.dtype);
  const volatile uint8_t *from = q->send;
  for (uint64_t at = 0; q->clock_ms && at < all && at < CACHED; at += CACHE_LINE)
    (void)from[at];
  return clock_ms(q);
}

/* Runs one call: rank 1 reads the payload of rank 0 in place. Keeps the best times. */
static void time_call(const struct tagc_gradient_request *q, const struct tagc_codec *codec, struct tagc_job job[2],
                      struct tagc_codec_estimate *best) {
  double at[6];
  if (codec->prepare)
    codec->prepare(&job[1]);
  at[0] = cool_clock_ms(q);
  if (codec->prepare)
    codec->prepare(&job[0]);
  at[1] = clock_ms(q);
  merge_exponents(&job[0], &job[1]);
  codec->encode(&job[1]);
  at[2] = cool_clock_ms(q);
  codec->encode(&job[0]);
  at[3] = clock_ms(q);
  at[4] = cool_clock_ms(q);
  codec->decode(&job[1]);
  at[5] = clock_ms(q);
  const double encode = 1e6 * (at[1] - at[0] + at[3] - at[2]), decode = 1e6 * (at[5] - at[4]);
  best->encode_ns = encode < best->encode_ns ? encode : best->encode_ns;
  best->decode_ns = decode < best->decode_ns ? decode : best->decode_ns;
}

static double sample_error(struct tagc_gradient_sample *s) {
  double difference = 0, norm = 0;
  for (uint64_t i = 0; i < s->n; i++) {
    const float x = sampled(s, i), y = tagc_load(s->recv, i, s->dtype);
    if (tagc_is_exception(tagc_bits_of(x)))
      continue;
    difference += ((double)x - y) * ((double)x - y);
    norm += (double)x * x;
  }
  s->norm = __builtin_sqrt(norm);
  return norm > 0 ? __builtin_sqrt(difference / norm) : difference == 0 ? 0 : __builtin_inf();
}

static struct tagc_codec_estimate try_codec(const struct tagc_gradient_request *q, struct tagc_gradient_sample *s,
                                            const struct tagc_candidate *candidate) {
  struct tagc_codec_stats stats = {0};
  struct tagc_codec_estimate best = NOTHING;
  struct tagc_job job[2];
  uint8_t *payloads = s->payloads, *residuals = s->residuals;
  for (int rank = 0; rank < 2; rank++) {
    job[rank] = (struct tagc_job){.shape = shape_of(s, candidate),
                                  .rank = rank,
                                  .send = sample_shard(s, rank),
                                  .recv = s->recv,
                                  .scale = s->scale,
                                  .divisor = 1,
                                  .residual_empty = true,
                                  .seed = 1,
                                  .stochastic = q->stochastic,
                                  .stats = &stats};
    if (!candidate->codec->layout(&job[rank].shape, &job[rank].layout))
      return best;
    payloads += tagc_job_assign_buffers(&job[rank], payloads);
    job[rank].residual = candidate->residual == TAGC_STORAGE_NONE ? NULL : residuals;
    residuals += tagc_residual_bytes(&job[rank].shape);
  }
  job[1].message_in = job[0].message_out + job[0].layout.message_bytes;
  job[1].sketch_in = job[0].sketch_out + job[0].layout.sketch_count; /* rank 1 adds zeros */
  best.call_ns = 0;
  for (int i = 0; i < (q->clock_ms ? TIMES : 1); i++)
    time_call(q, candidate->codec, job, &best);
  best.error = sample_error(s);
  best.encode_ns /= (double)s->n;
  best.decode_ns /= (double)s->n;
  return best;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

/* A codec with a residual must not leave anything in it: it is for sparse gradients. */
static bool is_tried(const struct tagc_gradient_sample *s, const struct tagc_candidate *candidate) {
  return candidate->codec &&
         (!candidate->codec->needs_residual ||
          (candidate->residual != TAGC_STORAGE_NONE && (s->keep_ppm || tagc_gradient_keep_ppm(s->density))));
}

/* The bytes that the most demanding candidate needs for residuals and payloads. */
static size_t work_bytes(const struct tagc_gradient_request *q, const struct tagc_gradient_sample *s,
                         size_t *residuals) {
  size_t payloads = 0;
  *residuals = 0;
  for (int i = 0; i < TAGC_CANDIDATES; i++) {
    struct tagc_job job = {0};
    if (!is_tried(s, &q->candidates[i]))
      continue;
    job.shape = shape_of(s, &q->candidates[i]);
    if (!q->candidates[i].codec->layout(&job.shape, &job.layout))
      continue;
    const size_t payload = 2 * tagc_job_assign_buffers(&job, NULL);
    const size_t residual = (2 * tagc_residual_bytes(&job.shape) + 63) & ~(size_t)63;
    *residuals = residual > *residuals ? residual : *residuals;
    payloads = payload > payloads ? payload : payloads;
  }
  return *residuals + payloads;
}

/* Allocates the sample, and zeros before and after it. */
static bool alloc_sample(struct tagc_gradient_sample *s) {
  const size_t shard = s->n * tagc_dtype_size(s->dtype);
  s->shards = s->memory->alloc(s->memory, 4 * shard, NULL);
  if (!s->shards)
    return false;
  memset(s->shards, 0, 4 * shard);
  s->recv = sample_shard(s, 3);
  return true;
}

bool tagc_gradient_sample_read(const struct tagc_gradient_request *q, const struct tagc_device *device, void *stream,
                               struct tagc_gradient_sample *s) {
  struct foreign foreign = foreign_of(q, device, stream);
  *s = (struct tagc_gradient_sample){
    .dtype = q->shape.dtype, .scale = q->scale, .memory = device->host_reads ? device : &tagc_device_host};
  if (!count_foreign(&foreign))
    return false;
  s->density = (double)foreign.most / (double)foreign.n;
  s->exceptions = foreign.exceptions;
  for (int from_values = 0; from_values <= 1; from_values++) {
    copy_runs(&foreign, from_values, NULL, &s->n);
    if (!alloc_sample(s) || !copy_runs(&foreign, from_values, sample_shard(s, 1), &s->n))
      break;
    measure_sample(s);
    s->gradient_norm *= __builtin_sqrt((double)foreign.values * q->shape.nranks / (q->shape.nranks - 1));
    if (s->values || !foreign.values || from_values)
      return true;
    tagc_gradient_sample_free(s);
  }
  tagc_gradient_sample_free(s);
  return false;
}

void tagc_gradient_sample_free(struct tagc_gradient_sample *s) {
  if (s->memory)
    s->memory->release(s->memory, s->shards, NULL);
  s->shards = NULL;
}

bool tagc_gradient_stats_measure(const struct tagc_gradient_request *q, struct tagc_gradient_sample *s,
                                 struct tagc_gradient_stats *out) {
  tagc_fpmode mode = tagc_fpmode_enter();
  size_t residuals;
  const size_t bytes = work_bytes(q, s, &residuals);
  *out = (struct tagc_gradient_stats){
    .density = s->density, .exceptions = s->exceptions, .norm = s->gradient_norm, .kurtosis = s->kurtosis};
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    out->of[i] = NOTHING;
  s->residuals = bytes ? s->memory->alloc(s->memory, bytes, NULL) : NULL;
  if (s->residuals) {
    memset(s->residuals, 0, bytes);
    s->payloads = s->residuals + residuals;
    for (int i = 0; i < TAGC_CANDIDATES; i++)
      if (is_tried(s, &q->candidates[i]))
        out->of[i] = try_codec(q, s, &q->candidates[i]);
    s->memory->release(s->memory, s->residuals, NULL);
  }
  tagc_fpmode_leave(mode);
  return s->residuals || !bytes;
}

/* ---- a part of it, in a step ------------------------------------------------------------------------------------- */

bool tagc_gradient_spot_check(const struct tagc_gradient_request *q, const struct tagc_codec *codec, uint64_t turn,
                              double *error, double *norm) {
  const struct tagc_candidate candidates[TAGC_CANDIDATES] = {{codec, q->shape.residual}};
  struct tagc_gradient_request question = *q;
  struct tagc_gradient_sample s = {.dtype = q->shape.dtype,
                                   .scale = q->scale,
                                   .memory = &tagc_device_host,
                                   .density = 1,
                                   .keep_ppm = q->shape.keep_ppm};
  struct tagc_gradient_stats stats;
  struct foreign foreign = foreign_of(q, &tagc_device_host, NULL);
  question.candidates = candidates;
  question.clock_ms = NULL;
  foreign.ranges = foreign.ranges < SPOT_CHECK_RUNS ? foreign.ranges : SPOT_CHECK_RUNS;
  foreign.range = (foreign.length + foreign.ranges - 1) / foreign.ranges;
  for (uint64_t i = 0; i < foreign.ranges; i++)
    foreign.first[i] = (i * foreign.range + turn * RUN_LENGTH) % foreign.length;
  copy_runs(&foreign, true, NULL, &s.n);
  const bool seen = alloc_sample(&s) && copy_runs(&foreign, true, sample_shard(&s, 1), &s.n) &&
                    tagc_gradient_stats_measure(&question, &s, &stats);
  tagc_gradient_sample_free(&s);
  *error = seen ? stats.of[0].error : __builtin_inf();
  *norm = s.norm;
  return seen && *error < __builtin_inf();
}
