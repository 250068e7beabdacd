/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_LAYERS and TAGC_SKIP; see select.h. The elements of a list are tried in order: a leading digit makes a number or
 * a range, an @ a preset, the name of a kind that kind, anything else a glob.
 */
#include "layermap/model/select.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "layermap/model/contents.h"
#include "layermap/model/glob.h"

enum { LONGEST_ELEMENT = TAGC_SELECT_ELEMENT - 1 };

/* The kinds that a preset names, and those that exclude a parameter. */
static const struct preset {
  const char *name;
  bool everything;
  uint32_t kinds, without;
} presets[] = {
  {"@paper", false, TAGC_KIND_MLP | TAGC_KIND_EXPERT | TAGC_KIND_EMBED | TAGC_KIND_HEAD,
   TAGC_KIND_ATTN | TAGC_KIND_NORM},
  {"@all", true, 0, 0},
};

/* The characters of a word. */
static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";

struct element {
  const char *text; /* not terminated */
  size_t length;
};

/* The subject of a list: a slot and, unless `parameter` is NULL, one in it. */
struct question {
  const char *name, *parameter;
  uint32_t unit, kinds, against; /* the kinds that count for a match, and those that exclude one */
  char number[16];               /* "unit7": the slot's other name */
};

static bool is_space(char c) { return c == ' ' || c == '\t'; }

/* The element at *rest, without spaces around it; *rest moves to the next one, or becomes NULL. */
static struct element next_element(const char **rest) {
  const char *begin = *rest, *end = strchr(begin, ',');
  *rest = end ? end + 1 : NULL;
  if (!end)
    end = begin + strlen(begin);
  while (begin < end && is_space(*begin))
    begin++;
  while (end > begin && is_space(end[-1]))
    end--;
  return (struct element){begin, (size_t)(end - begin)};
}

static bool is_empty_list(const char *list) { return list[strspn(list, " \t")] == '\0'; }

/* Reads a number from *at, which moves behind it. Returns NULL or the error. */
static const char *read_number(const char **at, const char *end, uint32_t *number) {
  const char *begin = *at;
  return tagc_glob_number(at, end, number) ? NULL : *at > begin ? "a number is too large" : "not a number";
}

/* Reads "7" or "0-3". Returns NULL or the error. */
static const char *read_range(struct element element, uint32_t *first, uint32_t *last) {
  const char *at = element.text, *end = element.text + element.length;
  const char *why = read_number(&at, end, first);
  *last = *first;
  if (!why && at < end && *at == '-') {
    at++;
    why = read_number(&at, end, last);
  }
  if (why)
    return why;
  if (at < end)
    return "not a number";
  return *first > *last ? "a range runs backwards" : NULL;
}

static const struct preset *find_preset(struct element element) {
  for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
    if (strlen(presets[i].name) == element.length && memcmp(presets[i].name, element.text, element.length) == 0)
      return &presets[i];
  return NULL;
}

/* The error of an element, or NULL. Adds its place in the element to *at. */
static const char *check_element(struct element element, size_t *at) {
  uint32_t first, last;
  if (element.length == 0)
    return "an element is empty";
  if (tagc_is_digit(*element.text))
    return read_range(element, &first, &last);
  if (*element.text == '@')
    return find_preset(element) ? NULL : "neither @paper nor @all";
  if (element.length > LONGEST_ELEMENT)
    return "an element is too long";
  if (*element.text == '!' || *element.text == '-')
    return "an element cannot be negated: what is to be left out is named in TAGC_SKIP";
  for (size_t i = 0; i < element.length; i++)
    if (is_space(element.text[i]) || element.text[i] == ';') {
      *at += i;
      return is_space(element.text[i]) ? "a space inside an element: commas separate elements"
                                       : "a semicolon inside an element: commas separate elements";
    }
  return tagc_glob_check(element.text, element.length);
}

bool tagc_select_valid(const char *list, const char **why, size_t *at) {
  const char *rest = is_empty_list(list) ? NULL : list;
  while (rest) {
    struct element element = next_element(&rest);
    *at = (size_t)(element.text - list);
    const char *wrong = check_element(element, at);
    if (wrong) {
      *why = wrong;
      return false;
    }
  }
  return true;
}

const char *tagc_select_next(const char **rest, char text[TAGC_SELECT_ELEMENT]) {
  struct element element = next_element(rest);
  snprintf(text, TAGC_SELECT_ELEMENT, "%.*s", (int)element.length, element.text);
  return text;
}

bool tagc_select_asks_kinds(const char *element) {
  struct element whole = {element, strlen(element)};
  const struct preset *preset = find_preset(whole);
  return tagc_kind_find(element, whole.length) || (preset && !preset->everything);
}

