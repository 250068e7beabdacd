/* SPDX-License-Identifier: BSD-3-Clause
 * Ranks of a communicator whose calls go through a device's table (kernels/codec/device.h), as in the library: memory,
 * fence, tally, the steps of a codec, and the end. The ranks' exchange goes through the host.
 *
 * Memory   life_end() frees everything that life_begin() has allocated, whatever has failed in between.
 * Threads  A life belongs to one thread. Failure: false from the function in which a call has failed.
 */
#ifndef TESTS_UNIT_DEVICE_LIFE_H
#define TESTS_UNIT_DEVICE_LIFE_H

#include "tests/unit/codec/cases.h"

enum { LIFE_N = 1000, LIFE_RANKS = 2 };

struct life {
  const struct tagc_device *device;
  const struct tagc_codec *codec;
  void *stream;
  struct life_rank {
    struct tagc_job job;
    void *fence, *workspace, *flushed;
    int64_t *told;
  } * rank;
};

static inline size_t life_all_bytes(const struct tagc_shape *s) {
  return (size_t)s->nranks * s->n * tagc_dtype_size(s->dtype);
}

static bool life_rank_begin(struct life *life, struct life_rank *r, const struct tagc_job *host) {
  const struct tagc_device *d = life->device;
  void *stream = life->stream;
  struct tagc_job *job = &r->job;
  const size_t all = life_all_bytes(&host->shape);
  *job = *host;
  job->stats = NULL;
  job->residual = job->health = NULL;
  job->send = job->recv = NULL;
  if (!d->layout(d, life->codec, &job->shape, &job->layout) || !(r->fence = d->fence_make(d)) ||
      !(r->workspace = d->alloc(d, tagc_job_assign_buffers(job, NULL), stream)))
    return false;
  tagc_job_assign_buffers(job, r->workspace);
  job->tally = d->tally_make(d, stream);
  job->send = d->alloc(d, all, stream);
  job->recv = d->alloc(d, all / (size_t)job->shape.nranks, stream);
  r->flushed = d->alloc(d, all, stream);
  r->told = d->alloc(d, TAGC_FLAGS * sizeof *r->told, stream);
  job->health = d->alloc(d, d->health_bytes, stream);
  if (job->shape.residual)
    job->residual = d->alloc(d, tagc_residual_bytes(&job->shape), stream);
  return (job->tally || d->host_reads) && job->send && job->recv && r->flushed && r->told && job->health &&
         d->clear(d, job->health, d->health_bytes, stream) && (!job->shape.residual || job->residual);
}

static inline bool life_begin(struct life *life, const struct tagc_device *device, const struct sim *sim,
                              void *stream) {
  bool good = true;
  *life = (struct life){device, sim->codec, stream, calloc((unsigned)sim->shape.nranks, sizeof *life->rank)};
  for (int r = 0; r < sim->shape.nranks; r++)
    good = good && life_rank_begin(life, &life->rank[r], &sim->job[r]);
  for (int r = 0; r < sim->shape.nranks; r++)
    life->rank[r].job.rank = r;
  return good;
}

static inline void life_end(struct life *life, int nranks) {
  const struct tagc_device *d = life->device;
  for (int r = 0; r < nranks; r++) {
    struct life_rank *rank = &life->rank[r];
    struct tagc_job *job = &rank->job;
    void *const memory[] = {rank->workspace, rank->flushed, rank->told, (void *)(uintptr_t)job->send,
                            job->recv,       job->residual, job->health};
    const bool fenced = rank->fence && d->fence_set(d, rank->fence, life->stream);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
      if (fenced)
        d->release_after(d, memory[i], rank->fence);
      else
        d->release(d, memory[i], life->stream);
    if (fenced || !job->tally)
      d->tally_free(d, job->tally, rank->fence);
    d->fence_free(d, rank->fence);
  }
  free(life->rank);
}

static inline bool life_mark(struct life *life, int nranks, enum tagc_mark mark) {
  const struct tagc_device *d = life->device;
  bool good = true;
  for (int r = 0; r < nranks && good; r++)
    good = d->tally_mark(d, life->rank[r].job.tally, mark, 1, life->stream);
  return good;
}

