/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench --simulate: what a training step's reduce-scatters cost on a network, plain and with each codec.
 *
 * Model    A unit of E elements on W ranks has shards of n = ceil(E / W). The wire is that of kernels/cost.h; encode and
 *          decode pass once over the W-1 foreign shards. Nothing overlaps: encode, exchange and decode of a call follow
 *          each other, and calls do, too. A step is the sum over its units.
 */
#include <math.h>

#include "kernels/bench.h"
#include "kernels/residual.h"

struct bench_pace bench_pace_of(const struct bench_options *o, const struct bench_result *r)
{
  const struct bench_simulation *s = &o->simulation;
  const double encode = s->encode_gbs > 0 ? s->encode_gbs : bench_gbs(&r->speed[0], BENCH_PREPARE, BENCH_ENCODE);
  const double decode = s->decode_gbs > 0 ? s->decode_gbs : bench_gbs(&r->speed[0], BENCH_DECODE, BENCH_DECODE);
  return (struct bench_pace){ encode > 0 ? 1 / encode : 0, decode > 0 ? 1 / decode : 0 };
}

static struct tagc_link link_of(const struct bench_simulation *s)
{
  return (struct tagc_link){ .latency_ns = 1e3 * s->alpha_us, .ns_per_byte = 8 / s->beta_gbit,
                             .message_ns = 1e3 * s->message_us };
}

double bench_unit_ns(const struct bench_options *o, const struct tagc_codec *codec, const struct bench_pace *pace,
                     uint64_t elements, int ranks)
{
  const struct tagc_link link = link_of(&o->simulation);
  struct tagc_layout layout;
  struct tagc_shape shape = {
    .n = (elements + (uint64_t)ranks - 1) / (uint64_t)ranks, .nranks = ranks, .dtype = o->dtype, .keep_ppm = o->keep_ppm,
    .residual = codec && codec->needs_residual ? TAGC_STORAGE_FP32 : TAGC_STORAGE_NONE,
  };
  if (!codec)
    return tagc_plain_wire_ns(&shape, &link);
  if (o->residual_given)
    shape.residual = o->residual;
  if ((codec->needs_residual && shape.residual == TAGC_STORAGE_NONE) || !codec->layout(&shape, &layout))
    return INFINITY;
  const double foreign = (double)(ranks - 1) * (double)shape.n * sizeof(float);
  return tagc_layout_wire_ns(&shape, &layout, &link, &link) + foreign * (pace->encode + pace->decode);
}

double bench_step_ns(const struct bench_options *o, const struct tagc_codec *codec, const struct bench_pace *pace,
                     int ranks)
{
  double ns = 0;
  for (size_t u = 0; u < o->simulation.unit_count; u++)
    ns += (double)o->simulation.unit[u].count * bench_unit_ns(o, codec, pace, o->simulation.unit[u].elements, ranks);
  return ns;
}

/* 2, 4, 8 ... and the last one. */
static int next_ranks(const struct bench_simulation *s, int ranks)
{
  if (ranks >= s->most_ranks)
    return 0;
  return 2 * ranks < s->most_ranks ? 2 * ranks : s->most_ranks;
}

/* -- where one way of sending overtakes another ------------------------------------------------------------------- */

struct contest {
  const struct bench_options *o;
  const struct tagc_codec *codec, *against;    /* NULL: plain */
  struct bench_pace pace, its_pace;
};

static bool wins(const struct contest *c, int ranks)
{
  return bench_step_ns(c->o, c->codec, &c->pace, ranks) < bench_step_ns(c->o, c->against, &c->its_pace, ranks);
}

/* Writes every range of ranks in which it wins, for people or as JSON; returns their number. */
static int print_ranges(const struct contest *c, bool json)
{
  const struct bench_simulation *s = &c->o->simulation;
  int from = 0, count = 0;
  for (int ranks = s->least_ranks; ranks <= s->most_ranks + 1; ranks++) {
    const bool now = ranks <= s->most_ranks && wins(c, ranks);
    if (now && !from)
      from = ranks;
    if (!now && from) {
      if (count++)
        fputs(", ", stdout);
      printf(json ? "[%d, %d]" : "%d to %d", from, ranks - 1);
      from = 0;
    }
  }
  return count;
}

static bool adds(const struct tagc_codec *codec)
{
  struct tagc_layout layout;
  struct tagc_shape shape = { .n = 1 << 20, .nranks = 2, .keep_ppm = 50000, .residual = TAGC_STORAGE_FP32 };
  return codec->layout(&shape, &layout) && layout.sketch_count > 0;
}

/* All to all against the network that adds: each codec against the first that has a sketch. */
static void print_crossovers(const struct bench_options *o, const struct bench_pace *pace)
{
  size_t sum = 0;
  while (sum < o->codec_count && !adds(o->codec[sum]))
    sum++;
  printf("\nRanks with a shorter step than\n");
  for (size_t i = 0; i < o->codec_count; i++) {
    const struct contest plain = { .o = o, .codec = o->codec[i], .pace = pace[i] };
    printf("  plain%*s %-8s ", 6, "", o->codec[i]->name);
    puts(print_ranges(&plain, false) ? "" : "none");
  }
  for (size_t i = 0; i < o->codec_count && sum < o->codec_count; i++) {
    if (i == sum || adds(o->codec[i]))
      continue;
    const struct contest contest = { o, o->codec[i], o->codec[sum], pace[i], pace[sum] };
    printf("  %-8s %*s %-8s ", o->codec[sum]->name, 2, "", o->codec[i]->name);
    puts(print_ranges(&contest, false) ? "" : "none");
  }
}

