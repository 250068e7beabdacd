/* SPDX-License-Identifier: BSD-3-Clause
 * See fsdp.h.
 */
#include "examples/gpt/fsdp.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "examples/gpt/fail.h"

double fsdp_clock(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(const struct fsdp *f, ncclResult_t result, const char *call)
{
  if (result != ncclSuccess)
    fail(1, "rank %d: %s: %s", f->rank, call, ncclGetErrorString(result));
}

static float *zeros(size_t count)
{
  float *memory = aligned_alloc(64, (count * sizeof *memory + 63) / 64 * 64);
  if (!memory)
    fail(1, "no memory for %zu bytes", count * sizeof *memory);
  return memset(memory, 0, count * sizeof *memory);
}

struct fsdp *fsdp_create(const struct gpt_unit *units, size_t nunits, ncclComm_t comm, int rank, int nranks,
                         bool accumulates)
{
  struct fsdp *f = calloc(1, sizeof *f);
  struct fsdp_unit *shards = calloc(nunits, sizeof *shards);
  if (!f || !shards)
    fail(1, "no memory");
  *f = (struct fsdp){.comm = comm, .rank = rank, .nranks = nranks, .nunits = nunits, .units = shards,
                     .accumulates = accumulates};
  size_t ranks = (size_t)nranks, largest = 0;
  for (size_t i = 0; i < nunits; i++) {
    shards[i].shard = (units[i].count + ranks - 1) / ranks;
    shards[i].params = zeros(shards[i].shard);
    shards[i].grads = zeros(shards[i].shard);
    if (accumulates)
      shards[i].full_grads = zeros(shards[i].shard * ranks);
    largest = shards[i].shard > largest ? shards[i].shard : largest;
  }
  f->gathered = zeros(largest * ranks);
  float *shared = accumulates ? NULL : zeros(largest * ranks);
  for (size_t i = 0; shared && i < nunits; i++)
    shards[i].full_grads = shared;
  return f;
}

void fsdp_destroy(struct fsdp *f)
{
  for (size_t i = 0; i < f->nunits; i++) {
    free(f->units[i].params);
    free(f->units[i].grads);
    if (f->accumulates || i == 0)
      free(f->units[i].full_grads);
  }
  free(f->units);
  free(f->gathered);
  free(f);
}

const float *fsdp_gather(struct fsdp *f, size_t unit)
{
  const struct fsdp_unit *u = &f->units[unit];
  double start = fsdp_clock();
  check(f, ncclAllGather(u->params, f->gathered, u->shard, ncclFloat, f->comm, NULL), "ncclAllGather");
  f->all_gather_s += fsdp_clock() - start;
  return f->gathered;
}

float *fsdp_full_grads(struct fsdp *f, size_t unit, bool clear)
{
  const struct fsdp_unit *u = &f->units[unit];
  if (clear)
    memset(u->full_grads, 0, u->shard * (size_t)f->nranks * sizeof *u->full_grads);
  return u->full_grads;
}

void fsdp_reduce(struct fsdp *f, size_t unit)
{
  const struct fsdp_unit *u = &f->units[unit];
  size_t count = u->shard * (size_t)f->nranks;
  const float share = 1.0f / (float)f->nranks;
  for (size_t i = 0; i < count; i++)
    u->full_grads[i] *= share;
  double start = fsdp_clock();
  check(f, ncclReduceScatter(u->full_grads, u->grads, u->shard, ncclFloat, ncclSum, f->comm, NULL),
        "ncclReduceScatter");
  f->reduce_scatter_s += fsdp_clock() - start;
}

void fsdp_sum(struct fsdp *f, float *values, size_t count)
{
  double start = fsdp_clock();
  check(f, ncclAllReduce(values, values, count, ncclFloat, ncclSum, f->comm, NULL), "ncclAllReduce");
  f->other_s += fsdp_clock() - start;
}
