/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: a rank may receive any bytes. Decoding must stay inside its buffers and end. The numbers may be
 * any, but every variant of the kernels gives the same, and so does the reference of tests/unit/codec/reference.h. The
 * values of honest senders must come out, exactly or as close as the codec promises; the rest must be in the residual.
 *
 * Input  kind and variant; type, ranks and share to keep; codec, storage of the residual and rounding; n; then by kind:
 *          HOSTILE   all received bytes come from the input, repeated
 *          EXPONENTS the agreed exponents are the input's, if they are larger than the ranks'
 *          HONEST    the ranks send small integers, made of the input
 *          FLIPPED   the same, but some received bytes are changed
 *          WILD      the ranks send the input's bits: NaN, denormals, anything
 *        Codecs from IN_CHUNKS on send a call in chunks (kernels/codec/chunks.h). These begin at smaller sizes here.
 * Sketches begin at smaller sizes here than in the library (kernels/lhc/layout.c), so an execution takes microseconds.
 * `payload --codec=NAME ...` tries only one codec.
 */
#include "kernels/codec/bits.h"
#include "kernels/codec/chunks.h"
#include "kernels/lhc/lhc.h"
#include "kernels/codec/residual.h"
#include "kernels/codec/variant.h"
#include "tests/fuzz/input.h"
#include "tests/unit/codec/reference.h"

enum kind { HOSTILE, EXPONENTS, HONEST, FLIPPED, WILD, KINDS };

enum { MOST_RANKS = 8, MOST_ELEMENTS = 2048, FEW_ELEMENTS = 600, CHUNK = 256, MOST_CHUNKS = 10 };

static const char plain[] = "plain";
static struct tagc_codec_stats stats;

/* By the input's number. New codecs come after the first ones, so an input keeps its meaning. */
enum { IN_CHUNKS = 12, MOST_CODECS = 16 };
static const char *codecs[MOST_CODECS] = {"none",   "lhc", "bf16", "q8", "q4", "q2", "sparse", [IN_CHUNKS] = "lhc",
                                          "sparse", "q4",  "none"};

/* The one that --codec asks for, or NULL. */
static const char *only;

/* A rank's gradient of a whole call. Its chunks have results of their own: see job_begin(). */
static void job_new(struct tagc_job *job, const struct tagc_shape *shape, int rank) {
  const size_t ranks = (size_t)shape->nranks, size = tagc_dtype_size(shape->dtype);
  *job = (struct tagc_job){
    .shape = *shape,
    .rank = rank,
    .scale = 1,
    .divisor = 1,
    .residual_empty = true,
    .stats = &stats,
    .send = input_memory(ranks * shape->n * size),
  };
  job->recv = (void *)(uintptr_t)job->send;
}

static void job_free(struct tagc_job *job) { free((void *)(uintptr_t)job->send); }

/* The rest, of a job that may be a chunk. Its result and residual are its own, so the sanitizer sees a chunk that
 * writes into the next one's. (They may also need more than their parts of a whole: these chunks are so small.) */
static void job_begin(const struct tagc_codec *codec, struct tagc_job *job) {
  const size_t ranks = (size_t)job->shape.nranks;
  const struct tagc_layout *layout = &job->layout;
  MUST(codec->layout(&job->shape, &job->layout));
  job->recv = input_memory(job->shape.n * tagc_dtype_size(job->shape.dtype));
  job->residual = job->shape.residual ? input_memory(tagc_residual_bytes(&job->shape)) : NULL;
  job->exponents = input_memory(ranks * layout->exponent_bytes);
  job->sketch_out = input_memory(ranks * layout->sketch_count * sizeof(int32_t));
  job->sketch_in = input_memory(layout->sketch_count * sizeof(int32_t));
  job->message_out = input_memory(ranks * layout->message_bytes);
  job->message_in = input_memory(ranks * layout->message_bytes);
  job->state = input_memory(layout->state_bytes);
}

static void job_end(struct tagc_job *job) {
  void *const parts[] = {job->recv,      job->residual,    job->exponents,  job->sketch_out,
                         job->sketch_in, job->message_out, job->message_in, job->state};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    free(parts[i]);
}

