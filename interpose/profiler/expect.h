/* SPDX-License-Identifier: BSD-3-Clause
 * The other side of tagc_profiler_expect(). Threads: any; a lock of its own.
 */
#ifndef INTERPOSE_PROFILER_EXPECT_H
#define INTERPOSE_PROFILER_EXPECT_H

#include "interpose/profiler/profiler.h"

struct tagc_expected_call {
  uint64_t number; /* 0: none */
  uint32_t comm;
};

/* The call with these buffers, which is not expected any more. */
struct tagc_expected_call tagc_profiler_expected(const void *send, const void *recv);
/* In a forked child. */
void tagc_profiler_expect_nothing(void);

#endif
