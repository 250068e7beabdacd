/* SPDX-License-Identifier: BSD-3-Clause
 * The output of tagc-bench --simulate: the times of model.c, and where one way of sending overtakes another. With
 * ranks= every rank is its own host, and there is one level.
 */
#include <math.h>

#include "kernels/tagc-bench/bench.h"

static const char *const way_keys[BENCH_MOST_WAYS] = {"flat", "two_levels"};

static struct bench_forecast forecast_of(const struct bench_options *o, const struct bench_result *results) {
  static const enum bench_way ways[BENCH_MOST_WAYS] = {BENCH_FLAT, BENCH_TWO_LEVELS};
  struct bench_forecast f = {.o = o, .ways = o->simulation.by_host ? 2 : 1, .plain = {.way = BENCH_PLAIN}};
  for (int way = 0; way < f.ways; way++)
    for (size_t i = 0; i < o->codec_count; i++)
      f.by[way][i] = bench_sender_of(o, &results[i], ways[way]);
  return f;
}

int bench_next_size(const struct bench_simulation *s, int size) {
  if (size >= s->most)
    return 0;
  return 2 * size < s->most ? 2 * size : s->most;
}

/* -- where one way of sending overtakes another ------------------------------------------------------------------- */

/* The first range of sizes from *from on where `one` has a shorter step than `other`. False: none. */
static bool find_forecast_range(const struct bench_options *o, const struct bench_sender *one,
                                const struct bench_sender *other, int *from, int *to) {
  const struct bench_simulation *s = &o->simulation;
  bool inside = false;
  for (int size = *from; size <= s->most; size++) {
    const bool now = bench_step_cost(o, one, size).ns < bench_step_cost(o, other, size).ns;
    if (inside && !now)
      break;
    if (now) {
      *from = inside ? *from : size;
      *to = size;
      inside = true;
    }
  }
  return inside;
}

static void print_name(const struct bench_forecast *f, const struct bench_sender *sender) {
  char text[40];
  const char *const codec = sender->codec ? sender->codec->name : "plain";
  if (f->ways > 1 && sender->codec)
    snprintf(text, sizeof text, "%s, %s", codec, sender->way == BENCH_FLAT ? "flat" : "two");
  else
    snprintf(text, sizeof text, "%s", codec);
  printf(" %-*s", f->ways > 1 ? 13 : 10, text);
}

static void print_contest(const struct bench_forecast *f, const struct bench_sender *other,
                          const struct bench_sender *one) {
  putchar(' ');
  print_name(f, other);
  print_name(f, one);
  putchar(' ');
  int from = f->o->simulation.least, count = 0;
  for (int to; find_forecast_range(f->o, one, other, &from, &to); from = to + 1)
    printf("%s%d to %d", count++ ? ", " : "", from, to);
  puts(count ? "" : "none");
}

static bool adds(const struct tagc_codec *codec) {
  struct tagc_layout layout;
  struct tagc_shape shape = {.n = 1 << 20, .nranks = 2, .keep_ppm = 50000, .residual = TAGC_STORAGE_FP32};
  return codec->layout(&shape, &layout) && layout.sketch_count > 0;
}

/* Compares each codec with plain calls; two levels with one; and, in the last way, each codec without a sketch with the
 * first that has one: all-to-all against a network that adds. */
static void print_crossovers(const struct bench_forecast *f) {
  const struct bench_options *o = f->o;
  const struct bench_sender *const last = f->by[f->ways - 1];
  size_t sum = 0;
  while (sum < o->codec_count && !adds(o->codec[sum]))
    sum++;
  printf("\n%s with a shorter step than\n", o->simulation.by_host ? "Hosts" : "Ranks");
  for (int way = 0; way < f->ways; way++)
    for (size_t i = 0; i < o->codec_count; i++)
      print_contest(f, &f->plain, &f->by[way][i]);
  for (size_t i = 0; i < o->codec_count && f->ways > 1; i++)
    print_contest(f, &f->by[0][i], &last[i]);
  for (size_t i = 0; i < o->codec_count && sum < o->codec_count; i++)
    if (i != sum && !adds(o->codec[i]))
      print_contest(f, &last[sum], &last[i]);
}

/* -- the table ---------------------------------------------------------------------------------------------------- */

static void print_size(char *text, size_t size, const struct bench_unit *unit) {
  const uint64_t e = unit->elements, k = UINT64_C(1) << 10, m = UINT64_C(1) << 20;
  snprintf(text, size, "%llux%llu%s", (unsigned long long)unit->count,
           (unsigned long long)(e % m == 0   ? e / m
                                : e % k == 0 ? e / k
                                             : e),
           e % m == 0   ? "M"
           : e % k == 0 ? "k"
                        : "");
}

