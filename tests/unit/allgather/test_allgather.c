/* SPDX-License-Identifier: BSD-3-Clause
 * The codecs for all-gathers: their bytes against reference.h with every instruction set, the results, refusals (which
 * touch nothing), and delta over many steps.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/unit/allgather/reference.h"
#include "tests/unit/codec/variants.h"

enum { MOST_RANKS = 8 };

static const char *const types[] = {"fp32", "fp16", "bf16"};

/* A world of ranks in one process. */
struct world {
  const struct tagc_allgather_codec *codec;
  struct tagc_allgather_shape shape;
  struct tagc_allgather_layout layout;
  size_t shard;  /* bytes */
  uint8_t *send; /* of all ranks */
  uint8_t *payloads;
  uint8_t *recv[MOST_RANKS], *reference[MOST_RANKS];
  struct tagc_allgather_stats stats;
};

static bool world_new(struct world *w, const struct tagc_allgather_codec *codec, uint64_t n, int ranks,
                      enum tagc_dtype dtype) {
  *w = (struct world){.codec = codec, .shape = {.n = n, .nranks = ranks, .dtype = dtype}};
  if (!codec->layout(&w->shape, &w->layout))
    return false;
  w->shard = n * tagc_dtype_size(dtype);
  w->send = calloc((size_t)ranks, w->shard);
  w->payloads = malloc((size_t)ranks * w->layout.payload_bytes);
  memset(w->payloads, 0xa5, (size_t)ranks * w->layout.payload_bytes);
  for (int rank = 0; rank < ranks; rank++) {
    w->recv[rank] = calloc((size_t)ranks, w->shard);
    w->reference[rank] = calloc(1, w->layout.reference_bytes + 1);
  }
  return true;
}

static void world_free(struct world *w) {
  free(w->send);
  free(w->payloads);
  for (int rank = 0; rank < w->shape.nranks; rank++) {
    free(w->recv[rank]);
    free(w->reference[rank]);
  }
}

static struct tagc_allgather_job job_of(struct world *w, int rank) {
  return (struct tagc_allgather_job){
    .shape = w->shape,
    .layout = w->layout,
    .rank = rank,
    .send = w->send + (size_t)rank * w->shard,
    .recv = w->recv[rank],
    .seed = 12345,
    .payloads = w->payloads,
    .reference = w->layout.reference_bytes ? w->reference[rank] : NULL,
    .stats = &w->stats,
  };
}

static void encode_all(struct world *w) {
  for (int rank = 0; rank < w->shape.nranks; rank++) {
    struct tagc_allgather_job job = job_of(w, rank);
    w->codec->encode(&job);
  }
}

/* 1 if all ranks refused, 0 if none did, -1 if they differ. */
static int decode_all(struct world *w) {
  int refused = 0;
  for (int rank = 0; rank < w->shape.nranks; rank++) {
    struct tagc_allgather_job job = job_of(w, rank);
    w->codec->decode(&job);
    refused += job.refused;
  }
  return refused == 0 ? 0 : refused == w->shape.nranks ? 1 : -1;
}

static uint64_t state = 1;
static uint32_t draw(void) { return (uint32_t)(tagc_mix64(++state) >> 32); }

/* Approximately normal. */
static float normal(void) {
  float sum = 0;
  for (int i = 0; i < 12; i++)
    sum += (float)(draw() >> 8) * 0x1p-24f;
  return 0.02f * (sum - 6);
}

static void fill(struct world *w, int wild) {
  const uint64_t all = w->shape.n * (uint64_t)w->shape.nranks;
  static const uint32_t special[] = {0,          0x80000000, 1,          0x007fffff, 0x7f800000,
                                     0xff800000, 0x7fc00001, 0xffa00003, 0x7b800000};
  for (uint64_t i = 0; i < all; i++) {
    float x = normal();
    if (wild && i % 300 == 17)
      x = tagc_float_of(special[draw() % 9]);
    tagc_store(w->send, i, w->shape.dtype, x);
    for (int rank = 0; rank < w->shape.nranks && w->layout.reference_bytes; rank++)
      tagc_store(w->reference[rank], i, w->shape.dtype, x - 0.0005f * (float)(i % 7)); /* near enough for delta */
  }
}

