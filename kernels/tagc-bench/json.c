/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-bench for programs: one JSON document.
 */
#include "kernels/tagc-bench/bench.h"

static void put_speeds(struct tagc_json *j, const struct bench_result *r) {
  static const char *const phases[BENCH_PHASES] = {"prepare_ms", "encode_ms", "decode_ms"};
  for (size_t i = tagc_json_list(j, "speeds"); tagc_json_item(j, i, r->speeds); i++) {
    const struct bench_speed *s = &r->speed[i];
    tagc_json_text(j, "variant", tagc_variant_name(s->variant));
    tagc_json_real(j, "memcpy_gbs", s->bytes / s->copy_ns);
    tagc_json_real(j, "encode_gbs", bench_gbs(s, BENCH_PREPARE, BENCH_ENCODE));
    tagc_json_real(j, "encode_ratio", bench_ratio(s, BENCH_PREPARE, BENCH_ENCODE));
    tagc_json_real(j, "decode_gbs", bench_gbs(s, BENCH_DECODE, BENCH_DECODE));
    tagc_json_real(j, "decode_ratio", bench_ratio(s, BENCH_DECODE, BENCH_DECODE));
    tagc_json_real(j, "memcpy_ms", 1e-6 * s->copy_ns);
    for (int phase = 0; phase < BENCH_PHASES; phase++)
      if (phase != BENCH_PREPARE || s->has_prepare)
        tagc_json_real(j, phases[phase], 1e-6 * s->phase_ns[phase]);
  }
}

static void put_result(struct tagc_json *j, const struct bench_result *r) {
  tagc_json_line(j, 2);
  tagc_json_open(j, NULL, '{');
  tagc_json_text(j, "codec", r->codec->name);
  tagc_json_truth(j, "carried", r->carried);
  if (r->carried) {
    tagc_json_text(j, "residual", bench_storage_name(r->residual));
    tagc_json_real(j, "sparsity", 1 - 1e-6 * r->keep_ppm);
    tagc_json_real(j, "bits", r->bits);
    tagc_json_real(j, "error_first", r->error_first);
    tagc_json_real(j, "error", r->error);
    tagc_json_real(j, "worst", r->worst);
    tagc_json_real(j, "cosine", r->cosine);
    tagc_json_real(j, "density", r->density);
    if (r->sketch)
      tagc_json_real(j, "unrecovered_percent", 100 * r->unrecovered);
    tagc_json_real(j, "nonfinite", (double)r->nonfinite);
    put_speeds(j, r);
  }
  tagc_json_close(j, '}');
}

struct tagc_json bench_json_begin(void) {
  struct tagc_json j = {.out = stdout, .spaced = true};
  tagc_json_open(&j, NULL, '{');
  tagc_json_text(&j, "tagc_bench", PACKAGE_VERSION);
  return j;
}

void bench_json_end(struct tagc_json *j) {
  tagc_json_close(j, '}');
  putchar('\n');
}

void bench_json_world(struct tagc_json *j, const struct bench_world *w) {
  tagc_json_text(j, "data", w->name);
  tagc_json_text(j, "dtype", bench_dtype_name(w->dtype));
  tagc_json_number(j, "ranks", w->ranks);
  tagc_json_count(j, "elements", w->n);
}

void bench_print_json(const struct bench_options *o, const struct bench_world *w, const struct bench_result *results,
                      size_t count) {
  struct tagc_json j = bench_json_begin();
  bench_json_world(&j, w);
  tagc_json_number(&j, "steps", o->steps);
  tagc_json_count(&j, "seed", o->seed);
  tagc_json_text(&j, "rounding", bench_rounding_name(o));
  tagc_json_line(&j, 1);
  tagc_json_open(&j, "results", '[');
  for (size_t i = 0; i < count; i++)
    put_result(&j, &results[i]);
  tagc_json_line(&j, 1);
  tagc_json_close(&j, ']');
  bench_json_end(&j);
}
