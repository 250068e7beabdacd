/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/stats/ledger.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env/thread.h"
#include "interpose/nccl/process.h"
#include "interpose/stats/exit_report.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tagc_ledgers ledgers;
static struct tagc_ledger **last = &ledgers.first;
static uint64_t created;
static pid_t owner;

void tagc_series_add(struct tagc_series *series, double value) {
  double delta = value - series->mean;
  series->count++;
  series->mean += delta / (double)series->count;
  series->m2 += delta * (value - series->mean);
}

double tagc_series_deviation(const struct tagc_series *series) {
  return series->count > 1 ? __builtin_sqrt(series->m2 / (double)(series->count - 1)) : 0;
}

bool tagc_ledgers_hold(void) { return tagc_thread_try_lock(&lock); }

void tagc_ledgers_release(void) { pthread_mutex_unlock(&lock); }

static void report_at_exit(void *unused) {
  (void)unused;
  if (getpid() != owner) /* a forked child has nothing to report */
    return;
  if (!tagc_ledgers_hold()) /* the report is lost */
    return;
  tagc_report_print(&ledgers);
  tagc_ledgers_release();
}

/* The base of atexit(): the library is linked without the start files that atexit() needs, and is never unloaded. */
int __cxa_atexit(void (*function)(void *), void *argument, void *object);

/* Makes the parts that options ask for. False without memory. */
static bool make_parts(struct tagc_ledger *ledger, const struct tagc_options *options) {
  if (options->mode == TAGC_MODE_AB && !(ledger->ab = calloc(1, sizeof *ledger->ab)))
    return false;
  if (options->broadcast == TAGC_BROADCAST_OFF)
    return true;
  ledger->broadcasts = calloc(1, sizeof *ledger->broadcasts);
  if (ledger->broadcasts)
    ledger->broadcasts->codec = tagc_allgather_exact.name;
  return ledger->broadcasts != NULL;
}

struct tagc_ledger *tagc_ledger_create(int rank, int nranks) {
  struct tagc_ledger *ledger = calloc(1, sizeof *ledger);
  if (!ledger)
    return NULL;
  if (!make_parts(ledger, tagc_library_options())) {
    free(ledger->ab);
    free(ledger);
    return NULL;
  }
  if (ledger->ab)
    tagc_ab_begin(ledger->ab, tagc_library_options()->ab);
  ledger->rank = rank;
  ledger->nranks = nranks;
  ledger->hosts = (struct tagc_hosts){.nranks = nranks, .local = nranks};
  ledger->allgather_codec = tagc_library_allgather_codec() ? tagc_library_allgather_codec()->name : NULL;
  ledger->codec = tagc_library_codec() ? tagc_library_codec()->name : "auto";
  pthread_mutex_lock(&lock);
  if (!ledgers.first && tagc_library_options()->report != TAGC_REPORT_NEVER) {
    owner = getpid();
    __cxa_atexit(report_at_exit, NULL, NULL);
  }
  ledger->number = created++;
  ledger->unknown = "";
  *last = ledger;
  last = &ledger->next;
  pthread_mutex_unlock(&lock);
  return ledger;
}

bool tagc_ledger_may_go(const struct tagc_ledger *ledger) {
  return ledger->number >= TAGC_LEDGERS_KEPT && !tagc_report_any(ledger);
}

static void add_large(struct tagc_ledger_large *to, const struct tagc_ledger_large *from) {
  to->calls += from->calls;
  for (int reason = 0; reason < TAGC_REASON_COUNT; reason++)
    to->reasons[reason] += from->reasons[reason];
  tagc_traffic_add(&to->plain, &from->plain);
}

