/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `precise`: its sums are those of a second implementation, which adds whole numbers digit by digit and
 * compares the candidates of the rounding. Pairs of 16-bit values, random values of all exponents, ties
 * and their neighbours, divisors, specials, any order.
 */
#include "kernels/codec/cost.h"
#include "kernels/none/exact.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"
#include "tests/unit/none/families.h"

/* -- a second implementation --------------------------------------------------------------------------------------- */

enum { DIGITS = 460, POINT = 160 }; /* binary digits; digit POINT is worth 1 */

/* Sign and binary digits. A digit may have any value until carry() is called. */
struct number {
  int32_t digit[DIGITS];
};

/* Adds times * x, a finite double. */
static void add_number(struct number *sum, double x, int32_t times) {
  int exponent;
  double mantissa = frexp(fabs(x), &exponent); /* in [0.5, 1), or 0 */
  for (int at = POINT + exponent - 1; mantissa > 0; at--) {
    mantissa *= 2;
    if (mantissa >= 1) {
      sum->digit[at] += x < 0 ? -times : times;
      mantissa -= 1;
    }
  }
}

/* The sign of a number: all digits become 0 or 1, but the highest one, which carries the sign. */
static int sign_of_number(struct number *sum) {
  int any = 0;
  for (int at = 0; at < DIGITS - 1; at++) {
    const int32_t bit = sum->digit[at] & 1;
    sum->digit[at + 1] += (sum->digit[at] - bit) / 2;
    sum->digit[at] = bit;
    any |= bit;
  }
  return sum->digit[DIGITS - 1] < 0 ? -1 : sum->digit[DIGITS - 1] > 0 || any;
}

/* The next value of the type above x >= 0, as a double; 2^emax behind the largest. */
static double value_of(uint32_t bits, enum tagc_dtype dtype) {
  const int mantissa = dtype == TAGC_FLOAT32 ? 23 : dtype == TAGC_FLOAT16 ? 10 : 7;
  const int least = dtype == TAGC_FLOAT32 ? -149 : dtype == TAGC_FLOAT16 ? -24 : -133;
  const uint32_t field = bits >> mantissa, rest = bits & ((1u << mantissa) - 1);
  return ldexp(field ? (double)(rest | 1u << mantissa) : (double)rest, least + (field ? (int)field - 1 : 0));
}

/* The bits of (sum of `count` finite values) / divisor: the candidate that is nearest, by halving. */
static uint32_t slow_sum(const float *values, int count, uint32_t divisor, enum tagc_dtype dtype) {
  const uint32_t infinity = tagc_exact_infinity(dtype), sign = dtype == TAGC_FLOAT32 ? 0x80000000u : 0x8000u;
  struct number sum = {{0}};
  for (int i = 0; i < count; i++)
    add_number(&sum, (double)values[i], 1);
  struct number copy = sum;
  const int way = sign_of_number(&copy);
  if (way == 0)
    return 0;
  for (int i = 0; i < DIGITS && way < 0; i++)
    sum.digit[i] = -sum.digit[i];
  /* The number of midpoints between neighbours that lie below. */
  uint32_t low = 0, high = infinity;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    struct number rest = sum;
    /* 2 * sum - divisor * (value + next value) */
    for (int i = 0; i < DIGITS; i++)
      rest.digit[i] *= 2;
    add_number(&rest, value_of(middle, dtype), -(int32_t)divisor);
    add_number(&rest, value_of(middle + 1, dtype), -(int32_t)divisor);
    const int side = sign_of_number(&rest);
    if (side > 0 || (side == 0 && middle % 2 == 1))
      low = middle + 1;
    else
      high = middle;
  }
  return low | (way < 0 ? sign : 0);
}

/* -- helpers ------------------------------------------------------------------------------------------------------- */

static const char *const types[] = {"fp32", "fp16", "bf16"};

static struct sim precise_sim(uint64_t n, int nranks, enum tagc_dtype dtype) {
  return sim_new_stored("precise", n, nranks, dtype, 1000000, TAGC_STORAGE_NONE);
}

static uint32_t result_bits(const struct sim *sim, int rank, uint64_t i) {
  return bits_at(sim->in_place ? tagc_job_shard(&sim->job[rank], rank) : sim->job[rank].recv, i, sim->shape.dtype);
}

/* -- checks -------------------------------------------------------------------------------------------------------- */

