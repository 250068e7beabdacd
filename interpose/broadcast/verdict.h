/* SPDX-License-Identifier: BSD-3-Clause
 * The statuses of a broadcast's ranks, and the verdict that follows from them.
 *
 * Every call begins with an all-gather of statuses, so all ranks judge the same ones. The verdict is a pure function of
 * them and of the list of references, which is equal where the digests are.
 */
#ifndef INTERPOSE_BROADCAST_VERDICT_H
#define INTERPOSE_BROADCAST_VERDICT_H

#include "interpose/broadcast/references.h"

/* The bits of `flags`. ASKS_PLAIN: the rank's configuration of this call is one that only NCCL can keep. UNABLE: its
 * GPU cannot take this call. */
enum {
  TAGC_BROADCAST_LOST = 1,
  TAGC_BROADCAST_NO_MEMORY = 2,
  TAGC_BROADCAST_ASKS_PLAIN = 4,
  TAGC_BROADCAST_UNABLE = 8,
};

/* In the byte order of the machine: all ranks of a job have the same. */
struct tagc_broadcast_status {
  uint64_t call;       /* a digest of the call's shape, as this rank was called */
  uint64_t references; /* a digest of this rank's references */
  uint32_t flags;
  uint32_t action; /* enum tagc_broadcast_action; of the root, like the rest */
  uint32_t reference;
  uint32_t host;  /* of this rank, by its number among all of the job's first communicator */
  uint64_t bytes; /* of the payload; 0: none */
  uint64_t zeros[3];
};
_Static_assert(sizeof(struct tagc_broadcast_status) == TAGC_BROADCAST_STATUS_BYTES, "the status of a rank");

/* Why a call is sent plainly. */
enum tagc_broadcast_cause {
  TAGC_BROADCAST_CHOSEN,   /* the root has chosen so */
  TAGC_BROADCAST_ASKED,    /* a rank asks for it; the references stay as they are */
  TAGC_BROADCAST_REJECTED, /* a rank's GPU cannot take it; the same */
  TAGC_BROADCAST_DIFFER,   /* the ranks' references differ, or one has lost its own, or statuses make no sense */
  TAGC_BROADCAST_LACKING,  /* a rank lacks memory */
  TAGC_BROADCAST_PARTED,   /* the ranks were called with different counts, types or roots */
  TAGC_BROADCAST_INSIDE,   /* the first one says that all ranks share a host */
};

struct tagc_broadcast_verdict {
  enum tagc_broadcast_action action;
  enum tagc_broadcast_cause cause;
  uint32_t reference;
  uint64_t bytes; /* of the payload */
  bool forgets;   /* first, all ranks forget all references */
};

/* The status of this rank, which is not the root; the root adds its choice. */
struct tagc_broadcast_status tagc_broadcast_status_of(const struct tagc_references *refs,
                                                      const struct tagc_broadcast_shape *shape);

/* Do all ranks share a host? */
bool tagc_broadcast_is_inside(const struct tagc_broadcast_status *statuses, int nranks);

/* `payload_most`: the largest payload of this shape; `most`: TAGC_BROADCAST_MAX. */
struct tagc_broadcast_verdict tagc_broadcast_judge(const struct tagc_references *refs,
                                                   const struct tagc_broadcast_shape *shape,
                                                   const struct tagc_broadcast_status *statuses, int nranks,
                                                   uint64_t payload_most, uint64_t most);

#endif
