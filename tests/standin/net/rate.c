/* SPDX-License-Identifier: BSD-3-Clause
 * Limits on the bytes that this process sends: slow links without root.
 *
 *   NCCL_STANDIN_RATE=200mbit        to ranks of other hosts: all ranks of a host together, as through its network card
 *   NCCL_STANDIN_RATE_INSIDE=10gbit  to other ranks of its own host, this process alone
 *   NCCL_STANDIN_NIC=PATH:PAGE       the memory through which a host's processes share that first rate (launch makes
 *                                    it); without it this process has its own network card
 *   NCCL_STANDIN_PLAY=1              nothing waits: the time that bytes take at their rate is emulated
 *                                    (tests/e2e/vote/played_time.c), as if each process had its own network card
 *
 * link.h describes the algorithm. All threads of the process share its links; receiving is free.
 */
#include "tests/standin/standin.h"

#include "tests/standin/net/link.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nic own_nics[2];
static struct link links[2]; /* by enum way; rate 0: no limit */
static bool plays;
static atomic_llong played; /* nanoseconds */

STANDIN_API long long ncclStandinPlayTime(long long ns) { return atomic_fetch_add(&played, ns) + ns; }

/* Bits with a unit ("200mbit"), bytes without. 0: not a rate. */
static double parse(const char *text) {
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

static void set_limit(enum way way, struct nic *nic, const char *variable) {
  const char *text = getenv(variable);
  if (!text || !*text)
    return;
  double rate = parse(text) / 1e9;
  if (rate > 0)
    standin_link_init(&links[way], nic, rate);
  else
    fprintf(stderr, "NCCL stand-in: %s=%s is not a rate (200mbit, 1gbit, bytes per second)\n", variable, text);
}

/* The host's network card, or our own. */
static struct nic *find_nic(void) {
  const char *text = getenv("NCCL_STANDIN_NIC"), *colon = text ? strrchr(text, ':') : NULL;
  if (!text)
    return &own_nics[WAY_BETWEEN];
  char *path = colon ? strndup(text, (size_t)(colon - text)) : NULL;
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  long page = sysconf(_SC_PAGESIZE);
  void *memory = MAP_FAILED;
  if (fd >= 0) {
    memory = mmap(NULL, (size_t)page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)atoi(colon + 1) * page);
    close(fd);
  }
  free(path);
  if (memory != MAP_FAILED)
    return memory;
  fprintf(stderr, "NCCL stand-in: NCCL_STANDIN_NIC=%s cannot be shared, so the rate is that of each rank: %m\n", text);
  return &own_nics[WAY_BETWEEN];
}

static void setup(void) {
  set_limit(WAY_INSIDE, &own_nics[WAY_INSIDE], "NCCL_STANDIN_RATE_INSIDE");
  const char *between = getenv("NCCL_STANDIN_RATE"), *play = getenv("NCCL_STANDIN_PLAY");
  plays = play && strcmp(play, "1") == 0;
  if (between && *between)
    set_limit(WAY_BETWEEN, find_nic(), "NCCL_STANDIN_RATE");
}

bool standin_rate_is_limited(enum way way) {
  pthread_once(&once, setup);
  return links[way].rate > 0;
}

size_t standin_rate_take(enum way way, size_t size, int64_t *until) {
  if (!standin_rate_is_limited(way))
    return size;
  if (plays) {
    ncclStandinPlayTime((long long)((double)size / links[way].rate));
    return size;
  }
  pthread_mutex_lock(&lock);
  size_t allowed = standin_link_take(&links[way], standin_now(), size, until);
  pthread_mutex_unlock(&lock);
  return allowed;
}

void standin_rate_return(enum way way, size_t size) {
  if (!standin_rate_is_limited(way) || !size)
    return;
  if (plays) {
    ncclStandinPlayTime(-(long long)((double)size / links[way].rate));
    return;
  }
  pthread_mutex_lock(&lock);
  standin_link_return(&links[way], size);
  pthread_mutex_unlock(&lock);
}

void standin_rate_idle(enum way way) {
  if (!standin_rate_is_limited(way) || plays)
    return;
  pthread_mutex_lock(&lock);
  standin_link_idle(&links[way]);
  pthread_mutex_unlock(&lock);
}
