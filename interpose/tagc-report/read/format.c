/* SPDX-License-Identifier: BSD-3-Clause
 * See format.h.
 */
#include "interpose/tagc-report/read/format.h"

#include <math.h>
#include <string.h>

/* How much of the text fits into so many columns: up to the last space, or a word that is too long. */
static size_t line_of(const char *text, size_t columns)
{
  size_t fits = 0;
  for (size_t i = 0; ; i++) {
    if (text[i] == ' ' || text[i] == '\0') {
      if (i > columns && fits)
        return fits;
      fits = i;
    }
    if (text[i] == '\0' || (i >= columns && fits))
      return fits;
  }
}

void tagc_words_print(FILE *to, int indent, const char *text)
{
  while (*text) {
    const size_t length = line_of(text, (size_t)(TAGC_WORDS_COLUMNS - indent));
    fprintf(to, "%*s%.*s\n", indent, "", (int)length, text);
    text += length;
    text += strspn(text, " ");
  }
}

void tagc_words_tame(char *text, char keep)
{
  for (unsigned char *c = (unsigned char *)text; *c; c++)
    if ((*c < 0x20 && *c != (unsigned char)keep) || *c == 0x7f ||
        (*c >= 0x80 && *c < 0xa0 && c > (unsigned char *)text && c[-1] == 0xc2))
      *c = '?';
}

const char *tagc_words_bytes(double bytes, char text[16])
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  if (isnan(bytes))
    return strcpy(text, "-");
  for (; bytes >= 1024 && unit < 5; unit++)
    bytes /= 1024;
  snprintf(text, 16, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
  return text;
}

const char *tagc_words_count(double count, char text[32])
{
  char digits[24];
  const int length = snprintf(digits, sizeof digits, "%.0f", fmin(fmax(count, 0), 1e18));
  char *to = text;
  for (int i = 0; i < length; i++) {
    if (i && (length - i) % 3 == 0)
      *to++ = ',';
    *to++ = digits[i];
  }
  *to = '\0';
  return text;
}
