/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "env/numbers.h"

const char *tagc_units_bytes(uint64_t bytes, char text[16]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = (double)bytes;
  size_t unit = 0;
  for (; value >= 1024 && unit < 5; unit++)
    value /= 1024;
  const struct tagc_numbers numbers = tagc_numbers_begin();
  snprintf(text, 16, unit && value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  tagc_numbers_end(&numbers);
  return text;
}

const char *tagc_units_count(uint64_t number, char text[32]) {
  char digits[24], *to = text;
  const int length = snprintf(digits, sizeof digits, "%" PRIu64, number);
  for (int i = 0; i < length; i++) {
    if (i && (length - i) % 3 == 0)
      *to++ = ',';
    *to++ = digits[i];
  }
  *to = '\0';
  return text;
}

bool tagc_units_read(const char *text, bool units, uint64_t *number, const char **end) {
  static const char letters[] = "kmg";
  char *behind;
  errno = 0;
  if (!isdigit((unsigned char)*text))
    return false;
  const unsigned long long n = strtoull(text, &behind, 10);
  const char *letter = units && *behind ? strchr(letters, tolower((unsigned char)*behind)) : NULL;
  const int shift = letter ? 10 * (int)(letter - letters + 1) : 0;
  *number = (uint64_t)n << shift;
  *end = behind + (letter != NULL);
  return !errno && n <= UINT64_MAX >> shift;
}
