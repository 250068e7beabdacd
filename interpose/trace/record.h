/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_CALLS=PREFIX: the calls that were observed, as a file of calls (man/tagc-map.5) a process, for tagc-map and for
 * tests.
 *
 * What     The collectives of all communicators of the process in the order in which they were made, each as it was
 *          observed: neither what a CUDA graph captures nor point-to-point calls. At most TAGC_RECORD_CALLS of them: a
 *          last line says so.
 * Names    PREFIX-HOST-pid1234-rank0.calls: the rank is that in the communicator that was used first.
 * When     Text is held back in memory, and written when there is enough of it, when a communicator ends, and at exit.
 *          What a process that is killed has not written is lost; a forked child writes a file of its own.
 * Harm     None: a file that is there is not touched, and no link is followed; where it cannot be written a warning
 *          says why, once, and the recording ends: the file then ends with the last whole line that was written. Calls,
 *          errno and signals stay as they are.
 *          The same where the program closes the file's number: what it opens under that is its own (env/files.h).
 * Ranks    Need not agree on it. Off, it costs the look at an option.
 * Threads  Any; a lock of its own, under which no call of NCCL is made.
 */
#ifndef INTERPOSE_TRACE_RECORD_H
#define INTERPOSE_TRACE_RECORD_H

#include <stdint.h>

#include "layermap/cycle/cycle.h"

enum { TAGC_RECORD_CALLS = 100000 };

/* A call of a communicator with this number, in which the process is rank `rank` of `nranks`. */
void tagc_record_call(uint64_t communicator, int rank, int nranks, const struct tagc_signature *call);
/* Writes what is held back. */
void tagc_record_flush(void);

#endif
