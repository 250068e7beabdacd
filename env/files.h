/* SPDX-License-Identifier: BSD-3-Clause
 * Files that are written where the user names a prefix: new ones, of the user's own. Threads: any.
 */
#ifndef ENV_FILES_H
#define ENV_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* PREFIX-HOST-pid1234, and what `rest` says (with what ends a name). False, and errno, where it is longer than
 * `size`. */
__attribute__((format(printf, 4, 5))) bool tagc_file_name(char *path, size_t size, const char *prefix, const char *rest,
                                                          ...);

/* A new file; one that is there is not touched, and no link is followed. -1, and errno, where there is none. */
int tagc_file_create(const char *path);

/* A file that stays open while the program runs, which may close any number: its next file would get this one. So the
 * number is a high one, where a program has few files, and before each use it is asked whether it still is this file's.
 * Lives zeroed but for `file` = -1 while there is none. */
struct tagc_kept_file {
  int file; /* -1: there is none */
  dev_t device;
  ino_t inode;
};

/* As tagc_file_create(); the errno of what went wrong, else 0. */
int tagc_file_keep(struct tagc_kept_file *kept, const char *path);
/* 0: it is there. EBADF: its number is closed, or another file's, and not to be touched. ENOENT: somebody has removed
 * the file. */
int tagc_file_look(const struct tagc_kept_file *kept);
/* Closes the number where it still is this file's. */
void tagc_file_drop(struct tagc_kept_file *kept);
/* Words for what went wrong with it. */
const char *tagc_file_words(int error);

/* Writes all of it, however many calls that takes. The errno of what went wrong, else 0. */
int tagc_write_all(int file, const char *data, size_t size);

#endif
