/* SPDX-License-Identifier: BSD-3-Clause
 * Signals that our writes may raise and that must not reach the program: SIGPIPE (no reader) and SIGXFSZ (file at its
 * limit, RLIMIT_FSIZE). They are blocked in this thread, and consumed if they are ours.
 *
 * Threads  Each blocks its own. No handler is touched; errno may change.
 */
#ifndef ENV_SIGNALS_H
#define ENV_SIGNALS_H

#include <signal.h>

struct tagc_held_signals {
  sigset_t before;  /* the thread's mask */
  sigset_t pending; /* already pending, raised by others */
};

void tagc_signals_hold(struct tagc_held_signals *held);

/* `error`: the errno of the failed write, or 0. It tells which signal is ours: EPIPE, EFBIG. */
void tagc_signals_release(const struct tagc_held_signals *held, int error);

#endif
