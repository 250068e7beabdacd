/* SPDX-License-Identifier: BSD-3-Clause
 * All ranks of a reduce-scatter in one process: loops replace NCCL's exchange.
 *
 * Ownership  sim_new() allocates everything, sim_free() frees it; each buffer has exactly the size from layout(), so
 *            that a sanitizer reports any overrun.
 * Threads    Single-threaded. Failure: ends the test program.
 */
#ifndef TESTS_UNIT_CODEC_SIM_H
#define TESTS_UNIT_CODEC_SIM_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/codec/codec.h"
#include "kernels/codec/bits.h"
#include "kernels/codec/device.h"
#include "kernels/codec/residual.h"

struct sim {
  const struct tagc_codec *codec;
  struct tagc_shape shape;
  struct tagc_layout layout;
  struct tagc_codec_stats stats; /* of all ranks */
  struct tagc_job *job;          /* one per rank; tests may read and fill send, recv and residual */
  bool in_place;
};

/* Memory whose unwritten bytes differ from one allocation to the next. */
static void *sim_memory(size_t bytes) {
  static uint8_t fill = 0xa5;
  void *memory = malloc(bytes ? bytes : 1);
  if (!memory) {
    printf("Bail out! no memory for %zu bytes\n", bytes);
    exit(1);
  }
  memset(memory, fill++, bytes);
  return memory;
}

static inline struct sim sim_of(const struct tagc_codec *codec, const struct tagc_shape *shape) {
  struct sim sim = {.codec = codec, .shape = *shape};
  if (!codec || !codec->layout(shape, &sim.layout)) {
    printf("Bail out! %s has no layout for n=%llu\n", codec ? codec->name : "no codec", (unsigned long long)shape->n);
    exit(1);
  }
  const struct tagc_layout *l = &sim.layout;
  const size_t ranks = (size_t)shape->nranks, size = tagc_dtype_size(shape->dtype), n = shape->n;
  sim.job = calloc(ranks, sizeof *sim.job);
  for (int rank = 0; rank < shape->nranks; rank++) {
    struct tagc_job *job = &sim.job[rank];
    *job = (struct tagc_job){.shape = *shape, .layout = *l, .rank = rank, .scale = 1, .divisor = 1};
    job->send = sim_memory(ranks * n * size);
    job->recv = sim_memory(n * size);
    job->residual = shape->residual ? sim_memory(tagc_residual_bytes(shape)) : NULL;
    job->residual_empty = true;
    job->exponents = sim_memory(ranks * l->exponent_bytes);
    job->sketch_out = sim_memory(ranks * l->sketch_count * 4);
    job->sketch_in = sim_memory(l->sketch_count * 4);
    job->message_out = sim_memory(ranks * l->message_bytes);
    job->message_in = sim_memory(ranks * l->message_bytes);
    job->state = sim_memory(l->state_bytes);
    memset((void *)(uintptr_t)job->send, 0, ranks * n * size);
  }
  return sim;
}

/* A sim with a residual in the storage `residual`. */
static inline struct sim sim_new_stored(const char *codec, uint64_t n, int nranks, enum tagc_dtype dtype,
                                        uint32_t keep_ppm, enum tagc_storage residual) {
  return sim_of(
    tagc_codec_find(codec),
    &(struct tagc_shape){.n = n, .nranks = nranks, .dtype = dtype, .keep_ppm = keep_ppm, .residual = residual});
}

static inline struct sim sim_new(const char *codec, uint64_t n, int nranks, enum tagc_dtype dtype, uint32_t keep_ppm) {
  return sim_new_stored(codec, n, nranks, dtype, keep_ppm, TAGC_STORAGE_FP32);
}

static inline void sim_free(struct sim *sim) {
  for (int rank = 0; rank < sim->shape.nranks; rank++) {
    struct tagc_job *job = &sim->job[rank];
    free((void *)(uintptr_t)job->send);
    free(job->recv);
    free(job->residual);
    free(job->exponents);
    free(job->sketch_out);
    free(job->sketch_in);
    free(job->message_out);
    free(job->message_in);
    free(job->state);
  }
  free(sim->job);
}

/* Element i of shard `shard` in the input of `rank`. */
static inline void sim_put(struct sim *sim, int rank, int shard, uint64_t i, float x) {
  void *send = (void *)(uintptr_t)sim->job[rank].send;
  tagc_store(send, (uint64_t)shard * sim->shape.n + i, sim->shape.dtype, x);
}

