/* SPDX-License-Identifier: BSD-3-Clause
 * An output file of a program: whole, or as it was. It is written beside its name and gets that at the end, so that
 * neither a full disk nor a mistake costs the old file. What cannot be done so is written in place: a device, a file
 * with several names, or in a folder where this user may make none. Then an error leaves a part of it. Threads: one.
 */
#ifndef ENV_PROGRAM_OUTPUT_H
#define ENV_PROGRAM_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct tagc_output {
  FILE *to;
  const char *path;
  char *beside, *target; /* where it is until the end, NULL: in place; and where it belongs: behind links */
};

/* Opens it. False with errno set: it cannot be written. */
bool tagc_output_open(struct tagc_output *output, const char *path);
/* Puts it where it belongs; not `whole`: drops it. Returns 0 or the errno. */
int tagc_output_close(struct tagc_output *output, bool whole);

/* Returns 0, or the errno of the last write. An earlier one may have failed (EIO), and the rest gone through. */
int tagc_output_flush(FILE *to);

/* Do these names mean the same file? It may not be there yet. Devices are no files: they can take several outputs. */
bool tagc_output_is(const char *path, const char *other);

#endif
