/* SPDX-License-Identifier: BSD-3-Clause
 * A library between libtagc-preload.so and NCCL, for programs that are linked with it. It sees every call that the
 * library makes, can act at each of them or make it fail, and keeps account of the communicators from splits.
 *
 * Threads    moments_at(), moments_fail_at(), moments_rank() and moments_seen() apply to the calling thread, all other
 *            functions to all threads.
 */
#ifndef TESTS_E2E_MOMENTS_H
#define TESTS_E2E_MOMENTS_H

#include <nccl.h>

/* Counts the calls that the library makes in this thread from now on. Before the `number`-th (from 1; 0: none) it calls
 * `happens` with the name of the function. The end of a group counts twice: before it, and when it is done. */
void moments_at(int number, void (*happens)(const char *function));
int moments_seen(void);
/* The same, but that call fails with `error`: neither it nor its group is made. If a group's end was done already, it
 * still returns the error. */
void moments_fail_at(int number, ncclResult_t error);

/* The same for all threads together that have not called moments_rank(), such as the library's own (number -1: each
 * counts for itself again). There queries of a communicator's state count, too; a failing one returns `error` as the
 * state. */
void moments_of_strangers(int number, void (*happens)(const char *function), ncclResult_t error);
int moments_strangers_seen(void);

/* The failures of a split in a group. A refused one is not made. A failed one is not made either, and the end of its
 * group reports that. A half-made one is made, but its group fails, like NCCL's after a late fault. */
enum moments_failure { MOMENTS_WELL, MOMENTS_REFUSED, MOMENTS_FAILED, MOMENTS_HALF_MADE };

/* The `which`-th split (from 1) of each thread of rank `rank` (-1: of every one) fails with `error`. */
void moments_fail_split(int which, enum moments_failure how, int rank, ncclResult_t error);
/* Declares this thread to be that of a rank; counts its splits from now on. */
void moments_rank(int rank);

/* The next ncclCommDestroy() is refused with `error`. */
void moments_refuse_destroy(ncclResult_t error);

/* Sets the state that ncclCommGetAsyncError() returns for communicators from splits; an error is also what their
 * ncclCommDestroy() is refused with. */
void moments_say_of_children(ncclResult_t error);

/* The account since the last query: communicators from splits, how many of them were aborted, destroyed, and are left;
 * `wrong` counts uses and ends of ended ones. */
struct moments_account {
  int made, aborted, destroyed, left, wrong;
};
struct moments_account moments_take_account(void);

#endif
