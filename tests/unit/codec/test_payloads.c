/* SPDX-License-Identifier: BSD-3-Clause
 * Every byte that a codec sends, every bit of the results and of an fp32 residual, against the slow reference.h: all
 * types and patterns, block edges, two to 64 ranks. `sparse` selects freely within rules: these are checked instead,
 * and its sums against the reference. Plain C is compared; the other instruction sets that run here must equal it.
 */
#include "tests/unit/codec/cases.h"
#include "tests/unit/codec/reference.h"
#include "tests/unit/codec/variants.h"

/* The comparisons, and the first difference. */
struct outcome {
  uint64_t compared, different;
  char first[160];
};

static void compare(struct outcome *v, const void *got, const void *want, size_t bytes, const char *what,
                    const struct sim *sim, int rank, int shard) {
  const uint8_t *a = got, *b = want;
  v->compared += bytes;
  for (size_t i = 0; i < bytes; i++)
    if (a[i] != b[i]) {
      if (v->different++ == 0)
        snprintf(v->first, sizeof v->first, "%s of rank %d, shard %d, n=%llu: byte %zu is %02x, not %02x", what, rank,
                 shard, (unsigned long long)sim->shape.n, i, a[i], b[i]);
    }
}

static void fail(struct outcome *v, const char *what, const struct sim *sim, int rank, int shard, uint64_t at) {
  if (v->different++ == 0)
    snprintf(v->first, sizeof v->first, "%s: rank %d, shard %d, n=%llu, at %llu", what, rank, shard,
             (unsigned long long)sim->shape.n, (unsigned long long)at);
}

/* All inputs of the ranks, by rank and shard, and the reference's results. */
struct expected {
  float *given, *left;
  uint8_t *messages;
  uint32_t *anywhere;
};

static struct expected expected_new(const struct sim *sim, enum reference_kind kind) {
  const size_t pairs = (size_t)sim->shape.nranks * (size_t)sim->shape.nranks;
  const struct reference_parts parts = reference_parts(kind, sim->shape.n, sim->shape.keep_ppm);
  return (struct expected){
    .given = sim_memory(pairs * sim->shape.n * sizeof(float)),
    .left = sim_memory(pairs * sim->shape.n * sizeof(float)),
    .messages = sim_memory(pairs * parts.bytes),
    .anywhere = sim_memory((size_t)sim->shape.nranks * sizeof(uint32_t)),
  };
}

static void expected_free(struct expected *e) {
  free(e->given);
  free(e->left);
  free(e->messages);
  free(e->anywhere);
}

static struct reference_call call_of(const struct sim *sim, enum reference_kind kind, uint64_t seed, int rank,
                                     int shard) {
  return (struct reference_call){.kind = kind,
                                 .n = sim->shape.n,
                                 .seed = seed,
                                 .keep_ppm = sim->shape.keep_ppm,
                                 .stochastic = sim->job[rank].stochastic,
                                 .rank = rank,
                                 .shard = shard};
}

/* Computes the inputs and the messages before the step. */
static void expect(struct expected *e, const struct sim *sim, enum reference_kind kind, uint64_t seed) {
  const uint64_t n = sim->shape.n;
  const int nranks = sim->shape.nranks;
  const struct reference_parts parts = reference_parts(kind, n, sim->shape.keep_ppm);
  const size_t bytes = parts.bytes;
  for (int rank = 0; rank < nranks; rank++) {
    float *given = e->given + (uint64_t)(rank * nranks) * n;
    e->anywhere[rank] = 0;
    for (int shard = 0; shard < nranks; shard++) {
      const bool limited = kind == REFERENCE_SPARSE && shard != rank;
      case_given(sim, rank, shard, given + (uint64_t)shard * n);
      e->anywhere[rank] |= reference_anywhere(n, given + (uint64_t)shard * n, limited, parts.capacity);
    }
    for (int shard = 0; shard < nranks && kind != REFERENCE_SPARSE; shard++) {
      const struct reference_call call = call_of(sim, kind, seed, rank, shard);
      const size_t pair = (size_t)(rank * nranks + shard);
      if (shard != rank)
        reference_encode(&call, given + (uint64_t)shard * n, e->anywhere[rank], e->messages + pair * bytes,
                         e->left + pair * n);
    }
  }
}

