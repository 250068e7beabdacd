/* SPDX-License-Identifier: BSD-3-Clause
 * Quantities as people write them. Threads: any.
 */
#ifndef ENV_UNITS_H
#define ENV_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes as "1.2 MiB", at most 8 characters. Returns `text`. */
const char *tagc_units_bytes(uint64_t bytes, char text[16]);

/* "124,439,808"; returns `text`. */
const char *tagc_units_count(uint64_t number, char text[32]);

/* Decimal digits, then (with `units`) an optional K, M or G for 2^10, 2^20 or 2^30, in either case. No sign, no space.
 * *end points behind them. False: no number, or one too large. */
bool tagc_units_read(const char *text, bool units, uint64_t *number, const char **end);

#endif
