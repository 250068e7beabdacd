/* SPDX-License-Identifier: BSD-3-Clause
 * The Test Anything Protocol in forty lines: a test program calls ok() for each thing that must hold and ends with
 * `return tap_done();`. Output goes to stdout, where Automake's TAP driver reads it. Single-threaded.
 */
#ifndef TESTS_UNIT_TAP_H
#define TESTS_UNIT_TAP_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Builds with sanitizers are slow, and look at memory: a test leaves out what differs in numbers alone. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static int tap_count, tap_failed;

/* One test point: `holds` must be true. The description is a printf format. Returns `holds`. */
__attribute__((format(printf, 2, 3))) static inline int ok(int holds, const char *what, ...) {
  va_list args;
  va_start(args, what);
  printf("%sok %d - ", holds ? "" : "not ", ++tap_count);
  vprintf(what, args);
  printf("\n");
  va_end(args);
  tap_failed += !holds;
  fflush(stdout);
  return holds;
}

/* A line for the reader, ignored by the driver. */
__attribute__((format(printf, 1, 2))) static inline void note(const char *what, ...) {
  va_list args;
  va_start(args, what);
  printf("# ");
  vprintf(what, args);
  printf("\n");
  va_end(args);
  fflush(stdout);
}

/* The lines of a text for the reader. Returns the bytes of the longest. */
static inline size_t note_lines(const char *text) {
  size_t longest = 0;
  for (const char *line = text; *line; line += *line == '\n') {
    const size_t length = strcspn(line, "\n");
    note("%.*s", (int)length, line);
    longest = length > longest ? length : longest;
    line += length;
  }
  return longest;
}

/* Between two questions whether another thread is done: whoever only yields takes a processor from those that work. */
static inline void pause_briefly(void) { nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL); }

/* A test point that could not run here, with its reason. */
static inline void skip(const char *what, const char *reason) {
  printf("ok %d - %s # SKIP %s\n", ++tap_count, what, reason);
}

/* Prints the plan. Returns the exit status of main(). */
static inline int tap_done(void) {
  printf("1..%d\n", tap_count);
  return tap_failed ? 1 : 0;
}

#endif
