/* SPDX-License-Identifier: BSD-3-Clause
 * A second implementation of the codecs for all-gathers, element by element from the text of kernels/allgather/, and
 * slow. The fast ones are compared with it. It shares bits.h and the reference of the dense codecs.
 *
 * Threads  Reentrant. Ownership: all memory is the caller's.
 */
#ifndef TESTS_UNIT_ALLGATHER_REFERENCE_H
#define TESTS_UNIT_ALLGATHER_REFERENCE_H

#include <stdlib.h>
#include <string.h>

#include "kernels/codec/allgather.h"
#include "tests/unit/dense/reference.h"

static inline void gather_put32(uint8_t *to, uint32_t value) { memcpy(to, &value, 4); }
static inline void gather_put16(uint8_t *to, uint16_t value) { memcpy(to, &value, 2); }

static inline float gather_cut(float x, enum tagc_dtype dtype) {
  return dtype == TAGC_FLOAT16 && x > 65504 ? 65504 : dtype == TAGC_FLOAT16 && x < -65504 ? -65504 : x;
}

/* Element i of a shard padded with zeros. */
static inline float gather_value(const void *shard, uint64_t n, uint64_t i, enum tagc_dtype dtype) {
  return i < n ? tagc_load(shard, i, dtype) : 0;
}

static inline void gather_bf16(const struct tagc_allgather_job *job, uint8_t *payload) {
  for (uint64_t i = 0; i < job->shape.n; i++) {
    const float x = ((const float *)job->send)[i];
    gather_put16(payload + 16 + 2 * i, x == x ? tagc_to_bf16(x) : 0x7fc0);
  }
}

static inline void gather_q8(const struct tagc_allgather_job *job, uint8_t *payload) {
  const uint64_t n = job->shape.n, blocks = (n + 255) / 256, room = tagc_exceptions_capacity(n);
  uint8_t *list = payload + 16, *scales = list + tagc_exceptions_bytes(n), *codes = scales + dense_round_up(4 * blocks);
  uint32_t count = 0;
  for (uint64_t half = 0; half < 2 * blocks; half++) {
    float x[128], most = 0;
    for (uint64_t i = 0; i < 128; i++) {
      const uint64_t place = 128 * half + i;
      x[i] = gather_value(job->send, n, place, job->shape.dtype);
      if ((tagc_bits_of(x[i]) & 0x7fffffff) >= 0x7b800000) {
        if (count < room) {
          gather_put32(list + 8 + 8 * count, (uint32_t)place);
          gather_put32(list + 12 + 8 * count, x[i] == x[i] ? tagc_bits_of(x[i]) : 0x7fc00000);
        }
        count++;
        x[i] = 0;
      }
      if (tagc_float_of(tagc_bits_of(x[i]) & 0x7fffffff) < 0x1p-120f)
        x[i] = 0;
      most =
        tagc_float_of(tagc_bits_of(x[i]) & 0x7fffffff) > most ? tagc_float_of(tagc_bits_of(x[i]) & 0x7fffffff) : most;
    }
    const uint16_t scale = dense_scale_up(most, 127);
    gather_put16(scales + 2 * half, scale);
    for (uint64_t i = 0; i < 128; i++) {
      const struct dense_block b = {.stochastic = false};
      codes[128 * half + i] = (uint8_t)dense_code(&b, (int)i, x[i], scale, 127);
    }
  }
  gather_put32(list, count);
  if (count > room)
    memset(list + 8, 0, 8 * room);
  for (uint64_t half = 0; count > room && half < 2 * blocks; half++)
    gather_put16(scales + 2 * half, 0x7fc0);
}

static inline int gather_exponent(const struct tagc_allgather_job *job, uint64_t i) {
  const uint64_t at = i < job->shape.n ? i : job->shape.n - 1;
  return job->shape.dtype == TAGC_FLOAT32 ? (int)(((const uint32_t *)job->send)[at] >> 23 & 255)
                                          : ((const uint16_t *)job->send)[at] >> 7 & 255;
}

static inline int gather_escapes(const struct tagc_allgather_job *job, uint64_t from, int base) {
  int count = 0;
  for (uint64_t i = 0; i < 256; i++)
    count += (base - gather_exponent(job, from + i) + 512) % 256 > 6;
  return count;
}

