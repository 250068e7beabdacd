/* SPDX-License-Identifier: BSD-3-Clause
 * NCCL's profiler plugin (NCCL 2.23 and later): the times of NCCL's kernels, and its network's transfers, for a trace.
 *
 * What     A preloaded library sees calls. NCCL's plugin interface shows when a kernel runs on the GPU, and what the
 *          proxy threads send and receive. With TAGC_PROFILER the trace gets a PROFILE record for each operation that
 *          NCCL has launched (trace/format.h).
 * How      NCCL opens the library that NCCL_PROFILER_PLUGIN names, and looks for ncclProfiler_v6, or older versions.
 *          offer.c sets the variable to this library before NCCL makes its first communicator. versions.c has the
 *          tables, and events.c sums the events up.
 * Others   A plugin of the user is never displaced: neither one named in the environment or in NCCL's files, nor one
 *          that NCCL finds by itself (libnccl-profiler.so, or inside of a network plugin). hook.c hides our tables from
 *          a program that has a plugin linked in (STATIC_PLUGIN).
 * Harm     None: every function of the plugin returns success. A handle is a number that is checked, never an address.
 *          Events of unknown parents, late ones, and those without room are left out; the record then has less.
 * Ranks    Need not agree on it. Off, it costs a load and a branch a traced call.
 * Threads  Any: NCCL's proxy threads, the program's own, and those of NCCL's launches. One lock a communicator, held
 *          for some sums; under it, only the lock of the trace is taken.
 */
#ifndef INTERPOSE_PROFILER_PROFILER_H
#define INTERPOSE_PROFILER_PROFILER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tagc_nccl;

extern atomic_bool tagc_profiler_is_on;

static inline bool tagc_profiler_on(void) { return atomic_load_explicit(&tagc_profiler_is_on, memory_order_relaxed); }

/* This copy of NCCL is about to make a communicator: has it use the plugin, if the user wants that. Acts once. */
void tagc_profiler_offer(const struct tagc_nccl *nccl);

/* The program makes a call with these buffers, NULL for none: the next operation with them is this call. */
void tagc_profiler_expect(uint64_t call, uint32_t comm, const void *send, const void *recv);
/* Likewise for a call that NCCL makes several messages of: those within `bytes` from these addresses on are of the
 * call, unless they are a call themselves. */
void tagc_profiler_expect_messages(uint64_t call, uint32_t comm, const void *send, const void *recv, uint64_t bytes);

#endif
