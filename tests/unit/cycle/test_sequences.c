/* SPDX-License-Identifier: BSD-3-Clause
 * The files of calls in tests/fixtures, recorded from real programs or made by their frameworks' rules. The cycle of
 * each is found. Without a map, every reduce-scatter in it has the right unit, in forward order, and the right name.
 *
 * When      A lock has seen a cycle twice, and the first call of the third one; its anchor may be anywhere in the step.
 *           So without the floor of 256 calls it must be there with the fourth step at the latest, and the slots with
 *           it; with the floor, one step after it at the latest. What was before the steps (broadcasts, a first step
 *           unlike the others) does not count, nor does it for the floor of cycles that are no whole step. All-reduces
 *           that are gradients are proven, and wait for no floor.
 *           Calls of the start that could come back are waited for.
 * Comments  of the files say what must come out: see calls_file.py there.
 */
#include <stdlib.h>
#include <string.h>

#include "layermap/cycle/calls.h"
#include "layermap/cycle/evidence.h"
#include "layermap/infer/layers.h"
#include "layermap/model/text.h"
#include "tests/unit/fixtures.h"
#include "tests/unit/tap.h"

#define NO_UNIT UINT32_MAX
enum { NONE = -1, MOST = 1024, LONGEST = 400000, FLOOR = 256 };

/* The expectations in a file's comments. */
struct expected {
  size_t step, unit_count, name_count, allgather_count, wait;
  uint32_t units[MOST];
  char names[MOST][32];
  int allgathers[MOST]; /* units, or NONE */
  bool guesses[MOST];   /* certainty is not required */
  bool all_reduces;     /* they are the slots: if some are gradients, or without reduce-scatters */
  int gradients;        /* how many of these count as gradients; NONE: unspecified */
};

struct outcome {
  struct tagc_cycle *cycle;
  struct tagc_layers *layers; /* of the cycle that was locked last */
  size_t played, locked_at;
  unsigned locks;
  unsigned reductions, wrong, misnamed; /* of the last step */
  int gradients;                        /* likewise: how many count as gradients */
  char misnomer[2 * TAGC_UNIT_NAME + 16];
  unsigned allgathers, mispaired, unsure, again; /* likewise; unsure of those that should be sure */
};

