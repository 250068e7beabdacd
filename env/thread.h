/* SPDX-License-Identifier: BSD-3-Clause
 * Threads of the library in the program's process.
 */
#ifndef ENV_THREAD_H
#define ENV_THREAD_H

#include <stdbool.h>

/* Starts a detached thread with all signals blocked, so that it takes none from threads that wait for them. False: not
 * started, errno says why. On success the thread owns `argument`. Any thread may call this. */
bool tagc_thread_start(void *(*work)(void *), void *argument);

#endif
