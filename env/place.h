/* SPDX-License-Identifier: BSD-3-Clause
 * Finds libtagc-preload.so for a program that came with it. Threads: any.
 */
#ifndef ENV_PLACE_H
#define ENV_PLACE_H

#include <limits.h>
#include <stdbool.h>

/* The folder of the running program, without a trailing slash; "" if the system does not tell. */
void tagc_place_self(char self[PATH_MAX]);

/* The absolute path of the library, links resolved. Searched in order: beside the program (a build folder), at the
 * installed relative place (`bindir` and `libdir`: the installation may have been moved), ../lib, libdir itself. False:
 * not found. *how says in words where it was. */
bool tagc_place_library(const char *self, const char *bindir, const char *libdir, char library[PATH_MAX],
                        const char **how);

#endif
