/* SPDX-License-Identifier: BSD-3-Clause
 * The codec exact: every bit of parameters that change little, much and not at all, of each type and instruction set;
 * the same payloads from each; sizes that follow the changes; refusals; damaged payloads.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/allgather/exact_steps.h"
#include "kernels/codec/bits.h"
#include "tests/unit/codec/variants.h"

enum { RANKS = 3, PASSES = 12, GUARD = 64 };

static const char *const types[] = {"fp32", "fp16", "bf16"};

static uint64_t state = 1;
static uint32_t draw(void) { return (uint32_t)(tagc_mix64(++state) >> 32); }

/* Ranks in one process. */
struct party {
  struct tagc_allgather_shape shape;
  struct tagc_allgather_layout layout;
  size_t shard;
  uint8_t *send, *payloads, *recv[RANKS], *reference[RANKS];
  struct tagc_allgather_sizes sizes[RANKS];
  uint64_t digest[RANKS];
  bool failed;
};

static struct tagc_allgather_job job_in(struct party *p, int rank) {
  struct tagc_allgather_job job = {
    .shape = p->shape,
    .layout = p->layout,
    .rank = rank,
    .send = p->send + (size_t)rank * p->shard,
    .recv = p->recv[rank],
    .reference = p->reference[rank],
    .sizes = &p->sizes[rank],
    .digest = &p->digest[rank],
    .payloads = p->payloads,
  };
  if (p->sizes[rank].payload_bytes)
    job.layout.payload_bytes = p->sizes[rank].payload_bytes;
  return job;
}

static bool party_new(struct party *p, uint64_t n, enum tagc_dtype dtype) {
  memset(p, 0, sizeof *p);
  p->shape = (struct tagc_allgather_shape){.n = n, .nranks = RANKS, .dtype = dtype};
  if (!tagc_allgather_exact.layout(&p->shape, &p->layout))
    return false;
  p->shard = n * tagc_dtype_size(dtype);
  p->send = calloc(RANKS, p->shard);
  p->payloads = malloc(RANKS * p->layout.payload_bytes + GUARD);
  memset(p->payloads, 0xa5, RANKS * p->layout.payload_bytes + GUARD);
  for (int rank = 0; rank < RANKS; rank++) {
    p->recv[rank] = calloc(RANKS, p->shard);
    p->reference[rank] = calloc(RANKS, p->shard);
  }
  return true;
}

static void party_free(struct party *p) {
  free(p->send);
  free(p->payloads);
  for (int rank = 0; rank < RANKS; rank++) {
    free(p->recv[rank]);
    free(p->reference[rank]);
  }
}

static void gather_plainly(struct party *p) {
  for (int rank = 0; rank < RANKS; rank++) {
    struct tagc_allgather_job job = job_in(p, rank);
    memcpy(p->recv[rank], p->send, RANKS * p->shard);
    tagc_allgather_exact.refer(&job);
  }
}

static bool have_all_the_same(const struct party *p) {
  bool same = true;
  for (int rank = 0; rank < RANKS; rank++)
    same &= memcmp(p->recv[rank], p->send, RANKS * p->shard) == 0 &&
            memcmp(p->reference[rank], p->send, RANKS * p->shard) == 0 && p->digest[rank] == p->digest[0] &&
            memcmp(&p->sizes[rank], &p->sizes[0], sizeof p->sizes[0]) == 0;
  return same;
}

/* 1 if all ranks refused, 0 if none did, -1 if they differ. */
static int gather(struct party *p) {
  int refused = 0;
  for (int rank = 0; rank < RANKS; rank++) {
    struct tagc_allgather_job job = job_in(p, rank);
    tagc_allgather_exact.encode(&job);
  }
  for (int rank = 0; rank < RANKS; rank++) {
    struct tagc_allgather_job job = job_in(p, rank);
    tagc_allgather_exact.decode(&job);
    refused += job.refused;
    p->failed |= job.failed;
  }
  return refused == 0 ? 0 : refused == RANKS ? 1 : -1;
}

static void set_bits(struct party *p, uint64_t i, uint32_t bits) {
  memcpy(p->send + i * tagc_dtype_size(p->shape.dtype), &bits, tagc_dtype_size(p->shape.dtype));
}

