/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of tagc-bench.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "env/program/command_line.h"
#include "env/program/output.h"
#include "env/program/terminal.h"
#include "env/units.h"
#include "kernels/codec/chunks.h"
#include "kernels/tagc-bench/bench.h"

static const char *const data_names[] = {"gauss",       "laplace",           "student-t", "lognormal",
                                         "sparse-rows", "clustered-columns", NULL};
static const char *const dtype_names[] = {"fp32", "fp16", "bf16", NULL};
static const char *const residual_names[] = {"auto", "none", "fp32", "bf16", "int8", NULL};
static const char *const rounding_names[] = {"nearest", "stochastic", NULL};

const char *bench_data_name(enum bench_data data) { return data_names[data]; }
const char *bench_dtype_name(enum tagc_dtype dtype) { return dtype_names[dtype]; }
const char *bench_storage_name(enum tagc_storage storage) { return residual_names[1 + storage]; }
const char *bench_residual_name(const struct bench_options *o) { return residual_names[o->residual]; }
const char *bench_rounding_name(const struct bench_options *o) { return rounding_names[o->rounding]; }

enum tagc_storage bench_storage(const struct bench_options *o, const struct tagc_codec *codec) {
  return o->residual             ? (enum tagc_storage)(o->residual - 1)
         : codec->needs_residual ? TAGC_STORAGE_FP32
                                 : TAGC_STORAGE_NONE;
}

/* -- values ------------------------------------------------------------------------------------------------------- */

static bool read_count(const char *text, uint64_t least, uint64_t most, uint64_t *out, const char **end) {
  return tagc_units_read(text, true, out, end) && *out >= least && *out <= most;
}

static bool set_codec(void *options, const char *value) {
  struct bench_options *o = options;
  char list[200];
  o->codec_count = 0;
  if (strcmp(value, "all") == 0) {
    for (; tagc_codecs[o->codec_count] && o->codec_count < BENCH_MOST_CODECS; o->codec_count++)
      o->codec[o->codec_count] = tagc_codecs[o->codec_count];
    return true;
  }
  if (strlen(value) >= sizeof list)
    return false;
  strcpy(list, value);
  for (char *rest = list, *name; (name = strsep(&rest, ","));) {
    const struct tagc_codec *codec = tagc_codec_find(name);
    if (!codec || o->codec_count == BENCH_MOST_CODECS)
      return false;
    o->codec[o->codec_count++] = codec;
  }
  return true;
}

static bool set_variant(void *options, const char *value) { return (void)options, tagc_variant_force(value); }

/* 0.01,0.2 */
static bool set_densities(void *options, const char *value) {
  struct bench_options *o = options;
  o->density_count = 0;
  for (const char *at = value;; at++) {
    char *end;
    const double density = strtod(at, &end);
    if (o->density_count == BENCH_MOST_DENSITIES || end == at || !(density >= 0 && density <= 1))
      return false;
    o->density[o->density_count++] = density;
    at = end;
    if (*at != ',')
      return !*at;
  }
}

static bool set_simulation(void *options, const char *value) {
  struct bench_simulation *s = &((struct bench_options *)options)->simulation;
  const char *end = NULL;
  uint64_t least, most, local = 1;
  const bool by_host = strncmp(value, "hosts=", 6) == 0;
  if ((!by_host && strncmp(value, "ranks=", 6) != 0) || !read_count(value + 6, 2, BENCH_MOST_SIMULATED, &least, &end) ||
      strncmp(end, "..", 2) != 0 || !read_count(end + 2, least, BENCH_MOST_SIMULATED, &most, &end))
    return false;
  if (by_host &&
      (strncmp(end, ",local=", 7) != 0 || !read_count(end + 7, 1, BENCH_MOST_SIMULATED / most, &local, &end)))
    return false;
  if (*end)
    return false;
  if (s->wanted)
    bench_stop(BENCH_USAGE, "--simulate comes once, with ranks= or with hosts=");
  s->wanted = true;
  s->by_host = by_host;
  s->least = (int)least;
  s->most = (int)most;
  s->local = (int)local;
  return true;
}

/* 12x7M,2x38M */
static bool set_units(void *options, const char *value) {
  struct bench_simulation *s = &((struct bench_options *)options)->simulation;
  s->unit_count = 0;
  for (const char *at = value;; at++) {
    struct bench_unit unit = {.count = 1};
    if (s->unit_count == BENCH_MOST_UNITS || !read_count(at, 1, UINT64_C(1) << 40, &unit.elements, &at))
      return false;
    if (*at == 'x') {
      unit.count = unit.elements;
      if (unit.count > 1000000 || !read_count(at + 1, 1, UINT64_C(1) << 40, &unit.elements, &at))
        return false;
    }
    s->unit[s->unit_count++] = unit;
    if (*at != ',')
      return !*at;
  }
}

/* -- options ------------------------------------------------------------------------------------------------------ */

static const char codec_names[] = "all, or with commas some of"
#define CODEC(name) " " #name
#include "kernels/codec/codecs.def"
  ;