/* Exchanges all messages between the ranks, through the host. */
static bool life_exchange(struct life *life, int nranks) {
  const struct tagc_device *d = life->device;
  bool good = true;
  for (int from = 0; from < nranks; from++)
    for (int to = 0; to < nranks; to++) {
      const size_t bytes = life->rank[from].job.layout.message_bytes;
      uint8_t *message = malloc(bytes + 1);
      if (from != to)
        good = good && d->get(d, message, life->rank[from].job.message_out + (size_t)to * bytes, bytes, life->stream) &&
               d->put(d, life->rank[to].job.message_in + (size_t)from * bytes, message, bytes, life->stream);
      free(message);
    }
  return good;
}

/* Runs a call to its end, with the sim's gradients and the flags of its jobs. */
static inline bool life_call(struct life *life, const struct sim *sim, uint64_t cycle, uint64_t residual_cycle,
                             bool tells) {
  const struct tagc_device *d = life->device;
  const int nranks = sim->shape.nranks;
  void *stream = life->stream;
  bool good = true;
  for (int r = 0; r < nranks && good; r++) {
    struct tagc_job *job = &life->rank[r].job;
    job->seed = sim->job[r].seed;
    job->cycle = cycle;
    job->residual_cycle = residual_cycle;
    good = d->fence_wait(d, life->rank[r].fence, stream) &&
           d->put(d, (void *)(uintptr_t)job->send, sim->job[r].send, life_all_bytes(&sim->shape), stream);
  }
  good = good && life_mark(life, nranks, TAGC_MARK_BEGUN);
  for (int r = 0; r < nranks && good; r++)
    good =
      d->prepare(d, life->codec, &life->rank[r].job, stream) && d->encode(d, life->codec, &life->rank[r].job, stream);
  good = good && life_mark(life, nranks, TAGC_MARK_ENCODED) && life_exchange(life, nranks) &&
         life_mark(life, nranks, TAGC_MARK_EXCHANGED);
  for (int r = 0; r < nranks && good; r++) {
    life->rank[r].job.ends = !tells;
    good = d->decode(d, life->codec, &life->rank[r].job, stream);
  }
  good = good && life_mark(life, nranks, TAGC_MARK_DECODED);
  for (int r = 0; r < nranks && good; r++) {
    struct life_rank *rank = &life->rank[r];
    good = (!tells || d->pack_flags(d, &rank->job, rank->told, stream)) &&
           d->end_call(d, &rank->job, tells ? rank->told : NULL, stream) && d->fence_set(d, rank->fence, stream);
    rank->job.residual_empty = false;
  }
  return good;
}

/* Runs a communicator's whole life. */
static inline bool life_whole(const struct tagc_device *d, const struct sim *sim, uint64_t cycles, void *stream) {
  struct life life;
  struct tagc_tally_times times;
  struct tagc_codec_stats stats = {0};
  bool answer, good = life_begin(&life, d, sim, stream);
  for (uint64_t cycle = 1; cycle <= cycles && good; cycle++)
    good =
      life_call(&life, sim, cycle, cycle - 1, cycle % 2) && d->tally_denser(d, life.rank[0].job.tally, stream, &answer);
  good = good && d->tally_denser(d, life.rank[0].job.tally, stream, &answer) &&
         d->flush(d, &life.rank[0].job, life.rank[0].flushed, stream) && d->reaches(d, life.rank[0].job.send) &&
         d->get(d, times.ms, life.rank[0].flushed, sizeof times.ms, stream) &&
         d->tally_read(d, life.rank[0].job.tally, &times, &stats);
  life_end(&life, sim->shape.nranks);
  return good;
}

static inline struct sim life_sim(const char *codec, enum tagc_storage storage) {
  struct sim sim = sim_new_stored(codec, LIFE_N, LIFE_RANKS, TAGC_FLOAT32, 10000, storage);
  case_fill(&sim, GAUSS);
  return sim;
}

/* With the library's own kernels, which the stand-in for the driver finds in its own folder. */
static inline const struct tagc_device *life_device(int ordinal) {
  unsetenv("CUDA_STANDIN_KERNELS");
  return tagc_device_cuda(ordinal);
}

#endif
