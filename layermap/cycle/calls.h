/* SPDX-License-Identifier: BSD-3-Clause
 * Files of calls: the sequence of collectives that a program made on its communicators, as text. TAGC_CALLS writes
 * them; tagc-map and the tests read them. The format is in man/tagc-map.5:
 *
 *   tagc-calls 1
 *   # a comment, such as the origin of the file
 *   communicator 0 ranks 8 rank 3            whose calls follow; later, "communicator 0" returns to it
 *   all-gather 1771776 bfloat16
 *   reduce-scatter 1771776 float32 avg x12   the same call twelve times
 */
#ifndef LAYERMAP_CYCLE_CALLS_H
#define LAYERMAP_CYCLE_CALLS_H

#include <stdio.h>

#include "layermap/cycle/cycle.h"
#include "layermap/model/complaint.h"

#define TAGC_CALLS_VERSION "tagc-calls 1"

/* Bounds of a file, its lists and ranks, so that repetitions in a file cannot exhaust memory. */
enum { TAGC_CALLS_BYTES = 64 << 20, TAGC_CALLS_LISTS = 1024, TAGC_CALLS_RANKS = 1 << 20 };
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { TAGC_CALLS = 4096 }; /* so that short inputs pass it */
#else
enum { TAGC_CALLS = 1 << 20 };
#endif

/* The calls of one communicator in their order. */
struct tagc_call_list {
  uint64_t communicator; /* its number in the process */
  int rank, nranks;
  struct tagc_signature *calls; /* dtype: ncclDataType_t; op: enum tagc_op of the library */
  size_t count;
};

struct tagc_call_file {
  struct tagc_call_list *lists; /* one a communicator, in order of first appearance */
  size_t count;
};

/* NULL: see *complaint. tagc_calls_free() allows NULL. */
struct tagc_call_file *tagc_calls_parse(const char *text, size_t bytes, struct tagc_complaint *complaint);
struct tagc_call_file *tagc_calls_read(const char *path, struct tagc_complaint *complaint);
void tagc_calls_free(struct tagc_call_file *file);

/* One line of such a file, without newline or repetition; 64 bytes suffice. Returns `text`. */
const char *tagc_calls_line(const struct tagc_signature *call, char *text, size_t size);
/* The line that names the communicator of the following calls. */
const char *tagc_calls_communicator_line(const struct tagc_call_list *list, char *text, size_t size);

#endif
