/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_CALLS=PREFIX: the observed calls, as a file of calls (man/tagc-map.5) a process, for tagc-map and for tests.
 *
 * What     The collectives of all communicators of the process in call order, each as it was observed: neither calls
 *          that a CUDA graph captures nor point-to-point calls. At most TAGC_RECORD_CALLS of them: a last line says so.
 * Names    PREFIX-HOST-pid1234-rank0.calls: the rank in the communicator that was used first.
 * When     Text is held back in memory, and written when there is enough of it, when a communicator ends, and at exit.
 *          A killed process loses its unwritten text; a forked child writes a file of its own.
 * Harm     None. An existing file is not touched, and no link is followed. If the file cannot be written, one warning
 *          says why, and the recording ends with the last whole line. The same happens if the program closes the file's
 *          number: its next file may have that number (env/files.h). Calls, errno and signals stay as they are.
 * Ranks    Need not agree on it. Off, it costs the check of an option.
 * Threads  Any; a lock of its own, under which no NCCL function is called.
 */
#ifndef INTERPOSE_TRACE_RECORD_H
#define INTERPOSE_TRACE_RECORD_H

#include <stdint.h>

#include "layermap/cycle/cycle.h"

enum { TAGC_RECORD_CALLS = 100000 };

/* Records a call of the communicator with this number, in which the process is rank `rank` of `nranks`. */
void tagc_record_call(uint64_t communicator, int rank, int nranks, const struct tagc_signature *call);
/* Writes the held-back text. */
void tagc_record_flush(void);

#endif
