/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/read/placement.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/read/merge.h"

/* Communicators are created before most calls: later ones do not justify a second full reading. */
enum { BEGINNING = 1 << 16 };

/* A rank of a communicator. */
struct seen {
  uint64_t identity, host;
  uint32_t rank, nranks;
};

/* A host of a communicator whose ranks have all been seen. */
struct place {
  uint64_t identity, host;
  struct tagc_comm_hosts comm_hosts;
};

struct tagc_placement {
  struct place *list; /* by identity and host */
  size_t count;
};

struct ranks {
  struct seen *list;
  size_t count;
};

static int compare_u64(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

static int by_rank(const void *left, const void *right) {
  const struct seen *a = left, *b = right;
  int order = compare_u64(a->identity, b->identity);
  order = order ? order : compare_u64(a->rank, b->rank);
  return order ? order : compare_u64(a->host, b->host);
}

static int by_host(const void *left, const void *right) {
  const struct seen *a = left, *b = right;
  int order = compare_u64(a->identity, b->identity);
  return order ? order : compare_u64(a->host, b->host);
}

uint64_t tagc_placement_host(const struct tagc_trace_process *record) {
  return strtoull(tagc_trace_text(&record->record, record->text, 3), NULL, 16);
}

static bool read_beginning(struct ranks *ranks, struct tagc_trace_file *file) {
  const struct tagc_trace_record *record;
  uint64_t host = 0;
  for (int i = 0; i < BEGINNING && (record = tagc_trace_next(file)); i++) {
    const struct tagc_trace_comm *comm = (const void *)record;
    if (record->kind == TAGC_TRACE_PROCESS)
      host = tagc_placement_host((const void *)record);
    if (record->kind != TAGC_TRACE_COMM || !host || !comm->identity || comm->rank < 0 || comm->rank >= comm->nranks)
      continue;
    if (!TAGC_SUM_ROOM(ranks->list, ranks->count))
      return false;
    ranks->list[ranks->count++] = (struct seen){comm->identity, host, (uint32_t)comm->rank, (uint32_t)comm->nranks};
  }
  return true;
}

/* How many entries from there on are of the same communicator (and, with `host`, on the same host). */
static size_t run_of(const struct ranks *ranks, size_t from, bool host) {
  const struct seen *first = &ranks->list[from];
  size_t n = 1;
  while (from + n < ranks->count && first[n].identity == first->identity && (!host || first[n].host == first->host))
    n++;
  return n;
}

/* True if these are all ranks of a communicator, each once. */
static bool is_whole_comm(const struct seen *seen, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (seen[i].rank != i || seen[i].nranks != count)
      return false;
  return true;
}

/* Removes duplicates, and communicators with missing ranks. */
static void keep_whole(struct ranks *ranks) {
  size_t kept = 0, unique = 0;
  for (size_t i = 0; i < ranks->count; i++)
    if (!i || by_rank(&ranks->list[i - 1], &ranks->list[i]) != 0 || ranks->list[i - 1].nranks != ranks->list[i].nranks)
      ranks->list[unique++] = ranks->list[i];
  ranks->count = unique;
  for (size_t i = 0, n; i < unique; i += n) {
    n = run_of(ranks, i, false);
    if (!is_whole_comm(&ranks->list[i], n))
      continue;
    memmove(&ranks->list[kept], &ranks->list[i], n * sizeof *ranks->list);
    kept += n;
  }
  ranks->count = kept;
}

static bool place_ranks(struct tagc_placement *placement, struct ranks *ranks) {
  if (!ranks->count)
    return true;
  qsort(ranks->list, ranks->count, sizeof *ranks->list, by_rank);
  keep_whole(ranks);
  qsort(ranks->list, ranks->count, sizeof *ranks->list, by_host);
  for (size_t i = 0, n; i < ranks->count; i += n) {
    const size_t first = placement->count;
    n = run_of(ranks, i, false);
    for (size_t j = i, local; j < i + n; j += local) {
      local = run_of(ranks, j, true);
      if (!TAGC_SUM_ROOM(placement->list, placement->count))
        return false;
      placement->list[placement->count++] =
        (struct place){ranks->list[j].identity, ranks->list[j].host, {.nranks = (uint32_t)n, .local = (uint32_t)local}};
    }
    for (size_t j = first; j < placement->count; j++)
      placement->list[j].comm_hosts.hosts = (uint32_t)(placement->count - first);
  }
  return true;
}

struct tagc_placement *tagc_placement_read(char *const *paths, size_t count) {
  char why[TAGC_TRACE_WHY];
  struct tagc_placement *placement = calloc(1, sizeof *placement);
  struct ranks ranks = {0};
  bool done = placement != NULL;
  for (size_t i = 0; i < count && done; i++) {
    struct tagc_trace_file *file = tagc_trace_open(paths[i], why);
    done = !file || read_beginning(&ranks, file);
    tagc_trace_close(file);
  }
  done = done && place_ranks(placement, &ranks);
  free(ranks.list);
  if (done)
    return placement;
  tagc_placement_free(placement);
  return NULL;
}

void tagc_placement_free(struct tagc_placement *placement) {
  if (placement)
    free(placement->list);
  free(placement);
}

struct tagc_comm_hosts tagc_placement_of(const struct tagc_placement *placement, uint64_t identity, uint64_t host) {
  size_t from = 0, to = placement->count;
  while (from < to) {
    const size_t middle = from + (to - from) / 2;
    const struct place *at = &placement->list[middle];
    const int order = at->identity == identity ? compare_u64(at->host, host) : compare_u64(at->identity, identity);
    if (order == 0)
      return at->comm_hosts;
    if (order < 0)
      from = middle + 1;
    else
      to = middle;
  }
  return (struct tagc_comm_hosts){0};
}

uint64_t tagc_placement_between(const struct tagc_comm_hosts *comm_hosts, uint64_t bytes, bool messages) {
  if (comm_hosts->hosts < 2)
    return 0;
  return messages ? bytes * (comm_hosts->nranks - comm_hosts->local) / (comm_hosts->nranks - 1)
                  : bytes * comm_hosts->hosts / comm_hosts->nranks;
}
