/* SPDX-License-Identifier: BSD-3-Clause
 * The screen of tagc-report --live. From top to bottom: the job, its steps, bytes, comparison and outcomes; a line a
 * rank; a line a layer. A window of 80x24 has room for all but long lists, which say how much they leave out.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "env/program/terminal.h"
#include "env/units.h"
#include "interpose/tagc-report/live/live.h"
#include "interpose/tagc-report/read/format.h"

enum { HEAD_ROWS = 7, SILENT_SECONDS = 10, SHOWN_REASONS = 3 };
#define BOLD "\033[1m"
#define GREEN "\033[32m"
#define RED "\033[31m"
#define NORMAL "\033[0m"

/* Where it draws. */
struct canvas {
  const struct tagc_live_screen *screen;
  FILE *to;
  size_t used; /* rows */
};

/* What the lists show. */
struct job {
  const struct tagc_live_rank **ranks; /* of the job, with steps or without */
  size_t count, left_out;
  const struct tagc_live_rank *first;    /* with steps; NULL: none */
  struct tagc_live_comm *main;           /* its communicator */
  const struct tagc_live_layer **layers; /* of it */
  size_t layer_count;
};

static size_t rows_left(const struct canvas *c) {
  return c->screen->rows ? c->screen->rows - (c->used < c->screen->rows ? c->used : c->screen->rows) : SIZE_MAX;
}

/* Cuts a text to so many columns, a character of UTF-8 counting for one. */
static void cut_columns(char *text, size_t columns) {
  for (; *text; text++) {
    const bool begins = ((unsigned char)*text & 0xc0) != 0x80;
    if (begins && columns-- == 0) {
      *text = '\0';
      return;
    }
  }
}

