/* SPDX-License-Identifier: BSD-3-Clause
 * The listener: one TCP socket and one thread a process, from the first id that it makes until nobody waits for a
 * decision any more. It answers to those who show the secret of an id, one request a connection; all others are hung up
 * on.
 *
 * Threads: any. The thread has all signals blocked, so that the program's handlers run where they used to. After a fork
 * the child has neither thread nor sessions, and starts anew with its own first id.
 */
#ifndef INTERPOSE_AGREE_LISTENER_H
#define INTERPOSE_AGREE_LISTENER_H

#include "interpose/agree/wire.h"

/* Expects the ranks of one more id at `host` (the port does not matter): fills *stamp. False, with a reason in *why
 * (static text; errno tells more where it is not 0), where that is not possible. */
bool tagc_agree_listen(const union tagc_agree_address *host, struct tagc_agree_stamp *stamp, const char **why);

#endif
