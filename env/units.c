/* SPDX-License-Identifier: BSD-3-Clause */
#include "env/units.h"

#include <stdio.h>

const char *tagc_units_bytes(uint64_t bytes, char text[16])
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = (double)bytes;
  size_t unit = 0;
  for (; value >= 1024 && unit < 5; unit++)
    value /= 1024;
  snprintf(text, 16, unit && value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}