/* One shape: bytes and results. */
static void check_shape(const struct tagc_allgather_codec *codec, uint64_t n, int ranks, enum tagc_dtype dtype) {
  struct world w;
  const bool wild = codec->name[0] != 'd';
  bool bytes = true, same = true, right = true, refuses = false;
  if (codec->least_bytes) /* test_exact.c */
    return;
  if (!world_new(&w, codec, n, ranks, dtype))
    return;
  state = n + (uint64_t)ranks;
  fill(&w, wild);
  encode_all(&w);
  uint8_t *expected = malloc(w.layout.payload_bytes), *shard = malloc(w.shard);
  for (int rank = 0; rank < ranks; rank++) {
    struct tagc_allgather_job job = job_of(&w, rank);
    gather_encode(codec, &job, expected);
    const bool refused = codec->may_refuse && expected[0]; /* the rest is undefined then */
    refuses |= refused;
    bytes &= memcmp(expected, tagc_allgather_payload(&job, rank), refused ? 16 : w.layout.payload_bytes) == 0;
  }
  uint8_t *before = malloc((size_t)ranks * w.shard);
  memcpy(before, w.reference[0], w.layout.reference_bytes);
  same &= decode_all(&w) == refuses;
  for (int rank = 0; rank < ranks && !refuses; rank++) {
    struct tagc_allgather_job job = job_of(&w, 0);
    const uint8_t *got = w.recv[0] + (size_t)rank * w.shard;
    job.reference = before;
    same &= memcmp(w.recv[rank], w.recv[0], (size_t)ranks * w.shard) == 0;
    same &= memcmp(w.reference[rank], w.recv[0], w.layout.reference_bytes) == 0;
    if (codec->exact)
      memcpy(shard, w.send + (size_t)rank * w.shard, w.shard);
    else if (codec->name[0] == 'b')
      for (uint64_t i = 0; i < n; i++) {
        const float x = ((const float *)w.send)[(uint64_t)rank * n + i];
        ((float *)shard)[i] = tagc_from_bf16(x == x ? tagc_to_bf16(x) : 0x7fc0);
      }
    else
      gather_decode(codec, &job, rank, shard);
    right &= memcmp(shard, got, w.shard) == 0;
  }
  free(before);
  free(expected);
  free(shard);
  world_free(&w);
  if (!(bytes && same && right) || n == 70001) /* of its even blocks none is refused; short ones may be */
    ok(bytes && same && right && !(refuses && n == 70001),
       "%s, %s, %d shards of %llu and what is smaller: bytes %d, all ranks alike %d, values %d", codec->name,
       types[dtype], ranks, (unsigned long long)n, bytes, same, right);
}

static void check_shapes(void) {
  static const uint64_t ns[] = {1, 127, 255, 256, 257, 1000, 2048, 5000, 70001};
  static const int ranks[] = {2, 3, 8};
  for (int c = 0; tagc_allgather_codecs[c]; c++)
    for (int t = 0; t < 3; t++)
      for (size_t r = 0; r < 3; r++)
        for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
          check_shape(tagc_allgather_codecs[c], ns[i], ranks[r], (enum tagc_dtype)t);
}

/* -- the examples of the codecs' headers --------------------------------------------------------------------------- */

/* A payload as runs of equal bytes; ends with an empty one. */
struct run {
  size_t count;
  uint8_t byte;
};

static bool is_runs(const uint8_t *payload, size_t bytes, const struct run *run) {
  size_t at = 0;
  for (; run->count; run++)
    for (size_t i = 0; i < run->count; i++, at++)
      if (at >= bytes || payload[at] != run->byte) {
        note("byte %zu is %02x, not %02x", at, at < bytes ? payload[at] : 0, run->byte);
        return false;
      }
  return at == bytes;
}

static void check_example(const struct tagc_allgather_codec *codec, enum tagc_dtype dtype, uint64_t n,
                          const void *shard, void *reference, size_t bytes, const struct run *runs) {
  uint8_t *payload = calloc(2, bytes);
  struct tagc_allgather_job job = {.shape = {.n = n, .nranks = 2, .dtype = dtype},
                                   .layout = {.payload_bytes = bytes},
                                   .rank = 1,
                                   .send = shard,
                                   .seed = 1,
                                   .payloads = payload,
                                   .reference = reference};
  codec->encode(&job);
  ok(is_runs(payload + bytes, bytes, runs), "%s: the payload of the example", codec->name);
  free(payload);
}

