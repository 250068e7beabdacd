/* SPDX-License-Identifier: BSD-3-Clause
 * Every codec with values that are not finite, or too large for it: they arrive at their places and touch nothing else.
 * Too many make that shard NaN and no other; every rank knows; the next call shows no trace. Further: finite values
 * whose result is infinite, one huge value among tiny ones, and values too small for a codec, which stay in the
 * residual or are counted.
 */
#include "tests/unit/codec/cases.h"
#include "tests/unit/codec/reference.h"
#include "tests/unit/codec/variants.h"

static bool is(const struct tagc_codec *codec, const char *name) { return strcmp(codec->name, name) == 0; }

/* Sends every value as it is. */
static bool is_whole(const struct tagc_codec *codec) { return is(codec, "none") || is(codec, "precise"); }

static struct sim sim_for(const struct tagc_codec *codec, uint64_t n, int nranks, enum tagc_dtype dtype) {
  return sim_of(codec, &(struct tagc_shape){.n = n,
                                            .nranks = nranks,
                                            .dtype = dtype,
                                            .keep_ppm = 200000,
                                            .residual = codec->needs_residual ? TAGC_STORAGE_FP32 : TAGC_STORAGE_NONE});
}

struct bad {
  int rank, shard;
  uint64_t at;
  float value;
};

/* A call on the same gradients with some bad values, and without (zeros instead). */
struct pair {
  struct sim with, without;
  bool none; /* a codec without exceptions */
};

static struct pair pair_new(const struct tagc_codec *codec, uint64_t n, int nranks, enum tagc_dtype dtype) {
  return (struct pair){
    .with = sim_for(codec, n, nranks, dtype), .without = sim_for(codec, n, nranks, dtype), .none = is_whole(codec)};
}

static void pair_step(struct pair *pair, uint64_t seed, const struct bad *bad, int count) {
  sim_random_state = 1000 + seed;
  case_fill(&pair->with, GAUSS);
  sim_copy_sent(&pair->without, &pair->with);
  for (int b = 0; b < count; b++) {
    sim_put(&pair->with, bad[b].rank, bad[b].shard, bad[b].at, bad[b].value);
    sim_put(&pair->without, bad[b].rank, bad[b].shard, bad[b].at, 0);
  }
  sim_step(&pair->with, seed);
  sim_step(&pair->without, seed);
}

static void pair_free(struct pair *pair) {
  sim_free(&pair->with);
  sim_free(&pair->without);
}

/* The sum of the bad values at a place; 0 if there are none. */
static float bad_at(const struct sim *sim, const struct bad *bad, int count, int shard, uint64_t at) {
  float sum = 0;
  for (int b = 0; b < count; b++)
    if (bad[b].shard == shard && bad[b].at == at)
      sum += sim_sent(sim, bad[b].rank, shard, at);
  return sum;
}

static bool same(float a, float b) { return isnan(b) ? isnan(a) : a == b; }

static int seen_by(const struct sim *sim) {
  int seen = 0;
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    seen += sim->job[rank].nonfinite_seen;
  return seen;
}

/* Counts wrong results: the bad sum at its place, the result without bad values elsewhere, and NaN all over `lost`. */
static uint64_t count_wrong(const struct pair *pair, const struct bad *bad, int count, int lost) {
  uint64_t wrong = 0;
  for (int rank = 0; rank < pair->with.shape.nranks; rank++)
    for (uint64_t i = 0; i < pair->with.shape.n; i++) {
      const float sum = bad_at(&pair->with, bad, count, rank, i);
      const float want = rank == lost ? NAN : sum == 0 ? sim_got(&pair->without, rank, i) : sum;
      wrong += !same(sim_got(&pair->with, rank, i), want);
    }
  return wrong;
}

/* The number of differences between the residuals, which must be zero at the bad values. */
static uint64_t count_traces(const struct pair *pair, const struct bad *bad, int count) {
  const uint64_t n = pair->with.shape.n;
  float *a = sim_memory(n * sizeof *a), *b = sim_memory(n * sizeof *b);
  uint64_t traces = 0;
  for (int rank = 0; rank < pair->with.shape.nranks; rank++)
    for (int shard = 0; shard < pair->with.shape.nranks; shard++) {
      case_residual(&pair->with, rank, shard, a);
      case_residual(&pair->without, rank, shard, b);
      traces += memcmp(a, b, n * sizeof *a) != 0;
      for (int i = 0; i < count; i++)
        traces += bad[i].rank == rank && bad[i].shard == shard && a[bad[i].at] != 0;
    }
  free(a);
  free(b);
  return traces;
}

