/* SPDX-License-Identifier: BSD-3-Clause
 * What an answer of PyTorch means: a map, or a reason. Whatever comes back, the reason is one line of the log.
 */
#include "interpose/torch/ask.h"

#include <stdlib.h>
#include <string.h>

#include "layermap/model/mapfile.h"
#include "tests/unit/tap.h"

static const char map[] = "tagc-map 1\nlayout fsdp2\nunit embed\n  parameter words.weight 96x32 embed\n"
                          "unit block 0-2\n  parameter x.a.weight 64x32 mlp\n  parameter n.weight 32 norm\n";

/* The answer is refused, and *why begins with `begin`. */
static void refuses(const char *answer, const char *begin, const char *name) {
  char why[TAGC_TORCH_WHY] = "";
  uint64_t digest = 1;
  struct tagc_model *model = tagc_torch_read(answer, &digest, why);
  ok(!model && digest == 0, "%s: no model", name);
  ok(strncmp(why, begin, strlen(begin)) == 0, "%s: %.60s", name, begin);
  bool is_line = *why != '\0';
  for (const char *c = why; *c; c++)
    is_line = is_line && (unsigned char)*c >= ' ' && *c != 0x7f;
  ok(is_line, "%s: the reason is one line", name);
  tagc_model_free(model);
}

static void test_map(void) {
  char why[TAGC_TORCH_WHY] = "", other[sizeof map];
  uint64_t digest = 0, again = 0;
  struct tagc_model *model = tagc_torch_read(map, &digest, why);
  ok(model && model->place_count == 4 && model->layout == TAGC_LAYOUT_FSDP2, "a map: 4 places, with its layout");
  ok(digest != 0, "and a digest");
  tagc_model_free(model);
  tagc_model_free(tagc_torch_read(map, &again, why));
  ok(digest == again, "the same map has the same one");
  memcpy(other, map, sizeof map);
  *strstr(other, "64x32") = '3';
  tagc_model_free(tagc_torch_read(other, &again, why));
  ok(again && digest != again, "a map with another shape has another one");
}

static void test_reasons(void) {
  char *text = malloc(1000);
  refuses("!this process has not loaded PyTorch", "this process has not loaded PyTorch", "a reason");
  refuses("!", "no reason is given", "an empty reason");
  refuses("", "its map is refused in line ", "nothing");
  refuses("!ValueError: a\nb\tc\033[31m\177", "ValueError: a b c [31m ", "a reason with control characters");
  refuses("no map", "its map is refused in line 1: ", "other text");
  refuses("tagc-map 1\nunit embed\n  parameter words 0x3\n",
          "its map is refused in line 3: ", "a parameter without elements");
  refuses("tagc-map 1\nunit a\n  parameter w 4\n  parameter w 4\n",
          "its map is refused in line 4: ", "a name that is there twice");
  if (!text)
    return;
  memset(text, 'x', 999);
  text[0] = '!';
  text[999] = '\0';
  refuses(text, "xxxx", "a reason of 998 characters");
  free(text);
}

/* The longest map that is read, and one byte more. */
static void test_bytes(void) {
  const size_t most = TAGC_MAPFILE_BYTES;
  char why[TAGC_TORCH_WHY] = "", *text = malloc(most + 2);
  uint64_t digest;
  if (!text)
    return;
  memset(text, '\n', most + 1);
  memcpy(text, map, sizeof map - 1);
  text[most] = '\0';
  struct tagc_model *model = tagc_torch_read(text, &digest, why);
  ok(model != NULL, "a map of %zu bytes", most);
  tagc_model_free(model);
  text[most] = '\n';
  text[most + 1] = '\0';
  refuses(text, "its map has more than ", "a longer one");
  free(text);
}

int main(void) {
  test_map();
  test_reasons();
  test_bytes();
  return tap_done();
}
