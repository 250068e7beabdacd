/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/survey.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/codec_bits.h"
#include "kernels/exceptions.h"
#include "kernels/fpmode.h"
#include "kernels/residual.h"

enum {
  BLOCK = 256,                      /* of the codecs: stretches begin where their blocks do */
  STRETCH = 16 * BLOCK,
  STRETCHES = 64,
  RUNS = 3,
  PIECES = 16, FETCHED_SHARDS = 17, /* of a gradient that the host cannot read */
  MOST_KEPT = 250000,               /* ppm: from there on a gradient is not called sparse */
  EVERYTHING = 1000000,
  CACHE_LINE = 64,
  CACHED = 8 << 20,                 /* bytes that are read to have others leave the caches nearest to the core */
};

static const struct tagc_finding NOTHING = {__builtin_inf(), __builtin_inf(), __builtin_inf()};
static const uint64_t NOWHERE = UINT64_MAX;

/* The foreign shards are seen as one row of elements. */
struct row {
  const struct tagc_survey_question *q;
  uint64_t n, length;
  uint64_t ranges, range;           /* a stretch is taken out of each range; elements of one */
  uint64_t first[STRETCHES];        /* the first block of a range that holds a value */
  uint64_t values;                  /* of all shards */
  uint64_t most;                    /* of one */
  bool exceptions;
};

/* Two ranks of a reduce-scatter, whose one foreign shard is the sample. Its memory holds zeros, the sample, zeros: the send
 * buffer of rank 0 begins with the first, that of rank 1 with the second. */
struct sample {
  uint64_t n, values;
  enum tagc_dtype dtype;
  float scale;
  uint8_t *shards, *recv;           /* one memory */
  uint8_t *residuals, *payloads;    /* another one */
};

static uint32_t round_up(double ppm)
{
  uint32_t step = 1;
  while (step < ppm && step < EVERYTHING)
    step = (step & (step - 1)) == 0 && step > 1 ? step / 2 * 3 : step == 1 ? 2 : step / 3 * 4;
  return step < EVERYTHING ? step : EVERYTHING;
}

uint32_t tagc_survey_keep(double density)
{
  uint32_t keep = round_up(1.5e6 * density);
  return keep <= MOST_KEPT ? keep : 0;
}

/* ---- the whole gradient --------------------------------------------------------------------------------------------- */

static bool is_value(float x) { return (tagc_bits_of(x) & 0x7fffffffu) >= TAGC_LEAST_BITS; }

/* The values among some elements; *exceptions becomes true where one of them is an exception. */
static uint32_t count_values(const void *from, uint64_t at, uint32_t count, const struct tagc_survey_question *q,
                             bool *exceptions)
{
  uint32_t values = 0, wild = 0;
  for (uint32_t i = 0; i < count; i++) {
    const float x = q->scale * (q->shape.dtype == TAGC_FLOAT32 ? ((const float *)from)[at + i]
                                                               : tagc_load(from, at + i, q->shape.dtype));
    values += is_value(x);
    wild += tagc_is_exception(tagc_bits_of(x));
  }
  *exceptions |= wild > 0;
  return values;
}

static const void *foreign_shard(const struct tagc_survey_question *q, uint64_t which)
{
  uint64_t shard = which + (which >= (uint64_t)q->rank);
  return (const char *)q->send + shard * q->shape.n * tagc_dtype_size(q->shape.dtype);
}

static void count_row(struct row *row)
{
  const struct tagc_survey_question *q = row->q;
  for (uint64_t which = 0; which < row->length / row->n; which++) {
    const void *shard = foreign_shard(q, which);
    uint64_t values = 0;
    for (uint64_t at = 0; at < row->n; at += BLOCK) {
      const uint32_t count = row->n - at < BLOCK ? (uint32_t)(row->n - at) : BLOCK;
      const uint32_t found = count_values(shard, at, count, q, &row->exceptions);
      uint64_t *first = &row->first[(which * row->n + at) / row->range];
      if (found && *first == NOWHERE)
        *first = which * row->n + at;
      values += found;
    }
    row->values += values;
    row->most = values > row->most ? values : row->most;
  }
}

