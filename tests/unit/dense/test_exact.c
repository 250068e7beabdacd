/* SPDX-License-Identifier: BSD-3-Clause
 * The dense codecs send, keep and sum, bit for bit, according to their formats (reference.h), with every instruction
 * set, element type, odd size; in place; with and without a residual, scale, divisor; in any mode of the processor.
 */
#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/unit/dense/reference.h"
#include "tests/unit/codec/variants.h"

enum input { NORMAL, SPARSE, TIES, WIDE, TINY, SPECIAL, INPUTS };

static const char *const input_name[] = {"normal", "sparse", "ties", "wide", "tiny", "special"};

struct setting {
  enum dense_codec codec;
  uint64_t n;
  int nranks;
  enum tagc_dtype dtype;
  enum input input;
  bool residual, stochastic, in_place;
};

static float some_value(enum input input) {
  const float x = sim_normal();
  switch (input) {
  case SPARSE: return sim_random() % 40 ? 0 : x;
  case TIES: return (float)((int)(sim_random() % 255) - 127) * 0.5f;
  case WIDE: return ldexpf(x, (int)(sim_random() % 200) - 110);
  case TINY: return ldexpf(x, (int)(sim_random() % 36) - 140);
  case SPECIAL:
    switch (sim_random() % 2000) {
    case 0: return (float)NAN;
    case 1: return (float)INFINITY;
    case 2: return -ldexpf(1, 120);
    case 3: return nextafterf(ldexpf(1, 120), 0);
    case 4: return 3.4e38f;
    case 5: return -1e-45f;
    default: return x;
    }
  default: return x;
  }
}

/* Modes that programs set, and that must change nothing. */
static void set_modes(bool strange) {
  fesetround(strange ? FE_UPWARD : FE_TONEAREST);
#if defined(__x86_64__)
  _mm_setcsr(strange ? _mm_getcsr() | 0x8040 : _mm_getcsr() & ~0x8040u);
#endif
}

/* Checks all ranks' messages and residuals. Returns the number of wrong bytes or floats. */
static uint64_t check_sent(const struct sim *sim, const struct setting *s, float *const *before) {
  uint64_t wrong = 0;
  uint8_t *want = sim_memory(sim->layout.message_bytes);
  float *left = sim_memory(s->n * sizeof *left);
  for (int rank = 0; rank < s->nranks; rank++) {
    const struct tagc_job *job = &sim->job[rank];
    for (int shard = 0; shard < s->nranks; shard++) {
      const uint64_t at = (uint64_t)(shard - (shard > rank)) * s->n;
      const uint8_t *sent = job->message_out + (size_t)shard * sim->layout.message_bytes;
      if (shard == rank)
        continue;
      dense_encode_shard(s->codec, job, shard, before ? before[rank] + at : NULL, want, left);
      ((struct tagc_exceptions *)want)->anywhere = ((const struct tagc_exceptions *)sent)->anywhere;
      wrong += memcmp(want, sent, sim->layout.message_bytes) != 0;
      for (uint64_t i = 0; job->residual && i < s->n; i++)
        wrong += ((const float *)job->residual)[at + i] != left[i];
    }
  }
  free(want);
  free(left);
  return wrong;
}

static uint64_t check_received(const struct sim *sim, const struct setting *s, int rank, const void *want) {
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < s->n; i++) {
    float got = sim_got(sim, rank, i), x = tagc_load(want, i, s->dtype);
    wrong += memcmp(&got, &x, 4) != 0;
  }
  return wrong;
}

