/* SPDX-License-Identifier: BSD-3-Clause
 * Runs the PTX that nvcc made of kernels, on the CPU.
 *
 * parse.c turns the text into instructions (struct ptx_ins), once per module. Every register has a row of 32 lanes at a
 * fixed place of its warp's file; constants have rows of their own. alu.c computes rows. run.c runs blocks: a warp is a
 * list of parts, whose lanes are at one instruction; parts that meet again become one. memory.c makes the accesses,
 * and check.c says what is wrong with them.
 */
#ifndef TESTS_STANDIN_CUDA_PTX_PTX_H
#define TESTS_STANDIN_CUDA_PTX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/standin/cuda/driver.h"

/* The interpreter's loops go over 32 lanes: vectors do that, whatever the flags of the build. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("O3")
#endif

enum { LANES = 32, MOST_OPERANDS = 5, MOST_SOURCES = 4, MOST_RETURNS = 4 };

/* Generic addresses of shared memory begin here. */
#define PTX_SHARED_BASE (UINT64_C(1) << 60)

/* Types of rows: they may alias one another. */
typedef uint32_t __attribute__((may_alias)) row32;
typedef uint64_t __attribute__((may_alias)) row64;
typedef float __attribute__((may_alias)) rowf;
typedef double __attribute__((may_alias)) rowd;

enum ptx_kind { PTX_NONE, PTX_REGISTER, PTX_CONSTANT };

/* A row: `at` counts words of 32 bits, in the file of the warp or in the constants of the module. */
struct ptx_operand {
  uint32_t at;
  uint8_t kind, bits; /* bits: 1 for predicates */
};

enum ptx_op {
  PTX_ARITHMETIC,
  PTX_PACK,
  PTX_UNPACK,
  PTX_PARAMETER,
  PTX_LOAD,
  PTX_STORE,
  PTX_ATOMIC,
  PTX_SHUFFLE,
  PTX_VOTE,
  PTX_MATCH,
  PTX_REDUCE,
  PTX_WARP_BARRIER,
  PTX_BARRIER,
  PTX_FENCE,
  PTX_SLEEP,
  PTX_BRANCH,
  PTX_CALL,
  PTX_RETURN
};

enum ptx_space { PTX_GENERIC, PTX_GLOBAL, PTX_SHARED, PTX_PARAM };

/* What an atomic, a reduction, a vote or a shuffle does. */
enum ptx_how {
  PTX_ADD,
  PTX_AND,
  PTX_OR,
  PTX_XOR,
  PTX_MIN,
  PTX_MAX,
  PTX_EXCHANGE,
  PTX_SWAP,
  PTX_ANY,
  PTX_ALL,
  PTX_BALLOT,
  PTX_COUNT,
  PTX_UP,
  PTX_DOWN,
  PTX_BUTTERFLY,
  PTX_INDEX,
  PTX_SYNC
};

struct ptx_warp;
struct ptx_ins;
typedef void ptx_step(struct ptx_warp *warp, const struct ptx_ins *ins);

struct ptx_ins {
  ptx_step *run; /* of arithmetic */
  uint8_t op, space, how, bytes, vector, sources, targets;
  bool is_signed, is_float, acquires, releases, strong, picks, guard_inverted;
  struct ptx_operand guard, to[MOST_OPERANDS], from[MOST_OPERANDS];
  uint32_t known[MOST_SOURCES]; /* of arithmetic: what the sources' rows have defined */
  int64_t offset;
  uint32_t target; /* of a branch or call */
  int line;
  const char *text; /* of the statement, up to its semicolon */
};

struct ptx_parameter {
  char *name;
  uint32_t at, size;
  struct ptx_operand row; /* of a function that is called */
};

struct ptx_function {
  char *name;
  bool is_entry;
  uint32_t begin; /* its first instruction */
  uint32_t words; /* of a warp's file, while it runs */
  uint32_t shared;
  struct ptx_parameter *parameters;
  uint32_t count, parameter_bytes;
  struct ptx_operand result;
};

struct ptx_module {
  char *text;
  struct ptx_ins *code;
  uint32_t instructions;
  struct ptx_function *functions;
  uint32_t count;
  row32 *constants;
  uint32_t *all_defined; /* of the constants */
};

/* Rows that every file begins with. */
enum ptx_special {
  PTX_TID_X,
  PTX_TID_Y,
  PTX_TID_Z,
  PTX_NTID_X,
  PTX_NTID_Y,
  PTX_NTID_Z,
  PTX_CTAID_X,
  PTX_CTAID_Y,
  PTX_CTAID_Z,
  PTX_NCTAID_X,
  PTX_NCTAID_Y,
  PTX_NCTAID_Z,
  PTX_LANEID,
  PTX_SPECIALS
};

