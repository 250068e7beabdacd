/* SPDX-License-Identifier: BSD-3-Clause
 * A link of limited rate, which several senders and processes may share: a token bucket stored as a time.
 *
 * `paid` is the moment up to which the bytes sent so far fill the link. A sender that wants more than the link allows
 * reserves a quantum behind all others and returns when its time has come. So senders take turns, and none starves. The
 * link is busy from the first byte that a sender wants to send to the last, however late the sender returns: bytes lost
 * to a late timer are sent at once. An idle link saves up no more than a small burst.
 *
 * Processes share a `struct nic`: two words with atomic updates, without a lock that a dying process could leave
 * locked. A dead sender leaves only an unused quantum and a link that counts as busy, which may save up 50 ms. Zeros
 * are an unused link.
 *
 * A `struct link` is a sender's view; its caller ensures that one thread at a time uses it. Times are nanoseconds of
 * any clock that all senders share. Nothing fails.
 */
#ifndef TESTS_STANDIN_LINK_H
#define TESTS_STANDIN_LINK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nic {
  atomic_int_fast64_t paid; /* in ticks, link.c */
  atomic_int senders;       /* that have more to send */
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
/* The number of the `size` (> 0) bytes that may be sent now; 0: none before *until. The caller returns unsent bytes. */
size_t standin_link_take(struct link *link, int64_t now, size_t size, int64_t *until);
void standin_link_return(struct link *link, size_t size);
/* This sender has nothing to send until its next standin_link_take. */
void standin_link_idle(struct link *link);

#endif
