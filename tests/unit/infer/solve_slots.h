/* SPDX-License-Identifier: BSD-3-Clause
 * Slots that a framework would make for a model, for tests of its identification. Uses nothing of match.c.
 */
#ifndef TESTS_UNIT_INFER_SOLVE_SLOTS_H
#define TESTS_UNIT_INFER_SOLVE_SLOTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layermap/cycle/cycle.h"
#include "layermap/model/families.h"
#include "layermap/model/layout.h"

enum { MOST_SLOTS = 16384, MOST_MEMBERS = 200000 };

enum wrapping { WRAP_ROOT, WRAP_APART, WRAP_SUB_BLOCKS, WRAP_PAIRS, WRAP_NO_ROOT, WRAP_WHOLE, WRAP_BUCKETS, WRAPPINGS };
static const char *const wrapping_names[WRAPPINGS] = {
  "blocks and root", "blocks, embedding, head", "attention and MLP apart", "pairs of blocks", "blocks alone", "whole",
  "buckets"};

struct slots {
  uint64_t counts[MOST_SLOTS]; /* in forward order */
  size_t count;
  struct tagc_slot_info infos[MOST_SLOTS]; /* in the order of calls */
};

struct slot_maker {
  struct slots *slots;
  const struct tagc_model *model;
  enum tagc_layout_kind layout;
  int nranks;
  struct tagc_member members[MOST_MEMBERS];
  size_t count;
};

/* Collects the parameters of a place that have one of `kinds` (0: all); with `inverse` those that have none. */
static void collect(struct slot_maker *m, size_t place, uint32_t kinds, bool inverse) {
  const struct tagc_unit *unit = &m->model->units[m->model->places[place].unit];
  for (size_t i = 0; i < unit->count; i++)
    if (!kinds || !(unit->parameters[i].kinds & kinds) == inverse)
      m->members[m->count++] = (struct tagc_member){&unit->parameters[i], m->model->places[place].block, unit->name};
}

static void finish(struct slot_maker *m) {
  m->slots->counts[m->slots->count++] = tagc_layout_shard(m->layout, m->members, m->count, m->nranks, 4);
  m->count = 0;
}

/* Parameters come in reverse. Megatron's bucket ends with the parameter that fills it, DeepSpeed's before an excess
 * one. */
static void make_buckets(struct slot_maker *m) {
  static uint64_t reversed[MOST_SLOTS];
  static struct tagc_member all[MOST_MEMBERS];
  bool megatron = m->layout == TAGC_LAYOUT_MEGATRON;
  uint64_t size = !megatron ? 500000000 : m->nranks > 40 ? (uint64_t)m->nranks * 1000000 : 40000000, elements = 0;
  size_t count = 0, last;
  for (size_t place = 0; place < m->model->place_count; place++)
    collect(m, place, 0, false);
  size_t left = last = m->count;
  memcpy(all, m->members, left * sizeof *all);
  while (left--) {
    elements += all[left].parameter->rows * all[left].parameter->columns;
    uint64_t next = left ? all[left - 1].parameter->rows * all[left - 1].parameter->columns : 0;
    if (left && elements + (megatron ? 0 : next) < size + !megatron)
      continue;
    reversed[count++] = tagc_layout_shard(m->layout, all + left, last - left, m->nranks, 4);
    last = left;
    elements = 0;
  }
  while (count)
    m->slots->counts[m->slots->count++] = reversed[--count];
}

static void make_blocks(struct slot_maker *m, enum wrapping wrapping) {
  const uint32_t mlp = TAGC_KIND_MLP | TAGC_KIND_EXPERT;
  for (size_t place = 0; place < m->model->place_count; place++) {
    if (m->model->places[place].block < 0)
      continue;
    if (wrapping == WRAP_SUB_BLOCKS) {
      collect(m, place, TAGC_KIND_ATTN, false);
      finish(m);
      collect(m, place, mlp, false);
      finish(m);
      continue;
    }
    collect(m, place, 0, false);
    if (wrapping == WRAP_PAIRS && place + 1 < m->model->place_count && m->model->places[place + 1].block >= 0)
      collect(m, ++place, 0, false);
    finish(m);
  }
}

/* Makes the slots of the model's calls, with this wrapping and layout. */
static void make_slots(struct slots *slots, const struct tagc_model *model, enum wrapping wrapping,
                       enum tagc_layout_kind layout, int nranks) {
  static struct slot_maker maker;
  struct slot_maker *m = &maker;
  *m = (struct slot_maker){.slots = slots, .model = model, .layout = layout, .nranks = nranks};
  slots->count = 0;
  if (wrapping == WRAP_BUCKETS) {
    make_buckets(m);
  } else if (wrapping == WRAP_WHOLE) {
    for (size_t place = 0; place < model->place_count; place++)
      collect(m, place, 0, false);
    finish(m);
  } else {
    if (wrapping != WRAP_NO_ROOT) {
      for (size_t place = 0; place < model->place_count; place++)
        if (model->places[place].block >= 0 ? wrapping == WRAP_SUB_BLOCKS : wrapping != WRAP_APART || place == 0)
          collect(m, place, model->places[place].block >= 0 ? TAGC_KIND_ATTN | TAGC_KIND_MLP | TAGC_KIND_EXPERT : 0,
                  model->places[place].block >= 0);
      finish(m);
    }
    make_blocks(m, wrapping);
    if (wrapping == WRAP_APART) {
      collect(m, model->place_count - 1, 0, false);
      finish(m);
    }
  }
  for (size_t i = 0; i < slots->count; i++) {
    struct tagc_slot_info *info = &slots->infos[slots->count - 1 - i];
    *info = (struct tagc_slot_info){.unit = (uint32_t)i, .gathered = layout != TAGC_LAYOUT_ZERO3};
    /* torch's fully_shard averages, the others add. */
    info->signature = (struct tagc_signature){.count = slots->counts[i],
                                              .collective = TAGC_COLL_REDUCE_SCATTER,
                                              .dtype = 7,
                                              .op = layout == TAGC_LAYOUT_FSDP2,
                                              .is_float = true};
    snprintf(info->name, sizeof info->name, "unit%zu", i);
  }
}

#endif
