/* SPDX-License-Identifier: BSD-3-Clause
 * The threads of the kernel that runs on this OS thread: emulator.c runs them, warp.c synchronizes lanes.
 */
#ifndef TESTS_STANDIN_CUDA_STRAND_H
#define TESTS_STANDIN_CUDA_STRAND_H

#include "tests/standin/cuda/driver.h"
#include "tests/standin/cuda/fibre.h"

enum state { BEGINS, RUNS, AT_BARRIER, AT_WARP, PAUSES, RETURNED };

/* A thread of the kernel, and its reason to wait. */
struct strand {
  struct emulate_thread self; /* first: emulate_self points here */
  enum state state;
  struct fibre *fibre; /* that holds its stack while it waits */
  struct strand *next;
  const char *file; /* source line of the wait */
  int line;
  enum emulate_warp_kind kind;
  uint32_t mask;
  uint64_t value, result;
  unsigned argument, width;
};

struct emulate_block {
  struct emulate_index index;
  struct strand *strands;
  unsigned at_warp; /* threads that wait for lanes */
  unsigned waiting; /* at the barrier that `first` reached first */
  const struct strand *first;
  enum emulate_barrier_kind kind;
  int gathered, result;
  void *dynamic, *image; /* image: its static shared memory, while another block of the launch runs */
};

struct queue {
  struct strand *first, **last;
};

/* A launch on this thread. */
struct runner {
  const struct emulate_launch *launch;
  struct emulate_block *blocks, *current; /* current: the block whose static shared memory is in place */
  unsigned alive, threads;                /* blocks, threads of each */
  unsigned next_block, next_thread;       /* the next to begin */
  uint64_t left;                          /* threads that have not returned */
  unsigned rounds;                        /* in which threads did nothing but pause */
  struct queue ready, paused;
  struct fibre home, *idle, *running;
  void *shared; /* this thread's static shared memory of the kernel's object */
  size_t shared_size;
};

extern __thread struct runner runner EMULATE_NEAR;

static inline struct strand *strand_self(void) { return (struct strand *)(void *)emulate_self; }

static inline void strand_wait(struct strand *strand, enum state state, const char *file, int line) {
  strand->state = state;
  strand->file = file;
  strand->line = line;
  strand->fibre = runner.running;
}

/* Makes a strand that waits ready. */
static inline void strand_release(struct strand *strand) {
  struct queue *ready = &runner.ready;
  runner.rounds = 0;
  strand->state = RUNS;
  strand->next = NULL;
  *(ready->first ? ready->last : &ready->first) = strand;
  ready->last = &strand->next;
}

/* Continues with any ready thread. Returns when `from` is needed: the thread's own fibre if no thread is ready. */
void strand_go_on_otherwise(struct fibre *from);

/* The same: usually a thread of the same block is ready. */
static inline void strand_go_on(struct fibre *from) {
  struct runner *r = &runner;
  struct strand *strand = r->ready.first;
  if (!strand || strand->self.home != r->current) {
    strand_go_on_otherwise(from);
    return;
  }
  r->ready.first = strand->next;
  emulate_self = &strand->self;
  r->running = strand->fibre;
  if (strand->fibre != from)
    fibre_switch(from, strand->fibre);
}

void strand_describe(char *text, size_t size, const struct strand *strand);

/* Tells the warp that the strand has returned: operations may have waited for it alone. */
void warp_returned(struct strand *strand);

#endif
