/* SPDX-License-Identifier: BSD-3-Clause
 * Properties of every codec, for any payload. Sizes are pure and small, equal inputs give equal bits, and nothing else
 * is read or written. The own shard is exact, and values that are not finite touch nothing else. The result is
 * homogeneous and odd, and sending it again reproduces it if the format allows.
 */
#include "kernels/codec/cost.h"
#include "tests/unit/codec/cases.h"
#include "tests/unit/codec/reference.h"
#include "tests/unit/codec/variants.h"
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

static bool is(const struct tagc_codec *codec, const char *name) { return strcmp(codec->name, name) == 0; }

/* Sends every value as it is. */
static bool is_whole(const struct tagc_codec *codec) { return is(codec, "none") || is(codec, "precise"); }

static bool is_rotated(const struct tagc_codec *codec) { return is(codec, "q4") || is(codec, "q2"); }

/* True if the values of all codes are known, and the layout has at most an fp32 residual. */
static bool is_known(const struct tagc_codec *codec) { return reference_find(codec->name) != REFERENCE_KINDS; }

static struct tagc_shape shape_of(const struct tagc_codec *codec, uint64_t n, int nranks, enum tagc_dtype dtype) {
  return (struct tagc_shape){.n = n,
                             .nranks = nranks,
                             .dtype = dtype,
                             .keep_ppm = 200000,
                             .residual = codec->needs_residual ? TAGC_STORAGE_FP32 : TAGC_STORAGE_NONE};
}

static struct sim sim_for(const struct tagc_codec *codec, uint64_t n, int nranks, enum tagc_dtype dtype) {
  const struct tagc_shape shape = shape_of(codec, n, nranks, dtype);
  return sim_of(codec, &shape);
}

/* -- sizes ---------------------------------------------------------------------------------------------------- */

static bool multiples_of_16(const struct tagc_layout *l) {
  return l->exponent_bytes % 16 == 0 && 4 * l->sketch_count % 16 == 0 && l->message_bytes % 16 == 0 &&
         l->state_bytes % 16 == 0;
}

/* Computes the layout twice into memory of different content; ends in *out. */
static bool layout_is_pure(const struct tagc_codec *codec, const struct tagc_shape *shape, struct tagc_layout *out) {
  struct tagc_layout again;
  memset(out, 0x5a, sizeof *out);
  memset(&again, 0xa5, sizeof again);
  const struct tagc_shape same = *shape;
  return codec->layout(shape, out) && codec->layout(&same, &again) && memcmp(out, &again, sizeof again) == 0;
}

static void check_sizes(const struct tagc_codec *codec) {
  struct tagc_layout layout, before = {0};
  uint64_t impure = 0, odd = 0, smaller = 0, loose = 0;
  for (uint64_t n = 1; n < 300000; n += n < 1500 ? 1 : n / 9) {
    struct tagc_shape shape = shape_of(codec, n, 2 + (int)(n % 7), (enum tagc_dtype)(n % 3));
    impure += !layout_is_pure(codec, &shape, &layout);
    odd += !multiples_of_16(&layout);
    loose += layout.capacity == 0 || layout.capacity > n;
    shape.nranks = 4;
    shape.dtype = TAGC_FLOAT32;
    loose += !codec->layout(&shape, &layout);
    /* A sketch begins at some size, and is cut in whole stripes. */
    smaller += !is(codec, "lhc") && layout.message_bytes < before.message_bytes;
    before = layout;
  }
  ok(impure == 0, "%s: equal shapes have equal layouts", codec->name);
  ok(odd == 0 && loose == 0, "%s: parts of 16 bytes, room for 1 to n values", codec->name);
  ok(smaller == 0, "%s: more elements never take less", codec->name);
}

/* Shapes that every codec must refuse: sizes or positions of exceptions would overflow. */
static void check_refusals(const struct tagc_codec *codec) {
  struct tagc_layout layout;
  struct tagc_shape none = shape_of(codec, 0, 2, TAGC_FLOAT32), alone = shape_of(codec, 100, 1, TAGC_FLOAT32);
  struct tagc_shape endless = shape_of(codec, UINT64_MAX, 2, TAGC_FLOAT32);
  struct tagc_shape wide = shape_of(codec, UINT64_MAX / 2 + 3, 2, TAGC_FLOAT16);
  struct tagc_shape positions = shape_of(codec, (uint64_t)UINT32_MAX + 2, 2, TAGC_FLOAT32);
  ok(!codec->layout(&none, &layout) && !codec->layout(&alone, &layout) && !codec->layout(&endless, &layout) &&
       !codec->layout(&wide, &layout) && (is_whole(codec) || !codec->layout(&positions, &layout)),
     "%s: shapes of nothing, of one rank, and of too much are refused", codec->name);
}