/* -- parse.c ------------------------------------------------------------------------------------------------------- */
/* The module of a text. A text that is not understood ends the process. */
struct ptx_module *ptx_parse(const char *text);
/* The module of a text, or of a file if there is no text; modules are kept. Needs the lock. */
const struct ptx_module *ptx_load(const char *text, const char *path);
const struct ptx_function *ptx_find(const struct ptx_module *module, const char *name); /* an entry; NULL: none */

/* -- alu.c --------------------------------------------------------------------------------------------------------- */
struct ptx_arithmetic {
  ptx_step *run;
  uint8_t sources, to, from[4]; /* bits of the rows */
};

/* The computation of an opcode; NULL if it is no arithmetic. */
const struct ptx_arithmetic *ptx_arithmetic(const char *opcode, size_t length);

/* -- run.c --------------------------------------------------------------------------------------------------------- */
/* Memory that a kernel may access: where it really is. */
struct ptx_range {
  uintptr_t begin;
  size_t size;
};

enum ptx_state { PTX_RUNS, PTX_AT_WARP, PTX_AT_BARRIER };

struct ptx_part {
  uint32_t mask, pc, depth, returns[MOST_RETURNS];
  enum ptx_state state;
};

struct ptx_warp {
  row32 *base[2];                                  /* the file, and the constants */
  uint32_t *defined[2];                            /* for each row: a bit for each lane */
  uint32_t on[LANES] __attribute__((aligned(64))); /* lanes that take part now: all bits, or none */
  uint32_t mask;
  struct ptx_block *block;
  unsigned index;
  uint32_t exists, returned;
  struct ptx_part parts[LANES];
  unsigned count, turn;
  uint32_t tick, any_tick; /* the warp's barriers; all that it did together */
  /* Of races.c. pending: read by strong loads, known behind the next fence; released: known at the last fence. */
  bool knows; /* some pointer of the three arrays is set */
  uint32_t moments[2];
  struct ptx_known *known, *lane_known[LANES], *pending[LANES], *released[LANES];
};

struct ptx_block {
  struct ptx_machine *machine;
  struct emulate_index index;
  uint64_t linear;
  unsigned char *shared;
  uint32_t waiting, returned;
  uint32_t gathered_or, gathered_and, gathered_count;
  bool over;
  struct ptx_warp *warps;
  uint32_t epoch, clock, first_moment; /* barriers; releases */
  struct ptx_known *known, *pending;
  struct ptx_cell *cells; /* of shared memory */
};

struct ptx_counts {
  uint64_t instructions, read, written, conflicts, atomics, same;
};

struct ptx_machine {
  const struct ptx_module *module;
  const struct ptx_function *function;
  const struct emulate_launch *launch;
  unsigned char *parameters;
  const struct ptx_range *ranges;
  unsigned count, last; /* of the ranges; the one found last */
  unsigned threads, warps;
  uint32_t shared;
  uint64_t random; /* 0: the usual schedule */
  uint64_t idle;   /* instructions since memory changed, a thread returned, or a barrier let go */
  struct ptx_block *blocks;
  unsigned alive;
  struct ptx_races *races;
  struct ptx_counts counts;
};

void ptx_run(const struct ptx_module *module, const struct ptx_function *function, const struct emulate_launch *launch,
             const struct ptx_range *ranges, unsigned count);
void ptx_end_thread(void); /* frees what this thread keeps for the next launch */

static inline void *ptx_row(const struct ptx_warp *warp, struct ptx_operand operand) {
  return warp->base[operand.kind == PTX_CONSTANT] + operand.at;
}

static inline uint32_t ptx_defined(const struct ptx_warp *warp, struct ptx_operand operand) {
  return warp->defined[operand.kind == PTX_CONSTANT][operand.at / LANES];
}

/* A bit for each lane, in a table: a shift by the lane's number is no vector operation everywhere. */
#define PTX_BITS(n) 1u << (n), 2u << (n), 4u << (n), 8u << (n)
static const uint32_t ptx_bits[LANES] = {PTX_BITS(0),  PTX_BITS(4),  PTX_BITS(8),  PTX_BITS(12),
                                         PTX_BITS(16), PTX_BITS(20), PTX_BITS(24), PTX_BITS(28)};