#define TO(type, field) .kind = TAGC_ARGUMENT_##type, .offset = offsetof(struct bench_options, field)
/* clang-format off */
static const struct tagc_argument rows[] = {
  { .name = "codec", .without = {"allgather"}, .value = "NAMES", .kind = TAGC_ARGUMENT_CALL,
    .accepts = codec_names, .preset = "all", .set = set_codec,
    .help = "codecs to show" },
  { .name = "data", .without = {"input", "gpu"}, .value = "KIND", TO(CHOICE, data), .preset = "gauss",
    .names = data_names,
    .help = "made-up gradients" },
  { .name = "input", .without = {"simulate"}, .value = "FILE...", TO(FLAG, from_files),
    .help = "dumps of a run (TAGC_DUMP) instead: one for all ranks, or one a rank" },
  { .name = "elements", .without = {"gpu"}, .value = "N", TO(SIZE, elements),
    .accepts = "1 to 4294967295, with K, M or G for 2^10, 2^20 or 2^30",
    .help = "elements of a shard; default: those of the files, else 1M" },
  { .name = "ranks", .without = {"gpu"}, .value = "N", TO(INT, ranks), .accepts = "2 to 64",
    .help = "ranks, all in this process; default: those of the files, else 2" },
  { .name = "dtype", .value = "TYPE", TO(CHOICE, dtype), .names = dtype_names,
    .help = "type of the gradients; default: that of the files, else fp32" },
  { .name = "sparsity", .without = {"allgather"}, .value = "X", TO(REAL, sparsity),
    .accepts = "0 to 0.999999", .preset = "0.95",
    .help = "share of the values that sparse codecs leave for later" },
  { .name = "residual", .without = {"allgather"}, .value = "KIND", TO(CHOICE, residual),
    .preset = "auto", .names = residual_names,
    .help = "type of the residual; auto: fp32 for codecs that need one, none for the others" },
  { .name = "rounding", .without = {"allgather", "gpu"}, .value = "HOW", TO(CHOICE, rounding),
    .preset = "nearest", .names = rounding_names,
    .help = "rounding of values" },
  { .name = "steps", .without = {"allgather", "simulate"}, .value = "N", TO(INT, steps),
    .accepts = "1 to 100000", .preset = "1",
    .help = "equal steps under fresh seeds, whose errors are added up" },
  { .name = "seed", .without = {"gpu"}, .value = "N", TO(SIZE, seed),
    .accepts = "0 to 18446744073709551615", .preset = "1",
    .help = "seed of the data and of the codecs" },
  { .name = "repeat", .value = "N", TO(INT, repeat), .accepts = "0 to 1000", .preset = "15",
    .help = "repetitions; times are their medians; 0: no times" },
  { .name = "variant", .without = {"gpu"}, .value = "NAME", .kind = TAGC_ARGUMENT_CALL, .set = set_variant,
    .accepts = "plain, and where the processor has them avx2 and avx512",
    .help = "instruction set, instead of the fastest that runs here" },
  { .name = "phases", .without = {"allgather", "simulate"}, TO(FLAG, phases),
    .help = "separate times of prepare, encode and decode" },
  { .name = "all-variants", .without = {"simulate"}, TO(FLAG, all_variants),
    .help = "the same for every instruction set that runs here" },
  { .name = "allgather", .old = "gather", TO(FLAG, allgather),
    .help = "show the codecs for all-gathers instead, on shards of parameters" },
  { .name = "density", .with = "allgather", .value = "LIST", .kind = TAGC_ARGUMENT_CALL, .preset = "0.01,0.05,0.2",
    .set = set_densities,
    .accepts = "1 to 8 numbers from 0 to 1, with commas",
    .help = "with --allgather: shares of sums other than zero, for the codec of an all-reduce's sums" },
  { .name = "json", TO(FLAG, json), .help = "print JSON" },
  { .name = "plot", .without = {"allgather"}, .value = "FILE.svg", TO(FILE, plot),
    .help = "draw error against rate, or the simulation, into a file" },
  { .name = "simulate", .without = {"allgather"}, .value = "WHAT", .kind = TAGC_ARGUMENT_CALL, .set = set_simulation,
    .accepts = "ranks=A..B with 2 <= A <= B <= 4096, or hosts=A..B,local=G with 2 <= A <= B and B x G <= 4096",
    .help = "print times of a step on so many ranks instead, or on hosts of G ranks each, flat and with two levels" },
  { .name = "alpha", .with = "simulate", .value = "US", TO(REAL, simulation.alpha_us),
    .accepts = "0 to 1e6 microseconds", .preset = "10",
    .help = "latency of a step of a ring" },
  { .name = "beta", .with = "simulate", .value = "GBIT", TO(REAL, simulation.beta_gbit),
    .accepts = "1e-6 to 1e6 Gbit/s", .preset = "10",
    .help = "rate from a rank, or from a host with all its ranks, to others" },
  { .name = "alpha-inside", .with = "simulate", .value = "US", TO(REAL, simulation.alpha_inside_us),
    .accepts = "0 to 1e6 microseconds", .preset = "3",
    .help = "the same latency inside a host" },
  /* 12 NVLinks of 20 GB/s, as NCCL reckons */
  { .name = "beta-inside", .with = "simulate", .value = "GBIT", TO(REAL, simulation.beta_inside_gbit),
    .accepts = "1e-6 to 1e6 Gbit/s", .preset = "1920",
    .help = "rate from a rank inside its host" },
  { .name = "message", .with = "simulate", .value = "US", TO(REAL, simulation.message_us),
    .accepts = "0 to 1e6 microseconds", .preset = "1",
    .help = "extra cost of each message of an all-to-all" },
  { .name = "units", .with = "simulate", .value = "LIST", .kind = TAGC_ARGUMENT_CALL, .preset = "12x7M,2x38M",
    .set = set_units,
    .accepts = "a list like 12x7M,2x38M: how many units of how many elements",
    .help = "the units of the model" },
  { .name = "depth", .with = "simulate", .value = "N", TO(INT, simulation.depth), .accepts = "1 to 16", .preset = "1",
    .help = "chunks of a call (TAGC_DEPTH); one is encoded or decoded while another travels" },
  { .name = "encode", .with = "simulate", .without = {"gpu"}, .value = "GB/S", TO(REAL, simulation.encode_gbs),
    .accepts = "1e-3 to 1e6 GB/s",
    .help = "speed of encode for all codecs, not measured here" },
  { .name = "decode", .with = "simulate", .without = {"gpu"}, .value = "GB/S", TO(REAL, simulation.decode_gbs),
    .accepts = "1e-3 to 1e6 GB/s",
    .help = "speed of decode for all codecs, not measured here" },
  { .name = "gpu", .with = "simulate", .value = "NAME", TO(CHOICE, simulation.gpu), .names = bench_gpu_names,
    .help = "forecast: codecs run on such a GPU" },
};
/* clang-format on */
_Static_assert(BENCH_MOST_RANKS == 64 && BENCH_MOST_REPEAT == 1000 && BENCH_MOST_SIMULATED == 4096 &&
                 TAGC_CHUNKS == 16 && BENCH_MOST_DENSITIES == 8,
               "as the rows say");

