/* SPDX-License-Identifier: BSD-3-Clause
 * The limited link of the stand-in for NCCL, on its own clock: its rate alone and shared, turns, late timers, idle
 * times, a sender that dies, and processes that share it.
 */
#include "tests/standin/net/link.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/tap.h"

#define RATE 0.025 /* 200 Mbit/s, in bytes a nanosecond */
#define BURST 65536
#define MS INT64_C(1000000)
#define START (INT64_C(86400000) * MS)
#define MOST 8

struct sender {
  struct link link;
  size_t message; /* requested at a time */
  int64_t wakes;
  uint64_t sent;
};

static uint64_t drawn;

static int64_t draw(int64_t most) {
  drawn = drawn * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return most ? (int64_t)(drawn >> 33) % most : 0;
}

static void join(struct sender *senders, int count, struct nic *nic, int64_t now) {
  for (int i = 0; i < count; i++) {
    senders[i] = (struct sender){.message = 512 << 10, .wakes = now};
    standin_link_init(&senders[i].link, nic, RATE);
  }
}

static struct sender *next_of(struct sender *senders, int count) {
  struct sender *next = senders;
  for (int i = 1; i < count; i++)
    if (senders[i].wakes < next->wakes)
      next = &senders[i];
  return next;
}

/* All senders send as much as allowed from `now` to `end`, each waking up to `late` after its time. Returns the total
 * bytes. *over: the largest excess over burst and rate at any moment. */
static uint64_t play(struct sender *senders, int count, int64_t now, int64_t end, int64_t late, double *over) {
  uint64_t total = 0;
  int64_t begin = now, until;
  *over = -BURST;
  for (;;) {
    struct sender *sender = next_of(senders, count);
    if (sender->wakes + late > end)
      return total;
    now = sender->wakes > now ? sender->wakes + draw(late) : now;
    for (size_t allowed; (allowed = standin_link_take(&sender->link, now, sender->message, &until)) > 0;) {
      total += allowed;
      sender->sent += allowed;
    }
    double excess = (double)total - (double)(now - begin) * RATE - BURST;
    *over = excess > *over ? excess : *over;
    sender->wakes = until;
  }
}

static void test_rate(void) {
  static const int64_t late[] = {0, 2 * MS, 20 * MS};
  for (int count = 1; count <= MOST; count *= 2)
    for (size_t i = 0; i < sizeof late / sizeof late[0]; i++) {
      struct nic nic = {0};
      struct sender senders[MOST];
      double over, wanted = 20000 * (double)MS * RATE, least = wanted, most = 0, spread = late[i] > 2 * MS ? 0.2 : 0.02;
      join(senders, count, &nic, START);
      double total = (double)play(senders, count, START, START + 20000 * MS, late[i], &over);
      for (int j = 0; j < count; j++) {
        least = least < (double)senders[j].sent ? least : (double)senders[j].sent;
        most = most > (double)senders[j].sent ? most : (double)senders[j].sent;
      }
      ok(total > wanted * 0.98 && total < wanted * 1.002 + BURST && over < 64,
         "%d senders, up to %d ms late: %.4f of the rate, at most %.0f bytes early", count, (int)(late[i] / MS),
         total / wanted, over + BURST);
      ok(least > (1 - spread) * wanted / count && most < (1 + spread) * wanted / count,
         "and each gets its share (%.3f to %.3f of it)", least * count / wanted, most * count / wanted);
    }
}

static void test_small_messages(void) {
  struct nic nic = {0};
  struct sender senders[3];
  double over;
  join(senders, 3, &nic, START);
  senders[0].message = 52;
  play(senders, 3, START, START + 1000 * MS, 0, &over);
  ok(senders[0].sent >= 250 * 52, "small messages take turns with large ones: %d of them in a second",
     (int)(senders[0].sent / 52));
}

/* The bytes that the link gives now, without any sender returning. */
static size_t take_all(struct link *link, int64_t now) {
  size_t total = 0, allowed;
  int64_t until;
  while ((allowed = standin_link_take(link, now, 1, &until)) > 0)
    total += allowed;
  return total;
}

static void test_idle(void) {
  struct nic nic = {0};
  struct link a, b;
  int64_t until, now = START;
  standin_link_init(&a, &nic, RATE);
  standin_link_init(&b, &nic, RATE);
  ok(take_all(&a, now) == BURST, "a new link gives its burst");
  ok(take_all(&a, now + MS) == 25000, "and then its rate");
  ok(take_all(&a, now + 21 * MS) == 500000, "who is late, with more to send, catches up");
  standin_link_idle(&a);
  ok(take_all(&a, now + 121 * MS) == BURST, "an idle link saves up its burst");
  ok(take_all(&a, now + 1121 * MS) == BURST + 50 * 25000 + 1,
     "and a busy one 50 ms more; and this sender had reserved a byte");
  now += 1121 * MS;
  ok(standin_link_take(&b, now, 20000, &until) == 0 && until > now, "a second sender finds it empty");
  ok(take_all(&a, now + 2 * MS) == 30000,
     "and reserves what it wants: the first one gets only what there is beyond that");
  now += 2 * MS;
  ok(standin_link_take(&b, now, 20000, &until) == 20000, "what is reserved waits for who reserved it");
  standin_link_return(&b, 15000);
  now += 1000;
  ok(take_all(&a, now) == 15000 + 25, "and what he gives back is for all");
  standin_link_idle(&a);
  standin_link_take(&b, now, 20000, &until);
  standin_link_idle(&b);
  ok(take_all(&a, now + MS) == 25000, "what is reserved and not wanted any more, too");
}

static void test_dead_sender(void) {
  struct nic nic = {0};
  struct sender senders[3];
  double over, wanted = 1000 * (double)MS * RATE;
  join(senders, 3, &nic, START);
  play(senders, 3, START, START + 100 * MS, 0, &over);
  double total = (double)play(senders, 2, START + 100 * MS, START + 1100 * MS, 0, &over);
  ok(total > wanted * 0.99 && total < wanted * 1.01, "a sender dies: the others get %.4f of the rate", total / wanted);
}

/* The clock stands still: all processes together must get one burst, to the byte. */
static void test_processes(void) {
  struct {
    struct nic nic;
    atomic_int ready;
    atomic_uint_fast64_t total;
  } *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    ok(0, "memory to share");
    return;
  }
  memset(shared, 0, sizeof *shared);
  for (int i = 0; i < 4; i++)
    if (fork() == 0) {
      struct link link;
      standin_link_init(&link, &shared->nic, RATE);
      atomic_fetch_add(&shared->ready, 1);
      while (atomic_load(&shared->ready) < 4)
        usleep(100);
      atomic_fetch_add(&shared->total, take_all(&link, START));
      kill(getpid(), SIGKILL); /* its state dies with it */
    }
  while (wait(NULL) > 0)
    ;
  ok(shared->total == BURST, "four processes share a burst: %d bytes of %d", (int)shared->total, BURST);
  struct link link;
  standin_link_init(&link, &shared->nic, RATE);
  ok(take_all(&link, START + 10 * MS) == 250000 - 4,
     "and die; the link goes on, but for the byte that each has reserved");
  munmap(shared, sizeof *shared);
}

int main(void) {
  test_rate();
  test_small_messages();
  test_idle();
  test_dead_sender();
  test_processes();
  return tap_done();
}