/* One step of all ranks, as sim_step(), but with a check of everything between encode and decode. */
static uint64_t step(struct sim *sim, const struct setting *s, uint64_t seed, bool strange) {
  const size_t bytes = s->n * tagc_dtype_size(s->dtype), kept = (size_t)(s->nranks - 1) * s->n * sizeof(float);
  float **before = s->residual && !sim->job[0].residual_empty ? calloc((size_t)s->nranks, sizeof *before) : NULL;
  void *want = sim_memory(bytes);
  uint64_t wrong = 0;
  for (int rank = 0; before && rank < s->nranks; rank++)
    before[rank] = memcpy(sim_memory(kept), sim->job[rank].residual, kept);
  for (int rank = 0; rank < s->nranks; rank++) {
    sim->job[rank].seed = seed;
    sim->job[rank].stats = &sim->stats;
    set_modes(strange);
    sim->codec->encode(&sim->job[rank]);
    set_modes(false);
  }
  sim_exchange(sim);
  wrong += check_sent(sim, s, before);
  for (int rank = 0; rank < s->nranks; rank++) {
    struct tagc_job *job = &sim->job[rank];
    void *recv = job->recv;
    dense_decode_shard(s->codec, job, want);
    if (s->in_place)
      job->recv = (char *)(uintptr_t)job->send + (size_t)rank * bytes;
    set_modes(strange);
    sim->codec->decode(job);
    set_modes(false);
    job->recv = recv;
    job->residual_empty = false;
    wrong += check_received(sim, s, rank, want);
    if (before)
      free(before[rank]);
  }
  free(before);
  free(want);
  return wrong;
}

static void check(struct setting s) {
  uint64_t differing = 0, wrong = 0;
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
    if (!tagc_variant_force(tagc_variant_name((enum tagc_variant)v)))
      continue;
    struct sim sim = sim_new(dense_name[s.codec], s.n, s.nranks, s.dtype, 1000000);
    sim.in_place = s.in_place;
    sim_random_restart();
    for (int rank = 0; rank < s.nranks; rank++) {
      sim.job[rank].stochastic = s.stochastic;
      sim.job[rank].scale = s.input == WIDE ? 0.7f + (float)rank : 1;
      if (!s.residual) {
        free(sim.job[rank].residual);
        sim.job[rank].residual = NULL;
      }
    }
    for (int i = 0; i < 2; i++) {
      for (int rank = 0; rank < s.nranks; rank++) {
        sim.job[rank].divisor = i ? 3 : (float)s.nranks;
        for (uint64_t at = 0; at < (uint64_t)s.nranks * s.n; at++)
          sim_put(&sim, rank, (int)(at / s.n), at % s.n, some_value(s.input));
      }
      wrong += step(&sim, &s, (uint64_t)i + 7, i == 1);
    }
    differing |= wrong ? 1u << v : 0;
    sim_free(&sim);
  }
  ok(wrong == 0, "%s n=%llu W=%d type %d, %s%s%s%s", dense_name[s.codec], (unsigned long long)s.n, s.nranks, s.dtype,
     input_name[s.input], s.residual ? ", residual" : "", s.stochastic ? ", by chance" : "",
     s.in_place ? ", in place" : "");
  if (wrong)
    note("%llu differences, from variant %d on", (unsigned long long)wrong, __builtin_ctzll(differing));
}

int main(void) {
  static const uint64_t sizes[] = {1, 31, 32, 33, 255, 256, 257, 1009, 4099};
  unsigned turn = 0;
  variants_tell();
  for (int codec = 0; codec < DENSE_CODECS; codec++)
    for (unsigned size = 0; size < sizeof sizes / sizeof *sizes; size++)
      for (int input = 0; input < INPUTS; input++, turn++) {
        const uint64_t bits = tagc_mix64(turn);
        check((struct setting){.codec = (enum dense_codec)codec,
                               .n = sizes[size],
                               .nranks = 2 + (int)(bits % 4),
                               .dtype = (enum tagc_dtype)((bits >> 8) % 3),
                               .input = (enum input)input,
                               .residual = bits >> 16 & 1,
                               .stochastic = bits >> 17 & 1,
                               .in_place = bits >> 18 & 1});
      }
  return tap_done();
}
