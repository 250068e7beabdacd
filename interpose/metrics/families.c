/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/metrics/families.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "interpose/nccl/process.h"
#include "interpose/stats/exit_report.h"

/* A place in a scope. */
struct place {
  const struct tagc_figures_view *view;
  const struct tagc_figures *figures; /* of the communicator, and from here on: */
  const struct tagc_ledger *ledger;
  struct tagc_ledger_row totals[2]; /* of its reductions, and of its all-gathers */
  bool gathers, between;
  enum tagc_ab_side side;
  enum tagc_reason reason;
  int phase;
  const struct tagc_ledger_row *row;
  size_t slot;
};

/* ---- values of metrics.def --------------------------------------------------------------------------------------- */

static const struct tagc_ledger_row *total_of_kind(const struct place *at) { return &at->totals[at->gathers]; }

static const struct tagc_traffic *sent_of(const struct place *at) {
  return at->gathers ? &at->ledger->allgather_sent : &at->ledger->sent;
}

static const struct tagc_traffic *plain_of(const struct place *at) {
  return at->gathers ? &at->ledger->allgather_plain : &at->ledger->plain;
}

static const uint64_t *reasons_of(const struct place *at) {
  return at->gathers ? at->ledger->allgather_reasons : at->ledger->reasons;
}

static const struct tagc_ledger_times *times_of(const struct place *at) {
  return at->gathers ? &at->ledger->allgather_times : &at->ledger->times;
}

static double traffic_bytes(const struct place *at, const struct tagc_traffic *traffic) {
  return (double)(at->between ? traffic->between : traffic->inside);
}

/* As in the log and the table at exit. */
static double sent_ratio(const struct place *at) {
  const uint64_t plain = tagc_report_wire(at->ledger, plain_of(at));
  return plain ? tagc_report_ratio(tagc_report_wire(at->ledger, sent_of(at)), plain) : __builtin_nan("");
}

static double nonfinite_values(const struct place *at, const struct tagc_ledger_row *row) {
  return (double)(at->gathers ? row->allgather.stats.nonfinite : row->stats.nonfinite);
}

enum { ENCODE, EXCHANGE, DECODE, HIDDEN, PHASES };
static const char *const phase_names[PHASES] = {"encode", "exchange", "decode", "hidden"};

static double phase_ms(const struct tagc_ledger_times *times, int phase) {
  switch (phase) {
  case ENCODE: return times->encode_ms;
  case EXCHANGE: return times->exchange_ms;
  case DECODE: return times->decode_ms;
  default: return times->hidden_ms;
  }
}

static double phase_seconds(const struct place *at) { return 1e-3 * phase_ms(times_of(at), at->phase); }

/* Plain calls that were timed, those that sent what codecs keep, and compressed ones less what another part of the call
 * hid. */
static struct tagc_ledger_sum exposed(const struct place *at) {
  const struct tagc_ledger *ledger = at->ledger;
  const struct tagc_ledger_times *const kinds[] = {&ledger->times, &ledger->allgather_times,
                                                   ledger->broadcasts ? &ledger->broadcasts->times : NULL};
  struct tagc_ledger_sum sum = ledger->plain_calls;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds && kinds[i]; i++) {
    sum.ms += kinds[i]->encode_ms + kinds[i]->exchange_ms + kinds[i]->decode_ms - kinds[i]->hidden_ms;
    sum.ms += kinds[i]->flush_ms;
    sum.count += kinds[i]->calls + kinds[i]->flushes;
  }
  return sum;
}

static double layer_error(const struct place *at) {
  const struct tagc_allgather_stats *gathered = &at->row->allgather.stats;
  if (!at->row->compressed)
    return __builtin_nan("");
  if (at->gathers && at->row->allgather.exact)
    return 0;
  if (at->gathers)
    return tagc_allgather_error(gathered);
  return at->row->error_known ? at->row->error : __builtin_nan("");
}

static double layer_unrecovered(const struct place *at) {
  return at->gathers ? __builtin_nan("") : (double)at->row->stats.unrecovered;
}

static double layer_residual(const struct place *at) {
  return at->gathers || !at->row->compressed ? __builtin_nan("") : __builtin_sqrt(at->row->stats.residual_norm2);
}

#define VALUE(name, expression) \
  static double value_of_##name(const struct place *at) { return (double)(expression); }
#define GAUGE(scope, name, value, help) VALUE(name, value)
#define COUNTER(scope, name, value, help) VALUE(name, value)
#define SUMMARY(scope, name, sum, count, help) VALUE(name, sum) VALUE(name##_count, count)
#include "interpose/metrics/metrics.def"

/* ---- labels ------------------------------------------------------------------------------------------------------ */

__attribute__((format(printf, 3, 4))) static void label(struct tagc_metrics_sample *sample, const char *name,
                                                        const char *format, ...) {
  struct tagc_metrics_label *next = &sample->labels[sample->label_count++];
  va_list arguments;
  next->name = name;
  va_start(arguments, format);
  vsnprintf(next->value, sizeof next->value, format, arguments);
  va_end(arguments);
}

