/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `support`, for sums of all-reduces: its bytes against reference.h and its results, bit for bit, with every
 * instruction set, type and pattern; its sizes, and what does not fit.
 */
#include <stdlib.h>

#include "kernels/allgather/support.h"
#include "tests/unit/allgather/reference.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

enum { RANKS = 3, ROOM = 4096 * 4 + 4096 };

static const char *const types[] = {"fp32", "fp16", "bf16"};

enum pattern { EMPTY, RARE, LISTED, MASKED, DENSE, ROWS, EDGE, PATTERNS };
static const char *const patterns[] = {"no value",        "one of 500", "one of 12",
                                       "one of 4",        "nine of 10", "whole blocks, and others without any",
                                       "31, 32, 255, 256"};

/* Has element i a value? */
static bool pattern_has(enum pattern pattern, uint64_t i) {
  static const uint32_t edges[] = {31, 32, 255, 256};
  switch (pattern) {
  case EMPTY: return false;
  case RARE: return sim_random() % 500 == 0;
  case LISTED: return sim_random() % 12 == 0;
  case MASKED: return sim_random() % 4 == 0;
  case DENSE: return sim_random() % 10 != 0;
  case ROWS: return i / 256 % 3 == 1;
  default: return i % 256 < edges[i / 256 % 4];
  }
}

/* Any bits but those of +0; -0, denormals, infinities and NaNs often. */
static uint32_t some_bits(enum tagc_dtype dtype) {
  static const uint32_t special[] = {0x80000000, 0x00000001, 0x807fffff, 0x7f800000,
                                     0xff800000, 0x7fc00001, 0xffffffff};
  static const uint16_t halves[] = {0x8000, 0x0001, 0x83ff, 0x7c00, 0x7f80, 0xff80, 0x7fc1, 0xffff};
  const uint64_t roll = sim_random();
  const uint32_t bits = (uint32_t)(roll >> 16);
  if (dtype == TAGC_FLOAT32)
    return roll % 3 == 0 ? special[bits % 7] : bits | 1;
  return roll % 3 == 0 ? halves[bits % 8] : (bits & 0xffff) | 1;
}

static void put_bits(void *shard, uint64_t i, enum tagc_dtype dtype, uint32_t bits) {
  memcpy((char *)shard + i * tagc_dtype_size(dtype), &bits, tagc_dtype_size(dtype));
}

struct support_world {
  struct tagc_allgather_job job;
  size_t shard; /* bytes */
  uint8_t *send, *recv;
};

static bool support_world_new(struct support_world *w, uint64_t n, enum tagc_dtype dtype) {
  *w = (struct support_world){.job.shape = {.n = n, .nranks = RANKS, .dtype = dtype}};
  if (!tagc_allgather_support.layout(&w->job.shape, &w->job.layout))
    return false;
  w->shard = n * tagc_dtype_size(dtype);
  w->send = calloc(RANKS, w->shard);
  w->recv = malloc(RANKS * w->shard);
  w->job.payloads = malloc(RANKS * (w->job.layout.payload_bytes + ROOM));
  w->job.state = malloc(w->job.layout.state_bytes);
  w->job.recv = memset(w->recv, 0x55, RANKS * w->shard);
  return true;
}

static void support_world_free(struct support_world *w) {
  free(w->send);
  free(w->recv);
  free(w->job.payloads);
  free(w->job.state);
}

static void fill_shards(struct support_world *w, enum pattern pattern) {
  for (uint64_t i = 0; i < RANKS * w->job.shape.n; i++)
    put_bits(w->send, i, w->job.shape.dtype, pattern_has(pattern, i) ? some_bits(w->job.shape.dtype) : 0);
}

/* Encodes all shards as two exchanges do; returns the bytes of a payload, or 0 if they are beyond `most`. */
static size_t support_encode_all(struct support_world *w, size_t most) {
  struct tagc_allgather_job job = w->job;
  uint64_t needed = 0;
  uint8_t *one = malloc(most);
  job.layout.payload_bytes = most;
  job.payloads = one;
  job.rank = 0;
  for (int rank = 0; rank < RANKS; rank++) {
    job.send = w->send + (size_t)rank * w->shard;
    tagc_allgather_support.encode(&job);
    needed = tagc_support_needed(one) > needed ? tagc_support_needed(one) : needed;
  }
  w->job.layout.payload_bytes = needed;
  for (int rank = 0; rank < RANKS && needed <= most; rank++) {
    job.send = w->send + (size_t)rank * w->shard;
    tagc_allgather_support.encode(&job);
    memcpy(tagc_allgather_payload(&w->job, rank), one, needed);
  }
  free(one);
  return needed <= most ? needed : 0;
}

