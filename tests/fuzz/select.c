/* SPDX-License-Identifier: BSD-3-Clause
 * libFuzzer target: globs match like a slow reference; a list matches if one of its elements does; a selection of a
 * layer is that of its parameters. The input is lines: a name, a list of exclusions, and a list; two bytes before them
 * are a unit and kinds.
 */
#include "layermap/model/glob.h"
#include "layermap/infer/layers.h"
#include "layermap/model/select.h"
#include "tests/fuzz/input.h"

/* The reference follows glob.h, and tries one way at a time. It runs only on inputs where it ends soon. */
enum { LONGEST = 40, STARS = 4 };

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads the number at *at; false if there are no digits or too many. */
static bool number(const char **at, uint64_t *value) {
  const char *begin = *at;
  for (*value = 0; is_digit(**at) && *value <= UINT32_MAX; ++*at)
    *value = *value * 10 + (uint64_t)(**at - '0');
  return *at > begin && *value <= UINT32_MAX;
}

/* True if the set between the brackets, `set` to `end`, has the character. */
static bool has(const char *set, const char *end, char c) {
  bool negated = *set == '!' || *set == '^', found = false;
  for (set += negated; set < end; set++) {
    set += *set == '\\';
    unsigned char first = (unsigned char)*set, last = first;
    if (set + 2 < end && set[1] == '-') {
      set += 2;
      set += *set == '\\';
      last = (unsigned char)*set;
    }
    found |= first <= (unsigned char)c && (unsigned char)c <= last;
  }
  return found != negated;
}

static bool slow(const char *all, const char *glob, const char *whole, const char *name) {
  if (!*glob)
    return !*name || *name == '.';
  const char *at = glob, *in = name;
  uint64_t low, high, first, last;
  if ((glob == all || glob[-1] == '.') && number(&at, &low) && *at == '-' && (at++, number(&at, &high)) &&
      (!*at || *at == '.')) {
    if ((name > whole && name[-1] != '.') || !number(&in, &first))
      return false;
    last = first;
    if (*in == '-' && (in++, !number(&in, &last)))
      return false;
    return (!*in || *in == '.') && low <= first && last <= high && slow(all, at, whole, in);
  }
  if (*glob == '*')
    return slow(all, glob + 1, whole, name) || (*name && slow(all, glob, whole, name + 1));
  if (!*name)
    return false;
  if (*glob == '?')
    return slow(all, glob + 1, whole, name + 1);
  if (*glob == '[') {
    const char *end = glob + 1 + (glob[1] == '!' || glob[1] == '^');
    for (const char *begin = end; *end != ']' || end == begin; end++)
      end += *end == '\\' && end[1];
    return has(glob + 1, end, *name) && slow(all, end + 1, whole, name + 1);
  }
  glob += *glob == '\\';
  return *glob == *name && slow(all, glob + 1, whole, name + 1);
}

static void check_glob(const char *glob, const char *name) {
  size_t length = strlen(glob), stars = 0;
  const char *why = tagc_glob_check(glob, length);
  bool matches = tagc_glob_matches(glob, length, name);
  for (const char *c = glob; *c; c++)
    stars += *c == '*';
  if (!why && length <= LONGEST && strlen(name) <= LONGEST && stars <= STARS)
    MUST(matches == slow(glob, glob, name, name));
}

/* Checks that a list is its elements: cut at any comma, one of the halves matches if the whole does. */
static void check_list(const char *list, const char *name, uint32_t unit, uint32_t kinds) {
  const char *why = NULL, *comma = strchr(list, ',');
  size_t at = 0;
  bool whole = tagc_select_parameter(list, name, unit, name, kinds);
  if (!tagc_select_valid(list, &why, &at))
    MUST(why && at <= strlen(list));
  MUST(!tagc_select_matches(list, name, unit) || whole);
  if (!comma)
    return;
  char *first = input_memory((size_t)(comma - list) + 1);
  memcpy(first, list, (size_t)(comma - list));
  first[comma - list] = '\0';
  MUST(whole == (tagc_select_parameter(first, name, unit, name, kinds) ||
                 tagc_select_parameter(comma + 1, name, unit, name, kinds)));
  free(first);
}

/* Checks the selection of a layer of three parameters. */
static void check_layer(const char *list, const char *skip, const char *name, uint32_t unit, uint32_t kinds) {
  struct tagc_parameter parameters[3] = {
    {"mlp.up.weight", TAGC_KIND_MLP, 2, 3, 0}, {"", kinds, 1, 1, 0}, {"attn.q.bias", 0, 1, 1, 0}};
  struct tagc_member members[3];
  struct tagc_layer layer = {.members = members, .count = 3};
  bool is_selected[3];
  size_t selected = 0;
  snprintf(layer.name, sizeof layer.name, "%s", name);
  snprintf(parameters[1].name, sizeof parameters[1].name, "%s", name);
  for (int i = 0; i < 3; i++)
    members[i] = (struct tagc_member){&parameters[i], i - 1, "block"};
  enum tagc_selection selection = tagc_select_layer(list, skip, unit, &layer, is_selected);
  for (size_t i = 0; i < 3; i++) {
    char text[TAGC_MEMBER_NAME];
    tagc_layer_member_name(&layer, i, text, sizeof text);
    MUST(is_selected[i] == (tagc_select_parameter(list, layer.name, unit, text, parameters[i].kinds) &&
                            !tagc_select_parameter(skip, layer.name, unit, text, parameters[i].kinds)));
    selected += is_selected[i];
  }
  MUST(selection == (selected == 3 ? TAGC_SELECT_ALL : selected ? TAGC_SELECT_SOME : TAGC_SELECT_NONE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  uint32_t unit = input_byte(&in), kinds = input_byte(&in) & (2 * TAGC_KIND_EXPERT - 1);
  size_t left = input_left(&in);
  char *text = input_memory(left + 1), *line[3] = {text, "", ""};
  if (left)
    memcpy(text, in.at, left);
  text[left] = '\0';
  for (int i = 0; i < 2 && line[i][0]; i++) {
    char *newline = strchr(line[i], '\n');
    if (!newline)
      break;
    *newline = '\0';
    line[i + 1] = newline + 1;
  }
  check_glob(line[2], line[0]);
  check_list(line[2], line[0], unit, kinds);
  check_layer(line[2], line[1], line[0], unit, kinds);
  free(text);
  return 0;
}
