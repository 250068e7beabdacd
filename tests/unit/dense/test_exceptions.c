/* SPDX-License-Identifier: BSD-3-Clause
 * Exceptions in the dense codecs: they arrive at their places and touch nothing else, and every rank learns of them.
 * Bytes that this code never sends do no harm.
 */
#include "tests/unit/dense/reference.h"
#include "tests/unit/codec/variants.h"

static const uint64_t edges[] = {0, 255, 256, 511, 512, 1023, 1026};
enum { EDGES = sizeof edges / sizeof *edges, N = 1027 };

static void fill(struct sim *sim) {
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    for (int shard = 0; shard < sim->shape.nranks; shard++)
      for (uint64_t i = 0; i < sim->shape.n; i++)
        sim_put(sim, rank, shard, i, sim_normal());
}

static bool same(float a, float b) { return memcmp(&a, &b, sizeof a) == 0; }

/* Rank 0 sends exceptions to rank 1 at the edges of blocks: all else is as if they were zeros. */
static void check_places(enum dense_codec codec, float value) {
  struct sim sim = sim_new(dense_name[codec], N, 3, TAGC_FLOAT32, 1000000);
  struct sim zeros = sim_new(dense_name[codec], N, 3, TAGC_FLOAT32, 1000000);
  uint64_t wrong = 0;
  sim_random_state = 7;
  fill(&sim);
  sim_random_state = 7;
  fill(&zeros);
  for (int i = 0; i < EDGES; i++) {
    sim_put(&sim, 0, 1, edges[i], value);
    sim_put(&zeros, 0, 1, edges[i], 0);
  }
  sim_step(&sim, 4);
  sim_step(&zeros, 4);
  for (uint64_t i = 0, edge = 0; i < N; i++) {
    bool here = edge < EDGES && edges[edge] == i;
    /* Rank 1's residuals begin with shard 0, rank 0's with shard 1. */
    float got = sim_got(&sim, 1, i), plain = sim_got(&zeros, 1, i), left = ((const float *)sim.job[0].residual)[i];
    edge += here;
    wrong += here ? !(same(got, plain + value) || (got != got && value != value)) || left != 0
                  : !same(got, plain) || !same(left, ((const float *)zeros.job[0].residual)[i]);
    wrong += !same(sim_got(&sim, 2, i), sim_got(&zeros, 2, i));
  }
  ok(wrong == 0 && sim.stats.nonfinite == EDGES && sim.stats.overflowed == 0, "%s: %g at the edges of blocks",
     dense_name[codec], (double)value);
  sim_free(&sim);
  sim_free(&zeros);
}

/* `from` has an exception in shard `to`, possibly its own: all ranks learn of it. */
static void check_heard(enum dense_codec codec, int from, int to) {
  struct sim sim = sim_new(dense_name[codec], N, 3, TAGC_FLOAT16, 1000000);
  bool before = false, after = true;
  fill(&sim);
  sim_step(&sim, 1);
  for (int rank = 0; rank < 3; rank++)
    before |= sim.job[rank].nonfinite_seen;
  sim_put(&sim, from, to, 300, -(float)INFINITY);
  sim_step(&sim, 2);
  for (int rank = 0; rank < 3; rank++)
    after &= sim.job[rank].nonfinite_seen;
  ok(!before && after && isinf(sim_got(&sim, to, 300)), "%s: all hear of an infinity from rank %d to %d",
     dense_name[codec], from, to);
  sim_free(&sim);
}

/* A factor with all bits set: results are the NaN of every codec, although rounding it to bf16 carries. */
static void check_factor(enum dense_codec codec) {
  struct sim sim = sim_new(dense_name[codec], N, 2, TAGC_BFLOAT16, 1000000);
  uint64_t wrong = 0;
  fill(&sim);
  sim.job[1].scale = tagc_float_of(UINT32_MAX);
  sim_step(&sim, 1);
  for (uint64_t i = 0; i < N; i++)
    wrong += ((const uint16_t *)sim.job[1].recv)[i] != TAGC_NAN_BITS >> 16;
  ok(wrong == 0 && sim.job[1].nonfinite_seen, "%s: a factor that is NaN", dense_name[codec]);
  sim_free(&sim);
}

