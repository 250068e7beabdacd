/* SPDX-License-Identifier: BSD-3-Clause
 * Who works on a communicator. By its owner an abort from another thread keeps apart from our own work, and waits for none of NCCL's.
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
  atomic_int owner;                 /* enum tagc_owner; changed by compare-and-swap alone */
  atomic_bool abort_over;           /* the real library has aborted it, and launches nothing more of it */
  atomic_bool in_driver;            /* our thread is inside the device's driver, and reads or writes the program's buffers */
};

bool tagc_comm_is_aborted(const struct tagc_comm *comm);

/* Changes the owner of different communicators; false when one of them has been aborted: those before it have then
 * changed, too (but from NONE none has). From NONE it waits while another thread works on a communicator, as the calls of
 * two threads on one communicator must be made one after the other. */
bool tagc_comms_enter(struct tagc_comm *const *comms, size_t count, enum tagc_owner from, enum tagc_owner to);
/* Makes them idle again, but for those that have been aborted. */
void tagc_comms_leave(struct tagc_comm *const *comms, size_t count);

/* What is enqueued on a device may wait inside its driver, for memory or for room in a queue, until work is done that nothing but an
 * abort may end. So between these two, communicators that are ours are NCCL's: an abort goes ahead. Both give false where some
 * communicator has been aborted; the second one follows the first one in any case. On host memory nothing happens. */
bool tagc_comms_enter_driver(struct tagc_comm *const *comms, size_t count);
bool tagc_comms_leave_driver(struct tagc_comm *const *comms, size_t count);
/* Between the two: can the program's streams be used, and can they not be gone? For an abort that is not over waits for us. */
bool tagc_comm_has_streams(const struct tagc_comm *comm);
/* After the real library's abort, before the program may free its buffers: waits until our thread has left the driver, but for no more
 * than a second, as it may be kept there by another communicator that is to be aborted next. NULL: nothing to do. */
void tagc_comm_abort_is_over(struct tagc_comm *comm);
/* Until an abort is over, NCCL's own thread may be at memory that a non-blocking communicator was called with; the abort waits for
 * that, and not for us. Waits for its end, a second at most, out of the driver. False where it has not come. */
bool tagc_comm_await_abort(const struct tagc_comm *comm);

#endif
