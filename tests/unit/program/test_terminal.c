/* SPDX-License-Identifier: BSD-3-Clause
 * env/program/terminal: control characters are removed, and lines fit.
 */
#include <stdlib.h>
#include <string.h>

#include "env/program/terminal.h"
#include "tests/unit/tap.h"

static void tames(void) {
  char all[] = "a\033[31m\nb\x7f\xc2\x9b\xc3\xa9", lines[] = "a\nb\tc";
  tagc_tame(all, '\0');
  ok(strcmp(all, "a?[31m?b?\xc2?\xc3\xa9") == 0, "controls of ASCII and of C1 are gone, letters stay: %s", all);
  tagc_tame(lines, '\n');
  ok(strcmp(lines, "a\nb?c") == 0, "but for one that is to be kept");
  char *got;
  size_t size;
  FILE *to = open_memstream(&got, &size);
  tagc_put_tamed(to, "a\033b");
  fclose(to);
  ok(strcmp(got, "a?b") == 0, "and when it is written: %s", got);
  free(got);
}

static void wraps(const char *text, size_t column, size_t indent, size_t width, const char *want) {
  char *got;
  size_t size;
  FILE *to = open_memstream(&got, &size);
  tagc_put_wrapped(to, text, column, indent, width);
  fclose(to);
  ok(strcmp(got, want) == 0, "\"%s\" from %zu, indented by %zu, in %zu columns", text, column, indent, width);
  note_lines(got);
  free(got);
}

int main(void) {
  tames();
  wraps("", 0, 2, 10, "");
  wraps("one", 0, 2, 10, "  one");
  wraps("one two", 0, 0, 7, "one two");
  wraps("one two", 0, 0, 6, "one\ntwo");
  wraps("one two three", 3, 4, 11, " one two\n    three");
  wraps("one   two", 4, 4, 20, "one   two");
  wraps("one   two", 0, 2, 9, "  one\n  two");
  wraps("longer-than-a-line is", 0, 2, 10, "  longer-than-a-line\n  is");
  wraps("a longer-than-a-line", 0, 2, 10, "  a\n  longer-than-a-line");
  return tap_done();
}
