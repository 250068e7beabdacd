/* SPDX-License-Identifier: BSD-3-Clause
 * Reads traces; see records.h.
 *
 * A chunk with a right sum is trusted. Behind a bad one, every byte may start the next, as lost data has any length. A
 * crafted file could make this search read false chunks over and over: their bytes are limited.
 */
#include "interpose/tagc-report/read/records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env/hash.h"

enum { HEADER = sizeof(struct tagc_trace_chunk), WINDOW = 2 * (HEADER + TAGC_TRACE_CHUNK_MOST) };

struct tagc_trace_file {
  char *path;
  int file; /* -1: bytes in memory */
  const unsigned char *bytes;
  uint64_t size;
  unsigned char *window; /* WINDOW bytes: `window_size` bytes of the file from `window_at` */
  uint64_t window_at;
  size_t window_size;
  uint64_t at;                     /* place of the next chunk, or of the search */
  uint64_t searched;               /* bytes of false chunks */
  uint64_t expected;               /* number of the next chunk */
  const unsigned char *next, *end; /* in the window: records of this chunk */
  struct tagc_trace_head head;
  struct tagc_trace_health health;
  union {
    struct tagc_trace_record record;
    struct tagc_trace_call call;
    struct tagc_trace_times times;
    struct tagc_trace_state state;
  } completed; /* the latest completed record of an older version */
};

/* -- bytes --------------------------------------------------------------------------------------------------------- */

static size_t read_at(struct tagc_trace_file *f, unsigned char *to, size_t size, uint64_t at) {
  size_t done = 0;
  if (at >= f->size)
    return 0;
  size = f->size - at < size ? (size_t)(f->size - at) : size;
  if (f->file < 0) {
    memcpy(to, f->bytes + at, size);
    return size;
  }
  while (done < size) {
    ssize_t n = pread(f->file, to + done, size - done, (off_t)(at + done));
    if (n == 0 || (n < 0 && errno != EINTR))
      break; /* the file was truncated, or is unreadable there: treat as its end */
    done += n > 0 ? (size_t)n : 0;
  }
  return done;
}

/* At least `size` bytes (at most WINDOW / 2) from `at` on, or as many as exist. */
static unsigned char *look(struct tagc_trace_file *f, uint64_t at, size_t size, size_t *got) {
  uint64_t offset = at - f->window_at;
  if (at < f->window_at || offset > f->window_size ||
      (f->window_size - offset < size && f->window_at + f->window_size < f->size)) {
    f->window_size = read_at(f, f->window, WINDOW, at);
    f->window_at = at;
    offset = 0;
    if (f->window_size < WINDOW)
      f->size = at + f->window_size;
  }
  *got = f->window_size - (size_t)offset;
  return f->window + offset;
}

/* -- chunks -------------------------------------------------------------------------------------------------------- */

enum found { NOTHING, WHOLE, CUT };

static bool is_record(const unsigned char *at, size_t left) {
  struct tagc_trace_record record;
  if (left < sizeof record)
    return false;
  memcpy(&record, at, sizeof record);
  return record.bytes >= sizeof record && record.bytes % 8 == 0 && record.bytes <= left &&
         record.bytes <= TAGC_TRACE_RECORD_MOST;
}

/* Tests for a chunk at `at`. If the end of the file cuts it, its sum cannot be checked. */
static enum found chunk_at(struct tagc_trace_file *f, uint64_t at, struct tagc_trace_chunk *chunk) {
  size_t got;
  const unsigned char *bytes = look(f, at, HEADER, &got);
  if (got < HEADER)
    return NOTHING;
  memcpy(chunk, bytes, HEADER);
  if (chunk->magic != TAGC_TRACE_CHUNK_MAGIC || chunk->bytes % 8 || chunk->bytes > TAGC_TRACE_CHUNK_MOST)
    return NOTHING;
  bytes = look(f, at, HEADER + chunk->bytes, &got);
  if (got < HEADER + chunk->bytes)
    return CUT;
  struct tagc_trace_chunk unsummed = *chunk;
  unsummed.sum = 0;
  uint64_t sum = tagc_hash_add(tagc_hash_add(TAGC_HASH_START, &unsummed, HEADER), bytes + HEADER, chunk->bytes);
  if (sum == chunk->sum)
    return WHOLE;
  f->searched += chunk->bytes;
  return NOTHING;
}