void tagc_ledger_free(struct tagc_ledger *ledger) {
  struct tagc_ledgers_gone *gone = &ledgers.gone;
  struct tagc_ledger **at = &ledgers.first;
  pthread_mutex_lock(&lock); /* the report may be under way */
  while (*at != ledger)
    at = &(*at)->next;
  *at = ledger->next;
  if (last == &ledger->next)
    last = at;
  gone->shared = gone->shared || ledger->nranks > 1;
  gone->elsewhere = gone->elsewhere || ledger->rank != 0;
  if (ledger->rank == 0 && ledger->nranks > 1) {
    gone->count++;
    add_large(&gone->large, &ledger->large);
  }
  pthread_mutex_unlock(&lock);
  for (size_t i = 0; i < ledger->row_count; i++)
    if (ledger->rows[i].owns_parameters)
      free(ledger->rows[i].parameters);
  free(ledger->rows);
  free(ledger->inputs);
  free(ledger->retune);
  free(ledger->allgathers);
  if (ledger->ab)
    tagc_ab_free(ledger->ab);
  free(ledger->ab);
  free(ledger->broadcasts);
  free(ledger);
}

void tagc_ledger_add(struct tagc_ledger_row *to, const struct tagc_ledger_row *from) {
  to->calls += from->calls;
  to->compressed += from->compressed;
  to->raw_bytes += from->raw_bytes;
  tagc_traffic_add(&to->plain, &from->plain);
  tagc_traffic_add(&to->sent, &from->sent);
  to->residuals_dropped += from->residuals_dropped + from->stats.dropped;
  to->stats.selected += from->stats.selected;
  to->stats.unrecovered += from->stats.unrecovered;
  to->stats.nonfinite += from->stats.nonfinite;
  to->stats.overflowed += from->stats.overflowed;
  to->stats.lost += from->stats.lost;
  struct tagc_ledger_allgather *allgather = &to->allgather;
  allgather->refreshed += from->allgather.refreshed;
  allgather->refused += from->allgather.refused;
  allgather->own_left += from->allgather.own_left;
  allgather->unchanged += from->allgather.unchanged;
  tagc_traffic_add(&allgather->savable, &from->allgather.savable);
  allgather->stats.escapes += from->allgather.stats.escapes;
  allgather->stats.nonfinite += from->allgather.stats.nonfinite;
  allgather->stats.error2 += from->allgather.stats.error2;
  allgather->stats.norm2 += from->allgather.stats.norm2;
}

/* Are the rows of the same calls? Names say nothing: at first those of a new lock are inferred, or mere numbers, and a
 * map has others later. */
static bool same_calls(const struct tagc_ledger_row *a, const struct tagc_ledger_row *b, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (a[i].count != b[i].count || a[i].unit != b[i].unit || a[i].allgather.again != b[i].allgather.again)
      return false;
  return true;
}

/* Slots that were known before keep their accounts: a training with evaluations in between comes back to them. */
static void take_over_totals(struct tagc_ledger *ledger, struct tagc_ledger_row *rows, size_t count, bool all_reduces) {
  const bool same =
    all_reduces == ledger->all_reduces && count == ledger->row_count && same_calls(rows, ledger->rows, count);
  for (size_t i = 0; i < ledger->row_count; i++) {
    tagc_ledger_add(same ? &rows[i] : &ledger->rest, &ledger->rows[i]);
    if (ledger->rows[i].owns_parameters)
      free(ledger->rows[i].parameters);
  }
}

bool tagc_ledger_set_allgathers(struct tagc_ledger *ledger, const struct tagc_allgather_info *allgathers,
                                size_t count) {
  if (!ledger->allgather_codec)
    return true;
  struct tagc_ledger_row *rows = calloc(count ? count : 1, sizeof *rows);
  if (!rows)
    return false;
  for (size_t i = 0; i < count; i++) {
    const struct tagc_ledger_row *slot = tagc_ledger_row(ledger, (int)allgathers[i].slot);
    rows[i] = (struct tagc_ledger_row){.count = allgathers[i].signature.count,
                                       .shard = allgathers[i].signature.count,
                                       .kind = slot->kind,
                                       .unit = slot->unit,
                                       .allgather = {.again = allgathers[i].again, .reason = TAGC_REASON_warm_up}};
    snprintf(rows[i].name, sizeof rows[i].name, "%s", slot->name);
  }
  const bool same = count == ledger->allgather_count && same_calls(rows, ledger->allgathers, count);
  pthread_mutex_lock(&lock); /* the report may be under way */
  for (size_t i = 0; i < ledger->allgather_count; i++)
    tagc_ledger_add(same ? &rows[i] : &ledger->allgather_rest, &ledger->allgathers[i]);
  free(ledger->allgathers);
  ledger->allgathers = rows;
  ledger->allgather_count = count;
  pthread_mutex_unlock(&lock);
  return true;
}

