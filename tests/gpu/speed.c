/* SPDX-License-Identifier: BSD-3-Clause
 * How long the dense codecs take on a GPU, beside a copy of the foreign elements from device to device, of the same run.
 * Usage: speed [ELEMENTS...]: of a shard (1 M, 4 M, 16 M), four ranks, of which this is one.
 *
 * Each time is the median of several, after some that do not count, between events around five calls. Output: a table; the
 * factors are times of the copy. Failure: a call of the driver that fails ends the program.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/codecs.h"
#include "tests/unit/cuda_rank.h"

enum { RANKS = 4, CALLS = 5, WARM = 2, TIMES = 7 };

struct bench {
  const struct tagc_cuda_launcher *launcher;
  const struct tagc_codec *codec;
  struct tagc_job job;
  struct tagc_counts *counts;
  size_t bytes;                    /* of the foreign elements */
};

static void copy(struct bench *b)
{
  MUST(cuMemcpyDtoDAsync_v2((CUdeviceptr)(uintptr_t)b->job.recv, (CUdeviceptr)(uintptr_t)b->job.send, b->bytes, NULL));
}

static void encode(struct bench *b) { MUST(tagc_cuda_codec_of(b->codec)->encode(b->launcher, b->codec, &b->job, b->counts, NULL)); }
static void decode(struct bench *b) { MUST(tagc_cuda_codec_of(b->codec)->decode(b->launcher, b->codec, &b->job, b->counts, NULL)); }

static int by_size(const void *a, const void *b)
{
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Milliseconds of one call. */
static float time_of(struct bench *b, void (*call)(struct bench *))
{
  float times[TIMES], ms;
  CUevent begin, end;
  MUST(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  MUST(cuEventCreate(&end, CU_EVENT_DEFAULT));
  for (int i = -WARM; i < TIMES; i++) {
    MUST(cuEventRecord(begin, NULL));
    for (int j = 0; j < CALLS; j++)
      call(b);
    MUST(cuEventRecord(end, NULL));
    MUST(cuEventSynchronize(end));
    MUST(cuEventElapsedTime(&ms, begin, end));
    if (i >= 0)
      times[i] = ms / CALLS;
  }
  MUST(cuEventDestroy_v2(begin));
  MUST(cuEventDestroy_v2(end));
  qsort(times, TIMES, sizeof *times, by_size);
  return times[TIMES / 2];
}

static void *room(size_t bytes) { return (void *)(uintptr_t)device_buffer(bytes ? bytes : 16); }

/* Roughly normal elements, the same in each shard. */
static void fill(void *to, uint64_t n, enum tagc_dtype dtype)
{
  const size_t size = tagc_dtype_size(dtype);
  char *shard = malloc(n * size);
  for (uint64_t i = 0; i < n; i++)
    tagc_store(shard, i, dtype, 1e-3f * sim_normal());
  for (uint64_t r = 0; r < RANKS; r++)
    MUST(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)to + r * n * size, shard, n * size));
  free(shard);
}

static void measure(const struct tagc_cuda_launcher *launcher, const struct tagc_codec *codec, uint64_t n,
                    enum tagc_dtype dtype, enum tagc_storage storage)
{
  static const char *const dtypes[] = {"fp32", "fp16", "bf16"}, *const storages[] = {"none", "fp32", "bf16", "int8"};
  const struct tagc_shape shape = {.n = n, .nranks = RANKS, .dtype = dtype, .residual = storage};
  struct bench b = {.launcher = launcher, .codec = codec};
  struct tagc_job *job = &b.job;
  *job = (struct tagc_job){.shape = shape, .rank = 1, .scale = 1, .divisor = RANKS, .seed = 7};
  tagc_cuda_codec_of(codec)->layout(codec, &shape, &job->layout);
  b.bytes = (RANKS - 1) * n * tagc_dtype_size(dtype);
  void *send = room(RANKS * n * tagc_dtype_size(dtype));
  void *all[] = {send, room(b.bytes), storage ? room(tagc_residual_bytes(&shape)) : NULL,
                 room(RANKS * job->layout.message_bytes), room(RANKS * job->layout.message_bytes),
                 room(job->layout.state_bytes), room(sizeof *b.counts)};
  fill(send, n, dtype);
  job->send = send;
  job->recv = all[1];              /* as much as copy() wants */
  job->residual = all[2];
  job->message_out = all[3];
  job->message_in = all[4];
  job->state = all[5];
  b.counts = all[6];
  MUST(cuMemsetD8Async((CUdeviceptr)(uintptr_t)b.counts, 0, sizeof *b.counts, NULL));
  job->residual_empty = true;
  encode(&b);
  job->residual_empty = false;
  MUST(cuMemcpyDtoDAsync_v2((CUdeviceptr)(uintptr_t)job->message_in, (CUdeviceptr)(uintptr_t)job->message_out,
                            job->layout.message_bytes * RANKS, NULL));
  const float copied = time_of(&b, copy), encoded = time_of(&b, encode), decoded = time_of(&b, decode);
  printf("%-5s %-5s %-5s %10llu %10.4f %10.4f %7.2f %10.4f %7.2f %9.1f\n", codec->name, dtypes[dtype], storages[storage],
         (unsigned long long)n, copied, encoded, encoded / copied, decoded, decoded / copied,
         2e-6 * (double)b.bytes / copied);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i])
      MUST(cuMemFree_v2((CUdeviceptr)(uintptr_t)all[i]));
}

int main(int argc, char **argv)
{
  static const struct tagc_codec *const codecs[] = {&tagc_codec_bf16, &tagc_codec_q8, &tagc_codec_q4, &tagc_codec_q2};
  static const struct { enum tagc_dtype dtype; enum tagc_storage storage; } kinds[] = {
    {TAGC_FLOAT32, TAGC_STORAGE_FP32}, {TAGC_BFLOAT16, TAGC_STORAGE_INT8}, {TAGC_BFLOAT16, TAGC_STORAGE_NONE}};
  const uint64_t usual[] = {1 << 20, 4 << 20, 16 << 20};
  const struct tagc_cuda_launcher launcher = device_launcher(false);
  printf("%-5s %-5s %-5s %10s %10s %10s %7s %10s %7s %9s\n", "codec", "type", "kept", "elements", "copy ms", "encode ms",
         "factor", "decode ms", "factor", "copy GB/s");
  for (size_t codec = 0; codec < sizeof codecs / sizeof *codecs; codec++)
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
      for (int i = 0; i < (argc > 1 ? argc - 1 : 3); i++)
        measure(&launcher, codecs[codec], argc > 1 ? strtoull(argv[i + 1], NULL, 0) : usual[i], kinds[kind].dtype,
                kinds[kind].storage);
  return 0;
}
