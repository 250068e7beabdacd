/* SPDX-License-Identifier: BSD-3-Clause
 * Each shard is walked twice: to count the runs, and to write them.
 */
#include "layermap/model/parts.h"

#include <stdlib.h>
#include <string.h>

#include "env/hash.h"

struct walk {
  const bool *is_selected;
  struct tagc_parts *parts;
  bool writes;        /* else counts */
  bool any;           /* this shard has had a segment */
  bool selected;      /* part of the last segment, perhaps of the shard before: padding follows it */
  size_t count[2];    /* runs so far, of all shards */
  uint64_t packed[2]; /* elements of this shard so far */
};

/* A segment continues the previous run if it goes to the same part: segments of a shard have no gaps. */
static bool count_segment(const struct tagc_segment *segment, void *data) {
  struct walk *w = data;
  const bool selected = segment->member >= 0 ? w->is_selected[segment->member] : w->selected;
  const int part = selected ? 0 : 1;
  const bool continues = w->any && w->selected == selected;
  w->count[part] += !continues;
  if (w->writes) {
    struct tagc_run *run = &w->parts->runs[part][w->count[part] - 1];
    if (continues)
      run->length += segment->length;
    else
      *run = (struct tagc_run){segment->offset, w->packed[part], segment->length};
  }
  w->packed[part] += segment->length;
  w->any = true;
  w->selected = selected;
  return true;
}

static void walk_all(struct walk *w, const struct tagc_layer *layer, int nranks) {
  struct tagc_parts *p = w->parts;
  w->count[0] = w->count[1] = 0;
  w->selected = true;
  for (size_t shard = 0; shard < p->shards; shard++) {
    w->packed[0] = w->packed[1] = 0;
    w->any = false;
    for (int part = 0; part < 2 && w->writes; part++)
      p->first[part][shard] = w->count[part];
    tagc_layout_walk(layer->layout, layer->members, layer->count, nranks, layer->element_bytes, (int)shard,
                     count_segment, w);
    p->selected = w->packed[0] > p->selected ? w->packed[0] : p->selected;
    p->rest = w->packed[1] > p->rest ? w->packed[1] : p->rest;
  }
  for (int part = 0; part < 2 && w->writes; part++)
    p->first[part][p->shards] = w->count[part];
}

/* One allocation: the parts, their places of runs, the runs. */
static struct tagc_parts *alloc_parts(size_t shards, const size_t count[2]) {
  const size_t places = 2 * (shards + 1) * sizeof(size_t), runs = (count[0] + count[1]) * sizeof(struct tagc_run);
  struct tagc_parts *p = calloc(1, sizeof *p + runs + places);
  if (!p)
    return NULL;
  p->runs[0] = (struct tagc_run *)(void *)(p + 1);
  p->runs[1] = p->runs[0] + count[0];
  p->first[0] = (size_t *)(void *)(p->runs[1] + count[1]);
  p->first[1] = p->first[0] + shards + 1;
  return p;
}

struct tagc_parts *tagc_parts_create(const struct tagc_layer *layer, int nranks, const bool *is_selected) {
  const bool uniform = tagc_layout_is_uniform(layer->layout);
  struct tagc_parts none = {.uniform = uniform, .shards = uniform ? 1 : (size_t)nranks};
  struct walk w = {.is_selected = is_selected, .parts = &none};
  walk_all(&w, layer, nranks);
  struct tagc_parts *p = alloc_parts(none.shards, w.count);
  if (!p)
    return NULL;
  p->uniform = uniform;
  p->shards = none.shards;
  w.parts = p;
  w.writes = true;
  walk_all(&w, layer, nranks);
  return p;
}

void tagc_parts_free(struct tagc_parts *parts) { free(parts); }

static size_t run_count(const struct tagc_parts *parts) {
  return parts->first[0][parts->shards] + parts->first[1][parts->shards];
}

bool tagc_parts_equal(const struct tagc_parts *one, const struct tagc_parts *other) {
  return one->selected == other->selected && one->rest == other->rest && one->uniform == other->uniform &&
         one->shards == other->shards && run_count(one) == run_count(other) &&
         memcmp(one->first[0], other->first[0], 2 * (one->shards + 1) * sizeof *one->first[0]) == 0 &&
         memcmp(one->runs[0], other->runs[0], run_count(one) * sizeof *one->runs[0]) == 0;
}

uint64_t tagc_parts_elements(const struct tagc_parts *parts, int nranks) {
  uint64_t elements = 0;
  for (size_t i = 0; i < parts->first[0][parts->shards]; i++)
    elements += parts->runs[0][i].length;
  return parts->uniform ? elements * (uint64_t)nranks : elements;
}

static uint64_t stir(uint64_t digest, uint64_t word) { return tagc_hash_add(digest, &word, sizeof word); }

uint64_t tagc_parts_digest(const struct tagc_parts *parts) {
  uint64_t digest = stir(stir(TAGC_HASH_START, parts->selected), parts->rest);
  digest = stir(stir(digest, parts->uniform), parts->shards);
  for (int part = 0; part < 2; part++) {
    for (size_t i = 0; i <= parts->shards; i++)
      digest = stir(digest, parts->first[part][i]);
    for (size_t i = 0; i < parts->first[part][parts->shards]; i++)
      digest =
        stir(stir(stir(digest, parts->runs[part][i].from), parts->runs[part][i].to), parts->runs[part][i].length);
  }
  return digest ? digest : 1;
}
