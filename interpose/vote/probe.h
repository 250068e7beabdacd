/* SPDX-License-Identifier: BSD-3-Clause
 * The probe of the wire: how long the real NCCL takes for the parts of calls, with these ranks, on this network.
 *
 * It measures two sizes of a plain reduce-scatter, of messages by ncclSend and ncclRecv, and of messages by
 * ncclAlltoAll if this NCCL has it; in two levels also of the reduce-scatters inside and between hosts. Each runs once
 * to warm up and seven times for the best time. They take turns, so that other traffic on the network affects all of
 * them. All communicators of a vote are probed at once, as they are used at once, and all ranks begin each measurement
 * together. The large size is that of the largest slot, but at most a few MiB.
 */
#ifndef INTERPOSE_VOTE_PROBE_H
#define INTERPOSE_VOTE_PROBE_H

#include "interpose/exec/nccl_group.h"
#include "interpose/policy/choose.h"

/* One communicator's part. */
struct tagc_probing {
  struct tagc_call *call; /* its stream is used */
  uint8_t *scratch;       /* device memory of tagc_probe_scratch() bytes; NULL: this part is not probed */
  struct tagc_probe found;
};

/* Sets the sizes for a communicator with slots; returns the bytes of scratch memory that its probe needs. */
size_t tagc_probe_scratch(const struct tagc_comm *comm, struct tagc_probe *probe);

/* Probes. The communicators are in TAGC_OWNER_LIBRARY, before and after. The times are this rank's own. Returns the
 * first error of the real library; ncclInternalError if a communicator was aborted meanwhile. */
ncclResult_t tagc_probe_run(const struct tagc_nccl_group *real, struct tagc_comm *const *comms,
                            struct tagc_probing *probings, size_t count);

#endif
