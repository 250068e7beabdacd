/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/live/live.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env/units.h"

/* A damaged file may have any number. */
enum { COMMS_MOST = 1 << 12, LAYERS_MOST = 1 << 14 };
static const double BYTES_MOST = 0x1p42;

/* Grows an array of zeroed elements to `count`; false: no memory. */
static bool grow_array(void **array, size_t *have, size_t count, size_t size) {
  if (count <= *have)
    return true;
  char *more = realloc(*array, count * size);
  if (!more)
    return false;
  memset(more + *have * size, 0, (count - *have) * size);
  *array = more;
  *have = count;
  return true;
}

static void copy_words(char *to, size_t size, const char *text) { snprintf(to, size, "%.*s", (int)size - 1, text); }

/* ---- places ------------------------------------------------------------------------------------------------------ */

static struct tagc_live_comm *live_comm_of(struct tagc_live_rank *r, uint32_t id) {
  const size_t before = r->comm_count;
  if (!id || id > COMMS_MOST)
    return NULL;
  if (!grow_array((void **)&r->comms, &r->comm_count, id, sizeof *r->comms)) {
    r->no_memory = true;
    return NULL;
  }
  for (size_t i = before; i < r->comm_count; i++) {
    r->comms[i].rank = r->comms[i].nranks = -1;
    tagc_ab_begin(&r->comms[i].ab, r->window);
  }
  return &r->comms[id - 1];
}