/* Chunks of CHUNK elements; else the whole. */
static struct tagc_chunks cut(uint64_t n, bool in_chunks) {
  struct tagc_chunks chunks = {.count = in_chunks ? (int)((n + CHUNK - 1) / CHUNK) : 1};
  MUST(chunks.count <= MOST_CHUNKS);
  for (int k = 1; k < chunks.count; k++)
    chunks.at[k] = (uint64_t)k * CHUNK;
  chunks.at[chunks.count] = n;
  return chunks;
}

/* Fills a received area from the rest of the input, repeated; with zeros if nothing is left. */
static void fill(const struct input *in, size_t *turn, void *area, size_t bytes) {
  const size_t left = input_left(in);
  uint8_t *out = area;
  for (size_t done = 0, some; done < bytes; done += some) {
    size_t from = left ? *turn % left : 0;
    some = left - from < bytes - done ? left - from : bytes - done;
    if (!left) {
      memset(out, 0, bytes);
      return;
    }
    memcpy(out + done, in->at + from, some);
    *turn += some;
  }
}

/* Fills gradients with small integers, mostly zero: every type holds them, and sums of eight of them. WILD: with the
 * input's own bits. */
static void fill_gradient(struct tagc_job *job, const struct input *in, size_t turn, bool wild) {
  const uint64_t count = job->shape.n * (uint64_t)job->shape.nranks;
  const size_t left = input_left(in);
  void *send = (void *)(uintptr_t)job->send;
  if (wild) {
    fill(in, &turn, send, count * tagc_dtype_size(job->shape.dtype));
    return;
  }
  for (uint64_t i = 0; i < count; i++) {
    uint8_t byte = left ? in->at[(turn + i) % left] : 0;
    tagc_store(send, i, job->shape.dtype, (float)((int)(byte % 61) - 30));
  }
}

/* The contribution of a rank to a shard: g + e, if there is an e. */
static void give(const struct tagc_job *job, int shard, float *given) {
  const uint64_t n = job->shape.n;
  const bool more = job->residual && !job->residual_empty && shard != job->rank;
  for (uint64_t i = 0; i < n; i += TAGC_RESIDUAL_BLOCK) {
    float residual[TAGC_RESIDUAL_BLOCK] = {0};
    const uint32_t count = n - i < TAGC_RESIDUAL_BLOCK ? (uint32_t)(n - i) : TAGC_RESIDUAL_BLOCK;
    if (more)
      tagc_residual_load(job, shard, i, count, residual);
    for (uint32_t k = 0; k < count; k++) {
      const float x = tagc_load(tagc_job_shard(job, shard), i + k, job->shape.dtype);
      given[i + k] = more ? x + residual[k] : x;
    }
  }
}

/* Selects a variant. Keeps the previous one if the processor lacks it; caches that, because asking the processor takes
 * longer than a decode. */
static void use_variant(const char *name) {
  static const char *used;
  if (used != name)
    tagc_variant_force(name);
  used = name;
}

/* Decodes one rank's received payloads; once more with the plain kernels, to compare. */
static void decode(const struct tagc_codec *codec, struct tagc_job *job, bool compare) {
  const size_t bytes = job->shape.n * tagc_dtype_size(job->shape.dtype);
  void *state = input_memory(job->layout.state_bytes), *result = input_memory(bytes);
  memcpy(state, job->state, job->layout.state_bytes);
  codec->decode(job);
  memcpy(result, job->recv, bytes);
  if (compare) {
    memcpy(job->state, state, job->layout.state_bytes);
    use_variant(plain);
    codec->decode(job);
    MUST(memcmp(result, job->recv, bytes) == 0);
  }
  free(state);
  free(result);
}

static enum reference_kind dense_kind(const struct tagc_codec *codec) {
  const enum reference_kind kind = reference_find(codec->name);
  return kind < REFERENCE_SPARSE ? kind : REFERENCE_KINDS;
}

/* Compares the result with that of the reference, for codecs that accept any bytes. */
static void check_result(const struct tagc_codec *codec, const struct tagc_job *job) {
  const struct reference_call call = {.kind = dense_kind(codec),
                                      .n = job->shape.n,
                                      .seed = job->seed,
                                      .keep_ppm = job->shape.keep_ppm,
                                      .rank = job->rank};
  const size_t bytes = job->shape.n * tagc_dtype_size(job->shape.dtype);
  float own[FEW_ELEMENTS];
  if (call.kind == REFERENCE_KINDS || job->shape.n > FEW_ELEMENTS)
    return;
  void *want = input_memory(bytes);
  give(job, job->rank, own);
  reference_decode(&call, job->shape.nranks, job->message_in, own, job->divisor, job->shape.dtype, want);
  MUST(memcmp(want, job->recv, bytes) == 0);
  free(want);
}