static const char *collective_name(const struct place *at) {
  return at->gathers ? "all_gather" : at->ledger->all_reduces ? "all_reduce" : "reduce_scatter";
}

static void label_build_info(const struct place *at, struct tagc_metrics_sample *sample) {
  static const char *const modes[] = {"off", "observe", "compress", "ab"};
  const struct tagc_options *options = tagc_library_options();
  const struct tagc_allgather_codec *allgather = tagc_library_allgather_codec();
  (void)at;
  label(sample, "version", "%s", PACKAGE_VERSION);
  label(sample, "mode", "%s", modes[options->mode]);
  label(sample, "codec", "%s", options->codec);
  label(sample, "allgather", "%s", allgather ? allgather->name : "off");
}

static void label_communicator_info(const struct place *at, struct tagc_metrics_sample *sample) {
  const struct tagc_ledger *ledger = at->ledger;
  label(sample, "ranks", "%d", ledger->nranks);
  label(sample, "communicator_rank", "%d", ledger->rank);
  label(sample, "hosts", "%d", ledger->hosts.hosts);
  label(sample, "levels", "%d", ledger->two_levels ? 2 : 1);
  label(sample, "taken_for", "%s", ledger->taken_for ? ledger->taken_for : "");
  label(sample, "layers", "%s", ledger->layers);
}

static void label_layer_info(const struct place *at, struct tagc_metrics_sample *sample) {
  label(sample, "codec", "%s", at->row->codec ? at->row->codec : "plain");
  label(sample, "kind", "%s", tagc_layer_kind_words(at->row->kind));
}

/* ---- scopes ------------------------------------------------------------------------------------------------------ */

struct family {
  struct tagc_metrics_family what;
  double (*value)(const struct place *at);
  double (*count)(const struct place *at);                                    /* of a summary */
  void (*labels)(const struct place *at, struct tagc_metrics_sample *sample); /* of an INFO */
};

/* A sample of the family there, which so far has the labels of its scope. */
static void write_sample(struct tagc_metrics_text *text, const struct family *family, const struct place *at,
                         struct tagc_metrics_sample sample) {
  if (family->labels)
    family->labels(at, &sample);
  sample.value = family->value ? family->value(at) : 1;
  sample.count = family->count ? family->count(at) : 0;
  tagc_metrics_add(text, &family->what, &sample);
}

typedef void scope(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                   struct tagc_metrics_sample sample);

static void write_COMM(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                       struct tagc_metrics_sample sample) {
  write_sample(text, family, at, sample);
}

static const char *const side_names[TAGC_AB_SIDES] = {"neither", "plain", "compressed"};

static void write_SIDE(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                       struct tagc_metrics_sample sample) {
  label(&sample, "side", "%s", "");
  for (int side = 0; side < TAGC_AB_SIDES; side++) {
    at->side = (enum tagc_ab_side)side;
    strcpy(sample.labels[sample.label_count - 1].value, side_names[side]);
    write_sample(text, family, at, sample);
  }
}

static void write_AB(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                     struct tagc_metrics_sample sample) {
  if (at->ledger->ab)
    write_sample(text, family, at, sample);
}

static void write_ABSIDE(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                         struct tagc_metrics_sample sample) {
  if (at->ledger->ab)
    write_SIDE(text, family, at, sample);
}

static void write_kind(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                       const struct tagc_metrics_sample *common, bool gathers, scope *write) {
  struct tagc_metrics_sample sample = *common;
  at->gathers = gathers;
  label(&sample, "collective", "%s", collective_name(at));
  write(text, family, at, sample);
}

/* Its reductions; its all-gathers, if they may be compressed. */
static void write_kinds(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                        const struct tagc_metrics_sample *common, scope *write) {
  write_kind(text, family, at, common, false, write);
  if (at->ledger->allgather_codec)
    write_kind(text, family, at, common, true, write);
}

static void write_SLOTS(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                        struct tagc_metrics_sample sample) {
  write_kind(text, family, at, &sample, false, write_COMM);
}

static void write_COLLECTIVE(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                             struct tagc_metrics_sample sample) {
  write_kinds(text, family, at, &sample, write_COMM);
}

static void write_destinations(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                               struct tagc_metrics_sample sample) {
  static const char *const names[] = {"inside", "between"};
  label(&sample, "destination", "%s", "");
  for (int between = 0; between < 2; between++) {
    at->between = between;
    strcpy(sample.labels[sample.label_count - 1].value, names[between]);
    write_sample(text, family, at, sample);
  }
}

static void write_TRAFFIC(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                          struct tagc_metrics_sample sample) {
  write_kinds(text, family, at, &sample, write_destinations);
}

