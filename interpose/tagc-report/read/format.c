/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/read/format.h"

#include <math.h>
#include <string.h>

#include "env/program/terminal.h"
#include "env/units.h"

void tagc_format_print(FILE *to, size_t indent, const char *text) {
  tagc_put_wrapped(to, text, 0, indent, TAGC_WORDS_COLUMNS);
  fputs(*text ? "\n" : "", to);
}

const char *tagc_format_bytes(double bytes, char text[16]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  if (isnan(bytes))
    return strcpy(text, "-");
  for (; bytes >= 1024 && unit < 5; unit++)
    bytes /= 1024;
  snprintf(text, 16, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
  return text;
}

const char *tagc_format_count(double count, char text[32]) {
  return tagc_units_count((uint64_t)rint(fmin(fmax(count, 0), 1e18)), text);
}