static void check_bits_an_element(const struct tagc_codec *codec) {
  static const struct {
    const char *name;
    double bits;
  } limits[] = {
    {"none", 32.001}, {"precise", 32.001}, {"bf16", 16.1}, {"q8", 8.1},
    {"q4", 4.2},      {"q3", 3.15},        {"q2", 2.1},    {"sparse", 1.35},
  };
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    for (uint64_t n = 1000003; is(codec, limits[i].name) && n < 1u << 30; n *= 31) {
      struct tagc_shape shape = shape_of(codec, n, 8, TAGC_FLOAT32);
      struct tagc_layout layout;
      shape.keep_ppm = 50000;
      const bool there = codec->layout(&shape, &layout);
      const double bits = 8 * (double)tagc_layout_wire_bytes(&shape, &layout) / 7 / (double)n;
      ok(there && bits <= limits[i].bits, "%s: %.4f bits an element of %llu", codec->name, bits, (unsigned long long)n);
    }
}

/* -- the same bits -------------------------------------------------------------------------------------------- */

/* Hashes all that the ranks send, receive and keep (FNV-1a), on top of `hash`. */
static uint64_t digest(const struct sim *sim, uint64_t hash) {
  for (int rank = 0; rank < sim->shape.nranks; rank++) {
    const struct tagc_job *job = &sim->job[rank];
    const struct {
      const void *at;
      size_t bytes;
    } parts[] = {
      {case_result(sim, rank), case_result_bytes(sim)},
      {job->exponents, (size_t)sim->shape.nranks * sim->layout.exponent_bytes},
      {job->sketch_in, 4 * sim->layout.sketch_count},
      {job->message_in, (size_t)rank * sim->layout.message_bytes},
      {job->message_in + (size_t)(rank + 1) * sim->layout.message_bytes,
       (size_t)(sim->shape.nranks - rank - 1) * sim->layout.message_bytes},
      {job->residual, sim->shape.residual == TAGC_STORAGE_FP32 ? tagc_residual_bytes(&sim->shape) : 0},
    };
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
      for (size_t i = 0; i < parts[p].bytes; i++)
        hash = (hash ^ ((const uint8_t *)parts[p].at)[i]) * 0x100000001b3u;
  }
  return hash;
}

struct how {
  uint64_t seed;
  bool stochastic, in_place;
  unsigned modes; /* of the processor; 0: unchanged */
};

static unsigned modes_set(unsigned modes) {
#ifdef __x86_64__
  const unsigned before = _mm_getcsr();
  if (modes)
    _mm_setcsr(modes);
  return before;
#else
  return modes;
#endif
}

/* Runs some calls on the same gradients. *modes_kept: the caller's modes and sticky flags were left unchanged. */
static uint64_t digest_of(const struct tagc_codec *codec, struct how how, bool *modes_kept) {
  static const enum pattern patterns[] = {GAUSS, DENORMAL, SPIKE_LAST, WIDE, FEW_EXCEPTIONS};
  uint64_t hash = 0xcbf29ce484222325u;
  struct sim sim = sim_for(codec, 1009, 3, TAGC_FLOAT32);
  sim.in_place = how.in_place;
  for (int call = 0; call < 5; call++) {
    sim_random_state = 77 + (uint64_t)call;
    case_fill(&sim, patterns[call]);
    for (int rank = 0; rank < 3; rank++) {
      sim.job[rank].stochastic = how.stochastic;
      sim.job[rank].scale = 0.3f;
      sim.job[rank].divisor = 3;
    }
    const unsigned before = modes_set(how.modes);
    sim_step(&sim, how.seed);
    const unsigned after = modes_set(before);
    *modes_kept &= !how.modes || how.modes == after;
    hash = digest(&sim, hash);
  }
  sim_free(&sim);
  return hash;
}