static bool find_chunk(struct tagc_trace_file *f, uint64_t from, uint64_t *at, struct tagc_trace_chunk *chunk) {
  static const uint32_t magic = TAGC_TRACE_CHUNK_MAGIC;
  uint64_t limit = 4 * f->size + 4 * TAGC_TRACE_CHUNK_MOST;
  size_t got;
  for (*at = from; f->searched <= limit;) {
    const unsigned char *bytes = look(f, *at, sizeof magic, &got);
    const unsigned char *found = got < sizeof magic ? NULL : memmem(bytes, got, &magic, sizeof magic);
    if (!found && (got < sizeof magic || *at + got >= f->size))
      return false;
    *at += found ? (size_t)(found - bytes) : got + 1 - sizeof magic;
    if (!found)
      continue;
    if (chunk_at(f, *at, chunk) == WHOLE)
      return true;
    ++*at;
  }
  return false;
}

/* Makes its records the next: moves them to an aligned place, over the header. */
static void take_chunk(struct tagc_trace_file *f, uint64_t at, size_t bytes) {
  size_t got;
  unsigned char *records = look(f, at, HEADER + bytes, &got) + HEADER;
  size_t off = (uintptr_t)records % 8;
  if (off)
    memmove(records - off, records, bytes);
  f->next = records - off;
  f->end = f->next + bytes;
  f->at = at + HEADER + bytes;
}

/* Skips bytes up to `at`, which belong to no chunk. */
static void skip_to(struct tagc_trace_file *f, uint64_t at) {
  f->health.skipped_bytes += at - f->at;
  f->at = at;
}

/* No whole chunk follows `at`: takes the records of a cut chunk, if any. */
static bool take_rest(struct tagc_trace_file *f, uint64_t at, enum found found, const struct tagc_trace_chunk *chunk) {
  bool cut = found == CUT && chunk->number == f->expected;
  f->health.cut = cut || f->size - at < HEADER;
  f->health.damaged_chunks += !f->health.cut;
  if (cut) {
    take_chunk(f, at, (size_t)(f->size - at - HEADER) & ~(size_t)7);
    f->health.skipped_bytes += f->size - f->at;
  } else
    skip_to(f, f->size);
  f->at = f->size;
  return cut;
}

/* Goes on to the next whole chunk that is no repetition. */
static bool next_chunk(struct tagc_trace_file *f) {
  while (f->at < f->size) {
    struct tagc_trace_chunk chunk, first;
    uint64_t at = f->at;
    enum found found = chunk_at(f, at, &first);
    chunk = first;
    if (found != WHOLE && !find_chunk(f, f->at + 1, &at, &chunk))
      return take_rest(f, f->at, found, &first);
    skip_to(f, at);
    if (chunk.number < f->expected) {
      f->health.damaged_chunks++; /* a repetition */
      skip_to(f, at + HEADER + chunk.bytes);
      continue;
    }
    take_chunk(f, at, chunk.bytes);
    f->health.chunks++;
    f->health.damaged_chunks += chunk.number - f->expected;
    f->health.dropped = chunk.dropped > f->health.dropped ? chunk.dropped : f->health.dropped;
    f->expected = chunk.number + (chunk.number < UINT64_MAX);
    return true;
  }
  return false;
}

/* -- records ------------------------------------------------------------------------------------------------------- */