/* The rules of `sparse`: as many values as fit, the largest ones, in order, rounded to bf16. Fills left[]. */
static void check_sparse_message(struct outcome *v, const struct sim *sim, int rank, int shard, const float *x,
                                 const uint8_t *message, float *left) {
  const uint64_t n = sim->shape.n;
  const struct reference_parts parts = reference_parts(REFERENCE_SPARSE, n, sim->shape.keep_ppm);
  uint64_t sent = 0, nonzero = 0, surplus = 0;
  float least = INFINITY, most = 0;
  for (uint64_t i = 0; i < n; i++) {
    nonzero += reference_seen(x[i]) != 0;
    left[i] = reference_is_exception(x[i]) ? 0 : x[i];
  }
  for (uint64_t block = 0; block < parts.blocks; block++) {
    const int count = message[parts.scales + block];
    surplus += count == 255;
    for (int i = 0, before = -1; i < count && sent < parts.capacity; i++, sent++) {
      const int offset = message[parts.codes + sent];
      const uint64_t at = 256 * block + (uint64_t)offset;
      const float value = reference_scale(message + parts.values, sent);
      if (offset <= before || at >= n || reference_seen(x[at]) == 0 || value != reference_nearest_bf16(x[at])) {
        fail(v, "an entry that must not be", sim, rank, shard, at);
        return;
      }
      least = fminf(least, fabsf(x[at]));
      left[at] = x[at] - value;
      before = offset;
    }
    for (uint64_t i = 256 * block; i < n && i < 256 * block + 256 && count < 255; i++)
      if (left[i] == x[i])
        most = fmaxf(most, fabsf(reference_seen(x[i])));
  }
  const uint64_t wanted = nonzero < parts.capacity ? nonzero : parts.capacity;
  if (sent > wanted || sent + surplus < wanted)
    fail(v, "another number of values than there is room for", sim, rank, shard, sent);
  if (sent == wanted && sent && most > least * 1.0005f && least < 0x1p119f)
    fail(v, "a smaller value was sent before a larger one", sim, rank, shard, sent);
  for (uint64_t i = sent; i < parts.capacity; i++)
    if (message[parts.codes + i] || reference_scale(message + parts.values, i) != 0)
      fail(v, "an unused entry is not zero", sim, rank, shard, i);
}

static void check_messages(struct outcome *v, struct expected *e, const struct sim *sim, enum reference_kind kind) {
  const uint64_t n = sim->shape.n;
  const int nranks = sim->shape.nranks;
  const struct reference_parts parts = reference_parts(kind, n, sim->shape.keep_ppm);
  uint8_t *list = calloc(1, parts.bytes);
  for (int rank = 0; rank < nranks; rank++)
    for (int shard = 0; shard < nranks; shard++) {
      const size_t pair = (size_t)(rank * nranks + shard);
      const uint8_t *message = sim->job[rank].message_out + (size_t)shard * parts.bytes;
      if (shard == rank)
        continue;
      if (kind == REFERENCE_SPARSE) {
        memset(list, 0, parts.scales);
        reference_exceptions(n, e->given + pair * n, e->anywhere[rank], list);
        compare(v, message, list, parts.scales, "exceptions", sim, rank, shard);
        check_sparse_message(v, sim, rank, shard, e->given + pair * n, message, e->left + pair * n);
        memcpy(e->messages + pair * parts.bytes, message, parts.bytes);
      } else {
        compare(v, message, e->messages + pair * parts.bytes, parts.bytes, "message", sim, rank, shard);
      }
    }
  free(list);
}

/* Finite values may add up to an infinity. */
static bool is_infinite(const struct sim *sim, int rank) {
  for (uint64_t i = 0; i < sim->shape.n; i++)
    if (!isfinite(sim_got(sim, rank, i)))
      return true;
  return false;
}

