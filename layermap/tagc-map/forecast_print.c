/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map forecast: the tables, and their JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "env/program/json.h"
#include "env/program/terminal.h"
#include "env/units.h"
#include "layermap/tagc-map/forecast.h"

enum { CODECS = 16 };
static const uint64_t LEAST_BYTES = UINT64_C(1) << 20; /* TAGC_MIN_BYTES */

/* Of all calls in a row: some of zero3 are one sum. */
static uint64_t times_of_row(const struct tagc_forecast_call *call) { return call->times ? call->times : 1; }

static uint64_t sent_in_row(const struct tagc_forecast_call *call) {
  const struct tagc_traffic sent = tagc_forecast_sent(call);
  return (sent.inside + sent.between) * times_of_row(call);
}

static uint64_t sent_between(const struct tagc_forecast_call *call) {
  return tagc_forecast_sent(call).between * times_of_row(call);
}

static void add_to_sum(struct tagc_forecast_sum *sum, const struct tagc_forecast_call *call) {
  sum->calls += call->times;
  sum->messages += tagc_forecast_message(call) * times_of_row(call);
  sum->sent += sent_in_row(call);
  sum->between += sent_between(call);
  sum->unknown |= !call->times;
}

struct tagc_forecast_sum tagc_forecast_sum_up(const struct tagc_forecast_stage *stage, enum tagc_forecast_group group) {
  struct tagc_forecast_sum sum = {0};
  for (size_t i = 0; i < stage->count; i++) {
    const struct tagc_forecast_call *call = &stage->calls[i];
    if (group == TAGC_FORECAST_GROUPS || call->group == group)
      add_to_sum(&sum, call);
  }
  return sum;
}

/* -- the terminal -------------------------------------------------------------------------------------------------- */

static const char *percent(uint64_t part, uint64_t all, char text[16]) {
  if (!all)
    return "-";
  snprintf(text, 16, "%.1f%%", 100 * (double)part / (double)all);
  return text;
}

