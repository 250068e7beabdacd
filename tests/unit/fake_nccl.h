/* SPDX-License-Identifier: BSD-3-Clause
 * A communicator whose calls go to functions of the test, not to the real library. For tests of votes: one rank runs,
 * and the functions that it calls answer for the others.
 */
#ifndef TESTS_UNIT_FAKE_NCCL_H
#define TESTS_UNIT_FAKE_NCCL_H

#include <stdlib.h>

#include "interpose/comm/table.h"
#include "interpose/exec/nccl_group.h"
#include "interpose/entry/start.h"
#include "interpose/nccl/process.h"

/* Makes the first of `nranks` new handles a communicator whose ranks agree, with a reference. *nccl becomes its copy of
 * NCCL, with these functions instead of the real ones (NULL: not in this NCCL). Ends the program on failure. */
static inline struct tagc_comm *fake_nccl_comm(ncclComm_t *handles, int nranks, struct tagc_nccl *nccl,
                                               const struct tagc_nccl_group *fake) {
  ncclResult_t status;
  struct tagc_comm *comm = NULL;
  if (ncclCommInitAll(handles, nranks, NULL) == ncclSuccess && tagc_library_start())
    comm = tagc_comm_acquire(handles[0], tagc_real_called((const void *)&fake_nccl_comm), &status);
  if (!comm)
    exit(1);
  comm->agreement.state = TAGC_AGREED_YES;
  *nccl = *comm->nccl;
  nccl->functions[TAGC_ENTRY_ncclGroupStart] = (void *)fake->start;
  nccl->functions[TAGC_ENTRY_ncclGroupEnd] = (void *)fake->end;
  nccl->functions[TAGC_ENTRY_ncclReduceScatter] = (void *)fake->reduce_scatter;
  nccl->functions[TAGC_ENTRY_ncclAllReduce] = (void *)fake->all_reduce;
  nccl->functions[TAGC_ENTRY_ncclSend] = (void *)fake->send;
  nccl->functions[TAGC_ENTRY_ncclRecv] = (void *)fake->receive;
  nccl->functions[TAGC_ENTRY_ncclCommGetAsyncError] = (void *)fake->async_error;
  nccl->functions[TAGC_ENTRY_ncclAlltoAll] = (void *)fake->all_to_all;
  return comm;
}

#endif
