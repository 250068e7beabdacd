/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `sparse`: its bytes, the values that it sends and their number, no losses, ties and full blocks,
 * exceptions, receiving in place, and the same bits from every variant. The test reads payloads with its own code.
 */
#include "kernels/codec/exceptions.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

static uint64_t capacity_of(const struct tagc_shape *shape) {
  uint64_t kept = shape->n * shape->keep_ppm / 1000000;
  return kept ? kept : 1;
}

/* Adds the values of a message to out[0..n) and marks them. Returns their number, or -1 if a byte is wrong. */
static int64_t unpack(const struct sim *sim, const uint8_t *message, float *out, bool *sent) {
  const uint64_t n = sim->shape.n, capacity = capacity_of(&sim->shape), blocks = (n + 255) / 256;
  const uint8_t *counts = message + tagc_exceptions_bytes(n), *offsets = counts + tagc_pad16(blocks);
  const uint8_t *values = offsets + tagc_pad16(capacity), *end = values + tagc_pad16(2 * capacity);
  uint64_t at = 0;
  bool good = (size_t)(end - message) == sim->layout.message_bytes;
  for (uint64_t block = 0; block < blocks; block++)
    for (uint64_t i = 0; i < counts[block]; i++, at++) {
      uint64_t position = 256 * block + offsets[at];
      if (at >= capacity || position >= n || (i > 0 && offsets[at] <= offsets[at - 1]))
        return -1;
      out[position] += tagc_from_bf16((uint16_t)(values[2 * at] | values[2 * at + 1] << 8));
      sent[position] = true;
    }
  for (const uint8_t *byte = counts + blocks; byte < offsets; byte++)
    good &= *byte == 0;
  for (const uint8_t *byte = offsets + at; byte < values; byte++)
    good &= *byte == 0;
  for (const uint8_t *byte = values + 2 * at; byte < end; byte++)
    good &= *byte == 0;
  return good ? (int64_t)at : -1;
}

static void check_example(void) {
  static const uint8_t want[] = {[48] = 2, 1, [64] = 2, 255, 2, [80] = 0x80, 0x3f, 0x40, 0xc0, 0x00, 0x3f, [95] = 0};
  struct sim sim = sim_new("sparse", 300, 2, TAGC_FLOAT32, 10000);
  sim_put(&sim, 0, 1, 2, 1);
  sim_put(&sim, 0, 1, 255, -3);
  sim_put(&sim, 0, 1, 258, 0.5f);
  sim_step(&sim, 1);
  ok(sim.layout.message_bytes == sizeof want && memcmp(sim.job[0].message_out + sizeof want, want, sizeof want) == 0,
     "the bytes of the example in sparse/codec.c");
  ok(sim_got(&sim, 1, 2) == 1 && sim_got(&sim, 1, 255) == -3 && sim_got(&sim, 1, 258) == 0.5f &&
       sim_got(&sim, 1, 3) == 0,
     "and what comes of them");
  sim_free(&sim);
}

static void check_size(void) {
  struct tagc_shape shape = {.n = 1 << 24, .nranks = 8, .keep_ppm = 50000, .residual = TAGC_STORAGE_FP32};
  struct tagc_layout layout, other;
  bool good = tagc_codec_find("sparse")->layout(&shape, &layout);
  ok(good && (double)layout.message_bytes * 8 / (1 << 24) <= 1.35 && layout.capacity == (uint64_t)(1 << 24) * 5 / 100,
     "1.35 bits an element at 5%%");
  shape.nranks = 3;
  ok(tagc_codec_find("sparse")->layout(&shape, &other) && other.message_bytes == layout.message_bytes,
     "messages are as long however many ranks there are");
  shape.n = UINT64_C(1) << 32;
  good = tagc_codec_find("sparse")->layout(&shape, &layout);
  shape.n = 0;
  good |= tagc_codec_find("sparse")->layout(&shape, &layout);
  shape.n = 1, shape.keep_ppm = 0;
  ok(!good && !tagc_codec_find("sparse")->layout(&shape, &layout), "shapes that it cannot carry are refused");
}