const char *tagc_forecast_model_name(const struct tagc_forecast *forecast) {
  const char *const path = forecast->job.config, *const slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void print_forecast_job(const struct tagc_forecast *f, FILE *to) {
  const struct tagc_forecast_job *job = &f->job;
  char count[32];
  tagc_put_tamed(to, tagc_forecast_model_name(f));
  fprintf(to, ": %s parameters, %s on %d ranks", tagc_units_count(f->parameters, count), job->layout, job->ranks);
  if (job->local)
    fprintf(to, ", %d a host", job->local);
  fprintf(to, "\n  data %d, tensor %d, pipeline %d; sequences of %llu, %d in a micro-batch, %d micro-batch%s a step\n",
          tagc_forecast_replicas(job), job->tp, job->pp, (unsigned long long)job->sequence, job->micro_batch,
          job->accumulate, job->accumulate == 1 ? "" : "es");
  fprintf(to, "  parameters and activations %s, gradients %s\n", tagc_forecast_type_name(job->type),
          tagc_forecast_type_name(job->gradients));
}

static const char *message_words(const struct tagc_forecast_call *call, char text[16]) {
  return call->times ? tagc_units_bytes(tagc_forecast_message(call), text) : "?";
}

/* Would their rows differ in calls and their bytes alone? */
static bool are_alike(const struct tagc_forecast_call *a, const struct tagc_forecast_call *b) {
  char one[16], other[16];
  return a->group == b->group && a->function == b->function && a->content == b->content && a->type == b->type &&
         a->hosts.nranks == b->hosts.nranks && strcmp(message_words(a, one), message_words(b, other)) == 0;
}

/* Prints calls[at] with those behind it that look alike; nothing if it came with an earlier one. */
static void print_forecast_row(const struct tagc_forecast_stage *stage, size_t at, const struct tagc_forecast_sum *all,
                               bool hosts, FILE *to) {
  const struct tagc_forecast_call *call = &stage->calls[at];
  char times[32] = "?", message[16], sent[16], between[16] = "", share[16];
  struct tagc_forecast_sum sum = {0};
  for (size_t i = 0; i < stage->count; i++) {
    if (!are_alike(&stage->calls[i], call))
      continue;
    if (i < at)
      return;
    add_to_sum(&sum, &stage->calls[i]);
  }
  if (!sum.unknown)
    tagc_units_count(sum.calls, times);
  if (hosts)
    tagc_units_bytes(sum.between, between);
  fprintf(to, "  %-9s %-13s %-11s %-4s %7d %8s %9s %9s %6s %9s\n", tagc_forecast_group_name(call->group),
          tagc_forecast_function_name(call->function), tagc_forecast_content_name(call->content),
          tagc_forecast_type_name(call->type), call->hosts.nranks, times, message_words(call, message),
          tagc_units_bytes(sum.sent, sent), percent(sum.sent, all->sent, share), between);
}

static void print_sums(const struct tagc_forecast_stage *stage, bool hosts, FILE *to) {
  const struct tagc_forecast_sum all = tagc_forecast_sum_up(stage, TAGC_FORECAST_GROUPS);
  for (int group = 0; group <= TAGC_FORECAST_GROUPS; group++) {
    const struct tagc_forecast_sum sum = tagc_forecast_sum_up(stage, (enum tagc_forecast_group)group);
    char times[32] = "?", sent[16], between[16] = "", share[16];
    if (!sum.messages)
      continue;
    if (!sum.unknown)
      tagc_units_count(sum.calls, times);
    if (hosts)
      tagc_units_bytes(sum.between, between);
    fprintf(to, "  all %-45s %8s %9s %9s %6s %9s\n",
            group < TAGC_FORECAST_GROUPS ? tagc_forecast_group_name((enum tagc_forecast_group)group) : "", times, "",
            tagc_units_bytes(sum.sent, sent), percent(sum.sent, all.sent, share), between);
  }
}

/* Why no codec would compress such calls. */
static const char *why_plain(const struct tagc_forecast_stage *stage, enum tagc_forecast_content content) {
  bool any = false, unknown = false;
  for (size_t i = 0; i < stage->count; i++)
    if (stage->calls[i].content == content) {
      any = true;
      unknown |= !stage->calls[i].times;
    }
  return !any      ? "there are no such calls"
         : unknown ? "the sizes of the calls are not known"
                   : "the calls are small, or stay on a host";
}

static void print_codecs(const struct tagc_forecast_stage *stage, enum tagc_forecast_content content, bool hosts,
                         double sparsity, FILE *to) {
  struct tagc_forecast_codec codecs[CODECS];
  const size_t count = tagc_forecast_codecs(stage, content, LEAST_BYTES, sparsity, codecs, CODECS);
  char plain[16], coded[16], share[16];
  if (!count) {
    fprintf(to, "  TAGC would compress no %s: %s.\n", tagc_forecast_content_name(content), why_plain(stage, content));
    return;
  }
  fprintf(to, "  TAGC on %s%s\n  %-8s %9s %9s %7s\n", tagc_forecast_content_name(content),
          hosts ? ", sent to other hosts" : ", if each rank is a host", "codec", "plain", "coded", "of it");
  for (size_t i = 0; i < count; i++)
    fprintf(to, "  %-8s %9s %9s %7s\n", codecs[i].name, tagc_units_bytes(codecs[i].plain.between, plain),
            tagc_units_bytes(codecs[i].coded.between, coded),
            percent(codecs[i].coded.between, codecs[i].plain.between, share));
}

static void print_stage(const struct tagc_forecast *f, const struct tagc_forecast_stage *stage, double sparsity,
                        FILE *to) {
  const bool hosts = f->job.local;
  const struct tagc_forecast_sum all = tagc_forecast_sum_up(stage, TAGC_FORECAST_GROUPS);
  fputc('\n', to);
  if (f->job.pp > 1 && stage->first == stage->last)
    fprintf(to, "Stage %d: a step of a rank\n", stage->first);
  else if (f->job.pp > 1)
    fprintf(to, "Stages %d to %d: a step of a rank\n", stage->first, stage->last);
  else
    fprintf(to, "A step of a rank\n");
  if (!stage->count) {
    fputs("  no calls\n", to);
    return;
  }
  fprintf(to, "  %-9s %-13s %-11s %-4s %7s %8s %9s %9s %6s %9s\n", "group", "call", "carries", "type", "ranks", "calls",
          "message", "sent", "share", hosts ? "to hosts" : "");
  for (size_t i = 0; i < stage->count; i++)
    print_forecast_row(stage, i, &all, hosts, to);
  print_sums(stage, hosts, to);
  fputc('\n', to);
  print_codecs(stage, TAGC_FORECAST_GRADIENTS, hosts, sparsity, to);
  print_codecs(stage, TAGC_FORECAST_PARAMETERS, hosts, sparsity, to);
}

/* Prints a line without the spaces at its end. */
static void print_trimmed(const char *line, size_t length, FILE *to) {
  while (length && line[length - 1] == ' ')
    length--;
  fprintf(to, "%.*s\n", (int)length, line);
}

void tagc_forecast_print(const struct tagc_forecast *forecast, double sparsity, FILE *to) {
  char *text = NULL;
  size_t size = 0;
  FILE *draft = open_memstream(&text, &size);
  if (!draft)
    return;
  print_forecast_job(forecast, draft);
  for (size_t i = 0; i < forecast->count; i++)
    print_stage(forecast, &forecast->stages[i], sparsity, draft);
  fputs("\nmessage: as nccl-tests count it. sent: by a ring, a mean over the ranks of a host. Calls below\n"
        "1 MiB pass TAGC. Not here: the first step, and the program's own calls (man tagc-map).\n",
        draft);
  fclose(draft);
  for (const char *line = text; line && *line; line += strcspn(line, "\n") + 1)
    print_trimmed(line, strcspn(line, "\n"), to);
  free(text);
}

/* -- JSON ---------------------------------------------------------------------------------------------------------- */

static void write_forecast_call(struct tagc_json *j, const struct tagc_forecast_call *call, bool hosts) {
  tagc_json_text(j, "group", tagc_forecast_group_name(call->group));
  tagc_json_text(j, "call", tagc_forecast_function_name(call->function));
  tagc_json_text(j, "carries", tagc_forecast_content_name(call->content));
  tagc_json_text(j, "type", tagc_forecast_type_name(call->type));
  tagc_json_number(j, "ranks", call->hosts.nranks);
  if (call->times) {
    tagc_json_count(j, "calls", call->times);
    tagc_json_count(j, "count", call->count);
    tagc_json_count(j, "message_bytes", tagc_forecast_message(call));
  } else {
    tagc_json_null(j, "calls");
    tagc_json_null(j, "count");
    tagc_json_null(j, "message_bytes");
  }
  tagc_json_count(j, "sent_bytes", sent_in_row(call));
  if (hosts)
    tagc_json_count(j, "to_hosts_bytes", sent_between(call));
}

static void write_codecs(struct tagc_json *j, const char *name, const struct tagc_forecast_stage *stage,
                         enum tagc_forecast_content content, double sparsity) {
  struct tagc_forecast_codec codecs[CODECS];
  const size_t count = tagc_forecast_codecs(stage, content, LEAST_BYTES, sparsity, codecs, CODECS);
  for (size_t i = tagc_json_list(j, name); tagc_json_item(j, i, count); i++) {
    tagc_json_text(j, "codec", codecs[i].name);
    tagc_json_count(j, "plain_bytes", codecs[i].plain.between);
    tagc_json_count(j, "coded_bytes", codecs[i].coded.between);
  }
}

static void write_stage(struct tagc_json *j, const struct tagc_forecast *f, const struct tagc_forecast_stage *stage,
                        double sparsity) {
  tagc_json_number(j, "first", stage->first);
  tagc_json_number(j, "last", stage->last);
  for (size_t i = tagc_json_list(j, "calls"); tagc_json_item(j, i, stage->count); i++)
    write_forecast_call(j, &stage->calls[i], f->job.local);
  write_codecs(j, "gradients", stage, TAGC_FORECAST_GRADIENTS, sparsity);
  write_codecs(j, "parameters", stage, TAGC_FORECAST_PARAMETERS, sparsity);
}

static void write_forecast(struct tagc_json *j, const struct tagc_forecast *forecast, double sparsity) {
  const struct tagc_forecast_job *job = &forecast->job;
  tagc_json_text(j, "config", job->config);
  tagc_json_text(j, "layout", job->layout);
  tagc_json_count(j, "parameters", forecast->parameters);
  tagc_json_number(j, "ranks", job->ranks);
  tagc_json_number(j, "data", tagc_forecast_replicas(job));
  tagc_json_number(j, "tensor", job->tp);
  tagc_json_number(j, "pipeline", job->pp);
  if (job->local)
    tagc_json_number(j, "ranks_per_host", job->local);
  else
    tagc_json_null(j, "ranks_per_host");
  tagc_json_count(j, "sequence", job->sequence);
  tagc_json_number(j, "micro_batch", job->micro_batch);
  tagc_json_number(j, "accumulate", job->accumulate);
  tagc_json_text(j, "type", tagc_forecast_type_name(job->type));
  tagc_json_text(j, "gradients", tagc_forecast_type_name(job->gradients));
  for (size_t i = tagc_json_list(j, "stages"); tagc_json_item(j, i, forecast->count); i++)
    write_stage(j, forecast, &forecast->stages[i], sparsity);
}

void tagc_forecast_write_json(const struct tagc_forecast *forecasts, size_t count, double sparsity, FILE *to) {
  struct tagc_json json = {.out = to, .spaced = true}, *j = &json;
  if (count == 1) {
    tagc_json_open(j, NULL, '{');
    write_forecast(j, forecasts, sparsity);
    tagc_json_close(j, '}');
  } else {
    for (size_t i = tagc_json_list(j, NULL); tagc_json_item(j, i, count); i++)
      write_forecast(j, &forecasts[i], sparsity);
  }
  fputc('\n', to);
}