/* Bad values at the edges of the shard and of blocks, from several ranks, in own shards, and opposing each other. */
static void check_places(const struct tagc_codec *codec, uint64_t n, int nranks, enum tagc_dtype dtype, float value) {
  const int last = nranks - 1;
  const struct bad bad[] = {
    {0, 1, 0, value},
    {0, 1, n - 1, -value},
    {last, 0, n / 2, value},
    {0, 0, n / 2, value},
    {last, last, n / 3, -value},
    {0, last, n > 256 ? 255 : 0, value},
    {0, last, n > 256 ? 256 : n - 1, value},
    {last, 0, n - 1, -INFINITY},
    {0, 0, n - 1, INFINITY},
  };
  const int count = n > 600 ? sizeof bad / sizeof *bad : 1; /* as many as fit */
  struct pair pair = pair_new(codec, n, nranks, dtype);
  uint64_t wrong = 0, travelled = 0, expected = 0;
  int seen = 0, later = 0;
  pair_step(&pair, 1, bad, count);
  wrong += count_wrong(&pair, bad, count, -1) + count_traces(&pair, bad, count);
  seen += pair.none || seen_by(&pair.with) == nranks;
  later += seen_by(&pair.without);
  travelled = pair.with.stats.nonfinite;
  for (int b = 0; b < count; b++)
    expected += !pair.none && bad[b].rank != bad[b].shard;
  pair_step(&pair, 2, NULL, 0);
  wrong += count_wrong(&pair, NULL, 0, -1) + count_traces(&pair, NULL, 0);
  later += seen_by(&pair.with);
  ok(wrong == 0 && seen && !later && travelled == expected && pair.with.stats.overflowed == 0,
     "%s: n=%llu W=%d type %d: %g stays at its places", codec->name, (unsigned long long)n, nranks, dtype,
     (double)value);
  pair_free(&pair);
}

static void check_too_many(const struct tagc_codec *codec, uint64_t n, enum tagc_dtype dtype, bool fit) {
  const int count = (int)tagc_exceptions_capacity(n) + !fit;
  struct bad *bad = calloc((size_t)count, sizeof *bad);
  struct pair pair = pair_new(codec, n, 3, dtype);
  for (int b = 0; b < count; b++)
    bad[b] = (struct bad){.rank = 2, .shard = 1, .at = (uint64_t)b * (n / (uint64_t)count), .value = INFINITY};
  pair_step(&pair, 1, bad, count);
  const uint64_t wrong = count_wrong(&pair, bad, count, fit ? -1 : 1) + count_traces(&pair, bad, count);
  const bool told = seen_by(&pair.with) == 3 && pair.with.stats.overflowed == !fit;
  pair_step(&pair, 2, NULL, 0);
  ok(wrong == 0 && told && count_wrong(&pair, NULL, 0, -1) == 0 && seen_by(&pair.with) == 0,
     "%s: n=%llu type %d: %d exceptions %s", codec->name, (unsigned long long)n, dtype, count,
     fit ? "fit" : "make that shard NaN, and no other");
  free(bad);
  pair_free(&pair);
}

/* Every third value of rank 2 is bad: the shards that it sends become NaN, its own has them at their places. */
static void check_third(const struct tagc_codec *codec, float value) {
  enum { N = 1009, W = 3 };
  struct sim sim = sim_for(codec, N, W, TAGC_FLOAT32);
  uint64_t nans[W] = {0}, wrong = 0;
  case_fill(&sim, GAUSS);
  for (int shard = 0; shard < W; shard++)
    for (uint64_t i = 0; i < N; i += 3)
      sim_put(&sim, 2, shard, i, value);
  sim_step(&sim, 1);
  for (int rank = 0; rank < W; rank++)
    for (uint64_t i = 0; i < N; i++) {
      nans[rank] += isnan(sim_got(&sim, rank, i)) != 0;
      wrong += rank == 2 && i % 3 != 0 && !isfinite(sim_got(&sim, rank, i));
    }
  ok(nans[0] == N && nans[1] == N && nans[2] == (isnan(value) ? (N + 2) / 3 : 0) && wrong == 0 &&
       sim.stats.overflowed == 2 && seen_by(&sim) == W,
     "%s: every third value of a rank is %g: of %d sums %llu and %llu come out NaN, of its own shard %llu", codec->name,
     (double)value, N, (unsigned long long)nans[0], (unsigned long long)nans[1], (unsigned long long)nans[2]);
  sim_free(&sim);
}

