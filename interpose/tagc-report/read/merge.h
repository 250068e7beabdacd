/* SPDX-License-Identifier: BSD-3-Clause
 * How traces become a summary: each file by itself (load.c), then all of them together (merge.c). For
 * summary.c.
 */
#ifndef INTERPOSE_TAGC_REPORT_READ_MERGE_H
#define INTERPOSE_TAGC_REPORT_READ_MERGE_H

#include <stdlib.h>
#include <string.h>

#include "interpose/tagc-report/read/placement.h"
#include "interpose/tagc-report/read/summary.h"

/* What one file holds. Its communicators are as in a summary, with one member each, which is of rank 0; `rank` has no
 * number yet. */
struct tagc_part {
  struct tagc_sum_rank rank;
  struct tagc_sum_comm *comms; /* in the order in which they were seen */
  size_t comm_count, main;     /* main: index; SIZE_MAX: none */
  uint64_t steps_whole;
  int64_t realtime_ns; /* of the PROCESS record, which with pid and host tells processes apart; 0: it is lost */
  uint64_t host;       /* equal for processes on one host; 0: not known */
  uint64_t absurd;     /* records with numbers that cannot be */
  uint64_t backwards;  /* cycles that do not follow those before */
};

/* Reads a file to its end. `names` gets what is named there; codes in `part` are those of `names`. False without
 * memory. */
bool tagc_part_load(struct tagc_part *part, struct tagc_trace_file *file, struct tagc_sum_names *names,
                    const struct tagc_placement *placement);
void tagc_part_free(struct tagc_part *part);

/* Puts the parts into the summary, which takes what they own. False without memory. */
bool tagc_parts_merge(struct tagc_summary *summary, struct tagc_part *parts, size_t count);

/* Leaves out copies of traces, and those of other jobs. False without memory. (merge_jobs.c) */
bool tagc_parts_of_one_job(struct tagc_summary *summary, struct tagc_part *parts, size_t *count);

/* Slots, all-gathers and votes of both, sorted; `from` loses its own. What the first one knows stands; calls and
 * samples come together. False without memory. (merge_slots.c) */
bool tagc_slots_add(struct tagc_sum_comm *to, struct tagc_sum_comm *from);
/* All ranks have come together: means of samples, and what all-gathers learn of their slots. Slots of locks that
 * nothing was called in are not told. False without memory. */
bool tagc_slots_settle(struct tagc_sum_comm *comm);

/* A sentence among the problems. */
bool tagc_sum_complain(struct tagc_summary *summary, const char *format, ...) __attribute__((format(printf, 2, 3)));

void tagc_sum_slot_free(struct tagc_sum_slot *slot);
void tagc_sum_comm_free(struct tagc_sum_comm *comm);
void tagc_sum_rank_free(struct tagc_sum_rank *rank);

/* Sums stay at their end. */
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
_Static_assert(sizeof(struct tagc_sum_calls) == 16 * sizeof(uint64_t), "only numbers that can be added");

/* Room for one more element of an array that doubles as it grows. False without memory. */
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