static uint32_t bits_at(const struct party *p, uint64_t i) {
  uint32_t bits = 0;
  memcpy(&bits, p->send + i * tagc_dtype_size(p->shape.dtype), tagc_dtype_size(p->shape.dtype));
  return bits;
}

static void fill_party(struct party *p) {
  for (uint64_t i = 0; i < RANKS * p->shape.n; i++) {
    float sum = 0;
    for (int k = 0; k < 12; k++)
      sum += (float)(draw() >> 8) * 0x1p-24f;
    tagc_store(p->send, i, p->shape.dtype, 0.02f * (sum - 6));
  }
}

/* How parameters change from pass to pass. */
enum change { LITTLE, SPARSE, NOTHING, WILD, EVERYTHING };

static void change_party(struct party *p, enum change how) {
  static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x7f800000,
                                     0xff800000, 0x7fc00001, 0xffa00003, 0x7fffffff, 0xffffffff};
  for (uint64_t i = 0; i < RANKS * p->shape.n; i++) {
    const float x = tagc_load(p->send, i, p->shape.dtype);
    if (how == EVERYTHING)
      set_bits(p, i, draw());
    else if (how == WILD && i % 40 == 7)
      set_bits(p, i, special[draw() % 11] >> (p->shape.dtype == TAGC_FLOAT32 ? 0 : 16));
    else if (how == SPARSE && draw() % 100 == 0)
      set_bits(p, i, bits_at(p, i) + 1);
    else if ((how == LITTLE || how == WILD) && x - x == 0)
      tagc_store(p->send, i, p->shape.dtype, x + 3e-5f * ((float)(draw() >> 8) * 0x1p-23f - 1));
  }
}

/* A shape through many passes. Returns a digest of all that was sent. */
static uint64_t check_passes(uint64_t n, enum tagc_dtype dtype) {
  static const enum change changes[PASSES] = {LITTLE, NOTHING, LITTLE, WILD,    WILD,   LITTLE,
                                              SPARSE, LITTLE,  LITTLE, NOTHING, LITTLE, SPARSE};
  struct party p;
  uint64_t digest = n;
  bool good = true;
  if (!party_new(&p, n, dtype))
    return 0;
  state = n;
  fill_party(&p);
  gather_plainly(&p);
  for (int pass = 0; pass < PASSES; pass++) {
    change_party(&p, changes[pass]);
    const size_t bytes = job_in(&p, 0).layout.payload_bytes;
    const int refused = gather(&p);
    uint64_t needed = 0;
    for (int rank = 0; rank < RANKS; rank++) {
      struct tagc_exact_header header;
      memcpy(&header, p.payloads + (size_t)rank * bytes, sizeof header);
      needed += header.needed;
    }
    digest = tagc_mix64(digest ^ needed) + p.sizes[0].payload_bytes;
    if (refused > 0)
      gather_plainly(&p);
    good &= refused >= 0 && have_all_the_same(&p) && !p.failed;
  }
  ok(good, "%s, %llu elements: every bit in %d passes", types[dtype], (unsigned long long)n, PASSES);
  party_free(&p);
  return digest;
}

/* The first set is plain C; the others send the same. */
static void check_lengths(void) {
  static const uint64_t lengths[] = {1, 100, 511, 512, 513, 2048, 5000, 70001};
  static uint64_t first[3][8];
  for (int t = 0; t < 3; t++)
    for (int i = 0; i < 8; i++) {
      const uint64_t digest = check_passes(lengths[i], (enum tagc_dtype)t);
      first[t][i] = first[t][i] ? first[t][i] : digest;
      ok(digest == first[t][i], "%s, %llu elements: sent as by plain C", types[t], (unsigned long long)lengths[i]);
    }
}