/* A value of the owner and one of each other rank, at one place: is what becomes of them infinite, without errors of a
 * codec? */
static const struct overflow {
  enum tagc_dtype dtype;
  int nranks;
  float own, other, divisor;
  bool infinite;
} overflows[] = {
  {TAGC_FLOAT16, 2, 40000, 40000, 1, true},
  {TAGC_FLOAT16, 2, 40000, 40000, 2, false},
  {TAGC_FLOAT16, 3, -40000, -40000, 1, true},
  {TAGC_FLOAT16, 3, 60000, 60000, 2, true},
  {TAGC_FLOAT16, 3, 60000, 60000, 3, false},
  {TAGC_FLOAT16, 2, 65504, 16, 1, true},
  {TAGC_FLOAT16, 2, 65504, 15, 1, false},
  {TAGC_BFLOAT16, 2, 0x1p119f, 0x1p119f, 0x1p-8f, true},
  {TAGC_BFLOAT16, 2, 0x1.fep118f, 0x1.fep118f, 0x1p-8f, false},
  {TAGC_BFLOAT16, 2, 0x1.fep119f, 0x1.fep119f, 1, false},
  {TAGC_FLOAT32, 2, -0x1p119f, -0x1p119f, 0x1p-8f, true},
  {TAGC_FLOAT32, 2, 0x1.fffffep118f, 0x1.fffffep118f, 0x1p-8f, false},
  {TAGC_FLOAT32, 3, 0x1p119f, 0x1p119f, 0x1.8p-8f, true},
  {TAGC_FLOAT32, 2, 0x1p119f, 0x1p119f, 1, false},
};

/* The owner says what it stored, at the start, in the middle and at the end of a shard; the others know of nothing. */
static void check_result(const struct tagc_codec *codec, const struct overflow *o, uint64_t n) {
  const uint64_t places[] = {0, n / 2, n - 1};
  int wrong = 0;
  if (is(codec, "precise") && o->divisor < 1) /* it divides by whole numbers */
    return;
  for (int p = 0; p < 3; p++) {
    struct sim sim = sim_for(codec, n, o->nranks, o->dtype);
    case_fill(&sim, GAUSS);
    for (int rank = 0; rank < o->nranks; rank++) {
      sim_put(&sim, rank, 1, places[p], rank == 1 ? o->own : o->other);
      sim.job[rank].divisor = o->divisor;
    }
    sim_step(&sim, 3);
    for (int rank = 0; rank < o->nranks; rank++) {
      bool infinite = false;
      for (uint64_t i = 0; i < n; i++)
        infinite |= !isfinite(sim_got(&sim, rank, i));
      wrong += sim.job[rank].nonfinite_seen != infinite;
      wrong += is_whole(codec) && infinite != (rank == 1 && o->infinite);
    }
    sim_free(&sim);
  }
  ok(wrong == 0, "%s: n=%llu W=%d type %d: the result of %g and %g, over %g, is known not to be finite if it is not",
     codec->name, (unsigned long long)n, o->nranks, o->dtype, (double)o->own, (double)o->other, (double)o->divisor);
}

/* A rank that knows of an earlier call of the cycle tells the others, and no message has values for that. */
static void check_earlier(const struct tagc_codec *codec) {
  struct sim sim = sim_for(codec, 601, 3, TAGC_FLOAT16);
  case_fill(&sim, GAUSS);
  sim.job[2].nonfinite_before = true;
  sim_step(&sim, 1);
  const int seen = seen_by(&sim);
  sim.job[2].nonfinite_before = false;
  sim_step(&sim, 2);
  ok(seen == 3 && sim.stats.nonfinite == 0 && seen_by(&sim) == 0, "%s: all hear of an earlier call", codec->name);
  sim_free(&sim);
}

/* Three blocks of tiny values from rank 0 to rank 1, with a huge one in the second block. The blocks beside it are as
 * exact as without it. In its own block bf16 keeps all, and q8 those that reach half a step; q3 makes zeros of the half
 * block with it, and keeps the other half. q4 and q2 spread the huge
 * value's error over the block. sparse and lhc send the huge one, and the largest others that fit. */
