/* SPDX-License-Identifier: BSD-3-Clause
 * The codec `lhc` at the sizes of the library, with input that this code never sends: random payloads, supports that
 * are too large, exceptions in one line, correct payloads with a few changed bytes. It ends, stays inside its buffers
 * (checked by sanitizers and valgrind), and every variant gives the same bits. tests/fuzz/payload.c goes further on
 * small sizes.
 */
#include "kernels/lhc/lhc.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"

enum attack { NOISE, EVERYTHING, SPARSE_NOISE, CHANGED, ATTACKS };

static const char *const attack_name[] = {"noise", "all bits set", "noise in some places", "a changed payload"};

static void noise(void *area, size_t bytes, unsigned one_in) {
  uint8_t *at = area;
  for (size_t i = 0; i < bytes; i++)
    at[i] = sim_random() % one_in ? 0 : (uint8_t)sim_random();
}

/* Makes exception lists valid: empty, or with three exceptions, two of them in one line. */
static void tame_exceptions(struct tagc_job *job, bool some) {
  for (int sender = 0; sender < job->shape.nranks; sender++) {
    struct tagc_exceptions *list =
      (struct tagc_exceptions *)(job->message_in + (size_t)sender * job->layout.message_bytes);
    tagc_exceptions_clear(list, job->shape.n);
    for (uint32_t i = 0; some && i < 3; i++)
      tagc_exceptions_add(list, job->shape.n, (uint32_t)(job->shape.n - 1) * (i + 1) / 3 - (i == 1), INFINITY);
    if (some)
      tagc_exceptions_add(list, job->shape.n, (uint32_t)(job->shape.n - 1) * 2 / 3, 0x1p121f);
    tagc_exceptions_close(list, job->shape.n);
  }
}

static void attack(struct sim *sim, enum attack kind, bool exceptions) {
  struct tagc_job *job = &sim->job[0];
  const size_t ranks = (size_t)job->shape.nranks;
  if (kind == CHANGED) {
    for (int i = 0; i < 6; i++) {
      job->message_in[job->layout.message_bytes + sim_random() % job->layout.message_bytes] ^= 1 << sim_random() % 8;
      job->sketch_in[sim_random() % job->layout.sketch_count] ^= 1 << sim_random() % 31;
    }
    return;
  }
  const unsigned one_in = kind == SPARSE_NOISE ? 40 : 1;
  noise(job->exponents, ranks * job->layout.exponent_bytes, one_in);
  noise(job->sketch_in, job->layout.sketch_count * sizeof(int32_t), one_in);
  if (kind == EVERYTHING)
    memset(job->message_in, 0xff, ranks * job->layout.message_bytes);
  else
    noise(job->message_in, ranks * job->layout.message_bytes, one_in);
  tame_exceptions(job, exceptions);
}

static bool same_everywhere(struct sim *sim) {
  struct tagc_job *job = &sim->job[0];
  const size_t bytes = sim->shape.n * tagc_dtype_size(sim->shape.dtype);
  void *want = sim_memory(bytes), *state = sim_memory(sim->layout.state_bytes);
  bool same = true;
  memcpy(state, job->state, sim->layout.state_bytes);
  for (int v = 0; v < TAGC_VARIANT_COUNT; v++) {
    if (!tagc_variant_force(tagc_variant_name((enum tagc_variant)v)))
      continue;
    memcpy(job->state, state, sim->layout.state_bytes);
    sim->codec->decode(job);
    if (v == 0)
      memcpy(want, job->recv, bytes);
    same &= memcmp(want, job->recv, bytes) == 0;
  }
  free(want);
  free(state);
  tagc_variant_force(NULL);
  return same;
}

static void check(uint64_t n, int nranks, enum tagc_dtype dtype, uint32_t keep_ppm) {
  for (int kind = 0; kind < ATTACKS; kind++) {
    struct sim sim = sim_new("lhc", n, nranks, dtype, keep_ppm);
    for (int rank = 0; rank < nranks; rank++)
      for (uint64_t i = 0; i < (uint64_t)nranks * n; i++)
        sim_put(&sim, rank, (int)(i / n), i % n, sim_normal());
    sim_step(&sim, (uint64_t)kind); /* leaves the receiver's state as after an honest call */
    bool same = true;
    for (int round = 0; round < 3; round++) {
      attack(&sim, (enum attack)kind, round > 0);
      same &= same_everywhere(&sim);
    }
    ok(same, "n=%llu W=%d type %d keep %u, %s: the same bits from every variant", (unsigned long long)n, nranks, dtype,
       keep_ppm, attack_name[kind]);
    sim_free(&sim);
  }
}

int main(void) {
  variants_tell();
  check(20011, 2, TAGC_FLOAT32, 250000);  /* one stripe, four hashes */
  check(70001, 3, TAGC_BFLOAT16, 300000); /* one stripe, three hashes */
  check(80021, 4, TAGC_FLOAT16, 1000000); /* stripes */
  return tap_done();
}