/* -- output ------------------------------------------------------------------------------------------------------- */

static void print_size(char *text, size_t size, const struct bench_unit *unit)
{
  const uint64_t e = unit->elements, k = UINT64_C(1) << 10, m = UINT64_C(1) << 20;
  snprintf(text, size, "%llux%llu%s", (unsigned long long)unit->count,
           (unsigned long long)(e % m == 0 ? e / m : e % k == 0 ? e / k : e), e % m == 0 ? "M" : e % k == 0 ? "k" : "");
}

static void print_ms(double ns)
{
  if (isfinite(ns))
    printf(" %8.*f", ns < 1e7 ? 3 : ns < 1e9 ? 1 : 0, 1e-6 * ns);
  else
    printf(" %8s", "-");
}

static void print_table(const struct bench_options *o, const struct bench_pace *pace)
{
  const struct bench_simulation *s = &o->simulation;
  printf("Milliseconds of the reduce-scatters of a step, and of one unit of each kind; nothing overlaps\n"
         "%s, %g us a step of a ring, %g Gbit/s, %g us a message, sparsity %.4g\n\n", bench_dtype_name(o->dtype),
         s->alpha_us, s->beta_gbit, s->message_us, 1 - 1e-6 * o->keep_ppm);
  printf("%5s %-10s %8s", "ranks", "", "plain");
  for (size_t i = 0; i < o->codec_count; i++)
    printf(" %8s", o->codec[i]->name);
  putchar('\n');
  for (int ranks = s->least_ranks; ranks; ranks = next_ranks(s, ranks)) {
    printf("%5d %-10s", ranks, "step");
    print_ms(bench_step_ns(o, NULL, NULL, ranks));
    for (size_t i = 0; i < o->codec_count; i++)
      print_ms(bench_step_ns(o, o->codec[i], &pace[i], ranks));
    putchar('\n');
    for (size_t u = 0; u < s->unit_count; u++) {
      char name[48];
      print_size(name, sizeof name, &s->unit[u]);
      printf("%5s %-10s", "", name);
      print_ms(bench_unit_ns(o, NULL, NULL, s->unit[u].elements, ranks));
      for (size_t i = 0; i < o->codec_count; i++)
        print_ms(bench_unit_ns(o, o->codec[i], &pace[i], s->unit[u].elements, ranks));
      putchar('\n');
    }
  }
  print_crossovers(o, pace);
}

static void json_times(const struct bench_options *o, const struct tagc_codec *codec, const struct bench_pace *pace,
                       int ranks)
{
  printf("\"%s\": {\"step_ms\": ", codec ? codec->name : "plain");
  bench_json_number(stdout, 1e-6 * bench_step_ns(o, codec, pace, ranks));
  printf(", \"unit_ms\": [");
  for (size_t u = 0; u < o->simulation.unit_count; u++) {
    fputs(u ? ", " : "", stdout);
    bench_json_number(stdout, 1e-6 * bench_unit_ns(o, codec, pace, o->simulation.unit[u].elements, ranks));
  }
  fputs("]}", stdout);
}

static void print_json(const struct bench_options *o, const struct bench_pace *pace)
{
  const struct bench_simulation *s = &o->simulation;
  printf("{\"tagc_bench\": \"%s\", \"alpha_us\": %.9g, \"beta_gbit\": %.9g, \"message_us\": %.9g, \"dtype\": \"%s\",\n"
         " \"simulation\": [", PACKAGE_VERSION, s->alpha_us, s->beta_gbit, s->message_us, bench_dtype_name(o->dtype));
  for (int ranks = s->least_ranks; ranks; ranks = next_ranks(s, ranks)) {
    printf("%s\n  {\"ranks\": %d, ", ranks > s->least_ranks ? "," : "", ranks);
    json_times(o, NULL, NULL, ranks);
    for (size_t i = 0; i < o->codec_count; i++) {
      fputs(", ", stdout);
      json_times(o, o->codec[i], &pace[i], ranks);
    }
    putchar('}');
  }
  printf("\n ],\n \"faster_than_plain\": {");
  for (size_t i = 0; i < o->codec_count; i++) {
    const struct contest plain = { .o = o, .codec = o->codec[i], .pace = pace[i] };
    printf("%s\"%s\": [", i ? ", " : "", o->codec[i]->name);
    print_ranges(&plain, true);
    putchar(']');
  }
  printf("}}\n");
}

void bench_simulate(const struct bench_options *o, const struct bench_result *results)
{
  struct bench_pace pace[BENCH_MOST_CODECS];
  for (size_t i = 0; i < o->codec_count; i++)
    pace[i] = bench_pace_of(o, &results[i]);
  if (o->json)
    print_json(o, pace);
  else
    print_table(o, pace);
}
