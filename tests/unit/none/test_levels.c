/* SPDX-License-Identifier: BSD-3-Clause
 * `precise` in two levels: owners get the exact sum of all ranks' values, rounded once, whatever the hosts are. Random
 * values of all kinds, lists that are full, specials, chunks, and the size of a message.
 */
#include "kernels/codec/assign_buffer.h"
#include "kernels/codec/chunks.h"
#include "kernels/codec/codecs.h"
#include "kernels/codec/cost.h"
#include "kernels/none/levels.h"
#include "tests/unit/codec/variants.h"
#include "tests/unit/none/families.h"

enum { HOSTS = 4, RANKS = 16, ELEMENTS = 5 * TAGC_CHUNK_ELEMENTS + 77 };

static const char *const types[] = {"fp32", "fp16", "bf16"};

/* The values of a rank for the shards of one owner a host; those that came for this host; the results. */
static uint16_t value[RANKS][HOSTS * ELEMENTS], came[HOSTS][RANKS * ELEMENTS], result[HOSTS][ELEMENTS];

struct layout_of_ranks {
  int hosts, local;
  uint64_t n;
  enum tagc_dtype dtype;
  uint32_t divisor;
  bool mixed; /* every rank is on another host than its number says */
};

/* Does an owner know of exceptions, before it may have to wait for values, and at the end? */
static bool told[HOSTS], knows[HOSTS];

static struct tagc_codec_stats ignored;

/* The rank in place l of a host. */
static int rank_at(const struct layout_of_ranks *r, int host, int l) {
  return r->mixed ? l * r->hosts + host : host * r->local + l;
}

/* Lays out the values of a host's ranks, as they send them to each other. */
static void gather_values(const struct layout_of_ranks *r, int host, uint16_t *to) {
  for (int l = 0; l < r->local; l++)
    memcpy(to + (size_t)l * (size_t)r->hosts * r->n, value[rank_at(r, host, l)], (size_t)r->hosts * r->n * sizeof *to);
}

static struct tagc_job whole_job(const struct layout_of_ranks *r, int host, const uint16_t *send) {
  return (struct tagc_job){
    .shape = {.n = r->n, .nranks = r->hosts, .dtype = r->dtype, .keep_ppm = 1, .local = r->local},
    .rank = host,
    .send = send,
    .values = came[host],
    .recv = result[host],
    .scale = 1,
    .divisor = (float)r->divisor,
    .stats = &ignored};
}

/* Brings the values of a sender. */
static void bring_values(const struct layout_of_ranks *r, int to, int from) {
  for (int l = 0; l < r->local; l++)
    memcpy(came[to] + ((size_t)l * (size_t)r->hosts + (size_t)from) * r->n,
           value[rank_at(r, from, l)] + (size_t)to * r->n, r->n * sizeof(uint16_t));
}

/* One chunk on all hosts. Returns the number of messages without sums. */
static int run_chunk(const struct layout_of_ranks *r, struct tagc_job *job) {
  const struct tagc_codec *codec = &tagc_codec_precise;
  void *memory[HOSTS];
  int lacking = 0;
  for (int h = 0; h < r->hosts; h++) {
    codec->layout(&job[h].shape, &job[h].layout);
    const size_t bytes = tagc_job_assign_buffers(&job[h], NULL);
    memory[h] = aligned_alloc(64, bytes);
    memset(memory[h], 0xa5, bytes);
    tagc_job_assign_buffers(&job[h], memory[h]);
    codec->encode(&job[h]);
  }
  const size_t bytes = job[0].layout.message_bytes;
  for (int to = 0; to < r->hosts; to++)
    for (int from = 0; from < r->hosts; from++) {
      uint8_t *in = job[to].message_in + (size_t)from * bytes;
      if (from == to)
        continue;
      memcpy(in, job[from].message_out + (size_t)to * bytes, bytes);
      lacking += codec->levels->lacks_sums(&job[to], in);
    }
  for (int h = 0; h < r->hosts; h++) {
    codec->decode(&job[h]);
    told[h] |= job[h].nonfinite_seen;
    if (job[h].wants_values) {
      for (int from = 0; from < r->hosts; from++)
        if (from != h && codec->levels->lacks_sums(&job[h], job[h].message_in + (size_t)from * bytes))
          bring_values(r, h, from);
      job[h].has_values = true;
      codec->decode(&job[h]);
    }
    knows[h] |= job[h].nonfinite_seen;
    free(memory[h]);
  }
  return lacking;
}