static void hostile(const struct tagc_codec *codec, const struct tagc_shape *shape, const struct tagc_chunks *chunks,
                    struct input *in) {
  struct tagc_job whole;
  size_t turn = 0;
  const bool compare = input_byte(in) % 4 == 0;
  job_new(&whole, shape, (int)input_below(in, (uint32_t)shape->nranks));
  whole.seed = input_byte(in);
  for (int k = 0; k < chunks->count; k++) {
    struct tagc_job job = tagc_chunk_job(&whole, chunks, k);
    job_begin(codec, &job);
    memset(job.state, 0, job.layout.state_bytes);
    fill(in, &turn, job.exponents, (size_t)shape->nranks * job.layout.exponent_bytes);
    fill(in, &turn, job.sketch_in, job.layout.sketch_count * sizeof(int32_t));
    fill(in, &turn, job.message_in, (size_t)shape->nranks * job.layout.message_bytes);
    fill(in, &turn, (char *)(uintptr_t)tagc_job_shard(&job, job.rank), job.shape.n * tagc_dtype_size(shape->dtype));
    decode(codec, &job, compare);
    if (compare)
      check_result(codec, &job);
    job_end(&job);
  }
  job_free(&whole);
}

/* Exchanges the exponents: takes the largest of all ranks, and perhaps larger ones from the input. */
static void exchange_exponents(struct tagc_job *jobs, const struct input *strange) {
  const size_t bytes = (size_t)jobs->shape.nranks * jobs->layout.exponent_bytes;
  for (size_t i = 0; i < bytes; i++) {
    uint8_t most = strange && input_left(strange) ? strange->at[i % input_left(strange)] : 0;
    for (int rank = 0; rank < jobs->shape.nranks; rank++)
      most = jobs[rank].exponents[i] > most ? jobs[rank].exponents[i] : most;
    for (int rank = 0; rank < jobs->shape.nranks; rank++)
      jobs[rank].exponents[i] = most;
  }
}

/* Copies the others' payloads to `rank`. */
static void exchange(struct tagc_job *jobs, int rank) {
  const size_t count = jobs->layout.sketch_count, bytes = jobs->layout.message_bytes;
  uint32_t *sums = (uint32_t *)jobs[rank].sketch_in;
  memset(sums, 0, count * sizeof *sums);
  for (int from = 0; from < jobs->shape.nranks; from++) {
    const uint32_t *counters = (const uint32_t *)jobs[from].sketch_out + (size_t)rank * count;
    for (size_t i = 0; i < count; i++)
      sums[i] += counters[i];
    if (from != rank)
      memcpy(jobs[rank].message_in + (size_t)from * bytes, jobs[from].message_out + (size_t)rank * bytes, bytes);
    else
      memset(jobs[rank].message_in + (size_t)from * bytes, 0, bytes);
  }
}

/* The allowed error of one sender's block: its contribution less its residual, against its sent values. */
static double error_of(const struct tagc_codec *codec, const struct tagc_job *job, const float *given,
                       const float *left, uint64_t count) {
  double most = 0;
  for (uint64_t i = 0; i < count; i++)
    most = fmax(most, fabs((double)left[i]));
  switch (job->shape.residual) {
  case TAGC_STORAGE_NONE: return reference_error(dense_kind(codec), given, count, job->stochastic);
  case TAGC_STORAGE_FP32: return 0;
  default: return most / 120; /* a unit of int8; one of bf16 is smaller */
  }
}

/* Checks that the sum of the contributions equals the result plus the residuals. It is exact if nothing is rounded,
 * because given[] are small integers then; else within the codec's error. */
