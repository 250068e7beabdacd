/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench: how fast the codecs are on this processor, against memcpy of the fp32 input in the same run.
 *
 * One rank is timed: prepare (sparsify + residual), encode (sketch) and decode (peel + sum). What the other ranks send
 * it is made once, before. memcpy copies as many bytes as the rank's foreign shards have in fp32; ratio = memcpy's time
 * / the phase's time, so 0.5 means half as fast as memcpy. Times are medians over the repetitions, which run memcpy and
 * the phases in turn, so that each finds the caches as the others leave them.
 *
 * Output: stdout. Exit status: 0, 2 for bad options, 1 when memory is short. Single-threaded.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/codec_bits.h"
#include "kernels/device.h"
#include "kernels/lhc.h"
#include "kernels/residual.h"
#include "kernels/variant.h"

enum { MAX_REPEAT = 1000, PHASES = 4 };

struct options {
  const char *codec, *variant;
  uint64_t elements;
  int ranks, repeat;
  enum tagc_dtype dtype;
  uint32_t keep_ppm;
  bool all_variants;
};

static const char usage[] =
  "Usage: tagc-bench [option...]\n"
  "  --elements N      elements of a shard, with k or M for 2^10 or 2^20 (default 1M)\n"
  "  --ranks N         2 to 64 (default 2)\n"
  "  --sparsity X      share of the values that stay behind, 0 <= X < 1 (default 0.95)\n"
  "  --dtype TYPE      fp32, fp16 or bf16 (default fp32)\n"
  "  --repeat N        1 to 1000 (default 15)\n"
  "  --codec NAME      lhc or none (default lhc)\n"
  "  --variant NAME    avx512, avx2 or plain (default: the fastest that runs here)\n"
  "  --all-variants    one line each\n"
  "  --help            this text\n";

/* -- options ------------------------------------------------------------------------------------------------------ */

static bool parse_count(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
  char *end;
  errno = 0;
  if (*text < '0' || *text > '9')
    return false;
  unsigned long long value = strtoull(text, &end, 10);
  int shift = *end == 'k' ? 10 : *end == 'M' ? 20 : 0;
  end += shift > 0;
  if (errno || *end || value > most >> shift || value << shift < least)
    return false;
  *out = value << shift;
  return true;
}

static bool parse_sparsity(const char *text, uint32_t *keep_ppm)
{
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !(value >= 0 && value < 1))
    return false;
  *keep_ppm = (uint32_t)((1 - value) * 1e6 + 0.5);
  return *keep_ppm > 0;
}

static bool parse_dtype(const char *text, enum tagc_dtype *out)
{
  static const char *const names[] = { "fp32", "fp16", "bf16" };
  for (int i = 0; i < 3; i++)
    if (strcmp(text, names[i]) == 0) {
      *out = (enum tagc_dtype)i;
      return true;
    }
  return false;
}

/* Whether a value is right for an option. */
static bool parse_option(const char *name, const char *value, struct options *o)
{
  uint64_t count;
  if (strcmp(name, "--elements") == 0)
    return parse_count(value, 1, UINT32_MAX, &o->elements);
  if (strcmp(name, "--ranks") == 0)
    return parse_count(value, 2, 64, &count) && (o->ranks = (int)count);
  if (strcmp(name, "--repeat") == 0)
    return parse_count(value, 1, MAX_REPEAT, &count) && (o->repeat = (int)count);
  if (strcmp(name, "--sparsity") == 0)
    return parse_sparsity(value, &o->keep_ppm);
  if (strcmp(name, "--dtype") == 0)
    return parse_dtype(value, &o->dtype);
  if (strcmp(name, "--codec") == 0)
    return tagc_codec_find(o->codec = value) != NULL;
  return strcmp(name, "--variant") == 0 && tagc_variant_force(o->variant = value);
}

static bool is_option(const char *name)
{
  static const char *const names[] = { "--elements", "--ranks", "--sparsity", "--dtype", "--repeat", "--codec",
                                       "--variant" };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0)
      return true;
  return false;
}

static bool parse_options(int argc, char **argv, struct options *o)
{
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      exit(0);
    }
    if (strcmp(argv[i], "--all-variants") == 0) {
      o->all_variants = true;
      continue;
    }
    if (!is_option(argv[i])) {
      fprintf(stderr, "tagc-bench: there is no option '%s'\n%s", argv[i], usage);
      return false;
    }
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!value || !parse_option(argv[i], value, o)) {
      if (value)
        fprintf(stderr, "tagc-bench: %s does not take '%s'\n%s", argv[i], value, usage);
      else
        fprintf(stderr, "tagc-bench: %s needs a value\n%s", argv[i], usage);
      return false;
    }
    i++;
  }
  return true;
}

