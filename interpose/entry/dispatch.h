/* SPDX-License-Identifier: BSD-3-Clause
 * Where a call goes after its adapter.
 */
#ifndef INTERPOSE_ENTRY_DISPATCH_H
#define INTERPOSE_ENTRY_DISPATCH_H

#include "interpose/comm/call.h"

/* A collective from an adapter: forwards it, holds it back in a group, or compresses it. */
ncclResult_t tagc_dispatch(struct tagc_call *call);

/* A send or a receive. True: it is in an open group, and waits for its end. */
bool tagc_dispatch_hold(struct tagc_call *call);

/* Hands a call to the real function as it came. */
ncclResult_t tagc_forward(const struct tagc_call *call);

#endif