static int run(const struct layout_of_ranks *r, int depth) {
  const struct tagc_chunks chunks = tagc_chunks_of(r->n, depth);
  uint16_t *send[HOSTS];
  int lacking = 0;
  memset(came, 0xa5, sizeof came);
  memset(result, 0xa5, sizeof result);
  memset(told, 0, sizeof told);
  memset(knows, 0, sizeof knows);
  for (int h = 0; h < r->hosts; h++) {
    send[h] = sim_memory((size_t)r->local * (size_t)r->hosts * r->n * sizeof **send);
    gather_values(r, h, send[h]);
  }
  for (int k = 0; k < chunks.count; k++) {
    struct tagc_job job[HOSTS];
    for (int h = 0; h < r->hosts; h++) {
      const struct tagc_job whole = whole_job(r, h, send[h]);
      job[h] = tagc_chunk_job(&whole, &chunks, k);
    }
    lacking += run_chunk(r, job);
  }
  for (int h = 0; h < r->hosts; h++)
    free(send[h]);
  return lacking;
}

/* The values of elements that are not exact sums, rounded once. */
static uint64_t count_wrong(const struct layout_of_ranks *r) {
  uint64_t wrong = 0;
  for (int owner = 0; owner < r->hosts; owner++)
    for (uint64_t i = 0; i < r->n; i++) {
      struct tagc_exact sum = {0};
      for (int rank = 0; rank < r->hosts * r->local; rank++)
        tagc_exact_add(&sum, tagc_load(value[rank], (uint64_t)owner * r->n + i, r->dtype));
      wrong += tagc_exact_round(&sum, r->divisor, r->dtype) != result[owner][i];
    }
  return wrong;
}

/* Owners that do not know of a value of 2^120 and more, or, at the end, of a result that is not finite; or that take
 * others for it. Sums may reach 2^120 alone: by 16 values. */
static int count_unaware(const struct layout_of_ranks *r) {
  int unaware = 0;
  for (int owner = 0; owner < r->hosts; owner++) {
    uint32_t most = 0;
    bool infinite = false;
    for (uint64_t i = 0; i < r->n; i++)
      infinite |= !isfinite(tagc_load(result[owner], i, r->dtype));
    for (int rank = 0; rank < r->hosts * r->local; rank++)
      for (uint64_t i = 0; i < r->n; i++) {
        const uint32_t bits = tagc_bits_of(tagc_load(value[rank], (uint64_t)owner * r->n + i, r->dtype)) & 0x7fffffffu;
        most = bits > most ? bits : most;
      }
    const bool must = most >= TAGC_EXCEPTION_BITS, may = most >= TAGC_EXCEPTION_BITS - (4u << 23);
    unaware += must ? !told[owner] || !knows[owner] : !may && (told[owner] > infinite || knows[owner] != infinite);
  }
  return unaware;
}

static void fill(const struct layout_of_ranks *r, enum family family) {
  for (int rank = 0; rank < r->hosts * r->local; rank++)
    for (uint64_t i = 0; i < (uint64_t)r->hosts * r->n; i++)
      value[rank][i] = (uint16_t)draw_bits(family, rank, i, r->divisor, r->dtype);
}

static void check_family(const struct layout_of_ranks *r, enum family family, int depth) {
  fill(r, family);
  const int lacking = run(r, depth);
  const uint64_t wrong = count_wrong(r);
  ok(wrong == 0, "%s, %d hosts of %d, n=%llu, divided by %u, family %d: exact (%d messages without sums, %llu wrong)",
     types[r->dtype], r->hosts, r->local, (unsigned long long)r->n, r->divisor, family, lacking,
     (unsigned long long)wrong);
  ok(count_unaware(r) == 0, "owners know of exceptions, those whose values come later, too");
  if (family == NORMAL)
    ok(lacking == 0, "normal values fill no list");
  else if (family == ANY && r->n > 500 && r->dtype == TAGC_BFLOAT16)
    ok(lacking > 0, "lists that are full are met where values have any exponent");
}