/* Slots and all-gathers take turns in the list. */
static struct tagc_live_layer *live_layer_of(struct tagc_live_rank *r, struct tagc_live_comm *comm, uint32_t index,
                                             bool gathers) {
  const size_t at = 2 * (size_t)index + gathers, before = comm->layer_count;
  if (index > LAYERS_MOST)
    return NULL;
  if (!grow_array((void **)&comm->layers, &comm->layer_count, at + 1, sizeof *comm->layers)) {
    r->no_memory = true;
    return NULL;
  }
  for (size_t i = before; i < comm->layer_count; i++)
    comm->layers[i].error = comm->layers[i].residual = NAN;
  return &comm->layers[at];
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void learn_process(struct tagc_live_rank *r, const struct tagc_trace_process *record) {
  r->pid = record->pid;
  copy_words(r->host, sizeof r->host, tagc_trace_text(&record->record, record->text, 0));
  copy_words(r->program, sizeof r->program, tagc_trace_text(&record->record, record->text, 1));
}

static void learn_name(struct tagc_live_rank *r, const struct tagc_trace_name *record) {
  if (record->table != TAGC_TRACE_REASONS || record->code >= TAGC_LIVE_REASONS)
    return;
  free(r->reasons[record->code]);
  r->reasons[record->code] = strdup(tagc_trace_text(&record->record, record->text, 0));
  r->no_memory |= !r->reasons[record->code];
}

static void learn_options(struct tagc_live_rank *r, const struct tagc_trace_options *record) {
  const char *text = tagc_trace_text(&record->record, record->text, 0), *line = strstr(text, "TAGC_AB="), *end;
  r->sides = strstr(text, "TAGC_MODE=ab\n") != NULL;
  if (!line || !tagc_units_read(line + 8, false, &r->window, &end) || !r->window)
    r->window = 20;
}

static void learn_comm(struct tagc_live_rank *r, const struct tagc_trace_comm *record) {
  struct tagc_live_comm *comm = live_comm_of(r, record->record.comm);
  if (!comm)
    return;
  comm->rank = record->rank;
  comm->nranks = record->nranks;
  comm->hosts = record->hosts;
  comm->on_host = record->on_host;
  comm->identity = record->identity;
}

/* The slots of another lock are other ones. */
static void learn_lock(struct tagc_live_rank *r, const struct tagc_trace_lock *record) {
  struct tagc_live_comm *comm = live_comm_of(r, record->record.comm);
  if (!comm)
    return;
  if (record->slots) { /* else the old ones are of interest still */
    comm->layer_count = 0;
    comm->gradients = record->gradients;
    copy_words(comm->model, sizeof comm->model, tagc_trace_text(&record->record, record->text, 0));
  }
  comm->lock = record->lock;
}

static void learn_slot(struct tagc_live_rank *r, const struct tagc_trace_slot *record) {
  struct tagc_live_comm *comm = live_comm_of(r, record->record.comm);
  struct tagc_live_layer *layer = comm ? live_layer_of(r, comm, record->slot, false) : NULL;
  if (!layer)
    return;
  copy_words(layer->name, sizeof layer->name, tagc_trace_text(&record->record, record->text, 0));
  copy_words(layer->codec, sizeof layer->codec, tagc_trace_text(&record->record, record->text, 1));
}

static void learn_allgather(struct tagc_live_rank *r, const struct tagc_trace_allgather *record) {
  struct tagc_live_comm *comm = live_comm_of(r, record->record.comm);
  const size_t slot = 2 * (size_t)record->slot;
  struct tagc_live_layer *layer = comm ? live_layer_of(r, comm, record->allgather, true) : NULL;
  if (!layer)
    return;
  layer->gathers = true;
  layer->again = record->again;
  copy_words(layer->name, sizeof layer->name, slot < comm->layer_count ? comm->layers[slot].name : "");
  copy_words(layer->codec, sizeof layer->codec, tagc_trace_text(&record->record, record->text, 0));
}

static double sane(uint64_t bytes) { return (double)bytes < BYTES_MOST ? (double)bytes : 0; }

static void learn_call(struct tagc_live_rank *r, const struct tagc_trace_call *record) {
  struct tagc_live_comm *comm = live_comm_of(r, record->record.comm);
  struct tagc_live_sums *sums = &r->sums;
  const double sent = sane(record->inside) + sane(record->between),
               plain = sane(record->plain_inside) + sane(record->plain_between);
  sums->calls++;
  sums->host_ns += record->host_ns;
  sums->sent += sent;
  sums->plain += plain;
  sums->sent_between += sane(record->between);
  sums->plain_between += sane(record->plain_between);
  if (!comm)
    return;
  comm->bytes += sane(record->raw_bytes);
  const bool gathers = record->allgather > 0;
  if (record->slot < 0 && !gathers)
    return;
  if (record->reason < TAGC_LIVE_REASONS)
    comm->reasons[record->reason]++;
  struct tagc_live_layer *layer = live_layer_of(r, comm, gathers ? record->allgather : (uint32_t)record->slot, gathers);
  if (!layer || record->lock != comm->lock)
    return;
  layer->calls++;
  if (record->reason >= TAGC_LIVE_REASONS || !r->reasons[record->reason] ||
      strcmp(r->reasons[record->reason], "compressed") != 0)
    return;
  const bool between = comm->hosts > 1; /* told at the vote, before any is compressed */
  layer->compressed++;
  layer->sent += between ? sane(record->between) : sent;
  layer->plain += between ? sane(record->plain_between) : plain;
}

/* A call that hides a part of its work is under way for less. */
static void learn_times(struct tagc_live_rank *r, const struct tagc_trace_times *record) {
  const uint64_t coding = record->encode_ns + record->decode_ns;
  r->sums.wire_ns +=
    record->sum_ns + record->exchange_ns + (record->hidden_ns < coding ? coding - record->hidden_ns : 0);
}

static struct tagc_live_sums sums_since(const struct tagc_live_sums *now, const struct tagc_live_sums *then) {
  return (struct tagc_live_sums){
    .calls = now->calls - then->calls,
    .host_ns = now->host_ns - then->host_ns,
    .wire_ns = now->wire_ns - then->wire_ns,
    .sent = now->sent - then->sent,
    .plain = now->plain - then->plain,
    .sent_between = now->sent_between - then->sent_between,
    .plain_between = now->plain_between - then->plain_between,
  };
}

static void learn_cycle(struct tagc_live_rank *r, const struct tagc_trace_cycle *record) {
  struct tagc_live_comm *comm = live_comm_of(r, record->record.comm);
  if (!comm)
    return;
  const bool whole = !record->disturbed && record->ended_ns > record->began_ns;
  const double ns = whole ? (double)(record->ended_ns - record->began_ns) : NAN;
  const size_t at = comm->steps++ % TAGC_LIVE_RECENT;
  comm->recent[at].ns = ns;
  comm->recent[at].sums = sums_since(&r->sums, &comm->last);
  comm->last = r->sums;
  if (!r->sides || record->side > TAGC_AB_COMPRESSED) /* without windows the comparison would keep all steps */
    return;
  const struct tagc_ab_step step = {record->lock, record->cycle, (enum tagc_ab_side)record->side, whole, 1e-6 * ns};
  tagc_ab_add(&comm->ab, &step);
}

static void learn_state(struct tagc_live_rank *r, const struct tagc_trace_state *record) {
  struct tagc_live_comm *comm = live_comm_of(r, record->record.comm);
  const bool gathers = record->allgather > 0;
  struct tagc_live_layer *layer = comm && record->lock == comm->lock
                                    ? live_layer_of(r, comm, gathers ? record->allgather : record->slot, gathers)
                                    : NULL;
  if (!layer)
    return;
  layer->error = isnan(record->error) ? layer->error : record->error;
  layer->residual = isnan(record->residual_norm) ? layer->residual : record->residual_norm;
}

static void learn_record(void *rank, const struct tagc_trace_record *record) {
  struct tagc_live_rank *r = rank;
  const void *as = record;
  switch (record->kind) {
  case TAGC_TRACE_PROCESS: learn_process(r, as); break;
  case TAGC_TRACE_NAME: learn_name(r, as); break;
  case TAGC_TRACE_OPTIONS: learn_options(r, as); break;
  case TAGC_TRACE_COMM: learn_comm(r, as); break;
  case TAGC_TRACE_LOCK: learn_lock(r, as); break;
  case TAGC_TRACE_SLOT: learn_slot(r, as); break;
  case TAGC_TRACE_ALLGATHER: learn_allgather(r, as); break;
  case TAGC_TRACE_CALL: learn_call(r, as); break;
  case TAGC_TRACE_TIMES: learn_times(r, as); break;
  case TAGC_TRACE_CYCLE: learn_cycle(r, as); break;
  case TAGC_TRACE_STATE: learn_state(r, as); break;
  case TAGC_TRACE_END: r->ended = true; break;
  default: break;
  }
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

static void free_live_rank(struct tagc_live_rank *r) {
  for (size_t i = 0; i < r->comm_count; i++) {
    free(r->comms[i].layers);
    tagc_ab_free(&r->comms[i].ab);
  }
  for (size_t i = 0; i < TAGC_LIVE_REASONS; i++)
    free(r->reasons[i]);
  free(r->comms);
  free(r->path);
}

void tagc_live_free(struct tagc_live *live) {
  for (size_t i = 0; i < live->count; i++)
    free_live_rank(&live->ranks[i]);
  free(live->ranks);
  *live = (struct tagc_live){.count = 0};
}

static bool is_followed(const struct tagc_live *live, const char *path) {
  for (size_t i = 0; i < live->count; i++)
    if (strcmp(live->ranks[i].path, path) == 0)
      return true;
  return false;
}

static void follow_rank(struct tagc_live *live, const char *path) {
  char *copy = strdup(path);
  size_t count = live->count;
  if (!copy || !grow_array((void **)&live->ranks, &count, live->count + 1, sizeof *live->ranks)) {
    free(copy);
    live->no_memory = true;
    return;
  }
  live->ranks[live->count++] = (struct tagc_live_rank){.path = copy, .window = 20};
}

static int job_rank(const struct tagc_live_rank *r) {
  const struct tagc_live_comm *main = tagc_live_main(r);
  return main ? main->rank : -1;
}

static int compare_ranks(const void *left, const void *right) {
  const struct tagc_live_rank *a = left, *b = right;
  const int order = (job_rank(a) > job_rank(b)) - (job_rank(a) < job_rank(b));
  return order ? order : strcmp(a->path, b->path);
}

/* A word without traces is a path itself (paths.h). */
static bool may_come_later(const char *path) { return access(path, F_OK) != 0 && errno == ENOENT; }

void tagc_live_read(struct tagc_live *live, const struct tagc_paths *paths) {
  for (size_t i = 0; i < paths->count; i++)
    if (!is_followed(live, paths->paths[i]) && !may_come_later(paths->paths[i]))
      follow_rank(live, paths->paths[i]);
  for (size_t i = 0; i < live->count; i++) {
    struct tagc_live_rank *r = &live->ranks[i];
    r->follow.path = r->path;
    tagc_follow_read(&r->follow, learn_record, r);
    live->no_memory |= r->no_memory;
  }
  if (live->count)
    qsort(live->ranks, live->count, sizeof *live->ranks, compare_ranks);
}

struct tagc_live_comm *tagc_live_main(const struct tagc_live_rank *r) {
  struct tagc_live_comm *main = NULL;
  for (size_t i = 0; i < r->comm_count; i++) {
    struct tagc_live_comm *comm = &r->comms[i];
    if (comm->steps && (!main || comm->gradients > main->gradients ||
                        (comm->gradients == main->gradients && comm->bytes > main->bytes)))
      main = comm;
  }
  return main;
}

bool tagc_live_is_of_job(const struct tagc_live *live, const struct tagc_live_rank *rank) {
  const struct tagc_live_rank *newest = live->ranks;
  for (size_t i = 1; i < live->count; i++)
    if (live->ranks[i].follow.changed > newest->follow.changed)
      newest = &live->ranks[i];
  const struct tagc_live_comm *one = tagc_live_main(rank), *other = tagc_live_main(newest);
  return rank == newest || !one || !other || !one->identity || !other->identity || one->identity == other->identity;
}

enum tagc_live_state tagc_live_state(const struct tagc_live *live, double now) {
  enum tagc_live_state state = TAGC_LIVE_ENDED;
  if (!live->count)
    return now - live->began < TAGC_LIVE_GONE_SECONDS ? TAGC_LIVE_RUNNING : TAGC_LIVE_GONE;
  for (size_t i = 0; i < live->count; i++) {
    const struct tagc_live_rank *r = &live->ranks[i];
    if (r->ended || *r->follow.why || !tagc_live_is_of_job(live, r))
      continue;
    if (now - r->follow.changed < TAGC_LIVE_GONE_SECONDS)
      return TAGC_LIVE_RUNNING;
    state = TAGC_LIVE_GONE;
  }
  return state;
}
