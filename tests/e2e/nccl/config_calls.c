/* SPDX-License-Identifier: BSD-3-Clause
 * A program of NCCL 2.31 and 2.32, which gives its collectives a configuration for the one call. It takes each
 * configuration back as soon as the call has returned, also in a group: its memory is then another's.
 *
 *   config_calls reduce-scatter|all-reduce KIND STEPS [group|groups]
 *                                  steps of a trainer; gathers have the configuration, too; groups: a second
 *                                  communicator makes the same reductions
 *   config_calls all KIND          each of the eight functions once
 *   config_calls refused           configurations that NCCL refuses
 *
 * KIND: null, undefined, tag, automatic, ctas, policy, algorithm, event, extension, newer, sometimes (an event in
 * every fourth step), differing: rank 1 alone has an extension, which the official NCCL ignores, or single: the same
 * for the first reduction of a step alone.
 */
#include "tests/e2e/harness.h"

enum { UNITS = 3, N = 20000 };

static const char *kind;
static int now, reducing = -1; /* the step; the unit */
static ncclComm_t comm;

/* A configuration as 2.32 has it, and what it refers to; longer than any that is known. */
struct config {
  struct {
    size_t size;
    unsigned magic, version;
    ncclConfigExt_t *ext;
    int minCTAs, maxCTAs, nvlsCTAs, cgaClusterSize;
    const char *algSelection;
    int forceAlgSelection, CTAPolicy;
    uint64_t userProfilerTag;
    void *launchCompletionEvent;
    int fields_of_the_future[2];
  } is;
  ncclConfigExt_t options[2];
  char text[16];
};

static bool is_kind(const char *name) { return strcmp(kind, name) == 0; }

static void set_extension(struct config *c) {
  c->options[0] = (ncclConfigExt_t){.next = &c->options[1], .key = {4711, 1}, .val.s = "one"};
  c->options[1] = (ncclConfigExt_t){.key = {4711, 2}, .val.s = "two"};
  c->is.ext = c->options;
}

/* NULL for KIND null. */
static const ncclCollConfig_t *make_config(struct config *c) {
  const int none = NCCL_CONFIG_UNDEF_INT;
  *c = (struct config){.is = {72, 0xcafebeef, 23203, NULL, none, none, none, none, NULL, 1, none, 0, NULL, {1, 2}}};
  if (is_kind("tag"))
    c->is.userProfilerTag = 0x123456789abcdef;
  if (is_kind("automatic"))
    c->is.algSelection = c->text; /* empty */
  if (is_kind("ctas"))
    c->is.minCTAs = 1, c->is.maxCTAs = 4;
  if (is_kind("policy"))
    c->is.CTAPolicy = NCCL_CTA_POLICY_ZERO;
  if (is_kind("algorithm"))
    c->is.algSelection = strcpy(c->text, "ring,tree");
  if (is_kind("event") || (is_kind("sometimes") && now % 4 == 3))
    c->is.launchCompletionEvent = (void *)0x1234;
  if (is_kind("extension") || (is_kind("differing") && rank == 1) ||
      (is_kind("single") && rank == 1 && reducing == UNITS - 1))
    set_extension(c);
  if (is_kind("newer"))
    c->is.size = sizeof c->is;
  return is_kind("null") ? NULL : (const ncclCollConfig_t *)&c->is;
}

/* Calls `function` with a configuration that nobody may read, or has written, when it has returned. */
#define CALL(function, ...) \
  do { \
    struct config config, before; \
    const ncclCollConfig_t *given = make_config(&config); \
    before = config; \
    ncclResult_t call_status = function##Config(__VA_ARGS__, comm, NULL, given); \
    changed |= memcmp(&config, &before, sizeof config) != 0; \
    memset(&config, 0x5a, sizeof config); \
    CHECK(call_status); \
  } while (0)

static bool changed;

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static float gradients[UNITS][4 * N], parameters[4 * N], sums[UNITS][4 * N], others[UNITS][4 * N];

static float value(int of_rank, int step, int unit, size_t i) {
  return (float)(mix((uint64_t)of_rank << 40 ^ (uint64_t)step << 20 ^ (uint64_t)unit << 60 ^ i) % 250) - 125; /* sums
                                                                                                                 that
                                                                                                                 bf16
                                                                                                                 has */
}

static size_t count_of(int unit) { return (size_t)(N - 500 * unit); }

static void reduce_to(float (*to)[4 * N], bool all_reduce) {
  for (int unit = UNITS; unit-- > 0;) {
    const size_t count = count_of(unit);
    reducing = unit;
    if (all_reduce)
      CALL(ncclAllReduce, gradients[unit], to[unit], count * (size_t)nranks, ncclFloat32, ncclSum);
    else
      CALL(ncclReduceScatter, gradients[unit], to[unit], count, ncclFloat32, ncclSum);
  }
  reducing = -1;
}

static bool is_exact(int step, int unit, bool all_reduce) {
  const size_t count = count_of(unit), first = all_reduce ? 0 : count * (size_t)rank;
  bool exact = true;
  for (size_t i = 0; i < (all_reduce ? count * (size_t)nranks : count); i++) {
    float want = 0;
    for (int r = 0; r < nranks; r++)
      want += value(r, step, unit, first + i);
    exact &= sums[unit][i] == want;
  }
  return exact;
}