/* The blocks of which 255 values are sent: their counts have no room for the last one. */
static uint64_t full_blocks(const bool *marks, uint64_t n) {
  uint64_t full = 0;
  for (uint64_t at = 0; at + 256 <= n; at += 256) {
    int count = 0;
    for (uint64_t i = at; i < at + 256; i++)
      count += marks[i];
    full += count == 255;
  }
  return full;
}

/* Checks a sender's shard: exactly as many values as fit, but for full blocks; none kept a bin larger than one sent;
 * and no value lost. */
static bool check_shard(const struct sim *sim, int rank, int shard, const float *before) {
  const struct tagc_job *job = &sim->job[rank];
  const uint64_t n = sim->shape.n;
  const float *residual = tagc_residual_floats(job, shard);
  float *sent = calloc(n, sizeof *sent), least = INFINITY, most = 0;
  bool *marks = calloc(n, sizeof *marks), good;
  uint64_t some = 0, lost = 0;
  int64_t count = unpack(sim, job->message_out + (size_t)shard * sim->layout.message_bytes, sent, marks);
  for (uint64_t i = 0; i < n; i++) {
    const float x = before[i];
    some += fabsf(x) >= 0x1p-120f;
    lost += sent[i] + residual[i] != x || (marks[i] && sent[i] != tagc_from_bf16(tagc_to_bf16(x)));
    if (marks[i])
      least = fminf(least, fabsf(x));
    else
      most = fmaxf(most, fabsf(x));
  }
  const uint64_t fit = capacity_of(&sim->shape), due = some < fit ? some : fit;
  const bool exact = (uint64_t)count == due;
  good = (exact || ((uint64_t)count < due && (uint64_t)count + full_blocks(marks, n) >= due)) && lost == 0;
  good &= count == 0 || least >= 0x1p-120f;
  good &= !exact || due < fit || tagc_bits_of(most) >> 12 <= tagc_bits_of(least) >> 12;
  free(sent);
  free(marks);
  return good;
}

/* Checks the sent and kept values over some calls. `nonzero`: one element in that many is nonzero. */
static void check_choice(uint64_t n, int nranks, enum tagc_dtype dtype, uint32_t keep_ppm, unsigned nonzero) {
  struct sim sim = sim_new("sparse", n, nranks, dtype, keep_ppm);
  const size_t foreign = (size_t)(nranks - 1) * n;
  float *before = calloc(foreign * (size_t)nranks, sizeof *before);
  bool good = true;
  for (int step = 0; step < 3; step++) {
    for (int rank = 0; rank < nranks; rank++)
      for (int shard = 0; shard < nranks; shard++)
        for (uint64_t i = 0; i < n; i++) {
          sim_put(&sim, rank, shard, i, sim_random() % nonzero ? 0 : sim_normal() * (i % 7 ? 1.0f : 0x1p-9f));
          if (shard == rank)
            continue;
          float *at = &before[(size_t)rank * foreign + (size_t)(shard - (shard > rank)) * n + i];
          *at = sim_sent(&sim, rank, shard, i) + (step ? tagc_residual_floats(&sim.job[rank], shard)[i] : 0);
        }
    sim_step(&sim, 3 + (uint64_t)step);
    for (int rank = 0; rank < nranks; rank++)
      for (int shard = 0; shard < nranks; shard++)
        if (shard != rank)
          good &=
            check_shard(&sim, rank, shard, before + (size_t)rank * foreign + (size_t)(shard - (shard > rank)) * n);
  }
  ok(good, "n=%llu W=%d type %d keep %u, one in %u not zero: exactly full, with the largest; nothing is lost",
     (unsigned long long)n, nranks, dtype, keep_ppm, nonzero);
  free(before);
  sim_free(&sim);
}

