/* SPDX-License-Identifier: BSD-3-Clause
 * The listener: one TCP socket and one thread a process, from the first id that it makes until nobody waits for a
 * decision any more. It answers one request a connection if that has the secret of an id, else it hangs up.
 *
 * Threads: any. The thread has all signals blocked, so that the program's handlers run where they used to. After a fork
 * the child has neither thread nor sessions, and starts anew with its own first id.
 */
#ifndef INTERPOSE_AGREE_LISTENER_H
#define INTERPOSE_AGREE_LISTENER_H

#include "interpose/agree/wire.h"

/* Expects the ranks of another id at `host` (the port does not matter): fills *stamp. False if that is impossible, with
 * a reason in *why (static text; errno, if not 0, adds to it). */
bool tagc_agree_listen(const union tagc_agree_address *host, struct tagc_agree_stamp *stamp, const char **why);

#endif
