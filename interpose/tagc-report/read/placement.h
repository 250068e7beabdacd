/* SPDX-License-Identifier: BSD-3-Clause
 * Where the ranks of communicators are, from the traces of all of them. A rank by itself learns that in the first vote
 * alone; until then, and with TAGC_MODE=observe throughout, its trace has all that it sends as sent inside its host.
 * But each trace says on which host its process is.
 *
 * Ownership   tagc_placement_free() gives them back.
 * Threads     One at a time.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_PLACEMENT_H
#define INTERPOSE_TAGC_REPORT_READ_PLACEMENT_H

#include <stdint.h>

#include "interpose/tagc-report/read/records.h"

struct tagc_placement;

/* Reads the beginnings of traces; files that cannot be read are passed over. NULL without memory. */
struct tagc_placement *tagc_placement_read(char *const *paths, size_t count);
void tagc_placement_free(struct tagc_placement *placement);

/* How a communicator lies on hosts, as a rank of it sees that; hosts = 0: not known, for some rank has no trace. */
struct tagc_comm_hosts {
  uint32_t nranks, hosts, local; /* local: ranks on the host of this one */
};

/* host: of struct tagc_trace_process, as a number. */
struct tagc_comm_hosts tagc_placement_of(const struct tagc_placement *placement, uint64_t identity, uint64_t host);

/* The number of a process's host; 0: the record does not say it. */
uint64_t tagc_placement_host(const struct tagc_trace_process *record);

/* Of bytes that are sent along a ring, or as messages to all other ranks alike, those that go to other hosts
 * (calls/trace_calls.c). */
uint64_t tagc_placement_between(const struct tagc_comm_hosts *comm_hosts, uint64_t bytes, bool messages);

#endif