static void check_example(void) {
  static const uint8_t bytes[16] = {0x80, 0x3f, 0x00, 0xc0, 0x00, 0x3f};
  struct sim sim = precise_sim(3, 2, TAGC_BFLOAT16);
  sim_put(&sim, 0, 1, 0, 1);
  sim_put(&sim, 0, 1, 1, -2);
  sim_put(&sim, 0, 1, 2, 0.5f);
  sim_step(&sim, 1);
  ok(sim.layout.message_bytes == 16 && memcmp(sim.job[1].message_in, bytes, 16) == 0,
     "the message is the one of the example");
  sim_free(&sim);
}

/* The second implementation itself, where doubles tell. */
static void check_slow(void) {
  uint64_t wrong = 0;
  for (uint32_t bits = 0; bits < 0x7f80; bits++) {
    const float one[] = {tagc_from_bf16((uint16_t)bits)};
    wrong += slow_sum(one, 1, 1, TAGC_BFLOAT16) != bits;
    wrong += bits % 251 == 0 && slow_sum(one, 1, 3, TAGC_FLOAT32) != tagc_bits_of((float)((double)one[0] / 3));
  }
  for (int i = 0; i < 2000; i++) {
    const float two[] = {sim_normal(), sim_normal()};
    wrong += slow_sum(two, 2, 1, TAGC_FLOAT32) != tagc_bits_of(two[0] + two[1]);
    wrong += slow_sum(two, 2, 1, TAGC_FLOAT16) != tagc_to_fp16((float)((double)two[0] + (double)two[1]));
  }
  ok(wrong == 0, "the reference agrees with the processor");
}

/* The sum of two finite 16-bit values, rounded once: a double holds it, unless one value is so small that it could only
 * break a tie, and there is none, for the other one has few bits. */
static uint32_t pair_sum(float a, float b, enum tagc_dtype dtype) {
  const double x = (double)a, y = (double)b, large = fabs(x) >= fabs(y) ? x : y, small = large == x ? y : x;
  const double sum = fabs(small) < fabs(large) * 0x1p-30 ? large : x + y;
  uint64_t bits;
  memcpy(&bits, &sum, 8);
  bits = (bits & ~(uint64_t)0x1fffffff) | (bits & 0x1fffffff ? 0x20000000 : 0); /* to odd, in 24 bits */
  double odd;
  memcpy(&odd, &bits, 8);
  return sum == 0 ? 0 : dtype == TAGC_FLOAT16 ? tagc_to_fp16((float)odd) : tagc_to_bf16((float)odd);
}

/* Pairs of each of these values and any finite value of the type; both ranks must say the same. Returns those that are
 * wrong. */
static uint64_t wrong_pairs(struct sim *sim, const uint16_t *firsts, uint32_t count) {
  const enum tagc_dtype dtype = sim->shape.dtype;
  const uint32_t infinity = tagc_exact_infinity(dtype), n = 2 * infinity;
  uint64_t wrong = 0;
  for (uint32_t f = 0; f < count; f++) {
    for (uint32_t i = 0; i < n; i++)
      for (int rank = 0; rank < 2; rank++)
        for (int shard = 0; shard < 2; shard++)
          put_bits(sim, rank, shard, i, rank == 0 ? firsts[f] : i < infinity ? i : 0x8000u + i - infinity);
    sim_step(sim, 1);
    for (uint32_t i = 0; i < n; i++) {
      const uint32_t want = pair_sum(sim_sent(sim, 0, 0, i), sim_sent(sim, 1, 0, i), dtype);
      wrong += result_bits(sim, 0, i) != want || result_bits(sim, 1, i) != want;
    }
  }
  return wrong;
}

static void check_pairs(enum tagc_dtype dtype) {
  static const uint16_t firsts[] = {0x0000, 0x8000, 0x0001, 0x8003, 0x007f, 0x0080, 0x80ff, 0x0400, 0x3c00, 0x3f80,
                                    0xbf80, 0x3f81, 0x3fff, 0x4049, 0xc2f7, 0x3b03, 0x7b00, 0x7bff, 0x1234, 0xf7ff};
  const uint32_t count = sizeof firsts / sizeof *firsts;
  struct sim sim = precise_sim(2 * tagc_exact_infinity(dtype), 2, dtype);
  const uint64_t wrong = wrong_pairs(&sim, firsts, count);
  ok(wrong == 0, "%s: pairs of %u values and all values (%llu wrong)", types[dtype], count, (unsigned long long)wrong);
  sim_free(&sim);
}

