/* SPDX-License-Identifier: BSD-3-Clause
 * The agreement of ranks: whether the calls of a communicator may be compressed is settled by all of its ranks, once,
 * when it has been made.
 *
 * The process that makes a unique id puts its address and a secret into the unused end of the id (wire.h), and becomes
 * the decider for it (decider.h). Every rank reports to it before it enters NCCL's init, and asks it for the decision
 * when that has succeeded, before the program hears of it. A rank without the library cannot report, so the others hear
 * "off" and pass everything through, as that rank does; and so they do where any fact differs.
 *
 * A rank that never got through to the decider is not counted, and passes through. A rank that has sent its report
 * follows the decider alone: where it gets no decision its collectives fail with ncclRemoteError, for the others may
 * have been told to compress.
 *
 * Why that is early enough, and not too early:
 * - No init succeeds before all ranks have entered theirs, and a rank has reported by then. So who asks after an init
 * asks when
 *   all reports are there, and the decision is final. A communicator that is made in a group has its init at the
 *   group's end.
 * - The maker of an id may be a process of its own. NCCL needs it until all ranks have checked in at the root of its
 * bootstrap,
 *   which is a thread of that process (bootstrapRoot() in bootstrap.cc). A rank reports before it checks in, so where
 *   NCCL's init succeeds every report has been answered, or its rank could not reach a process that is there.
 * - A program can know that a communicator is there by what its ranks were told: a blocking init (or the end of its
 * group) has
 *   returned, or ncclCommGetAsyncError has said ncclSuccess of a non-blocking one. A rank has its decision before it is
 *   told. So a maker that ends when all ranks have been told is not missed.
 * - A maker that ends when one rank has been told is missed by those that have not asked yet, where NCCL's would not
 * be: these
 *   ranks are without a decision, and fail. So do the ranks of a non-blocking communicator that call collectives
 *   without ever having asked NCCL whether it is there: they ask at the first collective.
 *
 * Threads: any; but one agreement is used by one thread at a time. These functions do blocking network I/O, at most
 * TAGC_AGREE_TIMEOUT seconds each, and must be called without a lock. errno stays as it was.
 */
#ifndef INTERPOSE_AGREE_AGREE_H
#define INTERPOSE_AGREE_AGREE_H

#include "interpose/agree/wire.h"
#include "interpose/nccl/nccl_newer.h"
#include "interpose/nccl/real.h"

/* Where a communicator comes from. */
struct tagc_origin {
  const struct tagc_nccl *nccl; /* NULL: no record of a trace is wanted */
  uint64_t identity; /* equal on all ranks of the communicator, and on no other one's; 0: not known. Known without a
                      * trace, too: groups are run in its order (launch.h) */
  uint32_t parent;
  int32_t rank, nranks; /* -1: NCCL is asked */
  uint16_t function;
};

enum tagc_agree_state {
  TAGC_AGREED_NO, /* every call passes through */
  TAGC_AGREED_YES,
  TAGC_AGREED_UNKNOWN, /* reported; the decision has not been asked for */
  TAGC_AGREED_LOST,    /* reported, and no decision could be had */
};

struct tagc_agreement {
  enum tagc_agree_state state;
  struct tagc_agree_stamp stamp; /* where to ask */
  uint32_t rank, nranks;
  uint32_t hosts, host; /* with TAGC_AGREED_YES: the ranks are on so many hosts, this one on the one of that number */
  struct tagc_origin origin; /* of the communicator */
  bool shares;               /* the connections of its parent */
};

/* Before the real NCCL makes an id: clears what it may leave as it is (before 2.23, all that it does not use). */
void tagc_agree_clear_id(ncclUniqueId *id);

/* An id has been made by the real NCCL: makes this process its decider and puts the stamp into it. An id that cannot be
 * stamped stays as it is, with a warning: its communicator passes through. */
void tagc_agree_stamp_id(ncclUniqueId *id);

/* Reports to the maker of `ids` (`count` of them, equal on all ranks) that this process is about to become `rank` of
 * `nranks`. `nccl_version` as ncclGetVersion tells it; `memory`: what the real library works on, and codecs can
 * ("host", "CUDA", or why not). */
struct tagc_agreement tagc_agree_report(const ncclUniqueId *ids, int count, int nranks, int rank, int nccl_version,
                                        const char *memory);

/* Asks for the decision where it is not known yet. False where it cannot be had. */
bool tagc_agree_settle(struct tagc_agreement *agreement);

#endif
