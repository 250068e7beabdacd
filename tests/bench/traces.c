/* SPDX-License-Identifier: BSD-3-Clause
 * Writes traces of a long run to measure tagc-report with (see RESULTS.md): FOLDER/long-RANK.trace of RANKS ranks with
 * CALLS calls each, 100 in a step.
 *   tests/bench/traces FOLDER RANKS CALLS
 */
#include "tests/unit/tagc-report/make.h"

int main(int argc, char **argv) {
  struct trace_job job = trace_job_usual(argc == 4 ? atoi(argv[2]) : 0, 0, 33);
  long calls = argc == 4 ? atol(argv[3]) : 0;
  if (job.ranks < 1 || calls < 300) {
    fprintf(stderr, "usage: tests/bench/traces FOLDER RANKS CALLS\n");
    return 2;
  }
  job.hosts = job.ranks > 4 ? job.ranks / 4 : job.ranks;
  job.steps = (unsigned)(calls / 100) - job.warmup;
  job.window = 20;
  job.jitter_ns = 1000000;
  for (char **path = trace_job_write(&job, argv[1], "long"); *path; path++)
    puts(*path);
  return 0;
}