/* Pairs of bf16 go tile by tile, and those with an exception another way: one in four tiles, zeros of both signs. */
static void check_tiles(void) {
  enum { N = 4 * 512 + 77 };
  static const uint16_t unusual[] = {0x7f80, 0xff80, 0x7fc1, 0x7b80, 0xfb80, 0x7b7f};
  uint64_t wrong = 0, unseen = 0;
  for (size_t turn = 0; turn < 2 * sizeof unusual / sizeof *unusual; turn++) {
    struct sim sim = precise_sim(N, 2, TAGC_BFLOAT16);
    const uint16_t one = unusual[turn / 2];
    const uint32_t divisor = 1 + turn % 2;
    uint32_t *want = sim_memory(2 * N * sizeof *want);
    sim.in_place = turn % 3 == 0;
    for (int shard = 0; shard < 2; shard++)
      for (uint64_t i = 0; i < N; i++) {
        struct tagc_exact sum = {0};
        for (int rank = 0; rank < 2; rank++) {
          const uint32_t zero = rank == 0 || i % 3 ? 0x8000 : 0;
          put_bits(&sim, rank, shard, i, i % 5 ? draw_bits(NORMAL, rank, i, 1, TAGC_BFLOAT16) : zero);
          if (i == 700 + turn && rank == (int)(turn % 2))
            put_bits(&sim, rank, shard, i, one);
          tagc_exact_add(&sum, sim_sent(&sim, rank, shard, i));
        }
        want[(uint64_t)shard * N + i] = tagc_exact_round(&sum, divisor, TAGC_BFLOAT16);
      }
    for (int rank = 0; rank < 2; rank++)
      sim.job[rank].divisor = (float)divisor;
    sim_step(&sim, 1);
    for (int shard = 0; shard < 2; shard++) {
      unseen += sim.job[shard].nonfinite_seen != ((one & 0x7fff) >= 0x7b80);
      for (uint64_t i = 0; i < N; i++)
        wrong += result_bits(&sim, shard, i) != want[(uint64_t)shard * N + i];
    }
    free(want);
    sim_free(&sim);
  }
  ok(wrong == 0 && unseen == 0, "bf16: pairs with one exception in a tile, sums and averages (%llu wrong)",
     (unsigned long long)wrong);
}

/* Every pair of finite values, in both orders: 4,261 million, some twenty minutes. */
static void check_every_pair(void) {
  enum { PART = 0x7f80 / 51 };
  static uint16_t firsts[PART];
  struct sim sim = precise_sim(2 * 0x7f80, 2, TAGC_BFLOAT16);
  for (uint32_t sign = 0; sign < 2; sign++)
    for (uint32_t from = 0; from < 0x7f80; from += PART) {
      for (uint32_t f = 0; f < PART; f++)
        firsts[f] = (uint16_t)(sign << 15 | (from + f));
      const uint64_t wrong = wrong_pairs(&sim, firsts, PART);
      ok(wrong == 0, "bf16: all pairs from %04x on (%llu wrong)", firsts[0], (unsigned long long)wrong);
    }
  sim_free(&sim);
}

/* The bits of whole * 2^power, where the result is a normal bf16: whole numbers alone. */
static uint32_t rounded_whole(int64_t whole, int power) {
  const uint32_t sign = whole < 0 ? 0x8000u : 0;
  uint64_t rest = (uint64_t)(whole < 0 ? -whole : whole);
  int cut = 0;
  if (rest == 0)
    return 0;
  for (; rest < 128; power--)
    rest *= 2;
  while (rest >> cut >= 256)
    cut++;
  uint64_t kept = rest >> cut;
  const uint64_t twice = 2 * (rest - (kept << cut)), unit = UINT64_C(1) << cut;
  kept += twice > unit || (twice == unit && kept % 2 == 1);
  /* The hidden bit, and a carry into it, add one to the exponent. */
  return sign | (uint32_t)(((uint64_t)(power + cut + 133) << 7) + kept);
}

/* All pairs of mantissas and signs, at all distances of their exponents up to 40. Other pairs of normal values are
 * these times a power of two. */
static void check_mantissas(void) {
  enum { DISTANCES = 41, N = 2 * 128 * 128, POWER = -20 };
  struct sim sim = precise_sim(N, 2, TAGC_BFLOAT16);
  uint64_t wrong = 0;
  for (int distance = 0; distance < DISTANCES; distance++) {
    for (uint32_t i = 0; i < N; i++)
      for (int shard = 0; shard < 2; shard++) {
        put_bits(&sim, shard, shard, i, (uint32_t)(POWER + distance + 134) << 7 | (i & 127));
        put_bits(&sim, 1 - shard, shard, i, (i >> 14) << 15 | (uint32_t)(POWER + 134) << 7 | (i >> 7 & 127));
      }
    sim_step(&sim, 1);
    for (uint32_t i = 0; i < N; i++) {
      const int64_t large = (int64_t)(128 + (i & 127)) << distance, small = 128 + (i >> 7 & 127);
      const uint32_t want = rounded_whole(i >> 14 ? large - small : large + small, POWER);
      wrong += result_bits(&sim, 0, i) != want || result_bits(&sim, 1, i) != want;
    }
  }
  ok(wrong == 0, "bf16: all pairs of mantissas and signs, at %d distances (%llu wrong)", DISTANCES,
     (unsigned long long)wrong);
  sim_free(&sim);
}

