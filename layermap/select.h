/* SPDX-License-Identifier: BSD-3-Clause
 * Which slots the user wants compressed: TAGC_LAYERS and TAGC_SKIP.
 *
 * A selection is a comma-separated list; an element is a shell glob over slot names ("unit3", "unit1*", "*"), an index
 * "7", or an inclusive index range "0-3"; what starts with a digit is one of the latter two. Spaces around elements are
 * ignored. Pure functions of their arguments (and of the locale, as fnmatch is), any thread, no allocation.
 */
#ifndef LAYERMAP_SELECT_H
#define LAYERMAP_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is `list` well formed? If not, *why is set to a constant string that says what was expected, and *at to the offset of
 * the offending element. An empty list is well formed and names nothing. */
bool tagc_select_valid(const char *list, const char **why, size_t *at);

/* Does the (valid) list name the slot? */
bool tagc_select_matches(const char *list, const char *name, uint32_t unit);

#endif