/* -- memory and data ---------------------------------------------------------------------------------------------- */

static void *need(size_t bytes)
{
  void *memory = tagc_device_host.alloc(bytes);
  if (!memory) {
    fprintf(stderr, "tagc-bench: no memory for %zu bytes\n", bytes);
    exit(1);
  }
  memset(memory, 0, bytes);
  return memory;
}

/* Dense values of about normal distribution: the sum of four uniform ones. */
static void fill(void *send, uint64_t count, enum tagc_dtype dtype, uint64_t seed)
{
  for (uint64_t i = 0; i < count; i++) {
    uint64_t bits = tagc_mix64(seed + i);
    int32_t sum = (int32_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48)) - 131070;
    tagc_store(send, i, dtype, (float)sum * 0x1p-16f);
  }
}

static struct tagc_job new_job(const struct tagc_codec *codec, const struct tagc_shape *shape,
                               const struct tagc_layout *layout, int rank, struct tagc_codec_stats *stats)
{
  const size_t ranks = (size_t)shape->nranks, size = tagc_dtype_size(shape->dtype);
  struct tagc_job job = { .shape = *shape, .layout = *layout, .rank = rank, .scale = 1, .divisor = (float)shape->nranks,
                          .residual_empty = true, .seed = 1, .stats = stats };
  void *send = need(ranks * shape->n * size);
  fill(send, ranks * shape->n, shape->dtype, (uint64_t)rank << 40);
  job.send = send;
  job.recv = need(shape->n * size);
  job.residual = codec->needs_residual ? need(tagc_residual_bytes(shape)) : NULL;
  job.exponents = need(ranks * layout->exponent_bytes);
  job.sketch_out = need(ranks * layout->sketch_count * 4);
  job.sketch_in = need(layout->sketch_count * 4);
  job.message_out = need(ranks * layout->message_bytes);
  job.message_in = need(ranks * layout->message_bytes);
  job.state = need(layout->state_bytes);
  return job;
}

static void free_job(struct tagc_job *job)
{
  void *parts[] = { (void *)(uintptr_t)job->send, job->recv, job->residual, job->exponents, job->sketch_out,
                    job->sketch_in, job->message_out, job->message_in, job->state };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    tagc_device_host.release(parts[i], NULL);
}

/* What the other ranks send to rank 0: one after the other in the memory of one. The exponents of shard 0 need a pass
 * of their own, because every rank encodes under the maximum. */
static void receive(const struct tagc_codec *codec, struct tagc_job *job)
{
  const struct tagc_layout *l = &job->layout;
  struct tagc_codec_stats stats = { 0 };
  for (int pass = codec->prepare ? 0 : 1; pass < 2; pass++)
    for (int rank = 1; rank < job->shape.nranks; rank++) {
      struct tagc_job peer = new_job(codec, &job->shape, l, rank, &stats);
      if (codec->prepare)
        codec->prepare(&peer);
      for (size_t i = 0; i < l->exponent_bytes; i++) {
        if (peer.exponents[i] > job->exponents[i])
          job->exponents[i] = peer.exponents[i];
        peer.exponents[i] = job->exponents[i];
      }
      codec->encode(&peer);
      for (size_t i = 0; pass == 1 && i < l->sketch_count; i++)
        job->sketch_in[i] = (int32_t)((uint32_t)job->sketch_in[i] + (uint32_t)peer.sketch_out[i]);
      memcpy(job->message_in + (size_t)rank * l->message_bytes, peer.message_out, l->message_bytes);
      free_job(&peer);
    }
}

/* -- measuring ---------------------------------------------------------------------------------------------------- */

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *times, int count)
{
  qsort(times, (size_t)count, sizeof *times, compare);
  return times[count / 2];
}

/* What memcpy copies. */
struct copy {
  void *from, *to;
  size_t bytes;
};

static struct copy new_copy(const struct options *o)
{
  const size_t bytes = (size_t)(o->ranks - 1) * o->elements * sizeof(float);
  return (struct copy){ need(bytes), need(bytes), bytes };
}

static void free_copy(const struct copy *copy)
{
  tagc_device_host.release(copy->from, NULL);
  tagc_device_host.release(copy->to, NULL);
}

/* One repetition: times of memcpy (of the very input, where that is fp32), prepare, encode, decode. */
static void repeat(const struct tagc_codec *codec, struct tagc_job *job, const struct copy *copy,
                   const uint8_t *received, double times[PHASES])
{
  const void *input = job->shape.dtype == TAGC_FLOAT32 ? (const float *)job->send + job->shape.n : copy->from;
  double at[PHASES + 1];
  at[0] = now();
  memcpy(copy->to, input, copy->bytes);
  __asm__ volatile("" : : "r"(copy->to) : "memory");
  at[1] = now();
  if (codec->prepare)
    codec->prepare(job);
  at[2] = now();
  memcpy(job->exponents, received, job->layout.exponent_bytes);
  double paused = now();
  codec->encode(job);
  at[3] = now();
  codec->decode(job);
  at[4] = now();
  job->residual_empty = false;
  job->seed = 1;
  for (int phase = 0; phase < PHASES; phase++)
    times[phase] = at[phase + 1] - (phase == 2 ? paused : at[phase]);
}

