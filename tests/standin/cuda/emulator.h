/* SPDX-License-Identifier: BSD-3-Clause
 * The interface of libcuda.so.1 (emulator.c) for kernels that were compiled for the host (emulate.h). C and C++.
 */
#ifndef TESTS_STANDIN_CUDA_EMULATOR_H
#define TESTS_STANDIN_CUDA_EMULATOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EMULATE_WARP = 32 };

struct emulate_index {
  unsigned x, y, z;
};

struct emulate_block;

/* A kernel thread's data about itself. */
struct emulate_thread {
  struct emulate_index thread;
  const struct emulate_index *block, *block_size, *grid_size;
  unsigned linear; /* within its block: its lane is linear % 32 */
  struct emulate_block *home;
};

/* Thread-local storage without a call: each step of a kernel uses it. */
#define EMULATE_NEAR __attribute__((tls_model("initial-exec")))

/* The thread that runs now; NULL outside of kernels. */
extern __thread struct emulate_thread *emulate_self EMULATE_NEAR;

/* The kind of a kernel's parameter: how to find pointers to device memory, and whether the kernel may write there. */
enum emulate_kind { EMULATE_VALUE, EMULATE_READS, EMULATE_WRITES, EMULATE_STRUCT };

struct emulate_parameter {
  uint32_t size;
  enum emulate_kind kind;
};

struct emulate_kernel {
  const char *name;
  void (*call)(void **parameters);
  const struct emulate_parameter *parameters;
  uint32_t count;
  struct emulate_kernel *next; /* of the list that emulate_register() keeps */
};

/* Called by constructors of the object that holds the kernel: the object then stays loaded. */
void emulate_register(struct emulate_kernel *kernel);

/* Barriers of the block. `kind` combines the threads' values. */
enum emulate_barrier_kind { EMULATE_SYNC, EMULATE_OR, EMULATE_AND, EMULATE_COUNT };
int emulate_barrier(enum emulate_barrier_kind kind, int value, const char *file, int line);

/* Operations of the lanes in `mask`. */
enum emulate_warp_kind {
  EMULATE_SYNCWARP,
  EMULATE_SHFL,
  EMULATE_SHFL_UP,
  EMULATE_SHFL_DOWN,
  EMULATE_SHFL_XOR,
  EMULATE_BALLOT,
  EMULATE_MATCH_ANY,
  EMULATE_REDUCE_ADD,
  EMULATE_REDUCE_AND,
  EMULATE_REDUCE_OR,
  EMULATE_REDUCE_XOR,
  EMULATE_REDUCE_MIN_U,
  EMULATE_REDUCE_MAX_U,
  EMULATE_REDUCE_MIN_S,
  EMULATE_REDUCE_MAX_S
};
uint64_t emulate_warp(enum emulate_warp_kind kind, uint32_t mask, uint64_t value, unsigned argument, unsigned width,
                      const char *file, int line);

/* Lets other threads continue in a loop that waits for them. */
void emulate_pause(const char *file, int line);

/* Makes earlier writes visible to any thread that passes a fence later. */
void emulate_fence(void);

void *emulate_dynamic_shared(void);

void emulate_trap(const char *file, int line) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif
