/* SPDX-License-Identifier: BSD-3-Clause
 * A link of limited rate, which several senders may share, processes too: a token bucket kept as a time.
 *
 * `paid` is the moment up to which the bytes sent so far fill the link. Who wants more than the link has to give
 * reserves a quantum behind all others and comes back when its time has come: so senders take turns, and none starves.
 * From the first byte that somebody wants to send to the last, the link counts as busy, however late he comes back:
 * what a late timer lost is sent at once. An idle link saves up no more than a small burst.
 *
 * What is shared is a `struct nic`: two words that are changed atomically, without a lock that a process could take
 * along when it dies. All that a dead sender leaves is a quantum that nobody uses, and a link that counts as busy: it
 * may save up 50 ms. Zeros are a link that nobody has used yet.
 *
 * A `struct link` is a sender's view; its caller sees to it that one thread at a time uses it. Times are nanoseconds,
 * of any clock that all senders have in common. Nothing fails.
 */
#ifndef TESTS_STANDIN_LINK_H
#define TESTS_STANDIN_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nic {
  atomic_int_fast64_t paid; /* in ticks, link.c */
  atomic_int senders;       /* who have more to send */
};

struct link {
  struct nic *nic;
  double rate;     /* bytes a nanosecond */
  size_t burst;    /* bytes */
  size_t reserved; /* bytes that are paid for and may be sent from `ready` on */
  int64_t ready;
  bool busy; /* counted among the senders */
};

void standin_link_init(struct link *link, struct nic *nic, double rate);
/* How many of `size` bytes may be sent now; 0: none before *until. What is not sent is given back. `size` > 0. */
size_t standin_link_take(struct link *link, int64_t now, size_t size, int64_t *until);
void standin_link_return(struct link *link, size_t size);
/* This sender has nothing to send now, until the next standin_link_take. */
void standin_link_idle(struct link *link);

#endif