static void measure(const struct tagc_codec *codec, struct tagc_job *job, const struct options *o, const char *variant)
{
  static double times[PHASES][MAX_REPEAT];
  const size_t part = job->layout.exponent_bytes;
  const struct copy copy = new_copy(o);
  uint8_t *received = need(part);
  memcpy(received, job->exponents, part);
  job->residual_empty = true;
  for (int i = -2; i < o->repeat; i++) {
    double once[PHASES];
    *job->stats = (struct tagc_codec_stats){ 0 };
    repeat(codec, job, &copy, received, once);
    for (int phase = 0; phase < PHASES && i >= 0; phase++)
      times[phase][i] = once[phase];
  }
  memcpy(job->exponents, received, part);
  double base = median(times[0], o->repeat);
  printf("%-7s | %7.2f %6.1f |", variant, 1e3 * base, 1e-9 * (double)copy.bytes / base);
  for (int phase = 1; phase < PHASES; phase++) {
    double time = median(times[phase], o->repeat);
    if (phase == 1 && !codec->prepare) {
      printf("       -      -     - |");
      continue;
    }
    printf(" %7.2f %6.1f %5.2f |", 1e3 * time, 1e-9 * (double)copy.bytes / time, base / time);
  }
  printf(" %llu\n", (unsigned long long)job->stats->unrecovered);
  free_copy(&copy);
  tagc_device_host.release(received, NULL);
}

static void print_head(const struct options *o, const struct tagc_layout *l, const struct tagc_codec_stats *stats)
{
  const double foreign = (double)(o->ranks - 1) * (double)o->elements;
  printf("%s: %llu elements a shard, %d ranks, density %.4f of a target of %.4f, %.3f bits an element\n", o->codec,
         (unsigned long long)o->elements, o->ranks, (double)stats->selected / foreign, 1e-6 * o->keep_ppm,
         8 * ((double)l->message_bytes + 4.0 * (double)l->sketch_count + 2.0 * (double)l->exponent_bytes) /
           (double)o->elements);
  printf("        |     memcpy     |        prepare        |        encode         |        decode         |\n");
  printf("variant |    ms    GB/s  |    ms    GB/s  ratio  |    ms    GB/s  ratio  |    ms    GB/s  ratio  | "
         "unrecovered\n");
}

int main(int argc, char **argv)
{
  static const char *const variants[] = { "avx512", "avx2", "plain" };
  struct options o = { .codec = "lhc", .elements = 1 << 20, .ranks = 2, .repeat = 15, .keep_ppm = 50000 };
  if (!parse_options(argc, argv, &o))
    return 2;
  const struct tagc_codec *codec = tagc_codec_find(o.codec);
  struct tagc_shape shape = { .n = o.elements, .nranks = o.ranks, .dtype = o.dtype, .keep_ppm = o.keep_ppm,
                              .residual = codec->needs_residual ? TAGC_STORAGE_FP32 : TAGC_STORAGE_NONE };
  struct tagc_layout layout;
  if (!codec->layout(&shape, &layout)) {
    fprintf(stderr, "tagc-bench: %s cannot carry this shape\n", o.codec);
    return 2;
  }
  struct tagc_codec_stats stats = { 0 };
  struct tagc_job job = new_job(codec, &shape, &layout, 0, &stats);
  receive(codec, &job);
  uint8_t *exponents = need(layout.exponent_bytes);
  memcpy(exponents, job.exponents, layout.exponent_bytes);
  double once[PHASES];
  const struct copy copy = new_copy(&o);
  repeat(codec, &job, &copy, exponents, once);
  free_copy(&copy);
  print_head(&o, &layout, &stats);
  memcpy(job.exponents, exponents, layout.exponent_bytes);
  tagc_device_host.release(exponents, NULL);
  if (strcmp(o.codec, "lhc") != 0)
    measure(codec, &job, &o, "-");
  else if (!o.all_variants)
    measure(codec, &job, &o, tagc_lhc_kernels()->name);
  for (size_t i = 0; strcmp(o.codec, "lhc") == 0 && o.all_variants && i < 3; i++)
    if (tagc_variant_force(variants[i]))
      measure(codec, &job, &o, variants[i]);
  free_job(&job);
  return 0;
}
