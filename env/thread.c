/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>

bool tagc_thread_start(void *(*work)(void *), void *argument) {
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t all, before;
  int status = pthread_attr_init(&attributes);
  if (status == 0) {
    sigfillset(&all);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    status = pthread_create(&thread, &attributes, work, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
  }
  errno = status;
  return status == 0;
}

bool tagc_thread_try_lock(pthread_mutex_t *lock) {
  for (int tries = 0; tries < 1000; tries++) {
    if (pthread_mutex_trylock(lock) == 0)
      return true;
    sched_yield();
  }
  return false;
}