static void check_bits(const struct tagc_codec *codec) {
  bool kept = true;
  const uint64_t first = digest_of(codec, (struct how){.seed = 5}, &kept);
  const uint64_t chance = digest_of(codec, (struct how){.seed = 5, .stochastic = true}, &kept);
  ok(first == digest_of(codec, (struct how){.seed = 5}, &kept) &&
       chance == digest_of(codec, (struct how){.seed = 5, .stochastic = true}, &kept),
     "%s: twice the same bits", codec->name);
  if (is_rotated(codec))
    ok(first != digest_of(codec, (struct how){.seed = 6}, &kept), "%s: another rotation every call", codec->name);
  else if (is(codec, "bf16") || is(codec, "q8") || is_whole(codec))
    ok(first == digest_of(codec, (struct how){.seed = 6}, &kept), "%s: nothing depends on the seed", codec->name);
  if (is(codec, "bf16") || is(codec, "q8") || is(codec, "q4"))
    ok(chance != first && chance != digest_of(codec, (struct how){.seed = 6, .stochastic = true}, &kept),
       "%s: chance depends on the seed", codec->name);
  ok(first == digest_of(codec, (struct how){.seed = 5, .in_place = true}, &kept), "%s: the same bits in place",
     codec->name);
  /* Denormals flushed, read as zero, or both; rounding towards zero, down and up; a trap for everything. */
  static const unsigned modes[] = {0xffc0, 0x3fc0, 0x5f80, 0x9f80, 0x0040};
  uint64_t others = 0;
  for (int i = 0; i < 5; i++)
    others += digest_of(codec, (struct how){.seed = 5, .modes = modes[i]}, &kept) != first;
  ok(others == 0 && kept, "%s: the same bits whatever the caller's modes are, and they stay", codec->name);
}

static void check_variants(const struct tagc_codec *codec) {
  bool kept = true;
  uint64_t others = 0, want[2] = {0};
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++)
    for (int chance = 0; chance < 2; chance++)
      if (tagc_variant_force(tagc_variant_name((enum tagc_variant)v))) {
        const uint64_t got = digest_of(codec, (struct how){.seed = 5, .stochastic = chance}, &kept);
        want[chance] = v > 0 ? want[chance] : got;
        others += got != want[chance];
      }
  tagc_variant_force(NULL);
  ok(others == 0, "%s: the same bits from every variant", codec->name);
}

/* -- nothing else is touched ---------------------------------------------------------------------------------- */

enum { FENCE = 64 };

static void *fenced(size_t bytes, size_t shift) {
  uint8_t *memory = sim_memory(bytes + 2 * FENCE);
  memset(memory, 0xa5, bytes + 2 * FENCE);
  return memory + FENCE + shift;
}

static int fence_broken(const void *area, size_t bytes, size_t shift) {
  const uint8_t *at = area;
  int broken = 0;
  for (size_t i = 0; i < FENCE + shift; i++)
    broken += at[-(ptrdiff_t)i - 1] != 0xa5;
  for (size_t i = 0; i < FENCE - shift; i++)
    broken += at[bytes + i] != 0xa5;
  return broken;
}

/* Every buffer between fences; the program's are aligned to their elements and no better. */
static void check_fences(const struct tagc_codec *codec, uint64_t n, enum tagc_dtype dtype, enum pattern pattern) {
  struct sim sim = sim_for(codec, n, 3, dtype);
  const struct tagc_layout *l = &sim.layout;
  const size_t size = tagc_dtype_size(dtype), residual = tagc_residual_bytes(&sim.shape);
  const size_t bytes[] = {3 * n * size,
                          n * size,
                          residual,
                          3 * l->exponent_bytes,
                          12 * l->sketch_count,
                          4 * l->sketch_count,
                          3 * l->message_bytes,
                          3 * l->message_bytes,
                          l->state_bytes};
  enum { PARTS = sizeof bytes / sizeof *bytes };
  void *area[3][PARTS], *sent[3];
  int broken = 0, changed = 0;
  case_fill(&sim, pattern);
  for (int rank = 0; rank < 3; rank++) {
    struct tagc_job *job = &sim.job[rank];
    void **parts[PARTS] = {NULL,
                           &job->recv,
                           &job->residual,
                           (void **)&job->exponents,
                           (void **)&job->sketch_out,
                           (void **)&job->sketch_in,
                           (void **)&job->message_out,
                           (void **)&job->message_in,
                           &job->state};
    sent[rank] = (void *)(uintptr_t)job->send;
    for (int p = 0; p < PARTS; p++) {
      area[rank][p] = fenced(bytes[p], p < 2 ? size : 0);
      if (!p)
        continue;
      free(*parts[p]);
      *parts[p] = p == 2 && !sim.shape.residual ? NULL : area[rank][p];
    }
    memcpy(area[rank][0], sent[rank], bytes[0]);
    job->send = area[rank][0];
    if (!job->residual)
      broken += fence_broken(area[rank][2], 0, 0);
  }
  sim_step(&sim, 3);
  sim_step(&sim, 4);
  for (int rank = 0; rank < 3; rank++) {
    changed += memcmp(sent[rank], sim.job[rank].send, bytes[0]) != 0;
    for (int p = 0; p < PARTS; p++) {
      broken += fence_broken(area[rank][p], bytes[p], p < 2 ? size : 0);
      free((char *)area[rank][p] - FENCE - (p < 2 ? size : 0));
    }
    free(sent[rank]);
  }
  free(sim.job);
  ok(broken == 0 && changed == 0, "%s: n=%llu type %d, pattern %d: nothing else is written", codec->name,
     (unsigned long long)n, dtype, (int)pattern);
}

