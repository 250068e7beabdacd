/* SPDX-License-Identifier: BSD-3-Clause
 * Reads a trace (format.h) record by record, in any state. For tagc-report and tests.
 *
 * Whatever the bytes, a returned record is of a known kind, lies wholly in memory, has its kind's length in this
 * version (older, shorter ones are filled with zeros), begins at a multiple of 8 bytes, and ends its texts with a NUL
 * inside it. Its numbers may be anything. Damaged chunks are skipped and counted. A chunk cut at the end of the file
 * still gives its whole records.
 *
 * Memory     A window of the file; never all of it.
 * Ownership  A record belongs to the file until the next call.
 * Threads    One thread at a time uses a file.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_RECORDS_H
#define INTERPOSE_TAGC_REPORT_READ_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/trace/format.h"

enum { TAGC_TRACE_WHY = 256 };

/* Statistics of a file; complete when tagc_trace_next() has returned NULL. */
struct tagc_trace_health {
  uint64_t bytes, records, chunks;
  uint64_t damaged_chunks;  /* missing, or with a wrong sum */
  uint64_t skipped_bytes;   /* outside of whole chunks */
  uint64_t unknown_records; /* of kinds of later minor versions */
  uint64_t refused_records; /* shorter than in any version, or with unterminated texts */
  uint64_t dropped;         /* by the process, as it reports */
  bool cut;                 /* the file ends inside a chunk */
  bool ended;               /* it has an END record */
  uint16_t major, minor;
  bool bounded; /* the END record reports that the file reached its limit */
};

struct tagc_trace_file;

/* NULL, and why (with the path): unreadable, empty, no trace, of another major version, or of the other byte order. */
struct tagc_trace_file *tagc_trace_open(const char *path, char why[TAGC_TRACE_WHY]);
/* As tagc_trace_open(), for bytes in memory, which must outlive the file. `path`: for messages. */
struct tagc_trace_file *tagc_trace_open_bytes(const char *path, const void *bytes, size_t size,
                                              char why[TAGC_TRACE_WHY]);
/* The next record; NULL at the end. */
const struct tagc_trace_record *tagc_trace_next(struct tagc_trace_file *file);
/* Returns to the first record and resets the statistics. */
bool tagc_trace_rewind(struct tagc_trace_file *file);
const struct tagc_trace_health *tagc_trace_health(const struct tagc_trace_file *file);
/* The i-th of the consecutive texts at the end of a record; "" if there are fewer. */
const char *tagc_trace_text(const struct tagc_trace_record *record, const char *texts, unsigned i);
void tagc_trace_close(struct tagc_trace_file *file);

#endif