static void check_examples(void) {
  const float few[] = {1, -2, 0.5f}, values[] = {127, -1, 0.5f}, one[] = {8208};
  float reference[] = {0, 10000};
  uint16_t many[1000];
  for (int i = 0; i < 1000; i++)
    many[i] = i == 2 ? 0xc040 : i == 300 ? 0 : 0x3f80;
  check_example(
    &tagc_allgather_bf16, TAGC_FLOAT32, 3, few, NULL, 32,
    (const struct run[]){{16, 0}, {1, 0x80}, {1, 0x3f}, {1, 0}, {1, 0xc0}, {1, 0}, {1, 0x3f}, {10, 0}, {0, 0}});
  check_example(&tagc_allgather_q8, TAGC_FLOAT32, 3, values, NULL, 16 + 16 + 16 + 256,
                (const struct run[]){{32, 0}, {1, 0x80}, {1, 0x3f}, {14, 0}, {1, 0x7f}, {1, 0xff}, {254, 0}, {0, 0}});
  check_example(
    &tagc_allgather_delta, TAGC_FLOAT32, 1, one, reference, 16 + 16 + 128,
    (const struct run[]){{16, 0}, {1, 0x80}, {1, 0x3f}, {1, 0x80}, {1, 0x3f}, {12, 0}, {128, 0x99}, {0, 0}});
  check_example(&tagc_allgather_lossless, TAGC_BFLOAT16, 1000, many, NULL, 16 + 16 + 352 + 16 + 4 * 352,
                (const struct run[]){{16, 0},   {8, 0},    {1, 1},    {3, 0},    {1, 1},     {3, 0},      {352, 0},
                                     {1, 0x80}, {3, 0x7f}, {12, 0},   {1, 0xfb}, {31, 0xff}, {64 + 2, 0}, {1, 0xc0},
                                     {253, 0},  {5, 0},    {1, 0x10}, {31, 0},   {1, 0x10},  {31, 0},     {1, 0x10},
                                     {26, 0},   {256, 0},  {704, 0},  {0, 0}});
}

/* -- bits ---------------------------------------------------------------------------------------------------------- */

/* Every pattern of 16 bits, among many common ones: as bf16, and as upper halves of fp32 above random lower halves. */
static void check_patterns(enum tagc_dtype dtype) {
  struct world w;
  const uint64_t n = 1u << 20;
  bool good = world_new(&w, &tagc_allgather_lossless, n, 2, dtype);
  for (uint64_t i = 0; i < 2 * n && good; i++) {
    const uint32_t half = i % 32 == 5 ? (uint32_t)(i / 32) : tagc_bits_of(normal()) >> 16;
    if (dtype == TAGC_FLOAT32)
      ((uint32_t *)w.send)[i] = half << 16 | (draw() & 0xffff);
    else
      ((uint16_t *)w.send)[i] = (uint16_t)half;
  }
  encode_all(&w);
  good = good && decode_all(&w) == 0 && memcmp(w.recv[0], w.send, 2 * w.shard) == 0 &&
         memcmp(w.recv[1], w.send, 2 * w.shard) == 0;
  ok(good, "lossless, %s: every upper half comes out bit for bit", types[dtype]);
  world_free(&w);
}

/* -- refused ------------------------------------------------------------------------------------------------------- */

/* Rank 1's shard cannot be encoded: all ranks see it, and nothing is touched. */
static void check_refused(const struct tagc_allgather_codec *codec, const char *why, void (*spoil)(struct world *)) {
  struct world w;
  world_new(&w, codec, 9000, 3, TAGC_FLOAT32);
  fill(&w, 0);
  spoil(&w);
  uint8_t *reference = malloc(w.layout.reference_bytes + 1);
  memcpy(reference, w.reference[0], w.layout.reference_bytes);
  for (int rank = 0; rank < 3; rank++)
    memset(w.recv[rank], 0x77, 3 * w.shard);
  encode_all(&w);
  bool untouched = decode_all(&w) == 1 && w.stats.refused == 3;
  for (int rank = 0; rank < 3; rank++) {
    for (size_t i = 0; i < 3 * w.shard; i++)
      untouched &= w.recv[rank][i] == 0x77;
    untouched &= rank == 1 || memcmp(reference, w.reference[rank], w.layout.reference_bytes) == 0;
  }
  ok(untouched, "%s: %s is refused by all ranks, and nothing is touched", codec->name, why);
  free(reference);
  world_free(&w);
}

static float *shard1(struct world *w) { return (float *)(w->send + w->shard); }

static void spoil_exponents(struct world *w) {
  for (int i = 0; i < 9000; i++)
    ((uint32_t *)shard1(w))[i] = draw();
}