static inline int gather_base(const struct tagc_allgather_job *job, uint64_t from) {
  int least = 255;
  for (uint64_t group = 0; group < 8; group++) {
    int most = 0;
    for (uint64_t i = group; i < 256; i += 8)
      most = gather_exponent(job, from + i) > most ? gather_exponent(job, from + i) : most;
    least = most < least ? most : least;
  }
  return gather_escapes(job, from, least + 1) < gather_escapes(job, from, least) ? (least + 1) % 256 : least;
}

static inline void gather_lossless(const struct tagc_allgather_job *job, uint8_t *payload) {
  const uint64_t n = job->shape.n, blocks = (n + 255) / 256, room = (n + 11) / 12 + 256;
  uint8_t *starts = payload + 16, *escaped = starts + dense_round_up(4 * blocks),
          *bases = escaped + dense_round_up(room);
  uint8_t *records = bases + dense_round_up(blocks), *lows = records + 352 * blocks;
  uint64_t count = 0;
  for (uint64_t i = 0; i < 256 * blocks; i++) {
    const uint64_t block = i / 256, in = i % 256, at = i < n ? i : n - 1;
    uint8_t *record = records + 352 * block;
    if (in == 0) {
      gather_put32(starts + 4 * block, (uint32_t)count);
      bases[block] = (uint8_t)gather_base(job, i);
    }
    const int exponent = gather_exponent(job, i), below = (bases[block] - exponent + 256) % 256,
              code = below < 7 ? below : 7;
    const uint32_t half =
      job->shape.dtype == TAGC_FLOAT32 ? ((const uint32_t *)job->send)[at] >> 16 : ((const uint16_t *)job->send)[at];
    for (int p = 0; p < 3; p++)
      record[32 * p + (int)in / 8] = (uint8_t)(record[32 * p + (int)in / 8] | (code >> p & 1) << in % 8);
    record[96 + in] = (uint8_t)((half >> 15) << 7 | (half & 127));
    if (job->shape.dtype == TAGC_FLOAT32)
      gather_put16(lows + 2 * i, (uint16_t)((const uint32_t *)job->send)[at]);
    if (code == 7 && count++ < room)
      escaped[count - 1] = (uint8_t)exponent;
  }
  payload[0] = count > room;
}

static inline void gather_delta(const struct tagc_allgather_job *job, uint8_t *payload) {
  const uint64_t n = job->shape.n, blocks = (n + 255) / 256;
  const char *reference = (const char *)job->reference + (uint64_t)job->rank * n * tagc_dtype_size(job->shape.dtype);
  uint8_t *codes = payload + 16 + dense_round_up(4 * blocks);
  uint64_t far = 0, unfit = 0;
  for (uint64_t block = 0; block < blocks; block++) {
    const struct dense_block b = {.codec = DENSE_Q4, .seed = job->seed, .number = block, .shard = job->rank};
    float d[256], d2[256], v2[256];
    for (uint64_t i = 0; i < 256; i++) {
      const float v = gather_value(job->send, n, 256 * block + i, job->shape.dtype);
      d[i] = v - gather_value(reference, n, 256 * block + i, job->shape.dtype);
      d2[i] = d[i] * d[i];
      v2[i] = v * v;
      unfit += !(v < 0x1p56f && v > -0x1p56f && d[i] < 0x1p56f && d[i] > -0x1p56f);
      if (d[i] < 0x1p-120f && d[i] > -0x1p-120f)
        d[i] = 0;
    }
    far += dense_tree(d2) * 16 > dense_tree(v2);
    if (unfit)
      break; /* refused: an infinity or a NaN has no code */
    dense_encode_block(&b, d, (uint16_t *)(payload + 16) + 2 * block, codes + 128 * block);
  }
  payload[0] = unfit || 4 * far > blocks;
}