/* Checks the sum against one computed from the messages. */
static void check_sum(uint64_t n, int nranks, enum tagc_dtype dtype, uint32_t keep_ppm, bool in_place) {
  struct sim sim = sim_new("sparse", n, nranks, dtype, keep_ppm);
  float *own = calloc((size_t)nranks * n, sizeof *own), *sum = calloc(n, sizeof *sum);
  bool *marks = calloc(n, sizeof *marks);
  uint64_t wrong = 0;
  sim.in_place = in_place;
  for (int rank = 0; rank < nranks; rank++) {
    sim.job[rank].scale = 0.75f;
    sim.job[rank].divisor = (float)nranks;
    for (uint64_t i = 0; i < (uint64_t)nranks * n; i++)
      sim_put(&sim, rank, (int)(i / n), i % n, sim_normal());
    for (uint64_t i = 0; i < n; i++)
      own[(uint64_t)rank * n + i] = sim_sent(&sim, rank, rank, i);
  }
  sim_step(&sim, 11);
  for (int rank = 0; rank < nranks; rank++) {
    memset(sum, 0, n * sizeof *sum);
    for (int sender = 0; sender < nranks; sender++)
      if (sender != rank)
        wrong += unpack(&sim, sim.job[sender].message_out + (size_t)rank * sim.layout.message_bytes, sum, marks) < 0;
    for (uint64_t i = 0; i < n; i++) {
      float want = (sum[i] + 0.75f * own[(uint64_t)rank * n + i]) / (float)nranks;
      if (dtype != TAGC_FLOAT32)
        want = dtype == TAGC_FLOAT16 ? tagc_from_fp16(tagc_to_fp16(want)) : tagc_from_bf16(tagc_to_bf16(want));
      wrong += want != sim_got(&sim, rank, i);
    }
  }
  ok(wrong == 0, "n=%llu W=%d type %d%s: the sum of the messages and the own shard, to the bit", (unsigned long long)n,
     nranks, dtype, in_place ? " in place" : "");
  free(own);
  free(sum);
  free(marks);
  sim_free(&sim);
}

/* A count is a byte. */
static void check_full_block(void) {
  struct sim sim = sim_new("sparse", 1000, 2, TAGC_FLOAT32, 900000);
  float sent[1000] = {0};
  bool marks[1000] = {0};
  for (uint64_t i = 0; i < 512; i++)
    sim_put(&sim, 1, 0, i, 1.001f);
  sim_put(&sim, 1, 0, 600, 3);
  sim_step(&sim, 4);
  const float *residual = tagc_residual_floats(&sim.job[1], 0);
  int64_t count = unpack(&sim, sim.job[1].message_out, sent, marks);
  ok(count == 511 && !marks[255] && !marks[511] && marks[254] && marks[256] && marks[600],
     "of two blocks of 256 equal values 255 are sent each");
  ok(residual[255] == 1.001f && residual[511] == 1.001f && residual[0] == 1.001f - sent[0] && sim.stats.selected == 511,
     "of equal ones the last stay");
  double norm2 = 0;
  for (int i = 0; i < 1000; i++)
    norm2 += (double)residual[i] * (double)residual[i];
  ok(fabs(sim.stats.residual_norm2 - norm2) <= 1e-6 * norm2, "and are in the norm of the residual");
  sim_clear(&sim);
  sim_step(&sim, 5);
  ok(fabsf(sim_got(&sim, 0, 255) - 1.001f) < 0.004f && fabsf(sim_got(&sim, 0, 511) - 1.001f) < 0.004f,
     "the next call sends them");
  sim_free(&sim);
}

/* Sends a run of equal values, from a place determined by the seed. */
static uint64_t ties_from(uint64_t seed) {
  struct sim sim = sim_new("sparse", 1000, 2, TAGC_FLOAT32, 100000);
  float sent[1000] = {0};
  bool marks[1000] = {0};
  uint64_t first = 0, runs = 0;
  for (uint64_t i = 0; i < 1000; i++)
    sim_put(&sim, 1, 0, i, i % 2 ? -2 : 2);
  sim_step(&sim, seed);
  int64_t count = unpack(&sim, sim.job[1].message_out, sent, marks);
  for (uint64_t i = 0; i < 1000; i++)
    if (marks[i] && !marks[(i + 999) % 1000]) {
      first = i;
      runs++;
    }
  sim_free(&sim);
  return count == 100 && runs == 1 ? first : UINT64_MAX;
}

static void check_ties(void) {
  uint64_t first = ties_from(1), other = ties_from(2), wrap = 0, lost = 0;
  ok(first < 1000 && other < 1000 && first != other && ties_from(1) == first,
     "of equal values exactly as many as fit are sent, from an offset that depends on the seed alone");
  for (uint64_t seed = 3; seed < 40; seed++) {
    uint64_t from = ties_from(seed);
    lost += from == UINT64_MAX;
    wrap += from > 900 && from < 1000;
  }
  ok(lost == 0 && wrap > 0, "around the end of the shard, too");
}

