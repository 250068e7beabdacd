/* SPDX-License-Identifier: BSD-3-Clause
 * A gradient on a GPU gives the same statistics as on the host. The kernel counts the words of nonzero_index.h, over
 * types, sizes, numbers of ranks, scales and addresses. Through the library's own table for the device it gets density,
 * kurtosis and errors, which decide for TAGC_CODEC=auto.
 *
 * It runs on the device of libcuda.so.1: the stand-in, or a GPU (tests/gpu/run). Words: as in test_cuda.c.
 */
#include "kernels/device/gradient_stats.h"
#include "tests/unit/device/cuda_rank.h"
#include "tests/unit/tap.h"

static struct tagc_cuda_launcher launcher;

struct gradient {
  uint64_t n;
  unsigned nranks, rank;
  enum tagc_dtype dtype;
  float scale;
  size_t off;                  /* bytes past an aligned address */
  float (*value)(uint64_t at); /* by place in the send buffer */
};

static void *send_of(const struct gradient *g) {
  void *send = malloc(g->nranks * g->n * tagc_dtype_size(g->dtype));
  for (uint64_t i = 0; i < g->nranks * g->n; i++)
    tagc_store(send, i, g->dtype, g->value(i));
  return send;
}

static struct twin on_device(const struct gradient *g, void *send) {
  return twin_new(send, g->nranks * g->n * tagc_dtype_size(g->dtype), g->off);
}

/* Rows of 768, one in 200 nonzero; zeros in the first 30,000 elements. */
static float rows(uint64_t at) { return at > 30000 && tagc_mix64(at / 768) % 200 == 0 ? sim_normal() : 0; }

static float dense(uint64_t at) {
  (void)at;
  return sim_normal();
}

/* Two values, at the ends of blocks of shard 1. */
static float lonely(uint64_t at) { return at == 20011 + 255 || at == 20011 + 20010 ? 1 : 0; }

static float wild(uint64_t at) { return at == 3 ? NAN : at == 25000 ? -INFINITY : at % 7 ? 0x1p-121f : 0x1p-119f; }

static float nothing(uint64_t at) {
  (void)at;
  return 0;
}

static bool same_words(const struct gradient *g, uint64_t range) {
  const size_t bytes = tagc_nonzero_index_bytes(g->nranks);
  uint64_t *words = calloc(1, bytes);
  void *send = send_of(g);
  struct tagc_job job = {.shape = {.n = g->n, .nranks = (int)g->nranks, .dtype = g->dtype},
                         .rank = (int)g->rank,
                         .scale = g->scale,
                         .divisor = 1,
                         .send = send};
  struct twin gradient = on_device(g, send), counted = twin_new(words, bytes, 0);
  tagc_nonzero_index_count(&job, range, words);
  job.send = twin_at(&gradient);
  MUST(tagc_cuda_count(&launcher, &job, range, twin_at(&counted), NULL));
  const bool same = !twin_differs(&counted, 0, bytes) && !twin_differs(&gradient, 0, gradient.bytes);
  MUST(cuMemFree_v2(gradient.base));
  MUST(cuMemFree_v2(counted.base));
  free(send);
  free(words);
  return same;
}

static void words(void) {
  static const struct {
    const char *name;
    float (*value)(uint64_t);
  } fills[] = {
    {"rows", rows},     {"dense", dense}, {"lonely values", lonely}, {"exceptions and tiny values", wild},
    {"zeros", nothing},
  };
  static const struct {
    uint64_t n;
    unsigned nranks, rank;
    uint64_t range;
  } shapes[] = {
    {20011, 2, 0, 4096}, {20011, 3, 2, 626}, {20011, 5, 1, 1251}, {1, 2, 1, 1}, {255, 64, 7, 256}, {256, 2, 1, 256},
  };
  for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
    bool good = true;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int dtype = SANITIZED ? (int)(s + f) % 3 : 0; dtype < 3; dtype += 1 + 2 * SANITIZED) {
        const size_t off = (s + (size_t)dtype) % 3 * tagc_dtype_size((enum tagc_dtype)dtype);
        const struct gradient g = {
          shapes[s].n, shapes[s].nranks, shapes[s].rank, (enum tagc_dtype)dtype, s % 2 ? 0.25f : 1,
          off,         fills[f].value};
        good &= same_words(&g, shapes[s].range);
      }
    ok(good, "%s: the host's counts", fills[f].name);
  }
}

/* Reads and measures; false on failure. */
static bool sample(const struct tagc_gradient_request *q, const struct tagc_device *device,
                   struct tagc_gradient_stats *out) {
  struct tagc_gradient_sample sample;
  const bool good = tagc_gradient_sample_read(q, device, NULL, &sample) && tagc_gradient_stats_measure(q, &sample, out);
  tagc_gradient_sample_free(&sample);
  return good;
}

static void looks(void) {
  static const char *const names[TAGC_CANDIDATES] = {"bf16", "q8", "q4", "sparse", "lhc", "q3", "q2"};
  const struct gradient gradients[] = {
    {200003, 3, 1, TAGC_FLOAT32, 1, 0, rows},  {70001, 2, 0, TAGC_BFLOAT16, 1, 2, dense},
    {20011, 2, 0, TAGC_FLOAT32, 1, 4, lonely}, {20011, 2, 1, TAGC_FLOAT16, 0.5f, 0, wild},
    {500, 2, 1, TAGC_FLOAT32, 1, 0, nothing},
  };
  const struct tagc_device *device = tagc_device_cuda(0);
  struct tagc_candidate candidates[TAGC_CANDIDATES];
  for (int i = 0; i < TAGC_CANDIDATES; i++)
    candidates[i] = (struct tagc_candidate){tagc_codec_find(names[i]), TAGC_STORAGE_FP32};
  for (size_t i = SANITIZED; i < sizeof gradients / sizeof *gradients; i++) { /* the first one is large */
    const struct gradient *g = &gradients[i];
    struct tagc_gradient_stats here, there;
    void *send = send_of(g);
    struct twin gradient = on_device(g, send);
    struct tagc_gradient_request q = {.shape = {.n = g->n, .nranks = (int)g->nranks, .dtype = g->dtype},
                                      .rank = (int)g->rank,
                                      .send = send,
                                      .scale = g->scale,
                                      .candidates = candidates};
    bool same = sample(&q, &tagc_device_host, &here);
    q.send = twin_at(&gradient);
    same &= sample(&q, device, &there) && here.density == there.density && here.kurtosis == there.kurtosis &&
            here.exceptions == there.exceptions;
    for (int c = 0; c < TAGC_CANDIDATES; c++)
      same &= here.of[c].error == there.of[c].error && (here.of[c].encode_ns == 0 || here.of[c].error == INFINITY);
    ok(same, "a sample is the host's: density %.2g, kurtosis %.3g, error of q8 %.2g", there.density, there.kurtosis,
       there.of[1].error);
    MUST(cuMemFree_v2(gradient.base));
    free(send);
  }
}

int main(int argc, char **argv) {
  const bool ptx = cuda_said(argc, argv, "ptx");
  launcher = device_launcher(ptx);
  words();
  if (!ptx)
    looks();
  return tap_done();
}