/* The length of a record without its texts. `since`: its length in its first version. Shorter ones get completed. */
static const struct {
  uint16_t bytes, since;
  bool texts;
} kinds[] = {
  [TAGC_TRACE_PROCESS] = {sizeof(struct tagc_trace_process), sizeof(struct tagc_trace_process), true},
  [TAGC_TRACE_NAME] = {sizeof(struct tagc_trace_name), sizeof(struct tagc_trace_name), true},
  [TAGC_TRACE_OPTIONS] = {sizeof(struct tagc_trace_options), sizeof(struct tagc_trace_options), true},
  [TAGC_TRACE_COMM] = {sizeof(struct tagc_trace_comm), sizeof(struct tagc_trace_comm), false},
  [TAGC_TRACE_COMM_END] = {sizeof(struct tagc_trace_comm_end), sizeof(struct tagc_trace_comm_end), false},
  [TAGC_TRACE_LOCK] = {sizeof(struct tagc_trace_lock), sizeof(struct tagc_trace_lock), true},
  [TAGC_TRACE_SLOT] = {sizeof(struct tagc_trace_slot), sizeof(struct tagc_trace_slot), true},
  [TAGC_TRACE_CALL] = {sizeof(struct tagc_trace_call), offsetof(struct tagc_trace_call, allgather), false},
  [TAGC_TRACE_TIMES] = {sizeof(struct tagc_trace_times), offsetof(struct tagc_trace_times, hidden_ns), false},
  [TAGC_TRACE_CYCLE] = {sizeof(struct tagc_trace_cycle), sizeof(struct tagc_trace_cycle), false},
  [TAGC_TRACE_STATE] = {sizeof(struct tagc_trace_state), offsetof(struct tagc_trace_state, allgather), false},
  [TAGC_TRACE_END] = {sizeof(struct tagc_trace_end), sizeof(struct tagc_trace_end), false},
  [TAGC_TRACE_ALLGATHER] = {sizeof(struct tagc_trace_allgather), sizeof(struct tagc_trace_allgather), true},
  [TAGC_TRACE_VOTE] = {sizeof(struct tagc_trace_vote), sizeof(struct tagc_trace_vote), true},
  [TAGC_TRACE_PROFILE] = {sizeof(struct tagc_trace_profile), sizeof(struct tagc_trace_profile), false},
};
_Static_assert(sizeof kinds / sizeof *kinds == TAGC_TRACE_KINDS, "every kind has its length");

static bool accept(struct tagc_trace_file *f, const struct tagc_trace_record *record) {
  if (record->kind == 0 || record->kind >= TAGC_TRACE_KINDS) {
    f->health.unknown_records++;
    return false;
  }
  size_t least = kinds[record->kind].since + (size_t)kinds[record->kind].texts;
  if (record->bytes < least || (kinds[record->kind].texts && ((const char *)record)[record->bytes - 1] != '\0')) {
    f->health.refused_records++;
    return false;
  }
  return true;
}

/* The record in this version's length. */
static const struct tagc_trace_record *complete_record(struct tagc_trace_file *f,
                                                       const struct tagc_trace_record *record) {
  const uint16_t bytes = kinds[record->kind].bytes;
  if (kinds[record->kind].texts || record->bytes >= bytes)
    return record;
  memset(&f->completed, 0, sizeof f->completed);
  memcpy(&f->completed, record, record->bytes);
  f->completed.record.bytes = bytes;
  return &f->completed.record;
}

const struct tagc_trace_record *tagc_trace_next(struct tagc_trace_file *f) {
  do {
    while (f->next < f->end) {
      const struct tagc_trace_record *record = (const void *)f->next;
      if (!is_record(f->next, (size_t)(f->end - f->next))) {
        f->health.refused_records += !f->health.cut;
        f->health.skipped_bytes += (uint64_t)(f->end - f->next);
        f->next = f->end;
        break;
      }
      f->next += record->bytes;
      if (!accept(f, record))
        continue;
      f->health.records++;
      if (record->kind == TAGC_TRACE_END) {
        const struct tagc_trace_end *end = (const void *)record;
        f->health.ended = true;
        f->health.bounded |= end->bounded != 0;
        f->health.dropped = end->dropped > f->health.dropped ? end->dropped : f->health.dropped;
      }
      return complete_record(f, record);
    }
  } while (next_chunk(f));
  return NULL;
}

const char *tagc_trace_text(const struct tagc_trace_record *record, const char *texts, unsigned i) {
  const char *end = (const char *)record + record->bytes;
  while (i-- && texts < end)
    texts += strlen(texts) + 1;
  return texts < end ? texts : "";
}

/* -- files --------------------------------------------------------------------------------------------------------- */