static void spoil_one(struct world *w) { shard1(w)[8999] = INFINITY; }
static void spoil_huge(struct world *w) { shard1(w)[256] = 0x1p56f; }

static void spoil_reference(struct world *w) {
  for (int i = 0; i < 9000; i++)
    ((float *)w->reference[1])[9000 + i] = normal();
}

/* q8: rank 1's shard has more exceptions than there is room for: it is NaN everywhere, and the others are normal. */
static void check_lost(enum tagc_dtype dtype) {
  struct world w;
  world_new(&w, &tagc_allgather_q8, 9000, 3, dtype);
  fill(&w, 0);
  for (uint64_t i = 0; i < 200; i++)
    tagc_store(w.send, 9000 + 40 * i, dtype, i % 2 ? NAN : -INFINITY);
  encode_all(&w);
  bool good = decode_all(&w) == 0;
  for (int rank = 0; rank < 3; rank++)
    for (uint64_t i = 0; i < 27000; i++)
      good &= isnan(tagc_load(w.recv[rank], i, dtype)) == (i / 9000 == 1);
  world_free(&w);
  ok(good, "q8, %s: a shard with too many exceptions comes out all NaN on all ranks, and no other", types[dtype]);
}

static void check_refusals(void) {
  check_refused(&tagc_allgather_lossless, "a shard of random bits", spoil_exponents);
  for (int t = 0; t < 3; t++)
    check_lost((enum tagc_dtype)t);
  check_refused(&tagc_allgather_delta, "one infinity", spoil_one);
  check_refused(&tagc_allgather_delta, "a value of 2^56", spoil_huge);
  check_refused(&tagc_allgather_delta, "another slot's reference", spoil_reference);
}

/* -- in place ------------------------------------------------------------------------------------------------------ */

static void check_in_place(void) {
  for (int c = 0; tagc_allgather_codecs[c]; c++) {
    struct world w, other;
    bool good = true;
    world_new(&w, tagc_allgather_codecs[c], 5000, 3, TAGC_FLOAT32);
    world_new(&other, tagc_allgather_codecs[c], 5000, 3, TAGC_FLOAT32);
    state = 9;
    fill(&w, 0);
    state = 9;
    fill(&other, 0);
    encode_all(&other);
    decode_all(&other);
    for (int rank = 0; rank < 3; rank++) {
      struct tagc_allgather_job job = job_of(&w, rank);
      memcpy(w.recv[rank] + (size_t)rank * w.shard, job.send, w.shard);
      job.send = w.recv[rank] + (size_t)rank * w.shard;
      job.keep_own = true;
      w.codec->encode(&job);
    }
    for (int rank = 0; rank < 3; rank++) {
      struct tagc_allgather_job job = job_of(&w, rank);
      job.send = w.recv[rank] + (size_t)rank * w.shard;
      job.keep_own = true;
      w.codec->decode(&job);
      for (int shard = 0; shard < 3; shard++)
        good &= memcmp(w.recv[rank] + (size_t)shard * w.shard,
                       (shard == rank ? w.send : other.recv[0]) + (size_t)shard * w.shard, w.shard) == 0;
      good &= memcmp(w.reference[rank], other.reference[rank], w.layout.reference_bytes) == 0;
    }
    ok(good, "%s: in place the own shard stays, and the others are what they are", w.codec->name);
    world_free(&w);
    world_free(&other);
  }
}

/* -- delta --------------------------------------------------------------------------------------------------------- */