static inline float sim_sent(const struct sim *sim, int rank, int shard, uint64_t i) {
  return tagc_load(sim->job[rank].send, (uint64_t)shard * sim->shape.n + i, sim->shape.dtype);
}

/* Element i of the result of `rank`. */
static inline float sim_got(const struct sim *sim, int rank, uint64_t i) {
  const struct tagc_job *job = &sim->job[rank];
  if (!sim->in_place)
    return tagc_load(job->recv, i, sim->shape.dtype);
  return sim_sent(sim, rank, rank, i);
}

static inline void sim_clear(struct sim *sim) {
  size_t bytes = (size_t)sim->shape.nranks * sim->shape.n * tagc_dtype_size(sim->shape.dtype);
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    memset((void *)(uintptr_t)sim->job[rank].send, 0, bytes);
}

static inline void sim_exchange_exponents(struct sim *sim) {
  size_t bytes = (size_t)sim->shape.nranks * sim->layout.exponent_bytes;
  for (size_t i = 0; i < bytes; i++) {
    uint8_t most = 0;
    for (int rank = 0; rank < sim->shape.nranks; rank++)
      most = sim->job[rank].exponents[i] > most ? sim->job[rank].exponents[i] : most;
    for (int rank = 0; rank < sim->shape.nranks; rank++)
      sim->job[rank].exponents[i] = most;
  }
}

static inline void sim_exchange(struct sim *sim) {
  const size_t count = sim->layout.sketch_count, bytes = sim->layout.message_bytes;
  for (int to = 0; to < sim->shape.nranks; to++) {
    uint32_t *in = (uint32_t *)sim->job[to].sketch_in;
    memset(in, 0, count * 4);
    for (int from = 0; from < sim->shape.nranks; from++) {
      const uint32_t *out = (const uint32_t *)sim->job[from].sketch_out + (size_t)to * count;
      for (size_t i = 0; i < count; i++)
        in[i] += out[i];
      if (from != to)
        memcpy(sim->job[to].message_in + (size_t)from * bytes, sim->job[from].message_out + (size_t)to * bytes, bytes);
    }
  }
}

/* Runs one call on every rank. */
static inline void sim_step(struct sim *sim, uint64_t seed) {
  for (int rank = 0; rank < sim->shape.nranks; rank++) {
    struct tagc_job *job = &sim->job[rank];
    job->seed = seed;
    job->stats = &sim->stats;
    if (sim->codec->prepare)
      sim->codec->prepare(job);
  }
  sim_exchange_exponents(sim);
  for (int rank = 0; rank < sim->shape.nranks; rank++)
    sim->codec->encode(&sim->job[rank]);
  sim_exchange(sim);
  for (int rank = 0; rank < sim->shape.nranks; rank++) {
    struct tagc_job *job = &sim->job[rank];
    void *recv = job->recv;
    if (sim->in_place)
      job->recv = (char *)(uintptr_t)job->send + (size_t)rank * sim->shape.n * tagc_dtype_size(sim->shape.dtype);
    sim->codec->decode(job);
    job->recv = recv;
    job->residual_empty = false;
  }
}

/* A small generator with known bits: xorshift64*. */
static uint64_t sim_random_state = 88172645463325252u;

static inline void sim_random_restart(void) { sim_random_state = 88172645463325252u; }

static inline uint64_t sim_random(void) {
  sim_random_state ^= sim_random_state >> 12;
  sim_random_state ^= sim_random_state << 25;
  sim_random_state ^= sim_random_state >> 27;
  return sim_random_state * 2685821657736338717u;
}

/* Adds three numbers of 21 bits. */
static inline int64_t sim_three(uint64_t random) {
  const uint64_t field = (1 << 21) - 1;
  return (int64_t)((random & field) + (random >> 21 & field) + (random >> 42 & field));
}

/* Roughly normal, mean 0, deviation 1: the sum of six uniform numbers. Tests spend much of their time here. */
static inline float sim_normal(void) {
  const int64_t sum = sim_three(sim_random()) + sim_three(sim_random());
  return (float)(sum - 3 * ((1 << 21) - 1)) * (1.41421356f / (1 << 21));
}

/* Copies what all ranks of a simulation send to another one of the same shape. */
static inline void sim_copy_sent(struct sim *to, const struct sim *from) {
  const size_t bytes = (size_t)from->shape.nranks * from->shape.n * tagc_dtype_size(from->shape.dtype);
  for (int rank = 0; rank < from->shape.nranks; rank++)
    memcpy((void *)(uintptr_t)to->job[rank].send, from->job[rank].send, bytes);
}

#endif