static void check_sizes(void) {
  struct party p;
  enum { N = 100000 };
  party_new(&p, N, TAGC_BFLOAT16);
  fill_party(&p);
  gather_plainly(&p);
  change_party(&p, LITTLE);
  ok(gather(&p) == 0 && have_all_the_same(&p), "a first call in the largest payload");
  const uint64_t little = p.sizes[0].payload_bytes;
  ok(little < p.layout.payload_bytes / 3, "the next one has %llu of %zu bytes", (unsigned long long)little,
     p.layout.payload_bytes);
  int passes = 0;
  while (p.sizes[0].payload_bytes > sizeof(struct tagc_exact_header) && passes < 100 && gather(&p) == 0)
    passes++;
  ok(passes > 1 && passes < 15, "without changes headers alone after %d calls", passes);
  ok(gather(&p) == 0 && have_all_the_same(&p), "they are enough");
  change_party(&p, LITTLE);
  ok(gather(&p) == 1, "a change does not fit into them");
  gather_plainly(&p);
  ok(p.sizes[0].payload_bytes > little / 2 && p.sizes[0].payload_bytes < 2 * little, "and the next call has room");
  const struct tagc_allgather_sizes before = p.sizes[0];
  change_party(&p, EVERYTHING);
  ok(gather(&p) == 1 && p.sizes[0].payload_bytes == before.payload_bytes,
     "if all is new the call is refused, and the size stays");
  gather_plainly(&p);
  change_party(&p, NOTHING);
  ok(gather(&p) == 0 && have_all_the_same(&p), "the next one is sent");
  party_free(&p);
}

static void check_bits(void) {
  struct party p;
  enum { N = 100000 };
  party_new(&p, N, TAGC_BFLOAT16);
  fill_party(&p);
  gather_plainly(&p);
  change_party(&p, SPARSE);
  gather(&p);
  struct tagc_exact_header header;
  memcpy(&header, p.payloads, sizeof header);
  ok(header.needed * 8 < N * 32 / 100, "one element in a hundred changes by one step: %.3f bits an element",
     8.0 * (double)header.needed / N);
  party_free(&p);
}

static void check_example(void) {
  static const uint16_t reference[] = {0x3f80, 0x3f80, 0xbf80}, shard[] = {0x3f80, 0x3f81, 0xbf80};
  static const uint8_t expected[] = {0x01, 0x11, 0x12};
  uint8_t stream[TAGC_EXACT_ROOM];
  uint16_t got[3];
  uint32_t head;
  const struct tagc_exact_kernels *kernels = TAGC_OF_VARIANT(tagc_exact);
  const size_t bytes = kernels->encode(shard, reference, 3, TAGC_BFLOAT16, stream, &head);
  ok(bytes == sizeof expected && head == (4 << 8 | 3 << 12) && memcmp(stream, expected, sizeof expected) == 0,
     "the example: %x, %02x %02x %02x", head, stream[0], stream[1], stream[2]);
  kernels->decode(stream, bytes, head, reference, 3, TAGC_BFLOAT16, got);
  ok(memcmp(got, shard, sizeof got) == 0, "and back");
}

static void check_refusals(void) {
  struct party p;
  party_new(&p, 5000, TAGC_FLOAT32);
  fill_party(&p);
  gather_plainly(&p);
  change_party(&p, LITTLE);
  p.digest[1]++;
  uint8_t *before = malloc(RANKS * p.shard);
  memcpy(before, p.reference[0], RANKS * p.shard);
  memset(p.recv[0], 0x11, RANKS * p.shard);
  ok(gather(&p) == 1, "another reference on a rank is refused");
  ok(memcmp(before, p.reference[0], RANKS * p.shard) == 0 && p.recv[0][0] == 0x11, "it touches nothing");
  gather_plainly(&p);
  change_party(&p, LITTLE);
  ok(gather(&p) == 0 && have_all_the_same(&p), "after the plain call it goes on");
  p.reference[2][17] ^= 1; /* not what its digest says */
  change_party(&p, LITTLE);
  ok(gather(&p) == 0 && p.failed, "a reference that is not what its digest says fails the call");
  free(before);
  party_free(&p);
}

/* Whatever a payload holds, nothing beyond the buffers is read or written, and a wrong value is noticed. */
static void check_damage(void) {
  int noticed = 0, calls = 0;
  for (int t = 0; t < 3; t++)
    for (int round = 0; round < 200; round++) {
      struct party p;
      party_new(&p, 1000 + draw() % 3000, (enum tagc_dtype)t);
      fill_party(&p);
      gather_plainly(&p);
      change_party(&p, LITTLE);
      for (int rank = 0; rank < RANKS; rank++) {
        struct tagc_allgather_job job = job_in(&p, rank);
        tagc_allgather_exact.encode(&job);
      }
      for (int k = draw() % 20; k >= 0; k--)
        p.payloads[64 + draw() % (p.layout.payload_bytes / 2)] ^= (uint8_t)(1 << draw() % 8);
      struct tagc_allgather_job job = job_in(&p, 1);
      tagc_allgather_exact.decode(&job);
      const bool right = memcmp(p.recv[1], p.send, RANKS * p.shard) == 0;
      calls += !right;
      noticed += !right && (job.failed || job.refused);
      party_free(&p);
    }
  ok(calls > 100 && noticed == calls, "%d damaged payloads gave wrong values, %d were noticed", calls, noticed);
}

