/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_DUMP=PREFIX: the send buffers of one cycle as files, for tagc-bench --input.
 *
 * What     Each slot that TAGC_LAYERS, TAGC_SKIP and TAGC_MIN_BYTES select: its send buffer as the program handed it
 *          over (W shards of n elements), before anything is added, encoded or sent.
 * When     In cycle TAGC_DUMP_CYCLE, by default the first that may compress calls; also with TAGC_MODE=observe.
 * Names    PREFIX-HOST-pid1234-comm1-rank0-unit3-fp32-W2-n12345.raw: host and process (two processes may both have a
 *          communicator 1 and rank 0 in it: the stages of a pipeline), the communicator's number in the report, the
 *          rank in it, the slot, type, ranks, elements of a shard. If another cycle is found later, -lock2 (or 3 ...)
 *          follows the communicator; if a cycle reduces a unit several times, -pass2 (or 3 ...) does.
 * Harm     None. An existing file is not touched, and no link is followed. If a file cannot be written (disk full, no
 *          permission, RLIMIT_FSIZE), the partial file is removed. The first such failure of a process logs one warning
 *          with file and reason. Calls, errno and signals stay as they are. No lock is held while writing, but an abort
 *          from another thread waits, as the program may free the buffer after it. GPU memory is copied in pieces, and
 *          the host waits for the stream: for a non-blocking communicator in the background.
 * Ranks    Need not agree on it: it changes no call.
 */
#ifndef INTERPOSE_EXEC_DUMP_H
#define INTERPOSE_EXEC_DUMP_H

#include "interpose/comm/call.h"

/* Dumps a reduce-scatter that was observed and is about to run. */
void tagc_dump_call(const struct tagc_call *call);

/* Would that wait for a device? */
bool tagc_dump_waits(const struct tagc_call *call);

#endif
