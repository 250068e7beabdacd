/* SPDX-License-Identifier: BSD-3-Clause
 * Who works on a communicator: its owner. An abort from another thread waits for our own work, never for NCCL's.
 *
 * Threads    Any.
 */
#ifndef INTERPOSE_COMM_OWNER_H
#define INTERPOSE_COMM_OWNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct tagc_comm;

enum tagc_owner { TAGC_OWNER_NONE, TAGC_OWNER_LIBRARY, TAGC_OWNER_NCCL, TAGC_OWNER_ABORTED };

struct tagc_ownership {
  atomic_int owner;         /* enum tagc_owner; changed by compare-and-swap alone */
  atomic_bool abort_over;   /* the real library has aborted it, and launches no more of its work */
  atomic_bool entered;      /* a thread of ours works on it, or waits in NCCL or in a driver */
  atomic_bool streams_gone; /* the program has its abort's answer, and may destroy streams and buffers */
};

bool tagc_comm_is_aborted(const struct tagc_comm *comm);

/* Makes the library the owner of different communicators. Waits while another thread works on one of them. False if one
 * is aborted: then the library owns none of them. */
bool tagc_comms_enter(struct tagc_comm *const *comms, size_t count);
/* Ends the ownership of those that are not aborted. */
void tagc_comms_leave(struct tagc_comm *const *comms, size_t count);

/* Lends the library's communicators to NCCL, unless aborted: an abort then does not wait. Takes them back. */
void tagc_comms_lend(struct tagc_comm *const *comms, size_t count);
void tagc_comms_take_back(struct tagc_comm *const *comms, size_t count);

/* The driver of a device may wait for memory or queue room until only an abort ends the work before. Between these two,
 * NCCL therefore owns the communicators. Both return false if one is aborted; always call the second after the first.
 * Without a device, and on host memory, they do nothing. */
bool tagc_comms_enter_driver(struct tagc_comm *const *comms, size_t count);
bool tagc_comms_leave_driver(struct tagc_comm *const *comms, size_t count);
/* True while the program's streams are guaranteed to exist: an abort in progress waits until we leave. */
bool tagc_comm_has_streams(const struct tagc_comm *comm);

/* The real library has aborted it: then NCCL launches nothing more on it. NULL: nothing to do. */
void tagc_comm_abort_is_over(struct tagc_comm *comm);
/* After the real library has ended it, before the program may free its buffers, or use them anew: waits until our
 * thread has left, and until the GPU has done our work. A second at most, because another communicator whose abort
 * comes next may keep either. NULL: nothing to do. */
void tagc_comm_await_rest(struct tagc_comm *comm);
/* Until an abort is over, a thread of NCCL may use the memory of a call on a non-blocking communicator. The abort waits
 * for that thread, and not for us. Waits a second at most, out of the driver, for the abort's end. False: not over. */
bool tagc_comm_await_abort(const struct tagc_comm *comm);

#endif