static void check_results(struct outcome *v, const struct expected *e, const struct sim *sim, enum reference_kind kind,
                          uint64_t seed) {
  const uint64_t n = sim->shape.n;
  const int nranks = sim->shape.nranks;
  const size_t bytes = reference_parts(kind, n, sim->shape.keep_ppm).bytes;
  uint8_t *in = sim_memory((size_t)nranks * bytes);
  void *want = sim_memory(case_result_bytes(sim));
  float *residual = sim_memory(n * sizeof *residual);
  bool full = false;
  for (int rank = 0; rank < nranks; rank++)
    full |= (e->anywhere[rank] & REFERENCE_FULL) != 0;
  for (int rank = 0; rank < nranks; rank++) {
    const struct reference_call call = call_of(sim, kind, seed, rank, rank);
    for (int sender = 0; sender < nranks; sender++)
      memcpy(in + (size_t)sender * bytes, e->messages + (size_t)(sender * nranks + rank) * bytes, bytes);
    const bool seen = reference_decode(&call, nranks, in, e->given + (uint64_t)(rank * nranks + rank) * n,
                                       sim->job[rank].divisor, sim->shape.dtype, want);
    compare(v, case_result(sim, rank), want, case_result_bytes(sim), "result", sim, rank, rank);
    const bool exceptions = seen || e->anywhere[rank] & REFERENCE_EXCEPTION || is_infinite(sim, rank);
    if (!sim->job[rank].nonfinite_seen && exceptions)
      fail(v, "no word of what is not finite", sim, rank, rank, 0);
    if (sim->job[rank].nonfinite_seen && !exceptions)
      fail(v, "word of what is not finite, but all is", sim, rank, rank, 0);
    if (sim->job[rank].surplus_seen != full)
      fail(v, "not what the ranks say of their being full", sim, rank, rank, 0);
    for (int shard = 0; shard < nranks && sim->shape.residual; shard++) {
      case_residual(sim, rank, shard, residual);
      if (shard != rank)
        for (uint64_t i = 0; i < n; i++)
          if (residual[i] != e->left[(uint64_t)(rank * nranks + shard) * n + i])
            fail(v, "residual", sim, rank, shard, i);
    }
  }
  v->compared += n;
  free(in);
  free(want);
  free(residual);
}

/* Repeats the first call with another instruction set. Comparisons count once: every processor reports the same. */
static void check_same(struct outcome *v, const struct sim *first, const struct sim *sim, const char *variant) {
  const size_t bytes = sim->layout.message_bytes;
  const uint64_t compared = v->compared;
  for (int rank = 0; rank < sim->shape.nranks; rank++) {
    const struct tagc_job *a = &sim->job[rank], *b = &first->job[rank];
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      if (shard != rank)
        compare(v, a->message_out + (size_t)shard * bytes, b->message_out + (size_t)shard * bytes, bytes, variant, sim,
                rank, shard);
    compare(v, case_result(sim, rank), case_result(first, rank), case_result_bytes(sim), variant, sim, rank, rank);
    compare(v, a->residual, b->residual, tagc_residual_bytes(&sim->shape), variant, sim, rank, rank);
    if (a->nonfinite_seen != b->nonfinite_seen || a->surplus_seen != b->surplus_seen)
      fail(v, variant, sim, rank, rank, 0);
  }
  compare(v, &sim->stats, &first->stats, sizeof sim->stats, variant, sim, 0, 0);
  v->compared = compared;
}

/* Fills the inputs of the ranks: the same after the same start of the generator. */
static void prepare(struct sim *sim, enum pattern pattern, bool stochastic) {
  case_fill(sim, pattern);
  for (int rank = 0; rank < sim->shape.nranks; rank++) {
    sim->job[rank].scale = rank % 3 == 1 ? 0.75f : 1;
    sim->job[rank].divisor = (float)sim->shape.nranks;
    sim->job[rank].stochastic = stochastic;
  }
}

