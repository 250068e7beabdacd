/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/clock.h"

#include <time.h>

uint64_t tagc_clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

double tagc_clock_ms(void) { return (double)tagc_clock_ns() * 1e-6; }