static void check_spike(const struct tagc_codec *codec, uint64_t place, float huge) {
  const uint64_t n = 768;
  struct sim sim = sim_for(codec, n, 2, TAGC_FLOAT32);
  const enum reference_kind kind = reference_find(codec->name);
  float x[768], left[768];
  uint64_t wrong = 0, kept = 0, exact = 0;
  for (uint64_t i = 0; i < n; i++) {
    x[i] = i == 256 + place ? huge : 0.01f * sim_normal();
    sim_put(&sim, 0, 1, i, x[i]);
  }
  sim_step(&sim, 8);
  case_residual(&sim, 0, 1, left);
  for (uint64_t i = 0; i < n; i++) {
    const float got = sim_got(&sim, 1, i), wide = fabsf(x[i] - got - left[i]);
    const bool dense = kind < REFERENCE_SPARSE, near = i / 256 == 1;
    wrong += dense ? (double)fabsf(got - x[i]) > reference_error(kind, x + i / 256 * 256, 256, false)
                   : wide > 1e-7f * fabsf(x[i]);
    kept += near && i != 256 + place && got != 0;
    exact += near && fabsf(got - x[i]) <= fabsf(x[i]) / 256;
  }
  const float spike = sim_got(&sim, 1, 256 + place);
  wrong += !(fabsf(spike - huge) <= fabsf(huge) / (is(codec, "q8") ? 127 : 100));
  if (is(codec, "bf16") || is_whole(codec))
    wrong += exact != 256;
  if (is(codec, "q8"))
    wrong += kept != 0;
  if (is(codec, "sparse"))
    wrong += sim.stats.selected != sim.layout.capacity; /* rank 1 sends only zeros */
  ok(wrong == 0, "%s: %g at %llu among 255 tiny values, of which %llu arrive", codec->name, (double)huge,
     (unsigned long long)place, (unsigned long long)(exact - (exact > 0)));
  sim_free(&sim);
}

/* The largest error of an element stays within the format's bound, rounded to nearest and stochastically. */
static void check_accuracy(const struct tagc_codec *codec, enum pattern pattern, bool stochastic) {
  const uint64_t n = 1009;
  struct sim sim = sim_for(codec, n, 3, TAGC_FLOAT32);
  const enum reference_kind kind = reference_find(codec->name);
  double worst = 0;
  case_fill(&sim, pattern);
  for (int rank = 0; rank < 3; rank++)
    sim.job[rank].stochastic = stochastic;
  sim_step(&sim, 21);
  for (int shard = 0; shard < 3; shard++)
    for (uint64_t from = 0; from < n; from += 256) {
      const uint64_t count = n - from < 256 ? n - from : 256;
      double bound = 0, want[256] = {0}, most = 0;
      for (int rank = 0; rank < 3; rank++) {
        float x[256];
        for (uint64_t i = 0; i < count; i++) {
          x[i] = sim_sent(&sim, rank, shard, from + i);
          want[i] += (double)x[i];
          most = fmax(most, fabs((double)x[i]));
        }
        bound += rank == shard ? 0 : reference_error(kind, x, count, stochastic);
      }
      for (uint64_t i = 0; i < count; i++)
        worst = case_worse(worst, fabs((double)sim_got(&sim, shard, from + i) - want[i]) / (bound + 1e-6 * most));
    }
  ok(worst <= 1, "%s: pattern %d%s: the error is %.2f of what is allowed", codec->name, (int)pattern,
     stochastic ? ", by chance" : "", worst);
  sim_free(&sim);
}

/* -- too small ------------------------------------------------------------------------------------------------ */

/* The shares of rank 0's values for the others: in the results of some calls, and in its residual. */
struct share {
  double out, kept;
};

static struct share share_of(struct sim *sim, float value, int calls) {
  const uint64_t n = sim->shape.n;
  struct share share = {0};
  float *kept = sim_memory(n * sizeof *kept);
  sim_clear(sim);
  for (uint64_t i = 0; i < n; i++)
    sim_put(sim, 0, 1, i, value);
  for (int call = 0; call < calls; call++) {
    sim_step(sim, 7 + (uint64_t)call);
    for (uint64_t i = 0; i < n; i++)
      share.out += (double)sim_got(sim, 1, i);
  }
  case_residual(sim, 0, 1, kept);
  for (uint64_t i = 0; i < n; i++)
    share.kept += (double)kept[i];
  free(kept);
  const double given = (double)n * calls * (double)value;
  return (struct share){share.out / given, share.kept / given};
}