static void check_random(uint64_t n, int nranks, uint32_t divisor, enum tagc_dtype dtype, bool in_place) {
  uint64_t wrong = 0;
  for (int family = 0; family < FAMILIES; family++) {
    struct sim sim = precise_sim(n, nranks, dtype);
    sim.in_place = in_place;
    uint32_t *want = sim_memory((size_t)nranks * n * sizeof *want);
    float values[64];
    for (int shard = 0; shard < nranks; shard++)
      for (uint64_t i = 0; i < n; i++) {
        for (int rank = 0; rank < nranks; rank++) {
          put_bits(&sim, rank, shard, i, draw_bits((enum family)family, rank, i, divisor, dtype));
          values[rank] = sim_sent(&sim, rank, shard, i);
        }
        want[(uint64_t)shard * n + i] = slow_sum(values, nranks, divisor, dtype);
      }
    for (int rank = 0; rank < nranks; rank++)
      sim.job[rank].divisor = (float)divisor;
    sim_step(&sim, 1);
    for (int shard = 0; shard < nranks; shard++)
      for (uint64_t i = 0; i < n; i++)
        wrong += result_bits(&sim, shard, i) != want[(uint64_t)shard * n + i];
    free(want);
    sim_free(&sim);
  }
  ok(wrong == 0, "%s: W=%d n=%llu, divided by %u%s: rounded once (%llu wrong)", types[dtype], nranks,
     (unsigned long long)n, divisor, in_place ? ", in place" : "", (unsigned long long)wrong);
}

/* The same values in any order, with a factor, and in any shard: the same bits. */
static void check_orders(enum tagc_dtype dtype, float scale) {
  enum { N = 300, W = 6, ORDERS = 40 };
  struct sim sim = precise_sim(N, W, dtype);
  uint32_t value[W][N], first[N] = {0};
  uint64_t moved = 0;
  for (int v = 0; v < W; v++)
    for (int i = 0; i < N; i++)
      value[v][i] = draw_bits(i % 3 == 0 ? OUTLIERS : NORMAL, v, (uint64_t)i, 1, dtype);
  for (int order = 0; order < ORDERS; order++) {
    int of[W];
    for (int r = 0; r < W; r++) {
      const int other = (int)(sim_random() % (uint64_t)(r + 1));
      of[r] = of[other];
      of[other] = r;
    }
    for (int rank = 0; rank < W; rank++) {
      sim.job[rank].scale = scale;
      sim.job[rank].divisor = 6;
      for (int shard = 0; shard < W; shard++)
        for (uint64_t i = 0; i < N; i++)
          put_bits(&sim, rank, shard, i, value[of[rank]][i]);
    }
    sim_step(&sim, (uint64_t)order);
    for (int rank = 0; rank < W; rank++)
      for (uint64_t i = 0; i < N; i++) {
        first[i] = order == 0 && rank == 0 ? result_bits(&sim, rank, i) : first[i];
        moved += result_bits(&sim, rank, i) != first[i];
      }
  }
  ok(moved == 0, "%s: %d orders of ranks, factor %g: the same bits for every owner", types[dtype], ORDERS,
     (double)scale);
  sim_free(&sim);
}