static struct row row_of(const struct tagc_survey_question *q)
{
  struct row row = {.q = q, .n = q->shape.n, .length = q->shape.n * ((uint64_t)q->shape.nranks - 1)};
  row.ranges = row.length / STRETCH;
  row.ranges = row.ranges > STRETCHES ? STRETCHES : row.ranges ? row.ranges : 1;
  row.range = (row.length + row.ranges - 1) / row.ranges;
  for (int i = 0; i < STRETCHES; i++)
    row.first[i] = NOWHERE;
  count_row(&row);
  return row;
}

/* ---- the sample ----------------------------------------------------------------------------------------------------- */

static uint8_t *shard_of(const struct sample *s, int i) { return s->shards + (size_t)i * s->n * tagc_dtype_size(s->dtype); }

static float sampled(const struct sample *s, uint64_t i) { return s->scale * tagc_load(shard_of(s, 1), i, s->dtype); }

/* A stretch from the block on that `from` lies in, at most to the end of the shard. Copies it (but not to NULL), and returns
 * its length. */
static uint64_t take_stretch(const struct row *row, uint64_t from, void *to)
{
  const size_t size = tagc_dtype_size(row->q->shape.dtype);
  const uint64_t at = from % row->n / BLOCK * BLOCK;
  const uint64_t length = row->n - at < STRETCH ? row->n - at : STRETCH;
  if (to)
    memcpy(to, (const char *)foreign_shard(row->q, from / row->n) + at * size, length * size);
  return length;
}

/* Fills the sample (but not NULL) with the stretches at the starts of the ranges, or from the first values in them on. */
static uint64_t take_stretches(const struct row *row, bool from_values, uint8_t *to)
{
  const size_t size = tagc_dtype_size(row->q->shape.dtype);
  uint64_t n = 0;
  for (uint64_t i = 0; i < row->ranges; i++) {
    const bool at_value = from_values && row->first[i] != NOWHERE;
    if (i * row->range < row->length)
      n += take_stretch(row, at_value ? row->first[i] : i * row->range, to ? to + n * size : NULL);
  }
  return n;
}

/* The ratio of moments; fills s->values. */
static double look_at(struct sample *s)
{
  double second = 0, fourth = 0;
  s->values = 0;
  for (uint64_t i = 0; i < s->n; i++) {
    const float x = sampled(s, i);
    if (!is_value(x) || tagc_is_exception(tagc_bits_of(x)))
      continue;
    const double square = (double)x * x;
    second += square;
    fourth += square * square;
    s->values++;
  }
  return second > 0 ? (double)s->n * fourth / (second * second) : 0;
}

static struct tagc_shape shape_of(const struct sample *s, const struct tagc_candidate *candidate, double density)
{
  const double own = (double)s->values / (double)s->n;
  return (struct tagc_shape){.n = s->n, .nranks = 2, .dtype = s->dtype, .residual = candidate->residual,
                             .keep_ppm = round_up(1.5e6 * (own > density ? own : density))};
}

/* ---- codecs on the sample ------------------------------------------------------------------------------------------- */

static void merge_exponents(struct tagc_job *a, struct tagc_job *b)
{
  for (size_t i = 0; i < 2 * a->layout.exponent_bytes; i++)
    a->exponents[i] = b->exponents[i] = a->exponents[i] > b->exponents[i] ? a->exponents[i] : b->exponents[i];
}

/* A gradient comes out of the backward pass, and not out of the caches, where the sample has just been: measured there, codecs
 * look two to three times as fast as they are. */
static void cool_down(const struct tagc_survey_question *q)
{
  const uint64_t all = q->shape.n * (uint64_t)q->shape.nranks * tagc_dtype_size(q->shape.dtype);
  const volatile uint8_t *from = q->send;
  for (uint64_t at = 0; at < all && at < CACHED; at += CACHE_LINE)
    (void)from[at];
}

