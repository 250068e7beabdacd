/* SPDX-License-Identifier: BSD-3-Clause
 * See launch_output.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/standin/launch_output.h"

static int output_error;

int launch_output_error(void) { return output_error; }

static void write_all(int to, const char *data, size_t size) {
  while (size) {
    ssize_t written = write(to, data, size);
    if (written < 0 && errno != EINTR) { /* the output is lost, but the ranks may finish */
      if (errno != EPIPE && !output_error)
        output_error = errno;
      return;
    }
    data += written > 0 ? written : 0;
    size -= written > 0 ? (size_t)written : 0;
  }
}

/* One line with its prefix, in one piece. */
static void put_line(int rank, int to, const char *line, size_t size) {
  char *text = NULL;
  int prefix = asprintf(&text, "[%d] ", rank);
  char *whole = prefix > 0 ? realloc(text, (size_t)prefix + size + 1) : NULL;
  if (whole) {
    memcpy(whole + prefix, line, size);
    whole[(size_t)prefix + size] = '\n';
    write_all(to, whole, (size_t)prefix + size + 1);
  }
  free(whole ? whole : text);
}

static void put_complete_lines(int rank, struct stream *stream) {
  char *begin = stream->line, *limit = stream->line + stream->size, *newline;
  while ((newline = memchr(begin, '\n', (size_t)(limit - begin)))) {
    put_line(rank, stream->to, begin, (size_t)(newline - begin));
    begin = newline + 1;
  }
  stream->size = (size_t)(limit - begin);
  memmove(stream->line, begin, stream->size);
}

void launch_close_stream(int rank, struct stream *stream) {
  if (stream->size)
    put_line(rank, stream->to, stream->line, stream->size);
  close(stream->from);
  free(stream->line);
  *stream = (struct stream){.from = -1};
}

bool launch_read_stream(int rank, struct stream *stream) {
  if (stream->room - stream->size < 4096) {
    char *larger = realloc(stream->line, stream->room + 65536);
    if (!larger) {
      launch_close_stream(rank, stream);
      return false;
    }
    stream->line = larger;
    stream->room += 65536;
  }
  ssize_t got = read(stream->from, stream->line + stream->size, stream->room - stream->size);
  if (got < 0)
    return errno == EINTR;
  if (got == 0) {
    launch_close_stream(rank, stream);
    return false;
  }
  stream->size += (size_t)got;
  put_complete_lines(rank, stream);
  return true;
}