static void check_specials(enum tagc_dtype dtype) {
  const float inf = INFINITY, large = dtype == TAGC_FLOAT16   ? 65504
                                      : dtype == TAGC_FLOAT32 ? 0x1.fffffep127f
                                                              : 0x1.fep127f;
  const struct {
    float value[3], want;
  } cases[] = {
    {{NAN, 1, 2}, NAN},
    {{inf, 1, -2}, inf},
    {{1, -inf, 3}, -inf},
    {{inf, -inf, 0}, NAN},
    {{inf, NAN, -inf}, NAN},
    {{inf, inf, -large}, inf},
    {{large, large, 1}, inf},
    {{-large, -large, large}, -large},
    {{-0.0f, -0.0f, -0.0f}, 0},
    {{-0.0f, 0, -0.0f}, 0},
    {{1, -1, -0.0f}, 0},
    {{large, 1, -large}, 1},
    {{0x1p-149f, -1, 1}, dtype == TAGC_FLOAT32 ? 0x1p-149f : 0},
  };
  enum { CASES = sizeof cases / sizeof *cases };
  struct sim sim = precise_sim(CASES, 3, dtype);
  int wrong = 0;
  for (int turn = 0; turn < 3; turn++) {
    for (int c = 0; c < CASES; c++)
      for (int rank = 0; rank < 3; rank++)
        for (int shard = 0; shard < 3; shard++)
          sim_put(&sim, rank, shard, (uint64_t)c, cases[c].value[(rank + turn) % 3]);
    sim_step(&sim, 1);
    for (int shard = 0; shard < 3; shard++)
      for (int c = 0; c < CASES; c++) {
        uint8_t want[4] = {0};
        tagc_store(want, 0, dtype, isnan(cases[c].want) ? tagc_float_of(TAGC_NAN_BITS) : cases[c].want);
        wrong += result_bits(&sim, shard, (uint64_t)c) != bits_at(want, 0, dtype);
      }
    wrong += !sim.job[0].nonfinite_seen;
  }
  ok(wrong == 0, "%s: NaN, infinities, zeros, overflow (%d wrong)", types[dtype], wrong);
  sim_free(&sim);
}

/* A small negative average rounds to -0. */
static void check_small_average(void) {
  struct sim sim = precise_sim(2, 3, TAGC_BFLOAT16);
  for (int rank = 0; rank < 3; rank++)
    sim.job[rank].divisor = 3;
  put_bits(&sim, 1, 0, 0, 0x8001);
  put_bits(&sim, 1, 0, 1, 0x8002);
  sim_step(&sim, 1);
  ok(result_bits(&sim, 0, 0) == 0x8000 && result_bits(&sim, 0, 1) == 0x8001, "averages below a unit round once");
  sim_free(&sim);
}

/* Where fp32 in rank order goes wrong: one large value, and many small ones that cancel nothing. */
static void check_error(void) {
  enum { N = 4096, W = 8 };
  struct sim sim = precise_sim(N, W, TAGC_BFLOAT16);
  double error = 0, norm = 0, want[N] = {0};
  for (int rank = 0; rank < W; rank++)
    for (uint64_t i = 0; i < N; i++) {
      sim_put(&sim, rank, 0, i, sim_normal());
      want[i] += (double)sim_sent(&sim, rank, 0, i);
    }
  sim_step(&sim, 1);
  for (uint64_t i = 0; i < N; i++) {
    error += pow((double)sim_got(&sim, 0, i) - want[i], 2);
    norm += want[i] * want[i];
  }
  ok(sqrt(error / norm) < 0.0018, "normal bf16 over %d ranks: relative error %.5f", W, sqrt(error / norm));
  sim_free(&sim);
}

static void check_layout(void) {
  struct tagc_layout layout;
  struct tagc_shape shape = {.n = 1000, .nranks = 4, .dtype = TAGC_BFLOAT16, .keep_ppm = 1};
  const struct tagc_codec *precise = tagc_codec_find("precise");
  ok(precise->layout(&shape, &layout) && tagc_layout_wire_bytes(&shape, &layout) == tagc_plain_wire_bytes(&shape),
     "costs the bytes of a plain call");
  shape.nranks = TAGC_EXACT_DIVISOR + 1;
  ok(!precise->layout(&shape, &layout), "more ranks than sums hold are refused");
}

static void check_all(void) {
  sim_random_restart();
  check_example();
  check_layout();
  check_small_average();
  check_error();
  check_mantissas();
  check_pairs(TAGC_BFLOAT16);
  check_pairs(TAGC_FLOAT16);
  check_tiles();
  for (int dtype = 0; dtype < 3; dtype++) {
    static const struct {
      int nranks;
      uint32_t divisor;
    } shapes[] = {{2, 1}, {2, 2}, {3, 3}, {5, 1}, {7, 7}, {8, 8}, {16, 1}, {3, 1000003}, {4, 16777216}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      check_random(s == 0 ? 1 : 83, shapes[s].nranks, shapes[s].divisor, (enum tagc_dtype)dtype, s % 2);
    check_orders((enum tagc_dtype)dtype, 1);
    check_orders((enum tagc_dtype)dtype, 0.3f);
    check_specials((enum tagc_dtype)dtype);
  }
}

/* Word: `every` tries every pair of bf16 values. */
int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "every") == 0) {
    check_every_pair();
    return tap_done();
  }
  check_slow();
  with_each_variant(check_all);
  return tap_done();
}