/* -- streams, bit by bit ------------------------------------------------------------------------------------------- */

static const struct tagc_exact_kernels *kernels_now(void) { return TAGC_OF_VARIANT(tagc_exact); }

static void put_element(void *block, uint32_t i, uint32_t bits, enum tagc_dtype dtype) {
  memcpy((uint8_t *)block + i * tagc_dtype_size(dtype), &bits, tagc_dtype_size(dtype));
}

static uint32_t element_of(const void *block, uint32_t i, enum tagc_dtype dtype) {
  uint32_t bits = 0;
  memcpy(&bits, (const uint8_t *)block + i * tagc_dtype_size(dtype), tagc_dtype_size(dtype));
  return bits;
}

struct bits {
  uint8_t bytes[TAGC_EXACT_ROOM];
  uint32_t count;
};

static void add_bit(struct bits *to, bool bit) {
  to->bytes[to->count / 8] |= (uint8_t)(bit << to->count % 8);
  to->count++;
}

/* The fours of `map` that are not 0, behind what level of the maps above it begins. */
static void add_map(struct bits *to, const bool *map, uint32_t count, uint32_t above) {
  bool fours[TAGC_EXACT_BLOCK / 4] = {0};
  for (uint32_t i = 0; i < count; i++)
    fours[i / 4] |= map[i];
  if (above)
    add_map(to, fours, count / 4, above - 1);
  for (uint32_t i = 0; i < count; i++)
    if (!above || fours[i / 4])
      add_bit(to, map[i]);
}

/* Differences, their lengths, and the exponents of the reference. */
struct differences {
  uint32_t z[TAGC_EXACT_BLOCK], length[TAGC_EXACT_BLOCK], exponent[TAGC_EXACT_BLOCK];
};

/* A block's stream with that edge as exact.h says it, element by element. Returns the level. */
static uint32_t stream_at(const struct differences *d, uint32_t edge, enum tagc_dtype dtype, struct bits *to) {
  const uint32_t most = dtype == TAGC_FLOAT32 ? 31 : 15;
  uint32_t v[TAGC_EXACT_BLOCK], q[TAGC_EXACT_BLOCK], level = 0;
  bool map[TAGC_EXACT_BLOCK];
  for (uint32_t i = 0; i < TAGC_EXACT_BLOCK; i++) {
    const uint32_t wanted = d->exponent[i] && d->exponent[i] < edge ? edge - d->exponent[i] : 0,
                   k = wanted < most ? wanted : most;
    map[i] = d->length[i] > k;
    v[i] = map[i] ? d->length[i] - k : 0;
    q[i] = map[i] ? d->length[i] - 1 : k;
  }
  for (uint32_t above = 0; above < 4; above++) {
    struct bits its = {.count = 0};
    add_map(&its, map, TAGC_EXACT_BLOCK, above);
    if (above == 0 || its.count < to->count) {
      *to = its;
      level = 1 + above;
    }
  }
  for (uint32_t limit = 1; limit <= 32; limit++)
    for (uint32_t i = 0; i < TAGC_EXACT_BLOCK; i++)
      if (v[i] >= limit)
        add_bit(to, v[i] > limit);
  for (uint32_t byte = 0; byte < 4; byte++)
    for (uint32_t i = 0; i < TAGC_EXACT_BLOCK; i++)
      for (uint32_t bit = 8 * byte; bit < 8 * byte + 8 && bit < q[i]; bit++)
        add_bit(to, d->z[i] >> bit & 1);
  return level;
}

