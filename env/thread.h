/* SPDX-License-Identifier: BSD-3-Clause
 * Threads of the library in the program's process.
 */
#ifndef ENV_THREAD_H
#define ENV_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a detached thread with all signals blocked, so that it takes none from threads that wait for them. False: not
 * started, errno says why. On success the thread owns `argument`. Any thread may call this. */
bool tagc_thread_start(void *(*work)(void *), void *argument);

/* Takes a lock whose holder may be gone (a fork), or be this very thread (a signal's handler ends the program). False:
 * given up. */
bool tagc_thread_try_lock(pthread_mutex_t *lock);

#endif
