/* SPDX-License-Identifier: BSD-3-Clause
 * Steps of a small Llama in a layout of fully sharded training: all-gathers forward, all-gathers and reduce-scatters
 * backward, as FSDP or ZeRO-3 make them. Gradients of MLPs are dense, all others small integers, whose sums are exact.
 * `inexact` is the number of inexact sums in each step.
 *
 *   layouts fsdp1|fsdp2|zero3 STEPS [inplace]     under tests/standin/launch, plain or with TAGC_LAYERS=mlp
 *   layouts map                                   writes a map of its model
 */
#include "layermap/model/families.h"
#include "layermap/model/layout.h"
#include "layermap/model/mapfile.h"
#include "tests/e2e/harness.h"

enum { MOST_UNITS = 8, MOST_MEMBERS = 16 };

/* One call's parameters. */
struct unit {
  struct tagc_member members[MOST_MEMBERS];
  size_t count, n;
  bool *is_mlp; /* of each element of each shard */
};

static struct unit units[MOST_UNITS];
static size_t unit_count;
static enum tagc_layout_kind layout;

/* A walk over a shard: padding belongs to the parameter before it. */
struct walk {
  struct unit *unit;
  size_t shard;
  bool last;
};

static bool visit(const struct tagc_segment *segment, void *data) {
  struct walk *w = data;
  if (segment->member >= 0)
    w->last = w->unit->members[segment->member].parameter->kinds & TAGC_KIND_MLP;
  for (size_t i = 0; i < segment->length; i++)
    w->unit->is_mlp[w->shard * w->unit->n + segment->offset + i] = w->last;
  return true;
}

static void make_units(const struct tagc_model *model) {
  for (size_t p = 0; p < model->place_count; p++) {
    struct unit *u = &units[unit_count++];
    const struct tagc_unit *its = &model->units[model->places[p].unit];
    struct walk w = {.unit = u};
    for (size_t i = 0; i < its->count && u->count < MOST_MEMBERS; i++)
      u->members[u->count++] = (struct tagc_member){&its->parameters[i], model->places[p].block, its->name};
    u->n = tagc_layout_shard(layout, u->members, u->count, nranks, sizeof(float));
    u->is_mlp = calloc((size_t)nranks * u->n, sizeof *u->is_mlp);
    for (w.shard = 0; w.shard < (size_t)nranks; w.shard++)
      tagc_layout_walk(layout, u->members, u->count, nranks, sizeof(float), (int)w.shard, visit, &w);
  }
}

static float value(const struct unit *u, int of, int step, size_t at) {
  const uint64_t h = mix(mix((uint64_t)of << 32 | (uint64_t)step) ^ at);
  return u->is_mlp[at] ? (float)((int)(h & 0xffff) - 32768) / 65536 : (float)((int)(h & 15) - 8);
}

/* Counts the inexact sums. `bad` counts those outside MLPs, and those of MLPs that are far off. */
static void reduce(const struct unit *u, int step, bool in_place, float *send, float *recv, size_t *inexact,
                   size_t *bad) {
  float *got = in_place ? send + (size_t)rank * u->n : recv;
  for (size_t at = 0; at < (size_t)nranks * u->n; at++)
    send[at] = value(u, rank, step, at);
  CHECK(ncclReduceScatter(send, got, u->n, ncclFloat32, ncclSum, world, NULL));
  for (size_t i = 0; i < u->n; i++) {
    const size_t at = (size_t)rank * u->n + i;
    float sum = 0;
    for (int of = 0; of < nranks; of++)
      sum += value(u, of, step, at);
    const float off = fabsf(got[i] - sum);
    *inexact += off > 1e-5f;
    *bad += !(off <= (u->is_mlp[at] ? 20 : 0));
  }
}

int main(int argc, char **argv) {
  const struct tagc_architecture llama = {.family = TAGC_FAMILY_LLAMA,
                                          .hidden = 100,
                                          .intermediate = 274,
                                          .heads = 5,
                                          .kv_heads = 1,
                                          .blocks = 4,
                                          .vocabulary = 998};
  struct tagc_model *model = tagc_family_model(&llama);
  if (!model || (argc == 2 && strcmp(argv[1], "map") == 0))
    return !model || !tagc_mapfile_write(stdout, model);
  layout = argc > 2 ? 0 : TAGC_LAYOUTS;
  while (layout < TAGC_LAYOUTS && strcmp(argv[1], tagc_layout_name(layout)) != 0)
    layout++;
  const int steps = argc > 2 ? atoi(argv[2]) : 0;
  const bool in_place = argc > 3;
  if (layout == TAGC_LAYOUTS || steps < 1) {
    fprintf(stderr, "usage: layouts fsdp1|fsdp2|zero3 STEPS [inplace]\n");
    return 2;
  }
  meet();
  size_t most = 0;
  make_units(model);
  for (size_t i = 0; i < unit_count; i++)
    most = units[i].n > most ? units[i].n : most;
  float *whole = malloc((size_t)nranks * most * sizeof *whole), *send = malloc((size_t)nranks * most * sizeof *send);
  float *shard = calloc(most, sizeof *shard);
  size_t bad = 0;
  for (int step = 0; step < steps; step++) {
    size_t inexact = 0;
    for (size_t i = 0; i < unit_count; i++)
      CHECK(ncclAllGather(shard, whole, units[i].n, ncclFloat32, world, NULL));
    for (size_t i = unit_count; i-- > 0;) {
      if (i + 1 < unit_count)
        CHECK(ncclAllGather(shard, whole, units[i].n, ncclFloat32, world, NULL));
      reduce(&units[i], step, in_place, send, shard, &inexact, &bad);
    }
    if (rank == 0)
      printf("# step %d: inexact=%zu\n", step, inexact);
    memset(shard, 0, most * sizeof *shard);
  }
  all_ok(bad == 0, "%s on %d ranks%s: what is no MLP's is exact, and the rest nearly", argv[1], nranks,
         in_place ? ", in place" : "");
  free(whole);
  free(send);
  free(shard);
  tagc_model_free(model);
  for (size_t i = 0; i < unit_count; i++)
    free(units[i].is_mlp);
  return finish();
}
