/* SPDX-License-Identifier: BSD-3-Clause
 * env/log: one message is one line of printable ASCII, whatever it quotes; nothing overflows; errno stays.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "env/log.h"
#include "tests/unit/tap.h"

static const char nasty[] = "a\nb\r\tc\x1b[31m\x7f\x9b"
                            "2J\xc3\xa9\xff\\";
static const char clean[] = "a\\x0ab\\x0d\\x09c\\x1b[31m\\x7f\\x9b2J\\xc3\\xa9\\xff\\";

static void escapes(void) {
  char out[128], small[16];
  ok(tagc_log_escape(out, sizeof out, nasty) == strlen(clean) && strcmp(out, clean) == 0, "escaped: %s", out);
  ok(tagc_log_escape(out, sizeof out, " ~plain text~ ") == 14 && strcmp(out, " ~plain text~ ") == 0,
     "printable ASCII stays as it is");
  ok(tagc_log_escape(out, 1, nasty) == 0 && out[0] == '\0', "room for nothing");
  bool terminated = true, whole = true;
  for (size_t size = 1; size <= sizeof small; size++) {
    memset(small, '#', sizeof small);
    size_t length = tagc_log_escape(small, size, "\n\n\n\n\n");
    terminated &= length < size && small[length] == '\0' && (size == sizeof small || small[size] == '#');
    whole &= length % 4 == 0 && length + 4 >= size - 1;
  }
  ok(terminated, "always terminated, and nothing behind the end");
  ok(whole, "an escape is never cut in two");
}

/* The text that the calls in `say` write to stderr. */
static size_t written(void (*say)(void), char *out, size_t size) {
  int ends[2], before = dup(STDERR_FILENO);
  if (pipe(ends) != 0)
    return 0;
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  say();
  dup2(before, STDERR_FILENO);
  close(before);
  ssize_t length = read(ends[0], out, size - 1);
  close(ends[0]);
  out[length > 0 ? length : 0] = '\0';
  return length > 0 ? (size_t)length : 0;
}

static char longest[5000];

static void say_nasty(void) { tagc_log(TAGC_LOG_WARN, "env", "TAGC_X=%s", nasty); }
static void say_report(void) { tagc_say("%s", "two\nlines"); }
static void say_longest(void) { tagc_log(TAGC_LOG_WARN, "env", "%s", longest); }
static void say_longest_control(void) { tagc_say("%s", longest); }
static void say_debug(void) { tagc_log(TAGC_LOG_DEBUG, "env", "not now"); }

static void lines(void) {
  char out[6000], want[200];
  snprintf(want, sizeof want, "tagc warn env: TAGC_X=%s\n", clean);
  written(say_nasty, out, sizeof out);
  ok(strcmp(out, want) == 0, "a value cannot begin a line of its own: %.*s", (int)strcspn(out, "\n"), out);
  tagc_log_set_rank(7);
  written(say_nasty, out, sizeof out);
  ok(strncmp(out, "tagc[7] warn env: ", 18) == 0, "the rank is in front");
  written(say_report, out, sizeof out);
  ok(strcmp(out, "two\\x0alines\n") == 0, "nor in a report");
  memset(longest, 'x', sizeof longest - 1);
  size_t length = written(say_longest, out, sizeof out);
  ok(length > 1000 && length < 1200 && out[length - 1] == '\n' && strchr(out, '\n') == out + length - 1,
     "a message of 5,000 bytes is cut to %zu", length);
  memset(longest, '\n', sizeof longest - 1);
  length = written(say_longest_control, out, sizeof out);
  ok(length > 1000 && length < 1200 && strchr(out, '\n') == out + length - 1, "and so is one of line feeds: %zu",
     length);
  ok(written(say_debug, out, sizeof out) == 0, "what is below the level is not said");
}

static void say_closed(void) {
  close(STDERR_FILENO);
  errno = ERANGE;
  say_nasty();
}

/* A message into a pipe without a reader, or two: SIGPIPE must not come, not even later. */
static bool survives_broken_pipe(void) {
  int ends[2], before = dup(STDERR_FILENO);
  sigset_t pending;
  if (pipe(ends) != 0)
    return false;
  dup2(ends[1], STDERR_FILENO);
  close(ends[0]);
  close(ends[1]);
  say_nasty();
  errno = ERANGE;
  say_nasty();
  bool kept = errno == ERANGE;
  dup2(before, STDERR_FILENO);
  close(before);
  return kept && sigpending(&pending) == 0 && !sigismember(&pending, SIGPIPE);
}

static void errors(void) {
  char out[16];
  ok(survives_broken_pipe(), "a reader that has gone does not end the program, and leaves no signal behind");
  ok(written(say_closed, out, sizeof out) == 0 && errno == ERANGE, "a closed stderr is nothing, and errno stays");
}

int main(void) {
  escapes();
  lines();
  errors();
  return tap_done();
}