/* One call; what rank 0 sends is read by rank 1 where it lies. Keeps the best times. */
static void run(const struct tagc_survey_question *q, const struct tagc_codec *codec, struct tagc_job job[2],
                struct tagc_finding *best)
{
  double at[6];
  if (codec->prepare)
    codec->prepare(&job[1]);
  cool_down(q);
  at[0] = q->clock_ms();
  if (codec->prepare)
    codec->prepare(&job[0]);
  at[1] = q->clock_ms();
  merge_exponents(&job[0], &job[1]);
  codec->encode(&job[1]);
  cool_down(q);
  at[2] = q->clock_ms();
  codec->encode(&job[0]);
  at[3] = q->clock_ms();
  cool_down(q);
  at[4] = q->clock_ms();
  codec->decode(&job[1]);
  at[5] = q->clock_ms();
  const double encode = 1e6 * (at[1] - at[0] + at[3] - at[2]), decode = 1e6 * (at[5] - at[4]);
  best->encode_ns = encode < best->encode_ns ? encode : best->encode_ns;
  best->decode_ns = decode < best->decode_ns ? decode : best->decode_ns;
}

static double error_of(const struct sample *s)
{
  double difference = 0, norm = 0;
  for (uint64_t i = 0; i < s->n; i++) {
    const float x = sampled(s, i), y = tagc_load(s->recv, i, s->dtype);
    if (tagc_is_exception(tagc_bits_of(x)))
      continue;
    difference += ((double)x - y) * ((double)x - y);
    norm += (double)x * x;
  }
  return norm > 0 ? __builtin_sqrt(difference / norm) : difference == 0 ? 0 : __builtin_inf();
}

