/* SPDX-License-Identifier: BSD-3-Clause */
#include "interpose/tagc-report/live/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD_MOST = 1 << 12, CHUNK_HEAD = sizeof(struct tagc_trace_chunk) };

/* A piece of a file in memory: its head, and then bytes from some place on. */
struct piece {
  unsigned char *bytes;
  size_t head, size; /* size: with the head */
};

static size_t read_some(int file, unsigned char *to, size_t size, uint64_t at) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = pread(file, to + done, size - done, (off_t)(at + done));
    if (n == 0 || (n < 0 && errno != EINTR))
      break;
    done += n > 0 ? (size_t)n : 0;
  }
  return done;
}

/* The bytes of whole chunks; where one may begin that is not whole, they end. */
static size_t whole_bytes(const unsigned char *bytes, size_t size) {
  static const uint32_t magic = TAGC_TRACE_CHUNK_MAGIC;
  size_t at = 0;
  while (size - at >= CHUNK_HEAD) {
    struct tagc_trace_chunk chunk;
    memcpy(&chunk, bytes + at, sizeof chunk);
    if (chunk.magic == magic && chunk.bytes <= TAGC_TRACE_CHUNK_MOST) {
      if (size - at - CHUNK_HEAD < chunk.bytes)
        return at;
      at += CHUNK_HEAD + chunk.bytes;
    } else { /* damaged: the next one may begin anywhere */
      const unsigned char *next = memmem(bytes + at + 1, size - at - 1, &magic, sizeof magic);
      at = next ? (size_t)(next - bytes) : size - (sizeof magic - 1);
    }
  }
  return at;
}

/* The bytes of the file's head; 0: it is not whole yet. */
static size_t head_bytes(const unsigned char *bytes, size_t size) {
  struct tagc_trace_head head;
  if (size < sizeof head)
    return 0;
  memcpy(&head, bytes, sizeof head);
  const bool usual = memcmp(head.magic, TAGC_TRACE_MAGIC, sizeof head.magic) == 0 && head.head_bytes >= sizeof head &&
                     head.head_bytes <= HEAD_MOST;
  return !usual ? sizeof head : head.head_bytes <= size ? head.head_bytes : 0; /* a strange one is refused with words */
}

static void give_records(struct tagc_follow *f, const struct piece *piece, tagc_follow_take *take, void *context) {
  struct tagc_trace_file *trace = tagc_trace_open_bytes(f->path, piece->bytes, piece->size, f->why);
  if (!trace)
    return;
  *f->why = '\0';
  for (const struct tagc_trace_record *record; (record = tagc_trace_next(trace));)
    take(context, record);
  tagc_trace_close(trace);
}

/* Reads what is new, at most TAGC_FOLLOW_MOST bytes. False: there is no more. */
static bool read_piece(struct tagc_follow *f, int file, unsigned char *room, tagc_follow_take *take, void *context) {
  struct piece piece = {.bytes = room};
  const size_t first = read_some(file, room, HEAD_MOST, 0);
  piece.head = head_bytes(room, first);
  if (!piece.head)
    return false;
  if (f->at < piece.head)
    f->at = piece.head;
  const size_t got = read_some(file, room + piece.head, TAGC_FOLLOW_MOST, f->at),
               whole = whole_bytes(room + piece.head, got);
  piece.size = piece.head + whole;
  if (!whole && memcmp(room, TAGC_TRACE_MAGIC, sizeof TAGC_TRACE_MAGIC - 1) == 0)
    return false;
  give_records(f, &piece, take, context);
  if (*f->why) /* refused, and next time again */
    return false;
  f->at += whole;
  return whole > 0;
}

/* A file of the name may be another one, if its folder was made anew. */
static bool has_shrunk(struct tagc_follow *f, const struct stat *about) { return (uint64_t)about->st_size < f->at; }

void tagc_follow_read(struct tagc_follow *f, tagc_follow_take *take, void *context) {
  struct stat about;
  const int file = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  unsigned char *room = NULL;
  if (file < 0 || fstat(file, &about) != 0) {
    snprintf(f->why, sizeof f->why, "%.200s: %s", f->path, strerror(errno));
  } else if (!S_ISREG(about.st_mode) || has_shrunk(f, &about)) {
    snprintf(f->why, sizeof f->why, "%.200s: %s", f->path,
             S_ISREG(about.st_mode) ? "it was replaced" : "it is no file");
  } else if (!(room = malloc(HEAD_MOST + TAGC_FOLLOW_MOST))) {
    snprintf(f->why, sizeof f->why, "%.200s: no memory", f->path);
  } else {
    *f->why = '\0';
    f->changed = (double)about.st_mtim.tv_sec + 1e-9 * (double)about.st_mtim.tv_nsec;
    while (read_piece(f, file, room, take, context))
      ;
  }
  free(room);
  if (file >= 0)
    close(file);
}