static bool is_as_reference(struct support_world *w) {
  uint8_t *expected = malloc(w->job.layout.payload_bytes);
  bool good = true;
  for (int rank = 0; rank < RANKS; rank++) {
    struct tagc_allgather_job job = w->job;
    job.send = w->send + (size_t)rank * w->shard;
    gather_encode(&tagc_allgather_support, &job, expected);
    good &= memcmp(expected, tagc_allgather_payload(&w->job, rank), job.layout.payload_bytes) == 0;
  }
  free(expected);
  return good;
}

static uint64_t support_values(const struct support_world *w, int rank) {
  const uint64_t n = w->job.shape.n;
  uint64_t values = 0;
  for (uint64_t i = 0; i < n; i++) {
    uint32_t bits = 0;
    memcpy(&bits, w->send + ((uint64_t)rank * n + i) * tagc_dtype_size(w->job.shape.dtype),
           tagc_dtype_size(w->job.shape.dtype));
    values += bits != 0;
  }
  return values;
}

/* True if each payload takes at most what tagc_support_bytes() says. */
static bool is_within_bound(const struct support_world *w) {
  for (int rank = 0; rank < RANKS; rank++)
    if (tagc_support_needed(tagc_allgather_payload(&w->job, rank)) >
        tagc_support_bytes(w->job.shape.n, w->job.shape.dtype, support_values(w, rank)))
      return false;
  return true;
}

static bool try_pattern(uint64_t n, enum tagc_dtype dtype, enum pattern pattern) {
  struct support_world w;
  if (!support_world_new(&w, n, dtype))
    return n < 50;
  fill_shards(&w, pattern);
  /* Whole and dense shards need more than the plain call: `layout` offers less, but the format has room. */
  bool good = support_encode_all(&w, w.job.layout.payload_bytes + ROOM) > 0;
  good = good && is_as_reference(&w) && is_within_bound(&w);
  if (good)
    tagc_allgather_support.decode(&w.job);
  good = good && !w.job.refused && memcmp(w.recv, w.send, RANKS * w.shard) == 0;
  support_world_free(&w);
  return good;
}

static void check_patterns(void) {
  static const uint64_t ns[] = {1, 13, 50, 255, 256, 257, 512, 1000, 4096};
  sim_random_restart();
  for (int t = 0; t < 3; t++)
    for (int p = 0; p < PATTERNS; p++) {
      bool good = true;
      for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
        good &= try_pattern(ns[i], (enum tagc_dtype)t, (enum pattern)p);
      ok(good, "%s, %s: the bytes of the reference, and every bit comes out", types[t], patterns[p]);
    }
}

/* Room for just the values, then for 16 bytes less. */
static void check_room(void) {
  for (int t = 0; t < 3; t++) {
    struct support_world w;
    sim_random_restart();
    ok(support_world_new(&w, 3000, (enum tagc_dtype)t), "%s: 3000 elements", types[t]);
    fill_shards(&w, MASKED);
    const size_t needed = support_encode_all(&w, w.job.layout.payload_bytes);
    ok(needed > 0 && support_encode_all(&w, needed) == needed, "%s: room for %zu bytes is enough", types[t], needed);
    tagc_allgather_support.decode(&w.job);
    ok(!w.job.refused && memcmp(w.recv, w.send, RANKS * w.shard) == 0, "%s: and all values come out", types[t]);
    w.job.layout.payload_bytes = needed - 16;
    for (w.job.rank = 0; w.job.rank < RANKS; w.job.rank++) {
      w.job.send = w.send + (size_t)w.job.rank * w.shard;
      tagc_allgather_support.encode(&w.job);
    }
    uint64_t most = 0;
    for (int rank = 0; rank < RANKS; rank++)
      most = tagc_support_needed(tagc_allgather_payload(&w.job, rank)) > most
               ? tagc_support_needed(tagc_allgather_payload(&w.job, rank))
               : most;
    w.job.rank = 0;
    memset(w.recv, 0x55, RANKS * w.shard);
    tagc_allgather_support.decode(&w.job);
    bool untouched = true;
    for (size_t i = 0; i < RANKS * w.shard; i++)
      untouched &= w.recv[i] == 0x55;
    ok(w.job.refused && untouched && most == needed, "%s: less is refused, touches nothing, and tells the bytes",
       types[t]);
    support_world_free(&w);
  }
}

