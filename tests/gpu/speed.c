/* SPDX-License-Identifier: BSD-3-Clause
 * Measures the speed of codecs on a GPU, beside a copy of the foreign elements from device to device in the same run.
 * Runs all codecs of the library, through its own table for the device, with their residuals.
 * Usage: speed [ELEMENTS...]: of a shard (1 M to 128 M). speed once ELEMENTS...: makes each call once, for fp32 alone,
 * so that the stand-in can count (tests/gpu/counts); its times mean nothing. speed briefly ELEMENTS...: measures one
 * call of each behind a warm-up, for a rehearsal.
 *
 * Two ranks: the first prepares and encodes, the second decodes; both have the same gradient. Each time is the median
 * of several, after a warm-up, between events around five calls. Factors are multiples of the copy's time; GB/s are
 * those of the foreign elements. The estimate is TAGC_CODEC=auto's time of encode, decode and the end of a call, in ms.
 * Output: a table, and for lhc at 16 M elements of fp32 lines "goal:". A second table has the codecs for all-gathers:
 * encode beside a copy of the own shard, decode beside a copy of both; and both again with few thread blocks, as beside
 * a program. For exact an update has changed the parameters since they were last gathered, and payloads have the size
 * that they need. Shards of support have 5% of the values. Failure: a call that fails ends the program; a slow one does
 * not.
 */
#include <stdlib.h>
#include <string.h>

#include "kernels/allgather/support.h"
#include "kernels/codec/codecs.h"
#include "kernels/codec/device.h"
#include "tests/standin/cuda/device.h"
#include "tests/unit/codec/sim.h"

enum { RANKS = 2, CALLS = 5, WARM = 2, TIMES = 7, TILE = 1 << 20 };

static bool once, briefly;

/* The goals of lhc at 16 M elements of fp32, as factors of the copy. */
enum { GOAL_ELEMENTS = 16 << 20, GOAL_ENCODE = 4, GOAL_DECODE = 6 };

struct bench {
  const struct tagc_device *device;
  const struct tagc_codec *codec;
  struct tagc_job sender, receiver;
  void *copied;
  size_t bytes; /* of the foreign elements */
};

static void need(bool good, const char *what) {
  if (good)
    return;
  printf("%s failed\n", what);
  exit(1);
}

static CUdeviceptr at(const void *memory) { return (CUdeviceptr)(uintptr_t)memory; }

static void move(void *to, const void *from, size_t bytes) {
  MUST(cuMemcpyDtoDAsync_v2(at(to), at(from), bytes, NULL));
}

static void copy(struct bench *b) { move(b->copied, b->sender.send, b->bytes); }

static void encode(struct bench *b) {
  const struct tagc_device *d = b->device;
  need(d->prepare(d, b->codec, &b->sender, NULL) && d->encode(d, b->codec, &b->sender, NULL), "encode");
  b->sender.residual_empty = false;
}

static void decode(struct bench *b) { need(b->device->decode(b->device, b->codec, &b->receiver, NULL), "decode"); }

/* What comes before the first chunk. */
static void exponents(struct bench *b) { need(b->device->measure(b->device, b->codec, &b->sender, NULL), "exponents"); }

