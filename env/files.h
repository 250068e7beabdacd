/* SPDX-License-Identifier: BSD-3-Clause
 * Files that are written where the user names a prefix: new ones, of the user's own. Threads: any.
 */
#ifndef ENV_FILES_H
#define ENV_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* PREFIX-HOST-pid1234, and what `rest` says (with what ends a name). False, and errno, where it is longer than `size`. */
__attribute__((format(printf, 4, 5))) bool tagc_file_name(char *path, size_t size, const char *prefix, const char *rest, ...);

/* A new file; one that is there is not touched, and no link is followed. -1, and errno, where there is none. */
int tagc_file_create(const char *path);

/* Writes all of it, however many calls that takes. The errno of what went wrong, else 0. */
int tagc_write_all(int file, const char *data, size_t size);

#endif
