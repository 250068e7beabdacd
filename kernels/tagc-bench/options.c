/* SPDX-License-Identifier: BSD-3-Clause
 * The command line of tagc-bench. One table: the parser, --help and what a refused value is told come from it.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/tagc-bench/bench.h"
#include "kernels/codec/pieces.h"

static const char *const data_names[] = { "gauss", "laplace", "student-t", "lognormal", "sparse-rows",
                                          "clustered-columns", NULL };
static const char *const dtype_names[] = { "fp32", "fp16", "bf16", NULL };
static const char *const storage_names[] = { "none", "fp32", "bf16", "int8", NULL };
static const char *const rounding_names[] = { "nearest", "stochastic", NULL };

const char *bench_data_name(enum bench_data data) { return data_names[data]; }
const char *bench_dtype_name(enum tagc_dtype dtype) { return dtype_names[dtype]; }
const char *bench_storage_name(enum tagc_storage storage) { return storage_names[storage]; }

void bench_stop(int status, const char *message, ...)
{
  va_list args;
  fputs("tagc-bench: ", stderr);
  va_start(args, message);
  vfprintf(stderr, message, args);
  va_end(args);
  fputs(status == BENCH_USAGE ? " (tagc-bench --help lists the options)\n" : "\n", stderr);
  exit(status);
}

/* -- values ------------------------------------------------------------------------------------------------------- */

/* A number, perhaps with k or M, up to `*end`. */
static bool read_count(const char *text, uint64_t least, uint64_t most, uint64_t *out, char **end)
{
  errno = 0;
  if (*text < '0' || *text > '9')
    return false;
  const unsigned long long value = strtoull(text, end, 10);
  const int shift = **end == 'k' ? 10 : **end == 'M' ? 20 : 0;
  *end += shift > 0;
  if (errno || value > most >> shift || value << shift < least)
    return false;
  *out = value << shift;
  return true;
}

static bool parse_count(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
  char *end;
  return read_count(text, least, most, out, &end) && !*end;
}

static bool parse_int(const char *text, int least, int most, int *out)
{
  uint64_t value;
  return parse_count(text, (uint64_t)least, (uint64_t)most, &value) && (*out = (int)value, true);
}

static bool parse_number(const char *text, double least, double most, double *out)
{
  char *end;
  const double value = strtod(text, &end);
  if (end == text || *end || !(value >= least && value <= most))
    return false;
  *out = value;
  return true;
}

static bool parse_choice(const char *text, const char *const *names, int *out)
{
  for (int i = 0; names[i]; i++)
    if (strcmp(text, names[i]) == 0) {
      *out = i;
      return true;
    }
  return false;
}

/* -- options ------------------------------------------------------------------------------------------------------ */