static int by_size(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Milliseconds of one call. */
static double time_of(struct bench *b, void (*call)(struct bench *)) {
  const int warm = once ? 0 : briefly ? 1 : WARM, count = once || briefly ? 1 : TIMES;
  const int calls = once || briefly ? 1 : CALLS;
  float times[TIMES], ms;
  CUevent begin, end;
  MUST(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  MUST(cuEventCreate(&end, CU_EVENT_DEFAULT));
  for (int i = -warm; i < count; i++) {
    MUST(cuEventRecord(begin, NULL));
    for (int j = 0; j < calls; j++)
      call(b);
    MUST(cuEventRecord(end, NULL));
    MUST(cuEventSynchronize(end));
    MUST(cuEventElapsedTime(&ms, begin, end));
    if (i >= 0)
      times[i] = ms / (float)calls;
  }
  MUST(cuEventDestroy_v2(begin));
  MUST(cuEventDestroy_v2(end));
  qsort(times, (size_t)count, sizeof *times, by_size);
  return (double)times[count / 2];
}

static void *room(const struct tagc_device *device, size_t bytes) {
  void *memory = device->alloc(device, bytes + 16, NULL);
  need(memory && device->clear(device, memory, bytes + 16, NULL), "an allocation");
  return memory;
}

/* Fills all shards with a repeated tile. */
static void spread(void *to, const char *some, uint64_t n, size_t size) {
  const uint64_t tile = n < TILE ? n : TILE;
  for (uint64_t shard = 0; shard < RANKS; shard++)
    for (uint64_t i = 0; i < n; i += tile)
      MUST(cuMemcpyHtoD_v2(at(to) + (shard * n + i) * size, some, (n - i < tile ? n - i : tile) * size));
}

/* Fills all shards with the same roughly normal elements. */
static void fill(void *to, uint64_t n, enum tagc_dtype dtype) {
  const size_t size = tagc_dtype_size(dtype), tile = n < TILE ? n : TILE;
  char *some = malloc(tile * size);
  for (uint64_t i = 0; i < tile; i++)
    tagc_store(some, i, dtype, 1e-3f * sim_normal());
  spread(to, some, n, size);
  free(some);
}

/* The sums of a sparse gradient: one value of 20. */
static void fill_sums(void *to, uint64_t n, enum tagc_dtype dtype) {
  const size_t size = tagc_dtype_size(dtype), tile = n < TILE ? n : TILE;
  char *some = calloc(tile, size);
  for (uint64_t i = 0; i < tile; i++)
    if (sim_random() % 20 == 0)
      tagc_store(some, i, dtype, 1e-3f * sim_normal());
  spread(to, some, n, size);
  free(some);
}

/* An optimizer's step: changes them by a little, whatever their size. */
static void update(void *parameters, uint64_t n, enum tagc_dtype dtype) {
  const size_t size = tagc_dtype_size(dtype), tile = n < TILE ? n : TILE;
  char *some = malloc(tile * size);
  MUST(cuMemcpyDtoH_v2(some, at(parameters), tile * size));
  for (uint64_t i = 0; i < tile; i++)
    tagc_store(some, i, dtype, tagc_load(some, i, dtype) + 3e-6f * sim_normal());
  spread(parameters, some, n, size);
  free(some);
}

/* Plays the exchange: gives the second rank the payloads of the first. */
static void exchange(struct bench *b) {
  const struct tagc_layout *l = &b->sender.layout;
  struct tagc_job *to = &b->receiver;
  if (l->message_bytes)
    move(to->message_in, b->sender.message_out + l->message_bytes, l->message_bytes);
  if (l->sketch_count)
    move(to->sketch_in, b->sender.sketch_out + l->sketch_count, 4 * l->sketch_count);
  if (l->exponent_bytes)
    move(to->exponents, b->sender.exponents, RANKS * l->exponent_bytes);
}

/* Makes a job with its own memory. */
static struct tagc_job job_of(const struct tagc_device *device, const struct tagc_shape *shape,
                              const struct tagc_layout *layout, int rank, void **memory) {
  struct tagc_job job = {.shape = *shape,
                         .layout = *layout,
                         .rank = rank,
                         .scale = 1,
                         .divisor = RANKS,
                         .seed = 7,
                         .cycle = 1,
                         .residual_empty = true};
  *memory = room(device, tagc_job_assign_buffers(&job, NULL));
  tagc_job_assign_buffers(&job, *memory);
  job.tally = device->tally_make(device, NULL);
  need(job.tally, "a tally");
  return job;
}

/* The time that TAGC_CODEC=auto assumes for encode and decode, in milliseconds. */
static double expected(const struct bench *b) {
  const struct tagc_shape *shape = &b->sender.shape;
  struct tagc_gpu_cost cost;
  need(b->device->cost(b->device, b->codec, shape, &cost), "an estimate");
  return 1e-6 * ((RANKS - 1) * (double)shape->n * (cost.encode_ns + cost.decode_ns) + cost.call_ns);
}

static void tell(const struct bench *b, double copied, double encoded, double decoded) {
  static const char *const dtypes[] = {"fp32", "fp16", "bf16"};
  static const char *const storages[] = {"none", "fp32", "bf16", "int8"};
  const struct tagc_shape *shape = &b->sender.shape;
  const double gigabytes = 1e-6 * (double)b->bytes;
  printf("%-6s %4g%% %-5s %-5s %10llu %9.4f %8.1f %9.4f %7.2f %8.1f %9.4f %7.2f %8.1f %9.4f\n", b->codec->name,
         b->codec->needs_residual ? 1e-4 * shape->keep_ppm : 100, dtypes[shape->dtype], storages[shape->residual],
         (unsigned long long)shape->n, copied, gigabytes / copied, encoded, encoded / copied, gigabytes / encoded,
         decoded, decoded / copied, gigabytes / decoded, expected(b));
  if (b->codec == &tagc_codec_lhc && shape->dtype == TAGC_FLOAT32 && shape->n == GOAL_ELEMENTS)
    printf(
      "goal: lhc at 16 M fp32, %g%% kept, residual %s: encode %.2f of %d times the copy: %s; decode %.2f of %d: %s\n",
      1e-4 * shape->keep_ppm, storages[shape->residual], encoded / copied, GOAL_ENCODE,
      encoded <= GOAL_ENCODE * copied ? "met" : "MISSED", decoded / copied, GOAL_DECODE,
      decoded <= GOAL_DECODE * copied ? "met" : "MISSED");
}

/* False if the codec does not run here in this shape. */
static bool measure(const struct tagc_device *device, const struct tagc_codec *codec, const struct tagc_shape *shape) {
  struct tagc_layout layout;
  if (!device->layout(device, codec, shape, &layout))
    return false;
  const size_t size = tagc_dtype_size(shape->dtype);
  struct bench b = {.device = device, .codec = codec, .bytes = (RANKS - 1) * shape->n * size};
  void *send = room(device, RANKS * shape->n * size), *recv = room(device, shape->n * size), *payloads[RANKS];
  void *residual = shape->residual ? room(device, tagc_residual_bytes(shape)) : NULL;
  b.copied = room(device, b.bytes);
  b.sender = job_of(device, shape, &layout, 0, &payloads[0]);
  b.receiver = job_of(device, shape, &layout, 1, &payloads[1]);
  fill(send, shape->n, shape->dtype);
  b.sender.send = b.receiver.send = send;
  b.sender.recv = b.receiver.recv = recv;
  b.sender.residual = residual;
  const double copied = time_of(&b, copy), encoded = time_of(&b, encode);
  exchange(&b);
  tell(&b, copied, encoded, time_of(&b, decode));
  if (once && layout.exponent_bytes)
    time_of(&b, exponents);
  void *all[] = {send, recv, residual, b.copied, payloads[0], payloads[1]};
  device->tally_free(device, b.sender.tally, NULL);
  device->tally_free(device, b.receiver.tally, NULL);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    device->release(device, all[i], NULL);
  MUST(cuCtxSynchronize());
  return true;
}

/* -- all-gathers --------------------------------------------------------------------------------------------------- */

struct gathering {
  const struct tagc_device *device;
  const struct tagc_allgather_codec *codec;
  struct tagc_allgather_job job;
  void *copied, *old; /* old: the shard as it was gathered last */
  struct tagc_allgather_sizes sizes;
};

static struct gathering *gathering; /* the one that is measured */

static void gather_copy(struct bench *unused) {
  const struct tagc_allgather_shape *shape = &gathering->job.shape;
  (void)unused;
  move(gathering->copied, gathering->job.send, shape->n * tagc_dtype_size(shape->dtype));
}

static void gather_encode(struct bench *unused) {
  (void)unused;
  need(gathering->device->allgather_encode(gathering->device, gathering->codec, &gathering->job, NULL), "encode");
}

static void gather_decode(struct bench *unused) {
  (void)unused;
  need(gathering->device->allgather_decode(gathering->device, gathering->codec, &gathering->job, NULL), "decode");
}

/* Makes the payloads of a call, with the old shards as the reference. */
static void gather_payloads(const struct gathering *g) {
  const struct tagc_allgather_job *job = &g->job;
  const size_t shard = job->shape.n * tagc_dtype_size(job->shape.dtype);
  for (size_t rank = 0; rank < RANKS; rank++)
    move((char *)job->recv + rank * shard, g->old, shard);
  need(g->device->allgather_refer(g->device, g->codec, &gathering->job, NULL), "a reference");
  gather_encode(NULL);
  move(job->payloads + job->layout.payload_bytes, job->payloads, job->layout.payload_bytes);
}

static void tell_gather(const struct gathering *g) {
  static const char *const dtypes[] = {"fp32", "fp16", "bf16"};
  const struct tagc_allgather_shape *shape = &g->job.shape;
  const double shard = (double)shape->n * (double)tagc_dtype_size(shape->dtype), gigabytes = 1e-6 * shard;
  double ms[5];
  ms[0] = time_of(NULL, gather_copy);
  ms[1] = time_of(NULL, gather_encode);
  ms[2] = time_of(NULL, gather_decode);
  gather_payloads(g);
  gathering->job.beside = true;
  ms[3] = time_of(NULL, gather_encode);
  ms[4] = time_of(NULL, gather_decode);
  printf("gather %-8s %-5s %10llu %6.3f %9.4f %8.1f %9.4f %7.2f %8.1f %9.4f %7.2f %8.1f %8.1f %8.1f\n", g->codec->name,
         dtypes[shape->dtype], (unsigned long long)shape->n, (double)g->job.layout.payload_bytes / shard, ms[0],
         gigabytes / ms[0], ms[1], ms[1] / ms[0], gigabytes / ms[1], ms[2], ms[2] / (RANKS * ms[0]),
         RANKS * gigabytes / ms[2], gigabytes / ms[3], RANKS * gigabytes / ms[4]);
}

/* Of a payload of support. */
static uint64_t bytes_needed(const uint8_t *payload) {
  uint8_t header[sizeof(struct tagc_support_header)];
  MUST(cuMemcpyDtoH_v2(header, at(payload), sizeof header));
  return tagc_support_needed(header);
}

/* Both ranks have the same shard, and delta's reference equals it. That of exact is a step older. */
static void measure_gather(const struct tagc_device *device, const struct tagc_allgather_codec *codec,
                           const struct tagc_allgather_shape *shape) {
  struct gathering g = {.device = device, .codec = codec, .job = {.shape = *shape, .seed = 7}};
  struct tagc_allgather_job *job = &g.job;
  const size_t shard = shape->n * tagc_dtype_size(shape->dtype);
  bool refused = false;
  if (!device->allgather_layout(device, codec, shape, &job->layout))
    return;
  void *payloads = room(device, tagc_allgather_assign_buffers(job, NULL)), *send = room(device, RANKS * shard);
  tagc_allgather_assign_buffers(job, payloads);
  job->send = send;
  job->recv = room(device, RANKS * shard);
  job->reference = job->layout.reference_bytes ? room(device, job->layout.reference_bytes) : NULL;
  job->tables = job->layout.tables_bytes ? room(device, job->layout.tables_bytes) : NULL;
  job->sizes = codec->least_bytes ? &g.sizes : NULL;
  g.copied = room(device, shard);
  g.old = room(device, shard);
  gathering = &g;
  (codec == &tagc_allgather_support ? fill_sums : fill)(send, shape->n, shape->dtype);
  move(g.old, send, shard);
  if (codec->least_bytes)
    update(send, shape->n, shape->dtype);
  gather_payloads(&g);
  gather_decode(NULL);
  need(!codec->may_refuse || (device->allgather_refused(device, codec, job, NULL, &refused) && !refused),
       "a shard that is not refused");
  if (job->sizes)
    job->layout.payload_bytes = g.sizes.payload_bytes;
  if (codec == &tagc_allgather_support)
    job->layout.payload_bytes = bytes_needed(job->payloads);
  if (job->sizes || codec == &tagc_allgather_support)
    gather_payloads(&g);
  tell_gather(&g);
  void *all[] = {payloads, send, job->recv, job->reference, job->tables, g.copied, g.old};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    device->release(device, all[i], NULL);
  MUST(cuCtxSynchronize());
}

static void measure_gathers(const struct tagc_device *device, const uint64_t *sizes, int count) {
  printf("       %-8s %-5s %10s %6s %9s %8s %9s %7s %8s %9s %7s %8s %8s %8s\n", "codec", "type", "elements", "bytes",
         "copy ms", "GB/s", "encode ms", "factor", "GB/s", "decode ms", "factor", "GB/s", "beside:", "decode");
  for (int i = 0; tagc_allgather_codec_at(i); i++)
    for (int dtype = TAGC_FLOAT32; dtype <= (once ? TAGC_FLOAT32 : TAGC_BFLOAT16); dtype++)
      for (int size = 0; size < count; size++) {
        const struct tagc_allgather_shape shape = {.n = sizes[size], .nranks = RANKS, .dtype = (enum tagc_dtype)dtype};
        measure_gather(device, tagc_allgather_codec_at(i), &shape);
      }
}

/* -- shapes -------------------------------------------------------------------------------------------------------- */

static const struct kind {
  enum tagc_dtype dtype;
  enum tagc_storage storage;
} kinds[] = {{TAGC_FLOAT32, TAGC_STORAGE_NONE},  {TAGC_FLOAT32, TAGC_STORAGE_FP32},  {TAGC_FLOAT32, TAGC_STORAGE_INT8},
             {TAGC_BFLOAT16, TAGC_STORAGE_NONE}, {TAGC_BFLOAT16, TAGC_STORAGE_BF16}, {TAGC_BFLOAT16, TAGC_STORAGE_INT8},
             {TAGC_FLOAT16, TAGC_STORAGE_NONE}};
/* The default, and a value for gradients that consist almost only of their largest values. */
static const uint32_t keeps[] = {200000, 10000};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Once: the first kind that the codec takes, with the default. */
static bool is_wanted(const struct tagc_codec *codec, size_t at) {
  if (once)
    return at == (codec->needs_residual ? 1 : 0);
  return !codec->needs_residual || kinds[at % KINDS].storage;
}

static void measure_codec(const struct tagc_device *device, const struct tagc_codec *codec, const uint64_t *sizes,
                          int count) {
  bool any = false;
  for (size_t at = 0; at < (codec->needs_residual ? 2 : 1) * KINDS; at++)
    for (int size = 0; size < count; size++) {
      const struct tagc_shape shape = {.n = sizes[size],
                                       .nranks = RANKS,
                                       .dtype = kinds[at % KINDS].dtype,
                                       .keep_ppm = keeps[at / KINDS],
                                       .residual = kinds[at % KINDS].storage};
      if (is_wanted(codec, at))
        any |= measure(device, codec, &shape);
    }
  if (!any)
    printf("%-6s does not run on this device\n", codec->name);
}

int main(int argc, char **argv) {
  uint64_t sizes[16] = {1 << 20, 4 << 20, 16 << 20, 64 << 20, 128 << 20};
  int count = 5;
  once = argc > 1 && strcmp(argv[1], "once") == 0;
  briefly = argc > 1 && strcmp(argv[1], "briefly") == 0;
  const int words = once || briefly, given = argc - 1 - words;
  if (given > 0)
    count = given < 16 ? given : 16;
  for (int i = 0; i < count && given > 0; i++)
    sizes[i] = strtoull(argv[1 + words + i], NULL, 0);
  device_open(0);
  const struct tagc_device *device = tagc_device_cuda(0);
  need(device, "to find a device that has kernels");
  printf("%-6s %5s %-5s %-5s %10s %9s %8s %9s %7s %8s %9s %7s %8s %9s\n", "codec", "keep", "type", "rest", "elements",
         "copy ms", "GB/s", "encode ms", "factor", "GB/s", "decode ms", "factor", "GB/s", "estimate");
  for (int i = 0; tagc_codecs[i]; i++)
    measure_codec(device, tagc_codecs[i], sizes, count);
  measure_gathers(device, sizes, count);
  return 0;
}