/* The lanes whose predicate is true. */
static inline uint32_t ptx_truths(const struct ptx_warp *warp, struct ptx_operand operand) {
  const row32 *row = ptx_row(warp, operand);
  uint32_t result = 0;
  for (unsigned lane = 0; lane < LANES; lane++)
    result |= (0 - (row[lane] & 1)) & ptx_bits[lane];
  return result;
}

/* Says which of the warp's lanes that take part have a defined value in the row. */
static inline void ptx_define(struct ptx_warp *warp, struct ptx_operand operand, uint32_t defined) {
  uint32_t *all = &warp->defined[0][operand.at / LANES];
  *all = (*all & ~warp->mask) | (defined & warp->mask);
}

static inline uint64_t ptx_get(const struct ptx_warp *warp, struct ptx_operand operand, unsigned lane) {
  const void *row = ptx_row(warp, operand);
  return operand.bits == 64 ? ((const row64 *)row)[lane] : ((const row32 *)row)[lane];
}

/* Registers of 16 bits hold zeros above. */
static inline void ptx_put(struct ptx_warp *warp, struct ptx_operand operand, unsigned lane, uint64_t value) {
  void *row = ptx_row(warp, operand);
  if (operand.bits == 64)
    ((row64 *)row)[lane] = value;
  else
    ((row32 *)row)[lane] = operand.bits == 16 ? (uint16_t)value : operand.bits == 1 ? value & 1 : (uint32_t)value;
}

/* The lanes of the mask, one after the other. */
#define PTX_EACH(lane, mask) \
  for (uint32_t left_ = (mask), lane; left_ && (lane = (uint32_t)__builtin_ctz(left_), true); left_ &= left_ - 1)

/* -- memory.c ------------------------------------------------------------------------------------------------------ */
void ptx_access(struct ptx_warp *warp, const struct ptx_ins *ins);
void ptx_read_parameter(struct ptx_warp *warp, const struct ptx_ins *ins);
/* The range that holds these bytes, which is then the last one; NULL: none. */
const struct ptx_range *ptx_find_range(struct ptx_machine *machine, uint64_t address, uint64_t bytes);

/* -- lanes.c ------------------------------------------------------------------------------------------------------- */
/* Runs a shuffle, vote, match, reduction or barrier of the warp. False: some lanes that it names are not there yet. */
bool ptx_together(struct ptx_warp *warp, const struct ptx_ins *ins);

/* -- count.c ------------------------------------------------------------------------------------------------------- */
void ptx_count_launch(const struct ptx_machine *machine);
/* An access of the lanes in the two masks. `at` has a place for each. */
void ptx_count_access(struct ptx_warp *warp, const struct ptx_ins *ins, char *const *at, uint32_t shared,
                      uint32_t global);

/* -- races.c ------------------------------------------------------------------------------------------------------- */
void ptx_races_begin(struct ptx_machine *machine);
void ptx_races_end(struct ptx_machine *machine);
void ptx_races_end_thread(void);
void ptx_races_begin_block(struct ptx_block *block);
void ptx_races_end_block(struct ptx_block *block);
void ptx_races_barrier(struct ptx_block *block);
void ptx_races_together(struct ptx_warp *warp, const struct ptx_ins *ins); /* some lanes meet */
void ptx_races_fence(struct ptx_warp *warp, const struct ptx_ins *ins);
/* Looks at an access of the lanes in the mask before it happens, to shared memory or to global. Returns the lanes that
 * read shared memory which was never written. */
uint32_t ptx_races_access(struct ptx_warp *warp, const struct ptx_ins *ins, char *const *at, uint32_t lanes,
                          bool shared);
/* What was written into shared memory there is undefined. */
void ptx_races_undefined(struct ptx_warp *warp, const struct ptx_ins *ins, const void *at);

/* -- check.c ------------------------------------------------------------------------------------------------------- */
/* Writes a finding, once for each instruction and kind. The process will fail at its end. */
void ptx_finding(const struct ptx_warp *warp, const struct ptx_ins *ins, unsigned lane, const char *format, ...)
  __attribute__((format(printf, 4, 5)));
/* Ends the process at once. */
void ptx_refuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void ptx_undefined(const struct ptx_warp *warp, const struct ptx_ins *ins, uint32_t lanes, const char *what);

static inline void ptx_check_defined(const struct ptx_warp *warp, const struct ptx_ins *ins, struct ptx_operand operand,
                                     const char *what) {
  uint32_t undefined = operand.kind == PTX_REGISTER ? warp->mask & ~ptx_defined(warp, operand) : 0;
  if (undefined)
    ptx_undefined(warp, ins, undefined, what);
}

#endif
