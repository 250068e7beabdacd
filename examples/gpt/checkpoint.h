/* SPDX-License-Identifier: BSD-3-Clause
 * Checkpoints: what a rank needs to go on with a training that was ended at any moment. A training in pieces gives the
 * bits of one in one piece.
 *
 * Every rank has two files, PATH.RANK.0 and PATH.RANK.1, which take turns. A rank overwrites the older one only after
 * all ranks have written the newer one, so that there is always a step of which every rank has a file. Files are of
 * this machine: numbers lie in them as they do in memory. Errors end the process with a line that names the file.
 */
#ifndef EXAMPLES_GPT_CHECKPOINT_H
#define EXAMPLES_GPT_CHECKPOINT_H

#include <stddef.h>

#include "examples/gpt/options.h"
#include "examples/gpt/parallel.h"

struct checkpoint_part {
  void *memory;
  size_t bytes;
};

struct checkpoint {
  const struct options *options; /* --checkpoint is the path */
  struct parallel *parallel;
  size_t tokens; /* of the text */
  size_t nparts; /* all parts together are the state. They stay the caller's */
  const struct checkpoint_part *parts;
};

/* Writes the state after `done` steps. All ranks call it after the same step; it returns when all have written. */
void checkpoint_write(const struct checkpoint *c, size_t done);

/* Reads the newest state that all ranks have. Returns the steps that are done in it; 0, with the parts as they were,
 * where some rank has no file: then those of the others are removed. A file of other options, of another number of
 * ranks, or of a text of another length is an error. All ranks call it. */
size_t checkpoint_read(const struct checkpoint *c);

#endif
