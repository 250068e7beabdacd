/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: what a rank receives may be anything. Decoding must stay inside its buffers and end; the numbers may
 * be any, but every variant of the kernels gives the same. What an honest sender made must come out exactly.
 *
 * Input  codec, variant, shape, kind, then by kind:
 *          HOSTILE   all that is received is taken from the input, over and over
 *          EXPONENTS the exponents that the ranks agree on are the input's, where they are larger than the own ones
 *          HONEST    what the ranks send is made of the input: sums of small integers must be exact
 *          FLIPPED   the same, but the receiver finds some bytes changed
 * Sketches begin at smaller sizes here than in the library (kernels/lhc_layout.c), so that an execution takes microseconds.
 */
#include "kernels/codec_bits.h"
#include "kernels/lhc.h"
#include "kernels/residual.h"
#include "kernels/variant.h"
#include "tests/fuzz/input.h"

enum kind { HOSTILE, EXPONENTS, HONEST, FLIPPED, KINDS };

static const char plain[] = "plain";
static struct tagc_codec_stats stats;

static void job_new(struct tagc_job *job, const struct tagc_shape *shape, const struct tagc_layout *layout, int rank)
{
  const size_t ranks = (size_t)shape->nranks, size = tagc_dtype_size(shape->dtype);
  *job = (struct tagc_job){
    .shape = *shape, .layout = *layout, .rank = rank, .scale = 1, .divisor = 1, .residual_empty = true, .stats = &stats,
    .send = input_memory(ranks * shape->n * size),
    .recv = input_memory(shape->n * size),
    .residual = input_memory((ranks - 1) * shape->n * sizeof(float)),
    .exponents = input_memory(ranks * layout->exponent_bytes),
    .sketch_out = input_memory(ranks * layout->sketch_count * sizeof(int32_t)),
    .sketch_in = input_memory(layout->sketch_count * sizeof(int32_t)),
    .message_out = input_memory(ranks * layout->message_bytes),
    .message_in = input_memory(ranks * layout->message_bytes),
    .state = input_memory(layout->state_bytes),
  };
}

static void job_free(struct tagc_job *job)
{
  void *const parts[] = {(void *)(uintptr_t)job->send, job->recv, job->residual, job->exponents, job->sketch_out,
                         job->sketch_in, job->message_out, job->message_in, job->state};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    free(parts[i]);
}

