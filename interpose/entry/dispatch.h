/* SPDX-License-Identifier: BSD-3-Clause
 * The way of a call after its adapter.
 */
#ifndef INTERPOSE_ENTRY_DISPATCH_H
#define INTERPOSE_ENTRY_DISPATCH_H

#include "interpose/comm/call.h"

/* Runs a collective from an adapter: forwards it, holds it back in a group, or compresses it. */
ncclResult_t tagc_dispatch(struct tagc_call *call);

/* Holds back a send or a receive. True: it waits for the end of an open group. */
bool tagc_dispatch_hold(struct tagc_call *call);

/* Calls the real function for a call, unchanged. */
ncclResult_t tagc_forward(const struct tagc_call *call);

#endif
