/* SPDX-License-Identifier: BSD-3-Clause
 * Writing to files. Threads: any.
 */
#ifndef ENV_FILES_H
#define ENV_FILES_H

#include <stddef.h>

/* Writes all of it, however many calls that takes. The errno of what went wrong, else 0. */
int tagc_write_all(int file, const char *data, size_t size);

#endif