static bool set_codec(struct bench_options *o, const char *value)
{
  char list[200];
  o->codec_count = 0;
  if (strcmp(value, "all") == 0) {
    while (tagc_codecs[o->codec_count] && o->codec_count < BENCH_MOST_CODECS) {
      o->codec[o->codec_count] = tagc_codecs[o->codec_count];
      o->codec_count++;
    }
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

static bool set_data(struct bench_options *o, const char *value)
{
  int i;
  return parse_choice(value, data_names, &i) && (o->data = (enum bench_data)i, true);
}

static bool set_elements(struct bench_options *o, const char *value)
{
  return parse_count(value, 1, UINT32_MAX, &o->elements);
}

static bool set_ranks(struct bench_options *o, const char *value)
{
  return parse_int(value, 2, BENCH_MOST_RANKS, &o->ranks);
}

static bool set_dtype(struct bench_options *o, const char *value)
{
  int i;
  o->dtype_given = true;
  return parse_choice(value, dtype_names, &i) && (o->dtype = (enum tagc_dtype)i, true);
}

static bool set_sparsity(struct bench_options *o, const char *value)
{
  double sparsity;
  if (!parse_number(value, 0, 0.999999, &sparsity))
    return false;
  o->keep_ppm = (uint32_t)((1 - sparsity) * 1e6 + 0.5);
  return true;
}

static bool set_residual(struct bench_options *o, const char *value)
{
  int i;
  o->residual_given = strcmp(value, "auto") != 0;
  return !o->residual_given || (parse_choice(value, storage_names, &i) && (o->residual = (enum tagc_storage)i, true));
}

static bool set_rounding(struct bench_options *o, const char *value)
{
  int i;
  return parse_choice(value, rounding_names, &i) && (o->stochastic = i == 1, true);
}

static bool set_steps(struct bench_options *o, const char *value) { return parse_int(value, 1, 100000, &o->steps); }
static bool set_seed(struct bench_options *o, const char *value) { return parse_count(value, 0, UINT64_MAX, &o->seed); }
static bool set_repeat(struct bench_options *o, const char *value)
{
  return parse_int(value, 0, BENCH_MOST_REPEAT, &o->repeat);
}
static bool set_variant(struct bench_options *o, const char *value) { return (void)o, tagc_variant_force(value); }
static bool set_all_variants(struct bench_options *o, const char *value)
{
  (void)value;
  return o->phases = o->all_variants = true;
}
static bool set_phases(struct bench_options *o, const char *value) { return (void)value, o->phases = true; }
static bool set_allgather(struct bench_options *o, const char *value) { return (void)value, o->allgather = true; }
static bool set_json(struct bench_options *o, const char *value) { return (void)value, o->json = true; }
static bool set_plot(struct bench_options *o, const char *value) { return *(o->plot = value) != '\0'; }

static bool set_simulate(struct bench_options *o, const char *value)
{
  char *end = NULL;
  uint64_t least, most, local = 1;
  const bool by_host = strncmp(value, "hosts=", 6) == 0;
  if ((!by_host && strncmp(value, "ranks=", 6) != 0) || !read_count(value + 6, 2, BENCH_MOST_SIMULATED, &least, &end) ||
      strncmp(end, "..", 2) != 0 || !read_count(end + 2, least, BENCH_MOST_SIMULATED, &most, &end))
    return false;
  if (by_host && (strncmp(end, ",local=", 7) != 0 || !read_count(end + 7, 1, BENCH_MOST_SIMULATED / most, &local, &end)))
    return false;
  if (*end)
    return false;
  if (o->simulation.wanted)
    bench_stop(BENCH_USAGE, "--simulate comes once, with ranks= or with hosts=");
  o->simulation.wanted = true;
  o->simulation.by_host = by_host;
  o->simulation.least = (int)least;
  o->simulation.most = (int)most;
  o->simulation.local = (int)local;
  return true;
}

static bool set_alpha(struct bench_options *o, const char *v) { return parse_number(v, 0, 1e6, &o->simulation.alpha_us); }
static bool set_beta(struct bench_options *o, const char *v)
{
  return parse_number(v, 1e-6, 1e6, &o->simulation.beta_gbit);
}
static bool set_alpha_inside(struct bench_options *o, const char *v)
{
  return parse_number(v, 0, 1e6, &o->simulation.alpha_inside_us);
}
static bool set_beta_inside(struct bench_options *o, const char *v)
{
  return parse_number(v, 1e-6, 1e6, &o->simulation.beta_inside_gbit);
}
static bool set_message(struct bench_options *o, const char *v)
{
  return parse_number(v, 0, 1e6, &o->simulation.message_us);
}
static bool set_encode(struct bench_options *o, const char *v)
{
  return parse_number(v, 1e-3, 1e6, &o->simulation.encode_gbs);
}
static bool set_decode(struct bench_options *o, const char *v)
{
  return parse_number(v, 1e-3, 1e6, &o->simulation.decode_gbs);
}

static bool set_depth(struct bench_options *o, const char *v) { return parse_int(v, 1, TAGC_PIECES, &o->simulation.depth); }

/* 12x7M,2x38M */
static bool set_units(struct bench_options *o, const char *value)
{
  struct bench_simulation *s = &o->simulation;
  s->unit_count = 0;
  for (const char *at = value;; at++) {
    struct bench_unit unit = { .count = 1 };
    char *end = NULL;
    if (s->unit_count == BENCH_MOST_UNITS || !read_count(at, 1, UINT64_C(1) << 40, &unit.elements, &end))
      return false;
    if (*end == 'x') {
      unit.count = unit.elements;
      if (unit.count > 1000000 || !read_count(end + 1, 1, UINT64_C(1) << 40, &unit.elements, &end))
        return false;
    }
    s->unit[s->unit_count++] = unit;
    if (!*end)
      return true;
    if (*end != ',')
      return false;
    at = end;
  }
}

/* `value`: what stands for it in --help, NULL: it takes none. `accepts`: what a refused value is told, NULL: the names of
 * the codecs. */
static const struct option {
  const char *name, *value, *accepts, *help;
  bool (*set)(struct bench_options *, const char *);
} table[] = {
  { "--codec", "NAMES", NULL, "a comma-separated list of codecs, or all (all)", set_codec },
  { "--data", "KIND", "gauss, laplace, student-t, lognormal, sparse-rows or clustered-columns",
    "made-up gradients: gauss, laplace, student-t, lognormal,\nsparse-rows, clustered-columns (gauss)", set_data },
  { "--input", "FILE...", "files", "dumps of a run (TAGC_DUMP) instead: one for all ranks, or one a rank", NULL },
  { "--elements", "N", "1 to 4294967295, with k or M for 2^10 or 2^20",
    "elements of a shard, with k or M for 2^10 or 2^20 (1M)", set_elements },
  { "--ranks", "N", "2 to 64", "ranks, 2 to 64, all in this process (2)", set_ranks },
  { "--dtype", "TYPE", "fp32, fp16 or bf16", "type of the gradients: fp32, fp16 or bf16 (fp32)", set_dtype },
  { "--sparsity", "X", "0 to 0.999999", "share of the values that sparse codecs leave for later (0.95)", set_sparsity },
  { "--residual", "KIND", "auto, none, fp32, bf16 or int8",
    "what is not sent: auto, none, fp32, bf16 or int8 (auto: fp32 for\ncodecs that need one, none for the others)",
    set_residual },
  { "--rounding", "HOW", "nearest or stochastic", "nearest or stochastic (nearest)", set_rounding },
  { "--steps", "N", "1 to 100000", "equal steps under fresh seeds, of which the errors are added up (1)", set_steps },
  { "--seed", "N", "0 to 18446744073709551615", "of the data and of the codecs (1)", set_seed },
  { "--repeat", "N", "0 to 1000", "repetitions of which times are medians; 0: take none (15)", set_repeat },
  { "--variant", "NAME", "plain, and where the processor has them avx2 and avx512",
    "instruction set: plain, avx2 or avx512 (the fastest that runs here)", set_variant },
  { "--phases", NULL, NULL, "times of prepare, encode and decode, each for itself", set_phases },
  { "--all-variants", NULL, NULL, "the same for every instruction set that runs here", set_all_variants },
  { "--allgather", NULL, NULL, "show the codecs for all-gathers instead, on shards of parameters", set_allgather },
  { "--json", NULL, NULL, "print JSON", set_json },
  { "--plot", "FILE.svg", "a file name", "draw error against rate, or what is simulated, into a file", set_plot },
  { "--simulate", "WHAT", "ranks=A..B with 2 <= A <= B <= 4096, or hosts=A..B,local=G with 2 <= A <= B and B x G <= 4096",
    "print times of a step instead, on ranks=A..B (up to 4096), or on\nhosts=A..B,local=G with G ranks each, flat and with "
    "two levels", set_simulate },
  { "--alpha", "US", "0 to 1e6 microseconds", "latency of a step of a ring, in microseconds (10)", set_alpha },
  { "--beta", "GBIT", "1e-6 to 1e6 Gbit/s", "what a rank, or a host with all its ranks, sends to others, in\nGbit/s (10)",
    set_beta },
  { "--alpha-inside", "US", "0 to 1e6 microseconds", "the same latency inside a host (3)", set_alpha_inside },
  { "--beta-inside", "GBIT", "1e-6 to 1e6 Gbit/s", "what a rank sends inside its host, in Gbit/s (1920)", set_beta_inside },
  { "--message", "US", "0 to 1e6 microseconds", "what each message of an all-to-all costs on top, in microseconds (1)",
    set_message },
  { "--units", "LIST", "a list like 12x7M,2x38M: how many units of how many elements",
    "the units of the model: 12x7M,2x38M are 12 of 7M elements and 2 of\n38M (12x7M,2x38M)", set_units },
  { "--depth", "N", "1 to 16", "pieces of a call (TAGC_DEPTH): one is encoded or decoded while another\ntravels (1: one after the other)",
    set_depth },
  { "--encode", "GB/S", "1e-3 to 1e6 GB/s", "speed of encode, for all codecs (measured here)", set_encode },
  { "--decode", "GB/S", "1e-3 to 1e6 GB/s", "speed of decode, for all codecs (measured here)", set_decode },
};
enum { OPTIONS = sizeof table / sizeof *table };

/* -- the command line --------------------------------------------------------------------------------------------- */

static void print_codecs(FILE *to)
{
  for (const struct tagc_codec *const *codec = tagc_codecs; *codec; codec++)
    fprintf(to, "%s%s", codec == tagc_codecs ? "" : ", ", (*codec)->name);
}

static void print_help(void)
{
  puts("usage: tagc-bench [OPTION...]\n"
       "Shows what the codecs of libtagc-preload do to the gradients of all ranks of a reduce-scatter, in\n"
       "one process: bits an element, error of the sum, speed.\n");
  for (int i = 0; i < OPTIONS; i++) {
    const struct option *o = &table[i];
    char head[40];
    snprintf(head, sizeof head, "%s %s", o->name, o->value ? o->value : "");
    printf("  %-23s", head);
    for (const char *c = o->help; *c; c++)
      if (*c == '\n')
        printf("\n%25s", "");
      else
        putchar(*c);
    putchar('\n');
  }
  printf("  --help, --version\n\nCodecs: ");
  print_codecs(stdout);
  puts("\nExit status: 0; 1 no memory, or a file cannot be read or written; 2 wrong usage.");
  exit(0);
}

__attribute__((noreturn)) static void refuse(const struct option *o, const char *value)
{
  if (o->accepts)
    bench_stop(BENCH_USAGE, "%s does not take '%s': accepted is %s", o->name, value, o->accepts);
  fprintf(stderr, "tagc-bench: %s does not take '%s': accepted is all, or a list of ", o->name, value);
  print_codecs(stderr);
  fputs(" (tagc-bench --help lists the options)\n", stderr);
  exit(BENCH_USAGE);
}

static const struct option *find(const char *argument, size_t length)
{
  if (length == strlen("--gather") && strncmp(argument, "--gather", length) == 0) {
    argument = "--allgather";
    length = strlen(argument);
    fprintf(stderr, "tagc-bench: --gather is called %s now\n", argument);
  }
  for (int i = 0; i < OPTIONS; i++)
    if (strlen(table[i].name) == length && strncmp(argument, table[i].name, length) == 0)
      return &table[i];
  bench_stop(BENCH_USAGE, "there is no option '%.*s'", (int)length, argument);
}

/* --input takes all arguments up to the next option. Returns how many. */
static int take_files(struct bench_options *o, char **argv)
{
  int count = 0;
  while (argv[count] && strncmp(argv[count], "--", 2) != 0)
    count++;
  if (count == 0)
    bench_stop(BENCH_USAGE, "--input needs one file or more");
  if (o->inputs)
    bench_stop(BENCH_USAGE, "--input comes once, with all its files");
  o->inputs = (const char *const *)argv;
  o->input_count = count;
  return count;
}

void bench_parse(int argc, char **argv, struct bench_options *o)
{
  *o = (struct bench_options){ .keep_ppm = 50000, .steps = 1, .repeat = 15, .seed = 1,
                               .simulation = { .depth = 1, .alpha_us = 10, .beta_gbit = 10, .message_us = 1, .alpha_inside_us = 3,
                                               .beta_inside_gbit = 1920 } };    /* 12 NVLinks of 20 GB/s, as NCCL reckons */
  set_codec(o, "all");
  set_units(o, "12x7M,2x38M");
  for (int i = 1; i < argc; i++) {
    const char *argument = argv[i], *equals = strncmp(argument, "--", 2) == 0 ? strchr(argument, '=') : NULL;
    if (strcmp(argument, "--help") == 0)
      print_help();
    if (strcmp(argument, "--version") == 0) {
      puts("tagc-bench " PACKAGE_VERSION);
      exit(0);
    }
    const struct option *option = find(argument, equals ? (size_t)(equals - argument) : strlen(argument));
    if (!option->set) {
      if (equals)
        bench_stop(BENCH_USAGE, "--input takes its files as arguments of their own");
      i += take_files(o, argv + i + 1);
      continue;
    }
    const char *value = equals ? equals + 1 : option->value && i + 1 < argc ? argv[++i] : NULL;
    if (option->value && !value)
      bench_stop(BENCH_USAGE, "%s needs a value: %s", option->name,
                 option->accepts ? option->accepts : "names of codecs");
    if (!option->value && value)
      bench_stop(BENCH_USAGE, "%s takes no value", option->name);
    if (!option->set(o, value))
      refuse(option, value);
  }
  if (o->allgather && (o->simulation.wanted || o->plot))
    bench_stop(BENCH_USAGE, "--allgather does not go with --simulate or --plot");
  if (o->simulation.wanted && o->inputs)
    bench_stop(BENCH_USAGE, "--input does not go with --simulate");
  if (o->simulation.wanted && !o->repeat && (o->simulation.encode_gbs <= 0 || o->simulation.decode_gbs <= 0))
    bench_stop(BENCH_USAGE, "--simulate needs to know the codecs' speed: --repeat 1 or more, or --encode and --decode");
}
