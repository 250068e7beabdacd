/* SPDX-License-Identifier: BSD-3-Clause
 * Threads of the library, in the process of somebody else.
 */
#ifndef ENV_THREAD_H
#define ENV_THREAD_H

#include <stdbool.h>

/* Starts a thread that nobody joins, and that takes no signal from those that wait for them. False where it cannot be
 * had; errno says why. `argument` is the thread's from then on. Any thread may call this. */
bool tagc_thread_start(void *(*work)(void *), void *argument);

#endif
