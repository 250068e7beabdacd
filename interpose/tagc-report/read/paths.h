/* SPDX-License-Identifier: BSD-3-Clause
 * The traces that a word of the command line means. Threads: one at a time.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_PATHS_H
#define INTERPOSE_TAGC_REPORT_READ_PATHS_H

#include <stdbool.h>
#include <stddef.h>

/* All zeros: empty. */
struct tagc_paths {
  char **paths;
  size_t count;
};

/* Adds the traces of a word: those in a folder (*.trace), with a prefix (PREFIX-*.trace), or a file; whether a file is
 * there, its reader finds out. NULL, or why there are none. */
const char *tagc_paths_add(struct tagc_paths *paths, const char *word);
void tagc_paths_free(struct tagc_paths *paths);

#endif