static void check_example(void) {
  float shard[300] = {[2] = 1, [255] = -3, [258] = -0.0f};
  static const uint8_t expected[80] = {[16] = 80,   [24] = 3,    [32] = 2,    [33] = 1, [50] = 0x80, [51] = 0x3f,
                                       [54] = 0x40, [55] = 0xc0, [59] = 0x80, [64] = 2, [65] = 0xff, [66] = 2};
  uint8_t payload[80], state[64];
  struct tagc_allgather_job job = {.shape = {300, 1, TAGC_FLOAT32},
                                   .layout.payload_bytes = sizeof payload,
                                   .send = shard,
                                   .payloads = payload,
                                   .state = state};
  memset(payload, 0xa5, sizeof payload);
  tagc_allgather_support.encode(&job);
  ok(memcmp(payload, expected, sizeof payload) == 0, "the example of support.h");
}

static void check_sizes(void) {
  struct tagc_allgather_shape shape = {.n = UINT64_C(1) << 33, .nranks = 2, .dtype = TAGC_FLOAT32};
  struct tagc_allgather_layout layout;
  ok(!tagc_allgather_support.layout(&shape, &layout), "no shards of 2^33");
  shape.n = 8;
  ok(!tagc_allgather_support.layout(&shape, &layout), "nor of 8, which a header would outgrow");
  shape.n = 1 << 20;
  ok(tagc_allgather_support.layout(&shape, &layout) && layout.payload_bytes < 4u << 20, "never more than the shard");
  ok(tagc_support_bytes(1 << 20, TAGC_FLOAT32, 1 << 12) == 32 + (1 << 12) + 5 * (1 << 12),
     "few values: five bytes each, and a byte for 256 elements");
  ok(tagc_support_bytes(1 << 20, TAGC_FLOAT32, 1 << 18) == 32 + (1 << 12) + (4 << 18) + (32 << 12),
     "many: a bit for an element");
}

/* A block that leads out of its payload, or whose places do not ascend, is zero. The others come. */
static void check_damage(void) {
  enum { N = 3000, KINDS = 32, VALUES = 48, INDEXES = VALUES + 4 * 24 };
  struct support_world w;
  support_world_new(&w, N, TAGC_FLOAT32);
  for (uint64_t block = 0; block < 12; block++)
    for (uint64_t i = 0; i < 2; i++)
      put_bits(w.send, 256 * block + 7 * i + 3, TAGC_FLOAT32, 0x3f800000u + (uint32_t)(2 * block + i));
  support_encode_all(&w, w.job.layout.payload_bytes);
  uint8_t *payload = w.job.payloads;
  payload[INDEXES + 2] = payload[INDEXES + 3]; /* a place twice */
  payload[KINDS + 2] = TAGC_SUPPORT_WHOLE;     /* which has the values of all others */
  tagc_allgather_support.decode(&w.job);
  bool as_said = true;
  for (uint64_t i = 0; i < N; i++)
    as_said &= memcmp(w.recv + 4 * i, i < 256 ? w.send + 4 * i : (const uint8_t *)"\0\0\0", 4) == 0;
  ok(as_said, "damaged blocks are zero, and those whose values lie behind them");
  support_world_free(&w);
}

/* The own shard stays where it is the program's. */
static void check_own(void) {
  struct support_world w;
  sim_random_restart();
  support_world_new(&w, 700, TAGC_FLOAT32);
  fill_shards(&w, LISTED);
  support_encode_all(&w, w.job.layout.payload_bytes);
  w.job.rank = 1;
  w.job.keep_own = true;
  tagc_allgather_support.decode(&w.job);
  bool untouched = true;
  for (size_t i = 0; i < w.shard; i++)
    untouched &= w.recv[w.shard + i] == 0x55;
  ok(untouched && memcmp(w.recv, w.send, w.shard) == 0 &&
       memcmp(w.recv + 2 * w.shard, w.send + 2 * w.shard, w.shard) == 0,
     "keep_own: the own shard stays, the others come");
  support_world_free(&w);
}

int main(void) {
  check_example();
  check_sizes();
  with_each_variant(check_patterns);
  check_room();
  check_own();
  check_damage();
  return tap_done();
}