/* Describes the error in the head; NULL: none. */
static const char *judge_head(const struct tagc_trace_head *head, size_t got, char words[128]) {
  if (got == 0)
    return "the file is empty: the process was killed before it wrote anything, or runs still";
  if (memcmp(head->magic, TAGC_TRACE_MAGIC, got < sizeof head->magic ? got : sizeof head->magic) != 0)
    return "this is no trace: it does not begin as TAGC_TRACE writes them";
  if (got < sizeof *head)
    return "the file ends inside its head: nothing else of it is left";
  if (head->order == __builtin_bswap32(TAGC_TRACE_ORDER))
    return "it was written by a machine with the other byte order, and can be read on one";
  if (head->order != TAGC_TRACE_ORDER)
    return "its head is damaged";
  if (head->major != TAGC_TRACE_MAJOR) {
    snprintf(words, 128, "it has version %u.%u of the format; this program reads %d.x", head->major, head->minor,
             TAGC_TRACE_MAJOR);
    return words;
  }
  return NULL;
}

bool tagc_trace_rewind(struct tagc_trace_file *f) {
  struct stat status;
  if (f->file >= 0 && fstat(f->file, &status) == 0)
    f->size = (uint64_t)status.st_size;
  f->health = (struct tagc_trace_health){.bytes = f->size, .major = f->head.major, .minor = f->head.minor};
  f->next = f->end = f->window;
  f->window_size = 0;
  f->window_at = UINT64_MAX; /* empty */
  f->expected = f->searched = 0;
  f->at = f->head.head_bytes;
  if (f->at < sizeof f->head || f->at > TAGC_TRACE_CHUNK_MOST)
    f->at = sizeof f->head; /* damaged; the search finds the first chunk */
  return true;
}

/* Begins to read; closes a file that is no trace. */
static struct tagc_trace_file *begin_file(struct tagc_trace_file *f, char why[TAGC_TRACE_WHY]) {
  char words[128];
  size_t got = read_at(f, (unsigned char *)&f->head, sizeof f->head, 0);
  const char *wrong = judge_head(&f->head, got, words);
  if (!wrong) {
    tagc_trace_rewind(f);
    return f;
  }
  snprintf(why, TAGC_TRACE_WHY, "%.100s: %s", f->path, wrong);
  tagc_trace_close(f);
  return NULL;
}

static struct tagc_trace_file *new_file(const char *path) {
  struct tagc_trace_file *f = calloc(1, sizeof *f);
  if (!f)
    return NULL;
  f->file = -1;
  f->path = strdup(path);
  f->window = malloc(WINDOW);
  if (f->path && f->window)
    return f;
  tagc_trace_close(f);
  return NULL;
}

struct tagc_trace_file *tagc_trace_open(const char *path, char why[TAGC_TRACE_WHY]) {
  struct stat status;
  struct tagc_trace_file *f = new_file(path);
  const char *wrong = NULL;
  if (!f)
    wrong = "no memory";
  else if ((f->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) < 0 || fstat(f->file, &status) != 0)
    wrong = strerror(errno);
  else if (!S_ISREG(status.st_mode))
    wrong = S_ISDIR(status.st_mode) ? strerror(EISDIR) : "this is no file";
  if (wrong) {
    snprintf(why, TAGC_TRACE_WHY, "%.100s: %s", path, wrong);
    tagc_trace_close(f);
    return NULL;
  }
  f->size = (uint64_t)status.st_size;
  return begin_file(f, why);
}

struct tagc_trace_file *tagc_trace_open_bytes(const char *path, const void *bytes, size_t size,
                                              char why[TAGC_TRACE_WHY]) {
  struct tagc_trace_file *f = new_file(path);
  if (!f) {
    snprintf(why, TAGC_TRACE_WHY, "%.100s: no memory", path);
    return NULL;
  }
  f->bytes = bytes;
  f->size = size;
  return begin_file(f, why);
}

const struct tagc_trace_health *tagc_trace_health(const struct tagc_trace_file *f) { return &f->health; }

void tagc_trace_close(struct tagc_trace_file *f) {
  if (!f)
    return;
  if (f->file >= 0)
    close(f->file);
  free(f->window);
  free(f->path);
  free(f);
}
