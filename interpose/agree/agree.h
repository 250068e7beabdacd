/* SPDX-License-Identifier: BSD-3-Clause
 * The agreement: when a communicator is made, its ranks settle once and for all whether its calls may be compressed.
 *
 * The process that makes a unique id puts its address and a secret into the unused end of the id (wire.h), and becomes
 * the decider for it (decider.h). Every rank reports to it before it enters NCCL's init. After the init has succeeded,
 * and before the program learns that, the rank asks for the decision. A rank without the library cannot report. Then
 * the decision is "off", and all ranks pass everything, as that rank does. The same happens if any fact differs.
 *
 * A rank that never reached the decider is not counted, and passes everything. A rank that has sent its report follows
 * only the decider: without a decision its collectives fail with ncclRemoteError, because the others may compress.
 *
 * Why that is early enough, and not too early:
 * - No init succeeds before all ranks have entered theirs, and each rank has reported by then. So after an init all
 *   reports are there, and the decision is final. A communicator made in a group has its init at the group's end.
 * - The maker of an id may be a process of its own. NCCL needs it until all ranks have checked in at the root of its
 *   bootstrap, a thread of that process (bootstrapRoot() in bootstrap.cc). A rank reports before it checks in. So if
 *   NCCL's init succeeds, every report was answered, or its rank could not reach a process that exists.
 * - A program knows that a communicator is ready if its ranks were told so: a blocking init (or the end of its group)
 *   has returned, or ncclCommGetAsyncError has returned ncclSuccess for a non-blocking one. A rank has its decision
 *   before that. So a maker may end when all ranks were told.
 * - If a maker ends when only one rank was told, NCCL's ranks would not miss it, but ranks that have not asked yet do:
 *   without a decision they fail. So do ranks of a non-blocking communicator that call collectives without ever asking
 *   NCCL whether it is ready: they ask for the decision at the first collective.
 *
 * Threads: any; but only one thread at a time uses an agreement. These functions do blocking network I/O, at most
 * TAGC_AGREE_TIMEOUT seconds each: call them without a lock. They keep errno.
 */
#ifndef INTERPOSE_AGREE_AGREE_H
#define INTERPOSE_AGREE_AGREE_H

#include "interpose/agree/wire.h"
#include "interpose/nccl/nccl_newer.h"
#include "interpose/nccl/real.h"

/* The origin of a communicator. */
struct tagc_origin {
  const struct tagc_nccl *nccl; /* NULL: without a record in a trace */
  uint64_t identity; /* equal on all ranks of the communicator, unlike all others; 0: unknown. Set without a trace, too:
                        groups run in its order (launch.h) */
  uint32_t parent;
  int32_t rank, nranks; /* -1: ask NCCL */
  uint16_t function;
};

enum tagc_agree_state {
  TAGC_AGREED_NO, /* every call passes through */
  TAGC_AGREED_YES,
  TAGC_AGREED_UNKNOWN, /* reported; the rank has not asked for the decision */
  TAGC_AGREED_LOST,    /* reported, but without a decision */
};

struct tagc_agreement {
  enum tagc_agree_state state;
  struct tagc_agree_stamp stamp; /* where to ask */
  uint32_t rank, nranks;
  uint32_t hosts;                   /* with TAGC_AGREED_YES; 0: of a part of another communicator, and not known yet */
  uint32_t host;                    /* the number of this rank's host */
  struct tagc_origin origin;        /* of the communicator */
  bool revoked;                     /* by ncclCommRevoke */
  bool shares;                      /* it shares the connections of its parent */
  bool ordered;                     /* NCCL orders its kernels as the host launches them: NCCL_LAUNCH_ORDER_IMPLICIT */
  bool split_shares, shrink_shares; /* its configuration: children by ncclCommSplit and ncclCommShrink share its own */
};

/* Before the real NCCL makes an id: clears the bytes that it may leave as they are (before 2.23, all unused ones). */
void tagc_agree_clear_id(ncclUniqueId *id);

/* The real NCCL has made an id: makes this process its decider, and puts the stamp into it. If that is impossible, the
 * id stays as it is, with a warning, and its communicator passes everything. */
void tagc_agree_stamp_id(ncclUniqueId *id);

/* Reports to the maker of `ids` (`count` of them, equal on all ranks) that this process is about to become `rank` of
 * `nranks`. `nccl_version` as of ncclGetVersion; `memory`: "host", "CUDA", or why no codec runs there. */
struct tagc_agreement tagc_agree_report(const ncclUniqueId *ids, int count, int nranks, int rank, int nccl_version,
                                        const char *memory);

/* Asks for the decision if it is unknown. False if none can be had. */
bool tagc_agree_settle(struct tagc_agreement *agreement);

#endif