/* Moving parameters: the error stays as small as a step, and vanishes when they rest. Zeros rest from the start. */
static void check_delta(enum tagc_dtype dtype) {
  enum { STEPS = 60, N = 5000 };
  struct world w;
  double moving = 0, resting = 0;
  bool alike = true;
  world_new(&w, &tagc_allgather_delta, N, 2, dtype);
  float *params = calloc(2 * N, sizeof *params);
  for (int i = 0; i < 2 * N; i++)
    params[i] = i / 512 == 3 ? 0 : normal();
  for (int step = 0; step < STEPS; step++) {
    for (int i = 0; i < 2 * N && step > 0 && step < STEPS / 2; i++)
      params[i] += i / 512 == 3 ? 0 : 0.01f * normal() + 0.0001f;
    for (uint64_t i = 0; i < 2 * N; i++)
      tagc_store(w.send, i, dtype, params[i]);
    for (int rank = 0; rank < 2; rank++) {
      struct tagc_allgather_job job = job_of(&w, rank);
      memcpy(w.recv[rank], w.send, step ? 0 : 2 * w.shard);
      if (step == 0)
        w.codec->refer(&job);
    }
    for (int rank = 0; rank < 2; rank++) {
      struct tagc_allgather_job job = job_of(&w, rank);
      job.seed = 77 + (uint64_t)step;
      w.codec->encode(&job);
    }
    for (int rank = 0; rank < 2; rank++) {
      struct tagc_allgather_job job = job_of(&w, rank);
      job.seed = 77 + (uint64_t)step;
      w.codec->decode(&job);
      alike &= !job.refused;
    }
    alike &= memcmp(w.recv[0], w.recv[1], 2 * w.shard) == 0 && memcmp(w.reference[0], w.recv[1], 2 * w.shard) == 0;
    const double error = sqrt(w.stats.error2 / w.stats.norm2);
    if (step < STEPS / 2)
      moving = error > moving ? error : moving;
    resting = error;
  }
  note("%s: relative error %.2g while they move by 1%% a step, %.2g at rest", types[dtype], moving, resting);
  ok(alike && moving < 0.004 && resting < (dtype == TAGC_FLOAT32 ? 1e-6 : 1e-3),
     "delta, %s: tracks what moves, all ranks alike", types[dtype]);
  for (int i = 0; i < 512; i++)
    alike &= tagc_load(w.recv[0], 1536 + (uint64_t)i, dtype) == 0;
  ok(alike, "delta, %s: zeros stay zeros", types[dtype]);
  free(params);
  world_free(&w);
}

static void check_zeros(void) {
  bool good = true;
  for (int c = 0; tagc_allgather_codecs[c]; c++) {
    struct world w;
    world_new(&w, tagc_allgather_codecs[c], 5000, 2, TAGC_FLOAT32);
    memset(w.recv[0], 1, 2 * w.shard);
    encode_all(&w);
    good &= decode_all(&w) == 0 && memcmp(w.recv[0], w.send, 2 * w.shard) == 0;
    world_free(&w);
  }
  ok(good, "shards of zeros come out as such from all codecs");
}

/* The largest fp16 must stay a number; values that are no numbers arrive at their places. */
static void check_extremes(void) {
  struct world w;
  world_new(&w, &tagc_allgather_q8, 5000, 2, TAGC_FLOAT16);
  uint16_t *send = (uint16_t *)w.send, *got = (uint16_t *)w.recv[0];
  fill(&w, 0);
  send[7] = 0x7bff, send[300] = 0xfbff, send[1000] = 0x7c00, send[5000] = 0xfc00, send[9999] = 0x7e00;
  encode_all(&w);
  ok(decode_all(&w) == 0 && got[7] == 0x7bff && got[300] == 0xfbff && got[1000] == 0x7c00 && got[5000] == 0xfc00 &&
       got[9999] == 0x7e00 && w.stats.nonfinite == 3,
     "q8, fp16: the largest numbers stay finite, infinities and NaN are exceptions");
  world_free(&w);
}

/* -- the error that is told ---------------------------------------------------------------------------------------- */

static float one_infinity(uint64_t i) { return i == 300 ? INFINITY : normal(); }
static float one_nan(uint64_t i) { return i == 300 ? NAN : normal(); }
static float one_large(uint64_t i) { return i == 300 ? 2e19f : normal(); }
static float all_tiny(uint64_t i) { return 1e-22f * (normal() + (i % 2 ? 1 : -1)); }
static float all_large(uint64_t i) { return 1e34f * (normal() + (i % 2 ? 1 : -1)); }

