/* SPDX-License-Identifier: BSD-3-Clause
 * Selections of slots: what is well formed, what is not and why, and what they name.
 */
#include <string.h>

#include "layermap/select.h"
#include "tests/unit/tap.h"

static void accepts(const char *list)
{
  const char *why = "";
  size_t at = 0;
  ok(tagc_select_valid(list, &why, &at), "\"%s\" is well formed %s", list, why);
}

static void refuses(const char *list, const char *reason, size_t where)
{
  const char *why = "";
  size_t at = 0;
  bool valid = tagc_select_valid(list, &why, &at);
  ok(!valid && !strcmp(why, reason) && at == where, "\"%.40s\" is refused: %s, at %zu", list, why, at);
}

static void names(const char *list, uint32_t unit, bool expected)
{
  char name[16];
  snprintf(name, sizeof name, "unit%u", unit);
  ok(tagc_select_matches(list, name, unit) == expected, "\"%s\" %s %s", list, expected ? "names" : "does not name",
     name);
}

int main(void)
{
  static const char *const good[] = {"", "  ", "*", "unit3", "unit1*,unit7", " 0-3 , 7\t,unit[0-9]", "4294967295",
                                     "5-5", "unit[]]", "unit[!]x]", "\\[", "unit[a\\]b]", "-3", "a b"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    accepts(good[i]);

  refuses(",", "an element is empty", 0);
  refuses("unit1,", "an element is empty", 6);
  refuses("unit1, ,unit2", "an element is empty", 7);
  refuses("0-3,9-7", "a range runs backwards", 4);
  refuses(" 3x", "not a number", 1);
  refuses("3-", "not a number", 0);
  refuses("3-4-5", "not a number", 0);
  refuses("3 - 5", "not a number", 0);
  refuses("4294967296", "a number is too large", 0);
  refuses("1,0-99999999999999999999", "a number is too large", 2);
  refuses("*,unit[0-9", "unbalanced [", 2);
  refuses("unit[]", "unbalanced [", 0);
  refuses("unit[a,b]", "unbalanced [", 0);
  refuses("unit1,x\\", "a backslash quotes nothing", 6);
  char longest[300];
  memset(longest, 'u', sizeof longest);
  longest[255] = '\0';
  accepts(longest);
  longest[255] = 'u';
  longest[256] = '\0';
  refuses(longest, "an element is too long", 0);

  names("", 0, false);
  names("  ", 0, false);
  names("*", 12, true);
  names("unit1*", 1, true);
  names("unit1*", 12, true);
  names("unit1*", 21, false);
  names("unit1", 12, false);
  names("unit[1-3]", 2, true);
  names("unit[1-3]", 4, false);
  names("7", 7, true);
  names("7", 77, false);
  names("0-3", 0, true);
  names("0-3", 3, true);
  names("0-3", 4, false);
  names("embed, 0-3 ,unit1?,\t99", 99, true);
  names("embed, 0-3 ,unit1?,\t99", 13, true);
  names("embed, 0-3 ,unit1?,\t99", 4, false);
  return tap_done();
}