struct tagc_ledger_row *tagc_ledger_allgather_row(struct tagc_ledger *ledger, int place) {
  return place < 0 || (size_t)place >= ledger->allgather_count ? &ledger->allgather_rest : &ledger->allgathers[place];
}

void tagc_ledger_end_slots(struct tagc_ledger *ledger) {
  for (size_t i = 0; i < ledger->allgather_count; i++)
    ledger->allgathers[i].residual_bytes = 0;
  for (size_t i = 0; i < ledger->row_count; i++)
    ledger->rows[i].residual_bytes = 0;
}

bool tagc_ledger_set_slots(struct tagc_ledger *ledger, const struct tagc_slot_info *slots, size_t count,
                           const struct tagc_layers *layers) {
  const bool is_auto = tagc_options_auto(tagc_library_options()),
             has_budget = tagc_options_has_budget(tagc_library_options());
  struct tagc_ledger_row *rows = calloc(count ? count : 1, sizeof *rows);
  struct tagc_decision_inputs *inputs = is_auto ? calloc(count ? count : 1, sizeof *inputs) : NULL;
  struct tagc_retune *retune = has_budget ? tagc_retune_make(count) : NULL;
  bool all_reduces = false;
  if (!rows || (is_auto && !inputs) || (has_budget && !retune)) {
    free(rows);
    free(inputs);
    free(retune);
    return false;
  }
  for (size_t i = 0; i < count; i++) {
    all_reduces = slots[i].signature.collective == TAGC_COLL_ALL_REDUCE;
    rows[i].count = slots[i].signature.count;
    rows[i].shard = all_reduces ? rows[i].count / (uint64_t)ledger->nranks : rows[i].count;
    rows[i].unit = slots[i].unit;
    rows[i].kind = TAGC_LAYER_OTHER;
    snprintf(rows[i].name, sizeof rows[i].name, "%s", layers ? layers->layers[i].name : slots[i].name);
    if (layers) {
      uint64_t elements[TAGC_CONTENTS];
      tagc_layer_contents(&layers->layers[i], elements);
      rows[i].kind = tagc_layer_kind(elements);
    }
    if (is_auto) {
      rows[i].inputs = &inputs[i];
      inputs[i].choice.candidate = -1;
    }
  }
  pthread_mutex_lock(&lock); /* the report may be under way */
  take_over_totals(ledger, rows, count, all_reduces);
  ledger->all_reduces = all_reduces;
  free(ledger->rows);
  free(ledger->inputs);
  free(ledger->retune);
  ledger->rows = rows;
  ledger->inputs = inputs;
  ledger->retune = retune;
  ledger->row_count = count;
  *ledger->layers = *ledger->or_layers = '\0';
  if (layers) {
    tagc_layers_words(layers, ledger->layers);
    snprintf(ledger->or_layers, sizeof ledger->or_layers, "%s", layers->runner_up);
  }
  ledger->probed = false;
  ledger->wire = (struct tagc_wire){0};
  pthread_mutex_unlock(&lock);
  return true;
}

double tagc_ledger_residual_norm(const struct tagc_ledger *ledger) {
  double norm2 = 0;
  for (size_t i = 0; i < ledger->row_count; i++)
    norm2 += ledger->rows[i].stats.residual_norm2;
  return __builtin_sqrt(norm2);
}

struct tagc_ledger_row *tagc_ledger_row(struct tagc_ledger *ledger, int slot) {
  return slot < 0 || (size_t)slot >= ledger->row_count ? &ledger->rest : &ledger->rows[slot];
}
