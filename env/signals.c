/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/signals.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

void tagc_signals_hold(struct tagc_held_signals *held) {
  sigset_t ours;
  sigemptyset(&ours);
  sigaddset(&ours, SIGPIPE);
  sigaddset(&ours, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &ours, &held->before);
  sigpending(&held->pending);
}

void tagc_signals_release(const struct tagc_held_signals *held, int error) {
  const int ours = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
  sigset_t one;
  sigemptyset(&one);
  if (ours && !sigismember(&held->pending, ours)) {
    sigaddset(&one, ours);
    while (sigtimedwait(&one, NULL, &(struct timespec){0, 0}) < 0 && errno == EINTR)
      ;
  }
  pthread_sigmask(SIG_SETMASK, &held->before, NULL);
}