/* Against sums in fp64 of what is finite. Each instruction set tells the same bits. */
static void check_told(const struct tagc_allgather_codec *codec, const char *what, float (*value)(uint64_t i)) {
  enum { N = 1024 + 3 };
  struct tagc_allgather_stats first = {0};
  bool same = true;
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
    struct world w;
    double error2 = 0, norm2 = 0;
    if (!tagc_variant_force(tagc_variant_name((enum tagc_variant)v)) || !world_new(&w, codec, N, 2, TAGC_FLOAT32))
      continue;
    state = 77;
    for (uint64_t i = 0; i < 2 * N; i++)
      ((float *)w.send)[i] = value(i % N);
    memcpy(w.reference[0], w.send, w.layout.reference_bytes);
    memcpy(w.reference[1], w.send, w.layout.reference_bytes);
    for (uint64_t i = 0; i < 2 * N && w.layout.reference_bytes; i++)
      ((float *)w.send)[i] *= 1.01f;
    encode_all(&w);
    same &= decode_all(&w) == 0;
    for (uint64_t i = N; i < 2 * N; i++) { /* rank 1 was the last */
      const double x = (double)((float *)w.send)[i], error = x - (double)((float *)w.recv[1])[i];
      error2 += isfinite(error) ? error * error : 0;
      norm2 += isfinite(error) ? x * x : 0;
    }
    same &= fabs(w.stats.error2 - error2) <= 1e-5 * error2 && fabs(w.stats.norm2 - norm2) <= 1e-5 * norm2 && norm2 > 0;
    first = first.norm2 > 0 ? first : w.stats;
    same &= memcmp(&first.error2, &w.stats.error2, 2 * sizeof(double)) == 0;
    world_free(&w);
  }
  tagc_variant_force(NULL);
  ok(same, "%s, %s: an error of %.3g%% is told", codec->name, what, 100 * tagc_allgather_error(&first));
}

static void check_told_errors(void) {
  static const struct tagc_allgather_codec *const codecs[] = {&tagc_allgather_bf16, &tagc_allgather_q8};
  for (int c = 0; c < 2; c++) {
    check_told(codecs[c], "one infinity", one_infinity);
    check_told(codecs[c], "one NaN", one_nan);
    check_told(codecs[c], "one large value", one_large);
    check_told(codecs[c], "tiny values", all_tiny);
    check_told(codecs[c], "large values", all_large);
  }
  check_told(&tagc_allgather_delta, "tiny values", all_tiny);
}

/* -- payloads that nobody sent ------------------------------------------------------------------------------------- */

/* Anything but a refusal: decoding stays inside its buffers (checked by sanitizers), and all variants agree. */
static void check_hostile(void) {
  bool same = true;
  for (int c = 0; tagc_allgather_codecs[c]; c++)
    for (int t = 0; t < 3; t++)
      for (uint64_t n = 600; n < 3000; n += 777) {
        struct world w;
        uint8_t *first = NULL;
        for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
          if (!tagc_variant_force(tagc_variant_name((enum tagc_variant)v)) ||
              !world_new(&w, tagc_allgather_codecs[c], n, 2, (enum tagc_dtype)t))
            continue;
          state = n;
          for (size_t i = 0; i < 2 * w.layout.payload_bytes; i++)
            w.payloads[i] = i % w.layout.payload_bytes < 16 ? 0 : (uint8_t)draw();
          decode_all(&w);
          if (!first)
            first = memcpy(malloc(2 * w.shard), w.recv[0], 2 * w.shard);
          same &= memcmp(first, w.recv[0], 2 * w.shard) == 0;
          world_free(&w);
        }
        free(first);
      }
  tagc_variant_force(NULL);
  ok(same, "hostile payloads: all variants make the same of them");
}

static void check_layouts(void) {
  struct tagc_allgather_layout layout;
  struct tagc_allgather_shape shape = {.n = 100000, .nranks = 2, .dtype = TAGC_FLOAT16};
  ok(!tagc_allgather_lossless.layout(&shape, &layout) && !tagc_allgather_bf16.layout(&shape, &layout),
     "fp16: not lossless, nor bf16");
  shape.dtype = TAGC_BFLOAT16;
  ok(tagc_allgather_lossless.layout(&shape, &layout) && 200000.0 / (double)layout.payload_bytes > 1.3,
     "lossless, bf16: 1.3 times smaller");
  shape.dtype = TAGC_FLOAT32;
  ok(tagc_allgather_lossless.layout(&shape, &layout) && 400000.0 / (double)layout.payload_bytes > 1.12,
     "lossless, fp32: 1.12 times smaller");
  for (int c = 0; tagc_allgather_codecs[c]; c++) {
    shape.n = (uint64_t)1 << 33;
    ok(!tagc_allgather_codecs[c]->layout(&shape, &layout), "%s: no shards of 2^33", tagc_allgather_codecs[c]->name);
  }
}

static void check_all(void) {
  state = 1;
  check_layouts();
  check_examples();
  check_shapes();
  check_patterns(TAGC_BFLOAT16);
  check_patterns(TAGC_FLOAT32);
  check_refusals();
  check_in_place();
  for (int t = 0; t < 3; t++)
    check_delta((enum tagc_dtype)t);
  check_zeros();
  check_extremes();
}

int main(void) {
  with_each_variant(check_all);
  check_told_errors();
  check_hostile();
  return tap_done();
}
