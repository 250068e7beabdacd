/* SPDX-License-Identifier: BSD-3-Clause
 * Globs over the names of layers and parameters, which are parts separated by points: "block.3.mlp.up.weight".
 *
 *   *         any text, also points                ?         any character
 *   [a-z]     one of these, [!a-z] or [^a-z] none  \*        a backslash makes the next character literal
 *   0-3       as a whole part: a number from 0 to 3, or a range inside that ("1-2", as the name of several blocks)
 *
 * A glob matches a name and everything inside it: "block.3" also "block.3.mlp". Case-sensitive; independent of locale
 * and environment. Pure, any thread, no allocation; takes at most glob x name steps.
 */
#ifndef LAYERMAP_MODEL_GLOB_H
#define LAYERMAP_MODEL_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The error of a glob of `length` bytes, as a constant string, or NULL. */
const char *tagc_glob_check(const char *glob, size_t length);

/* True if the glob matches `name`, or a layer that contains it. An invalid glob matches nothing. */
bool tagc_glob_matches(const char *glob, size_t length, const char *name);

static inline bool tagc_is_digit(char c) { return c >= '0' && c <= '9'; }

/* Reads digits. False: none (leaves *at alone), or the number is too large. */
bool tagc_glob_number(const char **at, const char *end, uint32_t *number);

#endif
