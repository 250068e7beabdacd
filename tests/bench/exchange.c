/* SPDX-License-Identifier: BSD-3-Clause
 * Measures the milliseconds of one reduce-scatter of ELEMENTS fp32 over all ranks, from the first rank's begin to the
 * last one's end (the ranks share this machine's clock). The result is the median over the last CALLS calls, after the
 * cycle is learned. An all-reduce of two doubles stands before and after each call. Run it under tests/standin/launch,
 * plain or preloaded with TAGC_WARMUP=0 TAGC_ASSUME=gradients TAGC_MIN_BYTES=0 (exchange_lib.sh does); rank 0 prints.
 *
 *   exchange ELEMENTS [CALLS]
 *
 * With the word gather it measures the all-gather of such a unit's parameters; the reduce-scatter follows, untimed.
 *
 *   exchange ELEMENTS CALLS gather
 *
 * With the word reduce it measures an all-reduce of gradients with PERCENT nonzero values on each rank:
 * values anywhere, or whole rows of 256 as in the gradient of an embedding.
 *
 *   exchange ELEMENTS CALLS reduce PERCENT [rows]
 *
 * With three more words, and without the library, it measures a call in two parts. PERCENT of the elements are selected
 * and go as messages of BITS an element, in one group with the rest. "rest": a reduce-scatter sends the rest. "blocks":
 * it follows the messages as raw values, and the receiver adds them up. Only the group and that sum are timed, neither
 * encoding nor packing.
 *
 *   exchange ELEMENTS CALLS rest|blocks PERCENT BITS
 */
#include <string.h>
#include <time.h>

#include "tests/e2e/harness.h"

enum { LEARNING = 5, MOST_CALLS = 1000 };

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void pause_ms(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* A call in two parts. */
struct parts {
  bool blocks;
  size_t rest, message; /* unselected elements of a shard, and bytes of a message */
  char *out, *in;       /* nranks messages; with `blocks` each includes the rest */
};

static bool take_parts(struct parts *p, size_t n, char **words) {
  const double selected = strtod(words[1], NULL) / 100;
  p->blocks = strcmp(words[0], "blocks") == 0;
  p->rest = n - (size_t)((double)n * selected);
  p->message = (size_t)((double)(n - p->rest) * strtod(words[2], NULL) / 8 / 4 + 1) * 4;
  p->message += p->blocks ? p->rest * sizeof(float) : 0;
  p->out = calloc((size_t)nranks, p->message);
  p->in = calloc((size_t)nranks, p->message);
  return p->out && p->in;
}

static void call_parts(const struct parts *p, const float *send, float *recv) {
  CHECK(ncclGroupStart());
  for (int peer = 0; peer < nranks; peer++) {
    if (peer == rank)
      continue;
    CHECK(ncclSend(p->out + (size_t)peer * p->message, p->message, ncclUint8, peer, world, NULL));
    CHECK(ncclRecv(p->in + (size_t)peer * p->message, p->message, ncclUint8, peer, world, NULL));
  }
  if (!p->blocks && p->rest)
    CHECK(ncclReduceScatter(send, recv, p->rest, ncclFloat32, ncclSum, world, NULL));
  CHECK(ncclGroupEnd());
  for (int peer = 0; peer < nranks && p->blocks; peer++) {
    const float *block = (const float *)(const void *)(p->in + (size_t)(peer + 1) * p->message) - p->rest;
    for (size_t i = 0; i < p->rest; i++)
      recv[i] += block[i];
  }
}

/* Fills the gradient of the word reduce. */
static void fill_sparse(float *gradient, size_t n, double percent, size_t row) {
  for (size_t i = 0; i < n; i++)
    if ((double)(mix(mix((uint64_t)rank + 77) ^ i / row) % 1000000) >= percent * 1e4)
      gradient[i] = 0;
}

int main(int argc, char **argv) {
  static double times[MOST_CALLS];
  struct parts parts = {0};
  const size_t elements = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
  const int calls = argc > 2 ? atoi(argv[2]) : 5;
  if (!elements || calls < 1 || calls > MOST_CALLS) {
    fprintf(stderr, "usage: exchange ELEMENTS [CALLS [gather|reduce PERCENT [rows]|rest|blocks PERCENT BITS]]\n");
    return 2;
  }
  meet();
  const size_t n = (elements + (size_t)nranks - 1) / (size_t)nranks;
  float *send = malloc((size_t)nranks * n * sizeof *send), *recv = malloc((size_t)nranks * n * sizeof *recv);
  for (size_t i = 0; send && i < (size_t)nranks * n; i++) {
    uint64_t h = mix(mix((uint64_t)rank) ^ i);
    send[i] = (float)((int)(h & 0xffff) + (int)(h >> 16 & 0xffff) + (int)(h >> 32 & 0xffff) - 98302) / 65536;
  }
  const bool gathers = argc == 4 && strcmp(argv[3], "gather") == 0;
  const bool reduces = argc > 4 && strcmp(argv[3], "reduce") == 0, in_parts = argc > 5 && !reduces;
  if (send && reduces)
    fill_sparse(send, (size_t)nranks * n, strtod(argv[4], NULL), argc > 5 ? 256 : 1);
  if (!send || !recv || (in_parts && !take_parts(&parts, n, argv + 3)))
    return 1;
  for (int i = in_parts ? -2 : -LEARNING - 1; i < calls; i++) {
    double span[2] = {-now_ms()};
    if (i >= -LEARNING && in_parts)
      call_parts(&parts, send, recv);
    else if (i >= -LEARNING && reduces)
      CHECK(ncclAllReduce(send, recv, (size_t)nranks * n, ncclFloat32, ncclAvg, world, NULL));
    else if (i >= -LEARNING && gathers)
      CHECK(ncclAllGather(recv, send, n, ncclFloat32, world, NULL));
    else if (i >= -LEARNING)
      CHECK(ncclReduceScatter(send, recv, n, ncclFloat32, ncclSum, world, NULL));
    span[1] = now_ms();
    CHECK(ncclAllReduce(span, span, 2, ncclFloat64, ncclMax, world, NULL));
    if (i >= -LEARNING && gathers)
      CHECK(ncclReduceScatter(send, recv, n, ncclFloat32, ncclSum, world, NULL));
    pause_ms(20); /* the first rank behind it must not fill the wire that others still need */
    if (i >= 0)
      times[i] = span[0] + span[1];
  }
  qsort(times, (size_t)calls, sizeof *times, compare);
  if (rank == 0)
    printf("%.4f\n", times[calls / 2]);
  free(send);
  free(recv);
  CHECK(ncclCommDestroy(world));
  return 0;
}