static void check_families(enum tagc_dtype dtype) {
  static const struct layout_of_ranks some[] = {
    {2, 3, 1, 0, 1, false}, {2, 8, 1000, 0, 16, false}, {4, 4, 333, 0, 16, true}, {3, 3, 600, 0, 9, false}};
  for (size_t s = 0; s < sizeof some / sizeof *some; s++)
    for (int family = 0; family < FAMILIES; family++) {
      struct layout_of_ranks r = some[s];
      r.dtype = dtype;
      check_family(&r, (enum family)family, 1);
    }
  struct layout_of_ranks deep = {2, 3, ELEMENTS, dtype, 6, false};
  check_family(&deep, OUTLIERS, 4);
}

/* Ties that the lowest bit of one value breaks, from any distance: another host takes its other bits away. All lists
 * have room. */
static void check_ties(enum tagc_dtype dtype) {
  const struct layout_of_ranks r = {2, 3, 16, dtype, 1, false};
  const int mantissa = tagc_exact_mantissa(dtype);
  uint64_t wrong = 0;
  int lacking = 0;
  memset(value, 0, sizeof value);
  for (int distance = 0; distance < 40; distance++) {
    for (uint64_t i = 0; i < 2 * r.n; i++) {
      const float most = ldexpf(i % 3 ? 1.0f : -1.0f, -distance);
      tagc_store(value[0], i, dtype, 1);
      tagc_store(value[1], i, dtype, ldexpf(1, -mantissa));
      tagc_store(value[2], i, dtype, most + ldexpf(most, 1 - mantissa));
      tagc_store(value[3], i, dtype, -most);
    }
    lacking += run(&r, 1);
    wrong += count_wrong(&r);
  }
  ok(wrong == 0 && lacking == 0, "%s: ties that a small value breaks", types[dtype]);
}

/* NaN, infinities, sums beyond fp32 that come back, and many of these. */
static void check_specials(enum tagc_dtype dtype) {
  const float large = dtype == TAGC_FLOAT16 ? 65504 : 0x1.fep127f;
  const float cases[][6] = {{NAN, 1, 2, 3, 4, 5},
                            {INFINITY, 1, 2, 3, 4, -large},
                            {INFINITY, 1, 2, -INFINITY, 0, 0},
                            {1, 1, 1, -INFINITY, large, large},
                            {large, large, large, -large, -large, -large},
                            {large, large, 1, -large, -large, 1},
                            {1, 2, 3, large, large, 1},
                            {-0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f}};
  enum { CASES = sizeof cases / sizeof *cases };
  struct layout_of_ranks r = {2, 3, 64 * CASES, dtype, 1, false};
  for (int rank = 0; rank < 6; rank++)
    for (uint64_t i = 0; i < (uint64_t)r.hosts * r.n; i++)
      tagc_store(value[rank], i, dtype, cases[i % CASES][rank]);
  run(&r, 1);
  ok(count_wrong(&r) == 0 && count_unaware(&r) == 0, "%s: specials", types[dtype]);
  for (int only = 0; only < CASES; only++) {
    for (int rank = 0; rank < 6; rank++)
      for (uint64_t i = 0; i < (uint64_t)r.hosts * r.n; i++)
        tagc_store(value[rank], i, dtype, i % r.n == 5 ? cases[only][rank] : 1);
    run(&r, 1);
    ok(count_wrong(&r) == 0 && count_unaware(&r) == 0, "%s: case %d alone", types[dtype], only);
  }
}

/* Lists that are full, and one value among them that is none. */
static void check_told(enum tagc_dtype dtype) {
  const float others[] = {INFINITY, NAN, dtype == TAGC_FLOAT16 ? INFINITY : 0x1p125f, 1};
  struct layout_of_ranks r = {2, 3, 1000, dtype, 1, false};
  for (size_t k = 0; k < sizeof others / sizeof *others; k++)
    for (int at = 0; at < 6; at++) {
      for (int rank = 0; rank < 6; rank++)
        for (uint64_t i = 0; i < (uint64_t)r.hosts * r.n; i++)
          tagc_store(value[rank], i, dtype, ldexpf(1, rank % 3 == 0 ? 12 : rank % 3 == 1 ? -12 : 0));
      tagc_store(value[at], 17, dtype, others[k]);
      const int lacking = run(&r, 1);
      ok(count_wrong(&r) == 0 && count_unaware(&r) == 0, "%s: %g of rank %d, %d messages without sums", types[dtype],
         (double)others[k], at, lacking);
    }
}

