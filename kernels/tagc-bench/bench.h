/* SPDX-License-Identifier: BSD-3-Clause
 * Shared by the files of tagc-bench. The program measures codecs, on made-up gradients or on dumps of a run
 * (TAGC_DUMP): the size of a payload, the error of the decoded sum, and the speed of encode and decode. From these it
 * predicts the time of a training step on a network (--simulate). See tagc-bench(1).
 *
 * Order      tagc-bench.c (main), options.c (the command line), data.c (gradients), sim.c (all ranks in one process,
 *            errors), speed.c (times), gpu.c (--gpu), model.c (--simulate), allgather.c (--allgather), table.c, json.c
 *            and forecast.c (printed output), plot.c and outlook.c (pictures; draw.h)
 * Memory     bench_need() ends the program if there is none: nothing here is part of the library.
 * Units      bits per element of the shards that one rank sends; GB/s of these elements as fp32; nanoseconds.
 * Threads    One.
 */
#ifndef KERNELS_TAGC_BENCH_BENCH_H
#define KERNELS_TAGC_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "env/program/json.h"
#include "kernels/codec/codec.h"
#include "kernels/codec/cost.h"
#include "kernels/codec/variant.h"

enum {
  BENCH_MOST_RANKS = 64, /* in this process */
  BENCH_MOST_SIMULATED = 4096,
  BENCH_MOST_CODECS = 32,
  BENCH_MOST_REPEAT = 1000,
  BENCH_MOST_UNITS = 32, /* kinds of units of --simulate */
  BENCH_MOST_DENSITIES = 8,
  BENCH_FAILED = 1,
  BENCH_USAGE = 2 /* exit statuses */
};

enum bench_data {
  BENCH_GAUSS,
  BENCH_LAPLACE,
  BENCH_STUDENT_T,
  BENCH_LOGNORMAL,
  BENCH_SPARSE_ROWS,
  BENCH_CLUSTERED_COLUMNS,
  BENCH_DATA_COUNT
};

/* GPUs of --gpu. */
enum bench_gpu { BENCH_T4, BENCH_A10, BENCH_L4, BENCH_A100, BENCH_H100, BENCH_H200, BENCH_NO_GPU };

/* Like units of a model. */
struct bench_unit {
  uint64_t count, elements; /* elements of the whole unit, over all ranks */
};

struct bench_simulation {
  bool wanted;
  bool by_host;                           /* hosts=, not ranks= */
  int least, most;                        /* hosts; with ranks= every rank is one */
  int local;                              /* ranks per host */
  double alpha_us, beta_gbit, message_us; /* between hosts */
  double alpha_inside_us, beta_inside_gbit;
  struct bench_unit unit[BENCH_MOST_UNITS];
  size_t unit_count;
  double encode_gbs, decode_gbs; /* 0: measured */
  enum bench_gpu gpu;            /* where codecs run; BENCH_NO_GPU: at those speeds */
  int depth;                     /* chunks of a call, if its codec can be cut */
};

struct bench_options {
  const struct tagc_codec *codec[BENCH_MOST_CODECS];
  size_t codec_count;
  enum bench_data data;
  bool from_files;
  const char *const *inputs; /* files of --input */
  int input_count;
  uint64_t elements; /* of a shard; 0: not given */
  int ranks;         /* 0: not given */
  enum tagc_dtype dtype;
  bool dtype_given;
  double sparsity;
  uint32_t keep_ppm;
  int residual; /* 0: fp32 for codecs that need one, else none; else enum tagc_storage + 1 */
  int rounding; /* 1: stochastic */
  int steps, repeat;
  uint64_t seed;
  bool phases, all_variants, json, allgather;
  double density[BENCH_MOST_DENSITIES]; /* of the sums that --allgather makes up */
  size_t density_count;
  const char *plot;
  struct bench_simulation simulation;
};

struct bench_world {
  enum tagc_dtype dtype;
  int ranks;
  uint64_t n;                   /* elements of a shard */
  const char *name;             /* of the data */
  void *send[BENCH_MOST_RANKS]; /* ranks x n elements each */
};

enum { BENCH_PREPARE, BENCH_ENCODE, BENCH_DECODE, BENCH_PHASES };

/* The time of a codec for one rank, against memcpy of the foreign elements as fp32 in the same run. */
struct bench_speed {
  enum tagc_variant variant;
  bool has_prepare;
  double bytes;                           /* of that memcpy */
  double copy_ns, phase_ns[BENCH_PHASES]; /* medians; 0: not measured */
};

struct bench_result {
  const struct tagc_codec *codec;
  uint32_t keep_ppm;
  enum tagc_storage residual;
  bool carried; /* false: the codec has no layout for this shape; ignore all below */
  bool varies;  /* the payload depends on the sparsity */
  bool sketch;  /* it counts unrecovered values */
  double bits;
  double error_first, error; /* relative L2 error of the sum: in the first step, and summed over all steps */
  double worst, cosine;      /* of the sum over all steps; worst: the largest error relative to the exact sum's rms */
  double density;            /* values sent, relative to the foreign elements */
  double unrecovered;        /* estimated values, relative to those sent */
  uint64_t nonfinite;        /* elements without a finite exact sum: left out of the errors */
  struct bench_speed speed[TAGC_VARIANT_COUNT];
  size_t speeds;
};

/* -- options.c ---------------------------------------------------------------------------------------------- */

/* Fills *options. -1: go on; otherwise the exit status. */
int bench_parse(char **argv, struct bench_options *options);