/* -- the own shard, and zeros --------------------------------------------------------------------------------- */

/* Only the owner has values: its result has them unchanged, even denormals. Zeros (or near-zeros) add nothing. */
static void check_own(const struct tagc_codec *codec, enum tagc_dtype dtype, enum pattern pattern, bool others) {
  struct sim sim = sim_for(codec, 777, 4, dtype);
  int wrong = 0, seen = 0;
  case_fill(&sim, pattern);
  for (int rank = 0; rank < 4; rank++)
    for (int shard = 0; shard < 4; shard++)
      for (uint64_t i = 0; i < 777 && shard != rank; i++)
        sim_put(&sim, rank, shard, i, !others ? 0 : sim_random() % 2 ? 0x1.fffffep-121f : -0x1p-149f);
  sim_step(&sim, 1);
  for (int rank = 0; rank < 4; rank++) {
    for (uint64_t i = 0; i < 777; i++) {
      const float want = sim_sent(&sim, rank, rank, i), got = sim_got(&sim, rank, i);
      wrong += isnan(want) ? !isnan(got) : got != want;
    }
    seen += sim.job[rank].nonfinite_seen;
  }
  ok(wrong == 0 && seen == (pattern == FEW_EXCEPTIONS ? 4 : 0), "%s: type %d, pattern %d: the own shard is exact%s",
     codec->name, dtype, (int)pattern, others ? ", beside what counts as zero" : "");
  sim_free(&sim);
}

/* -- symmetries ----------------------------------------------------------------------------------------------- */

static void fill_again(struct sim *sim, uint64_t state, float factor) {
  sim_random_state = state;
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      for (uint64_t i = 0; i < sim->shape.n; i++)
        sim_put(sim, rank, shard, i, factor * sim_normal());
}

/* Powers of two only change exponents, at any input; a sign is preserved. */
static void check_symmetries(const struct tagc_codec *codec, uint64_t n) {
  struct sim one = sim_for(codec, n, 3, TAGC_FLOAT32), scaled = sim_for(codec, n, 3, TAGC_FLOAT32),
             negative = sim_for(codec, n, 3, TAGC_FLOAT32);
  uint64_t wrong = 0, unequal = 0;
  for (uint64_t step = 0; step < 3; step++) {
    fill_again(&one, 9 + step, 1);
    fill_again(&scaled, 9 + step, 0x1p-20f);
    fill_again(&negative, 9 + step, -1);
    for (int rank = 0; rank < 3; rank++) {
      scaled.job[rank].scale = 0x1p24f;
      scaled.job[rank].divisor = 8;
    }
    sim_step(&one, step);
    sim_step(&scaled, step);
    sim_step(&negative, step);
    for (int rank = 0; rank < 3; rank++)
      for (uint64_t i = 0; i < n; i++) {
        wrong += sim_got(&scaled, rank, i) != 2 * sim_got(&one, rank, i);
        unequal += sim_got(&negative, rank, i) != -sim_got(&one, rank, i);
      }
  }
  ok(wrong == 0, "%s: n=%llu: twice the gradient, twice the result; scale and divisor do the same", codec->name,
     (unsigned long long)n);
  ok(unequal == 0, "%s: n=%llu: the result of the negative is the negative", codec->name, (unsigned long long)n);
  sim_free(&one);
  sim_free(&scaled);
  sim_free(&negative);
}

/* -- once more ------------------------------------------------------------------------------------------------ */

/* Rank 0 sends to rank 1, which has zeros: the result is sent again, with the same seed, without a residual.
 *   none, bf16, sparse  the same message, except for sparse's word that it is full: in a full block one value is
 *                       chosen and not sent, so that the result has one less
 *   q8                  the same block if the largest code is 127: the scale is again the largest value / 127,
 *                       exactly. If rounding the scale up (by up to 1/128) made it 126, the next scale is smaller,
 *                       and values move by no more than the error of any encoding.
 *   q3                  the same values: the nearest levels are the levels, and projection finds the scale again. Its
 *                       sign may turn, if values of both signs have the largest magnitude now. Whole blocks alone:
 *                       among zeros levels move with the scale.
 *   q4, q2              the same message (the largest code is always 7; projection finds the scale again), as long as
 *                       the rotation back loses no bits: values of one size. Whole blocks alone: values that the
 *                       rotation puts into the padding are not kept. */