static const struct tagc_command_line command_line = {
  .program = "tagc-bench",
  .head = "usage: tagc-bench [OPTION...]\n"
          "Measures the codecs of libtagc-preload on the gradients of all ranks of a reduce-scatter, in one\n"
          "process: bits an element, error of the sum, speed.\n"
          "\n",
  .tail = "\nExit status: 0; 1 no memory, or a file cannot be read or written; 2 wrong usage.\n",
  .indent = 25,
  .rows = rows,
  .count = sizeof rows / sizeof *rows,
};

void bench_stop(int status, const char *message, ...) {
  char text[4096];
  va_list args;
  va_start(args, message);
  vsnprintf(text, sizeof text, message, args);
  va_end(args);
  exit(status == BENCH_USAGE ? tagc_refuse(&command_line, "%s", text)
                             : tagc_fail(command_line.program, status, "%s", text));
}

static void check_speeds(const struct bench_options *o) {
  const struct bench_simulation *s = &o->simulation;
  if (o->phases && !o->repeat)
    bench_stop(BENCH_USAGE, "--phases and --all-variants show times, of --repeat 1 or more");
  if (s->wanted && s->gpu == BENCH_NO_GPU && !o->repeat && (s->encode_gbs <= 0 || s->decode_gbs <= 0))
    bench_stop(BENCH_USAGE,
               "--simulate needs to know the codecs' speed: --repeat 1 or more, --encode and --decode, or --gpu");
}

int bench_parse(char **argv, struct bench_options *o) {
  const enum tagc_dtype none = sizeof dtype_names / sizeof *dtype_names;
  *o = (struct bench_options){.dtype = none, .simulation.gpu = BENCH_NO_GPU, .inputs = (const char *const *)argv + 1};
  tagc_command_line_preset(&command_line, o);
  const int status = tagc_command_line_parse(&command_line, argv, o, stdout);
  if (status != TAGC_COMMAND_LINE_GO)
    return status;
  while (o->inputs[o->input_count])
    o->input_count++;
  o->keep_ppm = (uint32_t)((1 - o->sparsity) * 1e6 + 0.5);
  o->dtype_given = o->dtype != none;
  o->dtype = o->dtype_given ? o->dtype : TAGC_FLOAT32;
  o->phases |= o->all_variants;
  if (o->from_files && !o->input_count)
    bench_stop(BENCH_USAGE, "--input needs one file or more");
  if (o->input_count && !o->from_files)
    bench_stop(BENCH_USAGE, "there is no option '%s'", o->inputs[0]);
  for (int i = 0; i < o->input_count && o->plot; i++)
    if (tagc_output_is(o->plot, o->inputs[i]))
      bench_stop(BENCH_USAGE, "--plot would overwrite an input: %s", o->plot);
  check_speeds(o);
  return status;
}
