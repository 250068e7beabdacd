/* SPDX-License-Identifier: BSD-3-Clause
 * A rank whose codec runs on a CUDA device, beside the same rank on the host (sim.h): both get the same bytes, and all
 * their outputs are compared.
 *
 * Memory   Buffers of the device begin as copies of the host's, between guard bytes that must not change.
 * Threads  Single-threaded. Failure: a failing driver call ends the program.
 */
#ifndef TESTS_UNIT_DEVICE_CUDA_RANK_H
#define TESTS_UNIT_DEVICE_CUDA_RANK_H

#include "kernels/cuda/codecs.h"
#include "kernels/device/fatbin.h"
#include "tests/standin/cuda/device.h"
#include "tests/unit/codec/cases.h"
#include "tests/unit/tap.h"

enum { GUARD = 256, GUARD_BYTE = 0x5b };

/* Memory of the device, and the host's counterpart. */
struct twin {
  void *host;        /* the sim's; NULL: none */
  size_t bytes, off; /* off: bytes past a multiple of 256 */
  CUdeviceptr base;
};

struct device_rank {
  struct tagc_job job; /* with pointers of the device; the decode of every other rank ends its call */
  struct twin send, recv, residual, message_out, message_in, state, counts, health;
  struct twin exponents, sketch_out, sketch_in;
  struct tagc_codec_stats stats; /* of a step: the host's */
  struct tagc_counts before;     /* the device's before the step */
};

static int device_launch(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters,
                         void **extra) {
  return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, parameters, extra);
}

static int device_get(void **function, void *module, const char *name) {
  return cuModuleGetFunction((CUfunction *)function, module, name);
}

