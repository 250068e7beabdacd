/* SPDX-License-Identifier: BSD-3-Clause
 * What launch does with the output of its ranks: it goes on line by line, each with its rank in front.
 *
 * Ownership  A stream owns its descriptor `from` and its line, from launch.c's pipe to launch_close_stream().
 * Threads    One.
 * Failure    Without memory a stream is closed. Lines that nobody reads any more are dropped.
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

/* Reads once, without waiting where `from` does not, and writes the lines that are complete. False: nothing there. */
bool launch_read_stream(int rank, struct stream *stream);

/* Writes what is left without a newline. */
void launch_close_stream(int rank, struct stream *stream);

#endif
