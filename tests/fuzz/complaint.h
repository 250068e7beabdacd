/* SPDX-License-Identifier: BSD-3-Clause
 * Checks a complaint about a text: it is printable ASCII, not empty, and names a place in the text.
 */
#ifndef TESTS_FUZZ_COMPLAINT_H
#define TESTS_FUZZ_COMPLAINT_H

#include "layermap/model/complaint.h"
#include "tests/fuzz/input.h"

static inline void check_complaint(const struct tagc_complaint *complaint, const char *text, size_t size) {
  MUST(memchr(complaint->text, '\0', sizeof complaint->text) && complaint->text[0]);
  for (const char *c = complaint->text; *c; c++)
    MUST(*c >= ' ' && *c <= '~');
  if (!complaint->line) {
    MUST(size == 0);
    return;
  }
  const char *line = text, *end = text + size;
  for (unsigned number = 1; number < complaint->line; number++) {
    line = memchr(line, '\n', (size_t)(end - line));
    MUST(line && ++line <= end);
  }
  const char *newline = memchr(line, '\n', (size_t)(end - line));
  MUST(complaint->column >= 1 && complaint->column <= (size_t)((newline ? newline : end) - line) + 1);
}

#endif
