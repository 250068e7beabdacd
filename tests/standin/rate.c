/* SPDX-License-Identifier: BSD-3-Clause
 * A limit on what this process sends, so that a slow link can be had without root: NCCL_STANDIN_RATE=200mbit.
 *
 * A token bucket kept as a time: `paid` is the moment up to which the bytes sent so far fill the link. From the
 * first byte that somebody sends to the last, the link counts as busy, however late he comes back: what a late timer
 * lost is sent at once. An idle link saves up no more than a small burst. All threads of the process share the link;
 * receiving is free.
 */
#include "standin.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define BURST_BYTES 65536
#define CATCH_UP_NS INT64_C(50000000) /* who comes later than that was stopped, not late */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double rate; /* bytes a nanosecond, 0: no limit */
static double burst;
static double paid;
static bool busy; /* somebody has more to send */

/* Bits with a unit ("200mbit"), bytes without. 0: not a rate. */
static double parse(const char *text)
{
  static const struct {
    const char *unit;
    double bytes;
  } units[] = {{"", 1}, {"bit", 1. / 8}, {"kbit", 1e3 / 8}, {"mbit", 1e6 / 8}, {"gbit", 1e9 / 8}};
  char *end;
  double value = strtod(text, &end);
  for (size_t i = 0; end != text && i < sizeof units / sizeof units[0]; i++)
    if (strcasecmp(end, units[i].unit) == 0 && value > 0)
      return value * units[i].bytes;
  return 0;
}

static void setup(void)
{
  const char *text = getenv("NCCL_STANDIN_RATE");
  if (!text || !*text)
    return;
  rate = parse(text) / 1e9;
  if (rate <= 0)
    fprintf(stderr, "NCCL stand-in: NCCL_STANDIN_RATE=%s is not a rate (200mbit, 1gbit, bytes per second)\n", text);
  /* At high rates half a millisecond, which is what a timer can be trusted with. */
  burst = rate * 5e5 > BURST_BYTES ? rate * 5e5 : BURST_BYTES;
}

bool standin_rate_is_limited(void)
{
  pthread_once(&once, setup);
  return rate > 0;
}

size_t standin_rate_take(size_t size, int64_t *until)
{
  if (!standin_rate_is_limited())
    return size;
  pthread_mutex_lock(&lock);
  double now = (double)standin_now();
  double oldest = now - burst / rate - (busy ? (double)CATCH_UP_NS : 0);
  if (paid < oldest)
    paid = oldest;
  double credit = (now - paid) * rate;
  double quantum = (double)size < burst / 2 ? (double)size : burst / 2;
  size_t allowed = 0;
  if (credit < quantum)
    *until = (int64_t)(paid + quantum / rate) + 1;
  else
    allowed = credit < (double)size ? (size_t)credit : size;
  busy = true;
  paid += (double)allowed / rate;
  pthread_mutex_unlock(&lock);
  return allowed;
}

void standin_rate_return(size_t size)
{
  if (!standin_rate_is_limited() || !size)
    return;
  pthread_mutex_lock(&lock);
  paid -= (double)size / rate;
  pthread_mutex_unlock(&lock);
}

void standin_rate_idle(void)
{
  if (!standin_rate_is_limited())
    return;
  pthread_mutex_lock(&lock);
  busy = false;
  pthread_mutex_unlock(&lock);
}