/* A line, cut to the window. A terminal's last line has no newline: it would scroll. */
__attribute__((format(printf, 3, 4))) static void draw_row(struct canvas *c, const char *colour, const char *format,
                                                           ...) {
  char text[1024];
  va_list arguments;
  if (!rows_left(c))
    return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  tagc_tame(text, '\0');
  cut_columns(text, c->screen->columns);
  const bool coloured = c->screen->colours && *colour;
  if (c->screen->terminal && c->used)
    fputs("\r\n", c->to);
  fprintf(c->to, "%s%s%s", coloured ? colour : "", text, coloured ? NORMAL : "");
  fputs(c->screen->terminal ? "\033[K" : "\n", c->to);
  c->used++;
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

/* Means over the last steps that measure one. */
struct recent {
  size_t steps;
  double ms, exposed_ms, sent, plain; /* NaN: none */
};

static struct recent recent_of(const struct tagc_live_comm *comm) {
  struct recent r = {0, 0, 0, 0, 0};
  const size_t kept = comm->steps < TAGC_LIVE_RECENT ? (size_t)comm->steps : TAGC_LIVE_RECENT;
  for (size_t i = 0; i < kept; i++) {
    const struct tagc_live_sums *sums = &comm->recent[i].sums;
    const double ns = comm->recent[i].ns;
    if (isnan(ns))
      continue;
    r.steps++;
    r.ms += 1e-6 * ns;
    r.exposed_ms += 1e-6 * fmin((double)(comm->on_host ? sums->host_ns : sums->wire_ns), ns);
    r.sent += comm->hosts > 1 ? sums->sent_between : sums->sent;
    r.plain += comm->hosts > 1 ? sums->plain_between : sums->plain;
  }
  const double n = r.steps ? (double)r.steps : NAN;
  return (struct recent){r.steps, r.ms / n, r.exposed_ms / n, r.sent / n, r.plain / n};
}

/* "34.1%", of a GPU "<=34.1%": calls may be hidden there; "-": unknown. */
static const char *exposed_text(const struct tagc_live_comm *comm, const struct recent *recent, char text[24]) {
  const double share = 100 * recent->exposed_ms / recent->ms;
  snprintf(text, 24, isnan(share) ? "-" : "%s%.1f%%", comm->on_host ? "" : "<=", share);
  return text;
}

static const char *number_text(double value, const char *format, char text[24]) {
  if (isnan(value))
    return strcpy(text, "-");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(text, 24, format, value);
#pragma GCC diagnostic pop
  return text;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static size_t hosts_of_job(const struct job *job) {
  size_t hosts = 0;
  for (size_t i = 0; i < job->count; i++) {
    size_t j = 0;
    while (j < i && strcmp(job->ranks[j]->host, job->ranks[i]->host) != 0)
      j++;
    hosts += j == i;
  }
  return job->main && job->main->hosts > hosts ? job->main->hosts : hosts;
}

static void draw_job(struct canvas *c, const struct tagc_live *live, const struct job *job) {
  char time_of_day[32] = "";
  const time_t now = (time_t)c->screen->now;
  struct tm local;
  if (localtime_r(&now, &local))
    strftime(time_of_day, sizeof time_of_day, "%H:%M:%S", &local);
  if (!job->count) {
    draw_row(c, BOLD, "tagc  %s  waiting for traces%s", time_of_day, c->screen->terminal ? "  (q ends)" : "");
    return;
  }
  static const char *const state_words[] = {
    [TAGC_LIVE_RUNNING] = "running", [TAGC_LIVE_GONE] = "silent", [TAGC_LIVE_ENDED] = "ended"};
  const size_t hosts = hosts_of_job(job), known = job->main && job->main->nranks > 0 ? (size_t)job->main->nranks : 0;
  char ranks[48];
  if (known > job->count)
    snprintf(ranks, sizeof ranks, "%zu of %zu ranks", job->count, known);
  else
    snprintf(ranks, sizeof ranks, "%zu rank%s", job->count, job->count == 1 ? "" : "s");
  draw_row(c, BOLD, "tagc  %s  %.24s, %s on %zu host%s, %s%s%s", time_of_day, job->ranks[0]->program, ranks, hosts,
           hosts == 1 ? "" : "s", state_words[tagc_live_state(live, c->screen->now)],
           job->left_out ? ", other jobs left out" : "", c->screen->terminal ? "  (q ends)" : "");
}

static void draw_step_times(struct canvas *c, const struct job *job) {
  double ms = 0, slowest = 0, exposed = 0;
  size_t count = 0, steps = 0;
  for (size_t i = 0; i < job->count; i++) {
    const struct tagc_live_comm *main = tagc_live_main(job->ranks[i]);
    const struct recent recent = main ? recent_of(main) : (struct recent){.steps = 0};
    if (!recent.steps)
      continue;
    count++;
    steps = recent.steps > steps ? recent.steps : steps;
    ms += recent.ms;
    exposed += recent.exposed_ms;
    slowest = fmax(slowest, recent.ms);
  }
  char number[32], share[24];
  if (!count) {
    draw_row(c, "", "step     %s", job->main ? "no undisturbed one yet" : "no cycle of calls is known yet");
    return;
  }
  const struct recent means = {count, ms / (double)count, exposed / (double)count, 0, 0};
  draw_row(c, "", "step     %s   %.1f ms (mean of %zu, the slowest rank %.1f)   exposed %s",
           tagc_units_count(job->main->steps, number), means.ms, steps, slowest,
           exposed_text(job->main, &means, share));
}

static void draw_sent(struct canvas *c, const struct job *job) {
  const struct recent recent = recent_of(job->main);
  char sent[16], plain[16], ratio[24];
  draw_row(c, "", "sent     %s a step%s, plain %s, ratio %s", tagc_format_bytes(recent.sent, sent),
           job->main->hosts > 1 ? " to other hosts" : "", tagc_format_bytes(recent.plain, plain),
           number_text(recent.plain > 0 ? recent.sent / recent.plain : NAN, "%.3f", ratio));
}

static void draw_ab(struct canvas *c, const struct job *job) {
  struct tagc_ab_figures figures;
  char words[TAGC_AB_WORDS];
  tagc_ab_so_far(&job->main->ab, &figures);
  if (*tagc_ab_words(&figures, words))
    draw_row(c,
             figures.outcome == TAGC_AB_FASTER   ? GREEN
             : figures.outcome == TAGC_AB_SLOWER ? RED
                                                 : "",
             "A/B      %s", words);
}

/* "61% compressed, 30% plain window of TAGC_MODE=ab, ..." */
static void draw_reasons(struct canvas *c, const struct job *job) {
  uint64_t all = 0, last = UINT64_MAX;
  char text[512] = "";
  size_t used = 0;
  int last_code = -1;
  for (int i = 0; i < TAGC_LIVE_REASONS; i++)
    all += job->main->reasons[i];
  for (int n = 0; n < SHOWN_REASONS; n++) {
    int best = -1;
    for (int i = 0; i < TAGC_LIVE_REASONS; i++) {
      const uint64_t count = job->main->reasons[i];
      if (count && (count < last || (count == last && i > last_code)) && (best < 0 || count > job->main->reasons[best]))
        best = i;
    }
    if (best < 0)
      break;
    last = job->main->reasons[best];
    last_code = best;
    const char *words = job->first->reasons[best] ? job->first->reasons[best] : "?";
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%.0f%% %.60s", n ? ", " : "",
                             100 * (double)last / (double)all, words);
    if (used >= sizeof text)
      break;
  }
  if (all)
    draw_row(c, "", "calls    %s", text);
}

static void draw_trouble(struct canvas *c, const struct tagc_live *live) {
  if (live->no_memory)
    draw_row(c, RED, "no memory: figures are missing");
  for (size_t i = 0; i < live->count; i++)
    if (*live->ranks[i].follow.why) {
      draw_row(c, RED, "%s", live->ranks[i].follow.why);
      return;
    }
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static const char *state_of(const struct canvas *c, const struct tagc_live_rank *r, char text[24]) {
  const double age = c->screen->now - r->follow.changed;
  if (*r->follow.why)
    return strcpy(text, "unreadable");
  if (r->ended)
    return strcpy(text, "ended");
  if (age < SILENT_SECONDS)
    return strcpy(text, "running");
  snprintf(text, 24, "silent %.0fs", age);
  return text;
}

static void draw_rank(struct canvas *c, const struct tagc_live_rank *r) {
  const struct tagc_live_comm *main = tagc_live_main(r);
  const struct recent none = {0, NAN, NAN, NAN, NAN}, recent = main ? recent_of(main) : none;
  char number[32] = "-", ms[24], share[24] = "-", sent[16], ratio[24], state[24];
  if (main && main->rank >= 0)
    snprintf(number, sizeof number, "%d", main->rank);
  if (main)
    exposed_text(main, &recent, share);
  draw_row(c, "", "%4s  %-10.10s %7d %8" PRIu64 " %8s %8s %9s %6s  %s", number, r->host, r->pid, main ? main->steps : 0,
           number_text(recent.ms, "%.1f", ms), share, tagc_format_bytes(recent.sent, sent),
           number_text(recent.plain > 0 ? recent.sent / recent.plain : NAN, "%.3f", ratio), state_of(c, r, state));
}

static void draw_ranks(struct canvas *c, const struct job *job, size_t rows) {
  size_t shown = job->count;
  if (shown > rows)
    shown = rows ? rows - 1 : 0;
  draw_row(c, BOLD, "rank  host           pid     step       ms  exposed      sent  ratio  state");
  for (size_t i = 0; i < shown; i++)
    draw_rank(c, job->ranks[i]);
  if (shown < job->count)
    draw_row(c, "", "      and %zu more", job->count - shown);
}

static void draw_layer(struct canvas *c, const struct tagc_live_layer *layer) {
  char name[TAGC_LIVE_NAME + 8], calls[32], bytes[16], ratio[24], error[24], residual[24];
  snprintf(name, sizeof name, "%s%s", !layer->gathers ? "" : layer->again ? "again " : "gather ", layer->name);
  draw_row(c, "", "%-20.20s %-7.7s %8s %4.0f%% %9s %5s %7s %9s", name, *layer->codec ? layer->codec : "plain",
           tagc_units_count(layer->calls, calls),
           layer->calls ? 100 * (double)layer->compressed / (double)layer->calls : 0,
           tagc_format_bytes(layer->sent, bytes),
           number_text(layer->plain > 0 ? layer->sent / layer->plain : NAN, "%.3f", ratio),
           number_text(100 * layer->error, "%.3g%%", error), number_text(layer->residual, "%.3g", residual));
}

static void draw_layers(struct canvas *c, const struct job *job) {
  if (!job->layer_count || rows_left(c) < 3)
    return;
  draw_row(c, "", "%s", "");
  draw_row(c, BOLD, "layer of rank %-6d codec      calls compr      sent ratio   error  residual", job->main->rank);
  size_t shown = job->layer_count;
  if (shown > rows_left(c))
    shown = rows_left(c) - 1;
  for (size_t i = 0; i < shown; i++)
    draw_layer(c, job->layers[i]);
  if (shown < job->layer_count)
    draw_row(c, "", "and %zu more", job->layer_count - shown);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

/* The slots that are told, in the order of the forward pass; then the all-gathers that are compressed. */
static void list_layers(struct job *job) {
  const struct tagc_live_comm *main = job->main;
  for (size_t i = main->layer_count; i-- > 0;)
    if (*main->layers[i].name && !main->layers[i].gathers)
      job->layers[job->layer_count++] = &main->layers[i];
  for (size_t i = 0; i < main->layer_count; i++)
    if (*main->layers[i].name && main->layers[i].gathers && *main->layers[i].codec)
      job->layers[job->layer_count++] = &main->layers[i];
}

/* False: no memory. */
static bool find_job(const struct tagc_live *live, struct job *job) {
  *job = (struct job){.ranks = calloc(live->count + 1, sizeof(*job->ranks))};
  for (size_t i = 0; job->ranks && i < live->count; i++) {
    const struct tagc_live_rank *r = &live->ranks[i];
    if (!r->follow.changed && !*r->follow.why)
      continue;
    if (!tagc_live_is_of_job(live, r)) {
      job->left_out++;
      continue;
    }
    job->ranks[job->count++] = r;
    if (!job->first && tagc_live_main(r))
      job->first = r;
  }
  job->main = job->first ? tagc_live_main(job->first) : NULL;
  if (job->main)
    job->layers = calloc(job->main->layer_count + 1, sizeof(*job->layers));
  if (job->layers)
    list_layers(job);
  return job->ranks && (job->layers || !job->main);
}

void tagc_live_draw(const struct tagc_live *live, const struct tagc_live_screen *screen, FILE *to) {
  struct canvas c = {screen, to, 0};
  struct job job;
  if (!find_job(live, &job)) {
    draw_row(&c, RED, "no memory");
  } else {
    draw_job(&c, live, &job);
    if (job.count)
      draw_step_times(&c, &job);
    if (job.main) {
      draw_sent(&c, &job);
      draw_ab(&c, &job);
      draw_reasons(&c, &job);
    }
    draw_trouble(&c, live);
    if (job.count) {
      draw_row(&c, "", "%s", "");
      /* Half of the rest is for layers, if there are some. */
      const size_t left = rows_left(&c), rest = left > HEAD_ROWS && job.layer_count ? left / 2 : left;
      draw_ranks(&c, &job, rest ? rest - 1 : 0);
    }
    if (job.main)
      draw_layers(&c, &job);
  }
  if (screen->terminal)
    fputs("\033[J", to);
  free(job.ranks);
  free(job.layers);
}
