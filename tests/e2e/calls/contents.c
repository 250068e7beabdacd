/* SPDX-License-Identifier: BSD-3-Clause
 * Programs whose calls look alike, and whose contents do not: parameters change a little from step to step, activations
 * wholly. What is no gradient must come out bit for bit; all gradients of the last steps must not.
 *
 * Run under tests/standin/launch with the library preloaded, TAGC_MIN_BYTES=4K, TAGC_CODEC=q4 and TAGC_ALLGATHER=q8.
 *
 *   contents NAME...          the programs of that name (see `programs` below)
 *   contents seeds FIRST LAST programs of activations, made from seeds
 *
 * Every program has a communicator of its own.
 */
#include "tests/e2e/harness.h"

enum { STEPS = 64, LAST = 8, TENSORS = 32, OPS = 256, MOST = 6000, MOST_RANKS = 4 };

/* Normal: of a normal distribution, positive: its magnitude, sparse: half of it zeros, shifted: a mean for each
 * channel. Repeated: activations of one batch, again and again, while the model learns. */
enum content { NORMAL, POSITIVE, SPARSE, SHIFTED, REPEATED, PARAMETER, FROZEN, DELAYED, MOMENTUM };

static struct program {
  const char *name;
  ncclDataType_t type;
  struct tensor {
    size_t count;
    enum content content;
  } tensors[TENSORS];
  struct op {
    bool reduces, gradient;
    bool repeats; /* the same numbers in every step */
    bool refused; /* an all-gather without a send buffer */
    int tensor;
    ncclRedOp_t op;
  } ops[OPS];
  int tensor_count, op_count;
  bool norm;     /* a step ends with the sum of one number */
  bool is_taken; /* its gradients must be compressed */
} program;

static long exact_gathers, exact_sums, wrong_gathers, wrong_sums, lossy, due;
static float momentum[TENSORS][MOST];

/* ---- contents ---------------------------------------------------------------------------------------------------- */

static float uniform(uint64_t h) { return (float)(h >> 40) / 8388608 - 1; }

/* Nearly normal. */
static float normal(uint64_t seed) {
  const uint64_t a = mix(seed), b = mix(seed ^ UINT64_C(1) << 56);
  return 0.866f * (uniform(a) + uniform(a << 24) + uniform(b) + uniform(b << 24));
}

static float activation(enum content content, uint64_t seed, size_t i) {
  const float x = normal(mix(seed) ^ i);
  switch (content) {
  case POSITIVE: return fabsf(x);
  case SPARSE: return x > 0 ? x : 0;
  case SHIFTED: return x + 1.5f * normal(mix(i % 64));
  default: return x;
  }
}

