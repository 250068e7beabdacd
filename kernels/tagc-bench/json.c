/* SPDX-License-Identifier: BSD-3-Clause
 * What tagc-bench prints for programs: one JSON document.
 */
#include <math.h>

#include "kernels/tagc-bench/bench.h"

void bench_json_number(FILE *out, double value)
{
  if (isfinite(value))
    fprintf(out, "%.9g", value);
  else
    fputs("null", out);
}

static void member(const char *name, double value)
{
  printf(", \"%s\": ", name);
  bench_json_number(stdout, value);
}

/* File names may hold anything. What is not ASCII is not UTF-8 for certain. */
void bench_json_text(const char *value)
{
  putchar('"');
  for (const unsigned char *c = (const unsigned char *)value; *c; c++)
    if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\')
      printf("\\u%04x", *c);
    else
      putchar(*c);
  putchar('"');
}

static void print_speeds(const struct bench_result *r)
{
  static const char *const phases[BENCH_PHASES] = { "prepare_ms", "encode_ms", "decode_ms" };
  printf(", \"speeds\": [");
  for (size_t i = 0; i < r->speeds; i++) {
    const struct bench_speed *s = &r->speed[i];
    printf("%s{\"variant\": \"%s\"", i ? ", " : "", tagc_variant_name(s->variant));
    member("memcpy_gbs", s->bytes / s->copy_ns);
    member("encode_gbs", bench_gbs(s, BENCH_PREPARE, BENCH_ENCODE));
    member("encode_ratio", bench_ratio(s, BENCH_PREPARE, BENCH_ENCODE));
    member("decode_gbs", bench_gbs(s, BENCH_DECODE, BENCH_DECODE));
    member("decode_ratio", bench_ratio(s, BENCH_DECODE, BENCH_DECODE));
    member("memcpy_ms", 1e-6 * s->copy_ns);
    for (int phase = 0; phase < BENCH_PHASES; phase++)
      if (phase != BENCH_PREPARE || s->has_prepare)
        member(phases[phase], 1e-6 * s->phase_ns[phase]);
    putchar('}');
  }
  putchar(']');
}

static void print_result(const struct bench_result *r)
{
  printf("{\"codec\": \"%s\", \"carried\": %s", r->codec->name, r->carried ? "true" : "false");
  if (r->carried) {
    printf(", \"residual\": \"%s\"", bench_storage_name(r->residual));
    member("sparsity", 1 - 1e-6 * r->keep_ppm);
    member("bits", r->bits);
    member("error_first", r->error_first);
    member("error", r->error);
    member("worst", r->worst);
    member("cosine", r->cosine);
    member("density", r->density);
    if (r->sketch)
      member("unpeeled_percent", 100 * r->unpeeled);
    member("nonfinite", (double)r->nonfinite);
    print_speeds(r);
  }
  putchar('}');
}

void bench_print_json(const struct bench_options *o, const struct bench_world *w, const struct bench_result *results,
                      size_t count)
{
  printf("{\"tagc_bench\": \"%s\", \"data\": ", PACKAGE_VERSION);
  bench_json_text(w->name);
  printf(", \"dtype\": \"%s\", \"ranks\": %d, \"elements\": %llu", bench_dtype_name(w->dtype), w->ranks,
         (unsigned long long)w->n);
  printf(", \"steps\": %d, \"seed\": %llu, \"rounding\": \"%s\",\n \"results\": [", o->steps, (unsigned long long)o->seed,
         bench_rounding_name(o));
  for (size_t i = 0; i < count; i++) {
    printf("%s\n  ", i ? "," : "");
    print_result(&results[i]);
  }
  printf("\n ]}\n");
}
