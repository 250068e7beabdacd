/* SPDX-License-Identifier: BSD-3-Clause
 * env/program/markup: no text becomes markup, and numbers are printed as printf does.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "env/program/markup.h"
#include "tests/unit/tap.h"

static char *written;
static size_t size;

static void wrote(FILE *file, const char *want, const char *what) {
  fclose(file);
  ok(strcmp(written, want) == 0, "%s: %s", what, written);
  free(written);
}

static void text(const char *from, const char *want, const char *what) {
  FILE *file = open_memstream(&written, &size);
  tagc_markup(file, "<%s>", from);
  char whole[200];
  snprintf(whole, sizeof whole, "<%s>", want);
  wrote(file, whole, what);
}

static void texts(void) {
  text("", "", "an empty text");
  text("a<b>&\"c'%s", "a&lt;b&gt;&amp;&quot;c'%s", "what is markup, and what is a format");
  text("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "UTF-8 stays");
  text("\xff\xc3.\xc0\x80", "??.??", "what is none does not");
  text("a\nb\033[1m\x7f\xc2\x80\xc2\x9f\xc2\xa0", "a?b?[1m???\xc2\xa0", "nor do controls");
  text("\xe2\x80\xae"
       "a\xe2\x81\xa6\xef\xbf\xbf",
       "?a??", "marks of direction, and what is no character");
}

static void numbers(void) {
  FILE *file = open_memstream(&written, &size);
  tagc_markup(file, "100%% %d %u %zu %lu %ld|%.2f %.0f %.10g %g %f|%s%s", -3, 4000000000u, (size_t)5, UINT64_MAX,
              (long)INT64_MIN, 1.005, 2.5, 0.1, 1e-7, 1.0, "<", ">");
  wrote(file, "100% -3 4000000000 5 18446744073709551615 -9223372036854775808|1.00 2 0.1 1e-07 1.000000|&lt;&gt;",
        "numbers between texts");
}

int main(void) {
  texts();
  numbers();
  return tap_done();
}
