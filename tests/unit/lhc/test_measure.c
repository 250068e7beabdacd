/* SPDX-License-Identifier: BSD-3-Clause
 * measure of the codec `lhc` fills the exponents as prepare does, and changes nothing else: types, storages of the
 * residual, instruction sets, incomplete blocks, exceptions. Chunks have the exponents of the whole call. After measure
 * prepare leaves the exponents alone.
 */
#include "kernels/codec/chunks.h"
#include "kernels/lhc/lhc.h"
#include "tests/unit/codec/sim.h"
#include "tests/unit/codec/variants.h"
#include "tests/unit/tap.h"

enum { RANKS = 3, KEEP_PPM = 250000 };

static void fill(struct sim *sim) {
  for (int r = 0; r < RANKS; r++)
    for (uint64_t i = 0; i < RANKS * sim->shape.n; i++) {
      const float scale = exp2f((float)(i / 1024 % 40) - 30);
      sim_put(sim, r, 0, i, i / 1024 % 7 == 3 ? 1e-40f : sim_random() % 500 ? sim_normal() * scale : INFINITY);
    }
}

static size_t exponents_of(const struct tagc_job *job) { return RANKS * job->layout.exponent_bytes; }

/* Fills a copy with measure, and the job's own with prepare. Describes the first fault; NULL: none. */
static const char *fault_of(const struct sim *sim, int rank) {
  struct tagc_job *job = &sim->job[rank], alone = *job;
  const size_t residual = tagc_residual_bytes(&job->shape);
  const char *fault = NULL;
  uint8_t *measured = sim_memory(exponents_of(job)), *kept = sim_memory(residual);
  struct tagc_codec_stats before = sim->stats;
  alone.exponents = measured;
  alone.message_out = alone.message_in = NULL;
  alone.sketch_out = alone.sketch_in = NULL;
  alone.state = alone.recv = NULL;
  memcpy(kept, job->residual, residual);
  sim->codec->measure(&alone);
  if (memcmp(kept, job->residual, residual) != 0 || memcmp(&before, &sim->stats, sizeof before) != 0)
    fault = "something else changes";
  job->stats = (struct tagc_codec_stats *)(uintptr_t)&sim->stats;
  sim->codec->prepare(job);
  if (!fault && memcmp(measured, job->exponents, exponents_of(job)) != 0)
    fault = "an exponent differs";
  free(measured);
  free(kept);
  return fault;
}

/* Chunks of the job, from the second step on: their exponents, shard by shard, are those of the whole. */
static bool has_the_wholes(const struct sim *sim, int rank, int count) {
  const struct tagc_job *job = &sim->job[rank];
  const struct tagc_chunks chunks = tagc_chunks_of(job->shape.n, count);
  bool same = chunks.count == count;
  for (int k = 0; k < chunks.count; k++) {
    struct tagc_job chunk = tagc_chunk_job(job, &chunks, k);
    same &= sim->codec->layout(&chunk.shape, &chunk.layout) && chunk.layout.exponent_bytes > 0;
    chunk.residual_empty = true; /* the sim's residual is not cut */
    chunk.exponents = sim_memory(exponents_of(&chunk));
    sim->codec->measure(&chunk);
    for (int shard = 0; shard < RANKS && same; shard++)
      same = memcmp(chunk.exponents + (size_t)shard * chunk.layout.exponent_bytes,
                    job->exponents + (size_t)shard * job->layout.exponent_bytes + chunks.at[k] / 1024,
                    (chunk.shape.n + 1023) / 1024) == 0;
    free(chunk.exponents);
  }
  return same;
}

static void check_same(const char *variant) {
  const char *fault = NULL;
  uint64_t sizes[] = {20480, 17003, 16385, 18447, 20479};
  bool seen = false;
  for (int storage = TAGC_STORAGE_FP32; storage <= TAGC_STORAGE_INT8; storage++)
    for (int i = 0; i < 10 && !fault; i++) {
      struct sim sim =
        sim_new_stored("lhc", sizes[i % 5], RANKS, (enum tagc_dtype)(i % 3), KEEP_PPM, (enum tagc_storage)storage);
      for (int step = 0; step < 2 && !fault; step++) {
        fill(&sim);
        sim_step(&sim, (uint64_t)step);
      }
      fill(&sim);
      for (int r = 0; r < RANKS && !fault; r++) {
        sim.job[r].scale = i % 2 ? 0.3f : 1;
        fault = fault_of(&sim, r);
        seen |= sim.job[r].exponents[(r == 0) * sim.layout.exponent_bytes] > 0;
      }
      sim_free(&sim);
    }
  ok(!fault && seen, "%s: the exponents of prepare, and nothing else changes%s%s", variant, fault ? ", but: " : "",
     fault ? fault : "");
}

static void check_chunks(void) {
  struct sim sim = sim_new("lhc", 200003, RANKS, TAGC_FLOAT32, KEEP_PPM);
  bool same = true;
  fill(&sim);
  for (int r = 0; r < RANKS; r++) {
    sim.job[r].stats = &sim.stats;
    sim.codec->prepare(&sim.job[r]);
    for (int count = 1; count <= 5; count++)
      same &= has_the_wholes(&sim, r, count);
  }
  ok(same, "chunks have the exponents of the whole call");
  sim_free(&sim);
}

static void check_left_alone(void) {
  struct sim sim = sim_new("lhc", 20480, RANKS, TAGC_FLOAT32, KEEP_PPM);
  struct tagc_job *job = &sim.job[1];
  bool kept = true;
  fill(&sim);
  job->stats = &sim.stats;
  job->measured = true;
  memset(job->exponents, 200, exponents_of(job));
  sim.codec->prepare(job);
  for (size_t i = 0; i < exponents_of(job); i++)
    kept &= job->exponents[i] == 200;
  ok(kept, "prepare leaves exponents alone that are known");
  sim_free(&sim);
}

/* Without a sketch there are no exponents. */
static void check_small(void) {
  struct sim sim = sim_new("lhc", 5000, RANKS, TAGC_FLOAT32, 10000);
  fill(&sim);
  struct tagc_job job = sim.job[0];
  job.exponents = NULL;
  sim.codec->measure(&job);
  ok(sim.layout.exponent_bytes == 0, "nothing to measure in a shard without a sketch");
  sim_free(&sim);
}

int main(void) {
  variants_tell();
  for (int v = TAGC_VARIANT_PLAIN; v < TAGC_VARIANT_COUNT; v++)
    if (tagc_variant_force(tagc_variant_name((enum tagc_variant)v)))
      check_same(tagc_variant_name((enum tagc_variant)v));
  check_chunks();
  check_left_alone();
  check_small();
  return tap_done();
}
