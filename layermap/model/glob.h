/* SPDX-License-Identifier: BSD-3-Clause
 * Globs over the names of layers and parameters, which are parts with points between: "block.3.mlp.up.weight".
 *
 *   *         any text, points as well             ?         any character
 *   [a-z]     one of these, [!a-z] or [^a-z] none  \*        a backslash takes the next character's meaning away
 *   0-3       as a whole part: a number from 0 to 3, or a range inside that ("1-2", as the name of several blocks)
 *
 * A glob names a name with all that is inside: "block.3" also "block.3.mlp". Case matters; neither the locale nor the
 * environment does. Pure, any thread, no allocation; takes at most glob x name steps.
 */
#ifndef LAYERMAP_MODEL_GLOB_H
#define LAYERMAP_MODEL_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is wrong with the glob of `length` bytes, as a constant string, or NULL. */
const char *tagc_glob_check(const char *glob, size_t length);

/* Does the glob (one that is wrong names nothing) name `name`, or what it is inside of? */
bool tagc_glob_matches(const char *glob, size_t length, const char *name);

static inline bool tagc_is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads digits. False where there are none, which leaves *at as it was, or where the number is too large. */
bool tagc_glob_number(const char **at, const char *end, uint32_t *number);

#endif
