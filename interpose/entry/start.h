/* SPDX-License-Identifier: BSD-3-Clause
 * The start of the library in this process: at the first NCCL call, as there is no constructor. Threads: any.
 */
#ifndef INTERPOSE_ENTRY_START_H
#define INTERPOSE_ENTRY_START_H

#include <stdatomic.h>
#include <stdbool.h>

enum { TAGC_LIBRARY_NEW, TAGC_LIBRARY_OFF, TAGC_LIBRARY_ON };
extern atomic_int tagc_library_state;

/* Reads and checks the options, and begins the trace; once. True unless TAGC_MODE=off. */
bool tagc_library_start(void);

/* Does the library do more than forward? One load and one branch after the first call. */
static inline bool tagc_library_on(void) {
  int state = atomic_load_explicit(&tagc_library_state, memory_order_acquire);
  return state == TAGC_LIBRARY_NEW ? tagc_library_start() : state == TAGC_LIBRARY_ON;
}

#endif
