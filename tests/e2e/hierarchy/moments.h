/* SPDX-License-Identifier: BSD-3-Clause
 * A library between libtagc-preload.so and NCCL, for programs that are linked with it: it sees every call that the
 * library makes, can do something at each of them, make some fail, and keeps account of the communicators that come
 * from splits.
 *
 * Threads    moments_at(), moments_rank() and moments_seen() are about the thread that calls them; everything else is
 *            for all.
 */
#ifndef TESTS_E2E_MOMENTS_H
#define TESTS_E2E_MOMENTS_H

#include <nccl.h>

/* The calls that the library makes in this thread are counted from now on; before the `number`-th (from 1; 0: none)
 * `happens` is called, with the name of the function. The end of a group counts twice: before, and when it is done. */
void moments_at(int number, void (*happens)(const char *function));
int moments_seen(void);
/* The same, and that call fails with `error`: it is not made, and neither is what is in its group; or, when a group's
 * end was done, that says so all the same. */
void moments_fail_at(int number, ncclResult_t error);

/* The same of all threads together that have not said of which rank they are, such as those that the library starts
 * (number -1: each counts for itself again). There questions about the state of a communicator count, too, and fail by
 * telling it. */
void moments_of_strangers(int number, void (*happens)(const char *function), ncclResult_t error);
int moments_strangers_seen(void);

/* How a split of a group fails. A refused one is not made. One that fails is not made either, and the end of its group
 * says so; a half-made one is made, and its group fails all the same, as NCCL's does when something goes wrong
 * later. */
enum moments_failure { MOMENTS_WELL, MOMENTS_REFUSED, MOMENTS_FAILED, MOMENTS_HALF_MADE };

/* The `which`-th split (from 1) of each thread of rank `rank` (-1: of every one) fails with `error`. */
void moments_fail_split(int which, enum moments_failure how, int rank, ncclResult_t error);
/* This thread is that of a rank; its splits are counted from now on. */
void moments_rank(int rank);

/* The next ncclCommDestroy() is refused with ncclInvalidArgument. */
void moments_refuse_destroy(void);

/* What ncclCommGetAsyncError() says of the communicators that come from splits. */
void moments_say_of_children(ncclResult_t error);

/* Since the last question: communicators from splits, how many of them were aborted and destroyed, and how many are
 * left; ends of what had ended, and uses of it. */
struct moments_account {
  int made, aborted, destroyed, left, wrong;
};
struct moments_account moments_take_account(void);

#endif
