/* SPDX-License-Identifier: BSD-3-Clause
 * Where libtagc-preload.so is, seen from a program that came with it. Threads: any.
 */
#ifndef ENV_PLACE_H
#define ENV_PLACE_H

#include <limits.h>
#include <stdbool.h>

/* The folder of the running program, without a slash at its end; "" where the system does not tell. */
void tagc_place_self(char self[PATH_MAX]);

/* The absolute path of the library, without links: beside the program (a build folder), as it lies to the program where
 * both were installed (`bindir` and `libdir`: the installation may have been moved), in ../lib, or in libdir itself.
 * False where it is in none of these. *how says in words where it was. */
bool tagc_place_library(const char *self, const char *bindir, const char *libdir, char library[PATH_MAX],
                        const char **how);

#endif
