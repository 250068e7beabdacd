/* SPDX-License-Identifier: BSD-3-Clause
 * Output files under a prefix that the user names. All are new, and readable by the user alone, but for those of
 * tagc_file_replace(). Threads: any.
 */
#ifndef ENV_FILES_H
#define ENV_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* PREFIX-HOST-pid1234 followed by `rest`, which ends the name. False with errno set: longer than `size`. */
__attribute__((format(printf, 4, 5))) bool tagc_file_name(char *path, size_t size, const char *prefix, const char *rest,
                                                          ...);

/* Creates a new file. Leaves an existing file alone and follows no link. -1 with errno set: not created. */
int tagc_file_create(const char *path);

/* Puts these contents where `path` is, whole: a new file beside it takes its name (rename(2)), so that readers see the
 * old contents or the new ones. Others may read it, as far as the user's umask allows: collectors of metrics are other
 * users. A link there is replaced, not followed. Returns 0 or the errno; then nothing has changed. */
int tagc_file_replace(const char *path, const char *data, size_t size);

/* A file that stays open while the program runs. The program may close any number, and its next file would get ours. We
 * therefore use a high number (where few programs have files) and check before each use that it is still our file.
 * Zeroed but for `file` = -1 while none is open. */
struct tagc_kept_file {
  int file; /* -1: none */
  dev_t device;
  ino_t inode;
};

/* As tagc_file_create(). Returns 0 or the errno. */
int tagc_file_keep(struct tagc_kept_file *kept, const char *path);
/* 0: still ours. EBADF: the number is closed, or another file's: do not touch it. ENOENT: the file was removed. */
int tagc_file_look(const struct tagc_kept_file *kept);
/* Closes the number if it is still this file's. */
void tagc_file_drop(struct tagc_kept_file *kept);
/* Describes an error of such a file. */
const char *tagc_file_words(int error);

/* Writes everything, in as many calls as it takes. Returns 0 or the errno. */
int tagc_write_all(int file, const char *data, size_t size);

#endif
