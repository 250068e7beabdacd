/* SPDX-License-Identifier: BSD-3-Clause
 * Tapes of collectives for the tests of cycles: the calls of sharded training programs, step after step. Each
 * reduce-scatter has the number of its true unit of the model. Single-threaded; out of memory ends the test.
 */
#ifndef TESTS_UNIT_CYCLE_TAPE_H
#define TESTS_UNIT_CYCLE_TAPE_H

#include <stdlib.h>

#include "layermap/cycle/cycle.h"

struct tape_call {
  struct tagc_signature signature;
  int unit;     /* of a gradient, else -1 */
  int gathered; /* the unit whose parameters an all-gather gathers, else -1 */
};

struct tape {
  struct tape_call *calls;
  size_t count, room;
};

/* A model sharded by units: an optional root unit (embedding), `blocks` units of `kinds` alternating shapes, an
 * optional head. Units are numbered in forward order. */
struct model {
  unsigned blocks, kinds;
  bool root, head;
  bool reshard;   /* parameters are dropped after forward and gathered again in backward, one unit ahead */
  bool clip;      /* an all-reduce of the gradient norm ends the step */
  uint64_t scale; /* of all counts */
  bool alike;     /* the head has the root's shape */
  bool late;      /* FSDP2: the first block, an embedding's unit, is reduced after the root */
};

/* Types as a program might number them. */
enum { FLOAT = 7, HALF = 9, BYTES = 1 };

static inline void tape_add(struct tape *tape, enum tagc_collective collective, uint64_t count, int dtype, int unit) {
  if (tape->count == tape->room) {
    tape->room = tape->room ? 2 * tape->room : 1024;
    tape->calls = realloc(tape->calls, tape->room * sizeof *tape->calls);
    if (!tape->calls)
      abort();
  }
  struct tagc_signature signature = {
    count, (uint8_t)collective, (uint8_t)dtype,
    collective == TAGC_COLL_REDUCE_SCATTER || collective == TAGC_COLL_ALL_REDUCE ? 4 : 0, dtype != BYTES};
  tape->calls[tape->count++] = (struct tape_call){signature, unit, -1};
}

static inline void tape_free(struct tape *tape) {
  free(tape->calls);
  *tape = (struct tape){NULL, 0, 0};
}

static inline int model_units(const struct model *m) { return (int)(m->root + m->blocks + m->head); }

static inline uint64_t model_count(const struct model *m, int unit) {
  if (m->root && unit == 0)
    return 31 * m->scale;
  unsigned block = (unsigned)unit - m->root;
  if (block == m->blocks)
    return (m->alike ? 31 : 17) * m->scale;
  return (100 + block % m->kinds) * m->scale;
}

static inline void tape_allgather(struct tape *tape, const struct model *m, int unit) {
  tape_add(tape, TAGC_COLL_ALL_GATHER, model_count(m, unit), HALF, -1);
  tape->calls[tape->count - 1].gathered = unit;
}

static inline void tape_forward(struct tape *tape, const struct model *m) {
  for (int unit = 0; unit < model_units(m); unit++)
    tape_allgather(tape, m, unit);
}

/* The unit whose gradient is the i-th of a backward pass. */
static inline int model_reduced(const struct model *m, int i) {
  int unit = model_units(m) - 1 - i;
  return m->late && m->root && m->blocks && unit < 2 ? 1 - unit : unit;
}

/* Gradients come in reverse. The next unit's parameters are gathered before this unit's gradients are reduced. A lone
 * root keeps its parameters; a root that looks like the head does not. */
static inline void tape_backward(struct tape *tape, const struct model *m, bool reduce) {
  int last = model_units(m) - 1;
  if (m->reshard && !(m->root && last == 0))
    tape_allgather(tape, m, last);
  for (int i = 0; i <= last; i++) {
    int unit = model_reduced(m, i), next = i < last ? model_reduced(m, i + 1) : 0;
    if (m->reshard && i < last && !(m->root && !m->alike && next == 0))
      tape_allgather(tape, m, next);
    if (reduce)
      tape_add(tape, TAGC_COLL_REDUCE_SCATTER, model_count(m, unit), FLOAT, unit);
  }
}

static inline void tape_finish(struct tape *tape, const struct model *m) {
  if (m->clip)
    tape_add(tape, TAGC_COLL_ALL_REDUCE, 1, FLOAT, -1);
}

static inline void tape_step(struct tape *tape, const struct model *m) {
  tape_forward(tape, m);
  tape_backward(tape, m, true);
  tape_finish(tape, m);
}

static inline void tape_steps(struct tape *tape, const struct model *m, int steps) {
  while (steps-- > 0)
    tape_step(tape, m);
}

/* An evaluation pass: forward over some batches, then the mean of the loss. */
static inline void tape_evaluation(struct tape *tape, const struct model *m, int batches) {
  while (batches-- > 0)
    tape_forward(tape, m);
  tape_add(tape, TAGC_COLL_ALL_REDUCE, 2, FLOAT, -1);
}

#endif