static void check_sum(const struct tagc_codec *codec, const struct tagc_job *jobs, int rank,
                      float given[MOST_RANKS][FEW_ELEMENTS]) {
  const struct tagc_shape *shape = &jobs->shape;
  const bool exact = reference_find(codec->name) == REFERENCE_KINDS && shape->residual <= TAGC_STORAGE_FP32;
  const double rounding = exact                           ? 0
                          : shape->dtype == TAGC_BFLOAT16 ? 0x1p-8
                          : shape->dtype == TAGC_FLOAT16  ? 0x1p-11
                                                          : 0;
  float left[MOST_RANKS][FEW_ELEMENTS] = {{0}};
  for (int from = 0; from < shape->nranks; from++)
    for (uint64_t i = 0; i < shape->n && from != rank && shape->residual; i += TAGC_RESIDUAL_BLOCK)
      tagc_residual_load(&jobs[from], rank, i,
                         (uint32_t)(shape->n - i < TAGC_RESIDUAL_BLOCK ? shape->n - i : TAGC_RESIDUAL_BLOCK),
                         left[from] + i);
  for (uint64_t block = 0; block < shape->n; block += 256) {
    const uint64_t count = shape->n - block < 256 ? shape->n - block : 256;
    double bound = 0, size = 0;
    for (int from = 0; from < shape->nranks; from++) {
      for (uint64_t i = block; i < block + count; i++)
        size = fmax(size, fabs((double)given[from][i]));
      bound += exact || from == rank ? 0 : error_of(codec, &jobs[from], given[from] + block, left[from] + block, count);
    }
    bound += exact ? 0 : 1e-5 * size;
    for (uint64_t i = block; i < block + count; i++) {
      double sum = 0;
      for (int from = 0; from < shape->nranks; from++)
        sum += (double)given[from][i] - (double)left[from][i];
      const double got = (double)tagc_load(jobs[rank].recv, i, shape->dtype);
      MUST(fabs(got - sum) <= bound + rounding * (fabs(sum) + bound));
    }
  }
}

/* Compares the messages to `rank`, byte for byte. */
static void check_messages(const struct tagc_codec *codec, const struct tagc_job *jobs, int rank,
                           float given[MOST_RANKS][FEW_ELEMENTS]) {
  struct reference_call call = {
    .kind = dense_kind(codec), .n = jobs->shape.n, .seed = jobs->seed, .shard = rank, .stochastic = jobs->stochastic};
  const size_t bytes = jobs->layout.message_bytes;
  float left[FEW_ELEMENTS];
  if (call.kind == REFERENCE_KINDS)
    return;
  uint8_t *want = input_memory(bytes);
  for (call.rank = 0; call.rank < jobs->shape.nranks; call.rank++) {
    const uint8_t *got = jobs[rank].message_in + (size_t)call.rank * bytes;
    if (call.rank == rank)
      continue;
    reference_encode(&call, given[call.rank], ((const struct tagc_exceptions *)got)->anywhere, want, left);
    MUST(memcmp(want, got, bytes) == 0 && ((const struct tagc_exceptions *)got)->anywhere <= REFERENCE_EXCEPTION);
  }
  free(want);
}

/* Runs a sender once more, with the plain kernels: twin_new() before its call, twin_check() after it. */
static void twin_new(const struct tagc_codec *codec, struct tagc_job *twin, const struct tagc_job *job) {
  *twin = *job; /* with its send buffer, which is read-only */
  job_begin(codec, twin);
  if (job->residual)
    memcpy(twin->residual, job->residual, tagc_residual_bytes(&job->shape));
}

static void twin_check(const struct tagc_codec *codec, struct tagc_job *twin, const struct tagc_job *job) {
  const struct tagc_layout *l = &job->layout;
  const size_t ranks = (size_t)job->shape.nranks;
  use_variant(plain);
  twin->measured = job->measured;
  if (job->measured)
    memcpy(twin->exponents, job->exponents, ranks * l->exponent_bytes);
  if (codec->prepare)
    codec->prepare(twin);
  memcpy(twin->exponents, job->exponents, ranks * l->exponent_bytes); /* the agreed ones */
  codec->encode(twin);
  for (size_t shard = 0; shard < ranks; shard++)
    MUST(shard == (size_t)job->rank || memcmp(twin->message_out + shard * l->message_bytes,
                                              job->message_out + shard * l->message_bytes, l->message_bytes) == 0);
  MUST(memcmp(twin->sketch_out, job->sketch_out, ranks * l->sketch_count * sizeof(int32_t)) == 0);
  twin->residual_empty = false;
  for (int shard = 0; shard < job->shape.nranks && job->residual; shard++) {
    float a[FEW_ELEMENTS], b[FEW_ELEMENTS];
    give(twin, shard, a);
    give(job, shard, b);
    MUST(memcmp(a, b, job->shape.n * sizeof *a) == 0);
  }
  job_end(twin);
}

