/* SPDX-License-Identifier: BSD-3-Clause
 * Statistics of calls and sent bytes: NCCL_STANDIN_STATS=PREFIX writes PREFIX.RANK (PREFIX.PID without RANK) at the end
 * of the process.
 *
 * Tab-separated: one header line, then one line per call in call order. The columns are index, function, communicator
 * (ordinal of its creation in this process), count, datatype (NCCL's number), payload bytes sent to other ranks,
 * microseconds, how many of the bytes went to ranks of other hosts, and the fields of its configuration that are set.
 * Columns without a meaning for a call hold "-". The lines stay in memory until then. The process that made the calls
 * writes the file, not its forks. Any thread.
 */
#include "tests/standin/standin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct line {
  const char *function;
  int64_t comm_id;
  size_t count;
  int type;
  size_t payload[2]; /* by enum way */
  int64_t nanoseconds;
  char config[STANDIN_CONFIG_TEXT];
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *prefix;
static struct line *lines;
static size_t nlines, capacity;
static pid_t owner;

static void setup(void) {
  prefix = getenv("NCCL_STANDIN_STATS");
  owner = getpid();
}

size_t standin_stats_begin(const char *function, int64_t comm_id, size_t count, int type) {
  pthread_once(&once, setup);
  if (!prefix)
    return STANDIN_NO_LINE;
  size_t index = STANDIN_NO_LINE;
  pthread_mutex_lock(&lock);
  if (nlines == capacity) {
    size_t larger = capacity ? 2 * capacity : 1024;
    struct line *moved = realloc(lines, larger * sizeof *lines);
    if (moved) {
      lines = moved;
      capacity = larger;
    }
  }
  if (nlines < capacity) {
    index = nlines++;
    lines[index] = (struct line){.function = function, .comm_id = comm_id, .count = count, .type = type};
  }
  pthread_mutex_unlock(&lock);
  return index;
}

void standin_stats_configured(size_t index, const ncclCollConfig_t *config) {
  if (index == STANDIN_NO_LINE || !config)
    return;
  pthread_mutex_lock(&lock);
  standin_coll_config_text(config, lines[index].config);
  pthread_mutex_unlock(&lock);
}

void standin_stats_sent(size_t index, enum way way, size_t payload) {
  if (index == STANDIN_NO_LINE)
    return;
  pthread_mutex_lock(&lock);
  lines[index].payload[way] += payload;
  pthread_mutex_unlock(&lock);
}

void standin_stats_took(size_t index, int64_t nanoseconds) {
  if (index == STANDIN_NO_LINE)
    return;
  pthread_mutex_lock(&lock);
  lines[index].nanoseconds += nanoseconds;
  pthread_mutex_unlock(&lock);
}

static void print_line(FILE *file, size_t index) {
  const struct line *line = &lines[index];
  fprintf(file, "%zu\t%s\t", index, line->function);
  if (line->comm_id < 0)
    fprintf(file, "-\t");
  else
    fprintf(file, "%" PRId64 "\t", line->comm_id);
  fprintf(file, "%zu\t", line->count);
  if (line->type < 0)
    fprintf(file, "-\t");
  else
    fprintf(file, "%d\t", line->type);
  fprintf(file, "%zu\t%.1f\t%zu\t%s\n", line->payload[WAY_BETWEEN] + line->payload[WAY_INSIDE],
          (double)line->nanoseconds / 1e3, line->payload[WAY_BETWEEN], *line->config ? line->config : "-");
}

__attribute__((destructor)) static void write_file(void) {
  if (!nlines || getpid() != owner)
    return;
  char path[4096];
  const char *rank = getenv("RANK");
  if (rank)
    snprintf(path, sizeof path, "%s.%s", prefix, rank);
  else
    snprintf(path, sizeof path, "%s.%ld", prefix, (long)owner);
  FILE *file = fopen(path, "we");
  if (!file) {
    fprintf(stderr, "NCCL stand-in: cannot write %s: %m\n", path);
    return;
  }
  fprintf(file, "index\tfunction\tcomm\tcount\tdatatype\tpayload_bytes\tmicroseconds\tbetween_bytes\tconfig\n");
  pthread_mutex_lock(&lock); /* streams may still be at work */
  for (size_t i = 0; i < nlines; i++)
    print_line(file, i);
  pthread_mutex_unlock(&lock);
  fclose(file);
}
