/* SPDX-License-Identifier: BSD-3-Clause
 * See parallel.h.
 */
#include "examples/gpt/parallel.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "examples/gpt/fail.h"

double parallel_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(const struct parallel *p, ncclResult_t result, const char *call) {
  if (result != ncclSuccess)
    fail(1, "rank %d: %s: %s", p->rank, call, ncclGetErrorString(result));
}

static void *zeros(size_t count, size_t size) {
  size_t bytes = (count * size + 63) / 64 * 64;
  void *memory = aligned_alloc(64, bytes);
  if (!memory)
    fail(1, "no memory for %zu bytes", bytes);
  return memset(memory, 0, bytes);
}

/* ---- fsdp ---- */

static void create_shards(struct parallel *p, const struct gpt_unit *units) {
  size_t ranks = (size_t)p->nranks, largest = 0;
  for (size_t i = 0; i < p->nunits; i++) {
    struct parallel_unit *u = &p->units[i];
    u->owned = (units[i].count + ranks - 1) / ranks;
    u->first = u->owned * (size_t)p->rank;
    u->params = zeros(u->owned, sizeof *u->params);
    u->grads = zeros(u->owned, sizeof *u->grads);
    if (p->options.accumulates)
      u->full_grads = zeros(u->owned * ranks, sizeof *u->full_grads);
    largest = u->owned > largest ? u->owned : largest;
  }
  p->gathered = zeros(largest * ranks, sizeof *p->gathered);
  if (p->options.gather_bf16) {
    p->gathered_bf16 = zeros(largest * ranks, sizeof *p->gathered_bf16);
    p->shard_bf16 = zeros(largest, sizeof *p->shard_bf16);
  }
  if (p->options.reduce_bf16)
    p->grads_bf16 = zeros(largest * ranks, sizeof *p->grads_bf16);
  float *shared = p->options.accumulates ? NULL : zeros(largest * ranks, sizeof *shared);
  for (size_t i = 0; shared && i < p->nunits; i++)
    p->units[i].full_grads = shared;
}