/* The launcher of the first device. `ptx`: with the PTX for older drivers. */
static inline struct tagc_cuda_launcher device_launcher(bool ptx) {
  struct tagc_cuda_launcher launcher = {.launch = device_launch};
  CUmodule module;
  CUdevice device;
  const char *missing;
  int processors;
  device_open(0);
  MUST(cuCtxGetDevice(&device));
  MUST(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
  MUST(cuModuleLoadData(&module, tagc_fatbin_size() == 0 ? "CUDA-STANDIN" : ptx ? tagc_fatbin_ptx() : tagc_fatbin()));
  MUST(tagc_cuda_find(&launcher, device_get, module, &missing));
  launcher.processors = (uint32_t)processors;
  return launcher;
}

static inline void *twin_at(const struct twin *twin) { return (void *)(uintptr_t)(twin->base + GUARD + twin->off); }

static inline void twin_put(const struct twin *twin) {
  if (twin->bytes > 0)
    MUST(cuMemcpyHtoD_v2(twin->base + GUARD + twin->off, twin->host, twin->bytes));
}

static inline struct twin twin_new(void *host, size_t bytes, size_t off) {
  struct twin twin = {.host = host, .bytes = bytes, .off = off, .base = device_buffer(bytes + off + 2 * GUARD)};
  uint8_t *all = malloc(bytes + off + 2 * GUARD);
  memset(all, GUARD_BYTE, bytes + off + 2 * GUARD);
  MUST(cuMemcpyHtoD_v2(twin.base, all, bytes + off + 2 * GUARD));
  free(all);
  if (host)
    twin_put(&twin);
  return twin;
}

/* The content of the device's memory, which the caller frees; false if a guard byte has changed. */
static inline bool twin_get(const struct twin *twin, uint8_t **content) {
  const size_t before = GUARD + twin->off, all = before + twin->bytes + GUARD;
  uint8_t *bytes = malloc(all);
  bool untouched = true;
  device_read(bytes, twin->base, all);
  for (size_t i = 0; i < all; i++)
    untouched &= (i >= before && i < before + twin->bytes) || bytes[i] == GUARD_BYTE;
  memmove(bytes, bytes + before, twin->bytes);
  *content = bytes;
  return untouched;
}

/* 0: equal in [from, from + bytes). Otherwise 1 + the first differing byte; the last number means a guard byte. */
static inline size_t twin_differs(const struct twin *twin, size_t from, size_t bytes) {
  uint8_t *content;
  size_t at = 0;
  const bool untouched = twin_get(twin, &content);
  while (at < bytes && content[from + at] == ((const uint8_t *)twin->host)[from + at])
    at++;
  free(content);
  return !untouched ? SIZE_MAX : at < bytes ? 1 + from + at : 0;
}

/* `off`: distance of send and recv from an aligned address, in bytes; in place, recv is the own shard. */
static inline struct device_rank device_rank_new(const struct tagc_codec *codec, const struct tagc_job *host,
                                                 size_t off, bool in_place) {
  struct device_rank rank = {.job = *host};
  struct tagc_job *job = &rank.job;
  const size_t n = host->shape.n, nranks = (size_t)host->shape.nranks, size = tagc_dtype_size(host->shape.dtype);
  tagc_cuda_codec_of(codec)->layout(codec, &host->shape, &job->layout);
  rank.send = twin_new((void *)(uintptr_t)host->send, nranks * n * size, off);
  rank.recv = twin_new(host->recv, n * size, off);
  rank.residual = twin_new(host->residual, host->residual ? tagc_residual_bytes(&host->shape) : 0, 0);
  rank.message_out = twin_new(host->message_out, nranks * host->layout.message_bytes, 0);
  rank.message_in = twin_new(host->message_in, nranks * host->layout.message_bytes, 0);
  rank.exponents = twin_new(host->exponents, nranks * host->layout.exponent_bytes, 0);
  rank.sketch_out = twin_new(host->sketch_out, nranks * host->layout.sketch_count * sizeof(int32_t), 0);
  rank.sketch_in = twin_new(host->sketch_in, host->layout.sketch_count * sizeof(int32_t), 0);
  rank.state = twin_new(NULL, job->layout.state_bytes, 0);
  rank.counts = twin_new(NULL, sizeof(struct tagc_counts), 0);
  rank.health = twin_new(NULL, sizeof(struct tagc_health), 0);
  MUST(cuMemsetD8Async(rank.counts.base + GUARD, 0, rank.counts.bytes, NULL));
  MUST(cuMemsetD8Async(rank.health.base + GUARD, 0, rank.health.bytes, NULL));
  job->send = twin_at(&rank.send);
  job->recv = in_place ? (char *)twin_at(&rank.send) + (size_t)host->rank * n * size : twin_at(&rank.recv);
  job->residual = host->residual ? twin_at(&rank.residual) : NULL;
  job->message_out = twin_at(&rank.message_out);
  job->message_in = twin_at(&rank.message_in);
  job->exponents = twin_at(&rank.exponents);
  job->sketch_out = twin_at(&rank.sketch_out);
  job->sketch_in = twin_at(&rank.sketch_in);
  job->state = twin_at(&rank.state);
  job->health = twin_at(&rank.health);
  job->cycle = 1;
  job->residual_cycle = TAGC_HEALTH_CYCLES - 1; /* no step comes so far */
  job->ends = host->rank % 2 == 0;
  job->stats = NULL;
  MUST(cuCtxSynchronize());
  return rank;
}

static inline void device_rank_free(struct device_rank *rank) {
  const struct twin *all[] = {&rank->send,       &rank->recv,      &rank->residual,   &rank->message_out,
                              &rank->message_in, &rank->exponents, &rank->sketch_out, &rank->sketch_in,
                              &rank->state,      &rank->counts,    &rank->health};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    MUST(cuMemFree_v2(all[i]->base));
}

static inline struct tagc_counts device_counts(const struct device_rank *rank) {
  struct tagc_counts counts;
  device_read(&counts, rank->counts.base + GUARD, sizeof counts);
  return counts;
}

/* True if the test was started with this word. tests/gpu/run searches the test's source for accepted words. */
static inline bool cuda_said(int argc, char **argv, const char *word) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], word) == 0)
      return true;
  return false;
}

/* True if the test should leave out repetitions: with `short`, and in slow builds. */
static inline bool cuda_brief(int argc, char **argv) {
  return (SANITIZED && argc < 2) || cuda_said(argc, argv, "short");
}

#endif