/* Changes up to eight received bytes. */
static void flip(struct tagc_job *job, struct input *in) {
  const size_t exponents = (size_t)job->shape.nranks * job->layout.exponent_bytes;
  const size_t sketch = job->layout.sketch_count * sizeof(int32_t);
  const size_t all = exponents + sketch + (size_t)job->shape.nranks * job->layout.message_bytes;
  for (uint32_t flips = input_below(in, 9); flips > 0; flips--) {
    size_t at = input_number(in, 3) % all;
    uint8_t bits = input_byte(in);
    if (at < exponents)
      job->exponents[at] ^= bits;
    else if (at < exponents + sketch)
      ((uint8_t *)job->sketch_in)[at - exponents] ^= bits;
    else
      job->message_in[at - exponents - sketch] ^= bits;
  }
}

/* A call of all ranks. */
struct call {
  const struct tagc_codec *codec;
  struct tagc_chunks chunks;
  enum kind kind;
  int rank; /* it alone decodes */
  bool compare;
  struct tagc_job whole[MOST_RANKS];
  struct tagc_job chunk[MOST_CHUNKS][MOST_RANKS];
};

/* Before the first chunk: the exponents of all. */
static void measure(struct call *call, const struct input *in) {
  for (int k = 0; k < call->chunks.count; k++) {
    for (int i = 0; i < call->whole->shape.nranks; i++) {
      call->codec->measure(&call->chunk[k][i]);
      call->chunk[k][i].measured = true;
    }
    exchange_exponents(call->chunk[k], call->kind == EXPONENTS ? in : NULL);
  }
}

/* The shards of a chunk must be parts of the whole's. */
static void check_place(const struct call *call, int k, int rank) {
  const size_t from = call->chunks.at[k] * tagc_dtype_size(call->whole->shape.dtype);
  for (int shard = 0; shard < call->whole->shape.nranks; shard++)
    MUST(tagc_job_shard(&call->chunk[k][rank], shard) ==
         (const char *)tagc_job_shard(&call->whole[rank], shard) + from);
}

/* Runs a chunk of a call on all ranks. */
static void call_chunk(struct call *call, struct tagc_job *jobs, const struct input *in, struct input *changes) {
  const struct tagc_codec *codec = call->codec;
  const int rank = call->rank;
  struct tagc_job twin, *sender = &jobs[(rank + 1) % jobs->shape.nranks];
  float given[MOST_RANKS][FEW_ELEMENTS];
  for (int i = 0; i < jobs->shape.nranks; i++)
    give(&jobs[i], rank, given[i]);
  if (call->compare)
    twin_new(codec, &twin, sender);
  for (int i = 0; codec->prepare && i < jobs->shape.nranks; i++)
    codec->prepare(&jobs[i]);
  if (!jobs->measured)
    exchange_exponents(jobs, call->kind == EXPONENTS ? in : NULL);
  for (int i = 0; i < jobs->shape.nranks; i++)
    codec->encode(&jobs[i]);
  exchange(jobs, rank);
  if (call->kind == WILD && call->compare)
    check_messages(codec, jobs, rank, given);
  if (call->kind == FLIPPED)
    flip(&jobs[rank], changes);
  decode(codec, &jobs[rank], call->compare);
  for (int i = 0; i < jobs->shape.nranks; i++)
    jobs[i].residual_empty = false;
  if (call->compare) {
    twin_check(codec, &twin, sender);
    check_result(codec, &jobs[rank]);
  }
  if (call->kind == HONEST && stats.unrecovered == 0)
    check_sum(codec, jobs, rank, given);
}

static void call_all(struct call *call, struct input *in) {
  struct tagc_job *whole = call->whole;
  struct input changes = *in;
  for (uint32_t skipped = 0; call->kind == FLIPPED && skipped < 33; skipped++)
    input_byte(in); /* gradients do not use the bytes of the changes */
  for (int i = 0; i < whole->shape.nranks; i++)
    fill_gradient(&whole[i], in, (size_t)i * 7 + (call->chunk[0][i].residual_empty ? 0 : 3), call->kind == WILD);
  if (call->chunks.count > 1 && call->codec->measure)
    measure(call, in);
  for (int k = 0; k < call->chunks.count; k++)
    call_chunk(call, call->chunk[k], in, &changes);
}

