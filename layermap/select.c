/* SPDX-License-Identifier: BSD-3-Clause
 * TAGC_LAYERS and TAGC_SKIP; see select.h. A list is walked element by element; what starts with a digit is an index or
 * a range, everything else a glob.
 */
#include "layermap/select.h"

#include <fnmatch.h>
#include <string.h>

enum { LONGEST_ELEMENT = 255 };

struct element {
  const char *text;        /* not terminated */
  size_t length;
};

static bool is_space(char c)
{
  return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

/* The element at *rest, without the spaces around it; *rest moves on to the next one, or becomes NULL. */
static struct element next_element(const char **rest)
{
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

static bool is_blank(const char *list)
{
  return list[strspn(list, " \t")] == '\0';
}

/* Reads a number from *at; NULL, or what is wrong. *at moves behind it. */
static const char *read_number(const char **at, const char *end, uint32_t *number)
{
  uint64_t value = 0;
  const char *digit = *at;
  for (; digit < end && is_digit(*digit); digit++) {
    value = value * 10 + (uint64_t)(*digit - '0');
    if (value > UINT32_MAX)
      return "a number is too large";
  }
  if (digit == *at)
    return "not a number";
  *at = digit;
  *number = (uint32_t)value;
  return NULL;
}

/* Reads "7" or "0-3"; NULL, or what is wrong. */
static const char *read_range(struct element element, uint32_t *first, uint32_t *last)
{
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

/* Where the bracket expression that begins at `at` ends, or `end` if it does not. */
static const char *skip_bracket(const char *at, const char *end)
{
  at++;
  if (at < end && (*at == '!' || *at == '^'))
    at++;
  for (const char *first = at; at < end && (*at != ']' || at == first); at++)
    if (*at == '\\' && at + 1 < end)
      at++;
  return at;
}

/* What is wrong with a glob, or NULL. */
static const char *check_glob(struct element element)
{
  const char *end = element.text + element.length;
  if (element.length > LONGEST_ELEMENT)
    return "an element is too long";
  for (const char *at = element.text; at < end; at++) {
    const char *begin = at;
    if (*begin == '\\' && ++at == end)
      return "a backslash quotes nothing";
    if (*begin == '[' && (at = skip_bracket(begin, end)) == end)
      return "unbalanced [";
  }
  return NULL;
}

bool tagc_select_valid(const char *list, const char **why, size_t *at)
{
  const char *rest = is_blank(list) ? NULL : list;
  while (rest) {
    struct element element = next_element(&rest);
    uint32_t first, last;
    const char *wrong;
    if (element.length == 0)
      wrong = "an element is empty";
    else if (is_digit(*element.text))
      wrong = read_range(element, &first, &last);
    else
      wrong = check_glob(element);
    if (wrong) {
      *why = wrong;
      *at = (size_t)(element.text - list);
      return false;
    }
  }
  return true;
}

/* Does one element name the slot? An element that is not valid names nothing. */
static bool element_matches(struct element element, const char *name, uint32_t unit)
{
  uint32_t first, last;
  char glob[LONGEST_ELEMENT + 1];
  if (element.length == 0 || element.length > LONGEST_ELEMENT)
    return false;
  if (is_digit(*element.text))
    return !read_range(element, &first, &last) && first <= unit && unit <= last;
  memcpy(glob, element.text, element.length);
  glob[element.length] = '\0';
  return fnmatch(glob, name, 0) == 0;
}

bool tagc_select_matches(const char *list, const char *name, uint32_t unit)
{
  const char *rest = list;
  while (rest)
    if (element_matches(next_element(&rest), name, unit))
      return true;
  return false;
}
