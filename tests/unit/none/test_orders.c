/* SPDX-License-Identifier: BSD-3-Clause
 * The sums of `precise` have the same bits, however the work is divided: 1,000 times in another order of ranks, by
 * calls of other sizes, which other ranks own, in other numbers of chunks, with other instruction sets.
 */
#include "kernels/codec/assign_buffer.h"
#include "kernels/codec/chunks.h"
#include "kernels/codec/codecs.h"
#include "tests/unit/codec/variants.h"
#include "tests/unit/none/families.h"

/* Sanitizers check memory: orders that differ in arithmetic alone are for the other builds. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { TRIES = 10 };
#else
enum { TRIES = 84 };
#endif
enum { RANKS = 6, ELEMENTS = 18 * TAGC_CHUNK_ELEMENTS };

static const char *const types[] = {"fp32", "fp16", "bf16"};

/* The gradients of all places, the sums of a try, and those of the first one. */
static uint32_t gradient[RANKS][ELEMENTS], sums[ELEMENTS], first[ELEMENTS];

struct division {
  int nranks;
  enum tagc_dtype dtype;
  float scale, divisor;
  int place[RANKS]; /* of the rank's gradient */
};

static struct tagc_codec_stats ignored;

/* Of exactly the size that the chunk needs. */
static void *encode_chunk(struct tagc_job *job) {
  tagc_codec_precise.layout(&job->shape, &job->layout);
  void *memory = aligned_alloc(64, tagc_job_assign_buffers(job, NULL));
  tagc_job_assign_buffers(job, memory);
  job->stats = &ignored;
  tagc_codec_precise.encode(job);
  return memory;
}

static void exchange_and_decode(struct tagc_job *job, int nranks) {
  const size_t bytes = job[0].layout.message_bytes;
  for (int to = 0; to < nranks; to++)
    for (int from = 0; from < nranks; from++)
      if (from != to)
        memcpy(job[to].message_in + (size_t)from * bytes, job[from].message_out + (size_t)to * bytes, bytes);
  for (int r = 0; r < nranks; r++)
    tagc_codec_precise.decode(&job[r]);
}

/* A call on the elements from `at` on, in shards of n. */
static void call_on(const struct division *d, uint64_t at, uint64_t n, int depth) {
  const struct tagc_chunks chunks = tagc_chunks_of(n, depth);
  const size_t size = tagc_dtype_size(d->dtype);
  for (int k = 0; k < chunks.count; k++) {
    struct tagc_job job[RANKS];
    void *memory[RANKS];
    for (int r = 0; r < d->nranks; r++) {
      const struct tagc_job whole = {.shape = {.n = n, .nranks = d->nranks, .dtype = d->dtype, .keep_ppm = 1},
                                     .rank = r,
                                     .send = (char *)gradient[d->place[r]] + at * size,
                                     .recv = (char *)sums + (at + (uint64_t)r * n) * size,
                                     .scale = d->scale,
                                     .divisor = d->divisor};
      job[r] = tagc_chunk_job(&whole, &chunks, k);
      memory[r] = encode_chunk(&job[r]);
    }
    exchange_and_decode(job, d->nranks);
    for (int r = 0; r < d->nranks; r++)
      free(memory[r]);
  }
}

static void shuffle(struct division *d) {
  for (int r = 0; r < d->nranks; r++) {
    const int other = (int)(sim_random() % (uint64_t)(r + 1));
    d->place[r] = d->place[other];
    d->place[other] = r;
  }
}

/* All elements once, in calls of random sizes. Returns the number of calls in chunks. */
static int divide(struct division *d) {
  int cut = 0;
  tagc_variant_force(tagc_variant_name((enum tagc_variant)(sim_random() % TAGC_VARIANT_COUNT)));
  shuffle(d);
  for (uint64_t at = 0; at < ELEMENTS;) {
    const uint64_t most = (ELEMENTS - at) / (uint64_t)d->nranks,
                   n = most > 64 ? most - sim_random() % (most / 2) : most;
    const int depth = 1 + (int)(sim_random() % TAGC_CHUNKS);
    cut += tagc_chunks_of(n, depth).count > 1;
    call_on(d, at, n, depth);
    at += n * (uint64_t)d->nranks;
  }
  return cut;
}

static void fill(enum tagc_dtype dtype, int nranks) {
  static const enum family families[] = {NORMAL, NORMAL, CANCELLING, OUTLIERS, NORMAL, NORMAL, BURIED, ANY};
  for (int rank = 0; rank < nranks; rank++)
    for (uint64_t i = 0; i < ELEMENTS; i++) {
      const uint32_t bits = draw_bits(families[i / 16 % 8], rank, i, 1, dtype);
      if (dtype == TAGC_FLOAT32)
        gradient[rank][i] = bits;
      else
        ((uint16_t *)gradient[rank])[i] = (uint16_t)bits;
    }
}

static void check(int nranks, enum tagc_dtype dtype) {
  struct division d = {.nranks = nranks, .dtype = dtype, .scale = nranks % 2 ? 0.3f : 1};
  const size_t bytes = ELEMENTS * tagc_dtype_size(dtype);
  int moved = 0, cut = 0;
  d.divisor = nranks % 4 ? (float)nranks : 1;
  fill(dtype, nranks);
  for (int i = 0; i < TRIES; i++) {
    memset(sums, 0xa5 + i, sizeof sums);
    cut += divide(&d);
    if (i == 0)
      memcpy(first, sums, bytes);
    moved += memcmp(first, sums, bytes) != 0;
  }
  ok(moved == 0 && cut > 0, "%s, %d ranks, factor %g, divisor %g: %d divisions, %d calls in chunks, %d differ",
     types[dtype], nranks, (double)d.scale, (double)d.divisor, TRIES, cut, moved);
}

int main(void) {
  variants_tell();
  for (int dtype = 0; dtype < 3; dtype++) {
    check(2, (enum tagc_dtype)dtype);
    check(3, (enum tagc_dtype)dtype);
    check(4, (enum tagc_dtype)dtype);
    check(6, (enum tagc_dtype)dtype);
  }
  tagc_variant_force(NULL);
  return tap_done();
}
