/* SPDX-License-Identifier: BSD-3-Clause
 * Quantities in words for people. Any thread; no failure.
 */
#ifndef ENV_UNITS_H
#define ENV_UNITS_H

#include <stdint.h>

/* Bytes as "1.2 MiB", at most 8 characters. Returns `text`. */
const char *tagc_units_bytes(uint64_t bytes, char text[16]);

#endif