/* Makes two calls, so the second one sends the residual of the first. */
static void honest(const struct tagc_codec *codec, const struct tagc_shape *shape, const struct tagc_chunks *chunks,
                   struct input *in, enum kind kind, bool stochastic) {
  static struct call call;
  const uint8_t bits = input_byte(in);
  call.codec = codec;
  call.chunks = *chunks;
  call.kind = kind;
  call.compare = bits % 4 == 0;
  call.rank = (int)input_below(in, (uint32_t)shape->nranks);
  const uint8_t seed = input_byte(in);
  memset(&stats, 0, sizeof stats);
  for (int i = 0; i < shape->nranks; i++) {
    job_new(&call.whole[i], shape, i);
    call.whole[i].stochastic = stochastic;
    for (int k = 0; k < chunks->count; k++) {
      call.chunk[k][i] = tagc_chunk_job(&call.whole[i], chunks, k);
      job_begin(codec, &call.chunk[k][i]);
      check_place(&call, k, i);
    }
  }
  for (int turn = 0; turn <= (bits >> 2 & 1); turn++) {
    for (int k = 0; k < chunks->count; k++)
      for (int i = 0; i < shape->nranks; i++) {
        call.whole[i].seed = seed + (uint64_t)turn;
        call.chunk[k][i].seed = tagc_chunk_job(&call.whole[i], chunks, k).seed;
      }
    call_all(&call, in);
  }
  for (int i = 0; i < shape->nranks; i++) {
    for (int k = 0; k < chunks->count; k++)
      job_end(&call.chunk[k][i]);
    job_free(&call.whole[i]);
  }
}

static void add_codec(const char *name) {
  size_t c = 0;
  while (c < IN_CHUNKS && codecs[c] && strcmp(codecs[c], name) != 0)
    c++;
  MUST(c < IN_CHUNKS);
  codecs[c] = name;
}

/* The codec of an input, or NULL. */
static const struct tagc_codec *codec_of(unsigned number) {
  const char *name = only ? only : codecs[number];
  return name ? tagc_codec_find(name) : NULL;
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  static const char option[] = "--codec=";
  for (int i = 1; i < *argc; i++)
    if (strncmp((*argv)[i], option, sizeof option - 1) == 0)
      only = (*argv)[i] + sizeof option - 1;
  MUST(!only || tagc_codec_find(only));
  for (size_t i = 0; tagc_codecs[i]; i++)
    add_codec(tagc_codecs[i]->name);
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const variants[] = {plain, "avx2", "avx512"};
  struct input in = {data, data + size};
  struct tagc_layout layout;
  const uint8_t first = input_byte(&in), second = input_byte(&in), third = input_byte(&in);
  const enum kind kind = (enum kind)(first % KINDS);
  const struct tagc_codec *codec = codec_of(third % MOST_CODECS);
  const bool in_chunks = third % MOST_CODECS >= IN_CHUNKS;
  struct tagc_shape shape = {
    .dtype = (enum tagc_dtype)(second % 3),
    .nranks = 2 + (int)(second / 3 % (kind == HOSTILE ? MOST_RANKS - 1 : 3)),
    .keep_ppm = second & 128 ? 1000000 : 0,
    .residual = (enum tagc_storage)(third / 16 % 4),
  };
  shape.n = 1 + input_below(&in, kind != HOSTILE ? (in_chunks ? FEW_ELEMENTS : 300)
                                 : second & 64   ? MOST_ELEMENTS
                                                 : FEW_ELEMENTS);
  if (!shape.keep_ppm)
    shape.keep_ppm = 1 + input_below(&in, 1000) * 1000;
  const struct tagc_chunks chunks = cut(shape.n, in_chunks);
  if (!codec || (codec->needs_residual && !shape.residual))
    return -1;
  for (int k = 0; k < chunks.count; k++) {
    const struct tagc_shape chunk = tagc_chunk_shape(&shape, &chunks, k);
    if (!codec->layout(&chunk, &layout))
      return -1;
  }
  use_variant(variants[first / KINDS % 3]);
  if (kind == HOSTILE)
    hostile(codec, &shape, &chunks, &in);
  else
    honest(codec, &shape, &chunks, &in, kind, third / 64 % 2);
  return 0;
}
