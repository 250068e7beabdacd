/* SPDX-License-Identifier: BSD-3-Clause
 * Files of calls: the sequence of collectives that a program made on its communicators, as text; TAGC_CALLS writes them, tagc-map
 * reads them, and so do the tests. The format is in man/tagc-map.5.
 */
#ifndef LAYERMAP_CALLS_H
#define LAYERMAP_CALLS_H

#include <stdio.h>

#include "layermap/complaint.h"
#include "layermap/cycle.h"

/* The calls of one communicator in their order. */
struct tagc_call_list {
  uint64_t communicator;            /* its number in the process */
  int rank, nranks;
  struct tagc_signature *calls;     /* dtype: ncclDataType_t; op: enum tagc_op of the library */
  size_t count;
};

struct tagc_call_file {
  struct tagc_call_list *lists;     /* one a communicator */
  size_t count;
};

/* NULL: *complaint says why. tagc_calls_free() allows NULL. */
struct tagc_call_file *tagc_calls_parse(const char *text, size_t bytes, struct tagc_complaint *complaint);
struct tagc_call_file *tagc_calls_read(const char *path, struct tagc_complaint *complaint);
void tagc_calls_free(struct tagc_call_file *file);

/* One line of such a file. Returns `text`. */
const char *tagc_calls_line(const struct tagc_signature *call, char *text, size_t size);

#endif
