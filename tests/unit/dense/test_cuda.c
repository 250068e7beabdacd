/* SPDX-License-Identifier: BSD-3-Clause
 * The CUDA kernels of the dense codecs and of `none` write the same bytes as the host: messages, residuals, results,
 * counts. Varied: codecs, types, storages, rounding, odd sizes, ranks, addresses, exceptions, hostile messages, steps.
 *
 * It runs on the device of libcuda.so.1: the stand-in, or a GPU (tests/gpu/run). Words: `ptx` takes the PTX for older
 * drivers; `short` leaves out repetitions, for tools that slow everything down; `large` runs the checks only for a GPU.
 */
#include "kernels/codec/codecs.h"
#include "kernels/dense/dense.h"
#include "tests/unit/device/cuda_codec.h"

static const char *const codecs[] = {"bf16", "q8", "q4", "q3", "q2", "none"};
enum { CODECS = 6 };

static struct setting usual(const char *codec) {
  return (struct setting){.codec = codec,
                          .n = 1000,
                          .nranks = 2,
                          .storage = TAGC_STORAGE_FP32,
                          .scale = 1,
                          .divisor = 1,
                          .keep_ppm = 10000,
                          .inexact = 1e-12,
                          .steps = 1};
}

/* -- what there is ------------------------------------------------------------------------------------------------- */

/* Every codec with every type, storage and rounding; sizes, ranks, patterns and addresses take turns. */
static void check_variants(void) {
  static const uint64_t sizes[] = {1, 255, 256, 257, 600, 1000, 2053};
  static const size_t offs[] = {0, 0, 4, 2, 1, 8};
  static const float factors[][2] = {{1, 1}, {1, 2}, {0.3f, 3}, {1, 8}, {-2, 0.7f}};
  unsigned turn = 0;
  for (int codec = 0; codec < CODECS; codec++)
    for (int storage = 0; storage < STORAGES; storage++) {
      bool all = true;
      for (int dtype = 0; dtype < DTYPES; dtype++)
        for (int stochastic = 0; stochastic < 2; stochastic++, turn++) {
          struct setting s = usual(codecs[codec]);
          s.n = sizes[turn % 7];
          s.nranks = 2 + (int)(turn / 2 % 3);
          s.dtype = (enum tagc_dtype)dtype;
          s.storage = (enum tagc_storage)storage;
          s.stochastic = stochastic;
          s.pattern = (enum pattern)(turn * 5 % PATTERNS);
          s.off = offs[turn % 6];
          s.in_place = turn / 3 % 2;
          s.scale = factors[turn % 5][0];
          s.divisor = factors[turn % 5][1];
          s.steps = storage ? 3 : 1;
          all &= same(&s);
        }
      ok(all, "%s, residual %s: the host's bytes, whatever the type, rounding, size, and what was before",
         codecs[codec], storages[storage]);
    }
}

static void check_patterns(void) {
  for (int codec = 0; codec < CODECS; codec++) {
    bool all = true;
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
      struct setting s = usual(codecs[codec]);
      s.n = 777;
      s.dtype = (enum tagc_dtype)(pattern % DTYPES);
      s.pattern = (enum pattern)pattern;
      s.stochastic = pattern % 2;
      s.steps = 2;
      all &= same(&s);
    }
    ok(all, "%s: the host's bytes of hard gradients", codecs[codec]);
  }
}

static void check_sizes(void) {
  for (int codec = 0; codec < CODECS; codec++) {
    bool all = true;
    for (int i = 0; i < CASE_SIZES; i++) {
      struct setting s = usual(codecs[codec]);
      s.n = case_sizes[i];
      s.nranks = 2 + i % 2;
      s.dtype = (enum tagc_dtype)(i % DTYPES);
      s.storage = (enum tagc_storage)(1 + i % 3);
      s.stochastic = i / 2 % 2;
      all &= same(&s);
    }
    for (int nranks = 2; nranks <= 8; nranks++) {
      struct setting s = usual(codecs[codec]);
      s.n = 300 + 17 * (uint64_t)nranks;
      s.nranks = nranks;
      s.pattern = FEW_EXCEPTIONS;
      s.divisor = (float)nranks;
      all &= same(&s);
    }
    struct setting large = usual(codecs[codec]);
    large.n = 3 * 4096 + 17;
    large.storage = TAGC_STORAGE_INT8;
    large.dtype = TAGC_BFLOAT16;
    large.pattern = WIDE;
    large.in_place = true;
    all &= same(&large);
    ok(all, "%s: sizes and numbers of ranks", codecs[codec]);
  }
}