/* Returns the head. */
static uint32_t stream_of(const void *value, const void *reference, enum tagc_dtype dtype, struct bits *to) {
  static struct differences d;
  static struct bits other;
  uint32_t sum = 0, count = 0, edge = 0;
  const uint32_t stored = (uint32_t)(TAGC_EXACT_BLOCK * tagc_dtype_size(dtype));
  bool changed = false;
  for (uint32_t i = 0; i < TAGC_EXACT_BLOCK; i++) {
    d.z[i] = tagc_exact_difference(element_of(value, i, dtype), element_of(reference, i, dtype), dtype);
    d.exponent[i] = tagc_exact_exponent(element_of(reference, i, dtype), dtype);
    changed |= d.z[i] != 0;
    for (d.length[i] = 0; d.length[i] < 32 && d.z[i] >> d.length[i]; d.length[i]++)
      ;
    if (d.length[i] > 1 && d.exponent[i]) {
      sum += d.exponent[i] + d.length[i] < 255 ? d.exponent[i] + d.length[i] : 255;
      count++;
    }
  }
  if (!changed) {
    to->count = 0;
    return 0;
  }
  uint32_t level = stream_at(&d, 0, dtype, to);
  if (count) {
    const uint32_t wanted = sum / count + (count >= 400 ? 1 : 0) - (count < 64 ? 1 : 0),
                   its = stream_at(&d, wanted, dtype, &other);
    if (other.count < to->count) {
      *to = other;
      level = its;
      edge = wanted;
    }
  }
  const uint32_t bytes = (to->count + 7) / 8;
  if (bytes < stored)
    return edge | level << 8 | bytes << 12;
  memcpy(to->bytes, value, stored);
  return TAGC_EXACT_STORED << 8 | stored << 12;
}

/* A block of which one element of 2^sparse changes, in some of its lowest bits: at most `width`, which fall off as in a
 * training, or anything. */
static void fill_block(uint32_t *value, uint32_t *reference, uint32_t sparse, uint32_t width, enum tagc_dtype dtype) {
  const uint32_t all = dtype == TAGC_FLOAT32 ? 32 : 16;
  for (uint32_t i = 0; i < TAGC_EXACT_BLOCK; i++) {
    const uint32_t half = draw() % 8 == 0 ? 0 : draw() >> 1, was = draw() % 50 == 0 ? 0 : half >> (32 - all);
    const uint32_t few = draw() % (width + 1), change = few ? draw() >> (32 - few) : 0;
    put_element(reference, i, was, dtype);
    put_element(value, i, draw() % (1 << sparse) == 0 ? was ^ change ^ (draw() & 1) << (all - 1) * (width == all) : was,
                dtype);
  }
}

/* A few small elements change by some eight bits, among large ones: these bits are foreseen. */
static void fill_foreseen(uint32_t *value, uint32_t *reference, uint32_t few, enum tagc_dtype dtype) {
  const uint32_t mantissa = dtype == TAGC_FLOAT32 ? 23 : dtype == TAGC_FLOAT16 ? 10 : 7;
  for (uint32_t i = 0; i < TAGC_EXACT_BLOCK; i++) {
    const bool small = i % 31 == 0 && i / 31 < few;
    const uint32_t was = (small ? UINT32_C(5) : UINT32_C(25)) << mantissa;
    put_element(reference, i, was, dtype);
    put_element(value, i, small ? was + 64 + draw() % 64 : was, dtype);
  }
}

static uint32_t levels_seen;

static bool stream_is_right(const uint32_t *value, const uint32_t *reference, enum tagc_dtype dtype) {
  static struct bits wanted;
  uint32_t back[TAGC_EXACT_BLOCK] = {0}, head;
  uint8_t got[TAGC_EXACT_ROOM];
  const uint32_t wanted_head = stream_of(value, reference, dtype, &wanted);
  const size_t bytes = kernels_now()->encode(value, reference, TAGC_EXACT_BLOCK, dtype, got, &head);
  levels_seen |= 1u << (head >> 8 & 15);
  memset(got + bytes, 0xff, TAGC_EXACT_SPARE);
  kernels_now()->decode(got, bytes, head & 0xfff, reference, TAGC_EXACT_BLOCK, dtype, back);
  return head == wanted_head && bytes == head >> 12 && memcmp(got, wanted.bytes, bytes) == 0 &&
         memcmp(back, value, TAGC_EXACT_BLOCK * tagc_dtype_size(dtype)) == 0;
}