static float value(int tensor, long step, size_t i) {
  const uint64_t who = mix((uint64_t)rank << 32 ^ (uint64_t)tensor), where = mix(who ^ (uint64_t)i << 20);
  const float weight = 0.02f * normal(where);
  switch (program.tensors[tensor].content) {
  case PARAMETER: return weight + 2e-4f * (float)step * uniform(where);
  case FROZEN: return weight;
  case DELAYED: return weight + 2e-4f * (float)(step > STEPS / 2 ? step : 0) * uniform(where);
  case REPEATED: return normal(where) + 1e-3f * (float)step * uniform(where);
  case MOMENTUM: return momentum[tensor][i];
  default: return activation(program.tensors[tensor].content, who ^ (uint64_t)step << 40, i);
  }
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void gather(int tensor, long step) {
  static float values[MOST];
  static char own[4 * MOST], all[4 * MOST * MOST_RANKS], wanted[4 * MOST * MOST_RANKS];
  const struct tensor *t = &program.tensors[tensor];
  const size_t bytes = t->count * size_of(program.type);
  for (size_t i = 0; i < t->count; i++) {
    if (t->content == MOMENTUM)
      momentum[tensor][i] = 0.95f * momentum[tensor][i] + normal(mix((uint64_t)step << 32 ^ (uint64_t)rank) ^ i);
    values[i] = value(tensor, step, i);
  }
  store_all(own, values, t->count, program.type);
  CHECK(ncclAllGather(own, all, t->count, program.type, other, NULL));
  CHECK(ncclAllGather(own, wanted, bytes, ncclUint8, world, NULL));
  const bool exact = memcmp(all, wanted, bytes * (size_t)nranks) == 0;
  exact_gathers += exact;
  wrong_gathers += !exact && t->content != PARAMETER && t->content != FROZEN && t->content != DELAYED;
}

/* Adds the terms of a rank in a reduction, from element `from` on. They are small integers, so that every sum is exact
 * in each type. */
static void add_terms(const struct op *op, int call, int r, long step, size_t from, size_t n, float *sums) {
  const uint64_t seed = mix((uint64_t)call << 40 ^ (uint64_t)(op->repeats ? 0 : step) << 8 ^ (uint64_t)r);
  for (size_t i = 0; i < n; i++)
    sums[i] += (float)(int)(mix(seed ^ (uint64_t)(from + i) << 16) % 61) - 30;
}

static void reduce(const struct op *op, int call, long step) {
  static char all[4 * MOST * MOST_RANKS], own[4 * MOST];
  static float terms[MOST * MOST_RANKS], sums[MOST], got[MOST];
  const size_t count = program.tensors[op->tensor].count;
  bool exact = true;
  memset(terms, 0, sizeof terms);
  memset(sums, 0, sizeof sums);
  add_terms(op, call, rank, step, 0, count * (size_t)nranks, terms);
  encode_all(all, terms, count * (size_t)nranks, program.type);
  CHECK(ncclReduceScatter(all, own, count, program.type, op->op, other, NULL));
  for (int r = 0; r < nranks; r++)
    add_terms(op, call, r, step, (size_t)rank * count, count, sums);
  load_all(got, own, count, program.type);
  for (size_t i = 0; i < count; i++)
    exact &= got[i] == (op->op == ncclAvg ? sums[i] / (float)nranks : sums[i]);
  exact_sums += exact;
  wrong_sums += !exact && !op->gradient;
  lossy += !exact && op->gradient && step >= STEPS - LAST;
  due += op->gradient && step >= STEPS - LAST;
}

static void gather_nothing(int tensor) {
  static char all[4 * MOST * MOST_RANKS];
  wrong_gathers +=
    ncclAllGather(NULL, all, program.tensors[tensor].count, program.type, other, NULL) != ncclInvalidArgument;
}

static void run_program(void) {
  exact_gathers = exact_sums = wrong_gathers = wrong_sums = lossy = due = 0;
  memset(momentum, 0, sizeof momentum);
  CHECK(ncclCommSplit(world, 0, rank, &other, NULL));
  for (long step = 0; step < STEPS; step++) {
    float norm = 1;
    for (int i = 0; i < program.op_count; i++)
      if (program.ops[i].reduces)
        reduce(&program.ops[i], i, step);
      else if (program.ops[i].refused)
        gather_nothing(program.ops[i].tensor);
      else
        gather(program.ops[i].tensor, step);
    if (program.norm)
      CHECK(ncclAllReduce(&norm, &norm, 1, ncclFloat32, ncclSum, other, NULL));
  }
  CHECK(ncclCommDestroy(other));
  other = NULL;
}

/* ---- making programs --------------------------------------------------------------------------------------------- */

static int tensor(size_t count, enum content content) {
  program.tensors[program.tensor_count] = (struct tensor){count, content};
  return program.tensor_count++;
}

static void add_gather(int t) { program.ops[program.op_count++] = (struct op){.tensor = t}; }

static void add_sum(int t, ncclRedOp_t op) {
  program.ops[program.op_count++] = (struct op){.reduces = true, .tensor = t, .op = op};
}

static void add_gradient(int t, ncclRedOp_t op) {
  program.ops[program.op_count++] = (struct op){.reduces = true, .gradient = true, .tensor = t, .op = op};
}

/* Units from `first` on: gathered for the forward pass, and again for the backward pass. */
static void add_sharded(int first, int units, ncclRedOp_t op, bool again) {
  for (int u = first; u < first + units; u++)
    add_gather(u);
  for (int u = first + units; u-- > first;) {
    if (again)
      add_gather(u);
    add_gradient(u, op);
  }
}

static void add_units(int units, size_t count, enum content content) {
  for (int u = 0; u < units; u++)
    tensor(count, content);
}

/* A layer gathers its input, which it gathers again in the backward pass, and there sums the gradient of it. */
static void add_gathered_inputs(int first, int layers, ncclRedOp_t op) {
  for (int t = first; t < first + layers; t++)
    add_gather(t);
  for (int t = first + layers; t-- > first;) {
    add_gather(t);
    add_sum(t, op);
  }
}

/* Features of all scales are gathered, and summed on the way back, at inference. */
static void encoder(void) {
  static const size_t counts[] = {5003, 2503, 1301, 1201};
  for (int i = 0; i < 4; i++)
    add_gather(tensor(counts[i], NORMAL));
  for (int i = 4; i-- > 0;)
    add_sum(i, ncclSum);
}

/* Tensor parallelism whose inputs and outputs have other widths. */
static void widths(void) {
  for (int i = 0; i < 8; i++)
    tensor(i % 2 ? 4001 : 1999, SHIFTED);
  add_gathered_inputs(0, 8, ncclSum);
}

/* An evaluation that gathers features and averages metrics of them. */
static void averages(void) {
  add_gather(tensor(3001, POSITIVE));
  add_gather(tensor(2003, NORMAL));
  add_sum(1, ncclAvg);
  add_sum(0, ncclAvg);
}

/* Context parallelism: keys and values of all tokens, and in other layers of a window. */
static void context(void) {
  for (int i = 0; i < 8; i++)
    tensor(i / 2 % 2 ? 1401 : 5001, i % 2 ? NORMAL : SHIFTED);
  add_gathered_inputs(0, 8, ncclSum);
}

/* The same among the units of FSDP1. */
static void context_among_units(void) {
  add_units(1, 2048, PARAMETER);
  add_units(4, 4099, PARAMETER);
  for (int u = 0; u < 5; u++) {
    add_gather(u);
    if (u)
      add_gather(tensor(u % 2 ? 5001 : 1401, NORMAL));
  }
  for (int u = 4; u >= 0; u--) {
    add_gather(u);
    if (u) {
      add_gather(4 + u);
      add_sum(4 + u, ncclSum);
    }
    add_gradient(u, ncclSum);
  }
}

/* Muon gathers momentum, to orthogonalise it. */
static void muon(void) {
  add_units(1, 2048, PARAMETER);
  add_units(4, 4099, PARAMETER);
  add_sharded(0, 5, ncclAvg, true);
  for (int u = 1; u < 5; u++)
    add_gather(tensor(4099, MOMENTUM));
}

/* A middle stage of a pipeline, or experts in a mesh of their own. */
static void alike(void) {
  add_units(6, 4099, PARAMETER);
  add_sharded(0, 6, ncclSum, true);
}

static void alike_averages(void) {
  add_units(6, 4099, PARAMETER);
  add_sharded(0, 6, ncclAvg, false);
}

/* A whole model in one unit, with accumulation. */
static void one_unit(void) {
  add_units(1, 5501, PARAMETER);
  for (int micro_batch = 1; micro_batch < 6; micro_batch++)
    add_gather(0);
  add_sharded(0, 1, ncclAvg, false);
}

/* Some units are frozen: gathered, and not reduced. */
static void frozen(void) {
  add_units(4, 4099, PARAMETER);
  add_units(2, 4099, FROZEN);
  add_gather(4);
  add_gather(5);
  add_sharded(0, 4, ncclSum, true);
}

/* One all-gather is refused in every step. */
static void refused(void) {
  alike();
  program.ops[program.op_count++] = (struct op){.refused = true, .tensor = 0};
}

/* The learning rate is 0 for the first half. */
static void delayed(void) {
  add_units(6, 4099, DELAYED);
  add_sharded(0, 6, ncclSum, true);
}

/* Inference gathers weights, and sums activations of as many elements. */
static void weights(void) {
  add_units(6, 4099, FROZEN);
  for (int u = 0; u < 6; u++) {
    add_gather(u);
    add_sum(u, ncclSum);
  }
}

/* Sequence parallelism that trains on one batch for ever. */
static void one_batch(void) {
  add_units(6, 4099, REPEATED);
  add_gathered_inputs(0, 6, ncclSum);
  for (int i = 0; i < program.op_count; i++)
    program.ops[i].repeats = true;
}

static const struct {
  const char *name;
  void (*make)(void);
  bool is_taken;
} programs[] = {
  {"encoder", encoder, false},
  {"widths", widths, false},
  {"averages", averages, false},
  {"context", context, false},
  {"context-among-units", context_among_units, true},
  {"muon", muon, true},
  {"alike", alike, true},
  {"alike-averages", alike_averages, true},
  {"one-unit", one_unit, true},
  {"frozen", frozen, true},
  {"delayed", delayed, true},
  {"refused", refused, true},
  {"weights", weights, false},
  {"one-batch", one_batch, false},
};

/* ---- programs from seeds ----------------------------------------------------------------------------------------- */

static uint64_t state;

static int pick(int below) {
  state = mix(state);
  return (int)(state >> 33) % below;
}

/* How activations are gathered and summed. */
static void add_style(int style, int first, int layers, ncclRedOp_t op) {
  if (style == 0) { /* all at first, as a pyramid of features */
    for (int t = first; t < first + layers; t++)
      add_gather(t);
    for (int t = first + layers; t-- > first;)
      add_sum(t, op);
  } else if (style == 1) {
    add_gathered_inputs(first, layers, op);
  } else { /* sequence parallelism: each layer gathers and sums, forward and backward */
    for (int t = first; t < first + layers; t++) {
      add_gather(t);
      add_sum(t, op);
    }
    for (int t = first + layers; t-- > first && style == 2;) {
      add_gather(t);
      add_sum(t, op);
    }
  }
}

/* Counts of activations are odd, and those of units even: none are equal. */
static void make_from_seed(uint64_t seed) {
  size_t counts[4];
  state = seed;
  const int layers = 2 + pick(8), several = 1 + pick(4), style = pick(4);
  const ncclRedOp_t op = pick(3) ? ncclSum : ncclAvg;
  const bool among_units = pick(3) == 0;
  program.type = pick(2) ? ncclFloat32 : ncclBfloat16;
  program.norm = pick(2);
  for (int i = 0; i < 4; i++)
    counts[i] = 2049 + 2 * (size_t)pick(1900);
  const int units = among_units ? 2 + pick(4) : 0;
  for (int u = 0; u < units; u++)
    tensor(u ? 4100 : 2600, PARAMETER);
  const enum content content = (enum content)pick(4);
  for (int i = 0; i < layers; i++)
    tensor(counts[pick(several)], pick(4) ? content : (enum content)pick(4));
  if (among_units && pick(2))
    add_style(style, units, layers, op);
  if (among_units)
    add_sharded(0, units, op, pick(2));
  if (!among_units || program.op_count <= 3 * units)
    add_style(style, units, layers, op);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static void judge(const char *what) {
  run_program();
  all_ok(!wrong_gathers, "%s: gathers of no parameters are exact (here %ld are not)", what, wrong_gathers);
  all_ok(!wrong_sums, "%s: sums of no gradients are exact (here %ld are not)", what, wrong_sums);
  if (program.is_taken)
    all_ok(due && lossy == due, "%s: gradients of the last steps are compressed (here %ld of %ld)", what, lossy, due);
}

int main(int argc, char **argv) {
  char name[32];
  meet();
  const bool seeds = argc == 4 && strcmp(argv[1], "seeds") == 0;
  for (long seed = seeds ? atol(argv[2]) : 0; seeds && seed <= atol(argv[3]); seed++) {
    program = (struct program){.type = ncclFloat32};
    make_from_seed((uint64_t)seed);
    snprintf(name, sizeof name, "seed %ld", seed);
    judge(name);
  }
  for (int i = 1; i < argc && !seeds; i++)
    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++)
      if (strcmp(argv[i], programs[p].name) == 0 || strcmp(argv[i], "all") == 0) {
        program = (struct program){.type = ncclFloat32, .norm = true, .is_taken = programs[p].is_taken};
        programs[p].make();
        judge(programs[p].name);
      }
  return finish();
}
