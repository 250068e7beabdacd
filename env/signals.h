/* SPDX-License-Identifier: BSD-3-Clause
 * Signals that a write of ours may raise and that must not reach the program: SIGPIPE (nobody reads any more) and
 * SIGXFSZ (the file may not grow, RLIMIT_FSIZE). They are held back in this thread, and taken if they are ours.
 *
 * Threads  Each holds back its own. No handler is touched; errno may change.
 */
#ifndef ENV_SIGNALS_H
#define ENV_SIGNALS_H

#include <signal.h>

struct tagc_held_signals {
  sigset_t before;  /* the thread's mask */
  sigset_t pending; /* what others had raised already */
};

void tagc_signals_hold(struct tagc_held_signals *held);

/* `error`: the errno of the write that failed, 0 where none did. It tells which signal is ours: EPIPE, EFBIG. */
void tagc_signals_release(const struct tagc_held_signals *held, int error);

#endif