/* True if the codec does not treat the value as zero. */
static bool carries(const struct tagc_codec *codec, float value) {
  const enum reference_kind kind = reference_find(codec->name);
  return is_whole(codec) || value >= (kind < REFERENCE_KINDS ? reference_codecs[kind].least : 0x1p-120f);
}

/* Eight calls with one small value everywhere: all of it is in the results or the residual, or all of it is counted.
 * int8 also counts residuals of sent values that it cannot keep. */
static void check_small(const struct tagc_codec *codec, enum tagc_storage storage, float value) {
  enum { N = 600, CALLS = 8 };
  struct tagc_shape shape = {.n = N, .nranks = 2, .dtype = TAGC_FLOAT32, .keep_ppm = 1000000, .residual = storage};
  if (codec->needs_residual && !storage)
    return;
  struct sim sim = sim_of(codec, &shape);
  const struct share share = share_of(&sim, value, CALLS);
  const bool keeps = storage == TAGC_STORAGE_FP32 || storage == TAGC_STORAGE_BF16;
  /* Only q3 and q2 are off by more than a tenth: equal values are no level of q3. */
  const bool there = fabs(share.out + share.kept - 1) < (storage ? 0.05 : 0.2);
  const bool all_lost = sim.stats.lost == N * CALLS && share.out == 0 && share.kept == 0;
  ok(carries(codec, value) || keeps ? there && (sim.stats.lost == 0 || storage == TAGC_STORAGE_INT8) : all_lost,
     "%s, residual %d, %g: %.0f%% came out in eight calls, %.0f%% stays, %llu of %d are lost", codec->name, storage,
     (double)value, 100 * share.out, 100 * share.kept, (unsigned long long)sim.stats.lost, N * CALLS);
  sim_free(&sim);
}

static void check_all(void) {
  static const float values[] = {NAN, INFINITY, 0x1p120f, -0x1.fffffep127f};
  static const uint64_t sizes[] = {2, 601, 1009};
  sim_random_restart();
  for (const struct tagc_codec *const *codec = tagc_codecs; *codec; codec++) {
    for (int v = 0; v < 4; v++)
      for (int size = 0; size < 3; size++)
        for (int dtype = 0; dtype < 3; dtype++)
          check_places(*codec, sizes[size], 2 + (size + dtype) % 3, (enum tagc_dtype)dtype, values[v]);
    check_places(*codec, 1009, 64, TAGC_BFLOAT16, INFINITY);
    for (size_t i = 0; i < sizeof overflows / sizeof *overflows; i++) {
      check_result(*codec, &overflows[i], 40);
      check_result(*codec, &overflows[i], 1009);
    }
    for (int size = 1; size < 3 && !is_whole(*codec); size++) {
      check_too_many(*codec, sizes[size], (enum tagc_dtype)size, true);
      check_too_many(*codec, sizes[size], (enum tagc_dtype)size, false);
    }
    if (!is_whole(*codec)) {
      check_earlier(*codec);
      check_third(*codec, NAN);
      check_third(*codec, 1e38f);
    }
    check_spike(*codec, 0, 1000);
    check_spike(*codec, 255, -1000);
    check_spike(*codec, 100, 0x1.8p119f);
    for (int chance = 0; chance < 2 && reference_find((*codec)->name) < REFERENCE_SPARSE; chance++) {
      check_accuracy(*codec, GAUSS, chance);
      check_accuracy(*codec, SPIKE_LAST, chance);
      check_accuracy(*codec, TIES, chance);
      check_accuracy(*codec, WIDE, chance);
    }
    for (int storage = TAGC_STORAGE_NONE; storage <= TAGC_STORAGE_INT8; storage++) {
      check_small(*codec, (enum tagc_storage)storage, 0x1p-100f);
      check_small(*codec, (enum tagc_storage)storage, 0x1.8p-112f);
      check_small(*codec, (enum tagc_storage)storage, 0x1p-125f);
    }
  }
}

int main(void) {
  with_each_variant(check_all);
  return tap_done();
}