static void check_once_more(const struct tagc_codec *codec, enum pattern pattern) {
  const uint64_t n = is_rotated(codec) || is(codec, "q3") ? 2048 : 2053;
  struct sim sim = sim_for(codec, n, 2, TAGC_FLOAT32);
  const size_t bytes = sim.layout.message_bytes;
  const struct reference_parts parts = reference_parts(reference_find(codec->name), n, sim.shape.keep_ppm);
  float *first = sim_memory(n * sizeof *first);
  uint8_t *message = sim_memory(bytes);
  case_fill(&sim, pattern);
  for (uint64_t i = 0; i < n; i++)
    sim_put(&sim, 1, 1, i, 0);
  sim_step(&sim, 40);
  memcpy(message, sim.job[1].message_in, bytes);
  for (uint64_t i = 0; i < n; i++) {
    first[i] = sim_got(&sim, 1, i);
    sim_put(&sim, 0, 1, i, first[i]);
  }
  sim.job[0].residual_empty = true;
  sim_step(&sim, 40);
  if (is(codec, "sparse")) {
    ((struct tagc_exceptions *)message)->anywhere &= ~(uint32_t)TAGC_ANYWHERE_SURPLUS;
    ((struct tagc_exceptions *)sim.job[1].message_in)->anywhere &= ~(uint32_t)TAGC_ANYWHERE_SURPLUS;
  }
  if (!is(codec, "q8")) {
    bool same = memcmp(message, sim.job[1].message_in, bytes) == 0;
    if (is(codec, "q3")) {
      same = true;
      for (uint64_t i = 0; i < n; i++)
        same &= sim_got(&sim, 1, i) == first[i];
    }
    ok(same, "%s: pattern %d: what was sent is sent again", codec->name, (int)pattern);
  } else {
    uint64_t moved = 0, kept = 0, full = 0;
    for (uint64_t block = 0; block < parts.blocks; block++) {
      int most = 0;
      for (uint64_t i = 256 * block; i < 256 * block + 256; i++)
        most = abs((int8_t)message[parts.codes + i]) > most ? abs((int8_t)message[parts.codes + i]) : most;
      full += most == 127;
      kept += most == 127 &&
              memcmp(message + parts.codes + 256 * block, sim.job[1].message_in + parts.codes + 256 * block, 256) == 0;
      for (uint64_t i = 256 * block; i < n && i < 256 * block + 256; i++)
        moved += fabsf(sim_got(&sim, 1, i) - first[i]) > 0.5001f * reference_scale(message + parts.scales, block);
    }
    ok(kept == full && moved == 0,
       "q8: pattern %d: %llu of %llu blocks are sent again as they were, the others moved by no "
       "more than half a step",
       (int)pattern, (unsigned long long)full, (unsigned long long)parts.blocks);
  }
  free(first);
  free(message);
  sim_free(&sim);
}

static void check_all(void) {
  sim_random_restart();
  for (const struct tagc_codec *const *at = tagc_codecs; *at; at++) {
    const struct tagc_codec *codec = *at;
    check_sizes(codec);
    check_refusals(codec);
    check_bits_an_element(codec);
    check_bits(codec);
    for (int size = 0; size < CASE_SIZES; size++)
      check_fences(codec, case_sizes[size], (enum tagc_dtype)(size % 3), (enum pattern)(size % PATTERNS));
    for (int dtype = 0; dtype < 3; dtype++) {
      check_own(codec, (enum tagc_dtype)dtype, GAUSS, false);
      check_own(codec, (enum tagc_dtype)dtype, FEW_EXCEPTIONS, false);
      check_own(codec, (enum tagc_dtype)dtype, ZERO, false);
    }
    check_own(codec, TAGC_FLOAT32, DENORMAL, false);
    check_own(codec, TAGC_FLOAT32, LARGE, false);
    if (!is_whole(codec))
      check_own(codec, TAGC_FLOAT32, DENORMAL, true);
    check_symmetries(codec, 1009);
    check_symmetries(codec, 300);
    if (is_whole(codec) || is_known(codec)) {
      check_once_more(codec, GAUSS);
      check_once_more(codec, EQUAL);
      check_once_more(codec, ALTERNATING);
      if (!is_whole(codec) && !is(codec, "bf16")) /* these send a zero's sign, but a sum of zeros has none */
        check_once_more(codec, ZERO);
    }
  }
}

int main(void) {
  with_each_variant(check_all);
  for (const struct tagc_codec *const *codec = tagc_codecs; *codec; codec++)
    check_variants(*codec);
  return tap_done();
}