static void check_addresses(void) {
  static const size_t offs[] = {1, 2, 3, 4, 6, 8, 12, 15};
  for (int codec = 0; codec < CODECS; codec++) {
    bool all = true;
    for (int i = 0; i < 8; i++)
      for (int dtype = 0; dtype < DTYPES; dtype++) {
        struct setting s = usual(codecs[codec]);
        s.n = 2 * 256 + 4 * (uint64_t)(i % 2) + (uint64_t)(i / 4);
        s.dtype = (enum tagc_dtype)dtype;
        s.off = offs[i];
        s.in_place = i / 2 % 2;
        all &= same(&s);
      }
    ok(all, "%s: gradients and results at any address", codecs[codec]);
  }
}

/* -- exceptions ---------------------------------------------------------------------------------------------------- */
static void at_the_last(struct sim *sim) {
  for (int r = 0; r < sim->shape.nranks; r++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      sim_put(sim, r, shard, sim->shape.n - 1, r % 2 ? INFINITY : -INFINITY);
}

/* One rank knows of an earlier call. */
static void one_knows(struct sim *sim) { sim->job[1].nonfinite_before = true; }

static void in_the_own(struct sim *sim) { sim_put(sim, 0, 0, sim->shape.n / 2, NAN); }

/* As many exceptions as fit, in places without order. */
static void a_full_list(struct sim *sim) {
  const uint64_t n = sim->shape.n, capacity = tagc_exceptions_capacity(n);
  for (int r = 0; r < sim->shape.nranks; r++)
    for (uint64_t i = 0; i < capacity; i++)
      sim_put(sim, r, 1 - r, (i * 2654435761u + 5 + (uint64_t)r) % n, case_exception(i));
}

static void one_too_many(struct sim *sim) {
  a_full_list(sim);
  const uint64_t n = sim->shape.n;
  for (uint64_t i = 0; i < n; i++)
    if (!tagc_is_exception(tagc_bits_of(sim_sent(sim, 0, 1, i)))) {
      sim_put(sim, 0, 1, i, NAN);
      return;
    }
}

static void nothing_else(struct sim *sim) {
  for (uint64_t i = 0; i < sim->shape.n; i++)
    sim_put(sim, 1, 0, i, INFINITY);
}

static void check_exceptions(void) {
  static const struct {
    void (*change)(struct sim *);
    uint64_t n;
    const char *what;
  } cases[] = {
    {at_the_last, 257, "at the last position"},       {at_the_last, 256, "at the last position of a block"},
    {in_the_own, 100, "in a shard of its own"},       {a_full_list, 1000, "as many as fit"},
    {one_too_many, 1000, "one more than fit"},        {nothing_else, 700, "and nothing else"},
    {one_knows, 700, "in another call of the cycle"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool all = true;
    for (int codec = 0; codec < CODECS; codec++)
      for (int dtype = 0; dtype < DTYPES; dtype++) {
        struct setting s = usual(codecs[codec]);
        s.n = cases[i].n;
        s.dtype = (enum tagc_dtype)dtype;
        s.change = cases[i].change;
        s.steps = 2;
        s.divisor = 2;
        s.in_place = codec % 2;
        all &= same(&s);
      }
    ok(all, "exceptions %s", cases[i].what);
  }
  bool all = true;
  for (int codec = 0; codec < CODECS; codec++)
    for (int most = 0; most < 2; most++) {
      struct setting s = usual(codecs[codec]);
      s.n = 4 * 2048 + 100;
      s.dtype = TAGC_FLOAT16;
      s.change = sums_too_large;
      s.steps = 2;
      s.decode_most = (uint32_t)most;
      all &= same(&s);
    }
  ok(all, "sums that are too large, which one group of several sees");
  struct setting s = usual("bf16");
  s.n = 4096 * 41 + 3; /* room for 42: long enough for groups that append out of order */
  s.pattern = ZERO;
  s.change = a_full_list;
  ok(same(&s), "a long list comes into order");
  s.change = one_too_many;
  ok(same(&s), "a list that is too long by one");
}

/* Enough blocks that another order of sums would show in some. */
static void check_large(void) {
  for (int codec = 0; codec < CODECS; codec++)
    for (int stochastic = 0; stochastic < 2; stochastic++) {
      struct setting s = usual(codecs[codec]);
      s.n = (16 << 20) + 17;
      s.dtype = stochastic ? TAGC_BFLOAT16 : TAGC_FLOAT32;
      s.storage = stochastic ? TAGC_STORAGE_INT8 : TAGC_STORAGE_FP32;
      s.stochastic = stochastic;
      s.steps = 2;
      s.change = a_full_list;
      ok(same(&s), "%s: a large shard, with as many exceptions as fit%s", codecs[codec],
         stochastic ? ", by chance" : "");
    }
}

/* -- flushing ------------------------------------------------------------------------------------------------------ */

/* A gradient, with the residual that is flushed into it: whole blocks and the last one, at any address. */
static void check_flush(void) {
  bool all = true;
  for (int storage = 0; storage < STORAGES; storage++)
    for (int dtype = 0; dtype < DTYPES; dtype++) {
      struct setting s = usual("q8");
      const size_t off = 2 * (size_t)(dtype + storage);
      s.n = 2 * 256 + 77;
      struct sim sim = sim_new_stored(s.codec, s.n, s.nranks, (enum tagc_dtype)dtype, 0, (enum tagc_storage)storage);
      struct device_rank rank = device_rank_new(sim.codec, &sim.job[0], off, false);
      struct tagc_codec_stats stats = {0};
      const size_t bytes = (size_t)s.nranks * s.n * tagc_dtype_size((enum tagc_dtype)dtype);
      struct twin out = twin_new(calloc(1, bytes), bytes, off);
      difference[0] = '\0';
      sim.job[0].stats = &stats;
      case_fill(&sim, GAUSS);
      sim.codec->encode(&sim.job[0]);
      sim.job[0].residual_empty = rank.job.residual_empty = storage == TAGC_STORAGE_BF16;
      twin_put(&rank.send);
      twin_put(&rank.residual);
      tagc_residual_flush(&sim.job[0], out.host);
      MUST(tagc_cuda_flush(&launcher, &rank.job, twin_at(&out), NULL));
      compare(&s, 0, 0, "what is flushed", &out, 0, bytes);
      all &= !difference[0];
      MUST(cuMemFree_v2(out.base));
      free(out.host);
      device_rank_free(&rank);
      sim_free(&sim);
    }
  ok(all, "a residual is flushed as on the host: %s", difference);
}

/* -- what others send ---------------------------------------------------------------------------------------------- */
static struct tagc_exceptions *arrived(struct sim *sim, int rank) {
  return (struct tagc_exceptions *)(sim->job[rank].message_in + (size_t)(1 - rank) * sim->layout.message_bytes);
}

static void count_too_large(struct sim *sim) { arrived(sim, 0)->count = UINT32_MAX; }
static void told_of_others(struct sim *sim) { arrived(sim, 0)->anywhere = 0xfffffff1u; }
static void told_of_surplus(struct sim *sim) { arrived(sim, 0)->anywhere = TAGC_ANYWHERE_SURPLUS; }

static void place_too_large(struct sim *sim) {
  arrived(sim, 0)->count = 1;
  arrived(sim, 0)->entry[0] = (struct tagc_exception){(uint32_t)sim->shape.n, TAGC_NAN_BITS};
}

static void same_place_twice(struct sim *sim) {
  arrived(sim, 0)->count = 2;
  for (int i = 0; i < 2; i++)
    arrived(sim, 0)->entry[i] = (struct tagc_exception){5, tagc_bits_of(INFINITY)};
}

static void noise(struct sim *sim) {
  for (int r = 0; r < sim->shape.nranks; r++)
    for (int sender = 0; sender < sim->shape.nranks; sender++) {
      uint8_t *message = sim->job[r].message_in + (size_t)sender * sim->layout.message_bytes;
      for (size_t i = tagc_exceptions_bytes(sim->shape.n); i < sim->layout.message_bytes; i++)
        message[i] = (uint8_t)(sim_random() >> 32);
    }
}

static void check_hostile(void) {
  static const struct {
    void (*corrupt)(struct sim *);
    const char *what;
  } cases[] = {
    {count_too_large, "a list without end"},
    {place_too_large, "a place that is none"},
    {same_place_twice, "a place twice"},
    {told_of_others, "a word that others had some"},
    {told_of_surplus, "a word of too little room"},
    {noise, "noise in place of codes and scales"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool all = true;
    for (int codec = 0; codec < CODECS; codec++) {
      struct setting s = usual(codecs[codec]);
      s.dtype = (enum tagc_dtype)(codec % DTYPES);
      s.nranks = cases[i].corrupt == noise ? 4 : 2;
      s.corrupt = cases[i].corrupt;
      s.steps = 2;
      all &= same(&s);
    }
    ok(all, "%s: what the host makes of it", cases[i].what);
  }
}

/* -- the order of q2's sums ---------------------------------------------------------------------------------------- */
enum order { AS_THE_FORMAT_SAYS, OTHER_TREE, OTHER_LANES, BACKWARDS, ORDERS };

static float sum_in(enum order order, const float *term) {
  float lane[16] = {0};
  for (int i = 0; i < 256; i++)
    if (order == OTHER_LANES)
      lane[i / 16] += term[i];
    else
      lane[i % 16] += term[order == BACKWARDS ? 255 - i : i];
  for (int some = 8, by = 1; some > 0; some /= 2, by *= 2)
    for (int t = 0; t < some; t++)
      lane[order == OTHER_TREE ? 2 * by * t : t] += order == OTHER_TREE ? lane[2 * by * t + by] : lane[t + some];
  return lane[0];
}

static void hadamard(float x[256]) {
  for (int stride = 1; stride < 256; stride *= 2)
    for (int i = 0; i < 256; i++)
      if (!(i & stride)) {
        const float a = x[i], b = x[i + stride];
        x[i] = a + b;
        x[i + stride] = a - b;
      }
}

/* The scale for the right mean of a block of rotated values, and how many of them are large. */
static float q2_scale(enum order order, const float rotated[256], uint32_t *large) {
  float v[256], term[256];
  uint32_t most = 0;
  for (int i = 0; i < 256; i++)
    most = (tagc_bits_of(rotated[i]) & 0x7fffffffu) > most ? tagc_bits_of(rotated[i]) & 0x7fffffffu : most;
  const float power = tagc_q2_power(most);
  for (int i = 0; i < 256; i++) {
    v[i] = rotated[i] * power;
    term[i] = v[i] * v[i];
  }
  const float squares = sum_in(order, term), threshold = tagc_q2_threshold(squares);
  *large = 0;
  for (int i = 0; i < 256; i++) {
    *large += term[i] > threshold;
    term[i] = fabsf(v[i]) * (term[i] > threshold ? TAGC_Q2_LARGE : TAGC_Q2_SMALL);
  }
  return tagc_q2_scale_unbiased(squares, sum_in(order, term)) / power;
}

/* The gradient whose rotated values, before the encoder's signs, are `wanted` times the factor; what they become. */
static void put_block(struct sim *sim, uint32_t block, const float wanted[256], float factor, float rotated[256]) {
  const uint64_t key = tagc_rotation_key(sim->shape.n, 1);
  float x[256];
  for (int i = 0; i < 256; i++)
    x[i] = factor * wanted[i];
  hadamard(x);
  for (int i = 0; i < 256; i++) {
    const bool turned = tagc_rotation_signs(key, block, (uint32_t)i / 64) >> i % 64 & 1;
    sim_put(sim, 0, 1, 256 * block + (uint64_t)i, turned ? -x[i] : x[i]);
    rotated[i] = 0x1p-8f * x[i];
  }
  hadamard(rotated);
}

/* Blocks that another order would send differently: one large rotated value among small ones, so that its first partner
 * in the sum matters, and a scale between two bf16. Rank 0 sends them to rank 1 in the first step. */
static void blocks_with_order(struct sim *sim) {
  for (uint32_t block = 0; block < sim->shape.n / 256; block++)
    for (bool found = false; !found;) {
      const enum order other = (enum order)(1 + block % (ORDERS - 1));
      float x[256], rotated[256];
      uint32_t large, large_too;
      for (int i = 0; i < 256; i++)
        x[i] = 0x1p-12f * sim_normal();
      x[sim_random() % 256] = 1 + (float)(sim_random() % 1000) * 1e-3f;
      put_block(sim, block, x, 1, rotated);
      const float scale = q2_scale(AS_THE_FORMAT_SAYS, rotated, &large);
      const float between = tagc_float_of((tagc_bits_of(scale) & 0xffff0000u) + 0x8000u);
      put_block(sim, block, x, between / scale, rotated);
      const float sent = q2_scale(AS_THE_FORMAT_SAYS, rotated, &large), too = q2_scale(other, rotated, &large_too);
      found = large != large_too || tagc_to_bf16(sent) != tagc_to_bf16(too);
    }
}

static void check_order(void) {
  struct setting s = usual("q2");
  s.n = 256 * 2 * (ORDERS - 1);
  s.stochastic = true;
  s.change = blocks_with_order;
  ok(same(&s), "q2 adds in the order of the format, where another would show");
}

int main(int argc, char **argv) {
  const bool brief = cuda_brief(argc, argv);
  launcher = device_launcher(cuda_said(argc, argv, "ptx"));
  if (cuda_said(argc, argv, "large")) {
    check_large();
    return tap_done();
  }
  check_variants();
  check_addresses();
  if (!brief) {
    check_patterns();
    check_sizes();
  }
  check_exceptions();
  check_hostile();
  check_order();
  check_flush();
  struct setting captured = usual("q4");
  captured.storage = TAGC_STORAGE_NONE;
  check_graph(&captured);
  ok(!tagc_cuda_codec_of(&(struct tagc_codec){0}), "other codecs are not known");
  note("%llu bytes compared", (unsigned long long)compared);
  return tap_done();
}