/* More than twice as many values as fit, in one place: the long way. And a distribution that no sample shows. */
static void check_hard(void) {
  const uint64_t n = 300000;
  struct sim sim = sim_new("sparse", n, 2, TAGC_FLOAT32, 50000);
  float *before = calloc(n, sizeof *before);
  for (uint64_t i = 0; i < n; i++) {
    before[i] = i % 9973 < 600 ? sim_normal() * 1e6f : sim_normal() * 1e-6f;
    sim_put(&sim, 1, 0, i, before[i]);
  }
  sim_step(&sim, 9);
  ok(check_shard(&sim, 1, 0, before), "values in clusters: exactly full, with the largest");
  memset(before, 0, n * sizeof *before);
  sim_clear(&sim);
  sim.job[0].residual_empty = sim.job[1].residual_empty = true;
  for (uint64_t i = 0; i < n; i += 3) {
    before[i] = i % 96 ? 0x1p-125f : 1;
    sim_put(&sim, 1, 0, i, before[i]);
  }
  sim_step(&sim, 10);
  const bool good = check_shard(&sim, 1, 0, before);
  ok(good && sim_got(&sim, 0, 96) == 1 && sim_got(&sim, 0, 3) == 0 && sim.stats.residual_norm2 < 1e-60,
     "what is below 2^-120 is not sent, and what bf16 holds leaves nothing over");
  free(before);
  sim_free(&sim);
}

static void check_exceptions(enum tagc_dtype dtype) {
  const uint64_t n = 5000;
  struct sim sim = sim_new("sparse", n, 3, dtype, 50000);
  int wrong = 0;
  for (int rank = 0; rank < 3; rank++)
    for (uint64_t i = 0; i < 3 * n; i++)
      sim_put(&sim, rank, (int)(i / n), i % n, sim_normal());
  sim_put(&sim, 1, 0, 17, INFINITY);
  sim_put(&sim, 2, 0, 4999, NAN);
  sim_put(&sim, 2, 0, 17, 1);
  sim_put(&sim, 2, 2, 300, -INFINITY);
  sim_step(&sim, 1);
  for (uint64_t i = 0; i < n; i++) {
    wrong += !isfinite(sim_got(&sim, 0, i)) != (i == 17 || i == 4999);
    wrong += !isfinite(sim_got(&sim, 1, i)) || !isfinite(sim_got(&sim, 2, i)) != (i == 300);
  }
  ok(wrong == 0 && isinf(sim_got(&sim, 0, 17)) && isnan(sim_got(&sim, 0, 4999)) && isinf(sim_got(&sim, 2, 300)),
     "type %d: exceptions come out where they went in, and nowhere else", dtype);
  ok(sim.job[0].nonfinite_seen && sim.job[1].nonfinite_seen && sim.job[2].nonfinite_seen && sim.stats.nonfinite == 2,
     "every rank hears of them");
  for (uint64_t i = 0; i < 2 * n; i++)
    wrong += !isfinite(((float *)sim.job[1].residual)[i]) || !isfinite(((float *)sim.job[2].residual)[i]);
  ok(wrong == 0 && tagc_residual_floats(&sim.job[1], 0)[17] == 0 && isfinite(sim.stats.residual_norm2),
     "their residual is zero");
  sim_clear(&sim);
  for (uint64_t i = 0; i < 20; i++)
    sim_put(&sim, 1, 0, 200 * i, NAN);
  sim_step(&sim, 2);
  for (uint64_t i = 0; i < n; i++)
    wrong += !isnan(sim_got(&sim, 0, i)) || isnan(sim_got(&sim, 1, i));
  ok(wrong == 0 && sim.stats.overflowed == 1, "too many: the shard is NaN, and no other");
  sim_free(&sim);
}

