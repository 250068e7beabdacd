/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-map forecast of several models or sequences: what a rank sends in a step, by kind of parallelism, and in
 * messages of which size.
 */
#include "env/program/terminal.h"
#include "env/units.h"
#include "layermap/tagc-map/forecast.h"

enum { MODEL = 24 }; /* columns of the name of a model */

/* Of all ranks: stages have equally many. */
static struct tagc_forecast_sum mean_of_ranks(const struct tagc_forecast *f, enum tagc_forecast_group group) {
  const uint64_t stages = (uint64_t)f->job.pp;
  struct tagc_forecast_sum mean = {0};
  for (size_t i = 0; i < f->count; i++) {
    const struct tagc_forecast_sum sum = tagc_forecast_sum_up(&f->stages[i], group);
    const uint64_t times = (uint64_t)(f->stages[i].last - f->stages[i].first + 1);
    mean.calls += times * sum.calls;
    mean.messages += times * sum.messages;
    mean.sent += times * sum.sent;
    mean.between += times * sum.between;
    mean.unknown |= sum.unknown;
  }
  mean.calls = (mean.calls + stages / 2) / stages;
  mean.messages = (mean.messages + stages / 2) / stages;
  mean.sent = (mean.sent + stages / 2) / stages;
  mean.between = (mean.between + stages / 2) / stages;
  return mean;
}

static bool any_sends(const struct tagc_forecast *forecasts, size_t count, enum tagc_forecast_group group) {
  for (size_t i = 0; i < count; i++)
    if (mean_of_ranks(&forecasts[i], group).sent)
      return true;
  return false;
}

enum view { BYTES, MESSAGES };

/* What a group does: bytes and their share, or calls and the mean size of their messages. */
static void print_group(const struct tagc_forecast_sum *sum, const struct tagc_forecast_sum *all, enum view view,
                        FILE *to) {
  char bytes[16], calls[32];
  if (view == BYTES)
    fprintf(to, " %9s %5.1f%%", tagc_units_bytes(sum->sent, bytes),
            all->sent ? 100 * (double)sum->sent / (double)all->sent : 0);
  else if (sum->unknown || !sum->calls)
    fprintf(to, " %16s", sum->unknown ? "?" : "-");
  else
    fprintf(to, " %4s x %9s", tagc_units_count(sum->calls, calls), tagc_units_bytes(sum->messages / sum->calls, bytes));
}

/* The last columns: of all groups. */
static void print_sum(const struct tagc_forecast_sum *all, bool local, enum view view, FILE *to) {
  char text[32];
  if (view == MESSAGES) {
    fprintf(to, " %9s\n", all->unknown ? "?" : tagc_units_count(all->calls, text));
    return;
  }
  fprintf(to, " %9s", tagc_units_bytes(all->sent, text));
  if (local)
    fprintf(to, " %9s", tagc_units_bytes(all->between, text));
  fputc('\n', to);
}

static void print_model(const struct tagc_forecast *forecasts, size_t count, size_t row, enum view view, FILE *to) {
  const struct tagc_forecast *f = &forecasts[row];
  const struct tagc_forecast_sum all = mean_of_ranks(f, TAGC_FORECAST_GROUPS);
  char name[MODEL + 1];
  snprintf(name, sizeof name, "%s", tagc_forecast_model_name(f));
  tagc_tame(name, '\0');
  fprintf(to, "%-*s %8llu", MODEL, name, (unsigned long long)f->job.sequence);
  for (int group = 0; group < TAGC_FORECAST_GROUPS; group++) {
    const struct tagc_forecast_sum mean = mean_of_ranks(f, (enum tagc_forecast_group)group);
    if (any_sends(forecasts, count, (enum tagc_forecast_group)group))
      print_group(&mean, &all, view, to);
  }
  print_sum(&all, f->job.local, view, to);
}

static void print_view(const struct tagc_forecast *forecasts, size_t count, enum view view, FILE *to) {
  fprintf(to, "%-*s %8s", MODEL, "model", "sequence");
  for (int group = 0; group < TAGC_FORECAST_GROUPS; group++)
    if (any_sends(forecasts, count, (enum tagc_forecast_group)group))
      fprintf(to, " %16s", tagc_forecast_group_name((enum tagc_forecast_group)group));
  fprintf(to, " %9s%s\n", view == BYTES ? "all" : "all calls",
          view == BYTES && forecasts->job.local ? "  to hosts" : "");
  for (size_t i = 0; i < count; i++)
    print_model(forecasts, count, i, view, to);
}

void tagc_forecast_compare(const struct tagc_forecast *forecasts, size_t count, FILE *to) {
  const struct tagc_forecast_job *job = &forecasts->job;
  fprintf(to,
          "%s on %d ranks: data %d, tensor %d, pipeline %d; %d sequence%s in a micro-batch, %d micro-batch%s a step\n",
          job->layout, job->ranks, tagc_forecast_replicas(job), job->tp, job->pp, job->micro_batch,
          job->micro_batch == 1 ? "" : "s", job->accumulate, job->accumulate == 1 ? "" : "es");
  fprintf(to, "parameters and activations %s, gradients %s\n\n", tagc_forecast_type_name(job->type),
          tagc_forecast_type_name(job->gradients));
  fprintf(to, "Sent by a rank in a step, in the mean over the ranks\n");
  print_view(forecasts, count, BYTES, to);
  fprintf(to, "\nCalls of a rank in a step, and the mean size of their messages, as nccl-tests count it\n");
  print_view(forecasts, count, MESSAGES, to);
}
