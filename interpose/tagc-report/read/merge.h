/* SPDX-License-Identifier: BSD-3-Clause
 * Makes a summary of traces: each file by itself (load.c), then all together (merge.c). For summary.c.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_MERGE_H
#define INTERPOSE_TAGC_REPORT_READ_MERGE_H

#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/read/placement.h"
#include "interpose/tagc-report/read/summary.h"

/* The contents of one file. As in a summary, but communicators have one member, of rank 0, and `rank` has no number. */
struct tagc_part {
  struct tagc_sum_rank rank;
  struct tagc_sum_comm *comms; /* in order of first appearance */
  size_t comm_count, main;     /* main: index; SIZE_MAX: none */
  uint64_t steps_whole;
  int64_t realtime_ns; /* of the PROCESS record: identifies processes together with pid and host; 0: lost */
  uint64_t host;       /* equal for processes on one host; 0: unknown */
  uint64_t absurd;     /* records with impossible numbers */
  uint64_t backwards;  /* cycles out of order */
};

/* Reads a file to its end. `names` gets its names, and `part` uses the codes of `names`. False: no memory. */
bool tagc_part_load(struct tagc_part *part, struct tagc_trace_file *file, struct tagc_sum_names *names,
                    const struct tagc_placement *placement);
void tagc_part_free(struct tagc_part *part);

/* Merges the parts into the summary, which takes ownership of their contents. False: no memory. */
bool tagc_parts_merge(struct tagc_summary *summary, struct tagc_part *parts, size_t count);

/* Drops copies of traces, and traces of other jobs. False: no memory. (merge_jobs.c) */
bool tagc_parts_of_one_job(struct tagc_summary *summary, struct tagc_part *parts, size_t *count);

/* Merges slots, all-gathers and votes, sorted; `from` loses its own. Facts of the first one stay; calls and samples are
 * combined. False: no memory. (merge_slots.c) */
bool tagc_slots_add(struct tagc_sum_comm *to, struct tagc_sum_comm *from);
/* After all ranks are merged: averages samples, completes all-gathers from their slots, drops the slots of locks that
 * have no calls. False: no memory. */
bool tagc_slots_settle(struct tagc_sum_comm *comm);

/* Adds a sentence to the problems. */
bool tagc_sum_complain(struct tagc_summary *summary, const char *format, ...) __attribute__((format(printf, 2, 3)));

void tagc_sum_slot_free(struct tagc_sum_slot *slot);
void tagc_sum_comm_free(struct tagc_sum_comm *comm);
void tagc_sum_rank_free(struct tagc_sum_rank *rank);

/* Saturates at UINT64_MAX. */
static inline void tagc_sum_add(uint64_t *sum, uint64_t more) {
  *sum = *sum > UINT64_MAX - more ? UINT64_MAX : *sum + more;
}

static inline void tagc_sum_add_calls(struct tagc_sum_calls *sum, const struct tagc_sum_calls *more) {
  uint64_t words[sizeof *more / sizeof(uint64_t)], sums[sizeof *more / sizeof(uint64_t)];
  memcpy(words, more, sizeof words);
  memcpy(sums, sum, sizeof sums);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    tagc_sum_add(&sums[i], words[i]);
  memcpy(sum, sums, sizeof sums);
}
_Static_assert(sizeof(struct tagc_sum_calls) == 18 * sizeof(uint64_t), "only numbers that can be added");

void tagc_sum_add_group_times(struct tagc_group_times *to, const struct tagc_group_times *from);
/* Adds groups of messages to those alike. False: no memory. */
bool tagc_sum_add_group(struct tagc_sum_comm *to, const struct tagc_sum_group *group);

/* Makes room for one more element of an array that doubles as it grows. False: no memory. */
#define TAGC_SUM_ROOM(array, count) \
  __extension__({ \
    void *grown_ = tagc_sum_grown(array, count, sizeof *(array)); \
    (array) = grown_ ? grown_ : (array); \
    grown_ != NULL; \
  })

static inline void *tagc_sum_grown(void *array, size_t count, size_t size) {
  if (array && (count < 8 || (count & (count - 1)) != 0))
    return array;
  return realloc(array, (count < 8 ? 8 : 2 * count) * size);
}

#endif