/* Nearest, ties to even; parameters and gradients are finite. */
static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t value) {
  uint32_t bits = (uint32_t)value << 16;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

static void round_to_bf16(uint16_t *to, const float *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = to_bf16(from[i]);
}

static void widen_bf16(float *to, const uint16_t *from, size_t count) {
  for (size_t i = 0; i < count; i++)
    to[i] = from_bf16(from[i]);
}

static void gather(struct parallel *p, const struct parallel_unit *u, const void *shard, void *all, size_t size,
                   ncclDataType_t type) {
  if (p->options.allgather_in_place)
    shard = memcpy((char *)all + u->owned * (size_t)p->rank * size, shard, u->owned * size);
  double start = parallel_clock();
  check(p, ncclAllGather(shard, all, u->owned, type, p->comm, NULL), "ncclAllGather");
  p->all_gather_s += parallel_clock() - start;
}

static const float *gather_params(struct parallel *p, const struct parallel_unit *u) {
  if (!p->options.gather_bf16) {
    gather(p, u, u->params, p->gathered, sizeof(float), ncclFloat);
    return p->gathered;
  }
  round_to_bf16(p->shard_bf16, u->params, u->owned);
  gather(p, u, p->shard_bf16, p->gathered_bf16, sizeof(uint16_t), ncclBfloat16);
  widen_bf16(p->gathered, p->gathered_bf16, u->owned * (size_t)p->nranks);
  return p->gathered;
}

/* ---- ddp ---- */

static void create_replicas(struct parallel *p, const struct gpt_unit *units) {
  p->buckets = calloc(p->nunits, sizeof *p->buckets);
  if (!p->buckets)
    fail(1, "no memory");
  for (size_t i = p->nunits; i-- > 0;) {
    struct parallel_unit *u = &p->units[i];
    u->owned = units[i].count;
    u->params = zeros(u->owned, sizeof *u->params);
    struct parallel_bucket *b = &p->buckets[p->nbuckets];
    if (!b->count)
      b->last = i;
    b->first = i;
    b->count += u->owned;
    if (b->count * sizeof *b->grads >= p->options.bucket_bytes || i == 0)
      p->nbuckets++;
  }
  size_t largest = 0;
  for (size_t k = 0; k < p->nbuckets; k++) {
    struct parallel_bucket *b = &p->buckets[k];
    largest = b->count > largest ? b->count : largest;
    float *place = b->grads = zeros(b->count, sizeof *b->grads);
    for (size_t i = b->last + 1; i-- > b->first;) {
      p->units[i].grads = p->units[i].full_grads = place;
      place += p->units[i].owned;
    }
  }
  if (p->options.reduce_bf16)
    p->grads_bf16 = zeros(largest, sizeof *p->grads_bf16);
}

static void all_reduce(struct parallel *p, void *grads, size_t count, ncclDataType_t type) {
  double start = parallel_clock();
  check(p, ncclAllReduce(grads, grads, count, type, ncclSum, p->comm, NULL), "ncclAllReduce");
  p->all_reduce_s += parallel_clock() - start;
}

static void reduce_bucket_of(struct parallel *p, size_t unit) {
  const struct parallel_bucket *b = p->buckets;
  while (b->first > unit)
    b++;
  if (b->first < unit)
    return;
  const float share = 1.0f / (float)p->nranks;
  for (size_t i = 0; i < b->count; i++)
    b->grads[i] *= share;
  if (!p->options.reduce_bf16) {
    all_reduce(p, b->grads, b->count, ncclFloat);
    return;
  }
  round_to_bf16(p->grads_bf16, b->grads, b->count);
  all_reduce(p, p->grads_bf16, b->count, ncclBfloat16);
  widen_bf16(b->grads, p->grads_bf16, b->count);
}

void parallel_share_params(struct parallel *p) {
  for (size_t i = 0; i < p->nunits && p->options.kind == PARALLEL_DDP; i++)
    check(p, ncclBroadcast(p->units[i].params, p->units[i].params, p->units[i].owned, ncclFloat, 0, p->comm, NULL),
          "ncclBroadcast");
}

void parallel_check_replicas(struct parallel *p) {
  if (p->options.kind != PARALLEL_DDP)
    return;
  uint64_t sum = UINT64_C(0xcbf29ce484222325), largest; /* FNV-1a, by words */
  for (size_t i = 0; i < p->nunits; i++)
    for (size_t k = 0; k < p->units[i].owned; k++) {
      uint32_t bits;
      memcpy(&bits, &p->units[i].params[k], sizeof bits);
      sum = (sum ^ bits) * UINT64_C(0x100000001b3);
    }
  check(p, ncclAllReduce(&sum, &largest, 1, ncclUint64, ncclMax, p->comm, NULL), "ncclAllReduce");
  uint64_t differs = sum != largest;
  check(p, ncclAllReduce(&differs, &differs, 1, ncclUint64, ncclSum, p->comm, NULL), "ncclAllReduce");
  if (differs)
    fail(1, "the ranks' replicas of the parameters are not the same: on %llu of %d they differ from the others'",
         (unsigned long long)differs, p->nranks);
}

/* ---- both ---- */

struct parallel *parallel_create(const struct parallel_options *options, const struct gpt_unit *units, size_t nunits,
                                 ncclComm_t comm, int rank, int nranks) {
  struct parallel *p = calloc(1, sizeof *p);
  struct parallel_unit *parts = calloc(nunits, sizeof *parts);
  if (!p || !parts)
    fail(1, "no memory");
  *p = (struct parallel){
    .options = *options, .comm = comm, .rank = rank, .nranks = nranks, .nunits = nunits, .units = parts};
  if (options->kind == PARALLEL_DDP)
    create_replicas(p, units);
  else
    create_shards(p, units);
  return p;
}

void parallel_destroy(struct parallel *p) {
  bool sharded = p->options.kind == PARALLEL_FSDP;
  for (size_t i = 0; i < p->nunits; i++) {
    free(p->units[i].params);
    if (sharded)
      free(p->units[i].grads);
    if (sharded && (p->options.accumulates || i == 0))
      free(p->units[i].full_grads);
  }
  for (size_t k = 0; k < p->nbuckets; k++)
    free(p->buckets[k].grads);
  free(p->buckets);
  free(p->units);
  free(p->gathered);
  free(p->gathered_bf16);
  free(p->shard_bf16);
  free(p->grads_bf16);
  free(p);
}

const float *parallel_params(struct parallel *p, size_t unit) {
  return p->options.kind == PARALLEL_DDP ? p->units[unit].params : gather_params(p, &p->units[unit]);
}

float *parallel_full_grads(struct parallel *p, size_t unit, bool clear) {
  const struct parallel_unit *u = &p->units[unit];
  size_t count = p->options.kind == PARALLEL_DDP ? u->owned : u->owned * (size_t)p->nranks;
  if (clear)
    memset(u->full_grads, 0, count * sizeof *u->full_grads);
  return u->full_grads;
}

static void reduce_scatter(struct parallel *p, const void *all, void *shard, size_t owned, ncclDataType_t type) {
  double start = parallel_clock();
  check(p, ncclReduceScatter(all, shard, owned, type, ncclSum, p->comm, NULL), "ncclReduceScatter");
  p->reduce_scatter_s += parallel_clock() - start;
}

void parallel_reduce(struct parallel *p, size_t unit) {
  const struct parallel_unit *u = &p->units[unit];
  if (p->options.kind == PARALLEL_DDP) {
    reduce_bucket_of(p, unit);
    return;
  }
  size_t count = u->owned * (size_t)p->nranks;
  const float share = 1.0f / (float)p->nranks;
  for (size_t i = 0; i < count; i++)
    u->full_grads[i] *= share;
  if (!p->options.reduce_bf16) {
    reduce_scatter(p, u->full_grads, u->grads, u->owned, ncclFloat);
    return;
  }
  uint16_t *shard = p->grads_bf16 + u->first; /* in place */
  round_to_bf16(p->grads_bf16, u->full_grads, count);
  reduce_scatter(p, p->grads_bf16, shard, u->owned, ncclBfloat16);
  widen_bf16(u->grads, shard, u->owned);
}

void parallel_sum(struct parallel *p, float *values, size_t count) {
  double start = parallel_clock();
  check(p, ncclAllReduce(values, values, count, ncclFloat, ncclSum, p->comm, NULL), "ncclAllReduce");
  p->other_s += parallel_clock() - start;
}

int parallel_owners(const struct parallel *p) { return p->options.kind == PARALLEL_DDP ? p->nranks : 1; }