/* Prints "tagc-bench: " and the error, and ends the program. */
__attribute__((format(printf, 2, 3), noreturn)) void bench_stop(int status, const char *message, ...);

const char *bench_data_name(enum bench_data data);
const char *bench_dtype_name(enum tagc_dtype dtype);
const char *bench_storage_name(enum tagc_storage storage);
const char *bench_residual_name(const struct bench_options *options);
const char *bench_rounding_name(const struct bench_options *options);

enum tagc_storage bench_storage(const struct bench_options *options, const struct tagc_codec *codec);

/* -- data.c ------------------------------------------------------------------------------------------------- */

/* Zeroed memory, aligned to 64 bytes. */
void *bench_need(size_t bytes);
void bench_release(const void *memory);

/* Ends the program if `bytes` in total would endanger the machine. */
void bench_check_memory(double bytes);

/* Makes up or reads the gradients. */
struct bench_world bench_world_new(const struct bench_options *options);
void bench_world_free(struct bench_world *world);

/* -- sim.c -------------------------------------------------------------------------------------------------- */

/* Runs a codec: measures errors and rate, with repeat > 0 also speed. */
struct bench_result bench_run(const struct bench_options *options, const struct bench_world *world,
                              const struct tagc_codec *codec, uint32_t keep_ppm, int repeat);

/* The median of times, which it sorts (median.c); of an even number the mean of the two in the middle. */
double bench_median(double *times, int count);

/* -- speed.c ------------------------------------------------------------------------------------------------ */

/* Times the phases of a rank whose message_in, sketch_in and exponents come from the others; its residual goes on. */
struct bench_speed bench_measure(const struct tagc_codec *codec, struct tagc_job *job, int repeat);

/* GB/s, and the share of memcpy's, of all phases from `from` to `to`. 0: not measured. */
double bench_gbs(const struct bench_speed *speed, int from, int to);
double bench_ratio(const struct bench_speed *speed, int from, int to);

/* -- gpu.c -------------------------------------------------------------------------------------------------- */

extern const char *const bench_gpu_names[]; /* in the enum's order, NULL at the end */

/* The chip's figures in words: "H100 SXM, 132 processors at 1.98 GHz, 3352 GB/s". */
const char *bench_gpu_describe(enum bench_gpu gpu);

/* A codec's work on it, as TAGC_CODEC=auto estimates it. False: the codec does not run on GPUs in this shape. */
bool bench_gpu_cost(enum bench_gpu gpu, const struct tagc_codec *codec, const struct tagc_shape *shape,
                    struct tagc_gpu_cost *out);

/* -- model.c ------------------------------------------------------------------------------------------------ */

/* How a simulated rank sends: as NCCL does; a codec's payloads to all others; or one rank per host after a sum. */
enum bench_way { BENCH_PLAIN, BENCH_FLAT, BENCH_TWO_LEVELS };

struct bench_sender {
  enum bench_way way;
  const struct tagc_codec *codec; /* NULL: plain */
  double encode, decode;          /* nanoseconds a byte of the foreign elements as fp32 */
};

/* The cost of a step's units, or of one. Infinite if the codec has no layout. */
struct bench_cost {
  double ns;
  double between; /* bytes that a host sends to others */
  bool sketch;    /* every unit has one: that of lhc is too small for shards of few values */
};

/* At measured speeds, or at those of the options; with --gpu its speeds do not count. */
struct bench_sender bench_sender_of(const struct bench_options *options, const struct bench_result *result,
                                    enum bench_way way);

struct bench_cost bench_unit_cost(const struct bench_options *options, const struct bench_sender *sender,
                                  uint64_t elements, int hosts);
struct bench_cost bench_step_cost(const struct bench_options *options, const struct bench_sender *sender, int hosts);

/* -- forecast.c, outlook.c ---------------------------------------------------------------------------- */

enum { BENCH_MOST_WAYS = 2 };

/* The compared senders: plain calls, and every codec in each of its ways. */
struct bench_forecast {
  const struct bench_options *o;
  int ways; /* 1: flat; 2: also two levels */
  struct bench_sender plain, by[BENCH_MOST_WAYS][BENCH_MOST_CODECS];
};

/* Prints the simulation as a table or as JSON, and draws it; `results` (one per codec of the options) hold speeds. */
void bench_simulate(const struct bench_options *options, const struct bench_result *results);

/* The next of 2, 4, 8 ... and the last size; 0 after it. */
int bench_next_size(const struct bench_simulation *simulation, int size);

/* Writes the picture: time and bytes of each sender relative to plain calls. */
void bench_outlook(const struct bench_forecast *forecast);

/* -- allgather.c ----------------------------------------------------------------------------------------------- */

/* Prints the measurements of the codecs for all-gathers, as a table or as JSON. */
void bench_allgather(const struct bench_options *options);

/* -- output ------------------------------------------------------------------------------------------------------- */

void bench_print_table(const struct bench_options *options, const struct bench_world *world,
                       const struct bench_result *results, size_t count);
void bench_print_json(const struct bench_options *options, const struct bench_world *world,
                      const struct bench_result *results, size_t count);

/* Begins the document's object with the program's version; and writes the facts about the gradients. */
struct tagc_json bench_json_begin(void);
void bench_json_world(struct tagc_json *j, const struct bench_world *world);
void bench_json_end(struct tagc_json *j);

/* Writes the picture: a curve per codec whose payload depends on the sparsity, a point for each other. */
void bench_plot(const struct bench_options *options, const struct bench_world *world,
                const struct bench_result *results, size_t count);

#endif