/* Fills a received area from what is left of the input, over and over; zeros where nothing is left. */
static void fill(const struct input *in, size_t *turn, void *area, size_t bytes)
{
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

/* Gradients of small integers, mostly zero where the input is. Every type holds them, and sums of eight of them. */
static void fill_gradient(struct tagc_job *job, const struct input *in, size_t turn)
{
  const uint64_t count = job->shape.n * (uint64_t)job->shape.nranks;
  const size_t left = input_left(in);
  for (uint64_t i = 0; i < count; i++) {
    uint8_t byte = left ? in->at[(turn + i) % left] : 0;
    tagc_store((void *)(uintptr_t)job->send, i, job->shape.dtype, (float)((int)(byte % 61) - 30));
  }
}

/* Asking the processor takes longer than a decode; a processor that lacks a variant keeps the one before. */
static void use_variant(const char *name)
{
  static const char *used;
  if (used != name)
    tagc_variant_force(name);
  used = name;
}

/* Decodes what one rank has received; once more with the plain kernels, to compare. */
static void decode(const struct tagc_codec *codec, struct tagc_job *job, bool compare)
{
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

static void hostile(const struct tagc_codec *codec, const struct tagc_shape *shape, const struct tagc_layout *layout,
                    struct input *in)
{
  struct tagc_job job;
  size_t turn = 0;
  const bool compare = input_byte(in) % 4 == 0;
  job_new(&job, shape, layout, (int)input_below(in, (uint32_t)shape->nranks));
  job.seed = input_byte(in);
  memset(job.state, 0, layout->state_bytes);
  fill(in, &turn, job.exponents, (size_t)shape->nranks * layout->exponent_bytes);
  fill(in, &turn, job.sketch_in, layout->sketch_count * sizeof(int32_t));
  fill(in, &turn, job.message_in, (size_t)shape->nranks * layout->message_bytes);
  fill(in, &turn, (char *)(uintptr_t)job.send + (size_t)job.rank * shape->n * tagc_dtype_size(shape->dtype),
       shape->n * tagc_dtype_size(shape->dtype));
  decode(codec, &job, compare);
  job_free(&job);
}

/* The exchange of the exponents: the largest of all ranks, and perhaps larger ones from nowhere. */
static void exchange_exponents(struct tagc_job *jobs, const struct input *strange)
{
  const size_t bytes = (size_t)jobs->shape.nranks * jobs->layout.exponent_bytes;
  for (size_t i = 0; i < bytes; i++) {
    uint8_t most = strange && input_left(strange) ? strange->at[i % input_left(strange)] : 0;
    for (int rank = 0; rank < jobs->shape.nranks; rank++)
      most = jobs[rank].exponents[i] > most ? jobs[rank].exponents[i] : most;
    for (int rank = 0; rank < jobs->shape.nranks; rank++)
      jobs[rank].exponents[i] = most;
  }
}

/* What `rank` receives of the others. */
static void exchange(struct tagc_job *jobs, int rank)
{
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

/* The sum of what was sent, and of what stayed behind nothing. */
static void check_sum(const struct tagc_job *jobs, int rank)
{
  for (uint64_t i = 0; i < jobs->shape.n; i++) {
    float sum = 0;
    for (int from = 0; from < jobs->shape.nranks; from++) {
      sum += tagc_load(tagc_job_shard(&jobs[from], rank), i, jobs->shape.dtype);
      if (from != rank)
        sum -= tagc_residual_floats(&jobs[from], rank)[i];
    }
    MUST(tagc_load(jobs[rank].recv, i, jobs->shape.dtype) == sum);
  }
}

/* Changes up to eight bytes of what has come in. */
static void flip(struct tagc_job *job, struct input *in)
{
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

static void honest(const struct tagc_codec *codec, const struct tagc_shape *shape, const struct tagc_layout *layout,
                   struct input *in, enum kind kind)
{
  struct tagc_job jobs[8];
  const bool compare = input_byte(in) % 4 == 0;
  const int rank = (int)input_below(in, (uint32_t)shape->nranks);
  const uint8_t seed = input_byte(in);
  struct input changes = *in;
  for (uint32_t skipped = 0; kind == FLIPPED && skipped < 33; skipped++)
    input_byte(in);                /* what the changes are made of makes no gradients */
  memset(&stats, 0, sizeof stats);
  for (int i = 0; i < shape->nranks; i++) {
    job_new(&jobs[i], shape, layout, i);
    jobs[i].seed = seed;
    fill_gradient(&jobs[i], in, (size_t)i * 7);
    if (codec->prepare)
      codec->prepare(&jobs[i]);
  }
  exchange_exponents(jobs, kind == EXPONENTS ? in : NULL);
  for (int i = 0; i < shape->nranks; i++)
    codec->encode(&jobs[i]);
  exchange(jobs, rank);
  if (kind == FLIPPED)
    flip(&jobs[rank], &changes);
  decode(codec, &jobs[rank], compare);
  if (kind == HONEST && stats.unrecovered == 0)
    check_sum(jobs, rank);
  for (int i = 0; i < shape->nranks; i++)
    job_free(&jobs[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static const char *const variants[] = {plain, "avx2", "avx512"};
  struct input in = {data, data + size};
  struct tagc_layout layout;
  const uint8_t first = input_byte(&in), second = input_byte(&in);
  const enum kind kind = (enum kind)(first % KINDS);
  const struct tagc_codec *codec = tagc_codec_find(first / KINDS % 4 == 0 ? "none" : "lhc");
  struct tagc_shape shape = {
    .dtype = (enum tagc_dtype)(second % 3),
    .nranks = 2 + (int)(second / 3 % (kind == HOSTILE ? 7 : 3)),
    .keep_ppm = second & 128 ? 1000000 : 0,
    .residual = TAGC_STORAGE_FP32,
  };
  shape.n = 1 + input_below(&in, kind == HOSTILE && second & 64 ? 2048 : 300);
  if (!shape.keep_ppm)
    shape.keep_ppm = 1 + input_below(&in, 1000) * 1000;
  if (!codec->layout(&shape, &layout))
    return -1;
  use_variant(variants[first / 16 % 3]);
  if (kind == HOSTILE)
    hostile(codec, &shape, &layout, &in);
  else
    honest(codec, &shape, &layout, &in, kind);
  return 0;
}
