/* SPDX-License-Identifier: BSD-3-Clause
 * Reads a trace (format.h) record by record, whatever state it is in. For tagc-report and tests.
 *
 * Whatever the bytes: a record that is given out is of a known kind, lies wholly in memory, is as long as its kind is
 * in this version (a shorter one of an older version has been completed with zeros), begins at a multiple of 8 bytes,
 * and its texts end with a NUL inside it. Numbers in it may still be anything. Damaged chunks are skipped, and counted;
 * of a chunk that was cut at the end of the file its whole records are given out.
 *
 * Memory     A window of the file; never all of it.
 * Ownership  A record is the file's until the next call.
 * Threads    A file is used by one thread at a time.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_RECORDS_H
#define INTERPOSE_TAGC_REPORT_READ_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/trace/format.h"

enum { TAGC_TRACE_WHY = 256 };

/* What there is to say of a file; complete when tagc_trace_next() has given NULL. */
struct tagc_trace_health {
  uint64_t bytes, records, chunks;
  uint64_t damaged_chunks;  /* whose sum is wrong, or that are missing */
  uint64_t skipped_bytes;   /* that belong to no chunk that is whole */
  uint64_t unknown_records; /* of kinds that a later minor version has */
  uint64_t refused_records; /* shorter than any version has them, or with texts that do not end */
  uint64_t dropped;         /* by the process, as it says */
  bool cut;                 /* the file ends inside a chunk */
  bool ended;               /* it has an END record */
  uint16_t major, minor;
  bool bounded; /* which says that the file was as long as it might be */
};

struct tagc_trace_file;

/* NULL, and why (with the path): it cannot be read, is empty, no trace, of another major version, or of the other byte
 * order. */
struct tagc_trace_file *tagc_trace_open(const char *path, char why[TAGC_TRACE_WHY]);
/* The same for bytes in memory, which must outlive the file. `path`: for messages. */
struct tagc_trace_file *tagc_trace_open_bytes(const char *path, const void *bytes, size_t size,
                                              char why[TAGC_TRACE_WHY]);
/* The next record; NULL at the end. */
const struct tagc_trace_record *tagc_trace_next(struct tagc_trace_file *file);
/* Back to the first record; what health says begins anew. */
bool tagc_trace_rewind(struct tagc_trace_file *file);
const struct tagc_trace_health *tagc_trace_health(const struct tagc_trace_file *file);
/* The i-th of the texts that lie one behind the other at the end of a record; "" where there are fewer. */
const char *tagc_trace_text(const struct tagc_trace_record *record, const char *texts, unsigned i);
void tagc_trace_close(struct tagc_trace_file *file);

#endif