static struct tagc_finding try_codec(const struct tagc_survey_question *q, const struct sample *s,
                                     const struct tagc_candidate *candidate, double density)
{
  struct tagc_codec_stats stats = {0};
  struct tagc_finding best = NOTHING;
  struct tagc_job job[2];
  uint8_t *payloads = s->payloads, *residuals = s->residuals;
  for (int rank = 0; rank < 2; rank++) {
    job[rank] = (struct tagc_job){.shape = shape_of(s, candidate, density), .rank = rank, .send = shard_of(s, rank),
                                  .recv = s->recv, .scale = s->scale, .divisor = 1, .residual_empty = true, .seed = 1,
                                  .stochastic = q->stochastic, .stats = &stats};
    if (!candidate->codec->layout(&job[rank].shape, &job[rank].layout))
      return best;
    payloads += tagc_job_carve(&job[rank], payloads);
    job[rank].residual = candidate->residual == TAGC_STORAGE_NONE ? NULL : residuals;
    residuals += tagc_residual_bytes(&job[rank].shape);
  }
  job[1].message_in = job[0].message_out + job[0].layout.message_bytes;
  job[1].sketch_in = job[0].sketch_out + job[0].layout.sketch_count;   /* rank 1 adds zeros */
  for (int i = 0; i < RUNS; i++)
    run(q, candidate->codec, job, &best);
  best.error = error_of(s);
  best.encode_ns /= (double)s->n;
  best.decode_ns /= (double)s->n;
  return best;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------ */

/* Who has a residual must not leave anything in it: that is for sparse gradients. */
static bool is_tried(const struct tagc_candidate *candidate, double density)
{
  return candidate->codec && (!candidate->codec->needs_residual ||
                              (candidate->residual != TAGC_STORAGE_NONE && tagc_survey_keep(density)));
}

/* What the most demanding candidate needs for residuals and payloads. */
static size_t work_bytes(const struct tagc_survey_question *q, const struct sample *s, double density, size_t *residuals)
{
  size_t payloads = 0;
  *residuals = 0;
  for (int i = 0; i < TAGC_CANDIDATES; i++) {
    struct tagc_job job = {0};
    if (!is_tried(&q->candidates[i], density))
      continue;
    job.shape = shape_of(s, &q->candidates[i], density);
    if (!q->candidates[i].codec->layout(&job.shape, &job.layout))
      continue;
    const size_t payload = 2 * tagc_job_carve(&job, NULL);
    const size_t residual = (2 * tagc_residual_bytes(&job.shape) + 63) & ~(size_t)63;
    *residuals = residual > *residuals ? residual : *residuals;
    payloads = payload > payloads ? payload : payloads;
  }
  return *residuals + payloads;
}

/* The sample, with zeros before and behind it, and room for what comes of it. False without memory. */
static bool take_sample(const struct row *row, const struct tagc_device *device, struct sample *s, double *kurtosis)
{
  for (int from_values = 0; from_values <= 1; from_values++) {
    s->n = take_stretches(row, from_values, NULL);
    const size_t shard = s->n * tagc_dtype_size(s->dtype);
    s->shards = device->alloc(device, 4 * shard, NULL);
    if (!s->shards)
      return false;
    memset(s->shards, 0, 4 * shard);
    s->recv = shard_of(s, 3);
    take_stretches(row, from_values, shard_of(s, 1));
    *kurtosis = look_at(s);
    if (s->values || !row->values || from_values)
      break;
    device->release(device, s->shards, NULL);
  }
  return true;
}

void *tagc_survey_fetch(struct tagc_survey_question *q, const struct tagc_device *device, void *stream)
{
  const struct tagc_shape *shape = &q->shape;
  const size_t size = tagc_dtype_size(shape->dtype);
  const uint64_t pieces = shape->n > PIECES * STRETCH ? PIECES : 1, length = pieces == 1 ? shape->n : STRETCH;
  const int shards = shape->nranks < FETCHED_SHARDS ? shape->nranks : FETCHED_SHARDS;
  char *copy = malloc((size_t)shards * pieces * length * size), *to = copy;
  for (int i = 0; i < shards && copy; i++)
    for (uint64_t piece = 0; piece < pieces && copy; piece++, to += length * size) {
      /* Shard 0 plays the own one; where not all are taken it does not matter which one it is. */
      const uint64_t shard = ((uint64_t)q->rank + (uint64_t)i * (uint64_t)shape->nranks / (uint64_t)shards) % (uint64_t)shape->nranks;
      const uint64_t at = pieces == 1 ? 0 : (shape->n - length) / (pieces - 1) * piece / BLOCK * BLOCK;
      if (!device->get(device, to, (const char *)q->send + (shard * shape->n + at) * size, length * size, stream)) {
        free(copy);
        copy = NULL;
      }
    }
  q->shape.n = pieces * length;
  q->shape.nranks = shards;
  q->rank = 0;
  q->send = copy;
  return copy;
}

bool tagc_survey_take(const struct tagc_survey_question *q, const struct tagc_device *device, struct tagc_survey *out)
{
  tagc_fpmode mode = tagc_fpmode_enter();
  struct row row = row_of(q);
  struct sample s = {.dtype = q->shape.dtype, .scale = q->scale};
  *out = (struct tagc_survey){.density = (double)row.most / (double)row.n, .exceptions = row.exceptions};
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    out->of[i] = NOTHING;
  bool good = take_sample(&row, device, &s, &out->kurtosis);
  if (good) {
    size_t residuals;
    const size_t bytes = work_bytes(q, &s, out->density, &residuals);
    s.residuals = bytes ? device->alloc(device, bytes, NULL) : NULL;
    good = s.residuals || !bytes;
    if (s.residuals) {
      memset(s.residuals, 0, bytes);
      s.payloads = s.residuals + residuals;
      for (int i = 0; i < TAGC_CANDIDATES; i++)
        if (is_tried(&q->candidates[i], out->density))
          out->of[i] = try_codec(q, &s, &q->candidates[i], out->density);
      device->release(device, s.residuals, NULL);
    }
    device->release(device, s.shards, NULL);
  }
  tagc_fpmode_leave(mode);
  return good;
}