enum line { STEP, UNIT, BETWEEN };

/* Prints a number, with a star if a codec of sketches sends none. Returns whether it is so. */
static bool print_forecast_number(const struct bench_forecast *f, enum line line, size_t unit,
                                  const struct bench_sender *sender, int size) {
  const struct bench_cost cost = line == UNIT
                                   ? bench_unit_cost(f->o, sender, f->o->simulation.unit[unit].elements, size)
                                   : bench_step_cost(f->o, sender, size);
  const double value = 1e-6 * (line == BETWEEN ? cost.between : cost.ns);
  const bool starred = isfinite(value) && sender->codec && adds(sender->codec) && !cost.sketch;
  char text[32] = "-";
  if (isfinite(value))
    snprintf(text, sizeof text, "%.*f%s", value < 10 ? 3 : value < 1000 ? 1 : 0, value, starred ? "*" : "");
  printf(" %7s", text);
  return starred;
}

/* Prints a line per way; the first also has the values of the size, or of no way. Returns whether one has a star. */
static bool print_forecast_lines(const struct bench_forecast *f, enum line line, size_t unit, int size) {
  char name[48];
  bool starred = false;
  print_size(name, sizeof name, &f->o->simulation.unit[unit]);
  for (int way = 0; way < f->ways; way++) {
    if (line == STEP && way == 0)
      printf("%4d ", size);
    else
      printf("%4s ", "");
    printf("%-10s", way ? "" : line == STEP ? "step" : line == UNIT ? name : "MB between");
    if (f->ways > 1)
      printf(" %-4s", way ? "two" : "flat");
    if (way == 0)
      print_forecast_number(f, line, unit, &f->plain, size);
    else
      printf(" %7s", "");
    for (size_t i = 0; i < f->o->codec_count; i++)
      starred |= print_forecast_number(f, line, unit, &f->by[way][i], size);
    putchar('\n');
  }
  return starred;
}

static void print_forecast_head(const struct bench_forecast *f) {
  const struct bench_simulation *s = &f->o->simulation;
  printf("Milliseconds of the reduce-scatters of a step, and of one unit of each kind; ");
  printf(s->depth > 1 ? "calls in %d chunks, which overlap\n" : "nothing overlaps\n", s->depth);
  if (s->by_host)
    printf("flat: messages to all ranks; two: a sum inside each host, then messages to one rank a host\n"
           "MB between: what a host sends to others in a step; -: the codec cannot carry the shape\n"
           "%d ranks a host, inside %g us and %g Gbit/s a rank, between %g us and %g Gbit/s a host\n",
           s->local, s->alpha_inside_us, s->beta_inside_gbit, s->alpha_us, s->beta_gbit);
  else
    printf("%g us a step of a ring, %g Gbit/s; -: the codec cannot carry the shape\n", s->alpha_us, s->beta_gbit);
  if (s->gpu != BENCH_NO_GPU)
    printf("forecast, not measured: codecs on a GPU (%s)\n", bench_gpu_describe(s->gpu));
  printf("%s, %g us a message, sparsity %.4g\n\n", bench_dtype_name(f->o->dtype), s->message_us,
         1 - 1e-6 * f->o->keep_ppm);
  printf("%5s%-10s%*s %7s", s->by_host ? "hosts" : "ranks", "", f->ways > 1 ? 5 : 0, "", "plain");
  for (size_t i = 0; i < f->o->codec_count; i++)
    printf(" %7s", f->o->codec[i]->name);
  putchar('\n');
}

static void print_forecast_table(const struct bench_forecast *f) {
  const struct bench_simulation *s = &f->o->simulation;
  bool starred = false;
  print_forecast_head(f);
  for (int size = s->least; size; size = bench_next_size(s, size)) {
    starred |= print_forecast_lines(f, STEP, 0, size);
    for (size_t u = 0; u < s->unit_count; u++)
      starred |= print_forecast_lines(f, UNIT, u, size);
    if (s->by_host)
      starred |= print_forecast_lines(f, BETWEEN, 0, size);
  }
  if (starred)
    puts("*: shards, or some of them, have too few values for a sketch; these go straight to their owners");
  print_crossovers(f);
}

/* -- JSON --------------------------------------------------------------------------------------------------------- */