static bool run_step(int step, bool all_reduce, bool group) {
  bool exact = true;
  for (int unit = 0; unit < UNITS; unit++)
    for (size_t i = 0; i < count_of(unit) * (size_t)nranks; i++)
      gradients[unit][i] = value(rank, step, unit, i);
  for (int unit = 0; unit < UNITS && !all_reduce; unit++)
    CALL(ncclAllGather, parameters, parameters, count_of(unit), ncclFloat32);
  if (group)
    CHECK(ncclGroupStart());
  reduce_to(sums, all_reduce);
  if (other) {
    comm = other;
    reduce_to(others, all_reduce);
    comm = world;
  }
  if (group)
    CHECK(ncclGroupEnd());
  exact &= !other || memcmp(sums, others, sizeof sums) == 0;
  for (int unit = 0; unit < UNITS; unit++)
    exact &= is_exact(step, unit, all_reduce);
  return exact;
}

static void train(bool all_reduce, int steps, const char *group) {
  const bool groups = strcmp(group, "groups") == 0;
  bool exact = true;
  if (groups)
    CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (now = 0; now < steps; now++)
    exact &= run_step(now, all_reduce, *group);
  if (groups)
    CHECK(ncclCommDestroy(other));
  other = NULL;
  all_ok(exact, "%s: %d steps%s are exact", kind, steps,
         groups   ? " in groups, on two communicators"
         : *group ? " in groups"
                  : "");
  all_ok(!changed, "%s: no configuration is written to", kind);
}

/* ---- all functions ----------------------------------------------------------------------------------------------- */

static void call_all(void) {
  int32_t mine[64], got[64];
  bool good = true;
  for (int i = 0; i < nranks; i++)
    mine[i] = 100 * rank + i;
  CALL(ncclAllReduce, mine, got, 1, ncclInt32, ncclMax);
  good &= got[0] == 100 * (nranks - 1);
  CALL(ncclReduce, mine, got, 1, ncclInt32, ncclMax, 0);
  good &= rank != 0 || got[0] == 100 * (nranks - 1);
  CALL(ncclReduceScatter, mine, got, 1, ncclInt32, ncclMax);
  good &= got[0] == 100 * (nranks - 1) + rank;
  CALL(ncclAllGather, mine, got, 1, ncclInt32);
  good &= got[nranks - 1] == 100 * (nranks - 1);
  CALL(ncclBroadcast, mine, got, 1, ncclInt32, nranks - 1);
  good &= got[0] == 100 * (nranks - 1);
  CALL(ncclAlltoAll, mine, got, 1, ncclInt32);
  good &= got[nranks - 1] == 100 * (nranks - 1) + rank;
  CALL(ncclGather, mine, got, 1, ncclInt32, 0);
  good &= rank != 0 || got[nranks - 1] == 100 * (nranks - 1);
  CALL(ncclScatter, mine, got, 1, ncclInt32, nranks - 1);
  good &= got[0] == 100 * (nranks - 1) + rank;
  all_ok(good, "%s: each function does what it does", kind);
  all_ok(!changed, "%s: no configuration is written to", kind);
}

/* ---- refused ----------------------------------------------------------------------------------------------------- */

/* NCCL reads the configuration before the call is one of the group: the group goes on, with its other calls. */
static bool is_refused(const struct config *c, bool group) {
  float x[2] = {(float)(rank + 1)}, y[2] = {0}, want = 0;
  for (int r = 0; r < nranks && group; r++)
    want += (float)(r + 1);
  if (group) {
    CHECK(ncclGroupStart());
    CHECK(ncclAllReduce(x, y, 1, ncclFloat32, ncclSum, world, NULL));
  }
  const ncclResult_t status =
    ncclReduceScatterConfig(x, y + 1, 1, ncclFloat32, ncclSum, world, NULL, (const ncclCollConfig_t *)&c->is);
  return status == ncclInvalidArgument && (!group || ncclGroupEnd() == ncclSuccess) && y[0] == want && y[1] == 0;
}

static void refused(void) {
  struct config config;
  kind = "undefined";
  for (int group = 0; group < 2; group++) {
    make_config(&config);
    config.is.magic = 1;
    all_ok(is_refused(&config, group), "a wrong magic number is refused at once%s",
           group ? ", and no other call of its group" : "");
    make_config(&config);
    config.is.size = 40;
    all_ok(is_refused(&config, group), "a short struct is refused at once%s",
           group ? ", and no other call of its group" : "");
    make_config(&config);
    config.is.forceAlgSelection = 2;
    all_ok(is_refused(&config, group), "a choice of neither 0 nor 1 is refused at once%s",
           group ? ", and no other call of its group" : "");
    make_config(&config);
    config.is.CTAPolicy = 4;
    all_ok(is_refused(&config, group), "an unknown policy is refused at once%s",
           group ? ", and no other call of its group" : "");
  }
}

int main(int argc, char **argv) {
  const bool all_reduce = argc > 1 && strcmp(argv[1], "all-reduce") == 0;
  if (argc < 2) {
    fprintf(stderr, "usage: config_calls reduce-scatter|all-reduce KIND STEPS [group|groups] | all KIND | refused\n");
    return 2;
  }
  kind = argc > 2 ? argv[2] : "";
  meet();
  comm = world;
  if (strcmp(argv[1], "refused") == 0)
    refused();
  else if (strcmp(argv[1], "all") == 0)
    call_all();
  else
    train(all_reduce, argc > 3 ? atoi(argv[3]) : 8, argc > 4 ? argv[4] : "");
  return finish();
}
