/* SPDX-License-Identifier: BSD-3-Clause
 * tagc-report --live: the present state of a job from traces that grow, and a screen of it.
 *
 * Of each process: the last steps, sums since its start, its slots with the last losses, and the comparison of sides.
 * Unlike a summary (read/summary.h) it keeps no calls, so it can follow a job for weeks. Steps are the cycles of the
 * communicator with gradients, or else with most bytes. Processes of other jobs (an older run in the same folder) are
 * left out: a job's ranks share the identity of that communicator.
 * Threads   One at a time.
 */
#ifndef INTERPOSE_TAGC_REPORT_LIVE_LIVE_H
#define INTERPOSE_TAGC_REPORT_LIVE_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "interpose/ab/windows.h"
#include "interpose/tagc-report/live/follow.h"
#include "interpose/tagc-report/read/paths.h"

enum { TAGC_LIVE_RECENT = 32, TAGC_LIVE_NAME = 80, TAGC_LIVE_REASONS = 256 };
/* A process that was killed writes no end. Ones that wait for a checkpoint or a compiler write nothing for minutes. */
enum { TAGC_LIVE_GONE_SECONDS = 15 * 60 };

/* Sums over the calls of a process. */
struct tagc_live_sums {
  uint64_t calls, host_ns, wire_ns; /* wire: as far as it is known */
  double sent, plain;               /* bytes: all, and of these to other hosts */
  double sent_between, plain_between;
};

/* The slots and the all-gathers of a lock. */
struct tagc_live_layer {
  char name[TAGC_LIVE_NAME], codec[16]; /* name "": not told yet */
  bool gathers, again;                  /* an all-gather; of unchanged data */
  uint64_t calls, compressed;
  double sent, plain;     /* bytes of the compressed calls; of several hosts, to other hosts */
  double error, residual; /* the last samples; NaN: none */
};

struct tagc_live_comm {
  int32_t rank, nranks; /* -1: unknown */
  uint32_t hosts;
  bool on_host, gradients;
  uint64_t identity;
  double bytes; /* of its calls' buffers */
  uint32_t lock;
  char model[TAGC_LIVE_NAME]; /* of its slots */
  struct tagc_live_layer *layers;
  size_t layer_count;
  uint64_t steps;             /* that have ended */
  struct tagc_live_sums last; /* those of the process when the last one ended */
  struct {
    double ns; /* NaN: disturbed, no measurement */
    struct tagc_live_sums sums;
  } recent[TAGC_LIVE_RECENT]; /* a ring: step n is at n % TAGC_LIVE_RECENT */
  struct tagc_ab_windows ab;
  uint64_t reasons[TAGC_LIVE_REASONS]; /* of calls in slots, and all-gathers of parameters */
};

struct tagc_live_rank {
  char *path;
  struct tagc_follow follow;
  int32_t pid;
  char host[TAGC_LIVE_NAME], program[TAGC_LIVE_NAME];
  bool sides;      /* TAGC_MODE=ab */
  uint64_t window; /* TAGC_AB */
  bool ended;
  struct tagc_live_sums sums;
  struct tagc_live_comm *comms; /* by number in the trace, from 1 */
  size_t comm_count;
  char *reasons[TAGC_LIVE_REASONS]; /* words of codes */
  bool no_memory;
};

struct tagc_live {
  double began; /* when somebody began to look, in seconds since 1970 */
  struct tagc_live_rank *ranks;
  size_t count;
  bool no_memory;
};

/* Reads what is new in these traces, of which some may be new themselves, and some may come later. */
void tagc_live_read(struct tagc_live *live, const struct tagc_paths *paths);

/* GONE: all ranks have ended or are silent for TAGC_LIVE_GONE_SECONDS, or none has come in that time. */
enum tagc_live_state { TAGC_LIVE_RUNNING, TAGC_LIVE_GONE, TAGC_LIVE_ENDED };
enum tagc_live_state tagc_live_state(const struct tagc_live *live, double now);
void tagc_live_free(struct tagc_live *live);

/* The communicator whose cycles are the steps of a process; NULL: none yet. */
struct tagc_live_comm *tagc_live_main(const struct tagc_live_rank *rank);
/* Is the process of the same job as the one that wrote last? */
bool tagc_live_is_of_job(const struct tagc_live *live, const struct tagc_live_rank *rank);

struct tagc_live_screen {
  size_t columns, rows; /* rows 0: as many as it takes */
  bool terminal;        /* with colours; every line clears the rest of its line */
  bool colours;
  double now; /* seconds since 1970 */
};

/* Draws it. Pure but for the file. */
void tagc_live_draw(const struct tagc_live *live, const struct tagc_live_screen *screen, FILE *to);

/* Shows the job of these words until the user or the job ends it. Returns the exit status. */
int tagc_live_run(const char *program, char *const *words, double interval);

#endif
