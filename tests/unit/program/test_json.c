/* SPDX-License-Identifier: BSD-3-Clause
 * env/program/json: commas, lines and escapes are right for any content.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "env/program/json.h"
#include "tests/unit/tap.h"

static char *written;
static size_t size;

static struct tagc_json begin(bool spaced) {
  return (struct tagc_json){.out = open_memstream(&written, &size), .spaced = spaced};
}

static void wrote(struct tagc_json *j, const char *want, const char *what) {
  fclose(j->out);
  ok(strcmp(written, want) == 0, "%s: %s", what, written);
  free(written);
}

static void nests(bool spaced, const char *want, const char *what) {
  struct tagc_json j = begin(spaced);
  tagc_json_open(&j, NULL, '{');
  tagc_json_open(&j, "empty", '[');
  tagc_json_close(&j, ']');
  tagc_json_open(&j, "list", '[');
  tagc_json_number(&j, NULL, -1);
  tagc_json_open(&j, NULL, '{');
  tagc_json_truth(&j, "a", true);
  tagc_json_truth(&j, "b", false);
  tagc_json_close(&j, '}');
  tagc_json_open(&j, NULL, '{');
  tagc_json_close(&j, '}');
  tagc_json_close(&j, ']');
  tagc_json_count(&j, "end", UINT64_MAX);
  tagc_json_close(&j, '}');
  wrote(&j, want, what);
}

static void lines(void) {
  struct tagc_json j = begin(true);
  tagc_json_open(&j, NULL, '{');
  tagc_json_number(&j, "a", 1);
  tagc_json_line(&j, 1);
  tagc_json_open(&j, "list", '[');
  for (int i = 0; i < 2; i++) {
    tagc_json_line(&j, 2);
    tagc_json_number(&j, NULL, i);
  }
  tagc_json_line(&j, 1);
  tagc_json_close(&j, ']');
  tagc_json_number(&j, "b", 2);
  tagc_json_close(&j, '}');
  wrote(&j, "{\"a\": 1,\n \"list\": [\n  0,\n  1\n ], \"b\": 2}", "lines");
}

static void lists(size_t count, const char *want, const char *what) {
  struct tagc_json j = begin(false);
  tagc_json_open(&j, NULL, '{');
  for (size_t i = tagc_json_list(&j, "list"); tagc_json_item(&j, i, count); i++)
    tagc_json_count(&j, "i", i);
  tagc_json_truth(&j, "end", true);
  tagc_json_close(&j, '}');
  wrote(&j, want, what);
}

static void numbers(void) {
  struct tagc_json j = begin(false);
  tagc_json_open(&j, NULL, '[');
  tagc_json_real(&j, NULL, 0.1);
  tagc_json_real(&j, NULL, 1e300);
  tagc_json_real(&j, NULL, NAN);
  tagc_json_real(&j, NULL, -INFINITY);
  tagc_json_null(&j, NULL);
  tagc_json_number(&j, NULL, INT64_MIN);
  tagc_json_format(&j, NULL, "%d.%03d", 12, 5);
  tagc_json_close(&j, ']');
  wrote(&j, "[0.1,1e+300,null,null,null,-9223372036854775808,12.005]", "numbers, and those that JSON has not");
}

static void texts(void) {
  struct tagc_json j = begin(false);
  tagc_json_open(&j, NULL, '{');
  tagc_json_text(&j, "a\"b\\c", "\n\x1f\x7f</script>\xc3\xa9");
  tagc_json_text(&j, "bad", "\xff\xc3(\xed\xa0\x80");
  tagc_json_text_or_null(&j, "none", "");
  tagc_json_text_or_null(&j, "no", NULL);
  tagc_json_text_or_null(&j, "some", "x");
  tagc_json_close(&j, '}');
  wrote(&j,
        "{\"a\\\"b\\\\c\":\"\\u000a\\u001f\\u007f</script>\xc3\xa9\",\"bad\":\"\\ufffd\\ufffd(\\ufffd\\ufffd\\ufffd\","
        "\"none\":null,\"no\":null,\"some\":\"x\"}",
        "names and texts of anybody");
}

int main(void) {
  nests(false, "{\"empty\":[],\"list\":[-1,{\"a\":true,\"b\":false},{}],\"end\":18446744073709551615}",
        "objects and arrays");
  nests(true, "{\"empty\": [], \"list\": [-1, {\"a\": true, \"b\": false}, {}], \"end\": 18446744073709551615}",
        "with spaces");
  lists(0, "{\"list\":[],\"end\":true}", "a list of nothing");
  lists(2, "{\"list\":[{\"i\":0},{\"i\":1}],\"end\":true}", "a list of objects");
  lines();
  numbers();
  texts();
  return tap_done();
}