/* Runs three calls of all ranks, and compares with plain C. */
static void check_variants(uint64_t n, enum tagc_dtype dtype, enum tagc_storage storage, bool exceptions) {
  struct sim sim = sim_new_stored("sparse", n, 3, dtype, 70000, storage);
  const size_t messages = 3 * sim.layout.message_bytes, results = n * tagc_dtype_size(dtype);
  const size_t kept = tagc_residual_bytes(&sim.shape), all = messages + results + kept;
  uint8_t *want = sim_memory(3 * all);
  double norm2 = 0;
  memset(want, 0, 3 * all);
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
    bool same = true;
    if (!tagc_variant_force(tagc_variant_name((enum tagc_variant)v)))
      continue;
    sim_random_state = 99;
    for (int rank = 0; rank < 3; rank++) {
      sim.job[rank].residual_empty = true;
      sim.job[rank].divisor = 3;
      memset(sim.job[rank].residual, 0, kept);
      memset(sim.job[rank].message_out + (size_t)rank * sim.layout.message_bytes, 0, sim.layout.message_bytes);
    }
    for (int step = 0; step < 3; step++) {
      for (int rank = 0; rank < 3; rank++)
        for (uint64_t i = 0; i < 3 * n; i++)
          sim_put(&sim, rank, (int)(i / n), i % n, exceptions && sim_random() % 2000 == 0 ? INFINITY : sim_normal());
      sim_step(&sim, (uint64_t)step);
    }
    for (int rank = 0; rank < 3; rank++) {
      uint8_t *at = want + (size_t)rank * all;
      const struct tagc_job *job = &sim.job[rank];
      if (v == 0) {
        memcpy(at, job->message_out, messages);
        memcpy(at + messages, job->recv, results);
        memcpy(at + messages + results, job->residual, kept);
        norm2 = sim.stats.residual_norm2;
      }
      same &= memcmp(at, job->message_out, messages) == 0 && memcmp(at + messages, job->recv, results) == 0;
      same &= memcmp(at + messages + results, job->residual, kept) == 0 && norm2 == sim.stats.residual_norm2;
    }
    if (v > 0)
      ok(same, "n=%llu type %d storage %d%s: the bits of %s are those of plain C", (unsigned long long)n, dtype,
         storage, exceptions ? " with exceptions" : "", tagc_variant_name((enum tagc_variant)v));
  }
  tagc_variant_force(NULL);
  free(want);
  sim_free(&sim);
}

/* The number of results that differ from a decoder that stops at the end of each list. */
static uint64_t count_wrong(const struct sim *sim, int rank) {
  const uint64_t n = sim->shape.n, capacity = capacity_of(&sim->shape), blocks = (n + 255) / 256;
  float *sum = calloc(256 * blocks, sizeof *sum);
  uint64_t wrong = 0;
  for (int sender = 0; sender < sim->shape.nranks; sender++) {
    const uint8_t *message = sim->job[rank].message_in + (size_t)sender * sim->layout.message_bytes;
    const uint8_t *counts = message + tagc_exceptions_bytes(n), *offsets = counts + tagc_pad16(blocks);
    const uint8_t *values = offsets + tagc_pad16(capacity);
    uint64_t at = 0;
    for (uint64_t block = 0; block < blocks && sender != rank; block++)
      for (uint64_t i = 0; i < counts[block] && at < capacity; i++, at++)
        sum[256 * block + offsets[at]] += tagc_from_bf16((uint16_t)(values[2 * at] | values[2 * at + 1] << 8));
  }
  for (uint64_t i = 0; i < n; i++) {
    float got = sim_got(sim, rank, i), want = sum[i];
    if (sim->shape.dtype != TAGC_FLOAT32)
      want = sim->shape.dtype == TAGC_FLOAT16 ? tagc_from_fp16(tagc_to_fp16(want)) : tagc_from_bf16(tagc_to_bf16(want));
    wrong += !(got == want) && !(isnan(got) && isnan(want));
  }
  free(sum);
  return wrong;
}