/* Two steps: the first without a previous residual. */
static void check_call(struct outcome *v, enum reference_kind kind, const struct tagc_shape *shape,
                       enum pattern pattern, bool stochastic, bool in_place) {
  struct sim sims[TAGC_VARIANT_COUNT];
  const struct reference_parts parts = reference_parts(kind, shape->n, shape->keep_ppm);
  for (int i = 0; i < TAGC_VARIANT_COUNT; i++) {
    sims[i] = sim_of(tagc_codec_find(reference_codecs[kind].name), shape);
    sims[i].in_place = in_place;
  }
  struct expected e = expected_new(sims, kind);
  const struct tagc_layout *layout = &sims[0].layout;
  if (layout->message_bytes != parts.bytes || layout->exponent_bytes || layout->sketch_count ||
      layout->capacity != parts.capacity)
    fail(v, "layout", sims, 0, 0, layout->message_bytes);
  for (uint64_t seed = 11; seed < 13 && v->different == 0; seed++) {
    const uint64_t state = sim_random_state;
    for (int i = 0; i < TAGC_VARIANT_COUNT; i++) {
      const char *variant = tagc_variant_name((enum tagc_variant)i);
      if (!tagc_variant_force(variant))
        continue;
      sim_random_state = state;
      prepare(&sims[i], pattern, stochastic);
      if (i == 0)
        expect(&e, sims, kind, seed);
      sim_step(&sims[i], seed);
      if (i > 0) {
        check_same(v, sims, &sims[i], variant);
        continue;
      }
      check_messages(v, &e, sims, kind);
      check_results(v, &e, sims, kind, seed);
    }
  }
  expected_free(&e);
  for (int i = 0; i < TAGC_VARIANT_COUNT; i++)
    sim_free(&sims[i]);
}

/* All sizes, each with another pattern, then all patterns; with many ranks half of both. */
static void check(enum reference_kind kind, int nranks, enum tagc_dtype dtype) {
  struct outcome v = {0};
  struct tagc_shape shape = {.nranks = nranks, .dtype = dtype};
  const int turns = nranks > 8 ? 3 : CASE_SIZES + PATTERNS;
  for (int turn = dtype == TAGC_FLOAT16; turn < turns && v.different == 0; turn += nranks > 3 ? 2 : 1) {
    const enum pattern pattern = (enum pattern)((turn + nranks + (int)dtype) % PATTERNS);
    const bool stochastic = kind != REFERENCE_SPARSE && turn % 3 == 2;
    shape.n = turn < CASE_SIZES ? case_sizes[turn] : 700 + 37 * (uint64_t)(turn % 5);
    shape.n = nranks > 8 ? 300 : shape.n;
    shape.residual = turn % 4 && kind != REFERENCE_SPARSE ? TAGC_STORAGE_NONE : TAGC_STORAGE_FP32;
    shape.keep_ppm = turn % 5 == 3 ? 1000000 : 50000 * (uint32_t)(1 + turn % 7);
    check_call(&v, kind, &shape, nranks > 8 ? GAUSS : pattern, stochastic, turn % 2);
    if (v.different)
      note("pattern %d, %s, residual %d, keep %u: %s", (int)pattern, stochastic ? "stochastic" : "nearest",
           (int)shape.residual, shape.keep_ppm, v.first);
  }
  ok(v.different == 0 && v.compared > 0, "%s, W=%d, type %d: %llu bytes as the reference has them",
     reference_codecs[kind].name, nranks, dtype, (unsigned long long)v.compared);
}

/* Two values: one is sent, the other is often too small: it stays, and is reported. */
static void check_tiny(enum tagc_dtype dtype) {
  struct outcome v = {0};
  const struct tagc_shape shape = {
    .n = 2, .nranks = 3, .dtype = dtype, .keep_ppm = 500000, .residual = TAGC_STORAGE_FP32};
  for (int round = 0; round < 100 && v.different == 0; round++)
    check_call(&v, REFERENCE_SPARSE, &shape, DENORMAL, false, false);
  ok(v.different == 0, "sparse, type %d: a hundred shards of two values around 2^-120", dtype);
  if (v.different)
    note("%s", v.first);
}

int main(void) {
  static const int ranks[] = {2, 3, 5, 8, 64};
  variants_tell();
  for (int kind = 0; kind < REFERENCE_KINDS; kind++) {
    if (!tagc_codec_find(reference_codecs[kind].name))
      continue;
    for (int i = 0; i < 5; i++)
      for (int dtype = 0; dtype < (ranks[i] > 8 ? 1 : 3); dtype++)
        check((enum reference_kind)kind, ranks[i], (enum tagc_dtype)dtype);
  }
  check_tiny(TAGC_FLOAT32);
  check_tiny(TAGC_BFLOAT16);
  tagc_variant_force(NULL);
  return tap_done();
}
