/* SPDX-License-Identifier: BSD-3-Clause
 * Who works on a communicator. By its owner an abort from another thread keeps apart from our own work, and waits for
 * none of NCCL's.
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
  atomic_int owner;       /* enum tagc_owner; changed by compare-and-swap alone */
  atomic_bool abort_over; /* the real library has aborted it, and launches nothing more of it */
  atomic_bool in_driver;  /* our thread is in the device's driver, and reads or writes the program's buffers */
};

bool tagc_comm_is_aborted(const struct tagc_comm *comm);

/* Makes the library the owner of different communicators. Waits while another thread works on one of them. False if one
 * has been aborted: then it owns none of them. */
bool tagc_comms_enter(struct tagc_comm *const *comms, size_t count);
/* Nobody works any more on those that have not been aborted. */
void tagc_comms_leave(struct tagc_comm *const *comms, size_t count);

/* NCCL works on those of the library that have not been aborted: an abort goes ahead. And the library does again. */
void tagc_comms_lend(struct tagc_comm *const *comms, size_t count);
void tagc_comms_take_back(struct tagc_comm *const *comms, size_t count);

/* The driver of a device may wait, for memory or for room in a queue, until only an abort ends the work before. So
 * between these two, communicators of the library are NCCL's. Both give false if one has been aborted; the second
 * follows the first in any case. On host memory nothing happens. */
bool tagc_comms_enter_driver(struct tagc_comm *const *comms, size_t count);
bool tagc_comms_leave_driver(struct tagc_comm *const *comms, size_t count);
/* Between the two: do the program's streams still exist? An abort that is not over waits for us. */
bool tagc_comm_has_streams(const struct tagc_comm *comm);

/* After the real library's abort, before the program may free its buffers: waits until our thread has left the driver,
 * a second at most, as another communicator that is aborted next may keep it there. NULL: nothing to do. */
void tagc_comm_abort_is_over(struct tagc_comm *comm);
/* Until an abort is over, a thread of NCCL may use the memory of a call on a non-blocking communicator. The abort waits
 * for that, and not for us. Waits for its end, a second at most, out of the driver. False if it has not come. */
bool tagc_comm_await_abort(const struct tagc_comm *comm);

#endif