static void put_cost(struct tagc_json *j, const struct bench_forecast *f, const char *name,
                     const struct bench_sender *sender, int size) {
  const struct bench_simulation *s = &f->o->simulation;
  const struct bench_cost step = bench_step_cost(f->o, sender, size);
  tagc_json_open(j, name, '{');
  tagc_json_real(j, "step_ms", 1e-6 * step.ns);
  tagc_json_open(j, "unit_ms", '[');
  for (size_t u = 0; u < s->unit_count; u++)
    tagc_json_real(j, NULL, 1e-6 * bench_unit_cost(f->o, sender, s->unit[u].elements, size).ns);
  tagc_json_close(j, ']');
  if (s->by_host)
    tagc_json_real(j, "between_bytes", step.between);
  tagc_json_close(j, '}');
}

static void put_size(struct tagc_json *j, const struct bench_forecast *f, int size) {
  const struct bench_simulation *s = &f->o->simulation;
  tagc_json_line(j, 2);
  tagc_json_open(j, NULL, '{');
  if (s->by_host)
    tagc_json_number(j, "hosts", size);
  tagc_json_number(j, "ranks", size * s->local);
  put_cost(j, f, "plain", &f->plain, size);
  for (size_t i = 0; i < f->o->codec_count; i++) {
    const char *const codec = f->o->codec[i]->name;
    if (f->ways > 1)
      tagc_json_open(j, codec, '{');
    for (int way = 0; way < f->ways; way++)
      put_cost(j, f, f->ways > 1 ? way_keys[way] : codec, &f->by[way][i], size);
    if (f->ways > 1)
      tagc_json_close(j, '}');
  }
  tagc_json_close(j, '}');
}

static void put_ranges(struct tagc_json *j, const char *name, const struct bench_forecast *f,
                       const struct bench_sender *one, const struct bench_sender *other) {
  tagc_json_open(j, name, '[');
  for (int from = f->o->simulation.least, to; find_forecast_range(f->o, one, other, &from, &to); from = to + 1) {
    tagc_json_open(j, NULL, '[');
    tagc_json_number(j, NULL, from);
    tagc_json_number(j, NULL, to);
    tagc_json_close(j, ']');
  }
  tagc_json_close(j, ']');
}

static void put_crossovers(struct tagc_json *j, const struct bench_forecast *f) {
  const struct bench_options *o = f->o;
  tagc_json_line(j, 1);
  tagc_json_open(j, "faster_than_plain", '{');
  for (size_t i = 0; i < o->codec_count; i++) {
    if (f->ways > 1)
      tagc_json_open(j, o->codec[i]->name, '{');
    for (int way = 0; way < f->ways; way++)
      put_ranges(j, f->ways > 1 ? way_keys[way] : o->codec[i]->name, f, &f->by[way][i], &f->plain);
    if (f->ways > 1)
      tagc_json_close(j, '}');
  }
  tagc_json_close(j, '}');
  if (f->ways == 1)
    return;
  tagc_json_line(j, 1);
  tagc_json_open(j, "two_levels_faster_than_flat", '{');
  for (size_t i = 0; i < o->codec_count; i++)
    put_ranges(j, o->codec[i]->name, f, &f->by[1][i], &f->by[0][i]);
  tagc_json_close(j, '}');
}

static void print_forecast_json(const struct bench_forecast *f) {
  const struct bench_simulation *s = &f->o->simulation;
  struct tagc_json j = bench_json_begin();
  tagc_json_real(&j, "alpha_us", s->alpha_us);
  tagc_json_real(&j, "beta_gbit", s->beta_gbit);
  tagc_json_real(&j, "message_us", s->message_us);
  tagc_json_text(&j, "dtype", bench_dtype_name(f->o->dtype));
  if (s->gpu != BENCH_NO_GPU)
    tagc_json_text(&j, "gpu_forecast", bench_gpu_describe(s->gpu));
  tagc_json_line(&j, 1);
  if (s->by_host) {
    tagc_json_number(&j, "local", s->local);
    tagc_json_real(&j, "alpha_inside_us", s->alpha_inside_us);
    tagc_json_real(&j, "beta_inside_gbit", s->beta_inside_gbit);
    tagc_json_line(&j, 1);
  }
  tagc_json_open(&j, "simulation", '[');
  for (int size = s->least; size; size = bench_next_size(s, size))
    put_size(&j, f, size);
  tagc_json_line(&j, 1);
  tagc_json_close(&j, ']');
  put_crossovers(&j, f);
  bench_json_end(&j);
}

void bench_simulate(const struct bench_options *o, const struct bench_result *results) {
  const struct bench_forecast f = forecast_of(o, results);
  if (o->json)
    print_forecast_json(&f);
  else
    print_forecast_table(&f);
  if (o->plot)
    bench_outlook(&f);
}
