/* SPDX-License-Identifier: BSD-3-Clause
 * Which call of the program is an operation of NCCL? NCCL launches some calls later, in groups and on other threads.
 * Their buffers tell, together: the latest call with them that has not been found yet. A table has one call a place, so
 * a call may be forgotten for another one; its operation then has no call.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/profiler/expect.h"

enum { EXPECTED = 1 << 12, RANGES = 64 };

static pthread_mutex_t expected_lock = PTHREAD_MUTEX_INITIALIZER;
static struct expected_call {
  const void *send, *recv;
  struct tagc_expected_call call;
} * expected; /* made at the first call, for a process without a profiler has no use for it */

/* The latest calls of several messages. */
static struct {
  uintptr_t send, recv;
  uint64_t bytes; /* 0: none */
  struct tagc_expected_call call;
} ranges[RANGES];
static size_t ranges_made;

static struct expected_call *expected_place(const void *send, const void *recv) {
  const uint64_t mixed =
    ((uintptr_t)send * UINT64_C(0x9e3779b97f4a7c15)) ^ ((uintptr_t)recv * UINT64_C(0xc2b2ae3d27d4eb4f));
  return &expected[(size_t)(mixed >> 52) % EXPECTED];
}

void tagc_profiler_expect(uint64_t call, uint32_t comm, const void *send, const void *recv) {
  pthread_mutex_lock(&expected_lock);
  if (!expected)
    expected = calloc(EXPECTED, sizeof *expected);
  if (expected)
    *expected_place(send, recv) = (struct expected_call){send, recv, {call, comm}};
  pthread_mutex_unlock(&expected_lock);
}

void tagc_profiler_expect_messages(uint64_t call, uint32_t comm, const void *send, const void *recv, uint64_t bytes) {
  pthread_mutex_lock(&expected_lock);
  const size_t at = ranges_made++ % RANGES;
  ranges[at].send = (uintptr_t)send;
  ranges[at].recv = (uintptr_t)recv;
  ranges[at].bytes = bytes;
  ranges[at].call = (struct tagc_expected_call){call, comm};
  pthread_mutex_unlock(&expected_lock);
}

/* The latest call that has this message. */
static struct tagc_expected_call find_messages(const void *send, const void *recv) {
  for (size_t i = 1; i <= RANGES && i <= ranges_made; i++) {
    const size_t at = (ranges_made - i) % RANGES;
    const uintptr_t off = send ? (uintptr_t)send - ranges[at].send : (uintptr_t)recv - ranges[at].recv;
    if (off < ranges[at].bytes)
      return ranges[at].call;
  }
  return (struct tagc_expected_call){0, 0};
}

struct tagc_expected_call tagc_profiler_expected(const void *send, const void *recv) {
  struct tagc_expected_call found = {0, 0};
  pthread_mutex_lock(&expected_lock);
  struct expected_call *at = expected ? expected_place(send, recv) : NULL;
  if (at && at->send == send && at->recv == recv) {
    found = at->call;
    at->call = (struct tagc_expected_call){0, 0};
  }
  const struct tagc_expected_call whole = find_messages(send, recv);
  if ((!send || !recv) && whole.number > found.number) /* the other one was refused */
    found = whole;
  pthread_mutex_unlock(&expected_lock);
  return found;
}

void tagc_profiler_expect_nothing(void) {
  pthread_mutex_init(&expected_lock, NULL);
  if (expected)
    memset(expected, 0, EXPECTED * sizeof *expected);
  ranges_made = 0;
}