/* Cut short anywhere, a stream leaves the reference, and nothing behind its spare bytes is read. */
static bool short_streams_change_nothing(enum tagc_dtype dtype) {
  uint32_t value[TAGC_EXACT_BLOCK], reference[TAGC_EXACT_BLOCK], back[TAGC_EXACT_BLOCK], head;
  uint8_t stream[TAGC_EXACT_ROOM];
  const size_t size = TAGC_EXACT_BLOCK * tagc_dtype_size(dtype);
  bool good = true;
  for (uint32_t sparse = 0; sparse < 8; sparse++) {
    fill_block(value, reference, sparse, 6, dtype);
    const size_t bytes = kernels_now()->encode(value, reference, TAGC_EXACT_BLOCK, dtype, stream, &head);
    for (size_t few = 0; few < bytes; few++) {
      uint8_t *cut = malloc(few + TAGC_EXACT_SPARE);
      memcpy(cut, stream, few);
      memset(cut + few, 0xff, TAGC_EXACT_SPARE);
      kernels_now()->decode(cut, few, head & 0xfff, reference, TAGC_EXACT_BLOCK, dtype, back);
      good &= memcmp(back, reference, size) == 0;
      free(cut);
    }
    for (uint32_t level = TAGC_EXACT_MAP_MOST + 1; level < TAGC_EXACT_STORED; level++) {
      kernels_now()->decode(stream, bytes, level << 8, reference, TAGC_EXACT_BLOCK, dtype, back);
      good &= memcmp(back, reference, size) == 0;
    }
  }
  return good;
}

static void check_streams(void) {
  levels_seen = 0;
  for (int dtype = 0; dtype < 3; dtype++) {
    bool good = true;
    uint32_t value[TAGC_EXACT_BLOCK], reference[TAGC_EXACT_BLOCK];
    const uint32_t all = dtype == TAGC_FLOAT32 ? 32 : 16;
    for (uint32_t sparse = 0; sparse < 12; sparse++)
      for (uint32_t width = 1; width <= all; width++) {
        fill_block(value, reference, sparse, width, (enum tagc_dtype)dtype);
        good &= stream_is_right(value, reference, (enum tagc_dtype)dtype);
      }
    for (uint32_t few = 1; few <= 17; few++) {
      fill_foreseen(value, reference, few, (enum tagc_dtype)dtype);
      good &= stream_is_right(value, reference, (enum tagc_dtype)dtype);
    }
    ok(good, "%s: streams are those of exact.h, bit for bit", types[dtype]);
    ok(short_streams_change_nothing((enum tagc_dtype)dtype), "%s: short streams change nothing", types[dtype]);
  }
  ok(levels_seen == (1 | 2 | 4 | 8 | 16 | 1u << TAGC_EXACT_STORED), "of all levels (%x)", levels_seen);
}

/* By exact_steps.h, element by element. */
static void check_digests(void) {
  enum { N = 3 * TAGC_EXACT_BLOCK + 77 };
  bool good = true;
  for (int type = 0; type < 3; type++) {
    const enum tagc_dtype dtype = (enum tagc_dtype)type;
    uint32_t values[N];
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < N; i++)
      put_element(values, i, draw(), dtype);
    for (uint64_t first = 0; first < N; first += TAGC_EXACT_BLOCK) {
      uint32_t sum = 0, weighted = 0;
      for (uint32_t place = 0; place < TAGC_EXACT_BLOCK; place++) {
        uint32_t bits = 0;
        if (first + place < N)
          memcpy(&bits, (uint8_t *)values + (first + place) * tagc_dtype_size(dtype), tagc_dtype_size(dtype));
        sum += tagc_exact_mix(bits, place);
        weighted += tagc_exact_mix(bits, place) * (2 * place + 1);
      }
      wanted += tagc_exact_block_digest((uint64_t)weighted << 32 | sum, first);
    }
    const uint64_t head = kernels_now()->digest(values, 0, 2 * TAGC_EXACT_BLOCK, dtype);
    const void *rest = (uint8_t *)values + 2 * TAGC_EXACT_BLOCK * tagc_dtype_size(dtype);
    good &= kernels_now()->digest(values, 0, N, dtype) == wanted;
    good &= head + kernels_now()->digest(rest, 2 * TAGC_EXACT_BLOCK, N - 2 * TAGC_EXACT_BLOCK, dtype) == wanted;
  }
  ok(good, "digests are sums over blocks, whole or in parts");
}

static void check_all(void) {
  check_streams();
  check_digests();
  check_example();
  check_lengths();
  check_sizes();
  check_bits();
  check_refusals();
  check_damage();
}

int main(void) {
  with_each_variant(check_all);
  return tap_done();
}
