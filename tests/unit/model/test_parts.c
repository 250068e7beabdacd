/* SPDX-License-Identifier: BSD-3-Clause
 * layermap/model/parts against a slow reference: every element of every shard is located.
 */
#include <stdlib.h>
#include <string.h>

#include "layermap/model/parts.h"
#include "tests/unit/tap.h"

enum { MEMBERS = 6, MOST_RANKS = 7, ROOM = 4096 };

/* Sizes that no number of ranks divides, and one with fewer rows than ranks. */
static const struct tagc_parameter parameters[MEMBERS] = {
  {.name = "norm", .rows = 13, .columns = 1}, {.name = "q", .rows = 13, .columns = 11},
  {.name = "o", .rows = 11, .columns = 13},   {.name = "gate", .rows = 2, .columns = 1},
  {.name = "up", .rows = 29, .columns = 13},  {.name = "down", .rows = 13, .columns = 29},
};
static struct tagc_member members[MEMBERS];

/* For each element of a shard: 1 if it is selected. */
struct reference {
  const bool *is_selected;
  bool uniform, last;
  uint64_t n;
  bool selected[ROOM]; /* in uniform layouts padding goes where shard 0, which has none, has an element */
};

static bool visit(const struct tagc_segment *segment, void *data) {
  struct reference *r = data;
  for (uint64_t i = segment->offset; i < segment->offset + segment->length; i++)
    if (segment->member >= 0)
      r->selected[i] = r->is_selected[segment->member];
    else if (!r->uniform)
      r->selected[i] = r->last;
  r->last = r->selected[segment->offset];
  r->n += segment->length;
  return true;
}

/* The number of elements of the part that are not where the reference has them, and of runs that should be merged. */
static uint64_t wrong(const struct tagc_parts *p, int part, size_t shard, const struct reference *r) {
  uint64_t at = 0, bad = 0, to = 0;
  const size_t like = p->uniform ? 0 : shard;
  for (size_t i = p->first[part][like]; i < p->first[part][like + 1]; i++) {
    const struct tagc_run *run = &p->runs[part][i];
    bad += run->length == 0 || run->to != to || (i > p->first[part][like] && run->from == at);
    for (; at < run->from; at++)
      bad += r->selected[at] == (part == 0);
    for (; at < run->from + run->length; at++, to++)
      bad += r->selected[at] != (part == 0);
  }
  for (; at < r->n; at++)
    bad += r->selected[at] == (part == 0);
  return bad + (to > (part == 0 ? p->selected : p->rest));
}

static bool check(enum tagc_layout_kind layout, int nranks, unsigned chosen) {
  static struct reference r;
  const struct tagc_layer layer = {
    .name = "block.0", .members = members, .count = MEMBERS, .layout = layout, .element_bytes = 4};
  bool is_selected[MEMBERS];
  uint64_t bad = 0, most[2] = {0, 0}, elements = 0;
  for (int i = 0; i < MEMBERS; i++)
    is_selected[i] = chosen >> i & 1;
  struct tagc_parts *p = tagc_parts_create(&layer, nranks, is_selected),
                    *again = tagc_parts_create(&layer, nranks, is_selected);
  r = (struct reference){.is_selected = is_selected, .uniform = tagc_layout_is_uniform(layout), .last = true};
  for (int shard = 0; shard < nranks; shard++) {
    uint64_t count[2] = {0, 0};
    r.n = 0;
    tagc_layout_walk(layout, members, MEMBERS, nranks, 4, shard, visit, &r);
    for (uint64_t i = 0; i < r.n; i++)
      count[!r.selected[i]]++;
    for (int part = 0; part < 2; part++) {
      most[part] = count[part] > most[part] ? count[part] : most[part];
      bad += wrong(p, part, (size_t)shard, &r);
    }
    elements += count[0];
  }
  bad += p->selected != most[0] || p->rest != most[1] || tagc_parts_elements(p, nranks) != elements;
  bad += !tagc_parts_equal(p, again) || tagc_parts_digest(p) != tagc_parts_digest(again) || !tagc_parts_digest(p);
  tagc_parts_free(p);
  tagc_parts_free(again);
  return !bad;
}

static void differ(void) {
  const struct tagc_layer layer = {
    .members = members, .count = MEMBERS, .layout = TAGC_LAYOUT_FSDP1, .element_bytes = 4};
  const bool one[MEMBERS] = {[1] = true}, other[MEMBERS] = {[2] = true};
  struct tagc_parts *p = tagc_parts_create(&layer, 3, one), *q = tagc_parts_create(&layer, 3, other);
  ok(!tagc_parts_equal(p, q) && tagc_parts_digest(p) != tagc_parts_digest(q),
     "two of as many elements at different places are not equal");
  tagc_parts_free(p);
  tagc_parts_free(q);
}

int main(void) {
  for (int i = 0; i < MEMBERS; i++)
    members[i] = (struct tagc_member){&parameters[i], -1, ""};
  for (enum tagc_layout_kind layout = 0; layout < TAGC_LAYOUTS; layout++) {
    int bad = 0;
    for (int nranks = 2; nranks <= MOST_RANKS; nranks++)
      for (unsigned chosen = 0; chosen < 1u << MEMBERS; chosen++)
        bad += !check(layout, nranks, chosen);
    ok(bad == 0, "%s: every element of every shard goes to its place, for 2 to %d ranks and every selection",
       tagc_layout_name(layout), MOST_RANKS);
  }
  differ();
  return tap_done();
}
