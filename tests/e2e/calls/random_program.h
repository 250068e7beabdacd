/* SPDX-License-Identifier: BSD-3-Clause
 * Random programs: the actions of all ranks of a program, as a pure function of its seed.
 *
 * A program makes communicators, trains on them, ends some, makes others. Its calls form one sequence that all ranks
 * share. A *bundle* holds the calls of one communicator in one group. Its members must agree on it: NCCL fuses such
 * calls.
 * A rank takes the bundles of its own communicators, in their order, and cuts them into blocks. A block is one group,
 * or one call alone.
 *
 * Valid   Within a block all communicators progress at once, and blocks follow the common order. So all members of the
 *         first unfinished bundle have it in their current block: no circle of waiting exists, wherever ranks cut, and
 *         in any order of the communicators of a block. (On a GPU that takes a stream for each
 *         communicator, as PyTorch has them.)
 * Shapes  SHAPE_APART: no group holds several communicators. SHAPE_ALIKE: all ranks cut at the same places, so groups
 *         differ by membership alone. SHAPE_ORDERS: each rank orders the communicators of these groups as it likes.
 *         SHAPE_CUTS: each rank cuts where it likes, and keeps the common order. SHAPE_ANY: both.
 */
#ifndef TESTS_E2E_RANDOM_PROGRAM_H
#define TESTS_E2E_RANDOM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "interpose/nccl/nccl_newer.h"

enum { MOST_RANKS = 6, MOST_COMMS = 32, MOST_CALLS = 4, MOST_BUNDLES = 4096, MOST_EVENTS = 64, LANES = 2 };

enum shape { SHAPE_APART, SHAPE_ALIKE, SHAPE_ORDERS, SHAPE_CUTS, SHAPE_ANY, SHAPES };

/* SHIFT: each rank sends to the next one, and receives from the one before. REFUSED: a broadcast from no rank. */
enum function {
  REDUCE_SCATTER,
  ALL_GATHER,
  ALL_REDUCE,
  BROADCAST,
  REDUCE,
  SHIFT,
  ALL_TO_ALL,
  GATHER,
  SCATTER,
  REFUSED,
  FUNCTIONS
};

/* SCALED: a user's own op, with a scalar that differs from rank to rank. */
enum op { SUM, AVERAGE, MAX, MIN, SCALED, OPS };

struct call {
  enum function function;
  ncclDataType_t type;
  enum op op;
  bool in_place;
  int root;     /* a rank of the communicator */
  size_t count; /* as in NCCL's call */
};

struct bundle {
  int comm, step, side_stream;
  int block; /* if all ranks cut alike: bundles with the same number are in one group */
  int ncalls;
  struct call calls[MOST_CALLS];
};

struct communicator {
  int parent;                    /* -1: made of an id */
  int nranks, ranks[MOST_RANKS]; /* the program's ranks, in the order of this communicator's */
  int side_stream;               /* the thread that calls it */
};

struct split {
  int parent;
  int color[MOST_RANKS], key[MOST_RANKS]; /* of the program's ranks; NCCL_SPLIT_NOCOLOR if a rank wants no child */
  int child[MOST_RANKS];                  /* the communicator that a rank gets, or -1 */
};

enum event_kind { EVENT_INIT, EVENT_SPLIT, EVENT_RUN, EVENT_END };

/* The actions of all ranks, one after the other. In a run each side stream calls its own bundles. */
struct event {
  enum event_kind kind;
  int which;       /* communicator or split */
  int first, last; /* bundles of a run: first to last - 1 */
};

struct program {
  char name[40];
  uint64_t seed;
  int nranks;
  bool nonblocking, threads;
  enum shape shape;
  int ncomms, nsplits, nevents, nbundles;
  struct communicator comms[MOST_COMMS];
  struct split splits[MOST_COMMS];
  struct event events[MOST_EVENTS];
  struct bundle bundles[MOST_BUNDLES];
};

/* The common settings of a batch of programs: its ranks, their hosts, and the library's options. */
struct setting {
  int nranks;
  char hosts[32];       /* of each rank, with commas */
  char options[16][40]; /* NAME=value */
  int noptions;
  const char *codec, *gather;
  bool residual;
};

/* Programs with a name: groups in which ranks once decided differently. NULL: no such number. */
const char *named_program(int number, int *nranks);

/* `shapes`: a bit for each shape that may be drawn. */
void make_program(struct program *program, uint64_t seed, int nranks, unsigned shapes);
bool make_named(struct program *program, const char *name);
void make_setting(struct setting *setting, uint64_t batch);
void named_setting(struct setting *setting, const char *name, int nranks);
void describe(const struct program *program, FILE *to);
const char *call_words(const struct call *call, char text[100]);

/* This rank's place in a communicator, or -1. */
int place_in(const struct communicator *comm, int rank);
/* True if the rank begins a block with this bundle after bundle `before`. */
bool cuts_before(const struct program *program, int bundle, int before, int rank);

/* splitmix64 */
uint64_t mix_bits(uint64_t x);

/* Runs the programs as the environment's rank. Returns the exit status. */
struct orders {
  const struct setting *setting;
  const char *named; /* or NULL, and then these: */
  uint64_t first, last;
  unsigned shapes;
  bool plain;         /* without the library: all results are exact */
  int patience;       /* seconds without progress that count as a hang */
  const char *spoils; /* the last rank spoils a result, a guard, what it sent, or hangs; or NULL */
};
int run_programs(const struct orders *orders);

#endif
