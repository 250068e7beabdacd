/* SPDX-License-Identifier: BSD-3-Clause
 * Forwards the output of launch's ranks line by line, each with its rank in front.
 *
 * Ownership  A stream owns its descriptor `from` and its line, from launch.c's pipe to launch_close_stream().
 * Threads    One.
 * Failure    Without memory a stream is closed. Lines that cannot be written are dropped.
 */
#ifndef TESTS_STANDIN_LAUNCH_OUTPUT_H
#define TESTS_STANDIN_LAUNCH_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

/* Output of one stream of one rank, cut into lines. */
struct stream {
  int from, to; /* from: -1 once it has ended */
  char *line;
  size_t size, room;
};

/* Reads once, without waiting if `from` is non-blocking, and writes the complete lines. False: nothing was there. */
bool launch_read_stream(int rank, struct stream *stream);

/* The errno of the first line that could not be written, or 0. That a reader has gone is no error. */
int launch_output_error(void);

/* Writes a last line without a newline. */
void launch_close_stream(int rank, struct stream *stream);

#endif