static bool is_same_word(const char *word, const char *other) {
  while (*word && (*word | 0x20) == (*other | 0x20))
    word++, other++;
  return !*word && !*other;
}

/* Words of frameworks' names have the same meaning here. */
const char *tagc_select_meant(const char *element) {
  if (element[strspn(element, letters)])
    return NULL;
  for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
    if (is_same_word(element, presets[i].name + 1))
      return presets[i].name;
  uint32_t kinds = tagc_kinds_of_name(element);
  if (!kinds)
    return NULL;
  return tagc_kind_name(kinds & TAGC_KIND_EXPERT ? TAGC_KIND_EXPERT : (enum tagc_kind)(kinds & -kinds));
}

static bool preset_names(const struct preset *preset, const struct question *q) {
  return preset->everything || (q->parameter && q->kinds & preset->kinds && !(q->against & preset->without));
}

/* True if one element names the slot, or the parameter. An invalid element names nothing. */
static bool element_names(struct element element, const struct question *q) {
  uint32_t first, last;
  if (element.length == 0 || element.length > LONGEST_ELEMENT)
    return false;
  if (tagc_is_digit(*element.text))
    return !read_range(element, &first, &last) && first <= q->unit && q->unit <= last;
  if (*element.text == '@') {
    const struct preset *preset = find_preset(element);
    return preset && preset_names(preset, q);
  }
  uint32_t kind = tagc_kind_find(element.text, element.length);
  if (kind)
    return q->parameter && q->kinds & kind;
  return tagc_glob_matches(element.text, element.length, q->name) ||
         tagc_glob_matches(element.text, element.length, q->number) ||
         (q->parameter && tagc_glob_matches(element.text, element.length, q->parameter));
}

static bool names(const char *list, struct question question) {
  const char *rest = list;
  snprintf(question.number, sizeof question.number, "unit%" PRIu32, question.unit);
  while (rest)
    if (element_names(next_element(&rest), &question))
      return true;
  return false;
}

bool tagc_select_matches(const char *list, const char *name, uint32_t unit) {
  return names(list, (struct question){.name = name, .unit = unit});
}

bool tagc_select_parameter(const char *list, const char *name, uint32_t unit, const char *parameter, uint32_t kinds) {
  return names(list,
               (struct question){.name = name, .parameter = parameter, .unit = unit, .kinds = kinds, .against = kinds});
}

/* Does the list name the member: surely, or with some of the kinds that are unsure? */
enum certainty { SURELY, PERHAPS };
static bool names_member(const char *list, uint32_t unit, const struct tagc_layer *layer, size_t member,
                         enum certainty certainty) {
  char name[TAGC_MEMBER_NAME];
  const struct tagc_parameter *p = layer->members[member].parameter;
  const uint32_t sure = p->kinds & ~p->unsure, perhaps = p->kinds | p->unsure;
  tagc_layer_member_name(layer, member, name, sizeof name);
  return names(list, (struct question){.name = layer->name,
                                       .parameter = name,
                                       .unit = unit,
                                       .kinds = certainty == SURELY ? sure : perhaps,
                                       .against = certainty == SURELY ? perhaps : sure});
}

static bool selects_member(const char *layers, const char *skip, uint32_t unit, const struct tagc_layer *layer,
                           size_t member) {
  return names_member(layers, unit, layer, member, SURELY) && !names_member(skip, unit, layer, member, PERHAPS);
}

bool tagc_select_is_unsure(const char *layers, const char *skip, uint32_t unit, const struct tagc_layer *layer,
                           size_t member) {
  return layer->members[member].parameter->unsure && !selects_member(layers, skip, unit, layer, member) &&
         names_member(layers, unit, layer, member, PERHAPS) && !names_member(skip, unit, layer, member, SURELY);
}

bool tagc_select_names(const char *list, uint32_t unit, const struct tagc_layer *layer) {
  bool is = tagc_select_matches(list, layer->name, unit);
  for (size_t i = 0; i < layer->count && !is; i++)
    is = names_member(list, unit, layer, i, PERHAPS);
  return is;
}

enum tagc_selection tagc_select_layer(const char *layers, const char *skip, uint32_t unit,
                                      const struct tagc_layer *layer, bool *is_selected) {
  if (!layer->count)
    return tagc_select_matches(layers, layer->name, unit) && !tagc_select_matches(skip, layer->name, unit)
             ? TAGC_SELECT_ALL
             : TAGC_SELECT_NONE;
  size_t selected = 0;
  for (size_t i = 0; i < layer->count; i++) {
    const bool is = selects_member(layers, skip, unit, layer, i);
    if (is_selected)
      is_selected[i] = is;
    selected += is;
  }
  return selected == layer->count ? TAGC_SELECT_ALL : selected ? TAGC_SELECT_SOME : TAGC_SELECT_NONE;
}
