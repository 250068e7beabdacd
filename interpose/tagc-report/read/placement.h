/* SPDX-License-Identifier: BSD-3-Clause
 * The hosts of communicators' ranks, from all traces together. A rank learns this only in the first vote. Before, and
 * always with TAGC_MODE=observe, its trace counts all bytes as sent inside its host. But each trace names its own host.
 *
 * Ownership   tagc_placement_free() frees everything.
 * Threads     One at a time.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_PLACEMENT_H
#define INTERPOSE_TAGC_REPORT_READ_PLACEMENT_H

#include <stdint.h>

#include "interpose/tagc-report/read/records.h"

struct tagc_placement;

/* Reads the beginnings of traces; skips unreadable files. NULL: no memory. */
struct tagc_placement *tagc_placement_read(char *const *paths, size_t count);
void tagc_placement_free(struct tagc_placement *placement);

/* A communicator's spread over hosts, as one rank sees it; hosts = 0: unknown, as some rank has no trace. */
struct tagc_comm_hosts {
  uint32_t nranks, hosts, local; /* local: ranks on this rank's host */
};

/* host: from tagc_placement_host(). */
struct tagc_comm_hosts tagc_placement_of(const struct tagc_placement *placement, uint64_t identity, uint64_t host);

/* The number of a process's host; 0: not in the record. */
uint64_t tagc_placement_host(const struct tagc_trace_process *record);

/* The part of `bytes` sent to other hosts, by a ring or by equal messages to all other ranks (calls/trace_calls.c). */
uint64_t tagc_placement_between(const struct tagc_comm_hosts *comm_hosts, uint64_t bytes, bool messages);

#endif