/* Of dozens of reasons a run meets a few. */
static void write_reasons(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                          struct tagc_metrics_sample sample, const uint64_t *reasons) {
  label(&sample, "reason", "%s", "");
  for (int reason = 0; reason < TAGC_REASON_COUNT; reason++) {
    if (!reasons[reason] && reason != TAGC_REASON_compressed)
      continue;
    at->reason = (enum tagc_reason)reason;
    strcpy(sample.labels[sample.label_count - 1].value, tagc_reason_name(at->reason));
    write_sample(text, family, at, sample);
  }
}

static void write_reasons_of_kind(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                                  struct tagc_metrics_sample sample) {
  write_reasons(text, family, at, sample, reasons_of(at));
}

static void write_REASON(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                         struct tagc_metrics_sample sample) {
  write_kinds(text, family, at, &sample, write_reasons_of_kind);
}

static void write_LARGE(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                        struct tagc_metrics_sample sample) {
  write_reasons(text, family, at, sample, at->ledger->large.reasons);
}

static void write_phases(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                         struct tagc_metrics_sample sample) {
  label(&sample, "phase", "%s", "");
  for (at->phase = 0; at->phase < PHASES; at->phase++) {
    strcpy(sample.labels[sample.label_count - 1].value, phase_names[at->phase]);
    write_sample(text, family, at, sample);
  }
}

static void write_PHASE(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                        struct tagc_metrics_sample sample) {
  write_kinds(text, family, at, &sample, write_phases);
}

/* The slots of a kind, or its all-gathers. */
static void write_rows(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                       const struct tagc_metrics_sample *common, scope *write) {
  const struct tagc_ledger_row *rows = at->gathers ? at->ledger->allgathers : at->ledger->rows;
  const size_t count = at->gathers ? at->ledger->allgather_count : at->ledger->row_count;
  for (at->slot = 0; at->slot < count; at->slot++) {
    struct tagc_metrics_sample sample = *common;
    at->row = &rows[at->slot];
    label(&sample, "slot", "%zu", at->slot);
    label(&sample, "layer", "%s", at->row->name);
    write(text, family, at, sample);
  }
}

static void write_layers(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                         struct tagc_metrics_sample sample) {
  write_rows(text, family, at, &sample, write_COMM);
}

static void write_layers_traffic(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                                 struct tagc_metrics_sample sample) {
  write_rows(text, family, at, &sample, write_destinations);
}

/* Rank 0 alone has layers. */
static void write_LAYER(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                        struct tagc_metrics_sample sample) {
  if (at->ledger->rank == 0)
    write_kinds(text, family, at, &sample, write_layers);
}

static void write_LAYERTRAFFIC(struct tagc_metrics_text *text, const struct family *family, struct place *at,
                               struct tagc_metrics_sample sample) {
  if (at->ledger->rank == 0)
    write_kinds(text, family, at, &sample, write_layers_traffic);
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static void write_comms(struct tagc_metrics_text *text, const struct family *family,
                        const struct tagc_figures_view *view, const struct tagc_metrics_sample *common, scope *write) {
  for (size_t i = 0; i < view->count; i++) {
    const struct tagc_ledger *ledger = &view->figures[i]->ledger;
    struct place at = {.view = view, .figures = view->figures[i], .ledger = ledger};
    struct tagc_metrics_sample sample = *common;
    at.totals[0] = tagc_report_total(ledger);
    at.totals[1] = tagc_report_allgathers_total(ledger);
    label(&sample, "communicator", "%llu", (unsigned long long)ledger->number);
    write(text, family, &at, sample);
  }
}

static void write_family(struct tagc_metrics_text *text, const struct family *family,
                         const struct tagc_figures_view *view, scope *write) {
  struct tagc_metrics_sample sample = {.label_count = 0};
  label(&sample, "run", "%s", view->run);
  label(&sample, "rank", "%d", view->rank);
  if (write)
    write_comms(text, family, view, &sample, write);
  else
    write_sample(text, family, &(struct place){.view = view}, sample);
  tagc_metrics_close(text);
}

#define write_PROCESS NULL
void tagc_families_write(struct tagc_metrics_text *text, const struct tagc_figures_view *view) {
  tagc_metrics_begin(text, view->now, view->run, view->rank);
#define FAMILY(scope, name, help_, type, ...) \
  write_family(text, &(const struct family){{#name, help_, TAGC_METRICS_##type}, __VA_ARGS__}, view, write_##scope);
#define INFO(scope, name, labels_, help_) \
  FAMILY(scope, name, help_, GAUGE, .value = NULL, .count = NULL, .labels = label_##name)
#define GAUGE(scope, name, value_, help_) \
  FAMILY(scope, name, help_, GAUGE, .value = value_of_##name, .count = NULL, .labels = NULL)
#define COUNTER(scope, name, value_, help_) \
  FAMILY(scope, name, help_, COUNTER, .value = value_of_##name, .count = NULL, .labels = NULL)
#define SUMMARY(scope, name, sum_, count_, help_) \
  FAMILY(scope, name, help_, SUMMARY, .value = value_of_##name, .count = value_of_##name##_count, .labels = NULL)
#include "interpose/metrics/metrics.def"
  tagc_metrics_end(text);
}