/* support: the bytes that it needs; writes the payload if it has as many. */
static inline uint64_t gather_support(const struct tagc_allgather_job *job, uint8_t *payload) {
  const uint64_t n = job->shape.n, blocks = (n + 255) / 256, size = job->shape.dtype == TAGC_FLOAT32 ? 4 : 2;
  const uint8_t *shard = job->send, none[4] = {0};
  uint8_t *made = calloc(1, 48 + 256 * blocks * (size + 1) + blocks * 33), *kinds = made + 32;
  uint64_t at = 32 + dense_round_up(blocks), values = 0;
  for (uint64_t i = 0; i < n; i++)
    if (memcmp(shard + i * size, none, size) != 0)
      memcpy(made + at + size * values++, shard + i * size, size);
  at += dense_round_up(size * values);
  for (uint64_t block = 0; block < blocks; block++) {
    uint64_t count = 0;
    for (uint64_t i = 256 * block; i < 256 * (block + 1) && i < n; i++)
      count += memcmp(shard + i * size, none, size) != 0;
    kinds[block] = (uint8_t)(count == 256 ? 33 : count > 31 ? 32 : count);
    for (uint64_t i = 256 * block; count < 256 && i < 256 * (block + 1) && i < n; i++) {
      const int set = memcmp(shard + i * size, none, size) != 0;
      if (count > 31)
        made[at + i % 256 / 8] |= (uint8_t)(set << i % 8);
      else if (set)
        made[at++] = (uint8_t)(i % 256);
    }
    at += count > 31 && count < 256 ? 32 : 0;
  }
  at = dense_round_up(at);
  memcpy(made + 16, &at, 8);
  memcpy(made + 24, &values, 8);
  made[0] = at > job->layout.payload_bytes;
  memcpy(payload, made, made[0] ? 32 : at);
  free(made);
  return at;
}

/* Fills a payload of job->layout.payload_bytes. */
static inline void gather_encode(const struct tagc_allgather_codec *codec, const struct tagc_allgather_job *job,
                                 uint8_t *payload) {
  memset(payload, 0, job->layout.payload_bytes);
  switch (codec->name[0]) {
  case 'b': gather_bf16(job, payload); break;
  case 'q': gather_q8(job, payload); break;
  case 's': gather_support(job, payload); break;
  case 'l': gather_lossless(job, payload); break;
  default: gather_delta(job, payload); break;
  }
}

/* The result of decoding a payload of q8 or delta. For the other codecs the tests know it without a reference. */
static inline void gather_decode(const struct tagc_allgather_codec *codec, const struct tagc_allgather_job *job,
                                 int rank, void *shard) {
  const uint64_t n = job->shape.n, blocks = (n + 255) / 256;
  const enum tagc_dtype dtype = job->shape.dtype;
  const int delta = codec->name[0] == 'd';
  const uint8_t *payload = tagc_allgather_payload(job, rank),
                *scales = payload + 16 + (delta ? 0 : tagc_exceptions_bytes(n));
  const uint8_t *codes = scales + dense_round_up(4 * blocks);
  const char *reference = (const char *)job->reference + (uint64_t)rank * n * tagc_dtype_size(dtype);
  for (uint64_t block = 0; block < blocks; block++) {
    const struct dense_block b = {.codec = DENSE_Q4, .seed = job->seed, .number = block, .shard = rank};
    float x[256];
    if (delta) {
      dense_decode_block(DENSE_Q4, (const uint16_t *)scales + 2 * block, codes + 128 * block, x);
      dense_rotate_back(&b, x);
    }
    for (uint64_t i = 0; i < 256 && 256 * block + i < n; i++) {
      const uint64_t at = 256 * block + i;
      x[i] = delta ? tagc_load(reference, at, dtype) + x[i]
                   : (float)(int8_t)codes[at] * dense_from_scale(((const uint16_t *)scales)[at / 128]);
      tagc_store(shard, at, dtype, gather_cut(x[i], dtype));
    }
  }
  uint32_t count = 0, entry[2];
  if (!delta)
    memcpy(&count, payload + 16, 4);
  for (uint32_t i = 0; count <= tagc_exceptions_capacity(n) && i < count; i++) {
    memcpy(entry, payload + 24 + 8 * i, 8);
    tagc_store(shard, entry[0], dtype, tagc_float_of(entry[1]));
  }
}

#endif