/* Bytes that no sender makes: nothing is accessed outside (sanitizers check), and all variants agree. */
static void check_hostile(uint64_t n, enum tagc_dtype dtype) {
  struct sim sim = sim_new("sparse", n, 3, dtype, 50000);
  struct tagc_job *job = &sim.job[1];
  const size_t bytes = sim.layout.message_bytes;
  uint8_t *want = sim_memory(n * tagc_dtype_size(dtype));
  bool same = true;
  sim_step(&sim, 1);
  for (int round = 0; round < 12; round++) {
    for (size_t i = 0; i < 3 * bytes; i++)
      job->message_in[i] = round % 3 == 0 ? 0xff : round % 3 == 1 ? (uint8_t)sim_random() : sim_random() % 20 == 0;
    for (int sender = 0; sender < 3; sender++)
      if (round > 2)
        tagc_exceptions_clear((struct tagc_exceptions *)(job->message_in + (size_t)sender * bytes), n);
    for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
      if (!tagc_variant_force(tagc_variant_name((enum tagc_variant)v)))
        continue;
      sim.codec->decode(job);
      if (v == 0)
        memcpy(want, job->recv, n * tagc_dtype_size(dtype));
      same &= memcmp(want, job->recv, n * tagc_dtype_size(dtype)) == 0;
    }
    same &= round < 3 || count_wrong(&sim, 1) == 0;
  }
  ok(same, "n=%llu type %d: hostile payloads are read to the end of their lists, alike in every variant",
     (unsigned long long)n, dtype);
  tagc_variant_force(NULL);
  free(want);
  sim_free(&sim);
}

/* A threshold within two octaves of the exceptions: they are none of the chosen values, and take nobody's room. */
static void check_huge(void) {
  enum { N = 20000, EXCEPTIONS = 10 };
  struct sim sim = sim_new("sparse", N, 2, TAGC_FLOAT32, 50000);
  uint64_t lost = 0;
  for (uint64_t i = 0; i < N; i++)
    sim_put(&sim, 0, 1, i,
            i % 2000 == 777 ? 0x1.2p120f
            : i % 10 == 1   ? 0x1p118f * (1 + 3 * (float)(sim_random() % 100000) / 100001)
                            : sim_normal() * 0x1p90f);
  sim_step(&sim, 9);
  for (uint64_t i = 777; i < N; i += 2000)
    lost += sim_got(&sim, 1, i) != 0x1.2p120f;
  ok(sim.stats.selected == sim.layout.capacity && sim.stats.nonfinite == EXCEPTIONS && !lost,
     "exceptions near the threshold: %llu of %llu values are sent, and %llu exceptions exactly",
     (unsigned long long)sim.stats.selected, (unsigned long long)sim.layout.capacity,
     (unsigned long long)(EXCEPTIONS - lost));
  sim_free(&sim);
}

static void check_all(void) {
  static const uint64_t lengths[] = {1, 31, 32, 33, 255, 256, 257, 1009, 20011, 70001};
  sim_random_restart();
  check_example();
  check_size();
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    const uint64_t n = lengths[i];
    const enum tagc_dtype dtype = (enum tagc_dtype)(i % 3);
    check_choice(n, 2, TAGC_FLOAT32, 50000, 1);
    check_choice(n, 3, dtype, 300000, 2);
    check_sum(n, 2, dtype, 50000, i % 2);
    check_sum(n, 3, TAGC_FLOAT32, 200000, !(i % 2));
  }
  check_choice(20011, 2, TAGC_FLOAT32, 50000, 100);
  check_choice(1009, 2, TAGC_BFLOAT16, 990000, 1);
  check_sum(700, 64, TAGC_FLOAT32, 50000, false);
  check_sum(700, 64, TAGC_BFLOAT16, 1000000, true);
  check_full_block();
  check_ties();
  check_hard();
  check_huge();
  for (int dtype = 0; dtype < 3; dtype++)
    check_exceptions((enum tagc_dtype)dtype);
}

int main(void) {
  with_each_variant(check_all);
  for (int dtype = 0; dtype < 3; dtype++) {
    check_variants(20011, (enum tagc_dtype)dtype, TAGC_STORAGE_FP32, false);
    check_hostile(5003, (enum tagc_dtype)dtype);
  }
  check_variants(1009, TAGC_FLOAT32, TAGC_STORAGE_FP32, true);
  check_variants(5003, TAGC_FLOAT32, TAGC_STORAGE_BF16, false);
  check_variants(5003, TAGC_FLOAT32, TAGC_STORAGE_INT8, false);
  check_hostile(1, TAGC_FLOAT32);
  return tap_done();
}
