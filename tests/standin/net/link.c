/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/standin/net/link.h"

#define BURST_BYTES 65536
#define BURST_NS 5e5                  /* at high rates: the precision of a timer */
#define CATCH_UP_NS INT64_C(50000000) /* a sender that is later than this was stopped, not late */
#define TICKS 64                      /* per nanosecond: a byte at 100 gbit takes a few */

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "processes share them");

static int64_t ticks_of(const struct link *link, size_t bytes) { return (int64_t)((double)bytes / link->rate * TICKS); }

void standin_link_init(struct link *link, struct nic *nic, double rate) {
  double burst = rate * BURST_NS;
  *link = (struct link){.nic = nic, .rate = rate, .burst = burst > BURST_BYTES ? (size_t)burst : BURST_BYTES};
}

/* Takes up to `size` bytes that the link allows now. If it allows too few, reserves enough for a worthwhile turn. */
static size_t take_or_reserve(struct link *link, int64_t now, int64_t oldest, size_t size) {
  size_t allowed, quantum = size < link->burst / 2 ? size : link->burst / 2;
  int_fast64_t paid = atomic_load(&link->nic->paid), next;
  do {
    int64_t from = paid > oldest ? paid : oldest;
    double credit = (double)(now * TICKS - from) * link->rate / TICKS;
    allowed = credit < (double)quantum ? 0 : credit < (double)size ? (size_t)credit : size;
    next = from + ticks_of(link, allowed ? allowed : quantum);
  } while (!atomic_compare_exchange_weak(&link->nic->paid, &paid, next));
  if (!allowed) {
    link->reserved = quantum;
    link->ready = next / TICKS + 1;
  }
  return allowed;
}

size_t standin_link_take(struct link *link, int64_t now, size_t size, int64_t *until) {
  bool was_busy = link->busy || atomic_fetch_add(&link->nic->senders, 1) > 0;
  int64_t saved = ticks_of(link, link->burst) + (was_busy ? CATCH_UP_NS * TICKS : 0);
  size_t allowed = 0;
  link->busy = true;
  if (link->reserved && now >= link->ready) {
    allowed = size < link->reserved ? size : link->reserved;
    link->reserved -= allowed;
  }
  /* After a reservation, takes whatever has accumulated since: a late sender catches up. */
  if (!link->reserved && allowed < size)
    allowed += take_or_reserve(link, now, now * TICKS - saved, size - allowed);
  *until = link->ready;
  return allowed;
}

void standin_link_return(struct link *link, size_t size) { atomic_fetch_sub(&link->nic->paid, ticks_of(link, size)); }

void standin_link_idle(struct link *link) {
  standin_link_return(link, link->reserved);
  link->reserved = 0;
  if (link->busy)
    atomic_fetch_sub(&link->nic->senders, 1);
  link->busy = false;
}