/* The words behind "# step", "# units" and "# names". */
static void read_comment(struct expected *e, char *line) {
  char *rest = NULL, *what = strtok_r(line, " ", &rest);
  if (!what || strcmp(what, "#") != 0 || !(what = strtok_r(NULL, " ", &rest)))
    return;
  for (char *word = strtok_r(NULL, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
    if (strcmp(what, "step") == 0)
      e->step = (size_t)strtoul(word, NULL, 10);
    else if (strcmp(what, "wait") == 0)
      e->wait = (size_t)strtoul(word, NULL, 10);
    else if (strcmp(what, "gradients") == 0)
      e->gradients = (int)strtol(word, NULL, 10);
    else if (strcmp(what, "units") == 0 && e->unit_count < MOST)
      e->units[e->unit_count++] = *word == '-' ? NO_UNIT : (uint32_t)strtoul(word, NULL, 10);
    else if (strcmp(what, "names") == 0 && e->name_count < MOST)
      snprintf(e->names[e->name_count++], sizeof *e->names, "%s", word);
    else if (strcmp(what, "gathers") == 0 && e->allgather_count < MOST) {
      e->guesses[e->allgather_count] = strchr(word, '?') != NULL;
      e->allgathers[e->allgather_count++] = *word == '-' ? NONE : (int)strtol(word, NULL, 10);
    }
}

static bool read_expected(struct expected *e, const char *path) {
  struct tagc_complaint complaint;
  size_t bytes;
  char *text = tagc_text_load(path, TAGC_CALLS_BYTES, &bytes, &complaint), *rest = NULL;
  char *copy = text ? malloc(bytes + 1) : NULL;
  memset(e, 0, sizeof *e);
  e->gradients = NONE;
  if (copy) {
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
      read_comment(e, line);
  }
  free(copy);
  free(text);
  return e->step && e->unit_count && e->unit_count == e->name_count;
}

/* Call i of the sequence, which repeats its last step forever. */
static const struct tagc_signature *call_at(const struct tagc_call_list *list, size_t step, size_t i) {
  return &list->calls[i < list->count ? i : list->count - step + (i - list->count) % step];
}

/* The number of calls before the steps. */
static size_t find_beginning(const struct tagc_call_list *list, size_t step) {
  size_t begin = list->count - step;
  while (begin && tagc_signature_equal(call_at(list, step, begin - 1), call_at(list, step, begin - 1 + step)))
    begin--;
  return begin;
}

static void compare_names(struct outcome *o, int slot, const char *wanted) {
  const char *got = slot < 0 || !o->layers ? "nothing" : o->layers->layers[slot].name;
  if (strcmp(wanted, "-") == 0 || strcmp(got, wanted) == 0)
    return;
  if (o->misnamed++ == 0)
    snprintf(o->misnomer, sizeof o->misnomer, ", %.32s for %.32s", got, wanted);
}

/* The number of gathers in the expected step whose unit is already gathered, and not reduced since. */
static unsigned count_again(const struct tagc_call_list *list, const struct expected *e) {
  static bool held[MOST];
  unsigned again = 0;
  memset(held, 0, sizeof held);
  for (unsigned turn = 0; turn < 2; turn++) {
    size_t allgather = 0, reduced = 0;
    for (size_t i = list->count - e->step; i < list->count; i++) {
      const enum tagc_collective what = list->calls[i].collective;
      if (what == TAGC_COLL_REDUCE_SCATTER)
        if (e->units[reduced++ % e->unit_count] != NO_UNIT)
          held[e->units[(reduced - 1) % e->unit_count]] = false;
      if (what != TAGC_COLL_ALL_GATHER || e->allgathers[allgather++] == NONE || e->guesses[allgather - 1])
        continue;
      again += turn && held[e->allgathers[allgather - 1]];
      held[e->allgathers[allgather - 1]] = true;
    }
  }
  return again;
}

/* A gather of the last step. */
static void compare_allgather(struct outcome *o, const struct expected *e, const struct tagc_sighting *seen) {
  size_t count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(o->cycle, &count);
  const struct tagc_allgather_info *info = tagc_cycle_allgathers(o->cycle, &count);
  const size_t which = o->allgathers++ % e->allgather_count;
  const bool paired = seen->allgather >= 0;
  info += paired ? seen->allgather : 0;
  if (paired && info->sure)
    o->mispaired += e->allgathers[which] == NONE || slots[info->slot].unit != (uint32_t)e->allgathers[which];
  else
    o->unsure += e->allgathers[which] != NONE && !e->guesses[which];
  o->again += paired && info->again;
}

static bool is_gradient(const struct outcome *o, int slot) {
  size_t count;
  const struct tagc_slot_info *slots = tagc_cycle_slots(o->cycle, &count);
  return slot >= 0 && ((tagc_cycle_is_gradients(o->cycle) && slots[slot].evident) || o->layers->proven);
}

/* Plays the sequence until some steps after the final lock. */
static struct outcome play(const struct tagc_call_list *list, const struct expected *e, uint32_t warmup) {
  struct tagc_cycle_options options = {warmup, FLOOR, list->nranks};
  struct outcome o = {.cycle = tagc_cycle_create(&options)};
  struct tagc_sighting seen;
  const size_t least = list->count + 6 * e->step + 3 * FLOOR + e->wait;
  const size_t most = least + e->step - (least - list->count) % e->step;
  for (size_t i = 0; i < most; i++) {
    const struct tagc_signature *call = call_at(list, e->step, i);
    tagc_cycle_observe(o.cycle, call, &seen);
    o.played++;
    if (seen.locked) {
      char why[160];
      size_t count;
      const struct tagc_slot_info *slots = tagc_cycle_slots(o.cycle, &count);
      tagc_layers_free(o.layers);
      o.layers = tagc_layers_infer(slots, count, list->nranks, NULL, why);
      o.locks++;
      o.locked_at = o.played;
    }
    if (i >= most - e->step && call->collective == TAGC_COLL_ALL_GATHER && e->allgather_count)
      compare_allgather(&o, e, &seen);
    if (i < most - e->step ||
        (e->all_reduces ? !tagc_signature_sums(call) : call->collective != TAGC_COLL_REDUCE_SCATTER))
      continue;
    size_t count;
    const struct tagc_slot_info *slots = tagc_cycle_slots(o.cycle, &count);
    const size_t which = o.reductions++ % e->unit_count;
    o.gradients += is_gradient(&o, seen.slot);
    /* Without a floor, the blocks alone lock as a cycle first. With only slots, the beginning is then forgotten. */
    const bool untold = e->units[which] == NO_UNIT || (e->all_reduces && e->unit_count == e->step && !warmup);
    o.wrong += seen.slot < 0 || (!untold && slots[seen.slot].unit != e->units[which]);
    if (!untold)
      compare_names(&o, seen.slot, e->names[which]);
  }
  return o;
}

static void test_file(const char *path) {
  static struct expected e;
  struct tagc_complaint complaint;
  const char *file = strrchr(path, '/') + 1;
  struct tagc_call_file *calls = tagc_calls_read(path, &complaint);
  if (!ok(calls && calls->count == 1 && read_expected(&e, path) && calls->lists[0].count >= e.step,
          "%s: can be read%s%s", file, calls ? "" : ": ", calls ? "" : complaint.text)) {
    tagc_calls_free(calls);
    return;
  }
  const struct tagc_call_list *list = &calls->lists[0];
  const size_t begin = find_beginning(list, e.step);
  e.all_reduces = true;
  for (size_t i = list->count - e.step; i < list->count; i++)
    e.all_reduces &= e.gradients > 0 || list->calls[i].collective != TAGC_COLL_REDUCE_SCATTER;
  for (uint32_t warmup = 0; warmup < 2; warmup++) {
    struct outcome o = play(list, &e, warmup);
    const double steps = ((double)o.locked_at - (double)begin) / (double)e.step;
    const bool proven = e.all_reduces && tagc_cycle_is_gradients(o.cycle);
    const bool is_late = e.all_reduces && (!proven || (!warmup && o.locks > 1)); /* the blocks alone were a cycle */
    const size_t last = begin + (is_late ? 2 * FLOOR : 0) + 3 * e.step + 1 + e.wait;
    const size_t floor = warmup && !proven ? FLOOR + e.step + 1 + (tagc_cycle_is_gradients(o.cycle) ? 0 : begin) : 0;
    ok(o.locked_at && (!e.gradients || o.locked_at <= (last > floor ? last : floor)),
       "%s, warm-up %u: a cycle of %zu calls is known after %zu, %.2f steps of %zu", file, warmup,
       tagc_cycle_length(o.cycle), o.locked_at, steps, e.step);
    ok(o.reductions && !o.wrong, "%s: %u of %u slots of a step are not the unit they must be", file, o.wrong,
       o.reductions);
    ok(o.layers && o.layers->count && !o.misnamed, "%s: %u of %u are not called what they must be%s; %s, %u%%", file,
       o.misnamed, o.reductions, o.misnomer, o.layers ? o.layers->what : "no memory",
       o.layers ? o.layers->confidence : 0);
    ok(o.allgathers == e.allgather_count && !o.mispaired && !o.unsure,
       "%s: %u of %u all-gathers are taken for those of another unit, and %u "
       "are guesses where it can be told",
       file, o.mispaired, o.allgathers, o.unsure);
    ok(!e.allgather_count || o.again == count_again(list, &e),
       "%s: %u all-gathers, of %u, gather what is there already", file, o.again, count_again(list, &e));
    if (e.gradients != NONE && (warmup || !e.gradients))
      ok(o.gradients == e.gradients, "%s: %d slots are taken for gradients, %d must be", file, o.gradients,
         e.gradients);
    tagc_layers_free(o.layers);
    tagc_cycle_destroy(o.cycle);
  }
  tagc_calls_free(calls);
}

int main(void) {
  glob_t files;
  const size_t count = fixtures_find("*", &files);
  ok(count >= 25, "%zu files of calls", count);
  for (size_t i = 0; i < count; i++)
    test_file(files.gl_pathv[i]);
  globfree(&files);
  return tap_done();
}