static void check_overflow(enum dense_codec codec) {
  struct sim sim = sim_new(dense_name[codec], N, 2, TAGC_BFLOAT16, 1000000);
  const uint64_t capacity = tagc_exceptions_capacity(N);
  bool lost = true, kept = true;
  fill(&sim);
  for (uint64_t i = 0; i < capacity; i++)
    sim_put(&sim, 0, 1, 3 * i, (float)INFINITY);
  sim_step(&sim, 1);
  for (uint64_t i = 0; i < N; i++)
    kept &= isinf(sim_got(&sim, 1, i)) == (i % 3 == 0 && i < 3 * capacity);
  sim_put(&sim, 0, 1, N - 1, (float)INFINITY);
  sim_step(&sim, 2);
  for (uint64_t i = 0; i < N; i++)
    lost &= isnan(sim_got(&sim, 1, i)) && !isnan(sim_got(&sim, 0, i));
  ok(kept && lost && sim.stats.overflowed == 1, "%s: %llu exceptions fit, one more makes the shard NaN",
     dense_name[codec], (unsigned long long)capacity);
  sim_free(&sim);
}

/* Any bytes may arrive: the decoders stay inside their buffers, and agree on the result. */
static uint64_t decode_noise(enum dense_codec codec, uint64_t seed, uint64_t n, bool list) {
  struct sim sim = sim_new(dense_name[codec], n, 4, (enum tagc_dtype)(seed % 3), 1000000);
  struct tagc_job *job = &sim.job[seed % 4];
  const size_t bytes = 4 * sim.layout.message_bytes, size = n * tagc_dtype_size(sim.shape.dtype);
  uint64_t hash = 14695981039346656037u;
  sim_random_state = seed;
  fill(&sim);
  for (size_t i = 0; i < bytes; i++)
    job->message_in[i] = (uint8_t)(sim_random() >> 32);
  for (int sender = 0; sender < 4 && !list; sender++)
    memset(job->message_in + (size_t)sender * sim.layout.message_bytes, 0, 4);
  for (int sender = 0; sender < 4 && list; sender++)
    job->message_in[(size_t)sender * sim.layout.message_bytes + 1] = 0;
  memset(job->state, 0, sim.layout.state_bytes);
  job->stats = &sim.stats;
  job->seed = seed;
  sim.codec->decode(job);
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ ((const uint8_t *)job->recv)[i]) * 1099511628211u;
  sim_free(&sim);
  return hash;
}

static void check_noise(enum dense_codec codec) {
  static const uint64_t sizes[] = {1, 77, 256, 1027};
  uint64_t wrong = 0;
  for (uint64_t seed = 1; seed < 200; seed++) {
    const uint64_t n = sizes[seed % 4];
    uint64_t want = 0;
    for (int v = 0; v < TAGC_VARIANT_COUNT; v++)
      if (tagc_variant_force(tagc_variant_name((enum tagc_variant)v))) {
        const uint64_t hash = decode_noise(codec, seed, n, seed % 5 == 0);
        wrong += v > 0 && hash != want;
        want = v > 0 ? want : hash;
      }
  }
  tagc_variant_force(NULL);
  ok(wrong == 0, "%s: any bytes can be decoded, and mean the same to every variant", dense_name[codec]);
}

static void check_all(void) {
  sim_random_restart();
  for (int codec = 0; codec < DENSE_CODECS; codec++) {
    check_places((enum dense_codec)codec, (float)NAN);
    check_places((enum dense_codec)codec, -(float)INFINITY);
    check_places((enum dense_codec)codec, 0x1p120f);
    check_places((enum dense_codec)codec, -3.4028235e38f);
    check_heard((enum dense_codec)codec, 1, 2);
    check_heard((enum dense_codec)codec, 1, 1);
    check_factor((enum dense_codec)codec);
    check_overflow((enum dense_codec)codec);
  }
}

int main(void) {
  with_each_variant(check_all);
  for (int codec = 0; codec < DENSE_CODECS; codec++)
    check_noise((enum dense_codec)codec);
  return tap_done();
}
