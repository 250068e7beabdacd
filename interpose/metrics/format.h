/* SPDX-License-Identifier: BSD-3-Clause
 * The formats of figures: the text that Prometheus reads, and a line of JSON.
 *
 * Numbers   As with the locale "C": the caller's thread has it (the program may write decimal commas).
 * Texts     Any bytes: '?' replaces those that are not UTF-8, for a reader would refuse the whole file.
 * Memory    Grows as needed. Without memory `failed` is set, and the text is worth nothing.
 * Threads   One at a time.
 */
#ifndef INTERPOSE_METRICS_FORMAT_H
#define INTERPOSE_METRICS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

enum tagc_metrics_format { TAGC_METRICS_PROMETHEUS, TAGC_METRICS_JSON };

/* Zeroed but for the format. */
struct tagc_metrics_text {
  enum tagc_metrics_format format;
  bool failed;
  bool open; /* a family has samples */
  char *at;  /* free() it */
  size_t used, room;
};

enum tagc_metrics_type { TAGC_METRICS_GAUGE, TAGC_METRICS_COUNTER, TAGC_METRICS_SUMMARY };

struct tagc_metrics_family {
  const char *name; /* without tagc_ */
  const char *help;
  enum tagc_metrics_type type;
};

struct tagc_metrics_label {
  const char *name;
  char value[256]; /* longer ones are cut */
};

enum { TAGC_METRICS_LABELS = 12 };

/* A value under its labels; of a summary its sum and its count. */
struct tagc_metrics_sample {
  struct tagc_metrics_label labels[TAGC_METRICS_LABELS];
  size_t label_count;
  double value, count;
};

/* Begin a text, and end it. The two labels are those of every sample: in JSON they are said once. */
void tagc_metrics_begin(struct tagc_metrics_text *text, double now, const char *run, int rank);
void tagc_metrics_end(struct tagc_metrics_text *text);
/* A sample; the samples of a family follow one another. NaN is left out. `first` two labels are run and rank. */
void tagc_metrics_add(struct tagc_metrics_text *text, const struct tagc_metrics_family *family,
                      const struct tagc_metrics_sample *sample);
/* The family has no more. */
void tagc_metrics_close(struct tagc_metrics_text *text);

#endif