/* The same values, on hosts of other sizes and in another order: the same bits. */
static void check_hosts(enum tagc_dtype dtype) {
  static uint16_t all[RANKS][12 * 50], first[12 * 50];
  static const int locals[] = {3, 4, 6};
  int moved = 0;
  for (int rank = 0; rank < 12; rank++)
    for (uint64_t i = 0; i < 12 * 50; i++)
      all[rank][i] = (uint16_t)draw_bits(i % 2 ? OUTLIERS : NORMAL, rank, i, 1, dtype);
  for (int way = 0; way < 6; way++) {
    const struct layout_of_ranks r = {
      12 / locals[way % 3], locals[way % 3], 600 / (12 / (unsigned)locals[way % 3]), dtype, 12, way > 2};
    uint16_t sums[12 * 50];
    for (int rank = 0; rank < 12; rank++)
      memcpy(value[rank], all[(5 * rank + way) % 12], sizeof *all);
    run(&r, 1);
    for (int h = 0; h < r.hosts; h++)
      memcpy(sums + (size_t)h * r.n, result[h], r.n * sizeof *sums);
    if (way == 0)
      memcpy(first, sums, sizeof first);
    moved += memcmp(first, sums, sizeof first) != 0;
  }
  ok(moved == 0, "%s: the same bits on hosts of 3, 4 and 6 ranks, in any order", types[dtype]);
}

static void check_bytes(void) {
  struct tagc_layout layout;
  const struct tagc_shape shape = {.n = 1 << 20, .nranks = 2, .dtype = TAGC_BFLOAT16, .local = 8};
  const struct tagc_hosts hosts = {.nranks = 16, .hosts = 2, .local = 8};
  ok(tagc_codec_precise.layout(&shape, &layout), "two hosts of eight have a layout");
  const struct tagc_traffic plain = tagc_plain_traffic(shape.n * 2, &hosts),
                            sent = tagc_layout_traffic(&shape, &layout, &hosts, true);
  const double between = (double)sent.between / (double)plain.between;
  ok(between > 1.12 && between < 1.14, "they send %.3f times a plain call's bytes to each other", between);
  const struct tagc_shape wide = {.n = 100, .nranks = 2, .dtype = TAGC_FLOAT32, .local = 8};
  ok(!tagc_codec_precise.layout(&wide, &layout), "fp32 is refused");
}

/* A message of another program: its count and its places lie outside. The memory has exactly the right size. */
static void check_hostile(void) {
  static uint16_t send[2 * 3 * 40], sums[40];
  struct tagc_job job = {.shape = {.n = 40, .nranks = 2, .dtype = TAGC_BFLOAT16, .keep_ppm = 1, .local = 3},
                         .send = send,
                         .recv = sums,
                         .scale = 1,
                         .divisor = 1,
                         .stats = &ignored};
  tagc_codec_precise.layout(&job.shape, &job.layout);
  job.message_out = sim_memory(2 * job.layout.message_bytes);
  job.message_in = sim_memory(2 * job.layout.message_bytes);
  tagc_codec_precise.encode(&job);
  const struct tagc_levels_message message = tagc_levels_parts(job.shape.n, tagc_levels_message_of(&job, 1));
  memset(message.count, 0xff, job.layout.message_bytes);
  *message.count = message.capacity + 1000;
  message.places[0] = 3;
  tagc_codec_precise.decode(&job);
  ok(!job.wants_values && sums[39] == 0x7fc0, "a count beyond the list, and places beyond the shard, do no harm");
  free(job.message_out);
  free(job.message_in);
}

static void check_all(void) {
  sim_random_restart();
  for (int dtype = TAGC_FLOAT16; dtype <= TAGC_BFLOAT16; dtype++) {
    check_families((enum tagc_dtype)dtype);
    check_specials((enum tagc_dtype)dtype);
    check_told((enum tagc_dtype)dtype);
    check_ties((enum tagc_dtype)dtype);
    check_hosts((enum tagc_dtype)dtype);
  }
}

int main(void) {
  check_bytes();
  check_hostile();
  with_each_variant(check_all);
  return tap_done();
}
